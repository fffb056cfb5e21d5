/*
 * comm_store: a fuzz target for what a client says to the server of a store (cpu/comm/store/peer.c). The first byte
 * says whether the client has proved itself already, the second how large the pieces are in which its bytes come. After
 * each piece what the server keeps is within its bounds.
 */
#include "cpu/comm/store/peer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const uint8_t key[COMM_KEY_SIZE] = { 1, 2, 3 };
    static struct comm_values values;
    struct store_peer peer;
    uint64_t now = 0;
    bool changed = false;
    if (size < 2)
        return 0;
    size_t piece = bytes[1] ? bytes[1] : 256;
    store_peer_begin(&peer);
    if (bytes[0] & 1) {
        peer.state = STORE_PEER_HEAD;
        peer.wanted = STORE_REQUEST_SIZE;
    }
    for (size_t at = 2; at < size;) {
        size_t part = size - at < piece ? size - at : piece;
        ssize_t taken = store_peer_feed(&peer, &values, key, now, bytes + at, part, &changed);
        if (taken < 0)
            break;
        at += (size_t)taken;
        if (peer.out && peer.out_size > STORE_REPLY_SIZE + (size_t)COMM_STORE_VALUE_MOST)
            abort();
        if (peer.state != STORE_PEER_BODY && peer.body)
            abort();
        free(peer.out);                         /* sent */
        peer.out = NULL;
        now += UINT64_C(1000000000);
        if (taken == 0 && store_peer_look(&peer, &values, now) < 0)
            break;
        if (taken == 0 && peer.state == STORE_PEER_WAITING)
            now = peer.until;
    }
    if (values.count > COMM_STORE_KEYS_MOST || values.bytes > COMM_STORE_BYTES_MOST)
        abort();
    if (bytes[0] & 1 && !store_peer_known(&peer))
        abort();
    store_peer_end(&peer);
    comm_values_clear(&values);
    return 0;
}
