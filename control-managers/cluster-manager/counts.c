/* counts.c: see counts.h. */
#include "control-managers/cluster-manager/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two rows of meta, since a value has at most DB_VALUE_SIZE bytes. */
enum { WORDS = sizeof(struct counted_things) / sizeof(uint64_t), PARTS = 2, PART = (WORDS + PARTS - 1) / PARTS,
       WORD_SIZE = 21, SAVE_MS = 2000 };
_Static_assert(PART * WORD_SIZE < DB_VALUE_SIZE, "a part fits into a value");

const double count_seconds[COUNT_TIMES - 1] = { 0.1, 0.3, 1, 3, 10, 60, 600, 3600 };

static uint64_t *words(struct counted_things *things) { return (uint64_t *)things; }

void counts_note_time(struct count_times *times, int64_t since)
{
    int64_t us = loop_time() - since;
    int i = 0;
    us = us > 0 ? us : 0; /* the clock may have been set */
    while (i < COUNT_TIMES - 1 && (double)us > count_seconds[i] * 1e6)
        i++;
    times->counts[i]++;
    times->us += (uint64_t)us;
}

void counts_note_code(uint64_t counts[COUNT_CODES], ctl_code code)
{
    counts[(unsigned)code < COUNT_CODES ? (unsigned)code : (unsigned)CTL_INTERNAL]++;
}

void counts_load(struct cluster *cluster, const char *key, const char *value)
{
    unsigned part = (unsigned)atoi(key + strlen(STORE_COUNTS_KEY));
    char *end;
    for (unsigned i = part * PART; part < PARTS && i < WORDS && i < (part + 1) * PART; i++, value = end)
        words(&cluster->counts.now)[i] = strtoull(value, &end, 10);
}

static void written(void *context, int error, const char *why)
{
    struct counts *counts = &((struct cluster *)context)->counts;
    (void)why; /* what was refused is written the next time */
    counts->failed |= error != 0;
    if (--counts->writing)
        return;
    if (counts->failed)
        memset(&counts->written, 0, sizeof counts->written);
    else
        counts->durable = counts->written;
}

static void write_all(struct cluster *cluster)
{
    char key[DB_NAME_SIZE], value[DB_VALUE_SIZE];
    struct counts *counts = &cluster->counts;
    if (counts->writing || memcmp(&counts->now, &counts->written, sizeof counts->now) == 0 || !store_has_room(cluster))
        return;
    counts->written = counts->now;
    counts->writing = PARTS;
    counts->failed = false;
    for (unsigned part = 0; part < PARTS; part++) {
        size_t at = 0;
        *value = '\0';
        for (unsigned i = part * PART; i < WORDS && i < (part + 1) * PART; i++)
            at += (size_t)snprintf(value + at, sizeof value - at, "%s%" PRIu64, at ? " " : "",
                                   words(&counts->written)[i]);
        snprintf(key, sizeof key, STORE_COUNTS_KEY "%u", part);
        store_put_counts(cluster, key, value, written, cluster);
    }
}

static void save(struct loop_timer *timer, void *context)
{
    write_all(context);
    loop_timer_start(((struct cluster *)context)->loop, timer, SAVE_MS, save, context);
}

void counts_begin(struct cluster *cluster)
{
    cluster->counts.written = cluster->counts.durable = cluster->counts.now;
    save(&cluster->counts.save, cluster);
}

void counts_end(struct cluster *cluster)
{
    loop_timer_stop(&cluster->counts.save);
    if (cluster->loaded)
        write_all(cluster);
}
