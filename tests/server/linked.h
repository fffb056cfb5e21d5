/* linked.h: the links of sessions, spoken by hand. The test is the client of both ends. */
#ifndef FLYT_TESTS_SERVER_LINKED_H
#define FLYT_TESTS_SERVER_LINKED_H

#include "tests/server/peer.h"

struct link_handles {
    flyt_link_handle of[FLYT_MAX_LINK_HANDLES];
    unsigned count;
};

/* The code of the call. */
int linked_listen(struct peer *, uint32_t link, struct link_handles *);

/* handles: what the other end has given. channels: how many there must be then; 0: any number. */
struct linked_end {
    struct peer *peer;
    uint32_t link;
    const char *server; /* the other end's */
    struct link_handles *handles;
    unsigned ms, channels;
    int code;
    char why[FLYT_MAX_SHORT];
};
void linked_join_end(struct linked_end *);
void *linked_join_thread(void *end); /* the same, for pthread_create */
/* Both ends at a time; their codes and reasons. */
void linked_join(struct linked_end ends[2]);
/* Executes this program once more with LD_LIBRARY_PATH set, so that the loader finds libflyt-tls.so: it reads that
   variable only when a process begins. */
void linked_prepare(char **argv);

#endif
