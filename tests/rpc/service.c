#include "tests/rpc/service.h"

#include "cpu/rpc/transport/channel.h"
#include "cpu/rpc/tls/channel_tls.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

uint64_t test_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

void test_pattern(uint64_t seed, void *bytes, size_t size)
{
    uint8_t *at = bytes;
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    while (size > 0) {
        size_t part = size < sizeof x ? size : sizeof x;
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(at, &x, part);
        at += part;
        size -= part;
    }
}

bool test_pattern_matches(uint64_t seed, const void *bytes, size_t size)
{
    if (size == 0)
        return true;
    uint8_t *wanted = malloc(size);
    test_pattern(seed, wanted, size);
    bool same = memcmp(wanted, bytes, size) == 0;
    free(wanted);
    return same;
}

static void handle_async(struct service *service, uint32_t procedure, const void *args)
{
    atomic_fetch_add(&service->async, 1);
    if (procedure == FLYT_SET) {
        const set_args *set = args;
        uint32_t *last = &service->last[set->stream % TEST_STREAMS];
        if (set->value != *last + 1)
            atomic_fetch_add(&service->disorder, 1);
        *last = set->value;
    } else if (procedure == FLYT_COPY_IN) {
        const copy_in_args *copy = args;
        if (copy->data.kind == FLYT_BULK_INLINE &&
            !test_pattern_matches(copy->to, copy->data.flyt_bulk_u.bytes.bytes_val,
                                  copy->data.flyt_bulk_u.bytes.bytes_len))
            atomic_fetch_add(&service->disorder, 1);
    }
}

struct reversal {
    struct service *service;
    uint32_t        xids[TEST_REVERSED];
};

static void *reply_reversed(void *context)
{
    struct reversal *reversal = context;
    for (unsigned i = TEST_REVERSED; i > 0; i--) {
        plain_result result = { .head = { .result = (int)reversal->xids[i - 1] } };
        rpc_server_reply(reversal->service->server, reversal->xids[i - 1], (xdrproc_t)xdr_plain_result, &result);
    }
    free(reversal);
    return NULL;
}

/* Collects calls and lets another thread answer them last first. */
static void answer_reversed(struct service *service, uint32_t xid)
{
    service->reversed[service->reversed_count++] = xid;
    if (service->reversed_count < TEST_REVERSED)
        return;
    struct reversal *reversal = malloc(sizeof *reversal);
    reversal->service = service;
    memcpy(reversal->xids, service->reversed, sizeof reversal->xids);
    service->reversed_count = 0;
    pthread_t thread;
    if (pthread_create(&thread, NULL, reply_reversed, reversal) != 0)
        abort();
    pthread_join(thread, NULL);
}

static bool handle_sync(struct service *service, uint32_t procedure, uint32_t xid, const void *args, void *result)
{
    switch (procedure) {
    case FLYT_COPY_OUT: {
        const copy_out_args *copy = args;
        copy_out_result *out = result;
        size_t size = copy->size <= FLYT_MAX_INLINE ? copy->size : 0;
        out->data.kind = FLYT_BULK_INLINE;
        out->data.flyt_bulk_u.bytes.bytes_val = malloc(size + 1);
        out->data.flyt_bulk_u.bytes.bytes_len = (u_int)size;
        test_pattern(copy->from, out->data.flyt_bulk_u.bytes.bytes_val, size);
        return true;
    }
    case FLYT_MEMORY_INFO: {
        memory_info_result *info = result;
        info->free = atomic_load(&service->async);
        info->total = ((const context_args *)args)->context;
        return true;
    }
    case FLYT_HELLO:            /* no string is NULL: the sanitizers read what xdr_string is given */
        ((hello_result *)result)->server = strdup("");
        ((hello_result *)result)->refusal = strdup("");
        return true;
    case FLYT_MOVABLE:
        ((movable_result *)result)->refusal = strdup("");
        return true;
    case FLYT_CONTEXT_SYNC:
        if (((const context_args *)args)->context == TEST_DIE)
            _exit(9);
        return true;
    case FLYT_STREAM_SYNC:
        answer_reversed(service, xid);
        return false;
    case FLYT_EVENTS:
        atomic_store(&service->events_xid, xid);
        return false;
    default:
        return true;
    }
}

void service_say(struct service *service, uint32_t serial)
{
    uint32_t xid;
    while ((xid = atomic_exchange(&service->events_xid, 0)) == 0)
        poll(NULL, 0, 1);
    events_result result = { .serial = serial };
    rpc_server_reply(service->server, xid, (xdrproc_t)xdr_events_result, &result);
}

static bool serve(void *service, uint32_t procedure, uint32_t xid, const void *args, void *result)
{
    if (rpc_flyt_program.procedures[procedure].class == RPC_CLASS_SYNC)
        return handle_sync(service, procedure, xid, args, result);
    handle_async(service, procedure, args);
    return false;
}

struct service *service_create(rpc_channel *channel)
{
    struct service *service = calloc(1, sizeof *service);
    if (rpc_server_create(channel, &rpc_flyt_program, &service->server, NULL) != 0)
        abort();
    return service;
}

int service_run(struct service *service)
{
    for (;;) {
        rpc_request *request;
        int status = rpc_server_next(service->server, -1, &request, service->why);
        if (status == 0 && request) {
            status = stub_serve(service->server, request, serve, service);
            rpc_request_free(request);
        }
        if (status != 0) {
            service->ended = status;
            return status;
        }
    }
}

static void *service_thread(void *context)
{
    struct service *service = context;
    service_run(service);
    rpc_server_shutdown(service->server);           /* a client that broke the rules is let go */
    return NULL;
}

struct service *service_start(rpc_channel *channel)
{
    struct service *service = service_create(channel);
    service->threaded = true;
    if (pthread_create(&service->thread, NULL, service_thread, service) != 0)
        abort();
    return service;
}

void service_destroy(struct service *service)
{
    rpc_server_destroy(service->server);
    free(service);
}

void service_join(struct service *service)
{
    pthread_join(service->thread, NULL);
    service_destroy(service);
}

struct tls_accept { rpc_listener *listener; const struct rpc_tls_identity *identity; rpc_channel *channel; };

/* The server's half of the handshake; the client's goes on in another thread. */
static void *tls_accept(void *context)
{
    struct tls_accept *accept = context;
    char error[RPC_ERROR_SIZE] = "";
    int fd = rpc_listener_accept(accept->listener);
    if (fd < 0 || rpc_channel_tls_accept(fd, accept->identity, 20000, &accept->channel, error) != 0)
        fprintf(stderr, "accepting TLS: %s\n", error);
    return NULL;
}

static bool tls_channels(rpc_channel *out[2], char *error)
{
    struct rpc_tls_identity identity;
    rpc_listener *listener;
    pthread_t thread;
    char uri[RPC_HOST_SIZE + RPC_PIN_SIZE + 32];
    if (rpc_tls_identity_make(&identity, error) != 0 || rpc_listener_open("tls://127.0.0.1:0", &listener, error) != 0)
        return false;
    struct tls_accept accept = { .listener = listener, .identity = &identity };
    snprintf(uri, sizeof uri, "%s?sha256=%s", rpc_listener_uri(listener), identity.fingerprint);
    if (pthread_create(&thread, NULL, tls_accept, &accept) != 0)
        return false;
    int status = rpc_channel_connect(uri, 5000, &out[0], error);
    pthread_join(thread, NULL);
    rpc_listener_close(listener);
    rpc_tls_identity_wipe(&identity);
    out[1] = accept.channel;
    return status == 0 && out[1];
}

void test_socket_pair(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        perror("socketpair");
        abort();
    }
}

enum clnt_stat test_call(rpc_client *client, int context)
{
    context_args args = { .context = (flyt_id)context };
    plain_result result = { 0 };
    return flyt_context_sync_1(&args, &result, stub_of(client));
}

void test_loss_note(void *context, const char *reason)
{
    struct test_loss *loss = context;
    loss->count++;
    snprintf(loss->reason, sizeof loss->reason, "%s", reason);
}

void test_channels(const char *kind, rpc_channel *out[2])
{
    char error[RPC_ERROR_SIZE] = "";
    if (strcmp(kind, "local") == 0) {
        if (rpc_channel_pair(out, error) == 0)
            return;
    } else if (strcmp(kind, "unix") == 0) {
        int fds[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 && rpc_channel_from_fd(fds[0], &out[0], error) == 0 &&
            rpc_channel_from_fd(fds[1], &out[1], error) == 0)
            return;
    } else if (strcmp(kind, "shm") == 0) {
        int fds[2];
        struct rpc_inbox inbox;
        rpc_inbox_init(&inbox, 100);
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 && rpc_channel_from_fd(fds[0], &out[0], error) == 0 &&
            rpc_channel_share(&out[0], NULL, error) == 0 && rpc_channel_accept(fds[1], 0, &out[1], error) == 0 &&
            rpc_channel_receive(out[1], &inbox) == -EAGAIN &&       /* takes the offer */
            rpc_channel_receive(out[0], &inbox) == -EAGAIN &&       /* takes the answer */
            strcmp(rpc_channel_transport(out[0]), "shm") == 0 && strcmp(rpc_channel_transport(out[1]), "shm") == 0)
            return;
    } else if (strncmp(kind, "tls", 3) == 0) {
        if (tls_channels(out, error)) {
            for (int i = 0; i < 2 && strcmp(kind, "tls-rekey") == 0; i++)
                rpc_channel_tls_set_update(out[i], 100000);
            return;
        }
    } else {
        rpc_listener *listener;
        if (rpc_listener_open("tcp://127.0.0.1:0", &listener, error) == 0 &&
            rpc_channel_connect(rpc_listener_uri(listener), 5000, &out[0], error) == 0) {
            int fd = rpc_listener_accept(listener);
            rpc_listener_close(listener);
            if (fd >= 0 && rpc_channel_from_fd(fd, &out[1], error) == 0)
                return;
        }
    }
    fprintf(stderr, "no %s channels: %s\n", kind, error);
    abort();
}

enum clnt_stat test_flood(rpc_client *client)
{
    char *bytes = calloc(1, FLYT_MAX_INLINE);
    copy_in_args in = { .data = { .kind = FLYT_BULK_INLINE } };
    in.data.flyt_bulk_u.bytes.bytes_val = bytes;
    in.data.flyt_bulk_u.bytes.bytes_len = FLYT_MAX_INLINE;
    enum clnt_stat status = RPC_SUCCESS;
    for (unsigned i = 0; i < 64 && status == RPC_SUCCESS; i++)
        status = flyt_copy_in_1(&in, NULL, stub_of(client));
    free(bytes);
    return status;
}
