/*
 * gifts.c: the connections that a node manager gives a worker for its links (cpu/server/listener/dial_worker.c).
 *
 * shows: links under managers: of what a node manager has connected, a link gets the newest that is open; what an
 *   earlier request has left behind, and the other server has closed, is given to nobody
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/rpc/transport/channel.h"
#include "cpu/server/listener/dial.h"
#include "tests/lib/unit.h"

enum { COUNT = 2 };
static const char there[] = "tcp://10.0.0.1:40000", elsewhere[] = "tcp://10.0.0.2:40000";

/* theirs: the other server's ends. */
static void give(const char *address, int theirs[COUNT])
{
    int mine[COUNT];
    for (int i = 0; i < COUNT; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        mine[i] = pair[0];
        theirs[i] = pair[1];
    }
    dial_given(address, mine, COUNT);
}

static int take(const char *address, int mine[COUNT])
{
    char error[RPC_ERROR_SIZE] = "";
    return dial_await(address, COUNT, clock_now() + 10 * CLOCK_NS_PER_MS, mine, error);
}

static void close_all(const int *fds)
{
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
}

static void assert_between(const int mine[COUNT], const int theirs[COUNT])
{
    for (int i = 0; i < COUNT; i++) {
        char c = '?';
        assert_int_equal(send(mine[i], "!", 1, MSG_NOSIGNAL), 1);
        assert_int_equal(recv(theirs[i], &c, 1, MSG_DONTWAIT), 1);
        assert_int_equal(c, '!');
    }
}

TEST(the_newest_first)
{
    int early[COUNT], late[COUNT], other[COUNT], mine[COUNT];
    give(there, early);
    give(there, late);
    give(elsewhere, other);
    assert_int_equal(take(there, mine), COUNT);
    assert_between(mine, late);
    close_all(mine);
    assert_int_equal(take(there, mine), COUNT);
    assert_between(mine, early);
    close_all(mine);
    assert_int_equal(take(there, mine), -EPERM);
    assert_int_equal(take(elsewhere, mine), COUNT);
    assert_between(mine, other);
    close_all(mine);
    close_all(early);
    close_all(late);
    close_all(other);
}

TEST(what_was_closed_is_given_to_nobody)
{
    int open[COUNT], half[COUNT], mine[COUNT];
    give(there, open);
    give(there, half);
    close(half[1]);
    assert_int_equal(take(there, mine), COUNT);
    assert_between(mine, open);
    close_all(mine);
    assert_int_equal(send(half[0], "!", 1, MSG_NOSIGNAL), -1);          /* the worker has closed its end, too */
    close(half[0]);
    give(there, half);
    close_all(half);
    assert_int_equal(take(there, mine), -EPERM);
    close_all(open);
}

int main(void) { return unit_run(NULL, NULL); }
