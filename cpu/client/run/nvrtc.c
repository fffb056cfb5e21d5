/*
 * nvrtc.c: libflyt-nvrtc.so, which flyt-run preloads into programs that compile kernels at run time (CuPy, Numba …).
 *
 * Such programs ask NVRTC for machine code of the device's architecture. The software GPU has none: it executes PTX. So
 * where the device is one, the compiler is asked for PTX (compute_XX in place of sm_XX), and the program gets the PTX
 * when it asks for machine code; cuModuleLoadData takes either. With any other device nothing is changed.
 *
 * Programs find NVRTC in two ways: they are linked with it, then the definitions here come before its own; or they load
 * it and ask dlsym, then the dlsym here gives them these functions. dlsym looks at its return address to know who
 * calls, so the call of the real one must be the last thing done (a jump): this file is always compiled with -O2.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

enum { OK = 0, OUT_OF_MEMORY = 1 };                        /* of nvrtcResult */

typedef void (*any_function)(void);
typedef any_function dlsym_function(void *, const char *);

/* ---- the real functions ---- */

enum name { COMPILE, CUBIN_SIZE, CUBIN, ARCH_COUNT, ARCHS, PTX_SIZE, PTX, NAMES };
static const char *const names[NAMES] = {
    [COMPILE] = "nvrtcCompileProgram",    [CUBIN_SIZE] = "nvrtcGetCUBINSize", [CUBIN] = "nvrtcGetCUBIN",
    [ARCH_COUNT] = "nvrtcGetNumSupportedArchs", [ARCHS] = "nvrtcGetSupportedArchs", [PTX_SIZE] = "nvrtcGetPTXSize",
    [PTX] = "nvrtcGetPTX",
};
static any_function _Atomic real[NAMES];
static void *_Atomic library;                              /* which the program asked; NULL: it is linked with NVRTC */

static dlsym_function *real_dlsym(void)
{
    static dlsym_function *_Atomic found;
    if (!found) {
        void *address = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        if (!address)
            address = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        found = (dlsym_function *)address;
    }
    return found;
}

static any_function original(enum name name)
{
    if (!real[name])
        real[name] = real_dlsym()(library ? library : RTLD_NEXT, names[name]);
    return real[name];
}

/* ---- the device ---- */

/* Its compute capability, such as 130; 0: it has machine code, or there is none. */
static int software_gpu(void)
{
    enum { MAJOR = 75, MINOR = 76 };                       /* of CUdevice_attribute */
    static _Atomic int known = -1;
    if (known >= 0)
        return known;
    int major = 0, minor = 0;
    char name[64] = "";
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    int (*init)(unsigned) = NULL, (*get_name)(char *, int, int) = NULL, (*get)(int *, int, int) = NULL;
    if (driver) {
        init = (int (*)(unsigned))real_dlsym()(driver, "cuInit");
        get_name = (int (*)(char *, int, int))real_dlsym()(driver, "cuDeviceGetName");
        get = (int (*)(int *, int, int))real_dlsym()(driver, "cuDeviceGetAttribute");
    }
    bool software = init && get_name && get && !init(0) && !get_name(name, sizeof name, 0) &&
                    strncmp(name, "Flyt software GPU", 17) == 0 && !get(&major, MAJOR, 0) && !get(&minor, MINOR, 0);
    return known = software ? major * 10 + minor : 0;
}

/* ---- what is asked of the compiler ---- */

static int newest_architecture(void)
{
    int (*count)(int *) = (int (*)(int *))original(ARCH_COUNT), (*list)(int *) = (int (*)(int *))original(ARCHS);
    int number = 0, newest = 0;
    int *all = count && list && !count(&number) && number > 0 ? calloc((size_t)number, sizeof *all) : NULL;
    if (all && !list(all))
        for (int i = 0; i < number; i++)
            newest = all[i] > newest ? all[i] : newest;
    free(all);
    return newest;
}

/* "sm_120" and "compute_130a" become "compute_120" and "compute_121", the newest that this compiler knows. NULL: it is
   no architecture, or there is no memory. The caller frees it. */
static char *architecture(const char *text)
{
    char *made = NULL;
    int number, newest;
    if (sscanf(text, "sm_%d", &number) != 1 && sscanf(text, "compute_%d", &number) != 1)
        return NULL;
    newest = newest_architecture();
    if (asprintf(&made, "compute_%d", newest && number > newest ? newest : number) < 0)
        return NULL;
    return made;
}

/* The option with another architecture; NULL: it names none. */
static char *option(const char *text, const char *before)
{
    static const char *const starts[] = { "--gpu-architecture=", "-arch=" };
    char *made = NULL, *arch = NULL;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncmp(text, starts[i], strlen(starts[i])) == 0 && (arch = architecture(text + strlen(starts[i])))) {
            if (asprintf(&made, "%s%s", starts[i], arch) < 0)
                made = NULL;
            free(arch);
            return made;
        }
    bool value = before && (strcmp(before, "-arch") == 0 || strcmp(before, "--gpu-architecture") == 0);
    return value ? architecture(text) : NULL;
}

EXPORTED int nvrtcCompileProgram(void *program, int count, const char *const *options);
int nvrtcCompileProgram(void *program, int count, const char *const *options)
{
    int (*compile)(void *, int, const char *const *) =
        (int (*)(void *, int, const char *const *))original(COMPILE);
    if (!software_gpu() || count <= 0 || !options)
        return compile(program, count, options);
    const char **mine = calloc((size_t)count, sizeof *mine);
    char **made = calloc((size_t)count, sizeof *made);
    int result = OUT_OF_MEMORY;
    if (mine && made) {
        for (int i = 0; i < count; i++) {
            made[i] = option(options[i], i ? options[i - 1] : NULL);
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
    enum name name = software_gpu() ? PTX_SIZE : CUBIN_SIZE;
    return ((int (*)(void *, size_t *))original(name))(program, size);
}

EXPORTED int nvrtcGetCUBIN(void *program, char *code);
int nvrtcGetCUBIN(void *program, char *code)
{
    enum name name = software_gpu() ? PTX : CUBIN;
    return ((int (*)(void *, char *))original(name))(program, code);
}

/* Some programs look for the device's architecture in the list, and give up without it. */
EXPORTED int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetNumSupportedArchs(int *count)
{
    int result = ((int (*)(int *))original(ARCH_COUNT))(count);
    if (result == OK && software_gpu() > newest_architecture())
        ++*count;
    return result;
}

EXPORTED int nvrtcGetSupportedArchs(int *archs);
int nvrtcGetSupportedArchs(int *archs)
{
    int count = 0, result = ((int (*)(int *))original(ARCHS))(archs);
    if (result == OK && software_gpu() > newest_architecture() && !((int (*)(int *))original(ARCH_COUNT))(&count))
        archs[count] = software_gpu();
    return result;
}

/* ---- finding them ---- */

static any_function ours(const char *name)
{
    static const struct { const char *name; any_function function; } wrapped[] = {
        { "nvrtcCompileProgram", (any_function)nvrtcCompileProgram },
        { "nvrtcGetCUBINSize", (any_function)nvrtcGetCUBINSize },
        { "nvrtcGetCUBIN", (any_function)nvrtcGetCUBIN },
        { "nvrtcGetNumSupportedArchs", (any_function)nvrtcGetNumSupportedArchs },
        { "nvrtcGetSupportedArchs", (any_function)nvrtcGetSupportedArchs },
    };
    for (size_t i = 0; i < sizeof wrapped / sizeof wrapped[0]; i++)
        if (strcmp(name, wrapped[i].name) == 0)
            return wrapped[i].function;
    return NULL;
}

/* One NVRTC per process is served; the functions of a second one are its own. */
static bool serves(void *handle)
{
    void *none = NULL;
    return __atomic_compare_exchange_n((void **)&library, &none, handle, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ||
           none == handle;
}

EXPORTED void *dlsym(void *restrict handle, const char *restrict name)
{
    if (strncmp(name, "nvrtc", 5) == 0 && handle != RTLD_DEFAULT && handle != RTLD_NEXT && ours(name) &&
        real_dlsym()(handle, name) && serves(handle))
        return (void *)ours(name);
    return (void *)real_dlsym()(handle, name);
}
