/*
 * process.h: other processes, known by process id and the moment they started, so that a number that was given again is
 * never taken for the process that had it before; and the caller learns of their end through a pidfd.
 */
#ifndef FLYT_CONTROL_PROCESS_H
#define FLYT_CONTROL_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "control-managers/common/loop.h"

struct process {
    pid_t pid;        /* 0: none */
    uint64_t started; /* clock ticks since boot, as in /proc/PID/stat */
    int fd;           /* pidfd, -1: the kernel has none */
    void *watch;
};

#define PROCESS_NONE ((struct process){ .fd = -1 })

/* Which run of the machine this is; process ids mean nothing in another. Static buffer, "" where unknown. */
const char *process_boot(void);
/* 0, or -ESRCH. */
int process_start_time(pid_t, uint64_t *started);
/* Takes hold of the process `pid`. started not 0: only if it is that one. 0, or -ESRCH. */
int process_open(pid_t, uint64_t started, struct process *);
bool process_alive(const struct process *);
/* The file that it executes, as the kernel knows it. 0, or -errno: the process has ended (-ESRCH), or the kernel does
   not say it to us: of other users' processes it takes CAP_SYS_PTRACE. path has `size` bytes. */
int process_executable(const struct process *, char *path, size_t size);
/* To that very process. 0 or -errno. */
int process_signal(const struct process *, int number);
/* ended(context) is called once, in the loop, when it has ended (it is not reaped by this). -ENOSYS where the kernel
   does not know; then ask process_alive now and then. */
int process_watch(struct loop *, struct process *, void (*ended)(void *), void *context);
void process_close(struct process *); /* no callback comes any more; the process is left alone */

#endif
