/*
 * test_model.c: graphs as data, without a server: the client's own objects over the core that tests of the Runtime API
 * use. What a launch gives to which stream is read from that core.
 */
#include "cpu/client/graph/capture.h"
#include "cpu/client/graph/executable.h"
#include "tests/lib/unit.h"
#include "tests/runtime/fake_core.h"

static core_context *context;

static int begin(void **state)
{
    (void)state;
    fake_core_reset();
    context = core_context_primary(0);
    return core_context_retain(context);
}

static graph_node empty(graph_handle g, const graph_node *before, size_t count)
{
    struct graph_parameters p = { .kind = GRAPH_EMPTY, .context = context };
    graph_node node;
    assert_int_equal(graph_add(g, before, NULL, count, &p, &node), 0);
    return node;
}

static void ignore(void *user) { (void)user; }

static struct graph_parameters host(void *user)
{
    return (struct graph_parameters){ .kind = GRAPH_HOST, .context = context, .host = { ignore, user } };
}

TEST_WITH(nodes_keep_order_and_lists_have_their_rules, begin, NULL)
{
    graph_handle g;
    graph_node nodes[3], found[5], from[5], to[5];
    size_t count = 0;
    assert_int_equal(graph_create(&g), 0);
    nodes[0] = empty(g, NULL, 0);
    nodes[1] = empty(g, nodes, 1);
    nodes[2] = empty(g, nodes, 2);
    assert_int_equal(graph_nodes(g, NULL, &count), 0);
    assert_int_equal(count, 3);
    count = 5;
    memset(found, 0xFF, sizeof found);
    assert_int_equal(graph_nodes(g, found, &count), 0);
    assert_int_equal(count, 3);
    assert_memory_equal(found, nodes, sizeof nodes);
    assert_int_equal(found[3], 0); /* the rest of the room is zeroed */
    count = 1;
    assert_int_equal(graph_nodes(g, found, &count), 0);
    assert_int_equal(count, 1);
    count = 5;
    assert_int_equal(graph_edges(g, from, to, NULL, &count), 0);
    assert_int_equal(count, 3);
    assert_true(from[2] == nodes[1] && to[2] == nodes[2]);
    assert_int_equal(graph_edges(g, from, NULL, NULL, &count), 1);
    count = 5;
    assert_int_equal(graph_before(nodes[2], found, NULL, &count), 0);
    assert_true(count == 2 && found[0] == nodes[0] && found[1] == nodes[1]);
    count = 5;
    assert_int_equal(graph_after(nodes[0], found, NULL, &count), 0);
    assert_true(count == 2 && found[0] == nodes[1]);
    assert_int_equal(graph_remove(nodes[1]), 0);
    count = 5;
    assert_int_equal(graph_after(nodes[0], found, NULL, &count), 0);
    assert_true(count == 1 && found[0] == nodes[2]);
    assert_int_equal(graph_remove(nodes[1]), 1);
    assert_int_equal(graph_destroy(g), 0);
    assert_int_equal(graph_nodes(g, NULL, &count), 1);
    assert_int_equal(graph_after(nodes[0], NULL, NULL, &count), 1);
    assert_int_equal(graph_destroy(0), 1);
    assert_int_equal(graph_destroy(nodes[0]), 1); /* a token of another kind */
}

TEST_WITH(edges_are_changed_as_a_whole, begin, NULL)
{
    graph_handle g, other;
    size_t count = 0;
    assert_int_equal(graph_create(&g), 0);
    assert_int_equal(graph_create(&other), 0);
    const graph_node a = empty(g, NULL, 0), b = empty(g, NULL, 0), c = empty(g, NULL, 0),
                     foreign = empty(other, NULL, 0);
    const graph_node from[] = { a, b }, to[] = { b, c }, wrong[] = { b, foreign };
    assert_int_equal(graph_connect(g, from, wrong, NULL, 2), 1);
    assert_int_equal(graph_edges(g, NULL, NULL, NULL, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(graph_connect(g, from, to, NULL, 2), 0);
    assert_int_equal(graph_connect(g, from, to, NULL, 1), 1); /* is there already */
    assert_int_equal(graph_connect(g, &a, &a, NULL, 1), 1);
    const graph_node missing[] = { b, a };
    assert_int_equal(graph_disconnect(g, from, missing, NULL, 2), 1);
    assert_int_equal(graph_edges(g, NULL, NULL, NULL, &count), 0);
    assert_int_equal(count, 2);
    const struct graph_edge programmatic = { .type = 1, .from_port = 1 };
    assert_int_equal(graph_connect(g, &a, &c, &programmatic, 1), 1); /* only between kernels */
    assert_int_equal(graph_disconnect(g, from, to, NULL, 2), 0);
    assert_int_equal(graph_destroy(g), 0);
    assert_int_equal(graph_destroy(other), 0);
}

TEST_WITH(clones_and_children_are_copies, begin, NULL)
{
    graph_handle inner, outer, clone;
    graph_node child, found, in_clone;
    int user;
    struct graph_parameters p = host(&user), got;
    assert_int_equal(graph_create(&inner), 0);
    graph_node node;
    assert_int_equal(graph_add(inner, NULL, NULL, 0, &p, &node), 0);
    assert_int_equal(graph_create(&outer), 0);
    p = (struct graph_parameters){ .kind = GRAPH_CHILD, .context = context, .child = inner };
    assert_int_equal(graph_add(outer, NULL, NULL, 0, &p, &child), 0);
    assert_int_equal(graph_get(child, GRAPH_CHILD, &got), 0);
    assert_true(got.child != inner);
    assert_int_equal(graph_destroy(got.child), 1); /* it belongs to its node */
    assert_int_equal(graph_find_in_clone(node, got.child, &found), 0);
    assert_int_equal(graph_clone(outer, &clone), 0);
    assert_int_equal(graph_find_in_clone(child, clone, &in_clone), 0);
    assert_int_equal(graph_find_in_clone(node, clone, &in_clone), 1);
    p = host(NULL);
    assert_int_equal(graph_set_parameters(node, &p), 0);
    assert_int_equal(graph_get(found, GRAPH_HOST, &got), 0);
    assert_ptr_equal(got.host.user, &user);
    assert_int_equal(graph_get(found, GRAPH_SET, &got), 1);
    assert_int_equal(graph_destroy(inner), 0);
    assert_int_equal(graph_destroy(outer), 0);
    assert_int_equal(graph_get(found, GRAPH_HOST, &got), 1);
    size_t count = 0;
    assert_int_equal(graph_nodes(clone, NULL, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(graph_destroy(clone), 0);
}

TEST_WITH(parameters_are_checked, begin, NULL)
{
    graph_handle g;
    graph_node node;
    assert_int_equal(graph_create(&g), 0);
    struct graph_parameters p = { .kind = GRAPH_HOST, .context = context };
    assert_int_equal(graph_add(g, NULL, NULL, 0, &p, &node), 1);
    p = (struct graph_parameters){ .kind = GRAPH_SET, .context = context, .set = { 256, 0, 1, 3, 4, 1 } };
    assert_int_equal(graph_add(g, NULL, NULL, 0, &p, &node), 1); /* elements of 3 bytes */
    p.set.element = 4;
    p.set.to = 254;
    assert_int_equal(graph_add(g, NULL, NULL, 0, &p, &node), 1);
    p.set.to = 256;
    p.set.height = 2;
    p.set.pitch = 8;
    assert_int_equal(graph_add(g, NULL, NULL, 0, &p, &node), 1); /* rows overlap */
    p.set.pitch = 16;
    assert_int_equal(graph_add(g, NULL, NULL, 0, &p, &node), 0);
    p = (struct graph_parameters){ .kind = GRAPH_RECORD_EVENT, .context = context, .event = 7 };
    assert_int_equal(graph_add(g, NULL, NULL, 0, &p, &node), 400);
    p = (struct graph_parameters){ .kind = GRAPH_COPY, .context = context };
    assert_int_equal(graph_add(g, NULL, NULL, 0, &p, &node), 1);
    p = (struct graph_parameters){ .kind = GRAPH_FREE, .context = context, .freed = 256 };
    assert_int_equal(graph_add(g, NULL, NULL, 0, &p, &node), 1);
    p = (struct graph_parameters){ .kind = GRAPH_CHILD, .context = context, .child = 77 };
    assert_int_equal(graph_add(g, NULL, NULL, 0, &p, &node), 1);
    size_t count = 0;
    assert_int_equal(graph_nodes(g, NULL, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(graph_destroy(g), 0);
}

TEST_WITH(a_cycle_is_found_when_instantiated, begin, NULL)
{
    graph_handle g;
    graph_executable e;
    struct graph_failure failure;
    assert_int_equal(graph_create(&g), 0);
    const graph_node a = empty(g, NULL, 0), b = empty(g, &a, 1), c = empty(g, &b, 1);
    assert_int_equal(graph_instantiate(g, 0, &e, &failure), 0);
    assert_int_equal(failure.reason, GRAPH_MADE);
    assert_int_equal(graph_executable_destroy(e), 0);
    assert_int_equal(graph_executable_destroy(e), 1);
    assert_int_equal(graph_connect(g, &c, &b, NULL, 1), 0);
    assert_int_equal(graph_instantiate(g, 0, &e, &failure), 1);
    assert_int_equal(failure.reason, GRAPH_INVALID_STRUCTURE);
    assert_true(failure.node == b || failure.node == c);
    assert_int_equal(graph_instantiate(g, 1 << 9, &e, &failure), 1);
    assert_int_equal(graph_instantiate(g, GRAPH_DEVICE_LAUNCH, &e, &failure), 801);
    assert_int_equal(graph_destroy(g), 0);
}

/* The plan of a graph whose nodes are host functions; edges are pairs of places. */
static struct graph *planned(struct plan *plan, size_t count, const int (*edges)[2], size_t edge_count)
{
    struct model_node *nodes[64], *cycle;
    assert_int_equal(graphs_enter(), 0);
    struct graph *g = graph_new(false);
    for (size_t i = 0; i < count; i++) {
        struct graph_parameters p = host(NULL);
        nodes[i] = node_new(g, &p, false);
    }
    for (size_t i = 0; i < edge_count; i++)
        assert_true(node_connect(nodes[edges[i][0]], nodes[edges[i][1]], NULL));
    graphs_leave();
    assert_int_equal(plan_make(plan, g, &cycle), 0);
    return g;
}

static void drop(struct plan *plan, struct graph *g)
{
    plan_drop(plan);
    assert_int_equal(graphs_enter(), 0);
    graph_free(g);
    graphs_leave();
}

static size_t waits_of(const struct plan *p)
{
    size_t waits = p->end_count;
    for (size_t i = 0; i < p->count; i++)
        waits += p->steps[i].wait_count;
    return waits;
}

TEST_WITH(plans_use_no_more_tracks_and_waits_than_they_need, begin, NULL)
{
    struct plan plan;
    const int chain[][2] = { { 0, 1 }, { 1, 2 }, { 0, 2 } };
    struct graph *g = planned(&plan, 3, chain, 3);
    assert_int_equal(plan.track_count, 1);
    assert_int_equal(waits_of(&plan), 0);
    drop(&plan, g);
    const int diamonds[][2] = { { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 3 }, { 3, 4 }, { 3, 5 }, { 4, 6 }, { 5, 6 } };
    g = planned(&plan, 7, diamonds, 8);
    assert_int_equal(plan.track_count, 2); /* the second diamond uses the track of the first again */
    assert_int_equal(waits_of(&plan), 4);
    assert_int_equal(plan.end_count, 0);
    drop(&plan, g);
    /* more branches than tracks: some follow each other */
    g = planned(&plan, 40, NULL, 0);
    assert_int_equal(plan.track_count, TRACKS_MOST);
    assert_int_equal(plan.end_count, TRACKS_MOST - 1);
    drop(&plan, g);
    /* the end of a branch that nothing follows is waited for, too */
    const int loose[][2] = { { 0, 1 }, { 0, 2 } };
    g = planned(&plan, 3, loose, 2);
    assert_int_equal(plan.track_count, 2);
    assert_int_equal(plan.end_count, 1);
    drop(&plan, g);
}

TEST_WITH(updates_compare_the_whole_form, begin, NULL)
{
    graph_handle g, other;
    graph_executable e;
    struct graph_failure failure;
    struct graph_update update;
    assert_int_equal(graph_create(&g), 0);
    struct graph_parameters p = host(NULL);
    graph_node a, b;
    assert_int_equal(graph_add(g, NULL, NULL, 0, &p, &a), 0);
    assert_int_equal(graph_add(g, &a, NULL, 1, &p, &b), 0);
    assert_int_equal(graph_instantiate(g, 0, &e, &failure), 0);
    assert_int_equal(graph_executable_update(e, g, &update), 0);
    assert_int_equal(update.result, GRAPH_UPDATED);
    assert_int_equal(graph_disconnect(g, &a, &b, NULL, 1), 0);
    assert_int_equal(graph_executable_update(e, g, &update), 910);
    assert_true(update.result == GRAPH_TOPOLOGY_CHANGED && update.node == b);
    assert_int_equal(graph_create(&other), 0);
    assert_int_equal(graph_add(other, NULL, NULL, 0, &p, &a), 0);
    b = empty(other, &a, 1);
    assert_int_equal(graph_executable_update(e, other, &update), 910);
    assert_true(update.result == GRAPH_KIND_CHANGED && update.node == b);
    assert_int_equal(graph_executable_update(e, 5, &update), 1);
    assert_int_equal(graph_executable_set(e, b, &p), 1); /* not a node of the graph that it was made of */
    assert_int_equal(graph_executable_destroy(e), 0);
    assert_int_equal(graph_destroy(g), 0);
    assert_int_equal(graph_destroy(other), 0);
}

static int ended;
static void note_end(void *user) { ended += *(int *)user; }

TEST_WITH(user_objects_end_with_their_last_holder, begin, NULL)
{
    graph_handle g, clone;
    graph_object object;
    int one = 1;
    ended = 0;
    assert_int_equal(graph_object_create(&one, NULL, 1, &object), 1);
    assert_int_equal(graph_object_create(&one, note_end, 0, &object), 1);
    assert_int_equal(graph_object_create(&one, note_end, 2, &object), 0);
    assert_int_equal(graph_create(&g), 0);
    assert_int_equal(graph_object_give(g, object, 1, false), 0);
    assert_int_equal(graph_clone(g, &clone), 0);
    assert_int_equal(graph_object_release(object, 2), 0);
    assert_int_equal(graph_object_take(g, object, 2), 1);
    assert_int_equal(graph_object_take(g, object, 1), 0);
    assert_int_equal(ended, 0);
    assert_int_equal(graph_destroy(clone), 0);
    assert_int_equal(ended, 1);
    assert_int_equal(graph_object_retain(object, 1), 1);
    assert_int_equal(graph_destroy(g), 0);
}

static graph_handle holder(graph_object *object, int *add)
{
    graph_handle g;
    assert_int_equal(graph_create(&g), 0);
    assert_int_equal(graph_object_create(add, note_end, 1, object), 0);
    assert_int_equal(graph_object_give(g, *object, 1, true), 0);
    empty(g, NULL, 0);
    return g;
}

TEST_WITH(an_update_replaces_user_objects, begin, NULL)
{
    int first = 1, second = 10, inner = 100;
    graph_object object;
    graph_executable e;
    struct graph_failure failure;
    struct graph_update update;
    graph_handle a = holder(&object, &first), b = holder(&object, &second), child = holder(&object, &inner), wrong;
    ended = 0;
    assert_int_equal(graph_instantiate(a, 0, &e, &failure), 0);
    assert_int_equal(graph_destroy(a), 0);
    assert_int_equal(graph_create(&wrong), 0);
    assert_int_equal(graph_executable_update(e, wrong, &update), 910);
    assert_int_equal(ended, 0);                       /* an update that fails changes nothing */
    assert_int_equal(graph_executable_update(e, b, &update), 0);
    assert_int_equal(ended, 1);
    assert_int_equal(graph_executable_update(e, b, &update), 0);
    assert_int_equal(graph_destroy(b), 0);
    assert_int_equal(ended, 1);                       /* the executable holds it */
    assert_int_equal(graph_executable_destroy(e), 0);
    assert_int_equal(ended, 11);

    /* A child's references are the child's. */
    struct graph_parameters p = { .kind = GRAPH_CHILD, .context = context, .child = child };
    graph_handle outer, other = holder(&object, &second);
    graph_node node;
    assert_int_equal(graph_create(&outer), 0);
    assert_int_equal(graph_add(outer, NULL, NULL, 0, &p, &node), 0);
    assert_int_equal(graph_destroy(child), 0);
    assert_int_equal(graph_instantiate(outer, 0, &e, &failure), 0);
    p.child = other;
    assert_int_equal(graph_executable_set(e, node, &p), 0);
    assert_int_equal(graph_destroy(other), 0);
    assert_int_equal(ended, 11);                      /* the outer graph's child still holds it */
    assert_int_equal(graph_destroy(outer), 0);
    assert_int_equal(ended, 111);
    assert_int_equal(graph_executable_destroy(e), 0);
    assert_int_equal(ended, 121);
    assert_int_equal(graph_destroy(wrong), 0);
}

TEST_WITH(the_child_of_a_fork_gets_3, begin, NULL)
{
    graph_handle g;
    fake_core()->forked = true;
    assert_int_equal(graph_create(&g), 3);
    fake_core()->forked = false;
}

TEST_WITH(captures_keep_host_functions, begin, NULL)
{
    core_stream stream;
    graph_handle g;
    bool kept = false;
    struct capture_info info;
    assert_int_equal(core_stream_create(context, 1, 0, &stream), 0);
    assert_false(capture_any());
    assert_int_equal(capture_end(context, stream, &g), 401);
    assert_int_equal(capture_begin(context, 0, CAPTURE_GLOBAL), 900);
    assert_int_equal(capture_begin(context, stream, CAPTURE_GLOBAL), 0);
    assert_true(capture_any());
    assert_int_equal(capture_info(context, stream, &info), 0);
    assert_true(info.status == CAPTURE_ACTIVE && info.graph && info.count == 0);
    assert_int_equal(graph_destroy(info.graph), 1); /* not while it is captured */
    assert_int_equal(capture_host(context, stream, ignore, NULL, &kept), 0);
    assert_true(kept);
    assert_int_equal(capture_info(context, stream, &info), 0);
    assert_int_equal(info.count, 1);
    assert_int_equal(capture_end(context, stream, &g), 0);
    assert_int_equal(g, info.graph);
    assert_false(capture_any());
    size_t count = 0;
    assert_int_equal(graph_nodes(g, NULL, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(graph_destroy(g), 0);
    assert_int_equal(core_stream_destroy(stream), 0);
}

int main(void) { return unit_run(NULL, NULL); }
