/*
 * error.c: chapter "Error Handling". The last error belongs to the host thread and to this runtime. What the process
 * cannot get rid of (no server, the core's sticky error) comes back after it was taken.
 */
#include "cpu/client/runtime/runtime.h"
#include "cpu/client/runtime/error_table.h"

/* As NVIDIA's, these two initialise when they are the first call, and a failed initialisation is the answer for ever;
   then the thread's own error; then the process's, which nothing clears. */
static int error_of(int last) {
    int error = runtime_thread.device ? CUDART_OK : runtime_attach(NULL);
    if (!error)
        error = last;
    return error ? error : core_sticky();
}

RUNTIME_API int cudaGetLastError(void) {
    int last = runtime_thread.last_error;
    runtime_thread.last_error = CUDART_OK;
    core_count_local();
    return error_of(last);
}

RUNTIME_API int cudaPeekAtLastError(void) {
    core_count_local();
    return error_of(runtime_thread.last_error);
}

static const char unknown_code[] = "unrecognized error code";

/* The table is in ascending order; a code may have two rows, for different versions. */
static const struct error_row *find_row(int code) {
    size_t low = 0, high = sizeof error_rows / sizeof error_rows[0];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (error_rows[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < sizeof error_rows / sizeof error_rows[0] && error_rows[low].code == code; low++)
        if (error_rows[low].first <= FLYT_CUDART && FLYT_CUDART <= error_rows[low].last)
            return &error_rows[low];
    return NULL;
}

RUNTIME_API const char *cudaGetErrorName(int code) {
    const struct error_row *row = find_row(code);
    return row ? row->name : unknown_code;
}

RUNTIME_API const char *cudaGetErrorString(int code) {
    const struct error_row *row = find_row(code);
    return row ? row->text : unknown_code;
}
