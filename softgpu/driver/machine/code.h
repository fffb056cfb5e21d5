/*
 * code.h: modules, libraries, functions, kernels.
 *
 * A module belongs to a context: its variables have memory there and its program is made for that engine.
 * A library belongs to none: it keeps the image and loads a module for each context that asks.
 * A function is an entry of a module; it is decoded when it is first asked for.
 */
#ifndef SOFTGPU_CODE_H
#define SOFTGPU_CODE_H

#include "softgpu/driver/machine/device.h"

enum { SGD_LOG_SIZE = 8192 };            /* of what is said about an image */

/*
 * compiled.c: the registers of kernels in machine code.
 */
struct sgd_compiled_kernel {
    uint64_t name;
    struct sg_machine_code code;
};
struct sgd_compiled {
    struct sgd_compiled_kernel *kernels; /* in the order of .name */
    size_t count, room;
};
/* Adds the kernels of the machine code in a container that is nearest to capability cc. The container is whole. */
void sgd_compiled_add(struct sgd_compiled *, const void *container, unsigned cc);
bool sgd_compiled_find(const struct sgd_compiled *, const char *kernel, struct sg_machine_code *);
void sgd_compiled_free(struct sgd_compiled *);

struct sgd_image {                       /* PTX texts to be linked */
    struct ptx_source *sources;
    char (*names)[32];
    uint8_t **texts;                     /* owned */
    size_t *room;                        /* bytes that each text takes of the budget for code (budget.h) */
    size_t count;
    bool machine_code;                   /* there was some too, which a GPU would run whatever the PTX */
    struct sgd_compiled compiled;        /* what it says */
};

struct sgd_function {
    CUfunction handle;
    struct sgd_module *module;
    uint32_t index;                      /* of module->ptx->functions */
    sg_kernel *kernel;
    struct sg_kernel_info info;
    size_t max_dynamic;                  /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
    int carveout, non_portable, policy;
    uint32_t cluster[3];                 /* CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH …; 0: none */
};

struct sgd_variable { const char *name; uint64_t address, size; };

struct sgd_module {
    CUmodule handle;
    struct sgd_context *context;
    struct sgd_module *next, **back;     /* of the context */
    struct sgd_library *library;         /* or NULL */
    const struct ptx_module *ptx;        /* owned by the program */
    bool reaches_heap;                   /* some kernel of it may call malloc() or free() */
    sg_program *program;
    uint64_t *addresses;                 /* of ptx->variables */
    uint64_t memory;                     /* one allocation behind all variables; 0: none */
    struct softgpu_module_place place;   /* where all of it lies; while it is made: where it has to, or zeros */
    struct sgd_function **functions;     /* of ptx->functions; NULL: not asked for yet */
    uint32_t *entries, entry_count;      /* indices of the entries of ptx->functions, in the order of their names */
    uint32_t *variables, variable_count; /* of those of ptx->variables that have an address, likewise */
    struct sgd_texref *texrefs;          /* one for each of them that is a texture or surface reference */
    uint32_t texref_count;
    unsigned running;                    /* launches queued or running */
};

struct sgd_kernel {
    void *handle;                        /* CUkernel, which headers of 11.8 lack */
    struct sgd_library *library;
    struct sgd_kernel *next;
    char *name;
    struct { bool set; int value; } attributes[CU_FUNC_ATTRIBUTE_MAX];
};

struct sgd_library {
    void *handle;                        /* CUlibrary */
    struct sgd_image image;
    struct sgd_kernel *kernels;
    struct sgd_variable *managed; size_t managed_count;
    bool initialised;                    /* the managed variables have all their initial values */
    CUmodule *modules; size_t module_count;      /* one per context; stale ones stay in the list */
    bool loading;
};
CUresult sgd_library_managed(const struct sgd_library *, const char *name, uint64_t *address, uint64_t *size);

struct sgd_jit {                         /* the JIT options that mean something here */
    char *info, *error;
    size_t info_size, error_size;
    void **info_filled, **error_filled;  /* the option's value becomes the bytes written */
    void **wall_time;
};

/*
 * link.c: a link (CUlinkState). Its result is the PTX texts of its inputs, one behind the other, with a joint between
 * two: sgd_image_read takes them apart again, and a module is linked from them, as from a program's prelinked code. So
 * names that are local to an input stay apart.
 */
#define SGD_LINK_JOINT "\n// flyt: the next input of a link\n"

struct sgd_link_input {
    char *text, *name;
    size_t room;   /* bytes that the text takes of the budget for code */
    bool optional; /* from a library: linked only if another input needs it */
    unsigned max_registers; /* of its fat binary; 0: no bound */
};
struct sgd_link {
    void *handle;       /* CUlinkState */
    struct sgd_jit jit; /* of cuLinkCreate */
    struct sgd_link_input *inputs;
    size_t count, room; /* of all inputs: at most a quarter of the budget */
    char *result;       /* owned */
    size_t result_room;
};
/* Reads an input; PTX is checked as a compiler checks it. The name is for messages. */
CUresult sgd_link_add(const struct sgd_device *, struct sgd_link *, CUjitInputType, const void *data, size_t size,
                      const char *name, char *log, size_t log_size);
CUresult sgd_link_complete(struct sgd_link *, size_t *size, char *log, size_t log_size);
void sgd_link_free(struct sgd_link *);

/* image.c: what the program gave, as PTX. log receives why not. */
/* The code of a text that cannot be read: `wrong`, or 2 where there is no memory for it. */
CUresult sgd_text_refused(CUresult wrong, char *log, size_t log_size);
/* Whether PTX that was read is of a version that drivers of this CUDA release know: 0 or 222. Libraries are often made
   with a newer compiler. A GPU runs their machine code, and the software GPU their PTX: any version, where machine code
   lies beside it. image: NULL for PTX alone. */
CUresult sgd_ptx_version_check(const struct ptx_module *, const struct sgd_image *image, char *log, size_t log_size);
/* Makes a text of a newer version one of the newest that is known. false: it was none. */
bool sgd_ptx_version_lower(char *text);
CUresult sgd_image_read(const struct sgd_device *, const void *data, struct sgd_image *, char *log, size_t log_size);
/* The PTX of one container, which is whole. Without PTX in it the image is empty. */
CUresult sgd_image_container(const struct sgd_device *, const void *container, struct sgd_image *, char *log,
                             size_t log_size);
CUresult sgd_image_file(const char *path, void **data); /* whole file, NUL behind */
void sgd_image_free(struct sgd_image *);

CUresult sgd_jit_read(struct sgd_jit *, unsigned count, const CUjit_option *, void **values);
void sgd_jit_finish(struct sgd_jit *, const char *error);

CUresult sgd_module_new(struct sgd_context *, const struct sgd_image *, struct sgd_library *, struct sgd_module **,
                        char *log, size_t log_size);
void sgd_module_destroy(struct sgd_module *);            /* waits for its launches */
CUresult sgd_module_variable(struct sgd_module *, const char *name, bool managed_only, uint64_t *, size_t *);
CUresult sgd_module_function(struct sgd_module *, const char *name, struct sgd_function **);
CUresult sgd_library_new(const void *code, struct sgd_library **, char *log,
                         size_t log_size);               /* takes the mutex itself */
void sgd_library_free(struct sgd_library *);             /* its modules have gone */
CUresult sgd_library_module(struct sgd_library *, struct sgd_context *, struct sgd_module **);
/* A CUfunction, or a CUkernel in the current context. Under the mutex. */
CUresult sgd_function_find(CUfunction, struct sgd_context *, struct sgd_function **);
CUresult sgd_kernel_function(struct sgd_kernel *, struct sgd_context *, struct sgd_function **);
/* May it call malloc() or free(), or launch a kernel of its module that may? A function of another module, which it
   calls by its address, may too: the module has seen to it that there is a heap. */
bool sgd_function_reaches_heap(const struct sgd_function *);
CUresult sgd_function_get_attribute(const struct sgd_function *, CUfunction_attribute, int *);
CUresult sgd_function_set_attribute(struct sgd_function *, CUfunction_attribute, int);
/* Does a block of so many threads fit on an SM at all, and how many such blocks? Why not is native's code. */
bool sgd_function_fits(const struct sgd_function *, uint64_t threads, size_t dynamic, unsigned *blocks, CUresult *why);
unsigned sgd_function_occupancy(const struct sgd_function *, unsigned threads, size_t dynamic);
/* The clusters that the function requires, as it was compiled or as its attributes say; 0: none */
const uint32_t *sgd_function_cluster(const struct sgd_function *);
unsigned sgd_function_cluster_most(const struct sgd_function *);
/* The clusters of a launch that names `given` (0: none), with native's code where they are not allowed. resident:
   blocks of the launch that the device can run at a time. */
CUresult sgd_function_cluster_check(const struct sgd_function *, const uint32_t grid[3], const uint32_t given[3],
                                    uint64_t resident, uint32_t cluster[3]);

#endif
