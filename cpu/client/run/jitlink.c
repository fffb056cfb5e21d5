/*
 * jitlink.c: nvJitLink for the software GPU (interpose.h). Inputs are kept, and completing the link gives them to
 * the linker of libcuda.so.1 (cuLink…), whose result on that device is PTX; the program gets this PTX as machine
 * code. LTO IR can only be read by nvJitLink itself: it is asked for PTX of all such inputs, and that PTX is one
 * more input of the link. A link whose result is to be PTX (-ptx) is nvJitLink's alone.
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
    INVALID_INPUT = 3,
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
    void *lto;      /* nvJitLink's own handle, for LTO IR; NULL: there was none */
    size_t lto_log; /* so much of its log is in this one */
    bool whole;     /* lto does all of it: the result is PTX */
    bool has_lto;   /* there was some beside PTX, which is taken */
    bool with_lto;  /* the option -lto */
    bool is_tried;  /* compile_options have been looked at */
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
typedef int version_function(unsigned *, unsigned *);

static any_function original(const char *name) { return interposed_original(&interposed_jitlink, name); }
static int missing(void) { return INTERNAL; }
#define ORIGINAL(type, name) ((type *)original(name))

/* ---- nvJitLink's own links ---- */

static bool has_option(const jitlink *link, const char *begin)
{
    for (uint32_t i = 0; i < link->option_count; i++)
        if (strncmp(link->options[i], begin, strlen(begin)) == 0)
            return true;
    return false;
}

/* The highest architecture to ask for. From 13 on nvJitLink says which it does not know. Before, it gives an internal
   error, and writes to stderr. */
static int newest_architecture(void)
{
    version_function *get = (version_function *)interposed_known(&interposed_jitlink, "nvJitLinkVersion");
    unsigned major = 0, minor = 0;
    if (!get || get(&major, &minor) || major < 12)
        return 90;
    return major > 12 ? 1000 : minor >= 9 ? 121 : minor == 8 ? 120 : 90;
}

static void destroy_own(void **own)
{
    if (*own)
        ORIGINAL(handle_function, "nvJitLinkDestroy")(own);
    *own = NULL;
}

/* With the link's options and perhaps one more, and the architecture that the program asked for or, if nvJitLink does
   not know it, the next below. *handle is NULL before. */
static int create_own(const jitlink *link, const char *more, void **handle)
{
    static const char option[] = "-arch=";
    create_function *create = ORIGINAL(create_function, "nvJitLinkCreate");
    char text[64];
    const char *given = "";
    int wanted = 0;
    uint32_t count = link->option_count;
    const char **options = calloc(count + 2, sizeof *options);
    if (!options)
        return INTERNAL;
    for (uint32_t i = 0; i < count; i++) {
        const char *value =
            strncmp(link->options[i], option, strlen(option)) == 0 ? link->options[i] + strlen(option) : NULL;
        options[i] = value ? text : link->options[i];
        wanted = value ? architecture_number(value) : wanted;
        given = value ? value : given;
    }
    if (more)
        options[count++] = more;
    int result = UNSUPPORTED_ARCH, newest = newest_architecture();
    if (wanted < OLDEST || wanted > software_gpu()) /* no code for this device: nvJitLink says what is wrong */
        result = create(handle, link->option_count, (const char *const *)link->options);
    else
        for (wanted = wanted < newest ? wanted : newest;
             wanted >= OLDEST && (result == UNSUPPORTED_ARCH || result == UNRECOGNIZED_ARCH); wanted--) {
            destroy_own(handle);
            snprintf(text, sizeof text, "%s%s_%d", option, *given == 'c' ? "compute" : "sm", wanted);
            result = create(handle, count, options);
        }
    free(options);
    return result;
}

static void add_to_log(jitlink *link, const char *text)
{
    size_t length = strlen(link->log);
    snprintf(link->log + length, sizeof link->log - length, "%s", text);
}

static void log_own(jitlink *link, void *own)
{
    size_t size = 0;
    if (ORIGINAL(size_function, "nvJitLinkGetErrorLogSize")(own, &size) || !size)
        return;
    size_t known = own == link->lto ? link->lto_log : 0;
    char *text = calloc(1, size + 1);
    if (text && !ORIGINAL(bytes_function, "nvJitLinkGetErrorLog")(own, text) && strlen(text) > known) {
        add_to_log(link, text + known);
        link->lto_log = own == link->lto ? strlen(text) : link->lto_log;
    }
    free(text);
}

/* What nvJitLink says of the options. It makes a handle also of wrong ones, for its log. */
static int check_options(jitlink *link)
{
    void *own = NULL;
    int result = create_own(link, NULL, &own);
    link->with_lto = has_option(link, "-lto");
    link->whole = !result && has_option(link, "-ptx");
    if (link->whole) {
        link->lto = own;
        return OK;
    }
    if (result && own)
        log_own(link, own);
    destroy_own(&own);
    return result;
}

/* What nvJitLink says of one input alone, for what is wrong with it. */
static int add_alone(jitlink *link, int type, const void *data, size_t size, const char *name)
{
    void *own = NULL;
    int result = create_own(link, NULL, &own);
    if (!result)
        result = ORIGINAL(add_function, "nvJitLinkAddData")(own, type, data, size, name);
    if (result && own)
        log_own(link, own);
    destroy_own(&own);
    return result;
}

static const char nothing[] = ".version 6.3\n.target sm_75\n.address_size 64\n";

/* Options that nvJitLink hands to its compiler of PTX are checked when there is something to compile. */
static int check_compile_options(jitlink *link, const char *name)
{
    if (link->is_tried || !(has_option(link, "-maxrregcount") || has_option(link, "-Xptxas")))
        return OK;
    link->is_tried = true;
    return add_alone(link, PTX, nothing, sizeof nothing, name);
}

/* Without LTO IR a link with -lto fails. */
static int complete_empty(jitlink *link)
{
    void *own = NULL;
    int result = create_own(link, NULL, &own);
    if (!result)
        result = ORIGINAL(handle_function, "nvJitLinkComplete")(own);
    if (result && own)
        log_own(link, own);
    destroy_own(&own);
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

static const unsigned char container[4] = { 0x50, 0xed, 0x55, 0xba };

/* Which of a fat binary's entries there are, in one of the fat binaries of these bytes, and in each of them. In an
   object or a library they lie at even places. (cpu/code/fatbin.c describes the form.) */
struct found {
    bool lto, ptx, each_lto;
};

static struct found look_into(const unsigned char *data, size_t size)
{
    enum { HEAD = 16, ENTRY = 64, KIND_PTX = 1, KIND_LTO = 8 };
    struct found found = { .each_lto = true };
    for (size_t at = 0; at + HEAD <= size; at += 2) {
        if (memcmp(data + at, container, sizeof container) != 0)
            continue;
        bool here = false;
        uint64_t left;
        memcpy(&left, data + at + 8, sizeof left);
        at += HEAD;
        left = left < size - at ? left : size - at;
        while (left >= ENTRY) {
            uint16_t kind;
            uint32_t head;
            uint64_t payload;
            memcpy(&kind, data + at, sizeof kind);
            memcpy(&head, data + at + 4, sizeof head);
            memcpy(&payload, data + at + 8, sizeof payload);
            if (head < ENTRY || head > left || payload > left - head)
                break;
            found.ptx |= kind == KIND_PTX;
            here |= kind == KIND_LTO;
            at += head + payload;
            left -= head + payload;
        }
        found.lto |= here;
        found.each_lto &= here;
        at = (at & ~(size_t)1) - 2; /* the loop adds 2 */
    }
    return found;
}

/* nvJitLink's own are LTO IR, and what has nothing else to offer; with -lto also what has LTO IR beside PTX. */
static bool is_lto(jitlink *link, int kind, const void *data, size_t size)
{
    if (kind < FATBIN || kind > LIBRARY)
        return kind == LTOIR;
    struct found found = look_into(data, size);
    link->has_lto |= found.lto;
    return found.lto && (!found.ptx || (link->with_lto && found.each_lto));
}

static int sniffed(const unsigned char *data, size_t size)
{
    static const unsigned char lto[4] = { 0xed, 0x43, 0x4e, 0x7f };
    enum { MACHINE = 18, CUDA_MACHINE = 190 }; /* e_machine of ELF, EM_CUDA */
    if (size >= 4 && !memcmp(data, lto, 4))
        return LTOIR;
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
    if (link->whole)
        return ORIGINAL(add_function, "nvJitLinkAddData")(link->lto, type, data, size, name);
    int kind = type == ANY ? sniffed(data, size) : type;
    bool contains = kind >= FATBIN && kind <= LIBRARY;
    bool lto = is_lto(link, kind, data, size);
    if (kind < CUBIN || kind > LIBRARY || (contains && kind != sniffed(data, size)) || (lto && !link->with_lto)) {
        int result = add_alone(link, type, data, size, name);
        return result ? result : INTERNAL;
    }
    if (lto) {
        int result = link->lto ? OK : create_lto(link);
        if (!result) {
            result = ORIGINAL(add_function, "nvJitLinkAddData")(link->lto, type, data, size, name);
            if (result)
                log_own(link, link->lto);
        }
        return result;
    }
    int result = check_compile_options(link, name);
    if (result)
        return result;
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
    if (kind == PTX)
        lower_ptx_version(copy, size);
    link->inputs[link->count++] = (struct input){ kind, copy, size, named };
    return OK;
}

static void free_link(jitlink *link)
{
    destroy_own(&link->lto);
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
    enum { MAX_REGISTERS = 0, ERROR_LOG = 5, ERROR_LOG_SIZE = 6 }; /* of CUjit_option */
    unsigned registers = registers_option((const char *const *)link->options, link->option_count);
    int options[] = { ERROR_LOG, ERROR_LOG_SIZE, MAX_REGISTERS };
    char log[LOG_SIZE] = "";
    void *values[] = { log, (void *)(uintptr_t)sizeof log, (void *)(uintptr_t)registers };
    int (*create)(unsigned, int *, void **, void **) =
        (int (*)(unsigned, int *, void **, void **))driver_function("cuLinkCreate_v2");
    int (*give)(void *, int, void *, size_t, const char *, unsigned, int *, void **) = (int (*)(
        void *, int, void *, size_t, const char *, unsigned, int *, void **))driver_function("cuLinkAddData_v2");
    int (*complete)(void *, void **, size_t *) = (int (*)(void *, void **, size_t *))driver_function("cuLinkComplete");
    int (*destroy)(void *) = (int (*)(void *))driver_function("cuLinkDestroy");
    void *state, *image;
    size_t size;
    if (create(registers ? 3 : 2, options, values, &state))
        return INTERNAL;
    int result = OK;
    for (unsigned i = 0; i < link->count && !result; i++) {
        const struct input *input = &link->inputs[i];
        if (give(state, types[input->type], input->data, input->size, input->name, 0, NULL, NULL))
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
    add_to_log(link, log);
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
    nvJitLinkGetInfoLogSize, nvJitLinkGetLinkedLTOIRSize;
EXPORTED bytes_function nvJitLinkGetLinkedCubin, nvJitLinkGetLinkedPtx, nvJitLinkGetErrorLog, nvJitLinkGetInfoLog,
    nvJitLinkGetLinkedLTOIR;

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
    if (link->whole)
        return ORIGINAL(handle_function, "nvJitLinkComplete")(link->lto);
    int result = link->lto ? finish_lto(link) : link->with_lto && !link->has_lto ? complete_empty(link) : OK;
    if (result && link->lto)
        log_own(link, link->lto);
    if (!result && !link->count)
        result = add(link, PTX, nothing, sizeof nothing - 1, "nothing"); /* a link of nothing is an empty module */
    return result ? result : link_somewhere(link);
}

/* Whom to ask for a result or a log: nvJitLink itself, with its own handle; NULL: the link here. */
static void *own_of(void *handle)
{
    return !software_gpu() ? handle : ((jitlink *)handle)->whole ? ((jitlink *)handle)->lto : NULL;
}

int nvJitLinkGetLinkedCubinSize(void *handle, size_t *size)
{
    INTERPOSED_ENTER();
    const jitlink *link = handle;
    if (own_of(handle))
        return ORIGINAL(size_function, "nvJitLinkGetLinkedCubinSize")(own_of(handle), size);
    if (!link->result)
        return INTERNAL;
    *size = link->size;
    return OK;
}

int nvJitLinkGetLinkedCubin(void *handle, void *bytes)
{
    INTERPOSED_ENTER();
    const jitlink *link = handle;
    if (own_of(handle))
        return ORIGINAL(bytes_function, "nvJitLinkGetLinkedCubin")(own_of(handle), bytes);
    if (!link->result)
        return INTERNAL;
    memcpy(bytes, link->result, link->size);
    return OK;
}

/* Results that only the options for them bring. */
#define OTHER_RESULT(kind)                                                                                       \
    int nvJitLinkGetLinked##kind##Size(void *handle, size_t *size)                                               \
    {                                                                                                            \
        INTERPOSED_ENTER();                                                                                      \
        return own_of(handle) ? ORIGINAL(size_function, "nvJitLinkGetLinked" #kind "Size")(own_of(handle), size) \
                              : INVALID_INPUT;                                                                   \
    }                                                                                                            \
    int nvJitLinkGetLinked##kind(void *handle, void *bytes)                                                      \
    {                                                                                                            \
        INTERPOSED_ENTER();                                                                                      \
        return own_of(handle) ? ORIGINAL(bytes_function, "nvJitLinkGetLinked" #kind)(own_of(handle), bytes)      \
                              : INVALID_INPUT;                                                                   \
    }
OTHER_RESULT(Ptx)
OTHER_RESULT(LTOIR)

int nvJitLinkGetErrorLogSize(void *handle, size_t *size)
{
    INTERPOSED_ENTER();
    if (own_of(handle))
        return ORIGINAL(size_function, "nvJitLinkGetErrorLogSize")(own_of(handle), size);
    size_t length = strlen(((jitlink *)handle)->log);
    *size = length ? length + 1 : 0;
    return OK;
}

int nvJitLinkGetErrorLog(void *handle, void *bytes)
{
    INTERPOSED_ENTER();
    if (own_of(handle))
        return ORIGINAL(bytes_function, "nvJitLinkGetErrorLog")(own_of(handle), bytes);
    strcpy(bytes, ((jitlink *)handle)->log);
    return OK;
}

int nvJitLinkGetInfoLogSize(void *handle, size_t *size)
{
    INTERPOSED_ENTER();
    if (own_of(handle))
        return ORIGINAL(size_function, "nvJitLinkGetInfoLogSize")(own_of(handle), size);
    *size = 0;
    return OK;
}

int nvJitLinkGetInfoLog(void *handle, void *bytes)
{
    INTERPOSED_ENTER();
    if (own_of(handle))
        return ORIGINAL(bytes_function, "nvJitLinkGetInfoLog")(own_of(handle), bytes);
    *(char *)bytes = '\0';
    return OK;
}

#define FUNCTION(name)            \
    {                             \
#name, (any_function)name \
    }
static const struct interposed_function functions[] = {
    FUNCTION(nvJitLinkCreate),         FUNCTION(nvJitLinkDestroy),
    FUNCTION(nvJitLinkAddData),        FUNCTION(nvJitLinkAddFile),
    FUNCTION(nvJitLinkComplete),       FUNCTION(nvJitLinkGetLinkedCubinSize),
    FUNCTION(nvJitLinkGetLinkedCubin), FUNCTION(nvJitLinkGetLinkedPtxSize),
    FUNCTION(nvJitLinkGetLinkedPtx),   FUNCTION(nvJitLinkGetErrorLogSize),
    FUNCTION(nvJitLinkGetErrorLog),    FUNCTION(nvJitLinkGetInfoLogSize),
    FUNCTION(nvJitLinkGetInfoLog),     FUNCTION(nvJitLinkGetLinkedLTOIRSize),
    FUNCTION(nvJitLinkGetLinkedLTOIR),
};
struct interposed interposed_jitlink = { "nvJitLink", functions, sizeof functions / sizeof functions[0],
                                          .missing = (any_function)missing };

/* Programs that are linked with nvJitLink call its functions by their versions. */
#define ALIAS(name, version) __typeof__(name) __##name##_##version __attribute__((alias(#name), visibility("default")));
#define ALIASES(version)                                                                    \
    ALIAS(nvJitLinkCreate, version)                                                         \
    ALIAS(nvJitLinkDestroy, version)                                                        \
    ALIAS(nvJitLinkAddData, version)                                                        \
    ALIAS(nvJitLinkAddFile, version)                                                        \
    ALIAS(nvJitLinkComplete, version)                                                       \
    ALIAS(nvJitLinkGetLinkedCubinSize, version)                                             \
    ALIAS(nvJitLinkGetLinkedCubin, version) ALIAS(nvJitLinkGetLinkedPtxSize, version)       \
        ALIAS(nvJitLinkGetLinkedPtx, version) ALIAS(nvJitLinkGetErrorLogSize, version)      \
            ALIAS(nvJitLinkGetErrorLog, version) ALIAS(nvJitLinkGetInfoLogSize, version)    \
                ALIAS(nvJitLinkGetInfoLog, version) ALIAS(nvJitLinkGetLinkedLTOIR, version) \
                    ALIAS(nvJitLinkGetLinkedLTOIRSize, version)
ALIASES(12_0)
ALIASES(12_1)
ALIASES(12_2)
ALIASES(12_3)
ALIASES(12_4)
ALIASES(12_5)
ALIASES(12_6) ALIASES(12_7) ALIASES(12_8) ALIASES(12_9) ALIASES(13_0) ALIASES(13_1) ALIASES(13_2) ALIASES(13_3)
    ALIASES(13_4) ALIASES(13_5)
