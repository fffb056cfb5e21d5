/*
 * jitlink.c: nvJitLink for the software GPU (interpose.h). Inputs are kept, and completing the link gives them to
 * the linker of libcuda.so.1 (cuLink…), whose result on that device is PTX; the program gets this PTX as machine
 * code. LTO IR can only be read by nvJitLink itself: it is asked for PTX of all such inputs, and that PTX is one
 * more input of the link.
 */
#define _GNU_SOURCE
#include "cpu/client/run/interpose.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of nvJitLinkResult, and nvJitLinkInputType. */
enum {
    OK = 0,
    PTX_COMPILE = 4,
    INTERNAL = 6,
    NULL_INPUT = 10,
    UNRECOGNIZED_ARCH = 16,
    UNSUPPORTED_ARCH = 17
};
enum { CUBIN = 1, PTX = 2, LTOIR = 3, FATBIN = 4, OBJECT = 5, LIBRARY = 6, ANY = 10 };
enum { LINK_CUBIN, LINK_PTX, LINK_FATBINARY, LINK_OBJECT, LINK_LIBRARY }; /* of CUjitInputType */
enum { OLDEST = 50, LOG_SIZE = 8192 };

typedef struct jitlink {
    struct input {
        int type;
        void *data;
        size_t size;
        char *name;
    } * inputs;
    unsigned count;
    char **options; /* of nvJitLinkCreate */
    uint32_t option_count;
    void *lto; /* nvJitLink's own handle, for LTO IR; NULL: there was none */
    void *result;
    size_t size;
    char log[LOG_SIZE];
} jitlink;

typedef int create_function(void **, uint32_t, const char *const *);
typedef int add_function(void *, int, const void *, size_t, const char *);
typedef int file_function(void *, int, const char *);
typedef int handle_function(void *);
typedef int size_function(void *, size_t *);
typedef int bytes_function(void *, void *);

static any_function original(const char *name) { return interposed_original(&interposed_jitlink, name); }
static int missing(void) { return INTERNAL; }
#define ORIGINAL(type, name) ((type *)original(name))

/* ---- nvJitLink's own links ---- */

/* With the link's options and perhaps one more, and the architecture that the program asked for or, if nvJitLink does
   not know it, the next below. */
static int create_own(const jitlink *link, const char *more, void **handle)
{
    create_function *create = ORIGINAL(create_function, "nvJitLinkCreate");
    char text[64];
    const char *given = "";
    int prefix, wanted = 0;
    uint32_t count = link->option_count;
    const char **options = calloc(count + 2, sizeof *options);
    if (!options)
        return INTERNAL;
    for (uint32_t i = 0; i < count; i++) {
        const char *value = architecture_option((const char *const *)link->options, (int)i, &prefix);
        options[i] = !value ? link->options[i] : prefix ? text : text + strlen("-arch=");
        wanted = value ? architecture_number(value) : wanted;
        given = value ? value : given;
    }
    if (more)
        options[count++] = more;
    int result = UNSUPPORTED_ARCH;
    if (wanted < OLDEST || wanted > software_gpu()) /* no code for this device: nvJitLink says what is wrong */
        result = create(handle, link->option_count, (const char *const *)link->options);
    else
        for (; wanted >= OLDEST && (result == UNSUPPORTED_ARCH || result == UNRECOGNIZED_ARCH); wanted--) {
            snprintf(text, sizeof text, "-arch=%s_%d", *given == 'c' ? "compute" : "sm", wanted);
            result = create(handle, count, options);
        }
    free(options);
    return result;
}

static void log_own(jitlink *link, void *own)
{
    size_t size = 0;
    if (!ORIGINAL(size_function, "nvJitLinkGetErrorLogSize")(own, &size) && size && size <= sizeof link->log)
        ORIGINAL(bytes_function, "nvJitLinkGetErrorLog")(own, link->log);
}

/* What nvJitLink says of the options. It makes a handle also of wrong ones, for its log. */
static int check_options(jitlink *link)
{
    void *own = NULL;
    int result = create_own(link, NULL, &own);
    if (result && own)
        log_own(link, own);
    if (own)
        ORIGINAL(handle_function, "nvJitLinkDestroy")(&own);
    return result;
}

/* For LTO IR, whose result is to be PTX. */
static int create_lto(jitlink *link) { return create_own(link, "-ptx", &link->lto); }

static int add(jitlink *link, int type, const void *data, size_t size, const char *name);

static int finish_lto(jitlink *link)
{
    size_t size;
    int result = ORIGINAL(handle_function, "nvJitLinkComplete")(link->lto);
    if (!result)
        result = ORIGINAL(size_function, "nvJitLinkGetLinkedPtxSize")(link->lto, &size);
    char *text = result ? NULL : calloc(1, size + 1);
    if (!result)
        result = text ? ORIGINAL(bytes_function, "nvJitLinkGetLinkedPtx")(link->lto, text) : INTERNAL;
    if (!result)
        result = add(link, PTX, text, size, "LTO");
    free(text);
    return result;
}

/* ---- the inputs ---- */

static int sniffed(const unsigned char *data, size_t size)
{
    static const unsigned char container[4] = { 0x50, 0xed, 0x55, 0xba };
    enum { MACHINE = 18, CUDA_MACHINE = 190 }; /* e_machine of ELF, EM_CUDA */
    if (size >= 8 && !memcmp(data, "!<arch>\n", 8))
        return LIBRARY;
    if (size >= 4 && !memcmp(data, container, 4))
        return FATBIN;
    if (size > MACHINE && !memcmp(data, "\177ELF", 4))
        return data[MACHINE] == CUDA_MACHINE ? CUBIN : OBJECT;
    return PTX;
}

static int add(jitlink *link, int type, const void *data, size_t size, const char *name)
{
    if (!data || !size)
        return NULL_INPUT;
    if (type == LTOIR) {
        int result = link->lto ? OK : create_lto(link);
        return result ? result : ORIGINAL(add_function, "nvJitLinkAddData")(link->lto, type, data, size, name);
    }
    struct input *more = realloc(link->inputs, (link->count + 1) * sizeof *more);
    char *copy = malloc(size + 1), *named = strdup(name ? name : "");
    if (more)
        link->inputs = more;
    if (!more || !copy || !named) {
        free(copy);
        free(named);
        return INTERNAL;
    }
    memcpy(copy, data, size);
    copy[size] = '\0';
    if (type == ANY)
        type = sniffed(data, size);
    if (type == PTX)
        lower_ptx_version(copy, size);
    link->inputs[link->count++] = (struct input){ type, copy, size, named };
    return OK;
}

static void free_link(jitlink *link)
{
    if (link->lto)
        ORIGINAL(handle_function, "nvJitLinkDestroy")(&link->lto);
    for (unsigned i = 0; i < link->count; i++) {
        free(link->inputs[i].data);
        free(link->inputs[i].name);
    }
    for (uint32_t i = 0; link->options && i < link->option_count; i++)
        free(link->options[i]);
    free(link->inputs);
    free(link->options);
    free(link->result);
    free(link);
}

/* ---- the link ---- */

/* In the current context. */
static int link_inputs(jitlink *link)
{
    static const int types[] = { [CUBIN] = LINK_CUBIN,
                                 [PTX] = LINK_PTX,
                                 [FATBIN] = LINK_FATBINARY,
                                 [OBJECT] = LINK_OBJECT,
                                 [LIBRARY] = LINK_LIBRARY };
    enum { ERROR_LOG = 5, ERROR_LOG_SIZE = 6 }; /* of CUjit_option */
    int options[] = { ERROR_LOG, ERROR_LOG_SIZE };
    void *values[] = { link->log, (void *)(uintptr_t)sizeof link->log };
    int (*create)(unsigned, int *, void **, void **) =
        (int (*)(unsigned, int *, void **, void **))driver_function("cuLinkCreate_v2");
    int (*give)(void *, int, void *, size_t, const char *, unsigned, int *, void **) = (int (*)(
        void *, int, void *, size_t, const char *, unsigned, int *, void **))driver_function("cuLinkAddData_v2");
    int (*complete)(void *, void **, size_t *) = (int (*)(void *, void **, size_t *))driver_function("cuLinkComplete");
    int (*destroy)(void *) = (int (*)(void *))driver_function("cuLinkDestroy");
    void *state, *image;
    size_t size;
    if (create(2, options, values, &state))
        return INTERNAL;
    int result = OK;
    for (unsigned i = 0; i < link->count && !result; i++) {
        const struct input *input = &link->inputs[i];
        bool known = input->type >= CUBIN && input->type <= LIBRARY;
        if (!known || give(state, types[input->type], input->data, input->size, input->name, 0, NULL, NULL))
            result = PTX_COMPILE;
    }
    if (!result && complete(state, &image, &size))
        result = INTERNAL;
    if (!result && !(link->result = malloc(size)))
        result = INTERNAL;
    if (!result) {
        memcpy(link->result, image, size);
        link->size = size;
    }
    destroy(state);
    return result;
}

/* A link needs a context, and nvJitLink none: the thread's current one, or the first device's primary one meanwhile. */
static int link_somewhere(jitlink *link)
{
    int (*current)(void **) = (int (*)(void **))driver_function("cuCtxGetCurrent");
    int (*retain)(void **, int) = (int (*)(void **, int))driver_function("cuDevicePrimaryCtxRetain");
    int (*release)(int) = (int (*)(int))driver_function("cuDevicePrimaryCtxRelease_v2");
    int (*push)(void *) = (int (*)(void *))driver_function("cuCtxPushCurrent_v2");
    int (*pop)(void **) = (int (*)(void **))driver_function("cuCtxPopCurrent_v2");
    void *context = NULL;
    if (!current(&context) && context)
        return link_inputs(link);
    if (retain(&context, 0))
        return INTERNAL;
    int result = push(context) ? INTERNAL : OK;
    if (!result) {
        result = link_inputs(link);
        pop(&context);
    }
    release(0);
    return result;
}

/* ---- nvJitLink's functions ---- */

EXPORTED create_function nvJitLinkCreate;
EXPORTED handle_function nvJitLinkDestroy, nvJitLinkComplete;
EXPORTED add_function nvJitLinkAddData;
EXPORTED file_function nvJitLinkAddFile;
EXPORTED size_function nvJitLinkGetLinkedCubinSize, nvJitLinkGetLinkedPtxSize, nvJitLinkGetErrorLogSize,
    nvJitLinkGetInfoLogSize;
EXPORTED bytes_function nvJitLinkGetLinkedCubin, nvJitLinkGetLinkedPtx, nvJitLinkGetErrorLog, nvJitLinkGetInfoLog;

int nvJitLinkCreate(void **handle, uint32_t count, const char *const *options)
{
    INTERPOSED_ENTER();
    if (!software_gpu())
        return ORIGINAL(create_function, "nvJitLinkCreate")(handle, count, options);
    jitlink *link = handle ? calloc(1, sizeof *link) : NULL;
    if (!link || !(link->options = calloc((size_t)count + 1, sizeof *link->options))) {
        free(link);
        return INTERNAL;
    }
    link->option_count = count;
    for (uint32_t i = 0; i < count; i++)
        if (!(link->options[i] = strdup(options[i]))) {
            free_link(link);
            return INTERNAL;
        }
    *handle = link;
    return check_options(link);
}

int nvJitLinkDestroy(void *handle)
{
    INTERPOSED_ENTER();
    void **pointer = handle;
    if (!software_gpu())
        return ORIGINAL(handle_function, "nvJitLinkDestroy")(handle);
    if (!pointer || !*pointer)
        return NULL_INPUT;
    free_link(*pointer);
    *pointer = NULL;
    return OK;
}

int nvJitLinkAddData(void *handle, int type, const void *data, size_t size, const char *name)
{
    INTERPOSED_ENTER();
    return software_gpu() ? add(handle, type, data, size, name)
                          : ORIGINAL(add_function, "nvJitLinkAddData")(handle, type, data, size, name);
}

int nvJitLinkAddFile(void *handle, int type, const char *path)
{
    INTERPOSED_ENTER();
    if (!software_gpu())
        return ORIGINAL(file_function, "nvJitLinkAddFile")(handle, type, path);
    FILE *file = fopen(path, "rbe");
    char *bytes = NULL;
    size_t size = 0, part = 1;
    enum { STEP = 1 << 20 };
    for (char *more; file && part; size += part) {
        if (!(more = realloc(bytes, size + STEP)))
            break;
        bytes = more;
        part = fread(bytes + size, 1, STEP, file);
    }
    int result = file && !part && !ferror(file) ? add(handle, type, bytes, size, path) : INTERNAL;
    if (file)
        fclose(file);
    free(bytes);
    return result;
}

int nvJitLinkComplete(void *handle)
{
    INTERPOSED_ENTER();
    jitlink *link = handle;
    if (!software_gpu())
        return ORIGINAL(handle_function, "nvJitLinkComplete")(handle);
    int result = link->lto ? finish_lto(link) : OK;
    if (result) {
        log_own(link, link->lto);
        return result;
    }
    return link_somewhere(link);
}

int nvJitLinkGetLinkedCubinSize(void *handle, size_t *size)
{
    INTERPOSED_ENTER();
    const jitlink *link = handle;
    if (!software_gpu())
        return ORIGINAL(size_function, "nvJitLinkGetLinkedCubinSize")(handle, size);
    if (!link->result)
        return INTERNAL;
    *size = link->size;
    return OK;
}

int nvJitLinkGetLinkedCubin(void *handle, void *bytes)
{
    INTERPOSED_ENTER();
    const jitlink *link = handle;
    if (!software_gpu())
        return ORIGINAL(bytes_function, "nvJitLinkGetLinkedCubin")(handle, bytes);
    if (!link->result)
        return INTERNAL;
    memcpy(bytes, link->result, link->size);
    return OK;
}

int nvJitLinkGetLinkedPtxSize(void *handle, size_t *size)
{
    INTERPOSED_ENTER();
    return software_gpu() ? nvJitLinkGetLinkedCubinSize(handle, size)
                          : ORIGINAL(size_function, "nvJitLinkGetLinkedPtxSize")(handle, size);
}

int nvJitLinkGetLinkedPtx(void *handle, void *bytes)
{
    INTERPOSED_ENTER();
    return software_gpu() ? nvJitLinkGetLinkedCubin(handle, bytes)
                          : ORIGINAL(bytes_function, "nvJitLinkGetLinkedPtx")(handle, bytes);
}

int nvJitLinkGetErrorLogSize(void *handle, size_t *size)
{
    INTERPOSED_ENTER();
    if (!software_gpu())
        return ORIGINAL(size_function, "nvJitLinkGetErrorLogSize")(handle, size);
    *size = strlen(((jitlink *)handle)->log) + 1;
    return OK;
}

int nvJitLinkGetErrorLog(void *handle, void *bytes)
{
    INTERPOSED_ENTER();
    if (!software_gpu())
        return ORIGINAL(bytes_function, "nvJitLinkGetErrorLog")(handle, bytes);
    strcpy(bytes, ((jitlink *)handle)->log);
    return OK;
}

int nvJitLinkGetInfoLogSize(void *handle, size_t *size)
{
    INTERPOSED_ENTER();
    if (!software_gpu())
        return ORIGINAL(size_function, "nvJitLinkGetInfoLogSize")(handle, size);
    *size = 1;
    return OK;
}

int nvJitLinkGetInfoLog(void *handle, void *bytes)
{
    INTERPOSED_ENTER();
    if (!software_gpu())
        return ORIGINAL(bytes_function, "nvJitLinkGetInfoLog")(handle, bytes);
    *(char *)bytes = '\0';
    return OK;
}

#define FUNCTION(name)            \
    {                             \
#name, (any_function)name \
    }
static const struct interposed_function functions[] = {
    FUNCTION(nvJitLinkCreate),          FUNCTION(nvJitLinkDestroy),          FUNCTION(nvJitLinkAddData),
    FUNCTION(nvJitLinkAddFile),         FUNCTION(nvJitLinkComplete),         FUNCTION(nvJitLinkGetLinkedCubinSize),
    FUNCTION(nvJitLinkGetLinkedCubin),  FUNCTION(nvJitLinkGetLinkedPtxSize), FUNCTION(nvJitLinkGetLinkedPtx),
    FUNCTION(nvJitLinkGetErrorLogSize), FUNCTION(nvJitLinkGetErrorLog),      FUNCTION(nvJitLinkGetInfoLogSize),
    FUNCTION(nvJitLinkGetInfoLog),
};
struct interposed interposed_jitlink = { "nvJitLink", functions, sizeof functions / sizeof functions[0],
                                          .missing = (any_function)missing };

/* Programs that are linked with nvJitLink call its functions by their versions. */
#define ALIAS(name, version) __typeof__(name) __##name##_##version __attribute__((alias(#name), visibility("default")));
#define ALIASES(version)                                                                               \
    ALIAS(nvJitLinkCreate, version)                                                                    \
    ALIAS(nvJitLinkDestroy, version) ALIAS(nvJitLinkAddData, version) ALIAS(nvJitLinkAddFile, version) \
        ALIAS(nvJitLinkComplete, version) ALIAS(nvJitLinkGetLinkedCubinSize, version)                  \
            ALIAS(nvJitLinkGetLinkedCubin, version) ALIAS(nvJitLinkGetLinkedPtxSize, version)          \
                ALIAS(nvJitLinkGetLinkedPtx, version) ALIAS(nvJitLinkGetErrorLogSize, version)         \
                    ALIAS(nvJitLinkGetErrorLog, version) ALIAS(nvJitLinkGetInfoLogSize, version)       \
                        ALIAS(nvJitLinkGetInfoLog, version)
ALIASES(12_0)
ALIASES(12_1) ALIASES(12_2) ALIASES(12_3) ALIASES(12_4) ALIASES(12_5) ALIASES(12_6) ALIASES(12_8) ALIASES(12_9)
    ALIASES(13_0) ALIASES(13_1) ALIASES(13_2) ALIASES(13_3) ALIASES(13_4) ALIASES(13_5)
