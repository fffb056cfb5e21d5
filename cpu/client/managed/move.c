/*
 * move.c: pages move between the program and the device.
 *
 * They travel on streams of this file's own, one for each context, which wait for nothing: whoever moves a page has
 * made sure that the device has done with it, or moves it before the work that wants it. A page that goes to the device
 * is closed to writing first, so that a thread that writes it meanwhile faults, and finds it closed when it gets on.
 */
#include <string.h>

#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/copy/copy_engine.h"
#include "advice.h"
#include "pages.h"
#include "room.h"
#include "spans.h"

enum { NON_BLOCKING = 1 };

static struct mover {
    core_stream stream;
    uint64_t    generation;           /* of the context, when it was made */
    bool        sent;                 /* something, since it was last waited for */
} movers[CONTEXTS_MOST];

static int mover_find(core_context *c, struct client_stream **out)
{
    FLYT_ASSERT_HELD(&spans_lock);
    struct mover *m = &movers[c->wire];
    uint64_t generation = atomic_load(&c->generation);
    if (m->stream && m->generation == generation && client_stream_find(c, m->stream, out) == CORE_OK)
        return CORE_OK;
    *m = (struct mover){ .generation = generation };
    int code = core_stream_create(c, NON_BLOCKING, 0, &m->stream);
    return code ? code : client_stream_find(c, m->stream, out);
}

void moves_forget_context(core_context *c)
{
    movers[c->wire] = (struct mover){ 0 };
}

int moves_settle(void)
{
    FLYT_ASSERT_HELD(&spans_lock);
    int first = CORE_OK;
    for (core_context *c = context_next(NULL); c; c = context_next(c)) {
        struct client_stream *s;
        if (!movers[c->wire].sent)
            continue;
        movers[c->wire].sent = false;
        int code = mover_find(c, &s);
        code = code ? code : stream_wait_for(s);
        first = first ? first : code;
    }
    spans_sending(false);
    return first;
}

/* ---- bytes ---- */

static int send_bytes(core_context *c, uint64_t address, uint64_t size)
{
    struct client_stream *s;
    int code = mover_find(c, &s);
    if (code)
        return code;
    const struct core_box box = { address, size, 1 };
    struct copy_cut left = copy_cut_begin(&(struct copy_span){ box, box, { size, 1, 1 } });
    movers[c->wire].sent = true;
    spans_sending(true);                      /* before its state says that the device has it */
    return copy_send(s, &left, LANES_WAIT);
}

static int fetch_bytes(core_context *c, uint8_t *to, uint64_t address, uint64_t size)
{
    struct client_stream *s;
    int code = mover_find(c, &s);
    if (code)
        return code;
    return copy_receive(s, &(struct copy_span){ { (uint64_t)(uintptr_t)to, size, 1 }, { address, size, 1 },
                                                { size, 1, 1 } });
}

/* A mapping belongs to no context: any of its device will do. Where the program has ended all of them, this file makes
   one, which the program does not see, and keeps it: the next page needs it, too. NULL: it cannot be made. */
static core_context *context_of(const struct span *s)
{
    if (!s->mapping)
        return s->context;
    core_context *c = context_next(NULL);
    while (c && c->device != s->device)
        c = context_next(c);
    return c || (core_context_create(s->device, 0, &c) == CORE_OK && context_enter(c) == CORE_OK) ? c : NULL;
}

/* What of [address, address + size) exists on the device: to it, or to `to`. */
static int move_bytes(const struct span *s, uint64_t address, uint64_t size, uint8_t *to)
{
    core_context *c = context_of(s);
    if (!c)
        return CORE_INVALID_CONTEXT;
    if (!s->pieces)
        return to ? fetch_bytes(c, to, address, size) : send_bytes(c, address, size);
    int first = CORE_OK;
    for (size_t i = 0; i < s->piece_count; i++) {
        uint64_t from = s->pieces[i].address, end = from + s->pieces[i].size;
        from = from > address ? from : address;
        end = end < address + size ? end : address + size;
        if (from >= end)
            continue;
        int code = to ? fetch_bytes(c, to + (from - address), from, end - from) : send_bytes(c, from, end - from);
        first = first ? first : code;
    }
    return first;
}

/* ---- to the device ---- */

int move_close(struct span *s, size_t first, size_t count, enum close_how how)
{
    FLYT_ASSERT_HELD(&spans_lock);
    int result = CORE_OK;
    for (size_t page = first, run; page < first + count; page += run) {
        run = span_run(s, page, first + count - page);
        uint8_t state = s->state[page];
        uint64_t at = page_address(s, page), size = run * PAGE;
        if (state < PAGE_UNTOUCHED || (how == CLOSE_READ && state != PAGE_DIRTY))
            continue;
        if (state == PAGE_DIRTY && how != CLOSE_DROP) {
            /* Open, it must not travel: what another thread writes meanwhile would be lost. */
            if (!pages->protect(at, size, false)) {
                result = result ? result : CORE_OUT_OF_MEMORY;
                continue;
            }
            int code = move_bytes(s, at, size, NULL);
            result = result ? result : code;
        }
        if (how != CLOSE_READ && state != PAGE_UNTOUCHED)
            pages->hide(at, size);
        span_set(s, page, run, how == CLOSE_READ ? PAGE_CLEAN : PAGE_DEVICE);
    }
    return result;
}

/* The open pages of the span that the stream's work may use; everything: or no work at all. */
static int close_open(struct span *s, const struct client_stream *stream, bool everything)
{
    int result = CORE_OK;
    size_t kept_first = s->pages, kept_beyond = 0;
    for (size_t page = s->first, end = s->beyond, run; page < end; page += run) {
        run = span_run(s, page, end - page);
        if (s->state[page] < PAGE_UNTOUCHED)
            continue;
        if (!everything && !scope_serves(s->scope[page], stream)) {
            kept_first = page < kept_first ? page : kept_first;
            kept_beyond = page + run;
            continue;
        }
        int code = move_close(s, page, run, CLOSE_WRITE);
        result = result ? result : code;
        if (code && s->state[page] >= PAGE_UNTOUCHED) {
            kept_first = page < kept_first ? page : kept_first;
            kept_beyond = page + run;
        }
    }
    s->first = kept_beyond ? kept_first : 0;
    s->beyond = kept_beyond;
    return result;
}

static int close_spans(const struct client_stream *stream, bool everything)
{
    int result = CORE_OK;
    for (struct span *s = span_after(NULL); s; s = span_after(s)) {
        int code = s->open ? close_open(s, stream, everything) : CORE_OK;
        result = result ? result : code;
    }
    return result;
}

int move_close_all(const struct client_stream *stream)
{
    return scopes_any_open(stream) ? close_spans(stream, false) : CORE_OK;
}

/* ---- to the program ---- */

/* How many pages to open with this one: a block's rest, and more and more for a program that goes on where it left off.
   All of them are in the same state and scope. Only this one, where its neighbours are the device's and work may be
   under way that writes them: the program would read old values there. */
static size_t window(struct span *s, size_t *page, bool in_function)
{
    if (s->state[*page] == PAGE_DEVICE && !work_quiet(s->scope[*page], in_function))
        return 1;
    size_t wanted = BLOCK_PAGES, block = *page - *page % BLOCK_PAGES;
    if (advice_wants_host(page_address(s, *page)))
        wanted = AHEAD_MOST;
    else if (*page == s->next && s->ahead)
        wanted = s->ahead * 2 < AHEAD_MOST ? s->ahead * 2 : AHEAD_MOST;
    while (*page > block && s->state[*page - 1] == s->state[*page] && s->scope[*page - 1] == s->scope[*page])
        --*page;
    size_t count = span_run(s, *page, wanted);
    s->ahead = count < wanted ? BLOCK_PAGES : wanted;
    s->next = *page + count;
    return count;
}

static bool open_device(struct span *s, size_t page, size_t count, bool writes, int *code)
{
    size_t size = count * PAGE;
    void *staged = pages->stage(size);
    if (!staged)
        return false;
    *code = move_bytes(s, page_address(s, page), size, staged);
    if (pages->reveal(page_address(s, page), staged, size, writes))
        return true;
    pages->unstage(staged, size);
    return false;
}

static bool open_once(struct span *s, size_t page, size_t count, bool writes, int *code)
{
    uint64_t at = page_address(s, page);
    enum page_state before = s->state[page];
    /* The program may touch the pages, and launch work, as soon as they appear: that work must find them open. */
    span_set(s, page, count, before == PAGE_DEVICE && !writes ? PAGE_CLEAN : PAGE_DIRTY);
    bool good = before == PAGE_UNTOUCHED ? pages->zero(at, count * PAGE)
                : before == PAGE_CLEAN   ? pages->protect(at, count * PAGE, true)
                                         : open_device(s, page, count, writes, code);
    if (!good)
        span_set(s, page, count, before);
    return good;
}

static int open_window(struct span *s, size_t page, bool writes, bool in_function)
{
    int code = CORE_OK;
    size_t count = window(s, &page, in_function);
    if (open_once(s, page, count, writes, &code))
        return code;
    /* The system keeps only so many areas of memory apart: with everything closed there are few. */
    close_spans(NULL, true);
    moves_settle();
    return open_once(s, page, count, writes, &code) ? code : CORE_OUT_OF_MEMORY;
}

int move_open(struct span *s, size_t page, bool writes, bool in_function)
{
    FLYT_ASSERT_HELD(&spans_lock);
    spans_opening(true); /* before it is asked which work is under way */
    int code = open_window(s, page, writes, in_function);
    spans_opening(false);
    return code;
}
