/*
 * ticket.h: who may use this server. A server of a cluster (--ticket-key) serves only clients whose HELLO carries a
 * ticket that the cluster manager signed for it; see ticket.c.
 */
#ifndef FLYT_SERVER_TICKET_H
#define FLYT_SERVER_TICKET_H

#include <stddef.h>

enum { TICKET_REFUSAL_SIZE = 256 };

/* Of the command line; told to the workers through the environment. keys: file of public keys, a line of 64 hexadecimal
   digits each, read at every HELLO; state: folder for what has to be remembered; server: its number. -1: no memory. */
int ticket_configure(const char *keys, const char *state, const char *server);

/* 0: welcome, or tickets are not asked for. Else -1, and *refusal says why. */
int ticket_check(const void *bytes, size_t size, char *refusal);

#endif
