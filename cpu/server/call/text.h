/*
 * text.h: what the driver and its kernels print in a worker: stdout and stderr of the process.
 *
 * Both go into memory files opened for appending: unlike a pipe these never block the driver, whatever a kernel
 * prints between two synchronisations. What has been taken is given back to the system by punching it out.
 */
#ifndef FLYT_SERVER_TEXT_H
#define FLYT_SERVER_TEXT_H

#include "cpu/rpc/cpu_rpc_prot.h"

struct text;

/* Redirects fds 1 and 2 of this process; *log_fd becomes a copy of the old 2. NULL: it failed, nothing has changed. */
struct text *text_capture(int *log_fd);
/* Takes what has been printed so far into head->printed, up to the protocol's limits; the rest stays. */
void text_collect(struct text *, flyt_head *);
/* Frees what text_collect put there. */
void text_free(flyt_head *);

#endif
