/*
 * cmd_node_file.c: nodes as a file, with the verifiers of their secrets: where another resource DB reads it, each node
 * keeps its secret. It is made readable for its owner only.
 */
#include <stdio.h>
#include <string.h>

#include "control-managers/flytctl/flytctl.h"

const struct option_row node_import_options[] = {
    { "update", 'u', NULL, "nodes that have another secret get that of the file", false },
    { 0 },
};

static int export_rows(struct flytctl *ctl, json_t *rows)
{
    char after[CTL_MAX_NAME + 1] = "";
    static char nothing[1];
    unsigned more;
    do {
        admin_named_page page = { .after = after, .only = nothing };
        admin_node_export_result result;
        int code = ask(ctl, ADMIN_NODE_EXPORT, &page, &result);
        if (code)
            return code;
        for (unsigned i = 0; i < result.nodes.nodes_len; i++) {
            const admin_node_export_row *row = &result.nodes.nodes_val[i];
            json_array_append_new(
                rows, json_pack("{s:o, s:b, s:o}", "name", json_text(row->name), "drained", row->drained != 0,
                                "verifier",
                                verifier_text((const u_char *)row->stored.stored_val, row->stored.stored_len)));
        }
        more = result.more && result.nodes.nodes_len;
        if (more)
            snprintf(after, sizeof after, "%s", result.nodes.nodes_val[result.nodes.nodes_len - 1].name);
        protocol_free((xdrproc_t)xdr_admin_node_export_result, &result);
    } while (more);
    return EXIT_FINE;
}

int command_node_export(struct flytctl *ctl)
{
    json_t *rows = json_array();
    int code = export_rows(ctl, rows);
    if (code) {
        json_decref(rows);
        return code;
    }
    size_t count = json_array_size(rows);
    json_t *file = json_pack("{s:s, s:i, s:o}", "format", "flyt-nodes", "version", 1, "nodes", rows);
    if (ctl->argc == 0 || strcmp(ctl->argv[0], "-") == 0) {
        print_json(file);
        return EXIT_FINE;
    }
    code = file_write(ctl, ctl->argv[0], file);
    json_decref(file);
    if (code == EXIT_FINE)
        report(ctl, json_pack("{s:i}", "count", (int)count), "%zu node%s written to %s", count, count == 1 ? "" : "s",
               ctl->argv[0]);
    return code;
}

/* NULL, or what is wrong with it. The name stays the row's; verifier: CTL_PROOF_SIZE bytes. */
static const char *read_row(const json_t *row, admin_node_export_row *node, u_char *verifier)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    const json_t *stored = json_object_get(row, "verifier");
    memset(node, 0, sizeof *node);
    if (!name || !protocol_name_valid(name))
        return "it has no valid name";
    if (!stored || json_object_get(row, "sms"))
        return "it is no node that `flytctl node export` has written";
    node->name = (char *)(uintptr_t)name;
    node->drained = json_is_true(json_object_get(row, "drained"));
    if (json_is_null(stored))
        return NULL;
    if (!verifier_read(stored, verifier))
        return "its verifier is broken";
    node->stored.stored_val = (char *)verifier;
    node->stored.stored_len = CTL_PROOF_SIZE;
    return NULL;
}

static int import_rows(struct flytctl *ctl, const json_t *rows)
{
    size_t i;
    json_t *row;
    int added = 0, failed = 0, first = EXIT_FINE;
    u_char verifier[CTL_PROOF_SIZE];
    json_array_foreach(rows, i, row) {
        admin_node_import_args args = { .replace = option_count(ctl, "update") > 0 };
        ctl_plain_result result;
        read_row(row, &args.node, verifier);
        look_with(ctl, "flytctl node show %s", args.node.name);
        int code = ask_raw(ctl, ADMIN_NODE_IMPORT, &args, &result);
        if (code == EXIT_FINE) {
            ctl_code status = result.status.code;
            if (status != CTL_OK)
                code = complain(ctl, exit_of_code(status), "node %s: %s%s", args.node.name, result.status.text,
                                status == CTL_EXISTS ? " (--update changes it)" : "");
            protocol_free((xdrproc_t)xdr_ctl_plain_result, &result);
        }
        added += code == EXIT_FINE;
        failed += code != EXIT_FINE;
        first = first ? first : code;
        if (code == EXIT_UNREACHABLE || code == EXIT_DB_AWAY || code == EXIT_UNKNOWN)
            break;                              /* the next ones would fare no better */
    }
    int left = (int)json_array_size(rows) - added - failed;
    if (added || !failed)
        report(ctl, json_pack("{s:i, s:i, s:i}", "added", added, "failed", failed, "not_tried", left),
               "%d added, %d failed, %d not tried", added, failed, left);
    return first;
}

int command_node_import(struct flytctl *ctl)
{
    int code = EXIT_FINE;
    json_t *rows = file_read(ctl, ctl->argv[0], "nodes", &code), *row;
    if (!rows)
        return code;
    size_t i;
    admin_node_export_row node;
    u_char verifier[CTL_PROOF_SIZE];
    /* All of it is looked at before anything is done. */
    json_array_foreach(rows, i, row) {
        const char *problem = read_row(row, &node, verifier);
        if (problem)
            code = complain(ctl, EXIT_USAGE, "%s: entry %zu: %s", ctl->argv[0], i + 1, problem);
    }
    if (code == EXIT_FINE)
        code = import_rows(ctl, rows);
    json_decref(rows);
    return code;
}
