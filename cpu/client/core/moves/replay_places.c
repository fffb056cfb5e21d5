/* replay_places.c: see replay_places.h. Without memory, or where nothing is known, the server chooses: the answers are
   compared. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_errors.h"
#include "replay_places.h"

/* Of the arguments, which begin with ids. */
static uint32_t word_of(const struct journal_entry *entry, unsigned number)
{
    uint32_t word = UINT32_MAX;
    if (entry->size >= (number + 1) * sizeof word)
        memcpy(&word, journal_bytes_of(entry) + number * sizeof word, sizeof word);
    return ntohl(word);
}

/* Its kept bytes, behind the head; NULL: it was not answered well, or they were not kept. */
static const uint8_t *answered_with(const struct journal_entry *sent, size_t least)
{
    struct journal_answer answer;
    const struct journal_entry *entry = sent;
    while ((entry = journal_next(entry)) && !(entry->kind == JOURNAL_ANSWERED && entry->xid == sent->xid))
        continue;
    if (!entry)
        return NULL;
    memcpy(&answer, journal_bytes_of(entry), sizeof answer);
    if (answer.status != RPC_SUCCESS || answer.result != CORE_OK || answer.body < least || answer.body > JOURNAL_KEPT)
        return NULL;
    return journal_bytes_of(entry) + sizeof answer + answer.progress * sizeof(struct journal_progress);
}

static uint64_t number_at(const uint8_t *bytes)
{
    uint32_t half[2];
    memcpy(half, bytes, sizeof half);
    return (uint64_t)ntohl(half[0]) << 32 | ntohl(half[1]);
}

/* ---- modules ---- */

static struct placed_module *module_at(struct replay_places *p, flyt_id id)
{
    const size_t count = (size_t)id + 64;
    if (id < p->count)
        return &p->modules[id];
    struct placed_module *more = id < UINT32_MAX ? realloc(p->modules, count * sizeof *more) : NULL;
    if (!more)
        return NULL;
    memset(more + p->count, 0, (count - p->count) * sizeof *more);
    p->modules = more;
    p->count = count;
    return &p->modules[id];
}

static void context_ends(struct replay_places *p, flyt_id context)
{
    for (size_t i = 0; i < p->count; i++)
        p->modules[i].loaded = p->modules[i].loaded && p->modules[i].context != context;
}

/* The program's side asked where it was, right after it had been loaded. */
static bool module_place(struct replay_places *p, const struct journal_entry *load, place_args *args)
{
    const flyt_id id = word_of(load, 0);
    const struct journal_entry *entry = load;
    while ((entry = journal_next(entry)) &&
           !(entry->kind == JOURNAL_SENT && entry->procedure == FLYT_MODULE_PLACE && word_of(entry, 0) == id))
        if (entry->kind == JOURNAL_SENT && word_of(entry, 0) == id &&
            (entry->procedure == FLYT_MODULE_UNLOAD || entry->procedure == FLYT_MODULE_LOAD))
            return false;
    const uint8_t *bytes = entry ? answered_with(entry, sizeof(uint32_t)) : NULL;
    uint32_t count = 0;
    if (bytes)
        memcpy(&count, bytes, sizeof count);
    count = ntohl(count);
    if (!count || count > FLYT_MAX_PLACE || !answered_with(entry, sizeof count + count * sizeof(uint64_t)))
        return false;
    for (uint32_t i = 0; i < count; i++)
        p->numbers[i] = number_at(bytes + sizeof count + i * sizeof(uint64_t));
    *args = (place_args){ .context = word_of(load, 1), .kind = FLYT_PLACE_MODULE, .numbers = { count, p->numbers } };
    return true;
}

/* A module that is loaded already is only asked about. */
static bool module_loads(struct replay_places *p, const struct journal_entry *load, place_args *args)
{
    struct placed_module *module = module_at(p, word_of(load, 0));
    if (!module || module->loaded || !answered_with(load, 0))
        return false;
    *module = (struct placed_module){ true, word_of(load, 1) };
    return module_place(p, load, args);
}

/* ---- the others ---- */

static bool object_place(struct replay_places *p, const struct journal_entry *made, int kind, place_args *args)
{
    const uint8_t *bytes = answered_with(made, sizeof(uint64_t));
    if (!bytes)
        return false;
    p->numbers[0] = number_at(bytes);
    *args = (place_args){ .context = p->context, .kind = kind, .numbers = { 1, p->numbers } };
    return true;
}

bool replay_place_find(struct replay_places *p, const struct journal_entry *entry, place_args *args)
{
    struct placed_module *module;
    switch (entry->procedure) {
    case FLYT_CONTEXT_RESET:
    case FLYT_CONTEXT_RELEASE:
    case FLYT_CONTEXT_DESTROY: context_ends(p, word_of(entry, 0)); return false;
    case FLYT_MODULE_UNLOAD:
        if ((module = module_at(p, word_of(entry, 0))))
            module->loaded = false;
        return false;
    case FLYT_MODULE_LOAD: return module_loads(p, entry, args);
    case FLYT_MIPMAPPED_ARRAY_GET_LEVEL: return object_place(p, entry, FLYT_PLACE_ARRAY, args);
    case FLYT_ARRAY3D_CREATE:
        p->context = word_of(entry, 0);
        return object_place(p, entry, FLYT_PLACE_ARRAY, args);
    case FLYT_MIPMAPPED_ARRAY_CREATE:
        p->context = word_of(entry, 0);
        return object_place(p, entry, FLYT_PLACE_MIPMAP, args);
    case FLYT_TEX_OBJECT_CREATE:
        p->context = word_of(entry, 0);
        return object_place(p, entry, FLYT_PLACE_TEXTURE, args);
    case FLYT_SURF_OBJECT_CREATE:
        p->context = word_of(entry, 0);
        return object_place(p, entry, FLYT_PLACE_SURFACE, args);
    default: return false;
    }
}

void replay_places_close(struct replay_places *p) { free(p->modules); }
