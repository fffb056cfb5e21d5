/*
 * nvvm.c: libNVVM for the software GPU (interpose.h). It makes PTX by itself; only the device's architecture may be
 * one that it does not know. It has no list of those that it knows, so they are tried, from the device's
 * downwards. Any other architecture that it does not know is an error, as natively.
 */
#define _GNU_SOURCE
#include "cpu/client/run/interpose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 1, INVALID_OPTION = 7, COMPILATION = 9 }; /* of nvvmResult */
enum { OLDEST = 50 };

typedef int program_function(void *program, int count, const char **options);

/* Calls it with the options, option `number` being "-arch=compute_<architecture>". */
static int call_with(program_function *function, void *program, int count, const char **options, int number,
                     int architecture)
{
    char text[64];
    const char **mine = calloc((size_t)count, sizeof *mine);
    if (!mine)
        return OUT_OF_MEMORY;
    memcpy(mine, options, (size_t)count * sizeof *mine);
    snprintf(text, sizeof text, "-arch=compute_%d", architecture);
    mine[number] = text;
    int result = function(program, count, mine);
    free(mine);
    return result;
}

/* libNVVM has no code for an internal error. */
static int missing(void) { return COMPILATION; }

static int call(const char *name, void *program, int count, const char **options)
{
    program_function *function = (program_function *)interposed_original(&interposed_nvvm, name);
    int result = function(program, count, options), prefix;
    if (result != INVALID_OPTION || count <= 0 || !options || !software_gpu())
        return result;
    for (int i = 0; i < count; i++) {
        const char *value = architecture_option(options, i, &prefix);
        int wanted = value && prefix ? architecture_number(value) : 0;
        for (int known = wanted; wanted == software_gpu() && known >= OLDEST && result == INVALID_OPTION; known--)
            result = call_with(function, program, count, options, i, known);
    }
    return result;
}

EXPORTED program_function nvvmVerifyProgram, nvvmCompileProgram;
int nvvmVerifyProgram(void *program, int count, const char **options)
{
    INTERPOSED_ENTER();
    return call("nvvmVerifyProgram", program, count, options);
}

int nvvmCompileProgram(void *program, int count, const char **options)
{
    INTERPOSED_ENTER();
    return call("nvvmCompileProgram", program, count, options);
}

static const struct interposed_function functions[] = {
    { "nvvmVerifyProgram", (any_function)nvvmVerifyProgram },
    { "nvvmCompileProgram", (any_function)nvvmCompileProgram },
};
struct interposed interposed_nvvm = { "nvvm", functions, sizeof functions / sizeof functions[0],
                                      .missing = (any_function)missing };
