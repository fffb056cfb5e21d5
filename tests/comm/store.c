/*
 * store.c: the stores of cpu/comm.
 *
 * shows: communication: stores of each kind set, get, replace and wait with a deadline, from several threads
 * shows: communication: a store forgets a value that was lent when all have got it
 * shows: communication: a store's server refuses wrong keys and nonsense, bounds what it keeps
 */
#include "tests/lib/unit.h"

#include "cpu/comm/store/store.h"
#include "cpu/common/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static uint8_t key[COMM_KEY_SIZE] = "thirty-two bytes, all of a store";
static struct comm_store_server *server;
static char folder[] = "/tmp/flyt-comm-store-XXXXXX";
static char error[RPC_ERROR_SIZE];

static uint64_t in_ms(unsigned ms) { return clock_now() + ms * CLOCK_NS_PER_MS; }

static struct comm_store *open_tcp(void)
{
    struct comm_store *store = NULL;
    if (comm_store_tcp(comm_store_server_uri(server), key, in_ms(5000), &store, error) != 0)
        fail_msg("%s", error);
    return store;
}

enum kind { HASH, FILES, TCP, PREFIX, KINDS };

static struct comm_store *inner;

static struct comm_store *open_kind(enum kind kind)
{
    struct comm_store *store = NULL;
    int status = 0;
    switch (kind) {
    case HASH: status = comm_store_hash(&store, error); break;
    case FILES: status = comm_store_file(folder, &store, error); break;
    case TCP: store = open_tcp(); break;
    default:
        inner = open_tcp();
        status = comm_store_prefix(inner, "job/", &store, error);
        break;
    }
    if (status != 0)
        fail_msg("%s", error);
    return store;
}

static void close_kind(enum kind kind, struct comm_store *store)
{
    comm_store_destroy(store);
    if (kind == PREFIX)
        comm_store_destroy(inner);
}

TEST(each_kind_sets_gets_and_replaces)
{
    static uint8_t large[COMM_STORE_VALUE_MOST], back[COMM_STORE_VALUE_MOST];
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (uint8_t)(i * 7 + i / 251);
    for (enum kind kind = HASH; kind < KINDS; kind++) {
        struct comm_store *store = open_kind(kind);
        char text[16] = "";
        size_t size = 0;
        assert_int_equal(comm_store_set(store, "rank 0/é", "first", 6, in_ms(5000), error), 0);
        assert_int_equal(comm_store_set(store, "rank 0/é", "second", 7, in_ms(5000), error), 0);
        assert_int_equal(comm_store_get(store, "rank 0/é", text, sizeof text, &size, in_ms(5000), error), 0);
        assert_int_equal(size, 7);
        assert_string_equal(text, "second");
        assert_int_equal(comm_store_get(store, "rank 0/é", text, 6, &size, in_ms(5000), error), -EMSGSIZE);
        assert_int_equal(size, 7);
        assert_int_equal(comm_store_set(store, "nothing", "", 0, in_ms(5000), error), 0);
        assert_int_equal(comm_store_get(store, "nothing", text, sizeof text, &size, in_ms(5000), error), 0);
        assert_int_equal(size, 0);
        assert_int_equal(comm_store_set(store, "large", large, sizeof large, in_ms(5000), error), 0);
        assert_int_equal(comm_store_get(store, "large", back, sizeof back, &size, in_ms(5000), error), 0);
        assert_int_equal(size, sizeof large);
        assert_memory_equal(back, large, sizeof large);
        close_kind(kind, store);
    }
}

TEST(each_kind_refuses_what_is_too_long_and_names_a_key_that_does_not_come)
{
    char long_key[COMM_STORE_KEY_MOST + 2];
    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = 0;
    for (enum kind kind = HASH; kind < KINDS; kind++) {
        struct comm_store *store = open_kind(kind);
        uint64_t begin = clock_now();
        assert_int_equal(comm_store_set(store, long_key, "", 0, in_ms(5000), error), -EINVAL);
        assert_int_equal(comm_store_set(store, "", "", 0, in_ms(5000), error), -EINVAL);
        assert_int_equal(comm_store_set(store, "k", key, (size_t)COMM_STORE_VALUE_MOST + 1, in_ms(5000), error),
                         -EINVAL);
        assert_int_equal(comm_store_get(store, "missing", NULL, 0, NULL, in_ms(30), error), -ETIMEDOUT);
        assert_non_null(strstr(error, "missing"));
        assert_true(clock_now() - begin >= 30 * CLOCK_NS_PER_MS);
        /* it goes on after that */
        assert_int_equal(comm_store_set(store, "after", "x", 1, in_ms(5000), error), 0);
        close_kind(kind, store);
    }
}

/* A store of files, and one that puts a prefix before its keys, may keep them: this one's inner store does not. */
TEST(a_lent_value_is_forgotten_when_it_was_got)
{
    static uint8_t large[COMM_STORE_VALUE_MOST];
    for (enum kind kind = HASH; kind < KINDS; kind++) {
        struct comm_store *store = open_kind(kind);
        char text[16];
        size_t size = 0;
        assert_int_equal(comm_store_lend(store, "lent", "x", 2, 0, in_ms(5000), error), -EINVAL);
        assert_int_equal(comm_store_lend(store, "lent", "x", 2, 2, in_ms(5000), error), 0);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(comm_store_get(store, "lent", NULL, 0, NULL, in_ms(5000), error), 0);
            assert_int_equal(comm_store_get(store, "lent", text, sizeof text, &size, in_ms(5000), error), 0);
            assert_int_equal(size, 2);
        }
        if (kind != FILES)
            assert_int_equal(comm_store_get(store, "lent", NULL, 0, NULL, in_ms(30), error), -ETIMEDOUT);
        /* together far more than a store keeps */
        for (unsigned i = 0; kind != FILES && i < 2 * COMM_STORE_BYTES_MOST / COMM_STORE_VALUE_MOST; i++) {
            snprintf(text, sizeof text, "large %u", i);
            assert_int_equal(comm_store_lend(store, text, large, sizeof large, 1, in_ms(5000), error), 0);
            assert_int_equal(comm_store_get(store, text, large, sizeof large, &size, in_ms(5000), error), 0);
        }
        close_kind(kind, store);
    }
}

struct waiter { struct comm_store *store; int status; };

static void *wait_for_two(void *context)
{
    struct waiter *w = context;
    static const char *const keys[] = { "one", "two" };
    w->status = comm_store_wait(w->store, keys, 2, clock_now() + 20 * CLOCK_NS_PER_SECOND, NULL);
    return NULL;
}

TEST(who_waits_is_woken_by_another_thread)
{
    for (enum kind kind = HASH; kind < KINDS; kind++) {
        /* Over tcp each has a connection of its own: requests of one connection take turns. */
        struct comm_store *store = open_kind(kind), *second = kind == TCP ? open_kind(kind) : store;
        struct waiter waiter = { kind == PREFIX ? store : second, 1 };
        struct comm_store *other_inner = NULL, *other = store;
        pthread_t thread;
        if (kind == PREFIX) {
            other_inner = open_tcp();
            assert_int_equal(comm_store_prefix(other_inner, "job/", &other, error), 0);
        }
        assert_int_equal(pthread_create(&thread, NULL, wait_for_two, &waiter), 0);
        assert_int_equal(comm_store_set(other, "two", "", 0, in_ms(5000), error), 0);
        assert_int_equal(comm_store_set(other, "one", "", 0, in_ms(5000), error), 0);
        pthread_join(thread, NULL);
        assert_int_equal(waiter.status, 0);
        if (kind == PREFIX) {
            comm_store_destroy(other);
            comm_store_destroy(other_inner);
        }
        if (second != store)
            comm_store_destroy(second);
        close_kind(kind, store);
    }
}

TEST(a_prefix_keeps_jobs_apart)
{
    struct comm_store *hash = NULL, *a = NULL, *b = NULL;
    assert_int_equal(comm_store_hash(&hash, error), 0);
    assert_int_equal(comm_store_prefix(hash, "a/", &a, error), 0);
    assert_int_equal(comm_store_prefix(hash, "b/", &b, error), 0);
    assert_int_equal(comm_store_set(a, "k", "x", 1, in_ms(100), error), 0);
    assert_int_equal(comm_store_get(b, "k", NULL, 0, NULL, in_ms(1), error), -ETIMEDOUT);
    assert_int_equal(comm_store_get(hash, "a/k", NULL, 0, NULL, in_ms(1), error), 0);
    comm_store_destroy(a);
    comm_store_destroy(b);
    comm_store_destroy(hash);
}

TEST(a_hash_store_is_bounded)
{
    struct comm_store *store = NULL;
    static uint8_t value[COMM_STORE_VALUE_MOST];
    char name[32];
    int status = 0, count = 0;
    assert_int_equal(comm_store_hash(&store, error), 0);
    for (; status == 0 && count < 1000; count++) {
        snprintf(name, sizeof name, "%d", count);
        status = comm_store_set(store, name, value, sizeof value, 0, error);
    }
    assert_int_equal(status, -ENOSPC);
    assert_int_equal(count, COMM_STORE_BYTES_MOST / COMM_STORE_VALUE_MOST);   /* the keys take the last one's room */
    assert_int_equal(comm_store_set(store, "0", "", 0, 0, error), 0);         /* smaller: there is room again */
    assert_int_equal(comm_store_set(store, "more", value, 1000, 0, error), 0);
    comm_store_destroy(store);
}

TEST(a_folder_that_others_may_write_is_refused)
{
    struct comm_store *store = NULL;
    assert_int_equal(chmod(folder, 0770), 0);
    assert_int_equal(comm_store_file(folder, &store, error), -EPERM);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(comm_store_file("/nowhere/at/all", &store, error), -ENOENT);
}

/* ---- attacks ---- */

TEST(another_key_is_refused_and_nothing_is_kept)
{
    struct comm_store *store = NULL;
    uint8_t other[COMM_KEY_SIZE];
    memcpy(other, key, sizeof other);
    other[31] ^= 1;
    assert_int_equal(comm_store_tcp(comm_store_server_uri(server), other, in_ms(5000), &store, error), -EACCES);
    assert_non_null(strstr(error, "another key"));
}

static int raw_connection(void)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    snprintf(to.sun_path, sizeof to.sun_path, "%s", comm_store_server_uri(server) + strlen("unix://"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* The server closes the connection. */
static void expect_end(int fd)
{
    char byte;
    struct timeval limit = { .tv_sec = 10 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ssize_t got = recv(fd, &byte, 1, 0);
    assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
    close(fd);
}

TEST(who_speaks_something_else_is_shown_out)
{
    char nonsense[COMM_HELLO_SIZE];
    int fd = raw_connection();
    memset(nonsense, 'G', sizeof nonsense);
    assert_int_equal(send(fd, nonsense, sizeof nonsense, MSG_NOSIGNAL), sizeof nonsense);
    expect_end(fd);
}

TEST(a_recorded_greeting_is_of_no_use)
{
    uint8_t hello[COMM_HELLO_SIZE + COMM_PROOF_SIZE] = "FlytStor", nonces[2][COMM_NONCE_SIZE];
    for (int i = 0; i < 2; i++) {
        int fd = raw_connection();
        assert_int_equal(send(fd, hello, COMM_HELLO_SIZE, MSG_NOSIGNAL), COMM_HELLO_SIZE);
        assert_int_equal(recv(fd, nonces[i], COMM_NONCE_SIZE, MSG_WAITALL), COMM_NONCE_SIZE);
        assert_int_equal(send(fd, hello + COMM_HELLO_SIZE, COMM_PROOF_SIZE, MSG_NOSIGNAL), COMM_PROOF_SIZE);
        expect_end(fd);
    }
    assert_memory_not_equal(nonces[0], nonces[1], COMM_NONCE_SIZE);
}

TEST(strangers_that_say_nothing_keep_nobody_out)
{
    int fds[100];
    for (int i = 0; i < 100; i++)
        fds[i] = raw_connection();
    struct comm_store *store = open_tcp();
    assert_int_equal(comm_store_set(store, "here", "", 0, in_ms(5000), error), 0);
    expect_end(fds[0]);                         /* the oldest had to go */
    for (int i = 1; i < 100; i++)
        close(fds[i]);
    comm_store_destroy(store);
}

TEST(a_server_that_goes_is_noticed)
{
    struct comm_store_server *brief = NULL;
    struct comm_store *store = NULL;
    assert_int_equal(comm_store_serve("tcp://127.0.0.1:0", key, &brief, error), 0);
    assert_int_equal(comm_store_tcp(comm_store_server_uri(brief), key, in_ms(5000), &store, error), 0);
    comm_store_server_stop(brief);
    assert_true(comm_store_set(store, "k", "", 0, in_ms(5000), error) < 0);
    comm_store_destroy(store);
}

static int set_up(void **state)
{
    char uri[64];
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(uri, sizeof uri, "unix://%s/s", folder);
    return comm_store_serve(uri, key, &server, error);
}

static int tear_down(void **state)
{
    char command[64];
    (void)state;
    comm_store_server_stop(server);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    return unit_run(set_up, tear_down);
}
