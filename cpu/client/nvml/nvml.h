/*
 * nvml.h: what the files of libnvidia-ml.so.1 share: NVML's types and numbers as its documentation gives them, and the
 * view of the GPU server.
 */
#ifndef FLYT_CLIENT_NVML_NVML_H
#define FLYT_CLIENT_NVML_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/client/nvml/report.h"

#define NVML_API __attribute__((visibility("default")))

enum {
    NVML_SUCCESS = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_GPU_IS_LOST = 15,
    NVML_VERSION_MISMATCH = 25,
    NVML_UNKNOWN = 999
};
#define NVML_NOT_AVAILABLE UINT64_MAX

/* ---- source.c: the view ---- */

struct nvml_device { unsigned index; };         /* what a program's nvmlDevice_t points to */

struct view {
    struct report_head head;
    struct report_device devices[REPORT_DEVICES];
    struct report_program *programs;
};

/* Starts the process flyt-nvml unless it runs already, and reads its first report. 0, or 9 (driver not loaded). The
   caller calls source_close once for each call of this. */
int  source_open(void);
int  source_close(void);
/* The view, at most so old as a program can notice, and a lock on it, until view_release. A return code of NVML's:
   1: not initialised; 15: the GPU server is lost. */
int  view_hold(struct view **);
void view_release(void);
/* Holds the view, and finds the device that a handle names; 2: it names none. */
int  view_device(const struct nvml_device *, struct view **, struct report_device **);
struct nvml_device *device_handle(unsigned index);

/* ---- used.c ---- */

uint64_t used_on(const struct view *, unsigned device);                     /* bytes, of all programs */
uint64_t used_total(const struct view *, unsigned device);                  /* what there is for them */
bool     used_by(const struct report_program *, unsigned device);           /* it has memory there */

#endif
