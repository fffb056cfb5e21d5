/*
 * ranges.c: in code for whole blocks, checks of accesses that hold for all warps of the block are made once, before the
 * loop around warps.
 *
 * While code is written, a check is asked for by a call of a function that does not exist (`inside`, `fits`), with what
 * is to be known of a number. Once rows are values of LLVM (mem2reg), the number is looked at from its end: sums,
 * products and shifts of constants, parameters, sizes of the grid and places of threads have a lowest and a highest
 * value in the block, which are computed before the loop, as numbers of 64 bits that do not wrap. All checks that can
 * be answered in this way have one answer, for the block; the others are made by each warp, as all are where the answer
 * is no.
 */
#include "softgpu/jit/compile.h"

#include <string.h>

/* NODES: instructions that are looked at; BITS: of a number that is certain not to wrap; WARPS_LEAST: of a block for
   which it is worth while; POINTER_BITS: of numbers of 64 bits that come from outside. */
enum { NODES = 512, BITS = 62, WARPS_LEAST = 4, POINTER_BITS = 47, DEPTH = 48 };

/* From lo to hi, both of 64 bits, and each of at most so many bits beside the sign. Of an instruction of 32 bits it is
   the number before it was cut. */
struct range { LLVMValueRef lo, hi; unsigned bits; };

struct ranges {
    struct compiler *c;
    LLVMBasicBlockRef entry;
    LLVMValueRef ok;                  /* the answer so far */
    unsigned depth, count;
    LLVMValueRef nodes[NODES];
    struct range found[NODES];
};

static const char name_inside[] = "inside", name_fits[] = "fits", name_lanes[] = "lanes", name_thread[] = "thread",
                  name_block[] = "block", name_proved[] = "proved";

/* ---- what is asked while code is written ---- */

static LLVMValueRef ask(struct compiler *c, const char *name, LLVMTypeRef result, LLVMValueRef *arguments,
                        unsigned count)
{
    LLVMTypeRef types[4];
    for (unsigned k = 0; k < count; k++)
        types[k] = LLVMTypeOf(arguments[k]);
    LLVMTypeRef type = LLVMFunctionType(result, types, count, false);
    LLVMValueRef f = LLVMGetNamedFunction(c->module, name);
    return LLVMBuildCall2(c->builder, type, f ? f : LLVMAddFunction(c->module, name, type), arguments, count, "");
}

/* Goes on in `right` where the answer is yes. */
static void go_on_if(struct compiler *c, const char *name, LLVMValueRef number, uint64_t x, uint64_t y,
                     LLVMBasicBlockRef right)
{
    LLVMValueRef arguments[4] = { number, constant_64(c, x), constant_64(c, y), c->whole.proved };
    LLVMBasicBlockRef check = block_new(c, "check");
    branch_mostly(c, ask(c, name, c->i1, arguments, 4), right, check);
    LLVMPositionBuilderAtEnd(c->builder, check);
}

void ranges_inside(struct compiler *c, LLVMValueRef address, unsigned align, size_t span, LLVMBasicBlockRef right)
{
    go_on_if(c, name_inside, address, align, span, right);
}

void ranges_fits(struct compiler *c, LLVMValueRef first, int64_t apart, bool sign, LLVMBasicBlockRef right)
{
    if (c->wish->whole)
        go_on_if(c, name_fits, first, (uint64_t)apart, sign, right);
}

LLVMValueRef ranges_thread(struct compiler *c, LLVMValueRef at, unsigned axis)
{
    LLVMValueRef arguments[2] = { at, c->whole.shared[EXEC_ROW_NTID + axis] };
    return ask(c, axis ? name_thread : name_lanes, c->i32, arguments, 2);
}

LLVMValueRef ranges_block(struct compiler *c)
{
    LLVMValueRef arguments[3] = { c->whole.place, c->whole.first_place, c->whole.last_place };
    return ask(c, name_block, c->i32, arguments, 3);
}

static unsigned invariant_kind(const struct compiler *c)
{
    return LLVMGetMDKindIDInContext(c->context, "invariant.load", strlen("invariant.load"));
}

void ranges_invariant(const struct compiler *c, LLVMValueRef load)
{
    LLVMSetMetadata(load, invariant_kind(c), LLVMMDNodeInContext(c->context, NULL, 0));
}

void ranges_begin(struct compiler *c, LLVMValueRef first, LLVMValueRef end)
{
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef from[2] = { LLVMGetInsertBlock(b), block_new(c, "prove") }, start = block_new(c, "start");
    LLVMValueRef warps = LLVMBuildSub(b, end, first, ""), least = constant_64(c, WARPS_LEAST);
    LLVMValueRef all = LLVMBuildAdd(b, warps, LLVMGetParam(c->function, 3), "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSGE, all, least, ""), from[1], start);
    LLVMPositionBuilderAtEnd(b, from[1]);
    LLVMValueRef answers[2] = { LLVMConstInt(c->i1, false, false), ask(c, name_proved, c->i1, NULL, 0) };
    LLVMBuildBr(b, start);
    LLVMPositionBuilderAtEnd(b, start);
    c->whole.proved = LLVMBuildPhi(b, c->i1, "");
    LLVMAddIncoming(c->whole.proved, answers, from, 2);
}

/* ---- ranges of numbers ---- */

static void need(struct ranges *r, LLVMValueRef condition)
{
    r->ok = LLVMBuildAnd(r->c->builder, r->ok, condition, "");
}

static LLVMValueRef number(const struct ranges *r, int64_t value) { return constant_64(r->c, (uint64_t)value); }

/* Both ends are from low to high. */
static void need_between(struct ranges *r, const struct range *x, int64_t low, int64_t high)
{
    LLVMBuilderRef b = r->c->builder;
    need(r, LLVMBuildICmp(b, LLVMIntSGE, x->lo, number(r, low), ""));
    need(r, LLVMBuildICmp(b, LLVMIntSLE, x->hi, number(r, high), ""));
}

/* Bits of an integer, or of the one integer of a vector; 0: it is something else. */
static unsigned width_of(LLVMValueRef v)
{
    LLVMTypeRef type = LLVMTypeOf(v);
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
        type = LLVMGetVectorSize(type) == 1 ? LLVMGetElementType(type) : NULL;
    return type && LLVMGetTypeKind(type) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(type) : 0;
}

static bool constant_of(LLVMValueRef v, int64_t *value)
{
    if (!LLVMIsConstant(v) || !width_of(v))
        return false;
    if (LLVMIsNull(v)) {
        *value = 0;
        return true;
    }
    if (LLVMIsAConstantDataVector(v))
        v = LLVMGetElementAsConstant(v, 0);
    else if (LLVMIsAConstantVector(v))
        v = LLVMGetOperand(v, 0);
    if (!LLVMIsAConstantInt(v))
        return false;
    *value = LLVMConstIntGetSExtValue(v);
    return true;
}

/* If v only wraps another value in a vector of one element, or takes it out again: that value. Else NULL. */
static LLVMValueRef same_as(LLVMValueRef v)
{
    if (LLVMIsAInsertElementInst(v))
        return LLVMGetOperand(v, 1);
    return LLVMIsABitCastInst(v) || LLVMIsAShuffleVectorInst(v) || LLVMIsAExtractElementInst(v) ? LLVMGetOperand(v, 0)
                                                                                                : NULL;
}

static bool is_call_of(LLVMValueRef v, const char *name)
{
    size_t length;
    if (!LLVMIsACallInst(v) || !LLVMIsAFunction(LLVMGetCalledValue(v)))
        return false;
    return !strcmp(LLVMGetValueName2(LLVMGetCalledValue(v), &length), name);
}

/* A number that is the same in the whole function, and stands before the loop. */
static bool stands_before(const struct ranges *r, LLVMValueRef v)
{
    return LLVMIsAArgument(v) || (LLVMIsAInstruction(v) && LLVMGetInstructionParent(v) == r->entry);
}

/* The value of a load of parameters, loaded before the loop; NULL: it is no such load. */
static LLVMValueRef loaded_before(struct ranges *r, LLVMValueRef v)
{
    LLVMBuilderRef b = r->c->builder;
    int64_t offset;
    if (!LLVMIsALoadInst(v) || !LLVMGetMetadata(v, invariant_kind(r->c)) || !LLVMIsAIntToPtrInst(LLVMGetOperand(v, 0)))
        return NULL;
    LLVMValueRef at = LLVMGetOperand(LLVMGetOperand(v, 0), 0), base = at;
    if (!stands_before(r, at)) {
        if (!LLVMIsAInstruction(at) || LLVMGetInstructionOpcode(at) != LLVMAdd ||
            !stands_before(r, base = LLVMGetOperand(at, 0)) || !constant_of(LLVMGetOperand(at, 1), &offset))
            return NULL;
        at = LLVMBuildAdd(b, base, number(r, offset), "");
    }
    LLVMValueRef value = load_from(r->c, LLVMTypeOf(v), at, LLVMGetAlignment(v));
    ranges_invariant(r->c, value);
    return value;
}

/* Of a number that the whole block has in common. */
static bool range_of_one(struct ranges *r, LLVMValueRef value, struct range *out)
{
    const unsigned width = width_of(value);
    if (LLVMGetTypeKind(LLVMTypeOf(value)) != LLVMIntegerTypeKind || (width != 32 && width != 64))
        return false;
    out->lo = out->hi = width == 64 ? value : LLVMBuildSExt(r->c->builder, value, r->c->i64, "");
    out->bits = width == 64 ? POINTER_BITS : 31;
    if (width == 64)
        need_between(r, out, 0, (INT64_C(1) << POINTER_BITS) - 1);
    return true;
}

/* Of the place of a warp's lane 0 in its block, of so many threads in this direction, of which a warp has some. */
static void range_of_thread(struct ranges *r, LLVMValueRef threads, unsigned some, struct range *out)
{
    LLVMBuilderRef b = r->c->builder;
    out->lo = number(r, 0);
    out->hi = LLVMBuildSub(b, LLVMBuildZExt(b, threads, r->c->i64, ""), number(r, some), "");
    out->bits = 32;
}

static bool range_of(struct ranges *, LLVMValueRef, struct range *);

static unsigned larger(unsigned a, unsigned b) { return a > b ? a : b; }

/* Of numbers of 32 bits that are too large to be added or multiplied, it is needed that they have not wrapped. */
static void need_small(struct ranges *r, struct range *x, struct range *y)
{
    struct range *both[2] = { x, y };
    for (unsigned k = 0; k < 2; k++)
        if (both[k]->bits > 31) {
            need_between(r, both[k], INT32_MIN, INT32_MAX);
            both[k]->bits = 31;
        }
}

static bool range_of_sum(struct ranges *r, const struct range *x, const struct range *y, bool minus, struct range *out)
{
    LLVMBuilderRef b = r->c->builder;
    out->bits = larger(x->bits, y->bits) + 1;
    if (out->bits > BITS)
        return false;
    const bool one = x->lo == x->hi && y->lo == y->hi;
    out->lo = minus ? LLVMBuildSub(b, x->lo, y->hi, "") : LLVMBuildAdd(b, x->lo, y->lo, "");
    out->hi = one ? out->lo : minus ? LLVMBuildSub(b, x->hi, y->lo, "") : LLVMBuildAdd(b, x->hi, y->hi, "");
    return true;
}

/* Where the factors are not too large, and not negative, unless they are constants. */
static bool range_of_product(struct ranges *r, const struct range *x, const struct range *y, struct range *out)
{
    LLVMBuilderRef b = r->c->builder;
    const struct range *factors[2] = { x, y };
    out->bits = x->bits + y->bits;
    if (out->bits > BITS)
        return false;
    for (unsigned k = 0; k < 2; k++) {
        int64_t value;
        const struct range *other = factors[!k];
        if (factors[k]->lo != factors[k]->hi || !constant_of(factors[k]->lo, &value))
            continue;
        out->lo = LLVMBuildMul(b, value < 0 ? other->hi : other->lo, factors[k]->lo, "");
        out->hi = other->lo == other->hi ? out->lo
                                         : LLVMBuildMul(b, value < 0 ? other->lo : other->hi, factors[k]->lo, "");
        return true;
    }
    need(r, LLVMBuildICmp(b, LLVMIntSGE, x->lo, number(r, 0), ""));
    need(r, LLVMBuildICmp(b, LLVMIntSGE, y->lo, number(r, 0), ""));
    out->lo = LLVMBuildMul(b, x->lo, y->lo, "");
    out->hi = x->lo == x->hi && y->lo == y->hi ? out->lo : LLVMBuildMul(b, x->hi, y->hi, "");
    return true;
}

static bool range_of_shift(struct ranges *r, const struct range *x, LLVMValueRef by, unsigned width, struct range *out)
{
    LLVMBuilderRef b = r->c->builder;
    int64_t bits;
    if (!constant_of(by, &bits) || bits < 0 || bits >= (int64_t)width || x->bits + (unsigned)bits > BITS)
        return false;
    out->bits = x->bits + (unsigned)bits;
    out->lo = LLVMBuildShl(b, x->lo, number(r, bits), "");
    out->hi = x->lo == x->hi ? out->lo : LLVMBuildShl(b, x->hi, number(r, bits), "");
    return true;
}

/* A number of 32 bits that becomes one of 64. */
static bool range_of_wide(struct ranges *r, const struct range *x, LLVMValueRef from, bool sign, struct range *out)
{
    if (width_of(from) != 32)
        return false;
    *out = *x;
    need_between(r, x, sign ? INT32_MIN : 0, sign ? INT32_MAX : UINT32_MAX);
    out->bits = x->bits < 32 ? x->bits : 32;
    return true;
}

static bool range_of_instruction(struct ranges *r, LLVMValueRef v, struct range *out)
{
    const LLVMOpcode op = LLVMGetInstructionOpcode(v);
    const unsigned width = width_of(v);
    struct range x, y;
    if (op == LLVMCall || op == LLVMLoad || op == LLVMPHI || !LLVMGetNumOperands(v) || (width != 32 && width != 64) ||
        !range_of(r, LLVMGetOperand(v, 0), &x))
        return false;
    switch (op) {
    case LLVMAdd: case LLVMSub: case LLVMMul:
        if (!range_of(r, LLVMGetOperand(v, 1), &y))
            return false;
        if (width == 32 && (op == LLVMMul ? x.bits + y.bits : larger(x.bits, y.bits) + 1) > BITS)
            need_small(r, &x, &y);
        return op == LLVMMul ? range_of_product(r, &x, &y, out) : range_of_sum(r, &x, &y, op == LLVMSub, out);
    case LLVMShl: return range_of_shift(r, &x, LLVMGetOperand(v, 1), width, out);
    case LLVMZExt: case LLVMSExt: return range_of_wide(r, &x, LLVMGetOperand(v, 0), op == LLVMSExt, out);
    case LLVMTrunc: *out = x; return width == 32;
    default: return false;
    }
}

static bool range_new(struct ranges *r, LLVMValueRef v, struct range *out)
{
    int64_t value;
    if (constant_of(v, &value)) {
        out->lo = out->hi = number(r, value);
        const uint64_t size = (uint64_t)(value < 0 ? -(value + 1) : value);
        out->bits = size ? 64 - (unsigned)__builtin_clzll(size) : 0;
        return out->bits <= BITS;
    }
    if (stands_before(r, v))
        return range_of_one(r, v, out);
    if (!LLVMIsAInstruction(v))
        return false;
    const bool lanes = is_call_of(v, name_lanes);
    if (lanes || is_call_of(v, name_thread)) { /* warps are full, and side by side in x */
        range_of_thread(r, LLVMGetOperand(v, 1), lanes ? SG_LANES : 1, out);
        return true;
    }
    if (is_call_of(v, name_block)) {
        struct range last;
        out->bits = 31;
        return range_of(r, LLVMGetOperand(v, 1), out) && range_of(r, LLVMGetOperand(v, 2), &last) &&
               (out->hi = last.lo);
    }
    if (same_as(v))
        return width_of(v) == width_of(same_as(v)) && range_of(r, same_as(v), out);
    LLVMValueRef loaded = loaded_before(r, v);
    return loaded ? range_of_one(r, loaded, out) : range_of_instruction(r, v, out);
}

/* false: nothing is known of the number. */
static bool range_of(struct ranges *r, LLVMValueRef v, struct range *out)
{
    for (unsigned k = 0; k < r->count; k++)
        if (r->nodes[k] == v) {
            *out = r->found[k];
            return true;
        }
    if (r->count == NODES || r->depth == DEPTH)
        return false;
    r->depth++;
    const bool found = range_new(r, v, out);
    r->depth--;
    if (found && r->count < NODES) {
        r->nodes[r->count] = v;
        r->found[r->count++] = *out;
    }
    return found;
}

/* ---- what numbers are multiples of ---- */

/* Is it a multiple of `by`, a power of two? What is only known in the block is needed. */
static bool is_multiple(struct ranges *r, LLVMValueRef v, uint64_t by)
{
    LLVMBuilderRef b = r->c->builder;
    int64_t value;
    if (constant_of(v, &value))
        return (uint64_t)value % by == 0;
    LLVMValueRef before = stands_before(r, v) ? v : loaded_before(r, v);
    if (before) {
        LLVMTypeRef type = LLVMTypeOf(before);
        need(r, LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildAnd(b, before, LLVMConstInt(type, by - 1, false), ""),
                              LLVMConstInt(type, 0, false), ""));
        return true;
    }
    if (is_call_of(v, name_lanes))
        return by <= SG_LANES;
    if (!LLVMIsAInstruction(v) || r->depth == DEPTH)
        return false;
    bool is = same_as(v) && width_of(v) == width_of(same_as(v)) && is_multiple(r, same_as(v), by);
    r->depth++;
    switch (LLVMGetInstructionOpcode(v)) {
    case LLVMAdd: case LLVMSub:
        is = is_multiple(r, LLVMGetOperand(v, 0), by) && is_multiple(r, LLVMGetOperand(v, 1), by);
        break;
    case LLVMMul:
        for (unsigned k = 0; k < 2 && !is; k++)
            is = constant_of(LLVMGetOperand(v, k), &value) && (uint64_t)value % by == 0;
        break;
    case LLVMShl:
        is = constant_of(LLVMGetOperand(v, 1), &value) && value < 32 && (UINT64_C(1) << value) % by == 0;
        break;
    case LLVMZExt: case LLVMSExt: case LLVMTrunc:
        is = width_of(LLVMGetOperand(v, 0)) >= 32 && is_multiple(r, LLVMGetOperand(v, 0), by);
        break;
    default: break;
    }
    r->depth--;
    return is;
}

/* ---- answers ---- */

static bool prove_inside(struct ranges *r, LLVMValueRef call)
{
    struct compiler *c = r->c;
    LLVMBuilderRef b = c->builder;
    LLVMValueRef address = LLVMGetOperand(call, 0);
    struct range x;
    const uint64_t align = LLVMConstIntGetZExtValue(LLVMGetOperand(call, 1)),
                   span = LLVMConstIntGetZExtValue(LLVMGetOperand(call, 2));
    if (!range_of(r, address, &x) || (align > 1 && !is_multiple(r, address, align)))
        return false;
    LLVMValueRef at = address_of(c, c->block, span),
                 first = load_from(c, c->i64, address_of(c, at, offsetof(struct exec_span, first)), 8),
                 count = load_from(c, c->i64, address_of(c, at, offsetof(struct exec_span, count)), 8);
    need(r, LLVMBuildICmp(b, LLVMIntULT, LLVMBuildSub(b, x.lo, first, ""), count, ""));
    if (x.hi != x.lo)
        need(r, LLVMBuildICmp(b, LLVMIntULT, LLVMBuildSub(b, x.hi, first, ""), count, ""));
    return true;
}

static bool prove_fits(struct ranges *r, LLVMValueRef call)
{
    const int64_t apart = LLVMConstIntGetSExtValue(LLVMGetOperand(call, 1));
    const bool sign = LLVMConstIntGetZExtValue(LLVMGetOperand(call, 2));
    struct range x;
    if (apart > INT32_MAX || apart < INT32_MIN || !range_of(r, LLVMGetOperand(call, 0), &x))
        return false;
    const int64_t low = sign ? INT32_MIN : 0, high = sign ? INT32_MAX : UINT32_MAX;
    need_between(r, &x, apart < 0 ? low - apart : low, apart > 0 ? high - apart : high);
    return true;
}

/* Answers the call. If the answer is no, forgets the conditions that the proof had collected, and the ranges that hold
   only under them. */
static LLVMValueRef answer(struct ranges *r, LLVMValueRef call, bool (*prove)(struct ranges *, LLVMValueRef))
{
    LLVMValueRef before = r->ok;
    const unsigned count = r->count;
    if (prove(r, call))
        return LLVMGetOperand(call, 3);
    r->ok = before;
    r->count = count;
    return LLVMConstInt(r->c->i1, false, false);
}

static LLVMValueRef answer_inside(struct ranges *r, LLVMValueRef call) { return answer(r, call, prove_inside); }
static LLVMValueRef answer_fits(struct ranges *r, LLVMValueRef call) { return answer(r, call, prove_fits); }

/* The place of the block is what was given for it. */
static LLVMValueRef place_of_block(struct ranges *r, LLVMValueRef call)
{
    (void)r;
    return LLVMGetOperand(call, 0);
}

/* Places of threads are loaded from the warp, after all. */
static LLVMValueRef load_thread(struct ranges *r, LLVMValueRef call)
{
    LLVMPositionBuilderBefore(r->c->builder, call);
    LLVMValueRef value = load_from(r->c, r->c->i32, LLVMGetOperand(call, 0), 4);
    ranges_invariant(r->c, value);
    return value;
}

/* A value takes the place of each call of the function. */
static void replace_calls(struct ranges *r, const char *name, LLVMValueRef (*value_of)(struct ranges *, LLVMValueRef))
{
    LLVMValueRef f = LLVMGetNamedFunction(r->c->module, name);
    for (LLVMUseRef use; f && (use = LLVMGetFirstUse(f));) {
        LLVMValueRef call = LLVMGetUser(use);
        LLVMReplaceAllUsesWith(call, value_of(r, call));
        LLVMInstructionEraseFromParent(call);
    }
    if (f)
        LLVMDeleteFunction(f);
}

static LLVMValueRef answer_so_far(struct ranges *r, LLVMValueRef call)
{
    (void)call;
    return r->ok;
}

void ranges_answer(struct compiler *c)
{
    LLVMValueRef proved = LLVMGetNamedFunction(c->module, name_proved);
    struct ranges r = { .c = c, .entry = LLVMGetEntryBasicBlock(c->function),
                        .ok = LLVMConstInt(c->i1, true, false) };
    c->builder = LLVMCreateBuilderInContext(c->context);
    LLVMPositionBuilderBefore(c->builder, LLVMGetUser(LLVMGetFirstUse(proved)));
    replace_calls(&r, name_inside, answer_inside);
    replace_calls(&r, name_fits, answer_fits);
    replace_calls(&r, name_proved, answer_so_far);
    replace_calls(&r, name_block, place_of_block);
    replace_calls(&r, name_lanes, load_thread);
    replace_calls(&r, name_thread, load_thread);
    LLVMDisposeBuilder(c->builder);
}
