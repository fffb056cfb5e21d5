/* Text to tokens. Follows: PTX ISA, "Syntax": source format, comments, identifiers, constants. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/reader.h"

enum { LEXER_MAX_NAME = 1 << 20, LEXER_MAX_DECIMAL = 1024 };

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static char peek(const struct ptx_reader *reader, size_t ahead)
{
    return (size_t)(reader->end - reader->cursor) > ahead ? reader->cursor[ahead] : '\0';
}

bool lexer_start(struct ptx_reader *reader, const char *text, size_t size)
{
    reader->cursor = text;
    reader->end = text + strnlen(text, size);          /* fat binaries end the text with a NUL and padding */
    reader->line = 1;
    reader->token = (struct reader_token){ .line = 1 };
    reader->previous = TOKEN_END;
    lexer_next(reader);
    return !reader->failed;
}

static void skip_line(struct ptx_reader *reader)
{
    const char *newline = memchr(reader->cursor, '\n', (size_t)(reader->end - reader->cursor));
    reader->cursor = newline ? newline : reader->end;
}

/* Spaces, comments, lines of a preprocessor (#) and of old debug information (@@DWARF). */
static bool skip_space(struct ptx_reader *reader)
{
    for (;;) {
        char c = peek(reader, 0);
        reader->operations++;
        if (c == '\n') {
            reader->line++;
            reader->cursor++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            reader->cursor++;
        } else if ((c == '/' && peek(reader, 1) == '/') || c == '#' || (c == '@' && peek(reader, 1) == '@')) {
            skip_line(reader);
        } else if (c == '/' && peek(reader, 1) == '*') {
            uint32_t start = reader->line;
            reader->cursor += 2;
            while (!(peek(reader, 0) == '*' && peek(reader, 1) == '/')) {
                if (reader->cursor >= reader->end)
                    return reader_error(reader, start, "the comment that starts here does not end");
                reader->line += *reader->cursor == '\n';
                reader->cursor++;
            }
            reader->cursor += 2;
        } else {
            return true;
        }
    }
}

/* Exactly `digits` hexadecimal digits, the form of 0f and 0d literals. */
static bool read_float_pattern(struct ptx_reader *reader, unsigned digits)
{
    uint64_t bits = 0;
    const char *at = reader->cursor + 2;
    for (unsigned i = 0; i < digits; i++) {
        char c = at + i < reader->end ? at[i] : '\0';
        if (!isxdigit((unsigned char)c))
            return reader_error(reader, reader->line, "a 0%c number needs %u hexadecimal digits", reader->cursor[1],
                                digits);
        bits = bits << 4 | (unsigned)(is_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
    }
    reader->cursor = at + digits;
    reader->token.kind = TOKEN_FLOAT;
    reader->token.bits = bits;
    reader->token.float_bits = digits == 8 ? 32 : 64;
    return true;
}

static bool read_decimal_float(struct ptx_reader *reader, const char *end)
{
    char copy[LEXER_MAX_DECIMAL + 1];
    size_t size = (size_t)(end - reader->cursor);
    if (size > LEXER_MAX_DECIMAL)
        return reader_error(reader, reader->line, "a number of %zu characters is too long", size);
    memcpy(copy, reader->cursor, size);
    copy[size] = '\0';
    if (!reader->c_locale && !(reader->c_locale = newlocale(LC_ALL_MASK, "C", NULL)))
        return reader_error(reader, reader->line, "out of memory for the number %s", copy);
    double value = strtod_l(copy, NULL, reader->c_locale);   /* whatever locale the program has set */
    if (isinf(value))
        return reader_error(reader, reader->line, "the number %s is too large", copy);
    memcpy(&reader->token.bits, &value, sizeof value);
    reader->token.kind = TOKEN_FLOAT;
    reader->token.float_bits = 64;
    reader->cursor = end;
    return true;
}

static bool read_integer(struct ptx_reader *reader)
{
    unsigned base = 10;
    const char *at = reader->cursor;
    if (*at == '0') {
        char second = peek(reader, 1);
        if (second == 'x' || second == 'X') {
            base = 16;
            at += 2;
        } else if (second == 'b' || second == 'B') {
            base = 2;
            at += 2;
        } else {
            base = 8;
        }
    }
    const char *first = at;
    uint64_t value = 0;
    bool overflow = false;
    for (; at < reader->end; at++) {
        unsigned digit;
        if (is_digit(*at))
            digit = (unsigned)(*at - '0');
        else if (isxdigit((unsigned char)*at))
            digit = (unsigned)((*at | 32) - 'a' + 10);
        else
            break;
        if (digit >= base)
            break;
        overflow |= __builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value);
    }
    if (at == first)
        return reader_error(reader, reader->line, "a number without digits");
    if (overflow)
        return reader_error(reader, reader->line, "the number %.*s does not fit in 64 bits",
                            (int)(at - first > 80 ? 80 : at - first), first);
    bool suffix = at < reader->end && *at == 'U';
    reader->cursor = at + suffix;
    if (is_name_char(peek(reader, 0)))
        return reader_error(reader, reader->line, "'%c' inside a number", *reader->cursor);
    reader->token.kind = TOKEN_INTEGER;
    reader->token.bits = value;
    reader->token.is_unsigned = suffix || value > INT64_MAX;
    return true;
}

/* Where a decimal number with a point or an exponent ends; NULL when what stands here is an integer. */
static const char *decimal_float_end(const struct ptx_reader *reader)
{
    const char *at = reader->cursor;
    bool is_float = false;
    while (at < reader->end && is_digit(*at))
        at++;
    if (at < reader->end && *at == '.') {
        is_float = true;
        at++;
        while (at < reader->end && is_digit(*at))
            at++;
    }
    if (at < reader->end && (*at == 'e' || *at == 'E')) {
        const char *exponent = at + 1;
        if (exponent < reader->end && (*exponent == '+' || *exponent == '-'))
            exponent++;
        if (exponent < reader->end && is_digit(*exponent)) {
            is_float = true;
            while (exponent < reader->end && is_digit(*exponent))
                exponent++;
            at = exponent;
        }
    }
    return is_float ? at : NULL;
}

static bool read_number(struct ptx_reader *reader)
{
    if (*reader->cursor == '0') {
        char second = peek(reader, 1);
        if (second == 'f' || second == 'F')
            return read_float_pattern(reader, 8);
        if (second == 'd' || second == 'D')
            return read_float_pattern(reader, 16);
        if (second == 'x' || second == 'X' || second == 'b' || second == 'B')
            return read_integer(reader);
    }
    const char *end = decimal_float_end(reader);
    return end ? read_decimal_float(reader, end) : read_integer(reader);
}

/* The end of a word after a dot; "shared::cta" is one word. */
static const char *word_end(const struct ptx_reader *reader, const char *at)
{
    while (at < reader->end) {
        if (is_name_char(*at))
            at++;
        else if (*at == ':' && reader->end - at > 2 && at[1] == ':' && is_name_char(at[2]))
            at += 2;
        else
            break;
    }
    return at;
}

static bool read_name(struct ptx_reader *reader, int kind, const char *first, const char *end)
{
    if (end - first > LEXER_MAX_NAME)
        return reader_error(reader, reader->line, "a name of %zu characters is too long", (size_t)(end - first));
    reader->token.name = names_intern(reader, first, (size_t)(end - first));
    if (!reader->token.name)
        return false;
    reader->token.kind = kind;
    reader->cursor = end;
    return true;
}

static bool read_string(struct ptx_reader *reader)
{
    const char *at = reader->cursor + 1;
    while (at < reader->end && *at != '"' && *at != '\n')
        at += *at == '\\' && at + 1 < reader->end && at[1] != '\n' ? 2 : 1;
    if (at >= reader->end || *at != '"')
        return reader_error(reader, reader->line, "the string that starts here does not end");
    reader->token.kind = TOKEN_STRING;
    reader->cursor = at + 1;
    return true;
}

static bool read_dot(struct ptx_reader *reader)
{
    char next = peek(reader, 1);
    if (is_digit(next)) {                              /* .5 is a number, .2d and .16x64b are words */
        const char *end = decimal_float_end(reader);
        if (end && end == word_end(reader, reader->cursor + 1))
            return read_decimal_float(reader, end);
    }
    if (!is_name_char(next)) {
        reader->token.kind = '.';
        reader->cursor++;
        return true;
    }
    return read_name(reader, TOKEN_DIRECTIVE, reader->cursor + 1, word_end(reader, reader->cursor + 1));
}

static int two_char_operator(char first, char second)
{
    switch (first) {
    case '<': return second == '<' ? TOKEN_SHIFT_LEFT : second == '=' ? TOKEN_LESS_EQUAL : 0;
    case '>': return second == '>' ? TOKEN_SHIFT_RIGHT : second == '=' ? TOKEN_GREATER_EQUAL : 0;
    case '=': return second == '=' ? TOKEN_EQUAL : 0;
    case '!': return second == '=' ? TOKEN_NOT_EQUAL : 0;
    case '&': return second == '&' ? TOKEN_AND : 0;
    case '|': return second == '|' ? TOKEN_OR : 0;
    default:  return 0;
    }
}

static bool read_token(struct ptx_reader *reader)
{
    struct reader_token *token = &reader->token;
    char c = peek(reader, 0);
    if (reader->cursor >= reader->end) {
        token->kind = TOKEN_END;
        return true;
    }
    if (is_digit(c))
        return read_number(reader);
    /* % is the remainder after a value, and part of a name elsewhere. */
    bool percent_name = c == '%' && is_name_char(peek(reader, 1)) &&
                        !(is_digit(peek(reader, 1)) && (reader->previous == TOKEN_INTEGER || reader->previous == ')'));
    if ((is_name_char(c) && !is_digit(c)) || percent_name) {
        const char *end = reader->cursor + 1;
        while (end < reader->end && is_name_char(*end))
            end++;
        return read_name(reader, TOKEN_IDENTIFIER, reader->cursor, end);
    }
    if (c == '.')
        return read_dot(reader);
    if (c == '"')
        return read_string(reader);

    int two = two_char_operator(c, peek(reader, 1));
    if (two) {
        token->kind = two;
        reader->cursor += 2;
        return true;
    }
    if (!strchr("{}[]()<>,;:+-*/%&|^~!?=@", c))
        return reader_error(reader, reader->line,
                            isprint((unsigned char)c) ? "unexpected character '%c'" : "unexpected byte 0x%02x",
                            (unsigned char)c);
    token->kind = (unsigned char)c;
    reader->cursor++;
    return true;
}

void lexer_next(struct ptx_reader *reader)
{
    if (reader->failed) {
        reader->token.kind = TOKEN_END;
        return;
    }
    reader->previous = reader->token.kind;
    bool good = skip_space(reader);
    reader->token = (struct reader_token){ .line = reader->line, .start = reader->cursor };
    if (!good || !read_token(reader))
        reader->token.kind = TOKEN_END;
    reader->token.end = reader->cursor;
}

bool lexer_accept(struct ptx_reader *reader, int kind)
{
    if (reader->token.kind != kind)
        return false;
    lexer_next(reader);
    return true;
}

const char *lexer_describe(const struct ptx_reader *reader, char buffer[64])
{
    if (reader->token.kind == TOKEN_END)
        return "the end of the text";
    size_t size = (size_t)(reader->token.end - reader->token.start);
    if (size > 40)
        size = 40;
    snprintf(buffer, 64, "'%.*s'", (int)size, reader->token.start);
    return buffer;
}

bool lexer_expect(struct ptx_reader *reader, int kind, const char *where)
{
    if (lexer_accept(reader, kind))
        return true;
    char buffer[64];
    const char *found = lexer_describe(reader, buffer);
    if (kind < 256)
        return reader_error(reader, reader->token.line, "expected '%c' %s, found %s", kind, where, found);
    return reader_error(reader, reader->token.line, "expected %s %s, found %s",
                        kind == TOKEN_IDENTIFIER ? "a name" : kind == TOKEN_INTEGER ? "a number" :
                        kind == TOKEN_STRING ? "a string" : "another word", where, found);
}

bool lexer_accept_word(struct ptx_reader *reader, const char *identifier)
{
    if (reader->token.kind != TOKEN_IDENTIFIER || strcmp(reader->token.name->text, identifier) != 0)
        return false;
    lexer_next(reader);
    return true;
}

bool lexer_at_label(struct ptx_reader *reader)
{
    if (reader->token.kind != TOKEN_IDENTIFIER || peek(reader, 0) == '.' || !skip_space(reader))
        return false;
    return peek(reader, 0) == ':' && peek(reader, 1) != ':';
}

bool lexer_opcode(struct ptx_reader *reader, struct reader_name **name)
{
    const char *start = reader->token.start, *at = reader->cursor;
    bool dotted = at == reader->token.end;             /* lexer_at_label may have gone over spaces */
    while (dotted && at + 1 < reader->end && *at == '.' && is_name_char(at[1]))
        at = word_end(reader, at + 1);
    if (at - start > LEXER_MAX_NAME)
        return reader_error(reader, reader->line, "an opcode of %zu characters is too long", (size_t)(at - start));
    *name = at == reader->token.end || !dotted ? reader->token.name : names_intern(reader, start, (size_t)(at - start));
    reader->cursor = at;
    if (!*name)
        return false;
    lexer_next(reader);
    return true;
}

/* What lexer_skip_block must look at. */
static bool ends_run(char c)
{
    return c == '\n' || c == '{' || c == '}' || c == '"' || c == '/' || c == '#' || c == '@';
}

bool lexer_skip_block(struct ptx_reader *reader)
{
    uint32_t start = reader->token.line;
    uint64_t open = 1;
    while (open) {
        const char *at = reader->cursor;
        while (at < reader->end && !ends_run(*at))
            at++;
        reader->operations += (uint64_t)(at - reader->cursor);
        reader->cursor = at;
        if (!skip_space(reader))                       /* comments, lines */
            return false;
        if (reader->cursor >= reader->end)
            return reader_error(reader, start, "the block that starts here does not end");
        char c = *reader->cursor;
        if (c == '"') {
            if (!read_string(reader))
                return false;
            continue;
        }
        open += c == '{';
        open -= c == '}';
        reader->cursor++;
    }
    reader->previous = '}';
    lexer_next(reader);
    return !reader->failed;
}
