/* forward.c: what the client names in a forwarded call. See forward.h. */
#include "cpu/server/code/forward.h"

#include "cpu/server/code/code.h"
#include "cpu/server/code/settings.h"

CUresult server_find_context(struct session *session, uint32_t id, struct context **context)
{
    *context = context_find(session, id);
    return *context ? context_use(session, *context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult server_find_function(struct session *session, uint32_t id, CUfunction *handle)
{
    struct function *function = function_find(session, id);
    if (!function || function->state == CODE_LOADING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (function->state == CODE_FAILED)
        return function->result;
    *handle = function->handle;
    CUresult r = context_use(session, function->module->context);
    return r == CUDA_SUCCESS ? settings_apply_now(session, function) : r;
}
