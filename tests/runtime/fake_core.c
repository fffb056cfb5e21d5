/* fake_core.c: see fake_core.h. Devices, contexts, and what goes wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/fake_state.h"

_Thread_local core_context *core_current;
atomic_bool core_initialised;

struct fake_core fake;
static core_context contexts[FAKE_DEVICES];

struct fake_core *fake_core(void) { return &fake; }

void fake_core_reset(void)
{
    memset(&fake, 0, sizeof fake);
    core_current = NULL;
    for (int i = 0; i < FAKE_DEVICES; i++)
        contexts[i] = (core_context){.device = i};
    fake_memory_reset();
    fake_code_reset();
    fake_streams_reset();
    fake.device_count = FAKE_DEVICES;
}

int fake_answer(const char *call)
{
    fake.last_call = call;
    if (fake.sticky)
        return fake.sticky;
    int error = fake.next_error;
    fake.next_error = 0;
    return error;
}

int fake_note(const char *call, core_stream stream, bool blocking)
{
    fake.stream = stream;
    fake.blocking = blocking;
    return fake_answer(call);
}

int core_attach(void)
{
    if (getenv("FAKE_CORE_TRACE"))
        fprintf(stderr, "attached\n");
    if (fake.forked)
        return CORE_NOT_INITIALIZED;
    if (fake.attach_error)
        return fake.attach_error;
    /* any thread may be the first, as with the real core */
    __atomic_fetch_add(&fake.attached, 1, __ATOMIC_RELAXED);
    fake_memory_open();
    return CORE_OK;
}

int core_attach_to_use(void) { return core_attach(); }
bool core_forked(void) { return fake.forked; }
int core_sticky(void) { return fake.sticky; }
int core_take_latched(void)
{
    int error = fake.latched;
    fake.latched = 0;
    return error;
}
void core_count_local(void) { __atomic_fetch_add(&fake.local_calls, 1, __ATOMIC_RELAXED); }
void core_statistics(struct core_statistics *statistics) { memset(statistics, 0, sizeof *statistics); }

int core_device_count(int *count) { return *count = fake.device_count, CORE_OK; }
int core_driver_version(int *version) { return *version = 13010, CORE_OK; }
const struct core_device *core_device(int device)
{
    static const struct core_device devices[FAKE_DEVICES] = {
        {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, "Fake GPU", "0000:01:00.0", FAKE_MEMORY, 0, -5},
        {{2}, "Fake GPU", "0000:0A:00.0", FAKE_MEMORY, 0, -5},
    };
    return device >= 0 && device < fake.device_count ? &devices[device] : NULL;
}
/* Attribute n is 1000 + n, except where the runtime computes with it. */
int core_device_attribute(int device, int attribute, int *value)
{
    fake.attributes_read++;
    if (device < 0 || device >= fake.device_count)
        return CORE_INVALID_DEVICE;
    if (attribute < 1 || attribute > 147)
        return CORE_INVALID_VALUE;
    static const int small[] = {0, 1024, 1024, 1024, 64, INT32_MAX, 65535, 65535};
    *value = attribute < 8 ? small[attribute] : attribute == 11 ? INT32_MAX : 1000 + attribute;
    return CORE_OK;
}
const struct core_limits *_Atomic core_known_limits;
const struct core_limits *core_find_limits(int device)
{
    static const struct core_limits limits = { { INT32_MAX, 65535, 65535 }, { 1024, 1024, 64 }, 1024, 1008, INT32_MAX };
    static const struct core_limits none = { .pitch = SIZE_MAX };
    return device >= 0 && device < fake.device_count ? &limits : &none;
}
core_context *core_context_primary(int device)
{
    return device >= 0 && device < fake.device_count ? &contexts[device] : NULL;
}
int core_context_retain(core_context *context)
{
    int error = fake_answer(__func__);
    if (!error)
        context->active = true, fake.activations++;
    return error;
}
int core_context_release(core_context *context) { return (void)context, fake_answer(__func__); }
bool core_context_active(const core_context *context) { return context && !fake.forked && context->active; }
int core_context_enter(const core_context *context)
{
    if (fake.forked)
        return CORE_NOT_INITIALIZED;
    return fake.sticky ? fake.sticky : context->active ? CORE_OK : CORE_CONTEXT_DESTROYED;
}
int core_context_reset(core_context *context)
{
    context->active = false;
    fake.resets++;
    int code = fake_answer(__func__);
    return code == fake.sticky ? 0 : code; /* behind a fault it ends all the same */
}
int core_context_info(core_context *context, struct core_context_info *out)
{
    *out = (struct core_context_info){.device = context->device, .flags = context->flags, .primary = true,
                                      .active = context->active};
    return CORE_OK;
}
int core_context_set_flags(core_context *context, unsigned flags) { return context->flags = flags, CORE_OK; }
int core_context_synchronize(core_context *context)
{
    (void)context;
    fake.synchronisations++;
    return fake_answer(__func__);
}
int core_ctx_reset_persisting_l2cache(core_context *context)
{
    (void)context;
    return fake_answer("persisting");
}
int core_ctx_get_limit(core_context *context, size_t *value, int limit)
{
    return (void)context, *value = 100 + (size_t)limit, fake_answer(__func__);
}
int core_limit_set(core_context *context, int limit, size_t value)
{
    return (void)context, (void)limit, (void)value, fake_answer(__func__);
}

void core_unsupported(const char *name)
{
    snprintf(fake.unsupported, sizeof fake.unsupported, "%s", name);
    fake.unsupported_count++;
}

__attribute__((constructor)) static void begin(void)
{
    const char *error = getenv("FAKE_CORE_ATTACH_ERROR");
    fake_core_reset();
    fake.attach_error = error ? atoi(error) : 0;
}
