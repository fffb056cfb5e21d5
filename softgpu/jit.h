/*
 * jit.h: what the machine (softgpu/exec/jit.c) asks of the compiler (softgpu/jit/), which is a library of its own,
 * libsoftgpu-jit.so: without it, and where it refuses, the interpreter runs.
 *
 * Unit of compilation is a region: instructions that a full warp can reach from one of them, its head. The code of a
 * region does what straight.c does with the same instructions: it goes on by itself as long as all 32 lanes do the
 * same, takes branches backward from the budget, and calls the machine for every instruction and every case that it
 * does not know.
 */
#ifndef SOFTGPU_JIT_H
#define SOFTGPU_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exec_insn;
struct exec_warp;
struct sg_jit_region;

/* Of a warp with 32 active lanes. The instruction to go on at; NULL: as behind a handler, the warp says where. */
typedef const struct exec_insn *sg_jit_code(struct exec_warp *);

struct sg_jit_wish {
    const struct exec_insn *insns;    /* of the function; they and their constants stay until the region is freed */
    uint32_t count, head;
    bool avx512;                      /* x86-64-v4, else x86-64-v3 */
    /* Executes one instruction of a full warp, whatever it is. false: the warp does not stand behind it with all lanes;
       then the code ends. */
    bool (*step)(struct exec_warp *, const struct exec_insn *);
};

/* Thread-safe. NULL: it cannot be, and why says the reason. */
typedef struct sg_jit_region *sg_jit_compile(const struct sg_jit_wish *, sg_jit_code **, char *why, size_t size);
typedef void sg_jit_free(struct sg_jit_region *);

/* The one symbol that the library exports. build: EXEC_JIT_BUILD of the library, whose offsets into the
   machine's structures must be those of this machine. */
struct sg_jit {
    uint64_t build;
    sg_jit_compile *compile;
    sg_jit_free *free;
};
#define SG_JIT_SYMBOL "softgpu_jit"

#endif
