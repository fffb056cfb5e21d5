/*
 * peer.c: peer access: kernels of one context may touch the device memory of a context of another device. Each pair is
 * noted here too, so that what a program can do wrong is found out without the server, and so that a session that
 * moves makes the pairs again.
 *
 * The server gives the peer's own memory to the device. It knows no context of memory that the peer's context has
 * imported (share.c): that memory gets its access from here.
 */
#include <pthread.h>

#include "api/forward/core.h"
#include "cpu/common/cancel.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/stream/context.h"
#include "kinds.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/memory/share.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

_Static_assert(CONTEXTS_MOST <= 64, "a bit for each");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t reaches[CONTEXTS_MOST]; /* by context: bit c: it may touch the memory of context c */

static uint64_t bit(const core_context *c) { return UINT64_C(1) << c->wire; }

static int ask(const core_context *c, const core_context *peer, bool may)
{
    peer_access_args args = { .context = c->wire, .peer = peer->wire, .may = may };
    return wire_plain(c->session, FLYT_PEER_ACCESS, (xdrproc_t)xdr_peer_access_args, &args);
}

static uint64_t devices_reaching(const core_context *peer)
{
    uint64_t devices = 0;
    for (int i = 0; i < CONTEXTS_MOST; i++)
        if (reaches[i] & bit(peer))
            devices |= UINT64_C(1) << context_of_wire((flyt_id)i)->device;
    return devices;
}

/* After a change of `reaches`: what the peer has imported gets, or loses, the access of the device. The mask changes
   before share.c's lock is taken: an import under way either sees the new mask, or is seen by share_peer_access. */
static int imports_follow(core_context *peer, int device)
{
    uint64_t before = atomic_load(&peer->reached_by), after = devices_reaching(peer), mask = UINT64_C(1) << device;
    atomic_store(&peer->reached_by, after);
    return (before ^ after) & mask ? share_peer_access(peer, device, after & mask ? ACCESS_READ_WRITE : 0) : CORE_OK;
}

/* 217 for a peer of the same device, as NVIDIA's driver answers: the header of the Runtime API promises 101, and
   NVIDIA's runtime hands on what its driver answers. */
static int check(const core_context *c, const core_context *peer)
{
    int code = context_enter(c);
    if (code)
        return code;
    if (!core_context_active(peer))
        return CORE_INVALID_CONTEXT;
    if ((code = context_enter(peer)))
        return code;
    return c->device == peer->device ? CORE_PEER_ACCESS_UNSUPPORTED : CORE_OK;
}

/* Under the lock, so that two threads do not both begin. */
static int change(core_context *c, core_context *peer, bool may)
{
    int code = CORE_OK;
    pthread_mutex_lock(&lock);
    if (((reaches[c->wire] & bit(peer)) != 0) == may)
        code = may ? CORE_PEER_ACCESS_ALREADY_ENABLED : CORE_PEER_ACCESS_NOT_ENABLED;
    else if (!(code = ask(c, peer, may))) {
        reaches[c->wire] ^= bit(peer);
        code = imports_follow(peer, c->device);
        if (code && may) {
            ask(c, peer, false);
            reaches[c->wire] ^= bit(peer);
            imports_follow(peer, c->device);
        }
    }
    pthread_mutex_unlock(&lock);
    return code;
}

int core_peer_enable(core_context *c, core_context *peer)
{
    CANCEL_DEFERRED;
    int can, code = check(c, peer);
    if (code || (code = core_device_can_access_peer(&can, c->device, peer->device)))
        return code;
    if (!can)
        return CORE_PEER_ACCESS_UNSUPPORTED;
    atomic_store(&c->cross_context, true); /* a cudaFree of the peer's memory waits for this one's work too */
    return change(c, peer, true);
}

int core_peer_disable(core_context *c, core_context *peer)
{
    CANCEL_DEFERRED;
    int code = check(c, peer);
    if (code == CORE_PEER_ACCESS_UNSUPPORTED)
        return CORE_PEER_ACCESS_NOT_ENABLED;
    if (!code)
        code = context_settle(c); /* kernels that were launched before keep their access */
    return code ? code : change(c, peer, false);
}

void peer_forget_context(core_context *c)
{
    pthread_mutex_lock(&lock);
    uint64_t reached = reaches[c->wire];
    reaches[c->wire] = 0;
    for (int i = 0; i < CONTEXTS_MOST; i++) {
        reaches[i] &= ~bit(c);
        if (reached >> i & 1)
            imports_follow(context_of_wire((flyt_id)i), c->device);
    }
    atomic_store(&c->reached_by, 0); /* what it had imported goes with it */
    pthread_mutex_unlock(&lock);
}

uint64_t peer_count(void)
{
    uint64_t count = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < CONTEXTS_MOST; i++)
        count += (uint64_t)__builtin_popcountll(reaches[i]);
    pthread_mutex_unlock(&lock);
    return count;
}

/* ---- moving to another server ---- */

/* No other thread makes calls meanwhile. */
int peer_restore(struct move *move)
{
    int code = CORE_OK;
    for (core_context *c = context_next(NULL); c && !code; c = context_next(c))
        for (core_context *peer = context_next(NULL); peer && !code; peer = context_next(peer))
            if ((reaches[c->wire] & bit(peer)) && (code = ask(c, peer, true)))
                move_refuse(move, code, "device %d cannot reach the memory of device %d at the new server (error %d)",
                            c->device, peer->device, code);
    return code;
}
