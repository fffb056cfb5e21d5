/*
 * jit.h: regions: places in a function from which a compiler (softgpu/jit.h) may have made code.
 *
 * Decoding puts an insn with the handler exec_run_region before each loop and behind it, at the beginning of a
 * function, in the midst of long code, behind barriers and calls, and where a warp may have halted (decode.c, block.c),
 * if this process may compile. straight.c counts how often a full warp comes by, and enters the code once there is
 * some. Some lanes have code of their own, which goes on where lanes part (softgpu/jit.h). A thread compiles what is
 * run often (FLYT_SOFTGPU_JIT=on). With `always` whoever runs something for the first time compiles it
 * at once, for tests. What was compiled is kept on disk for the next process (softgpu/jit/store.h), where
 * FLYT_SOFTGPU_CACHE says.
 */
#ifndef SOFTGPU_EXEC_JIT_H
#define SOFTGPU_EXEC_JIT_H

#include "softgpu/exec/exec.h"
#include "softgpu/exec/straight.h"
#include "softgpu/jit.h"

struct exec_compiled {
    _Atomic(sg_jit_code *) code;
    atomic_uint runs;                 /* until it is compiled */
    atomic_bool asked;                /* the compiler knows of it */
    const struct exec_region *region;
    bool compiling;                   /* under jit.c's lock, with all that follows */
    struct sg_jit_region *made;
    struct exec_compiled *next_wish;
};
struct exec_region {
    struct exec_compiled full[2];     /* for all 32 lanes; [1]: of warps that are united */
    struct exec_compiled some;        /* for some */
    struct exec_compiled whole[2];    /* for blocks: a sg_jit_whole; [1]: of warps that are in line */
    atomic_bool phases;               /* of the latter: the kernel has barriers (phases.h) */
    struct sg_jit_places places;      /* of `some`, once it has code */
    const struct exec_function *function;
    uint32_t head;
    struct exec_region *next;         /* of the kernel's */
};

/* May this process compile? The first call reads the settings, and opens the library if they ask for it. */
bool exec_jit_on(void);
/* Regions that are interpreted because the compiler has made something of them that LLVM refuses. */
uint64_t exec_jit_defects(void);
/* For FLYT_STATS=1, else nothing: what was compiled, how long that took, and what compiled code has executed, a text
   without end of line at a time. */
void exec_jit_tell(void (*say)(const char *));
/* Of an insn of EXEC_STRAIGHT_REGION that has no code: counts a run. The code, if there is some now. */
sg_jit_code *exec_region_count(struct exec_warp *, const struct exec_insn *, bool some);
/* The code for whole blocks of a kernel, of whose entry the region is the first, for blocks whose warps are in line or
   not; NULL: there is none, and the block that has asked is counted. */
sg_jit_whole *exec_region_whole(struct exec_region *, const struct exec_function *entry, bool in_line);
/* The code of the region at `head` has ended before the instruction i. true: lanes part there, and code for some lanes
   has gone on. */
bool exec_region_part(struct exec_warp *, const struct exec_insn *head, const struct exec_insn *i);
/* A kernel goes: its regions are in no queue any more, and their code is freed. Then end() is called with the kernel:
   at once, or, if one of its regions is being compiled, by the thread that compiles, once that is done. */
void exec_regions_free(struct exec_region *, void (*end)(sg_kernel *), sg_kernel *);

/* Differs between builds whose headers do: a process that runs while Flyt is upgraded has the old machine, and finds
   the new library. softgpu/jit/room.mk hashes the headers. Fuzzers, which never open the library, are built without. */
#ifndef SG_JIT_HEADERS
#define SG_JIT_HEADERS 0
#endif
#define EXEC_JIT_BUILD ((uint64_t)SG_JIT_HEADERS)

exec_handler exec_run_region; /* for some lanes */

/* The code for full warps of an insn of EXEC_STRAIGHT_REGION, if there is some. */
static inline sg_jit_code *exec_region_ready(const struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_region *r = i->extra;
    return atomic_load_explicit(&r->full[w->united].code, memory_order_acquire);
}

static inline sg_jit_code *exec_region_code(struct exec_warp *w, const struct exec_insn *i)
{
    sg_jit_code *code = exec_region_ready(w, i);
    return code ? code : exec_region_count(w, i, false);
}

#endif
