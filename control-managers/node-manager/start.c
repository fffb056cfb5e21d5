/*
 * start.c: makes the process of a GPU server: its command line, its environment, its files. launch.c isolates it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/explain.h"

enum { MAX_ENVIRONMENT = 256 };

extern char **environ;

bool node_servers_tls(const struct node *node)
{
    return node->config->server_tls == NODE_TLS_ON || (node->config->server_tls == NODE_TLS_AUTO && node->tls);
}

/* ---- the command line and environment of its process ---- */

struct words { char *items[MAX_ENVIRONMENT]; size_t count; };

static void add_word(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_word(struct words *words, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (words->count < MAX_ENVIRONMENT - 1 && vasprintf(&words->items[words->count], format, list) >= 0)
        words->items[++words->count] = NULL;
    va_end(list);
}

static void free_words(struct words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
}

/* What of our own environment a server gets: nothing that could hold a secret or lead it elsewhere. */
static bool inherited(const char *variable)
{
    static const char *const prefixes[] = { "PATH=", "LANG=", "LC_", "TZ=", "LD_LIBRARY_PATH=", "FLYT_SOFTGPU_",
                                            "FLYT_LOG=", "FLYT_PERF=", "FLYT_SILENCE=",
        "CUDA_", "NVIDIA_", "ASAN_OPTIONS=", "LSAN_OPTIONS=", "UBSAN_OPTIONS=", "TSAN_OPTIONS=", NULL };
    static const char *const ours[] = { "FLYT_SOFTGPU_SMS=", "FLYT_SOFTGPU_MEMORY=", "FLYT_SOFTGPU_DEVICES=",
                                        "FLYT_SOFTGPU_CARD=",
        "CUDA_VISIBLE_DEVICES=", "CUDA_MPS_", NULL };
    for (int i = 0; ours[i]; i++)
        if (strncmp(variable, ours[i], strlen(ours[i])) == 0)
            return false;
    for (int i = 0; prefixes[i]; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static void make_environment(const struct server *server, const struct gpu *gpu, const char *folder,
                             struct words *words)
{
    for (char **variable = environ; *variable; variable++)
        if (inherited(*variable))
            add_word(words, "%s", *variable);
    add_word(words, "TMPDIR=%s", folder);
    add_word(words, "HOME=%s", folder);
    add_word(words, "FLYT_TENANT_MEMORY=%llu", (unsigned long long)server->memory);
    add_word(words, "FLYT_TENANT_LEDGER=%s/memory", folder);
    uint32_t sms = server->sms ? server->sms : gpu->sms;
    if (gpu->software) {
        add_word(words, "FLYT_SOFTGPU_DEVICES=1");
        add_word(words, "FLYT_SOFTGPU_SMS=%u", sms);
        add_word(words, "FLYT_SOFTGPU_MEMORY=%llu", (unsigned long long)server->memory);
        add_word(words, "FLYT_SOFTGPU_CARD=%s", gpu->card);
        return;
    }
    add_word(words, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
    add_word(words, "CUDA_VISIBLE_DEVICES=%s", gpu->id);
    if (server->sharing != CTL_SHARING_MPS)
        return;
    add_word(words, "CUDA_MPS_PIPE_DIRECTORY=%s", server->node->config->mps_directory);
    add_word(words, "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING=1");
    /* Rounded down: what was asked for is an upper bound. */
    add_word(words, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%.2f",
             gpu->sms ? (double)(10000ull * sms / gpu->sms) / 100 : 100.0);
    add_word(words, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=%lluM", (unsigned long long)(server->memory >> 20));
}

static void make_arguments(const struct server *server, const struct gpu *gpu, const char *folder, struct words *words)
{
    const struct node_config *config = server->node->config;
    char socket[NODE_PATH_SIZE], bar[NODE_PATH_SIZE + 16];
    add_word(words, "cricket-rpc-server");
    add_word(words, "--gpu");
    add_word(words, "%s", gpu->software ? "software" : "nvidia");
    add_word(words, "--workers");
    add_word(words, "%d", (int)config->workers);
    add_word(words, "--show-device");
    add_word(words, "--ticket-key");
    add_word(words, "%s/keys", folder);
    add_word(words, "--ticket-state");
    add_word(words, "%s", folder);
    add_word(words, "--ticket-server");
    add_word(words, "%llu", (unsigned long long)server->id);
    /* Whoever may reach the socket needs a ticket as well. A path longer than a socket's name may be is left out. */
    int length = snprintf(socket, sizeof socket, "%s/s", folder);
    if (length < 100 && (server->same_host || !*config->listen)) {
        add_word(words, "--listen");
        add_word(words, "unix://%s?mode=0666", socket);
    }
    if (*config->listen) {
        add_word(words, "--listen");
        add_word(words, strchr(config->listen, ':') && config->listen[0] != '[' ? "%s://[%s]:0" : "%s://%s:0",
                 node_servers_tls(server->node) ? "tls" : "tcp", config->listen);
        if (region_argument(server->node, server->vm, bar, sizeof bar)) {
            add_word(words, "--bar");
            add_word(words, "%s", bar);
        }
    }
    for (size_t i = 0; i < config->arguments.count; i++)
        add_word(words, "%s", config->arguments.items[i]);
}

/* ---- its process ---- */

int server_make_process(struct server *server, char *error)
{
    struct node *node = server->node;
    struct gpu *gpu = node_gpu(node, server->gpu);
    struct words arguments = { .count = 0 }, environment = { .count = 0 };
    char folder[NODE_PATH_SIZE], above[NODE_PATH_SIZE];
    if (!gpu)
        return explain(error, -ENODEV, "there is no GPU %s on this node any more", server->gpu);
    if (own_folder(server, "", folder) != 0 || state_folder(server, "", above) != 0)
        return explain(error, -ENAMETOOLONG, "%s is too long", node->servers_path);
    own_unlink(server, "s");
    workers_forget(server);
    int output = files_open(server, "output", O_TRUNC), log = files_open(server, "log", 0);
    int failure = 0;
    if (output < 0 || log < 0)
        failure = explain(error, -errno, "writing into %s: %s", folder, strerror(errno));
    make_arguments(server, gpu, folder, &arguments);
    make_environment(server, gpu, folder, &environment);
    struct launch launch = { .program = node->program,
                             .arguments = arguments.items,
                             .environment = environment.items,
                             .output = output,
                             .log = log,
                             .own = folder,
                             .above = above,
                             .all = node->servers_path,
                             .sandbox = (enum node_sandbox)node->config->sandbox };
    if (!failure)
        failure = launch_process(&launch, &server->process, error);
    free_words(&arguments);
    free_words(&environment);
    if (output >= 0)
        close(output);
    if (log >= 0)
        close(log);
    return failure;
}
