/*
 * db.h: the resource DB: what has to outlive the cluster manager. Two implementations, SQLite and MongoDB.
 *
 * The implementations are plain blocking code, used by one thread at a time (db_worker.h gives them a thread of their
 * own, so that a slow or absent database holds up nobody). Each call is bounded in time: DB_CALL_SECONDS.
 *
 * The cluster manager keeps everything in memory and writes changes in batches, in order; a batch is applied whole
 * or not at all. On start it loads everything. A grant is given out only after the batch with its server was applied.
 *
 * Entitlements of existing installations live in MongoDB's collection vm_required_resources as
 *   { vm_ip, host_ip, compute_units, memory (MB) }
 * and may be changed there by others at any time, so DB_VM rows are loaded again now and then. A document without
 * `name` is the VM of the name that its vm_ip makes. Our further fields are optional there: name, sharing, grouping,
 * wait, stored, gpus, recovery. Everything else is in collections (tables) of its own: flyt_nodes, flyt_servers,
 * flyt_events, flyt_meta, flyt_usage. What is written must leave fields that we do not know untouched.
 *
 * Results: 0, or negative errno with *error (CONTROL_ERROR_SIZE bytes). With three of them the caller repeats the call:
 *   -EAGAIN       the database cannot be reached at present; nothing was applied
 *   -EBUSY        another manager uses it, and this one stands by; nothing was applied
 *   -EINPROGRESS  (apply only) the connection was lost while the batch was on its way: all of it may have been applied,
 *                 or may be applied later. The caller repeats the same batch until there is another result; batches are
 *                 idempotent
 * -ESTALE: another manager has taken the database over for good; this one is to end. No other result mends by itself.
 */
#ifndef FLYT_CONTROL_DB_H
#define FLYT_CONTROL_DB_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DB_CALL_SECONDS = 10,
    DB_NAME_SIZE = 65,
    DB_HOST_SIZE = 257,
    DB_TEXT_SIZE = 1025,
    DB_STORED_SIZE = 32,
    DB_VALUE_SIZE = 1025,
    DB_GPUS_SIZE = 16 * 65,
    DB_NODE_GPUS_SIZE = 64 * 65,
    DB_KEEP_MS = 1000
};

enum db_kind { DB_VM = 1, DB_NODE = 2, DB_SERVER = 4, DB_EVENT = 8, DB_META = 16, DB_USAGE = 32, DB_ALL = 63 };

/* An entitlement. Key: name. */
struct db_vm {
    char name[DB_NAME_SIZE];
    char address[DB_HOST_SIZE]; /* vm_ip; may be "" */
    char host[DB_HOST_SIZE];    /* host_ip; may be "" */
    uint32_t sms;               /* compute_units, of each GPU */
    uint64_t memory_mib;        /* memory, of each GPU */
    uint32_t sharing;           /* CTL_SHARING_ bits accepted; 0: as configured */
    bool grouping;              /* default true */
    uint8_t wait;               /* admin_wait */
    uint32_t gpus;              /* of each program; default 1 */
    bool spread;                /* on as many nodes as can be; default false */
    char recovery[DB_NAME_SIZE]; /* of its programs after a loss; "": off */
    bool has_stored;
    uint8_t stored[DB_STORED_SIZE]; /* verifier of its secret, see secret.h */
};

/* What an administrator decided about a node, and what is known of it while it is away. Key: name. */
struct db_node {
    char name[DB_NAME_SIZE];
    char host[DB_HOST_SIZE];
    bool drained;
    char drain_reason[DB_HOST_SIZE]; /* as the administrator gave it; "" none */
    int64_t last_heard;              /* microseconds since 1970 */
    bool has_stored;                 /* it has a secret of its own */
    uint8_t stored[DB_STORED_SIZE];  /* its verifier, see secret.h */
    char gpus[DB_NODE_GPUS_SIZE];    /* ids with commas between them: nobody else's while it is away */
};

/* A server and the allocation that it holds, from before it is ordered until it is known to have ended. Key: id. */
struct db_server {
    uint64_t id;
    char vm[DB_NAME_SIZE];
    char node[DB_NAME_SIZE];
    char gpus[DB_GPUS_SIZE]; /* ids with commas between them, in the order in which its programs see them */
    uint32_t sharing; /* one bit */
    uint32_t sms;     /* of each GPU, as memory */
    uint64_t memory;  /* bytes */
    uint64_t program; /* 0: of the whole VM */
    uint8_t state;    /* ctl_server_state */
    int64_t created;
    uint64_t set; /* its programs have all servers with this number, which is the first one's id; 0: only it */
    bool spread;  /* as its VM was entitled when it was placed */
};

/* Key: number, rising. */
struct db_event {
    uint64_t number;
    int64_t time;
    uint8_t severity; /* admin_severity */
    char kind[DB_NAME_SIZE];
    char vm[DB_NAME_SIZE];
    char node[DB_NAME_SIZE];
    uint64_t server, program;
    char text[DB_TEXT_SIZE];
};

/* Single values: the next id, the cluster's name. Key: key. */
struct db_meta {
    char key[DB_NAME_SIZE];
    char value[DB_VALUE_SIZE];
};

/* Who used what, and what was counted (cluster-manager/usage.h). Key: id. PROGRAM: a program on one server; DAY: the
   sum of programs that ended that day, of one VM, user and GPU; SERVER: its figures, as its process with this epoch had
   reported them; TOTAL: the sum of all servers of a VM, a node or a GPU, named in the field of that name. */
enum db_usage_kind { DB_USAGE_PROGRAM = 1, DB_USAGE_DAY = 2, DB_USAGE_SERVER = 3, DB_USAGE_TOTAL = 4 };
struct db_usage {
    uint64_t id;
    uint8_t kind; /* db_usage_kind */
    uint64_t program, server, epoch;
    char vm[DB_NAME_SIZE];
    char node[DB_NAME_SIZE];
    char gpu[DB_GPUS_SIZE]; /* or several, as in db_server */
    uint32_t uid;
    char executable[DB_HOST_SIZE];
    uint32_t sms;
    uint64_t memory;
    int64_t begun, ended; /* ended 0: it goes on */
    int64_t accrued;      /* sm_us counts until then */
    uint64_t sm_us;
    uint32_t programs;
    char why[DB_HOST_SIZE];
    char figures[DB_TEXT_SIZE]; /* numbers with blanks between */
};

union db_row {
    struct db_vm vm;
    struct db_node node;
    struct db_server server;
    struct db_event event;
    struct db_meta meta;
    struct db_usage usage;
};

enum db_action {
    DB_PUT,    /* insert, or replace the row with this key */
    DB_DELETE, /* the row with this key; no error when there is none */
    DB_INSERT, /* DB_VM only: -EEXIST (whole batch refused) when the name is taken */
    DB_TRIM    /* DB_EVENT only: delete all with a number <= this one */
};

struct db_change {
    enum db_action action;
    enum db_kind kind;
    union db_row row; /* for DELETE and TRIM only the key counts */
};

struct db;
typedef int db_visit(void *context, enum db_kind, const union db_row *); /* not 0: stop, and return that */

struct db_operations {
    const char *kind; /* "sqlite", "mongodb" */
    /* Whether `open` understands the URI: 0 or -EINVAL. */
    int (*check)(const char *uri, char *error);
    /* Opens and prepares what is missing (tables, indexes). -EAGAIN and -EBUSY are no reasons to give up: `*out` is
       valid then, and calls try again to connect. */
    int (*open)(const char *uri, struct db **out, char *error);
    void (*close)(struct db *);
    /* All rows of the kinds, in any order of kinds; of each by key. Events: the newest `events`, oldest first.
       After an error, what was visited is to be forgotten. */
    int (*load)(struct db *, unsigned kinds, unsigned events, db_visit *, void *context, char *error);
    int (*apply)(struct db *, const struct db_change *, size_t count, char *error);
    /* To be called every DB_KEEP_MS or so when nothing else is. It shows others that this manager lives, and this
       manager that the database does. */
    int (*keep)(struct db *, char *error);
};

/* An implementation's struct db begins with this. */
struct db {
    const struct db_operations *operations;
};

extern const struct db_operations db_sqlite; /* db_sqlite.c: sqlite:///path, sqlite::memory: (tests) */
extern const struct db_operations db_mongo;  /* db_mongo.c: mongodb://…, mongodb+srv://… */

/* Whether db_open would understand the URI: 0, or -EINVAL. Opens nothing. */
int db_check(const char *uri, char *error);
/* By the URI's scheme; -EINVAL when it is neither; -EAGAIN and -EBUSY as `open` says. The messages never show a
   password (db_uri_clean). */
int db_open(const char *uri, struct db **, char *error);
void db_close(struct db *); /* NULL is allowed */
static inline const char *db_kind_name(const struct db *db) { return db->operations->kind; }
static inline int db_load(struct db *db, unsigned kinds, unsigned events, db_visit *visit, void *context, char *error)
{
    return db->operations->load(db, kinds, events, visit, context, error);
}
static inline int db_keep(struct db *db, char *error) { return db->operations->keep(db, error); }
static inline int db_apply(struct db *db, const struct db_change *changes, size_t count, char *error)
{
    return db->operations->apply(db, changes, count, error);
}
/* Whether the same call is to be repeated (see the head). */
static inline bool db_mends(int code) { return code == -EAGAIN || code == -EBUSY || code == -EINPROGRESS; }
/* The URI without user, password and options, for messages. Returns buffer. */
const char *db_uri_clean(const char *uri, char *buffer, size_t size);
/* The URI that the keys of `vm-resource-db` make; user, password and dbname (flyt) may be "" or NULL.
   0 or -ENAMETOOLONG. */
int db_uri_mongo(const char *host, unsigned port, const char *user, const char *password, const char *dbname,
                 char *buffer, size_t size, char *error);

#endif
