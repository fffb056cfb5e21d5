/* apart.c: see apart.h. The thread that suspends and resumes the session is the only one that comes here. */
#include "cpu/client/core/moves/apart.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cpu/client/core/wire/state.h"
#include "cpu/common/address_space.h"
#include "cpu/common/log.h"

/* Smaller ones cost CRIU nothing, and may be something else: closed pages of managed memory. */
#define LEAST (UINT64_C(1) << 30)
enum { SPANS_MOST = 64 };

static struct { uint64_t at, size; } spans[SPANS_MOST];
static unsigned span_count;

bool apart_possible(char *why, size_t size)
{
    static const char userfault[] = "anon_inode:[userfaultfd]";
    char target[sizeof userfault];
    DIR *folder = opendir("/proc/self/fd");
    bool found = false;
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target);
        found = length == sizeof userfault - 1 && memcmp(target, userfault, sizeof userfault - 1) == 0;
    }
    if (folder)
        closedir(folder);
    if (found)
        snprintf(why, size, "it has used managed memory whose pages userfaultfd watches, which CRIU cannot write down: "
                            "start it with FLYT_PERF=no_userfault, or suspend it without a file");
    return !found;
}

void apart_give(void)
{
    const uint64_t from = core_session.window, end = from + core_session.window_size + core_session.hello.host_size;
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], mode[8];
    uint64_t low, high, offset, inode;
    unsigned major, minor;
    span_count = 0;
    while (maps && span_count < SPANS_MOST && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64, &low, &high, mode, &offset, &major,
                   &minor, &inode) != 7)
            continue;
        low = low > from ? low : from;
        high = high < end ? high : end;
        if (inode || strcmp(mode, "---p") != 0 || low >= high || high - low < LEAST)
            continue;
        spans[span_count].at = low;
        spans[span_count++].size = high - low;
    }
    if (maps)
        fclose(maps);
    else
        log_debug("the addresses of GPU memory stay reserved: /proc/self/maps cannot be read");
    for (unsigned i = 0; i < span_count; i++)
        address_space_give((void *)(uintptr_t)spans[i].at, spans[i].size);
}

bool apart_take(char *why, size_t size)
{
    unsigned taken = 0;
    for (; taken < span_count; taken++) {
        void *got = address_space_take(spans[taken].at, spans[taken].size, MAP_FIXED_NOREPLACE);
        if (got == (void *)(uintptr_t)spans[taken].at)
            continue;
        if (got != MAP_FAILED)
            address_space_give(got, spans[taken].size);
        break;
    }
    if (taken == span_count) {
        span_count = 0;
        return true;
    }
    snprintf(why, size, "the addresses of its GPU memory from 0x%" PRIx64 " on cannot be reserved again",
             spans[taken].at);
    while (taken--)
        address_space_give((void *)(uintptr_t)spans[taken].at, spans[taken].size);
    return false;
}
