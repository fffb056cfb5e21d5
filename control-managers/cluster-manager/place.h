/*
 * place.h: on which GPU a server goes. Pure arithmetic on a compact table, no I/O, so that it can be tested by itself.
 *
 * Invariants, whatever is asked: on each GPU the promised SMs and memory stay within what it has times the factor of
 * over-commitment (1 unless configured); at most one kind of sharing is in use on a GPU at a time, and only one server
 * where that is exclusive or MIG; nothing is placed on a GPU that is not schedulable. Sums are 64-bit and only ever
 * grow by what was checked to fit, so nothing wraps.
 *
 * A *gang* is a server with several GPUs, each with the same share and the same kind of sharing, all of one node. It is
 * placed whole or not at all (place_gang.c). A *set* is one gang on each of several nodes, which together have the GPUs
 * of one program. It is placed whole or not at all, too (place_set.c).
 */
#ifndef FLYT_CLUSTER_PLACE_H
#define FLYT_CLUSTER_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct place_gpu {
    void *owner; /* NULL: the slot is free */
    const void *node;
    const char *machine; /* that the node is on, "" not known; the node's */
    uint64_t memory, used_memory;
    uint32_t sms, used_sms;
    uint8_t offered;  /* CTL_SHARING_ bits */
    uint8_t sharing;  /* in use, one bit; 0: no server */
    bool schedulable; /* up, ready, not drained */
    bool sm_limits;   /* fewer SMs than all can be held */
    bool tls;         /* programs reach servers there by TLS */
    bool gangs;       /* its node manager can give several GPUs to one server */
    uint32_t users;
    const void *keeper; /* the asker that waits for it gets it first; NULL: nobody waits */
};

struct place_pool {
    struct place_gpu *gpus;
    size_t count, capacity;
    size_t first_free; /* no slot before it is free */
    double overcommit_sms, overcommit_memory;
};

struct place_request {
    uint32_t sms;          /* 0: all of the GPU's */
    uint64_t memory;       /* 0: all of the GPU's */
    unsigned accepted;     /* sharing */
    const void *preferred; /* node on the VM's machine, or NULL */
    const void *asker;     /* may have what is kept for it */
    const char *machine;   /* preferred NULL: all nodes on that machine are preferred. NULL or "": none is */
    const void *const *avoid; /* nodes and GPUs (their owners) that will not do */
    size_t avoid_count;
    const void *only;         /* a node, or a GPU (its owner): nowhere else; NULL: anywhere */
    bool tls;                 /* the VM has certificates: it may refuse servers of another machine that take no TLS */
    uint32_t gpus;            /* so many, with the amounts above of each; 0 is 1 */
    bool spread;              /* of a set: on as many nodes as can be. Else on one, or on few where none has so many */
};

struct place_result {
    size_t gpu;
    unsigned sharing;
    uint32_t sms;
    uint64_t memory;
};

enum { PLACE_MOST_GPUS = 16 };
struct place_gang {
    size_t count;
    struct place_result of[PLACE_MOST_GPUS]; /* on different GPUs; in the order of slots */
};

struct place_set {
    size_t count;
    struct place_gang of[PLACE_MOST_GPUS]; /* on different nodes; in the order of their first slots */
};

enum place_verdict {
    PLACE_FOUND,
    PLACE_BUSY,  /* some GPU could hold it if it were free or up */
    PLACE_NEVER, /* none of those known could */
    PLACE_NO_GPUS
};

/* policy: index into place_policies. Takes nothing yet. One GPU, whatever request.gpus says. */
enum place_verdict place_choose(const struct place_pool *, int policy, const struct place_request *,
                                struct place_result *);
/* All GPUs of the request. PLACE_BUSY also when memory is short. */
enum place_verdict place_choose_gang(const struct place_pool *, int policy, const struct place_request *,
                                     struct place_gang *);
/* As place_choose_gang where that finds a place, or where one node could have the GPUs, unless they are to be spread.
   Else on several nodes. */
enum place_verdict place_choose_set(const struct place_pool *, int policy, const struct place_request *,
                                    struct place_set *);
/* Could this GPU hold it, or be one of those that do, if they were empty? */
bool place_could_hold(const struct place_pool *, size_t gpu, const struct place_request *);
/* Keeps GPUs for the asker: of those that could hold it and are kept for nobody the ones where least has to become
   free. Fills kept with request.gpus slots, and returns how many; 0: there are none, or memory is short. */
size_t place_keep(struct place_pool *, const struct place_request *, size_t kept[PLACE_MOST_GPUS]);
/* Why PLACE_NEVER or PLACE_BUSY, for people. */
void place_explain(const struct place_pool *, const struct place_request *, enum place_verdict, char *text,
                   size_t size);

/* Books what place_choose found, or (adoption) what exists whatever it is. */
void place_take(struct place_pool *, size_t gpu, unsigned sharing, uint32_t sms, uint64_t memory);
/* A server that has a place there gets another share of the GPU: whether the GPU has so much, and whether what is
   more than now fits. */
bool place_may_grow(const struct place_pool *, size_t gpu, uint32_t sms, uint32_t more_sms, uint64_t memory,
                    uint64_t more_memory);
void place_rebook(struct place_pool *, size_t gpu, uint32_t old_sms, uint64_t old_memory, uint32_t sms,
                  uint64_t memory);
void place_give_back(struct place_pool *, size_t gpu, uint32_t sms, uint64_t memory);

/* A slot; (size_t)-1: no memory. machine: a text of the node's that lives as long as the slot, and may change. */
size_t place_add(struct place_pool *, void *owner, const void *node, const char *machine);
void place_remove(struct place_pool *, size_t gpu);
void place_free(struct place_pool *);
/* To try things out. False: no memory, and *out is empty. */
bool place_copy(const struct place_pool *, struct place_pool *out);

/* Less is better. Called for GPUs that fit. */
typedef double place_score(const struct place_gpu *, const struct place_result *);
struct place_policy {
    const char *name;
    place_score *score;
};
extern const struct place_policy place_policies[]; /* in the order of cluster_policies */

#endif
