/*
 * op_cancel.c: clusterlaunchcontrol: a running block takes over the work of one that has not started.
 *
 * try_cancel takes the grid's next cluster (or block) away from the engine, and writes 16 bytes that say which: a flag,
 * and the ctaid of its first block. They are there at once. Follows: PTX ISA, "clusterlaunchcontrol".
 */
#include "softgpu/exec/access.h"
#include "softgpu/exec/decode.h"
#include "softgpu/exec/place.h"

#include <cuda.h>
#include <string.h>

#include "softgpu/memory.h"

enum { RESPONSE = 16 };

/* response: the flag, and ctaid x, y, z */
static void cancel_next(sg_grid *g, uint32_t response[4])
{
    memset(response, 0, RESPONSE);
    pthread_mutex_lock(&g->engine->lock);
    uint64_t index = 0;
    if (exec_blocks_left(g) && !atomic_load(&g->error)) {
        index = exec_take_block(g);
        if (g->cluster_size > 1) /* nobody claims blocks of clusters: it was the first that nobody had taken */
            g->next_block += g->cluster_size - 1;
        response[0] = 1;
    }
    pthread_mutex_unlock(&g->engine->lock);
    if (!response[0])
        return;
    uint64_t cluster = index / g->cluster_size;
    uint32_t x = g->launch.grid[0] / g->cluster[0], y = g->launch.grid[1] / g->cluster[1];
    response[1] = (uint32_t)(cluster % x) * g->cluster[0];
    response[2] = (uint32_t)(cluster / x % y) * g->cluster[1];
    response[3] = (uint32_t)(cluster / x / y) * g->cluster[2];
}

static bool answer(struct exec_warp *w, const struct exec_insn *i, unsigned lane, uint64_t to, uint64_t barrier,
                   const uint32_t response[4])
{
    void *p = to & (RESPONSE - 1) ? NULL : exec_address_lane(w, lane, to, RESPONSE, SG_WRITE);
    if (!p) {
        exec_fault_address(w, i, to & (RESPONSE - 1) ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS,
                           "response of clusterlaunchcontrol", lane, to);
        return false;
    }
    exec_copy_bytes(p, response, RESPONSE);
    return exec_bytes_complete(w, i, lane, barrier, RESPONSE);
}

/* extra: the insn that has the mbarrier's address; kind: to all blocks of the cluster */
static void run_try_cancel(struct exec_warp *w, const struct exec_insn *i)
{
    struct exec_block *b = w->block;
    uint32_t response[4], ranks = i->kind && b->cluster ? b->cluster->count : 1;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t to = exec_generic_address(w, i, l), barrier = exec_generic_address(w, i->extra, l);
        cancel_next(b->grid, response);
        for (uint32_t rank = 0; rank < ranks; rank++)
            if (!answer(w, i, l, ranks > 1 ? exec_shared_of_rank(b, to, rank) : to,
                        ranks > 1 ? exec_shared_of_rank(b, barrier, rank) : barrier, response))
                return;
    }
}

static const uint32_t *response_of(const struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    return (const uint32_t *)exec_row(w, i->s[0]) + 4 * lane;
}

static void run_is_canceled(struct exec_warp *w, const struct exec_insn *i)
{
    uint32_t p = 0;
    for (uint32_t m = w->mask; m; m &= m - 1)
        p |= (response_of(w, i, (unsigned)__builtin_ctz(m))[0] & 1) << __builtin_ctz(m);
    exec_pred_write(w, i->p, p);
}

/* kind: 1 to 3, which coordinate */
static void run_first_ctaid(struct exec_warp *w, const struct exec_insn *i)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        ((uint32_t *)(void *)(w->rows + i->d))[l] = response_of(w, i, l)[i->kind];
    }
}

/* --- decoding --- */

static int decode_try_cancel(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    struct exec_insn n = { .run = run_try_cancel, .kind = decode_has(d, "multicast::cluster::all") },
                     *barrier = exec_kernel_own(d->kernel, sizeof *barrier);
    if (!barrier)
        return decode_error(d, "no host memory");
    if (in->operand_count != 2 || decode_memory(d, &in->operands[0], decode_space(d, NULL), &n) ||
        decode_memory(d, &in->operands[1], decode_space(d, NULL), barrier))
        return decode_error(d, "operands");
    n.extra = barrier;
    return decode_put_guarded(d, n);
}

static int decode_first_ctaid(struct exec_decoder *d, exec_source response)
{
    const struct ptx_operand *elements[4];
    struct ptx_operand scratch[4];
    enum ptx_type declared;
    bool vector = decode_has(d, "v4");
    uint32_t count = decode_elements(d, &d->in->operands[0], elements, scratch, 4);
    uint8_t one = decode_has(d, "get_first_ctaid::y") ? 2 : decode_has(d, "get_first_ctaid::z") ? 3 : 1;
    if (count != (vector ? 4 : 1))
        return decode_error(d, "%u registers", count);
    for (uint32_t k = 0; k < count && k < 3; k++) {
        struct exec_insn n = { .run = run_first_ctaid, .kind = (uint8_t)(vector ? k + 1 : one), .s = { response } };
        if (elements[k]->kind == PTX_OP_SINK)
            continue;
        if (decode_destination(d, elements[k], PTX_B32, &n.d, &declared) || ptx_type_size(declared) != 4 ||
            decode_put_guarded(d, n))
            return decode_error(d, "a destination of another size");
    }
    return 0;
}

static int decode_launch_control(struct exec_decoder *d)
{
    exec_source response;
    if (decode_has(d, "try_cancel"))
        return decode_try_cancel(d);
    if (!decode_has(d, "query_cancel") || d->in->operand_count != 2 ||
        decode_source(d, &d->in->operands[1], PTX_B128, &response))
        return decode_error(d, "operands");
    if (!decode_has(d, "is_canceled"))
        return decode_first_ctaid(d, response);
    struct exec_insn n = { .run = run_is_canceled, .s = { response } };
    return decode_predicate_destination(d, &d->in->operands[0], &n.p) ? -1 : decode_put_guarded(d, n);
}

const struct decode_entry decode_cancel[] = { { "clusterlaunchcontrol", decode_launch_control }, { NULL, NULL } };
