/*
 * share_export.c: allocations of this program for other processes, as cuIpcGetMemHandle names them: by 64 bytes. The
 * server names what is exported by random bytes (FLYT_SHARE_SIZE), which only a program of the same server can use.
 */
#include "share.h"

#include <endian.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/cancel.h"
#include "cpu/common/tree.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/stream/early_return.h"
#include "cpu/client/core/stream/move_written.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

struct exported {
    struct tree_node node;                    /* key: the allocation's base */
    uint64_t id, size;                        /* of its range in the address map */
    core_context *context;
    char share[FLYT_SHARE_SIZE];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;       /* also while the server is asked */
static struct tree exports;
static atomic_uint_fast64_t export_count;

uint64_t share_exports(void) { return atomic_load(&export_count); }

static void export_end(struct exported *exported)
{
    tree_remove(&exports, &exported->node);
    atomic_fetch_sub(&export_count, 1);
    free(exported);
}

static struct exported *export_at(uint64_t base)
{
    struct exported *found = TREE_OBJECT(tree_at_or_above(&exports, base, 0), struct exported, node);
    return found && found->node.key == base ? found : NULL;
}

static void end_there(const struct exported *exported)
{
    share_end_args args;
    memcpy(&args.number, exported->share + 8, sizeof args.number);
    args.number = be64toh(args.number);
    wire_send(&core_session, FLYT_SHARE_END, (xdrproc_t)xdr_share_end_args, &args);
}

void share_freed(uint64_t base)
{
    if (!atomic_load(&export_count))
        return;
    pthread_mutex_lock(&lock);
    struct exported *exported = export_at(base);
    if (exported) {
        end_there(exported);
        export_end(exported);
    }
    pthread_mutex_unlock(&lock);
}

static int export_make(const struct core_range *range, struct exported **out)
{
    memory_export_args args = { .address = range->base, .size = range->size };
    export_result result = { 0 };
    struct exported *exported = calloc(1, sizeof *exported);
    if (!exported)
        return CORE_OUT_OF_MEMORY;
    early_return_stop();
    move_written_by_others();
    int code = wire_call(&core_session, FLYT_MEMORY_EXPORT, (xdrproc_t)xdr_memory_export_args, &args,
                         (xdrproc_t)xdr_export_result, &result);
    if (code) {
        free(exported);
        return code;
    }
    exported->node.key = range->base;
    exported->id = range->id;
    exported->size = range->size;
    exported->context = range->context;
    memcpy(exported->share, result.share, sizeof exported->share);
    xdr_free((xdrproc_t)xdr_export_result, &result);
    tree_insert(&exports, &exported->node);
    atomic_fetch_add(&export_count, 1);
    *out = exported;
    return CORE_OK;
}

void share_ranges_each(void (*visit)(const struct share_range *, void *context), void *context)
{
    pthread_mutex_lock(&lock);
    for (struct tree_node *node = tree_first(&exports); node; node = tree_next(&exports, node)) {
        const struct exported *exported = TREE_OBJECT(node, struct exported, node);
        struct share_range range = { .address = exported->node.key, .size = exported->size };
        memcpy(range.share, exported->share, sizeof range.share);
        visit(&range, context);
    }
    pthread_mutex_unlock(&lock);
}

bool share_range_known(const char *share)
{
    bool known = false;
    pthread_mutex_lock(&lock);
    for (struct tree_node *node = tree_first(&exports); node && !known; node = tree_next(&exports, node))
        known = memcmp(TREE_OBJECT(node, struct exported, node)->share, share, FLYT_SHARE_SIZE) == 0;
    pthread_mutex_unlock(&lock);
    return known;
}

bool core_ipc_capable(const struct core_range *range)
{
    return range->kind == CORE_DEVICE_MEMORY && !range->flags && core_session.hello.capabilities & FLYT_CAP_SHARES;
}

int core_ipc_memory_get(uint64_t address, void *handle)
{
    CANCEL_DEFERRED;
    struct core_range range;
    struct ipc_handle made = { .words = IPC_WORDS };
    int code = core_share_check();
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    bool good = core_address_lookup(address, &range) && core_ipc_capable(&range);
    struct exported *exported = good ? export_at(range.base) : NULL;
    if (exported && exported->id != range.id) {        /* it was freed a moment ago, and the address used again */
        end_there(exported);
        export_end(exported);
        exported = NULL;
    }
    if (!good)
        code = CORE_INVALID_VALUE;
    else if (!exported)
        code = export_make(&range, &exported);
    if (!code)
        memcpy(made.share, exported->share, sizeof made.share);
    pthread_mutex_unlock(&lock);
    if (!code)
        memcpy(handle, &made, sizeof made);
    return code;
}

void share_exports_forget(core_context *c)
{
    struct tree_node *next;
    pthread_mutex_lock(&lock);
    for (struct tree_node *node = tree_first(&exports); node; node = next) {
        struct exported *exported = TREE_OBJECT(node, struct exported, node);
        next = tree_next(&exports, node);
        if (exported->context == c)
            export_end(exported);             /* the server's part went with its memory */
    }
    pthread_mutex_unlock(&lock);
}
