/*
 * image_cache.c: the folder of code images has a bound on bytes and on files.
 * shows: attacks: tiny images without number leave a bounded number of files in the image cache
 */
#include <dirent.h>

#include "cpu/code/hash.h"
#include "cpu/server/code/image_cache.h"
#include "tests/lib/unit.h"

enum { MANY = 5000, MOST = 4096 };

static int files_in(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    struct dirent *entry;
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static bool has(struct image_cache *cache, uint32_t number)
{
    static const uint8_t nonce[HASH_SIZE] = { 1, 2, 3 };
    uint8_t key[HASH_SIZE], proof[HASH_SIZE], found[4];
    hash *state = hash_create_keyed(nonce);
    assert_non_null(state);
    hash_bytes(&number, sizeof number, key);
    hash_add(state, &number, sizeof number);
    hash_finish(state, proof);
    bool there = image_cache_get(cache, key, nonce, proof, found, sizeof found);
    assert_true(!there || memcmp(found, &number, sizeof found) == 0);
    proof[HASH_SIZE - 1] ^= 1;
    assert_false(image_cache_get(cache, key, nonce, proof, found, sizeof found));
    return there;
}

TEST(many_tiny_ones)
{
    struct image_cache *cache = image_cache_create();
    assert_non_null(cache);
    for (uint32_t i = 0; i < MANY; i++) {
        uint8_t key[HASH_SIZE];
        hash_bytes(&i, sizeof i, key);
        image_cache_put(cache, key, (const uint8_t *)&i, sizeof i);
    }
    assert_in_range(files_in(image_cache_path(cache)), MOST / 2, MOST);
    assert_true(has(cache, MANY - 1) && has(cache, MANY - 1000)); /* the oldest have gone */
    assert_false(has(cache, 0));
    image_cache_remove(cache);
}

int main(void) { return unit_run(NULL, NULL); }
