/*
 * code_move.h: what code_move.c (modules at rest) and code_prepare.c (modules while the program goes on) share
 * (code_again.c). Calls go where move_calls says. Functions that can fail return a result code, and have said why with
 * move_refuse.
 */
#ifndef FLYT_CLIENT_CORE_CODE_MOVE_H
#define FLYT_CLIENT_CORE_CODE_MOVE_H

#include "cpu/client/core/code/code_state.h"
#include "cpu/client/core/stream/move.h"

struct moving_module {
    core_image    *image;
    core_context  *context;
    struct load   *load;
    flyt_id        id;
    unsigned       count;             /* variables */
    char         **names;
    flyt_symbol   *symbols;           /* at the old server */
    uint64_t       place[FLYT_MAX_PLACE];
    unsigned       placed;            /* numbers of place; 0: the old server does not say where it is */
    const struct prepared_module *ahead;    /* whose names and symbols these are; NULL: they are its own */
};
/* Whether the image is in a context that there is. Under image->load, or at rest. */
bool moving_is_loaded(const struct load *);
void moving_module_free(struct moving_module *);
/* Asks the old server what a module has, and where. */
int  moving_module_save(struct move *, struct moving_module *);
/* The new server, which has the image, loads the module; its variables must be where they are at the old one. */
int  moving_module_load(struct move *, const struct moving_module *);

/* An attribute of a function that programs may set, as the new server has it. */
struct moving_attributes { flyt_attribute all[CORE_FUNCTION_ATTRIBUTES - CORE_FUNCTION_SETTABLE]; unsigned count; };
/* The new server looks a function of the module up: it must have the same parameters. */
int  moving_function_get(struct move *, const core_function *, const struct loaded_function *, flyt_id module,
                         struct moving_attributes *);

/* ---- code_prepare.c: what the new server has already ---- */

/* NULL: it does not have it, or what it has under this id was another one. */
const struct prepared_module *prepared_of(const struct move *, const struct load *);
/* The module as the old server described it; its member `ahead` is not set. */
const struct moving_module *prepared_module(const struct prepared_module *);
/* NULL: it does not have the function. */
const struct moving_attributes *prepared_function(const struct prepared_module *, const struct loaded_function *);
/* At rest: the new server unloads what the program has unloaded since. */
int  prepared_unload(struct move *);

#endif
