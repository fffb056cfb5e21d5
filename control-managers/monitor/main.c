/* main.c: flyt-monitor. See monitor.h. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/common/protocol.h"
#include "control-managers/monitor/access.h"
#include "control-managers/monitor/monitor.h"
#include "control-managers/monitor/schema.h"
#include "cpu/common/log.h"
#include "cpu/common/version.h"

static const char help[] =
    "Usage: flyt-monitor [OPTIONS]\n\n"
    "Shows a Flyt cluster over HTTP: a page, metrics for Prometheus, JSON. It changes nothing.\n\n"
    "Options:\n"
    "  --config FILE      configuration; options that are given count more\n"
    "  --manager URI      the cluster manager: unix:///path or tcp://host:port ($FLYT_CLUSTER)\n"
    "  --tls DIR          folder with ca.crt, NAME.crt and NAME.key, for tcp ($FLYT_CLUSTER_TLS)\n"
    "  --as NAME          NAME of the certificate, which names viewer:NAME (monitor)\n"
    "  --listen ADDRESS   a loopback address (127.0.0.1); with --web-tls any address\n"
    "  --port N           (12403); 0: any, which is printed\n"
    "  --host NAME        a further name by which browsers call it; may be repeated\n"
    "  --web-tls DIR      folder with ca.crt, web.crt and web.key: it speaks TLS, and callers show a certificate of\n"
    "                     ca.crt or a token\n"
    "  --tokens FILE      tokens that callers may show; without certificates too\n"
    "  --new-token ROLE   print a new token and its line for the file, and end; ROLE is viewer, metrics or client:VM\n"
    "  --interval SECONDS between two readings, 1 to 3600 (5)\n"
    "  --streams N        so many may follow the events, 1 to 1000 (64)\n"
    "  --program-metrics  /metrics/programs has series of each program\n"
    "  --print-keys       print all keys of the configuration, and end\n"
    "  --help, --version\n\n"
    "SIGHUP reads certificates and tokens again.\n";

static const struct option options[] = {
    { "config", 1, NULL, 'c' },     { "manager", 1, NULL, 'm' },
    { "tls", 1, NULL, 't' },        { "as", 1, NULL, 'a' },
    { "listen", 1, NULL, 'l' },     { "port", 1, NULL, 'p' },
    { "host", 1, NULL, 'o' },       { "web-tls", 1, NULL, 'w' },
    { "tokens", 1, NULL, 'k' },     { "new-token", 1, NULL, 'n' },
    { "interval", 1, NULL, 'i' },   { "streams", 1, NULL, 's' },
    { "help", 0, NULL, 'h' },       { "version", 0, NULL, 'V' },
    { "print-keys", 0, NULL, 'K' }, { "program-metrics", 0, NULL, 'g' },
    { 0 },
};

static bool read_number(const char *text, unsigned long min, unsigned long max, unsigned long *number)
{
    char *end;
    *number = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && *number >= min && *number <= max;
}

static bool add_host(struct monitor *monitor, const char *host)
{
    if (monitor->host_count == MOST_HOSTS)
        return false;
    monitor->hosts[monitor->host_count++] = host;
    return true;
}

/* The strings live as long as the process. The exit status; -1: go on. */
static int read_config(struct monitor *monitor, const char *path)
{
    char *problems;
    const struct config *config = config_load(&monitor_schema, path, &problems);
    if (!config) {
        fprintf(stderr, "%s\n", problems);
        free(problems);
        return 1;
    }
    const struct monitor_config *c = config_values(config);
    if (path) /* $FLYT_CLUSTER counts more than what is built in, and less than a file */
        monitor->manager = c->manager;
    if (*c->tls_folder)
        monitor->tls_folder = c->tls_folder;
    monitor->name = c->name;
    monitor->interval_ms = (unsigned)(c->interval * 1000);
    monitor->address = c->address;
    monitor->port = (uint16_t)c->port;
    monitor->most_streams = (unsigned)c->streams;
    monitor->programs = c->programs;
    monitor->web_folder = *c->web_folder ? c->web_folder : NULL;
    monitor->tokens = *c->tokens ? c->tokens : NULL;
    for (size_t i = 0; i < c->hosts.count; i++)
        if (!add_host(monitor, c->hosts.items[i])) {
            fprintf(stderr, "flyt-monitor: %s has more than %d web.hosts\n", path, MOST_HOSTS);
            return 1;
        }
    return -1;
}

static int new_token(const char *role)
{
    char token[ACCESS_TOKEN_SIZE], line[256];
    if (!access_new_token(role, token, line)) {
        fprintf(stderr, "flyt-monitor: '%s' is no role of tokens: viewer, metrics and client:VM are\n", role);
        return 2;
    }
    printf("token: %s\nline for the file: %s\n", token, line);
    return 0;
}

/* One option with its argument. false: it makes no sense. */
static bool take_option(struct monitor *monitor, int c, const char *value)
{
    unsigned long number;
    bool good = true;
    switch (c) {
    case 'm': monitor->manager = value; break;
    case 't': monitor->tls_folder = value; break;
    case 'a': monitor->name = value; break;
    case 'l': monitor->address = value; break;
    case 'w': monitor->web_folder = value; break;
    case 'k': monitor->tokens = value; break;
    case 'o': return add_host(monitor, value);
    case 'g': monitor->programs = true; break;
    case 'p':
        good = read_number(value, 0, UINT16_MAX, &number);
        monitor->port = (uint16_t)number;
        break;
    case 'i':
        good = read_number(value, 1, 3600, &number);
        monitor->interval_ms = (unsigned)number * 1000;
        break;
    case 's':
        good = read_number(value, 1, 1000, &number);
        monitor->most_streams = (unsigned)number;
        break;
    default: break;
    }
    return good;
}

/* The exit status; -1: go on. The file is read first, wherever --config stands. */
static int read_options(struct monitor *monitor, int argc, char **argv)
{
    const char *config = NULL;
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case 'c': config = optarg; break;
        case 'h': printf("%s", help); return 0;
        case 'V': printf("flyt-monitor %s, protocol %d.%d\n", flyt_version, CTL_MAJOR, CTL_MINOR); return 0;
        case 'K': config_print_schema(&monitor_schema, stdout); return 0;
        case 'n': return new_token(optarg);
        case '?': return 2;
        default: break;
        }
    int status = read_config(monitor, config);
    if (status >= 0)
        return status;
    optind = 1;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!take_option(monitor, c, optarg)) {
            fprintf(stderr, "flyt-monitor: '%s' makes no sense there; see --help\n", optarg);
            return 2;
        }
    if (optind < argc || !protocol_name_valid(monitor->name)) {
        fprintf(stderr, "flyt-monitor: unknown argument '%s'; see --help\n",
                optind < argc ? argv[optind] : monitor->name);
        return 2;
    }
    return -1;
}

int main(int argc, char **argv)
{
    const char *manager = getenv("FLYT_CLUSTER"), *tls = getenv("FLYT_CLUSTER_TLS");
    static struct monitor monitor = { .lock = PTHREAD_MUTEX_INITIALIZER };
    char error[256];
    log_set_name("flyt-monitor");
    monitor.manager = manager && *manager ? manager : "unix:///run/flyt/cluster-manager.sock";
    monitor.tls_folder = tls && *tls ? tls : NULL;
    int status = read_options(&monitor, argc, argv);
    if (status >= 0)
        return status;
    signal(SIGPIPE, SIG_IGN);
    if (web_begin(&monitor, error) != 0) {
        log_error("event=cannot-start why=\"%s\"", error);
        return 1;
    }
    bool six = strchr(monitor.address, ':') != NULL;
    printf("http%s://%s%s%s:%u/\n", monitor.web_folder ? "s" : "", six ? "[" : "", monitor.address, six ? "]" : "",
           monitor.port);
    fflush(stdout);
    status = monitor_read(&monitor);
    web_end(&monitor);
    return status;
}
