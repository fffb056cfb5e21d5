/* admin_node.c: nodes as rows of a file, with the verifiers of their secrets. Further calls about nodes: admin.c. */
#include <stdio.h>
#include <string.h>

#include "control-managers/cluster-manager/changes.h"
#include "cpu/common/explain.h"

const char *admin_node_describe(const struct db_node *row, char out[DB_TEXT_SIZE])
{
    *out = '\0';
    if (row)
        snprintf(out, DB_TEXT_SIZE, "%s%s%s, %s", row->drained ? "drained" : "in use",
                 *row->drain_reason ? ": " : "", row->drain_reason,
                 row->has_stored ? "a secret of its own" : "no secret of its own");
    return out;
}

void admin_handle_node_export(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_named_page *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    admin_node_export_row rows[CTL_MAX_PAGE];
    admin_node_export_result result = { .status = { CTL_OK, (char *)"" }, .nodes = { 0, rows } };
    struct node *node;
    size_t at = map_after(&cluster->nodes, args->after);
    if (!*args->after)
        admin_note_export(session_of(conn), "nodes");
    for (; result.nodes.nodes_len < CTL_MAX_PAGE && (node = map_at(&cluster->nodes, at)); at++)
        rows[result.nodes.nodes_len++] = (admin_node_export_row){
            .name = node->row.name,
            .stored = { node->row.has_stored ? DB_STORED_SIZE : 0, (char *)node->row.stored },
            .drained = node->row.drained,
        };
    result.more = at < cluster->nodes.count;
    call_reply(call, &result);
}

static ctl_code prepare(struct cluster *cluster, struct change *change, char *text)
{
    const struct node *node = map_get(&cluster->nodes, change->name);
    struct db_node *row = &change->row.row.node;
    bool other = node && node->row.has_stored &&
                 (!change->has_stored || memcmp(node->row.stored, change->stored, DB_STORED_SIZE) != 0);
    if (other && !change->force)
        return explain(text, CTL_EXISTS, "node %s has another secret already", change->name);
    change->row = (struct db_change){ .action = DB_PUT, .kind = DB_NODE };
    if (node)
        *row = node->row;
    else
        snprintf(row->name, sizeof row->name, "%s", change->name);
    row->has_stored = change->has_stored;
    memcpy(row->stored, change->stored, sizeof row->stored);
    row->drained = change->drain;
    change->puts = node ? node->puts : 0;
    return CTL_OK;
}

static void carry_out(struct cluster *cluster, struct change *change)
{
    struct node *node = map_get(&cluster->nodes, change->name);
    char before[DB_TEXT_SIZE], after[DB_TEXT_SIZE];
    struct event_about which = { .node = change->name, .by = change->by, .after = after,
                                 .before = admin_node_describe(node ? &node->row : NULL, before) };
    if (!node)
        node = node_create(cluster, change->name);
    if (!node)
        return; /* no memory: it is there after the next start */
    bool other = node->row.has_stored != change->has_stored ||
                 memcmp(node->row.stored, change->stored, sizeof node->row.stored) != 0;
    memcpy(node->row.stored, change->stored, sizeof node->row.stored);
    node->row.has_stored = change->has_stored;
    node->row.drained = change->drain;
    admin_node_describe(&node->row, after);
    node->in_db = true;
    if (node->puts != change->puts)
        store_put_node(cluster, node); /* its row was written meanwhile, as it was before */
    node_set_schedulable(cluster, node);
    if (other && node->session)
        conn_close(node->session->conn, "the node has another secret");
    cluster_event(cluster, ADMIN_INFO, "node-added", &which, "from a file, %s, by %s",
                  change->has_stored ? "with the secret that it had" : "without a secret of its own", change->by);
    queue_retry(cluster);
}

static void reply(struct change *change, ctl_code code, char *text)
{
    ctl_plain_result result = { { code, text } };
    admin_note_answer(change->call, code, text);
    call_reply(change->call, &result);
}

static const struct change_kind import_kind = { "node", "flytctl node show", prepare, carry_out, reply };

void admin_handle_node_import(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_node_import_args *args = object;
    struct change change = { .kind = &import_kind, .call = call, .force = args->replace, .drain = args->node.drained };
    u_int size = args->node.stored.stored_len;
    char text[CTL_MAX_TEXT + 1];
    snprintf(change.name, sizeof change.name, "%s", args->node.name);
    change.has_stored = size == DB_STORED_SIZE;
    if (change.has_stored)
        memcpy(change.stored, args->node.stored.stored_val, DB_STORED_SIZE);
    if (!protocol_name_valid(args->node.name)) {
        explain(text, 0, "'%s' is no valid name: 1 to %d letters, digits, and . _ : -", args->node.name, CTL_MAX_NAME);
        reply(&change, CTL_INVALID, text);
    } else if (size && !change.has_stored) {
        reply(&change, CTL_INVALID, (char *)"the verifier of its secret has another size");
    } else {
        change_submit(conn, call, &change);
    }
}
