/*
 * cluster_keys.c: the key that signs tickets is changed while programs run.
 *
 * shows: ticket keys: changed by an administrator, old tickets are good for their time and then are not, nodes that
  *   have not heard get old ones, over a crash too
 */
#include "tests/control/cluster_rig.h"

#include <errno.h>
#include <signal.h>

#define GIB (UINT64_C(1) << 30)
static const char settings[] = "silence = { suspect = 2.0; lost = 4.0; client-lost = 60.0; };\n";
static struct fake_node n1, n2;
static struct fake_client a, b;

static int check(const struct fake_node *node, const struct fake_program *program)
{
    struct ticket ticket;
    char error[CONTROL_ERROR_SIZE];
    return ticket_verify((const uint8_t(*)[TICKET_KEY_SIZE])node->keys, node->key_count, program->ticket,
                         program->ticket_size, loop_time(), program->server, &ticket, error);
}

static bool signed_by(const uint8_t key[TICKET_KEY_SIZE], const struct fake_program *program)
{
    struct ticket ticket;
    char error[CONTROL_ERROR_SIZE];
    return ticket_verify((const uint8_t(*)[TICKET_KEY_SIZE])key, 1, program->ticket, program->ticket_size, loop_time(),
                         program->server, &ticket, error) == 0;
}

static void rotate(void)
{
    assert_int_equal(admin_code(ADMIN_KEY_ROTATE, NULL), CTL_OK);
}

static void renew(struct fake_client *client, struct fake_program *program)
{
    unsigned answers = program->answers;
    client_renew(client, program);
    rig_until(program->answers > answers, 5000);
}

RIG_TEST(test_change)
{
    uint8_t first[TICKET_KEY_SIZE];
    rig_create(settings);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_DEFAULT);
    struct fake_program before = *one;
    memcpy(first, n1.ticket_key, sizeof first);
    assert_true(signed_by(first, one));
    rotate();
    rig_until(n1.key_orders == 1, 5000);
    assert_int_equal(n1.key_count, 2);
    assert_memory_not_equal(n1.keys[0], first, sizeof first);
    assert_memory_equal(n1.keys[1], first, sizeof first);
    assert_int_equal(check(&n1, &before), 0);           /* handed out already: good */
    rig_run_ms(100);
    renew(&a, one);
    assert_true(signed_by(n1.keys[0], one));
    assert_false(one->lost);
    /* All are known after a crash as well. */
    rig_signal(SIGKILL);
    rig_start();
    rig_until(n1.ups == 2 && n1.registered, 10000);
    assert_int_equal(n1.key_count, 2);
    assert_memory_equal(n1.keys[1], first, sizeof first);
    rig_until(a.registered, 10000);
    renew(&a, one);
    assert_true(signed_by(n1.keys[0], one));
    /* silence.lost and the ticket's life are over: the node is told so, and refuses the old key. */
    rig_until(n1.key_count == 1, 20000);
    assert_int_equal(check(&n1, &before), -EKEYREJECTED);
    renew(&a, one);
    assert_int_equal(check(&n1, one), 0);
}

/* A node that has not heard of the new key yet is not given tickets that it would refuse. */
RIG_TEST(test_deaf_node)
{
    rig_create(settings);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    node_open(&n2, "n2", 1, 8, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 16, GIB, 0, true, "");    /* fits on n1 only */
    client_create(&b, "vm-b", 8, GIB, 0, true, "");
    struct fake_program *one = client_run(&a, CLIENT_WAIT_DEFAULT), *two = client_run(&b, CLIENT_WAIT_DEFAULT);
    rig_until(one->running && two->running, 5000);
    assert_string_equal(two->node, "n2");
    node_close(&n1);
    rotate();
    rig_until(n2.key_orders == 1, 5000);
    rig_run_ms(100);
    renew(&a, one);
    renew(&b, two);
    assert_int_equal(check(&n1, one), 0);
    assert_int_equal(check(&n2, two), 0);
    assert_true(signed_by(n2.keys[0], two));
    assert_false(signed_by(n2.keys[0], one));
    node_reopen(&n1);
    rig_until(n1.registered && n1.key_count == 2, 5000);
    rig_run_ms(100);
    renew(&a, one);
    assert_true(signed_by(n1.keys[0], one));
}

/* Not for ever: seven old keys at once are enough. */
RIG_TEST(test_too_often)
{
    rig_create(settings);
    for (int i = 0; i < TICKET_MAX_KEYS - 1; i++)
        rotate();
    assert_int_equal(admin_code(ADMIN_KEY_ROTATE, NULL), CTL_BUSY);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    assert_int_equal(n1.key_count, TICKET_MAX_KEYS);
}

int main(void)
{
    rig_ticket_seconds = 3;
    return unit_run(NULL, NULL);
}
