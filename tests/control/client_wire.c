/* cpu/rpc/manager_prot.x holds the part of control_prot.x that programs need: each message of one is read by the
 * other. */
#include "control-managers/common/protocol.h"
#include "cpu/rpc/manager_prot.h"
#include "tests/lib/unit.h"

/* Encodes `from`, decodes it as the other's type, encodes that: the same bytes. */
static void both_ways(xdrproc_t encode, void *from, xdrproc_t decode, size_t size)
{
    static char first[65536], second[65536];
    XDR xdr;
    void *other = calloc(1, size);
    assert_non_null(other);
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    xdrmem_create(&xdr, first, sizeof first, XDR_ENCODE);
    assert_true(encode(&xdr, from));
    u_int length = xdr_getpos(&xdr);
    xdrmem_create(&xdr, first, length, XDR_DECODE);
    assert_true(decode(&xdr, other));
    assert_int_equal(xdr_getpos(&xdr), length);
    xdrmem_create(&xdr, second, sizeof second, XDR_ENCODE);
    assert_true(decode(&xdr, other));
    assert_int_equal(xdr_getpos(&xdr), length);
    assert_memory_equal(first, second, length);
    xdr_free(decode, other);
    free(other);
}
#define TEXT(text) ((char *)(uintptr_t)(text))

TEST(test_hello)
{
    manager_hello_args args = { .major = 1, .minor = 2, .role = MANAGER_ROLE_PROGRAM, .name = TEXT("pid-1"),
                                .software = TEXT("x"), .incarnation = 1ull << 40 };
    memset(args.nonce, 7, sizeof args.nonce);
    both_ways((xdrproc_t)xdr_manager_hello_args, &args, (xdrproc_t)xdr_ctl_hello_args, sizeof(ctl_hello_args));
    ctl_hello_result result = { .status = { CTL_DENIED, TEXT("why") }, .major = 1, .minor = 3, .software = TEXT("y"),
                                .incarnation = 5, .proof = 1 };
    both_ways((xdrproc_t)xdr_ctl_hello_result, &result, (xdrproc_t)xdr_manager_hello_result,
              sizeof(manager_hello_result));
}

TEST(test_attach)
{
    manager_attach_args args = { .executable = TEXT("/bin/x"), .wait = MANAGER_WAIT_YES, .wait_ms = 7 };
    both_ways((xdrproc_t)xdr_manager_attach_args, &args, (xdrproc_t)xdr_program_attach_args,
              sizeof(program_attach_args));
    manager_wait_args wait = { .renew = 1 };
    both_ways((xdrproc_t)xdr_manager_wait_args, &wait, (xdrproc_t)xdr_program_wait_args, sizeof(program_wait_args));
    ctl_uri addresses[2] = { TEXT("unix:///a"), TEXT("tcp://b:1") };
    program_answer answer = { .status = { CTL_NEIGHBOUR, TEXT("text") }, .position = 3,
                              .grant = { .prog = 1, .server = 2, .node = TEXT("n"), .addresses = { 2, addresses },
                                         .tls = 1, .ticket = { 3, TEXT("abc") },
                                         .expires = -5, .sms = 6, .memory = 1ull << 50, .sharing = 8 } };
    both_ways((xdrproc_t)xdr_program_answer, &answer, (xdrproc_t)xdr_manager_answer, sizeof(manager_answer));
}

TEST(test_transport)
{
    manager_transport args = { .mode = TEXT("shared-memory"), .why = TEXT("because") };
    both_ways((xdrproc_t)xdr_manager_transport, &args, (xdrproc_t)xdr_ctl_transport, sizeof(ctl_transport));
    ctl_plain_result result = { .status = { CTL_INVALID, TEXT("why") } };
    both_ways((xdrproc_t)xdr_ctl_plain_result, &result, (xdrproc_t)xdr_manager_plain_result,
              sizeof(manager_plain_result));
}

TEST(test_status)
{
    manager_name gpus[2] = { TEXT("soft-0"), TEXT("soft-1") };
    manager_own_server server = { .id = 1ull << 40, .node = TEXT("n"), .gpus = { 2, gpus }, .product = TEXT("p"),
                                  .state = MANAGER_SERVER_STOPPING, .sms = 2, .memory = 1ull << 50, .memory_used = 3,
                                  .programs = 4 };
    manager_own_program program = { .id = 9, .pid = 8, .uid = 7, .executable = TEXT("/bin/x"),
                                    .state = MANAGER_PROGRAM_SUSPENDED, .position = 6, .server = 1ull << 40,
                                    .since = -5, .transport = TEXT("tcp"), .why = TEXT("because") };
    manager_status_result result = { .status = { MANAGER_LOST, TEXT("text") }, .vm = TEXT("vm"), .now = -1, .sms = 1,
                                     .memory = 2, .gpus = 3, .sharing = 15, .grouping = 1, .hidden = 5,
                                     .servers = { 1, &server }, .programs = { 1, &program } };
    both_ways((xdrproc_t)xdr_manager_status_result, &result, (xdrproc_t)xdr_program_status_result,
              sizeof(program_status_result));
}

TEST(test_unreached)
{
    manager_unreached_args args = { .server = 1ull << 40, .why = TEXT("because") };
    both_ways((xdrproc_t)xdr_manager_unreached_args, &args, (xdrproc_t)xdr_program_unreached_args,
              sizeof(program_unreached_args));
}

TEST(test_moves)
{
    manager_move_args args = { .move = 1ull << 40 };
    both_ways((xdrproc_t)xdr_manager_move_args, &args, (xdrproc_t)xdr_program_move_args, sizeof(program_move_args));
    ctl_uri addresses[1] = { TEXT("tls://b:1?sha256=ab") };
    program_move_result result = { .status = { CTL_DENIED, TEXT("text") }, .move = 7, .patience_ms = 1, .within_ms = 2,
                                   .grant = { .prog = 1, .server = 2, .node = TEXT("n"), .addresses = { 1, addresses },
                                              .ticket = { 3, TEXT("abc") } } };
    both_ways((xdrproc_t)xdr_program_move_result, &result, (xdrproc_t)xdr_manager_move_result,
              sizeof(manager_move_result));
    manager_moved moved = { .move = 7, .stage = MANAGER_MOVE_REFUSED, .status = { MANAGER_NOT_SUPPORTED, TEXT("why") },
                            .outage_us = 5, .bytes = 1ull << 50 };
    both_ways((xdrproc_t)xdr_manager_moved, &moved, (xdrproc_t)xdr_ctl_moved, sizeof(ctl_moved));
}

TEST(test_resume)
{
    manager_resume_args args = { .server = 1ull << 40, .move = 3 };
    both_ways((xdrproc_t)xdr_manager_resume_args, &args, (xdrproc_t)xdr_program_resume_args,
              sizeof(program_resume_args));
}

TEST(test_rests)
{
    program_rest_result result = { .status = { CTL_OK, TEXT("text") }, .move = 7, .patience_ms = 1, .within_ms = 2,
                                   .action = CTL_REST_CHECKPOINT, .file = TEXT("/a/file") };
    both_ways((xdrproc_t)xdr_program_rest_result, &result, (xdrproc_t)xdr_manager_rest_result,
              sizeof(manager_rest_result));
}

TEST(test_progress)
{
    manager_progress args = { .move = 1ull << 40, .phase = MANAGER_PHASE_COPYING, .done = 3, .total = 1ull << 50,
                              .rate = 7 };
    both_ways((xdrproc_t)xdr_manager_progress, &args, (xdrproc_t)xdr_ctl_progress, sizeof(ctl_progress));
    program_progress_result result = { .status = { CTL_DENIED, TEXT("text") }, .bandwidth = 1ull << 40,
                                       .downtime_ms = 5, .rate = 9, .bridged = 1 };
    both_ways((xdrproc_t)xdr_program_progress_result, &result, (xdrproc_t)xdr_manager_progress_result,
              sizeof(manager_progress_result));
}

TEST(test_links)
{
    char bytes[CTL_LINK_OFFER_SIZE] = "32 bytes";
    manager_link_offer wish = { .server = 1ull << 40 };
    both_ways((xdrproc_t)xdr_manager_link_offer, &wish, (xdrproc_t)xdr_ctl_link_offer, sizeof(ctl_link_offer));
    ctl_link_offer_result offered = { .status = { CTL_DENIED, TEXT("why") }, .offer = { sizeof bytes, bytes } };
    both_ways((xdrproc_t)xdr_ctl_link_offer_result, &offered, (xdrproc_t)xdr_manager_link_offer_result,
              sizeof(manager_link_offer_result));
    manager_link_take take = { .server = 7, .offer = { sizeof bytes, bytes }, .connections = 9 };
    both_ways((xdrproc_t)xdr_manager_link_take, &take, (xdrproc_t)xdr_ctl_link_take, sizeof(ctl_link_take));
    ctl_link_take_result taken = { .status = { CTL_OK, TEXT("") }, .address = TEXT("tls://b:1?sha256=ab") };
    both_ways((xdrproc_t)xdr_ctl_link_take_result, &taken, (xdrproc_t)xdr_manager_link_take_result,
              sizeof(manager_link_take_result));
}

TEST(test_values)
{
    char bytes[5] = "word";
    manager_value_args args = { MANAGER_VALUE_ADD, TEXT("0/key"), { sizeof bytes, bytes }, -(1ll << 40), 5000 };
    both_ways((xdrproc_t)xdr_manager_value_args, &args, (xdrproc_t)xdr_ctl_value_args, sizeof(ctl_value_args));
    ctl_value_result result = { { CTL_WAITING, TEXT("") }, { sizeof bytes, bytes }, 1ll << 40 };
    both_ways((xdrproc_t)xdr_ctl_value_result, &result, (xdrproc_t)xdr_manager_value_result,
              sizeof(manager_value_result));
}

TEST(test_parts)
{
    manager_part_args args = { .executable = TEXT("/bin/program"), .lead = 1ull << 40, .part = 3 };
    both_ways((xdrproc_t)xdr_manager_part_args, &args, (xdrproc_t)xdr_program_part_args, sizeof(program_part_args));
}

TEST(test_numbers)
{
    assert_int_equal(MANAGER_PART, PROGRAM_PART);
    assert_int_equal(MANAGER_MINOR_PARTS, CTL_MINOR_PARTS);
    assert_int_equal(MANAGER_GRANT_PARTS, CTL_GRANT_PARTS);
    assert_int_equal(MANAGER_VALUE, PROGRAM_VALUE);
    assert_int_equal(MANAGER_VALUE_SET, CTL_VALUE_SET);
    assert_int_equal(MANAGER_VALUE_GET, CTL_VALUE_GET);
    assert_int_equal(MANAGER_VALUE_ADD, CTL_VALUE_ADD);
    assert_int_equal(MANAGER_VALUE_KEY, CTL_VALUE_KEY);
    assert_int_equal(MANAGER_VALUE_SIZE, CTL_VALUE_SIZE);
    assert_int_equal(MANAGER_LINK_OFFER, PROGRAM_LINK_OFFER);
    assert_int_equal(MANAGER_LINK_TAKE, PROGRAM_LINK_TAKE);
    assert_int_equal(MANAGER_MINOR_LINKS, CTL_MINOR_LINKS);
    assert_int_equal(MANAGER_LINK_OFFER_SIZE, CTL_LINK_OFFER_SIZE);
    assert_int_equal(MANAGER_PROGRESS, PROGRAM_PROGRESS);
    assert_int_equal(MANAGER_STORE, PROGRAM_STORE);
    assert_int_equal(MANAGER_MEET, PROGRAM_MEET);
    assert_int_equal(MANAGER_SESSION, PROGRAM_SESSION);
    assert_int_equal(MANAGER_MINOR_GROUPS, CLIENT_MINOR_GROUPS);
    assert_int_equal(MANAGER_MAX_PARTNERS, CTL_MAX_PARTNERS);
    assert_int_equal(MANAGER_MINOR_PROGRESS, CLIENT_MINOR_PROGRESS);
    assert_int_equal(MANAGER_DENIED, CTL_DENIED);
    assert_int_equal(MANAGER_PHASE_PREPARING, CTL_PHASE_PREPARING);
    assert_int_equal(MANAGER_PHASE_RESTING, CTL_PHASE_RESTING);
    assert_int_equal(MANAGER_PHASE_COPYING, CTL_PHASE_COPYING);
    assert_int_equal(MANAGER_PHASE_SWITCHING, CTL_PHASE_SWITCHING);
    assert_int_equal(MANAGER_PHASE_WAITING, CTL_PHASE_WAITING);
    assert_int_equal(MANAGER_PROGRAM, CTL_PROGRAM);
    assert_int_equal(MANAGER_HELLO, CTL_HELLO);
    assert_int_equal(MANAGER_ATTACH, PROGRAM_ATTACH);
    assert_int_equal(MANAGER_WAIT, PROGRAM_WAIT);
    assert_int_equal(MANAGER_TRANSPORT, PROGRAM_TRANSPORT);
    assert_int_equal(MANAGER_UNREACHED, PROGRAM_UNREACHED);
    assert_int_equal(MANAGER_MOVE, PROGRAM_MOVE);
    assert_int_equal(MANAGER_MOVED, PROGRAM_MOVED);
    assert_int_equal(MANAGER_RESUME, PROGRAM_RESUME);
    assert_int_equal(MANAGER_REST, PROGRAM_REST);
    assert_int_equal(MANAGER_SAVE, PROGRAM_SAVE);
    assert_int_equal(MANAGER_THAWED, PROGRAM_THAWED);
    assert_int_equal(MANAGER_MINOR_SAVES, CLIENT_MINOR_SAVES);
    assert_int_equal(MANAGER_FILE_KEY, CTL_FILE_KEY);
    assert_int_equal(MANAGER_FILE_KEY_WRAPPED, CTL_FILE_KEY_WRAPPED);
    assert_int_equal(MANAGER_REST_SUSPEND, CTL_REST_SUSPEND);
    assert_int_equal(MANAGER_REST_CHECKPOINT, CTL_REST_CHECKPOINT);
    assert_true(MANAGER_SUSPENDED == CLIENT_SUSPENDED);
    assert_int_equal(MANAGER_MINOR_RESTS, CLIENT_MINOR_RESTS);
    assert_int_equal(MANAGER_NO_ROOM, CTL_NO_ROOM);
    assert_int_equal(MANAGER_MOVE_MOVED, CTL_MOVE_MOVED);
    assert_int_equal(MANAGER_MOVE_REFUSED, CTL_MOVE_REFUSED);
    assert_int_equal(MANAGER_MINOR, CTL_MINOR);
    assert_int_equal(MANAGER_MINOR_MOVES, CLIENT_MINOR_MOVES);
    assert_int_equal(MANAGER_NOT_FOUND, CTL_NOT_FOUND);
    assert_int_equal(MANAGER_BUSY, CTL_BUSY);
    assert_int_equal(MANAGER_NOT_SUPPORTED, CTL_NOT_SUPPORTED);
    assert_int_equal(MANAGER_MAJOR, CTL_MAJOR);
    assert_int_equal(MANAGER_ROLE_PROGRAM, CTL_ROLE_PROGRAM);
    assert_int_equal(MANAGER_OK, CTL_OK);
    assert_int_equal(MANAGER_WAITING, CTL_WAITING);
    assert_int_equal(MANAGER_LOST, CTL_LOST);
    assert_int_equal(MANAGER_INVALID, CTL_INVALID);
    assert_int_equal(MANAGER_TIMEOUT, CTL_TIMEOUT);
    assert_int_equal(MANAGER_VERSION, CTL_VERSION);
    assert_int_equal(MANAGER_NEIGHBOUR, CTL_NEIGHBOUR);
    assert_int_equal(MANAGER_WAIT_NO, CLIENT_WAIT_NO);
    assert_int_equal(MANAGER_WAIT_YES, CLIENT_WAIT_YES);
    assert_int_equal(MANAGER_BEAT_SECONDS, CTL_BEAT_SECONDS);
    const int bounds[][2] = { { MANAGER_MAX_NAME, CTL_MAX_NAME }, { MANAGER_MAX_LABEL, CTL_MAX_LABEL },
                              { MANAGER_MAX_URI, CTL_MAX_URI },
        { MANAGER_MAX_PATH, CTL_MAX_PATH }, { MANAGER_MAX_TEXT, CTL_MAX_TEXT }, { MANAGER_MAX_ADDRESSES,
                                                                                  CTL_MAX_ADDRESSES },
        { MANAGER_MAX_TICKET, CTL_MAX_TICKET }, { MANAGER_NONCE_SIZE, CTL_NONCE_SIZE } };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        assert_int_equal(bounds[i][0], bounds[i][1]);
}

int main(void) { return unit_run(NULL, NULL); }
