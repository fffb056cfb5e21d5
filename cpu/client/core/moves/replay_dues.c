/* replay_dues.c: see replay_dues.h. */
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/stream/host_function.h"
#include "replay_dues.h"

static bool room(struct dues *dues, flyt_id id)
{
    const size_t size = (size_t)id + 64;
    if (id < dues->size)
        return true;
    struct due_counts *larger = realloc(dues->counts, size * sizeof *larger);
    if (!larger)
        return false;
    memset(larger + dues->size, 0, (size - dues->size) * sizeof *larger);
    dues->counts = larger;
    dues->size = size;
    return true;
}

/* The server may say anything: no id is believed that the program has not given out, nor more dues than there are
   ids. */
static bool add(struct dues *dues, const flyt_due *due)
{
    const flyt_id ids = host_function_ids();
    if (due->id >= ids || dues->late_count >= ids)
        return false;
    flyt_due *more = realloc(dues->late, (dues->late_count + 1) * sizeof *more);
    if (!more)
        return false;
    dues->late = more;
    if (!room(dues, due->id))
        return false;
    dues->late[dues->late_count++] = *due;
    dues->counts[due->id].got++;
    return true;
}

/* The program has had it. */
static void take_out(struct dues *dues, flyt_id id)
{
    size_t at = 0;
    while (at < dues->late_count && dues->late[at].id != id)
        at++;
    if (at < dues->late_count)
        memmove(dues->late + at, dues->late + at + 1, (--dues->late_count - at) * sizeof *dues->late);
}

/* *events is the caller's, to be freed by events_free, also after an error. */
static bool events_read(const uint8_t *bytes, size_t size, flyt_event **events, u_int *count)
{
    XDR xdr;
    u_int serial;
    *events = NULL;
    *count = 0;
    xdrmem_create(&xdr, (char *)(uintptr_t)bytes, (u_int)size, XDR_DECODE);
    return xdr_u_int(&xdr, &serial) &&
           xdr_array(&xdr, (char **)events, count, FLYT_MAX_EVENTS, sizeof **events, (xdrproc_t)xdr_flyt_event);
}

static void events_free(flyt_event *events, u_int count)
{
    XDR xdr = { .x_op = XDR_FREE };
    if (events)
        xdr_array(&xdr, (char **)&events, &count, FLYT_MAX_EVENTS, sizeof *events, (xdrproc_t)xdr_flyt_event);
}

bool dues_take(struct dues *dues, const uint8_t *bytes, size_t size)
{
    flyt_event *events;
    u_int count;
    bool good = events_read(bytes, size, &events, &count);
    for (u_int i = 0; i < count && good; i++)
        if (events[i].kind == FLYT_EVENT_HOST_FUNCTION)
            good = add(dues, &events[i].flyt_event_u.due);
    events_free(events, count);
    return good;
}

bool dues_given(struct dues *dues, flyt_id id, bool (*await)(void *), void *context)
{
    bool good = room(dues, id);
    if (good)
        dues->counts[id].had++;
    while (good && dues->counts[id].got < dues->counts[id].had)
        good = await(context);
    take_out(dues, id);
    return good;
}

bool dues_follow(struct dues *dues, const uint8_t *bytes, size_t size, bool (*await)(void *), void *context)
{
    flyt_event *events;
    u_int count;
    bool good = events_read(bytes, size, &events, &count);
    for (u_int i = 0; i < count && good; i++)
        if (events[i].kind == FLYT_EVENT_HOST_FUNCTION)
            good = dues_given(dues, events[i].flyt_event_u.due.id, await, context);
    events_free(events, count);
    return good;
}

static uint32_t word_at(const struct journal_entry *entry, size_t index)
{
    uint32_t word = 0;
    if (entry->size >= (index + 1) * sizeof word)
        memcpy(&word, journal_bytes_of(entry) + index * sizeof word, sizeof word);
    return ntohl(word);
}

/* HOST_FUNCTION: stream, id. EVENTS: a serial number, how many have ended, their ids. */
static bool says_ended(const struct journal_entry *entry, uint32_t id)
{
    bool says = false;
    for (uint32_t i = 0; entry->procedure == FLYT_EVENTS && i < word_at(entry, 1) && !says; i++)
        says = word_at(entry, 2 + i) == id;
    return says;
}

/* Whether that host function is due, and its end had not been said before `until`. */
static bool is_held(const struct dues *dues, const struct journal_entry *function, const struct journal_entry *until)
{
    const uint32_t id = word_at(function, 1);
    uint32_t times = 0; /* an id is used again */
    bool behind = false;
    for (const struct journal_entry *e = journal_next(NULL); e && e != until; e = journal_next(e)) {
        behind = behind || e == function;
        if (e->kind != JOURNAL_SENT)
            continue;
        times += e->procedure == FLYT_HOST_FUNCTION && word_at(e, 1) == id;
        if (behind && says_ended(e, id))
            return false;
    }
    return id < dues->size && dues->counts[id].got >= times;
}

bool dues_hold(const struct dues *dues, uint32_t stream, const struct journal_entry *until)
{
    bool held = false;
    for (const struct journal_entry *e = journal_next(NULL); e && e != until && !held; e = journal_next(e))
        held = e->kind == JOURNAL_SENT && e->procedure == FLYT_HOST_FUNCTION && word_at(e, 0) == stream &&
               is_held(dues, e, until);
    return held;
}

void dues_free(struct dues *dues)
{
    free(dues->counts);
    free(dues->late);
}
