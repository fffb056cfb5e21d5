/*
 * jit.h: what the machine (softgpu/exec/jit.c) asks of the compiler (softgpu/jit/), which is a library of its own,
 * libsoftgpu-jit.so: without it, and where it refuses, the interpreter runs.
 *
 * Unit of compilation is a region: instructions that lanes can reach from one of them, its head. A region has code of
 * two kinds. That for a full warp does what straight.c does with the same instructions: it goes on by itself as long as
 * all 32 lanes do the same, takes branches backward from the budget, and calls the machine for every instruction and
 * every case that it does not know.
 *
 * That for some lanes goes on where lanes part. It does what warp.c does with groups of one frame: of all lanes in the
 * region, those at the lowest instruction run, and the others wait in exec_warp.waiting, at one of its places: the
 * instructions where branches lead, those behind branches, and those outside that the region goes on to.
 *
 * A kernel without loops and barriers has code of a third kind, for whole blocks: a loop over full warps, each of which
 * does what the first kind of code does from the kernel's beginning to its end. A warp that begins there is not set up
 * before something else than this code has to run it (softgpu/exec/whole.c). Where there are barriers, the loop runs
 * once for each phase between them (softgpu/exec/phases.h), and phases may have loops.
 */
#ifndef SOFTGPU_JIT_H
#define SOFTGPU_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exec_block;
struct exec_insn;
struct exec_warp;
struct sg_jit_region;

/* For a warp with 32 active lanes: the instruction to go on at; NULL: as behind a handler, the warp says where.
   For some lanes, which wait at places of the region: NULL. Then pc and mask are those of the lanes to go on with, and
   the others wait. */
typedef const struct exec_insn *sg_jit_code(struct exec_warp *, const struct exec_insn *head);
/* For a block, whose warps from `first` to before `end` are full, and begin. Returns the first that has not come to its
   end, but stands before w->pc, or has failed; `end`: there is none. Then the block becomes the next one in x, up to
   `more` times, of which warps from 0 to before `end` begin; its ctaid says where that ends. With phases, exec_phases
   says where warps begin, and then where they are: `end` if no warp can go on without the machine; more is not used. */
typedef uint64_t sg_jit_whole(struct exec_block *, uint64_t first, uint64_t end, uint64_t more,
                              const struct exec_insn *head);

/* Numbers of instructions, ascending. */
enum { SG_JIT_PLACES = 256 };
struct sg_jit_places { uint32_t count, at[SG_JIT_PLACES]; };

struct sg_jit_wish {
    const struct exec_insn *insns;    /* of the function; they and their constants stay until the region is freed */
    uint32_t count, head;
    bool avx512;                      /* x86-64-v4, else x86-64-v3 */
    bool united;                      /* threads of a warp are side by side in x, and no others in y and z, and they
                                         have done the same since they started */
    bool entry;                       /* the function is the kernel itself */
    bool may_stop;                    /* the end of the process stops the calling thread for good, if it is in here */
    bool counted;                     /* the code counts its instructions in exec_warp.compiled */
    struct sg_jit_places *places;     /* not NULL: code for some lanes, whose places are filled in */
    bool whole;                       /* code for whole blocks: it is a sg_jit_whole */
    bool phases;                      /* of kernels with barriers: warps run from one to the next */
    /* begin: of code for whole blocks: sets the warp up, as the interpreter wants it; lanes that are not among these
       stand before `others`. find: fills in the block's
       span; false: so many bytes at the address may not be touched so (enum sg_rights). */
    void (*begin)(struct exec_warp *, uint32_t lanes, const struct exec_insn *others);
    bool (*find)(struct exec_block *, uint32_t span, uint64_t address, uint32_t bytes, uint32_t rights);
    /* Compiled code looks next time in the window where this place of global memory is. */
    void (*near)(struct exec_warp *, uint64_t address);
    /* Executes one instruction for these lanes, whatever it is. false: they do not all stand behind it; then the code
       ends. */
    bool (*step)(struct exec_warp *, const struct exec_insn *, uint32_t lanes);
};

/* Where the code is from: it was compiled; the process had it, for another copy of the kernel; the store had it. */
enum sg_jit_source { SG_JIT_MADE, SG_JIT_SHARED, SG_JIT_STORED, SG_JIT_SOURCES };
struct sg_jit_made { sg_jit_code *code; enum sg_jit_source source; };

/* Thread-safe. NULL: it cannot be, and why says the reason, which begins with SG_JIT_DEFECT if it is the compiler's. */
#define SG_JIT_DEFECT "a defect of the compiler: "
typedef struct sg_jit_region *sg_jit_compile(const struct sg_jit_wish *, struct sg_jit_made *, char *why, size_t size);
/* Does not wait for what is being compiled. */
typedef void sg_jit_free(struct sg_jit_region *);
/* Before anything is compiled: compiled code is kept in this folder, and found there. false: it is not, and why says
   the reason. */
typedef bool sg_jit_keep(const char *folder, char *why, size_t size);

/* The one symbol that the library exports. build: EXEC_JIT_BUILD of the library, whose offsets into the
   machine's structures must be those of this machine. */
struct sg_jit {
    uint64_t build;
    sg_jit_compile *compile;
    sg_jit_free *free;
    sg_jit_keep *keep;
};
#define SG_JIT_SYMBOL "softgpu_jit"

#endif
