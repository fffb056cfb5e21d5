/*
 * note.h: what a rank calls, in 16 bytes: they travel with its messages, so that a mismatch names both calls, and stand
 * in the recorder (cpu/common/comm_book.h).
 */
#ifndef FLYT_COMM_NOTE_H
#define FLYT_COMM_NOTE_H

#include <stddef.h>
#include <stdint.h>

#include "cpu/comm/link/link.h"

struct comm_call;

void comm_note_call(const struct comm_call *, uint8_t note[COMM_NOTE_SIZE]);
/* Of comm_exchange: so many, of which so many are sent, and the bytes of all. */
void comm_note_messages(unsigned count, unsigned sends, uint64_t bytes, uint8_t note[COMM_NOTE_SIZE]);
/* Of comm_put: so many, and their bytes; of comm_await: waits, and signals. */
void comm_note_sided(bool waits, unsigned count, uint64_t amount, uint8_t note[COMM_NOTE_SIZE]);
/* "all-reduce of 5 int32, sum". Any bytes; the text is cut to size. */
void comm_call_text(const uint8_t note[COMM_NOTE_SIZE], char *text, size_t size);

#endif
