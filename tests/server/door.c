/*
 * door.c: who comes to a server without saying who he is, many times: the others are served meanwhile, and neither
 * workers nor the log grow.
 * shows: attacks: connections to a GPU server that are silent, say half a word, or talk without HELLO delay nobody
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "tests/server/peer.h"

enum { CROWD = 1300, HALF = 100 };
static const char *const one_spare[] = { "--workers", "1", NULL };

/* From the address 127.0.0.<from>, another machine as far as the server sees. wait: until the connection is there;
   else it may be outside the server's queue. */
static int connect_from(const struct server *server, unsigned from, bool wait)
{
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000u | from) }, to = own;
    const char *port = strrchr(server->uri[1], ':');
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK), 0);
    assert_true(fd >= 0 && port);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)atoi(port + 1));
    assert_true(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || (!wait && errno == EINPROGRESS));
    return fd;
}

/* Milliseconds until a client that says who it is has been answered. */
static uint64_t served_ms(const struct server *server)
{
    struct peer peer;
    uint64_t begin = clock_now();
    peer_open(&peer, server->uri[1]);
    uint64_t ms = (clock_now() - begin) / CLOCK_NS_PER_MS;
    peer_close(&peer);
    return ms;
}

TEST(silent_crowd_delays_nobody)
{
    struct server server;
    static int crowd[CROWD];
    const struct rlimit files = { 4096, 4096 };
    setrlimit(RLIMIT_NOFILE, &files);
    server_start(&server, "null", one_spare);
    served_ms(&server);
    for (int i = 0; i < CROWD; i++)
        crowd[i] = connect_from(&server, 2, i < 1020);
    usleep(200000);
    assert_in_range(served_ms(&server), 0, 2000);
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
    server_stop(&server, SIGTERM);
}

/* Each has said enough to be given a worker. */
TEST(half_words_keep_few_workers)
{
    struct server server;
    int half[HALF], pids[256];
    server_start(&server, "null", one_spare);
    served_ms(&server);
    for (int i = 0; i < HALF; i++) {
        half[i] = connect_from(&server, 2, true);
        assert_int_equal(send(half[i], "\x80\0\0", 3, MSG_NOSIGNAL), 3);
    }
    assert_in_range(served_ms(&server), 0, 3000);
    assert_in_range(server_children(&server, pids, 256), 1, 12);
    for (int i = 0; i < HALF; i++)
        close(half[i]);
    server_stop(&server, SIGTERM);
}

/* The procedure that does nothing, as often as wanted, is no HELLO. */
TEST(talk_is_no_greeting)
{
    static const char null_call[] = "\x80\x00\x00\x28\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x20\xf1\x70\x01"
                                    "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
                                    "\x00\x00\x00\x00";
    struct server server;
    server_start(&server, "null", one_spare);
    int fd = connect_from(&server, 2, true);
    uint64_t begin = clock_now();
    char answer[256];
    ssize_t n = 1;
    while (n > 0 && clock_now() - begin < 20 * CLOCK_NS_PER_SECOND) {
        struct pollfd come = { .fd = fd, .events = POLLIN };
        if (send(fd, null_call, sizeof null_call - 1, MSG_NOSIGNAL) < 0)
            break;
        if (poll(&come, 1, 500) > 0 && (n = recv(fd, answer, sizeof answer, 0)) > 0)
            usleep(200000);
    }
    assert_in_range((clock_now() - begin) / CLOCK_NS_PER_MS, 8000, 13000);
    close(fd);
    server_stop(&server, SIGTERM);
}

/* One refusal, and the connection ends; what is tried again and again comes slower, and the log stays small. */
TEST(refused_once)
{
    struct server server;
    struct stat log;
    char keys[] = "/tmp/flyt-door-XXXXXX";
    int fd = mkstemp(keys), tries = 0;
    assert_int_equal(write(fd, "0000000000000000000000000000000000000000000000000000000000000000\n", 65), 65);
    close(fd);
    const char *const wanting[] = { "--workers", "1", "--ticket-key", keys, NULL };
    server_start(&server, "null", wanting);
    for (uint64_t begin = clock_now(); clock_now() - begin < 2 * CLOCK_NS_PER_SECOND; tries++) {
        struct peer peer;
        hello_args args = { .major = FLYT_PROTOCOL_MAJOR, .host = (char *)"h", .executable = (char *)"e" };
        peer_connect(&peer, server.uri[1]);
        assert_int_equal(flyt_hello_1(&args, &peer.hello, peer.stub), RPC_SUCCESS);
        assert_int_equal(peer.hello.head.result, 800);
        assert_int_not_equal(flyt_hello_1(&args, &peer.hello, peer.stub), RPC_SUCCESS);
        peer_close(&peer);
    }
    assert_in_range(tries, 10, 40);
    assert_int_equal(fstat(server.log, &log), 0);
    assert_in_range(log.st_size, 0, 40 * 400);
    unlink(keys);
    server_stop(&server, SIGTERM);
}

int main(void) { return unit_run(NULL, NULL); }
