/* commands.c: the table of all commands. Help, completion and the test of the manual are made from it. */
#include "control-managers/flytctl/flytctl.h"

const struct option_row global_options[] = {
    { "manager", 'M', "URI", "the cluster manager: unix:///path or tcp://host:port ($FLYT_CLUSTER)", false },
    { "secret", 'S', "SOURCE", "the administrator's secret, for tcp: file:/path or env:NAME ($FLYT_CLUSTER_SECRET)",
      false },
    { "tls", 'T', "DIR", "folder with ca.crt, NAME.crt and NAME.key, for tcp ($FLYT_CLUSTER_TLS)", false },
    { "as", 'A', "NAME", "name of the administrator (the login name), NAME of --tls", false },
    { "settings", 0, "FILE", "file with defaults of the options above (/etc/flyt/flytctl.conf)", false },
    { "timeout", 't', "SECONDS", "how long to wait for an answer (10)", false },
    { "json", 'j', NULL, "print JSON", false },
    { "wide", 'W', NULL, "print whole tables, even if the terminal is narrower", false },
    { "help", 'h', NULL, "print help, of a command if one is given", false },
    { "version", 'V', NULL, "print the version", false },
    { 0 },
};

static const struct option_row force_options[] = { { "force", 'f', NULL, "even if programs use it", false }, { 0 } };
static const struct option_row filter_options[] = {
    { "vm", 0, "NAME", "only of this VM", false },
    { "node", 0, "NAME", "only on this node", false },
    { 0 },
};

const struct command commands[] = {
    { NULL, "status", "", 0, 0, "", "Shows the cluster manager, its database, and what is in use", status_options,
      command_status },
    { NULL, "top", "", 0, 0, "", "Shows the cluster live", top_options, command_top },
    { NULL, "events", "", 0, 0, "", "Shows events of the past, or as they come", events_options, command_events },
    { NULL, "reload", "", 0, 0, "", "Makes the cluster manager read its configuration again", NULL, command_reload },
    { "key", "rotate", "", 0, 0, "",
      "Signs tickets with a new key; tickets of the old key stay valid until they expire", NULL,
      command_key_rotate },

    { "vm", "add", "NAME", 1, 1, "", "Entitles a VM to SMs and memory, and prints its secret, once", vm_add_options,
      command_vm_add },
    { "vm", "set", "NAME", 1, 1, "vm", "Changes an entitlement", vm_set_options, command_vm_set },
    { "vm", "remove", "NAME...", 1, -1, "vm", "Takes an entitlement away", force_options, command_vm_remove },
    { "vm", "list", "", 0, 0, "", "Lists entitlements", NULL, command_vm_list },
    { "vm", "show", "NAME", 1, 1, "vm",
      "Shows one entitlement, what it uses, and how its programs reach their GPU servers", NULL, command_vm_show },
    { "vm", "export", "[FILE]", 0, 1, ":file", "Writes all entitlements, with verifiers of secrets, as JSON", NULL,
      command_vm_export },
    { "vm", "import", "FILE", 1, 1, ":file",
      "Adds the entitlements of such a file, or of mongoexport; - is standard input", vm_import_options,
      command_vm_import },

    { "node", "list", "", 0, 0, "", "Lists nodes", NULL, command_node_list },
    { "node", "show", "NAME", 1, 1, "node", "Shows one node and its GPUs", NULL, command_node_show },
    { "node", "add", "NAME...", 1, -1, "",
      "Gives each node a secret of its own, and prints it, once; then no other node can use the name",
      node_add_options, command_node_add },
    { "node", "drain", "NAME...", 1, -1, "node", "Sends new programs elsewhere; programs on the node go on",
      drain_options, command_node_drain },
    { "node", "undrain", "NAME...", 1, -1, "node", "Uses a drained node again", NULL, command_node_undrain },
    { "node", "remove", "NAME...", 1, -1, "node",
      "Forgets a node and its secret; one with a certificate or the shared secret comes back by itself", force_options,
      command_node_remove },
    { "node", "export", "[FILE]", 0, 1, ":file", "Writes all nodes, with verifiers of their secrets, as JSON", NULL,
      command_node_export },
    { "node", "import", "FILE", 1, 1, ":file", "Adds the nodes of such a file; - is standard input",
      node_import_options, command_node_import },

    { "server", "list", "", 0, 0, "", "Lists GPU servers", filter_options, command_server_list },
    { "server", "stop", "ID...", 1, -1, "server", "Stops a GPU server", force_options, command_server_stop },

    { "program", "list", "", 0, 0, "", "Lists programs, running and waiting", filter_options, command_program_list },
    { "program", "kill", "ID...", 1, -1, "program", "Ends a program: its process gets SIGTERM, after 5 s SIGKILL", NULL,
      command_program_kill },

    { "config", "check", "FILE...", 1, -1, ":file", "Checks configuration files; mistakes are named with file and line",
      config_check_options, command_config_check },
    { "config", "keys", "DAEMON", 1, 1, "daemon",
      "Prints all keys of cluster-manager, node-manager, client-manager or flytctl", NULL, command_config_keys },

    { "ca", "create", "DIR", 1, 1, ":dir", "Makes a small certificate authority in DIR", ca_create_options,
      command_ca_create },
    { "ca", "issue", "DIR ROLE NAME", 3, 3, ":dir,role,",
      "Makes a key and a certificate; ROLE is cluster, issuer, node, client, admin, operator, viewer or server",
      ca_issue_options, command_ca_issue },
    { "ca", "revoke", "DIR ROLE NAME", 3, 3, ":dir,role,",
      "Revokes the certificates of that name: puts them into DIR/ca.crl; copy it beside each ca.crt, and reload the "
      "daemons",
      ca_revoke_options, command_ca_revoke },
    { "ca", "show", "FILE...", 1, -1, ":file", "Shows whom a certificate names and until when it is valid", NULL,
      command_ca_show },

    { NULL, "list-vms", "", 0, 0, "", "The earlier name of vm list", NULL, command_vm_list },
    { NULL, "list-servernodes", "", 0, 0, "", "The earlier name of node list", NULL, command_node_list },
    { NULL, "list-virt-servers", "", 0, 0, "", "The earlier name of server list", NULL, command_server_list },
    { NULL, "change-config", "", 0, 0, "", "Changes SMs and memory of the GPU servers that run", change_options,
      command_change },
    { NULL, "inc-resources", "", 0, 0, "", "Adds SMs and memory to the GPU servers that run", change_options,
      command_change },
    { NULL, "dec-resources", "", 0, 0, "", "Takes SMs and memory from the GPU servers that run", change_options,
      command_change },
    { NULL, "migrate", "", 0, 0, "", "Not implemented: moves a VM's programs to another GPU", migrate_options,
      command_migrate },
    { NULL, "migrate-auto", "", 0, 0, "", "Not implemented: moves a VM's programs to a GPU that the manager chooses",
      migrate_auto_options, command_migrate },
    { NULL, "vm-grouping", "", 0, 0, "",
      "The earlier way to set the grouping of a VM (vm set --grouping)", grouping_options, command_grouping },

    { NULL, "help", "[COMMAND...]", 0, 2, "command", "Prints help", NULL, command_help },
    { NULL, "complete", "[WORD...]", 0, -1, "", "Prints what may follow these words, for the shells' completion", NULL,
      command_complete },
    { 0 },
};
