/*
 * card.c: faults that take a whole software GPU (FLYT_SOFTGPU_FAULT_DOMAIN=gpu), the stand-in for what a fatal fault
 * does to the clients of NVIDIA MPS.
 *
 * The processes on a card share a small file in /dev/shm that holds the code of the first fault, and each holds a
 * shared lock on it. We look a few times a second. When a fault stands, every server on the card is ended, and the
 * tenants are told; when the lock can be had exclusively, all have gone: the code is cleared, and the card is ready
 * again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/log.h"

enum { CARD_LOOK_MS = 200 };

/* The user that owns the file: that of the GPU servers on the card. */
static uid_t card_user(const struct node *node)
{
    uid_t shared = users_shared(node);
    return shared ? shared : geteuid();
}

static void card_path(const struct node *node, const struct gpu *gpu, char path[128])
{
    snprintf(path, 128, "/dev/shm/flyt-softgpu-%u-%s", (unsigned)card_user(node), gpu->card);
}

bool card_shared(void)
{
    const char *domain = getenv("FLYT_SOFTGPU_FAULT_DOMAIN");
    return domain && strcmp(domain, "gpu") == 0;
}

bool card_make(const struct node *node, const struct gpu *gpu, char path[128])
{
    if (!gpu->software || !card_shared())
        return false;
    card_path(node, gpu, path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && fchown(fd, card_user(node), (gid_t)-1) != 0)
        log_warning("event=card-unusable path=%s why=\"%s\"", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return true;
}

void card_remove(const struct node *node, const struct gpu *gpu)
{
    char path[128];
    card_path(node, gpu, path);
    if (gpu->software)
        unlink(path);
}

static int card_open(const struct node *node, const struct gpu *gpu)
{
    char path[128];
    struct stat st;
    card_path(node, gpu, path);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_uid != card_user(node) || !S_ISREG(st.st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int card_code(int fd)
{
    int code = 0;
    return pread(fd, &code, sizeof code, 0) == sizeof code ? code : 0;
}

bool card_faulty(const struct node *node, const struct gpu *gpu, int *code)
{
    int fd = gpu->software ? card_open(node, gpu) : -1;
    if (fd < 0)
        return false;
    *code = card_code(fd);
    close(fd);
    return *code != 0;
}

/* True: nobody is on the card any more, and it is clean. */
static bool card_clear(const struct node *node, const struct gpu *gpu)
{
    static const int none;
    int fd = card_open(node, gpu);
    if (fd < 0)
        return true;
    bool alone = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (alone && pwrite(fd, &none, sizeof none, 0) != sizeof none)
        log_error("event=gpu-recovery gpu=%s why=\"its fault cannot be cleared: %s\"", gpu->id, strerror(errno));
    close(fd);
    return alone;
}

static void card_fault(struct node *node, struct gpu *gpu, int code)
{
    char text[CTL_MAX_TEXT + 1];
    unsigned servers = 0;
    for (struct server *server = node->servers; server; server = server->next)
        servers += strcmp(server->gpu, gpu->id) == 0;
    gpu->state = CTL_GPU_FAULTY;
    snprintf(gpu->text, sizeof gpu->text,
             "a fault (CUDA error %d) took the whole GPU; the servers on it are being ended", code);
    log_warning("event=gpu-fault gpu=%s code=%d servers=%u", gpu->id, code, servers);
    node_report_gpu(node, gpu);
    snprintf(text, sizeof text,
             servers > 1
                 ? "a fault (CUDA error %d) of a program on GPU %s, which several tenants share, ended the work of "
                   "all of them; start the program again"
                 : "a fault (CUDA error %d) took GPU %s; start the program again",
             code, gpu->id);
    for (struct server *server = node->servers, *next; server; server = next) {
        next = server->next;
        if (strcmp(server->gpu, gpu->id) == 0)
            server_fault(server, servers > 1 ? CTL_NEIGHBOUR : CTL_LOST, text);
    }
}

static void card_look(struct loop_timer *timer, void *context)
{
    struct node *node = context;
    for (unsigned i = 0; i < node->gpu_count; i++) {
        struct gpu *gpu = &node->gpus[i];
        int code;
        if (gpu->software && gpu->state == CTL_GPU_READY && card_faulty(node, gpu, &code)) {
            card_fault(node, gpu, code);
        } else if (gpu->software && gpu->state == CTL_GPU_FAULTY && card_clear(node, gpu)) {
            gpu->state = CTL_GPU_READY;
            gpu->text[0] = '\0';
            log_info("event=gpu-ready gpu=%s", gpu->id);
            node_report_gpu(node, gpu);
        }
    }
    loop_timer_start(node->loop, timer, CARD_LOOK_MS, card_look, node);
}

void card_watch(struct node *node)
{
    if (card_shared())
        loop_timer_start(node->loop, &node->cards, CARD_LOOK_MS, card_look, node);
}
