/* mirror.c: the core's way to mirrored pinned memory, if it is there. */
#include "mirror.h"

#include "cpu/common/log.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/state.h"

const struct mirror_room *mirror_room;
bool mirror_any;
atomic_bool mirror_missing;
atomic_uint_fast64_t mirror_launched, mirror_settled;

void mirror_open(uint64_t base, uint64_t size)
{
    mirror_any = mirror_room != NULL;
    if (mirror_any)
        mirror_room->open(base, size);
}

static int host_call(struct client_session *session, uint32_t procedure, uint64_t address, uint64_t size)
{
    host_args args = { .address = address, .size = size };
    return wire_plain(session, procedure, (xdrproc_t)xdr_host_args, &args);
}

int mirror_call_add(struct client_session *session, uint64_t address, uint64_t size)
{
    return host_call(session, FLYT_HOST_ADD, address, size);
}

int mirror_call_remove(struct client_session *session, uint64_t address, uint64_t size)
{
    return host_call(session, FLYT_HOST_REMOVE, address, size);
}

int mirror_call_patch(struct client_session *session, const void *bytes, size_t size, bool more)
{
    host_patch_args args = { more, { (u_int)size, (char *)(uintptr_t)bytes } };
    return wire_send(session, FLYT_HOST_PATCH, (xdrproc_t)xdr_host_patch_args, &args);
}

int mirror_call_changes(struct client_session *session, uint64_t from, uint64_t *next,
                        bool (*apply)(void *user, const uint8_t *bytes, size_t size), void *user)
{
    host_changes_args args = { .from = from };
    host_changes_result result = { 0 };
    int code = wire_call(session, FLYT_HOST_CHANGES, (xdrproc_t)xdr_host_changes_args, &args,
                         (xdrproc_t)xdr_host_changes_result, &result);
    bool good = apply(user, (const uint8_t *)result.patch.patch_val, result.patch.patch_len);
    *next = good ? result.next : 0;
    xdr_free((xdrproc_t)xdr_host_changes_result, &result);
    if (good)
        return code;
    log_error("the GPU server told of changes in pinned memory that it does not have; the connection is closed");
    session_lost(session, "it broke the protocol");
    rpc_client_shutdown(session->client);
    return CORE_DEVICE_UNAVAILABLE;
}

void mirror_call_served(struct client_session *session, flyt_id id, int code)
{
    host_served_args args = { .id = id, .result = code };
    wire_send(session, FLYT_HOST_SERVED, (xdrproc_t)xdr_host_served_args, &args);
    mirror_call_flush(session);
}

void mirror_call_flush(struct client_session *session) { rpc_client_flush(session->client); }

/* Of several servers each one has to mirror it. */
static const struct client_session *without_mirror(void)
{
    const struct client_session *session = session_several() ? &core_session : NULL;
    while (session && session->hello.capabilities & FLYT_CAP_MIRROR)
        session = session->next;
    return session;
}

void mirror_missed(void)
{
    if (!atomic_exchange(&mirror_missing, false))
        return;
    const struct client_session *one = without_mirror();
    log_error("a kernel has touched an address that is not mapped (error 700). Kernels of this program cannot use its "
              "pinned host memory, as the attribute canMapHostMemory says: %s%s",
              core_perf.no_payload ? "FLYT_PERF has no_payload"
              : one ? "it has several GPU servers, of which all would have to be reached over a network, and one is "
                      "not: "
                    : "something else lies where the program and the GPU server would have it. Starting the program "
                      "again may help",
              one && !core_perf.no_payload ? one->uri : "");
}
