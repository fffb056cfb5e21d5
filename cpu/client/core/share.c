/*
 * share.c: memory of this program for others, and theirs for this one, as cuIpc… names it: by 64 bytes. Handles are
 * exported by files (handle.c); what stands in these is here, too.
 *
 * The server names what is exported by random bytes (FLYT_SHARE_SIZE), which only a program of the same server can use.
 * So neither the files nor the handles need to be checked here beyond their form.
 */
#include "share.h"

#include <endian.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/common/cancel.h"
#include "cpu/common/fd.h"
#include "cpu/common/tree.h"
#include "context.h"
#include "early_return.h"
#include "memory.h"
#include "state.h"
#include "wire.h"

int core_share_check(void)
{
    int code = core_enter();
    if (!code && !(core_session.hello.capabilities & FLYT_CAP_SHARES)) {
        core_unsupported("memory for other processes (the GPU server is in this process, or has no such GPU)");
        code = CORE_NOT_SUPPORTED;
    }
    return code;
}

/* ---- files ---- */

#define NOTE_WORDS "Flyt: memory 1\n"
struct note { char words[sizeof NOTE_WORDS - 1]; uint8_t kind; char share[FLYT_SHARE_SIZE]; };
enum { NOTE_SEALS = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

int share_note_make(const char *share, enum share_note kind, int *out)
{
    struct note note = { .words = NOTE_WORDS, .kind = (uint8_t)kind };
    memcpy(note.share, share, sizeof note.share);
    int fd = fd_keep(memfd_create("flyt-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0)
        return CORE_OPERATING_SYSTEM;
    if (write(fd, &note, sizeof note) != sizeof note || fcntl(fd, F_ADD_SEALS, NOTE_SEALS) != 0) {
        close(fd);
        return CORE_OPERATING_SYSTEM;
    }
    *out = fd;
    return CORE_OK;
}

/* Only files in memory have seals, so reading one waits for nobody, and nobody changes it meanwhile. */
int share_note_read(int fd, enum share_note kind, char *share)
{
    struct note note;
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & NOTE_SEALS) != NOTE_SEALS || fstat(fd, &status) != 0 || status.st_size != sizeof note ||
        pread(fd, &note, sizeof note, 0) != sizeof note || note.kind != kind ||
        memcmp(note.words, NOTE_WORDS, sizeof note.words) != 0)
        return CORE_INVALID_VALUE;
    memcpy(share, note.share, sizeof note.share);
    return CORE_OK;
}

/* ---- handles of 64 bytes ---- */

#define IPC_WORDS "Flyt: shared 1\n"
struct ipc_handle { char words[sizeof IPC_WORDS - 1]; char share[FLYT_SHARE_SIZE]; char unused[17]; };
_Static_assert(sizeof(struct ipc_handle) == CORE_IPC_SIZE, "as CUDA has it");

struct exported { struct tree_node node; uint64_t id; core_context *context; char share[FLYT_SHARE_SIZE]; };
struct imported {
    struct tree_node node;                    /* key: the address that the program has */
    core_context *context;
    struct handle_chunk chunk;
    char share[FLYT_SHARE_SIZE];
    unsigned opened;
};

/* Also held while the server is asked. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tree exports, imports;          /* struct exported, by the allocation's base; struct imported */
static atomic_uint_fast64_t export_count, import_count;
static atomic_bool ever;

uint64_t share_count(void) { return atomic_load(&export_count) + atomic_load(&import_count) + handle_shares(); }
bool share_any(void) { return atomic_load_explicit(&ever, memory_order_relaxed); }

void share_begin(void)
{
    if (!atomic_exchange(&ever, true))
        early_return_settle_others(NULL);
}

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
    wire_send(FLYT_SHARE_END, (xdrproc_t)xdr_share_end_args, &args);
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
    share_begin();
    int code = wire_call(FLYT_MEMORY_EXPORT, (xdrproc_t)xdr_memory_export_args, &args,
                         (xdrproc_t)xdr_export_result, &result);
    if (code) {
        free(exported);
        return code;
    }
    exported->node.key = range->base;
    exported->id = range->id;
    exported->context = range->context;
    memcpy(exported->share, result.share, sizeof exported->share);
    xdr_free((xdrproc_t)xdr_export_result, &result);
    tree_insert(&exports, &exported->node);
    atomic_fetch_add(&export_count, 1);
    *out = exported;
    return CORE_OK;
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

static struct imported *import_find(const core_context *c, const char *share)
{
    for (struct tree_node *node = tree_first(&imports); node; node = tree_next(&imports, node)) {
        struct imported *imported = TREE_OBJECT(node, struct imported, node);
        if (imported->context == c && memcmp(imported->share, share, sizeof imported->share) == 0)
            return imported;
    }
    return NULL;
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
    if (range.device != c->device)
        code = CORE_PEER_ACCESS_UNSUPPORTED;
    else
        code = sound ? address_add_imported(c, address, range.length) : CORE_INVALID_VALUE;
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

/* The session of this process stands first in what it exports. */
static bool exported_here(const char *share)
{
    uint64_t own = htobe64(core_session.hello.session);
    return memcmp(share, &own, sizeof own) == 0;
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
    if (exported_here(read.share))
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
        code = memory_settle(NULL);
        import_end(imported);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

void share_forget_context(core_context *c)
{
    struct tree_node *next;
    pthread_mutex_lock(&lock);
    for (struct tree_node *node = tree_first(&exports); node; node = next) {
        struct exported *exported = TREE_OBJECT(node, struct exported, node);
        next = tree_next(&exports, node);
        if (exported->context == c)
            export_end(exported);             /* the server's part went with its memory */
    }
    for (struct tree_node *node = tree_first(&imports); node; node = next) {
        struct imported *imported = TREE_OBJECT(node, struct imported, node);
        next = tree_next(&imports, node);
        if (imported->context == c)
            import_end(imported);
    }
    pthread_mutex_unlock(&lock);
}
