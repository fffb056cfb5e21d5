/*
 * api_session.h: the connection, devices and contexts.
 */
#ifndef FLYT_CLIENT_CORE_API_SESSION_H
#define FLYT_CLIENT_CORE_API_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/client/core/api_errors.h"

/* ---- session (session.c) ------------------------------------------------------------------------ */

/* Connects, at the first call of the process, to $FLYT_SERVER (default: unix:///run/flyt/server.sock), shakes hands,
   reserves the window. Waits. The failure of the first attempt is explained once on stderr and kept: 802 when no
   server is there, 803 when the versions differ. In the child of a fork: 3, without touching the parent's session. */
CORE_API int core_attach(void);
/* core_attach for a caller that will retain device 0's primary context at once: the server makes it, with its first
   memory, before it answers the handshake, and the caller waits once instead of twice. */
CORE_API int core_attach_to_use(void);
CORE_API bool core_forked(void);
/* The Runtime API has been initialised, which counts for the Driver API too: NVIDIA's runtime calls cuInit. The front
   ends set it and look; the core does neither. */
extern CORE_API atomic_bool core_initialised;

/* First error that stays until the process ends (700, 714-719, loss of the server), or 0; no call is made. */
CORE_API int core_sticky(void);
/* Takes the error of an earlier ASYNC call that a reply delivered since the last take, or 0. The front end
   asks after each call that waited, and returns it from that call. */
CORE_API int core_take_latched(void);

/* Moves the session to the server at `uri`; afterwards all handles and pointers mean what they meant before (docs/
   moving.md). The program comes to rest first (api_gate.h): calls that begin wait, those under way and all work come to
   their end, within limit_ms milliseconds together (0: 2000).
   0; else the session is where it was, and `why` (size bytes) says why: 801 where something cannot be moved, 600 where
   the program does not come to rest in time, another code where something failed. */
CORE_API int core_move(const char *uri, unsigned limit_ms, char *why, size_t size);

/* As core_move, for programs that share memory: each of them is moved so, to the same server, at the same time. Each
   calls `meet` at four places, in this order, and goes on when all have come there: while it still runs; at rest; when
   what it made is at the new server; when everything is. After the last one it is at the new server, whatever happens.
   session: the number of this program's session at the old server; partners: of those that have had memory of it, or
   the other way round. The programs of all these numbers must be among those that meet. meet: 0, or another code: no
   program moves then, so all get one. */
enum core_meeting { CORE_MEETS_PREPARED, CORE_MEETS_RESTED, CORE_MEETS_MADE, CORE_MEETS_SEALED };
typedef int core_meet(void *context, enum core_meeting, uint64_t session, const uint64_t *partners, unsigned count);
CORE_API int core_move_together(const char *uri, unsigned limit_ms, core_meet *meet, void *context, char *why,
                                size_t size);

/* What the session has on the GPU goes into a file, and its connection ends (docs/elastic.md). Calls of the program
   wait until the same thread resumes it, at any server; until then that thread makes no other call. Codes as of
   core_move; 2: there is no room for the file. core_resume: not 0: it stays suspended, and can be tried again. */
CORE_API int core_suspend(unsigned limit_ms, char *why, size_t size);
CORE_API int core_resume(const char *uri, char *why, size_t size);
/* As core_suspend, but the file has a name, and the program goes on at its server. base: the checkpoint that was
   written last: only what has changed since is written; "": everything. */
CORE_API int core_checkpoint(const char *file, const char *base, char *why, size_t size);

/* These suspend, resume and save programs that share memory, together, as core_move_together moves them. A program that
   is suspended does not meet at MADE, one that is resumed not at RESTED. Behind the last place all of them are
   suspended, or at the new server. At the last two places of a checkpoint each has written what it has; all files get
   their names behind the last one. One that is resumed names the partners that it had when it was suspended; of these,
   those that have ended do not meet. 801, and nobody leaves, where one has memory of another program that has ended or
   freed it. */
CORE_API int core_suspend_together(unsigned limit_ms, core_meet *meet, void *context, char *why, size_t size);
CORE_API int core_resume_together(const char *uri, core_meet *meet, void *context, char *why, size_t size);
CORE_API int core_checkpoint_together(const char *file, core_meet *meet, void *context, char *why, size_t size);

/* Calls that were answered without the server; who answers counts. All is counted with FLYT_STATS only. */
CORE_API void core_count_local(void);

/* The connection that is made next is made for another process of this user: NVML's view of it. */
CORE_API void core_speak_for(unsigned pid);

struct core_statistics { uint64_t travelled, waited, local, bytes_sent, bytes_received; unsigned lanes; };
CORE_API void core_statistics(struct core_statistics *);

/* ---- devices (device.c): a snapshot taken at connect, filtered by CUDA_VISIBLE_DEVICES and ordered by
   CUDA_DEVICE_ORDER; a device is its index there ---- */

struct core_device {
    uint8_t uuid[16];
    const char *name, *pci_bus_id;
    uint64_t total_memory;
    int priority_least, priority_greatest;
};
CORE_API int core_device_count(int *count);
CORE_API int core_driver_version(int *version);
CORE_API const struct core_device *core_device(int device);                /* NULL: no such device */
CORE_API int core_device_attribute(int device, int attribute, int *value); /* CUdevice_attribute; unknown: 1 */
/* What launches and copies are compared with. What the server does not say is unlimited. */
struct core_limits { uint32_t grid[3], block[3], threads, shared; size_t pitch; };
/* By device, NULL before the session begins; and the way there: a device that is not there can have nothing. */
extern CORE_API const struct core_limits *_Atomic core_known_limits;
CORE_API const struct core_limits *core_find_limits(int device) __attribute__((cold, noinline));
/* The device, if the session has begun, is one of its devices. */
static inline const struct core_limits *core_limits_of(int device)
{
    /* acquire: who sees the rows sees what is in them */
    const struct core_limits *all = atomic_load_explicit(&core_known_limits, memory_order_acquire);
    return __builtin_expect(all != NULL, 1) ? &all[device] : core_find_limits(device);
}
/* [domain]:[bus]:[device].[function], [domain]:[bus]:[device] or [bus]:[device].[function]. 1: not such a text; 101:
 * none. */
CORE_API int core_device_by_pci_bus_id(const char *text, int *device);

/* ---- what the programs of this tenant use (usage.c): asked of the server, waits ---- */

enum { CORE_USAGE_DEVICES = 64 };
struct core_usage {
    unsigned pid;                                   /* on the machine where it runs */
    unsigned busy;                                  /* per cent of the last two seconds */
    char     executable[256];
    uint64_t bytes[CORE_USAGE_DEVICES];             /* of each device of the server, in the order of core_device
                                                       without $CUDA_VISIBLE_DEVICES */
};
/* A program with several GPU servers has a row for each. limit: bytes of device memory that they may have together; 0:
   none. *programs is freed by the caller. 801: the server
   keeps no books, or is of an earlier version. */
CORE_API int core_usage(struct core_usage **programs, unsigned *count, uint64_t *limit);

/* ---- contexts (context.c, context_work.c, context_life.c) ------------------------------------------------------
 * What the driver API calls a context: streams, events, modules and memory belong to one. A device has one primary
 * context, which exists while somebody retains it, and any number of others. Stacks of current contexts belong to the
 * front ends.
 *
 * A context's structure is never freed, so a stale pointer is safe to use: the call gives 709
 * (CUDA_ERROR_CONTEXT_IS_DESTROYED). Only core_context_check finds out a pointer that a program made up: front ends
 * call it where a program hands one in. A structure may become another context's later, as an address of malloc's may.
 */
typedef struct core_context core_context;

/* The device's primary context, whether it exists or not. NULL: there is no such device, or no server. */
CORE_API core_context *core_context_primary(int device);
/* 0; 201: no context was ever there; 709: it was destroyed, or is a primary context that nobody retains. */
CORE_API int core_context_check(const core_context *);
CORE_API bool core_context_active(const core_context *);                    /* it exists */
/* What each call of a front end begins with: 0 when the context can be used, or the code to return. Costs a few
   loads. */
CORE_API int core_context_enter(const core_context *);
/* A primary context gets one more owner; the first one makes it (waits). NULL, or not a primary one: 201. */
CORE_API int core_context_retain(core_context *);
/* One owner less. The last one ends the context as core_context_reset does. 201: it has no owner. */
CORE_API int core_context_release(core_context *);
/* What the Driver API calls the thread's current context, or NULL. The front ends set it; the core does not look. It
   may have ended. */
extern CORE_API _Thread_local core_context *core_current __attribute__((tls_model("initial-exec")));
/* Ends a primary context, whoever retains it: its streams, events and memory are gone (modules come back by
   themselves at their next use). Its owners stay owners, as CUDA says, and release it later.
   Clears 710, never the errors that stay. Waits. */
CORE_API int core_context_reset(core_context *);
/* A further context of the device. flags: as cuCtxCreate takes them. Waits. */
CORE_API int core_context_create(int device, unsigned flags, core_context **);
/* Kernels of the context may touch the peer's device memory, or may not any more. 217: the devices cannot; 704, 705:
   it is so already. Waits. */
CORE_API int core_peer_enable(core_context *, core_context *peer);
CORE_API int core_peer_disable(core_context *, core_context *peer);
/* Ends a context of core_context_create, with all that belongs to it. A primary one: 201. Waits. */
CORE_API int core_context_destroy(core_context *);
/* id: no other context of the process has it, or had it. */
struct core_context_info { int device; unsigned flags; bool primary, active; unsigned owners; uint64_t id; };
/* 201: NULL. */
CORE_API int core_context_info(core_context *, struct core_context_info *);
/* Of a primary context, also while it does not exist, or of any other one. */
CORE_API int core_context_set_flags(core_context *, unsigned flags);
CORE_API int core_context_synchronize(core_context *);                      /* waits */
CORE_API int core_limit_set(core_context *, int limit, size_t value);       /* CUlimit; waits */

#endif
