/* gpu.c: which GPUs this machine has, and what a server may ask of one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cpu/common/explain.h"
#include "control-managers/node-manager/node.h"
#include "cpu/common/log.h"

/* node.sharing leaves nothing of what the GPUs offer: no program could ever run here, which is to be known at once. */
static bool nothing_offered(const struct node_manager *node, char *error)
{
    char allowed[PROTOCOL_SHARING_SIZE], offered[PROTOCOL_SHARING_SIZE];
    unsigned kinds = 0, ready = 0;
    const char *why = "";
    for (unsigned i = 0; i < node->gpu_count; i++) {
        kinds |= node->gpus[i].sharing;
        ready += node->gpus[i].state == CTL_GPU_READY;
        why = node->gpus[i].text[0] ? node->gpus[i].text : why;
    }
    if (!ready || kinds & node->config->sharing)
        return false;
    explain(error, 0,
            "node.sharing allows %s, and the GPUs of this machine offer %s only%s%.600s: nothing could run here",
            protocol_sharing_text(node->config->sharing, allowed), protocol_sharing_text(kinds, offered),
            *why ? "; " : "", why);
    return true;
}

int gpu_discover(struct node_manager *node, char *error)
{
    int kind = node->config->gpu, found = -ENOENT;
    if (kind != NODE_GPU_SOFTWARE) {
        found = gpu_nvidia_discover(node, error);
        if (found < 0 && kind == NODE_GPU_NVIDIA) {
            char why[EXPLAIN_SIZE];
            snprintf(why, sizeof why, "%s", error);
            return explain(
                error, found,
                "node.gpu is \"nvidia\", and no NVIDIA driver answers on this machine (%.600s): install it, or set "
                "node.gpu to \"software\" or \"auto\"",
                why);
        }
        if (found < 0)
            log_info("event=no-nvidia-gpu why=\"%s\": the software GPU is used", error);
    }
    if (found <= 0 && kind != NODE_GPU_NVIDIA)
        found = gpu_software_discover(node, error);
    if (found == 0)
        found =
            explain(error, -ENODEV,
                    "the NVIDIA driver of this machine finds no GPU: see nvidia-smi, or set node.gpu to \"software\"");
    if (found > 0 && nothing_offered(node, error))
        return -ENOTSUP;
    for (unsigned i = 0; i < node->gpu_count; i++) {
        struct node_gpu *gpu = &node->gpus[i];
        char kinds[PROTOCOL_SHARING_SIZE];
        gpu->sharing &= node->config->sharing;
        log_info("event=gpu id=%s product=\"%s\" sms=%u memory=%llu sharing=%s%s%s%s", gpu->id, gpu->product, gpu->sms,
                 (unsigned long long)gpu->memory, protocol_sharing_text(gpu->sharing, kinds),
                 gpu->text[0] ? " text=\"" : "", gpu->text, gpu->text[0] ? "\"" : "");
    }
    return found < 0 ? found : 0;
}

ctl_code gpu_check(struct node_manager *node, const char *id, const ctl_server_spec *spec, char *text)
{
    const struct node_gpu *gpu = node_gpu(node, id);
    char kinds[PROTOCOL_SHARING_SIZE];
    if (!gpu)
        return explain(text, CTL_NOT_FOUND, "there is no GPU %s on this node", id);
    if (gpu->state != CTL_GPU_READY)
        return explain(text, CTL_BUSY, "GPU %s is not ready: %s", gpu->id, gpu->text);
    if (!(gpu->sharing & spec->sharing))
        return explain(text, CTL_NOT_SUPPORTED, "GPU %s does not offer the sharing %s%s%s", gpu->id,
                       protocol_sharing_text(spec->sharing, kinds), gpu->text[0] ? ": " : "", gpu->text);
    if (spec->sms > gpu->sms || spec->memory > gpu->memory)
        return explain(text, CTL_NO_ROOM, "GPU %s has %u SMs and %llu MiB; %u SMs and %llu MiB were asked for", gpu->id,
                       gpu->sms, (unsigned long long)(gpu->memory >> 20), spec->sms,
                       (unsigned long long)(spec->memory >> 20));
    if (spec->sms && spec->sms < gpu->sms && !gpu->sm_limits)
        return explain(text, CTL_NOT_SUPPORTED, "a limit of %u of %u SMs cannot be held on GPU %s: %s", spec->sms,
                       gpu->sms, gpu->id, gpu->text[0] ? gpu->text : "its driver offers no way to");
    /* The state of MPS may have changed since it was looked at. */
    if (!gpu->software && spec->sharing == CTL_SHARING_MPS && !mps_ready(node->config->mps_directory, text))
        return CTL_NOT_SUPPORTED;
    return CTL_OK;
}

struct node_gpu *node_gpu(struct node_manager *node, const char *id)
{
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (strcmp(node->gpus[i].id, id) == 0)
            return &node->gpus[i];
    return NULL;
}

bool server_has_gpu(const struct node_server *server, const struct node_gpu *gpu)
{
    for (unsigned i = 0; i < server->gpu_count; i++)
        if (strcmp(server->gpus[i], gpu->id) == 0)
            return true;
    return false;
}

const char *server_gpus(const struct node_server *server, char out[SERVER_GPUS_SIZE])
{
    size_t at = 0;
    *out = '\0';
    for (unsigned i = 0; i < server->gpu_count; i++)
        at += (size_t)snprintf(out + at, SERVER_GPUS_SIZE - at, "%s%s", i ? "," : "", server->gpus[i]);
    return out;
}

bool server_is_software(const struct node_server *server)
{
    const struct node_gpu *gpu = node_gpu(server->node, server->gpus[0]);
    return gpu && gpu->software;
}

void node_gpu_fill(struct node_gpu *gpu, ctl_gpu *out)
{
    *out = (ctl_gpu){ .id = gpu->id,
                      .product = gpu->product,
                      .index = gpu->index,
                      .sms = gpu->sms,
                      .clock_mhz = gpu->clock_mhz,
                      .memory = gpu->memory,
                      .sharing = gpu->sharing,
                      .sm_limits = gpu->sm_limits,
                      .state = gpu->state,
                      .text = gpu->text };
}
