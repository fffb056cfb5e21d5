/*
 * event_shared.c: events that several processes use.
 *
 * Such an event is a cell of 128 bytes in device memory that the process which made the event exports, like a memory
 * handle (handle.c): how often the event was recorded, and a few words in which the streams write. A record takes the
 * next number n, has its stream write n into word n modulo CELL_WORDS, and then says that n was recorded. A process
 * that waits reads the number, and has its stream wait until that word is at least n. So a later record, in whatever
 * process and stream, does not change what an earlier wait meant, unless CELL_WORDS more have been recorded meanwhile;
 * then the wait ends with one of those.
 *
 * The number is read and written by copies that the caller waits for, in a stream of our own: the other process learns
 * of the record by other ways than ours (a pipe, a lock), and must then find it. If two processes record the
 * same event at the same time, both may take the same number; either record then counts as the last.
 *
 * A process may be killed before its stream has written the number. So the cell also names who recorded it: a share of
 * that process's, which ends with the process. A process that waits for such a record looks now and then whether the
 * share can still be imported; if not, it writes the number itself (watch_run).
 *
 * Cells are not used again: other processes may still have them open. A full arena goes when its last cell is closed.
 */
#include "event_shared.h"

#include <endian.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/stream/context.h"
#include "memory.h"
#include "share.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/stream/stream.h"

enum { CELL_BYTES = 128, CELL_WORDS = 7, LOOK_EVERY_US = 500000 };

struct cell_head { uint64_t recorded; char recorder[FLYT_SHARE_SIZE]; };
struct cell_content { struct cell_head head; uint64_t word[CELL_WORDS]; uint8_t unused[32]; };
_Static_assert(sizeof(struct cell_content) == CELL_BYTES, "a cell");

struct cell_arena {
    struct cell_arena *next;
    core_context *context;                /* NULL: it has ended */
    core_stream stream;                   /* for copies of cells */
    struct handle_chunk chunk;
    char share[FLYT_SHARE_SIZE];
    bool own;                             /* this process made it */
    uint32_t used, open;                  /* cells that were given out; and that have not been closed */
};

#define EVENT_WORDS "Flyt: event 02\n"
struct event_handle {
    char words[sizeof EVENT_WORDS - 1], share[FLYT_SHARE_SIZE];
    uint8_t index[4], unused[13];
};
_Static_assert(sizeof(struct event_handle) == CORE_IPC_SIZE, "as CUDA has it");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;       /* the list; also while an arena is made */
static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;  /* numbers that this process takes */
static struct cell_arena *arenas, *ended;     /* ended: their contexts have */

/* ---- arenas ---- */

/* Its memory goes; the caller frees it. */
static void arena_unlink(struct cell_arena *arena)
{
    struct cell_arena **at = &arenas;
    while (*at != arena)
        at = &(*at)->next;
    *at = arena->next;
    address_remove(CORE_DEVICE_MEMORY, arena->chunk.address, NULL);
    handle_chunk_end(&arena->chunk);
}

static void arena_end(struct cell_arena *arena)
{
    if (arena->context)
        core_stream_destroy(arena->stream);
    arena_unlink(arena);
    free(arena);
}

/* share NULL: a new one. NULL: *code says why. */
static struct cell_arena *arena_make(core_context *c, const char *share, int *code)
{
    struct cell_arena *arena = calloc(1, sizeof *arena);
    const struct rights nobody = { 0 };
    struct handle_range range = { .device = c->device };
    if (!arena) {
        *code = CORE_OUT_OF_MEMORY;
        return NULL;
    }
    *code = share ? handle_chunk_import(share, &arena->chunk, &range)
                  : handle_chunk_make(c->device, core_session.granularity, &nobody, &arena->chunk);
    if (*code) {
        free(arena);
        return NULL;
    }
    arena->own = !share;
    /* Copies and stream operations may name what is in the address map. */
    if ((*code = address_add_mapped(c->device, arena->chunk.address, arena->chunk.size, false))) {
        handle_chunk_end(&arena->chunk);
        free(arena);
        return NULL;
    }
    if (share)
        memcpy(arena->share, share, sizeof arena->share);
    else
        *code = handle_chunk_share(&arena->chunk, arena->share);
    if (!*code && range.device != c->device)
        *code = share_reach(c, &arena->chunk, range.device);
    if (!*code && !(*code = core_stream_create(c, STREAM_NON_BLOCKING, 0, &arena->stream))) {
        arena->context = c;
        if (!share)
            *code = core_set(c, arena->stream, &(struct core_box){ arena->chunk.address, arena->chunk.size, 1 },
                             &(struct core_extent){ arena->chunk.size, 1, 1 }, 0, 1, false);
        if (!*code && !share)
            *code = core_stream_synchronize(c, arena->stream);
    }
    arena->next = arenas;
    arenas = arena;
    if (!*code)
        return arena;
    arena_end(arena);
    return NULL;
}

static uint32_t arena_cells(const struct cell_arena *arena) { return (uint32_t)(arena->chunk.size / CELL_BYTES); }

static struct cell_arena *arena_find(const core_context *c, const char *share)
{
    struct cell_arena *arena = arenas;
    while (arena && (arena->context != c || (share ? memcmp(arena->share, share, sizeof arena->share) != 0
                                                   : !arena->own || arena->used == arena_cells(arena))))
        arena = arena->next;
    return arena;
}

void cells_forget_context(core_context *c)
{
    struct cell_arena *next;
    pthread_mutex_lock(&lock);
    for (struct cell_arena *arena = arenas; arena; arena = next) {
        next = arena->next;
        if (arena->context != c)
            continue;
        /* Its stream and its events went with the context. A thread that was waiting may still look at it. */
        arena_unlink(arena);
        arena->next = ended;
        ended = arena;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- cells ---- */

void cell_name(const struct cell *cell, void *handle)
{
    struct event_handle made = { .words = EVENT_WORDS };
    uint32_t index = htobe32(cell->index);
    memcpy(made.share, cell->arena->share, sizeof made.share);
    memcpy(made.index, &index, sizeof index);
    memcpy(handle, &made, sizeof made);
}

int cell_make(core_context *c, struct cell *out, void *handle)
{
    int code = CORE_OK;
    pthread_mutex_lock(&lock);
    struct cell_arena *arena = arena_find(c, NULL);
    if (!arena)
        arena = arena_make(c, NULL, &code);
    if (arena) {
        *out = (struct cell){ arena, arena->used++ };
        arena->open++;
        cell_name(out, handle);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

struct cell cell_hold(const struct cell *cell)
{
    pthread_mutex_lock(&lock);
    cell->arena->open++;
    pthread_mutex_unlock(&lock);
    return *cell;
}

static bool has_ended(const struct cell_arena *arena)
{
    const struct cell_arena *at = ended;
    while (at && at != arena)
        at = at->next;
    return at != NULL;
}

void cell_close(struct cell *cell)
{
    struct cell_arena *arena = cell->arena;
    pthread_mutex_lock(&lock);
    arena->open--;
    if (!has_ended(arena) && !arena->open && (!arena->own || arena->used == arena_cells(arena)))
        arena_end(arena);
    pthread_mutex_unlock(&lock);
    cell->arena = NULL;
}

int cell_open(core_context *c, const void *handle, struct cell *out)
{
    struct event_handle read;
    uint32_t index;
    int code = CORE_OK;
    memcpy(&read, handle, sizeof read);
    memcpy(&index, read.index, sizeof index);
    if (memcmp(read.words, EVENT_WORDS, sizeof read.words) != 0)
        return CORE_INVALID_VALUE;
    if (share_is_own(read.share))
        return CORE_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    struct cell_arena *arena = arena_find(c, read.share);
    if (!arena)
        arena = arena_make(c, read.share, &code);
    if (arena) {
        *out = (struct cell){ arena, be32toh(index) };
        arena->open++;
        if (out->index >= arena_cells(arena))
            code = CORE_INVALID_VALUE;
    }
    pthread_mutex_unlock(&lock);
    if (arena && code)
        cell_close(out);
    return code;
}

static uint64_t address_of(const struct cell *cell)
{
    return cell->arena->chunk.address + (uint64_t)cell->index * CELL_BYTES;
}

static uint64_t word_of(const struct cell *cell, uint64_t number)
{
    return address_of(cell) + offsetof(struct cell_content, word) + number % CELL_WORDS * sizeof(uint64_t);
}

static int read_cell(const struct cell *cell, struct cell_content *content)
{
    return core_copy(cell->arena->context, cell->arena->stream, content, (void *)(uintptr_t)address_of(cell),
                     sizeof *content, CORE_DEVICE_TO_HOST, true);
}

static bool complete(const struct cell_content *content, uint64_t number)
{
    return !number || (int64_t)(content->word[number % CELL_WORDS] - number) >= 0;
}

/* Its stream's, or one of our own, writes the number. */
static int write_number(const struct cell *cell, core_stream stream, uint64_t number)
{
    const struct core_value write = { CORE_WRITE_VALUE_64, word_of(cell, number), number, 0 };
    return core_values(cell->arena->context, stream, &write, 1);
}

/* ---- records of processes that may have been killed ---- */

/* One record that something of this process waits for. */
struct event_watch {
    struct event_watch *next;
    struct cell cell;
    struct cell_head head;
};
static struct {
    pthread_mutex_t lock;
    struct event_watch *first;
    bool runs;                                /* the thread */
    pthread_mutex_t looking;                  /* it calls the server; or the session is at rest, and it does not */
} watches = { .lock = PTHREAD_MUTEX_INITIALIZER, .looking = PTHREAD_MUTEX_INITIALIZER };

void cells_rest(bool rest)
{
    if (rest)
        pthread_mutex_lock(&watches.looking);
    else
        pthread_mutex_unlock(&watches.looking);
}

/* Whether it need not be looked at any more. */
static bool watch_look(const struct event_watch *watch)
{
    struct cell_content content;
    pthread_mutex_lock(&lock);
    bool over = has_ended(watch->cell.arena);
    pthread_mutex_unlock(&lock);
    if (over || read_cell(&watch->cell, &content) || complete(&content, watch->head.recorded))
        return true;
    return !handle_share_lives(watch->head.recorder) &&
           !write_number(&watch->cell, watch->cell.arena->stream, watch->head.recorded);
}

static struct event_watch *watch_take(struct event_watch **list)
{
    struct event_watch *watch = *list;
    if (watch)
        *list = watch->next;
    return watch;
}

static void *watch_run(void *unused)
{
    struct event_watch *now, *watch;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_mutex_lock(&watches.lock);
    while (watches.first) {
        pthread_mutex_unlock(&watches.lock);
        usleep(LOOK_EVERY_US);
        pthread_mutex_lock(&watches.lock);
        now = watches.first;
        watches.first = NULL;
        while ((watch = watch_take(&now))) {
            pthread_mutex_unlock(&watches.lock);
            pthread_mutex_lock(&watches.looking);
            bool over = watch_look(watch);
            pthread_mutex_unlock(&watches.looking);
            if (over)
                cell_close(&watch->cell);
            pthread_mutex_lock(&watches.lock);
            watch->next = over ? NULL : watches.first;
            watches.first = over ? watches.first : watch;
            if (over)
                free(watch);
        }
    }
    watches.runs = false;
    pthread_mutex_unlock(&watches.lock);
    return unused;
}

static bool watch_start(void)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, watch_run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_detach(thread);
    return started;
}

/* Something waits for that record. What this process recorded ends with it. */
static void watch_add(const struct cell *cell, const struct cell_head *head)
{
    if (share_is_own(head->recorder))
        return;
    pthread_mutex_lock(&watches.lock);
    struct event_watch *watch = watches.first;
    while (watch && (watch->cell.arena != cell->arena || watch->cell.index != cell->index ||
                     watch->head.recorded != head->recorded))
        watch = watch->next;
    if (!watch && (watch = malloc(sizeof *watch))) {
        *watch = (struct event_watch){ .next = watches.first, .cell = cell_hold(cell), .head = *head };
        watches.first = watch;
        if (!watches.runs)
            watches.runs = watch_start();
    }
    pthread_mutex_unlock(&watches.lock);
}

/* ---- events ---- */

/* A share that ends with this process. */
static int own_share(core_context *c, char *share)
{
    int code = CORE_OK;
    pthread_mutex_lock(&lock);
    struct cell_arena *arena = arenas;
    while (arena && !(arena->own && arena->context == c))
        arena = arena->next;
    if (!arena)
        arena = arena_make(c, NULL, &code);
    if (arena)
        memcpy(share, arena->share, sizeof arena->share);
    pthread_mutex_unlock(&lock);
    return code;
}

int cell_record(const struct cell *cell, core_stream stream)
{
    struct cell_content content = { 0 };
    core_context *c = cell->arena->context;
    pthread_mutex_lock(&recording);
    int code = read_cell(cell, &content);
    struct cell_head head = { .recorded = content.head.recorded + 1 };
    if (!code)
        code = own_share(c, head.recorder);
    if (!code)
        code = write_number(cell, stream, head.recorded);
    if (!code)
        code = core_copy(c, cell->arena->stream, (void *)(uintptr_t)address_of(cell), &head, sizeof head,
                         CORE_HOST_TO_DEVICE, true);
    if (!code)
        code = core_stream_synchronize(c, cell->arena->stream);
    pthread_mutex_unlock(&recording);
    return code;
}

/* The record that counts now is complete; or it is looked after. */
static bool complete_or_watched(const struct cell *cell, const struct cell_content *content)
{
    if (complete(content, content->head.recorded))
        return true;
    watch_add(cell, &content->head);
    return false;
}

int cell_wait(const struct cell *cell, core_context *c, core_stream stream)
{
    struct cell_content content;
    int code = read_cell(cell, &content);
    if (code || complete_or_watched(cell, &content))
        return code;
    uint64_t number = content.head.recorded;
    struct core_value wait = { CORE_WAIT_VALUE_64, word_of(cell, number), number, 0 };
    return core_values(c, stream, &wait, 1);
}

int cell_query(const struct cell *cell)
{
    struct cell_content content;
    int code = read_cell(cell, &content);
    return code ? code : complete_or_watched(cell, &content) ? CORE_OK : CORE_NOT_READY;
}

/* In a stream of its own, so that nobody else's copies wait for it. */
int cell_synchronize(const struct cell *cell)
{
    core_context *c = cell->arena->context;
    core_stream stream;
    int code = cell_query(cell);
    if (code != CORE_NOT_READY || (code = core_stream_create(c, STREAM_NON_BLOCKING, 0, &stream)))
        return code;
    code = cell_wait(cell, c, stream);
    if (!code)
        code = core_stream_synchronize(c, stream);
    core_stream_destroy(stream);
    return code;
}
