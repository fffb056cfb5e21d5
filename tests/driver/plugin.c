/*
 * plugin.c: three things in one file, for plugins.py.
 *   COMPILER=N        stands for NVRTC, nvJitLink and libNVVM, in a copy that can be told from others by N: it knows
 *                     the N architectures 101, 102, …
 *   PLUGIN            a plugin that is linked with such a library, as extension modules of Python are
 *   ONLY              a program that calls the plugin, which it is linked with
 *   ABOVE             nothing but a library that is linked with a plugin and with what that one calls
 *   none of these     a program: it opens the plugins that its arguments name with RTLD_LOCAL and calls them; an
 *                     argument "open=LIBRARY" opens the library itself and asks it with dlsym
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int nvrtcGetNumSupportedArchs(int *);
int nvrtcGetSupportedArchs(int *);
int nvrtcCompileProgram(void *, int, const char *const *);
int nvvmVerifyProgram(void *, int, const char **);
int nvJitLinkCreate(void **, unsigned, const char *const *);
int nvJitLinkDestroy(void **);
int __nvJitLinkCreate_13_0(void **, unsigned, const char *const *);

#if defined(COMPILER)
int nvrtcGetNumSupportedArchs(int *count)
{
    *count = COMPILER;
    return 0;
}
int nvrtcGetSupportedArchs(int *archs)
{
    for (int i = 0; i < COMPILER; i++)
        archs[i] = 101 + i;
    return 0;
}
int nvrtcCompileProgram(void *program, int count, const char *const *options)
{
    (void)program;
    printf("compiler %d: %s\n", COMPILER, count ? options[0] : "");
    return 0;
}
int nvvmVerifyProgram(void *program, int count, const char **options)
{
    (void)program, (void)count, (void)options;
    return 70 + COMPILER;
}
int nvJitLinkCreate(void **handle, unsigned count, const char *const *options)
{
    (void)handle, (void)count, (void)options;
    return 80 + COMPILER;
}
int __nvJitLinkCreate_13_0(void **handle, unsigned count, const char *const *options)
{
    return nvJitLinkCreate(handle, count, options);
}
int nvJitLinkDestroy(void **handle)
{
    (void)handle;
    return 90 + COMPILER;
}

#elif defined(PLUGIN)
int plugin(void)
{
    static const char *const options[] = { "--gpu-architecture=sm_101" };
    int count = -1, archs[64] = { 0 };
    void *handle = NULL;
    int counted = nvrtcGetNumSupportedArchs(&count), listed = nvrtcGetSupportedArchs(archs);
    printf("known: %d %d, %d %d\n", counted, count, listed, archs[0]);
    nvrtcCompileProgram(NULL, 1, options);
#if !defined(NO_NVVM)
    printf("nvvm %d\n", nvvmVerifyProgram(NULL, 0, NULL));
#endif
    int created = __nvJitLinkCreate_13_0(&handle, 0, NULL);
    printf("link %d %d\n", created, handle ? 0 : nvJitLinkDestroy(&handle));
    return 0;
}

#elif defined(ABOVE)
int nothing;

#elif defined(ONLY)
int plugin(void);
int main(void) { return plugin(); }

#else
static int ask(const char *library)
{
    static const char *const options[] = { "--gpu-architecture=sm_101" };
    void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    int count = -1;
    if (!opened)
        return puts(dlerror()), 1;
    int (*known)(int *) = (int (*)(int *))dlsym(opened, "nvrtcGetNumSupportedArchs");
    int (*compile)(void *, int, const char *const *) =
        (int (*)(void *, int, const char *const *))dlsym(opened, "nvrtcCompileProgram");
    int counted = known(&count);
    printf("asked: %d %d\n", counted, count);
    return compile(NULL, 1, options);
}

int main(int argc, char **argv)
{
    setbuf(stdout, NULL);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "open=", 5) == 0) {
            ask(argv[i] + 5);
            continue;
        }
        void *opened = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        int (*plugin)(void) = opened ? (int (*)(void))dlsym(opened, "plugin") : NULL;
        if (!plugin)
            return puts(dlerror()), 1;
        plugin();
    }
    return 0;
}
#endif
