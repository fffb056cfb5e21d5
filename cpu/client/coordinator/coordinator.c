/* coordinator.c: sessions at GPU servers, and their memory. See coordinator.h. */
#include "cpu/client/coordinator/coordinator.h"

#include "cpu/rpc/transport/liveness.h"

#include <cuda.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONNECT_MS = 10000 };

static _Thread_local char last_error[RPC_ERROR_SIZE];

const char *flyt_coordinator_error(void) { return last_error; }

int coordinator_explain(int status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(last_error, sizeof last_error, format, list);
    va_end(list);
    return status;
}

/* ---- calls ---- */

static int errno_of(int result)
{
    switch (result) {
    case 0: return 0;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE: return -EINVAL;
    case CUDA_ERROR_OUT_OF_MEMORY: return -ENOMEM;
    case CUDA_ERROR_NOT_PERMITTED: return -EPERM;
    case CUDA_ERROR_NOT_SUPPORTED: return -ENOTSUP;
    case CUDA_ERROR_DEVICE_UNAVAILABLE: return -ENOLINK;
    default: return -EIO;
    }
}

int member_call(struct coordinator_member *member, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode,
                void *result, const char *what)
{
    struct rpc_call call = {
        .procedure = procedure, .encode = encode, .args = args, .decode = decode, .result = result
    };
    const bool answered = rpc_flyt_program.procedures[procedure].class == RPC_CLASS_SYNC;
    enum clnt_stat status = rpc_client_submit(member->client, &call);
    if (status == RPC_SUCCESS && answered)
        status = rpc_client_wait(member->client, &call);
    if (status != RPC_SUCCESS)
        return coordinator_explain(-ECONNRESET, "%s: %s: the connection has ended", member->server, what);
    const flyt_head *head = answered ? result : NULL;
    int code = head ? (head->result ? head->result : head->latched ? head->latched : head->sticky) : 0;
    return code ? coordinator_explain(errno_of(code), "%s: %s: error %d", member->server, what, code) : 0;
}

/* A call that has only a head as its answer. */
static int member_plain(struct coordinator_member *member, uint32_t procedure, xdrproc_t encode, void *args,
                        const char *what)
{
    plain_result result = { { 0 } };
    int status = member_call(member, procedure, encode, args, MEMBER_XDR(plain_result), &result, what);
    xdr_free(MEMBER_XDR(plain_result), &result);
    return status;
}

/* ---- members ---- */

static void member_lost(void *context, const char *reason)
{
    (void)context;
    (void)reason;
}

static int member_hello(struct coordinator_member *member, void *ticket, size_t ticket_size)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    hello_args args = { .major = FLYT_PROTOCOL_MAJOR,
                        .minor = FLYT_PROTOCOL_MINOR,
                        .capabilities = FLYT_CAP_BEATS,
                        .host = host,
                        .executable = program_invocation_short_name,
                        .pid = (u_int)getpid(),
                        .ticket = { (u_int)ticket_size, ticket } };
    hello_result result;
    memset(&result, 0, sizeof result);
    int status =
        member_call(member, FLYT_HELLO, MEMBER_XDR(hello_args), &args, MEMBER_XDR(hello_result), &result, "HELLO");
    if (status < 0 && result.refusal && *result.refusal)
        coordinator_explain(status, "%s: %s", member->server, result.refusal);
    if (status == 0 && !(result.capabilities & FLYT_CAP_LINKS))
        status = coordinator_explain(-ENOTSUP,
                                     member->manager ? "%s: this GPU server has no links"
                                                     : "%s: this GPU server has no links: start it with --links",
                                     member->server);
    if (status == 0 && !result.devices.devices_len)
        status = coordinator_explain(-ENODEV, "%s: this GPU server has no device", member->server);
    member->window = result.window;
    member->window_size = result.window_size;
    member->granule = result.granularity ? result.granularity : 1;
    member->streams = FLYT_FIRST_STREAM;
    xdr_free(MEMBER_XDR(hello_result), &result);
    context_retain_args primary = { 0, 0 };
    return status < 0
               ? status
               : member_plain(member, FLYT_CONTEXT_RETAIN, MEMBER_XDR(context_retain_args), &primary, "a context");
}

static int member_open(struct coordinator_member *member, const char *server)
{
    char error[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
    void *ticket = NULL;
    size_t ticket_size = 0;
    if (!(member->server = strdup(server)))
        return coordinator_explain(-ENOMEM, "%s: no memory", server);
    const bool managed = managed_wanted(server);
    int status = managed ? managed_open(member, &channel, &ticket, &ticket_size)
                         : rpc_channel_connect(server, CONNECT_MS, &channel, error);
    if (status == 0)
        status = rpc_client_create(channel, &rpc_flyt_program, rpc_silence_seconds(), member_lost, member,
                                   &member->client, error);
    if (status < 0 && *error)
        coordinator_explain(status, "%s", error);
    if (status == 0)
        status = member_hello(member, ticket, ticket_size);
    free(ticket);
    return status;
}

int flyt_coordinator_create(const char *const *servers, unsigned count, flyt_coordinator **out)
{
    if (!servers || !count || count > FLYT_COORDINATOR_MEMBERS || !out)
        return coordinator_explain(-EINVAL, "a coordinator has 1 to %d members", FLYT_COORDINATOR_MEMBERS);
    flyt_coordinator *c = calloc(1, sizeof *c);
    int status = c ? 0 : coordinator_explain(-ENOMEM, "a coordinator: no memory");
    while (status == 0 && c->count < count) {
        unsigned at = c->count++;
        status = member_open(&c->members[at], servers[at]);
    }
    if (status == 0)
        *out = c;
    else
        flyt_coordinator_destroy(c);
    return status;
}

void flyt_coordinator_destroy(flyt_coordinator *c)
{
    if (!c)
        return;
    communicators_destroy(c);
    for (unsigned i = 0; i < c->count; i++) {
        if (c->members[i].client)
            rpc_client_destroy(c->members[i].client);
        if (c->members[i].manager)
            rpc_client_destroy(c->members[i].manager);
        free((char *)(uintptr_t)c->members[i].server);
    }
    free(c);
}

static struct coordinator_member *member_of(flyt_coordinator *c, unsigned member)
{
    return c && member < c->count ? &c->members[member] : NULL;
}

uint64_t flyt_coordinator_traffic(const flyt_coordinator *c, unsigned member)
{
    struct rpc_client_statistics counted = { 0 };
    if (c && member < c->count)
        rpc_client_statistics(c->members[member].client, &counted);
    return counted.bytes_sent + counted.bytes_received;
}

/* ---- memory ---- */

int member_register(struct coordinator_member *m, uint64_t address, uint64_t size)
{
    link_memory_args args = { address, size, 1 };
    return member_plain(m, FLYT_LINK_MEMORY, MEMBER_XDR(link_memory_args), &args, "registering memory");
}

int flyt_coordinator_memory(flyt_coordinator *c, unsigned member, uint64_t size, uint64_t *address)
{
    struct coordinator_member *m = member_of(c, member);
    uint64_t whole = m ? (size + m->granule - 1) / m->granule * m->granule : 0;
    if (!m || !size || !address || whole < size || whole > m->window_size - m->taken)
        return coordinator_explain(-EINVAL, "memory: there is no member %u, or no room for %llu bytes", member,
                                   (unsigned long long)size);
    map_args args = { .address = m->window + m->taken, .size = whole };
    map_result result;
    memset(&result, 0, sizeof result);
    int status = member_call(m, FLYT_MAP, MEMBER_XDR(map_args), &args, MEMBER_XDR(map_result), &result, "memory");
    xdr_free(MEMBER_XDR(map_result), &result);
    if (status == 0 && m->links)
        status = member_register(m, args.address, whole);
    if (status < 0)
        return status;
    *address = args.address;
    m->taken += whole;
    return 0;
}

int flyt_coordinator_wait(flyt_coordinator *c, unsigned member)
{
    struct coordinator_member *m = member_of(c, member);
    context_args args = { 0 };
    return m ? member_plain(m, FLYT_CONTEXT_SYNC, MEMBER_XDR(context_args), &args, "waiting")
             : coordinator_explain(-EINVAL, "there is no member %u", member);
}

int flyt_coordinator_write(flyt_coordinator *c, unsigned member, uint64_t address, const void *bytes, size_t size)
{
    struct coordinator_member *m = member_of(c, member);
    int status = flyt_coordinator_wait(c, member);
    for (size_t at = 0; status == 0 && at < size; at += FLYT_MAX_INLINE) {
        size_t part = size - at < FLYT_MAX_INLINE ? size - at : FLYT_MAX_INLINE;
        copy_in_args args = { .to = address + at, .data = { .kind = FLYT_BULK_INLINE } };
        args.data.flyt_bulk_u.bytes.bytes_val = (char *)(uintptr_t)bytes + at;
        args.data.flyt_bulk_u.bytes.bytes_len = (u_int)part;
        status = member_call(m, FLYT_COPY_IN, MEMBER_XDR(copy_in_args), &args, MEMBER_XDR(void), NULL, "writing");
    }
    return status == 0 ? flyt_coordinator_wait(c, member) : status;
}

int flyt_coordinator_read(flyt_coordinator *c, unsigned member, uint64_t address, void *bytes, size_t size)
{
    struct coordinator_member *m = member_of(c, member);
    int status = flyt_coordinator_wait(c, member);
    for (size_t at = 0; status == 0 && at < size; at += FLYT_MAX_INLINE) {
        size_t part = size - at < FLYT_MAX_INLINE ? size - at : FLYT_MAX_INLINE;
        copy_out_args args = { .from = address + at, .size = part };
        copy_out_result result;
        memset(&result, 0, sizeof result);
        status = member_call(m, FLYT_COPY_OUT, MEMBER_XDR(copy_out_args), &args, MEMBER_XDR(copy_out_result), &result,
                             "reading");
        if (status == 0 && (result.data.kind != FLYT_BULK_INLINE || result.data.flyt_bulk_u.bytes.bytes_len != part))
            status = coordinator_explain(-EPROTO, "%s: reading: the reply has too few bytes", m->server);
        if (status == 0)
            memcpy((uint8_t *)bytes + at, result.data.flyt_bulk_u.bytes.bytes_val, part);
        xdr_free(MEMBER_XDR(copy_out_result), &result);
    }
    return status;
}
