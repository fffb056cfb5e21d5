/*
 * lanes.c: the session's lanes (cpu_rpc_prot.x says what travels on them).
 *
 * A connection that says it is a lane of this session gets a thread. The thread reads the hello and the key; if that is the
 * one that was told to the client for this lane, and not used yet, the connection becomes the lane, and the thread its reader.
 * Until then it has LANE_GREETING_MS; there are at most FLYT_MAX_LANES such connections, and only while a key is out.
 *
 * To the device. The reader puts each transfer's bytes into a slot of staging memory of its own (LANE_WINDOW slots for
 * the session), from where the device copies them, so a byte is moved once by the server. Bytes and calls
 * come in any order: `arrivals` knows what has come, lanes_claim hands it to the copy, and a copy that comes first holds its stream
 * (OPERATION_LATER) until the reader kicks the executor. A reader that finds no slot waits: a client that keeps to
 * the window never makes it wait, another one only holds up itself. The slots are plain memory registered with the driver, not memory
 * of a context, so that a reader can write into one while the device is being reset.
 *
 * From the device. A copy out that asked for it hands its slot to the lane's writer, a thread that is started with the
 * first of them. So neither the executor nor the completion thread ever waits for a client to take bytes. What has been
 * fetched and not written is bounded (lanes_congested).
 *
 * Lock: lanes.lock, a leaf. Keys are compared in constant time and wiped when used.
 */
#include "cpu/server/lanes.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/rpc/lane.h"

enum { LANE_CHUNK = FLYT_MAX_INLINE, LANE_WINDOW = 16, LANE_WRITING = 16, LANE_DISCARDED = 256, LANE_GREETING_MS = 5000, LANE_FAREWELL_MS = 500 };

enum lane_state { LANE_CLOSED, LANE_ASKED, LANE_OPEN };

struct job { struct job *next; uint32_t transfer; struct slot *slot; uint64_t size; };

struct lane {
    enum lane_state state;
    uint8_t key[FLYT_LANE_KEY_SIZE];
    rpc_channel *channel;                 /* the visitor's */
    pthread_t writer;
    bool writing;                         /* the thread runs */
    bool closing;
    pthread_cond_t wake;
    struct job *first, **last;
};

/* A connection that is or wants to be a lane; its thread. */
struct visitor {
    struct visitor *next;
    struct session *session;
    pthread_t thread;
    int fd;                               /* -1: the channel has it */
    void *context;                        /* for lanes.open */
    rpc_channel *channel;
    bool ended;                           /* may be joined */
};

struct arrival {
    struct slot slot;
    uint32_t transfer;                    /* 0: free, or claimed */
    uint64_t received;
    unsigned receiving;                   /* readers that write into it, and where */
    struct rpc_lane_record records[FLYT_MAX_LANES];
};

struct lanes {
    struct session *session;
    lanes_open_function *open;
    pthread_mutex_t lock;
    pthread_cond_t changed;               /* a slot has come back, a job is done, or the end */
    bool stop;
    struct lane lanes[FLYT_MAX_LANES];
    struct visitor *visitors;
    unsigned greeting;
    uint8_t *memory;
    struct device *registered;            /* under session.lock */
    struct arrival arrivals[LANE_WINDOW];
    struct slot *unused;
    unsigned unused_count;
    struct { uint32_t transfer; uint64_t left; } discarded[LANE_DISCARDED];
    unsigned discarded_count;
    _Atomic unsigned jobs;                /* written by lock holders only */
};

struct lanes *lanes_create(struct session *session, lanes_open_function *open)
{
    struct lanes *lanes = calloc(1, sizeof *lanes);
    if (!lanes)
        return NULL;
    void *memory = mmap(NULL, (size_t)LANE_WINDOW * LANE_CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        free(lanes);
        return NULL;
    }
    lanes->session = session;
    lanes->open = open;
    lanes->memory = memory;
    pthread_mutex_init(&lanes->lock, NULL);
    pthread_cond_init(&lanes->changed, NULL);
    for (unsigned i = 0; i < LANE_WINDOW; i++) {
        lanes->arrivals[i].slot = (struct slot){ .memory = lanes->memory + (size_t)i * LANE_CHUNK, .size = LANE_CHUNK, .lane = true,
                                                 .next = lanes->unused };
        lanes->unused = &lanes->arrivals[i].slot;
        lanes->unused_count++;
    }
    for (unsigned i = 0; i < FLYT_MAX_LANES; i++) {
        lanes->lanes[i].last = &lanes->lanes[i].first;
        pthread_cond_init(&lanes->lanes[i].wake, NULL);
    }
    return lanes;
}

void lanes_destroy(struct session *session)
{
    struct lanes *lanes = session->lanes;
    if (!lanes)
        return;
    session->lanes = NULL;
    munmap(lanes->memory, (size_t)LANE_WINDOW * LANE_CHUNK);
    for (unsigned i = 0; i < FLYT_MAX_LANES; i++)
        pthread_cond_destroy(&lanes->lanes[i].wake);
    pthread_cond_destroy(&lanes->changed);
    pthread_mutex_destroy(&lanes->lock);
    free(lanes);
}

/* ---- the memory ---- */

/* What fails here makes copies slower (the driver copies from pageable memory, and may wait for the stream), not wrong. */
void lanes_device_init(struct session *session, struct device *device)
{
    struct lanes *lanes = session->lanes;
    if (lanes && !lanes->registered && session->gpu->MemHostRegister && device_use(session, device) == CUDA_SUCCESS &&
        session->gpu->MemHostRegister(lanes->memory, (size_t)LANE_WINDOW * LANE_CHUNK, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS)
        lanes->registered = device;
}

static bool lanes_job_on(struct lanes *lanes, const struct device *device)
{
    for (unsigned i = 0; i < FLYT_MAX_LANES; i++)
        for (const struct job *job = lanes->lanes[i].first; job; job = job->next)
            if (job->slot->device == device)
                return true;
    return false;
}

void lanes_device_gone(struct session *session, struct device *device)
{
    struct lanes *lanes = session->lanes;
    if (!lanes)
        return;
    /* Its slots go; those that are being written have to be empty first. */
    pthread_mutex_lock(&lanes->lock);
    while (lanes_job_on(lanes, device))
        pthread_cond_wait(&lanes->changed, &lanes->lock);
    pthread_mutex_unlock(&lanes->lock);
    if (lanes->registered != device)
        return;
    session->gpu->MemHostUnregister(lanes->memory);
    lanes->registered = NULL;
    for (int i = 0; i < session->device_count; i++)
        if (&session->devices[i] != device && session->devices[i].context)
            lanes_device_init(session, &session->devices[i]);
    device_use(session, device);
}

/* ---- to the device ---- */

uint64_t lanes_chunk(void) { return LANE_CHUNK; }

static struct arrival *arrival_of(struct slot *slot)
{
    return (struct arrival *)slot;                        /* its first member */
}

/* lanes.lock is held for these. */
static struct arrival *arrival_find(struct lanes *lanes, uint32_t transfer)
{
    for (unsigned i = 0; i < LANE_WINDOW; i++)
        if (lanes->arrivals[i].transfer == transfer)
            return &lanes->arrivals[i];
    return NULL;
}

static void arrival_free(struct lanes *lanes, struct arrival *arrival)
{
    arrival->transfer = 0;
    arrival->received = 0;
    arrival->slot.next = lanes->unused;
    lanes->unused = &arrival->slot;
    lanes->unused_count++;
    pthread_cond_broadcast(&lanes->changed);
}

/* So many bytes of a transfer that nobody wants have come. */
static bool discarded_take(struct lanes *lanes, uint32_t transfer, uint64_t length)
{
    for (unsigned i = 0; i < lanes->discarded_count; i++) {
        if (lanes->discarded[i].transfer != transfer)
            continue;
        uint64_t *left = &lanes->discarded[i].left;
        *left -= *left < length ? *left : length;
        if (!*left)
            lanes->discarded[i] = lanes->discarded[--lanes->discarded_count];
        return true;
    }
    return false;
}

struct slot *lanes_claim(struct session *session, uint32_t transfer, uint64_t size, bool *scarce)
{
    struct lanes *lanes = session->lanes;
    pthread_mutex_lock(&lanes->lock);
    struct arrival *arrival = arrival_find(lanes, transfer);
    if (arrival && (arrival->received < size || arrival->receiving))
        arrival = NULL;
    if (arrival)
        arrival->transfer = 0;
    *scarce = lanes->unused_count <= LANE_WINDOW / 2;
    pthread_mutex_unlock(&lanes->lock);
    return arrival ? &arrival->slot : NULL;
}

void lanes_give(struct session *session, struct slot *slot)
{
    struct lanes *lanes = session->lanes;
    pthread_mutex_lock(&lanes->lock);
    arrival_free(lanes, arrival_of(slot));
    pthread_mutex_unlock(&lanes->lock);
}

void lanes_discard(struct session *session, uint32_t transfer, uint64_t size)
{
    struct lanes *lanes = session->lanes;
    if (!lanes)
        return;
    pthread_mutex_lock(&lanes->lock);
    struct arrival *arrival = arrival_find(lanes, transfer);
    uint64_t come = arrival ? arrival->received : 0;
    bool full = come < size && lanes->discarded_count == LANE_DISCARDED;
    if (come < size && !full) {
        lanes->discarded[lanes->discarded_count].transfer = transfer;
        lanes->discarded[lanes->discarded_count++].left = size - come;
    }
    if (arrival && !arrival->receiving)
        arrival_free(lanes, arrival);
    pthread_mutex_unlock(&lanes->lock);
    if (full)
        session_end(session, "too many of its copies could not be made");
}

/* Another lane is bringing some of the same bytes at the moment. lanes.lock is held. */
static bool arrival_overlaps(const struct arrival *arrival, const struct rpc_lane_record *record)
{
    for (unsigned i = 0; i < arrival->receiving; i++)
        if (arrival->records[i].offset < record->offset + record->length && record->offset < arrival->records[i].offset + arrival->records[i].length)
            return true;
    return false;
}

/* Where the record's bytes go. NULL: the end, or *why. */
static struct arrival *reader_place(struct lanes *lanes, const struct rpc_lane_record *record, const char **why)
{
    struct arrival *arrival = NULL;
    uint32_t transfer = record->transfer;
    pthread_mutex_lock(&lanes->lock);
    while (!lanes->stop && !(arrival = arrival_find(lanes, transfer)) && !lanes->unused)
        pthread_cond_wait(&lanes->changed, &lanes->lock);
    if (!lanes->stop && !arrival) {
        arrival = arrival_of(lanes->unused);
        lanes->unused = arrival->slot.next;
        lanes->unused_count--;
        arrival->slot.next = NULL;
        arrival->transfer = transfer;
    }
    if (lanes->stop)
        arrival = NULL;
    if (arrival && arrival_overlaps(arrival, record)) {
        *why = "it sends the same bytes over two lanes";
        arrival = NULL;
    }
    if (arrival)
        arrival->records[arrival->receiving++] = *record;
    pthread_mutex_unlock(&lanes->lock);
    return arrival;
}

static void reader_placed(struct lanes *lanes, struct arrival *arrival, const struct rpc_lane_record *record)
{
    pthread_mutex_lock(&lanes->lock);
    unsigned mine = 0;
    while (arrival->records[mine].lane != record->lane)
        mine++;
    arrival->records[mine] = arrival->records[--arrival->receiving];
    arrival->received += record->length;
    if (discarded_take(lanes, record->transfer, record->length) && !arrival->receiving)
        arrival_free(lanes, arrival);
    pthread_mutex_unlock(&lanes->lock);
    if (atomic_load(&lanes->session->executor.deferred_calls))
        executor_kick(lanes->session);
}

/* One record. 0, or -errno; -ENODATA: the lane was closed between two. */
static int reader_record(struct lanes *lanes, uint32_t number, rpc_channel *channel, const char **why)
{
    uint8_t head[RPC_LANE_HEAD];
    struct rpc_lane_record record;
    int status = rpc_lane_receive(channel, head, sizeof head, 0);
    if (status < 0)
        return status;
    rpc_lane_get(head, &record);
    if (record.lane != number || !record.transfer || record.length > LANE_CHUNK || record.offset > LANE_CHUNK - record.length) {
        *why = "what it says on a lane is no record";
        return -EPROTO;
    }
    if (!record.length)
        return 0;
    struct arrival *arrival = reader_place(lanes, &record, why);
    if (!arrival)
        return *why ? -EPROTO : -ECANCELED;
    status = rpc_lane_receive(channel, arrival->slot.memory + record.offset, record.length, 0);
    if (status < 0)
        return status == -ENODATA ? -ECONNRESET : status;
    reader_placed(lanes, arrival, &record);
    return 0;
}

/* A lane ended as it should not. The client is told why, and given a moment to hear it and to end the session itself. */
static void lane_broke(struct lanes *lanes, uint32_t number, const char *why)
{
    struct timespec until = clock_timespec(clock_now() + LANE_FAREWELL_MS * CLOCK_NS_PER_MS);
    char text[160];
    snprintf(text, sizeof text, "lane %u, one of its connections for large copies, broke: %s", number, why);
    events_lost(lanes->session, text);
    pthread_mutex_lock(&lanes->lock);
    while (!lanes->stop && pthread_cond_clockwait(&lanes->changed, &lanes->lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&lanes->lock);
    session_end(lanes->session, text);
}

/* ---- from the device ---- */

bool lanes_known(struct session *session, uint32_t lane)
{
    struct lanes *lanes = session->lanes;
    if (!lanes || lane < 1 || lane > FLYT_MAX_LANES)
        return false;
    pthread_mutex_lock(&lanes->lock);
    bool open = lanes->lanes[lane - 1].state == LANE_OPEN;
    pthread_mutex_unlock(&lanes->lock);
    return open;
}

bool lanes_congested(struct session *session)
{
    return session->lanes && atomic_load(&session->lanes->jobs) >= LANE_WRITING;
}

struct writer { struct lanes *lanes; uint32_t number; };

/* The job stays the list's first while it is written: lanes_device_gone looks there. */
static void *writer_main(void *context)
{
    struct writer *writer = context;
    struct lanes *lanes = writer->lanes;
    struct lane *lane = &lanes->lanes[writer->number - 1];
    uint32_t number = writer->number;
    bool broken = false;
    free(writer);
    pthread_mutex_lock(&lanes->lock);
    for (;;) {
        struct job *job;
        while (!(job = lane->first) && !lane->closing)
            pthread_cond_wait(&lane->wake, &lanes->lock);
        if (!job)
            break;
        rpc_channel *channel = lane->channel;
        pthread_mutex_unlock(&lanes->lock);
        uint8_t head[RPC_LANE_HEAD];
        rpc_lane_put(head, &(struct rpc_lane_record){ .transfer = job->transfer, .lane = number, .length = job->size });
        struct iovec vector[2] = { { head, sizeof head }, { job->slot->memory, job->size } };
        int status = broken ? 0 : rpc_lane_send(channel, vector, 2, 0);
        if (status < 0) {
            broken = true;
            lane_broke(lanes, number, strerror(-status));
        }
        staging_give(lanes->session, job->slot);
        pthread_mutex_lock(&lanes->lock);
        lane->first = job->next;
        if (!lane->first)
            lane->last = &lane->first;
        atomic_fetch_sub(&lanes->jobs, 1);
        pthread_cond_broadcast(&lanes->changed);
        free(job);
        bool kick = atomic_load(&lanes->session->executor.deferred_calls);
        if (kick) {
            pthread_mutex_unlock(&lanes->lock);
            executor_kick(lanes->session);
            pthread_mutex_lock(&lanes->lock);
        }
    }
    pthread_mutex_unlock(&lanes->lock);
    return NULL;
}

/* lanes.lock is held. */
static bool writer_start(struct lanes *lanes, uint32_t number)
{
    struct lane *lane = &lanes->lanes[number - 1];
    if (lane->writing)
        return true;
    struct writer *writer = malloc(sizeof *writer);
    if (!writer)
        return false;
    *writer = (struct writer){ lanes, number };
    lane->closing = false;
    lane->writing = pthread_create(&lane->writer, NULL, writer_main, writer) == 0;
    if (!lane->writing)
        free(writer);
    return lane->writing;
}

bool lanes_write(struct session *session, uint32_t number, uint32_t transfer, struct slot *slot, uint64_t size)
{
    struct lanes *lanes = session->lanes;
    struct lane *lane = &lanes->lanes[number - 1];
    struct job *job = malloc(sizeof *job);
    if (!job)
        return false;
    *job = (struct job){ .transfer = transfer, .slot = slot, .size = size };
    pthread_mutex_lock(&lanes->lock);
    bool open = !lanes->stop && lane->state == LANE_OPEN && writer_start(lanes, number);
    if (open) {
        *lane->last = job;
        lane->last = &job->next;
        atomic_fetch_add(&lanes->jobs, 1);
        pthread_cond_signal(&lane->wake);
    }
    pthread_mutex_unlock(&lanes->lock);
    if (!open)
        free(job);
    return open;
}

/* ---- lanes come and go ---- */

void serve_lane(struct session *session, struct call *call)
{
    struct lanes *lanes = session->lanes;
    uint32_t number = call->args.lane.lane;
    lane_result result;
    memset(&result, 0, sizeof result);
    CUresult r = lanes ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS && (number < 1 || number > FLYT_MAX_LANES))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && getrandom(result.key, sizeof result.key, 0) != sizeof result.key)
        r = CUDA_ERROR_OPERATING_SYSTEM;
    if (r == CUDA_SUCCESS) {
        struct lane *lane = &lanes->lanes[number - 1];
        pthread_mutex_lock(&lanes->lock);
        if (lane->state == LANE_OPEN || lane->writing) {
            r = CUDA_ERROR_INVALID_VALUE;
        } else {
            lane->state = LANE_ASKED;
            memcpy(lane->key, result.key, sizeof lane->key);
        }
        pthread_mutex_unlock(&lanes->lock);
        result.chunk = LANE_CHUNK;
        result.window = LANE_WINDOW;
    }
    session_reply(session, call->xid, (xdrproc_t)xdr_lane_result, &result, r, false);
    explicit_bzero(result.key, sizeof result.key);
}

static bool keys_equal(const uint8_t *a, const uint8_t *b)
{
    unsigned difference = 0;
    for (unsigned i = 0; i < FLYT_LANE_KEY_SIZE; i++)
        difference |= (unsigned)(a[i] ^ b[i]);
    return difference == 0;
}

/* The hello and the key. The lane's number, or 0: it is not one of ours; *why. */
static uint32_t visitor_greet(struct lanes *lanes, struct visitor *visitor, const char **why)
{
    uint8_t hello[RPC_LANE_HEAD], key[FLYT_LANE_KEY_SIZE];
    uint64_t deadline = clock_now() + (uint64_t)LANE_GREETING_MS * CLOCK_NS_PER_MS, session;
    uint32_t number;
    char error[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
    *why = "what it said first is not what a lane says";
    /* All of it has come: the listener has seen it. */
    if (recv(visitor->fd, hello, sizeof hello, MSG_DONTWAIT) != sizeof hello || !rpc_lane_get_hello(hello, &session, &number) ||
        session != lanes->session->id || number < 1 || number > FLYT_MAX_LANES) {
        lanes->open(-1, visitor->context, NULL, NULL);
        return 0;
    }
    *why = "the connection could not be used";
    if (lanes->open(visitor->fd, visitor->context, &channel, error) != 0)
        return 0;
    pthread_mutex_lock(&lanes->lock);
    visitor->fd = -1;
    visitor->channel = channel;
    bool stop = lanes->stop;
    pthread_mutex_unlock(&lanes->lock);
    *why = "it is not of the same kind as the session's own connection";
    if (strcmp(rpc_channel_transport(channel), rpc_server_transport(lanes->session->server)) != 0 || !channel->operations->receive_into)
        return 0;
    *why = "it sent no key in time";
    if (stop || rpc_lane_receive(channel, key, sizeof key, deadline) != 0)
        return 0;
    struct lane *lane = &lanes->lanes[number - 1];
    *why = "its key is not the one that was given to the client";
    pthread_mutex_lock(&lanes->lock);
    bool good = keys_equal(key, lane->key) && lane->state == LANE_ASKED && !lanes->stop;
    if (good) {
        explicit_bzero(lane->key, sizeof lane->key);
        lane->state = LANE_OPEN;
        lane->channel = channel;
    }
    pthread_mutex_unlock(&lanes->lock);
    explicit_bzero(key, sizeof key);
    return good ? number : 0;
}

/* The lane has ended; whoever asks for it may have it again. */
static void lane_close(struct lanes *lanes, uint32_t number)
{
    struct lane *lane = &lanes->lanes[number - 1];
    pthread_mutex_lock(&lanes->lock);
    bool writing = lane->writing;         /* while it is, nobody can ask for the lane again */
    lane->state = LANE_CLOSED;
    lane->closing = true;
    if (!writing)
        lane->channel = NULL;
    pthread_cond_signal(&lane->wake);
    pthread_mutex_unlock(&lanes->lock);
    if (!writing)
        return;
    pthread_join(lane->writer, NULL);
    pthread_mutex_lock(&lanes->lock);
    lane->writing = false;
    lane->channel = NULL;
    pthread_mutex_unlock(&lanes->lock);
}

/* Of one that is open now. */
static void visitor_read(struct lanes *lanes, uint32_t number, rpc_channel *channel)
{
    const char *why = NULL;
    struct iovec welcome = { (char *)(uintptr_t)rpc_lane_magic, RPC_LANE_MAGIC };
    int status = rpc_lane_send(channel, &welcome, 1, 0);
    log_debug("lane %u of session %llu is open", number, (unsigned long long)lanes->session->id);
    while (status == 0)
        status = reader_record(lanes, number, channel, &why);
    pthread_mutex_lock(&lanes->lock);
    bool pending = lanes->lanes[number - 1].first != NULL;
    pthread_mutex_unlock(&lanes->lock);
    if ((status != -ENODATA || pending) && status != -ECANCELED)
        lane_broke(lanes, number, why ? why : status == -ENODATA ? "it was closed with bytes under way" : strerror(-status));
}

static void *visitor_main(void *context)
{
    struct visitor *visitor = context;
    struct lanes *lanes = visitor->session->lanes;
    const char *why;
    uint32_t number = visitor_greet(lanes, visitor, &why);
    pthread_mutex_lock(&lanes->lock);
    lanes->greeting--;
    pthread_mutex_unlock(&lanes->lock);
    if (number) {
        visitor_read(lanes, number, visitor->channel);
        rpc_channel_shutdown(visitor->channel);           /* its writer may be in it */
        lane_close(lanes, number);
    } else {
        log_info("a connection that wanted to be a lane of session %llu is closed: %s", (unsigned long long)lanes->session->id, why);
    }
    pthread_mutex_lock(&lanes->lock);
    int fd = visitor->fd;
    rpc_channel *channel = visitor->channel;
    visitor->fd = -1;
    visitor->channel = NULL;
    visitor->ended = true;
    pthread_mutex_unlock(&lanes->lock);
    if (channel)
        rpc_channel_destroy(channel);
    else if (fd >= 0)
        close(fd);
    return NULL;
}

/* Those that have ended, or all; joined. */
static void visitors_join(struct lanes *lanes, bool all)
{
    for (;;) {
        pthread_mutex_lock(&lanes->lock);
        struct visitor **at = &lanes->visitors;
        while (*at && !all && !(*at)->ended)
            at = &(*at)->next;
        struct visitor *visitor = *at;
        if (visitor)
            *at = visitor->next;
        pthread_mutex_unlock(&lanes->lock);
        if (!visitor)
            return;
        pthread_join(visitor->thread, NULL);
        free(visitor);
    }
}

void lanes_accept(struct session *session, int fd, void *context)
{
    struct lanes *lanes = session->lanes;
    struct visitor *visitor = NULL;
    bool wanted = false;
    if (lanes) {
        visitors_join(lanes, false);
        visitor = calloc(1, sizeof *visitor);
        pthread_mutex_lock(&lanes->lock);
        for (unsigned i = 0; i < FLYT_MAX_LANES; i++)
            wanted |= lanes->lanes[i].state == LANE_ASKED;
        wanted = wanted && visitor && !lanes->stop && lanes->greeting < FLYT_MAX_LANES;
        if (wanted) {
            *visitor = (struct visitor){ .session = session, .fd = fd, .context = context, .next = lanes->visitors };
            wanted = pthread_create(&visitor->thread, NULL, visitor_main, visitor) == 0;
        }
        if (wanted) {
            lanes->visitors = visitor;
            lanes->greeting++;
        }
        pthread_mutex_unlock(&lanes->lock);
    }
    if (!wanted) {
        log_info("a connection that says it is a lane of session %llu is closed: none is expected now", (unsigned long long)session->id);
        free(visitor);
        if (lanes)
            lanes->open(-1, context, NULL, NULL);
        close(fd);
    }
}

void lanes_shutdown(struct session *session)
{
    struct lanes *lanes = session->lanes;
    if (!lanes)
        return;
    pthread_mutex_lock(&lanes->lock);
    lanes->stop = true;
    for (struct visitor *visitor = lanes->visitors; visitor; visitor = visitor->next) {
        if (visitor->channel)
            rpc_channel_shutdown(visitor->channel);
        else if (visitor->fd >= 0)
            shutdown(visitor->fd, SHUT_RDWR);
    }
    pthread_cond_broadcast(&lanes->changed);
    pthread_mutex_unlock(&lanes->lock);
}

void lanes_stop(struct session *session)
{
    lanes_shutdown(session);
    if (session->lanes)
        visitors_join(session->lanes, true);
}
