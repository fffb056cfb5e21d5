/* library.h: what the files of libflyt-comm share. */
#ifndef FLYT_CLIENT_COMM_LIBRARY_H
#define FLYT_CLIENT_COMM_LIBRARY_H

#define FLYT_COMM_API __attribute__((visibility("default")))
#include "cpu/client/comm/flyt_comm.h"

#include "cpu/comm/comm.h"
#include "cpu/rpc/rpc.h"

struct flyt_context {
    struct comm_engine *engine;
    struct comm_context *context;
};

/* Of flyt_comm_error(). */
extern __thread char library_error[RPC_ERROR_SIZE];

#endif
