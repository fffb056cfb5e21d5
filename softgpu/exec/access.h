/*
 * access.h: the accesses to device memory, and nothing else.
 *
 * PTX lets kernels race: blocks on two cores, and the program itself, may touch the same bytes at once. An
 * access of up to 8 aligned bytes is one relaxed C11 atomic access (the caller has checked the alignment). Only
 * these functions and the row loops of rows.c are exempt from ThreadSanitizer: a race in a kernel is the kernel's
 * own, and one that is none (ordered by a kernel's own acquire and release) would need every byte of
 * device memory to be tracked.
 *
 * An access of 16 aligned bytes is one 16-byte vector move. GPUs do such accesses in one piece, and CUB publishes a
 * value with its status that way. Intel and AMD promise that the move is atomic on every processor with AVX. Without
 * AVX (processors from before 2011) the same move is made and nothing is promised: each half of 8 bytes is whole, and
 * on one socket both usually are.
 */
#ifndef SOFTGPU_EXEC_ACCESS_H
#define SOFTGPU_EXEC_ACCESS_H

#include <stdatomic.h>
#include <stdbool.h>
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

typedef uint64_t exec_16_bytes __attribute__((vector_size(16), may_alias));

/* volatile: C has no words for an atomic access of a vector; gcc and clang make one move of a volatile one. */
EXEC_RACY static inline exec_16_bytes exec_load128(const void *p) { return *(const volatile exec_16_bytes *)p; }
EXEC_RACY static inline void exec_store128(void *p, exec_16_bytes value) { *(volatile exec_16_bytes *)p = value; }

#ifdef __x86_64__
/* Compare-and-swap of 16 aligned bytes, sequentially consistent. expected becomes what was there. */
static inline bool exec_swap128(void *p, uint64_t expected[2], const uint64_t desired[2])
{
    bool done;
    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(done), "+m"(*(exec_16_bytes *)p), "+a"(expected[0]), "+d"(expected[1])
                     : "b"(desired[0]), "c"(desired[1]) : "memory");
    return done;
}
#endif

/* An aligned piece of 1 to 16 bytes as one access; 32 bytes as two of 16, in order of addresses. Both sides are
   aligned. */
EXEC_RACY static inline void exec_copy_piece(void *to, const void *from, unsigned size)
{
    switch (size) {
    case 1:  exec_store8(to, exec_load8(from)); break;
    case 2:  exec_store16(to, exec_load16(from)); break;
    case 4:  exec_store32(to, exec_load32(from)); break;
    case 8:  exec_store64(to, exec_load64(from)); break;
    case 16: exec_store128(to, exec_load128(from)); break;
    default:
        exec_store128(to, exec_load128(from));
        exec_store128((char *)to + 16, exec_load128((const char *)from + 16));
    }
}

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
