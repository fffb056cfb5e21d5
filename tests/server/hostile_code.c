/* hostile_code.c: images, modules, launches. See hostile.h. */
#include "cpu/code/hash.h"
#include "tests/server/hostile.h"
#include "tests/server/kernels.h"

static void image_hash(char *out)
{
    hash_bytes(kernels_ptx, sizeof kernels_ptx, (uint8_t *)out);
    if (!below(10))
        out[0] ^= 1;
}

void hostile_code(struct peer *peer)
{
    static char *const names[] = { (char *)"add", (char *)"bad ", (char *)"counter", (char *)"", (char *)"none" };
    char *symbols[2] = { names[below(5)], names[below(5)] };
    flyt_launch_attribute attribute = { .id = (int)below(20) };
    switch (below(9)) {
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
    default:
        SEND(launch, launch_args,
             { id(0),
               stream(),
               { (u_int)below(5), 1, 1 },
               { (u_int)below(2000), 1, 1 },
               (u_int)any() & 0xfff,
               below(9) ? 0 : (u_int)below(3),
               { (u_int)(below(3) ? 12 : below(40)), (char *)hostile.payload },
               { !below(9), &attribute } });
        break;
    }
}
