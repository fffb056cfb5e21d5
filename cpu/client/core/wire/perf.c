/* perf.c: the switches of $FLYT_PERF, a comma-separated list of no_… words. Unknown words are named, with those that
   there are. */
#include <stddef.h>
#include <string.h>

#include "cpu/common/log.h"
#include "perf.h"

struct perf core_perf;

static const struct { const char *name; size_t at; } words[] = {
    { "no_async", offsetof(struct perf, no_async) },
    { "no_batch", offsetof(struct perf, no_batch) },
    { "no_cache", offsetof(struct perf, no_cache) },
    { "no_pipeline", offsetof(struct perf, no_pipeline) },
    { "no_shm", offsetof(struct perf, no_shm) },
    { "no_payload", offsetof(struct perf, no_payload) },
    { "no_lanes", offsetof(struct perf, no_lanes) },
    { "no_direct", offsetof(struct perf, no_direct) },
    { "no_rounds", offsetof(struct perf, no_rounds) },
    { "no_code_rounds", offsetof(struct perf, no_code_rounds) },
    { "no_fingerprints", offsetof(struct perf, no_fingerprints) },
    { "no_watch", offsetof(struct perf, no_watch) },
    { "no_ahead", offsetof(struct perf, no_ahead) },
    { "no_early", offsetof(struct perf, no_early) },
    { "no_graph", offsetof(struct perf, no_graph) },
    { "no_userfault", offsetof(struct perf, no_userfault) },
    { "no_pull", offsetof(struct perf, no_pull) },
    { "no_membarrier", offsetof(struct perf, no_membarrier) },
    { "no_spin", offsetof(struct perf, no_spin) },
};
enum { WORDS = sizeof words / sizeof words[0] };
_Static_assert(sizeof(struct perf) == WORDS * sizeof(bool), "each switch has a word");

static bool *switch_of(struct perf *perf, const char *word, size_t length)
{
    for (int i = 0; i < WORDS; i++)
        if (strlen(words[i].name) == length && memcmp(word, words[i].name, length) == 0)
            return (bool *)((char *)perf + words[i].at);
    return NULL;
}

static void say_unknown(const char *word, size_t length)
{
    char all[WORDS * 16] = "";
    for (int i = 0; i < WORDS; i++) {
        strcat(all, i ? ", " : "");
        strcat(all, words[i].name);
    }
    log_warning("FLYT_PERF: %.*s is not a switch of this version; it has %s", (int)length, word, all);
}

void perf_parse(struct perf *perf, const char *text)
{
    *perf = (struct perf){ 0 };
    while (text && *text) {
        size_t length = strcspn(text, ",");
        bool *found = switch_of(perf, text, length);
        if (found)
            *found = true;
        else if (length)
            say_unknown(text, length);
        text += length;
        text += *text == ',';
    }
}
