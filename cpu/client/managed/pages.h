/*
 * pages.h: how the system learns which pages the program may touch, and how it reports an access to another one.
 * There are two ways. The first that works is chosen at the first use:
 *
 *   userfaultfd   the kernel holds up the access, of a thread or of a system call, and sends a message
 *   signal        mprotect, and a handler of SIGSEGV, which hands what is not ours to the program's own handler
 */
#ifndef FLYT_CLIENT_MANAGED_PAGES_H
#define FLYT_CLIENT_MANAGED_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All addresses and sizes are whole pages. What returns bool may fail for want of memory. */
struct pages_way {
    const char *name;
    /* Sets it up, once. False: the system does not have it, or does not allow it. */
    bool (*open)(void);
    /* Addresses that are reserved without access begin to be watched, and stop. */
    bool (*begin)(uint64_t base, size_t size);
    void (*end)(uint64_t base, size_t size);
    /* Pages of such a range become somebody's, after an access to them may have failed because they were nobody's. */
    void (*admit)(uint64_t at, size_t size);
    void (*look_after)(void);                 /* now and then: it sees to it that it still hears of accesses */
    /* Memory for contents on their way: given to reveal, or back. */
    void *(*stage)(size_t size);
    void (*unstage)(void *, size_t size);
    /* The contents appear at once, with no access possible before. */
    bool (*reveal)(uint64_t at, void *staged, size_t size, bool writable);
    bool (*zero)(uint64_t at, size_t size);                 /* writable zeros */
    bool (*protect)(uint64_t at, size_t size, bool writable);
    void (*hide)(uint64_t at, size_t size);                 /* no access; the contents are gone */
};
extern const struct pages_way pages_by_signal, pages_by_userfault;

#endif
