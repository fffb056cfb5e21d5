/* program.c: what both ends know of FLYT_PROGRAM. The table comes from cpu_rpc_prot.x, by classes.awk. */
#include "cpu/rpc/rpc.h"

#include "cpu/rpc/cpu_rpc_classes.h"
#include "cpu/rpc/cpu_rpc_prot.h"

/* The longest messages carry printed text or a megabyte of data, with their heads; a function's parameters and the
   names of a module's symbols stay far below. A peer can make the other end take so much memory, and no more. */
enum { MAX_RECORD = 16 * 1024 * 1024 };

#define ENTRY(number, NAME, name, class, arguments, result) [number] = { #NAME, RPC_CLASS_##class },
static const struct rpc_procedure procedures[] = {
    [NULLPROC] = { "NULL", RPC_CLASS_SYNC },
    FLYT_PROCEDURES(ENTRY)
};

const struct rpc_program rpc_flyt_program = {
    .program = FLYT_PROGRAM, .version = FLYT_VERSION_1,
    .count = sizeof procedures / sizeof procedures[0], .procedures = procedures,
    .max_record = MAX_RECORD,
};
