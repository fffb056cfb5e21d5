/*
 * report.h: what flyt-nvml sends to libnvidia-ml.so.1 through a pipe: both are of one build.
 *
 * The library writes one byte for each report that it wants. A report is a head, then `devices` devices, then
 * `programs` programs. When the library closes its end, flyt-nvml ends.
 */
#ifndef FLYT_CLIENT_NVML_REPORT_H
#define FLYT_CLIENT_NVML_REPORT_H

#include <stdint.h>

enum { REPORT_MAGIC = 0x464e4d4c, REPORT_DEVICES = 64, REPORT_PROGRAMS = 4096, REPORT_NAME = 256 };

struct report_head {
    uint32_t magic;
    int32_t  result;                  /* of the connection to the GPU server, as CUDA numbers it; not 0: that is all */
    int32_t  driver_version;          /* CUDA's, as 13000 */
    uint32_t devices, programs;
    uint32_t usage;                   /* 1: the server reports what is used; else `programs` is 0 */
    uint64_t limit;                   /* of device memory for all programs of this tenant; 0: none */
};

struct report_device {
    uint8_t  uuid[16];
    char     name[REPORT_NAME];
    char     pci_bus_id[32];
    uint64_t total_memory;
    uint64_t reaches, atomics;        /* bit d: it can use the memory of device d; with all atomic operations */
    int32_t  major, minor, sms, clock_khz, memory_clock_khz, bus_width, ecc;
};

struct report_program {
    uint32_t pid, busy;               /* busy: per cent of the last two seconds */
    char     executable[REPORT_NAME];
    uint64_t bytes[REPORT_DEVICES];
};

#endif
