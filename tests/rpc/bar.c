/*
 * bar: how a client in a virtual machine and the server on its host agree on the memory of an ivshmem device, here a
 * file.
 *
 * shows: ivshmem: both sides agree on a part of the same memory, and nothing but bells goes over the network from then
  *   on
 * shows: ivshmem: other memory, none left, a server or client without it, a shorter or strange file: the connection
  *   goes on as it is, and it is said why
 * shows: ivshmem: a part is free again when its session has ended, or its worker was killed
 * shows: ivshmem: no byte of an earlier session is left in a part; a session whose part serves another one ends
 * shows: ivshmem: memory that is read too slowly is not used, and the client says that it is uncached
 * shows: ivshmem: servers that name places that cannot be, and clients that do not know the bytes, get nowhere
 */
#include "tests/rpc/service.h"

#include "cpu/rpc/transport/channel.h"
#include "cpu/rpc/shm/ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/unit.h"

enum { MIB = 1 << 20, TIMEOUT_MS = 5000, OFFER_SIZE = 44, PAYLOAD_MOST = 3 * MIB };

static char paths[2][64];                   /* two files of two parts of 8 MiB */

static int make_files(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "/dev/shm/flyt-bar-test-%d-%d", (int)getpid(), i);
        int fd = open(paths[i], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || ftruncate(fd, 16 * MIB) != 0)
            return -1;
        close(fd);
    }
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    unlink(paths[0]);
    unlink(paths[1]);
    return 0;
}

static const char *two(char text[80], int which)
{
    snprintf(text, 80, "%s,2", paths[which]);
    return text;
}

/* ---- a session: a service in a thread, and a client ---- */

struct session {
    const char     *bar;                    /* the server's; NULL: it knows of none */
    int             fds[2];
    pthread_t       thread;
    struct service *service;
    rpc_client     *client;
    char            said[RPC_ERROR_SIZE], why[RPC_ERROR_SIZE];
};

static void *session_accept(void *context)
{
    struct session *s = context;
    rpc_channel *channel = NULL;
    int status = s->bar && rpc_bar_offered(s->fds[1], TIMEOUT_MS)
                     ? rpc_bar_accept(s->fds[1], s->bar, PAYLOAD_MOST, TIMEOUT_MS, &channel, s->said)
                     : rpc_channel_from_fd(s->fds[1], &channel, s->said);
    s->service = status == 0 ? service_start(channel) : NULL;
    return NULL;
}

static void tcp_pair(int fds[2])
{
    rpc_listener *listener;
    rpc_channel *channel;
    assert_int_equal(rpc_listener_open("tcp://127.0.0.1:0", &listener, NULL), 0);
    assert_int_equal(rpc_channel_connect(rpc_listener_uri(listener), TIMEOUT_MS, &channel, NULL), 0);
    fds[1] = rpc_listener_accept(listener);
    assert_true(fds[1] >= 0);
    fds[0] = fcntl(rpc_channel_socket(channel), F_DUPFD_CLOEXEC, 0);
    assert_true(fds[0] >= 0);
    rpc_channel_abandon(channel);
    free(channel);
    rpc_listener_close(listener);
}

/* file NULL: the client does not ask. */
static void session_begin(struct session *s, const char *bar, const char *file)
{
    rpc_channel *channel;
    *s = (struct session){ .bar = bar };
    tcp_pair(s->fds);
    assert_int_equal(pthread_create(&s->thread, NULL, session_accept, s), 0);
    assert_int_equal(rpc_channel_from_fd(s->fds[0], &channel, NULL), 0);
    if (file)
        assert_int_equal(rpc_channel_share_bar(&channel, file, RPC_HANDSHAKE_MS, s->why), bar == NULL);
    assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, 10, NULL, NULL, &s->client, NULL), 0);
    for (int i = 0; i < 300; i++)
        assert_int_equal(test_call(s->client, i), RPC_SUCCESS);
    pthread_join(s->thread, NULL);
    assert_non_null(s->service);
    assert_string_equal(rpc_client_transport(s->client), rpc_server_transport(s->service->server));
}

static void session_end(struct session *s)
{
    rpc_client_destroy(s->client);
    service_join(s->service);
}

static void is_shared(const struct session *s)
{
    assert_string_equal(rpc_client_transport(s->client), "shm");
    assert_string_equal(s->why, "");
    assert_string_equal(s->said, "");
}

static void is_plain(const struct session *s, const char *why)
{
    assert_string_equal(rpc_client_transport(s->client), "tcp");
    if (!strstr(s->why, why))
        fail_msg("\"%s\" does not say \"%s\"", s->why, why);
}

TEST(agree)
{
    struct session a, b;
    struct rpc_shared_memory memory[2];
    char bar[80], byte[2];
    session_begin(&a, two(bar, 0), paths[0]);
    session_begin(&b, bar, paths[0]);
    is_shared(&a);
    is_shared(&b);
    /* each has its own payload area, of the size that the server allows, and both sides mean the same bytes by it */
    assert_true(rpc_client_shared_memory(a.client, &memory[0]) &&
                rpc_server_shared_memory(a.service->server, &memory[1]));
    assert_int_equal(memory[0].payload, memory[1].payload);
    assert_int_equal(memory[0].payload_size, PAYLOAD_MOST);
    assert_int_equal(pwrite(memory[0].fd, "x", 1, (off_t)memory[0].payload), 1);
    assert_true(rpc_server_shared_memory(b.service->server, &memory[0]));
    assert_int_equal(pread(memory[1].fd, byte, 1, (off_t)memory[1].payload), 1);
    assert_int_equal(pread(memory[0].fd, byte + 1, 1, (off_t)memory[0].payload), 1);
    assert_int_equal(byte[0], 'x');
    assert_int_not_equal(byte[1], 'x');
    session_end(&a);
    session_end(&b);
}

TEST(disagree)
{
    struct session s;
    char bar[80], shorter[64], pipe[64];
    session_begin(&s, two(bar, 0), paths[1]);                   /* rings never were there */
    is_plain(&s, "is not the memory that the server's --bar names");
    session_end(&s);
    /* and rings of an earlier session, in each part: the bytes differ */
    struct session first, second;
    char other[80];
    session_begin(&first, two(other, 1), paths[1]);
    session_begin(&second, other, paths[1]);
    session_end(&first);
    session_end(&second);
    session_begin(&s, bar, paths[1]);
    is_plain(&s, "is not the memory that the server's --bar names");
    assert_non_null(strstr(s.said, "other memory"));
    session_end(&s);

    session_begin(&s, NULL, paths[0]);
    is_plain(&s, "without --bar");
    session_end(&s);
    session_begin(&s, bar, NULL);
    is_plain(&s, "");
    session_end(&s);
    session_begin(&s, bar, "/dev/shm/flyt-no-such-file");
    is_plain(&s, "No such file");
    session_end(&s);
    session_begin(&s, bar, "/dev/zero");
    is_plain(&s, "neither a file in memory nor");
    session_end(&s);
    session_begin(&s, bar, "/tmp/resource2_wc");
    is_plain(&s, "write combining");
    session_end(&s);
    snprintf(pipe, sizeof pipe, "/tmp/flyt-bar-pipe-%d", (int)getpid());
    assert_int_equal(mkfifo(pipe, 0600), 0);
    session_begin(&s, bar, pipe);                               /* and does not wait for who writes */
    is_plain(&s, "neither a file in memory nor");
    session_end(&s);
    unlink(pipe);
    snprintf(shorter, sizeof shorter, "/tmp/flyt-bar-short-%d", (int)getpid());
    for (int size = 0; size <= 4096; size += 4096) {
        int fd = open(shorter, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_int_equal(ftruncate(fd, size), 0);
        close(fd);
        session_begin(&s, bar, shorter);
        is_plain(&s, size ? "behind the end" : "empty");
        session_end(&s);
    }
    unlink(shorter);
}

TEST(all_taken)
{
    struct session s[3];
    char bar[80];
    two(bar, 0);
    for (int i = 0; i < 3; i++)
        session_begin(&s[i], bar, paths[0]);
    is_shared(&s[0]);
    is_shared(&s[1]);
    is_plain(&s[2], "no part of its --bar free");
    assert_non_null(strstr(s[2].said, "all 2 parts"));
    session_end(&s[1]);
    session_end(&s[2]);
    session_begin(&s[1], bar, paths[0]);
    is_shared(&s[1]);
    session_end(&s[0]);
    session_end(&s[1]);
}

TEST(killed)
{
    struct session next[2];
    char bar[80], why[RPC_ERROR_SIZE];
    int fds[2];
    rpc_channel *channel;
    rpc_client *client;
    two(bar, 0);
    tcp_pair(fds);
    pid_t worker = fork();
    assert_true(worker >= 0);
    if (worker == 0) {
        close(fds[0]);
        if (rpc_bar_offered(fds[1], TIMEOUT_MS) && rpc_bar_accept(fds[1], bar, 0, TIMEOUT_MS, &channel, why) == 0)
            service_run(service_create(channel));
        _exit(0);
    }
    close(fds[1]);
    assert_int_equal(rpc_channel_from_fd(fds[0], &channel, NULL), 0);
    assert_int_equal(rpc_channel_share_bar(&channel, paths[0], RPC_HANDSHAKE_MS, why), 0);
    assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, 10, NULL, NULL, &client, NULL), 0);
    assert_int_equal(test_call(client, 1), RPC_SUCCESS);
    assert_string_equal(rpc_client_transport(client), "shm");
    kill(worker, SIGKILL);
    assert_int_equal(waitpid(worker, NULL, 0), worker);
    assert_int_not_equal(test_call(client, 2), RPC_SUCCESS);
    for (int i = 0; i < 2; i++)
        session_begin(&next[i], bar, paths[0]);
    is_shared(&next[0]);
    is_shared(&next[1]);
    for (int i = 0; i < 2; i++)
        session_end(&next[i]);
    rpc_client_destroy(client);
}

/* A part of the file that an earlier program has written all over. */
TEST(cleared)
{
    enum { PIECE = 64 * 1024 };
    static uint8_t bytes[PIECE], zeros[PIECE];
    struct session s;
    struct rpc_shared_memory memory;
    char bar[80];
    snprintf(bar, sizeof bar, "%s,1", paths[0]);
    for (int round = 0; round < 2; round++) {
        session_begin(&s, bar, paths[0]);
        is_shared(&s);
        assert_true(rpc_client_shared_memory(s.client, &memory));
        assert_int_equal(memory.payload_size, PAYLOAD_MOST);
        for (size_t at = 0; at < memory.payload_size; at += PIECE) {
            assert_int_equal(pread(memory.fd, bytes, PIECE, (off_t)(memory.payload + at)), PIECE);
            assert_memory_equal(bytes, zeros, PIECE);
            memset(bytes, 0x5a, PIECE);
            assert_int_equal(pwrite(memory.fd, bytes, PIECE, (off_t)(memory.payload + at)), PIECE);
        }
        session_end(&s);
    }
}

/* As in a machine that was restored from a snapshot, while its part of the file serves another session. */
TEST(taken_away)
{
    struct session s;
    struct rpc_shared_memory memory;
    char bar[80], other[16];
    snprintf(bar, sizeof bar, "%s,1", paths[0]);
    session_begin(&s, bar, paths[0]);
    assert_true(rpc_client_shared_memory(s.client, &memory));
    memset(other, 1, sizeof other);
    assert_int_equal(pwrite(memory.fd, other, sizeof other, RING_HEAD - 16), sizeof other);
    assert_int_not_equal(test_call(s.client, 1), RPC_SUCCESS);
    session_end(&s);
}

TEST(slow)
{
    struct session s;
    char bar[80];
    setenv("FLYT_BAR_SPEED", "4294967295", 1);
    session_begin(&s, two(bar, 0), paths[0]);
    is_plain(&s, "MB/s, less than 4294967295: it is uncached");
    assert_non_null(strstr(s.said, "uncached in the client's machine"));
    session_end(&s);
    setenv("FLYT_BAR_SPEED", "0", 1);
    session_begin(&s, bar, paths[0]);
    is_shared(&s);
    session_end(&s);
    unsetenv("FLYT_BAR_SPEED");
}

/* ---- liars ---- */

static void send_words(int fd, const uint32_t *words, size_t count)
{
    uint32_t there[32];
    for (size_t i = 0; i < count; i++)
        there[i] = htonl(words[i]);
    assert_int_equal(send(fd, there, count * 4, MSG_NOSIGNAL), count * 4);
}

/* What the server says to the offer, and after the proof, if one comes. */
struct lie { uint32_t place[4]; uint32_t agrees, mark; bool plain, hangs_up; };
struct liar { int fd; const struct lie *lie; bool proved, zeros; };

static void *liar_run(void *context)
{
    struct liar *liar = context;
    const struct lie *lie = liar->lie;
    uint32_t came[16], zeros[4] = { 0 };
    assert_int_equal(recv(liar->fd, came, OFFER_SIZE, MSG_WAITALL), OFFER_SIZE);
    uint32_t answer[11] = { lie->mark, 0, REPLY, MSG_ACCEPTED, AUTH_NONE, 0, SUCCESS, lie->place[0], lie->place[1],
                            lie->place[2], lie->place[3] };
    send_words(liar->fd, answer, lie->hangs_up ? 3 : 11);
    if (lie->hangs_up)
        shutdown(liar->fd, SHUT_RDWR);
    liar->proved = recv(liar->fd, came, sizeof came, MSG_WAITALL) == sizeof came;
    liar->zeros = liar->proved && memcmp(came + 11, zeros, sizeof zeros) == 0;
    if (liar->proved) {
        answer[0] = 0x80000000 | 28;
        answer[7] = lie->agrees;
        send_words(liar->fd, answer, 8);
    }
    return NULL;
}

TEST(lying_servers)
{
    enum { GOOD = 0x80000000 | 40, RINGS = 4 * MIB };
    static const struct lie lies[] = {
        { { 0, 16 * MIB, 0, RINGS }, 0, GOOD, true, false },            /* behind the end */
        { { 0, 14 * MIB, 0, RINGS }, 0, GOOD, true, false },            /* partly */
        { { ~0u, ~0u - 4095, 0, RINGS }, 0, GOOD, true, false },        /* wraps */
        { { 0, 4096, ~0u, ~0u - 4095 }, 0, GOOD, true, false },
        { { 0, 1, 0, RINGS }, 0, GOOD, true, false },                   /* no whole page */
        { { 0, 0, 0, 4096 }, 0, GOOD, true, false },                    /* too small */
        { { 0, 14 * MIB, 0, RINGS }, 1, GOOD, false, false },           /* and says yes to zeros */
        { { 0, 0, 0, RINGS }, 0, 0xfffffffc, false, false },            /* a record that long */
        { { 0, 0, 0, RINGS }, 0, 40, false, false },                    /* not the last fragment */
        { { 0, 0, 0, RINGS }, 0, GOOD, false, true },
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        int fds[2];
        pthread_t thread;
        rpc_channel *channel;
        char why[RPC_ERROR_SIZE] = "";
        tcp_pair(fds);
        struct liar liar = { fds[1], &lies[i], false, false };
        assert_int_equal(pthread_create(&thread, NULL, liar_run, &liar), 0);
        assert_int_equal(rpc_channel_from_fd(fds[0], &channel, NULL), 0);
        int status = rpc_channel_share_bar(&channel, paths[0], RPC_HANDSHAKE_MS, why);
        assert_int_equal(status == 0, lies[i].plain);
        assert_string_not_equal(why, "");
        if (status == 0) {
            assert_string_equal(rpc_channel_transport(channel), "tcp");
            rpc_channel_destroy(channel);
        }
        pthread_join(thread, NULL);
        assert_int_equal(liar.proved, lies[i].mark == GOOD && !lies[i].hangs_up);
        assert_int_equal(liar.zeros, liar.proved);
        close(fds[1]);
    }
}

enum client_lie { GUESSES, STRANGE_RECORD, ENDS, SAYS_NOTHING, CLIENT_LIES };

TEST(lying_clients)
{
    struct session after[2];
    char bar[80];
    two(bar, 0);
    for (enum client_lie lie = 0; lie < CLIENT_LIES; lie++) {
        int fds[2];
        uint32_t call[16] = { 0x80000000 | 40, 0, 0, 2, 0x20F17008, RING_VERSION, 4 }, answer[11];
        rpc_channel *served = NULL;
        char why[RPC_ERROR_SIZE] = "";
        tcp_pair(fds);
        send_words(fds[0], call, 11);
        call[0] = 0x80000000 | (lie == STRANGE_RECORD ? 64 : 60);
        call[6] = 5;
        call[11] = 4711;
        if (lie != SAYS_NOTHING)
            send_words(fds[0], call, lie == ENDS ? 13 : 16);
        if (lie == ENDS)
            shutdown(fds[0], SHUT_WR);
        assert_true(rpc_bar_offered(fds[1], TIMEOUT_MS));
        int status = rpc_bar_accept(fds[1], bar, 0, lie == SAYS_NOTHING ? 100 : TIMEOUT_MS, &served, why);
        assert_string_not_equal(why, "");
        if (lie == GUESSES) {
            assert_int_equal(status, 0);
            assert_string_equal(rpc_channel_transport(served), "tcp");
            assert_int_equal(recv(fds[0], answer, 44, MSG_WAITALL), 44);
            assert_int_equal(recv(fds[0], answer, 32, MSG_WAITALL), 32);
            assert_int_equal(answer[7], 0);
        } else {
            assert_int_equal(status, lie == STRANGE_RECORD ? -EPROTO : lie == ENDS ? -ECONNRESET : -ETIMEDOUT);
        }
        rpc_channel_destroy(served);
        close(fds[0]);
    }
    for (int i = 0; i < 2; i++) {
        session_begin(&after[i], bar, paths[0]);            /* and no part is lost */
        is_shared(&after[i]);
    }
    for (int i = 0; i < 2; i++)
        session_end(&after[i]);
}

TEST(other_beginnings)
{
    uint32_t offer[11] = { 0x80000000 | 40, 0, 0, 2, 0x20F17008, RING_VERSION, 4 };
    int fds[2];
    test_socket_pair(fds);
    send_words(fds[0], offer, 10);                          /* never whole */
    assert_false(rpc_bar_offered(fds[1], 50));
    send_words(fds[0], offer + 10, 1);
    assert_true(rpc_bar_offered(fds[1], 50));
    assert_true(rpc_bar_offered(fds[1], 0));                /* it only looks */
    close(fds[0]);
    close(fds[1]);
    test_socket_pair(fds);
    offer[5]++;                                             /* of another version */
    send_words(fds[0], offer, 11);
    assert_false(rpc_bar_offered(fds[1], TIMEOUT_MS));
    close(fds[0]);
    close(fds[1]);
}

/* What the server's command line may say. */
TEST(settings)
{
    static const struct { const char *behind, *why;
    } bad[] = {
        { ",0", "from 1 to 256" },
        { ",257", "from 1 to 256" },
        { ",", "from 1 to 256" },
        { ",2x", "from 1 to 256" },
        { ",-1", "from 1 to 256" },
        { "", NULL },
        { ",4", NULL },
        { ",1", NULL },
        { ",5", "5 sessions need" },
        { "x", "No such file" },
    };
    char text[96], why[RPC_ERROR_SIZE];
    struct stat is;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "%s%s", paths[1], bad[i].behind);
        int status = rpc_bar_check(text, why);
        assert_int_equal(status == 0, !bad[i].why);
        if (bad[i].why && !strstr(why, bad[i].why))
            fail_msg("\"%s\" does not say \"%s\"", why, bad[i].why);
    }
    assert_int_not_equal(rpc_bar_check(",4", why), 0);
    assert_int_not_equal(rpc_bar_check("/dev/shm", why), 0);
    assert_int_equal(stat(paths[1], &is), 0);
    assert_int_equal(is.st_blocks * 512, 16 * MIB);         /* no page of it can be missing later */
}

int main(void) { return unit_run(make_files, remove_files); }
