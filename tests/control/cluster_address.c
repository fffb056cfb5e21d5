/*
 * cluster_address.c: entitlements of existing installations have no secret; security.address-identity lets such a VM in
 * by its address.
 *
 * shows: credentials: a VM without a secret is known by its address where that is configured, and only there, only from that address, never where it has a secret
 */
#include "tests/control/cluster_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "control-managers/common/db.h"

static struct fake_client client;

/* As an existing database has them. */
static void put_vms(void)
{
    static const char *const vms[][2] = { { "127.0.0.1", "127.0.0.1" }, { "named", "127.0.0.1" }, { "far", "10.9.9.9" } };
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

static void try(const char *name)
{
    memset(&client, 0, sizeof client);
    snprintf(client.name, sizeof client.name, "%s", name);
    memcpy(client.secret.bytes, "guessed", client.secret.size = 7);
    client_open(&client);
    rig_until(client.registered || client.downs, 5000);
}

static void test_by_address(void **state)
{
    (void)state;
    rig_security = "address-identity = true;";
    rig_create("");
    put_vms();
    try("127.0.0.1");
    assert_true(client.registered);
    client_close(&client);
    try("named");
    assert_true(client.registered);
    client_close(&client);
    try("far");
    assert_false(client.registered);
    assert_int_equal(client.error, -EACCES);
    assert_non_null(strstr(client.why, "10.9.9.9"));
    client_close(&client);
    try("nobody");
    assert_false(client.registered);
    client_close(&client);
    /* A secret makes the address worthless. */
    admin_vm_set_args args = { .vm = { .name = (char *)"named", .address = (char *)"", .host = (char *)"" }, .set = ADMIN_VM_SET_SECRET };
    admin_vm_add_result result;
    admin_call(ADMIN_VM_SET, &args, &result);
    assert_int_equal(result.status.code, CTL_OK);
    try("named");
    assert_false(client.registered);
    client_close(&client);
    memset(&client, 0, sizeof client);
    snprintf(client.name, sizeof client.name, "named");
    memcpy(client.secret.bytes, result.secret, client.secret.size = strlen(result.secret));
    protocol_free((xdrproc_t)xdr_admin_vm_add_result, &result);
    client_open(&client);
    rig_until(client.registered, 5000);
    client_close(&client);
    rig_destroy();
}

static void test_off_by_default(void **state)
{
    (void)state;
    rig_security = "";
    rig_create("");
    put_vms();
    try("127.0.0.1");
    assert_false(client.registered);
    assert_int_equal(client.error, -EACCES);
    client_close(&client);
    rig_destroy();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_by_address), cmocka_unit_test(test_off_by_default) };
    setvbuf(stdout, NULL, _IOLBF, 0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
