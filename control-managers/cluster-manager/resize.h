/*
 * resize.h: the shares of running servers change.
 *
 *   booked (the larger of old and new, each) -> row durable -> ordered -> settled (booked: what the server has)
 *
 * At every moment the row of a server says at least as much as the server may have. So whoever dies in between, the
 * books are never too small; and they are right again when the node has said what the server has (NODE_REPORT_SHARE),
 * which it does after each registration.
 *
 * A change of several servers is made by all or by none: if one refuses, those that took it get their old shares back.
 */
#ifndef FLYT_CLUSTER_RESIZE_H
#define FLYT_CLUSTER_RESIZE_H

#include "control-managers/cluster-manager/changes.h"

enum { RESIZE_SERVERS = 256 };

/* A change of shares that an administrator asks for: of all servers of a VM, or of the one that the program `client`
   uses. */
struct resize_wish {
    admin_change_kind kind;
    uint64_t client, memory; /* client: 0: all. memory: bytes, of each server; sms, memory 0: as they are */
    uint32_t sms, within_ms;
    bool plain;           /* how `done` answers */
    struct change then;   /* kind not NULL: what `done` makes of a success */
    /* Once. conn, call: NULL: the asker has gone. With CTL_OK text says what was changed, or is empty: nothing had to
       be. */
    void (*done)(struct conn *conn, struct loop_call *call, const struct resize_wish *, ctl_code, char *text);
};

/* Takes a copy. `done` may be called at once. */
void resize_begin(struct conn *, struct loop_call *, struct vm *, const struct resize_wish *);
bool resize_under_way(struct cluster *, uint64_t server);
/* Takes a node's answer to an order. False: the order was not about a share. */
bool resize_order_done(struct cluster *, struct node *, const node_order_done *);
void resize_reported(struct cluster *, struct server *, const node_share *);
void resize_node_back(struct cluster *, struct node *); /* it has registered: it may have lost orders */
void resize_server_gone(struct cluster *, struct server *, const char *why); /* before it is destroyed */
void resizes_forget(struct cluster_session *);                  /* the asker has gone */
void resizes_end(struct cluster *);                     /* at the end: frees */

#endif
