/* state.h: what everything in the driver uses: limits, configuration, the mutex, the fault that sticks, handles. */
#ifndef SOFTGPU_DRIVER_MACHINE_STATE_H
#define SOFTGPU_DRIVER_MACHINE_STATE_H

/* All versions of each function are declared under their own names. */
#define __CUDA_API_VERSION_INTERNAL 1
#define __CUDA_API_PUSH_VISIBILITY_DEFAULT 1
#include <cuda.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/common/softgpu.h"
#include "softgpu/memory.h"

enum {
    SGD_MAX_DEVICES = 16,
    SGD_GRANULE = 1 << SG_GRANULE_SHIFT,
    SGD_MAX_OUTSTANDING = 1024,          /* operations of a stream that the driver takes without blocking */
    SGD_PRIORITY_LEAST = 0, SGD_PRIORITY_GREATEST = -5,
    SGD_SYNC_DOMAINS = 4, /* physical domains of memory synchronisation, as GPUs of capability 9.0 have */
    SGD_LIMITS = 16,                     /* CUlimit values known */
    SGD_STACK_DEPTH = 128                /* contexts pushed per thread */
};

struct sgd_config { /* config.c; constant after cuInit, but for cc_ (init.c) */
    unsigned devices, sm_count, cc_major, cc_minor, threads;
    size_t memory;                       /* bytes per device */
    uint64_t chaos;                      /* seed; 0: off */
    bool chaos_oom, dirty, fault_gpu;
    bool cc_given; /* FLYT_SOFTGPU_CC names the capability */
};
extern struct sgd_config sgd_config;
void sgd_config_read(void);

/* ---- state.c ---------------------------------------------------------------------------------------- */

void sgd_state_start(void);              /* cuInit, once, after sgd_config_read */
extern pthread_mutex_t sgd_mutex;        /* for FLYT_ASSERT_HELD */
void sgd_lock(void);                     /* for threads of our own and for release paths */
void sgd_unlock(void);
void sgd_wait(const uint64_t *deadline_ns);   /* waits for sgd_progress(); the mutex is released meanwhile */
void sgd_wait_on(pthread_cond_t *, const uint64_t *deadline_ns);
void sgd_cond_init(pthread_cond_t *);    /* on CLOCK_MONOTONIC */
void sgd_progress(void);                 /* something that somebody may wait for has changed */

/* What cudaGraphLaunch calls (softgpu_graphs); NULL: kernels launch no graphs. */
softgpu_graph_launch *sgd_graph_launcher(void);

/* The first fault is kept; every later call returns it. sgd_fault_raise (turn.c) also ends what runs. Under the
   mutex. */
bool sgd_fault_note(CUresult);           /* true: it is the first */
CUresult sgd_fault(void);

/* domain.c: the fault domain `gpu`. What another process of the card has run into, or CUDA_SUCCESS. */
CUresult sgd_domain_join(void);
void sgd_domain_tell(CUresult);
CUresult sgd_domain_fault(void);

/* Text of the last failure of the calling thread (softgpu_last_log). */
void sgd_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint64_t sgd_random(uint64_t below);     /* chaos; under the mutex; 0 when chaos is off */
uint64_t sgd_now(void);                  /* ns, CLOCK_MONOTONIC */
uint64_t sgd_next_id(void);

/* ---- handle.c ---------------------------------------------------------------------------------------- */

enum sgd_kind {
    SGD_FREE,
    SGD_CONTEXT,
    SGD_STREAM,
    SGD_EVENT,
    SGD_MODULE,
    SGD_FUNCTION,
    SGD_LIBRARY,
    SGD_KERNEL,
    SGD_LINK,
    SGD_PHYSICAL,
    SGD_ARRAY,
    SGD_MIPMAP,
    SGD_TEXREF
};
void *sgd_handle_new(enum sgd_kind, void *object);       /* NULL: out of memory */
void *sgd_handle_get(enum sgd_kind, const void *handle); /* NULL: not one, or no more */
void  sgd_handle_drop(const void *handle);

#endif
