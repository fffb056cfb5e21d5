/* fingerprints.h: what the answer of FINGERPRINTS holds (cpu/rpc/cpu_rpc_prot.x). */
#ifndef FLYT_SERVER_COPY_FINGERPRINTS_H
#define FLYT_SERVER_COPY_FINGERPRINTS_H

#include <stdint.h>

#include "cpu/rpc/cpu_rpc_prot.h"

struct gpu;

/* size: at most FLYT_MAX_INLINE bytes. Returns how many fingerprints they have. */
unsigned copy_fingerprints(const void *bytes, uint64_t size, flyt_fingerprint all[FLYT_MAX_FINGERPRINTS]);
/* Of device memory, which is read where it lies: gpu->read is there. 0: it is no memory any more. */
unsigned copy_fingerprints_in_place(const struct gpu *, uint64_t address, uint64_t size,
                                    flyt_fingerprint all[FLYT_MAX_FINGERPRINTS]);

#endif
