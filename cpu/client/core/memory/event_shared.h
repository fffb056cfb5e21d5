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

/* What events need of cells. event_shared.c fills it in when the session begins, so that events, on which copies
   depend, do not depend on copies. */
struct cell_actions {
    /* A new one, and its name for other processes (CORE_IPC_SIZE bytes). Waits. */
    int (*make)(core_context *, struct cell *, void *handle);
    void (*name)(const struct cell *, void *handle);
    /* The cell that a name means, for events of the context. 1: it is no such name; 201: it is of this process.
       Waits. */
    int (*open)(core_context *, const void *handle, struct cell *);
    struct cell (*hold)(const struct cell *);               /* to be closed, too */
    void (*close)(struct cell *);
    /* Records the cell's event in the stream. Waits until others can see that it was. */
    int (*record)(const struct cell *, core_stream);
    /* The stream waits for what was recorded last. Waits for the server. */
    int (*wait)(const struct cell *, core_context *, core_stream);
    int (*query)(const struct cell *);                      /* 0 or 600. Waits for the server */
    int (*synchronize)(const struct cell *);
    void (*forget_context)(core_context *);
};
extern const struct cell_actions *cells;                    /* event.c */
int cells_open(void);                                       /* at attach */

#endif
