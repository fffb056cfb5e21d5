/*
 * calls.h: the functions of libnccl.so.2 that have a body, as NVIDIA's nccl.h declares them for programs, with names of
 * ours for the types. `stream` is a cudaStream_t.
 *
 * The bodies have other names for the linker (NCCL_BODY). What programs call are the entries that entries.awk makes:
 * each jumps to the body, or to the function of the program's own NCCL (choice.c).
 */
#ifndef FLYT_CLIENT_NCCL_CALLS_H
#define FLYT_CLIENT_NCCL_CALLS_H

#include <stddef.h>
#include <stdint.h>

#ifdef NCCL_OF_PROGRAMS /* a test that is linked with the library */
#define NCCL_BODY(name)
#else
#define NCCL_BODY(name) __asm__("flyt_" #name)
#endif

typedef enum {
    NCCL_SUCCESS,
    NCCL_CUDA_ERROR,
    NCCL_SYSTEM_ERROR,
    NCCL_INTERNAL_ERROR,
    NCCL_INVALID_ARGUMENT,
    NCCL_INVALID_USAGE,
    NCCL_REMOTE_ERROR,
    NCCL_IN_PROGRESS,
    NCCL_RESULTS
} nccl_result;

enum { NCCL_ID_SIZE = 128 };
struct nccl_comm;
struct nccl_parameter;
struct nccl_window;
typedef uint64_t core_stream;
typedef struct {
    char bytes[NCCL_ID_SIZE];
} nccl_id;

/* The beginning of ncclConfig_t. Programs of NCCL before 2.17 have it up to blocking. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cluster_size, ctas_least, ctas_most;
    const char *net_name;
    int split_share;
};

/* ncclWaitSignalDesc_t. */
struct nccl_signals {
    int count, peer, signal, context;
};

/* ncclSimInfo_t. time: microseconds. */
enum { NCCL_SIMULATION_MAGIC = 0x74685283 };
struct nccl_simulation {
    size_t size;
    unsigned magic, version;
    float time;
};

nccl_result ncclGetVersion(int *version) NCCL_BODY(ncclGetVersion);
const char *ncclGetErrorString(nccl_result result) NCCL_BODY(ncclGetErrorString);
const char *ncclGetLastError(const struct nccl_comm *comm) NCCL_BODY(ncclGetLastError);
void ncclResetDebugInit(void) NCCL_BODY(ncclResetDebugInit);
nccl_result ncclCommInitRank(struct nccl_comm **out, int ranks, nccl_id id, int rank) NCCL_BODY(ncclCommInitRank);
nccl_result ncclCommInitRankConfig(struct nccl_comm **out, int ranks, nccl_id id, int rank,
                                   const struct nccl_config *config) NCCL_BODY(ncclCommInitRankConfig);
nccl_result ncclCommInitRankScalable(struct nccl_comm **out, int ranks, int rank, int count, const nccl_id *ids,
                                     const struct nccl_config *config) NCCL_BODY(ncclCommInitRankScalable);
nccl_result ncclCommInitAll(struct nccl_comm **comms, int count, const int *devices) NCCL_BODY(ncclCommInitAll);
nccl_result ncclCommSplit(struct nccl_comm *comm, int color, int key, struct nccl_comm **out,
                          const struct nccl_config *config) NCCL_BODY(ncclCommSplit);
nccl_result ncclCommShrink(struct nccl_comm *comm, const int *excluded, int count, struct nccl_comm **out,
                           const struct nccl_config *config, int flags) NCCL_BODY(ncclCommShrink);
nccl_result ncclCommRevoke(struct nccl_comm *comm, int flags) NCCL_BODY(ncclCommRevoke);
nccl_result ncclCommGetUniqueId(struct nccl_comm *comm, nccl_id *id) NCCL_BODY(ncclCommGetUniqueId);
nccl_result ncclCommGrow(struct nccl_comm *comm, int ranks, const nccl_id *id, int rank, struct nccl_comm **out,
                         const struct nccl_config *config) NCCL_BODY(ncclCommGrow);
nccl_result ncclCommFinalize(struct nccl_comm *comm) NCCL_BODY(ncclCommFinalize);
nccl_result ncclCommDestroy(struct nccl_comm *comm) NCCL_BODY(ncclCommDestroy);
nccl_result ncclCommAbort(struct nccl_comm *comm) NCCL_BODY(ncclCommAbort);
nccl_result ncclCommGetAsyncError(struct nccl_comm *comm, nccl_result *error) NCCL_BODY(ncclCommGetAsyncError);
nccl_result ncclCommCount(const struct nccl_comm *comm, int *count) NCCL_BODY(ncclCommCount);
nccl_result ncclCommCuDevice(const struct nccl_comm *comm, int *device) NCCL_BODY(ncclCommCuDevice);
nccl_result ncclCommUserRank(const struct nccl_comm *comm, int *rank) NCCL_BODY(ncclCommUserRank);
nccl_result ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, struct nccl_comm *comm)
    NCCL_BODY(ncclRedOpCreatePreMulSum);
nccl_result ncclRedOpDestroy(int op, struct nccl_comm *comm) NCCL_BODY(ncclRedOpDestroy);
nccl_result ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, struct nccl_comm *comm,
                       core_stream stream) NCCL_BODY(ncclReduce);
nccl_result ncclBcast(void *buffer, size_t count, int type, int root, struct nccl_comm *comm, core_stream stream)
    NCCL_BODY(ncclBcast);
nccl_result ncclBroadcast(const void *in, void *out, size_t count, int type, int root, struct nccl_comm *comm,
                          core_stream stream) NCCL_BODY(ncclBroadcast);
nccl_result ncclAllReduce(const void *in, void *out, size_t count, int type, int op, struct nccl_comm *comm,
                          core_stream stream) NCCL_BODY(ncclAllReduce);
nccl_result ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, struct nccl_comm *comm,
                              core_stream stream) NCCL_BODY(ncclReduceScatter);
nccl_result ncclAllGather(const void *in, void *out, size_t count, int type, struct nccl_comm *comm, core_stream stream)
    NCCL_BODY(ncclAllGather);
nccl_result ncclAlltoAll(const void *in, void *out, size_t count, int type, struct nccl_comm *comm, core_stream stream)
    NCCL_BODY(ncclAlltoAll);
nccl_result ncclGather(const void *in, void *out, size_t count, int type, int root, struct nccl_comm *comm,
                       core_stream stream) NCCL_BODY(ncclGather);
nccl_result ncclScatter(const void *in, void *out, size_t count, int type, int root, struct nccl_comm *comm,
                        core_stream stream) NCCL_BODY(ncclScatter);
nccl_result ncclSend(const void *buffer, size_t count, int type, int peer, struct nccl_comm *comm, core_stream stream)
    NCCL_BODY(ncclSend);
nccl_result ncclRecv(void *buffer, size_t count, int type, int peer, struct nccl_comm *comm, core_stream stream)
    NCCL_BODY(ncclRecv);
nccl_result ncclMemAlloc(void **memory, size_t size) NCCL_BODY(ncclMemAlloc);
nccl_result ncclMemFree(void *memory) NCCL_BODY(ncclMemFree);
nccl_result ncclCommRegister(const struct nccl_comm *comm, void *memory, size_t size, void **handle)
    NCCL_BODY(ncclCommRegister);
nccl_result ncclCommDeregister(const struct nccl_comm *comm, void *handle) NCCL_BODY(ncclCommDeregister);
nccl_result ncclCommWindowRegister(struct nccl_comm *comm, void *memory, size_t size, struct nccl_window **window,
                                   int flags) NCCL_BODY(ncclCommWindowRegister);
nccl_result ncclCommWindowDeregister(struct nccl_comm *comm, struct nccl_window *window)
    NCCL_BODY(ncclCommWindowDeregister);
nccl_result ncclPutSignal(const void *memory, size_t count, int type, int peer, struct nccl_window *window,
                          size_t offset, int signal, int context, unsigned flags, struct nccl_comm *comm,
                          core_stream stream) NCCL_BODY(ncclPutSignal);
nccl_result ncclSignal(int peer, int signal, int context, unsigned flags, struct nccl_comm *comm, core_stream stream)
    NCCL_BODY(ncclSignal);
nccl_result ncclWaitSignal(int count, struct nccl_signals *list, struct nccl_comm *comm, core_stream stream)
    NCCL_BODY(ncclWaitSignal);
nccl_result ncclGetUniqueId(nccl_id *id) NCCL_BODY(ncclGetUniqueId);
nccl_result ncclGroupStart(void) NCCL_BODY(ncclGroupStart);
nccl_result ncclGroupEnd(void) NCCL_BODY(ncclGroupEnd);
nccl_result ncclGroupSimulateEnd(struct nccl_simulation *info) NCCL_BODY(ncclGroupSimulateEnd);
nccl_result ncclCommSuspend(struct nccl_comm *comm, int flags) NCCL_BODY(ncclCommSuspend);
nccl_result ncclCommResume(struct nccl_comm *comm) NCCL_BODY(ncclCommResume);
nccl_result ncclCommMemStats(struct nccl_comm *comm, int what, uint64_t *value) NCCL_BODY(ncclCommMemStats);
nccl_result ncclWinGetUserPtr(struct nccl_comm *comm, struct nccl_window *window, void **memory)
    NCCL_BODY(ncclWinGetUserPtr);
nccl_result ncclParamBind(const struct nccl_parameter **out, const char *key) NCCL_BODY(ncclParamBind);
nccl_result ncclParamGet(const struct nccl_parameter *handle, void *out, int room, int *size) NCCL_BODY(ncclParamGet);
nccl_result ncclParamGetI8(const struct nccl_parameter *handle, int8_t *out) NCCL_BODY(ncclParamGetI8);
nccl_result ncclParamGetI16(const struct nccl_parameter *handle, int16_t *out) NCCL_BODY(ncclParamGetI16);
nccl_result ncclParamGetI32(const struct nccl_parameter *handle, int32_t *out) NCCL_BODY(ncclParamGetI32);
nccl_result ncclParamGetI64(const struct nccl_parameter *handle, int64_t *out) NCCL_BODY(ncclParamGetI64);
nccl_result ncclParamGetU8(const struct nccl_parameter *handle, uint8_t *out) NCCL_BODY(ncclParamGetU8);
nccl_result ncclParamGetU16(const struct nccl_parameter *handle, uint16_t *out) NCCL_BODY(ncclParamGetU16);
nccl_result ncclParamGetU32(const struct nccl_parameter *handle, uint32_t *out) NCCL_BODY(ncclParamGetU32);
nccl_result ncclParamGetU64(const struct nccl_parameter *handle, uint64_t *out) NCCL_BODY(ncclParamGetU64);
nccl_result ncclParamGetStr(const struct nccl_parameter *handle, const char **out) NCCL_BODY(ncclParamGetStr);
nccl_result ncclParamGetParameter(const char *key, const char **value, int *length) NCCL_BODY(ncclParamGetParameter);
nccl_result ncclParamGetAllParameterKeys(const char ***table, int *count) NCCL_BODY(ncclParamGetAllParameterKeys);
void ncclParamDumpAll(void) NCCL_BODY(ncclParamDumpAll);

#endif
