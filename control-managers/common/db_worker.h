/*
 * db_worker.h: one thread that owns a struct db, and the queue before it. The loop never waits for the database.
 *
 * Batches are applied in the order in which they were given; those that wait are joined into one, so that a busy
 * manager commits once for many. While the database is away the worker keeps trying, with back-off; what waits is
 * bounded (DB_WORKER_MAX changes): then db_worker_apply refuses. A change that somebody waits for can be withdrawn, as
 * long as it is sure that the database has nothing of it.
 */
#ifndef FLYT_CONTROL_DB_WORKER_H
#define FLYT_CONTROL_DB_WORKER_H

#include "control-managers/common/db.h"
#include "control-managers/common/loop.h"

enum { DB_WORKER_MAX = 65536 };

struct db_worker;
struct db_job;

enum db_state {
    DB_UP,
    DB_AWAY,     /* it cannot be reached, or takes nothing */
    DB_ELSEWHERE /* another manager uses it, and this one stands by */
};

struct db_worker_events {
    /* The database came or went: text says why. Called again when the text changes. In the loop's thread. */
    void (*state)(void *context, enum db_state, const char *text);
    /* Another manager has taken the database over: nothing more will be applied, and this one has to end. Called once,
       before the functions of what was not applied. */
    void (*lost)(void *context, const char *text);
    void *context;
};

/* Opens the database in the worker's thread; the first `state` tells. */
int db_worker_start(struct loop *, const char *uri, const struct db_worker_events *, struct db_worker **, char *error);
/* Applies what waits (at most timeout_ms), ends the thread. Functions of what was not applied get -ECANCELED. */
void db_worker_stop(struct db_worker *, unsigned timeout_ms);

/* Copies the changes. done (may be NULL) runs in the loop's thread, in order: 0 once they are durable, else why they
   never will be. -ENOSPC (nothing queued, done is not called) when too much waits. *job (may be NULL) is valid until
   done runs. */
int db_worker_apply(struct db_worker *, const struct db_change *, size_t count,
                    void (*done)(void *context, int error, const char *why), void *context, struct db_job **job);
/* Gives the job up, if that is possible. true: nothing of it was begun, and done is not called. false: the database
   has it at present. Then done is called with -ECANCELED as soon as it is sure that nothing was applied; else the
   job goes on. */
bool db_worker_withdraw(struct db_worker *, struct db_job *);

/* Rows as loaded, in the loop's thread. error 0: count rows of kinds[i], valid until return. */
struct db_rows {
    size_t count;
    const enum db_kind *kinds;
    const size_t *places; /* in bytes */
    const unsigned char *bytes;
    size_t size;     /* in bytes */
    uint64_t digest; /* of all bytes: that of another load of the same rows is the same */
};
/* Rows are kept packed (db_fields.h), since those of a large cluster would take hundreds of megabytes otherwise. Of
   *out only the member of its kind is filled. */
void db_rows_get(const struct db_rows *, size_t i, union db_row *out);
int db_worker_load(struct db_worker *, unsigned kinds, unsigned events,
                   void (*done)(void *context, int error, const char *why, const struct db_rows *), void *context);

size_t db_worker_waiting(const struct db_worker *);
/* How long the database was about batches of changes, tries that failed included, since the worker began. counts[i]: of
   at most db_seconds[i], the last: longer. Any thread. */
enum { DB_TIMES = 9 };
struct db_times {
    uint64_t counts[DB_TIMES], us;
};
extern const double db_seconds[DB_TIMES - 1];
struct db_times db_worker_times(const struct db_worker *);
/* For how long the database has left one call unanswered, in milliseconds; 0: no call is under way. */
unsigned db_worker_silence(const struct db_worker *);

#endif
