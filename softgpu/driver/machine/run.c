/*
 * run.c: what copies, memsets and value operations do to memory. Copies and memsets run without the mutex, a
 * piece at a time: before each piece its rights are looked at again, and the address space is held meanwhile, so
 * memory that was unmapped since the call gives error 700 instead of ending the process.
 *
 * A stream, a kernel or the program may watch a word that a copy or memset of few words changes: those are atomic
 * accesses, as the hardware's are. In large ones it would be slow, and nobody can count on when a word of them changes;
 * there ThreadSanitizer must ignore it.
 */
#include "softgpu/driver/machine/machine.h"
#include "softgpu/check.h"

#include <stdatomic.h>
#include <string.h>

#include "cpu/common/past_cache.h"

enum { PIECE = 1 << 20, FEW_WORDS = 64 };

/* Kernels, copies and values may race in device memory: that is the program's affair (softgpu/exec/access.h).
   ThreadSanitizer looks into memmove and memset, so it looks away between these; host memory is named to it. */
#ifdef __SANITIZE_THREAD__
void __tsan_ignore_thread_begin(void);
void __tsan_ignore_thread_end(void);
void __tsan_read_range(void *, unsigned long);
void __tsan_write_range(void *, unsigned long);
static void racy_begin(void) { __tsan_ignore_thread_begin(); }
static void racy_end(void) { __tsan_ignore_thread_end(); }
static void host_is_read(uint64_t address, size_t size) { __tsan_read_range((void *)(uintptr_t)address, size); }
static void host_is_written(uint64_t address, size_t size) { __tsan_write_range((void *)(uintptr_t)address, size); }
#else
static inline void racy_begin(void) {}
static inline void racy_end(void) {}
static inline void host_is_read(uint64_t address, size_t size) { (void)address, (void)size; }
static inline void host_is_written(uint64_t address, size_t size) { (void)address, (void)size; }
#endif

static void move_piece(uint64_t to, uint64_t from, size_t size, bool past_cache)
{
    racy_begin();
    if (past_cache)
        past_cache_copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
    else if (size == 4 && !((to | from) & 3u))
        atomic_store_explicit((_Atomic uint32_t *)(uintptr_t)to,
                              atomic_load_explicit((_Atomic uint32_t *)(uintptr_t)from, memory_order_relaxed),
                              memory_order_relaxed);
    else if (size == 8 && !((to | from) & 7u))
        atomic_store_explicit((_Atomic uint64_t *)(uintptr_t)to,
                              atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)from, memory_order_relaxed),
                              memory_order_relaxed);
    else
        memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
    racy_end();
}

static bool move(const struct sgd_side *to, uint64_t to_at, const struct sgd_side *from, uint64_t from_at, size_t size)
{
    bool past_cache =
        size >= PAST_CACHE_LEAST && to_at - from_at >= size && from_at - to_at >= size; /* no memmove, that one */
    while (size) {
        size_t piece = size < PIECE ? size : PIECE;
        sgd_space_hold();
        bool may = (!to->device || sgd_space_any(to_at, piece, SG_WRITE)) &&
                   (!from->device || sgd_space_any(from_at, piece, SG_READ));
        if (may && !from->device)
            host_is_read(from_at, piece);
        if (may && !to->device)
            host_is_written(to_at, piece);
        if (may)
            move_piece(to_at, from_at, piece, past_cache);
        if (may && sg_check && to->device)
            sg_check_written(to_at, piece);
        sgd_space_unhold();
        if (!may)
            return false;
        to_at += piece;
        from_at += piece;
        size -= piece;
    }
    return true;
}

static CUresult run_copy(const struct sgd_op *op)
{
    const struct sgd_side *to = &op->copy.to, *from = &op->copy.from;
    size_t width = op->copy.width, rows = op->copy.rows;
    bool packed = rows == 1 || (to->pitch == width && from->pitch == width);
    for (size_t z = 0; z < op->copy.slices; z++) {
        uint64_t a = to->address + z * to->pitch * to->height, b = from->address + z * from->pitch * from->height;
        bool moved = true;
        if (packed)
            moved = move(to, a, from, b, width * rows);
        else
            for (size_t y = 0; y < rows && moved; y++)
                moved = move(to, a + y * to->pitch, from, b + y * from->pitch, width);
        if (!moved)
            return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    return CUDA_SUCCESS;
}

static void fill(uint64_t address, size_t count, unsigned element, uint32_t value)
{
    racy_begin();
    if (element == 4 && count <= FEW_WORDS)
        for (size_t i = 0; i < count; i++)
            atomic_store_explicit((_Atomic uint32_t *)(uintptr_t)address + i, value, memory_order_relaxed);
    else if (element == 1)
        memset((void *)(uintptr_t)address, (int)(value & 0xFF), count);
    else if (element == 2)
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)(uintptr_t)address)[i] = (uint16_t)value;
    else
        for (size_t i = 0; i < count; i++)
            ((uint32_t *)(uintptr_t)address)[i] = value;
    racy_end();
}

static CUresult run_set(const struct sgd_op *op)
{
    unsigned element = op->set.element;
    for (size_t y = 0; y < op->set.rows; y++) {
        uint64_t at = op->set.address + y * op->set.pitch;
        for (size_t left = op->set.width; left;) {
            size_t piece = left < PIECE / element ? left : PIECE / element;
            sgd_space_hold();
            bool may = sgd_space_any(at, piece * element, SG_WRITE);
            if (may)
                fill(at, piece, element, op->set.value);
            if (may && sg_check)
                sg_check_written(at, piece * element);
            sgd_space_unhold();
            if (!may)
                return CUDA_ERROR_ILLEGAL_ADDRESS;
            at += piece * element;
            left -= piece;
        }
    }
    return CUDA_SUCCESS;
}

CUresult sgd_op_run(struct sgd_op *op)
{
    return op->kind == SGD_OP_COPY ? run_copy(op) : run_set(op);
}

/* The value is written by a kernel, another stream or the program: acquire and release order what it announces. */
bool sgd_value_reached(const struct sgd_op *op, CUresult *error)
{
    uint64_t a = op->value.address, want = op->value.value, got;
    if (!sgd_space_any(a, op->value.wide ? 8 : 4, SG_READ)) {
        *error = CUDA_ERROR_ILLEGAL_ADDRESS;
        return false;
    }
    *error = CUDA_SUCCESS;
    if (sgd_space_is_shut(a, op->value.wide ? 8 : 4))
        return false;                        /* as a kernel: not before all of what belongs to the value is there */
    racy_begin();
    if (op->value.wide)
        got = atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)a, memory_order_acquire);
    else
        got = atomic_load_explicit((_Atomic uint32_t *)(uintptr_t)a, memory_order_acquire);
    racy_end();
    switch (op->value.flags & 3u) {
    case CU_STREAM_WAIT_VALUE_EQ: return got == want;
    case CU_STREAM_WAIT_VALUE_AND: return (got & want) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return (~(got | want) & (op->value.wide ? UINT64_MAX : UINT32_MAX)) != 0;
    default:                                 /* GEQ: the difference, signed, so that it may wrap around */
        return op->value.wide ? (int64_t)(got - want) >= 0 : (int32_t)((uint32_t)got - (uint32_t)want) >= 0;
    }
}

CUresult sgd_value_write(const struct sgd_op *op)
{
    uint64_t a = op->value.address;
    if (!sgd_space_any(a, op->value.wide ? 8 : 4, SG_WRITE))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (sg_check)
        sg_check_written(a, op->value.wide ? 8 : 4);
    racy_begin();
    if (op->value.wide)
        atomic_store_explicit((_Atomic uint64_t *)(uintptr_t)a, op->value.value, memory_order_release);
    else
        atomic_store_explicit((_Atomic uint32_t *)(uintptr_t)a, (uint32_t)op->value.value, memory_order_release);
    racy_end();
    return CUDA_SUCCESS;
}
