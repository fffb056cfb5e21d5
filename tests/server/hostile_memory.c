/* hostile_memory.c: addresses of devices and of the host, and what programs that move need. See hostile.h. */
#include "tests/server/hostile.h"

/* Numbers for what is made next: those that others have, that none can have, and too many of them. */
static void places(struct peer *peer)
{
    uint64_t numbers[3] = { below(2) ? hostile.arrays[below(ARRAYS)] + below(200) : any() >> below(64),
                            any() >> below(64), below(2) ? UINT64_C(0x800500000000) + 16 * below(2000) : any() };
    if (!below(3))
        numbers[0] = UINT64_C(0x7E3) << 52 | below(3) << 32 | below(2000);
    if (!below(3))
        WAIT(module_place, module_place_args, module_place_result, { id(0) });
    SEND(place, place_args, { context(), (int)below(8), { below(3) ? 1 : (u_int)below(4), numbers } });
    WAIT(movable, movable_args, movable_result, { (u_int)any() });
    WAIT(heap, heap_args, heap_result, { context(), below(2) ? below(2000) : any() >> below(64) });
    SEND(heap_set, heap_set_args,
         { context(),
           below(2) ? below(2000) : any() >> below(64),
           { (u_int)below(sizeof hostile.payload), (char *)hostile.payload } });
}

/* Memory of another session. */
static void adopted(struct peer *peer)
{
    if (below(2))
        WAIT(bridge, bridge_args, plain_result, { (int)below(2) });
    else if (below(2))
        WAIT(adopt, adopt_args, plain_result, { context(), address(peer), size(peer) });
    else
        WAIT(handle_adopt, handle_create_args, plain_result, { stream(), (int)below(2), size(peer) });
}

void hostile_memory(struct peer *peer)
{
    if (!below(16))
        places(peer);
    switch (below(8)) {
    case 0:
        WAIT(map, map_args, map_result,
             { context(), address(peer), size(peer), below(3) ? 0 : size(peer), below(3) ? 0 : size(peer),
               (int)below(2) });
        break;
    case 1:
        WAIT(map, map_args, map_result,
             { 0, peer->base + below(4) * peer->granule, (1 + below(2)) * peer->granule, peer->granule, peer->granule,
               (int)below(2) });
        break;
    case 2:
        SEND(unmap, unmap_args, { context(), peer->base + below(4) * peer->granule, (1 + below(2)) * peer->granule });
        break;
    case 3: SEND(extent, extent_args, { address(peer), size(peer), (flyt_extent_state)below(3) }); break;
    case 4:
        SEND(stream_extent, stream_extent_args, { stream(), address(peer), size(peer), (flyt_extent_state)below(3) });
        break;
    case 5: WAIT(host_add, host_args, plain_result, { host_address(peer), host_size() }); break;
    case 6: WAIT(host_remove, host_args, plain_result, { host_address(peer), host_size() }); break;
    default: adopted(peer); break;
    }
}
