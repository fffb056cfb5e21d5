/*
 * op_copy.c: cp.async, cp.async.bulk and cp.reduce.async.bulk: copies that are there at once, so that committing and
 * waiting mean nothing; what a bulk copy announces at an mbarrier is announced when it is done.
 */
#include "softgpu/exec/access.h"
#include "softgpu/exec/decode.h"

#include <cuda.h>
#include <string.h>

#include "softgpu/memory.h"

static void run_copy_async(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_insn *from = i->extra;
    unsigned size = i->size;
    _Alignas(16) unsigned char bytes[SG_LANES][16];
    uint32_t wanted[SG_LANES];
    const uint32_t *sizes = i->s[1] ? exec_row(w, i->s[1]) : NULL;
    uint32_t all = w->mask, reading = 0;
    for (uint32_t m = all; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        wanted[l] = sizes ? (sizes[l] < size ? sizes[l] : size) : size;
        if (i->kind && (*exec_pred(w, i->in) ^ i->in_flip) >> l & 1)
            wanted[l] = 0;                        /* ignore-src */
        if (wanted[l])
            reading |= 1u << l;
    }
    memset(bytes, 0, sizeof bytes);
    if (reading) {
        w->mask = reading;
        enum exec_found found = exec_address(w, from, size, size, SG_READ);
        w->mask = all;
        if (found == EXEC_FOUND_NONE)
            return;
        for (uint32_t m = reading; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m);
            const void *at = (const void *)exec_found_address(w, found, l, size);
            if (wanted[l] == size)
                exec_copy_piece(bytes[l], at, size);
            else
                exec_copy_bytes(bytes[l], at, wanted[l]);
        }
    }
    enum exec_found found = exec_address(w, i, size, size, SG_WRITE);
    if (found == EXEC_FOUND_NONE)
        return;
    for (uint32_t m = all; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        exec_copy_piece((void *)exec_found_address(w, found, l, size), bytes[l], size);
    }
}

struct bulk {
    struct exec_insn from, announce;
    struct exec_insn reduce;          /* cp.reduce: the operation */
    exec_source size;
    exec_source mask;                 /* which bytes of each 16; 0: all */
    exec_source ranks;                /* .multicast::cluster: to which blocks; 0: only where the address says */
    exec_source ignored[2];           /* .ignore_oob: how many of the first and last 15 bytes are not copied; 0: none */
    bool announces, reduces;
};

static bool copy_bulk(struct exec_warp *w, const struct exec_insn *i, unsigned lane, uint64_t to, uint64_t from,
                      uint32_t size)
{
    const struct bulk *b = i->extra;
    const uint32_t all = b->mask ? ((const uint32_t *)exec_row(w, b->mask))[lane] & 0xffff : 0xffff;
    uint32_t ignored[2] = { 0 };
    for (unsigned k = 0; k < 2 && b->ignored[k]; k++)
        ignored[k] = ((const uint32_t *)exec_row(w, b->ignored[k]))[lane] & 15;
    for (uint32_t at = 0; at < size; at += 16) {
        /* what is ignored may lie outside the source's memory */
        const uint32_t first = at ? 0 : ignored[0], behind = at + 16 < size ? 16 : 16 - ignored[1];
        const uint32_t mask = all & 0xffffu << first & ((1u << behind) - 1);
        if (first >= behind)
            continue;
        void *d = exec_address_lane(w, lane, to + at, 16, b->reduces ? SG_READ | SG_WRITE : SG_WRITE);
        const char *s = exec_address_lane(w, lane, from + at + first, behind - first, SG_READ);
        if (!d || !s) {
            exec_fault_address(w, i, CUDA_ERROR_ILLEGAL_ADDRESS, "bulk copy", lane, d ? from + at + first : to + at);
            return false;
        }
        if (mask != 0xffff) {
            for (unsigned k = first; k < behind; k++)
                if (mask >> k & 1)
                    exec_copy_bytes((char *)d + k, s + k - first, 1);
            continue;
        }
        exec_16_bytes bytes = exec_load128(s);
        if (b->reduces)
            exec_reduce(w, &b->reduce, d, &bytes, 16);
        else
            exec_store128(d, bytes);
    }
    return true;
}

static void run_bulk(struct exec_warp *w, const struct exec_insn *i)
{
    const struct bulk *b = i->extra;
    const uint32_t *sizes = exec_row(w, b->size);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t to = exec_generic_address(w, i, l), from = exec_generic_address(w, &b->from, l);
        if ((to | from | sizes[l]) & 15) {
            exec_fault_address(w, i, CUDA_ERROR_MISALIGNED_ADDRESS, "bulk copy", l, to);
            return;
        }
        uint64_t announce = b->announces ? exec_generic_address(w, &b->announce, l) : 0;
        uint32_t ranks = b->ranks ? ((const uint32_t *)exec_row(w, b->ranks))[l] & 0xffff : 1;
        for (; ranks; ranks &= ranks - 1) {
            uint32_t rank = (uint32_t)__builtin_ctz(ranks);
            if (!copy_bulk(w, i, l, b->ranks ? exec_shared_of_rank(w->block, to, rank) : to, from, sizes[l]))
                return;
            uint64_t at = b->ranks ? exec_shared_of_rank(w->block, announce, rank) : announce;
            if (b->announces && !exec_bytes_complete(w, &b->announce, l, at, sizes[l]))
                return;
        }
    }
}

static int decode_bulk(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    if (decode_has(d, "commit_group") || decode_has(d, "wait_group") || decode_has(d, "prefetch"))
        return 0;
    if (decode_has(d, "tensor"))
        return decode_tensor_copy(d);
    if (in->operand_count < 3)
        return decode_error(d, "operands");
    struct bulk *b = exec_kernel_own(d->kernel, sizeof *b);
    if (!b)
        return decode_error(d, "no host memory");
    b->reduces = !strcmp(in->modifiers[0], "reduce");
    if (b->reduces && decode_reduction(d, &b->reduce))
        return -1;
    bool to_global = decode_has(d, "bulk_group"), from_shared = false;
    for (uint32_t k = in->modifier_count; k-- > 0;)               /* destination and source, in this order */
        if (!strncmp(in->modifiers[k], "shared", 6) || !strcmp(in->modifiers[k], "global")) {
            from_shared = in->modifiers[k][0] == 's';
            break;
        }
    struct exec_insn n = { .run = run_bulk, .extra = b };
    b->from.line = b->announce.line = in->line;
    if (decode_memory(d, &in->operands[0], to_global ? PTX_SPACE_GLOBAL : PTX_SPACE_SHARED, &n) ||
        decode_memory(d, &in->operands[1], from_shared ? PTX_SPACE_SHARED : PTX_SPACE_GLOBAL, &b->from) ||
        decode_source(d, &in->operands[2], PTX_B32, &b->size))
        return -1;
    if (decode_has(d, "cp_mask") && decode_source(d, &in->operands[in->operand_count - 1], PTX_B16, &b->mask))
        return -1;
    if (!to_global) {
        bool several = decode_has(d, "multicast::cluster"), ignores = decode_has(d, "ignore_oob");
        const struct ptx_operand *barrier = &in->operands[ignores ? 5 : 3];
        if (in->operand_count < (ignores ? 6u : several ? 5u : 4u) || (ignores && several))
            return decode_error(d, "no mbarrier or no mask named");
        b->announces = true;
        for (unsigned k = 0; k < 2 && ignores; k++)
            if (decode_source(d, &in->operands[3 + k], PTX_B32, &b->ignored[k]))
                return -1;
        if (decode_memory(d, barrier, PTX_SPACE_SHARED, &b->announce) ||
            (several && decode_source(d, &in->operands[4], PTX_B16, &b->ranks)))
            return -1;
    }
    return decode_put_guarded(d, n);
}

static int decode_cp(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    bool reduces = in->modifier_count && !strcmp(in->modifiers[0], "reduce");
    if (!in->modifier_count || (!reduces && strcmp(in->modifiers[0], "async")))
        return decode_error(d, "only cp.async and cp.reduce.async are known");
    if (decode_has(d, "bulk"))
        return decode_bulk(d);
    if (reduces)
        return decode_error(d, "only bulk copies reduce");
    if (decode_has(d, "mbarrier"))
        return decode_copies_arrive(d);
    if (decode_has(d, "commit_group") || decode_has(d, "wait_group") || decode_has(d, "wait_all"))
        return 0;
    struct exec_insn n = { .run = run_copy_async }, *from = exec_kernel_own(d->kernel, sizeof *from);
    if (!from)
        return decode_error(d, "no host memory");
    if (in->operand_count < 3 || in->operands[2].kind != PTX_OP_INTEGER)
        return decode_error(d, "the number of bytes has to be a constant");
    int64_t size = in->operands[2].integer;
    if (size != 4 && size != 8 && size != 16)
        return decode_error(d, "%lld bytes", (long long)size);
    n.size = (uint8_t)size;
    n.extra = from;
    from->line = in->line;
    if (decode_memory(d, &in->operands[0], PTX_SPACE_SHARED, &n) ||
        decode_memory(d, &in->operands[1], PTX_SPACE_GLOBAL, from))
        return -1;
    if (in->operand_count > 3 && !decode_has(d, "L2::cache_hint")) {
        const struct ptx_operand *o = &in->operands[3];
        if (o->kind == PTX_OP_REGISTER && d->f->registers[o->reg].type == PTX_PRED) {
            n.kind = 1;
            if (decode_predicate(d, o, &n.in, &n.in_flip))
                return -1;
        } else if (decode_source(d, o, PTX_B32, &n.s[1]))
            return -1;
    }
    return decode_put_guarded(d, n);
}

/* --- st.bulk: zeros --- */

static void run_bulk_store(struct exec_warp *w, const struct exec_insn *i)
{
    const uint64_t *sizes = exec_row(w, i->s[1]);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t to = exec_generic_address(w, i, l);
        for (uint64_t at = 0; at < sizes[l]; at += 8) {
            void *d = exec_address_lane(w, l, to + at, 8, SG_WRITE);
            if (!d || (to | sizes[l]) & 7) {
                exec_fault_address(w, i, d ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS, "bulk store",
                                   l, to + at);
                return;
            }
            exec_store64(d, 0);
        }
    }
}

int decode_bulk_store(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    struct exec_insn n = { .run = run_bulk_store };
    if (in->operand_count != 3 || in->operands[2].kind != PTX_OP_INTEGER || in->operands[2].integer)
        return decode_error(d, "only zeros are stored in bulk");
    return decode_memory(d, &in->operands[0], PTX_SPACE_SHARED, &n) ||
                   decode_source(d, &in->operands[1], PTX_B64, &n.s[1]) || decode_put_guarded(d, n)
               ? -1
               : 0;
}

/* createpolicy: how long to keep what is accessed; a value that nothing here looks at. */
static int decode_policy(struct exec_decoder *d)
{
    enum ptx_type declared;
    struct exec_insn n = { .run = exec_run_copy64, .source_count = 1 };
    if (!d->in->operand_count || decode_destination(d, &d->in->operands[0], PTX_B64, &n.d, &declared) ||
        ptx_type_size(declared) != 8)
        return decode_error(d, "operands");
    return decode_constant(d, 0, SG_CELL_64, &n.s[0]) || decode_put_guarded(d, n) ? -1 : 0;
}

const struct decode_entry decode_copy[] = { { "cp", decode_cp }, { "createpolicy", decode_policy }, { NULL, NULL } };
