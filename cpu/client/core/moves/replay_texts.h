/* replay_texts.h: what kernels print during a replay. The program has had its beginning; the rest is kept for it. */
#ifndef FLYT_CLIENT_CORE_REPLAY_TEXTS_H
#define FLYT_CLIENT_CORE_REPLAY_TEXTS_H

#include <stdbool.h>

#include "cpu/client/core/wire/journal.h"

struct surplus_text;
struct replay_texts {
    struct journal_text had[JOURNAL_TEXTS]; /* printed again so far, of what the program has had (journal_texts) */
    struct surplus_text *first, *last;      /* printed, and the program has not had it; the oldest first */
};

/* False: no memory. */
bool replay_texts_open(struct replay_texts *);
/* The texts of a reply. False: no memory. */
bool replay_texts_take(struct replay_texts *, const struct journal_reply *);
/* Has less been printed than the program has had? */
bool replay_texts_lack(const struct replay_texts *);
/* Is it what the program has had, no less and no other? */
bool replay_texts_equal(const struct replay_texts *);
/* Gives the program the rest. */
void replay_texts_give(const struct replay_texts *);
void replay_texts_close(struct replay_texts *);

#endif
