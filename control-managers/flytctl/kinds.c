/* kinds.c: what there is in a cluster: columns of lists, lines of `show` and `describe`, and where rows come from. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/flytctl/flytctl.h"

static const struct column vm_columns[] = {
    { "NAME", "name", COLUMN_TEXT, NULL, 0 },
    { "ADDRESS", "address", COLUMN_TEXT, NULL, 3 },
    { "HOST", "host", COLUMN_TEXT, NULL, 6 },
    { "GPUS", "gpus", COLUMN_NUMBER, NULL, 7 },
    { "SMS", "sms", COLUMN_NUMBER, NULL, 0 },
    { "MEMORY", "memory", COLUMN_SIZE, NULL, 0 },
    { "SHARING", "sharing", COLUMN_LIST, NULL, 4 },
    { "GROUPING", "grouping", COLUMN_YES, NULL, 5 },
    { "CONNECTED", "connected", COLUMN_YES, NULL, 1 },
    { "SERVERS", "servers", COLUMN_NUMBER, NULL, 2 },
    { "PROGRAMS", "programs", COLUMN_NUMBER, NULL, 0 },
    { "WAITING", "waiting", COLUMN_NUMBER, NULL, 0 },
};

static const struct column vm_fields[] = {
    { "Name", "name", COLUMN_TEXT, NULL, 0 },
    { "Address", "address", COLUMN_TEXT, NULL, 0 },
    { "Host", "host", COLUMN_TEXT, NULL, 0 },
    { "GPUs of a program", "gpus", COLUMN_NUMBER, NULL, 0 },
    { "On many nodes", "spread", COLUMN_YES, NULL, 0 },
    { "Recovery", "recovery", COLUMN_TEXT, NULL, 0 },
    { "SMs of each GPU", "sms", COLUMN_NUMBER, NULL, 0 },
    { "Memory of each GPU", "memory", COLUMN_SIZE, NULL, 0 },
    { "Sharing accepted", "sharing", COLUMN_LIST, NULL, 0 },
    { "Grouping", "grouping", COLUMN_YES, NULL, 0 },
    { "When no GPU is free", "wait", COLUMN_TEXT, NULL, 0 },
    { "Has a secret", "has_secret", COLUMN_YES, NULL, 0 },
    { "Connected", "connected", COLUMN_YES, NULL, 0 },
    { "Encrypted", "encrypted", COLUMN_YES, NULL, 0 },
    { "Last heard", "last_heard", COLUMN_AGO, NULL, 0 },
    { "GPU servers", "servers", COLUMN_NUMBER, NULL, 0 },
    { "Programs", "programs", COLUMN_NUMBER, NULL, 0 },
    { "Waiting", "waiting", COLUMN_NUMBER, NULL, 0 },
};

static const struct column node_columns[] = {
    { "NAME", "name", COLUMN_TEXT, NULL, 0 },
    { "STATE", "state", COLUMN_TEXT, NULL, 0 },
    { "DRAINED", "drained", COLUMN_YES, NULL, 1 },
    { "HOST", "host", COLUMN_TEXT, NULL, 2 },
    { "GPUS", "gpu_count", COLUMN_NUMBER, NULL, 0 },
    { "SMS", "sms_used", COLUMN_PART, "sms", 0 },
    { "MEMORY", "memory_used", COLUMN_PART_SIZE, "memory", 0 },
    { "SERVERS", "servers", COLUMN_NUMBER, NULL, 0 },
    { "HEARD", "last_heard", COLUMN_AGO, NULL, 0 },
};
static const struct column node_fields[] = {
    { "Name", "name", COLUMN_TEXT, NULL, 0 },
    { "Host", "host", COLUMN_TEXT, NULL, 0 },
    { "Addresses", "addresses", COLUMN_LIST, NULL, 0 },
    { "State", "state", COLUMN_TEXT, NULL, 0 },
    { "Drained", "drained", COLUMN_YES, NULL, 0 },
    { "Drained because", "drain_reason", COLUMN_TEXT, NULL, 0 },
    { "Last heard", "last_heard", COLUMN_AGO, NULL, 0 },
    { "Software", "software", COLUMN_TEXT, NULL, 0 },
    { "SMs used", "sms_used", COLUMN_PART, "sms", 0 },
    { "Memory used", "memory_used", COLUMN_PART_SIZE, "memory", 0 },
    { "GPU servers", "servers", COLUMN_NUMBER, NULL, 0 },
    { "Encrypted", "encrypted", COLUMN_YES, NULL, 0 },
    { "Has a secret", "has_secret", COLUMN_YES, NULL, 0 },
};
static const struct column gpu_columns[] = {
    { "GPU", "id", COLUMN_END, NULL, 0 },
    { "NODE", "node", COLUMN_TEXT, NULL, 0 },
    { "PRODUCT", "product", COLUMN_TEXT, NULL, 3 },
    { "STATE", "state", COLUMN_TEXT, NULL, 0 },
    { "SMS", "sms_used", COLUMN_PART, "sms", 0 },
    { "MEMORY", "memory_used", COLUMN_PART_SIZE, "memory", 0 },
    { "SHARING", "sharing", COLUMN_LIST, NULL, 2 },
    { "LIMITS", "sm_limits", COLUMN_YES, NULL, 4 },
    { "SERVERS", "servers", COLUMN_NUMBER, NULL, 0 },
    { "REMARK", "text", COLUMN_TEXT, NULL, 1 },
};
static const struct column gpu_fields[] = {
    { "GPU", "id", COLUMN_TEXT, NULL, 0 },
    { "Node", "node", COLUMN_TEXT, NULL, 0 },
    { "State of the node", "node_state", COLUMN_TEXT, NULL, 0 },
    { "Product", "product", COLUMN_TEXT, NULL, 0 },
    { "Index", "index", COLUMN_NUMBER, NULL, 0 },
    { "State", "state", COLUMN_TEXT, NULL, 0 },
    { "Remark", "text", COLUMN_TEXT, NULL, 0 },
    { "SMs used", "sms_used", COLUMN_PART, "sms", 0 },
    { "Memory used", "memory_used", COLUMN_PART_SIZE, "memory", 0 },
    { "MHz", "clock_mhz", COLUMN_NUMBER, NULL, 0 },
    { "Sharing offered", "sharing", COLUMN_LIST, NULL, 0 },
    { "Holds limits of SMs", "sm_limits", COLUMN_YES, NULL, 0 },
    { "GPU servers", "servers", COLUMN_NUMBER, NULL, 0 },
};
static const struct column server_columns[] = {
    { "ID", "id", COLUMN_NUMBER, NULL, 0 },
    { "VM", "vm", COLUMN_TEXT, NULL, 0 },
    { "NODE", "node", COLUMN_TEXT, NULL, 0 },
    { "GPU", "gpus", COLUMN_LIST, NULL, 7 },
    { "STATE", "state", COLUMN_TEXT, NULL, 0 },
    { "SHARING", "sharing", COLUMN_TEXT, NULL, 2 },
    { "GPUS", "gpu_count", COLUMN_NUMBER, NULL, 4 },
    { "SMS", "sms_granted", COLUMN_PART, "sms", 0 },
    { "MEMORY", "memory_used", COLUMN_PART_SIZE, "memory_total", 0 },
    { "PROGRAMS", "programs", COLUMN_NUMBER, NULL, 0 },
    { "PID", "pid", COLUMN_NUMBER, NULL, 6 },
    { "BY", "transports", COLUMN_LIST, NULL, 3 },
    { "RESTARTS", "restarts", COLUMN_NUMBER, NULL, 4 },
    { "REMARK", "text", COLUMN_TEXT, NULL, 1 },
};
static const struct column server_fields[] = {
    { "ID", "id", COLUMN_NUMBER, NULL, 0 },
    { "VM", "vm", COLUMN_TEXT, NULL, 0 },
    { "Node", "node", COLUMN_TEXT, NULL, 0 },
    { "Its node is silent", "silent", COLUMN_YES, NULL, 0 },
    { "GPUs", "gpus", COLUMN_LIST, NULL, 0 },
    { "State", "state", COLUMN_TEXT, NULL, 0 },
    { "Remark", "text", COLUMN_TEXT, NULL, 0 },
    { "Sharing", "sharing", COLUMN_TEXT, NULL, 0 },
    { "SMs granted, of each GPU", "sms_granted", COLUMN_PART, "sms", 0 },
    { "Memory used, of all GPUs", "memory_used", COLUMN_PART_SIZE, "memory_total", 0 },
    { "Only for program", "program", COLUMN_NUMBER, NULL, 0 },
    { "Programs", "programs", COLUMN_NUMBER, NULL, 0 },
    { "Workers", "workers", COLUMN_NUMBER, NULL, 0 },
    { "PID", "pid", COLUMN_NUMBER, NULL, 0 },
    { "Restarts", "restarts", COLUMN_NUMBER, NULL, 0 },
    { "Created", "created", COLUMN_AGO, NULL, 0 },
    { "Addresses", "addresses", COLUMN_LIST, NULL, 0 },
};
static const struct column program_columns[] = {
    { "ID", "id", COLUMN_NUMBER, NULL, 0 },
    { "VM", "vm", COLUMN_TEXT, NULL, 0 },
    { "PID", "pid", COLUMN_NUMBER, NULL, 0 },
    { "STATE", "state", COLUMN_TEXT, NULL, 0 },
    { "POSITION", "position", COLUMN_NUMBER, NULL, 1 },
    { "SERVER", "server", COLUMN_NUMBER, NULL, 0 },
    { "GPUS", "gpus", COLUMN_NUMBER, NULL, 3 },
    { "OVER", "transport", COLUMN_TEXT, NULL, 2 },
    { "SINCE", "since", COLUMN_AGO, NULL, 0 },
    { "REASON", "why", COLUMN_TEXT, NULL, 3 },
    { "RECOVERY", "recovery", COLUMN_TEXT, NULL, 4 },
    { "EXECUTABLE", "executable", COLUMN_END, NULL, 0 },
};
static const struct column program_fields[] = {
    { "ID", "id", COLUMN_NUMBER, NULL, 0 },
    { "VM", "vm", COLUMN_TEXT, NULL, 0 },
    { "Executable", "executable", COLUMN_TEXT, NULL, 0 },
    { "PID", "pid", COLUMN_NUMBER, NULL, 0 },
    { "UID", "uid", COLUMN_NUMBER, NULL, 0 },
    { "State", "state", COLUMN_TEXT, NULL, 0 },
    { "Position in line", "position", COLUMN_NUMBER, NULL, 0 },
    { "Reason", "why", COLUMN_TEXT, NULL, 0 },
    { "Since", "since", COLUMN_AGO, NULL, 0 },
    { "GPU server", "server", COLUMN_NUMBER, NULL, 0 },
    { "GPUs", "gpus", COLUMN_NUMBER, NULL, 0 },
    { "Calls go over", "transport", COLUMN_TEXT, NULL, 0 },
    { "Because", "transport_why", COLUMN_TEXT, NULL, 0 },
    { "Recovery", "recovery", COLUMN_TEXT, NULL, 0 },
    { "Not protected because", "recovery_why", COLUMN_TEXT, NULL, 0 },
};
static const struct column move_columns[] = {
    { "ID", "id", COLUMN_NUMBER, NULL, 0 },
    { "WHAT", "action", COLUMN_TEXT, NULL, 0 },
    { "PROGRAM", "program", COLUMN_NUMBER, NULL, 0 },
    { "VM", "vm", COLUMN_TEXT, NULL, 0 },
    { "STATE", "state", COLUMN_TEXT, NULL, 0 },
    { "PHASE", "phase", COLUMN_TEXT, NULL, 1 },
    { "FROM", "from_node", COLUMN_TEXT, NULL, 0 },
    { "GPU", "from_gpu", COLUMN_TEXT, NULL, 3 },
    { "TO", "to_node", COLUMN_TEXT, NULL, 0 },
    { "GPU", "to_gpu", COLUMN_TEXT, NULL, 3 },
    { "BEGUN", "begun", COLUMN_AGO, NULL, 1 },
    { "OUTAGE-MS", "outage_ms", COLUMN_NUMBER, NULL, 1 },
    { "COPIED", "bytes_done", COLUMN_PART_SIZE, "bytes_total", 2 },
    { "RATE", "rate", COLUMN_SIZE, NULL, 2 },
    { "BY", "by", COLUMN_TEXT, NULL, 2 },
    { "WHY", "why", COLUMN_TEXT, NULL, 1 },
};
static const struct column move_fields[] = {
    { "ID", "id", COLUMN_NUMBER, NULL, 0 },
    { "What", "action", COLUMN_TEXT, NULL, 0 },
    { "Program", "program", COLUMN_NUMBER, NULL, 0 },
    { "VM", "vm", COLUMN_TEXT, NULL, 0 },
    { "Executable", "executable", COLUMN_TEXT, NULL, 0 },
    { "State", "state", COLUMN_TEXT, NULL, 0 },
    { "Phase", "phase", COLUMN_TEXT, NULL, 0 },
    { "Why", "why", COLUMN_TEXT, NULL, 0 },
    { "From node", "from_node", COLUMN_TEXT, NULL, 0 },
    { "From GPU", "from_gpu", COLUMN_TEXT, NULL, 0 },
    { "To node", "to_node", COLUMN_TEXT, NULL, 0 },
    { "To GPU", "to_gpu", COLUMN_TEXT, NULL, 0 },
    { "Begun", "begun", COLUMN_AGO, NULL, 0 },
    { "Outage in ms", "outage_ms", COLUMN_NUMBER, NULL, 0 },
    { "Copied", "bytes_done", COLUMN_PART_SIZE, "bytes_total", 0 },
    { "Bytes a second", "rate", COLUMN_SIZE, NULL, 0 },
    { "At most", "bandwidth", COLUMN_SIZE, NULL, 0 },
    { "Downtime in ms, at most", "downtime_ms", COLUMN_NUMBER, NULL, 0 },
    { "By", "by", COLUMN_TEXT, NULL, 0 },
};

#define SHOWN(name)                                                                                   \
    .columns = name##_columns, .count = COUNT(name##_columns), .fields = name##_fields,               \
    .field_count = COUNT(name##_fields)
const struct row_kind all_kinds[] = {
    { .name = "vm", .key = "name", .when_empty = "No VM is entitled to anything; see flytctl vm add --help.",
      .source = ROWS_VMS, SHOWN(vm) },
    { .name = "node", .key = "name", .when_empty = "No node has joined this cluster.", .source = ROWS_NODES,
      SHOWN(node) },
    { .name = "gpu", .key = "id", .when_empty = "No node has a GPU.", .source = ROWS_NODES, .of_nodes = true,
      SHOWN(gpu) },
    { .name = "server", .key = "id", .when_empty = "No GPU server runs.", .source = ROWS_SERVERS,
      SHOWN(server) },
    { .name = "program", .key = "id", .when_empty = "No program runs or waits.", .source = ROWS_PROGRAMS,
      SHOWN(program) },
    { .name = "move", .key = "id", .when_empty = "No program moves, or moved lately.", .source = ROWS_MOVES,
      SHOWN(move) },
    { 0 },
};

const struct row_kind *kind_find(const char *name)
{
    for (const struct row_kind *kind = all_kinds; kind->name; kind++)
        if (strcmp(kind->name, name) == 0)
            return kind;
    return NULL;
}

int kind_rows(struct flytctl *ctl, const struct row_kind *kind, const struct rows_query *query, json_t **rows)
{
    const struct rows_asker asker = row_asker(ctl);
    int code = rows_list(&asker, kind->source, query, rows);
    if (code || !kind->of_nodes)
        return code;
    json_t *nodes = *rows;
    *rows = rows_gpus(nodes);
    json_decref(nodes);
    return code;
}

json_t *kind_example(const struct row_kind *kind)
{
    json_t *row = rows_example(kind->source);
    if (!kind->of_nodes)
        return row;
    json_t *nodes = json_pack("[o]", row), *gpus = rows_gpus(nodes);
    row = json_incref(json_array_get(gpus, 0));
    json_decref(gpus);
    json_decref(nodes);
    return row;
}

static const char *kind_noun(const struct row_kind *kind)
{
    static const struct {
        const char *name, *noun;
    } nouns[] = { { "vm", "VM" }, { "gpu", "GPU" }, { "server", "GPU server" } };
    for (size_t i = 0; i < COUNT(nouns); i++)
        if (strcmp(nouns[i].name, kind->name) == 0)
            return nouns[i].noun;
    return kind->name;
}

int kind_row(struct flytctl *ctl, const struct row_kind *kind, const char *name, json_t **row)
{
    bool by_name = !kind->of_nodes && strcmp(kind->key, "name") == 0;
    const struct rows_query query = { .only = by_name ? name : NULL };
    json_t *rows, *each;
    uint64_t id = 0;
    size_t i;
    *row = NULL;
    if (!by_name && !kind->of_nodes && !parse_id(ctl, name, &id))
        return EXIT_USAGE;
    int code = kind_rows(ctl, kind, &query, &rows);
    if (code)
        return code;
    json_array_foreach(rows, i, each)
    {
        const json_t *value = json_object_get(each, kind->key);
        const char *text = json_string_value(value);
        if (!*row && (text ? by_name || strcmp(text, name) == 0 : (uint64_t)json_integer_value(value) == id))
            *row = json_incref(each);
    }
    json_decref(rows);
    return *row ? EXIT_FINE : complain(ctl, EXIT_NOT_FOUND, "there is no %s '%s'", kind_noun(kind), name);
}
