/*
 * library.c: libraries of the Driver and the Runtime API: images that belong to no context. The code is loaded into a
 * context when it is first used there. Both APIs have the same handles, so a program may give a handle of one to the
 * other.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_code.h"
#include "cpu/common/cancel.h"
#include "registry.h"

struct core_library {
    core_image *image;
    struct core_library *next; /* of the unused records */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registry handles, by_image;
static struct core_library *spare;

void (*core_library_ends)(core_library *);

static core_library *record_make(core_image *image)
{
    pthread_mutex_lock(&lock);
    core_library *library = spare ? spare : calloc(1, sizeof *library);
    bool kept = library && registry_set(&handles, library, library) && registry_set(&by_image, image, library);
    if (kept) {
        spare = library == spare ? library->next : spare;
        *library = (core_library){ .image = image };
    } else if (library) {
        registry_set(&handles, library, NULL);
        if (library != spare)
            free(library);
    }
    pthread_mutex_unlock(&lock);
    return kept ? library : NULL;
}

/* drop: it is no library from here on. */
static core_image *image_of(const core_library *handle, bool drop)
{
    pthread_mutex_lock(&lock);
    core_library *library = registry_find(&handles, handle);
    core_image *image = library ? library->image : NULL;
    if (image && drop) {
        registry_set(&handles, library, NULL);
        registry_set(&by_image, image, NULL);
        library->next = spare;
        spare = library;
    }
    pthread_mutex_unlock(&lock);
    return image;
}

core_image *core_library_image(const core_library *handle)
{
    CANCEL_DEFERRED;
    return image_of(handle, false);
}

core_library *core_library_of(const core_image *image) { return registry_find(&by_image, image); }

int core_library_load(const void *code, bool preserved, unsigned registers, core_library **out)
{
    CANCEL_DEFERRED;
    core_image *image;
    int error =
        preserved && !registers ? core_image_add(code, &image) : core_image_add_copy(code, registers, &image);
    if (error)
        return error;
    core_library *library = record_make(image);
    if (!library) {
        core_image_remove(image);
        return CORE_OUT_OF_MEMORY;
    }
    *out = library;
    return CORE_OK;
}

int core_library_load_file(const char *path, unsigned registers, core_library **out)
{
    CANCEL_DEFERRED;
    void *code;
    size_t size;
    int error = core_file_read(path, &code, &size);
    if (error)
        return error;
    error = core_library_load(code, false, registers, out);
    free(code);
    return error;
}

int core_library_unload(core_library *handle)
{
    CANCEL_DEFERRED;
    if (!image_of(handle, false))
        return CORE_INVALID_HANDLE;
    if (core_library_ends)
        core_library_ends(handle); /* while the record is not another library's */
    core_image *image = image_of(handle, true);
    if (!image)
        return CORE_INVALID_HANDLE;
    core_image_remove(image);
    return CORE_OK;
}

int core_image_list(core_context *context, core_image *image, core_function **get, unsigned *count)
{
    CANCEL_DEFERRED;
    char **names;
    unsigned all, room = *count;
    int error = core_image_functions(context, image, &names, &all);
    if (error == CORE_NOT_SUPPORTED)
        core_unsupported("the list of a module's functions, with this driver,");
    if (error)
        return error;
    for (unsigned i = 0; get && i < all && i < room && !error; i++)
        error = core_function_find(context, image, names[i], &get[i]);
    free(names);
    *count = all;
    return error;
}

int core_file_read(const char *path, void **out, size_t *length)
{
    CANCEL_DEFERRED;
    enum { STEP = 1 << 20 };
    char *content = NULL;
    size_t size = 0, got = 0;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return CORE_FILE_NOT_FOUND;
    do {
        char *more = realloc(content, size + STEP + 1);
        if (!more) {
            free(content);
            fclose(file);
            return CORE_OUT_OF_MEMORY;
        }
        content = more;
        got = fread(content + size, 1, STEP, file);
        size += got;
    } while (got == STEP);
    memset(content + size, 0, 1);
    bool damaged = ferror(file);
    fclose(file);
    if (damaged || !size) {
        free(content);
        return damaged ? CORE_FILE_NOT_FOUND : CORE_INVALID_IMAGE;
    }
    *out = content;
    *length = size;
    return CORE_OK;
}
