/* gate.h: what the core does at the gate of api_gate.h (gate.c). */
#ifndef FLYT_CLIENT_CORE_GATE_H
#define FLYT_CLIENT_CORE_GATE_H

#include "cpu/client/core/api_gate.h"

/* The calling thread is the core's own: it never waits at the gate. So may functions of the program that it runs. */
void gate_pass(void);
/* The calling thread waits for the stream from here on; 0: no more. Whoever waits for the thread can name it. */
void gate_note_stream(uint64_t stream);

/* What takes long before the gate can be shut for the first time: the program goes on meanwhile. */
void gate_prepare(void);

#endif
