/*
 * handle_chunk.c: memory of pools: handles that are mapped at a place of their own (memory.h). The program sees neither
 * the handle nor the mapping.
 */
#include <string.h>

#include "handle_state.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/wire/state.h"

int handle_chunk_make(int device, uint64_t size, const struct rights *others, struct handle_chunk *out)
{
    int code = CORE_OUT_OF_MEMORY;
    pthread_mutex_lock(&handle_lock);
    uint64_t address = size <= core_session.window_size ? addresses_take(0, size, core_session.granularity) : 0;
    struct physical *physical = address ? physical_create(device, size, &code) : NULL;
    if (physical) {
        physical->chunk_rights = *others;
        rights_note(&physical->chunk_rights, device, ACCESS_READ_WRITE);
    }
    if (physical && (code = mapping_ask_with(physical, address, &physical->chunk_rights))) {
        physical_drop(physical);
        physical = NULL;
    }
    if (physical)
        physical->mappings = 1, physical->chunk_at = address;
    else if (address)
        window_give(address, size);
    pthread_mutex_unlock(&handle_lock);
    *out = (struct handle_chunk){ address, size, physical };
    return code;
}

int handle_chunk_access(struct handle_chunk *chunk, int device, unsigned access)
{
    pthread_mutex_lock(&handle_lock);
    int code = access_ask(chunk->address, chunk->size, device, access);
    if (!code)
        rights_note(&chunk->of->chunk_rights, device, access);
    pthread_mutex_unlock(&handle_lock);
    return code;
}

void handle_chunk_end(struct handle_chunk *chunk)
{
    pthread_mutex_lock(&handle_lock);
    mapping_end(physical_session(chunk->of), chunk->address, chunk->size);
    window_give(chunk->address, chunk->size);
    chunk->of->mappings--;
    physical_drop(chunk->of);
    pthread_mutex_unlock(&handle_lock);
}

int handle_chunk_share(struct handle_chunk *chunk, char *share)
{
    pthread_mutex_lock(&handle_lock);
    int code = physical_share(chunk->of);
    if (!code)
        memcpy(share, chunk->of->share, sizeof chunk->of->share);
    pthread_mutex_unlock(&handle_lock);
    return code;
}

int handle_chunk_import(const char *share, struct handle_chunk *out, struct handle_range *range)
{
    int code = CORE_OUT_OF_MEMORY;
    pthread_mutex_lock(&handle_lock);
    struct physical *physical = physical_import(share, range, &code);
    uint64_t address = physical ? addresses_take(0, physical->size, core_session.granularity) : 0;
    if (physical)
        rights_note(&physical->chunk_rights, physical->device, ACCESS_READ_WRITE);
    if (physical && !address)
        code = CORE_OUT_OF_MEMORY;
    else if (physical)
        code = mapping_ask_with(physical, address, &physical->chunk_rights);
    if (physical && !code)
        *out = (struct handle_chunk){ address, physical->size, physical };
    else if (address)
        window_give(address, physical->size);
    if (physical && code)
        physical_drop(physical);
    else if (physical)
        physical->mappings = 1, physical->chunk_at = address;
    pthread_mutex_unlock(&handle_lock);
    return code;
}
