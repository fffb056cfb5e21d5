/*
 * code.h: images as they travel (image.c), and what of them is loaded (code.c, code_load.c).
 */
#ifndef FLYT_CLIENT_CORE_CODE_H
#define FLYT_CLIENT_CORE_CODE_H

#include <stdatomic.h>

#include "cpu/client/core/api_code.h"
#include "cpu/client/core/wire/wire.h"

struct image_part { const void *data; size_t size; };
struct image_bundle {
    flyt_image_kind kind;
    struct image_part *parts; unsigned count;               /* containers are padded to 8 on the wire */
    uint64_t size;                                          /* with the padding */
    uint8_t hash[FLYT_HASH_SIZE];
    bool owned;                                             /* the parts' data are copies */
};
/* Finds out what `wrapper` is, and its hash. 0, 200 or 2; *why on failure. */
int  bundle_make(const void *wrapper, struct image_bundle *, const char **why);
/* Bytes that are an input of a link; they must stay as they are. 0 or 2. */
int bundle_make_input(flyt_image_kind, const void *data, size_t size, struct image_bundle *);
/* Gives its PTX a bound of registers, as nvcc -maxrregcount does; 0: none. 0, 200 or 2; freed on failure. */
int bundle_bound(struct image_bundle *, unsigned registers);
int  bundle_copy(struct image_bundle *);                    /* makes its data its own: 0 or 2 */
void bundle_free(struct image_bundle *);
/* IMAGE, and the data if lacking. Waits. */
int bundle_announce(struct client_session *, const struct image_bundle *);
/* bundle_announce in two halves, between which the caller may send what uses the image. bundle_answered waits, with
   `wait`. *late: the server lacked the image and has got its bytes only now, so it has refused what was sent in
   between. */
struct image_question {
    struct client_session *session;
    const struct image_bundle *bundle;
    bool along; /* the bytes went with the announcement; */
    int sent;   /* the code of that */
    image_args args;
    image_result result;
    struct wire_call call;
};
int bundle_ask(struct client_session *, const struct image_bundle *, struct image_question *);
int bundle_answered(struct image_question *, int (*wait)(struct wire_call *), bool *late);
/* As bundle_answered; but *late: its bytes are still to be sent. The bundle may have ended meanwhile. */
int bundle_wanted(struct image_question *, int (*wait)(struct wire_call *), bool *late);
/* Sends `most` bytes, or a few more, from *offset on, which becomes that of the first that was not sent: the bundle's
   size in the end. */
int bundle_send(struct client_session *, const struct image_bundle *, uint64_t *offset, uint64_t most);
/* Visits the names of its kernels, as far as they are easily found (cpu/code/kernels.h). False: the visitor has had
   enough, or the bundle has more than `most` bytes and was not looked at. */
bool bundle_kernels(const struct image_bundle *, size_t most,
                    bool (*each)(void *context, const char *name, size_t size), void *context);

/* one function in one context; lives as long as the process */
struct loaded_function {
    int      result;                                        /* of FUNCTION_GET */
    flyt_id  wire;
    atomic_uint_fast64_t generation;                        /* of the context; UINT64_MAX: its image was removed */
    struct core_function_info info;
    uint32_t chosen;                                        /* bit a: the program has set info.attributes[a] */
    int      cache;                                         /* CUfunc_cache that the program has set; 0: none */
    atomic_uint_fast64_t fits[64];                          /* answers about occupancy; see launch.c */
    struct loaded_function *next;                           /* of the same module */
    /* the same function before a reset: infos may still be read */
    struct loaded_function *older;
};
/* The function in the context, which has been entered; loaded if need be. Waits, the first time. */
int  code_function(core_context *, core_function *, struct loaded_function **out);
/* The module that the image is in the context, which has been entered. Under image->load. Waits, the first time. */
int code_module(core_context *, core_image *, flyt_id *);
void code_forget_context(core_context *);
/* A context has been asked for, and nothing of the answer is known: sends, without waiting, what loads the images into
   it that the program has registered, if they are few and small. */
void code_ahead(core_context *);
void code_settle(void);                                     /* takes the answers to all that was so sent. Waits */
uint64_t code_modules(void);                                /* loaded */
uint64_t code_functions(void);
void code_lock_for_fork(void);
void code_unlock_after_fork(void);

#endif
