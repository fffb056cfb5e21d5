/* ids: id tables and maps, alone and with many threads. */
#include "cpu/common/ids.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tests/lib/unit.h"

enum { MANY = 100000, THREADS = 4, TURNS = 20000 };

static char objects[MANY];

TEST(table_basics)
{
    id_table *table = id_table_create(7, 64);
    assert_non_null(table);
    uint32_t index = 0;
    id_token first = id_table_add(table, &objects[0], &index);
    assert_int_equal(index, 64);
    assert_int_equal(id_token_index(first), 64);
    assert_true(first > 65536);
    assert_ptr_equal(id_table_find(table, first), &objects[0]);
    assert_int_equal(id_table_count(table), 1);

    static const id_token foreign[] = { 0, 1, 2, 64, UINT64_MAX, 0x5a5a5a5a5a5a5a5a };
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        assert_null(id_table_find(table, foreign[i]));
        assert_null(id_table_remove(table, foreign[i]));
    }
    assert_null(id_table_find(table, first + 1));
    assert_null(id_table_find(table, first ^ UINT64_C(1) << 33));       /* generation */
    assert_null(id_table_find(table, first ^ UINT64_C(1) << 57));       /* kind */

    assert_ptr_equal(id_table_remove(table, first), &objects[0]);
    assert_null(id_table_remove(table, first));
    assert_null(id_table_find(table, first));
    id_token second = id_table_add(table, &objects[1], &index);
    assert_int_equal(index, 65);                                        /* 64 is not released yet */
    id_table_release(table, 65);                                        /* in use: no effect */
    id_table_release(table, 64);
    id_table_release(table, 64);
    id_table_release(table, 1);
    id_table_release(table, 9999);
    id_token third = id_table_add(table, &objects[2], &index);
    assert_int_equal(index, 64);
    assert_true(third != first);
    assert_null(id_table_find(table, first));
    assert_ptr_equal(id_table_find(table, third), &objects[2]);
    assert_ptr_equal(id_table_find(table, second), &objects[1]);
    id_token fourth = id_table_add(table, &objects[3], &index);
    assert_int_equal(index, 66);
    assert_ptr_equal(id_table_find(table, fourth), &objects[3]);
    id_table_destroy(table);
}

static void count_visit(void *object, id_token token, void *context)
{
    (void)object;
    (void)token;
    ++*(unsigned *)context;
}

TEST(table_grows)
{
    id_table *table = id_table_create(1, 0);
    id_token *tokens = malloc(MANY * sizeof *tokens);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t index;
        tokens[i] = id_table_add(table, &objects[i], &index);
        assert_int_equal(index, i);                 /* dense */
    }
    for (uint32_t i = 0; i < MANY; i++)
        assert_ptr_equal(id_table_find(table, tokens[i]), &objects[i]);
    unsigned visited = 0;
    id_table_each(table, count_visit, &visited);
    assert_int_equal(visited, MANY);
    for (uint32_t i = 0; i < MANY; i += 2)
        assert_ptr_equal(id_table_remove(table, tokens[i]), &objects[i]);
    visited = 0;
    id_table_each(table, count_visit, &visited);
    assert_int_equal(visited, MANY / 2);
    assert_int_equal(id_table_count(table), MANY / 2);
    free(tokens);
    id_table_destroy(table);
}

static id_table *shared;
static _Atomic id_token published[64];
static atomic_bool finished;
static _Atomic unsigned wrong;

/* An object knows its token, so a reader can tell whether it got the right one. */
struct known { _Atomic id_token token; };
static struct known pool[THREADS][64];

static void *change(void *context)
{
    unsigned number = (unsigned)(uintptr_t)context;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned place = turn % 16 + number * 16;
        struct known *object = &pool[number][turn % 64];
        uint32_t index;
        id_token old = atomic_exchange(&published[place], 0);
        if (old != 0) {
            if (!id_table_remove(shared, old))
                atomic_fetch_add(&wrong, 1);
            id_table_release(shared, id_token_index(old));
        }
        id_token token = id_table_add(shared, object, &index);
        atomic_store(&object->token, token);
        atomic_store(&published[place], token);
    }
    return NULL;
}

static void *look(void *context)
{
    (void)context;
    while (!atomic_load(&finished)) {
        for (unsigned i = 0; i < 64; i++) {
            id_token token = atomic_load(&published[i]);
            struct known *object = token ? id_table_find(shared, token) : NULL;
            /* while the token is the published one, its object cannot have got another */
            if (object && atomic_load(&object->token) != token && atomic_load(&published[i]) == token)
                atomic_fetch_add(&wrong, 1);
        }
    }
    return NULL;
}

TEST(table_threads)
{
    pthread_t changers[THREADS], reader;
    shared = id_table_create(3, 64);
    atomic_store(&finished, false);
    assert_int_equal(pthread_create(&reader, NULL, look, NULL), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&changers[i], NULL, change, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(changers[i], NULL);
    atomic_store(&finished, true);
    pthread_join(reader, NULL);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_int_equal(id_table_count(shared), 64);
    id_table_destroy(shared);
}

static void count_map(uint32_t id, void *object, void *context)
{
    (void)id;
    (void)object;
    ++*(unsigned *)context;
}

TEST(map)
{
    id_map *ids = id_map_create(MANY);
    assert_non_null(ids);
    assert_null(id_map_find(ids, 0));
    assert_null(id_map_find(ids, UINT32_MAX));
    assert_int_equal(id_map_set(ids, 5, &objects[5]), 0);
    assert_int_equal(id_map_set(ids, 5, &objects[6]), -EEXIST);
    assert_ptr_equal(id_map_find(ids, 5), &objects[5]);
    assert_int_equal(id_map_set(ids, MANY, &objects[0]), -ERANGE);
    assert_int_equal(id_map_set(ids, UINT32_MAX, &objects[0]), -ERANGE);
    assert_int_equal(id_map_set(ids, MANY - 1, &objects[7]), 0);
    assert_ptr_equal(id_map_find(ids, MANY - 1), &objects[7]);
    assert_int_equal(id_map_count(ids), 2);
    unsigned visited = 0;
    id_map_each(ids, count_map, &visited);
    assert_int_equal(visited, 2);
    assert_ptr_equal(id_map_remove(ids, 5), &objects[5]);
    assert_null(id_map_remove(ids, 5));
    assert_null(id_map_remove(ids, 77777));
    assert_null(id_map_find(ids, 5));
    assert_int_equal(id_map_set(ids, 5, &objects[6]), 0);
    assert_int_equal(id_map_count(ids), 2);
    id_map_destroy(ids);
    ids = id_map_create(0);
    assert_int_equal(id_map_set(ids, 0, &objects[0]), -ERANGE);
    assert_null(id_map_find(ids, 0));
    id_map_destroy(ids);
    id_map_destroy(NULL);
    id_table_destroy(NULL);
}

int main(void) { return unit_run(NULL, NULL); }
