/* ledger.c: see ledger.h. */
#include "tests/server/ledger.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/server/tenant/tenant_shared.h"

#define PATIENCE (20 * CLOCK_NS_PER_SECOND)

uint64_t held(const struct fixture *f)
{
    uint64_t sum = shared_sum(f->ledger, LEDGER_ALL);
    for (uint32_t i = 0; i < f->ledger->high; i++)
        sum += f->ledger->slots[i].pid ? f->ledger->slots[i].bytes : 0;
    return sum;
}

void held_becomes(const struct fixture *f, uint64_t bytes)
{
    uint64_t until = clock_now() + PATIENCE;
    while (held(f) != bytes) {
        if (clock_now() > until)
            fail_msg("the tenant holds %lu MiB, not %lu", held(f) / MIB, bytes / MIB);
        usleep(2000);
    }
}

void ledger_begin(struct fixture *f, const char *gpu) { ledger_begin_with(f, gpu, NULL); }

void ledger_begin_with(struct fixture *f, const char *gpu, const char *const *more)
{
    char limit[32];
    snprintf(f->path, sizeof f->path, "/tmp/flyt-test-ledger-%d", (int)getpid());
    snprintf(limit, sizeof limit, "%d", LIMIT);
    setenv("FLYT_TENANT_LEDGER", f->path, 1);
    setenv("FLYT_TENANT_MEMORY", limit, 1);
    server_start(&f->server, gpu, more);
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    f->ledger = mmap(NULL, sizeof *f->ledger, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    assert_ptr_not_equal(f->ledger, MAP_FAILED);
    peer_open(&f->a, f->server.uri[0]);
    peer_open(&f->b, f->server.uri[1]);
    f->idle = held(f);
}

void ledger_end(struct fixture *f)
{
    peer_close(&f->a);
    peer_close(&f->b);
    held_becomes(f, 0);
    assert_int_equal(f->ledger->shared_count, 0);
    assert_int_equal(server_stop(&f->server, SIGTERM), 0);
    munmap((void *)(uintptr_t)f->ledger, sizeof *f->ledger);
    unlink(f->path);
}

uint64_t map_least(struct peer *peer, uint64_t offset, uint64_t size, uint64_t least, bool recall)
{
    map_args args = { .address = peer->base + offset, .size = size, .least = least, .piece = PIECE, .recall = recall };
    map_result result = { 0 };
    assert_int_equal(flyt_map_1(&args, &result, peer->stub), RPC_SUCCESS);
    uint64_t mapped = result.head.result ? 0 : result.size;
    assert_true(result.head.result == 0 || result.head.result == 2);
    xdr_free((xdrproc_t)xdr_map_result, (char *)&result);
    return mapped;
}

uint64_t map(struct peer *peer, uint64_t offset, uint64_t size) { return map_least(peer, offset, size, size, false); }

void unmap(struct peer *peer, uint64_t offset, uint64_t size)
{
    unmap_args args = { .address = peer->base + offset, .size = size };
    flyt_unmap_1(&args, NULL, peer->stub);
}
