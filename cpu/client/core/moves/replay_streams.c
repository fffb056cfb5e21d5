/* replay_streams.c: see replay_streams.h. */
#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "replay_streams.h"

static bool larger(uint64_t **numbers, size_t from, size_t to)
{
    uint64_t *more = realloc(*numbers, to * sizeof *more);
    if (!more)
        return false;
    memset(more + from, 0, (to - from) * sizeof *more);
    *numbers = more;
    return true;
}

static bool room(struct replay_streams *s, uint32_t stream)
{
    const size_t more = (size_t)stream + 64;
    if (stream < s->count)
        return true;
    if (!larger(&s->done, s->count, more) || !larger(&s->base, s->count, more))
        return false;
    s->count = more;
    return true;
}

bool replay_streams_open(struct replay_streams *s) { return room(s, FLYT_FIRST_STREAM - 1); }

bool replay_streams_begin(struct replay_streams *s, const struct journal_entry *entry)
{
    uint32_t stream;
    if (entry->size < sizeof stream)
        return true;
    memcpy(&stream, journal_bytes_of(entry), sizeof stream);
    stream = ntohl(stream);
    if (!room(s, stream))
        return false;
    s->done[stream] = s->base[stream] = 0;
    return true;
}

bool replay_streams_rebase(struct replay_streams *s, const struct journal_entry *entry)
{
    struct journal_progress p;
    for (size_t at = 0; at + sizeof p <= entry->size; at += sizeof p) {
        memcpy(&p, journal_bytes_of(entry) + at, sizeof p);
        if (!room(s, p.stream))
            return false;
        s->base[p.stream] = p.done;
    }
    return true;
}

void replay_streams_take(struct replay_streams *s, const struct journal_reply *reply)
{
    for (uint32_t i = 0; i < reply->answer.progress; i++) {
        struct journal_progress p = journal_reply_progress(reply, i);
        if (p.stream < s->count) /* another one it cannot have */
            s->done[p.stream] = p.done;
    }
}

uint64_t replay_streams_done(const struct replay_streams *s, const struct rpc_shared_memory *shared, uint32_t stream)
{
    uint64_t said = stream < s->count ? s->done[stream] : 0, base = stream < s->count ? s->base[stream] : 0;
    uint64_t published = shared->numbers && stream < shared->number_count
                             ? atomic_load_explicit(&shared->numbers[stream], memory_order_acquire)
                             : 0;
    return base + (said > published ? said : published);
}

void replay_streams_close(struct replay_streams *s)
{
    free(s->done);
    free(s->base);
}
