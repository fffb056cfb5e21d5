/*
 * cluster.h: rules of CUDA for the blocks of a cluster, which the client and the software GPU both check.
 */
#ifndef FLYT_COMMON_CLUSTER_H
#define FLYT_COMMON_CLUSTER_H

#include <stdint.h>

/* Blocks of a cluster: what the programming guide promises for every device, and the most that a kernel may ask for. */
enum { CLUSTER_BLOCKS_PORTABLE = 8, CLUSTER_BLOCKS_MOST = 16 };

/* Clusters that the program would rather have: whole numbers of its regular ones. A device that has no room for them
   uses the regular ones, so their size is compared with what CUDA allows and not with what the device has room for.
   A CUresult: 0 or CUDA_ERROR_INVALID_CLUSTER_SIZE (912), as NVIDIA's driver 580. */
static inline int cluster_check_preferred(const uint32_t grid[3], const uint32_t cluster[3],
                                          const uint32_t preferred[3])
{
    enum { INVALID_CLUSTER_SIZE = 912 };
    uint64_t size = 1;
    for (int i = 0; i < 3; i++) {
        if (!preferred[i] || preferred[i] % cluster[i] || grid[i] % preferred[i])
            return INVALID_CLUSTER_SIZE;
        size *= preferred[i];
        if (size > CLUSTER_BLOCKS_MOST)
            return INVALID_CLUSTER_SIZE;
    }
    return preferred[2] == cluster[2] ? 0 : INVALID_CLUSTER_SIZE;
}

#endif
