/*
 * shm_bar.c: how a client in a virtual machine and a server on its host come to the same memory: a file for the host,
 * and for the guest the BAR of an ivshmem device (a file of sysfs), a dax device, or the same file in tests.
 *
 * The file is cut into as many equal slices as there may be sessions, on multiples of 2 MiB. Each holds what
 * channel_shm.c describes; what is left behind the rings is payload area. The worker that serves a session holds a lock
 * on the first byte of its slice, by an open file description of its own (F_OFD_SETLK): the lock ends with that
 * process, however that ends. The client holds none: the two kernels do not see each other's. The worker clears its
 * slice first, because the earlier program there may have left data.
 *
 * Getting there. No descriptor can be passed, so the server says a place, and both must find out that they mean the
 * same memory: the server writes 16 random bytes there, and the client, which reads them, sends them back. All of it
 * before anything else is said on the connection, each record a call of SHM_PROGRAM or its answer:
 *
 *   BAR_OFFER   ()          the place (hyper) and size (hyper) of a slice; size 0: none is free
 *   BAR_PROOF   (16 bytes, why)
 *                           1: through that memory from here on; 0: not the same bytes. A client that does not get at
 *                           the place, finds no rings there, or does not want that memory, sends zeros, and why (enum
 *                           bar_why)
 *
 * The random bytes stay there for as long as the session. Each side looks at them now and then: other bytes mean that
 * the slice belongs to another session. That is so for a program in a machine that was restored from a snapshot.
 *
 * Otherwise, and where the server knows no such procedure (PROG_UNAVAIL, from server.c), the connection goes on as it
 * is. The client writes nothing into the memory before both have agreed. Memory is neither shrunk nor sealed here: who
 * can cut the file can end both sides (a guest cannot cut a BAR). Who can open it can read and change what all sessions
 * in it say: they belong to one virtual machine.
 */
#include "cpu/rpc/shm/shm.h"

#include "cpu/common/clock.h"
#include "cpu/common/fd.h"
#include "cpu/rpc/shm/bar_device.h"
#include "cpu/rpc/transport/liveness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BAR_OFFER = 4, BAR_PROOF = 5 }; /* 2 and 3: of an earlier form */
enum { NONCE_SIZE = 16, NONCE_AT = SHM_SESSION_AT };
/* Why a client sends no proof. Never renumbered. */
enum bar_why { BAR_AGREED, BAR_OTHER, BAR_NO_PERMISSION, BAR_SLOW, BAR_WHYS };
enum {
    CALL_WORDS = 11,
    WHY_AT = CALL_WORDS + NONCE_SIZE / 4,
    PROOF_WORDS = WHY_AT + 1,
    ANSWER_WORDS = 7,
    PLACE_WORDS = ANSWER_WORDS + 4,
    AGREED_WORDS = ANSWER_WORDS + 1,
    ANSWER_MAX = PLACE_WORDS
};
enum { SLICE_UNIT = 2 << 20, SESSIONS_DEFAULT = 4, SESSIONS_MOST = 256 };
enum { PEEK_MS = 1 };
enum { FREE_MS = 500, FREE_LOOK_MS = 5 };    /* a worker whose client has just gone has its slice for a moment more */

/* ---- records ---- */

static void make_call(uint32_t *words, size_t count, uint32_t procedure, const uint8_t *nonce, enum bar_why why)
{
    const uint32_t head[CALL_WORDS] = { RPC_MARK_LAST | (uint32_t)(count * 4 - RPC_MARK_SIZE), 0 /* xid */, CALL,
                                        RPC_MSG_VERSION, SHM_PROGRAM,
                                        SHM_PROGRAM_VERSION, procedure, AUTH_NONE, 0, AUTH_NONE, 0 };
    for (size_t i = 0; i < CALL_WORDS; i++)
        words[i] = htonl(head[i]);
    if (!nonce)
        return;
    memcpy(words + CALL_WORDS, nonce, NONCE_SIZE);
    words[WHY_AT] = htonl(why);
}

/* Few bytes, and the only ones of ours on their way: they fit, or the connection is of no use. */
static int send_words(int fd, const uint32_t *words, size_t count)
{
    ssize_t sent = send(fd, words, count * 4, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent == (ssize_t)(count * 4) ? 0 : sent < 0 ? -errno : -EPROTO;
}

static int receive_words(int fd, uint32_t *words, size_t count, uint64_t deadline)
{
    uint8_t *bytes = (uint8_t *)words;
    for (size_t have = 0; have < count * 4;) {
        ssize_t got = recv(fd, bytes + have, count * 4 - have, MSG_DONTWAIT);
        if (got == 0)
            return -ECONNRESET;
        if (got > 0) {
            have += (size_t)got;
            continue;
        }
        if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)
            return -errno;
        struct pollfd poller = { .fd = fd, .events = POLLIN };
        int ready = poll(&poller, 1, clock_poll_timeout(deadline));
        if (ready == 0)
            return -ETIMEDOUT;
        if (ready < 0 && errno != EINTR)
            return -errno;
    }
    return 0;
}

/* The words behind the head of an answer with SUCCESS. 0; 1: an answer of another kind, as from who does not know the
   procedure; or -errno. */
static int receive_answer(int fd, uint32_t *results, size_t count, uint64_t deadline)
{
    uint32_t words[ANSWER_MAX];
    int status = receive_words(fd, words, 1, deadline);
    if (status < 0)
        return status;
    uint32_t mark = ntohl(words[0]), all = 1 + (mark & ~RPC_MARK_LAST) / 4;
    if (!(mark & RPC_MARK_LAST) || mark % 4 || all < ANSWER_WORDS || all > ANSWER_MAX)
        return -EPROTO;
    status = receive_words(fd, words + 1, all - 1, deadline);
    if (status < 0)
        return status;
    if (words[1] != 0 || ntohl(words[2]) != REPLY)
        return -EPROTO;
    if (ntohl(words[3]) != MSG_ACCEPTED || ntohl(words[6]) != SUCCESS)
        return 1;
    if (all != ANSWER_WORDS + count)
        return -EPROTO;
    for (size_t i = 0; i < count; i++)
        results[i] = ntohl(words[ANSWER_WORDS + i]);
    return 0;
}

static int send_answer(int fd, const uint32_t *results, size_t count)
{
    uint32_t words[ANSWER_MAX] = { RPC_MARK_LAST | (uint32_t)((ANSWER_WORDS + count) * 4 - RPC_MARK_SIZE), 0, REPLY,
                                   MSG_ACCEPTED, AUTH_NONE, 0, SUCCESS };
    memcpy(words + ANSWER_WORDS, results, count * 4);
    for (size_t i = 0; i < ANSWER_WORDS + count; i++)
        words[i] = htonl(words[i]);
    return send_words(fd, words, ANSWER_WORDS + count);
}

/* ---- a channel that is not decided yet ---- */

/* Over the socket, which it takes over. NULL: no memory. */
static struct shm_channel *bar_channel(rpc_channel *socket, enum ring_side side)
{
    struct shm_channel *s = shm_create(socket, side);
    if (s)
        s->apart = true;
    return s;
}

/* The memory is not used. */
static void bar_forget(struct shm_channel *s)
{
    shm_memory_release(s->memory);
    s->memory = NULL;
    if (s->memory_fd >= 0)
        close(s->memory_fd);                /* and with it goes the lock */
    s->memory_fd = -1;
}

/* Both have said yes, or not. What stands in error then says why not. */
static rpc_channel *bar_decided(struct shm_channel *s, bool agreed, char *error)
{
    if (!agreed) {
        bar_forget(s);
        shm_set_state(s, SHM_PLAIN); /* it stays a socket */
        return &s->base;
    }
    shm_own(s);
    if (s->side == RING_SERVER)
        rpc_network_watch_for(s->fd, rpc_reclaim_seconds());
    shm_set_state(s, SHM_RINGS);
    if (error)
        *error = 0;
    return &s->base;
}

/* What keeps this dax device from use; 0: nothing. */
static int dax_check(const char *path, dev_t number, uint64_t *size, char *error)
{
    uint64_t align;
    if (bar_dax(number, size, &align) < 0)
        return rpc_explain(error, -EINVAL, "%s is neither a file in memory nor the resource of a device", path);
    if (align > (uint64_t)sysconf(_SC_PAGESIZE))
        return rpc_explain(error, -EINVAL, "%s is mapped in units of %llu bytes only: set its align to 4096, as "
                           "docs/vm.md says", path, (unsigned long long)align);
    return 0;
}

/* A file that both may map: not a pipe, and no device's registers. Its size: of a BAR too. */
static int bar_open(const char *path, uint64_t *size, char *error)
{
    struct stat is;
    size_t length = strlen(path);
    if (length > 3 && strcmp(path + length - 3, "_wc") == 0)
        return rpc_explain(error, -EINVAL, "%s reorders stores (write combining): take resource2 without _wc", path);
    int fd = fd_keep(open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (fd < 0 && errno == EACCES && strncmp(path, "/dev/dax", 8) == 0)
        return rpc_explain(error, -EACCES,
                           "%s cannot be opened: this user may not. docs/vm.md has a rule for udev", path);
    if (fd < 0 && errno == EACCES && strncmp(path, "/sys/", 5) == 0)
        return rpc_explain(
            error, -EACCES,
            "%s cannot be opened: this user may not. As root: chgrp flyt-users %s && chmod 660 %s, or install "
            "70-flyt-ivshmem.rules for udev, which does that at each boot; then join the group flyt-users",
            path, path, path);
    if (fd < 0)
        return rpc_explain(error, -errno, "%s cannot be opened for reading and writing: %s", path, strerror(errno));
    if (fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_size > 0) {
        *size = (uint64_t)is.st_size;
        return fd;
    }
    if (S_ISCHR(is.st_mode)) {
        int status = dax_check(path, is.st_rdev, size, error);
        if (status == 0)
            return fd;
        close(fd);
        return status;
    }
    close(fd);
    return rpc_explain(error, -EINVAL, "%s is %s", path,
                       S_ISREG(is.st_mode) ? "empty" : "neither a file in memory nor the resource of a device");
}

/* ---- client ---- */

bool rpc_bar_present(void)
{
    char path[1][BAR_PATH_SIZE];
    return bar_devices(path, 1) > 0;
}

/* Maps what the server named, if it can be, and reads the bytes there. 0; or -errno, and why. */
static int client_map(struct shm_channel *s, const char *path, const uint32_t place[4], uint8_t nonce[NONCE_SIZE],
                      char *why)
{
    uint64_t offset = (uint64_t)place[0] << 32 | place[1], size = (uint64_t)place[2] << 32 | place[3], all = 0;
    s->memory_fd = bar_open(path, &all, why);
    if (s->memory_fd < 0)
        return s->memory_fd;
    if (offset > all || size > all - offset || offset % RING_HEAD || all > INT64_MAX / 2)
        return rpc_explain(why, -ENXIO,
                           "the server names a place behind the end of %s: it is not the memory that its --bar names",
                           path);
    s->memory_at = offset;
    int status = shm_use_memory(s, (size_t)size);
    if (status < 0)
        return rpc_explain(
            why, status,
            status == -EPROTO ? "%s is not the memory that the server's --bar names" : "%s cannot be mapped", path);
    memcpy(nonce, (const uint8_t *)s->memory->at + NONCE_AT, NONCE_SIZE);
    return bar_check_speed((const uint8_t *)s->memory->at + RING_HEAD, s->memory->size - RING_HEAD, path, why);
}

/* Maps the memory that `path` names, or, where it is NULL, tries this machine's devices in turn. What stands in why is
   of the last one. */
static int client_map_any(struct shm_channel *s, const char *path, const uint32_t place[4], uint8_t nonce[NONCE_SIZE],
                          char *why)
{
    char paths[BAR_DEVICES_MOST][BAR_PATH_SIZE];
    if (path)
        return client_map(s, path, place, nonce, why);
    size_t count = bar_devices(paths, BAR_DEVICES_MOST);
    int status =
        rpc_explain(why, -ENODEV, "this machine has no memory of its host: neither an ivshmem nor a dax device");
    for (size_t i = 0; i < count; i++) {
        if (i)
            bar_forget(s);
        status = client_map(s, paths[i], place, nonce, why);
        if (status == 0)
            break;
    }
    return status;
}

/* 1: agreed; 0: not, and why; or -errno. none: the server has no such memory. */
static int client_agree(struct shm_channel *s, const char *path, int timeout_ms, bool *none, char *why)
{
    uint64_t deadline = clock_now() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS;
    uint32_t words[PROOF_WORDS], place[4], agreed = 0;
    uint8_t nonce[NONCE_SIZE] = { 0 };
    make_call(words, CALL_WORDS, BAR_OFFER, NULL, BAR_AGREED);
    int status = send_words(s->fd, words, CALL_WORDS);
    if (status == 0)
        status = receive_answer(s->fd, place, 4, deadline);
    *none = status == 1;
    if (status == 1)
        return rpc_explain(why, 0, "the server was started without --bar, or is of another version");
    if (status == 0 && !(place[2] | place[3]))
        return rpc_explain(why, 0, "the server has no part of its --bar free");
    if (status < 0)
        return status;
    int map = client_map_any(s, path, place, nonce, why);
    bool mapped = map == 0;
    if (!mapped)
        memset(nonce, 0, sizeof nonce);
    make_call(words, PROOF_WORDS, BAR_PROOF, nonce,
              mapped               ? BAR_AGREED
              : map == -EACCES     ? BAR_NO_PERMISSION
              : map == -EOPNOTSUPP ? BAR_SLOW
                                   : BAR_OTHER);
    status = send_words(s->fd, words, PROOF_WORDS);
    if (status == 0)
        status = receive_answer(s->fd, &agreed, 1, deadline);
    if (status != 0)
        return status < 0 ? status : -EPROTO;
    if (agreed && !mapped)
        return -EPROTO;
    if (!agreed && mapped)
        rpc_explain(why, 0, "%s is not the memory that the server's --bar names",
                    path ? path : "what this machine shares with its host");
    return agreed != 0;
}

int rpc_channel_share_bar(rpc_channel **channel, const char *path, int timeout_ms, char *error)
{
    bool none = false;
    if (path) {
        uint64_t size;
        int fd = bar_open(path, &size, error); /* before anything is asked for */
        if (fd < 0)
            return 0;
        close(fd);
    }
    struct shm_channel *s = bar_channel(*channel, RING_CLIENT);
    if (!s) {
        rpc_channel_destroy(*channel);
        return rpc_explain(error, -ENOMEM, "no memory for a connection");
    }
    int status = client_agree(s, path, timeout_ms, &none, error);
    if (status < 0) {
        rpc_channel_destroy(&s->base);
        return rpc_explain(error, status, "asking the server to continue through shared memory: %s", strerror(-status));
    }
    *channel = bar_decided(s, status > 0, error);
    return none;
}

/* ---- server ---- */

/* FILE[,SESSIONS]. A descriptor, with the slices' number and size; or -errno. */
static int server_open(const char *text, unsigned *sessions, uint64_t *slice, char *error)
{
    char path[PATH_MAX], *end;
    const char *comma = strrchr(text, ',');
    size_t length = comma ? (size_t)(comma - text) : strlen(text);
    unsigned long count = SESSIONS_DEFAULT;
    uint64_t all;
    if (comma) {
        count = strtoul(comma + 1, &end, 10);
        if (comma[1] < '0' || comma[1] > '9' || *end || count < 1 || count > SESSIONS_MOST)
            return rpc_explain(error, -EINVAL, "\"%s\" is no number of sessions from 1 to %d", comma + 1,
                               SESSIONS_MOST);
    }
    if (!length || length >= sizeof path)
        return rpc_explain(error, -EINVAL, "it is FILE or FILE,SESSIONS");
    memcpy(path, text, length);
    path[length] = 0;
    int fd = bar_open(path, &all, error);
    if (fd < 0)
        return fd;
    *sessions = (unsigned)count;
    *slice = all / count & ~(uint64_t)(SLICE_UNIT - 1);
    if (*slice >= ring_memory_size(0) && all <= INT64_MAX / 2)
        return fd;
    close(fd);
    return rpc_explain(error, -EINVAL, "%s has %llu bytes: %lu sessions need %llu at least", path,
                       (unsigned long long)all, count, (unsigned long long)count * ring_memory_size(0));
}

int rpc_bar_check(const char *text, char *error)
{
    unsigned sessions;
    uint64_t slice;
    int fd = server_open(text, &sessions, &slice, error);
    if (fd < 0)
        return fd;
    /* All of it is taken from the system now: a page that is missing later would end the process that touches it. */
    int status = fallocate(fd, 0, 0, (off_t)(slice * sessions)) == 0 || errno == EOPNOTSUPP ? 0 : -errno;
    close(fd);
    return status < 0 ? rpc_explain(error, status, "its memory cannot be used: %s", strerror(-status)) : 0;
}

bool rpc_bar_offered(int fd, int timeout_ms)
{
    uint32_t offer[CALL_WORDS], came[CALL_WORDS];
    uint64_t deadline = clock_now() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS;
    make_call(offer, CALL_WORDS, BAR_OFFER, NULL, BAR_AGREED);
    for (;;) {
        ssize_t got = recv(fd, came, sizeof came, MSG_PEEK | MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
            got = 0;
        else if (got <= 0)
            return false;
        bool same = memcmp(came, offer, (size_t)got) == 0;
        if (same && got == (ssize_t)sizeof came)
            return true;
        if (!same || clock_now() >= deadline)
            return false;
        poll(NULL, 0, PEEK_MS);             /* poll with the socket would return at once */
    }
}

/* A free slice, locked by this descriptor. The one that was free last is not the first to be taken: who used it may
   still be about to notice that its server has gone. -1: none. */
static int64_t take_slice(int fd, unsigned sessions, uint64_t slice, unsigned first)
{
    for (unsigned i = 0; i < sessions; i++) {
        uint64_t at = (first + i) % sessions * slice;
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1 };
        if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
            return (int64_t)at;
    }
    return -1;
}

/* The bytes that an earlier program left in a part of the file. What was never written is skipped: it reads as zeros.
   */
static int clear_slice(int fd, uint64_t at, uint64_t size)
{
    off_t end = (off_t)(at + size), data = (off_t)at, hole;
    for (; data < end; data = hole) {
        off_t next = lseek(fd, data, SEEK_DATA);
        if (next < 0 && errno == ENXIO)
            return 0;                  /* no data up to the end */
        data = next < 0 ? data : next; /* a file system that knows no holes: all of it */
        hole = next < 0 ? end : lseek(fd, data, SEEK_HOLE);
        if (data >= end)
            return 0;
        hole = hole < 0 || hole > end ? end : hole;
        void *memory = mmap(NULL, (size_t)(hole - data), PROT_READ | PROT_WRITE, MAP_SHARED, fd, data);
        if (memory == MAP_FAILED)
            return -errno;
        memset(memory, 0, (size_t)(hole - data));
        munmap(memory, (size_t)(hole - data));
    }
    return 0;
}

/* Lays the rings out in a slice. Its size; 0: there is none, and why. */
static uint64_t server_slice(struct shm_channel *s, const char *text, size_t payload, uint8_t nonce[NONCE_SIZE],
                             char *why)
{
    unsigned sessions, first;
    uint64_t slice, size;
    if (getrandom(nonce, NONCE_SIZE, 0) != NONCE_SIZE || getrandom(&first, sizeof first, 0) != (ssize_t)sizeof first) {
        rpc_explain(why, 0, "there are no random numbers");
        return 0;
    }
    s->memory_fd = server_open(text, &sessions, &slice, why);
    if (s->memory_fd < 0)
        return 0;
    int64_t at = take_slice(s->memory_fd, sessions, slice, first % sessions);
    for (int waited = 0; at < 0 && waited < FREE_MS; waited += FREE_LOOK_MS) {
        poll(NULL, 0, FREE_LOOK_MS);
        at = take_slice(s->memory_fd, sessions, slice, first % sessions);
    }
    if (at < 0) {
        rpc_explain(why, 0, "all %u parts of --bar are taken", sessions);
        return 0;
    }
    s->memory_at = (uint64_t)at;
    size = ring_memory_size(0);
    size += payload < slice - size ? payload & ~((size_t)RING_HEAD - 1) : slice - size;
    int status = clear_slice(s->memory_fd, s->memory_at, size);
    if (status == 0)
        status = shm_use_memory(s, (size_t)size);
    if (status < 0) {
        rpc_explain(why, status, "--bar cannot be mapped: %s", strerror(-status));
        return 0;
    }
    memcpy((uint8_t *)s->memory->at + NONCE_AT, nonce, NONCE_SIZE);
    return size;
}

/* In a time that does not depend on where they differ. */
static bool same_bytes(const uint8_t *a, const uint8_t *b, size_t size)
{
    volatile uint8_t differ = 0;
    for (size_t i = 0; i < size; i++)
        differ = (uint8_t)(differ | (a[i] ^ b[i]));
    return differ == 0;
}

/* For the server's log. */
static const char *const why_texts[BAR_WHYS] = {
    [BAR_AGREED] = "the client's memory is other memory",
    [BAR_OTHER] = "the client's memory is other memory",
    [BAR_NO_PERMISSION] = "the program may not open its machine's ivshmem device",
    [BAR_SLOW] = "the memory is uncached in the client's machine",
};

/* 1: agreed; 0: not, and why; or -errno. */
static int server_agree(struct shm_channel *s, const char *text, size_t payload, int timeout_ms, char *why)
{
    uint64_t deadline = clock_now() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS;
    uint32_t came[PROOF_WORDS], expected[CALL_WORDS];
    uint8_t nonce[NONCE_SIZE];
    int status = receive_words(s->fd, came, CALL_WORDS, deadline);         /* the offer, which has been looked at */
    if (status < 0)
        return status;
    uint64_t size = server_slice(s, text, payload, nonce, why), at = s->memory_at;
    const uint32_t place[] = { (uint32_t)(at >> 32), (uint32_t)at, (uint32_t)(size >> 32), (uint32_t)size };
    status = send_answer(s->fd, place, 4);
    if (status < 0 || size == 0)
        return status;
    make_call(expected, PROOF_WORDS, BAR_PROOF, NULL, BAR_AGREED);
    status = receive_words(s->fd, came, PROOF_WORDS, deadline);
    if (status < 0)
        return status;
    if (memcmp(came, expected, sizeof expected) != 0)
        return -EPROTO;
    const uint32_t agreed = same_bytes((const uint8_t *)(came + CALL_WORDS), nonce, NONCE_SIZE);
    status = send_answer(s->fd, &agreed, 1);
    uint32_t reason = ntohl(came[WHY_AT]);
    if (status == 0 && !agreed)
        rpc_explain(why, 0, "%s", reason < BAR_WHYS ? why_texts[reason] : why_texts[BAR_OTHER]);
    return status < 0 ? status : (int)agreed;
}

int rpc_bar_accept(int fd, const char *text, size_t payload, int timeout_ms, rpc_channel **out, char *error)
{
    rpc_channel *socket;
    int status = rpc_channel_from_fd(fd, &socket, error);
    if (status < 0) {
        close(fd);
        return status;
    }
    struct shm_channel *s = bar_channel(socket, RING_SERVER);
    if (!s) {
        rpc_channel_destroy(socket);
        return rpc_explain(error, -ENOMEM, "no memory for a connection");
    }
    status = server_agree(s, text, payload, timeout_ms, error);
    if (status < 0) {
        rpc_channel_destroy(&s->base);
        return rpc_explain(error, status, "agreeing with a client on memory: %s", strerror(-status));
    }
    *out = bar_decided(s, status > 0, error);
    return 0;
}
