/*
 * roundtrip: arguments and results of every procedure, through our encoder and decoder, compared with libtirpc's.
 *
 * Values are made by decoding from a stream of random numbers: whatever rpcgen's code accepts is a value. Numbers
 * are mostly small, so that lengths and discriminants are often valid; what is not is dropped.
 *
 * shows: speed: launches and reply heads encoded by hand are the bytes that rpcgen's code makes, and are read alike
 */
#include "cpu/rpc/cpu_rpc_classes.h"
#include "cpu/rpc/cpu_rpc_prot.h"
#include "cpu/rpc/quick.h"
#include "cpu/rpc/call/sender.h"
#include "cpu/common/wire.h"
#include "cpu/common/wire.h"

#include <errno.h>

#include "tests/lib/unit.h"

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
static bool make(xdrproc_t proc, void *object, size_t size)
{
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        XDR xdr = { .x_op = XDR_DECODE, .x_ops = &random_operations };
        memset(object, 0, size);
        if (proc(&xdr, object))
            return true;
        xdr_free(proc, object);
    }
    return false;
}

static size_t encode_theirs(xdrproc_t proc, void *object, uint8_t *bytes)
{
    XDR xdr;
    u_long size = xdr_sizeof(proc, object);         /* ThreadSanitizer touches all that xdrmem_create is given */
    assert_true(size <= WIRE_MAX);
    xdrmem_create(&xdr, (char *)bytes, (u_int)size, XDR_ENCODE);
    return proc(&xdr, object) ? xdr_getpos(&xdr) : SIZE_MAX;
}

/* A sender, a pair of channels and an inbox, so that gathering and record marks take part. */
struct wire {
    rpc_channel      *channels[2];
    pthread_mutex_t   lock;
    struct rpc_sender sender;
    struct rpc_inbox  inbox;
};

/* The same bytes, as libtirpc's encoder and ours make them. */
static uint8_t theirs[WIRE_MAX], ours[WIRE_MAX];

static int blocked(void *context)
{
    struct wire *wire = context;
    return rpc_channel_poll(wire->channels[0], POLLOUT, -1, false) < 0 ? -EPIPE : 0;
}

static void wire_open(struct wire *wire)
{
    assert_int_equal(rpc_channel_pair(wire->channels, NULL), 0);
    pthread_mutex_init(&wire->lock, NULL);
    assert_int_equal(rpc_sender_init(&wire->sender, &wire->lock, wire->channels[0], WIRE_MAX, blocked, wire), 0);
    rpc_inbox_init(&wire->inbox, WIRE_MAX);
}

static void wire_close(struct wire *wire)
{
    rpc_inbox_clear(&wire->inbox);
    rpc_sender_destroy(&wire->sender);
    pthread_mutex_destroy(&wire->lock);
    rpc_channel_destroy(wire->channels[0]);
    rpc_channel_destroy(wire->channels[1]);
}

/* A record may be larger than what the channel holds. */
static void *write_through(void *context)
{
    struct wire *wire = context;
    pthread_mutex_lock(&wire->lock);
    int status = rpc_sender_write_through(&wire->sender);
    pthread_mutex_unlock(&wire->lock);
    return status == 0 ? wire : NULL;
}

/* Lets the one record that is in the batch arrive in `ours`. */
static size_t pass(struct wire *wire)
{
    struct rpc_record record;
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_through, wire), 0);
    int status;
    ssize_t got;
    while ((status = rpc_inbox_next(&wire->inbox, &record)) == 0)
        if ((got = rpc_channel_receive(wire->channels[1], &wire->inbox)) == -EAGAIN)
            rpc_channel_poll(wire->channels[1], POLLIN, -1, false);
        else
            assert_true(got > 0);
    assert_int_equal(status, 1);
    void *written;
    assert_int_equal(pthread_join(writer, &written), 0);
    assert_ptr_equal(written, wire);
    size_t size = record.size;
    memcpy(ours, record.bytes, size);
    rpc_block_release(record.block);
    return size;
}

static size_t send_ours(struct wire *wire, xdrproc_t proc, void *object)
{
    struct rpc_encoding encoding;
    pthread_mutex_lock(&wire->lock);
    assert_int_equal(rpc_sender_begin(&wire->sender, &encoding, true), 0);
    assert_true(proc(&encoding.xdr, object));
    assert_int_equal(rpc_sender_end(&wire->sender, &encoding), 0);
    pthread_mutex_unlock(&wire->lock);
    return pass(wire);
}

/* The arguments of a launch, with the head of a call and ready to be sent, arrive as XDR makes them. */
static void send_ready(struct wire *wire, const launch_args *args, size_t size)
{
    const struct rpc_program program = { .program = random_number(), .version = random_number() };
    uint32_t xid = random_number();
    uint8_t record[RPC_CALL_ROOM + QUICK_LAUNCH_ROOM + 128], head[RPC_CALL_ROOM];
    XDR xdr;
    memset(record, 0xAA, sizeof record);
    memcpy(record + RPC_CALL_ROOM + QUICK_LAUNCH_PARAMETERS, args->params.params_val, args->params.params_len);
    assert_int_equal(quick_launch_put(args, record + RPC_CALL_ROOM), size);
    assert_memory_equal(record + RPC_CALL_ROOM, theirs, size);
    rpc_wire_call_room(record, xid, program.program, program.version, FLYT_LAUNCH, size);
    pthread_mutex_lock(&wire->lock);
    assert_int_equal(rpc_sender_put(&wire->sender, record, WIRE_MAX + 1 + RPC_MARK_SIZE, true), -EMSGSIZE);
    assert_int_equal(rpc_sender_put(&wire->sender, record, RPC_CALL_ROOM + size, true), 0);
    pthread_mutex_unlock(&wire->lock);

    xdrmem_create(&xdr, (char *)head, sizeof head, XDR_ENCODE);
    assert_true(rpc_wire_put_call(&xdr, xid, program.program, program.version, FLYT_LAUNCH));
    assert_int_equal(pass(wire), xdr_getpos(&xdr) + size);
    assert_memory_equal(ours, head, xdr_getpos(&xdr));
    assert_memory_equal(ours + xdr_getpos(&xdr), theirs, size);
}

static void round_trip(const char *name, xdrproc_t proc, size_t object_size)
{
    static uint8_t object[OBJECT_MAX], copy[OBJECT_MAX];
    struct wire wire;
    assert_true(object_size <= OBJECT_MAX);
    wire_open(&wire);
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (!make(proc, object, object_size))
            fail_msg("%s: no value came up", name);
        size_t size = encode_theirs(proc, object, theirs);
        assert_true(size <= WIRE_MAX);
        assert_int_equal(send_ours(&wire, proc, object), size);
        assert_memory_equal(theirs, ours, size);

        memset(copy, 0, object_size);
        assert_true(rpc_wire_decode(ours, size, proc, copy));
        assert_int_equal(encode_theirs(proc, copy, theirs), size);
        assert_memory_equal(theirs, ours, size);
        xdr_free(proc, copy);

        /* cut off anywhere, or with something behind: refused, and nothing leaks */
        memset(copy, 0, object_size);
        assert_false(rpc_wire_decode(ours, size + 4, proc, copy));
        if (size > 0) {
            memset(copy, 0, object_size);
            assert_false(rpc_wire_decode(ours, random_number() % (uint32_t)size / 4 * 4, proc, copy));
        }
        xdr_free(proc, object);
    }
    wire_close(&wire);
}

/* GCC and clang give void the size 1: enough for procedures without arguments. */
#define SIZE_OF(type) sizeof(type)
/* xdr_void has no parameters; by way of a neutral type, or the compiler warns. */
#define PROC(name) ((xdrproc_t)(void (*)(void))(name))
#define TRIP_ASYNC(arguments, result) round_trip(#arguments, PROC(xdr_##arguments), SIZE_OF(arguments));
#define TRIP_SYNC(arguments, result)  TRIP_ASYNC(arguments, result) \
                                      round_trip(#result, PROC(xdr_##result), SIZE_OF(result));
#define CASE(number, NAME, name, class, arguments, result)      \
    static void trip_##name(void **state)                       \
    {                                                           \
        (void)state;                                            \
        TRIP_##class(arguments, result)                         \
    }
FLYT_PROCEDURES(CASE)

/* Gathered data, in the middle of a record that has other data before and behind. */
static void large_opaque(void **state)
{
    (void)state;
    static const u_int sizes[] = { 32767, 32768, 32769, 100003, FLYT_MAX_INLINE };
    struct wire wire;
    wire_open(&wire);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        image_data_args args = { .offset = 77, .bytes = { .bytes_val = malloc(sizes[i]), .bytes_len = sizes[i] } };
        random_bytes(NULL, args.bytes.bytes_val, sizes[i]);
        size_t size = encode_theirs((xdrproc_t)xdr_image_data_args, &args, theirs);
        assert_int_equal(send_ours(&wire, (xdrproc_t)xdr_image_data_args, &args), size);
        assert_memory_equal(theirs, ours, size);
        free(args.bytes.bytes_val);
    }
    wire_close(&wire);
}

/* What quick.c makes of a value is what rpcgen's code makes of it, and the other way round. */
static void hand_made_launches(void **state)
{
    (void)state;
    struct wire wire;
    uint8_t room[64];
    unsigned taken = 0, refused = 0;
    wire_open(&wire);
    for (unsigned round = 0; round < 20 * ROUNDS; round++) {
        launch_args args, copy;
        if (!make((xdrproc_t)xdr_launch_args, &args, sizeof args))
            fail_msg("no value came up");
        if (round % 2) {                                /* most have none */
            xdr_free((xdrproc_t)xdr_launch_args, &args);
            char *params = malloc(round % 100 + 1);
            random_bytes(NULL, params, round % 100);
            args = (launch_args){ .function = random_number(), .stream = round, .grid = { 1, random_number(), 3 },
                                  .block = { 4, 5, random_number() }, .shared = round, .flags = round % 3,
                                  .params = { round % 100, params } };
        }
        size_t size = encode_theirs((xdrproc_t)xdr_launch_args, &args, theirs);
        if (round % 2)
            send_ready(&wire, &args, size);
        assert_int_equal(send_ours(&wire, (xdrproc_t)xdr_launch_args, &args), size);
        assert_memory_equal(theirs, ours, size);

        bool simple = args.attributes.attributes_len == 0 && args.params.params_len <= sizeof room;
        assert_int_equal(quick_launch_decode(ours, size, &copy, room, sizeof room), simple);
        if (simple) {
            assert_int_equal(encode_theirs((xdrproc_t)xdr_launch_args, &copy, ours), size);
            assert_memory_equal(theirs, ours, size);
            for (size_t cut = 0; cut < size; cut++)
                assert_false(quick_launch_decode(theirs, cut, &copy, room, sizeof room));
        }
        taken += simple;
        refused += !simple;
        xdr_free((xdrproc_t)xdr_launch_args, &args);
    }
    assert_true(taken > ROUNDS && refused > ROUNDS);
    wire_close(&wire);
}

static void hand_made_heads(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 5 * ROUNDS; round++) {
        flyt_head head = { .result = (int)random_number(), .latched = (int)round, .sticky = -1 }, copy, other;
        if (round % 2 && !make((xdrproc_t)xdr_flyt_head_rpcgen, &head, sizeof head))
            fail_msg("no value came up");
        size_t size = encode_theirs((xdrproc_t)xdr_flyt_head_rpcgen, &head, theirs);
        assert_int_equal(encode_theirs((xdrproc_t)xdr_flyt_head, &head, ours), size);
        assert_memory_equal(theirs, ours, size);
        for (size_t cut = 0; cut <= size; cut += 4) {   /* the same value, or both refuse */
            memset(&copy, 0, sizeof copy);
            memset(&other, 0, sizeof other);
            bool read = rpc_wire_decode(ours, cut, (xdrproc_t)xdr_flyt_head, &copy);
            assert_int_equal(read, rpc_wire_decode(ours, cut, (xdrproc_t)xdr_flyt_head_rpcgen, &other));
            assert_int_equal(read, cut == size);
            if (read) {
                assert_int_equal(encode_theirs((xdrproc_t)xdr_flyt_head_rpcgen, &copy, theirs), size);
                assert_memory_equal(theirs, ours, size);
            }
            xdr_free((xdrproc_t)xdr_flyt_head, &copy);
            xdr_free((xdrproc_t)xdr_flyt_head_rpcgen, &other);
        }
        xdr_free((xdrproc_t)xdr_flyt_head, &head);
    }
}

#define LIST(number, NAME, name, class, arguments, result) cmocka_unit_test(trip_##name),

int main(void)
{
    const struct CMUnitTest tests[] = { FLYT_PROCEDURES(LIST) cmocka_unit_test(large_opaque),
                                        cmocka_unit_test(hand_made_launches), cmocka_unit_test(hand_made_heads) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
