/*
 * Constant expressions, as in C: 64-bit, signed unless an operand is unsigned; comparisons and logic give signed 0 or
 * 1. Floating-point constants know the four operations among themselves. Follows: PTX ISA, "Constants", "Constant
 * Expressions".
 */
#include <string.h>

#include "softgpu/ptx/reader.h"

static bool read_conditional(struct ptx_reader *, struct reader_value *, unsigned nesting);

/* (.s64) or (.u64); the parenthesis is already read. */
static bool read_cast(struct ptx_reader *reader, bool *is_unsigned)
{
    enum keyword keyword = lexer_keyword(reader);
    if (keyword != (enum keyword)(KEYWORD_FIRST_TYPE + PTX_S64) &&
        keyword != (enum keyword)(KEYWORD_FIRST_TYPE + PTX_U64))
        return reader_error(reader, reader->token.line, "a constant can be cast to .s64 and .u64 only");
    *is_unsigned = keyword == (enum keyword)(KEYWORD_FIRST_TYPE + PTX_U64);
    lexer_next(reader);
    return lexer_expect(reader, ')', "after the cast");
}

static bool read_primary(struct ptx_reader *reader, struct reader_value *value)
{
    if (reader->token.kind == TOKEN_INTEGER || reader->token.kind == TOKEN_FLOAT) {
        *value = (struct reader_value){ .is_float = reader->token.kind == TOKEN_FLOAT,
                                        .bits = reader->token.bits,
                                        .is_unsigned = reader->token.is_unsigned,
                                        .float_bits = reader->token.float_bits };
        lexer_next(reader);
        return true;
    }
    if (lexer_accept_word(reader, "WARP_SZ")) {
        *value = (struct reader_value){ .bits = 32 };
        return true;
    }
    char buffer[64];
    return reader_error(reader, reader->token.line, "expected a constant, found %s", lexer_describe(reader, buffer));
}

static bool read_unary(struct ptx_reader *reader, struct reader_value *value, unsigned nesting)
{
    uint32_t line = reader->token.line;
    if (nesting >= READER_MAX_NESTING)
        return reader_error(reader, line, "the constant expression is nested deeper than %d", READER_MAX_NESTING);
    int operator = reader->token.kind;
    if (operator == '(') {
        lexer_next(reader);
        if (reader->token.kind == TOKEN_DIRECTIVE) {
            bool is_unsigned = false;
            if (!read_cast(reader, &is_unsigned) || !read_unary(reader, value, nesting + 1))
                return false;
            if (value->is_float)
                return reader_error(reader, line, "a floating-point constant cannot be cast");
            value->is_unsigned = is_unsigned;
            return true;
        }
        return read_conditional(reader, value, nesting + 1) &&
               lexer_expect(reader, ')', "after the constant expression");
    }
    if (operator != '-' && operator != '+' && operator != '~' && operator != '!')
        return read_primary(reader, value);

    lexer_next(reader);
    if (!read_unary(reader, value, nesting + 1))
        return false;
    if (value->is_float) {
        if (operator == '-')
            value->bits ^= UINT64_C(1) << (value->float_bits - 1);
        return operator == '-' || operator == '+' ||
               reader_error(reader, line, "a floating-point constant after '%c'", operator);
    }
    if (operator == '-')
        value->bits = -value->bits;
    else if (operator == '~')
        value->bits = ~value->bits;
    else if (operator == '!')
        *value = (struct reader_value){ .bits = value->bits == 0 };
    return true;
}

static unsigned precedence(int operator)
{
    switch (operator) {
    case '*': case '/': case '%':                                                   return 10;
    case '+': case '-':                                                             return 9;
    case TOKEN_SHIFT_LEFT: case TOKEN_SHIFT_RIGHT:                                  return 8;
    case '<': case '>': case TOKEN_LESS_EQUAL: case TOKEN_GREATER_EQUAL:            return 7;
    case TOKEN_EQUAL: case TOKEN_NOT_EQUAL:                                         return 6;
    case '&':                                                                       return 5;
    case '^':                                                                       return 4;
    case '|':                                                                       return 3;
    case TOKEN_AND:                                                                 return 2;
    case TOKEN_OR:                                                                  return 1;
    default:                                                                        return 0;
    }
}

static uint64_t shift_right(uint64_t value, uint64_t by, bool is_unsigned)
{
    if (is_unsigned || !(value >> 63))
        return value >> by;
    return ~(~value >> by);
}

/* INT64_MIN / -1 wraps, like all arithmetic here. A remainder is always unsigned: -7 % 2 is 1 for ptxas, too. */
static uint64_t divide(uint64_t a, uint64_t b, bool is_unsigned, bool remainder)
{
    if (remainder)
        return a % b;
    if (is_unsigned)
        return a / b;
    return b == UINT64_MAX ? -a : (uint64_t)((int64_t)a / (int64_t)b);
}

/* Decimal constants know + - * / among themselves. */
static bool apply_float(struct ptx_reader *reader, uint32_t line, int operator, struct reader_value * left,
                        const struct reader_value *right)
{
    double a, b, result;
    if (!left->is_float || !right->is_float || left->float_bits != 64 || right->float_bits != 64)
        return reader_error(reader, line, "a floating-point constant meets one of another type");
    memcpy(&a, &left->bits, sizeof a);
    memcpy(&b, &right->bits, sizeof b);
    switch (operator) {
    case '+': result = a + b; break;
    case '-': result = a - b; break;
    case '*': result = a * b; break;
    case '/':
        if (b == 0)
            return reader_error(reader, line, "division by zero in a constant expression");
        result = a / b;
        break;
    default:
        return reader_error(reader, line, "this operator is for integer constants only");
    }
    memcpy(&left->bits, &result, sizeof result);
    return true;
}

static bool apply(struct ptx_reader *reader, uint32_t line, int operator, struct reader_value * left,
                  const struct reader_value *right)
{
    if (left->is_float || right->is_float)
        return apply_float(reader, line, operator, left, right);
    bool is_unsigned = left->is_unsigned || right->is_unsigned;
    uint64_t a = left->bits, b = right->bits;
    bool below = is_unsigned ? a < b : (int64_t)a < (int64_t)b;
    switch (operator) {
    case '*': left->bits = a * b; break;
    case '+': left->bits = a + b; break;
    case '-': left->bits = a - b; break;
    case '&': left->bits = a & b; break;
    case '^': left->bits = a ^ b; break;
    case '|': left->bits = a | b; break;
    case '/': case '%':
        if (b == 0)
            return reader_error(reader, line, "division by zero in a constant expression");
        left->bits = divide(a, b, is_unsigned, operator == '%');
        break;
    case TOKEN_SHIFT_LEFT: /* the type is the left operand's; by 64 is by 0, as ptxas does it */
        left->bits = a << (b & 63);
        return true;
    case TOKEN_SHIFT_RIGHT:
        left->bits = shift_right(a, b & 63, left->is_unsigned);
        return true;
    default: {
        bool truth = operator == '<' ? below : operator == TOKEN_GREATER_EQUAL ? !below :
                     operator == '>' ? !below && a != b : operator == TOKEN_LESS_EQUAL ? below || a == b :
                     operator == TOKEN_EQUAL ? a == b : operator == TOKEN_NOT_EQUAL ? a != b :
                     operator == TOKEN_AND ? a && b : a || b;
        *left = (struct reader_value){ .bits = truth };
        return true;
    }
    }
    left->is_unsigned = is_unsigned;
    return true;
}

static bool read_binary(struct ptx_reader *reader, struct reader_value *value, unsigned lowest, unsigned nesting)
{
    if (nesting >= READER_MAX_NESTING)
        return reader_error(reader, reader->token.line, "the constant expression is nested deeper than %d",
                            READER_MAX_NESTING);
    if (!read_unary(reader, value, nesting))
        return false;
    for (;;) {
        int operator = reader->token.kind;
        unsigned level = precedence(operator);
        if (!level || level < lowest)
            return true;
        uint32_t line = reader->token.line;
        struct reader_value right;
        lexer_next(reader);
        if (!read_binary(reader, &right, level + 1, nesting + 1) || !apply(reader, line, operator, value, &right))
            return false;
    }
}

static bool read_conditional(struct ptx_reader *reader, struct reader_value *value, unsigned nesting)
{
    struct reader_value yes, no;
    uint32_t line = reader->token.line;
    if (!read_binary(reader, value, 1, nesting))
        return false;
    if (!lexer_accept(reader, '?'))
        return true;
    if (!read_conditional(reader, &yes, nesting + 1) || !lexer_expect(reader, ':', "in the conditional expression") ||
        !read_conditional(reader, &no, nesting + 1))
        return false;
    if (value->is_float || yes.is_float != no.is_float)
        return reader_error(reader, line,
                            "a conditional expression needs an integer condition and two values of one type");
    *value = value->bits ? yes : no;
    if (!value->is_float)
        value->is_unsigned = yes.is_unsigned || no.is_unsigned;
    return true;
}

bool expression_read(struct ptx_reader *reader, struct reader_value *value)
{
    return read_conditional(reader, value, 0);
}

bool expression_read_integer(struct ptx_reader *reader, struct reader_value *value)
{
    uint32_t line = reader->token.line;
    if (!read_conditional(reader, value, 0))
        return false;
    return !value->is_float || reader_error(reader, line, "a floating-point constant where an integer is needed");
}

bool expression_read_sum(struct ptx_reader *reader, struct reader_value *value)
{
    uint32_t line = reader->token.line;
    if (!read_binary(reader, value, precedence('*'), 0))
        return false;
    return !value->is_float || reader_error(reader, line, "a floating-point constant where an integer is needed");
}
