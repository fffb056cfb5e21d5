/*
 * reader.h: what the files of the PTX reader share. Nobody outside softgpu/ptx/ includes it.
 *
 * One struct ptx_reader exists for one call of ptx_module_read and is used by one thread. It owns everything
 * that grows; results go to `arena`, which becomes the module's, the rest to `scratch`.
 *
 * Names. Every identifier of the text is interned once (names.c), so comparing names is comparing pointers.
 * A name carries the chain of what it is bound to, innermost scope first; closing a scope takes its bindings
 * off again. So looking a name up costs O(1), whatever the nesting.
 *
 * Linking. Functions and variables of module scope live in slots that all units share, numbered when first
 * seen: a name with linkage has one slot for the whole link, a local one has a slot per unit. A later, better
 * definition replaces what the slot holds (link.c). Operands hold slot numbers, so nothing is rewritten at the end.
 *
 * Bodies. A module may be read so that the bodies of its functions are only checked (reader->checking) and read when
 * they are asked for (later.c). The check is the reader itself, with results that are thrown away; in front of it
 * scan.c goes over the instructions that compilers write most.
 *
 * Errors. The first one is written to the log and makes the lexer give TOKEN_END from then on; every function
 * that can fail returns false (or NULL), after reader_error was called by whoever saw the mistake.
 *
 * Time and memory are linear in the text: `.reg .b32 %r<1000000>` creates registers when they are used; array
 * sizes are numbers; initialised bytes and nesting have limits.
 */
#ifndef SOFTGPU_PTX_READER_H
#define SOFTGPU_PTX_READER_H

#include <locale.h>

#include "softgpu/ptx/arena.h"
#include "softgpu/ptx/ptx.h"

enum {
    READER_MAX_SCOPES      = 128,     /* nested { } of a function */
    READER_MAX_NESTING     = 64,      /* of expressions, operands and initialiser braces: recursion on the C stack */
    READER_MAX_DIMENSIONS  = 16,
    READER_MAX_MODIFIERS   = 64,
    READER_MAX_RANGE_PREFIX = 255,    /* characters of r in r<10> */
    READER_MAX_VARIABLES_OF_RANGES = 65536,   /* of a module: x<10> of .local and the like */
};
#define READER_MAX_OBJECT   (UINT64_C(1) << 40)        /* bytes of one variable */
#define READER_MAX_INIT     (UINT64_C(256) << 20)      /* initialised bytes of a module */
#define READER_MAX_TEXT     (UINT64_C(1) << 30)        /* bytes of one text: lines and counts fit in 32 bits */

/* ---- names.c ---- */

enum keyword {
    KEYWORD_NONE,
    /* module */
    KEYWORD_VERSION, KEYWORD_TARGET, KEYWORD_ADDRESS_SIZE, KEYWORD_FILE, KEYWORD_LOC, KEYWORD_SECTION, KEYWORD_PRAGMA,
    KEYWORD_ALIAS, KEYWORD_ENTRY, KEYWORD_FUNC,
    /* linkage and attributes */
    KEYWORD_EXTERN, KEYWORD_VISIBLE, KEYWORD_WEAK, KEYWORD_COMMON, KEYWORD_ALIGN, KEYWORD_ATTRIBUTE, KEYWORD_PTR,
    KEYWORD_MANAGED, KEYWORD_UNIFIED,
    /* spaces */
    KEYWORD_REG, KEYWORD_CONST, KEYWORD_GLOBAL, KEYWORD_LOCAL, KEYWORD_PARAM, KEYWORD_SHARED, KEYWORD_TEX, KEYWORD_SREG,
    /* vectors and types: in the order of enum ptx_type */
    KEYWORD_V2, KEYWORD_V4, KEYWORD_V8,
    KEYWORD_FIRST_TYPE,
    KEYWORD_LAST_TYPE = KEYWORD_FIRST_TYPE + PTX_TYPE_COUNT - 1,
    /* of functions */
    KEYWORD_MAXNTID, KEYWORD_REQNTID, KEYWORD_MINNCTAPERSM, KEYWORD_MAXNCTAPERSM, KEYWORD_MAXNREG, KEYWORD_NORETURN,
    KEYWORD_REQNCTAPERCLUSTER, KEYWORD_MAXCLUSTERRANK, KEYWORD_EXPLICITCLUSTER, KEYWORD_BLOCKSARECLUSTERS,
    KEYWORD_ABI_PRESERVE, KEYWORD_ABI_PRESERVE_CONTROL,
    KEYWORD_BRANCHTARGETS, KEYWORD_CALLPROTOTYPE, KEYWORD_CALLTARGETS,
};

enum binding_kind {
    BINDING_VARIABLE,                 /* index: slot of module scope */
    BINDING_FUNCTION,                 /* index: slot */
    BINDING_LOCAL,                    /* index: function->variables */
    BINDING_PARAM, BINDING_RETURN,    /* index */
    BINDING_REGISTER,                 /* index */
    BINDING_RANGE,                    /* the prefix of r<10>: range */
    BINDING_LABEL,                    /* index: instruction */
    BINDING_TABLE,                    /* .branchtargets: elements */
    BINDING_PROTOTYPE,                /* .callprototype, .calltargets: prototype, elements */
};

struct reader_range { uint32_t count; enum ptx_type type; unsigned vector; };

struct reader_binding {
    struct reader_name    *name;
    struct reader_binding *outer;     /* what it hides */
    struct reader_binding *next;      /* of the same scope */
    enum binding_kind      kind;
    uint32_t               depth;     /* 0: unit; 1: a function and its parameters; deeper: inner blocks */
    uint32_t               index;
    uint32_t               declared;  /* of depth 0: how many names were bound there before */
    union {
        struct reader_range range;
        struct {
            const struct ptx_operand *elements;
            uint32_t count;
            const struct ptx_prototype *prototype;
            bool used;
        } table;
    };
};

struct reader_opcode { const char *opcode; const char *const *modifiers; uint32_t modifier_count; bool is_call; };

struct reader_name {
    const char            *text;      /* in the result arena, NUL-terminated */
    uint32_t               size;
    uint16_t               keyword;   /* enum keyword, for a word after a dot */
    uint8_t                linked;    /* has a slot that all units share: 1 variable, 2 function */
    uint32_t               slot;
    uint64_t               hash;
    struct reader_binding *binding;
    struct reader_name    *passing;   /* the next of names->passing */
    struct reader_opcode  *opcode;    /* when the name is a whole dotted opcode that was seen before */
};

/* Where to find the range of registers whose prefix has these characters behind its '%'. */
struct reader_prefix { uint64_t characters; const struct reader_name *range; };
enum { READER_PREFIXES = 64, READER_HASH_PIECE = 256 };

struct reader_names {
    struct reader_name **table;       /* open addressing, a power of two, at most half full */
    size_t               size, count;
    unsigned             shift;       /* a hash shifted so far right is an index */
    struct reader_name  *passing;     /* those of the body being checked */
    uint32_t             key[READER_HASH_PIECE / 4 + 4];       /* random: names cannot be made to collide */
};

/* ---- lexer.c ---- */

enum token_kind {                     /* below 256: the character itself */
    TOKEN_END = 0,
    TOKEN_IDENTIFIER = 256, TOKEN_DIRECTIVE, TOKEN_INTEGER, TOKEN_FLOAT, TOKEN_STRING,
    TOKEN_SHIFT_LEFT, TOKEN_SHIFT_RIGHT, TOKEN_LESS_EQUAL, TOKEN_GREATER_EQUAL, TOKEN_EQUAL, TOKEN_NOT_EQUAL,
    TOKEN_AND, TOKEN_OR,
};

struct reader_token {
    int                 kind;
    uint32_t            line;
    const char         *start, *end;
    struct reader_name *name;         /* identifier; directive: without the dot */
    uint64_t            bits;         /* integer, float */
    uint8_t             float_bits;   /* 32 or 64 */
    bool                is_unsigned;  /* integer with a U suffix, or above the signed range */
};

/* ---- the reader ---- */

struct reader_vector { void *items; size_t count, capacity, taken; };   /* taken: bytes, of the budget */

struct reader_scope {
    struct reader_binding *bindings;
    struct reader_fixup   *fixups;    /* label references not resolved yet */
};

struct reader_fixup {
    struct reader_fixup *next;
    struct reader_name *name;
    struct ptx_operand *operand;
    uint32_t line;
};

/* A relocation waits for the end of its unit: an initialiser may name what is declared later. */
struct reader_relocation { struct ptx_relocation relocation; struct reader_name *name; uint32_t line; };

struct reader_variable { struct ptx_variable variable; bool defined; };
/* A body that was checked and not read. */
struct reader_body { const char *start; size_t size; uint32_t line, declared; };
struct reader_function {
    struct ptx_function function;
    struct reader_body body;
    bool address_taken;
};

struct ptx_reader {
    struct ptx_arena    *arena, *scratch;
    struct ptx_arena    *results;     /* what the tree is made in: arena, or `passing` while a body is checked */
    struct ptx_arena    *passing;
    char                *log;
    size_t               log_size;
    bool                 failed;
    bool                 outline;     /* bodies are not read */
    bool                 later;       /* bodies are checked now, and read when they are asked for */
    bool                 checking;    /* the body being read is one of those */
    bool                 unfit;       /* and must be read now: see reader_read_now */
    bool                 plain;       /* no name in this body looks like a member of a range and is none: see scan.c */
    uint64_t             operations;  /* steps taken: tests check that they grow linearly */
    uint64_t             init_bytes;
    uint32_t             members;     /* variables made by x<10> */

    char                *text;        /* of which bodies are read later; owned. NULL: there is none */
    size_t               text_room;   /* bytes that it takes of the budget */
    const char          *unit_name;
    unsigned             unit_registers;  /* max_registers of the unit's ptx_source */
    uint32_t             unit;
    const char          *cursor, *end;
    uint32_t             line;
    struct reader_token  token;
    int                  previous;    /* kind of the token before */
    locale_t             c_locale;    /* for decimal numbers; made when the first one is seen */

    struct reader_names  names;
    struct reader_scope  scopes[READER_MAX_SCOPES];
    uint32_t             depth;       /* the current scope */
    struct reader_binding *free_bindings;
    struct reader_fixup  *free_fixups;
    uint32_t             range_depth[READER_MAX_SCOPES];   /* how many ranges each scope declares */
    uint32_t             deepest_range;
    uint32_t             declared;    /* names bound at depth 0 so far */
    uint32_t             horizon;     /* those bound there later are not known to the body being read */
    struct reader_prefix prefixes[READER_PREFIXES];

    struct reader_vector variables;   /* struct reader_variable: slots */
    struct reader_vector functions;   /* struct reader_function: slots */
    struct reader_vector relocations; /* struct reader_relocation of the variable being read */
    struct reader_vector pending;     /* struct reader_pending of the unit */
    struct reader_vector aliases;     /* struct reader_alias of the unit */
    struct reader_vector bytes;       /* of the initialiser being read */
    struct reader_vector files;       /* struct ptx_file */

    /* of the function being read */
    uint32_t source_file, source_line; /* of the last .loc */
    struct reader_vector registers, locals, instructions, prototypes, operands, params;

    unsigned             version_major, version_minor, target;
    bool texmode_independent, any_texmode_independent; /* of this unit; of one of them */
};

/* reader.c */
struct reader_options { bool outline, later; uint64_t *operations; };
int ptx_module_read_with(const struct ptx_source *, size_t count, struct ptx_module **, char *log, size_t log_size,
                         const struct reader_options *);
bool reader_error(struct ptx_reader *, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));                          /* false */
bool reader_read_now(struct ptx_reader *);                          /* true: a check ends, and the body is read */
void *reader_alloc(struct ptx_reader *, size_t count, size_t item); /* result arena; NULL after an error */
void *reader_scratch(struct ptx_reader *, size_t size);
void reader_drop_lists(struct ptx_reader *);                        /* frees what they hold */
/* Makes room for so many items. False: no memory. */
bool reader_grow(struct reader_vector *, size_t capacity, size_t item);
void *reader_push(struct ptx_reader *, struct reader_vector *, size_t item);      /* a zeroed new last item, or NULL */
const void *reader_keep(struct ptx_reader *, const struct reader_vector *, size_t first,
                        size_t item); /* items from first on, copied to the arena */

/* names.c */
bool names_init(struct ptx_reader *);
void names_free(struct ptx_reader *);
struct reader_name *names_intern(struct ptx_reader *, const char *text, size_t size);
struct reader_name *names_find(struct ptx_reader *, const char *text, size_t size);   /* NULL when never seen */
void names_forget_passing(struct ptx_reader *);                   /* the names of the body that was checked */
struct reader_binding *names_bind(struct ptx_reader *, struct reader_name *, enum binding_kind, uint32_t depth);
struct reader_binding *names_lookup(struct ptx_reader *, struct reader_name *);   /* also makes registers of ranges */
bool names_in_known_range(struct ptx_reader *,
                          const struct reader_name *); /* looks like a member of a declared range */
bool names_member_of_scope(struct ptx_reader *, const struct reader_name *); /* a range of the current scope has it */
bool names_open_scope(struct ptx_reader *);
void names_close_scope(struct ptx_reader *);
void names_note_prefix(struct ptx_reader *, const struct reader_name *range);
/* The place of the range that has these characters, the last one lowest, behind its '%'. */
static inline struct reader_prefix *names_prefix_slot(struct ptx_reader *reader, uint64_t characters)
{
    return &reader->prefixes[(characters * UINT64_C(0x9e3779b97f4a7c15)) >> 58];
}

/* lexer.c */
bool lexer_start(struct ptx_reader *, const char *text, size_t size);
void lexer_next(struct ptx_reader *);
bool lexer_accept(struct ptx_reader *, int kind);
bool lexer_expect(struct ptx_reader *, int kind, const char *where);
bool lexer_accept_word(struct ptx_reader *, const char *identifier);
bool lexer_at_label(struct ptx_reader *);                         /* the current token is a name, and a colon follows */
bool lexer_opcode(struct ptx_reader *,
                  struct reader_name **); /* the current identifier with all that is dotted to it */
bool lexer_skip_block(struct ptx_reader *);                       /* the current token is {: goes behind its } */
const char *lexer_describe(const struct ptx_reader *, char buffer[64]);
static inline enum keyword lexer_keyword(const struct ptx_reader *reader)
{
    return reader->token.kind == TOKEN_DIRECTIVE ? (enum keyword)reader->token.name->keyword : KEYWORD_NONE;
}

/* expression.c */
struct reader_value { bool is_float, is_unsigned; uint8_t float_bits; uint64_t bits; };
bool expression_read(struct ptx_reader *, struct reader_value *);
bool expression_read_integer(struct ptx_reader *, struct reader_value *);   /* a float is an error */
bool expression_read_sum(struct ptx_reader *, struct reader_value *);       /* up to + and -: offsets */

/* declare.c, initialiser.c: variables */
struct reader_declaration {           /* what stands before the names */
    enum ptx_linkage linkage;
    enum ptx_space   space;
    enum ptx_type    type;
    unsigned         vector, align;   /* align 0: natural */
    bool             managed, is_pointer, has_space;
};
bool declare_qualifiers(struct ptx_reader *, struct reader_declaration *);
bool declare_variable(struct ptx_reader *, const struct reader_declaration *, struct ptx_variable *,
                      struct reader_name **, uint64_t dimensions[READER_MAX_DIMENSIONS], unsigned *dimension_count);
bool declare_module_variables(struct ptx_reader *, const struct reader_declaration *);
bool declare_local_variables(struct ptx_reader *, const struct reader_declaration *);
bool declare_registers(struct ptx_reader *, const struct reader_declaration *);
bool initialiser_read(struct ptx_reader *, struct ptx_variable *, const uint64_t *dimensions, unsigned dimension_count);
bool opaque_read(struct ptx_reader *, struct ptx_variable *); /* of a texture, sampler or surface reference */

/* function.c */
bool function_read(struct ptx_reader *, enum ptx_linkage, bool is_entry);
bool function_read_loc(struct ptx_reader *);
bool function_skip_pragma(struct ptx_reader *);

bool function_read_body(struct ptx_reader *, struct ptx_function *);   /* the current token is its opening brace */
void function_leave_scopes(struct ptx_reader *);

/* scan.c */
bool scan_instructions(struct ptx_reader *);                      /* went over at least one */

/* later.c */
bool later_start(struct ptx_reader *, struct ptx_source *);
bool later_keep(struct ptx_reader *, struct ptx_module *);
void later_drop_text(struct ptx_reader *);
struct ptx_reader *later_end(struct ptx_later *);                 /* the reader, for the caller to free */

/* instruction.c, operand.c */
bool instruction_read(struct ptx_reader *);
bool operand_read(struct ptx_reader *, struct ptx_operand *, const struct reader_opcode *, unsigned nesting);
bool operand_keep(struct ptx_reader *, size_t first, const struct ptx_operand **,
                  uint32_t *count); /* moves the operands from first on to the arena */
bool operand_resolve(struct ptx_reader *, struct ptx_operand *, struct reader_binding *);      /* of a label or table */

/* link.c */
struct reader_pending { uint32_t variable; const uint8_t *init; struct reader_relocation *relocations; size_t count; };
struct reader_alias { struct reader_name *name, *target; uint32_t line; };
bool link_variable(struct ptx_reader *, struct reader_name *, const struct ptx_variable *, bool defined, uint32_t *slot,
                   bool *keep);
bool link_function(struct ptx_reader *, struct reader_name *, const struct ptx_function *, uint32_t *slot, bool *keep);
struct ptx_function *link_function_at(struct ptx_reader *, uint32_t slot);
void link_take_address(struct ptx_reader *, uint32_t slot); /* of a function: a pointer to it may exist */
void link_set_body(struct ptx_reader *, uint32_t slot, const struct reader_body *);
bool link_finish_unit(struct ptx_reader *);
struct ptx_module *link_finish(struct ptx_reader *);

/* module.c */
bool module_read_unit(struct ptx_reader *);

#endif
