/* Directives of module scope. Follows: PTX ISA, "Directives". */
#include <string.h>

#include "softgpu/ptx/reader.h"

/* .version 9.0: the lexer sees a decimal number, so its digits are read again here. */
static bool read_version(struct ptx_reader *reader)
{
    const char *at = reader->token.start;
    unsigned number[2] = { 0, 0 }, digits[2] = { 0, 0 }, part = 0;
    if (reader->token.kind != TOKEN_FLOAT || reader->token.float_bits != 64)
        return reader_error(reader, reader->token.line, ".version needs a number such as 7.5");
    for (; at < reader->token.end; at++) {
        if (*at == '.' && part == 0)
            part = 1;
        else if (*at >= '0' && *at <= '9' && digits[part]++ < 4)
            number[part] = number[part] * 10 + (unsigned)(*at - '0');
        else
            return reader_error(reader, reader->token.line, ".version needs a number such as 7.5");
    }
    if (number[0] > reader->version_major ||
        (number[0] == reader->version_major && number[1] > reader->version_minor)) {
        reader->version_major = number[0];
        reader->version_minor = number[1];
    }
    lexer_next(reader);
    return true;
}

/* .target sm_90a, debug */
static bool read_target(struct ptx_reader *reader)
{
    do {
        if (reader->token.kind != TOKEN_IDENTIFIER)
            return lexer_expect(reader, TOKEN_IDENTIFIER, "after .target");
        const char *text = reader->token.name->text;
        if (strncmp(text, "sm_", 3) == 0 || strncmp(text, "compute_", 8) == 0) {
            unsigned number = 0;
            for (const char *digit = strchr(text, '_') + 1; *digit >= '0' && *digit <= '9' && number < 100000; digit++)
                number = number * 10 + (unsigned)(*digit - '0');
            if (number > reader->target)
                reader->target = number;
        } else if (strcmp(text, "texmode_independent") == 0) {
            reader->texmode_independent = reader->any_texmode_independent = true;
        }
        lexer_next(reader);
    } while (lexer_accept(reader, ','));
    return true;
}

static bool read_address_size(struct ptx_reader *reader)
{
    if (reader->token.kind == TOKEN_INTEGER && reader->token.bits != 64)
        return reader_error(reader, reader->token.line,
                            ".address_size %llu: only programs with 64-bit addresses are supported",
                            (unsigned long long)reader->token.bits);
    return lexer_expect(reader, TOKEN_INTEGER, "after .address_size");
}

/* .file 1 "name" [, time, size] */
/* .file number "name" [, time, size] */
static bool read_file(struct ptx_reader *reader)
{
    struct ptx_file file = { .unit = reader->unit, .number = (uint32_t)reader->token.bits };
    if (!lexer_expect(reader, TOKEN_INTEGER, "after .file"))
        return false;
    if (reader->token.kind == TOKEN_STRING) {
        const char *start = reader->token.start, *end = reader->token.end;
        struct ptx_file *kept = reader_push(reader, &reader->files, sizeof *kept);
        bool quoted = end - start >= 2 && *start == '"' && end[-1] == '"';
        if (!kept || !(file.name = ptx_arena_string(reader->arena, start + quoted, (size_t)(end - start) - 2 * quoted)))
            return false;
        *kept = file;
    }
    if (!lexer_expect(reader, TOKEN_STRING, "after .file and its number"))
        return false;
    while (lexer_accept(reader, ','))
        if (!lexer_expect(reader, TOKEN_INTEGER, "in .file"))
            return false;
    return true;
}

/* .section .debug_str { … }: debug information, of which nothing is used. */
static bool skip_section(struct ptx_reader *reader)
{
    while (reader->token.kind == TOKEN_DIRECTIVE || reader->token.kind == TOKEN_IDENTIFIER ||
           reader->token.kind == TOKEN_STRING || reader->token.kind == ',')
        lexer_next(reader);
    if (reader->token.kind != '{')
        return lexer_expect(reader, '{', "after .section");
    return lexer_skip_block(reader);
}

static bool read_alias(struct ptx_reader *reader)
{
    struct reader_alias alias = { .line = reader->token.line, .name = reader->token.name };
    if (!lexer_expect(reader, TOKEN_IDENTIFIER, "after .alias") || !lexer_expect(reader, ',', "in .alias"))
        return false;
    alias.target = reader->token.name;
    if (!lexer_expect(reader, TOKEN_IDENTIFIER, "in .alias") || !lexer_expect(reader, ';', "after .alias"))
        return false;
    struct reader_alias *kept = reader_push(reader, &reader->aliases, sizeof *kept);
    if (!kept)
        return false;
    *kept = alias;
    return true;
}

static bool read_definition(struct ptx_reader *reader)
{
    struct reader_declaration declaration;
    if (!declare_qualifiers(reader, &declaration))
        return false;
    enum keyword keyword = lexer_keyword(reader);
    if (keyword == KEYWORD_ENTRY || keyword == KEYWORD_FUNC) {
        lexer_next(reader);
        return function_read(reader, declaration.linkage, keyword == KEYWORD_ENTRY);
    }
    if (!declaration.has_space) {
        char buffer[64];
        return reader_error(reader, reader->token.line, "unexpected %s at module scope",
                            lexer_describe(reader, buffer));
    }
    return declare_module_variables(reader, &declaration);
}

static bool read_directive(struct ptx_reader *reader)
{
    enum keyword keyword = lexer_keyword(reader);
    if (keyword >= KEYWORD_VERSION && keyword <= KEYWORD_ALIAS)
        lexer_next(reader);
    switch (keyword) {
    case KEYWORD_VERSION:      return read_version(reader);
    case KEYWORD_TARGET:       return read_target(reader);
    case KEYWORD_ADDRESS_SIZE: return read_address_size(reader);
    case KEYWORD_FILE: return read_file(reader);
    case KEYWORD_LOC: return function_read_loc(reader);
    case KEYWORD_SECTION:      return skip_section(reader);
    case KEYWORD_PRAGMA:       return function_skip_pragma(reader);
    case KEYWORD_ALIAS:        return read_alias(reader);
    default:                   return read_definition(reader);
    }
}

bool module_read_unit(struct ptx_reader *reader)
{
    reader->texmode_independent = false;
    if (lexer_keyword(reader) != KEYWORD_VERSION)
        return reader_error(reader, reader->token.line, "PTX text starts with .version");
    while (reader->token.kind != TOKEN_END) {
        if (lexer_accept(reader, ';'))
            continue;
        if (!read_directive(reader))
            return false;
    }
    return !reader->failed && link_finish_unit(reader);
}
