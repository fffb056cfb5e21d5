/*
 * smi_monitor.c: flyt-smi's commands dmon and pmon, a line for each GPU or program at each look, and topo -m. The
 * columns are those of nvidia-smi; "-" is what Flyt does not know.
 */
#include <stdio.h>
#include <string.h>

#include "cpu/client/nvml/smi.h"

enum { REPEAT = 10 };                 /* the headers come again after so many looks */

void smi_dmon(const struct smi *smi, unsigned look)
{
    if (look % REPEAT == 0)
        printf("# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk \n"
               "# Idx      W      C      C      %%      %%      %%      %%      %%      %%    MHz    MHz \n");
    for (unsigned i = 0; i < smi->gpu_count; i++) {
        char busy[16] = "-";
        if (smi->gpus[i].busy_known)
            snprintf(busy, sizeof busy, "%u", smi->gpus[i].busy);
        printf("%5u %6s %6s %6s %6s %6s %6s %6s %6s %6s %6s %6s \n", smi->gpus[i].index, "-", "-", "-", busy, "-", "-",
               "-", "-", "-", "-", "-");
    }
}

void smi_pmon(const struct smi *smi, unsigned look)
{
    if (look % REPEAT == 0)
        printf("# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command \n"
               "# Idx           #    C/G      %%      %%      %%      %%      %%      %%    name \n");
    for (unsigned i = 0; i < smi->gpu_count; i++) {
        const struct smi_gpu *gpu = &smi->gpus[i];
        for (unsigned p = 0; p < gpu->process_count; p++) {
            const char *slash = strrchr(gpu->processes[p].name, '/');
            char busy[16] = "-";
            if (gpu->processes[p].busy_known)
                snprintf(busy, sizeof busy, "%u", gpu->processes[p].busy);
            printf("%5u %11u %6s %6s %6s %6s %6s %6s %6s    %-15s\n", gpu->index, gpu->processes[p].pid, "C", busy, "-",
                   "-", "-", "-", "-", slash ? slash + 1 : gpu->processes[p].name);
        }
        if (!gpu->process_count)
            printf("%5u %11s %6s %6s %6s %6s %6s %6s %6s    %-15s\n", gpu->index, "-", "-", "-", "-", "-", "-", "-",
                   "-", "-");
    }
}

/* NVML's levels, from the same board to other sockets. */
static const char *path_name(unsigned level)
{
    switch (level) {
    case 10: return "PIX";
    case 20: return "PXB";
    case 30: return "PHB";
    case 40: return "NODE";
    case 50: return "SYS";
    default: return "N/A";
    }
}

void smi_topology(const struct smi *smi)
{
    char name[16];
    printf("\t");
    for (unsigned i = 0; i < smi->gpu_count; i++)
        printf("GPU%u\t", smi->gpus[i].index);
    printf("CPU Affinity\tNUMA Affinity\tGPU NUMA ID\n");
    for (unsigned i = 0; i < smi->gpu_count; i++) {
        snprintf(name, sizeof name, "GPU%u", smi->gpus[i].index);
        printf("%s\t", name);
        for (unsigned j = 0; j < smi->gpu_count; j++)
            printf("%s\t", i == j ? " X " : path_name(smi_path(&smi->gpus[i], &smi->gpus[j])));
        printf("N/A\tN/A\t\tN/A\n");
    }
    printf("\nLegend:\n\n"
           "  X    = Self\n"
           "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes\n"
           "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA "
           "node\n"
           "  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge\n"
           "  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)\n"
           "  PIX  = Connection traversing at most a single PCIe bridge\n");
}
