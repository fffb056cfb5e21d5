/*
 * link.h: the caller's side of a control connection: connects, says HELLO and PROVE, and connects again, with back-off
 * and jitter, whenever it ended. The listener's side is hello.h.
 */
#ifndef FLYT_CONTROL_LINK_H
#define FLYT_CONTROL_LINK_H

#include "control-managers/common/loop.h"
#include "cpu/common/secret.h"

struct link;

struct link_options {
    const char *const *uris; /* tried in turn; NULL-terminated */
    struct tls_context *tls;
    const char *tls_name; /* whom the listener's certificate must name; NULL: "cluster:*" */
    ctl_role role;
    const char *name;
    const char *software;                /* "flyt-node-manager 1.0" */
    uint64_t incarnation;                /* 0: one is made at random */
    uint32_t minor;                      /* of the protocol; 0: CTL_MINOR. Tests take the part of an earlier release */
    const struct secret *secret;         /* NULL: none is needed (unix socket, certificate) */
    unsigned retry_min_ms, retry_max_ms; /* 0: 100 and 3000 */
    bool once;                           /* no retries: down is called and that was it */
    const struct conn_service *service;  /* usually NULL: this side calls */
    void *context;
    /* Authenticated: register, start the waiting call. */
    void (*up)(struct link *, struct conn *, const ctl_hello_result *);
    /* It was up and has ended, or could not come up (was_up false, said once per reason). error as of conn_done,
       -EACCES when the peer refused, -EAGAIN when it did because it waits for its database, -EPROTONOSUPPORT when it
       speaks another version; see link_error_lasts. It goes on trying, unless `once`. */
    void (*down)(struct link *, bool was_up, int error, const char *why);
    /* May be NULL. Before `down`, and each time: also when the reason is the same as before. */
    void (*failed)(struct link *, int error, const char *why);
};

/* Will the next try fail too, unless somebody changes something? A wrong secret or certificate, another version, TLS
   on one side only. */
bool link_error_lasts(int error);

int link_open(struct loop *, const struct link_options *, struct link **, char *error); /* copies the options */
void link_close(struct link *);                                                         /* no callback comes any more */
struct conn *link_conn(const struct link *);                                            /* NULL while it is not up */
void *link_context(const struct link *);
void link_retry_now(struct link *);
void link_set_tls(struct link *, struct tls_context *);
void link_set_secret(struct link *, const struct secret *); /* for connections from now on; it had one before */

/* conn_call on what is up; -ENOTCONN while nothing is. */
int link_call(struct link *, uint32_t procedure, const void *args, unsigned deadline_ms, conn_done *, void *context,
              char *error);

/* For command line programs: runs the loop until it is up or the time is over. `once` links only. */
int link_wait_up(struct link *, unsigned timeout_ms, char *error);
/* Calls and runs the loop until the answer is there. *result (result_size of the procedure's) is to be freed with
   protocol_free. 0, or negative errno and *error. */
int link_call_wait(struct link *, uint32_t procedure, const void *args, unsigned deadline_ms, void *result,
                   char *error);

#endif
