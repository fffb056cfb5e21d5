/*
 * handle.h: what one end of a link must know of the other end's channel: 128 bytes, which contain a key. Whoever has
 * them can take the place of this channel's peer.
 *
 *   0 magic (4)  4 version (1)  5 flags (1)  6 channel (1)  7 channels, with channel 0 (1)  8 link (8)  16 engine (8)
 *   24 family (1), 0 (1), port (2, little-endian; 0 with family 2), 0 (4)  32 address (16)  48 key (32)
 *   80 fingerprint (32)  112 place (16)
 */
#ifndef FLYT_COMM_LINK_HANDLE_H
#define FLYT_COMM_LINK_HANDLE_H

#include "cpu/comm/link/link.h"

enum { COMM_ID_SIZE = 8, COMM_PLACE_SIZE = 16, COMM_FINGERPRINT_SIZE = 32 };
enum { HANDLE_TLS = 1, HANDLE_SHARED = 2, HANDLE_UCX = 4 };

struct comm_handle {
    uint8_t             flags, channel, channels;
    uint8_t             link[COMM_ID_SIZE], engine[COMM_ID_SIZE];
    struct comm_address address;
    uint8_t             key[COMM_KEY_SIZE];
    uint8_t             fingerprint[COMM_FINGERPRINT_SIZE];
    uint8_t             place[COMM_PLACE_SIZE];         /* equal: the same kernel and network namespace */
};

void comm_handle_put(uint8_t bytes[COMM_HANDLE_SIZE], const struct comm_handle *);
bool comm_handle_get(const uint8_t bytes[COMM_HANDLE_SIZE], struct comm_handle *);
/* Of this process. Zero: not known. */
void comm_handle_place(uint8_t place[COMM_PLACE_SIZE]);

#endif
