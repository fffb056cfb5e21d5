/*
 * shm_offer.c: how client and server on one machine come to the same memory. (A virtual machine and its host:
 * shm_bar.c.)
 *
 * Who makes the memory. The server, which does not trust the client: a memfd sealed against shrinking, so that no
 * access can fault, and against growing, so that what it costs is known. A file that stands for a device's BAR cannot
 * be sealed: nobody but who made it may be able to cut it (a guest cannot cut a BAR); see rpc_channel_shared,
 * shm_bar.c.
 *
 * A client that moves from one server to another may send the memory of its old connection along with the offer. A
 * server whose own payload area would be at least as large uses the payload area of that memory in place of one of its
 * own (so pages that the program writes meanwhile stay the same pages), and its answer says that it did. It makes the
 * rings itself. The memory is checked as a client checks it: it cannot be made shorter. An earlier server overlooks it.
 *
 * Getting there. The client's first record is a call of program SHM_PROGRAM, and nothing else is sent until its answer
 * has come. A server that knows it answers with SUCCESS, the memory's size, and the descriptor (SCM_RIGHTS); from then
 * on all records travel through the memory. One that does not know it answers PROG_UNAVAIL, as ONC RPC wants, and the
 * connection goes on as a plain socket; so it does where the server has no memory to give. A client that does
 * not offer begins with another record, and is served over the socket. Both decide inside send, receive and poll, so
 * nobody waits longer for a slow server than for its first answer.
 */
#include "cpu/rpc/shm/shm.h"

#include "cpu/common/fd.h"
#include "cpu/common/lock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { OFFER_PROCEDURE = 1 };
enum { OFFER_SIZE = RPC_MARK_SIZE + 40, ANSWER_BODY = 24, DESCRIPTORS_MAX = 4 };

static int breaks(struct shm_channel *s, int failure)
{
    atomic_store(&s->failure, failure);
    shm_set_state(s, SHM_BROKEN);
    return failure;
}

/* ---- the memory ---- */

int shm_use_memory(struct shm_channel *s, size_t size)
{
    size_t mapped = ring_memory_size(0);
    if (size < mapped)
        return -EPROTO;
    struct shm_memory *memory = malloc(sizeof *memory);
    if (!memory)
        return -ENOMEM;
    *memory = (struct shm_memory){ .size = mapped, .users = 1 };
    memory->at = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, s->memory_fd, (off_t)s->memory_at);
    if (memory->at == MAP_FAILED) {
        int status = -errno;
        free(memory);
        return status;
    }
    s->memory = memory;
    if (s->side == RING_SERVER && s->apart)
        memset(memory->at, 0, mapped);      /* what others have left there */
    if (s->side == RING_SERVER)
        ring_format(memory->at, (size - mapped) & ~((size_t)RING_HEAD - 1));
    return ring_attach(memory->at, mapped, size, s->side, &s->view);
}

void shm_memory_release(struct shm_memory *memory)
{
    /* acq_rel: the last one unmaps it behind all uses of the others */
    if (!memory || atomic_fetch_sub_explicit(&memory->users, 1, memory_order_acq_rel) > 1)
        return;
    munmap(memory->at, memory->size);
    free(memory);
}

int shm_make_memory(struct shm_channel *s, size_t *size)
{
    *size = ring_memory_size(s->payload);
    s->memory_fd = fd_keep(memfd_create("flyt-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (s->memory_fd < 0)
        return -errno;
    int status = 0;
    if (ftruncate(s->memory_fd, (off_t)*size) != 0 ||
        fcntl(s->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        status = -errno;
    if (status == 0)
        status = shm_use_memory(s, *size);
    if (status < 0) {
        close(s->memory_fd);
        s->memory_fd = -1;
    }
    return status;
}

/* A descriptor that came from the server: memory of at least that size, which nobody can make shorter. */
static int check_memory(int fd, uint64_t size)
{
    struct stat is;
    struct statfs of_what;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &is) != 0 || fstatfs(fd, &of_what) != 0)
        return -EPROTO;
    /* not huge pages either: they can be missing when they are touched */
    bool good = of_what.f_type == TMPFS_MAGIC && is.st_size > 0 && size == (uint64_t)is.st_size && size <= SIZE_MAX / 2;
    return good ? 0 : -EPROTO;
}

/* ---- the handshake ---- */

static void put_word(uint8_t *at, uint32_t word)
{
    word = htonl(word);
    memcpy(at, &word, sizeof word);
}

static uint32_t word_at(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return ntohl(word);
}

static void make_offer(uint8_t offer[OFFER_SIZE])
{
    const uint32_t words[OFFER_SIZE / 4] = {
        RPC_MARK_LAST | (OFFER_SIZE - RPC_MARK_SIZE),
        0 /* xid */,
        CALL,
        RPC_MSG_VERSION,
        SHM_PROGRAM,
        SHM_PROGRAM_VERSION,
        OFFER_PROCEDURE,
        AUTH_NONE,
        0,
        AUTH_NONE,
        0,
    };
    for (size_t i = 0; i < OFFER_SIZE / 4; i++)
        put_word(offer + 4 * i, words[i]);
}

/* The bytes, with fd (-1: none) attached to the first. */
static int send_with(int socket, uint8_t *bytes, size_t length, int fd)
{
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control;
    struct iovec data = { bytes, length };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
    if (fd >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(part), &fd, sizeof fd);
    }
    /* the first bytes of ours on this connection: they fit, or it is of no use */
    ssize_t sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent == (ssize_t)length ? 0 : sent < 0 ? -errno : -EPROTO;
}

/* fd -1: there is no memory. kept: the answer has one more word, which says that the client's memory is used. */
static int send_answer(int socket, int fd, uint64_t size, bool kept)
{
    size_t more = fd < 0 ? 0 : kept ? 12 : 8;
    const uint32_t words[] = {
        (uint32_t)(RPC_MARK_LAST | (ANSWER_BODY + more)), 0, REPLY, MSG_ACCEPTED, AUTH_NONE, 0,
        fd >= 0 ? SUCCESS : PROG_UNAVAIL, (uint32_t)(size >> 32), (uint32_t)size, 1,
    };
    uint8_t bytes[sizeof words];
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        put_word(bytes + 4 * i, words[i]);
    return send_with(socket, bytes, sizeof words - 12 + more, fd);
}

/* Keeps the first descriptor of a message, closes the others. */
static void take_descriptors(struct msghdr *message, int *keep)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            if (*keep < 0)
                *keep = fd_keep(fd);
            else
                close(fd);
        }
    }
}

/* Takes at most `size` bytes of the handshake, and the first descriptor that comes, if *keep is -1. As recv. */
static ssize_t receive_with(struct shm_channel *s, size_t size, int *keep)
{
    union { struct cmsghdr header; char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))]; } control;
    struct iovec data = { s->early + s->early_size, size };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control };
    ssize_t got = recvmsg(s->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got >= 0)
        take_descriptors(&message, keep);
    return got;
}

/* Server: whether the client's memory takes the place of a payload area of ours. */
static bool keep_memory(struct shm_channel *s)
{
    struct stat is;
    uint64_t before = ring_memory_size(0);
    if (s->kept_fd < 0 || fstat(s->kept_fd, &is) != 0 || is.st_size <= 0 || (uint64_t)is.st_size <= before ||
        check_memory(s->kept_fd, (uint64_t)is.st_size) != 0)
        return false;
    s->kept_size = (uint64_t)is.st_size - before;
    return s->kept_size <= s->payload && s->kept_size % RING_HEAD == 0;
}

/* Server: takes what has come of the first record. 0: decided; -EAGAIN; or -errno. */
static int hear_offer(struct shm_channel *s)
{
    FLYT_ASSERT_HELD(&s->lock);
    uint8_t offer[OFFER_SIZE];
    make_offer(offer);
    while (s->early_size < OFFER_SIZE) {
        ssize_t got = receive_with(s, OFFER_SIZE - s->early_size, &s->kept_fd);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return -EAGAIN;
        s->early_size += got > 0 ? (size_t)got : 0;
        if (got <= 0 || memcmp(s->early, offer, s->early_size) != 0) {
            /* the bytes are given to the inbox first; an end or error comes again */
            shm_set_state(s, SHM_PLAIN);
            return 0;
        }
    }
    s->early_size = 0;
    size_t size;
    s->kept = keep_memory(s);
    if (s->kept)
        s->payload = 0;
    bool made = shm_make_memory(s, &size) == 0;
    int status = send_answer(s->fd, s->memory_fd, size, s->kept);
    if (status < 0)
        return breaks(s, status);
    shm_set_state(s, made ? SHM_RINGS : SHM_PLAIN);
    return 0;
}

/* Receives until `size` bytes of the answer are there, and no byte more: the next belong to the stream. */
static int receive_early(struct shm_channel *s, size_t size)
{
    while (s->early_size < size) {
        ssize_t got = receive_with(s, size - s->early_size, &s->memory_fd);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EWOULDBLOCK ? -EAGAIN : -errno;
        if (got == 0)
            return -ECONNRESET;
        s->early_size += (size_t)got;
    }
    return 0;
}

/* Client: takes what has come of the answer. 0: decided; -EAGAIN; or -errno. */
static int hear_answer(struct shm_channel *s)
{
    FLYT_ASSERT_HELD(&s->lock);
    int status = receive_early(s, RPC_MARK_SIZE);
    if (status == 0) {
        uint32_t mark = word_at(s->early), length = mark & ~RPC_MARK_LAST;
        if (!(mark & RPC_MARK_LAST) || length < ANSWER_BODY || length > SHM_EARLY_MAX - RPC_MARK_SIZE)
            return breaks(s, -EPROTO);
        status = receive_early(s, RPC_MARK_SIZE + length);
    }
    if (status < 0)
        return status == -EAGAIN ? status : breaks(s, status);

    const uint8_t *body = s->early + RPC_MARK_SIZE;
    size_t length = s->early_size - RPC_MARK_SIZE;
    if (word_at(body) != 0 || word_at(body + 4) != REPLY)
        return breaks(s, -EPROTO);
    if (word_at(body + 8) != MSG_ACCEPTED || word_at(body + 20) != SUCCESS) {
        if (s->required)
            return breaks(s, -EPROTONOSUPPORT);
        shm_set_state(s, SHM_PLAIN);
        return 0;
    }
    s->kept = s->kept_fd >= 0 && length == ANSWER_BODY + 12 && word_at(body + ANSWER_BODY + 8) == 1;
    if ((length != ANSWER_BODY + 8 && !s->kept) || s->memory_fd < 0)
        return breaks(s, -EPROTO);
    uint64_t size = (uint64_t)word_at(body + ANSWER_BODY) << 32 | word_at(body + ANSWER_BODY + 4);
    status = check_memory(s->memory_fd, size);
    if (status == 0)
        status = shm_use_memory(s, (size_t)size);
    if (status < 0)
        return breaks(s, status);
    shm_set_state(s, SHM_RINGS);
    return 0;
}

int shm_hear(struct shm_channel *s)
{
    FLYT_ASSERT_HELD(&s->lock);
    return s->side == RING_SERVER ? hear_offer(s) : hear_answer(s);
}

int shm_offer(struct shm_channel *s)
{
    uint8_t offer[OFFER_SIZE];
    make_offer(offer);
    return send_with(s->fd, offer, sizeof offer, s->kept_fd);
}
