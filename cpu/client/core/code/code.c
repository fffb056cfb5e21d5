/*
 * code.c: the images that the program registered (registered.c), and their functions and variables, each loaded into
 * a context at its first use there.
 *
 * Two locks: code_names (short) for what was registered, and `load` of each image (held over round trips) for what of
 * it is in the contexts. Objects are never freed: a removed image leaves tombstones, so that a late or stale handle
 * gives 400. What a context has is found without a lock: function -> array by context -> loaded_function, each
 * published once and valid while its generation is the context's.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/cancel.h"
#include "cpu/common/log.h"
#include "code_state.h"
#include "cpu/client/core/api_code.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/wire/state.h"
#include "texref.h"

/* ---- functions ---- */

/* Under image->load. What is known of the function in the context; NULL: it has not been asked for. */
static struct loaded_function *function_known(core_function *f, const core_context *c, struct loaded_function *last)
{
    const struct load *load = code_load_in(f->image, c);
    uint64_t generation = atomic_load(&c->generation);
    bool loaded = !f->image->removed && load && load->tried && !load->result && load->generation == generation;
    return loaded && last && atomic_load(&last->generation) == generation ? last : NULL;
}

/* Under image->load. */
static int function_load(core_function *f, core_context *c, struct loaded_function **out)
{
    struct loaded_function *_Atomic *place = code_function_place(f, c);
    if (!place)
        return CORE_OUT_OF_MEMORY;
    struct loaded_function *older = atomic_load(place);
    if ((*out = function_known(f, c, older)))
        return (*out)->result; /* another thread was quicker */
    struct few few = { .count = 1, .functions = { f } };
    int code = code_image_load(f->image, c, &few);
    if (code)
        return code;
    if ((*out = function_known(f, c, older = atomic_load(place))))
        return (*out)->result; /* it has come with the module */
    struct loaded_function *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return CORE_OUT_OF_MEMORY;
    loaded->older = older;
    loaded->wire = code_function_id();
    struct function_question q = { .f = f, .function = loaded->wire };
    struct load *load = code_load_in(f->image, c);
    atomic_store(&loaded->generation, load->generation);
    loaded->result = function_ask(&q, c, load->module, &loaded->info);
    function_question_end(&q);
    if (code_passing(loaded->result)) {
        code = loaded->result; /* the id stays taken: the server knows the function by it while the module lives */
        free(loaded);
        return code;
    }
    loaded->next = load->functions;
    load->functions = loaded;
    atomic_store_explicit(place, loaded, memory_order_release);
    *out = loaded;
    return loaded->result;
}

int code_function(core_context *c, core_function *f, struct loaded_function **out)
{
    if (!f)
        return CORE_INVALID_HANDLE;
    struct function_table *table = atomic_load_explicit(&f->in, memory_order_acquire);
    struct loaded_function *loaded =
        table && c->wire < table->count ? atomic_load_explicit(&table->at[c->wire], memory_order_acquire) : NULL;
    if (loaded && atomic_load_explicit(&loaded->generation, memory_order_relaxed) ==
                      atomic_load_explicit(&c->generation, memory_order_acquire)) {
        *out = loaded;
        return loaded->result;
    }
    pthread_mutex_lock(&f->image->load);
    int code = function_load(f, c, out);
    pthread_mutex_unlock(&f->image->load);
    return code;
}

int core_image_load(core_context *c, core_image *image, char **log)
{
    CANCEL_DEFERRED;
    code_load_with(c, image);
    int code = context_enter(c);
    if (log)
        *log = NULL;
    if (code)
        return code;
    struct few few = { .image = image };
    pthread_mutex_lock(&image->load);
    code = code_image_load(image, c, &few);
    if (code && log && image->log)
        *log = strdup(image->log);
    pthread_mutex_unlock(&image->load);
    return code;
}

int core_function_find(core_context *c, core_image *image, const char *name, core_function **out)
{
    CANCEL_DEFERRED;
    struct loaded_function *loaded;
    core_function *f;
    code_load_with(c, image);
    int code = context_enter(c);
    if (!code)
        code = code_function_add(image, name, true, &f);
    if (!code)
        code = code_function(c, f, &loaded);
    if (!code)
        *out = f;
    return code;
}

/* The names in one block behind the pointers to them. */
static int names_add(char ***names, size_t *bytes, unsigned have, const module_names_result *part)
{
    unsigned count = part->count;
    size_t head = count * sizeof **names, more = *bytes;
    for (u_int i = 0; i < part->names.names_len; i++)
        more += strlen(part->names.names_val[i]) + 1;
    char **block = realloc(*names, head + more + 1);
    if (!block || have + part->names.names_len > count)
        return CORE_OUT_OF_MEMORY;
    *names = block;
    char *at = (char *)block + head + *bytes;
    for (u_int i = 0; i < part->names.names_len; i++, at += strlen(at) + 1)
        strcpy(at, part->names.names_val[i]);
    *bytes = more;
    return CORE_OK;
}

int code_names_of(struct client_session *session, uint32_t procedure, flyt_id module, char ***names,
                  unsigned *count)
{
    size_t bytes = 0;
    unsigned have = 0, all = 0;
    int code;
    *names = NULL;
    do {
        module_names_args args = { .module = module, .first = have };
        module_names_result part = { .count = 0 };
        code = wire_call(session, procedure, (xdrproc_t)xdr_module_names_args, &args,
                         (xdrproc_t)xdr_module_names_result, &part);
        if (!code && have && part.count != all)
            code = CORE_UNKNOWN; /* it cannot change */
        all = part.count;
        if (!code)
            code = names_add(names, &bytes, have, &part);
        have += part.names.names_len;
        bool stuck = !part.names.names_len;
        xdr_free((xdrproc_t)xdr_module_names_result, &part);
        if (stuck && have < all)
            code = code ? code : CORE_UNKNOWN;
    } while (!code && have < all);
    if (code) {
        free(*names);
        return code;
    }
    char *at = (char *)(*names + all);
    for (unsigned i = 0; i < all; i++, at += strlen(at) + 1)
        (*names)[i] = at;
    *count = all;
    return CORE_OK;
}

int code_module(core_context *c, core_image *image, flyt_id *module)
{
    struct few none = { .count = 0 };
    int code = code_image_load(image, c, &none);
    *module = code ? 0 : code_load_in(image, c)->module;
    return code;
}

int core_image_functions(core_context *c, core_image *image, char ***names, unsigned *count)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    flyt_id module;
    pthread_mutex_lock(&image->load);
    code = code_module(c, image, &module);
    pthread_mutex_unlock(&image->load);
    return code ? code : code_names_of(c->session, FLYT_MODULE_NAMES, module, names, count);
}

/* ---- variables ---- */

int core_variable_address(core_context *c, core_variable *v, uint64_t *address, size_t *size)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    if (!v)
        return CORE_INVALID_HANDLE;
    core_image *image = v->image;
    struct few none = { .count = 0 };
    pthread_mutex_lock(&image->load);
    code = code_image_load(image, c, &none);
    uint64_t generation = atomic_load(&c->generation);
    const struct placed *p = code_placed_in(v, c);
    if (!code && !(p && p->generation == generation && (p->address || p->result)))
        code = code_module_load(image, c, &none); /* registered after the image was loaded */
    p = code_placed_in(v, c);
    if (!code)
        code = p ? p->result : CORE_OUT_OF_MEMORY;
    if (!code) {
        *address = p->address;
        *size = p->size;
        if (!*address)
            code = CORE_NOT_FOUND;
    }
    pthread_mutex_unlock(&image->load);
    return code;
}

/* ---- the end of images and contexts ---- */

void code_forget_context(core_context *c)
{
    for (core_image *image = code_images_first(); image; image = image->next) {
        pthread_mutex_lock(&image->load);
        struct load *load = code_load_in(image, c);
        if (load)
            code_load_end(load);
        pthread_mutex_unlock(&image->load);
    }
}

static void symbols_forget(core_image *image, const core_context *c, uint64_t generation)
{
    pthread_mutex_lock(&code_names);
    for (unsigned i = 0; i < image->variables.size; i++)
        for (struct name *n = image->variables.buckets[i]; n; n = n->next) {
            core_variable *v = (core_variable *)n;
            const struct placed *p = code_placed_in(v, c);
            struct core_range range;
            if (p && p->address && p->generation == generation &&
                address_remove_variable(c, p->address, &range) && range.flags & CORE_MANAGED)
                managed_variable_ends(p->address, p->size);
        }
    pthread_mutex_unlock(&code_names);
}

static void function_forget(core_function *f)
{
    struct function_table *table = atomic_load(&f->in);
    for (unsigned i = 0; table && i < table->count; i++) {
        struct loaded_function *loaded = atomic_load(&table->at[i]);
        if (loaded)
            atomic_store(&loaded->generation, UINT64_MAX);
    }
}

void core_image_remove(core_image *image)
{
    CANCEL_DEFERRED;
    if (!image || core_forked())
        return;
    context_settle_promises(); /* takes contexts' locks, which must not be taken under image->load */
    pthread_mutex_lock(&image->load);
    bool was_removed = image->removed;
    image->removed = true;
    texrefs_forget_image(image);
    for (struct load *load = was_removed || !session_ready() ? NULL : image->in; load; load = load->next) {
        uint64_t generation = atomic_load(&load->context->generation);
        if (load->ahead)
            code_ahead_end(load);
        if (!load->tried || load->result || load->generation != generation)
            continue;
        symbols_forget(image, load->context, generation);
        if (!atomic_load(&load->context->session->sticky)) {
            module_args args = { .module = load->module };
            changes_note();
            wire_send(load->context->session, FLYT_MODULE_UNLOAD, (xdrproc_t)xdr_module_args, &args);
        }
        code_load_end(load);
    }
    bundle_free(&image->bundle);
    free(image->log);
    image->log = NULL;
    pthread_mutex_lock(&code_names);
    for (unsigned i = 0; i < image->functions.size; i++)
        for (struct name *n = image->functions.buckets[i]; n; n = n->next)
            function_forget((core_function *)n);
    pthread_mutex_unlock(&code_names);
    pthread_mutex_unlock(&image->load);
}
