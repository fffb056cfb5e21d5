/*
 * users.c: the user ids that GPU servers run as, where the node manager is root: node.first-user-id and those behind
 * it. The first is for servers that share more than a GPU's memory: NVIDIA MPS serves one user at a time ◊, and the
 * servers on a software GPU with one fault domain share a file. Every other server gets the lowest free one behind it,
 * and keeps it until it ends.
 */
#include "control-managers/node-manager/node.h"
#include "control-managers/node-manager/sandbox.h"

uid_t users_shared(const struct node_manager *node)
{
    bool has = node->config->sandbox != NODE_SANDBOX_OFF && launch_has_users();
    return has ? (uid_t)node->config->first_user : 0;
}

static bool taken(const struct node_manager *node, uid_t user)
{
    for (const struct node_server *server = node->servers; server; server = server->next)
        if (server->user == user)
            return true;
    return false;
}

static uid_t pick(const struct node_server *server, uid_t shared)
{
    uid_t user = shared + 1;
    if (!shared)
        return 0;
    if (server->sharing == CTL_SHARING_MPS && !server_is_software(server))
        return shared;
    if (server->user > shared && server->user - shared <= CTL_MAX_NODE_SERVERS)
        return server->user;
    while (taken(server->node, user))
        user++;
    return user;
}

bool users_take(struct node_server *server)
{
    uid_t user = pick(server, users_shared(server->node));
    bool given = own_give(server, user);
    if (given)
        server->user = user;
    return given;
}
