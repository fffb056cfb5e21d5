/*
 * array_move.c: arrays and mipmapped arrays on a move to another server (move.h). The old server gave their names,
 * which are the handles that the program has, so the client says them to the new server (PLACE). What is in them is
 * copied as boxes, which go by the names too. No other thread is in a call meanwhile, so nothing of this is locked.
 */
#include "array_state.h"

#include "api/forward/core.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/common/texel.h"

static struct array *next_of(const struct tree *tree, const struct array *after)
{
    struct tree_node *node = after ? tree_next(tree, &after->node) : tree_first(tree);
    return node ? array_of(node) : NULL;
}

/* Levels that the program has not asked for have bytes too. */
int mipmap_save(struct move *move)
{
    for (const struct array *m = NULL; (m = next_of(&array_tables.mipmaps, m));)
        for (unsigned level = 0; level < m->levels; level++) {
            core_array ignored;
            int code = core_mipmap_level(m->node.key, level, &ignored);
            if (code)
                return move_refuse(move, code, "level %u of a mipmapped array cannot be reached (error %d)", level,
                                   code);
        }
    return CORE_OK;
}

static int refused(struct move *move, const char *what, const struct array *array, int code)
{
    const struct core_array_shape *s = &array->shape;
    return code ? move_refuse(move, code, "the new server does not give %s of %zu x %zu x %zu elements (error %d)",
                              what, s->width, s->height, s->depth, code)
                : CORE_OK;
}

static int named_alike(struct move *move, core_array wanted, core_array given)
{
    return given == wanted ? CORE_OK
                           : move_refuse(move, 0, "the new server calls an array 0x%llx instead of 0x%llx",
                                         (unsigned long long)given, (unsigned long long)wanted);
}

int array_restore(struct move *move)
{
    int code = CORE_OK;
    for (const struct array *a = NULL; !code && (a = next_of(&array_tables.arrays, a));) {
        core_array given = 0;
        if (a->owner)
            continue;
        code = move_place(move, a->context, FLYT_PLACE_ARRAY, a->node.key);
        code = code ? code : refused(move, "an array", a, array_make(a->context, &a->shape, 0, &given));
        code = code ? code : named_alike(move, a->node.key, given);
    }
    return code;
}

int mipmap_restore(struct move *move)
{
    int code = CORE_OK;
    for (const struct array *m = NULL; !code && (m = next_of(&array_tables.mipmaps, m));) {
        core_array given = 0;
        code = move_place(move, m->context, FLYT_PLACE_MIPMAP, m->node.key);
        if (!code)
            code = refused(move, "a mipmapped array", m, array_make(m->context, &m->shape, m->levels, &given));
        code = code ? code : named_alike(move, m->node.key, given);
        for (unsigned level = 0; level < m->levels && !code; level++) {
            code = move_place(move, m->context, FLYT_PLACE_ARRAY, m->level[level]);
            if (!code)
                code = core_mipmapped_array_get_level(m->context, &given, m->node.key, level);
            code = code ? refused(move, "a level of a mipmapped array", m, code)
                        : named_alike(move, m->level[level], given);
        }
    }
    return code;
}

static struct core_extent bytes_of(const struct core_array_shape *s)
{
    return (struct core_extent){ texel_elements(s->format, s->width) * s->texel,
                                 s->height ? texel_elements(s->format, s->height) : 1, s->depth ? s->depth : 1 };
}

uint64_t array_size(const struct move *move, bool adopts)
{
    uint64_t sum = 0;
    (void)move, (void)adopts;
    pthread_mutex_lock(&array_tables.lock);
    for (const struct array *a = NULL; (a = next_of(&array_tables.arrays, a));) {
        const struct core_extent size = bytes_of(&a->shape);
        sum += size.width * size.height * size.depth;
    }
    pthread_mutex_unlock(&array_tables.lock);
    return sum;
}

/* Levels are arrays. */
int array_contents(struct move *move)
{
    int code = CORE_OK;
    for (const struct array *a = NULL; !code && (a = next_of(&array_tables.arrays, a));) {
        const struct core_extent size = bytes_of(&a->shape);
        code = move_box(move, a->context, FLYT_ARRAY_SPACE + a->node.key, &size);
    }
    return code;
}
