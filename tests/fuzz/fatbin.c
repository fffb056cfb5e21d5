/* fatbin: a fuzz target for the reader of fat binaries. */
#include "cpu/code/fatbin.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    size_t cursor = 0;
    struct fatbin_entry entry;
    const char *why = NULL;
    fatbin_elf_size(bytes, size);
    while (fatbin_next(bytes, size, &cursor, &entry, &why) == 1) {
        /* Large claims that are possible cost only time here. */
        if (entry.size > 1 << 20)
            continue;
        uint8_t *out = fatbin_extract(&entry, NULL, &why);
        if (!out && !why)
            abort();
        free(out);
    }
    return 0;
}
