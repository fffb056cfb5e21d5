/*
 * refusal.c: libcuda.so.1 on the program's side, as long as Flyt has no CUDA driver API: every function fails, and the
 * first one that a program calls says on stderr why, and what to do. So a program with the static CUDA runtime, one that uses
 * the driver API itself, and NVIDIA's libraries behave as on a machine with a driver and no GPU, and their user learns why.
 *
 * What cuInit returns is what NVIDIA's driver returns where it finds no device (100); all other functions return what
 * NVIDIA's driver returns before a cuInit that succeeded (3). Only questions that need no device are answered: the version,
 * the name of an error, the address of a function, and which private tables there are (none).
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
#include "cpu/common/driver_names.h"
#include "cpu/common/log.h"

#define DRIVER_API __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, NOT_FOUND = 500 };
enum { VERSION = 13000, FLAGS_END = 4 };

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
        log_error("%s uses NVIDIA's CUDA runtime %s in place of Flyt's, so it finds no GPU. A path that is written into the"
                  " program or its libraries (DT_RPATH) leads there. Start it with LD_PRELOAD=%s", program, file, preload_path(path));
    else if (!file && atomic_load(&runtime_asked))
        log_error("%s contains the static CUDA runtime (nvcc's default), so it finds no GPU: Flyt does not implement the CUDA"
                  " driver API yet, which that runtime calls. Link the program with nvcc -cudart shared", program);
    else
        log_error("%s uses the CUDA driver API (%s, called by %s), so it finds no GPU: Flyt does not implement that API yet. It"
                  " supports programs that use the shared CUDA runtime (nvcc -cudart shared)", program, function,
                  file ? file : "the program itself");
}

static int refuse(const char *function, void *caller)
{
    tell_why(function, caller);
    return NOT_INITIALIZED;
}

/* ---- what fails: every function that cpu/api/driver.api says is not supported ---- */

#define SYMBOL(function) \
    DRIVER_API int function(void); \
    int function(void) { return refuse(#function, __builtin_return_address(0)); }
#include "api/driver/unsupported.inc"
#undef SYMBOL

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

int cuGetErrorName(int code, const char **name)
{
    if (!name)
        return INVALID_VALUE;
    *name = driver_error_name(code);
    return *name ? SUCCESS : INVALID_VALUE;
}

int cuGetErrorString(int code, const char **text)
{
    if (!text)
        return INVALID_VALUE;
    *text = driver_error_text(code);
    return *text ? SUCCESS : INVALID_VALUE;
}

static const struct driver_entry entries[] = {
#define ENTRY(name, version, per_thread, symbol) { name, version, per_thread, (void (*)(void))symbol },
#include "api/driver/entries.inc"
#undef ENTRY
};

static int query(const char *symbol, void **function, int version, uint64_t flags,
                 enum driver_entry_status *status)
{
    if (!symbol || !function || flags >= FLAGS_END)
        return INVALID_VALUE;
    if (!*symbol)
        atomic_store(&runtime_asked, true);
    size_t count = sizeof entries / sizeof entries[0];
    *function = (void *)(uintptr_t)driver_entry_find(entries, count, symbol, version, flags, status);
    return SUCCESS;
}

int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status)
{
    enum driver_entry_status found;
    int error = query(symbol, function, version, flags, &found);
    if (!error && status)
        *status = (int)found;
    return error;
}

/* The first form has no status: it returns an error, and leaves *function as it was. */
int cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    enum driver_entry_status found;
    void *address;
    int error = query(symbol, function ? &address : NULL, version, flags, &found);
    if (error || found != DRIVER_ENTRY_FOUND)
        return error ? error : NOT_FOUND;
    *function = address;
    return SUCCESS;
}
