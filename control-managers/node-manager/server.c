/*
 * server.c: the life of one GPU server.
 *
 *   STARTING --ready--> RUNNING --crash--> STARTING (after a pause) … --too often--> FAILED
 *       \--cannot start--> FAILED     \--order, fault--> STOPPING --gone--> ENDED
 *
 * A server tells its addresses on its output, a file in its folder, so that the next node manager can read them too. What
 * starts again keeps its id and slice; its ports may be others, and are reported. ENDED and FAILED are reported, and then
 * nothing of the server is left here. Its process's end is known by pidfd, or by asking now and then.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/common/explain.h"
#include "control-managers/node-manager/node.h"
#include "cpu/common/log.h"

enum { LOOK_MS = 40, ALIVE_MS = 1000, PAUSE_MIN_MS = 100, PAUSE_MAX_MS = 10000, QUIET_MS = 600 * 1000, MAX_LOG = 16 << 20,
       MAX_ARGUMENTS = 64, MAX_ENVIRONMENT = 256 };

extern char **environ;

static void begin(struct server *);
static void look(struct loop_timer *, void *);
static void gone(void *);

struct server *server_find(struct node *node, uint64_t id)
{
    for (struct server *server = node->servers; server; server = server->next)
        if (server->id == id)
            return server;
    return NULL;
}

static void save(struct server *server)
{
    char error[EXPLAIN_SIZE];
    if (state_save(server, error) != 0)
        log_error("event=state-unsaved server=%llu why=\"%s\": it will not be taken over after a restart", (unsigned long long)server->id, error);
}

/* ---- the command line and environment of its process ---- */

struct words { char *items[MAX_ENVIRONMENT]; size_t count; };

static void add_word(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_word(struct words *words, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (words->count < MAX_ENVIRONMENT - 1 && vasprintf(&words->items[words->count], format, list) >= 0)
        words->items[++words->count] = NULL;
    va_end(list);
}

static void free_words(struct words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
}

/* What of our own environment a server gets: nothing that could hold a secret or lead it elsewhere. */
static bool inherited(const char *variable)
{
    static const char *const prefixes[] = { "PATH=", "LANG=", "LC_", "TZ=", "LD_LIBRARY_PATH=", "FLYT_SOFTGPU_", "FLYT_LOG=", "FLYT_PERF=", "FLYT_SILENCE=",
        "CUDA_", "NVIDIA_", "ASAN_OPTIONS=", "LSAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS=", NULL };
    static const char *const ours[] = { "FLYT_SOFTGPU_SMS=", "FLYT_SOFTGPU_MEMORY=", "FLYT_SOFTGPU_DEVICES=", "FLYT_SOFTGPU_CARD=",
        "CUDA_VISIBLE_DEVICES=", "CUDA_MPS_", NULL };
    for (int i = 0; ours[i]; i++)
        if (strncmp(variable, ours[i], strlen(ours[i])) == 0)
            return false;
    for (int i = 0; prefixes[i]; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static void make_environment(const struct server *server, const struct gpu *gpu, const char *folder, struct words *words)
{
    for (char **variable = environ; *variable; variable++)
        if (inherited(*variable))
            add_word(words, "%s", *variable);
    add_word(words, "TMPDIR=%s", folder);
    add_word(words, "HOME=%s", folder);
    add_word(words, "FLYT_TENANT_MEMORY=%llu", (unsigned long long)server->memory);
    add_word(words, "FLYT_TENANT_LEDGER=%s/memory", folder);
    uint32_t sms = server->sms ? server->sms : gpu->sms;
    if (gpu->software) {
        add_word(words, "FLYT_SOFTGPU_DEVICES=1");
        add_word(words, "FLYT_SOFTGPU_SMS=%u", sms);
        add_word(words, "FLYT_SOFTGPU_MEMORY=%llu", (unsigned long long)server->memory);
        add_word(words, "FLYT_SOFTGPU_CARD=%s", gpu->card);
        return;
    }
    add_word(words, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
    add_word(words, "CUDA_VISIBLE_DEVICES=%s", gpu->id);
    if (server->sharing != CTL_SHARING_MPS)
        return;
    add_word(words, "CUDA_MPS_PIPE_DIRECTORY=%s", server->node->config->mps_directory);
    add_word(words, "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING=1");
    /* Rounded down: what was asked for is an upper bound. */
    add_word(words, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%.2f", gpu->sms ? (double)(10000ull * sms / gpu->sms) / 100 : 100.0);
    add_word(words, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=%lluM", (unsigned long long)(server->memory >> 20));
}

static void make_arguments(const struct server *server, const struct gpu *gpu, const char *folder, struct words *words)
{
    const struct node_config *config = server->node->config;
    char socket[NODE_PATH_SIZE];
    add_word(words, "cricket-rpc-server");
    add_word(words, "--gpu");
    add_word(words, "%s", gpu->software ? "software" : "nvidia");
    add_word(words, "--workers");
    add_word(words, "%d", (int)config->workers);
    add_word(words, "--show-device");
    add_word(words, "--ticket-key");
    add_word(words, "%s/keys", folder);
    add_word(words, "--ticket-state");
    add_word(words, "%s", folder);
    add_word(words, "--ticket-server");
    add_word(words, "%llu", (unsigned long long)server->id);
    /* Whoever may reach the socket needs a ticket as well. A path longer than a socket's name may be is left out. */
    int length = snprintf(socket, sizeof socket, "%s/s", folder);
    if (length < 100 && (server->same_host || !*config->listen)) {
        add_word(words, "--listen");
        add_word(words, "unix://%s?mode=0666", socket);
    }
    if (*config->listen) {
        add_word(words, "--listen");
        add_word(words, strchr(config->listen, ':') && config->listen[0] != '[' ? "%s://[%s]:0" : "%s://%s:0",
                 node_servers_tls(server->node) ? "tls" : "tcp", config->listen);
    }
    for (size_t i = 0; i < config->arguments.count; i++)
        add_word(words, "%s", config->arguments.items[i]);
}

/* ---- starting ---- */

void server_write_keys(struct server *server)
{
    const struct node *node = server->node;
    char path[NODE_PATH_SIZE], text[CTL_MAX_KEY * 2 + CTL_MAX_KEY / 32 + 1], error[EXPLAIN_SIZE];
    size_t size = 0;
    if (!node->keys_size)
        return;                         /* not registered yet: those that it has hold */
    for (size_t i = 0; i < node->keys_size; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%02x%s", node->keys[i], i % 32 == 31 ? "\n" : "");
    if (state_folder(server, "keys", path) != 0 || state_write(path, text, size, error) != 0)
        log_error("event=keys-unwritten server=%llu why=\"%s\": it accepts the tickets of old keys only", (unsigned long long)server->id, error);
}

static int open_file(const struct server *server, const char *name, int flags)
{
    char path[NODE_PATH_SIZE];
    struct stat st;
    if (state_folder(server, name, path) != 0)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND | flags, 0600);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > MAX_LOG && ftruncate(fd, 0) != 0)
        log_warning("event=log-long path=%s why=\"%s\"", path, strerror(errno));
    return fd;
}

static int make_process(struct server *server, char *error)
{
    struct node *node = server->node;
    struct gpu *gpu = node_gpu(node, server->gpu);
    struct words arguments = { .count = 0 }, environment = { .count = 0 };
    char folder[NODE_PATH_SIZE], socket[NODE_PATH_SIZE];
    if (!gpu)
        return explain(error, -ENODEV, "there is no GPU %s on this node any more", server->gpu);
    if (state_folder(server, "", folder) != 0)
        return explain(error, -ENAMETOOLONG, "%s is too long", node->servers_path);
    if (state_folder(server, "s", socket) == 0)
        unlink(socket);
    workers_forget(server);
    int output = open_file(server, "output", O_TRUNC), log = open_file(server, "log", 0);
    int failure = 0;
    if (output < 0 || log < 0)
        failure = explain(error, -errno, "writing into %s: %s", folder, strerror(errno));
    make_arguments(server, gpu, folder, &arguments);
    make_environment(server, gpu, folder, &environment);
    struct launch launch = { .program = node->program, .arguments = arguments.items, .environment = environment.items,
                             .output = output, .log = log, .own = folder, .all = node->servers_path,
                             .sandbox = (enum node_sandbox)node->config->sandbox };
    if (!failure)
        failure = launch_process(&launch, &server->process, error);
    free_words(&arguments);
    free_words(&environment);
    if (output >= 0)
        close(output);
    if (log >= 0)
        close(log);
    return failure;
}

/* The last line of its log, for messages. */
static void last_words(const struct server *server, char *out, size_t size)
{
    char path[NODE_PATH_SIZE], text[2048];
    *out = '\0';
    int fd = state_folder(server, "log", path) == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    off_t end = lseek(fd, 0, SEEK_END), from = end > (off_t)sizeof text - 1 ? end - ((off_t)sizeof text - 1) : 0;
    ssize_t n = pread(fd, text, sizeof text - 1, from);
    close(fd);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    if (n <= 0)
        return;
    text[n] = '\0';
    char *line = strrchr(text, '\n');
    snprintf(out, size, "%.500s", line ? line + 1 : text);
    protocol_text_clean(out);
}

static void set_why(struct server *server, ctl_code why, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void set_why(struct server *server, ctl_code why, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    server->why = why;
    vsnprintf(server->why_text, sizeof server->why_text, format, list);
    va_end(list);
}

static void free_server(struct server *server)
{
    struct server **at = &server->node->servers;
    while (*at && *at != server)
        at = &(*at)->next;
    if (*at)
        *at = server->next;
    loop_timer_stop(&server->timer);
    process_close(&server->process);
    free(server);
}

/* It is over: reports, and forgets it. */
static void finish(struct server *server, ctl_server_state state)
{
    struct node *node = server->node;
    server->state = state;
    server->workers = 0;
    server->used = 0;
    server->address_count = 0;
    log_message(state == CTL_SERVER_FAILED ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, "event=server-%s server=%llu vm=%s gpu=%s why=\"%s\"",
                state == CTL_SERVER_FAILED ? "failed" : "ended", (unsigned long long)server->id, server->vm, server->gpu, server->why_text);
    if (server->start_order)
        node_report_order(node, server->start_order, server->why ? server->why : CTL_INTERNAL, server->why_text);
    node_report_server(node, server);
    if (server->stop_order)
        node_report_order(node, server->stop_order, CTL_OK, "");
    state_remove(server);
    free_server(server);
}

static void hold(struct server *server)
{
    if (process_watch(server->node->loop, &server->process, gone, server) != 0)
        log_debug("event=end-not-watched server=%llu: the node manager asks for it", (unsigned long long)server->id);
}

/* Makes the process; what fails is tried again, or final. */
static void begin(struct server *server)
{
    char error[EXPLAIN_SIZE] = "";
    struct node *node = server->node;
    server->state = CTL_SERVER_STARTING;
    server->deadline = loop_now(node->loop) + (uint64_t)(node->config->start_timeout * 1000);
    server_write_keys(server);
    int failure = make_process(server, error);
    if (failure) {
        set_why(server, CTL_INTERNAL, "GPU server %llu cannot be started: %.900s", (unsigned long long)server->id, error);
        finish(server, CTL_SERVER_FAILED);
        return;
    }
    server->child = true;
    save(server);
    log_info("event=server-starting server=%llu vm=%s gpu=%s sms=%u memory=%llu pid=%d", (unsigned long long)server->id, server->vm,
             server->gpu, server->sms, (unsigned long long)server->memory, (int)server->process.pid);
    hold(server);
    loop_timer_start(node->loop, &server->timer, LOOK_MS, look, server);
}

static void begin_again(struct loop_timer *timer, void *context)
{
    (void)timer;
    begin(context);
}

int server_create(struct node *node, const ctl_server_spec *spec, uint64_t order, char *error)
{
    char folder[NODE_PATH_SIZE];
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        return explain(error, -ENOMEM, "no memory for another server");
    *server = (struct server){ .node = node, .id = spec->id, .program = spec->prog, .memory = spec->memory, .sharing = spec->sharing,
                               .sms = spec->sms, .same_host = spec->same_host != 0, .process = PROCESS_NONE, .fresh = true,
                               .start_order = order };
    snprintf(server->vm, sizeof server->vm, "%s", spec->vm);
    snprintf(server->gpu, sizeof server->gpu, "%s", spec->gpu);
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

static bool add_address(struct server *server, const char *uri)
{
    const struct node *node = server->node;
    if (server->address_count == CTL_MAX_ADDRESSES)
        return false;
    char *out = server->addresses[server->address_count];
    if (strncmp(uri, "unix://", 7) == 0) {
        snprintf(out, sizeof server->addresses[0], "%.*s", (int)strcspn(uri, "?"), uri);
    } else {
        /* Behind the port of tls:// is the fingerprint of the certificate that this server has made for itself. */
        const char *port = strrchr(uri, ':');
        int length = snprintf(out, sizeof server->addresses[0], strchr(node->advertise, ':') ? "%.6s[%s]%s" : "%.6s%s%s", uri,
                              node->advertise, port ? port : "");
        if (length >= (int)sizeof server->addresses[0]) {
            log_error("event=address-long server=%llu why=\"%s is too long a name for an address\": set virt-server.advertise-address",
                      (unsigned long long)server->id, node->advertise);
            return false;
        }
    }
    server->address_count++;
    return true;
}

/* Whether it has said where it listens, and what its driver shows; it says all at once, when its first worker is ready. */
static bool read_addresses(struct server *server)
{
    static const char said[] = "listening on ";
    unsigned shown;
    char path[NODE_PATH_SIZE], line[CTL_MAX_URI + 64];
    FILE *file = state_folder(server, "output", path) == 0 ? fopen(path, "re") : NULL;
    server->address_count = 0;
    server->shown_sms = 0;
    if (!file)
        return false;
    bool whole = true;
    while (fgets(line, sizeof line, file)) {
        size_t size = strlen(line);
        whole = size && line[size - 1] == '\n';
        if (!whole)
            break;
        line[size - 1] = '\0';
        if (strncmp(line, said, sizeof said - 1) == 0)
            add_address(server, line + sizeof said - 1);
        else if (sscanf(line, "device multiprocessors %u", &shown) == 1)
            server->shown_sms = shown;
    }
    fclose(file);
    return whole && server->address_count;
}

static void ready(struct server *server)
{
    struct node *node = server->node;
    server->state = CTL_SERVER_RUNNING;
    server->fresh = false;
    server->ready_since = loop_now(node->loop);
    save(server);
    log_info("event=server-running server=%llu vm=%s address=%s", (unsigned long long)server->id, server->vm, server->addresses[0]);
    node_report_server(node, server);
    if (server->start_order)
        node_report_order(node, server->start_order, CTL_OK, "");
    server->start_order = 0;
    if (!server->process.watch)
        loop_timer_start(node->loop, &server->timer, ALIVE_MS, look, server);
}

/* More SMs than were ordered: the driver did not take the limit. Nobody is let in then; it is ended for good. */
static bool limit_holds(struct server *server)
{
    if (!server->sms || server->shown_sms <= server->sms)
        return true;
    if (!server->killed)
        set_why(server, CTL_NOT_SUPPORTED, "GPU server %llu was to have %u SMs, but its driver shows %u: the limit cannot be held on GPU %s",
                (unsigned long long)server->id, server->sms, server->shown_sms, server->gpu);
    server->killed = true;
    process_signal(&server->process, SIGKILL);
    return false;
}

static void look(struct loop_timer *timer, void *context)
{
    struct server *server = context;
    struct loop *loop = server->node->loop;
    if (!server->process.watch && !process_alive(&server->process)) {
        gone(server);
        return;
    }
    if (server->state == CTL_SERVER_RUNNING) {
        loop_timer_start(loop, timer, ALIVE_MS, look, server);
        return;
    }
    if (read_addresses(server)) {
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

/* How its process ended, as a sentence; reaps it. */
static void describe_end(struct server *server, char *out, size_t size)
{
    int status = 0;
    char words[512];
    last_words(server, words, sizeof words);
    const char *more = words[0] ? "; its last words: " : "";
    if (!server->child || waitpid(server->process.pid, &status, WNOHANG) != server->process.pid)
        snprintf(out, size, "it has ended%s%s", more, words);
    else if (WIFSIGNALED(status))
        snprintf(out, size, "it was ended by signal %d (%s)%s%s", WTERMSIG(status), strsignal(WTERMSIG(status)), more, words);
    else
        snprintf(out, size, "it ended with status %d%s%s", WEXITSTATUS(status), more, words);
}

/* It crashed: again, unless that was tried too often. */
static void crashed(struct server *server, const char *how)
{
    struct node *node = server->node;
    if (server->ready_since && loop_now(node->loop) - server->ready_since > QUIET_MS)
        server->restarts = 0;
    server->ready_since = 0;
    if (server->fresh || server->restarts >= (unsigned)node->config->restarts) {
        set_why(server, CTL_INTERNAL, server->fresh ? "GPU server %llu could not be started: %s" : "GPU server %llu crashed too often: %s",
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
    log_warning("event=server-crashed server=%llu vm=%s restarts=%u why=\"%s\"", (unsigned long long)server->id, server->vm, server->restarts, how);
    server->address_count = 0;
    node_report_server(node, server);
    server->why = CTL_OK;
    loop_timer_start(node->loop, &server->timer, pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS, begin_again, server);
}

static void gone(void *context)
{
    struct server *server = context;
    char how[768];
    bool timed_out = server->killed && server->state == CTL_SERVER_STARTING;
    describe_end(server, how, sizeof how);
    loop_timer_stop(&server->timer);
    process_close(&server->process);
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
    struct server *server = context;
    if (!process_alive(&server->process)) {
        if (!server->process.watch)
            gone(server);
        return;
    }
    if (!server->killed)
        log_warning("event=server-killed server=%llu vm=%s why=\"it did not stop when asked to\"", (unsigned long long)server->id, server->vm);
    server->killed = true;
    process_signal(&server->process, SIGKILL);
    loop_timer_start(server->node->loop, timer, ALIVE_MS, stop_late, server);
}

void server_stop(struct server *server, unsigned grace_ms, ctl_code why, const char *text)
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

void server_fault(struct server *server, ctl_code why, const char *text)
{
    server_stop(server, 1, why, text);
}

/* ---- taking over, letting go ---- */

void server_adopt(struct server *server)
{
    struct node *node = server->node;
    bool alive = server->process.pid > 0;
    log_info("event=server-%s server=%llu vm=%s pid=%d", alive ? "adopted" : "found-dead", (unsigned long long)server->id, server->vm,
             (int)server->process.pid);
    if (!alive && server->state == CTL_SERVER_STOPPING) {
        set_why(server, CTL_OK, "it was ordered to stop");
        finish(server, CTL_SERVER_ENDED);
        return;
    }
    if (!alive) {
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
    if (server->state == CTL_SERVER_STARTING || !server->process.watch)
        loop_timer_start(node->loop, &server->timer, LOOK_MS, look, server);
}

void server_forget_all(struct node *node)
{
    while (node->servers)
        free_server(node->servers);
}

void server_fill(struct server *server, ctl_server_report *out)
{
    *out = (ctl_server_report){ .id = server->id, .state = server->state, .granted_sms = server->shown_sms, .memory_limit = server->memory,
                                .memory_used = server->used, .workers = server->workers, .pid = (u_int)(server->process.pid > 0 ? server->process.pid : 0),
                                .restarts = server->restarts, .status = { server->why, server->why_text } };
    if (!server->address_count)
        return;
    out->addresses.addresses_val = calloc(server->address_count, sizeof(ctl_uri));
    if (!out->addresses.addresses_val)
        return;
    out->addresses.addresses_len = server->address_count;
    for (unsigned i = 0; i < server->address_count; i++)
        out->addresses.addresses_val[i] = server->addresses[i];
}
