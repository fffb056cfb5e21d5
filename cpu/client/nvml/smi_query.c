/*
 * smi_query.c: chosen fields of GPUs and programs, as CSV.
 */
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "cpu/client/nvml/smi.h"

#define MIB(bytes) ((unsigned long long)(bytes) >> 20)

/* What a field is written of. */
struct query_row { const struct smi *smi; const struct smi_gpu *gpu; const struct smi_process *process; };
/* Writes the value; false: it is not known. */
typedef bool field_value(const struct query_row *, char *out, size_t size);

static bool put(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text);
    return *text != 0;
}

#define TEXT(name, expression) \
    static bool name(const struct query_row *row, char *out, size_t size) { return put(out, size, expression); }
#define NUMBER(name, known, expression) \
    static bool name(const struct query_row *row, char *out, size_t size) \
    { \
        snprintf(out, size, "%llu", (unsigned long long)(expression)); \
        return known; \
    }

TEXT(of_name, row->gpu->name)
TEXT(of_uuid, row->gpu->uuid)
TEXT(of_bus, row->gpu->bus)
TEXT(of_driver, row->smi->driver)
TEXT(of_process_name, row->process->name)
NUMBER(of_index, true, row->gpu->index)
NUMBER(of_count, true, row->smi->gpu_count)
NUMBER(of_total, row->gpu->memory_known, MIB(row->gpu->total))
NUMBER(of_used, row->gpu->memory_known, MIB(row->gpu->used))
NUMBER(of_free, row->gpu->memory_known, MIB(row->gpu->free))
NUMBER(of_reserved, row->gpu->memory_known, 0)
NUMBER(of_busy, row->gpu->busy_known, row->gpu->busy)
NUMBER(of_clock, row->gpu->clock > 0, row->gpu->clock)
NUMBER(of_memory_clock, row->gpu->memory_clock > 0, row->gpu->memory_clock)
NUMBER(of_pid, true, row->process->pid)
NUMBER(of_process_used, true, MIB(row->process->used))

static bool of_capability(const struct query_row *row, char *out, size_t size)
{
    snprintf(out, size, "%d.%d", row->gpu->major, row->gpu->minor);
    return true;
}

static bool of_mode(const struct query_row *row, char *out, size_t size)
{
    (void)row;
    return put(out, size, "Default");
}

static bool of_time(const struct query_row *row, char *out, size_t size)
{
    struct timeval time;
    struct tm parts;
    char text[40];
    (void)row;
    gettimeofday(&time, NULL);
    localtime_r(&time.tv_sec, &parts);
    strftime(text, sizeof text, "%Y/%m/%d %H:%M:%S", &parts);
    snprintf(out, size, "%s.%03d", text, (int)(time.tv_usec / 1000));
    return true;
}

static bool of_nothing(const struct query_row *row, char *out, size_t size)
{
    (void)row;
    (void)out;
    (void)size;
    return false;
}

struct nvml_field {
    const char *name, *other, *unit;
    field_value *value;
};

static const struct nvml_field gpu_fields[] = {
    { "timestamp", NULL, NULL, of_time },
    { "driver_version", NULL, NULL, of_driver },
    { "count", NULL, NULL, of_count },
    { "name", "gpu_name", NULL, of_name },
    { "uuid", "gpu_uuid", NULL, of_uuid },
    { "index", NULL, NULL, of_index },
    { "pci.bus_id", "gpu_bus_id", NULL, of_bus },
    { "compute_cap", NULL, NULL, of_capability },
    { "compute_mode", NULL, NULL, of_mode },
    { "memory.total", NULL, "MiB", of_total },
    { "memory.reserved", NULL, "MiB", of_reserved },
    { "memory.used", NULL, "MiB", of_used },
    { "memory.free", NULL, "MiB", of_free },
    { "utilization.gpu", NULL, "%", of_busy },
    { "utilization.memory", NULL, "%", of_nothing },
    { "clocks.max.graphics", "clocks.max.gr", "MHz", of_clock },
    { "clocks.max.sm", NULL, "MHz", of_clock },
    { "clocks.max.memory", "clocks.max.mem", "MHz", of_memory_clock },
    /* known to nvidia-smi, and not to Flyt */
    { "clocks.current.graphics", "clocks.gr", "MHz", of_nothing },
    { "clocks.current.sm", "clocks.sm", "MHz", of_nothing },
    { "clocks.current.memory", "clocks.mem", "MHz", of_nothing },
    { "display_active", NULL, NULL, of_nothing },
    { "display_mode", NULL, NULL, of_nothing },
    { "ecc.mode.current", NULL, NULL, of_nothing },
    { "fan.speed", NULL, "%", of_nothing },
    { "mig.mode.current", NULL, NULL, of_nothing },
    { "persistence_mode", NULL, NULL, of_nothing },
    { "power.draw", NULL, "W", of_nothing },
    { "power.limit", NULL, "W", of_nothing },
    { "pstate", NULL, NULL, of_nothing },
    { "serial", "gpu_serial", NULL, of_nothing },
    { "temperature.gpu", NULL, NULL, of_nothing },
    { "temperature.memory", NULL, NULL, of_nothing },
    { "vbios_version", NULL, NULL, of_nothing },
    { 0 },
};

static const struct nvml_field process_fields[] = {
    { "timestamp", NULL, NULL, of_time },
    { "gpu_name", NULL, NULL, of_name },
    { "gpu_uuid", NULL, NULL, of_uuid },
    { "gpu_bus_id", NULL, NULL, of_bus },
    { "pid", NULL, NULL, of_pid },
    { "process_name", "name", NULL, of_process_name },
    { "used_gpu_memory", "used_memory", "MiB", of_process_used },
    { 0 },
};

void smi_help_fields(void)
{
    for (const struct nvml_field *field = gpu_fields; field->name; field++)
        printf("%s%s%s%s\n", field->name, field->other ? " or " : "", field->other ? field->other : "",
               field->value == of_nothing ? " (not known to Flyt)" : "");
}

bool smi_format_read(const char *text, struct smi_format *format)
{
    bool csv = false;
    *format = (struct smi_format){ true, true };
    while (*text) {
        size_t length = strcspn(text, ",");
        if (length == 3 && strncmp(text, "csv", 3) == 0)
            csv = true;
        else if (length == 8 && strncmp(text, "noheader", 8) == 0)
            format->header = false;
        else if (length == 7 && strncmp(text, "nounits", 7) == 0)
            format->units = false;
        else
            return false;
        text += length + (text[length] == ',');
    }
    return csv;
}

/* The next field of the list, which it takes away; NULL: none, or an unknown one (*unknown). */
static const struct nvml_field *next(const char **list, const struct nvml_field *known, bool *unknown)
{
    *list += strspn(*list, " ");
    size_t length = strcspn(*list, ",");
    if (!length)
        return NULL;
    const struct nvml_field *field = known;
    while (field->name && (strncmp(field->name, *list, length) || field->name[length]) &&
           (!field->other || strncmp(field->other, *list, length) || field->other[length]))
        field++;
    if (!field->name) {
        fprintf(stderr, "flyt-smi: field \"%.*s\" is not a valid field to query\n", (int)length, *list);
        *unknown = true;
        return NULL;
    }
    *list += length + ((*list)[length] == ',');
    return field;
}

static bool header(const char *list, const struct nvml_field *known, bool print)
{
    bool unknown = false, first = true;
    const char *start = list;
    for (const struct nvml_field *field; (field = next(&list, known, &unknown)); first = false, start = list)
        if (print) {
            int length = (int)strcspn(start + strspn(start, " "), ",");
            printf("%s%.*s", first ? "" : ", ", length, start + strspn(start, " "));
            if (field->unit)
                printf(" [%s]", field->unit);
        }
    if (print && !unknown)
        printf("\n");
    return !unknown && !first;
}

static void line(const struct query_row *row, const char *list, const struct nvml_field *known, bool units)
{
    char text[SMI_TEXT];
    bool unknown = false, first = true;
    for (const struct nvml_field *field; (field = next(&list, known, &unknown)); first = false) {
        bool there = field->value(row, text, sizeof text);
        printf("%s%s", first ? "" : ", ", there ? text : "[N/A]");
        if (there && field->unit && units)
            printf(" %s", field->unit);
    }
    printf("\n");
}

enum { WRONG = 2 };

int smi_query_gpus(const struct smi *smi, const char *fields, const struct smi_format *format, bool first)
{
    if (!header(fields, gpu_fields, false))
        return WRONG;
    if (first && format->header)
        header(fields, gpu_fields, true);
    for (unsigned i = 0; i < smi->gpu_count; i++)
        line(&(struct query_row){ smi, &smi->gpus[i], NULL }, fields, gpu_fields, format->units);
    return 0;
}

int smi_query_processes(const struct smi *smi, const char *fields, const struct smi_format *format, bool first)
{
    if (!header(fields, process_fields, false))
        return WRONG;
    if (first && format->header)
        header(fields, process_fields, true);
    for (unsigned i = 0; i < smi->gpu_count; i++)
        for (unsigned p = 0; p < smi->gpus[i].process_count; p++)
            line(&(struct query_row){ smi, &smi->gpus[i], &smi->gpus[i].processes[p] }, fields, process_fields,
                 format->units);
    return 0;
}
