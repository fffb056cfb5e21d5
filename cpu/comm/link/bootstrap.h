/*
 * bootstrap.h: exchanging handles over one connection, for processes that are started by hand and have no store. The
 * process for GPU g listens on port FLYT_BOOTSTRAP_PORT_BASE + g (20000 unless it is set). The connection carries the
 * handles of all its links, and is closed then. Nothing is encrypted: handles contain keys, so use it where you would
 * run the processes themselves without protection.
 */
#ifndef FLYT_COMM_LINK_BOOTSTRAP_H
#define FLYT_COMM_LINK_BOOTSTRAP_H

#include "cpu/comm/link/link.h"

enum { COMM_BOOTSTRAP_MOST = 16 * 1024 * 1024 };

/* A connected socket, the caller's, or -errno. Accept waits for one; call tries again while nobody listens. */
int comm_bootstrap_accept(unsigned gpu, uint64_t deadline, char *error);
int comm_bootstrap_call(const char *host, unsigned gpu, uint64_t deadline, char *error);
/* Both ends call it: sends `mine`, receives at most `room` bytes. 0; -EPROTO: the peer says something else, or more. */
int comm_bootstrap_exchange(int fd, const void *mine, size_t size, void *theirs, size_t room, size_t *got,
                            uint64_t deadline, char *error);

#endif
