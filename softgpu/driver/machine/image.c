/*
 * image.c: what a program hands over as code, turned into PTX texts to link: a wrapper (version 2: the PTX of each
 * container prelinked into it), a bare container, or PTX text. Machine code cannot be executed; compiled.c reads what
 * it says of registers.
 * Which PTX of a container: the highest architecture that is not above the device's, else the lowest above it.
 */
#include "softgpu/driver/machine/machine.h"
#include "cpu/code/fatbin.h"
#include "cpu/common/softgpu.h"
#include "softgpu/ptx/budget.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CUresult fail(CUresult code, char *log, size_t log_size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(log, log_size, format, arguments);
    va_end(arguments);
    return code;
}

static unsigned capability(const struct sgd_device *d) { return d->limits.cc_major * 10 + d->limits.cc_minor; }

CUresult sgd_text_refused(CUresult wrong, char *log, size_t log_size)
{
    if (!ptx_budget_refused())
        return wrong;
    return fail(CUDA_ERROR_OUT_OF_MEMORY, log, log_size,
                "all code together would take more than %zu MiB of this machine's memory (FLYT_SOFTGPU_CODE_MEMORY)",
                ptx_budget_most >> 20);
}

static void text_free(void *text, size_t room)
{
    free(text);
    ptx_budget_give(room);
}

/* Takes the text, also where it fails. room: what it takes of the budget. */
static bool add(struct sgd_image *image, uint8_t *text, size_t size, size_t room, const char *name,
                unsigned max_registers)
{
    size_t n = image->count + 1;
    struct ptx_source *sources = realloc(image->sources, n * sizeof *sources);
    if (sources)
        image->sources = sources;
    uint8_t **texts = realloc(image->texts, n * sizeof *texts);
    if (texts)
        image->texts = texts;
    char (*names)[32] = realloc(image->names, n * sizeof *names);
    if (names)
        image->names = names;
    size_t *rooms = realloc(image->room, n * sizeof *rooms);
    if (rooms)
        image->room = rooms;
    if (!sources || !texts || !names || !rooms) {
        text_free(text, room);
        return false;
    }
    image->texts[n - 1] = text;
    image->room[n - 1] = room;
    snprintf(image->names[n - 1], sizeof names[0], "%s %zu", name, n);
    image->sources[n - 1] = (struct ptx_source){ .text = (const char *)text,
                                                 .size = size,
                                                 .max_registers = max_registers };
    image->count = n;
    return true;
}

/* Can a device of capability cc run the PTX? */
static bool runs(const struct fatbin_entry *e, unsigned cc)
{
    if (e->flags & FATBIN_ARCH_SPECIFIC && e->sm != cc)
        return false;
    if (e->flags & FATBIN_FAMILY_SPECIFIC && e->sm / 10 != cc / 10)
        return false;
    return e->sm <= cc;
}

/* Is `entry` a better choice than `best`? */
static bool better(const struct fatbin_entry *entry, const struct fatbin_entry *best, unsigned cc)
{
    if (entry->kind != FATBIN_PTX)
        return false;
    if (!best->payload)
        return true;
    if (runs(entry, cc) != runs(best, cc))
        return runs(entry, cc);
    return runs(entry, cc) ? entry->sm > best->sm : entry->sm < best->sm;
}

/* Adds the container's best PTX. *found: there was one; machine: what else there was. */
static CUresult from_container(unsigned cc, const void *data, struct sgd_image *image, bool *found, char *log,
                               size_t log_size)
{
    size_t size = fatbin_container_size(data, SIZE_MAX), cursor = 0;
    const char *why = "not a fat binary";
    struct fatbin_entry entry, best = { 0 };
    int more = -1;
    *found = false;
    while (size && (more = fatbin_next(data, size, &cursor, &entry, &why)) > 0)
        if (entry.kind == FATBIN_CUBIN)
            image->machine_code = true;
        else if (better(&entry, &best, cc))
            best = entry;
    if (more < 0)
        return fail(CUDA_ERROR_INVALID_IMAGE, log, log_size, "the fat binary is malformed: %s", why);
    if (!best.payload)
        return CUDA_SUCCESS;
    size_t length, room = best.size + 1;
    if (!ptx_budget_take(room))
        return sgd_text_refused(CUDA_ERROR_OUT_OF_MEMORY, log, log_size);
    uint8_t *text = fatbin_extract(&best, &length, &why);
    if (!text) {
        ptx_budget_give(room);
        return fail(CUDA_ERROR_INVALID_IMAGE, log, log_size,
                    "the PTX for sm_%u in the fat binary cannot be unpacked: %s", best.sm, why);
    }
    *found = true;
    if (!image->compiled.count) /* else they are those of the code that was linked from this container */
        sgd_compiled_add(&image->compiled, data, cc);
    if (!add(image, text, strnlen((const char *)text, length), room, "fat binary", best.max_registers))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

enum { NEWEST_MAJOR = 9, NEWEST_MINOR = 0 }; /* the newest PTX of CUDA 13.0, which cuDriverGetVersion returns */

CUresult sgd_ptx_version_check(const struct ptx_module *m, const struct sgd_image *image, char *log, size_t log_size)
{
    if ((image && image->machine_code) || m->version_major < NEWEST_MAJOR ||
        (m->version_major == NEWEST_MAJOR && m->version_minor <= NEWEST_MINOR))
        return CUDA_SUCCESS;
    return fail(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, log, log_size,
                "the PTX is of version %u.%u, and the newest that is known is %d.%d", m->version_major,
                m->version_minor, NEWEST_MAJOR, NEWEST_MINOR);
}

bool sgd_ptx_version_lower(char *text)
{
    static const char directive[] = ".version ";
    unsigned major, minor;
    int length = 0;
    char newest[16];
    char *found = strstr(text, directive), *number = found ? found + sizeof directive - 1 : NULL;
    bool line = found && (found == text || found[-1] == '\n');
    if (!line || sscanf(number, "%4u.%4u%n", &major, &minor, &length) != 2 || major < NEWEST_MAJOR ||
        (major == NEWEST_MAJOR && minor <= NEWEST_MINOR))
        return false;
    snprintf(newest, sizeof newest, "%d.%d%8s", NEWEST_MAJOR, NEWEST_MINOR, "");
    memcpy(number, newest, (size_t)length); /* a newer one is no shorter */
    return true;
}

static CUresult no_ptx(unsigned cc, char *log, size_t log_size)
{
    return fail(CUDA_ERROR_NO_BINARY_FOR_GPU, log, log_size,
                "the image has machine code only, and the software GPU (sm_%u) executes PTX: compile with PTX, "
                "for example -gencode arch=compute_75,code=compute_75", cc);
}

static CUresult from_wrapper(unsigned cc, const struct fatbin_wrapper *w, struct sgd_image *image, char *log,
                             size_t log_size)
{
    bool found = false;
    CUresult r = CUDA_SUCCESS;
    if (w->version == 2 && w->extra && w->container)
        sgd_compiled_add(&image->compiled, w->container, cc);
    if (w->version == 2 && w->extra)
        for (const void *const *c = w->extra; *c && !r; c++) {
            bool here;
            r = from_container(cc, *c, image, &here, log, log_size);
            found |= here;
        }
    if (!r && !found)
        r = from_container(cc, w->container, image, &found, log, log_size);
    return r ? r : found ? CUDA_SUCCESS : no_ptx(cc, log, log_size);
}

/* What the comment at the head of a text says (cpu/common/softgpu.h); 0: there is none. */
static unsigned bound_of(const char *text)
{
    const size_t length = sizeof SOFTGPU_BOUND_COMMENT - 1;
    unsigned registers = 0;
    if (strncmp(text, SOFTGPU_BOUND_COMMENT, length) != 0)
        return 0;
    return sscanf(text + length, "%4u", &registers) == 1 ? registers : 0;
}

/* One text, or several that the linker (link.c) has joined. */
static CUresult from_text(const char *text, struct sgd_image *image, char *log, size_t log_size)
{
    if (!isprint((unsigned char)*text) && !isspace((unsigned char)*text))
        return fail(CUDA_ERROR_INVALID_IMAGE, log, log_size, "the image is neither a fat binary nor PTX text");
    for (const char *next = text; next;) {
        text = next;
        next = strstr(text, SGD_LINK_JOINT);
        size_t size = next ? (size_t)(next - text) : strlen(text);
        next = next ? next + strlen(SGD_LINK_JOINT) : NULL;
        if (!ptx_budget_take(size + 1))
            return sgd_text_refused(CUDA_ERROR_OUT_OF_MEMORY, log, log_size);
        char *copy = strndup(text, size);
        if (!copy)
            ptx_budget_give(size + 1);
        if (!copy || !add(image, (uint8_t *)copy, size, size + 1, "PTX", bound_of(copy)))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult sgd_image_container(const struct sgd_device *d, const void *container, struct sgd_image *image, char *log,
                             size_t log_size)
{
    bool found;
    *image = (struct sgd_image){ 0 };
    return from_container(capability(d), container, image, &found, log, log_size);
}

CUresult sgd_image_read(const struct sgd_device *d, const void *data, struct sgd_image *image, char *log,
                        size_t log_size)
{
    *image = (struct sgd_image){ 0 };
    uint32_t magic = 0;
    size_t known = strnlen(data, sizeof magic);      /* a short text may end before the fourth byte */
    memcpy(&magic, data, known == sizeof magic ? sizeof magic : known);
    unsigned cc = capability(d);
    bool found;
    CUresult r;
    if (magic == FATBIN_WRAPPER_MAGIC) {
        r = from_wrapper(cc, data, image, log, log_size);
    } else if (magic == FATBIN_CONTAINER_MAGIC) {
        r = from_container(cc, data, image, &found, log, log_size);
        if (!r && !found)
            r = no_ptx(cc, log, log_size);
    } else if (!memcmp(&magic, "\177ELF", 4)) {
        r = no_ptx(cc, log, log_size);
    } else {
        r = from_text(data, image, log, log_size);
    }
    for (size_t i = 0; i < image->count; i++)        /* the array of names has moved while it grew */
        image->sources[i].name = image->names[i];
    if (r)
        sgd_image_free(image);
    return r;
}

void sgd_image_free(struct sgd_image *image)
{
    for (size_t i = 0; i < image->count; i++)
        text_free(image->texts[i], image->room[i]);
    free(image->texts);
    free(image->room);
    free(image->sources);
    free(image->names);
    sgd_compiled_free(&image->compiled);
    *image = (struct sgd_image){ 0 };
}

CUresult sgd_image_file(const char *path, void **data)
{
    FILE *f = path ? fopen(path, "rbe") : NULL;
    if (!f)
        return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    char *bytes = NULL;
    size_t size = 0, room = 0;
    CUresult r = CUDA_SUCCESS;
    for (size_t got = 1; got && !r; size += got) {
        if (room - size < 65536) {
            room = room ? room * 2 : 1 << 17;
            char *grown = realloc(bytes, room);
            if (!grown) {
                r = CUDA_ERROR_OUT_OF_MEMORY;
                break;
            }
            bytes = grown;
        }
        got = fread(bytes + size, 1, room - size - 1, f);
    }
    if (!r && ferror(f))
        r = CUDA_ERROR_OPERATING_SYSTEM;
    fclose(f);
    if (r) {
        free(bytes);
        return r;
    }
    bytes[size] = '\0';
    /* A container in a file may be cut short: then it is no image. */
    uint32_t magic = 0;
    memcpy(&magic, bytes, size < 4 ? size : 4);
    if (magic == FATBIN_WRAPPER_MAGIC || (magic == FATBIN_CONTAINER_MAGIC && !fatbin_container_size(bytes, size))) {
        free(bytes);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *data = bytes;
    return CUDA_SUCCESS;
}

/* ---- JIT options ------------------------------------------------------------------------------------------------- */

/* Those that steer a compiler have nothing to steer here; unknown ones are errors. */
CUresult sgd_jit_read(struct sgd_jit *jit, unsigned count, const CUjit_option *options, void **values)
{
    *jit = (struct sgd_jit){ 0 };
    if (count && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        switch (options[i]) {
        case CU_JIT_INFO_LOG_BUFFER: jit->info = values[i]; break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            jit->info_size = (unsigned)(uintptr_t)values[i];
            jit->info_filled = &values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER: jit->error = values[i]; break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            jit->error_size = (unsigned)(uintptr_t)values[i];
            jit->error_filled = &values[i];
            break;
        case CU_JIT_WALL_TIME: jit->wall_time = &values[i]; break;
        default:
            if ((unsigned)options[i] >= CU_JIT_NUM_OPTIONS)
                return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

void sgd_jit_finish(struct sgd_jit *jit, const char *error)
{
    size_t written = 0;
    if (jit->info && jit->info_size)
        jit->info[0] = '\0';
    if (jit->info_filled)
        *jit->info_filled = NULL;
    if (jit->error && jit->error_size) {
        snprintf(jit->error, jit->error_size, "%s", error);
        written = strlen(jit->error);
    }
    if (jit->error_filled)
        *jit->error_filled = (void *)(uintptr_t)written;
    if (jit->wall_time) {
        float none = 0;
        memcpy(jit->wall_time, &none, sizeof none);
    }
}
