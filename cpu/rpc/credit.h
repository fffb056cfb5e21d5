/*
 * credit.h: how much memory a context has mapped ahead of need. The client cuts the program's allocations out of such
 * credit; it asks for it with MAP, and the server maps the first with HELLO (hello_args.wish). Both go by these rules.
 * Sizes are bytes; granularity is a power of two.
 */
#ifndef FLYT_RPC_CREDIT_H
#define FLYT_RPC_CREDIT_H

#include <stdint.h>

enum { CREDIT_PIECES_OF_DEVICE = 1024, CREDIT_AHEAD_PART = 16 };
#define CREDIT_PIECE_MOST (UINT64_C(64) << 20)

/* A piece, the unit in which credit comes and goes, is a thousandth of the device or less, within reason: so much may
   stay unusable for other programs beside a small allocation. Powers of two. */
static inline uint64_t credit_piece(uint64_t granularity, uint64_t device_memory)
{
    uint64_t piece = granularity;
    while (piece < CREDIT_PIECE_MOST && piece * 2 <= device_memory / CREDIT_PIECES_OF_DEVICE)
        piece *= 2;
    return piece;
}

/* How much may be mapped and unused for long, of `wanted` bytes: little where the device is small. */
static inline uint64_t credit_ahead(uint64_t wanted, uint64_t device_memory)
{
    uint64_t most = device_memory / CREDIT_AHEAD_PART;
    return wanted < most ? wanted : most;
}

#endif
