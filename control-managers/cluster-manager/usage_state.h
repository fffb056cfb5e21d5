/*
 * usage_state.h: what usage.c and usage_rows.c keep, for admin_counters.c and admin_follow.c, which answer about it.
 *
 * A row of usage goes on while its program is attached to its server, and beyond that while a worker of the server
 * serves the program: its node says until when (NODE_REPORT_LEFT). Rows that go on are in the list of their server.
 * Those that a worker serves, or may serve, have equal parts of its SMs; where there are none, all have. What the node
 * says comes up to one report of figures late: then what was charged since is divided again, once for all that the node
 * says in one call (usage_divide), so that the work for a report does not grow with the server's rows.
 */
#ifndef FLYT_CLUSTER_USAGE_STATE_H
#define FLYT_CLUSTER_USAGE_STATE_H

#include "control-managers/cluster-manager/cluster.h"

/* Rows are summed by day before their time where a VM has more than USAGE_VM_ROWS, or where all have more than
   USAGE_MOST_ROWS and the VM has more than an equal part of these: so a VM that starts program after program loses rows
   of its own only. Where half of a VM's rows are sums of days, users are summed up too, as USAGE_SEVERAL. */
enum { USAGE_MOST_ROWS = 20000, USAGE_VM_ROWS = 2000, TOTAL_KEY_SIZE = CTL_MAX_NAME + 4 };
#define USAGE_SEVERAL UINT32_MAX
enum total_of { TOTAL_VM, TOTAL_NODE, TOTAL_GPU };
enum { TOTALS_OF_SERVER = 2 + CTL_MAX_SERVER_GPUS };

/* Of a VM, a node, a GPU: all that its servers ever did. `saved`: what the DB has of it. */
struct total {
    struct followed followed;
    enum total_of of;
    uint64_t id;
    char name[CTL_MAX_NAME + 1];
    ctl_figures all, saved;
    uint64_t sm_us, saved_sm_us;
    bool unsaved; /* the resource DB could not be given `saved` */
};

/* Notes of a row's SM-microseconds at earlier times, one each PAST_US, the oldest first: a node may report late when a
   worker began or ended. */
enum { PASTS = 16, PAST_US = 1500000 };
struct used_past {
    int64_t when;
    uint64_t sm_us;
};

/* A row of usage. */
struct used {
    struct followed followed; /* while it is served alone: usage.h */
    struct db_usage row;
    struct used_past past[PASTS];
    unsigned pasts; /* so many are noted */
    struct used *next, **back; /* of those that go on on its server; back NULL: it has ended */
    struct counted *on;        /* that server, while it goes on */
    struct used *later;        /* of those of its VM that have ended: the next one */
    struct used **earlier;     /* what points to it there; NULL: it is not among them */
    size_t at;                 /* in usage.rows */
    struct program *program;   /* that it goes on with; NULL: none */
    bool lingers;              /* the program has gone; its node has not said yet that no worker serves it */
    int64_t lingers_since;
    int64_t left;              /* no worker has served it since then; 0: one does, or may */
    int64_t idle, idle_until;  /* nor from the one to the other, before `left`, if the second is later */
    int64_t ends;              /* its row ends then, when its server is divided; 0: it goes on */
    double part;               /* while its server is divided: usage_share.c */
    int64_t gone;              /* lingers: its client manager was connected when the program ended; 0: it was not */
    int64_t attached;          /* since when this manager knows the program to be there */
    bool served;               /* a worker has served it at some time, or may have before this manager began */
    bool known_served;         /* its node has said that a worker serves it */
    bool asked;                /* its node was asked whether a worker serves it */
    bool unsaved;              /* the resource DB has not been given its newest state */
    bool stored;               /* the DB has a row of it */
    double rate;               /* its SMs when its server was lost with its node, which may say more; 0: it was not */
    /* did: its workers' figures since this manager learned of them; said: those in their last report. */
    ctl_figures did, said;
    uint64_t memory;           /* bytes of device memory that they hold */
    int64_t heard;             /* when they were reported last; 0: never */
    uint32_t fault;            /* a CUDA error that took a session of it along; 0: none is known */
};

/* The rows of a VM. */
struct used_vm {
    size_t count, days;         /* days: of them, so many are sums */
    struct used *first, **last; /* programs that have ended, the oldest first */
};

/* Wall time, and time since the machine began to run: where the first is set, the second goes on. */
struct usage_clock {
    int64_t now, boot; /* at the last look */
    int64_t off;       /* so far wall time was set, or is behind or ahead of what was written before this run */
    int64_t since;     /* time since the machine's start when that was so the last time */
    int64_t written;   /* the newest time in the DB */
};

struct usage {
    struct cluster *cluster; /* NULL: all is being loaded */
    struct usage_clock clock;
    struct map totals;
    struct map vms;     /* struct used_vm, by name */
    struct map days;    /* sums of days: usage_rows.c */
    struct map going_on; /* struct used, by program: the newest row of it that has not ended */
    struct map programs; /* by id: those of rows that an earlier run counted */
    uint64_t first_id;   /* of those that began in this run */
    struct used **rows; /* NULL where one is gone: gaps */
    size_t count, room, gaps;
    size_t next_server; /* to be saved */
    struct usage_turn {
        int part;             /* of usage.c's turn of saving */
        size_t looked, saved; /* in this part */
    } saving;
    size_t next_row;    /* to be looked at, whether it is to be summed */
    /* A reader takes the rows page by page, and must find each once: nothing is summed until it has all, or is late.
       A page belongs to one generation: sums and removals begin another. */
    uint32_t generation;
    uint64_t read_until; /* loop_now; 0: nobody reads */
    bool read_lately;    /* nothing was summed since somebody read */
    struct map lost;          /* rows with a rate, by server and program */
    struct server *to_divide; /* servers with counted.divides */
    size_t fresh; /* while save_fresh runs: the first of the newest rows, which the DB has not been given yet */
    struct loop_timer save, save_fresh, grow_old;
};

/* ---- usage_rows.c ---- */
void usage_load_row(struct cluster *, const struct db_usage *);
bool usage_save_row(struct cluster *, struct used *); /* false: the DB has too much to do */
/* Ends the rows of programs that have gone, and that no worker serves. */
void usage_end_left(struct cluster *, struct server *);
/* The server has no program any more that could go on there. */
void usage_end_rows(struct cluster *, struct server *, const char *why);
/* Its server is lost with its node, which may say when its program left: so many SMs until then. 0: it has said it. */
void usage_set_rate(struct usage *, struct used *, double rate);
void usage_grow_old(struct cluster *);
/* ---- usage_share.c ---- */
/* Notes what the row has been charged until then. */
void usage_note_past(struct used *, int64_t when, uint64_t sm_us);
/* The SM-microseconds that the row had at that time, between the two nearest notes. */
uint64_t usage_sm_us_at(const struct used *, int64_t when);
/* It has become known who was served since then: divides again what rows of the server were charged since. */
void usage_share_again(struct server *, int64_t from);
/* ---- usage.c ---- */
int64_t usage_now(struct usage *);        /* wall time; where it was set, those that go on are not charged for that */
bool usage_knows_the_day(struct usage *); /* false: wall time was set by more than a day, less than a day ago */
void usage_show_served(struct cluster *, struct used *); /* it may be served alone by now: followers learn of it */
void usage_save_soon(struct cluster *); /* the newest row is fresh */
/* More, or less, was used than the totals of these know. They do not fall. */
void usage_add_to_totals(struct cluster *, const struct db_usage *, uint64_t sm_us);
void usage_accrue_until(struct cluster *, struct server *, int64_t when); /* or somewhat less far: usage.c */
/* Divides the server, if that is to be done: usage_divide. */
void usage_divide_server(struct cluster *, struct server *);
void usage_ask(struct cluster *, struct server *); /* whether workers serve those of whom nothing is known */

#endif
