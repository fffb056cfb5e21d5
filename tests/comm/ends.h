/* ends.h: two ends of a link in one process, and transfers that can be waited for. For tests. */
#ifndef FLYT_TESTS_COMM_ENDS_H
#define FLYT_TESTS_COMM_ENDS_H

#include "cpu/comm/link/link.h"

#include <pthread.h>

struct end {
    struct comm_engine *engine;
    struct comm_link   *link;
    pthread_mutex_t     lock;
    pthread_cond_t      changed;
    int                 lost;                   /* status of the callback; 0: not called */
    char                why[256];
};
struct ends { struct end a, b; };

/* Both ends with these settings, joined. The program ends with a message if that fails. */
void ends_open(struct ends *, const struct comm_settings *);
void ends_close(struct ends *);
/* Without UCX, where the settings want it, the program ends here: the test is skipped. */
void end_need(const struct comm_settings *);
/* One end by itself, with an engine; and joining it to handles of the other. */
void end_open(struct end *, const struct comm_settings *);
void end_close(struct end *);
/* Waits until the end's `lost` was called; its status. */
int  end_wait_lost(struct end *, unsigned ms);

/* A transfer with what is needed to wait for it. */
struct waited {
    struct comm_transfer t;
    pthread_mutex_t      lock;
    pthread_cond_t       changed;
    int                  done;
};
/* What comm_link_send or comm_link_receive gives. */
int waited_send(struct comm_link *, struct waited *, uint64_t space, uint64_t number, const void *, uint64_t size);
int waited_receive(struct comm_link *, struct waited *, uint64_t space, uint64_t number, void *, uint64_t size);
/* The sender may send less. */
int waited_receive_any(struct comm_link *, struct waited *, uint64_t space, uint64_t number, void *, uint64_t size);
/* The status; 1: it is not complete after so long. */
int waited_wait(struct waited *, unsigned ms);

#endif
