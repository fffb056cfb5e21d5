/*
 * in.c: records that come. Only the thread of a channel's card reads it. Bytes of a transfer that is posted go straight
 * into its memory; `ahead` takes the head of the next record, and small records whole, with the same system call.
 *
 * The peer is not trusted: what a record says is checked against what was posted, cleared and credited.
 */
#include "cpu/comm/link/link_state.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* TURN: bytes that a channel takes before others have their turn. OWED: credit of so many chunks or bytes is given. */
enum { TURN = 2 * 1024 * 1024, OWED_CHUNKS = 4, OWED_BYTES = 256 * 1024, ASKS_MOST = 16 * 1024 };

static struct comm_arrival *find_arrival(struct comm_link *link, const struct comm_name *name)
{
    struct tree_node *node = tree_at_or_above(&link->arrivals, name->space, name->number);
    return node && node->key == name->space && node->tie == name->number ? TREE_OBJECT(node, struct comm_arrival, node)
                                                                         : NULL;
}

static void forget(struct comm_link *link, struct comm_arrival *arrival)
{
    tree_remove(&link->arrivals, &arrival->node);
    if (arrival->has_data) {
        link->early_in -= arrival->cost;
        link->early_owed += arrival->cost;
        link->credit_due |= link->early_owed >= OWED_BYTES;
    } else {
        link->ask_count--;
    }
    free(arrival);
}

void comm_in_forget(struct comm_link *link)
{
    for (struct tree_node *node; (node = tree_first(&link->arrivals));)
        forget(link, TREE_OBJECT(node, struct comm_arrival, node));
}

static struct comm_arrival *keep(struct comm_link *link, const struct comm_record *record, size_t length)
{
    struct comm_arrival *arrival = calloc(1, sizeof *arrival + length);
    if (!arrival)
        return NULL;
    arrival->node.key = record->name.space;
    arrival->node.tie = record->name.number;
    arrival->name = record->name;
    arrival->total = record->total;
    arrival->length = length;
    memcpy(arrival->note, record->note, COMM_NOTE_SIZE);
    tree_insert(&link->arrivals, &arrival->node);
    return arrival;
}

static void clear_at_peer(struct comm_link *link, struct comm_transfer *t)
{
    if (t->clear)
        return;
    t->clear = true;
    comm_out_control(link, &(struct comm_record){ .kind = RECORD_CLEAR, .name = t->name, .total = t->size }, NULL);
}

/* What the first record of a transfer says of it. False: it does not fit, and the receive has failed. */
static bool learn(struct comm_link *link, struct comm_transfer *t, uint64_t total, const uint8_t note[COMM_NOTE_SIZE])
{
    if (t->known)
        return total == t->peer_size;
    t->known = true;
    t->peer_size = total;
    memcpy(t->peer_note, note, COMM_NOTE_SIZE);
    if (total == t->size || (t->any_size && total < t->size))
        return true;
    comm_out_control(link, &(struct comm_record){ .kind = RECORD_REFUSE, .name = t->name, .extra = EMSGSIZE }, NULL);
    link->refused++;
    comm_transfer_end(link, t, -EMSGSIZE);
    return false;
}

/* So many more bytes of it are there. */
static void arrive(struct comm_link *link, struct comm_transfer *t, uint64_t length)
{
    t->arrived += length;
    if (t->arrived < t->peer_size || t->users > 0)
        return;
    if (t->peer_size > COMM_EAGER)
        comm_out_control(link, &(struct comm_record){ .kind = RECORD_DONE, .name = t->name }, NULL);
    comm_transfer_end(link, t, 0);
}

/* The receive takes what has come early. */
static void take_arrival(struct comm_link *link, struct comm_transfer *t, struct comm_arrival *arrival)
{
    if (learn(link, t, arrival->total, arrival->note)) {
        size_t length = arrival->length;
        if (length)
            memcpy(t->memory, arrival->bytes, length);
        if (arrival->total > COMM_EAGER)
            clear_at_peer(link, t);
        forget(link, arrival);
        arrive(link, t, length);
    } else {
        forget(link, arrival);
    }
}

bool comm_in_has_all(struct comm_link *link, const struct comm_name *name)
{
    const struct comm_arrival *arrival = find_arrival(link, name);
    return arrival && arrival->whole && arrival->length == arrival->total;
}

void comm_in_post(struct comm_link *link, struct comm_transfer *t)
{
    struct comm_arrival *arrival = find_arrival(link, &t->name);
    FLYT_ASSERT_HELD(&link->lock);
    if (!t->any_size && t->size > COMM_EAGER)
        clear_at_peer(link, t);
    if (!arrival)
        return;
    if (arrival->whole) {
        take_arrival(link, t, arrival);
    } else if (arrival->has_data) {
        arrival->wanted = t;                    /* the rest is under way */
    } else {
        clear_at_peer(link, t);
        forget(link, arrival);
    }
}

/* ---- records ---- */

static void wrong(struct comm_link *link, const char *what)
{
    comm_link_fail(link, -EPROTO, what);
}

static void begin_early(struct comm_channel *c, const struct comm_record *record)
{
    struct comm_link *link = c->link;
    uint64_t cost = comm_early_cost(record->length);
    struct comm_arrival *arrival = find_arrival(link, &record->name);
    if (!(record->flags & RECORD_EARLY)) {
        if (!link->refused)
            wrong(link, "the peer sent data that was not asked for");
        return;                                 /* the rest of a transfer that was refused is thrown away */
    }
    if (record->offset != 0 || record->length != (record->total < COMM_EAGER ? record->total : COMM_EAGER) ||
        arrival || link->early_in + cost > COMM_EARLY) {
        wrong(link, "the peer sent more early data than it may");
        return;
    }
    arrival = keep(link, record, record->length);
    if (!arrival) {
        comm_link_fail(link, -ENOMEM, "no memory for early data");
        return;
    }
    arrival->has_data = true;
    arrival->cost = cost;
    link->early_in += cost;
    c->in.early = arrival;
    c->in.to = arrival->bytes;
}

static void begin_data(struct comm_channel *c, const struct comm_record *record)
{
    struct comm_link *link = c->link;
    struct comm_transfer *t = comm_transfer_find(&link->receives, &record->name);
    if (c->uncredited >= COMM_WINDOW) {
        wrong(link, "the peer sent more chunks than it had credit for");
        return;
    }
    c->uncredited++;
    if (!t) {
        begin_early(c, record);
        return;
    }
    if (!learn(link, t, record->total, record->note)) {
        if (t->status == 0)
            wrong(link, "the peer changed the size of a transfer");
        return;
    }
    if (t->any_size && record->total > COMM_EAGER)
        clear_at_peer(link, t);
    t->users++;
    c->in.into = t;
    c->in.to = (uint8_t *)t->memory + record->offset;
}

static void end_data(struct comm_channel *c)
{
    struct comm_link *link = c->link;
    struct comm_in in = c->in;
    c->in = (struct comm_in){ .there = false };
    c->owed++;
    c->owed_bytes += in.record.length;
    /* At the tail of a large transfer the sender waits for credit, to see how fast each channel is. */
    link->credit_due |= c->owed >= OWED_CHUNKS || c->owed_bytes >= OWED_BYTES || in.record.total > COMM_EAGER;
    if (in.early) {
        in.early->whole = true;
        if (in.early->wanted)
            take_arrival(link, in.early->wanted, in.early);
        return;
    }
    if (in.record.flags & RECORD_EARLY) {
        link->early_owed += comm_early_cost(in.record.length);
        link->credit_due |= link->early_owed >= OWED_BYTES;
    }
    if (in.into) {
        in.into->users--;
        arrive(link, in.into, in.record.length);
    }
}

static void ask(struct comm_link *link, const struct comm_record *record)
{
    struct comm_transfer *t = comm_transfer_find(&link->receives, &record->name);
    if (t) {
        clear_at_peer(link, t);
        return;
    }
    if (find_arrival(link, &record->name) || link->ask_count >= ASKS_MOST || !keep(link, record, 0)) {
        wrong(link, "the peer asked for more transfers than are kept in mind");
        return;
    }
    link->ask_count++;
}

static void hear_bye(struct comm_channel *c)
{
    struct comm_link *link = c->link;
    c->bye_heard = true;
    for (unsigned i = 0; i < link->count; i++)
        if (!link->channels[i].bye_heard)
            return;
    link->heard_due = link->at_end = true;
}

/* Behind BYE an end sends nothing of its own. It still answers what the other one sends, which may be its BYE. */
static bool answers(enum comm_record_kind kind)
{
    return kind == RECORD_CREDIT || kind == RECORD_DONE || kind == RECORD_BEAT || kind == RECORD_HEARD;
}

/* A record's head is there. */
static void begin_record(struct comm_channel *c, const uint8_t head[RECORD_SIZE])
{
    struct comm_link *link = c->link;
    struct comm_record record;
    if (!comm_record_get(head, c->index, &record) || (c->bye_heard && !answers(record.kind))) {
        wrong(link, "the peer sent no record of a link");
        return;
    }
    c->in = (struct comm_in){ .there = true, .record = record };
    switch (record.kind) {
    case RECORD_DATA:
        c->in.left = record.length;
        begin_data(c, &record);
        return;
    case RECORD_ABORT:
        c->in.left = record.length;
        c->in.to = (uint8_t *)link->peer_why;
        if (record.length >= sizeof link->peer_why)
            wrong(link, "the peer's reason is too long");
        return;
    case RECORD_CLEAR:
    case RECORD_CREDIT:
    case RECORD_DONE:
    case RECORD_REFUSE: comm_out_heard(link, &record); break;
    case RECORD_ASK: ask(link, &record); break;
    case RECORD_BYE: hear_bye(c); break;
    case RECORD_HEARD:
        link->heard = true;
        pthread_cond_broadcast(&link->changed);
        break;
    default: break;                             /* BEAT: that something came is all it says */
    }
    c->in.there = false;
}

static void end_record(struct comm_channel *c)
{
    if (c->in.record.kind == RECORD_DATA) {
        end_data(c);
    } else {
        c->in.there = false;
        comm_link_fail(c->link, -(int)c->in.record.extra, c->link->peer_why);
    }
}

/* Takes what is in `ahead`. */
static void parse(struct comm_channel *c)
{
    struct comm_link *link = c->link;
    while (link->status == 0) {
        size_t there = c->ahead_end - c->ahead_start;
        if (c->in.there && c->in.left > 0) {
            size_t part = c->in.left < there ? c->in.left : there;
            if (part == 0)
                break;
            if (c->in.to) {
                memcpy(c->in.to, c->ahead + c->ahead_start, part);
                c->in.to += part;
            }
            c->in.left -= part;
            c->ahead_start += part;
        } else if (!c->in.there) {
            if (there < RECORD_SIZE)
                break;
            c->ahead_start += RECORD_SIZE;
            begin_record(c, c->ahead + c->ahead_start - RECORD_SIZE);
        }
        if (link->status == 0 && c->in.there && c->in.left == 0)
            end_record(c);
    }
    memmove(c->ahead, c->ahead + c->ahead_start, c->ahead_end - c->ahead_start);
    c->ahead_end -= c->ahead_start;
    c->ahead_start = 0;
}

void comm_in_release(struct comm_channel *c)
{
    struct comm_transfer *t = c->in.into;
    FLYT_ASSERT_HELD(&c->link->lock);
    c->in = (struct comm_in){ .there = false };
    if (t && --t->users == 0)
        comm_transfer_end(c->link, t, c->link->status);
}

/* ---- receiving ---- */

/* What a channel whose bytes have ended means for the link. */
static void end_of_channel(struct comm_channel *c, int status)
{
    struct comm_link *link = c->link;
    if (c->bye_heard || link->closing) {
        link->heard |= c->index == 0;           /* the peer reads nothing any more, so there is nothing to wait for */
        pthread_cond_broadcast(&link->changed);
        return;
    }
    if (c->index == 0) {
        comm_link_fail(link, link->ended ? link->ended : status, "the peer has gone");
        return;
    }
    /* Channel 0 ends with it, or says why, at once or in a moment; else only this connection is broken (engine.c). */
    comm_link_note_end(link, status);
}

/* Only the thread of the channel. Bytes, or what the channel says. */
static ssize_t receive(struct comm_channel *c, size_t *direct)
{
    static __thread uint8_t thrown_away[64 * 1024];
    struct iovec pieces[2];
    int count = 0;
    *direct = 0;
    if (c->in.there && c->in.left > 0 && c->ahead_end == 0) {
        bool kept = c->in.to != NULL;
        *direct = kept || c->in.left < sizeof thrown_away ? c->in.left : sizeof thrown_away;
        pieces[count++] = (struct iovec){ kept ? c->in.to : thrown_away, *direct };
    }
    if (*direct == c->in.left || !c->in.there)
        pieces[count++] = (struct iovec){ c->ahead + c->ahead_end, sizeof c->ahead - c->ahead_end };
    return rpc_channel_receive_into(c->wire, pieces, count);
}

static bool take_once(struct comm_channel *c, size_t *done)
{
    struct comm_link *link = c->link;
    size_t direct;
    if (link->status < 0)
        return false;
    c->busy_in = true;
    pthread_mutex_unlock(&link->lock);
    ssize_t got = receive(c, &direct);
    pthread_mutex_lock(&link->lock);
    c->busy_in = false;
    if (link->status < 0) {
        comm_in_release(c);
        return false;
    }
    if (got <= 0) {
        if (got != -EAGAIN)
            end_of_channel(c, got < 0 ? (int)got : -ECONNRESET);
        return false;
    }
    *done += (size_t)got;
    if (c->index == 0)
        link->last_heard = clock_now();
    size_t part = (size_t)got < direct ? (size_t)got : direct;
    c->ahead_end += (size_t)got - part;
    if (part > 0) {
        if (c->in.to)
            c->in.to += part;
        c->in.left -= part;
        if (c->in.left == 0)
            end_record(c);
    }
    parse(c);
    return link->status == 0;
}

bool comm_in_take(struct comm_channel *c)
{
    struct comm_link *link = c->link;
    size_t done = 0;
    bool more = true;
    pthread_mutex_lock(&link->lock);
    while (more && done < TURN)
        more = take_once(c, &done);
    struct comm_channel *control = &link->channels[0];
    bool say = link->status == 0 && (link->credit_due || link->heard_due || control->control.size);
    pthread_mutex_unlock(&link->lock);
    if (say)
        comm_out_push(control, SIZE_MAX);
    pthread_mutex_lock(&link->lock);
    if (link->at_end && !link->closing)
        comm_link_fail(link, -ESHUTDOWN, "the peer has closed the link");
    pthread_mutex_unlock(&link->lock);
    return more;
}
