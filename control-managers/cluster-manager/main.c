/* main.c: flyt-cluster-manager's command line, start, reload and end. */
#include "control-managers/cluster-manager/moving.h"
#include "control-managers/cluster-manager/policy.h"
#include "control-managers/cluster-manager/resize.h"
#include "control-managers/cluster-manager/usage.h"

#include <errno.h>
#include <grp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cpu/common/explain.h"
#include "control-managers/common/authority.h"
#include "control-managers/common/daemon.h"
#include "control-managers/common/notify.h"
#include "control-managers/common/tls.h"
#include "cpu/common/log.h"

enum { DB_STOP_MS = 5000 };

static const char help[] =
    "Usage: flyt-cluster-manager [options]\n"
    "\n"
    "Knows the nodes and GPUs of a Flyt cluster and gives each VM its share.\n"
    "\n"
    "  -c, --config FILE  configuration (default /etc/flyt/cluster-manager.conf if there is one)\n"
    DAEMON_HELP_OPTIONS
    "\n"
    "Prints each address on which it listens. GPU servers and programs go on when it ends.\n"
    DAEMON_HELP_END;

static const struct daemon_about about = {
    .name = "flyt-cluster-manager", .help = help, .schema = &cluster_config_schema,
    .default_config = "/etc/flyt/cluster-manager.conf",
};

/* ---- parts ---- */

static int load_secret(const char *source, struct secret *secret, bool *there, char *error)
{
    *there = *source != '\0';
    return *there ? secret_resolve(source, false, secret, error) : 0;
}

/* NULL with *error empty: there is to be none. */
static int load_tls(const struct cluster_config *values, struct tls_context **out, char *error)
{
    char ca[1024], certificate[1024], key[1024];
    const struct tls_files files = { ca, certificate, key };
    *out = NULL;
    if (values->tls == CLUSTER_TLS_OFF)
        return 0;
    snprintf(ca, sizeof ca, "%s/ca.crt", values->tls_folder);
    snprintf(certificate, sizeof certificate, "%s/cluster.crt", values->tls_folder);
    snprintf(key, sizeof key, "%s/cluster.key", values->tls_folder);
    int failure = tls_context_create(&files, out, error);
    if (failure == 0)
        daemon_certificate_age(*out);
    return failure == -ENOENT && values->tls == CLUSTER_TLS_AUTO ? 0 : failure;
}

static int listen_at(struct cluster *cluster, enum endpoint endpoint, const char *uri, const char *key, char *error)
{
    struct loop_listen_options options = {
        .uri = uri, .tls = cluster->tls, .plain_too = cluster->values->tls == CLUSTER_TLS_ALLOW,
        .service = &cluster_services[endpoint], .context = cluster,
    };
    char why[CONTROL_ERROR_SIZE];
    if (endpoint == ENDPOINT_LOCAL && *cluster->values->socket_group) {
        struct group *group = getgrnam(cluster->values->socket_group);
        if (!group)
            return explain(error, -EINVAL, "%s: there is no group '%s'",
                           config_where(cluster->config, "ipc.frontend-group"), cluster->values->socket_group);
        options.mode = 0660;
        options.group = group->gr_gid;
    }
    int failure = loop_listen(cluster->loop, &options, &cluster->listeners[endpoint], why);
    if (failure)
        return explain(error, failure, "%s: %s: %.800s", config_where(cluster->config, key), key, why);
    printf("%s\n", loop_listener_uri(cluster->listeners[endpoint]));
    fflush(stdout);
    return 0;
}

static int listen_everywhere(struct cluster *cluster, char *error)
{
    const struct cluster_config *values = cluster->values;
    char uri[CTL_MAX_URI + 1];
    bool v6 = strchr(values->address, ':') != NULL;
    snprintf(uri, sizeof uri, v6 ? "tcp://[%s]:%d" : "tcp://%s:%d", values->address, (int)values->node_port);
    int failure = listen_at(cluster, ENDPOINT_NODE, uri, "ports.node", error);
    if (failure)
        return failure;
    snprintf(uri, sizeof uri, v6 ? "tcp://[%s]:%d" : "tcp://%s:%d", values->address, (int)values->client_port);
    failure = listen_at(cluster, ENDPOINT_CLIENT, uri, "ports.client", error);
    if (failure || !*values->socket)
        return failure;
    snprintf(uri, sizeof uri, "unix://%s", values->socket);
    return listen_at(cluster, ENDPOINT_LOCAL, uri, "ipc.frontend-socket", error);
}

static void apply_values(struct cluster *cluster)
{
    cluster->values = config_values(cluster->config);
    cluster->pool.overcommit_sms = cluster->values->overcommit_sms;
    cluster->pool.overcommit_memory = cluster->values->overcommit_memory;
}

/* ---- reload ---- */

/* What a reload reads anew: all of it, or nothing is taken over. */
struct fresh { struct config *config; struct tls_context *tls; struct authority *issuer; struct secret node, admin; };

static void fresh_free(struct fresh *fresh)
{
    config_free(fresh->config);
    tls_context_release(fresh->tls);
    authority_close(fresh->issuer);
    secret_wipe(&fresh->node);
    secret_wipe(&fresh->admin);
}

/* Whether there is a secret at all, and where, takes a restart: what is read is what the running configuration
 * names. */
static bool fresh_read(struct cluster *cluster, struct fresh *fresh, char *text, size_t size)
{
    const struct cluster_config *values = cluster->values;
    char *problems, error[CONTROL_ERROR_SIZE];
    bool there;
    *fresh = (struct fresh){ .config = config_load(&cluster_config_schema, cluster->config_path, &problems) };
    snprintf(text, size, "refused, the old configuration stays in use: ");
    size_t at = strlen(text);
    if (!fresh->config && problems)
        config_problems_join(problems, text, size);
    else if (load_tls(values, &fresh->tls, error) < 0)
        snprintf(text + at, size - at, "the certificates cannot be read: %.600s", error);
    else if (fresh->tls && renew_read_issuer(values, &fresh->issuer, error) < 0)
        snprintf(text + at, size - at, "the issuer cannot be read: %.600s", error);
    else if (load_secret(values->node_secret, &fresh->node, &there, error) < 0 ||
             load_secret(values->admin_secret, &fresh->admin, &there, error) < 0)
        snprintf(text + at, size - at, "a secret cannot be read: %.600s", error);
    else if (fresh->config)
        text[0] = '\0';
    free(problems);
    return !*text;
}

enum { CUT_OFF_MS = 50 };

/* Whoever is connected with a certificate that counts no more is cut off, and what it was given is taken back. */
static void cut_off_revoked(struct loop_timer *timer, void *context)
{
    struct cluster *cluster = context;
    static const char why[] = "its certificate was revoked";
    (void)timer;
    for (struct cluster_session *session = cluster->sessions, *next; session && cluster->tls; session = next) {
        next = session->next;
        if (!conn_revoked(session->conn, cluster->tls))
            continue;
        struct node *node = session->node;
        struct vm *vm = session->vm;
        struct event_about which = { .vm = vm ? vm->row.name : NULL, .node = node ? node->row.name : NULL };
        cluster_event(cluster, ADMIN_WARNING, "peer-cut-off", &which, "%s:%s: %s",
                      protocol_role_name(session->hello.role), session->hello.name, why);
        if (vm)
            vm_end_all(cluster, vm, CTL_DENIED, why);
        conn_close(session->conn, why);
        if (node)
            node_lose(cluster, node, why);
    }
}

static void take_tls(struct cluster *cluster, struct tls_context *tls)
{
    tls_context_release(cluster->tls);
    cluster->tls = tls ? tls_context_reference(tls) : NULL;
    for (int i = ENDPOINT_NODE; i <= ENDPOINT_CLIENT; i++)
        loop_listener_set_tls(cluster->listeners[i], tls);
}

ctl_code cluster_reload(struct cluster *cluster, const char *by, char *text, size_t size)
{
    char before[DB_TEXT_SIZE], after[DB_TEXT_SIZE];
    const struct event_about nothing = { .by = by }, which = { .by = by, .before = before, .after = after };
    struct fresh fresh;
    char restart[512];
    if (!fresh_read(cluster, &fresh, text, size)) {
        fresh_free(&fresh);
        cluster_event(cluster, ADMIN_ERROR, "reload-refused", &nothing, "%s", text);
        return CTL_INVALID;
    }
    config_needs_restart(cluster->config, fresh.config, restart, sizeof restart);
    config_changes(cluster->config, fresh.config, before, after, sizeof before);
    bool tls_comes_or_goes = !fresh.tls != !cluster->tls;
    size_t at = strlen(restart);
    if (tls_comes_or_goes)
        snprintf(restart + at, sizeof restart - at, "%sTLS, since %s", at ? ", " : "",
                 fresh.tls ? "there are certificates now" : "the certificates are gone");
    snprintf(text, size, *restart ? "done; these take a restart: %s" : "done", restart);
    config_keep_until_restart(fresh.config, cluster->config);
    config_free(cluster->config);
    cluster->config = fresh.config;
    fresh.config = NULL;
    apply_values(cluster);
    /* New certificates and secrets count for connections from now on. */
    if (!tls_comes_or_goes) {
        take_tls(cluster, fresh.tls);
        authority_close(cluster->issuer);
        cluster->issuer = fresh.issuer;
        fresh.issuer = NULL;
        renew_watch_ages(cluster);
        /* Not now: whoever asked for this may be one of them, and waits for the answer. */
        loop_timer_start(cluster->loop, &cluster->cut_off, CUT_OFF_MS, cut_off_revoked, cluster);
    }
    cluster->node_secret = fresh.node;
    cluster->admin_secret = fresh.admin;
    fresh_free(&fresh);
    load_vms(cluster);
    queue_retry(cluster);
    cluster_event(cluster, ADMIN_INFO, "reloaded", &which, "%s", text);
    return CTL_OK;
}

static void on_hangup(int number, void *context)
{
    char text[CTL_MAX_TEXT + 1];
    (void)number;
    notify_send("RELOADING=1");
    cluster_reload(context, "SIGHUP", text, sizeof text);
    notify_send("READY=1");
}

static void on_end(int number, void *context)
{
    struct cluster *cluster = context;
    log_info("event=ending signal=%d: servers and programs go on", number);
    notify_send("STOPPING=1");
    cluster->stopping = true;
    loop_stop(cluster->loop);
}

/* ---- life ---- */

/* One descriptor for each peer: as many as the system allows. */
static void raise_file_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

static int start(struct cluster *cluster, char *error)
{
    const struct cluster_config *values = cluster->values;
    int failure = load_secret(values->node_secret, &cluster->node_secret, &cluster->has_node_secret, error);
    if (failure == 0)
        failure = load_secret(values->admin_secret, &cluster->admin_secret, &cluster->has_admin_secret, error);
    if (failure == 0)
        failure = load_tls(values, &cluster->tls, error);
    if (failure == 0 && cluster->tls)
        failure = renew_read_issuer(values, &cluster->issuer, error);
    if (failure == 0)
        failure = keys_open(cluster, error);
    if (failure)
        return failure;
    if (!cluster->has_node_secret && !cluster->tls)
        log_warning(
            "event=no-node-secret: no node can join; set security.node-secret, or make certificates with flytctl ca");
    cluster->events.capacity = (size_t)values->events_kept;
    cluster->events.events = calloc(cluster->events.capacity, sizeof *cluster->events.events);
    if (!cluster->events.events)
        return explain(error, -ENOMEM, "no memory for %zu events", cluster->events.capacity);
    failure = daemon_signals(cluster->loop, on_end, on_hangup, cluster, error);
    if (failure == 0)
        failure = listen_everywhere(cluster, error);
    if (failure == 0)
        failure = load_start(cluster, error);
    if (failure == 0)
        node_tick(cluster);
    if (failure == 0)
        policy_start(cluster);
    if (failure == 0)
        renew_watch_ages(cluster);
    return failure;
}

static void free_everything(struct cluster *cluster)
{
    usage_end(cluster);
    counts_end(cluster);
    cluster->stopping = true;
    for (int i = 0; i < 3; i++)
        loop_listener_close(cluster->listeners[i]);
    while (cluster->sessions)
        conn_close(cluster->sessions->conn, "the cluster manager ends");
    db_worker_stop(cluster->db, DB_STOP_MS);
    size_t vms = cluster->vms.count, servers = cluster->servers.count, nodes = cluster->nodes.count;
    void **all_vms = map_values(&cluster->vms), **all_servers = map_values(&cluster->servers),
         **all_nodes = map_values(&cluster->nodes);
    for (size_t i = 0; all_vms && i < vms; i++)
        vm_destroy(cluster, all_vms[i]);
    for (size_t i = 0; all_servers && i < servers; i++)
        server_destroy(cluster, all_servers[i]);
    for (size_t i = 0; all_nodes && i < nodes; i++)
        node_destroy(cluster, all_nodes[i]);
    free(all_vms);
    free(all_servers);
    free(all_nodes);
    resizes_end(cluster);
    logs_end(cluster);
    gpu_links_end(cluster);
    moving_end(cluster);
    usage_free(cluster->usage);
    incidents_end(cluster);
    follow_free(&cluster->follow);
    loop_timer_stop(&cluster->tick);
    loop_timer_stop(&cluster->policy);
    keys_close(cluster);
    load_end(cluster);
    loop_timer_stop(&cluster->retry_queue);
    loop_timer_stop(&cluster->cut_off);
    loop_timer_stop(&cluster->ages);
    loop_timer_stop(&cluster->ready_late);
    loop_destroy(cluster->loop);
    struct map *maps[] = { &cluster->vms, &cluster->vm_addresses, &cluster->nodes, &cluster->node_addresses,
                           &cluster->gpus,
                           &cluster->servers, &cluster->programs };
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        map_free(maps[i]);
    place_free(&cluster->pool);
    tls_context_release(cluster->tls);
    authority_close(cluster->issuer);
    secret_wipe(&cluster->node_secret);
    secret_wipe(&cluster->admin_secret);
    free(cluster->events.events);
    config_free(cluster->config);
}

static int run(struct cluster *cluster)
{
    char error[CONTROL_ERROR_SIZE] = "no memory";
    cluster->loop = loop_create();
    cluster->started = loop_time();
    cluster->settled = cluster->loop ? loop_now(cluster->loop) + SETTLE_MS : 0;
    cluster->usage = usage_create();
    cluster->events.next = 1;
    cluster->next_id = 1;
    cluster->id_limit = UINT64_MAX;             /* until everything is loaded */
    RAND_bytes((uint8_t *)&cluster->incarnation, sizeof cluster->incarnation);
    int failure = cluster->loop && cluster->usage ? start(cluster, error) : -ENOMEM;
    if (failure)
        log_error("event=cannot-start why=\"%s\"", error);
    else
        loop_run(cluster->loop);
    free_everything(cluster);
    return cluster->replaced ? DAEMON_CANNOT : daemon_exit_status(failure);
}

int main(int argc, char **argv)
{
    static const char *const levels[] = { "error", "warning", "info", "debug" };
    static struct cluster cluster;
    int status = daemon_begin(&about, argc, argv, &cluster.config, &cluster.config_path);
    if (status != DAEMON_GO_ON)
        return status;
    apply_values(&cluster);
    raise_file_limit();
    setenv("FLYT_LOG", levels[cluster.values->log_level], 0);
    return run(&cluster);
}
