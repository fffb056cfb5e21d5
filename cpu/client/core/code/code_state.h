/*
 * code_state.h: what registered.c (what the program registered), code.c (functions and variables in a context) and
 * code_load.c (what loads images) share.
 */
#ifndef FLYT_CLIENT_CORE_CODE_STATE_H
#define FLYT_CLIENT_CORE_CODE_STATE_H

#include <pthread.h>

#include "code.h"

struct name {                                               /* first member of functions and variables */
    char        *text;
    uint64_t     hash;
    struct name *next;
};

struct name_table { struct name **buckets; unsigned size, count; };

/* By context. Replaced by a larger one when need be; the older ones stay, since others may be reading them. */
struct function_table {
    unsigned count;
    struct function_table *older;
    struct loaded_function *_Atomic at[];
};

struct core_function {
    struct name  name;
    core_image  *image;
    /* only core_function_find knows it: the image may lack it */
    bool         sought;
    _Atomic(struct function_table *) in;
};

struct placed { const core_context *context; int result; uint64_t address, size, generation; struct placed *next; };

struct core_variable {
    struct name    name;
    core_image    *image;
    size_t         size;
    bool           is_constant;
    struct placed *in;                                      /* a list, by context; under image.load */
};

struct load {                                               /* an image in a context */
    const core_context *context;
    struct load *next;
    bool     tried;
    int      result;
    flyt_id  module;
    uint64_t serial;                                        /* another one each time that it is loaded */
    uint64_t generation;
    struct loaded_function *functions;
    struct loading *ahead;                                  /* under way since before it was needed; NULL: it is not */
};

struct core_image {
    const void     *wrapper;
    atomic_bool     removed;
    char           *log;                                    /* of the last module that could not be loaded; or NULL */
    struct name_table functions, variables;
    pthread_mutex_t load;
    struct image_bundle bundle;
    bool            bundled;
    uint32_t        announced;                              /* bit n: to the server of session n */
    bool            found;                                  /* own_images.c has; the program has not named it yet */
    struct load    *in;                                     /* a list, by context; they stay */
    /* all that ever were, for code_forget_context and leak checkers */
    core_image     *next;
};

/* There is a wrapper in the program's executable: the image can be loaded ahead of need. Whoever adds an image with
   this wrapper gets this one. */
void code_image_found(const void *wrapper);
/* A function by name, made at the first call. sought: the image may lack it. */
int code_function_add(core_image *, const char *name, bool sought, core_function **out);

/* ---- code_load.c: what loads an image into a context. Under image->load unless something else is said ---- */

/* Functions that are asked for with a module before the program names them: all that it has, if there are no more. */
enum { FEW_FUNCTIONS = 8 };
struct few {
    core_image *image; /* whose functions shall be asked for, if `functions` names none; NULL: none */
    unsigned count;
    core_function *functions[FEW_FUNCTIONS];
};

/* Loads the image, unless the context has it. `few`: what is asked for with the module. Waits. A result code. */
int code_image_load(core_image *, core_context *, struct few *few);
/* Asks for the module, and for the variables that have no place in the context yet, also those that the program
   registered after the image was loaded. Waits. A result code. */
int code_module_load(core_image *, core_context *, const struct few *few);
/* If the server has not yet said whether it makes the context, sends what loads the image with it. The caller does not
   hold image->load. */
void code_load_with(core_context *, core_image *);
/* The program needs what is loaded ahead of need: takes the answer. Waits. */
void code_ahead_end(struct load *);
/* Forgets what of the image was in the context, and gives the ids back. */
void code_load_end(struct load *);
/* What of the image is in the context. NULL: it was not loaded there. */
struct load *code_load_in(const core_image *, const core_context *);
/* The variable's place in the context. NULL: no call has looked it up yet. */
struct placed *code_placed_in(const core_variable *, const core_context *);
/* The function's place in the table of its contexts. NULL: no memory. */
struct loaded_function *_Atomic *code_function_place(core_function *, const core_context *);
/* A free id, without a lock of the caller's. code_load_end gives it back. */
flyt_id code_function_id(void);
/* The first of all images, without a lock of the caller's. */
core_image *code_images_first(void);

/* ---- code_ask.c: what the server is asked about code. Under image->load ---- */

/* FUNCTION_GET: from function_sent on under way, or answered. Zeroed but for f and function. */
struct function_question {
    core_function *f;
    flyt_id function;
    bool sent;
    int code;
    function_get_args args;
    function_get_result result;
    struct wire_call call;
};
/* MODULE_LOAD, and before it IMAGE if the image has not been announced yet, and behind it a FUNCTION_GET for each of
   `along`: sent together and waited for once, or twice where the server lacks a large image. */
struct module_question {
    core_image *image;
    core_context *context;
    flyt_id module;
    flyt_name *symbols; /* `count` names of variables, at most FLYT_MAX_SYMBOLS */
    unsigned count;
    struct function_question *along;
    unsigned along_count;
    bool announces;
    bool unwanted; /* the program has not asked for it: a refusal is not printed */
    struct image_question announced;
    module_load_args args;
    module_load_result result; /* the caller frees what is in it */
    struct wire_call call;
};
/* Sends them. An error: nothing was sent. Until module_answered has returned nothing of it moves. */
int module_ask(struct module_question *);
/* Waits for the answers, for the first with `wait`. A result code; an error has been explained in the log, and
   image->log set. The functions have their answers, whatever those are. */
int module_answered(struct module_question *, int (*wait)(struct wire_call *));
/* Waits for the answers where they do not matter any more. */
void module_dismiss(struct module_question *);
/* Asks, unless that was done with the module, and fills in what was answered. A result code. */
int function_ask(struct function_question *, const core_context *, flyt_id module, struct core_function_info *);
void function_question_end(struct function_question *);
/* Prints that the server refuses the image with that code and log, once for each library (code_refused.c). */
void code_image_refused(const core_image *, int code, const char *log, size_t log_size);
/* Errors that a later try may not meet. */
bool code_passing(int code);

/* What FLYT_MODULE_NAMES or FLYT_MODULE_VARIABLES says of a module that is loaded: one block, freed by the caller. */
int code_names_of(struct client_session *, uint32_t procedure, flyt_id module, char ***names, unsigned *count);

extern pthread_mutex_t code_names;                          /* of all images: registration is rare */
extern core_image *code_images;                             /* the first of all that there ever were */

#endif
