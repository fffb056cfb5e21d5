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

/* As NVIDIA's library does where memory cannot be symmetric: there is no window, and everything works without one. */
nccl_result ncclCommWindowRegister(struct nccl_comm *comm, void *memory, size_t size, void **window, int flags)
{
    (void)flags;
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_check(comm, __func__);
    if (result != NCCL_SUCCESS)
        return result;
    if (!memory || !size || !window)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommWindowRegister: a pointer is NULL, or size is 0");
    *window = NULL;
    return NCCL_SUCCESS;
}

nccl_result ncclCommWindowDeregister(struct nccl_comm *comm, void *window)
{
    (void)window;
    NCCL_ENTER();
    NCCL_USE(comm);
    return nccl_comm_check(comm, __func__);
}

/* Of a window that is NULL, as they all are. */
nccl_result ncclWinGetUserPtr(struct nccl_comm *comm, void *window, void **memory)
{
    (void)window;
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_known(comm, __func__);
    if (result == NCCL_SUCCESS && !memory)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: outUserPtr is NULL", __func__);
    if (result == NCCL_SUCCESS)
        *memory = NULL;
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
