/*
 * config.c: what the environment says, read once by cuInit. What makes no sense is ignored with a warning.
 *
 *   FLYT_SOFTGPU_DEVICES=1            how many devices (0: cuInit gives 100)
 *   FLYT_SOFTGPU_SMS=4                multiprocessors of each
 *   FLYT_SOFTGPU_MEMORY=4G            memory of each, at most three quarters of the host's
 *   FLYT_SOFTGPU_CODE_MEMORY=4G       of the host's memory, for all code of the process; standard: at most half of it
 *   FLYT_SOFTGPU_CC=13.0              compute capability; without it a client may choose (softgpu_capability)
 *   FLYT_SOFTGPU_THREADS=0            host threads that execute; 0: one per core
 *   FLYT_SOFTGPU_FAULT_DOMAIN=process or gpu: a fault reaches all processes of the card FLYT_SOFTGPU_CARD=0 (domain.c)
 *   FLYT_SOFTGPU_MEMCHECK=0           1: kernels are watched (softgpu/check.h); race: for races on shared memory too
 *   FLYT_SOFTGPU_CHAOS=0              seed: delays completions, reorders streams as CUDA allows, refuses address hints
 *   FLYT_SOFTGPU_CHAOS_OOM=0          1: with a seed, allocations fail now and then
 *   FLYT_SOFTGPU_DIRTY=0              1: memory of cuMemCreate is full of a pattern, as if another program had left it
 */
#include "softgpu/driver/machine/machine.h"
#include "softgpu/check.h"
#include "cpu/common/env.h"
#include "cpu/common/log.h"
#include "softgpu/ptx/arena.h"
#include "softgpu/ptx/budget.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CODE_MOST ((size_t)4 << 30)      /* NCCL's library, joined, takes 2.4 GiB */

struct sgd_config sgd_config;

static uint64_t number(const char *name, uint64_t standard, uint64_t least, uint64_t most)
{
    const char *text = env_get(name);
    if (!text || !*text)
        return standard;
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 0);
    if (errno || !isdigit((unsigned char)*text) || *end || value < least || value > most) {
        log_warning("software GPU: %s=%s is not a number from %llu to %llu; using %llu", name, text,
                    (unsigned long long)least, (unsigned long long)most, (unsigned long long)standard);
        return standard;
    }
    return value;
}

/* "2G", "512M", "4096K", or bytes. */
static size_t size_of(const char *name, size_t standard, size_t most)
{
    const char *text = env_get(name);
    if (text && *text) {
        char *end;
        errno = 0;
        double value = strtod(text, &end);
        int shift = *end == 'K' || *end == 'k' ? 10 : *end == 'M' || *end == 'm' ? 20 : *end == 'G' || *end == 'g' ? 30
                  : *end == 'T' || *end == 't' ? 40 : 0;
        value *= (double)(1ull << shift);
        if (errno || end == text || (shift ? end[1] : end[0]) || !(value >= 1) || value > 1e18)
            log_warning("software GPU: %s=%s is not a size such as 2G; using %zu bytes", name, text, standard);
        else
            standard = (size_t)value;
    }
    if (standard > most) {
        log_info("software GPU: %zu bytes of memory per device, three quarters of this host's, instead of %zu", most,
                 standard);
        standard = most;
    }
    standard &= ~(size_t)(SGD_GRANULE - 1);
    return standard ? standard : SGD_GRANULE;
}

/* 13.0: newer than every machine code that NVIDIA's libraries carry. For a device that they know, they choose kernels
   by what they have been tuned for, and find machine code only (cuBLAS 13 does so for 7.5 to 12.1); for one that they
   do not know, they take the kernels whose PTX they carry. */
static void capability(struct sgd_config *c)
{
    c->cc_major = 13;
    c->cc_minor = 0;
    c->cc_given = false;
    const char *text = env_get("FLYT_SOFTGPU_CC");
    if (!text || !*text)
        return;
    char *end;
    unsigned long major = strtoul(text, &end, 10), minor = 0;
    if (*end == '.')
        minor = strtoul(end + 1, &end, 10);
    else if (major > 20) {                  /* "121" */
        minor = major % 10;
        major /= 10;
    }
    if (*end || end == text || major < 3 || major > 99 || minor > 9) {
        log_warning("software GPU: FLYT_SOFTGPU_CC=%s is not a compute capability such as 9.0; using 13.0", text);
        return;
    }
    c->cc_major = (unsigned)major;
    c->cc_minor = (unsigned)minor;
    c->cc_given = true;
}

static void memcheck(void)
{
    const char *text = env_get("FLYT_SOFTGPU_MEMCHECK");
    if (!text || !*text || !strcmp(text, "0"))
        return;
    if (!strcmp(text, "1"))
        sg_check = SG_CHECK_MEMORY;
    else if (!strcmp(text, "race"))
        sg_check = SG_CHECK_MEMORY | SG_CHECK_RACE;
    else
        log_warning("software GPU: FLYT_SOFTGPU_MEMCHECK=%s is neither 1 nor race; nothing is checked", text);
}

void sgd_config_read(void)
{
    struct sgd_config *c = &sgd_config;
    c->devices = (unsigned)number("FLYT_SOFTGPU_DEVICES", 1, 0, SGD_MAX_DEVICES);
    c->sm_count = (unsigned)number("FLYT_SOFTGPU_SMS", 4, 1, 1024);
    c->threads = (unsigned)number("FLYT_SOFTGPU_THREADS", 0, 0, 1024);
    c->chaos = number("FLYT_SOFTGPU_CHAOS", 0, 0, UINT64_MAX);
    c->chaos_oom = number("FLYT_SOFTGPU_CHAOS_OOM", 0, 0, 1) != 0;
    c->dirty = number("FLYT_SOFTGPU_DIRTY", 0, 0, 1) != 0;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    size_t host = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : (size_t)4 << 30;
    c->memory = size_of("FLYT_SOFTGPU_MEMORY", (size_t)4 << 30, host / 4 * 3);
    capability(c);
    const char *host_memory = env_get("FLYT_TENANT_HOST_MEMORY"); /* the node manager's, in bytes */
    unsigned long long half = host_memory ? strtoull(host_memory, NULL, 10) / 2 : 0;
    const size_t code = half && half < CODE_MOST ? (size_t)half : CODE_MOST < host / 2 ? CODE_MOST : host / 2;
    ptx_arena_most = ptx_budget_most = size_of("FLYT_SOFTGPU_CODE_MEMORY", code, SIZE_MAX);
    memcheck();
    const char *domain = env_get("FLYT_SOFTGPU_FAULT_DOMAIN");
    c->fault_gpu = domain && !strcmp(domain, "gpu");
    if (domain && *domain && !c->fault_gpu && strcmp(domain, "process"))
        log_warning("software GPU: FLYT_SOFTGPU_FAULT_DOMAIN=%s is neither process nor gpu; using process", domain);
}
