/*
 * Links between GPU servers: what the cluster manager makes of offers and takes, with nodes and client managers that
 * lie, vanish, or are of an earlier release.
 * shows: links under managers: the taker's node is told to connect the taker's server to the one of the offer, and
 *   nothing else; the taker hears where to, or what the node says
 * shows: links under managers: the node of the release before is refused by name; a node, a client manager and a
 *   program that vanish leave nothing behind
 * shows: attacks: an offer of a link that was taken before, that is false, another VM's, of a program that has ended,
 *   or for a server of another program is refused, and no node is told anything; one VM's offers are bounded
 */
#include "tests/control/cluster_rig.h"

#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)
enum { SOON_MS = 5000, OFFERS_OF_VM = 1024 };

static struct fake_node n1, n2;
static struct fake_client a, b;
static struct fake_program *one, *two, *other; /* on n1, n2; of VM a, a, b */

/* Each program of VM a has a whole GPU, so that they are on two nodes. */
static void begin(uint32_t node_minor)
{
    rig_create("placement = { policy = \"first-fit\"; };\n");
    node_open(&n1, "n1", 2, 4, 8 * GIB, CTL_SHARING_EXCLUSIVE);
    client_create(&a, "vm-a", 16, 16 * GIB, 0, false, "");
    client_create(&b, "vm-b", 4, GIB, 0, true, "");
    one = client_run(&a, CLIENT_WAIT_NO);
    other = client_run(&b, CLIENT_WAIT_NO);
    rig_until(one->running && other->running, SOON_MS);
    node_open(&n2, "n2", 1, 4, 8 * GIB, CTL_SHARING_EXCLUSIVE);
    if (node_minor) {
        node_close(&n2);
        n2.minor = node_minor;
        node_reopen(&n2);
        rig_until(n2.registered, SOON_MS);
    }
    two = client_runs(&a, CLIENT_WAIT_NO);
    assert_string_equal(one->node, "n1");
    assert_string_equal(two->node, "n2");
}

/* ---- the calls ---- */

static struct {
    int count;
    ctl_code code;
    char text[CTL_MAX_TEXT + 1], address[CTL_MAX_URI + 1], offer[CTL_LINK_OFFER_SIZE];
} answer;

/* status: NULL, if there was no answer. */
static void note(const ctl_status *status)
{
    answer.count++;
    answer.code = status ? status->code : CTL_INTERNAL;
    snprintf(answer.text, sizeof answer.text, "%s", status ? status->text : "no answer");
}

static void offered(void *context, int error, const char *why, void *object)
{
    const ctl_link_offer_result *result = object;
    (void)context, (void)why;
    note(error ? NULL : &result->status);
    if (error || result->status.code != CTL_OK)
        return;
    assert_int_equal(result->offer.offer_len, CTL_LINK_OFFER_SIZE);
    memcpy(answer.offer, result->offer.offer_val, CTL_LINK_OFFER_SIZE);
}

static void taken(void *context, int error, const char *why, void *object)
{
    const ctl_link_take_result *result = object;
    (void)context, (void)why;
    note(error ? NULL : &result->status);
    snprintf(answer.address, sizeof answer.address, "%s", error ? "" : result->address);
}

static ctl_code offer(struct fake_client *client, uint64_t key, uint64_t server, char out[CTL_LINK_OFFER_SIZE])
{
    client_link_offer_args args = { key, { server } };
    answer.count = 0;
    assert_int_equal(link_call(client->link, CLIENT_LINK_OFFER, &args, SOON_MS, offered, NULL, NULL), 0);
    rig_until(answer.count, SOON_MS);
    memcpy(out, answer.offer, CTL_LINK_OFFER_SIZE);
    return answer.code;
}

static void begin_take(struct fake_client *client, uint64_t key, uint64_t server, char *bytes, u_int size,
                       unsigned connections)
{
    client_link_take_args args = { key, { server, { size, bytes }, connections } };
    answer.count = 0;
    assert_int_equal(link_call(client->link, CLIENT_LINK_TAKE, &args, 2 * SOON_MS, taken, NULL, NULL), 0);
}

static ctl_code take(struct fake_client *client, uint64_t key, char bytes[CTL_LINK_OFFER_SIZE], unsigned connections)
{
    begin_take(client, key, 0, bytes, CTL_LINK_OFFER_SIZE, connections);
    rig_until(answer.count, 2 * SOON_MS);
    return answer.code;
}

static void assert_nobody_told(int links)
{
    rig_run_ms(50);
    assert_int_equal(n1.links + n2.links, links);
}

/* ---- the tests ---- */

RIG_TEST(test_taken)
{
    char bytes[CTL_LINK_OFFER_SIZE], again[CTL_LINK_OFFER_SIZE];
    begin(0);
    assert_int_equal(offer(&a, one->key, one->server, bytes), CTL_OK);
    assert_int_equal(offer(&a, one->key, 0, again), CTL_OK);
    assert_memory_not_equal(bytes, again, sizeof bytes);
    assert_int_equal(take(&a, two->key, bytes, 9), CTL_OK);
    assert_string_equal(answer.address, one->address);
    assert_int_equal(n2.links, 1);
    assert_int_equal(n1.links, 0);
    assert_true(n2.linked.source == two->server && n2.linked.target == one->server && n2.linked.prog == two->id);
    assert_int_equal(n2.linked.connections, 9);
    assert_string_equal(n2.dialled, one->address);
    /* It was taken; the other offer is another one. */
    assert_int_equal(take(&a, two->key, bytes, 9), CTL_NOT_FOUND);
    assert_true(strstr(answer.text, "taken before"));
    assert_nobody_told(1);
    assert_int_equal(take(&a, two->key, again, 17), CTL_OK);
    assert_nobody_told(2);
}

RIG_TEST(test_refused)
{
    char bytes[CTL_LINK_OFFER_SIZE], wrong[CTL_LINK_OFFER_SIZE];
    begin(0);
    assert_int_equal(offer(&a, one->key, two->server, bytes), CTL_DENIED);
    assert_int_equal(offer(&a, one->key + 100, 0, bytes), CTL_NOT_FOUND);
    assert_int_equal(offer(&a, one->key, 0, bytes), CTL_OK);
    memcpy(wrong, bytes, sizeof wrong);
    wrong[31] ^= 1;
    assert_int_equal(take(&a, two->key, wrong, 9), CTL_NOT_FOUND);
    begin_take(&a, two->key, 0, bytes, CTL_LINK_OFFER_SIZE - 1, 9);
    rig_until(answer.count, SOON_MS);
    assert_int_equal(answer.code, CTL_NOT_FOUND);
    begin_take(&a, two->key, one->server, bytes, CTL_LINK_OFFER_SIZE, 9);
    rig_until(answer.count, SOON_MS);
    assert_int_equal(answer.code, CTL_DENIED);
    assert_int_equal(take(&a, two->key, bytes, 0), CTL_INVALID);
    assert_int_equal(take(&a, two->key, bytes, 18), CTL_INVALID);
    /* Another VM's program has the bytes, and they are of no use to it; they are still of use to their own. */
    assert_int_equal(take(&b, other->key, bytes, 9), CTL_DENIED);
    assert_true(strstr(answer.text, "another VM"));
    assert_nobody_told(0);
    assert_int_equal(take(&a, two->key, bytes, 9), CTL_OK);
    assert_int_equal(offer(&a, one->key, 0, bytes), CTL_OK);
    client_end(&a, one);
    rig_until(admin_status().programs == 2, SOON_MS);
    assert_int_equal(take(&a, two->key, bytes, 9), CTL_NOT_FOUND);
    assert_nobody_told(1);
}

RIG_TEST(test_bounded)
{
    char bytes[CTL_LINK_OFFER_SIZE];
    begin(0);
    for (int i = 0; i < OFFERS_OF_VM; i++)
        assert_int_equal(offer(&a, i % 2 ? one->key : two->key, 0, bytes), CTL_OK);
    assert_int_equal(offer(&a, one->key, 0, bytes), CTL_BUSY);
    assert_int_equal(offer(&b, other->key, 0, bytes), CTL_OK);
    client_end(&a, one);
    rig_until(admin_status().programs == 2, SOON_MS);
    assert_int_equal(offer(&a, two->key, 0, bytes), CTL_OK);
}

RIG_TEST(test_events_are_bounded)
{
    char bytes[CTL_LINK_OFFER_SIZE];
    begin(0);
    assert_int_equal(offer(&a, one->key, 0, bytes), CTL_OK);
    for (int i = 0; i < 150; i++)
        assert_int_equal(take(&b, other->key, bytes, 9), CTL_DENIED);
    const unsigned told = admin_count_events("link-refused");
    assert_true(told >= 90 && told < 120);
}

RIG_TEST(test_the_node_fails)
{
    char bytes[CTL_LINK_OFFER_SIZE];
    begin(0);
    n2.bridge = CTL_LOST;
    assert_int_equal(offer(&a, one->key, 0, bytes), CTL_OK);
    assert_int_equal(take(&a, two->key, bytes, 9), CTL_LOST);
    assert_string_equal(answer.address, "");
    n2.bridge = CTL_WAITING;
    assert_int_equal(offer(&a, one->key, 0, bytes), CTL_OK);
    begin_take(&a, two->key, 0, bytes, sizeof bytes, 9);
    rig_until(n2.links == 2, SOON_MS);
    assert_int_equal(answer.count, 0);
    node_close(&n2);
    rig_until(answer.count, SOON_MS);
    assert_int_equal(answer.code, CTL_LOST);
    assert_true(strstr(answer.text, "node n2"));
    n2.bridge = CTL_OK;
    node_reopen(&n2);
    rig_until(n2.registered, SOON_MS);
    assert_nobody_told(2);              /* nobody waits for it any more */
}

RIG_TEST(test_the_asker_vanishes)
{
    char bytes[CTL_LINK_OFFER_SIZE];
    begin(0);
    n2.bridge = CTL_WAITING;
    assert_int_equal(offer(&a, one->key, 0, bytes), CTL_OK);
    begin_take(&a, two->key, 0, bytes, sizeof bytes, 9);
    rig_until(n2.links == 1, SOON_MS);
    client_close(&a);
    rig_run_ms(50);
    node_answer(&n2, n2.held_order, CTL_OK);
    client_open(&a);
    rig_until(a.registered, SOON_MS);
    n2.bridge = CTL_OK;
    assert_int_equal(offer(&a, one->key, 0, bytes), CTL_OK);
    assert_int_equal(take(&a, two->key, bytes, 9), CTL_OK);
}

/* The node hangs, and is told nothing of it when it is back. */
RIG_TEST(test_the_asker_vanishes_before_the_node_hears)
{
    char bytes[CTL_LINK_OFFER_SIZE];
    begin(0);
    assert_int_equal(offer(&a, one->key, 0, bytes), CTL_OK);
    n2.mute = true;
    begin_take(&a, two->key, 0, bytes, sizeof bytes, 9);
    rig_run_ms(50);
    client_close(&a);
    rig_run_ms(50);
    node_close(&n2);
    n2.registered = false;
    node_reopen(&n2);
    rig_until(n2.registered, SOON_MS);
    assert_nobody_told(0);
}

RIG_TEST(test_node_of_the_release_before)
{
    char bytes[CTL_LINK_OFFER_SIZE];
    begin(8);
    assert_int_equal(offer(&a, one->key, 0, bytes), CTL_OK);
    assert_int_equal(take(&a, two->key, bytes, 9), CTL_NOT_SUPPORTED);
    assert_true(strstr(answer.text, "node n2") && strstr(answer.text, "earlier release"));
    assert_nobody_told(0);
}

int main(void) { return unit_run(NULL, NULL); }
