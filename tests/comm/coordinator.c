/*
 * coordinator.c URI...: a program that knows flyt_coordinator.h only, and is linked with libflyt-coordinator.so. The
 * GPU servers are those of the URIs (coordinator.py starts them). TAP on stdout.
 */
#include "cpu/client/coordinator/flyt_coordinator.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MIB = 1 << 20, SIZE = 8 * MIB, PART = 300 * 1024, LIMIT = 20000, MOST = FLYT_COORDINATOR_MEMBERS };

static flyt_coordinator *coordinator;
static unsigned count;
static uint64_t base[MOST];
static uint8_t *bytes, *back;

static void must(int status, const char *what)
{
    if (status == 0)
        return;
    printf("# %s: %d: %s\nnot ok\n", what, status, flyt_coordinator_error());
    exit(1);
}

static void need(bool holds, const char *what)
{
    if (holds)
        return;
    printf("# wrong: %s (%s)\nnot ok\n", what, flyt_coordinator_error());
    exit(1);
}

static void fill(unsigned member, unsigned seed)
{
    for (unsigned i = 0; i < SIZE / 2; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 251 + seed);
    must(flyt_coordinator_write(coordinator, member, base[member], bytes, SIZE / 2), "write");
}

static void is_there(unsigned member, uint64_t offset, unsigned seed, size_t size, const char *what)
{
    must(flyt_coordinator_read(coordinator, member, base[member] + offset, back, size), "read");
    for (size_t i = 0; i < size; i++)
        need(back[i] == (uint8_t)(i * 31 + i / 251 + seed), what);
}

/* The sender first; then the receiver; ranks are not members. */
static void one_transfer(flyt_communicator *comm, const unsigned *members)
{
    uint64_t transfer = 0, second = 0;
    unsigned from = members[0], to = members[1];
    fill(from, 5);
    must(flyt_communicator_send(comm, 0, 1, base[from], MIB, &transfer), "send");
    must(flyt_communicator_send(comm, 0, 1, base[from], 100, &second), "send again");
    need(transfer && second == transfer + 1, "the numbers");
    must(flyt_communicator_receive(comm, 1, 0, transfer, base[to] + SIZE / 2, MIB), "receive");
    must(flyt_communicator_receive(comm, 1, 0, second, base[to] + SIZE / 2 + MIB, 100), "receive again");
    must(flyt_coordinator_wait(coordinator, to), "wait");
    is_there(to, SIZE / 2, 5, MIB, "what was sent");
    is_there(to, SIZE / 2 + MIB, 5, 100, "what was sent behind it");
}

/* Every rank sends to the next one at the same time, more than may come early. */
static void ring(flyt_communicator *comm, const unsigned *members)
{
    for (unsigned i = 0; i < count; i++)
        fill(i, 10 * i);
    for (unsigned round = 0; round < 10; round++)
        for (unsigned r = 0; r < count; r++) {
            unsigned next = (r + 1) % count;
            must(flyt_communicator_copy(comm, r, base[members[r]], next, base[members[next]] + SIZE / 2, MIB), "copy");
        }
    for (unsigned i = 0; i < count; i++)
        must(flyt_coordinator_wait(coordinator, i), "wait");
    for (unsigned r = 0; r < count; r++)
        is_there(members[(r + 1) % count], SIZE / 2, 10 * members[r], MIB, "what came round");
}

/* The receiver is told in the other order than the sender. */
static void group(flyt_communicator *comm, const unsigned *members)
{
    enum { TRANSFERS = 8 };
    uint64_t transfers[TRANSFERS];
    must(flyt_communicator_group_begin(comm), "group");
    need(flyt_communicator_group_begin(comm) == -EINVAL, "a group in a group");
    for (unsigned i = 0; i < TRANSFERS; i++)
        must(flyt_communicator_send(comm, 0, 1, base[members[0]] + i, PART, &transfers[i]), "send in a group");
    for (unsigned i = TRANSFERS; i-- > 0;)
        must(flyt_communicator_receive(comm, 1, 0, transfers[i], base[members[1]] + SIZE / 2 + i * PART, PART),
             "receive in a group");
    must(flyt_communicator_group_end(comm), "the group's end");
    must(flyt_coordinator_wait(coordinator, members[1]), "wait");
    must(flyt_coordinator_read(coordinator, members[0], base[members[0]], bytes, SIZE / 2), "read");
    for (unsigned i = 0; i < TRANSFERS; i++) {
        uint64_t at = base[members[1]] + SIZE / 2 + i * PART;
        must(flyt_coordinator_read(coordinator, members[1], at, back, PART), "read");
        need(memcmp(back, bytes + i, PART) == 0, "what came in a group");
    }
}

static void mistakes(flyt_communicator *comm, const unsigned *members)
{
    uint64_t transfer;
    need(flyt_communicator_send(comm, 0, 0, base[0], 1, &transfer) == -EINVAL, "to itself");
    need(flyt_communicator_send(comm, 0, count, base[0], 1, &transfer) == -EINVAL, "to nobody");
    need(flyt_communicator_receive(comm, 1, 0, 0, base[0], 1) == -EINVAL, "no number");
    need(flyt_communicator_group_end(comm) == -EINVAL, "no group");
    /* Memory that the member does not have: the link of the two ends, and says so at both. */
    must(flyt_communicator_copy(comm, 0, base[members[0]] + 64 * SIZE, 1, base[members[1]], MIB), "a wrong copy");
    need(flyt_coordinator_wait(coordinator, members[0]) == -EINVAL, "the sender's error");
    need(flyt_coordinator_wait(coordinator, members[1]) == -ENOLINK, "the receiver's error");
    must(flyt_coordinator_wait(coordinator, members[1]), "an error is said once");
    fill(members[0], 77);
    is_there(members[0], 0, 77, MIB, "the member goes on");
}

static void measure(flyt_communicator *comm, const unsigned *members, unsigned repeat)
{
    struct timespec begin, end;
    double best = 0;
    uint64_t before = flyt_coordinator_traffic(coordinator, 0) + flyt_coordinator_traffic(coordinator, 1);
    for (unsigned i = 0; i < repeat; i++) {
        clock_gettime(CLOCK_MONOTONIC, &begin);
        must(flyt_communicator_copy(comm, 0, base[members[0]], 1, base[members[1]], SIZE), "copy");
        must(flyt_coordinator_wait(coordinator, members[1]), "wait");
        clock_gettime(CLOCK_MONOTONIC, &end);
        double s = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
        best = SIZE / s > best ? SIZE / s : best;
    }
    uint64_t each = (flyt_coordinator_traffic(coordinator, 0) + flyt_coordinator_traffic(coordinator, 1) - before) /
                    repeat;
    need(each < 1024, "the coordinator's connections carry too much");
    printf("# %llu bytes of the coordinator's connections for each copy\n", (unsigned long long)each);
    printf("# %d MiB from GPU to GPU: %.2f GB/s at best\n", SIZE / MIB, best / 1e9);
}

/* After a line on stdin a server has gone. */
static void loss(flyt_communicator *comm, const unsigned *members)
{
    char line[16];
    uint64_t transfer;
    must(flyt_communicator_send(comm, 0, 1, base[members[0]], MIB, &transfer), "send");
    printf("# ready\n");
    fflush(stdout);
    need(fgets(line, sizeof line, stdin) != NULL, "a line");
    need(flyt_coordinator_wait(coordinator, members[0]) == -ENOLINK, "the link is lost");
    need(flyt_coordinator_wait(coordinator, members[1]) == -ECONNRESET, "the member is lost");
    is_there(members[0], 0, 77, 4096, "the other one goes on");
}

int main(int argc, char **argv)
{
    flyt_communicator *comm, *pair;
    unsigned members[MOST];
    count = (unsigned)argc - 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    bytes = malloc(SIZE);
    back = malloc(SIZE);
    printf("1..1\n");
    need(bytes && back && count >= 2, "two URIs");
    must(flyt_coordinator_create((const char *const *)(argv + 1), count, &coordinator), "a coordinator");
    for (unsigned i = 0; i < count; i++) {
        members[i] = count - 1 - i;
        must(flyt_coordinator_memory(coordinator, i, SIZE, &base[i]), "memory");
    }
    need(flyt_communicator_create(coordinator, (unsigned[]){ 0, 0 }, 2, LIMIT, &comm) == -EINVAL, "one member twice");
    must(flyt_communicator_create(coordinator, members, count, LIMIT, &comm), "a communicator");
    one_transfer(comm, members);
    ring(comm, members);
    group(comm, members);
    must(flyt_communicator_create(coordinator, (unsigned[]){ 1, 0 }, 2, LIMIT, &pair), "a second communicator");
    one_transfer(pair, (unsigned[]){ 1, 0 });
    measure(pair, (unsigned[]){ 1, 0 }, 5);
    mistakes(comm, members);
    one_transfer(pair, (unsigned[]){ 1, 0 });           /* another link is another link */
    flyt_communicator_destroy(pair);
    must(flyt_communicator_create(coordinator, (unsigned[]){ 0, 1 }, 2, LIMIT, &pair), "a third communicator");
    fill(0, 77);
    loss(pair, (unsigned[]){ 0, 1 });
    flyt_coordinator_destroy(coordinator);
    printf("ok 1 - coordinator\n");
    return 0;
}
