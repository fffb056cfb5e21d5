/*
 * core.h: one process's connection to its GPU server, or to several, as the Runtime API (cpu/client/runtime/) and the
 * Driver API (cpu/client/driver/) use it.
 *
 * The core owns what a process has once, however many front ends live in it: the session, the order of its
 * calls, ids, the address map, the allocator, the registry of code images, and the sticky error. It has no
 * "current device" and no "last error": those belong to the front ends.
 *
 * Result codes are CUresult values (equal to cudaError_t where both have the code). Every function may also
 * return the session's sticky error, 3 (CUDA_ERROR_NOT_INITIALIZED) in the child of a fork, or what the
 * loss of the connection gives. All functions are thread-safe; a thread that is cancelled inside (pthread_cancel)
 * ends behind the call (cpu/common/cancel.h). A function that is said to wait costs one round trip; the others
 * cost no wait. Handles are tokens, checked before use: a freed, foreign or random one gives 400
 * (CUDA_ERROR_INVALID_HANDLE), never a crash.
 *
 * What it offers is declared by subject in api_*.h, which this file includes: api_errors.h codes and the log of errors;
 * api_gate.h the gate of the front ends' entries;  api_session.h connection, devices, contexts;  api_stream.h streams,
 * events;  api_memory.h;  api_copy.h copies and arrays;  api_code.h images and launches;  api_graph.h;  api_comm.h
 * collectives between GPUs. Files of the core include what they need; front ends include this file.
 *
 * The files of this folder stand on floors. A file uses its own floor and those above it in this list; tools/circles
 * checks that, and tools/circles.debt names the exceptions with their reasons.
 *
 *   wire/     state.c  the session's state and sticky error;  wire.c  every call passes here;  journal.c  what was sent
 *             and answered, for recovery;  rehearsal.c  the calls that would make a checkpoint's state again;  gate.c
 *             the gate at which calls wait;  device.c, pci.c  devices;  notify.c  the server's EVENTS calls, and what
 *             others ask of the helper;  span.c  the shape of a copy;  perf.c  switches;  stats.c, trace.c,
 *             trace_value.c, error_log.c  what users and tools can see of calls;  deep.c  work that needs more stack
 *             than a thread may have
 *   stream/   context.c, stream.c, event.c, event_across.c (of another server) the objects;  send.c  numbers and order
 *             of a stream's calls;  op.c  the table of operations;  progress.c, idle.c  what is known to have ended;
 *             backlog.c, throttle.c  how much may be under way;  pending.c, early_return.c  copies that are not done;
 *             host_function.c;  sequence.c, condition.c, device_graph.c  graphs that the server keeps;  managed.c,
 *             mirror.c, pool_notes.c  the way to rooms that are called from here;  context_work.c, context_event.c  all
 *             streams of a context;  stream_attributes.c, attribute_check.c  attributes of streams and launches;
 *             move_state.c, move_bytes.c, move_store.c  which server a move's calls go to, and the contents of memory:
 *             from server to server, or in a file (move_changes.c: only what has changed);  move_written.c  which
 *             memory the server has seen written;  move_fetch.c  files read ahead;  move_ahead.c  what is there before
 *             the program rests;  move_pace.c  how fast bytes go;  adopt_move.c, direct_move.c  without copying,
 *             and from node to node;  event_move.c  events
 *   memory/   window.c, address.c  addresses;  memory.c, heap.c, credit.c  cudaMalloc;  handle*.c  virtual memory
 *             management (handle_host.c: of the host's memory);  pool*.c  stream-ordered memory;  host_*.c  pinned
 *             memory;  share*.c, event_shared.c  memory and events of several programs;  extent.c  what is allocated,
 *             for the memory checker;  prefetch.c;  windows.c  windows of communicators;  memory_move.c,
 *             handle_move.c, heap_move.c  how a move makes them again
 *   copy/     copy.c  plans each copy and chooses its route: copy_in.c, copy_out.c, copy_pending.c, copy_deferred.c,
 *             copy_across.c (memory of another server);  copy_part.c, copy_calls.c  a part on its way, and its calls;
 *             chunks.c  pieces of shared memory;  lanes*.c  connections for data;  set.c, values.c, array.c,
 *             array_move.c;  comm.c  collectives between GPUs, and links;  link_copy.c  copies between servers over
 *             links
 *   code/     image.c, registered.c, library.c  code as the program names it;  code.c, code_ask.c, code_load.c  how it
 *             comes to a context;  code_refused.c  why one did not;  registry.c, own_images.c  what the executable
 *             registers, and before it does;  launch.c;  link.c;  texture.c, texref.c, tensor_map.c;  forward.c  the
 *             ids of calls that are only handed on (generated: cpu/api/driver.api);  jit.c  options of the compiler;
 *             code_move.c, code_prepare.c, code_again.c  how a move makes it again
 *   session/  reach.c  the way to a server;  attach_wait.c, attach_window.c  waiting for a server, and its window;
 *             local.c, manager.c  where the server is found;  manager_moves.c  the orders of the client manager;
 *             manager_groups.c  programs that move together;  manager_recovery.c  lost servers;  manager_links.c,
 *             manager_parts.c  further servers of a program with GPUs of several nodes;  capability.c  which compute
 *             capability the loaded software needs;  kinds.c  the table of all kinds of objects;  context_life.c  how
 *             contexts begin and end;  peer.c, usage.c, stats_report.c;  link_offer.c  links of which the client
 *             manager knows the ends
 *   moves/    move.c  moves to another server;  move_ask.c  whether it may;  move_prepare.c  what of it is done while
 *             the program goes on;  move_rest.c  how it comes to rest before;  suspend.c, checkpoint.c, apart.c  it
 *             goes into a file;  mover.c, move_hold.c, move_report.c  moves that the cluster orders;  recover.c,
 *             recover_report.c, replay*.c  another server after a loss;  suspects.c, unanswered.c of a
 *             recovery;  journal_calls.c  calls and answers come into the journal;  keeper.c  checkpoints, with which
 *             the journal begins anew
 *   start/    session.c  how the connection begins, and ends;  several.c  those of a program with several servers;
 *             helper.c  the core's one thread for each server
 */
#ifndef FLYT_CLIENT_CORE_H
#define FLYT_CLIENT_CORE_H

#include "cpu/client/core/api_code.h"
#include "cpu/client/core/api_comm.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/api_gate.h"
#include "cpu/client/core/api_graph.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/api_stream.h"

#endif
