/* fatbin: a fuzz target for the readers of fat binaries, and of the cubins in them. */
#include "cpu/code/fatbin.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/code/kernels.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static bool look(void *context, const char *name, size_t size, unsigned registers)
{
    size_t *left = context;
    if (!size || memchr(name, 0, size) || !registers || registers > 255 || size > *left)
        abort();
    *left -= size;
    return true;
}

/* All names together are no longer than the cubin. */
static void read_registers(const uint8_t *cubin, size_t size)
{
    size_t left = size;
    registers_of_cubin(cubin, size, look, &left);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    size_t cursor = 0;
    struct fatbin_entry entry;
    const char *why = NULL;
    fatbin_elf_size(bytes, size);
    read_registers(bytes, size);
    while (fatbin_next(bytes, size, &cursor, &entry, &why) == 1) {
        /* Large claims that are possible cost only time here. */
        if (entry.size > 1 << 20)
            continue;
        size_t length;
        uint8_t *out = fatbin_extract(&entry, &length, &why);
        if (!out && !why)
            abort();
        if (out && entry.kind == FATBIN_CUBIN)
            read_registers(out, length);
        free(out);
    }
    return 0;
}
