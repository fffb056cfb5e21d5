/*
 * Initialisers of .global and .const variables: numbers, addresses, nested braces as in C.
 *
 * The value is collected in reader->bytes as far as it is written, then copied into zeroed memory of the
 * variable's size. Addresses become relocations that wait for the end of the unit.
 * A vector counts as the innermost dimension, in braces of its own. Follows: PTX ISA, "Initializers".
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/reader.h"

struct initialiser_shape {
    enum ptx_type type;
    unsigned      element;                             /* bytes */
    unsigned      levels;
    uint64_t
        extent[READER_MAX_DIMENSIONS + 2]; /* bytes of one item at each level: [0] the variable, [levels] one element */
    bool          is_vector;                           /* the innermost braces hold a vector */
    bool          open;                                /* the first dimension is as long as needed */
};

static bool make_room(struct ptx_reader *reader, uint64_t size)
{
    struct reader_vector *bytes = &reader->bytes;
    if (size <= bytes->count)
        return true;
    if (size > READER_MAX_INIT)
        return reader_error(reader, reader->token.line, "an initialiser of more than %llu bytes",
                            (unsigned long long)READER_MAX_INIT);
    if (size > bytes->capacity) {
        size_t capacity = bytes->capacity ? bytes->capacity : 256;
        while (capacity < size)
            capacity *= 2;
        if (!reader_grow(bytes, capacity, 1))
            return reader_error(reader, reader->token.line, "out of memory for an initialiser");
    }
    memset((char *)bytes->items + bytes->count, 0, size - bytes->count);
    reader->operations += size - bytes->count;
    bytes->count = size;
    return true;
}

/* A decimal or 0d constant as a single. What is too large for it is an error. */
static bool narrow(struct ptx_reader *reader, uint64_t *bits)
{
    double number;
    float single;
    uint32_t pattern;
    memcpy(&number, bits, sizeof number);
    single = (float)number;
    if (isinf(single) && !(*bits << 1 == UINT64_C(0xffe0000000000000)))
        return reader_error(reader, reader->token.line, "the constant is too large for a single");
    memcpy(&pattern, &single, sizeof pattern);
    *bits = pattern;
    return true;
}

/* The bits of a constant in a variable of that type. A 0f constant stays as it is, even in 64 bits. */
static bool convert(struct ptx_reader *reader, const struct reader_value *value, enum ptx_type type, uint64_t *bits)
{
    *bits = value->bits;
    if (value->is_float)
        return value->float_bits == 32 || (type != PTX_F32 && type != PTX_B32) || narrow(reader, bits);
    if (type == PTX_F32) {
        float number = value->is_unsigned ? (float)value->bits : (float)(int64_t)value->bits;
        uint32_t pattern;
        memcpy(&pattern, &number, sizeof pattern);
        *bits = pattern;
    } else if (type == PTX_F64) {
        double number = value->is_unsigned ? (double)value->bits : (double)(int64_t)value->bits;
        memcpy(bits, &number, sizeof number);
    }
    return true;
}

static bool write_element(struct ptx_reader *reader, const struct initialiser_shape *shape, uint64_t at,
                          const struct reader_value *value)
{
    uint64_t bits;
    if (!make_room(reader, at + shape->element) || !convert(reader, value, shape->type, &bits))
        return false;
    for (unsigned i = 0; i < shape->element && i < sizeof bits; i++)
        ((uint8_t *)reader->bytes.items)[at + i] = (uint8_t)(bits >> (8 * i));
    return true;
}

/* The symbol of an address: name, generic(name), either with + and - constants inside or behind. */
static bool read_addend(struct ptx_reader *reader, int64_t *addend)
{
    while (reader->token.kind == '+' || reader->token.kind == '-') {
        bool minus = reader->token.kind == '-';
        struct reader_value value;
        lexer_next(reader);
        if (!expression_read_sum(reader, &value))
            return false;
        *addend = (int64_t)((uint64_t)*addend + (minus ? -value.bits : value.bits));
    }
    return true;
}

static bool read_symbol(struct ptx_reader *reader, struct reader_relocation *relocation)
{
    relocation->line = reader->token.line;
    relocation->name = reader->token.name;
    if (!lexer_expect(reader, TOKEN_IDENTIFIER, "in the initialiser"))
        return false;
    if (strcmp(relocation->name->text, "generic") == 0 && lexer_accept(reader, '(')) {
        relocation->relocation.generic = true;
        relocation->name = reader->token.name;
        if (!lexer_expect(reader, TOKEN_IDENTIFIER, "after generic(") ||
            !read_addend(reader, &relocation->relocation.addend) || !lexer_expect(reader, ')', "after generic(name"))
            return false;
    }
    return read_addend(reader, &relocation->relocation.addend);
}

/* mask(address): the mask is eight ones, at the byte of the address that is wanted. */
static bool read_masked(struct ptx_reader *reader, uint64_t mask, struct reader_relocation *relocation)
{
    unsigned shift = mask ? (unsigned)__builtin_ctzll(mask) : 0;
    if (shift % 8 || mask >> shift != 0xff)
        return reader_error(reader, reader->token.line, "the mask 0x%llx does not select one byte",
                            (unsigned long long)mask);
    relocation->relocation.shift = shift;
    relocation->relocation.size = 1;
    return lexer_expect(reader, '(', "after the mask") && read_symbol(reader, relocation) &&
           lexer_expect(reader, ')', "after the masked address");
}

static bool read_element(struct ptx_reader *reader, const struct initialiser_shape *shape, uint64_t at)
{
    struct reader_relocation relocation = { .relocation = { .offset = at, .size = shape->element } };
    uint32_t line = reader->token.line;
    bool is_symbol = reader->token.kind == TOKEN_IDENTIFIER && strcmp(reader->token.name->text, "WARP_SZ") != 0;
    if (is_symbol) {
        if (!read_symbol(reader, &relocation))
            return false;
    } else {
        struct reader_value value;
        if (!expression_read(reader, &value))
            return false;
        if (reader->token.kind != '(')
            return write_element(reader, shape, at, &value);
        if (value.is_float || !read_masked(reader, value.bits, &relocation))
            return reader_error(reader, line, "a mask must be an integer");
    }
    if (is_symbol && shape->element != 4 && shape->element != 8)
        return reader_error(reader, line, "an address does not fit in an element of %u bytes", shape->element);
    const struct reader_value zero = { 0 };
    struct reader_relocation *kept = write_element(reader, shape, at, &zero) ?
        reader_push(reader, &reader->relocations, sizeof *kept) : NULL;
    if (!kept)
        return false;
    *kept = relocation;
    return true;
}

/* { … } of an item of that level, which starts at byte `base`. Numbers stand in the innermost braces only. */
static bool read_braces(struct ptx_reader *reader, const struct initialiser_shape *shape, unsigned level, uint64_t base)
{
    uint64_t at = base, item = shape->extent[level + 1], extent = shape->extent[level];
    bool innermost = level + 1 == shape->levels, open = level == 0 && shape->open;
    if (!lexer_expect(reader, '{', "in the initialiser: each dimension has its braces"))
        return false;
    if (lexer_accept(reader, '}'))
        return true;
    do {
        uint32_t line = reader->token.line;
        if (open ? at > READER_MAX_INIT : at - base >= extent || item > extent - (at - base))
            return reader_error(reader, line, "the initialiser has more elements than the variable");
        if (!(innermost ? read_element(reader, shape, at) : read_braces(reader, shape, level + 1, at)))
            return false;
        at += item;
    } while (lexer_accept(reader, ','));
    if (innermost && shape->is_vector && at - base != extent)
        return reader_error(reader, reader->token.line, "a vector needs all its elements");
    if (open && !make_room(reader, at))
        return false;
    return lexer_expect(reader, '}', "at the end of the initialiser");
}

static bool keep_bytes(struct ptx_reader *reader, struct ptx_variable *variable)
{
    if (variable->size > READER_MAX_INIT - reader->init_bytes)
        return reader_error(reader, reader->token.line,
                            "'%s': initialised variables take more than %llu bytes together", variable->name,
                            (unsigned long long)READER_MAX_INIT);
    reader->init_bytes += variable->size;
    uint8_t *init = reader_alloc(reader, variable->size, 1);
    if (!init)
        return false;
    if (reader->bytes.count)
        memcpy(init, reader->bytes.items, reader->bytes.count);
    variable->init = init;
    return true;
}

bool initialiser_read(struct ptx_reader *reader, struct ptx_variable *variable, const uint64_t *dimensions,
                      unsigned dimension_count)
{
    struct initialiser_shape shape = { .type = variable->type,
                                       .element = (unsigned)ptx_type_size(variable->type),
                                       .open = variable->unsized,
                                       .is_vector = variable->vector > 1 };
    if (variable->type >= PTX_TEXREF)
        return opaque_read(reader, variable);
    if (variable->type >= PTX_F16 && variable->type <= PTX_BF16X2)
        return reader_error(reader, reader->token.line, "'%s': variables of type .%s have no initialisers",
                            variable->name, ptx_type_name(variable->type));
    shape.levels = dimension_count + (variable->vector > 1);
    uint64_t extent = shape.element;
    for (unsigned level = shape.levels; level-- > 0;) {
        shape.extent[level + 1] = extent;
        extent *= level < dimension_count ? dimensions[level] : variable->vector;
    }
    shape.extent[0] = extent;

    reader->bytes.count = 0;
    if (!(shape.levels ? read_braces(reader, &shape, 0, 0) : read_element(reader, &shape, 0)))
        return false;
    if (variable->unsized) {
        uint64_t item = shape.extent[1];
        variable->size = item ? (reader->bytes.count + item - 1) / item * item : 0;
        variable->unsized = false;
        if (variable->size == 0)
            return reader_error(reader, reader->token.line, "'%s': an empty initialiser gives no size", variable->name);
    }
    return keep_bytes(reader, variable);
}
