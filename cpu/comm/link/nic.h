/*
 * nic.h: the network cards of this machine that links use. Without a list: all that are up and have an address, but for
 * loopback, bridges of containers, and cards with less than a quarter of the fastest one's speed; loopback if nothing
 * is left.
 */
#ifndef FLYT_COMM_LINK_NIC_H
#define FLYT_COMM_LINK_NIC_H

#include "cpu/comm/link/link.h"

#include <sys/socket.h>

struct comm_nic {
    char                name[16];
    struct comm_address address;                /* port 0 */
    unsigned            mbit;                   /* 0: not known */
    int                 numa;                   /* node, -1: not known */
};

/* How many, or -ENODEV: one of the list is not there, or has no address. */
int  comm_nic_list(const char *interfaces, struct comm_nic nics[COMM_NICS_MOST], char *error);
/* Of an IP address. Gives the size. */
socklen_t comm_nic_socket_address(const struct comm_address *, struct sockaddr_storage *);
/* Whether the address belongs to this machine. */
bool comm_nic_is_own(const struct comm_address *);

#endif
