/*
 * relay_worker.c: how this worker asks others for what their programs export, and answers them. One thread waits for
 * each question (share_import); the worker's thread that listens to the listener brings the answers, and answers the
 * questions of others by itself. It takes only locks that nobody holds for long.
 */
#include "cpu/server/listener/relay.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/list.h"
#include "cpu/common/log.h"
#include "cpu/server/session.h"
#include "cpu/server/memory/share.h"

/* A worker answers at once, unless its machine is overloaded. */
#define RELAY_PATIENCE_NS (10 * CLOCK_NS_PER_SECOND)
/* For one of all: it may be about to end, and then says nothing. */
#define RELAY_ONE_NS CLOCK_NS_PER_SECOND
enum { RELAY_SILENT = 3 };

/* A thread that waits for an answer. */
struct asking {
    struct list of_all;
    uint32_t serial;
    int32_t worker;                       /* below 0: one of all (relay.h), until it has answered */
    bool answered, nobody;                /* nobody: there is no such worker */
    struct share_answer *answer;
    int *fds;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct list all;
    uint32_t last;
    struct session *session;
} relay = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

void relay_open(struct session *session) { relay.session = session; }

/* The upper half of a session's number is the process id of its worker. */
static int32_t worker_of(const struct share_key *key) { return (int32_t)(key->session >> 32); }

/* Asks another worker of this server, and waits for its answer. *worker: the process id of the one to ask, or -N - 1
   for the first one whose process id is greater than N; afterwards that of the one that answered. */
static int ask(int32_t *worker, const struct share_question *question, struct share_answer *answer, int *fds)
{
    struct relay_message message = { .relay = { .word = WORKER_RELAY, .peer = *worker, .size = sizeof *question } };
    struct share_question asked = *question;
    struct asking asking = { .worker = message.relay.peer, .answer = answer, .fds = fds };
    struct timespec until = clock_timespec(clock_now() + (*worker < 0 ? RELAY_ONE_NS : RELAY_PATIENCE_NS));
    pthread_mutex_lock(&relay.lock);
    asking.serial = asked.serial = ++relay.last;
    memcpy(message.relay.bytes, &asked, sizeof asked);
    list_append(&relay.all, &asking.of_all);
    int r = relay_send(WORKER_SOCKET, &message);
    while (r == 0 && !asking.answered)
        if (pthread_cond_clockwait(&relay.wake, &relay.lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT && !asking.answered)
            r = -ETIMEDOUT;
    list_remove(&asking.of_all);
    pthread_mutex_unlock(&relay.lock);
    *worker = asking.worker;
    if (r == 0 && asking.nobody)
        return -ENOENT;
    if (r != 0 && *worker >= 0)
        log_warning("event=no-answer worker=%d why=\"%s\": memory of its program cannot be imported",
                    (int)asking.worker, strerror(-r));
    return r;
}

/* The export may be of a session that has moved here, and which has another number at this server: then the key says
   nothing about its worker, and all are asked, in the order of their process ids. One that says nothing is about to
   end, or is stopped; then it begins anew. */
int relay_ask(const struct share_question *question, struct share_answer *answer, int *fds)
{
    int32_t worker = worker_of(&question->key);
    int r = ask(&worker, question, answer, fds);
    unsigned silent = 0;
    for (int32_t last = 0; r == -ENOENT || (r == 0 && answer->status == CUDA_ERROR_INVALID_VALUE);) {
        worker = -last - 1;
        const int one = ask(&worker, question, answer, fds);
        if (one == -ENOENT || (one == -ETIMEDOUT && ++silent == RELAY_SILENT))
            return r;
        r = one == -ETIMEDOUT ? -ENOENT : one;
        last = one == 0 ? worker : 0;
    }
    return r;
}

static void answered(const struct relay_message *message, const struct share_answer *answer)
{
    pthread_mutex_lock(&relay.lock);
    struct asking *asking = NULL;
    for (struct list *link = list_first(&relay.all); link && !asking; link = list_next(&relay.all, link)) {
        asking = LIST_OBJECT(link, struct asking, of_all);
        if (asking->serial != answer->serial || asking->answered ||
            (asking->worker >= 0 && asking->worker != message->relay.peer))
            asking = NULL;
    }
    bool sound = asking && answer->count == message->count; /* not more descriptors than share_ask_function allows */
    if (sound)
        memcpy(asking->fds, message->fds, message->count * sizeof(int));
    if (asking) {
        *asking->answer = *answer;
        asking->worker = message->relay.peer;
        if (!sound) {
            asking->answer->status = CUDA_ERROR_OPERATING_SYSTEM;
            asking->answer->count = 0;
        }
        asking->answered = true;
        pthread_cond_broadcast(&relay.wake);
    }
    pthread_mutex_unlock(&relay.lock);
    for (unsigned i = 0; !sound && i < message->count; i++)
        close(message->fds[i]);
}

/* The listener knows no worker of that number. */
static void nobody_there(int32_t worker)
{
    if (relay.session && worker > 0)
        share_partner_gone(relay.session, worker);
    pthread_mutex_lock(&relay.lock);
    for (struct list *link = list_first(&relay.all); link; link = list_next(&relay.all, link)) {
        struct asking *asking = LIST_OBJECT(link, struct asking, of_all);
        if (asking->worker == worker)
            asking->answered = asking->nobody = true;
    }
    pthread_cond_broadcast(&relay.wake);
    pthread_mutex_unlock(&relay.lock);
}

static void answer_question(const struct relay_message *from, const struct share_question *question)
{
    struct share_answer answer;
    struct relay_message message = { .relay = { .word = WORKER_RELAY, .peer = from->relay.peer,
                                                .size = sizeof answer } };
    share_answer(relay.session, question, &answer, message.fds);
    message.count = answer.count;
    memcpy(message.relay.bytes, &answer, sizeof answer);
    int r = relay_send(WORKER_SOCKET, &message);
    if (r != 0)
        log_warning("event=no-answer worker=%d why=\"%s\"", (int)from->relay.peer, strerror(-r));
    relay_drop(&message);
}

void relay_hear(struct relay_message *message)
{
    uint32_t word = 0;
    if (message->relay.size >= sizeof word)
        memcpy(&word, message->relay.bytes, sizeof word);
    if (word == SHARE_ANSWER && message->relay.size == sizeof(struct share_answer)) {
        struct share_answer answer;
        memcpy(&answer, message->relay.bytes, sizeof answer);
        answered(message, &answer);
        return;
    }
    if (word == SHARE_QUESTION && message->relay.size == sizeof(struct share_question)) {
        struct share_question question;
        memcpy(&question, message->relay.bytes, sizeof question);
        answer_question(message, &question);
    }
    if (message->relay.size == 0)
        nobody_there(message->relay.peer);
    relay_drop(message);
}
