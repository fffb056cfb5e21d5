/*
 * share.h: what one program gives another to name memory by: a sealed file with 32 bytes of the server in it (share.c).
 */
#ifndef FLYT_CLIENT_CORE_SHARE_H
#define FLYT_CLIENT_CORE_SHARE_H

#include "cpu/client/core/api_memory.h"
#include "cpu/rpc/cpu_rpc_prot.h"

struct handle_chunk;

/* ---- share_note.c ---- */

/* What the file names. */
enum share_note { SHARE_NOTE_HANDLE = 1, SHARE_NOTE_POOL = 2 };

/* *fd is the program's. *watch (may be NULL) is the caller's: share_note_held says whether any process still has *fd or
   a copy of it. -1: that cannot be found out here. A code. */
int share_note_make(const char *share, enum share_note, int *fd, int *watch);
bool share_note_held(int watch);
/* fd may be any descriptor of the program, or none: 1. */
int share_note_read(int fd, enum share_note, char *share);

/* ---- share_export.c ---- */

/* What names an allocation for other processes: CORE_IPC_SIZE bytes. */
#define IPC_WORDS "Flyt: shared 1\n"
struct ipc_handle { char words[sizeof IPC_WORDS - 1], share[FLYT_SHARE_SIZE], unused[17]; };
_Static_assert(sizeof(struct ipc_handle) == CORE_IPC_SIZE, "as CUDA has it");

/* The allocation, which the program has just freed, is not named any more. */
void share_freed(uint64_t base);
uint64_t share_exports(void);
/* Each allocation that is exported. The program is at rest. */
struct share_range { uint64_t address, size; char share[FLYT_SHARE_SIZE]; };
void share_ranges_each(void (*visit)(const struct share_range *, void *context), void *context);
bool share_range_known(const char *share);
void share_exports_forget(core_context *);

/* ---- share.c ---- */

/* The chunk lies on another device than the context's: that device gets access to it, as lazily enabled peer access
   gives it natively. 217: it cannot. Waits. */
int share_reach(core_context *, struct handle_chunk *, int owner);
void share_forget_context(core_context *);
/* Whether this process exports that share, or has done so. */
bool share_is_own(const char *share);
/* The session is at another server: its number there says nothing about shares of before. */
void share_has_moved(void);
/* What the device may do with all that the context has imported: CUmemAccess_flags. A code. Waits. */
int share_peer_access(core_context *, int device, unsigned access);
/* How much the program has exported and imported. */
uint64_t share_count(void);
uint64_t handle_shares(void);                     /* handle.c: the part that handles have */
bool handle_share_known(const char *share);       /* it is of a handle that this process made */

#endif
