/*
 * links_ordered.c: links of servers that a node manager has started: it connects them. The test is that node manager,
 * and the client of both servers.
 *
 * shows: links under managers: what the node manager has connected is used for the link whose end names the same
 *   address, before or after that end asks for it
 * shows: attacks: a program of a cluster's GPU server that names an address for a link by itself is connected to
 *   nothing; connections that nobody uses are closed, and an order with too many of them is refused
 */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/fd_message.h"
#include "cpu/common/share_order.h"
#include "tests/server/linking.h"

static int control[2];

static void manage(int which)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    char number[16];
    snprintf(at.sun_path, sizeof at.sun_path, "/tmp/flyt-links-ordered-%d-%d", (int)getpid(), which);
    int listens = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(listens, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listens, 4), 0);
    snprintf(number, sizeof number, "%d", listens);
    begin_one(which, (const char *const[]){ "--links", "managers", "--control-fd", number, NULL });
    close(listens);
    control[which] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(control[which], (struct sockaddr *)&at, sizeof at), 0);
    unlink(at.sun_path);
}

static int start(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        manage(i);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    end();
    close(control[0]);
    close(control[1]);
    return 0;
}

/* ---- the node manager ---- */

static void give(int which, uint32_t kind, const char *address, const int *fds, unsigned count)
{
    struct share_order order = { .kind = kind, .number = 7, .program = 1, .departs = true };
    uint8_t bytes[SHARE_ORDER_MOST_SIZE];
    snprintf(order.address, sizeof order.address, "%s", address);
    assert_int_equal(fd_message_send(control[which], bytes, share_order_put(&order, bytes), fds, count), 0);
}

/* The answer; false: the server has closed the connection. */
static bool hear(int which, struct share_order_answer *answer)
{
    uint8_t said[SHARE_ANSWER_SIZE + 1];
    ssize_t n = recv(control[which], said, sizeof said, 0);
    assert_true(n <= 0 || share_answer_get(said, (size_t)n, answer));
    return n > 0;
}

static void connected(int which, unsigned count, int fds[])
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)atoi(strrchr(servers[!which].uri[TCP], ':') + 1)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    for (unsigned i = 0; i < count; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&at, sizeof at), 0);
    }
}

/* Connections of that server to the other one, for a link whose end names `address`. */
static void give_connections(int which, const char *address)
{
    struct share_order_answer answer;
    int fds[HANDLES];
    connected(which, HANDLES, fds);
    give(which, SHARE_LINKS, address, fds, HANDLES);
    fd_message_close(fds, HANDLES);
    assert_true(hear(which, &answer));
    assert_int_equal(answer.code, SHARE_DONE);
}

/* ---- the programs ---- */

static int listen_both(uint32_t link, struct link_handles handles[2])
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(link_listen(i, link, &handles[i]), 0);
    return memcmp(handles[0].of[0] + FLYT_LINK_HANDLE_TURN, handles[1].of[0] + FLYT_LINK_HANDLE_TURN,
                  FLYT_LINK_HANDLE_TURN_SIZE) > 0
               ? 0
               : 1;
}

struct later { int which; const char *address; };

static void *give_later(void *context)
{
    const struct later *later = context;
    usleep(300000);
    give_connections(later->which, later->address);
    return NULL;
}

/* The end that connects is the one whose handles say so. */
static void link_by(uint32_t link, const char *address, bool late)
{
    struct link_handles handles[2];
    int codes[2], calls = listen_both(link, handles);
    struct later later = { calls, address };
    pthread_t thread;
    if (late)
        assert_int_equal(pthread_create(&thread, NULL, give_later, &later), 0);
    else
        give_connections(calls, address);
    join_both(link, handles, (const char *const[]){ address, address }, JOIN_MS, codes);
    if (codes[0] || codes[1])
        fail_msg("joining: %d %s, %d %s", codes[0], join_why[0], codes[1], join_why[1]);
    if (late)
        pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(link_memory(i, 0, memory_size, 1), 0);
    peer_set(&peers[0], 0, peers[0].base, MIB / 4, 1000 + link, 4);
    send_on(link, 0, 0, MIB, 1);
    receive_on(link, 0, 0, MIB, 1);
    assert_int_equal(synchronise(1, 0), 0);
    assert_int_equal(word_at(1, MIB - 4), 1000 + link);
}

TEST_WITH(the_node_manager_connects, start, finish)
{
    link_by(LINK, "tcp://gpu-2:9000", false);
    link_by(LINK + 1, "tcp://gpu-2:9000", true);
}

TEST_WITH(nothing_is_connected_for_a_program, start, finish)
{
    const char *const addresses[] = { servers[1].uri[TCP], "managers", "" };
    struct link_handles handles[2];
    int codes[2];
    give_connections(0, "tcp://gpu-2:9000");
    give_connections(1, "tcp://gpu-2:9000");
    for (unsigned n = 0; n < sizeof addresses / sizeof *addresses; n++) {
        const char *const uris[2] = { addresses[n], addresses[n] };
        int calls = listen_both(LINK + n, handles);
        join_both(LINK + n, handles, uris, 300, codes);
        assert_int_equal(codes[calls], FORBIDDEN);
        assert_non_null(strstr(join_why[calls], "no node manager has connected"));
    }
    assert_true(goes_on(0) && goes_on(1));
}

/* More of them than are kept: the oldest are closed, and the newest is there. */
TEST_WITH(connections_that_nobody_uses, start, finish)
{
    char address[64];
    for (int n = 0; n < 20; n++) {
        snprintf(address, sizeof address, "tcp://gpu-%d:9000", n);
        give_connections(0, address);
        give_connections(1, address);
    }
    link_by(LINK, address, false);
}

TEST_WITH(too_many_connections, start, finish)
{
    struct share_order_answer answer;
    int fds[SHARE_LINKS_MOST + 1];
    connected(0, SHARE_LINKS_MOST + 1, fds);
    give(0, SHARE_LINKS, "tcp://gpu-2:9000", fds, SHARE_LINKS_MOST + 1);
    assert_false(hear(0, &answer)); /* that is no order: the connection is closed */
    fd_message_close(fds, SHARE_LINKS_MOST + 1);
    assert_true(goes_on(0));
}

int main(int argc, char **argv)
{
    (void)argc;
    linked_prepare(argv);
    return unit_run(NULL, NULL);
}
