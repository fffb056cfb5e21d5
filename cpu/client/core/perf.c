/* perf.c: the switches of $FLYT_PERF, a comma-separated list of no_… words. Unknown words are named once. */
#include <string.h>

#include "cpu/common/log.h"
#include "internal.h"

struct perf core_perf;

static bool word_is(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

void perf_parse(struct perf *perf, const char *text)
{
    *perf = (struct perf){ 0 };
    while (text && *text) {
        size_t length = strcspn(text, ",");
        if (word_is(text, length, "no_async"))
            perf->no_async = true;
        else if (word_is(text, length, "no_batch"))
            perf->no_batch = true;
        else if (word_is(text, length, "no_cache"))
            perf->no_cache = true;
        else if (word_is(text, length, "no_pipeline"))
            perf->no_pipeline = true;
        else if (word_is(text, length, "no_shm"))
            perf->no_shm = true;
        else if (word_is(text, length, "no_payload"))
            perf->no_payload = true;
        else if (word_is(text, length, "no_lanes"))
            perf->no_lanes = true;
        else if (length)
            log_warning("FLYT_PERF: %.*s is not a switch of this version; it has no_async, no_batch, no_cache, no_pipeline, no_shm, no_payload, "
                        "no_lanes",
                        (int)length, text);
        text += length;
        text += *text == ',';
    }
}
