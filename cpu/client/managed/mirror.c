/*
 * mirror.c: the areas, the pieces, and what changed in them.
 *
 * The memory of the program is its own, as if there were no mirror: nothing watches its accesses, system calls and
 * other threads use it as they like. Beside each piece stands its base: the bytes that both sides had in common last.
 * So the bytes that the program has changed are those that differ from the base. They are looked for before each work
 * that may want them, in the pieces only; that costs a look at each page of them. A patch has no byte that did not
 * change, so both sides may use different bytes of one page at the same time.
 *
 * The launches count: while mirror_launched is not mirror_settled, a synchronisation asks what the device has changed.
 *
 * Lock: of the areas and the pieces, held over the calls that patch, so that two patches never cross. Inside it those
 * of the connection and of the pending copies may be taken; not those of host_space.c.
 */
#include "mirrored.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/memory/host.h"
#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/stream/pending.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "cpu/common/patch.h"
#include "cpu/common/tree.h"

enum { PAGE = 4096, PATCH_ROOM = 256 * 1024, PIECES_OF_AREA = 32, LOOKS_MOST = 8, CUTS_MOST = 1024 };

struct area {
    struct tree_node node;            /* key: address */
    uint64_t size;
    uint8_t *host;
    uint64_t registered;              /* base of the registered memory that it stands for; 0: pinned memory */
    bool     kernels;                 /* kernels use it, as far as is known; of whichever server */
};
struct piece {
    struct tree_node node;            /* key: address */
    uint64_t size;
    uint8_t *base;                    /* what both sides had in common last */
};

/* What one server has. */
struct mirror_side {
    struct client_session *session;   /* NULL: nothing yet */
    struct tree pieces;
    struct patch patch;
    bool unheard;                     /* no answer has come since the last patch */
};

static struct {
    pthread_mutex_t lock;
    uint64_t base, size;              /* of the window; written once, at attach */
    struct tree areas;
    struct mirror_side sides[SESSIONS_MOST]; /* by the number of the session */
    uint64_t found;                   /* bytes of patches, both ways, ever */
    atomic_uint used, aliases;        /* areas that kernels use; those of registered memory */
} mirror = { .lock = PTHREAD_MUTEX_INITIALIZER };

void mirror_begin(uint64_t base, uint64_t size)
{
    mirror.base = base;
    mirror.size = size;
}

bool mirror_inside(uint64_t address) { return address - mirror.base < mirror.size; }

/* A kernel's access waits until the memory has been brought. */
static bool pulls(void) { return core_session.hello.capabilities & FLYT_CAP_PULL; }

/* ---- servers ---- */

static struct mirror_side *side_of(struct client_session *session)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    struct mirror_side *side = &mirror.sides[session->number];
    side->session = session;
    return side;
}

/* The next one that has anything; NULL: the first one. */
static struct mirror_side *side_next(struct mirror_side *side)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    for (side = side ? side + 1 : mirror.sides; side < mirror.sides + SESSIONS_MOST; side++)
        if (side->session)
            return side;
    return NULL;
}

/* Of several servers one may be lost, which concerns those calls only that are about its GPUs. */
static bool is_gone(const struct mirror_side *side) { return session_several() && atomic_load(&side->session->sticky); }

/* ---- areas ---- */

static struct area *area_find(uint64_t address)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    struct area *a = TREE_OBJECT(tree_at_or_below(&mirror.areas, address, 0), struct area, node);
    return a && address - a->node.key < a->size ? a : NULL;
}

/* The first area that ends above the address. */
static struct area *area_above(uint64_t address)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    struct area *a = area_find(address);
    return a ? a : TREE_OBJECT(tree_at_or_above(&mirror.areas, address, 0), struct area, node);
}

static struct area *area_behind(const struct area *a) { return area_above(a->node.key + a->size); }

static struct piece *piece_find(const struct mirror_side *side, uint64_t address)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    struct piece *p = TREE_OBJECT(tree_at_or_below(&side->pieces, address, 0), struct piece, node);
    return p && address - p->node.key < p->size ? p : NULL;
}

static void area_use(struct area *a)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    if (!a->kernels)
        atomic_fetch_add(&mirror.used, 1);
    a->kernels = true;
}

/* The server has the piece, so kernels reach these areas without asking for them. */
static void areas_use(const struct piece *p)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    for (struct area *a = area_above(p->node.key); a && a->node.key < p->node.key + p->size; a = area_behind(a))
        area_use(a);
}

/* Does a server have memory of it already? */
static bool area_there(const struct area *a)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    bool there = false;
    for (struct mirror_side *side = side_next(NULL); side && !there; side = side_next(side)) {
        const struct tree_node *next = tree_at_or_above(&side->pieces, a->node.key, 0);
        there = piece_find(side, a->node.key) || (next && next->key < a->node.key + a->size);
    }
    return there;
}

static int area_add(uint64_t address, uint64_t size, void *host, uint64_t registered)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    struct area *a = malloc(sizeof *a);
    if (!a)
        return CORE_OUT_OF_MEMORY;
    *a = (struct area){ .node.key = address, .size = (size + PAGE - 1) & ~(uint64_t)(PAGE - 1), .host = host,
                        .registered = registered };
    tree_insert(&mirror.areas, &a->node);
    if (area_there(a))
        area_use(a);
    atomic_fetch_or(&launch_heed, HEED_MIRROR);
    return CORE_OK;
}

static void area_end(struct area *a)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    tree_remove(&mirror.areas, &a->node);
    if (a->kernels)
        atomic_fetch_sub(&mirror.used, 1);
    free(a);
    if (!tree_first(&mirror.areas))
        atomic_fetch_and(&launch_heed, ~(unsigned)HEED_MIRROR);
}

int mirror_add(uint64_t address, uint64_t size)
{
    pthread_mutex_lock(&mirror.lock);
    int code = area_add(address, size, (void *)(uintptr_t)address, 0);
    pthread_mutex_unlock(&mirror.lock);
    return code;
}

void mirror_remove(uint64_t address)
{
    mirror_synchronised();
    pthread_mutex_lock(&mirror.lock);
    struct area *a = area_find(address);
    if (a)
        area_end(a);
    pthread_mutex_unlock(&mirror.lock);
}

bool mirror_has(uint64_t address)
{
    if (!mirror_inside(address))
        return false;
    pthread_mutex_lock(&mirror.lock);
    bool held = area_find(address) != NULL;
    pthread_mutex_unlock(&mirror.lock);
    return held;
}

bool mirror_area(uint64_t address, uint64_t *base, uint64_t *size)
{
    pthread_mutex_lock(&mirror.lock);
    const struct area *a = mirror_inside(address) ? area_find(address) : NULL;
    if (a) {
        *base = (uint64_t)(uintptr_t)a->host;
        *size = a->size;
    }
    pthread_mutex_unlock(&mirror.lock);
    return a != NULL;
}

static void used(uint64_t address)
{
    pthread_mutex_lock(&mirror.lock);
    struct area *a = mirror_inside(address) ? area_find(address) : NULL;
    if (a)
        area_use(a);
    pthread_mutex_unlock(&mirror.lock);
}

/* ---- registered memory ---- */

static struct area *alias_find(uint64_t registered)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    struct area *a = TREE_OBJECT(tree_first(&mirror.areas), struct area, node);
    while (a && a->registered != registered)
        a = TREE_OBJECT(tree_next(&mirror.areas, &a->node), struct area, node);
    return a;
}

uint64_t mirror_alias(uint64_t address, uint64_t base, uint64_t size)
{
    uint64_t first = base & ~(uint64_t)(PAGE - 1), length = base + size - first, at = 0;
    if (!mirror.size)
        return 0;
    pthread_mutex_lock(&mirror.lock);
    struct area *a = alias_find(base);
    if (a)
        at = a->node.key;
    pthread_mutex_unlock(&mirror.lock);
    if (!at && (at = host_space_take(length))) {
        /* Only the numbers are wanted. */
        mprotect((void *)(uintptr_t)at, (length + PAGE - 1) & ~(uint64_t)(PAGE - 1), PROT_NONE);
        pthread_mutex_lock(&mirror.lock);
        int code = area_add(at, length, (void *)(uintptr_t)first, base);
        if (!code)
            atomic_fetch_add(&mirror.aliases, 1);
        pthread_mutex_unlock(&mirror.lock);
        at = code ? 0 : at;
    }
    return at ? at + (address - first) : 0;
}

void mirror_alias_end(uint64_t base)
{
    if (!atomic_load(&mirror.aliases))
        return;
    mirror_synchronised();
    pthread_mutex_lock(&mirror.lock);
    struct area *a = alias_find(base);
    uint64_t at = a ? a->node.key : 0, size = a ? a->size : 0;
    if (a) {
        area_end(a);
        atomic_fetch_sub(&mirror.aliases, 1);
    }
    pthread_mutex_unlock(&mirror.lock);
    if (!at)
        return;
    mprotect((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE);
    host_space_give(at);
}

uint64_t mirror_behind(uint64_t address)
{
    if (!mirror_inside(address) || !atomic_load_explicit(&mirror.aliases, memory_order_relaxed))
        return address;
    pthread_mutex_lock(&mirror.lock);
    const struct area *a = area_find(address);
    if (a)
        address = (uint64_t)(uintptr_t)a->host + (address - a->node.key);
    pthread_mutex_unlock(&mirror.lock);
    return address;
}

/* ---- to the server ---- */

/* What has been gathered. more: there is more of it, and kernels see none without the rest. */
static int patch_send(struct mirror_side *side, bool more)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    struct patch *p = &side->patch;
    size_t used = p->used;
    p->used = 0;
    side->unheard = true;
    return mirror_call_patch(side->session, p->bytes, used, more);
}

/* What the program has changed in the piece: of its areas only, for the rest is nobody's. */
static int piece_send(struct mirror_side *side, struct piece *p)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    uint64_t end = p->node.key + p->size;
    int code = CORE_OK;
    for (struct area *a = area_above(p->node.key); a && a->node.key < end && !code; a = area_behind(a)) {
        uint64_t from = a->node.key > p->node.key ? a->node.key : p->node.key;
        uint64_t to = a->node.key + a->size < end ? a->node.key + a->size : end;
        while (from < to && !code) {
            size_t used = side->patch.used;
            from += patch_add(&side->patch, from, a->host + (from - a->node.key), p->base + (from - p->node.key),
                              to - from);
            mirror.found += side->patch.used - used;
            code = from < to ? patch_send(side, true) : CORE_OK;
        }
    }
    return code;
}

/* The program may write meanwhile: data, and then a word that says so. Who finds the word must find the data. So this
   looks again until a look finds nothing new: then all that was written before that look is in the patch, and nothing
   that was written later. A program that never pauses is not waited for. */
static int pieces_send(struct mirror_side *side)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    int code = CORE_OK;
    bool any = false, more = true;
    for (int looks = 0; more && looks < LOOKS_MOST && !code; looks++) {
        uint64_t found = mirror.found;
        for (struct tree_node *n = tree_first(&side->pieces); n && !code; n = tree_next(&side->pieces, n))
            code = piece_send(side, TREE_OBJECT(n, struct piece, node));
        more = mirror.found != found;
        any |= more;
    }
    return code || !any ? code : patch_send(side, false);
}

/* The piece around the address, which the server gets. Small areas share a granule; a large one is cut into so many
   pieces at most, since the server has room for few ranges that are not neighbours. */
static int piece_add(struct mirror_side *side, const struct area *a, uint64_t address)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    const uint64_t granule = FLYT_HOST_GRANULE;
    uint64_t first = a->node.key & ~(granule - 1), end = (a->node.key + a->size + granule - 1) & ~(granule - 1);
    uint64_t unit = ((end - first) / PIECES_OF_AREA + granule - 1) & ~(granule - 1);
    unit = unit ? unit : granule;
    uint64_t at = first + (address - first) / unit * unit, size = end - at < unit ? end - at : unit;
    if (!side->patch.bytes) {
        side->patch.room = PATCH_ROOM;
        side->patch.bytes = malloc(PATCH_ROOM);
    }
    struct piece *p = side->patch.bytes ? malloc(sizeof *p) : NULL;
    void *base = p ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                   : MAP_FAILED;
    int code = base == MAP_FAILED ? CORE_OUT_OF_MEMORY : mirror_call_add(side->session, at, size);
    if (code) {
        if (base != MAP_FAILED)
            munmap(base, size);
        free(p);
        return code;
    }
    *p = (struct piece){ .node.key = at, .size = size, .base = base };
    tree_insert(&side->pieces, &p->node);
    areas_use(p);
    code = piece_send(side, p);
    return code ? code : patch_send(side, false);
}

int mirror_bring(struct client_session *session, uint64_t address)
{
    pthread_mutex_lock(&mirror.lock);
    struct mirror_side *side = side_of(session);
    struct area *a = mirror_inside(address) ? area_find(address) : NULL;
    int code = a ? CORE_OK : CORE_INVALID_VALUE;
    if (a)
        area_use(a);
    if (a && !piece_find(side, address))
        code = piece_add(side, a, address);
    pthread_mutex_unlock(&mirror.lock);
    return code;
}

static int area_bring(struct mirror_side *side, const struct area *a)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    int code = CORE_OK;
    for (uint64_t at = a->node.key; at < a->node.key + a->size && !code;) {
        const struct piece *p = piece_find(side, at);
        if (p)
            at = p->node.key + p->size;
        else
            code = piece_add(side, a, at);
    }
    return code;
}

/* All of the areas that kernels are known to use: for a GPU whose kernels cannot wait. */
static int areas_bring(struct mirror_side *side)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    int code = CORE_OK;
    for (struct area *a = area_above(mirror.base); a && !code; a = area_behind(a))
        if (a->kernels && (code = area_bring(side, a)))
            log_error("%llu KiB of pinned host memory at 0x%llx, which a kernel is to use, cannot be brought to the "
                      "GPU server (error %d); start cricket-rpc-server with a larger --host-memory",
                      (unsigned long long)(a->size >> 10), (unsigned long long)(uintptr_t)a->host, code);
    return code;
}

uint64_t mirror_bring_all(struct client_session *session, uint64_t address)
{
    pthread_mutex_lock(&mirror.lock);
    struct area *a = mirror_inside(address) ? area_find(address) : NULL;
    bool there = a && area_bring(side_of(session), a) == CORE_OK;
    if (a)
        area_use(a);
    pthread_mutex_unlock(&mirror.lock);
    return there ? address : 0;
}

/* ---- from the server ---- */

/* A patch_place: what lies in no area any more goes nowhere. A run of a patch belongs to one page. */
static bool place(void *of, uint64_t address, size_t size, uint8_t **memory, uint8_t **base)
{
    static uint8_t nowhere[2][PAGE] __attribute__((aligned(PATCH_LINE)));
    if (!mirror_inside(address) || size > PAGE - address % PAGE)
        return false;
    const struct piece *p = piece_find(of, address);
    const struct area *a = area_find(address);
    *memory = a ? a->host + (address - a->node.key) : nowhere[0];
    *base = p ? p->base + (address - p->node.key) : nowhere[1];
    return true;
}

static bool changes_apply(void *side, const uint8_t *bytes, size_t size)
{
    mirror.found += size;
    return patch_apply(bytes, size, place, side);
}

static int changes_fetch(struct mirror_side *side)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    uint64_t from = mirror.base;
    int first = CORE_OK;
    for (unsigned again = 0; from && again < CUTS_MOST;) {
        uint64_t next = 0;
        int code = mirror_call_changes(side->session, from, &next, changes_apply, side);
        side->unheard = false;
        again += next == from;
        from = code || next < from ? 0 : next;
        first = first ? first : code;
    }
    return first;
}

static bool everything_idle(void)
{
    for (core_context *c = context_next(NULL); c; c = context_next(c))
        if (!context_known_idle(c))
            return false;
    return true;
}

static int fetch(void)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    uint64_t launched = atomic_load(&mirror_launched);
    bool idle = everything_idle();
    int first = CORE_OK;
    for (struct mirror_side *side = side_next(NULL); side; side = side_next(side)) {
        int code = tree_first(&side->pieces) && !is_gone(side) ? changes_fetch(side) : CORE_OK;
        first = first || is_gone(side) ? first : code;
    }
    if (idle)
        atomic_store(&mirror_settled, launched);
    return first;
}

int mirror_fetch(void)
{
    pthread_mutex_lock(&mirror.lock);
    int code = fetch();
    pthread_mutex_unlock(&mirror.lock);
    return code;
}

/* ---- work ---- */

bool mirror_in_kernels(void) { return atomic_load_explicit(&mirror.used, memory_order_relaxed) != 0; }

void mirror_note(const void *parameters, size_t size)
{
    uint64_t word;
    for (size_t at = 0; at + sizeof word <= size; at += sizeof word) {
        memcpy(&word, (const uint8_t *)parameters + at, sizeof word);
        if (mirror_inside(word))
            used(word);
    }
}

static bool rows_used(const struct host_rows *rows)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    const uint8_t *end = rows->address + (rows->slices - 1) * rows->slice_pitch + (rows->rows - 1) * rows->pitch +
                         rows->width;
    /* Pinned memory is found by its address. Registered memory lies anywhere, and there is little of it. */
    bool aliases = atomic_load(&mirror.aliases) != 0;
    struct area *a = area_above(aliases ? mirror.base : (uint64_t)(uintptr_t)rows->address);
    for (; a && (aliases || a->host < end); a = area_behind(a))
        if (a->kernels && rows->address < a->host + a->size && a->host < end)
            return true;
    return false;
}

bool mirror_used_by_work(const struct host_rows *rows)
{
    if (!atomic_load_explicit(&mirror.used, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&mirror.lock);
    bool used = rows_used(rows);
    pthread_mutex_unlock(&mirror.lock);
    return used;
}

/* A host function begins and ends with both sides equal. */
static void nothing(void *user, int status) { (void)user, (void)status; }

int mirror_fence(struct client_stream *s) { return host_function_put(s, nothing, NULL, true, false); }

/* A copy into such memory that has not arrived must reach the server before the stream goes on. */
int mirror_before_work(struct client_stream *s)
{
    if (stream_recorder(s))
        return CORE_OK;                       /* it is recorded: its launch comes here */
    atomic_fetch_add(&mirror_launched, 1);
    if (!atomic_load(&mirror.used))
        return CORE_OK;
    const struct point next = stream_point_next(s);
    pthread_mutex_lock(&mirror.lock);
    bool wanted = pending_any_where(&next, rows_used);
    struct mirror_side *side = side_of(s->context->session);
    int code = pulls() ? CORE_OK : areas_bring(side);
    code = code ? code : pieces_send(side);
    pthread_mutex_unlock(&mirror.lock);
    return code || !wanted ? code : mirror_fence(s);
}

/* That the function has ended is reported out of the order of calls, and would overtake a patch: an answer of the
   server comes first. The patch may be one that another thread has sent just now. */
void mirror_function_ended(void)
{
    pthread_mutex_lock(&mirror.lock);
    for (struct mirror_side *side = side_next(NULL); side; side = side_next(side)) {
        int code = pieces_send(side);
        if (!code && side->unheard)
            code = context_round_trip(side->session);
        side->unheard = false;
        if (code)
            session_latch(side->session, code);
    }
    pthread_mutex_unlock(&mirror.lock);
}

bool mirror_refresh(bool *news)
{
    pthread_mutex_lock(&mirror.lock);
    uint64_t found = mirror.found;
    bool stale = mirror_stale() && atomic_load(&mirror.used) && session_ready() && !session_sticky_of_all();
    for (struct mirror_side *side = stale ? side_next(NULL) : NULL; side; side = side_next(side))
        if (!atomic_load(&side->session->sticky))
            pieces_send(side);                /* what fails is every later call's error */
    if (stale)
        fetch();
    *news = mirror.found != found;
    /* Where nothing is stale, the session may be moving: it belongs to the thread that moves it. */
    for (struct mirror_side *side = stale ? side_next(NULL) : NULL; side; side = side_next(side))
        mirror_call_flush(side->session);
    pthread_mutex_unlock(&mirror.lock);
    return stale;
}

/* ---- pieces end ---- */

static bool piece_end(struct mirror_side *side, struct piece *p)
{
    FLYT_ASSERT_HELD(&mirror.lock);
    if (!is_gone(side) && mirror_call_remove(side->session, p->node.key, p->size))
        return false;
    tree_remove(&side->pieces, &p->node);
    munmap(p->base, p->size);
    free(p);
    return true;
}

bool mirror_forget(uint64_t address, uint64_t size)
{
    bool all = true;
    pthread_mutex_lock(&mirror.lock);
    for (struct mirror_side *side = side_next(NULL); side && all; side = side_next(side))
        for (struct tree_node *n; all && (n = tree_at_or_above(&side->pieces, address, 0)) && n->key - address < size;)
            all = piece_end(side, TREE_OBJECT(n, struct piece, node));
    pthread_mutex_unlock(&mirror.lock);
    return all;
}

/* All work has ended. The new server gets the pieces that kernels want there. */
int mirror_save(struct move *move)
{
    int code = mirror_synchronised();
    if (!mirror_forget(mirror.base, mirror.size))
        return move_refuse(move, code, "pinned memory that its kernels use cannot be taken back from the old server");
    return code;
}

int mirror_fits(struct move *move)
{
    if (atomic_load(&mirror.used) && !(move->at[MOVE_TARGET].hello.capabilities & FLYT_CAP_MIRROR))
        return move_refuse(move, 0, "its kernels use pinned memory, and the new server does not mirror it");
    return CORE_OK;
}

/* Where kernels wait, the thread that answers them says more, with names. */
void mirror_fault(void)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (!pulls() && mirror_heeded() && !atomic_flag_test_and_set(&told))
        log_error("a kernel has touched an address that is not mapped (error 700). This program has pinned host "
                  "memory, and reaches its GPU over a network: there kernels of this GPU reach pinned memory whose "
                  "address is a parameter of the launch, or was asked for with cudaHostGetDevicePointer, and no other");
}

void mirror_asked(uint64_t address)
{
    if (!pulls())
        used(address);
}
