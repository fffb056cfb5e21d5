/* deep.c: see deep.h. */
#include "deep.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

enum { ENOUGH = 64 * 1024, STACK = 512 * 1024 };

struct deep { int (*function)(void *); void *context; int result; };

/* The first thread's stack grows, and to ask for its limit is slow. A frame outside the thread's stack is on one that
   the program has made (coroutines), of unknown size. */
static bool has_room(void)
{
    pthread_attr_t attributes;
    void *base = NULL;
    size_t size = 0;
    if (getpid() == gettid() || pthread_getattr_np(pthread_self(), &attributes))
        return true;
    bool known = pthread_attr_getstack(&attributes, &base, &size) == 0 && base;
    pthread_attr_destroy(&attributes);
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), bottom = (uintptr_t)base;
    return !known || (here >= bottom + ENOUGH && here < bottom + size);
}

static void *run(void *context)
{
    struct deep *deep = context;
    deep->result = deep->function(deep->context);
    return NULL;
}

int deep_call(int (*function)(void *), void *context)
{
    struct deep deep = { function, context, 0 };
    pthread_attr_t attributes;
    pthread_t thread;
    if (has_room() || pthread_attr_init(&attributes))
        return function(context);
    bool made = pthread_attr_setstacksize(&attributes, STACK) == 0 &&
                pthread_create(&thread, &attributes, run, &deep) == 0;
    pthread_attr_destroy(&attributes);
    if (!made)
        return function(context);
    pthread_join(thread, NULL);
    return deep.result;
}
