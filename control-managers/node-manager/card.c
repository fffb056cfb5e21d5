/*
 * card.c: faults that take a whole software GPU (FLYT_SOFTGPU_FAULT_DOMAIN=gpu), the stand-in for what a fatal fault
 * does to the clients of NVIDIA MPS.
 *
 * No server writes where another one reads. Each has a file `fault` of its own, into which its workers write the code
 * of their first fault; we look at these files a few times a second. The card has a file STATE/card-<name> that only
 * we write, and that every server on the card reads. When a fault stands, it is announced there, every server on the
 * card is ended, and the tenants learn whether it was theirs; when all have gone, the card is ready again.
 *
 * A server with several GPUs has one such file, so a fault of its counts for all of them; it reads the file of the
 * first, and is ended when one of the others is faulty.
 *
 * A server that was taken over can say that it has a fault when it has none: one bad kernel of its program would do the
 * same to its neighbours. It can say so for itself alone, and the log names it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/log.h"

enum { CARD_LOOK_MS = 200 };
#define CARD_REPORT "fault" /* in the folder that a server can write */

/* Whether a fault takes a whole software GPU (FLYT_SOFTGPU_FAULT_DOMAIN=gpu). */
static bool card_shared(void)
{
    const char *domain = getenv("FLYT_SOFTGPU_FAULT_DOMAIN");
    return domain && strcmp(domain, "gpu") == 0;
}

/* Beside the folder of servers. */
static bool card_path(const struct node_manager *node, const struct node_gpu *gpu, char path[NODE_PATH_SIZE])
{
    const char *end = strrchr(node->servers_path, '/');
    int length = snprintf(path, NODE_PATH_SIZE, "%.*s/card-%s", end ? (int)(end - node->servers_path) : 0,
                          node->servers_path, gpu->card);
    return length < NODE_PATH_SIZE;
}

/* Writes without making the file shorter first: servers have it in their memory. */
static void card_announce(const struct node_manager *node, const struct node_gpu *gpu, int code)
{
    char path[NODE_PATH_SIZE];
    int fd = card_path(node, gpu, path) ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644) : -1;
    if (fd < 0 || fchmod(fd, 0644) != 0 || pwrite(fd, &code, sizeof code, 0) != sizeof code)
        log_error("event=card-not-written gpu=%s why=\"%s\": servers on it do not learn of its faults", gpu->id,
                  strerror(errno));
    if (fd >= 0)
        close(fd);
}

bool card_files(const struct node_server *server, const struct node_gpu *gpu, char word[NODE_PATH_SIZE],
                char report[NODE_PATH_SIZE])
{
    return gpu->software && card_shared() && card_path(server->node, gpu, word) &&
           own_folder(server, CARD_REPORT, report) == 0;
}

void card_begin(const struct node_server *server) { own_discard(server, CARD_REPORT); }

void card_remove(const struct node_manager *node, const struct node_gpu *gpu)
{
    char path[NODE_PATH_SIZE];
    if (gpu->software && card_path(node, gpu, path))
        unlink(path);
}

/* The code of a fault that the server has reported; 0: none. */
static int card_reported(const struct node_server *server)
{
    int code = 0, fd = own_open_file(server, CARD_REPORT);
    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, &code, sizeof code, 0);
    close(fd);
    return n == sizeof code && code > 0 ? code : 0;
}

static void card_fault(struct node_manager *node, struct node_gpu *gpu, int code, struct node_server *culprit)
{
    char own[CTL_MAX_TEXT + 1], others[CTL_MAX_TEXT + 1];
    unsigned servers = 0;
    for (struct node_server *server = node->servers; server; server = server->next)
        servers += server_has_gpu(server, gpu);
    gpu->state = CTL_GPU_FAULTY;
    snprintf(gpu->text, sizeof gpu->text,
             "a fault (CUDA error %d) took the whole GPU; the servers on it are being ended", code);
    log_warning("event=gpu-fault gpu=%s code=%d server=%llu vm=%s servers=%u", gpu->id, code,
                (unsigned long long)culprit->id, culprit->vm, servers);
    node_report_gpu(node, gpu);
    card_announce(node, gpu, code);
    snprintf(own, sizeof own, "a fault (CUDA error %d) of a program took GPU %s; start the program again", code,
             gpu->id);
    snprintf(others, sizeof others,
             "a fault (CUDA error %d) of another tenant's program on GPU %s, which several tenants share, ended the "
             "work of all of them; start the program again",
             code, gpu->id);
    for (struct node_server *server = node->servers, *next; server; server = next) {
        next = server->next;
        if (server_has_gpu(server, gpu))
            server_fault(server, server == culprit ? CTL_LOST : CTL_NEIGHBOUR, server == culprit ? own : others);
    }
}

/* Of those that are on the GPU, the first for which that holds; NULL: none. */
static struct node_server *card_server(const struct node_manager *node, const struct node_gpu *gpu, bool reported)
{
    for (struct node_server *server = node->servers; server; server = server->next)
        if (server_has_gpu(server, gpu) && (!reported || card_reported(server)))
            return server;
    return NULL;
}

static void card_look(struct loop_timer *timer, void *context)
{
    struct node_manager *node = context;
    for (unsigned i = 0; i < node->gpu_count; i++) {
        struct node_gpu *gpu = &node->gpus[i];
        if (!gpu->software)
            continue;
        struct node_server *server = card_server(node, gpu, gpu->state == CTL_GPU_READY);
        if (gpu->state == CTL_GPU_READY && server) {
            card_fault(node, gpu, card_reported(server), server);
        } else if (gpu->state == CTL_GPU_FAULTY && !server) {
            card_announce(node, gpu, 0);
            gpu->state = CTL_GPU_READY;
            gpu->text[0] = '\0';
            log_info("event=gpu-ready gpu=%s", gpu->id);
            node_report_gpu(node, gpu);
        }
    }
    loop_timer_start(node->loop, timer, CARD_LOOK_MS, card_look, node);
}

void card_watch(struct node_manager *node)
{
    if (!card_shared())
        return;
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].software)
            card_announce(node, &node->gpus[i], 0);
    loop_timer_start(node->loop, &node->cards, CARD_LOOK_MS, card_look, node);
}
