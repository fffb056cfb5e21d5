/*
 * moving_limits.c: what moves and checkpoints are compared with (moving.py). No server is needed.
 *
 *   gate             what the gate (cpu/client/core/api_gate.h) costs a call, without the empty loop         gate_ns
 *   pack MIB         one thread packs so much by zstd -1, in pieces of 1 MiB, as moving.cu fills memory       gbs
 *   disk FILE MIB    writes so much to a new file, and waits until the disk has it; the file goes             gbs
 *
 * GB are 10^9 bytes. One line `key value` for each figure.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include "cpu/client/core/api_gate.h"

enum { MIB = 1 << 20, TIMES = 20000000, TURNS = 7 };

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* ---- the gate ---- */

static double pass(void)
{
    double begun = now_ns();
    for (int i = 0; i < TIMES; i++) {
        CORE_GATE("gate");
        __asm__ volatile("" ::: "memory");
    }
    return (now_ns() - begun) / TIMES;
}

static double pass_by(void)
{
    double begun = now_ns();
    for (int i = 0; i < TIMES; i++)
        __asm__ volatile("" ::: "memory");
    return (now_ns() - begun) / TIMES;
}

/* The best turns of each: what disturbs them only adds. */
static int gate(void)
{
    double with = 1e9, without = 1e9;
    for (int i = 0; i < TURNS; i++) {
        double took = pass(), empty = pass_by();
        with = took < with ? took : with;
        without = empty < without ? empty : without;
    }
    printf("gate_ns %.3f\n", with - without);
    return 0;
}

/* ---- bytes ---- */

static void fill(uint32_t *words, uint32_t seed)
{
    uint64_t state = seed * UINT64_C(2) + 1;
    for (size_t i = 0; i < MIB / sizeof *words; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        words[i] = 0x3f000000u | (uint32_t)(state >> 48);
    }
}

static int pack(unsigned mib)
{
    const size_t room = ZSTD_compressBound(MIB);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    char *bytes = malloc((size_t)mib * MIB), *packed = malloc(room);
    if (!zstd || !bytes || !packed)
        return 1;
    for (unsigned i = 0; i < mib; i++)
        fill((uint32_t *)(void *)(bytes + (size_t)i * MIB), i);
    double begun = now_ns();
    for (unsigned i = 0; i < mib; i++)
        if (ZSTD_isError(ZSTD_compressCCtx(zstd, packed, room, bytes + (size_t)i * MIB, MIB, 1)))
            return 1;
    printf("gbs %.4f\n", (double)mib * MIB / (now_ns() - begun));
    free(bytes);
    free(packed);
    ZSTD_freeCCtx(zstd);
    return 0;
}

static int disk(const char *path, unsigned mib)
{
    char *bytes = malloc(MIB);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (!bytes || fd < 0)
        return 1;
    memset(bytes, 1, MIB);
    double begun = now_ns();
    int failed = 0;
    for (unsigned i = 0; i < mib && !failed; i++)
        failed = write(fd, bytes, MIB) != MIB;
    failed = failed || fsync(fd) != 0;
    if (!failed)
        printf("gbs %.4f\n", (double)mib * MIB / (now_ns() - begun));
    unlink(path);
    close(fd);
    free(bytes);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "gate") == 0)
        return gate();
    if (argc == 3 && strcmp(argv[1], "pack") == 0)
        return pack((unsigned)atoi(argv[2]));
    if (argc == 4 && strcmp(argv[1], "disk") == 0)
        return disk(argv[2], (unsigned)atoi(argv[3]));
    fprintf(stderr, "usage: moving_limits gate | pack MIB | disk FILE MIB\n");
    return 2;
}
