/*
 * values.c: programs of this VM leave values for each other (ctl_value_args in control_prot.x). The cluster manager
 * keeps them, and its answer is handed on. The programs of one user see each other's values, and nobody else's: the
 * user is a part of the key, as the kernel names it. A program needs no GPU for that. It asks for one value at a time.
 */
#include "control-managers/client-manager/manager.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "control-managers/common/link.h"
#include "cpu/common/explain.h"

enum { CALL_MS = CTL_VALUE_MS + CTL_CALL_SECONDS * 1000 };

/* A question; or that a program has ended: conn NULL. */
struct value_ask {
    struct conn *conn; /* NULL: it has ended */
    struct loop_call *call;
};

static char nothing[1];

static void refuse(struct loop_call *call, ctl_code code, char *text)
{
    const ctl_value_result result = { .status = { code, text } };
    call_reply(call, &result);
}

static void answered(void *context, int error, const char *why, void *object)
{
    struct value_ask *ask = context;
    char text[CTL_MAX_TEXT + 1];
    if (ask->conn) {
        ((struct manager_visitor *)conn_context(ask->conn))->value = NULL;
        if (error == 0) {
            call_reply(ask->call, object);
        } else {
            explain(text, 0, error == -ENOSYS ? "the cluster manager is of an earlier release, which keeps no values"
                                              : "the cluster manager does not answer: %.800s", why);
            refuse(ask->call, error == -ENOSYS ? CTL_NOT_SUPPORTED : CTL_LOST, text);
        }
    }
    free(ask);
}

static int ask_cluster(struct manager *manager, struct value_ask *ask, const client_value_args *args, char *text)
{
    const int status = link_call(manager->link, CLIENT_VALUE, args, CALL_MS, answered, ask, text);
    if (status < 0)
        free(ask);
    return status;
}

/* The key that the cluster manager knows, and who owns what the program sets. */
static ctl_code prepare(struct conn *conn, struct manager_visitor *visitor, const ctl_value_args *wish,
                        char key[CTL_VALUE_KEY + 1], char *text)
{
    const struct manager *manager = visitor->manager;
    pid_t pid;
    uid_t uid;
    gid_t gid;
    if (visitor->value)
        return explain(text, CTL_BUSY, "the program asks for another value already");
    if (wish->act < CTL_VALUE_SET || wish->act > CTL_VALUE_ADD || !*wish->key)
        return explain(text, CTL_INVALID, "a value is set, got or added to, and has a key");
    if (!conn_peer_credentials(conn, &pid, &uid, &gid))
        return explain(text, CTL_DENIED, "the kernel does not say which user you are");
    if (snprintf(key, CTL_VALUE_KEY + 1, "%u/%s", (unsigned)uid, wish->key) > CTL_VALUE_KEY)
        return explain(text, CTL_INVALID, "the key is too long");
    if (!manager->registered) {
        program_describe_away(manager, text);
        return CTL_LOST;
    }
    if (!manager->takes_values)
        return explain(text, CTL_NOT_SUPPORTED, "the cluster manager is of an earlier release, which keeps no values");
    if (!visitor->value_owner && getrandom(&visitor->value_owner, sizeof visitor->value_owner, 0) !=
                                     (ssize_t)sizeof visitor->value_owner)
        return explain(text, CTL_INTERNAL, "no random bytes");
    return CTL_OK;
}

void value_handle(struct conn *conn, struct loop_call *call, void *object)
{
    struct manager_visitor *visitor = conn_context(conn);
    char text[CTL_MAX_TEXT + 1] = "", key[CTL_VALUE_KEY + 1];
    client_value_args args = { .wish = *(const ctl_value_args *)object };
    const ctl_code code = prepare(conn, visitor, &args.wish, key, text);
    struct value_ask *ask = code == CTL_OK ? malloc(sizeof *ask) : NULL;
    if (!ask) {
        refuse(call, code == CTL_OK ? CTL_INTERNAL : code, code == CTL_OK ? nothing : text);
        return;
    }
    args.owner = visitor->value_owner;
    args.wish.key = key;
    *ask = (struct value_ask){ conn, call };
    visitor->value = ask;
    if (ask_cluster(visitor->manager, ask, &args, text) < 0) {
        visitor->value = NULL;
        refuse(call, CTL_LOST, text);
    }
}

void value_forget(struct manager_visitor *visitor)
{
    char text[CTL_MAX_TEXT + 1];
    const client_value_args args = { visitor->value_owner, { .act = CTL_VALUE_END, .key = nothing } };
    if (visitor->value)
        visitor->value->conn = NULL;
    /* Where the cluster manager cannot be asked it drops all of this VM's. */
    struct value_ask *ask = visitor->value_owner ? calloc(1, sizeof *ask) : NULL;
    if (ask)
        ask_cluster(visitor->manager, ask, &args, text);
}
