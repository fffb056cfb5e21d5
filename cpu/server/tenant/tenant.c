/*
 * tenant.c: the books of a tenant: what the workers of this server hold together, in the file $FLYT_TENANT_LEDGER
 * (cpu/common/tenant_ledger.h), and at most $FLYT_TENANT_MEMORY bytes of each device, or what the node manager has
 * ordered since (resize.c). Each device has an account of its own: what a program has of one takes nothing from
 * another.
 *
 * A worker's slot goes when the listener has reaped it; a dead one that the listener could not see (it was itself
 * killed) is found by its process id when the next one counts. So the sum is what live workers hold, however the others
 * ended.
 *
 * Recall. Clients hold credit: memory that was mapped for them and that they do not use. Who lacks memory raises
 * `asked` in the slots of the others; a thread in each worker waits for that word and passes the question on to its
 * client, which unmaps what it does not need and answers (RECALLED, in order behind its UNMAPs). Whoever lacks memory
 * tries again at each change, until all have answered or its time ends. Who has not answered by then is waited for
 * half as long the next time, until it has.
 */
#include "cpu/server/tenant/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/fd.h"
#include "cpu/common/log.h"
#include "cpu/common/tenant_ledger.h"
#include "cpu/server/tenant/books.h"
#include "cpu/server/tenant/figures.h"
#include "cpu/server/tenant/tenant_accounts.h"
#include "cpu/server/tenant/tenant_shared.h"

/* A worker that died is not always reaped at once; who waits looks again so often. */
#define TENANT_SLICE_NS (5 * CLOCK_NS_PER_MS)
/* Credit is given ahead of need while an eighth of the limit stays free. */
enum { TENANT_ROOMY_PART = 8, TENANT_DEAF_MOST = 8 };

static struct ledger *ledger;
static int ledger_fd = -1;
static uint64_t limit = UINT64_MAX;                             /* as the environment says; see limit_told */
static pid_t self;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;       /* flock is per process */

static struct { void (*recall)(void *context, uint32_t number, uint64_t bytes); void *context; } listener;

/* ---- the file ---- */

struct ledger *books(void) { return ledger; }

bool books_lock(void)
{
    if (!ledger)
        return false;
    pthread_mutex_lock(&lock);
    while (flock(ledger_fd, LOCK_EX) != 0)
        if (errno != EINTR) {
            pthread_mutex_unlock(&lock);
            return false;
        }
    return true;
}

void books_unlock(void)
{
    flock(ledger_fd, LOCK_UN);
    pthread_mutex_unlock(&lock);
}

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Until the word is no longer `value`, or ns have passed; or for no reason. */
static void wait_for(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
    struct timespec time = clock_timespec(ns);
    syscall(SYS_futex, word, FUTEX_WAIT, value, ns == UINT64_MAX ? NULL : &time, NULL, 0);
}

void books_changed(void)
{
    atomic_fetch_add(&ledger->changed, 1);
    wake(&ledger->changed);
}

static uint32_t books_high(void)
{
    return ledger->high < LEDGER_SLOTS ? ledger->high : LEDGER_SLOTS;
}

/* ---- the limit ---- */

/* What the tenant may have. An order of the node manager replaces what the environment said (resize.c). */
static uint64_t limit_told(void)
{
    uint64_t ordered = ledger ? atomic_load_explicit(&ledger->limit, memory_order_relaxed) : 0;
    return ordered ? ordered : limit;
}

/* What charges are judged by: less, while the tenant is to have less and does not fit yet. */
static uint64_t limit_charged(void)
{
    uint64_t told = limit_told(), wanted = ledger ? atomic_load_explicit(&ledger->wanted, memory_order_relaxed) : 0;
    return wanted && wanted < told ? wanted : told;
}

uint64_t tenant_limit(void) { return limit_told(); }

/* ---- what is held ---- */

/* What its client is sure to hold unused on the device: it says a sum for all devices. */
static uint64_t slot_idle(const struct ledger_slot *slot, const struct account_held *held)
{
    uint64_t elsewhere = slot->credit - held->credit, idle = slot->idle > elsewhere ? slot->idle - elsewhere : 0;
    return slot->pid == self ? 0 : idle < held->credit ? idle : held->credit;
}

/* Bytes of all that live, on this device (LEDGER_ALL: on all). */
static uint64_t books_sum(uint32_t device, uint64_t *idle)
{
    uint64_t sum = 0, unused = 0;
    for (uint32_t i = 0; i < books_high(); i++) {
        struct ledger_slot *slot = &ledger->slots[i];
        if (slot->pid && slot->pid != self && kill((pid_t)slot->pid, 0) != 0 && errno == ESRCH) {
            shared_forget(ledger, slot->pid);
            account_forget(ledger, slot->pid);
            figures_fold(ledger, i);
            memset(slot, 0, sizeof *slot);
        }
        if (!slot->pid)
            continue;
        const struct account_held held = account_of(ledger, slot, device);
        sum += held.bytes;
        unused += slot_idle(slot, &held);
    }
    if (idle)
        *idle = unused;
    return sum + shared_sum(ledger, device);
}

uint64_t books_most(uint64_t *idle)
{
    uint64_t most = books_sum(0, idle), unused;
    for (uint32_t device = account_devices(ledger); device; device--) {
        uint64_t sum = books_sum(device, &unused);
        if (sum <= most)
            continue;
        most = sum;
        if (idle)
            *idle = unused;
    }
    return most;
}

/* NULL: all are taken. */
static struct ledger_slot *ledger_own(void)
{
    struct ledger_slot *unused = NULL;
    for (uint32_t i = 0; i < LEDGER_SLOTS; i++) {
        struct ledger_slot *slot = &ledger->slots[i];
        if (slot->pid == self)
            return slot;
        if (!unused && !slot->pid)
            unused = slot;
        if (unused && i >= ledger->high)
            break;
    }
    if (unused) {
        memset(unused, 0, sizeof *unused);
        memset(&ledger->programs[unused - ledger->slots], 0, sizeof ledger->programs[0]);
        unused->pid = self;
        if (unused - ledger->slots >= ledger->high)
            ledger->high = (uint32_t)(unused - ledger->slots) + 1;
    }
    return unused;
}

static int ledger_open(const char *path, int flags)
{
    ledger_fd = fd_keep(open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
    if (ledger_fd < 0 || ftruncate(ledger_fd, sizeof *ledger) != 0)
        return -errno;
    /* A page for which the disk has no room would end us with SIGBUS, in the middle of a program. */
    int full = posix_fallocate(ledger_fd, 0, sizeof *ledger);
    if (full && full != EOPNOTSUPP && full != EINVAL)
        return -full;
    void *at = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED, ledger_fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    ledger = at;
    self = getpid();
    return 0;
}

/* ---- the listener's part ---- */

void tenant_reset(const char *directory)
{
    char made[4096], *end = NULL;
    const char *path = getenv("FLYT_TENANT_LEDGER"), *bytes = getenv("FLYT_TENANT_MEMORY");
    uint64_t most = bytes && *bytes ? strtoull(bytes, &end, 10) : UINT64_MAX;
    limit = end && *end ? UINT64_MAX : most;                    /* the first worker says what is wrong with it */
    if ((!path || !*path) && !directory)
        return;
    if (!path || !*path) {
        snprintf(made, sizeof made, "%s/.tenant", directory);
        setenv("FLYT_TENANT_LEDGER", made, 1);
        path = made;
    }
    int r = ledger_open(path, O_TRUNC);
    if (r != 0)
        log_warning("event=no-usage-file path=%s why=\"%s\": the use of device memory is not recorded", path,
                    strerror(-r));
}

void tenant_forget(pid_t worker)
{
    if (!books_lock())
        return;
    for (uint32_t i = 0; i < books_high(); i++)
        if (ledger->slots[i].pid == worker) {
            figures_fold(ledger, i);
            memset(&ledger->slots[i], 0, sizeof ledger->slots[i]);
        }
    shared_forget(ledger, worker);
    account_forget(ledger, worker);
    books_unlock();
    books_changed();
}

/* ---- the worker's part ---- */

static struct ledger_figures unread, *figures = &unread;

struct ledger_figures *tenant_figures(void) { return figures; }

int tenant_open(char *why, size_t size)
{
    const char *bytes = getenv("FLYT_TENANT_MEMORY"), *path = getenv("FLYT_TENANT_LEDGER");
    char *end = NULL;
    bool limited = bytes && *bytes;
    if (!path || !*path) {
        snprintf(why, size, "FLYT_TENANT_MEMORY is set and FLYT_TENANT_LEDGER is not: the limit cannot be kept");
        return limited ? -1 : 0;
    }
    if (limited)
        limit = strtoull(bytes, &end, 10);
    int r = end && *end ? -EINVAL : ledger_open(path, 0);
    struct ledger_slot *own = NULL;
    if (r == 0 && books_lock()) {
        own = ledger_own();
        if (own)
            *own = (struct ledger_slot){ .pid = self };
        account_forget(ledger, self);
        if (own)
            figures = &ledger->figures[own - ledger->slots];
        books_unlock();
    }
    if (own || !limited)
        return 0;
    if (end && *end)
        snprintf(why, size, "FLYT_TENANT_MEMORY=%s is no number of bytes", bytes);
    else
        snprintf(why, size, "%s: %s. It is to hold what the tenant's programs have of the GPU's memory", path,
                 r ? strerror(-r) : "too many programs have a place in it");
    return -1;
}

bool tenant_charge(enum tenant_kind kind, unsigned device, uint64_t bytes)
{
    if (!ledger)
        return true;
    if (!books_lock())
        return false;
    uint64_t sum = books_sum(device, NULL), most = limit_charged();
    struct ledger_slot *own = ledger_own();
    bool fits = own && sum <= most && bytes <= most - sum &&
                account_add(ledger, own, device, bytes, kind == TENANT_CREDIT ? bytes : 0);
    books_unlock();
    return fits;
}

static void slot_release(struct ledger_slot *own, enum tenant_kind kind, unsigned device, uint64_t bytes)
{
    if (own)
        account_take(ledger, own, device, bytes, kind == TENANT_CREDIT ? bytes : 0);
}

void tenant_release(enum tenant_kind kind, unsigned device, uint64_t bytes)
{
    if (!books_lock())
        return;
    slot_release(ledger_own(), kind, device, bytes);
    books_unlock();
    books_changed();
}

bool tenant_share(enum tenant_kind kind, unsigned device, uint64_t bytes, uint64_t number)
{
    if (!ledger)
        return true;
    if (!books_lock())
        return false;
    bool added = shared_add(ledger, number, device, bytes, self);
    if (added)
        slot_release(ledger_own(), kind, device, bytes);
    books_unlock();
    return added;
}

bool tenant_share_hold(uint64_t number, unsigned device, uint64_t bytes)
{
    if (!ledger)
        return true;
    if (!books_lock())
        return false;
    uint64_t sum = books_sum(device, NULL), most = limit_charged();
    bool fits = shared_held(ledger, number) || (sum <= most && bytes <= most - sum);
    bool added = fits && shared_add(ledger, number, device, bytes, self);
    books_unlock();
    return added;
}

void tenant_share_end(uint64_t number)
{
    if (!number || !books_lock())
        return;
    shared_drop(ledger, number, self);
    books_unlock();
    books_changed();
}

bool tenant_charge_waiting(enum tenant_kind kind, unsigned device, uint64_t bytes, bool own)
{
    struct tenant_try try = tenant_try_begin(device, bytes, TENANT_PATIENCE_NS, own);
    bool fits;
    do
        fits = tenant_charge(kind, device, bytes);
    while (!fits && tenant_try_again(&try));
    return fits;
}

bool tenant_roomy(unsigned device, uint64_t bytes)
{
    uint64_t most = limit_charged();
    if (most == UINT64_MAX || !books_lock())
        return true;
    uint64_t sum = books_sum(device, NULL);
    books_unlock();
    return sum <= most && bytes <= most - sum && most - sum - bytes >= most / TENANT_ROOMY_PART;
}

uint64_t tenant_left(unsigned device, bool share, uint64_t *idle)
{
    uint64_t most = limit_charged();
    *idle = 0;
    if ((most == UINT64_MAX && !(share && tenant_shared())) || !books_lock())
        return UINT64_MAX;
    uint64_t sum = books_sum(device, idle);
    books_unlock();
    sum -= *idle < sum ? *idle : sum;
    return sum < most ? most - sum : 0;
}

/* ---- what the programs use ---- */

static struct ledger_program *program;              /* of our slot */

void tenant_program(uint32_t pid, const char *executable)
{
    if (!books_lock())
        return;
    struct ledger_slot *own = ledger_own();
    if (own) {
        struct ledger_program *at = &ledger->programs[own - ledger->slots];
        memset(at, 0, sizeof *at);
        snprintf(at->executable, sizeof at->executable, "%s", executable);
        atomic_store(&at->pid, pid);
        __atomic_store_n(&program, at, __ATOMIC_RELEASE);
    }
    books_unlock();
}

static struct ledger_program *program_own(void) { return __atomic_load_n(&program, __ATOMIC_ACQUIRE); }

void tenant_device(unsigned device, uint64_t bytes)
{
    struct ledger_program *own = program_own();
    if (own && device < LEDGER_DEVICES)
        atomic_store_explicit(&own->bytes[device], bytes, memory_order_relaxed);
}

void tenant_look(bool busy)
{
    struct ledger_program *own = program_own();
    if (!own)
        return;
    atomic_store_explicit(&own->busy, atomic_load_explicit(&own->busy, memory_order_relaxed) << 1 | busy,
                          memory_order_relaxed);
    atomic_fetch_add_explicit(&own->looks, 1, memory_order_relaxed);
}

_Static_assert((int)TENANT_NAME == LEDGER_NAME && (int)TENANT_DEVICES == LEDGER_DEVICES, "as in the ledger");

int tenant_usage(struct tenant_usage *out, unsigned most)
{
    unsigned count = 0;
    if (!books_lock())
        return -1;
    books_sum(LEDGER_ALL, NULL);                   /* frees the slots of workers that have ended */
    for (uint32_t i = 0; i < books_high() && count < most; i++) {
        const struct ledger_program *at = &ledger->programs[i];
        uint32_t pid = ledger->slots[i].pid ? atomic_load(&at->pid) : 0, looks = atomic_load(&at->looks);
        if (!pid)
            continue;
        struct tenant_usage *one = &out[count++];
        memset(one, 0, sizeof *one);
        one->pid = pid;
        snprintf(one->executable, sizeof one->executable, "%.*s", LEDGER_NAME - 1, at->executable);
        looks = looks < TENANT_LOOKS ? looks : TENANT_LOOKS;
        uint32_t busy = atomic_load(&at->busy) & ((1u << TENANT_LOOKS) - 1);
        one->busy = looks ? 100 * (uint32_t)__builtin_popcount(busy) / looks : 0;
        for (unsigned d = 0; d < LEDGER_DEVICES; d++)
            one->bytes[d] = atomic_load(&at->bytes[d]);
    }
    books_unlock();
    return (int)count;
}

/* ---- recall ---- */

/* Of a worker, other than ours or not, whose client may hold something unused. */
static bool slot_asked(const struct ledger_slot *slot, bool own)
{
    return slot->pid && (own || slot->pid != self) && slot->credit;
}

/* Without the lock, which is a system call: the answer may be old by the time it is used in any case. */
bool tenant_shared(void)
{
    uint32_t high = ledger ? __atomic_load_n(&ledger->high, __ATOMIC_RELAXED) : 0;
    for (uint32_t i = 0; i < high && i < LEDGER_SLOTS; i++) {
        struct ledger_slot *slot = &ledger->slots[i];
        int64_t pid = __atomic_load_n(&slot->pid, __ATOMIC_RELAXED);
        if (pid && pid != self && __atomic_load_n(&slot->credit, __ATOMIC_RELAXED))
            return true;
    }
    return false;
}

/* Clients are asked for a number of bytes, whatever the device: where there are several, for all that they can give. */
void books_ask(uint64_t lacking, bool own)
{
    if (lacking && account_devices(ledger))
        lacking = UINT64_MAX;
    for (uint32_t i = 0; i < books_high(); i++) {
        struct ledger_slot *slot = &ledger->slots[i];
        if (!slot_asked(slot, own))
            continue;
        slot->wanted = lacking > slot->wanted ? lacking : slot->wanted;
        atomic_fetch_add(&slot->asked, 1);
        wake(&slot->asked);
    }
}

/* What of `bytes` lacks, from each who may have it. */
static void tenant_ask(unsigned device, uint64_t bytes, bool own)
{
    if (!books_lock())
        return;
    uint64_t sum = books_sum(device, NULL), most = limit_charged(), left = sum < most ? most - sum : 0;
    books_ask(most == UINT64_MAX || left >= bytes ? bytes : bytes - left, own);
    books_unlock();
}

/* Whose answer is worth waiting for. Who did not answer in time before is waited for half as long each time. */
static bool tenant_awaited(const struct tenant_try *try)
{
    bool awaited = false;
    uint64_t waited = clock_now() - try->since;
    if (!books_lock())
        return false;
    books_sum(LEDGER_ALL, NULL);                         /* who has died answers no more */
    for (uint32_t i = 0; i < books_high(); i++) {
        const struct ledger_slot *slot = &ledger->slots[i];
        awaited |= slot_asked(slot, try->own) && slot->answered != atomic_load(&slot->asked) &&
                   waited < try->wait_ns >> slot->deaf;
    }
    books_unlock();
    return awaited;
}

static void tenant_give_up(bool own)
{
    if (!books_lock())
        return;
    for (uint32_t i = 0; i < books_high(); i++) {
        struct ledger_slot *slot = &ledger->slots[i];
        if (slot_asked(slot, own) && slot->answered != atomic_load(&slot->asked) && slot->deaf < TENANT_DEAF_MOST)
            slot->deaf++;
    }
    books_unlock();
}

struct tenant_try tenant_try_begin(unsigned device, uint64_t bytes, uint64_t wait_ns, bool own)
{
    return (struct tenant_try){ .bytes = bytes, .device = device, .own = own, .since = clock_now(), .wait_ns = wait_ns,
                                .seen = ledger ? atomic_load(&ledger->changed) : 0, .last = !ledger };
}

bool tenant_try_again(struct tenant_try *try)
{
    if (try->last)
        return false;
    if (!try->asked)
        tenant_ask(try->device, try->bytes, try->own);
    try->asked = true;
    if (tenant_awaited(try)) {
        wait_for(&ledger->changed, try->seen, TENANT_SLICE_NS);
        try->seen = atomic_load(&ledger->changed);
        return true;
    }
    tenant_give_up(try->own);
    try->last = true;                                     /* the last answer may have come after the try */
    return true;
}

void tenant_survey(uint64_t wait_ns)
{
    struct tenant_try try = tenant_try_begin(0, 0, wait_ns, false);
    while (tenant_try_again(&try))
        ;
}

static void *listener_main(void *unused)
{
    (void)unused;
    uint32_t seen = 0;
    if (!books_lock())
        return NULL;
    struct ledger_slot *own = ledger_own();
    books_unlock();
    while (own) {
        uint32_t number = atomic_load(&own->asked);
        if (number == seen) {
            wait_for(&own->asked, seen, UINT64_MAX);
            continue;
        }
        uint64_t wanted = 0;
        if (books_lock()) {
            number = atomic_load(&own->asked);
            wanted = own->wanted;
            own->wanted = 0;
            books_unlock();
        }
        seen = number;
        listener.recall(listener.context, number, wanted);
    }
    return NULL;
}

int tenant_listen(void (*recall)(void *context, uint32_t number, uint64_t bytes), void *context)
{
    pthread_t thread;
    if (!ledger)
        return 0;
    listener.recall = recall;
    listener.context = context;
    int r = pthread_create(&thread, NULL, listener_main, NULL);
    if (r == 0)
        pthread_detach(thread);
    return r;
}

void tenant_answer(uint32_t number, uint64_t idle)
{
    if (!books_lock())
        return;
    struct ledger_slot *own = ledger_own();
    if (own && atomic_load(&own->asked) - number <= INT32_MAX) {          /* not one that was never asked */
        own->answered = number;
        own->deaf = 0;
        own->idle = idle < own->credit ? idle : own->credit;
    }
    books_unlock();
    books_changed();
}
