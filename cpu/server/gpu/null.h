/* null.h: what null.c (device, memory, streams) and null_code.c (modules, launches) share. */
#ifndef FLYT_SERVER_GPU_NULL_H
#define FLYT_SERVER_GPU_NULL_H

#include <stdatomic.h>
#include <stdint.h>

#include "cpu/server/gpu/gpu.h"

enum { NULL_STREAM = 0x53545245, NULL_EVENT = 0x4556454e, NULL_MODULE = 0x4d4f4455, NULL_FUNCTION = 0x46554e43,
       NULL_MEMORY = 0x4d454d4f, NULL_DEAD = 0x44454144 };

struct null_object { uint32_t magic; };                     /* first member of every object */

bool null_is(const void *object, uint32_t magic);
/* Counts an operation of a stream, or says what is wrong with the stream or the thread's context. */
CUresult null_work(_Atomic unsigned long *counter, CUstream stream);
CUresult null_check(void);                                  /* has the thread a context? */
/* Addresses of a module's variables; MemAddressFree gives them back. */
CUresult null_reserve_variables(CUdeviceptr *address, size_t size);
CUresult null_MemAddressFree(CUdeviceptr address, size_t size);

extern _Atomic unsigned long null_launches;

CUresult null_ModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values);
CUresult null_ModuleUnload(CUmodule module);
CUresult null_ModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult null_ModuleGetGlobal(CUdeviceptr *address, size_t *size, CUmodule module, const char *name);
CUresult null_FuncGetAttribute(int *value, CUfunction_attribute name, CUfunction function);
CUresult null_FuncSetAttribute(CUfunction function, CUfunction_attribute name, int value);
CUresult null_FuncSetCacheConfig(CUfunction function, CUfunc_cache config);
CUresult null_FuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size);
CUresult null_LaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                           unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                           CUstream stream, void **params, void **extra);
CUresult null_LaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra);
CUresult null_OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int block_size,
                                                                 size_t shared, unsigned int flags);
CUresult null_OccupancyAvailableDynamicSMemPerBlock(size_t *shared, CUfunction function, int blocks, int block_size);
CUresult null_GetErrorName(CUresult error, const char **name);
CUresult null_GetErrorString(CUresult error, const char **text);

#endif
