/*
 * softgpu.h: what the server and the software GPU have agreed on beyond the CUDA Driver API, for graphs that kernels
 * launch, and for memory that is brought when a kernel touches it. Other drivers refuse the numbers.
 */
#ifndef FLYT_COMMON_SOFTGPU_H
#define FLYT_COMMON_SOFTGPU_H

#include <stdbool.h>
#include <stdint.h>

/* A CUfunction_attribute: what the kernel, or a function that it may call, does. Bits. */
enum { SOFTGPU_FUNCTION_USES = 0x464C5954, SOFTGPU_USES_GRAPHS = 1, SOFTGPU_USES_CHILDREN = 2, SOFTGPU_USES_HEAP = 4 };

/* Another: 1 if a launch now may use the heap of malloc(), whose size cannot be changed from then on. */
enum { SOFTGPU_FUNCTION_HEAP = 0x464C5955 };

/* Others: the one block that the kernel can be launched with (.reqntid), its x, y and z, the most blocks of its
   clusters (.maxclusterrank), and whether a launch's grid counts clusters (.blocksareclusters); 0: the kernel says
   nothing. */
enum {
    SOFTGPU_FUNCTION_BLOCK_X = 0x464C5956,
    SOFTGPU_FUNCTION_BLOCK_Y,
    SOFTGPU_FUNCTION_BLOCK_Z,
    SOFTGPU_FUNCTION_CLUSTER_MOST,
    SOFTGPU_FUNCTION_CLUSTER_GRID,
    SOFTGPU_FUNCTION_ONE_THREAD /* of NVIDIA's driver: a block of one thread will do in place of that one */
};

/* What stands at the head of PTX, before a number: a bound of its kernels' registers, where the text is not an entry of
   a fat binary, which has a place for it (cpu/code/bounded.h): PTX in place of machine code, and inputs of a link. */
#define SOFTGPU_BOUND_COMMENT "// flyt: -maxrregcount="

/* A CUlaunchAttributeID: the kernel is part of a graph. The value: */
enum { SOFTGPU_LAUNCH_GRAPH = 0x464C5954 };
struct softgpu_graph {
    uint64_t executable;    /* what cudaGetCurrentGraphExec returns if `current`; not 0 */
    uint64_t owner;         /* the server's own */
    uint32_t current;
};

/* What cudaGraphLaunch in such a kernel calls; it returns a cudaError_t. Called in threads of the software GPU, several
   at a time. The software GPU holds no lock. */
typedef int softgpu_graph_launch(uint64_t owner, uint64_t executable, uint64_t graph, uint64_t stream);

/* What a kernel's access to an address without memory calls, before it becomes error 700: true: there is memory now,
   and the access is made. Called in threads of the software GPU, several at a time, which wait for the answer as long
   as it takes. The software GPU holds no lock. kernel: its name in the PTX. */
typedef bool softgpu_absent(uint64_t address, uint64_t size, bool writes, const char *kernel);

/* What a kernel calls at a fence of system scope, and before a release: what it wrote before must be seen before what
   it writes behind it, also by the host. Called as the function above. */
typedef void softgpu_released(void);

/* A session that comes from another process has numbers that its software GPU chose (softgpu_place_…). Where a module
   lies: its variables, its managed variables, its first function; 0: it has none, or it does not matter. */
struct softgpu_module_place { uint64_t memory, managed, code; };

#endif
