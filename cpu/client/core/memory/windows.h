/* windows.h: which memory is in windows of communicators (FLYT_CAP_ONE_SIDED). Any thread; no lock is held. */
#ifndef FLYT_CLIENT_WINDOWS_H
#define FLYT_CLIENT_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/client/core/api_session.h"

struct client_session;

/* Communicators have the numbers of the protocol here. The server has this window. False: there is no memory. */
bool windows_note(struct client_session *, uint32_t comm, uint32_t number, uint64_t address, uint64_t size);
/* It is removed, or its communicator is closed (number 0: all of it). */
void windows_forget(const struct client_session *, uint32_t comm, uint32_t number);
/* CORE_NOT_READY: bytes are coming; to be tried again. */
int window_remove(struct client_session *, uint32_t comm, uint32_t number);
/* Before memory is freed: behind it no rank puts into a window there. Waits for bytes that come. */
void windows_end_in(uint64_t address, uint64_t size);
/* Ends windows in memory that ends with the context: memory of pools, which a communicator of another context may
   have. */
void windows_end_with(const core_context *);

#endif
