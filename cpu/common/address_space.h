/*
 * address_space.h: addresses that are reserved without access, many GiB of them.
 *
 * By system calls, not by mmap: in a program built with ThreadSanitizer mmap is that one's. It gives other addresses
 * than those asked for, and ends the program when the system chooses some that it cannot watch. It leaves to programs
 * what lies below 2^39 and the usual places, and keeps everything else reserved, so what is free is usable.
 */
#ifndef FLYT_COMMON_ADDRESS_SPACE_H
#define FLYT_COMMON_ADDRESS_SPACE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where ThreadSanitizer leaves room for a window of 256 GiB, and other programs have nothing. */
#define ADDRESS_SPACE_LOW UINT64_C(0x001000000000)

/* At `at` exactly (flags: MAP_FIXED_NOREPLACE), or where the system likes. MAP_FAILED, and errno. An old kernel takes
   the flag for a hint: the caller compares. */
static inline void *address_space_take(uint64_t at, uint64_t size, int flags)
{
    return (void *)syscall(SYS_mmap, at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0L);
}

static inline void address_space_give(void *at, uint64_t size) { syscall(SYS_munmap, at, size); }

/* Is ThreadSanitizer in this process? */
static inline bool address_space_is_narrow(void) { return dlsym(RTLD_DEFAULT, "__tsan_init") != NULL; }

#endif
