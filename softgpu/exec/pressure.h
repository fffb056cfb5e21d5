/*
 * pressure.h: how many registers the kernel would have on a GPU.
 *
 * A GPU's driver compiles PTX with ptxas, and programs choose their launches by the registers that it took
 * (CU_FUNC_ATTRIBUTE_NUM_REGS, occupancy). Here nothing is compiled, so the number is an estimate, made from three:
 *
 *   narrow  the most registers that are alive at one place, if what costs a GPU nothing is left out: copies, constants,
 *           parameters (they are read from constant memory), values that are the same for all threads (a GPU has other
 *           registers for those), and addresses that are another register and a constant                  (values.c)
 *   plain   the same if nothing is left out
 *   eager   as narrow, but with the instructions in an order in which a GPU waits least: loads first         (eager.c)
 *
 * ptxas takes what the eager order asks for, up to the number with which all threads of an SM have room. A kernel that
 * cannot do with so many (narrow) may have more, up to the number with which the next fewer blocks of it have room.
 * needs.c puts them together; its weights are calibrated against ptxas (docs/measurements/registers.md). A 64-bit
 * register counts as two, a predicate as none.
 *
 * Where machine code of the kernel lies beside the PTX, it says how many registers ptxas gave it for another GPU, or
 * for this one. That is nearer than any estimate (needs.c: exec_registers_near).
 */
#ifndef SOFTGPU_EXEC_PRESSURE_H
#define SOFTGPU_EXEC_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "softgpu/engine.h"
#include "softgpu/exec/flow.h"

/* A function's registers as a GPU would see them, and where they are alive. */
struct exec_values {
    const struct ptx_function *f;
    struct exec_flow flow;
    uint8_t *cost;               /* per register: how many of a GPU's; 0: none */
    uint32_t *same;              /* per register: which other one has its value, or itself */
    int64_t *offset;             /* per register: what an address has more than that one */
    bool *left_out;              /* per instruction: a GPU has none for it */
    uint32_t *reads, *read_at;   /* instruction i reads registers reads[read_at[i]] … reads[read_at[i + 1] - 1] */
    uint32_t *writes, *write_at; /* likewise; predicates, and registers with a cost, each once */
    /* Of those that are alive between blocks: */
    uint32_t *crossing, crossing_count; /* their registers */
    uint32_t *crossing_of;              /* per register its place there, or PRESSURE_NONE */
    uint64_t *in, *out;                 /* per block a set of them: alive at its beginning, at its end */
    uint32_t words;                     /* of a set */
};
static const uint32_t PRESSURE_NONE = UINT32_MAX;

/* values.c. plain: nothing is left out. false: no memory, or too large; values_free frees what there is. */
bool exec_values_build(struct exec_values *, const struct ptx_function *, bool plain);
void exec_values_free(struct exec_values *);
/* Registers that the instruction takes for itself while it runs, such as the steps of a division. */
unsigned exec_values_scratch(const struct ptx_instruction *);
/* Does it read the memory of the program, for which a GPU waits long? */
bool exec_values_loads(const struct ptx_instruction *);

/* pressure.c: the most that are alive at one place, with the instructions in the order of the text. */
unsigned exec_pressure(const struct exec_values *);

/* eager.c: the same in the eager order; not more than `enough`. *loops: the same for the loop that asks for most, when
   several of its rounds run at a time, as ptxas arranges it where the number of rounds is counted. */
unsigned exec_pressure_eager(const struct exec_values *, unsigned enough, unsigned *loops);

/* needs.c */
enum exec_measure {
    MEASURE_ONE,
    MEASURE_EAGER,      /* up to 12, where each register counts more than */
    MEASURE_EAGER_MORE, /* those from there to 40 */
    MEASURE_PLAIN,      /* likewise */
    MEASURE_PLAIN_MORE,
    MEASURE_LOOPS,    /* what loops ask for more than eager */
    MEASURE_BARRIERS, /* 1: there is one */
    MEASURE_LOG_SIZE, /* of the number of instructions */
    MEASURES
};
/* Of a kernel that needs more than those with which all threads of an SM have room. */
enum exec_large_measure { LARGE_ONE, LARGE_NARROW, LARGE_EAGER, LARGE_PLAIN, LARGE_MEASURES };
struct exec_measures {
    double of[MEASURES], large[LARGE_MEASURES];
    unsigned needed;           /* that it must have */
    unsigned threads;          /* of a block, as the function declares it; 0: it does not */
    unsigned instructions;     /* that are not left out */
    bool calls, calls_unknown; /* functions of the module; others, or by pointer */
};
/* false: no memory, or too large to look at. */
bool exec_registers_measure(const struct ptx_module *, const struct ptx_function *, struct exec_measures *);
/* The registers of the function; .maxnreg and .minnctapersm are not looked at. threads_per_sm: how many a GPU of its
   kind runs at a time. */
unsigned exec_registers_weigh(const struct exec_measures *, unsigned threads_per_sm);
/* What machine code says that was made for a GPU of another kind, corrected. `estimate`: without it;
   `needed`: of exec_measures. */
unsigned exec_registers_near(const struct sg_machine_code *, unsigned estimate, unsigned needed,
                             unsigned threads_per_sm);

#endif
