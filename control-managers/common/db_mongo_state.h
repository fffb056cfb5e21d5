/*
 * db_mongo_state.h: what db_mongo.c (opening, errors, applying), db_mongo_journal.c (batches) and db_mongo_load.c
 * (reading) share. Functions that may fail return 0 or -errno, and then put the reason into error (EXPLAIN_SIZE).
 */
#ifndef FLYT_CONTROL_DB_MONGO_STATE_H
#define FLYT_CONTROL_DB_MONGO_STATE_H

#include <mongoc/mongoc.h>

#include "control-managers/common/db_mongo_lease.h"
#include "control-managers/common/db_mongo_rows.h"

enum { MONGO_WHERE_SIZE = 512 };

struct mongo_db {
    struct db db;
    char where[MONGO_WHERE_SIZE]; /* the URI without secrets */
    mongoc_uri_t *uri;
    mongoc_client_t *client; /* NULL: none at present */
    const char *name;        /* of the database; the URI's */
    bool settled;            /* no journal of ours, or of who was before us, is left to be carried out */
    bool indexed;
    struct mongo_lease lease;
    bool unsure;               /* the batch that was given last may have been applied: -EINPROGRESS was said of it */
    char warned[EXPLAIN_SIZE]; /* said already */
};

/* Explains what could not be done. A connection that failed is thrown away. */
int mongo_fail(struct mongo_db *, const char *what, const bson_error_t *, char *error);
/* Explains what could not be done by a call that may have written. */
int mongo_fail_write(struct mongo_db *, const char *what, const bson_error_t *, char *error);
/* Writes a warning to the log, unless the last one was the same. "": nothing is wrong now. */
void mongo_warn_once(struct mongo_db *, const char *text);
mongoc_collection_t *mongo_collection(struct mongo_db *, const char *name);

/* ---- db_mongo_journal.c ---- */

/* A change as the next one of a batch. */
void mongo_add_operation(bson_t *operations, size_t number, const struct db_change *);
int mongo_run_operations(struct mongo_db *, const bson_t *operations, char *error);
/* The batch that is written before it is carried out. Reading gives NULL when there is none; the caller frees it. */
int mongo_journal_write(struct mongo_db *, const bson_t *operations, char *error);
int mongo_journal_read(struct mongo_db *, bson_t **operations, char *error);
int mongo_journal_clear(struct mongo_db *, char *error);

/* ---- db_mongo_load.c ---- */

/* Visits the rows of a table: of events the newest `events`, the oldest of them first. */
int mongo_load_table(struct mongo_db *, const struct db_table *, unsigned events, db_visit *, void *context,
                     char *error);

#endif
