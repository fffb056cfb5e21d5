/* cmd_config.c: looks at configuration files as the daemons will, without starting any. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control-managers/client-manager/schema.h"
#include "control-managers/cluster-manager/schema.h"
#include "cpu/common/secret.h"
#include "control-managers/flytctl/flytctl.h"
#include "control-managers/flytctl/schema.h"
#include "control-managers/node-manager/schema.h"

const struct option_row config_check_options[] = {
    { "daemon", 'd', "DAEMON", "whose it is, where the file's name does not say: cluster-manager, node-manager, client-manager, flytctl", false },
    { "ports", 'p', NULL, "also that its ports are free now (before the daemon starts)", false },
    { 0 },
};

static const struct { const char *name; const struct config_schema *schema; } daemons[] = {
    { "cluster-manager", &cluster_config_schema },
    { "node-manager", &node_schema },
    { "client-manager", &manager_schema },
    { "flytctl", &flytctl_config_schema },
};

/* The ports that a daemon listens on; others in its file are somebody else's. */
static const struct { const struct config_schema *schema; const char *key; } listening[] = {
    { &cluster_config_schema, "ports.node" },
    { &cluster_config_schema, "ports.client" },
};

static const struct config_schema *find_schema(const char *name, bool part)
{
    for (size_t i = 0; i < COUNT(daemons); i++)
        if (part ? strstr(name, daemons[i].name) != NULL : strcmp(name, daemons[i].name) == 0 || strcmp(name, daemons[i].schema->daemon) == 0)
            return daemons[i].schema;
    return NULL;
}

/* ---- what the schema cannot know ---- */

struct check { struct flytctl *ctl; struct config *config; json_t *problems, *notes; };

static void note(struct check *check, bool mistake, const char *key, const char *what)
{
    char text[2 * EXPLAIN_SIZE];
    snprintf(text, sizeof text, "%s: %s: %s", config_where(check->config, key), key, what);
    json_array_append_new(mistake ? check->problems : check->notes, json_text(text));
}

static void check_secret(struct check *check, const struct config_key *key, const char *source)
{
    struct secret secret;
    char error[EXPLAIN_SIZE];
    if (strncmp(source, "file:", 5) != 0)
        return;                         /* the environment is the daemon's, not ours */
    if (access(source + 5, F_OK) < 0) {
        note(check, false, key->path, errno == EACCES ? "its file cannot be looked at by you" : "there is no such file yet");
        return;
    }
    if (geteuid() != 0 && access(source + 5, R_OK) < 0)
        return;
    if (secret_resolve(source, false, &secret, error))
        note(check, true, key->path, error);
    secret_wipe(&secret);
}

static void check_port(struct check *check, const char *key, int64_t port)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    char text[128];
    if (fd < 0 || port == 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);   /* as the daemon does */
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 1) < 0) {
        snprintf(text, sizeof text, "port %d cannot be used: %s%s", (int)port, strerror(errno),
                 errno == EADDRINUSE ? " (see ss -ltnp)" : "");
        note(check, true, key, text);
    }
    close(fd);
}

static void check_more(struct check *check, const struct config_schema *schema)
{
    const char *values = config_values(check->config);
    for (size_t i = 0; i < schema->count; i++) {
        const struct config_key *key = &schema->keys[i];
        if (key->kind == CONFIG_SECRET && **(char *const *)(values + key->offset))
            check_secret(check, key, *(char *const *)(values + key->offset));
        for (size_t j = 0; option_count(check->ctl, "ports") && j < COUNT(listening); j++)
            if (listening[j].schema == schema && strcmp(listening[j].key, key->path) == 0)
                check_port(check, key->path, *(const int64_t *)(values + key->offset));
    }
}

/* ---- check ---- */

static void add_lines(json_t *list, char *text)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        json_array_append_new(list, json_text(line));
}

static json_t *check_file(struct flytctl *ctl, const char *path, const struct config_schema *schema)
{
    struct check check = { .ctl = ctl, .problems = json_array(), .notes = json_array() };
    char *problems = NULL;
    if (access(path, R_OK) < 0) {
        char text[EXPLAIN_SIZE];
        snprintf(text, sizeof text, "%s: cannot be read: %s", path, strerror(errno));
        json_array_append_new(check.problems, json_text(text));
    } else if ((check.config = config_load(schema, path, &problems))) {
        check_more(&check, schema);
        config_free(check.config);
    }
    if (problems)
        add_lines(check.problems, problems);
    free(problems);
    return json_pack("{s:o, s:s, s:b, s:o, s:o}", "file", json_text(path), "daemon", schema->daemon, "ok", json_array_size(check.problems) == 0,
                     "problems", check.problems, "notes", check.notes);
}

static void print_check(const json_t *result)
{
    size_t i;
    json_t *line;
    json_array_foreach(json_object_get(result, "problems"), i, line)
        printf("%s\n", json_string_value(line));
    json_array_foreach(json_object_get(result, "notes"), i, line)
        printf("note: %s\n", json_string_value(line));
    if (json_is_true(json_object_get(result, "ok")))
        printf("%s: good (%s)\n", json_string_value(json_object_get(result, "file")), json_string_value(json_object_get(result, "daemon")));
}

int command_config_check(struct flytctl *ctl)
{
    const char *daemon = option(ctl, "daemon");
    const struct config_schema *named = daemon ? find_schema(daemon, false) : NULL;
    json_t *results = json_array();
    bool good = true;
    if (daemon && !named) {
        json_decref(results);
        return complain(ctl, EXIT_USAGE, "there is no daemon '%s': cluster-manager, node-manager, client-manager and flytctl are", daemon);
    }
    for (int i = 0; i < ctl->argc; i++) {
        const char *base = strrchr(ctl->argv[i], '/') ? strrchr(ctl->argv[i], '/') + 1 : ctl->argv[i];
        const struct config_schema *schema = named ? named : find_schema(base, true);
        if (!schema) {
            json_decref(results);
            return complain(ctl, EXIT_USAGE, "%s: whose configuration is it? Its name does not say; use --daemon", ctl->argv[i]);
        }
        json_t *result = check_file(ctl, ctl->argv[i], schema);
        good = good && json_is_true(json_object_get(result, "ok"));
        if (!ctl->json)
            print_check(result);
        json_array_append_new(results, result);
    }
    if (ctl->json)
        print_json(results);
    else
        json_decref(results);
    return good ? EXIT_FINE : EXIT_BAD_CONFIG;
}

int command_config_keys(struct flytctl *ctl)
{
    const struct config_schema *schema = find_schema(ctl->argv[0], false);
    if (!schema)
        return complain(ctl, EXIT_USAGE, "there is no daemon '%s': cluster-manager, node-manager, client-manager and flytctl are", ctl->argv[0]);
    if (!ctl->json) {
        config_print_schema(schema, stdout);
        return EXIT_FINE;
    }
    json_t *rows = json_array();
    for (size_t i = 0; i < schema->count; i++) {
        const struct config_key *key = &schema->keys[i];
        json_array_append_new(rows, json_pack("{s:s, s:o, s:b, s:o}", "key", key->path, "initial", key->initial ? json_text(key->initial) : json_null(),
                                              "reload", key->reload, "help", json_text(key->help)));
    }
    print_json(rows);
    return EXIT_FINE;
}
