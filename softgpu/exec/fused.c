/* fused.c: the accesses of fused_access.h as handlers. Compiled once per level of the processor. */
#include "softgpu/exec/fused_access.h"

#define HANDLER(name, access, general)                                                          \
    static void name(struct exec_warp *w, const struct exec_insn *i)                            \
    {                                                                                           \
        if (!(access))                                                                          \
            general(w, i);                                                                      \
    }
HANDLER(run_load8, load8(w, i), exec_run_load)
HANDLER(run_load16, load16(w, i), exec_run_load)
HANDLER(run_load32, load32(w, i), exec_run_load)
HANDLER(run_load64, load64(w, i), exec_run_load)
HANDLER(run_load8s, load8s(w, i), exec_run_load)
HANDLER(run_load16s, load16s(w, i), exec_run_load)
HANDLER(run_store8, store8(w, i), exec_run_store)
HANDLER(run_store16, store16(w, i), exec_run_store)
HANDLER(run_store32, store32(w, i), exec_run_store)
HANDLER(run_store64, store64(w, i), exec_run_store)
HANDLER(run_load_32x2, load_vector(w, i, EXEC_VECTOR_32X2, 2, 4), exec_run_load_vector)
HANDLER(run_load_32x4, load_vector(w, i, EXEC_VECTOR_32X4, 4, 4), exec_run_load_vector)
HANDLER(run_load_64x2, load_vector(w, i, EXEC_VECTOR_64X2, 2, 8), exec_run_load_vector)
HANDLER(run_store_32x2, store_vector(w, i, EXEC_VECTOR_32X2, 2, 4), exec_run_store_vector)
HANDLER(run_store_32x4, store_vector(w, i, EXEC_VECTOR_32X4, 4, 4), exec_run_store_vector)
HANDLER(run_store_64x2, store_vector(w, i, EXEC_VECTOR_64X2, 2, 8), exec_run_store_vector)
#ifdef __AVX2__
HANDLER(run_shared_load, shared_load(w, i), exec_run_load)
HANDLER(run_shared_load_32x2, shared_load_vector(w, i, 2), exec_run_load_vector)
HANDLER(run_shared_load_32x4, shared_load_vector(w, i, 4), exec_run_load_vector)
#endif
#ifdef __AVX2__
HANDLER(run_shared_store, shared_store(w, i), exec_run_store)
HANDLER(run_shared_store_32x2, shared_store_vector(w, i, 2), exec_run_store_vector)
HANDLER(run_shared_store_32x4, shared_store_vector(w, i, 4), exec_run_store_vector)
#define SHARED run_shared_load, run_shared_store, { run_shared_load_32x2, run_shared_load_32x4, NULL }, \
    { run_shared_store_32x2, run_shared_store_32x4, NULL }
#else
#define SHARED NULL, NULL, { NULL, NULL, NULL }, { NULL, NULL, NULL }
#endif

SG_CLONE_DECLARE(const struct exec_fused, exec_fused);
const struct exec_fused SG_CLONE(exec_fused) = {
    { run_load8, run_load16, run_load32, run_load64 },
    { run_load8s, run_load16s },
    { run_store8, run_store16, run_store32, run_store64 },
    { run_load_32x2, run_load_32x4, run_load_64x2 },
    { run_store_32x2, run_store_32x4, run_store_64x2 },
    SHARED,
};
