/*
 * start.c: makes the process of a GPU server: its command line, its environment, its files. launch.c isolates it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "control-managers/node-manager/sandbox.h"
#include "cpu/common/explain.h"

enum { MAX_ENVIRONMENT = 256 };

extern char **environ;

bool node_servers_tls(const struct node_manager *node)
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
                                        "FLYT_SOFTGPU_CARD=", "FLYT_SOFTGPU_CARD_", "FLYT_SOFTGPU_CACHE=",
        "CUDA_VISIBLE_DEVICES=", "CUDA_MPS_", NULL };
    for (int i = 0; ours[i]; i++)
        if (strncmp(variable, ours[i], strlen(ours[i])) == 0)
            return false;
    for (int i = 0; prefixes[i]; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* Of several NVIDIA GPUs. Rounded down, and the least of all: what was asked for is an upper bound on each. */
static double thread_percentage(const struct node_server *server)
{
    double least = 100.0;
    for (unsigned i = 0; i < server->gpu_count; i++) {
        const struct node_gpu *gpu = node_gpu(server->node, server->gpus[i]);
        double part = gpu && gpu->sms && server->sms ? (double)(10000ull * server->sms / gpu->sms) / 100 : 100.0;
        least = part < least ? part : least;
    }
    return least;
}

/* Room for a context, which MPS counts against this limit and Flyt does not count against the VM's memory. NVIDIA's
   driver takes 526 MiB for one on an H200. */
#define CONTEXT_ROOM_MIB 1024

/* "0=1536M,1=1536M": of each device, as CUDA_VISIBLE_DEVICES numbers them; for each process of the server. */
static void add_pinned_limit(const struct node_server *server, struct words *words)
{
    char limits[32 * CTL_MAX_SERVER_GPUS];
    size_t at = 0;
    for (unsigned i = 0; i < server->gpu_count; i++)
        at += (size_t)snprintf(limits + at, sizeof limits - at, "%s%u=%lluM", i ? "," : "", i,
                               (unsigned long long)(server->memory >> 20) + CONTEXT_ROOM_MIB);
    add_word(words, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s", limits);
}

static void make_environment(const struct node_server *server, const struct node_gpu *gpu, const char *folder,
                             struct words *words)
{
    char gpus[SERVER_GPUS_SIZE];
    char word[NODE_PATH_SIZE], report[NODE_PATH_SIZE];
    for (char **variable = environ; *variable; variable++)
        if (inherited(*variable))
            add_word(words, "%s", *variable);
    if (!getenv("FLYT_LOG"))
        add_word(words, "FLYT_LOG=%s", node_log_words[server->node->config->log_level]);
    add_word(words, "TMPDIR=%s", folder);
    add_word(words, "HOME=%s", folder);
    add_word(words, "FLYT_SOFTGPU_CACHE=off"); /* the tenant could write code there that its server runs */
    add_word(words, "FLYT_CLEAR_MEMORY=%s", node_clear_words[server->node->config->clear]);
    add_word(words, "FLYT_TENANT_HOST_MEMORY=%llu", (unsigned long long)node_host_memory(server->node->config));
    add_word(words, "FLYT_TENANT_MEMORY=%llu", (unsigned long long)server->memory);
    add_word(words, "FLYT_TENANT_LEDGER=%s/memory", folder);
    add_word(words, "FLYT_COMM_BOOK=%s/" COMM_BOOK_NAME, folder);
    if (gpu->software) {
        add_word(words, "FLYT_SOFTGPU_DEVICES=%u", server->gpu_count);
        add_word(words, "FLYT_SOFTGPU_SMS=%u", server->sms ? server->sms : gpu->sms);
        add_word(words, "FLYT_SOFTGPU_MEMORY=%llu", (unsigned long long)server->memory);
        if (card_files(server, gpu, word, report)) {
            add_word(words, "FLYT_SOFTGPU_CARD_WORD=%s", word);
            add_word(words, "FLYT_SOFTGPU_CARD_REPORT=%s", report);
        }
        return;
    }
    add_word(words, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
    add_word(words, "CUDA_VISIBLE_DEVICES=%s", server_gpus(server, gpus));
    if (server->sharing != CTL_SHARING_MPS)
        return;
    add_word(words, "CUDA_MPS_PIPE_DIRECTORY=%s", server->node->config->mps_directory);
    add_word(words, "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING=1");
    add_word(words, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%.2f", thread_percentage(server));
    add_pinned_limit(server, words);
}

/* What its process gets besides: the socket that it listens on, the file of --bar. */
struct gifts { int listen, listen_unix, control; char bar[NODE_PATH_SIZE + 16]; gid_t bar_group; };

static void add_listen(const struct node_server *server, const struct gifts *gifts, struct words *words)
{
    const struct node_config *config = server->node->config;
    add_word(words, "--listen");
    add_word(words, strchr(config->listen, ':') && config->listen[0] != '[' ? "%s://[%s]:%u" : "%s://%s:%u",
             node_servers_tls(server->node) ? "tls" : "tcp", config->listen, server->port);
    add_word(words, "--listen-fd");
    add_word(words, "%d", LAUNCH_LISTEN);
    if (*gifts->bar) {
        add_word(words, "--bar");
        add_word(words, "%s", gifts->bar);
    }
}

static void make_arguments(const struct node_server *server, const struct node_gpu *gpu, const char *folder,
                           const struct gifts *gifts, struct words *words)
{
    const struct node_config *config = server->node->config;
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
    if (gifts->listen_unix >= 0) {
        add_word(words, "--listen");
        add_word(words, "unix://%s/%s", folder, LISTEN_NAME);
        add_word(words, "--listen-fd");
        add_word(words, "%d", LAUNCH_LISTEN_UNIX);
    }
    if (gifts->listen >= 0)
        add_listen(server, gifts, words);
    if (gifts->control >= 0) {
        add_word(words, "--control-fd");
        add_word(words, "%d", LAUNCH_CONTROL);
        add_word(words, "--links"); /* over that socket come connections for them */
        add_word(words, "managers");
    }
    for (size_t i = 0; i < config->arguments.count; i++)
        add_word(words, "%s", config->arguments.items[i]);
}

/* ---- what it sees ---- */

static void make_root(const struct node_server *server, const struct node_gpu *gpu, const char *folder,
                      const struct gifts *gifts, struct root *root)
{
    const struct node_manager *node = server->node;
    const struct config_strings *paths = &node->config->sandbox_paths;
    char path[NODE_PATH_SIZE], report[NODE_PATH_SIZE];
    root_begin(root, node->root_path, server->user ? server->user : launch_inner_user((uid_t)node->config->first_user));
    root_show_program(root, node->program);
    for (size_t i = 0; i < paths->count; i++)
        root_show(root, ROOT_SHOWN, paths->items[i]);
    if (!gpu->software)
        root_show_nvidia(root);
    for (unsigned i = 0; i < server->gpu_count && !gpu->software; i++)
        root_show_nvidia_gpu(root, node_gpu(server->node, server->gpus[i])->minor);
    if (card_files(server, gpu, path, report))
        root_show(root, ROOT_SHOWN, path);
    if (server->sharing == CTL_SHARING_MPS && !gpu->software) {
        /* Its sockets; and memory by which MPS and its clients speak ◊. The control socket is of another user. */
        root_show(root, ROOT_WRITABLE, node->config->mps_directory);
        root_show(root, ROOT_WRITABLE, "/dev/shm");
    }
    if (*gifts->bar) {
        region_file(gifts->bar, path);
        root_show(root, ROOT_WRITABLE, path);
    }
    root_show(root, ROOT_WRITABLE, folder);
}

/* ---- its process ---- */

static int launch_server(struct node_server *server, const struct node_gpu *gpu, const char *folder,
                         const struct gifts *gifts, int output, int log, char *error)
{
    const struct node_manager *node = server->node;
    struct words arguments = { .count = 0 }, environment = { .count = 0 };
    struct root root;
    int cgroup = cgroup_make(server, gpu->software);
    make_arguments(server, gpu, folder, gifts, &arguments);
    make_environment(server, gpu, folder, &environment);
    make_root(server, gpu, folder, gifts, &root);
    struct sandbox_launch launch = { .program = node->program,
                             .arguments = arguments.items,
                             .environment = environment.items,
                             .output = output,
                             .log = log,
                             .listen = gifts->listen,
                             .listen_unix = gifts->listen_unix,
                             .control = gifts->control,
                             .cgroup = cgroup,
                             .own = folder,
                             .root = &root,
                             .sandbox = (enum node_sandbox)node->config->sandbox,
                             .user = server->user ? server->user : (uid_t)node->config->first_user,
                             .calls = gpu->software                          ? CALLS_SOFTWARE
                                      : server->sharing == CTL_SHARING_MPS ? CALLS_MPS
                                                                            : CALLS_NVIDIA,
                             .processes = server->user ? (unsigned)node->config->processes : 0 };
    if (*gifts->bar)
        launch.groups[launch.group_count++] = gifts->bar_group;
    int failure = launch_process(&launch, &server->process, error);
    free_words(&arguments);
    free_words(&environment);
    root_end(&root);
    if (cgroup >= 0)
        close(cgroup);
    return failure;
}

int server_make_process(struct node_server *server, char *error)
{
    struct node_manager *node = server->node;
    struct node_gpu *gpu = NULL;
    struct gifts gifts = { .listen = -1, .listen_unix = -1, .control = -1 };
    char folder[NODE_PATH_SIZE];
    for (unsigned i = server->gpu_count; i-- > 0;)       /* the first stays */
        if (!(gpu = node_gpu(node, server->gpus[i])))
            return explain(error, -ENODEV, "there is no GPU %s on this node any more", server->gpus[i]);
    if (!gpu)
        return explain(error, -ENODEV, "it has no GPU");
    if (own_folder(server, "", folder) != 0)
        return explain(error, -ENAMETOOLONG, "%s is too long", node->servers_path);
    own_discard(server, LISTEN_NAME);
    workers_forget(server);
    card_begin(server);
    server->port = 0;
    if (*node->config->listen && (gifts.listen = listen_make(node, &server->port, error)) < 0)
        return -EADDRNOTAVAIL;
    if (server->same_host || !*node->config->listen)
        gifts.listen_unix = listen_make_unix(server);
    if (gifts.listen >= 0 && !region_argument(node, server->vm, gifts.bar, sizeof gifts.bar, &gifts.bar_group))
        gifts.bar[0] = '\0';
    gifts.control = share_listen(server);
    files_turn_log(server);
    int output = files_open(server, "output", true), log = files_open(server, LOG_NAME, false);
    int failure = output < 0 || log < 0 ? explain(error, -errno, "writing into %s: %s", folder, strerror(errno)) : 0;
    if (!failure)
        failure = launch_server(server, gpu, folder, &gifts, output, log, error);
    if (output >= 0)
        close(output);
    if (log >= 0)
        close(log);
    if (gifts.listen >= 0)
        close(gifts.listen);
    if (gifts.listen_unix >= 0)
        close(gifts.listen_unix);
    if (gifts.control >= 0)
        close(gifts.control);
    return failure;
}
