/*
 * db_sqlite.c: what only SQLite's implementation of db.h promises: its file, its lock, its versions.
 *
 * shows: resource DB: SQLite: a killed manager leaves all that it was promised, one manager at a time, permissions,
  *   versions
 */
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control-managers/common/db.h"
#include "cpu/common/explain.h"
#include "tests/lib/unit.h"

static char folder[64], path[128], uri[160], error[EXPLAIN_SIZE];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/flyt-db-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/flyt.db", folder);
    snprintf(uri, sizeof uri, "sqlite://%s", path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    static const char *const names[] = { "", "-wal", "-shm", "-lock" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[160];
        snprintf(name, sizeof name, "%s%s", path, names[i]);
        unlink(name);
    }
    return rmdir(folder);
}

static void put(struct db *db, const char *key, const char *value)
{
    struct db_change change = { .action = DB_PUT, .kind = DB_META };
    snprintf(change.row.meta.key, sizeof change.row.meta.key, "%s", key);
    snprintf(change.row.meta.value, sizeof change.row.meta.value, "%s", value);
    assert_int_equal(db_apply(db, &change, 1, error), 0);
}

static int count_row(void *context, enum db_kind kind, const union db_row *row)
{
    (void)kind, (void)row;
    ++*(int *)context;
    return 0;
}

static int rows(struct db *db)
{
    int count = 0;
    assert_int_equal(db_load(db, DB_ALL, 100, count_row, &count, error), 0);
    return count;
}

TEST_WITH(nobody_else_may_read_it, setup, teardown)
{
    mode_t before = umask(0);
    struct db *db;
    assert_int_equal(db_open(uri, &db, error), 0);
    put(db, "k", "v");
    static const char *const names[] = { "", "-wal", "-shm", "-lock" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[160];
        struct stat stat_;
        snprintf(name, sizeof name, "%s%s", path, names[i]);
        assert_int_equal(stat(name, &stat_), 0);
        assert_int_equal(stat_.st_mode & 077, 0);
    }
    db_close(db);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(db_open(uri, &db, error), 0);
    struct stat after;
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_mode & 077, 0);
    db_close(db);
    umask(before);
}

/* Two managers would both hand out the same GPUs. */
TEST_WITH(one_manager_at_a_time, setup, teardown)
{
    struct db *first, *second;
    assert_int_equal(db_open(uri, &first, error), 0);
    assert_int_equal(db_open(uri, &second, error), -EBUSY);
    assert_non_null(strstr(error, "another cluster manager"));
    char pid[32];
    snprintf(pid, sizeof pid, "pid %d on ", (int)getpid());
    assert_non_null(strstr(error, pid));
    assert_non_null(second);
    int count = 0;
    assert_int_equal(db_load(second, DB_ALL, 1, count_row, &count, error), -EBUSY);
    put(first, "k", "v");
    db_close(first);
    assert_int_equal(rows(second), 1);
    db_close(second);
}

TEST_WITH(a_killed_manager_leaves_all_it_was_promised, setup, teardown)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        struct db *db;
        if (db_open(uri, &db, error))
            _exit(1);
        for (int i = 0;; i++) {
            struct db_change changes[2] = { { .action = DB_PUT, .kind = DB_META },
                                            { .action = DB_PUT, .kind = DB_META } };
            snprintf(changes[0].row.meta.key, sizeof changes[0].row.meta.key, "a%d", i);
            snprintf(changes[1].row.meta.key, sizeof changes[1].row.meta.key, "b%d", i);
            if (db_apply(db, changes, 2, error) || write(pipes[1], "x", 1) != 1)
                _exit(1);
        }
    }
    close(pipes[1]);
    char bytes[64];
    int promised = 0;
    while (promised < 50)
        promised += (int)read(pipes[0], bytes, 1);
    kill(child, SIGKILL);
    for (ssize_t got; (got = read(pipes[0], bytes, sizeof bytes)) > 0;)
        promised += (int)got;
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    close(pipes[0]);
    struct db *db;
    assert_int_equal(db_open(uri, &db, error), 0);
    int count = rows(db);
    assert_true(count >= 2 * promised && count <= 2 * promised + 2);
    assert_int_equal(count % 2, 0);     /* a batch whole or not at all */
    db_close(db);
}

static void command(const char *format, const char *sql)
{
    char line[768];
    snprintf(line, sizeof line, format, path, sql);
    assert_int_equal(system(line), 0);
}

TEST_WITH(a_newer_file_is_refused, setup, teardown)
{
    struct db *db;
    assert_int_equal(db_open(uri, &db, error), 0);
    put(db, "k", "v");
    db_close(db);
    command("python3 -c 'import sqlite3,sys; sqlite3.connect(sys.argv[1]).execute(sys.argv[2])' %s '%s'",
            "PRAGMA user_version=999");
    assert_int_equal(db_open(uri, &db, error), -EPROTO);
    assert_non_null(strstr(error, "999"));
    command("python3 -c 'import sqlite3,sys; sqlite3.connect(sys.argv[1]).execute(sys.argv[2])' %s '%s'",
            "PRAGMA user_version=9");
    assert_int_equal(db_open(uri, &db, error), 0);
    assert_int_equal(rows(db), 1);
    db_close(db);
}

static int take_gpus(void *context, enum db_kind kind, const union db_row *row)
{
    (void)kind;
    *(uint32_t *)context = row->vm.gpus;
    return 0;
}

/* Of before servers knew of their set, before programs had GPUs of several nodes, before they were recovered, before it
   was kept which GPUs a node has, and who used what, before programs had several GPUs, before drains had reasons, and
   before nodes had secrets. */
TEST_WITH(an_older_file_is_brought_up_to_date, setup, teardown)
{
    struct db *db;
    struct db_change change = { .action = DB_PUT, .kind = DB_NODE, .row.node = { .name = "n1", .host = "h" } };
    struct db_change vm = { .action = DB_PUT, .kind = DB_VM, .row.vm = { .name = "vm", .sms = 4, .gpus = 3 } };
#define NO_SETS     "ALTER TABLE servers DROP COLUMN of_set; ALTER TABLE servers DROP COLUMN spread;"
#define NO_SPREAD   NO_SETS "ALTER TABLE vms DROP COLUMN spread;"
#define NO_RECOVERY NO_SPREAD "ALTER TABLE vms DROP COLUMN recovery;"
#define NO_GPUS     NO_RECOVERY "ALTER TABLE nodes DROP COLUMN gpus;"
#define NO_USAGE    NO_GPUS "DROP TABLE usage;"
#define ONE_GPU     NO_USAGE "ALTER TABLE vms DROP COLUMN gpus;"
#define NO_REASON   ONE_GPU "ALTER TABLE nodes DROP COLUMN drain_reason;"
#define NO_SECRETS  NO_REASON "ALTER TABLE nodes DROP COLUMN stored;"
    static const char *const older[] = {
        NO_SETS "PRAGMA user_version=8",   NO_SPREAD "PRAGMA user_version=7",
        NO_RECOVERY "PRAGMA user_version=6", NO_GPUS "PRAGMA user_version=5",
        NO_USAGE "PRAGMA user_version=4",  ONE_GPU "PRAGMA user_version=3",     NO_REASON "PRAGMA user_version=2",
        NO_SECRETS "PRAGMA user_version=1",
    };
    uint32_t gpus = 0;
    assert_int_equal(db_open(uri, &db, error), 0);
    put(db, "k", "v");
    assert_int_equal(db_apply(db, &change, 1, error), 0);
    assert_int_equal(db_apply(db, &vm, 1, error), 0);
    db_close(db);
    for (size_t i = 0; i < sizeof older / sizeof older[0]; i++) {
        command("python3 -c 'import sqlite3,sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])' %s '%s'",
                older[i]);
        assert_int_equal(db_open(uri, &db, error), 0);
        assert_int_equal(rows(db), 3);
        assert_int_equal(db_load(db, DB_VM, 0, take_gpus, &gpus, error), 0);
        assert_int_equal(gpus, i >= 5 ? 1 : 3); /* as it was then */
        change.row.node.has_stored = true;
        assert_int_equal(db_apply(db, &change, 1, error), 0);
        db_close(db);
    }
}

TEST_WITH(what_is_no_database_is_left_alone, setup, teardown)
{
    command("head -c 5000 /dev/zero | tr '\\0' 'x' > %s%s", "");
    struct db *db;
    assert_int_equal(db_open(uri, &db, error), -EBADMSG);
    assert_null(db);
    struct stat now;
    assert_int_equal(stat(path, &now), 0);
    assert_int_equal(now.st_size, 5000);
}

TEST_WITH(rows_that_others_spoilt_are_named, setup, teardown)
{
    struct db *db;
    assert_int_equal(db_open(uri, &db, error), 0);
    db_close(db);
    command(
        "python3 -c 'import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()' %s \"%s\"",
        "INSERT INTO vms VALUES('x','','',-5,1,0,1,0,NULL,1,'',0)");
    assert_int_equal(db_open(uri, &db, error), 0);
    int count = 0;
    assert_int_equal(db_load(db, DB_ALL, 1, count_row, &count, error), -EBADMSG);
    assert_non_null(strstr(error, "sms"));
    db_close(db);
}

TEST(bad_addresses)
{
    struct db *db;
    assert_int_equal(db_open("sqlite://relative.db", &db, error), -EINVAL);
    assert_int_equal(db_open("postgres://x:secret@y/", &db, error), -EINVAL);
    assert_null(strstr(error, "secret"));
    assert_int_equal(db_open("sqlite:///nowhere/at/all/flyt.db", &db, error), -ENOENT);
    assert_non_null(strstr(error, "folder"));
}

TEST(addresses_are_shown_without_passwords)
{
    char clean[128], made[256];
    assert_string_equal(db_uri_clean("mongodb://ann:p@ss/w@host:1/db?authSource=admin", clean, sizeof clean),
                        "mongodb://host:1/db");
    assert_string_equal(db_uri_clean("sqlite:///a/b", clean, sizeof clean), "sqlite:///a/b");
    assert_int_equal(db_uri_mongo("::1", 27017, "ann", "p@:/%", "", made, sizeof made, error), 0);
    assert_string_equal(made, "mongodb://ann:p%40%3A%2F%25@[::1]:27017/flyt");
    assert_int_equal(db_uri_mongo("h", 1, NULL, NULL, "x", made, sizeof made, error), 0);
    assert_string_equal(made, "mongodb://h:1/x");
    assert_int_equal(db_uri_mongo("hhhhhhhhhhhh", 1, NULL, NULL, "x", made, 16, error), -ENAMETOOLONG);
}

int main(void) { return unit_run(NULL, NULL); }
