/*
 * host_space.c: which parts of the host window are in use.
 *
 * A run is what one HOST_ADD gave: whole granules, page-locked for the device. A large piece has a run to itself;
 * small ones are pages of a run of one granule, so that most of them cost no message. Runs that fall free are kept,
 * up to SPARE_MOST bytes, for the next who wants one of that size; beyond that they are taken from the device
 * (HOST_REMOVE), and only then are their pages given back to the system: as long as the device knows them, it would
 * go on using the old ones. The server refuses while work is under way; then the run stays unused and is tried
 * again.
 *
 * Where no memory is shared (over a network), the window is mirrored: what is used of it is memory of this process
 * alone, and the server hears of it when a kernel wants it (mirror.c).
 *
 * Only runs are mapped. The rest of the window is reserved without access: a program that locks its memory (mlockall)
 * would else lock all of the window, which is many GiB.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "host.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/stream/mirror.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/wire.h"

enum { PAGE = 4096, PAGES = FLYT_HOST_GRANULE / PAGE, SMALL_MOST = FLYT_HOST_GRANULE / 2, SPARE_MOST = 64 << 20 };

struct run {
    uint64_t    address, size;
    struct run *next;                 /* among the unused ones, oldest first, or those cut into pages */
    unsigned    used;                 /* pages */
    bool        pages;                /* cut into pages */
    uint16_t    length[PAGES];        /* of the piece that begins with that page; 0: none does */
    uint64_t    taken[PAGES / 64];
};

static struct {
    pthread_mutex_t lock;             /* held over the calls to the server */
    uint64_t        base, size, offset;
    int             fd;
    struct run    **at;               /* by granule */
    struct run     *cut, *spare;
    uint64_t        spare_bytes;
    bool            mirrored, told;
} space = { .lock = PTHREAD_MUTEX_INITIALIZER };

void host_space_open(uint64_t base, uint64_t size, int fd, uint64_t offset)
{
    space.base = base;
    space.fd = fd;
    space.offset = offset;
    space.size = size;
}

void host_space_open_mirrored(uint64_t base, uint64_t size)
{
    host_space_open(base, size, -1, 0);
    space.mirrored = true;
}

bool host_space_any(void)
{
    return space.size != 0 && !space.mirrored;
}

bool host_space_holds(uint64_t address)
{
    return address - space.base < space.size;
}

/* ---- what is mapped ---- */

/* A forked child does not get what is shared: what it wrote there would be the parent's, and the device's. */
static bool map(uint64_t address, uint64_t size)
{
    int flags = (space.mirrored ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED | (space.fd < 0 ? MAP_ANONYMOUS : 0);
    void *memory = mmap((void *)(uintptr_t)address, size, PROT_READ | PROT_WRITE, flags, space.fd,
                        space.fd < 0 ? 0 : (off_t)(space.offset + (address - space.base)));
    if (memory == MAP_FAILED || space.mirrored)
        return memory != MAP_FAILED;
    madvise(memory, size, MADV_DONTFORK);
    madvise(memory, size, MADV_HUGEPAGE);     /* where the system gives them for shared memory */
    return true;
}

/* Its pages go back to the system; the addresses stay reserved. */
static void unmap(uint64_t address, uint64_t size)
{
    void *memory = (void *)(uintptr_t)address;
    madvise(memory, size, MADV_REMOVE);
    mmap(memory, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* ---- runs, under the lock ---- */

static void place(struct run *run, struct run *what)
{
    FLYT_ASSERT_HELD(&space.lock);
    for (uint64_t i = 0; i < run->size / FLYT_HOST_GRANULE; i++)
        space.at[(run->address - space.base) / FLYT_HOST_GRANULE + i] = what;
}

/* The lowest place for so many granules; 0: none. */
static uint64_t find(uint64_t count)
{
    FLYT_ASSERT_HELD(&space.lock);
    uint64_t all = space.size / FLYT_HOST_GRANULE, found = 0;
    if (!space.at && !(space.at = calloc(all, sizeof(struct run *))))
        return 0;
    for (uint64_t i = 0; i < all; i++) {
        found = space.at[i] ? 0 : found + 1;
        if (found == count)
            return space.base + (i + 1 - count) * FLYT_HOST_GRANULE;
    }
    return 0;
}

/* Takes the run from the device and gives its pages back. False: not now. */
static bool run_end(struct run *run)
{
    FLYT_ASSERT_HELD(&space.lock);
    host_args args = { .address = run->address, .size = run->size };
    if (space.mirrored ? !mirror_room->forget(run->address, run->size)
                       : wire_plain(&core_session, FLYT_HOST_REMOVE, (xdrproc_t)xdr_host_args, &args) != CORE_OK)
        return false;
    unmap(run->address, run->size);
    place(run, NULL);
    free(run);
    return true;
}

/* Ends unused runs, the oldest first, until no more than `most` bytes are left of them. */
static void trim(uint64_t most)
{
    FLYT_ASSERT_HELD(&space.lock);
    for (struct run **at = &space.spare; *at && space.spare_bytes > most;) {
        struct run *run = *at, *next = run->next;
        uint64_t size = run->size;
        if (run_end(run)) {
            *at = next;
            space.spare_bytes -= size;
        } else {
            at = &run->next;
        }
    }
}

static void spare(struct run *run)
{
    FLYT_ASSERT_HELD(&space.lock);
    struct run **at = &space.spare;
    while (*at)
        at = &(*at)->next;
    *at = run;
    run->next = NULL;
    space.spare_bytes += run->size;
    trim(SPARE_MOST);
}

static void tell(size_t size, int code)
{
    if (space.told || code == CORE_DEVICE_UNAVAILABLE) /* the session has ended, perhaps because the program ends */
        return;
    space.told = true;
    if (code)
        log_warning("the GPU server cannot page-lock %zu bytes of host memory that it shares with this program (%d); "
                    "they and others like "
                    "them become ordinary memory, which is copied once more. See the server's log",
                    size, code);
    else if (space.mirrored)
        log_warning("%zu bytes of page-locked memory, and others like them, cannot be reached by kernels: of such "
                    "memory a program has at most %llu MiB where it reaches its GPU server over a network",
                    size, (unsigned long long)(space.size >> 20));
    else
        log_warning(
            "%zu bytes of page-locked memory do not fit in the %llu MiB that this program shares with the GPU server; "
            "they and "
            "others like them become ordinary memory, which is copied once more and which kernels cannot reach. Start "
            "cricket-rpc-server with a larger --host-memory (in a virtual machine: with a larger --bar, or fewer "
            "sessions in it)",
            size, (unsigned long long)(space.size >> 20));
}

static struct run *run_begin(size_t wanted)
{
    FLYT_ASSERT_HELD(&space.lock);
    uint64_t count = wanted / FLYT_HOST_GRANULE + (wanted % FLYT_HOST_GRANULE != 0);
    for (struct run **at = &space.spare; *at; at = &(*at)->next)
        if ((*at)->size == count * FLYT_HOST_GRANULE) {
            struct run *run = *at;
            *at = run->next;
            space.spare_bytes -= run->size;
            return run;
        }
    uint64_t address = find(count);
    if (!address && space.spare) {
        trim(0);
        address = find(count);
    }
    struct run *run = address ? calloc(1, sizeof *run) : NULL;
    if (!run) {
        tell(wanted, 0);
        return NULL;
    }
    *run = (struct run){ .address = address, .size = count * FLYT_HOST_GRANULE };
    host_args args = { .address = run->address, .size = run->size };
    bool mapped = map(run->address, run->size);
    int code = mapped ? CORE_OK : CORE_OUT_OF_MEMORY;
    if (!code && !space.mirrored)
        code = wire_plain(&core_session, FLYT_HOST_ADD, (xdrproc_t)xdr_host_args, &args);
    if (code) {
        if (mapped)
            unmap(run->address, run->size);
        tell(wanted, code);
        free(run);
        return NULL;
    }
    place(run, run);
    return run;
}

/* ---- pages of a run, under the lock ---- */

static bool page_taken(const struct run *run, unsigned page)
{
    return run->taken[page / 64] >> page % 64 & 1;
}

static void pages_mark(struct run *run, unsigned first, unsigned count, bool taken)
{
    for (unsigned page = first; page < first + count; page++)
        if (taken)
            run->taken[page / 64] |= UINT64_C(1) << page % 64;
        else
            run->taken[page / 64] &= ~(UINT64_C(1) << page % 64);
    run->used = taken ? run->used + count : run->used - count;
    run->length[first] = (uint16_t)(taken ? count : 0);
}

static uint64_t pages_take(struct run *run, unsigned count)
{
    FLYT_ASSERT_HELD(&space.lock);
    if (PAGES - run->used < count)
        return 0;
    for (unsigned page = 0, found = 0; page < PAGES; page++) {
        found = page_taken(run, page) ? 0 : found + 1;
        if (found == count) {
            pages_mark(run, page + 1 - count, count, true);
            return run->address + (uint64_t)(page + 1 - count) * PAGE;
        }
    }
    return 0;
}

static uint64_t small_take(size_t size)
{
    FLYT_ASSERT_HELD(&space.lock);
    unsigned count = (unsigned)((size + PAGE - 1) / PAGE);
    uint64_t address = 0;
    for (struct run *run = space.cut; run && !address; run = run->next)
        address = pages_take(run, count);
    if (address)
        return address;
    struct run *run = run_begin(FLYT_HOST_GRANULE);
    if (!run)
        return 0;
    run->pages = true;
    run->next = space.cut;
    space.cut = run;
    return pages_take(run, count);
}

/* An empty run stays, as long as it is the only one. */
static void small_give(struct run *run, uint64_t address)
{
    FLYT_ASSERT_HELD(&space.lock);
    unsigned page = (unsigned)((address - run->address) / PAGE);
    pages_mark(run, page, run->length[page], false);
    if (run->used || (space.cut == run && !run->next))
        return;
    struct run **at = &space.cut;
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    run->pages = false;
    spare(run);
}

/* ---- for the others ---- */

uint64_t host_space_take(size_t size)
{
    if (!space.size || !size)
        return 0;
    pthread_mutex_lock(&space.lock);
    uint64_t address = 0;
    if (size <= SMALL_MOST) {
        address = small_take(size);
    } else {
        struct run *run = run_begin(size);
        address = run ? run->address : 0;
    }
    pthread_mutex_unlock(&space.lock);
    return address;
}

void host_space_give(uint64_t address)
{
    pthread_mutex_lock(&space.lock);
    struct run *run = space.at[(address - space.base) / FLYT_HOST_GRANULE];
    if (run->pages)
        small_give(run, address);
    else
        spare(run);
    pthread_mutex_unlock(&space.lock);
}

/* ---- moving to another server: its payload area is this one (kept), or another file ---- */

/* One run's pages there. */
struct moving_run { uint64_t address, size; void *there; };
struct moving_space {
    struct rpc_shared_memory shared;
    struct moving_run *runs;
    unsigned count;
    uint64_t bytes, end;                          /* what is used, and where it ends */
};

/* The runs from the granule on; NULL: there are no more. */
static const struct run *run_from(uint64_t *granule)
{
    for (; space.at && *granule < space.size / FLYT_HOST_GRANULE; (*granule)++) {
        const struct run *run = space.at[*granule];
        if (run) {
            *granule += run->size / FLYT_HOST_GRANULE;
            return run;
        }
    }
    return NULL;
}

/* Where the new server is not known at first, only later. */
static int space_fits(struct move *move, const struct moving_space *moving)
{
    if (space.mirrored)
        return mirror_room->fits(move);
    if (!moving->bytes || moving->end <= move->target_host)
        return CORE_OK;
    return move_refuse(move, 0, "this program shares %llu MiB of page-locked memory with its server, and %s",
                       (unsigned long long)(moving->bytes >> 20),
                       move->target_host ? "the new server has less of it" : "would share none with the new one");
}

/* What an attempt that failed has mapped. */
static void runs_forget(struct moving_space *moving)
{
    while (moving->count) {
        const struct moving_run *run = &moving->runs[--moving->count];
        munmap(run->there, run->size);
    }
}

int host_space_save(struct move *move)
{
    struct moving_space *moving = move->of[KIND_HOST_MEMORY] = calloc(1, sizeof *moving);
    uint64_t granule = 0, bytes = 0, end = 0;
    if (space.mirrored) {
        int code = moving ? mirror_room->save(move) : CORE_OUT_OF_MEMORY;
        return code || !(move->steps & MOVE_IN) ? code : space_fits(move, moving);
    }
    pthread_mutex_lock(&space.lock);
    trim(0);                                      /* what is unused need not move */
    for (const struct run *run; (run = run_from(&granule)); end = run->address + run->size - space.base)
        bytes += run->size;
    pthread_mutex_unlock(&space.lock);
    if (!moving)
        return CORE_OUT_OF_MEMORY;
    moving->bytes = bytes;
    moving->end = end;
    return move->steps & MOVE_IN ? space_fits(move, moving) : CORE_OK;
}

static int run_add(struct move *move, const struct run *run)
{
    host_args args = { .address = run->address, .size = run->size };
    int code = wire_plain(&core_session, FLYT_HOST_ADD, (xdrproc_t)xdr_host_args, &args);
    return code ? move_refuse(move, code, "the new server does not page-lock %llu MiB of host memory (error %d)",
                              (unsigned long long)(run->size >> 20), code)
                : CORE_OK;
}

int host_space_restore(struct move *move)
{
    int code;
    struct moving_space *moving = move->of[KIND_HOST_MEMORY];
    uint64_t granule = 0, count = space.size / FLYT_HOST_GRANULE;
    const struct run *run;
    runs_forget(moving);
    if ((code = space_fits(move, moving)))
        return code;
    if (space.mirrored)
        return CORE_OK;                           /* the new server hears of it when a kernel wants it */
    rpc_client_shared_memory(core_session.client, &moving->shared);
    while (space.at && (run = run_from(&granule))) {
        if (moving->shared.kept) {                /* the pages stay what they are */
            if ((code = run_add(move, run)))
                return code;
            continue;
        }
        if (!moving->runs && !(moving->runs = calloc(count, sizeof *moving->runs)))
            return CORE_OUT_OF_MEMORY;
        off_t offset = (off_t)(moving->shared.payload + (run->address - space.base));
        void *there = mmap(NULL, run->size, PROT_READ | PROT_WRITE, MAP_SHARED, moving->shared.fd, offset);
        if (there == MAP_FAILED)
            return move_refuse(move, CORE_OUT_OF_MEMORY, "page-locked memory of the new server cannot be mapped");
        moving->runs[moving->count++] = (struct moving_run){ run->address, run->size, there };
        if ((code = run_add(move, run)))
            return code;
    }
    return CORE_OK;
}

int host_space_contents(struct move *move)
{
    const struct moving_space *moving = move->of[KIND_HOST_MEMORY];
    for (unsigned i = 0; i < moving->count; i++)      /* none before the new server is there */
        memcpy(moving->runs[i].there, (const void *)(uintptr_t)moving->runs[i].address, moving->runs[i].size);
    return CORE_OK;
}

/* The new pages take the place of the old ones in one step. */
void host_space_moved(struct move *move, bool moved)
{
    struct moving_space *moving = move->of[KIND_HOST_MEMORY];
    moved = moved && !move->notes;
    for (unsigned i = 0; moving && i < moving->count; i++) {
        const struct moving_run *run = &moving->runs[i];
        void *at = (void *)(uintptr_t)run->address;
        if (!moved)
            munmap(run->there, run->size);
        else if (mremap(run->there, run->size, run->size, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
            session_lost(&core_session, "the system refused to move page-locked memory");
        else
            madvise(at, run->size, MADV_DONTFORK);
    }
    if (moved && moving && !space.mirrored) {
        space.fd = moving->shared.fd;
        space.offset = moving->shared.payload;
        space.size = space.size < move->target_host ? space.size : move->target_host;
    }
    if (moving)
        free(moving->runs);
    free(moving);
}
