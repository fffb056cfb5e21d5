/*
 * roundtrip: arguments and results of every procedure, through our encoder and decoder, compared with libtirpc's.
 *
 * Values are made by decoding from a stream of random numbers: whatever rpcgen's code accepts is a value. Numbers
 * are mostly small, so that lengths and discriminants are often valid; what is not is dropped.
 */
#include "cpu/rpc/cpu_rpc_classes.h"
#include "cpu/rpc/cpu_rpc_prot.h"
#include "cpu/rpc/sender.h"
#include "cpu/rpc/wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 200, ATTEMPTS = 200000, WIRE_MAX = 4 * 1024 * 1024, OBJECT_MAX = 4096 };

static uint64_t random_state = 1;

static uint32_t random_number(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33);
}

static bool_t random_long(XDR *xdr, long *value)
{
    (void)xdr;
    uint32_t kind = random_number() % 16;
    *value = kind < 12 ? (long)(random_number() % 5) : kind < 15 ? (long)(random_number() % 300)
                       : (long)(random_number() * 2 + random_number() % 2);
    return TRUE;
}

static bool_t random_bytes(XDR *xdr, char *to, u_int size)
{
    (void)xdr;
    for (u_int i = 0; i < size; i++)
        to[i] = (char)(1 + random_number() % 255);      /* no NUL: it would end a string early */
    return TRUE;
}

static int32_t *random_inline(XDR *xdr, u_int size)
{
    (void)xdr;
    (void)size;
    return NULL;
}

static const struct xdr_ops random_operations = {
    .x_getlong = random_long, .x_getbytes = random_bytes, .x_inline = random_inline,
};

/* A random value; false if none came up. */
static bool make(xdrproc_t proc, void *object)
{
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        XDR xdr = { .x_op = XDR_DECODE, .x_ops = &random_operations };
        memset(object, 0, OBJECT_MAX);
        if (proc(&xdr, object))
            return true;
        xdr_free(proc, object);
    }
    return false;
}

static size_t encode_theirs(xdrproc_t proc, void *object, uint8_t *bytes)
{
    XDR xdr;
    xdrmem_create(&xdr, (char *)bytes, WIRE_MAX, XDR_ENCODE);
    return proc(&xdr, object) ? xdr_getpos(&xdr) : SIZE_MAX;
}

/* Through a sender and a pair of channels, so gathering and record marks take part. */
static size_t send_ours(rpc_channel *channels[2], xdrproc_t proc, void *object, uint8_t *bytes)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct rpc_sender sender;
    struct rpc_encoding encoding;
    struct rpc_inbox inbox;
    struct rpc_record record;
    assert_int_equal(rpc_sender_init(&sender, &lock, channels[0], WIRE_MAX, NULL, NULL), 0);
    rpc_inbox_init(&inbox, WIRE_MAX);
    pthread_mutex_lock(&lock);
    assert_int_equal(rpc_sender_begin(&sender, &encoding, true), 0);
    assert_true(proc(&encoding.xdr, object));
    assert_int_equal(rpc_sender_end(&sender, &encoding), 0);
    assert_int_equal(rpc_sender_write_through(&sender), 0);
    pthread_mutex_unlock(&lock);
    int status;
    while ((status = rpc_inbox_next(&inbox, &record)) == 0)
        assert_true(rpc_channel_receive(channels[1], &inbox) > 0);
    assert_int_equal(status, 1);
    size_t size = record.size;
    memcpy(bytes, record.bytes, size);
    rpc_block_release(record.block);
    rpc_inbox_clear(&inbox);
    rpc_sender_destroy(&sender);
    return size;
}

static void round_trip(const char *name, xdrproc_t proc, size_t object_size)
{
    static uint8_t object[OBJECT_MAX], copy[OBJECT_MAX];
    rpc_channel *channels[2];
    uint8_t *theirs = malloc(WIRE_MAX), *ours = malloc(WIRE_MAX);
    assert_true(object_size <= OBJECT_MAX);
    assert_int_equal(rpc_channel_pair(channels, NULL), 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (!make(proc, object))
            fail_msg("%s: no value came up", name);
        size_t size = encode_theirs(proc, object, theirs);
        assert_true(size <= WIRE_MAX);
        assert_int_equal(send_ours(channels, proc, object, ours), size);
        assert_memory_equal(theirs, ours, size);

        memset(copy, 0, sizeof copy);
        assert_true(rpc_wire_decode(ours, size, proc, copy));
        assert_int_equal(encode_theirs(proc, copy, theirs), size);
        assert_memory_equal(theirs, ours, size);
        xdr_free(proc, copy);

        /* cut off anywhere, or with something behind: refused, and nothing leaks */
        memset(copy, 0, sizeof copy);
        assert_false(rpc_wire_decode(ours, size + 4, proc, copy));
        if (size > 0) {
            memset(copy, 0, sizeof copy);
            assert_false(rpc_wire_decode(ours, random_number() % (uint32_t)size / 4 * 4, proc, copy));
        }
        xdr_free(proc, object);
    }
    rpc_channel_destroy(channels[0]);
    rpc_channel_destroy(channels[1]);
    free(theirs);
    free(ours);
}

/* GCC and clang give void the size 1: enough for procedures without arguments. */
#define SIZE_OF(type) sizeof(type)
/* xdr_void has no parameters; by way of a neutral type, or the compiler warns. */
#define PROC(name) ((xdrproc_t)(void (*)(void))(name))
#define TRIP_ASYNC(arguments, result) round_trip(#arguments, PROC(xdr_##arguments), SIZE_OF(arguments));
#define TRIP_SYNC(arguments, result)  TRIP_ASYNC(arguments, result) \
                                      round_trip(#result, PROC(xdr_##result), SIZE_OF(result));
#define TEST(number, NAME, name, class, arguments, result)      \
    static void trip_##name(void **state)                       \
    {                                                           \
        (void)state;                                            \
        TRIP_##class(arguments, result)                         \
    }
FLYT_PROCEDURES(TEST)

/* Gathered data, in the middle of a record that has other data before and behind. */
static void large_opaque(void **state)
{
    (void)state;
    static const u_int sizes[] = { 32767, 32768, 32769, 100003, FLYT_MAX_INLINE };
    uint8_t *theirs = malloc(WIRE_MAX), *ours = malloc(WIRE_MAX);
    rpc_channel *channels[2];
    assert_int_equal(rpc_channel_pair(channels, NULL), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        image_data_args args = { .offset = 77, .bytes = { .bytes_val = malloc(sizes[i]), .bytes_len = sizes[i] } };
        random_bytes(NULL, args.bytes.bytes_val, sizes[i]);
        size_t size = encode_theirs((xdrproc_t)xdr_image_data_args, &args, theirs);
        assert_int_equal(send_ours(channels, (xdrproc_t)xdr_image_data_args, &args, ours), size);
        assert_memory_equal(theirs, ours, size);
        free(args.bytes.bytes_val);
    }
    rpc_channel_destroy(channels[0]);
    rpc_channel_destroy(channels[1]);
    free(theirs);
    free(ours);
}

#define LIST(number, NAME, name, class, arguments, result) cmocka_unit_test(trip_##name),

int main(void)
{
    const struct CMUnitTest tests[] = { FLYT_PROCEDURES(LIST) cmocka_unit_test(large_opaque) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
