/*
 * manager.h: what the files of flyt-client-manager share.
 *
 *   main.c      command line, configuration, signals
 *   programs.c  the programs of this VM: their states, what they are answered, their ends
 *   visitors.c  their connections over the unix socket, and what they ask
 *   find.c      the program of a connection, and the one of a key; why the cluster manager is away
 *   cluster.c   the connection to the cluster manager
 *   moves.c     programs that are to go on at another GPU server
 *   groups.c    those that share memory, and so move, rest and go on together
 *   gpu_links.c links between GPU servers, that programs ask for
 *   own_view.c  what a user of this VM sees of it
 *   shares.c    how many programs and connections a user may have; idle connections
 *   state.c     what lies on disk about the programs, so that a restarted client manager knows them again
 *
 * All of it runs in the loop's thread. A struct client_program is there from its PROGRAM_ATTACH until the cluster
 * manager has been informed of its end.
 *
 *   ASKING --granted--> RUNNING        a program that was refused, or lost its server, is
 *      \--refused--> REFUSED           kept until it ends: it may ask why
 */
#ifndef FLYT_CLIENT_MANAGER_MANAGER_H
#define FLYT_CLIENT_MANAGER_MANAGER_H

#include <limits.h>

#include "control-managers/client-manager/schema.h"
#include "control-managers/common/hello.h"
#include "control-managers/common/link.h"
#include "control-managers/common/loop.h"
#include "control-managers/common/process.h"
#include "control-managers/common/tls.h"
#include "cpu/checkpoint/checkpoint.h"
#include "cpu/common/log_limit.h"
#include "cpu/common/secret.h"

enum program_state { PROGRAM_ASKING, PROGRAM_RUNNING, PROGRAM_REFUSED };

struct manager;

/* Of a program that is to go on at another server: moves.c. */
enum client_move_state {
    MOVE_NONE,
    MOVE_OFFERED,   /* its library is nudged until it asks */
    MOVE_TAKEN,     /* it has asked */
    MOVE_COMMITTED, /* it was allowed to: it cannot be called off any more */
    MOVE_ENDED      /* the cluster manager is being informed how */
};
struct program_move {
    enum client_move_state state;
    uint64_t id;
    bool cancelled;
    bool ordered; /* the cluster manager has */
    bool resumed; /* its library came back in the middle of it: others of its group may have been denied before */
    unsigned arrived, passed; /* meetings of its group: ctl_meeting + 1 */
    u_int partner_count;
    uint64_t partners[CTL_MAX_PARTNERS];
    program_move_result order; /* deep copy: what the library is answered */
    program_save_result save;  /* the same, in its place: rest.action is not 0 then. Without a key */
    ctl_moved outcome;         /* ENDED; its text is `text` */
    char text[CTL_MAX_TEXT + 1];
    struct loop_timer nudge; /* or until a program of before we began is waited for no longer */
};

struct client_program {
    struct manager *manager;
    struct client_program *next;
    uint64_t key, id, server; /* server: CLIENT_SUSPENDED: its library keeps what it had on one */
    uint64_t unreached; /* the server that this program cannot use, as the cluster manager knows */
    uint64_t held;      /* ASKING for another one than this; 0: for its first */
    uint64_t lead;      /* it is a part of the program with this key (PROGRAM_PART); 0: of none */
    uint32_t part;
    struct process process;
    uint32_t pid, uid; /* pid 0: of a namespace that we do not see into */
    char executable[CTL_MAX_PATH + 1];
    client_wait wait;
    uint32_t wait_ms;
    enum program_state state;
    bool ended; /* it has gone, and the cluster manager must be informed */
    bool sent;  /* CLIENT_REQUEST is on its way, or was answered by this connection */
    bool news;  /* answer holds something that was not sent to the program */
    bool renew; /* it waits for a new ticket, and its answer holds none */
    bool removed; /* its VM was removed: where it is suspended, its session is to end */
    char mode[CTL_MAX_NAME + 1], why[CTL_MAX_TEXT + 1]; /* ctl_transport; "": it has not said */
    program_answer answer;                              /* deep copy */
    struct conn *conn;                                  /* NULL: of before a restart */
    struct loop_call *waiting;                               /* PROGRAM_ATTACH or PROGRAM_WAIT */
    struct loop_timer beat;                             /* of waiting */
    bool own_wait;                                      /* wait_ms is the program's own wish (FLYT_WAIT) */
    struct program_move move;
    client_limits limits;   /* of the move that they name */
    client_group group;     /* likewise */
    uint64_t wanted;        /* a group that the cluster manager was asked to add it to */
    uint64_t session;       /* its library's at a GPU server; 0: not known */
    uint64_t session_at;    /* that server: where it is, or was when it was suspended */
    struct loop_call *meets;     /* PROGRAM_MEET */
    struct loop_timer meet_beat; /* of meets */
    ctl_progress progress;  /* as its library has said last */
    bool reporting, behind; /* a report of it is on its way; there is something newer since */
    ctl_recovery recovery;  /* likewise; its text is recovery_why */
    char recovery_why[CTL_MAX_TEXT + 1];
    bool shaken;                     /* its server was once lost or suspected, or it asked for another one */
    uint64_t reports_since;          /* loop_now: this minute of PROGRAM_RECOVERED */
    unsigned reports;                /* in it */
    struct log_limit connected_lines, unreached_lines;
    struct loop_call *asks_recovery; /* PROGRAM_RECOVERY, while the cluster manager is asked */
    struct loop_call *asks_link;     /* PROGRAM_LINK_OFFER or PROGRAM_LINK_TAKE, likewise */
    uint64_t link_asks;              /* how many of them so far */
    bool linked;                     /* one of them was granted: it has links, as far as is known here */
    uint32_t minor;         /* of its library's protocol */
    struct loop_timer away; /* until we give up on a cluster manager that cannot be reached */
    struct loop_timer kill;
};

enum { GROUPS_KEPT = 16, GROUP_DECISIONS = 1024 };

struct manager {
    struct loop *loop;
    const struct manager_config *config;
    struct link *link;
    struct loop_listener *listener;
    struct tls_context *tls;
    struct secret secret;
    bool seals;                    /* checkpoints are encrypted, and this is the key: */
    uint8_t checkpoint_key[CHECKPOINT_KEY];
    char name[CTL_MAX_NAME + 1], host[CTL_MAX_HOST + 1];
    char where[CTL_MAX_HOST + 16]; /* the cluster manager: HOST:PORT */
    char why_away[512];            /* why the cluster manager is not there */
    bool lasts, not_ready;         /* that is: link_error_lasts; it waits for its DB */
    bool registered, telling_ends;
    /* the cluster manager is of a version that does */
    bool takes_transport, takes_unreached, takes_moves, takes_progress, takes_thawed, takes_status, takes_recovery,
        takes_links, takes_parts, takes_values, takes_groups;
    struct failed_group {
        uint64_t group;
        char text[CTL_MAX_TEXT + 1];
    } failed[GROUPS_KEPT];
    unsigned failed_last;
    uint64_t decided[GROUP_DECISIONS]; /* moves of groups that go, until the cluster manager knows */
    unsigned decided_count;
    uint64_t incarnation, next_key, acknowledged;
    struct client_program *programs;
    struct manager_visitor *visitors;
    unsigned places; /* how many visitors there may be */
    struct log_limit share_lines;
    struct loop_timer monitor;
};

struct view_ask;

/* conn_context of a program's connection. */
struct manager_visitor {
    struct manager_visitor *next, **back;
    struct hello hello;
    struct manager *manager;
    struct client_program *program;
    struct view_ask *view; /* own_view.c; NULL: none is under way */
    struct value_ask *value; /* values.c; likewise */
    uint64_t value_owner;    /* names it where it sets values; 0: it has asked for none */
    uid_t uid;               /* shares.c; (uid_t)-1: not known */
    bool crowded;            /* it is beyond its user's share, and will be refused */
    struct loop_timer idle;  /* from its greeting on, while it has no program */
};

/* visitors.c */
int programs_listen(struct manager *, char *error);

/* programs.c */
/* An answer of the cluster manager: kept, and handed on. */
void program_answered(struct client_program *, const client_answer *);
/* An answer that the client manager makes itself: kept, and handed on. */
void program_tell(struct client_program *, ctl_code, const char *text, unsigned position);
void program_ask(struct client_program *); /* (again), now that the cluster manager is there */
void programs_away(struct manager *); /* no cluster manager answers: informs the waiting programs */
void program_terminate(struct client_program *, const char *why);
void program_watch(struct client_program *); /* notices its end where no connection does */
void program_free(struct client_program *);
void programs_monitor(struct manager *);
/* The program's next answer. Answers the call that waits, if there is one. */
void program_set_answer(struct client_program *, const program_answer *);
/* The call waits for news, `ms` at most; one that waited before is answered. */
void program_hold_call(struct client_program *, struct loop_call *, unsigned ms);
void program_gone(struct client_program *); /* it has ended: the cluster manager will be informed */
/* Writes the text that a program's user reads while the cluster manager does not answer, or is away. */
void program_describe_asked(const struct manager *, char text[CTL_MAX_TEXT + 1]);

/* find.c */
struct client_program *program_find(struct manager *, uint64_t key);
void program_describe_away(const struct manager *, char text[CTL_MAX_TEXT + 1]);
struct manager *manager_of(struct conn *); /* a program's */
struct view_ask **program_view(struct conn *); /* own_view.c: what its connection asked for; NULL: nothing */

/* own_view.c */
conn_handler view_handle;
void view_forget(struct view_ask *); /* its connection has ended */

/* cluster.c */
/* Calls the cluster manager; done as conn_call has it. 0, or -ENOTCONN, -ENOSYS. */
int cluster_status(struct manager *, conn_done *, void *context);
int cluster_open(struct manager *, char *error);
/* 0, or -ENOTCONN. */
int cluster_request(struct client_program *);
int cluster_renew(struct client_program *);
/* It does not reach its server; never: nor any other one of that node. 0, or -ENOTCONN, -ENOSYS. */
int cluster_unreached(struct client_program *, uint64_t server, bool never, const char *why);
/* It is suspended, and nobody knew it. 0, or -ENOTCONN, -ENOSYS. */
int cluster_thawed(struct client_program *);
/* How the program reaches its GPU server, if it has said so and the cluster manager is there. */
void cluster_tell_transport(struct client_program *);
void cluster_tell_ends(struct manager *);

/* What a program did, or did not; said again until the cluster manager has answered. 0, or -ENOTCONN, -ENOSYS. */
int cluster_moved(struct client_program *, const ctl_moved *);
void cluster_progress(struct client_program *); /* how far its move is */

/* moves.c */
void move_take(struct manager *, const client_move *); /* an order of the cluster manager */
void move_take_save(struct manager *, const client_save *);
void move_take_limits(struct manager *, const client_limits *);
void move_vm_removed(struct client_program *); /* a suspended one cannot be resumed any more, and learns it */
conn_handler move_handle_asked, move_handle_rest, move_handle_save, move_handle_moved, move_handle_progress;
/* The program, which is of before we began, has come back; id: the move that it is carrying out, or 0. */
void move_resumed(struct client_program *, uint64_t id);

/* Its library has said that it has done what was ordered before we began. We learn what that was when the order comes
   once more (CLIENT_EVENT_SAVE), and the library keeps no connection until then where it is suspended. */
bool move_may_have_suspended(const struct client_program *);
void move_tell_again(struct client_program *);        /* the cluster manager is there again */
void move_told(struct client_program *, uint64_t id); /* it knows how the move ended */
void move_forget(struct client_program *);            /* the program has gone */
struct client_program *program_of(struct conn *);     /* find.c: NULL: it has not attached */
bool program_safe_addresses(const struct manager *, const ctl_grant *given, ctl_grant *grant,
                            ctl_uri uris[CTL_MAX_ADDRESSES]);

/* groups.c */
conn_handler group_handle_meet, group_handle_session;
void group_take(struct manager *, const client_group *);
void group_left(struct client_program *, const char *why); /* it does not move, or has ended */
bool group_open(const struct client_program *);            /* it is in one that has not decided */
void group_decision_note(struct manager *, uint64_t move);
void group_decision_forget(struct manager *, uint64_t move);
struct group_ask {
    struct manager *manager;
    uint64_t group;
};
/* Asks the cluster manager to move the programs of these keys, too (cluster.c). 0, or -ENOTCONN, -ENOSYS. */
int cluster_ask_group(struct client_program *, uint64_t group, uint64_t *keys, unsigned count, conn_done *,
                      void *context);

/* recovery.c */
conn_handler recovery_handle_asked, recovery_handle_told, recovery_handle_store;
void cluster_tell_recovery(struct client_program *); /* what its library has said of it, if anything */

/* gpu_links.c */
conn_handler link_handle_offer, link_handle_take;

/* values.c */
conn_handler value_handle;
void value_forget(struct manager_visitor *); /* its connection has ended */

/* shares.c */
unsigned share_places(void);         /* connections that the listener takes; raises the limit of descriptors */
void share_open(struct conn *);      /* it has its visitor, and is counted from now on; may close it */
void share_close(struct manager_visitor *);
void share_used(struct conn *);      /* it greets, or asks for something */
/* Whether its user has room for the connection; text: CTL_MAX_TEXT + 1 bytes, why not. */
ctl_code share_greets(const struct manager_visitor *, char *text);
/* Whether that user may have another program; text likewise. */
bool share_program(struct manager *, uid_t, char *text);

/* state.c */
bool state_save(struct manager *); /* false: it could not be written */
void state_load(struct manager *);

#endif
