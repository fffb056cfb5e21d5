/* log.c: chapter "Error Log Management Functions": the process's log of errors, which the core keeps. */
#include "cpu/client/driver/driver.h"

/* "Not ready" is no error. */
CUresult driver_failed(CUresult code, const char *function)
{
    if (code != CUDA_ERROR_NOT_READY)
        core_log_failure((int)code, driver_error_name((int)code), function);
    return code;
}

/* The flags, of which none is defined, NVIDIA's driver does not look at. */
static int missing(const void *pointer, const char *name)
{
    if (!pointer)
        core_log(CORE_LOG_ERROR, "%s cannot be NULL", name);
    return pointer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The callback's level is an enum of int's size, as the core's. */
CUresult driver_cuLogsRegisterCallback(CUlogsCallback function, void *user, CUlogsCallbackHandle *handle)
{
    return driver_local(core_log_register((core_log_function *)function, user, handle));
}

CUresult driver_cuLogsUnregisterCallback(CUlogsCallbackHandle handle)
{
    return driver_local(core_log_unregister(handle));
}

CUresult driver_cuLogsCurrent(CUlogIterator *iterator, unsigned flags)
{
    (void)flags;
    int error = missing(iterator, "iterator_out");
    if (!error)
        *iterator = core_log_end();
    return driver_local(error);
}

CUresult driver_cuLogsDumpToFile(CUlogIterator *iterator, const char *path, unsigned flags)
{
    (void)flags;
    int error = missing(path, "pathToFile");
    return driver_local(error ? error : core_log_dump_to_file(iterator, path));
}

CUresult driver_cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size, unsigned flags)
{
    (void)flags;
    int error = missing(buffer, "buffer");
    return driver_local(error ? error : core_log_dump_to_memory(iterator, buffer, size));
}
