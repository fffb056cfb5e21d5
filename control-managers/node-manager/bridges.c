/*
 * bridges.c: a program moves from one GPU server of this node to another. The node manager makes a socket pair, and
 * gives each server an end of it for the worker of that program (cpu/common/bridge_message.h). It dials nothing, and
 * passes nothing on: what the two workers say to each other does not come through here. Only servers of one VM are
 * connected, whatever the order says.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

void bridge_begin(struct node_manager *node, uint64_t order, const node_bridge *wish)
{
    struct node_server *source = server_find(node, wish->source), *target = server_find(node, wish->target);
    char text[CTL_MAX_TEXT + 1] = "";
    int ends[2];
    ctl_code code = CTL_OK;
    if (!source || !target)
        code = explain(text, CTL_NOT_FOUND, "there is no such server");
    else if (!wish->prog || source == target || strcmp(source->vm, target->vm) != 0)
        code = explain(text, CTL_INVALID, "servers %llu and %llu are not two of one VM",
                       (unsigned long long)wish->source, (unsigned long long)wish->target);
    else if (!source->controlled || !target->controlled)
        code = explain(text, CTL_NOT_SUPPORTED, "a server of an earlier release");
    else if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        code = explain(text, CTL_INTERNAL, "socketpair: %s", strerror(errno));
    if (code != CTL_OK) {
        node_report_order(node, order, code, text);
        return;
    }
    log_info("event=bridge program=%llu from=%llu to=%llu", (unsigned long long)wish->prog,
             (unsigned long long)wish->source, (unsigned long long)wish->target);
    /* The program learns of the move when the server where it is has its end. The other one has its end before it sees
       the program. */
    share_bridge(target, wish->prog, false, ends[1], 0);
    share_bridge(source, wish->prog, true, ends[0], order);
}
