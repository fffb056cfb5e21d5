/* mirrored.h: pinned memory over a network: what the files mirror.c, mirror_wanted.c and mirror_room.c share. */
#ifndef FLYT_CLIENT_MANAGED_MIRRORED_H
#define FLYT_CLIENT_MANAGED_MIRRORED_H

#include "cpu/client/core/stream/mirror.h"

/* ---- mirror.c: these are members of struct mirror_room, where they are explained ---- */

void mirror_begin(uint64_t base, uint64_t size);
int  mirror_add(uint64_t address, uint64_t size);
void mirror_remove(uint64_t address);
bool mirror_has(uint64_t address);
uint64_t mirror_bring_all(struct client_session *, uint64_t address);
uint64_t mirror_alias(uint64_t address, uint64_t base, uint64_t size);
void mirror_alias_end(uint64_t base);
uint64_t mirror_behind(uint64_t address);
void mirror_asked(uint64_t address);
void mirror_fault(void);
void mirror_note(const void *parameters, size_t size);
int  mirror_before_work(struct client_stream *);
int  mirror_fetch(void);
void mirror_function_ended(void);
bool mirror_used_by_work(const struct host_rows *);
int  mirror_fence(struct client_stream *);
bool mirror_forget(uint64_t address, uint64_t size);
int  mirror_save(struct move *);
int  mirror_fits(struct move *);

/* The part of the area in which the address lies goes to that server. A code; 1: it lies in no area. */
int  mirror_bring(struct client_session *, uint64_t address);
/* The area around the address, as the program sees it. False: there is none. */
bool mirror_area(uint64_t address, uint64_t *base, uint64_t *size);
bool mirror_inside(uint64_t address);                       /* an address of the window */
bool mirror_in_kernels(void);                               /* kernels use some of it, as far as is known */
/* A kernel may wait for a word that the program writes, and the program for one that a kernel writes: what either side
   has changed goes to the other one. False: no work that may look is under way. *news: something has changed. */
bool mirror_refresh(bool *news);

/* ---- mirror_wanted.c ---- */

int  mirror_listen(void);                                   /* starts the thread that answers. A code */
void mirror_watch(void);                                    /* work begins: the thread refreshes now and then */
void mirror_wanted(struct client_session *, const flyt_host_wanted *);

#endif
