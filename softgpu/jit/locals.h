/* locals.h: which accesses of local memory have code (locals.c). */
#ifndef SOFTGPU_JIT_LOCALS_H
#define SOFTGPU_JIT_LOCALS_H

#include "softgpu/exec/fused.h"
#include "softgpu/jit/compile.h"

/* LOCAL_OFFSET_MOST: larger ones, and places of the warp's memory that would not fit in 31 bits, are the
   interpreter's. */
enum { LOCAL_PIECE = 16, LOCAL_OFFSET_MOST = 1 << 26 };

static inline unsigned local_bytes_of(const struct exec_insn *i) { return i->size * i->vector; }
static inline bool local_is_store(const struct exec_insn *i)
{
    return i->known == EXEC_STRAIGHT_STORE || i->known == EXEC_STRAIGHT_STORE_VECTOR;
}
static inline bool local_is_vector(const struct exec_insn *i)
{
    return i->known == EXEC_STRAIGHT_LOAD_VECTOR || i->known == EXEC_STRAIGHT_STORE_VECTOR;
}
/* Bytes of the register of an element. */
static inline unsigned local_register_of(const struct exec_insn *i, unsigned k)
{
    const struct exec_vector *v = i->extra;
    return local_is_vector(i) ? v->bytes[k] : i->kind;
}

/* A load or store of local memory that has code. */
static inline bool local_is_known(const struct exec_insn *i)
{
    const bool access = i->known == EXEC_STRAIGHT_LOAD || i->known == EXEC_STRAIGHT_STORE || local_is_vector(i),
               fixed = i->flags & EXEC_ADDRESS_UNIFORM;
    if (!access || i->space != PTX_SPACE_LOCAL || i->order != EXEC_RELAXED || i->flags & EXEC_POLL || i->size > 8 ||
        local_bytes_of(i) > LOCAL_PIECE)
        return false;
    for (unsigned k = 0; k < i->vector; k++)
        if (local_register_of(i, k) > 8)
            return false;
    return !fixed || (i->flags & EXEC_ADDRESS_FRAME && i->offset >= 0 && i->offset < LOCAL_OFFSET_MOST &&
                      !(i->offset & (local_bytes_of(i) - 1)));
}

#endif
