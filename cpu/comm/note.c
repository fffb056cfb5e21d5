/* note.c: see note.h. kind (1), type (1), operation (1), 0 (1), root (4), count (8), little-endian; of messages: kind
   COMM_KINDS, in place of the root how many are sent, in its upper half how many come; the count is in bytes. Of puts
   and waits: the kinds behind it, in place of the root how many. */
#include "cpu/comm/note.h"

#include "cpu/comm/comm.h"
#include "cpu/common/little_endian.h"

#include <stdio.h>

enum { KIND_PUTS = COMM_KINDS + 1, KIND_WAITS };
#define UNEVEN UINT64_MAX /* in place of the count of a call whose parts differ */

void comm_note_call(const struct comm_call *call, uint8_t note[COMM_NOTE_SIZE])
{
    uint8_t *at = little_put(note, call->kind, 1);
    at = little_put(at, call->type, 1);
    at = little_put(at, call->operation, 1);
    at = little_put(at, 0, 1);
    at = little_put(at, call->root, 4);
    little_put(at, call->counts || call->in_counts ? UNEVEN : call->count, 8);
}

void comm_note_messages(unsigned count, unsigned sends, uint64_t bytes, uint8_t note[COMM_NOTE_SIZE])
{
    const unsigned most = UINT16_MAX, comes = count - sends;
    uint8_t *at = little_put(note, COMM_KINDS, 4);
    at = little_put(at, (sends < most ? sends : most) | (uint64_t)(comes < most ? comes : most) << 16, 4);
    little_put(at, bytes, 8);
}

void comm_note_sided(bool waits, unsigned count, uint64_t amount, uint8_t note[COMM_NOTE_SIZE])
{
    uint8_t *at = little_put(note, waits ? KIND_WAITS : KIND_PUTS, 4);
    at = little_put(at, count, 4);
    little_put(at, amount, 8);
}

void comm_call_text(const uint8_t note[COMM_NOTE_SIZE], char *text, size_t size)
{
    const uint8_t *at = note;
    const unsigned what = (unsigned)little_get(&at, 1);
    enum comm_kind kind = (enum comm_kind)what;
    enum comm_type type = (enum comm_type)little_get(&at, 1);
    enum comm_operation operation = (enum comm_operation)little_get(&at, 1);
    little_get(&at, 1);
    unsigned root = (unsigned)little_get(&at, 4);
    uint64_t count = little_get(&at, 8);
    char number[24] = "parts", rest[24] = "";
    if (count != UNEVEN)
        snprintf(number, sizeof number, "%llu", (unsigned long long)count);
    if (comm_kind_has_root(kind))
        snprintf(rest, sizeof rest, ", root %u", root);
    if (kind == COMM_KINDS)
        snprintf(text, size, "messages: %u sent, %u received, %llu bytes", root & UINT16_MAX, root >> 16,
                 (unsigned long long)count);
    else if (what == KIND_PUTS)
        snprintf(text, size, "puts: %u, %llu bytes", root, (unsigned long long)count);
    else if (what == KIND_WAITS)
        snprintf(text, size, "wait for %llu signals, of %u ranks", (unsigned long long)count, root);
    else if (kind == COMM_BARRIER)
        snprintf(text, size, "barrier");
    else
        snprintf(text, size, "%s of %s %s%s%s%s", comm_kind_name(kind), number, comm_type_name(type),
                 comm_kind_reduces(kind) ? ", " : "", comm_kind_reduces(kind) ? comm_operation_name(operation) : "",
                 rest);
}
