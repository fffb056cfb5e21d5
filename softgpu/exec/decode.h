/*
 * decode.h: how the decode*.c files make instructions. One decoder per function being decoded.
 *
 * A PTX instruction becomes one insn, with insns before it that put odd operands (special registers, addresses of
 * local variables, registers of another width) into temporary rows, and insns behind it that widen a result. The
 * temporaries of an instruction are free again at the next.
 */
#ifndef SOFTGPU_EXEC_DECODE_H
#define SOFTGPU_EXEC_DECODE_H

#include "softgpu/exec/exec.h"

struct exec_decoder {
    sg_kernel *kernel;
    const struct ptx_module *module;
    const struct ptx_function *f;
    uint32_t index;                         /* of f */
    struct exec_function *out;
    struct exec_insn *insns;
    uint32_t count, capacity;
    uint32_t *register_at;                  /* row or predicate of each register */
    uint32_t *first_insn;                   /* per PTX instruction, and one behind the last */
    uint32_t temp_base, temp_next, temp_most;
    const struct ptx_instruction *in;       /* the one being decoded */
    uint32_t at;                            /* its index */
    char *log;
    size_t log_size;
    bool failed;
    bool regions;                           /* it is decoded for a compiler, too */
};

/* Every decode function returns 0, or -1 after decode_error. */
typedef int decode_function(struct exec_decoder *);
struct decode_entry { const char *opcode; decode_function *decode; };
decode_function *decode_find(const char *opcode);

int decode_error(struct exec_decoder *, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool decode_has(const struct exec_decoder *, const char *modifier);
bool decode_any(const struct exec_decoder *, const char *const *modifiers);
/* The n-th modifier from the end that is a type, n = 0 the last; PTX_NONE: none. */
enum ptx_type decode_type(const struct exec_decoder *, unsigned n);
enum ptx_type decode_type_of(const char *modifier);
enum ptx_space decode_space(const struct exec_decoder *, bool *given);

/* Appends. put: as it is. put_guarded: under the instruction's guard, for insns that only write rows or memory.
   put_control: for those that end, divide or park groups: their lanes are parted from the rest first. */
int decode_put(struct exec_decoder *, struct exec_insn);
int decode_put_guarded(struct exec_decoder *, struct exec_insn);
int decode_put_control(struct exec_decoder *, struct exec_insn);

enum sg_cell decode_cell(enum ptx_type);
uint32_t decode_temp(struct exec_decoder *);
uint64_t decode_immediate(const struct ptx_operand *, enum ptx_type);
/* A row that holds the operand as a value of that type. */
int decode_source(struct exec_decoder *, const struct ptx_operand *, enum ptx_type, exec_source *);
int decode_constant(struct exec_decoder *, uint64_t value, enum sg_cell, exec_source *);
/* The row of a destination register and the type that it was declared with; a sink gives a temporary. */
int decode_destination(struct exec_decoder *, const struct ptx_operand *, enum ptx_type, uint32_t *row,
                       enum ptx_type *declared);
int decode_predicate(struct exec_decoder *, const struct ptx_operand *, uint32_t *at, uint32_t *flip);
int decode_predicate_destination(struct exec_decoder *, const struct ptx_operand *, uint32_t *at);
/* Register of an operand, vector registers component by component. */
int decode_register(struct exec_decoder *, const struct ptx_operand *, uint32_t *row, enum ptx_type *);
/* [address] into insn's s[0], offset, flags and space. */
int decode_memory(struct exec_decoder *, const struct ptx_operand *, enum ptx_space, struct exec_insn *);
/* Where a variable lies: an address of its space; *frame: counted from the frame's local memory. */
int decode_variable(struct exec_decoder *, uint8_t scope, uint32_t index, enum ptx_space *, uint64_t *address,
                    bool *frame);
/* Elements of {…}, or the operand alone, or the components of a vector register. */
uint32_t decode_elements(struct exec_decoder *, const struct ptx_operand *, const struct ptx_operand *out[],
                         struct ptx_operand *scratch, uint32_t most);

/* decode tables of the op_*.c files' counterparts, ended by a NULL opcode */
extern const struct decode_entry decode_data[], decode_memory_table[], decode_control[], decode_warp[],
    decode_barrier[], decode_atomic[], decode_matrix[], decode_mbarrier_table[], decode_copy[], decode_texture_table[],
    decode_tile[], decode_cancel[], decode_wgmma_table[], decode_tensormap_table[], decode_absent[];

/* op_warp.c: bar.warp.sync; and what goes before an .aligned instruction of the whole warp */
int decode_warp_barrier(struct exec_decoder *);
int decode_converge(struct exec_decoder *);

/* op_control.c: a branch without a guard to a PTX instruction */
int decode_jump(struct exec_decoder *, uint32_t to);
/* Calls pass parameters in local memory. A function that declares some as registers takes them from there at its
   beginning, and gives results there before each return. Nothing for other functions. */
int decode_take_registers(struct exec_decoder *);
int decode_give_registers(struct exec_decoder *);

/* op_copy.c: st.bulk */
int decode_bulk_store(struct exec_decoder *);

/* op_mbarrier.c */
int decode_copies_arrive(struct exec_decoder *);
/* The end of a lane's copy of so many bytes, at the mbarrier at that generic address. false: a fault */
bool exec_bytes_complete(struct exec_warp *, const struct exec_insn *, unsigned lane, uint64_t address, uint64_t bytes);
/* Puts what st.async and red.async do behind their access: `bytes` are complete at the mbarrier of that operand.
   Nothing without the modifier that names one. */
int decode_store_complete(struct exec_decoder *, uint32_t operand, uint64_t bytes);

/* op_tensor.c: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor */
int decode_tensor_copy(struct exec_decoder *);

/* op_atomic.c: cp.reduce.async.bulk. The operation and type that the modifiers name, into kind, type and size */
int decode_reduction(struct exec_decoder *, struct exec_insn *);
/* the operation alone, where the type is known later; and whether there is such a one on that type */
int decode_reduction_kind(struct exec_decoder *, struct exec_insn *);
bool exec_reduces(const struct exec_insn *);
/* and doing it with each of the values at `from`, atomically for each. */
void exec_reduce(struct exec_warp *, const struct exec_insn *, void *to, const void *from, unsigned bytes);

/* op_check.c: before and behind each instruction of a kernel that is watched (softgpu/check.h) */
int decode_check_before(struct exec_decoder *);
int decode_check_after(struct exec_decoder *);

/* op_alu.c */
int decode_arithmetic(struct exec_decoder *);

/* --- handlers that several decode files use --- */
exec_handler exec_run_guarded, exec_run_part, exec_run_copy32, exec_run_copy64, exec_run_copy128, exec_run_special,
             exec_run_explicit_cluster, exec_run_local_address, exec_run_alu_row, exec_run_return,
             exec_run_halt, exec_run_branch, exec_run_branch_if;
int exec_special_find(const char *name, int component, unsigned *kind, bool *wide);

#endif
