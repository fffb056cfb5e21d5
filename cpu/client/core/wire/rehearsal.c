/* rehearsal.c: see rehearsal.h. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_errors.h"
#include "rehearsal.h"

enum { PLACES = FLYT_PLACE_HEAP + 1 };

atomic_bool rehearsal_runs;

static struct {
    pthread_t thread;                 /* while it runs */
    const char *why;                  /* it failed; NULL: not yet */
    uint32_t calls;
    uint64_t place[PLACES];           /* by enum flyt_place: what the last PLACE said */
    const flyt_symbol *symbols;
    const struct journal_stored *stored;
} rehearsal;

bool rehearsal_is_own(void) { return pthread_equal(rehearsal.thread, pthread_self()); }

void rehearsal_begin(void)
{
    memset(&rehearsal, 0, sizeof rehearsal);
    rehearsal.thread = pthread_self();
    atomic_store(&rehearsal_runs, true);
}

const char *rehearsal_end(void)
{
    atomic_store(&rehearsal_runs, false);
    return rehearsal.why;
}

static int fails(const char *why)
{
    if (!rehearsal.why)
        rehearsal.why = why;
    return CORE_NOT_SUPPORTED;
}

void rehearsal_stored(const struct journal_stored *stored) { rehearsal.stored = stored; }

void rehearsal_symbols(const flyt_symbol *symbols) { rehearsal.symbols = symbols; }

/* ---- what is written down ---- */

static bool put(XDR *xdr, xdrproc_t encode, void *value)
{
    return !encode || encode(xdr, value);
}

/* The call's arguments. */
static bool note(const struct rpc_call *call, uint32_t xid)
{
    const size_t size = call->encode ? xdr_sizeof(call->encode, call->args) : 0;
    const struct journal_stored *stored = rehearsal.stored;
    uint8_t *room = journal_draft_add(stored ? JOURNAL_STORED : JOURNAL_SENT, call->procedure, xid,
                                      (stored ? sizeof *stored : 0) + size);
    XDR xdr;
    rehearsal.stored = NULL;
    if (!room)
        return false;
    if (stored) {
        memcpy(room, stored, sizeof *stored);
        room += sizeof *stored;
    }
    xdrmem_create(&xdr, (char *)room, (u_int)size, XDR_ENCODE);
    return put(&xdr, call->encode, call->args);
}

static void place_note(const place_args *args)
{
    if (args->kind >= 0 && args->kind < PLACES && args->numbers.numbers_len)
        rehearsal.place[args->kind] = args->numbers.numbers_val[0];
}

int rehearsal_send(struct rpc_call *call)
{
    if (rehearsal.why)
        return CORE_NOT_SUPPORTED;
    if (call->procedure == FLYT_PLACE)
        place_note(call->args);
    return note(call, ++rehearsal.calls) ? CORE_OK : fails("its journal has no room for what it would begin with");
}

/* ---- answers ---- */

static bool symbols_fill(const module_load_args *args, module_load_result *result)
{
    const u_int count = args->symbols.symbols_len;
    flyt_symbol *symbols = calloc(count + 1, sizeof *symbols);
    if (!symbols || (count && !rehearsal.symbols)) {
        free(symbols);
        return false;
    }
    if (count)
        memcpy(symbols, rehearsal.symbols, count * sizeof *symbols);
    result->symbols.symbols_len = count;
    result->symbols.symbols_val = symbols;
    rehearsal.symbols = NULL;
    return true;
}

/* The result is all zeros. *any: a server may give other values behind the head. False: what a server would have to say
   is not known. */
static bool answer_fill(const struct rpc_call *call, bool *any)
{
    void *result = call->result;
    switch (call->procedure) {
    case FLYT_MAP: ((map_result *)result)->size = ((const map_args *)call->args)->size; return true;
    case FLYT_LIMIT_SET: ((limit_result *)result)->value = ((const limit_args *)call->args)->value; return true;
    case FLYT_MODULE_LOAD: return symbols_fill(call->args, result);
    case FLYT_ARRAY3D_CREATE:
        ((array3d_create_result *)result)->pHandle = rehearsal.place[FLYT_PLACE_ARRAY];
        return true;
    case FLYT_MIPMAPPED_ARRAY_CREATE:
        ((mipmapped_array_create_result *)result)->pHandle = rehearsal.place[FLYT_PLACE_MIPMAP];
        return true;
    case FLYT_MIPMAPPED_ARRAY_GET_LEVEL:
        ((mipmapped_array_get_level_result *)result)->pLevelArray = rehearsal.place[FLYT_PLACE_ARRAY];
        return true;
    case FLYT_TEX_OBJECT_CREATE:
        ((tex_object_create_result *)result)->pTexObject = rehearsal.place[FLYT_PLACE_TEXTURE];
        return true;
    case FLYT_SURF_OBJECT_CREATE:
        ((surf_object_create_result *)result)->pSurfObject = rehearsal.place[FLYT_PLACE_SURFACE];
        return true;
    case FLYT_IMAGE:
    case FLYT_FUNCTION_GET: *any = true; return true;
    default: return call->decode == (xdrproc_t)xdr_plain_result;
    }
}

static bool answer_note(const struct rpc_call *call, uint32_t xid, bool any)
{
    const size_t size = xdr_sizeof(call->decode, call->result);
    uint8_t *body = malloc(size + 1);
    XDR xdr;
    if (!body)
        return false;
    xdrmem_create(&xdr, (char *)body, (u_int)size, XDR_ENCODE);
    bool noted = put(&xdr, call->decode, call->result) && journal_draft_answer(call->procedure, xid, body, size, any);
    free(body);
    return noted;
}

static int answer(struct rpc_call *call)
{
    const uint32_t xid = ++rehearsal.calls;
    bool any = false;
    if (rehearsal.why)
        return CORE_NOT_SUPPORTED;
    if (!answer_fill(call, &any))
        return fails("it has an object for which no checkpoint is known");
    if (!note(call, xid) || !answer_note(call, xid, any))
        return fails("its journal has no room for what it would begin with");
    return CORE_OK;
}

void rehearsal_call(struct rpc_call *call)
{
    int code = answer(call);
    ((flyt_head *)call->result)->result = code;
    call->status = RPC_SUCCESS;
    call->complete = true;
}
