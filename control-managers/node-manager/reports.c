/*
 * reports.c: what is sent to the cluster manager without its having asked. Reports wait in a queue until it has taken
 * them, over reconnections too. When the queue is full, the oldest is dropped: registering says the state of everything
 * anyway.
 */
#include <errno.h>
#include <stdlib.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"

enum { CALL_MS = CTL_CALL_SECONDS * 1000 };

void server_fill(struct node_server *server, ctl_server_report *out)
{
    *out = (ctl_server_report){ .id = server->id,
                                .state = server->state,
                                .granted_sms = server->shown_sms,
                                .memory_limit = server->memory,
                                .memory_used = server->used,
                                .workers = server->workers,
                                .pid = (u_int)(server->process.pid > 0 ? server->process.pid : 0),
                                .restarts = server->restarts,
                                .status = { server->why, server->why_text } };
    if (!server->address_count)
        return;
    out->addresses.addresses_val = calloc(server->address_count, sizeof(ctl_uri));
    if (!out->addresses.addresses_val)
        return;
    out->addresses.addresses_len = server->address_count;
    for (unsigned i = 0; i < server->address_count; i++)
        out->addresses.addresses_val[i] = server->addresses[i];
}

static void drop_report(struct node_manager *node)
{
    struct node_report *report = node->reports;
    node->reports = report->next;
    if (!node->reports)
        node->reports_end = &node->reports;
    node->report_count--;
    protocol_free((xdrproc_t)xdr_node_report_body, &report->body);
    free(report);
}

void reports_add(struct node_manager *node, const node_report_body *body)
{
    struct node_report *report = calloc(1, sizeof *report);
    if (!report || !protocol_copy((xdrproc_t)xdr_node_report_body, &report->body, sizeof report->body, body)) {
        log_error("event=report-lost why=\"no memory, or a text too long\"");
        free(report);
        return;
    }
    if (node->report_count >= NODE_MAX_REPORTS && !node->reporting)
        drop_report(node);
    *node->reports_end = report;
    node->reports_end = &report->next;
    node->report_count++;
    reports_send(node);
}

void node_report_server(struct node_manager *node, const struct node_server *server)
{
    node_report_body body = { .kind = NODE_REPORT_SERVER };
    server_fill((struct node_server *)(uintptr_t)server, &body.node_report_body_u.server);
    reports_add(node, &body);
    free(body.node_report_body_u.server.addresses.addresses_val);
}

void node_report_order(struct node_manager *node, uint64_t number, ctl_code code, const char *text)
{
    node_report_body body = { .kind = NODE_REPORT_ORDER };
    body.node_report_body_u.done = (node_order_done){ .number = number, .status = { code, (char *)(uintptr_t)text } };
    reports_add(node, &body);
}

/* A cluster manager of an earlier minor never changes shares, and does not know this report. */
void node_report_share(struct node_manager *node, const struct node_server *server)
{
    node_report_body body = { .kind = NODE_REPORT_SHARE };
    if (node->manager_minor < NODE_MINOR_SHARES)
        return;
    body.node_report_body_u.share = (node_share){ .server = server->id,
                                                  .sms = share_bound_sms(server),
                                                  .memory = share_bound_memory(server) };
    reports_add(node, &body);
}

/* A cluster manager of an earlier minor does not know this report. */
void node_report_usage(struct node_manager *node, const struct node_server *server)
{
    node_report_body body = { .kind = NODE_REPORT_USAGE };
    if (node->manager_minor < NODE_MINOR_USAGE || !server->epoch)
        return;
    body.node_report_body_u.usage = (node_usage){ .server = server->id, .epoch = server->epoch,
                                                  .figures = server->figures };
    reports_add(node, &body);
}

/* The next report says all of it again. */
void node_report_works(struct node_manager *node, const struct node_server *server)
{
    node_report_body body = { .kind = NODE_REPORT_PROGRAM };
    for (size_t i = 0; i < server->work_count && node->manager_minor >= NODE_MINOR_USAGE; i++) {
        const struct program_work *work = &server->works[i];
        body.node_report_body_u.prog = (node_program){
            .server = server->id, .prog = work->program, .memory = work->memory, .figures = work->figures
        };
        reports_add(node, &body);
    }
}

/* It is kept while no cluster manager is connected, too: reports_fit drops it where that one does not know it. */
void node_report_left(const struct node_server *server, uint64_t program, int64_t ended, uint32_t fault)
{
    node_report_body body = { .kind = NODE_REPORT_LEFT };
    if (server->node->registered && server->node->manager_minor < NODE_MINOR_USAGE)
        return;
    body.node_report_body_u.left = (node_left){ .server = server->id, .prog = program, .ended = ended, .fault = fault };
    reports_add(server->node, &body);
}

void node_report_gpu(struct node_manager *node, const struct node_gpu *gpu)
{
    node_report_body body = { .kind = NODE_REPORT_GPU };
    node_gpu_fill((struct node_gpu *)(uintptr_t)gpu, &body.node_report_body_u.gpu);
    reports_add(node, &body);
}

static uint32_t minor_of(node_report_kind kind)
{
    switch (kind) {
    case NODE_REPORT_SHARE: return NODE_MINOR_SHARES;
    case NODE_REPORT_USAGE:
    case NODE_REPORT_PROGRAM:
    case NODE_REPORT_LEFT:  return NODE_MINOR_USAGE;
    case NODE_REPORT_LOG:   return NODE_MINOR_LOGS;
    default:                return 0;
    }
}

void reports_fit(struct node_manager *node)
{
    node->reports_end = &node->reports;
    while (*node->reports_end) {
        struct node_report *report = *node->reports_end;
        if (minor_of(report->body.kind) <= node->manager_minor) {
            node->reports_end = &report->next;
            continue;
        }
        *node->reports_end = report->next;
        node->report_count--;
        protocol_free((xdrproc_t)xdr_node_report_body, &report->body);
        free(report);
    }
}

static void reports_taken(void *context, int error, const char *why, void *object)
{
    struct node_manager *node = context;
    const ctl_plain_result *result = object;
    node->reporting = false;
    if (error) {
        log_debug("event=reports-not-taken why=\"%s\"", why);
        return;                         /* they stay; the connection ends, or the next report sends them */
    }
    if (result->status.code != CTL_OK)
        log_warning("event=report-refused why=\"%s\"", result->status.text);
    for (; node->reports_sent && node->reports; node->reports_sent--)
        drop_report(node);
    reports_send(node);
}

void reports_send(struct node_manager *node)
{
    node_report_body bodies[CTL_MAX_REPORTS];
    char error[EXPLAIN_SIZE];
    u_int count = 0;
    if (node->reporting || !node->registered)
        return;
    for (struct node_report *report = node->reports; report && count < CTL_MAX_REPORTS; report = report->next)
        bodies[count++] = report->body;
    if (!count)
        return;
    node_report_args args = { .reports = { count, bodies } };
    if (link_call(node->link, NODE_REPORT, &args, CALL_MS, reports_taken, node, error) == 0) {
        node->reporting = true;
        node->reports_sent = count;
    }
}

void reports_drop_all(struct node_manager *node)
{
    while (node->reports)
        drop_report(node);
}
