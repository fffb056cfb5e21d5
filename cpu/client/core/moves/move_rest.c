/*
 * move_rest.c: how the session comes to rest before it moves or is suspended: no thread of the program is inside a
 * call, all work has ended, and everything that this process had on its way to the server has arrived.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cpu/common/clock.h"
#include "cpu/client/core/api_gate.h"
#include "cpu/client/core/api_stream.h"
#include "cpu/client/core/code/code.h"
#include "cpu/client/core/copy/lanes.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/moves/move_steps.h"
#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/stream/pending.h"
#include "cpu/client/core/wire/wire.h"

#define MOVE_SETTLE_NS (10 * CLOCK_NS_PER_SECOND)

/* Threads inside calls that wait for the device come out when it has done its work. */
int move_shut_gate(struct move *move, uint64_t limit)
{
    struct core_gate_inside inside;
    char stream[64] = "";
    move_pace_phase(move, MOVE_RESTS, false);
    move->pace.shut = clock_now();
    int code = core_gate_close(limit, &inside);
    if (inside.stream)
        snprintf(stream, sizeof stream, ", where it waits for the stream 0x%llx", (unsigned long long)inside.stream);
    switch (code) {
    case CORE_OK:
        return CORE_OK;
    case CORE_NOT_READY:
        return move_refuse(move, code, "the thread %d is inside %s%s, which did not end within %llu ms",
                           (int)inside.thread, inside.call, stream, (unsigned long long)(limit / CLOCK_NS_PER_MS));
    case CORE_INVALID_VALUE:
        return move_refuse(move, code, "the thread that moves the session is inside %s itself", inside.call);
    case CORE_SYSTEM_NOT_READY:
        if (session_keeps())
            return move_refuse(move, CORE_NOT_READY, "what it has on the GPU was just being written down");
        return move_refuse(move, code, "another thread is moving the session already");
    default:
        return move_refuse(move, code, "the system does not let its threads be brought to rest (membarrier), or it had "
                                       "no memory for it");
    }
}

static int stream_ends(struct move *move, core_context *c, core_stream stream, uint64_t until, uint64_t limit)
{
    enum { PAUSE_NS = 20000, PAUSE_MOST_NS = 500000 };
    for (long pause = PAUSE_NS; core_stream_query(c, stream) == CORE_NOT_READY;
         pause = pause < PAUSE_MOST_NS ? 2 * pause : pause) {
        if (clock_now() >= until)
            return move_refuse(move, CORE_NOT_READY, "%s in the stream 0x%llx did not end within %llu ms",
                               throttle_outstanding() ? "a host function, or other work" : "the work",
                               (unsigned long long)stream, (unsigned long long)(limit / CLOCK_NS_PER_MS));
        nanosleep(&(struct timespec){ 0, pause }, NULL);
    }
    return CORE_OK;
}

/* The gate is shut, so streams get nothing new, except by host functions, whose thread passes. What such a function
   puts into a stream that has been looked at already is waited for in settle. */
int move_streams_end(struct move *move, uint64_t until, uint64_t limit)
{
    int code = CORE_OK;
    move_hold("resting");
    context_settle_promises();
    for (core_context *c = context_next(NULL); c && !code; c = context_next(c)) {
        core_stream *streams;
        unsigned count;
        code = stream_list(c, &streams, &count);
        for (unsigned i = 0; i < count && !code; i++)
            code = stream_ends(move, c, streams[i], until, limit);
        free(streams);
    }
    while (!code && throttle_outstanding()) {
        if (clock_now() >= until)
            code = move_refuse(move, CORE_NOT_READY, "a host function did not end within %llu ms",
                               (unsigned long long)(limit / CLOCK_NS_PER_MS));
        nanosleep(&(struct timespec){ 0, 100000 }, NULL);
    }
    return code;
}

static bool busy(void)
{
    return wire_detached() || throttle_outstanding() || pending_writers();
}

int move_settle(struct move *move)
{
    int code = CORE_OK;
    context_settle_promises();
    code_settle();
    for (core_context *c = context_next(NULL); c && !code; c = context_next(c))
        code = context_finish(c);
    pending_wait_context(NULL, stream_serial());
    /* Answers that nobody waits for may come behind those that were waited for. */
    for (uint64_t until = clock_now() + MOVE_SETTLE_NS; !code && busy() && clock_now() < until;)
        nanosleep(&(struct timespec){ 0, 100000 }, NULL);
    if (code)
        return move_refuse(move, code, "the work under way failed (error %d)", code);
    memory_give_back();
    if ((code = context_grant_drop()))
        return move_refuse(move, code, "the context that nobody uses could not be given back (error %d)", code);
    if (busy() || !lanes_leave())
        return move_refuse(move, CORE_NOT_READY, "copies or host functions are still under way");
    return CORE_OK;
}
