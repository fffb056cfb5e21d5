#include "control-managers/flytctl/schema.h"

#define AT(member) offsetof(struct flytctl_config, member)
static const struct config_key keys[] = {
    { .path = "cluster.manager", .kind = CONFIG_URI, .offset = AT(manager),
      .initial = "unix:///run/flyt/cluster-manager.sock", .help =
      "Where flyt-cluster-manager is: unix:///path on its own machine, tcp://host:12402 from another." },
    { .path = "cluster.secret", .kind = CONFIG_SECRET, .offset = AT(secret), .initial = "", .help =
      "The administrator's secret, for tcp: file:/path or env:NAME. Not needed with a certificate." },
    { .path = "cluster.name", .kind = CONFIG_NAME, .offset = AT(name), .initial = "",
      .help = "Name of the administrator; the login name unless given." },
    { .path = "tls.folder", .kind = CONFIG_PATH, .offset = AT(tls_folder), .initial = "", .help =
      "Folder with ca.crt, NAME.crt and NAME.key (flytctl ca issue DIR admin NAME). TLS is used when it is given." },
};

const struct config_schema flytctl_config_schema = {
    .daemon = "flytctl", .keys = keys, .count = sizeof keys / sizeof keys[0], .size = sizeof(struct flytctl_config),
};
