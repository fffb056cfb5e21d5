/* attach_window.h: a window of addresses that the client chooses, where it can have none of those that the server
   offers: in a program with a limit on its addresses, or built with ThreadSanitizer, or that has something there. */
#ifndef FLYT_CLIENT_CORE_ATTACH_WINDOW_H
#define FLYT_CLIENT_CORE_ATTACH_WINDOW_H

#include <stdint.h>

/* Reserves [at, at + size). 0, or errno. */
int attach_window_reserve(uint64_t at, uint64_t size);

/* Another window than `refused`, reserved here and there: its address, *size, and the most bytes of host memory behind
   it that the server has room for. 0: there is none. No context may have been made. */
uint64_t attach_window_own(uint64_t refused, uint64_t *size, uint64_t *host_size);

#endif
