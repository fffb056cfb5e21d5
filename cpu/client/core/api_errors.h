/*
 * api_errors.h: the codes that the core gives, and the log of errors. The other api_*.h include it.
 */
#ifndef FLYT_CLIENT_CORE_API_ERRORS_H
#define FLYT_CLIENT_CORE_API_ERRORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/client/core/exported_names.h"

/* A function that front ends call: exported, as flyt_ and its name. */
#define CORE_API __attribute__((visibility("default")))

/* The codes that the core itself gives; numbers as in cuda.h. */
enum core_result {
    CORE_OK = 0,
    CORE_INVALID_VALUE = 1,
    CORE_OUT_OF_MEMORY = 2,
    CORE_NOT_INITIALIZED = 3,
    CORE_DEINITIALIZED = 4,
    CORE_DEVICE_UNAVAILABLE = 46,
    CORE_NO_DEVICE = 100,
    CORE_INVALID_DEVICE = 101,
    CORE_INVALID_IMAGE = 200,
    CORE_INVALID_CONTEXT = 201,
    CORE_NO_BINARY_FOR_GPU = 209,
    CORE_PEER_ACCESS_UNSUPPORTED = 217,
    CORE_INVALID_PTX = 218,
    CORE_INVALID_SOURCE = 300,
    CORE_FILE_NOT_FOUND = 301,
    CORE_OPERATING_SYSTEM = 304,
    CORE_INVALID_HANDLE = 400,
    CORE_NOT_FOUND = 500,
    CORE_NOT_READY = 600,
    CORE_LAUNCH_OUT_OF_RESOURCES = 701,
    CORE_PEER_ACCESS_ALREADY_ENABLED = 704,
    CORE_PEER_ACCESS_NOT_ENABLED = 705,
    CORE_CONTEXT_DESTROYED = 709,
    CORE_HOST_ALREADY_REGISTERED = 712,
    CORE_HOST_NOT_REGISTERED = 713,
    CORE_NOT_SUPPORTED = 801,
    CORE_SYSTEM_NOT_READY = 802,
    CORE_UNKNOWN = 999
};

/* ---- the log of errors (error_log.c): what cuLogs… and cudaLogs… show ----------------------------------------------
 * All front ends share it. No connection is needed, and none is made. */

enum core_log_level { CORE_LOG_ERROR, CORE_LOG_WARNING };
/* Why a call is about to fail, for the program's author. One line, cut at 199 bytes. */
CORE_API void core_log(enum core_log_level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A call of the program's returns this code. Runs the program's callbacks, so the caller holds no lock. code_name may
   be NULL. */
CORE_API void core_log_failure(int code, const char *code_name, const char *function);

typedef void core_log_function(void *user, int level, char *message, size_t length);
/* 1: no function. handle may be NULL. */
CORE_API int core_log_register(core_log_function *, void *user, void **handle);
/* Waits for the callback where other threads are inside it. 1: no callback has the handle. */
CORE_API int core_log_unregister(void *handle);
/* The iterator of the next message. */
CORE_API uint32_t core_log_end(void);
/* Each writes the messages from *iterator on (iterator NULL: all), and moves *iterator to the end. 1: there was never
   such an iterator; the file cannot be written; or no message fits into the buffer, whose size *size says: then *size
   becomes 0, else the length of what was written before its NUL. */
CORE_API int core_log_dump_to_file(uint32_t *iterator, const char *path);
CORE_API int core_log_dump_to_memory(uint32_t *iterator, char *buffer, size_t *size);

/* One line on stderr, once per name, that something unsupported was asked for. */
CORE_API void core_unsupported(const char *name);

#endif
