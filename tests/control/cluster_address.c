/*
 * cluster_address.c: entitlements of existing installations have no secret; security.address-identity lets such a VM in
 * by its address.
 *
 * shows: hostile peers: a client manager that claims programs, servers and ids of others gets no grant, and nobody
  *   notices
 * shows: credentials: a VM without a secret is known by its address where that is configured, and only there, only from
  *   that address, never where it has a secret
 */
#include "tests/control/cluster_rig.h"

#include <errno.h>
#include <signal.h>

#include "control-managers/common/db.h"

static struct fake_client client;

/* As an existing database has them. */
static void put_vms(void)
{
    static const char *const vms[][2] = { { "127.0.0.1", "127.0.0.1" }, { "named", "127.0.0.1" },
                                          { "far", "10.9.9.9" } };
    char uri[128], error[CONTROL_ERROR_SIZE];
    struct db *db;
    rig_signal(SIGTERM);
    snprintf(uri, sizeof uri, "sqlite://%s/flyt.db", rig.folder);
    assert_int_equal(db_open(uri, &db, error), 0);
    for (size_t i = 0; i < sizeof vms / sizeof vms[0]; i++) {
        struct db_change change = { .action = DB_PUT, .kind = DB_VM };
        change.row.vm.sms = 4;
        change.row.vm.memory_mib = 4;
        snprintf(change.row.vm.name, sizeof change.row.vm.name, "%s", vms[i][0]);
        snprintf(change.row.vm.address, sizeof change.row.vm.address, "%s", vms[i][1]);
        assert_int_equal(db_apply(db, &change, 1, error), 0);
    }
    db_close(db);
    rig_start();
    admin_status();                             /* it serves */
}

static void try(const char *name, const char *secret)
{
    memset(&client, 0, sizeof client);
    snprintf(client.name, sizeof client.name, "%s", name);
    memcpy(client.secret.bytes, secret, client.secret.size = strlen(secret));
    client_open(&client);
    rig_until(client.registered || client.downs, 5000);
}

RIG_TEST(test_by_address)
{
    rig_security = "address-identity = true;";
    rig_create("");
    put_vms();
    try("127.0.0.1", "");
    assert_true(client.registered);
    client_close(&client);
    try("named", "");
    assert_true(client.registered);
    client_close(&client);
    /* It has a secret, and the cluster manager shows none: that may be anybody. */
    try("named", "guessed");
    assert_false(client.registered);
    assert_int_equal(client.error, -EKEYREJECTED);
    client_close(&client);
    try("far", "");
    assert_false(client.registered);
    assert_int_equal(client.error, -EACCES);
    assert_non_null(strstr(client.why, "10.9.9.9"));
    client_close(&client);
    try("nobody", "guessed");
    assert_false(client.registered);
    client_close(&client);
    /* A secret makes the address worthless. */
    admin_vm_set_args args = { .vm = { .name = (char *)"named", .address = (char *)"", .host = (char *)"" },
                               .set = ADMIN_VM_SET_SECRET };
    admin_vm_add_result result;
    admin_call(ADMIN_VM_SET, &args, &result);
    assert_int_equal(result.status.code, CTL_OK);
    try("named", "guessed");
    assert_false(client.registered);
    client_close(&client);
    memset(&client, 0, sizeof client);
    snprintf(client.name, sizeof client.name, "named");
    memcpy(client.secret.bytes, result.secret, client.secret.size = strlen(result.secret));
    protocol_free((xdrproc_t)xdr_admin_vm_add_result, &result);
    client_open(&client);
    rig_until(client.registered, 5000);
}

RIG_TEST(test_off_by_default)
{
    rig_security = "";
    rig_create("");
    put_vms();
    try("127.0.0.1", "guessed");
    assert_false(client.registered);
    assert_int_equal(client.error, -EACCES);
}

/* A client manager that claims what belongs to others, or to nobody yet. */

struct claims { struct link *link; client_running running[4]; u_int count; int results, error; };

static void claimed(void *context, int error, const char *why, void *object)
{
    struct claims *claims = context;
    (void)why, (void)object;
    claims->results++;
    claims->error = error;
}

static void claim_up(struct link *link, struct conn *conn, const ctl_hello_result *hello)
{
    struct claims *claims = link_context(link);
    client_register_args args = { .host = (char *)"h", .programs = { claims->count, claims->running } };
    (void)hello;
    conn_call(conn, CLIENT_REGISTER, &args, 5000, claimed, claims, NULL);
}

static client_answer last;
static bool answered;
static void renewed(void *context, int error, const char *why, void *object)
{
    (void)context, (void)why;
    answered = true;
    last = (client_answer){ 0 };
    if (!error)
        last.status.code = ((client_answer *)object)->status.code;
}

RIG_TEST(test_claims_of_others)
{
    static struct fake_node node;
    static struct fake_client owner, thief;
    struct claims claims = { 0 };
    rig_security = "";
    rig_create("");
    node_open(&node, "n1", 1, 16, UINT64_C(8) << 30, CTL_SHARING_TIME_SLICE);
    client_create(&owner, "owner", 4, 1 << 30, 0, true, "");
    client_create(&thief, "thief", 4, 1 << 30, 0, true, "");
    struct fake_program *mine = client_runs(&owner, CLIENT_WAIT_YES);
    client_close(&thief);
    /* The owner's program and server; the server only; and ids that are to be given out next. */
    const uint64_t ids[] = { mine->id, 0, mine->id + 1, mine->id + 2 }, servers[] = { mine->server, mine->server, 0,
                                                                                      0 };
    for (u_int i = 0; i < 4; i++)
        claims.running[claims.count++] = (client_running){ .prog = { .key = i + 1, .executable = (char *)"x" },
                                                           .id = ids[i], .server = servers[i] };
    const char *uris[] = { rig.client_uri, NULL };
    const struct link_options options = { .uris = uris, .role = CTL_ROLE_CLIENT, .name = "thief",
                                          .secret = &thief.secret,
                                          .context = &claims, .up = claim_up };
    assert_int_equal(link_open(rig.loop, &options, &claims.link, NULL), 0);
    rig_until(claims.results, 5000);
    assert_int_equal(claims.error, 0);
    rig_run_ms(200);
    /* No grant for the owner's server. */
    for (uint64_t key = 1; key <= 2; key++) {
        client_renew_args renew = { key };
        answered = false;
        assert_int_equal(link_call(claims.link, CLIENT_RENEW, &renew, 5000, renewed, NULL, NULL), 0);
        rig_until(answered, 5000);
        assert_int_not_equal(last.status.code, CTL_OK);
    }
    /* The owner notices nothing, and further programs of its get ids of their own. */
    assert_false(mine->lost || mine->end_asked);
    for (int i = 0; i < 4; i++) {
        struct fake_program *next = client_runs(&owner, CLIENT_WAIT_YES);
        assert_int_equal(next->server, mine->server);
    }
    link_close(claims.link);
    /* One program of its own under two keys: when it ends, neither leads anywhere. */
    client_open(&thief);
    rig_until(thief.registered, 5000);
    struct fake_program *own = client_runs(&thief, CLIENT_WAIT_YES);
    client_close(&thief);
    claims.count = 2;
    claims.results = 0;
    for (u_int i = 0; i < 2; i++)
        claims.running[i] = (client_running){ .prog = { .key = 50 + i, .executable = (char *)"x" }, .id = own->id,
                                              .server = own->server };
    assert_int_equal(link_open(rig.loop, &options, &claims.link, NULL), 0);
    rig_until(claims.results, 5000);
    u_quad_t ended = 51;
    client_ended_args end = { { 1, &ended } };
    assert_int_equal(link_call(claims.link, CLIENT_ENDED, &end, 5000, NULL, NULL, NULL), 0);
    for (uint64_t key = 50; key <= 51; key++) {
        client_renew_args renew = { key };
        answered = false;
        assert_int_equal(link_call(claims.link, CLIENT_RENEW, &renew, 5000, renewed, NULL, NULL), 0);
        rig_until(answered, 5000);
        assert_int_equal(last.status.code, CTL_NOT_FOUND);
    }
    assert_int_equal(admin_status().programs, 5);
    link_close(claims.link);
}

int main(void) { return unit_run(NULL, NULL); }
