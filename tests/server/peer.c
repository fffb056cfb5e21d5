/* peer.c: see peer.h. */
#include "tests/server/peer.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/code/hash.h"

#ifndef PEER_SERVER
#error "the build names the server program"
#endif

static uint64_t told[4096];               /* completed numbers by stream id */
static char printed[1 << 20];
static size_t printed_size;

static void peer_lost(void *context, const char *reason)
{
    (void)context;
    (void)reason;
}

static void peer_start(struct peer *peer, rpc_channel *channel)
{
    char error[RPC_ERROR_SIZE] = "";
    int r = rpc_client_create(channel, &rpc_flyt_program, 0, peer_lost, peer, &peer->client, error);
    if (r)
        fail_msg("client: %s", error);
    peer->stub = stub_of(peer->client);
    memset(told, 0, sizeof told);
    printed_size = 0;
}

void peer_local(struct peer *peer, const char *gpu)
{
    char error[RPC_ERROR_SIZE] = "";
    rpc_channel *pair[2];
    memset(peer, 0, sizeof *peer);
    assert_int_equal(rpc_channel_pair(pair, error), 0);
    if (flyt_server_local(pair[1], gpu, &peer->local, error) != 0)
        fail_msg("local server: %s", error);
    peer->end = flyt_server_local_end;
    peer_start(peer, pair[0]);
}

void peer_library(struct peer *peer, const char *gpu)
{
    char error[RPC_ERROR_SIZE] = "";
    rpc_channel *pair[2];
    flyt_server_local_function *start;
    memset(peer, 0, sizeof *peer);
    void *library = dlopen(PEER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    *(void **)&start = dlsym(library, "flyt_server_local");
    *(void **)&peer->end = dlsym(library, "flyt_server_local_end");
    assert_true(start && peer->end);
    assert_int_equal(rpc_channel_pair(pair, error), 0);
    if (start(pair[1], gpu, &peer->local, error) != 0)
        fail_msg("local server: %s", error);
    peer_start(peer, pair[0]);
}

void peer_connect(struct peer *peer, const char *uri) { peer_connect_with(peer, uri, NULL, 0); }

void peer_connect_with(struct peer *peer, const char *uri, const void *ticket, size_t size)
{
    char error[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
    memset(peer, 0, sizeof *peer);
    if (rpc_channel_connect_within(uri, 5000, 5000 + RPC_HANDSHAKE_MS, ticket, size, &channel, error) != 0)
        fail_msg("connect: %s", error);
    peer_start(peer, channel);
}

void peer_note(struct peer *peer, const flyt_head *head)
{
    for (u_int i = 0; i < head->progress.progress_len; i++)
        if (head->progress.progress_val[i].stream < 4096)
            told[head->progress.progress_val[i].stream] = head->progress.progress_val[i].done;
    for (u_int i = 0; i < head->printed.printed_len; i++) {
        const flyt_text *text = &head->printed.printed_val[i];
        if (text->fd == 1 && printed_size + text->bytes.bytes_len < sizeof printed) {
            memcpy(printed + printed_size, text->bytes.bytes_val, text->bytes.bytes_len);
            printed_size += text->bytes.bytes_len;
        }
    }
    printed[printed_size] = 0;
    peer->last.result = head->result;
    peer->last.latched = head->latched;
    peer->last.sticky = head->sticky;
}

/* Keeps what a head says, frees the rest of the result. */
int peer_took(struct peer *peer, enum clnt_stat status, xdrproc_t proc, void *result)
{
    if (status != RPC_SUCCESS)
        fail_msg("call failed: %s", clnt_sperrno(status));
    peer_note(peer, result);
    int r = peer->last.result;
    if (proc)
        xdr_free(proc, result);
    return r;
}

uint64_t peer_done(struct peer *peer, uint32_t stream)
{
    (void)peer;
    return told[stream];
}

const char *peer_printed(struct peer *peer)
{
    (void)peer;
    printed_size = 0;
    return printed;
}

void peer_hello(struct peer *peer)
{
    hello_args args = { .major = FLYT_PROTOCOL_MAJOR, .minor = FLYT_PROTOCOL_MINOR,
                        .capabilities = peer->capabilities, .host = (char *)"here",
                        .executable = (char *)"/bin/test", .pid = (u_int)getpid() };
    memset(&peer->hello, 0, sizeof peer->hello);
    enum clnt_stat status = flyt_hello_1(&args, &peer->hello, peer->stub);
    assert_int_equal(peer_took(peer, status, NULL, &peer->hello), 0);
    peer->base = peer->hello.window;
    peer->granule = peer->hello.granularity;
    assert_true(peer->base != 0 && peer->granule >= 65536);
    context_retain_args primary = { 0, 0 };
    plain_result result = { 0 };
    status = flyt_context_retain_1(&primary, &result, peer->stub);
    assert_int_equal(peer_took(peer, status, (xdrproc_t)xdr_plain_result, &result), 0);
}

void peer_open(struct peer *peer, const char *uri)
{
    peer_connect(peer, uri);
    peer_hello(peer);
}

void peer_close(struct peer *peer)
{
    xdr_free((xdrproc_t)xdr_hello_result, (char *)&peer->hello);
    rpc_client_shutdown(peer->client);
    rpc_client_destroy(peer->client);
    if (peer->local)
        peer->end(peer->local);
    peer->local = NULL;
}

/* ---- a server process ---- */

void server_start(struct server *server, const char *gpu, const char *const *more)
{
    static int serial;
    char socket[128], line[512], *argv[24] = { (char *)PEER_SERVER, (char *)"--listen", socket, (char *)"--listen",
                                                (char *)"tcp://127.0.0.1:0", (char *)"--gpu", (char *)(uintptr_t)gpu };
    int out[2], argc = 7, uris = 2;
    for (int i = 0; more && more[i]; i++) {
        uris += strcmp(more[i], "--listen") == 0;
        argv[argc++] = (char *)(uintptr_t)more[i];
    }
    argv[argc] = NULL;
    snprintf(socket, sizeof socket, "unix:///tmp/flyt-test-%d-%d.sock", (int)getpid(), serial++);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    server->log = memfd_create("server-log", MFD_CLOEXEC);
    assert_true(server->log >= 0);
    fcntl(server->log, F_SETFL, O_APPEND);
    server->pid = fork();
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out[1], 1);
        dup2(server->log, 2);
        execv(PEER_SERVER, argv);
        _exit(127);
    }
    close(out[1]);
    server->out = out[0];
    server->uris = 0;
    FILE *lines = fdopen(dup(out[0]), "r");
    while (server->uris < uris) {
        if (!fgets(line, sizeof line, lines))
            fail_msg("the server ended before it listened");
        assert_int_equal(sscanf(line, "listening on %255s", server->uri[server->uris++]), 1);
    }
    fclose(lines);
}

/* What server and workers said must not be a sanitizer's report; shown if it is. */
static void server_read_log(const struct server *server)
{
    static char log[1 << 16];
    ssize_t n = pread(server->log, log, sizeof log - 1, 0);
    log[n > 0 ? n : 0] = 0;
    if (strstr(log, "Sanitizer") || strstr(log, "runtime error"))
        fail_msg("%s", log);
    if (getenv("FLYT_LOG"))
        fputs(log, stderr);
}

int server_stop(struct server *server, int signal)
{
    int status = 0;
    char lock[280];
    kill(server->pid, signal);
    assert_int_equal(waitpid(server->pid, &status, 0), server->pid);
    close(server->out);
    server_read_log(server);
    close(server->log);
    snprintf(lock, sizeof lock, "%s.lock", server->uri[0] + strlen("unix://"));     /* which the listener leaves */
    unlink(lock);
    return status;
}

int server_children(const struct server *server, int *pids, int room)
{
    char path[128];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", server->pid, server->pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    while (n < room && fscanf(file, "%d", &pids[n]) == 1)
        n++;
    fclose(file);
    return n;
}

/* ---- calls ---- */

int peer_map(struct peer *peer, uint64_t address, uint64_t size)
{
    map_args args = { .context = peer->context, .address = address, .size = size };
    map_result result = { 0 };
    return peer_took(peer, flyt_map_1(&args, &result, peer->stub), (xdrproc_t)xdr_map_result, &result);
}

int peer_stream_sync(struct peer *peer, uint32_t stream) { return PLAIN(peer, stream_sync, stream_args, { stream }); }
int peer_stream_query(struct peer *peer, uint32_t stream) { return PLAIN(peer, stream_query, stream_args, { stream }); }
int peer_context_sync(struct peer *peer) { return PLAIN(peer, context_sync, context_args, { peer->context }); }
int peer_context_reset(struct peer *peer) { return PLAIN(peer, context_reset, context_args, { peer->context }); }
int peer_event_sync(struct peer *peer, uint32_t event) { return PLAIN(peer, event_sync, event_args, { event }); }
int peer_event_query(struct peer *peer, uint32_t event) { return PLAIN(peer, event_query, event_args, { event }); }

static void peer_sent(enum clnt_stat status)
{
    if (status != RPC_SUCCESS)
        fail_msg("send failed: %s", clnt_sperrno(status));
}

void peer_stream_create(struct peer *peer, uint32_t stream, unsigned flags)
{
    stream_create_args args = { stream, peer->context, flags, 0 };
    peer_sent(flyt_stream_create_1(&args, NULL, peer->stub));
}

void peer_event_create(struct peer *peer, uint32_t event)
{
    event_create_args args = { event, peer->context, 0 };
    peer_sent(flyt_event_create_1(&args, NULL, peer->stub));
}

void peer_event_record(struct peer *peer, uint32_t event, uint32_t stream)
{
    event_record_args args = { event, stream, 0 };
    peer_sent(flyt_event_record_1(&args, NULL, peer->stub));
}

void peer_stream_wait(struct peer *peer, uint32_t stream, uint32_t event)
{
    event_wait_args args = { stream, event, 0 };
    peer_sent(flyt_stream_wait_1(&args, NULL, peer->stub));
}

void peer_copy_in(struct peer *peer, uint32_t stream, uint64_t to, const void *from, uint32_t size)
{
    copy_in_args args = { .stream = stream, .to = to };
    args.data.flyt_bulk_u.bytes.bytes_val = (char *)(uintptr_t)from;
    args.data.flyt_bulk_u.bytes.bytes_len = size;
    peer_sent(flyt_copy_in_1(&args, NULL, peer->stub));
}

int peer_copy_out(struct peer *peer, uint32_t stream, void *to, uint64_t from, uint64_t size)
{
    copy_out_args args = { .stream = stream, .from = from, .size = size };
    copy_out_result result = { 0 };
    enum clnt_stat status = flyt_copy_out_1(&args, &result, peer->stub);
    if (status == RPC_SUCCESS && result.head.result == 0) {
        assert_int_equal(result.data.flyt_bulk_u.bytes.bytes_len, size);
        if (to && size)
            memcpy(to, result.data.flyt_bulk_u.bytes.bytes_val, size);
    }
    return peer_took(peer, status, (xdrproc_t)xdr_copy_out_result, &result);
}

void peer_set(struct peer *peer, uint32_t stream, uint64_t to, uint64_t count, uint32_t value, uint32_t element)
{
    set_args args = { stream, { to, 0, 0 }, { count, 1, 1 }, value, element };
    peer_sent(flyt_set_1(&args, NULL, peer->stub));
}

int peer_load(struct peer *peer, uint32_t module, const char *ptx, char *log, size_t log_size)
{
    image_args announce = { .kind = FLYT_IMAGE_PTX, .size = strlen(ptx) + 1 };
    image_result present = { 0 };
    hash_bytes(ptx, strlen(ptx) + 1, (uint8_t *)announce.hash);
    int r = peer_took(peer, flyt_image_1(&announce, &present, peer->stub), NULL, &present);
    int has = present.present;
    xdr_free((xdrproc_t)xdr_image_result, (char *)&present);
    if (r)
        return r;
    for (uint64_t at = 0; !has && at < announce.size; at += 1000) {
        image_data_args data = { .offset = at };
        memcpy(data.hash, announce.hash, sizeof data.hash);
        data.bytes.bytes_val = (char *)(uintptr_t)ptx + at;
        data.bytes.bytes_len = announce.size - at < 1000 ? (u_int)(announce.size - at) : 1000;
        peer_sent(flyt_image_data_1(&data, NULL, peer->stub));
    }
    module_load_args load = { .module = module, .context = peer->context };
    module_load_result result = { 0 };
    memcpy(load.hash, announce.hash, sizeof load.hash);
    enum clnt_stat status = flyt_module_load_1(&load, &result, peer->stub);
    if (log && log_size)
        snprintf(log, log_size, "%.*s", (int)result.log.log_len, result.log.log_val ? result.log.log_val : "");
    return peer_took(peer, status, (xdrproc_t)xdr_module_load_result, &result);
}

int peer_function(struct peer *peer, uint32_t function, uint32_t module, const char *name, uint32_t *bytes)
{
    function_get_args args = { function, module, (char *)(uintptr_t)name };
    function_get_result result = { 0 };
    enum clnt_stat status = flyt_function_get_1(&args, &result, peer->stub);
    *bytes = 0;
    for (u_int i = 0; i < result.params.params_len; i++)
        *bytes = result.params.params_val[i].offset + result.params.params_val[i].size;
    return peer_took(peer, status, (xdrproc_t)xdr_function_get_result, &result);
}

void peer_launch(struct peer *peer, uint32_t function, uint32_t stream, unsigned grid, unsigned block,
                 const void *params, uint32_t size)
{
    launch_args args = { .function = function, .stream = stream, .grid = { grid, 1, 1 }, .block = { block, 1, 1 } };
    args.params.params_val = (char *)(uintptr_t)params;
    args.params.params_len = size;
    peer_sent(flyt_launch_1(&args, NULL, peer->stub));
}

int peer_set_up(void **state)
{
    struct peer *peer = calloc(1, sizeof *peer);
    peer_library(peer, "software");
    peer_hello(peer);
    *state = peer;
    return 0;
}

int peer_tear_down(void **state)
{
    peer_close(*state);
    free(*state);
    return 0;
}
