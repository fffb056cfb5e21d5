/* channel.c: the one function of the texture chapters that needs no texture. */
#include "cpu/client/runtime/runtime.h"

RUNTIME_API struct cudart_channel cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return (struct cudart_channel){x, y, z, w, kind}; }
