/* fingerprints.h: what the answer of FINGERPRINTS holds (cpu/rpc/cpu_rpc_prot.x). */
#ifndef FLYT_SERVER_COPY_FINGERPRINTS_H
#define FLYT_SERVER_COPY_FINGERPRINTS_H

#include <stdint.h>

#include "cpu/rpc/cpu_rpc_prot.h"

/* size: at most FLYT_MAX_INLINE bytes. Returns how many fingerprints they have. */
unsigned copy_fingerprints(const void *bytes, uint64_t size, flyt_fingerprint all[FLYT_MAX_FINGERPRINTS]);

#endif
