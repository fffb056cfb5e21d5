/*
 * session.c: connections at all endpoints: who they are, and what they may call. The table of calls at its end is the
 * only thing that knows all handlers; nothing but main.c needs this file. See waiting.c for the one call that waits.
 *
 * Endpoints: node managers come to one port, client managers and remote administrators to another, local administrators
 * to a unix socket. A role is admitted at its own endpoint only.
 */
#include "control-managers/cluster-manager/resize.h"
#include "control-managers/cluster-manager/usage.h"

#include <errno.h>
#include <openssl/rand.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control-managers/common/daemon.h"
#include "control-managers/common/tls.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

/* ---- who is it ---- */

static struct hello *hello_of(struct conn *conn)
{
    return &session_of(conn)->hello;
}

static bool role_fits_endpoint(ctl_role role, enum endpoint endpoint)
{
    switch (endpoint) {
    case ENDPOINT_NODE:   return role == CTL_ROLE_NODE;
    case ENDPOINT_CLIENT: return role == CTL_ROLE_CLIENT || role == CTL_ROLE_ADMIN;
    case ENDPOINT_LOCAL:  return role == CTL_ROLE_ADMIN;
    }
    return false;
}

/* The certificate's name is ROLE:NAME. */
static bool certificate_names(struct conn *conn, ctl_role role, const char *name)
{
    char wanted[CTL_MAX_NAME + 32];
    const char *certificate = conn_peer_certificate(conn);
    snprintf(wanted, sizeof wanted, "%s:%s", protocol_role_name(role), name);
    return certificate && strcmp(certificate, wanted) == 0;
}

/* Whether the peer's certificate names it. It also says which role of administrators the peer has. */
static bool known_by_certificate(struct conn *conn, const ctl_hello_args *args)
{
    static const ctl_role roles[] = { CTL_ROLE_ADMIN, CTL_ROLE_OPERATOR, CTL_ROLE_VIEWER };
    if (args->role != CTL_ROLE_ADMIN)
        return certificate_names(conn, args->role, args->name);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (certificate_names(conn, roles[i], args->name)) {
            hello_of(conn)->role = roles[i];
            return true;
        }
    return false;
}

/* At the unix socket. Root and our own user are administrators, and members of the group what is configured. */
static bool known_locally(struct conn *conn, const struct cluster *cluster)
{
    static const ctl_role roles[] = { CTL_ROLE_ADMIN, CTL_ROLE_OPERATOR, CTL_ROLE_VIEWER };
    pid_t pid;
    uid_t uid;
    gid_t gid;
    if (!conn_peer_credentials(conn, &pid, &uid, &gid))
        return false;
    if (uid == 0 || uid == geteuid())
        return true;
    /* The socket's mode has kept others out. */
    hello_of(conn)->role = roles[cluster->values->socket_role];
    return *cluster->values->socket_group;
}

static enum hello_verdict by_secret(const struct secret *secret, bool there, uint8_t stored[SECRET_STORED_SIZE])
{
    if (there)
        secret_stored(secret, stored);
    else
        RAND_bytes(stored, SECRET_STORED_SIZE);
    return HELLO_PROVE;
}

/* By its own secret. One that was never given one may have the secret that all such nodes share. */
static enum hello_verdict identify_node(struct cluster_session *session, const char *name,
                                        uint8_t stored[SECRET_STORED_SIZE])
{
    struct cluster *cluster = session->cluster;
    const struct node *node = map_get(&cluster->nodes, name);
    if (node && node->row.has_stored) {
        memcpy(stored, node->row.stored, SECRET_STORED_SIZE);
        return HELLO_PROVE;
    }
    session->shared_secret = true;
    return by_secret(&cluster->node_secret, cluster->has_node_secret, stored);
}

static enum hello_verdict identify_vm(struct cluster *cluster, struct conn *conn, const char *name,
                                      uint8_t stored[SECRET_STORED_SIZE], char *text)
{
    struct vm *vm = vm_find(cluster, name);
    if (vm && vm->row.has_stored) {
        memcpy(stored, vm->row.stored, SECRET_STORED_SIZE);
        return HELLO_PROVE;
    }
    if (vm && cluster->values->address_identity && strcmp(vm->row.address, conn_peer_host(conn)) == 0)
        return HELLO_TRUSTED;
    if (vm && cluster->values->address_identity) {
        snprintf(text, CTL_MAX_TEXT, "VM '%s' has no secret and is known by its address %s, but this is %s", name,
                 vm->row.address, conn_peer_host(conn));
        return HELLO_REFUSED;
    }
    RAND_bytes(stored, SECRET_STORED_SIZE);     /* no such VM, or one without a secret: nothing proves it */
    return HELLO_PROVE;
}

static enum hello_verdict identify(struct conn *conn, const ctl_hello_args *args, uint8_t stored[SECRET_STORED_SIZE],
                                   char *text)
{
    struct cluster_session *session = session_of(conn);
    struct cluster *cluster = session->cluster;
    if (!role_fits_endpoint(args->role, session->endpoint)) {
        snprintf(text, CTL_MAX_TEXT,
                 "a %s is not served here: node managers use ports.node, client managers and flytctl "
                 "ports.client",
                 protocol_role_name(args->role));
        return HELLO_REFUSED;
    }
    if (!cluster->loaded) {
        snprintf(text, CTL_MAX_TEXT, "the cluster manager is starting and waits for the resource DB%s%.600s",
                 *cluster->db_text ? ": " : "", cluster->db_text);
        return HELLO_NOT_YET;
    }
    if (known_by_certificate(conn, args))
        return HELLO_TRUSTED;
    /* A peer with a certificate has the name in it, whatever secrets the peer knows. */
    if (conn_peer_certificate(conn)) {
        snprintf(text, CTL_MAX_TEXT,
                 "its certificate names %.128s, not %s:%s: `flytctl ca issue DIR %s %s` makes the right one",
                 conn_peer_certificate(conn), protocol_role_name(args->role), args->name,
                 protocol_role_name(args->role), args->name);
        return HELLO_REFUSED;
    }
    switch (args->role) {
    case CTL_ROLE_NODE: return identify_node(session, args->name, stored);
    case CTL_ROLE_CLIENT:
        return identify_vm(cluster, conn, args->name, stored, text);
    default:
        if (session->endpoint == ENDPOINT_LOCAL && known_locally(conn, cluster))
            return HELLO_TRUSTED;
        return by_secret(&cluster->admin_secret, cluster->has_admin_secret, stored);
    }
}

/* Every node knows the shared secret: it does not show that this is the node that has had this name before. */
static ctl_code check_shared(const struct cluster_session *session, const struct node *node, char *text)
{
    const char *machine = conn_peer_machine(session->conn);
    if (node->row.has_stored)                   /* it was given one since HELLO */
        return explain(text, CTL_DENIED, "node %s has a secret of its own now", node->row.name);
    if (node->session)
        return explain(text, CTL_BUSY,
                       "node %s is connected (from %s), and the secret that all nodes share does not show that this"
                       " is the same one: `flytctl node add %s` gives it a secret of its own",
                       node->row.name, conn_peer(node->session->conn), node->row.name);
    if (*node->machine && strcmp(node->machine, machine) != 0)
        return explain(text, CTL_DENIED,
                       "node %s was connected from %s before, and the secret that all nodes share does not show"
                       " that %s is the same node: `flytctl node add %s` gives it a secret of its own",
                       node->row.name, node->machine, machine, node->row.name);
    return CTL_OK;
}

/* It becomes the session of its node or VM, or ends. */
static void count(struct cluster_session *session, bool begins)
{
    struct cluster *cluster = session->cluster;
    const size_t one = begins ? 1 : (size_t)-1;
    if (session->counted == begins)
        return;
    session->counted = begins;
    cluster->vms_connected += session->endpoint == ENDPOINT_CLIENT ? one : 0;
    cluster->unencrypted += conn_encrypted(session->conn) ? 0 : one;
}

static ctl_code accept_node(struct cluster_session *session, const struct hello *hello, char *text)
{
    struct cluster *cluster = session->cluster;
    struct node *node = map_get(&cluster->nodes, hello->name);
    if (!node)
        node = node_create(cluster, hello->name);
    if (!node) {
        snprintf(text, CTL_MAX_TEXT, "no memory for another node");
        return CTL_INTERNAL;
    }
    ctl_code code = session->shared_secret ? check_shared(session, node, text) : CTL_OK;
    if (code != CTL_OK)
        return code;
    /* A node manager that started anew comes before its old connection has timed out: the newer one counts. */
    if (node->session)
        conn_close(node->session->conn, "the node has connected again");
    node->session = session;
    node->heard = loop_now(cluster->loop);
    snprintf(node->software, sizeof node->software, "%s", hello->software);
    session->node = node;
    count(session, true);
    return CTL_OK;
}

static ctl_code accept_client(struct cluster_session *session, const struct hello *hello, char *text)
{
    struct cluster *cluster = session->cluster;
    struct vm *vm = vm_find(cluster, hello->name);
    if (!vm) {                                  /* by a certificate, but the entitlement is not there */
        snprintf(text, CTL_MAX_TEXT, "there is no VM '%s': add it with flytctl vm add", hello->name);
        return CTL_NOT_FOUND;
    }
    if (vm->session)
        conn_close(vm->session->conn, "the VM's client manager has connected again");
    vm->session = session;
    vm->heard = loop_now(cluster->loop);
    session->vm = vm;
    count(session, true);
    return CTL_OK;
}

/* At the unix socket, and with the secret that administrators share, anyone admitted may give any name: sudo's user is
   given by flytctl, for example. What the kernel says of them is put beside it. */
static ctl_code accept_administrator(struct cluster_session *session, const struct hello *hello)
{
    pid_t pid;
    uid_t uid;
    gid_t gid;
    char user[CTL_MAX_NAME + 1];
    snprintf(session->who, sizeof session->who, "%s", hello->name);
    if (conn_peer_credentials(session->conn, &pid, &uid, &gid)) {
        const struct passwd *row = getpwuid(uid);
        snprintf(user, sizeof user, "user %u", (unsigned)uid);
        if (row)
            snprintf(user, sizeof user, "%s", row->pw_name);
        if (strcmp(user, hello->name) != 0)
            snprintf(session->who, sizeof session->who, "%s (%s)", hello->name, user);
    } else if (!conn_peer_certificate(session->conn)) {
        snprintf(session->who, sizeof session->who, "%s (from %s)", hello->name, conn_peer_host(session->conn));
    }
    return CTL_OK;
}

static ctl_code accept_role(struct cluster_session *session, const struct hello *hello, char *text)
{
    switch (hello->role) {
    case CTL_ROLE_NODE:   return accept_node(session, hello, text);
    case CTL_ROLE_CLIENT: return accept_client(session, hello, text);
    default:              return accept_administrator(session, hello);
    }
}

/* Counts it among the connections while it lasts. */
static void count_connection(struct cluster_session *session, bool begins)
{
    enum conn_way way = session->endpoint == ENDPOINT_LOCAL ? CONN_UNIX
                        : conn_encrypted(session->conn)     ? CONN_TLS
                                                            : CONN_PLAIN;
    if (session->joined == begins)
        return;
    session->joined = begins;
    session->cluster->connections[(unsigned)session->hello.role % COUNT_ROLES][way] += begins ? 1 : UINT32_MAX;
}

static ctl_code accepted(struct conn *conn, const struct hello *hello, char *text)
{
    struct cluster_session *session = session_of(conn);
    const struct x509_st *certificate = conn_peer_x509(conn);
    ctl_code code = accept_role(session, hello, text);
    if (code == CTL_OK)
        count_connection(session, true);
    session->certificate_ends = certificate ? tls_certificate_ends(certificate) : 0;
    return code;
}

static const struct hello_policy *policy_of(struct conn *conn)
{
    static struct hello_policy policy = {
        .of = hello_of, .identify = identify, .accepted = accepted
    };
    policy.software = daemon_software();
    policy.incarnation = session_of(conn)->cluster->incarnation;
    return &policy;
}

static void handle_hello(struct conn *conn, struct loop_call *call, void *args)
{
    hello_handle_hello(policy_of(conn), conn, call, args);
}

static void handle_auth(struct conn *conn, struct loop_call *call, void *args)
{
    hello_handle_auth(policy_of(conn), conn, call, args);
}

static void handle_prove(struct conn *conn, struct loop_call *call, void *args)
{
    hello_handle_prove(policy_of(conn), conn, call, args);
}

/* ---- life ---- */

static void opened(struct conn *conn, enum endpoint endpoint)
{
    struct cluster *cluster = conn_context(conn);
    struct cluster_session *session = calloc(1, sizeof *session);
    conn_set_context(conn, session);
    if (!session) {
        conn_close(conn, "no memory for another connection");
        return;
    }
    session->cluster = cluster;
    session->conn = conn;
    session->endpoint = endpoint;
    session->next = cluster->sessions;
    session->back = &cluster->sessions;
    if (session->next)
        session->next->back = &session->next;
    cluster->sessions = session;
}

static void opened_node(struct conn *conn) { opened(conn, ENDPOINT_NODE); }
static void opened_client(struct conn *conn) { opened(conn, ENDPOINT_CLIENT); }
static void opened_local(struct conn *conn) { opened(conn, ENDPOINT_LOCAL); }

static void closed(struct conn *conn, int error, const char *why)
{
    struct cluster_session *session = conn_context(conn);
    if (!session)
        return;
    struct cluster *cluster = session->cluster;
    count(session, false);
    count_connection(session, false);
    session_forget_waiting(session);
    changes_forget(session);
    resizes_forget(session);
    logs_forget(session);
    gpu_links_forget(session);
    values_forget(session);
    *session->back = session->next;
    if (session->next)
        session->next->back = session->back;
    if (session->hello.refused)
        refusal_note(cluster, conn, session->hello.said ? &session->hello : NULL, why);
    bool is_admin = session->endpoint != ENDPOINT_NODE && !session->vm;
    if (session->hello.done && is_admin && error == -EACCES && !session->denied)
        admin_note_refusal(session, "", NULL, why);
    /* A command of flytctl is a connection; that connections end is news where it breaks what should last. */
    if (!session->hello.done)
        log_debug("event=connection-ended peer=%s why=\"%s\"", conn_peer(conn), why);
    else
        log_message(is_admin                      ? LOG_LEVEL_DEBUG
                    : error && !cluster->stopping ? LOG_LEVEL_WARNING
                                                  : LOG_LEVEL_INFO,
                    "event=connection-ended peer=%s role=%s "
                    "name=%s why=\"%s\"",
                    conn_peer(conn), protocol_role_name(session->hello.role), session->hello.name, why);
    if (session->node && session->node->session == session) {
        session->node->session = NULL;
        node_session_gone(cluster, session->node);
    }
    if (session->vm && session->vm->session == session) {
        session->vm->session = NULL;
        client_session_gone(cluster, session->vm);
    }
    free(session);
}

/* A role may not call this. */
static void denied(struct conn *conn, uint32_t procedure, const void *args, const char *why)
{
    struct cluster_session *session = session_of(conn);
    struct call_target target;
    if (session->endpoint == ENDPOINT_NODE || session->vm)
        return;
    bool known = args && admin_target(procedure, args, &target);
    admin_note_refusal(session, protocol_procedures[procedure].name, known ? &target : NULL, why);
    session->denied = true;
}

static void refused(struct conn *conn, const char *why) { refusal_note(conn_context(conn), conn, NULL, why); }

#define STRANGER (1u << CTL_ROLE_NONE)
#define NODE     (1u << CTL_ROLE_NODE)
#define CLIENT   (1u << CTL_ROLE_CLIENT)
/* In falling order: an admin also changes who is in the cluster, an operator also runs it, a viewer only reads. */
#define ADMIN    (1u << CTL_ROLE_ADMIN)
#define OPERATOR (ADMIN | 1u << CTL_ROLE_OPERATOR)
#define VIEWER (OPERATOR | 1u << CTL_ROLE_VIEWER)

static const struct conn_method methods[CTL_LAST_PROCEDURE + 1] = {
    [CTL_HELLO] = { STRANGER, handle_hello },
    [CTL_AUTH] = { STRANGER, handle_auth },
    [CTL_PROVE] = { STRANGER, handle_prove },
    [CTL_RENEW] = { NODE | CLIENT, renew_handle },
    [NODE_REGISTER] = { NODE, node_handle_register },
    [NODE_ORDERS] = { NODE, node_handle_orders },
    [NODE_REPORT] = { NODE, node_handle_report },
    [CLIENT_REGISTER] = { CLIENT, client_handle_register },
    [CLIENT_REQUEST] = { CLIENT, client_handle_request },
    [CLIENT_ENDED] = { CLIENT, client_handle_ended },
    [CLIENT_RENEW] = { CLIENT, client_handle_renew },
    [CLIENT_EVENTS] = { CLIENT, client_handle_events },
    [CLIENT_TRANSPORT] = { CLIENT, client_handle_transport },
    [CLIENT_UNREACHED] = { CLIENT, client_handle_unreached },
    [CLIENT_MOVED] = { CLIENT, client_handle_moved },
    [CLIENT_GROUP] = { CLIENT, client_handle_group },
    [CLIENT_THAWED] = { CLIENT, client_handle_thawed },
    [CLIENT_PROGRESS] = { CLIENT, client_handle_progress },
    [CLIENT_STATUS] = { CLIENT, client_handle_status },
    [CLIENT_RECOVERY] = { CLIENT, client_handle_recovery },
    [CLIENT_RECOVERED] = { CLIENT, client_handle_recovered },
    [CLIENT_VALUE] = { CLIENT, client_handle_value },
    [CLIENT_LINK_OFFER] = { CLIENT, client_handle_link_offer },
    [CLIENT_LINK_TAKE] = { CLIENT, client_handle_link_take },
    [CLIENT_PART] = { CLIENT, client_handle_part },
    [ADMIN_STATUS] = { VIEWER, admin_handle_status },
    [ADMIN_WHOAMI] = { VIEWER, admin_handle_whoami },
    [ADMIN_NODES] = { VIEWER, admin_handle_nodes },
    [ADMIN_NODE] = { OPERATOR, admin_handle_node }, /* REMOVE: ADMIN */
    [ADMIN_NODE_ADD] = { ADMIN, admin_handle_node_add },
    [ADMIN_NODE_EXPORT] = { ADMIN, admin_handle_node_export },
    [ADMIN_NODE_IMPORT] = { ADMIN, admin_handle_node_import },
    [ADMIN_SERVERS] = { VIEWER, admin_handle_servers },
    [ADMIN_LOG] = { OPERATOR, admin_handle_log }, /* what tenants' programs wrote */
    [ADMIN_SERVER_STOP] = { OPERATOR, admin_handle_server_stop },
    [ADMIN_VMS] = { VIEWER, admin_handle_vms },
    [ADMIN_VM_ADD] = { ADMIN, admin_handle_vm_add },
    [ADMIN_VM_SET] = { ADMIN, admin_handle_vm_set },
    [ADMIN_VM_REMOVE] = { ADMIN, admin_handle_vm_remove },
    [ADMIN_VM_EXPORT] = { ADMIN, admin_handle_vm_export },
    [ADMIN_PROGRAMS] = { VIEWER, admin_handle_programs },
    [ADMIN_PROGRAM_KILL] = { OPERATOR, admin_handle_program_kill },
    [ADMIN_VM_NOW] = { ADMIN, admin_handle_vm_now },
    [ADMIN_CHANGE] = { ADMIN, admin_handle_change },
    [ADMIN_RESIZE] = { ADMIN, admin_handle_resize },
    [ADMIN_MIGRATE] = { OPERATOR, admin_handle_migrate },
    [ADMIN_MOVE] = { OPERATOR, admin_handle_move }, /* with another share: ADMIN */
    [ADMIN_MOVES] = { VIEWER, admin_handle_moves },
    [ADMIN_SAVE] = { OPERATOR, admin_handle_save },
    [ADMIN_MOVE_CANCEL] = { OPERATOR, admin_handle_move_cancel },
    [ADMIN_GROUPING] = { OPERATOR, admin_handle_grouping },
    [ADMIN_EVENTS] = { VIEWER, admin_handle_events },
    [ADMIN_TOP] = { VIEWER, admin_handle_top },
    [ADMIN_COUNTERS] = { VIEWER, admin_handle_counters },
    [ADMIN_FOLLOW] = { VIEWER, admin_handle_follow },
    [ADMIN_USAGE] = { VIEWER, admin_handle_usage },
    [ADMIN_RELOAD] = { ADMIN, admin_handle_reload },
    [ADMIN_KEY_ROTATE] = { ADMIN, admin_handle_key_rotate },
};

const struct conn_service cluster_services[3] = {
    [ENDPOINT_NODE] = { methods, CTL_LAST_PROCEDURE + 1, opened_node, closed, refused, NULL, NULL },
    [ENDPOINT_CLIENT] = { methods, CTL_LAST_PROCEDURE + 1, opened_client, closed, refused, admin_call_begins, denied },
    [ENDPOINT_LOCAL] = { methods, CTL_LAST_PROCEDURE + 1, opened_local, closed, refused, admin_call_begins, denied },
};
