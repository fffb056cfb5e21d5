/* memory.c: memory that NCCL allocates and registers. All device memory is as good as any other here. */
#include "cpu/client/nccl/nccl.h"

nccl_result ncclMemAlloc(void **memory, size_t size)
{
    uint64_t address = 0;
    NCCL_ENTER();
    if (!memory || !size)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclMemAlloc: ptr is NULL, or size is 0");
    int code = core_attach();
    core_context *context = code ? NULL : core_current ? core_current : core_context_primary(0);
    if (!code && !core_current)
        code = context ? core_context_retain(context) : CORE_NO_DEVICE;
    if (!code)
        code = core_memory_allocate(context, size, &address);
    *memory = (void *)(uintptr_t)address;
    if (code == CORE_OUT_OF_MEMORY) /* CUDA has none: NCCL's own lack would be a system error */
        return nccl_fail(NCCL_CUDA_ERROR, "ncclMemAlloc: no memory for %zu bytes", size);
    return nccl_of_core(code, "ncclMemAlloc", NULL);
}

nccl_result ncclMemFree(void *memory)
{
    NCCL_ENTER();
    return memory ? nccl_of_core(core_memory_free((uint64_t)(uintptr_t)memory), "ncclMemFree", NULL) : NCCL_SUCCESS;
}

/* The handle is never looked at: one that is not NULL. */
nccl_result ncclCommRegister(const struct nccl_comm *comm, void *memory, size_t size, void **handle)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_check(comm, __func__);
    if (result != NCCL_SUCCESS)
        return result;
    if (!memory || !size || !handle)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommRegister: a pointer is NULL, or size is 0");
    *handle = memory;
    return NCCL_SUCCESS;
}

nccl_result ncclCommDeregister(const struct nccl_comm *comm, void *handle)
{
    (void)handle;
    NCCL_ENTER();
    NCCL_USE(comm);
    return nccl_comm_check(comm, __func__);
}

/* ---- windows ---- */

enum { WINDOW_ALIGNMENT = 4096, SYMMETRIC = 1 };

/* Memory of the communicator's device, all of it, from a whole page of an allocation on. */
static nccl_result window_check(const struct nccl_comm *comm, void *memory, size_t size, const char *function)
{
    struct core_range range;
    uint64_t at = (uint64_t)(uintptr_t)memory;
    for (uint64_t left = size, here; left > 0; left -= here, at += here) {
        if (!core_address_lookup(at, &range) || range.kind != CORE_DEVICE_MEMORY ||
            range.flags & (CORE_MANAGED | CORE_HOST_MAPPED) || range.device != comm->device)
            return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: buff (%p, %zu bytes) is not all memory of device %d", function,
                             memory, size, comm->device);
        if (left == size && (at - range.base) % WINDOW_ALIGNMENT)
            return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: buff (%p) is not at a multiple of %d bytes of its allocation",
                             function, memory, WINDOW_ALIGNMENT);
        here = range.size - (at - range.base);
        here = here < left ? here : left;
    }
    return NCCL_SUCCESS;
}

/* As NVIDIA's library does where memory cannot be symmetric, there is no window where a rank's server has none, and
   everything else works without. */
nccl_result ncclCommWindowRegister(struct nccl_comm *comm, void *memory, size_t size, struct nccl_window **window,
                                   int flags)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_known(comm, __func__);
    if (result == NCCL_SUCCESS && !window)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: win is NULL", __func__);
    if (result != NCCL_SUCCESS)
        return nccl_group_failed(result);
    *window = NULL;
    result = nccl_comm_open(comm, __func__);
    if (result == NCCL_SUCCESS && (!memory || !size))
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: buff is NULL, or size is 0", __func__);
    if (result != NCCL_SUCCESS || !comm->sided)
        return nccl_group_failed(result);
    result = window_check(comm, memory, size, __func__);
    if (result == NCCL_SUCCESS)
        result = nccl_submit(&(struct nccl_job){ .comm = comm,
                                                 .kind = NCCL_JOB_WINDOW,
                                                 .window = { window, memory, size, flags & SYMMETRIC, NULL } });
    return nccl_group_failed(result);
}

nccl_result ncclCommWindowDeregister(struct nccl_comm *comm, struct nccl_window *window)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_known(comm, __func__);
    if (result == NCCL_SUCCESS && window && !nccl_window_remove(comm, window))
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: %p is no window of the communicator", __func__, (void *)window);
    return result;
}

nccl_result ncclWinGetUserPtr(struct nccl_comm *comm, struct nccl_window *window, void **memory)
{
    struct nccl_window copy = { .memory = NULL };
    uint64_t size;
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_known(comm, __func__);
    if (result == NCCL_SUCCESS && !memory)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: outUserPtr is NULL", __func__);
    if (result == NCCL_SUCCESS && comm->sided && !nccl_window_known(comm, window, comm->rank, &copy, &size))
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: %p is no window of the communicator", __func__, (void *)window);
    if (result == NCCL_SUCCESS)
        *memory = copy.memory;
    return result;
}

/* ---- memory of communicators ---- */

/* They have none of the GPU's that could be given back: a suspended one only takes no operations. */
nccl_result ncclCommSuspend(struct nccl_comm *comm, int flags)
{
    enum { MEMORY = 1 };
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_check(comm, __func__);
    if (result == NCCL_SUCCESS && flags & MEMORY)
        comm->suspended = true;
    return result;
}

nccl_result ncclCommResume(struct nccl_comm *comm)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_check(comm, __func__);
    if (result == NCCL_SUCCESS)
        comm->suspended = false;
    return result;
}

nccl_result ncclCommMemStats(struct nccl_comm *comm, int what, uint64_t *value)
{
    enum { SUSPENDABLE, SUSPENDED, PERSISTENT, TOTAL };
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_check(comm, __func__);
    if (result != NCCL_SUCCESS)
        return result;
    if (!value || what < SUSPENDABLE || what > TOTAL)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: value is NULL, or there is no statistic %d", __func__, what);
    *value = what == SUSPENDED && comm->suspended;
    return NCCL_SUCCESS;
}
