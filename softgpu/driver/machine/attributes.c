/*
 * attributes.c: every CUdevice_attribute of the header, by its number, so that this builds with headers that
 * do not name the newer ones. What is not listed is 0: not there. Figures of textures and surfaces are those of
 * the family (programming guide, technical specifications).
 */
#include "softgpu/driver/machine/machine.h"

struct constant { short attribute; int value; };

static const struct constant constants[] = {
    { 9, 65536 },       /* total constant memory */
    { 11, 2147483647 }, /* max pitch */
    { 14, 512 },        /* texture alignment */
    { 15, 1 },          /* gpu overlap */
    { 17, 0 },          /* kernel exec timeout */
    { 18, 0 },          /* integrated */
    { 19, 1 },          /* can map host memory */
    { 20, 0 },          /* compute mode: default */
    { 21, 131072 },     { 22, 131072 }, { 23, 65536 },     { 24, 16384 },  { 25, 16384 },
    { 26, 16384 },      { 27, 32768 },  { 28, 32768 },     { 29, 2048 },   { 30, 512 }, /* surface alignment */
    { 31, 1 },                                                                          /* concurrent kernels */
    { 32, 0 },                                                                          /* ecc */
    { 34, 0 },                                                                          /* pci device */
    { 35, 0 },                                                                          /* tcc driver */
    { 36, 1000000 },                                                                    /* memory clock, kHz */
    { 37, 128 },                                                                        /* bus width */
    { 38, 4 << 20 },                                                                    /* L2 */
    { 40, 2 }, /* async engines: the two copy threads */
    { 41, 1 }, /* unified addressing */
    { 42, 32768 },      { 43, 2048 },   { 44, 1 },         { 45, 32768 },  { 46, 32768 },
    { 47, 8192 },       { 48, 8192 },   { 49, 32768 },     { 50, 0 }, /* pci domain */
    { 51, 32 },                                                       /* texture pitch alignment */
    { 52, 32768 },      { 53, 32768 },  { 54, 2046 },      { 55, 32768 },  { 56, 131072 },
    { 57, 65536 },      { 58, 16384 },  { 59, 16384 },     { 60, 16384 },  { 61, 32768 },
    { 62, 2048 },       { 63, 32768 },  { 64, 32768 },     { 65, 2048 },   { 66, 32768 },
    { 67, 32768 },      { 68, 2046 },   { 69, 268435456 }, { 70, 131072 }, { 71, 65000 },
    { 72, 2097120 },    { 73, 32768 },  { 74, 32768 },     { 77, 32768 },  { 78, 1 }, /* stream priorities */
    { 79, 1 },          { 80, 1 },                                                    /* L1 caches */
    { 83, 1 },                                                                        /* managed memory */
    { 84, 0 },                                                                        /* multi-gpu board */
    { 86, 1 },                                      /* host native atomics: it is host memory */
    { 87, 64 },                                     /* single to double precision */
    { 88, 0 },                                      /* pageable memory access: only what CUDA knows */
    { 89, 1 },                                      /* concurrent managed access */
    { 90, 1 },                                      /* compute preemption */
    { 91, 1 },                                      /* host pointer for registered memory */
    { 92, 1 },          { 93, 1 },      { 94, 1 },  /* stream memory operations */
    { 95, 1 },                                      /* cooperative launch */
    { 96, 0 },                                      /* cooperative multi-device launch */
    { 98, 0 },                                      /* flush remote writes */
    { 99, 1 },                                      /* host register */
    { 100, 0 },         { 101, 0 },     { 102, 1 }, /* virtual memory management */
    { 103, 1 },                                     /* POSIX file descriptors */
    { 107, 0 },                                     /* compression */
    { 108, 0 },         { 109, 0 },                 /* persisting L2, access policy windows */
    { 110, 0 },                                     /* RDMA */
    { 112, 0 },                                     /* sparse arrays */
    { 113, 1 },                                     /* read-only host register */
    { 115, 0 },                                     /* memory pools */
    { 116, 0 },         { 117, 0 },     { 118, 0 },        { 119, 0 },     { 120, 1 }, /* clusters */
    { 122, 1 },         { 123, 1 },                                                    /* stream memory operations v2 */
    { 124, 0 },         { 125, 0 },                                                    /* dma-buf, IPC events */
    { 126, SGD_SYNC_DOMAINS },                                                     /* memory synchronisation domains */
    { 127, 0 },         { 128, 0 },     { 129, 0 },                    /* unified function pointers */
    { 130, 0 },                                                        /* NUMA: none */
    { 131, -1 },        { 132, 0 },     { 133, 0 },        { 134, 0 }, /* host NUMA node */
};

int sgd_attribute(const struct sgd_device *d, int attribute)
{
    const struct sg_limits *l = &d->limits;
    switch (attribute) {
    case 1: return (int)l->max_threads_per_block;
    case 2: case 3: case 4: return (int)l->max_block[attribute - 2];
    case 5: case 6: case 7: return (int)l->max_grid[attribute - 5];
    case 8: return (int)l->shared_per_block;
    case 10: return (int)l->warp_size;
    case 12: return (int)l->regs_per_block;
    case 13: return (int)l->clock_khz;
    case 16: return (int)l->sm_count;
    case 33: return d->ordinal + 1;         /* PCI bus */
    case 39: return (int)l->max_threads_per_sm;
    case 75: return (int)l->cc_major;
    case 76: return (int)l->cc_minor;
    case 81: return (int)l->shared_per_sm;
    case 82: return (int)l->regs_per_sm;
    case 85: return d->ordinal;             /* board group */
    case 97: return (int)l->shared_per_block_optin;
    case 106: return (int)l->max_blocks_per_sm;
    case 111: return (int)l->shared_reserved;
    default: break;
    }
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (constants[i].attribute == attribute)
            return constants[i].value;
    return 0;
}
