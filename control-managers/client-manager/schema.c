/* schema.c: the keys of flyt-client-manager's configuration, and the rules between them. */
#include "control-managers/client-manager/schema.h"

#include <stdlib.h>
#include <string.h>

static const char *const views[] = { "own", "all", NULL };
static const char *const waits[] = { "default", "fail", "in-line", NULL };

#define AT(member) offsetof(struct manager_config, member)
static const struct config_key keys[] = {
    { .path = "resource-manager.address",
      .kind = CONFIG_STRING,
      .offset = AT(manager_address),
      .initial = "127.0.0.1",
      .help = "Host name or address of the machine that runs flyt-cluster-manager." },
    { .path = "resource-manager.port",
      .kind = CONFIG_PORT,
      .offset = AT(manager_port),
      .initial = "12402",
      .help = "Its port for client managers." },
    { .path = "vm.name",
      .kind = CONFIG_NAME,
      .offset = AT(name),
      .initial = "",
      .help = "Name under which this VM is entitled (flytctl vm add NAME); the host's name unless given." },
    { .path = "vm.secret",
      .kind = CONFIG_SECRET,
      .offset = AT(secret),
      .initial = "file:/etc/flyt/vm.secret",
      .help =
          "The secret that flytctl vm add printed: file:/path or env:NAME. Not needed where certificates are used." },
    { .path = "vm.state-directory",
      .kind = CONFIG_PATH,
      .offset = AT(state),
      .initial = "/var/lib/flyt/client",
      .help = "Where the daemon keeps what it must know after a restart." },
    { .path = "ipc.socket",
      .kind = CONFIG_PATH,
      .offset = AT(socket),
      .initial = "/run/flyt/client-manager.sock",
      .help = "Socket that programs ask; they look there unless FLYT_MANAGER names another." },
    { .path = "ipc.mode",
      .kind = CONFIG_STRING,
      .offset = AT(mode),
      .initial = "0660",
      .help = "Permissions of the socket, octal. Every user who can open the socket can use this VM's GPUs." },
    { .path = "ipc.group",
      .kind = CONFIG_STRING,
      .offset = AT(group),
      .initial = "",
      .help = "Group of the socket; the daemon's own unless given." },
    { .path = "ipc.users",
      .kind = CONFIG_STRINGS,
      .offset = AT(users),
      .initial = "",
      .help = "Names or numbers of the users who may ask; everybody who can open the socket unless given." },
    { .path = "ipc.user-shares",
      .kind = CONFIG_BOOL,
      .offset = AT(user_shares),
      .initial = "true",
      .reload = true,
      .help = "A user other than root has at most as many programs and connections at once as are free for the others "
              "then: half of all when there is no other. false: a single user may have all of them." },
    { .path = "ipc.status",
      .kind = CONFIG_CHOICE,
      .offset = AT(status),
      .initial = "own",
      .choices = views,
      .reload = true,
      .help = "Which programs a user sees with flyt-run --status: own, or all of this VM; root sees all." },
    { .path = "vcuda-client.process-monitor-period",
      .kind = CONFIG_SECONDS,
      .offset = AT(monitor_period),
      .initial = "5",
      .min = 0.1,
      .max = 3600,
      .reload = true,
      .help = "How often programs that were there before a restart are looked at where the kernel cannot tell of their "
              "end." },
    { .path = "vcuda-client.away-timeout",
      .kind = CONFIG_SECONDS,
      .offset = AT(away_timeout),
      .initial = "30",
      .min = 0,
      .max = 86400,
      .reload = true,
      .help = "Seconds that a starting program waits for a cluster manager that cannot be reached." },
    { .path = "vcuda-client.wait",
      .kind = CONFIG_CHOICE,
      .offset = AT(wait),
      .initial = "default",
      .choices = waits,
      .reload = true,
      .help = "While no GPU is free a program fails or waits in the queue; default does what the entitlement says." },
    { .path = "vcuda-client.wait-timeout",
      .kind = CONFIG_SECONDS,
      .offset = AT(wait_timeout),
      .initial = "0",
      .min = 0,
      .max = 31536000,
      .reload = true,
      .help = "Longest time in the queue, in seconds; 0: as the cluster manager has it." },
    { .path = "tls.ca",
      .kind = CONFIG_PATH,
      .offset = AT(tls_ca),
      .initial = "",
      .help = "Certificate of the cluster's CA (flytctl ca); TLS is used when ca, certificate and key exist." },
    { .path = "tls.certificate",
      .kind = CONFIG_PATH,
      .offset = AT(tls_certificate),
      .initial = "",
      .help = "Certificate of this VM." },
    { .path = "tls.key", .kind = CONFIG_PATH, .offset = AT(tls_key), .initial = "", .help = "Its private key." },
    { .path = "tls.plain-servers",
      .kind = CONFIG_BOOL,
      .offset = AT(plain_servers),
      .initial = "false",
      .reload = true,
      .help = "With certificates: programs may also use GPU servers that they reach over TCP without TLS "
              "(virt-server.tls off)." },
    { .path = "security.checkpoint-key",
      .kind = CONFIG_SECRET,
      .offset = AT(checkpoint_key),
      .initial = "",
      .reload = true,
      .help = "The key of this VM's checkpoints, which are encrypted then: file:/path of what flytctl checkpoint key"
              " made, or env:NAME." },
    { .path = "recovery.folder",
      .kind = CONFIG_PATH,
      .offset = AT(store),
      .initial = "",
      .help = "Folder in which programs keep what they have on the GPU, for their recovery and while they are "
              "suspended, unless FLYT_SUSPEND_FOLDER names another; TMPDIR or /var/tmp unless given. Every user must "
              "be able to make files there." },
    { .path = "recovery.journal",
      .kind = CONFIG_SIZE,
      .offset = AT(journal),
      .initial = "0",
      .min = 0,
      .max = 1e15,
      .reload = true,
      .help = "Most memory that the journal of a program takes, whatever its entitlement or environment asks for; 0: "
              "any." },
};

static bool check(const void *values, struct config *config)
{
    const struct manager_config *c = values;
    bool good = true;
    char *end;
    unsigned long mode = strtoul(c->mode, &end, 8);
    if (!*c->mode || *end || mode > 0777 || !(mode & 0600)) {
        config_complain(config, "ipc.mode", "\"%s\" is no octal mode such as 0660", c->mode);
        good = false;
    }
    return config_check_tls(config, c->tls_ca, c->tls_certificate, c->tls_key) && good;
}

const struct config_schema manager_schema = {
    .daemon = "flyt-client-manager",
    .keys = keys,
    .count = sizeof keys / sizeof *keys,
    .size = sizeof(struct manager_config),
    .check = check,
};
