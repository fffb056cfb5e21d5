/*
 * shm: shared memory: how two sides come to it, what a peer can do with it, death, and wake-ups.
 *
 * shows: speed: short messages beside a ring's tail: every interleaving of writer and reader, lies, rounds of the ring with nothing else
 */
#include "tests/rpc/service.h"

#include "cpu/rpc/channel.h"
#include "cpu/rpc/ring.h"

#include "cpu/common/clock.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t random_state = 88172645463325252u;

static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void pair_of_sockets(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static rpc_client *offering_client(int fd, bool required, void (*lost)(void *, const char *), void *context)
{
    rpc_channel *channel;
    rpc_client *client;
    assert_int_equal(rpc_channel_from_fd(fd, &channel, NULL), 0);
    assert_int_equal(rpc_channel_offer(channel, required, &channel, NULL), 0);
    assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, 1, lost, context, &client, NULL), 0);
    return client;
}

static enum clnt_stat call_once(rpc_client *client, int device)
{
    device_args args = { .device = device };
    plain_result result = { 0 };
    return flyt_device_sync_1(&args, &result, rpc_client_stub(client));
}

/* ---- peers of every age ---- */

static void both_new(void **state)
{
    (void)state;
    int fds[2];
    rpc_channel *served;
    unsigned before = open_descriptors();
    pair_of_sockets(fds);
    rpc_client *client = offering_client(fds[0], false, NULL, NULL);
    assert_int_equal(rpc_channel_accept(fds[1], 0, &served, NULL), 0);
    struct service *service = service_start(served);
    assert_int_equal(call_once(client, 1), RPC_SUCCESS);
    assert_string_equal(rpc_client_transport(client), "shm");
    assert_string_equal(rpc_server_transport(service->server), "shm");
    rpc_client_destroy(client);
    service_join(service);
    assert_int_equal(open_descriptors(), before);
}

static char told_reason[RPC_ERROR_SIZE];

static void note_loss(void *context, const char *reason)
{
    (*(unsigned *)context)++;
    snprintf(told_reason, sizeof told_reason, "%s", reason);
}

/* A server without shared memory, as released before it. */
static void old_server(void **state)
{
    (void)state;
    int fds[2];
    rpc_channel *served;
    unsigned losses = 0;
    pair_of_sockets(fds);
    rpc_client *client = offering_client(fds[0], false, NULL, NULL);
    assert_int_equal(rpc_channel_from_fd(fds[1], &served, NULL), 0);
    struct service *service = service_start(served);
    for (int i = 0; i < 100; i++)
        assert_int_equal(call_once(client, i), RPC_SUCCESS);
    assert_string_equal(rpc_client_transport(client), "unix");
    rpc_client_destroy(client);
    service_join(service);

    pair_of_sockets(fds);                           /* shm:// insists */
    client = offering_client(fds[0], true, note_loss, &losses);
    assert_int_equal(rpc_channel_from_fd(fds[1], &served, NULL), 0);
    service = service_start(served);
    assert_int_not_equal(call_once(client, 1), RPC_SUCCESS);
    assert_int_equal(losses, 1);
    rpc_client_destroy(client);
    service_join(service);
}

static void old_client(void **state)
{
    (void)state;
    int fds[2];
    rpc_channel *channel, *served;
    rpc_client *client;
    pair_of_sockets(fds);
    assert_int_equal(rpc_channel_from_fd(fds[0], &channel, NULL), 0);
    assert_int_equal(rpc_channel_accept(fds[1], 0, &served, NULL), 0);
    assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, 10, NULL, NULL, &client, NULL), 0);
    struct service *service = service_start(served);
    for (int i = 0; i < 100; i++)
        assert_int_equal(call_once(client, i), RPC_SUCCESS);
    assert_string_equal(rpc_server_transport(service->server), "unix");
    rpc_client_destroy(client);
    service_join(service);
}

/* As the server's listener does it: one process accepts, another serves. */
static void handed_over(void **state)
{
    (void)state;
    char uri[96], path[64], lock[80];
    snprintf(path, sizeof path, "/tmp/flyt-shm-test-%d", (int)getpid());
    snprintf(uri, sizeof uri, "shm://%s", path);
    snprintf(lock, sizeof lock, "%s.lock", path);
    rpc_listener *listener;
    rpc_channel *channel;
    rpc_client *client;
    int between[2];
    assert_int_equal(rpc_listener_open(uri, &listener, NULL), 0);
    assert_string_equal(rpc_listener_uri(listener), uri);
    assert_int_equal(rpc_channel_connect(uri, 5000, &channel, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, between), 0);
    pid_t worker = fork();
    assert_true(worker >= 0);
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control;
    char byte = 0;
    struct iovec data = { &byte, 1 };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    memset(&control, 0, sizeof control);
    if (worker == 0) {
        int fd = -1;
        rpc_channel *served;
        rpc_channel_abandon(channel);
        if (recvmsg(between[1], &message, MSG_CMSG_CLOEXEC) == 1)
            memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
        if (fd >= 0 && rpc_channel_accept(fd, 0, &served, NULL) == 0)
            service_run(service_create(served));
        _exit(0);
    }
    int fd = rpc_listener_accept(listener);
    assert_true(fd >= 0);
    struct pollfd spoke = { .fd = fd, .events = POLLIN };
    assert_int_equal(poll(&spoke, 1, 5000), 1);         /* the offer counts as the first byte */
    assert_int_equal(recv(fd, &byte, 1, MSG_PEEK), 1);
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(part), &fd, sizeof fd);
    assert_int_equal(sendmsg(between[0], &message, 0), 1);
    close(fd);
    assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, 10, NULL, NULL, &client, NULL), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(call_once(client, i), RPC_SUCCESS);
    assert_string_equal(rpc_client_transport(client), "shm");
    /* and the death of that process is noticed, in a call that waits */
    assert_int_equal(call_once(client, TEST_DIE), RPC_CANTRECV);
    assert_int_equal(waitpid(worker, NULL, 0), worker);
    rpc_client_destroy(client);
    rpc_listener_close(listener);
    unlink(lock);
    close(between[0]);
    close(between[1]);
}

/* Both sides over a file, as over a device's BAR. */
/* Looks at the sleep words of both sides all the time: no bit of a futex may ever stand there, which another kernel would not see. */
struct watch { uint8_t *memory; atomic_bool stop; uint32_t seen; };

static void *watch_words(void *context)
{
    struct watch *watch = context;
    struct ring_header header;
    memcpy(&header, watch->memory, sizeof header);
    while (!atomic_load(&watch->stop))
        for (int i = 0; i < 2; i++)
            watch->seen |= atomic_load(&((struct ring_sleep *)(void *)(watch->memory + header.sleep[i]))->word);
    return NULL;
}

static void over_a_file(void **state)
{
    (void)state;
    pthread_t watcher;
    struct watch watch = { 0 };
    char path[] = "/tmp/flyt-bar-XXXXXX";
    int file = mkstemp(path), fds[2];
    rpc_channel *channel, *served;
    rpc_client *client;
    assert_true(file >= 0);
    unlink(path);
    size_t size = ring_memory_size(0) + 4096;            /* a BAR may be larger */
    assert_int_equal(ftruncate(file, (off_t)size), 0);
    pair_of_sockets(fds);
    assert_int_equal(rpc_channel_shared(fds[1], file, size, true, &served, NULL), 0);
    assert_int_equal(rpc_channel_shared(fds[0], file, size, false, &channel, NULL), 0);
    watch.memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(watch.memory != MAP_FAILED);
    assert_int_equal(pthread_create(&watcher, NULL, watch_words, &watch), 0);
    close(file);
    struct service *service = service_start(served);
    assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, 10, NULL, NULL, &client, NULL), 0);
    for (int spin = 1; spin >= 0; spin--) {
        rpc_client_set_spinning(client, spin);
        for (int i = 0; i < 1000; i++)
            assert_int_equal(call_once(client, i), RPC_SUCCESS);
    }
    rpc_client_destroy(client);
    service_join(service);
    atomic_store(&watch.stop, true);
    pthread_join(watcher, NULL);
    assert_int_equal(watch.seen & (RING_FUTEX_IN | RING_FUTEX_OUT), 0);
    munmap(watch.memory, size);
}

/* ---- servers that lie in the handshake ---- */

enum lie { UNSEALED, TOO_SHORT, A_FILE, NO_DESCRIPTOR, NO_MAGIC, NEWER, BAD_PLACE, ODD_SIZE, BAD_SLEEP, LONG_RECORD, NO_REPLY,
           HUNG_UP, SEVERAL, LIES };

static int lying_memory(enum lie lie)
{
    char path[] = "/tmp/flyt-shm-lie-XXXXXX";
    size_t size = ring_memory_size(0);
    int fd = lie == A_FILE ? mkstemp(path) : memfd_create("lie", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    if (lie == A_FILE)
        unlink(path);
    assert_int_equal(ftruncate(fd, (off_t)(lie == TOO_SHORT ? size / 2 : size)), 0);
    if (lie != TOO_SHORT) {
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(memory != MAP_FAILED);
        ring_format(memory, 0);
        struct ring_header *header = memory;
        switch (lie) {
        case NO_MAGIC: header->magic++; break;
        case NEWER: header->version++; break;
        case BAD_PLACE: header->rings[1].data = UINT64_MAX - 127; break;
        case ODD_SIZE: header->rings[0].size += 64; break;
        case BAD_SLEEP: header->sleep[1] = size - 4; break;
        default: break;
        }
        munmap(memory, size);
    }
    if (lie != UNSEALED && lie != A_FILE)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    return fd;
}

static void tell_lie(int socket, enum lie lie)
{
    uint32_t words[] = { 0x80000000 | 32, 0, 1, 0, 0, 0, 0, 0, (uint32_t)ring_memory_size(0) };
    size_t size = sizeof words;
    int fd[3] = { -1, -1, -1 }, count = lie == SEVERAL ? 3 : 1;
    if (lie == LONG_RECORD)
        words[0] = 0xffffffff;
    if (lie == NO_REPLY)
        words[2] = 7;
    if (lie == HUNG_UP)
        size = 11;
    for (size_t i = 0; i < sizeof words / 4; i++)
        words[i] = htonl(words[i]);
    union { struct cmsghdr header; char bytes[CMSG_SPACE(3 * sizeof(int))]; } control;
    struct iovec data = { words, size };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
    if (lie != NO_DESCRIPTOR) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        for (int i = 0; i < count; i++)
            fd[i] = lying_memory(lie);
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(part), fd, (size_t)count * sizeof(int));
    }
    assert_int_equal(sendmsg(socket, &message, MSG_NOSIGNAL), size);
    for (int i = 0; i < count; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    if (lie == HUNG_UP)
        shutdown(socket, SHUT_RDWR);
}

static void lying_servers(void **state)
{
    (void)state;
    for (enum lie lie = 0; lie < LIES; lie++) {
        int fds[2];
        unsigned losses = 0, before = open_descriptors();
        pair_of_sockets(fds);
        rpc_client *client = offering_client(fds[0], false, note_loss, &losses);
        tell_lie(fds[1], lie);
        /* after SEVERAL, the first of which is good, nobody answers: that ends too (dead_seconds is 1) */
        assert_int_not_equal(call_once(client, 1), RPC_SUCCESS);
        assert_true(rpc_client_lost(client));
        assert_int_equal(losses, 1);
        if (lie == SEVERAL)
            assert_non_null(strstr(told_reason, "nothing for 1 seconds"));
        rpc_client_destroy(client);
        close(fds[1]);
        assert_int_equal(open_descriptors(), before);
    }
}

/* Offers that are none, and offers in pieces. */
static void strange_offers(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        int fds[2];
        rpc_channel *served;
        uint32_t words[] = { 0x80000000 | 40, 0, 0, 2, 0x20F17008, RING_VERSION, 1, 0, 0, 0, 0 }, answer[9] = { 0 };
        if (round == 1)
            words[5] = RING_VERSION + 1;                /* a later version: no program of ours */
        for (size_t i = 0; i < 11; i++)
            words[i] = htonl(words[i]);
        pair_of_sockets(fds);
        assert_int_equal(rpc_channel_accept(fds[1], 0, &served, NULL), 0);
        struct service *service = service_start(served);
        size_t all = round == 2 ? 30 : sizeof words;    /* the last one stops halfway */
        for (size_t i = 0; i < all; i++) {
            assert_int_equal(send(fds[0], (char *)words + i, 1, MSG_NOSIGNAL), 1);
            poll(NULL, 0, i % 8 == 0);
        }
        if (round < 2) {
            size_t wanted = round == 0 ? 36 : 28;
            assert_int_equal(recv(fds[0], answer, wanted, MSG_WAITALL), wanted);
            assert_int_equal(ntohl(answer[6]), round == 0 ? SUCCESS : PROG_UNAVAIL);
        }
        close(fds[0]);
        pthread_join(service->thread, NULL);
        assert_int_equal(service->ended, -ECONNRESET);
        if (round == 2)
            assert_non_null(strstr(service->why, "within a message"));
        service_destroy(service);
    }
}

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
    pair_of_sockets(fds);
    assert_int_equal(rpc_channel_accept(fds[1], 0, &served, NULL), 0);
    struct service *service = service_start(served);
    assert_int_equal(send(fds[0], words, sizeof words, 0), sizeof words);
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control;
    struct iovec data = { answer, sizeof answer };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
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
    uint32_t words[] = { 0x80000000 | 44, 9, 0, 2, FLYT_PROGRAM, FLYT_VERSION, procedure, 0, 0, 0, 0, argument };
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
static void impossible_positions(void **state)
{
    (void)state;
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
            assert_int_equal(put_call(&raw, FLYT_DEVICE_SYNC, k, 48), 48);
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
        put_call(&raw, FLYT_DEVICE_SYNC, 0, 48);
        ring(&raw);
        if (i % 64 == 0)
            poll(NULL, 0, 1);
        if (send(raw.fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EPIPE)
            break;
    }
    raw_end(&raw, service, false);
}

/* Random writes into all of the shared pages, beside calls that are good, for a while, with a reply or two. */
static void scribbles(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        struct raw raw;
        struct service *service = raw_client(&raw);
        uint64_t end = clock_now() + 20 * CLOCK_NS_PER_MS;
        _Atomic uint64_t *positions[] = { &raw.view.out.control->tail, &raw.view.in.control->head,
                                          &raw.view.out.control->head, &raw.view.in.control->tail };
        while (clock_now() < end) {
            uint64_t dice = random_number(), value = random_number();
            put_call(&raw, (uint32_t)(value % 60), (uint32_t)value % 4096, 48);
            raw.view.out.head_seen = raw.view.out.tail;             /* we do not care whether there is room */
            switch (dice % 16) {
            case 0: atomic_store(positions[dice / 16 % (round % 2 ? 4 : 2)], round % 3 ? value : value % (4 * RING_SIZE)); break;
            case 1: atomic_fetch_add(positions[dice / 16 % 4], value % 4096); break;
            case 2: atomic_store(&raw.view.theirs->word, (uint32_t)value); break;
            case 8: atomic_store(&raw.view.out.control->beside, value % 1024); break;
            case 9: atomic_store(&raw.view.out.control->beside, value); break;
            case 10: atomic_store(&raw.view.out.control->beside, (raw.view.out.tail - value % 200) << 40 | (value % 256) << 32); break;
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

static void scribbled_client(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 30; round++) {
        int fds[2], memory = memfd_create("hostile", MFD_CLOEXEC);
        rpc_channel *channel;
        rpc_client *client;
        unsigned losses = 0;
        pthread_t thread;
        struct raw raw = { .size = ring_memory_size(0) };
        pair_of_sockets(fds);
        assert_true(memory >= 0);
        assert_int_equal(ftruncate(memory, (off_t)raw.size), 0);
        raw.fd = fds[1];
        raw.memory = mmap(NULL, raw.size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        assert_true(raw.memory != MAP_FAILED);
        ring_format(raw.memory, 0);
        assert_int_equal(ring_attach(raw.memory, raw.size, raw.size, RING_SERVER, &raw.view), 0);
        assert_int_equal(rpc_channel_shared(fds[0], memory, raw.size, false, &channel, NULL), 0);
        close(memory);
        assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, 1, note_loss, &losses, &client, NULL), 0);
        assert_int_equal(pthread_create(&thread, NULL, scribble_at_client, &raw), 0);
        assert_int_not_equal(call_once(client, 1), RPC_SUCCESS);
        assert_int_equal(losses, 1);
        rpc_client_destroy(client);
        pthread_join(thread, NULL);
        close(fds[1]);
        munmap(raw.memory, raw.size);
    }
}

/* ---- death ---- */

/* A client that dies after so many bytes of a call: the server gets the whole calls before it, then the end. */
static void killed_within_a_record(void **state)
{
    (void)state;
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
    return (void *)(uintptr_t)flyt_stream_sync_1(&stream, &result, rpc_client_stub(context));
}

/* A client that has slept for long, in the futex, learns of the end; one whose ring is full too. */
static void ends_wake_sleepers(void **state)
{
    (void)state;
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
        assert_true((enum clnt_stat)(uintptr_t)status == RPC_CANTRECV || (enum clnt_stat)(uintptr_t)status == RPC_CANTSEND);
        rpc_client_destroy(client);
        service_join(service);
    }
}

/* Nobody reads at the other end: the writer gives up after dead_seconds, as over a socket. */
static void deaf(void **state)
{
    (void)state;
    rpc_channel *channels[2];
    rpc_client *client;
    unsigned losses = 0;
    test_channels("shm", channels);
    assert_int_equal(rpc_client_create(channels[0], &rpc_flyt_program, 1, note_loss, &losses, &client, NULL), 0);
    char *bytes = calloc(1, FLYT_MAX_INLINE);
    copy_in_args in = { .data = { .kind = FLYT_BULK_INLINE } };
    in.data.flyt_bulk_u.bytes.bytes_val = bytes;
    in.data.flyt_bulk_u.bytes.bytes_len = FLYT_MAX_INLINE;
    enum clnt_stat status = RPC_SUCCESS;
    for (unsigned i = 0; i < 64 && status == RPC_SUCCESS; i++)
        status = flyt_copy_in_1(&in, NULL, rpc_client_stub(client));
    assert_int_equal(status, RPC_CANTSEND);
    assert_int_equal(losses, 1);
    free(bytes);
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

static void wake_ups(void **state)
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

/* The protocol of sleep and wake-up, all interleavings: the mover stores the position (0), looks at the word (1), takes
   it (2), wakes (3); the sleeper sets its bit (0), looks at the position (1), reads the word to sleep on (2), sleeps
   unless it has changed (3). Sequentially consistent steps, as all four accesses are. */
struct model { int mover, sleeper; bool moved, bit, seen, asleep, expected; };

static void explore(struct model m, unsigned *ends, unsigned *slept)
{
    bool stuck = true;
    if (m.mover < 4) {
        struct model next = m;
        next.mover++;
        switch (m.mover) {
        case 0: next.moved = true; break;
        case 1: next.mover = m.bit ? 2 : 4; break;
        case 2: next.bit = false; break;
        case 3: next.asleep = false; next.sleeper = m.asleep ? 4 : m.sleeper; break;
        }
        explore(next, ends, slept);
        stuck = false;
    }
    if (m.sleeper < 4 && !m.asleep) {
        struct model next = m;
        next.sleeper++;
        switch (m.sleeper) {
        case 0: next.bit = true; break;
        case 1: next.sleeper = m.moved ? 4 : 2; break;
        case 2: next.expected = m.bit; next.sleeper = m.bit ? 3 : 4; break;
        case 3: next.asleep = m.bit == m.expected; next.sleeper = next.asleep ? 3 : 4; *slept += next.asleep; break;
        }
        explore(next, ends, slept);
        stuck = false;
    }
    if (stuck) {
        ++*ends;
        assert_false(m.asleep);
        assert_int_equal(m.sleeper, 4);
    }
}

static void all_interleavings(void **state)
{
    (void)state;
    unsigned ends = 0, slept = 0;
    explore((struct model){ 0 }, &ends, &slept);
    assert_in_range(ends, 10, 1000);
    assert_true(slept > 0);
}

/* ---- the ring by itself ---- */

static void streams_of_bytes(void **state)
{
    (void)state;
    size_t size = ring_memory_size(0);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    ring_format(memory, 0);
    struct ring_view client, server;
    assert_int_equal(ring_attach(memory, size, size, RING_CLIENT, &client), 0);
    assert_int_equal(ring_attach(memory, size, size, RING_SERVER, &server), 0);
    enum { MOST = 3 * RING_SIZE };
    uint8_t *from = malloc(MOST), *to = malloc(MOST);
    test_pattern(1, from, MOST);
    uint64_t sent = 0, got = 0;
    while (got < 64 * (uint64_t)RING_SIZE) {
        uint64_t dice = random_number();
        size_t part = (size_t)(dice % (dice % 5 == 0 ? RING_SIZE : 5000));
        struct iovec two[2] = { { from + sent % MOST, part < MOST - sent % MOST ? part : MOST - sent % MOST }, { from, 0 } };
        two[1].iov_len = part - two[0].iov_len;
        ssize_t wrote = ring_write(&client, two, 2, nothing, NULL);
        assert_in_range(wrote, 0, part);
        assert_true((size_t)wrote == part || sent + (uint64_t)wrote - got == RING_SIZE);   /* all, or full */
        sent += (uint64_t)wrote;
        assert_true(sent == got || ring_readable(&server));
        size_t want = (size_t)(random_number() % (2 * part + 1));
        ssize_t read_now = ring_read(&server, to, want, nothing, NULL);
        assert_int_equal(read_now, want < sent - got ? want : sent - got);
        size_t first = (size_t)read_now < MOST - got % MOST ? (size_t)read_now : MOST - got % MOST;
        assert_memory_equal(to, from + got % MOST, first);
        if ((size_t)read_now > first)
            assert_memory_equal(to + first, from, (size_t)read_now - first);
        got += (uint64_t)read_now;
    }
    free(from);
    free(to);
    munmap(memory, size);
}

/* A conversation: each side writes and reads pieces of all sizes, so that small ones find room beside the tail; and for
   rounds of the ring nothing but small ones. */
static void conversation(void **state)
{
    (void)state;
    enum { MOST = 1 << 16, TURNS = 800000, PHASE = 200000 };
    size_t size = ring_memory_size(0);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    ring_format(memory, 0);
    struct ring_view view[2];
    uint8_t *pattern = malloc(2 * MOST), *to = malloc(2 * MOST);
    uint64_t sent[2] = { 0 }, got[2] = { 0 };
    unsigned near = 0;
    assert_int_equal(ring_attach(memory, size, size, RING_CLIENT, &view[0]), 0);
    assert_int_equal(ring_attach(memory, size, size, RING_SERVER, &view[1]), 0);
    test_pattern(2, pattern, MOST);
    memcpy(pattern + MOST, pattern, MOST);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        uint64_t dice = random_number();
        unsigned side = dice & 1;
        size_t part = (size_t)((dice >> 8) % (turn / PHASE % 2 ? RING_NEAR : dice % 16 == 1 ? 50000 : dice % 4 == 0 ? 1000 : RING_NEAR + 10));
        if (dice & 2) {
            struct iovec data[2] = { { pattern + sent[side] % MOST, part / 2 }, { pattern + sent[side] % MOST + part / 2, part - part / 2 } };
            ssize_t wrote = ring_write(&view[side], data, 2, nothing, NULL);
            assert_true((size_t)wrote == part || sent[side] + (uint64_t)wrote - got[side] == RING_SIZE);
            near += part > 0 && view[side].out.near_begin == sent[side] && sent[side] > 0;
            sent[side] += (uint64_t)wrote;
        } else {
            ssize_t read_now = ring_read(&view[1 - side], to, part, nothing, NULL);
            assert_int_equal(read_now, part < sent[side] - got[side] ? part : sent[side] - got[side]);
            assert_memory_equal(to, pattern + got[side] % MOST, (size_t)read_now);
            got[side] += (uint64_t)read_now;
        }
        assert_int_equal(ring_readable(&view[1 - side]), sent[side] != got[side]);
        assert_int_equal(ring_look(&view[1 - side], 1), sent[side] != got[side]);
    }
    assert_true(near > TURNS / 1000);
    free(pattern);
    free(to);
    munmap(memory, size);
}

/* Small writes move the positions too: after rounds of the ring with nothing else, a long write still takes what fits. */
static void near_then_full(void **state)
{
    (void)state;
    size_t size = ring_memory_size(0);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    ring_format(memory, 0);
    struct ring_view side[2];
    uint8_t small[48] = { 0 }, *big = calloc(1, 2 * RING_SIZE);
    struct iovec one = { small, sizeof small }, much = { big, 2 * RING_SIZE };
    assert_int_equal(ring_attach(memory, size, size, RING_CLIENT, &side[0]), 0);
    assert_int_equal(ring_attach(memory, size, size, RING_SERVER, &side[1]), 0);
    for (unsigned i = 0; i < 3 * RING_SIZE / sizeof small; i++)
        for (unsigned who = 0; who < 2; who++) {
            assert_int_equal(ring_write(&side[who], &one, 1, nothing, NULL), sizeof small);
            assert_true(i == 0 || side[who].out.near_begin == i * sizeof small);
            assert_int_equal(ring_read(&side[1 - who], small, sizeof small, nothing, NULL), sizeof small);
        }
    assert_int_equal(ring_write(&side[0], &much, 1, nothing, NULL), RING_SIZE);
    assert_int_equal(ring_read(&side[1], big, 2 * RING_SIZE, nothing, NULL), RING_SIZE);

    /* The position's lowest bits, which tell where the bytes beside the tail begin, come again: with other bytes. */
    uint64_t begin = side[0].out.near_begin, at;
    memset(big, 7, 2 * RING_SIZE);
    while ((at = atomic_load(&side[0].out.tail)) < begin + 3 * (UINT64_C(1) << 24)) {
        uint64_t next = begin + ((at - begin) / (UINT64_C(1) << 24) + 1) * (UINT64_C(1) << 24);
        much.iov_len = next - at < RING_SIZE ? (size_t)(next - at) : RING_SIZE / 2 + 1;
        assert_int_equal(ring_write(&side[0], &much, 1, nothing, NULL), much.iov_len);
        assert_int_equal(ring_read(&side[1], big + RING_SIZE, RING_SIZE, nothing, NULL), much.iov_len);
        for (size_t i = 0; i < much.iov_len; i++)
            assert_true(big[RING_SIZE + i] == 7);
    }
    free(big);
    munmap(memory, size);
}

/* What a hostile writer says of the bytes beside its tail is refused, or costs it its own bytes. */
static void near_lies(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 0, 1, 3, 16, 17, RING_NEAR, RING_NEAR + 1, 255 };
    size_t size = ring_memory_size(0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (uint64_t begin = 0; begin < 20; begin++) {
            void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            struct ring_view client, server;
            uint8_t to[64];
            assert_true(memory != MAP_FAILED);
            ring_format(memory, 0);
            assert_int_equal(ring_attach(memory, size, size, RING_CLIENT, &client), 0);
            assert_int_equal(ring_attach(memory, size, size, RING_SERVER, &server), 0);
            atomic_store(&client.out.control->beside, begin << 40 | (uint64_t)sizes[i] << 32);
            atomic_store(&client.out.control->tail, 16);
            ssize_t got = 0, all = 0;
            while ((got = ring_read(&server, to, sizeof to, nothing, NULL)) > 0)
                all += got;
            assert_true((got == 0 && all == 16) || got == -EPROTO);
            munmap(memory, size);
        }
    }
}

/* The bytes beside the tail, all interleavings of a writer's steps with those of a reader that also writes (which is when it
   tells what it has taken): four messages, each of one unit, near when that is free, else in the ring. Each access to
   shared memory is a step; the orders in ring.c are those that make them appear in this order. */
struct near_model {
    int writer, sent;               /* next step; messages shown */
    int reader, got;
    int tail, taken, near_begin, near_value, ring[4];       /* shared */
    bool near;                      /* the writer's */
    int tail_seen;                  /* the reader's */
};

static void explore_near(struct near_model m, unsigned *ends, unsigned *near)
{
    enum { MESSAGES = 4 };
    bool stuck = true;
    if (m.sent < MESSAGES) {
        struct near_model next = m;
        next.writer++;
        switch (m.writer) {
        case 0: next.near = m.taken == m.sent; break;
        case 1:
            if (m.near) {
                assert_true(m.got == m.sent);           /* what stood there has been read */
                next.near_value = m.sent;
                ++*near;
            } else {
                next.ring[m.sent] = m.sent;
            }
            break;
        case 2: next.near_begin = m.near ? m.sent : m.near_begin; break;
        case 3: next.tail = ++next.sent; next.writer = 0; break;
        }
        explore_near(next, ends, near);
        stuck = false;
    }
    if (m.reader < 4 && (m.reader > 0 || m.got < m.tail || m.taken < m.got)) {
        struct near_model next = m;
        next.reader++;
        switch (m.reader) {
        case 0: next.tail_seen = m.tail; break;
        case 1:                                         /* reads the next message, if there is one */
            if (m.got < m.tail_seen) {
                assert_int_equal(m.near_begin == m.got ? m.near_value : m.ring[m.got], m.got);
                next.got++;
            }
            break;
        case 2: next.taken = m.got; next.reader = 0; break;     /* with a write of its own */
        }
        explore_near(next, ends, near);
        if (m.reader == 2) {                            /* or it reads on without one */
            next = m;
            next.reader = 0;
            if (next.got < next.tail)
                explore_near(next, ends, near);
        }
        stuck = false;
    }
    if (stuck) {
        ++*ends;
        assert_int_equal(m.got, MESSAGES);
    }
}

static void near_interleavings(void **state)
{
    (void)state;
    unsigned ends = 0, near = 0;
    explore_near((struct near_model){ .near_begin = -1, .ring = { -1, -1, -1, -1 } }, &ends, &near);
    print_message("# %u interleavings, %u writes beside the tail\n", ends, near);
    assert_true(ends > 1000 && near > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_of_bytes), cmocka_unit_test(conversation), cmocka_unit_test(near_then_full), cmocka_unit_test(near_lies),
        cmocka_unit_test(all_interleavings), cmocka_unit_test(near_interleavings),
        cmocka_unit_test(both_new), cmocka_unit_test(old_server), cmocka_unit_test(old_client),
        cmocka_unit_test(handed_over), cmocka_unit_test(over_a_file), cmocka_unit_test(lying_servers),
        cmocka_unit_test(strange_offers), cmocka_unit_test(impossible_positions), cmocka_unit_test(scribbles),
        cmocka_unit_test(scribbled_client), cmocka_unit_test(killed_within_a_record), cmocka_unit_test(ends_wake_sleepers),
        cmocka_unit_test(deaf), cmocka_unit_test_prestate(wake_ups, (void *)"futex"),
        cmocka_unit_test_prestate(wake_ups, (void *)"bells"),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
