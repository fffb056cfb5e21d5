/* spans.c: which pages there are, their states and scopes. */
#include "spans.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/stream/managed.h"

/* Recursive: whoever moves the session holds it meanwhile (room_session_rests), and ends contexts, say. */
pthread_mutex_t spans_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static struct tree spans;
static uint64_t count;
/* Pages open, and the stream, by scope. A scope is used again when no page has it. */
static struct { uint64_t open, pages; core_stream stream; } scopes[SCOPES_MOST];

struct span *span_find(uint64_t address)
{
    FLYT_ASSERT_HELD(&spans_lock);
    struct span *s = TREE_OBJECT(tree_at_or_below(&spans, address, 0), struct span, node);
    return s && address - span_base(s) < s->pages * PAGE ? s : NULL;
}

struct span *span_after(const struct span *s)
{
    FLYT_ASSERT_HELD(&spans_lock);
    return TREE_OBJECT(s ? tree_next(&spans, &s->node) : tree_first(&spans), struct span, node);
}

struct span *span_above(uint64_t address)
{
    struct span *s = span_find(address);
    return s ? s : TREE_OBJECT(tree_at_or_above(&spans, address, 0), struct span, node);
}

uint64_t spans_count(void)
{
    return count;
}

struct span *span_new(uint64_t base, size_t pages, core_context *c, uint64_t block)
{
    FLYT_ASSERT_HELD(&spans_lock);
    struct span *s = calloc(1, sizeof *s);
    if (!s || !(s->state = calloc(pages, 1)) || !(s->scope = calloc(pages, 1)) ||
        !(s->opened = calloc(pages, sizeof *s->opened))) {
        if (s) {
            free(s->state);
            free(s->scope);
        }
        free(s);
        return NULL;
    }
    s->node.key = base;
    s->pages = pages;
    s->context = c;
    s->block = block;
    tree_insert(&spans, &s->node);
    count++;
    atomic_fetch_or(&launch_heed, HEED_SPANS);
    return s;
}

void span_delete(struct span *s)
{
    span_set(s, 0, s->pages, PAGE_NOBODYS);
    tree_remove(&spans, &s->node);
    if (--count == 0)
        atomic_fetch_and(&launch_heed, ~(unsigned)HEED_SPANS);
    free(s->pieces);
    free(s->state);
    free(s->scope);
    free(s->opened);
    free(s);
}

/* ---- states ---- */

static bool is_open(uint8_t state)
{
    return state > PAGE_DEVICE;
}

static bool opening, sending;

static void tell_launches(void)
{
    bool any = opening || sending || scopes_any_open(NULL);
    if (any)
        atomic_fetch_or_explicit(&launch_heed, HEED_MANAGED, memory_order_release);
    else
        atomic_fetch_and_explicit(&launch_heed, ~(unsigned)HEED_MANAGED, memory_order_release);
}

void spans_opening(bool begins)
{
    FLYT_ASSERT_HELD(&spans_lock);
    opening = begins;
    tell_launches();
}

void spans_sending(bool begins)
{
    FLYT_ASSERT_HELD(&spans_lock);
    sending = begins;
    tell_launches();
}

void span_set(struct span *s, size_t first, size_t pages, enum page_state state)
{
    FLYT_ASSERT_HELD(&spans_lock);
    static uint32_t last; /* span.opened */
    uint32_t opened = ++last;
    for (size_t i = first; i < first + pages; i++) {
        uint8_t before = s->state[i];
        if (before == PAGE_NOBODYS && state != PAGE_NOBODYS) {
            s->used++;
            s->scope[i] = SCOPE_ALL;
            scopes[SCOPE_ALL].pages++;
        }
        int change = is_open((uint8_t)state) - is_open(before);
        s->open += (size_t)change;
        s->opened[i] = change > 0 ? opened : s->opened[i];
        scopes[s->scope[i]].open += (uint64_t)change;
        if (before != PAGE_NOBODYS && state == PAGE_NOBODYS) {
            s->used--;
            scopes[s->scope[i]].pages--;
        }
        s->state[i] = (uint8_t)state;
    }
    if (is_open((uint8_t)state)) {
        s->first = s->open == pages || first < s->first ? first : s->first;
        s->beyond = s->open == pages || first + pages > s->beyond ? first + pages : s->beyond;
    } else if (!s->open) {
        s->first = s->beyond = 0;
    }
    tell_launches();
}

void span_set_scope(struct span *s, size_t first, size_t pages, unsigned scope)
{
    FLYT_ASSERT_HELD(&spans_lock);
    for (size_t i = first; i < first + pages; i++) {
        bool open = is_open(s->state[i]);
        scopes[s->scope[i]].pages--;
        scopes[s->scope[i]].open -= open;
        s->scope[i] = (uint8_t)scope;
        scopes[scope].pages++;
        scopes[scope].open += open;
    }
    tell_launches();
}

size_t span_run(const struct span *s, size_t page, size_t most)
{
    size_t run = 1;
    if (most > s->pages - page)
        most = s->pages - page;
    while (run < most && s->state[page + run] == s->state[page] && s->scope[page + run] == s->scope[page])
        run++;
    return run;
}

/* ---- scopes ---- */

unsigned scope_of_stream(const struct client_stream *stream)
{
    FLYT_ASSERT_HELD(&spans_lock);
    core_stream token = atomic_load(&stream->token);
    unsigned spare = SCOPE_ALL;
    for (unsigned i = SCOPE_STREAM; i < SCOPES_MOST; i++) {
        if (scopes[i].pages && scopes[i].stream == token)
            return i;
        if (!scopes[i].pages && spare == SCOPE_ALL)
            spare = i;
    }
    if (spare != SCOPE_ALL)
        scopes[spare].stream = token;
    return spare;
}

core_stream scope_stream(unsigned scope)
{
    struct client_stream *stream;
    core_stream token = scope >= SCOPE_STREAM && scope < SCOPES_MOST ? scopes[scope].stream : 0;
    /* any context: the token itself says which stream it is */
    return token && client_stream_find(NULL, token, &stream) == CORE_OK ? token : 0;
}

bool scope_serves(unsigned scope, const struct client_stream *stream)
{
    if (scope == SCOPE_ALL || scope == SCOPE_HOST)
        return scope == SCOPE_ALL;
    /* With its stream gone, memory is everybody's again. */
    return !stream || scopes[scope].stream == atomic_load(&stream->token) || !scope_stream(scope);
}

bool scopes_any_open(const struct client_stream *stream)
{
    FLYT_ASSERT_HELD(&spans_lock);
    if (scopes[SCOPE_ALL].open)
        return true;
    for (unsigned i = SCOPE_STREAM; i < SCOPES_MOST; i++)
        if (scopes[i].open && scope_serves(i, stream))
            return true;
    return false;
}
