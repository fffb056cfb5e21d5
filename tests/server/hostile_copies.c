/* hostile_copies.c: copies, sets and prefetches, of bytes and of boxes. See hostile.h. */
#include "tests/server/hostile.h"

void hostile_copies(struct peer *peer)
{
    switch (below(10)) {
    case 0: SEND(copy_in, copy_in_args, { stream(), address(peer), bulk(size(peer)) }); break;
    case 1:
        WAIT(copy_out, copy_out_args, copy_out_result,
             { stream(), address(peer), size(peer), { below(20) == 0, (u_int)any() } });
        break;
    case 2:
        SEND(copy, copy_args,
             { stream(), address(peer), address(peer), size(peer), below(3) ? 0 : host_address(peer) });
        WAIT(copy_waited, copy_args, plain_result,
             { stream(), address(peer), address(peer), size(peer), below(20) ? 0 : any() });
        break;
    case 3: {
        flyt_extent e = extent();
        SEND(copy_box_in, copy_box_in_args, { stream(), box(peer), e, bulk(e.width * e.height * e.depth) });
        break;
    }
    case 4:
        WAIT(copy_box_out, copy_box_out_args, copy_out_result,
             { stream(), box(peer), extent(), { below(20) == 0, (u_int)any() } });
        break;
    case 5: SEND(copy_box, copy_box_args, { stream(), box(peer), box(peer), extent() }); break;
    case 6: SEND(set, set_args, { stream(), box(peer), extent(), (u_int)any(), (u_int)below(6) }); break;
    case 8: WAIT(watch, watch_args, watch_result, { any() % 4 }); break;
    case 7: WAIT(fingerprints, fingerprints_args, fingerprints_result, { stream(), box(peer), extent() }); break;
    default: SEND(prefetch, prefetch_args, { stream(), address(peer), below(1 << 20), (int)below(3) - 1 }); break;
    }
}
