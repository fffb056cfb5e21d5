/* lanes.h: large copies over connections of their own; see lanes.c. */
#ifndef FLYT_CLIENT_CORE_LANES_H
#define FLYT_CLIENT_CORE_LANES_H

#include "cpu/client/core/wire/span.h"
#include "cpu/client/core/stream/stream.h"

void lanes_setup(void);                       /* at attach, after HELLO */
bool lanes_leave(void);                       /* the session moves: closes them. False: one is in use */
void lanes_offered(void);                     /* the server, another one perhaps, offers lanes or not: as HELLO said */
void lanes_lost(void);                        /* the session is: nobody waits on a lane any more */
void lanes_look(void);                        /* finds a lane whose connection has failed, in the helper's turn */
void lanes_abandon(void);                     /* in the child of a fork */
/* Is a copy of so many bytes to go over lanes? stands: it may stand still on its way, behind a kernel, say, or nobody
   waits for it: then also where the connection is fast. Opens them the first time. May wait. */
bool lanes_wanted(size_t size, bool stands);
/* So many bytes of a copy that could have used lanes went with its calls, and took so long on their way. */
void lanes_pace(uint64_t bytes, uint64_t ns);

struct lanes_statistics { unsigned open; uint64_t sent, received; };
void lanes_statistics(struct lanes_statistics *);

/* ---- to the device ---- */

/* What to do where there is no credit because the stream does not get on: leave the rest at once, after a moment, or
   wait for the stream, as a synchronous copy does anyway. (Where other streams have all credit, only a moment is
   waited.) */
enum lanes_wait { LANES_WAIT_NEVER, LANES_WAIT_A_MOMENT, LANES_WAIT };

/* Sends what is left of a copy, in parts, each followed by its call. What cannot be sent stays in *left. */
int lanes_send(struct client_stream *, struct copy_cut *left, enum lanes_wait);

/* ---- from the device ---- */

/* Bytes that will come over a lane. */
struct lane_out {
    flyt_via         via;                     /* lane 0: no lane, and nothing below is to be called */
    struct host_rows to;
    size_t           left;
    struct lane_out *next, *next_deferred;
    void           (*arrived)(struct lane_out *, int code);
};

/* Before the call is sent; what it gives goes into the call. deferred: no thread will wait for it
   (lane_out_deferred). */
flyt_via lane_out_begin(struct lane_out *, const struct host_rows *to, bool deferred);
/* Then, when the reply has come, one of these. The bytes come: waits for them. 0, or the connection is lost. */
int  lane_out_wait(struct lane_out *);
/* They come: `arrived` will be called, in a thread that may wait. */
void lane_out_deferred(struct lane_out *, void (*arrived)(struct lane_out *, int code));
/* They do not: no byte is written any more when it returns. */
void lane_out_cancel(struct lane_out *);

void lanes_copied_out(uint64_t bytes, uint64_t ns);        /* over lanes, to learn how many are good */

#endif
