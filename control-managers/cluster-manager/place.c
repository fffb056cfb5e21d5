#include "control-managers/cluster-manager/place_fits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/common/protocol.h"

const unsigned place_kinds[PLACE_KINDS] = { CTL_SHARING_MIG, CTL_SHARING_TIME_SLICE, CTL_SHARING_MPS,
                                            CTL_SHARING_EXCLUSIVE };

/* ---- policies ---- */

/* SMs that would be left; what is left of the memory decides between equals. */
static double best_fit(const struct place_gpu *gpu, const struct place_result *result)
{
    double sms = (double)gpu->sms - gpu->used_sms - result->sms;
    double memory = (double)gpu->memory - (double)gpu->used_memory - (double)result->memory;
    return sms + (gpu->memory ? memory / (double)gpu->memory : 0) / 2;
}

static double spread(const struct place_gpu *gpu, const struct place_result *result)
{
    return -best_fit(gpu, result);
}

static double first_fit(const struct place_gpu *gpu, const struct place_result *result)
{
    (void)gpu, (void)result;
    return 0;
}

const struct place_policy place_policies[] = {
    { "best-fit", best_fit }, { "spread", spread }, { "first-fit", first_fit }, { NULL, NULL },
};

/* ---- fitting ---- */

static bool is_avoided(const struct place_gpu *gpu, const struct place_request *request)
{
    if (request->only && request->only != gpu->node && request->only != gpu->owner)
        return true;
    for (size_t i = 0; i < request->avoid_count; i++)
        if (request->avoid[i] == gpu->node || request->avoid[i] == gpu->owner)
            return true;
    return false;
}

unsigned place_kinds_if_empty(const struct place_gpu *gpu, const struct place_request *request,
                              struct place_result *result)
{
    unsigned kinds = gpu->offered & request->accepted;
    result->sms = request->sms ? request->sms : gpu->sms;
    result->memory = request->memory ? request->memory : gpu->memory;
    if (!gpu->owner || !gpu->sms || result->sms > gpu->sms || result->memory > gpu->memory || is_avoided(gpu, request))
        return 0;
    /* A limit that cannot be held is refused. A MIG instance is its own limit. */
    if (result->sms < gpu->sms && !gpu->sm_limits)
        kinds &= CTL_SHARING_MIG;
    return kinds;
}

bool place_fits_now(const struct place_pool *pool, const struct place_gpu *gpu, unsigned sharing,
                    const struct place_result *result)
{
    if (!gpu->schedulable)
        return false;
    if (gpu->users == 0)
        return true;
    if ((sharing & PLACE_ONE_SERVER) || gpu->sharing != sharing)
        return false;
    double sms = (double)gpu->sms * pool->overcommit_sms, memory = (double)gpu->memory * pool->overcommit_memory;
    if (pool->overcommit_sms <= 1 ? result->sms > gpu->sms - (gpu->used_sms < gpu->sms ? gpu->used_sms : gpu->sms)
                                  : (double)gpu->used_sms + result->sms > sms)
        return false;
    return pool->overcommit_memory <= 1
               ? result->memory <= gpu->memory - (gpu->used_memory < gpu->memory ? gpu->used_memory : gpu->memory)
               : (double)gpu->used_memory + (double)result->memory <= memory;
}

static unsigned choose_kind(const struct place_pool *pool, const struct place_gpu *gpu, unsigned kinds,
                            const struct place_result *result)
{
    for (int i = 0; i < PLACE_KINDS; i++)
        if (kinds & place_kinds[i] && place_fits_now(pool, gpu, place_kinds[i], result))
            return place_kinds[i];
    return 0;
}

static bool is_preferred(const struct place_gpu *gpu, const struct place_request *request)
{
    if (request->preferred)
        return gpu->node == request->preferred;
    return request->machine && *request->machine && strcmp(gpu->machine, request->machine) == 0;
}

int place_rank(const struct place_gpu *gpu, const struct place_request *request)
{
    bool preferred = is_preferred(gpu, request);
    return 2 * (!request->tls || gpu->tls || preferred) + preferred;
}

bool place_better(int a_rank, double a, int b_rank, double b)
{
    return a_rank != b_rank ? a_rank > b_rank : a < b;
}

enum place_verdict place_choose(const struct place_pool *pool, int policy, const struct place_request *request,
                                struct place_result *best)
{
    bool found = false, possible = false, any = false;
    int best_rank = 0;
    double best_score = 0;
    for (size_t i = 0; i < pool->count; i++) {
        const struct place_gpu *gpu = &pool->gpus[i];
        struct place_result result = { .gpu = i };
        any |= gpu->owner != NULL;
        possible |= gpu->owner && !gpu->sms;    /* not reported yet since a restart: it may do */
        unsigned kinds = place_kinds_if_empty(gpu, request, &result);
        if (!kinds)
            continue;
        possible = true;
        if (gpu->keeper && gpu->keeper != request->asker)
            continue;
        result.sharing = choose_kind(pool, gpu, kinds, &result);
        if (!result.sharing)
            continue;
        int rank = place_rank(gpu, request);
        double score = place_policies[policy].score(gpu, &result);
        if (!found || place_better(rank, score, best_rank, best_score)) {
            *best = result;
            best_score = score;
            best_rank = rank;
            found = true;
        }
    }
    return found ? PLACE_FOUND : possible ? PLACE_BUSY : any ? PLACE_NEVER : PLACE_NO_GPUS;
}

/* ---- for people ---- */

/* Why a gang or a set was not placed. */
static void explain_gang(const struct place_pool *pool, const struct place_request *request,
                         enum place_verdict verdict, char *text, size_t size)
{
    char accepted[PROTOCOL_SHARING_SIZE];
    const struct place_chances chances = place_gang_chances(pool, request);
    const bool several = request->spread || chances.most < request->gpus;
    int at = snprintf(text, size, "%u GPUs%s with %u SMs and %llu MiB each (%s) ", request->gpus,
                      several ? "" : " of one node", request->sms, (unsigned long long)(request->memory >> 20),
                      protocol_sharing_text(request->accepted, accepted));
    size_t used = at > 0 && (size_t)at < size ? (size_t)at : size;
    if (verdict == PLACE_BUSY && several)
        snprintf(text + used, size - used,
                 "are not free at present: the nodes have %zu of those that could be given, and %zu of them free now; "
                 "%zu GPUs are kept for programs that wait longer",
                 chances.all, chances.all_now, chances.kept);
    else if (verdict == PLACE_BUSY)
        snprintf(text + used, size - used,
                 "are free on no node at present: a node has at most %zu of those that could be given, and %zu of them "
                 "free now; %zu GPUs are kept for programs that wait longer",
                 chances.most, chances.most_now, chances.kept);
    else
        snprintf(text + used, size - used,
                 "could never be given: a node has at most %zu such GPUs, and all nodes have %zu%s",
                 chances.most, chances.all,
                 chances.old_nodes ? "; nodes of an earlier release, which give a program one GPU, do not count" : "");
}

void place_explain(const struct place_pool *pool, const struct place_request *request, enum place_verdict verdict,
                   char *text, size_t size)
{
    char accepted[PROTOCOL_SHARING_SIZE], offered[PROTOCOL_SHARING_SIZE];
    uint32_t sms = 0;
    uint64_t memory = 0;
    unsigned kinds = 0, up = 0, count = 0, kept = 0;
    bool limits = false;
    for (size_t i = 0; i < pool->count; i++) {
        const struct place_gpu *gpu = &pool->gpus[i];
        if (!gpu->owner || !gpu->sms)
            continue;
        count++;
        up += gpu->schedulable;
        kept += gpu->keeper && gpu->keeper != request->asker;
        kinds |= gpu->offered;
        limits |= gpu->sm_limits;
        sms = gpu->sms > sms ? gpu->sms : sms;
        memory = gpu->memory > memory ? gpu->memory : memory;
    }
    protocol_sharing_text(request->accepted, accepted);
    protocol_sharing_text(kinds, offered);
    if (verdict == PLACE_NO_GPUS || count == 0)
        snprintf(text, size, "no node with a GPU has joined this cluster");
    else if (request->gpus > 1)
        explain_gang(pool, request, verdict, text, size);
    else if (verdict == PLACE_BUSY)
        snprintf(text, size,
                 "%u SMs and %llu MiB (%s) are free on none of %u GPUs at present, %u of them in service, %u kept for "
                 "programs that wait longer",
                 request->sms, (unsigned long long)(request->memory >> 20), accepted, count, up, kept);
    else
        snprintf(text, size,
                 "none of %u GPUs could ever hold %u SMs and %llu MiB (%s): the largest have %u SMs and %llu MiB, "
                 "they offer %s, and %s",
                 count, request->sms, (unsigned long long)(request->memory >> 20), accepted, sms,
                 (unsigned long long)(memory >> 20), offered,
                 limits ? "some can hold a limit of SMs" : "none can hold a limit of SMs: ask for all SMs of a GPU");
}

/* ---- books ---- */

void place_take(struct place_pool *pool, size_t at, unsigned sharing, uint32_t sms, uint64_t memory)
{
    struct place_gpu *gpu = &pool->gpus[at];
    gpu->users++;
    gpu->sharing = (uint8_t)sharing;
    gpu->used_sms += sms;
    gpu->used_memory += memory;
}

void place_give_back(struct place_pool *pool, size_t at, uint32_t sms, uint64_t memory)
{
    struct place_gpu *gpu = &pool->gpus[at];
    gpu->users--;
    gpu->used_sms -= sms;
    gpu->used_memory -= memory;
    if (gpu->users == 0)
        gpu->sharing = 0;
}

bool place_may_grow(const struct place_pool *pool, size_t at, uint32_t sms, uint32_t more_sms, uint64_t memory,
                    uint64_t more_memory)
{
    const struct place_gpu *gpu = &pool->gpus[at];
    struct place_result more = { .gpu = at, .sharing = gpu->sharing, .sms = more_sms, .memory = more_memory };
    struct place_gpu others = *gpu;
    others.schedulable = true;                       /* it is there already, drained or not */
    if (sms > gpu->sms || memory > gpu->memory)
        return false;
    if (!more_sms && !more_memory)
        return true;
    return gpu->users == 1 || place_fits_now(pool, &others, gpu->sharing, &more);
}

void place_rebook(struct place_pool *pool, size_t at, uint32_t old_sms, uint64_t old_memory, uint32_t sms,
                  uint64_t memory)
{
    struct place_gpu *gpu = &pool->gpus[at];
    gpu->used_sms += sms - old_sms;                  /* the sum contains the old number */
    gpu->used_memory += memory - old_memory;
}

size_t place_add(struct place_pool *pool, void *owner, const void *node, const char *machine)
{
    size_t at = pool->first_free;
    while (at < pool->count && pool->gpus[at].owner)
        at++;
    if (at == pool->capacity) {
        size_t capacity = pool->capacity ? 2 * pool->capacity : 64;
        struct place_gpu *gpus = realloc(pool->gpus, capacity * sizeof *gpus);
        if (!gpus)
            return (size_t)-1;
        pool->gpus = gpus;
        pool->capacity = capacity;
    }
    if (at == pool->count)
        pool->count++;
    pool->gpus[at] = (struct place_gpu){ .owner = owner, .node = node, .machine = machine };
    pool->first_free = at + 1;
    return at;
}

void place_remove(struct place_pool *pool, size_t at)
{
    pool->gpus[at] = (struct place_gpu){ 0 };
    pool->first_free = at < pool->first_free ? at : pool->first_free;
}

bool place_copy(const struct place_pool *pool, struct place_pool *out)
{
    *out = *pool;
    out->gpus = malloc((pool->count + 1) * sizeof *out->gpus);
    out->capacity = pool->count;
    out->count = out->gpus ? pool->count : 0;
    if (out->gpus && pool->count)
        memcpy(out->gpus, pool->gpus, pool->count * sizeof *out->gpus);
    return out->gpus != NULL;
}

void place_free(struct place_pool *pool)
{
    free(pool->gpus);
    *pool = (struct place_pool){ 0 };
}
