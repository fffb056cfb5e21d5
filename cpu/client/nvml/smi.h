/*
 * smi.h: what the files of flyt-smi share. flyt-smi sees what libnvidia-ml.so.1 says, and, for `flyt-smi status`, what
 * the client manager of this VM says.
 */
#ifndef FLYT_CLIENT_NVML_SMI_H
#define FLYT_CLIENT_NVML_SMI_H

#include <stdbool.h>
#include <stdint.h>

enum { SMI_GPUS = 64, SMI_PROCESSES = 4096, SMI_TEXT = 256 };

struct smi_process { unsigned pid; bool busy_known; unsigned busy; uint64_t used; char name[SMI_TEXT]; };

struct smi_gpu {
    unsigned index;
    struct nvml_device *device;
    char name[SMI_TEXT], uuid[80], bus[32];
    int major, minor;
    bool memory_known, busy_known;
    uint64_t total, used, free;
    unsigned busy, clock, memory_clock;         /* per cent, MHz (0: not known) */
    unsigned process_count;
    struct smi_process *processes;
};

struct smi {
    char driver[80];
    int cuda;
    unsigned gpu_count;
    struct smi_gpu gpus[SMI_GPUS];
};

/* Of libnvidia-ml.so.1. */
int nvmlInit_v2(void);
int nvmlShutdown(void);

/* smi.c */
/* Between nvmlInit and nvmlShutdown. only: a list of indices, UUIDs and bus ids with commas; NULL: all. Returns a code
   of NVML's. What it reads is freed by smi_free. */
int smi_read(struct smi *, const char *only);
void smi_free(struct smi *);
void smi_clean(char *text); /* what a terminal must not get becomes '?' */

/* smi_status.c: what the cluster gives this VM. The exit status. */
int smi_status(bool json);

/* smi_show.c */
void smi_table(const struct smi *);
void smi_list(const struct smi *);
void smi_all(const struct smi *);

/* smi_xml.c */
void smi_xml(const struct smi *);

/* smi_monitor.c. look: how many times it was printed before. */
void smi_dmon(const struct smi *, unsigned look);
void smi_pmon(const struct smi *, unsigned look);
void smi_topology(const struct smi *);
/* smi.c: what lies between two GPUs, as NVML numbers it; 0: not known */
unsigned smi_path(const struct smi_gpu *, const struct smi_gpu *other);

/* smi_query.c: `fields` is a list with commas. 0, or 2 (a field is not known, which has been said). */
struct smi_format { bool header, units; };
bool smi_format_read(const char *text, struct smi_format *);
int  smi_query_gpus(const struct smi *, const char *fields, const struct smi_format *, bool first);
int  smi_query_processes(const struct smi *, const char *fields, const struct smi_format *, bool first);
void smi_help_fields(void);

#endif
