/* exchange.h: what the lanes of a warp do together (op_warp.c): `kind` of an insn of EXEC_STRAIGHT_EXCHANGE. */
#ifndef SOFTGPU_EXEC_EXCHANGE_H
#define SOFTGPU_EXEC_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

enum exec_exchange {
    EXEC_SHFL_UP, EXEC_SHFL_DOWN, EXEC_SHFL_BFLY, EXEC_SHFL_IDX,
    EXEC_VOTE_ALL, EXEC_VOTE_ANY, EXEC_VOTE_UNI, EXEC_VOTE_BALLOT,
    EXEC_MATCH_ANY, EXEC_MATCH_ALL,
    EXEC_REDUX_ADD, EXEC_REDUX_MIN, EXEC_REDUX_MAX, EXEC_REDUX_AND, EXEC_REDUX_OR, EXEC_REDUX_XOR,
    EXEC_ELECT, EXEC_WARP_SYNC, EXEC_CONVERGE, EXEC_ACTIVEMASK
};

static inline bool exec_exchange_gives_row(uint8_t kind)
{
    return !(kind >= EXEC_VOTE_ALL && kind <= EXEC_VOTE_UNI) && kind != EXEC_WARP_SYNC && kind != EXEC_CONVERGE;
}

#endif
