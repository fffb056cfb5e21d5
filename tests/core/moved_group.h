/*
 * moved_group.h: programs that share memory and events, each in a process of its own, and what a cluster does for them
 * when they move, or are suspended and resumed, together (core_move_together). Each exports memory and an event; the
 * next one in the ring imports them, or, in a star, all others import those of the first.
 */
#ifndef TESTS_CORE_MOVED_GROUP_H
#define TESTS_CORE_MOVED_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>

#include "tests/core/moved_program.h"

enum {
    GROUP_MOST = 4,
    GROUP_WORDS = 4096,
    GROUP_BYTES = GROUP_WORDS * 4,
    GROUP_ROUNDS = 64,                     /* of moves, suspensions and resumptions, from 1 on */
    GROUP_PATIENCE_S = 60,
    GROUP_NOBODY = -1
};

/* What the processes have in common. */
enum group_decision { GROUP_OPEN, GROUP_GO, GROUP_STAY };
struct group_common {
    atomic_int arrived[GROUP_ROUNDS + 1][CORE_MEETS_SEALED + 1], decided[GROUP_ROUNDS + 1];
    atomic_int met;                        /* how often somebody came to a barrier */
    atomic_int living;
    int count;
    bool star;
    int killed, refuses, where, round;     /* a program that does not get over that meeting in that round; NOBODY */
    bool after;                            /* it has come there before it is killed */
    int stranger;                          /* a program that does nothing with the others; NOBODY */
    int slow;                              /* a program that is late at MADE; NOBODY */
    atomic_int writes;                     /* by the others, into each other's memory */
    _Atomic uint64_t sessions[GROUP_MOST];
    CUipcMemHandle memory[GROUP_MOST], late[GROUP_MOST];
    CUipcEventHandle events[GROUP_MOST];
    int descriptors[GROUP_MOST], processes[GROUP_MOST];   /* of exported handles */
};
extern struct group_common *common;
extern char group_why[512];                /* the reason of the last one that failed, in this process */

struct member {
    int number, round, passed;
};

struct group_common *group_make(int count);
/* Each in a process of its own. All of them end well, but for one that is killed. */
void group_run(void (*program)(struct member *));
/* Waits for all that live. */
void group_barrier(struct member *);

/* All members call it. 0, or the core's code. */
int group_move(struct member *, int to);
int group_suspend(struct member *);
int group_resume(struct member *, int to);
int group_checkpoint(struct member *, const char *file);
/* What was decided in the member's last round. */
enum group_decision group_decided(const struct member *);
void group_expect_at(int server);

/* ---- what each program has ---- */

struct group_program {
    /* other: of `before`. Parts of GROUP_BYTES: the owner's, and one of each number */
    CUdeviceptr own, other, late;
    CUdeviceptr piece, other_piece;        /* by exported handles, the same */
    CUevent record, heard;
    CUstream stream;
    int before;                            /* NOBODY: it has nothing of another one */
};

void group_fill(struct group_program *, CUdeviceptr at, int number, int round);
void group_expect(struct group_program *, CUdeviceptr at, int number, int round);
void group_begin(struct member *, struct group_program *);
/* Each writes into its own memory and into that of the one before, and finds what the others have written. */
void group_use(struct member *, struct group_program *, int round);
/* What group_use of that round left, without writing anything. */
void group_look(struct member *, struct group_program *, int round);
/* Opens a handle of before that nobody has opened yet. */
void group_open_late(struct group_program *);

#endif
