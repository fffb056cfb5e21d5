/* clear.h: fresh device memory holds zeros; see clear.c. */
#ifndef FLYT_SERVER_CLEAR_H
#define FLYT_SERVER_CLEAR_H

#include "cpu/server/session.h"

/* Memory that has just come from the driver, mapped, for the context that is current. Returns when it is zero. Nothing
   where the setting or the driver makes that needless. Under session.lock. */
CUresult clear_mapped(struct session *, uint64_t address, uint64_t size);
/* Clears the memory of a handle of this device, which nobody has mapped yet. */
CUresult clear_handle(struct session *, const struct device *, CUmemGenericAllocationHandle, uint64_t size);

#endif
