/*
 * refusal.c: libcuda.so.1 on the program's side, as long as Flyt has no CUDA driver API: every function fails, and
 * the first one that a program calls says on stderr why, and what to do. So a program with the static CUDA runtime,
 * one that uses the driver API itself, and NVIDIA's libraries behave as on a machine with a driver and no GPU, and
 * their user learns why.
 *
 * What cuInit returns is what NVIDIA's driver returns where it finds no device (100); all other functions return
 * what NVIDIA's driver returns before a cuInit that succeeded (3). Only questions that need no device are answered:
 * the version, the name of an error, the address of a function, and which private tables there are (none).
 *
 * Follows: CUDA Driver API reference, chapters "Initialization", "Version Management", "Error Handling", "Driver Entry
 * Point Access".
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/driver_library.h"
#include "cpu/common/log.h"

#define DRIVER_API __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, NOT_FOUND = 500 };
enum { VERSION = 13000, SECOND_FORM_VERSION = 12000, SYMBOL_FOUND = 0, SYMBOL_NOT_FOUND = 1 };

/* What the loader of the real driver looks for. */
DRIVER_API extern const char flyt_libcuda[];
const char flyt_libcuda[] = "Flyt's libcuda.so.1, for programs";

/* A CUDA runtime begins with a question that nobody else asks, for the function with the empty name. */
static atomic_bool runtime_asked;

/* ---- the message ---- */

/* The file that holds the code at this address; NULL: the program itself. */
static const char *file_of(void *address)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !map || !*map->l_name)
        return NULL;
    return map->l_name;
}

/* cricket-client.so lies one folder above this library. */
static const char *preload_path(char path[PATH_MAX])
{
    char beside[PATH_MAX + 32];
    const char *own = file_of((void *)(uintptr_t)preload_path), *slash = own ? strrchr(own, '/') : NULL;
    snprintf(beside, sizeof beside, "%.*s/../cricket-client.so", slash ? (int)(slash - own) : 0, own);
    return realpath(beside, path) ? path : "cricket-client.so";
}

static void tell_why(const char *function, void *caller)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const char *file = file_of(caller), *slash = file ? strrchr(file, '/') : NULL, *program = program_invocation_name;
    char path[PATH_MAX];
    if (atomic_flag_test_and_set(&told))
        return;
    if (file && strncmp(slash ? slash + 1 : file, "libcudart.so", 12) == 0)
        log_error(
            "%s uses NVIDIA's CUDA runtime %s in place of Flyt's, so it finds no GPU. A path that is written into the"
            " program or its libraries (DT_RPATH) leads there. Start it with LD_PRELOAD=%s",
            program, file, preload_path(path));
    else if (!file && atomic_load(&runtime_asked))
        log_error(
            "%s contains the static CUDA runtime (nvcc's default), so it finds no GPU: Flyt does not implement the CUDA"
            " driver API yet, which that runtime calls. Link the program with nvcc -cudart shared",
            program);
    else
        log_error("%s uses the CUDA driver API (%s, called by %s), so it finds no GPU: Flyt does not implement that "
                  "API yet. It supports programs that use the shared CUDA runtime (nvcc -cudart shared)",
                  program, function, file ? file : "the program itself");
}

static int refuse(const char *function, void *caller)
{
    tell_why(function, caller);
    return NOT_INITIALIZED;
}

/* ---- what fails: every name of cpu/api/driver.api that is not defined below ---- */

#define NAME(function)             \
    DRIVER_API int function(void); \
    int function(void) { return refuse(#function, __builtin_return_address(0)); }
#include "api/driver/refused.h"
#undef NAME

/* ---- what is answered ---- */

DRIVER_API int cuInit(unsigned flags);
DRIVER_API int cuDriverGetVersion(int *version);
DRIVER_API int cuGetExportTable(const void **table, const void *id);
DRIVER_API int cuGetErrorName(int code, const char **name);
DRIVER_API int cuGetErrorString(int code, const char **text);
DRIVER_API int cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags);
DRIVER_API int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);

int cuInit(unsigned flags)
{
    tell_why("cuInit", __builtin_return_address(0));
    return flags ? INVALID_VALUE : NO_DEVICE;
}

int cuDriverGetVersion(int *version)
{
    if (!version)
        return INVALID_VALUE;
    *version = VERSION;
    return SUCCESS;
}

/* NVIDIA's driver gives the same answer about a table that it does not have. Runtimes ask before cuInit. */
int cuGetExportTable(const void **table, const void *id)
{
    (void)id;
    if (table)
        *table = NULL;
    return INVALID_VALUE;
}

#define ERROR(code, name, text) { code, name, text },
static const struct error {
    int code;
    const char *name, *text;
} errors[] = {
#include "api/driver/errors.h"
};
#undef ERROR

static const struct error *error_find(int code)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == code)
            return &errors[i];
    return NULL;
}

int cuGetErrorName(int code, const char **name)
{
    const struct error *error = error_find(code);
    if (!name)
        return INVALID_VALUE;
    *name = error ? error->name : NULL;
    return error ? SUCCESS : INVALID_VALUE;
}

int cuGetErrorString(int code, const char **text)
{
    const struct error *error = error_find(code);
    if (!text)
        return INVALID_VALUE;
    *text = error ? error->text : NULL;
    return error ? SUCCESS : INVALID_VALUE;
}

#define NAME(function) { #function, (void *)(uintptr_t)function },
static const struct function {
    const char *name;
    void *address;
} functions[] = { NAME(cuInit) NAME(cuDriverGetVersion) NAME(cuGetExportTable) NAME(cuGetErrorName)
                      NAME(cuGetErrorString) NAME(cuGetProcAddress)
#include "api/driver/refused.h"
};
#undef NAME

/* The version of a function matters only where its form decides what we read and write: all others fail alike. */
static void *function_find(const char *symbol, int version)
{
    size_t length = strlen(symbol);
    if (strcmp(symbol, "cuGetProcAddress") == 0 && version >= SECOND_FORM_VERSION)
        return (void *)(uintptr_t)cuGetProcAddress_v2;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const char *name = functions[i].name;
        /* Callers ask for cuDeviceTotalMem and are given cuDeviceTotalMem_v2; some names exist with a suffix only. */
        if (strncmp(name, symbol, length) == 0 && length > 2 && (!name[length] || strncmp(name + length, "_v", 2) == 0))
            return functions[i].address;
    }
    return NULL;
}

int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status)
{
    (void)flags;
    if (!symbol || !function)
        return INVALID_VALUE;
    if (!*symbol)
        atomic_store(&runtime_asked, true);
    *function = function_find(symbol, version);
    if (status)
        *status = *function ? SYMBOL_FOUND : SYMBOL_NOT_FOUND;
    return *function ? SUCCESS : NOT_FOUND;
}

int cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
