/*
 * journal.c: see journal.h. Calls and answers come in from moves/journal_calls.c, under the lock of the client, which
 * gives their order.
 *
 * The entries lie in memory of which the address range is reserved at the beginning; pages are taken as it fills.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "journal.h"

enum { ALIGNMENT = 8, HEAD_WORDS = 3 };

/* Entries, in memory of which the address range is reserved. */
struct entries {
    uint8_t *bytes;
    size_t used;
};

atomic_bool journal_runs;
static atomic_bool fills; /* journal_fills has not said so */

static struct {
    pthread_mutex_t lock; /* a leaf */
    struct entries now;
    size_t limit;
    uint64_t calls;
    bool filled; /* three quarters of it were used */
    bool renewed; /* it has begun anew once, or will */
    atomic_bool awaits; /* it protects nothing before it begins anew */
    atomic_bool aside;
    struct journal_text texts[JOURNAL_TEXTS];
    char why[256];
} journal = { .lock = PTHREAD_MUTEX_INITIALIZER };

void journal_unprotect(const char *why)
{
    pthread_mutex_lock(&journal.lock);
    bool was = atomic_exchange(&journal_runs, false);
    if (was) {
        atomic_store(&journal.awaits, false);
        snprintf(journal.why, sizeof journal.why, "%s", why);
        madvise(journal.now.bytes, journal.limit, MADV_DONTNEED); /* a thread may still be writing its entry there */
    }
    pthread_mutex_unlock(&journal.lock);
    if (was)
        log_warning("this program is not protected against the loss of its GPU server any more: %s", why);
}

void journal_refuse(const char *why)
{
    pthread_mutex_lock(&journal.lock);
    snprintf(journal.why, sizeof journal.why, "%s", why);
    pthread_mutex_unlock(&journal.lock);
    log_warning("this program is not protected against the loss of its GPU server: %s", why);
}

void journal_forget(const char *why)
{
    pthread_mutex_lock(&journal.lock);
    bool was = journal_on();
    if (was) {
        snprintf(journal.why, sizeof journal.why, "%s", why);
        atomic_store(&journal.awaits, true);
        madvise(journal.now.bytes, journal.limit, MADV_DONTNEED);
        journal.now.used = 0;
        journal.calls = 0;
        journal.filled = false;
        atomic_store(&fills, false);
        journal.renewed = true;
    }
    pthread_mutex_unlock(&journal.lock);
    if (was)
        log_info("this program is not protected against the loss of its GPU server until a checkpoint of what it has "
                 "there is made: %s", why);
}

bool journal_protects(void) { return journal_on() && !atomic_load(&journal.awaits); }

const char *journal_why_unprotected(void) { return journal_protects() ? "" : journal.why; }

/* ---- entries ---- */

/* Room for the bytes of an entry, which stays where it is; NULL: there is none. */
static uint8_t *entry_add(struct entries *to, const struct journal_entry *entry)
{
    size_t whole = sizeof *entry + ((entry->size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
    if (journal.limit - to->used < whole)
        return NULL;
    uint8_t *at = to->bytes + to->used;
    memcpy(at, entry, sizeof *entry);
    to->used += whole;
    return at + sizeof *entry;
}

/* By these calls both sides only hear of each other. */
static bool counts(uint32_t procedure) { return procedure != FLYT_EVENTS && procedure != FLYT_USAGE; }

uint8_t *journal_add(uint32_t kind, uint32_t procedure, uint32_t xid, size_t size)
{
    const struct journal_entry entry = { kind, procedure, xid, (uint32_t)size };
    uint8_t *room = NULL;
    pthread_mutex_lock(&journal.lock);
    bool runs = journal_on();
    if (runs)
        room = entry_add(&journal.now, &entry);
    journal.calls += kind == JOURNAL_SENT && counts(procedure);
    if (runs && !journal.filled && journal.now.used > journal.limit / 4 * 3) {
        journal.filled = true;
        atomic_store(&fills, true);
    }
    pthread_mutex_unlock(&journal.lock);
    if (runs && !room)
        journal_unprotect("its journal is full");
    return room;
}

bool journal_fills(void)
{
    return atomic_load_explicit(&fills, memory_order_relaxed) && atomic_exchange(&fills, false);
}

/* ---- answers ---- */

static uint32_t word(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return ntohl(value);
}

static bool skip(const uint8_t **at, size_t *left, uint64_t size)
{
    if (size > *left)
        return false;
    *at += size;
    *left -= size;
    return true;
}

bool journal_reply_read(const uint8_t *body, size_t size, struct journal_reply *reply)
{
    enum { WORD = 4, PROGRESS = 12 };
    const uint8_t *at = body;
    size_t left = size;
    *reply = (struct journal_reply){ .answer.status = RPC_SUCCESS };
    if (!skip(&at, &left, (HEAD_WORDS + 1) * WORD))
        return false;
    reply->answer.result = (int32_t)word(body);
    reply->answer.latched = (int32_t)word(body + WORD);
    reply->answer.sticky = (int32_t)word(body + 2 * WORD);
    reply->answer.progress = word(body + HEAD_WORDS * WORD);
    reply->progress = at;
    if (reply->answer.progress > FLYT_MAX_PROGRESS || !skip(&at, &left, (uint64_t)reply->answer.progress * PROGRESS) ||
        left < WORD)
        return false;
    reply->text_count = word(at);
    if (reply->text_count > FLYT_MAX_TEXTS)
        return false;
    skip(&at, &left, WORD);
    reply->texts = at;
    for (uint32_t i = 0; i < reply->text_count; i++) {
        uint32_t length = left >= 2 * WORD ? word(at + WORD) : UINT32_MAX;
        if (!skip(&at, &left, 2 * WORD + (((uint64_t)length + 3) & ~UINT64_C(3))))
            return false;
    }
    reply->rest = at;
    reply->answer.body = (uint32_t)left;
    return true;
}

void journal_reply_mark(struct journal_reply *reply)
{
    XXH128_hash_t hash = XXH3_128bits(reply->rest, reply->answer.body);
    reply->answer.fingerprint[0] = hash.low64;
    reply->answer.fingerprint[1] = hash.high64;
}

struct journal_progress journal_reply_progress(const struct journal_reply *reply, uint32_t index)
{
    const uint8_t *at = reply->progress + (size_t)index * 12;
    return (struct journal_progress){ .stream = word(at), .done = (uint64_t)word(at + 4) << 32 | word(at + 8) };
}

unsigned journal_reply_text(const uint8_t **at, const uint8_t **bytes, uint32_t *size)
{
    unsigned which = word(*at) == 2;
    *size = word(*at + 4);
    *bytes = *at + 8;
    *at += 8 + (((size_t)*size + 3) & ~(size_t)3);
    return which;
}

static size_t answer_kept(const struct journal_answer *answer, uint32_t procedure)
{
    return answer->body <= JOURNAL_KEPT || procedure == FLYT_EVENTS ? answer->body : 0;
}

static size_t answer_size(const struct journal_answer *answer, size_t kept)
{
    return sizeof *answer + answer->progress * sizeof(struct journal_progress) + kept;
}

static void answer_put(uint8_t *room, const struct journal_reply *reply, size_t kept)
{
    const struct journal_answer *answer = &reply->answer;
    memcpy(room, answer, sizeof *answer);
    struct journal_progress *progress = (void *)(room + sizeof *answer);
    for (uint32_t i = 0; i < answer->progress; i++)
        progress[i] = journal_reply_progress(reply, i);
    if (kept)
        memcpy(progress + answer->progress, reply->rest, kept);
}

bool journal_add_answer(uint32_t procedure, uint32_t xid, const struct journal_reply *reply,
                        struct journal_progress **progress)
{
    size_t kept = answer_kept(&reply->answer, procedure);
    uint8_t *room = journal_add(JOURNAL_ANSWERED, procedure, xid, answer_size(&reply->answer, kept));
    if (!room)
        return false;
    answer_put(room, reply, kept);
    *progress = (void *)(room + sizeof reply->answer);
    const uint8_t *at = reply->texts, *bytes;
    uint32_t length;
    for (uint32_t i = 0; i < reply->text_count; i++) {
        unsigned which = journal_reply_text(&at, &bytes, &length);
        journal_text_add(&journal.texts[which], bytes, length);
    }
    return true;
}

/* ---- printed text ---- */

bool journal_text_open(struct journal_text texts[JOURNAL_TEXTS])
{
    bool there = true;
    for (unsigned i = 0; i < JOURNAL_TEXTS; i++) {
        texts[i] = (struct journal_text){ .state = XXH3_createState() };
        there = texts[i].state && there;
        if (texts[i].state)
            XXH3_128bits_reset(texts[i].state);
    }
    return there;
}

void journal_text_close(struct journal_text texts[JOURNAL_TEXTS])
{
    for (unsigned i = 0; i < JOURNAL_TEXTS; i++)
        XXH3_freeState(texts[i].state);
}

void journal_text_add(struct journal_text *text, const uint8_t *bytes, size_t size)
{
    text->size += size;
    XXH3_128bits_update(text->state, bytes, size);
}

bool journal_text_equal(const struct journal_text *a, const struct journal_text *b)
{
    return a->size == b->size && XXH128_isEqual(XXH3_128bits_digest(a->state), XXH3_128bits_digest(b->state));
}

const struct journal_text *journal_texts(void) { return journal.texts; }

void journal_set_aside(bool aside)
{
    journal_add(aside ? JOURNAL_ASIDE : JOURNAL_BACK, 0, 0, 0);
    atomic_store(&journal.aside, aside);
}

bool journal_ignores(uint32_t procedure) { return procedure == FLYT_COPY_BOX_OUT && atomic_load(&journal.aside); }

/* ---- what a replay has found out ---- */

void journal_give_due(uint32_t id)
{
    uint8_t *room = journal_add(JOURNAL_GIVEN, 0, 0, sizeof id);
    if (room)
        memcpy(room, &id, sizeof id);
}

void journal_give_text(unsigned which, const uint8_t *bytes, size_t size)
{
    journal_text_add(&journal.texts[which], bytes, size);
}

/* ---- another beginning ---- */

static struct entries draft; /* bytes NULL: there is none */

static uint8_t *range_reserve(void)
{
    void *bytes = mmap(NULL, journal.limit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return NULL;
    madvise(bytes, journal.limit, MADV_DONTFORK);
    return bytes;
}

bool journal_draft_open(void)
{
    journal_draft_drop();
    draft.bytes = range_reserve();
    return draft.bytes;
}

void journal_draft_drop(void)
{
    if (draft.bytes)
        munmap(draft.bytes, journal.limit);
    draft = (struct entries){ 0 };
}

uint8_t *journal_draft_add(uint32_t kind, uint32_t procedure, uint32_t xid, size_t size)
{
    return entry_add(&draft, &(struct journal_entry){ kind, procedure, xid, (uint32_t)size });
}

bool journal_draft_answer(uint32_t procedure, uint32_t xid, const uint8_t *body, size_t size, bool any)
{
    struct journal_reply reply;
    if (!journal_reply_read(body, size, &reply))
        return false;
    journal_reply_mark(&reply);
    size_t kept = any ? 0 : answer_kept(&reply.answer, procedure);
    if (any)
        reply.answer.body = JOURNAL_ANY;
    uint8_t *room = journal_draft_add(JOURNAL_ANSWERED, procedure, xid, answer_size(&reply.answer, kept));
    if (room)
        answer_put(room, &reply, kept);
    return room;
}

bool journal_begin_anew(void)
{
    struct journal_text texts[JOURNAL_TEXTS];
    bool there = journal_text_open(texts), again = false;
    pthread_mutex_lock(&journal.lock);
    bool anew = there && journal_on();
    if (anew) {
        struct entries before = journal.now;
        journal_text_close(journal.texts);
        memcpy(journal.texts, texts, sizeof texts);
        journal.now = draft;
        journal.calls = 0;
        journal.filled = false;
        atomic_store(&fills, false);
        journal.renewed = true;
        again = atomic_exchange(&journal.awaits, false);
        atomic_store(&journal.aside, false);
        draft = before;
    }
    pthread_mutex_unlock(&journal.lock);
    if (again)
        log_info("this program is protected against the loss of its GPU server again");
    if (!anew)
        journal_text_close(texts);
    return anew;
}

/* ---- the whole ---- */

void journal_wish(size_t limit) { journal.limit = limit; }

size_t journal_wished(void) { return journal.limit; }

bool journal_open(bool renewed)
{
    uint8_t *bytes = range_reserve();
    if (!bytes)
        return false;
    if (!journal_text_open(journal.texts)) {
        munmap(bytes, journal.limit);
        return false;
    }
    journal.now = (struct entries){ bytes, 0 };
    journal.renewed = renewed;
    atomic_store(&journal_runs, true);
    return true;
}

bool journal_is_renewed(void) { return journal_on() && journal.renewed; }

uint64_t journal_bytes(void)
{
    pthread_mutex_lock(&journal.lock);
    uint64_t used = journal_on() ? journal.now.used : 0;
    pthread_mutex_unlock(&journal.lock);
    return used;
}

uint64_t journal_calls(void)
{
    pthread_mutex_lock(&journal.lock);
    uint64_t calls = journal.calls;
    pthread_mutex_unlock(&journal.lock);
    return calls;
}

const struct journal_entry *journal_next(const struct journal_entry *entry)
{
    size_t at = 0;
    if (entry)
        at = (size_t)((const uint8_t *)entry - journal.now.bytes) + sizeof *entry +
             ((entry->size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
    return at < journal.now.used ? (const struct journal_entry *)(const void *)(journal.now.bytes + at) : NULL;
}
