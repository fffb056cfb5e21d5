/*
 * machine.h: the objects of the software GPU's CUDA driver and the queue that they meet in. The entry points of the
 * CUDA Driver API stand above, in softgpu/driver/calls/; nothing here calls them.
 *
 * One mutex (state.c) guards every object: callers hold it for their bookkeeping, never while bytes move, host
 * functions run or somebody waits. Kernels run in softgpu/exec/, copies in two worker threads, host functions in one
 * callback thread (as in NVIDIA's driver, so a host function that blocks holds up the others here too).
 *
 *   state.h    state.c   the mutex, the fault that sticks;  handle.c  handles;  config.c  what the environment says;
 *              domain.c  faults that reach other processes
 *   space.h    space.c   the address space;  extents.c  ordered sets of address ranges
 *   device.h   device.c  devices and machines;  attributes.c  their attributes;  context.c  contexts;  peer.c
 *   memory.h   memory.c  allocations;  heap.c  the heap of malloc() in kernels
 *   queue.h    stream.c, event.c, op.c  what a queue consists of;  work.c  operations handed to threads;
 *              run.c     what copies and memsets do;  turn.c  which operation starts when, the heart;
 *              queue.c   callers and threads
 *   array.h    array.c, texture.c, texref.c  arrays, texture and surface objects and references
 *   code.h     image.c, module.c, library.c, function.c  code;  link.c  links;  compiled.c  registers in machine code
 *
 * Handles are tokens, not pointers (a freed or foreign one is recognised). Follows: CUDA Driver API reference.
 */
#ifndef SOFTGPU_DRIVER_MACHINE_MACHINE_H
#define SOFTGPU_DRIVER_MACHINE_MACHINE_H

#include "softgpu/driver/machine/array.h"
#include "softgpu/driver/machine/code.h"
#include "softgpu/driver/machine/device.h"
#include "softgpu/driver/machine/memory.h"
#include "softgpu/driver/machine/queue.h"
#include "softgpu/driver/machine/space.h"
#include "softgpu/driver/machine/state.h"

#endif
