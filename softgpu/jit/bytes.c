/*
 * bytes.c: loads of what lies side by side in each lane: a program puts a number together from bytes, since they may be
 * anywhere, or loads the members of a structure one by one. Where all such loads of a line of instructions may be made,
 * each lane loads all bytes at once, 8 or 16 of them, and the instructions are written with what these hold; LLVM finds
 * that putting bytes together gives the word again. Elsewhere the instructions are written as they are, and say
 * themselves what is wrong: also where lanes are so near to each other that loads of single elements are a few large
 * ones. Nothing between the loads waits, so that no other order can be seen.
 *
 * Stores likewise, where they fill 8 or 16 bytes: at the end of the line each lane stores all at once. For that, lanes
 * must be in equal steps, so that none stores where another one does. Where loads follow stores, they must be of other
 * memory than what any lane stores to.
 *
 * In a loop, each lane may go through memory of its own in small steps. A processor sees so many streams hardly coming,
 * so the code asks for what they reach next.
 */
#include "softgpu/jit/access.h"
#include "softgpu/jit/reach.h"

/* LEAST: loads of bytes or halves that gain; of larger elements two do. MOST: instructions of a line. AHEAD: from what
   is loaded to what is asked for. */
enum { LEAST = 3, MOST = 128, WORD = 8, WIDE = 16, LINE = 64, AHEAD = 3 * LINE };

/* Loads or stores, `count` of them, from `least` to before `most` behind the row `at`; the smallest and the largest
   element. */
struct byte_part { exec_source at; int64_t least, most; unsigned count, smallest, largest; };
/* A line of instructions up to before `end`. mixed: loads follow stores. */
struct byte_line { struct byte_part loads, stores; uint32_t end; bool mixed; };

/* A line as values: the words of 8 bytes, or the elements of 4, that the lanes have loaded, and the rows that they will
   store. */
struct pieces { LLVMValueRef word[WIDE / WORD], quarter[WIDE / 4], stored[WIDE / 4]; };

static bool is_load(const struct exec_insn *i)
{
    return ((i->known >= EXEC_STRAIGHT_LOAD_8 && i->known <= EXEC_STRAIGHT_LOAD_64) ||
            i->known == EXEC_STRAIGHT_LOAD_8S || i->known == EXEC_STRAIGHT_LOAD_16S) &&
           i->straight != EXEC_STRAIGHT_GUARDED && (i->s[0] & 3) == EXEC_BASE_FRAME &&
           !(i->flags & (EXEC_READS_SHARED | EXEC_POLL));
}

static bool is_store(const struct exec_insn *i)
{
    return (i->known == EXEC_STRAIGHT_STORE_32 || i->known == EXEC_STRAIGHT_STORE_64) &&
           i->straight != EXEC_STRAIGHT_GUARDED && (i->s[0] & 3) == EXEC_BASE_FRAME && !(i->flags & EXEC_POLL);
}

/* Does it compute each lane by itself, and nothing else? */
static bool is_lanewise(const struct exec_insn *i)
{
    return arithmetic_form_of(i) || i->known == EXEC_STRAIGHT_SPLIT || i->known == EXEC_STRAIGHT_JOIN ||
           (i->known == EXEC_STRAIGHT_PARAM && i->straight != EXEC_STRAIGHT_GUARDED);
}

static bool writes(const struct exec_insn *i, exec_source at)
{
    const struct exec_pieces *p = i->extra;
    if (i->known == EXEC_STRAIGHT_SPLIT)
        return (p->to[0] | EXEC_BASE_FRAME) == at || (p->to[1] | EXEC_BASE_FRAME) == at;
    return (i->d | EXEC_BASE_FRAME) == at;
}

/* May lanes come to the instruction in another way than from the one before it? */
static bool is_target(const struct compiler *c, uint32_t k)
{
    return c->target[k] || phase_is_for_some(c, k) || (c->places && place_block(c, k));
}

static unsigned bytes_of(const struct byte_part *p) { return (unsigned)(p->most - p->least); }

/* false: it does not belong to the others, or does not fit in. */
static bool add(const struct compiler *c, uint32_t first, uint32_t k, struct byte_part *p)
{
    const struct exec_insn *i = &c->wish->insns[k];
    struct byte_part all = *p;
    for (uint32_t n = first; !p->count && n < k; n++)
        if (writes(&c->wish->insns[n], i->s[0]))
            return false;
    if (!p->count)
        all = (struct byte_part){ .at = i->s[0], .least = i->offset, .most = i->offset, .smallest = i->size };
    all.least = i->offset < all.least ? i->offset : all.least;
    all.most = i->offset + i->size > all.most ? i->offset + i->size : all.most;
    all.smallest = i->size < all.smallest ? i->size : all.smallest;
    all.largest = i->size > all.largest ? i->size : all.largest;
    all.count++;
    if (all.at != i->s[0] || all.most - all.least > WIDE)
        return false;
    *p = all;
    return true;
}

/* Does it write the row of addresses? */
static bool moves(const struct exec_insn *i, const struct byte_part *p) { return p->count && writes(i, p->at); }

/* Fills the line in that begins with the load or store k. */
static void walk(const struct compiler *c, uint32_t k, bool stores, struct byte_line *l)
{
    const struct exec_insn *insns = c->wish->insns;
    *l = (struct byte_line){ .end = k };
    for (uint32_t at = k; at < c->wish->count && at - k < MOST && c->in_region[at]; at++) {
        const struct exec_insn *i = &insns[at];
        struct byte_part *p = is_load(i) ? &l->loads : stores && is_store(i) ? &l->stores : NULL;
        const bool back = is_load(i) && l->stores.count;
        if ((!p && !is_lanewise(i)) || (at != k && is_target(c, at)) || (back && i->s[0] == l->stores.at) ||
            (p && !add(c, k, at, p)))
            break;
        if (p)
            l->end = at + 1;
        l->mixed |= back;
        if (!is_store(i) && (moves(i, &l->loads) || moves(i, &l->stores)))
            break;
    }
}

/* Is there something to gain, and is each element aligned if the first byte is for the largest of them? */
static bool are_good_loads(const struct compiler *c, uint32_t k, const struct byte_line *l)
{
    for (; k < l->end; k++) {
        const struct exec_insn *i = &c->wish->insns[k];
        if (is_load(i) && (i->offset - l->loads.least) % i->size)
            return false;
    }
    return l->loads.count >= (l->loads.largest < 4 ? LEAST : 2);
}

/* Do they fill all bytes, each once? */
static bool are_good_stores(const struct compiler *c, uint32_t k, const struct byte_line *l)
{
    const struct byte_part *p = &l->stores;
    uint32_t filled = 0;
    for (; k < l->end; k++) {
        const struct exec_insn *i = &c->wish->insns[k];
        if (is_store(i) && (i->offset - p->least) % i->size)
            return false;
        if (is_store(i))
            filled |= 1u << (i->offset - p->least) / i->size;
    }
    return p->count >= 2 && p->smallest == p->largest && p->count * p->largest == bytes_of(p) &&
           (bytes_of(p) == WORD || bytes_of(p) == WIDE) && filled == (1u << p->count) - 1;
}

/* The line that begins with the load or store k. false: there is nothing to gain. */
static bool find_line(const struct compiler *c, uint32_t k, struct byte_line *l)
{
    walk(c, k, true, l);
    if ((!l->loads.count || are_good_loads(c, k, l)) && are_good_stores(c, k, l))
        return true;
    walk(c, k, false, l);
    return is_load(&c->wish->insns[k]) && are_good_loads(c, k, l);
}

/* Lanes in small steps have better ways (steps.c). */
static bool is_worth_it(const struct compiler *c, uint32_t k)
{
    enum { SMALL = 4 };
    const struct exec_insn *i = &c->wish->insns[k];
    if (c->has_runs || (!is_load(i) && !is_store(i)))
        return false;
    const struct row_shape shape = shape_of(c, i->s[0], ROW_64);
    return shape.kind != SHAPE_STEPS || shape.step > SMALL * i->size || shape.step < -SMALL * i->size;
}

/* Of the elements that the load names. */
static void put_part(struct compiler *c, const struct exec_insn *i, const struct byte_line *l, const struct pieces *p)
{
    LLVMBuilderRef b = c->builder;
    const unsigned at = (unsigned)(i->offset - l->loads.least);
    LLVMTypeRef elements = LLVMVectorType(LLVMIntTypeInContext(c->context, 8u * i->size), SG_LANES);
    LLVMValueRef value = p->quarter[at / 4];
    if (!value) {
        value = p->word[at / WORD];
        if (at % WORD)
            value = LLVMBuildLShr(b, value, splat(c, constant_64(c, at % WORD * 8)), "");
        if (i->size < WORD)
            value = LLVMBuildTrunc(b, value, elements, "");
    }
    row_put(c, i, i->d, access_bits(i), widened(c, i, value));
}

/* Once with the pieces, or, where there are none, as the instructions are. */
static void emit_line(struct compiler *c, uint32_t k, const struct byte_line *l, struct pieces *p,
                      void (*emit)(struct compiler *, uint32_t))
{
    for (; k < l->end; k++) {
        const struct exec_insn *i = &c->wish->insns[k];
        shapes_begin(c, k);
        if (p && is_load(i))
            put_part(c, i, l, p);
        else if (p && is_store(i))
            p->stored[(i->offset - l->stores.least) / i->size] = row_read(c, i->s[1], access_bits(i));
        else
            emit(c, k);
        shapes_end(c, k);
    }
}

static bool may_defer(const struct compiler *c, uint32_t k, const struct byte_line *l)
{
    bool all = c->places;
    for (; k < l->end; k++)
        all = all && (rows_may_defer(c, k) || !arithmetic_form_of(&c->wish->insns[k]));
    return all;
}

/* Are two lanes at least so many bytes apart? */
static LLVMValueRef are_apart(struct compiler *c, LLVMValueRef step, uint64_t bytes)
{
    return LLVMBuildICmp(c->builder, LLVMIntUGT, address_of(c, step, bytes - 1), constant_64(c, 2 * bytes - 2), "");
}

static LLVMValueRef first_bytes(struct compiler *c, const struct byte_part *p)
{
    return LLVMBuildAdd(c->builder, row_read(c, p->at, ROW_64), splat(c, constant_64(c, (uint64_t)p->least)), "");
}

static LLVMValueRef lane_of(struct compiler *c, LLVMValueRef row, unsigned lane)
{
    return LLVMBuildExtractElement(c->builder, row, constant_32(c, lane), "");
}

static void go_on_if(struct compiler *c, LLVMValueRef condition, LLVMBasicBlockRef alone)
{
    LLVMBasicBlockRef right = block_new(c, "right");
    LLVMBuildCondBr(c->builder, condition, right, alone);
    LLVMPositionBuilderAtEnd(c->builder, right);
}

/* From the first to before the last byte of all lanes. */
struct byte_extent { LLVMValueRef from, to; };

/* Goes on where these lanes (NULL: all), the first two among them, are in equal steps, which are not smaller than what
   each moves. */
static struct byte_extent go_on_in_steps(struct compiler *c, const struct byte_part *p, LLVMValueRef lanes,
                                    LLVMBasicBlockRef alone)
{
    enum { FIRST_TWO = 3 };
    LLVMBuilderRef b = c->builder;
    LLVMValueRef at = first_bytes(c, p), first = lane_of(c, at, 0),
                 step = LLVMBuildSub(b, lane_of(c, at, 1), first, ""),
                 last = LLVMBuildAdd(b, first, LLVMBuildMul(b, step, constant_64(c, SG_LANES - 1), ""), ""),
                 number[SG_LANES];
    for (unsigned l = 0; l < SG_LANES; l++)
        number[l] = constant_64(c, l);
    LLVMValueRef ramp = LLVMBuildMul(b, splat(c, step), LLVMConstVector(number, SG_LANES), ""),
                 equal = LLVMBuildICmp(b, LLVMIntEQ, at, LLVMBuildAdd(b, ramp, splat(c, first), ""), ""),
                 right = LLVMBuildBitCast(b, equal, c->i32, ""), up = LLVMBuildICmp(b, LLVMIntULT, first, last, "");
    if (lanes) {
        LLVMValueRef two = constant_32(c, FIRST_TWO);
        go_on_if(c, LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildAnd(b, lanes, two, ""), two, ""), alone);
        right = LLVMBuildOr(b, right, LLVMBuildNot(b, lanes, ""), "");
    }
    right = LLVMBuildICmp(b, LLVMIntEQ, right, constant_32(c, UINT32_MAX), "");
    go_on_if(c, both(c, right, are_apart(c, step, bytes_of(p))), alone);
    return (struct byte_extent){ .from = LLVMBuildSelect(b, up, first, last, ""),
                                 .to = address_of(c, LLVMBuildSelect(b, up, last, first, ""), bytes_of(p)) };
}

/* Goes on where the line may be written with pieces, as far as the lanes' distances say it. Where lanes are near to
   each other, loads of single elements are a few large ones, or one (access.c). */
static void go_on_if_apart(struct compiler *c, const struct byte_line *l, LLVMValueRef lanes, LLVMBasicBlockRef alone)
{
    LLVMBuilderRef b = c->builder;
    if (!l->stores.count) {
        LLVMValueRef at = row_read(c, l->loads.at, ROW_64),
                     step = LLVMBuildSub(b, lane_of(c, at, 1), lane_of(c, at, 0), "");
        go_on_if(c, are_apart(c, step, bytes_of(&l->loads)), alone);
        return;
    }
    const struct byte_extent stores = go_on_in_steps(c, &l->stores, lanes, alone);
    if (!l->mixed)
        return;
    const struct byte_extent loads = go_on_in_steps(c, &l->loads, lanes, alone);
    go_on_if(c, LLVMBuildOr(b, LLVMBuildICmp(b, LLVMIntULE, loads.to, stores.from, ""),
                            LLVMBuildICmp(b, LLVMIntULE, stores.to, loads.from, ""), ""), alone);
}

static struct reach find(struct compiler *c, const struct byte_part *p, LLVMValueRef lanes, unsigned rights,
                         LLVMBasicBlockRef alone)
{
    const unsigned bytes = bytes_of(p) <= WORD ? WORD : WIDE;
    struct reach r = { .at = first_bytes(c, p), .bytes = bytes, .align = p->largest };
    reach_find(c, &r, lanes ? lanes : constant_32(c, UINT32_MAX), rights, alone);
    r.offsets = reach_offsets(c, &r, lanes);
    return r;
}

static void load_pieces(struct compiler *c, const struct byte_part *loads, const struct reach *r, struct pieces *p)
{
    if (bytes_of(loads) <= WORD)
        p->word[0] = gather(c, r->first, r->offsets, WORD);
    else if (loads->smallest == 4 && loads->largest == 4)
        gather_wide(c, r->first, r->offsets, 4, p->quarter);
    else
        gather_wide(c, r->first, r->offsets, WORD, p->word);
}

static void store_vector(struct compiler *c, LLVMValueRef vector, LLVMValueRef at)
{
    LLVMSetVolatile(store_to(c, vector, at, 4), true);
}

/* One lane's vector of so many bytes, from its cell. */
static void store_own(struct compiler *c, LLVMTypeRef type, unsigned bytes, LLVMValueRef lane)
{
    LLVMValueRef at = load_from(c, c->i64, lanes_cell(c, c->lane_places, lane, 8), 8);
    store_vector(c, load_from(c, type, lanes_cell(c, c->lane_vectors, lane, bytes), bytes), at);
}
static void store_short(struct compiler *c, const struct exec_insn *i, LLVMValueRef lane)
{
    (void)i;
    store_own(c, c->i64, WORD, lane);
}
static void store_long(struct compiler *c, const struct exec_insn *i, LLVMValueRef lane)
{
    (void)i;
    store_own(c, LLVMVectorType(c->i64, 2), WIDE, lane);
}

/* From these rows, by these lanes. */
static void store_some(struct compiler *c, const struct lane_vectors *v, const struct reach *r, LLVMValueRef lanes)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef at = LLVMBuildAdd(b, LLVMBuildZExt(b, r->offsets, c->row64, ""), splat(c, r->first), "");
    store_to(c, at, lanes_variable(c, c->lane_places), 64);
    for (unsigned l = 0; l < SG_LANES; l++)
        store_to(c, vectors_of_lane(c, v, l), lanes_cell(c, c->lane_vectors, constant_64(c, l), v->bytes), v->bytes);
    lanes_each(c, lanes, v->bytes == WIDE ? store_long : store_short, NULL);
}

static void store_pieces(struct compiler *c, const struct byte_part *stores, const struct reach *r,
                         const LLVMValueRef *rows, LLVMValueRef lanes)
{
    LLVMBuilderRef b = c->builder;
    struct lane_vectors v;
    vectors_from_rows(c, rows, stores->largest, stores->count, &v);
    if (lanes) {
        store_some(c, &v, r, lanes);
        return;
    }
    store_to(c, r->offsets, lanes_variable(c, c->lane_places), 64);
    for (unsigned l = 0; l < SG_LANES; l++) {
        LLVMValueRef offset = load_from(c, c->i32, lanes_cell(c, c->lane_places, constant_64(c, l), 4), 4);
        store_vector(c, vectors_of_lane(c, &v, l),
                     LLVMBuildAdd(b, r->first, LLVMBuildZExt(b, offset, c->i64, ""), ""));
    }
}

/* ---- what comes next ---- */

static bool is_in_loop(const struct compiler *c, uint32_t first, uint32_t last)
{
    for (uint32_t k = last; k < c->wish->count; k++) {
        const struct exec_insn *i = &c->wish->insns[k];
        if (c->in_region[k] && (i->straight == EXEC_STRAIGHT_BRANCH || i->straight == EXEC_STRAIGHT_BRANCH_IF) &&
            i->target <= &c->wish->insns[first])
            return true;
    }
    return false;
}

/* A constant that is the same in all lanes; else 0. */
static uint64_t constant_of(exec_source at)
{
    const uint64_t *cells = (const void *)at;
    if ((at & 3) != EXEC_BASE_ABSOLUTE)
        return 0;
    for (unsigned l = 1; l < SG_LANES; l++)
        if (cells[l] != cells[0])
            return 0;
    return cells[0];
}

/* By how many bytes a loop around the instruction k moves the row of addresses, if that is less than a line; else 0. */
static unsigned step_of(const struct compiler *c, uint32_t k, exec_source at)
{
    for (uint32_t n = 0; n < c->wish->count; n++) {
        const struct exec_insn *i = &c->wish->insns[n];
        if (!c->in_region[n] || i->known != EXEC_STRAIGHT_ADD_64 || i->straight == EXEC_STRAIGHT_GUARDED ||
            i->s[0] != at || (i->d | EXEC_BASE_FRAME) != at)
            continue;
        const uint64_t step = constant_of(i->s[1]);
        if (step && step <= LINE && is_in_loop(c, n < k ? n : k, n < k ? k : n))
            return (unsigned)step;
    }
    return 0;
}

/* Once in each line of the cache. All lanes move alike, so the first of them says when. Their offsets are where
   gather() has put them. */
static void ask_for_next(struct compiler *c, uint32_t k, exec_source row, const struct reach *r, LLVMValueRef lanes)
{
    LLVMBuilderRef b = c->builder;
    const unsigned step = c->wish->whole ? 0 : step_of(c, k, row);
    if (!step)
        return;
    LLVMValueRef first = lanes ? lanes_first(c, lanes) : constant_64(c, 0),
                 own = load_from(c, c->i32, lanes_cell(c, c->lane_places, first, 4), 4),
                 within = LLVMBuildAnd(b, own, constant_32(c, LINE - 1), "");
    LLVMBasicBlockRef next = block_new(c, "next"), asked = block_new(c, "asked");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, within, constant_32(c, step), ""), next, asked);
    LLVMPositionBuilderAtEnd(b, next);
    for (unsigned l = 0; l < SG_LANES; l++) {
        LLVMValueRef offset = load_from(c, c->i32, lanes_cell(c, c->lane_places, constant_64(c, l), 4), 4),
                     at = LLVMBuildAdd(b, r->first, LLVMBuildZExt(b, offset, c->i64, ""), "");
        prefetch(c, address_of(c, at, AHEAD), false, 1);
    }
    LLVMBuildBr(b, asked);
    LLVMPositionBuilderAtEnd(b, asked);
}

uint32_t bytes_emit(struct compiler *c, uint32_t k, void (*emit)(struct compiler *, uint32_t))
{
    LLVMBuilderRef b = c->builder;
    struct byte_line l;
    struct pieces p = { .word = { NULL } };
    struct reach from, to;
    if (!is_worth_it(c, k) || !find_line(c, k, &l))
        return k;
    rows_settle(c); /* the line is written twice, and both begin and end with the same rows */
    LLVMBasicBlockRef alone = block_new(c, "alone"), behind = block_new(c, "behind");
    LLVMValueRef lanes = lanes_that_act(c, &c->wish->insns[k]);
    go_on_if_apart(c, &l, lanes, alone);
    if (l.stores.count)
        to = find(c, &l.stores, lanes, SG_WRITE, alone);
    if (l.loads.count) {
        from = find(c, &l.loads, lanes, SG_READ, alone);
        load_pieces(c, &l.loads, &from, &p);
        ask_for_next(c, k, l.loads.at, &from, lanes);
    }
    c->deferring = may_defer(c, k, &l);
    emit_line(c, k, &l, &p, emit);
    rows_end_line(c);
    if (l.stores.count)
        store_pieces(c, &l.stores, &to, p.stored, lanes);
    rows_settle(c);
    LLVMBuildBr(b, behind);
    LLVMPositionBuilderAtEnd(b, alone);
    emit_line(c, k, &l, NULL, emit);
    rows_settle(c);
    LLVMBuildBr(b, behind);
    LLVMPositionBuilderAtEnd(b, behind);
    return l.end;
}
