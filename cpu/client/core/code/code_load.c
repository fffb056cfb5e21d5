/*
 * code_load.c: loads an image into a context: asks the server for the module, and for the variables and few functions
 * with it, when the program needs them or ahead of need. What is here is under image->load (code_state.h).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"
#include "code_state.h"
#include "cpu/client/core/api_code.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/wire/state.h"

/* Ids of modules and functions: the lowest free ones. */
struct id_pool {
    flyt_id next, *freed;
    unsigned count, room, taken;
};
static struct id_pool module_ids = { .next = 1 }, function_ids = { .next = 1 };
static pthread_mutex_t ids = PTHREAD_MUTEX_INITIALIZER;

/* An id is taken for as long as the object is there. */
static uint64_t ids_taken(const struct id_pool *pool)
{
    pthread_mutex_lock(&ids);
    uint64_t taken = pool->taken;
    pthread_mutex_unlock(&ids);
    return taken;
}

uint64_t code_modules(void) { return ids_taken(&module_ids); }

uint64_t code_functions(void) { return ids_taken(&function_ids); }

static flyt_id id_take(struct id_pool *pool)
{
    pthread_mutex_lock(&ids);
    flyt_id id = pool->count ? pool->freed[--pool->count] : pool->next++;
    pool->taken++;
    pthread_mutex_unlock(&ids);
    return id;
}

flyt_id code_function_id(void) { return id_take(&function_ids); }

static void id_give(struct id_pool *pool, flyt_id id)
{
    pthread_mutex_lock(&ids);
    pool->taken--;
    if (pool->count == pool->room) {
        unsigned room = pool->room ? pool->room * 2 : 64;
        flyt_id *more = realloc(pool->freed, room * sizeof *more);
        pool->freed = more ? more : pool->freed;
        pool->room = more ? room : pool->room;
    }
    if (pool->count < pool->room)
        pool->freed[pool->count++] = id; /* else it is never used again */
    pthread_mutex_unlock(&ids);
}

/* ---- loading an image; all under image->load ---- */

static int bundle(core_image *image)
{
    const char *why;
    if (!image->bundled) {
        int code = bundle_make(image->wrapper, &image->bundle, &why);
        if (code) {
            log_error("a code image of this program cannot be read: %s", why);
            return code;
        }
        image->bundled = true;
    }
    return CORE_OK;
}

struct load *code_load_in(const core_image *image, const core_context *c)
{
    struct load *load = image->in;
    while (load && load->context != c)
        load = load->next;
    return load;
}

struct placed *code_placed_in(const core_variable *v, const core_context *c)
{
    struct placed *p = v->in;
    while (p && p->context != c)
        p = p->next;
    return p;
}

static void place(core_variable *v, core_context *c, const flyt_symbol *symbol)
{
    struct placed *p = code_placed_in(v, c);
    *p = (struct placed){ c, symbol->result, symbol->address, symbol->size, atomic_load(&c->generation), p->next };
    if (!p->result && p->size)
        address_add(CORE_DEVICE_MEMORY, c, p->address, p->size,
                    symbol->managed ? DEVICE_SYMBOL | CORE_MANAGED : DEVICE_SYMBOL);
    if (!p->result && p->size && symbol->managed)
        p->result = managed_variable_begins(c, p->address, p->size);
}

struct loaded_function *_Atomic *code_function_place(core_function *f, const core_context *c)
{
    struct function_table *table = atomic_load(&f->in);
    if (!table || c->wire >= table->count) {
        unsigned count = c->wire + 1 > (unsigned)device_count() ? CONTEXTS_MOST : (unsigned)device_count();
        struct function_table *more = calloc(1, sizeof *more + count * sizeof more->at[0]);
        if (!more)
            return NULL;
        more->count = count;
        more->older = table;
        for (unsigned i = 0; table && i < table->count; i++)
            atomic_store(&more->at[i], atomic_load(&table->at[i]));
        atomic_store_explicit(&f->in, table = more, memory_order_release);
    }
    return &table->at[c->wire];
}

/* ---- what loads an image ---- */

/* What is loaded ahead of need: so many images, if there are no more, of so many bytes at most. */
enum { FEW_IMAGES = 4, FEW_BYTES = FLYT_MAX_INLINE };

/* The calls that load an image into a context and ask for variables and functions of it, under way. */
struct loading {
    struct module_question q;
    core_variable **variables; /* as many as q.count */
    struct function_question along[FEW_FUNCTIONS];
};

static bool few_add(void *context, const char *text, size_t size)
{
    struct few *few = context;
    char *name = few->count < FEW_FUNCTIONS && size <= FLYT_MAX_NAME ? strndup(text, size) : NULL;
    if (!name) {
        few->count = 0;
        return false;
    }
    if (code_function_add(few->image, name, true, &few->functions[few->count]) == CORE_OK)
        few->count++;
    free(name);
    return true;
}

/* The image's functions, if there are few: those that the program has registered, else those that the image shows. */
static void few_functions(struct few *few)
{
    core_image *image = few->image;
    pthread_mutex_lock(&code_names);
    unsigned all = image->functions.count;
    for (unsigned i = 0; i < image->functions.size && all <= FEW_FUNCTIONS; i++)
        for (struct name *n = image->functions.buckets[i]; n; n = n->next)
            few->functions[few->count++] = (core_function *)n;
    pthread_mutex_unlock(&code_names);
    if (!all)
        bundle_kernels(&image->bundle, FEW_BYTES, few_add, few);
}

/* Sends what loads the module and asks for up to FLYT_MAX_SYMBOLS variables, which stay the caller's, and for the
   functions. An error: nothing was sent. */
static int loading_begin(struct loading *l, core_image *image, core_context *c, core_variable **variables,
                         unsigned count, const struct few *few)
{
    *l = (struct loading){ .variables = variables };
    l->q = (struct module_question){ .image = image,
                                     .context = c,
                                     .module = code_load_in(image, c)->module,
                                     .count = count,
                                     .along = l->along,
                                     .along_count = few->count };
    if (!(l->q.symbols = calloc(count ? count : 1, sizeof *l->q.symbols)))
        return CORE_OUT_OF_MEMORY;
    for (unsigned i = 0; i < count; i++)
        l->q.symbols[i] = variables[i]->name.text;
    for (unsigned i = 0; i < few->count; i++)
        l->along[i] = (struct function_question){ .f = few->functions[i], .function = id_take(&function_ids) };
    int code = module_ask(&l->q);
    for (unsigned i = 0; i < few->count && code; i++)
        id_give(&function_ids, l->along[i].function);
    if (code)
        free(l->q.symbols);
    return code;
}

/* A function that was asked for with its module. One that the server refuses is asked for again when it is needed: then
   the program hears why. Its id stays taken: the server knows the function by it while the module lives. */
static void function_came(struct function_question *q, core_context *c, struct load *load)
{
    struct loaded_function *loaded = calloc(1, sizeof *loaded);
    if (loaded) {
        loaded->wire = q->function;
        loaded->result = q->code ? q->code : function_ask(q, c, load->module, &loaded->info);
        atomic_store(&loaded->generation, load->generation);
        loaded->next = load->functions;
        load->functions = loaded;
    }
    struct loaded_function *_Atomic *place = loaded && !loaded->result ? code_function_place(q->f, c) : NULL;
    if (place) {
        loaded->older = atomic_load(place);
        atomic_store_explicit(place, loaded, memory_order_release);
    }
    function_question_end(q);
}

/* With a module that is not loaded the server forgets its functions. */
static void functions_give(struct loading *l)
{
    for (unsigned i = 0; i < l->q.along_count; i++) {
        id_give(&function_ids, l->along[i].function);
        function_question_end(&l->along[i]);
    }
}

static int loading_end(struct loading *l, int (*wait)(struct wire_call *))
{
    core_context *c = l->q.context;
    int code = module_answered(&l->q, wait);
    for (unsigned i = 0; i < l->q.count && !code && i < l->q.result.symbols.symbols_len; i++)
        place(l->variables[i], c, &l->q.result.symbols.symbols_val[i]);
    if (code)
        functions_give(l);
    for (unsigned i = 0; i < l->q.along_count && !code; i++)
        function_came(&l->along[i], c, code_load_in(l->q.image, c));
    free(l->q.symbols);
    xdr_free((xdrproc_t)xdr_module_load_result, &l->q.result);
    return code;
}

/* The image's variables that have no place in the context yet. NULL and *count 0: none; NULL and not 0: no memory. */
static core_variable **unplaced(core_image *image, const core_context *c, unsigned *count)
{
    uint64_t generation = atomic_load(&c->generation);
    pthread_mutex_lock(&code_names);
    unsigned all = image->variables.count;
    core_variable **list = all ? malloc(all * sizeof *list) : NULL;
    *count = list ? 0 : all;
    for (unsigned i = 0; list && i < image->variables.size; i++)
        for (struct name *n = image->variables.buckets[i]; n; n = n->next) {
            core_variable *v = (core_variable *)n;
            struct placed *p = code_placed_in(v, c);
            if (!p && (p = calloc(1, sizeof *p))) {
                p->context = c;
                p->next = v->in;
                v->in = p;
            }
            if (p && !(p->address && p->generation == generation))
                list[(*count)++] = v;
        }
    pthread_mutex_unlock(&code_names);
    return list;
}

int code_module_load(core_image *image, core_context *c, const struct few *few)
{
    static const struct few none;
    unsigned count;
    core_variable **variables = unplaced(image, c, &count);
    struct loading *l = malloc(sizeof *l); /* too large for the stacks of some threads */
    int code = l && (variables || !count) ? CORE_OK : CORE_OUT_OF_MEMORY;
    unsigned at = 0;
    while (!code) {
        unsigned part = count - at < FLYT_MAX_SYMBOLS ? count - at : FLYT_MAX_SYMBOLS;
        code = loading_begin(l, image, c, variables + at, part, at ? &none : few);
        if (!code)
            code = loading_end(l, wire_wait);
        at += part;
        if (at >= count)
            break;
    }
    free(l);
    free(variables);
    return code;
}

/* The server keeps a module that it could not load, as it keeps others, until it is asked to unload it. It makes none
   for a context that has ended. */
static void module_failed(const struct load *load, int code)
{
    if (code != CORE_INVALID_CONTEXT && code != CORE_CONTEXT_DESTROYED &&
        !atomic_load(&load->context->session->sticky)) {
        module_args args = { .module = load->module };
        changes_note();
        wire_send(load->context->session, FLYT_MODULE_UNLOAD, (xdrproc_t)xdr_module_args, &args);
    }
    id_give(&module_ids, load->module);
}

/* NULL: no memory. */
static struct load *load_of(core_image *image, const core_context *c)
{
    struct load *load = code_load_in(image, c);
    if (load || !(load = calloc(1, sizeof *load)))
        return load;
    load->context = c;
    load->next = image->in;
    return image->in = load;
}

static void load_begins(struct load *load)
{
    static atomic_uint_fast64_t serials;
    load->serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;
    load->module = id_take(&module_ids);
    load->generation = atomic_load(&load->context->generation);
    load->tried = false;
    load->functions = NULL;
}

static int load_done(struct load *load, int code)
{
    if (code)
        module_failed(load, code);
    load->tried = !code_passing(code);
    return load->result = code;
}

/* ---- ahead of need ---- */

static void load_ahead(core_image *image, core_context *c)
{
    struct load *load = image->removed ? NULL : load_of(image, c);
    const char *why;
    if (!load || load->ahead || (load->tried && load->generation == atomic_load(&c->generation)))
        return;
    if (!image->bundled && !(image->bundled = !bundle_make(image->wrapper, &image->bundle, &why)))
        return; /* its user hears of it */
    unsigned count = 0;
    struct few few = { .image = image };
    core_variable **variables = image->bundle.size <= FEW_BYTES ? unplaced(image, c, &count) : NULL;
    struct loading *l = variables || !count ? calloc(1, sizeof *l) : NULL;
    if (!l || image->bundle.size > FEW_BYTES || count > FLYT_MAX_SYMBOLS) {
        free(variables);
        free(l);
        return;
    }
    few_functions(&few);
    load_begins(load);
    if (loading_begin(l, image, c, variables, count, &few)) {
        id_give(&module_ids, load->module);
        free(variables);
        free(l);
        return;
    }
    load->ahead = l;
}

void code_ahead_end(struct load *load)
{
    struct loading *l = load->ahead;
    load->ahead = NULL;
    load_done(load, loading_end(l, wire_wait_along));
    free(l->variables);
    free(l);
}

/* The context has ended, or was never made. */
static void ahead_drop(struct load *load)
{
    struct loading *l = load->ahead;
    load->ahead = NULL;
    module_dismiss(&l->q);
    functions_give(l);
    id_give(&module_ids, load->module);
    free(l->q.symbols);
    free(l->variables);
    free(l);
}

core_image *code_images_first(void)
{
    pthread_mutex_lock(&code_names);
    core_image *first = code_images;
    pthread_mutex_unlock(&code_names);
    return first;
}

void code_ahead(core_context *c)
{
    unsigned count = 0;
    core_image *first = code_images_first();
    for (core_image *image = first; image && count <= FEW_IMAGES; image = image->next)
        count += !atomic_load(&image->removed);
    for (core_image *image = count <= FEW_IMAGES ? first : NULL; image; image = image->next) {
        pthread_mutex_lock(&image->load);
        load_ahead(image, c);
        pthread_mutex_unlock(&image->load);
    }
}

void code_load_with(core_context *c, core_image *image)
{
    if (!image || !context_lock_promised(c))
        return;
    pthread_mutex_lock(&image->load);
    load_ahead(image, c);
    pthread_mutex_unlock(&image->load);
    pthread_mutex_unlock(&c->lock);
}

void code_settle(void)
{
    for (core_image *image = code_images_first(); image; image = image->next) {
        pthread_mutex_lock(&image->load);
        for (struct load *load = image->in; load; load = load->next)
            if (load->ahead) {
                load->ahead->q.unwanted = true;
                code_ahead_end(load);
                load->tried = !load->result;      /* the program hears of a refusal when it wants the image */
            }
        pthread_mutex_unlock(&image->load);
    }
}

/* Nobody here wants the answer: the journal has it, and another server hears of it before it loads the module. */
static void place_note(const struct load *load)
{
    module_place_args args = { load->module };
    module_place_result result;
    memset(&result, 0, sizeof result);
    if (core_session.hello.capabilities & FLYT_CAP_PLACES)
        wire_call(&core_session, FLYT_MODULE_PLACE, (xdrproc_t)xdr_module_place_args, &args,
                  (xdrproc_t)xdr_module_place_result, &result);
    xdr_free((xdrproc_t)xdr_module_place_result, &result);
}

int code_image_load(core_image *image, core_context *c, struct few *few)
{
    if (image->removed)
        return CORE_INVALID_HANDLE;
    struct load *load = load_of(image, c);
    if (!load)
        return CORE_OUT_OF_MEMORY;
    if (load->ahead)
        code_ahead_end(load);
    if (load->tried && load->generation == atomic_load(&c->generation))
        return load->result;
    int code = bundle(image);
    if (code) {
        load->tried = !code_passing(code);
        load->generation = atomic_load(&c->generation);
        load->functions = NULL;
        return load->result = code;
    }
    if (!few->count && few->image)
        few_functions(few);
    load_begins(load);
    code = load_done(load, code_module_load(image, c, few));
    if (!code && journal_is_renewed())
        place_note(load);
    return code;
}

void code_load_end(struct load *load)
{
    if (load->ahead)
        ahead_drop(load);
    for (struct loaded_function *f = load->functions; f; f = f->next)
        id_give(&function_ids, f->wire);
    if (!load->result && load->tried)
        id_give(&module_ids, load->module);
    load->functions = NULL;
    load->tried = false;
}
