/*
 * Operands. Nesting is bounded: a list in a bracket in a list is all that PTX knows.
 *
 * A name that is not declared (yet), or is a label, is left as PTX_OP_LABEL with `second` pointing to its
 * struct reader_name; operand_keep puts it on the scope's list, function.c settles it when the scope closes.
 * Follows: PTX ISA, "Instruction Operands".
 */
#include <string.h>

#include "softgpu/ptx/reader.h"

static bool unresolved(const struct ptx_operand *operand)
{
    return operand->kind == PTX_OP_LABEL && operand->second;
}

bool operand_keep(struct ptx_reader *reader, size_t first, const struct ptx_operand **elements, uint32_t *count)
{
    size_t number = reader->operands.count - first;
    struct ptx_operand *kept = reader_alloc(reader, number, sizeof *kept);
    if (!kept)
        return false;
    if (number)
        memcpy(kept, (struct ptx_operand *)reader->operands.items + first, number * sizeof *kept);
    reader->operands.count = first;
    *elements = kept;
    *count = (uint32_t)number;

    for (size_t i = 0; i < number; i++) {
        if (!unresolved(&kept[i]))
            continue;
        struct reader_fixup *fixup = reader->free_fixups;
        if (fixup)
            reader->free_fixups = fixup->next;
        else if (!(fixup = reader_scratch(reader, sizeof *fixup)))
            return false;
        *fixup = (struct reader_fixup){ .next = reader->scopes[reader->depth].fixups,
                                        .operand = &kept[i],
                                        .name = (struct reader_name *)(uintptr_t)(const void *)kept[i].second,
                                        .line = reader->token.line };
        reader->scopes[reader->depth].fixups = fixup;
    }
    return true;
}

bool operand_resolve(struct ptx_reader *reader, struct ptx_operand *operand, struct reader_binding *binding)
{
    *operand = (struct ptx_operand){ .component = -1 };
    switch (binding->kind) {
    case BINDING_LABEL:
        operand->kind = PTX_OP_LABEL;
        operand->index = binding->index;
        return true;
    case BINDING_TABLE:
        operand->kind = PTX_OP_LABEL_TABLE;
        break;
    case BINDING_PROTOTYPE:
        operand->kind = PTX_OP_PROTOTYPE;
        if (!binding->table.used) {                    /* the function has one copy, however many calls use it */
            struct ptx_prototype *prototype = reader_push(reader, &reader->prototypes, sizeof *prototype);
            if (!prototype)
                return false;
            *prototype = *binding->table.prototype;
            binding->table.used = true;
            binding->index = (uint32_t)(reader->prototypes.count - 1);
        }
        operand->index = binding->index;
        break;
    default:
        return false;
    }
    operand->elements = binding->table.elements;
    operand->element_count = binding->table.count;
    return true;
}

static int8_t component_of(const char *text)
{
    static const char *const names[] = { "x", "y", "z", "w", "b0", "b1", "b2", "b3", "h0", "h1" };
    static const char *const colours[] = { "r", "g", "b", "a" };
    for (int8_t i = 0; i < (int8_t)(sizeof names / sizeof *names); i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    for (int8_t i = 0; i < 4; i++)
        if (strcmp(text, colours[i]) == 0)
            return i;
    return -1;
}

static bool read_component(struct ptx_reader *reader, struct ptx_operand *operand)
{
    if (reader->token.kind != TOKEN_DIRECTIVE)
        return true;
    const char *text = reader->token.name->text;
    operand->component = component_of(text);
    if (operand->component < 0 && (text[0] == 'b' || text[0] == 'h') && text[1] &&
        !text[1 + strspn(text + 1, "01234567")]) {
        operand->component = PTX_SELECTOR;
        operand->text = text;
    }
    if (operand->component < 0)
        return reader_error(reader, reader->token.line, "'.%s' is no component of a register",
                            reader->token.name->text);
    lexer_next(reader);
    return true;
}

static bool set_variable(struct ptx_operand *operand, const struct reader_binding *binding)
{
    operand->index = binding->index;
    switch (binding->kind) {
    case BINDING_VARIABLE: operand->scope = PTX_SCOPE_MODULE; return true;
    case BINDING_LOCAL:    operand->scope = PTX_SCOPE_FUNCTION; return true;
    case BINDING_PARAM:    operand->scope = PTX_SCOPE_PARAM; return true;
    case BINDING_RETURN:   operand->scope = PTX_SCOPE_RETURN; return true;
    default:               return false;
    }
}

static bool read_offset(struct ptx_reader *reader, int64_t *offset)
{
    bool minus = reader->token.kind == '-';
    struct reader_value value;
    lexer_next(reader);
    if (!expression_read_sum(reader, &value))
        return false;
    *offset = (int64_t)((uint64_t)*offset + (minus ? -value.bits : value.bits));
    return true;
}

static bool read_constant(struct ptx_reader *reader, struct ptx_operand *operand)
{
    struct reader_value value;
    if (!expression_read(reader, &value))
        return false;
    if (value.is_float) {
        operand->kind = PTX_OP_FLOAT;
        operand->float_bits = value.float_bits;
        operand->bits = value.bits;
    } else {
        operand->kind = PTX_OP_INTEGER;
        operand->integer = (int64_t)value.bits;
        operand->is_unsigned = value.is_unsigned;
    }
    return true;
}

static const struct ptx_variable *variable_of(const struct ptx_reader *reader, const struct ptx_operand *operand)
{
    if (operand->scope == PTX_SCOPE_MODULE)
        return &((const struct reader_variable *)reader->variables.items)[operand->index].variable;
    return operand->scope == PTX_SCOPE_FUNCTION ? &((const struct ptx_variable *)reader->locals.items)[operand->index]
                                                : NULL;
}

/* a[1]: the address of an element for mov, the element itself where an address in brackets is usual. */
static bool read_index(struct ptx_reader *reader, struct ptx_operand *operand, const struct reader_opcode *opcode)
{
    uint32_t line = reader->token.line;
    const struct ptx_variable *variable = variable_of(reader, operand);
    struct reader_value value;
    if (operand->scope == PTX_SCOPE_MODULE && reader_read_now(reader))
        return false;                                  /* a later declaration may change the variable's type */
    lexer_next(reader);
    if (!variable || reader->token.kind == TOKEN_IDENTIFIER)
        return reader_error(reader, line,
                            "only variables of a module or function can be indexed, and only with a constant");
    if (!expression_read_integer(reader, &value))
        return false;
    operand->integer = (int64_t)(value.bits * ptx_type_size(variable->type) * variable->vector);
    if (strcmp(opcode->opcode, "mov") != 0 && strcmp(opcode->opcode, "cvta") != 0) {
        operand->kind = PTX_OP_MEMORY;
        operand->has_variable = true;
    }
    return lexer_expect(reader, ']', "after the index");
}

/* An identifier and what belongs to it; not the p|q form. */
static bool read_name(struct ptx_reader *reader, struct ptx_operand *operand, const struct reader_opcode *opcode)
{
    struct reader_name *name = reader->token.name;
    uint32_t line = reader->token.line;
    if (strcmp(name->text, "WARP_SZ") == 0)
        return read_constant(reader, operand);
    struct reader_binding *binding = names_lookup(reader, name);
    if (reader->failed)
        return false;
    lexer_next(reader);

    if (!binding && strcmp(name->text, "_") == 0) {
        operand->kind = PTX_OP_SINK;
        return true;
    }
    if (!binding && name->text[0] == '%') {
        if (names_in_known_range(reader, name))
            return reader_error(reader, line, "'%s' is beyond the registers declared under that name", name->text);
        operand->kind = PTX_OP_SPECIAL;
        operand->text = name->text + 1;
        return read_component(reader, operand);
    }
    if (!binding || binding->kind == BINDING_LABEL || binding->kind == BINDING_TABLE ||
        binding->kind == BINDING_PROTOTYPE) {
        operand->kind = PTX_OP_LABEL;
        operand->second = (const void *)name;
        return true;
    }
    if (binding->kind == BINDING_REGISTER) {
        operand->kind = PTX_OP_REGISTER;
        operand->reg = binding->index;
        return read_component(reader, operand);
    }
    if (binding->kind == BINDING_FUNCTION) {
        operand->kind = PTX_OP_FUNCTION;
        operand->index = binding->index;
        return true;
    }
    if (!set_variable(operand, binding))
        return reader_error(reader, line, "'%s' cannot be an operand", name->text);
    operand->kind = PTX_OP_VARIABLE;
    if (reader->token.kind == '[')
        return read_index(reader, operand, opcode);
    while (reader->token.kind == '+' || reader->token.kind == '-')
        if (!read_offset(reader, &operand->integer))
            return false;
    return true;
}

/* elements up to `end`, the opening token already read. first: an element that is read already, or NULL. */
static bool read_elements(struct ptx_reader *reader, struct ptx_operand *operand, const struct reader_opcode *opcode,
                          int end, const struct ptx_operand *first, unsigned nesting)
{
    size_t start = reader->operands.count;
    bool more = true;
    if (first) {
        struct ptx_operand *kept = reader_push(reader, &reader->operands, sizeof *kept);
        if (!kept)
            return false;
        *kept = *first;
        more = lexer_accept(reader, ',');
    } else if (reader->token.kind == end && end == ')') {
        more = false;
    }
    while (more) {
        struct ptx_operand element;
        if (!operand_read(reader, &element, opcode, nesting + 1))
            return false;
        struct ptx_operand *kept = reader_push(reader, &reader->operands, sizeof *kept);
        if (!kept)
            return false;
        *kept = element;
        more = lexer_accept(reader, ',');
    }
    return operand_keep(reader, start, &operand->elements, &operand->element_count) &&
           lexer_expect(reader, end, "after the list");
}

/* One term of an address: a register, a variable, or a constant. */
static bool read_address_term(struct ptx_reader *reader, struct ptx_operand *operand)
{
    uint32_t line = reader->token.line;
    if (reader->token.kind != TOKEN_IDENTIFIER || strcmp(reader->token.name->text, "WARP_SZ") == 0) {
        struct reader_value value;
        if (!expression_read_sum(reader, &value))
            return false;
        operand->integer = (int64_t)((uint64_t)operand->integer + value.bits);
        return true;
    }
    struct reader_name *name = reader->token.name;
    const struct reader_binding *binding = names_lookup(reader, name);
    if (reader->failed)
        return false;
    lexer_next(reader);
    if (!binding)
        return reader_error(reader, line, "'%s' is not declared", name->text);
    if (binding->kind == BINDING_REGISTER) {
        if (operand->has_register)
            return reader_error(reader, line, "an address of two registers");
        operand->has_register = true;
        operand->reg = binding->index;
        return read_component(reader, operand);
    }
    if (operand->has_variable)
        return reader_error(reader, line, "an address of two variables");
    operand->has_variable = true;
    return set_variable(operand, binding) ||
           reader_error(reader, line, "'%s' cannot be part of an address", name->text);
}

/* What the first element of [a, …] is, read as an address. */
static void address_to_element(struct ptx_operand *operand)
{
    if (operand->has_register && operand->has_variable)
        return;
    if (operand->has_register && operand->integer)
        return;
    operand->kind = operand->has_register ? PTX_OP_REGISTER : operand->has_variable ? PTX_OP_VARIABLE : PTX_OP_INTEGER;
    operand->has_register = operand->has_variable = false;
}

/* [base + offset], or [first, …] as a bracketed list. */
static bool read_bracket(struct ptx_reader *reader, struct ptx_operand *operand, const struct reader_opcode *opcode,
                         unsigned nesting)
{
    lexer_next(reader);
    operand->kind = PTX_OP_MEMORY;
    if (!read_address_term(reader, operand))
        return false;
    while (reader->token.kind == '+' || reader->token.kind == '-') {
        if (reader->token.kind == '-') {
            if (!read_offset(reader, &operand->integer))
                return false;
        } else {
            lexer_next(reader);
            if (!read_address_term(reader, operand))
                return false;
        }
    }
    if (reader->token.kind != ',') {
        bool good = lexer_expect(reader, ']', "after the address");
        if (good && lexer_keyword(reader) == KEYWORD_UNIFIED) /* [a].unified: it says what a driver knows */
            lexer_next(reader);
        return good;
    }
    struct ptx_operand first = *operand;
    address_to_element(&first);
    *operand = (struct ptx_operand){ .kind = PTX_OP_LIST, .bracketed = true, .component = -1 };
    return read_elements(reader, operand, opcode, ']', &first, nesting);
}

/* !p and -r; anything else after ! and - is a constant. */
static bool read_negated(struct ptx_reader *reader, struct ptx_operand *operand, const struct reader_opcode *opcode)
{
    struct reader_token token = reader->token;
    const char *cursor = reader->cursor;
    uint32_t line = reader->line;
    int previous = reader->previous;
    lexer_next(reader);
    if (reader->token.kind == TOKEN_IDENTIFIER && strcmp(reader->token.name->text, "WARP_SZ") != 0) {
        if (!read_name(reader, operand, opcode))
            return false;
        operand->negated = true;
        return operand->kind == PTX_OP_REGISTER || operand->kind == PTX_OP_SPECIAL ||
               reader_error(reader, line, "only a register can follow '%c' here", token.kind);
    }
    if (reader->failed)
        return false;
    reader->token = token;                             /* go back: the sign is part of an expression */
    reader->cursor = cursor;
    reader->line = line;
    reader->previous = previous;
    return read_constant(reader, operand);
}

/* p|q: the part behind the bar. */
static bool read_second(struct ptx_reader *reader, struct ptx_operand *operand, const struct reader_opcode *opcode)
{
    uint32_t line = reader->token.line;
    bool can = operand->kind == PTX_OP_REGISTER || operand->kind == PTX_OP_SINK || operand->kind == PTX_OP_VECTOR;
    if (reader->token.kind != '|' || !can)
        return true;
    lexer_next(reader);
    struct ptx_operand *second = reader_alloc(reader, 1, sizeof *second);
    if (!second)
        return false;
    second->component = -1;
    if (reader->token.kind != TOKEN_IDENTIFIER)
        return lexer_expect(reader, TOKEN_IDENTIFIER, "after '|'");
    if (!read_name(reader, second, opcode))
        return false;
    operand->second = second;
    return second->kind == PTX_OP_REGISTER || second->kind == PTX_OP_SINK ||
           reader_error(reader, line, "only a register can follow '|'");
}

bool operand_read(struct ptx_reader *reader, struct ptx_operand *operand, const struct reader_opcode *opcode,
                  unsigned nesting)
{
    bool good;
    *operand = (struct ptx_operand){ .component = -1 };
    if (nesting > READER_MAX_NESTING)
        return reader_error(reader, reader->token.line, "operands are nested deeper than %d", READER_MAX_NESTING);
    switch (reader->token.kind) {
    case '{':
        lexer_next(reader);
        operand->kind = PTX_OP_VECTOR;
        good = read_elements(reader, operand, opcode, '}', NULL, nesting);
        break;
    case '[':
        good = read_bracket(reader, operand, opcode, nesting);
        break;
    case '(':
        if (opcode->is_call && nesting == 0) {
            lexer_next(reader);
            operand->kind = PTX_OP_LIST;
            good = read_elements(reader, operand, opcode, ')', NULL, nesting);
        } else {
            good = read_constant(reader, operand);
        }
        break;
    case '!': case '-':
        good = read_negated(reader, operand, opcode);
        break;
    case TOKEN_IDENTIFIER:
        good = read_name(reader, operand, opcode);
        if (good && operand->kind == PTX_OP_FUNCTION && !(opcode->is_call && nesting == 0))
            link_take_address(reader, operand->index);
        break;
    default:
        good = read_constant(reader, operand);
    }
    return good && read_second(reader, operand, opcode);
}
