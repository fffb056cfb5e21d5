/*
 * launch.c: kernel launches, and what is asked about functions.
 *
 * A launch takes no lock but its stream's, allocates nothing (parameters beyond 1 KiB and attributes excepted) and
 * sends one call. What native checks at the launch is checked here: attributes of the device and the function are
 * local.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/cancel.h"
#include "cpu/common/cluster.h"
#include "cpu/common/softgpu.h"
#include "api/forward/core.h"
#include "api/launch_attributes.h"
#include "cpu/rpc/quick.h"
#include "code.h"
#include "cpu/client/core/api_code.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/stream/mirror.h"
#include "cpu/client/core/stream/op.h"
#include "cpu/client/core/wire/perf.h"
#include "texref.h"

enum { COOPERATIVE_TOO_LARGE = 720, INVALID_CLUSTER_SIZE = 912, PARAMETERS_ON_STACK = 1024 };

/* CUdevice_attribute numbers */
enum { MULTIPROCESSORS = 16, COOPERATIVE_LAUNCH = 95, CLUSTER_LAUNCH = 120 };

enum { CLUSTER_MUST_BE_SET = 10 }; /* of CUfunction_attribute: read only */

/* ---- what is asked about functions ---- */

static int function_enter(core_context *c, core_function *f, struct loaded_function **loaded)
{
    int code = context_enter(c);
    return code ? code : code_function(c, f, loaded);
}

int core_function_info(core_context *c, core_function *f, const struct core_function_info **out)
{
    CANCEL_DEFERRED;
    struct loaded_function *loaded;
    int code = function_enter(c, f, &loaded);
    *out = code ? NULL : &loaded->info;
    return code;
}

int core_function_set(core_context *c, core_function *f, int attribute, int value)
{
    CANCEL_DEFERRED;
    struct loaded_function *loaded;
    int code = function_enter(c, f, &loaded);
    if (code)
        return code;
    bool kept = attribute >= CORE_FUNCTION_SETTABLE && attribute < CORE_FUNCTION_ATTRIBUTES &&
                attribute != CLUSTER_MUST_BE_SET;
    /* NVIDIA's libraries set the same value before every launch. */
    if (kept && loaded->info.attributes[attribute] == value && !core_perf.no_cache)
        return CORE_OK;
    code = core_func_set_attribute(c, f, attribute, value);
    if (code)
        return code;
    if (kept) {
        loaded->info.attributes[attribute] = value;
        loaded->chosen |= UINT32_C(1) << attribute;
    }
    for (size_t i = 0; i < sizeof loaded->fits / sizeof loaded->fits[0]; i++)
        atomic_store(&loaded->fits[i], 0);
    return CORE_OK;
}

int core_function_set_cache(core_context *c, core_function *f, int config)
{
    CANCEL_DEFERRED;
    struct loaded_function *loaded;
    int code = function_enter(c, f, &loaded);
    if (!code)
        code = core_func_set_cache_config(c, f, config);
    if (!code)
        loaded->cache = config;               /* nobody can ask for it, but it moves (code_move.c) */
    return code;
}

/* Each of loaded->fits packs an answer: block size 11 bits, flags 1, shared 20, valid 1, blocks 16; what does not fit
   is not kept. cudaOccupancyMaxPotentialBlockSize asks for every multiple of 32, so those have places of their own. */
static int occupancy_blocks(core_context *c, core_function *f, struct loaded_function *loaded, int block_size,
                            size_t shared, unsigned flags, int *blocks)
{
    bool keep = block_size >= 0 && block_size < 2048 && flags < 2 && shared < (1u << 20) && !core_perf.no_cache;
    uint64_t key = (((((uint64_t)block_size << 1) | flags) << 20 | shared) << 1 | 1) << 16;
    atomic_uint_fast64_t *place = &loaded->fits[((unsigned)block_size / 32 + 33 * flags + shared / 256) % 64];
    uint64_t fit = atomic_load(place);
    if (keep && (fit & ~UINT64_C(0xFFFF)) == key) {
        *blocks = (int)(fit & 0xFFFF);
        return CORE_OK;
    }
    *blocks = 0;
    int code = core_occupancy_max_active_blocks_per_multiprocessor_with_flags(c, blocks, f, block_size, shared, flags);
    if (!code && keep && *blocks >= 0 && *blocks < 0x10000)
        atomic_store(place, key | (uint64_t)*blocks);
    return code;
}

int core_occupancy_blocks(core_context *c, core_function *f, int block_size, size_t shared, unsigned flags, int *blocks)
{
    CANCEL_DEFERRED;
    struct loaded_function *loaded;
    int code = function_enter(c, f, &loaded);
    return code ? code : occupancy_blocks(c, f, loaded, block_size, shared, flags, blocks);
}

int core_occupancy_clusters(core_context *c, const struct core_launch *l, bool size, int *answer)
{
    CANCEL_DEFERRED;
    struct loaded_function *loaded;
    flyt_launch_attribute attributes[FLYT_MAX_LAUNCH_ATTRIBUTES];
    int code = function_enter(c, l->function, &loaded);
    if (!code && l->attribute_count > FLYT_MAX_LAUNCH_ATTRIBUTES)
        code = CORE_INVALID_VALUE;
    if (code)
        return code;
    u_int count = 0;
    for (uint32_t i = 0; i < l->attribute_count; i++) {
        const struct core_launch_attribute *a = &l->attributes[i];
        if (launch_attribute_has(a->id, ATTRIBUTE_OF_LAUNCHES) && !launch_attribute_has(a->id, ATTRIBUTE_TRAVELS))
            continue; /* the server takes no handles of this process, and these change no cluster */
        attributes[count].id = a->id;
        memcpy(attributes[count++].value, a->value, sizeof a->value);
    }
    clusters_args args = { .kind = size ? FLYT_CLUSTERS_SIZE : FLYT_CLUSTERS_ACTIVE, .function = loaded->wire,
                           .grid = { l->grid[0], l->grid[1], l->grid[2] },
                           .block = { l->block[0], l->block[1], l->block[2] }, .shared = (u_int)l->shared,
                           .attributes = { count, attributes } };
    clusters_result result = { .value = 0 };
    code = wire_call(c->session, FLYT_CLUSTERS, (xdrproc_t)xdr_clusters_args, &args, (xdrproc_t)xdr_clusters_result,
                     &result);
    *answer = code ? 0 : (int)result.value;
    xdr_free((xdrproc_t)xdr_clusters_result, &result);
    return code;
}

/* ---- checks ---- */

static uint32_t limit(int device, int attribute)
{
    int value = 0;
    return core_device_attribute(device, attribute, &value) || value < 0 ? UINT32_MAX : (uint32_t)value;
}

/* The launch's blocks that the device can run at a time. */
static int resident_blocks(core_context *c, const struct core_launch *l, struct loaded_function *loaded,
                           uint64_t threads, uint64_t *blocks)
{
    int per_sm = 0;
    int code = occupancy_blocks(c, l->function, loaded, (int)threads, l->shared, 0, &per_sm);
    *blocks = (uint64_t)per_sm * limit(c->device, MULTIPROCESSORS);
    return code;
}

static int check_cooperative(core_context *c, const struct core_launch *l, struct loaded_function *loaded,
                             uint64_t threads)
{
    uint64_t room;
    if (!limit(c->device, COOPERATIVE_LAUNCH))
        return CORE_NOT_SUPPORTED;
    int code = resident_blocks(c, l, loaded, threads, &room);
    if (code)
        return code;
    unsigned __int128 blocks = (unsigned __int128)l->grid[0] * l->grid[1] * l->grid[2];
    return blocks > room ? COOPERATIVE_TOO_LARGE : CORE_OK;
}

static __attribute__((cold, noinline)) int too_much(int code, const char *what, uint64_t given, uint64_t most)
{
    core_log(CORE_LOG_ERROR, "The launch asks for %llu %s; at most %llu are possible", (unsigned long long)given, what,
             (unsigned long long)most);
    return code;
}

static bool has(int device, int attribute)
{
    int value = 0;
    return !core_device_attribute(device, attribute, &value) && value > 0;
}

static int clusters_lacking(void)
{
    core_unsupported("a launch with clusters of more than one block, on a GPU that has none,");
    return CORE_NOT_SUPPORTED;
}

/* given, preferred: the attributes' values, or NULL. A kernel that requires clusters gets them with or without the
   attribute. */
static int check_clusters(core_context *c, const struct core_launch *l, struct loaded_function *loaded,
                          uint64_t threads, const uint8_t *given, const uint8_t *preferred)
{
    const struct core_function_info *info = &loaded->info;
    const int own[3] = { info->cluster_width, info->cluster_height, info->cluster_depth };
    bool needed = own[0] > 0 || own[1] > 0 || own[2] > 0;
    uint32_t cluster[3];
    uint64_t size = 1, resident;
    if (!given && !needed)
        return INVALID_CLUSTER_SIZE;          /* the kernel must be launched with a size, and has none */
    for (int i = 0; i < 3; i++)
        cluster[i] = own[i] > 0 ? (uint32_t)own[i] : 1;
    if (given)
        memcpy(cluster, given, sizeof cluster);
    for (int i = 0; i < 3; i++) {
        if (!cluster[i] || (l->grid[i] % cluster[i] && !info->grid_of_clusters))
            return INVALID_CLUSTER_SIZE;
        size *= cluster[i];
        if (size > CLUSTER_BLOCKS_MOST || (needed && cluster[i] != (own[i] > 0 ? (uint32_t)own[i] : 1)))
            return INVALID_CLUSTER_SIZE;
    }
    if (info->cluster_most && size > info->cluster_most)
        return too_much(INVALID_CLUSTER_SIZE, "blocks per cluster of this kernel", size, info->cluster_most);
    uint32_t wish[3];
    if (preferred)
        memcpy(wish, preferred, sizeof wish);
    int code = preferred ? cluster_check_preferred(l->grid, cluster, wish) : CORE_OK;
    if (code || size == 1)
        return code;
    if (!has(c->device, CLUSTER_LAUNCH))
        return clusters_lacking();
    if (size > CLUSTER_BLOCKS_PORTABLE && !info->non_portable_cluster && !l->of_node)
        return INVALID_CLUSTER_SIZE;
    code = resident_blocks(c, l, loaded, threads, &resident);
    return !code && size > resident ? INVALID_CLUSTER_SIZE : code;
}

/* ---- why not: for the log of errors, off the path of launches that are right ---- */

static __attribute__((cold, noinline)) int wrong_dimensions(const struct core_launch *l,
                                                            const struct core_limits *limits)
{
    for (int block = 0; block < 2; block++) {
        const uint32_t *given = block ? l->block : l->grid, *most = block ? limits->block : limits->grid;
        const char *what = block ? "block" : "grid";
        if (!given[0] || !given[1] || !given[2])
            core_log(CORE_LOG_ERROR, "One or more of %s dimensions of (%u,%u,%u) is 0", what, given[0], given[1],
                     given[2]);
        else if (given[0] > most[0] || given[1] > most[1] || given[2] > most[2])
            core_log(CORE_LOG_ERROR,
                     "One or more of %s dimensions of (%u,%u,%u) exceeds corresponding maximum value of (%u,%u,%u)",
                     what, given[0], given[1], given[2], most[0], most[1], most[2]);
    }
    return CORE_INVALID_VALUE;
}

/* A kernel with __block_size__ that is launched as its grid of clusters says it, with a block of one thread; or on a
   GPU that takes such a block for any kernel. */
static inline bool is_of_one(const struct core_launch *l, const struct core_function_info *info)
{
    bool will_do = info->grid_of_clusters || info->one_thread_will_do;
    return will_do && l->block[0] == 1 && l->block[1] == 1 && l->block[2] == 1;
}

static __attribute__((cold, noinline)) int check_required(const struct core_launch *l,
                                                          const struct core_function_info *info, uint64_t *threads)
{
    const unsigned *required = info->required_block;
    if (is_of_one(l, info)) {
        *threads = (uint64_t)required[0] * required[1] * required[2];
        return CORE_OK;
    }
    for (int i = 0; i < 3; i++)
        if (l->block[i] != required[i]) {
            core_log(CORE_LOG_ERROR, "The block is (%u,%u,%u), and the kernel was compiled for (%u,%u,%u) alone",
                     l->block[0], l->block[1], l->block[2], required[0], required[1], required[2]);
            return CORE_INVALID_VALUE;
        }
    return CORE_OK;
}

/* Of clusters; NULL: three zeros, which say that there are none. */
static const uint8_t *dimensions(const uint8_t *value)
{
    static const uint8_t none[3 * sizeof(uint32_t)];
    return memcmp(value, none, sizeof none) ? value : NULL;
}

static inline __attribute__((always_inline)) int check(core_context *c, const struct core_launch *l,
                                                       struct loaded_function *loaded)
{
    const struct core_limits *limits = core_limits_of(c->device);
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (!l->grid[i] || l->grid[i] > limits->grid[i] || !l->block[i] || l->block[i] > limits->block[i])
            return wrong_dimensions(l, limits);
        threads *= l->block[i];               /* each is at most a few thousand by now */
    }
    const struct core_function_info *info = &loaded->info;
    int code = CORE_OK;
    if (__builtin_expect(info->required_block[0], 0) && (code = check_required(l, info, &threads)))
        return code;
    if (threads > limits->threads)
        return too_much(CORE_INVALID_VALUE, "threads per block", threads, limits->threads);
    if (threads > (uint64_t)loaded->info.max_threads)
        return too_much(CORE_LAUNCH_OUT_OF_RESOURCES, "threads per block of this kernel", threads,
                        (uint64_t)loaded->info.max_threads);
    uint64_t shared = loaded->info.max_dynamic_shared >= 0 ? (uint64_t)loaded->info.max_dynamic_shared
                                                           : limits->shared - (uint64_t)loaded->info.shared_bytes;
    if (l->shared > shared && !l->of_node)
        return too_much(CORE_INVALID_VALUE, "bytes of dynamic shared memory", l->shared, shared);
    const uint8_t *cluster = NULL, *preferred = NULL;
    for (uint32_t i = 0; i < l->attribute_count; i++) {
        if (l->attributes[i].id == LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            cluster = dimensions(l->attributes[i].value);
        if (l->attributes[i].id == LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION)
            preferred = dimensions(l->attributes[i].value);
        code = launch_check_attribute(c->device, &l->attributes[i]);
        if (code)
            return code;
    }
    bool clusters = info->cluster_width | info->cluster_height | info->cluster_depth | info->cluster_must_be_set;
    if (__builtin_expect(cluster || clusters, 0) &&
        (code = check_clusters(c, l, loaded, threads, cluster, preferred)))
        return code;
    if (__builtin_expect(preferred && !cluster && !clusters, 0))
        return INVALID_CLUSTER_SIZE;          /* they are preferred to nothing */
    return l->cooperative ? check_cooperative(c, l, loaded, threads) : CORE_OK;
}

/* ---- the launch ---- */

/* Most are pointers and numbers: no call for those. */
static inline void parameter_copy(uint8_t *to, const void *from, size_t size)
{
    if (size == 8)
        memcpy(to, from, 8);
    else if (size == 4)
        memcpy(to, from, 4);
    else
        memcpy(to, from, size);
}

static int pack(const struct core_launch *l, const struct core_function_info *info, uint8_t *to)
{
    if (!info->parameter_count)
        return CORE_OK;
    if (l->packed) {
        /* NCCL declares 4 KiB of parameters, and gives as many bytes as its kernel will read. */
        size_t given = l->packed_size < info->parameter_bytes ? l->packed_size : info->parameter_bytes;
        memcpy(to, l->packed, given);
        memset(to + given, 0, info->parameter_bytes - given);
        return CORE_OK;
    }
    if (!l->arguments)
        return CORE_INVALID_VALUE;
    uint32_t end = 0;
    for (uint32_t i = 0; i < info->parameter_count; i++) {
        const struct core_parameter *p = &info->parameters[i];
        if (!l->arguments[i]) {
            if (p->size)
                return CORE_INVALID_VALUE;
            continue;                                 /* an opaque parameter, which no call sets */
        }
        if (p->offset > end)
            memset(to + end, 0, p->offset - end);     /* nothing of our stack travels */
        parameter_copy(to + p->offset, l->arguments[i], p->size);
        end = p->offset + p->size;
    }
    return CORE_OK;
}

static launch_args launch_arguments(const struct client_stream *s, const struct core_launch *l,
                                    const struct loaded_function *loaded)
{
    return (launch_args){
        .function = loaded->wire,
        .stream = s->wire,
        .shared = (u_int)l->shared,
        .flags = l->cooperative ? FLYT_LAUNCH_COOPERATIVE : 0,
        .grid = { l->grid[0], l->grid[1], l->grid[2] },
        .block = { l->block[0], l->block[1], l->block[2] },
        .params = { .params_len = loaded->info.parameter_bytes },
    };
}

/* Pinned memory over a network, which the kernel may use. */
static int mirror_prepare(struct client_stream *s, const void *parameters, size_t size)
{
    if (!mirror_heeded())
        return CORE_OK;
    mirror_room->note(parameters, size);
    return mirror_room->before_work(s);
}

/* The usual launch goes as it will travel, its parameters packed where they will stand. There is one copy of this
   function, so that the compiler inlines quick_launch_put() here: inlined into several callers, it was called instead,
   which cost 28 ns a launch. */
static __attribute__((noinline)) int launch_send(struct client_stream *s, const struct core_launch *l,
                                                 const struct loaded_function *loaded)
{
    uint8_t record[RPC_CALL_ROOM + QUICK_LAUNCH_ROOM + PARAMETERS_ON_STACK], *body = record + RPC_CALL_ROOM;
    int code = pack(l, &loaded->info, body + QUICK_LAUNCH_PARAMETERS);
    if (code)
        return code;
    const launch_args args = launch_arguments(s, l, loaded);
    return stream_send_ready(s, FLYT_LAUNCH, record, quick_launch_put(&args, body));
}

/* Any launch. graph: that it is a part of, or NULL. */
static int launch_send_whole(struct client_stream *s, const struct core_launch *l, const struct loaded_function *loaded,
                             const struct softgpu_graph *graph)
{
    uint32_t count = l->attribute_count;
    if (count + (graph != NULL) > FLYT_MAX_LAUNCH_ATTRIBUTES)
        return CORE_INVALID_VALUE;
    flyt_launch_attribute *attributes = malloc((count + 1) * sizeof *attributes + loaded->info.parameter_bytes);
    if (!attributes)
        return CORE_OUT_OF_MEMORY;
    uint8_t *parameters = (uint8_t *)(attributes + count + 1);
    int code = pack(l, &loaded->info, parameters);
    if (!code)
        code = mirror_prepare(s, parameters, loaded->info.parameter_bytes);
    if (!code) {
        for (uint32_t i = 0; i < l->attribute_count; i++) {
            attributes[i].id = l->attributes[i].id;
            memcpy(attributes[i].value, l->attributes[i].value, sizeof attributes[i].value);
        }
        if (graph) {
            attributes[count] = (flyt_launch_attribute){ .id = FLYT_LAUNCH_GRAPH };
            memcpy(attributes[count++].value, graph, sizeof *graph);
        }
        launch_args args = launch_arguments(s, l, loaded);
        args.params.params_val = (char *)parameters;
        args.attributes.attributes_len = count;
        args.attributes.attributes_val = attributes;
        code = stream_send(s, &(struct stream_call){ FLYT_LAUNCH, (xdrproc_t)xdr_launch_args, &args, true,
                                                     args.params.params_len }, NULL);
    }
    free(attributes);
    return code;
}

/* It waits for its place in the stream before, so that other threads see little of work that comes. */
static int managed_launch_begins(struct client_stream *s, bool *comes)
{
    if (atomic_load_explicit(&launch_heed, memory_order_relaxed) & HEED_SPANS)
        backlog_enter(s);
    return managed_work_begins(s, comes);
}

/* A launch that is not the usual one. */
static int launch_with_care(struct client_stream *s, const struct core_launch *l, const struct loaded_function *loaded,
                            unsigned heed)
{
    bool comes, whole = l->attribute_count || loaded->info.parameter_bytes > PARAMETERS_ON_STACK ||
                        heed & (HEED_STATS | HEED_MIRROR);
    int code = managed_launch_begins(s, &comes);
    if (!code && heed & HEED_TEXREFS)
        code = texrefs_before_launch();
    if (!code) {
        code = whole ? launch_send_whole(s, l, loaded, NULL) : launch_send(s, l, loaded);
        if (heed & HEED_MIRROR)
            mirror_work_sent();
    }
    managed_work_sent(comes);
    return code;
}

int core_launch_check(core_context *c, const struct core_launch *l)
{
    CANCEL_DEFERRED;
    struct loaded_function *loaded;
    int code = function_enter(c, l->function, &loaded);
    return code ? code : check(c, l, loaded);
}

int core_launch_attribute_check(core_context *c, struct core_launch_attribute *attribute)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    launch_attribute_limit(c->device, attribute);
    return launch_check_attribute(c->device, attribute);
}

/* Inlined at each call site, as check is: most launches take this path. */
static inline __attribute__((always_inline)) int launch_now(struct client_stream *s, const struct core_launch *l,
                                                            const struct loaded_function *loaded)
{
    unsigned heed = atomic_load_explicit(&launch_heed, memory_order_relaxed);
    if (__builtin_expect(l->attribute_count || loaded->info.parameter_bytes > PARAMETERS_ON_STACK || heed, 0))
        return launch_with_care(s, l, loaded, heed);
    return launch_send(s, l, loaded);
}

/* As launch_with_care does it. */
static int launch_in_graph(struct client_stream *s, const struct op_launch *launch)
{
    const struct softgpu_graph graph = { .executable = launch->executable, .current = launch->current };
    bool comes;
    int code = managed_launch_begins(s, &comes);
    if (!code)
        code = texrefs_before_launch();
    code = code ? code : launch_send_whole(s, launch->launch, launch->loaded, &graph);
    managed_work_sent(comes);
    if (mirror_heeded())
        mirror_work_sent();
    return code;
}

int launch_op(struct client_stream *s, const struct op *op)
{
    if (op->launch.executable)
        return launch_in_graph(s, &op->launch);
    return launch_now(s, op->launch.launch, op->launch.loaded);
}

int core_launch_in_graph(core_context *c, const struct core_launch *l, uint64_t executable, bool current)
{
    CANCEL_DEFERRED;
    struct op op = { .kind = OP_LAUNCH, .launch = { .launch = l, .executable = executable, .current = current } };
    struct loaded_function *loaded;
    struct client_stream *s;
    int code = function_enter(c, l->function, &loaded);
    if (code || (code = client_stream_find(c, l->stream, &s)))
        return code;
    if (s->context != c)
        return CORE_INVALID_HANDLE;
    op.launch.loaded = loaded;
    code = check(c, l, loaded);
    return code ? code : op_submit(s, &op);
}

int core_launch(core_context *c, const struct core_launch *l)
{
    CANCEL_DEFERRED;
    struct loaded_function *loaded;
    struct client_stream *s;
    int code = function_enter(c, l->function, &loaded);
    if (code || (code = client_stream_find(c, l->stream, &s)))
        return code;
    if (s->context != c)
        return CORE_INVALID_HANDLE;           /* a stream of another context */
    if ((code = check(c, l, loaded)))
        return code;
    /* Most operations are launches: where nothing records them, they go on without the table. */
    if (__builtin_expect(stream_recorder(s) != NULL, 0))
        return op_submit(s, &(struct op){ .kind = OP_LAUNCH, .launch = { .launch = l, .loaded = loaded } });
    return launch_now(s, l, loaded);
}
