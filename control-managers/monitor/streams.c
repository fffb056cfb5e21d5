/* streams.c: see streams.h. */
#include "control-managers/monitor/streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BEAT_SECONDS = 10, BLOCK = 4096 };

struct event_stream {
    struct event_stream *next, **link;
    struct monitor *monitor;
    struct MHD_Connection *connection;
    uint64_t after;            /* the number of the event that it gave last: never more than the monitor's newest */
    time_t said;               /* when it gave something last, in seconds of CLOCK_MONOTONIC */
    bool rests, ends;          /* rests: its connection is suspended */
    char vm[CTL_MAX_NAME + 1]; /* only events about this one; "": all */
    char *left;                /* of an event that did not fit */
    size_t at;
};

/* Under the monitor's lock, which is taken before those of libmicrohttpd. */
static struct {
    struct event_stream *first;
    unsigned count;
    bool open;
} all;

static time_t now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* ---- what a stream says ---- */

static ssize_t give_left(struct event_stream *stream, char *buffer, size_t most)
{
    size_t size = strlen(stream->left + stream->at), taken = size < most ? size : most;
    memcpy(buffer, stream->left + stream->at, taken);
    stream->at += taken;
    if (taken == size) {
        free(stream->left);
        stream->left = NULL;
        stream->at = 0;
    }
    return (ssize_t)taken;
}

/* The next event that the caller may see. false: there is none yet. The lock is held. */
static bool next_event(struct event_stream *stream)
{
    struct monitor *monitor = stream->monitor;
    if (monitor->newest - stream->after > EVENTS_KEPT)
        stream->after = monitor->newest - EVENTS_KEPT;
    while (stream->after < monitor->newest) {
        const struct event_text *event = &monitor->events[++stream->after % EVENTS_KEPT];
        bool kept = event->number == stream->after && event->text;
        if (*stream->vm && (!kept || strcmp(event->vm, stream->vm) != 0))
            continue;
        if (asprintf(&stream->left, "id: %llu\ndata: %s\n\n", (unsigned long long)stream->after,
                     kept ? event->text : "null") < 0)
            stream->left = NULL;
        return true;
    }
    return false;
}

/* The next event, or a beat; or else the stream rests. The lock is held from the look for events until the connection
   is suspended: streams_news must not come in between and find nobody to wake. */
static ssize_t stream_read(void *context, uint64_t position, char *buffer, size_t most)
{
    struct event_stream *stream = context;
    struct monitor *monitor = stream->monitor;
    const time_t now = now_seconds();
    (void)position;
    if (stream->left)
        return give_left(stream, buffer, most);
    pthread_mutex_lock(&monitor->lock);
    const bool ends = stream->ends;
    if (!ends && !next_event(stream)) {
        stream->rests = now - stream->said < BEAT_SECONDS;
        if (stream->rests)
            MHD_suspend_connection(stream->connection);
        else
            stream->left = strdup(": waiting\n\n");
    }
    const bool rests = stream->rests;
    stream->said = rests ? stream->said : now;
    pthread_mutex_unlock(&monitor->lock);
    if (rests)
        return 0;
    return ends || !stream->left ? MHD_CONTENT_READER_END_OF_STREAM : give_left(stream, buffer, most);
}

/* ---- waking ---- */

/* The lock is held. */
static void wake(struct event_stream *stream)
{
    if (!stream->rests)
        return;
    stream->rests = false;
    MHD_resume_connection(stream->connection);
}

void streams_news(const char *vm)
{
    for (struct event_stream *one = all.first; one; one = one->next)
        if (!*one->vm || strcmp(one->vm, vm) == 0)
            wake(one);
}

void streams_renumber(struct monitor *monitor, uint64_t newest)
{
    pthread_mutex_lock(&monitor->lock);
    monitor->newest = newest;
    for (struct event_stream *one = all.first; one; one = one->next)
        if (one->after > newest)
            one->after = newest;
    pthread_mutex_unlock(&monitor->lock);
}

void streams_beat(struct monitor *monitor)
{
    const time_t now = now_seconds();
    pthread_mutex_lock(&monitor->lock);
    for (struct event_stream *one = all.first; one; one = one->next)
        if (now - one->said >= BEAT_SECONDS)
            wake(one);
    pthread_mutex_unlock(&monitor->lock);
}

static void end_all(struct monitor *monitor, bool open)
{
    pthread_mutex_lock(&monitor->lock);
    all.open = open;
    for (struct event_stream *one = all.first; one; one = one->next) {
        one->ends = true;
        wake(one);
    }
    pthread_mutex_unlock(&monitor->lock);
}

void streams_end(struct monitor *monitor) { end_all(monitor, true); }

void streams_close(struct monitor *monitor) { end_all(monitor, false); }

void streams_open(struct monitor *monitor)
{
    pthread_mutex_lock(&monitor->lock);
    all.open = true;
    pthread_mutex_unlock(&monitor->lock);
}

/* ---- beginning and ending ---- */

static void stream_free(void *context)
{
    struct event_stream *stream = context;
    pthread_mutex_lock(&stream->monitor->lock);
    all.count--;
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    pthread_mutex_unlock(&stream->monitor->lock);
    free(stream->left);
    free(stream);
}

/* A VM may have a quarter of the streams, and all VMs together three: so none shuts out another, nor they those who
   watch the whole. The lock is held. */
static bool has_room(const struct monitor *monitor, const char *vm)
{
    unsigned most = monitor->most_streams, quarter = most < 4 ? 1 : most / 4, own = 0, of_vms = 0;
    if (!all.open || all.count >= most || !*vm)
        return all.open && all.count < most;
    for (const struct event_stream *one = all.first; one; one = one->next) {
        of_vms += *one->vm != '\0';
        own += strcmp(one->vm, vm) == 0;
    }
    return own < quarter && of_vms < (most < 4 ? most : 3 * quarter);
}

/* The lock is held. */
static void keep(struct event_stream *stream)
{
    all.count++;
    stream->next = all.first;
    stream->link = &all.first;
    if (all.first)
        all.first->link = &stream->next;
    all.first = stream;
}

struct MHD_Response *stream_begin(struct monitor *monitor, struct MHD_Connection *connection,
                                  const struct access_rights *rights)
{
    const char *last = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Last-Event-ID");
    const uint64_t after = last ? strtoull(last, NULL, 10) : UINT64_MAX;
    struct event_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    pthread_mutex_lock(&monitor->lock);
    const bool room = has_room(monitor, rights->vm);
    if (room) {
        /* A number above the newest is of another cluster, or made up. It is replaced here and not at the first read:
           an event that comes in between is one that the caller awaits. */
        *stream = (struct event_stream){ .monitor = monitor,
                                         .connection = connection,
                                         .said = now_seconds(),
                                         .after = after < monitor->newest ? after : monitor->newest };
        snprintf(stream->vm, sizeof stream->vm, "%s", rights->vm);
        keep(stream);
    }
    pthread_mutex_unlock(&monitor->lock);
    if (!room) {
        free(stream);
        return NULL;
    }
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, stream_read, stream, stream_free);
    if (!response)
        stream_free(stream);
    return response;
}
