/*
 * host.h: host memory that this process, the worker and the device share: the host window behind the window of device
 * addresses (cpu_rpc_prot.x says what it is). Over a network nothing is shared; there the window is mirrored, and its
 * memory is this process's alone (mirror.h).
 */
#ifndef FLYT_CLIENT_CORE_HOST_H
#define FLYT_CLIENT_CORE_HOST_H

#include "cpu/client/core/api_session.h"

/* ---- host_space.c: which parts of the window are in use ---- */

/* At attach. The addresses are reserved; what is used of them is mapped from the file at `offset`, or, where the
   server is in this process (fd -1), is memory of its own. */
void host_space_open(uint64_t base, uint64_t size, int fd, uint64_t offset);
/* At attach: no memory is shared, but the server mirrors what lies in the window. */
void host_space_open_mirrored(uint64_t base, uint64_t size);
bool host_space_any(void);                                  /* there is memory that both sides share */
bool host_space_holds(uint64_t address);                    /* lies in the window, mirrored or shared */
/* Page-locked memory, in whole pages, known to the device, or mirrored; 0: none. May wait. */
uint64_t host_space_take(size_t size);
void host_space_give(uint64_t address);                     /* nothing uses it any more. May wait */

/* ---- host_memory.c ---- */

/* Where the device finds pinned memory of the program; 0: nowhere, it must be copied. */
uint64_t host_shared(uint64_t address, size_t size);

/* ---- chunks.c: pieces of the window through which the bytes of ordinary memory pass ---- */

enum { CHUNK_SIZE = 512 * 1024 };

struct chunk {
    uint64_t          address;        /* CHUNK_SIZE bytes of it */
    _Atomic uint32_t *mark;           /* copy_args.mark: not 0 once the device has done with a chunk that was sent */
    core_context     *context;
    enum { CHUNK_SPARE, CHUNK_HELD, CHUNK_SENT } state;
};

bool chunks_serve(size_t size);                             /* worth a chunk, and there are some */
/* One chunk, or NULL. So many bytes are to be moved, in it the first of them. may_wait: a moment is waited for
   one, unless that was in vain just now. */
struct chunk *chunk_take(size_t size, bool may_wait);
/* before the call that names its mark: it comes back by itself */
void chunk_send(struct chunk *, core_context *);
void chunk_give(struct chunk *);                            /* nothing uses it */
void chunks_forget_context(core_context *);                 /* after its end */

#endif
