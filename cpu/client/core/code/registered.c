/*
 * registered.c: the images that the program registered, and their functions and variables by name. Registration may
 * happen in a dlopen of any thread, and beside a fork; its lock is held for a moment only.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_code.h"
#include "cpu/common/cancel.h"
#include "cpu/common/log.h"
#include "code_state.h"
#include "registry.h"

enum { BUCKETS_AT_FIRST = 16 };

pthread_mutex_t code_names = PTHREAD_MUTEX_INITIALIZER;
core_image *code_images;

/* ---- names ---- */

static uint64_t name_hash(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);         /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(1099511628211);
    return hash;
}

static struct name *name_find(const struct name_table *t, const char *text)
{
    uint64_t hash = name_hash(text);
    struct name *n = t->size ? t->buckets[hash % t->size] : NULL;
    while (n && (n->hash != hash || strcmp(n->text, text) != 0))
        n = n->next;
    return n;
}

static bool name_grow(struct name_table *t)
{
    if (t->count < t->size)
        return true;
    unsigned size = t->size ? t->size * 2 : BUCKETS_AT_FIRST;
    struct name **buckets = calloc(size, sizeof *buckets);
    if (!buckets)
        return t->size > 0;
    for (unsigned i = 0; i < t->size; i++)
        for (struct name *n = t->buckets[i], *next; n; n = next) {
            next = n->next;
            n->next = buckets[n->hash % size];
            buckets[n->hash % size] = n;
        }
    free(t->buckets);
    t->buckets = buckets;
    t->size = size;
    return true;
}

static bool name_add(struct name_table *t, struct name *n, const char *text)
{
    n->text = strdup(text);
    n->hash = name_hash(text);
    if (!n->text || !name_grow(t))
        return false;
    n->next = t->buckets[n->hash % t->size];
    t->buckets[n->hash % t->size] = n;
    t->count++;
    return true;
}

/* ---- registration ---- */

/* Under code_names. The image with this wrapper; NULL: there is none. */
static core_image *image_of(const void *wrapper)
{
    core_image *image = code_images;
    while (image && (image->wrapper != wrapper || atomic_load(&image->removed)))
        image = image->next;
    return image;
}

/* How many images code_image_found has added and core_image_add has not taken yet. Under code_names. */
static unsigned found;

/* Under code_names. NULL: no memory. */
static core_image *image_make(const void *wrapper)
{
    core_image *image = calloc(1, sizeof *image);
    if (!image)
        return NULL;
    image->wrapper = wrapper;
    pthread_mutex_init(&image->load, NULL);
    image->next = code_images;
    return code_images = image;
}

void code_image_found(const void *wrapper)
{
    pthread_mutex_lock(&code_names);
    core_image *image = image_of(wrapper) ? NULL : image_make(wrapper);
    if (image)
        image->found = true;
    found += image != NULL;
    pthread_mutex_unlock(&code_names);
}

/* The image that was found with this wrapper becomes the caller's. NULL: none was, or it is somebody's already. */
static core_image *take_found(const void *wrapper)
{
    pthread_mutex_lock(&code_names);
    core_image *image = wrapper && found ? image_of(wrapper) : NULL;
    if (image && !image->found)
        image = NULL;
    if (image)
        image->found = false;
    found -= image != NULL;
    pthread_mutex_unlock(&code_names);
    return image;
}

int core_image_add(const void *wrapper, core_image **out)
{
    CANCEL_DEFERRED;
    if ((*out = take_found(wrapper)))
        return CORE_OK;
    pthread_mutex_lock(&code_names);
    *out = image_make(wrapper);
    pthread_mutex_unlock(&code_names);
    return *out ? CORE_OK : CORE_OUT_OF_MEMORY;
}

int core_image_add_copy(const void *wrapper, unsigned registers, core_image **out)
{
    CANCEL_DEFERRED;
    struct image_bundle bundle;
    const char *why;
    if (!registers && (*out = take_found(wrapper)))         /* its bytes are the executable's, and stay */
        return CORE_OK;
    int code = bundle_make(wrapper, &bundle, &why);
    if (code)
        log_error("a code image that this program loads cannot be read: %s", why);
    if (code || (code = bundle_bound(&bundle, registers)) || (code = bundle_copy(&bundle)))
        return code;
    if ((code = core_image_add(NULL, out))) {
        bundle_free(&bundle);
        return code;
    }
    (*out)->bundle = bundle;
    (*out)->bundled = true;
    return CORE_OK;
}

/* Of functions: those that programs may hand in. Written under code_names. */
static struct registry handles;

/* Under code_names. NULL: no memory. */
static core_function *function_make(core_image *image, const char *name)
{
    core_function *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->image = image;
    f->sought = true;
    if (registry_set(&handles, f, f) && name_add(&image->functions, &f->name, name))
        return f;
    registry_set(&handles, f, NULL);
    free(f->name.text);
    free(f);
    return NULL;
}

int code_function_add(core_image *image, const char *name, bool sought, core_function **out)
{
    if (!image || !name || strlen(name) > FLYT_MAX_NAME)
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&code_names);
    core_function *f = (core_function *)name_find(&image->functions, name);
    if (!f)
        f = function_make(image, name);
    if (f)
        f->sought = f->sought && sought;
    pthread_mutex_unlock(&code_names);
    *out = f;
    return f ? CORE_OK : CORE_OUT_OF_MEMORY;
}

int core_function_add(core_image *image, const char *name, core_function **out)
{
    CANCEL_DEFERRED;
    return code_function_add(image, name, false, out);
}

int core_function_check(const core_function *handle, core_image **image, const char **name)
{
    const core_function *f = registry_find(&handles, handle);
    if (!f || atomic_load_explicit(&f->image->removed, memory_order_relaxed))
        return CORE_INVALID_HANDLE;
    if (image)
        *image = f->image;
    if (name)
        *name = f->name.text;
    return CORE_OK;
}

int core_variable_add(core_image *image, const char *name, size_t size, bool is_constant, core_variable **out)
{
    CANCEL_DEFERRED;
    if (!image || !name || strlen(name) > FLYT_MAX_NAME)
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&code_names);
    core_variable *v = (core_variable *)name_find(&image->variables, name);
    if (!v && (v = calloc(1, sizeof *v))) {
        v->image = image;
        v->size = size;
        v->is_constant = is_constant;
        if (!name_add(&image->variables, &v->name, name)) {
            free(v->name.text);
            free(v);
            v = NULL;
        }
    }
    pthread_mutex_unlock(&code_names);
    *out = v;
    return v ? CORE_OK : CORE_OUT_OF_MEMORY;
}

void code_lock_for_fork(void)
{
    pthread_mutex_lock(&code_names);
}

void code_unlock_after_fork(void)
{
    pthread_mutex_unlock(&code_names);
}
