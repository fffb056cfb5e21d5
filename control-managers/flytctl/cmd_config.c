/* cmd_config.c: looks at configuration files as the daemons will (check.h), without starting any. */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control-managers/client-manager/schema.h"
#include "control-managers/cluster-manager/schema.h"
#include "control-managers/flytctl/check.h"
#include "control-managers/flytctl/flytctl.h"
#include "control-managers/flytctl/schema.h"
#include "control-managers/monitor/schema.h"
#include "control-managers/node-manager/schema.h"

const struct option_row config_check_options[] = {
    { "daemon", 'd', "DAEMON",
      "whose it is, where the file's name does not say: cluster-manager, node-manager, client-manager, monitor,"
      " flytctl",
      false },
    { "user", 'u', "USER", "user as whom the daemon runs (for root: as installed; else you)", false },
    { "file-only", 0, NULL, "look at the file alone: it is for another machine", false },
    { "ports", 'p', NULL, "also that its ports are free now (before the daemon starts)", false },
    { 0 },
};

/* user: whom its unit makes it run as, NULL: root, or whoever starts it. */
static const struct daemon { const char *name; const struct config_schema *schema; const char *user;
} daemons[] = {
    { "cluster-manager", &cluster_config_schema, "flyt" }, { "node-manager", &node_schema, NULL },
    { "client-manager", &manager_schema, "flyt" },         { "monitor", &monitor_schema, "flyt-monitor" },
    { "flytctl", &flytctl_config_schema, NULL },
};

static const struct daemon *find_daemon(const char *name, bool part)
{
    for (size_t i = 0; i < COUNT(daemons); i++)
        if (part ? strstr(name, daemons[i].name) != NULL
                 : strcmp(name, daemons[i].name) == 0 || strcmp(name, daemons[i].schema->daemon) == 0)
            return &daemons[i];
    return NULL;
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
        printf("%s: good (%s, as user %s)\n", json_string_value(json_object_get(result, "file")),
               json_string_value(json_object_get(result, "daemon")),
               json_string_value(json_object_get(result, "user")));
}

int command_config_check(struct flytctl *ctl)
{
    const char *whose = option(ctl, "daemon"), *user = option(ctl, "user");
    const struct daemon *named = whose ? find_daemon(whose, false) : NULL;
    if (whose && !named)
        return complain(
            ctl, EXIT_USAGE,
            "there is no daemon '%s': cluster-manager, node-manager, client-manager, monitor and flytctl are", whose);
    const struct passwd *as = user ? getpwnam(user) : NULL;
    if (user && !as)
        return complain(ctl, EXIT_USAGE, "there is no user '%s' on this machine", user);
    if (as && as->pw_uid != geteuid() && geteuid() != 0)
        return complain(ctl, EXIT_DENIED, "only root can check as user %s: use sudo", user);
    json_t *results = json_array();
    bool good = true;
    for (int i = 0; i < ctl->argc; i++) {
        const char *base = strrchr(ctl->argv[i], '/') ? strrchr(ctl->argv[i], '/') + 1 : ctl->argv[i];
        const struct daemon *daemon = named ? named : find_daemon(base, true);
        if (!daemon) {
            json_decref(results);
            return complain(ctl, EXIT_USAGE, "%s: whose configuration is it? Its name does not say; use --daemon",
                            ctl->argv[i]);
        }
        const struct check_request request = {
            .path = ctl->argv[i], .schema = daemon->schema, .usual_user = daemon->user, .user = user,
            .anybody = daemon->schema == &flytctl_config_schema, .ports = option_count(ctl, "ports") > 0,
            .file_only = option_count(ctl, "file-only") > 0,
        };
        json_t *result = check_configuration(&request);
        if (!result) {
            json_decref(results);
            return complain(ctl, EXIT_FAILED, "%s cannot be checked: no memory, or no process", ctl->argv[i]);
        }
        good = good && json_is_true(json_object_get(result, "ok"));
        if (!ctl->json)
            print_check(result);
        json_array_append_new(results, result);
    }
    if (ctl->json)
        print_data(ctl, results);
    else
        json_decref(results);
    return good ? EXIT_FINE : EXIT_BAD_CONFIG;
}

int command_config_keys(struct flytctl *ctl)
{
    const struct daemon *daemon = find_daemon(ctl->argv[0], false);
    if (!daemon)
        return complain(
            ctl, EXIT_USAGE,
            "there is no daemon '%s': cluster-manager, node-manager, client-manager, monitor and flytctl are",
            ctl->argv[0]);
    const struct config_schema *schema = daemon->schema;
    if (!ctl->json) {
        config_print_schema(schema, stdout);
        return EXIT_FINE;
    }
    json_t *rows = json_array();
    for (size_t i = 0; i < schema->count; i++) {
        const struct config_key *key = &schema->keys[i];
        json_array_append_new(rows, json_pack("{s:s, s:o, s:b, s:o}", "key", key->path, "initial",
                                              key->initial ? json_text(key->initial) : json_null(), "reload",
                                              key->reload, "help", json_text(key->help)));
    }
    print_data(ctl, rows);
    return EXIT_FINE;
}
