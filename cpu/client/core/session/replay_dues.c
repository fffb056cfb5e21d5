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

void dues_free(struct dues *dues)
{
    free(dues->counts);
    free(dues->late);
}
