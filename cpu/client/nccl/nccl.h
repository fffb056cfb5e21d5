/*
 * nccl.h: libnccl.so.2 of Flyt: NCCL's interface on the communicators of GPU servers (cpu/client/core/api_comm.h). The
 * numbers are those of NVIDIA's nccl.h; tests/nccl/abi.py compares them.
 *
 *   id.c        unique ids, and the store behind them, in which ranks meet
 *   connect.c   how a rank becomes one: who the others are, links to those of other processes
 *   comm.c      communicators: made, split, asked about, ended
 *   users.c     who uses a communicator, and what becomes of its memory
 *   operation.c collectives, send and receive, operations of the program's own
 *   group.c     ncclGroupStart and ncclGroupEnd
 *   staging.c   pinned memory of the host as a buffer
 *   error.c     why the last call has failed
 *   memory.c    ncclMemAlloc and registration
 *   choice.c    whether the program uses these functions, or those of an NCCL of its own
 *   own.c       finds that
 *   calls.h     the functions that have a body here
 *   names.txt   what the library exports (stubs.awk, entries.awk, exports.awk)
 *
 * A communicator is used by one thread at a time, as NCCL wants it; ncclCommAbort and ncclCommGetAsyncError may come
 * from any. So each call counts as a user of its communicator, as does what makes a child of it, or has it in a group:
 * who ends it marks it, and the last user frees it. The library never ends the process.
 */
#ifndef FLYT_CLIENT_NCCL_H
#define FLYT_CLIENT_NCCL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/client/core/core.h"
#include "cpu/client/nccl/calls.h"

enum {
    NCCL_VERSION = 22809,
    NCCL_OPERATIONS = 5, /* the program's own ones have the numbers from here on */
    NCCL_TYPES = 12,
    NCCL_OWN_OPERATIONS_MOST = 256,
    NCCL_SPLIT_NOCOLOR = -1,
    NCCL_CONFIG_MAGIC = (int)0xcafebeef
};

/* A pre-multiplied sum. */
struct nccl_factor {
    bool used;
    int type;
    uint64_t at;
    uint8_t value[8];
};

/* A store's address and key, and the name of what a communicator has in it. */
struct nccl_place {
    char uri[80];
    uint8_t key[32], name[16];
};

/* How a communicator is made: as InitRank or as Split says. */
struct nccl_making {
    struct nccl_place place;  /* InitRank */
    struct nccl_comm *parent; /* Split; else NULL */
    int color, key;
    unsigned number; /* of this split of the parent: the same on all ranks, which call them in one order */
    bool blocking;
    struct nccl_comm **out; /* Split: becomes NULL where the rank is in no new one */
};

struct comm_store;

struct nccl_comm {
    uint64_t magic;         /* and the users stay readable behind its end (users.c) */
    atomic_uint users;      /* NCCL_ENDED, and how many use it */
    struct nccl_comm *next; /* behind its end */
    const char *why;        /* it was aborted; NULL: destroyed */
    int rank, ranks, device;
    core_context *context;
    core_comm id;
    uint32_t *links;                /* of each rank; CORE_COMM_NEAR: none */
    atomic_bool made;               /* the server has it */
    struct nccl_place place;        /* where its ranks meet */
    struct comm_store *tcp, *store; /* the connection, and what this communicator has in it */
    struct nccl_making making;
    struct nccl_place *homes; /* of each rank: the store that its process serves; no URI: it has none */
    unsigned splits, shrinks;
    atomic_bool revoked, finalized;
    pthread_mutex_t lock; /* of what follows */
    atomic_int state;     /* a nccl_result: NCCL_IN_PROGRESS: it is being made */
    uint64_t asked;       /* when the server was last asked how it is */
    struct nccl_factor factors[NCCL_OWN_OPERATIONS_MOST];
};

/* What every exported function begins with: a move of the session waits for it, and it for a move. */
#define NCCL_ENTER() CORE_GATE(__func__)
/* And what a function with a communicator begins with, too: it is a user up to its end. */
#define NCCL_USE(comm) \
    struct nccl_comm *const used_ __attribute__((cleanup(nccl_comm_used), unused)) = nccl_comm_enter(comm)

/* ---- users.c ---- */

/* Ready for NCCL_USE; the caller is its user. NULL: no memory. */
struct nccl_comm *nccl_comm_new(int rank, int ranks, core_context *, int device);
/* Makes the caller a user, up to nccl_comm_leave. NULL: there is no such communicator, or it has been ended. */
struct nccl_comm *nccl_comm_enter(const struct nccl_comm *);
/* The last user of one that has been ended disconnects it. NULL is allowed. */
void nccl_comm_leave(struct nccl_comm *);
void nccl_comm_used(struct nccl_comm *const *);
/* For a user. False: another thread has ended it. */
bool nccl_comm_end(struct nccl_comm *);
bool nccl_comm_ended(const struct nccl_comm *);

/* ---- error.c ---- */

/* Keeps the text for ncclGetLastError, prints it where NCCL_DEBUG wants it, and gives the result. */
nccl_result nccl_fail(nccl_result, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What the core's code is here; `what` was tried. 0: NCCL_SUCCESS. */
nccl_result nccl_of_core(int code, const char *what, const char *why);
/* "rank 3: no route" */
nccl_result nccl_of_errno(int status, const char *what, const char *why);
/* of_device: it belongs to NCCL's device API. */
nccl_result nccl_unsupported(const char *name, bool of_device);

/* ---- id.c ---- */

bool nccl_place_of(const nccl_id *, struct nccl_place *);
nccl_result nccl_random(void *bytes, size_t size);
/* Where the store of this process is, which is begun if need be. */
nccl_result nccl_home(struct nccl_place *);
/* A moment by which ranks must have met. */
uint64_t nccl_deadline(void);

/* ---- connect.c ---- */

/* The store of the communicator, at its place. */
nccl_result nccl_store_open(struct nccl_comm *);
/* What a rank leaves there for the others. *size: the room at `value`, then what was there; waits for it, but leaves
   soon with NCCL_INTERNAL_ERROR where the communicator is ended, or the one that is being made of it. */
nccl_result nccl_store_set(struct nccl_comm *, const char *key, const void *value, size_t size);
nccl_result nccl_store_get(struct nccl_comm *, const struct nccl_comm *made, const char *key, void *value,
                           size_t *size);
/* Makes the rank: waits for all others. */
nccl_result nccl_connect(struct nccl_comm *);
/* The server forgets it, and what ranks have in the store stays. abort: why, or NULL. */
void nccl_cut(struct nccl_comm *, const char *abort);
/* And the store is left. */
void nccl_disconnect(struct nccl_comm *, const char *abort);

/* ---- group.c ---- */

/* An operation, or the making of a communicator. */
struct nccl_job {
    struct nccl_comm *comm;
    core_stream stream;
    enum { NCCL_JOB_CALL, NCCL_JOB_MESSAGE, NCCL_JOB_MAKE } kind;
    bool done;
    union {
        struct core_comm_call call;
        struct core_comm_message message;
    };
    uint64_t in_size, out_size; /* bytes of a call's buffers */
};
/* Does it now, or at the end of the group. */
nccl_result nccl_submit(const struct nccl_job *);
bool nccl_in_group(void);
/* A call in the group has failed: so does the group. */
nccl_result nccl_group_failed(nccl_result);

/* ---- staging.c ---- */

/* *address: a buffer of the program's. Where it is memory of the host, device memory takes its place in the stream,
   with its bytes if the operation reads it. A code of the core's. */
int nccl_stage_begin(core_context *, core_stream, uint64_t *address, uint64_t size, bool read);
/* Behind the operation: program: what the address was before; staged: what it has become. */
int nccl_stage_end(core_context *, core_stream, uint64_t program, uint64_t staged, uint64_t size, bool written);

/* ---- comm.c ---- */

/* Of one that will not be made: nobody uses it any more, nor its parent for it. */
void nccl_comm_drop(struct nccl_comm *);
/* Waits. Ends the communicator where it cannot be made and the program does not ask how it is. */
nccl_result nccl_make(struct nccl_comm *);
/* NCCL_SUCCESS if it is one, and is ready for operations. */
nccl_result nccl_comm_check(const struct nccl_comm *, const char *function);
/* And has not been finalized: it may be given new ones. */
nccl_result nccl_comm_open(const struct nccl_comm *, const char *function);

#endif
