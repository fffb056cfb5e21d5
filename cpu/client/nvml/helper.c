/*
 * helper.c: flyt-nvml, the process that libnvidia-ml.so.1 starts to ask the GPU server (report.h).
 *
 * It is a process of its own because NVML must leave no trace in the program: CUDA's connection can be used in one
 * process only, so a program that counts its devices by NVML and then forks (PyTorch does) would lose CUDA in the
 * child. CUDA's and NVML's views differ, too: NVML ignores CUDA_VISIBLE_DEVICES.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/forward/core.h"
#include "cpu/client/core/core.h"
#include "cpu/client/nvml/report.h"
#include "cpu/common/version.h"

enum { CLOCK_RATE = 13, MULTIPROCESSORS = 16, ECC = 32, MEMORY_CLOCK = 36, BUS_WIDTH = 37, MAJOR = 75, MINOR = 76 };
enum { P2P_NATIVE_ATOMICS = 3 };

static int attribute(int device, int number)
{
    int value = 0;
    return core_device_attribute(device, number, &value) == CORE_OK ? value : 0;
}

/* Each pair is a question to the server, but the answers stay. */
static void fill_peers(int index, int count, struct report_device *out)
{
    static struct { bool known; uint64_t reaches, atomics; } pairs[REPORT_DEVICES];
    for (int other = 0; other < count && !pairs[index].known; other++) {
        int can = 0, value = 0;
        if (other == index || core_device_can_access_peer(&can, index, other) || !can)
            continue;
        pairs[index].reaches |= UINT64_C(1) << other;
        if (core_device_get_p2p_attribute(&value, P2P_NATIVE_ATOMICS, index, other) == CORE_OK && value)
            pairs[index].atomics |= UINT64_C(1) << other;
    }
    pairs[index].known = true;
    out->reaches = pairs[index].reaches;
    out->atomics = pairs[index].atomics;
}

static bool fill_device(int index, int count, struct report_device *out)
{
    const struct core_device *device = core_device(index);
    if (!device)
        return false;
    memset(out, 0, sizeof *out);
    memcpy(out->uuid, device->uuid, sizeof out->uuid);
    snprintf(out->name, sizeof out->name, "%s", device->name);
    snprintf(out->pci_bus_id, sizeof out->pci_bus_id, "%s", device->pci_bus_id);
    out->total_memory = device->total_memory;
    out->major = attribute(index, MAJOR);
    out->minor = attribute(index, MINOR);
    out->sms = attribute(index, MULTIPROCESSORS);
    out->clock_khz = attribute(index, CLOCK_RATE);
    out->memory_clock_khz = attribute(index, MEMORY_CLOCK);
    out->bus_width = attribute(index, BUS_WIDTH);
    out->ecc = attribute(index, ECC);
    fill_peers(index, count, out);
    return true;
}

static void say(const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size) {
        ssize_t written = write(STDOUT_FILENO, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            _exit(0);                           /* the program has ended, or asks no more */
        at += written;
        size -= (size_t)written;
    }
}

static void say_program(const struct core_usage *from)
{
    struct report_program to;
    memset(&to, 0, sizeof to);
    to.pid = from->pid;
    to.busy = from->busy;
    snprintf(to.executable, sizeof to.executable, "%s", from->executable);
    for (int d = 0; d < REPORT_DEVICES && d < CORE_USAGE_DEVICES; d++)
        to.bytes[d] = from->bytes[d];
    say(&to, sizeof to);
}

static void report(void)
{
    struct report_head head = { .magic = REPORT_MAGIC, .result = core_attach() };
    struct core_usage *programs = NULL;
    int count = 0;
    if (!head.result)
        head.result = core_device_count(&count);
    if (!head.result)
        head.result = core_driver_version(&head.driver_version);
    if (!head.result) {
        int code = core_usage(&programs, &head.programs, &head.limit);
        head.usage = code == CORE_OK;
        head.result = code == CORE_NOT_SUPPORTED ? CORE_OK : code;
    }
    head.devices = head.result ? 0 : (uint32_t)(count < REPORT_DEVICES ? count : REPORT_DEVICES);
    head.programs = head.result ? 0 : head.programs < REPORT_PROGRAMS ? head.programs : REPORT_PROGRAMS;
    say(&head, sizeof head);
    for (uint32_t i = 0; i < head.devices; i++) {
        struct report_device device = { 0 };
        fill_device((int)i, (int)head.devices, &device);
        say(&device, sizeof device);
    }
    for (uint32_t i = 0; i < head.programs; i++)
        say_program(&programs[i]);
    free(programs);
}

int main(int argc, char **argv)
{
    sigset_t none;
    char byte;
    const bool asked = argc == 2 && *argv[1] >= '1' && *argv[1] <= '9' && !isatty(STDOUT_FILENO);
    if (!asked) {
        printf("flyt-nvml (Flyt %s): started by libnvidia-ml.so.1, to ask the GPU server. Of no use by hand.\n",
               flyt_version);
        return argc > 1 && strcmp(argv[1], "--help") && strcmp(argv[1], "--version") ? 2 : 0;
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);      /* the library blocked them while it started us */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);                    /* of a terminal, and meant for the program */
    signal(SIGQUIT, SIG_IGN);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("FLYT_STATS");
    unsetenv("FLYT_TRACE");
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    setenv("FLYT_WAIT", "no", 0);               /* a program that counts devices does not queue for one */
    core_speak_for((unsigned)strtoul(argv[1], NULL, 10)); /* its software decides what the software GPU shows */
    while (read(STDIN_FILENO, &byte, 1) == 1)
        report();
    return 0;
}
