#include "control-managers/common/hello.h"

#include <openssl/rand.h>
#include <string.h>

#include "cpu/common/explain.h"
#include "cpu/common/log.h"

static uint32_t minor_of(const struct hello_policy *policy) { return policy->minor ? policy->minor : CTL_MINOR; }

/* Answers HELLO with a refusal, and ends the connection. */
static void refuse_hello(struct conn *conn, struct loop_call *call, const struct hello_policy *policy, ctl_code code,
                         char *text)
{
    ctl_hello_result result = { .status = { code, text }, .major = CTL_MAJOR, .minor = minor_of(policy),
                                .software = (char *)policy->software, .incarnation = policy->incarnation };
    call_reply(call, &result);
    policy->of(conn)->refused = code != CTL_DB_AWAY;
    conn_close(conn, text);
}

static ctl_code accept_peer(const struct hello_policy *policy, struct conn *conn, struct hello *hello, char *text)
{
    conn_set_role(conn, hello->role);
    hello->done = true;
    ctl_code code = policy->accepted(conn, hello, text);
    if (code != CTL_OK) {
        conn_set_role(conn, CTL_ROLE_NONE);
        hello->done = false;
    }
    return code;
}

/* Nothing of the arguments can be taken for granted but their lengths. */
static ctl_code check_hello(const ctl_hello_args *args, const struct hello *hello, char *text)
{
    if (hello->said)
        return explain(text, CTL_INVALID, "HELLO was sent already on this connection");
    if (!protocol_version_fits(args->role, args->major, args->minor))
        return explain(text, CTL_VERSION,
                       "this side speaks version %d.%d of the control protocol, the peer (%s) %u.%u: "
                       "install the same release on both",
                       CTL_MAJOR, CTL_MINOR, args->software, args->major, args->minor);
    if (args->role < CTL_ROLE_NODE || args->role > CTL_ROLE_SERVER)
        return explain(text, CTL_INVALID, "there is no role %d", (int)args->role);
    if (!protocol_name_valid(args->name))
        return explain(text, CTL_INVALID, "'%s' is no valid name: 1 to %d letters, digits, and . _ : -", args->name,
                       CTL_MAX_NAME);
    return CTL_OK;
}

void hello_handle_hello(const struct hello_policy *policy, struct conn *conn, struct loop_call *call,
                        const ctl_hello_args *args)
{
    struct hello *hello = policy->of(conn);
    char text[CTL_MAX_TEXT + 1] = "";
    ctl_hello_result result = { .major = CTL_MAJOR, .minor = minor_of(policy), .software = (char *)policy->software,
                                .incarnation = policy->incarnation };
    ctl_code code = check_hello(args, hello, text);
    if (code != CTL_OK) {
        refuse_hello(conn, call, policy, code, text);
        return;
    }
    hello->said = true;
    hello->role = args->role;
    hello->incarnation = args->incarnation;
    hello->minor = args->minor;
    snprintf(hello->name, sizeof hello->name, "%s", args->name);
    snprintf(hello->software, sizeof hello->software, "%s", args->software);
    if (RAND_bytes((uint8_t *)result.nonce, sizeof result.nonce) != 1) {
        snprintf(text, sizeof text, "there are no random numbers");
        refuse_hello(conn, call, policy, CTL_INTERNAL, text);
        return;
    }
    hello->transcript_size =
        secret_transcript((const uint8_t *)args->nonce, (const uint8_t *)result.nonce, (uint32_t)args->role, args->name,
                          hello->transcript, sizeof hello->transcript);
    switch (policy->identify(conn, args, hello->stored, text)) {
    case HELLO_NOT_YET:
        refuse_hello(conn, call, policy, CTL_DB_AWAY, text);
        return;
    case HELLO_REFUSED:
        refuse_hello(conn, call, policy, CTL_DENIED, text);
        return;
    case HELLO_PROVE:
        hello->wants_proof = true;
        result.proof = 1;
        break;
    case HELLO_TRUSTED:
        code = accept_peer(policy, conn, hello, text);
        if (code != CTL_OK) {
            refuse_hello(conn, call, policy, code, text);
            return;
        }
        break;
    }
    call_reply(call, &result);
}

/* The answer does not say whether the name or the secret is wrong. */
static ctl_code check_proof(const struct hello_policy *policy, struct conn *conn, const ctl_auth_args *args, char *text)
{
    struct hello *hello = policy->of(conn);
    ctl_code code;
    if (!hello->said || !hello->wants_proof || hello->done)
        code = explain(text, CTL_INVALID, "a proof was not asked for");
    else if (!secret_verify(hello->stored, hello->transcript, hello->transcript_size, (const uint8_t *)args->proof))
        code = explain(text, CTL_DENIED, "there is no %s '%s' with this secret", protocol_role_name(hello->role),
                       hello->name);
    else
        code = accept_peer(policy, conn, hello, text);
    hello->wants_proof = false;                 /* one try a connection */
    return code;
}

static void end_denied(const struct hello_policy *policy, struct conn *conn, const char *text)
{
    struct hello *hello = policy->of(conn);
    hello->refused = true;
    log_warning("event=denied peer=%s role=%s name=%s why=\"%s\"", conn_peer(conn), protocol_role_name(hello->role),
                hello->name, text);
    conn_close(conn, text);
}

void hello_handle_auth(const struct hello_policy *policy, struct conn *conn, struct loop_call *call,
                       const ctl_auth_args *args)
{
    char text[CTL_MAX_TEXT + 1] = "";
    ctl_plain_result result = { .status = { check_proof(policy, conn, args, text), text } };
    call_reply(call, &result);
    if (result.status.code != CTL_OK)
        end_denied(policy, conn, text);
}

void hello_handle_prove(const struct hello_policy *policy, struct conn *conn, struct loop_call *call,
                        const ctl_auth_args *args)
{
    struct hello *hello = policy->of(conn);
    uint8_t binding[SECRET_BINDING_SIZE];
    char text[CTL_MAX_TEXT + 1] = "";
    conn_binding(conn, binding);
    if (hello->wants_proof)
        hello->transcript_size =
            secret_bind(hello->transcript, hello->transcript_size, sizeof hello->transcript, binding);
    ctl_prove_result result = { .status = { check_proof(policy, conn, args, text), text } };
    if (result.status.code == CTL_OK)
        secret_answer(hello->stored, hello->transcript, hello->transcript_size, (uint8_t *)result.proof);
    call_reply(call, &result);
    if (result.status.code != CTL_OK)
        end_denied(policy, conn, text);
}
