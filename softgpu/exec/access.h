/*
 * access.h: the accesses to device memory, and nothing else.
 *
 * PTX lets kernels race: blocks on two cores, and the program itself, may touch the same bytes at once. An
 * access of up to 8 aligned bytes is one relaxed C11 atomic access (the caller has checked the alignment). Only
 * these functions and the row loops of rows.c are exempt from ThreadSanitizer: a race in a kernel is the kernel's
 * own, and one that is none (ordered by a kernel's own acquire and release) would need every byte of
 * device memory to be tracked.
 */
#ifndef SOFTGPU_EXEC_ACCESS_H
#define SOFTGPU_EXEC_ACCESS_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define EXEC_RACY __attribute__((no_sanitize("thread")))

#define EXEC_ACCESS(bits)                                                                               \
    EXEC_RACY static inline uint##bits##_t exec_load##bits(const void *p)                               \
    {                                                                                                   \
        return __atomic_load_n((const uint##bits##_t *)p, __ATOMIC_RELAXED);                            \
    }                                                                                                   \
    EXEC_RACY static inline void exec_store##bits(void *p, uint##bits##_t value)                        \
    {                                                                                                   \
        __atomic_store_n((uint##bits##_t *)p, value, __ATOMIC_RELAXED);                                 \
    }
EXEC_ACCESS(8)
EXEC_ACCESS(16)
EXEC_ACCESS(32)
EXEC_ACCESS(64)

/* Whole bytes of unknown alignment: text of printf, arguments, aggregates. */
EXEC_RACY static inline void exec_copy_bytes(void *to, const void *from, size_t size)
{
    unsigned char *d = to;
    const unsigned char *s = from;
    for (size_t i = 0; i < size; i++)
        d[i] = s[i];
}

/* ThreadSanitizer does not know fences; what they order is exempt from it anyway. */
#if defined(__SANITIZE_THREAD__)
#define EXEC_FENCES_BY_ATOMIC 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EXEC_FENCES_BY_ATOMIC 1
#endif
#endif

static inline void exec_fence_full(void)
{
#ifdef EXEC_FENCES_BY_ATOMIC
    uint32_t dummy = 0;
    __atomic_exchange_n(&dummy, 1, __ATOMIC_SEQ_CST);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}
static inline void exec_fence_acq_rel(void)
{
#ifdef EXEC_FENCES_BY_ATOMIC
    exec_fence_full();
#else
    atomic_thread_fence(memory_order_acq_rel);
#endif
}

#endif
