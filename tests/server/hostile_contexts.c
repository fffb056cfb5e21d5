/* hostile_contexts.c: contexts and devices. See hostile.h. */
#include "tests/server/hostile.h"

static void begun_and_ended(struct peer *peer)
{
    switch (below(7)) {
    case 0:
    case 1:
        WAIT(context_create, context_create_args, plain_result,
             { id(0), device(), below(9) ? (u_int)below(3) : (u_int)any() });
        break;
    case 2: WAIT(context_retain, context_retain_args, plain_result, { id(0), device() }); break;
    case 3: WAIT(context_release, context_args, plain_result, { id(0) }); break;
    case 4: WAIT(context_destroy, context_args, plain_result, { id(0) }); break;
    case 5: WAIT(context_destroy, context_args, plain_result, { 1 + (u_int)below(3) }); break;
    default: WAIT(context_reset, context_args, plain_result, { id(0) }); break;
    }
}

void hostile_contexts(struct peer *peer)
{
    if (!below(14))
        begun_and_ended(peer);
    if (!below(70)) {
        WAIT(context_reset, context_args, plain_result, { context() });
        WAIT(context_retain, context_retain_args, plain_result, { 0, 0 });
    }
    switch (below(5)) {
    case 0: WAIT(context_sync, context_args, plain_result, { context() }); break;
    case 1: WAIT(limit_set, limit_args, limit_result, { context(), (int)any() % 20, any() }); break;
    case 2: WAIT(memory_info, context_args, memory_info_result, { context() }); break;
    case 3: WAIT(usage, usage_args, usage_result, { (u_int)any() }); break;
    default: WAIT(peer_access, peer_access_args, plain_result, { context(), context(), (int)below(2) }); break;
    }
}
