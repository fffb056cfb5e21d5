/*
 * smi_xml.c: all values as XML, in the form of nvidia-smi -q -x (its nvsmi_device_v12.dtd), for scripts that read it.
 * What Flyt does not know is N/A, as nvidia-smi writes it.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cpu/client/nvml/smi.h"

#define MIB(bytes) ((unsigned long long)(bytes) >> 20)

static void indent(int depth)
{
    for (int i = 0; i < depth; i++)
        putchar('\t');
}

/* A program chooses its name, which may look like markup. */
static void put_text(const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<': fputs("&lt;", stdout); break;
        case '>': fputs("&gt;", stdout); break;
        case '&': fputs("&amp;", stdout); break;
        default: putchar(*text);
        }
}

static void element(int depth, const char *name, const char *text)
{
    indent(depth);
    printf("<%s>", name);
    put_text(text);
    printf("</%s>\n", name);
}

static void begins(int depth, const char *name)
{
    indent(depth);
    printf("<%s>\n", name);
}

static void ends(int depth, const char *name)
{
    indent(depth);
    printf("</%s>\n", name);
}

/* unit: with its blank. */
static void number(int depth, const char *name, bool known, unsigned long long value, const char *unit)
{
    char text[48] = "N/A";
    if (known)
        snprintf(text, sizeof text, "%llu%s", value, unit);
    element(depth, name, text);
}

/* An element whose own elements, given by name and ended by NULL, are not known to Flyt. */
static void unknown(int depth, const char *name, const char *const *inner)
{
    begins(depth, name);
    for (; *inner; inner++)
        element(depth + 1, *inner, "N/A");
    ends(depth, name);
}
#define UNKNOWN(depth, name, ...) unknown(depth, name, (const char *const[]){ __VA_ARGS__, NULL })

static void put_pci(const struct smi_gpu *gpu)
{
    unsigned domain = 0, bus = 0, device = 0;
    char text[16];
    if (sscanf(gpu->bus, "%x:%x:%x", &domain, &bus, &device) != 3)
        domain = bus = device = 0;
    begins(2, "pci");
    snprintf(text, sizeof text, "%02X", bus);
    element(3, "pci_bus", text);
    snprintf(text, sizeof text, "%02X", device);
    element(3, "pci_device", text);
    snprintf(text, sizeof text, "%04X", domain);
    element(3, "pci_domain", text);
    element(3, "pci_bus_id", gpu->bus);
    ends(2, "pci");
}

static void put_memory(const struct smi_gpu *gpu)
{
    begins(2, "fb_memory_usage");
    number(3, "total", gpu->memory_known, MIB(gpu->total), " MiB");
    number(3, "reserved", gpu->memory_known, 0, " MiB");
    number(3, "used", gpu->memory_known, MIB(gpu->used), " MiB");
    number(3, "free", gpu->memory_known, MIB(gpu->free), " MiB");
    ends(2, "fb_memory_usage");
    UNKNOWN(2, "bar1_memory_usage", "total", "used", "free");
}

static void put_processes(const struct smi_gpu *gpu)
{
    begins(2, "processes");
    for (unsigned i = 0; i < gpu->process_count; i++) {
        const struct smi_process *process = &gpu->processes[i];
        begins(3, "process_info");
        element(4, "gpu_instance_id", "N/A");
        element(4, "compute_instance_id", "N/A");
        number(4, "pid", true, process->pid, "");
        element(4, "type", "C");
        element(4, "process_name", process->name);
        number(4, "used_memory", true, MIB(process->used), " MiB");
        ends(3, "process_info");
    }
    ends(2, "processes");
}

static void put_gpu(const struct smi_gpu *gpu)
{
    printf("\t<gpu id=\"%s\">\n", gpu->bus);
    element(2, "product_name", gpu->name);
    element(2, "product_brand", "N/A");
    element(2, "product_architecture", "N/A");
    element(2, "display_mode", "N/A");
    element(2, "display_active", "N/A");
    element(2, "persistence_mode", "N/A");
    UNKNOWN(2, "mig_mode", "current_mig", "pending_mig");
    element(2, "mig_devices", "None");
    element(2, "serial", "N/A");
    element(2, "uuid", gpu->uuid);
    number(2, "minor_number", true, gpu->index, "");
    element(2, "vbios_version", "N/A");
    put_pci(gpu);
    element(2, "fan_speed", "N/A");
    element(2, "performance_state", "N/A");
    put_memory(gpu);
    element(2, "compute_mode", "Default");
    begins(2, "utilization");
    number(3, "gpu_util", gpu->busy_known, gpu->busy, " %");
    element(3, "memory_util", "N/A");
    element(3, "encoder_util", "N/A");
    element(3, "decoder_util", "N/A");
    ends(2, "utilization");
    UNKNOWN(2, "ecc_mode", "current_ecc", "pending_ecc");
    UNKNOWN(2, "temperature", "gpu_temp", "gpu_temp_max_threshold", "memory_temp");
    UNKNOWN(2, "gpu_power_readings", "power_state", "average_power_draw", "instant_power_draw", "current_power_limit",
            "default_power_limit");
    UNKNOWN(2, "clocks", "graphics_clock", "sm_clock", "mem_clock", "video_clock");
    begins(2, "max_clocks");
    number(3, "graphics_clock", gpu->clock > 0, gpu->clock, " MHz");
    number(3, "sm_clock", gpu->clock > 0, gpu->clock, " MHz");
    number(3, "mem_clock", gpu->memory_clock > 0, gpu->memory_clock, " MHz");
    element(3, "video_clock", "N/A");
    ends(2, "max_clocks");
    put_processes(gpu);
    ends(1, "gpu");
}

void smi_xml(const struct smi *smi)
{
    char text[64];
    time_t seconds = time(NULL);
    struct tm parts;
    localtime_r(&seconds, &parts);
    strftime(text, sizeof text, "%a %b %e %H:%M:%S %Y", &parts);
    printf("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n<nvidia_smi_log>\n");
    element(1, "timestamp", text);
    element(1, "driver_version", smi->driver);
    snprintf(text, sizeof text, "%d.%d", smi->cuda / 1000, smi->cuda % 1000 / 10);
    element(1, "cuda_version", text);
    number(1, "attached_gpus", true, smi->gpu_count, "");
    for (unsigned i = 0; i < smi->gpu_count; i++)
        put_gpu(&smi->gpus[i]);
    printf("</nvidia_smi_log>\n");
}
