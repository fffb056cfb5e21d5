/* record.c: see record.h. */
#include "cpu/comm/link/record.h"

#include "cpu/common/little_endian.h"

#include <string.h>

void comm_record_put(uint8_t head[RECORD_SIZE], const struct comm_record *record)
{
    uint8_t *at = little_put(head, record->kind, 1);
    at = little_put(at, record->flags, 1);
    at = little_put(at, record->channel, 2);
    at = little_put(at, record->length, 4);
    at = little_put(at, record->name.space, 8);
    at = little_put(at, record->name.number, 8);
    at = little_put(at, record->offset, 8);
    at = little_put(at, record->total, 8);
    at = little_put(at, record->extra, 8);
    memcpy(at, record->note, COMM_NOTE_SIZE);
}

bool comm_record_get(const uint8_t head[RECORD_SIZE], unsigned channel, struct comm_record *record)
{
    const uint8_t *at = head;
    record->kind = (uint8_t)little_get(&at, 1);
    record->flags = (uint8_t)little_get(&at, 1);
    record->channel = (uint16_t)little_get(&at, 2);
    record->length = (uint32_t)little_get(&at, 4);
    record->name.space = little_get(&at, 8);
    record->name.number = little_get(&at, 8);
    record->offset = little_get(&at, 8);
    record->total = little_get(&at, 8);
    record->extra = little_get(&at, 8);
    memcpy(record->note, at, COMM_NOTE_SIZE);
    switch (record->kind) {
    case RECORD_BYE: return true;
    case RECORD_DATA:
        return channel > 0 && (record->flags & ~RECORD_EARLY) == 0 && record->length <= COMM_CHUNK &&
               record->offset <= record->total && record->length <= record->total - record->offset;
    case RECORD_CREDIT:
        return channel == 0 && record->length <= COMM_WINDOW && record->channel <= COMM_CHANNELS_MOST &&
               record->offset <= (uint64_t)COMM_WINDOW * COMM_CHUNK && record->extra <= COMM_EARLY;
    case RECORD_REFUSE:
    case RECORD_ABORT: return channel == 0 && record->extra >= 1 && record->extra <= 4095;
    case RECORD_CLEAR:
    case RECORD_ASK:
    case RECORD_DONE:
    case RECORD_BEAT:
    case RECORD_HEARD: return channel == 0;
    default: return false;
    }
}
