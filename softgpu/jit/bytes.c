/*
 * bytes.c: loads of bytes that lie side by side: a program puts a number together from them, since they may be
 * anywhere. Where all such loads of a line of instructions may be made, each lane loads the bytes at once, in one word
 * or two, and the instructions are written with what the words hold; LLVM finds that putting bytes together gives the
 * word again. Elsewhere the instructions are written as they are, and say themselves what is wrong. Nothing between the
 * loads stores or waits, so that no other order can be seen.
 */
#include "softgpu/jit/access.h"
#include "softgpu/jit/reach.h"

/* LEAST: loads that gain. MOST: instructions of a line. */
enum { LEAST = 3, MOST = 128, WORD = 8, WORDS = 2 };

/* A line of instructions up to before `end`: loads of bytes from `least` on behind the row `at`. */
struct byte_line {
    exec_source at;
    int64_t least;
    uint32_t end;
    unsigned words, loads;
};

static bool is_byte(const struct exec_insn *i)
{
    return (i->known == EXEC_STRAIGHT_LOAD_8 || i->known == EXEC_STRAIGHT_LOAD_8S) &&
           i->straight != EXEC_STRAIGHT_GUARDED && (i->s[0] & 3) == EXEC_BASE_FRAME &&
           !(i->flags & (EXEC_READS_SHARED | EXEC_POLL));
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

static bool is_target(const struct compiler *c, uint32_t k)
{
    for (uint32_t from = 0; from < c->wish->count; from++) {
        const struct exec_insn *i = &c->wish->insns[from];
        if ((i->straight == EXEC_STRAIGHT_BRANCH || i->straight == EXEC_STRAIGHT_BRANCH_IF) &&
            i->target == &c->wish->insns[k])
            return true;
    }
    return false;
}

/* The bytes from the least to the largest offset, if they are few enough. */
static bool covers(int64_t least, int64_t most) { return most - least < WORD * WORDS; }

/* The line that begins with the load k. false: there is nothing to gain. */
static bool find_line(const struct compiler *c, uint32_t k, struct byte_line *l)
{
    const struct exec_insn *insns = c->wish->insns;
    int64_t least = insns[k].offset, most = least;
    *l = (struct byte_line){ .at = insns[k].s[0], .end = k };
    for (uint32_t at = k; at < c->wish->count && at - k < MOST && c->in_region[at]; at++) {
        const struct exec_insn *i = &insns[at];
        const bool load = is_byte(i) && i->s[0] == l->at;
        if ((!load && !is_lanewise(i)) || (at != k && is_target(c, at)))
            break;
        if (load) {
            const int64_t low = i->offset < least ? i->offset : least, high = i->offset > most ? i->offset : most;
            if (!covers(low, high))
                break;
            least = low;
            most = high;
            l->end = at + 1;
            l->loads++;
        }
        if (writes(i, l->at))
            break;
    }
    l->least = least;
    l->words = (unsigned)((most - least) / WORD) + 1;
    return l->loads >= LEAST;
}

/* Lanes in steps have better ways (steps.c). */
static bool is_worth_it(const struct compiler *c, uint32_t k)
{
    const struct exec_insn *i = &c->wish->insns[k];
    return !c->has_runs && is_byte(i) && shape_of(c, i->s[0], ROW_64).kind != SHAPE_STEPS;
}

static void load_byte(struct compiler *c, const struct exec_insn *i, const struct byte_line *l, LLVMValueRef *word)
{
    LLVMBuilderRef b = c->builder;
    const unsigned at = (unsigned)(i->offset - l->least);
    LLVMTypeRef bytes = LLVMVectorType(c->i8, SG_LANES);
    LLVMValueRef by = splat(c, constant_64(c, at % WORD * 8)),
                 value = LLVMBuildTrunc(b, LLVMBuildLShr(b, word[at / WORD], by, ""), bytes, "");
    row_put(c, i, i->d, access_bits(i), widened(c, i, value));
}

/* Once with the words, or, where `word` is NULL, as the instructions are. */
static void emit_line(struct compiler *c, uint32_t k, const struct byte_line *l, LLVMValueRef *word,
                      void (*emit)(struct compiler *, uint32_t))
{
    for (; k < l->end; k++) {
        const struct exec_insn *i = &c->wish->insns[k];
        shapes_begin(c, k);
        if (word && is_byte(i) && i->s[0] == l->at)
            load_byte(c, i, l, word);
        else
            emit(c, k);
        shapes_end(c, k);
    }
}

uint32_t bytes_emit(struct compiler *c, uint32_t k, void (*emit)(struct compiler *, uint32_t))
{
    LLVMBuilderRef b = c->builder;
    const struct exec_insn *i = &c->wish->insns[k];
    struct byte_line l;
    if (!is_worth_it(c, k) || !find_line(c, k, &l))
        return k;
    rows_settle(c); /* the line is written twice, and both begin and end with the same rows */
    LLVMBasicBlockRef alone = block_new(c, "alone"), behind = block_new(c, "behind");
    LLVMValueRef lanes = lanes_that_act(c, i), offset = splat(c, constant_64(c, (uint64_t)l.least)), word[WORDS];
    struct reach r = { .at = LLVMBuildAdd(b, row_read(c, i->s[0], ROW_64), offset, ""),
                       .bytes = WORD * l.words,
                       .align = 1 };
    reach_find(c, &r, lanes ? lanes : constant_32(c, UINT32_MAX), SG_READ, alone);
    LLVMValueRef offsets = reach_offsets(c, &r, lanes);
    for (unsigned n = 0; n < l.words; n++)
        word[n] = gather(c, address_of(c, r.first, n * WORD), offsets, WORD);
    emit_line(c, k, &l, word, emit);
    rows_settle(c);
    LLVMBuildBr(b, behind);
    LLVMPositionBuilderAtEnd(b, alone);
    emit_line(c, k, &l, NULL, emit);
    rows_settle(c);
    LLVMBuildBr(b, behind);
    LLVMPositionBuilderAtEnd(b, behind);
    return l.end;
}
