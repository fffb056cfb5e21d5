/* session.c: the connection to the cluster manager. What its answers mean is in answers.c. */
#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control-managers/common/tls.h"
#include "control-managers/flytctl/flytctl.h"
#include "control-managers/flytctl/schema.h"
#include "cpu/common/version.h"

static const char default_settings[] = "/etc/flyt/flytctl.conf";

static int exit_of_errno(int error)
{
    switch (error) {
    case -EACCES: case -EPERM: case -EKEYREJECTED: return EXIT_DENIED;
    case -ENOSYS:                                  return EXIT_NOT_SUPPORTED;
    case -EPROTO: case -EBADMSG: case -EPROTONOSUPPORT: return EXIT_FAILED;
    case -EAGAIN:                                  return EXIT_DB_AWAY;
    case -EINVAL:                                  return EXIT_USAGE;
    default:                                       return EXIT_UNREACHABLE;
    }
}

/* ---- whom to ask, and as whom ---- */

struct target {
    const char *manager, *secret, *tls_folder, *name;
    char        login[CTL_MAX_NAME + 1];
    struct config *config;
};

static const char *first_given(const char *a, const char *b, const char *c)
{
    return a && *a ? a : b && *b ? b : c && *c ? c : NULL;
}

static bool has_certificate(const char *folder, const char *name)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/%s.crt", folder, name);
    return access(path, F_OK) == 0;
}

/* Who gives the command: sudo's user, where root's own name would hide everyone who may use sudo. Not where only root
   has a certificate. */
static void find_login(const char *tls_folder, char login[CTL_MAX_NAME + 1])
{
    const struct passwd *user = getpwuid(geteuid());
    const char *own = user && protocol_name_valid(user->pw_name) ? user->pw_name : "admin";
    const char *asker = geteuid() == 0 ? getenv("SUDO_USER") : NULL;
    bool is_known = asker && protocol_name_valid(asker) &&
                    (!tls_folder || has_certificate(tls_folder, asker) || !has_certificate(tls_folder, own));
    snprintf(login, CTL_MAX_NAME + 1, "%s", is_known ? asker : own);
}

static int find_target(struct flytctl *ctl, struct target *target)
{
    char *problems = NULL;
    bool usual = access(default_settings, F_OK) == 0, readable = usual && access(default_settings, R_OK) == 0;
    const char *file = first_given(ctl->config, getenv("FLYTCTL_SETTINGS"), readable ? default_settings : NULL);
    if (!file && usual)
        fprintf(stderr, "flytctl: warning: %s cannot be read: %s\n", default_settings, strerror(errno));
    target->config = config_load(&flytctl_config_schema, file, &problems);
    if (!target->config) {
        complain(ctl, EXIT_BAD_CONFIG, "the settings are wrong:\n%.900s", problems ? problems : "no memory");
        free(problems);
        return EXIT_BAD_CONFIG;
    }
    free(problems);
    const struct flytctl_config *settings = config_values(target->config);
    target->manager = first_given(ctl->manager, getenv("FLYT_CLUSTER"), settings->manager);
    target->secret = first_given(ctl->secret, getenv("FLYT_CLUSTER_SECRET"), settings->secret);
    target->tls_folder = first_given(ctl->tls_folder, getenv("FLYT_CLUSTER_TLS"), settings->tls_folder);
    find_login(target->tls_folder, target->login);
    target->name = first_given(ctl->as, settings->name, target->login);
    if (!protocol_name_valid(target->name))
        return complain(ctl, EXIT_USAGE, "'%s' is no name: letters, digits and ._:- are", target->name);
    if (strncmp(target->manager, "tcp://", 6) != 0 && strncmp(target->manager, "unix:///", 8) != 0)
        return complain(ctl, EXIT_USAGE,
                        "'%s' is no address of a cluster manager: tcp://host:port or unix:///path is expected",
                        target->manager);
    return EXIT_FINE;
}

static int load_tls(struct flytctl *ctl, const struct target *target, struct tls_context **tls)
{
    char ca[1100], certificate[1100], key[1100], error[EXPLAIN_SIZE];
    *tls = NULL;
    if (!target->tls_folder || strncmp(target->manager, "tcp://", 6) != 0)
        return EXIT_FINE;
    snprintf(ca, sizeof ca, "%s/ca.crt", target->tls_folder);
    snprintf(certificate, sizeof certificate, "%s/%s.crt", target->tls_folder, target->name);
    snprintf(key, sizeof key, "%s/%s.key", target->tls_folder, target->name);
    const struct tls_files files = { .ca = ca, .certificate = certificate, .key = key };
    int code = tls_context_create(&files, tls, error);
    if (code == -ENOENT)
        return complain(
            ctl, EXIT_USAGE,
            "%s has no ca.crt, %s.crt and %s.key (flytctl ca issue makes them; --as names another administrator)",
            target->tls_folder, target->name, target->name);
    return code ? complain(ctl, exit_of_errno(code), "TLS: %s", error) : EXIT_FINE;
}

static void warn_of_plain_text(const struct flytctl *ctl, const struct target *target)
{
    const struct conn *conn = link_conn(ctl->link);
    const char *host = conn_peer_host(conn);
    if (*host && !conn_encrypted(conn) && strncmp(host, "127.", 4) != 0 && strcmp(host, "::1") != 0)
        fprintf(stderr, "flytctl: warning: the connection to %s is not encrypted (see --tls)\n", target->manager);
}

/* What to do about a connection that did not come up. */
static const char *advice(const struct target *target, int error)
{
    if (strncmp(target->manager, "unix://", 7) == 0 && error == -EACCES && access(target->manager + 7, W_OK) != 0 &&
        errno == EACCES)
        return ". This socket is for root, for the user that the cluster manager runs as, and for the group "
               "ipc.frontend-group of its "
               "configuration";
    if (error == -ETIMEDOUT)
        return ". Somebody listens there and says nothing: is flyt-cluster-manager stopped or overloaded? Nothing was "
               "asked "
               "for yet";
    if (error == -ENOENT || error == -ECONNREFUSED)
        return ". Is flyt-cluster-manager running there? --manager, $FLYT_CLUSTER and /etc/flyt/flytctl.conf say where "
               "it is";
    return "";
}

/* ---- a silent cluster manager ---- */

/* Nobody looks at a screen that says nothing for longer. */
enum { TELL_MS = 2000 };

static void tell_waiting(struct loop_timer *timer, void *context)
{
    const struct flytctl *ctl = context;
    (void)timer;
    if (!ctl->away)
        fprintf(stderr,
                "flytctl: waiting for the cluster manager at %s, which has not answered yet (--timeout SECONDS limits"
                " the wait)\n",
                ctl->manager_uri);
}

/* Milliseconds as seconds, for a message. */
static double seconds_of(unsigned ms) { return ms / 1000.0; }

static int open_link(struct flytctl *ctl, const struct target *target)
{
    char error[EXPLAIN_SIZE];
    static const unsigned connect_most_ms = CTL_CALL_SECONDS * 1000;
    struct secret secret = { 0 };
    struct tls_context *tls;
    int code = load_tls(ctl, target, &tls);
    if (code)
        return code;
    bool has_secret = target->secret && strncmp(target->manager, "unix:", 5) != 0;
    if (has_secret && (code = secret_resolve(target->secret, false, &secret, error))) {
        tls_context_release(tls);
        return complain(ctl, code == -EACCES ? EXIT_DENIED : EXIT_USAGE, "the administrator's secret: %s", error);
    }
    const char *const uris[] = { target->manager, NULL };
    char software[VERSION_ROOM];
    snprintf(software, sizeof software, "flytctl %s", flyt_version);
    const struct link_options options = {
        .uris = uris, .tls = tls, .role = CTL_ROLE_ADMIN, .name = target->name, .software = software,
        .secret = has_secret ? &secret : NULL, .once = true,
    };
    unsigned most_ms = ctl->timeout_ms < connect_most_ms ? ctl->timeout_ms : connect_most_ms;
    snprintf(ctl->manager_uri, sizeof ctl->manager_uri, "%s", target->manager);
    ctl->loop = loop_create();
    if (ctl->loop)
        loop_timer_start(ctl->loop, &ctl->tell, TELL_MS, tell_waiting, ctl);
    if (!ctl->loop)
        code = complain(ctl, EXIT_FAILED, "no memory or descriptors for an event loop");
    else if ((code = link_open(ctl->loop, &options, &ctl->link, error)))
        code = complain(ctl, exit_of_errno(code), "%s", error);
    else if ((code = link_wait_up(ctl->link, most_ms, error)) == -ETIMEDOUT)
        code = complain(ctl, exit_of_errno(code), "%s has not answered within %g s%s", target->manager,
                        seconds_of(most_ms), advice(target, code));
    else if (code)
        code = complain(ctl, exit_of_errno(code), "%s%s", error, advice(target, code));
    else if (!ctl->away)
        warn_of_plain_text(ctl, target);
    loop_timer_stop(&ctl->tell);
    tls_context_release(tls);
    secret_wipe(&secret);
    return code;
}

/* Connects at the first call. EXIT_FINE or complained. */
static int session_open(struct flytctl *ctl)
{
    if (ctl->link)
        return EXIT_FINE;
    struct target target = { 0 };
    int code = find_target(ctl, &target);
    if (code == EXIT_FINE)
        code = open_link(ctl, &target);
    config_free(target.config);
    return code;
}

void session_close(struct flytctl *ctl)
{
    if (ctl->link)
        link_close(ctl->link);
    if (ctl->loop)
        loop_destroy(ctl->loop);
    ctl->link = NULL;
    ctl->loop = NULL;
}

/* ---- calls ---- */

void look_with(struct flytctl *ctl, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(ctl->look, sizeof ctl->look, format, list);
    va_end(list);
}

/* Milliseconds for which the answer is not to come. */
static unsigned asked_to_wait(uint32_t procedure, const void *args)
{
    return procedure == ADMIN_EVENTS ? ((const admin_events_args *)args)->wait_ms
           : procedure == ADMIN_TOP  ? ((const admin_top_args *)args)->wait_ms
                                     : 0;
}

/* Milliseconds that programs have to give memory back, before the answer can be expected. */
static unsigned patience_of(uint32_t procedure, const void *args)
{
    return procedure == ADMIN_RESIZE   ? ((const admin_resize_args *)args)->within_ms
           : procedure == ADMIN_VM_NOW ? ((const admin_vm_now_args *)args)->within_ms
                                       : 0;
}

static int ask_once(struct flytctl *ctl, uint32_t procedure, const void *args, void *result)
{
    char error[EXPLAIN_SIZE];
    int code = session_open(ctl);
    if (code)
        return code;
    const unsigned patience = patience_of(procedure, args);
    loop_timer_start(ctl->loop, &ctl->tell, asked_to_wait(procedure, args) + patience + TELL_MS, tell_waiting,
                     ctl);
    code = link_call_wait(ctl->link, procedure, args, ctl->timeout_ms + patience, result, error);
    loop_timer_stop(&ctl->tell);
    if (code == -ETIMEDOUT)
        snprintf(error, sizeof error, "no answer within %g s", seconds_of(ctl->timeout_ms + patience));
    if (code == -ENOSYS)
        return complain(ctl, EXIT_NOT_SUPPORTED, "this cluster manager does not know %s",
                        protocol_procedures[procedure].name);
    if (code == -EACCES)
        return complain(ctl, EXIT_DENIED,
                        "your role may not do this (%s): a certificate admin:NAME may do all, operator:NAME runs the "
                        "cluster, viewer:NAME looks; at the unix socket ipc.frontend-role says it",
                        protocol_procedures[procedure].name);
    bool sent = code != -EINVAL && code != -ENOTCONN && code != -ENOMEM;
    if (code && sent && *ctl->look)
        return complain(ctl, EXIT_UNKNOWN,
                        "the cluster manager: %s. The change may have been made, or may be made yet: `%s` shows it",
                        error, ctl->look);
    return code ? complain(ctl, exit_of_errno(code), "the cluster manager: %s", error) : EXIT_FINE;
}

/* ---- commands that go on until they are interrupted ---- */

enum { AGAIN_MS = 500 };

void session_lasts(struct flytctl *ctl) { ctl->lasts = true; }

bool session_hushes(int code) { return code == EXIT_UNREACHABLE || code == EXIT_DB_AWAY; }

static int64_t seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

bool session_settles(const struct flytctl *ctl)
{
    return ctl->returns && seconds_now() - ctl->returned < CTL_DEAD_SECONDS;
}

/* Of a command that has had an answer. False: it is to end, by a key or a signal. */
static bool wait_for_return(struct flytctl *ctl)
{
    if (!ctl->away)
        fprintf(stderr, "flytctl: the cluster manager at %s has gone; this goes on when it is back\n",
                ctl->manager_uri);
    ctl->away = true;
    session_close(ctl);
    int key = screen_key(AGAIN_MS);
    return key != KEY_END && key != 'q';
}

static void note_return(struct flytctl *ctl)
{
    fprintf(stderr, "flytctl: the cluster manager is back\n");
    ctl->away = false;
    ctl->returns++;
    ctl->returned = seconds_now();
}

int ask_raw(struct flytctl *ctl, uint32_t procedure, const void *args, void *result)
{
    ctl->hushed = ctl->lasts && (ctl->away || ctl->link);
    int code = ask_once(ctl, procedure, args, result);
    while (code && ctl->hushed && session_hushes(code) && wait_for_return(ctl))
        code = ask_once(ctl, procedure, args, result);
    ctl->hushed = false;
    if (!code && ctl->away)
        note_return(ctl);
    return code;
}
