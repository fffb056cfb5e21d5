#include "control-managers/common/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct watch { uv_poll_t uv; void (*ended)(void *); void *context; };

const char *process_boot(void)
{
    static char boot[64];
    if (boot[0])
        return boot;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, boot, sizeof boot - 1);
    if (fd >= 0)
        close(fd);
    boot[size > 0 ? size : 0] = '\0';
    boot[strcspn(boot, "\n")] = '\0';
    return boot;
}

int process_start_time(pid_t pid, uint64_t *started)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -ESRCH;
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0)
        return -ESRCH;
    text[size] = '\0';
    /* Behind the name, which is in brackets and may contain anything: fields 3, 20 and 22. State Z of a process means
       that its first thread has ended; others may go on. */
    const char *at = strrchr(text, ')');
    char state;
    long threads;
    if (!at || sscanf(at, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld %*s %" SCNu64,
                      &state, &threads, started) != 3)
        return -ESRCH;
    return state == 'X' || (state == 'Z' && threads < 2) ? -ESRCH : 0;
}

int process_open(pid_t pid, uint64_t started, struct process *out)
{
    uint64_t now;
    *out = PROCESS_NONE;
    if (pid <= 0)
        return -ESRCH;
    /* First the descriptor, then the look: what it refers to cannot change between. */
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno == ESRCH)
        return -ESRCH;
    if (process_start_time(pid, &now) != 0 || (started && now != started)) {
        if (fd >= 0)
            close(fd);
        return -ESRCH;
    }
    *out = (struct process){ .pid = pid, .started = now, .fd = fd };
    return 0;
}

bool process_alive(const struct process *process)
{
    uint64_t now;
    return process->pid > 0 && process_start_time(process->pid, &now) == 0 && now == process->started;
}

int process_executable(const struct process *process, char *path, size_t size)
{
    char link[64];
    if (process->pid <= 0)
        return -ESRCH;
    snprintf(link, sizeof link, "/proc/%d/exe", (int)process->pid);
    ssize_t length = readlink(link, path, size - 1);
    if (length <= 0)
        return length < 0 ? -errno : -ESRCH;
    path[length] = '\0';
    return process_alive(process) ? 0 : -ESRCH; /* else the number may be another one's by now */
}

int process_signal(const struct process *process, int number)
{
    if (process->pid <= 0)
        return -ESRCH;
    if (process->fd >= 0)
        return syscall(SYS_pidfd_send_signal, process->fd, number, NULL, 0) == 0 ? 0 : -errno;
    if (!process_alive(process))
        return -ESRCH;
    return kill(process->pid, number) == 0 ? 0 : -errno;
}

static void on_readable(uv_poll_t *uv, int status, int events)
{
    struct watch *watch = uv->data;
    (void)status;
    (void)events;
    uv_poll_stop(uv);
    watch->ended(watch->context);
}

int process_watch(struct loop *loop, struct process *process, void (*ended)(void *), void *context)
{
    if (process->fd < 0)
        return -ENOSYS;
    struct watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return -ENOMEM;
    *watch = (struct watch){ .ended = ended, .context = context };
    int failure = uv_poll_init(loop_uv(loop), &watch->uv, process->fd);
    if (failure < 0) {
        free(watch);
        return failure;
    }
    watch->uv.data = watch;
    uv_poll_start(&watch->uv, UV_READABLE, on_readable);
    process->watch = watch;
    return 0;
}

static void freed(uv_handle_t *handle)
{
    free(handle->data);
}

void process_close(struct process *process)
{
    struct watch *watch = process->watch;
    if (watch) {
        uv_poll_stop(&watch->uv);
        uv_close((uv_handle_t *)&watch->uv, freed);
    }
    if (process->fd >= 0)
        close(process->fd);
    *process = PROCESS_NONE;
}
