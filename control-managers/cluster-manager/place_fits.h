/*
 * place_fits.h: what fits on one GPU, for the files that choose one (place.c) or several (place_gang.c).
 */
#ifndef FLYT_CLUSTER_PLACE_FITS_H
#define FLYT_CLUSTER_PLACE_FITS_H

#include "control-managers/cluster-manager/place.h"
#include "control-managers/common/protocol.h"

/* Kinds of sharing in the order in which they are tried: a fault stays in one worker, and the GPU is shared, before it
   does not, or is not. */
enum { PLACE_KINDS = 4 };
extern const unsigned place_kinds[PLACE_KINDS];

/* Kinds with one server on a GPU. */
#define PLACE_ONE_SERVER ((unsigned)(CTL_SHARING_EXCLUSIVE | CTL_SHARING_MIG))

/* The kinds with which it could go there if the GPU were empty; 0: it could not. Fills the amounts. */
unsigned place_kinds_if_empty(const struct place_gpu *, const struct place_request *, struct place_result *);
/* Whether these amounts are free for a server of that kind. */
bool place_fits_now(const struct place_pool *, const struct place_gpu *, unsigned sharing, const struct place_result *);
/* The rank of a GPU, which is compared before its score: whether the VM can use it, then where it is. */
int place_rank(const struct place_gpu *, const struct place_request *);
/* Whether (rank, score) of a beats that of b. */
bool place_better(int a_rank, double a, int b_rank, double b);

/* A GPU that could take a part of a gang. */
struct gang_seat {
    size_t slot;
    const void *node;
    unsigned kinds, now; /* if the GPU were empty; as it is */
    double score;
    int rank;
    struct place_result result;
};
/* GPUs, neighbours in the array, of one node. */
struct gang_node { const struct gang_seat *first; size_t count; };
/* All that could take a part, scored by the policy, neighbours of one node, the best of a node first. The caller frees
   it. NULL: no memory. */
struct gang_seat *gang_gather(const struct place_pool *, int policy, const struct place_request *, size_t *count);
/* The group that begins there. */
struct gang_node gang_group_at(const struct gang_seat *all, size_t count, size_t at);
/* The first so many of the node that are free for that kind; true: there are so many. */
bool gang_take_best(const struct gang_node *, unsigned kind, size_t gpus, struct place_gang *out, double *score);
/* Of a pool in which no place was found: some GPU has not been reported since a restart, and may do; or none has. */
enum place_verdict gang_without(const struct place_pool *);

/* How many GPUs nodes have that suit a gang. Messages name these numbers. */
struct place_chances {
    size_t all;      /* GPUs of all nodes that could be given if they were empty */
    size_t all_now;  /* and that are free */
    size_t most;     /* of one node */
    size_t most_now; /* and that are free, of the node that has most of those */
    size_t kept;     /* for other askers */
    bool old_nodes;  /* there are GPUs that could be given, but for the release of their node */
};
struct place_chances place_gang_chances(const struct place_pool *, const struct place_request *);

#endif
