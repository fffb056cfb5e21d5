/* trace.c: what FLYT_TRACE needs of the Runtime API (cpu/client/core/wire/trace.h). */
#include "cpu/client/runtime/runtime.h"

bool runtime_traced;

/* Before the program's own constructors, which register its code. */
__attribute__((constructor)) static void read_environment(void) { runtime_traced = trace_enabled(); }

static const char *kernel_name(const void *address)
{
    const struct runtime_function *record = runtime_function_record(address);
    return record ? record->name : NULL;
}

static const char *symbol_name(const void *address)
{
    const struct runtime_variable *record = runtime_variable_record(address);
    return record ? record->name : NULL;
}

const struct trace_front runtime_front = { .kernel = kernel_name, .symbol = symbol_name };
