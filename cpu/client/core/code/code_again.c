/*
 * code_again.c: what is asked of the two servers of a move for a module and for a function: see code_move.h. At rest,
 * or while the program goes on.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/code/code_move.h"
#include "cpu/client/core/wire/wire.h"

bool moving_is_loaded(const struct load *load)
{
    return load->tried && !load->result && context_of_wire(load->context->wire) == load->context &&
           atomic_load(&load->context->live) && load->generation == atomic_load(&load->context->generation);
}

/* ---- a module ---- */

/* Asks for all of them, in parts; the first loads the module where it is not loaded. what: to be freed. */
static int look_up(struct move *move, const struct moving_module *m, flyt_symbol *symbols)
{
    unsigned at = 0;
    do {
        unsigned part = m->count - at < FLYT_MAX_SYMBOLS ? m->count - at : FLYT_MAX_SYMBOLS;
        module_load_args args = { .module = m->id, .context = m->context->wire,
                                  .symbols = { part, m->names + at } };
        module_load_result result;
        memset(&result, 0, sizeof result);
        memcpy(args.hash, m->image->bundle.hash, sizeof args.hash);
        if (rehearsal_here())
            rehearsal_symbols(m->symbols + at);
        int code = wire_call(move_calls(move), FLYT_MODULE_LOAD, (xdrproc_t)xdr_module_load_args, &args,
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

/* 801: the driver does not tell. Then the addresses of the variables are only compared. */
static int place_ask(struct move *move, struct moving_module *m)
{
    module_place_args args = { m->id };
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

int moving_module_save(struct move *move, struct moving_module *m)
{
    int code = code_names_of(&core_session, FLYT_MODULE_VARIABLES, m->id, &m->names, &m->count);
    if (code) {
        m->names = NULL;
        m->count = 0;
        return move_refuse(move, code, "the variables of a code image cannot be listed (error %d)", code);
    }
    m->symbols = calloc(m->count + 1, sizeof *m->symbols);
    code = m->symbols ? look_up(move, m, m->symbols) : CORE_OUT_OF_MEMORY;
    return code ? code : place_ask(move, m);
}

void moving_module_free(struct moving_module *m)
{
    if (m->ahead)
        return;
    free(m->names);
    free(m->symbols);
}

int moving_module_load(struct move *move, const struct moving_module *m)
{
    flyt_symbol *there = calloc(m->count + 1, sizeof *there);
    int code = there ? CORE_OK : CORE_OUT_OF_MEMORY;
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

/* ---- a function ---- */

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

static void settable_of(const function_get_result *result, struct moving_attributes *settable)
{
    enum { MOST = sizeof settable->all / sizeof settable->all[0] };
    settable->count = 0;
    for (unsigned i = 0; i < result->attributes.attributes_len && settable->count < MOST; i++) {
        const flyt_attribute *a = &result->attributes.attributes_val[i];
        if (a->name >= CORE_FUNCTION_SETTABLE && a->name < CORE_FUNCTION_ATTRIBUTES)
            settable->all[settable->count++] = *a;
    }
}

int moving_function_get(struct move *move, const core_function *f, const struct loaded_function *loaded, flyt_id module,
                        struct moving_attributes *settable)
{
    function_get_args args = { .function = loaded->wire, .module = module, .name = f->name.text };
    function_get_result result;
    memset(&result, 0, sizeof result);
    int code = wire_call(move_calls(move), FLYT_FUNCTION_GET, (xdrproc_t)xdr_function_get_args, &args,
                         (xdrproc_t)xdr_function_get_result, &result);
    if (code)
        move_refuse(move, code, "the kernel %s cannot be used at the new server (error %d)", f->name.text, code);
    else if (!rehearsal_here() && !same_parameters(&loaded->info, &result))
        code = move_refuse(move, 0, "the kernel %s has other parameters at the new server", f->name.text);
    settable_of(&result, settable);
    xdr_free((xdrproc_t)xdr_function_get_result, &result);
    return code;
}
