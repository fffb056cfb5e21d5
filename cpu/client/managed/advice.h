/* advice.h: what the program has said about managed memory (advice.c). */
#ifndef FLYT_CLIENT_MANAGED_ADVICE_H
#define FLYT_CLIENT_MANAGED_ADVICE_H

#include <stdint.h>

/* Under spans_lock. */
void advice_forget(uint64_t address, uint64_t size);
/* Whether the page was last prefetched to the program. */
bool advice_wants_host(uint64_t address);

#endif
