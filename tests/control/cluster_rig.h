/*
 * cluster_rig.h: a real flyt-cluster-manager in a process of its own, with node managers, client managers and
 * administrators that are played by the test, all in one loop.
 */
#ifndef FLYT_TESTS_CONTROL_CLUSTER_RIG_H
#define FLYT_TESTS_CONTROL_CLUSTER_RIG_H

#include <sys/types.h>

#include "control-managers/common/link.h"
#include "control-managers/common/loop.h"
#include "cpu/common/ticket.h"
#include "tests/lib/patience.h"
#include "tests/lib/unit.h"

enum { RIG_GPUS = 8, RIG_SERVERS = 256, RIG_PROGRAMS = 512 };

struct rig {
    char folder[64], config[128], node_uri[128], client_uri[128], admin_uri[160];
    pid_t pid;
    struct loop *loop;
    struct link *admin;
    struct secret node_secret;
    bool patient; /* node managers wait before they connect again as the real ones do */
    struct rig_party {
        struct fake_node *node;
        struct fake_client *client;
    } * open; /* one or the other each */
    unsigned open_count, open_room;
};
extern struct rig rig;
extern const char *rig_address; /* where the manager listens; before rig_create */
extern double rig_ticket_seconds;
extern bool rig_software;              /* GPUs are software GPUs; before node_open */
extern const char *rig_security; /* further keys of that group */

void rig_create(const char *settings); /* further settings of the configuration; starts the manager */
void rig_start(void);                  /* (again, at the same addresses) */
void rig_signal(int number);           /* and waits until it has ended */
void rig_destroy(void);                /* closes what is open, and ends the manager */
/* A test that calls rig_create, and behind which rig_destroy is called, also where it fails. Nodes and clients that it
   leaves open are static, therefore. */
#define RIG_TEST(name) TEST_WITH(name, NULL, rig_after)
int rig_after(void **state);
void rig_run_ms(unsigned ms);
/* Runs the loop until the condition holds; fails the test after ms of an idle machine, saying `what`. */
#define rig_until(condition, ms)                                                                    \
    do {                                                                                            \
        uint64_t rig_limit = loop_now(rig.loop) + patience((unsigned)(ms));                         \
        while (!(condition)) {                                                                      \
            if (loop_now(rig.loop) > rig_limit)                                                     \
                fail_msg("%s:%d: not within %d ms: %s", __FILE__, __LINE__, (int)(ms), #condition); \
            rig_step();                                                                             \
        }                                                                                           \
    } while (0)
void rig_step(void);

/* ---- a node manager ---- */

struct fake_server {
    uint64_t id, memory;
    uint32_t sms;
    unsigned sharing, gpus; /* gpus: bits, by their numbers */
    ctl_server_state state;
    bool shared, same_host;
};
struct fake_node {
    char name[32], host[64];
    const char *gpus_of; /* its GPUs have the ids of this node's; NULL: of its own */
    struct link *link;
    unsigned gpu_count, gpu_sms, sharing;
    uint64_t gpu_memory;
    struct fake_server servers[RIG_SERVERS];
    int server_count;
    bool registered, mute; /* mute: connected, but says nothing */
    bool fail_starts, hold_starts, hold_stops;
    uint64_t acknowledged;
    int starts, stops, ups, overcommits, bad_orders;
    int ended;   /* programs that it was to end */
    int revoked; /* programs whose tickets are revoked */
    uint64_t revoked_last;
    int asked_served; /* orders that ask whether a program is served; the last one is about: */
    uint64_t asked_served_last;
    bool keeps;  /* programs that have ended are served until node_say_left */
    ctl_code refused;
    uint32_t minor;      /* of the protocol; 0: the newest */
    ctl_code resize;     /* what it makes of orders about shares; CTL_WAITING: it does not answer them */
    int resizes;
    uint64_t held_order; /* the order that it has not answered */
    /* Orders to connect two servers of it, or one of it to that of another node, and the last one; answered as
       `bridge`, like `resize`. */
    int bridges, dials;
    node_bridge bridged;
    char dialled[128]; /* where the other server listens; empty: on this node */
    ctl_code bridge;
    int links;        /* orders to connect a server of it for a link; answered as `bridge`. The last one: */
    node_link linked; /* its address: in `dialled` */
    ctl_code log; /* what it makes of orders about logs; CTL_WAITING: it does not answer them */
    int logs;
    ctl_log_wish log_wish; /* the last one */
    uint8_t ticket_key[TICKET_KEY_SIZE]; /* the newest */
    uint8_t keys[TICKET_MAX_KEYS][TICKET_KEY_SIZE];
    unsigned key_count, key_orders;
};
void node_open(struct fake_node *, const char *name, unsigned gpus, unsigned sms, uint64_t memory, unsigned sharing);
void node_close(struct fake_node *); /* the connection ends; what runs goes on */
void node_reopen(struct fake_node *);
void node_report(struct fake_node *, const struct fake_server *);
/* What came of an order. */
void node_answer(struct fake_node *, uint64_t number, ctl_code);
void node_report_share(struct fake_node *, const struct fake_server *);
void node_say_left(struct fake_node *, uint64_t server, uint64_t program, int64_t ended);
void node_say_log(struct fake_node *, uint64_t number, ctl_code); /* a piece of a log */
struct fake_server *node_server(struct fake_node *, uint64_t id);

/* ---- a client manager ---- */

struct fake_program {
    uint64_t key, id, server;
    ctl_code code; /* the newest answer */
    unsigned position, answers;
    bool running, lost, suspect, back, end_asked;
    char text[256], node[65], address[128];
    uint8_t ticket[CTL_MAX_TICKET];
    size_t ticket_size;
    uint32_t sms;
    uint64_t move, target; /* as ordered last */
    int move_orders, move_offs;
    int limits_told; /* CLIENT_EVENT_LIMITS; the last one: */
    client_limits limits;
    int rests; /* CLIENT_EVENT_REST, CLIENT_EVENT_SAVE; the last one: */
    ctl_rest_action rest;
    char file[256], base[256];
};
struct fake_client {
    char name[65];
    struct link *link;
    struct secret secret;
    struct fake_program programs[RIG_PROGRAMS];
    int program_count, ups, downs, error;
    uint64_t acknowledged;
    bool registered;
    uint32_t minor; /* of the protocol; 0: the newest */
    char why[256];
};
/* Adds the VM by the administrator, and connects. */
void client_create(struct fake_client *, const char *vm, unsigned sms, uint64_t memory, unsigned sharing, bool grouping,
                   const char *host);
void client_open(struct fake_client *);
/* Changes the entitlement: the members that `set` names. As admin_code. */
ctl_code vm_set(admin_vm, unsigned set);
void client_close(struct fake_client *);                            /* the connection ends; its programs go on */
struct fake_program *client_run(struct fake_client *, client_wait); /* asks for a server; does not wait for it */
struct fake_program *client_runs(struct fake_client *, client_wait); /* likewise, and soon has it */
void client_renew(struct fake_client *, struct fake_program *);     /* a new ticket; does not wait for it */
/* It does not reach its server, or cannot use any of that node. */
void client_unreached(struct fake_client *, struct fake_program *, bool never);
void client_end(struct fake_client *, struct fake_program *);
/* What it says about a move of the program. */
void client_moved(struct fake_client *, struct fake_program *, uint64_t move, ctl_move_stage, ctl_code);
/* Names a program that shares memory with this one, which moves; its key, 0: none. What the manager says to it. */
ctl_code client_meets(struct fake_client *, const struct fake_program *, uint64_t move, uint64_t other);
/* How far that move of the program is. */
void client_progress(struct fake_client *, struct fake_program *, const ctl_progress *);
/* The next event from *at on that has not been acknowledged, which it then is: the manager sends events again until
   they are. NULL: no more. */
const client_event *client_event_next(const client_events_result *, u_int *at, uint64_t *acknowledged);

/* ---- the administrator ---- */

/* The procedure's result, checked to have come; to be freed with protocol_free. */
void admin_call(uint32_t procedure, const void *args, void *result);
/* The code of a result that begins with a ctl_status, and of which nothing else is wanted; admin_text: what it says. */
ctl_code admin_code(uint32_t procedure, const void *args);
/* Calls ADMIN_MOVE or ADMIN_SAVE, and returns the code as admin_code does. *number: of the move, if that is CTL_OK. */
ctl_code admin_move(uint32_t procedure, const void *args, uint64_t *number);
extern char admin_text[CTL_MAX_TEXT + 1];
admin_status_result admin_status(void); /* numbers only */
admin_move_row move_row(uint64_t id); /* numbers only */
unsigned admin_count_events(const char *kind);
/* The books: for each GPU of each node the sum over its servers is what is booked, within what there is. Ends with a
   failed test where not. Returns the number of servers. */
unsigned admin_check_books(void);

#endif
