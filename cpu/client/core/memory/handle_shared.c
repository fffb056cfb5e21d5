/*
 * handle_shared.c: handles of several programs: one exports a handle as a descriptor, the others import it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/cancel.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/stream/early_return.h"
#include "cpu/client/core/stream/move_written.h"
#include "handle_state.h"
#include "share.h"
#include "cpu/client/core/wire/state.h"

uint64_t handle_shares(void) { return atomic_load(&handle_share_count); }

struct looking { const char *share; bool found; };

static void look_at(void *object, id_token token, void *context)
{
    const struct physical *physical = object;
    struct looking *looking = context;
    (void)token;
    looking->found |= physical->named_there && !physical->imported &&
                      memcmp(physical->share, looking->share, sizeof physical->share) == 0;
}

bool handle_share_known(const char *share)
{
    struct looking looking = { share, false };
    pthread_mutex_lock(&handle_lock);
    if (handle_wires)
        id_table_each(handle_wires, look_at, &looking);
    pthread_mutex_unlock(&handle_lock);
    return looking.found;
}

int physical_share(struct physical *physical)
{
    handle_export_args args = { .handle = physical->wire };
    export_result result = { 0 };
    if (physical->named_there)
        return CORE_OK;
    early_return_stop();
    move_written_by_others();
    int code = wire_call(&core_session, FLYT_HANDLE_EXPORT, (xdrproc_t)xdr_handle_export_args, &args,
                         (xdrproc_t)xdr_export_result,
                         &result);
    if (!code) {
        memcpy(physical->share, result.share, sizeof physical->share);
        physical->named_there = true;
        atomic_fetch_add(&handle_share_count, 1);
    }
    xdr_free((xdrproc_t)xdr_export_result, &result);
    return code;
}

/* A descriptor that names it, and keeps it. What was imported is the other program's to keep. */
static int describe(struct physical *physical, int *fd)
{
    int watch = -1, *watches;
    physical_described(physical);                 /* forgets those that were closed */
    int code = share_note_make(physical->share, SHARE_NOTE_HANDLE, fd, physical->imported ? NULL : &watch);
    if (code || watch < 0)
        return code;
    if (!(watches = realloc(physical->watches, (physical->watch_count + 1) * sizeof *watches))) {
        close(watch);
        close(*fd);
        return CORE_OUT_OF_MEMORY;
    }
    physical->watches = watches;
    physical->watches[physical->watch_count++] = watch;
    return CORE_OK;
}

int core_handle_export(core_handle handle, int *fd)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&handle_lock);
    kept_look();
    struct physical *physical = physical_find(handle);
    code = physical && physical->shared ? physical_share(physical) : CORE_INVALID_VALUE;
    if (!code)
        code = describe(physical, fd);
    pthread_mutex_unlock(&handle_lock);
    return code;
}

/* The device of this process that the server means. -1: the program does not see it. */
static int device_by_wire(int wire)
{
    for (int i = 0; i < device_count(); i++)
        if (client_device_find(i)->wire == wire)
            return i;
    return -1;
}

static int import_there(const char *share, struct physical *physical, struct handle_range *range)
{
    handle_import_args args = { 0 };
    import_result result = { 0 };
    int code = wire_take(physical);
    if (code)
        return code;
    early_return_stop();
    move_written_by_others();
    args.handle = physical->wire;
    memcpy(args.share, share, sizeof args.share);
    code = wire_call(&core_session, FLYT_HANDLE_IMPORT, (xdrproc_t)xdr_handle_import_args, &args,
                     (xdrproc_t)xdr_import_result,
                     &result);
    *range = (struct handle_range){ device_by_wire(result.device), result.offset, result.length };
    physical->size = result.size;
    physical->device = range->device;
    if (code)
        wire_give(physical);
    xdr_free((xdrproc_t)xdr_import_result, &result);
    return code;
}

struct physical *physical_import(const char *share, struct handle_range *range, int *code)
{
    struct physical *physical = calloc(1, sizeof *physical);
    if (!physical) {
        *code = CORE_OUT_OF_MEMORY;
        return NULL;
    }
    *physical = (struct physical){ .shared = true, .imported = true };
    memcpy(physical->share, share, sizeof physical->share);
    if ((*code = import_there(share, physical, range))) {
        free(physical);
        return NULL;
    }
    physical->named_there = true;
    atomic_fetch_add(&handle_share_count, 1);
    if (physical->device >= 0)
        return physical;
    physical_drop(physical);
    *code = CORE_INVALID_DEVICE;
    return NULL;
}

int core_handle_import(int fd, core_handle *out)
{
    CANCEL_DEFERRED;
    char share[FLYT_SHARE_SIZE];
    struct handle_range range;
    int code = core_enter();
    if (!code)
        code = core_share_check();
    if (!code)
        code = share_note_read(fd, SHARE_NOTE_HANDLE, share);
    if (code)
        return code;
    pthread_mutex_lock(&handle_lock);
    kept_look();
    struct physical *physical = physical_import(share, &range, &code);
    if (physical)
        code = physical_name(physical, out);
    pthread_mutex_unlock(&handle_lock);
    return code;
}

bool handle_share_lives(const char *share)
{
    struct handle_range range;
    int code = CORE_OK;
    pthread_mutex_lock(&handle_lock);
    struct physical *physical = physical_import(share, &range, &code);
    if (physical)
        physical_drop(physical);
    pthread_mutex_unlock(&handle_lock);
    return code != CORE_INVALID_VALUE;
}
