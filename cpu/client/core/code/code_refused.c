/*
 * code_refused.c: the message about a code image that the server refuses.
 *
 * Libraries carry the same code in several forms. They try an image, and go on with another one when it is refused:
 * with the software GPU many have images of machine code only. So the message names the library, says that it may go
 * on, and comes once for each library and error. An image of the program itself has no name: of all those of which the
 * server says the same, for example of the images of a static library, the message comes once.
 *
 * Whose an image is: the object that its bytes lie in. NVIDIA's libraries unpack some of theirs into memory of their
 * own; so where no object has the bytes, and one of these libraries made the call that needs the image, it is that
 * library's. Looking for it takes a walk over the stack, only here.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code_state.h"
#include "cpu/common/log.h"
#include "cpu/client/core/api_code.h"
#include "cpu/client/core/wire/state.h"

enum { PRINTED_MOST = 64, FRAMES = 32 };

/* A shared library's file name without folders, or NULL: the program, or what no object holds. */
static const char *library_at(const void *address)
{
    Dl_info info;
    struct link_map *object = NULL;
    if (!dladdr1(address, &info, (void **)&object, RTLD_DL_LINKMAP) || !object || !*object->l_name)
        return NULL;
    const char *slash = strrchr(object->l_name, '/');
    return slash ? slash + 1 : object->l_name;
}

static bool begins(const char *library, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strncmp(library, names[i], strlen(names[i])))
            return true;
    return false;
}

static const char *calling_library(void)
{
    /* ours, and the shared runtime, which calls for somebody else; NVIDIA's */
    static const char *const between[] = { "libflyt-", "libcuda.so", "libcudart.so", "cricket-client.so" };
    static const char *const nvidias[] = { "libcu", "libnv", "libnpp", "libnccl" };
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES);
    for (int i = 0; i < count; i++) {
        const char *library = library_at(frames[i]);
        if (library && begins(library, between, sizeof between / sizeof *between))
            continue;
        return library && begins(library, nvidias, sizeof nvidias / sizeof *nvidias) ? library : NULL;
    }
    return NULL;
}

static const char *library_of(const core_image *image)
{
    const char *library = image->wrapper ? library_at(image->wrapper) : NULL;
    Dl_info info;
    if (library || (image->wrapper && dladdr(image->wrapper, &info)))
        return library;                       /* a library's, or the program's own */
    return calling_library();
}

static uint64_t mix(uint64_t sum, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);      /* FNV-1a */
    return sum;
}

/* Whether the message has been printed. When the table is full, every message is printed. */
static bool printed_before(uint64_t what)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t printed[PRINTED_MOST];
    static unsigned count;
    bool known = false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < count && !known; i++)
        known = printed[i] == what;
    if (!known && count < PRINTED_MOST)
        printed[count++] = what;
    pthread_mutex_unlock(&lock);
    return known;
}

struct compilers {
    char name[64];   /* one of NVIDIA's that is loaded; empty: none is */
    bool interposed; /* libflyt-nvrtc.so is there, so it makes PTX */
};

static int note_compiler(struct dl_phdr_info *object, size_t size, void *context)
{
    static const char *const names[] = { "libnvrtc", "libnvJitLink", "libnvvm" };
    struct compilers *found = context;
    const char *slash = strrchr(object->dlpi_name, '/'), *file = slash ? slash + 1 : object->dlpi_name;
    (void)size;
    found->interposed |= !strcmp(file, "libflyt-nvrtc.so");
    if (!*found->name && begins(file, names, sizeof names / sizeof *names))
        snprintf(found->name, sizeof found->name, "%s", file);
    return 0;
}

/* What to do, where a compiler of NVIDIA's has made machine code in the process that could have made PTX. */
static const char *advice(const core_image *image, int code, char *text, size_t size)
{
    enum { NO_BINARY_FOR_GPU = 209 };
    struct compilers found = { .interposed = false };
    *text = '\0';
    if (code != NO_BINARY_FOR_GPU || image->wrapper)
        return text;
    dl_iterate_phdr(note_compiler, &found);
    if (*found.name && !found.interposed)
        snprintf(text, size, ". If it comes from %s, start the program by flyt-run with FLYT_NVRTC=always", found.name);
    return text;
}

void code_image_refused(const core_image *image, int code, const char *log, size_t log_size)
{
    while (log_size && (log[log_size - 1] == '\n' || !log[log_size - 1]))
        log_size--;
    const char *library = library_of(image);
    uint64_t what = mix(UINT64_C(0xcbf29ce484222325), &code, sizeof code);
    what = library ? mix(what, library, strlen(library)) : mix(what, log, log_size);
    const bool quiet = printed_before(what);
    if (quiet && !log_enabled(LOG_LEVEL_DEBUG))
        return;
    const char *colon = log_size ? ": " : "", *text = log_size ? log : "";
    char what_to_do[160];
    advice(image, code, what_to_do, sizeof what_to_do);
    if (library)
        log_message(quiet ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARNING,
                    "%s has a code image that cannot be used on the GPU server %s (error %d)%s%.*s. The library may go "
                    "on with other code; this message is printed once%s", library, core_session.uri, code, colon,
                    (int)log_size, text, what_to_do);
    else
        log_message(quiet ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR,
                    "a code image of this program cannot be used on the GPU server %s (error %d)%s%.*s%s",
                    core_session.uri, code, colon, (int)log_size, text, what_to_do);
}
