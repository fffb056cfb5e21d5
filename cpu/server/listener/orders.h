/* orders.h: what the node manager orders from a server that runs, over its control socket (share_order.h). */
#ifndef FLYT_SERVER_ORDERS_H
#define FLYT_SERVER_ORDERS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/share_order.h"
#include "cpu/server/listener/bridges.h"
#include "cpu/server/listener/workers.h"

enum { ORDERS_POLLED = 2 };

struct orders {
    int listens, connection;       /* -1: none */
    const char *gpu;               /* as on the command line */
    struct workers *workers;
    struct bridges *bridges;
    uint32_t sms;                  /* as ordered last; 0: as the driver has shown */
    /* A SET that waits until the programs fit. */
    bool waits;
    struct share_order waiting;
    uint64_t deadline, ask_again;  /* clock_now */
};

/* listens: a socket that the caller has made, or -1. */
void orders_open(struct orders *, int listens, const char *gpu, struct workers *, struct bridges *);
void orders_poll(const struct orders *, struct pollfd polled[ORDERS_POLLED]);
/* After poll, in each turn of the listener. Never blocks. */
void orders_turn(struct orders *, const struct pollfd polled[ORDERS_POLLED]);
uint64_t orders_due(const struct orders *); /* until when poll may sleep */
void orders_close(struct orders *);

#endif
