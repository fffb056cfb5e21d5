/*
 * links.c: links between the workers of two GPU servers, spoken by hand. The test is the client of both.
 *
 * shows: links: bytes of device memory go from a GPU of one server to one of another, in the order of streams, of any
 *   size, on every channel, while the clients' connections carry calls only
 * shows: links: listening twice gives the same handles; a coordinator is told the number of a transfer when it begins;
 *   a client that counts its transfers knows the number without being told
 * shows: links: transfers of several links and streams in any order do not keep each other from going on
 * shows: links: data that nobody receives fills no memory, and holds up its own stream only
 * shows: links: a worker that is killed, stopped or whose program ends is an error at the other end in time; the
 *   program there goes on
 * shows: links: a program that has links does not move, and is told so by name
 * shows: attacks: links with false or replayed keys, of foreign servers, to addresses that the administrator has not
 *   named, and of wrong memory are refused, and nothing else suffers
 */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/rpc/call/lane.h"
#include "tests/server/linking.h"

/* ---- what works ---- */

static void all_sizes(void)
{
    static const uint64_t sizes[] = { 0, 1, 4096, 65536, 65537, 524288, 524289, 3 * MIB + 13, 8 * MIB };
    uint8_t *bytes = malloc(MIB), *back = malloc(MIB);
    begin();
    both_linked(LINK);
    peer_stream_create(&peers[0], STREAM, 1);
    peer_stream_create(&peers[1], STREAM, 1);
    for (unsigned i = 0; i < MIB; i++)
        bytes[i] = (uint8_t)(i * 37 + i / 509);
    for (uint64_t at = 0; at < 8 * MIB; at += MIB)
        peer_copy_in(&peers[0], 0, peers[0].base + at, bytes, MIB);
    assert_int_equal(peer_context_sync(&peers[0]), 0);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        peer_set(&peers[1], 0, peers[1].base, 8 * MIB, 0, 1);
        assert_int_equal(peer_context_sync(&peers[1]), 0);
        if (i % 2)
            receive_on(LINK, STREAM, 0, sizes[i], i + 1);
        send_on(LINK, STREAM, 0, sizes[i], i + 1);
        if (!(i % 2))
            receive_on(LINK, STREAM, 0, sizes[i], i + 1);
        assert_int_equal(synchronise(0, STREAM), 0);
        assert_int_equal(synchronise(1, STREAM), 0);
        for (uint64_t at = 0; at < sizes[i]; at += MIB) {
            uint32_t part = sizes[i] - at < MIB ? (uint32_t)(sizes[i] - at) : MIB;
            assert_int_equal(peer_copy_out(&peers[1], 0, back, peers[1].base + at, part), 0);
            assert_memory_equal(back, bytes, part);
        }
        uint8_t behind = 1;
        assert_int_equal(peer_copy_out(&peers[1], 0, &behind, peers[1].base + sizes[i], 1), 0);
        assert_int_equal(behind, 0);
    }
    free(bytes);
    free(back);
    end();
}

TEST(bytes_of_any_size) { all_sizes(); }

/* As on drivers whose memory this process cannot touch. */
TEST(bytes_of_any_size_staged)
{
    setenv("FLYT_PERF", "no_host_view", 1);
    all_sizes();
    unsetenv("FLYT_PERF");
}

static int come_by_tls(void **state)
{
    (void)state;
    way = TLS;
    return 0;
}

static int come_by_tcp(void **state)
{
    (void)state;
    way = TCP;
    return 0;
}

TEST_WITH(bytes_of_any_size_encrypted, come_by_tls, come_by_tcp) { all_sizes(); }

/* One program came by TLS and the other did not. */
TEST(one_end_is_encrypted)
{
    struct link_handles handles[2];
    int codes[2];
    begin();
    const char *const uris[2] = { servers[0].uri[TCP], servers[1].uri[TLS] };
    peer_close(&peers[1]);
    peer_open(&peers[1], servers[1].uri[TLS]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(link_listen(i, LINK, &handles[i]), 0);
    join_both(LINK, handles, uris, JOIN_MS, codes);
    assert_int_equal(codes[0], INVALID);
    assert_int_equal(codes[1], INVALID);
    assert_non_null(strstr(join_why[0], "TLS"));
    end();
}

TEST(order_of_streams)
{
    begin();
    both_linked(LINK);
    enum { ROUNDS = 100, WORDS = MIB / 4 };
    for (unsigned i = 1; i <= ROUNDS; i++) {
        peer_set(&peers[0], 0, peers[0].base, WORDS, i, 4);
        send_on(LINK, 0, 0, MIB, 0);
        peer_set(&peers[0], 0, peers[0].base, WORDS, 0, 4);       /* behind it: is not seen */
        receive_on(LINK, 0, 0, MIB, i);
        if (i % 10)
            continue;
        assert_int_equal(word_at(1, 0), i);
        assert_int_equal(word_at(1, MIB - 4), i);
    }
    assert_int_equal(synchronise(0, 0), 0);
    end();
}

TEST(handles_and_numbers)
{
    struct link_handles first, again, other;
    char why[FLYT_MAX_SHORT];
    begin();
    assert_int_equal(link_listen(0, LINK, &first), 0);
    assert_int_equal(link_listen(0, LINK, &again), 0);
    assert_int_equal(link_listen(0, LINK + 1, &other), 0);
    assert_int_equal(again.count, first.count);
    assert_memory_equal(again.of, first.of, first.count * sizeof *first.of);
    assert_memory_not_equal(other.of, first.of, first.count * sizeof *first.of);
    assert_int_equal(link_listen(0, FLYT_MAX_LINKS, &other), INVALID);
    both_linked(LINK);
    assert_int_equal(send_begin(LINK, 0, 0, 64), 1);
    send_on(LINK, 0, 64, 64, 2);
    assert_int_equal(send_begin(LINK, 0, 128, 64), 3);
    for (uint64_t i = 3; i >= 1; i--)
        receive_on(LINK, 0, 0, 64, i);
    assert_int_equal(synchronise(1, 0), 0);
    assert_int_equal(synchronise(0, 0), 0);
    link_close(0, LINK, "");
    wait_for_end(1, LINK, 5, why);
    send_on(LINK, 0, 0, 64, 4);                           /* its id is free */
    assert_int_equal(synchronise(0, 0), HANDLE);
    link_close(0, LINK, "");                              /* of none is silent */
    assert_int_equal(synchronise(0, 0), 0);
    both_linked(LINK + 2);
    assert_true(goes_on(0) && goes_on(1));
    end();
}

/* Four links. On each, two streams receive what two others have sent, each in rising order, for else no order of
   arrival could do; the calls come in another order, stream by stream, the last link first. */
TEST(no_deadlock)
{
    enum { LINKS = 4, PAIRS = 12, PART = 300 * 1024 };
    begin();
    for (uint32_t l = 0; l < LINKS; l++) {
        both_linked(l);
        for (uint32_t s = 0; s < 2; s++)
            for (int i = 0; i < 2; i++)
                peer_stream_create(&peers[i], STREAM + 2 * l + s, 1);
    }
    for (uint32_t l = 0; l < LINKS; l++)
        for (uint32_t n = 1; n <= PAIRS; n++) {
            uint64_t at = ((uint64_t)l * PAIRS + n - 1) * PART;
            peer_set(&peers[0], STREAM + 2 * l + n % 2, peers[0].base + at, PART / 4, 1000 * (l + 1) + n, 4);
            send_on(l, STREAM + 2 * l + n % 2, at, PART, n);
        }
    for (uint32_t l = LINKS; l-- > 0;)
        for (uint32_t s = 0; s < 2; s++)
            for (uint32_t n = 1; n <= PAIRS; n++)
                if ((n / 2) % 2 == s)
                    receive_on(l, STREAM + 2 * l + s, ((uint64_t)l * PAIRS + n - 1) * PART, PART, n);
    assert_int_equal(peer_context_sync(&peers[1]), 0);
    assert_int_equal(peer_context_sync(&peers[0]), 0);
    assert_int_equal(peers[0].last.latched | peers[1].last.latched, 0);
    for (uint32_t l = 0; l < LINKS; l++)
        for (uint32_t n = 1; n <= PAIRS; n++)
            assert_int_equal(word_at(1, ((uint64_t)l * PAIRS + n) * PART - 4), 1000 * (l + 1) + n);
    end();
}

/* ---- what ends a link ---- */

/* The upper half of a session's number is its worker's process id. */
static int worker_of(int which) { return (int)(peers[which].hello.session >> 32); }

static long resident_kb(int pid)
{
    char path[64], line[256];
    long kb = -1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %ld", &kb) == 1)
            break;
    if (file)
        fclose(file);
    assert_true(kb > 0);
    return kb;
}

TEST(early_data_without_end)
{
    enum { COUNT = 400 };
    begin();
    both_linked(LINK);
    both_linked(LINK + 1);
    int worker = worker_of(1);
    long before = resident_kb(worker);
    for (uint32_t i = 0; i < COUNT; i++) {
        if (i < 20)
            peer_stream_create(&peers[0], STREAM + i, 1);
        send_on(LINK, STREAM + i % 20, 0, 60000, 0);
    }
    /* Another link, and other streams, do not notice. */
    send_on(LINK + 1, 0, 0, 8 * MIB, 1);
    receive_on(LINK + 1, 0, 0, 8 * MIB, 1);
    assert_int_equal(synchronise(1, 0), 0);
    assert_true(resident_kb(worker) - before < 24 * 1024);
    /* All of them are there when somebody wants them. */
    for (uint32_t i = 1; i <= COUNT; i++)
        receive_on(LINK, 0, 0, 60000, i);
    assert_int_equal(synchronise(1, 0), 0);
    assert_int_equal(peer_context_sync(&peers[0]), 0);
    end();
}

/* 0: killed; 1: stopped; 2: its program ends; 3: aborted. */
static void one_goes(int how, bool sender_goes)
{
    const int gone = sender_goes ? 0 : 1, stays = !gone;
    char why[FLYT_MAX_SHORT];
    begin();
    both_linked(LINK);
    int worker = worker_of(gone);
    peer_stream_create(&peers[stays], STREAM, 1);
    if (sender_goes)
        receive_on(LINK, STREAM, 0, 8 * MIB, 1);
    else
        send_on(LINK, STREAM, 0, 8 * MIB, 1);
    assert_true(goes_on(stays));                          /* another stream */
    uint64_t before = clock_now();
    if (how == 0 || how == 1)
        kill((pid_t)worker, how ? SIGSTOP : SIGKILL);
    else if (how == 2)
        peer_close(&peers[gone]);
    else
        link_close(gone, LINK, "it was enough");
    assert_int_equal(synchronise(stays, STREAM), UNAVAILABLE);
    double seconds = (double)(clock_now() - before) / CLOCK_NS_PER_SECOND;
    assert_true(seconds < (how == 1 ? SILENCE + 2 : 1.5));
    wait_for_end(stays, LINK, 1, why);
    assert_true(*why);
    if (how == 3)
        assert_non_null(strstr(why, "it was enough"));
    assert_true(goes_on(stays));
    assert_int_equal(peers[stays].last.sticky, 0);
    if (how == 1)
        kill((pid_t)worker, SIGKILL);
    if (how == 2)
        peer_connect(&peers[gone], servers[gone].uri[TCP]);
    end();
}

TEST(the_sender_is_killed) { one_goes(0, true); }
TEST(the_receiver_is_killed) { one_goes(0, false); }
TEST(the_sender_is_stopped) { one_goes(1, true); }
TEST(the_receiver_is_stopped) { one_goes(1, false); }
TEST(the_program_ends) { one_goes(2, true); }
TEST(the_link_is_aborted) { one_goes(3, false); }

TEST(the_context_is_reset)
{
    char why[FLYT_MAX_SHORT];
    begin();
    both_linked(LINK);
    peer_stream_create(&peers[1], STREAM, 1);
    receive_on(LINK, STREAM, 0, 8 * MIB, 1);
    receive_on(LINK, STREAM, 0, 8 * MIB, 2);
    assert_int_equal(peer_context_reset(&peers[1]), 0);
    wait_for_end(0, LINK, 5, why);
    assert_non_null(strstr(why, "context"));
    send_on(LINK, 0, 0, 64, 0);
    assert_int_equal(synchronise(0, 0), UNAVAILABLE);
    assert_true(goes_on(0));
    end();
}

static const char fault_ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                                ".visible .entry fault()\n{\n"
                                "    .reg .u64 %a;\n"
                                "    mov.u64 %a, 64;\n"
                                "    st.global.u32 [%a], 1;\n"
                                "    ret;\n}\n";

/* A kernel has ended the context, which cannot be made current any more: the transfer's end comes at its turn. */
TEST(the_context_has_a_fault)
{
    char why[FLYT_MAX_SHORT], log[256];
    uint32_t bytes;
    setenv("FLYT_SOFTGPU_DEVICES", "2", 1);
    begin();
    both_linked(LINK);
    assert_int_equal(PLAIN(&peers[0], context_retain, context_retain_args, { 1, 1 }), 0);
    assert_int_equal(peer_load(&peers[0], 1, fault_ptx, log, sizeof log), 0);
    assert_int_equal(peer_function(&peers[0], 1, 1, "fault", &bytes), 0);
    receive_on(LINK, 0, 0, MIB, 1);
    peer_launch(&peers[0], 1, 0, 1, 1, NULL, 0);
    assert_int_equal(peer_context_sync(&peers[0]), 700);
    assert_int_equal(PLAIN(&peers[0], context_sync, context_args, { 1 }), 700);     /* of another context */
    send_on(LINK, 0, 0, MIB, 1);
    wait_for_end(1, LINK, 5, why);
    assert_non_null(strstr(why, "could not be sent"));
    synchronise(1, 0);
    assert_true(goes_on(1));
    unsetenv("FLYT_SOFTGPU_DEVICES");
    end();
}

TEST(sizes_that_differ)
{
    begin();
    both_linked(LINK);
    send_on(LINK, 0, 0, MIB, 1);
    receive_on(LINK, 0, 0, MIB - 1, 1);
    assert_int_equal(synchronise(1, 0), INVALID);
    assert_int_equal(synchronise(0, 0), INVALID);
    send_on(LINK, 0, 0, MIB, 2);                          /* the link goes on */
    receive_on(LINK, 0, 0, MIB, 2);
    assert_int_equal(synchronise(1, 0), 0);
    end();
}

/* ---- moving ---- */

static void movable(int which, char refusal[FLYT_MAX_SHORT])
{
    movable_args args = { ~0u };
    movable_result result;
    memset(&result, 0, sizeof result);
    assert_int_equal(flyt_movable_1(&args, &result, peers[which].stub), RPC_SUCCESS);
    snprintf(refusal, FLYT_MAX_SHORT, "%s", result.refusal);
    xdr_free((xdrproc_t)xdr_movable_result, &result);
}

TEST(it_does_not_move)
{
    char refusal[FLYT_MAX_SHORT];
    begin();
    movable(0, refusal);
    assert_string_equal(refusal, "");
    both_linked(LINK);
    movable(0, refusal);
    assert_non_null(strstr(refusal, "of kind link"));
    link_close(0, LINK, "");
    movable(0, refusal);
    assert_string_equal(refusal, "");
    end();
}

/* ---- attacks ---- */

TEST(wrong_memory)
{
    char why[FLYT_MAX_SHORT];
    begin();
    both_linked(LINK);
    assert_int_equal(link_memory(0, memory_size, 4096, 1), INVALID);
    assert_int_equal(link_memory(0, 0, UINT64_MAX - peers[0].base, 1), INVALID);
    send_on(LINK, 0, memory_size - 4096, 8192, 1);
    assert_int_equal(synchronise(0, 0), INVALID);
    wait_for_end(1, LINK, 5, why);
    assert_non_null(strstr(why, "wrong memory"));
    both_linked(LINK + 1);
    receive_on(LINK + 1, 0, memory_size, 64, 1);
    assert_int_equal(synchronise(1, 0), INVALID);
    wait_for_end(0, LINK + 1, 5, why);
    /* Memory that was not registered; and a number that is not the next one. */
    link_up(LINK + 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(link_memory(0, 0, memory_size, 0), i < 2 ? 0 : INVALID);
    send_on(LINK + 2, 0, 0, 64, 1);
    assert_int_equal(synchronise(0, 0), INVALID);
    wait_for_end(1, LINK + 2, 5, why);
    both_linked(LINK + 3);
    send_on(LINK + 3, 0, 0, 64, 7);
    assert_int_equal(synchronise(0, 0), INVALID);
    wait_for_end(1, LINK + 3, 5, why);
    /* Neither links nor streams that do not exist. */
    send_on(200, 0, 0, 64, 1);
    assert_int_equal(synchronise(0, 0), HANDLE);
    receive_on(LINK, 4000, 0, 64, 1);
    assert_int_equal(synchronise(1, 0), HANDLE);
    assert_true(goes_on(0) && goes_on(1));
    end();
}

TEST(false_and_replayed_keys)
{
    struct link_handles handles[2], old[2];
    int codes[2];
    begin();
    const char *const uris[2] = { servers[0].uri[TCP], servers[1].uri[TCP] };
    for (int i = 0; i < 2; i++)
        assert_int_equal(link_listen(i, LINK, &handles[i]), 0);
    memcpy(old, handles, sizeof old);
    for (int i = 0; i < 2; i++)
        for (unsigned n = 0; n < handles[i].count; n++)
            handles[i].of[n][50] ^= 1;                    /* in the key */
    join_both(LINK, handles, uris, 1500, codes);
    assert_true(codes[0] && codes[1]);
    assert_true(codes[0] == FORBIDDEN || codes[1] == FORBIDDEN);
    assert_true(goes_on(0) && goes_on(1));
    /* Those of a link that has been joined are worth nothing. */
    both_linked(LINK + 1);
    assert_int_equal(link_listen(0, LINK + 1, &old[0]), 0);
    assert_int_equal(link_listen(1, LINK + 2, &handles[1]), 0);
    struct linked_end j = { .peer = &peers[1], .link = LINK + 2, .server = uris[0], .handles = &old[0], .ms = 1500 };
    linked_join_end(&j);
    assert_int_not_equal(j.code, 0);
    send_on(LINK + 1, 0, 0, MIB, 1);
    receive_on(LINK + 1, 0, 0, MIB, 1);
    assert_int_equal(synchronise(1, 0), 0);
    /* A link is joined once. */
    linked_join_end(&j);
    assert_int_equal(j.code, INVALID);
    assert_non_null(strstr(j.why, "once"));
    /* Handles that are none, which costs nothing. */
    assert_int_equal(link_listen(1, LINK + 3, &handles[1]), 0);
    memset(&old[0].of[0], 0xff, sizeof old[0].of[0]);
    for (int i = 0; i < 2; i++) {
        j = (struct linked_end){
            .peer = &peers[1], .link = LINK + 3, .server = uris[0], .handles = &old[0], .ms = 1500
        };
        linked_join_end(&j);
        assert_int_equal(j.code, INVALID);
        assert_null(strstr(j.why, "once"));
        j.handles->count = 0;
    }
    /* A link is closed while it is joined, or just afterwards. */
    assert_int_equal(link_listen(0, LINK + 4, &old[0]), 0);
    assert_int_equal(link_listen(1, LINK + 4, &handles[1]), 0);
    j = (struct linked_end){ .peer = &peers[1], .link = LINK + 4, .server = uris[0], .handles = &old[0], .ms = 1500 };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, linked_join_thread, &j), 0);
    usleep(50000);
    link_close(1, LINK + 4, "no more");
    pthread_join(thread, NULL);
    assert_true(j.code >= 0);                             /* it was answered */
    assert_true(goes_on(0) && goes_on(1));
    end();
}

/* The end that connects goes nowhere that the administrator has not named. */
TEST(foreign_addresses)
{
    static const char *const foreign[] = { "tcp://127.0.0.1:22", "tcp://localhost:*", "unix:///etc/passwd",
                                           "tcp://127.0.0.1:1234.example.org:1", "tls://127.0.0.1:1", "" };
    struct link_handles handles[2];
    begin_with("tcp://127.0.0.1:1,tcp://[::1]:*");
    for (unsigned n = 0; n < sizeof foreign / sizeof *foreign; n++) {
        const char *const uris[2] = { foreign[n], foreign[n] };
        int codes[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(link_listen(i, LINK + n, &handles[i]), 0);
        join_both(LINK + n, handles, uris, 500, codes);
        assert_true(codes[0] == FORBIDDEN || codes[1] == FORBIDDEN);
    }
    assert_true(goes_on(0) && goes_on(1));
    end();
}

static int stranger(const char *uri, uint64_t session, uint32_t lane)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(strrchr(uri, ':') + 1)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    uint8_t hello[RPC_LANE_HEAD];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    rpc_lane_put_hello(hello, session, lane);
    assert_int_equal(send(fd, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    return fd;
}

/* More strangers than there are places say nothing; the link comes about all the same, at once. */
TEST(strangers_fill_all_places)
{
    enum { STRANGERS = 100 };
    static int fds[2][STRANGERS];
    struct link_handles handles[2];
    begin();
    const char *const uris[2] = { servers[0].uri[TCP], servers[1].uri[TCP] };
    int codes[2];
    char byte;
    close(stranger(uris[0], peers[0].hello.session, FLYT_LINK_LANE));   /* none listens */
    for (int i = 0; i < 2; i++)
        assert_int_equal(link_listen(i, LINK, &handles[i]), 0);
    for (int i = 0; i < 2; i++)
        for (int n = 0; n < STRANGERS; n++)
            fds[i][n] = stranger(uris[i], peers[i].hello.session, FLYT_LINK_LANE);
    uint64_t before = clock_now();
    join_both(LINK, handles, uris, JOIN_MS, codes);
    assert_int_equal(codes[0] | codes[1], 0);
    assert_true(clock_now() - before < 4 * CLOCK_NS_PER_SECOND);
    for (int i = 0; i < 2; i++)
        for (int n = 0; n < STRANGERS; n++)
            close(fds[i][n]);
    int other = stranger(uris[0], peers[0].hello.session + 1, FLYT_LINK_LANE);
    assert_true(recv(other, &byte, 1, 0) <= 0);
    close(other);
    assert_true(goes_on(0) && goes_on(1));
    end();
}

/* A socket that takes no connection: whoever connects waits. */
struct deaf {
    int socket, callers[16];
    char uri[64];
};

static void deaf_open(struct deaf *deaf)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    deaf->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(deaf->socket, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(deaf->socket, 0), 0);
    assert_int_equal(getsockname(deaf->socket, (struct sockaddr *)&at, &size), 0);
    for (unsigned i = 0; i < sizeof deaf->callers / sizeof *deaf->callers; i++) {
        deaf->callers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(deaf->callers[i], (struct sockaddr *)&at, sizeof at);
    }
    snprintf(deaf->uri, sizeof deaf->uri, "tcp://127.0.0.1:%u", ntohs(at.sin_port));
}

static void deaf_close(struct deaf *deaf)
{
    for (unsigned i = 0; i < sizeof deaf->callers / sizeof *deaf->callers; i++)
        close(deaf->callers[i]);
    close(deaf->socket);
}

/* The next link of which program 0's end connects; theirs: what program 1 has given for it. */
static uint32_t link_that_calls(uint32_t *next, struct link_handles *theirs)
{
    struct link_handles own;
    do {
        assert_int_equal(link_listen(0, *next, &own), 0);
        assert_int_equal(link_listen(1, *next, theirs), 0);
    } while (memcmp(own.of[0] + FLYT_LINK_HANDLE_TURN, theirs->of[0] + FLYT_LINK_HANDLE_TURN,
                    FLYT_LINK_HANDLE_TURN_SIZE) < 0 &&
             ++*next);
    return (*next)++;
}

/* The worker that gets the place of one that has ended, and the descriptor of its socket, has none of its requests for
   connections. */
TEST(requests_of_a_worker_that_has_ended)
{
    enum { REQUESTS = 4, PROGRAMS = 8 };
    struct peer first, gone, later[PROGRAMS];
    struct link_handles handles[REQUESTS + 1];
    struct linked_end ends[REQUESTS], more;
    pthread_t threads[REQUESTS];
    struct deaf deaf;
    uint32_t next = 0;
    begin();
    /* Another program ends with it: its descriptor, the lower one, is for connections. */
    first = peers[0];
    peer_open(&peers[0], servers[0].uri[TCP]);
    deaf_open(&deaf);
    for (int i = 0; i < REQUESTS; i++) {
        uint32_t link = link_that_calls(&next, &handles[i]);
        ends[i] = (struct linked_end){ .peer = &peers[0], .link = link, .server = deaf.uri, .handles = &handles[i],
                                       .ms = 9000 };
        assert_int_equal(pthread_create(&threads[i], NULL, linked_join_thread, &ends[i]), 0);
    }
    do { /* until all of them are under way */
        uint32_t link = link_that_calls(&next, &handles[REQUESTS]);
        more = (struct linked_end){ .peer = &peers[0], .link = link, .server = deaf.uri,
                                    .handles = &handles[REQUESTS], .ms = 50 };
        linked_join_end(&more);
        assert_true(more.code && next < FLYT_MAX_LINKS / 2);
    } while (!strstr(more.why, "too many connections"));
    const int workers[] = { worker_of(0), (int)(first.hello.session >> 32) };
    for (int i = 0; i < 2; i++)
        kill((pid_t)workers[i], SIGKILL);
    for (uint64_t until = clock_now() + 5 * CLOCK_NS_PER_SECOND; clock_now() < until; usleep(1000))
        if (kill((pid_t)workers[0], 0) != 0 && kill((pid_t)workers[1], 0) != 0)
            break;
    for (int i = 0; i < REQUESTS; i++)
        pthread_join(threads[i], NULL);
    gone = peers[0];
    peer_close(&first);
    for (int i = 0; i < PROGRAMS; i++) { /* one of them gets it */
        peer_open(&later[i], servers[0].uri[TCP]);
        peers[0] = later[i];
        uint32_t link = link_that_calls(&next, &handles[0]);
        more = (struct linked_end){ .peer = &later[i], .link = link, .server = deaf.uri, .handles = &handles[0],
                                    .ms = 50 };
        linked_join_end(&more);
        assert_true(more.code && !strstr(more.why, "too many connections"));
    }
    for (int i = 0; i + 1 < PROGRAMS; i++)
        peer_close(&later[i]);
    peer_close(&gone);
    deaf_close(&deaf);
    end();
}

TEST(a_server_without_links)
{
    struct link_handles handles;
    server_start(&servers[0], "software", NULL);
    peer_open(&peers[0], servers[0].uri[TCP]);
    assert_false(peers[0].hello.capabilities & FLYT_CAP_LINKS);
    assert_int_equal(link_listen(0, LINK, &handles), NOT_SUPPORTED);
    send_on(LINK, 0, 0, 0, 1);
    assert_int_equal(synchronise(0, 0), NOT_SUPPORTED);
    link_close(0, LINK, "");                              /* is silent */
    assert_int_equal(synchronise(0, 0), 0);
    peer_close(&peers[0]);
    server_stop(&servers[0], SIGTERM);
}

int main(int argc, char **argv)
{
    (void)argc;
    linked_prepare(argv);
    return unit_run(NULL, NULL);
}
