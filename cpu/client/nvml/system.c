/*
 * system.c: NVML's functions about the library, the driver and processes.
 */
#include <stdio.h>
#include <string.h>

#include "cpu/client/nvml/nvml.h"
#include "cpu/client/nvml/functions.h"

int nvmlInit_v2(void) { return source_open(); }
int nvmlInit(void) { return source_open(); }
int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;                                /* with no GPU at all, nothing could be answered later either */
    return source_open();
}
int nvmlShutdown(void) { return source_close(); }

const char *nvmlErrorString(int result)
{
    static const struct { int result; const char *text; } texts[] = {
        { 0, "Success" }, { 1, "Uninitialized" }, { 2, "Invalid Argument" }, { 3, "Not Supported" },
        { 4, "Insufficient Permissions" }, { 5, "Already Initialized" }, { 6, "Not Found" },
        { 7, "Insufficient Size" }, { 8, "Insufficient External Power" }, { 9, "Driver Not Loaded" },
        { 10, "Timeout" }, { 11, "Interrupt Request Issue" }, { 12, "NVML Shared Library Not Found" },
        { 13, "Function Not Found" }, { 14, "Corrupted infoROM" }, { 15, "GPU is lost" },
        { 16, "GPU requires reset" }, { 17, "The operating system has blocked the request" },
        { 18, "Driver/library version mismatch" }, { 19, "In use by another client" },
        { 20, "Insufficient Memory" }, { 21, "No data" }, { 25, "Argument version mismatch" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].result == result)
            return texts[i].text;
    return "Unknown Error";
}

int nvml_text(char *out, unsigned size, const char *text)
{
    if (!out)
        return NVML_INVALID_ARGUMENT;
    if (strlen(text) >= size)
        return NVML_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

/* The oldest release of NVIDIA's driver that has this version of CUDA. The GPU server does not give its own, and
 * programs read a number from the beginning of this text to find out what the driver can do. */
static const char *driver_release(int cuda)
{
    static const struct { int cuda; const char *release; } releases[] = {
        { 13000, "580.65" }, { 12090, "575.51" }, { 12080, "570.86" }, { 12060, "560.28" }, { 12050, "555.42" },
        { 12040, "550.54" }, { 12030, "545.23" }, { 12020, "535.54" }, { 12010, "530.30" }, { 12000, "525.60" },
    };
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
        if (cuda >= releases[i].cuda)
            return releases[i].release;
    return "520.61";
}

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    struct view *view;
    int r = view_hold(&view);
    if (r)
        return r;
    r = nvml_text(version, length, driver_release(view->head.driver_version));
    view_release();
    return r;
}

int nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    char text[64];
    struct view *view;
    int r = view_hold(&view);
    if (r)
        return r;
    snprintf(text, sizeof text, "%d.%s", view->head.driver_version / 1000, driver_release(view->head.driver_version));
    view_release();
    return nvml_text(version, length, text);
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    struct view *view;
    if (!version)
        return NVML_INVALID_ARGUMENT;
    int r = view_hold(&view);
    if (r)
        return r;
    *version = view->head.driver_version;
    view_release();
    return NVML_SUCCESS;
}
int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

int nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    struct view *view;
    if (!name || !length)
        return NVML_INVALID_ARGUMENT;
    int r = view_hold(&view);
    if (r)
        return r;
    r = NVML_NOT_FOUND;
    for (uint32_t i = 0; i < view->head.programs && r; i++)
        if (view->programs[i].pid == pid) {
            snprintf(name, length, "%s", view->programs[i].executable);
            r = NVML_SUCCESS;
        }
    view_release();
    return r;
}

int nvmlUnitGetCount(unsigned *count)
{
    if (!count)
        return NVML_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

/* What stubs.awk makes for each function of names.txt that is not here calls this. */
int nvml_stub(void)
{
    struct view *view;
    int r = view_hold(&view);
    if (r == NVML_SUCCESS)
        view_release();
    return r == NVML_UNINITIALIZED ? r : NVML_NOT_SUPPORTED;
}
