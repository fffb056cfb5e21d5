/*
 * share.c: memory of other processes, as cuIpcOpenMemHandle opens it. What a handle names is exported by that process
 * (share_export.c), and imported here as a handle that is mapped at a place of its own (handle.c).
 */
#include "share.h"

#include <endian.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/forward/core.h"
#include "cpu/common/cancel.h"
#include "cpu/common/tree.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/wire/device.h"
#include "memory.h"
#include "windows.h"
#include "cpu/client/core/wire/state.h"

struct imported {
    struct tree_node node;                    /* key: the address that the program has */
    core_context *context;
    struct handle_chunk chunk;
    char share[FLYT_SHARE_SIZE];
    unsigned opened;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;       /* also while the server is asked */
static struct tree imports;
static atomic_uint_fast64_t import_count;

uint64_t share_count(void) { return share_exports() + atomic_load(&import_count) + handle_shares(); }

static struct imported *import_find(const core_context *c, const char *share)
{
    for (struct tree_node *node = tree_first(&imports); node; node = tree_next(&imports, node)) {
        struct imported *imported = TREE_OBJECT(node, struct imported, node);
        if (imported->context == c && memcmp(imported->share, share, sizeof imported->share) == 0)
            return imported;
    }
    return NULL;
}

/* For the devices that peer access lets use the context's memory (peer.c). */
static int peers_let_in(const core_context *c, struct handle_chunk *chunk)
{
    uint64_t devices = atomic_load(&c->reached_by);
    int code = CORE_OK;
    for (int device = 0; device < device_count() && !code; device++)
        if (devices >> device & 1)
            code = handle_chunk_access(chunk, device, ACCESS_READ_WRITE);
    return code;
}

int share_peer_access(core_context *owner, int device, unsigned access)
{
    int code = CORE_OK;
    pthread_mutex_lock(&lock);
    for (struct tree_node *node = tree_first(&imports); node; node = tree_next(&imports, node)) {
        struct imported *imported = TREE_OBJECT(node, struct imported, node);
        int set = imported->context == owner ? handle_chunk_access(&imported->chunk, device, access) : CORE_OK;
        code = code ? code : set;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

int share_reach(core_context *c, struct handle_chunk *chunk, int owner)
{
    int can = 0;
    int code = core_device_can_access_peer(&can, c->device, owner);
    if (!code && !can)
        code = CORE_PEER_ACCESS_UNSUPPORTED;
    return code ? code : handle_chunk_access(chunk, c->device, ACCESS_READ_WRITE);
}

static int import_make(core_context *c, const char *share, struct imported **out)
{
    struct handle_range range;
    struct imported *imported = calloc(1, sizeof *imported);
    if (!imported)
        return CORE_OUT_OF_MEMORY;
    int code = handle_chunk_import(share, &imported->chunk, &range);
    if (code) {
        free(imported);
        return code;
    }
    uint64_t address = imported->chunk.address + range.offset;
    bool sound = range.offset < imported->chunk.size && range.length <= imported->chunk.size - range.offset;
    code = !sound ? CORE_INVALID_VALUE : range.device != c->device ? share_reach(c, &imported->chunk, range.device)
                                                                   : peers_let_in(c, &imported->chunk);
    if (!code)
        code = address_add_imported(c, range.device, address, range.length);
    if (code) {
        handle_chunk_end(&imported->chunk);
        free(imported);
        return code;
    }
    imported->node.key = address;
    imported->context = c;
    memcpy(imported->share, share, sizeof imported->share);
    tree_insert(&imports, &imported->node);
    atomic_fetch_add(&import_count, 1);
    *out = imported;
    return CORE_OK;
}

static atomic_bool moved;

void share_has_moved(void) { atomic_store(&moved, true); }

/* The session of this process stands first in what it exports. Two sessions of two servers may have the same number. */
bool share_is_own(const char *share)
{
    uint64_t own = htobe64(session_number());
    return (!atomic_load(&moved) && memcmp(share, &own, sizeof own) == 0) || share_range_known(share) ||
           handle_share_known(share);
}

int core_ipc_memory_open(core_context *c, const void *handle, uint64_t *address)
{
    CANCEL_DEFERRED;
    struct ipc_handle read;
    memcpy(&read, handle, sizeof read);
    uint64_t at = 0;
    int code = context_enter(c);
    if (!code)
        code = core_share_check();
    if (code)
        return code;
    if (memcmp(read.words, IPC_WORDS, sizeof read.words) != 0)
        return CORE_INVALID_VALUE;
    if (share_is_own(read.share))
        return CORE_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    struct imported *imported = import_find(c, read.share);
    if (!imported)
        code = import_make(c, read.share, &imported);
    if (!code) {
        imported->opened++;
        at = imported->node.key;
    }
    pthread_mutex_unlock(&lock);
    if (!code)
        *address = at;
    return code;
}

static void import_end(struct imported *imported)
{
    tree_remove(&imports, &imported->node);
    handle_chunk_end(&imported->chunk);
    atomic_fetch_sub(&import_count, 1);
    free(imported);
}

int core_ipc_memory_close(uint64_t address)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    struct imported *imported = TREE_OBJECT(tree_at_or_above(&imports, address, 0), struct imported, node);
    if (!imported || imported->node.key != address) {
        code = CORE_INVALID_VALUE;
    } else if (!--imported->opened) {
        address_remove(CORE_DEVICE_MEMORY, address, NULL);
        windows_end_in(address, imported->chunk.size);
        code = memory_settle(NULL);
        import_end(imported);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

void share_forget_context(core_context *c)
{
    struct tree_node *next;
    share_exports_forget(c);
    pthread_mutex_lock(&lock);
    for (struct tree_node *node = tree_first(&imports); node; node = next) {
        struct imported *imported = TREE_OBJECT(node, struct imported, node);
        next = tree_next(&imports, node);
        if (imported->context == c)
            import_end(imported);
    }
    pthread_mutex_unlock(&lock);
}
