/*
 * relay.h: messages between the workers of one server. Only the listener has a socket to each of them, so it passes
 * them on: it looks at whom a message is for, and puts there whom it is from: process ids of workers. A worker that
 * does not know whom to ask names by -N the one of the others that has the least process id from N on. Worker and
 * listener use the same functions.
 */
#ifndef FLYT_SERVER_RELAY_H
#define FLYT_SERVER_RELAY_H

#include <stddef.h>

#include "cpu/server/listener/listener.h"
#include "cpu/server/memory/share.h"

/* One message of a socket with what it carries. */
struct relay_message {
    struct worker_relay relay;
    int fds[SHARE_AT_ONCE];
    unsigned count;
};

/* Sends the first `size` bytes of what `relay` has, and the descriptors, which stay the caller's. Does not wait. 0 or
   -errno. */
int relay_send(int socket, const struct relay_message *);
/* Closes the descriptors. */
void relay_drop(struct relay_message *);
/* Takes the descriptors out of a message that was received; they are the caller's. Those beyond `most` are closed. */
struct msghdr;
unsigned relay_descriptors(struct msghdr *, int *fds, unsigned most);
enum { RELAY_CONTROL = 1024 };            /* bytes of ancillary data, enough for SHARE_AT_ONCE descriptors */

/* ---- the worker's part (relay_worker.c) ---- */

/* From now on messages for this session are answered; the caller gives each that comes to relay_hear. */
void relay_open(struct session *);
void relay_hear(struct relay_message *);  /* takes the descriptors over */
share_ask_function relay_ask;

#endif
