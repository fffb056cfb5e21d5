/*
 * moving.h: running programs move to other GPUs, are suspended and resumed (the first and the second half of a move)
 * and saved. moves.h says in which states; this carries out what follows from them:
 * books, rows, orders, and which server a program has.
 *
 * What happens to nodes and servers is not reported here: moving_look compares each move with what there is, and is
 * called behind whatever may have changed it. So the rules about servers need not know of moves, but for two counts:
 * a server with `reserved` is not idle, and one with `reserved` or `leaving` keeps its share.
 */
#ifndef FLYT_CLUSTER_MOVING_H
#define FLYT_CLUSTER_MOVING_H

#include "control-managers/cluster-manager/changes.h"
#include "control-managers/cluster-manager/moves.h"

enum { MOVES_KEPT = 100, MOVE_PATIENCE_MS = 2000, MOVE_WITHIN_MS = 60000, MOVE_MOST_MS = 3600 * 1000 };

struct moved_program {
    struct moved_program *next;
    struct cluster *cluster;
    uint64_t id, program, source, target; /* the last two: servers, or 0 where the action has none */
    admin_move_action action;
    struct move_course is;
    bool fresh;   /* to a new server of the same GPU */
    bool together; /* with all that share memory with it; of one that was read from the DB this is not known */
    bool holds;   /* it counts in reserved and leaving */
    bool durable; /* its row is */
    bool unsaid;  /* the order: the node of the target has not yet said where its server is, or connected the two */
    bool asked_bridge;
    bool again;   /* its library waits for its next try, for which the two servers are being connected once more */
    uint64_t group;        /* the move of the first program of those that share memory; 0: none does */
    uint64_t bridge_order; /* NODE_ORDER_BRIDGE or NODE_ORDER_DIAL that is under way; 0: none */
    char vm[CTL_MAX_NAME + 1], executable[CTL_MAX_PATH + 1], by[CTL_MAX_NAME + 1];
    char from_node[CTL_MAX_NAME + 1], from_gpu[CTL_MAX_NAME + 1], to_node[CTL_MAX_NAME + 1], to_gpu[CTL_MAX_NAME + 1];
    int64_t begun, ended;
    uint64_t outage_us, bytes;
    uint32_t patience_ms, within_ms;
    ctl_progress progress;                /* as its library has said last */
    uint64_t bandwidth, given_bandwidth;  /* as the administrator limits it; what it may have beside others */
    uint32_t downtime_ms;
    bool bridged;                         /* on one node, which has connected the two servers */
    ctl_code code;
    char text[CTL_MAX_TEXT + 1]; /* why it failed */
    char file[CTL_MAX_PATH + 1]; /* CHECKPOINT, SUSPEND; "": none */
    char base[CTL_MAX_PATH + 1]; /* of a checkpoint with the changes alone; "": none */
    struct loop_timer timer;
};

/* What an administrator asks for. */
struct move_wish {
    const void *to;          /* a node or a GPU (struct cluster_gpu); NULL: any other GPU */
    const struct node *node; /* of it */
    const char *by, *file, *base;
    admin_move_action action;
    uint64_t memory;     /* 0: as it has */
    uint64_t bandwidth;  /* bytes a second; 0: as configured */
    uint32_t sms, patience_ms, within_ms, downtime_ms;
    bool together;       /* programs of one server share one again; those that share memory go along */
    struct server *into; /* the server to which its group moves; NULL: there is none */
    uint64_t group;
    bool fresh;          /* a new server of the GPU where it is; `to` is NULL, or names that */
};

static inline bool move_has_target(const struct moved_program *move)
{
    return move->action == ADMIN_ACTION_MOVE || move->action == ADMIN_ACTION_RESUME;
}
/* move_check.c: whether the program can be spoken to, and nothing else is being done with it; why not: text. */
bool moving_possible(struct cluster *, const struct program *, char *text);
/* CTL_OK, and it is under way; or why not, with text (CTL_MAX_TEXT + 1), and nothing has changed. */
ctl_code moving_begin(struct cluster *, struct program *, const struct move_wish *, struct moved_program **,
                      char *text);
/* As soon as it can still be. False: it has ended. */
bool moving_cancel(struct cluster *, struct moved_program *, const char *by, const char *why);
void moving_look(struct cluster *);
/* That server has ended, as its node says: why, for those that were to move there. moving_look does the rest. */
void moving_target_gone(struct cluster *, const struct server *target, const char *why);
/* move_list.c: which there are. */
struct moved_program *moving_find(struct cluster *, uint64_t id);
struct moved_program *moving_of(struct cluster *, uint64_t program); /* that has not ended */
void moving_forget_oldest(struct cluster *);              /* of those that have ended, but for MOVES_KEPT */
unsigned moves_under_way(const struct cluster *);
void moving_count_end(struct moved_program *);            /* it has ended */
void moving_load(struct cluster *, uint64_t id, const char *row); /* at the start; its program is named later */
void moving_end(struct cluster *);                                /* at the end: frees */
/* move_pace.c: how fast they may go, and how far they are. */
bool moving_is_limited(const struct move_wish *);         /* by the administrator */
void moving_tell_limits(const struct moved_program *);    /* to its client manager */
/* A move began or ended: the bandwidth of the nodes is divided anew. */
void moving_divide(struct cluster *);
void moving_fill_limits(struct cluster *, uint64_t key, uint64_t move, client_limits *);
void moving_said_progress(struct cluster *, struct vm *, const client_progress_args *);
/* Its library waits for its next try. The new server may have seen the ticket, and the connection of the two servers
   ended with the try before: both are made anew, the ticket last. */
void moving_try_again(struct moved_program *);
void moving_give_ticket(const struct moved_program *);    /* move_pace.c: if it still wants one */
/* move_group.c: programs that share memory: it names those with which the same is to be done as with the first one.
   CTL_OK: it is. */
ctl_code moving_group(struct cluster *, struct vm *, const client_group_args *, char *text);
/* Before the order of each: to its client manager. */
void moving_tell_group(const struct moved_program *);
void moving_fill_group(struct cluster *, uint64_t key, uint64_t move, client_group *);
/* CTL_WAITING, with text: the program's last move has ended, but not yet those of all programs that moved with it, so
   that these may still be where it was. */
ctl_code moving_group_ended(const struct cluster *, const struct program *, char *text);
/* What a client manager says. */
void moving_said(struct cluster *, struct vm *, const client_moved_args *);
/* Whether it was the answer to a NODE_ORDER_BRIDGE. */
bool moving_bridged(struct cluster *, const node_order_done *);
void moving_client_back(struct cluster *, struct vm *); /* it has named its programs */
/* The program is suspended, as its client manager says after a reconnection. */
void moving_named_suspended(struct cluster *, struct program *);
/* That server is the one that the program uses, as its client manager says after a reconnection. */
void moving_named(struct cluster *, const struct program *, const struct server *);

#endif
