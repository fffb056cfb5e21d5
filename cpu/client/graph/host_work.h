/*
 * host_work.h: host functions and stream callbacks that programs give to a stream, for both front ends.
 * Follows: cuLaunchHostFunc, cuStreamAddCallback and their twins of the Runtime API.
 */
#ifndef FLYT_CLIENT_HOST_WORK_H
#define FLYT_CLIENT_HOST_WORK_H

#include "cpu/client/graph/graph.h"

struct host_work {
    core_stream stream;
    void (*function)(void *user); /* …LaunchHostFunc; NULL: a callback */
    void (*callback)(void);       /* …StreamAddCallback, of the front end's type, which call_back knows */
    void (*call_back)(const struct host_work *, int status);
    void *user;
};

/* Keeps a copy of it and gives it to the stream, or to the capture that the stream is part of. flags must be 0.
   A result code. */
CORE_API int host_work_add(core_context *, const struct host_work *, unsigned flags);

#endif
