/*
 * cluster_meter.c: see cluster_meter.h. Figures are the kernel's, from /proc.
 */
#include "tests/control/cluster_meter.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tests/control/cluster_rig.h"

double process_cpu(pid_t pid)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file && fgets(text, sizeof text, file))
        sscanf(strrchr(text, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    if (file)
        fclose(file);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

double manager_cpu(void) { return process_cpu(rig.pid); }

void print_memory(void)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", (int)rig.pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmRSS", 5) == 0)
            printf("# the manager's memory: %ld MiB\n", strtol(line + 6, NULL, 10) / 1024);
    if (file)
        fclose(file);
}

struct meter meter_read(void)
{
    struct meter now = { .start = now_s() };
    unsigned long user = 0, nice = 0, system = 0;
    struct rusage self;
    FILE *file = fopen("/proc/stat", "re");
    if (file && fscanf(file, "cpu %lu %lu %lu", &user, &nice, &system) == 3)
        now.busy = (double)(user + nice + system) / (double)sysconf(_SC_CLK_TCK);
    fclose(file);
    getrusage(RUSAGE_SELF, &self);
    now.ours = (double)(self.ru_utime.tv_sec + self.ru_stime.tv_sec) +
               (double)(self.ru_utime.tv_usec + self.ru_stime.tv_usec) / 1e6;
    if (rig.pid)
        now.ours += manager_cpu();
    return now;
}

/* The part of the machine that others used since then. */
static double others_since(const struct meter *then)
{
    struct meter now = meter_read();
    double capacity = (now.start - then->start) * (double)sysconf(_SC_NPROCESSORS_ONLN);
    double others = now.busy - then->busy - (now.ours - then->ours);
    return others > 0 ? others / capacity : 0;
}

void missed(const struct meter *then, const char *what)
{
    double others = others_since(then);
    if (others < 0.2)
        fail_msg("%s, and other programs used only %.0f %% of the machine", what, others * 100);
    printf("# target missed: %s; but other programs used %.0f %% of the machine meanwhile\n", what, others * 100);
}
