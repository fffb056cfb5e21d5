/*
 * choose.c: which algorithm carries a call out. What each costs is estimated from the table: steps one after the other,
 * and bytes that a rank sends or receives. All ranks have the same table, so all choose the same.
 */
#include "cpu/comm/plan/plan.h"

#include <string.h>

static const char *const names[COMM_ALGORITHMS] = { "auto",    "ring",  "tree",     "doubling",
                                                    "halving", "bruck", "pairwise", "dissemination" };
static const char *const kinds[COMM_KINDS] = { "barrier", "broadcast",  "reduce",         "all-reduce", "gather",
                                               "scatter", "all-gather", "reduce-scatter", "all-to-all" };

#define FITS(algorithm) (1u << (algorithm))
static const unsigned fits[COMM_KINDS] = {
    [COMM_BARRIER] = FITS(COMM_DISSEMINATION),
    [COMM_BROADCAST] = FITS(COMM_TREE) | FITS(COMM_RING) | FITS(COMM_PAIRWISE),
    [COMM_REDUCE] = FITS(COMM_TREE) | FITS(COMM_RING) | FITS(COMM_PAIRWISE),
    [COMM_ALL_REDUCE] =
        FITS(COMM_RING) | FITS(COMM_TREE) | FITS(COMM_DOUBLING) | FITS(COMM_HALVING) | FITS(COMM_PAIRWISE),
    [COMM_GATHER] = FITS(COMM_PAIRWISE),
    [COMM_SCATTER] = FITS(COMM_PAIRWISE),
    [COMM_ALL_GATHER] = FITS(COMM_RING) | FITS(COMM_BRUCK) | FITS(COMM_PAIRWISE),
    [COMM_REDUCE_SCATTER] = FITS(COMM_RING) | FITS(COMM_PAIRWISE),
    [COMM_ALL_TO_ALL] = FITS(COMM_PAIRWISE) | FITS(COMM_BRUCK),
};

bool comm_algorithm_fits(enum comm_kind kind, enum comm_algorithm algorithm, bool uneven)
{
    return (fits[kind] & FITS(algorithm)) && !(uneven && algorithm == COMM_BRUCK);
}

enum comm_algorithm comm_algorithm_of(const char *name)
{
    for (unsigned i = COMM_RING; i < COMM_ALGORITHMS; i++)
        if (strcmp(names[i], name) == 0)
            return (enum comm_algorithm)i;
    return COMM_AUTOMATIC;
}

const char *comm_algorithm_name(enum comm_algorithm algorithm)
{
    return (unsigned)algorithm < COMM_ALGORITHMS ? names[algorithm] : "none";
}

const char *comm_kind_name(enum comm_kind kind) { return (unsigned)kind < COMM_KINDS ? kinds[kind] : "no collective"; }

bool comm_kind_reduces(enum comm_kind kind)
{
    return kind == COMM_REDUCE || kind == COMM_ALL_REDUCE || kind == COMM_REDUCE_SCATTER;
}

bool comm_kind_has_root(enum comm_kind kind)
{
    return kind == COMM_BROADCAST || kind == COMM_REDUCE || kind == COMM_GATHER || kind == COMM_SCATTER;
}

/* In us, of a call whose whole buffer (all parts together) has `bytes`. A sum takes a quarter of the time of its bytes
   on the way, as with 4 GB/s beside 1 GB/s. */
static double cost(enum comm_kind kind, enum comm_algorithm algorithm, double bytes, unsigned ranks,
                   const struct comm_table *table)
{
    double n = ranks, digits = 0, step = table->latency_us, byte = 1 / table->mb_per_s, there_and_back;
    const double sum = comm_kind_reduces(kind) ? byte / 4 : 0;
    for (unsigned i = 1; i < ranks; i *= 2)
        digits++;
    bool power = (ranks & (ranks - 1)) == 0;
    there_and_back = kind == COMM_ALL_REDUCE ? 2 : 1;
    switch (algorithm) {
    case COMM_RING:
        if (kind == COMM_BROADCAST || kind == COMM_REDUCE)
            return (n - 1) * step + bytes * byte + (n - 2) * (bytes < 512e3 ? bytes : 512e3) * byte;
        return there_and_back * ((n - 1) * step + bytes * byte * (n - 1) / n) + bytes * sum * (n - 1) / n;
    case COMM_TREE: return there_and_back * (digits * step + 2 * bytes * byte + digits * step) + 2 * bytes * sum;
    case COMM_DOUBLING: /* all of it is added in each step, when all has come */
        return (digits + (power ? 0 : 1)) * (step + bytes * (byte + sum));
    case COMM_HALVING: /* nothing is added while the rest of a half is still coming: half as much again */
        return 2 * digits * step + bytes * byte * (2 * (n - 1) / n + 0.5) + (power ? 0 : 2 * (step + bytes * byte));
    case COMM_BRUCK: return digits * step + bytes * byte * (kind == COMM_ALL_TO_ALL ? digits / 2 + 2 : (n - 1) / n + 1);
    default: /* each rank's messages leave one after the other */
        if (kind == COMM_ALL_REDUCE || kind == COMM_REDUCE || kind == COMM_BROADCAST)
            return step + (n - 1) * (step / 3 + bytes * (byte + sum));
        return step + (n - 1) * (step / 3 + bytes * byte / n);
    }
}

enum comm_algorithm comm_choose(enum comm_kind kind, uint64_t bytes, unsigned ranks, bool uneven,
                                const struct comm_table *table, enum comm_algorithm forced)
{
    if (forced != COMM_AUTOMATIC && comm_algorithm_fits(kind, forced, uneven))
        return forced;
    enum comm_algorithm best = COMM_AUTOMATIC;
    double least = 0;
    for (unsigned i = COMM_RING; i < COMM_ALGORITHMS; i++) {
        if (!comm_algorithm_fits(kind, (enum comm_algorithm)i, uneven))
            continue;
        double now = cost(kind, (enum comm_algorithm)i, (double)bytes, ranks, table);
        if (best == COMM_AUTOMATIC || now < least) {
            best = (enum comm_algorithm)i;
            least = now;
        }
    }
    return best;
}

double comm_cost(enum comm_kind kind, uint64_t bytes, unsigned ranks, const struct comm_table *table)
{
    return cost(kind, comm_choose(kind, bytes, ranks, false, table, COMM_AUTOMATIC), (double)bytes, ranks, table);
}
