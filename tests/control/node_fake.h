/*
 * node_fake.h: a cluster manager in the test's own thread that does what the test says, for tests of the node manager
 * and the client manager; and the children of a test.
 */
#ifndef FLYT_TESTS_CONTROL_NODE_FAKE_H
#define FLYT_TESTS_CONTROL_NODE_FAKE_H

#include <sys/types.h>

#include "control-managers/common/hello.h"
#include "control-managers/common/loop.h"
#include "cpu/common/ticket.h"
#include "tests/lib/patience.h"
#include "tests/lib/unit.h"

enum { FAKE_REPORTS = 512, FAKE_ENDED = 64, FAKE_QUEUE = 16 };

struct fake {
    struct loop *loop;
    struct loop_listener *listener;
    struct ticket_signer *signer;
    char folder[64]; /* of this test, removed at the end */
    int port;
    uint64_t next_number, incarnation;
    uint32_t minor; /* of the protocol; 0: the newest */
    /* node manager */
    struct conn *node;
    struct loop_call *orders_call;
    node_order orders[FAKE_QUEUE];
    unsigned order_count;
    node_register_args node_args; /* of the last registration */
    int node_registrations;
    node_report_body reports[FAKE_REPORTS];
    int report_count;
    /* client manager */
    struct conn *client;
    struct loop_call *events_call;
    client_event events[FAKE_QUEUE];
    unsigned event_count;
    client_register_args client_args;
    int client_registrations, request_count, renew_count, ended_count, recovered_count;
    client_request_args request; /* the last */
    uint64_t ended[FAKE_ENDED];
    ctl_status answer; /* to requests; CTL_OK: a grant for `server` */
    bool silent;       /* gives none, and no new tickets */
    uint64_t part_key, part_lead; /* CLIENT_PART: the last one's program, and of which it is a part */
    int part_count;
    uint64_t server;
    /* CLIENT_LINK_OFFER and CLIENT_LINK_TAKE: the test answers them. Which program asked last. */
    struct loop_call *link_call; /* NULL: none waits; its caller may have gone */
    int link_asks;
    uint64_t link_key;
};
extern struct fake fake;

void fake_start(void);
void fake_stop(void);
void fake_disconnect(void); /* ends all connections; listening goes on */
void fake_deaf(int deaf);   /* 1: listens no more, at the same port again with 0 */
/* An order; pointers in it must live until it was sent. Returns its number. */
uint64_t fake_order(const node_order_body *);
void fake_event(const client_event_body *);
/* A grant for `server`, as reported running. Pointers live in static memory. */
void fake_grant(uint64_t program, ctl_grant *);
/* The newest report of the server, NULL: none. */
const ctl_server_report *fake_server(uint64_t id);
/* What the order came to; code -1: nothing yet. */
const ctl_status *fake_done(uint64_t number);
void fake_spec(ctl_server_spec *, uint64_t id);

/* Runs the loop until the condition holds; fails the test after ms of an idle machine. */
#define fake_until(condition, ms)                                           \
    do {                                                                    \
        uint64_t fake_end = loop_now(fake.loop) + patience((unsigned)(ms)); \
        while (!(condition)) {                                              \
            if (loop_now(fake.loop) > fake_end)                             \
                fail_msg("not within %d ms: %s", (int)(ms), #condition);    \
            fake_turn();                                                    \
        }                                                                   \
    } while (0)
void fake_turn(void); /* one round, 20 ms at most */

/* ---- children ---- */
/* Writes the file FOLDER/name. */
void fake_file(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Starts it, with log FOLDER/log.N; environment: NAME=value pairs, NULL-terminated; input, if not NULL, gets the
   writing end of its stdin. */
pid_t fake_spawn(char *const *arguments, char *const *environment, int *input);
/* Its exit status as of waitpid; runs the loop meanwhile. */
int fake_wait(pid_t, unsigned ms);
bool fake_running(pid_t);    /* also of no child */
const char *fake_log(pid_t); /* what it said so far */

extern const char *fake_bin; /* folder of the programs */

#endif
