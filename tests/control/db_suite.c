/*
 * db_suite.c: what every implementation of db.h has to do. `control_db URI` runs it on an empty database that may be
 * written to; rows are taken away before each test.
 *
 * shows: resource DB: rows come back as written, batches are whole and in order, names are taken once, over SQLite and
  *   over MongoDB
 */
#include <errno.h>

#include "control-managers/common/db.h"
#include "cpu/common/explain.h"
#include "tests/lib/unit.h"

static const char *uri;
static char error[EXPLAIN_SIZE];

enum { MAX_ROWS = 4096 };
struct rows { size_t count; enum db_kind kinds[MAX_ROWS]; union db_row *rows; int stop_at; };
static struct rows found;

static int keep(void *context, enum db_kind kind, const union db_row *row)
{
    struct rows *rows = context;
    assert_true(rows->count < MAX_ROWS);
    rows->kinds[rows->count] = kind;
    rows->rows[rows->count++] = *row;
    return rows->stop_at && (int)rows->count == rows->stop_at ? 77 : 0;
}

static void load(struct db *db, unsigned kinds)
{
    found.count = 0;
    int code = db_load(db, kinds, 1000, keep, &found, error);
    if (code)
        fail_msg("load: %d %s", code, error);
}

static void apply(struct db *db, const struct db_change *changes, size_t count)
{
    int code = db_apply(db, changes, count, error);
    if (code)
        fail_msg("apply: %d %s", code, error);
}

static struct db *open_db(void)
{
    struct db *db = NULL;
    int code = db_open(uri, &db, error);
    if (code)
        fail_msg("open %s: %d %s", uri, code, error);
    return db;
}

static void wipe(struct db *db)
{
    load(db, DB_ALL);
    if (found.count == 0)
        return;
    struct db_change *changes = calloc(found.count, sizeof *changes);
    for (size_t i = 0; i < found.count; i++)
        changes[i] = (struct db_change){ .action = DB_DELETE, .kind = found.kinds[i], .row = found.rows[i] };
    for (size_t i = 0; i < found.count; i += 500)
        apply(db, changes + i, found.count - i < 500 ? found.count - i : 500);
    free(changes);
    load(db, DB_ALL);
    assert_int_equal(found.count, 0);
}

static int setup(void **state)
{
    struct db *db = open_db();
    wipe(db);
    *state = db;
    return 0;
}

static int teardown(void **state)
{
    db_close(*state);
    return 0;
}

/* ---- rows to work with ---- */

static struct db_change vm_change(enum db_action action, const char *name, uint32_t sms, uint64_t memory)
{
    struct db_change change = { .action = action, .kind = DB_VM };
    struct db_vm *vm = &change.row.vm;
    snprintf(vm->name, sizeof vm->name, "%s", name);
    snprintf(vm->address, sizeof vm->address, "10.0.0.%u", sms);
    snprintf(vm->host, sizeof vm->host, "192.168.7.%u", sms);
    vm->sms = sms;
    vm->memory_mib = memory;
    vm->grouping = true;
    vm->gpus = 1;
    return change;
}

static struct db_change server_change(enum db_action action, uint64_t id, const char *vm)
{
    struct db_change change = { .action = action, .kind = DB_SERVER };
    struct db_server *server = &change.row.server;
    server->id = id;
    snprintf(server->vm, sizeof server->vm, "%s", vm);
    snprintf(server->node, sizeof server->node, "node-1");
    snprintf(server->gpus, sizeof server->gpus, "GPU-00000000-1111,GPU-00000000-2222");
    server->sharing = 8;
    server->sms = 12;
    server->memory = (uint64_t)1 << 41;
    server->program = 42;
    server->state = 1;
    server->created = 1700000000123456;
    server->set = 123456789012344;
    server->spread = true;
    return change;
}

static struct db_change event_change(enum db_action action, uint64_t number)
{
    struct db_change change = { .action = action, .kind = DB_EVENT };
    struct db_event *event = &change.row.event;
    event->number = number;
    event->time = (int64_t)number * 1000;
    event->severity = 2;
    snprintf(event->kind, sizeof event->kind, "node-lost");
    snprintf(event->vm, sizeof event->vm, "vm");
    snprintf(event->node, sizeof event->node, "n%u", (unsigned)number);
    event->server = 5;
    event->program = 6;
    snprintf(event->text, sizeof event->text, "number %u: \"quoted\", $dollar, {brace}, ünïcode ☃ 'and' --",
             (unsigned)number);
    return change;
}

static struct db_change meta_change(enum db_action action, const char *key, const char *value)
{
    struct db_change change = { .action = action, .kind = DB_META };
    snprintf(change.row.meta.key, sizeof change.row.meta.key, "%s", key);
    snprintf(change.row.meta.value, sizeof change.row.meta.value, "%s", value);
    return change;
}

static struct db_change node_change(enum db_action action, const char *name, bool drained)
{
    struct db_change change = { .action = action, .kind = DB_NODE };
    snprintf(change.row.node.name, sizeof change.row.node.name, "%s", name);
    snprintf(change.row.node.host, sizeof change.row.node.host, "%s.example", name);
    change.row.node.drained = drained;
    snprintf(change.row.node.drain_reason, sizeof change.row.node.drain_reason, "%s", drained ? "new fan" : "");
    snprintf(change.row.node.gpus, sizeof change.row.node.gpus, "%s", drained ? "GPU-1,GPU-2" : "");
    change.row.node.last_heard = -5;
    return change;
}

/* ---- tests ---- */

TEST_WITH(empty_is_empty, setup, teardown)
{
    load(*state, DB_ALL);
    assert_int_equal(found.count, 0);
    assert_int_equal(db_apply(*state, NULL, 0, error), 0);
}

TEST_WITH(vms_come_back_as_written, setup, teardown)
{
    struct db_change change = vm_change(DB_PUT, "alpha", 7, 2048);
    struct db_vm *vm = &change.row.vm;
    vm->sharing = 9;
    vm->grouping = false;
    vm->wait = 2;
    vm->has_stored = true;
    for (unsigned i = 0; i < DB_STORED_SIZE; i++)
        vm->stored[i] = (uint8_t)(i * 7);       /* zeros and high bits included */
    apply(*state, &change, 1);
    load(*state, DB_VM);
    assert_int_equal(found.count, 1);
    struct db_vm *back = &found.rows[0].vm;
    assert_string_equal(back->name, "alpha");
    assert_string_equal(back->address, "10.0.0.7");
    assert_string_equal(back->host, "192.168.7.7");
    assert_int_equal(back->sms, 7);
    assert_int_equal(back->memory_mib, 2048);
    assert_int_equal(back->sharing, 9);
    assert_false(back->grouping);
    assert_int_equal(back->wait, 2);
    assert_true(back->has_stored);
    assert_memory_equal(back->stored, vm->stored, DB_STORED_SIZE);

    /* A put replaces all of it: the verifier and the addresses go. */
    struct db_change other = vm_change(DB_PUT, "alpha", 8, (uint64_t)1 << 33);
    other.row.vm.address[0] = other.row.vm.host[0] = '\0';
    apply(*state, &other, 1);
    load(*state, DB_VM);
    assert_int_equal(found.count, 1);
    assert_int_equal(back->sms, 8);
    assert_int_equal(back->memory_mib, (uint64_t)1 << 33);
    assert_string_equal(back->address, "");
    assert_string_equal(back->host, "");
    assert_true(back->grouping);
    assert_false(back->has_stored);
}

TEST_WITH(other_kinds_come_back_as_written, setup, teardown)
{
    struct db_change changes[] = { server_change(DB_PUT, 123456789012345, "alpha"), event_change(DB_PUT, 3),
                                   meta_change(DB_PUT, "next-id", "99"), node_change(DB_PUT, "n1", true) };
    apply(*state, changes, 4);
    load(*state, DB_SERVER);
    assert_int_equal(found.count, 1);
    struct db_server server = found.rows[0].server;
    assert_int_equal(server.id, 123456789012345);
    assert_string_equal(server.vm, "alpha");
    assert_string_equal(server.node, "node-1");
    assert_string_equal(server.gpus, "GPU-00000000-1111,GPU-00000000-2222");
    assert_int_equal(server.sharing, 8);
    assert_int_equal(server.sms, 12);
    assert_int_equal(server.memory, (uint64_t)1 << 41);
    assert_int_equal(server.program, 42);
    assert_int_equal(server.state, 1);
    assert_int_equal(server.created, 1700000000123456);
    assert_int_equal(server.set, 123456789012344);
    assert_true(server.spread);
    load(*state, DB_EVENT);
    assert_int_equal(found.count, 1);
    struct db_event event = found.rows[0].event;
    assert_int_equal(event.number, 3);
    assert_int_equal(event.time, 3000);
    assert_int_equal(event.severity, 2);
    assert_string_equal(event.kind, "node-lost");
    assert_string_equal(event.vm, "vm");
    assert_string_equal(event.node, "n3");
    assert_int_equal(event.server, 5);
    assert_int_equal(event.program, 6);
    assert_string_equal(event.text, changes[1].row.event.text);
    load(*state, DB_META);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.rows[0].meta.key, "next-id");
    assert_string_equal(found.rows[0].meta.value, "99");
    load(*state, DB_NODE);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.rows[0].node.name, "n1");
    assert_string_equal(found.rows[0].node.host, "n1.example");
    assert_true(found.rows[0].node.drained);
    assert_string_equal(found.rows[0].node.drain_reason, "new fan");
    assert_string_equal(found.rows[0].node.gpus, "GPU-1,GPU-2");
    assert_int_equal(found.rows[0].node.last_heard, -5);
    load(*state, DB_ALL);
    assert_int_equal(found.count, 4);
}

TEST_WITH(longest_texts_fit, setup, teardown)
{
    struct db_change changes[2] = { event_change(DB_PUT, 1), vm_change(DB_PUT, "x", 1, 1) };
    struct db_change server = server_change(DB_PUT, 1, "x");
    memset(server.row.server.gpus, 'g', DB_GPUS_SIZE - 1);
    apply(*state, &server, 1);
    load(*state, DB_SERVER);
    assert_string_equal(found.rows[0].server.gpus, server.row.server.gpus);
    memset(changes[0].row.event.text, 'e', DB_TEXT_SIZE - 1);
    changes[0].row.event.text[DB_TEXT_SIZE - 1] = '\0';
    memset(changes[1].row.vm.name, 'n', DB_NAME_SIZE - 1);
    memset(changes[1].row.vm.host, 'h', DB_HOST_SIZE - 1);
    changes[1].row.vm.sms = UINT32_MAX;
    changes[1].row.vm.gpus = 16;
    changes[1].row.vm.spread = true;
    apply(*state, changes, 2);
    load(*state, DB_VM | DB_EVENT);
    assert_int_equal(found.count, 2);
    for (size_t i = 0; i < 2; i++)
        if (found.kinds[i] == DB_EVENT) {
            assert_string_equal(found.rows[i].event.text, changes[0].row.event.text);
        } else {
            assert_string_equal(found.rows[i].vm.name, changes[1].row.vm.name);
            assert_string_equal(found.rows[i].vm.host, changes[1].row.vm.host);
            assert_int_equal(found.rows[i].vm.gpus, 16);
            assert_true(found.rows[i].vm.spread);
            assert_int_equal(found.rows[i].vm.sms, UINT32_MAX);
        }
}

TEST_WITH(rows_come_by_key, setup, teardown)
{
    struct db_change changes[] = { vm_change(DB_PUT, "c", 3, 1),  vm_change(DB_PUT, "a", 1, 1),
                                   vm_change(DB_PUT, "b", 2, 1),  server_change(DB_PUT, 30, "c"),
                                   server_change(DB_PUT, 4, "a"), server_change(DB_PUT, 200, "b") };
    apply(*state, changes, 6);
    load(*state, DB_VM);
    assert_int_equal(found.count, 3);
    assert_string_equal(found.rows[0].vm.name, "a");
    assert_string_equal(found.rows[1].vm.name, "b");
    assert_string_equal(found.rows[2].vm.name, "c");
    load(*state, DB_SERVER);
    assert_int_equal(found.count, 3);
    assert_int_equal(found.rows[0].server.id, 4);
    assert_int_equal(found.rows[1].server.id, 30);
    assert_int_equal(found.rows[2].server.id, 200);
}

TEST_WITH(visiting_stops_when_told, setup, teardown)
{
    struct db_change changes[] = { server_change(DB_PUT, 1, "a"), server_change(DB_PUT, 2, "a"),
                                   server_change(DB_PUT, 3, "a") };
    apply(*state, changes, 3);
    found.count = 0;
    found.stop_at = 2;
    int code = db_load(*state, DB_ALL, 10, keep, &found, error);
    found.stop_at = 0;
    assert_int_equal(code, 77);
    assert_int_equal(found.count, 2);
    load(*state, DB_ALL);               /* and the next call works */
    assert_int_equal(found.count, 3);
}

TEST_WITH(deletions, setup, teardown)
{
    struct db_change changes[] = { vm_change(DB_PUT, "a", 1, 1),        vm_change(DB_PUT, "b", 2, 1),
                                   server_change(DB_PUT, 1, "a"),       vm_change(DB_DELETE, "a", 0, 0),
                                   vm_change(DB_DELETE, "never", 0, 0), server_change(DB_DELETE, 77, "") };
    apply(*state, changes, 6);
    load(*state, DB_ALL);
    assert_int_equal(found.count, 2);
    load(*state, DB_VM);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.rows[0].vm.name, "b");
}

/* In one batch the last word counts, in the order given. */
TEST_WITH(batches_keep_their_order, setup, teardown)
{
    struct db_change changes[] = { meta_change(DB_PUT, "k", "1"),    meta_change(DB_PUT, "k", "2"),
                                   meta_change(DB_DELETE, "k", ""),  meta_change(DB_PUT, "k", "3"),
                                   meta_change(DB_PUT, "gone", "1"), meta_change(DB_DELETE, "gone", "") };
    apply(*state, changes, 6);
    apply(*state, changes, 6);          /* twice makes no difference */
    load(*state, DB_META);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.rows[0].meta.value, "3");
}

TEST_WITH(a_taken_name_refuses_the_whole_batch, setup, teardown)
{
    struct db_change first = vm_change(DB_INSERT, "a", 1, 1);
    apply(*state, &first, 1);
    struct db_change changes[] = { meta_change(DB_PUT, "before", "1"), vm_change(DB_INSERT, "b", 2, 1),
                                   vm_change(DB_INSERT, "a", 9, 9),
                                   meta_change(DB_PUT, "after", "1") };
    error[0] = '\0';
    assert_int_equal(db_apply(*state, changes, 4, error), -EEXIST);
    assert_non_null(strstr(error, "'a'"));
    load(*state, DB_ALL);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.rows[0].vm.sms, 1);
    /* Taken within the batch counts too. */
    struct db_change twice[] = { vm_change(DB_INSERT, "c", 2, 1), vm_change(DB_INSERT, "c", 3, 1) };
    assert_int_equal(db_apply(*state, twice, 2, error), -EEXIST);
    /* A name that the batch itself makes free is free. */
    struct db_change anew[] = { vm_change(DB_DELETE, "a", 0, 0), vm_change(DB_INSERT, "a", 5, 5) };
    apply(*state, anew, 2);
    load(*state, DB_VM);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.rows[0].vm.sms, 5);
    /* An insertion alone. */
    assert_int_equal(db_apply(*state, &first, 1, error), -EEXIST);
}

TEST_WITH(nonsense_is_refused, setup, teardown)
{
    struct db_change changes[] = { meta_change(DB_PUT, "good", "1"), meta_change(DB_PUT, "", "1") };
    assert_int_equal(db_apply(*state, changes, 2, error), -EINVAL);
    struct db_change insert = meta_change(DB_INSERT, "k", "1");
    assert_int_equal(db_apply(*state, &insert, 1, error), -EINVAL);
    struct db_change trim = server_change(DB_TRIM, 1, "");
    assert_int_equal(db_apply(*state, &trim, 1, error), -EINVAL);
    struct db_change kind = meta_change(DB_PUT, "k", "1");
    kind.kind = (enum db_kind)3;
    assert_int_equal(db_apply(*state, &kind, 1, error), -EINVAL);
    load(*state, DB_ALL);
    assert_int_equal(found.count, 0);
}

TEST_WITH(events_newest_and_trimmed, setup, teardown)
{
    struct db_change changes[20];
    for (unsigned i = 0; i < 20; i++)
        changes[i] = event_change(DB_PUT, i + 1);
    apply(*state, changes, 20);
    found.count = 0;
    assert_int_equal(db_load(*state, DB_EVENT, 5, keep, &found, error), 0);
    assert_int_equal(found.count, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(found.rows[i].event.number, 16 + i);
    struct db_change trim = event_change(DB_TRIM, 18);
    apply(*state, &trim, 1);
    load(*state, DB_EVENT);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.rows[0].event.number, 19);
}

/* What was applied is there for who opens it later. */
TEST_WITH(everything_outlives_the_handle, setup, teardown)
{
    struct db_change changes[] = { vm_change(DB_PUT, "a", 1, 1), server_change(DB_PUT, 1, "a"),
                                   meta_change(DB_PUT, "k", "v"),
                                   node_change(DB_PUT, "n", false), event_change(DB_PUT, 1) };
    apply(*state, changes, 5);
    db_close(*state);
    *state = open_db();
    load(*state, DB_ALL);
    assert_int_equal(found.count, 5);
    db_close(*state);
    *state = open_db();
    load(*state, DB_ALL);
    assert_int_equal(found.count, 5);
}

TEST_WITH(large_batches, setup, teardown)
{
    /* More of each kind than a server gives in its first answer (101), few enough for the slow one of the tests. */
    enum { COUNT = 360, PART = 180 };
    struct db_change *changes = calloc(COUNT, sizeof *changes);
    for (unsigned i = 0; i < COUNT; i++)
        changes[i] = i % 3 == 0 ? server_change(DB_PUT, i + 1, "a") : event_change(DB_PUT, i + 1);
    for (unsigned i = 0; i < COUNT; i += PART)
        apply(*state, changes + i, PART);
    free(changes);
    load(*state, DB_SERVER);
    assert_int_equal(found.count, COUNT / 3);
    load(*state, DB_EVENT);
    assert_int_equal(found.count, COUNT - COUNT / 3);
    wipe(*state);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s URI   (of a database that may be emptied)\n", argv[0]);
        return 2;
    }
    uri = argv[1];
    found.rows = calloc(MAX_ROWS, sizeof *found.rows);
    int failures = unit_run(NULL, NULL);
    free(found.rows);
    return failures;
}
