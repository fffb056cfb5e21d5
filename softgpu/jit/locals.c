/*
 * locals.c: loads and stores of local memory, in which parameters of calls are, too: bytes, halves and vectors as well.
 *
 * A thread's local memory is in pieces of 16 bytes, of which those of the warp's lanes are side by side (exec_local).
 * Nobody else reads or writes it meanwhile: so each lane moves whole words, in which it changes what the instruction
 * changes, and lanes that take no part may load theirs, too, and store what they have loaded. An access is one word of
 * 4 or 8 bytes of each lane, or two.
 *
 * Where all lanes are at one offset, words are 16 bytes apart: a few large loads, whose words change places. Where each
 * has an offset of its own, but all in one piece, as in small arrays, that piece of all lanes is a few registers, in
 * which each lane's bytes change places (AVX-512). Elsewhere each lane's word is loaded by itself.
 */
#include "softgpu/exec/fused.h"
#include "softgpu/jit/compile.h"
#include "softgpu/jit/locals.h"

#include <string.h>

enum { WORDS_MOST = 2 };

void locals_begin(struct compiler *c)
{
    LLVMBuilderRef b = c->builder;
    bool any = false;
    for (uint32_t k = 0; k < c->wish->count; k++)
        any |= c->in_region[k] &&
               (local_is_known(&c->wish->insns[k]) || c->wish->insns[k].known == EXEC_STRAIGHT_LOCAL_ADDRESS);
    if (!any)
        return;
    LLVMValueRef grid = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, grid)), 8),
                 size = load_from(c, c->i64, address_of(c, grid, offsetof(struct sg_grid, local_size)), 8),
                 most = constant_64(c, LOCAL_OFFSET_MOST), small = LLVMBuildICmp(b, LLVMIntULT, size, most, ""),
                 frame = load_from(c, c->i64, address_of(c, c->warp, offsetof(struct exec_warp, frame)), 8);
    LLVMValueRef end = LLVMBuildTrunc(b, LLVMBuildSelect(b, small, size, most, ""), c->i32, "");
    c->local.memory = load_from(c, c->i64, address_of(c, c->warp, offsetof(struct exec_warp, local)), 8);
    c->local.end = LLVMBuildAnd(b, end, constant_32(c, ~(LOCAL_PIECE - 1u)), ""); /* of whole pieces */
    c->local.frame = c->wish->entry
                         ? constant_32(c, 0)
                         : load_from(c, c->i32, address_of(c, frame, offsetof(struct exec_frame, local_base)), 4);
}

bool emit_address(struct compiler *c, const struct exec_insn *i)
{
    LLVMBuilderRef b = c->builder;
    if (i->straight == EXEC_STRAIGHT_GUARDED)
        return false;
    if (i->known == EXEC_STRAIGHT_LOCAL_ADDRESS) {
        LLVMValueRef base = LLVMBuildZExt(b, c->local.frame, c->i64, "");
        row_put(c, i, i->d, ROW_64, splat(c, address_of(c, base, (uint64_t)i->offset)));
        return true;
    }
    if (i->known != EXEC_STRAIGHT_CVTA)
        return false;
    LLVMValueRef low = LLVMBuildAnd(b, row_read(c, i->s[0], ROW_64), splat(c, constant_64(c, UINT32_MAX)), "");
    row_put(c, i, i->d, ROW_64, LLVMBuildOr(b, low, splat(c, constant_64(c, (uint64_t)i->offset)), ""));
    return true;
}

/* ---- where the lanes are ---- */

/* The words of the lanes: behind `memory`; of all lanes at one offset, else NULL: the first byte, and bytes from there
   to the first word; of each its first word. shift: bits in front of an element that is smaller than a word. own: the
   offsets in each thread's memory, 0 of lanes that take no part. piece: where the piece of all lanes is, if they have
   one in common. */
struct local_words {
    unsigned bytes, count;
    LLVMValueRef first, offsets, shift, own, piece;
    unsigned skip;
};

static void go_on_unless(struct compiler *c, LLVMValueRef wrong, LLVMBasicBlockRef step)
{
    LLVMBasicBlockRef right = block_new(c, "right");
    branch_mostly(c, LLVMBuildNot(c->builder, wrong, ""), right, step);
    LLVMPositionBuilderAtEnd(c->builder, right);
}

/* Is it not aligned, or behind the end? Of a number or a row. As the end and the size are powers of two or multiples of
   16, an element that is aligned and begins before the end also ends before it. */
static LLVMValueRef is_wrong(struct compiler *c, const struct exec_insn *i, LLVMValueRef offset, LLVMValueRef end)
{
    LLVMBuilderRef b = c->builder;
    LLVMTypeRef type = LLVMTypeOf(offset);
    LLVMValueRef low = constant_32(c, local_bytes_of(i) - 1u),
                 odd = LLVMBuildAnd(b, offset, type == c->i32 ? low : splat(c, low), "");
    return LLVMBuildOr(b, LLVMBuildICmp(b, LLVMIntNE, odd, LLVMConstNull(type), ""),
                       LLVMBuildICmp(b, LLVMIntUGE, offset, type == c->i32 ? end : splat(c, end), ""), "");
}

/* Bits in front of the bytes in their word. */
static LLVMValueRef shift_of(struct compiler *c, LLVMValueRef offset)
{
    LLVMBuilderRef b = c->builder;
    return splat(c, LLVMBuildShl(b, LLVMBuildAnd(b, offset, constant_32(c, 3), ""), constant_32(c, 3), ""));
}

/* offset: of all lanes, in the thread's memory. known: it counts from the frame by so many bytes that lie in one piece
   with the frame's first; else LOCAL_PIECE. */
static void place_one(struct compiler *c, const struct exec_insn *i, LLVMValueRef offset, unsigned known,
                      struct local_words *w)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef wide = LLVMBuildZExt(b, offset, c->i64, ""),
                 piece = LLVMBuildAnd(b, wide, constant_64(c, ~(uint64_t)(LOCAL_PIECE - 1)), "");
    w->first = LLVMBuildAdd(b, c->local.memory, LLVMBuildMul(b, piece, constant_64(c, SG_LANES), ""), "");
    w->skip = known < LOCAL_PIECE ? known & ~3u : 0;
    if (known == LOCAL_PIECE)
        w->first = LLVMBuildAdd(b, w->first, LLVMBuildAnd(b, wide, constant_64(c, LOCAL_PIECE - 4), ""), "");
    w->shift = local_bytes_of(i) < 4 ? shift_of(c, offset) : NULL;
}

static void place_each(struct compiler *c, LLVMValueRef offsets, struct local_words *w)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef lane[SG_LANES];
    for (unsigned l = 0; l < SG_LANES; l++)
        lane[l] = constant_32(c, l * LOCAL_PIECE);
    LLVMValueRef piece = LLVMBuildAnd(b, offsets, splat(c, constant_32(c, ~(LOCAL_PIECE - 1u))), ""),
                 within = LLVMBuildAnd(b, offsets, splat(c, constant_32(c, LOCAL_PIECE - 1)), ""),
                 at = LLVMBuildOr(b, LLVMBuildShl(b, piece, splat(c, constant_32(c, 5)), ""), within, "");
    w->offsets = LLVMBuildOr(b, at, LLVMConstVector(lane, SG_LANES), "");
    w->own = offsets;
}

/* The offsets in the thread's memory, of 32 bits, as the interpreter counts them. one: lane 0 says all. */
static LLVMValueRef offsets_of(struct compiler *c, const struct exec_insn *i, bool one)
{
    LLVMBuilderRef b = c->builder;
    const bool narrow = i->flags & EXEC_ADDRESS_32;
    LLVMValueRef a = (one ? row_first_lane : row_read)(c, i->s[0], narrow ? ROW_32 : ROW_64),
                 more = constant_32(c, (uint32_t)i->offset);
    if (!narrow)
        a = LLVMBuildTrunc(b, a, one ? c->i32 : c->row32, "");
    if (i->flags & EXEC_ADDRESS_FRAME)
        more = LLVMBuildAdd(b, c->local.frame, more, "");
    return LLVMBuildAdd(b, a, one ? more : splat(c, more), "");
}

/* Goes on where the access is right, in `step` where not. lanes: that take part; NULL: all. */
static void find(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, LLVMBasicBlockRef step,
                 struct local_words *w)
{
    LLVMBuilderRef b = c->builder;
    const unsigned bytes = local_bytes_of(i);
    *w = (struct local_words){ .bytes = bytes >= 8 ? 8 : 4, .count = bytes == LOCAL_PIECE ? 2 : 1 };
    if (i->flags & EXEC_ADDRESS_UNIFORM) {
        LLVMValueRef offset = LLVMBuildAdd(b, c->local.frame, constant_32(c, (uint32_t)i->offset), "");
        go_on_unless(c, LLVMBuildICmp(b, LLVMIntUGE, offset, c->local.end, ""), step);
        place_one(c, i, offset, (unsigned)i->offset % LOCAL_PIECE, w);
        return;
    }
    const struct row_shape shape = shape_of(c, i->s[0], i->flags & EXEC_ADDRESS_32 ? ROW_32 : ROW_64);
    if (shape.kind == SHAPE_STEPS && !shape.step) {
        LLVMValueRef offset = offsets_of(c, i, true);
        go_on_unless(c, is_wrong(c, i, offset, c->local.end), step);
        place_one(c, i, offset, LOCAL_PIECE, w);
        return;
    }
    LLVMValueRef offsets = offsets_of(c, i, false);
    if (lanes)
        offsets = LLVMBuildSelect(b, lanes_spread(c, lanes, ROW_32), offsets, LLVMConstNull(c->row32), "");
    LLVMValueRef wrong = LLVMBuildBitCast(b, is_wrong(c, i, offsets, c->local.end), c->i32, "");
    go_on_unless(c, LLVMBuildICmp(b, LLVMIntNE, wrong, constant_32(c, 0), ""), step);
    place_each(c, offsets, w);
}

/* ---- words at one offset ---- */

/* Bytes of a register of the processor, which holds the pieces of a few lanes. */
static unsigned group_of(const struct compiler *c) { return c->wish->avx512 ? 64 : 32; }
static LLVMTypeRef word_type(const struct compiler *c, const struct local_words *w)
{
    return w->bytes == 8 ? c->i64 : c->i32;
}

static LLVMValueRef load_group(struct compiler *c, const struct local_words *w, unsigned g)
{
    LLVMTypeRef type = LLVMVectorType(word_type(c, w), group_of(c) / w->bytes);
    return load_from(c, type, address_of(c, w->first, (uint64_t)g * group_of(c)), 4);
}

/* The place of a lane's word in a group. */
static unsigned place_in(const struct local_words *w, unsigned lane, unsigned word)
{
    return (lane * LOCAL_PIECE + w->skip) / w->bytes + word;
}

static LLVMValueRef load_beside(struct compiler *c, const struct local_words *w, unsigned word)
{
    const unsigned lanes = group_of(c) / LOCAL_PIECE, groups = SG_LANES / lanes;
    LLVMValueRef part[SG_LANES], which[SG_LANES];
    for (unsigned l = 0; l < lanes; l++)
        which[l] = constant_32(c, place_in(w, l, word));
    for (unsigned g = 0; g < groups; g++) {
        LLVMValueRef all = load_group(c, w, g);
        part[g] =
            LLVMBuildShuffleVector(c->builder, all, LLVMGetUndef(LLVMTypeOf(all)), LLVMConstVector(which, lanes), "");
    }
    return vectors_join(c, part, groups);
}

/* Puts the lanes of a group among what the group holds. */
static void store_group(struct compiler *c, const struct local_words *w, unsigned g, unsigned word, LLVMValueRef row)
{
    const unsigned lanes = group_of(c) / LOCAL_PIECE, count = group_of(c) / w->bytes;
    LLVMValueRef which[SG_LANES], from[SG_LANES], all = load_group(c, w, g);
    for (unsigned k = 0; k < count; k++) {
        which[k] = constant_32(c, k);
        from[k] = LLVMGetUndef(c->i32);
    }
    for (unsigned l = 0; l < lanes; l++) {
        const unsigned at = place_in(w, l, word);
        from[at] = constant_32(c, g * lanes + l);
        which[at] = constant_32(c, count + at);
    }
    LLVMValueRef spread =
        LLVMBuildShuffleVector(c->builder, row, LLVMGetUndef(LLVMTypeOf(row)), LLVMConstVector(from, count), "");
    store_to(c, LLVMBuildShuffleVector(c->builder, all, spread, LLVMConstVector(which, count), ""),
             address_of(c, w->first, (uint64_t)g * group_of(c)), 4);
}

/* ---- words in one piece ---- */

enum { GROUP = 64, GROUP_LANES = GROUP / LOCAL_PIECE, GROUPS = SG_LANES / GROUP_LANES };

static bool may_share_piece(const struct compiler *c, const struct exec_insn *i, const struct local_words *w)
{
    return c->wish->avx512 && w->offsets && local_bytes_of(i) <= 4;
}

/* Goes on where these lanes (NULL: all) are in one piece, which is filled in; in `each` where not. */
static void go_on_in_piece(struct compiler *c, struct local_words *w, LLVMValueRef lanes, LLVMBasicBlockRef each)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef cut = constant_32(c, ~(LOCAL_PIECE - 1u)), first;
    if (lanes) {
        store_to(c, w->own, lanes_variable(c, c->lane_places), 64);
        first = load_from(c, c->i32, lanes_cell(c, c->lane_places, lanes_first(c, lanes), 4), 4);
    } else
        first = LLVMBuildExtractElement(b, w->own, constant_32(c, 0), "");
    first = LLVMBuildAnd(b, first, cut, "");
    LLVMValueRef same = LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildAnd(b, w->own, splat(c, cut), ""), splat(c, first), "");
    same = LLVMBuildBitCast(b, same, c->i32, "");
    if (lanes)
        same = LLVMBuildOr(b, same, LLVMBuildNot(b, lanes, ""), "");
    LLVMBasicBlockRef piece = block_new(c, "piece");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, same, constant_32(c, UINT32_MAX), ""), piece, each);
    LLVMPositionBuilderAtEnd(b, piece);
    LLVMValueRef offset = LLVMBuildMul(b, LLVMBuildZExt(b, first, c->i64, ""), constant_64(c, SG_LANES), "");
    w->piece = LLVMBuildAdd(b, c->local.memory, offset, "");
}

static LLVMTypeRef group_type(const struct compiler *c) { return LLVMVectorType(c->i8, GROUP); }
static LLVMValueRef group_at(struct compiler *c, const struct local_words *w, unsigned g)
{
    return address_of(c, w->piece, (uint64_t)g * GROUP);
}

/* The words of a group's lanes, each at the beginning of its piece, where the rest is any. */
static LLVMValueRef group_words(struct compiler *c, LLVMValueRef row, unsigned g)
{
    enum { EACH = LOCAL_PIECE / 4 };
    LLVMValueRef from[GROUP / 4];
    for (unsigned k = 0; k < GROUP / 4; k++)
        from[k] = k % EACH ? LLVMGetUndef(c->i32) : constant_32(c, g * GROUP_LANES + k / EACH);
    LLVMValueRef words = LLVMBuildShuffleVector(c->builder, row, LLVMGetUndef(c->row32),
                                                LLVMConstVector(from, GROUP / 4), "");
    return LLVMBuildBitCast(c->builder, words, group_type(c), "");
}

/* In each piece the bytes that `which` names; 0 where it is 128 or more. */
static LLVMValueRef pick_bytes(struct compiler *c, LLVMValueRef bytes, LLVMValueRef which)
{
    static const char name[] = "llvm.x86.avx512.pshuf.b.512";
    LLVMTypeRef types[2] = { group_type(c), group_type(c) };
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0),
                 arguments[2] = { bytes, which };
    return LLVMBuildCall2(c->builder, LLVMFunctionType(group_type(c), types, 2, false), f, arguments, 2, "");
}

/* Where the lanes are in their pieces. */
static LLVMValueRef within(struct compiler *c, const struct local_words *w)
{
    return LLVMBuildAnd(c->builder, w->own, splat(c, constant_32(c, LOCAL_PIECE - 1)), "");
}

/* Of each lane so many bytes, 4 at most, and zeros above them. */
static LLVMValueRef load_in_piece(struct compiler *c, const struct local_words *w, unsigned bytes)
{
    enum { PAIRS = GROUPS / 2, NOTHING = 0x80 };
    LLVMBuilderRef b = c->builder;
    LLVMTypeRef words = LLVMVectorType(c->i32, GROUP / 4);
    uint32_t by = 0, more = 0;
    for (unsigned k = 0; k < 4; k++) {
        by |= (k < bytes) << 8 * k;
        more |= (uint32_t)(k < bytes ? k : NOTHING) << 8 * k;
    }
    LLVMValueRef which = LLVMBuildMul(b, within(c, w), splat(c, constant_32(c, by)), ""), found[GROUPS], pair[PAIRS],
                 from[2 * GROUP_LANES];
    which = LLVMBuildAdd(b, which, splat(c, constant_32(c, more)), "");
    for (unsigned g = 0; g < GROUPS; g++) {
        LLVMValueRef own = pick_bytes(c, load_from(c, group_type(c), group_at(c, w, g), 4), group_words(c, which, g));
        found[g] = LLVMBuildBitCast(b, own, words, "");
    }
    for (unsigned l = 0; l < 2 * GROUP_LANES; l++)
        from[l] = constant_32(c, l * LOCAL_PIECE / 4);
    for (unsigned k = 0; k < PAIRS; k++)
        pair[k] = LLVMBuildShuffleVector(b, found[2 * k], found[2 * k + 1], LLVMConstVector(from, 2 * GROUP_LANES), "");
    return vectors_join(c, pair, PAIRS);
}

/* In each piece a number for each byte. */
static LLVMValueRef byte_numbers(struct compiler *c, unsigned first, unsigned step)
{
    LLVMValueRef value[GROUP];
    for (unsigned k = 0; k < GROUP; k++)
        value[k] = LLVMConstInt(c->i8, first + k % LOCAL_PIECE * step, false);
    return LLVMConstVector(value, GROUP);
}

/* Of each lane so many bytes of the row, 4 at most. */
static void store_in_piece(struct compiler *c, const struct local_words *w, unsigned bytes, LLVMValueRef row,
                           LLVMValueRef lanes)
{
    enum { NOWHERE = 0x40 };
    LLVMBuilderRef b = c->builder;
    LLVMValueRef at = within(c, w);
    if (lanes)
        at = LLVMBuildSelect(b, lanes_spread(c, lanes, ROW_32), at, splat(c, constant_32(c, NOWHERE)), "");
    for (unsigned g = 0; g < GROUPS; g++) {
        LLVMValueRef first = pick_bytes(c, group_words(c, at, g), byte_numbers(c, 0, 0)),
                     which = LLVMBuildSub(b, byte_numbers(c, 0, 1), first, ""),
                     own = LLVMBuildICmp(b, LLVMIntULT, which, byte_numbers(c, bytes, 0), ""),
                     before = load_from(c, group_type(c), group_at(c, w, g), 4),
                     value = pick_bytes(c, group_words(c, row, g), which);
        store_to(c, LLVMBuildSelect(b, own, value, before, ""), group_at(c, w, g), 4);
    }
}

/* ---- words ---- */

static LLVMValueRef load_word(struct compiler *c, const struct exec_insn *i, const struct local_words *w, unsigned word)
{
    if (w->first)
        return load_beside(c, w, word);
    if (w->piece)
        return load_in_piece(c, w, local_bytes_of(i));
    const unsigned bytes = local_bytes_of(i) < w->bytes ? local_bytes_of(i) : w->bytes;
    LLVMValueRef all = gather(c, address_of(c, c->local.memory, (uint64_t)word * w->bytes), w->offsets, bytes);
    return bytes < 4 ? LLVMBuildZExt(c->builder, all, c->row32, "") : all;
}

/* Elements of a lane one behind the other in a word. */
static unsigned place_of(const struct local_words *w, const struct exec_insn *i, unsigned k)
{
    return 8u * k * i->size % (8 * w->bytes);
}
static unsigned word_of(const struct local_words *w, const struct exec_insn *i, unsigned k)
{
    return k * i->size / w->bytes;
}
static LLVMValueRef number(struct compiler *c, const struct local_words *w, uint64_t value)
{
    return splat(c, w->bytes == 8 ? constant_64(c, value) : constant_32(c, value));
}

/* As put_cell() of op_memory.c does it. */
static LLVMValueRef element(struct compiler *c, const struct exec_insn *i, const struct local_words *w, unsigned k,
                            LLVMValueRef word)
{
    LLVMBuilderRef b = c->builder;
    const unsigned bytes = local_register_of(i, k), at = place_of(w, i, k);
    LLVMTypeRef row = bytes == 8 ? c->row64 : c->row32;
    LLVMValueRef value = at ? LLVMBuildLShr(b, word, number(c, w, at), "") : word;
    if (i->size < w->bytes)
        value = LLVMBuildTrunc(b, value, LLVMVectorType(LLVMIntTypeInContext(c->context, 8u * i->size), SG_LANES), "");
    if (i->size < 4 || bytes == 8)
        value = LLVMTypeOf(value) == row
                    ? value
                    : LLVMBuildCast(b, i->flags & EXEC_SIGNED ? LLVMSExt : LLVMZExt, value, row, "");
    return bytes < 4 ? LLVMBuildAnd(b, value, splat(c, constant_32(c, UINT16_MAX)), "") : value;
}

static void load(struct compiler *c, const struct exec_insn *i, const struct local_words *w)
{
    const struct exec_vector *v = i->extra;
    LLVMValueRef word[WORDS_MOST];
    for (unsigned k = 0; k < w->count; k++) {
        word[k] = load_word(c, i, w, k);
        if (w->shift)
            word[k] = LLVMBuildLShr(c->builder, word[k], w->shift, "");
    }
    for (unsigned k = 0; k < i->vector; k++)
        if (!local_is_vector(i) || !v->sink[k])
            row_put(c, i, local_is_vector(i) ? v->to[k] : i->d, local_bits((uint8_t)local_register_of(i, k)),
                    element(c, i, w, k, word[word_of(w, i, k)]));
}

/* ---- stores ---- */

/* The elements that belong in a word, one behind the other. */
static LLVMValueRef put_together(struct compiler *c, const struct exec_insn *i, const struct local_words *w,
                                 unsigned word)
{
    LLVMBuilderRef b = c->builder;
    const struct exec_vector *v = i->extra;
    LLVMTypeRef row = w->bytes == 8 ? c->row64 : c->row32;
    LLVMValueRef all = LLVMConstNull(row);
    for (unsigned k = 0; k < i->vector; k++) {
        if (word_of(w, i, k) != word)
            continue;
        const enum row_bits bits = local_bits((uint8_t)local_register_of(i, k));
        LLVMValueRef value = row_read(c, local_is_vector(i) ? v->from[k] : i->s[1], bits);
        if (LLVMTypeOf(value) != row)
            value = LLVMBuildCast(b, w->bytes == 8 ? LLVMZExt : LLVMTrunc, value, row, "");
        if (i->size < w->bytes)
            value = LLVMBuildAnd(b, value, number(c, w, (UINT64_C(1) << 8u * i->size) - 1), "");
        all = LLVMBuildOr(b, all, LLVMBuildShl(b, value, number(c, w, place_of(w, i, k)), ""), "");
    }
    return all;
}

static void store_beside(struct compiler *c, const struct exec_insn *i, const struct local_words *w, LLVMValueRef lanes)
{
    LLVMBuilderRef b = c->builder;
    for (unsigned k = 0; k < w->count; k++) {
        LLVMValueRef row = put_together(c, i, w, k), before = w->shift || lanes ? load_word(c, i, w, k) : NULL;
        if (w->shift) {
            LLVMValueRef own = LLVMBuildShl(b, number(c, w, (UINT64_C(1) << 8u * local_bytes_of(i)) - 1), w->shift, "");
            row = LLVMBuildOr(b, LLVMBuildShl(b, row, w->shift, ""),
                              LLVMBuildAnd(b, before, LLVMBuildNot(b, own, ""), ""), "");
        }
        if (lanes)
            row = LLVMBuildSelect(b, lanes_spread(c, lanes, w->bytes == 8 ? ROW_64 : ROW_32), row, before, "");
        for (unsigned g = 0; g < SG_LANES * LOCAL_PIECE / group_of(c); g++)
            store_group(c, w, g, k, row);
    }
}

/* One lane's words, which are in its cells. */
static void store_lane(struct compiler *c, const struct exec_insn *i, LLVMValueRef lane)
{
    const unsigned bytes = local_bytes_of(i), word = bytes >= 8 ? 8 : 4;
    LLVMValueRef at = load_from(c, c->i64, lanes_cell(c, c->lane_places, lane, 8), 8);
    for (unsigned k = 0; k < (bytes == LOCAL_PIECE ? 2 : 1); k++) {
        LLVMValueRef cell = lanes_cell(c, k ? c->lane_vectors : c->lane_cells, lane, word),
                     value = load_from(c, word == 8 ? c->i64 : c->i32, cell, word);
        if (bytes < 4)
            value = LLVMBuildTrunc(c->builder, value, LLVMIntTypeInContext(c->context, 8 * bytes), "");
        store_to(c, value, address_of(c, at, k * word), bytes < word ? bytes : word);
    }
}

static void store_each(struct compiler *c, const struct exec_insn *i, const struct local_words *w, LLVMValueRef lanes)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef at = LLVMBuildAdd(b, LLVMBuildZExt(b, w->offsets, c->row64, ""), splat(c, c->local.memory), "");
    if (w->shift)
        at = LLVMBuildAdd(
            b, at, LLVMBuildLShr(b, LLVMBuildZExt(b, w->shift, c->row64, ""), splat(c, constant_64(c, 3)), ""), "");
    store_to(c, at, lanes_variable(c, c->lane_places), 64);
    for (unsigned k = 0; k < w->count; k++)
        store_to(c, put_together(c, i, w, k), lanes_variable(c, k ? c->lane_vectors : c->lane_cells), 64);
    lanes_each(c, lanes ? lanes : constant_32(c, UINT32_MAX), store_lane, i);
}

static void move(struct compiler *c, const struct exec_insn *i, const struct local_words *w, LLVMValueRef lanes)
{
    if (!local_is_store(i))
        load(c, i, w);
    else if (w->first)
        store_beside(c, i, w, lanes);
    else if (w->piece)
        store_in_piece(c, w, local_bytes_of(i), put_together(c, i, w, 0), lanes);
    else
        store_each(c, i, w, lanes);
}

bool emit_local(struct compiler *c, const struct exec_insn *i)
{
    if (!local_is_known(i))
        return false;
    LLVMBasicBlockRef behind = block_new(c, "behind"), step = block_new(c, "step");
    LLVMValueRef lanes = lanes_or_behind(c, i, behind);
    struct local_words w;
    find(c, i, lanes, step, &w);
    if (may_share_piece(c, i, &w)) {
        LLVMBasicBlockRef each = block_new(c, "each");
        struct local_words shared = w;
        go_on_in_piece(c, &shared, lanes, each);
        move(c, i, &shared, lanes);
        LLVMBuildBr(c->builder, behind);
        LLVMPositionBuilderAtEnd(c->builder, each);
    }
    move(c, i, &w, lanes);
    rows_step_apart(c, i, step, behind);
    return true;
}
