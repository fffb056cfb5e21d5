/*
 * driver_names.h: names of the CUDA driver API: errors, and what cuGetProcAddress finds. Made from cpu/api.
 */
#ifndef FLYT_COMMON_DRIVER_NAMES_H
#define FLYT_COMMON_DRIVER_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* As NVIDIA's driver names and explains a CUresult; NULL for a number that is none. */
const char *driver_error_name(int code);
const char *driver_error_text(int code);

/* One meaning of a name: the symbol that it stands for from this CUDA version on. */
struct driver_entry {
    const char *name;
    int version;
    int per_thread;                      /* 1: of programs whose default stream is per thread */
    void (*address)(void);
};

/* The numbers are those of CUdriverProcAddressQueryResult. */
enum driver_entry_status { DRIVER_ENTRY_FOUND, DRIVER_ENTRY_UNKNOWN, DRIVER_ENTRY_TOO_OLD };

/* What cuGetProcAddress answers. table: sorted by name, per_thread and version, as in api/driver/entries.inc.
   version: of the caller's CUDA, compared unsigned. flags: bit 1 asks for the per-thread forms where a name has them.
   NULL: none. */
void (*driver_entry_find(const struct driver_entry *table, size_t count, const char *name, int version, uint64_t flags,
                         enum driver_entry_status *status))(void);

#endif
