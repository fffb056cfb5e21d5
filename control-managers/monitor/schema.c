/* schema.c: the keys of flyt-monitor's configuration, and the rules between them. */
#include "control-managers/monitor/schema.h"

#include <string.h>

#define AT(member) offsetof(struct monitor_config, member)
static const struct config_key keys[] = {
    { .path = "source.manager",
      .kind = CONFIG_URI,
      .offset = AT(manager),
      .initial = "unix:///run/flyt/cluster-manager.sock",
      .help = "The cluster manager: unix:///path or tcp://host:port." },
    { .path = "source.tls-folder",
      .kind = CONFIG_PATH,
      .offset = AT(tls_folder),
      .initial = "",
      .help = "For tcp: a folder with ca.crt, NAME.crt and NAME.key; the certificate names viewer:NAME." },
    { .path = "source.name",
      .kind = CONFIG_NAME,
      .offset = AT(name),
      .initial = "monitor",
      .help = "NAME of that certificate; also how the cluster manager calls the monitor in its log." },
    { .path = "source.interval",
      .kind = CONFIG_SECONDS,
      .offset = AT(interval),
      .initial = "5",
      .min = 1,
      .max = 3600,
      .help = "Seconds between two readings." },
    { .path = "web.address",
      .kind = CONFIG_STRING,
      .offset = AT(address),
      .initial = "127.0.0.1",
      .help = "Where it listens: a loopback address, or any one where security.tls-folder is given." },
    { .path = "web.port", .kind = CONFIG_PORT, .offset = AT(port), .initial = "12403", .help = "Its port." },
    { .path = "web.hosts",
      .kind = CONFIG_STRINGS,
      .offset = AT(hosts),
      .initial = "",
      .help = "Names by which browsers call it, beside localhost; requests with other names are refused." },
    { .path = "web.max-streams",
      .kind = CONFIG_INT,
      .offset = AT(streams),
      .initial = "64",
      .min = 1,
      .max = 1000,
      .help = "So many may follow the events at a time." },
    { .path = "metrics.programs",
      .kind = CONFIG_BOOL,
      .offset = AT(programs),
      .initial = "false",
      .help = "Whether /metrics/programs has series of each program: many, and each lives as long as its program." },
    { .path = "security.tls-folder",
      .kind = CONFIG_PATH,
      .offset = AT(web_folder),
      .initial = "",
      .help = "A folder with ca.crt, web.crt and web.key: it speaks TLS, and callers show a certificate of ca.crt or a"
              " token." },
    { .path = "security.tokens",
      .kind = CONFIG_PATH,
      .offset = AT(tokens),
      .initial = "",
      .help = "A file of tokens: a line for each, as flyt-monitor --new-token ROLE prints it." },
};

static bool check(const void *values, struct config *config)
{
    const struct monitor_config *c = values;
    if (!*c->manager || !*c->name || !*c->address) {
        config_complain(config,
                        !*c->manager ? "source.manager"
                        : !*c->name  ? "source.name"
                                     : "web.address",
                        "it may not be empty");
        return false;
    }
    bool loopback = strncmp(c->address, "127.", 4) == 0 || strcmp(c->address, "::1") == 0;
    if (loopback || *c->web_folder)
        return true;
    config_complain(config, "web.address", "\"%s\" is no loopback address: this takes security.tls-folder", c->address);
    return false;
}

const struct config_schema monitor_schema = {
    .daemon = "flyt-monitor",
    .keys = keys,
    .count = sizeof keys / sizeof *keys,
    .size = sizeof(struct monitor_config),
    .check = check,
};
