/*
 * fake_state.h: what the files of the core without a server share: fake_core.c (devices and contexts), fake_memory.c
 * (memory, pools, copies), fake_streams.c (streams, events, host functions) and fake_code.c (images, launches).
 */
#ifndef FLYT_TESTS_FAKE_STATE_H
#define FLYT_TESTS_FAKE_STATE_H

#include "tests/runtime/fake_core.h"

struct core_context { int device; bool active; unsigned flags; };

extern struct fake_core fake;

/* What the call returns: the test's error once, for the next call that asks. */
int fake_answer(const char *call);
/* The same of a call that gives work to a stream. */
int fake_note(const char *call, core_stream stream, bool blocking);

void fake_memory_open(void);
void fake_memory_reset(void);
void fake_streams_reset(void);
void fake_code_reset(void);

#endif
