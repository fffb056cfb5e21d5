/*
 * Functions: signatures, performance directives, the statements of a body.
 *
 * Scopes: parameters and the names of the body's outermost block are at depth 1, inner blocks deeper. Bodies are read
 * with a loop, not by recursion. References to labels wait on the scope that holds them; when a scope closes, those
 * whose label it declares are settled and the rest move outwards, so an inner label hides an outer one of the same name
 * even if it comes later. Follows: PTX ISA, "Kernel and Function Directives", "Control Flow Directives".
 */
#include <string.h>

#include "softgpu/ptx/reader.h"

enum { DEPTH_BODY = 1 };

/* ---- signatures ---- */

static uint64_t align_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) / align * align;
}

/* ( … ): parameters or return values. Names are bound later, when there is a body.
   .offset of a .reg parameter is its register: those come first in the body, in order. */
static bool read_params(struct ptx_reader *reader, const struct ptx_variable **params, uint32_t *count, uint64_t *size,
                        uint32_t *registers)
{
    uint64_t offset = 0;
    reader->params.count = 0;
    if (!lexer_expect(reader, '(', "before the parameters"))
        return false;
    while (reader->token.kind != ')') {
        struct reader_declaration declaration;
        struct reader_name *name;
        uint64_t dimensions[READER_MAX_DIMENSIONS];
        unsigned dimension_count;
        uint32_t line = reader->token.line;
        struct ptx_variable *param = reader_push(reader, &reader->params, sizeof *param);
        if (!param || !declare_qualifiers(reader, &declaration) ||
            !declare_variable(reader, &declaration, param, &name, dimensions, &dimension_count))
            return false;
        if (param->space == PTX_SPACE_REG) {
            param->offset = (*registers)++;
        } else if (param->type >= PTX_TEXREF) { /* takes no room: no launch of CUDA's can pass one */
            param->offset = offset;
            param->size = 0;
        } else if (param->space == PTX_SPACE_PARAM) {
            param->offset = align_up(offset, param->align);
            offset = param->offset + param->size;
        } else {
            return reader_error(reader, line, "'%s': parameters are .param or .reg", param->name);
        }
        if (offset > INT32_MAX)
            return reader_error(reader, line, "the parameters take more than 2 GiB");
        if (!lexer_accept(reader, ','))
            break;
    }
    *count = (uint32_t)reader->params.count;
    *size = offset;
    *params = reader_keep(reader, &reader->params, 0, sizeof(struct ptx_variable));
    return *params && lexer_expect(reader, ')', "after the parameters");
}

struct signature { struct ptx_prototype prototype; struct reader_name *name; uint64_t param_size; uint32_t registers; };

/* [(returns)] name [(parameters)]; the name may be _ in prototypes. */
static bool read_signature(struct ptx_reader *reader, struct signature *signature)
{
    struct ptx_prototype *prototype = &signature->prototype;
    uint64_t ignored;
    if (reader->token.kind == '(' &&
        !read_params(reader, &prototype->returns, &prototype->return_count, &ignored, &signature->registers))
        return false;
    signature->name = reader->token.name;
    if (!lexer_expect(reader, TOKEN_IDENTIFIER, "as the function's name"))
        return false;
    return reader->token.kind != '(' || read_params(reader, &prototype->params, &prototype->param_count,
                                                    &signature->param_size, &signature->registers);
}

static bool read_numbers(struct ptx_reader *reader, uint32_t *numbers, unsigned most)
{
    unsigned count = 0;
    do {
        struct reader_value value;
        uint32_t line = reader->token.line;
        if (count == most)
            return reader_error(reader, line, "more than %u numbers after the directive", most);
        if (!expression_read_integer(reader, &value))
            return false;
        if (value.bits > INT32_MAX)
            return reader_error(reader, line, "%llu is too large here", (unsigned long long)value.bits);
        numbers[count++] = (uint32_t)value.bits;
    } while (lexer_accept(reader, ','));
    for (; count < most; count++)
        numbers[count] = 1;
    return true;
}

/* Directives before the name or between the parameters and the body. Stops at anything else. */
static bool read_directives(struct ptx_reader *reader, struct ptx_function *function)
{
    for (;;) {
        enum keyword keyword = lexer_keyword(reader);
        uint32_t ignored;
        bool good = true;
        if (keyword == KEYWORD_ATTRIBUTE) {
            struct reader_declaration declaration;
            if (!declare_qualifiers(reader, &declaration))
                return false;
            if (declaration.has_space || declaration.type != PTX_NONE)
                return reader_error(reader, reader->token.line, "a declaration where a function's body is expected");
            continue;
        }
        if (keyword != KEYWORD_PRAGMA && (keyword < KEYWORD_MAXNTID || keyword > KEYWORD_ABI_PRESERVE_CONTROL))
            return true;
        lexer_next(reader);
        switch (keyword) {
        case KEYWORD_PRAGMA:            good = function_skip_pragma(reader); break;
        case KEYWORD_MAXNTID:           good = read_numbers(reader, function->max_ntid, 3); break;
        case KEYWORD_REQNTID:           good = read_numbers(reader, function->req_ntid, 3); break;
        case KEYWORD_MINNCTAPERSM:      good = read_numbers(reader, &function->min_ncta_per_sm, 1); break;
        case KEYWORD_MAXNREG:           good = read_numbers(reader, &function->max_nreg, 1); break;
        case KEYWORD_MAXNCTAPERSM:      good = read_numbers(reader, &ignored, 1); break;
        case KEYWORD_REQNCTAPERCLUSTER: good = read_numbers(reader, function->req_cluster, 3); break;
        case KEYWORD_MAXCLUSTERRANK:    good = read_numbers(reader, &function->max_cluster_rank, 1); break;
        case KEYWORD_EXPLICITCLUSTER:   function->explicit_cluster = true; break;
        case KEYWORD_BLOCKSARECLUSTERS: function->blocks_are_clusters = true; break;
        case KEYWORD_NORETURN:          function->noreturn = true; break;
        default:                        good = read_numbers(reader, &ignored, 1); break;   /* .abi_preserve … */
        }
        if (!good)
            return false;
    }
}

/* The rest of label: .callprototype [(returns)] _ (parameters) [.noreturn] … ; */
static bool function_read_prototype(struct ptx_reader *reader, struct ptx_prototype *prototype,
                                    struct reader_name **name)
{
    struct signature signature = { 0 };
    struct ptx_function directives = { 0 };
    if (!read_directives(reader, &directives) || !read_signature(reader, &signature) ||
        !read_directives(reader, &directives))
        return false;
    *prototype = signature.prototype;
    prototype->noreturn = directives.noreturn;
    *name = signature.name;
    return lexer_expect(reader, ';', "after the prototype");
}

/* ---- statements ---- */

/* .loc file line column [, function_name label [+ number], inlined_at file line column]; no semicolon */
bool function_read_loc(struct ptx_reader *reader)
{
    for (unsigned number = 0;;) {
        for (; reader->token.kind == TOKEN_INTEGER; number++) {
            if (number == 0)
                reader->source_file = (uint32_t)reader->token.bits;
            else if (number == 1)
                reader->source_line = (uint32_t)reader->token.bits;
            lexer_next(reader);
        }
        if (!lexer_accept(reader, ','))
            return !reader->failed;
        if (lexer_accept_word(reader, "function_name")) {
            if (!lexer_expect(reader, TOKEN_IDENTIFIER, "after function_name"))
                return false;
            if ((lexer_accept(reader, '+') || lexer_accept(reader, '-')) &&
                !lexer_expect(reader, TOKEN_INTEGER, "in .loc"))
                return false;
        } else if (!lexer_accept_word(reader, "inlined_at")) {
            char buffer[64];
            return reader_error(reader, reader->token.line, "unexpected %s in .loc", lexer_describe(reader, buffer));
        }
    }
}

bool function_skip_pragma(struct ptx_reader *reader)
{
    do {
        if (!lexer_expect(reader, TOKEN_STRING, "after .pragma"))
            return false;
    } while (lexer_accept(reader, ','));
    return lexer_expect(reader, ';', "after .pragma");
}

/* Operands separated by commas, for .branchtargets and .calltargets. */
static bool read_targets(struct ptx_reader *reader, const struct ptx_operand **elements, uint32_t *count)
{
    static const struct reader_opcode table = { .opcode = "bra" };
    size_t first = reader->operands.count;
    do {
        struct ptx_operand operand;
        if (!operand_read(reader, &operand, &table, 1))
            return false;
        struct ptx_operand *kept = reader_push(reader, &reader->operands, sizeof *kept);
        if (!kept)
            return false;
        *kept = operand;
    } while (lexer_accept(reader, ','));
    return operand_keep(reader, first, elements, count) && lexer_expect(reader, ';', "after the targets");
}

static bool read_branch_targets(struct ptx_reader *reader, struct reader_binding *binding)
{
    uint32_t line = reader->token.line;
    if (!read_targets(reader, &binding->table.elements, &binding->table.count))
        return false;
    for (uint32_t i = 0; i < binding->table.count; i++)
        if (binding->table.elements[i].kind != PTX_OP_LABEL)
            return reader_error(reader, line, "target %u of .branchtargets is no label", i + 1);
    return true;
}

static bool read_call_targets(struct ptx_reader *reader, struct reader_binding *binding)
{
    uint32_t line = reader->token.line;
    const struct ptx_operand *targets;
    if (reader_read_now(reader) || !read_targets(reader, &targets, &binding->table.count))
        return false;
    binding->table.elements = targets;
    for (uint32_t i = 0; i < binding->table.count; i++)
        if (targets[i].kind != PTX_OP_FUNCTION)
            return reader_error(reader, line, "target %u of .calltargets is not a function declared before", i + 1);
    binding->table.prototype = &link_function_at(reader, targets[0].index)->signature;
    struct ptx_prototype *copy = reader_alloc(reader, 1, sizeof *copy);    /* slots move */
    if (!copy)
        return false;
    *copy = *binding->table.prototype;
    binding->table.prototype = copy;
    return true;
}

/* After name and colon. */
static bool read_label(struct ptx_reader *reader, struct reader_name *name)
{
    struct reader_binding *binding = names_bind(reader, name, BINDING_LABEL, reader->depth);
    if (!binding)
        return false;
    binding->index = (uint32_t)reader->instructions.count;
    switch (lexer_keyword(reader)) {
    case KEYWORD_BRANCHTARGETS:
        lexer_next(reader);
        binding->kind = BINDING_TABLE;
        return read_branch_targets(reader, binding);
    case KEYWORD_CALLTARGETS:
        lexer_next(reader);
        binding->kind = BINDING_PROTOTYPE;
        return read_call_targets(reader, binding);
    case KEYWORD_CALLPROTOTYPE: {
        struct ptx_prototype *prototype = reader_alloc(reader, 1, sizeof *prototype);
        struct reader_name *ignored;
        lexer_next(reader);
        binding->kind = BINDING_PROTOTYPE;
        binding->table.prototype = prototype;
        return prototype && function_read_prototype(reader, prototype, &ignored);
    }
    default:
        return true;
    }
}

static bool read_declaration(struct ptx_reader *reader)
{
    struct reader_declaration declaration;
    if (!declare_qualifiers(reader, &declaration))
        return false;
    if (!declaration.has_space) {
        char buffer[64];
        return reader_error(reader, reader->token.line, "unexpected %s in a function", lexer_describe(reader, buffer));
    }
    if (declaration.space == PTX_SPACE_REG)
        return declare_registers(reader, &declaration);
    if (declaration.space == PTX_SPACE_GLOBAL || declaration.space == PTX_SPACE_CONST ||
        declaration.linkage != PTX_LINK_LOCAL)
        return declare_module_variables(reader, &declaration);
    return declare_local_variables(reader, &declaration);
}

static bool close_scope(struct ptx_reader *reader)
{
    struct reader_fixup *fixup = reader->scopes[reader->depth].fixups;
    bool outermost = reader->depth == DEPTH_BODY;
    while (fixup) {
        struct reader_fixup *next = fixup->next;
        struct reader_binding *binding = fixup->name->binding;
        reader->operations++;
        if (binding && (binding->depth == reader->depth || outermost)) {
            if (!operand_resolve(reader, fixup->operand, binding))
                return reader_error(reader, fixup->line, "'%s' is no label, target list or prototype",
                                    fixup->name->text);
            fixup->next = reader->free_fixups;
            reader->free_fixups = fixup;
        } else if (outermost) {
            return reader_error(reader, fixup->line, "'%s' is not declared", fixup->name->text);
        } else {
            fixup->next = reader->scopes[reader->depth - 1].fixups;
            reader->scopes[reader->depth - 1].fixups = fixup;
        }
        fixup = next;
    }
    reader->scopes[reader->depth].fixups = NULL;
    names_close_scope(reader);
    return true;
}

static bool read_statement(struct ptx_reader *reader)
{
    if (reader->token.kind == TOKEN_DIRECTIVE) {
        enum keyword keyword = lexer_keyword(reader);
        if (keyword == KEYWORD_LOC || keyword == KEYWORD_PRAGMA) {
            lexer_next(reader);
            return keyword == KEYWORD_LOC ? function_read_loc(reader) : function_skip_pragma(reader);
        }
        return read_declaration(reader);
    }
    if (lexer_at_label(reader)) {
        struct reader_name *name = reader->token.name;
        lexer_next(reader);
        lexer_next(reader);
        return read_label(reader, name);
    }
    return instruction_read(reader);
}

/* From the opening brace to behind the closing one; the body's scope is open already. */
static bool read_statements(struct ptx_reader *reader)
{
    uint32_t start = reader->token.line;
    lexer_next(reader);
    do {
        switch (reader->token.kind) {
        case '{':
            if (!names_open_scope(reader))
                return false;
            lexer_next(reader);
            break;
        case '}':
            if (!close_scope(reader))
                return false;
            lexer_next(reader);
            break;
        case ';':
            lexer_next(reader);
            break;
        case TOKEN_END:
            return reader_error(reader, start, "the function that starts here does not end");
        default:
            if (!(reader->checking && scan_instructions(reader)) && !read_statement(reader))
                return false;
        }
    } while (reader->depth >= DEPTH_BODY);
    return !reader->failed;
}

static bool bind_params(struct ptx_reader *reader, const struct ptx_variable *params, uint32_t count,
                        enum binding_kind kind)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct ptx_variable *param = &params[i];
        bool is_register = param->space == PTX_SPACE_REG;
        if (is_register) {
            struct ptx_register *reg = reader_push(reader, &reader->registers, sizeof *reg);
            if (!reg)
                return false;
            *reg = (struct ptx_register){ .name = param->name, .type = param->type, .vector = param->vector };
        }
        if (strcmp(param->name, "_") == 0)
            continue;
        struct reader_name *name = names_find(reader, param->name, strlen(param->name));
        struct reader_binding *binding = names_bind(reader, name, is_register ? BINDING_REGISTER : kind, reader->depth);
        if (!binding)
            return false;
        binding->index = is_register ? (uint32_t)param->offset : i;
    }
    return true;
}

bool function_read_body(struct ptx_reader *reader, struct ptx_function *function)
{
    const struct ptx_prototype *signature = &function->signature;
    reader->source_file = reader->source_line = 0;
    reader->plain = true;
    reader->registers.count = reader->locals.count = reader->instructions.count = 0;
    reader->prototypes.count = reader->operands.count = 0;
    if (!names_open_scope(reader) ||
        !bind_params(reader, signature->returns, signature->return_count, BINDING_RETURN) ||
        !bind_params(reader, signature->params, signature->param_count, BINDING_PARAM) || !read_statements(reader))
        return false;

    function->register_count = (uint32_t)reader->registers.count;
    function->variable_count = (uint32_t)reader->locals.count;
    function->instruction_count = (uint32_t)reader->instructions.count;
    function->prototype_count = (uint32_t)reader->prototypes.count;
    function->registers = reader_keep(reader, &reader->registers, 0, sizeof(struct ptx_register));
    function->variables = reader_keep(reader, &reader->locals, 0, sizeof(struct ptx_variable));
    function->instructions = reader_keep(reader, &reader->instructions, 0, sizeof(struct ptx_instruction));
    function->prototypes = reader_keep(reader, &reader->prototypes, 0, sizeof(struct ptx_prototype));
    return !reader->failed;
}

/* After a failure in a body: nothing of its scopes is left. */
void function_leave_scopes(struct ptx_reader *reader)
{
    while (reader->depth) {
        reader->scopes[reader->depth].fixups = NULL;
        names_close_scope(reader);
    }
}

/* From the opening brace to behind the closing one, for a body that will be read later (later.c). body->start is NULL
   when it had to be read now. */
static bool check_body(struct ptx_reader *reader, struct ptx_function *function, struct reader_body *body)
{
    const struct reader_token brace = reader->token;
    const char *cursor = reader->cursor;
    uint32_t line = reader->line, members = reader->members;
    struct ptx_function checked = *function;
    *body = (struct reader_body){ .start = brace.start, .line = brace.line, .declared = reader->declared };

    reader->checking = true;
    reader->results = reader->passing;
    bool good = function_read_body(reader, &checked);
    reader->checking = false;
    reader->results = reader->arena;
    function_leave_scopes(reader);
    names_forget_passing(reader);
    ptx_arena_reset(reader->passing);
    if (!reader->unfit) {
        const char *end = reader->token.start;      /* of what stands behind the closing brace */
        while (end > body->start && end[-1] != '}')
            end--;
        body->size = (size_t)(end - body->start);
        return good;
    }

    reader->unfit = reader->failed = false;
    body->start = NULL;
    reader->token = brace;
    reader->cursor = cursor;
    reader->line = line;
    reader->members = members;
    return function_read_body(reader, function);
}

/* After .entry or .func. */
bool function_read(struct ptx_reader *reader, enum ptx_linkage linkage, bool is_entry)
{
    struct ptx_function function = { .linkage = linkage, .is_entry = is_entry, .unit = reader->unit };
    struct signature signature = { 0 };
    uint32_t slot;
    bool keep;
    if (!read_directives(reader, &function) || !read_signature(reader, &signature) ||
        !read_directives(reader, &function))
        return false;
    /* What a kernel says itself of registers or threads overrides the bound of the whole unit. */
    if (!function.max_nreg && !function.max_ntid[0] && !function.req_ntid[0] && !function.min_ncta_per_sm)
        function.max_nreg = reader->unit_registers;
    function.name = signature.name->text;
    function.signature = signature.prototype;
    function.signature.noreturn = function.noreturn;
    function.param_size = (uint32_t)signature.param_size;
    function.defined = reader->token.kind == '{';
    for (uint32_t i = 0; !is_entry && i < function.signature.param_count; i++)
        if (function.signature.params[i].type >= PTX_TEXREF)
            return reader_error(reader, reader->token.line, "'%s': only kernels have parameters of type .%s",
                                function.name, ptx_type_name(function.signature.params[i].type));
    if (is_entry && function.signature.return_count)
        return reader_error(reader, reader->token.line, "the kernel '%s' returns a value", function.name);
    if (function.defined && linkage == PTX_LINK_EXTERN)
        return reader_error(reader, reader->token.line, "'%s' is .extern and has a body", function.name);
    if (!link_function(reader, signature.name, &function, &slot, &keep))
        return false;
    if (!function.defined)
        return lexer_expect(reader, ';', "after the function's declaration");
    if (!keep || reader->outline)
        return lexer_skip_block(reader);
    struct reader_body body = { 0 };
    if (!(reader->later ? check_body(reader, &function, &body) : function_read_body(reader, &function)))
        return false;

    struct ptx_function *held = link_function_at(reader, slot);
    link_set_body(reader, slot, &body);
    function.linkage = held->linkage;
    function.noreturn = held->noreturn;
    *held = function;
    return true;
}
