/*
 * reduce.c: arithmetic of collectives.
 *
 * shows: collectives: 12 types and 6 operations, against a model; small floats round to the nearest, for every value
 */
#include "tests/lib/unit.h"

#include "cpu/comm/reduce/reduce.h"

#include <math.h>

static const enum comm_type small[] = { COMM_FLOAT16, COMM_BFLOAT16, COMM_FLOAT8_E4M3, COMM_FLOAT8_E5M2 };

TEST(every_small_float_is_the_same_after_a_round_trip)
{
    for (unsigned t = 0; t < 4; t++) {
        unsigned count = comm_type_size(small[t]) == 1 ? 256 : 65536;
        for (unsigned bits = 0; bits < count; bits++) {
            float value = comm_small_to_float(small[t], (uint16_t)bits);
            uint16_t back = comm_small_from_float(small[t], value);
            if (isnan(value))
                assert_true(isnan(comm_small_to_float(small[t], back)));
            else
                assert_int_equal(back, bits);
        }
    }
}

TEST(known_values)
{
    static const struct { enum comm_type type; uint16_t bits; double value; } known[] = {
        { COMM_FLOAT16, 0x3c00, 1 },          { COMM_FLOAT16, 0x7bff, 65504 },    { COMM_FLOAT16, 1, 0x1p-24 },
        { COMM_FLOAT16, 0xc000, -2 },         { COMM_BFLOAT16, 0x3f80, 1 },       { COMM_BFLOAT16, 0x4049, 3.140625 },
        { COMM_FLOAT8_E4M3, 0x38, 1 },        { COMM_FLOAT8_E4M3, 0x7e, 448 },    { COMM_FLOAT8_E4M3, 1, 0.001953125 },
        { COMM_FLOAT8_E5M2, 0x3c, 1 },        { COMM_FLOAT8_E5M2, 0x7b, 57344 },  { COMM_FLOAT8_E5M2, 1, 0x1p-16 },
    };
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true((double)comm_small_to_float(known[i].type, known[i].bits) == known[i].value);
        assert_int_equal(comm_small_from_float(known[i].type, (float)known[i].value), known[i].bits);
    }
    assert_int_equal(comm_small_from_float(COMM_FLOAT16, 65520), 0x7c00);       /* half way: up, to infinity */
    assert_int_equal(comm_small_from_float(COMM_FLOAT16, 65519), 0x7bff);
    assert_int_equal(comm_small_from_float(COMM_FLOAT8_E4M3, 1000), 0x7f);      /* no infinity: NaN */
    assert_int_equal(comm_small_from_float(COMM_FLOAT16, -0.0f), 0x8000);
}

TEST(rounding_is_to_the_nearest_and_to_even)
{
    unsigned seed = 1;
    for (unsigned t = 0; t < 4; t++) {
        unsigned top = comm_type_size(small[t]) == 1 ? 128 : 32768;
        for (unsigned bits = 0; bits + 1 < top; bits++) {
            double low = (double)comm_small_to_float(small[t], (uint16_t)bits),
                   high = (double)comm_small_to_float(small[t], (uint16_t)(bits + 1));
            if (!isfinite(low) || !isfinite(high))
                break;
            double half = (low + high) / 2, some = low + (high - low) * ((double)(rand_r(&seed) % 999) + 0.5) / 1000;
            assert_int_equal(comm_small_from_float(small[t], (float)half), bits % 2 ? bits + 1 : bits);
            assert_int_equal(comm_small_from_float(small[t], (float)some), some < half ? bits : bits + 1);
        }
    }
}

static double get(enum comm_type type, const uint8_t *at)
{
    uint16_t bits = 0;
#define GET(TYPE) { TYPE x; memcpy(&x, at, sizeof x); return (double)x; }
    switch (type) {
    case COMM_INT8: GET(int8_t)
    case COMM_UINT8: GET(uint8_t)
    case COMM_INT32: GET(int32_t)
    case COMM_UINT32: GET(uint32_t)
    case COMM_INT64: GET(int64_t)
    case COMM_UINT64: GET(uint64_t)
    case COMM_FLOAT32: GET(float)
    case COMM_FLOAT64: GET(double)
    default: memcpy(&bits, at, comm_type_size(type)); return (double)comm_small_to_float(type, bits);
    }
}

static void put(enum comm_type type, uint8_t *at, double value)
{
#define PUT(TYPE) { TYPE x = (TYPE)value; memcpy(at, &x, sizeof x); return; }
    switch (type) {
    case COMM_INT8: PUT(int8_t)
    case COMM_UINT8: PUT(uint8_t)
    case COMM_INT32: PUT(int32_t)
    case COMM_UINT32: PUT(uint32_t)
    case COMM_INT64: PUT(int64_t)
    case COMM_UINT64: PUT(uint64_t)
    case COMM_FLOAT32: PUT(float)
    case COMM_FLOAT64: PUT(double)
    default: {
        uint16_t bits = comm_small_from_float(type, (float)value);
        memcpy(at, &bits, comm_type_size(type));
    }
    }
}

TEST(each_operation_of_each_type_and_at_each_alignment)
{
    uint8_t a[70], b[70], to[70], factor[8];
    for (enum comm_type type = COMM_INT8; type < COMM_TYPES; type++)
        for (enum comm_operation op = COMM_SUM; op < COMM_OPERATIONS; op++)
            for (unsigned shift = 0; shift < 4; shift++) {
                size_t size = comm_type_size(type);
                for (unsigned i = 0; i < 8; i++) {
                    put(type, a + shift + i * size, (double)(i % 4));
                    put(type, b + i * size, (double)(1 + i / 2));
                }
                comm_reduce(type, op, to + shift, a + shift, b, 8);
                for (unsigned i = 0; i < 8; i++) {
                    double x = (double)(i % 4), y = (double)(1 + i / 2), sum = x + y;
                    double want = op == COMM_PRODUCT ? x * y : op == COMM_MAXIMUM ? fmax(x, y)
                                  : op == COMM_MINIMUM ? fmin(x, y) : sum;
                    assert_true(get(type, to + shift + i * size) == want);
                }
                comm_reduce_finish(type, op, to + shift, 8, 2);
                bool whole = type <= COMM_UINT64;
                for (unsigned i = 0; i < 8 && op == COMM_AVERAGE; i++) {
                    double half = ((double)(i % 4) + (double)(1 + i / 2)) / 2;
                    assert_true(get(type, to + shift + i * size) == (whole ? floor(half) : half));
                }
                put(type, factor, 2);
                comm_reduce_multiply(type, to + shift, a + shift, factor, 8);
                for (unsigned i = 0; i < 8; i++)
                    assert_true(get(type, to + shift + i * size) == 2.0 * (i % 4));
            }
    assert_int_equal(comm_type_size(COMM_TYPES), 0);
}

TEST(integers_wrap_and_a_number_beats_a_nan)
{
    int32_t most = INT32_MAX, one = 1, sum;
    int8_t small_most = 127, small_one = 1, small_sum;
    float nan_value = NAN, number = 3, got;
    comm_reduce(COMM_INT32, COMM_SUM, &sum, &most, &one, 1);
    assert_int_equal(sum, INT32_MIN);
    comm_reduce(COMM_INT8, COMM_SUM, &small_sum, &small_most, &small_one, 1);
    assert_int_equal(small_sum, -128);
    comm_reduce(COMM_FLOAT32, COMM_MAXIMUM, &got, &nan_value, &number, 1);
    assert_true(got == 3.0f);
    comm_reduce(COMM_FLOAT32, COMM_MINIMUM, &got, &number, &nan_value, 1);
    assert_true(got == 3.0f);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
