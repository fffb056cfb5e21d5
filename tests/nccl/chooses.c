/* chooses.c [all]: calls a few functions of NCCL, and prints what they do: by that choice.py sees whose they are. all:
   also one that own.c does not have, and of Flyt's a window and a signal. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define NCCL_OF_PROGRAMS
#include "cpu/client/nccl/calls.h"

nccl_result ncclDevCommCreate(void);
nccl_result ncclCommQueryProperties(void);

static void windows(struct nccl_comm *comm)
{
    struct nccl_window *window = NULL;
    void *memory = NULL;
    nccl_result made = ncclMemAlloc(&memory, 4096);
    if (made == NCCL_SUCCESS)
        made = ncclCommWindowRegister(comm, memory, 4096, &window, 1);
    printf("window %d %d, signal %d\n", (int)made, window != NULL, (int)ncclSignal(0, 0, 0, 0, comm, 0));
}

int main(int argc, char **argv)
{
    nccl_id id = { .bytes = "" };
    struct nccl_comm *comm = NULL;
    int version = 0;
    (void)argv;
    setvbuf(stdout, NULL, _IOLBF, 0);
    nccl_result result = ncclGetUniqueId(&id);
    ncclGetVersion(&version);
    printf("id %d %.8s, version %d, %s\n", (int)result, id.bytes, version, ncclGetErrorString(NCCL_SUCCESS));
    ncclGroupStart();
    result = ncclCommInitRank(&comm, 1, id, 0);
    nccl_result end = ncclGroupEnd();
    printf("communicator %d\n", (int)(result == NCCL_SUCCESS ? end : result));
    if (comm && version != 22809)
        ncclReduce((void *)(uintptr_t)1, (void *)(uintptr_t)2, 3, 4, 5, 6, comm, 8);
    printf("device API %d %d\n", (int)ncclDevCommCreate(), (int)ncclDevCommCreate());
    if (argc > 1)
        printf("properties %d %d\n", (int)ncclCommQueryProperties(), (int)ncclCommQueryProperties());
    if (argc > 1 && comm && version == 22809)
        windows(comm);
    printf("destroyed %d\n", comm ? (int)ncclCommDestroy(comm) : -1);
    return 0;
}
