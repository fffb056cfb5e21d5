/*
 * registered.c: the images that the program registered, and their functions and variables by name. Registration may
 * happen in a dlopen of any thread, and beside a fork; its lock is held for a moment only.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/cancel.h"
#include "code_state.h"

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

int core_image_add(const void *wrapper, core_image **out)
{
    CANCEL_DEFERRED;
    core_image *image = calloc(1, sizeof *image);
    if (!image)
        return CORE_OUT_OF_MEMORY;
    image->wrapper = wrapper;
    pthread_mutex_init(&image->load, NULL);
    pthread_mutex_lock(&code_names);
    image->next = code_images;
    code_images = image;
    pthread_mutex_unlock(&code_names);
    *out = image;
    return CORE_OK;
}

int core_function_add(core_image *image, const char *name, core_function **out)
{
    CANCEL_DEFERRED;
    if (!image || !name || strlen(name) > FLYT_MAX_NAME)
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&code_names);
    core_function *f = (core_function *)name_find(&image->functions, name);
    if (!f && (f = calloc(1, sizeof *f))) {
        f->image = image;
        if (!name_add(&image->functions, &f->name, name)) {
            free(f->name.text);
            free(f);
            f = NULL;
        }
    }
    pthread_mutex_unlock(&code_names);
    *out = f;
    return f ? CORE_OK : CORE_OUT_OF_MEMORY;
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
