/*
 * replay_state.h: what a replay knows (replay.c), and the calls that it sends to the new server (replay_calls.c). All
 * functions here that return a bool say in `why` what failed, and return false then; the first reason stays.
 */
#ifndef FLYT_CLIENT_CORE_REPLAY_STATE_H
#define FLYT_CLIENT_CORE_REPLAY_STATE_H

#include <string.h>

#include "cpu/client/core/moves/replay_dues.h"
#include "cpu/client/core/moves/replay_places.h"
#include "cpu/client/core/moves/replay_streams.h"
#include "cpu/client/core/moves/replay_texts.h"
#include "cpu/client/core/moves/unanswered.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/rpc/rpc.h"

struct move_fetch;
struct move_store;

struct replay_bytes {
    const uint8_t *at;
    size_t size;
};

struct replay_call {
    struct rpc_call rpc;
    struct replay_call *next; /* of the calls under way */
    const struct journal_entry *sent;
    const struct journal_entry *owed; /* the answer that it has to have */
    struct replay_bytes args;
    uint8_t *changed; /* the arguments, where they are not those of the journal */
    bool in_flight;   /* it had no answer: the answer is kept */
    uint8_t *body;
    size_t size;
    struct journal_answer got;
};

struct replay {
    struct rpc_recorder recorder; /* of `client`: its answers come in here */
    rpc_client *client;
    struct rpc_shared_memory shared;
    struct replay_call *calls;
    struct replay_call *owed;   /* calls that went on without their answers */
    struct replay_call *events; /* EVENTS calls of ours under way, the oldest first */
    struct dues dues;
    struct unanswered unanswered; /* when the server was lost */
    struct replay_streams streams;
    struct replay_places places;
    bool begun; /* the session is as it was at the checkpoint, or at its beginning */
    bool aside; /* between ASIDE and BACK */
    struct replay_call *placed; /* the last call before which something was placed; NULL: it has been answered */
    struct move_store *store; /* the checkpoint where the journal begins; NULL: it begins with the session */
    struct move_fetch *fetch; /* its parts, read ahead until the session is as it was there */
    const struct journal_entry *fetched; /* the last entry for which a part is read: the threads' of `fetch` */
    struct replay_texts texts;
    char *why;
    size_t why_size;
};

bool replay_differs(struct replay *, uint32_t procedure, const char *what);
bool replay_fails(struct replay *, const char *what);
/* For messages. */
const char *replay_call_name(uint32_t procedure);

/* Takes the answers of the new server. */
extern const struct rpc_recorder replay_recorder;

/* A call that has no answer. */
bool replay_send_async(struct replay *, const struct journal_entry *);
/* Sends bytes that the checkpoint holds (JOURNAL_STORED). A part of a heap that was all zeros has none. */
bool replay_send_stored(struct replay *, const struct journal_entry *);
/* Asks, and waits for the answer. */
bool replay_ask(struct replay *, uint32_t procedure, const struct replay_bytes *args, struct journal_answer *got);

/* One of r->calls, to be sent by replay_submit. in_flight: it had no answer. NULL: no memory. */
struct replay_call *replay_call_make(struct replay *, const struct journal_entry *, bool in_flight);
bool replay_submit(struct replay *, struct replay_call *);
/* Takes the one of this number, which had an answer, out of r->calls. It is the caller's; NULL: it was not sent. */
struct replay_call *replay_call_take(struct replay *, uint32_t xid);
void replay_call_free(struct replay *, struct replay_call *);
/* All calls that there are. */
void replay_calls_free(struct replay *);

/* Bytes of the arguments of an EVENTS call by which the client reports that no host function has ended. */
enum { REPLAY_NOTHING_ENDED = 2 * sizeof(uint32_t) };
/* Sends an EVENTS call, which the server answers when it has news. ended: the arguments of one that names
   host functions that have ended; NULL: none has. */
bool replay_events_ask(struct replay *, const struct replay_bytes *ended);
/* Hears the oldest answer: at the latest when the server beats. */
bool replay_events_hear(void *replay);

/* Of an entry JOURNAL_ANSWERED: what is known of the answer, and the bytes that were kept of it. */
static inline struct journal_answer replay_answer_of(const struct journal_entry *entry)
{
    struct journal_answer answer;
    memcpy(&answer, journal_bytes_of(entry), sizeof answer);
    return answer;
}

static inline const uint8_t *replay_answer_bytes(const struct journal_entry *entry)
{
    return journal_bytes_of(entry) + sizeof(struct journal_answer) +
           replay_answer_of(entry).progress * sizeof(struct journal_progress);
}

#endif
