/*
 * scan.c: goes over the instructions that compilers write most, while a body is only checked.
 *
 * It knows a few forms: a guard, an opcode with its modifiers, and operands that are registers of ranges, names
 * declared before, decimal integers, 0f and 0d numbers, addresses of a register or name and a number, and vectors of
 * these; and braces around such instructions. It never refuses anything: at whatever else it meets it stops in front
 * of the instruction, and the reader says what that is. So what it accepts must be a part of what instruction.c and
 * operand.c accept, with the same ranges and predicates.
 *
 * The text ends with a NUL that belongs to no form (later.c), so the end needs no look of its own.
 */
#include "softgpu/ptx/reader.h"

enum { MOST_MODIFIERS = 16, MOST_PREFIX = 8, MOST_DIGITS = 9, MOST_INTEGER = 18 };

struct scanner {
    struct ptx_reader *reader;
    const char *at;
    uint32_t line;
};

/* One bit for each of the characters below 128. */
struct set { uint64_t low, high; };
static const struct set digits      = { UINT64_C(0x03ff) << 48, 0 };
static const struct set letters     = { 0, UINT64_C(0x07fffffe07fffffe) };
static const struct set hexadecimal = { UINT64_C(0x03ff) << 48, UINT64_C(0x0000007e0000007e) };
/* Digits and $; letters and _. */
static const struct set names       = { UINT64_C(0x03ff) << 48 | UINT64_C(1) << 36, UINT64_C(0x07fffffe87fffffe) };
/* What may stand behind a number: tab, newline, space, comma; semicolon, ], }. */
static const struct set delimiters  = { UINT64_C(1) << 9 | UINT64_C(1) << 10 | UINT64_C(1) << 32 | UINT64_C(1) << 44 |
                                            UINT64_C(1) << 59,
                                        UINT64_C(1) << 29 | UINT64_C(1) << 61 };

static inline bool is_in(struct set set, char c)
{
    unsigned char u = (unsigned char)c;
    return u < 128 && ((u < 64 ? set.low : set.high) >> (u & 63) & 1);
}

static inline void skip_blanks(struct scanner *scan)
{
    while (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n')
        scan->line += *scan->at++ == '\n';
}

static void skip_blanks_and_comments(struct scanner *scan)
{
    for (;;) {
        skip_blanks(scan);
        if (scan->at[0] != '/' || scan->at[1] != '/')
            return;
        while (*scan->at && *scan->at != '\n')
            scan->at++;
    }
}

/* A register of a range, such as %rd12, without a component behind it. */
static bool scan_register(struct scanner *scan, enum ptx_type *type)
{
    const char *at = scan->at + 1;
    uint64_t characters = 0;
    unsigned number = 0, size = 0;
    if (*scan->at != '%')
        return false;
    for (; is_in(letters, *at) && size < MOST_PREFIX; size++)
        characters = characters << 8 | (unsigned char)*at++;
    const char *first = at;
    while (is_in(digits, *at) && at - first < MOST_DIGITS)
        number = number * 10 + (unsigned)(*at++ - '0');
    if (at == first || is_in(names, *at) || *at == '.')
        return false;
    const struct reader_prefix *prefix = names_prefix_slot(scan->reader, characters);
    bool known = prefix->range && prefix->characters == characters;
    const struct reader_binding *range = known ? prefix->range->binding : NULL;
    if (!range || number >= range->range.count)
        return false;
    *type = range->range.type;
    scan->at = at;
    return true;
}

static bool scan_pattern(struct scanner *scan, unsigned count)
{
    const char *at = scan->at + 2;
    for (unsigned i = 0; i < count; i++)
        if (!is_in(hexadecimal, *at++))
            return false;
    scan->at = at;
    return is_in(delimiters, *at);
}

static bool scan_number(struct scanner *scan)
{
    const char *at = scan->at;
    bool minus = *at == '-';
    at += minus;
    if (at[0] == '0' && !minus) {
        if (at[1] == 'f' || at[1] == 'F')
            return scan_pattern(scan, 8);
        if (at[1] == 'd' || at[1] == 'D')
            return scan_pattern(scan, 16);
    }
    const char *first = at;
    while (is_in(digits, *at) && at - first < MOST_INTEGER)
        at++;
    if (at == first || (*first == '0' && at - first > 1))      /* an octal number is the reader's */
        return false;
    scan->at = at;
    return is_in(delimiters, *at);
}

/* A name that is bound: a variable, a parameter, a function, a label that stands before. What uses a function's name
   is the reader's: it notes whose address is taken. */
static bool scan_name(struct scanner *scan, const struct reader_binding **binding)
{
    const char *first = scan->at, *at = first;
    while (is_in(names, *at))
        at++;
    if (at == first || is_in(digits, *first) || *at == '.')
        return false;
    const struct reader_name *name = names_find(scan->reader, first, (size_t)(at - first));
    *binding = name ? name->binding : NULL;
    scan->at = at;
    return *binding;
}

static bool scan_base(struct scanner *scan)
{
    enum ptx_type type;
    const struct reader_binding *binding;
    if (*scan->at == '%')
        return scan_register(scan, &type);
    return scan_name(scan, &binding) && (binding->kind == BINDING_VARIABLE || binding->kind == BINDING_LOCAL ||
                                         binding->kind == BINDING_PARAM || binding->kind == BINDING_RETURN);
}

static bool scan_address(struct scanner *scan)
{
    scan->at++;
    if (!scan_base(scan))
        return false;
    if (*scan->at == '+') {
        scan->at++;
        if (!scan_number(scan))
            return false;
    }
    return *scan->at++ == ']';
}

static bool scan_simple(struct scanner *scan)
{
    enum ptx_type type;
    const struct reader_binding *binding;
    char c = *scan->at;
    if (c == '%')
        return scan_register(scan, &type);
    if (is_in(digits, c) || c == '-')
        return scan_number(scan);
    return scan_name(scan, &binding) && binding->kind != BINDING_FUNCTION;
}

static bool scan_vector(struct scanner *scan)
{
    for (;;) {
        scan->at++;
        skip_blanks(scan);
        if (!scan_simple(scan))
            return false;
        skip_blanks(scan);
        if (*scan->at != ',')
            return *scan->at++ == '}';
    }
}

static bool scan_operand(struct scanner *scan)
{
    return *scan->at == '[' ? scan_address(scan) : *scan->at == '{' ? scan_vector(scan) : scan_simple(scan);
}

static bool scan_opcode(struct scanner *scan)
{
    const char *at = scan->at;
    unsigned modifiers = 0;
    if (*at < 'a' || *at > 'z')
        return false;
    while (is_in(names, *at))
        at++;
    while (*at == '.' && modifiers++ < MOST_MODIFIERS) {
        at++;
        if (!is_in(names, *at))
            return false;
        while (is_in(names, *at) || (at[0] == ':' && at[1] == ':' && is_in(names, at[2])))
            at += *at == ':' ? 2 : 1;
    }
    scan->at = at;
    return *at == ' ' || *at == '\t' || *at == ';';
}

static bool scan_guard(struct scanner *scan)
{
    enum ptx_type type;
    if (*scan->at != '@')
        return true;
    scan->at++;
    if (*scan->at == '!')
        scan->at++;
    if (!scan_register(scan, &type) || type != PTX_PRED)
        return false;
    skip_blanks(scan);
    return true;
}

static bool scan_instruction(struct scanner *scan)
{
    if (!scan_guard(scan) || !scan_opcode(scan))
        return false;
    skip_blanks(scan);
    if (*scan->at == ';') {
        scan->at++;
        return true;
    }
    for (;;) {
        if (!scan_operand(scan))
            return false;
        skip_blanks(scan);
        char c = *scan->at++;
        if (c == ';')
            return true;
        if (c != ',')
            return false;
        skip_blanks(scan);
    }
}

/* From the current token, which begins a statement, over as many instructions as it can, and over blocks of them. A
   block in a block is the reader's, so that nothing is looked at more than twice here. */
bool scan_instructions(struct ptx_reader *reader)
{
    struct scanner scan = { .reader = reader, .at = reader->token.start, .line = reader->token.line };
    const char *start = scan.at, *behind = scan.at;
    uint32_t line = scan.line;
    bool inside = false;
    while (reader->plain) {
        if (*scan.at == (inside ? '}' : '{') && reader->depth + 1 < READER_MAX_SCOPES) {
            inside = !inside;
            scan.at++;
        } else if (!scan_instruction(&scan)) {
            break;
        }
        if (!inside) {
            behind = scan.at;
            line = scan.line;
        }
        skip_blanks_and_comments(&scan);
    }
    reader->operations += (uint64_t)(scan.at - start);
    if (behind == start)
        return false;
    reader->cursor = behind;
    reader->line = line;
    reader->token.kind = ';';
    lexer_next(reader);
    return true;
}
