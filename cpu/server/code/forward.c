/* forward.c: what the client names in a forwarded call. See forward.h. */
#include "cpu/server/code/forward.h"

#include "cpu/server/code/code.h"

CUresult server_find_context(struct session *session, uint32_t id, struct context **context)
{
    *context = context_find(session, id);
    return *context ? context_use(session, *context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult server_find_function(struct session *session, uint32_t id, CUfunction *handle)
{
    const struct function *function = function_find(session, id);
    if (!function || function->state == CODE_LOADING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (function->state == CODE_FAILED)
        return function->result;
    *handle = function->handle;
    return context_use(session, function->module->context);
}
