/*
 * code_move.c: modules and functions on a move to another server (move.h).
 *
 * A module is loaded again under its id. Its variables are the driver's: the program has their addresses, so they must
 * have the same addresses at the new server, and so must its functions, to which kernels may have stored pointers. A
 * server with the software GPU says where the module lies, and another one loads it there; elsewhere the addresses of
 * the variables are compared. The server lists them, also those that the program never named, because kernels may have
 * written to them. What is in them is copied.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_code.h"
#include "cpu/client/core/code/code_state.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/wire.h"

struct moving_module {
    core_image    *image;
    core_context  *context;
    struct load   *load;
    unsigned       count;             /* variables */
    char         **names;
    flyt_symbol   *symbols;           /* at the old server */
    uint64_t       place[FLYT_MAX_PLACE];
    unsigned       placed;            /* numbers of place; 0: the old server does not say where it is */
};
struct moving_code { struct moving_module *modules; unsigned count; };

static bool loaded_now(const struct load *load)
{
    return load->tried && !load->result && context_of_wire(load->context->wire) == load->context &&
           atomic_load(&load->context->live) && load->generation == atomic_load(&load->context->generation);
}

static core_image *first_image(void)
{
    pthread_mutex_lock(&code_names);
    core_image *image = code_images;
    pthread_mutex_unlock(&code_names);
    return image;
}

/* ---- variables ---- */

/* Asks for all of them, in parts; the first loads the module where it is not loaded. what: to be freed. */
static int look_up(struct move *move, const struct moving_module *m, flyt_symbol *symbols)
{
    unsigned at = 0;
    do {
        unsigned part = m->count - at < FLYT_MAX_SYMBOLS ? m->count - at : FLYT_MAX_SYMBOLS;
        module_load_args args = { .module = m->load->module, .context = m->context->wire,
                                  .symbols = { part, m->names + at } };
        module_load_result result;
        memset(&result, 0, sizeof result);
        memcpy(args.hash, m->image->bundle.hash, sizeof args.hash);
        if (rehearsal_here())
            rehearsal_symbols(m->symbols + at);
        int code = wire_call(&core_session, FLYT_MODULE_LOAD, (xdrproc_t)xdr_module_load_args, &args,
                             (xdrproc_t)xdr_module_load_result, &result);
        if (!code && result.symbols.symbols_len != part)
            code = CORE_OUT_OF_MEMORY;
        if (code)
            move_refuse(move, code, "a code image cannot be loaded at the new server (error %d)%s%.*s", code,
                        result.log.log_len ? ": " : "", (int)result.log.log_len, result.log.log_val);
        else if (part)
            memcpy(symbols + at, result.symbols.symbols_val, part * sizeof *symbols);
        xdr_free((xdrproc_t)xdr_module_load_result, &result);
        if (code)
            return code;
        at += part;
    } while (at < m->count);
    return CORE_OK;
}

/* ---- saving ---- */

static int in_order_of_ids(const void *a, const void *b)
{
    flyt_id first = ((const struct moving_module *)a)->load->module;
    flyt_id second = ((const struct moving_module *)b)->load->module;
    return first < second ? -1 : first > second;
}

/* 801: the driver does not tell. Then the addresses of the variables are only compared. */
static int place_ask(struct move *move, struct moving_module *m)
{
    module_place_args args = { m->load->module };
    module_place_result result;
    if (!(core_session.hello.capabilities & FLYT_CAP_PLACES))
        return CORE_OK;
    memset(&result, 0, sizeof result);
    int code = wire_call(&core_session, FLYT_MODULE_PLACE, (xdrproc_t)xdr_module_place_args, &args,
                         (xdrproc_t)xdr_module_place_result,
                         &result);
    if (!code) {
        m->placed = result.numbers.numbers_len;
        memcpy(m->place, result.numbers.numbers_val, m->placed * sizeof *m->place);
    }
    xdr_free((xdrproc_t)xdr_module_place_result, &result);
    return !code || code == CORE_NOT_SUPPORTED
               ? CORE_OK
               : move_refuse(move, code, "the old server does not tell where a code image is (error %d)", code);
}

static int module_save(struct move *move, struct moving_module *m)
{
    int code = code_names_of(&core_session, FLYT_MODULE_VARIABLES, m->load->module, &m->names, &m->count);
    if (code) {
        m->names = NULL;
        m->count = 0;
        return move_refuse(move, code, "the variables of a code image cannot be listed (error %d)", code);
    }
    m->symbols = calloc(m->count + 1, sizeof *m->symbols);
    code = m->symbols ? look_up(move, m, m->symbols) : CORE_OUT_OF_MEMORY;
    return code ? code : place_ask(move, m);
}

int code_save(struct move *move)
{
    struct moving_code *moving = move->of[KIND_MODULE] = calloc(1, sizeof *moving);
    unsigned room = 0;
    int code = moving ? CORE_OK : CORE_OUT_OF_MEMORY;
    for (core_image *image = first_image(); image && !code; image = image->next) {
        for (struct load *load = image->in; load && !code; load = load->next) {
            if (image->removed || !loaded_now(load))
                continue;
            if (moving->count == room) {
                room = room ? 2 * room : 16;
                struct moving_module *more = realloc(moving->modules, room * sizeof *more);
                if (!more)
                    return CORE_OUT_OF_MEMORY;
                moving->modules = more;
            }
            struct moving_module *m = &moving->modules[moving->count++];
            *m = (struct moving_module){ .image = image, .context = context_of_wire(load->context->wire),
                                         .load = load };
            code = module_save(move, m);
        }
    }
    /* Drivers place what they are given first first: so the addresses are the same more often. */
    if (!code && moving->count)
        qsort(moving->modules, moving->count, sizeof *moving->modules, in_order_of_ids);
    return code;
}

/* ---- restoring ---- */

static int module_restore(struct move *move, const struct moving_module *m)
{
    flyt_symbol *there = calloc(m->count + 1, sizeof *there);
    int code = there ? bundle_announce(&core_session, &m->image->bundle) : CORE_OUT_OF_MEMORY;
    if (!code && m->placed && move->at[MOVE_TARGET].hello.capabilities & FLYT_CAP_PLACES)
        code = move_place_at(move, m->context, FLYT_PLACE_MODULE, m->place, m->placed);
    if (!code)
        code = look_up(move, m, there);
    for (unsigned i = 0; i < m->count && !code; i++) {
        const flyt_symbol *old = &m->symbols[i], *new = &there[i];
        if (!old->result && (new->result || new->address != old->address || new->size != old->size))
            code = move_refuse(move, 0, "the variable %s lies at 0x%llx, and would lie at 0x%llx at the new server",
                               m->names[i], (unsigned long long)old->address, (unsigned long long)new->address);
    }
    free(there);
    return code;
}

int code_restore(struct move *move)
{
    const struct moving_code *moving = move->of[KIND_MODULE];
    int code = CORE_OK;
    for (unsigned i = 0; i < moving->count && !code; i++)
        code = module_restore(move, &moving->modules[i]);
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
static int attributes_restore(struct move *move, const struct loaded_function *f, const function_get_result *there)
{
    for (unsigned i = 0; i < there->attributes.attributes_len; i++) {
        const flyt_attribute *a = &there->attributes.attributes_val[i];
        bool settable = a->name >= CORE_FUNCTION_SETTABLE && a->name < CORE_FUNCTION_ATTRIBUTES;
        int kept = settable ? f->info.attributes[a->name] : a->value;
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

static bool same_parameters(const struct core_function_info *info, const function_get_result *there)
{
    if (info->parameter_count != there->params.params_len)
        return false;
    for (unsigned i = 0; i < info->parameter_count; i++)
        if (info->parameters[i].offset != there->params.params_val[i].offset ||
            info->parameters[i].size != there->params.params_val[i].size)
            return false;
    return true;
}

static int function_restore(struct move *move, const core_function *f, const struct moving_module *m)
{
    const struct function_table *table = atomic_load(&f->in);
    struct loaded_function *loaded =
        table && m->context->wire < table->count ? atomic_load(&table->at[m->context->wire]) : NULL;
    if (!loaded || loaded->result || atomic_load(&loaded->generation) != m->load->generation)
        return CORE_OK;
    function_get_args args = { .function = loaded->wire, .module = m->load->module, .name = f->name.text };
    function_get_result result;
    memset(&result, 0, sizeof result);
    int code = wire_call(&core_session, FLYT_FUNCTION_GET, (xdrproc_t)xdr_function_get_args, &args,
                         (xdrproc_t)xdr_function_get_result,
                         &result);
    if (code)
        move_refuse(move, code, "the kernel %s cannot be used at the new server (error %d)", f->name.text, code);
    else if (rehearsal_here())
        code = attributes_note(loaded);
    else if (!same_parameters(&loaded->info, &result))
        code = move_refuse(move, 0, "the kernel %s has other parameters at the new server", f->name.text);
    if (!code && !rehearsal_here())
        code = attributes_restore(move, loaded, &result);
    if (!code)
        code = cache_restore(loaded);
    xdr_free((xdrproc_t)xdr_function_get_result, &result);
    return code;
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
    for (core_image *image = moved ? first_image() : NULL; image; image = image->next) {
        image->announced = 0;             /* the new server may lack it */
        forget_answers(image);
    }
    for (unsigned i = 0; moving && i < moving->count; i++) {
        free(moving->modules[i].names);
        free(moving->modules[i].symbols);
    }
    if (moving)
        free(moving->modules);
    free(moving);
}
