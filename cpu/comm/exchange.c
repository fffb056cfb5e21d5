/*
 * exchange.c: messages that belong together (comm_exchange, comm_exchange_all). All are posted, then the caller waits
 * until all are complete; also when one has failed, for until then memory of the caller is in use. A failure ends the
 * context, and with it all transfers.
 */
#include "cpu/comm/context.h"
#include "cpu/comm/note.h"

#include "cpu/common/clock.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 50 };

struct comm_exchange;
struct exchange_part {
    struct comm_transfer t;
    struct comm_exchange *of;
    const struct comm_message *message;
};

struct comm_exchange {
    struct comm_context *context;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned under_way;
    int status;
    struct exchange_part parts[];
};

static void part_over(struct exchange_part *part, int status)
{
    struct comm_exchange *x = part->of;
    char why[COMM_WHY_SIZE];
    bool of_link = status < 0 && status != -ESHUTDOWN && status != -EMSGSIZE &&
                   comm_peer_status(x->context, part->message->peer) == status;
    snprintf(why, sizeof why, "rank %u: a message %s rank %u: %s", x->context->settings.rank,
             part->message->sends ? "to" : "from", part->message->peer,
             status == -ESHUTDOWN ? "it has ended its context" : strerror(-status));
    if (status < 0 && !of_link) /* else whoever noticed that says why */
        comm_context_fail(x->context, status, why);
    pthread_mutex_lock(&x->lock);
    x->status = x->status ? x->status : status;
    x->under_way--;
    pthread_cond_signal(&x->changed);
    pthread_mutex_unlock(&x->lock);
}

static void part_done(struct comm_transfer *t) { part_over(t->context, t->status); }

static void part_post(struct comm_exchange *x, struct exchange_part *part, const struct comm_posting *posting)
{
    const struct comm_message *m = &posting->message;
    part->of = x;
    part->message = m;
    part->t = (struct comm_transfer){ .name = posting->name,
                                      .memory = m->memory,
                                      .size = m->size,
                                      .done = part_done,
                                      .context = part };
    pthread_mutex_lock(&x->lock);
    x->under_way++;
    pthread_mutex_unlock(&x->lock);
    int posted =
        m->sends ? comm_peer_send(x->context, m->peer, &part->t) : comm_peer_receive(x->context, m->peer, &part->t);
    if (posted)
        part_over(part, posted < 0 ? posted : part->t.status);
}

/* The n-th message of this rank to itself, and the n-th from itself. */
static int to_itself(struct comm_context *c, const struct comm_message *list, unsigned count, char *error)
{
    unsigned receive = 0, received = 0, sent = 0;
    for (unsigned i = 0; i < count; i++) {
        if (list[i].peer != c->settings.rank)
            continue;
        received += !list[i].sends;
        sent += list[i].sends;
    }
    if (sent != received)
        return rpc_explain(error, -EINVAL,
                           "a rank sends to itself and receives from itself in one group, equally often");
    for (unsigned i = 0; i < count; i++) {
        if (list[i].peer != c->settings.rank || !list[i].sends)
            continue;
        while (list[receive].peer != c->settings.rank || list[receive].sends)
            receive++;
        if (list[receive].size != list[i].size)
            return rpc_explain(error, -EINVAL, "a rank sends to itself as much as it receives");
        if (list[i].size)
            memmove(list[receive].memory, list[i].memory, list[i].size);
        receive++;
    }
    return 0;
}

static void wait_for(struct comm_exchange *x, uint64_t deadline)
{
    pthread_mutex_lock(&x->lock);
    while (x->under_way > 0) {
        uint64_t now = clock_now(), look = now + LOOK_MS * CLOCK_NS_PER_MS;
        struct timespec until = clock_timespec(look < deadline || deadline <= now ? look : deadline);
        if (pthread_cond_clockwait(&x->changed, &x->lock, CLOCK_MONOTONIC, &until) == 0 || clock_now() < deadline)
            continue;
        pthread_mutex_unlock(&x->lock);
        char why[COMM_WHY_SIZE];
        snprintf(why, sizeof why, "rank %u: messages were not complete in time", x->context->settings.rank);
        comm_context_fail(x->context, -ETIMEDOUT, why);
        pthread_mutex_lock(&x->lock);
    }
    pthread_mutex_unlock(&x->lock);
}

int comm_exchange_all(struct comm_context *c, const struct comm_posting *list, unsigned count, uint64_t deadline)
{
    struct comm_exchange *x = calloc(1, sizeof *x + count * sizeof *x->parts);
    if (!x)
        return -ENOMEM;
    x->context = c;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->changed, NULL);
    unsigned registered = 0;
    int status = 0;
    while (registered < count && status == 0) {
        status = comm_context_register(c, list[registered].message.memory, list[registered].message.size);
        registered += status == 0;
    }
    for (unsigned i = 0; i < count && status == 0; i++)
        part_post(x, &x->parts[i], &list[i]);
    wait_for(x, deadline);
    status = status ? status : x->status;
    while (registered-- > 0)
        comm_context_unregister(c, list[registered].message.memory, list[registered].message.size);
    pthread_cond_destroy(&x->changed);
    pthread_mutex_destroy(&x->lock);
    free(x);
    return status < 0 ? comm_context_reason(c, status) : 0;
}

/* Those between ranks: the n-th that is sent to a rank is the n-th that it receives. */
static int carry_out(struct comm_context *c, const struct comm_message *list, unsigned count, uint64_t deadline)
{
    struct comm_posting *postings = calloc(count + 1, sizeof *postings);
    unsigned posted = 0;
    for (unsigned i = 0; postings && i < count; i++) {
        struct comm_peer *peer = &c->peers[list[i].peer];
        if (list[i].peer == c->settings.rank)
            continue;
        const uint64_t number = list[i].sends ? ++peer->sent : ++peer->received;
        postings[posted++] = (struct comm_posting){ list[i], { COMM_MESSAGE_SPACE, number } };
    }
    const int status = postings ? comm_exchange_all(c, postings, posted, deadline) : -ENOMEM;
    free(postings);
    return status;
}

static void trace(struct comm_context *c, const struct comm_message *list, unsigned count)
{
    uint8_t note[COMM_NOTE_SIZE];
    unsigned sends = 0;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        sends += list[i].sends;
        bytes += list[i].size;
    }
    comm_note_messages(count, sends, bytes, note);
    comm_trace_begin(c, note, COMM_AUTOMATIC);
}

int comm_exchange(struct comm_context *c, const struct comm_message *list, unsigned count, uint64_t deadline,
                  char *error)
{
    bool wanted[COMM_RANKS_MOST] = { false };
    int status = comm_context_status(c, error);
    for (unsigned i = 0; i < count && status == 0; i++) {
        if (list[i].peer >= c->settings.size)
            status = rpc_explain(error, -EINVAL, "rank %u is no rank", list[i].peer);
        else
            wanted[list[i].peer] = list[i].peer != c->settings.rank;
    }
    if (status == 0)
        status = comm_context_connect(c, wanted, deadline, error);
    if (status == 0)
        status = to_itself(c, list, count, error);
    if (status < 0)
        return status;
    trace(c, list, count);
    status = carry_out(c, list, count, deadline);
    comm_trace_end(c, status);
    if (status < 0 && comm_context_status(c, error) == 0)
        rpc_explain(error, status, "messages: %s", strerror(-status));
    return status;
}
