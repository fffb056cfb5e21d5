/*
 * cmd_health.c: `flytctl status --check`, for monitoring: one line, and the exit status that Nagios, Icinga and others
 * expect of their plugins. What an administrator has drained is no problem.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "control-managers/flytctl/flytctl.h"

enum health { HEALTH_OK, HEALTH_WARNING, HEALTH_CRITICAL, HEALTH_UNKNOWN };

static const char *const health_names[] = { "OK", "WARNING", "CRITICAL", "UNKNOWN" };

struct findings {
    enum health worst;
    json_t *problems; /* texts, the worst first */
};

__attribute__((format(printf, 3, 4))) static void find(struct findings *findings, enum health health,
                                                       const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (health > findings->worst)
        json_array_insert_new(findings->problems, 0, json_text(text));
    else
        json_array_append_new(findings->problems, json_text(text));
    findings->worst = health > findings->worst ? health : findings->worst;
}

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static void look_at_node(struct findings *findings, const json_t *node)
{
    size_t i;
    json_t *gpu;
    if (json_is_true(json_object_get(node, "drained")))
        return;
    if (strcmp(text_of(node, "state"), "up") != 0) {
        find(findings, HEALTH_WARNING, "node %s is %s", text_of(node, "name"), text_of(node, "state"));
        return;
    }
    json_array_foreach(json_object_get(node, "gpus"), i, gpu)
        if (strcmp(text_of(gpu, "state"), "ready") != 0)
            find(findings, HEALTH_WARNING, "GPU %s of node %s is %s%s%.200s", text_of(gpu, "id"),
                 text_of(node, "name"), text_of(gpu, "state"), *text_of(gpu, "text") ? ": " : "",
                 text_of(gpu, "text"));
}

static void look_at(struct findings *findings, const admin_status_result *status, const json_t *nodes)
{
    size_t i;
    json_t *node;
    json_array_foreach(nodes, i, node)
        look_at_node(findings, node);
    if (status->nodes == 0)
        find(findings, HEALTH_WARNING, "no node has joined this cluster");
    else if (status->nodes_up == 0)
        find(findings, HEALTH_CRITICAL, "no node is up");
    else if (status->gpus_ready == 0)
        find(findings, HEALTH_CRITICAL, "no GPU is ready");
    if (!status->db_up)
        find(findings, HEALTH_CRITICAL, "the resource DB does not answer: %.300s", status->db_text);
}

static int print_health(const struct flytctl *ctl, const struct findings *findings, const char *figures)
{
    size_t i;
    json_t *text;
    if (ctl->json) {
        print_data(ctl, json_pack("{s:b, s:s, s:i, s:O, s:s}", "ok", findings->worst == HEALTH_OK, "state",
                                  health_names[findings->worst], "exit", (int)findings->worst, "problems",
                                  findings->problems, "figures", figures));
        return (int)findings->worst;
    }
    printf("%s - ", health_names[findings->worst]);
    json_array_foreach(findings->problems, i, text)
        printf("%s%s", i ? "; " : "", json_string_value(text));
    printf("%s%s\n", json_array_size(findings->problems) ? " | " : "all is well | ", figures);
    return (int)findings->worst;
}

int status_check(struct flytctl *ctl)
{
    struct findings findings = { .problems = json_array() };
    admin_status_result status = { 0 };
    json_t *nodes = NULL;
    char figures[256] = "";
    int code = ask(ctl, ADMIN_STATUS, NULL, &status);
    if (code == EXIT_FINE) {
        snprintf(figures, sizeof figures,
                 "nodes=%u nodes_up=%u gpus=%u gpus_ready=%u servers=%u programs=%u waiting=%u", status.nodes,
                 status.nodes_up, status.gpus, status.gpus_ready, status.servers, status.programs, status.waiting);
        code = kind_rows(ctl, kind_find("node"), &(struct rows_query){ .only = NULL }, &nodes);
    }
    if (code == EXIT_FINE)
        look_at(&findings, &status, nodes);
    else if (code == EXIT_UNREACHABLE || code == EXIT_DB_AWAY)
        find(&findings, HEALTH_CRITICAL, "the cluster manager does not serve");
    else
        find(&findings, HEALTH_UNKNOWN, "the cluster manager could not be asked (exit status %d)", code);
    if (status.software)
        protocol_free((xdrproc_t)xdr_admin_status_result, &status);
    json_decref(nodes);
    code = print_health(ctl, &findings, figures);
    json_decref(findings.problems);
    return code;
}
