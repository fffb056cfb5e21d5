/* One instruction: guard, opcode with modifiers, operands. Follows: PTX ISA, "Instruction Statements". */
#include <string.h>

#include "softgpu/ptx/reader.h"

static bool add_modifier(struct ptx_reader *reader, const char **modifiers, uint32_t *count, const char *text)
{
    if (*count == READER_MAX_MODIFIERS)
        return reader_error(reader, reader->token.line, "an opcode with more than %d modifiers", READER_MAX_MODIFIERS);
    modifiers[(*count)++] = text;
    return true;
}

static struct reader_opcode *make_opcode(struct ptx_reader *reader, const char *opcode, const char *const *modifiers,
                                         uint32_t count)
{
    struct reader_opcode *made = reader_scratch(reader, sizeof *made);
    const char **copy = ptx_arena_array(reader->arena, count, sizeof *copy);
    if (!made || !copy) {
        reader_error(reader, reader->token.line, "out of memory for an opcode");
        return NULL;
    }
    if (count)
        memcpy(copy, modifiers, count * sizeof *copy);
    *made = (struct reader_opcode){
        .opcode = opcode, .modifiers = copy, .modifier_count = count, .is_call = strcmp(opcode, "call") == 0
    };
    return made;
}

/* "setp.lt.and.f32" is split once; its next use finds the result at the name. */
static struct reader_opcode *split_opcode(struct ptx_reader *reader, struct reader_name *dotted)
{
    const char *modifiers[READER_MAX_MODIFIERS];
    uint32_t count = 0;
    const char *dot = memchr(dotted->text, '.', dotted->size);
    struct reader_name *base = dot ? names_intern(reader, dotted->text, (size_t)(dot - dotted->text)) : dotted;
    if (!base)
        return NULL;
    while (dot) {
        const char *word = dot + 1;
        dot = strchr(word, '.');
        struct reader_name *name = names_intern(reader, word, dot ? (size_t)(dot - word) : strlen(word));
        if (!name || !add_modifier(reader, modifiers, &count, name->text))
            return NULL;
    }
    return make_opcode(reader, base->text, modifiers, count);
}

static const struct reader_opcode *read_opcode(struct ptx_reader *reader)
{
    struct reader_name *dotted;
    if (reader->token.kind != TOKEN_IDENTIFIER) {
        lexer_expect(reader, TOKEN_IDENTIFIER, "as an instruction");
        return NULL;
    }
    if (!lexer_opcode(reader, &dotted))
        return NULL;
    if (!dotted->opcode && !(dotted->opcode = split_opcode(reader, dotted)))
        return NULL;
    if (reader->token.kind != TOKEN_DIRECTIVE)
        return dotted->opcode;

    /* Modifiers behind spaces. */
    const char *modifiers[READER_MAX_MODIFIERS];
    uint32_t count = dotted->opcode->modifier_count;
    memcpy(modifiers, dotted->opcode->modifiers, count * sizeof *modifiers);
    while (reader->token.kind == TOKEN_DIRECTIVE) {
        if (!add_modifier(reader, modifiers, &count, reader->token.name->text))
            return NULL;
        lexer_next(reader);
    }
    return make_opcode(reader, dotted->opcode->opcode, modifiers, count);
}

/* @p or @!p */
static bool read_guard(struct ptx_reader *reader, struct ptx_instruction *instruction)
{
    instruction->guard = -1;
    if (!lexer_accept(reader, '@'))
        return true;
    uint32_t line = reader->token.line;
    instruction->guard_negated = lexer_accept(reader, '!');
    struct reader_name *name = reader->token.name;
    if (!lexer_expect(reader, TOKEN_IDENTIFIER, "after '@'"))
        return false;
    const struct reader_binding *binding = names_lookup(reader, name);
    const struct ptx_register *registers = reader->registers.items;
    if (!binding || binding->kind != BINDING_REGISTER || registers[binding->index].type != PTX_PRED)
        return reader_error(reader, line, "the guard '%s' is no predicate register", name->text);
    instruction->guard = (int32_t)binding->index;
    return true;
}

bool instruction_read(struct ptx_reader *reader)
{
    struct ptx_instruction instruction = { .line = reader->token.line,
                                           .source_file = reader->source_file,
                                           .source_line = reader->source_line };
    size_t first = reader->operands.count;
    if (!read_guard(reader, &instruction))
        return false;
    const struct reader_opcode *opcode = read_opcode(reader);
    if (!opcode)
        return false;
    instruction.opcode = opcode->opcode;
    instruction.modifiers = opcode->modifiers;
    instruction.modifier_count = opcode->modifier_count;

    if (reader->token.kind != ';') {
        do {
            struct ptx_operand operand;
            if (!operand_read(reader, &operand, opcode, 0))
                return false;
            struct ptx_operand *kept = reader_push(reader, &reader->operands, sizeof *kept);
            if (!kept)
                return false;
            *kept = operand;
        } while (lexer_accept(reader, ','));
    }
    if (!operand_keep(reader, first, &instruction.operands, &instruction.operand_count) ||
        !lexer_expect(reader, ';', "after the instruction"))
        return false;
    struct ptx_instruction *kept = reader_push(reader, &reader->instructions, sizeof *kept);
    if (!kept)
        return false;
    *kept = instruction;
    return true;
}
