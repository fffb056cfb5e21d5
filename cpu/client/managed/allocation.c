/*
 * allocation.c: managed memory begins and ends, and what the core asks of this room (core/managed.h).
 *
 * Each allocation has pages to itself, since attaching is by allocation and protection by page. Small ones share a span
 * (a slab), so that neighbours are fetched together and most of them cost no message. The server knows spans as plain
 * device memory, charged like any other.
 *
 * Where the server runs in this process on a GPU whose memory the process may touch (FLYT_CAP_TOUCH), managed memory is
 * that memory: there is nothing to watch or to move, and no spans.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/common/cancel.h"
#include "cpu/common/log.h"
#include "advice.h"
#include "blocks.h"
#include "managed.h"
#include "room.h"
#include "spans.h"

enum { SLAB_PAGES = 256, SMALL_PAGES = SLAB_PAGES / 2, GRANULE_PAGES = 512 };

const struct pages_way *pages;

static bool direct(void)
{
    return core_session.hello.capabilities & FLYT_CAP_TOUCH;
}

/* ---- how pages are watched ---- */

static bool way_open(void)
{
    FLYT_ASSERT_HELD(&spans_lock);
    static bool tried;
    if (pages || tried)
        return pages != NULL;
    tried = true;
    static const struct pages_way *const ways[] = { &pages_by_userfault, &pages_by_signal };
    for (size_t i = core_perf.no_userfault; i < sizeof ways / sizeof *ways && !pages; i++)
        if (ways[i]->open())
            pages = ways[i];
    if (pages)
        log_info("managed memory is watched by %s", pages->name);
    else
        log_error("managed memory cannot be watched: no thread, or no signal handler, could be set up");
    return pages != NULL;
}

/* ---- spans of allocations ---- */

/* A new span of so many pages. A code. */
static int span_make(core_context *c, size_t count, bool slab, struct span **out)
{
    FLYT_ASSERT_HELD(&spans_lock);
    uint64_t block, size = count * PAGE;
    if (!way_open())
        return CORE_NOT_SUPPORTED;
    int code = block_take(c, size, &block);
    if (!code && block % PAGE) {              /* rare: most blocks of whole pages begin with one */
        block_put(c, block);
        code = block_take(c, size + PAGE, &block);
    }
    if (code)
        return code;
    uint64_t base = (block + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    *out = span_new(base, count, c, block);
    if (*out && pages->begin(base, size)) {
        (*out)->slab = slab;
        fault_range(core_session.window, core_session.window_size);
        return CORE_OK;
    }
    if (*out)
        span_delete(*out);
    block_put(c, block);
    return CORE_OUT_OF_MEMORY;
}

static void span_end(struct span *s)
{
    FLYT_ASSERT_HELD(&spans_lock);
    pages->end(span_base(s), s->pages * PAGE);
    if (s->block)
        block_put(s->context, s->block);
    else
        munmap((void *)(uintptr_t)span_base(s), s->pages * PAGE);
    span_delete(s);
}

/* The first page of a free run in the span, or its number of pages. */
static size_t run_free(const struct span *s, size_t count)
{
    for (size_t page = 0, run; page < s->pages; page += run) {
        run = span_run(s, page, s->pages);
        if (s->state[page] == PAGE_NOBODYS && run >= count)
            return page;
    }
    return s->pages;
}

/* A slab of the context that has so many pages free in a row, other than the one at `but`. NULL: none. */
static struct span *slab_find(const core_context *c, size_t count, uint64_t but, size_t *page)
{
    for (struct span *s = span_after(NULL); s; s = span_after(s)) {
        bool fits = s->slab && s->context == c && s->pages - s->used >= count;
        if (!fits || span_base(s) == but)
            continue;
        *page = run_free(s, count);
        if (*page < s->pages)
            return s;
    }
    return NULL;
}

/* How large a slab is, in pages. */
static size_t slab_pages(void) { return block_unit() > SLAB_PAGES * PAGE ? block_unit() / PAGE : SLAB_PAGES; }

/* Pages for an allocation: of a slab with room, or of a new span. A code. */
static int pages_take(core_context *c, size_t count, uint64_t *address)
{
    FLYT_ASSERT_HELD(&spans_lock);
    bool small = count <= SMALL_PAGES;
    size_t page = 0;
    struct span *s = small ? slab_find(c, count, 0, &page) : NULL;
    if (!s) {
        int code = span_make(c, small ? slab_pages() : count, small, &s);
        if (code)
            return code;
        page = 0;
    }
    span_set(s, page, count, PAGE_UNTOUCHED);
    *address = page_address(s, page);
    pages->admit(*address, count * PAGE);
    pages->look_after();
    return CORE_OK;
}

/* Nothing uses them any more. An empty slab stays while no other one has room. */
static void pages_give(struct span *s, uint64_t address, size_t count)
{
    FLYT_ASSERT_HELD(&spans_lock);
    size_t page = (address - span_base(s)) / PAGE;
    move_close(s, page, count, CLOSE_DROP);
    span_set(s, page, count, PAGE_NOBODYS);
    if (!s->used && (!s->slab || slab_find(s->context, 1, span_base(s), &page)))
        span_end(s);
}

/* ---- allocations ---- */

static size_t pages_of(size_t size)
{
    return (size + PAGE - 1) / PAGE;
}

static int allocate(core_context *c, size_t size, unsigned flags, uint64_t *address)
{
    FLYT_ASSERT_HELD(&spans_lock);
    int code = direct() ? block_take(c, size, address) : pages_take(c, pages_of(size), address);
    if (code)
        return code;
    code = address_add(CORE_DEVICE_MEMORY, c, *address, size, CORE_MANAGED);
    struct span *s = direct() ? NULL : span_find(*address);
    if (code && s)
        pages_give(s, *address, pages_of(size));
    else if (code)
        block_put(c, *address);
    else if (s && flags == MANAGED_HOST)
        span_set_scope(s, (*address - span_base(s)) / PAGE, pages_of(size), SCOPE_HOST);
    return code ? CORE_OUT_OF_MEMORY : CORE_OK;
}

int core_managed_allocate(core_context *c, size_t size, unsigned flags, uint64_t *address)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    if (!size || (flags != MANAGED_GLOBAL && flags != MANAGED_HOST))
        return CORE_INVALID_VALUE;
    if (session_several() || (core_session.in_process && !direct()))
        return CORE_NOT_SUPPORTED;
    if (size > core_session.window_size)
        return CORE_OUT_OF_MEMORY;
    uint64_t at;                              /* the caller's place may itself be managed memory */
    pthread_mutex_lock(&spans_lock);
    code = allocate(c, size, flags, &at);
    pthread_mutex_unlock(&spans_lock);
    if (!code)
        *address = at;
    return code;
}

static int settle_everything(void)
{
    int first = CORE_OK;
    for (core_context *c = context_next(NULL); c; c = context_next(c)) {
        int code = context_settle(c);
        first = first ? first : code;
    }
    return first;
}

static int room_free(uint64_t address)
{
    struct core_range range;
    if (!core_address_lookup(address, &range) || range.flags != CORE_MANAGED || range.base != address ||
        !address_remove(CORE_DEVICE_MEMORY, address, NULL))
        return CORE_INVALID_VALUE;
    int code = settle_everything();
    pthread_mutex_lock(&spans_lock);
    struct span *s = span_find(address);
    if (s)
        pages_give(s, address, pages_of(range.size));
    else
        block_put(range.context, address);
    advice_forget(address, range.size);
    pthread_mutex_unlock(&spans_lock);
    return code;
}

static void room_forget_context(core_context *c)
{
    struct span *next;
    pthread_mutex_lock(&spans_lock);
    for (struct span *s = span_after(NULL); s; s = next) {
        next = span_after(s);
        if (s->context != c)
            continue;
        advice_forget(span_base(s), s->pages * PAGE);
        pages->end(span_base(s), s->pages * PAGE);
        if (!s->block)
            munmap((void *)(uintptr_t)span_base(s), s->pages * PAGE);
        span_delete(s);                       /* its heap goes as a whole */
    }
    blocks_forget_context(c);
    moves_forget_context(c);
    pthread_mutex_unlock(&spans_lock);
}

/* ---- attaching ---- */

/* The allocation that begins there, all of it. */
static int attachable(uint64_t address, size_t size, struct core_range *range)
{
    bool found = core_address_lookup(address, range) && range->flags & CORE_MANAGED;
    return found && range->base == address && (!size || size == range->size) ? CORE_OK : CORE_INVALID_VALUE;
}

int core_managed_attach(core_context *c, core_stream token, uint64_t address, size_t size, unsigned flags)
{
    CANCEL_DEFERRED;
    struct client_stream *stream;
    struct core_range range;
    int code = client_stream_enter(c, token, &stream);
    if (code || (code = attachable(address, size, &range)))
        return code;
    if (flags != MANAGED_GLOBAL && flags != MANAGED_HOST && flags != MANAGED_SINGLE)
        return CORE_INVALID_VALUE;
    if (flags == MANAGED_SINGLE && stream_is_legacy(stream))
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&spans_lock);
    struct span *s = span_find(address);
    unsigned scope = flags == MANAGED_SINGLE ? scope_of_stream(stream) : flags == MANAGED_HOST ? SCOPE_HOST : SCOPE_ALL;
    for (size_t left = range.size; s && left;) {            /* a variable may go over several spans */
        size_t page = (address - span_base(s)) / PAGE, count = (address % PAGE + left + PAGE - 1) / PAGE;
        count = count < s->pages - page ? count : s->pages - page;
        span_set_scope(s, page, count, scope);
        uint64_t end = page_address(s, page + count);
        left = end - address < left ? left - (end - address) : 0;
        address = end;
        s = span_find(address);
    }
    pthread_mutex_unlock(&spans_lock);
    return CORE_OK;
}

/* ---- variables ---- */

/* The span of a granule of the driver's addresses, made when it is new. */
static struct span *granule_span(core_context *c, uint64_t base)
{
    FLYT_ASSERT_HELD(&spans_lock);
    enum { SIZE = GRANULE_PAGES * PAGE };
    struct span *s = span_find(base);
    if (s)
        return s->block || s->mapping ? NULL : s;
    void *place = mmap((void *)(uintptr_t)base, SIZE, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (place != (void *)(uintptr_t)base) {
        if (place != MAP_FAILED)
            munmap(place, SIZE);
        return NULL;
    }
    s = span_new(base, GRANULE_PAGES, c, 0);
    if (s && pages->begin(base, SIZE)) {
        fault_range(base, SIZE);
        return s;
    }
    if (s)
        span_delete(s);
    munmap(place, SIZE);
    return NULL;
}

static int piece_add(struct span *s, uint64_t from, uint64_t end)
{
    struct piece *more = realloc(s->pieces, (s->piece_count + 1) * sizeof *more);
    if (!more)
        return CORE_OUT_OF_MEMORY;
    s->pieces = more;
    s->pieces[s->piece_count++] = (struct piece){ from, end - from };
    size_t first = (from - span_base(s)) / PAGE, beyond = (end - span_base(s) + PAGE - 1) / PAGE;
    int code = CORE_OK;
    for (size_t page = first; page < beyond; page++)
        if (s->state[page] == PAGE_NOBODYS)
            span_set(s, page, 1, PAGE_DEVICE);
        else if (!code)
            code = move_close(s, page, 1, CLOSE_WRITE);     /* it shares a page with another, which is open */
    return code;
}

static void piece_remove(struct span *s, uint64_t from)
{
    for (size_t i = 0; i < s->piece_count; i++)
        if (s->pieces[i].address == from)
            s->pieces[i--] = s->pieces[--s->piece_count];
    for (size_t page = 0; page < s->pages; page++) {
        bool used = false;
        for (size_t i = 0; i < s->piece_count; i++)
            used |= s->pieces[i].address < page_address(s, page) + PAGE &&
                    page_address(s, page) < s->pieces[i].address + s->pieces[i].size;
        if (used || s->state[page] == PAGE_NOBODYS)
            continue;
        move_close(s, page, 1, CLOSE_DROP);
        span_set(s, page, 1, PAGE_NOBODYS);
    }
    if (!s->used)
        span_end(s);
}

static void room_variable_ends(uint64_t address, size_t size)
{
    uint64_t end = address + size, granule = GRANULE_PAGES * PAGE;
    pthread_mutex_lock(&spans_lock);
    for (uint64_t from = address; from < end; from = (from / granule + 1) * granule) {
        struct span *s = span_find(from);
        if (s && !s->block && !s->mapping)
            piece_remove(s, from);
    }
    pthread_mutex_unlock(&spans_lock);
}

/* The driver chose the address. Other contexts may have the same variable. */
static int room_variable_begins(core_context *c, uint64_t address, size_t size)
{
    uint64_t end = address + size, granule = GRANULE_PAGES * PAGE;
    int code = CORE_OK;
    if (direct())
        return CORE_OK;
    if (core_session.in_process)
        return CORE_NOT_SUPPORTED;
    pthread_mutex_lock(&spans_lock);
    if (!way_open())
        code = CORE_NOT_SUPPORTED;
    for (uint64_t from = address, next; from < end && !code; from = next) {
        next = (from / granule + 1) * granule;
        struct span *s = granule_span(c, from / granule * granule);
        code = s ? piece_add(s, from, next < end ? next : end) : CORE_NOT_SUPPORTED;
    }
    int settled = moves_settle();
    pthread_mutex_unlock(&spans_lock);
    code = code ? code : settled;
    if (code == CORE_NOT_SUPPORTED)
        log_error("a __managed__ variable lies at 0x%llx on the GPU server, where this process has something else",
                  (unsigned long long)address);
    return code;
}

/* ---- memory of the host that is mapped where the program wants it (core/memory/handle_host.c) ---- */

static int room_mapping_begins(int device, uint64_t address, uint64_t size)
{
    int code = CORE_OK;
    if (direct())
        return CORE_OK;
    pthread_mutex_lock(&spans_lock);
    struct span *s = way_open() ? span_new(address, size / PAGE, NULL, 0) : NULL;
    if (!pages)
        code = CORE_NOT_SUPPORTED;
    else if (!s || !pages->begin(address, size))
        code = CORE_OUT_OF_MEMORY;
    if (!code) {
        s->mapping = true;
        s->device = device;
        span_set(s, 0, s->pages, PAGE_DEVICE);
        fault_range(core_session.window, core_session.window_size);
        pages->look_after();
    } else if (s) {
        span_delete(s);
    }
    pthread_mutex_unlock(&spans_lock);
    return code;
}

static int room_mapping_ends(uint64_t address, uint64_t size, bool drop)
{
    if (direct())
        return CORE_OK;
    pthread_mutex_lock(&spans_lock);
    struct span *s = span_find(address);
    int code = move_close(s, 0, s->pages, drop ? CLOSE_DROP : CLOSE_WRITE), settled = moves_settle();
    span_set(s, 0, s->pages, PAGE_NOBODYS);
    pages->end(address, size);
    span_delete(s);
    pthread_mutex_unlock(&spans_lock);
    return code ? code : settled;
}

/* ---- for the core ---- */

static int close_for(struct client_stream *stream)
{
    FLYT_ASSERT_HELD(&spans_lock);
    pages->look_after();
    int code = move_close_all(stream), settled = moves_settle();
    return code ? code : settled;
}

static int room_before_work(struct client_stream *stream)
{
    pthread_mutex_lock(&spans_lock);
    int code = close_for(stream);
    atomic_fetch_add(&managed_work_coming, 1);
    pthread_mutex_unlock(&spans_lock);
    return code;
}

/* Its pages go to the device before the stream goes on: what stands behind it may want them. */
static void room_host_function_ended(void)
{
    pthread_mutex_lock(&spans_lock);
    int code = close_for(NULL);
    pthread_mutex_unlock(&spans_lock);
    if (code)
        session_latch(&core_session, code);
}

/* All pages that the range touches. Where the device writes some of a page only, the rest of it must be there. */
static int room_before_access(uint64_t address, uint64_t size, bool writes, bool whole)
{
    uint64_t end = address + size;
    int result = CORE_OK;
    pthread_mutex_lock(&spans_lock);
    for (struct span *s = span_above(address); s && span_base(s) < end; s = span_after(s)) {
        uint64_t from = address > span_base(s) ? address : span_base(s), beyond_span = span_base(s) + s->pages * PAGE,
                 to = end < beyond_span ? end : beyond_span;
        size_t first = (from - span_base(s)) / PAGE, beyond = (to - span_base(s) + PAGE - 1) / PAGE;
        size_t inner = from % PAGE ? first + 1 : first, outer = to % PAGE ? beyond - 1 : beyond;
        if (writes)
            work_copies(s->scope[first]);
        if (!s->open || beyond <= s->first || first >= s->beyond)
            continue;
        if (writes && whole && inner < outer)
            move_close(s, inner, outer - inner, CLOSE_DROP);
        int code = move_close(s, first, beyond - first, writes ? CLOSE_WRITE : CLOSE_READ);
        result = result ? result : code;
    }
    int code = moves_settle();
    pthread_mutex_unlock(&spans_lock);
    return result ? result : code;
}

static void room_synchronised(void)
{
    pages->look_after();
}

static uint64_t room_count(void)
{
    return spans_count();
}

/* Threads that touch pages which are not open wait until the session has moved, or has not. */
static void room_session_rests(bool rests)
{
    if (rests)
        pthread_mutex_lock(&spans_lock);
    else
        pthread_mutex_unlock(&spans_lock);
}

/* Dirty pages go to the device before work that wants them, and nobody has written the untouched ones. Variables are
   their module's, and what is in handles is copied with those. */
static int room_each_on_device(int (*visit)(core_context *, uint64_t address, uint64_t size, void *), void *context)
{
    FLYT_ASSERT_HELD(&spans_lock);
    int code = CORE_OK;
    for (const struct span *s = span_after(NULL); s && !code; s = span_after(s))
        for (size_t page = 0, run; s->block && !block_is_handle(s->block) && page < s->pages && !code; page += run) {
            run = span_run(s, page, s->pages - page);
            if (s->state[page] == PAGE_DEVICE || s->state[page] == PAGE_CLEAN)
                code = visit(s->context, page_address(s, page), run * PAGE, context);
        }
    return code;
}

static const struct managed_room room = {
    .session_rests = room_session_rests,
    .each_on_device = room_each_on_device,
    .before_work = room_before_work,
    .before_access = room_before_access,
    .host_function_ended = room_host_function_ended,
    .free = room_free,
    .variable_begins = room_variable_begins,
    .variable_ends = room_variable_ends,
    .mapping_begins = room_mapping_begins,
    .mapping_ends = room_mapping_ends,
    .forget_context = room_forget_context,
    .count = room_count,
    .synchronised = room_synchronised,
    .becomes_child = faults_become_child,
};

__attribute__((constructor)) static void room_open(void)
{
    managed_room = &room;
}
