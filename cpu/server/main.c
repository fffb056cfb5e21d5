/* main.c: the command line of cricket-rpc-server. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"
#include "cpu/server/listener.h"
#include "cpu/server/ticket.h"
#include "cpu/server/version.h"

enum { OPTION_LISTEN = 256, OPTION_GPU, OPTION_WORKERS, OPTION_VERSION, OPTION_WORKER, OPTION_CACHE, OPTION_TICKET_KEY,
       OPTION_TICKET_STATE, OPTION_TICKET_SERVER };

static const char help[] =
    "Usage: cricket-rpc-server --listen URI [--listen URI ...] [options]\n"
    "\n"
    "Serves this machine's GPU to CUDA programs on machines without one.\n"
    "\n"
    "  --listen URI      tcp://HOST:PORT (port 0: any free one) or unix:///PATH[?mode=0660];\n"
    "                    each address really listened on is printed\n"
    "  --gpu KIND        auto (default: an NVIDIA GPU if there is one, else software),\n"
    "                    nvidia, software, or null (does nothing; for measurements)\n"
    "  --workers N       processes kept ready for the next client (default 2)\n"
    "  --ticket-key FILE serve only clients with a ticket signed by one of the keys in FILE\n"
    "                    (lines of 64 hexadecimal digits; flyt-node-manager writes it)\n"
    "  --ticket-state DIR  where it remembers which tickets were used\n"
    "  --ticket-server N   accept only tickets for server N\n"
    "  --version         print the version\n"
    "  --help            print this\n"
    "\n"
    "Messages go to stderr; FLYT_LOG=error|warning|info|debug says how many.\n"
    "SIGTERM and SIGINT stop it and its workers. Exit status: 0 stopped, 1 cannot listen or run,\n"
    "2 wrong usage, 3 no GPU of that kind.\n";

static int usage(const char *what)
{
    fprintf(stderr, "cricket-rpc-server: %s\nTry: cricket-rpc-server --help\n", what);
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "listen", required_argument, NULL, OPTION_LISTEN },
        { "gpu", required_argument, NULL, OPTION_GPU },
        { "workers", required_argument, NULL, OPTION_WORKERS },
        { "ticket-key", required_argument, NULL, OPTION_TICKET_KEY },
        { "ticket-state", required_argument, NULL, OPTION_TICKET_STATE },
        { "ticket-server", required_argument, NULL, OPTION_TICKET_SERVER },
        { "version", no_argument, NULL, OPTION_VERSION },
        { "help", no_argument, NULL, 'h' },
        { "worker", no_argument, NULL, OPTION_WORKER },           /* how the listener starts a worker */
        { "cache", required_argument, NULL, OPTION_CACHE },       /* the same */
        { 0 },
    };
    struct listener_options listener = { .gpu = "auto", .spares = 2 };
    const char *cache = NULL, *ticket_key = NULL, *ticket_state = NULL, *ticket_server = NULL;
    char *end;
    int worker = 0, option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1)
        switch (option) {
        case OPTION_LISTEN:
            if (listener.uri_count == LISTENER_MAX_URIS)
                return usage("too many --listen");
            listener.uris[listener.uri_count++] = optarg;
            break;
        case OPTION_GPU:
            if (strcmp(optarg, "auto") && strcmp(optarg, "nvidia") && strcmp(optarg, "software") && strcmp(optarg, "null"))
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
        case OPTION_TICKET_KEY:
            ticket_key = optarg;
            break;
        case OPTION_TICKET_STATE:
            ticket_state = optarg;
            break;
        case OPTION_TICKET_SERVER:
            ticket_server = optarg;
            break;
        case OPTION_VERSION:
            puts("cricket-rpc-server, " FLYT_SERVER_VERSION);
            return 0;
        case 'h':
            fputs(help, stdout);
            return 0;
        case OPTION_WORKER:
            worker = 1;
            break;
        case OPTION_CACHE:
            cache = optarg;
            break;
        default:
            return 2;
        }
    if (optind < argc)
        return usage("it takes options only");
    if (worker)
        return worker_main(listener.gpu, cache);
    if (!listener.uri_count)
        return usage("--listen is missing: say where, for example --listen unix:///tmp/flyt.sock");
    log_set_name("cricket-rpc-server");
    if (!ticket_key && (ticket_state || ticket_server))
        return usage("--ticket-state and --ticket-server go with --ticket-key");
    if (ticket_key && ticket_configure(ticket_key, ticket_state, ticket_server) != 0) {
        log_error("no memory");
        return 1;
    }
    return listener_main(&listener);
}
