/*
 * peer.c: peer access: kernels of one context may touch the device memory of a context on another device, once the
 * program has asked for that. CUDA reference: Peer Context Memory Access.
 *
 * Each permission is a link from the context that got it to the context whose memory it is. The table of rights
 * (space.c) knows devices only: a device may touch the memory of a context while one of the device's contexts has a
 * link to it.
 */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>

struct peer_link {
    struct peer_link *next;
    struct sgd_context *from, *to;
};
static struct peer_link *links;

static struct peer_link **find(const struct sgd_context *from, const struct sgd_context *to)
{
    struct peer_link **at = &links;
    while (*at && ((*at)->from != from || (*at)->to != to))
        at = &(*at)->next;
    return at;
}

unsigned sgd_peers_of(const struct sgd_context *owner)
{
    unsigned devices = 0;
    for (const struct peer_link *l = links; l; l = l->next)
        if (l->to == owner)
            devices |= 1u << l->from->device->ordinal;
    return devices;
}

static void drop(struct peer_link **at)
{
    struct peer_link *gone = *at;
    unsigned device = 1u << gone->from->device->ordinal;
    *at = gone->next;
    if (!(sgd_peers_of(gone->to) & device))
        sgd_memory_peer(gone->to, device, false);
    free(gone);
}

CUresult sgd_peer_enable(struct sgd_context *from, struct sgd_context *to)
{
    if (*find(from, to))
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    struct peer_link *new = malloc(sizeof *new);
    if (!new)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *new = (struct peer_link){ links, from, to };
    links = new;
    sgd_memory_peer(to, 1u << from->device->ordinal, true);
    return CUDA_SUCCESS;
}

CUresult sgd_peer_disable(struct sgd_context *from, struct sgd_context *to)
{
    struct peer_link **at = find(from, to);
    if (!*at)
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    drop(at);
    return CUDA_SUCCESS;
}

void sgd_peers_forget(const struct sgd_context *c)
{
    for (struct peer_link **at = &links; *at;)
        if ((*at)->from == c || (*at)->to == c)
            drop(at);
        else
            at = &(*at)->next;
}
