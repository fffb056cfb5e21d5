/*
 * store_wire.h: what a client and a server of the tcp store say to each other, after the greeting (greet.h). Numbers
 * are little-endian. A client has one request under way at a time.
 *
 *     request   operation (1), 0 (1), bytes of the key (2), bytes of the value (4), milliseconds to wait (4), how
 *               often the value is got before it is forgotten (4; 0: it stays); the key, the value
 *     reply     error (4; 0: none), bytes of the value (4); the value
 */
#ifndef FLYT_COMM_STORE_WIRE_H
#define FLYT_COMM_STORE_WIRE_H

#include "cpu/comm/store/store.h"

enum store_operation { STORE_SET = 1, STORE_GET = 2, STORE_WAIT = 3 };
enum { STORE_REQUEST_SIZE = 16, STORE_REPLY_SIZE = 8 };
#define STORE_MAGIC "FlytStor"

#endif
