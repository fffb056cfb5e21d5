/*
 * code_move.c: modules and functions on a move to another server (move.h).
 *
 * A module is loaded again under its id. Its variables are the driver's: the program has their addresses, so they must
 * have the same addresses at the new server, and so must its functions, to which kernels may have stored pointers. A
 * server with the software GPU says where the module lies, and another one loads it there; elsewhere the addresses of
 * the variables are compared. The server lists them, also those that the program never named, because kernels may have
 * written to them. What is in them is copied. Most modules are loaded while the program goes on (code_prepare.c): at
 * rest only those are that the program has loaded since.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_code.h"
#include "cpu/client/core/code/code_move.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/log.h"

struct moving_code { struct moving_module *modules; unsigned count; };

/* ---- saving ---- */

static int in_order_of_ids(const void *a, const void *b)
{
    flyt_id first = ((const struct moving_module *)a)->id, second = ((const struct moving_module *)b)->id;
    return first < second ? -1 : first > second;
}

static int module_take(struct move *move, struct moving_module *m, core_image *image, struct load *load)
{
    const struct prepared_module *ahead = prepared_of(move, load);
    *m = ahead ? *prepared_module(ahead)
               : (struct moving_module){ .image = image, .context = context_of_wire(load->context->wire),
                                         .load = load, .id = load->module };
    m->ahead = ahead;
    return ahead ? CORE_OK : moving_module_save(move, m);
}

int code_save(struct move *move)
{
    struct moving_code *moving = move->of[KIND_MODULE] = calloc(1, sizeof *moving);
    unsigned room = 0;
    int code = moving ? CORE_OK : CORE_OUT_OF_MEMORY;
    for (core_image *image = code_images_first(); image && !code; image = image->next) {
        for (struct load *load = image->in; load && !code; load = load->next) {
            if (image->removed || !moving_is_loaded(load))
                continue;
            if (moving->count == room) {
                room = room ? 2 * room : 16;
                struct moving_module *more = realloc(moving->modules, room * sizeof *more);
                if (!more)
                    return CORE_OUT_OF_MEMORY;
                moving->modules = more;
            }
            code = module_take(move, &moving->modules[moving->count++], image, load);
        }
    }
    /* Drivers place what they are given first first: so the addresses are the same more often. */
    if (!code && moving->count)
        qsort(moving->modules, moving->count, sizeof *moving->modules, in_order_of_ids);
    return code;
}

/* ---- restoring ---- */

int code_restore(struct move *move)
{
    const struct moving_code *moving = move->of[KIND_MODULE];
    unsigned at_rest = 0;
    int code = prepared_unload(move);
    for (unsigned i = 0; i < moving->count && !code; i++) {
        const struct moving_module *m = &moving->modules[i];
        if (m->ahead)
            continue;
        at_rest++;
        code = bundle_announce(&core_session, &m->image->bundle);
        if (!code)
            code = moving_module_load(move, m);
    }
    if (move->steps == MOVE_ACROSS)
        log_info("%u of %u modules were loaded at the new server while the program stood still", at_rest,
                 moving->count);
    return code;
}

uint64_t code_size(const struct move *move, bool adopts)
{
    const struct moving_code *moving = move->of[KIND_MODULE];
    uint64_t sum = 0;
    (void)adopts;
    for (unsigned i = 0; moving && i < moving->count; i++)
        for (unsigned v = 0; v < moving->modules[i].count; v++)
            sum += moving->modules[i].symbols[v].result ? 0 : moving->modules[i].symbols[v].size;
    return sum;
}

int code_contents(struct move *move)
{
    const struct moving_code *moving = move->of[KIND_MODULE];
    int code = CORE_OK;
    for (unsigned i = 0; i < moving->count && !code; i++) {
        const struct moving_module *m = &moving->modules[i];
        for (unsigned v = 0; v < m->count && !code; v++)
            if (!m->symbols[v].result)
                code = move_bytes(move, m->context, m->symbols[v].address, m->symbols[v].size);
    }
    return code;
}

/* ---- functions ---- */

/* What the program has set, it set with core_function_set, which keeps it. */
static int attributes_restore(struct move *move, const struct loaded_function *f, const struct moving_attributes *there)
{
    for (unsigned i = 0; i < there->count; i++) {
        const flyt_attribute *a = &there->all[i];
        const int kept = f->info.attributes[a->name];
        if (kept == a->value)
            continue;
        func_set_attribute_args args = { .hfunc = f->wire, .attrib = a->name, .value = kept };
        int code = wire_plain(&core_session, FLYT_FUNC_SET_ATTRIBUTE, (xdrproc_t)xdr_func_set_attribute_args, &args);
        if (code)
            return move_refuse(move, code, "attribute %d of a kernel is %d, and the new server refuses that (error %d)",
                               a->name, kept, code);
    }
    return CORE_OK;
}

/* Notes the attributes that the program has set. Those that a server will answer for the kernel are not known yet. */
static int attributes_note(const struct loaded_function *f)
{
    int code = CORE_OK;
    for (int i = CORE_FUNCTION_SETTABLE; i < CORE_FUNCTION_ATTRIBUTES && !code; i++) {
        func_set_attribute_args args = { .hfunc = f->wire, .attrib = i, .value = f->info.attributes[i] };
        if (f->chosen >> i & 1)
            code = wire_plain(&core_session, FLYT_FUNC_SET_ATTRIBUTE, (xdrproc_t)xdr_func_set_attribute_args, &args);
    }
    return code;
}

static int cache_restore(const struct loaded_function *f)
{
    func_set_cache_config_args args = { .hfunc = f->wire, .config = f->cache };
    return f->cache ? wire_send(&core_session, FLYT_FUNC_SET_CACHE_CONFIG, (xdrproc_t)xdr_func_set_cache_config_args,
                                &args) : CORE_OK;
}

static int function_restore(struct move *move, const core_function *f, const struct moving_module *m)
{
    const struct function_table *table = atomic_load(&f->in);
    struct loaded_function *loaded =
        table && m->context->wire < table->count ? atomic_load(&table->at[m->context->wire]) : NULL;
    if (!loaded || loaded->result || atomic_load(&loaded->generation) != m->load->generation)
        return CORE_OK;
    struct moving_attributes asked;
    const struct moving_attributes *there = m->ahead ? prepared_function(m->ahead, loaded) : NULL;
    int code = there ? CORE_OK : moving_function_get(move, f, loaded, m->id, &asked);
    if (!code)
        code = rehearsal_here() ? attributes_note(loaded) : attributes_restore(move, loaded, there ? there : &asked);
    return code ? code : cache_restore(loaded);
}

/* The names are not changed meanwhile: no other thread is in a call. */
int functions_restore(struct move *move)
{
    const struct moving_code *moving = move->of[KIND_MODULE];
    int code = CORE_OK;
    for (unsigned i = 0; i < moving->count; i++) {
        const struct name_table *functions = &moving->modules[i].image->functions;
        for (unsigned b = 0; b < functions->size; b++)
            for (const struct name *n = functions->buckets[b]; n && !code; n = n->next)
                code = function_restore(move, (const core_function *)n, &moving->modules[i]);
    }
    return code;
}

/* ---- the end ---- */

/* How many blocks fit is the device's affair. */
static void forget_answers(const core_image *image)
{
    for (unsigned b = 0; b < image->functions.size; b++)
        for (const struct name *n = image->functions.buckets[b]; n; n = n->next) {
            const struct function_table *table = atomic_load(&((const core_function *)n)->in);
            for (unsigned i = 0; table && i < table->count; i++) {
                struct loaded_function *loaded = atomic_load(&table->at[i]);
                for (unsigned place = 0; loaded && place < sizeof loaded->fits / sizeof loaded->fits[0]; place++)
                    atomic_store(&loaded->fits[place], 0);
            }
        }
}

void code_moved(struct move *move, bool moved)
{
    struct moving_code *moving = move->of[KIND_MODULE];
    for (core_image *image = moved ? code_images_first() : NULL; image; image = image->next) {
        image->announced = 0;             /* the new server may lack it */
        forget_answers(image);
    }
    for (unsigned i = 0; moving && i < moving->count; i++)
        moving_module_free(&moving->modules[i]);
    if (moving)
        free(moving->modules);
    free(moving);
}
