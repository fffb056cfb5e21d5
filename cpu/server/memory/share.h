/*
 * share.h: memory that programs of one tenant share (share.c), and how their workers reach each other (relay.c).
 *
 * The worker of the program that exports memory asks the driver for descriptors of it, and keeps them with a key of
 * random bytes. Whoever shows the key gets duplicates: the worker of another program of the same server, through the
 * listener, which starts all workers and therefore can pass messages between them.
 */
#ifndef FLYT_SERVER_SHARE_H
#define FLYT_SERVER_SHARE_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/common/tree.h"
#include "cpu/rpc/cpu_rpc_prot.h"

struct device;
struct session;

/* What opens an export. The same bytes as in the protocol: flyt_share. */
struct share_key {
    uint64_t session;                         /* of the program that exports */
    uint64_t number;                          /* of the export, in that session */
    uint8_t  secret[16];
};

/* A piece of device memory as it is exported: one descriptor of the driver. */
struct share_part {
    uint64_t size;
    uint64_t ledger;                          /* under which number the tenant's books count it; 0: not at all */
    int      fd;
    uint32_t exports;                         /* that name it */
};

/* Between the bytes of the protocol and a key. */
void share_key_put(char *bytes, const struct share_key *);
void share_key_get(const char *bytes, struct share_key *);

enum { SHARE_CLIENT = 128, SHARE_PARTNERS = FLYT_MAX_PARTNERS };

struct shares {
    pthread_mutex_t lock;                     /* a leaf; also taken by the thread that answers other workers */
    struct tree     exports;                  /* struct export, by number */
    uint64_t        last, count;
    uint64_t        imports;                  /* handles that were imported; under session.lock */
    /* the first programs that have had memory of this one, or the other way round, and that have not ended */
    struct share_partner { uint64_t session; char client[SHARE_CLIENT]; } partners[SHARE_PARTNERS];
    unsigned        partner_count;
    bool            more_partners;
    bool            leaving;                  /* the session is at rest, and leaves the server: nobody imports but those
                                                 that leave, too, and look whether what they have is still exported */
};

/* ---- exporting: under session.lock ---- */

enum { SHARE_EXPORTS = 65536, SHARE_PARTS = 65536 };

/* True if the driver and the server's way of working allow it: then all memory is made exportable. */
bool share_possible(const struct session *);
/* Asks the driver for a descriptor. counted: what the books call the memory (enum tenant_kind), which is of that
   device; from now on they count it under a number of its own, as long as anybody uses it. *part is unchanged if it is
   not NULL. */
CUresult share_part_make(struct session *, CUmemGenericAllocationHandle, uint64_t size, int counted,
                         unsigned device, struct share_part **part);
/* The memory goes: so do the exports that name it. NULL: nothing. True: the books no longer count it for this
   session, and the caller must not release it there. */
bool share_part_end(struct session *, struct share_part *);
/* A new export of `length` bytes, `offset` bytes behind the start of the first of the parts, which the caller keeps. */
CUresult share_export(struct session *, const struct device *, struct share_part *const *parts, uint32_t count,
                      uint64_t offset, uint64_t length, struct share_key *);
/* An export under a key that others have from an earlier server: this session has moved here. */
CUresult share_export_again(struct session *, const struct device *, struct share_part *const *parts, uint32_t count,
                            uint64_t offset, uint64_t length, const struct share_key *);
void share_end(struct session *, uint64_t number);
void shares_stop(struct session *);
/* The programs that share memory with this one, as the log calls them: "a, b and others"; "": none has any yet. */
void share_partners(struct session *, char *text, size_t size);
/* The worker of a session has ended. Any thread. */
void share_partner_gone(struct session *, int32_t worker);

/* ---- importing: without session.lock; waits for the other worker ---- */

struct share_import {
    uint32_t device, count;                   /* of parts, together `size` bytes */
    uint64_t size, offset, length;
    struct share_memory { CUmemGenericAllocationHandle handle; uint64_t size, ledger; } *parts;
};
/* CUDA_ERROR_INVALID_VALUE: no program of this server has such an export. The caller ends it with share_import_end. */
CUresult share_import(struct session *, const struct share_key *, struct share_import *);
/* Gives all parts back to the driver and to the books. */
CUresult share_import_end(struct session *, struct share_import *);

/* ---- messages between workers (relay.c, listener.c) ---- */

enum { SHARE_AT_ONCE = 64 };                  /* descriptors in one message */

enum share_word { SHARE_QUESTION = 1, SHARE_ANSWER = 2 };
struct share_question {
    uint32_t word, serial, first;             /* first: part wanted */
    uint32_t leaves;                          /* 1: who asks is leaving, too */
    struct share_key key;
    struct share_partner from;
};
struct share_answer {
    uint32_t word, serial;
    int32_t  status;                          /* CUresult */
    uint32_t device, parts, count;            /* parts: of the export; count: in this message */
    uint64_t offset, length;
    struct { uint64_t size, ledger; } part[SHARE_AT_ONCE];
    struct share_partner from;                /* whose memory it is */
};

/* What this session answers: count descriptors, which the caller closes. Any thread. */
void share_answer(struct session *, const struct share_question *, struct share_answer *, int *fds);
/* How a session asks another worker. fds: SHARE_AT_ONCE. 0, or -errno: there is none, or it does not answer. */
typedef int share_ask_function(const struct share_question *, struct share_answer *, int *fds);

#endif
