/*
 * Initialisers of .global and .const variables: numbers, addresses, nested braces as in C.
 *
 * The value is collected in reader->bytes as far as it is written, then copied into zeroed memory of the
 * variable's size. Addresses become relocations that wait for the end of the unit.
 * A vector counts as the innermost dimension. Follows: PTX ISA, "Initializers".
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/reader.h"

struct shape {
    enum ptx_type type;
    unsigned      element;                             /* bytes */
    unsigned      levels;
    uint64_t      extent[READER_MAX_DIMENSIONS + 2];   /* bytes of one item at each level; [levels] is one element */
    bool          open;                                /* the first dimension is as long as needed */
};

static bool make_room(struct ptx_reader *reader, uint64_t size)
{
    struct reader_vector *bytes = &reader->bytes;
    if (size <= bytes->count)
        return true;
    if (size > READER_MAX_INIT)
        return reader_error(reader, reader->token.line, "an initialiser of more than %llu bytes", (unsigned long long)READER_MAX_INIT);
    if (size > bytes->capacity) {
        size_t capacity = bytes->capacity ? bytes->capacity : 256;
        while (capacity < size)
            capacity *= 2;
        void *items = realloc(bytes->items, capacity);
        if (!items)
            return reader_error(reader, reader->token.line, "out of memory for an initialiser");
        bytes->items = items;
        bytes->capacity = capacity;
    }
    memset((char *)bytes->items + bytes->count, 0, size - bytes->count);
    reader->operations += size - bytes->count;
    bytes->count = size;
    return true;
}

static unsigned round_to_even(double value)           /* at most 2^12, not negative; whatever the rounding mode is */
{
    unsigned whole = (unsigned)value;
    double rest = value - whole;
    return whole + (rest > 0.5 || (rest == 0.5 && (whole & 1)));
}

static uint16_t half_from_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    double magnitude = fabs(value);
    if (isnan(value))
        return 0x7fff;
    if (magnitude >= 65520.0)                          /* half way to the next after the largest */
        return sign | 0x7c00;
    if (magnitude < 0x1p-14)
        return (uint16_t)(sign | round_to_even(magnitude * 0x1p24));
    int exponent;
    double fraction = frexp(magnitude, &exponent);     /* in [0.5, 1) */
    return (uint16_t)(sign | (((unsigned)(exponent + 13) << 10) + round_to_even(fraction * 2048)));
}

static uint16_t bfloat_from_double(double value)
{
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (isnan(value))
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double as_double(const struct reader_value *value)
{
    double result;
    if (!value->is_float)
        return value->is_unsigned ? (double)value->bits : (double)(int64_t)value->bits;
    if (value->float_bits == 32) {
        uint32_t bits = (uint32_t)value->bits;
        float single;
        memcpy(&single, &bits, sizeof single);
        return single;
    }
    memcpy(&result, &value->bits, sizeof result);
    return result;
}

/* The bits of a constant in a variable of that type. */
static uint64_t convert(const struct reader_value *value, enum ptx_type type)
{
    switch (type) {
    case PTX_F64: {
        double number = as_double(value);
        uint64_t bits;
        if (value->is_float && value->float_bits == 64)
            return value->bits;                        /* NaN payloads stay */
        memcpy(&bits, &number, sizeof bits);
        return bits;
    }
    case PTX_F32: {
        if (value->is_float && value->float_bits == 32)
            return value->bits;
        float number = (float)as_double(value);
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        return bits;
    }
    case PTX_F16:
        return value->is_float ? half_from_double(as_double(value)) : value->bits;
    case PTX_BF16:
        return value->is_float ? bfloat_from_double(as_double(value)) : value->bits;
    default:
        return value->bits;
    }
}

static bool write_element(struct ptx_reader *reader, const struct shape *shape, uint64_t at, const struct reader_value *value)
{
    if (!make_room(reader, at + shape->element))
        return false;
    uint64_t bits = convert(value, shape->type);
    for (unsigned i = 0; i < shape->element; i++) {
        uint8_t extension = !value->is_unsigned && !value->is_float && value->bits >> 63 ? 0xff : 0;
        ((uint8_t *)reader->bytes.items)[at + i] = (uint8_t)(i < 8 ? bits >> (8 * i) : extension);
    }
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
    unsigned shift = mask ? (unsigned)__builtin_ctzll(mask) : 64;
    if (shift % 8 || mask >> shift != 0xff)
        return reader_error(reader, reader->token.line, "the mask 0x%llx does not select one byte", (unsigned long long)mask);
    relocation->relocation.shift = shift;
    relocation->relocation.size = 1;
    return lexer_expect(reader, '(', "after the mask") && read_symbol(reader, relocation) &&
           lexer_expect(reader, ')', "after the masked address");
}

static bool read_element(struct ptx_reader *reader, const struct shape *shape, uint64_t at)
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
    if (relocation.relocation.size > 8 || relocation.relocation.size > shape->element || (relocation.relocation.size != 1 && relocation.relocation.size < 4))
        return reader_error(reader, line, "an address does not fit in an element of %u bytes", shape->element);
    const struct reader_value zero = { 0 };
    struct reader_relocation *kept = write_element(reader, shape, at, &zero) ?
        reader_push(reader, &reader->relocations, sizeof *kept) : NULL;
    if (!kept)
        return false;
    *kept = relocation;
    return true;
}

/* { … } of an item of that level, which starts at byte `base`. */
static bool read_braces(struct ptx_reader *reader, const struct shape *shape, unsigned level, uint64_t base)
{
    if (level > shape->levels + 1)                     /* C allows one pair around a single element */
        return reader_error(reader, reader->token.line, "the initialiser has more braces than the variable has dimensions");
    unsigned inner = level < shape->levels ? level + 1 : shape->levels;
    uint64_t at = base, item = shape->extent[inner];
    uint64_t extent = shape->extent[level < shape->levels ? level : shape->levels];
    bool open = level == 0 && shape->open;
    lexer_next(reader);
    while (reader->token.kind != '}') {
        uint32_t line = reader->token.line;
        uint64_t used;
        if (reader->token.kind == '{') {
            at = base + (item ? (at - base + item - 1) / item * item : 0);
            used = item;
        } else {
            used = shape->element;
        }
        if (!open && (at - base > extent || used > extent - (at - base)))
            return reader_error(reader, line, "the initialiser has more elements than the variable");
        if (open && at > READER_MAX_INIT)
            return reader_error(reader, line, "an initialiser of more than %llu bytes", (unsigned long long)READER_MAX_INIT);
        bool good = reader->token.kind == '{' ? read_braces(reader, shape, inner == level ? level + 1 : inner, at)
                                               : read_element(reader, shape, at);
        if (!good)
            return false;
        at += used;
        if (!lexer_accept(reader, ','))
            break;
    }
    if (open && !make_room(reader, at))
        return false;
    return lexer_expect(reader, '}', "at the end of the initialiser");
}

static bool keep_bytes(struct ptx_reader *reader, struct ptx_variable *variable)
{
    if (variable->size > READER_MAX_INIT - reader->init_bytes)
        return reader_error(reader, reader->token.line, "'%s': initialised variables take more than %llu bytes together",
                            variable->name, (unsigned long long)READER_MAX_INIT);
    reader->init_bytes += variable->size;
    uint8_t *init = reader_alloc(reader, variable->size, 1);
    if (!init)
        return false;
    if (reader->bytes.count)
        memcpy(init, reader->bytes.items, reader->bytes.count);
    variable->init = init;
    return true;
}

bool initialiser_read(struct ptx_reader *reader, struct ptx_variable *variable, const uint64_t *dimensions, unsigned dimension_count)
{
    struct shape shape = { .type = variable->type, .element = (unsigned)ptx_type_size(variable->type), .open = variable->unsized };
    if (variable->type >= PTX_TEXREF)
        return reader_error(reader, reader->token.line, "'%s': initialised texture, sampler and surface references are not supported", variable->name);
    shape.levels = dimension_count + (variable->vector > 1);
    uint64_t extent = shape.element;
    for (unsigned level = shape.levels; level-- > 0;) {
        shape.extent[level + 1] = extent;
        extent *= level < dimension_count ? dimensions[level] : variable->vector;
    }
    shape.extent[0] = extent;

    reader->bytes.count = 0;
    if (reader->token.kind == '{') {
        if (!read_braces(reader, &shape, 0, 0))
            return false;
    } else if (shape.levels) {
        return reader_error(reader, reader->token.line, "'%s': an array or vector needs braces", variable->name);
    } else if (!read_element(reader, &shape, 0)) {
        return false;
    }
    if (variable->unsized) {
        uint64_t item = shape.extent[1];
        variable->size = item ? (reader->bytes.count + item - 1) / item * item : 0;
        variable->unsized = false;
    }
    return keep_bytes(reader, variable);
}
