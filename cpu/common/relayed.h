/*
 * relayed.h: an order of two threads that passes through another process.
 *
 * A thread writes to memory that is shared, and sends; the other process answers; another thread receives the answer,
 * and reads the memory. ThreadSanitizer sees the order where connections are sockets. Over rings in shared memory it
 * does not, because the other process's half is not in its sight, so both ends are named to it. In other builds the
 * two functions do nothing.
 */
#ifndef FLYT_COMMON_RELAYED_H
#define FLYT_COMMON_RELAYED_H

#ifdef __SANITIZE_THREAD__
/* Before the other process can see what is sent, and after something of it was seen. For all connections together. */
void relayed_sent(void);
void relayed_received(void);
#else
static inline void relayed_sent(void) { }
static inline void relayed_received(void) { }
#endif

#endif
