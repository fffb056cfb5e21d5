/* unanswered.h: the calls of the journal (wire/journal.h) to which there is no answer. Nobody adds to it meanwhile. */
#ifndef FLYT_CLIENT_CORE_UNANSWERED_H
#define FLYT_CLIENT_CORE_UNANSWERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the procedure has an answer. */
bool call_is_answered(uint32_t procedure);

struct unanswered {
    struct unanswered_call { uint32_t xid, procedure; } *calls; /* in their order */
    size_t count, room;
    uint64_t answers; /* to other calls than EVENTS, which the server answers by itself */
};
/* Begins as zeros. False: no memory. */
bool unanswered_find(struct unanswered *);
bool unanswered_has(const struct unanswered *, uint32_t xid);
void unanswered_free(struct unanswered *);

#endif
