/*
 * tenant_ledger.h: the file in which the worker processes of one GPU server keep the tenant's books
 * (cpu/server/tenant/tenant.c writes it, flyt-node-manager reads it). The listener makes it anew when it starts; zeros
 * are an empty one.
 *
 * A slot belongs to the process whose id stands in it, as seen in the server's own process-id namespace. Everything but
 * the two words that are waited for (futexes) changes under flock(2) on the file.
 */
#ifndef FLYT_COMMON_TENANT_LEDGER_H
#define FLYT_COMMON_TENANT_LEDGER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { LEDGER_SLOTS = 4096 };
#define LEDGER_ALL UINT32_MAX         /* in place of a device: all of them */

struct ledger_slot {
    int64_t  pid;                     /* 0: free */
    /* All that its program's session holds, on all devices: credit, modules, contexts with stacks … What of it is on
       devices other than the first stands in `accounts`, too. */
    uint64_t bytes;
    uint64_t credit;                  /* the part that MAP made, of which the client may hold some unused */
    uint64_t idle;                    /* what it said it holds unused, when it was last asked */
    uint64_t wanted;                  /* asked for and not yet passed on to the client */
    _Atomic uint32_t asked;           /* number of the last question; the worker waits for it to change */
    uint32_t answered;                /* and of the last one that was answered */
    uint32_t deaf;                    /* so often in a row it did not answer in time */
    uint32_t unused[3];
};

/* Whose program the worker of the slot with the same index serves, for libnvidia-ml. Each word is written by that
   worker alone, without the lock. */
enum { LEDGER_DEVICES = 8, LEDGER_NAME = 172 };
struct ledger_program {
    _Atomic uint32_t pid;             /* as the program says; 0: it serves nobody yet */
    _Atomic uint32_t busy;            /* a bit for each look at it, the newest is the lowest: it had work under way */
    _Atomic uint32_t looks;
    _Atomic uint64_t bytes[LEDGER_DEVICES];   /* of device memory; those of further devices are not known */
    char             executable[LEDGER_NAME];  /* set before pid */
    uint32_t         unused;
};

/* Memory that programs share: a row for each worker that holds it, with the number that the memory has. Rows stand in
   the order of their numbers, so all rows of one piece of memory follow each other, and it counts once. */
enum { LEDGER_SHARED = 16384 };
struct ledger_shared {
    uint64_t number, bytes;
    int64_t  pid;
    uint32_t uses, device;            /* uses: how often that worker holds it */
};

/* What a worker holds on a device other than the first. A limit is of each device. pid 0: the row is free. */
enum { LEDGER_ACCOUNTS = 8192 };
struct ledger_account {
    int64_t  pid;
    uint64_t bytes, credit;           /* parts of those of its slot */
    uint32_t device, unused;
};

/* What a program has done since its worker began, for those who account for it. They only grow. The worker of the slot
   with the same index writes them, without the lock, and each by one thread at a time, so that no locked instruction is
   needed; `errors` alone is written by several. */
enum { LEDGER_TIMES = 12 };
struct ledger_figures {
    _Atomic uint64_t calls, launches;
    _Atomic uint64_t bytes_in, bytes_out, bytes_between;   /* copies to the device, from it, and within its reach */
    _Atomic uint64_t busy_us;         /* work was under way, as the looks at it found */
    _Atomic uint64_t errors;          /* calls that were answered with an error, and errors of calls without answer */
    /* How long the server was about one in LEDGER_TIMED calls that are answered. times[i]: less than 2^i times
       LEDGER_TIME_US; the last: longer. */
    _Atomic uint64_t timed_us, times[LEDGER_TIMES];
};
enum { LEDGER_TIMED = 16, LEDGER_TIME_US = 4, LEDGER_FIGURES = sizeof(struct ledger_figures) / sizeof(uint64_t) };

/* By the one thread that may change it, which for most of them is the one that holds session.lock. */
static inline void figure_add(_Atomic uint64_t *figure, uint64_t more)
{
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + more, memory_order_relaxed);
}

/* Any thread. */
static inline void figure_add_shared(_Atomic uint64_t *figure)
{
    atomic_fetch_add_explicit(figure, 1, memory_order_relaxed);
}

struct ledger {
    _Atomic uint32_t changed;         /* counts what may let a waiting MAP succeed; waited for */
    uint32_t high;                    /* slots[high] and beyond have never been used */
    uint32_t shared_count;            /* rows of `shared` */
    /* What the node manager has ordered since the server began (cpu/server/tenant/resize.c); 0: nothing. Written by the
       listener. The software GPU reads sms and device by itself, whenever it places a block or takes memory. */
    _Atomic uint32_t sms;
    _Atomic uint64_t limit;           /* bytes that the tenant may have of each device */
    _Atomic uint64_t wanted;          /* less than that: the tenant is to have so much, and does not fit yet */
    _Atomic uint64_t device;          /* bytes that the software GPU has for each program */
    uint32_t account_high;            /* accounts[account_high] and beyond have never been used */
    uint32_t unused[5];
    struct ledger_slot slots[LEDGER_SLOTS];
    struct ledger_program programs[LEDGER_SLOTS];
    struct ledger_shared shared[LEDGER_SHARED];
    struct ledger_account accounts[LEDGER_ACCOUNTS];
    /* Odd while a worker's figures become part of `ended`; a reader who sees it change reads again. */
    _Atomic uint64_t folds;
    struct ledger_figures ended;      /* of workers that have ended; changes under the lock */
    struct ledger_figures figures[LEDGER_SLOTS];
};
_Static_assert(sizeof(struct ledger_slot) == 64 && offsetof(struct ledger, programs) == 64 * (LEDGER_SLOTS + 1),
               "read by other programs");

#endif
