/*
 * db_mongo.c: what only MongoDB's implementation of db.h promises. db_mongo.py starts the servers and calls:
 *   documents URI               documents of other programs, and the journal
 *   endure URI SECONDS          writes without pause while the server is killed and started again, then checks it
 *   refused URI ERRNO SECONDS   opening ends with this error within this time
 *   create-user URI NAME PASSWORD
 *
 * shows: resource DB: MongoDB: documents of existing installations, fields of others, what a dead manager began
 */
#include <errno.h>
#include <mongoc/mongoc.h>
#include <time.h>
#include <unistd.h>

#include "control-managers/common/db.h"
#include "cpu/common/explain.h"
#include "tests/lib/now.h"
#include "tests/lib/unit.h"

static const char *uri;
static char error[EXPLAIN_SIZE];
static mongoc_client_t *client;

enum { MAX_ROWS = 64 };
static struct { size_t count; union db_row rows[MAX_ROWS]; } found;

static int keep(void *context, enum db_kind kind, const union db_row *row)
{
    (void)context, (void)kind;
    assert_true(found.count < MAX_ROWS);
    found.rows[found.count++] = *row;
    return 0;
}

static void load(struct db *db, unsigned kinds)
{
    found.count = 0;
    int code = db_load(db, kinds, 100, keep, NULL, error);
    if (code)
        fail_msg("load: %d %s", code, error);
}

static mongoc_collection_t *collection(const char *name)
{
    mongoc_uri_t *parsed = mongoc_uri_new(uri);
    mongoc_collection_t *result = mongoc_client_get_collection(client, mongoc_uri_get_database(parsed), name);
    mongoc_uri_destroy(parsed);
    return result;
}

static void insert(const char *name, bson_t *document)
{
    bson_error_t failure;
    mongoc_collection_t *into = collection(name);
    if (!mongoc_collection_insert_one(into, document, NULL, NULL, &failure))
        fail_msg("insert: %s", failure.message);
    mongoc_collection_destroy(into);
    bson_destroy(document);
}

static int64_t count(const char *name, bson_t *match)
{
    bson_error_t failure;
    mongoc_collection_t *in = collection(name);
    int64_t number = mongoc_collection_count_documents(in, match, NULL, NULL, NULL, &failure);
    if (number < 0)
        fail_msg("count: %s", failure.message);
    mongoc_collection_destroy(in);
    bson_destroy(match);
    return number;
}

static void empty(const char *name)
{
    bson_t all = BSON_INITIALIZER;
    bson_error_t failure;
    mongoc_collection_t *in = collection(name);
    if (!mongoc_collection_delete_many(in, &all, NULL, NULL, &failure))
        fail_msg("empty: %s", failure.message);
    mongoc_collection_destroy(in);
}

static int setup(void **state)
{
    static const char *const names[] = { "vm_required_resources", "flyt_nodes", "flyt_servers", "flyt_events",
                                         "flyt_meta", "flyt_journal", "flyt_lease" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        empty(names[i]);
    struct db *db;
    int code = db_open(uri, &db, error);
    if (code)
        fail_msg("open: %d %s", code, error);
    *state = db;
    return 0;
}

static int teardown(void **state)
{
    db_close(*state);
    return 0;
}

TEST_WITH(documents_of_existing_installations, setup, teardown)
{
    /* As the shell writes them: numbers are doubles. */
    insert("vm_required_resources", BCON_NEW("vm_ip", "10.1.0.2", "host_ip", "10.1.0.1", "compute_units",
                                             BCON_DOUBLE(20), "memory", BCON_DOUBLE(4096)));
    insert("vm_required_resources", BCON_NEW("vm_ip", "10.1.0.3", "host_ip", "10.1.0.1", "compute_units", BCON_INT32(8),
                                             "memory", BCON_INT64(1024)));
    load(*state, DB_VM);
    assert_int_equal(found.count, 2);
    const struct db_vm *vm = &found.rows[0].vm;
    assert_string_equal(vm->name, "10.1.0.2");
    assert_string_equal(vm->address, "10.1.0.2");
    assert_string_equal(vm->host, "10.1.0.1");
    assert_int_equal(vm->sms, 20);
    assert_int_equal(vm->memory_mib, 4096);
    assert_true(vm->grouping);
    assert_int_equal(vm->sharing, 0);
    assert_int_equal(vm->gpus, 1);
    assert_false(vm->has_stored);
    assert_string_equal(found.rows[1].vm.name, "10.1.0.3");
    assert_int_equal(found.rows[1].vm.sms, 8);
}

TEST_WITH(fields_of_others_stay, setup, teardown)
{
    insert("vm_required_resources",
           BCON_NEW("vm_ip", "10.1.0.2", "host_ip", "h", "compute_units", BCON_INT32(1), "memory", BCON_INT32(1),
                    "owner", "ann", "billing", "{", "rate", BCON_DOUBLE(0.5), "}"));
    load(*state, DB_VM);
    struct db_change change = { .action = DB_PUT, .kind = DB_VM, .row = found.rows[0] };
    change.row.vm.sms = 9;
    snprintf(change.row.vm.address, sizeof change.row.vm.address, "10.1.0.77");
    assert_int_equal(db_apply(*state, &change, 1, error), 0);
    /* One document still; ours are numbers of 32 bits, theirs untouched. */
    assert_int_equal(count("vm_required_resources", BCON_NEW(NULL)), 1);
    assert_int_equal(count("vm_required_resources",
                           BCON_NEW("owner", "ann", "billing.rate", BCON_DOUBLE(0.5), "name", "10.1.0.2", "vm_ip",
                                    "10.1.0.77", "compute_units", "{", "$type", "int", "$eq", BCON_INT32(9), "}")),
                     1);
    load(*state, DB_VM);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.rows[0].vm.name, "10.1.0.2");
    change.action = DB_DELETE;
    assert_int_equal(db_apply(*state, &change, 1, error), 0);
    assert_int_equal(count("vm_required_resources", BCON_NEW(NULL)), 0);
}

TEST_WITH(changes_of_others_are_seen, setup, teardown)
{
    load(*state, DB_VM);
    assert_int_equal(found.count, 0);
    insert("vm_required_resources",
           BCON_NEW("vm_ip", "1.2.3.4", "compute_units", BCON_INT32(1), "memory", BCON_INT32(1)));
    load(*state, DB_VM);
    assert_int_equal(found.count, 1);
    struct db_change taken = { .action = DB_INSERT, .kind = DB_VM, .row = found.rows[0] };
    assert_int_equal(db_apply(*state, &taken, 1, error), -EEXIST);
}

TEST_WITH(senseless_documents_are_left_out, setup, teardown)
{
    insert("vm_required_resources", BCON_NEW("vm_ip", "good", "compute_units", BCON_INT32(1), "memory", BCON_INT32(1)));
    insert("vm_required_resources", BCON_NEW("vm_ip", "good", "compute_units", BCON_INT32(2), "memory", BCON_INT32(2)));
    insert("vm_required_resources", BCON_NEW("vm_ip", "no-sms", "memory", BCON_INT32(1)));
    insert("vm_required_resources", BCON_NEW("vm_ip", "text", "compute_units", "many", "memory", BCON_INT32(1)));
    insert("vm_required_resources",
           BCON_NEW("vm_ip", "less", "compute_units", BCON_INT32(-1), "memory", BCON_INT32(1)));
    insert("vm_required_resources",
           BCON_NEW("vm_ip", "less2", "compute_units", BCON_INT32(1), "memory", BCON_INT32(-1)));
    insert("vm_required_resources",
           BCON_NEW("vm_ip", "nan", "compute_units", BCON_DOUBLE(1e300), "memory", BCON_INT32(1)));
    insert("vm_required_resources", BCON_NEW("compute_units", BCON_INT32(1), "memory", BCON_INT32(1)));
    insert("vm_required_resources", BCON_NEW("name", "short", "compute_units", BCON_INT32(1), "memory", BCON_INT32(1),
                                             "stored", BCON_BIN(BSON_SUBTYPE_BINARY, (const uint8_t *)"x", 1)));
    load(*state, DB_VM);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.rows[0].vm.name, "good");
}

TEST_WITH(texts_that_were_cut_within_a_character, setup, teardown)
{
    struct db_change change = { .action = DB_PUT, .kind = DB_META };
    snprintf(change.row.meta.key, sizeof change.row.meta.key, "k");
    snprintf(change.row.meta.value, sizeof change.row.meta.value, "half \xe2\x98");
    assert_int_equal(db_apply(*state, &change, 1, error), 0);
    load(*state, DB_META);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.rows[0].meta.value, "half ??");
}

TEST_WITH(what_a_dead_manager_began_is_completed, setup, teardown)
{
    db_close(*state);
    bson_t *operations = BCON_NEW("0", "{", "on", BCON_INT32(4), "match", "{", "_id", "a", "}", "update", "{", "$set",
                                  "{", "value", "1", "}", "}", "}", "1", "{", "on", BCON_INT32(4), "match", "{", "_id",
                                  "b", "}", "update", "{", "$set", "{", "value", "2", "}", "}", "}");
    insert("flyt_journal", BCON_NEW("_id", "batch", "operations",
                                    BCON_BIN(BSON_SUBTYPE_BINARY, bson_get_data(operations), operations->len)));
    bson_destroy(operations);
    struct db *db;
    assert_int_equal(db_open(uri, &db, error), 0);
    *state = db;
    load(db, DB_META);
    assert_int_equal(found.count, 2);
    assert_string_equal(found.rows[1].meta.value, "2");
    assert_int_equal(count("flyt_journal", BCON_NEW(NULL)), 0);
}

TEST_WITH(a_journal_that_makes_no_sense_is_dropped, setup, teardown)
{
    db_close(*state);
    bson_t *operations = BCON_NEW("0", "{", "on", BCON_INT32(99), "}");
    insert("flyt_journal", BCON_NEW("_id", "batch", "operations",
                                    BCON_BIN(BSON_SUBTYPE_BINARY, bson_get_data(operations), operations->len)));
    bson_destroy(operations);
    struct db *db;
    assert_int_equal(db_open(uri, &db, error), 0);
    *state = db;
    assert_int_equal(count("flyt_journal", BCON_NEW(NULL)), 0);
}

/* Two managers would both hand out the same GPUs. */
TEST_WITH(one_manager_at_a_time, setup, teardown)
{
    struct db *second;
    char pid[32];
    snprintf(pid, sizeof pid, "(pid %d)", (int)getpid());
    assert_int_equal(db_open(uri, &second, error), -EBUSY);
    assert_non_null(second);
    assert_non_null(strstr(error, pid));
    assert_int_equal(db_load(second, DB_ALL, 1, keep, NULL, error), -EBUSY);
    db_close(*state);
    load(second, DB_ALL);
    assert_int_equal(count("flyt_lease", BCON_NEW(NULL)), 1);
    *state = second;
}

static void lease_of(const char *token, const char *host, int64_t pid)
{
    empty("flyt_lease");
    insert("flyt_lease",
           BCON_NEW("_id", "manager", "token", BCON_UTF8(token), "beat", BCON_INT64(7), "host", BCON_UTF8(host), "pid",
                    BCON_INT64(pid), "place", "elsewhere", "began", BCON_INT64(1)));
}

/* On another machine its death shows only by its silence. */
TEST_WITH(a_silent_manager_is_replaced, setup, teardown)
{
    struct db *db;
    db_close(*state);
    lease_of("another", "far-away", 4711);
    assert_int_equal(db_open(uri, &db, error), -EBUSY);
    assert_non_null(strstr(error, "far-away (pid 4711)"));
    double start = now_s();
    int code;
    while ((code = db_keep(db, error)) == -EBUSY && now_s() - start < 20)
        usleep(100000);
    assert_int_equal(code, 0);
    assert_true(now_s() - start > 5);
    *state = db;
}

/* It was frozen, and another has taken over meanwhile: nothing that it had in mind is written any more. */
TEST_WITH(a_replaced_manager_writes_nothing, setup, teardown)
{
    struct db_change change = { .action = DB_PUT, .kind = DB_META };
    snprintf(change.row.meta.key, sizeof change.row.meta.key, "late");
    lease_of("another", "far-away", 4711);
    usleep(1600000);                            /* as long as a renewal counts */
    assert_int_equal(db_apply(*state, &change, 1, error), -ESTALE);
    assert_non_null(strstr(error, "far-away (pid 4711)"));
    assert_int_equal(db_keep(*state, error), -ESTALE);
    assert_int_equal(count("flyt_meta", BCON_NEW(NULL)), 0);
    empty("flyt_lease");
}

static int documents(void)
{
    bson_error_t failure;
    mongoc_uri_t *parsed = mongoc_uri_new(uri);
    client = mongoc_client_new_from_uri_with_error(parsed, &failure);
    mongoc_uri_destroy(parsed);
    int failures = unit_run(NULL, NULL);
    mongoc_client_destroy(client);
    return failures;
}

/* ---- endure ---- */

struct tally { uint64_t servers, events, wrong, last, pairs; };

static int tally(void *context, enum db_kind kind, const union db_row *row)
{
    struct tally *sum = context;
    if (kind == DB_SERVER)
        sum->wrong += row->server.id != ++sum->servers;
    else if (kind == DB_EVENT)
        sum->wrong += row->event.number != ++sum->events;
    else if (kind == DB_META)
        sum->last = strtoull(row->meta.value, NULL, 10);
    return 0;
}

static int endure(double seconds)
{
    struct db *db;
    int code = db_open(uri, &db, error);
    if (code) {
        fprintf(stderr, "open: %d %s\n", code, error);
        return 1;
    }
    double end = now_s() + seconds, worst = 0;
    uint64_t done = 0, retries = 0;
    while (now_s() < end || code) {
        struct db_change changes[3] = { { .action = DB_PUT, .kind = DB_SERVER }, { .action = DB_PUT, .kind = DB_EVENT },
                                        { .action = DB_PUT, .kind = DB_META } };
        changes[0].row.server.id = changes[1].row.event.number = done + 1;
        snprintf(changes[2].row.meta.key, sizeof changes[2].row.meta.key, "last");
        snprintf(changes[2].row.meta.value, sizeof changes[2].row.meta.value, "%llu", (unsigned long long)done + 1);
        double start = now_s();
        code = db_apply(db, changes, 3, error);
        if (now_s() - start > worst)
            worst = now_s() - start;
        if (code == 0) {
            done++;
        } else if (db_mends(code) && now_s() < end + 30) {
            retries++;
            usleep(20000);
        } else {
            fprintf(stderr, "apply: %d %s\n", code, error);
            return 1;
        }
    }
    struct tally sum = { 0 };
    code = db_load(db, DB_SERVER | DB_EVENT | DB_META, 1000000, tally, &sum, error);
    db_close(db);
    printf("# %llu batches, %llu refused and tried again, longest call %.1f s\n", (unsigned long long)done,
           (unsigned long long)retries, worst);
    if (code || sum.wrong || sum.servers != done || sum.events != done || sum.last != done || retries == 0 ||
        worst > 2 * DB_CALL_SECONDS) {
        fprintf(stderr, "load: %d; %llu servers, %llu events, last %llu, %llu out of place\n", code,
                (unsigned long long)sum.servers, (unsigned long long)sum.events, (unsigned long long)sum.last,
                (unsigned long long)sum.wrong);
        return 1;
    }
    return 0;
}

static int refused(int expected, double seconds)
{
    struct db *db;
    double start = now_s();
    int code = db_open(uri, &db, error);
    double took = now_s() - start;
    fprintf(stderr, "%d after %.1f s: %s\n", code, took, code ? error : "opened");
    db_close(db);
    return !(code == -expected && took <= seconds && !strstr(error, "secret-word"));
}

static int create_user(const char *name, const char *password)
{
    bson_error_t failure;
    mongoc_client_t *admin = mongoc_client_new(uri);
    bson_t *command = BCON_NEW("createUser", BCON_UTF8(name), "pwd", BCON_UTF8(password), "roles", "[", "{", "role",
                               "readWrite", "db", "flyt", "}", "]");
    bool made = mongoc_client_write_command_with_opts(admin, "admin", command, NULL, NULL, &failure);
    if (!made)
        fprintf(stderr, "createUser: %s\n", failure.message);
    bson_destroy(command);
    mongoc_client_destroy(admin);
    return !made;
}

int main(int argc, char **argv)
{
    mongoc_init();
    uri = argc > 2 ? argv[2] : "";
    if (argc == 3 && strcmp(argv[1], "documents") == 0)
        return documents();
    if (argc == 4 && strcmp(argv[1], "endure") == 0)
        return endure(atof(argv[3]));
    if (argc == 5 && strcmp(argv[1], "refused") == 0)
        return refused(strcmp(argv[3], "EAGAIN") == 0   ? EAGAIN
                       : strcmp(argv[3], "EACCES") == 0 ? EACCES
                                                        : 0,
                       atof(argv[4]));
    if (argc == 5 && strcmp(argv[1], "create-user") == 0)
        return create_user(argv[3], argv[4]);
    fprintf(stderr, "see the head of db_mongo.c\n");
    return 2;
}
