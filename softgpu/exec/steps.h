/*
 * steps.h: a run of instructions as a list scheduler sees it: steps, what each reads and writes, and what waits for
 * what. steps.c makes them, rounds.c says which runs are loops and what becomes of the registers of one when several
 * rounds of it run at a time, and eager.c orders the steps. See pressure.h.
 */
#ifndef SOFTGPU_EXEC_STEPS_H
#define SOFTGPU_EXEC_STEPS_H

#include "softgpu/exec/pressure.h"

enum { ROUNDS = 4 }; /* of a loop that run at a time */

/* The loading of a pointer that is a parameter, and the instruction that makes an address of it. */
enum step_role { STEP_WHOLE, STEP_POINTER, STEP_ADDRESS };

/* Where an instruction reads or writes memory: bytes from … to - 1 behind the address in a register. */
struct step_place {
    bool known;
    uint8_t spaces; /* a bit for each of global, shared and local memory */
    uint32_t base;
    int64_t from, to;
};

struct exec_step {
    uint32_t instruction;
    uint8_t role, round;
    uint32_t *reads, read_count, *writes, write_count;
    uint32_t first_edge, waits_for; /* PRESSURE_NONE: none; how many that have not been placed */
    unsigned height, when;          /* of the chain that waits for it; when its operands are there */
    struct step_place place;
};
struct exec_edge {
    uint32_t to, next, latency;
};

/* What becomes of a register in a round of a loop. A register that a round makes for itself has a number for each
   round: its own, and registers more for each later round. */
enum round_kind {
    ROUND_SAME,    /* the loop does not write it */
    ROUND_CARRIED, /* the next round needs it */
    ROUND_STEPS,   /* that, and it changes by a constant: where it is an address, the next round's is an offset away */
    ROUND_MADE_OF, /* it is made of such a one, so it has an offset, too */
    ROUND_OWN,
};

struct eager {
    const struct exec_values *v;
    uint32_t registers;     /* of the function, and 1 */
    bool *pointer;          /* per instruction: it adds to a pointer that is a parameter */
    uint8_t *kinds;         /* per register, enum round_kind: of the loop that is looked at */
    uint32_t rounds, round; /* 1: no loop; the round that steps are made for */
    struct exec_step *steps;
    uint32_t count;
    struct exec_edge *edges;
    uint32_t edge_count, edge_room;
    uint32_t *lists, list_used; /* of registers: the steps' reads and writes */
    uint32_t *writer, *readers; /* per register: the last step that wrote it, and the reads since (a list) */
    struct {
        uint32_t step, next;
    } * uses;
    uint32_t use_count;
    uint32_t *uses_left; /* per register: reads that are still to come */
    bool *alive;
    uint32_t *ready, ready_count;
    bool failed;
};

static inline unsigned step_cost(const struct eager *e, uint32_t reg) { return e->v->cost[reg % e->registers]; }

/* steps.c */
bool exec_steps_is(const struct ptx_instruction *, const char *const *opcodes); /* a list that NULL ends */
bool exec_steps_has(const struct ptx_instruction *, const char *modifier_begins);
bool exec_steps_leaves(const struct ptx_instruction *); /* its block */
/* Makes the steps of blocks begin … end - 1. In any case, exec_steps_free frees them. false: no memory. */
bool exec_steps_make(struct eager *, uint32_t begin, uint32_t end);
void exec_steps_free(struct eager *);

/* rounds.c. Is the run a loop of a kind that ptxas runs several rounds of at a time, to load for all of them first? */
bool exec_rounds_suit(const struct eager *, uint32_t begin, uint32_t end);
/* Fills kinds. */
void exec_rounds_kinds(struct eager *, uint32_t begin, uint32_t end);
/* Does the instruction of the loop stand in another round than the one that steps are made for, but not in this? */
bool exec_rounds_skip(const struct eager *, uint32_t instruction);

#endif
