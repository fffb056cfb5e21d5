/*
 * lanes.c: the session's lanes (cpu_rpc_prot.x says what travels on them).
 *
 * A connection that says it is a lane of this session gets a thread. The thread reads the hello and the key; if that is
 * the one that was sent to the client for this lane, and not used yet, the connection becomes the lane, and the thread
 * its reader. Until then it has LANE_GREETING_MS; there are at most FLYT_MAX_LANES such connections, and only while a
 * key is out. One more takes the place of the one that has greeted for the longest time: a client shows its key at
 * once, so strangers who only know the session's number cannot keep its lanes from it.
 *
 * What comes on a lane is read by its reader (lanes_in.c), what goes out is written by a thread of its own
 * (lanes_out.c). The slots for what comes are plain memory registered with the driver, not memory of a context, so that
 * a reader can write into one while the device is being reset.
 *
 * Lock: lanes.lock, a leaf. Keys are compared in constant time and wiped when used.
 */
#include "cpu/server/lanes/lane_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/server/call/notify.h"

struct lanes *lanes_create(struct session *session, const struct lanes_ways *ways)
{
    struct lanes *lanes = calloc(1, sizeof *lanes);
    if (!lanes)
        return NULL;
    void *memory = mmap(NULL, (size_t)LANE_WINDOW * LANE_CHUNK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        free(lanes);
        return NULL;
    }
    lanes->session = session;
    lanes->ways = ways;
    lanes->memory = memory;
    pthread_mutex_init(&lanes->lock, NULL);
    pthread_mutex_init(&lanes->departing, NULL);
    pthread_cond_init(&lanes->changed, NULL);
    arrivals_init(lanes);
    for (unsigned i = 0; i < LANES_ALL; i++) {
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
    for (unsigned i = 0; i < LANES_ALL; i++)
        pthread_cond_destroy(&lanes->lanes[i].wake);
    pthread_cond_destroy(&lanes->changed);
    pthread_mutex_destroy(&lanes->departing);
    pthread_mutex_destroy(&lanes->lock);
    free(lanes);
}

/* ---- the memory ---- */

/* What fails here makes copies slower (the driver copies from pageable memory, and may wait for the stream), not
 * wrong. */
void lanes_context_here(struct session *session, struct context *context)
{
    struct lanes *lanes = session->lanes;
    if (lanes && !lanes->registered && session->gpu->MemHostRegister && context_use(session, context) == CUDA_SUCCESS &&
        session->gpu->MemHostRegister(lanes->memory, (size_t)LANE_WINDOW * LANE_CHUNK, CU_MEMHOSTREGISTER_PORTABLE) ==
            CUDA_SUCCESS)
        lanes->registered = context;
}

void lanes_context_gone(struct session *session, struct context *context)
{
    struct lanes *lanes = session->lanes;
    if (!lanes)
        return;
    /* Its slots go; those that are being written have to be empty first. */
    lanes_wait_written(lanes, context);
    if (lanes->registered != context)
        return;
    session->gpu->MemHostUnregister(lanes->memory);
    lanes->registered = NULL;
    struct context *other = context_other(session, context);
    if (other)
        lanes_context_here(session, other);
    context_use(session, context);
}

/* ---- lanes come and go ---- */

void lane_broke(struct lanes *lanes, uint32_t number, const char *why)
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

void serve_lane(struct session *session, struct call *call)
{
    struct lanes *lanes = session->lanes;
    uint32_t number = call->args.lane.lane;
    lane_result result;
    memset(&result, 0, sizeof result);
    CUresult r = lanes ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS && (number < 1 || number > LANES_ALL))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && getrandom(result.key, sizeof result.key, 0) != sizeof result.key)
        r = CUDA_ERROR_OPERATING_SYSTEM;
    if (r == CUDA_SUCCESS) {
        struct lane *lane = &lanes->lanes[number - 1];
        pthread_mutex_lock(&lanes->lock);
        if (lane->state == LANE_OPEN || lane->writing || lane->departs) {
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
    *why = "its first message is not that of a lane";
    /* All of it has come: the listener has seen it. */
    if (recv(visitor->fd, hello, sizeof hello, MSG_DONTWAIT) != sizeof hello ||
        !rpc_lane_get_hello(hello, &session, &number) || session != lanes->session->id || number < 1 ||
        number > LANES_ALL) {
        lanes->ways->open(-1, visitor->context, NULL, NULL);
        return 0;
    }
    *why = "the connection could not be used";
    if (lanes->ways->open(visitor->fd, visitor->context, &channel, error) != 0)
        return 0;
    pthread_mutex_lock(&lanes->lock);
    visitor->fd = -1;
    visitor->channel = channel;
    bool stop = lanes->stop;
    pthread_mutex_unlock(&lanes->lock);
    /* The other server may be farther away than the client. */
    *why = "it is not of the same kind as the session's own connection";
    if ((!lane_is_direct(number) &&
         strcmp(rpc_channel_transport(channel), rpc_server_transport(lanes->session->server)) != 0) ||
        !channel->operations->receive_into)
        return 0;
    *why = "it sent no key in time";
    if (stop || rpc_lane_receive(channel, key, sizeof key, deadline) != 0)
        return 0;
    struct lane *lane = &lanes->lanes[number - 1];
    *why = "its key is not the one that was given to the client";
    pthread_mutex_lock(&lanes->lock);
    bool good = keys_equal(key, lane->key) && lane->state == LANE_ASKED && !lanes->stop && !visitor->sent_away;
    if (good) {
        visitor->greets = false;
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
    pthread_cond_broadcast(&lanes->changed);
    pthread_mutex_unlock(&lanes->lock);
    if (!writing)
        return;
    pthread_join(lane->writer, NULL);
    pthread_mutex_lock(&lanes->lock);
    lane->writing = false;
    lane->channel = NULL;
    pthread_cond_broadcast(&lanes->changed);
    pthread_mutex_unlock(&lanes->lock);
}

/* Of one that is open now. */
static void visitor_read(struct lanes *lanes, uint32_t number, rpc_channel *channel)
{
    const char *why = NULL;
    struct iovec welcome = { (char *)(uintptr_t)rpc_lane_magic, RPC_LANE_MAGIC };
    int status = rpc_lane_send(channel, &welcome, 1, 0);
    log_debug("event=lane-open session=%llu lane=%u", (unsigned long long)lanes->session->id, number);
    while (status == 0)
        status = lanes_read(lanes, number, channel, &why);
    /* A client that has all that it was sent may close the lane before the writer has put away its last job. */
    struct timespec until = clock_timespec(clock_now() + LANE_FAREWELL_MS * CLOCK_NS_PER_MS);
    pthread_mutex_lock(&lanes->lock);
    bool pending;
    while ((pending = lanes->lanes[number - 1].first != NULL) && status == -ENODATA && !lanes->stop)
        if (pthread_cond_clockwait(&lanes->changed, &lanes->lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT)
            break;
    pthread_mutex_unlock(&lanes->lock);
    /* Of a direct lane its last record is the proper end. */
    if ((status != -ENODATA || pending || lane_is_direct(number)) && status != -ECANCELED)
        lane_broke(lanes, number,
                   why                  ? why
                   : status == -ENODATA ? "it was closed with bytes under way"
                                        : strerror(-status));
}

static void *visitor_main(void *context)
{
    struct visitor *visitor = context;
    struct lanes *lanes = visitor->session->lanes;
    const char *why;
    uint32_t number = visitor_greet(lanes, visitor, &why);
    pthread_mutex_lock(&lanes->lock);
    visitor->greets = false;
    if (visitor->sent_away)
        lanes->sent_away--;
    else
        lanes->greeting--;
    pthread_mutex_unlock(&lanes->lock);
    if (number) {
        visitor_read(lanes, number, visitor->channel);
        rpc_channel_shutdown(visitor->channel);           /* its writer may be in it */
        lane_close(lanes, number);
    } else {
        log_info("event=lane-refused session=%llu why=\"%s\"", (unsigned long long)lanes->session->id, why);
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

/* Its thread then ends by itself. */
static void visitor_shutdown(struct visitor *visitor)
{
    if (visitor->channel)
        rpc_channel_shutdown(visitor->channel);
    else if (visitor->fd >= 0)
        shutdown(visitor->fd, SHUT_RDWR);
}

/* A place for one more visitor that greets. False: there is none, and as many as there may be are leaving. */
static bool visitors_make_room(struct lanes *lanes)
{
    struct visitor *oldest = NULL;
    if (lanes->greeting < FLYT_MAX_LANES)
        return true;
    if (lanes->sent_away >= LANE_LEAVING)
        return false;
    for (struct visitor *visitor = lanes->visitors; visitor; visitor = visitor->next)
        if (visitor->greets && !visitor->sent_away)
            oldest = visitor; /* the list begins with the latest */
    if (!oldest)
        return false;
    oldest->sent_away = true;
    lanes->greeting--;
    lanes->sent_away++;
    visitor_shutdown(oldest);
    return true;
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
        for (unsigned i = 0; i < LANES_ALL; i++)
            wanted |= lanes->lanes[i].state == LANE_ASKED;
        wanted = wanted && visitor && !lanes->stop && visitors_make_room(lanes);
        if (wanted) {
            *visitor = (struct visitor){
                .session = session, .fd = fd, .context = context, .next = lanes->visitors, .greets = true
            };
            wanted = pthread_create(&visitor->thread, NULL, visitor_main, visitor) == 0;
        }
        if (wanted) {
            lanes->visitors = visitor;
            lanes->greeting++;
        }
        pthread_mutex_unlock(&lanes->lock);
    }
    if (!wanted) {
        log_info("event=lane-refused session=%llu why=\"none is expected now\"", (unsigned long long)session->id);
        free(visitor);
        if (lanes)
            lanes->ways->open(-1, context, NULL, NULL);
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
    for (struct visitor *visitor = lanes->visitors; visitor; visitor = visitor->next)
        visitor_shutdown(visitor);
    direct_shutdown(lanes);
    pthread_cond_broadcast(&lanes->changed);
    pthread_mutex_unlock(&lanes->lock);
}

void lanes_stop(struct session *session)
{
    lanes_shutdown(session);
    if (!session->lanes)
        return;
    visitors_join(session->lanes, true);
    direct_stop(session->lanes);
}
