/* hash: BLAKE2b-256 of code images, whole and in pieces. */
#include "cpu/code/hash.h"

#include "tests/lib/unit.h"

TEST(hashes)
{
    /* BLAKE2b-256 of "abc", as b2sum -l 256 prints it */
    static const uint8_t abc[HASH_SIZE] = {
        0xbd, 0xdd, 0x81, 0x3c, 0x63, 0x42, 0x39, 0x72, 0x31, 0x71, 0xef, 0x3f, 0xee, 0x98, 0x57, 0x9b,
        0x94, 0x96, 0x4e, 0x3b, 0xb1, 0xcb, 0x3e, 0x42, 0x72, 0x62, 0xc8, 0xc0, 0x68, 0xd5, 0x23, 0x19 };
    uint8_t whole[HASH_SIZE], parts[HASH_SIZE];
    hash_bytes("abc", 3, whole);
    assert_memory_equal(whole, abc, HASH_SIZE);
    size_t size = 100003;
    char *bytes = malloc(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 31 + i / 7);
    hash_bytes(bytes, size, whole);
    hash *h = hash_create();
    assert_non_null(h);
    for (size_t at = 0, step = 1; at < size; at += step, step = step * 3 + 1)
        hash_add(h, bytes + at, step < size - at ? step : size - at);
    hash_finish(h, parts);
    assert_memory_equal(whole, parts, HASH_SIZE);
    hash_discard(hash_create());
    hash_discard(NULL);
    free(bytes);
}

/* The vector is what Python's hashlib.blake2b makes of it. */
TEST(keyed)
{
    static const uint8_t abc[HASH_SIZE] = {
        0xd6, 0x3a, 0x32, 0xd3, 0xe4, 0x47, 0x38, 0xd7, 0x90, 0x7f, 0x96, 0x43, 0x16, 0xc2, 0x41, 0xad,
        0xab, 0xa0, 0xab, 0xfe, 0xab, 0xc3, 0x23, 0x49, 0x67, 0x75, 0x78, 0xa1, 0x5a, 0x20, 0x3f, 0x7f };
    uint8_t key[HASH_SIZE], found[HASH_SIZE], other[HASH_SIZE];
    for (int i = 0; i < HASH_SIZE; i++)
        key[i] = (uint8_t)i;
    hash *h = hash_create_keyed(key);
    assert_non_null(h);
    hash_add(h, "a", 1);
    hash_add(h, "bc", 2);
    hash_finish(h, found);
    assert_memory_equal(found, abc, HASH_SIZE);
    assert_true(hash_equal(found, abc));
    for (int i = 0; i < HASH_SIZE; i++) {
        memcpy(other, abc, sizeof other);
        other[i] ^= 0x80;
        assert_false(hash_equal(found, other));
    }
}

int main(void) { return unit_run(NULL, NULL); }
