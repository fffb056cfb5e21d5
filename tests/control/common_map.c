/*
 * Maps whose keys are listed in order, while they change.
 * shows: maps of the daemons: in order after any changes; one of 20,000 keys is not sorted again after each change
 */
#include "control-managers/common/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/now.h"
#include "tests/lib/unit.h"

enum { NAMES = 400, STEPS = 20000, MANY = 20000, CHANGES = 2000 };

static char names[NAMES][16];
static bool there[NAMES];

static void check(struct map *map, size_t count)
{
    size_t at = 0;
    assert_int_equal(map->count, count);
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(map_get(map, names[i]) == names[i], there[i]);
        if (!there[i])
            continue;
        assert_ptr_equal(map_at(map, at++), names[i]);
        assert_int_equal(map_after(map, names[i]), at);
    }
    assert_null(map_at(map, at));
}

TEST(test_random_changes)
{
    struct map map = { 0 };
    size_t count = 0;
    srand(7);
    for (int i = 0; i < NAMES; i++)
        snprintf(names[i], sizeof names[i], "n%04d", i);
    for (int step = 0; step < STEPS; step++) {
        int i = rand() % NAMES;
        if (rand() % (step % 5000 < 2500 ? 3 : 2)) {
            assert_true(map_put(&map, names[i], names[i]));
            count += !there[i];
            there[i] = true;
        } else {
            assert_ptr_equal(map_remove(&map, names[i]), there[i] ? names[i] : NULL);
            count -= there[i];
            there[i] = false;
        }
        if (rand() % 40 == 0)
            check(&map, count);
    }
    check(&map, count);
    map_free(&map);
    check(&(struct map){ 0 }, (memset(there, 0, sizeof there), 0));
}

TEST(test_a_change_among_many)
{
    struct map map = { 0 };
    char name[32];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "vm-%05d", (i * 7919) % MANY);
        assert_true(map_put(&map, name, &map));
    }
    assert_ptr_equal(map_at(&map, 0), &map);
    double begun = now_s();
    for (int i = 0; i < CHANGES; i++) {
        snprintf(name, sizeof name, "vm-%05d-%d", (i * 31) % MANY, i);
        assert_true(map_put(&map, name, &map));
        assert_non_null(map_at(&map, MANY));
        snprintf(name, sizeof name, "vm-%05d", (i * 7919) % MANY);
        assert_ptr_equal(map_remove(&map, name), &map);
        assert_non_null(map_at(&map, MANY - 1));
    }
    double each = (now_s() - begun) / (2 * CHANGES);
    printf("# %.1f us for a change and a look\n", each * 1e6);
    assert_true(each < 0.0004); /* a sort takes milliseconds */
    for (int i = 1; i <= MANY; i++)
        assert_true(map_put_id(&map, (uint64_t)i, name));
    assert_ptr_equal(map_at(&map, map_after_id(&map, MANY - 1)), name);
    map_free(&map);
}

int main(void) { return unit_run(NULL, NULL); }
