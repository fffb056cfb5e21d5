/*
 * policy.h: moves that nobody asked for: the configuration's elastic.policy. Every few seconds it looks whether moves
 * would let the first in the queue begin, or else whether one would even the load of two GPUs (balance.h). "advise":
 * an event says which; "act": they begin (moving.h).
 *
 * A cluster has thousands of GPUs, and for each of them it is worked out what its programs could do: this search goes
 * on in slices of a millisecond (struct policy_search, cluster.h), and keeps only where the best moves are. At its end
 * they are worked out again, since books and programs may be others by then. A search is followed by a pause of
 * twenty times the time that it took, and two seconds at least.
 *
 * A program that has begun to move, whoever asked for it and however it ended, is left alone for elastic.pause.
 */
#ifndef FLYT_CLUSTER_POLICY_H
#define FLYT_CLUSTER_POLICY_H

#include "control-managers/cluster-manager/cluster.h"

void policy_start(struct cluster *); /* its timer is cluster->policy */

#endif
