/*
 * move_written.h: which of the session's device memory has been written, and when: the GPU server says it (WATCH), for
 * moves in rounds and for checkpoints of changes. A server that is asked says what was written since it was asked last,
 * whoever asked. So each question has a number, and of each granule it is kept which question found it written last.
 *
 * A new server, or one whose watch has ended, says at the next question that all memory was written.
 */
#ifndef FLYT_CLIENT_CORE_MOVE_WRITTEN_H
#define FLYT_CLIENT_CORE_MOVE_WRITTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/rpc/cpu_rpc_prot.h"

/* Whether the session's server can be asked. */
bool move_written_known(void);
/* Asks it. again: it goes on watching. *result is for xdr_free, after an error too. A result code. */
int  move_written_ask(bool again, watch_result *result);
/* Begins a checkpoint of the session, which is at rest: asks, and returns the question's number. 0: nothing will be
   known of what is written from now on. */
uint32_t move_written_begin(void);
/* Whether any of it may have been written since that question. True unless the server has said otherwise. Of device
   memory in the session's window. */
bool move_written_since(uint32_t question, uint64_t address, uint64_t size);
/* The number of the next question. */
uint32_t move_written_next(void);
/* The program gives memory to other programs, or uses theirs, whose writes the server does not see: from now on nothing
   is known for checkpoints. */
void move_written_by_others(void);

#endif
