/*
 * error.c: chapters "Error Handling" and "Error Log Management Functions". The last error belongs to the host thread
 * and to this runtime. An error that the process cannot get rid of is cleared here too, as in NVIDIA's runtime; the
 * next call returns it again.
 */
#include "cpu/client/runtime/runtime.h"

/* As NVIDIA's, these two initialise when they are the first call, and a failed initialisation is the answer for
 * ever. */
static int error_of(int last)
{
    int error = runtime_thread.device ? cudaSuccess : runtime_attach(NULL);
    return error ? error : last;
}

cudaError_t runtime_cudaGetLastError(void)
{
    int last = runtime_thread.last_error;
    runtime_thread.last_error = cudaSuccess;
    core_count_local();
    return error_of(last);
}

cudaError_t runtime_cudaPeekAtLastError(void)
{
    core_count_local();
    return error_of(runtime_thread.last_error);
}

static const char unknown_code[] = "unrecognized error code";

static const struct error_row {
    int code;
    const char *name, *text;
} error_rows[] = {
#define ERROR(code, name, text) { code, name, text },
    CUDART_ERRORS(ERROR)
#undef ERROR
};

static const struct error_row *find_row(cudaError_t code)
{
    size_t low = 0, high = sizeof error_rows / sizeof error_rows[0];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (error_rows[middle].code == (int)code)
            return &error_rows[middle];
        if (error_rows[middle].code < (int)code)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *runtime_cudaGetErrorName(cudaError_t code)
{
    const struct error_row *row = find_row(code);
    return row ? row->name : unknown_code;
}

const char *runtime_cudaGetErrorString(cudaError_t code)
{
    const struct error_row *row = find_row(code);
    return row ? row->text : unknown_code;
}

/* ---- the log of errors ---- */

/* "Not ready" is no error. */
cudaError_t runtime_failed(cudaError_t code, const char *function)
{
    if (code != cudaErrorNotReady)
        core_log_failure((int)code, runtime_cudaGetErrorName(code), function);
    return code;
}

#if FLYT_CUDART >= 13
/* The flags, of which none is defined, NVIDIA's driver does not look at. */
static int missing(const void *pointer, const char *name)
{
    if (!pointer)
        core_log(CORE_LOG_ERROR, "%s cannot be NULL", name);
    return pointer ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t runtime_cudaLogsRegisterCallback(cudaLogsCallback_t function, void *user, cudaLogsCallbackHandle *handle)
{
    return runtime_local(core_log_register(function, user, handle));
}

cudaError_t runtime_cudaLogsUnregisterCallback(cudaLogsCallbackHandle handle)
{
    return runtime_local(core_log_unregister(handle));
}

cudaError_t runtime_cudaLogsCurrent(cudaLogIterator *iterator, unsigned flags)
{
    (void)flags;
    int error = missing(iterator, "iterator_out");
    if (!error)
        *iterator = core_log_end();
    return runtime_local(error);
}

cudaError_t runtime_cudaLogsDumpToFile(cudaLogIterator *iterator, const char *path, unsigned flags)
{
    (void)flags;
    int error = missing(path, "pathToFile");
    return runtime_local(error ? error : core_log_dump_to_file(iterator, path));
}

cudaError_t runtime_cudaLogsDumpToMemory(cudaLogIterator *iterator, char *buffer, size_t *size, unsigned flags)
{
    (void)flags;
    int error = missing(buffer, "buffer");
    return runtime_local(error ? error : core_log_dump_to_memory(iterator, buffer, size));
}
#endif
