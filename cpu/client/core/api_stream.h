/*
 * api_stream.h: streams, events, host functions and stream memory operations.
 */
#ifndef FLYT_CLIENT_CORE_API_STREAM_H
#define FLYT_CLIENT_CORE_API_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cpu/client/core/api_session.h"

typedef uint64_t core_stream; /* 0: legacy default of the context; or: */
#define CORE_STREAM_LEGACY ((core_stream)1)
#define CORE_STREAM_PER_THREAD ((core_stream)2)

/* ---- streams and events (stream.c, event.c) --------------------------------------------------------------------- */

CORE_API int core_stream_create(core_context *, unsigned flags, int priority, core_stream *);
CORE_API int core_stream_destroy(core_stream);
CORE_API int core_stream_synchronize(core_context *, core_stream);              /* waits, unless known to be idle */
CORE_API int core_stream_query(core_context *, core_stream);                    /* 0, 600 or an error */
struct core_stream_info { core_context *context; int device; unsigned flags; int priority; uint64_t id; };
CORE_API int core_stream_info(core_context *, core_stream, struct core_stream_info *);

/* Attributes of streams, by the numbers of CUlaunchAttributeID (stream_attributes.c). 1: streams have none of that
   number; 400: no stream. value: as CUlaunchAttributeValue. */
CORE_API int core_stream_get_attribute(core_context *, core_stream, int id, void *value);
CORE_API int core_stream_set_attribute(core_context *, core_stream, int id, const void *value);
CORE_API int core_stream_copy_attributes(core_context *, core_stream to, core_stream from);
/* Whether any stream ever had an attribute set; if not, core_stream_attributes_add need not be called. */
CORE_API extern atomic_bool core_stream_attributes_set;

typedef uint64_t core_event;
CORE_API int core_event_create(core_context *, unsigned flags, core_event *);
CORE_API int core_event_destroy(core_event);
CORE_API int core_event_check(core_event); /* 0, or 400: there is no such event */
/* Checks an event that a launch is to record (attributes 7 and 12); 1: it keeps times, or other processes know it,
   which CUDA's reference forbids. */
CORE_API int core_event_check_of_launch(core_event);
CORE_API int core_event_record(core_context *, core_event, core_stream, unsigned flags);
CORE_API int core_event_synchronize(core_event);
CORE_API int core_event_query(core_event);
CORE_API int core_event_elapsed(core_event start, core_event end, float *milliseconds);
CORE_API int core_stream_wait(core_context *, core_stream, core_event, unsigned flags);
/* The event, which is the context's (400), stands for all that the context's streams have been given so far. */
CORE_API int core_context_record(core_context *, core_event);
/* All that the context's streams are given from now on waits for the event, also in streams that are made later. */
CORE_API int core_context_wait(core_context *, core_event);
/* A name of CORE_IPC_SIZE bytes for other programs of the server (share.c); from now on each call about the event waits
   for the server. 400: the event was not made for it. */
CORE_API int core_ipc_event_get(core_event, void *handle);
/* 1: it is no such name; 201: the event is of this process. Waits. */
CORE_API int core_ipc_event_open(core_context *, const void *handle, core_event *);

/* function(user, status) runs in a thread of the core's once the stream's earlier work has finished; later work of
   the stream waits for it. on_error: also after an error, with it as status (cudaStreamAddCallback); else only
   after success (cudaLaunchHostFunc). */
CORE_API int core_host_function(core_context *, core_stream, void (*function)(void *user, int status), void *user,
                                bool on_error);
/* Whether the caller is such a function. Its stream waits for it, so it must not wait for any: the front ends refuse
   (800). */
CORE_API bool core_in_host_function(void);

/* ---- stream memory operations (values.c) ---- */

/* Numbers as CUstreamBatchMemOpType. */
enum core_value_kind {
    CORE_WAIT_VALUE_32 = 1,
    CORE_WRITE_VALUE_32 = 2,
    CORE_FLUSH_REMOTE_WRITES = 3,
    CORE_WAIT_VALUE_64 = 4,
    CORE_WRITE_VALUE_64 = 5,
    CORE_MEMORY_BARRIER = 6
};
struct core_value {
    enum core_value_kind kind;
    uint64_t address, value;
    unsigned flags;
};
/* The stream does these one after the other. flags: CUstreamWaitValue_flags and so on. 801: a device cannot do it. */
CORE_API int core_values(core_context *, core_stream, const struct core_value *, unsigned count);
/* Whether core_values would take them, in any stream of the context. Nothing is sent. */
CORE_API int core_values_check(core_context *, const struct core_value *, unsigned count);

#endif
