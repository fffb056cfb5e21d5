/*
 * run_loads.c: loads of shared memory in runs (runs.c), and stores between them. Lanes mostly read places near each
 * other, and often the same ones: then what is behind the first lane's place is loaded into two registers, and each
 * lane picks its words from these. Else each lane's elements are loaded alone, and elements change places. Where the
 * code of the function lets expect that all lanes of a round read one place, or read one behind the other (guess.c),
 * there is code for that, too.
 */
#include "softgpu/exec/fused.h"
#include "softgpu/jit/runs.h"

#include <string.h>

/* Shared memory goes on behind its end for two registers (block.c). */
enum { BLOCK = 4 };

unsigned run_load_elements(const struct exec_insn *i)
{
    switch (i->straight) {
    case EXEC_STRAIGHT_SHARED_LOAD:   return 1;
    case EXEC_STRAIGHT_SHARED_LOAD_2: return 2;
    case EXEC_STRAIGHT_SHARED_LOAD_4: return 4;
    default:                          return 0;
    }
}

static bool is_narrow(const struct exec_insn *i) { return i->flags & EXEC_ADDRESS_32; }

static struct run_load *load_of(struct run_loads *g, const struct exec_insn *i)
{
    const unsigned bytes = 4 * run_load_elements(i);
    for (unsigned k = 0; k < g->count; k++) {
        struct run_load *x = &g->of[k];
        if (x->at == i->s[0] && x->narrow == is_narrow(i) && x->bytes == bytes && !((x->least - i->offset) % bytes))
            return x;
    }
    return NULL;
}

bool run_load_add(struct run_loads *g, const struct exec_insn *i)
{
    struct run_load *x = load_of(g, i);
    if (!x && g->count == RUN_LOADS)
        return false;
    if (!x) {
        x = &g->of[g->count++];
        *x = (struct run_load){ .at = i->s[0], .bytes = 4 * run_load_elements(i), .narrow = is_narrow(i),
                                .least = i->offset, .most = i->offset };
    }
    x->least = i->offset < x->least ? i->offset : x->least;
    x->most = i->offset > x->most ? i->offset : x->most;
    return true;
}

/* ---- where lanes are ---- */

/* The registers with addresses, of all lanes. */
static LLVMValueRef addresses(struct compiler *c, const struct run_load *x)
{
    LLVMValueRef place = address_of(c, c->frame, x->at & ~(exec_source)3),
                 row = load_from(c, x->narrow ? c->row32 : c->row64, place, 64);
    return x->narrow ? row : LLVMBuildTrunc(c->builder, row, c->row32, "");
}

/* Not 0 where a lane's place is wrong: outside the block's shared memory, not aligned, or with an address that
   overflows. */
static LLVMValueRef wrong_places(struct compiler *c, const struct run_load *x, LLVMValueRef a, LLVMValueRef size)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef first = LLVMBuildAdd(b, a, splat(c, constant_32(c, (uint32_t)x->least)), ""),
                 last = LLVMBuildAdd(b, a, splat(c, constant_32(c, (uint32_t)x->most + x->bytes)), "");
    LLVMValueRef far = LLVMBuildAnd(b, LLVMBuildOr(b, a, first, ""), splat(c, constant_32(c, 0xc0000000)), ""),
                 odd = LLVMBuildAnd(b, first, splat(c, constant_32(c, x->bytes - 1)), "");
    LLVMValueRef beyond = LLVMBuildSExt(b, LLVMBuildICmp(b, LLVMIntUGT, last, splat(c, size), ""), c->row32, "");
    return LLVMBuildOr(b, LLVMBuildOr(b, far, odd, ""), beyond, "");
}

/* Not 0 where a lane reads elsewhere than the places of the load say. */
static LLVMValueRef other_places(struct compiler *c, const struct run_load *x, LLVMValueRef a)
{
    LLVMBuilderRef b = c->builder;
    const unsigned round = run_round(c), words = x->places == RUN_ONE ? round : 2 * round;
    LLVMValueRef firsts[SG_LANES], exact[SG_LANES];
    for (unsigned l = 0; l < SG_LANES; l++) {
        firsts[l] = constant_32(c, l / round * round);
        exact[l] = constant_32(c, x->places == RUN_BESIDE ? l % round * x->bytes : 0);
    }
    LLVMValueRef first = LLVMBuildShuffleVector(b, a, LLVMGetUndef(c->row32), LLVMConstVector(firsts, SG_LANES), ""),
                 behind = LLVMBuildSub(b, a, first, "");
    LLVMValueRef other = x->places == RUN_SAME || x->places == RUN_BESIDE
                             ? LLVMBuildICmp(b, LLVMIntNE, behind, LLVMConstVector(exact, SG_LANES), "")
                             : LLVMBuildICmp(b, LLVMIntUGT, behind, splat(c, constant_32(c, 4 * words - x->bytes)), "");
    return LLVMBuildSExt(b, other, c->row32, "");
}

static LLVMValueRef or_with(struct compiler *c, LLVMValueRef a, LLVMValueRef b)
{
    return a ? LLVMBuildOr(c->builder, a, b, "") : b;
}

static LLVMValueRef is_none(struct compiler *c, LLVMValueRef row)
{
    LLVMValueRef some = LLVMBuildICmp(c->builder, LLVMIntNE, row, LLVMConstNull(c->row32), "");
    return LLVMBuildICmp(c->builder, LLVMIntEQ, LLVMBuildBitCast(c->builder, some, c->i32, ""), constant_32(c, 0), "");
}

void run_loads_check(struct compiler *c, struct run_loads *g, LLVMBasicBlockRef otherwise)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef size = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, shared_size)), 8),
                 wrong = NULL;
    g->shared = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, shared)), 8);
    size = LLVMBuildTrunc(b, size, c->i32, "");
    for (unsigned k = 0; k < g->count; k++)
        wrong = or_with(c, wrong, wrong_places(c, &g->of[k], addresses(c, &g->of[k]), size));
    LLVMBasicBlockRef right = block_new(c, "right");
    branch_mostly(c, is_none(c, wrong), right, otherwise);
    LLVMPositionBuilderAtEnd(b, right);
}

/* The first kind of places, if any, that holds for all rounds. */
static enum run_places places_of(const struct compiler *c, const uint64_t *lanes, unsigned bytes)
{
    const unsigned round = run_round(c);
    bool same = true, beside = true, one = round == 8;
    for (unsigned l = 0; l < SG_LANES; l++) {
        const uint32_t behind = (uint32_t)(lanes[l] - lanes[l / round * round]);
        same &= !behind;
        beside &= behind == l % round * bytes;
        one &= behind <= 4 * round - bytes;
    }
    return same ? RUN_SAME : beside ? RUN_BESIDE : one ? RUN_ONE : RUN_NEAR;
}

bool run_loads_guess(struct compiler *c, struct run_loads *g, uint32_t first)
{
    bool any = false;
    for (unsigned k = 0; k < g->count; k++) {
        uint64_t lanes[SG_LANES];
        guess_row(c, g->of[k].at, g->of[k].narrow ? ROW_32 : ROW_64, first, lanes);
        g->of[k].places = places_of(c, lanes, g->of[k].bytes);
        any |= g->of[k].places != RUN_NEAR;
    }
    return any;
}

void run_loads_set(struct run_loads *g, enum run_places places)
{
    for (unsigned k = 0; k < g->count; k++)
        g->of[k].places = places;
}

void run_loads_fit(struct compiler *c, struct run_loads *g, LLVMBasicBlockRef otherwise)
{
    LLVMValueRef other = NULL;
    for (unsigned k = 0; k < g->count; k++)
        other = or_with(c, other, other_places(c, &g->of[k], addresses(c, &g->of[k])));
    LLVMBasicBlockRef fit = block_new(c, "fit");
    LLVMBuildCondBr(c->builder, is_none(c, other), fit, otherwise);
    LLVMPositionBuilderAtEnd(c->builder, fit);
}

/* ---- in a round ---- */

static LLVMValueRef address_of_lane(struct compiler *c, const struct run_loads *g, const struct run_load *x, unsigned l)
{
    const exec_source at = (x->at & ~(exec_source)3) + l * (x->narrow ? 4 : 8);
    LLVMValueRef a = load_from(c, c->i32, run_cells(c, at | EXEC_BASE_FRAME, x->narrow ? ROW_32 : ROW_64), 4);
    return LLVMBuildAdd(c->builder, LLVMBuildZExt(c->builder, a, c->i64, ""), g->shared, "");
}

void run_loads_begin(struct compiler *c, struct run_loads *g)
{
    LLVMBuilderRef b = c->builder;
    for (unsigned k = 0; k < g->count; k++) {
        struct run_load *x = &g->of[k];
        x->first = address_of_lane(c, g, x, 0);
        if (x->places != RUN_ONE && x->places != RUN_NEAR)
            continue;
        LLVMTypeRef type = x->narrow ? c->row32 : c->row64;
        LLVMValueRef a = load_from(c, type, run_cells(c, x->at, x->narrow ? ROW_32 : ROW_64),
                                   x->narrow && c->width == 8 ? 32 : 64);
        if (!x->narrow)
            a = LLVMBuildTrunc(b, a, c->row32, "");
        LLVMValueRef first = LLVMBuildExtractElement(b, a, constant_32(c, 0), "");
        x->behind = LLVMBuildLShr(b, LLVMBuildSub(b, a, splat(c, first), ""), splat(c, constant_32(c, 2)), "");
    }
}

/* Of eight words those that the lanes name by their three low bits. */
static LLVMValueRef permute(struct compiler *c, LLVMValueRef words, LLVMValueRef which)
{
    static const char name[] = "llvm.x86.avx2.permd";
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0);
    LLVMTypeRef types[2] = { c->row32, c->row32 };
    LLVMValueRef arguments[2] = { words, which };
    return LLVMBuildCall2(c->builder, LLVMFunctionType(c->row32, types, 2, false), f, arguments, 2, "");
}

/* Of the words of two registers of eight, or 16, those that the lanes name. */
static LLVMValueRef permute_two(struct compiler *c, LLVMValueRef low, LLVMValueRef high, LLVMValueRef which)
{
    static const char name[] = "llvm.x86.avx512.vpermi2var.d.512";
    if (c->width == 8) {
        LLVMValueRef upper = LLVMBuildICmp(c->builder, LLVMIntUGT, which, splat(c, constant_32(c, 7)), "");
        return LLVMBuildSelect(c->builder, upper, permute(c, high, which), permute(c, low, which), "");
    }
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0);
    LLVMTypeRef types[3] = { c->row32, c->row32, c->row32 };
    LLVMValueRef arguments[3] = { low, which, high };
    return LLVMBuildCall2(c->builder, LLVMFunctionType(c->row32, types, 3, false), f, arguments, 3, "");
}

static void load_near(struct compiler *c, const struct exec_insn *i, const struct run_load *x, LLVMValueRef *rows)
{
    LLVMBuilderRef b = c->builder;
    const bool one = x->places == RUN_ONE;
    LLVMValueRef at = address_of(c, x->first, (uint64_t)i->offset), low = load_from(c, c->row32, at, 4),
                 high = one ? NULL : load_from(c, c->row32, address_of(c, at, 4 * c->width), 4);
    for (unsigned k = 0; k < run_load_elements(i); k++) {
        LLVMValueRef which = LLVMBuildAdd(b, x->behind, splat(c, constant_32(c, k)), "");
        rows[k] = one ? permute(c, low, which) : permute_two(c, low, high, which);
    }
}

/* All lanes have what the first one reads. */
static void load_same(struct compiler *c, const struct exec_insn *i, const struct run_load *x, LLVMValueRef *rows)
{
    for (unsigned k = 0; k < run_load_elements(i); k++)
        rows[k] = splat(c, load_from(c, c->i32, address_of(c, x->first, (uint64_t)i->offset + 4 * k), 4));
}

/* Elements of the lanes are in a row. */
static void load_beside(struct compiler *c, const struct exec_insn *i, const struct run_load *x, LLVMValueRef *rows)
{
    const unsigned n = run_load_elements(i);
    LLVMValueRef at = address_of(c, x->first, (uint64_t)i->offset), lane[SG_LANES], which[SG_LANES], registers[2];
    if (n == 4) {
        for (unsigned l = 0; l < c->width; l++)
            lane[l] = load_from(c, LLVMVectorType(c->i32, n), address_of(c, at, l * x->bytes), x->bytes);
        vectors_to_rows(c, lane, c->width, n, rows);
        return;
    }
    for (unsigned k = 0; k < n; k++)
        rows[k] = registers[k] = load_from(c, c->row32, address_of(c, at, 4 * c->width * k), x->bytes);
    for (unsigned k = 0; n == 2 && k < n; k++) {
        for (unsigned l = 0; l < c->width; l++)
            which[l] = constant_32(c, n * l + k);
        rows[k] = LLVMBuildShuffleVector(c->builder, registers[0], registers[1], LLVMConstVector(which, c->width), "");
    }
}

/* One lane's elements. */
static LLVMValueRef load_lane(struct compiler *c, const struct run_loads *g, const struct run_load *x,
                              const struct exec_insn *i, unsigned l, LLVMTypeRef type)
{
    return load_from(c, type, address_of(c, address_of_lane(c, g, x, l), (uint64_t)i->offset), x->bytes);
}

/* Each lane's elements alone. */
static void load_apart(struct compiler *c, const struct run_loads *g, const struct run_load *x,
                       const struct exec_insn *i, LLVMValueRef *rows)
{
    const unsigned n = run_load_elements(i);
    LLVMTypeRef type = LLVMVectorType(c->i32, n);
    LLVMValueRef lane[SG_LANES];
    if (n == 1) {
        rows[0] = LLVMGetUndef(c->row32);
        for (unsigned l = 0; l < c->width; l++)
            rows[0] = LLVMBuildInsertElement(c->builder, rows[0], load_lane(c, g, x, i, l, c->i32),
                                             constant_32(c, l), "");
        return;
    }
    for (unsigned l = 0; l < c->width; l++)
        lane[l] = load_lane(c, g, x, i, l, type);
    for (unsigned l = 0; n == 2 && l < c->width; l += 2) /* two lanes' pairs in a vector */
        lane[l / 2] = vectors_join(c, lane + l, 2);
    vectors_to_rows(c, lane, c->width, n, rows);
}

void run_load_emit(struct compiler *c, struct run_loads *g, const struct exec_insn *i)
{
    const struct exec_vector *v = i->extra;
    const struct run_load *x = load_of(g, i);
    const unsigned n = run_load_elements(i);
    LLVMValueRef rows[BLOCK];
    switch (x->places) {
    case RUN_SAME:   load_same(c, i, x, rows); break;
    case RUN_BESIDE: load_beside(c, i, x, rows); break;
    case RUN_APART:  load_apart(c, g, x, i, rows); break;
    default:         load_near(c, i, x, rows);
    }
    for (unsigned k = 0; k < n; k++)
        if (n == 1)
            row_write(c, i->d, ROW_32, rows[k]);
        else if (!v->sink[k])
            row_write(c, v->to[k], ROW_32, rows[k]);
}

/* ---- stores ---- */

static unsigned store_elements(const struct exec_insn *i)
{
    const struct exec_vector *v = i->extra;
    const unsigned odd = EXEC_ADDRESS_UNIFORM | EXEC_ADDRESS_FRAME | EXEC_POLL;
    if (i->known == EXEC_STRAIGHT_SHARED_STORE)
        return 1;
    if (i->known != EXEC_STRAIGHT_STORE_VECTOR || i->space != PTX_SPACE_SHARED || i->flags & odd ||
        i->order != EXEC_RELAXED)
        return 0;
    return v->shape == EXEC_VECTOR_32X2 ? 2 : v->shape == EXEC_VECTOR_32X4 ? 4 : 0;
}

/* A lane's cell of a row of 32 bits, or the low half of one of 64. */
static LLVMValueRef cell(struct compiler *c, exec_source at, unsigned lane, unsigned bytes)
{
    const exec_source place = (at & ~(exec_source)3) + (exec_source)lane * bytes;
    const unsigned base = at & 3;
    if (base == EXEC_BASE_ABSOLUTE)
        return constant_32(c, *(const uint32_t *)place);
    return load_from(c, c->i32, address_of(c, base == EXEC_BASE_WARP ? c->warp : c->frame, place), 4);
}

bool run_store_emit(struct compiler *c, const struct exec_insn *i)
{
    LLVMBuilderRef b = c->builder;
    const struct exec_vector *v = i->extra;
    const unsigned n = store_elements(i);
    if (!c->has_runs || !n || (i->s[0] & 3) != EXEC_BASE_FRAME || i->offset < -RUN_OFFSET || i->offset > RUN_OFFSET)
        return false;
    LLVMBasicBlockRef rare = block_new(c, "rare"), right = block_new(c, "right"), behind = block_new(c, "stored");
    LLVMValueRef lanes = lanes_that_act(c, i);
    if (lanes)
        begin_some(c, lanes, rare, behind);
    const struct run_load x = { .at = i->s[0], .bytes = 4 * n, .narrow = is_narrow(i), .least = i->offset,
                                .most = i->offset };
    LLVMValueRef size = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, shared_size)), 8),
                 shared = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, shared)), 8);
    LLVMValueRef wrong = wrong_places(c, &x, addresses(c, &x), LLVMBuildTrunc(b, size, c->i32, ""));
    branch_mostly(c, is_none(c, wrong), right, rare);
    LLVMPositionBuilderAtEnd(b, right);
    for (unsigned l = 0; l < SG_LANES; l++) { /* of lanes with one address the last one wins */
        LLVMValueRef a = cell(c, i->s[0], l, x.narrow ? 4 : 8);
        LLVMValueRef to = LLVMBuildAdd(b, LLVMBuildZExt(b, a, c->i64, ""), shared, "");
        for (unsigned k = 0; k < n; k++)
            store_to(c, cell(c, n == 1 ? i->s[1] : v->from[k], l, 4),
                     address_of(c, to, (uint64_t)i->offset + 4 * k), 4);
    }
    rows_step_apart(c, i, rare, behind);
    return true;
}
