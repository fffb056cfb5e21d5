/*
 * db_mongo.c: the resource DB in MongoDB, by mongo-c-driver.
 *
 * Whole or not at all, without transactions (a single server has none): a batch of several changes is written as one
 * document of flyt_journal first, then carried out, then the document is deleted. Who finds such a document when it
 * begins (or begins again) carries it out before anything else. All operations are idempotent.
 *
 * Away and back: after any failure that may mend, the client is thrown away and the next call makes another, so that
 * neither stale connections nor the driver's cool-down of 5 s stand in the way.
 *
 * One manager at a time: db_mongo_lease.h, looked at before everything else that is done.
 *
 * A journal that can never be carried out (say, a unique index of somebody else on vm_ip) is reported and dropped:
 * else nothing could ever be written again.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "control-managers/common/db_mongo_state.h"
#include "cpu/common/log.h"

/* Of one operation, milliseconds. Longer ones in the URI are cut: see DB_CALL_SECONDS. */
enum {
    SELECT_MS = 3000,
    CONNECT_MS = 2000,
    SOCKET_MS = 4000,
    WRITE_MS = 3000
};

/* ---- errors ---- */

static int error_code(const bson_error_t *failure)
{
    switch (failure->domain) {
    case MONGOC_ERROR_STREAM:
    case MONGOC_ERROR_SERVER_SELECTION:
    case MONGOC_ERROR_WRITE_CONCERN:
        return -EAGAIN;
    case MONGOC_ERROR_CLIENT:
        return failure->code == MONGOC_ERROR_CLIENT_AUTHENTICATE ? -EACCES : -EAGAIN;
    case MONGOC_ERROR_SASL:
    case MONGOC_ERROR_SCRAM:
        return -EACCES;
    default:
        break;
    }
    switch (failure->code) {
    case 13: case 18: return -EACCES;   /* Unauthorized, AuthenticationFailed */
    case 11000:       return -EEXIST;   /* DuplicateKey */
    /* Somebody else is primary now, or the server is going down (MongoDB's list of retryable errors). */
    case 6:
    case 7:
    case 64:
    case 89:
    case 91:
    case 189:
    case 262:
    case 9001:
    case 10107:
    case 11600:
    case 11602:
    case 13435:
    case 13436: return -EAGAIN;
    default:          return -EIO;
    }
}

int mongo_fail(struct mongo_db *mongo, const char *what, const bson_error_t *failure, char *error)
{
    int code = error_code(failure);
    const char *advice =
        code == -EACCES ? "; check user, password and authSource of its address, and the rights of that user" : "";
    explain(error, code, "resource DB %s: %s: %s%s", mongo->where, what, failure->message, advice);
    if (code == -EAGAIN && mongo->client) {
        mongoc_client_destroy(mongo->client);
        mongo->client = NULL;
        mongo->settled = false;
    }
    return code;
}

int mongo_fail_write(struct mongo_db *mongo, const char *what, const bson_error_t *failure, char *error)
{
    bool sent = failure->domain != MONGOC_ERROR_SERVER_SELECTION;
    int code = mongo_fail(mongo, what, failure, error);
    return code == -EAGAIN && sent ? -EINPROGRESS : code;
}

void mongo_warn_once(struct mongo_db *mongo, const char *text)
{
    if (strcmp(mongo->warned, text) == 0)
        return;
    snprintf(mongo->warned, sizeof mongo->warned, "%s", text);
    if (*text)
        log_warning("event=db text=\"%s\"", text);
}

/* ---- opening ---- */

static void limit_option(mongoc_uri_t *uri, const char *option, int32_t most)
{
    int32_t given = mongoc_uri_get_option_as_int32(uri, option, 0);
    if (given <= 0 || given > most)
        mongoc_uri_set_option_as_int32(uri, option, most);
}

static void set_defaults(mongoc_uri_t *uri)
{
    limit_option(uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS, SELECT_MS);
    limit_option(uri, MONGOC_URI_CONNECTTIMEOUTMS, CONNECT_MS);
    limit_option(uri, MONGOC_URI_SOCKETTIMEOUTMS, SOCKET_MS);
    /* Retrying is the caller's. */
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYWRITES, false);
    mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYREADS, false);
    if (!mongoc_uri_has_option(uri, MONGOC_URI_W) && !mongoc_uri_has_option(uri, MONGOC_URI_JOURNAL)) {
        /* What was applied survives the primary. */
        mongoc_write_concern_t *concern = mongoc_write_concern_new();
        mongoc_write_concern_set_wmajority(concern, WRITE_MS);
        mongoc_write_concern_set_journal(concern, true);
        mongoc_uri_set_write_concern(uri, concern);
        mongoc_write_concern_destroy(concern);
    }
    if (!mongoc_uri_get_appname(uri))
        mongoc_uri_set_appname(uri, "flyt");
}

static int connect_client(struct mongo_db *mongo, char *error)
{
    bson_error_t failure = { 0 };
    if (mongo->client)
        return 0;
    mongo->client = mongoc_client_new_from_uri_with_error(mongo->uri, &failure);
    if (!mongo->client) {
        explain(error, 0, "resource DB %s: %s", mongo->where, failure.message);
        return failure.domain == MONGOC_ERROR_STREAM ? -EAGAIN
                                                     : -EINVAL; /* names that could not be resolved; options */
    }
    mongoc_client_set_error_api(mongo->client, MONGOC_ERROR_API_VERSION_2);
    return 0;
}

mongoc_collection_t *mongo_collection(struct mongo_db *mongo, const char *name)
{
    return mongoc_client_get_collection(mongo->client, mongo->name, name);
}

/* For the look-ups of entitlements. They are wanted, not needed: others may not have left us the right to make them. */
static void make_indexes(struct mongo_db *mongo)
{
    static const char *const fields[] = { "name", "vm_ip" };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char name[32];
        bson_t reply;
        bson_error_t failure;
        snprintf(name, sizeof name, "flyt_%s", fields[i]);
        bson_t *command = BCON_NEW("createIndexes", BCON_UTF8(db_tables[0].collection), "indexes", "[", "{", "key", "{",
                                   fields[i], BCON_INT32(1), "}", "name", BCON_UTF8(name), "}", "]");
        if (!mongoc_client_write_command_with_opts(mongo->client, mongo->name, command, NULL, &reply, &failure))
            log_info("event=db-no-index db=%s field=%s why=\"%s\"", mongo->where, fields[i], failure.message);
        bson_destroy(&reply);
        bson_destroy(command);
    }
    mongo->indexed = true;
}

static int hold_lease(struct mongo_db *mongo, char *error)
{
    bson_error_t failure = { 0 };
    char text[EXPLAIN_SIZE] = "";
    bool held = mongo->lease.held;
    mongoc_collection_t *leases = mongo_collection(mongo, "flyt_lease");
    int code = mongo_lease_hold(&mongo->lease, leases, &failure, text);
    mongoc_collection_destroy(leases);
    if (code > 0)
        return mongo_fail(mongo, "cannot read or write flyt_lease", &failure, error);
    if (code == 0 && !held)
        mongo->settled = false;         /* who had it before may have left something */
    return code ? explain(error, code, "resource DB %s: %s", mongo->where, text) : 0;
}

/* Connects, and brings to its end what was begun. */
static int ready(struct mongo_db *mongo, char *error)
{
    int code = connect_client(mongo, error);
    if (code == 0)
        code = hold_lease(mongo, error);
    if (code || mongo->settled)
        return code;
    bson_t *operations;
    code = mongo_journal_read(mongo, &operations, error);
    if (code == 0 && operations) {
        code = mongo_run_operations(mongo, operations, error);
        bson_destroy(operations);
        if (code == -EINPROGRESS)
            code = -EAGAIN;             /* an older batch: of the caller's nothing was sent */
        if (code && code != -EAGAIN) {
            log_error("event=db-batch-dropped why=\"%s\"", error);
            code = 0;
        }
        if (code == 0)
            code = mongo_journal_clear(mongo, error);
    }
    if (code)
        return code;
    if (!mongo->indexed)
        make_indexes(mongo);
    mongo->settled = true;
    return 0;
}

static void mongo_close(struct db *db)
{
    struct mongo_db *mongo = (struct mongo_db *)db;
    if (mongo->client) {
        mongoc_collection_t *leases = mongo_collection(mongo, "flyt_lease");
        mongo_lease_release(&mongo->lease, leases);
        mongoc_collection_destroy(leases);
        mongoc_client_destroy(mongo->client);
    }
    mongoc_uri_destroy(mongo->uri);
    free(mongo);
}

/* The driver's library makes a file of statistics in /dev/shm before main() begins, which a killed process would leave
   behind; its name is taken away at once. (MONGOC_DISABLE_SHM would have to be in the environment already.) */
__attribute__((constructor)) static void remove_statistics(void)
{
    char name[32];
    snprintf(name, sizeof name, "/mongoc-%ld", (long)getpid());
    shm_unlink(name);
}

static void start_driver(void)
{
    mongoc_init();
    mongoc_log_set_handler(NULL, NULL); /* what matters comes with each error */
}

/* NULL: it is not understood. */
static mongoc_uri_t *parse(const char *text, char clean[MONGO_WHERE_SIZE], char *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bson_error_t failure;
    pthread_once(&once, start_driver);
    db_uri_clean(text, clean, MONGO_WHERE_SIZE);
    mongoc_uri_t *uri = mongoc_uri_new_with_error(text, &failure);
    if (!uri)
        explain(error, -EINVAL, "resource DB %s: its address is not understood: %s", clean, failure.message);
    return uri;
}

static int mongo_check(const char *text, char *error)
{
    char clean[MONGO_WHERE_SIZE];
    mongoc_uri_t *uri = parse(text, clean, error);
    if (!uri)
        return -EINVAL;
    mongoc_uri_destroy(uri);
    return 0;
}

static int mongo_open(const char *text, struct db **out, char *error)
{
    *out = NULL;
    char clean[MONGO_WHERE_SIZE], ignored[EXPLAIN_SIZE];
    mongoc_uri_t *uri = parse(text, clean, error);
    if (!uri)
        return -EINVAL;
    struct mongo_db *mongo = calloc(1, sizeof *mongo);
    if (!mongo) {
        mongoc_uri_destroy(uri);
        return explain(error, -ENOMEM, "resource DB %s: no memory", clean);
    }
    mongo->db.operations = &db_mongo;
    memcpy(mongo->where, clean, sizeof clean);
    mongo->uri = uri;
    mongo->name = mongoc_uri_get_database(uri) ? mongoc_uri_get_database(uri) : "flyt";
    set_defaults(uri);
    if (mongo_lease_init(&mongo->lease)) {
        mongo_close(&mongo->db);
        return explain(error, -ENOSYS, "resource DB %s: there are no random numbers", clean);
    }
    int code = ready(mongo, error ? error : ignored);
    if (code && !db_mends(code)) {
        mongo_close(&mongo->db);
        return code;
    }
    *out = &mongo->db;
    return code;
}

static int mongo_load(struct db *db, unsigned kinds, unsigned events, db_visit *visit, void *context, char *error)
{
    struct mongo_db *mongo = (struct mongo_db *)db;
    char ignored[EXPLAIN_SIZE];
    error = error ? error : ignored;
    int code = ready(mongo, error);
    for (int i = 0; code == 0 && i < DB_TABLES; i++)
        if ((kinds & db_tables[i].kind) && !(db_tables[i].kind == DB_EVENT && events == 0))
            code = mongo_load_table(mongo, &db_tables[i], events, visit, context, error);
    return code;
}

/* ---- apply ---- */

/* 0: this VM is not there (or is this very one, and we may have put it there); -EEXIST. */
static int check_free(struct mongo_db *mongo, const union db_row *row, char *error)
{
    const struct db_table *table = &db_tables[db_table_index(DB_VM)];
    bson_t match;
    bson_error_t failure;
    const bson_t *document;
    char problem[EXPLAIN_SIZE];
    mongo_row_match(table, DB_PUT, row, &match);
    mongoc_collection_t *vms = mongo_collection(mongo, table->collection);
    mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(vms, &match, NULL, NULL);
    bool taken = false;
    while (mongoc_cursor_next(cursor, &document)) {
        union db_row there;
        bool ours =
            mongo->unsure && mongo_row_read(table, document, &there, problem) && db_row_equal(table, &there, row);
        taken = taken || !ours;
    }
    bool failed = mongoc_cursor_error(cursor, &failure);
    mongoc_cursor_destroy(cursor);
    mongoc_collection_destroy(vms);
    bson_destroy(&match);
    if (failed)
        return mongo_fail(mongo, "cannot read", &failure, error);
    return taken ? explain(error, -EEXIST, "there is a VM '%s' already", row->vm.name) : 0;
}

static int check_insertions(struct mongo_db *mongo, const struct db_change *changes, size_t count, char *error)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < count; i++) {
        if (changes[i].action != DB_INSERT)
            continue;
        /* What the batch itself did to this name before. */
        const struct db_change *earlier = NULL;
        for (size_t j = 0; j < i; j++)
            if (changes[j].kind == DB_VM && strcmp(changes[j].row.vm.name, changes[i].row.vm.name) == 0)
                earlier = &changes[j];
        if (!earlier)
            code = check_free(mongo, &changes[i].row, error);
        else if (earlier->action != DB_DELETE)
            code = explain(error, -EEXIST, "there is a VM '%s' already", changes[i].row.vm.name);
    }
    return code;
}

/* A write that is sent to a server which does not answer may be carried out much later. So the server is asked first
   whether it is there: then the outcome is unknown only if the server stops between this answer and the next. */
static int ask_whether_there(struct mongo_db *mongo, char *error)
{
    bson_t *ping = BCON_NEW("ping", BCON_INT32(1));
    bson_error_t failure;
    bool there = mongoc_client_command_simple(mongo->client, mongo->name, ping, NULL, NULL, &failure);
    bson_destroy(ping);
    return there ? 0 : mongo_fail(mongo, "cannot reach it", &failure, error);
}

static int mongo_apply(struct db *db, const struct db_change *changes, size_t count, char *error)
{
    struct mongo_db *mongo = (struct mongo_db *)db;
    char ignored[EXPLAIN_SIZE];
    error = error ? error : ignored;
    int code = db_changes_check(changes, count, error);
    if (code || count == 0)
        return code;
    code = ready(mongo, error);
    if (code == 0)
        code = ask_whether_there(mongo, error);
    if (code == 0)
        code = check_insertions(mongo, changes, count, error);
    if (code)
        return code;
    bson_t operations = BSON_INITIALIZER;
    for (size_t i = 0; i < count; i++)
        mongo_add_operation(&operations, i, &changes[i]);
    if (count > 1)
        code = mongo_journal_write(mongo, &operations, error);
    if (code == -EEXIST) {              /* one that we took for lost has come late: it is read and carried out first */
        mongo->settled = false;
        code = -EINPROGRESS;
    }
    bool journaled = count > 1 && code == 0;
    if (code == 0)
        code = mongo_run_operations(mongo, &operations, error);
    bson_destroy(&operations);
    if (journaled && code == -EAGAIN)
        code = -EINPROGRESS;            /* whoever reads the journal next carries it out */
    if (code != -EAGAIN)
        mongo->unsure = code == -EINPROGRESS;
    /* What cannot be cleared is carried out once more by the next call, which changes nothing. */
    if (journaled && mongo->client && mongo_journal_clear(mongo, ignored))
        mongo->settled = false;
    return code;
}

static int mongo_keep(struct db *db, char *error)
{
    char ignored[EXPLAIN_SIZE];
    return ready((struct mongo_db *)db, error ? error : ignored);
}

const struct db_operations db_mongo = {
    .kind = "mongodb",
    .check = mongo_check,
    .open = mongo_open,
    .close = mongo_close,
    .load = mongo_load,
    .apply = mongo_apply,
    .keep = mongo_keep,
};
