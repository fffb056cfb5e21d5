/*
 * works.c: what the workers that serve each program have done, and what they hold, from the books that they keep
 * (cpu/common/tenant_ledger.h), for metrics of single programs.
 *
 * As the figures of a server (figures.c) this is what it says of itself. A program with several workers has the sum of
 * those that live, so its numbers fall when one of them ends: the cluster manager adds up what comes.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/tenant_ledger.h"

enum { SLOTS_AT_ONCE = 64, FIGURES = LEDGER_FIGURES };

/* A worker, and the program that it serves. */
struct work_pair {
    int64_t pid;
    uint64_t program;
};

static int by_pid(const void *a, const void *b)
{
    const struct work_pair *one = a, *other = b;
    return (one->pid > other->pid) - (one->pid < other->pid);
}

static int by_program(const void *a, const void *b)
{
    const struct program_work *one = a, *other = b;
    return (one->program > other->program) - (one->program < other->program);
}

static void add_slot(int fd, uint32_t slot, uint64_t bytes, struct program_work *out)
{
    uint64_t figures[FIGURES];
    const off_t at = (off_t)(offsetof(struct ledger, figures) + slot * sizeof figures);
    out->memory = bytes;
    if (pread(fd, figures, sizeof figures, at) == (ssize_t)sizeof figures)
        memcpy(&out->figures, figures, sizeof figures);
}

/* A program's work for each slot of one of the workers; how many. */
static size_t read_slots(int fd, const struct work_pair *pairs, size_t count, struct program_work *out)
{
    struct ledger_slot slots[SLOTS_AT_ONCE];
    uint32_t high = 0;
    size_t found = 0;
    if (pread(fd, &high, sizeof high, offsetof(struct ledger, high)) != sizeof high)
        return 0;
    for (uint32_t from = 0; from < high && from < LEDGER_SLOTS; from += SLOTS_AT_ONCE) {
        const off_t at = (off_t)(offsetof(struct ledger, slots) + from * sizeof *slots);
        if (pread(fd, slots, sizeof slots, at) != (ssize_t)sizeof slots)
            return found;
        for (uint32_t i = 0; i < SLOTS_AT_ONCE && found < count; i++) {
            const struct work_pair wanted = { .pid = slots[i].pid };
            const struct work_pair *pair =
                slots[i].pid > 0 ? bsearch(&wanted, pairs, count, sizeof *pairs, by_pid) : NULL;
            if (!pair)
                continue;
            out[found] = (struct program_work){ .program = pair->program };
            add_slot(fd, from + i, slots[i].bytes, &out[found++]);
        }
    }
    return found;
}

/* One of each program. */
static size_t join(struct program_work *works, size_t count)
{
    size_t kept = 0;
    qsort(works, count, sizeof *works, by_program);
    for (size_t i = 0; i < count; i++) {
        struct program_work *last = kept ? &works[kept - 1] : NULL;
        if (!last || last->program != works[i].program) {
            works[kept++] = works[i];
            continue;
        }
        const u_quad_t *more = (const u_quad_t *)&works[i].figures;
        for (int k = 0; k < FIGURES; k++)
            ((u_quad_t *)&last->figures)[k] += more[k];
        last->memory += works[i].memory;
    }
    return kept;
}

void works_look(struct node_server *server, const struct served_now *now)
{
    struct work_pair *pairs = now->count ? malloc(now->count * sizeof *pairs) : NULL;
    struct program_work *works = pairs ? malloc(now->count * sizeof *works) : NULL;
    const uint64_t most = share_bound_memory(server) * server->gpu_count;
    int fd = works ? own_open_file(server, "memory") : -1;
    free(server->works);
    server->works = works;
    server->work_count = 0;
    for (size_t i = 0; works && i < now->count; i++)
        pairs[i] = (struct work_pair){ now->pids[i], now->ids[i] };
    if (fd >= 0) {
        qsort(pairs, now->count, sizeof *pairs, by_pid);
        server->work_count = join(works, read_slots(fd, pairs, now->count, works));
        close(fd);
    }
    for (size_t i = 0; i < server->work_count; i++) /* no more than it was given, as for the server */
        works[i].memory = works[i].memory < most ? works[i].memory : most;
    free(pairs);
}
