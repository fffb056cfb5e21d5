/* Names: the intern table, and what names are bound to in nested scopes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "softgpu/ptx/reader.h"

static const struct { const char *text; enum keyword keyword;
} keywords[] = {
    { "version", KEYWORD_VERSION },
    { "target", KEYWORD_TARGET },
    { "address_size", KEYWORD_ADDRESS_SIZE },
    { "file", KEYWORD_FILE },
    { "loc", KEYWORD_LOC },
    { "section", KEYWORD_SECTION },
    { "pragma", KEYWORD_PRAGMA },
    { "alias", KEYWORD_ALIAS },
    { "entry", KEYWORD_ENTRY },
    { "func", KEYWORD_FUNC },
    { "extern", KEYWORD_EXTERN },
    { "visible", KEYWORD_VISIBLE },
    { "weak", KEYWORD_WEAK },
    { "common", KEYWORD_COMMON },
    { "align", KEYWORD_ALIGN },
    { "attribute", KEYWORD_ATTRIBUTE },
    { "ptr", KEYWORD_PTR },
    { "managed", KEYWORD_MANAGED },
    { "unified", KEYWORD_UNIFIED },
    { "reg", KEYWORD_REG },
    { "const", KEYWORD_CONST },
    { "global", KEYWORD_GLOBAL },
    { "local", KEYWORD_LOCAL },
    { "param", KEYWORD_PARAM },
    { "shared", KEYWORD_SHARED },
    { "tex", KEYWORD_TEX },
    { "sreg", KEYWORD_SREG },
    { "v2", KEYWORD_V2 },
    { "v4", KEYWORD_V4 },
    { "v8", KEYWORD_V8 },
    { "maxntid", KEYWORD_MAXNTID },
    { "reqntid", KEYWORD_REQNTID },
    { "minnctapersm", KEYWORD_MINNCTAPERSM },
    { "maxnctapersm", KEYWORD_MAXNCTAPERSM },
    { "maxnreg", KEYWORD_MAXNREG },
    { "noreturn", KEYWORD_NORETURN },
    { "reqnctapercluster", KEYWORD_REQNCTAPERCLUSTER },
    { "maxclusterrank", KEYWORD_MAXCLUSTERRANK },
    { "explicitcluster", KEYWORD_EXPLICITCLUSTER },
    { "blocksareclusters", KEYWORD_BLOCKSARECLUSTERS },
    { "abi_preserve", KEYWORD_ABI_PRESERVE },
    { "abi_preserve_control", KEYWORD_ABI_PRESERVE_CONTROL },
    { "branchtargets", KEYWORD_BRANCHTARGETS },
    { "callprototype", KEYWORD_CALLPROTOTYPE },
    { "calltargets", KEYWORD_CALLTARGETS },
};

/*
 * NH (the universal hash of UMAC) under a random key, times a random odd number, of which the high bits count: a text
 * cannot choose names that collide. Names longer than the key are hashed in pieces, each with what came before.
 */
static uint64_t hash_piece(const struct reader_names *names, const char *text, size_t size, uint64_t before)
{
    const uint32_t *key = names->key;
    uint64_t sum = (uint64_t)(uint32_t)(before + size + key[0]) * (uint32_t)((before >> 32) + key[1]), word;
    const char *last = text + size - 8;
    if (size < 4) {
        word = (uint64_t)(size ? (unsigned char)text[0] | (unsigned)(unsigned char)text[size / 2] << 8 |
                                     (unsigned)(unsigned char)text[size - 1] << 16 : 0);
    } else if (size < 8) {
        uint32_t first, second;
        memcpy(&first, text, 4);
        memcpy(&second, text + size - 4, 4);
        word = first | (uint64_t)second << 32;
    } else {
        for (; text < last; text += 8) {
            key += 2;
            memcpy(&word, text, 8);
            sum += (uint64_t)(uint32_t)(word + key[0]) * (uint32_t)((word >> 32) + key[1]);
        }
        memcpy(&word, last, 8);                        /* may overlap: the size is part of the sum */
    }
    key += 2;
    return sum + (uint64_t)(uint32_t)(word + key[0]) * (uint32_t)((word >> 32) + key[1]);
}

static uint64_t hash(const struct reader_names *names, const char *text, size_t size)
{
    const uint32_t *odd = &names->key[READER_HASH_PIECE / 4 + 2];
    uint64_t sum = 0;
    for (; size > READER_HASH_PIECE; text += READER_HASH_PIECE, size -= READER_HASH_PIECE)
        sum = hash_piece(names, text, READER_HASH_PIECE, sum);
    return hash_piece(names, text, size, sum) * ((uint64_t)odd[0] << 32 | odd[1] | 1);
}

bool names_init(struct ptx_reader *reader)
{
    struct reader_names *names = &reader->names;
    names->size = 4096;
    names->shift = 64 - 12;
    names->table = calloc(names->size, sizeof *names->table);
    if (!names->table)
        return reader_error(reader, 0, "out of memory for the table of names");
    if (getrandom(names->key, sizeof names->key, GRND_NONBLOCK) != sizeof names->key)
        names->key[0] = (uint32_t)(uintptr_t)names->table;     /* early in the boot: weaker, still right */

    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        struct reader_name *name = names_intern(reader, keywords[i].text, strlen(keywords[i].text));
        if (!name)
            return false;
        name->keyword = (uint16_t)keywords[i].keyword;
    }
    for (int type = PTX_PRED; type < PTX_TYPE_COUNT; type++) {
        const char *text = ptx_type_name((enum ptx_type)type);
        struct reader_name *name = names_intern(reader, text, strlen(text));
        if (!name)
            return false;
        name->keyword = (uint16_t)(KEYWORD_FIRST_TYPE + type);
    }
    return true;
}

void names_free(struct ptx_reader *reader)
{
    free(reader->names.table);
    reader->names.table = NULL;
}

/* The slot that holds the name, or the empty one where it belongs. */
static struct reader_name **find_slot(struct ptx_reader *reader, const char *text, size_t size, uint64_t hashed)
{
    struct reader_names *names = &reader->names;
    for (size_t i = hashed >> names->shift;; i = (i + 1) & (names->size - 1)) {
        struct reader_name *name = names->table[i];
        reader->operations++;
        if (!name || (name->hash == hashed && name->size == size && memcmp(name->text, text, size) == 0))
            return &names->table[i];
    }
}

static bool grow(struct ptx_reader *reader)
{
    struct reader_names *names = &reader->names;
    size_t size = names->size * 2;
    struct reader_name **table = calloc(size, sizeof *table);
    if (!table)
        return reader_error(reader, reader->token.line, "out of memory for %zu names", names->count);
    for (size_t i = 0; i < names->size; i++) {
        if (!names->table[i])
            continue;
        size_t at = names->table[i]->hash >> (names->shift - 1);
        while (table[at])
            at = (at + 1) & (size - 1);
        table[at] = names->table[i];
    }
    free(names->table);
    names->table = table;
    names->size = size;
    names->shift--;
    return true;
}

/* Labels and registers of a body that is only checked are forgotten with it: most names of a text are such. Ranges stay
   (names_note_prefix). */
static bool is_passing(const struct ptx_reader *reader, const char *text, size_t size)
{
    return reader->checking && (text[0] == '$' || text[0] == '%') && text[size - 1] != '<';
}

struct reader_name *names_intern(struct ptx_reader *reader, const char *text, size_t size)
{
    struct reader_names *names = &reader->names;
    uint64_t hashed = hash(names, text, size);
    struct reader_name **slot = find_slot(reader, text, size, hashed);
    if (*slot)
        return *slot;
    if (names->count >= names->size / 2) {
        if (!grow(reader))
            return NULL;
        slot = find_slot(reader, text, size, hashed);
    }
    bool passing = is_passing(reader, text, size);
    struct reader_name *name = ptx_arena_alloc(passing ? reader->passing : reader->scratch, sizeof *name);
    char *copy = ptx_arena_string(passing ? reader->passing : reader->arena, text, size);
    if (!name || !copy) {
        reader_error(reader, reader->token.line, "out of memory for a name");
        return NULL;
    }
    name->text = copy;
    name->size = (uint32_t)size;
    name->hash = hashed;
    if (passing) {
        name->passing = names->passing;
        names->passing = name;
    }
    *slot = name;
    names->count++;
    return name;
}

/* Takes a name out of the table. Names behind it that its place was in the way of move up (Knuth, 6.4, R). */
static void take_out(struct reader_names *names, const struct reader_name *name)
{
    size_t mask = names->size - 1, gap = name->hash >> names->shift;
    while (names->table[gap] != name)
        gap = (gap + 1) & mask;
    for (size_t at = gap;;) {
        at = (at + 1) & mask;
        struct reader_name *other = names->table[at];
        if (!other)
            break;
        size_t home = other->hash >> names->shift;
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            names->table[gap] = other;
            gap = at;
        }
    }
    names->table[gap] = NULL;
    names->count--;
}

void names_forget_passing(struct ptx_reader *reader)
{
    for (; reader->names.passing; reader->names.passing = reader->names.passing->passing)
        take_out(&reader->names, reader->names.passing);
}

struct reader_name *names_find(struct ptx_reader *reader, const char *text, size_t size)
{
    return *find_slot(reader, text, size, hash(&reader->names, text, size));
}

static struct reader_binding *bind(struct ptx_reader *reader, struct reader_name *name, enum binding_kind kind,
                                   uint32_t depth)
{
    struct reader_binding **at = &name->binding;
    while (*at && (*at)->depth > depth)
        at = &(*at)->outer;
    if (*at && (*at)->depth == depth) {
        reader_error(reader, reader->token.line, "'%s' is declared twice in one scope", name->text);
        return NULL;
    }
    struct reader_binding *binding = reader->free_bindings;
    if (binding) {
        reader->free_bindings = binding->next;
        memset(binding, 0, sizeof *binding);
    } else if (!(binding = reader_scratch(reader, sizeof *binding))) {
        return NULL;
    }
    binding->name = name;
    binding->kind = kind;
    binding->depth = depth;
    binding->outer = *at;
    if (!depth)
        binding->declared = reader->declared++;
    *at = binding;
    binding->next = reader->scopes[depth].bindings;
    reader->scopes[depth].bindings = binding;
    if (kind == BINDING_RANGE) {
        reader->range_depth[depth]++;
        if (depth > reader->deepest_range)
            reader->deepest_range = depth;
    }
    return binding;
}

/* Binds a name in the scope of that depth, which may be an outer one. An error if the scope has it already. */
struct reader_binding *names_bind(struct ptx_reader *reader, struct reader_name *name, enum binding_kind kind,
                                  uint32_t depth)
{
    char last = name->text[name->size - 1];
    if (name->text[0] == '%' && last >= '0' && last <= '9')
        reader->plain = false;
    return bind(reader, name, kind, depth);
}

/*
 * The range that a name such as %r12 belongs to: the one declared with all but the digits at the end, %r<n>.
 * (ptxas does not look for %r1<n>, either.) Ranges are bound under their prefix followed by '<', so that a
 * variable may have the prefix as its name. *member gets the number.
 */
static struct reader_binding *find_range(struct ptx_reader *reader, const struct reader_name *name, uint64_t *member,
                                         size_t *prefix_size)
{
    char prefix[READER_MAX_RANGE_PREFIX + 1];
    size_t digits = name->size;
    uint64_t number = 0;
    while (digits > 0 && name->text[digits - 1] >= '0' && name->text[digits - 1] <= '9')
        digits--;
    if (digits == name->size || digits == 0 || digits > READER_MAX_RANGE_PREFIX)
        return NULL;
    for (const char *digit = name->text + digits; *digit; digit++)
        if ((number = number * 10 + (unsigned)(*digit - '0')) > UINT32_MAX)
            return NULL;
    *member = number;
    *prefix_size = digits;
    memcpy(prefix, name->text, digits);
    prefix[digits] = '<';
    const struct reader_name *range = names_find(reader, prefix, digits + 1);
    return range ? range->binding : NULL;
}

/* Whether the name is, or would be, a member of a range declared in the current scope or around it. */
bool names_in_known_range(struct ptx_reader *reader, const struct reader_name *name)
{
    uint64_t member;
    size_t prefix;
    return reader->deepest_range && find_range(reader, name, &member, &prefix);
}

bool names_member_of_scope(struct ptx_reader *reader, const struct reader_name *name)
{
    uint64_t member;
    size_t prefix;
    const struct reader_binding *range = reader->deepest_range ? find_range(reader, name, &member, &prefix) : NULL;
    return range && range->depth == reader->depth && member < range->range.count;
}

/* The register of a member that is used for the first time. */
static struct reader_binding *make_member(struct ptx_reader *reader, struct reader_name *name,
                                          const struct reader_binding *range)
{
    struct reader_range description = range->range;
    struct reader_binding *made = bind(reader, name, BINDING_REGISTER, range->depth);
    if (!made)
        return NULL;
    made->index = (uint32_t)reader->registers.count;
    struct ptx_register *reg = reader_push(reader, &reader->registers, sizeof *reg);
    if (!reg)
        return NULL;
    *reg = (struct ptx_register){ .name = name->text, .type = description.type, .vector = description.vector };
    return made;
}

struct reader_binding *names_lookup(struct ptx_reader *reader, struct reader_name *name)
{
    struct reader_binding *binding = name->binding;
    reader->operations++;
    if (binding && !binding->depth && binding->declared >= reader->horizon)
        binding = NULL;
    if (!reader->deepest_range || (binding && binding->depth >= reader->deepest_range))
        return binding;
    uint64_t member;
    size_t prefix;
    const struct reader_binding *range = find_range(reader, name, &member, &prefix);
    if (!range || member >= range->range.count || (binding && binding->depth >= range->depth))
        return binding;
    if (name->text[prefix] != '0' || name->size == prefix + 1)
        return make_member(reader, name, range);

    /* %r012 is %r12. */
    char canonical[READER_MAX_RANGE_PREFIX + 32];
    int size = snprintf(canonical, sizeof canonical, "%.*s%llu", (int)prefix, name->text, (unsigned long long)member);
    struct reader_name *plain = names_intern(reader, canonical, (size_t)size);
    return plain ? names_lookup(reader, plain) : NULL;
}

/* For scan.c, which knows prefixes of a '%' and up to eight letters. range: "%r<". */
void names_note_prefix(struct ptx_reader *reader, const struct reader_name *range)
{
    uint64_t characters = 0;
    if (range->text[0] != '%' || range->size > sizeof characters + 2)
        return;
    for (uint32_t i = 1; i + 1 < range->size; i++)
        characters = characters << 8 | (unsigned char)range->text[i];
    *names_prefix_slot(reader, characters) = (struct reader_prefix){ .characters = characters, .range = range };
}

bool names_open_scope(struct ptx_reader *reader)
{
    if (reader->depth + 1 >= READER_MAX_SCOPES)
        return reader_error(reader, reader->token.line, "scopes are nested deeper than %d", READER_MAX_SCOPES);
    reader->depth++;
    reader->scopes[reader->depth] = (struct reader_scope){ 0 };
    reader->range_depth[reader->depth] = 0;
    return true;
}

void names_close_scope(struct ptx_reader *reader)
{
    struct reader_binding *binding = reader->scopes[reader->depth].bindings;
    while (binding) {
        struct reader_binding *next = binding->next;
        binding->name->binding = binding->outer;       /* the innermost, as all deeper scopes are closed */
        binding->next = reader->free_bindings;
        reader->free_bindings = binding;
        binding = next;
        reader->operations++;
    }
    reader->scopes[reader->depth].bindings = NULL;
    reader->range_depth[reader->depth] = 0;
    if (reader->depth)
        reader->depth--;
    while (reader->deepest_range && !reader->range_depth[reader->deepest_range])
        reader->deepest_range--;
}
