/*
 * perf.h: flyt-comm-perf: measures a link against raw streams.
 *
 * One process serves, the other measures. They exchange handles (bootstrap.h), then the one that measures says what it
 * wants over the link itself: transfers of space SPACE_COMMAND. Raw streams are as many connections as the link has
 * channels, between the same cards, with the same memory at both ends: whoever has time takes the next chunk.
 */
#ifndef FLYT_COMM_PERF_PERF_H
#define FLYT_COMM_PERF_PERF_H

#include "cpu/comm/link/bootstrap.h"
#include "cpu/comm/link/link.h"

#include <pthread.h>

enum { REPEAT_MOST = 1000 }; /* repetitions of a size */
enum { SPACE_COMMAND = 1, SPACE_DATA = 2, SPACE_PING = 3, SPACE_ANSWER = 4, SPACE_TAKEN = 5 };
enum perf_wish { PERF_LINK = 1, PERF_RAW, PERF_PING, PERF_END };

struct perf_command {
    uint32_t wish, channels;
    uint64_t size, count;
};

/* Where the raw streams go: an address for each card. */
struct perf_raw {
    uint32_t count;
    uint32_t reserved;
    struct comm_address addresses[COMM_NICS_MOST];
};

struct perf_options {
    const char *host;     /* NULL: both ends on this machine */
    const char *store;    /* the folder where ranks meet; NULL: all ranks on this machine */
    const char *gpus;     /* URI,URI of two GPU servers; NULL: no GPU is measured */
    unsigned ranks, rank; /* 0 ranks: a link is measured */
    bool serve, json, no_raw;
    unsigned repeat, channels;
    const char *transport, *interfaces; /* transport: tcp, tls, shm, ucx or ucx-in-clear */
    uint64_t sizes[16];
    unsigned size_count;
};

struct perf_end {
    struct comm_engine *engine;
    struct comm_link *link;
    uint8_t *memory;
    uint64_t size;
    uint64_t commands, pieces, pings; /* numbers of their spaces */
};

/* What the options say of an engine. */
struct comm_settings perf_settings(const struct perf_options *);
/* Sorts them. */
double perf_median(double *values, unsigned count);
/* ranks.c: one rank of a store's; all of this machine. The exit status. */
int perf_rank(const struct perf_options *);
int perf_ranks(struct perf_options *);

/* gpus.c: from GPU to GPU of two servers. The exit status. */
int perf_gpus(const struct perf_options *);

/* raw.c: listening sockets, one for each address of `raw`, whose ports it fills in. */
int perf_raw_listen(const struct perf_options *, struct perf_raw *, int fds[COMM_NICS_MOST], char *error);
/* Takes `channels` connections and all their bytes into the memory, and answers each. */
int perf_raw_receive(const int *fds, unsigned count, unsigned channels, uint8_t *memory, uint64_t size);
/* Connects, then sends size bytes over all; ns is the time from the first byte until all are answered for. */
int perf_raw_send(const struct perf_raw *, unsigned channels, const uint8_t *memory, uint64_t size, uint64_t *ns);

#endif
