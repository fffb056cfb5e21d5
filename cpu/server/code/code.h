/*
 * code.h: images, modules and functions of a session.
 *
 * An image is announced by its hash and received once; it is kept, bounded, also after its modules are gone, and in
 * the tenant's cache. A module is one image loaded into one context. What takes long (loading, looking a function
 * up, which may compile) is done by the loader thread, in the order asked for; only calls that name the result wait.
 *
 * A function belongs to its module and is freed with it; every call that waits for its turn holds the module.
 * All fields are under session.lock except while the loader works on an object in state LOADING: then the handle and
 * what describes it are the loader's until it sets the state, with the lock held.
 */
#ifndef FLYT_SERVER_CODE_H
#define FLYT_SERVER_CODE_H

#include "cpu/code/layout.h"
#include "cpu/server/session.h"

struct image {
    struct image *next;
    uint8_t hash[FLYT_HASH_SIZE];
    flyt_image_kind kind;
    size_t size, received;
    uint8_t *bytes;
    bool complete;
    bool linked;                          /* made here: the client may read it (link.c) */
    unsigned references;                  /* modules, and a link that is being made */
    uint64_t used;                        /* session.order of its last use */
};

enum code_state { CODE_LOADING, CODE_READY, CODE_FAILED };

struct module {
    unsigned references;                  /* the map, and calls that hold a function of it; under session.lock */
    uint32_t id;
    struct context *context;
    struct image *image;
    enum code_state state;
    CUresult result;
    CUmodule handle;
    void *library;                        /* CUlibrary that the module is of; NULL: it was loaded by itself */
    void *wrapper;                        /* what the driver reads until the library ends */
    struct function *functions;
    struct texref *texrefs;               /* texture and surface references; under session.lock */
    layout_image *layouts;                /* what the driver does not say of its kernels; NULL: not read */
    bool layouts_sought;
    bool unloaded;
};

struct function {
    uint32_t id;
    struct module *module;
    struct function *next;                /* of the module */
    char *name;
    enum code_state state;
    CUresult result;
    CUfunction handle;
    flyt_param *params;
    uint32_t param_count, param_bytes;
    flyt_attribute *attributes;
    uint32_t attribute_count;
    /* settings.c: before the first was set; as the program has set them; as the driver knows them. NULL: none was */
    struct { struct settings *first, *now, *applied; } settings;
    struct list parked;                   /* streams that wait for its being settled */
};

bool function_settled(const struct function *);            /* looked up, with whatever result */
void function_hold(struct function *);
void function_drop(struct session *, struct function *);
struct function *function_find(struct session *, uint32_t id);

/* launch.c: as many as `count`. 801: one that holds a handle or a pointer of the client's process. */
CUresult launch_attributes(const flyt_launch_attribute *from, unsigned count, CUlaunchAttribute *to);

/* Is the deferred call a launch whose kernel may call malloc()? Only the software GPU knows it. Under session.lock. */
bool launch_may_allocate(const struct session *, const struct call *);

/* image.c */
struct image *image_find(struct session *, const void *hash);
void images_free(struct session *);
/* Takes over the bytes (one more than `size`), also after an error, and writes their hash. Under session.lock. */
CUresult image_add_linked(struct session *, uint8_t *bytes, size_t size, uint8_t *hash);
/* What describes the code to a driver: the image itself, or a wrapper built around it where a program was
   device-linked. *wrapper, which may be NULL, is to be freed; it points into the image. */
CUresult image_loadable(const struct image *, const void **data, void **wrapper);

/* ---- the loader: one thread (loader.c), and what waits for it (loader_queue.c) ---- */

enum job_kind { JOB_LOAD, JOB_GET, JOB_UNLOAD, JOB_SERVE, JOB_RUN };

struct job {
    struct job *next;
    enum job_kind kind;
    struct context *context;
    struct call *call;                    /* kept; LOAD and GET */
    struct module *module;
    struct function *function;
    void (*serve)(struct session *, struct call *);       /* SERVE */
    void (*run)(struct session *, struct context *);      /* RUN */
};

int  loader_start(struct session *);
void loader_stop(struct session *);
/* Takes the call's arguments (call_keep); the loader answers it. */
void loader_load(struct session *, struct call *, struct module *);
void loader_get(struct session *, struct call *, struct function *);
/* Has the call served by the loader, which answers it. False: no memory, the call is unchanged. */
bool loader_serve(struct session *, struct call *, void (*serve)(struct session *, struct call *));
/* Has it done by the loader, for a context whose end waits for the loader. No memory: it is not done. */
void loader_run(struct session *, struct context *, void (*run)(struct session *, struct context *));
/* Waits until no job for the context is left. Under session.lock, which it gives up meanwhile. */
void loader_drain(struct session *, struct context *);

void module_drop(struct session *, struct module *);
void modules_drop_all(struct session *, struct context *);
/* code.c, called by the loader without session.lock */
void module_look_up(struct session *, struct module *, const module_load_args *, module_load_result *);
CUresult function_describe(struct session *, struct function *);
void function_reply(struct session *, uint32_t xid, const struct function *, const char *log);

#endif
