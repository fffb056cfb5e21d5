/*
 * changes.h: changes of the resource DB that an administrator waits for.
 *
 * A change is checked, given to the DB, carried out in memory once it is durable, and answered then. So what is
 * answered as done is durable, and what is answered as failed was not done and will not be done later. Changes of one
 * VM or node follow each other: each is made of what the one before it left.
 *
 * The asker is answered in time even when the DB is silent (CTL_CALL_SECONDS is the deadline of callers). After
 * CHANGE_PATIENCE_MS the change is withdrawn, and the answer is CTL_DB_AWAY: nothing was changed. Where the DB may have
 * it already, nobody can withdraw it: the answer after CHANGE_ANSWER_MS is CTL_UNKNOWN, which says how to find out, and
 * the change is completed when the DB answers again.
 */
#ifndef FLYT_CLUSTER_CHANGES_H
#define FLYT_CLUSTER_CHANGES_H

#include "control-managers/cluster-manager/cluster.h"

enum { CHANGE_PATIENCE_MS = 2000, CHANGE_ANSWER_MS = 8500 };

struct change;

struct change_kind {
    const char *noun, *look; /* "VM"; "flytctl vm show", which shows what became of it */
    /* Checks the change against what is in memory now, and fills change->row. CTL_OK, or what is wrong, with text
       (CTL_MAX_TEXT + 1). With CTL_OK change->remark may be set. */
    ctl_code (*prepare)(struct cluster *, struct change *, char *text);
    void (*carry_out)(struct cluster *, struct change *);
    void (*reply)(struct change *, ctl_code, char *text);
};

struct change {
    /* the caller's */
    const struct change_kind *kind;
    char name[CTL_MAX_NAME + 1];
    struct db_vm wanted; /* of a VM: the members that `set` names */
    unsigned set;
    bool plain; /* of a VM: answered by ctl_plain_result */
    bool has_stored; /* of a node that is imported: */
    uint8_t stored[DB_STORED_SIZE];
    bool force, drain;
    bool running; /* of a VM: its running servers have been changed before */
    char reason[CTL_MAX_REASON + 1]; /* of a drain */
    /* prepare's */
    struct db_change row;
    unsigned puts;                     /* of a node: as counted then */
    char secret[SECRET_TEXT_SIZE + 1]; /* is part of the answer */
    char remark[CTL_MAX_TEXT + 1];
    /* changes.c's */
    struct change *next;
    struct cluster *cluster;
    struct cluster_session *session; /* NULL: the asker has gone */
    struct loop_call *call;       /* NULL: it was answered, or the asker has gone */
    char by[WHO_SIZE];
    bool given; /* to the DB */
    struct db_job *job;
    bool unknown; /* and was answered so */
    struct loop_timer timer;
};

/* Takes a copy of what the caller has filled in. The call is answered in any case. */
void change_submit(struct conn *, struct loop_call *, const struct change *);
/* One that changes this VM or node is under way, or waits for one that is. */
bool change_pending(const struct cluster *, const char *noun, const char *name);
/* The first after `after` (NULL: of all) that was given to the DB and is not answered by it. */
const struct change *change_given(const struct cluster *, const struct change *after);
/* Makes a secret, which becomes part of the answer, and its verifier. CTL_OK, or CTL_INTERNAL with text. */
ctl_code change_new_secret(struct change *, uint8_t stored[DB_STORED_SIZE], char *text);
/* The asker has gone: what can be withdrawn is. */
void changes_forget(struct cluster_session *);
/* Writes the settings of a node that an administrator can change, for the audit trail; "" for NULL. Returns out. */
const char *admin_node_describe(const struct db_node *, char out[DB_TEXT_SIZE]);

#endif
