/*
 * code_prepare.c: the new server of a move loads modules while the program goes on (move_prepare.c), and looks up the
 * functions that the program has used. A program may load, remove and use code meanwhile. So what is known here counts
 * at rest only for a module that the program still has, as it was loaded then (load->serial). What it has unloaded, the
 * new server unloads; what it has loaded since, is loaded at rest.
 *
 * The mover's thread does all of it. The bytes of an image are the program's, which may unmap them as soon as it has
 * removed the image: so they are read under image->load alone, and in parts, since a thread that uses code of this
 * image for the first time waits for that lock. No other lock of an image or a context is held meanwhile, and none is
 * held while the new server loads.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/code/code_move.h"
#include "cpu/client/core/wire/wire.h"

enum { SENT_AT_ONCE = 4 << 20 };

struct prepared_function {
    const struct loaded_function *loaded;
    const core_function *f;
    bool there;
    struct moving_attributes attributes;
};

struct prepared_module {
    struct moving_module m;
    uint64_t serial;
    bool there;                               /* the new server has it */
    struct prepared_function *functions;      /* in the order of `loaded` */
    unsigned count;
};

struct prepared_code { struct prepared_module *modules; size_t count, room; };

/* ---- which modules there are ---- */

static int in_order_of_ids(const void *a, const void *b)
{
    const flyt_id first = ((const struct prepared_module *)a)->m.id, second = ((const struct prepared_module *)b)->m.id;
    return first < second ? -1 : first > second;
}

static bool add(struct prepared_code *code, core_image *image, struct load *load)
{
    if (code->count == code->room) {
        const size_t room = code->room ? 2 * code->room : 16;
        struct prepared_module *more = reallocarray(code->modules, room, sizeof *more);
        if (!more)
            return false;
        code->modules = more;
        code->room = room;
    }
    code->modules[code->count++] = (struct prepared_module){
        .m = { .image = image, .context = context_of_wire(load->context->wire), .load = load, .id = load->module },
        .serial = load->serial
    };
    return true;
}

/* Images and loads are never freed. */
static bool list_modules(const struct move_ahead *ahead, struct prepared_code *code)
{
    bool good = true;
    for (core_image *image = code_images_first(); image && good; image = image->next) {
        pthread_mutex_lock(&image->load);
        for (struct load *load = atomic_load(&image->removed) ? NULL : image->in; load && good; load = load->next)
            if (moving_is_loaded(load) && move_ahead_of(ahead, load->context))
                good = add(code, image, load);
        pthread_mutex_unlock(&image->load);
    }
    if (good && code->count)
        qsort(code->modules, code->count, sizeof *code->modules, in_order_of_ids);
    return good;
}

/* ---- one module ---- */

/* Under image->load, or at rest. */
static bool is_still(const struct prepared_module *p)
{
    return !atomic_load(&p->m.image->removed) && moving_is_loaded(p->m.load) && p->m.load->serial == p->serial;
}

static int in_order_of_places(const void *a, const void *b)
{
    const uintptr_t first = (uintptr_t)((const struct prepared_function *)a)->loaded;
    const uintptr_t second = (uintptr_t)((const struct prepared_function *)b)->loaded;
    return first < second ? -1 : first > second;
}

static const struct loaded_function *loaded_of(const core_function *f, const struct prepared_module *p)
{
    const struct function_table *table = atomic_load(&f->in);
    const flyt_id context = p->m.context->wire;
    const struct loaded_function *loaded = table && context < table->count ? atomic_load(&table->at[context]) : NULL;
    const bool is = loaded && !loaded->result && atomic_load(&loaded->generation) == p->m.load->generation;
    return is ? loaded : NULL;
}

/* Under image->load. Functions are never freed, and what is kept of one in a context stays, too. */
static int list_functions(struct prepared_module *p)
{
    pthread_mutex_lock(&code_names);
    const struct name_table *names = &p->m.image->functions;
    p->functions = calloc(names->count + 1, sizeof *p->functions);
    for (unsigned b = 0; p->functions && b < names->size; b++)
        for (const struct name *n = names->buckets[b]; n; n = n->next) {
            const core_function *f = (const core_function *)n;
            const struct loaded_function *loaded = loaded_of(f, p);
            if (loaded)
                p->functions[p->count++] = (struct prepared_function){ .loaded = loaded, .f = f };
        }
    pthread_mutex_unlock(&code_names);
    if (p->count)
        qsort(p->functions, p->count, sizeof *p->functions, in_order_of_places);
    return p->functions ? CORE_OK : CORE_OUT_OF_MEMORY;
}

/* Collects what the old server and the client know of the module, and asks the new server whether it has the image. */
static int begin(struct move *move, struct prepared_module *p, struct image_question *asked, bool *still)
{
    int code = CORE_OK;
    pthread_mutex_lock(&p->m.image->load);
    *still = is_still(p);
    if (*still && !(code = list_functions(p))) {
        move_go(move, MOVE_SOURCE);
        code = moving_module_save(move, &p->m);
        move_go(move, MOVE_TARGET);
        code = code ? code : bundle_ask(move_calls(move), &p->m.image->bundle, asked);
    }
    pthread_mutex_unlock(&p->m.image->load);
    return code;
}

static int send_image(struct move *move, const struct prepared_module *p)
{
    uint64_t at = 0;
    bool ended = false;
    int code = CORE_OK;
    while (!code && !ended) {
        pthread_mutex_lock(&p->m.image->load);
        if (atomic_load(&p->m.image->removed))
            code = move_refuse(move, CORE_NOT_READY, "code was unloaded while it was sent to the new server");
        else
            code = bundle_send(move_calls(move), &p->m.image->bundle, &at, SENT_AT_ONCE);
        ended = !code && at >= p->m.image->bundle.size;
        pthread_mutex_unlock(&p->m.image->load);
        if (!code)
            code = move_pace_passed(move);
    }
    return code;
}

/* A function may have the id of one whose module the program has unloaded, and the new server has not
   (prepared_unload). It is looked up at rest, behind that. */
static int get_functions(struct move *move, struct prepared_module *p)
{
    int code = CORE_OK;
    for (unsigned i = 0; i < p->count && !code; i++) {
        struct prepared_function *function = &p->functions[i];
        code = moving_function_get(move, function->f, function->loaded, p->m.id, &function->attributes);
        function->there = !code;
        if (code != CORE_INVALID_VALUE)
            continue;
        *move->why = 0;
        code = CORE_OK;
    }
    return code;
}

static int module_prepare(struct move *move, struct prepared_module *p)
{
    struct image_question asked;
    bool late, still;
    int code = begin(move, p, &asked, &still);
    if (code || !still)
        return code;
    code = bundle_wanted(&asked, wire_wait, &late);
    if (!code && late)
        code = send_image(move, p);
    if (!code)
        code = moving_module_load(move, &p->m);
    p->there = !code;
    if (!code)
        code = get_functions(move, p);
    return code ? code : move_pace_passed(move);
}

int code_prepare(struct move *move)
{
    struct prepared_code *prepared = move->ahead->code = calloc(1, sizeof *prepared);
    /* The heaps of kernels are asked for behind the list: so each module of it that needs a heap finds it. */
    int code = prepared && list_modules(move->ahead, prepared) ? kernel_heap_prepare(move) : CORE_OUT_OF_MEMORY;
    for (size_t i = 0; !code && i < prepared->count; i++)
        code = module_prepare(move, &prepared->modules[i]);
    return code ? move_refuse(move, code, "its code could not be prepared at the new server (error %d)", code)
                : CORE_OK;
}

void code_prepared_free(struct move_ahead *ahead)
{
    struct prepared_code *code = ahead ? ahead->code : NULL;
    for (size_t i = 0; code && i < code->count; i++) {
        moving_module_free(&code->modules[i].m);
        free(code->modules[i].functions);
    }
    if (code)
        free(code->modules);
    free(code);
    if (ahead)
        ahead->code = NULL;
}

/* ---- at rest ---- */

const struct prepared_module *prepared_of(const struct move *move, const struct load *load)
{
    const struct prepared_code *code = move->ahead ? move->ahead->code : NULL;
    for (size_t i = 0; code && i < code->count; i++) {
        const struct prepared_module *p = &code->modules[i];
        if (p->m.load == load && p->there && is_still(p))
            return p;
    }
    return NULL;
}

const struct moving_module *prepared_module(const struct prepared_module *p) { return &p->m; }

const struct moving_attributes *prepared_function(const struct prepared_module *p, const struct loaded_function *loaded)
{
    const struct prepared_function key = { .loaded = loaded };
    const struct prepared_function *found =
        p->count ? bsearch(&key, p->functions, p->count, sizeof key, in_order_of_places) : NULL;
    return found && found->there ? &found->attributes : NULL;
}

int prepared_unload(struct move *move)
{
    const struct prepared_code *code = move->ahead ? move->ahead->code : NULL;
    int result = CORE_OK;
    for (size_t i = 0; code && i < code->count && !result; i++) {
        module_args args = { .module = code->modules[i].m.id };
        if (code->modules[i].there && !is_still(&code->modules[i]))
            result = wire_send(&core_session, FLYT_MODULE_UNLOAD, (xdrproc_t)xdr_module_args, &args);
    }
    return result;
}
