/*
 * shm_peers: the other side of shared memory once both have it: it writes anything anywhere, dies at every byte, does
 * not read; and nobody sleeps through what was for them.
 */
#include "tests/rpc/service.h"

#include "cpu/rpc/transport/channel.h"
#include "cpu/rpc/shm/ring.h"

#include "cpu/common/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/unit.h"

/* ---- hostile peers: raw hands on the memory ---- */

struct raw {
    int              fd;
    uint8_t         *memory;
    size_t           size;
    struct ring_view view;
};

static void nothing(void *context) { (void)context; }

/* The client's side of a served connection. */
static struct service *raw_client(struct raw *raw)
{
    int fds[2], memory = -1;
    rpc_channel *served;
    uint32_t words[] = { 0x80000000 | 40, 0, 0, 2, 0x20F17008, RING_VERSION, 1, 0, 0, 0, 0 }, answer[9];
    for (size_t i = 0; i < 11; i++)
        words[i] = htonl(words[i]);
    test_socket_pair(fds);
    assert_int_equal(rpc_channel_accept(fds[1], 0, &served, NULL), 0);
    struct service *service = service_start(served);
    assert_int_equal(send(fds[0], words, sizeof words, 0), sizeof words);
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control;
    struct iovec data = { answer, sizeof answer };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control };
    assert_int_equal(recvmsg(fds[0], &message, MSG_WAITALL), sizeof answer);
    memcpy(&memory, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof memory);
    raw->fd = fds[0];
    raw->size = ntohl(answer[8]);
    assert_int_equal(ftruncate(memory, 0), -1);         /* sealed: nobody can take it away */
    assert_int_equal(errno, EPERM);
    raw->memory = mmap(NULL, raw->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    assert_true(raw->memory != MAP_FAILED);
    close(memory);
    assert_int_equal(ring_attach(raw->memory, raw->size, raw->size, RING_CLIENT, &raw->view), 0);
    return service;
}

static void raw_end(struct raw *raw, struct service *service, bool close_first)
{
    if (close_first)
        close(raw->fd);
    pthread_join(service->thread, NULL);
    assert_true(service->ended < 0);
    service_destroy(service);
    if (!close_first)
        close(raw->fd);
    munmap(raw->memory, raw->size);
}

static size_t put_call(struct raw *raw, uint32_t procedure, uint32_t argument, size_t bytes)
{
    uint32_t words[] = { 0x80000000 | 44, 9, 0, 2, FLYT_PROGRAM, FLYT_VERSION_1, procedure, 0, 0, 0, 0, argument };
    for (size_t i = 0; i < 12; i++)
        words[i] = htonl(words[i]);
    struct iovec data = { words, bytes };
    return (size_t)ring_write(&raw->view, &data, 1, nothing, NULL);
}

static void ring(struct raw *raw)
{
    send(raw->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Positions that cannot be: the session ends, by itself. */
TEST(impossible_positions)
{
    static const uint64_t tails[] = { RING_SIZE + 1, UINT64_MAX, UINT64_MAX / 2, UINT64_C(1) << 32 };
    struct raw raw;
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        struct service *service = raw_client(&raw);
        atomic_store(&raw.view.out.control->tail, tails[i]);
        ring(&raw);
        raw_end(&raw, service, false);
    }
    for (size_t i = 0; i < 3; i++) {                    /* after good calls, backwards */
        struct service *service = raw_client(&raw);
        for (unsigned k = 0; k < 5; k++)
            assert_int_equal(put_call(&raw, FLYT_CONTEXT_SYNC, k, 48), 48);
        uint64_t deadline = clock_now() + 10 * CLOCK_NS_PER_SECOND;
        while (atomic_load(&raw.view.in.control->tail) < 5 && clock_now() < deadline)
            poll(NULL, 0, 1);
        while (atomic_load(&raw.view.out.control->head) < 240 && clock_now() < deadline)
            poll(NULL, 0, 1);
        assert_int_equal(atomic_load(&raw.view.out.control->head), 240);
        atomic_store(&raw.view.out.control->tail, 239 - i);
        ring(&raw);
        raw_end(&raw, service, false);
    }
    struct service *service = raw_client(&raw);         /* the replies' head, past all that was written */
    atomic_store(&raw.view.in.control->head, UINT64_C(1) << 40);
    for (unsigned i = 0; i < 60000; i++) {
        put_call(&raw, FLYT_CONTEXT_SYNC, 0, 48);
        ring(&raw);
        if (i % 64 == 0)
            poll(NULL, 0, 1);
        if (send(raw.fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EPIPE)
            break;
    }
    raw_end(&raw, service, false);
}

/* Random writes into all of the shared pages, beside calls that are good, for a while, with a reply or two. */
TEST(scribbles)
{
    for (unsigned round = 0; round < 60; round++) {
        struct raw raw;
        struct service *service = raw_client(&raw);
        uint64_t end = clock_now() + 20 * CLOCK_NS_PER_MS;
        _Atomic uint64_t *positions[] = { &raw.view.out.control->tail, &raw.view.in.control->head,
                                          &raw.view.out.control->head, &raw.view.in.control->tail };
        while (clock_now() < end) {
            uint64_t dice = test_random(), value = test_random();
            put_call(&raw, (uint32_t)(value % 60), (uint32_t)value % 4096, 48);
            raw.view.out.head_seen = raw.view.out.tail;             /* we do not care whether there is room */
            switch (dice % 16) {
            case 0:
                atomic_store(positions[dice / 16 % (round % 2 ? 4 : 2)], round % 3 ? value : value % (4 * RING_SIZE));
                break;
            case 1: atomic_fetch_add(positions[dice / 16 % 4], value % 4096); break;
            case 2: atomic_store(&raw.view.theirs->word, (uint32_t)value); break;
            case 8: atomic_store(&raw.view.out.control->beside, value % 1024); break;
            case 9: atomic_store(&raw.view.out.control->beside, value); break;
            case 10:
                atomic_store(&raw.view.out.control->beside, (raw.view.out.tail - value % 200) << 40 | (value % 256)
                                                                                                          << 32);
                break;
            case 3: atomic_store(&raw.view.mine->word, (uint32_t)value); break;
            case 4: memset(raw.memory, (int)value, 512); break;     /* the header: nobody looks at it again */
            case 5: ((volatile uint8_t *)raw.memory)[RING_HEAD + value % (raw.size - RING_HEAD)] = (uint8_t)dice; break;
            case 6: case 7: ring(&raw); break;
            default: break;
            }
        }
        raw_end(&raw, service, true);
    }
}

/* The same against a client: replies of our own making, and nonsense. */
static void *scribble_at_client(void *context)
{
    struct raw *raw = context;
    uint64_t state = 12345;
    struct pollfd end = { .fd = raw->fd, .events = POLLRDHUP };
    while (poll(&end, 1, 0) == 0 || !(end.revents & (POLLRDHUP | POLLHUP))) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t dice = state >> 33;
        switch (dice % 8) {
        case 0: atomic_store(&raw->view.out.control->tail, dice % (2 * RING_SIZE)); break;
        case 1: atomic_store(&raw->view.in.control->head, dice % 4096); break;
        case 2: atomic_store(&raw->view.mine->word, (uint32_t)dice); break;
        case 3: atomic_store(&raw->view.theirs->word, (uint32_t)dice); break;
        case 4: ((volatile uint8_t *)raw->memory)[RING_HEAD + dice % (raw->size - RING_HEAD)] = (uint8_t)dice; break;
        default: ring(raw);
        }
    }
    return NULL;
}

TEST(scribbled_client)
{
    for (unsigned round = 0; round < 30; round++) {
        int fds[2], memory = memfd_create("hostile", MFD_CLOEXEC);
        rpc_channel *channel;
        rpc_client *client;
        struct test_loss losses = { 0 };
        pthread_t thread;
        struct raw raw = { .size = ring_memory_size(0) };
        test_socket_pair(fds);
        assert_true(memory >= 0);
        assert_int_equal(ftruncate(memory, (off_t)raw.size), 0);
        raw.fd = fds[1];
        raw.memory = mmap(NULL, raw.size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        assert_true(raw.memory != MAP_FAILED);
        ring_format(raw.memory, 0);
        assert_int_equal(ring_attach(raw.memory, raw.size, raw.size, RING_SERVER, &raw.view), 0);
        assert_int_equal(rpc_channel_shared(fds[0], memory, raw.size, false, &channel, NULL), 0);
        close(memory);
        assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, 1, test_loss_note, &losses, &client, NULL), 0);
        assert_int_equal(pthread_create(&thread, NULL, scribble_at_client, &raw), 0);
        assert_int_not_equal(test_call(client, 1), RPC_SUCCESS);
        assert_int_equal(losses.count, 1);
        rpc_client_destroy(client);
        pthread_join(thread, NULL);
        close(fds[1]);
        munmap(raw.memory, raw.size);
    }
}

/* ---- death ---- */

/* A client that dies after so many bytes of a call: the server gets the whole calls before it, then the end. */
TEST(killed_within_a_record)
{
    for (size_t cut = 0; cut <= 48; cut += 6) {
        struct raw raw;
        struct service *service = raw_client(&raw);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (unsigned i = 0; i < 3; i++)
                put_call(&raw, FLYT_STREAM_DESTROY, i, 48);
            if (cut > 0)
                put_call(&raw, FLYT_STREAM_DESTROY, 3, cut);
            raise(SIGKILL);
        }
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(raw.fd);                                  /* the last descriptor: only now the peer is gone */
        pthread_join(service->thread, NULL);
        assert_int_equal(service->ended, -ECONNRESET);
        assert_int_equal(atomic_load(&service->async), cut == 48 ? 4 : 3);
        assert_int_equal(strstr(service->why, "within a message") != NULL, cut > 0 && cut < 48);
        service_destroy(service);
        munmap(raw.memory, raw.size);
    }
}

static void *wait_for_it(void *context)
{
    stream_args stream = { 0 };
    plain_result result = { 0 };
    return (void *)(uintptr_t)flyt_stream_sync_1(&stream, &result, stub_of(context));
}

/* A client that has slept for long, in the futex, learns of the end; one whose ring is full too. */
TEST(ends_wake_sleepers)
{
    for (unsigned round = 0; round < 4; round++) {
        rpc_channel *channels[2];
        rpc_client *client;
        pthread_t thread;
        void *status;
        test_channels("shm", channels);
        struct service *service = service_start(channels[1]);
        assert_int_equal(rpc_client_create(channels[0], &rpc_flyt_program, 0, NULL, NULL, &client, NULL), 0);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_it, client), 0);    /* not answered: one of four */
        poll(NULL, 0, round % 2 ? 60 : 3);
        if (round < 2)
            rpc_server_shutdown(service->server);
        else
            rpc_client_shutdown(client);
        pthread_join(thread, &status);
        /* On a busy machine the end may come before the call was sent. */
        assert_true((enum clnt_stat)(uintptr_t)status == RPC_CANTRECV ||
                    (enum clnt_stat)(uintptr_t)status == RPC_CANTSEND);
        rpc_client_destroy(client);
        service_join(service);
    }
}

/* Nobody reads at the other end: the writer gives up after dead_seconds, as over a socket. */
TEST(deaf)
{
    rpc_channel *channels[2];
    rpc_client *client;
    struct test_loss losses = { 0 };
    test_channels("shm", channels);
    assert_int_equal(rpc_client_create(channels[0], &rpc_flyt_program, 1, test_loss_note, &losses, &client, NULL), 0);
    assert_int_equal(test_flood(client), RPC_CANTSEND);
    assert_int_equal(losses.count, 1);
    rpc_client_destroy(client);
    rpc_channel_destroy(channels[1]);
}

/* ---- wake-ups ---- */

struct turn { rpc_channel *channel; unsigned rounds; bool wakeable, first; uint64_t seed; unsigned failures, late; };

enum { LATE_MS = 15 };              /* a lost wake-up in the futex is made up for after 20 ms */

static void send_byte(struct turn *turn)
{
    struct iovec byte = { (void *)(uintptr_t)"x", 1 };
    if (rpc_channel_send(turn->channel, &byte, 1) != 1)
        turn->failures++;
}

/* One byte goes back and forth, with pauses of all lengths, so that each side falls asleep at every moment. */
static void *take_turns(void *context)
{
    struct turn *turn = context;
    struct rpc_inbox inbox;
    rpc_inbox_init(&inbox, 1000);
    for (unsigned i = 0; i < turn->rounds; i++) {
        turn->seed = turn->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        for (volatile unsigned pause = 0; pause < (turn->seed >> 40) % 3000; pause++)
            ;
        if (turn->first)
            send_byte(turn);
        uint64_t began = clock_now();
        ssize_t got;
        while ((got = rpc_channel_receive(turn->channel, &inbox)) == -EAGAIN)
            if (rpc_channel_poll(turn->channel, POLLIN, 20000, turn->wakeable) <= 0) {
                turn->failures++;
                break;
            }
        turn->late += clock_now() - began > LATE_MS * CLOCK_NS_PER_MS;
        turn->failures += got != 1;
        inbox.start = inbox.end;
        if (!turn->first)
            send_byte(turn);
        if (turn->failures > 0) {
            rpc_channel_shutdown(turn->channel);
            break;
        }
    }
    rpc_inbox_clear(&inbox);
    return NULL;
}

TEST_ON(wake_ups, "futex", "bells")
{
    bool bells = strcmp(*state, "bells") == 0;
    enum { ROUNDS = 20000 };
    rpc_channel *channels[2];
    test_channels("shm", channels);
    struct turn here = { .channel = channels[0], .rounds = ROUNDS, .wakeable = bells, .first = true, .seed = 1 };
    struct turn there = { .channel = channels[1], .rounds = ROUNDS, .wakeable = bells, .seed = 2 };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_turns, &there), 0);
    take_turns(&here);
    pthread_join(thread, NULL);
    assert_int_equal(here.failures + there.failures, 0);
    print_message("# %u of %u rounds took more than %u ms\n", here.late + there.late, ROUNDS, LATE_MS);
    /* a few may be the scheduler's */
    assert_in_range(here.late + there.late, 0, ROUNDS / 100);
    rpc_channel_destroy(channels[0]);
    rpc_channel_destroy(channels[1]);
}

int main(void) { return unit_run(NULL, NULL); }
