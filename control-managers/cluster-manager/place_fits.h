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

/* How many GPUs nodes have that suit a gang. Messages name these numbers. */
struct place_chances {
    size_t most;     /* GPUs of one node that could be given if they were empty */
    size_t most_now; /* and that are free, of the node that has most of those */
    size_t kept;     /* for other askers */
    bool old_nodes;  /* there are GPUs that could be given, but for the release of their node */
};
struct place_chances place_gang_chances(const struct place_pool *, const struct place_request *);

#endif
