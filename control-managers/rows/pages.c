/*
 * pages.c: whole listings. All results of listings look alike: a status, an array of rows, and whether there are more.
 * So one function reads them all; the table says how long a row is, and where its key stands.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/rows/rows.h"

struct any_page {
    ctl_status status;
    struct {
        u_int len;
        void *val;
    } rows;
    u_int more;
};

#define SAME_SHAPE(type, array)                                                                    \
    _Static_assert(sizeof(type) == sizeof(struct any_page) &&                                      \
                       offsetof(type, array.array##_len) == offsetof(struct any_page, rows.len) && \
                       offsetof(type, array.array##_val) == offsetof(struct any_page, rows.val) && \
                       offsetof(type, more) == offsetof(struct any_page, more),                    \
                   #type)
SAME_SHAPE(admin_nodes_result, nodes);
SAME_SHAPE(admin_vms_result, vms);
SAME_SHAPE(admin_servers_result, servers);
SAME_SHAPE(admin_programs_result, programs);
SAME_SHAPE(admin_moves_result, moves);

static json_t *any_node(const void *row) { return row_node(row); }

static json_t *any_vm(const void *row) { return row_vm_state(row); }

static json_t *any_server(const void *row) { return row_server(row); }

static json_t *any_program(const void *row) { return row_program(row); }

static json_t *any_move(const void *row) { return row_move(row); }

/* name: where the key stands is a text; else it is a number. */
static const struct page_source {
    uint32_t procedure;
    xdrproc_t result;
    size_t row_size, key;
    bool name;
    json_t *(*row)(const void *);
} sources[ROWS_KINDS] = {
    [ROWS_NODES] = { ADMIN_NODES, (xdrproc_t)xdr_admin_nodes_result, sizeof(admin_node), offsetof(admin_node, name),
                     true, any_node },
    [ROWS_VMS] = { ADMIN_VMS, (xdrproc_t)xdr_admin_vms_result, sizeof(admin_vm_row), offsetof(admin_vm_row, vm.name),
                   true, any_vm },
    [ROWS_SERVERS] = { ADMIN_SERVERS, (xdrproc_t)xdr_admin_servers_result, sizeof(admin_server),
                       offsetof(admin_server, id), false, any_server },
    [ROWS_PROGRAMS] = { ADMIN_PROGRAMS, (xdrproc_t)xdr_admin_programs_result, sizeof(admin_program),
                        offsetof(admin_program, id), false, any_program },
    [ROWS_MOVES] = { ADMIN_MOVES, (xdrproc_t)xdr_admin_moves_result, sizeof(admin_move_row),
                     offsetof(admin_move_row, id), false, any_move },
};

static char *text_or_none(const char *text)
{
    static char nothing[1];
    return text ? (char *)(uintptr_t)text : nothing;
}

int rows_list(const struct rows_asker *asker, enum rows_kind kind, const struct rows_query *query, json_t **rows)
{
    const struct page_source *source = &sources[kind];
    char after[CTL_MAX_NAME + 1] = "";
    admin_named_page named = { .after = after, .only = text_or_none(query->only) };
    admin_numbered_page numbered = { .vm = text_or_none(query->vm), .node = text_or_none(query->node) };
    bool more;
    *rows = json_array();
    do {
        union {
            struct any_page page;
            admin_nodes_result nodes;
            admin_vms_result vms;
            admin_servers_result servers;
            admin_programs_result programs;
            admin_moves_result moves;
        } result;
        int code = asker->ask(asker->context, source->procedure,
                              source->name ? (const void *)&named : (const void *)&numbered, &result);
        if (code) {
            json_decref(*rows);
            *rows = NULL;
            return code;
        }
        const char *row = result.page.rows.val, *last = NULL;
        for (u_int i = 0; i < result.page.rows.len; i++, row += source->row_size) {
            json_array_append_new(*rows, source->row(row));
            last = row;
        }
        more = result.page.more && last;
        if (more && source->name) {
            char *name;
            memcpy(&name, last + source->key, sizeof name);
            snprintf(after, sizeof after, "%s", name);
        } else if (more) {
            memcpy(&numbered.after, last + source->key, sizeof numbered.after);
        }
        protocol_free(source->result, &result);
    } while (more);
    return 0;
}

json_t *rows_example(enum rows_kind kind)
{
    static admin_gpu gpu;
    static const admin_node node = { .gpus = { .gpus_len = 1, .gpus_val = &gpu } };
    static const admin_vm_row vm;
    static const admin_server server;
    static const admin_program program;
    static const admin_move_row move;
    static const void *const rows[ROWS_KINDS] = { [ROWS_NODES] = &node,
                                                  [ROWS_VMS] = &vm,
                                                  [ROWS_SERVERS] = &server,
                                                  [ROWS_PROGRAMS] = &program,
                                                  [ROWS_MOVES] = &move };
    return sources[kind].row(rows[kind]);
}

json_t *rows_gpus(const json_t *nodes)
{
    json_t *gpus = json_array(), *node, *gpu;
    size_t i, k;
    json_array_foreach(nodes, i, node) json_array_foreach(json_object_get(node, "gpus"), k, gpu)
    {
        json_t *row = json_copy(gpu);
        json_object_set(row, "node", json_object_get(node, "name"));
        json_object_set(row, "node_state", json_object_get(node, "state"));
        json_array_append_new(gpus, row);
    }
    return gpus;
}
