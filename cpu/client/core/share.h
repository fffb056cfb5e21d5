/*
 * share.h: what one program gives another to name memory by: a sealed file with 32 bytes of the server in it (share.c).
 */
#ifndef FLYT_CLIENT_CORE_SHARE_H
#define FLYT_CLIENT_CORE_SHARE_H

#include "core.h"

/* What the file names. */
enum share_note { SHARE_NOTE_HANDLE = 1, SHARE_NOTE_POOL = 2 };

/* *fd is the caller's. A code. */
int share_note_make(const char *share, enum share_note, int *fd);
/* fd may be any descriptor of the program, or none: 1. */
int share_note_read(int fd, enum share_note, char *share);

/* The allocation, which the program has just freed, is not named any more. */
void share_freed(uint64_t base);
void share_forget_context(core_context *);
/* How much the program has exported and imported. */
uint64_t share_count(void);
/* From the first export or import on, another process may read what a copy of this one has written. So a copy that has
   returned must have ended: share_begin waits for those that have not, and none returns early any more. */
void share_begin(void);
bool share_any(void);
uint64_t handle_shares(void);                     /* handle.c: the part that handles have */

#endif
