/*
 * hostile.c: sequences of calls with arguments that are sometimes right and often wrong, on the null device in this
 * process: nothing may crash, hang, or be left behind. The seed is printed; HOSTILE_SEED repeats it;
 * HOSTILE_GPU=software takes another device, through libflyt-server.so. (No kernel does harm: its parameters are
 * zeros.)
 */
#include "cpu/common/clock.h"
#include "cpu/code/hash.h"
#include "cpu/server/gpu/gpu.h"
#include "tests/server/kernels.h"
#include "tests/server/peer.h"

static uint64_t drawn = 1;

static uint64_t any(void)
{
    drawn ^= drawn << 13;
    drawn ^= drawn >> 7;
    drawn ^= drawn << 17;
    return drawn;
}

static uint64_t below(uint64_t n) { return any() % n; }

/* Mostly one of a few ids, so that calls meet. */
static uint32_t id(uint32_t first)
{
    return below(20) ? first + (uint32_t)below(4) : (uint32_t)any();
}

static uint32_t stream(void) { return below(3) ? id(64) : (uint32_t)below(3); }
static int device(void) { return below(20) ? 0 : (int)any(); }
/* Context 0 is the primary one, unless somebody else got that id. */
static uint32_t context(void) { return below(3) ? 0 : id(0); }

static uint64_t host_address(const struct peer *peer)
{
    uint64_t host = peer->base + peer->hello.window_size;
    switch (below(12)) {
    case 0: return any();
    case 1: return host - below(3);
    case 2: return host + peer->hello.host_size - below(3) * FLYT_HOST_GRANULE;
    default: return host + below(6) * FLYT_HOST_GRANULE + below(2) * below(100);
    }
}

static uint64_t host_size(void)
{
    return below(9) ? below(4) * FLYT_HOST_GRANULE + !below(20) : any();
}

/* What the server answered: names of arrays, of mipmapped ones, and of levels. */
enum { ARRAYS = 6 };
static uint64_t arrays[ARRAYS], mipmaps[ARRAYS];

static uint64_t address(const struct peer *peer)
{
    if (!below(4))
        return host_address(peer);
    switch (below(12)) {
    case 0: return any();
    case 10:
    case 11: return FLYT_ARRAY_SPACE + (below(9) ? arrays[below(ARRAYS)] + below(300) : any() >> 2);
    case 1: return peer->base - below(3);
    case 2: return peer->base + peer->hello.window_size - below(3);
    default: return peer->base + below(5) * peer->granule + below(2) * below(100);
    }
}

static uint64_t size(const struct peer *peer)
{
    switch (below(8)) {
    case 0: return any();
    case 1: return below(3) * peer->granule;
    case 2: return 0;
    default: return below(5000);
    }
}

static flyt_box box(const struct peer *peer)
{
    return (flyt_box){ address(peer), below(9) ? below(3000) : any(), below(9) ? below(20) : any() };
}
static flyt_extent extent(void)
{
    return (flyt_extent){ below(9) ? below(1000) : any(), below(9) ? below(20) : any(), below(9) ? below(4) : any() };
}

static uint8_t payload[FLYT_MAX_INLINE];

static flyt_bulk bulk(uint64_t bytes)
{
    flyt_bulk data = { .kind = FLYT_BULK_INLINE };
    if (!below(20)) {
        data.kind = FLYT_BULK_LANE;
        data.flyt_bulk_u.on_lane = (flyt_on_lane){ (u_int)any(), any() };
        return data;
    }
    data.flyt_bulk_u.bytes.bytes_val = (char *)payload;
    data.flyt_bulk_u.bytes.bytes_len = (u_int)(bytes < sizeof payload ? bytes : below(100));
    return data;
}

static void ok(enum clnt_stat status)
{
    if (status != RPC_SUCCESS)
        fail_msg("the session has ended: %s", clnt_sperrno(status));
}

#define WAIT(name, type, result_type, ...) do { \
        type args = __VA_ARGS__; \
        result_type result; \
        memset(&result, 0, sizeof result); \
        ok(flyt_##name##_1(&args, &result, peer->stub)); \
        xdr_free((xdrproc_t)xdr_##result_type, (char *)&result); \
    } while (0)
#define SEND(name, type, ...) do { \
        type args = __VA_ARGS__; \
        ok(flyt_##name##_1(&args, NULL, peer->stub)); \
    } while (0)

__attribute__((unused)) static void nonsense(void *out, size_t bytes)
{
    for (uint8_t *byte = out; bytes--; byte++)
        *byte = below(3) ? 0 : (uint8_t)below(256);
}

/* Every forwarded call, as cpu/api describes it. */
#include "api/forward/hostile.inc"

static void image_hash(char *out)
{
    hash_bytes(kernels_ptx, sizeof kernels_ptx, (uint8_t *)out);
    if (!below(10))
        out[0] ^= 1;
}

static void code_call(struct peer *peer)
{
    static char *const names[] = { (char *)"add", (char *)"bad ", (char *)"counter", (char *)"", (char *)"none" };
    static char *const references[] = { (char *)"texture", (char *)"surface", (char *)"none" };
    char *symbols[2] = { names[below(5)], names[below(5)] };
    flyt_launch_attribute attribute = { .id = (int)below(20) };
    switch (below(11)) {
    case 0: {
        image_args args = { .kind = below(9) ? FLYT_IMAGE_PTX : (flyt_image_kind)below(3),
                            .size = below(9) ? sizeof kernels_ptx : any() };
        image_result result = { 0 };
        image_hash(args.hash);
        ok(flyt_image_1(&args, &result, peer->stub));
        xdr_free((xdrproc_t)xdr_image_result, (char *)&result);
        break;
    }
    case 1: {
        image_data_args args = { .offset = below(9) ? 0 : any() };
        image_hash(args.hash);
        args.bytes.bytes_val = (char *)(uintptr_t)kernels_ptx;
        args.bytes.bytes_len = below(3) ? sizeof kernels_ptx : (u_int)below(sizeof kernels_ptx);
        ok(flyt_image_data_1(&args, NULL, peer->stub));
        break;
    }
    case 2: {
        module_load_args args = { .module = id(0), .context = context(), .symbols = { (u_int)below(3), symbols } };
        module_load_result result = { 0 };
        image_hash(args.hash);
        ok(flyt_module_load_1(&args, &result, peer->stub));
        xdr_free((xdrproc_t)xdr_module_load_result, (char *)&result);
        break;
    }
    case 3: SEND(module_unload, module_args, { id(0) }); break;
    case 4: WAIT(function_get, function_get_args, function_get_result, { id(0), id(0), names[below(5)] }); break;
    case 7:
        forwarded_call(peer);
        break;
    case 8:
        if (below(3)) {
            texref_set_args args = { .module = id(0),
                                     .name = references[below(3)],
                                     .surface = below(3) == 0,
                                     .resource = (flyt_texref_resource)(int)(below(6) - 1),
                                     .array = arrays[below(ARRAYS)],
                                     .address = address(peer),
                                     .bytes = below(5000),
                                     .width = below(100),
                                     .height = below(100),
                                     .pitch = below(3) * 512,
                                     .format = below(9) ? 32 : (int)any(),
                                     .channels = (u_int)below(5),
                                     .wrap = { (int)below(5), (int)any() },
                                     .filter = (int)below(3),
                                     .flags = below(3) ? (u_int)below(4) : (u_int)any() };
            ok(flyt_texref_set_1(&args, NULL, peer->stub));
        } else
            WAIT(texref_find, texref_find_args, plain_result, { id(0), references[below(3)], (int)below(2) });
        break;
    default:
        SEND(launch, launch_args,
             { id(0),
               stream(),
               { (u_int)below(5), 1, 1 },
               { (u_int)below(2000), 1, 1 },
               (u_int)any() & 0xfff,
               below(9) ? 0 : (u_int)below(3),
               { (u_int)(below(3) ? 12 : below(40)), (char *)payload },
               { !below(9), &attribute } });
        break;
    }
}

static void context_call(struct peer *peer)
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

static flyt_cuda_array3d_descriptor array_shape(void)
{
    static const int formats[] = { 1, 2, 3, 8, 9, 10, 16, 32 };
    return (flyt_cuda_array3d_descriptor){ below(40), below(2) ? below(20) : 0, below(3) ? 0 : below(13),
                                           below(20) ? formats[below(8)] : (int)any(), 1u << below(3),
                                           below(2) ? 0 : (u_int)below(16) };
}

/* Numbers for what is made next: those that others have, that none can have, and too many of them. */
static void place_call(struct peer *peer)
{
    uint64_t numbers[3] = { below(2) ? arrays[below(ARRAYS)] + below(200) : any() >> below(64), any() >> below(64),
                            below(2) ? UINT64_C(0x800500000000) + 16 * below(2000) : any() };
    if (!below(3))
        numbers[0] = UINT64_C(0x7E3) << 52 | below(3) << 32 | below(2000);
    if (!below(3))
        WAIT(module_place, module_place_args, module_place_result, { id(0) });
    SEND(place, place_args, { context(), (int)below(8), { below(3) ? 1 : (u_int)below(4), numbers } });
    WAIT(movable, movable_args, movable_result, { (u_int)any() });
    WAIT(heap, heap_args, heap_result, { context(), below(2) ? below(2000) : any() >> below(64) });
    SEND(heap_set, heap_set_args,
         { context(), below(2) ? below(2000) : any() >> below(64), { (u_int)below(sizeof payload), (char *)payload } });
}

/* Arrays that can be made, objects that look at them, and ends. */
static void array_call(struct peer *peer)
{
    if (!below(4))
        place_call(peer);
    uint64_t *array = &arrays[below(ARRAYS)], *mipmap = &mipmaps[below(ARRAYS)];
    switch (below(6)) {
    case 0: {
        array3d_create_args args = { context(), array_shape() };
        array3d_create_result result = { .pHandle = 0 };
        ok(flyt_array3d_create_1(&args, &result, peer->stub));
        *array = result.pHandle ? result.pHandle : *array;
        xdr_free((xdrproc_t)xdr_array3d_create_result, (char *)&result);
        break;
    }
    case 1: {
        mipmapped_array_create_args args = { context(), array_shape(), (u_int)(below(9) ? below(7) : any()) };
        mipmapped_array_create_result result = { .pHandle = 0 };
        ok(flyt_mipmapped_array_create_1(&args, &result, peer->stub));
        *mipmap = result.pHandle ? result.pHandle : *mipmap;
        xdr_free((xdrproc_t)xdr_mipmapped_array_create_result, (char *)&result);
        break;
    }
    case 2: {
        mipmapped_array_get_level_args args = { *mipmap, (u_int)below(8) };
        mipmapped_array_get_level_result result = { .pLevelArray = 0 };
        ok(flyt_mipmapped_array_get_level_1(&args, &result, peer->stub));
        *array = result.pLevelArray ? result.pLevelArray : *array;
        xdr_free((xdrproc_t)xdr_mipmapped_array_get_level_result, (char *)&result);
        break;
    }
    case 3: WAIT(array_destroy, array_destroy_args, plain_result, { *array }); break;
    case 4: WAIT(mipmapped_array_destroy, mipmapped_array_destroy_args, plain_result, { *mipmap }); break;
    default: {
        static const flyt_cuda_texture_desc how;
        flyt_cuda_resource_desc from = { .flags = 0 };
        from.res.resType = (int)below(2);
        from.res.flyt_cuda_resource_desc_res_u.array.hArray = from.res.resType ? *mipmap : *array;
        WAIT(tex_object_create, tex_object_create_args, tex_object_create_result, { context(), from, how, NULL });
        WAIT(surf_object_create, surf_object_create_args, surf_object_create_result, { context(), from });
        break;
    }
    }
}

static void one_call(struct peer *peer)
{
    switch (below(37)) {
    case 36:
        if (below(2))
            WAIT(bridge, bridge_args, plain_result, { (int)below(2) });
        else if (below(2))
            WAIT(adopt, adopt_args, plain_result, { context(), address(peer), size(peer) });
        else
            WAIT(handle_adopt, handle_create_args, plain_result, { stream(), (int)below(2), size(peer) });
        break;
    case 35:
        SEND(stream_extent, stream_extent_args,
             { stream(), address(peer), size(peer), (flyt_extent_state)below(3) });
        break;
    case 34: WAIT(peer_access, peer_access_args, plain_result, { context(), context(), (int)below(2) }); break;
    case 32:
    case 33: array_call(peer); break;
    case 28: WAIT(usage, usage_args, usage_result, { (u_int)any() }); break;
    case 26: WAIT(host_add, host_args, plain_result, { host_address(peer), host_size() }); break;
    case 27: WAIT(host_remove, host_args, plain_result, { host_address(peer), host_size() }); break;
    case 0: WAIT(context_sync, context_args, plain_result, { context() }); break;
    case 1: forwarded_call(peer); break;
    case 2: WAIT(limit_set, limit_args, limit_result, { context(), (int)any() % 20, any() }); break;
    case 3: WAIT(memory_info, context_args, memory_info_result, { context() }); break;
    case 4:
        WAIT(map, map_args, map_result,
             { context(), address(peer), size(peer), below(3) ? 0 : size(peer), below(3) ? 0 : size(peer),
               (int)below(2) });
        break;
    case 5:
        WAIT(map, map_args, map_result,
             { 0, peer->base + below(4) * peer->granule, (1 + below(2)) * peer->granule, peer->granule, peer->granule,
               (int)below(2) });
        break;
    case 6:
        SEND(unmap, unmap_args, { context(), peer->base + below(4) * peer->granule, (1 + below(2)) * peer->granule });
        break;
    case 29: SEND(extent, extent_args, { address(peer), size(peer), (flyt_extent_state)below(3) }); break;
    case 7: SEND(copy_in, copy_in_args, { stream(), address(peer), bulk(size(peer)) }); break;
    case 8:
        WAIT(copy_out, copy_out_args, copy_out_result,
             { stream(), address(peer), size(peer), { below(20) == 0, (u_int)any() } });
        break;
    case 9:
        SEND(copy, copy_args,
             { stream(), address(peer), address(peer), size(peer), below(3) ? 0 : host_address(peer) });
        WAIT(copy_waited, copy_args, plain_result,
             { stream(), address(peer), address(peer), size(peer), below(20) ? 0 : any() });
        break;
    case 10: {
        flyt_extent e = extent();
        SEND(copy_box_in, copy_box_in_args, { stream(), box(peer), e, bulk(e.width * e.height * e.depth) });
        break;
    }
    case 11:
        WAIT(copy_box_out, copy_box_out_args, copy_out_result,
             { stream(), box(peer), extent(), { below(20) == 0, (u_int)any() } });
        break;
    case 12: SEND(copy_box, copy_box_args, { stream(), box(peer), box(peer), extent() }); break;
    case 13: SEND(set, set_args, { stream(), box(peer), extent(), (u_int)any(), (u_int)below(6) }); break;
    case 14:
        SEND(stream_create, stream_create_args, { id(64), context(), below(9) ? (u_int)below(2) : (u_int)any(), 0 });
        break;
    case 15: SEND(stream_destroy, stream_args, { stream() }); break;
    case 16: WAIT(stream_sync, stream_args, plain_result, { stream() }); break;
    case 17: WAIT(stream_query, stream_args, plain_result, { stream() }); break;
    case 18: SEND(stream_wait, event_wait_args, { stream(), id(0), (u_int)below(3) }); break;
    case 19:
        SEND(event_create, event_create_args, { id(0), context(), below(9) ? 2 * (u_int)below(2) : (u_int)any() });
        break;
    case 20: SEND(event_destroy, event_args, { id(0) }); break;
    case 21: SEND(event_record, event_record_args, { id(0), stream(), (u_int)below(3) }); break;
    case 22: WAIT(event_sync, event_args, plain_result, { id(0) }); break;
    case 23: WAIT(event_query, event_args, plain_result, { id(0) }); break;
    case 24: forwarded_call(peer); break;
    case 30: SEND(prefetch, prefetch_args, { stream(), address(peer), below(1 << 20), (int)below(3) - 1 }); break;
    case 31: {
        flyt_value list[2];
        for (int i = 0; i < 2; i++) {
            list[i] = (flyt_value){ (int)below(8), address(peer) & ~(uint64_t)below(8), below(2), (u_int)below(5) };
            if (list[i].kind == CU_STREAM_MEM_OP_WAIT_VALUE_32 || list[i].kind == CU_STREAM_MEM_OP_WAIT_VALUE_64)
                list[i].flags = 64; /* refused: nobody would write what it waits for */
        }
        SEND(values, values_args, { stream(), { (u_int)below(3), list } });
        break;
    }
    default: code_call(peer); break;
    }
    if (!below(100))
        context_call(peer);
    if (!below(300) && strstr(peer->hello.server, "null"))        /* nobody ends it: only where streams do not wait */
        SEND(host_function, host_function_args, { stream(), (u_int)any() });
    if (!below(500)) {
        WAIT(context_reset, context_args, plain_result, { context() });
        WAIT(context_retain, context_retain_args, plain_result, { 0, 0 });
    }
}

TEST(random_calls)
{
    struct gpu_null_count count;
    struct peer peer;
    const char *seed = getenv("HOSTILE_SEED"), *gpu = getenv("HOSTILE_GPU");
    uint64_t start = clock_now(), calls = 0;
    /* On a real device a fault may stay with the process: then one round is all there is. */
    for (uint64_t round = 0; clock_now() - start < HOSTILE_SECONDS * CLOCK_NS_PER_SECOND && !(gpu && round); round++) {
        drawn = seed ? strtoull(seed, NULL, 0) : (start ^ round * 0x9e3779b97f4a7c15u) | 1;
        print_message("# seed %#llx\n", (unsigned long long)drawn);
        if (gpu)
            peer_library(&peer, gpu);
        else
            peer_local(&peer, "null");
        peer_hello(&peer);
        unsigned length = 1000 + (unsigned)below(3000);
        for (unsigned i = 0; i < length; i++)
            one_call(&peer);
        calls += length;
        peer_close(&peer);
        gpu_null_counted(&count);
        assert_int_equal(count.mapped, 0);
    }
    print_message("# %llu calls\n", (unsigned long long)calls);
}

int main(void) { return unit_run(NULL, NULL); }
