/*
 * interpose.c: how programs come to the functions of libflyt-nvrtc.so (interpose.h), and which device they use.
 *
 * Programs find a library in two ways: they are linked with it, then the definitions here come before its own; or they
 * load it and ask dlsym, then the dlsym here gives them these functions. dlsym looks at its return address to know who
 * calls, so the call of the real one must be the last thing done (a jump): these files are always compiled with -O2.
 */
#define _GNU_SOURCE
#include "cpu/client/run/interpose.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dlsym_function *real_dlsym(void)
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

any_function driver_function(const char *name)
{
    static void *_Atomic driver;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    return driver ? real_dlsym()(driver, name) : NULL;
}

int software_gpu(void)
{
    enum { MAJOR = 75, MINOR = 76 }; /* of CUdevice_attribute */
    static _Atomic int known = -1;
    if (known >= 0)
        return known;
    int major = 0, minor = 0;
    char name[64] = "";
    int (*init)(unsigned) = (int (*)(unsigned))driver_function("cuInit");
    int (*get_name)(char *, int, int) = (int (*)(char *, int, int))driver_function("cuDeviceGetName");
    int (*get)(int *, int, int) = (int (*)(int *, int, int))driver_function("cuDeviceGetAttribute");
    bool software = init && get_name && get && !init(0) && !get_name(name, sizeof name, 0) &&
                    strncmp(name, "Flyt software GPU", 17) == 0 && !get(&major, MAJOR, 0) && !get(&minor, MINOR, 0);
    int answer = software ? major * 10 + minor : 0;
    known = answer; /* clang does not return the value of an assignment to an _Atomic */
    return answer;
}

/* ---- architectures in options ---- */

int architecture_number(const char *text)
{
    int number;
    return sscanf(text, "sm_%d", &number) == 1 || sscanf(text, "compute_%d", &number) == 1 ? number : 0;
}

const char *architecture_option(const char *const *options, int number, int *prefix_length)
{
    static const char *const starts[] = { "--gpu-architecture=", "-arch=" };
    const char *text = options[number];
    *prefix_length = 0;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncmp(text, starts[i], strlen(starts[i])) == 0) {
            *prefix_length = (int)strlen(starts[i]);
            return text + *prefix_length;
        }
    bool value =
        number && (!strcmp(options[number - 1], "-arch") || !strcmp(options[number - 1], "--gpu-architecture"));
    return value ? text : NULL;
}

/* ---- the bound of registers ---- */

unsigned registers_option(const char *const *options, unsigned count)
{
    static const char name[] = "-maxrregcount";
    enum { LEAST = 24, MOST = 255 }; /* of NVIDIA's assembler, which takes fewer for LEAST and ignores more than MOST */
    unsigned registers = 0, value;
    for (unsigned i = 0; i < count; i++) {
        const char *found = strstr(options[i], name), *text = found ? found + sizeof name - 1 : NULL;
        if (found && !*text)
            text = i + 1 < count ? options[i + 1] : NULL;
        else if (found)
            text++; /* a sign of equality, or a space */
        if (text && sscanf(text, "%9u", &value) == 1 && value <= MOST)
            registers = value < LEAST ? LEAST : value;
    }
    return registers;
}

/* ---- the version of PTX ---- */

void lower_ptx_version(char *text, size_t size)
{
    static const char directive[] = ".version ", newest[] = "9.0";
    enum { LENGTH = sizeof directive - 1, HEAD = 4096 }; /* comments may stand before the directive */
    for (size_t at = 0; at + LENGTH + 3 <= size && at < HEAD; at++) {
        char *version = text + at + LENGTH;
        if (memcmp(text + at, directive, LENGTH) != 0 || (at && text[at - 1] != '\n'))
            continue;
        if (version[0] == '9' && version[1] == '.' && version[2] > '0' && version[2] <= '9')
            memcpy(version, newest, sizeof newest - 1);
        return;
    }
}

/* ---- finding the library's functions ---- */

_Thread_local const void *interposed_caller;

static struct interposed *const all[] = { &interposed_nvrtc, &interposed_nvvm, &interposed_jitlink };
enum { ALL = sizeof all / sizeof all[0], MOST_COPIES = 16 };

/* At this moment only what the program is linked with is loaded. */
__attribute__((constructor)) static void look_at_the_program(void)
{
    for (size_t i = 0; i < ALL; i++)
        all[i]->linked = real_dlsym()(RTLD_NEXT, all[i]->functions[0].name) != NULL;
}

static bool is_own(const void *base)
{
    Dl_info own;
    return dladdr((void *)all, &own) && own.dli_fbase == base;
}

/* In a loaded object and what it is linked with, also where nobody else sees that (RTLD_LOCAL). */
static any_function function_of(const char *object, const char *name)
{
    void *handle = dlopen(object, RTLD_LAZY | RTLD_NOLOAD);
    any_function function = handle ? real_dlsym()(handle, name) : NULL;
    if (handle)
        dlclose(handle); /* it stays loaded: its code is calling us, or it was loaded before */
    return function;
}

/* What the caller's object is linked with. The program itself (its name is empty) has it in the global scope; this
   library (one of its functions has called another one) has nothing but its own. */
static any_function function_of_caller(const char *name)
{
    Dl_info info;
    struct link_map *object = NULL;
    if (!dladdr1(interposed_caller, &info, (void **)&object, RTLD_DL_LINKMAP) || !object || !*object->l_name ||
        is_own(info.dli_fbase))
        return NULL;
    return function_of(object->l_name, name);
}

struct copies {
    const char *prefix;
    char *paths[MOST_COPIES];
    size_t count;
};

/* The loader's lock is held: nothing may be opened here. */
static int note_copy(struct dl_phdr_info *object, size_t size, void *context)
{
    struct copies *copies = context;
    const char *slash = strrchr(object->dlpi_name, '/'), *file = slash ? slash + 1 : object->dlpi_name;
    (void)size;
    if (strncmp(file, "lib", 3) == 0 && strncmp(file + 3, copies->prefix, strlen(copies->prefix)) == 0 &&
        copies->count < MOST_COPIES && (copies->paths[copies->count] = strdup(object->dlpi_name)))
        copies->count++;
    return 0;
}

/* A caller that has the function from an object that it is not linked with itself. */
static any_function function_of_any(const struct interposed *from, const char *name)
{
    struct copies copies = { .prefix = from->prefix };
    any_function function = NULL;
    dl_iterate_phdr(note_copy, &copies);
    for (size_t i = 0; i < copies.count; i++) {
        function = function ? function : function_of(copies.paths[i], name);
        free(copies.paths[i]);
    }
    return function;
}

any_function interposed_known(struct interposed *from, const char *name)
{
    any_function function = function_of_caller(name);
    if (!function && from->linked)
        function = real_dlsym()(RTLD_NEXT, name);
    if (!function && from->library)
        function = real_dlsym()(from->library, name);
    if (!function)
        function = real_dlsym()(RTLD_NEXT, name);
    return function ? function : function_of_any(from, name);
}

any_function interposed_original(struct interposed *from, const char *name)
{
    any_function function = interposed_known(from, name);
    return function ? function : from->missing;
}

/* ---- dlsym ---- */

static any_function ours(struct interposed *from, const char *name)
{
    for (size_t i = 0; i < from->count; i++) {
        const char *known = from->functions[i].name;
        size_t length = strlen(known);
        if (strcmp(name, known) == 0)
            return from->functions[i].function;
        /* "__nvJitLinkCreate_13_0": the headers call a function by its version */
        if (strncmp(name, "__", 2) == 0 && strncmp(name + 2, known, length) == 0 && name[2 + length] == '_' &&
            name[3 + length] >= '0' && name[3 + length] <= '9')
            return from->functions[i].function;
    }
    return NULL;
}

/* One of those that are asked, and none where the program is linked with another one. */
static bool serves(struct interposed *from, void *handle, const char *name)
{
    void *none = NULL;
    if (from->linked)
        return real_dlsym()(RTLD_NEXT, name) == real_dlsym()(handle, name);
    return __atomic_compare_exchange_n((void **)&from->library, &none, handle, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST) ||
           none == handle;
}

static any_function found(void *handle, const char *name)
{
    for (size_t i = 0; i < ALL; i++) {
        any_function function = ours(all[i], name);
        if (function && real_dlsym()(handle, name) && serves(all[i], handle, name))
            return function;
    }
    return NULL;
}

EXPORTED void *dlsym(void *restrict handle, const char *restrict name)
{
    if ((strncmp(name, "nv", 2) == 0 || strncmp(name, "__nv", 4) == 0) && handle != RTLD_DEFAULT &&
        handle != RTLD_NEXT) {
        any_function function = found(handle, name);
        if (function)
            return (void *)function;
    }
    return (void *)real_dlsym()(handle, name);
}
