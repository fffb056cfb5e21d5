/* hostile_arrays.c: arrays, and what looks at them. See hostile.h. */
#include "tests/server/hostile.h"

static flyt_cuda_array3d_descriptor array_shape(void)
{
    static const int formats[] = { 1, 2, 3, 8, 9, 10, 16, 32 };
    return (flyt_cuda_array3d_descriptor){ below(40),
                                           below(2) ? below(20) : 0,
                                           below(3) ? 0 : below(13),
                                           below(20) ? formats[below(8)] : (int)any(),
                                           1u << below(3),
                                           below(2) ? 0 : (u_int)below(16) };
}

/* References by name: of kernels' code from before there were objects. */
static void reference(struct peer *peer)
{
    static char *const references[] = { (char *)"texture", (char *)"surface", (char *)"none" };
    if (!below(3)) {
        WAIT(texref_find, texref_find_args, plain_result, { id(0), references[below(3)], (int)below(2) });
        return;
    }
    texref_set_args args = { .module = id(0),
                             .name = references[below(3)],
                             .surface = below(3) == 0,
                             .resource = (flyt_texref_resource)(int)(below(6) - 1),
                             .array = hostile.arrays[below(ARRAYS)],
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
}

/* Arrays that can be made, objects that look at them, and ends. */
void hostile_arrays(struct peer *peer)
{
    if (!below(20))
        reference(peer);
    uint64_t *array = &hostile.arrays[below(ARRAYS)], *mipmap = &hostile.mipmaps[below(ARRAYS)];
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
