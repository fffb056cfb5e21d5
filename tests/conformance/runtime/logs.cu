// shows: conformance: the log of errors (cudaLogs…): iterators, callbacks, dumps, wrong arguments
#include "../suite.h"

#if RUNTIME >= 13
#include <unistd.h>

struct seen { int calls, level; bool whole; };

static void CUDART_CB callback(void *data, cudaLogLevel level, char *message, size_t length)
{
    seen *s = (seen *)data;
    s->calls++;
    s->level = (int)level;
    s->whole = message && strlen(message) == length && strstr(message, "Returning ");
}

/* An error that the driver finds: NVIDIA's runtime says nothing of those that it finds itself. */
static void fail()
{
    void *p;
    SAYS(cudaMalloc(&p, (size_t)1 << 60), "too much");
}

static void dumps()
{
    static char text[25600];
    cudaLogIterator at = 0;
    size_t size = sizeof text;
    GIVES(cudaErrorInvalidValue, cudaLogsCurrent(NULL, 0), "null pointer");
    WORKS(cudaLogsCurrent(&at, 1), "flags");
    WORKS(cudaLogsCurrent(&at, 0), "the end");
    WORKS(cudaLogsDumpToMemory(&at, text, &size, 0), "nothing new");
    VALUE("size", "%zu", size);
    fail();
    size = sizeof text;
    WORKS(cudaLogsDumpToMemory(&at, text, &size, 0), "a failure");
    VALUE("whole", "%d", size && strlen(text) == size && text[size - 1] == '\n');
    VALUE("named", "%d", strstr(text, "Returning 2 (") != NULL);
    size = sizeof text;
    WORKS(cudaLogsDumpToMemory(&at, text, &size, 0), "again");
    VALUE("size", "%zu", size);
    GIVES(cudaErrorInvalidValue, cudaLogsDumpToMemory(&at, NULL, &size, 0), "no buffer");
    GIVES(cudaErrorInvalidValue, cudaLogsDumpToMemory(&at, text, NULL, 0), "no size");
    size = sizeof text;
    WORKS(cudaLogsDumpToMemory(&at, text, &size, 1), "flags");
    size = 8;
    GIVES(cudaErrorInvalidValue, cudaLogsDumpToMemory(NULL, text, &size, 0), "a small buffer");
    VALUE("size", "%zu", size);
    GIVES(cudaErrorInvalidValue, cudaLogsDumpToFile(&at, NULL, 0), "no path");
    GIVES(cudaErrorInvalidValue, cudaLogsDumpToFile(NULL, "/nowhere/at/all", 0), "no such folder");
    WORKS(cudaLogsDumpToFile(NULL, "/dev/null", 0), "a file");
}

int main()
{
    cudaFree(NULL);
    seen one = { 0, 9, false };
    cudaLogsCallbackHandle handle = NULL;
    dumps();
    GIVES(cudaErrorInvalidValue, cudaLogsRegisterCallback(NULL, &one, &handle), "no function");
    WORKS(cudaLogsRegisterCallback(callback, &one, &handle), "a function");
    fail();
    VALUE("called", "%d", one.calls > 0 && one.level == cudaLogLevelError && one.whole);
    WORKS(cudaLogsUnregisterCallback(handle), "the function");
    int before = one.calls;
    GIVES(cudaErrorInvalidValue, cudaLogsUnregisterCallback(handle), "again");
    GIVES(cudaErrorInvalidValue, cudaLogsUnregisterCallback(NULL), "null pointer");
    VALUE("called afterwards", "%d", one.calls - before);
    return 0;
}
#else
int main() { return 0; }
#endif
