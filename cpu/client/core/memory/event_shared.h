/*
 * event_shared.h: events of several processes (event_shared.c). An event has a cell once another process may know it,
 * and then the cell says what was recorded.
 */
#ifndef FLYT_CLIENT_CORE_EVENT_SHARED_H
#define FLYT_CLIENT_CORE_EVENT_SHARED_H

#include "cpu/client/core/api_stream.h"

struct cell_arena;
/* Where an event's cell is. arena NULL: it has none. */
struct cell { struct cell_arena *arena; uint32_t index; };

/* A new one, and its name for other processes (CORE_IPC_SIZE bytes). Waits. */
int cell_make(core_context *, struct cell *, void *handle);
void cell_name(const struct cell *, void *handle);
/* The cell that a name means, for events of the context. 1: it is no such name; 201: it is of this process. Waits. */
int cell_open(core_context *, const void *handle, struct cell *);
struct cell cell_hold(const struct cell *);                 /* to be closed, too */
void cell_close(struct cell *);
/* Records the cell's event in the stream. Waits until others can see that it was. */
int cell_record(const struct cell *, core_stream);
/* The stream waits for what was recorded last. Waits for the server. */
int cell_wait(const struct cell *, core_context *, core_stream);
int cell_query(const struct cell *);                        /* 0 or 600. Waits for the server */
int cell_synchronize(const struct cell *);
void cells_forget_context(core_context *);
/* The thread that looks after records of other processes calls no server until it ends. The gate is shut. */
void cells_rest(bool rest);

#endif
