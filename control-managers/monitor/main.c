/* main.c: flyt-monitor. See monitor.h. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/common/protocol.h"
#include "control-managers/monitor/monitor.h"
#include "cpu/common/log.h"
#include "cpu/common/version.h"

enum { PORT = 12403, INTERVAL_MS = 5000, STREAMS = 64 };

static const char help[] =
    "Usage: flyt-monitor [OPTIONS]\n\n"
    "Shows a Flyt cluster over HTTP on this machine: a page, metrics for Prometheus, JSON. It changes nothing.\n\n"
    "Options:\n"
    "  --manager URI      the cluster manager: unix:///path or tcp://host:port ($FLYT_CLUSTER)\n"
    "  --tls DIR          folder with ca.crt, NAME.crt and NAME.key, for tcp ($FLYT_CLUSTER_TLS)\n"
    "  --as NAME          NAME of the certificate, which names viewer:NAME (monitor)\n"
    "  --listen ADDRESS   a loopback address (127.0.0.1)\n"
    "  --port N           (12403); 0: any, which is printed\n"
    "  --host NAME        a further name by which browsers call it, behind a proxy for example; may be repeated\n"
    "  --interval SECONDS between two readings, 1 to 3600 (5)\n"
    "  --streams N        so many may follow the events, 1 to 200 (64)\n"
    "  --help, --version\n";

static bool read_number(const char *text, unsigned long min, unsigned long max, unsigned long *number)
{
    char *end;
    *number = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && *number >= min && *number <= max;
}

/* The exit status; -1: go on. */
static int read_options(struct monitor *monitor, int argc, char **argv)
{
    static const struct option options[] = {
        { "manager", 1, NULL, 'm' },
        { "tls", 1, NULL, 't' },
        { "as", 1, NULL, 'a' },
        { "listen", 1, NULL, 'l' },
        { "port", 1, NULL, 'p' },
        { "host", 1, NULL, 'o' },
        { "help", 0, NULL, 'h' },
        { "interval", 1, NULL, 'i' },
        { "streams", 1, NULL, 's' },
        { "version", 0, NULL, 'V' },
        { 0 },
    };
    unsigned long number;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        bool good = true;
        switch (c) {
        case 'm': monitor->manager = optarg; break;
        case 't': monitor->tls_folder = optarg; break;
        case 'a': monitor->name = optarg; break;
        case 'l': monitor->address = optarg; break;
        case 'p':
            good = read_number(optarg, 0, UINT16_MAX, &number);
            monitor->port = (uint16_t)number;
            break;
        case 'i':
            good = read_number(optarg, 1, 3600, &number);
            monitor->interval_ms = (unsigned)number * 1000;
            break;
        case 's':
            good = read_number(optarg, 1, 200, &number);
            monitor->most_streams = (unsigned)number;
            break;
        case 'o':
            good = monitor->host_count < MOST_HOSTS;
            if (good)
                monitor->hosts[monitor->host_count++] = optarg;
            break;
        case 'h': printf("%s", help); return 0;
        case 'V': printf("flyt-monitor %s, protocol %d.%d\n", flyt_version, CTL_MAJOR, CTL_MINOR); return 0;
        default: return 2;
        }
        if (!good) {
            fprintf(stderr, "flyt-monitor: '%s' makes no sense there; see --help\n", optarg);
            return 2;
        }
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
    static struct monitor monitor = { .name = "monitor",
                                      .address = "127.0.0.1",
                                      .port = PORT,
                                      .interval_ms = INTERVAL_MS,
                                      .most_streams = STREAMS,
                                      .lock = PTHREAD_MUTEX_INITIALIZER,
                                      .news = PTHREAD_COND_INITIALIZER };
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
    printf("http://%s%s%s:%u/\n", six ? "[" : "", monitor.address, six ? "]" : "", monitor.port);
    fflush(stdout);
    status = monitor_read(&monitor);
    web_end(&monitor);
    return status;
}
