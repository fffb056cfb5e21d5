/*
 * daemon.h: what the three daemons do alike: the command line, the configuration, the lock on the state folder, TLS by
 * three files, signals and reloading.
 */
#ifndef FLYT_CONTROL_DAEMON_H
#define FLYT_CONTROL_DAEMON_H

#include "control-managers/common/config.h"
#include "control-managers/common/link.h"
#include "control-managers/common/loop.h"
#include "control-managers/common/tls.h"

enum daemon_exit { DAEMON_ENDED = 0, DAEMON_CANNOT = 1, DAEMON_USAGE = 2, DAEMON_BAD_CONFIG = 3, DAEMON_GO_ON = -1 };

/* Of every daemon's --help. */
#define DAEMON_HELP_OPTIONS                                           \
    "      --check        check the configuration and end\n"          \
    "      --print-keys   print all keys with their initial values\n" \
    "      --version, --help\n"
#define DAEMON_HELP_END                                                                                                \
    "Messages go to stderr; FLYT_LOG=error|warning|info|debug chooses which. SIGHUP reads the configuration and the\n" \
    "certificates again, SIGTERM and SIGINT end it. Exit status: 0 ended on request, 1 cannot run, 2 wrong usage,\n"   \
    "3 mistakes in the configuration or in the permissions of its files.\n"

enum { DAEMON_MAX_FLAGS = 2 };

struct daemon_about {
    const char *name, *help;
    const char *default_config; /* used if it is there */
    const struct config_schema *schema;
    struct {
        const char *name;
        bool *given;
    } flags[DAEMON_MAX_FLAGS]; /* further options without a value */
};

/* "NAME VERSION" of the daemon that called daemon_begin, for its peers. Valid until the process ends. */
const char *daemon_software(void);

/* Reads the command line and the configuration; names the log. DAEMON_GO_ON: *config is loaded from *path (NULL: from
   nowhere), else the process is to end with this status, and everything is said. */
int daemon_begin(const struct daemon_about *, int argc, char **argv, struct config **config, const char **path);

/* The exit status for an errno (negative) with which a daemon could not begin, or 0. What only a person can mend is a
   mistake in the configuration: a file that is missing or closed to us, a wrong value, an expired certificate. A
   service manager need not start the daemon again then. */
int daemon_exit_status(int failure);

/* One daemon for one state folder: `folder`/lock, which must be possible to make. *fd stays open. key: names the
   folder. */
int daemon_lock(const struct daemon_about *, const char *folder, const char *key, int *fd, char *error);

/* By the keys of a group `tls`, and what was renewed since (renewal.h). *out NULL: TLS is off, or the
   files do not exist. */
int daemon_tls(const struct tls_files *configured, const char *renewed, struct tls_context **out, char *error);
/* Warns of a certificate that ends soon, or that earlier versions made. */
void daemon_certificate_age(const struct tls_context *);

/* For SIGHUP: reads the files again; *now and the link's are replaced, for connections from then on. If that cannot
   be, it is logged, and the old ones stay. */
void daemon_tls_renew(const struct tls_files *, const char *renewed, struct tls_context **now, struct link *);

/* For SIGHUP: reads the secret again where it is in a file; *now and the link's are replaced, and a link that is not up
   is tried at once. If that cannot be, it is logged, and the old one stays. Nothing where there was none. */
void daemon_secret_renew(const char *source, struct secret *now, struct link *link);

/* SIGTERM and SIGINT call end, SIGHUP calls reload. */
int daemon_signals(struct loop *, void (*end)(int, void *), void (*reload)(int, void *), void *context, char *error);

/* For SIGHUP: the configuration as it is now, to be freed; NULL: it has mistakes, which are logged, and the old one
   holds. Keys that need a restart are logged. Between daemon_reload and daemon_reloaded the daemon takes over what may
   change. */
struct config *daemon_reload(const struct daemon_about *, const char *path, const struct config *old);
void daemon_reloaded(struct config *fresh);

#endif
