/*
 * db_worker.c: see db_worker.h. Jobs stand in one list; the thread takes all applies at its head at once as one batch
 * (at most BATCH changes), or one load. A batch that is refused whole is tried again job by job, so that one bad job
 * fails alone.
 */
#include "control-managers/common/db_worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control-managers/common/db_fields.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum { BATCH = 4096, RETRY_MIN_MS = 100, RETRY_MAX_MS = 2000 };

struct db_job {
    struct db_job       *next;
    struct db_worker *worker;
    struct db_change *changes;          /* NULL: a load */
    size_t            count;
    void            (*done)(void *, int, const char *);
    unsigned          kinds, events;
    void            (*loaded)(void *, int, const char *, const struct db_rows *);
    void             *context;
    enum db_kind     *row_kinds;
    size_t           *row_places;       /* of each row, in row_bytes */
    unsigned char    *row_bytes;
    size_t            row_count, row_capacity, row_size, row_room;
    uint64_t          row_digest;
    bool              withdrawn;        /* under the worker's lock */
    int               error;
    char              why[EXPLAIN_SIZE];
};

struct db_worker {
    struct loop     *loop;
    struct db_worker_events events;
    char            *uri;
    pthread_t        thread;
    pthread_mutex_t  lock;              /* of what follows, up to `called` */
    pthread_cond_t   changed;
    struct db_job      *first, **end;
    size_t           waiting;           /* changes in the list or being applied */
    bool             stopping, cancelled, ended;
    struct db_times  times;
    uint64_t         called;            /* when the call of the database that is under way began, ms; 0: none is */
    /* the worker's thread only */
    bool             taken;             /* another manager has the database now */
    bool             told;              /* of the state below */
    enum db_state    state;
    char             state_text[EXPLAIN_SIZE];
    /* the loop's thread only */
    bool             deaf;              /* the worker was stopped, and calls no callback any more */
};

/* ---- in the loop's thread ---- */

static void job_free(struct db_job *job)
{
    free(job->changes);
    free(job->row_kinds);
    free(job->row_places);
    free(job->row_bytes);
    free(job);
}

static void tell_done(void *context)
{
    struct db_job *job = context;
    if (job->loaded) {
        struct db_rows rows = { job->row_count, job->row_kinds, job->row_places,
                                job->row_bytes, job->row_size,  job->row_digest };
        job->loaded(job->context, job->error, job->why, &rows);
    } else if (job->done) {
        job->done(job->context, job->error, job->why);
    }
    job_free(job);
}

struct state_news { struct db_worker *worker; enum db_state state; bool lost; char text[EXPLAIN_SIZE]; };

static void tell_state(void *context)
{
    struct state_news *news = context;
    struct db_worker *worker = news->worker;
    if (news->lost && worker->events.lost && !worker->deaf)
        worker->events.lost(worker->events.context, news->text);
    else if (!news->lost && worker->events.state && !worker->deaf)
        worker->events.state(worker->events.context, news->state, news->text);
    free(news);
}

/* ---- in the worker's thread ---- */

static void say(struct db_worker *worker, enum db_state state, bool lost, const char *text)
{
    struct state_news *news = malloc(sizeof *news);
    if (!news)
        return;
    *news = (struct state_news){ .worker = worker, .state = state, .lost = lost };
    snprintf(news->text, sizeof news->text, "%s", text);
    if (loop_post(worker->loop, tell_state, news) < 0)
        free(news);
}

static void say_state(struct db_worker *worker, enum db_state state, const char *text)
{
    if (worker->told && worker->state == state && (state == DB_UP || strcmp(worker->state_text, text) == 0))
        return;
    worker->told = true;
    worker->state = state;
    snprintf(worker->state_text, sizeof worker->state_text, "%s", text);
    say(worker, state, false, text);
}

/* What the result of a call says of the database. */
static void judge(struct db_worker *worker, int code, const char *why)
{
    if (code == 0 || code == -EEXIST || code == -EINVAL || code == -E2BIG) /* the last three are about what was asked */
        say_state(worker, DB_UP, worker->told ? "the resource DB is back" : "the resource DB is open");
    else if (code != -ESTALE)
        say_state(worker, code == -EBUSY ? DB_ELSEWHERE : DB_AWAY, why);
}

static void say_lost(struct db_worker *worker, const char *text)
{
    if (!worker->taken)
        say(worker, DB_AWAY, true, text);
    worker->taken = true;
}

/* The loop must hear of each job, or grants would wait for ever: it is tried until there is memory. */
static void give_back(struct db_worker *worker, struct db_job *job)
{
    while (loop_post(worker->loop, tell_done, job) < 0)
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

/* Waits; false when the worker is to end at once. */
static bool pause_ms(struct db_worker *worker, unsigned ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&worker->lock);
    while (!worker->cancelled && pthread_cond_timedwait(&worker->changed, &worker->lock, &until) != ETIMEDOUT)
        ;
    bool go_on = !worker->cancelled;
    pthread_mutex_unlock(&worker->lock);
    return go_on;
}

/* With `before`, of what came before. Nobody chooses rows so that it is the same: entitlements are administrators'. */
static uint64_t digest_of(uint64_t before, const void *row, size_t size)
{
    const unsigned char *at = row;
    uint64_t digest = before ^ UINT64_C(0xcbf29ce484222325);
    for (uint64_t word; size; at += sizeof word) {
        size_t part = size < sizeof word ? size : sizeof word;
        word = 0;
        memcpy(&word, at, part);
        size -= part;
        digest = (digest ^ word) * UINT64_C(0x100000001b3);
        digest ^= digest >> 29;
    }
    return digest;
}

static int keep_row(void *context, enum db_kind kind, const union db_row *row)
{
    struct db_job *job = context;
    if (job->row_count == job->row_capacity) {
        size_t capacity = job->row_capacity ? 2 * job->row_capacity : 64;
        enum db_kind *kinds = realloc(job->row_kinds, capacity * sizeof *kinds);
        if (kinds)
            job->row_kinds = kinds;
        size_t *places = realloc(job->row_places, capacity * sizeof *places);
        if (places)
            job->row_places = places;
        if (!kinds || !places)
            return -ENOMEM;
        job->row_capacity = capacity;
    }
    size_t most = db_row_size(kind) + DB_MAX_FIELDS * sizeof(int64_t);
    if (job->row_room - job->row_size < most) {
        size_t room = 2 * job->row_room + most;
        unsigned char *bytes = realloc(job->row_bytes, room);
        if (!bytes)
            return -ENOMEM;
        job->row_bytes = bytes;
        job->row_room = room;
    }
    unsigned char *at = job->row_bytes + job->row_size;
    size_t size = db_row_pack(kind, row, at);
    job->row_kinds[job->row_count] = kind;
    job->row_places[job->row_count++] = job->row_size;
    job->row_size += size;
    job->row_digest = digest_of(job->row_digest, at, size);
    return 0;
}

void db_rows_get(const struct db_rows *rows, size_t i, union db_row *out)
{
    db_row_unpack(rows->kinds[i], rows->bytes + rows->places[i], out);
}

const double db_seconds[DB_TIMES - 1] = { 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3 };

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void note_time(struct db_worker *worker, uint64_t begun)
{
    uint64_t us = now_us() - begun;
    int i = 0;
    while (i < DB_TIMES - 1 && (double)us > db_seconds[i] * 1e6)
        i++;
    pthread_mutex_lock(&worker->lock);
    worker->times.counts[i]++;
    worker->times.us += us;
    pthread_mutex_unlock(&worker->lock);
}

struct db_times db_worker_times(const struct db_worker *worker)
{
    struct db_worker *mutable = (struct db_worker *)(uintptr_t)worker;
    pthread_mutex_lock(&mutable->lock);
    struct db_times times = worker->times;
    pthread_mutex_unlock(&mutable->lock);
    return times;
}

/* Runs one attempt of a load, or of a batch of changes. */
static int attempt(struct db *db, struct db_job *first, char *error)
{
    if (first->loaded) {
        first->row_count = first->row_size = first->row_digest = 0;
        return db_load(db, first->kinds, first->events, keep_row, first, error);
    }
    if (!first->next)
        return db_apply(db, first->changes, first->count, error);
    size_t count = 0, at = 0;
    for (struct db_job *job = first; job; job = job->next)
        count += job->count;
    struct db_change *changes = malloc(count * sizeof *changes);
    if (!changes)
        return explain(error, -ENOMEM, "no memory for a batch");
    for (struct db_job *job = first; job; job = job->next) {
        memcpy(changes + at, job->changes, job->count * sizeof *changes);
        at += job->count;
    }
    int failure = db_apply(db, changes, count, error);
    free(changes);
    return failure;
}

static uint64_t now_ms(void) { return now_us() / 1000; }

static void mark_call(struct db_worker *worker, bool begins)
{
    pthread_mutex_lock(&worker->lock);
    worker->called = begins ? now_ms() : 0;
    pthread_mutex_unlock(&worker->lock);
}

static void finish(struct db_worker *worker, struct db_job *job, int error, const char *why)
{
    size_t count = job->count;
    job->error = error;
    snprintf(job->why, sizeof job->why, "%s", why);
    give_back(worker, job);                     /* the job is the loop's from here on */
    pthread_mutex_lock(&worker->lock);
    worker->waiting -= count;
    pthread_mutex_unlock(&worker->lock);
}

/* Gives back those of the batch that were withdrawn. Returns the rest of it. */
static struct db_job *drop_withdrawn(struct db_worker *worker, struct db_job *first, const char *why)
{
    struct db_job **at = &first, *job;
    while ((job = *at)) {
        pthread_mutex_lock(&worker->lock);
        bool withdrawn = job->withdrawn;
        pthread_mutex_unlock(&worker->lock);
        if (!withdrawn) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        finish(worker, job, -ECANCELED, why);
    }
    return first;
}

/* Tries the batch again and again while the database is away. *batch loses those that are withdrawn, until the
   database may have some of it; then all of it has to be carried through, or nobody would know what happened. */
static int insist(struct db_worker *worker, struct db *db, struct db_job **batch, char *error)
{
    unsigned delay = RETRY_MIN_MS;
    bool unsure = false;
    while (*batch) {
        const uint64_t begun = now_us();
        mark_call(worker, true);
        int failure = attempt(db, *batch, error);
        mark_call(worker, false);
        if (!(*batch)->loaded)
            note_time(worker, begun);
        judge(worker, failure, error);
        if (failure == -ESTALE)
            say_lost(worker, error);
        if (!db_mends(failure))
            return failure;
        unsure = unsure || failure == -EINPROGRESS;
        if (!unsure)
            *batch = drop_withdrawn(worker, *batch, error);
        if (*batch && !pause_ms(worker, delay))
            return explain(error, -ECANCELED, "this program ends while the resource DB is away");
        if (!unsure)
            *batch = drop_withdrawn(worker, *batch, error);
        delay = delay * 2 < RETRY_MAX_MS ? delay * 2 : RETRY_MAX_MS;
    }
    return 0;
}

/* A batch that was taken off the list. */
static void run_jobs(struct db_worker *worker, struct db *db, struct db_job *batch)
{
    char error[EXPLAIN_SIZE] = "";
    int failure = insist(worker, db, &batch, error);
    bool each_alone = failure && failure != -ECANCELED && batch && batch->next;
    while (batch) {
        struct db_job *job = batch;
        batch = job->next;
        job->next = NULL;
        if (each_alone) {
            error[0] = '\0';
            failure = insist(worker, db, &job, error);
        }
        if (job)
            finish(worker, job, failure, error);
    }
}

static struct db *open_db(struct db_worker *worker)
{
    char error[EXPLAIN_SIZE] = "";
    unsigned delay = RETRY_MIN_MS;
    for (;;) {
        struct db *db = NULL;
        mark_call(worker, true);
        int failure = db_open(worker->uri, &db, error);
        mark_call(worker, false);
        if (db || failure != -EINVAL)
            judge(worker, failure, error);
        else
            say_state(worker, DB_AWAY, error);  /* its address is wrong */
        if (db)
            return db;
        if (!pause_ms(worker, delay))
            return NULL;
        delay = delay * 2 < RETRY_MAX_MS ? delay * 2 : RETRY_MAX_MS;
    }
}

/* Waits until there is something to do. While there is not, looks now and then whether the database is there, and shows
   others that this manager lives. */
static void wait_for_jobs(struct db_worker *worker, struct db *db)
{
    char error[EXPLAIN_SIZE];
    struct timespec until;
    while (!worker->first && !worker->stopping) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += DB_KEEP_MS / 1000;
        if (pthread_cond_timedwait(&worker->changed, &worker->lock, &until) != ETIMEDOUT || !db || worker->taken)
            continue;
        worker->called = now_ms();
        pthread_mutex_unlock(&worker->lock);
        int code = db_keep(db, error);
        if (code == -ESTALE)
            say_lost(worker, error);
        else
            judge(worker, code, error);
        pthread_mutex_lock(&worker->lock);
        worker->called = 0;
    }
}

/* Takes a batch off the list. NULL: the worker ends. */
static struct db_job *take_jobs(struct db_worker *worker, struct db *db)
{
    pthread_mutex_lock(&worker->lock);
    wait_for_jobs(worker, db);
    struct db_job *first = worker->first, *last = first;
    if (first) {
        size_t count = first->count;
        while (!first->loaded && last->next && !last->next->loaded && count + last->next->count <= BATCH) {
            last = last->next;
            count += last->count;
        }
        worker->first = last->next;
        if (!worker->first)
            worker->end = &worker->first;
        last->next = NULL;
    }
    pthread_mutex_unlock(&worker->lock);
    return first;
}

static void *work(void *context)
{
    struct db_worker *worker = context;
    struct db_job *batch;
    struct db *db = open_db(worker);
    while ((batch = take_jobs(worker, db))) {
        if (db) {
            run_jobs(worker, db, batch);
            continue;
        }
        while (batch) {
            struct db_job *job = batch;
            batch = job->next;
            finish(worker, job, -ECANCELED, "this program ends before the resource DB could be opened");
        }
    }
    db_close(db);
    pthread_mutex_lock(&worker->lock);
    worker->ended = true;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

/* ---- the interface ---- */

int db_worker_start(struct loop *loop, const char *uri, const struct db_worker_events *events, struct db_worker **out,
                    char *error)
{
    struct db_worker *worker = calloc(1, sizeof *worker);
    char *copy = strdup(uri);
    pthread_condattr_t attributes;
    if (!worker || !copy) {
        free(worker);
        free(copy);
        return explain(error, -ENOMEM, "no memory for the resource DB's thread");
    }
    worker->loop = loop;
    worker->uri = copy;
    worker->events = *events;
    worker->end = &worker->first;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&worker->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    int failure = pthread_create(&worker->thread, NULL, work, worker);
    if (failure) {
        free(copy);
        free(worker);
        return explain(error, -failure, "starting the resource DB's thread: %s", strerror(failure));
    }
    *out = worker;
    return 0;
}

static int enqueue(struct db_worker *worker, struct db_job *job)
{
    pthread_mutex_lock(&worker->lock);
    bool room = worker->waiting + job->count <= DB_WORKER_MAX && !worker->stopping;
    if (room) {
        worker->waiting += job->count;
        *worker->end = job;
        worker->end = &job->next;
        pthread_cond_broadcast(&worker->changed);
    }
    pthread_mutex_unlock(&worker->lock);
    if (!room)
        job_free(job);
    return room ? 0 : -ENOSPC;
}

int db_worker_apply(struct db_worker *worker, const struct db_change *changes, size_t count,
                    void (*done)(void *, int, const char *), void *context, struct db_job **handle)
{
    struct db_job *job = calloc(1, sizeof *job);
    struct db_change *copy = malloc((count ? count : 1) * sizeof *copy);
    if (!job || !copy) {
        free(job);
        free(copy);
        return -ENOSPC;
    }
    memcpy(copy, changes, count * sizeof *copy);
    *job = (struct db_job){ .worker = worker, .changes = copy, .count = count, .done = done, .context = context };
    if (handle)
        *handle = job;                          /* before it can be done: that is reported in this thread */
    return enqueue(worker, job);
}

bool db_worker_withdraw(struct db_worker *worker, struct db_job *job)
{
    pthread_mutex_lock(&worker->lock);
    struct db_job **at = &worker->first;
    while (*at && *at != job)
        at = &(*at)->next;
    bool waits = *at != NULL;
    if (waits) {
        *at = job->next;
        if (!*at)
            worker->end = at;
        worker->waiting -= job->count;
    } else {
        job->withdrawn = true;                  /* the worker looks at it between two attempts */
    }
    pthread_mutex_unlock(&worker->lock);
    if (waits)
        job_free(job);
    return waits;
}

int db_worker_load(struct db_worker *worker, unsigned kinds, unsigned events,
                   void (*done)(void *, int, const char *, const struct db_rows *), void *context)
{
    struct db_job *job = calloc(1, sizeof *job);
    if (!job)
        return -ENOSPC;
    *job = (struct db_job){ .worker = worker, .kinds = kinds, .events = events, .loaded = done, .context = context };
    return enqueue(worker, job);
}

size_t db_worker_waiting(const struct db_worker *worker)
{
    struct db_worker *mutable = (struct db_worker *)worker;
    pthread_mutex_lock(&mutable->lock);
    size_t waiting = worker->waiting;
    pthread_mutex_unlock(&mutable->lock);
    return waiting;
}

unsigned db_worker_silence(const struct db_worker *worker)
{
    struct db_worker *mutable = (struct db_worker *)worker;
    pthread_mutex_lock(&mutable->lock);
    uint64_t called = worker->called;
    pthread_mutex_unlock(&mutable->lock);
    return called ? (unsigned)(now_ms() - called) : 0;
}

static void wake_up(void *context)
{
    (void)context;                              /* the round itself runs what the worker gave back */
}

void db_worker_stop(struct db_worker *worker, unsigned timeout_ms)
{
    struct timespec until;
    if (!worker)
        return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    until.tv_sec += timeout_ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&worker->lock);
    worker->stopping = true;
    pthread_cond_broadcast(&worker->changed);
    while (!worker->ended && pthread_cond_timedwait(&worker->changed, &worker->lock, &until) != ETIMEDOUT)
        ;
    worker->cancelled = true;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    worker->deaf = true;
    /* The worker's last results are reported before its memory is freed. */
    loop_post(worker->loop, wake_up, NULL);
    loop_run_once(worker->loop);
    pthread_mutex_destroy(&worker->lock);
    pthread_cond_destroy(&worker->changed);
    free(worker->uri);
    free(worker);
}
