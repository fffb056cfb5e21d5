/* trace.c: what FLYT_TRACE needs of the Driver API (cpu/client/core/wire/trace.h). */
#include "cpu/client/driver/driver.h"

bool driver_traced;

__attribute__((constructor)) static void read_environment(void) { driver_traced = trace_enabled(); }

static const char *kernel_name(const void *address)
{
    const char *name;
    return core_function_check(address, NULL, &name) ? NULL : name;
}

static const char *symbol_name(const void *address)
{
    (void)address; /* the driver API names symbols by text */
    return NULL;
}

const struct trace_front driver_front = { .kernel = kernel_name, .symbol = symbol_name };
