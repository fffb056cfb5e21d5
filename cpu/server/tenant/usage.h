/*
 * usage.h: what a session writes into the tenant's usage file for libnvidia-ml (usage.c).
 */
#ifndef FLYT_SERVER_USAGE_H
#define FLYT_SERVER_USAGE_H

#include "cpu/rpc/cpu_rpc_prot.h"

struct device;
struct session;

void usage_begin(struct session *, const hello_args *);     /* the session is this program's */
void usage_device(const struct device *);                   /* mapped or charged has changed; under session.charging */
/* The pulse, about every `tick` ns: does it have work under way? */
void usage_look(struct session *, uint64_t tick);

#endif
