/* shows: The log of errors (cuLogs…): what failed and why, iterators, truncation, small buffers; CUDA_LOG_FILE; a child
 *   of a fork has it, too
 * shows: The log of errors (cuLogs…): callbacks run in the thread whose call has failed, may make CUDA calls and
 *   unregister themselves; unregistering waits for those in other threads */
/* test_log.c: libcuda.so.1 of programs, on the software GPU inside this process. */
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/unit_cuda.h"
#include <pthread.h>

enum { EVERYTHING = 25600 };

static char log_file[] = "/tmp/flyt-test-log-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    CUcontext context;
    int fd = mkstemp(log_file);
    if (fd < 0 || close(fd) || setenv("CUDA_LOG_FILE", log_file, 1) || setenv("FLYT_SERVER", "local:software", 1))
        return -1;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(log_file);
    return cuDevicePrimaryCtxRelease(0) ? -1 : 0;
}

/* A call that fails, and is logged in one line; in two where there is a reason. */
static void failing_call(void) { FAILS(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(NULL, 16)); }
#define FAIL_LINE "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemAlloc_v2"

static const char *dump(CUlogIterator *from, size_t *size)
{
    static char text[EVERYTHING];
    *size = sizeof text;
    OK(cuLogsDumpToMemory(from, text, size, 0));
    assert_int_equal(strlen(text), *size);
    return text;
}

static unsigned lines(const char *text)
{
    unsigned count = 0;
    for (; (text = strchr(text, '\n')); text++)
        count++;
    return count;
}

TEST(messages)
{
    CUlogIterator at, before;
    size_t size;
    int hour, minute, second, ms, used = 0;
    unsigned long thread;
    OK(cuLogsCurrent(&at, 0));
    before = at;
    dump(&at, &size);
    assert_int_equal(size, 0);
    assert_int_equal(at, before);
    failing_call();
    const char *text = dump(&at, &size);
    assert_int_equal(lines(text), 1);
    assert_int_equal(sscanf(text, "[%2d:%2d:%2d.%3d][%lu][CUDA][E] %n", &hour, &minute, &second, &ms, &thread, &used),
                     5);
    assert_int_equal(thread, pthread_self());
    assert_string_equal(text + used, FAIL_LINE "\n");
    assert_true(at != before);
    assert_int_equal(lines(dump(&at, &size)), 0);             /* the iterator has moved to the end */
    /* a reason stands before */
    char room[8];
    size = sizeof room;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(&at, NULL, &size, 0));
    text = dump(&at, &size);
    assert_int_equal(lines(text), 2);
    assert_non_null(strstr(text, "buffer cannot be NULL\n"));
    assert_non_null(strstr(text, "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuLogsDumpToMemory\n"));
    /* a launch says what is wrong with it, and what has no context that it has none */
    CUcontext context;
    CUdeviceptr memory;
    OK(cuCtxPopCurrent(&context));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&memory, 16));
    OK(cuCtxPushCurrent(context));
    text = dump(&at, &size);
    assert_non_null(strstr(text, "No CUDA context is current to the calling thread\n"));
    /* what is not ready is no error */
    assert_int_equal(lines(dump(&at, &size)), 0);
}

TEST(arguments)
{
    CUlogIterator at, wrong;
    char buffer[4];
    size_t size = sizeof buffer;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsCurrent(NULL, 0));
    OK(cuLogsCurrent(&at, 1)); /* nobody looks at flags */
    OK(cuLogsCurrent(&at, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(NULL, buffer, NULL, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(NULL, buffer, &size, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToFile(NULL, NULL, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToFile(NULL, "/nowhere/at/all", 0));
    OK(cuLogsCurrent(&wrong, 0));
    wrong += 1000;
    size = sizeof buffer;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(&wrong, buffer, &size, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsRegisterCallback(NULL, NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsUnregisterCallback(NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsUnregisterCallback((CUlogsCallbackHandle)buffer));
}

/* The most recent messages are kept, and the note says how many are gone. */
TEST(truncation)
{
    CUlogIterator start, at;
    size_t size;
    char small[400];
    OK(cuLogsCurrent(&start, 0));
    for (int i = 0; i < 130; i++)
        failing_call();
    at = start;
    const char *text = dump(&at, &size);
    assert_int_equal(lines(text), 101);
    assert_non_null(strstr(text, "[W] The log is truncated: 30 older messages "));
    assert_true(strstr(text, "[W]") < strstr(text, "[E]"));
    assert_int_equal(lines(dump(NULL, &size)), 101);
    /* a small buffer has the last messages behind the note */
    OK(cuLogsCurrent(&at, 0));
    for (int i = 0; i < 5; i++)
        failing_call();
    start = at;
    size = sizeof small;
    OK(cuLogsDumpToMemory(&at, small, &size, 0));
    assert_true(size < sizeof small && strlen(small) == size);
    assert_non_null(strstr(small, "are not shown"));
    assert_true(lines(small) >= 2 && lines(small) < 6);
    assert_int_equal(small[size - 1], '\n');
    /* too small for one */
    at = start;
    size = 40;
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(&at, small, &size, 0));
    assert_int_equal(size, 0);
    assert_int_equal(at, start);
    size = 0;
    small[0] = 'x';
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsDumpToMemory(&at, small, &size, 0));
    assert_int_equal(small[0], 'x');
}

TEST(files)
{
    char name[] = "/tmp/flyt-test-dump-XXXXXX", text[EVERYTHING] = "";
    CUlogIterator at;
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    OK(cuLogsCurrent(&at, 0));
    failing_call();
    OK(cuLogsDumpToFile(&at, name, 0));
    assert_true(read(fd, text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, FAIL_LINE "\n"));
    assert_int_equal(lines(text), 1);
    close(fd);
    unlink(name);
    /* CUDA_LOG_FILE */
    FILE *file = fopen(log_file, "r");
    assert_non_null(file);
    unsigned count = 0;
    while (fgets(text, sizeof text, file))
        count += strstr(text, FAIL_LINE) != NULL;
    fclose(file);
    assert_true(count > 130);
}

/* ---- callbacks ---- */

struct seen {
    pthread_t thread;
    atomic_uint calls;
    char text[256];
    size_t length;
    int level;
    CUlogsCallbackHandle own;
    atomic_int inside;
    bool makes_calls, unregisters, waits;
    atomic_bool go;
};

static void callback(void *data, CUlogLevel level, char *message, size_t length)
{
    struct seen *seen = data;
    atomic_fetch_add(&seen->inside, 1);
    seen->thread = pthread_self();
    seen->level = (int)level;
    seen->length = length;
    snprintf(seen->text, sizeof seen->text, "%s", message);
    atomic_fetch_add(&seen->calls, 1);
    CUdeviceptr memory;
    if (seen->makes_calls) {
        cuMemAlloc(NULL, 16);                                  /* fails again, and is not told */
        if (!cuMemAlloc(&memory, 16))
            cuMemFree(memory);
    }
    if (seen->unregisters)
        cuLogsUnregisterCallback(seen->own);
    while (seen->waits && !atomic_load(&seen->go))
        usleep(1000);
    atomic_fetch_sub(&seen->inside, 1);
}

TEST(callbacks)
{
    struct seen first = { 0 }, second = { .makes_calls = true }, third = { .unregisters = true };
    CUlogsCallbackHandle one, two;
    OK(cuLogsRegisterCallback(callback, &first, &one));
    OK(cuLogsRegisterCallback(callback, &second, &two));
    failing_call();
    assert_int_equal(first.calls, 1);
    assert_int_equal(second.calls, 1);
    assert_int_equal(first.thread, pthread_self());
    assert_int_equal(first.level, CU_LOG_LEVEL_ERROR);
    assert_string_equal(first.text, FAIL_LINE);
    assert_int_equal(first.length, strlen(FAIL_LINE));
    OK(cuLogsUnregisterCallback(two));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuLogsUnregisterCallback(two));
    assert_true(first.calls > 1);                              /* it was told of that */
    unsigned before = first.calls;
    OK(cuLogsRegisterCallback(callback, &third, &third.own));
    failing_call();
    failing_call();
    assert_int_equal(first.calls, before + 2);
    assert_int_equal(third.calls, 1);
    OK(cuLogsUnregisterCallback(one));
    failing_call();
    assert_int_equal(first.calls, before + 2);
}

static void *fails(void *unused)
{
    (void)unused;
    cuMemAlloc(NULL, 16);
    return NULL;
}

static void *unregisters(void *handle) { return (void *)(intptr_t)cuLogsUnregisterCallback(handle); }

/* The program may unload the callback's code when unregistering has returned. */
TEST(unregistering_waits)
{
    struct seen seen = { .waits = true };
    CUlogsCallbackHandle handle;
    pthread_t failing, unregistering;
    void *result;
    OK(cuLogsRegisterCallback(callback, &seen, &handle));
    assert_int_equal(pthread_create(&failing, NULL, fails, NULL), 0);
    while (!atomic_load(&seen.inside))
        usleep(1000);
    assert_int_equal(pthread_create(&unregistering, NULL, unregisters, handle), 0);
    usleep(20000);
    assert_int_equal(atomic_load(&seen.inside), 1);
    atomic_store(&seen.go, true);
    pthread_join(unregistering, &result);
    assert_int_equal(atomic_load(&seen.inside), 0);
    assert_null(result);
    pthread_join(failing, NULL);
}

TEST(in_a_child)
{
    pid_t child = fork();
    if (child == 0) {
        char text[EVERYTHING];
        size_t size = sizeof text;
        CUdeviceptr memory;
        CUlogIterator at;
        _exit(cuLogsCurrent(&at, 0) || cuMemAlloc(&memory, 16) != CUDA_ERROR_NOT_INITIALIZED ||
              cuLogsDumpToMemory(&at, text, &size, 0) || !strstr(text, "Returning 3 (CUDA_ERROR_NOT_INITIALIZED)"));
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void) { return unit_run(set_up, tear_down); }
