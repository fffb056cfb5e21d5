/*
 * together.c: loads that stand in one line of code, and are at the same row of addresses plus a constant each, as an
 * unrolled loop has them, are checked together: where all bytes between the first and the last of them may be read,
 * none of them is checked by itself.
 */
#include "softgpu/exec/fused.h"
#include "softgpu/jit/access.h"

/* LINE: instructions that are looked at; BYTES: between the first and the last byte of a group. */
enum { LINE = 256, BYTES = 4096 };

static bool is_load(const struct exec_insn *i)
{
    return (access_bits(i) && !access_is_shared(i) && !access_is_store(i)) ||
           (i->known == EXEC_STRAIGHT_LOAD_VECTOR && exec_is_global_vector(i));
}

/* Bytes that the lanes load one behind the other, or all from one place; 0: they are elsewhere. */
static unsigned bytes_of(const struct exec_insn *i, int64_t step)
{
    const unsigned each = i->known == EXEC_STRAIGHT_LOAD_VECTOR ? i->size * i->vector : i->size;
    return step == (int64_t)each ? SG_LANES * each : !step && each == i->size ? each : 0;
}

static bool writes(const struct exec_insn *i, exec_source at)
{
    const struct exec_pieces *p = i->extra;
    const struct exec_vector *v = i->extra;
    if (i->known == EXEC_STRAIGHT_SPLIT)
        return (p->to[0] | EXEC_BASE_FRAME) == at || (p->to[1] | EXEC_BASE_FRAME) == at;
    for (unsigned k = 0; i->known == EXEC_STRAIGHT_LOAD_VECTOR && k < i->vector; k++)
        if ((v->to[k] | EXEC_BASE_FRAME) == at)
            return true;
    return (i->d | EXEC_BASE_FRAME) == at;
}

/* Does the line go on behind the instruction, with the rows that writes() knows? */
static bool goes_on(const struct exec_insn *i)
{
    return i->straight != EXEC_STRAIGHT_BRANCH && i->straight != EXEC_STRAIGHT_BRANCH_IF && !(i->flags & EXEC_POLL) &&
           (arithmetic_form_of(i) || access_bits(i) || exec_is_global_vector(i) || i->known == EXEC_STRAIGHT_SPLIT ||
            i->known == EXEC_STRAIGHT_JOIN || i->known == EXEC_STRAIGHT_PARAM || i->known == EXEC_STRAIGHT_LOGIC);
}

/* Is it a load of the group, whose first one is aligned as that wants it? Each is a multiple of its own size away. */
static bool belongs(const struct load_group *g, const struct exec_insn *i, unsigned align)
{
    return i->s[0] == g->base && align <= g->align && (i->offset - g->from) % (int64_t)align == 0;
}

static unsigned align_of(const struct exec_insn *i, unsigned bytes)
{
    return bytes > i->size ? bytes / SG_LANES : i->size;
}

/* Fills in the group that begins with the load. false: no other load belongs to it. */
static bool find_group(const struct compiler *c, const struct exec_insn *first, unsigned align, unsigned bytes,
                       struct load_group *g)
{
    const struct exec_insn *insns = c->wish->insns;
    const int64_t step = bytes > first->size ? (int64_t)align : 0;
    const uint32_t k = (uint32_t)(first - insns);
    unsigned count = 1;
    *g = (struct load_group){ .base = first->s[0], .from = first->offset, .align = align,
                              .least = first->offset, .most = first->offset + bytes, .end = k + 1 };
    for (uint32_t at = k; at - k < LINE && goes_on(&insns[at]) && !writes(&insns[at], g->base);) {
        const struct exec_insn *i = &insns[++at];
        if (at == c->wish->count || !c->in_region[at] || c->target[at] || at == c->wish->head)
            break;
        const unsigned own = is_load(i) && i->straight != EXEC_STRAIGHT_GUARDED ? bytes_of(i, step) : 0;
        if (!own || !belongs(g, i, align_of(i, own)))
            continue;
        const int64_t least = i->offset < g->least ? i->offset : g->least,
                      most = i->offset + own > g->most ? i->offset + own : g->most;
        if (most - least > BYTES)
            break;
        g->least = least;
        g->most = most;
        g->end = at + 1;
        count++;
    }
    return count > 1;
}

/* All bytes of the group. */
static LLVMValueRef may_read(struct compiler *c, const struct load_group *g, const struct exec_insn *i,
                             LLVMValueRef address)
{
    const unsigned bytes = (unsigned)(g->most - g->least);
    struct window_place p = { .low = address_of(c, address, (uint64_t)(g->least - i->offset)) };
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef here, look = block_new(c, "inside"), behind = block_new(c, "together");
    LLVMValueRef inside = both(c, is_aligned(c, address, g->align), in_window(c, &p, bytes));
    here = LLVMGetInsertBlock(b);
    branch_mostly(c, inside, look, behind);
    LLVMPositionBuilderAtEnd(b, look);
    LLVMValueRef answers[2] = { LLVMConstInt(c->i1, false, false), may_touch(c, &p, bytes, SG_READ) };
    LLVMBasicBlockRef from[2] = { here, look };
    LLVMBuildBr(b, behind);
    LLVMPositionBuilderAtEnd(b, behind);
    LLVMValueRef ok = LLVMBuildPhi(b, c->i1, "");
    LLVMAddIncoming(ok, answers, from, 2);
    return ok;
}

LLVMBasicBlockRef together_ask(struct compiler *c, const struct exec_insn *i, LLVMValueRef address, unsigned align,
                               unsigned bytes)
{
    struct load_group *g = &c->group;
    const uint32_t k = (uint32_t)(i - c->wish->insns);
    if (!c->in_line || c->wish->whole || !is_load(i) || i->straight == EXEC_STRAIGHT_GUARDED)
        return NULL;
    const bool known = g->ok && k < g->end && belongs(g, i, align) && i->offset >= g->least &&
                       i->offset + bytes <= g->most;
    if (!known) {
        g->ok = NULL;
        if (align_of(i, bytes) != align || !find_group(c, i, align, bytes, g))
            return NULL;
        g->ok = may_read(c, g, i, address);
    }
    LLVMBasicBlockRef right = block_new(c, "right"), check = block_new(c, "check");
    branch_mostly(c, g->ok, right, check);
    LLVMPositionBuilderAtEnd(c->builder, check);
    return right;
}
