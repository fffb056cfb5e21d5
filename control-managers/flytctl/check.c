/*
 * check.c: tries what a daemon will do with its configuration, in a process of the daemon's own user, so that each
 * permission counts that will count then.
 *
 * Which user that is: the one who was named; else, for root, whom the installed daemon runs as; else the caller. The
 * caller may be somebody who is not to read a daemon's secrets: what fails for want of permission is a note then.
 */
#include "control-managers/flytctl/check.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control-managers/client-manager/schema.h"
#include "control-managers/cluster-manager/schema.h"
#include "control-managers/common/renewal.h"
#include "control-managers/common/tls.h"
#include "control-managers/flytctl/flytctl.h"
#include "control-managers/monitor/schema.h"
#include "control-managers/node-manager/schema.h"
#include "cpu/checkpoint/checkpoint.h"
#include "cpu/common/secret.h"

enum { CHECK_PATH_SIZE = 4096, SOON_DAYS = 30 };

struct config_check {
    const struct check_request *request;
    struct config *config;
    json_t *problems, *notes;
    char user[64];  /* whom we are */
    bool is_daemon; /* and so is the daemon */
};

enum severity { NOTE, PROBLEM };

static void say(struct config_check *check, enum severity severity, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void say(struct config_check *check, enum severity severity, const char *key, const char *format, ...)
{
    char text[2 * EXPLAIN_SIZE];
    va_list list;
    int at = snprintf(text, sizeof text, "%s: %s: ", config_where(check->config, key), key);
    va_start(list, format);
    if (at > 0 && at < (int)sizeof text)
        vsnprintf(text + at, sizeof text - (size_t)at, format, list);
    va_end(list);
    json_array_append_new(severity == PROBLEM ? check->problems : check->notes, json_text(text));
}

/* What permissions forbid is no mistake if the daemon is somebody else. */
static enum severity forbidden(const struct config_check *check, int error)
{
    return !check->is_daemon && (error == EACCES || error == EPERM) ? NOTE : PROBLEM;
}

/* ---- files and folders ---- */

static void folder_of(const char *path, char folder[CHECK_PATH_SIZE])
{
    const char *slash = strrchr(path, '/');
    snprintf(folder, CHECK_PATH_SIZE, "%.*s", slash && slash > path ? (int)(slash - path) : 1, slash ? path : ".");
}

/* The units of an installation let daemons of the user flyt write in their own folders only, and see no home folder. */
static void check_unit(struct config_check *check, const char *key, const char *path, bool written)
{
    static const char *const writable[] = { "/run/flyt", "/var/lib/flyt", NULL };
    static const char *const hidden[] = { "/home/", "/root/", "/run/user/", NULL };
    const char *usual = check->request->usual_user;
    if (!usual || strcmp(check->user, usual) != 0)
        return;
    for (int i = 0; hidden[i]; i++)
        if (strncmp(path, hidden[i], strlen(hidden[i])) == 0)
            say(check, NOTE, key, "%s.service hides home folders from the daemon (ProtectHome), this path too",
                check->request->schema->daemon);
    bool inside = !written;
    for (int i = 0; writable[i]; i++)
        inside = inside || strncmp(path, writable[i], strlen(writable[i])) == 0;
    if (!inside)
        say(check, NOTE, key, "%s.service lets the daemon write to its own folders only; `systemctl edit %s` and "
            "\"[Service]\", \"ReadWritePaths=%s\" add this one", check->request->schema->daemon,
            check->request->schema->daemon, path);
}

/* What would help is said only to the daemon's own user: to others it would take away what the daemon has. */
static void say_unwritable(struct config_check *check, const char *key, const char *what, const char *path,
                           const char *more)
{
    int error = errno;
    if (check->is_daemon)
        say(check, PROBLEM, key, "user %s cannot %s %s: %s (chown %s '%s'%s)", check->user, what, path, strerror(error),
            check->user, path, more);
    else
        say(check, forbidden(check, error), key, "user %s cannot %s %s: %s", check->user, what, path, strerror(error));
}

/* A folder in which the daemon makes files. One that is missing is made by those daemons that can. */
static void check_folder(struct config_check *check, const char *key, const char *folder, bool made)
{
    char above[CHECK_PATH_SIZE], next[CHECK_PATH_SIZE];
    struct stat status;
    snprintf(above, sizeof above, "%s", folder);
    check_unit(check, key, folder, true);
    while (made && stat(above, &status) < 0 && errno == ENOENT && strcmp(above, "/") != 0) {
        folder_of(above, next);
        snprintf(above, sizeof above, "%s", next);
    }
    if (stat(above, &status) < 0)
        say(check, forbidden(check, errno), key, "the folder %s: %s%s", above, strerror(errno),
            errno == ENOENT ? " (systemd-tmpfiles --create makes those of an installation)" : "");
    else if (!S_ISDIR(status.st_mode))
        say(check, PROBLEM, key, "%s is no folder", above);
    else if (access(above, W_OK | X_OK) < 0)
        say_unwritable(check, key, "write in the folder", above, "");
}

/* What to do about a file that only others may read. */
static void advise(const struct config_check *check, const char *path, char *text, size_t size)
{
    const struct passwd *user = getpwnam(check->user);
    const struct group *group = user ? getgrgid(user->pw_gid) : NULL;
    char folder[CHECK_PATH_SIZE];
    folder_of(path, folder);
    *text = '\0';
    if (access(folder, X_OK) < 0)
        snprintf(text, size, "; its folder %s is closed to that user", folder);
    else if (group)
        snprintf(text, size, "; chgrp %s '%s' && chmod 640 '%s'", group->gr_name, path, path);
}

/* Whether the daemon can open the file for reading; ENOENT says nothing. 0 or an errno. */
static int check_readable(struct config_check *check, const char *key, const char *path)
{
    char advice[CHECK_PATH_SIZE * 2 + 64];
    if (access(path, R_OK) == 0)
        return 0;
    int error = errno;
    if (error == ENOENT)
        return error;
    advise(check, path, advice, sizeof advice);
    say(check, forbidden(check, error), key, "user %s cannot read %s: %s%s", check->user, path, strerror(error),
        error == EACCES && check->is_daemon ? advice : "");
    return error;
}

static void check_secret(struct config_check *check, const struct config_key *key, const char *source)
{
    struct secret secret;
    char error[EXPLAIN_SIZE];
    if (strncmp(source, "file:", 5) != 0)
        return; /* the environment is the daemon's, not ours */
    int failure = check_readable(check, key->path, source + 5);
    if (failure == ENOENT)
        say(check, NOTE, key->path, "there is no file %s yet", source + 5);
    if (failure)
        return;
    check_unit(check, key->path, source + 5, false);
    uint8_t parsed[CHECKPOINT_KEY];
    if ((failure = secret_resolve(source, false, &secret, error)))
        say(check, forbidden(check, -failure), key->path, "%s", error);
    else if (strcmp(key->path, "security.checkpoint-key") == 0 &&
             !checkpoint_key_parse(secret.bytes, secret.size, parsed))
        say(check, PROBLEM, key->path, "%s is no key of 64 hexadecimal digits (`flytctl checkpoint key FILE` makes"
            " one)", source);
    checkpoint_key_wipe(parsed, sizeof parsed);
    secret_wipe(&secret);
}

/* ---- what each key is about ---- */

/* MADE: the daemon makes the folder where it is missing. OF: the folder that this is in. */
enum need {
    NEED_FOLDER_MADE,
    NEED_FOLDER_OF,
    NEED_FOLDER_OF_MADE,
    NEED_SECRET_FILE,
    NEED_PROGRAM,
    NEED_GROUP,
    NEED_PORT,
    NEED_OWN_ADDRESS,
    NEED_ADDRESS
};
static const struct {
    const struct config_schema *schema;
    const char *key;
    enum need need;
} needs[] = {
    { &cluster_config_schema, "ipc.frontend-socket", NEED_FOLDER_OF },
    { &cluster_config_schema, "ipc.frontend-group", NEED_GROUP },
    { &cluster_config_schema, "security.ticket-key", NEED_SECRET_FILE },
    { &cluster_config_schema, "ports.address", NEED_OWN_ADDRESS },
    { &cluster_config_schema, "ports.node", NEED_PORT },
    { &cluster_config_schema, "ports.client", NEED_PORT },
    { &node_schema, "node.state-directory", NEED_FOLDER_MADE },
    { &node_schema, "virt-server.program-path", NEED_PROGRAM },
    { &node_schema, "virt-server.listen-address", NEED_OWN_ADDRESS },
    { &node_schema, "virt-server.advertise-address", NEED_ADDRESS },
    { &node_schema, "resource-manager.address", NEED_ADDRESS },
    { &manager_schema, "resource-manager.address", NEED_ADDRESS },
    { &manager_schema, "vm.state-directory", NEED_FOLDER_MADE },
    { &manager_schema, "ipc.socket", NEED_FOLDER_OF_MADE },
    { &manager_schema, "ipc.group", NEED_GROUP },
    { &monitor_schema, "web.address", NEED_OWN_ADDRESS },
    { &monitor_schema, "web.port", NEED_PORT },
};

/* The daemon gives its socket to this group: root may, others must be a member. */
static void check_group(struct config_check *check, const char *key, const char *name)
{
    const struct group *group = getgrnam(name);
    gid_t groups[256];
    int count = getgroups((int)COUNT(groups), groups);
    bool member = geteuid() == 0 || (group && group->gr_gid == getegid());
    for (int i = 0; group && i < count; i++)
        member = member || groups[i] == group->gr_gid;
    if (!group)
        say(check, PROBLEM, key, "there is no group '%s' on this machine (groupadd --system %s)", name, name);
    else if (!member && check->is_daemon)
        say(check, PROBLEM, key, "user %s is not in the group %s, and so cannot give it the socket (usermod -aG %s %s)",
            check->user, name, name, check->user);
}

static void check_port(struct config_check *check, const char *key, int64_t port)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    if (fd < 0 || port == 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* as the daemon does */
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 1) < 0)
        say(check, PROBLEM, key, "port %d cannot be used: %s%s", (int)port, strerror(errno),
            errno == EADDRINUSE ? " (see ss -ltnp)" : "");
    close(fd);
}

/* Digits and points only: somebody meant an IPv4 address, and not a name. */
static bool looks_numeric(const char *text) { return text[strspn(text, "0123456789.")] == '\0'; }

/* An address in brackets is as good as without. */
static struct addrinfo *look_up(const char *text)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    char bare[256];
    size_t length = strlen(text);
    bool brackets = *text == '[' && text[length - 1] == ']';
    snprintf(bare, sizeof bare, "%.*s", (int)(brackets ? length - 2 : length), text + brackets);
    return getaddrinfo(bare, "0", &hints, &found) == 0 ? found : NULL;
}

/* A name that is not known here may be known elsewhere, or later; a false number is false for ever. */
static void check_address(struct config_check *check, const char *key, const char *text)
{
    struct addrinfo *found = looks_numeric(text) && !protocol_address_valid(text) ? NULL : look_up(text);
    if (found)
        freeaddrinfo(found);
    else if (looks_numeric(text))
        say(check, PROBLEM, key, "'%s' is no IP address", text);
    else
        say(check, NOTE, key, "'%s' is no IP address, and this machine knows no host of that name", text);
}

static void check_own_address(struct config_check *check, const char *key, const char *text)
{
    struct addrinfo *found = looks_numeric(text) && !protocol_address_valid(text) ? NULL : look_up(text);
    if (!found) {
        say(check, PROBLEM, key, "'%s' is no IP address, and this machine knows no host of that name", text);
        return;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) < 0)
        say(check, PROBLEM, key, "%s cannot be listened on: %s%s", text, strerror(errno),
            errno == EADDRNOTAVAIL ? " (no interface of this machine has it: see ip -brief address)" : "");
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
}

static void check_need(struct config_check *check, enum need need, const char *key, const void *value)
{
    char folder[CHECK_PATH_SIZE], error[EXPLAIN_SIZE];
    struct secret secret;
    const char *text = need == NEED_PORT ? "" : *(char *const *)value;
    if (need == NEED_PORT) {
        if (check->request->ports)
            check_port(check, key, *(const int64_t *)value);
        return;
    }
    if (!*text)
        return;
    folder_of(text, folder);
    switch (need) {
    case NEED_FOLDER_MADE: check_folder(check, key, text, true); break;
    case NEED_FOLDER_OF:
    case NEED_FOLDER_OF_MADE: check_folder(check, key, folder, need == NEED_FOLDER_OF_MADE); break;
    case NEED_SECRET_FILE: {
        check_folder(check, key, folder, false);
        int failure = check_readable(check, key, text);
        if (!failure && (failure = secret_read(text, &secret, error)))
            say(check, forbidden(check, -failure), key, "%s", error);
        secret_wipe(&secret);
        break;
    }
    case NEED_PROGRAM:
        if (access(text, X_OK) < 0)
            say(check, forbidden(check, errno), key, "user %s cannot execute %s: %s", check->user, text,
                strerror(errno));
        break;
    case NEED_OWN_ADDRESS: check_own_address(check, key, text); break;
    case NEED_ADDRESS: check_address(check, key, text); break;
    default: check_group(check, key, text);
    }
}

static void check_keys(struct config_check *check)
{
    const struct config_schema *schema = check->request->schema;
    const char *values = config_values(check->config);
    for (size_t i = 0; i < schema->count; i++) {
        const struct config_key *key = &schema->keys[i];
        const void *value = values + key->offset;
        if (key->kind == CONFIG_SECRET && **(char *const *)value)
            check_secret(check, key, *(char *const *)value);
        for (size_t j = 0; j < COUNT(needs); j++)
            if (needs[j].schema == schema && strcmp(needs[j].key, key->path) == 0)
                check_need(check, needs[j].need, key->path, value);
    }
}

/* ---- certificates and the resource DB ---- */

static void check_tls(struct config_check *check, const char *key, const struct tls_files *configured,
                      const char *renewed, bool wanted)
{
    const char *const paths[] = { configured->ca, configured->certificate, configured->key };
    struct tls_context *tls;
    char error[EXPLAIN_SIZE];
    for (size_t i = 0; i < COUNT(paths); i++) {
        int unreadable = check_readable(check, key, paths[i]);
        if (unreadable && unreadable != ENOENT)
            return;
        check_unit(check, key, paths[i], false);
    }
    struct tls_files files = *configured;
    renewal_pick(&files, renewed, error);
    if (*error)
        say(check, NOTE, key, "%s is not used: %s", renewed, error);
    int failure = tls_context_create(&files, &tls, error);
    if (failure == -ENOENT) {
        if (wanted)
            say(check, NOTE, key, "%s; connections are not encrypted", error);
        return;
    }
    if (failure) {
        say(check, forbidden(check, -failure), key, "%s", error);
        return;
    }
    long days = tls_context_days(tls);
    if (days < SOON_DAYS)
        say(check, NOTE, key, "the certificate %s expires in %ld days; `flytctl ca issue … --force` renews it",
            files.certificate, days);
    tls_context_release(tls);
}

/* Of a daemon that renews its certificate. */
static void check_renewed(struct config_check *check, const struct tls_files *files, const char *state)
{
    char renewed[RENEWAL_PATH_SIZE] = "";
    (void)!renewal_path(state, renewed);
    check_tls(check, "tls.key", files, renewed, true);
}

static void check_cluster(struct config_check *check)
{
    const struct cluster_config *values = config_values(check->config);
    char ca[CHECK_PATH_SIZE], certificate[CHECK_PATH_SIZE], key[CHECK_PATH_SIZE];
    if (values->tls != CLUSTER_TLS_OFF) {
        snprintf(ca, sizeof ca, "%s/ca.crt", values->tls_folder);
        snprintf(certificate, sizeof certificate, "%s/cluster.crt", values->tls_folder);
        snprintf(key, sizeof key, "%s/cluster.key", values->tls_folder);
        check_tls(check, "security.tls-folder", &(struct tls_files){ ca, certificate, key }, "",
                  values->tls != CLUSTER_TLS_AUTO);
    }
    const char *path = values->db_uri + (strncmp(values->db_uri, "sqlite://", 9) == 0 ? 9 : 7);
    if (*values->db_host || strncmp(values->db_uri, "sqlite:", 7) != 0 || *path != '/')
        return;
    folder_of(path, ca);
    check_folder(check, "vm-resource-db.uri", ca, false);
    if (access(path, F_OK) == 0 && access(path, R_OK | W_OK) < 0)
        say_unwritable(check, "vm-resource-db.uri", "read and write", path, "*");
}

/* What a node manager finds when it starts. */
static void check_gpus(struct config_check *check, const struct node_config *node)
{
    const unsigned of_software = CTL_SHARING_EXCLUSIVE | CTL_SHARING_TIME_SLICE | CTL_SHARING_MPS;
    void *nvml = node->gpu == NODE_GPU_SOFTWARE ? NULL : dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (node->gpu == NODE_GPU_NVIDIA && !nvml)
        say(check, PROBLEM, "node.gpu", "there is no NVIDIA driver on this machine (libnvidia-ml.so.1); \"auto\" or "
            "\"software\" takes the software GPU");
    else if (!nvml && !(node->sharing & of_software))
        say(check, PROBLEM, "node.sharing",
            "the software GPU, which this machine uses, offers exclusive, time-slice and "
            "mps only");
    if (nvml)
        dlclose(nvml);
}

static void check_machine(struct config_check *check)
{
    const struct config_schema *schema = check->request->schema;
    const struct node_config *node = config_values(check->config);
    const struct manager_config *manager = config_values(check->config);
    check_keys(check);
    if (schema == &node_schema)
        check_gpus(check, node);
    if (schema == &cluster_config_schema)
        check_cluster(check);
    else if (schema == &node_schema && *node->tls_ca)
        check_renewed(check, &(struct tls_files){ node->tls_ca, node->tls_certificate, node->tls_key }, node->state);
    else if (schema == &manager_schema && *manager->tls_ca)
        check_renewed(check, &(struct tls_files){ manager->tls_ca, manager->tls_certificate, manager->tls_key },
                      manager->state);
}

static void check_file(struct config_check *check)
{
    const struct config_schema *schema = check->request->schema;
    char *problems = NULL;
    char text[EXPLAIN_SIZE];
    if (access(check->request->path, R_OK) < 0) {
        snprintf(text, sizeof text, "%s: it cannot be read by user %s: %s", check->request->path, check->user,
                 strerror(errno));
        json_array_append_new(check->problems, json_text(text));
        return;
    }
    check->config = config_load(schema, check->request->path, &problems);
    char *rest = NULL;
    for (char *line = problems ? strtok_r(problems, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
        json_array_append_new(check->problems, json_text(line));
    free(problems);
    if (!check->config)
        return;
    if (!check->request->file_only)
        check_machine(check);
    config_free(check->config);
}

/* ---- the user ---- */

static void name_user(struct config_check *check)
{
    const struct passwd *user = getpwuid(geteuid());
    if (user)
        snprintf(check->user, sizeof check->user, "%s", user->pw_name);
    else
        snprintf(check->user, sizeof check->user, "%u", (unsigned)geteuid());
}

/* Whether the daemon will be the user that we are: named by the caller, or the usual one, or the configuration is
   ours. */
static bool is_daemon(const struct config_check *check)
{
    const struct check_request *request = check->request;
    struct stat status;
    if (request->user || request->anybody ||
        strcmp(check->user, request->usual_user ? request->usual_user : "root") == 0)
        return true;
    return stat(request->path, &status) == 0 && status.st_uid == geteuid();
}

/* no_user: the daemon's is not on this machine. */
static json_t *check_as_we_are(const struct check_request *request, bool no_user)
{
    struct config_check check = { .request = request, .problems = json_array(), .notes = json_array() };
    char text[EXPLAIN_SIZE];
    name_user(&check);
    check.is_daemon = is_daemon(&check);
    if (no_user) {
        snprintf(text, sizeof text,
                 "%s: there is no user %s on this machine, whom the daemon runs as: an installation makes it "
                 "(systemd-sysusers)",
                 request->path, request->usual_user);
        json_array_append_new(check.problems, json_text(text));
    } else if (!check.is_daemon && !request->file_only) {
        snprintf(text, sizeof text,
                 "%s: checked as user %s, but the daemon runs as %s: with sudo this checks as that user", request->path,
                 check.user, request->usual_user ? request->usual_user : "root");
        json_array_append_new(check.notes, json_text(text));
    }
    check_file(&check);
    return json_pack("{s:o, s:s, s:s, s:b, s:o, s:o}", "file", json_text(request->path), "daemon",
                     request->schema->daemon, "user", check.user, "ok", json_array_size(check.problems) == 0,
                     "problems", check.problems, "notes", check.notes);
}

/* In the child: from here on with that user's rights only. */
static int become(const struct passwd *user)
{
    return initgroups(user->pw_name, user->pw_gid) == 0 && setgid(user->pw_gid) == 0 && setuid(user->pw_uid) == 0
               ? 0
               : -errno;
}

static json_t *check_as(const struct check_request *request, const struct passwd *user)
{
    int ends[2];
    if (pipe(ends) < 0)
        return NULL;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        json_t *result = become(user) == 0 ? check_as_we_are(request, false) : NULL;
        _exit(result && json_dumpfd(result, ends[1], 0) == 0 ? 0 : 1);
    }
    close(ends[1]);
    json_t *result = child > 0 ? json_loadfd(ends[0], 0, NULL) : NULL;
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return result;
}

json_t *check_configuration(const struct check_request *request)
{
    const char *name = request->user                           ? request->user
                       : geteuid() == 0 && !request->file_only ? request->usual_user
                                                               : NULL;
    const struct passwd *user = name ? getpwnam(name) : NULL;
    return user && user->pw_uid != geteuid() ? check_as(request, user) : check_as_we_are(request, name && !user);
}
