/*
 * nvrtc.c: NVRTC for the software GPU (interpose.h): compute_XX in place of sm_XX, and PTX in place of machine code.
 * If the compiler does not know the device's architecture, the nearest that it knows takes its place, below it if
 * there is one.
 */
#define _GNU_SOURCE
#include "cpu/client/run/interpose.h"
#include "cpu/common/softgpu.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, OUT_OF_MEMORY = 1, INTERNAL = 11 };         /* of nvrtcResult */

static any_function original(const char *name) { return interposed_original(&interposed_nvrtc, name); }
static int missing(void) { return INTERNAL; }

/* The architectures that the compiler knows; NULL: it does not tell. The caller frees them. */
static int *architectures(int *number)
{
    int (*count)(int *) = (int (*)(int *))interposed_known(&interposed_nvrtc, "nvrtcGetNumSupportedArchs");
    int (*list)(int *) = (int (*)(int *))interposed_known(&interposed_nvrtc, "nvrtcGetSupportedArchs");
    *number = 0;
    int *all = count && list && !count(number) && *number > 0 ? calloc((size_t)*number + 1, sizeof *all) : NULL;
    if (all && list(all)) {
        free(all);
        all = NULL;
    }
    return all;
}

/* The highest that is not above the wanted one, else the lowest. */
static int nearest(int wanted)
{
    int count, best = 0, lowest = 0;
    int *all = architectures(&count);
    for (int i = 0; all && i < count; i++) {
        if (all[i] <= wanted && all[i] > best)
            best = all[i];
        if (!lowest || all[i] < lowest)
            lowest = all[i];
    }
    free(all);
    return best ? best : lowest ? lowest : wanted;
}

static bool knows_the_device(void)
{
    int count;
    bool known = false;
    int *all = architectures(&count);
    for (int i = 0; all && i < count; i++)
        known |= all[i] == software_gpu();
    free(all);
    return known;
}

/* The option with another architecture, which the caller frees; NULL: it names none. */
static char *option(const char *const *options, int number)
{
    char *made = NULL;
    int prefix;
    const char *value = architecture_option(options, number, &prefix);
    int wanted = value ? architecture_number(value) : 0;
    int known = wanted == software_gpu() ? nearest(wanted) : wanted; /* others: an error of the program, as natively */
    if (!wanted || asprintf(&made, "%.*scompute_%d", prefix, options[number], known) < 0)
        return NULL;
    return made;
}

/* ---- the bound of registers: PTX has no place for it, so it stands in a comment before the "machine code" ---- */

enum { BOUND_MOST = sizeof SOFTGPU_BOUND_COMMENT + 12 };
static pthread_mutex_t bounds_lock = PTHREAD_MUTEX_INITIALIZER;
static struct bound {
    struct bound *next;
    void *program;
    unsigned registers;
} * bounds;

/* Without memory for it there is no bound. */
static void bound_set(void *program, unsigned registers)
{
    pthread_mutex_lock(&bounds_lock);
    struct bound **at = &bounds;
    while (*at && (*at)->program != program)
        at = &(*at)->next;
    struct bound *bound = *at;
    if (bound && !registers) {
        *at = bound->next;
        free(bound);
    } else if (bound) {
        bound->registers = registers;
    } else if (registers && (bound = malloc(sizeof *bound))) {
        *bound = (struct bound){ bounds, program, registers };
        bounds = bound;
    }
    pthread_mutex_unlock(&bounds_lock);
}

/* What comes before the code of the program: how many characters. */
static size_t bound_comment(void *program, char text[BOUND_MOST])
{
    pthread_mutex_lock(&bounds_lock);
    const struct bound *bound = bounds;
    while (bound && bound->program != program)
        bound = bound->next;
    unsigned registers = bound ? bound->registers : 0;
    pthread_mutex_unlock(&bounds_lock);
    return registers ? (size_t)snprintf(text, BOUND_MOST, SOFTGPU_BOUND_COMMENT "%u\n", registers) : 0;
}

EXPORTED int nvrtcDestroyProgram(void **program);
int nvrtcDestroyProgram(void **program)
{
    INTERPOSED_ENTER();
    if (program)
        bound_set(*program, 0);
    return ((int (*)(void **))original("nvrtcDestroyProgram"))(program);
}

EXPORTED int nvrtcCompileProgram(void *program, int count, const char *const *options);
int nvrtcCompileProgram(void *program, int count, const char *const *options)
{
    INTERPOSED_ENTER();
    int (*compile)(void *, int, const char *const *) =
        (int (*)(void *, int, const char *const *))original("nvrtcCompileProgram");
    if (!software_gpu())
        return compile(program, count, options);
    bound_set(program, options && count > 0 ? registers_option(options, (unsigned)count) : 0);
    if (count <= 0 || !options)
        return compile(program, count, options);
    const char **mine = calloc((size_t)count, sizeof *mine);
    char **made = calloc((size_t)count, sizeof *made);
    int result = OUT_OF_MEMORY;
    if (mine && made) {
        for (int i = 0; i < count; i++) {
            made[i] = option(options, i);
            mine[i] = made[i] ? made[i] : options[i];
        }
        result = compile(program, count, mine);
    }
    for (int i = 0; made && i < count; i++)
        free(made[i]);
    free(made);
    free(mine);
    return result;
}

EXPORTED int nvrtcGetCUBINSize(void *program, size_t *size);
int nvrtcGetCUBINSize(void *program, size_t *size)
{
    INTERPOSED_ENTER();
    bool software = software_gpu();
    char bound[BOUND_MOST];
    const char *name = software ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize";
    int result = ((int (*)(void *, size_t *))original(name))(program, size);
    if (result == OK && software)
        *size += bound_comment(program, bound);
    return result;
}

EXPORTED int nvrtcGetCUBIN(void *program, char *code);
int nvrtcGetCUBIN(void *program, char *code)
{
    INTERPOSED_ENTER();
    bool software = software_gpu();
    char bound[BOUND_MOST];
    size_t length = software ? bound_comment(program, bound) : 0;
    int result =
        ((int (*)(void *, char *))original(software ? "nvrtcGetPTX" : "nvrtcGetCUBIN"))(program, code + length);
    if (result == OK && software) {
        memcpy(code, bound, length);
        lower_ptx_version(code, strlen(code));
    }
    return result;
}

/* Some programs look for the device's architecture in the list, and give up without it. */
EXPORTED int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetNumSupportedArchs(int *count)
{
    INTERPOSED_ENTER();
    int result = ((int (*)(int *))original("nvrtcGetNumSupportedArchs"))(count);
    if (result == OK && software_gpu() && !knows_the_device())
        ++*count;
    return result;
}

/* In ascending order, as NVRTC's own. */
EXPORTED int nvrtcGetSupportedArchs(int *archs);
int nvrtcGetSupportedArchs(int *archs)
{
    INTERPOSED_ENTER();
    int count = 0, mine = software_gpu(), result = ((int (*)(int *))original("nvrtcGetSupportedArchs"))(archs);
    if (result != OK || !mine || knows_the_device() || ((int (*)(int *))original("nvrtcGetNumSupportedArchs"))(&count))
        return result;
    for (; count && archs[count - 1] > mine; count--)
        archs[count] = archs[count - 1];
    archs[count] = mine;
    return result;
}

static const struct interposed_function functions[] = {
    { "nvrtcCompileProgram", (any_function)nvrtcCompileProgram },
    { "nvrtcDestroyProgram", (any_function)nvrtcDestroyProgram },
    { "nvrtcGetCUBINSize", (any_function)nvrtcGetCUBINSize },
    { "nvrtcGetCUBIN", (any_function)nvrtcGetCUBIN },
    { "nvrtcGetNumSupportedArchs", (any_function)nvrtcGetNumSupportedArchs },
    { "nvrtcGetSupportedArchs", (any_function)nvrtcGetSupportedArchs },
};
struct interposed interposed_nvrtc = { "nvrtc", functions, sizeof functions / sizeof functions[0],
                                       .missing = (any_function)missing };
