/* call.c: arguments and results of calls of functions that the device provides; see call.h. */
#include "softgpu/exec/call.h"

uint64_t exec_call_argument(const struct exec_warp *w, const struct exec_call *c, uint32_t k, unsigned lane)
{
    uint64_t value = 0;
    if (k >= c->argument_count)
        return 0;
    const struct exec_value *v = &c->arguments[k];
    uint32_t size = v->size < sizeof value ? v->size : (uint32_t)sizeof value;
    if (v->in_row)
        memcpy(&value, (const unsigned char *)exec_row(w, v->row) + lane * (v->bytes < 4 ? 4u : v->bytes), size);
    else
        exec_local_read(w, lane, w->frame->local_base + v->at, (unsigned char *)&value, size);
    return value;
}

void exec_call_result(struct exec_warp *w, const struct exec_call *c, uint32_t k, unsigned lane, uint64_t value)
{
    if (k < c->result_count)
        exec_result_write(w, &c->results[k], w->frame, lane, 0, (const unsigned char *)&value,
                     c->results[k].size < sizeof value ? c->results[k].size : (uint32_t)sizeof value);
}
