/*
 * shm: how two sides come to shared memory: peers of every age, a process that gets it handed over, a file, and servers
 * and clients that lie when they agree on it. What comes after is in shm_peers.c, the ring by itself in ring.c.
 */
#include "tests/rpc/service.h"

#include "cpu/rpc/transport/channel.h"
#include "cpu/rpc/shm/ring.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/unit.h"

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

static rpc_client *offering_client(int fd, bool required, void (*lost)(void *, const char *), void *context)
{
    rpc_channel *channel;
    rpc_client *client;
    assert_int_equal(rpc_channel_from_fd(fd, &channel, NULL), 0);
    assert_int_equal(rpc_channel_offer(channel, required, &channel, NULL), 0);
    assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, 1, lost, context, &client, NULL), 0);
    return client;
}

/* ---- peers of every age ---- */

TEST(both_new)
{
    int fds[2];
    rpc_channel *served;
    unsigned before = open_descriptors();
    test_socket_pair(fds);
    rpc_client *client = offering_client(fds[0], false, NULL, NULL);
    assert_int_equal(rpc_channel_accept(fds[1], 0, &served, NULL), 0);
    struct service *service = service_start(served);
    assert_int_equal(test_call(client, 1), RPC_SUCCESS);
    assert_string_equal(rpc_client_transport(client), "shm");
    assert_string_equal(rpc_server_transport(service->server), "shm");
    rpc_client_destroy(client);
    service_join(service);
    assert_int_equal(open_descriptors(), before);
}

/* A server without shared memory, as released before it. */
TEST(old_server)
{
    int fds[2];
    rpc_channel *served;
    struct test_loss losses = { 0 };
    test_socket_pair(fds);
    rpc_client *client = offering_client(fds[0], false, NULL, NULL);
    assert_int_equal(rpc_channel_from_fd(fds[1], &served, NULL), 0);
    struct service *service = service_start(served);
    for (int i = 0; i < 100; i++)
        assert_int_equal(test_call(client, i), RPC_SUCCESS);
    assert_string_equal(rpc_client_transport(client), "unix");
    rpc_client_destroy(client);
    service_join(service);

    test_socket_pair(fds);                           /* shm:// insists */
    client = offering_client(fds[0], true, test_loss_note, &losses);
    assert_int_equal(rpc_channel_from_fd(fds[1], &served, NULL), 0);
    service = service_start(served);
    assert_int_not_equal(test_call(client, 1), RPC_SUCCESS);
    assert_int_equal(losses.count, 1);
    rpc_client_destroy(client);
    service_join(service);
}

TEST(old_client)
{
    int fds[2];
    rpc_channel *channel, *served;
    rpc_client *client;
    test_socket_pair(fds);
    assert_int_equal(rpc_channel_from_fd(fds[0], &channel, NULL), 0);
    assert_int_equal(rpc_channel_accept(fds[1], 0, &served, NULL), 0);
    assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, 10, NULL, NULL, &client, NULL), 0);
    struct service *service = service_start(served);
    for (int i = 0; i < 100; i++)
        assert_int_equal(test_call(client, i), RPC_SUCCESS);
    assert_string_equal(rpc_server_transport(service->server), "unix");
    rpc_client_destroy(client);
    service_join(service);
}

/* As the server's listener does it: one process accepts, another serves. */
TEST(handed_over)
{
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
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control };
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
        assert_int_equal(test_call(client, i), RPC_SUCCESS);
    assert_string_equal(rpc_client_transport(client), "shm");
    /* and the death of that process is noticed, in a call that waits */
    assert_int_equal(test_call(client, TEST_DIE), RPC_CANTRECV);
    assert_int_equal(waitpid(worker, NULL, 0), worker);
    rpc_client_destroy(client);
    rpc_listener_close(listener);
    unlink(lock);
    close(between[0]);
    close(between[1]);
}

/* Looks at the sleep words of both sides all the time: no bit of a futex may ever stand there, which another kernel
 * would not see. */
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

/* Both sides over a file, as over a device's BAR. */
TEST(over_a_file)
{
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
    test_socket_pair(fds);
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
            assert_int_equal(test_call(client, i), RPC_SUCCESS);
    }
    rpc_client_destroy(client);
    service_join(service);
    atomic_store(&watch.stop, true);
    pthread_join(watcher, NULL);
    assert_int_equal(watch.seen & (RING_FUTEX_IN | RING_FUTEX_OUT), 0);
    munmap(watch.memory, size);
}

/* ---- servers that lie in the handshake ---- */

enum lie {
    UNSEALED,
    TOO_SHORT,
    A_FILE,
    NO_DESCRIPTOR,
    NO_MAGIC,
    NEWER,
    BAD_PLACE,
    ODD_SIZE,
    BAD_SLEEP,
    LONG_RECORD,
    NO_REPLY,
    HUNG_UP,
    SEVERAL,
    LIES
};

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

TEST(lying_servers)
{
    for (enum lie lie = 0; lie < LIES; lie++) {
        int fds[2];
        struct test_loss losses = { 0 };
        unsigned before = open_descriptors();
        test_socket_pair(fds);
        rpc_client *client = offering_client(fds[0], false, test_loss_note, &losses);
        tell_lie(fds[1], lie);
        /* after SEVERAL, the first of which is good, nobody answers: that ends too (dead_seconds is 1) */
        assert_int_not_equal(test_call(client, 1), RPC_SUCCESS);
        assert_true(rpc_client_lost(client));
        assert_int_equal(losses.count, 1);
        if (lie == SEVERAL)
            assert_non_null(strstr(losses.reason, "nothing for 1 seconds"));
        rpc_client_destroy(client);
        close(fds[1]);
        assert_int_equal(open_descriptors(), before);
    }
}

/* Offers that are none, and offers in pieces. */
TEST(strange_offers)
{
    for (unsigned round = 0; round < 3; round++) {
        int fds[2];
        rpc_channel *served;
        uint32_t words[] = { 0x80000000 | 40, 0, 0, 2, 0x20F17008, RING_VERSION, 1, 0, 0, 0, 0 }, answer[9] = { 0 };
        if (round == 1)
            words[5] = RING_VERSION + 1;                /* a later version: no program of ours */
        for (size_t i = 0; i < 11; i++)
            words[i] = htonl(words[i]);
        test_socket_pair(fds);
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

/* ---- memory of an earlier connection ---- */

enum { KEPT_PAYLOAD = 1 << 20, KEPT_AT = 4 << 20 };

/* A client that sends this memory along; its channel is over rings. The server offers `payload` bytes of its own. */
static rpc_client *keeping_client(const struct rpc_shared_memory *kept, size_t payload, struct service **service)
{
    int fds[2];
    rpc_channel *channel, *served;
    rpc_client *client;
    test_socket_pair(fds);
    assert_int_equal(rpc_channel_from_fd(fds[0], &channel, NULL), 0);
    assert_int_equal(rpc_channel_share(&channel, kept, NULL), 0);
    assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, 1, NULL, NULL, &client, NULL), 0);
    assert_int_equal(rpc_channel_accept(fds[1], payload, &served, NULL), 0);
    *service = service_start(served);
    assert_int_equal(test_call(client, 1), RPC_SUCCESS);
    assert_string_equal(rpc_client_transport(client), "shm");
    return client;
}

static uint32_t *payload_of(const struct rpc_shared_memory *shared)
{
    uint32_t *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared->fd, (off_t)shared->payload);
    assert_true(at != MAP_FAILED);
    return at;
}

TEST(kept_memory)
{
    unsigned before = open_descriptors();
    struct service *services[3];
    rpc_client *clients[3] = { keeping_client(NULL, KEPT_PAYLOAD, &services[0]) };
    struct rpc_shared_memory first, here, there;
    assert_true(rpc_client_shared_memory(clients[0], &first));
    assert_false(first.kept);
    uint32_t *word = payload_of(&first), *again;
    *word = 4711;
    for (int i = 1; i < 3; i++) {                       /* from one to the next */
        assert_true(rpc_client_shared_memory(clients[i - 1], &here));
        clients[i] = keeping_client(&here, KEPT_PAYLOAD + RING_HEAD, &services[i]);
        assert_true(rpc_client_shared_memory(clients[i], &here) &&
                    rpc_server_shared_memory(services[i]->server, &there));
        assert_true(here.kept && there.kept && here.payload == first.payload && there.payload == first.payload);
        assert_true(here.payload_size == KEPT_PAYLOAD && there.payload_size == KEPT_PAYLOAD);
        rpc_client_destroy(clients[i - 1]);
        service_join(services[i - 1]);
        again = payload_of(&there);
        assert_int_equal(*again, 4711);
        munmap(again, 4096);
    }
    rpc_client_destroy(clients[2]);
    service_join(services[2]);
    munmap(word, 4096);
    assert_int_equal(open_descriptors(), before);
}

static int memory_of(off_t size, int seals)
{
    int fd = memfd_create("test", MFD_ALLOW_SEALING);
    assert_true(fd >= 0 && ftruncate(fd, size) == 0 && (!seals || fcntl(fd, F_ADD_SEALS, seals) == 0));
    return fd;
}

/* What a server must not use: memory that could be cut, more than it would give, sizes that do not fit, no memory. */
TEST(strange_memory)
{
    unsigned before = open_descriptors();
    for (unsigned kind = 0; kind < 6; kind++) {
        int fd = kind == 0   ? memory_of(KEPT_AT + KEPT_PAYLOAD, 0)
                 : kind == 1 ? memory_of(KEPT_AT + KEPT_PAYLOAD + RING_HEAD, F_SEAL_SHRINK)
                 : kind == 2 ? memory_of(KEPT_AT + 4000, F_SEAL_SHRINK)
                 : kind == 3 ? memory_of(KEPT_AT - RING_HEAD, F_SEAL_SHRINK)
                 : kind == 4 ? open("/dev/null", O_RDWR)
                             : socket(AF_UNIX, SOCK_STREAM, 0);
        struct rpc_shared_memory strange = { .fd = fd, .payload = KEPT_AT }, here, there;
        struct service *service;
        rpc_client *client = keeping_client(&strange, KEPT_PAYLOAD, &service);
        assert_true(rpc_client_shared_memory(client, &here) && rpc_server_shared_memory(service->server, &there));
        assert_false(here.kept || there.kept);
        assert_int_equal(there.payload_size, KEPT_PAYLOAD);
        rpc_client_destroy(client);
        service_join(service);
        close(fd);
    }
    assert_int_equal(open_descriptors(), before);
}

int main(void) { return unit_run(NULL, NULL); }
