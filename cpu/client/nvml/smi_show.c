/*
 * smi_show.c: flyt-smi's table, its list, and all values.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cpu/client/nvml/smi.h"

#define MIB(bytes) ((unsigned long long)(bytes) >> 20)

static void now(char *out, size_t size)
{
    time_t seconds = time(NULL);
    struct tm parts;
    localtime_r(&seconds, &parts);
    strftime(out, size, "%a %b %e %H:%M:%S %Y", &parts);
}

static void table_gpu(const struct smi_gpu *gpu)
{
    char memory[40] = "N/A", busy[16] = "N/A";
    if (gpu->memory_known)
        snprintf(memory, sizeof memory, "%lluMiB / %6lluMiB", MIB(gpu->used), MIB(gpu->total));
    if (gpu->busy_known)
        snprintf(busy, sizeof busy, "%u%%", gpu->busy);
    printf("| %3u  %-24.24s%10s |   %-16s Off |                  N/A |\n", gpu->index, gpu->name, "N/A", gpu->bus);
    printf("| N/A   N/A    N/A              N/A / N/A | %22s | %8s     Default |\n", memory, busy);
    printf("|                                         |                        |                  N/A |\n");
    printf("+-----------------------------------------+------------------------+----------------------+\n");
}

void smi_table(const struct smi *smi)
{
    char text[64], cuda[16];
    unsigned programs = 0;
    now(text, sizeof text);
    snprintf(cuda, sizeof cuda, "%d.%d", smi->cuda / 1000, smi->cuda % 1000 / 10);
    printf("%s\n", text);
    printf("+-----------------------------------------------------------------------------------------+\n");
    printf("| Flyt-SMI                Driver Version: %-16s CUDA Version: %-16s |\n", smi->driver, cuda);
    printf("+-----------------------------------------+------------------------+----------------------+\n");
    printf("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n");
    printf("| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n");
    printf("|                                         |                        |               MIG M. |\n");
    printf("|=========================================+========================+======================|\n");
    for (unsigned i = 0; i < smi->gpu_count; i++)
        table_gpu(&smi->gpus[i]);
    printf("\n");
    printf("+-----------------------------------------------------------------------------------------+\n");
    printf("| Processes:                                                                              |\n");
    printf("|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n");
    printf("|        ID   ID                                                               Usage      |\n");
    printf("|=========================================================================================|\n");
    for (unsigned i = 0; i < smi->gpu_count; i++)
        for (unsigned p = 0; p < smi->gpus[i].process_count; p++, programs++) {
            const struct smi_process *process = &smi->gpus[i].processes[p];
            const char *name = process->name;
            if (strlen(name) > 33)
                name += strlen(name) - 33;
            printf("| %4u   N/A  N/A %16u      C   %-33s %8lluMiB |\n", smi->gpus[i].index, process->pid, name,
                   MIB(process->used));
        }
    if (!programs)
        printf("|  No running processes found                                                             |\n");
    printf("+-----------------------------------------------------------------------------------------+\n");
}

void smi_list(const struct smi *smi)
{
    for (unsigned i = 0; i < smi->gpu_count; i++)
        printf("GPU %u: %s (UUID: %s)\n", smi->gpus[i].index, smi->gpus[i].name, smi->gpus[i].uuid);
}

static void value(int depth, const char *name, const char *text)
{
    printf("%*s%-*s : %s\n", 4 * depth, "", 50 - 4 * depth, name, text);
}

static void mebibytes(const char *name, bool known, uint64_t bytes)
{
    char text[32] = "N/A";
    if (known)
        snprintf(text, sizeof text, "%llu MiB", MIB(bytes));
    value(2, name, text);
}

static void all_gpu(const struct smi_gpu *gpu)
{
    char text[SMI_TEXT];
    printf("\nGPU %s\n", gpu->bus);
    value(1, "Product Name", gpu->name);
    value(1, "GPU UUID", gpu->uuid);
    snprintf(text, sizeof text, "%u", gpu->index);
    value(1, "Minor Number", text);
    printf("    PCI\n");
    value(2, "Bus Id", gpu->bus);
    snprintf(text, sizeof text, "%d.%d", gpu->major, gpu->minor);
    value(1, "Compute Capability", text);
    value(1, "Compute Mode", "Default");
    value(1, "Fan Speed", "N/A");
    value(1, "Performance State", "N/A");
    printf("    FB Memory Usage\n");
    mebibytes("Total", gpu->memory_known, gpu->total);
    mebibytes("Used", gpu->memory_known, gpu->used);
    mebibytes("Free", gpu->memory_known, gpu->free);
    printf("    Utilization\n");
    snprintf(text, sizeof text, gpu->busy_known ? "%u %%" : "N/A", gpu->busy);
    value(2, "GPU", text);
    value(2, "Memory", "N/A");
    printf("    Temperature\n");
    value(2, "GPU Current Temp", "N/A");
    printf("    GPU Power Readings\n");
    value(2, "Average Power Draw", "N/A");
    printf("    Max Clocks\n");
    snprintf(text, sizeof text, gpu->clock ? "%u MHz" : "N/A", gpu->clock);
    value(2, "SM", text);
    snprintf(text, sizeof text, gpu->memory_clock ? "%u MHz" : "N/A", gpu->memory_clock);
    value(2, "Memory", text);
    if (!gpu->process_count) {
        value(1, "Processes", "None");
        return;
    }
    printf("    Processes\n");
    for (unsigned i = 0; i < gpu->process_count; i++) {
        snprintf(text, sizeof text, "%u", gpu->processes[i].pid);
        value(2, "Process ID", text);
        value(3, "Type", "C");
        value(3, "Name", gpu->processes[i].name);
        snprintf(text, sizeof text, "%llu MiB", MIB(gpu->processes[i].used));
        value(3, "Used GPU Memory", text);
    }
}

void smi_all(const struct smi *smi)
{
    char text[64];
    printf("\n==============Flyt-SMI LOG==============\n\n");
    now(text, sizeof text);
    value(0, "Timestamp", text);
    value(0, "Driver Version", smi->driver);
    snprintf(text, sizeof text, "%d.%d", smi->cuda / 1000, smi->cuda % 1000 / 10);
    value(0, "CUDA Version", text);
    snprintf(text, sizeof text, "%u", smi->gpu_count);
    printf("\n");
    value(0, "Attached GPUs", text);
    for (unsigned i = 0; i < smi->gpu_count; i++)
        all_gpu(&smi->gpus[i]);
}
