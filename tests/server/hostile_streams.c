/* hostile_streams.c: streams and events, values that streams wait for, host functions. See hostile.h. */
#include "cpu/server/gpu/gpu.h"
#include "tests/server/hostile.h"

static void values(struct peer *peer)
{
    flyt_value list[2];
    for (int i = 0; i < 2; i++) {
        list[i] = (flyt_value){ (int)below(8), address(peer) & ~(uint64_t)below(8), below(2), (u_int)below(5) };
        if (list[i].kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || list[i].kind == CU_STREAM_MEM_OP_WAIT_VALUE_64)
            list[i].flags = 64; /* refused: nobody would write what it waits for */
    }
    SEND(values, values_args, { stream(), { (u_int)below(3), list } });
}

void hostile_streams(struct peer *peer)
{
    if (!below(100) && strstr(peer->hello.server, "null")) /* nobody ends it: only where streams do not wait */
        SEND(host_function, host_function_args, { stream(), (u_int)any() });
    switch (below(11)) {
    case 0:
        SEND(stream_create, stream_create_args, { id(64), context(), below(9) ? (u_int)below(2) : (u_int)any(), 0 });
        break;
    case 1: SEND(stream_destroy, stream_args, { stream() }); break;
    case 2: WAIT(stream_sync, stream_args, plain_result, { stream() }); break;
    case 3: WAIT(stream_query, stream_args, plain_result, { stream() }); break;
    case 4: SEND(stream_wait, event_wait_args, { stream(), id(0), (u_int)below(3) }); break;
    case 5:
        SEND(event_create, event_create_args, { id(0), context(), below(9) ? 2 * (u_int)below(2) : (u_int)any() });
        break;
    case 6: SEND(event_destroy, event_args, { id(0) }); break;
    case 7: SEND(event_record, event_record_args, { id(0), stream(), (u_int)below(3) }); break;
    case 8: WAIT(event_sync, event_args, plain_result, { id(0) }); break;
    case 9: WAIT(event_query, event_args, plain_result, { id(0) }); break;
    default: values(peer); break;
    }
}
