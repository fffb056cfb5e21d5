/*
 * ticket.h: who may use this server. A server of a cluster (--ticket-key) serves only clients that have a ticket which
 * the cluster manager signed for it. The listener looks at the pass, a worker at the whole ticket in HELLO; see
 * ticket.c.
 */
#ifndef FLYT_SERVER_TICKET_H
#define FLYT_SERVER_TICKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { TICKET_REFUSAL_SIZE = 256, TICKET_PASS_SIZE = 16 };

/* Of the command line; passed to the workers through the environment. keys: file of public keys, a line of 64
   hexadecimal digits each, read for every client; state: folder for what has to be remembered; server: its number. -1:
   no memory. */
int ticket_configure(const char *keys, const char *state, const char *server);
bool ticket_wanted(void);

/* In the listener. 0: whoever shows this pass may have a worker, and *pass names it, *program its program; or tickets
   are not asked for. Else -1, and *refusal says why. */
int ticket_check_pass(const void *bytes, size_t size, uint8_t pass[TICKET_PASS_SIZE], uint64_t *program,
                      char *refusal);

/* In the listener: a worker has ended. When it did is left to the node manager. */
void ticket_ended(pid_t worker);

/* In a worker: only the ticket of this pass is accepted from now on. */
void ticket_expect(const uint8_t pass[TICKET_PASS_SIZE]);
/* 0: welcome, or tickets are not asked for. Else -1, and *refusal says why. */
int ticket_check(const void *bytes, size_t size, char *refusal);

#endif
