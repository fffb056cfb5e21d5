/*
 * compile.h: the inside of the compiler. Which file does what:
 *
 *   whole.c       code for whole blocks: the loop around warps, and what is the same for all of them
 *   ranges.c      checks that hold for all warps of a block, and are made once
 *   phases.c      and where there are barriers, the phases between them
 *   library.c     LLVM itself: optimising, machine code in memory that is never writable and executable at once
 *   store.c       machine code on disk, for the next process
 *   freeze.c      the end of a process stops the thread that compiles
 *   region.c      which instructions belong to a region
 *   rows.c        registers of the warp as values of 32 lanes
 *   live.c        which of them the function still reads from where on
 *   shapes.c      rows of which one lane says all
 *   guess.c       what lanes of a row may have
 *   fixed.c       loads of shared memory at an address that is known
 *   places.c      code for some lanes: where the others wait
 *   runs.c        code for many registers: some lanes after the other
 *   build.c       what they build instructions of LLVM with
 *   emit.c        the walk over the instructions: branches, the budget, calls of the interpreter
 *   forms.c       which rows arithmetic has
 *   floats.c      what the files of arithmetic share
 *   arithmetic.c  what it becomes
 *   conversions.c from f32 to others
 *   doubles.c     that of f64
 *   late.c        and its NaNs, of which many instructions ask once
 *   rounded.c     sums and products of f32 in other modes of rounding
 *   elementary.c  2^x and other functions that PTX calls approximations
 *   divisions.c   quotients and remainders of integers
 *   integers.c    and of integers and bits
 *   functions.c   other arithmetic: calls of the interpreter's functions
 *   exchanges.c   shuffles and votes of a full warp
 *   access.c      accesses of memory: the usual case inline
 *   window.c      the window where the warp was last
 *   steps.c       where it is known how far lanes are apart
 *   together.c    loads beside each other, which are checked together
 *   vectors.c     vectors of global memory: elements change places
 *   reach.c       where lanes are in global memory, if they are anywhere
 *   bytes.c       loads of what lies side by side in each lane, which become one
 *   locals.c      local memory and parameters of calls
 *   gather.c      rows from memory whose lanes are anywhere
 *   atomics.c     atomic operations on shared and global memory
 *   parameters.c  parameters of the kernel at any address
 *   matrix.c      matrices that a full warp holds
 *   lanes.c       and lane by lane in other cases; the interpreter does what is left
 *
 * A row of registers is a variable on the stack of the code, which LLVM turns into vector registers. All rows are
 * loaded from the frame at the beginning. Where the code ends, those go back that the region writes and the function
 * may still read. An instruction that the interpreter executes finds in the frame what it reads, and what it writes is
 * loaded again behind it.
 *
 * Code for some lanes computes all 32 and blends results in. Not those in rows of which no lane that is elsewhere in
 * the function needs anything.
 *
 * Addresses are integers here, and become pointers where they are used: LLVM 14 wants a type for each pointer, 17 has
 * none.
 */
#ifndef SOFTGPU_JIT_COMPILE_H
#define SOFTGPU_JIT_COMPILE_H

#include <llvm-c/Core.h>

#include "softgpu/exec/atomic.h"
#include "softgpu/exec/exec.h"
#include "softgpu/exec/phases.h"
#include "softgpu/exec/straight.h"
#include "softgpu/jit.h"

/* Bits that each lane has in a row. A predicate has one: it is a mask of lanes, not a row. */
enum row_bits { ROW_PREDICATE = 1, ROW_32 = 32, ROW_64 = 64 };

/* What is known of a row's lanes: nothing yet; lane l has what lane 0 has, plus l times `step`; nothing. */
struct row_shape {
    enum { SHAPE_NONE, SHAPE_STEPS, SHAPE_ANY } kind;
    bool checked;                     /* unless a lane has wrapped where a row became one of 64 bits */
    int64_t step;
};

struct row_variable {
    exec_source at;                   /* frame or warp */
    enum row_bits bits;
    bool written;
    bool in_memory;                   /* used as rows of two widths, or in runs: stays in the frame */
    bool two_widths;
    bool lasts;                       /* lanes that are at another place may need theirs */
    bool awaited;                     /* lanes that wait at a place of the region may */
    LLVMValueRef variable;
    LLVMValueRef first;               /* lane 0, while the row is in steps; then the variable above does not count */
    LLVMValueRef others;              /* in a line (rows_end_line): what lanes keep that do not run, if that is apart */
    LLVMValueRef held;                /* in a run: what it holds now; NULL: what the frame has */
    bool changed;                     /* and the frame has something else */
    bool raw;                         /* any NaN in it may have any bits: of a run, or of the variable */
    uint64_t phases;                  /* which of them write it (phases.c) */
    /* In a stretch (late.c): any NaN may have any bits; the stretch reads it before it writes it; writes it; what it
       had before, where that is needed, and whether that was raw. */
    bool late, late_read, late_written, before_raw;
    LLVMValueRef before;
    uint32_t next;                    /* row of the same bucket, plus one */
};
enum { ROW_BUCKETS = 256 };

/* Of code for whole blocks: the number of the warp; the block in which the next one has its turn; values that all warps
   share; the block's place in x, and those of the first and the last block, which are known before; how many blocks are
   left; which accesses have a span (exec_block.spans). */
struct whole_code {
    LLVMValueRef index, params, shared[EXEC_ROW_COUNT], place, first_place, last_place, left;
    LLVMBasicBlockRef block;          /* where each block begins */
    LLVMBasicBlockRef next, over, done; /* over: all have had theirs; done: the code ends */
    LLVMValueRef proved;              /* the answer of ranges.c for the blocks */
    LLVMValueRef ahead;               /* bytes from an access to what the blocks behind this one touch */
    struct { const struct exec_insn *access; unsigned bytes; } spans[EXEC_SPANS];
    unsigned span_count;
    /* While the code is written behind a branch that has led lanes to their end: those that go on, and that end. Or
       that has led lanes over some instructions: those that do not skip them, and where the others wait. */
    LLVMValueRef rest;
    const struct exec_insn *end;
    bool keeps;                       /* the latter: the others keep their rows */
    bool refused;                     /* there is something in it that this kind of code has no way for */
};

/* Of code for whole blocks with barriers: the instructions with which phases begin, `count` of them; per instruction,
   which phases it belongs to, and more (phases.c). */
enum { PHASE_FOLLOWS = 1, PHASE_READ = 2, PHASE_SPLITS = 4, PHASE_FOR_SOME = 8, PHASE_HEADS = 64 };
struct phase_code {
    unsigned count;
    uint32_t heads[PHASE_HEADS];
    uint8_t *state;
    uint64_t *in, noted;              /* noted: of the instruction whose rows are being collected */
    LLVMBasicBlockRef dispatch, ended, some[PHASE_HEADS];
};

/* Of the warp: where its local memory is; offsets below `end` exist; where the frame's begins. NULL: no access needs
   them. */
struct local_memory { LLVMValueRef memory, end, frame; };

/* Loads of one line of code, up to before `end`, at the row `base` plus a constant: from `least` to `most`, the first
   of them at `from`, which is aligned so. ok: all of it may be read. */
struct load_group {
    exec_source base;
    int64_t from, least, most;
    unsigned align;
    uint32_t end;
    LLVMValueRef ok;
};

struct compiler {
    const struct sg_jit_wish *wish;
    bool *in_region;                  /* per instruction */
    bool *target;                     /* per instruction of the region: branches of it lead there */
    bool has_runs;
    unsigned width;                   /* lanes of a row: 32, those of a round of a run, or lane 0 alone */
    LLVMValueRef lane;                /* in a run: the first lane of the round */
    struct { bool open; uint32_t first; } late; /* a stretch of arithmetic: its first instruction (late.c) */
    bool takes_raw, may_raw, raw;     /* the instruction reads floats only; may give what is raw, and does */
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMValueRef function;
    LLVMValueRef warp, frame, block;  /* addresses of the structures, and of the frame's rows */
    LLVMValueRef head;                /* the address of the region's first instruction */
    LLVMValueRef machine;             /* the address of the machine's function `step` */
    LLVMTypeRef i1, i8, i32, i64, row32, row64, lanes, floats, step_type;
    LLVMBasicBlockRef *blocks;        /* per instruction of the region */
    LLVMBasicBlockRef *leaves;        /* per instruction that the region goes on to outside; NULL: not yet made */
    struct whole_code whole;               /* of code for whole blocks */
    struct phase_code phase;
    struct sg_jit_places *places;     /* of code for some lanes, else NULL; and where lanes arrive at each */
    LLVMBasicBlockRef arrive[SG_JIT_PLACES];
    LLVMValueRef active;              /* variable: the lanes that run */
    LLVMValueRef lane_places, lane_cells, lane_vectors; /* variables of an access lane by lane */
    struct local_memory local;
    LLVMValueRef call_rows, call_result, call_predicates; /* and of a call of softgpu/alu */
    LLVMValueRef rare;                /* branch weights: the second way is hardly ever taken */
    struct row_variable *rows;
    uint32_t row_count, row_room;
    uint32_t bucket[ROW_BUCKETS];     /* the first row of each, plus one */
    uint64_t *live;                   /* per instruction of the function a set of rows, of so many words */
    uint32_t live_words;
    struct row_shape *shapes, *now;   /* or NULL: before each instruction, per row; of the one being written */
    unsigned seen;                    /* accesses that foretell where they are next */
    unsigned reaches;                 /* accesses that have a span of exec_block.reaches */
    struct load_group group;          /* of loads that are checked together (together.c) */
    bool in_line;                     /* the code that is written is run behind that of the instruction before it */
    bool deferring;                   /* what others keep is put in at the end of the line */
    bool failed;                      /* no memory */
};

static inline unsigned bucket_of(exec_source at) { return (unsigned)(at >> 2 ^ at >> 7) % ROW_BUCKETS; }
/* Before the instruction. */
static inline struct row_shape *shapes_at(const struct compiler *c, uint32_t k)
{
    return c->shapes + (size_t)k * c->row_count;
}
/* The first row of the bucket, in which the others are behind it; NULL: none. */
static inline struct row_variable *row_first(const struct compiler *c, exec_source at)
{
    const uint32_t k = c->bucket[bucket_of(at)];
    return k ? &c->rows[k - 1] : NULL;
}

static inline bool access_is_shared(const struct exec_insn *i)
{
    return i->known == EXEC_STRAIGHT_SHARED_LOAD || i->known == EXEC_STRAIGHT_SHARED_STORE;
}
static inline bool access_is_store(const struct exec_insn *i)
{
    return i->known == EXEC_STRAIGHT_SHARED_STORE ||
           (i->known >= EXEC_STRAIGHT_STORE_8 && i->known <= EXEC_STRAIGHT_STORE_64) ||
           i->known == EXEC_STRAIGHT_STORE_VECTOR;
}
/* The width of the row that the load or store moves; 0: this compiler leaves the access to the interpreter. */
static inline enum row_bits access_bits(const struct exec_insn *i)
{
    const bool global = i->known >= EXEC_STRAIGHT_LOAD_8 && i->known <= EXEC_STRAIGHT_STORE_64;
    return !global && !access_is_shared(i) ? 0 : i->size == 8 ? ROW_64 : ROW_32;
}

/* An atomic operation that has code here (atomics.c). */
static inline bool atomic_is_known(const struct exec_insn *i)
{
    const bool real = i->type >= PTX_F16 && i->type <= PTX_F64, shared = i->space == PTX_SPACE_SHARED,
               global = i->space == PTX_SPACE_GLOBAL || i->space == PTX_SPACE_GENERIC,
               sum = i->kind == EXEC_ATOMIC_ADD && (i->type == PTX_F32 || (i->type == PTX_F64 && global));
    const unsigned odd = EXEC_ADDRESS_FRAME | EXEC_SYSTEM | (global ? EXEC_ADDRESS_UNIFORM | EXEC_ADDRESS_32 : 0);
    return i->known == EXEC_STRAIGHT_ATOMIC && (shared || global) && (i->size == 4 || i->size == 8) &&
           !(i->flags & odd) && i->order != EXEC_SEQ_CST && (!real || sum);
}

/* Instructions of a region without runs; a larger one would take too long to compile. */
enum { REGION_MOST = 700 };
/* region.c: fills in_region, and has_runs. false: there is nothing to gain. */
bool region_find(struct compiler *);
/* Of code for whole blocks: does all of it lead forward, to the end of the kernel? */
bool region_is_whole(const struct compiler *);

/* whole.c: the beginning of a function for whole blocks, up to where the code of a warp begins. */
void whole_begin(struct compiler *);
/* The loop ends: behind the code of a warp. */
void whole_end(struct compiler *);
/* The machine sets the warp up. */
void whole_begin_warp(struct compiler *);
/* Behind an instruction that the interpreter has done, the warp is as if it had never been set up. */
void whole_forget_warp(struct compiler *);
/* The code ends in this warp. */
void whole_return(struct compiler *);
/* Lane 0 of a row of special registers that is the same for all warps; NULL: it is none of these. */
LLVMValueRef whole_special(struct compiler *, exec_source);
/* Goes on where the access may touch so many bytes at the address, and it is aligned; in `rare` where not. false: there
   are no spans left, or this is no such code, and nothing was written. */
bool whole_find(struct compiler *, const struct exec_insn *, LLVMValueRef address, unsigned align, unsigned bytes,
                LLVMBasicBlockRef rare);
/* Can it do that for the access? */
bool whole_has_span(struct compiler *, const struct exec_insn *, unsigned bytes);

/* phases.c. Finds the phases, once the region is known. false: the kernel has no such code. */
bool phases_find(struct compiler *);
void phases_free(struct compiler *);
/* Does a phase end before the instruction, since the warp halts there, or waits at a barrier? */
static inline bool phase_splits(const struct compiler *c, uint32_t k)
{
    return c->phase.count && c->phase.state[k] & PHASE_SPLITS;
}
static inline bool phase_waits(const struct compiler *c, uint32_t k)
{
    return c->wish->phases && exec_is_whole_barrier(&c->wish->insns[k]);
}
/* Between them stands the code of a warp, for all heads. The second follows whole_end(). */
void phases_begin(struct compiler *);
void phases_end(struct compiler *);
/* Where a warp has ended, of any code for whole blocks; where it comes to such an instruction. */
LLVMBasicBlockRef phase_ended(struct compiler *);
LLVMBasicBlockRef phase_point(struct compiler *, uint32_t k);
/* Should the instructions from one to before another, over which a branch leads some lanes, have no other code than
   that for the rest, which may be all? Then this holds for each of them. */
bool phase_has_line(struct compiler *, uint32_t from, uint32_t to);
bool phase_is_for_some(const struct compiler *, uint32_t k);
/* Some lanes halt there. Goes on behind it, in another turn. */
void phase_halt_some(struct compiler *, uint32_t k);
/* Goes on at the target, or, where the turn is long enough, elsewhere. */
void phase_spend(struct compiler *, uint32_t cost, LLVMBasicBlockRef target, LLVMBasicBlockRef spent);

/* rows.c */
/* What the instruction reads and writes as whole rows, so that code can keep them in registers. */
void rows_collect(struct compiler *);
/* Variables for all rows, at the beginning of the code, with what the frame holds. */
void rows_begin(struct compiler *);
/* Stores what the region writes and the function may read from that instruction on. */
void rows_end(struct compiler *, uint32_t k);
/* Of a phase: loads what it may read; stores what it writes, and others may read. */
void rows_begin_phase(struct compiler *, uint32_t head);
void rows_end_phase(struct compiler *, uint32_t k);
LLVMValueRef row_read(struct compiler *, exec_source, enum row_bits);
/* Lane 0 of a row that is in steps. */
LLVMValueRef row_first_lane(struct compiler *, exec_source, enum row_bits);
void row_write(struct compiler *, uint32_t d, enum row_bits, LLVMValueRef);
/* What the instruction computes; lanes that do not take part keep what they have. */
void row_put(struct compiler *, const struct exec_insn *, uint32_t d, enum row_bits, LLVMValueRef);
/* In code for some lanes, results of a line of arithmetic stand in all lanes up to its end, while c->deferring is set:
   LLVM sees through them, as it does not through blends. May the instruction be in such a line? The line ends: lanes
   that do not run have what they had. */
bool rows_may_defer(const struct compiler *, uint32_t k);
void rows_end_line(struct compiler *);
/* The lanes that take part, where they may not be all; else NULL. */
LLVMValueRef lanes_that_act(struct compiler *, const struct exec_insn *);
/* The lanes that act on the instruction, likewise; goes on in `behind` where there are none. */
LLVMValueRef lanes_or_behind(struct compiler *, const struct exec_insn *, LLVMBasicBlockRef behind);
/* A source predicate, which may be inverted, and lanes of one. */
LLVMValueRef predicate_read(struct compiler *, uint32_t at, uint32_t flip);
LLVMValueRef lanes_of(struct compiler *, LLVMValueRef predicate);
/* From a mask of lanes that is no comparison's result. AVX2 has no registers for masks, so each lane looks for its bit,
   in cells of the row's width. */
LLVMValueRef lanes_spread(struct compiler *, LLVMValueRef lanes, enum row_bits);
/* Where the row is in the frame, or in the warp. */
LLVMValueRef row_place(struct compiler *, exec_source);
/* The address of a row that a function may read: one in a variable is stored to the frame. */
LLVMValueRef row_in_frame(struct compiler *, exec_source);
/* Rows in variables have the NaNs that the machine has: all rows, or those that the instruction writes. */
void rows_settle(struct compiler *);
void rows_settle_written(struct compiler *, const struct exec_insn *);
/* No row in a variable is raw. */
void rows_forget_raw(struct compiler *);
/* May the row that the instruction writes be raw? */
bool row_may_be_raw(struct compiler *, const struct exec_insn *, enum row_bits);
/* Is a source raw, or a constant without NaNs? */
bool row_is_raw(struct compiler *, exec_source, enum row_bits);
/* Executes the instruction in the interpreter; the code ends if it is not behind it then. */
void rows_step(struct compiler *, const struct exec_insn *);
/* Ends the code of an instruction's usual case: in `step` the machine executes it. Goes on in `behind`. */
void rows_step_apart(struct compiler *, const struct exec_insn *, LLVMBasicBlockRef step, LLVMBasicBlockRef behind);

/* live.c: fills `live`, once the rows are collected. false: no memory. */
bool live_find(struct compiler *);
bool live_at(const struct compiler *, uint32_t k, uint32_t row);
/* Fills `lasts` and `awaited`. */
void live_apart(struct compiler *);

/* shapes.c. false: no memory. */
bool shapes_find(struct compiler *);
struct row_shape shape_of(const struct compiler *, exec_source, enum row_bits);
/* At the beginning of the code: other code has to be taken if a row is not in steps. */
void shapes_check(struct compiler *);
/* May the instruction be done for some lanes, before the others go on with these at `to`? Not if one number would have
   to stand for all lanes there. */
bool shapes_may_part(struct compiler *, uint32_t k, uint32_t to);
/* Does the instruction make a row of 64 bits of one of 32? Its code may leave the region. */
bool shapes_widen(const struct exec_insn *);
/* Is it a comparison of integers that gives the same in all lanes? Then lane 0 says all. */
bool shapes_all_equal(const struct compiler *, const struct exec_insn *);
/* Before and behind the code of the instruction. The second may write code. */
void shapes_begin(struct compiler *, uint32_t k);
void shapes_end(struct compiler *, uint32_t k);
/* Writes the code of an instruction for lane 0, if that says all. leave_to, lanewise: as in run_emit(). */
bool emit_in_steps(struct compiler *, uint32_t k, LLVMBasicBlockRef (*leave_to)(struct compiler *, uint32_t k),
                   bool (*lanewise)(struct compiler *, const struct exec_insn *));

/* ranges.c, for code for whole blocks. Before the loop around warps, of which these are to run: */
void ranges_begin(struct compiler *, LLVMValueRef first, LLVMValueRef end);
/* Goes on in `right` where it is known for all warps that the address is a multiple of `align`, and is in the span that
   is so many bytes behind the beginning of exec_block. */
void ranges_inside(struct compiler *, LLVMValueRef address, unsigned align, size_t span, LLVMBasicBlockRef right);
/* Goes on in `right` where it is known for all warps that the number, which is one of 32 bits that was extended to 64,
   and the one `apart` from it are numbers of 32 bits. In other code than that for whole blocks, goes on where it is. */
void ranges_fits(struct compiler *, LLVMValueRef first, int64_t apart, bool sign, LLVMBasicBlockRef right);
/* The place of lane 0 in its block, which is at this address. axis: 0 to 2. */
LLVMValueRef ranges_thread(struct compiler *, LLVMValueRef at, unsigned axis);
/* The place of the block in x. */
LLVMValueRef ranges_block(struct compiler *);
/* Marks a load from memory that never changes while the code runs, so that LLVM may move it. */
void ranges_invariant(const struct compiler *, LLVMValueRef load);
/* Once the code is written, and rows are values. */
void ranges_answer(struct compiler *);

/* places.c */
/* Fills the places of the region. false: it has too many. */
bool places_find(struct compiler *);
/* Blocks in which lanes arrive, and the variable of those that run. */
void places_begin(struct compiler *);
/* Writes the code by which lanes arrive at a place: lanes that wait there join them; if there are none at all, the next
   place has its turn. body: the block of the place's instruction. */
void places_arrive(struct compiler *, uint32_t place, LLVMBasicBlockRef body);
/* The block where lanes arrive at the instruction; NULL: it is no place. */
LLVMBasicBlockRef place_block(const struct compiler *, uint32_t k);
/* The block of the first place behind the instruction. */
LLVMBasicBlockRef place_behind(struct compiler *, uint32_t k);
/* Lanes wait at a place. */
void place_wait(struct compiler *, uint32_t k, LLVMValueRef lanes);
LLVMValueRef active_lanes(struct compiler *);
void set_active_lanes(struct compiler *, LLVMValueRef);

/* runs.c */
/* Does the region have runs? Fills target. */
bool runs_find(struct compiler *);
/* Writes the code of the run that begins with the instruction. Returns the instruction behind it, or this one if there
   is no run. leave_to: gives the block that ends the code before an instruction. lanewise: writes the code of an
   instruction that computes each lane by itself, and branches nowhere. */
uint32_t run_emit(struct compiler *, uint32_t k, LLVMBasicBlockRef (*leave_to)(struct compiler *, uint32_t k),
                  bool (*lanewise)(struct compiler *, const struct exec_insn *));
/* guess.c: what each lane of a row may have before instruction `end`, of a warp with 0 for all that is not known. */
void guess_row(struct compiler *, exec_source, enum row_bits, uint32_t end, uint64_t lanes[SG_LANES]);
/* run_loads.c: a store to shared memory, where rows are in the frame. false: it is none. */
bool run_store_emit(struct compiler *, const struct exec_insn *);
/* A row, or a constant where r is NULL, in a run. */
LLVMValueRef run_read(struct compiler *, struct row_variable *r, exec_source, enum row_bits);
void run_write(struct compiler *, struct row_variable *, LLVMValueRef);

/* emit.c: the whole function, in a module that has nothing else */
bool emit_region(struct compiler *, const char *name);

/* build.c */
/* A variable of the function. */
LLVMValueRef variable_new(struct compiler *, LLVMTypeRef, const char *name);
/* So many lanes in a row. */
void set_width(struct compiler *, unsigned width);
/* Once for each function. */
void build_begin(struct compiler *);
LLVMBasicBlockRef block_new(struct compiler *, const char *name);
/* Goes on in the first block if the condition holds, in the second, which is rare, if not. */
void branch_mostly(struct compiler *, LLVMValueRef condition, LLVMBasicBlockRef usual, LLVMBasicBlockRef rare);
LLVMValueRef constant_32(const struct compiler *, uint64_t);
LLVMValueRef constant_64(const struct compiler *, uint64_t);
LLVMValueRef address_of(struct compiler *, LLVMValueRef base, uint64_t offset);
/* The address of an instruction of the function. */
LLVMValueRef insn_address(struct compiler *, uint32_t k);
/* Calls a function of the machine. The code has no address in it, but how far the function is from `step`: it runs in
   each process that has the same build of the machine. */
LLVMValueRef call_machine(struct compiler *, LLVMTypeRef, uintptr_t function, LLVMValueRef *arguments);
#define MACHINE(function) ((uintptr_t)(function))
#define MACHINE_SYMBOL "machine"
LLVMValueRef load_from(struct compiler *, LLVMTypeRef, LLVMValueRef address, unsigned align);
LLVMValueRef store_to(struct compiler *, LLVMValueRef value, LLVMValueRef address, unsigned align);
/* Goes on in `behind` for no lane, in what is written next for all, in `rare` for some. */
void begin_some(struct compiler *, LLVMValueRef lanes, LLVMBasicBlockRef rare, LLVMBasicBlockRef behind);
/* Notes that the block has read shared memory, where that matters. */
void note_read(struct compiler *, const struct exec_insn *);
/* Vectors of equal length, one behind the other; their number is a power of two, and they are overwritten. */
LLVMValueRef vectors_join(struct compiler *, LLVMValueRef *, unsigned count);
/* So many elements of a vector. */
LLVMValueRef vector_part(struct compiler *, LLVMValueRef, unsigned first, unsigned count);
/* A value in each lane, of 32 or 64 bits. */
LLVMValueRef splat(struct compiler *, LLVMValueRef);
/* One value in the lower half of the lanes, another in the upper half. */
LLVMValueRef halves_of(struct compiler *, LLVMValueRef low, LLVMValueRef high);
/* Grows by `step` from the first lane of each half; from the two values. */
LLVMValueRef half_ramp(struct compiler *, LLVMValueRef first, unsigned step);
LLVMValueRef half_ramps(struct compiler *, LLVMValueRef low, LLVMValueRef high, unsigned step);
/* 16 lanes and 16 lanes as one row. */
LLVMValueRef halves_join(struct compiler *, const LLVMValueRef *half);
/* llvm.masked.load or .store, of a vector and a pointer to it. */
LLVMValueRef masked(struct compiler *, const char *name, LLVMTypeRef row, LLVMTypeRef result, LLVMValueRef *s);
/* Of f32: any NaN becomes 0x7fffffff. */
LLVMValueRef canonical(struct compiler *, LLVMValueRef bits);

/* late.c: before and behind the code of an instruction that the walk comes to in line. In between, arithmetic of f64
   may give NaNs of any bits if a stretch is open. */
void late_begin(struct compiler *, uint32_t k);
void late_end(struct compiler *, uint32_t k);

/* forms.c: the rows of arithmetic that has code here. calls: its code may call the function of softgpu/alu. */
struct arithmetic_form { enum row_bits d, s[4]; bool selects, calls; };
const struct arithmetic_form *arithmetic_form_of(const struct exec_insn *);

/* arithmetic.c: a function of rows. false: it is none that is known here. */
bool emit_arithmetic(struct compiler *, const struct exec_insn *);

/* functions.c: makes its variables, at the beginning of the code. */
void functions_begin(struct compiler *);
/* false: it is no function of softgpu/alu. */
bool emit_function(struct compiler *, const struct exec_insn *);
/* The row that the function of the instruction gives, in all lanes. */
LLVMValueRef function_row(struct compiler *, const struct exec_insn *, enum row_bits);
/* The row that the function gives, if one of these lanes (i1 each) takes part, which is rare; else `value`. */
LLVMValueRef function_where(struct compiler *, const struct exec_insn *, LLVMValueRef lanes, LLVMValueRef value);

/* exchanges.c: false: it is none, or not one that is known here. */
bool emit_exchange(struct compiler *, const struct exec_insn *);

/* access.c: false, as above. leave_to: as in run_emit(). */
bool emit_access(struct compiler *, const struct exec_insn *,
                 LLVMBasicBlockRef (*leave_to)(struct compiler *, uint32_t k));
/* vectors.c: an access of exec_is_global_vector(), from or to where the two halves of the warp are side by side. all:
   the row is written in all lanes; else in those that take part. */
void vector_load(struct compiler *, const struct exec_insn *, const LLVMValueRef *half, bool all);
void vector_store(struct compiler *, const struct exec_insn *, const LLVMValueRef *half);
/* Elements of `size` bytes, 4 or 8, one of each row, which are 8 or 16 bytes of each lane; those of one lane. */
struct lane_vectors { LLVMValueRef by[4]; unsigned size, bytes; };
void vectors_from_rows(struct compiler *, const LLVMValueRef *rows, unsigned size, unsigned elements,
                       struct lane_vectors *);
LLVMValueRef vectors_of_lane(struct compiler *, const struct lane_vectors *, unsigned lane);
/* From vectors of 128 bits to rows of `lanes` elements of 32 bits: each vector has a lane's four elements, or two
   lanes' pairs (elements: 2). */
void vectors_to_rows(struct compiler *, LLVMValueRef *vectors, unsigned lanes, unsigned elements, LLVMValueRef *rows);

/* locals.c */
/* The row that the load or store moves its element to or from: of so many bytes for each lane. */
static inline enum row_bits local_bits(uint8_t bytes) { return bytes == 8 ? ROW_64 : ROW_32; }
/* Loads what all accesses need, at the beginning of the code of a warp. */
void locals_begin(struct compiler *);
/* false: it is none. */
bool emit_local(struct compiler *, const struct exec_insn *);
/* An address of local memory as a value, or one that goes into a window. false: it is neither. */
bool emit_address(struct compiler *, const struct exec_insn *);

/* fixed.c: false: it is none. */
bool emit_fixed(struct compiler *, const struct exec_insn *);

/* bytes.c: writes the instructions from k on that load what lies side by side in each lane, and those between, if they
   are some. Returns the instruction behind them, or k. emit: writes an instruction that is no branch. */
uint32_t bytes_emit(struct compiler *, uint32_t k, void (*emit)(struct compiler *, uint32_t k));

/* gather.c: elements of so many bytes, each of which is at an offset of 32 bits behind `base`. */
LLVMValueRef gather(struct compiler *, LLVMValueRef base, LLVMValueRef offsets, unsigned bytes);
/* 16 bytes of each lane, likewise: four rows of elements of 4 bytes, or two of 8. */
void gather_wide(struct compiler *, LLVMValueRef base, LLVMValueRef offsets, unsigned bytes, LLVMValueRef *rows);
/* Elements are words of 32 bits, all of which are in the 128 bytes from `begin` on. For AVX-512. */
LLVMValueRef gather_around(struct compiler *, LLVMValueRef begin, LLVMValueRef offsets);
/* Like gather(), for all lanes. With AVX2, where all elements are words of 32 bits in one line of the cache, the code
   loads that line once. The builder stands in another block afterwards. */
LLVMValueRef gather_near(struct compiler *, LLVMValueRef base, LLVMValueRef offsets, unsigned bytes);

/* parameters.c: false: it is no load that is known to be of parameters. */
bool emit_parameter(struct compiler *, const struct exec_insn *);

/* atomics.c: false: not one that is known here. */
bool emit_atomic(struct compiler *, const struct exec_insn *);

/* matrix.c: false: it is no instruction of matrices, or one that the interpreter executes. */
bool emit_matrix(struct compiler *, const struct exec_insn *);

/* lanes.c: makes its variables, at the beginning of the code. */
void lanes_begin(struct compiler *);
/* Writes an access by these lanes, of which there are some; NULL: by all. Goes on in `behind`, or in `step`, where the
   interpreter has to do it. */
void lanes_access(struct compiler *, const struct exec_insn *, LLVMValueRef lanes, LLVMBasicBlockRef step,
                  LLVMBasicBlockRef behind);
/* Where the lanes are in shared memory goes to lane_places. Goes on in `step` where one of them is wrong. */
void lanes_find_shared(struct compiler *, const struct exec_insn *, LLVMValueRef lanes, LLVMBasicBlockRef step);
/* Where the lanes are in global memory goes to lane_places, likewise. rights: which they need (enum sg_rights). */
void lanes_find_global(struct compiler *, const struct exec_insn *, LLVMValueRef lanes, unsigned rights,
                       LLVMBasicBlockRef step);
/* A loop over these lanes, of which there are some: `body` writes its code. */
void lanes_each(struct compiler *, LLVMValueRef lanes,
                void (*body)(struct compiler *, const struct exec_insn *, LLVMValueRef lane), const struct exec_insn *);
/* The lowest of these lanes, of which there are some, as a number of 64 bits. */
LLVMValueRef lanes_first(struct compiler *, LLVMValueRef lanes);
/* A lane's cell of one of the variables, whose cells have so many bytes: its address. */
LLVMValueRef lanes_cell(struct compiler *, LLVMValueRef variable, LLVMValueRef lane, unsigned bytes);
/* The address of the variable. */
LLVMValueRef lanes_variable(struct compiler *, LLVMValueRef variable);

#endif
