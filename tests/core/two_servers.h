/* two_servers.h: two real servers with the software GPU, between which a session moves. */
#ifndef TESTS_CORE_TWO_SERVERS_H
#define TESTS_CORE_TWO_SERVERS_H

#include <sys/types.h>

#include "tests/lib/unit.h"

extern pid_t servers[2];
extern char  server_uris[2][128];

/* kind: unix, tcp, or mixed: the second one over tcp, and no shared memory; bridge: unix, and two_servers_bridge
   connects the workers of each move, as a node manager does; direct: tcp, and it connects the old server to the new
   one. FLYT_SERVER names the first. Not 0: they do not start. */
int  two_servers_start(const char *kind, const char *program);
extern const char *servers_kind;             /* as they were started */
/* The first one has ended; another one is there in its place, and has its address. Not 0: it does not start. */
int  two_servers_again(void);
/* To all workers of the first one: that of the session, and those that wait for another. How many there are. */
unsigned two_servers_signal_workers(int number);
/* Before a move to that server. Nothing, unless the kind was bridge. */
void two_servers_bridge(int to);
void two_servers_end(void);

/* The main function of a test program: its tests, while the two servers run that its arguments name, KIND PROGRAM.
   more: its further arguments, for the message. */
static inline int two_servers_run(int argc, char **argv, const char *more)
{
    if (argc < 3 || two_servers_start(argv[1], argv[2])) {
        fprintf(stderr, "%s: cannot start the servers; usage: %s unix|tcp|mixed|bridge|direct SERVER%s\n", argv[0],
                argv[0], more);
        return 1;
    }
    const int failures = unit_run(NULL, NULL);
    two_servers_end();
    return failures;
}

#endif
