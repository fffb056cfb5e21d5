/*
 * knock.c: a server of a cluster spends no worker, and so no GPU, on whom it does not know: the listener looks at a
 * pass first, which is no use to others who have seen it on the network.
 * shows: attacks: a pass that is forged, used up, seen by others or cut in pieces takes no GPU worker of a server
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/ticket.h"
#include "cpu/rpc/call/knock.h"
#include "tests/lib/keys.h"
#include "tests/server/peer.h"

enum { SERVER = 42 };
static char folder[] = "/tmp/flyt-knock-XXXXXX";
static struct ticket_signer *ours, *theirs;
static struct server server;

static size_t make(const struct ticket_signer *signer, uint64_t number, uint8_t bytes[TICKET_MAX_SIZE])
{
    size_t size = TICKET_MAX_SIZE;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    int64_t now = (int64_t)time.tv_sec * 1000000;
    struct ticket ticket = { .tenant = "vm", .node = "n", .gpu = "g", .server = number, .program = 5, .sms = 1,
                             .memory = 1 << 20, .issued = now, .expires = now + 60 * 1000000 };
    assert_int_equal(ticket_sign(signer, &ticket, bytes, &size, NULL), 0);
    return size;
}

static struct ticket_signer *signer_of(const char *name)
{
    struct ticket_signer *signer;
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(ticket_signer_open(path, &signer, NULL), 0);
    return signer;
}

static int setup(void **state)
{
    static char keys[128];
    (void)state;
    assert_non_null(mkdtemp(folder));
    ours = signer_of("ours");
    theirs = signer_of("theirs");
    snprintf(keys, sizeof keys, "%s/keys", folder);
    keys_write(keys, ours);
    const char *const wanting[] = { "--workers", "1", "--ticket-key", keys, "--ticket-state", folder,
                                    "--ticket-server", "42", NULL };
    server_start(&server, "null", wanting);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    server_stop(&server, SIGTERM);
    ticket_signer_close(ours);
    ticket_signer_close(theirs);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* Shows the pass of `shown`, and says HELLO with `told`. The result of HELLO, -1: there was none. */
static int hello(const char *uri, const void *shown, size_t shown_size, const void *told, size_t told_size,
                 struct peer *peer)
{
    hello_args args = { .major = FLYT_PROTOCOL_MAJOR, .host = (char *)"h", .executable = (char *)"e",
                        .ticket = { (u_int)told_size, (char *)(uintptr_t)told } };
    peer_connect_with(peer, uri, shown, shown_size);
    return flyt_hello_1(&args, &peer->hello, peer->stub) == RPC_SUCCESS ? peer->hello.head.result : -1;
}

static void refused(const char *uri, const void *shown, size_t shown_size, const void *told, size_t told_size,
                    const char *words)
{
    struct peer peer;
    int result = hello(uri, shown, shown_size, told, told_size, &peer);
    if (result != 800 || !strstr(peer.hello.refusal, words))
        fail_msg("%d: '%s' does not say '%s'", result, result == -1 ? "" : peer.hello.refusal, words);
    peer_close(&peer);
}

static void accepted(const char *uri)
{
    uint8_t ticket[TICKET_MAX_SIZE];
    size_t size = make(ours, SERVER, ticket);
    struct peer peer;
    assert_int_equal(hello(uri, ticket, size, ticket, size, &peer), 0);
    peer_close(&peer);
}

/* The process id of the worker that is ready and has a GPU. */
static int spare(void)
{
    /* One that is about to end may be alone for a moment, before the next one is there. */
    enum { LOOKS = 20 };
    int pids[64], found = 0, looks = 0;
    for (uint64_t end = clock_now() + 10 * CLOCK_NS_PER_SECOND; looks < LOOKS && clock_now() < end;) {
        bool alone = server_children(&server, pids, 64) == 1;
        looks = !alone ? 0 : pids[0] == found ? looks + 1 : 1;
        found = alone ? pids[0] : 0;
        poll(NULL, 0, 10);
    }
    assert_int_equal(looks, LOOKS);
    return found;
}

TEST(strangers_take_no_worker)
{
    uint8_t ticket[TICKET_MAX_SIZE];
    accepted(server.uri[1]);
    int before = spare();
    for (int i = 0; i < 2; i++) {
        refused(server.uri[i], NULL, 0, NULL, 0, "wants a ticket");
        size_t size = make(theirs, SERVER, ticket);
        refused(server.uri[i], ticket, size, ticket, size, "another cluster manager");
        size = make(ours, SERVER + 1, ticket);
        refused(server.uri[i], ticket, size, ticket, size, "is for server 43");
        size = make(ours, SERVER, ticket);
        refused(server.uri[i], NULL, 0, ticket, size, "did not show a pass");
        ticket[20] ^= 1;
        refused(server.uri[i], ticket, size, ticket, size, "was changed");
    }
    assert_int_equal(spare(), before);
    accepted(server.uri[1]);
    accepted(server.uri[0]);
}

/* What the network sees does not open a session, and is used up. A move that is tried again and again is not. */
TEST(overheard)
{
    enum { KNOCKS = 16 };
    uint8_t ticket[TICKET_MAX_SIZE], other[TICKET_MAX_SIZE], guessed[TICKET_MAX_SIZE];
    size_t size = make(ours, SERVER, ticket), other_size = make(ours, SERVER, other);
    memcpy(guessed, ticket, size);
    memset(guessed + size - TICKET_SECRET_SIZE, 0, TICKET_SECRET_SIZE);
    for (int i = 0; i < KNOCKS - 2; i++)
        refused(server.uri[1], ticket, size, guessed, size, "without its secret");
    refused(server.uri[1], ticket, size, other, other_size, "not the one whose pass");
    refused(server.uri[1], ticket, size, guessed, size - TICKET_SECRET_SIZE, "not accepted");
    int before = spare();
    refused(server.uri[1], ticket, size, ticket, size, "was used before");
    assert_int_equal(spare(), before);
}

static int plain_socket(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    snprintf(at.sun_path, sizeof at.sun_path, "%.100s", server.uri[0] + strlen("unix://"));
    at.sun_path[strcspn(at.sun_path, "?")] = '\0';
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static uint64_t server_ticks(void)
{
    char path[64], text[512] = "";
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", server.pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    sscanf(strrchr(text, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
    return user + kernel;
}

/* A word that has begun costs no processor time until the rest has come. */
TEST(in_pieces)
{
    uint8_t ticket[TICKET_MAX_SIZE], knock[RPC_KNOCK_MOST];
    char answer[8];
    size_t size = make(ours, SERVER, ticket), whole = rpc_knock_put(knock, ticket, size);
    int fd = plain_socket();
    for (size_t i = 0; i + 1 < whole; i += i < 12 ? 1 : 40) {
        size_t n = i < 12 ? 1 : whole - 1 - i < 40 ? whole - 1 - i : 40;
        assert_int_equal(send(fd, knock + i, n, MSG_NOSIGNAL), n);
        poll(NULL, 0, 5);
    }
    uint64_t before = server_ticks();
    poll(NULL, 0, 500);
    assert_in_range(server_ticks() - before, 0, (uint64_t)sysconf(_SC_CLK_TCK) / 5);
    close(fd);
    static const char *const nonsense[] = { "FlytPass\x7f\xff", "FlytPass\0\0", "FlytPasz\0\x10" };
    for (int i = 0; i < 3; i++) {
        fd = plain_socket();
        assert_int_equal(send(fd, nonsense[i], 10, MSG_NOSIGNAL), 10);
        struct pollfd end = { .fd = fd, .events = POLLIN };
        if (i < 2) { /* the third is no knock: it may be a call, and its rest is waited for */
            assert_int_equal(poll(&end, 1, 5000), 1);
            assert_in_range(recv(fd, answer, sizeof answer, 0) + 1, 0, 1);
        }
        close(fd);
    }
    fd = plain_socket(); /* half of the first word */
    assert_int_equal(send(fd, "Fly", 3, MSG_NOSIGNAL), 3);
    before = server_ticks();
    poll(NULL, 0, 500);
    assert_in_range(server_ticks() - before, 0, (uint64_t)sysconf(_SC_CLK_TCK) / 5);
    close(fd);
    accepted(server.uri[0]);
}

int main(void) { return unit_run(setup, teardown); }
