/*
 * ptx.h: what the PTX reader gives to the executor: one linked module as a tree.
 *
 * softgpu/ptx/ reads PTX text (ISA 1.0 to 9.x), checks its form, links several translation units
 * (.extern, .visible, .weak, .common), resolves names to indices, and knows nothing of execution.
 * softgpu/exec/ turns a function's instructions into its own form when that function is first asked for,
 * and is the only place that knows what an instruction means. So an instruction that nobody can execute
 * is still read, and is an error of its function alone.
 *
 * All memory of a module lives in one arena, freed by ptx_module_free. Strings are NUL-terminated.
 * Follows: PTX ISA, chapters "Syntax", "State Spaces, Types, and Variables", "Directives".
 */
#ifndef SOFTGPU_PTX_H
#define SOFTGPU_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptx_type {
    PTX_NONE, PTX_PRED,
    PTX_B8, PTX_B16, PTX_B32, PTX_B64, PTX_B128,
    PTX_U8, PTX_U16, PTX_U32, PTX_U64,
    PTX_S8, PTX_S16, PTX_S32, PTX_S64,
    PTX_F16, PTX_F16X2, PTX_BF16, PTX_BF16X2, PTX_F32, PTX_F32X2, PTX_F64,
    PTX_TEXREF, PTX_SAMPLERREF, PTX_SURFREF,
    PTX_TYPE_COUNT
};
size_t ptx_type_size(enum ptx_type);          /* bytes; 0 for NONE and PRED */
const char *ptx_type_name(enum ptx_type);     /* "u32" */

enum ptx_space {
    PTX_SPACE_GENERIC, PTX_SPACE_REG, PTX_SPACE_CONST, PTX_SPACE_GLOBAL, PTX_SPACE_LOCAL,
    PTX_SPACE_PARAM, PTX_SPACE_SHARED
};

enum ptx_linkage { PTX_LINK_LOCAL, PTX_LINK_VISIBLE, PTX_LINK_WEAK, PTX_LINK_EXTERN, PTX_LINK_COMMON };

/* An address inside an initialiser: bytes [offset, offset+size) = address of symbol + addend. */
struct ptx_relocation {
    size_t offset;
    unsigned size;                    /* 4 or 8; smaller for mask()/byte-wise forms */
    unsigned shift;                   /* bits to shift the address right first (mask operator) */
    bool generic;                     /* generic(symbol) */
    bool is_function;
    uint32_t symbol;                  /* index into module->variables, or module->functions */
    int64_t addend;
};

/* What the initialiser of a texture or sampler reference says; opaque.c. The numbers are those that txq gives. */
enum ptx_address {
    PTX_ADDRESS_WRAP, PTX_ADDRESS_MIRROR, PTX_ADDRESS_CLAMP_OGL, PTX_ADDRESS_CLAMP_TO_EDGE, PTX_ADDRESS_CLAMP_TO_BORDER
};
enum { PTX_GIVEN_NORMALIZED = 1, PTX_GIVEN_UNNORMALIZED = 2, PTX_GIVEN_FILTER = 4, PTX_GIVEN_ADDRESS_0 = 8 };
struct ptx_opaque {
    uint8_t given;                    /* PTX_GIVEN_…; ADDRESS_0 shifted by a dimension */
    uint8_t normalized, unnormalized; /* normalized_coords, force_unnormalized_coords */
    uint8_t linear;                   /* filter_mode */
    uint8_t address[3];               /* enum ptx_address */
    uint8_t unused;
};

struct ptx_variable {
    const char *name;
    enum ptx_space space;
    enum ptx_type type;
    unsigned vector;                  /* 1, 2 or 4 */
    unsigned align;                   /* bytes */
    bool is_array, unsized;           /* unsized: extern .shared x[] (dynamic shared memory), or .param x[] */
    uint64_t size;                    /* bytes, all elements; an opaque parameter of a kernel has none */
    enum ptx_linkage linkage;
    bool managed;                     /* .attribute(.managed) */
    bool assumed;                     /* .extern, and taken for the definition: see link.c */
    bool is_pointer;                  /* .ptr on a kernel parameter */
    uint64_t offset;                  /* kernel/function parameters: offset in the parameter block;
                                         a .reg parameter of a defined function: its index in function->registers */
    const uint8_t *init;              /* size bytes, or NULL for zeros; of an opaque type: a struct ptx_opaque */
    const struct ptx_relocation *relocations;
    size_t relocation_count;
};

struct ptx_register { const char *name; enum ptx_type type; unsigned vector; };

enum ptx_operand_kind {
    PTX_OP_REGISTER,      /* reg; .negated for !p; component selects .x.y.z.w of a vector register, or -1 */
    PTX_OP_SPECIAL,       /* %tid.x …: name without '%' in text, component 0..3 or -1 */
    PTX_OP_INTEGER,       /* integer: the value, sign-extended to 64 bits; is_unsigned for a U suffix */
    PTX_OP_FLOAT,         /* bits: 0f → f32 pattern, 0d or decimal → f64 pattern; float_bits says which */
    PTX_OP_VARIABLE,      /* address of a variable + integer: scope says whose */
    PTX_OP_MEMORY,        /* [base + integer]: base by register (reg), variable (scope, index) or absolute (neither) */
    PTX_OP_VECTOR,        /* {a, b, c, d}: elements */
    PTX_OP_LABEL,         /* index of the instruction to go to */
    PTX_OP_LABEL_TABLE,   /* .branchtargets: elements are labels */
    PTX_OP_FUNCTION,      /* index into module->functions */
    /* .callprototype, .calltargets: index into function->prototypes; .calltargets: elements too */
    PTX_OP_PROTOTYPE,
    PTX_OP_SINK,          /* _ */
    PTX_OP_LIST           /* ( … ) of a call; texture [tex, sampler, {coords}] is a LIST in brackets */
};

enum ptx_scope {
    PTX_SCOPE_MODULE,     /* module->variables[index] */
    PTX_SCOPE_FUNCTION,   /* function->variables[index]: .local, .shared, .param, .reg-less names declared inside */
    PTX_SCOPE_PARAM,      /* function->params[index] */
    PTX_SCOPE_RETURN      /* function->returns[index] */
};

/* %r.b2 is PTX_BYTE_0 + 2, %r.h1 is PTX_HALF_0 + 1, %r.b3210: text */
enum { PTX_BYTE_0 = 4, PTX_HALF_0 = 8, PTX_SELECTOR = 10 };

/* A call is written with up to four operands: LIST of returns (absent when the function returns nothing), FUNCTION or
   REGISTER, LIST of arguments (may be absent), and for calls through a register a PROTOTYPE, or a VARIABLE that is a
   table of functions. A label behind the last instruction has the index instruction_count. */
struct ptx_operand {
    enum ptx_operand_kind kind;
    bool negated;                     /* !p, or -r (video instructions) */
    bool is_unsigned;
    bool has_register, has_variable;  /* MEMORY */
    bool bracketed;                   /* LIST written as [ … ] */
    /* -1: none; 0..3: .x .y .z .w (or .r .g .b .a); of video instructions: PTX_BYTE_0 + n, PTX_HALF_0 + n,
     * PTX_SELECTOR */
    int8_t component;
    uint8_t float_bits;               /* 32 or 64 */
    uint8_t scope;                    /* enum ptx_scope */
    uint32_t reg;                     /* index into function->registers */
    uint32_t index;                   /* variable, label's instruction, function, prototype */
    int64_t integer;                  /* value or offset */
    uint64_t bits;
    const char *text;                 /* SPECIAL; component PTX_SELECTOR: "b3210"; otherwise NULL */
    const struct ptx_operand *elements;
    uint32_t element_count;
    const struct ptx_operand *second; /* p|q: the second destination; NULL */
};

/* "setp.lt.and.f32": opcode "setp", modifiers "lt", "and", "f32", in the order written, without dots
   ("::" stays inside: "shared::cta", "L1::no_allocate"). */
struct ptx_instruction {
    const char *opcode;
    const char *const *modifiers;
    uint32_t modifier_count;
    int32_t guard;                    /* predicate register, -1: none */
    bool guard_negated;
    const struct ptx_operand *operands;
    uint32_t operand_count;
    uint32_t line;                    /* in the PTX text */
    uint32_t source_file, source_line; /* of the last .loc before it; 0: none. See ptx_source_file */
};

struct ptx_prototype {                /* signature of a function or of an indirect call */
    const struct ptx_variable *returns; uint32_t return_count;
    const struct ptx_variable *params;  uint32_t param_count;
    bool noreturn;
};

struct ptx_function {
    const char *name;
    bool is_entry;
    bool defined;                     /* has a body; else declared only (vprintf, malloc … or unresolved) */
    bool noreturn;
    bool address_taken; /* an initialiser holds its address, or an instruction other than a call of it */
    enum ptx_linkage linkage;
    struct ptx_prototype signature;   /* its variables carry .offset */
    uint32_t param_size;              /* of the whole parameter block, bytes */
    uint32_t max_ntid[3], req_ntid[3], min_ncta_per_sm, max_nreg;       /* 0: not given */
    uint32_t req_cluster[3], max_cluster_rank;                          /* 0: not given */
    bool explicit_cluster, blocks_are_clusters;
    const struct ptx_register *registers; uint32_t register_count;
    const struct ptx_variable *variables; uint32_t variable_count;      /* of its scopes; names may repeat */
    const struct ptx_instruction *instructions; uint32_t instruction_count;
    const struct ptx_prototype *prototypes; uint32_t prototype_count;
    uint32_t unit;                    /* which translation unit it came from */
};

struct ptx_file {
    uint32_t unit, number;
    const char *name;
};

struct ptx_module {
    unsigned version_major, version_minor;     /* the highest of its units */
    unsigned target;                           /* sm number, highest */
    bool texmode_independent;                  /* tex and tld4 name a sampler, too */
    const struct ptx_variable *variables; uint32_t variable_count;      /* module scope */
    const struct ptx_function *functions; uint32_t function_count;
    const struct ptx_file *files;
    uint32_t file_count; /* of .file */
    struct ptx_arena *arena;
    struct ptx_later *later;          /* of ptx_module_read_later */
};

/* One text of a link. text need not be NUL-terminated. name appears in messages. */
/* max_registers: the bound of kernels that say nothing of registers and threads, as ptxas -maxrregcount; 0: none. */
struct ptx_source { const char *text; size_t size; const char *name; unsigned max_registers; };

/* Reads and links. Returns 0 and *out, or -1 and what failed, with unit and line, in log (NUL-terminated,
   cut to log_size). Names without linkage (static in C) of different units stay apart. An .extern function that
   nothing defines stays undefined (.defined is false) and is a matter of who calls it: libcudadevrt, for one, names
   functions of the driver. An .extern variable that nothing defines is an error unless it is dynamic shared memory
   or the text is the only one: a whole program, where the driver takes the declaration for the definition.
   Hostile input never crashes it, and takes memory and time linear in size. Thread-safe. */
int ptx_module_read(const struct ptx_source *, size_t count, struct ptx_module **out, char *log, size_t log_size);
/* Reads a module without the bodies, for callers that need names, sizes, parameters and initial values only: several
   times faster. Functions have .defined and no instructions; mistakes inside bodies stay unseen. */
int ptx_module_read_outline(const struct ptx_source *, size_t count, struct ptx_module **out, char *log,
                            size_t log_size);
/* The same as ptx_module_read, with the same errors, but the tree of a body is made when somebody asks for it: a
   defined function has no registers, variables, instructions and prototypes before ptx_function_read has returned. The
   texts are not needed any more after the call. Takes a fraction of the time and memory. */
int ptx_module_read_later(const struct ptx_source *, size_t count, struct ptx_module **out, char *log, size_t log_size);
/* Makes the body of functions[index]; asked twice, or for a function without a body, it does nothing. 0, or -1 when
   there is no memory for it, which log says. Thread-safe, also while others read bodies that were made before. */
int ptx_function_read(struct ptx_module *, uint32_t index, char *log, size_t log_size);
void ptx_module_free(struct ptx_module *);
bool ptx_is_builtin(const char *function_name);
/* The name of a source file that an instruction of the function names; NULL: none. */
const char *ptx_source_file(const struct ptx_module *, const struct ptx_function *, uint32_t number);

#endif
