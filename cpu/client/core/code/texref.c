/*
 * texref.c: texture and surface references. See texref.h. Twin: cpu/server/code/texref.c.
 *
 * Locks: the image's `load`, then the one below, then those of the connection. HEED_TEXREFS in launch_heed is set while
 * some reference has a state that the server does not know: so a launch looks here only then.
 */
#include "texref.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "code_state.h"
#include "cpu/client/core/api_code.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/common/cancel.h"
#include "cpu/common/lock.h"
#include "cpu/common/texel.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/memory/memory.h"
#include "registry.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

struct core_texref {
    struct core_texref *next; /* of those in use, or of the unused ones */
    core_context *context;
    const core_image *image; /* NULL: no image's */
    char *name;
    flyt_id module;
    bool changed;                 /* the server does not know the state */
    core_texref_refresh *refresh; /* NULL: no front end has set one */
    const void *user;
    struct texref_state state;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registry handles;
static core_texref *texrefs, *spare;
static uint64_t count;

/* ---- records; under the lock ---- */

static core_texref *record_make(core_context *context, const core_image *image, const char *name, bool surface)
{
    FLYT_ASSERT_HELD(&lock);
    char *copy = strdup(name);
    core_texref *t = spare ? spare : calloc(1, sizeof *t);
    if (!t || !copy || !registry_set(&handles, t, t)) {
        if (t != spare)
            free(t);
        free(copy);
        return NULL;
    }
    if (t == spare)
        spare = t->next;
    *t = (core_texref){ .next = texrefs, .context = context, .image = image, .name = copy };
    texref_begin(&t->state, surface);
    texrefs = t;
    count++;
    return t;
}

static void record_drop(core_texref **at)
{
    FLYT_ASSERT_HELD(&lock);
    core_texref *t = *at;
    *at = t->next;
    registry_set(&handles, t, NULL);
    free(t->name);
    t->name = NULL;
    t->next = spare;
    spare = t;
    count--;
}

static void forget(const core_image *image, const core_context *context)
{
    pthread_mutex_lock(&lock);
    for (core_texref **at = &texrefs; *at;) {
        if (image ? (*at)->image == image : (*at)->context == context)
            record_drop(at);
        else
            at = &(*at)->next;
    }
    pthread_mutex_unlock(&lock);
}

void texrefs_forget_image(const core_image *image) { forget(image, NULL); }
void texrefs_forget_context(core_context *context) { forget(NULL, context); }

uint64_t texrefs_count(void)
{
    pthread_mutex_lock(&lock);
    uint64_t now = count;
    pthread_mutex_unlock(&lock);
    return now;
}

/* ---- finding ---- */

static core_texref *known(const core_context *context, const core_image *image, const char *name, bool surface)
{
    pthread_mutex_lock(&lock);
    core_texref *t = texrefs;
    while (t &&
           !(t->image == image && t->context == context && t->state.surface == surface && strcmp(t->name, name) == 0))
        t = t->next;
    pthread_mutex_unlock(&lock);
    return t;
}

/* Under image->load, so that the image stays, and two threads make one record. */
static int find(core_context *context, core_image *image, flyt_id module, const char *name, bool surface,
                core_texref **out)
{
    texref_find_args args = { .module = module, .name = (char *)(uintptr_t)name, .surface = surface };
    plain_result result = { .head = { 0 } };
    if ((*out = known(context, image, name, surface)))
        return CORE_OK;
    int code =
        wire_call(context->session, FLYT_TEXREF_FIND, (xdrproc_t)xdr_texref_find_args, &args,
                  (xdrproc_t)xdr_plain_result, &result);
    xdr_free((xdrproc_t)xdr_plain_result, &result);
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    core_texref *t = record_make(context, image, name, surface);
    if (t)
        t->module = module;
    pthread_mutex_unlock(&lock);
    *out = t;
    return t ? CORE_OK : CORE_OUT_OF_MEMORY;
}

int core_texref_find(core_context *context, core_image *image, const char *name, bool surface, core_texref **out)
{
    CANCEL_DEFERRED;
    flyt_id module;
    if (strlen(name) >= FLYT_MAX_NAME)
        return CORE_NOT_FOUND;
    int code = context_enter(context);
    if (!code && !(core_session.hello.capabilities & FLYT_CAP_TEXREFS))
        code = CORE_NOT_SUPPORTED;
    if (code)
        return code;
    pthread_mutex_lock(&image->load);
    code = code_module(context, image, &module);
    if (!code)
        code = find(context, image, module, name, surface, out);
    pthread_mutex_unlock(&image->load);
    return code;
}

int core_texref_create(core_context *context, core_texref **out)
{
    CANCEL_DEFERRED;
    int code = context_enter(context);
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    core_texref *t = record_make(context, NULL, "", false);
    pthread_mutex_unlock(&lock);
    *out = t;
    return t ? CORE_OK : CORE_OUT_OF_MEMORY;
}

int core_texref_destroy(core_texref *t)
{
    CANCEL_DEFERRED;
    int code = CORE_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (core_texref **at = &texrefs; *at; at = &(*at)->next)
        if (*at == t && !t->image && !t->state.surface) {
            record_drop(at);
            code = CORE_OK;
            break;
        }
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- the state ---- */

struct texref_state *core_texref_open(core_texref *handle, bool surface, core_context **context)
{
    pthread_mutex_lock(&lock);
    core_texref *t = registry_find(&handles, handle);
    if (t && t->state.surface == surface) {
        *context = t->context;
        return &t->state;
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void core_texref_close(core_texref *t, bool changed)
{
    if (changed && t->image) {
        t->changed = true;
        atomic_fetch_or_explicit(&launch_heed, HEED_TEXREFS, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

static uint64_t limit(int device, int attribute)
{
    int value = 0;
    return core_device_attribute(device, attribute, &value) || value < 0 ? 0 : (uint64_t)value;
}

static struct texref_limits limits_of(const core_context *context)
{
    /* CUdevice_attribute numbers */
    enum {
        TEXTURE_ALIGNMENT = 14,
        TEXTURE_PITCH_ALIGNMENT = 51,
        LINEAR_1D_WIDTH = 69,
        LINEAR_2D_WIDTH = 70,
        LINEAR_2D_HEIGHT = 71,
        LINEAR_2D_PITCH = 72
    };
    const int device = context->device;
    return (struct texref_limits){ .alignment = limit(device, TEXTURE_ALIGNMENT),
                                   .pitch_alignment = limit(device, TEXTURE_PITCH_ALIGNMENT),
                                   .linear_width = limit(device, LINEAR_1D_WIDTH),
                                   .width = limit(device, LINEAR_2D_WIDTH),
                                   .height = limit(device, LINEAR_2D_HEIGHT),
                                   .pitch = limit(device, LINEAR_2D_PITCH) };
}

uint64_t core_texref_alignment(core_context *context) { return limits_of(context).alignment; }

int core_texref_set_array(core_texref *t, enum texref_resource resource, core_array array, unsigned flags)
{
    CANCEL_DEFERRED;
    core_context *context;
    struct core_array_shape shape;
    unsigned levels;
    struct texref_state *state = core_texref_open(t, false, &context);
    if (!state)
        return CORE_INVALID_VALUE;
    int code = resource == TEXREF_ARRAY ? core_array_shape(array, &shape) : core_mipmap_shape(array, &shape, &levels);
    if (!code)
        code = texref_set_array(state, resource, array, shape.format, shape.channels, flags);
    core_texref_close(t, !code);
    return code;
}

int core_texref_set_surface(core_texref *t, core_array array, unsigned flags)
{
    CANCEL_DEFERRED;
    enum { SURFACE_LDST = 2 }; /* CUDA_ARRAY3D_SURFACE_LDST */
    core_context *context;
    struct core_array_shape shape;
    struct texref_state *state = core_texref_open(t, true, &context);
    if (!state)
        return CORE_INVALID_VALUE;
    int code = core_array_shape(array, &shape);
    if (!code)
        code = texref_set_surface(state, array, shape.flags & SURFACE_LDST, flags);
    core_texref_close(t, !code);
    return code;
}

int core_texref_set_address(core_texref *t, uint64_t address, uint64_t bytes, size_t *offset)
{
    CANCEL_DEFERRED;
    core_context *context;
    struct texref_state *state = core_texref_open(t, false, &context);
    if (!state)
        return CORE_INVALID_VALUE;
    const struct texref_limits limits = limits_of(context);
    int code = CORE_INVALID_VALUE;
    if ((!address && !bytes) || (bytes && address_covers(address, bytes)))
        code = texref_set_address(state, &limits, address, bytes, offset);
    core_texref_close(t, !code);
    return code;
}

int core_texref_set_address_2d(core_texref *t, uint64_t address, int format, unsigned channels, uint64_t width,
                               uint64_t height, uint64_t pitch)
{
    CANCEL_DEFERRED;
    core_context *context;
    struct texref_state *state = core_texref_open(t, false, &context), next;
    if (!state)
        return CORE_INVALID_VALUE;
    const struct texref_limits limits = limits_of(context);
    next = *state;
    int code = texref_set_address_2d(&next, &limits, address, format, channels, width, height, pitch);
    /* The limits leave no overflow. */
    if (!code && !address_covers(address, (height - 1) * pitch + width * texel_size(format, channels)))
        code = CORE_INVALID_VALUE;
    if (!code)
        *state = next;
    core_texref_close(t, !code);
    return code;
}

int core_texref_set_format(core_texref *t, int format, unsigned channels)
{
    CANCEL_DEFERRED;
    core_context *context;
    struct texref_state *state = core_texref_open(t, false, &context);
    if (!state)
        return CORE_INVALID_VALUE;
    int code = texref_set_format(state, format, (int)channels);
    core_texref_close(t, !code);
    return code;
}

void core_texref_follow(core_texref *t, core_texref_refresh *refresh, const void *user)
{
    core_context *context;
    if (!core_texref_open(t, false, &context))
        return;
    t->refresh = refresh;
    t->user = user;
    core_texref_close(t, true);
}

/* ---- to the server ---- */

static int tell(const core_texref *t)
{
    const struct texref_state *s = &t->state;
    texref_set_args args = {
        .module = t->module,
        .name = t->name,
        .surface = s->surface,
        .resource = (enum flyt_texref_resource)s->resource,
        .array = s->array,
        .address = s->address,
        .bytes = s->bytes,
        .width = s->width,
        .height = s->height,
        .pitch = s->pitch,
        .format = s->format,
        .channels = s->channels,
        .filter = s->filter,
        .level_filter = s->level_filter,
        .bias = s->bias,
        .least = s->least,
        .most = s->most,
        .anisotropy = s->anisotropy,
        .flags = s->flags,
    };
    memcpy(args.wrap, s->wrap, sizeof args.wrap);
    memcpy(args.border, s->border, sizeof args.border);
    changes_note();
    return wire_send(t->context->session, FLYT_TEXREF_SET, (xdrproc_t)xdr_texref_set_args, &args);
}

/* Whether it must be looked at again before each launch. */
static bool refresh(core_texref *t)
{
    struct texref_state next = t->state;
    if (!t->refresh || t->state.resource == TEXREF_UNBOUND)
        return false;
    t->refresh(t->user, &next);
    t->changed |= memcmp(&next, &t->state, sizeof next) != 0;
    memcpy(&t->state, &next, sizeof next);
    return true;
}

int texrefs_before_launch(void)
{
    int code = CORE_OK;
    bool again = false;
    pthread_mutex_lock(&lock);
    for (core_texref *t = texrefs; t && !code; t = t->next) {
        again |= refresh(t);
        if (t->changed && !(code = tell(t)))
            t->changed = false;
    }
    if (!code && !again)
        atomic_fetch_and_explicit(&launch_heed, ~(unsigned)HEED_TEXREFS, memory_order_release);
    pthread_mutex_unlock(&lock);
    return code;
}

/* The new server knows none of them. */
void texrefs_moved(struct move *move, bool moved)
{
    (void)move;
    if (!moved)
        return;
    pthread_mutex_lock(&lock);
    for (core_texref *t = texrefs; t; t = t->next) {
        t->changed = t->image != NULL;
        if (t->changed)
            atomic_fetch_or_explicit(&launch_heed, HEED_TEXREFS, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}
