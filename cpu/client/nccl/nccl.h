/*
 * nccl.h: libnccl.so.2 of Flyt: NCCL's interface on the communicators of GPU servers (cpu/client/core/api_comm.h). The
 * numbers are those of NVIDIA's nccl.h; tests/nccl/abi.py compares them.
 *
 *   id.c        unique ids, and the store behind them, in which ranks meet
 *   meet.c      the store in which ranks meet
 *   connect.c   how a rank becomes one: who the others are, links to those of other processes
 *   make.c      how communicators are made: configurations, InitRank and its kin
 *   child.c     those that are made of others: Split, Shrink, Grow; Revoke
 *   comm.c      what they are asked, and how they end
 *   users.c     who uses a communicator, and what becomes of its memory
 *   operation.c collectives, send and receive, operations of the program's own
 *   sided.c     puts, signals, and waits for signals
 *   group.c     ncclGroupStart and ncclGroupEnd
 *   carry.c     operations go to their streams
 *   staging.c   pinned memory of the host as a buffer
 *   error.c     why the last call has failed
 *   memory.c    ncclMemAlloc and registration
 *   window.c    windows, and how they are made
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
    NCCL_RANKS_MOST = 1024,
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

/* How a communicator is made. */
enum nccl_way { NCCL_BY_ID, NCCL_BY_SPLIT, NCCL_BY_SHRINK, NCCL_BY_GROW };
struct nccl_making {
    enum nccl_way way;
    struct nccl_comm *parent; /* while it is made: used for it; NULL: made of none */
    int color, key;           /* Split */
    unsigned number; /* of this split, or growth, of the parent: the same on all ranks, which call them in one order */
    bool waits;      /* the caller, until it is made */
    atomic_int *group; /* of those for which the caller waits together: the first failure, or 0; NULL: it is alone */
    struct nccl_comm **out; /* the program's. By Split and Shrink it is NULL until the communicator is made */
};

struct nccl_meeting;

struct nccl_comm {
    uint64_t magic;         /* and the users stay readable behind its end (users.c) */
    atomic_uint users;      /* NCCL_ENDED, and how many use it */
    struct nccl_comm *next; /* behind its end */
    const char *why;        /* it was aborted; NULL: destroyed */
    int rank, ranks, device;
    bool blocking; /* its configuration */
    core_context *context;
    core_comm id;
    uint32_t *links;                /* of each rank; CORE_COMM_NEAR: none */
    atomic_bool made;               /* the server has it */
    struct nccl_place place; /* where its ranks meet */
    struct nccl_meeting *meeting; /* while they do, there; NULL: none */
    uint64_t deadline;            /* and by when they must have */
    struct nccl_making making;
    struct nccl_place *homes; /* of each rank: the store that its process serves; no URI: it has none */
    unsigned splits, shrinks, growths;
    bool sided; /* all ranks' servers have one-sided operations */
    atomic_uint children; /* that threads make of it: it is in progress, as the program sees it */
    atomic_bool revoked, suspended;
    atomic_bool finalized, flushing; /* flushing: finalized, and operations may be under way still */
    bool offered;         /* the unique id of its next growth was made */
    pthread_mutex_t lock; /* of what follows */
    atomic_int state;     /* a nccl_result: NCCL_IN_PROGRESS: it is being made */
    uint64_t asked;       /* when the server was last asked how it is */
    struct nccl_window *windows;
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
/* The program has ended what is being made, or its parent. */
bool nccl_making_ended(const struct nccl_comm *);

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
/* A moment by which ranks that meet from now on must have met. */
uint64_t nccl_deadline(void);

/* ---- meet.c ---- */

/* Up to nccl_part the rank has a connection to the store at its place. */
nccl_result nccl_meet(struct nccl_comm *);
void nccl_part(struct nccl_comm *);
/* Leaves a value there for so many ranks, under the name of a communicator. */
nccl_result nccl_leave_for(struct nccl_comm *, const uint8_t name[16], const char *key, const void *value, size_t,
                           int ranks);
/* What another rank has left. *size: the room at `value`, then what was there. Waits for it, but leaves soon with
   NCCL_INTERNAL_ERROR where the program has ended what is being made, or its parent; or with the failure of another
   one of the group, and then keeps the text of that. */
nccl_result nccl_find(struct nccl_comm *, const uint8_t name[16], const char *key, void *value, size_t *size);

/* Waits until then, at most, for a value without bytes. */
void nccl_await(struct nccl_comm *, const uint8_t name[16], const char *key, uint64_t deadline);

/* ---- connect.c ---- */

/* Makes the rank: waits for all others. */
nccl_result nccl_connect(struct nccl_comm *);
/* The server forgets it. abort: why, or NULL. */
void nccl_cut(struct nccl_comm *, const char *abort);
/* And it forgets where the others are. */
void nccl_disconnect(struct nccl_comm *, const char *abort);

/* ---- group.c ---- */

/* An operation, the making or the finalizing of a communicator, or the registration of a window. */
struct nccl_job {
    struct nccl_comm *comm;
    core_stream stream;
    enum {
        NCCL_JOB_CALL,
        NCCL_JOB_MESSAGE,
        NCCL_JOB_PUT,
        NCCL_JOB_WAIT,
        NCCL_JOB_MAKE,
        NCCL_JOB_WINDOW,
        NCCL_JOB_FINALIZE
    } kind;
    bool waits; /* the caller, for what is made */
    bool done;
    union {
        struct core_comm_call call;
        struct core_comm_message message;
        struct core_comm_sided put;
        struct nccl_wait {
            struct core_comm_sided *list; /* the group's, which frees it; outside of one the caller's */
            unsigned count;
        } wait;
        struct nccl_registration {
            struct nccl_window **out; /* the program's; NULL until all ranks have registered theirs */
            void *memory;
            size_t size;
            bool symmetric;
            struct nccl_window *made;
        } window;
    };
    uint64_t in_size, out_size; /* bytes of a call's buffers */
};
/* Does it now, or at the end of the group. */
nccl_result nccl_submit(const struct nccl_job *);
bool nccl_in_group(void);
/* A call in the group has failed: so does the group. */
nccl_result nccl_group_failed(nccl_result);

/* ---- carry.c ---- */

/* Gives the operations to their streams; does not wait. */
nccl_result nccl_carry_out(struct nccl_job *, size_t count);

/* ---- window.c ---- */

/* Memory of this rank, and of the others what they have registered at the same turn. The communicator's. */
struct nccl_window {
    struct nccl_window *next;
    uint32_t number; /* the server's */
    void *memory;
    uint64_t size;
    bool symmetric;
    uint64_t sizes[]; /* of each rank */
};

/* Registers the windows of a group, and waits until all ranks have; NCCL_IN_PROGRESS: of a communicator that does not
   block. */
nccl_result nccl_windows_make(struct nccl_job *, size_t count);
/* Whether it is one of the communicator. *window: a copy without the sizes; *size: of that rank's part. */
bool nccl_window_known(struct nccl_comm *, const struct nccl_window *, int rank, struct nccl_window *window,
                       uint64_t *size);
/* Whether all of that memory is in a symmetric one of this rank. */
bool nccl_window_covers(struct nccl_comm *, const void *memory, uint64_t size);
/* Waits until nothing comes into it any more. False: it is none of the communicator. */
bool nccl_window_remove(struct nccl_comm *, const struct nccl_window *);
/* The communicator ends. */
void nccl_windows_drop(struct nccl_comm *);

/* ---- operation.c ---- */

/* The checks that all operations share. NCCL_SUCCESS: the communicator, type, count and stream are valid. */
nccl_result nccl_operation_check(const struct nccl_comm *, core_stream, int type, uint64_t count, const char *function);

/* ---- staging.c ---- */

/* *address: a buffer of the program's. Where it is memory of the host, device memory takes its place in the stream,
   with its bytes if the operation reads it. A code of the core's. */
int nccl_stage_begin(core_context *, core_stream, uint64_t *address, uint64_t size, bool read);
/* Behind the operation: program: what the address was before; staged: what it has become. */
int nccl_stage_end(core_context *, core_stream, uint64_t program, uint64_t staged, uint64_t size, bool written);

/* ---- make.c ---- */

/* *blocking: what the configuration says, or `inherited` where there is none, or what NCCL_COMM_BLOCKING says. */
nccl_result nccl_config_read(const struct nccl_config *, const char *function, bool inherited, bool *blocking);
nccl_result nccl_init_rank(struct nccl_comm **out, int ranks, const nccl_id *, int rank, const struct nccl_config *,
                           const char *function);
/* Now, or at the end of the group. */
nccl_result nccl_make_begin(struct nccl_comm *, const struct nccl_making *);
/* Waits. Ends the communicator where it cannot be made and the program has no handle of it. */
nccl_result nccl_make(struct nccl_comm *);
/* Makes it in a thread of its own: NCCL_IN_PROGRESS. */
nccl_result nccl_make_behind(struct nccl_comm *);
/* Of one that will not be made: nobody uses it any more, nor its parent for it. */
void nccl_comm_drop(struct nccl_comm *);

/* ---- child.c ---- */

/* Finds out what ranks know only together: the members, the place. A rank that is in no new one has 0 `ranks`. */
nccl_result nccl_child_find(struct nccl_comm *);

/* ---- comm.c ---- */

/* NCCL_SUCCESS: there is such a communicator. */
nccl_result nccl_comm_known(const struct nccl_comm *, const char *function);
/* And it is not in progress. */
nccl_result nccl_comm_idle(const struct nccl_comm *, const char *function);
/* And it is ready for operations. */
nccl_result nccl_comm_check(const struct nccl_comm *, const char *function);
/* And has not been finalized: it may be given new ones. */
nccl_result nccl_comm_open(const struct nccl_comm *, const char *function);
/* Waits until what it was given is complete, if it is blocking. */
nccl_result nccl_finalize(struct nccl_comm *);

#endif
