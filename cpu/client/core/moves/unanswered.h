/* unanswered.h: the calls of the journal (wire/journal.h) to which there is no answer. Nobody adds to it meanwhile. */
#ifndef FLYT_CLIENT_CORE_UNANSWERED_H
#define FLYT_CLIENT_CORE_UNANSWERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the procedure has an answer. */
bool call_is_answered(uint32_t procedure);

struct journal_entry;

struct unanswered {
    struct unanswered_call {
        uint32_t xid, procedure;
        const struct journal_entry *sent; /* as long as the journal does not begin anew */
    } *calls;                             /* in their order */
    size_t count, room;
    uint64_t answers; /* to other calls than EVENTS, which the server answers by itself */
};
/* Begins as zeros. False: no memory. */
bool unanswered_find(struct unanswered *);
/* Whether this entry of the journal is one of them. Its number does not say it: calls with which a journal begins anew
   have numbers of their own, and later calls of the program may have the same ones. */
bool unanswered_is(const struct unanswered *, const struct journal_entry *sent);
/* Whether a call of the program with this number is one of them. */
bool unanswered_has(const struct unanswered *, uint32_t xid);
void unanswered_free(struct unanswered *);

#endif
