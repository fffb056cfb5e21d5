/*
 * limits.c: what this machine can do at best, so that Flyt's figures have something to be compared with.
 *
 *     limits [--cpus A,B] [--ms N] WHAT [ARGUMENT]
 *
 *   memcpy BYTES           one thread copies between two warm buffers gbs
 *   line spin|futex        two processes hand one cache line to and fro                   p50_ns, p99_ns
 *   message spin           the same with a call of 48 bytes and an answer of 64, each copied in, published behind a
 *                          full fence, and copied out: what a ring in shared memory cannot do without p50_ns, p99_ns
 *   tcp spin|block         64 bytes to and fro over a loopback TCP connection             p50_ns, p99_ns
 *   unix spin|block        the same over a unix socket                                    p50_ns, p99_ns
 *   stream N BYTES h2d|d2h BYTES over N TCP connections, between a program's memory and a device's           gbs
 *   stream N BYTES move    the same from a device's memory into new memory of another's: no page of it was touched  gbs
 *   seal BYTES             one process seals BYTES as TLS does, the other opens as many, at the same time gbs
 *   pipe BYTES             BYTES through chunks of shared memory, one process copies in, the other out: gbs
 *
 * The two ends are processes on CPUs A and B (default: the first two that this process may use; equal where there is
 * one): for line, tcp and unix one on each, for the others wherever the kernel puts them. The waiting policies are
 * those of the transports: "spin" asks again and again, "block" sleeps in the kernel. Each measurement repeats until N
 * ms have passed (default 200). One line `key value` for each figure on stdout.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 64, SAMPLES = 200000, MAX_LANES = 16, CHUNK = 128 * 1024, CHUNKS = 16, PIECE = 512 * 1024 };

static int cpus[2];
static uint64_t budget_ns = 200 * 1000000ull;
static uint64_t samples[SAMPLES];

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int fail(const char *what)
{
    fprintf(stderr, "limits: %s: %s\n", what, strerror(errno));
    return 1;
}

/* END 0 or 1: its CPU alone. BOTH: where the kernel likes of the two, as Flyt's own ends. */
enum { BOTH = 2 };
static int placed = BOTH;

static void pin(int which)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < 2; i++)
        if (which == BOTH || which == i)
            CPU_SET((size_t)cpus[i], &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fprintf(stderr, "limits: cannot run on CPUs %d, %d alone: %s\n", cpus[0], cpus[1], strerror(errno));
}

static void pause_cpu(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#endif
}

static void *shared(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    memset(at, 0, bytes);
    return at;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void print_times(unsigned count)
{
    qsort(samples, count, sizeof samples[0], compare);
    printf("p50_ns %llu\np99_ns %llu\ncount %u\n", (unsigned long long)samples[count / 2],
           (unsigned long long)samples[(uint64_t)count * 99 / 100], count);
}

/* Speed from the times of `count` rounds of so many bytes: the median round, and the best. */
static void print_speed(unsigned count, size_t bytes)
{
    qsort(samples, count, sizeof samples[0], compare);
    printf("gbs %.4f\nbest_gbs %.4f\nrounds %u\n", (double)bytes / (double)samples[count / 2],
           (double)bytes / (double)samples[0], count);
}

/* The other end; it dies with this process. */
static pid_t other(void (*run)(void *), void *context)
{
    pid_t parent = getpid(), child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    pin(placed == BOTH ? BOTH : 1);
    run(context);
    _exit(0);
}

static int finish(pid_t child)
{
    int status = 0;
    kill(child, SIGKILL);
    return waitpid(child, &status, 0) == child ? 0 : fail("waiting for the other end");
}

/* ---- one cache line ---- */

struct line {
    _Alignas(128) _Atomic uint32_t ball[2];     /* same line: the number of the last call, of the last answer */
    int block;
};

static long futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

/* Waits until *word is not `old`. */
static uint32_t line_wait(struct line *l, _Atomic uint32_t *word, uint32_t old)
{
    uint32_t seen;
    while ((seen = atomic_load_explicit(word, memory_order_acquire)) == old)
        if (l->block)
            futex(word, FUTEX_WAIT, old);
        else
            pause_cpu();
    return seen;
}

static void line_set(struct line *l, _Atomic uint32_t *word, uint32_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
    if (l->block)
        futex(word, FUTEX_WAKE, 1);
}

static void line_answer(void *context)
{
    struct line *l = context;
    for (uint32_t last = 0;;) {
        last = line_wait(l, &l->ball[0], last);
        line_set(l, &l->ball[1], last);
    }
}

static int measure_line(const char *policy)
{
    struct line *l = shared(sizeof *l);
    if (!l)
        return fail("shared memory");
    l->block = strcmp(policy, "futex") == 0;
    pid_t child = other(line_answer, l);
    if (child < 0)
        return fail("fork");
    unsigned count = 0;
    for (uint64_t end = now() + budget_ns, t = now(); t < end && count < SAMPLES; count++) {
        line_set(l, &l->ball[0], count + 1);
        line_wait(l, &l->ball[1], count);
        uint64_t after = now();
        samples[count] = after - t;
        t = after;
    }
    print_times(count);
    return finish(child);
}

/* ---- a message each way, beside its length ---- */

enum { CALL = 48, ANSWER = 64, NEAR = 112 };

struct side {
    _Alignas(128) _Atomic uint64_t count;       /* messages published; 128: two cache lines, as in cpu/rpc/shm/ring.h */
    uint64_t size;
    uint8_t bytes[NEAR];
    _Alignas(128) _Atomic uint32_t sleeps;      /* the writer looks whether it has to wake somebody; never */
};
_Static_assert(sizeof(struct side) == 256, "one pair of lines each");

static void message_send(struct side *to, const uint8_t *bytes, size_t size, uint64_t number)
{
    memcpy(to->bytes, bytes, size);
    to->size = size;
    atomic_store_explicit(&to->count, number, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&to->sleeps, memory_order_relaxed))
        abort();
}

static void message_take(struct side *from, uint8_t *bytes, uint64_t number)
{
    while (atomic_load_explicit(&from->count, memory_order_acquire) != number)
        pause_cpu();
    size_t size = from->size;
    memcpy(bytes, from->bytes, size < NEAR ? size : NEAR);
    __asm__ volatile("" : : "r"(bytes) : "memory");
}

static void message_answer(void *context)
{
    struct side *sides = context;
    uint8_t bytes[NEAR] = { 0 };
    for (uint64_t number = 1;; number++) {
        message_take(&sides[0], bytes, number);
        message_send(&sides[1], bytes, ANSWER, number);
    }
}

static int measure_message(void)
{
    struct side *sides = shared(2 * sizeof *sides);
    if (!sides)
        return fail("shared memory");
    pid_t child = other(message_answer, sides);
    if (child < 0)
        return fail("fork");
    uint8_t bytes[NEAR] = { 0 };
    unsigned count = 0;
    for (uint64_t end = now() + budget_ns, t = now(); t < end && count < SAMPLES; count++) {
        message_send(&sides[0], bytes, CALL, count + 1);
        message_take(&sides[1], bytes, count + 1);
        uint64_t after = now();
        samples[count] = after - t;
        t = after;
    }
    print_times(count);
    return finish(child);
}

/* ---- sockets ---- */

struct ends { int fd[2][MAX_LANES]; int lanes, block; size_t bytes; };

static int connect_tcp(int pair[2])
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, size) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&at, &size))
        return -1;
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (pair[0] < 0 || connect(pair[0], (struct sockaddr *)&at, size))
        return -1;
    pair[1] = accept(listener, NULL, NULL);
    close(listener);
    for (int i = 0; i < 2; i++)
        setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return pair[1] < 0 ? -1 : 0;
}

static int move_all(int fd, char *at, size_t bytes, int out, int flags)
{
    while (bytes) {
        ssize_t n = out ? send(fd, at, bytes, flags | MSG_NOSIGNAL) : recv(fd, at, bytes, flags);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return -1;
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        }
    }
    return 0;
}

static void socket_answer(void *context)
{
    struct ends *e = context;
    char message[MESSAGE];
    int flags = e->block ? 0 : MSG_DONTWAIT;
    close(e->fd[0][0]);
    while (move_all(e->fd[1][0], message, MESSAGE, 0, flags) == 0 && move_all(e->fd[1][0], message, MESSAGE, 1, 0) == 0)
        ;
}

static int measure_socket(const char *family, const char *policy)
{
    struct ends e = { .block = strcmp(policy, "block") == 0 };
    int pair[2], made = strcmp(family, "tcp") == 0 ? connect_tcp(pair) : socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    if (made != 0)
        return fail("sockets");
    e.fd[0][0] = pair[0];
    e.fd[1][0] = pair[1];
    pid_t child = other(socket_answer, &e);
    if (child < 0)
        return fail("fork");
    close(pair[1]);
    char message[MESSAGE] = { 0 };
    unsigned count = 0;
    for (uint64_t end = now() + budget_ns, t = now(); t < end && count < SAMPLES; count++) {
        if (move_all(pair[0], message, MESSAGE, 1, 0) ||
            move_all(pair[0], message, MESSAGE, 0, e.block ? 0 : MSG_DONTWAIT))
            return fail("ping-pong");
        uint64_t after = now();
        samples[count] = after - t;
        t = after;
    }
    print_times(count);
    return finish(child);
}

/* A copy between a program and a device behind a connection. The program's end sends from its memory, or receives into
   it. The device's end has a buffer: bytes come into it, and a driver copies them into the device's memory, or the
   other way round. So each end touches all bytes of its memory, as both ends of Flyt do. */
struct stream {
    struct ends ends;
    bool to_device, from_device;
};

static size_t piece_of(size_t left) { return left < PIECE ? left : PIECE; }

/* As the software GPU has its memory; the pages of before are given back. NULL: there is none. */
static char *new_memory(int fd, size_t bytes)
{
    if (ftruncate(fd, 0) || ftruncate(fd, (off_t)bytes))
        return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Takes what comes on any lane, and acknowledges the whole with a byte on lane 0. */
static void stream_read(void *context)
{
    struct stream *s = context;
    struct ends *e = &s->ends;
    const bool moves = s->to_device && s->from_device;
    const int fd = memfd_create("device", MFD_CLOEXEC);
    char *buffer = malloc(PIECE), *memory = new_memory(fd, e->bytes), done = 1;
    if (!buffer || !memory)
        return;
    memset(memory, 1, e->bytes);
    for (;;) {
        if (moves && (munmap(memory, e->bytes) || !(memory = new_memory(fd, e->bytes))))
            return;
        for (size_t left = e->bytes; left;) {
            int moved = 0;
            for (int i = 0; i < e->lanes && left; i++) {
                char *at = memory + (e->bytes - left);
                ssize_t n = recv(e->fd[1][i], s->to_device ? buffer : at, piece_of(left),
                                 e->lanes == 1 ? 0 : MSG_DONTWAIT);
                if (n == 0)
                    return;
                if (n < 0)
                    continue;
                if (s->to_device)
                    memcpy(at, buffer, (size_t)n);
                left -= (size_t)n;
                moved = 1;
            }
            if (!moved)
                sched_yield();
        }
        if (send(e->fd[1][0], &done, 1, MSG_NOSIGNAL) != 1)
            return;
    }
}

/* The program sends on any lane that takes something. */
static int stream_write(const struct ends *e, const char *memory)
{
    for (size_t left = e->bytes; left;) {
        int moved = 0;
        for (int i = 0; i < e->lanes && left; i++) {
            ssize_t n = send(e->fd[0][i], memory + (e->bytes - left), piece_of(left),
                             MSG_NOSIGNAL | (e->lanes == 1 ? 0 : MSG_DONTWAIT));
            if (n > 0)
                left -= (size_t)n, moved = 1;
            else if (n < 0 && errno != EAGAIN && errno != EINTR)
                return -1;
        }
        if (!moved)
            sched_yield();
    }
    return 0;
}

/* The device sends its pieces on the lanes in turn. */
static int stream_write_device(const struct ends *e, const char *memory, char *buffer)
{
    int lane = 0;
    for (size_t left = e->bytes, piece; left; left -= piece, lane = (lane + 1) % e->lanes) {
        piece = piece_of(left);
        memcpy(buffer, memory + (e->bytes - left), piece);
        if (move_all(e->fd[0][lane], buffer, piece, 1, 0))
            return -1;
    }
    return 0;
}

static int measure_stream(int lanes, size_t bytes, const char *way)
{
    struct stream s = { { .lanes = lanes, .bytes = bytes }, strcmp(way, "d2h") != 0, strcmp(way, "h2d") != 0 };
    char *memory = malloc(bytes), *buffer = malloc(PIECE), done;
    if (!memory || !buffer || lanes < 1 || lanes > MAX_LANES)
        return fail("stream");
    memset(memory, 1, bytes);
    for (int i = 0; i < lanes; i++) {
        int pair[2];
        if (connect_tcp(pair) != 0)
            return fail("TCP connection");
        s.ends.fd[0][i] = pair[0];
        s.ends.fd[1][i] = pair[1];
    }
    pid_t child = other(stream_read, &s);
    if (child < 0)
        return fail("fork");
    unsigned rounds = 0;
    for (uint64_t end = now() + budget_ns; rounds < SAMPLES && (now() < end || rounds < 3); rounds++) {
        uint64_t began = now();
        if (s.from_device ? stream_write_device(&s.ends, memory, buffer) : stream_write(&s.ends, memory))
            return fail("sending");
        if (recv(s.ends.fd[0][0], &done, 1, 0) != 1)
            return fail("acknowledgement");
        samples[rounds] = now() - began;
    }
    print_speed(rounds, bytes);
    return finish(child);
}

/* ---- memory ---- */

/* Asks again at once, and gives way when that has been in vain for a while: the other end may need this CPU. */
static void wait_while(_Atomic uint64_t *word, uint64_t value)
{
    for (unsigned vain = 1; atomic_load_explicit(word, memory_order_acquire) == value; vain++)
        if (vain % 4096)
            pause_cpu();
        else
            sched_yield();
}

static int measure_memcpy(size_t bytes)
{
    char *from = malloc(bytes), *to = malloc(bytes);
    if (!from || !to)
        return fail("memory");
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    unsigned rounds = 0;
    for (uint64_t end = now() + budget_ns; rounds < SAMPLES && (now() < end || rounds < 3); rounds++) {
        uint64_t began = now();
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to) : "memory");
        samples[rounds] = now() - began;
    }
    print_speed(rounds, bytes);
    return 0;
}

struct pipe {
    _Alignas(128) _Atomic uint64_t filled;
    _Alignas(128) _Atomic uint64_t emptied;
    _Alignas(128) uint8_t chunk[CHUNKS][CHUNK];
};
struct pipe_ends { struct pipe *pipe; size_t bytes; };

static void pipe_read(void *context)
{
    struct pipe_ends *e = context;
    uint8_t *to = malloc(e->bytes);
    memset(to, 1, e->bytes);
    for (uint64_t number = 0;; number++) {
        wait_while(&e->pipe->filled, number);
        memcpy(to + number * CHUNK % e->bytes, e->pipe->chunk[number % CHUNKS], CHUNK);
        atomic_store_explicit(&e->pipe->emptied, number + 1, memory_order_release);
    }
}

static int measure_pipe(size_t bytes)
{
    struct pipe_ends e = { .pipe = shared(sizeof(struct pipe)), .bytes = bytes };
    if (!e.pipe || bytes % CHUNK)
        return fail("memory (BYTES is a multiple of 128 KiB)");
    uint8_t *from = malloc(bytes);
    if (!from)
        return fail("memory");
    memset(from, 1, bytes);
    pid_t child = other(pipe_read, &e);
    if (child < 0) {
        free(from);
        return fail("fork");
    }
    uint64_t number = 0;
    unsigned rounds = 0;
    for (uint64_t end = now() + budget_ns; rounds < SAMPLES && (now() < end || rounds < 3); rounds++) {
        uint64_t began = now();
        for (size_t at = 0; at < bytes; at += CHUNK, number++) {
            wait_while(&e.pipe->emptied, number - CHUNKS);
            memcpy(e.pipe->chunk[number % CHUNKS], from + at, CHUNK);
            atomic_store_explicit(&e.pipe->filled, number + 1, memory_order_release);
        }
        for (uint64_t seen; (seen = atomic_load_explicit(&e.pipe->emptied, memory_order_acquire)) != number;)
            wait_while(&e.pipe->emptied, seen);
        samples[rounds] = now() - began;
    }
    print_speed(rounds, bytes);
    return finish(child);
}

/* ---- sealing and opening ---- */

/* A record of TLS 1.3 with AES-128-GCM, which both ends of Flyt prefer: 16 KiB, a tag of 16 bytes, a nonce for each. */
enum { RECORD = 16384, TAG = 16, ADDITIONAL = 5 };

struct sealing {
    _Alignas(128) _Atomic uint64_t asked, done;     /* rounds that the opening end was asked for, and has done */
    size_t bytes;
    uint8_t record[RECORD + TAG];                   /* the one that is opened again and again */
};

static const uint8_t key[16] = "0123456789abcdef", nonce[12] = "nonce";
static const uint8_t additional[ADDITIONAL] = { 23, 3, 3, 64, 16 };

static int seal(EVP_CIPHER_CTX *cipher, const uint8_t *from, uint8_t *record)
{
    int n;
    return EVP_EncryptInit_ex(cipher, NULL, NULL, NULL, nonce) &&
           EVP_EncryptUpdate(cipher, NULL, &n, additional, ADDITIONAL) &&
           EVP_EncryptUpdate(cipher, record, &n, from, RECORD) && EVP_EncryptFinal_ex(cipher, record + RECORD, &n) &&
           EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_GET_TAG, TAG, record + RECORD);
}

static int open_record(EVP_CIPHER_CTX *cipher, const uint8_t *record, uint8_t *to)
{
    int n;
    return EVP_DecryptInit_ex(cipher, NULL, NULL, NULL, nonce) &&
           EVP_DecryptUpdate(cipher, NULL, &n, additional, ADDITIONAL) &&
           EVP_DecryptUpdate(cipher, to, &n, record, RECORD) &&
           EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_GCM_SET_TAG, TAG, (void *)(uintptr_t)(record + RECORD)) &&
           EVP_DecryptFinal_ex(cipher, to + RECORD, &n);
}

static void open_records(void *context)
{
    struct sealing *s = context;
    uint8_t *to = malloc(s->bytes);
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    if (!to || !cipher || !EVP_DecryptInit_ex(cipher, EVP_aes_128_gcm(), NULL, key, nonce))
        return;
    memset(to, 1, s->bytes);
    for (uint64_t number = 0;; number++) {
        wait_while(&s->asked, number);
        for (size_t at = 0; at + RECORD <= s->bytes; at += RECORD)
            if (!open_record(cipher, s->record, to + at))
                return;
        atomic_store_explicit(&s->done, number + 1, memory_order_release);
    }
}

/* Both ends work at the same time, as they do for one copy: a byte costs the sealing on one CPU and the opening on the
   other. */
static int measure_seal(size_t bytes)
{
    struct sealing *s = shared(sizeof *s);
    uint8_t *from = malloc(bytes), record[RECORD + TAG];
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    if (!s || !from || !cipher || bytes % RECORD ||
        !EVP_EncryptInit_ex(cipher, EVP_aes_128_gcm(), NULL, key, nonce))
        return fail("memory, or no AES-128-GCM (BYTES is a multiple of 16 KiB)");
    memset(from, 1, bytes);
    s->bytes = bytes;
    if (!seal(cipher, from, s->record))
        return fail("sealing");
    pid_t child = other(open_records, s);
    if (child < 0)
        return fail("fork");
    unsigned rounds = 0;
    for (uint64_t end = now() + budget_ns; rounds < SAMPLES && (now() < end || rounds < 3); rounds++) {
        uint64_t began = now();
        atomic_store_explicit(&s->asked, rounds + 1, memory_order_release);
        for (size_t at = 0; at < bytes; at += RECORD)
            if (!seal(cipher, from + at, record))
                return fail("sealing");
        wait_while(&s->done, rounds);
        samples[rounds] = now() - began;
    }
    print_speed(rounds, bytes);
    return finish(child);
}

/* ---- the command line ---- */

static void choose_cpus(void)
{
    cpu_set_t set;
    int found = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET((size_t)i, &set))
            cpus[found++] = i;
    if (found == 1)
        cpus[1] = cpus[0];
}

int main(int argc, char **argv)
{
    choose_cpus();
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2)
        if (strcmp(argv[i], "--ms") == 0)
            budget_ns = strtoull(argv[i + 1], NULL, 10) * 1000000;
        else if (strcmp(argv[i], "--cpus") != 0 || sscanf(argv[i + 1], "%d,%d", &cpus[0], &cpus[1]) != 2)
            break;
    const char *what = i < argc ? argv[i] : "", *first = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(what, "line") == 0 || strcmp(what, "message") == 0 || strcmp(what, "tcp") == 0 ||
        strcmp(what, "unix") == 0)
        placed = 0;
    pin(placed);
    if (strcmp(what, "line") == 0)
        return measure_line(first);
    if (strcmp(what, "message") == 0)
        return measure_message();
    if (strcmp(what, "tcp") == 0 || strcmp(what, "unix") == 0)
        return measure_socket(what, first);
    if (strcmp(what, "memcpy") == 0 && *first)
        return measure_memcpy(strtoull(first, NULL, 10));
    if (strcmp(what, "seal") == 0 && *first)
        return measure_seal(strtoull(first, NULL, 10));
    if (strcmp(what, "pipe") == 0 && *first)
        return measure_pipe(strtoull(first, NULL, 10));
    if (strcmp(what, "stream") == 0 && i + 3 < argc)
        return measure_stream(atoi(first), strtoull(argv[i + 2], NULL, 10), argv[i + 3]);
    fprintf(stderr,
            "usage: limits [--cpus A,B] [--ms N] memcpy BYTES | line spin|futex | message spin | tcp spin|block | "
            "unix spin|block | stream CONNECTIONS BYTES h2d|d2h|move | pipe BYTES | seal BYTES\n");
    return 2;
}
