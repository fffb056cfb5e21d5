/* common_peer.h: a listener and its peers in one loop, for the tests of the loop. */
#ifndef FLYT_TESTS_CONTROL_COMMON_PEER_H
#define FLYT_TESTS_CONTROL_COMMON_PEER_H

#include "control-managers/common/hello.h"
#include "control-managers/common/link.h"
#include "control-managers/common/loop.h"
#include "tests/lib/patience.h"
#include "tests/lib/unit.h"

/* What the listener does: HELLO and AUTH; ADMIN_STATUS answered at once; ADMIN_EVENTS kept until `release`. */
struct host {
    struct loop *loop;
    struct loop_listener *listener;
    struct secret secret;
    int opened, closed, accepted, last_error;
    char why[CONTROL_ERROR_SIZE];
    struct loop_call *kept[CONN_MAX_CALLS + 8];
    int kept_count;
    struct conn *last;
};
extern struct host host;

void host_start(const char *uri, struct tls_context *);
void host_start_both(const char *uri, struct tls_context *); /* peers without TLS as well */
void host_stop(void);
/* Runs the loop until *flag is at least `value`; fails the test after ms. */
void host_run_until(const int *flag, int value, unsigned ms);
void host_run_ms(unsigned ms);
/* A raw TCP (or unix) connection to the host, blocking; the caller closes it. */
int host_raw(void);

#endif
