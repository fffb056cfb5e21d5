/*
 * tenant.c: $FLYT_TENANT_MEMORY bytes for all workers of this server together, kept in the file $FLYT_TENANT_LEDGER.
 *
 * The file is mapped by all workers: a slot for each process with what it holds, changed under a lock on the file, which
 * ends with its holder. What a worker held that was killed is found by its process id when the next one asks: all processes
 * of a server share a process-id namespace, and a worker takes its number's slot over empty. So the sum is what live workers
 * hold, however the others ended.
 */
#include "cpu/server/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "cpu/common/log.h"

enum { TENANT_SLOTS = 4096 };
struct slot { int64_t pid; uint64_t bytes; };      /* pid 0: free */
struct ledger { struct slot slots[TENANT_SLOTS]; };

static struct ledger *ledger;
static int ledger_fd = -1;
static uint64_t limit = UINT64_MAX;

static bool ledger_lock(void)
{
    while (flock(ledger_fd, LOCK_EX) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

static void ledger_unlock(void)
{
    flock(ledger_fd, LOCK_UN);
}

/* Of all that live; frees the slots of the others. */
static uint64_t ledger_sum(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < TENANT_SLOTS; i++) {
        struct slot *slot = &ledger->slots[i];
        if (slot->pid && kill((pid_t)slot->pid, 0) != 0 && errno == ESRCH)
            *slot = (struct slot){ 0 };
        sum += slot->pid ? slot->bytes : 0;
    }
    return sum;
}

/* NULL: all are taken. */
static struct slot *ledger_own(void)
{
    struct slot *unused = NULL;
    for (int i = 0; i < TENANT_SLOTS; i++) {
        if (ledger->slots[i].pid == getpid())
            return &ledger->slots[i];
        if (!unused && !ledger->slots[i].pid)
            unused = &ledger->slots[i];
    }
    if (unused)
        unused->pid = getpid();
    return unused;
}

int tenant_open(void)
{
    const char *bytes = getenv("FLYT_TENANT_MEMORY"), *path = getenv("FLYT_TENANT_LEDGER");
    char *end;
    if (!bytes || !*bytes || !path || !*path)
        return 0;
    limit = strtoull(bytes, &end, 10);
    ledger_fd = *end ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (ledger_fd < 0 || ftruncate(ledger_fd, sizeof *ledger) != 0) {
        log_error("the tenant's memory limit of %s bytes cannot be kept in %s: %s", bytes, path, *end ? "it is no number" : strerror(errno));
        return -1;
    }
    void *at = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED, ledger_fd, 0);
    if (at == MAP_FAILED || !ledger_lock()) {
        log_error("the tenant's memory limit cannot be kept in %s: %s", path, strerror(errno));
        return -1;
    }
    ledger = at;
    struct slot *own = ledger_own();
    if (own)
        own->bytes = 0;
    ledger_unlock();
    return 0;
}

bool tenant_charge(uint64_t bytes)
{
    if (!ledger)
        return true;
    if (!ledger_lock())
        return false;
    uint64_t sum = ledger_sum();
    struct slot *own = ledger_own();
    bool fits = own && sum <= limit && bytes <= limit - sum;
    if (fits)
        own->bytes += bytes;
    ledger_unlock();
    return fits;
}

void tenant_release(uint64_t bytes)
{
    if (!ledger || !ledger_lock())
        return;
    struct slot *own = ledger_own();
    if (own)
        own->bytes -= bytes < own->bytes ? bytes : own->bytes;
    ledger_unlock();
}

uint64_t tenant_limit(void) { return limit; }

uint64_t tenant_left(void)
{
    if (!ledger || !ledger_lock())
        return UINT64_MAX;
    uint64_t sum = ledger_sum();
    ledger_unlock();
    return sum < limit ? limit - sum : 0;
}
