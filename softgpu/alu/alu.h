/*
 * alu.h: arithmetic on rows, a row being one register of the 32 lanes of a warp.
 *
 * The executor (softgpu/exec/) keeps registers as rows; softgpu/alu/ knows what each arithmetic, logic,
 * comparison, selection and conversion instruction of PTX does to rows, and nothing else: no memory, no
 * control flow, no warps. Opcode, type and modifiers are decoded orthogonally.
 *
 * Cells of a row:  8- and 16-bit types and 32-bit types: uint32_t[32] (8/16-bit values zero-extended; the bits above
 * are zero in every row that a function reads or writes); 64-bit: uint64_t[32]; 128-bit: uint64_t[64] (low, high
 * of lane 0, of lane 1 …); predicate: one uint32_t, bit i for lane i. Rows are 64-byte aligned.
 * A function computes all 32 lanes, whatever garbage the inactive ones hold (so it never traps: x/0 and
 * INT_MIN/-1 give what the hardware gives); the executor blends the result under the active mask when
 * that is not full (carry and predicates too). d may be the same row as a source whose cells have the same
 * size; otherwise rows do not overlap. p and q may be where s[] or in came from.
 * Predicate operands of and.pred and the like are rows: s[i] points to the uint32_t.
 * A register wider than the type that an instruction names (cvt.s8.s32 into a 16-bit register, say) is the
 * executor's: sg_alu_resize gives what to do before (wide source) and after (wide destination).
 */
#ifndef SOFTGPU_ALU_H
#define SOFTGPU_ALU_H

#include <stddef.h>
#include <stdint.h>
#include "softgpu/ptx/ptx.h"

enum { SG_LANES = 32, SG_MAX_SOURCES = 5 };

struct sg_rows {
    void       *d;                    /* destination row; NULL where the destination is only predicates */
    const void *s[SG_MAX_SOURCES];    /* source rows, in the order of the operands */
    uint32_t   *carry;                /* CC.CF of each lane: bit i; read and written by add.cc, addc … */
    uint32_t   *p, *q;                /* destination predicates of setp (p|q; q may be NULL), testp */
    uint32_t    in;                   /* source predicate: setp's c, selp's c */
    /* lop3's table and the like, folded at decode: the operand immediate_source, else sg_alu.immediate */
    uint64_t    immediate;
};
typedef void sg_alu_function(const struct sg_rows *);

enum sg_cell { SG_CELL_NONE, SG_CELL_PRED, SG_CELL_32, SG_CELL_64, SG_CELL_128 };

struct sg_alu {
    sg_alu_function *function;
    enum sg_cell  destination;        /* of operand 0; PRED: written through p (and q) */
    enum ptx_type destination_type;   /* an executor that loads immediates needs types */
    uint32_t      source_count;       /* operands after the destination(s) that are rows */
    enum sg_cell  source[SG_MAX_SOURCES];
    enum ptx_type source_type[SG_MAX_SOURCES];   /* how to turn an immediate operand into a row */
    uint32_t grouped; /* operand 1 is a vector of so many of the sources; 0: each has its operand */
    /* index among all operands of the one that goes to `in`, -1: none (not a row then) */
    int           predicate_source;
    int           immediate_source;   /* index among all operands of the one that goes to `immediate`, -1: none */
    uint64_t      immediate;          /* what goes to sg_rows.immediate when immediate_source is -1 */
    bool          reads_carry, writes_carry;
    bool          second_predicate;   /* lop3.or.b32 d|p: operand 0's second goes to p; operand 0 itself may be _ */
};

/* Finds what carries out the instruction. 0; or -1 with a reason in why ("no .sat for u64", "unknown modifier
   'xyz'") when it is not an arithmetic instruction of alu's or not one that PTX has. Thread-safe. */
int sg_alu_find(const struct ptx_instruction *, struct sg_alu *, char *why, size_t why_size);

/* Copies a row of cells of type `from` to one of type `to`: cut, or extended with the sign of `from`. NULL if
   the cells are the same already, or if from or to is no integer or bit type up to 64 bits. d and s[0] only. */
sg_alu_function *sg_alu_resize(enum ptx_type from, enum ptx_type to);

#endif
