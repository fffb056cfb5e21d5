/*
 * gpu_software.c: software GPUs: FLYT_SOFTGPU_DEVICES of them with FLYT_SOFTGPU_SMS multiprocessors and
 * FLYT_SOFTGPU_MEMORY bytes each, as the software GPU itself reads these. Each server gets one device of the size of
 * its tenant's slice, so its limits hold for every kind of sharing. FLYT_SOFTGPU_FAULT_DOMAIN=gpu makes them behave as
 * under MPS: then they offer no kind of sharing that would keep a fault in one worker, but exclusive.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/explain.h"
#include "control-managers/node-manager/node.h"

static int number(const char *name, unsigned standard, unsigned least, unsigned most, unsigned *out, char *error)
{
    const char *text = getenv(name);
    char *end;
    *out = standard;
    if (!text || !*text)
        return 0;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value < least || value > most)
        return explain(error, -EINVAL, "%s=%s is not a number from %u to %u", name, text, least, most);
    *out = (unsigned)value;
    return 0;
}

/* Cards of two clusters on one machine, whose nodes may have the same names, are distinguished by the state folder
 * (FNV-1a). */
static unsigned state_mark(const struct node_manager *node)
{
    uint32_t hash = 2166136261u;
    for (const char *at = node->servers_path; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    return hash;
}

int gpu_software_discover(struct node_manager *node, char *error)
{
    unsigned devices, sms;
    uint64_t memory = UINT64_C(4) << 30;
    const char *size = getenv("FLYT_SOFTGPU_MEMORY"), *domain = getenv("FLYT_SOFTGPU_FAULT_DOMAIN");
    if (number("FLYT_SOFTGPU_DEVICES", 1, 0, 16, &devices, error) ||
        number("FLYT_SOFTGPU_SMS", 4, 1, 1024, &sms, error))
        return -EINVAL;
    if (size && *size && (config_parse_size(size, &memory) != 0 || memory < 4 << 20))
        return explain(error, -EINVAL, "FLYT_SOFTGPU_MEMORY=%s is not a size such as 2G", size);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    uint64_t most = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 4 * 3 : memory;
    if (memory > most)
        memory = most;
    memory &= ~(uint64_t)((2 << 20) - 1);
    bool whole = domain && strcmp(domain, "gpu") == 0;
    for (unsigned i = 0; i < devices && node->gpu_count < CTL_MAX_GPUS; i++) {
        struct node_gpu *gpu = &node->gpus[node->gpu_count++];
        *gpu = (struct node_gpu){ .software = true,
                                  .index = i,
                                  .sms = sms,
                                  .memory = memory,
                                  .sm_limits = 1,
                                  .clock_mhz = 1000,
                                  .sharing =
                                      CTL_SHARING_EXCLUSIVE | CTL_SHARING_MPS | (whole ? 0 : CTL_SHARING_TIME_SLICE) };
        snprintf(gpu->id, sizeof gpu->id, "soft-%.40s-%u", node->name, i);
        snprintf(gpu->product, sizeof gpu->product, PROTOCOL_SOFTWARE_GPU);
        snprintf(gpu->card, sizeof gpu->card, "%.40s-%u-%08x", node->name, i, state_mark(node));
        for (char *at = gpu->card; *at; at++)
            if (strchr(".:", *at))
                *at = '_';
        if (whole)
            snprintf(gpu->text, sizeof gpu->text,
                     "a fault ends the work of all tenants (FLYT_SOFTGPU_FAULT_DOMAIN=gpu)");
    }
    return (int)devices;
}
