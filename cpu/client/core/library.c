/* library.c: images that belong to no context (libraries), and what both front ends need to make and to ask them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/driver/types.h"
#include "core.h"
#include "registry.h"

struct core_library {
    core_image *image;
    struct core_library *next; /* of the spare records */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registry handles, by_image;
static struct core_library *spare; /* records are used again and never freed: a stale handle can be looked at */

void (*core_library_ends)(core_library *);

/* ---- records ---- */

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

/* The image behind the handle; NULL: it is no library. drop: it is none from here on. */
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

int core_library_image(core_library *library, core_image **image)
{
    *image = image_of(library, false);
    return *image ? CORE_OK : CORE_INVALID_HANDLE;
}

core_library *core_library_of(const core_image *image) { return registry_find(&by_image, image); }

/* ---- loading ---- */

int core_jit_options_check(unsigned count, const int *options, void **values)
{
    enum { LAST = CU_JIT_SPLIT_COMPILE };
    if (count && (!options || !values))
        return CORE_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (options[i] < 0 || options[i] > LAST)
            return CORE_INVALID_VALUE;
    return CORE_OK;
}

/* *preserved: the program keeps the code as long as the library, so no copy is needed. cuBLASLt names an option and
   gives no values, which NVIDIA's driver accepts: a copy is made then. */
static int read_options(unsigned count, const int *options, void **values, bool *preserved)
{
    *preserved = false;
    if (count && !options)
        return CORE_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] < 0 || options[i] > CU_LIBRARY_BINARY_IS_PRESERVED)
            return CORE_INVALID_VALUE;
        if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED)
            *preserved = values && values[i] != NULL;
    }
    return CORE_OK;
}

static int load(const void *code, bool preserved, core_library **out)
{
    core_image *image;
    int error = preserved ? core_image_add(code, &image) : core_image_add_copy(code, &image);
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

int core_library_load(const void *code, unsigned count, const int *options, void **values, core_library **out)
{
    bool preserved;
    int error = out && code ? read_options(count, options, values, &preserved) : CORE_INVALID_VALUE;
    return error ? error : load(code, preserved, out);
}

int core_library_load_file(const char *path, unsigned count, const int *options, void **values, core_library **out)
{
    bool preserved;
    void *code;
    size_t size;
    int error = out && path ? read_options(count, options, values, &preserved) : CORE_INVALID_VALUE;
    if (!error && preserved)
        error = CORE_INVALID_VALUE;
    if (error || (error = core_code_file(path, &code, &size)))
        return error;
    error = load(code, false, out);
    free(code);
    return error;
}

int core_library_unload(core_library *handle)
{
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

int core_code_file(const char *path, void **out, size_t *length)
{
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

/* ---- what is in an image ---- */

int core_image_variable(core_context *context, core_image *image, const char *name, uint64_t *address, size_t *size)
{
    core_variable *variable;
    uint64_t found;
    size_t bytes;
    if (!name || (!address && !size))
        return CORE_INVALID_VALUE;
    int error = core_variable_add(image, name, 0, false, &variable);
    if (!error)
        error = core_variable_address(context, variable, &found, &bytes);
    if (!error && address)
        *address = found;
    if (!error && size)
        *size = bytes;
    return error;
}

int core_functions(core_context *context, core_image *image, core_function **get, unsigned room, unsigned *count)
{
    char **names;
    int error = core_image_functions(context, image, &names, count);
    if (error == CORE_NOT_SUPPORTED)
        core_unsupported("the list of a module's functions, with this driver,");
    if (error)
        return error;
    for (unsigned i = 0; get && i < *count && i < room && !error; i++)
        error = core_function_find(context, image, names[i], &get[i]);
    free(names);
    return error;
}

int core_library_managed(core_context *context, core_library *library, const char *name, uint64_t *address,
                         size_t *size)
{
    uint64_t at;
    core_image *image;
    struct core_range range;
    if (!name || (!address && !size))
        return CORE_INVALID_VALUE;
    int error = core_library_image(library, &image);
    if (error || (error = core_image_variable(context, image, name, &at, NULL)))
        return error;
    if (!core_address_lookup(at, &range) || !(range.flags & CORE_MANAGED))
        return CORE_NOT_FOUND;
    if (address)
        *address = at;
    if (size)
        *size = range.size;
    return CORE_OK;
}
