/* main.c: the command line of cricket-rpc-server. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/fd.h"
#include "cpu/common/log.h"
#include "cpu/common/version.h"
#include "cpu/rpc/transport/liveness.h"
#include "cpu/server/listener/dial.h"
#include "cpu/server/listener/listener.h"
#include "cpu/server/session.h"
#include "cpu/server/listener/ticket.h"

enum {
    OPTION_LISTEN = 256,
    OPTION_LISTEN_FD,
    OPTION_CONTROL_FD,
    OPTION_GPU,
    OPTION_WORKERS,
    OPTION_VERSION,
    OPTION_WORKER,
    OPTION_CACHE,
    OPTION_TICKET_KEY,
    OPTION_TICKET_STATE,
    OPTION_TICKET_SERVER,
    OPTION_SHOW_DEVICE,
    OPTION_TLS,
    OPTION_USHER,
    OPTION_TLS_CERTIFICATE,
    OPTION_TLS_KEY,
    OPTION_TLS_CA,
    OPTION_PLAIN_TCP,
    OPTION_HOST_MEMORY,
    OPTION_BAR,
    OPTION_LINKS
};

static const char help[] =
    "Usage: cricket-rpc-server --listen URI [--listen URI ...] [options]\n"
    "\n"
    "Serves this machine's GPU to CUDA programs on machines without one.\n"
    "\n"
    "  --listen URI      tls://HOST:PORT or tcp://HOST:PORT (port 0: any free one), or\n"
    "                    unix:///PATH[?mode=0660]; each address is printed in the form that clients use\n"
    "  --listen-fd N     for the --listen before it, with tcp:// or tls://: use the socket with descriptor N,\n"
    "                    which the caller has made and which listens already\n"
    "  --control-fd N    orders about a server that runs come to the socket with descriptor N, which the\n"
    "                    caller has made and which listens already (flyt-node-manager does)\n"
    "  --gpu KIND        auto (default: an NVIDIA GPU if there is one, else software),\n"
    "                    nvidia, software, or null (does nothing; for measurements)\n"
    "  --workers N       processes kept ready for the next client (default 2)\n"
    "  --host-memory SIZE  limit of the page-locked memory that a program on this machine shares\n"
    "                    with the device, or that kernels of a program elsewhere use, in bytes or\n"
    "                    with K, M or G (default: half of the machine's memory; only used memory\n"
    "                    is allocated; 0: none)\n"
    "  --bar FILE[,SESSIONS]  the memory of a virtual machine's ivshmem device on this host: programs\n"
    "                    in that machine with FLYT_BAR connect over tcp:// and continue through it,\n"
    "                    at most SESSIONS at a time (default 4)\n"
    "  --links ADDRESS[,ADDRESS...]  let programs link this GPU server with those at these addresses, so that\n"
    "                    bytes go from GPU to GPU without the programs: tcp://HOST:PORT or tls://HOST:PORT as\n"
    "                    clients write them, * for any port (default: no links); \"managers\" is for\n"
    "                    servers that flyt-node-manager starts\n"
    "  --ticket-key FILE serve only clients with a ticket signed by one of the keys in FILE\n"
    "                    (lines of 64 hexadecimal digits; flyt-node-manager writes it)\n"
    "  --show-device     print how many multiprocessors the driver reports, before the addresses\n"
    "  --ticket-state DIR  where the server remembers which tickets were used\n"
    "  --ticket-server N   accept only tickets for server N\n"
    "  --tls-certificate FILE, --tls-key FILE  certificate and key for tls:// (PEM); without them the\n"
    "                    server makes a certificate, whose fingerprint is in the printed address\n"
    "  --tls-ca FILE     serve only clients with a certificate signed by this authority. If there is a file of\n"
    "                    the same name with .crl instead of .crt, it lists revoked certificates\n"
    "  --plain-tcp       allow tcp:// beside tls://\n"
    "  --version         print the version\n"
    "  --help            print this\n"
    "\n"
    "Messages go to stderr; FLYT_LOG=error|warning|info|debug chooses which.\n"
    "SIGTERM and SIGINT stop it and its workers; SIGHUP reads the certificate again. Exit status: 0 stopped, 1 cannot "
    "listen or run,\n"
    "2 wrong usage, 3 no GPU of that kind.\n";

static int usage(const char *what)
{
    fprintf(stderr, "cricket-rpc-server: %s\nTry: cricket-rpc-server --help\n", what);
    return 2;
}

static bool read_size(const char *text, size_t *size)
{
    static const char units[] = "KMG";
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (errno || (*end && (!unit || end[1])) || n > (SIZE_MAX / 4) >> shift)
        return false;
    *size = (size_t)n << shift;
    return true;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "listen", required_argument, NULL, OPTION_LISTEN },
        { "listen-fd", required_argument, NULL, OPTION_LISTEN_FD },
        { "control-fd", required_argument, NULL, OPTION_CONTROL_FD },
        { "gpu", required_argument, NULL, OPTION_GPU },
        { "workers", required_argument, NULL, OPTION_WORKERS },
        { "host-memory", required_argument, NULL, OPTION_HOST_MEMORY },
        { "bar", required_argument, NULL, OPTION_BAR },
        { "links", required_argument, NULL, OPTION_LINKS },
        { "ticket-key", required_argument, NULL, OPTION_TICKET_KEY },
        { "ticket-state", required_argument, NULL, OPTION_TICKET_STATE },
        { "ticket-server", required_argument, NULL, OPTION_TICKET_SERVER },
        { "show-device", no_argument, NULL, OPTION_SHOW_DEVICE },
        { "tls-certificate", required_argument, NULL, OPTION_TLS_CERTIFICATE },
        { "tls-key", required_argument, NULL, OPTION_TLS_KEY },
        { "tls-ca", required_argument, NULL, OPTION_TLS_CA },
        { "plain-tcp", no_argument, NULL, OPTION_PLAIN_TCP },
        { "version", no_argument, NULL, OPTION_VERSION },
        { "help", no_argument, NULL, 'h' },
        { "worker", no_argument, NULL, OPTION_WORKER },           /* how the listener starts a worker */
        { "cache", required_argument, NULL, OPTION_CACHE },       /* the same */
        { "tls", no_argument, NULL, OPTION_TLS },                 /* the same */
        { "usher", no_argument, NULL, OPTION_USHER },             /* the same */
        { 0 },
    };
    struct listener_options listener = { .gpu = "auto", .spares = 2, .control = -1 };
    size_t host_memory = host_memory_default();
    const char *cache = NULL, *ticket_key = NULL, *ticket_state = NULL, *ticket_server = NULL;
    char *end;
    bool tcp = false;
    bool usher = false;
    int worker = 0, option;
    if (fd_open_standard() != 0) {
        perror("cricket-rpc-server: /dev/null cannot be opened in place of a closed stdin, stdout or stderr");
        return 1;
    }
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1)
        switch (option) {
        case OPTION_LISTEN:
            if (listener.uri_count == LISTENER_MAX_URIS)
                return usage("too many --listen");
            listener.uris[listener.uri_count++] = optarg;
            listener.tls |= strncmp(optarg, "tls://", 6) == 0;
            tcp |= strncmp(optarg, "tcp://", 6) == 0;
            break;
        case OPTION_LISTEN_FD: {
            long n = strtol(optarg, &end, 10);
            if (!*optarg || *end || n < 3 || n > 1 << 20)
                return usage("--listen-fd is the number of a descriptor, from 3 on");
            if (!listener.uri_count)
                return usage("--listen-fd goes behind a --listen");
            listener.fds[listener.uri_count - 1] = (int)n;
            break;
        }
        case OPTION_CONTROL_FD: {
            long n = strtol(optarg, &end, 10);
            if (!*optarg || *end || n < 3 || n > 1 << 20)
                return usage("--control-fd is the number of a descriptor, from 3 on");
            listener.control = (int)n;
            break;
        }
        case OPTION_GPU:
            if (strcmp(optarg, "auto") && strcmp(optarg, "nvidia") && strcmp(optarg, "software") &&
                strcmp(optarg, "null"))
                return usage("--gpu is auto, nvidia, software or null");
            listener.gpu = optarg;
            break;
        case OPTION_WORKERS: {
            long n = strtol(optarg, &end, 10);
            if (!*optarg || *end || n < 1 || n > 256)
                return usage("--workers is a number from 1 to 256");
            listener.spares = (int)n;
            break;
        }
        case OPTION_HOST_MEMORY:
            if (!read_size(optarg, &host_memory))
                return usage("--host-memory is a number of bytes, or one with K, M or G behind it");
            listener.host_memory = optarg;
            break;
        case OPTION_BAR:
            listener.bar = optarg;
            break;
        case OPTION_TICKET_KEY:
            ticket_key = optarg;
            break;
        case OPTION_TICKET_STATE:
            ticket_state = optarg;
            break;
        case OPTION_TICKET_SERVER:
            ticket_server = optarg;
            break;
        case OPTION_TLS_CERTIFICATE:
            listener.tls_files.certificate = optarg;
            break;
        case OPTION_TLS_KEY:
            listener.tls_files.key = optarg;
            break;
        case OPTION_TLS_CA:
            listener.tls_files.ca = optarg;
            break;
        case OPTION_SHOW_DEVICE:
            listener.show_device = true;
            break;
        case OPTION_PLAIN_TCP:
            listener.plain_tcp = true;
            break;
        case OPTION_TLS:
            listener.tls = true;
            break;
        case OPTION_VERSION:
            printf("cricket-rpc-server %s\n", flyt_version);
            return 0;
        case 'h':
            fputs(help, stdout);
            return 0;
        case OPTION_WORKER:
            worker = 1;
            break;
        case OPTION_USHER:
            usher = true;
            break;
        case OPTION_CACHE:
            cache = optarg;
            break;
        case OPTION_LINKS:
            listener.links_ordered = strcmp(optarg, LINKS_ORDERED) == 0;
            listener.links = listener.links_ordered ? NULL : optarg;
            break;
        default:
            return 2;
        }
    if (optind < argc)
        return usage("it takes options only");
    /* The compiler may have errors that a tenant could use, so it works only where whoever runs the server wants it. */
    if (setenv("FLYT_SOFTGPU_JIT", "off", 0))
        return usage("there is no memory");
    if (worker)
        return worker_main(&(struct worker_options){ .gpu = listener.gpu,
                                                     .cache = cache,
                                                     .bar = listener.bar,
                                                     .host_memory = host_memory,
                                                     .tls = listener.tls,
                                                     .links = listener.links != NULL || listener.links_ordered,
                                                     .links_ordered = listener.links_ordered,
                                                     .usher = usher });
    if (!listener.uri_count)
        return usage("--listen is missing: say where, for example --listen unix:///tmp/flyt.sock");
    const struct rpc_tls_files *files = &listener.tls_files;
    if (!files->certificate != !files->key)
        return usage("--tls-certificate and --tls-key belong together");
    if ((files->certificate || files->ca) && !listener.tls)
        return usage("certificates are for tls://HOST:PORT, and no --listen has such an address");
    if (listener.tls && tcp && !listener.plain_tcp)
        return usage("tcp:// beside tls:// lets clients connect unencrypted; add --plain-tcp to allow that");
    if (listener.bar && !tcp)
        return usage("--bar is for clients at tcp://HOST:PORT, and no --listen has such an address (what goes through "
                     "it is not encrypted)");
    char why[RPC_ERROR_SIZE], said[RPC_ERROR_SIZE + 16];
    if (listener.bar && rpc_bar_check(listener.bar, why) < 0) {
        snprintf(said, sizeof said, "--bar: %s", why);
        return usage(said);
    }
    if (listener.links && !dial_list_check(listener.links, why)) {
        snprintf(said, sizeof said, "--links: %s", why);
        return usage(said);
    }
    log_set_name("cricket-rpc-server");
    if (!rpc_silence_valid())
        log_warning("event=setting-ignored name=FLYT_SILENCE,FLYT_SUSPEND,FLYT_RECLAIM why=\"one is not a number of "
                    "seconds from 1 to %d\"",
                    RPC_SILENCE_MOST);
    if (!ticket_key && (ticket_state || ticket_server))
        return usage("--ticket-state and --ticket-server go with --ticket-key");
    if (ticket_key && ticket_configure(ticket_key, ticket_state, ticket_server) != 0) {
        log_error("event=cannot-serve why=\"no memory\"");
        return 1;
    }
    return listener_main(&listener);
}
