/*
 * stream_attributes.c: attributes of streams, as cuStreamSetAttribute sets them.
 *
 * Those that a launch may have too become attributes of each launch in the stream that does not give its own: so they
 * need no message, and a launch that is captured keeps them. The policy of synchronisation is only kept, because how a
 * thread waits is this library's own choice.
 */
#include <stdlib.h>
#include <string.h>

#include "api/launch_attributes.h"
#include "cpu/client/core/api_code.h"
#include "cpu/common/cancel.h"
#include "context.h"
#include "stream.h"

/* size: of the value's member. usual: what a stream has at first; the priority is the stream's own. */
enum { SIZE_MOST = 32 };
static const struct attribute_kind {
    int id;
    size_t size;
    uint8_t usual[4];
} kinds[] = {
#define KIND(number, size, ...) { number, size, { __VA_ARGS__ } },
    LAUNCH_ATTRIBUTES_OF_STREAMS(KIND)
#undef KIND
};
enum { KINDS = sizeof kinds / sizeof *kinds };
#define KIND(number, size, ...) _Static_assert((size) <= SIZE_MOST, "there is room for it");
LAUNCH_ATTRIBUTES_OF_STREAMS(KIND)
#undef KIND

struct stream_attributes {
    bool set[KINDS];
    uint8_t value[KINDS][SIZE_MOST];
};

atomic_bool core_stream_attributes_set;

static int kind_of(int id)
{
    int k = 0;
    while (k < KINDS && kinds[k].id != id)
        k++;
    return k;
}

int core_stream_get_attribute(core_context *c, core_stream token, int id, void *value)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int k = kind_of(id);
    int code = client_stream_enter(c, token, &s);
    if (code)
        return code;
    if (k == KINDS)
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&s->lock);
    memset(value, 0, kinds[k].size);
    if (id == LAUNCH_ATTRIBUTE_PRIORITY)
        memcpy(value, &s->priority, sizeof s->priority);
    else if (s->attributes && s->attributes->set[k])
        memcpy(value, s->attributes->value[k], kinds[k].size);
    else
        memcpy(value, kinds[k].usual, kinds[k].size < sizeof kinds[k].usual ? kinds[k].size : sizeof kinds[k].usual);
    pthread_mutex_unlock(&s->lock);
    return CORE_OK;
}

static int keep(struct client_stream *s, int k, const void *value)
{
    if (!s->attributes && !(s->attributes = calloc(1, sizeof *s->attributes)))
        return CORE_OUT_OF_MEMORY;
    s->attributes->set[k] = true;
    memcpy(s->attributes->value[k], value, kinds[k].size);
    if (kinds[k].id == LAUNCH_ATTRIBUTE_PRIORITY)
        memcpy(&s->priority, value, sizeof s->priority);
    atomic_store_explicit(&core_stream_attributes_set, true, memory_order_relaxed);
    return CORE_OK;
}

int core_stream_set_attribute(core_context *c, core_stream token, int id, const void *value)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int k = kind_of(id);
    int code = client_stream_enter(c, token, &s);
    if (!code)
        code = stream_check_attribute(s->context->device, id, value);
    if (code)
        return code;
    pthread_mutex_lock(&s->lock);
    code = keep(s, k, value);
    pthread_mutex_unlock(&s->lock);
    return code;
}

int core_stream_copy_attributes(core_context *c, core_stream to, core_stream from)
{
    CANCEL_DEFERRED;
    struct client_stream *source, *target;
    uint8_t value[SIZE_MOST];
    int code = client_stream_enter(c, to, &target);
    if (!code)
        code = client_stream_find(c, from, &source);
    for (int k = 0; k < KINDS && !code; k++) {
        code = core_stream_get_attribute(c, from, kinds[k].id, value);
        if (!code && source != target)
            code = core_stream_set_attribute(c, to, kinds[k].id, value);
    }
    return code;
}

static bool has(const struct core_launch *l, int id)
{
    for (uint32_t i = 0; i < l->attribute_count; i++)
        if (l->attributes[i].id == id)
            return true;
    return false;
}

static void add(struct core_launch *l, const struct stream_attributes *own, struct core_launch_attribute *room)
{
    if (l->attribute_count)
        memcpy(room, l->attributes, l->attribute_count * sizeof *room);
    l->attributes = room;
    for (int k = 0; k < KINDS && l->attribute_count < CORE_LAUNCH_ATTRIBUTES; k++) {
        if (!own->set[k] || !launch_attribute_has(kinds[k].id, ATTRIBUTE_OF_LAUNCHES) || has(l, kinds[k].id))
            continue;
        struct core_launch_attribute *next = &room[l->attribute_count++];
        *next = (struct core_launch_attribute){ .id = kinds[k].id };
        memcpy(next->value, own->value[k], kinds[k].size);
    }
}

int core_stream_attributes_add(core_context *c, struct core_launch *l,
                               struct core_launch_attribute room[CORE_LAUNCH_ATTRIBUTES])
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int code = client_stream_enter(c, l->stream, &s);
    if (code || l->attribute_count > CORE_LAUNCH_ATTRIBUTES)
        return code;                          /* too many: the launch refuses them */
    pthread_mutex_lock(&s->lock);
    if (s->attributes)
        add(l, s->attributes, room);
    pthread_mutex_unlock(&s->lock);
    return CORE_OK;
}
