/*
 * engine.c: the threads of the cards. Each has an epoll over the channels of its card, edge-triggered: a channel that
 * may have more to read is in the thread's list `ready`, and one that somebody else wants looked at in `kicked`. Each
 * turn serves all of both, a bounded number of bytes each. The first thread also looks at the clock: beats, silence.
 * With UCX a turn begins with the progress of the card's worker, and the worker says which channels are to be served.
 */
#include "cpu/comm/link/link_state.h"

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/fd.h"
#include "cpu/rpc/transport/liveness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A data channel that has ended so long ago, without a word on channel 0, fails the link. */
#define ENDED_NS (200 * CLOCK_NS_PER_MS)
enum { EVENTS = 64, TURN_BYTES = 2 * 1024 * 1024, IDLE_MS = 10000 };

static void wake(struct comm_thread *thread)
{
    FLYT_ASSERT_HELD(&thread->lock);
    if (thread->woken)
        return;
    thread->woken = true;
    if (!pthread_equal(pthread_self(), thread->thread)) {
        ssize_t ignored = write(thread->wake, &(uint64_t){ 1 }, sizeof(uint64_t));
        (void)ignored;
    }
}

void comm_engine_kick(struct comm_channel *c)
{
    struct comm_thread *thread = c->thread;
    pthread_mutex_lock(&thread->lock);
    if (c->attached && !list_linked(&c->kicked)) {
        list_append(&thread->kicked, &c->kicked);
        wake(thread);
    }
    pthread_mutex_unlock(&thread->lock);
}

int comm_engine_attach(struct comm_channel *c)
{
    struct comm_thread *thread = c->thread;
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c };
    pthread_mutex_lock(&thread->lock);
    c->attached = true;
    int status = epoll_ctl(thread->epoll, EPOLL_CTL_ADD, c->fd, &event) != 0 ? -errno : 0;
    c->attached = status == 0;
    pthread_mutex_unlock(&thread->lock);
    return status;
}

/* The thread is between two turns at least once after the channel has left its epoll: it knows nothing of it then. */
void comm_engine_detach(struct comm_channel *c)
{
    struct comm_thread *thread = c->thread;
    if (c->is_ucx)
        comm_ucx_own(c->wire, NULL);
    pthread_mutex_lock(&thread->lock);
    if (c->attached)
        epoll_ctl(thread->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    c->attached = false;
    list_remove(&c->kicked);
    for (unsigned turns = thread->turns; thread->turns - turns < 2 && !thread->stop;) {
        wake(thread);
        pthread_cond_wait(&thread->changed, &thread->lock);
    }
    pthread_mutex_unlock(&thread->lock);
}

/* ---- the clock ---- */

static void look_at_channel(struct comm_link *link, struct comm_channel *c)
{
    if (rpc_channel_peer(c->wire) == -ETIMEDOUT)
        comm_link_fail(link, -ETIMEDOUT, "the peer's machine has not answered for FLYT_SILENCE seconds");
}

static bool has_ended(const struct comm_link *link, uint64_t now)
{
    return link->ended && link->status == 0 && now > link->ended_at + ENDED_NS;
}

static void look_at(struct comm_link *link, uint64_t now, bool was_stopped)
{
    uint64_t silence = (uint64_t)rpc_silence_seconds() * CLOCK_NS_PER_SECOND;
    bool beat = false;
    pthread_mutex_lock(&link->lock);
    if (has_ended(link, now)) {
        /* This thread may have been away for that long: what the peer has said meanwhile on channel 0, which is this
           thread's, comes first. */
        pthread_mutex_unlock(&link->lock);
        comm_in_take(&link->channels[0]);
        pthread_mutex_lock(&link->lock);
    }
    if (was_stopped)
        link->last_heard = now;                 /* what the peer said meanwhile has not been read yet */
    if (link->stage == LINK_JOINED && link->status == 0) {
        if (now > link->last_heard && now - link->last_heard > silence)
            comm_link_fail(link, -ETIMEDOUT, "the peer has said nothing for FLYT_SILENCE seconds");
        if (has_ended(link, now))
            comm_link_fail(link, link->ended, "a connection to the peer has ended");
        for (unsigned i = 0; i < link->count && link->status == 0; i++)
            look_at_channel(link, &link->channels[i]);
        beat = link->status == 0 && now - link->last_said > rpc_beat_interval();
        if (beat)
            comm_out_control(link, &(struct comm_record){ .kind = RECORD_BEAT }, NULL);
    }
    pthread_mutex_unlock(&link->lock);
    if (beat)
        comm_out_push(&link->channels[0], SIZE_MAX);
}

static uint64_t look_interval(void)
{
    uint64_t look = rpc_silence_look(rpc_silence_seconds()), beat = rpc_beat_interval();
    return look < beat ? look : beat;
}

static void tick(struct comm_engine *engine)
{
    uint64_t now = clock_now(), interval = look_interval();
    if (now - engine->ticked < interval)
        return;
    bool was_stopped = now - engine->ticked > 4 * interval;
    engine->ticked = now;
    pthread_mutex_lock(&engine->lock);
    for (struct list *one = list_first(&engine->links); one; one = list_next(&engine->links, one))
        look_at(LIST_OBJECT(one, struct comm_link, of_engine), now, was_stopped);
    pthread_mutex_unlock(&engine->lock);
}

/* ---- the threads ---- */

static void note_readable(struct comm_thread *thread, struct comm_channel *c)
{
    if (c->in_ready)
        return;
    c->in_ready = true;
    list_append(&thread->ready, &c->ready);
}

static void note_event(struct comm_thread *thread, const struct epoll_event *event)
{
    struct comm_channel *c = event->data.ptr;
    /* TLS may hold bytes that came with the greeting, and a ring reports new bytes only to a thread that has found it
       empty. So the first event, which says that there is room, must lead to reading, too. */
    bool in = (event->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) || !c->is_socket;
    if (in)
        note_readable(thread, c);
    if ((event->events & EPOLLOUT) || (in && c->is_shared))
        comm_engine_kick(c);
}

/* Progress of the card's UCX, and which channels it has something for. */
static void serve_ucx(struct comm_thread *thread)
{
    struct comm_channel *c;
    bool in, out;
    comm_ucx_progress(thread->ucx);
    while ((c = comm_ucx_next(thread->ucx, &in, &out))) {
        if (in)
            note_readable(thread, c);
        if (out)
            comm_engine_kick(c);
    }
}

static struct comm_channel *next_kicked(struct comm_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    struct list *first = list_first(&thread->kicked);
    if (first)
        list_remove(first);
    pthread_mutex_unlock(&thread->lock);
    return LIST_OBJECT(first, struct comm_channel, kicked);
}

static bool is_attached(struct comm_channel *c)
{
    pthread_mutex_lock(&c->thread->lock);
    bool attached = c->attached;
    pthread_mutex_unlock(&c->thread->lock);
    return attached;
}

/* Each channel that was in the list when the turn began, once. */
static void read_ready(struct comm_thread *thread)
{
    struct list *last = thread->ready.next ? thread->ready.previous : NULL;
    for (struct list *one; last && last != &thread->ready && (one = list_first(&thread->ready));) {
        struct comm_channel *c = LIST_OBJECT(one, struct comm_channel, ready);
        bool at_end = one == last;
        list_remove(one);
        c->in_ready = false;
        if (is_attached(c) && comm_in_take(c))
            note_readable(thread, c);
        comm_link_deliver(c->link);
        if (at_end)
            break;
    }
}

static void serve_kicked(struct comm_thread *thread)
{
    struct comm_channel *c;
    for (unsigned i = 0; i < EVENTS && (c = next_kicked(thread)); i++) {
        comm_out_push(c, TURN_BYTES);
        comm_link_deliver(c->link);
    }
}

/* True: go on. */
static bool begin_turn(struct comm_thread *thread, bool *idle)
{
    pthread_mutex_lock(&thread->lock);
    thread->turns++;
    thread->woken = false;
    *idle = !list_first(&thread->kicked) && !list_first(&thread->ready);
    bool go_on = !thread->stop;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
    return go_on;
}

static void *run(void *context)
{
    struct comm_thread *thread = context;
    struct comm_engine *engine = thread->engine;
    bool first = thread == engine->threads, idle;
    int longest = first ? (int)(look_interval() / CLOCK_NS_PER_MS) : IDLE_MS;
    struct epoll_event events[EVENTS];
    for (;;) {
        if (thread->ucx)
            serve_ucx(thread);
        if (!begin_turn(thread, &idle))
            return NULL;
        idle = idle && (!thread->ucx || comm_ucx_rest(thread->ucx));
        int count = epoll_wait(thread->epoll, events, EVENTS, idle ? longest : 0);
        for (int i = 0; i < count; i++) {
            uint64_t ignored;
            if (events[i].data.ptr == thread)
                continue;                       /* UCX's */
            if (events[i].data.ptr)
                note_event(thread, &events[i]);
            else if (read(thread->wake, &ignored, sizeof ignored) < 0)
                continue;
        }
        read_ready(thread);
        serve_kicked(thread);
        if (first)
            tick(engine);
    }
}

static int start_thread(struct comm_engine *engine, unsigned i)
{
    struct comm_thread *thread = &engine->threads[i];
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
    thread->engine = engine;
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->changed, NULL);
    thread->epoll = fd_keep(epoll_create1(EPOLL_CLOEXEC));
    thread->wake = fd_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (thread->epoll < 0 || thread->wake < 0 ||
        epoll_ctl(thread->epoll, EPOLL_CTL_ADD, thread->wake, &event) != 0)
        return -errno;
    event.data.ptr = thread;
    if (thread->ucx && epoll_ctl(thread->epoll, EPOLL_CTL_ADD, comm_ucx_descriptor(thread->ucx), &event) != 0)
        return -errno;
    thread->stop = false;
    return -pthread_create(&thread->thread, NULL, run, thread);
}

static void stop_thread(struct comm_thread *thread, bool runs)
{
    if (runs) {
        pthread_mutex_lock(&thread->lock);
        thread->stop = true;
        wake(thread);
        pthread_mutex_unlock(&thread->lock);
        pthread_join(thread->thread, NULL);
    }
    if (thread->epoll >= 0)
        close(thread->epoll);
    if (thread->wake >= 0)
        close(thread->wake);
    pthread_cond_destroy(&thread->changed);
    pthread_mutex_destroy(&thread->lock);
}

/* ---- engines ---- */

static int read_channels(const struct comm_settings *settings, unsigned *channels, char *error)
{
    const char *text = env_get("FLYT_CHANNELS");
    *channels = settings->channels ? settings->channels : COMM_CHANNELS_USUAL;
    if (!settings->channels && text && *text) {
        char *end;
        unsigned long value = strtoul(text, &end, 10);
        *channels = *end ? 0 : (unsigned)(value < 1000 ? value : 1000);
    }
    if (*channels < 1 || *channels > COMM_CHANNELS_MOST)
        return rpc_explain(error, -EINVAL, "links: FLYT_CHANNELS is a number from 1 to %d", COMM_CHANNELS_MOST);
    return 0;
}

static int read_transport(struct comm_engine *engine, char *error)
{
    const char *text = engine->settings.transport ? engine->settings.transport : env_get("FLYT_LINK_TRANSPORT");
    bool in_clear = text && strcmp(text, "ucx-in-clear") == 0;
    engine->ucx = in_clear || (text && strcmp(text, "ucx") == 0);
    if (text && *text && strcmp(text, "sockets") != 0 && !engine->ucx)
        return rpc_explain(error, -EINVAL, "links: FLYT_LINK_TRANSPORT is sockets, ucx or ucx-in-clear, not %s", text);
    if (engine->ucx && engine->settings.tls && !in_clear)
        return rpc_explain(error, -EPROTONOSUPPORT,
                           "links: TLS is wanted, and UCX does not encrypt. With FLYT_LINK_TRANSPORT=ucx-in-clear TLS "
                           "protects the keys only, and UCX carries the data in the clear");
    return 0;
}

/* Fills in the cards that the engine uses. A relayed engine gets one that exists in name only. How many, or -errno. */
static int list_cards(struct comm_engine *engine, char *error)
{
    const char *interfaces = engine->settings.interfaces ? engine->settings.interfaces
                                                         : env_get("FLYT_COMM_INTERFACES");
    if (!engine->settings.relayed)
        return comm_nic_list(interfaces, engine->nics, error);
    engine->nics[0] = (struct comm_nic){ .name = "relay", .address.family = 2, .numa = -1 };
    memcpy(engine->nics[0].address.bytes, engine->settings.relay, sizeof engine->settings.relay);
    return 1;
}

static int prepare(struct comm_engine *engine, char *error)
{
    int status = read_channels(&engine->settings, &engine->channels, error);
    if (status == 0)
        status = read_transport(engine, error);
    if (status < 0)
        return status;
    int count = list_cards(engine, error);
    if (count < 0)
        return count;
    engine->nic_count = (unsigned)count;
    /* The thread of a single card would have one processor only: half of what loopback, or a fast card, can carry. */
    engine->thread_count = engine->nic_count > 1 ? engine->nic_count : 2;
    for (unsigned i = 0; i < engine->thread_count && engine->ucx; i++) {
        const char *card = engine->settings.relayed ? NULL : engine->nics[i % engine->nic_count].name;
        status = comm_ucx_open(card, &engine->threads[i].ucx, error);
        if (status < 0)
            return status;
    }
    if (engine->settings.tls && (status = rpc_tls_identity_make(&engine->identity, error)) < 0)
        return status;
    status = comm_random(engine->id, sizeof engine->id);
    return status < 0 ? rpc_explain(error, status, "links: %s", strerror(-status)) : comm_meet_open(engine, error);
}

int comm_engine_create(const struct comm_settings *settings, struct comm_engine **out, char *error)
{
    struct comm_engine *engine = calloc(1, sizeof *engine);
    unsigned started = 0;
    int status = 0;
    if (!engine)
        return rpc_explain(error, -ENOMEM, "links: no memory");
    if (settings)
        engine->settings = *settings;
    pthread_mutex_init(&engine->lock, NULL);
    comm_memory_begin(&engine->memory);
    engine->ticked = clock_now();
    status = prepare(engine, error);
    while (status == 0 && started < engine->thread_count) {
        status = start_thread(engine, started++);
        if (status < 0)
            rpc_explain(error, status, "links: starting the thread of a card: %s", strerror(-status));
    }
    if (status == 0) {
        *out = engine;
        return 0;
    }
    for (unsigned i = 0; i < started; i++)
        stop_thread(&engine->threads[i], i + 1 < started);
    engine->thread_count = 0;
    comm_engine_destroy(engine);
    return status;
}

void comm_engine_destroy(struct comm_engine *engine)
{
    if (!engine)
        return;
    comm_meet_close(engine);
    for (unsigned i = 0; i < engine->thread_count; i++)
        stop_thread(&engine->threads[i], true);
    for (unsigned i = 0; i < COMM_NICS_MOST; i++)
        comm_ucx_close(engine->threads[i].ucx);
    rpc_tls_identity_wipe(&engine->identity);
    comm_memory_end(&engine->memory);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
}

unsigned comm_engine_nics(const struct comm_engine *engine) { return engine->nic_count; }

int comm_engine_register(struct comm_engine *engine, const void *memory, uint64_t size)
{
    return comm_memory_add(&engine->memory, memory, size);
}

int comm_engine_unregister(struct comm_engine *engine, const void *memory, uint64_t size)
{
    return comm_memory_remove(&engine->memory, memory, size);
}
