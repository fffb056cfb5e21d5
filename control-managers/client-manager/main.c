/*
 * main.c: the command line of flyt-client-manager.
 *
 * SIGTERM and SIGINT end it and leave programs alone; the next one knows them again. SIGHUP reads the configuration and
 * the certificates again.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/client-manager/manager.h"
#include "cpu/common/explain.h"
#include "control-managers/common/daemon.h"
#include "control-managers/common/renewal.h"
#include "control-managers/common/notify.h"
#include "cpu/common/log.h"

static const char help[] =
    "Usage: flyt-client-manager [options]\n"
    "\n"
    "Gives the CUDA programs of this VM their GPU servers: asks the cluster manager for them, and reports to it\n"
    "when programs end.\n"
    "\n"
    "  -c, --config FILE  configuration (default /etc/flyt/client-manager.conf if there is one)\n"
    DAEMON_HELP_OPTIONS
    "\n"
    DAEMON_HELP_END;

static const struct daemon_about about = {
    .name = "flyt-client-manager", .help = help, .schema = &manager_schema,
    .default_config = "/etc/flyt/client-manager.conf",
};

struct client_daemon {
    struct manager manager;
    struct config *config;
    const char *path;
    int lock;
    struct tls_files files;
    char renewed[RENEWAL_PATH_SIZE];
    struct renewal *renewal;
};

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
static int take_lock(struct client_daemon *daemon, char *error)
{
    char path[PATH_MAX];
    const char *state = daemon->manager.config->state;
    if (snprintf(path, sizeof path, "%s/lock", state) >= (int)sizeof path)
        return explain(error, -ENAMETOOLONG, "%s is too long", state);
    int failure = make_folders(path, error);
    if (failure)
        return failure;
    failure = daemon_lock(&about, state, "vm.state-directory", &daemon->lock, error);
    if (failure)
        return failure;
    snprintf(path, sizeof path, "%s", daemon->manager.config->socket);
    return make_folders(path, error);
}

/* Without the key in the configuration nothing is encrypted; with one that cannot be had we do not start. */
static int take_checkpoint_key(struct manager *manager, const char *source, char *error)
{
    struct secret text = { .size = 0 };
    uint8_t key[CHECKPOINT_KEY];
    manager->seals = manager->seals && *source;
    int failure = *source ? secret_resolve(source, false, &text, error) : 0;
    if (!failure && *source && !checkpoint_key_parse(text.bytes, text.size, key))
        failure = explain(error, -EINVAL, "security.checkpoint-key: %s is no key of 64 hexadecimal digits (`flytctl "
                          "checkpoint key FILE` makes one)", source);
    if (!failure && *source) {
        memcpy(manager->checkpoint_key, key, sizeof key);
        manager->seals = true;
    }
    checkpoint_key_wipe(key, sizeof key);
    secret_wipe(&text);
    return failure;
}

static int prepare(struct client_daemon *daemon, char *error)
{
    struct manager *manager = &daemon->manager;
    const struct manager_config *config = manager->config;
    gethostname(manager->host, sizeof manager->host - 1);
    snprintf(manager->name, sizeof manager->name, "%.64s", *config->name ? config->name : manager->host);
    if (!protocol_name_valid(manager->name))
        return explain(error, -EINVAL, "the host's name '%s' cannot be a VM's name: set vm.name", manager->name);
    daemon->files = (struct tls_files){ config->tls_ca, config->tls_certificate, config->tls_key };
    if (!renewal_path(config->state, daemon->renewed))
        return explain(error, -ENAMETOOLONG, "%s is too long", config->state);
    int failure = daemon_tls(&daemon->files, daemon->renewed, &manager->tls, error);
    if (failure)
        return failure;
    if (*config->secret) {
        failure = secret_resolve(config->secret, false, &manager->secret, error);
        if (failure && manager->tls)
            manager->secret.size = 0;   /* the certificate says who we are */
        else if (failure)
            return failure;
    }
    failure = take_checkpoint_key(manager, config->checkpoint_key, error);
    if (failure)
        return failure;
    RAND_bytes((unsigned char *)&manager->incarnation, sizeof manager->incarnation);
    failure = take_lock(daemon, error);
    if (!failure)
        failure = programs_listen(manager, error);
    if (failure)
        return failure;
    state_load(manager);
    programs_monitor(manager);
    failure = cluster_open(manager, error);
    if (failure)
        return failure;
    daemon->renewal = renewal_start(manager->loop, manager->link, &daemon->files, daemon->renewed, &manager->tls);
    return daemon->renewal ? 0 : explain(error, -ENOMEM, "no memory for renewing certificates");
}

static void on_stop(int number, void *context)
{
    struct client_daemon *daemon = context;
    log_info("event=stopping why=\"%s\"", strsignal(number));
    notify_send("STOPPING=1");
    loop_stop(daemon->manager.loop);
}

static void on_reload(int number, void *context)
{
    struct client_daemon *daemon = context;
    char error[EXPLAIN_SIZE] = "";
    (void)number;
    struct config *config = daemon_reload(&about, daemon->path, daemon->config);
    if (!config)
        return;
    /* Only the keys that may change are taken over; others are pointed to. */
    struct manager_config *now = (struct manager_config *)(uintptr_t)daemon->manager.config;
    const struct manager_config *wanted = config_values(config);
    now->monitor_period = wanted->monitor_period;
    now->away_timeout = wanted->away_timeout;
    now->user_shares = wanted->user_shares;
    now->status = wanted->status;
    now->wait = wanted->wait;
    now->wait_timeout = wanted->wait_timeout;
    now->plain_servers = wanted->plain_servers;
    now->journal = wanted->journal;
    const char *key = wanted->checkpoint_key; /* a variable of the environment cannot change under a process */
    if (strncmp(key, "env:", 4) != 0 && take_checkpoint_key(&daemon->manager, key, error) != 0)
        log_error("event=key-not-renewed why=\"%s\": the key of before is used", error);
    daemon_secret_renew(now->secret, &daemon->manager.secret, daemon->manager.link);
    daemon_tls_renew(&daemon->files, daemon->renewed, &daemon->manager.tls, daemon->manager.link);
    renewal_look(daemon->renewal);
    daemon_reloaded(config);
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
    for (struct client_program *program = manager->programs; program; program = program->next) {
        program->waiting = NULL;
        program->ended = true;
        loop_timer_stop(&program->beat);
        loop_timer_stop(&program->away);
        loop_timer_stop(&program->kill);
        process_close(&program->process);
    }
}

static int run(struct client_daemon *daemon)
{
    char error[EXPLAIN_SIZE] = "";
    struct manager *manager = &daemon->manager;
    manager->config = config_values(daemon->config);
    manager->loop = loop_create();
    int failure =
        manager->loop ? prepare(daemon, error) : explain(error, -ENOMEM, "no memory or descriptors for an event loop");
    if (!failure)
        failure = daemon_signals(manager->loop, on_stop, on_reload, daemon, error);
    if (!failure) {
        log_info("event=started vm=%s socket=%s", manager->name, manager->config->socket);
        notify_send("READY=1");
        loop_run(manager->loop);
    } else {
        log_error("event=cannot-start why=\"%s\"", error);
    }
    if (manager->loop) {
        close_manager(manager);
        renewal_stop(daemon->renewal);
        loop_destroy(manager->loop);
        while (manager->programs)
            program_free(manager->programs);
    }
    tls_context_release(manager->tls);
    secret_wipe(&manager->secret);
    checkpoint_key_wipe(manager->checkpoint_key, sizeof manager->checkpoint_key);
    if (daemon->lock >= 0)
        close(daemon->lock);
    return daemon_exit_status(failure);
}

int main(int argc, char **argv)
{
    static struct client_daemon daemon = { .lock = -1 };
    int status = daemon_begin(&about, argc, argv, &daemon.config, &daemon.path);
    if (status != DAEMON_GO_ON)
        return status;
    status = run(&daemon);
    config_free(daemon.config);
    return status;
}
