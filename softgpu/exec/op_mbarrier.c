/*
 * op_mbarrier.c: mbarrier objects in shared memory.
 *
 * The 64 bits are opaque to programs. Here: arrivals still missing in this phase, arrivals that each phase expects,
 * bytes that are still to come (tx), and the phase's parity. A phase ends when nothing is missing and nothing is to
 * come. Shared memory belongs to one block or cluster that one host thread runs at a time, so plain accesses do.
 * Follows: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
 */
#include "softgpu/exec/decode.h"

#include <cuda.h>
#include <string.h>

#include "softgpu/memory.h"

enum mbarrier_op { INIT, INVAL, ARRIVE, ARRIVE_DROP, EXPECT_TX, COMPLETE_TX, WAIT_STATE, WAIT_PARITY, PENDING_COUNT };
enum { COUNT_BITS = 20, POLL_COST = 128 };
static const uint64_t COUNT_MASK = (UINT64_C(1) << COUNT_BITS) - 1, PHASE = UINT64_C(1) << 62;
static const uint64_t TX_MASK = (UINT64_C(1) << 22) - 1;
enum { TX_SHIFT = 2 * COUNT_BITS };

static uint64_t missing_of(uint64_t v) { return v & COUNT_MASK; }
static uint64_t expected_of(uint64_t v) { return v >> COUNT_BITS & COUNT_MASK; }
static uint64_t with_missing(uint64_t v, uint64_t n) { return (v & ~COUNT_MASK) | (n & COUNT_MASK); }
static uint64_t with_tx(uint64_t v, uint64_t add)
{
    uint64_t tx = ((v >> TX_SHIFT & TX_MASK) + add) & TX_MASK;
    return (v & ~(TX_MASK << TX_SHIFT)) | tx << TX_SHIFT;
}

static uint64_t settle(uint64_t v)
{
    if (missing_of(v) || v >> TX_SHIFT & TX_MASK)
        return v;
    return with_missing(v ^ PHASE, expected_of(v));
}

static uint64_t act(enum mbarrier_op op, uint64_t v, uint64_t count, uint64_t tx)
{
    switch (op) {
    case INIT:        return (count & COUNT_MASK) | (count & COUNT_MASK) << COUNT_BITS;
    case INVAL:       return 0;
    case ARRIVE_DROP: v = (v & ~(COUNT_MASK << COUNT_BITS)) | ((expected_of(v) - count) & COUNT_MASK) << COUNT_BITS;
                      return settle(with_missing(v, missing_of(v) - count));
    case ARRIVE:      return settle(with_missing(with_tx(v, tx), missing_of(v) - count));
    case EXPECT_TX:   return with_tx(v, tx);
    case COMPLETE_TX: return settle(with_tx(v, 0 - tx));
    default:          return v;
    }
}

static void run_mbarrier(struct exec_warp *w, const struct exec_insn *i)
{
    enum mbarrier_op op = (enum mbarrier_op)i->kind;
    enum exec_found found = exec_address(w, i, 8, 8, SG_READ | SG_WRITE);
    if (found == EXEC_FOUND_NONE)
        return;
    const uint32_t *count = i->s[1] ? exec_row(w, i->s[1]) : NULL, *tx = i->s[2] ? exec_row(w, i->s[2]) : NULL;
    const void *state = i->s[3] ? exec_row(w, i->s[3]) : NULL;
    uint32_t p = 0;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t *at = (uint64_t *)exec_found_address(w, found, l, 8);
        uint64_t before = *at;
        if (op == WAIT_STATE)
            p |= (uint32_t)(((before ^ ((const uint64_t *)state)[l]) & PHASE) != 0) << l;
        else if (op == WAIT_PARITY)
            p |= (uint32_t)((before >> 62 & 1) != (((const uint32_t *)state)[l] & 1)) << l;
        else {
            *at = act(op, before, count ? count[l] : 1, tx ? tx[l] : 0);
            if (i->d != UINT32_MAX)
                ((uint64_t *)(void *)(w->rows + i->d))[l] = before;
        }
    }
    if (op == WAIT_STATE || op == WAIT_PARITY) {
        exec_pred_write(w, i->p, p);
        exec_poll(w, POLL_COST);
    }
}

static void run_pending(struct exec_warp *w, const struct exec_insn *i)
{
    const uint64_t *state = exec_row(w, i->s[0]);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        ((uint32_t *)(void *)(w->rows + i->d))[l] = (uint32_t)missing_of(state[l]);
    }
}

static int destination(struct exec_decoder *d, enum ptx_type type, uint32_t *row)
{
    enum ptx_type declared;
    const struct ptx_operand *o = &d->in->operands[0];
    *row = UINT32_MAX;
    if (o->kind == PTX_OP_SINK)
        return 0;
    if (decode_destination(d, o, type, row, &declared))
        return -1;
    return ptx_type_size(declared) == ptx_type_size(type) ? 0 : decode_error(d, "a destination of another size");
}

static int decode_mbarrier(struct exec_decoder *d)
{
    static const struct { const char *name; uint8_t op;
    } names[] = { { "init", INIT },
                  { "inval", INVAL },
                  { "arrive", ARRIVE },
                  { "arrive_drop", ARRIVE_DROP },
                  { "expect_tx", EXPECT_TX },
                  { "complete_tx", COMPLETE_TX },
                  { "test_wait", WAIT_STATE },
                  { "try_wait", WAIT_STATE },
                  { "pending_count", PENDING_COUNT } };
    const struct ptx_instruction *in = d->in;
    struct exec_insn n = { .run = run_mbarrier, .kind = 255, .d = UINT32_MAX };
    for (size_t k = 0; in->modifier_count && k < sizeof names / sizeof *names; k++)
        if (!strcmp(in->modifiers[0], names[k].name))
            n.kind = names[k].op;
    if (n.kind == 255 || !in->operand_count)
        return decode_error(d, "unknown operation");
    if (n.kind == PENDING_COUNT) {
        n.run = run_pending;
        if (in->operand_count != 2 || destination(d, PTX_B32, &n.d) || n.d == UINT32_MAX)
            return decode_error(d, "operands");
        return decode_source(d, &in->operands[1], PTX_B64, &n.s[0]) ? -1 : decode_put_guarded(d, n);
    }
    bool arrives = n.kind == ARRIVE || n.kind == ARRIVE_DROP, waits = n.kind == WAIT_STATE,
         tx = arrives && decode_has(d, "expect_tx");
    uint32_t at =
        waits || (arrives && in->operands[0].kind != PTX_OP_MEMORY); /* arrive on a cluster's gives no state */
    if (in->operand_count <= at)
        return decode_error(d, "operands");
    if (at && (waits ? decode_predicate_destination(d, &in->operands[0], &n.p) : destination(d, PTX_B64, &n.d)))
        return -1;
    if (decode_memory(d, &in->operands[at], decode_space(d, NULL), &n))
        return -1;
    const struct ptx_operand *more = in->operand_count > at + 1 ? &in->operands[at + 1] : NULL;
    if (waits && decode_has(d, "parity"))
        n.kind = WAIT_PARITY;
    if (!more)
        return waits || n.kind == INIT || tx ? decode_error(d, "operands") : decode_put_guarded(d, n);
    if (waits ? decode_source(d, more, n.kind == WAIT_PARITY ? PTX_B32 : PTX_B64, &n.s[3])
              : decode_source(d, more, PTX_B32, &n.s[tx || n.kind == EXPECT_TX || n.kind == COMPLETE_TX ? 2 : 1]))
        return -1;
    return decode_put_guarded(d, n);
}

/* cp.async.mbarrier.arrive: all copies so far are complete, so it is an arrival (.noinc) or, with the increment that it
   makes first, nothing. */
int decode_copies_arrive(struct exec_decoder *d)
{
    struct exec_insn n = { .run = run_mbarrier, .kind = ARRIVE, .d = UINT32_MAX };
    if (!decode_has(d, "noinc"))
        return 0;
    if (d->in->operand_count != 1 || decode_memory(d, &d->in->operands[0], decode_space(d, NULL), &n))
        return decode_error(d, "operands");
    return decode_put_guarded(d, n);
}

bool exec_bytes_complete(struct exec_warp *w, const struct exec_insn *i, unsigned lane, uint64_t address,
                         uint64_t bytes)
{
    uint64_t *at = address & 7 ? NULL : exec_address_lane(w, lane, address, 8, SG_READ | SG_WRITE);
    if (!at) {
        exec_fault_address(w, i, address & 7 ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS,
                           "mbarrier of a copy", lane, address);
        return false;
    }
    *at = act(COMPLETE_TX, *at, 0, bytes);
    return true;
}

int decode_store_complete(struct exec_decoder *d, uint32_t operand, uint64_t bytes)
{
    struct exec_insn n = { .run = run_mbarrier, .kind = COMPLETE_TX, .d = UINT32_MAX };
    if (!decode_has(d, "mbarrier::complete_tx::bytes"))
        return 0;
    if (operand >= d->in->operand_count)
        return decode_error(d, "no mbarrier named");
    if (decode_constant(d, bytes, SG_CELL_32, &n.s[2]) ||
        decode_memory(d, &d->in->operands[operand], PTX_SPACE_SHARED, &n))
        return -1;
    return decode_put_guarded(d, n);
}

const struct decode_entry decode_mbarrier_table[] = { { "mbarrier", decode_mbarrier }, { NULL, NULL } };
