/*
 * moved_program.h: what programs of libcuda.so.1 share that move between two servers (two_servers.h). Each test runs in
 * a process of its own (isolated.h).
 */
#ifndef TESTS_CORE_MOVED_PROGRAM_H
#define TESTS_CORE_MOVED_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "api/driver/types.h"
#define GATE_PROTOTYPES
#include "api/driver/gate_calls.inc"
#include "cpu/client/core/core.h"
#include "isolated.h"
#include "two_servers.h"

/* Ends the process when a call fails. */
#define OK(call) moved_ok((call), #call, __FILE__, __LINE__)
static inline void moved_ok(int code, const char *call, const char *file, int line)
{
    if (code) {
        fprintf(stderr, "%s:%d: %s gives %d\n", file, line, call, code);
        _exit(1);
    }
}

/* The primary context of the first device becomes current. */
static inline CUcontext moved_begin(void)
{
    CUdevice device;
    CUcontext context;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    return context;
}

static char why[512]; /* the reason of the last move that failed */

static inline int moved_try(int number, unsigned limit_ms)
{
    two_servers_bridge(number);
    return core_move(server_uris[number], limit_ms, why, sizeof why);
}

/* suspends: the session is suspended, and resumed at that server, in place of a move. */
static inline void moved_to(int number, bool suspends, unsigned limit_ms)
{
    int code = suspends ? core_suspend(limit_ms, why, sizeof why) : moved_try(number, limit_ms);
    if (!code && suspends)
        code = core_resume(server_uris[number], why, sizeof why);
    if (code)
        fprintf(stderr, "not moved: %d: %s\n", code, why);
    CHECK(code == 0);
}

#endif
