#include "control-managers/common/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <openssl/x509.h>

#include "control-managers/common/notify.h"
#include "control-managers/common/renewal.h"
#include "cpu/common/explain.h"
#include "cpu/common/fd.h"
#include "cpu/common/log.h"
#include "cpu/common/version.h"

/* ---- the command line ---- */

static char software[VERSION_ROOM];

const char *daemon_software(void) { return software; }

static int usage(const struct daemon_about *about)
{
    fprintf(stderr, "%s: it takes options only\nTry: %s --help\n", about->name, about->name);
    return DAEMON_USAGE;
}

static struct config *load(const struct daemon_about *about, const char *path)
{
    char *problems;
    struct config *config = config_load(about->schema, path, &problems);
    if (!config)
        fprintf(stderr, "%s%s", problems ? problems : "no memory",
                problems && problems[strlen(problems) - 1] == '\n' ? "" : "\n");
    free(problems);
    return config;
}

int daemon_begin(const struct daemon_about *about, int argc, char **argv, struct config **config, const char **path)
{
    enum { OPTION_CHECK = 256, OPTION_KEYS, OPTION_VERSION, OPTION_FLAG };
    const struct option options[] = {
        { "config", required_argument, NULL, 'c' },
        { "check", no_argument, NULL, OPTION_CHECK },
        { "print-keys", no_argument, NULL, OPTION_KEYS },
        { "version", no_argument, NULL, OPTION_VERSION },
        { "help", no_argument, NULL, 'h' },
        { about->flags[0].name, no_argument, NULL, OPTION_FLAG }, /* without a name it is the end */
        { about->flags[1].name, no_argument, NULL, OPTION_FLAG + 1 },
        { 0 },
    };
    bool check = false;
    int option;
    snprintf(software, sizeof software, "%s %s", about->name, flyt_version);
    if (fd_open_standard() != 0) {
        fprintf(stderr, "%s: /dev/null cannot be opened in place of a closed stdin, stdout or stderr: %s\n",
                about->name, strerror(errno));
        return DAEMON_CANNOT;
    }
    *path = access(about->default_config, F_OK) == 0 ? about->default_config : NULL;
    while ((option = getopt_long(argc, argv, "c:h", options, NULL)) != -1)
        switch (option) {
        case 'c': *path = optarg; break;
        case OPTION_CHECK: check = true; break;
        case OPTION_FLAG:
        case OPTION_FLAG + 1: *about->flags[option - OPTION_FLAG].given = true; break;
        case OPTION_KEYS: config_print_schema(about->schema, stdout); return DAEMON_ENDED;
        case OPTION_VERSION: puts(software); return DAEMON_ENDED;
        case 'h': fputs(about->help, stdout); return DAEMON_ENDED;
        default: return DAEMON_USAGE;
        }
    if (optind < argc)
        return usage(about);
    log_set_name(about->name);
    *config = load(about, *path);
    if (!*config)
        return DAEMON_BAD_CONFIG;
    if (!check)
        return DAEMON_GO_ON;
    config_free(*config);
    *config = NULL;
    return DAEMON_ENDED;
}

int daemon_exit_status(int failure)
{
    switch (-failure) {
    case 0: return DAEMON_ENDED;
    case EACCES:
    case EPERM:
    case ENOENT:
    case ENOTDIR:
    case EINVAL:
    case EROFS:
    case EKEYEXPIRED:
    case ENAMETOOLONG: return DAEMON_BAD_CONFIG;
    default: return DAEMON_CANNOT;
    }
}

/* ---- what is settled once ---- */

int daemon_lock(const struct daemon_about *about, const char *folder, const char *key, int *fd, char *error)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/lock", folder) >= (int)sizeof path)
        return explain(error, -ENAMETOOLONG, "%s is too long", folder);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd < 0)
        return explain(error, -errno, "opening %s: %s", path, strerror(errno));
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0)
        return explain(error, -EBUSY, "another %s uses %s; give this one a %s of its own", about->name, folder, key);
    return 0;
}

/* From this many days before the certificate ends, a daemon warns at each start and reload; so does
   `flytctl config check`. */
enum { DAYS_TO_RENEW = 30 };

void daemon_certificate_age(const struct tls_context *tls)
{
    const char *path = tls_context_path(tls);
    if (tls_context_is_old(tls))
        log_warning("event=certificate-old path=%s why=\"an earlier version of flytctl made it, and it could serve at "
                    "both ends of"
                    " a connection\": make a new one (`flytctl ca issue DIR ROLE NAME --force`)",
                    path);
    long days = tls_context_days(tls);
    if (days < DAYS_TO_RENEW)
        log_warning("event=certificate-ends path=%s days=%ld: make a new one (`flytctl ca issue DIR ROLE NAME "
                    "--force`), and reload this daemon",
                    path, days);
}

int daemon_tls(const struct tls_files *configured, const char *renewed, struct tls_context **out, char *error)
{
    struct tls_files files = *configured;
    char why[EXPLAIN_SIZE];
    *out = NULL;
    if (!*files.ca)
        return 0;
    renewal_pick(&files, renewed, why);
    if (*why)
        log_warning("event=certificate-not-taken path=%s why=\"%s\": the configured one counts", renewed, why);
    int failure = tls_context_create(&files, out, error);
    if (failure == 0)
        daemon_certificate_age(*out);
    return failure == -ENOENT ? 0 : failure;
}

int daemon_signals(struct loop *loop, void (*end)(int, void *), void (*reload)(int, void *), void *context, char *error)
{
    if (loop_signal(loop, SIGTERM, end, context) || loop_signal(loop, SIGINT, end, context) ||
        loop_signal(loop, SIGHUP, reload, context))
        return explain(error, -ENOMEM, "signals cannot be handled");
    return 0;
}

/* ---- reloading ---- */

void daemon_tls_renew(const struct tls_files *files, const char *renewed, struct tls_context **now, struct link *link)
{
    char error[EXPLAIN_SIZE] = "";
    struct tls_context *fresh;
    if (daemon_tls(files, renewed, &fresh, error) < 0) {
        log_error("event=certificates-not-read why=\"%s\": the old ones stay", error);
        return;
    }
    if (!fresh != !*now) {
        log_warning("event=certificates-not-taken why=\"whether there is TLS takes a restart\"");
        tls_context_release(fresh);
        return;
    }
    if (!fresh)
        return; /* no TLS, before and now */
    bool other = X509_cmp(tls_context_certificate(fresh), tls_context_certificate(*now)) != 0;
    tls_context_release(*now);
    *now = fresh;
    link_set_tls(link, fresh);
    /* The cluster manager knows this daemon by the certificate of the connection, and renews that one. */
    if (other && link_conn(link))
        conn_close(link_conn(link), "this side connects again with its new certificate");
}

void daemon_secret_renew(const char *source, struct secret *now, struct link *link)
{
    char error[EXPLAIN_SIZE] = "";
    struct secret fresh;
    /* A variable of the environment cannot change under a process, and may have been wiped. */
    if (strncmp(source, "file:", 5) != 0)
        return;
    if (secret_resolve(source, false, &fresh, error) < 0) {
        if (now->size)
            log_error("event=secret-not-read why=\"%s\": the old one stays", error);
        return;
    }
    if (!now->size) {
        log_warning(
            "event=secret-not-taken why=\"there was none when this daemon started\": it counts from a restart on");
    } else if (fresh.size != now->size || memcmp(fresh.bytes, now->bytes, fresh.size) != 0) {
        *now = fresh;
        link_set_secret(link, now);
        link_retry_now(link);
        log_info("event=secret-changed");
    }
    secret_wipe(&fresh);
}

struct config *daemon_reload(const struct daemon_about *about, const char *path, const struct config *old)
{
    char *problems, keys[512];
    notify_send("RELOADING=1");
    struct config *config = config_load(about->schema, path, &problems);
    if (!config) {
        char why[4096] = "";
        config_problems_join(problems ? problems : "no memory", why, sizeof why);
        log_error("event=reload-refused why=\"%s\": the old configuration stays in use", why);
        notify_send("READY=1");
    } else if (config_needs_restart(old, config, keys, sizeof keys)) {
        log_warning("event=reload-partly keys=\"%s\": these hold after a restart", keys);
    }
    free(problems);
    return config;
}

void daemon_reloaded(struct config *fresh)
{
    config_free(fresh);
    log_info("event=reloaded");
    notify_send("READY=1");
}
