/* replay_dues.h: which host functions are due, as the server said it that was lost, and as another one says it now. */
#ifndef FLYT_CLIENT_CORE_REPLAY_DUES_H
#define FLYT_CLIENT_CORE_REPLAY_DUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/client/core/wire/journal.h"
#include "cpu/rpc/cpu_rpc_prot.h"

struct due_counts { uint32_t had, got; /* how often it was said then, and now */ };

struct dues {
    struct due_counts *counts; /* by id, which is used again */
    size_t size;
    flyt_due *late; /* said now, and not then: the program is to be given them */
    size_t late_count;
};

/* The bytes behind the head of an answer to EVENTS. False: they cannot be read, or there is no memory. */
bool dues_take(struct dues *, const uint8_t *bytes, size_t size);
/* The answer that the program was given. await: returns when another answer has come (dues_take); false: none will.
   False also as above. */
bool dues_follow(struct dues *, const uint8_t *bytes, size_t size, bool (*await)(void *), void *context);
/* One that the program was given otherwise. */
bool dues_given(struct dues *, flyt_id, bool (*await)(void *), void *context);
/* Whether the stream waits for a host function that is due now, and whose end the program had not said before that
   entry of the journal. */
bool dues_hold(const struct dues *, uint32_t stream, const struct journal_entry *until);
void dues_free(struct dues *);

#endif
