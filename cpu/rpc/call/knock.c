/* knock.c: see knock.h. */
#include "cpu/rpc/call/knock.h"

#include <string.h>

enum { MAGIC = 8 };
static const char magic[MAGIC] = { 'F', 'l', 'y', 't', 'P', 'a', 's', 's' };

size_t rpc_knock_put(uint8_t out[RPC_KNOCK_MOST], const void *ticket, size_t size)
{
    if (size <= RPC_KNOCK_SECRET || size - RPC_KNOCK_SECRET > RPC_KNOCK_PASS_MOST)
        return 0;
    size_t pass = size - RPC_KNOCK_SECRET;
    memcpy(out, magic, MAGIC);
    out[MAGIC] = (uint8_t)(pass >> 8);
    out[MAGIC + 1] = (uint8_t)pass;
    memcpy(out + RPC_KNOCK_HEAD, ticket, pass);
    return RPC_KNOCK_HEAD + pass;
}

bool rpc_knock_begins(const uint8_t *bytes, size_t count)
{
    return memcmp(bytes, magic, count < MAGIC ? count : MAGIC) == 0;
}

size_t rpc_knock_size(const uint8_t head[RPC_KNOCK_HEAD])
{
    size_t pass = (size_t)head[MAGIC] << 8 | head[MAGIC + 1];
    return pass && pass <= RPC_KNOCK_PASS_MOST ? RPC_KNOCK_HEAD + pass : 0;
}
