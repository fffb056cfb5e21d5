/* Declarations of variables and registers. Follows: PTX ISA, "State Spaces, Types, and Variables". */
#include <stdio.h>
#include <string.h>

#include "softgpu/ptx/reader.h"

static bool read_align(struct ptx_reader *reader, unsigned *align)
{
    uint32_t line = reader->token.line;
    struct reader_value value;
    lexer_next(reader);
    if (!expression_read_integer(reader, &value))
        return false;
    if (value.bits == 0 || (value.bits & (value.bits - 1)) || value.bits > 1u << 20)
        return reader_error(reader, line, "an alignment of %llu bytes", (unsigned long long)value.bits);
    *align = (unsigned)value.bits;
    return true;
}

/* .attribute(.managed), .attribute(.unified(number, number)), or several, with commas. */
static bool read_attribute(struct ptx_reader *reader, struct reader_declaration *declaration)
{
    lexer_next(reader);
    if (!lexer_expect(reader, '(', "after .attribute"))
        return false;
    do {
        if (lexer_keyword(reader) == KEYWORD_MANAGED) {
            declaration->managed = true;
            lexer_next(reader);
        } else if (lexer_keyword(reader) == KEYWORD_UNIFIED) {
            lexer_next(reader);
            if (lexer_accept(reader, '(')) {
                while (reader->token.kind == TOKEN_INTEGER || reader->token.kind == ',')
                    lexer_next(reader);
                if (!lexer_expect(reader, ')', "after .unified"))
                    return false;
            }
        } else {
            char buffer[64];
            return reader_error(reader, reader->token.line, "unknown attribute %s", lexer_describe(reader, buffer));
        }
    } while (lexer_accept(reader, ','));
    return lexer_expect(reader, ')', "after the attributes");
}

static bool set_linkage(struct ptx_reader *reader, struct reader_declaration *declaration, enum ptx_linkage linkage)
{
    if (declaration->linkage != PTX_LINK_LOCAL)
        return reader_error(reader, reader->token.line, "two linkage directives in one declaration");
    declaration->linkage = linkage;
    lexer_next(reader);
    return true;
}

static bool set_space(struct ptx_reader *reader, struct reader_declaration *declaration, enum ptx_space space)
{
    if (declaration->has_space && !declaration->is_pointer)
        return reader_error(reader, reader->token.line, "two state spaces in one declaration");
    if (!declaration->is_pointer)                      /* what follows .ptr speaks of the object pointed to */
        declaration->space = space;
    declaration->has_space = true;
    lexer_next(reader);
    if (space == PTX_SPACE_CONST && lexer_accept(reader, '[')) {      /* .const[bank], of PTX 2.1 and older */
        struct reader_value bank;
        return expression_read_integer(reader, &bank) && lexer_expect(reader, ']', "after the bank");
    }
    return true;
}

static bool set_type(struct ptx_reader *reader, struct reader_declaration *declaration, enum ptx_type type)
{
    if (declaration->type != PTX_TEXREF && declaration->type != PTX_NONE)
        return reader_error(reader, reader->token.line, "two types in one declaration");
    if (declaration->type == PTX_NONE)                 /* .tex .u32 name: the old form of .texref */
        declaration->type = type;
    lexer_next(reader);
    return true;
}

/* Everything before the names, in any order; stops at the first token that is none of it. */
bool declare_qualifiers(struct ptx_reader *reader, struct reader_declaration *declaration)
{
    *declaration = (struct reader_declaration){ .linkage = PTX_LINK_LOCAL, .space = PTX_SPACE_GENERIC, .vector = 1 };
    for (;;) {
        enum keyword keyword = lexer_keyword(reader);
        unsigned ignored;
        bool good;
        switch (keyword) {
        case KEYWORD_EXTERN:    good = set_linkage(reader, declaration, PTX_LINK_EXTERN); break;
        case KEYWORD_VISIBLE:   good = set_linkage(reader, declaration, PTX_LINK_VISIBLE); break;
        case KEYWORD_WEAK:      good = set_linkage(reader, declaration, PTX_LINK_WEAK); break;
        case KEYWORD_COMMON:    good = set_linkage(reader, declaration, PTX_LINK_COMMON); break;
        case KEYWORD_ALIGN: good = read_align(reader, declaration->is_pointer ? &ignored : &declaration->align); break;
        case KEYWORD_ATTRIBUTE: good = read_attribute(reader, declaration); break;
        case KEYWORD_REG:       good = set_space(reader, declaration, PTX_SPACE_REG); break;
        case KEYWORD_CONST:     good = set_space(reader, declaration, PTX_SPACE_CONST); break;
        case KEYWORD_GLOBAL:    good = set_space(reader, declaration, PTX_SPACE_GLOBAL); break;
        case KEYWORD_LOCAL:     good = set_space(reader, declaration, PTX_SPACE_LOCAL); break;
        case KEYWORD_PARAM:     good = set_space(reader, declaration, PTX_SPACE_PARAM); break;
        case KEYWORD_SHARED:    good = set_space(reader, declaration, PTX_SPACE_SHARED); break;
        case KEYWORD_TEX:
            declaration->type = PTX_TEXREF;
            good = set_space(reader, declaration, PTX_SPACE_GLOBAL);
            break;
        case KEYWORD_PTR:
            declaration->is_pointer = true;
            lexer_next(reader);
            good = true;
            break;
        case KEYWORD_V2: case KEYWORD_V4:
            declaration->vector = keyword == KEYWORD_V2 ? 2 : 4;
            lexer_next(reader);
            good = true;
            break;
        default:
            if (keyword < KEYWORD_FIRST_TYPE || keyword > KEYWORD_LAST_TYPE)
                return true;
            good = set_type(reader, declaration, (enum ptx_type)(keyword - KEYWORD_FIRST_TYPE));
        }
        if (!good)
            return false;
    }
}

static bool read_dimensions(struct ptx_reader *reader, struct ptx_variable *variable, uint64_t *dimensions,
                            unsigned *count)
{
    while (reader->token.kind == '[') {
        uint32_t line = reader->token.line;
        struct reader_value value;
        if (*count == READER_MAX_DIMENSIONS)
            return reader_error(reader, line, "an array of more than %d dimensions", READER_MAX_DIMENSIONS);
        lexer_next(reader);
        variable->is_array = true;
        if (lexer_accept(reader, ']')) {
            if (*count)
                return reader_error(reader, line, "only the first dimension of an array may be left out");
            variable->unsized = true;
            dimensions[(*count)++] = 0;
            continue;
        }
        if (!expression_read_integer(reader, &value) || !lexer_expect(reader, ']', "after the array's size"))
            return false;
        if (value.bits > READER_MAX_OBJECT)
            return reader_error(reader, line, "an array dimension of %llu", (unsigned long long)value.bits);
        dimensions[(*count)++] = value.bits;
    }
    return true;
}

/* One name with its dimensions. dimensions[0] is 0 where it is left out (.unsized). */
bool declare_variable(struct ptx_reader *reader, const struct reader_declaration *declaration,
                      struct ptx_variable *variable, struct reader_name **name,
                      uint64_t dimensions[READER_MAX_DIMENSIONS], unsigned *dimension_count)
{
    uint32_t line = reader->token.line;
    *name = reader->token.name;
    if (reader->token.kind != TOKEN_IDENTIFIER)
        return lexer_expect(reader, TOKEN_IDENTIFIER, "in the declaration");
    lexer_next(reader);
    if (declaration->type == PTX_NONE)
        return reader_error(reader, line, "'%s' is declared without a type", (*name)->text);
    if (declaration->type == PTX_SAMPLERREF && !reader->texmode_independent)
        return reader_error(reader, line, "'%s': .samplerref needs .target …, texmode_independent", (*name)->text);
    if (declaration->type == PTX_PRED && declaration->space != PTX_SPACE_REG)
        return reader_error(reader, line, "'%s': predicates can only be registers", (*name)->text);

    uint64_t size = ptx_type_size(declaration->type) * declaration->vector;
    *variable = (struct ptx_variable){
        .name = (*name)->text, .space = declaration->space, .type = declaration->type, .vector = declaration->vector,
        .align = declaration->align ? declaration->align : size ? (unsigned)size : 1, .linkage = declaration->linkage,
        .managed = declaration->managed, .is_pointer = declaration->is_pointer,
    };
    *dimension_count = 0;
    if (!read_dimensions(reader, variable, dimensions, dimension_count))
        return false;
    for (unsigned i = 0; i < *dimension_count; i++) {
        if (dimensions[i] && size > READER_MAX_OBJECT / dimensions[i])
            return reader_error(reader, line, "'%s' is larger than %llu bytes", (*name)->text,
                                (unsigned long long)READER_MAX_OBJECT);
        size *= dimensions[i];
    }
    variable->size = size;
    return true;
}

static bool check_sized(struct ptx_reader *reader, uint32_t line, const struct ptx_variable *variable)
{
    return !variable->unsized || variable->linkage == PTX_LINK_EXTERN || variable->space == PTX_SPACE_PARAM ||
           reader_error(reader, line, "the size of '%s' is neither given nor known from an initialiser",
                        variable->name);
}

static bool read_initialiser(struct ptx_reader *reader, struct ptx_variable *variable, const uint64_t *dimensions,
                             unsigned count)
{
    if (reader->token.kind != '=')
        return true;
    if (variable->space != PTX_SPACE_GLOBAL && variable->space != PTX_SPACE_CONST)
        return reader_error(reader, reader->token.line, "'%s': only .global and .const variables have initialisers",
                            variable->name);
    if (variable->linkage == PTX_LINK_EXTERN)
        return reader_error(reader, reader->token.line, "'%s' is .extern and has an initialiser", variable->name);
    lexer_next(reader);
    return initialiser_read(reader, variable, dimensions, count);
}

static bool remember_relocations(struct ptx_reader *reader, uint32_t slot, const uint8_t *init)
{
    size_t count = reader->relocations.count;
    if (!count)
        return true;
    struct reader_relocation *copy = reader_scratch(reader, count * sizeof *copy);
    struct reader_pending *pending = copy ? reader_push(reader, &reader->pending, sizeof *pending) : NULL;
    if (!pending)
        return false;
    memcpy(copy, reader->relocations.items, count * sizeof *copy);
    *pending = (struct reader_pending){ .variable = slot, .init = init, .relocations = copy, .count = count };
    return true;
}

static bool add_module_variable(struct ptx_reader *reader, struct reader_name *name,
                                const struct ptx_variable *variable)
{
    uint32_t slot;
    bool keep;
    if (!link_variable(reader, name, variable, variable->linkage != PTX_LINK_EXTERN, &slot, &keep))
        return false;
    return !keep || remember_relocations(reader, slot, variable->init);
}

static bool add_local_variable(struct ptx_reader *reader, struct reader_name *name, const struct ptx_variable *variable)
{
    struct reader_binding *binding = names_bind(reader, name, BINDING_LOCAL, reader->depth);
    struct ptx_variable *local = binding ? reader_push(reader, &reader->locals, sizeof *local) : NULL;
    if (!local)
        return false;
    *local = *variable;
    binding->index = (uint32_t)(reader->locals.count - 1);
    return true;
}

typedef bool add_variable(struct ptx_reader *, struct reader_name *, const struct ptx_variable *);

/* .local .b32 x<10>: ten variables, x0 to x9. Unlike registers they exist whether used or not, so they are counted. */
static bool add_members(struct ptx_reader *reader, const struct reader_name *prefix,
                        const struct ptx_variable *variable, add_variable *add)
{
    char text[READER_MAX_RANGE_PREFIX + 32];
    struct reader_value count;
    uint32_t line = reader->token.line;
    lexer_next(reader);
    if (!expression_read_sum(reader, &count) || !lexer_expect(reader, '>', "after the number of variables"))
        return false;
    if (prefix->size > READER_MAX_RANGE_PREFIX || count.bits > READER_MAX_VARIABLES_OF_RANGES - reader->members)
        return reader_error(reader, line, "%llu variables named '%.200s'", (unsigned long long)count.bits,
                            prefix->text);
    if (variable->is_array)
        return reader_error(reader, line, "'%s' is an array and a range of names", prefix->text);
    reader->members += (uint32_t)count.bits;
    for (uint64_t i = 0; i < count.bits; i++) {
        int size = snprintf(text, sizeof text, "%s%llu", prefix->text, (unsigned long long)i);
        struct reader_name *name = names_intern(reader, text, (size_t)size);
        struct ptx_variable member = *variable;
        if (!name)
            return false;
        member.name = name->text;
        if (!add(reader, name, &member))
            return false;
    }
    return true;
}

static bool declare_variables(struct ptx_reader *reader, const struct reader_declaration *declaration,
                              add_variable *add)
{
    do {
        struct ptx_variable variable;
        struct reader_name *name;
        uint64_t dimensions[READER_MAX_DIMENSIONS];
        unsigned dimension_count;
        uint32_t line = reader->token.line;
        reader->relocations.count = 0;
        if (!declare_variable(reader, declaration, &variable, &name, dimensions, &dimension_count))
            return false;
        if (reader->token.kind == '<') {
            if (!add_members(reader, name, &variable, add))
                return false;
            continue;
        }
        if (!read_initialiser(reader, &variable, dimensions, dimension_count) ||
            !check_sized(reader, line, &variable) || !add(reader, name, &variable))
            return false;
    } while (lexer_accept(reader, ','));
    return lexer_expect(reader, ';', "after the declaration");
}

/* The names after the qualifiers, up to and with the semicolon. Also used inside functions for .global and .const,
   which live as long as the module wherever they are written; reader->depth says in which scope the name is known. */
bool declare_module_variables(struct ptx_reader *reader, const struct reader_declaration *declaration)
{
    if (declaration->space == PTX_SPACE_GENERIC || declaration->space == PTX_SPACE_PARAM ||
        declaration->space == PTX_SPACE_REG || (declaration->space == PTX_SPACE_LOCAL && reader->depth))
        return reader_error(reader, reader->token.line, "a variable of this kind cannot be declared here");
    if (reader_read_now(reader))
        return false;
    return declare_variables(reader, declaration, add_module_variable);
}

/* .local, .shared and .param variables of a function. */
bool declare_local_variables(struct ptx_reader *reader, const struct reader_declaration *declaration)
{
    return declare_variables(reader, declaration, add_local_variable);
}

/* prefix<count>: nothing is made before it is used (names_lookup). */
static bool declare_range(struct ptx_reader *reader, const struct reader_declaration *declaration,
                          const struct reader_name *prefix)
{
    char text[READER_MAX_RANGE_PREFIX + 1];
    struct reader_value count;
    uint32_t line = reader->token.line;
    lexer_next(reader);
    if (!expression_read_sum(reader, &count) || !lexer_expect(reader, '>', "after the number of registers"))
        return false;
    if (count.bits > INT32_MAX || prefix->size > READER_MAX_RANGE_PREFIX)
        return reader_error(reader, line, "%llu registers named '%.200s'", (unsigned long long)count.bits,
                            prefix->text);
    memcpy(text, prefix->text, prefix->size);
    text[prefix->size] = '<';
    struct reader_name *name = names_intern(reader, text, prefix->size + 1);
    struct reader_binding *binding = name ? names_bind(reader, name, BINDING_RANGE, reader->depth) : NULL;
    if (!binding)
        return false;
    binding->range = (struct reader_range){ .count = (uint32_t)count.bits,
                                            .type = declaration->type,
                                            .vector = declaration->vector };
    names_note_prefix(reader, name);
    return true;
}

bool declare_registers(struct ptx_reader *reader, const struct reader_declaration *declaration)
{
    if (declaration->type == PTX_NONE)
        return reader_error(reader, reader->token.line, "registers are declared without a type");
    do {
        struct reader_name *name = reader->token.name;
        if (!lexer_expect(reader, TOKEN_IDENTIFIER, "in the declaration of registers"))
            return false;
        if (reader->token.kind == '<') {
            if (!declare_range(reader, declaration, name))
                return false;
            continue;
        }
        if (names_member_of_scope(reader, name))
            return reader_error(reader, reader->token.line, "'%s' is declared twice in one scope", name->text);
        struct reader_binding *binding = names_bind(reader, name, BINDING_REGISTER, reader->depth);
        struct ptx_register *reg = binding ? reader_push(reader, &reader->registers, sizeof *reg) : NULL;
        if (!reg)
            return false;
        binding->index = (uint32_t)(reader->registers.count - 1);
        *reg = (struct ptx_register){ .name = name->text, .type = declaration->type, .vector = declaration->vector };
    } while (lexer_accept(reader, ','));
    return lexer_expect(reader, ';', "after the declaration of registers");
}
