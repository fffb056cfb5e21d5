/* usage_state.h: what usage.c keeps, for admin_counters.c and admin_follow.c, which answer about it. */
#ifndef FLYT_CLUSTER_USAGE_STATE_H
#define FLYT_CLUSTER_USAGE_STATE_H

#include "control-managers/cluster-manager/cluster.h"

enum { USAGE_MOST_ROWS = 20000, TOTAL_KEY_SIZE = CTL_MAX_NAME + 4 };
enum total_of { TOTAL_VM, TOTAL_NODE, TOTAL_GPU };
enum { TOTALS_OF_SERVER = 2 + CTL_MAX_SERVER_GPUS };

/* Of a VM, a node, a GPU: all that its servers ever did. `saved`: what the DB has of it. */
struct total {
    struct followed followed;
    enum total_of of;
    uint64_t id;
    char name[CTL_MAX_NAME + 1];
    ctl_figures all, saved;
    uint64_t sm_us, saved_sm_us;
};

/* A row of usage. */
struct used {
    struct db_usage row;
    struct program *program; /* that it goes on with; NULL: none */
    bool unsaved;            /* the resource DB could not be given its newest state */
    bool open;               /* an earlier run of this manager began it, and its program has not come back */
    int64_t saved;
};

struct usage {
    struct map totals;
    struct used **rows; /* in the order of their ids, nearly */
    size_t count, room, open;
    size_t next_server; /* to be saved */
    size_t next_row;    /* to be looked at, whether it is to be summed */
    struct loop_timer save;
};

#endif
