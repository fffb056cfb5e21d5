/*
 * server.c: the life of one GPU server.
 *
 *   STARTING --ready--> RUNNING --crash--> STARTING (after a pause) … --too often--> FAILED
 *       \--cannot start--> FAILED     \--order, fault--> STOPPING --gone--> ENDED
 *
 * What starts again keeps its id and slice; its ports may be others, and are reported. ENDED and FAILED are reported,
 * and then nothing of the server is left here. Its process's end is known by pidfd, or by asking now and then.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/common/explain.h"
#include "control-managers/node-manager/node.h"
#include "cpu/common/log.h"

enum { LOOK_MS = 40, ALIVE_MS = 1000, PAUSE_MIN_MS = 100, PAUSE_MAX_MS = 10000, QUIET_MS = 600 * 1000 };

static void begin(struct node_server *);
static void look(struct loop_timer *, void *);
static void gone(void *);

struct node_server *server_find(struct node_manager *node, uint64_t id)
{
    for (struct node_server *server = node->servers; server; server = server->next)
        if (server->id == id)
            return server;
    return NULL;
}

static void save(struct node_server *server)
{
    char error[EXPLAIN_SIZE];
    if (state_save(server, error) != 0)
        log_error("event=state-unsaved server=%llu why=\"%s\": it will not be taken over after a restart",
                  (unsigned long long)server->id, error);
}

/* ---- starting ---- */

static void set_why(struct node_server *server, ctl_code why, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void set_why(struct node_server *server, ctl_code why, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    server->why = why;
    vsnprintf(server->why_text, sizeof server->why_text, format, list);
    va_end(list);
}

static void free_server(struct node_server *server)
{
    struct node_server **at = &server->node->servers;
    while (*at && *at != server)
        at = &(*at)->next;
    if (*at)
        *at = server->next;
    loop_timer_stop(&server->timer);
    share_forget(server);
    served_forget(server);
    process_close(&server->process);
    free(server);
}

/* It is over: reports, and forgets it. */
static void finish(struct node_server *server, ctl_server_state state)
{
    struct node_manager *node = server->node;
    char kept_as[NODE_PATH_SIZE], gpus[SERVER_GPUS_SIZE];
    bool kept = files_keep_log(server, kept_as);
    server->state = state;
    server->workers = 0;
    server->used = 0;
    server->address_count = 0;
    log_message(state == CTL_SERVER_FAILED ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO,
                "event=server-%s server=%llu vm=%s gpu=%s%s%s why=\"%s\"",
                state == CTL_SERVER_FAILED ? "failed" : "ended", (unsigned long long)server->id, server->vm,
                server_gpus(server, gpus), kept ? " log=" : "", kept ? kept_as : "", server->why_text);
    if (server->start_order)
        node_report_order(node, server->start_order, server->why ? server->why : CTL_INTERNAL, server->why_text);
    node_report_server(node, server);
    if (server->stop_order)
        node_report_order(node, server->stop_order, CTL_OK, "");
    own_discard_all(server);
    cgroup_remove(server);
    free_server(server);
}

static void hold(struct node_server *server)
{
    if (process_watch(server->node->loop, &server->process, gone, server) != 0)
        log_debug("event=end-not-watched server=%llu: the node manager asks for it", (unsigned long long)server->id);
}

/* A server that an earlier version has started, and that starts again, comes here, too. */
static int make_own_folder(struct node_server *server, char *error)
{
    char path[NODE_PATH_SIZE];
    server->own = true;
    if (own_folder(server, "", path) != 0)
        return explain(error, -ENAMETOOLONG, "%s is too long", server->node->servers_path);
    return state_make_folder(path, server->same_host ? 0711 : 0700, error);
}

/* Makes the process; what fails is tried again, or final. */
static void begin(struct node_server *server)
{
    char error[EXPLAIN_SIZE] = "", gpus[SERVER_GPUS_SIZE];
    struct node_manager *node = server->node;
    server->state = CTL_SERVER_STARTING;
    server->deadline = loop_now(node->loop) + (uint64_t)(node->config->start_timeout * 1000);
    int failure = make_own_folder(server, error);
    if (!failure && !users_take(server)) {
        /* Another user than before, and more in the folder than is given away: it starts with an empty one. */
        own_discard(server, "");
        failure = make_own_folder(server, error);
        if (!failure && !users_take(server))
            failure = explain(error, -EPERM, "its folder cannot be given to its user");
    }
    if (!failure) {
        server_write_keys(server);
        failure = server_make_process(server, error);
    }
    if (failure) {
        set_why(server, CTL_INTERNAL, "GPU server %llu cannot be started: %.900s", (unsigned long long)server->id,
                error);
        finish(server, CTL_SERVER_FAILED);
        return;
    }
    server->child = true;
    save(server);
    log_info("event=server-starting server=%llu vm=%s gpu=%s sms=%u memory=%llu pid=%d", (unsigned long long)server->id,
             server->vm, server_gpus(server, gpus), server->sms, (unsigned long long)server->memory,
             (int)server->process.pid);
    hold(server);
    loop_timer_start(node->loop, &server->timer, LOOK_MS, look, server);
}

static void begin_again(struct loop_timer *timer, void *context)
{
    (void)timer;
    begin(context);
}

int server_create(struct node_manager *node, const ctl_server_spec *spec, char *const *gpus, size_t count,
                  uint64_t order, char *error)
{
    char folder[NODE_PATH_SIZE];
    struct node_server *server = calloc(1, sizeof *server);
    if (!server)
        return explain(error, -ENOMEM, "no memory for another server");
    *server = (struct node_server){ .node = node,
                                    .id = spec->id,
                                    .program = spec->prog,
                                    .memory = spec->memory,
                                    .sharing = spec->sharing,
                                    .sms = spec->sms,
                                    .same_host = spec->same_host != 0,
                                    .process = PROCESS_NONE,
                                    .fresh = true,
                                    .start_order = order };
    snprintf(server->vm, sizeof server->vm, "%s", spec->vm);
    for (size_t i = 0; i < count && i < CTL_MAX_SERVER_GPUS; i++)
        snprintf(server->gpus[server->gpu_count++], sizeof server->gpus[0], "%s", gpus[i]);
    snprintf(server->vm_address, sizeof server->vm_address, "%s", spec->vm_address);
    int failure = state_folder(server, "", folder);
    if (!failure)
        failure = state_make_folder(folder, server->same_host ? 0711 : 0700, error);
    if (failure) {
        free(server);
        return failure;
    }
    server->next = node->servers;
    node->servers = server;
    begin(server);
    return 0;
}

/* ---- being ready ---- */

static void ready(struct node_server *server)
{
    struct node_manager *node = server->node;
    server->state = CTL_SERVER_RUNNING;
    server->fresh = false;
    server->ready_since = loop_now(node->loop);
    save(server);
    log_info("event=server-running server=%llu vm=%s address=%s", (unsigned long long)server->id, server->vm,
             server->addresses[0]);
    node_report_server(node, server);
    if (server->start_order)
        node_report_order(node, server->start_order, CTL_OK, "");
    server->start_order = 0;
    share_begin(server);
    if (!server->process.watch)
        loop_timer_start(node->loop, &server->timer, ALIVE_MS, look, server);
}

/* More SMs than were ordered: the driver did not take the limit. Nobody is let in then; it is ended for good. */
static bool limit_holds(struct node_server *server)
{
    char gpus[SERVER_GPUS_SIZE];
    if (!server->sms || server->shown_sms <= server->sms)
        return true;
    if (!server->killed)
        set_why(server, CTL_NOT_SUPPORTED,
                "GPU server %llu was to have %u SMs, but its driver shows %u: the limit cannot be held on GPU %s",
                (unsigned long long)server->id, server->sms, server->shown_sms, server_gpus(server, gpus));
    server->killed = true;
    process_signal(&server->process, SIGKILL);
    return false;
}

static void look(struct loop_timer *timer, void *context)
{
    struct node_server *server = context;
    struct loop *loop = server->node->loop;
    if (!server->process.watch && !process_alive(&server->process)) {
        gone(server);
        return;
    }
    if (server->state == CTL_SERVER_RUNNING) {
        loop_timer_start(loop, timer, ALIVE_MS, look, server);
        return;
    }
    if (files_read_addresses(server)) {
        if (limit_holds(server))
            ready(server);
        else
            loop_timer_start(loop, timer, ALIVE_MS, look, server);
        return;
    }
    if (loop_now(loop) >= server->deadline) {
        set_why(server, CTL_TIMEOUT, "GPU server %llu was not ready within %.0f s", (unsigned long long)server->id,
                server->node->config->start_timeout);
        server->killed = true;
        process_signal(&server->process, SIGKILL);
        loop_timer_start(loop, timer, ALIVE_MS, look, server);
        return;
    }
    loop_timer_start(loop, timer, LOOK_MS, look, server);
}

/* ---- ending ---- */

/* With less, no server is sure to begin. */
#define LITTLE_MEMORY ((uint64_t)16 << 20)

/* What its folder needs. */
#define LITTLE_DISK ((uint64_t)4 << 20)

/* Its own words about a full disk may not have found a place in its log. */
static bool disk_is_full(const struct node_server *server)
{
    struct statvfs fs;
    return statvfs(server->node->servers_path, &fs) == 0 &&
           ((uint64_t)fs.f_bavail * fs.f_frsize < LITTLE_DISK || (fs.f_files && !fs.f_favail));
}

/* How its process ended, as a sentence; reaps it. */
static void describe_end(struct node_server *server, char *out, size_t size)
{
    int status = 0;
    char words[512];
    files_last_words(server, words, sizeof words);
    const char *more = words[0] ? "; its last words: " : "";
    if (!server->child || waitpid(server->process.pid, &status, WNOHANG) != server->process.pid)
        snprintf(out, size, "it has ended%s%s", more, words);
    else if (WIFSIGNALED(status))
        snprintf(out, size, "it was ended by signal %d (%s)%s%s", WTERMSIG(status), strsignal(WTERMSIG(status)), more,
                 words);
    else
        snprintf(out, size, "it ended with status %d%s%s", WEXITSTATUS(status), more, words);
    size_t at = strlen(out);
    if (disk_is_full(server) && !strstr(words, strerror(ENOSPC)))
        snprintf(out + at, size - at, "; %.160s: %s", server->node->servers_path, strerror(ENOSPC));
    at = strlen(out);
    /* Its last words may be those of another of its processes: a limit that leaves nothing is a cause anyway. */
    if (strstr(words, "OUT_OF_MEMORY") || (server->fresh && server->memory < LITTLE_MEMORY))
        snprintf(out + at, size - at,
                 ". Its VM may use %llu MiB: is that too little (flytctl vm set %s --memory SIZE)?",
                 (unsigned long long)(server->memory >> 20), server->vm);
}

/* It crashed: again, unless that was tried too often. */
static void crashed(struct node_server *server, const char *how)
{
    struct node_manager *node = server->node;
    if (server->ready_since && loop_now(node->loop) - server->ready_since > QUIET_MS)
        server->restarts = 0;
    server->ready_since = 0;
    if (server->fresh || server->restarts >= (unsigned)node->config->restarts) {
        /* CTL_NO_ROOM: it would be the same on every other node. */
        set_why(server, server->fresh && server->memory < LITTLE_MEMORY ? CTL_NO_ROOM : CTL_INTERNAL,
                server->fresh ? "GPU server %llu could not be started: %s" : "GPU server %llu crashed too often: %s",
                (unsigned long long)server->id, how);
        finish(server, CTL_SERVER_FAILED);
        return;
    }
    unsigned pause = PAUSE_MIN_MS << (server->restarts < 8 ? server->restarts : 8);
    server->restarts++;
    server->state = CTL_SERVER_STARTING;
    server->workers = 0;
    server->used = 0;
    set_why(server, CTL_LOST, "GPU server %llu crashed and is started again: %s", (unsigned long long)server->id, how);
    log_warning("event=server-crashed server=%llu vm=%s restarts=%u why=\"%s\"", (unsigned long long)server->id,
                server->vm, server->restarts, how);
    server->address_count = 0;
    node_report_server(node, server);
    server->why = CTL_OK;
    loop_timer_start(node->loop, &server->timer, pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS, begin_again, server);
}

static void gone(void *context)
{
    struct node_server *server = context;
    char how[768];
    bool timed_out = server->killed && server->state == CTL_SERVER_STARTING;
    describe_end(server, how, sizeof how);
    loop_timer_stop(&server->timer);
    figures_look(server);                       /* the last of this process */
    served_end(server);
    node_report_usage(server->node, server);
    process_close(&server->process);
    share_end(server, how);
    server->child = false;
    server->killed = false;
    if (server->state == CTL_SERVER_STOPPING)
        finish(server, CTL_SERVER_ENDED);
    else if (timed_out)
        finish(server, CTL_SERVER_FAILED);
    else
        crashed(server, how);
}

static void stop_late(struct loop_timer *timer, void *context)
{
    struct node_server *server = context;
    if (!process_alive(&server->process)) {
        if (!server->process.watch)
            gone(server);
        return;
    }
    if (!server->killed)
        log_warning("event=server-killed server=%llu vm=%s why=\"it did not stop when asked to\"",
                    (unsigned long long)server->id, server->vm);
    server->killed = true;
    process_signal(&server->process, SIGKILL);
    loop_timer_start(server->node->loop, timer, ALIVE_MS, stop_late, server);
}

void server_stop(struct node_server *server, unsigned grace_ms, ctl_code why, const char *text)
{
    set_why(server, why, "%s", text && *text ? text : "it was ordered to stop");
    bool again = server->state == CTL_SERVER_STOPPING, serves = server->state == CTL_SERVER_RUNNING;
    server->state = CTL_SERVER_STOPPING;
    loop_timer_stop(&server->timer);
    if (server->process.pid <= 0 || (!server->process.watch && !process_alive(&server->process))) {
        finish(server, CTL_SERVER_ENDED);
        return;
    }
    if (!again) {
        save(server);
        node_report_server(server->node, server);
        /* One that starts serves nobody, and as process 1 of its namespace it would not hear a SIGTERM before it has a
           handler. */
        process_signal(&server->process, serves ? SIGTERM : SIGKILL);
    }
    if (!grace_ms)
        grace_ms = (unsigned)(server->node->config->stop_timeout * 1000);
    loop_timer_start(server->node->loop, &server->timer, grace_ms, stop_late, server);
}

void server_fault(struct node_server *server, ctl_code why, const char *text) { server_stop(server, 1, why, text); }

/* ---- taking over, letting go ---- */

void server_adopt(struct node_server *server)
{
    struct node_manager *node = server->node;
    bool alive = server->process.pid > 0;
    log_info("event=server-%s server=%llu vm=%s pid=%d", alive ? "adopted" : "found-dead",
             (unsigned long long)server->id, server->vm, (int)server->process.pid);
    if (!alive && server->state == CTL_SERVER_STOPPING) {
        set_why(server, CTL_OK, "it was ordered to stop");
        finish(server, CTL_SERVER_ENDED);
        return;
    }
    if (!alive) {
        server->ordered_sms = 0; /* it has taken nothing: it begins with what it had */
        server->ordered_memory = 0;
        server->fresh = false;          /* it may have run; give it its restarts */
        crashed(server, "it ended while no node manager was there");
        return;
    }
    server_write_keys(server);
    hold(server);
    if (server->state == CTL_SERVER_STOPPING) {
        server->state = CTL_SERVER_RUNNING;
        server_stop(server, 0, CTL_OK, "it was ordered to stop");
        return;
    }
    server->deadline = loop_now(node->loop) + (uint64_t)(node->config->start_timeout * 1000);
    server->ready_since = server->state == CTL_SERVER_RUNNING ? loop_now(node->loop) : 0;
    if (server->state == CTL_SERVER_RUNNING)
        share_begin(server);
    if (server->state == CTL_SERVER_STARTING || !server->process.watch)
        loop_timer_start(node->loop, &server->timer, LOOK_MS, look, server);
}

void server_forget_all(struct node_manager *node)
{
    while (node->servers)
        free_server(node->servers);
}
