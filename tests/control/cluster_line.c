/*
 * cluster_line.c: the line of programs that wait: a large request is not starved by small ones.
 *
 * shows: fairness: the first in line is overtaken so many times, then a GPU is kept for it; another when that one's
  *   node goes; a change of mind frees it
 */
#include "tests/control/cluster_rig.h"

#define GIB (UINT64_C(1) << 30)
enum { OVERTAKING = 3, SMALL = 8 };
static const char settings[] =
    "virt-server-auto-deallocate = { grace-period = 0.1; };\nplacement = { overtaking = 3; };\n";

static struct fake_node n1, n2;
static struct fake_client large, small[SMALL];

static struct fake_program *run_small(int i)
{
    char name[16];
    snprintf(name, sizeof name, "small-%d", i);
    client_create(&small[i], name, 8, GIB, 0, true, "");
    return client_run(&small[i], CLIENT_WAIT_YES);
}

static unsigned kept_events(void)
{
    admin_events_args args = { 0, 0 };
    admin_events_result result;
    unsigned count = 0;
    admin_call(ADMIN_EVENTS, &args, &result);
    for (u_int i = 0; i < result.events.events_len; i++)
        count += strcmp(result.events.events_val[i].kind, "gpu-kept") == 0;
    protocol_free((xdrproc_t)xdr_admin_events_result, &result);
    return count;
}

/* Two small ones run, the large one waits, and small ones come whenever there is room. Returns the one that was not let
   past any more, and which of the others run still. */
static int overtake(struct fake_program *programs[SMALL], struct fake_program *waiting)
{
    int oldest = 0, next = 2;
    for (; next < SMALL; next++) {
        client_end(&small[oldest], programs[oldest]);
        oldest++;
        if (next - 2 < OVERTAKING) {
            rig_run_ms(300);                    /* its server has gone */
            programs[next] = run_small(next);
            rig_until(programs[next]->running, 5000);
            assert_false(waiting->running);
            continue;
        }
        rig_run_ms(300);
        programs[next] = run_small(next);
        rig_until(programs[next]->answers, 5000);
        rig_run_ms(200);
        assert_false(programs[next]->running);
        return next;
    }
    return -1;
}

static struct fake_program *begin(struct fake_program *programs[SMALL])
{
    rig_create(settings);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    for (int i = 0; i < 2; i++) {
        programs[i] = run_small(i);
        rig_until(programs[i]->running, 5000);
    }
    client_create(&large, "large", 16, GIB, 0, true, "");
    struct fake_program *waiting = client_run(&large, CLIENT_WAIT_YES);
    rig_until(waiting->answers, 5000);
    assert_int_equal(waiting->code, CTL_WAITING);
    return waiting;
}

RIG_TEST(test_large_is_served)
{
    struct fake_program *programs[SMALL] = { NULL };
    struct fake_program *waiting = begin(programs);
    int held = overtake(programs, waiting);
    assert_int_equal(held, 2 + OVERTAKING);
    assert_int_equal(kept_events(), 1);
    struct fake_program *refused = NULL;
    client_create(&small[SMALL - 1], "hasty", 8, GIB, 0, true, "");
    refused = client_run(&small[SMALL - 1], CLIENT_WAIT_NO);
    rig_until(refused->answers, 5000);
    assert_int_equal(refused->code, CTL_BUSY);
    assert_non_null(strstr(refused->text, "1 kept for programs that wait longer"));
    for (int i = 0; i < held; i++)
        if (programs[i]->key)
            client_end(&small[i], programs[i]);
    rig_until(waiting->running, 5000);
    assert_false(programs[held]->running);
    client_end(&large, waiting);
    rig_until(programs[held]->running, 5000);
    assert_int_equal(n1.overcommits, 0);
    admin_check_books();
}

/* It has waited for long enough: what was kept for it is free again at once. */
RIG_TEST(test_change_of_mind)
{
    struct fake_program *programs[SMALL] = { NULL };
    struct fake_program *waiting = begin(programs);
    int held = overtake(programs, waiting);
    assert_true(held > 0);
    client_end(&large, waiting);
    rig_until(programs[held]->running, 5000);
}

/* The kept GPU's node goes: another that could hold it is kept. */
RIG_TEST(test_another_gpu)
{
    struct fake_program *programs[SMALL] = { NULL };
    struct fake_program *waiting = begin(programs);
    int held = overtake(programs, waiting);
    assert_true(held > 0);
    node_close(&n1);                            /* away: the large one could not start there */
    rig_run_ms(200);
    node_open(&n2, "n2", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    rig_until(waiting->running, 5000);
    assert_string_equal(waiting->node, "n2");
    node_reopen(&n1);
    rig_until(programs[held]->running, 5000);   /* n1 is kept for nobody */
}

int main(void) { return unit_run(NULL, NULL); }
