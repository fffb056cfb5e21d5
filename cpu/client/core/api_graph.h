/*
 * api_graph.h: what the server keeps of graphs: sequences, conditions, graphs that kernels launch.
 */
#ifndef FLYT_CLIENT_CORE_API_GRAPH_H
#define FLYT_CLIENT_CORE_API_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/client/core/api_stream.h"

/* Grows whenever something that a sequence may name has ended or has become another thing: a module, a context, memory
   of the program's own. */
CORE_API uint64_t core_changes(void);

/* ---- sequences (sequence.c) --------------------------------------------------------------------------------------
 * What a graph gives its streams at each launch. The server keeps it, and one message gives it to the streams again.
 * The caller sees to it that one thread at a time uses a sequence. */
typedef struct core_sequence core_sequence;

enum { CORE_SEQUENCE_STREAMS = 32 };  /* beside the stream of the launch */

/* 801: the server keeps none, or FLYT_PERF=no_graph. */
CORE_API int core_sequence_create(core_sequence **);
CORE_API void core_sequence_destroy(core_sequence *);
/* From here up to core_sequence_end, what the caller gives these streams and *stand_in is kept, and not sent. No other
   thread may use the streams meanwhile. *stand_in stands for the stream of a launch, which is one of `context`. */
CORE_API int core_sequence_begin(core_sequence *, core_context *, const core_stream *streams, unsigned count,
                                 core_stream *stand_in);
/* Launches, conditions, stream memory operations, event records and waits, copies and sets that need nothing of this
   process can be kept. A function that was
   to give a stream anything else has returned 600, and this false; all that was kept since `mark` is forgotten. */
CORE_API uint32_t core_sequence_mark(const core_sequence *);
CORE_API bool core_sequence_kept(core_sequence *, uint32_t mark);
/* Ends a segment: what one launch gives the streams at once. false: it would be empty, and is none. */
CORE_API bool core_sequence_cut(core_sequence *);
/* Sends the server what it does not have yet; with `good` false forgets all that was kept since the begin. 2: the
   session's graphs have no more room; the sequence is empty then. */
CORE_API int core_sequence_end(core_sequence *, bool good);
/* segment: from 0, in the order of core_sequence_cut. */
CORE_API int core_sequence_launch(core_sequence *, core_context *, core_stream, unsigned segment);

/* ---- conditions (condition.c) --------------------------------------------------------------------------------------
 * Parts of a graph that the server runs, or runs again, as a word of device memory says when their turn in the stream
 * has come. The stream goes on when they are complete. One thread at a time uses a condition. */
typedef struct core_condition core_condition;

enum { CORE_CONDITION_DEPTH = 16 }; /* so many conditions inside each other at most, as the server allows */
/* Numbers as CUgraphConditionalNodeType. What each does with its bodies says cpu_rpc_prot.x. */
enum core_condition_kind { CORE_IF = 0, CORE_WHILE = 1, CORE_SWITCH = 2 };
enum { CORE_NO_CONDITION = -1 };

/* 0, or 801: the server, or its GPU, has none. */
CORE_API int core_condition_offered(void);
/* word: the address of 4 bytes. What the caller gives *stand_in from core_condition_body on becomes the next body:
   launches, conditions, copies and sets that need nothing of this process. *stand_in goes with the condition. */
CORE_API int core_condition_create(core_context *, uint64_t word, enum core_condition_kind, core_condition **,
                                   core_stream *stand_in);
CORE_API int core_condition_body(core_condition *);
/* Gives it to the stream. 801: a body was given something else; 2: the bodies have too many calls, or no memory. */
CORE_API int core_condition_submit(core_condition *, core_context *, core_stream);
CORE_API void core_condition_destroy(core_condition *);

/* ---- graphs that kernels launch (condition.c) ----------------------------------------------------------------------
 * `executable` is what the program, and its kernels, name an executable graph by; never 0. */

/* 0, or 801: the server, or its GPU, has none. */
CORE_API int core_device_graphs_offered(void);
/* From this place in the stream on, a kernel that launches the graph starts what the only body has; the condition's
   kind is CORE_NO_CONDITION. 801 and 2: as core_condition_submit. */
CORE_API int core_device_graph_set(core_condition *, core_context *, core_stream, uint64_t executable);
/* No kernel can launch it any more. */
CORE_API void core_device_graph_drop(uint64_t executable);
/* Behind all work of a launch: the stream waits for what its kernels have launched. */
CORE_API int core_graph_end(core_context *, core_stream, uint64_t executable);

#endif
