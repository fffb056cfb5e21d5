/* Constants and constant expressions: the values that ptxas writes for the same text. */
#include "tests/ptx/check.h"

static uint64_t value_of(const char *type, const char *expression)
{
    char text[256];
    uint64_t bits = 0;
    snprintf(text, sizeof text, ".global .%s x = %s;", type, expression);
    const struct ptx_variable *variable = ptx_check_variable(ptx_check_read(text), "x");
    assert_non_null(variable->init);
    memcpy(&bits, variable->init, variable->size < 8 ? variable->size : 8);
    ptx_check_free(NULL);
    return bits;
}

TEST_WITH(integers, NULL, ptx_check_free)
{
    static const struct { const char *text; uint64_t value;
    } cases[] = {
        { "0", 0 },
        { "42", 42 },
        { "010", 8 },
        { "0x1F", 31 },
        { "0X1fU", 31 },
        { "0b101", 5 },
        { "7U", 7 },
        { "18446744073709551615", UINT64_MAX },
        { "0xFFFFFFFFFFFFFFFF", UINT64_MAX },
        { "-1", UINT64_MAX },
        { "2+3*4-1", 13 },
        { "(2+3)*4", 20 },
        { "1|2^3&4", 3 },
        { "!5", 0 },
        { "!0", 1 },
        { "~5", ~UINT64_C(5) },
        { "-7/2", (uint64_t)-3 },
        { "5U/2", 2 },
        { "-7 % 2", 1 },
        { "-7>>1", (uint64_t)-4 },
        { "(.u64)-8>>1", UINT64_C(0x7ffffffffffffffc) },
        { "0x8000000000000000>>1", UINT64_C(0x4000000000000000) },
        { "(.s64)0x8000000000000000>>1", UINT64_C(0xc000000000000000) },
        { "1<<63", UINT64_C(1) << 63 },
        { "1<<64", 1 },
        { "-1 < 1", 1 },
        { "-1 < 1U", 0 },
        { "3 > 2 > 1", 0 },
        { "2 >= 2", 1 },
        { "2 <= 1", 0 },
        { "5==5", 1 },
        { "5!=5", 0 },
        { "5&&0", 0 },
        { "5||0", 1 },
        { "1 ? 2 : 3", 2 },
        { "0 ? 2 : 1 ? 7 : 8", 7 },
        { "WARP_SZ", 32 },
        { "WARP_SZ*2", 64 },
        { "- - 5", 5 },
        { "(-9223372036854775807-1)/-1", UINT64_C(1) << 63 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t value = value_of("u64", cases[i].text);
        if (value != cases[i].value)
            fail_msg("%s is %llx and not %llx", cases[i].text, (unsigned long long)value,
                     (unsigned long long)cases[i].value);
    }
}

TEST_WITH(integers_in_small_types, NULL, ptx_check_free)
{
    assert_int_equal(value_of("u8", "300"), 44);
    assert_int_equal(value_of("s8", "-1"), 255);
    assert_int_equal(value_of("u32", "0x1ffffffff"), 0xffffffff);
    assert_int_equal(value_of("b16", "0x3c00"), 0x3c00);
}

TEST_WITH(floats, NULL, ptx_check_free)
{
    assert_int_equal(value_of("f32", "1.5"), 0x3fc00000);
    assert_int_equal(value_of("f32", "-1.5"), 0xbfc00000);
    assert_int_equal(value_of("f32", "0f3FC00000"), 0x3fc00000);
    assert_int_equal(value_of("f32", "0F3fc00000"), 0x3fc00000);
    assert_int_equal(value_of("f32", "0d3FF8000000000000"), 0x3fc00000);
    assert_int_equal(value_of("f32", "0.1"), 0x3dcccccd);
    assert_int_equal(value_of("f32", "16777217.0"), 0x4b800000);
    assert_int_equal(value_of("f32", "1e-46"), 0);
    assert_int_equal(value_of("f32", "1.0+2.0"), 0x40400000);
    assert_int_equal(value_of("f32", "(6.0-2.0*1.5)/2.0"), 0x3fc00000);
    assert_int_equal(value_of("f64", "1.5"), UINT64_C(0x3ff8000000000000));
    assert_int_equal(value_of("f64", "15e-1"), UINT64_C(0x3ff8000000000000));
    assert_int_equal(value_of("f64", "0.1"), UINT64_C(0x3fb999999999999a));
    assert_int_equal(value_of("f64", "0d7FF0000000000000"), UINT64_C(0x7ff0000000000000));
    assert_int_equal(value_of("b32", "1.5"), 0x3fc00000);
    assert_int_equal(value_of("b64", "1.5"), UINT64_C(0x3ff8000000000000));
    assert_int_equal(value_of("b64", "0f3FC00000"), 0x3fc00000);
}

TEST_WITH(refused, NULL, ptx_check_free)
{
    ptx_check_refused(".global .u32 x = 1/0;", "division by zero");
    ptx_check_refused(".global .u32 x = 1 % (2-2);", "division by zero");
    ptx_check_refused(".global .f32 x = 1.0/0.0;", "division by zero");
    ptx_check_refused(".global .u32 x = 99999999999999999999;", "64 bits");
    ptx_check_refused(".global .u32 x = 08;", "inside a number");
    ptx_check_refused(".global .u32 x = 0b12;", "inside a number");
    ptx_check_refused(".global .u32 x = 0x;", "without digits");
    ptx_check_refused(".global .f32 x = 0f3F80000;", "8 hexadecimal digits");
    ptx_check_refused(".global .f64 x = 0d3FF;", "16 hexadecimal digits");
    ptx_check_refused(".global .f32 x = 1e400;", "too large");
    ptx_check_refused(".global .f32 x = 1e300;", "too large");
    ptx_check_refused(".global .f32 x = 1+2.0;", "another type");
    ptx_check_refused(".global .f32 x = ~1.0;", "floating-point");
    ptx_check_refused(".global .f32 x = (.s64)1.0;", "cast");
    ptx_check_refused(".global .u32 x = (.s32)1;", "cast");
    ptx_check_refused(".global .u32 x = 1.0 ? 1 : 2;", "conditional");
    ptx_check_refused(".global .u32 x = (1;", "expected ')'");
    ptx_check_refused(".global .u32 x = ;", "expected a constant");
}

int main(void) { return unit_run(NULL, NULL); }
