/* spawn.h: makes the processes that serve a connection each, and hands connections to them; see spawn.c. */
#ifndef FLYT_SERVER_SPAWN_H
#define FLYT_SERVER_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "cpu/server/listener/identity.h"
#include "cpu/server/code/image_cache.h"
#include "cpu/server/listener/listener.h"

/* Starts a worker; *socket is our end of the pair. usher: one without a GPU, that refuses the one connection which it
   is given. -1: it has been said why. */
pid_t spawn_worker(const struct listener_options *, const struct image_cache *, bool usher, int *socket);

/* Gives a connection to the process at the other end of `socket`; fd stays ours. tls: with the identity. knock: what
   its client has shown, NULL: nothing. 0 or -errno. */
struct knock;
int spawn_hand_over(int socket, int fd, bool tls, const struct identity *, const struct knock *);

#endif
