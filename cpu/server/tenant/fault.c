/*
 * fault.c: the error after which the program of this worker cannot use CUDA any more, in the file that says whom the
 * worker serves (cpu/server/listener/ticket.c): the node manager reads it when the worker has ended.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "cpu/server/tenant/tenant.h"

static atomic_int file = -1; /* the thread that takes the ticket sets it, those that meet the error read it */

void tenant_fault_file(int fd)
{
    int before = atomic_exchange(&file, fd);
    if (before >= 0)
        close(before);
}

void tenant_fault(int code)
{
    char text[16];
    int fd = atomic_load(&file), size = snprintf(text, sizeof text, "%-7d\n", code);
    if (fd >= 0 && size > 0 && pwrite(fd, text, (size_t)size, 0) != size)
        return; /* a full disk: it is only said that the program ended */
}
