/* link.c: CUDA reference: Module Management, the linker. Links themselves: softgpu/driver/machine/link.c. */
#include "softgpu/driver/calls/calls.h"

#include <stdio.h>
#include <stdlib.h>

CUresult cuLinkCreate_v2(unsigned count, CUjit_option *options, void **values, CUlinkState *out)
{
    struct sgd_context *c;
    struct sgd_jit jit;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = out ? sgd_jit_read(&jit, count, options, values) : CUDA_ERROR_INVALID_VALUE;
    struct sgd_link *l = r ? NULL : calloc(1, sizeof *l);
    if (!r && (!l || !(l->handle = sgd_handle_new(SGD_LINK, l)))) {
        free(l);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!r) {
        l->jit = jit;
        *out = l->handle;
    }
    sgd_leave();
    return r;
}

static CUresult enter_link(CUlinkState state, struct sgd_context **c, struct sgd_link **l)
{
    CUresult r = sgd_enter_current(c);
    if (r)
        return r;
    *l = sgd_handle_get(SGD_LINK, state);
    if (*l)
        return CUDA_SUCCESS;
    sgd_leave();
    return CUDA_ERROR_INVALID_HANDLE;
}

/* The options of the link say where its log goes. */
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                          unsigned count, CUjit_option *options, void **values)
{
    struct sgd_context *c;
    struct sgd_link *l;
    struct sgd_jit jit;
    char log[SGD_LOG_SIZE] = "";
    CUresult r = enter_link(state, &c, &l);
    if (r)
        return r;
    r = data && size && (unsigned)type < CU_JIT_NUM_INPUT_TYPES ? sgd_jit_read(&jit, count, options, values)
                                                                : CUDA_ERROR_INVALID_VALUE;
    if (!r) {
        r = sgd_link_add(c->device, l, type, data, size, name ? name : "<input>", log, sizeof log);
        sgd_log("%s", log);
        sgd_jit_finish(&l->jit, log);
    }
    sgd_leave();
    return r;
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *size)
{
    struct sgd_context *c;
    struct sgd_link *l;
    char log[SGD_LOG_SIZE] = "";
    size_t length = 0;
    CUresult r = enter_link(state, &c, &l);
    if (r)
        return r;
    r = image ? sgd_link_complete(l, &length, log, sizeof log) : CUDA_ERROR_INVALID_VALUE;
    sgd_log("%s", log);
    sgd_jit_finish(&l->jit, log);
    if (!r) {
        *image = l->result;
        if (size)
            *size = length;
    }
    sgd_leave();
    return r;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_link *l = sgd_handle_get(SGD_LINK, state);
    if (l) {
        sgd_handle_drop(l->handle);
        sgd_link_free(l);
    }
    sgd_leave();
    return l ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
