/*
 * journal.h: what the session has sent since it began, and what the program was given for it: from this another server
 * can be brought to the same state (moves/replay.c), if the one that there is is lost.
 *
 * The journal is a list of entries in the order in which they took place. A call that was sent has its arguments as
 * they travelled. An answer has its result, the streams' completed numbers in it, and a fingerprint of the rest;
 * few bytes are kept themselves. What is printed is one text per descriptor, of which there is a fingerprint.
 *
 * The program is unprotected from the moment on at which something happens that cannot be repeated from this, or for
 * which there is no room. journal_unprotect says why, once, and the journal is dropped. A session that is at another
 * server, because it has moved, has a journal that awaits another beginning (journal_forget).
 */
#ifndef FLYT_CLIENT_CORE_JOURNAL_H
#define FLYT_CLIENT_CORE_JOURNAL_H

#include <stdatomic.h>

#include "cpu/rpc/rpc.h"
#include "cpu/rpc/cpu_rpc_prot.h"

enum { JOURNAL_KEPT = 128, JOURNAL_TEXTS = 2 };

/* GIVEN: the id of a host function that is due: a replay has found it out.
   Only at the beginning of a journal that begins at a checkpoint:
   STORED: a call without an answer whose last argument is bytes of the checkpoint: struct journal_stored, then the
   arguments, with none of these bytes. BEGUN: here the session is as it was at the checkpoint. For each stream that
   there is, a struct journal_progress with the number that it had.
   ASIDE, BACK: what is read in between is not given to the program: a checkpoint was made, and did not become one. */
enum journal_kind {
    JOURNAL_SENT = 1,
    JOURNAL_ANSWERED = 2,
    JOURNAL_GIVEN = 3,
    JOURNAL_STORED = 4,
    JOURNAL_BEGUN = 5,
    JOURNAL_ASIDE = 6,
    JOURNAL_BACK = 7
};

/* `size` bytes follow, and then the next entry, at a multiple of 8. */
struct journal_entry {
    uint32_t kind, procedure, xid, size;
};

/* What follows an entry of an answer: this, `progress` numbers of streams, and of a short body its bytes. */
struct journal_answer {
    int32_t status; /* enum clnt_stat */
    int32_t result, latched, sticky;
    uint32_t progress;
    uint32_t body;           /* bytes behind the head; JOURNAL_KEPT at most, or of EVENTS: they are kept */
    uint64_t fingerprint[2]; /* of those bytes */
};
/* answer.body: the bytes behind the head may be any. */
#define JOURNAL_ANY UINT32_MAX
/* done: as the program counts, whichever server it was. */
struct journal_progress {
    uint32_t stream, unused;
    uint64_t done;
};
/* A part of what an object of a checkpoint holds: struct move_part. */
struct journal_stored {
    uint64_t object, offset, size;
    uint32_t kind, unused;
};

/* An answer's body, looked at: the head is read, and the rest pointed at. */
struct journal_reply {
    struct journal_answer answer;
    const uint8_t *progress; /* as it travels */
    const uint8_t *rest;     /* answer.body bytes */
    const uint8_t *texts;    /* as they travel */
    uint32_t text_count;
};
/* False: it is no answer of this protocol. answer.fingerprint is what journal_reply_mark makes, of all of the body. */
bool journal_reply_read(const uint8_t *body, size_t size, struct journal_reply *);
void journal_reply_mark(struct journal_reply *);
struct journal_progress journal_reply_progress(const struct journal_reply *, uint32_t index);
/* The next text: its descriptor, 0 or 1 for 1 or 2. *at begins as reply->texts. */
unsigned journal_reply_text(const uint8_t **at, const uint8_t **bytes, uint32_t *size);

/* A text as it has grown: bytes, and a fingerprint of all of them. */
struct journal_text {
    uint64_t size;
    struct XXH3_state_s *state;
};
bool journal_text_open(struct journal_text[JOURNAL_TEXTS]);
void journal_text_close(struct journal_text[JOURNAL_TEXTS]);
void journal_text_add(struct journal_text *, const uint8_t *bytes, size_t size);
bool journal_text_equal(const struct journal_text *, const struct journal_text *);

/* Before the session has a server: how many bytes the journal may have; 0: there is to be none. */
void journal_wish(size_t limit);
size_t journal_wished(void);
/* Before the first call that counts. renewed: it is to begin anew from time to time. False: no memory. */
bool journal_open(bool renewed);
extern atomic_bool journal_runs;
/* Whether calls are written down. */
static inline bool journal_on(void)
{
    return __builtin_expect(atomic_load_explicit(&journal_runs, memory_order_relaxed), 0);
}
/* ASIDE, or (false) BACK. */
void journal_set_aside(bool);
/* Whether nobody will look at what that call is answered now: bytes of a checkpoint that is being made. */
bool journal_ignores(uint32_t procedure);
/* Whether it is to begin anew from time to time, or has done so: then a server may have to know later where things
   lie. */
bool journal_is_renewed(void);
/* Three quarters of it are used. True once, until it begins anew. */
bool journal_fills(void);
void journal_unprotect(const char *why);
/* There will be no journal, although the program was to be protected: says why, here and to the cluster. */
void journal_refuse(const char *why);
/* What has been written down counts for nothing any more. The program is not protected until the journal begins anew;
   why: until then. Nobody adds anything meanwhile. Calls are written down from here on. */
void journal_forget(const char *why);
/* Whether what is written down protects the program. */
bool journal_protects(void);
/* Empty: it is protected, or was never to be. */
const char *journal_why_unprotected(void);
uint64_t journal_bytes(void);
/* Calls since the journal began, but for those by which both sides only hear of each other. */
uint64_t journal_calls(void);

/* ---- what takes place (moves/journal_calls.c) ---- */

/* Adds an entry. Returns where its bytes are to be stored; NULL: nothing is written down any more. */
uint8_t *journal_add(uint32_t kind, uint32_t procedure, uint32_t xid, size_t size);
/* Adds an answer, and its texts. *progress: the numbers of streams as they were added, reply->answer.progress of them,
   as the server counts: the caller changes `done` to what the program counts. One answer at a time. False: nothing is
   written down any more. */
bool journal_add_answer(uint32_t procedure, uint32_t xid, const struct journal_reply *,
                        struct journal_progress **progress);

/* ---- another beginning: one thread at a time ---- */

/* Begins a draft: what the journal is to begin with. False: no memory. */
bool journal_draft_open(void);
/* As the journal's own entries; NULL: there is no room. */
uint8_t *journal_draft_add(uint32_t kind, uint32_t procedure, uint32_t xid, size_t size);
/* An answer as the journal keeps it; numbers of streams in it count as the server counts. any: JOURNAL_ANY. False:
   there is no room, or the body makes no sense. */
bool journal_draft_answer(uint32_t procedure, uint32_t xid, const uint8_t *body, size_t size, bool any);
/* The draft takes the journal's place. Under the lock of the client (rpc_client_locked). False: there is no journal any
   more. */
bool journal_begin_anew(void);
/* The draft is dropped, if there is one. */
void journal_draft_drop(void);

/* ---- for the replay: nobody adds anything meanwhile ---- */

/* NULL: the first. The last one gives NULL. */
const struct journal_entry *journal_next(const struct journal_entry *);
static inline const uint8_t *journal_bytes_of(const struct journal_entry *entry)
{
    return (const uint8_t *)(entry + 1);
}
const struct journal_text *journal_texts(void);
/* What a replay has found out, and the program is given now. */
void journal_give_due(uint32_t id);
void journal_give_text(unsigned which, const uint8_t *bytes, size_t size);

#endif
