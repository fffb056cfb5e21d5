/* call.h: arguments and results of calls, for op_control.c and builtin.c. */
#ifndef SOFTGPU_EXEC_CALL_H
#define SOFTGPU_EXEC_CALL_H

#include <string.h>

#include "softgpu/exec/exec.h"

/* One actual argument or result of a call: a .param variable in the caller's local memory, or a register or
   constant. */
struct exec_value { exec_source row; uint32_t to, at, size; uint8_t bytes; bool in_row; };
struct exec_call {
    _Atomic(struct exec_function *) const *callee; /* NULL: by pointer, in s[0], or the device provides it */
    uint32_t argument_count, result_count;
    struct exec_value *arguments, *results;
};

/* Bytes of a lane's local memory, which is in pieces of 16. */
static inline void exec_local_read(const struct exec_warp *w, unsigned lane, uint32_t from, unsigned char *to,
                                   uint32_t size)
{
    while (size) {
        uint32_t n = 16 - from % 16 < size ? 16 - from % 16 : size;
        memcpy(to, exec_local(w, lane, from), n);
        from += n, to += n, size -= n;
    }
}

static inline void exec_local_write(const struct exec_warp *w, unsigned lane, uint32_t to, const unsigned char *from,
                                    uint32_t size)
{
    while (size) {
        uint32_t n = 16 - to % 16 < size ? 16 - to % 16 : size;
        memcpy(exec_local(w, lane, to), from, n);
        from += n, to += n, size -= n;
    }
}

/* Bytes of a result, from its byte `skip` on, to where the caller in frame f wants it. */
static inline void exec_result_write(struct exec_warp *w, const struct exec_value *v, const struct exec_frame *f,
                                     unsigned lane, uint32_t skip, const unsigned char *from, uint32_t size)
{
    if (!v->in_row) {
        exec_local_write(w, lane, f->local_base + v->at + skip, from, size);
        return;
    }
    unsigned cell = v->bytes < 4 ? 4u : v->bytes;
    unsigned char *to = f->rows + v->to + lane * cell;
    if (!skip)
        memset(to, 0, cell);
    memcpy(to + skip, from, size);
}

uint64_t exec_call_argument(const struct exec_warp *, const struct exec_call *, uint32_t k,
                            unsigned lane); /* 0 where there is none */
void exec_call_result(struct exec_warp *, const struct exec_call *, uint32_t k, unsigned lane, uint64_t value);

#endif
