#include "control-managers/cluster-manager/schema.h"

#include <stddef.h>
#include <string.h>

#define AT(member) offsetof(struct cluster_config, member)

static const char *const tls_words[] = { "auto", "on", "off", "allow", NULL };
static const char *const wait_words[] = { "in-line", "fail", NULL };
static const char *const elastic_words[] = { "off", "advise", "act", NULL };
static const char *const log_words[] = { "error", "warning", "info", "debug", NULL };
static const char *const role_words[] = { "admin", "operator", "viewer", NULL };
const char *const cluster_policies[] = { "best-fit", "spread", "first-fit", NULL };

static const struct config_key keys[] = {
    { "vm-resource-db.uri", CONFIG_STRING, AT(db_uri), "sqlite:///var/lib/flyt/cluster/flyt.db",
      .help = "where the resource DB is: sqlite:///path or mongodb://host:port/database" },
    { "vm-resource-db.host", CONFIG_STRING, AT(db_host), "",
      .help = "MongoDB's host; given, it takes the place of uri" },
    { "vm-resource-db.port", CONFIG_PORT, AT(db_port), "27017", .help = "MongoDB's port" },
    { "vm-resource-db.user", CONFIG_STRING, AT(db_user), "", .help = "MongoDB's user" },
    { "vm-resource-db.password", CONFIG_SECRET, AT(db_password), "", .help = "where the password is" },
    { "vm-resource-db.dbname", CONFIG_STRING, AT(db_name), "flyt", .help = "name of the database in MongoDB" },
    { "ports.address", CONFIG_STRING, AT(address), "127.0.0.1",
      .help = "address to listen on; 0.0.0.0 or ::: on all of this machine" },
    { "ports.node", CONFIG_PORT, AT(node_port), "12401", .help = "port for node managers" },
    { "ports.client", CONFIG_PORT, AT(client_port), "12402", .help = "port for client managers and for flytctl" },
    { "ipc.frontend-socket", CONFIG_PATH, AT(socket), "/run/flyt/cluster-manager.sock",
      .help = "unix socket for flytctl; root and this daemon's user may use it" },
    { "ipc.frontend-group", CONFIG_STRING, AT(socket_group), "", .help = "members of this group may use it too" },
    { "ipc.frontend-role", CONFIG_CHOICE, AT(socket_role), "admin", .choices = role_words, .reload = true,
      .help = "what members of that group may do: admin: everything; operator: all but to change who is in the "
              "cluster; viewer: only look" },
    { "virt-server-auto-deallocate.enabled", CONFIG_BOOL, AT(deallocate), "true", .reload = true,
      .help = "take back the server of a VM that runs no program" },
    { "virt-server-auto-deallocate.grace-period", CONFIG_SECONDS, AT(grace), "60", 0, 1e7, .reload = true,
      .help = "seconds without a program before that; at once if another program waits that could use its place" },
    { "placement.policy", CONFIG_CHOICE, AT(policy), "best-fit", .choices = cluster_policies, .reload = true,
      .help = "which of the GPUs that fit is taken" },
    { "placement.overcommit-sms", CONFIG_NUMBER, AT(overcommit_sms), "1", 1, 1000, .reload = true,
      .help = "factor by which the SMs of a GPU may be promised; 1: never more than there are" },
    { "placement.overcommit-memory", CONFIG_NUMBER, AT(overcommit_memory), "1", 1, 1000, .reload = true,
      .help = "the same for memory" },
    { "placement.wait", CONFIG_CHOICE, AT(wait), "in-line", .choices = wait_words, .when_true = "in-line",
      .when_false = "fail", .reload = true,
      .help = "a program that finds no free GPU waits in the queue or fails; a VM may have its own rule" },
    { "placement.wait-seconds", CONFIG_SECONDS, AT(wait_seconds), "3600", 0, 1e7, .reload = true,
      .help = "the longest that it waits; 0: for ever" },
    { "placement.sharing", CONFIG_SHARING, AT(sharing), "exclusive,mig,time-slice", .reload = true,
      .help = "kinds of sharing for a VM that names none" },
    { "placement.ungrouped-programs", CONFIG_INT, AT(ungrouped_programs), "4", 1, 1000, .reload = true,
      .help = "with vm-grouping off each program's server has this part (1/n) of what the VM is entitled to" },
    { "placement.overtaking", CONFIG_INT, AT(overtaking), "16", 0, 1000000, .reload = true,
      .help = "how often the first of the queue may be overtaken by smaller requests before a GPU is kept for it" },
    { "placement.failed-starts", CONFIG_INT, AT(failed_starts), "3", 0, 1000000, .reload = true,
      .help =
          "how many GPU servers in a row must fail to start on a GPU before it counts as degraded, and gets nothing "
          "but a try now and then; 0: never" },
    { "elastic.policy", CONFIG_CHOICE, AT(elastic_policy), "advise", .choices = elastic_words, .reload = true,
      .help = "moves of running programs that let the first of the queue begin, or, with placement.policy = spread, "
              "even the load of GPUs; off: none; advise: an event says which; act: they are carried out" },
    { "elastic.moves", CONFIG_INT, AT(elastic_moves), "2", 1, 1000, .reload = true,
      .help = "how many of these moves may run at a time" },
    { "elastic.pause", CONFIG_SECONDS, AT(elastic_pause), "600", 0, 1e7, .reload = true,
      .help = "seconds for which a program is left alone that has begun to move, whoever asked for it" },
    { "elastic.margin", CONFIG_NUMBER, AT(elastic_margin), "25", 1, 100, .reload = true,
      .help = "by how many percent of a GPU the load of the more loaded of the two GPUs must fall for a move to be "
              "worth it" },
    { "elastic.at-once", CONFIG_INT, AT(elastic_at_once), "8", 0, 1000, .reload = true,
      .help = "at most so many programs move, are suspended, resumed or saved at a time, whoever asked for it; others "
              "wait; 0: any number" },
    { "elastic.node-bandwidth", CONFIG_INT, AT(elastic_bandwidth), "0", 0, 1000000, .reload = true,
      .help = "MiB a second that all moves to and from one node may copy together; 0: any. Programs whose library or "
              "client manager is of an earlier release do not keep to it" },
    { "silence.suspect", CONFIG_SECONDS, AT(suspect), "6", 1, 3600, .reload = true,
      .help = "seconds of silence after which a node is suspect" },
    { "silence.lost", CONFIG_SECONDS, AT(lost), "30", 2, 1e6, .reload = true,
      .help = "seconds after which it and its servers are lost" },
    { "silence.client-lost", CONFIG_SECONDS, AT(client_lost), "60", 2, 1e6, .reload = true,
      .help = "seconds after which a VM's programs are taken for ended, unless a server still serves them" },
    { "silence.suspended", CONFIG_SECONDS, AT(suspended), "30", 1, 1e6, .reload = true,
      .help = "seconds of silence after which a VM that is still connected counts as suspended" },
    { "silence.reclaimed", CONFIG_SECONDS, AT(reclaimed), "600", 2, 1e6, .reload = true,
      .help = "seconds after which the GPU servers of a suspended VM are stopped" },
    { "silence.start", CONFIG_SECONDS, AT(start_seconds), "60", 1, 3600, .reload = true,
      .help = "seconds in which a server must have started" },
    { "security.node-secret", CONFIG_SECRET, AT(node_secret), "",
      .help = "where the secret is that lets nodes join which have none of their own (flytctl node add); none: they "
              "cannot" },
    { "security.admin-secret", CONFIG_SECRET, AT(admin_secret), "",
      .help = "where the secret is for flytctl on other machines; none: only certificates" },
    { "security.tls", CONFIG_CHOICE, AT(tls), "auto", .choices = tls_words,
      .help = "auto: on once there are certificates; on: TLS only; allow: peers without it as well, to move a cluster "
              "to TLS" },
    { "security.tls-folder", CONFIG_PATH, AT(tls_folder), "/etc/flyt/tls",
      .help = "folder with ca.crt, cluster.crt and cluster.key" },
    { "security.certificate-days", CONFIG_NUMBER, AT(certificate_days), "90", 0.0001, 3650, .reload = true,
      .help = "days for which the certificates hold that nodes and VMs are given when theirs come to an end, once "
              "tls-folder has issuer.crt and issuer.key (flytctl ca issue DIR issuer NAME)" },
    { "security.ticket-key", CONFIG_PATH, AT(ticket_key), "/var/lib/flyt/cluster/ticket.key",
      .help = "key that signs tickets; made if there is none" },
    { "security.ticket-seconds", CONFIG_SECONDS, AT(ticket_seconds), "60", 1, 86400, .reload = true,
      .help = "how long a ticket opens connections" },
    { "security.address-identity", CONFIG_BOOL, AT(address_identity), "false", .reload = true,
      .help = "know a VM that has no secret by its address alone, as older installations do: whoever can use that "
              "address is it" },
    { "accounting.keep-days", CONFIG_NUMBER, AT(keep_days), "400", 1, 36500, .reload = true,
      .help = "days for which the record of who used what is kept (flytctl usage)" },
    { "accounting.detail-days", CONFIG_NUMBER, AT(detail_days), "30", 0, 36500, .reload = true,
      .help = "days for which each program has a row of its own; after that, sums by day, VM, user and GPU are kept" },
    { "log.level", CONFIG_CHOICE, AT(log_level), "info", .choices = log_words, .help = "$FLYT_LOG has precedence" },
    { "log.events", CONFIG_INT, AT(events_kept), "10000", 100, 1000000, .help = "events that are kept" },
    { "log.audit", CONFIG_PATH, AT(audit), "",
      .help = "file to which what administrators did, and who was refused, is appended; nothing that a VM does washes "
              "it out" },
};

/* What can be seen of an address without its driver; the driver may still refuse it when the daemon starts. */
static bool check_db_uri(const char *uri, struct config *config)
{
    bool sqlite = strncmp(uri, "sqlite:", 7) == 0;
    const char *slashes = strstr(uri, "://"), *rest = slashes ? slashes + 3 : sqlite ? uri + 7 : uri;
    size_t host = strcspn(rest, "/?");
    if (!sqlite && strncmp(uri, "mongodb://", 10) && strncmp(uri, "mongodb+srv://", 14))
        config_complain(config, "vm-resource-db.uri",
                        "vm-resource-db.uri begins with neither sqlite:// nor mongodb://");
    else if (sqlite && *rest != '/' && strcmp(rest, ":memory:"))
        config_complain(config, "vm-resource-db.uri",
                        "vm-resource-db.uri: after sqlite:// an absolute path is expected, with"
                        " three slashes in all, as in sqlite:///var/lib/flyt/cluster/flyt.db");
    else if (!sqlite && (host == 0 || rest[host - 1] == '@'))
        config_complain(config, "vm-resource-db.uri",
                        "vm-resource-db.uri names no host, as in mongodb://10.0.0.9:27017/flyt");
    else
        return true;
    return false;
}

static bool check(const void *values, struct config *config)
{
    const struct cluster_config *c = values;
    bool good = true;
    if (c->lost <= c->suspect) {
        config_complain(config, "silence.lost", "silence.lost must be longer than silence.suspect (%g s)", c->suspect);
        good = false;
    }
    if (c->node_port && c->node_port == c->client_port) {
        config_complain(config, "ports.client", "ports.client and ports.node are the same port");
        good = false;
    }
    if (!*c->db_host && !check_db_uri(c->db_uri, config))
        good = false;
    return good;
}

static const struct config_absent absent[] = {
    { "migration", "`flytctl program migrate` needs no configuration; `elastic` is about moves that nobody asks for" },
    { "metrics", "flyt-monitor serves the metrics of the whole cluster (docs/monitoring.md)" },
    { NULL, NULL },
};

const struct config_schema cluster_config_schema = {
    .daemon = "flyt-cluster-manager", .keys = keys, .count = sizeof keys / sizeof keys[0],
    .size = sizeof(struct cluster_config), .check = check, .absent = absent,
};
