/*
 * out.c: which channel sends what, and sending it.
 *
 * Transfers with bytes that may be sent now are in the list `ready`. A channel that has room takes a chunk of the first
 * one, which then goes to the end of the list: so a small transfer does not wait for a large one that came before.
 *
 * Rates. CREDIT shows when a channel's chunks have arrived, so each channel's rate is known after a few. All that is
 * ready and under way takes `rest` seconds over all channels together. A channel takes no more than it can deliver in
 * that time. What it is refused goes to others, which finish sooner; the channel that would finish first is never
 * refused. Each CREDIT lets the idle channels look again.
 */
#include "cpu/comm/link/link_state.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* PIECE: the smallest chunk at the tail. RATE_FROM: a CREDIT of fewer bytes says more of the delay than of the rate. */
enum { PIECE = 32 * 1024, RATE_FROM = 64 * 1024 };
#define RATE_SPAN (200 * CLOCK_NS_PER_MS)

/* ---- control ---- */

static void append(struct comm_link *link, const void *bytes, size_t size)
{
    struct comm_bytes *control = &link->channels[0].control;
    if (control->room - control->size < size) {
        size_t room = control->room * 2 + 4096;
        uint8_t *larger = control->size + size > CONTROL_MOST ? NULL : realloc(control->bytes, room);
        if (!larger) {
            comm_link_fail(link, -ENOBUFS, "the peer does not read what it is sent on channel 0");
            return;
        }
        control->bytes = larger;
        control->room = room;
    }
    memcpy(control->bytes + control->size, bytes, size);
    control->size += size;
}

void comm_out_control(struct comm_link *link, const struct comm_record *record, const char *text)
{
    uint8_t head[RECORD_SIZE];
    FLYT_ASSERT_HELD(&link->lock);
    comm_record_put(head, record);
    append(link, head, sizeof head);
    if (text && record->length)
        append(link, text, record->length);
}

/* Credit for all that was taken since the last time. */
static void append_credit(struct comm_link *link)
{
    for (unsigned i = 1; i < link->count; i++) {
        struct comm_channel *c = &link->channels[i];
        if (c->owed == 0)
            continue;
        const struct comm_record record = { .kind = RECORD_CREDIT, .channel = (uint16_t)i, .length = c->owed,
                                            .offset = c->owed_bytes, .extra = link->early_owed };
        comm_out_control(link, &record, NULL);
        link->early_owed = 0;
        c->uncredited -= c->owed;
        c->owed = 0;
        c->owed_bytes = 0;
    }
    if (link->early_owed) {
        const struct comm_record record = { .kind = RECORD_CREDIT, .extra = link->early_owed };
        comm_out_control(link, &record, NULL);
        link->early_owed = 0;
    }
    link->credit_due = false;
}

static bool take_bye(struct comm_channel *c)
{
    const struct comm_record record = { .kind = RECORD_BYE, .channel = (uint16_t)c->index };
    if (!c->bye || c->bye_sent)
        return false;
    c->bye_sent = true;
    c->out = (struct comm_out){ .there = true, .head_size = RECORD_SIZE };
    comm_record_put(c->out.head, &record);
    return true;
}

static bool take_control(struct comm_channel *c)
{
    struct comm_link *link = c->link;
    if (link->credit_due || c->control.size)
        append_credit(link);
    if (link->heard_due && !c->control.size) {
        link->heard_due = false;
        comm_out_control(link, &(struct comm_record){ .kind = RECORD_HEARD }, NULL);
    }
    if (!c->control.size || link->status < 0)
        return link->status == 0 && take_bye(c);
    struct comm_bytes sent = c->sending;
    c->sending = c->control;
    c->control = (struct comm_bytes){ sent.bytes, 0, sent.room };
    c->out = (struct comm_out){ .there = true, .payload = c->sending.bytes, .length = c->sending.size };
    link->last_said = clock_now();
    return true;
}

/* ---- data ---- */

/* So far a transfer may be sent now. */
static uint64_t limit_of(const struct comm_transfer *t)
{
    return t->clear || t->size < COMM_EAGER ? t->size : COMM_EAGER;
}

static void make_ready(struct comm_link *link, struct comm_transfer *t)
{
    if (!list_linked(&t->queued)) {
        list_append(&link->ready, &t->queued);
        link->ready_bytes += limit_of(t) - t->next;
    }
}

static void take_off(struct comm_link *link, struct comm_transfer *t)
{
    if (list_linked(&t->queued)) {
        link->ready_bytes -= limit_of(t) - t->next;
        list_remove(&t->queued);
    }
}

bool comm_out_post(struct comm_link *link, struct comm_transfer *t)
{
    uint64_t cost = comm_early_cost(limit_of(t));
    FLYT_ASSERT_HELD(&link->lock);
    if (!t->clear && link->early_out + cost > COMM_EARLY) {
        struct comm_record ask = { .kind = RECORD_ASK, .name = t->name, .total = t->size };
        memcpy(ask.note, t->note, COMM_NOTE_SIZE);
        comm_out_control(link, &ask, NULL);
        return false;
    }
    if (!t->clear) {
        link->early_out += cost;
        t->charged = true;
    }
    make_ready(link, t);
    return true;
}

static double rate_of(const struct comm_channel *c, double otherwise)
{
    return c->rate_ns ? (double)c->rate_bytes / (double)c->rate_ns : otherwise;
}

/* How much of `size` bytes channel c may take now: see the head of this file. */
static uint64_t share(struct comm_link *link, const struct comm_channel *c, uint64_t size)
{
    double mine = rate_of(c, 0), total = 0, flight = 0;
    if (mine <= 0 || link->count <= 2)
        return size;
    for (unsigned i = 1; i < link->count; i++) {
        total += rate_of(&link->channels[i], mine);
        flight += (double)link->channels[i].flight_bytes;
    }
    double room = ((double)link->ready_bytes + flight) / total * mine - (double)c->flight_bytes;
    if (room >= (double)size)
        return size;
    if (room >= PIECE)
        return (uint64_t)room / 4096 * 4096;
    double end = ((double)c->flight_bytes + PIECE) / mine;
    for (unsigned i = 1; i < link->count; i++) {
        struct comm_channel *d = &link->channels[i];
        if (d == c || d->flight >= COMM_WINDOW || ((double)d->flight_bytes + PIECE) / rate_of(d, mine) >= end)
            continue;
        if (d->flight == 0)
            comm_engine_kick(d);                /* else its next credit lets it look again */
        return 0;
    }
    return size < PIECE ? size : PIECE;
}

static bool take_data(struct comm_channel *c)
{
    struct comm_link *link = c->link;
    struct comm_transfer *t = LIST_OBJECT(list_first(&link->ready), struct comm_transfer, queued);
    if (!t)
        return take_bye(c);
    if (c->flight >= COMM_WINDOW)
        return false;
    bool early = t->charged && !t->begun;
    uint64_t limit = early && t->size > COMM_EAGER ? COMM_EAGER : limit_of(t), left = limit - t->next;
    uint64_t length = left < COMM_CHUNK ? left : COMM_CHUNK;
    if (!early && length > 0 && t->size > COMM_EAGER)
        length = share(link, c, length);
    if (length == 0 && left > 0)
        return false;
    struct comm_record record = { .kind = RECORD_DATA, .flags = early ? RECORD_EARLY : 0, .channel = (uint16_t)c->index,
                                  .length = (uint32_t)length, .name = t->name, .offset = t->next, .total = t->size };
    memcpy(record.note, t->note, COMM_NOTE_SIZE);
    take_off(link, t);
    c->out = (struct comm_out){ .there = true, .head_size = RECORD_SIZE, .payload = (uint8_t *)t->memory + t->next,
                                .length = (size_t)length, .of = t };
    comm_record_put(c->out.head, &record);
    t->begun = true;
    t->next += length;
    t->users++;
    if (t->next < limit_of(t))
        make_ready(link, t);
    if (c->flight++ == 0)
        c->since = clock_now();
    c->flight_bytes += length;
    return true;
}

/* Is all of it with the receiver, or with the system where that is enough? */
static void finish_if_sent(struct comm_link *link, struct comm_transfer *t)
{
    if (t->users > 0)
        return;
    if (t->failed)
        comm_transfer_end(link, t, t->failed);
    else if (t->begun && t->next == t->size && (t->size <= COMM_EAGER || t->confirmed))
        comm_transfer_end(link, t, 0);
    else if (link->status < 0)
        comm_transfer_end(link, t, link->status);
}

void comm_out_release(struct comm_channel *c)
{
    struct comm_transfer *t = c->out.of;
    FLYT_ASSERT_HELD(&c->link->lock);
    bool was = c->out.there, whole = c->out.sent == c->out.head_size + c->out.length;
    c->out = (struct comm_out){ .there = false };
    if (was && t) {
        t->users--;
        if (!whole && !t->failed)
            t->failed = c->link->status;        /* the link has failed in the middle of a record */
        finish_if_sent(c->link, t);
    }
}

/* ---- sending ---- */

static ssize_t send_some(struct comm_channel *c, const struct comm_out *out)
{
    struct iovec pieces[2];
    int count = 0;
    size_t in_payload = out->sent > out->head_size ? out->sent - out->head_size : 0;
    if (out->sent < out->head_size)
        pieces[count++] = (struct iovec){ (void *)(uintptr_t)(out->head + out->sent), out->head_size - out->sent };
    if (out->length > in_payload)
        pieces[count++] = (struct iovec){ (void *)(uintptr_t)(out->payload + in_payload), out->length - in_payload };
    return rpc_channel_send(c->wire, pieces, count);
}

/* A socket takes more bytes than its network moves soon. Those would be missing on the other channels at the tail. */
static bool has_room(const struct comm_channel *c)
{
    struct pollfd poller = { .fd = c->fd, .events = POLLOUT };
    return !c->is_socket || poll(&poller, 1, 0) != 0;
}

/* The link was aborted while this thread was sending on channel 0: what is left to say, if that is possible. */
static void say_last_words(struct comm_channel *c)
{
    struct iovec rest = { c->control.bytes, c->control.size };
    c->link->abort_due = false;
    if (!c->out.there && c->control.size)
        rpc_channel_send(c->wire, &rest, 1);
    rpc_channel_shutdown(c->wire);
}

void comm_out_push(struct comm_channel *c, size_t budget)
{
    struct comm_link *link = c->link;
    size_t done = 0;
    pthread_mutex_lock(&link->lock);
    if (c->busy_out) {
        c->again = true;
        pthread_mutex_unlock(&link->lock);
        return;
    }
    c->busy_out = true;
    bool blocked = false;
    do {
        c->again = false;
        blocked = false;
        while (link->status == 0 && !blocked && done < budget &&
               (c->out.there || (c->index ? take_data(c) : take_control(c)))) {
            pthread_mutex_unlock(&link->lock);
            ssize_t sent = send_some(c, &c->out);
            bool whole = sent > 0 && c->out.sent + (size_t)sent == c->out.head_size + c->out.length;
            bool room = !whole || c->out.length <= COMM_EAGER || has_room(c);
            pthread_mutex_lock(&link->lock);
            blocked = sent <= 0 || !room;
            if (sent > 0) {
                c->out.sent += (size_t)sent;
                done += (size_t)sent;
            } else if (sent != -EAGAIN) {
                comm_link_note_end(link, sent < 0 ? (int)sent : -ECONNRESET);
            }
            if (whole)
                comm_out_release(c);
        }
    } while (c->again && link->status == 0 && !link->ended && done < budget);
    c->busy_out = false;
    if (link->status < 0 && c->index == 0 && link->abort_due)
        say_last_words(c);
    if (link->status < 0)
        comm_out_release(c);
    else if (done >= budget && !blocked && (c->out.there || c->control.size || list_first(&link->ready)))
        comm_engine_kick(c);
    pthread_mutex_unlock(&link->lock);
}

struct comm_channel *comm_out_idle(struct comm_link *link)
{
    FLYT_ASSERT_HELD(&link->lock);
    for (unsigned tries = 1; tries < link->count; tries++) {
        link->turn = link->turn % (link->count - 1) + 1;
        struct comm_channel *c = &link->channels[link->turn];
        if (!c->busy_out && !c->out.there && c->flight < COMM_WINDOW)
            return c;
    }
    return NULL;
}

void comm_out_kick_idle(struct comm_link *link)
{
    FLYT_ASSERT_HELD(&link->lock);
    if (!list_first(&link->ready))
        return;
    for (unsigned i = 1; i < link->count; i++)
        if (!link->channels[i].out.there && link->channels[i].flight < COMM_WINDOW)
            comm_engine_kick(&link->channels[i]);
}

/* ---- what the receiver says ---- */

static void clear(struct comm_link *link, const struct comm_record *record)
{
    struct comm_transfer *t = comm_transfer_find(&link->sends, &record->name);
    if (t) {
        if (t->clear || t->failed)
            return;
        bool was_ready = list_linked(&t->queued);
        if (was_ready)
            take_off(link, t);
        t->clear = true;
        if (!t->begun || t->next < t->size)
            make_ready(link, t);
        comm_out_kick_idle(link);
        return;
    }
    struct comm_cleared *kept = link->clear_count < CLEARS_MOST ? calloc(1, sizeof *kept) : NULL;
    if (!kept) {
        comm_link_fail(link, -ENOBUFS, "the peer wants more transfers than are kept in mind");
        return;
    }
    kept->node.key = record->name.space;
    kept->node.tie = record->name.number;
    struct tree_node *there = tree_at_or_above(&link->clears, kept->node.key, kept->node.tie);
    if (there && there->key == kept->node.key && there->tie == kept->node.tie) {
        free(kept);
        return;
    }
    tree_insert(&link->clears, &kept->node);
    link->clear_count++;
}

static void credit(struct comm_link *link, const struct comm_record *record)
{
    struct comm_channel *c = &link->channels[record->channel];
    if (record->channel >= link->count || record->length > c->flight || record->offset > c->flight_bytes ||
        record->extra > link->early_out) {
        comm_link_fail(link, -EPROTO, "the peer gave back more than it had");
        return;
    }
    uint64_t now = clock_now();
    c->flight -= record->length;
    c->flight_bytes -= record->offset;
    link->early_out -= record->extra;
    if (record->offset >= RATE_FROM) {
        c->rate_bytes += record->offset;
        c->rate_ns += now > c->since ? now - c->since : 1;
        if (c->rate_ns > RATE_SPAN) {
            c->rate_bytes /= 2;
            c->rate_ns /= 2;
        }
    }
    c->since = now;
    comm_out_kick_idle(link);
}

static void done(struct comm_link *link, const struct comm_record *record)
{
    struct comm_transfer *t = comm_transfer_find(&link->sends, &record->name);
    if (!t)
        return;
    if (t->next < t->size) {
        comm_link_fail(link, -EPROTO, "the peer has a transfer before it was sent");
        return;
    }
    t->confirmed = true;
    finish_if_sent(link, t);
}

static void refuse(struct comm_link *link, const struct comm_record *record)
{
    struct comm_transfer *t = comm_transfer_find(&link->sends, &record->name);
    if (!t)
        return;
    take_off(link, t);
    t->failed = -(int)record->extra;
    finish_if_sent(link, t);
}

void comm_out_heard(struct comm_link *link, const struct comm_record *record)
{
    FLYT_ASSERT_HELD(&link->lock);
    switch (record->kind) {
    case RECORD_CLEAR: clear(link, record); break;
    case RECORD_CREDIT: credit(link, record); break;
    case RECORD_DONE: done(link, record); break;
    default: refuse(link, record); break;
    }
}
