/*
 * op_warp.c: what the lanes of a warp do together: shfl, vote, match, redux, elect, bar.warp.sync, activemask.
 *
 * A `.sync` instruction names the lanes that have to come. If the running group is exactly those, it is done at once.
 * Otherwise the group parks, and when all named lanes that have not exited are parked under the same name, they
 * exchange their operands, each lane then doing its own instruction: so both arms of an `if` may hold their own. Lanes
 * of one group may name different sets (tiles of cooperative groups do).
 *
 * PTX leaves undefined what happens to a lane that its own set does not name. Programs exist that name, for example,
 * only the lanes below their own, and that expect the result of those. Here such a lane gets it, and does not wait for
 * lanes that have come together with it.
 */
#include "softgpu/exec/decode.h"
#include "softgpu/exec/exchange.h"
#include "softgpu/exec/straight.h"

#include <cuda.h>
#include <math.h>
#include <string.h>

enum { REDUX_ABS = 1, REDUX_NAN = 2 };

struct exchange { uint64_t a[SG_LANES]; uint32_t b[SG_LANES], c[SG_LANES], in, lanes; };

static void use(struct exec_warp *w, const struct exec_frame *f)
{
    w->rows = f->rows;
    w->bases[EXEC_BASE_FRAME] = (uintptr_t)f->rows;
}

/* The operands of the lanes in mask, in their frame (which is in use). */
static void collect(struct exec_warp *w, const struct exec_insn *i, uint32_t mask, struct exchange *x)
{
    x->lanes |= mask;
    x->in |= (*exec_pred(w, i->in) ^ i->in_flip) & mask;
    const void *a = i->s[0] ? exec_row(w, i->s[0]) : NULL;
    const uint32_t *b = i->s[1] ? exec_row(w, i->s[1]) : NULL, *c = i->s[2] ? exec_row(w, i->s[2]) : NULL;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        x->a[l] = a ? exec_lane(a, i->cell, l) : 0;
        x->b[l] = b ? b[l] : 0;
        x->c[l] = c ? c[l] : 0;
    }
}

static void shuffle(const struct exec_insn *i, uint32_t mask, const struct exchange *x, uint64_t *d, uint32_t *p)
{
    for (uint32_t m = mask; m; m &= m - 1) {
        int l = __builtin_ctz(m), clamp = (int)(x->c[l] & 31), segment = (int)((x->c[l] >> 8) & 31),
            by = (int)(x->b[l] & 31), j;
        int most = (l & segment) | (clamp & ~segment), least = l & segment;
        bool in;
        switch (i->kind) {
        case EXEC_SHFL_UP:   j = l - by; in = j >= most; break;
        case EXEC_SHFL_DOWN: j = l + by; in = j <= most; break;
        case EXEC_SHFL_BFLY: j = l ^ by; in = j <= most; break;
        default:        j = least | (by & ~segment); in = j <= most;
        }
        if (!in)
            j = l;
        d[l] = x->a[j & 31];
        *p |= (uint32_t)in << l;
    }
}

static uint32_t equal_lanes(const struct exchange *x, uint32_t lanes, uint64_t value)
{
    uint32_t same = 0;
    for (uint32_t m = lanes; m; m &= m - 1)
        if (x->a[__builtin_ctz(m)] == value)
            same |= m & -m;
    return same;
}

static float float_of(uint64_t bits)
{
    union { uint32_t u; float f; } v = { .u = (uint32_t)bits };
    return v.f;
}

/* One of two values under redux: integers by type, f32 with the rules of min and max for NaN. */
static uint64_t redux_two(const struct exec_insn *i, uint64_t a, uint64_t b)
{
    bool is_signed = i->type == PTX_S32, less;
    if (i->type == PTX_F32) {
        float x = float_of(a), y = float_of(b);
        if (isnan(x) || isnan(y))
            return i->flags & REDUX_NAN || (isnan(x) && isnan(y)) ? 0x7fffffff : isnan(x) ? b : a;
        less = x < y || (x == y && signbit(x) && !signbit(y));
    } else
        less = is_signed ? (int32_t)a < (int32_t)b : (uint32_t)a < (uint32_t)b;
    switch (i->kind) {
    case EXEC_REDUX_ADD: return (uint32_t)(a + b);
    case EXEC_REDUX_MIN: return less ? a : b;
    case EXEC_REDUX_MAX: return less ? b : a;
    case EXEC_REDUX_AND: return a & b;
    case EXEC_REDUX_OR:  return a | b;
    default:        return a ^ b;
    }
}

static uint64_t redux(const struct exec_insn *i, const struct exchange *x)
{
    uint64_t keep = i->flags & REDUX_ABS ? 0x7fffffff : UINT32_MAX;
    uint32_t m = x->lanes;
    uint64_t all = x->a[__builtin_ctz(m)] & keep;
    for (m &= m - 1; m; m &= m - 1)
        all = redux_two(i, all, x->a[__builtin_ctz(m)] & keep);
    if (i->type == PTX_F32 && isnan(float_of(all)))
        all = 0x7fffffff;
    return all;
}

/* Does the instruction for the lanes in mask, of the frame in use, among all lanes of x. */
static void perform(struct exec_warp *w, const struct exec_insn *i, uint32_t mask, const struct exchange *x)
{
    uint64_t d[SG_LANES], one = 0;
    uint32_t p = 0;
    bool row = true, uniform = true;
    switch (i->kind) {
    case EXEC_SHFL_UP: case EXEC_SHFL_DOWN: case EXEC_SHFL_BFLY: case EXEC_SHFL_IDX:
        shuffle(i, mask, x, d, &p);
        uniform = false;
        break;
    case EXEC_VOTE_ALL:    p = x->in == x->lanes ? UINT32_MAX : 0; row = false; break;
    case EXEC_VOTE_ANY:    p = x->in ? UINT32_MAX : 0; row = false; break;
    case EXEC_VOTE_UNI:    p = x->in == x->lanes || !x->in ? UINT32_MAX : 0; row = false; break;
    case EXEC_VOTE_BALLOT: one = x->in; break;
    case EXEC_MATCH_ANY:
        for (uint32_t m = mask; m; m &= m - 1)
            d[__builtin_ctz(m)] = equal_lanes(x, x->lanes, x->a[__builtin_ctz(m)]);
        uniform = false;
        break;
    case EXEC_MATCH_ALL:
        p = equal_lanes(x, x->lanes, x->a[__builtin_ctz(x->lanes)]) == x->lanes ? UINT32_MAX : 0;
        one = p ? x->lanes : 0;
        break;
    case EXEC_ELECT:
        one = (uint64_t)__builtin_ctz(x->lanes);
        p = 1u << one;
        break;
    case EXEC_ACTIVEMASK:  one = mask; break;
    case EXEC_WARP_SYNC: case EXEC_CONVERGE: return;
    default:          one = redux(i, x);
    }
    uint32_t *to = (uint32_t *)(void *)(w->rows + i->d), *pred = exec_pred(w, i->p);
    for (uint32_t m = row ? mask : 0; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        to[l] = (uint32_t)(uniform ? one : d[l]);
    }
    *pred = (*pred & ~mask) | (p & mask);
}

/* A shuffle from a lane that does not execute it is undefined in PTX. Hardware gives 0, and programs rely on that. */
static void at_once(struct exec_warp *w, const struct exec_insn *i, uint32_t mask)
{
    if (i->kind <= EXEC_SHFL_IDX) {        /* the one that is often in inner loops */
        uint32_t *d = (uint32_t *)(void *)w->temp[0], *pred = exec_pred(w, i->p);
        const uint32_t *from = exec_row(w, i->s[0]);
        if (w->mask != UINT32_MAX) {
            uint32_t *present = (uint32_t *)(void *)w->temp[1];
            w->row->fill32(present, 0);
            w->row->blend32(present, from, w->mask);
            from = present;
        }
        uint32_t p = w->row->shuffle[i->kind](d, from, exec_row(w, i->s[1]), exec_row(w, i->s[2]));
        w->row->blend32((uint32_t *)(void *)(w->rows + i->d), d, mask);
        *pred = (*pred & ~mask) | (p & mask);
        return;
    }
    struct exchange x;
    memset(&x, 0, sizeof x);
    collect(w, i, mask, &x);
    perform(w, i, mask, &x);
}

/* Does the instruction for `lanes`, whose set names the lanes `named` of the running group. */
static void among(struct exec_warp *w, const struct exec_insn *i, uint32_t lanes, uint32_t named)
{
    if (i->kind <= EXEC_SHFL_IDX || named == lanes) {
        at_once(w, i, lanes);
        return;
    }
    struct exchange x;
    memset(&x, 0, sizeof x);
    collect(w, i, named, &x);
    if (!named)
        x.lanes = lanes;              /* perform() takes the first lane's operand; all operands are 0 */
    perform(w, i, lanes, &x);
}

/* All groups parked for the lanes `need` go on, having exchanged. */
static void complete(struct exec_warp *w, uint32_t need)
{
    struct exchange x;
    unsigned char *rows = w->rows;
    uintptr_t base = w->bases[EXEC_BASE_FRAME];
    memset(&x, 0, sizeof x);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t k = 0; k < w->group_count; k++) {
            struct exec_group *g = &w->groups[k];
            if (g->state != EXEC_AT_SYNC || (g->wanted & w->alive) != need)
                continue;
            use(w, g->frame);
            if (!pass)
                collect(w, g->at, g->mask, &x);
            else {
                perform(w, g->at, g->mask, &x);
                g->state = EXEC_RUNNABLE;
            }
        }
    w->rows = rows;
    w->bases[EXEC_BASE_FRAME] = base;
}

void exec_sync_recheck(struct exec_warp *w)
{
    for (uint32_t k = 0; k < w->group_count; k++) {
        if (w->groups[k].state != EXEC_AT_SYNC)
            continue;
        uint32_t need = w->groups[k].wanted & w->alive, here = 0;
        for (uint32_t o = 0; o < w->group_count; o++)
            if (w->groups[o].state == EXEC_AT_SYNC && (w->groups[o].wanted & w->alive) == need)
                here |= w->groups[o].mask;
        if ((here & need) == need)
            complete(w, need);
    }
}

static void park(struct exec_warp *w, const struct exec_insn *i, uint32_t wanted)
{
    struct exec_group *g = &w->groups[w->current];
    g->pc = w->pc;
    g->frame = w->frame;
    g->mask = w->mask;
    g->state = EXEC_AT_SYNC;
    g->wanted = wanted;
    g->at = i;
    exec_leave(w);
    exec_sync_recheck(w);
}

/* The lanes name more than one set. */
static void run_sets(struct exec_warp *w, const struct exec_insn *i, const uint32_t *sets)
{
    uint32_t done = 0, left = w->mask;
    while (left) {
        uint32_t set = sets[__builtin_ctz(left)], lanes = 0;
        for (uint32_t m = left; m; m &= m - 1)
            if (sets[__builtin_ctz(m)] == set)
                lanes |= m & -m;
        left &= ~lanes;
        if (!(set & w->alive & ~w->mask)) {
            among(w, i, lanes, set & w->mask);
            done |= lanes;
        }
    }
    if (done == w->mask)
        return;
    if (done)
        exec_group_add(w, w->pc, w->frame, done);
    left = w->mask & ~done;
    for (;;) {                        /* the last set stays the running group's */
        uint32_t set = sets[__builtin_ctz(left)], lanes = 0;
        for (uint32_t m = left; m; m &= m - 1)
            if (sets[__builtin_ctz(m)] == set)
                lanes |= m & -m;
        left &= ~lanes;
        if (!left) {
            w->mask = lanes;
            park(w, i, set | lanes);
            return;
        }
        struct exec_group *g = exec_group_add(w, w->pc, w->frame, lanes);
        g->state = EXEC_AT_SYNC;
        g->wanted = set | lanes;
        g->at = i;
    }
}

static void run_sync(struct exec_warp *w, const struct exec_insn *i)
{
    const uint32_t *sets = exec_row(w, i->s[3]);
    uint32_t set = sets[__builtin_ctz(w->mask)];
    if (w->row->differ(sets, set, w->mask)) {
        run_sets(w, i, sets);
        return;
    }
    set |= w->mask;
    if ((set & w->alive) == w->mask)
        at_once(w, i, w->mask);
    else
        park(w, i, set);
}

/* Forms without .sync: the lanes that happen to be together. */
static void run_together(struct exec_warp *w, const struct exec_insn *i) { at_once(w, i, w->mask); }

static void run_converge(struct exec_warp *w, const struct exec_insn *i)
{
    if (w->mask != w->alive)
        park(w, i, UINT32_MAX);
}

int decode_converge(struct exec_decoder *d)
{
    return decode_put_control(d, (struct exec_insn){ .run = run_converge, .kind = EXEC_CONVERGE, .cell = SG_CELL_32,
                                                    .known = EXEC_STRAIGHT_EXCHANGE });
}

/* --- decoding --- */

/* Where the instruction goes: parks only with .sync, but always guarded by parting (its lanes are what it is about). */
static int put(struct exec_decoder *d, struct exec_insn n, bool sync, const struct ptx_operand *set)
{
    n.run = sync ? run_sync : run_together;
    n.known = EXEC_STRAIGHT_EXCHANGE;
    if (sync && decode_source(d, set, PTX_B32, &n.s[3]))
        return -1;
    return sync ? decode_put_control(d, n) : decode_put_guarded(d, n);
}

static int destination32(struct exec_decoder *d, const struct ptx_operand *o, uint32_t *row)
{
    enum ptx_type declared;
    if (decode_destination(d, o, PTX_B32, row, &declared))
        return -1;
    return ptx_type_size(declared) == 4 ? 0 : decode_error(d, "the destination has to have 32 bits");
}

static int decode_shfl(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    bool sync = decode_has(d, "sync");
    struct exec_insn n = { .cell = SG_CELL_32 };
    n.kind = decode_has(d, "up")     ? EXEC_SHFL_UP
             : decode_has(d, "down") ? EXEC_SHFL_DOWN
             : decode_has(d, "bfly") ? EXEC_SHFL_BFLY
                                     : EXEC_SHFL_IDX;
    if (in->operand_count != (sync ? 5 : 4))
        return decode_error(d, "%u operands", in->operand_count);
    if (destination32(d, &in->operands[0], &n.d) || decode_predicate_destination(d, in->operands[0].second, &n.p) ||
        decode_source(d, &in->operands[1], PTX_B32, &n.s[0]) || decode_source(d, &in->operands[2], PTX_B32, &n.s[1]) ||
        decode_source(d, &in->operands[3], PTX_B32, &n.s[2]))
        return -1;
    return put(d, n, sync, &in->operands[in->operand_count - 1]);
}

static int decode_vote(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    bool sync = decode_has(d, "sync");
    struct exec_insn n = { .cell = SG_CELL_32, .p = EXEC_PRED_SINK };
    n.kind = decode_has(d, "all")   ? EXEC_VOTE_ALL
             : decode_has(d, "any") ? EXEC_VOTE_ANY
             : decode_has(d, "uni") ? EXEC_VOTE_UNI
                                    : EXEC_VOTE_BALLOT;
    if (in->operand_count != (sync ? 3 : 2))
        return decode_error(d, "%u operands", in->operand_count);
    if (n.kind == EXEC_VOTE_BALLOT ? destination32(d, &in->operands[0], &n.d)
                              : decode_predicate_destination(d, &in->operands[0], &n.p))
        return -1;
    if (decode_predicate(d, &in->operands[1], &n.in, &n.in_flip))
        return -1;
    return put(d, n, sync, &in->operands[in->operand_count - 1]);
}

static int decode_match(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    enum ptx_type type = decode_type(d, 0);
    struct exec_insn n = { .cell = (uint8_t)decode_cell(type),
                           .kind = decode_has(d, "all") ? EXEC_MATCH_ALL : EXEC_MATCH_ANY };
    if (in->operand_count != 3 || !decode_has(d, "sync") || type == PTX_NONE)
        return decode_error(d, "match.any.sync and match.all.sync with three operands are known");
    if (destination32(d, &in->operands[0], &n.d) || decode_predicate_destination(d, in->operands[0].second, &n.p) ||
        decode_source(d, &in->operands[1], type, &n.s[0]))
        return -1;
    return put(d, n, true, &in->operands[2]);
}

static int decode_redux(struct exec_decoder *d)
{
    static const struct { const char *name; uint8_t kind;
    } ops[] = { { "add", EXEC_REDUX_ADD }, { "min", EXEC_REDUX_MIN }, { "max", EXEC_REDUX_MAX },
                { "and", EXEC_REDUX_AND }, { "or", EXEC_REDUX_OR },   { "xor", EXEC_REDUX_XOR } };
    const struct ptx_instruction *in = d->in;
    struct exec_insn n = {
        .cell = SG_CELL_32, .kind = EXEC_WARP_SYNC, .p = EXEC_PRED_SINK, .type = (uint8_t)decode_type(d, 0)
    };
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (decode_has(d, ops[k].name))
            n.kind = ops[k].kind;
    if (in->operand_count != 3 || n.kind == EXEC_WARP_SYNC || ptx_type_size((enum ptx_type)n.type) != 4)
        return decode_error(d, "unknown operation");
    if (n.type == PTX_F32 && n.kind != EXEC_REDUX_MIN && n.kind != EXEC_REDUX_MAX)
        return decode_error(d, "f32 has only min and max");
    n.flags = (uint8_t)((decode_has(d, "abs") ? REDUX_ABS : 0) | (decode_has(d, "NaN") ? REDUX_NAN : 0));
    if (destination32(d, &in->operands[0], &n.d) || decode_source(d, &in->operands[1], PTX_B32, &n.s[0]))
        return -1;
    return put(d, n, true, &in->operands[2]);
}

static int decode_elect(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    struct exec_insn n = { .cell = SG_CELL_32, .kind = EXEC_ELECT };
    if (in->operand_count != 2 || destination32(d, &in->operands[0], &n.d) ||
        decode_predicate_destination(d, in->operands[0].second, &n.p))
        return decode_error(d, "operands");
    return put(d, n, true, &in->operands[1]);
}

static int decode_activemask(struct exec_decoder *d)
{
    struct exec_insn n = { .cell = SG_CELL_32, .kind = EXEC_ACTIVEMASK, .p = EXEC_PRED_SINK };
    if (d->in->operand_count != 1 || destination32(d, &d->in->operands[0], &n.d))
        return decode_error(d, "operands");
    return put(d, n, false, NULL);
}

int decode_warp_barrier(struct exec_decoder *d)
{
    struct exec_insn n = { .cell = SG_CELL_32, .kind = EXEC_WARP_SYNC, .p = EXEC_PRED_SINK };
    if (d->in->operand_count != 1)
        return decode_error(d, "operands");
    return put(d, n, true, &d->in->operands[0]);
}

const struct decode_entry decode_warp[] = { { "shfl", decode_shfl },
                                            { "vote", decode_vote },
                                            { "match", decode_match },
                                            { "redux", decode_redux },
                                            { "elect", decode_elect },
                                            { "activemask", decode_activemask },
                                            { NULL, NULL } };
