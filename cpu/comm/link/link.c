/* link.c: the life of a link, and posting. The head of link.h says how it works. */
#include "cpu/comm/link/link_state.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOSE_MS = 2000, INLINE = 1 };

/* ---- transfers ---- */

struct comm_transfer *comm_transfer_find(struct tree *tree, const struct comm_name *name)
{
    struct tree_node *node = tree_at_or_above(tree, name->space, name->number);
    return node && node->key == name->space && node->tie == name->number ? TREE_OBJECT(node, struct comm_transfer, node)
                                                                         : NULL;
}

void comm_transfer_end(struct comm_link *link, struct comm_transfer *t, int status)
{
    FLYT_ASSERT_HELD(&link->lock);
    /* A node is in one of the two at most, and nothing happens where it is not. */
    if (comm_transfer_find(&link->sends, &t->name) == t)
        tree_remove(&link->sends, &t->node);
    else
        tree_remove(&link->receives, &t->node);
    list_remove(&t->queued);
    t->status = status;
    if (t->posting) {
        *t->posting = true;
        return;
    }
    bool first = !list_first(&link->complete);
    list_append(&link->complete, &t->queued);
    if (first)
        comm_engine_kick(&link->channels[0]);
}

void comm_link_deliver(struct comm_link *link)
{
    struct list *first;
    pthread_mutex_lock(&link->lock);
    link->delivering++;
    while ((first = list_first(&link->complete))) {
        list_remove(first);
        struct comm_transfer *t = LIST_OBJECT(first, struct comm_transfer, queued);
        pthread_mutex_unlock(&link->lock);
        t->done(t);
        pthread_mutex_lock(&link->lock);
    }
    bool lost = link->lost_due;
    link->lost_due = false;
    if (lost && link->settings.lost) {
        char why[WHY_SIZE];
        int status = link->status;
        snprintf(why, sizeof why, "%s", link->why);
        pthread_mutex_unlock(&link->lock);
        link->settings.lost(link, link->settings.context, status, why);
        pthread_mutex_lock(&link->lock);
    }
    if (--link->delivering == 0)
        pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

/* 0: it may be posted. */
static int check(struct comm_link *link, const struct comm_transfer *t, const struct tree *tree, bool kept)
{
    if (link->stage != LINK_JOINED)
        return -ENOTCONN;
    if (link->status < 0 && !(link->status == -ESHUTDOWN && kept))
        return link->status;
    return comm_transfer_find((struct tree *)(uintptr_t)tree, &t->name) ? -EEXIST : 0;
}

static void prepare(struct comm_transfer *t, bool *complete)
{
    t->node = (struct tree_node){ .key = t->name.space, .tie = t->name.number };
    t->queued = (struct list){ NULL, NULL };
    t->next = t->arrived = t->peer_size = 0;
    t->users = 0;
    t->charged = t->clear = t->begun = t->confirmed = t->known = false;
    t->failed = t->status = 0;
    t->posting = complete;
}

/* 1, or 0: `done` will be called. */
static int posted(struct comm_link *link, struct comm_transfer *t, const bool *complete)
{
    pthread_mutex_lock(&link->lock);
    int over = *complete;
    if (!over)
        t->posting = NULL;
    pthread_mutex_unlock(&link->lock);
    return over;
}

static bool registered(struct comm_link *link, const struct comm_transfer *t)
{
    return !link->engine->settings.registered_only || comm_memory_has(&link->engine->memory, t->memory, t->size);
}

static bool take_clear(struct comm_link *link, const struct comm_name *name)
{
    struct tree_node *node = tree_at_or_above(&link->clears, name->space, name->number);
    if (!node || node->key != name->space || node->tie != name->number)
        return false;
    tree_remove(&link->clears, node);
    free(TREE_OBJECT(node, struct comm_cleared, node));
    link->clear_count--;
    return true;
}

int comm_link_send(struct comm_link *link, struct comm_transfer *t)
{
    bool complete = false;
    if (!registered(link, t))
        return -EFAULT;
    pthread_mutex_lock(&link->lock);
    int status = check(link, t, &link->sends, false);
    if (status < 0) {
        pthread_mutex_unlock(&link->lock);
        return status;
    }
    prepare(t, &complete);
    t->clear = take_clear(link, &t->name);
    tree_insert(&link->sends, &t->node);
    bool ready = comm_out_post(link, t);
    struct comm_channel *now = !ready ? &link->channels[0] : t->size <= COMM_EAGER ? comm_out_idle(link) : NULL;
    if (!now)
        comm_out_kick_idle(link);
    pthread_mutex_unlock(&link->lock);
    if (now)
        comm_out_push(now, INLINE);
    return posted(link, t, &complete);
}

int comm_link_receive(struct comm_link *link, struct comm_transfer *t)
{
    bool complete = false;
    if (!registered(link, t))
        return -EFAULT;
    pthread_mutex_lock(&link->lock);
    int status = check(link, t, &link->receives, comm_in_has_all(link, &t->name));
    if (status < 0) {
        pthread_mutex_unlock(&link->lock);
        return status;
    }
    prepare(t, &complete);
    tree_insert(&link->receives, &t->node);
    comm_in_post(link, t);
    bool say = link->status == 0 && (link->credit_due || link->channels[0].control.size);
    pthread_mutex_unlock(&link->lock);
    if (say)
        comm_out_push(&link->channels[0], SIZE_MAX);
    return posted(link, t, &complete);
}

uint64_t comm_link_number(struct comm_link *link)
{
    pthread_mutex_lock(&link->lock);
    uint64_t number = ++link->number;
    pthread_mutex_unlock(&link->lock);
    return number;
}

bool comm_link_glance(struct comm_link *link, uint64_t space, uint8_t note[COMM_NOTE_SIZE])
{
    pthread_mutex_lock(&link->lock);
    struct tree_node *node = tree_at_or_above(&link->arrivals, space, 0);
    bool there = node && node->key == space;
    if (there)
        memcpy(note, TREE_OBJECT(node, struct comm_arrival, node)->note, COMM_NOTE_SIZE);
    pthread_mutex_unlock(&link->lock);
    return there;
}

/* ---- failure ---- */

static void end_all(struct comm_link *link, struct tree *tree, int status)
{
    struct tree_node *node = tree_first(tree);
    while (node) {
        struct comm_transfer *t = TREE_OBJECT(node, struct comm_transfer, node);
        node = tree_next(tree, node);
        if (t->users == 0)
            comm_transfer_end(link, t, status);
    }
}

void comm_link_fail(struct comm_link *link, int status, const char *why)
{
    FLYT_ASSERT_HELD(&link->lock);
    if (link->status < 0)
        return;
    /* While this end says that it aborts, the peer may have heard of it, and have closed its connections. */
    status = link->aborting ? link->aborting : status;
    link->status = status;
    link->lost_due = !link->closing && !link->aborting;
    if (!link->aborting)
        snprintf(link->why, sizeof link->why, "%s", *why ? why : strerror(-status));
    for (unsigned i = 0; i < COMM_HANDLES_MOST; i++) {
        struct comm_channel *c = &link->channels[i];
        if (!c->wire)
            continue;
        if (i > 0 || !c->busy_out || !link->abort_due)
            rpc_channel_shutdown(c->wire);      /* else the thread that sends says why, and does it */
        if (!c->busy_out)
            comm_out_release(c);
        if (!c->busy_in)
            comm_in_release(c);
    }
    end_all(link, &link->sends, status);
    end_all(link, &link->receives, status);
    if (link->channels[0].wire)
        comm_engine_kick(&link->channels[0]);
    pthread_cond_broadcast(&link->changed);
}

void comm_link_note_end(struct comm_link *link, int status)
{
    FLYT_ASSERT_HELD(&link->lock);
    if (link->ended)
        return;
    link->ended = status;
    link->ended_at = clock_now();
}

void comm_link_abort(struct comm_link *link, int status, const char *why)
{
    struct comm_record record = { .kind = RECORD_ABORT, .extra = (uint64_t)-status };
    pthread_mutex_lock(&link->lock);
    bool say = link->stage == LINK_JOINED && link->status == 0;
    record.length = (uint32_t)strnlen(why, WHY_SIZE - 1);
    if (say)
        comm_out_control(link, &record, why);
    link->abort_due = say;
    if (link->status == 0 && !link->aborting) {
        link->aborting = status;
        snprintf(link->why, sizeof link->why, "%s", *why ? why : strerror(-status));
    }
    pthread_mutex_unlock(&link->lock);
    if (say)
        comm_out_push(&link->channels[0], SIZE_MAX);
    pthread_mutex_lock(&link->lock);
    comm_link_fail(link, status, why);
    pthread_mutex_unlock(&link->lock);
}

int comm_link_status(struct comm_link *link)
{
    pthread_mutex_lock(&link->lock);
    int status = link->status;
    pthread_mutex_unlock(&link->lock);
    return status;
}

/* ---- the life of a link ---- */

int comm_link_create(struct comm_engine *engine, const struct comm_link_settings *settings, struct comm_link **out,
                     char *error)
{
    struct comm_link *link = calloc(1, sizeof *link);
    int status = link ? comm_random(link->id, sizeof link->id) : -ENOMEM;
    if (status < 0) {
        free(link);
        return rpc_explain(error, status, "a link: %s", strerror(-status));
    }
    link->engine = engine;
    if (settings)
        link->settings = *settings;
    pthread_mutex_init(&link->lock, NULL);
    pthread_cond_init(&link->changed, NULL);
    for (unsigned i = 0; i < COMM_HANDLES_MOST; i++) {
        struct comm_channel *c = &link->channels[i];
        c->link = link;
        c->index = i;
        c->fd = -1;
        c->thread = &engine->threads[i % engine->thread_count];
    }
    pthread_mutex_lock(&engine->lock);
    list_append(&engine->links, &link->of_engine);
    pthread_mutex_unlock(&engine->lock);
    *out = link;
    return 0;
}

static int make_handles(struct comm_link *link)
{
    struct comm_engine *engine = link->engine;
    int status = comm_random(link->keys, sizeof link->keys);
    struct comm_handle h = { .channels = (uint8_t)(engine->channels + 1) };
    if (status < 0)
        return status;
    const bool shared = !engine->settings.no_shared_memory && !engine->settings.relayed;
    h.flags = (uint8_t)((engine->settings.tls ? HANDLE_TLS : 0) | (shared ? HANDLE_SHARED : 0) |
                        (engine->ucx ? HANDLE_UCX : 0));
    memcpy(h.link, link->id, sizeof h.link);
    memcpy(h.engine, engine->id, sizeof h.engine);
    if (shared)
        comm_handle_place(h.place);
    for (unsigned i = 0; engine->settings.tls && i < COMM_FINGERPRINT_SIZE; i++) {
        unsigned byte = 0;
        sscanf(engine->identity.fingerprint + 2 * i, "%2x", &byte);
        h.fingerprint[i] = (uint8_t)byte;
    }
    for (unsigned i = 0; i <= engine->channels; i++) {
        unsigned nic = i % engine->nic_count;
        h.channel = (uint8_t)i;
        h.address = engine->nics[nic].address;
        h.address.port = comm_meet_port(engine, nic);
        memcpy(h.key, link->keys[i], COMM_KEY_SIZE);
        comm_handle_put(link->handles[i], &h);
    }
    link->listened = engine->channels + 1;
    link->stage = LINK_LISTENS;
    return 0;
}

int comm_link_listen(struct comm_link *link, uint8_t *handles, unsigned *count, char *error)
{
    pthread_mutex_lock(&link->lock);
    int status = link->stage == LINK_NEW ? make_handles(link) : 0;
    if (status == 0) {
        *count = link->listened;
        memcpy(handles, link->handles, (size_t)link->listened * COMM_HANDLE_SIZE);
    }
    pthread_mutex_unlock(&link->lock);
    return status < 0 ? rpc_explain(error, status, "a link's keys: %s", strerror(-status)) : 0;
}

static int read_handles(struct comm_link *link, const uint8_t *bytes, unsigned count,
                        struct comm_handle handles[COMM_HANDLES_MOST], char *error)
{
    bool good = count >= 2 && count <= COMM_HANDLES_MOST;
    for (unsigned i = 0; good && i < count; i++)
        good = comm_handle_get(bytes + (size_t)i * COMM_HANDLE_SIZE, &handles[i]) && handles[i].channel == i &&
               handles[i].channels == count && memcmp(handles[i].link, handles[0].link, COMM_ID_SIZE) == 0;
    if (!good)
        return rpc_explain(error, -EINVAL, "joining a link: the other end's handles are none, or of another release");
    if (memcmp(handles[0].link, link->id, COMM_ID_SIZE) == 0)
        return rpc_explain(error, -EINVAL, "joining a link: these are its own handles");
    if (((handles[0].flags & HANDLE_TLS) != 0) != link->engine->settings.tls)
        return rpc_explain(error, -EINVAL, "joining a link: one end wants TLS and the other does not");
    if (((handles[0].flags & HANDLE_UCX) != 0) != link->engine->ucx)
        return rpc_explain(error, -EINVAL, "joining a link: one end wants UCX (FLYT_LINK_TRANSPORT) and the other does "
                                           "not");
    return 0;
}

static int call_all(struct comm_link *link, const struct comm_handle *handles, unsigned count, uint64_t deadline,
                    char *error)
{
    for (unsigned i = 0; i < count; i++) {
        rpc_channel *wire;
        int status = comm_meet_call(link, i, count, &handles[i], deadline, &wire, error);
        if (status < 0)
            return status;
        pthread_mutex_lock(&link->lock);
        link->channels[i].wire = wire;
        pthread_mutex_unlock(&link->lock);
    }
    return 0;
}

static int await_all(struct comm_link *link, unsigned count, uint64_t deadline, char *error)
{
    struct timespec until = clock_timespec(deadline);
    unsigned there = 0;
    int status = 0;
    pthread_mutex_lock(&link->lock);
    for (;;) {
        for (there = 0; there < count && link->channels[there].wire; there++)
            ;
        status = link->status < 0 ? link->status : there == count ? 0 : status;
        if (there == count || status < 0)
            break;
        status = -pthread_cond_clockwait(&link->changed, &link->lock, CLOCK_MONOTONIC, &until);
    }
    char why[WHY_SIZE];
    snprintf(why, sizeof why, "%s", link->status < 0 ? link->why : strerror(-status));
    pthread_mutex_unlock(&link->lock);
    if (status == 0)
        return 0;
    return rpc_explain(error, status, "joining a link: channel %u of %u was not connected by the other end: %s", there,
                       count, why);
}

/* All channels are connected. */
static int begin(struct comm_link *link, unsigned count)
{
    int status = 0;
    pthread_mutex_lock(&link->lock);
    link->count = count;
    link->last_said = link->last_heard = clock_now();
    link->stage = LINK_JOINED;
    for (unsigned i = 0; i < count; i++) {
        struct comm_channel *c = &link->channels[i];
        const char *transport = rpc_channel_transport(c->wire);
        c->fd = c->wire->operations->descriptor(c->wire);
        c->is_socket = strcmp(transport, "tcp") == 0;
        c->is_shared = strcmp(transport, "shm") == 0;
        c->is_ucx = strcmp(transport, "ucx") == 0;
        if (c->is_ucx)
            comm_ucx_own(c->wire, c);
    }
    pthread_mutex_unlock(&link->lock);
    for (unsigned i = 0; i < count && status == 0; i++)
        status = comm_engine_attach(&link->channels[i]);
    return status;
}

bool comm_link_calls(const struct comm_link *link, const uint8_t *handles)
{
    struct comm_handle first;
    return comm_handle_get(handles, &first) && memcmp(link->id, first.link, COMM_ID_SIZE) > 0;
}

int comm_link_join(struct comm_link *link, const uint8_t *bytes, unsigned count, uint64_t deadline, char *error)
{
    struct comm_handle handles[COMM_HANDLES_MOST];
    int status = read_handles(link, bytes, count, handles, error);
    pthread_mutex_lock(&link->lock);
    unsigned listened = link->listened;
    if (status == 0 && link->stage != LINK_LISTENS)
        status = rpc_explain(error, -EINVAL, "joining a link: it has not listened, or is joined");
    pthread_mutex_unlock(&link->lock);
    if (status < 0)
        return status;
    count = count < listened ? count : listened;
    status = comm_link_calls(link, bytes) ? call_all(link, handles, count, deadline, error)
                                          : await_all(link, count, deadline, error);
    if (status < 0)
        return status;
    status = begin(link, count);
    return status < 0 ? rpc_explain(error, status, "joining a link: %s", strerror(-status)) : 0;
}

const char *comm_link_transport(const struct comm_link *link)
{
    return link->stage == LINK_JOINED ? rpc_channel_transport(link->channels[link->count - 1].wire) : "none";
}

unsigned comm_link_channels(const struct comm_link *link)
{
    return link->count ? link->count - 1 : 0;
}

/* Waits until the peer has read all. */
static void say_bye(struct comm_link *link)
{
    struct timespec until = clock_timespec(clock_now() + CLOSE_MS * CLOCK_NS_PER_MS);
    int status = 0;
    for (unsigned i = 0; i < link->count; i++) {
        link->channels[i].bye = true;
        comm_engine_kick(&link->channels[i]);
    }
    while (!link->heard && link->status == 0 && status == 0)
        status = pthread_cond_clockwait(&link->changed, &link->lock, CLOCK_MONOTONIC, &until);
}

void comm_link_close(struct comm_link *link)
{
    if (!link)
        return;
    pthread_mutex_lock(&link->lock);
    link->closing = true;
    if (link->stage == LINK_JOINED && link->status == 0)
        say_bye(link);
    comm_link_fail(link, -ECANCELED, "closed");
    pthread_mutex_unlock(&link->lock);
    pthread_mutex_lock(&link->engine->lock);
    list_remove(&link->of_engine);
    pthread_mutex_unlock(&link->engine->lock);
    if (link->count)
        comm_link_deliver(link);
    for (unsigned i = 0; i < link->count; i++)
        comm_engine_detach(&link->channels[i]);
    if (link->count)
        comm_link_deliver(link);                /* what the threads were at work with until now */
    pthread_mutex_lock(&link->lock);
    while (link->delivering)
        pthread_cond_wait(&link->changed, &link->lock);
    comm_in_forget(link);
    pthread_mutex_unlock(&link->lock);
    for (struct tree_node *node; (node = tree_first(&link->clears));) {
        tree_remove(&link->clears, node);
        free(TREE_OBJECT(node, struct comm_cleared, node));
    }
    for (unsigned i = 0; i < COMM_HANDLES_MOST; i++) {
        rpc_channel_destroy(link->channels[i].wire);
        free(link->channels[i].control.bytes);
        free(link->channels[i].sending.bytes);
    }
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    free(link);
}
