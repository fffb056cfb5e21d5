#include "control-managers/common/link.h"

#include <errno.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/common/hello.h"
#include "control-managers/common/tls.h"
#include "cpu/common/explain.h"

enum { MAX_URIS = 8, RETRY_MIN_MS = 100, RETRY_MAX_MS = 3000, PROVE_MINOR = 3 };

struct link {
    struct loop        *loop;
    struct link_options options;
    char               *uris[MAX_URIS];
    char                name[CTL_MAX_NAME + 1], software[CTL_MAX_LABEL + 1], tls_name[128];
    struct secret       secret;
    size_t              uri_count, next_uri;
    struct tls_context *tls;
    struct conn_service service;        /* the user's methods, our closed */
    struct conn        *conn;
    bool                up, closing, ended;
    unsigned            failures;       /* in a row */
    ctl_hello_args      hello;
    uint8_t transcript[HELLO_TRANSCRIPT_SIZE];
    size_t transcript_size;
    ctl_hello_result    peer;           /* strings are in peer_software */
    char                peer_software[CTL_MAX_LABEL + 1];
    struct loop_timer   retry;
    int                 error;
    char                why[EXPLAIN_SIZE];
};

static void connect_now(struct loop_timer *, void *);

/* Full jitter between half and the whole of a delay that doubles, so that a thousand peers of a manager that
   comes back do not come all at once. */
static unsigned retry_delay(const struct link *link)
{
    uint32_t random = 0;
    unsigned delay = link->options.retry_min_ms;
    for (unsigned i = 1; i < link->failures && delay < link->options.retry_max_ms; i++)
        delay *= 2;
    if (delay > link->options.retry_max_ms)
        delay = link->options.retry_max_ms;
    RAND_bytes((uint8_t *)&random, sizeof random);
    return delay / 2 + random % (delay / 2 + 1);
}

/* The connection has gone, or did not come: informs the user, and plans the next. */
static void lost(struct link *link, int error, const char *why)
{
    bool was_up = link->up, news = was_up || strcmp(why, link->why) != 0;
    char reason[EXPLAIN_SIZE];
    snprintf(reason, sizeof reason, "%s", why);
    link->conn = NULL;
    link->up = false;
    link->error = error ? error : -ECONNRESET;
    snprintf(link->why, sizeof link->why, "%s", reason);
    if (link->closing)
        return;
    link->failures = was_up ? 1 : link->failures + 1;
    if (link->options.once)
        link->ended = true;
    else
        loop_timer_start(link->loop, &link->retry, retry_delay(link), connect_now, link);
    if (link->options.failed)
        link->options.failed(link, link->error, reason);
    if (link->options.down && (news || link->options.once))
        link->options.down(link, was_up, link->error, reason);
}

static void closed(struct conn *conn, int error, const char *why)
{
    struct link *link = conn_context(conn);
    char text[EXPLAIN_SIZE];
    if (link->conn != conn)
        return;
    if (!link->up) {
        bool tls = !link->tls && error != -EPROTOTYPE && *conn_peer_host(conn);
        snprintf(text, sizeof text, "%s ended the connection before it answered: %.600s%s", conn_peer(conn), why,
                 tls ? " (does it want TLS?)" : "");
        why = text;
    }
    lost(link, error, why);
}

/* Ends what did not come up: by lost(), once. */
static void give_up(struct link *link, int error, const char *why)
{
    struct conn *conn = link->conn;
    link->conn = NULL;
    if (conn)
        conn_close(conn, why);
    lost(link, error, why);
}

static void come_up(struct link *link)
{
    link->up = true;
    link->failures = 0;
    link->why[0] = '\0';
    if (link->options.up)
        link->options.up(link, link->conn, &link->peer);
}

static int refusal_error(ctl_code code)
{
    return code == CTL_VERSION    ? -EPROTONOSUPPORT
           : code == CTL_DB_AWAY  ? -EAGAIN
           : code == CTL_INTERNAL ? -EIO
                                  : -EACCES;
}

bool link_error_lasts(int error)
{
    return error == -EACCES || error == -EPROTONOSUPPORT || error == -EKEYREJECTED || error == -EKEYEXPIRED ||
           error == -EPROTOTYPE;
}

/* Without TLS only the listener's own proof shows that it is no impostor. A peer on a unix socket is known by its
   path. */
static bool listener_must_prove(const struct link *link)
{
    return link->options.secret && *conn_peer_host(link->conn) && !conn_encrypted(link->conn);
}

static void refused(struct link *link, const ctl_status *status)
{
    char text[EXPLAIN_SIZE + CTL_MAX_TEXT];
    snprintf(text, sizeof text, "%s refused us: %s", conn_peer(link->conn), status->text);
    give_up(link, refusal_error(status->code), text);
}

/* false: nothing more is to be done. */
static bool call_worked(struct link *link, int error, const char *why)
{
    if (link->conn && error && error != -ECONNRESET)
        give_up(link, error, why); /* else closed() informs */
    return link->conn && !error;
}

static void auth_done(void *context, int error, const char *why, void *object)
{
    struct link *link = context;
    const ctl_plain_result *result = object;
    if (!call_worked(link, error, why))
        return;
    if (result->status.code != CTL_OK)
        refused(link, &result->status);
    else
        come_up(link);
}

static void prove_done(void *context, int error, const char *why, void *object)
{
    struct link *link = context;
    const ctl_prove_result *result = object;
    char text[EXPLAIN_SIZE];
    if (!call_worked(link, error, why))
        return;
    if (result->status.code != CTL_OK) {
        refused(link, &result->status);
    } else if (!secret_answer_verify(&link->secret, link->transcript, link->transcript_size,
                                     (const uint8_t *)result->proof)) {
        snprintf(text, sizeof text,
                 "%s cannot be trusted: it does not know the secret of %s '%s', and says that it does",
                 conn_peer(link->conn), protocol_role_name(link->options.role), link->name);
        give_up(link, -EKEYREJECTED, text);
    } else {
        come_up(link);
    }
}

/* Proves that we know the secret, and asks the listener for the same. */
static int prove(struct link *link, const ctl_hello_result *hello, char *error)
{
    uint8_t binding[SECRET_BINDING_SIZE];
    ctl_auth_args auth = { { 0 } };
    bool mutual = hello->minor >= PROVE_MINOR;
    link->transcript_size =
        secret_transcript((const uint8_t *)link->hello.nonce, (const uint8_t *)hello->nonce,
                          (uint32_t)link->options.role, link->name, link->transcript, sizeof link->transcript);
    if (mutual) {
        conn_binding(link->conn, binding);
        link->transcript_size = secret_bind(link->transcript, link->transcript_size, sizeof link->transcript, binding);
    }
    secret_proof(&link->secret, link->transcript, link->transcript_size, (uint8_t *)auth.proof);
    return conn_call(link->conn, mutual ? CTL_PROVE : CTL_AUTH, &auth, CTL_CALL_SECONDS * 1000,
                     mutual ? prove_done : auth_done, link, error);
}

/* 0, or why this listener's answer to HELLO will not do. */
static int check_listener(const struct link *link, const ctl_hello_result *result, char text[EXPLAIN_SIZE])
{
    const char *peer = conn_peer(link->conn), *role = protocol_role_name(link->options.role);
    bool prove = listener_must_prove(link);
    if (!protocol_version_fits(link->options.role, result->major, result->minor))
        return explain(text, -EPROTONOSUPPORT,
                       "%s (%s) speaks version %u.%u of the control protocol, this side %d.%d: install "
                       "the same release on both",
                       peer, result->software, result->major, result->minor, CTL_MAJOR, CTL_MINOR);
    if (prove && !result->proof)
        return explain(text, -EKEYREJECTED,
                       "%s does not ask for the secret of %s '%s', and so does not show that it is the "
                       "cluster manager: use TLS, give the entitlement that secret, or configure none here",
                       peer, role, link->name);
    if (prove && result->minor < PROVE_MINOR)
        return explain(text, -EPROTONOSUPPORT,
                       "%s (%s) cannot prove that it is the cluster manager: install this release "
                       "there too, or use TLS",
                       peer, result->software);
    if (result->proof && !link->options.secret)
        return explain(text, -EACCES, "%s wants a secret of %s '%s', and none is configured", peer, role, link->name);
    return 0;
}

static void hello_done(void *context, int error, const char *why, void *object)
{
    struct link *link = context;
    const ctl_hello_result *result = object;
    char text[EXPLAIN_SIZE];
    if (!call_worked(link, error, why))
        return;
    if (result->status.code != CTL_OK) {
        refused(link, &result->status);
        return;
    }
    error = check_listener(link, result, text);
    if (error) {
        give_up(link, error, text);
        return;
    }
    link->peer = *result;
    snprintf(link->peer_software, sizeof link->peer_software, "%s", result->software);
    link->peer.software = link->peer_software;
    link->peer.status.text = (char *)"";
    if (!result->proof)
        come_up(link);
    else if ((error = prove(link, result, text)))
        give_up(link, error, text);
}

static void connected(struct conn *conn, int error, const char *why)
{
    struct link *link = conn_context(conn);
    char text[EXPLAIN_SIZE];
    if (error) {
        lost(link, error, why);
        return;
    }
    link->hello = (ctl_hello_args){ .major = CTL_MAJOR, .minor = link->options.minor ? link->options.minor : CTL_MINOR,
                                    .role = link->options.role,
                                    .name = link->name,
                                    .software = link->software, .incarnation = link->options.incarnation };
    RAND_bytes((uint8_t *)link->hello.nonce, sizeof link->hello.nonce);
    error = conn_call(conn, CTL_HELLO, &link->hello, CTL_CALL_SECONDS * 1000, hello_done, link, text);
    if (error)
        give_up(link, error, text);
}

static void connect_now(struct loop_timer *timer, void *context)
{
    struct link *link = context;
    char error[EXPLAIN_SIZE];
    (void)timer;
    const struct conn_options options = {
        .uri = link->uris[link->next_uri],
        .tls = link->tls,
        .tls_name = link->tls_name,
        .service = &link->service,
        .context = link,
        .connected = connected,
    };
    link->next_uri = (link->next_uri + 1) % link->uri_count;
    int failure = conn_connect(link->loop, &options, &link->conn, error);
    if (failure)
        lost(link, failure, error);
}

int link_open(struct loop *loop, const struct link_options *options, struct link **out, char *error)
{
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return explain(error, -ENOMEM, "no memory for a connection");
    link->loop = loop;
    link->options = *options;
    for (; options->uris[link->uri_count] && link->uri_count < MAX_URIS; link->uri_count++)
        link->uris[link->uri_count] = strdup(options->uris[link->uri_count]);
    snprintf(link->name, sizeof link->name, "%s", options->name);
    snprintf(link->software, sizeof link->software, "%s", options->software ? options->software : "");
    snprintf(link->tls_name, sizeof link->tls_name, "%s", options->tls_name ? options->tls_name : "cluster:*");
    if (options->secret)
        link->secret = *options->secret;
    if (!link->options.retry_min_ms)
        link->options.retry_min_ms = RETRY_MIN_MS;
    if (!link->options.retry_max_ms)
        link->options.retry_max_ms = RETRY_MAX_MS;
    if (!link->options.incarnation)
        RAND_bytes((uint8_t *)&link->options.incarnation, sizeof link->options.incarnation);
    if (options->service)
        link->service = *options->service;
    link->service.closed = closed;
    if (link->uri_count == 0 || !protocol_name_valid(link->name)) {
        link_close(link);
        return explain(error, -EINVAL, "connecting needs an address and a valid name, not '%s'", options->name);
    }
    link_set_tls(link, options->tls);
    loop_timer_start(loop, &link->retry, 0, connect_now, link);
    *out = link;
    return 0;
}

void link_close(struct link *link)
{
    if (!link)
        return;
    link->closing = true;
    loop_timer_stop(&link->retry);
    if (link->conn) {
        struct conn *conn = link->conn;
        link->conn = NULL;
        conn_set_service(conn, NULL);           /* it lives in what is freed here */
        conn_close(conn, "this side ends the connection");
    }
    tls_context_release(link->tls);
    for (size_t i = 0; i < link->uri_count; i++)
        free(link->uris[i]);
    secret_wipe(&link->secret);
    free(link);
}

struct conn *link_conn(const struct link *link)
{
    return link->up ? link->conn : NULL;
}

void *link_context(const struct link *link)
{
    return link->options.context;
}

void link_retry_now(struct link *link)
{
    if (!link->conn && !link->closing && !link->ended)
        loop_timer_start(link->loop, &link->retry, 0, connect_now, link);
}

void link_set_tls(struct link *link, struct tls_context *tls)
{
    struct tls_context *old = link->tls;
    link->tls = tls ? tls_context_reference(tls) : NULL;
    tls_context_release(old);
}

void link_set_secret(struct link *link, const struct secret *secret)
{
    link->secret = *secret;
}

int link_call(struct link *link, uint32_t procedure, const void *args, unsigned deadline_ms, conn_done *done,
              void *context, char *error)
{
    if (!link->up)
        return explain(error, -ENOTCONN, "not connected%s%s", *link->why ? ": " : "", link->why);
    return conn_call(link->conn, procedure, args, deadline_ms, done, context, error);
}

/* ---- waiting, for command line programs ---- */

static void set_flag(struct loop_timer *timer, void *context)
{
    (void)timer;
    *(bool *)context = true;
}

int link_wait_up(struct link *link, unsigned timeout_ms, char *error)
{
    struct loop_timer timer = { 0 };
    bool over = false;
    loop_timer_start(link->loop, &timer, timeout_ms, set_flag, &over);
    while (!link->up && !link->ended && !over)
        loop_run_once(link->loop);
    loop_timer_stop(&timer);
    if (link->up)
        return 0;
    return link->ended ? explain(error, link->error, "%s", link->why)
                       : explain(error, -ETIMEDOUT, "no answer from %s within %u ms", link->uris[0], timeout_ms);
}

struct waited { uint32_t procedure; void *result; bool over; int error; char *text; };

static void waited_done(void *context, int error, const char *why, void *result)
{
    struct waited *waited = context;
    const struct protocol_procedure *procedure = &protocol_procedures[waited->procedure];
    waited->over = true;
    waited->error = error;
    if (error) {
        explain(waited->text, error, "%s", why);
    } else {
        /* Taken over: what is left behind is empty. */
        memcpy(waited->result, result, procedure->result_size);
        memset(result, 0, procedure->result_size);
    }
}

int link_call_wait(struct link *link, uint32_t procedure, const void *args, unsigned deadline_ms, void *result,
                   char *error)
{
    struct waited waited = { .procedure = procedure, .result = result, .text = error };
    int failure = link_call(link, procedure, args, deadline_ms, waited_done, &waited, error);
    if (failure)
        return failure;
    while (!waited.over)
        loop_run_once(link->loop);
    return waited.error;
}
