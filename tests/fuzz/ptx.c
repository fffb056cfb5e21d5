/* Any bytes, read as PTX: up to three texts with 0x01 between them; without the bodies when the last byte is 0x02. What
 * is read must keep what ptx.h promises. Bodies that are read later must be the same, and so must be the errors. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/reader.h"
#include "tests/ptx/same.h"
#include "tests/ptx/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* module: NULL when the reading at once failed, as log says. */
static void read_later(const struct ptx_source *sources, size_t count, const struct ptx_module *module, const char *log)
{
    struct ptx_module *later;
    char later_log[128];
    bool read = ptx_module_read_later(sources, count, &later, later_log, sizeof later_log) == 0;
    const char *differ = read != !!module            ? "one way of reading refuses it"
                         : strcmp(log, later_log) != 0 ? "the errors differ"
                         : read                        ? ptx_same_module(module, later)
                                                       : NULL;
    if (differ) {
        fprintf(stderr, "%s: '%s', '%s'\n", differ, log, later_log);
        abort();
    }
    if (read)
        ptx_module_free(later);
}

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
    if (!options.outline)
        read_later(sources, count, module, log);
    ptx_module_free(module);
    return 0;
}
