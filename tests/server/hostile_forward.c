/* hostile_forward.c: the calls that the server only hands on, as cpu/api describes them. See hostile.h. */
#include "tests/server/hostile.h"

/* Functions for each call, and forwarded_call, which makes one of them. */
#include "api/forward/hostile.inc"

void hostile_forward(struct peer *peer) { forwarded_call(peer); }
