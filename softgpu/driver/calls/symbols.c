/*
 * symbols.c: every name that NVIDIA's driver exports. Each has a weak definition that says "not supported". A real one
 * replaces it when the library is linked. This file must not include cuda.h: these definitions have no parameters.
 */
#include "softgpu/driver/calls/symbols.h"

#define SYMBOL(name) \
    __attribute__((weak, visibility("default"))) int name(void); \
    int name(void) { return sgd_unsupported(#name); }
#include "api/driver/symbols.inc"
#undef SYMBOL

const struct driver_entry sgd_entries[] = {
#define ENTRY(name, version, per_thread, symbol) { name, version, per_thread, (void (*)(void))symbol },
#include "api/driver/entries.inc"
#undef ENTRY
};
const size_t sgd_entry_count = sizeof sgd_entries / sizeof *sgd_entries;
