/*
 * comm_book.h: the file in which the workers of a GPU server keep what their communicators have done lately: a flight
 * recorder that stays when a communicator has failed, a rank hangs, or a worker was killed. cpu/comm/trace.c writes it,
 * flytctl reads it as a piece of its server's folder (control_prot.x, NODE_ORDER_LOG). Zeros are an empty one.
 *
 * A page belongs to a rank of a communicator. The worker whose process id stands in it, as seen in the server's own
 * process-id namespace, writes it, by one thread at a time, without a lock; pages are taken under flock(2) on the file.
 * A reader may see a call half written. Whoever reads it must not trust it: it is what a tenant's server says.
 *
 * The heads of all pages stand together, so that one piece of CTL_MAX_LOG bytes has them all. Numbers are those of this
 * machine, little-endian.
 */
#ifndef FLYT_COMMON_COMM_BOOK_H
#define FLYT_COMMON_COMM_BOOK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { COMM_BOOK_PAGES = 64, COMM_BOOK_CALLS = 1024, COMM_BOOK_NOTE = 16, COMM_BOOK_WHY = 224,
       COMM_BOOK_CLIENT = 128, COMM_BOOK_UNDER_WAY = 1 };

/* Times are nanoseconds since 1970. status: 0, a negative errno value, or UNDER_WAY. */
struct comm_book_call {
    uint64_t number;                  /* from 1, of all calls and groups of messages of the rank; 0: there is none */
    uint64_t begun, ended;
    uint8_t  note[COMM_BOOK_NOTE];    /* what was called: cpu/comm/note.h */
    int32_t  status;
    uint32_t algorithm;               /* enum comm_algorithm */
};

struct comm_book_head {
    int64_t  pid;                     /* 0: the page was never used */
    uint64_t name;                    /* of the communicator: the same for all its ranks; says nothing else */
    uint32_t rank, ranks;
    uint64_t made, ended;             /* ended 0: it goes on */
    _Atomic uint64_t calls, complete; /* the newest number, and how many of them are over */
    int32_t  status;                  /* 0, or a negative errno value: the communicator has failed */
    uint32_t unused;
    char     why[COMM_BOOK_WHY];
    char     client[COMM_BOOK_CLIENT];  /* the program, as it says: HOST/EXECUTABLE[PID] */
    uint8_t  more[96];
};
_Static_assert(sizeof(struct comm_book_head) == 512 && sizeof(struct comm_book_call) == 48, "read by other programs");

/* Call n stands at (n - 1) modulo COMM_BOOK_CALLS. */
struct comm_book {
    struct comm_book_head heads[COMM_BOOK_PAGES];
    struct comm_book_call calls[COMM_BOOK_PAGES][COMM_BOOK_CALLS];
};

/* Where one page is. */
struct comm_book_page {
    struct comm_book_head *head;
    struct comm_book_call *calls;
};

#endif
