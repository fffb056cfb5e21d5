/*
 * main.c: the command line of flyt-client-manager.
 *
 * SIGTERM and SIGINT end it and leave programs alone; the next one knows them again. SIGHUP reads the configuration again.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/client-manager/manager.h"
#include "cpu/common/explain.h"
#include "control-managers/common/notify.h"
#include "cpu/common/log.h"

static const char help[] =
    "Usage: flyt-client-manager [--config FILE] [--check]\n"
    "\n"
    "Gives the CUDA programs of this VM their GPU servers: asks the cluster manager for them, and tells it when\n"
    "programs end.\n"
    "\n"
    "  --config FILE   configuration (default: /etc/flyt/client-manager.conf if it is there)\n"
    "  --check         only check the configuration\n"
    "  --schema        print all keys of the configuration with their meaning\n"
    "  --version, --help\n"
    "\n"
    "Messages go to stderr; FLYT_LOG=error|warning|info|debug says how many. SIGTERM ends it, SIGHUP reads the\n"
    "configuration again. Exit status: 0 ended as asked, 1 it cannot run, 2 wrong usage or configuration.\n";

static const char *const default_config = "/etc/flyt/client-manager.conf";

struct daemon { struct manager manager; struct config *config; const char *path; int lock; };

static int make_folders(char *path, char *error)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            return explain(error, -errno, "making the folder %s: %s", path, strerror(errno));
        *slash = '/';
    }
    return 0;
}

/* One client manager for one state folder. */
static int take_lock(struct daemon *daemon, char *error)
{
    char path[PATH_MAX];
    const char *state = daemon->manager.config->state;
    if (snprintf(path, sizeof path, "%s/lock", state) >= (int)sizeof path)
        return explain(error, -ENAMETOOLONG, "%s is too long", state);
    int failure = make_folders(path, error);
    if (failure)
        return failure;
    daemon->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (daemon->lock < 0)
        return explain(error, -errno, "opening %s: %s", path, strerror(errno));
    if (flock(daemon->lock, LOCK_EX | LOCK_NB) != 0)
        return explain(error, -EBUSY, "another flyt-client-manager uses %s; give this one a vm.state-directory of its own", state);
    snprintf(path, sizeof path, "%s", daemon->manager.config->socket);
    return make_folders(path, error);
}

static int open_tls(const struct manager_config *config, struct tls_context **out, char *error)
{
    const struct tls_files files = { .ca = config->tls_ca, .certificate = config->tls_certificate, .key = config->tls_key };
    *out = NULL;
    if (!*config->tls_ca)
        return 0;
    int failure = tls_context_create(&files, out, error);
    return failure == -ENOENT ? 0 : failure;
}

static int prepare(struct daemon *daemon, char *error)
{
    struct manager *manager = &daemon->manager;
    const struct manager_config *config = manager->config;
    gethostname(manager->host, sizeof manager->host - 1);
    snprintf(manager->name, sizeof manager->name, "%.64s", *config->name ? config->name : manager->host);
    if (!protocol_name_valid(manager->name))
        return explain(error, -EINVAL, "the host's name '%s' cannot be a VM's name: set vm.name", manager->name);
    int failure = open_tls(config, &manager->tls, error);
    if (failure)
        return failure;
    if (*config->secret) {
        failure = secret_resolve(config->secret, false, &manager->secret, error);
        if (failure && manager->tls)
            manager->secret.size = 0;   /* the certificate says who we are */
        else if (failure)
            return failure;
    }
    RAND_bytes((unsigned char *)&manager->incarnation, sizeof manager->incarnation);
    failure = take_lock(daemon, error);
    if (!failure)
        failure = programs_listen(manager, error);
    if (failure)
        return failure;
    state_load(manager);
    programs_monitor(manager);
    return cluster_open(manager, error);
}

static void on_stop(int number, void *context)
{
    struct daemon *daemon = context;
    log_info("event=stopping why=\"%s\"", strsignal(number));
    notify_send("STOPPING=1");
    loop_stop(daemon->manager.loop);
}

static void on_reload(int number, void *context)
{
    struct daemon *daemon = context;
    char *problems, keys[512];
    (void)number;
    notify_send("RELOADING=1");
    struct config *config = config_load(&manager_schema, daemon->path, &problems);
    if (!config) {
        log_error("event=reload-refused why=\"%s\": the old configuration holds", problems ? problems : "");
        free(problems);
        notify_send("READY=1");
        return;
    }
    free(problems);
    if (config_needs_restart(daemon->config, config, keys, sizeof keys))
        log_warning("event=reload-partly keys=\"%s\": these hold after a restart", keys);
    /* Only the keys that may change are taken over; others are pointed to. */
    struct manager_config *now = (struct manager_config *)(uintptr_t)daemon->manager.config;
    const struct manager_config *wanted = config_values(config);
    now->monitor_period = wanted->monitor_period;
    now->away_timeout = wanted->away_timeout;
    now->wait = wanted->wait;
    now->wait_timeout = wanted->wait_timeout;
    config_free(config);
    log_info("event=reloaded");
    notify_send("READY=1");
}

static void close_manager(struct manager *manager)
{
    manager->registered = false;
    if (manager->link)
        link_close(manager->link);
    if (manager->listener)
        loop_listener_close(manager->listener);
    loop_timer_stop(&manager->monitor);
    /* Programs stay in the state file: their connections are not ended by them. */
    for (struct program *program = manager->programs; program; program = program->next) {
        program->waiting = NULL;
        program->ended = true;
        loop_timer_stop(&program->beat);
        loop_timer_stop(&program->away);
        loop_timer_stop(&program->kill);
        process_close(&program->process);
    }
}

static int run(struct daemon *daemon)
{
    char error[EXPLAIN_SIZE] = "";
    struct manager *manager = &daemon->manager;
    manager->config = config_values(daemon->config);
    manager->loop = loop_create();
    int failure = manager->loop ? prepare(daemon, error) : explain(error, -ENOMEM, "no memory or descriptors for an event loop");
    if (!failure) {
        loop_signal(manager->loop, SIGTERM, on_stop, daemon);
        loop_signal(manager->loop, SIGINT, on_stop, daemon);
        loop_signal(manager->loop, SIGHUP, on_reload, daemon);
        log_info("event=started vm=%s socket=%s", manager->name, manager->config->socket);
        notify_send("READY=1");
        loop_run(manager->loop);
    } else {
        log_error("%s", error);
    }
    if (manager->loop) {
        close_manager(manager);
        loop_destroy(manager->loop);
        while (manager->programs)
            program_free(manager->programs);
    }
    tls_context_release(manager->tls);
    secret_wipe(&manager->secret);
    if (daemon->lock >= 0)
        close(daemon->lock);
    return failure ? 1 : 0;
}

static int usage(const char *what)
{
    fprintf(stderr, "flyt-client-manager: %s\nTry: flyt-client-manager --help\n", what);
    return 2;
}

int main(int argc, char **argv)
{
    enum { OPTION_CHECK = 256, OPTION_SCHEMA, OPTION_VERSION };
    static const struct option options[] = {
        { "config", required_argument, NULL, 'c' }, { "check", no_argument, NULL, OPTION_CHECK },
        { "schema", no_argument, NULL, OPTION_SCHEMA }, { "version", no_argument, NULL, OPTION_VERSION },
        { "help", no_argument, NULL, 'h' }, { 0 },
    };
    static struct daemon daemon = { .lock = -1 };
    bool check = false;
    int option;
    while ((option = getopt_long(argc, argv, "c:h", options, NULL)) != -1)
        switch (option) {
        case 'c':
            daemon.path = optarg;
            break;
        case OPTION_CHECK:
            check = true;
            break;
        case OPTION_SCHEMA:
            config_print_schema(&manager_schema, stdout);
            return 0;
        case OPTION_VERSION:
            puts(MANAGER_SOFTWARE);
            return 0;
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            return 2;
        }
    if (optind < argc)
        return usage("it takes options only");
    log_set_name("flyt-client-manager");
    if (!daemon.path && access(default_config, F_OK) == 0)
        daemon.path = default_config;
    char *problems;
    daemon.config = config_load(&manager_schema, daemon.path, &problems);
    if (!daemon.config) {
        fprintf(stderr, "%s%s", problems ? problems : "no memory", problems && problems[strlen(problems) - 1] == '\n' ? "" : "\n");
        free(problems);
        return 2;
    }
    free(problems);
    int status = check ? 0 : run(&daemon);
    config_free(daemon.config);
    return status;
}
