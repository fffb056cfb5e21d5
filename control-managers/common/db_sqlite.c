/*
 * db_sqlite.c: the resource DB in one file, by SQLite. The default: nothing has to be set up.
 *
 * Write-ahead log, synced at every commit: what was applied survives a power cut. A batch is one transaction. The
 * schema's version is PRAGMA user_version; `migrations` brings older files up to date, and a newer file is refused.
 * One manager at a time uses a file: a lock on FILE-lock says so, since two managers that do not know of each other
 * would both hand out the same GPU. The kernel drops that lock when its holder dies.
 *
 * Opening is tried again by every call while another manager has the file (-EBUSY), so `handle` may be NULL between
 * calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/common/db_fields.h"

struct sqlite_db {
    struct db     db;
    char         *path;
    sqlite3      *handle;               /* NULL: not open at present */
    int           lock;                 /* descriptor of the lock file, -1: none */
    bool          troubled;             /* the last batch was not taken */
    dev_t         device;               /* of the file that is open */
    ino_t         inode;
    sqlite3_stmt *put[DB_TABLES], *delete[DB_TABLES], *load[DB_TABLES], *insert_vm, *trim_events;
};

/* Never change one that was released: add another. */
static const char *const migrations[] = {
    "CREATE TABLE vms (name TEXT PRIMARY KEY NOT NULL, address TEXT NOT NULL, host TEXT NOT NULL, sms INTEGER NOT NULL,"
    " memory_mib INTEGER NOT NULL, sharing INTEGER NOT NULL, grouping INTEGER NOT NULL, wait INTEGER NOT NULL,"
    " stored BLOB) WITHOUT ROWID;"
    "CREATE TABLE nodes (name TEXT PRIMARY KEY NOT NULL, host TEXT NOT NULL, drained INTEGER NOT NULL,"
    " last_heard INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE servers (id INTEGER PRIMARY KEY NOT NULL, vm TEXT NOT NULL, node TEXT NOT NULL, gpu TEXT NOT NULL,"
    " sharing INTEGER NOT NULL, sms INTEGER NOT NULL, memory INTEGER NOT NULL, program INTEGER NOT NULL,"
    " state INTEGER NOT NULL, created INTEGER NOT NULL);"
    "CREATE TABLE events (number INTEGER PRIMARY KEY NOT NULL, time INTEGER NOT NULL, severity INTEGER NOT NULL,"
    " kind TEXT NOT NULL, vm TEXT NOT NULL, node TEXT NOT NULL, server INTEGER NOT NULL, program INTEGER NOT NULL,"
    " text TEXT NOT NULL);"
    "CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID;",
    "ALTER TABLE nodes ADD COLUMN stored BLOB",
    "ALTER TABLE nodes ADD COLUMN drain_reason TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE vms ADD COLUMN gpus INTEGER NOT NULL DEFAULT 1",
    "CREATE TABLE usage (id INTEGER PRIMARY KEY NOT NULL, kind INTEGER NOT NULL, program INTEGER NOT NULL, "
    "server INTEGER NOT NULL, epoch INTEGER NOT NULL, vm TEXT NOT NULL, node TEXT NOT NULL, gpu TEXT NOT "
    "NULL, uid INTEGER NOT NULL, executable TEXT NOT NULL, sms INTEGER NOT NULL, memory INTEGER NOT NULL, "
    "begun INTEGER NOT NULL, ended INTEGER NOT NULL, accrued INTEGER NOT NULL, sm_us INTEGER NOT NULL, "
    "programs INTEGER NOT NULL, why TEXT NOT NULL, figures TEXT NOT NULL)",
    "ALTER TABLE nodes ADD COLUMN gpus TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE vms ADD COLUMN recovery TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE vms ADD COLUMN spread INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE servers ADD COLUMN of_set INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE servers ADD COLUMN spread INTEGER NOT NULL DEFAULT 0",
};
enum { MIGRATIONS = sizeof migrations / sizeof migrations[0] };

/* Somebody may look into the file with other tools for a moment. Short, because one who waits for a change is informed
   in time. */
enum { BUSY_MS = 1500 };

/* ---- errors ---- */

static int error_code(int result)
{
    switch (result & 0xff) {
    case SQLITE_OK: case SQLITE_DONE: case SQLITE_ROW: return 0;
    case SQLITE_BUSY: case SQLITE_LOCKED:              return -EAGAIN;
    case SQLITE_FULL:                                  return -EAGAIN;      /* until somebody makes room */
    case SQLITE_NOMEM:                                 return -ENOMEM;
    case SQLITE_READONLY: case SQLITE_PERM: case SQLITE_AUTH: return -EACCES;
    case SQLITE_CANTOPEN:                              return -ENOENT;
    case SQLITE_CORRUPT: case SQLITE_NOTADB:           return -EBADMSG;
    case SQLITE_CONSTRAINT:                            return -EINVAL;
    default:                                           return -EIO;
    }
}

static int fail(struct sqlite_db *sqlite, const char *what, int result, char *error)
{
    int code = error_code(result);
    const char *advice = code == -EBADMSG ? "; restore it from a copy, or move it away to begin anew"
                         : code == -EACCES
                             ? "; the file and its folder must belong to the user that the cluster manager runs as"
                         : (result & 0xff) == SQLITE_FULL ? "; make room on its file system"
                                                          : "";
    return explain(error, code ? code : -EIO, "resource DB %s: %s: %s%s", sqlite->path, what,
                   sqlite->handle ? sqlite3_errmsg(sqlite->handle) : sqlite3_errstr(result), advice);
}

/* ---- opening ---- */

static void close_handle(struct sqlite_db *sqlite)
{
    for (int i = 0; i < DB_TABLES; i++) {
        sqlite3_finalize(sqlite->put[i]);
        sqlite3_finalize(sqlite->delete[i]);
        sqlite3_finalize(sqlite->load[i]);
        sqlite->put[i] = sqlite->delete[i] = sqlite->load[i] = NULL;
    }
    sqlite3_finalize(sqlite->insert_vm);
    sqlite3_finalize(sqlite->trim_events);
    sqlite->insert_vm = sqlite->trim_events = NULL;
    sqlite3_close(sqlite->handle);
    sqlite->handle = NULL;
    if (sqlite->lock >= 0)
        close(sqlite->lock);
    sqlite->lock = -1;
}

static bool in_memory(const struct sqlite_db *sqlite)
{
    return strcmp(sqlite->path, ":memory:") == 0;
}

/* For people: the lock itself is the kernel's. */
static void write_holder(int fd)
{
    char host[65] = "";
    gethostname(host, sizeof host - 1);
    if (ftruncate(fd, 0) == 0)
        dprintf(fd, "pid %d on %s\n", (int)getpid(), host);
}

static int take_lock(struct sqlite_db *sqlite, char *error)
{
    char *path = NULL;
    if (asprintf(&path, "%s-lock", sqlite->path) < 0)
        return explain(error, -ENOMEM, "resource DB %s: no memory", sqlite->path);
    int code = 0;
    sqlite->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (sqlite->lock < 0) {
        code = -errno;
        explain(error, code,
                "resource DB %s: cannot open %s: %s; its folder must exist and belong to the user that the cluster "
                "manager runs as",
                sqlite->path, path, strerror(-code));
    } else if (flock(sqlite->lock, LOCK_EX | LOCK_NB) < 0) {
        code = errno == EWOULDBLOCK ? -EBUSY : -errno;
        char holder[128] = "";
        ssize_t got = pread(sqlite->lock, holder, sizeof holder - 1, 0);
        holder[got > 0 ? strcspn(holder, "\n") : 0] = '\0';
        explain(
            error, code,
            "resource DB %s: another cluster manager uses it (%s; it holds the lock on %s): this one takes over when "
            "that one has ended",
            sqlite->path, *holder ? holder : "nobody knows which", path);
    } else {
        write_holder(sqlite->lock);
    }
    free(path);
    return code;
}

/* The file holds verifiers of secrets: nobody else may read it, whatever the umask. SQLite gives its log the same
   mode. */
static int create_file(struct sqlite_db *sqlite, char *error)
{
    int fd = open(sqlite->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return explain(error, -errno, "resource DB %s: cannot open it: %s", sqlite->path, strerror(errno));
    struct stat stat;
    int code = 0;
    if (fstat(fd, &stat) == 0) {
        sqlite->device = stat.st_dev;
        sqlite->inode = stat.st_ino;
        if (S_ISREG(stat.st_mode) && (stat.st_mode & 077))
            code = fchmod(fd, stat.st_mode & 0700) < 0 ? -errno : 0;
    }
    close(fd);                          /* nobody has locks on it yet, so none is lost by this */
    return code ? explain(error, code, "resource DB %s: others may read it, and chmod 600 failed: %s", sqlite->path,
                          strerror(-code))
                : 0;
}

static int execute(struct sqlite_db *sqlite, const char *sql, char *error)
{
    int result = sqlite3_exec(sqlite->handle, sql, NULL, NULL, NULL);
    return result == SQLITE_OK ? 0 : fail(sqlite, sql, result, error);
}

static int read_version(struct sqlite_db *sqlite, int *version, char *error)
{
    sqlite3_stmt *statement;
    int result = sqlite3_prepare_v2(sqlite->handle, "PRAGMA user_version", -1, &statement, NULL);
    if (result == SQLITE_OK && (result = sqlite3_step(statement)) == SQLITE_ROW)
        *version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return result == SQLITE_ROW ? 0 : fail(sqlite, "cannot read its version", result, error);
}

static int migrate(struct sqlite_db *sqlite, char *error)
{
    int version = 0;
    int code = execute(sqlite, "BEGIN IMMEDIATE", error);
    if (code == 0)
        code = read_version(sqlite, &version, error);
    if (code == 0 && version > MIGRATIONS)
        code =
            explain(error, -EPROTO,
                    "resource DB %s: a newer Flyt wrote it (version %d, this one knows %d); update this machine's Flyt",
                    sqlite->path, version, MIGRATIONS);
    for (; code == 0 && version < MIGRATIONS; version++)
        code = execute(sqlite, migrations[version], error);
    char pragma[64];
    snprintf(pragma, sizeof pragma, "PRAGMA user_version=%d; COMMIT", MIGRATIONS);
    if (code == 0)
        code = execute(sqlite, pragma, error);
    if (code && !sqlite3_get_autocommit(sqlite->handle))
        sqlite3_exec(sqlite->handle, "ROLLBACK", NULL, NULL, NULL);
    return code;
}

static int prepare(struct sqlite_db *sqlite, sqlite3_stmt **statement, const char *sql, char *error)
{
    int result = sqlite3_prepare_v3(sqlite->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
    return result == SQLITE_OK ? 0 : fail(sqlite, sql, result, error);
}

static int prepare_table(struct sqlite_db *sqlite, int index, char *error)
{
    const struct db_table *table = &db_tables[index];
    char columns[512] = "", marks[64] = "", sql[1024];
    for (size_t i = 0; i < table->count; i++) {
        size_t at = strlen(columns), mark = strlen(marks);
        snprintf(columns + at, sizeof columns - at, "%s%s", i ? "," : "", table->fields[i].name);
        snprintf(marks + mark, sizeof marks - mark, "%s?", i ? "," : "");
    }
    const char *key = table->fields[0].name;
    snprintf(sql, sizeof sql, "INSERT OR REPLACE INTO %s(%s) VALUES(%s)", table->name, columns, marks);
    int code = prepare(sqlite, &sqlite->put[index], sql, error);
    snprintf(sql, sizeof sql, "DELETE FROM %s WHERE %s=?", table->name, key);
    if (code == 0)
        code = prepare(sqlite, &sqlite->delete[index], sql, error);
    if (table->kind == DB_EVENT)
        snprintf(sql, sizeof sql, "SELECT * FROM (SELECT %s FROM %s ORDER BY %s DESC LIMIT ?) ORDER BY %s", columns,
                 table->name, key, key);
    else
        snprintf(sql, sizeof sql, "SELECT %s FROM %s ORDER BY %s", columns, table->name, key);
    if (code == 0)
        code = prepare(sqlite, &sqlite->load[index], sql, error);
    snprintf(sql, sizeof sql, "INSERT INTO %s(%s) VALUES(%s)", table->name, columns, marks);
    if (code == 0 && table->kind == DB_VM)
        code = prepare(sqlite, &sqlite->insert_vm, sql, error);
    snprintf(sql, sizeof sql, "DELETE FROM %s WHERE %s<=?", table->name, key);
    if (code == 0 && table->kind == DB_EVENT)
        code = prepare(sqlite, &sqlite->trim_events, sql, error);
    return code;
}

static int open_handle(struct sqlite_db *sqlite, char *error)
{
    int code = 0;
    if (!in_memory(sqlite)) {
        code = take_lock(sqlite, error);
        if (code == 0)
            code = create_file(sqlite, error);
    }
    if (code == 0) {
        int result = sqlite3_open_v2(sqlite->path, &sqlite->handle,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
        if (result != SQLITE_OK)
            code = fail(sqlite, "cannot open it", result, error);
    }
    if (code == 0) {
        sqlite3_busy_timeout(sqlite->handle, BUSY_MS);
        code = execute(sqlite, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL", error);
    }
    if (code == 0)
        code = migrate(sqlite, error);
    for (int i = 0; code == 0 && i < DB_TABLES; i++)
        code = prepare_table(sqlite, i, error);
    if (code)
        close_handle(sqlite);
    return code;
}

static int ready(struct sqlite_db *sqlite, char *error)
{
    return sqlite->handle ? 0 : open_handle(sqlite, error);
}

/* SQLite would go on writing into a file that was removed or replaced, and all that would be lost with this process. */
static int check_file(struct sqlite_db *sqlite, char *error)
{
    struct stat there;
    if (in_memory(sqlite))
        return 0;
    if (stat(sqlite->path, &there) < 0)
        return explain(error, -EAGAIN,
                       "resource DB %s: the file is not there any more (%s): put it back, or start the cluster "
                       "manager again to begin with what is there then",
                       sqlite->path, strerror(errno));
    if (there.st_dev != sqlite->device || there.st_ino != sqlite->inode)
        return explain(error, -EAGAIN,
                       "resource DB %s: another file has taken its place: start the cluster manager again to use "
                       "that one",
                       sqlite->path);
    return 0;
}

static void sqlite_close(struct db *db)
{
    struct sqlite_db *sqlite = (struct sqlite_db *)db;
    close_handle(sqlite);
    free(sqlite->path);
    free(sqlite);
}

static const char *path_of(const char *uri)
{
    return strncmp(uri, "sqlite://", 9) == 0 ? uri + 9 : uri + 7;
}

static int sqlite_check(const char *uri, char *error)
{
    const char *path = path_of(uri);
    if (*path == '/' || strcmp(path, ":memory:") == 0)
        return 0;
    return explain(
        error, -EINVAL,
        "resource DB '%s': after sqlite:// an absolute path is expected, as in sqlite:///var/lib/flyt/flyt.db", uri);
}

static int sqlite_open(const char *uri, struct db **out, char *error)
{
    *out = NULL;
    const char *path = path_of(uri);
    if (sqlite_check(uri, error))
        return -EINVAL;
    struct sqlite_db *sqlite = calloc(1, sizeof *sqlite);
    char *copy = strdup(path);
    if (!sqlite || !copy) {
        free(sqlite);
        free(copy);
        return explain(error, -ENOMEM, "resource DB '%s': no memory", uri);
    }
    sqlite->db.operations = &db_sqlite;
    sqlite->path = copy;
    sqlite->lock = -1;
    int code = ready(sqlite, error);
    if (code && !db_mends(code)) {
        sqlite_close(&sqlite->db);
        return code;
    }
    *out = &sqlite->db;
    return code;
}

/* ---- rows ---- */

static int bind_field(sqlite3_stmt *statement, int position, const struct db_field *field, const union db_row *row)
{
    switch (field->type) {
    case DB_FIELD_TEXT:
        return sqlite3_bind_text(statement, position, db_field_text(field, row), -1, SQLITE_STATIC);
    case DB_FIELD_BYTES:
        if (!*db_field_flag(field, row))
            return sqlite3_bind_null(statement, position);
        return sqlite3_bind_blob(statement, position, db_field_text(field, row), (int)field->size, SQLITE_STATIC);
    default:
        return sqlite3_bind_int64(statement, position, db_field_number(field, row));
    }
}

static bool read_field(sqlite3_stmt *statement, int column, const struct db_field *field, union db_row *row)
{
    switch (field->type) {
    case DB_FIELD_TEXT: {
        const char *text = (const char *)sqlite3_column_text(statement, column);
        return text && db_field_set_text(field, row, text, (size_t)sqlite3_column_bytes(statement, column));
    }
    case DB_FIELD_BYTES:
        if (sqlite3_column_type(statement, column) == SQLITE_NULL)
            return true;
        if ((size_t)sqlite3_column_bytes(statement, column) != field->size)
            return false;
        memcpy(db_field_text(field, row), sqlite3_column_blob(statement, column), field->size);
        *db_field_flag(field, row) = true;
        return true;
    default:
        return db_field_set_number(field, row, sqlite3_column_int64(statement, column));
    }
}

static int load_table(struct sqlite_db *sqlite, int index, unsigned events, db_visit *visit, void *context, char *error)
{
    const struct db_table *table = &db_tables[index];
    sqlite3_stmt *statement = sqlite->load[index];
    if (table->kind == DB_EVENT)
        sqlite3_bind_int64(statement, 1, events);
    int result, code = 0;
    while (code == 0 && (result = sqlite3_step(statement)) != SQLITE_DONE) {
        if (result != SQLITE_ROW) {
            code = fail(sqlite, "cannot read", result, error);
            break;
        }
        union db_row row;
        db_row_clear(table->kind, &row);
        for (size_t i = 0; code == 0 && i < table->count; i++)
            if (!read_field(statement, (int)i, &table->fields[i], &row))
                code = explain(error, -EBADMSG, "resource DB %s: a row of %s has no valid %s", sqlite->path,
                               table->name, table->fields[i].name);
        if (code == 0)
            code = visit(context, table->kind, &row);
    }
    sqlite3_reset(statement);
    return code;
}

static int sqlite_load(struct db *db, unsigned kinds, unsigned events, db_visit *visit, void *context, char *error)
{
    struct sqlite_db *sqlite = (struct sqlite_db *)db;
    int code = ready(sqlite, error);
    if (code)
        return code;
    /* One transaction: all tables as of one moment. */
    code = execute(sqlite, "BEGIN", error);
    for (int i = 0; code == 0 && i < DB_TABLES; i++)
        if (kinds & db_tables[i].kind)
            code = load_table(sqlite, i, events, visit, context, error);
    if (!sqlite3_get_autocommit(sqlite->handle))
        sqlite3_exec(sqlite->handle, "ROLLBACK", NULL, NULL, NULL);
    return code;
}

static int apply_change(struct sqlite_db *sqlite, const struct db_change *change, char *error)
{
    int index = db_table_index(change->kind);
    const struct db_table *table = &db_tables[index];
    sqlite3_stmt *statement = change->action == DB_PUT    ? sqlite->put[index] :
                              change->action == DB_INSERT ? sqlite->insert_vm :
                              change->action == DB_TRIM   ? sqlite->trim_events : sqlite->delete[index];
    size_t fields = change->action == DB_PUT || change->action == DB_INSERT ? table->count : 1;
    int result = SQLITE_OK;
    for (size_t i = 0; result == SQLITE_OK && i < fields; i++)
        result = bind_field(statement, (int)i + 1, &table->fields[i], &change->row);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    int code = 0;
    if (result != SQLITE_DONE) {
        if (change->action == DB_INSERT && result == SQLITE_CONSTRAINT)
            code = explain(error, -EEXIST, "there is a VM '%s' already", change->row.vm.name);
        else
            code = fail(sqlite, "cannot write", result, error);
    }
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return code;
}

static int sqlite_apply(struct db *db, const struct db_change *changes, size_t count, char *error)
{
    struct sqlite_db *sqlite = (struct sqlite_db *)db;
    int code = db_changes_check(changes, count, error);
    if (code == 0)
        code = ready(sqlite, error);
    if (code == 0)
        code = check_file(sqlite, error);
    if (code || count == 0)
        return code;
    code = execute(sqlite, "BEGIN IMMEDIATE", error);
    for (size_t i = 0; code == 0 && i < count; i++)
        code = apply_change(sqlite, &changes[i], error);
    if (code == 0)
        code = execute(sqlite, "COMMIT", error);
    if (code && !sqlite3_get_autocommit(sqlite->handle))
        sqlite3_exec(sqlite->handle, "ROLLBACK", NULL, NULL, NULL);
    sqlite->troubled = code && code != -EEXIST;
    return code;
}

/* Somebody's lock on the file shows only when it is tried for; what works needs no trying. */
static int sqlite_keep(struct db *db, char *error)
{
    struct sqlite_db *sqlite = (struct sqlite_db *)db;
    int code = ready(sqlite, error);
    if (code == 0)
        code = check_file(sqlite, error);
    if (code == 0 && sqlite->troubled) {
        code = execute(sqlite, "BEGIN IMMEDIATE", error);
        if (code == 0)
            code = execute(sqlite, "ROLLBACK", error);
        sqlite->troubled = code != 0;
    }
    return code;
}

const struct db_operations db_sqlite = {
    .kind = "sqlite",
    .check = sqlite_check,
    .open = sqlite_open,
    .close = sqlite_close,
    .load = sqlite_load,
    .apply = sqlite_apply,
    .keep = sqlite_keep,
};
