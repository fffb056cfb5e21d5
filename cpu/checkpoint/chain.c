/*
 * chain.c: see chain.h. Of each file there is an index of its parts, in the order of what they are parts of. What a
 * file keeps of the one before is looked for there, and there again.
 */
#include "cpu/checkpoint/chain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct chain_entry {
    uint64_t object, offset, number, position;
    uint32_t kind, size;
    bool kept;                              /* by the file before */
};

/* A file. */
struct chain_level {
    struct checkpoint_reader *reader;
    const struct chain_level *twin_of;            /* whose entries these are; NULL: they are its own */
    struct chain_entry *entries;                  /* in the order of the file until it has been read */
    size_t count, room;
    struct { char name[128]; uint64_t objects; bool known; } kinds[CHECKPOINT_KINDS_MOST];
    char id[CHECKPOINT_ID_TEXT];
    char facts[CHECKPOINT_TEXT_MOST + 1];
    uint64_t shown;                         /* the frame that the reader holds; 0: none */
    struct checkpoint_frame frame;
};

struct checkpoint_chain {
    struct chain_level *levels[CHECKPOINT_CHAIN_MOST];
    unsigned count;
    bool sealed;
    bool own;                               /* files of this process, whose entries are sorted */
    uint8_t part[CHECKPOINT_PART_MOST];
};

struct checkpoint_chain *checkpoint_chain_new(void) { return calloc(1, sizeof(struct checkpoint_chain)); }
bool checkpoint_chain_sealed(const struct checkpoint_chain *chain) { return chain->sealed; }

static void level_free(struct chain_level *level)
{
    if (!level)
        return;
    checkpoint_reader_free(level->reader);
    if (!level->twin_of)
        free(level->entries);
    free(level);
}

void checkpoint_chain_free(struct checkpoint_chain *chain)
{
    for (unsigned i = 0; chain && i < chain->count; i++)
        level_free(chain->levels[i]);
    free(chain);
}

static int no_memory(char *why)
{
    snprintf(why, CHECKPOINT_WHY_SIZE, "no memory");
    return -ENOMEM;
}

/* ---- reading ---- */

/* own: the process leaves out files of which the later ones keep nothing. */
static int take_facts(struct chain_level *level, const struct chain_level *before, bool own,
                      const struct checkpoint_frame *facts, char *why)
{
    char base[CHECKPOINT_ID_TEXT] = "";
    memcpy(level->facts, facts->data, facts->size);
    if (!checkpoint_fact(facts, "id", level->id, sizeof level->id))
        *level->id = 0;
    const bool changes = checkpoint_fact(facts, "base", base, sizeof base);
    if (changes && own)
        return 0;
    if (changes && !before)
        snprintf(why, CHECKPOINT_WHY_SIZE, "it holds only the changes since checkpoint %s", base);
    else if (!changes && before)
        snprintf(why, CHECKPOINT_WHY_SIZE, "it holds no changes, but everything");
    else if (changes && strcmp(base, before->id) != 0)
        snprintf(why, CHECKPOINT_WHY_SIZE, "it holds the changes since checkpoint %s, and the file before it is %s",
                 base, *before->id ? before->id : "one without an id");
    else
        return 0;
    return -EINVAL;
}

static int take_kind(struct chain_level *level, const struct chain_level *before, const struct checkpoint_frame *frame,
                     char *why)
{
    char name[sizeof level->kinds->name];
    snprintf(name, sizeof name, "%.*s", (int)(frame->size < sizeof name - 1 ? frame->size : sizeof name - 1),
             (const char *)frame->data);
    if (before && before->kinds[frame->kind].known && strcmp(before->kinds[frame->kind].name, name) != 0) {
        snprintf(why, CHECKPOINT_WHY_SIZE, "it numbers kinds of objects in another way than the file before it");
        return -EINVAL;
    }
    memcpy(level->kinds[frame->kind].name, name, sizeof name);
    level->kinds[frame->kind].objects = frame->object;
    level->kinds[frame->kind].known = true;
    return 0;
}

static int take_part(struct chain_level *level, const struct checkpoint_frame *frame, bool own, char *why)
{
    if (frame->type == CHECKPOINT_PART && !frame->data && !own) {
        snprintf(why, CHECKPOINT_WHY_SIZE, "it is encrypted, and its key is needed");
        return -EACCES;
    }
    if (frame->offset + frame->size < frame->offset) {
        snprintf(why, CHECKPOINT_WHY_SIZE, "a part lies behind the end of all addresses");
        return -EPROTO;
    }
    if (level->count == level->room) {
        const size_t room = level->room ? 2 * level->room : 256;
        struct chain_entry *grown = reallocarray(level->entries, room, sizeof *grown);
        if (!grown)
            return no_memory(why);
        level->entries = grown;
        level->room = room;
    }
    level->entries[level->count++] = (struct chain_entry){ frame->object, frame->offset, frame->number, frame->position,
                                                     frame->kind, frame->size, frame->type == CHECKPOINT_KEPT };
    return 0;
}

static int take(struct checkpoint_chain *chain, struct chain_level *level, const struct chain_level *before,
                const struct checkpoint_frame *frame, char *why)
{
    switch (frame->type) {
    case CHECKPOINT_FACTS:
        return take_facts(level, before, chain->own, frame, why);
    case CHECKPOINT_KIND:
        return take_kind(level, before, frame, why);
    case CHECKPOINT_SEAL:
        chain->sealed = true;
        return 0;
    case CHECKPOINT_PART:
    case CHECKPOINT_KEPT:
        return take_part(level, frame, chain->own, why);
    default:
        return 0;
    }
}

static int compare(const struct chain_entry *a, const struct chain_entry *b)
{
    return a->kind != b->kind       ? (a->kind < b->kind ? -1 : 1)
           : a->object != b->object ? (a->object < b->object ? -1 : 1)
           : a->offset != b->offset ? (a->offset < b->offset ? -1 : 1)
                                    : 0;
}

static int in_order(const void *a, const void *b) { return compare(a, b); }

static struct chain_level *level_new(struct checkpoint_chain *chain, int fd)
{
    struct chain_level *level = chain->count < CHECKPOINT_CHAIN_MOST ? calloc(1, sizeof *level) : NULL;
    if (level && (level->reader = checkpoint_reader_new(fd)))
        return level;
    free(level);
    return NULL;
}

/* The level is used up. */
static int add(struct checkpoint_chain *chain, struct chain_level *level, char *why)
{
    const struct chain_level *before = chain->count ? chain->levels[chain->count - 1] : NULL;
    int (*next)(struct checkpoint_reader *, struct checkpoint_frame *, char *) =
        chain->own ? checkpoint_read_places : checkpoint_read;
    struct checkpoint_frame frame = { .type = CHECKPOINT_FACTS };
    int got;
    while ((got = next(level->reader, &frame, why)) == 1 && frame.type != CHECKPOINT_END)
        if ((got = take(chain, level, before, &frame, why)))
            break;
    if (got != 1) {
        level_free(level);
        return got;
    }
    chain->levels[chain->count++] = level;
    return 0;
}

int checkpoint_chain_add(struct checkpoint_chain *chain, int fd, const uint8_t *machine, char *why)
{
    struct chain_level *level = level_new(chain, fd);
    if (!level)
        return no_memory(why);
    if (machine)
        checkpoint_reader_machine_key(level->reader, machine);
    return add(chain, level, why);
}

int checkpoint_chain_add_own(struct checkpoint_chain *chain, int fd, const uint8_t key[CHECKPOINT_KEY], char *why)
{
    struct chain_level *level = level_new(chain, fd);
    if (!level)
        return no_memory(why);
    chain->own = true;
    checkpoint_reader_places(level->reader);
    checkpoint_reader_file_key(level->reader, key);
    int error = add(chain, level, why);
    if (!error && level->count)
        qsort(level->entries, level->count, sizeof *level->entries, in_order);
    return error;
}

/* A file is opened there when it is needed. */
struct checkpoint_chain *checkpoint_chain_twin(const struct checkpoint_chain *chain)
{
    struct checkpoint_chain *twin = checkpoint_chain_new();
    for (; twin && twin->count < chain->count; twin->count++) {
        const struct chain_level *level = chain->levels[twin->count];
        struct chain_level *other = calloc(1, sizeof *other);
        if (!other) {
            checkpoint_chain_free(twin);
            return NULL;
        }
        other->twin_of = level;
        other->entries = level->entries;
        other->count = level->count;
        twin->levels[twin->count] = other;
    }
    return twin;
}

/* ---- writing ---- */

/* The part in which these bytes begin. NULL: there is none. */
static const struct chain_entry *find(const struct chain_level *level, const struct chain_entry *wanted)
{
    size_t low = 0, high = level->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (compare(&level->entries[middle], wanted) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    const struct chain_entry *entry = low ? &level->entries[low - 1] : NULL;
    return entry && entry->kind == wanted->kind && entry->object == wanted->object &&
                   wanted->offset - entry->offset < entry->size
               ? entry
               : NULL;
}

static int show(struct chain_level *level, const struct chain_entry *entry, char *why)
{
    if (level->shown == entry->number)
        return 0;
    if (!level->reader && !(level->reader = checkpoint_reader_twin(level->twin_of->reader)))
        return no_memory(why);
    level->shown = 0;
    level->frame = (struct checkpoint_frame){ .number = entry->number, .position = entry->position };
    int got = checkpoint_read_again(level->reader, &level->frame, why);
    if (got != 1)
        return got;
    if (level->frame.kind != entry->kind || level->frame.object != entry->object ||
        level->frame.offset != entry->offset || level->frame.size != entry->size || !level->frame.data) {
        snprintf(why, CHECKPOINT_WHY_SIZE, "a file was changed meanwhile");
        return -EPROTO;
    }
    level->shown = entry->number;
    return 0;
}

/* Bytes as the file with that number has them. */
static int collect(struct checkpoint_chain *chain, unsigned number, const struct chain_entry *wanted, uint8_t *to,
                   char *why)
{
    struct chain_level *level = chain->levels[number];
    struct chain_entry rest = *wanted;
    while (rest.size) {
        const struct chain_entry *entry = find(level, &rest);
        if (!entry || (entry->kept && !number)) {
            snprintf(why, CHECKPOINT_WHY_SIZE, "a file names bytes that the file before it does not have");
            return -EPROTO;
        }
        const uint64_t skip = rest.offset - entry->offset, left = entry->size - skip;
        struct chain_entry piece = rest;
        piece.size = left < rest.size ? (uint32_t)left : rest.size;
        int error = entry->kept ? collect(chain, number - 1, &piece, to, why) : show(level, entry, why);
        if (error)
            return error;
        if (!entry->kept)
            memcpy(to, (const uint8_t *)level->frame.data + skip, piece.size);
        to += piece.size;
        rest.offset += piece.size;
        rest.size -= piece.size;
    }
    return 0;
}

int checkpoint_chain_part(struct checkpoint_chain *chain, struct checkpoint_frame *part, void *to, char *why)
{
    struct chain_entry wanted = { .kind = part->kind, .object = part->object, .offset = part->offset };
    const struct chain_level *last = chain->levels[chain->count - 1];
    const struct chain_entry *entry;
    while (wanted.size < part->size) {      /* until there is a gap */
        const struct chain_entry next = { .kind = part->kind, .object = part->object,
                                          .offset = part->offset + wanted.size };
        if (!(entry = find(last, &next)))
            break;
        const uint64_t left = entry->size - (next.offset - entry->offset), room = part->size - wanted.size;
        wanted.size += (uint32_t)(left < room ? left : room);
    }
    part->size = wanted.size;
    part->data = to;
    return collect(chain, chain->count - 1, &wanted, to, why);
}

/* Those of the last file, without its base. */
static uint32_t facts_of(const struct chain_level *level, char *to)
{
    char *out = to;
    for (const char *at = level->facts; *at;) {
        const size_t line = strcspn(at, "\n") + (strchr(at, '\n') != NULL);
        if (strncmp(at, "base=", 5) != 0 && strncmp(at, "base_file=", 10) != 0) {
            memcpy(out, at, line);
            out += line;
        }
        at += line;
    }
    return (uint32_t)(out - to);
}

static int write_head(struct checkpoint_writer *w, const struct chain_level *last)
{
    char facts[CHECKPOINT_TEXT_MOST + 1];
    int error = checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_FACTS,
                                                                .size = facts_of(last, facts), .data = facts });
    for (unsigned i = 0; i < CHECKPOINT_KINDS_MOST && !error; i++)
        if (last->kinds[i].known)
            error = checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_KIND, .kind = i,
                                                                    .size = (uint32_t)strlen(last->kinds[i].name),
                                                                    .object = last->kinds[i].objects,
                                                                    .data = last->kinds[i].name });
    return error;
}

/* The file that has the part as one of its own, and which one that is. NULL: it is put together from several. */
static struct chain_level *whole_part(struct checkpoint_chain *chain, const struct chain_entry *part,
                                      const struct chain_entry **entry)
{
    for (unsigned number = chain->count; number--;) {
        const struct chain_entry *at = *entry = find(chain->levels[number], part);
        if (!at || at->size - (part->offset - at->offset) < part->size)
            return NULL;
        if (!at->kept)
            return at->offset == part->offset && at->size == part->size ? chain->levels[number] : NULL;
    }
    return NULL;
}

/* The part goes over as it is packed. What this process has written itself can be unpacked. */
static int write_packed(struct checkpoint_writer *w, struct chain_level *level, const struct chain_entry *entry,
                        struct checkpoint_frame *frame, char *why)
{
    struct checkpoint_packed packed;
    struct checkpoint_frame found = { .number = entry->number, .position = entry->position };
    level->shown = 0;
    int got = checkpoint_read_packed(level->reader, &found, &packed, why);
    if (got != 1)
        return got;
    if (found.kind != frame->kind || found.object != frame->object || found.offset != frame->offset ||
        found.size != frame->size) {
        snprintf(why, CHECKPOINT_WHY_SIZE, "a file was changed meanwhile");
        return -EPROTO;
    }
    return checkpoint_write_packed(w, frame, &packed);
}

static int write_part(struct checkpoint_chain *chain, struct checkpoint_writer *w, const struct chain_entry *part,
                      char *why)
{
    struct checkpoint_frame frame = { .type = CHECKPOINT_PART, .kind = part->kind, .size = part->size,
                                      .object = part->object, .offset = part->offset, .data = chain->part };
    const struct chain_entry *entry;
    struct chain_level *level = chain->own ? whole_part(chain, part, &entry) : NULL;
    if (level)
        return write_packed(w, level, entry, &frame, why);
    int error = collect(chain, chain->count - 1, part, chain->part, why);
    return error ? error : checkpoint_write(w, &frame);
}

static int write_parts(struct checkpoint_chain *chain, struct checkpoint_writer *w, const struct chain_entry *parts,
                       size_t count, char *why)
{
    for (size_t i = 0; i < count; i++) {
        *why = 0;
        int error = write_part(chain, w, &parts[i], why);
        if (error && !*why)
            snprintf(why, CHECKPOINT_WHY_SIZE, "it cannot be written: %s", strerror(-error));
        if (error)
            return error;
    }
    return 0;
}

int checkpoint_chain_write(struct checkpoint_chain *chain, int fd, const struct checkpoint_seal *seal, char *why)
{
    struct chain_level *last = chain->count ? chain->levels[chain->count - 1] : NULL;
    struct checkpoint_writer *w = last ? checkpoint_writer_new(fd, !chain->own, seal) : NULL;
    struct chain_entry *parts = last ? calloc(last->count + 1, sizeof *parts) : NULL;
    int error = w && parts ? 0 : no_memory(why);
    if (!error) {
        memcpy(parts, last->entries, last->count * sizeof *parts);     /* in the order of the file */
        for (unsigned i = 0; i < chain->count; i++)
            qsort(chain->levels[i]->entries, chain->levels[i]->count, sizeof *parts, in_order);
        if ((error = write_head(w, last)))
            snprintf(why, CHECKPOINT_WHY_SIZE, "it cannot be written: %s", strerror(-error));
    }
    if (!error)
        error = write_parts(chain, w, parts, last->count, why);
    if (!error && (error = checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_END })))
        snprintf(why, CHECKPOINT_WHY_SIZE, "it cannot be written: %s", strerror(-error));
    checkpoint_writer_free(w);
    free(parts);
    return error;
}
