/*
 * main.c: the command line of flyt-node-manager, and what is settled once: names, addresses, files.
 *
 * SIGTERM and SIGINT end the node manager and leave GPU servers and programs alone; the next one takes them over. With
 * --stop-servers they are stopped first, as before a machine is shut down. --end-servers does nothing but that, after a
 * node manager that has left some. SIGHUP reads the configuration and the certificates again.
 */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/common/explain.h"
#include "control-managers/common/daemon.h"
#include "control-managers/common/renewal.h"
#include "control-managers/common/notify.h"
#include "control-managers/node-manager/node.h"
#include "control-managers/node-manager/sandbox.h"
#include "cpu/common/log.h"

static const char help[] =
    "Usage: flyt-node-manager [options]\n"
    "\n"
    "Offers this machine's GPUs to a Flyt cluster: starts, limits and supervises the GPU servers that the\n"
    "cluster manager orders.\n"
    "\n"
    "  -c, --config FILE  configuration (default /etc/flyt/node-manager.conf if there is one)\n"
    "      --stop-servers when this daemon is stopped, stop its GPU servers too; without it, they go on, and the next\n"
    "                     node manager takes them over\n"
    "      --end-servers  stop the GPU servers that a node manager has left running, then exit\n"
    DAEMON_HELP_OPTIONS
    "\n"
    DAEMON_HELP_END;

static bool stop_servers, end_servers;
static const struct daemon_about about = {
    .name = "flyt-node-manager", .help = help, .schema = &node_schema,
    .default_config = "/etc/flyt/node-manager.conf",
    .flags = { { "stop-servers", &stop_servers }, { "end-servers", &end_servers } },
};

struct node_daemon {
    struct node_manager node;
    struct config *config;
    const char    *path;
    int            lock;
    bool           stopping;
    struct loop_timer stop;
    struct tls_files files;
    char           renewed[RENEWAL_PATH_SIZE];
    struct renewal *renewal;
};

/* ---- what is settled once ---- */

static void find_addresses(struct node_manager *node)
{
    const struct config_strings *given = &node->config->addresses;
    struct ifaddrs *all, *at;
    for (size_t i = 0; i < given->count && node->address_count < CTL_MAX_ADDRESSES; i++)
        snprintf(node->addresses[node->address_count++], sizeof node->addresses[0], "%s", given->items[i]);
    if (given->count || getifaddrs(&all) != 0)
        return;
    for (at = all; at && node->address_count < CTL_MAX_ADDRESSES; at = at->ifa_next) {
        int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;
        socklen_t size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        if ((family != AF_INET && family != AF_INET6) || at->ifa_flags & IFF_LOOPBACK)
            continue;
        char *out = node->addresses[node->address_count];
        if (getnameinfo(at->ifa_addr, size, out, sizeof node->addresses[0], NULL, 0, NI_NUMERICHOST) == 0 &&
            !strchr(out, '%'))
            node->address_count++;
    }
    freeifaddrs(all);
}

/* Our address towards the cluster manager: what the route to it says; nothing is sent. */
static void find_advertise(struct node_manager *node)
{
    const struct node_config *config = node->config;
    const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
    struct addrinfo *found;
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    snprintf(node->advertise, sizeof node->advertise, "%s", *config->advertise ? config->advertise : node->host);
    if (*config->advertise)
        return;
    if (*config->listen && strcmp(config->listen, "0.0.0.0") != 0 && strcmp(config->listen, "::") != 0) {
        snprintf(node->advertise, sizeof node->advertise, "%s", config->listen);
        return;
    }
    if (getaddrinfo(config->manager_address, "1", &hints, &found) != 0)
        return;
    int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
        getsockname(fd, (struct sockaddr *)&own, &size) == 0)
        getnameinfo((struct sockaddr *)&own, size, node->advertise, sizeof node->advertise, NULL, 0, NI_NUMERICHOST);
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
}

static int find_program(struct node_manager *node, char *error)
{
    ssize_t size = 0;
    if (*node->config->program) {
        char real[PATH_MAX];
        bool is = realpath(node->config->program, real) != NULL;
        snprintf(node->program, sizeof node->program, "%s", is ? real : node->config->program);
    } else {
        size = readlink("/proc/self/exe", node->program, sizeof node->program - 32);
        char *slash = size > 0 ? (node->program[size] = '\0', strrchr(node->program, '/')) : NULL;
        if (slash)
            snprintf(slash + 1, 31, "cricket-rpc-server");
    }
    if (access(node->program, X_OK) != 0)
        return explain(error, -errno, "the GPU server %s: %s; set virt-server.program-path", node->program,
                       strerror(errno));
    return 0;
}

/* One node manager for one state folder. */
static int take_lock(struct node_daemon *daemon, char *error)
{
    const char *state = daemon->node.config->state;
    int failure = state_make_folder(state, 0711, error);
    if (!failure &&
        snprintf(daemon->node.servers_path, sizeof daemon->node.servers_path, "%s/servers", state) >= NODE_PATH_SIZE)
        failure = explain(error, -ENAMETOOLONG, "%s is too long", state);
    if (!failure)
        failure = daemon_lock(&about, state, "node.state-directory", &daemon->lock, error);
    if (failure)
        return failure;
    failure = state_make_folder(daemon->node.servers_path, 0711, error);
    snprintf(daemon->node.root_path, sizeof daemon->node.root_path, "%s/root", state);
    if (!failure)
        failure = state_make_folder(daemon->node.root_path, 0700, error);
    /* An earlier version has made it for its own user only. */
    if (!failure && chmod(daemon->node.servers_path, 0711) != 0)
        failure = explain(error, -errno, "opening the folder %s: %s", daemon->node.servers_path, strerror(errno));
    return failure;
}

static int read_certificates(struct node_daemon *daemon, char *error)
{
    const struct node_config *config = daemon->node.config;
    daemon->files = (struct tls_files){ config->tls_ca, config->tls_certificate, config->tls_key };
    if (!renewal_path(config->state, daemon->renewed))
        return explain(error, -ENAMETOOLONG, "%s is too long", config->state);
    return daemon_tls(&daemon->files, daemon->renewed, &daemon->node.tls, error);
}

static int prepare(struct node_daemon *daemon, char *error)
{
    struct node_manager *node = &daemon->node;
    const struct node_config *config = node->config;
    gethostname(node->host, sizeof node->host - 1);
    snprintf(node->name, sizeof node->name, "%.40s", *config->name ? config->name : node->host);
    if (!protocol_name_valid(node->name))
        return explain(error, -EINVAL, "the host's name '%s' cannot be a node's name: set node.name", node->name);
    if (*config->secret) {
        int failure = secret_resolve(config->secret, false, &node->secret, error);
        if (failure)
            return failure;
        if (strncmp(config->secret, "env:", 4) == 0)
            unsetenv(config->secret + 4);
    }
    RAND_bytes((unsigned char *)&node->incarnation, sizeof node->incarnation);
    find_addresses(node);
    find_advertise(node);
    int failure = find_program(node, error);
    if (!failure)
        failure = take_lock(daemon, error);
    if (!failure)
        failure = launch_probe(node->root_path, (uid_t)config->first_user, (enum node_sandbox)config->sandbox, error);
    if (!failure)
        cgroup_open();
    if (!failure)
        failure = read_certificates(daemon, error);
    /* A driver may come later. */
    return failure ? failure : gpu_discover(node, error) < 0 ? -ENODEV : 0;
}

/* ---- signals ---- */

static void stop_look(struct loop_timer *timer, void *context)
{
    struct node_daemon *daemon = context;
    if (!daemon->node.servers)
        loop_stop(daemon->node.loop);
    else
        loop_timer_start(daemon->node.loop, timer, 20, stop_look, daemon);
}

static void on_stop(int number, void *context)
{
    struct node_daemon *daemon = context;
    log_info("event=stopping why=\"%s\"", strsignal(number));
    notify_send("STOPPING=1");
    if (!stop_servers || daemon->stopping) {
        loop_stop(daemon->node.loop);
        return;
    }
    daemon->stopping = true;
    for (struct node_server *server = daemon->node.servers, *next; server; server = next) {
        next = server->next;
        server_stop(server, 0, CTL_LOST, "the node is being shut down");
    }
    stop_look(&daemon->stop, daemon);
}

static void on_reload(int number, void *context)
{
    struct node_daemon *daemon = context;
    (void)number;
    struct config *config = daemon_reload(&about, daemon->path, daemon->config);
    if (!config)
        return;
    /* Values that others point to must not move: only those that may change are taken over. */
    struct node_config *now = (struct node_config *)(uintptr_t)daemon->node.config;
    const struct node_config *wanted = config_values(config);
    now->restarts = wanted->restarts;
    now->report_period = wanted->report_period;
    now->logs_kept = wanted->logs_kept;
    now->log_size = wanted->log_size;
    now->start_timeout = wanted->start_timeout;
    now->stop_timeout = wanted->stop_timeout;
    daemon_secret_renew(now->secret, &daemon->node.secret, daemon->node.link);
    daemon_tls_renew(&daemon->files, daemon->renewed, &daemon->node.tls, daemon->node.link);
    renewal_look(daemon->renewal);
    daemon_reloaded(config);
}

/* ---- the command line ---- */

static int run(struct node_daemon *daemon)
{
    char error[EXPLAIN_SIZE] = "";
    struct node_manager *node = &daemon->node;
    node->config = config_values(daemon->config);
    node->loop = loop_create();
    int failure =
        node->loop ? prepare(daemon, error) : explain(error, -ENOMEM, "no memory or descriptors for an event loop");
    if (!failure)
        failure = daemon_signals(node->loop, on_stop, on_reload, daemon, error);
    if (!failure)
        failure = node_open(node, error);
    if (!failure) {
        daemon->renewal = renewal_start(node->loop, node->link, &daemon->files, daemon->renewed, &node->tls);
        failure = daemon->renewal ? 0 : explain(error, -ENOMEM, "no memory for renewing certificates");
    }
    if (!failure) {
        regions_make(node);
        log_info("event=started node=%s gpus=%u", node->name, node->gpu_count);
        notify_send("READY=1");
        loop_run(node->loop);
    } else {
        log_error("event=cannot-start why=\"%s\"", error);
    }
    if (node->loop) {
        loop_timer_stop(&daemon->stop);
        if (daemon->stopping && !node->servers)
            regions_remove(node);
        node_close(node);
        renewal_stop(daemon->renewal);
        loop_destroy(node->loop);
    }
    tls_context_release(node->tls);
    secret_wipe(&node->secret);
    if (daemon->lock >= 0)
        close(daemon->lock);
    return daemon_exit_status(failure);
}

/* --end-servers. A node manager that runs holds the lock, and would start them again. */
static int run_end_servers(struct node_daemon *daemon)
{
    char error[EXPLAIN_SIZE] = "";
    struct node_manager *node = &daemon->node;
    node->config = config_values(daemon->config);
    bool there = access(node->config->state, F_OK) == 0;
    int failure = there ? take_lock(daemon, error) : 0;
    if (there && !failure) {
        cgroup_open();
        failure = state_end_servers(node, error);
    }
    if (failure)
        log_error("event=cannot-start why=\"%s\"", error);
    server_forget_all(node);
    if (daemon->lock >= 0)
        close(daemon->lock);
    return daemon_exit_status(failure);
}

int main(int argc, char **argv)
{
    static struct node_daemon daemon = { .lock = -1 };
    int status = daemon_begin(&about, argc, argv, &daemon.config, &daemon.path);
    if (status != DAEMON_GO_ON)
        return status;
    status = end_servers ? run_end_servers(&daemon) : run(&daemon);
    config_free(daemon.config);
    return status;
}
