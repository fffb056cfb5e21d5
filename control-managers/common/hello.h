/*
 * hello.h: the listener's side of the handshake: HELLO, PROVE, versions and proofs, the same in every daemon.
 *
 * A service puts hello_handle_hello, hello_handle_auth and hello_handle_prove at CTL_HELLO, CTL_AUTH and CTL_PROVE of
 * its methods (roles: all), and gives its connections a struct hello as part of what conn_context points to (found by
 * policy->of). When the peer has proved who it is, `accepted` is called, with the connection's role set.
 */
#ifndef FLYT_CONTROL_HELLO_H
#define FLYT_CONTROL_HELLO_H

#include "control-managers/common/loop.h"
#include "cpu/common/secret.h"

enum { HELLO_TRANSCRIPT_SIZE = 2 * CTL_NONCE_SIZE + 4 + CTL_MAX_NAME + 1 + SECRET_BINDING_SIZE };

struct hello {
    ctl_role role;
    char name[CTL_MAX_NAME + 1];
    char software[CTL_MAX_LABEL + 1];
    uint64_t incarnation;
    uint32_t minor; /* of its protocol */
    uint8_t transcript[HELLO_TRANSCRIPT_SIZE];
    size_t transcript_size;
    uint8_t stored[SECRET_STORED_SIZE];
    bool said, wants_proof, known, done;
    bool refused; /* for what it said; not because the listener is not ready yet */
};

enum hello_verdict {
    HELLO_TRUSTED, /* known by certificate, peer credentials or as configured: no proof */
    HELLO_PROVE,   /* *stored is filled */
    HELLO_NOT_YET, /* the listener waits for its database: it refuses with CTL_DB_AWAY, and text says so */
    HELLO_REFUSED  /* text says why, for the log and for the peer */
};

struct hello_policy {
    const char *software; /* our own */
    uint64_t incarnation;
    uint32_t minor; /* of the protocol; 0: the newest */
    /* The struct hello of this connection. */
    struct hello *(*of)(struct conn *);
    /* Who is it, and how has it to prove that? A name that does not exist is answered with HELLO_PROVE and random
       bytes, so that strangers learn no names. text: CTL_MAX_TEXT + 1 bytes. */
    enum hello_verdict (*identify)(struct conn *, const ctl_hello_args *, uint8_t stored[SECRET_STORED_SIZE],
                                   char *text);
    /* Authenticated; the answer is sent after this. Anything but CTL_OK refuses after all (text as above). */
    ctl_code (*accepted)(struct conn *, const struct hello *, char *text);
};

void hello_handle_hello(const struct hello_policy *, struct conn *, struct loop_call *, const ctl_hello_args *);
/* From callers of minor 2 and before, to whom this side proves nothing. */
void hello_handle_auth(const struct hello_policy *, struct conn *, struct loop_call *, const ctl_auth_args *);
void hello_handle_prove(const struct hello_policy *, struct conn *, struct loop_call *, const ctl_auth_args *);

#endif
