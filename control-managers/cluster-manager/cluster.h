/*
 * cluster.h: what flyt-cluster-manager knows, and who may change it.
 *
 *   vm       an entitlement (a row of the DB), the client manager that speaks for it, its servers and programs
 *   node     a machine with GPUs, the node manager that speaks for it, its servers
 *   server   an allocation on one GPU, or on several of one node, and the cricket-rpc-server that uses it. It exists
 *            from before it is ordered until it is known to have ended (or its node is lost), in memory and in the DB
 *            alike
 *   set      servers on several nodes, all or none, for programs whose GPUs are of several nodes. Such a program uses
 *            the first one; a *part* of it, which is a program of its own here, uses each of the others
 *   program  of a VM, waiting for a server or using one
 *
 * One thread. Everything is changed by handlers of calls, timers and answers of the DB. Each of them leaves the figures
 * balanced: what place.h has taken from a GPU is the sum over its servers. A server is ordered from its node only when
 * its row is durable, and a grant is given only for a server that its node reported running; so nothing runs that a
 * restarted manager would not know.
 *
 * The files form layers. A file calls only files of its own or a lower layer, and no two files call each other:
 *
 *   calls    session.c (refuses calls that a peer may not make), nodes.c, programs.c, unreached.c, own_view.c,
 *            gpu_links.c, admin*.c, changes.c, load.c (reads the DB), main.c
 *   rules    seek.c (a server for a program), retry.c (for those in the queue), moving.c and move_*.c (programs that
 *            move), idle.c, servers.c, resize.c (shares of running servers), health.c, keys.c, push.c
 *   model    state.c, queue.c, entitlement.c, place.c, place_gang.c, place_set.c, moves.c
 *   effects  what a handler leaves behind, to be carried out later: rows for the DB (store.c), messages for a peer
 *            (outbox.c), events (events.c), answers to calls that wait (waiting.c), news for followers (follow.c)
 *
 * Another look at the queue is an effect too: queue_retry only sets a timer, and main.c says what the timer does.
 */
#ifndef FLYT_CLUSTER_CLUSTER_H
#define FLYT_CLUSTER_CLUSTER_H

#include "control-managers/cluster-manager/counts.h"
#include "control-managers/cluster-manager/follow.h"
#include "control-managers/cluster-manager/incidents.h"
#include "control-managers/cluster-manager/place.h"
#include "control-managers/cluster-manager/schema.h"
#include "control-managers/common/db_worker.h"
#include "control-managers/common/hello.h"
#include "control-managers/common/loop.h"
#include "control-managers/common/map.h"
#include "cpu/common/ticket.h"

/* ---- outboxes: messages that are kept until the node or the client manager has acknowledged them ---- */

struct message {
    struct message *next;
    uint64_t number;
    int kind; /* node_order_kind, client_event_kind */
    uint64_t server, program, key;
    /* NODE_ORDER_BRIDGE, NODE_ORDER_DIAL, NODE_ORDER_LINK: the program's server now; server is the target. DIAL, LINK:
       text is its address. LINK: sms is how many connections */
    uint64_t source;
    uint32_t sms, grace_ms;
    uint64_t memory;
    /* CLIENT_EVENT_MOVE, _REST, _SAVE, _LIMITS: its number. Of the first, server is the target; a code other than
       CTL_OK calls it off */
    uint64_t move;
    ctl_log_wish log; /* NODE_ORDER_LOG */
    uint32_t patience_ms, within_ms;
    ctl_code code;
    char text[512];
};
struct outbox {
    struct message *first, **end;
    size_t count;
};

/* ---- the things ---- */

struct cluster_gpu {
    struct node *node;
    size_t slot; /* in cluster.pool */
    bool known;  /* reported by its node since this manager began */
    char id[CTL_MAX_NAME + 1], product[CTL_MAX_LABEL + 1], text[CTL_MAX_TEXT + 1];
    uint32_t index, sms, clock_mhz, offered, sm_limits;
    uint64_t memory;
    ctl_gpu_state state;
    /* health.c */
    unsigned failed_starts; /* in a row */
    bool degraded;
    uint64_t try_again;     /* degraded: loop_now from which on a program may try it */
    unsigned pause;         /* seconds, the last one */
    char degraded_why[512];
};

struct node {
    struct followed followed;
    struct db_node row;
    bool in_db;
    unsigned puts; /* how often the row was given to the DB */
    char addresses[CTL_MAX_ADDRESSES][CTL_MAX_HOST + 1];
    size_t address_count;
    char software[CTL_MAX_LABEL + 1];
    admin_node_state state;
    char machine[CTL_MAX_HOST + 1]; /* conn_peer_machine of its connection; "" before it was connected */
    bool registered, tls;           /* registered: by the present connection */
    bool has_key;                   /* the newest, as it has acknowledged */
    bool gangs;                     /* its node manager, as it was connected last, can give several GPUs to a server */
    uint64_t heard;                 /* loop_now */
    uint64_t incarnation;           /* of its node manager, as it registered last */
    struct cluster_gpu *gpus[CTL_MAX_GPUS];
    size_t gpu_count;
    struct server *servers;
    size_t server_count;
    struct cluster_session *session;
    struct outbox orders;
};

/* usage.h: what a server's programs have done. `all` also has what its earlier processes did; last: as this process
   reported it; saved: what the DB has of `all`. */
struct counted {
    uint64_t id, epoch;
    ctl_figures all, last, saved;
    uint64_t sm_us, saved_sm_us;
    uint64_t undivided;     /* SM-microseconds, fewer than rows share: they are charged the next time */
    int64_t accrued, heard; /* 0: never */
    bool dirty;
    bool unheard;           /* the DB says that it had figures, and its node has not reported since we began */
    bool behind;            /* the node, back again, still has to report which programs have left: nothing is charged */
    struct used *rows;      /* of programs that use it: usage_state.h */
    struct map by_program;  /* the same rows, by the program's id */
    /* Its node has said who was served, and what was charged since `divide_from` is to be divided again, after all is
       charged until `divide_until`, if that is later: usage_divide. */
    bool divides;
    int64_t divide_from, divide_until;
    struct server *divide_next; /* in usage.to_divide */
};

struct server {
    struct followed followed;
    struct server *node_next, **node_back, *vm_next, **vm_back;
    struct db_server row;
    struct vm *vm; /* NULL: its entitlement has gone */
    struct node *node;
    /* GPUs of its node, in the order in which its programs see them; row.sms and row.memory are of each. */
    struct cluster_gpu *gpus[CTL_MAX_SERVER_GPUS];
    char *gpu_names[CTL_MAX_SERVER_GPUS]; /* their ids */
    size_t gpu_count;
    struct program *programs; /* that use it or wait for it */
    size_t program_count;
    unsigned reserved, leaving; /* so many programs move here, and away: moving.h */
    unsigned awaited;           /* so many programs have it as a further server, and do not use it yet */
    struct server *twin;        /* servers_count_once; NULL: none */
    uint32_t twin_sms;          /* what of both is counted once */
    uint64_t twin_memory;
    bool durable, ordered, stopping, adopted;
    bool unused;            /* stopping, and nobody used it: it does not count for what its VM is entitled to */
    bool deserted;          /* its programs have moved away: no grace period when nobody uses it */
    bool late;              /* its programs know that the DB has not taken its row yet */
    bool never_ready;       /* its node could not start it */
    bool reported;          /* its node has said something of it since this manager began */
    ctl_server_state state; /* as reported; STARTING before */
    char addresses[CTL_MAX_ADDRESSES][CTL_MAX_URI + 1];
    size_t address_count;
    uint32_t granted_sms, workers, pid, restarts;
    uint64_t memory_limit, memory_used;
    ctl_code code; /* why it ended, or is being stopped */
    char text[CTL_MAX_TEXT + 1];
    struct loop_timer timer; /* start deadline, or grace */
    struct counted counted;
    struct cluster *cluster;
};

/* How much of something there was lately (rate_passes). */
struct rate {
    int64_t since;
    uint32_t used;
};

struct vm {
    struct followed followed;
    struct db_vm row;
    struct rate requests, told; /* its requests; events about it */
    struct rate recoveries;     /* what its programs say of their recovery */
    uint32_t untold;            /* events that were left out */
    struct cluster *cluster;
    uint64_t seen; /* vm_turn when its row was loaded last */
    uint64_t heard;
    int64_t last_heard;
    struct server *servers;
    size_t server_count;
    struct program *programs;
    size_t program_count, waiting;
    struct map by_key; /* programs by their client manager's key */
    struct cluster_session *session;
    char machine[CTL_MAX_HOST + 1]; /* conn_peer_machine of its client manager's last connection; "" none */
    bool named;                     /* its client manager is there and has said which programs run */
    bool came;                      /* it has, at least once since we began; set by vm_came */
    bool suspended;                 /* it is connected, and silent: a machine that is paused, for example */
    struct outbox events;
    struct loop_timer silence; /* since its client manager went */
    struct vm_values *values;  /* values.c; NULL: there were none */
};

enum { PROGRAM_TRIES = 3, PROGRAM_LEFT = 4, PROGRAM_MORE = CTL_MAX_SERVER_GPUS - 1 };
struct program {
    struct followed followed;
    struct program *vm_next, **vm_back, *server_next, **server_back, *queue_next, **queue_back;
    struct cluster *cluster;
    uint64_t id, key;
    struct vm *vm;
    struct server *server; /* NULL: in the queue, or lost */
    struct server *more[PROGRAM_MORE]; /* its servers on further nodes, until a part of it uses them; NULL: none now */
    size_t more_count;
    struct used *used;     /* what it has used there; NULL: nothing yet */
    uint64_t revoked;      /* the server that accepts no new connection of it any more; 0: none */
    const char *leaving;   /* while it is detached: "WORD: why", for its row of usage; NULL: it is not known */
    bool counted;          /* a row of usage counts it: others of it do not */
    bool killed;           /* an administrator has ended it; why: who */
    bool queued;           /* waits in cluster->queue */
    admin_program_state state;
    uint32_t pid, uid;
    char *executable;
    char *mode, *mode_why; /* ctl_transport; NULL: it has not said */
    ctl_recovery_state recovery;
    char recovery_why[256];
    bool shaken;           /* its server was lost, or it has asked for another one or a new ticket, at least once */
    uint32_t position;     /* in the queue, as counted last; 0: never */
    char why[256];         /* queued: what server_try said last; killed: by whom */
    uint32_t tries;        /* servers that failed to start, or that it did not reach */
    const void *avoid[PROGRAM_TRIES]; /* nodes, or GPUs of the only node, where that was; struct place_request */
    size_t avoid_count;
    bool lacks_room;       /* queued: not its VM's own servers stand in its way */
    bool expects_place;    /* idle servers give way to it */
    uint32_t overtaken;    /* queued: how often, while it was the first that lacked room */
    size_t kept[PLACE_MOST_GPUS]; /* GPUs that are kept for it: pool.gpus[kept], while the keeper there is this one */
    size_t kept_count;
    uint64_t left[PROGRAM_LEFT]; /* servers that it has moved away from, newest first: it may not come back to them */
    client_wait wait; /* as asked */
    uint32_t wait_ms;
    int64_t since;
    int64_t asked; /* when it asked for the server that it has or waits for; loop_time */
    int64_t move_begun, move_advised; /* loop_time, 0: never: policy.h */
    struct loop_timer patience;
    struct loop_timer end; /* killed: until its node ends it */
};

/* Who gave an administrator's command: the name that was given, and, where nothing proves it, what is known of the one
   who gave it: "ann", "ann (root)", "ann (from 10.0.0.7)". */
enum { WHO_SIZE = 2 * CTL_MAX_NAME + 64 };

/* What a connection is about; its conn_context. */
/* So long after the start nodes that are away are waited for. */
enum { SETTLE_MS = CTL_DEAD_SECONDS * 1000 };

/* The objects that an administrator's call names; "" and 0: it names none of that kind. */
struct call_target {
    char vm[CTL_MAX_HOST + 1], node[CTL_MAX_NAME + 1];
    char action[DB_HOST_SIZE]; /* what was to be done, where the procedure does not say it, and with which values */
    uint64_t server, program, move;
};

enum endpoint { ENDPOINT_NODE, ENDPOINT_CLIENT, ENDPOINT_LOCAL };
enum conn_way { CONN_PLAIN, CONN_TLS, CONN_UNIX, CONN_WAYS };
struct cluster_session {
    struct hello hello;
    char who[WHO_SIZE]; /* of an administrator */
    bool denied;        /* the call for which this connection ends is noted */
    bool counted;       /* in vms_connected, unencrypted: it is the session of its node or VM */
    bool joined;        /* in cluster->connections */
    int64_t certificate_ends; /* the newest one that it has, in seconds since 1970; 0: it has shown none */
    struct cluster *cluster;
    struct conn *conn;
    enum endpoint endpoint;
    bool shared_secret; /* a node that proves only that it knows the secret of all nodes */
    struct node *node;
    struct vm *vm;
    /* the one call that waits */
    struct loop_call *waiting;
    void (*answer)(struct cluster_session *); /* the waiting call, with what there is now */
    uint64_t after;                           /* ADMIN_EVENTS, ADMIN_PROGRAMS, ADMIN_FOLLOW */
    struct {
        bool waits; /* for programs_gathered */
        char vm[CTL_MAX_NAME + 1], node[CTL_MAX_NAME + 1];
        uint64_t known; /* ADMIN_FOLLOW */
    } listing; /* ADMIN_PROGRAMS */
    uint64_t renew_after;             /* loop_now before which no certificate is renewed: renew.c */
    struct loop_timer beat;
    struct cluster_session *next, **back;             /* all sessions */
    struct cluster_session *watch_next, **watch_back; /* those that wait for events */
};

struct old_key {
    uint8_t key[TICKET_KEY_SIZE];
    int64_t until;
};
/* refusal.c: what was refused lately, so that a peer which tries again every three seconds is one event. */
enum { REFUSALS_KEPT = 16, REFUSAL_TEXT_SIZE = 512 };
struct refusals {
    struct {
        char text[REFUSAL_TEXT_SIZE];
        uint64_t at;
    } kept[REFUSALS_KEPT]; /* at: loop_now; 0: free */
    size_t next;
    uint64_t minute; /* loop_now when it began */
    unsigned count;  /* events in it */
};

struct event_ring {
    struct db_event *events;
    size_t capacity, count, start;
    uint64_t next;
};

/* policy.c: a search for moves, which goes on in slices. */
struct policy_search {
    bool runs, tried; /* tried: for the first in the queue, and in vain */
    uint64_t first;   /* the program that waits for room; 0: loads are to be evened */
    size_t next;      /* of the GPUs, or of the programs, to be looked at */
    uint64_t spent_ns;
    bool found; /* so far, with so many bytes that move: */
    uint64_t bytes;
    size_t gpu;       /* where room is made */
    uint64_t program; /* that evens the loads */
    double gain;
};

/* retry.c: a look at the queue, which goes on in slices. */
enum { QUEUE_SHAPES = 16 };
struct queue_look {
    struct program *next; /* NULL: none goes on */
    bool runs, again;     /* again: something has become free since it began */
    uint32_t position;    /* of the last one that was looked at and that waits on */
    /* Requests that failed since it began: one that is at least as large, and no less choosy, fails too. */
    struct queue_shape {
        uint32_t sms, gpus;
        uint64_t memory;
        unsigned accepted;
    } failed[QUEUE_SHAPES];
    size_t failures;
};

struct cluster {
    struct loop *loop;
    struct config *config;
    const struct cluster_config *values;
    const char *config_path;
    struct db_worker *db;
    bool loaded, db_up, stopping, replaced; /* replaced: another manager has the DB */
    struct change *changes;                 /* changes.h */
    struct resize *resizes;                 /* resize.h */
    struct log_ask *logs;                   /* admin_log.c */
    struct link_offer *link_offers;         /* gpu_links.c */
    struct link_take *link_takes;
    struct moved_program *moves;                     /* moving.h; newest first */
    enum db_state db_state;                 /* as reported last; db_up: DB_UP was */
    char db_text[CTL_MAX_TEXT + 1], db_kind[16];
    char name[CTL_MAX_LABEL + 1];
    uint64_t incarnation, next_id, id_limit;
    int64_t started;
    uint64_t settled;                             /* loop_now: until then nodes that are away are waited for */
    size_t vms_connected, unencrypted;            /* sessions of VMs; of nodes and VMs, without TLS */
    uint32_t connections[COUNT_ROLES][CONN_WAYS]; /* by ctl_role and how they came */
    size_t next_look;                             /* node_tick goes on there: nodes, then VMs */
    size_t vms_awaited;                           /* have GPU servers, and have not said which programs run */
    uint64_t vms_digest;                          /* of the entitlements, as loaded last; 0: they are others now */
    uint64_t vm_changes, vm_turn;                 /* of entitlements, so many; so often were they loaded again */
    struct vm_reload *vm_reload;                  /* load.c; NULL: none is under way */
    struct ticket_signer *signer, *signer_before; /* keys.c */
    uint8_t ticket_key[TICKET_KEY_SIZE];
    struct old_key old_keys[TICKET_MAX_KEYS - 1]; /* newest first */
    size_t old_count;
    int64_t before_until;
    struct loop_timer retire_keys;
    struct secret node_secret, admin_secret;
    bool has_node_secret, has_admin_secret;
    struct tls_context *tls;
    struct authority *issuer; /* renews certificates; NULL: this cluster manager does not */
    struct loop_timer ages;   /* of certificates: renew.c */
    struct loop_listener *listeners[3];
    struct place_pool pool;
    struct map vms, vm_addresses, nodes, node_addresses, gpus, servers, programs;
    struct program *queue, **queue_end; /* waiting for a GPU, first come first */
    size_t queue_length;
    struct queue_look look;
    struct policy_search search;
    struct cluster_session *sessions, *watchers;
    struct event_ring events;
    struct usage *usage;
    struct follow follow;
    struct refusals refusals;
    admin_move_counts move_counts; /* under_way is not kept */
    struct counts counts;
    struct map incidents; /* incidents.h */
    struct loop_timer tick, reload_vms, retry_queue, ready_late, cut_off, policy;
    bool retrying, loading_vms;
};

/* ---- outbox.c ---- */
/* NULL: no memory. The number is a fresh id. */
struct message *outbox_add(struct cluster *, struct outbox *, int kind);
void outbox_acknowledge(struct outbox *, uint64_t number);
/* Messages of this kind about this server, which is gone. */
void outbox_forget(struct outbox *, int kind, uint64_t server);
/* The message of this number, if it has not been acknowledged. */
void outbox_take_back(struct outbox *, uint64_t number);
void outbox_clear(struct outbox *);
bool outbox_has(const struct outbox *, int kind);

/* ---- session.c: connections ---- */
extern const struct conn_service cluster_services[3]; /* by endpoint */

/* ---- waiting.c: calls that wait ---- */
/* Keeps the call until session_wake, or for so long; `answer` replies to it. A call that waits already is answered. */
void session_wait(struct cluster_session *, struct loop_call *, void (*answer)(struct cluster_session *), unsigned ms);
void session_watch(struct cluster_session *); /* every event wakes the call that waits */
/* Answers what waits, if anything, with what there is now. */
void session_wake(struct cluster_session *);
void session_forget_waiting(struct cluster_session *); /* the connection has ended */
/* Whether all VMs with a GPU server have said which programs run. Soon after a start some have not. */
static inline bool programs_gathered(const struct cluster *cluster) { return cluster->vms_awaited == 0; }
void programs_gather(struct cluster *); /* the last one has: wakes the listings that wait for it */
struct cluster_session *session_of(struct conn *);

/* ---- state.c: making and unmaking things ---- */
struct vm *vm_create(struct cluster *, const struct db_vm *);
void vm_rename_address(struct cluster *, struct vm *, const struct db_vm *row); /* takes the row over */
void vm_destroy(struct cluster *, struct vm *);
/* It has said which programs run. True: it is the last one of cluster->vms_awaited. */
bool vm_came(struct cluster *, struct vm *);
struct vm *vm_find(struct cluster *, const char *name_or_address);
struct node *node_create(struct cluster *, const char *name);
void node_destroy(struct cluster *, struct node *);
void node_set_schedulable(struct cluster *, struct node *);
bool gpu_may_be_tried(struct cluster *,
                      const struct cluster_gpu *); /* it is not degraded, or has been for long enough */
struct cluster_gpu *gpu_get(struct cluster *, struct node *, const char *id); /* makes it */
void node_expect_gpus(struct cluster *, struct node *); /* those that its row names are its own, though it is away */
void node_keep_gpus(struct node *);                     /* names in its row those that it has registered */
bool server_has_gpu(const struct server *, const struct cluster_gpu *);
/* It has several GPUs, and its node, which is connected, cannot be given the order to start it. */
#define SERVER_BEYOND_NODE "its node runs an earlier release now, which gives a program one GPU"
bool server_is_beyond_node(const struct server *);
struct server *server_create(struct cluster *, const struct db_server *); /* books it */
void server_destroy(struct cluster *, struct server *);                   /* gives back; programs are detached */
struct program *program_create(struct cluster *, struct vm *, const ctl_program *, uint64_t id);
void program_destroy(struct cluster *, struct program *);
void program_attach(struct program *, struct server *); /* NULL: detaches */
/* Detaches it. For the record of use: a word for programs that read it (docs/json/usage.schema.json), a sentence. */
void program_detach(struct program *, const char *word, const char *why);

/* ---- store.c: what is written to the DB ---- */
void store_put_server(struct cluster *, const struct server *, void (*done)(void *, int, const char *), void *context);
void store_delete_server(struct cluster *, uint64_t id);
void store_put_node(struct cluster *, struct node *);
void store_event(struct cluster *, const struct db_event *, uint64_t trim);
/* The queue of changes is not half full: what can wait is written. */
bool store_has_room(const struct cluster *);
/* All of them or none. false: too much waits already, it has to be tried again. */
bool store_usage(struct cluster *, const struct db_change *, size_t count);
void store_put_meta(struct cluster *, const char *key, const char *value);
/* Of a program that moves: "move-ID" and what load.c reads again. */
#define STORE_COUNTS_KEY "counts:"
#define STORE_INCIDENT_KEY "incident:"
#define STORE_MOVE_KEY "move-"
void store_put_counts(struct cluster *, const char *key, const char *value, void (*done)(void *, int, const char *),
                      void *context);
void store_delete_meta(struct cluster *, const char *key);
void store_put_move(struct cluster *, uint64_t id, const char *value, void (*done)(void *, int, const char *),
                    void *context);
void store_delete_move(struct cluster *, uint64_t id);
/* Before ids below cluster->id_limit run out; also when everything is loaded. */
void store_reserve_ids(struct cluster *);
uint64_t cluster_new_id(struct cluster *);
/* Whether the resource DB would not take a change now, as far as is known, and why not. */
bool store_db_away(const struct cluster *, char *text, size_t size);
/* Whether the resource DB is away, with a sentence for the administrator whose command needs it. text: CTL_MAX_TEXT + 1
   bytes. */
bool store_refuses(const struct cluster *, char *text);

/* ---- load.c: what is read from the DB ---- */
int load_start(struct cluster *, char *error);
void load_vms(struct cluster *); /* again */
void load_end(struct cluster *); /* no more */

/* ---- recovery.c ---- */
bool recovery_wish_valid(const char *);     /* as an entitlement has it */
extern conn_handler client_handle_recovery, client_handle_recovered;

/* ---- entitlement.c ---- */
/* Whether the entitlement says on which machine the VM is. Without a host, or with a loopback address, it is on the
   machine from which its client manager is connected. */
bool vm_names_machine(const struct db_vm *);
struct place_request server_request(struct cluster *, const struct program *);
struct place_request server_request_of(struct cluster *, const struct db_vm *); /* without an asker */
bool server_within_entitlement(const struct vm *, const struct place_request *);
/* Writes into text that the VM uses its whole entitlement. Returns the code that it was given. */
ctl_code entitlement_used(const struct vm *, ctl_code, char *text);

/* ---- servers.c ---- */
/* A new one on these GPUs: it is ordered from its node when its row is durable. shared: for all programs of its VM.
   NULL: no memory, or the DB refuses it. */
/* The programs of one server move to the other, on the same GPU, and whatever they have there is the same memory: what
   both may have counts once, until one of them is gone. */
void servers_count_once(struct cluster *, struct server *, struct server *);
/* Where servers of other nodes reach it, by TLS if it has that; NULL: nowhere. */
const char *server_network_address(const struct server *);
struct server *server_place(struct cluster *, struct program *, const struct place_gang *, bool shared);
/* A server on each node of the set, which the program has from now on: it is attached to the first one. CTL_OK, or why
   not, with nothing changed but servers that end. */
ctl_code servers_place_set(struct cluster *, struct program *, const struct place_set *, bool shared, char *text);
/* The program has this server and, if it is the first one of a set, the others. */
void program_takes(struct program *, struct server *);
/* After a restart, or when a client manager is back: the servers that a process uses by its parts are not there for
   further ones. */
void programs_know_parts(struct vm *);
/* All servers that it has, and that no part of it uses yet, serve. */
bool program_is_served(const struct program *);
/* It does not need its further servers any more. Those that nobody needs end. */
void program_leaves_set(struct cluster *, struct program *);
bool program_has_set(const struct program *); /* it has GPU servers on several nodes, or is a part of one that has */
/* Without the DB no server can be started: true if this program was not to wait, with text (CTL_MAX_TEXT + 1). */
bool program_lacks_db(struct cluster *, const struct program *, char *text);
void program_runs(struct cluster *, struct program *); /* it has its server, which serves */
bool server_is_idle(const struct server *);
/* Ends it; its programs receive the reason. */
void server_stop(struct cluster *, struct server *, ctl_code, const char *why);
/* It exists no more: programs are informed, tenant usage and DB follow. */
void server_gone(struct cluster *, struct server *, ctl_code, const char *why);
void server_update(struct cluster *, struct server *, const ctl_server_report *);
void server_check_idle(struct cluster *, struct server *);
/* The DB came or went: programs whose server has to be written there first hear about it. */
void servers_tell_db(struct cluster *);

/* ---- health.c ---- */
/* A server of its node became ready, or could not be started, on this GPU. Of one with several GPUs it is not known
   which of them is to blame: it counts for each. */
void health_start_worked(struct cluster *, struct cluster_gpu *);
void health_start_failed(struct cluster *, struct cluster_gpu *, const char *why);
void health_forgive(struct cluster *, struct node *, const char *why); /* its GPUs are degraded no more */
void health_tick(struct cluster *, struct node *);                     /* tries degraded ones again */

/* ---- seek.c ---- */
/* Finds or makes a server for the program (CTL_OK: it runs, CTL_WAITING: it starts); or puts the program into the queue
   (CTL_WAITING); or says why not. */
ctl_code server_seek(struct cluster *, struct program *, client_wait, unsigned wait_ms, char *text);
/* One try to find or make a server, without waiting. CTL_OK, CTL_WAITING: it has one; CTL_BUSY, CTL_NO_ROOM and others
   with a text (CTL_MAX_TEXT + 1): not now, not ever. */
ctl_code server_try(struct cluster *, struct program *, char *text);
/* Its server could not be started: it tries another place, if any of the cluster's could do. False: none could. */
bool program_try_elsewhere(struct cluster *, struct program *, const struct server *failed);
bool program_may_wait(const struct cluster *, const struct program *);
void program_limit_wait(struct cluster *, struct program *); /* in the queue again: no longer than it was to wait */
bool server_is_shared(const struct program *); /* its VM's server takes it in, without more room */
bool cluster_settling(struct cluster *);       /* soon after a start the nodes are not back yet */

/* ---- idle.c ---- */
/* This VM's idle servers end. */
void idle_own_give_way(const struct vm *, const char *why);
/* Idle servers end on one GPU, or on one node where the request wants several GPUs, as many as have to, so that it fits
   there. false: nothing of that kind helps. */
bool idle_give_way(struct cluster *, const struct place_request *);

/* ---- queue.c: programs that wait for a GPU ---- */
void program_enter_queue(struct cluster *, struct program *);
void program_leave_queue(struct cluster *, struct program *);
/* Something has become free or came: those in the queue are tried again, soon, by queue_try. */
void queue_retry(struct cluster *);
/* A new server takes room on these GPUs. */
void queue_overtaken(struct cluster *, const struct program *by, const struct place_gang *);
/* Keeps the GPUs that it wants for the first that lacks room, if it was overtaken often enough. */
void queue_keep_for_overtaken(struct cluster *);
/* NULL: nobody in the first part of the queue lacks room. */
struct program *queue_first_lacking_room(struct cluster *);
/* Nobody else is placed on this GPU until the program, which wants one, has its place, or waits no more. */
void queue_keep(struct cluster *, struct program *, size_t gpu);

/* ---- retry.c ---- */
void queue_try(struct loop_timer *, void *cluster); /* of cluster->retry_queue */

/* ---- push.c: what is sent to a peer without its having asked ---- */
/* Tickets that were given for it open no more connections. Those that are open stay. */
void program_revoke(struct cluster *, struct program *);
void program_send(struct cluster *, const struct program *, const struct message *); /* to its client manager */
uint64_t node_send_order(struct cluster *, struct node *, const struct message *); /* its number; 0: no memory */
void program_notify(struct cluster *, struct program *, client_event_kind, ctl_code, const char *text);
void program_refuse(struct cluster *, struct program *, ctl_code, const char *text); /* and destroys it */

/* ---- programs.c ---- */
struct answer_buffers {
    uint8_t ticket[TICKET_MAX_SIZE];
    ctl_uri addresses[CTL_MAX_ADDRESSES];
    char text[CTL_MAX_TEXT + 1];
};
struct vm *client_vm_of(struct conn *); /* whose client manager this is, and notes that it has spoken; NULL: of none */
/* Why it does not run; "" where it does. Gives text. */
char *program_waits_for(const struct program *, char text[CTL_MAX_TEXT + 1]);
void program_fill_answer(struct cluster *, struct program *, client_answer *, struct answer_buffers *);
void program_refusal(uint64_t key, uint64_t id, ctl_code, char *text, client_answer *);
/* Its refusal was answered; destroys it. */
void program_refused(struct cluster *, struct program *, ctl_code, const char *why);
/* Counts one. False: there were `burst` at once, and more than `per_second` since. */
bool rate_passes(struct rate *, uint32_t burst, uint32_t per_second);
void client_session_gone(struct cluster *, struct vm *);
void client_silence_begin(struct cluster *, struct vm *);
void client_look(struct cluster *, struct vm *); /* whether it is connected and silent */
extern conn_handler client_handle_register, client_handle_request, client_handle_ended, client_handle_renew,
    client_handle_events, client_handle_transport, client_handle_unreached, client_handle_moved, client_handle_group,
    client_handle_progress, client_handle_thawed, client_handle_status, client_handle_part;

/* ---- gpu_links.c: links between GPU servers ---- */
extern conn_handler client_handle_link_offer, client_handle_link_take;
/* A node reports the result of an order. False: no take of a link waits for this order. */
bool gpu_links_ordered(struct cluster *, const struct node *, const node_order_done *);
void gpu_links_forget(const struct cluster_session *); /* the client manager has gone */
void gpu_links_lose(struct cluster *, struct node *);  /* its connection has ended */
void gpu_links_end(struct cluster *);                  /* at the end: frees */

/* ---- values.c: what programs of one VM leave for each other; value_calls.c ---- */
extern conn_handler client_handle_value;
/* Answers the call, now or later. vm NULL: refused. */
void values_serve(const struct cluster_session *, struct vm *, const client_value_args *, struct loop_call *);
void values_forget(const struct cluster_session *); /* the client manager has gone */
void values_end(struct vm *);                       /* frees */

/* ---- nodes.c ---- */
void node_tick(struct cluster *);
void node_session_gone(struct cluster *, struct node *);
void node_lose(struct cluster *, struct node *, const char *why);
extern conn_handler node_handle_register, node_handle_orders, node_handle_report;

/* ---- keys.c ---- */
int keys_open(struct cluster *, char *error);
void keys_close(struct cluster *);
size_t keys_fill(const struct cluster *, uint8_t out[CTL_MAX_KEY]); /* all that nodes are to accept; the size */
void keys_taken(struct node *);                                     /* it has acknowledged orders */
struct ticket_signer *keys_signer(const struct cluster *, const struct node *);
ctl_code keys_rotate(struct cluster *, const char *by, char *text);

/* ---- admin*.c ---- */
/* Ends its programs and stops its servers; its client manager hears this code. */
void vm_end_all(struct cluster *, struct vm *, ctl_code, const char *why);
extern conn_handler admin_handle_status, admin_handle_nodes, admin_handle_node, admin_handle_servers,
    admin_handle_server_stop, admin_handle_vms, admin_handle_vm_add, admin_handle_vm_set, admin_handle_vm_remove,
    admin_handle_vm_export, admin_handle_programs, admin_handle_program_kill, admin_handle_change, admin_handle_resize,
    admin_handle_vm_now, admin_handle_migrate, admin_handle_move, admin_handle_moves, admin_handle_save,
    admin_handle_move_cancel,
    admin_handle_node_add, admin_handle_grouping, admin_handle_events, admin_handle_top, admin_handle_reload,
    admin_handle_key_rotate, admin_handle_node_export, admin_handle_node_import, admin_handle_log,
    admin_handle_whoami;
/* admin_log.c: pieces of logs that administrators wait for. */
void log_came(struct cluster *, const struct node *, const node_log *);
void logs_forget(struct cluster_session *);                       /* the asker has gone */
void logs_lose(struct cluster *, const struct node *);            /* its connection has ended */
void logs_end(struct cluster *);                                  /* at the end: frees */
/* An administrator's command was not carried out: an event, and a line of the audit trail. target: NULL: it is not
   known. */
void admin_note_refusal(const struct cluster_session *, const char *command, const struct call_target *target,
                        const char *why);
/* Fills in the objects that the call names. False: it names none. */
bool admin_target(uint32_t procedure, const void *args, struct call_target *);
void admin_call_begins(struct conn *, struct loop_call *, const void *args); /* notes it */
/* Verifiers of secrets, of all VMs for example, are about to be given away: an event. */
void admin_note_export(const struct cluster_session *, const char *of);
/* Notes the refusal in an answer that is about to be sent; nothing if the command was carried out, or may have been. */
void admin_note_answer(const struct loop_call *, ctl_code, const char *text);

/* ---- events.c ---- */
struct event_about {
    const char *vm, *node;
    uint64_t server, program;
    /* For the audit trail: the administrator who did it, by which procedure; what it was before, and is now. */
    const char *by, *command, *action, *before, *after;
    uint64_t move;
};
void cluster_event(struct cluster *, admin_severity, const char *kind, const struct event_about *, const char *format,
                   ...) __attribute__((format(printf, 5, 6)));
/* A peer was refused: an event, unless the same was one lately. hello: as far as it has said who it is; may be NULL. */
void refusal_note(struct cluster *, const struct conn *, const struct hello *, const char *why);

/* ---- renew.c: certificates of nodes and VMs, and how long those of this daemon hold ---- */
/* issuer.crt and issuer.key of the TLS folder. 0 with *out NULL: there are none. */
int renew_read_issuer(const struct cluster_config *, struct authority **out, char *error);
conn_handler renew_handle;
/* Looks now and every day. */
void renew_watch_ages(struct cluster *);

/* ---- main.c ---- */
/* Fills text with what came of it. CTL_INVALID: the file has mistakes, and the old configuration holds. */
ctl_code cluster_reload(struct cluster *, const char *by, char *text, size_t size);

#endif
