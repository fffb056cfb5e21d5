/* settings.c: attributes of functions that the program has set. See settings.h. */
#include "cpu/server/code/settings.h"

#include <stdlib.h>

#include "cpu/common/lock.h"
#include "cpu/server/code/code.h"

/* CUfunction_attribute: below are those that can only be asked for. */
enum { FIRST = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, COUNT = 16 };

struct settings {
    unsigned references;                  /* the function's, and launches' */
    bool known[COUNT];                    /* the driver has the attribute */
    int value[COUNT];
};

void settings_drop(struct settings *settings)
{
    if (settings && !--settings->references)
        free(settings);
}

static struct settings *hold(struct settings *settings)
{
    settings->references++;
    return settings;
}

/* With another value; held once. */
static struct settings *copy_with(const struct settings *from, int attribute, int value)
{
    struct settings *copy = malloc(sizeof *copy);
    if (!copy)
        return NULL;
    *copy = *from;
    copy->references = 1;
    copy->known[attribute - FIRST] = true;
    copy->value[attribute - FIRST] = value;
    return copy;
}

/* Before the first change: what the driver has by itself. */
static CUresult begin(struct session *session, struct function *function)
{
    if (function->settings.now)
        return CUDA_SUCCESS;
    struct settings *settings = calloc(1, sizeof *settings);
    if (!settings)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < COUNT; i++)
        settings->known[i] = session->gpu->FuncGetAttribute(&settings->value[i], (CUfunction_attribute)(FIRST + i),
                                                            function->handle) == CUDA_SUCCESS;
    settings->references = 3;
    function->settings.first = function->settings.now = function->settings.applied = settings;
    return CUDA_SUCCESS;
}

static void replace(struct settings **place, struct settings *settings)
{
    hold(settings);
    settings_drop(*place);
    *place = settings;
}

CUresult settings_apply(struct session *session, struct function *function, const struct settings *settings)
{
    struct settings *applied = function->settings.applied;
    struct settings *wanted = settings ? (struct settings *)(uintptr_t)settings : function->settings.first;
    if (!applied || applied == wanted)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < COUNT; i++)
        if (wanted->known[i] && wanted->value[i] != applied->value[i]) {
            CUresult r = session->gpu->FuncSetAttribute(function->handle, (CUfunction_attribute)(FIRST + i),
                                                        wanted->value[i]);
            result = result ? result : r;
        }
    replace(&function->settings.applied, wanted);
    return result;
}

CUresult settings_apply_now(struct session *session, struct function *function)
{
    return settings_apply(session, function, function->settings.now);
}

CUresult settings_take(struct session *session, struct function *function, uint32_t shared, struct settings **out)
{
    FLYT_ASSERT_HELD(&session->lock);
    enum { SHARED = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES };
    struct settings *now = function->settings.now;
    (void)session;
    *out = NULL;
    if (!now)
        return CUDA_SUCCESS;
    bool more = now->known[SHARED - FIRST] && now->value[SHARED - FIRST] >= 0 && shared <= INT32_MAX &&
                (int)shared > now->value[SHARED - FIRST];
    *out = more ? copy_with(now, SHARED, (int)shared) : hold(now);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void settings_end(struct function *function)
{
    settings_drop(function->settings.first);
    settings_drop(function->settings.now);
    settings_drop(function->settings.applied);
}

CUresult settings_set(struct session *session, struct function *function, int attribute, int value)
{
    if (attribute < FIRST || attribute >= FIRST + COUNT)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = begin(session, function);
    if (r == CUDA_SUCCESS)
        r = settings_apply_now(session, function);
    struct settings *changed = r == CUDA_SUCCESS ? copy_with(function->settings.now, attribute, value) : NULL;
    if (r == CUDA_SUCCESS && !changed)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS)
        r = session->gpu->FuncSetAttribute(function->handle, (CUfunction_attribute)attribute, value);
    if (r == CUDA_SUCCESS) {
        /* the driver may have made another value of it */
        session->gpu->FuncGetAttribute(&changed->value[attribute - FIRST], (CUfunction_attribute)attribute,
                                       function->handle);
        replace(&function->settings.now, changed);
        replace(&function->settings.applied, changed);
    }
    settings_drop(changed);
    return r;
}
