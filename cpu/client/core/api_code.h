/*
 * api_code.h: code images, functions, variables, libraries and launches.
 */
#ifndef FLYT_CLIENT_CORE_API_CODE_H
#define FLYT_CLIENT_CORE_API_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/client/core/api_stream.h"

/* ---- code (code.c, image.c) ----------------------------------------------------------------------------------------
 * An image is one registered fat binary (wrapper or raw) of the process; loading it into a context happens at first
 * use. A function or variable is found by image and name. */
typedef struct core_image core_image;
typedef struct core_function core_function;
typedef struct core_variable core_variable;

/* wrapper: magic 0x466243B1 (version 1 or 2), or a container, PTX text or cubin. Nothing is read from it before the
   first use; it must live until core_image_remove. Never fails for lack of a server. */
CORE_API int core_image_add(const void *wrapper, core_image **);
/* Adds an image, reads it at once (200: it cannot be read) and keeps a copy of it. registers: at most so many for each
   thread of its kernels, if they are compiled from PTX; 0: no bound. */
CORE_API int core_image_add_copy(const void *wrapper, unsigned registers, core_image **);
/* Checks options of the compiler of PTX (CUjit_option): 0, or 1. *registers: the bound that they say, or 0. */
CORE_API int core_jit_options(unsigned count, const int *options, void *const *values, unsigned *registers);
/* Loads it into the context, which otherwise its first use does. *log: the compiler's words about a failure, which the
   caller frees, or NULL; log may be NULL. Waits. */
CORE_API int core_image_load(core_context *, core_image *, char **log);
CORE_API void core_image_remove(core_image *);             /* also its functions and variables; unloads if connected */
struct core_link_input {
    int type;  /* CUjitInputType */
    bool text; /* PTX; its last byte is the NUL */
    const void *data;
    size_t size;
    const char *name; /* for messages */
    unsigned registers; /* as core_image_add_copy; objects and libraries keep their own */
};
/* Has the driver behind the server link the inputs. *image: the result, with a NUL behind its `size` bytes; the caller
   frees it. image may be NULL: then the driver only takes (and compiles) the inputs. *log: the linker's words about a
   failure, or unchanged; the caller frees it. Waits. */
CORE_API int core_link(core_context *, const struct core_link_input *, unsigned count, void **image, size_t *size,
                       char **log);
/* Same arguments, same object. The name is copied. */
CORE_API int core_function_add(core_image *, const char *name, core_function **);
/* Adds a function that the image may lack: 500, and nothing on stderr. Loads the image into the context. Waits. */
CORE_API int core_function_find(core_context *, core_image *, const char *name, core_function **);
/* The names of the image's functions; the caller frees the array, which holds the names too. 801: the driver behind the
   server does not tell. Loads the image into the context. Waits. */
CORE_API int core_image_functions(core_context *, core_image *, char ***names, unsigned *count);
/* Whether a program's handle is a function whose image was not removed: 0 or 400. Its image and its name; both may be
 * NULL. */
CORE_API int core_function_check(const core_function *, core_image **, const char **name);
/* The image's functions, of which `get` has room for *count, and their number in *count. get NULL: only the number.
   801, which is printed: as above. Loads the image into the context. Waits. */
CORE_API int core_image_list(core_context *, core_image *, core_function **get, unsigned *count);
/* A whole file, with a NUL behind its `size` bytes; the caller frees it. 301: it cannot be read; 200: it is empty. */
CORE_API int core_file_read(const char *path, void **, size_t *size);
CORE_API int core_variable_add(core_image *, const char *name, size_t size, bool is_constant, core_variable **);

/* Libraries (library.c): images of the program's that belong to no context. Handles that are none are found out and
   never followed. preserved: the code stays as long as the library, so no copy is needed. */
typedef struct core_library core_library;
CORE_API int core_library_load(const void *code, bool preserved, unsigned registers, core_library **);
CORE_API int core_library_load_file(const char *path, unsigned registers, core_library **);
CORE_API int core_library_unload(core_library *);          /* 400: there is none */
CORE_API core_image *core_library_image(const core_library *);       /* NULL: there is none */
CORE_API core_library *core_library_of(const core_image *); /* NULL: the image is no library's */
/* Set by a front end that keeps something about libraries; called before one is unloaded. */
extern CORE_API void (*core_library_ends)(core_library *);

struct core_parameter { uint32_t offset, size; };
/* The attributes stand in the order of CUfunction_attribute, so each has a name here and a number. A program can set
   those from CORE_FUNCTION_SETTABLE on. */
enum { CORE_FUNCTION_ATTRIBUTES = 16, CORE_FUNCTION_SETTABLE = 8 };
/* A kernel, or what it calls, launches graphs or asks for its own; it launches kernels. */
enum { CORE_USES_GRAPHS = 1, CORE_USES_CHILDREN = 2 };
struct core_function_info {
    const struct core_parameter *parameters; uint32_t parameter_count; uint32_t parameter_bytes;
    union {
        struct {
            int max_threads, shared_bytes, const_bytes, local_bytes, registers, ptx_version, binary_version;
            int cache_mode_ca, max_dynamic_shared, preferred_carveout, cluster_must_be_set, cluster_width;
            int cluster_height, cluster_depth, non_portable_cluster, cluster_policy;
        };
        int attributes[CORE_FUNCTION_ATTRIBUTES];
    };
    unsigned uses;      /* CORE_USES_...; 0 where the server does not say */
    /* The only block that it can be launched with, and the most blocks of its clusters; 0: any, or not known. */
    unsigned required_block[3], cluster_most;
    bool grid_of_clusters; /* a launch's grid counts clusters, and not blocks */
    bool one_thread_will_do; /* a block of one thread is taken in place of required_block */
};
/* Loads the image into the context if need be. Waits, the first time per context. The error is the one that native
   gives at the first launch, and is explained once on stderr with the compiler's log. */
CORE_API int core_function_info(core_context *, core_function *, const struct core_function_info **);
/* CUfunction_attribute; waits */
CORE_API int core_function_set(core_context *, core_function *, int attribute, int value);
/* CUfunc_cache, which has been checked; waits the first time per context */
CORE_API int core_function_set_cache(core_context *, core_function *, int config);
CORE_API int core_variable_address(core_context *, core_variable *, uint64_t *address, size_t *size);
CORE_API int core_occupancy_blocks(core_context *, core_function *, int block_size, size_t shared, unsigned flags,
                                   int *blocks);

struct core_launch;
/* How large a cluster of such a launch may be (size), or how many run at a time on the device. Waits. */
CORE_API int core_occupancy_clusters(core_context *, const struct core_launch *, bool size, int *answer);

/* TILED: as cuTensorMapEncodeTiled; the first `rank` numbers of each kind count. IM2COL: as cuTensorMapEncodeIm2col;
   `box` has the channels and the pixels, and the corners have `rank` - 2 numbers. IM2COL_WIDE: as
   cuTensorMapEncodeIm2colWide; `box` has the channels, the pixels and the mode, and the corners have one number. The
   server's driver writes the map, which has 128 bytes. Both wait. */
enum core_tensor_kind { CORE_TENSOR_TILED, CORE_TENSOR_IM2COL, CORE_TENSOR_IM2COL_WIDE };
struct core_tensor {
    enum core_tensor_kind kind;
    uint64_t address, dims[5], strides[5];
    uint32_t rank, box[5], steps[5];
    int lower[3], upper[3];
    int type, interleave, swizzle, promotion, fill;
};
CORE_API int core_tensor_map_encode(core_context *, const struct core_tensor *, void *map);
CORE_API int core_tensor_map_replace(core_context *, void *map, uint64_t address);

struct core_launch_attribute { int id; uint8_t value[64]; };
struct core_launch {
    core_function *function;
    core_stream stream;
    uint32_t grid[3], block[3];
    size_t shared;
    bool cooperative;
    bool of_node;                              /* of a graph: what the program may change was allowed to the node */
    void **arguments;                          /* one pointer per parameter; or NULL with packed/packed_size */
    const void *packed; size_t packed_size;
    const struct core_launch_attribute *attributes; uint32_t attribute_count;
};
/* Gives a launch the attributes of its stream that it does not have itself; `room` holds its attributes then. */
enum { CORE_LAUNCH_ATTRIBUTES = 32 };
CORE_API int core_stream_attributes_add(core_context *, struct core_launch *,
                                        struct core_launch_attribute room[CORE_LAUNCH_ATTRIBUTES]);
/* Before a graph is launched into the stream. Its work counts as the stream's, whichever streams it goes through: what
   the program wrote into managed memory goes to the device. When all has been sent, and after a failure,
   core_graph_sent is called with what this has put into *comes. */
CORE_API int core_graph_begins(core_context *, core_stream, bool *comes);
CORE_API void core_graph_sent(bool comes);
/* Checks what native checks at the launch (dimensions, shared memory, cooperative fit), then sends. */
CORE_API int core_launch(core_context *, const struct core_launch *);
/* Launches as a part of a graph: its kernels can launch others. current: they can ask which graph it is. */
CORE_API int core_launch_in_graph(core_context *, const struct core_launch *, uint64_t executable, bool current);
/* The checks of core_launch, of everything but the stream and the parameters; nothing is sent. */
CORE_API int core_launch_check(core_context *, const struct core_launch *);
/* Those of one attribute's value that need no launch: 0, or what CUDA says. A priority beyond the device's range
   becomes the nearest one. */
CORE_API int core_launch_attribute_check(core_context *, struct core_launch_attribute *);

#endif
