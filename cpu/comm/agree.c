/*
 * agree.c: the table by which algorithms are chosen (plan/choose.c), where FLYT_COMM_TABLE wants another one than the
 * usual values:
 *
 *   LATENCY,RATE   these numbers, in us and MB/s. All ranks must be given the same.
 *   FILE           such a line in that file. Where rank 0 has no such file, the ranks measure, and rank 0 writes it: so
 *                  the next communicators, and the next runs, have the same table, and with it the same bits.
 *
 * All ranks take rank 0's table, or the worst of what they measured. They measure with collectives: the time of a
 * barrier for each of its steps, and that of an all-gather round the ring. A measurement depends on what else the
 * machines do, so none is made unless it is asked for.
 */
#include "cpu/comm/context.h"

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BARRIERS = 20, GATHERS = 4, PART = 256 << 10 };

/* "30,1000", with anything behind a blank. */
static bool table_read(const char *text, struct comm_table *table)
{
    char *end;
    table->latency_us = strtod(text, &end);
    if (end == text || *end != ',')
        return false;
    text = end + 1;
    table->mb_per_s = strtod(text, &end);
    return end != text && (*end == '\0' || *end == '\n') && table->latency_us > 0 && table->latency_us < 1e9 &&
           table->mb_per_s > 0 && table->mb_per_s < 1e9;
}

/* false: there is no such file. */
static bool table_load(const char *path, struct comm_table *table)
{
    char line[100] = "";
    FILE *file = fopen(path, "re");
    bool there = file && fgets(line, sizeof line, file) && table_read(line, table);
    if (file)
        fclose(file);
    return there;
}

static int table_save(const char *path, const struct comm_table *table, char *error)
{
    char part[4096];
    if (snprintf(part, sizeof part, "%s.%ld", path, (long)getpid()) >= (int)sizeof part)
        return rpc_explain(error, -ENAMETOOLONG, "FLYT_COMM_TABLE: the path is too long");
    FILE *file = fopen(part, "we");
    bool good = file && fprintf(file, "%.17g,%.17g\n", table->latency_us, table->mb_per_s) > 0;
    good = file && fclose(file) == 0 && good && rename(part, path) == 0;
    return good ? 0 : rpc_explain(error, -errno, "FLYT_COMM_TABLE: writing %s: %s", path, strerror(errno));
}

/* ---- measuring ---- */

static int timed(struct comm_context *c, const struct comm_call *call, int times, uint64_t deadline, double *least_us,
                 char *error)
{
    int status = comm_call(c, call, deadline, error); /* the first one connects, and is not counted */
    for (int i = 0; i < times && status == 0; i++) {
        uint64_t begun = clock_now();
        status = comm_call(c, call, deadline, error);
        double us = (double)(clock_now() - begun) / 1e3;
        *least_us = i == 0 || us < *least_us ? us : *least_us;
    }
    return status;
}

static int measure(struct comm_context *c, uint64_t deadline, struct comm_table *table, char *error)
{
    const struct comm_context_settings before = c->settings;
    const unsigned n = before.size;
    double barrier = 0, gather = 0, steps = 0;
    for (unsigned i = 1; i < n; i *= 2)
        steps++;
    uint8_t *parts = calloc(n, PART);
    if (!parts)
        return rpc_explain(error, -ENOMEM, "measuring the network: no memory");
    int status = timed(c, &(struct comm_call){ .kind = COMM_BARRIER }, BARRIERS, deadline, &barrier, error);
    c->settings.algorithm = COMM_RING;
    const struct comm_call all = { .kind = COMM_ALL_GATHER,
                                   .in = parts + (size_t)before.rank * PART,
                                   .out = parts,
                                   .count = PART,
                                   .type = COMM_UINT8 };
    if (status == 0)
        status = timed(c, &all, GATHERS, deadline, &gather, error);
    c->settings.algorithm = before.algorithm;
    free(parts);
    const double latency = barrier / steps, step = gather / (n - 1) - latency;
    *table = (struct comm_table){ .latency_us = latency, .mb_per_s = PART / (step > 1 ? step : 1) };
    /* The worst of all ranks: a maximum has the same bits on all of them. */
    double worst[2] = { table->latency_us, -table->mb_per_s };
    const struct comm_call agree = {
        .kind = COMM_ALL_REDUCE, .in = worst, .out = worst, .count = 2, .type = COMM_FLOAT64, .operation = COMM_MAXIMUM
    };
    if (status == 0)
        status = comm_call(c, &agree, deadline, error);
    *table = (struct comm_table){ .latency_us = worst[0], .mb_per_s = -worst[1] };
    return status;
}

int comm_context_agree(struct comm_context *c, uint64_t deadline, char *error)
{
    struct comm_table table;
    const char *wish = env_get("FLYT_COMM_TABLE");
    if (!wish || !*wish || c->settings.size < 2)
        return 0;
    if (table_read(wish, &table)) {
        c->settings.table = table;
        return 0;
    }
    double known[3] = { 0 };
    if (c->settings.rank == 0 && table_load(wish, &table)) {
        known[0] = 1;
        known[1] = table.latency_us;
        known[2] = table.mb_per_s;
    }
    const struct comm_call ask = {
        .kind = COMM_BROADCAST, .in = known, .out = known, .count = 3, .type = COMM_FLOAT64
    };
    int status = comm_call(c, &ask, deadline, error);
    if (status == 0 && known[0] == 0) {
        status = measure(c, deadline, &table, error);
        if (status == 0 && c->settings.rank == 0)
            status = table_save(wish, &table, error);
    } else {
        table = (struct comm_table){ known[1], known[2] };
    }
    if (status == 0)
        c->settings.table = table;
    return status;
}

struct comm_table comm_context_table(const struct comm_context *c) { return c->settings.table; }
