/*
 * ports.c: no TCP socket of a GPU server gets a port or an address, by the kernel's Landlock.
 *
 * The filter of system calls (seccomp.c) refuses bind and connect as a whole: it does not see the kind of a socket.
 * NVIDIA's driver listens at a unix socket when it starts, and a client of MPS connects one: for these it allows the
 * calls, and Landlock keeps them from the sockets of the machine's network that the server listens on and accepts.
 * Landlock knows the network since Linux 6.7; an older kernel has only what the filter does.
 */
#include <errno.h>
#include <linux/types.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control-managers/node-manager/sandbox.h"

/* Of <linux/landlock.h>, whose Debian 12 form is older than the network. */
struct ruleset { __u64 handled_access_fs, handled_access_net; };
enum { NET_BIND_TCP = 1, NET_CONNECT_TCP = 2 };
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self 446
#endif

int ports_shut(void)
{
    const struct ruleset nothing = { .handled_access_net = NET_BIND_TCP | NET_CONNECT_TCP };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -errno;
    int rules = (int)syscall(SYS_landlock_create_ruleset, &nothing, sizeof nothing, 0);
    if (rules < 0) /* the kernel is older (E2BIG, ENOMSG), or has it switched off */
        return -errno;
    int failure = syscall(SYS_landlock_restrict_self, rules, 0) == 0 ? 0 : -errno;
    close(rules);
    return failure;
}
