/* Any bytes, read as PTX: up to three texts with 0x01 between them; without the bodies when the last byte is 0x02. What
 * is read must keep what ptx.h promises. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/reader.h"
#include "tests/ptx/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ptx_source sources[3];
    struct ptx_module *module = NULL;
    uint64_t operations = 0;
    size_t count = 0, at = 0;
    char log[128];
    while (count < 3 && at <= size) {
        const uint8_t *end = count < 2 && at < size ? memchr(data + at, 1, size - at) : NULL;
        size_t length = end ? (size_t)(end - data) - at : size - at;
        sources[count++] = (struct ptx_source){ .text = (const char *)data + at, .size = length, .name = "fuzz" };
        at += length + 1;
    }
    const struct reader_options options = { .outline = size && data[size - 1] == 2, .operations = &operations };
    if (ptx_module_read_with(sources, count, &module, log, sizeof log, &options) == 0) {
        const char *wrong = ptx_validate(module);
        if (wrong) {
            fprintf(stderr, "%s\n", wrong);
            abort();
        }
    } else if (!*log) {
        abort();
    }
    /* Initialisers and ranges of variables have limits of their own; all else is linear. */
    if (operations > (uint64_t)size * 64 + READER_MAX_INIT * 3 + 1000000)
        abort();
    ptx_module_free(module);
    return 0;
}
