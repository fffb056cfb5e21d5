/*
 * rpc: a fuzz target for all that a peer can send. The first byte chooses:
 *   0  the rest is a stream of bytes to a server
 *   1  the second byte chooses a procedure, the rest are its arguments: a well-formed call to a server
 *   2  the second byte chooses a procedure, the rest are its results
 *   3  the rest is a stream of bytes to a client with calls in flight
 *   4  the rest is a script: a client sends, and writes what it likes into the memory that it shares with a server
 *   5  the first bytes that come to a GPU server's listener: a lane's word, a pass
 */
#include "cpu/rpc/call/knock.h"
#include "cpu/rpc/call/lane.h"
#include "cpu/rpc/shm/shm.h"
#include "cpu/rpc/transport/channel.h"
#include "cpu/rpc/cpu_rpc_classes.h"
#include "cpu/common/wire.h"
#include "tests/lib/stubs.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* ---- a service that answers nothing but zeros ---- */

static bool blank(void *user, uint32_t procedure, uint32_t xid, const void *args, void *result)
{
    (void)user;
    (void)xid;
    (void)args;
    if (procedure == FLYT_HELLO) {                  /* strings cannot be NULL */
        ((hello_result *)result)->server = strdup("");
        ((hello_result *)result)->refusal = strdup("");
    } else if (procedure == FLYT_MOVABLE) {
        ((movable_result *)result)->refusal = strdup("");
    } else if (procedure == FLYT_LINK_LISTEN) {
        ((link_listen_result *)result)->why = strdup("");
    } else if (procedure == FLYT_LINK_JOIN) {
        ((link_join_result *)result)->why = strdup("");
        ((link_join_result *)result)->transport = strdup("");
    } else if (procedure == FLYT_LINK_STATUS) {
        ((link_status_result *)result)->why = strdup("");
    } else if (procedure == FLYT_COMM_CREATE) {
        ((comm_create_result *)result)->why = strdup("");
    } else if (procedure == FLYT_COMM_STATUS) {
        ((comm_status_result *)result)->why = strdup("");
    } else if (procedure == FLYT_COMM_WINDOW) {
        ((comm_window_result *)result)->why = strdup("");
    } else if (procedure == FLYT_COMM_WINDOW_STATUS) {
        ((comm_window_status_result *)result)->why = strdup("");
    }
    return true;
}

static void send_bytes(rpc_channel *channel, const void *bytes, size_t size)
{
    struct iovec vector = { (void *)bytes, size };
    if (size > 0 && rpc_channel_send(channel, &vector, 1) != (ssize_t)size)
        abort();
}

/* Throws away what the other side has sent. */
static void drain(rpc_channel *channel)
{
    struct rpc_inbox inbox;
    rpc_inbox_init(&inbox, 1 << 24);
    while (rpc_channel_receive(channel, &inbox) > 0)
        inbox.start = inbox.end;
    rpc_inbox_clear(&inbox);
}

static void serve(const uint8_t *bytes, size_t size)
{
    rpc_channel *channels[2];
    rpc_server *server;
    rpc_request *request;
    if (rpc_channel_pair(channels, NULL) != 0 || rpc_server_create(channels[1], &rpc_flyt_program, &server, NULL) != 0)
        abort();
    /* in two parts: a record may be cut anywhere */
    send_bytes(channels[0], bytes, size / 2);
    send_bytes(channels[0], bytes + size / 2, size - size / 2);
    while (rpc_server_next(server, 0, &request, NULL) == 0 && request) {
        stub_serve(server, request, blank, NULL);
        rpc_request_free(request);
        drain(channels[0]);
    }
    rpc_server_destroy(server);
    rpc_channel_destroy(channels[0]);
}

struct proc { uint32_t number; xdrproc_t arguments, result; };

#define PROC(name) ((xdrproc_t)(void (*)(void))(name))
#define ENTRY(number, NAME, name, class, arguments, result) { number, PROC(xdr_##arguments), PROC(xdr_##result) },
static const struct proc procs[] = { FLYT_PROCEDURES(ENTRY) };
enum { PROCS = sizeof procs / sizeof procs[0] };

static void call(const struct proc *proc, const uint8_t *args, size_t size)
{
    size_t whole = 44 + size;
    uint8_t *record = malloc(whole);
    const uint32_t head[] = { htonl(0x80000000u | (uint32_t)(40 + size)), htonl(1), 0, htonl(2), htonl(FLYT_PROGRAM),
                              htonl(FLYT_VERSION_1), htonl(proc->number), 0, 0, 0, 0 };
    memcpy(record, head, sizeof head);
    if (size > 0)
        memcpy(record + sizeof head, args, size);
    serve(record, whole);
    free(record);
}

static void decode(const struct proc *proc, const uint8_t *bytes, size_t size)
{
    union { hello_result hello; function_get_result function; uint64_t words[512]; } result;
    memset(&result, 0, sizeof result);
    if (rpc_wire_decode(bytes, size, proc->result, &result))
        xdr_free(proc->result, &result);
}

static void answer(const uint8_t *bytes, size_t size)
{
    rpc_channel *channels[2];
    rpc_client *client;
    if (rpc_channel_pair(channels, NULL) != 0 ||
        rpc_client_create(channels[0], &rpc_flyt_program, 0, NULL, NULL, &client, NULL) != 0)
        abort();
    stream_args args = { 0 };
    plain_result results[2];
    struct rpc_call calls[2];
    memset(results, 0, sizeof results);
    for (unsigned i = 0; i < 2; i++) {
        calls[i] = (struct rpc_call){ .procedure = FLYT_STREAM_SYNC, .encode = (xdrproc_t)xdr_stream_args,
                                      .args = &args, .decode = (xdrproc_t)xdr_plain_result, .result = &results[i] };
        if (rpc_client_submit(client, &calls[i]) != RPC_SUCCESS)
            abort();
    }
    send_bytes(channels[1], bytes, size);
    rpc_channel_shutdown(channels[1]);              /* what was sent is still read */
    for (unsigned i = 0; i < 2; i++) {
        rpc_client_wait(client, &calls[i]);
        xdr_free((xdrproc_t)xdr_plain_result, &results[i]);
    }
    rpc_client_destroy(client);
    rpc_channel_destroy(channels[1]);
}

/* Groups: u8 what, u16 where, u8 how many, then so many bytes. */
static void share(const uint8_t *bytes, size_t size)
{
    rpc_channel *channels[2];
    rpc_server *server;
    rpc_request *request;
    if (rpc_channel_pair(channels, NULL) != 0)
        abort();
    struct shm_memory *memory = ((struct shm_channel *)channels[0])->memory;
    if (rpc_server_create(channels[1], &rpc_flyt_program, &server, NULL) != 0)
        abort();
    rpc_server_set_spinning(server, false);
    bool alive = true;
    while (size > 4 && alive) {
        size_t where = (size_t)(bytes[1] << 8 | bytes[2]), n = bytes[3] < size - 4 ? bytes[3] : size - 4;
        struct iovec vector = { (void *)(bytes + 4), n };
        switch (bytes[0] % 3) {
        case 0:
            if (n)
                rpc_channel_send(channels[0], &vector, 1);
            break;
        case 1:
            if (where + n <= memory->size)
                memcpy((uint8_t *)memory->at + where, bytes + 4, n);
            break;
        case 2:
            alive = rpc_server_next(server, 0, &request, NULL) == 0;
            if (alive && request)
                stub_serve(server, request, blank, NULL);
            break;
        }
        bytes += 4 + n;
        size -= 4 + n;
    }
    while (alive && rpc_server_next(server, 0, &request, NULL) == 0 && request)
        stub_serve(server, request, blank, NULL);
    rpc_server_destroy(server);
    rpc_channel_destroy(channels[0]);
}

static void first_bytes(const uint8_t *bytes, size_t size)
{
    uint64_t session;
    uint32_t lane;
    uint8_t knock[RPC_KNOCK_MOST];
    rpc_lane_begins(bytes, size);
    if (size >= RPC_LANE_HEAD)
        rpc_lane_get_hello(bytes, &session, &lane);
    if (rpc_knock_begins(bytes, size) && size >= RPC_KNOCK_HEAD && rpc_knock_size(bytes) > RPC_KNOCK_MOST)
        abort();
    size_t put = rpc_knock_put(knock, bytes, size);
    if (put && (!rpc_knock_begins(knock, put) || rpc_knock_size(knock) != put))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 2)
        return 0;
    switch (bytes[0] % 6) {
    case 0: serve(bytes + 1, size - 1); break;
    case 1: call(&procs[bytes[1] % PROCS], bytes + 2, size - 2); break;
    case 2: decode(&procs[bytes[1] % PROCS], bytes + 2, size - 2); break;
    case 3: answer(bytes + 1, size - 1); break;
    case 4: share(bytes + 1, size - 1); break;
    case 5: first_bytes(bytes + 1, size - 1); break;
    }
    return 0;
}
