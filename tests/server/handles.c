/* shows: The server: memory handles: mapped at several addresses, kept by their mappings, refused where they do not
 *   fit; a client that names what is not its own hurts nobody */
/* handles.c: memory without an address (HANDLE_…), spoken by hand. */
#include "tests/server/peer.h"

enum { INVALID = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 101, READ_WRITE = 3 };

static int create(struct peer *p, uint32_t handle, uint64_t size)
{
    return PLAIN(p, handle_create, handle_create_args, { handle, 0, size });
}

static int map(struct peer *p, uint32_t handle, uint64_t address)
{
    return PLAIN(p, handle_map, handle_map_args, { handle, address });
}

static int allow(struct peer *p, uint64_t address, uint64_t size)
{
    return PLAIN(p, handle_access, handle_access_args, { address, size, 0, READ_WRITE });
}

/* Calls without an answer: what failed comes with the next answer. */
static int latched(struct peer *p)
{
    peer_context_sync(p);
    return p->last.latched;
}

static int release(struct peer *p, uint32_t handle)
{
    flyt_handle_release_1(&(handle_release_args){ handle }, NULL, p->stub);
    return latched(p);
}

static int unmap(struct peer *p, uint64_t address, uint64_t size)
{
    flyt_handle_unmap_1(&(handle_unmap_args){ address, size }, NULL, p->stub);
    return latched(p);
}

TEST_WITH(two_addresses, peer_set_up, peer_tear_down)
{
    struct peer *p = *state;
    uint64_t at = p->base + 16 * p->granule;
    uint32_t word = 0;
    assert_int_equal(create(p, 7, p->granule), 0);
    assert_int_equal(map(p, 7, at), 0);
    assert_int_equal(map(p, 7, at + p->granule), 0);
    assert_int_equal(allow(p, at, 2 * p->granule), 0);
    peer_set(p, 0, at, 4, 4711, 4);
    assert_int_equal(peer_copy_out(p, 0, &word, at + p->granule, sizeof word), 0);
    assert_int_equal(word, 4711);
    assert_int_equal(release(p, 7), 0);                       /* the mappings keep it */
    word = 0;
    assert_int_equal(peer_copy_out(p, 0, &word, at, sizeof word), 0);
    assert_int_equal(word, 4711);
    assert_int_equal(create(p, 7, p->granule), 0);            /* the id is free again */
    assert_int_equal(unmap(p, at, 2 * p->granule), 0);
    assert_int_not_equal(peer_copy_out(p, 0, &word, at, sizeof word), 0);
}

TEST_WITH(what_does_not_fit_is_refused, peer_set_up, peer_tear_down)
{
    struct peer *p = *state;
    uint64_t at = p->base + 16 * p->granule;
    assert_int_equal(create(p, 1, 0), INVALID);
    assert_int_equal(create(p, 1, p->granule / 2), INVALID);
    assert_int_equal(create(p, 1, UINT64_MAX & ~(p->granule - 1)), INVALID);
    assert_int_equal(create(p, UINT32_MAX, p->granule), INVALID);
    assert_int_equal(create(p, 1, p->hello.window_size), OUT_OF_MEMORY);
    assert_int_equal(PLAIN(p, handle_create, handle_create_args, { 1, 99, p->granule }), NO_DEVICE);
    assert_int_equal(create(p, 1, 2 * p->granule), 0);
    assert_int_equal(create(p, 1, p->granule), INVALID);      /* the id is in use */
    assert_int_equal(map(p, 2, at), INVALID);
    assert_int_equal(map(p, 1, at + 512), INVALID);
    assert_int_equal(map(p, 1, p->base + p->hello.window_size - p->granule), INVALID);
    assert_int_equal(map(p, 1, p->base - p->granule), INVALID);
    assert_int_equal(map(p, 1, UINT64_MAX & ~(p->granule - 1)), INVALID);
    assert_int_equal(map(p, 1, at), 0);
    assert_int_equal(map(p, 1, at + p->granule), INVALID);    /* something is there */
    assert_int_equal(allow(p, at, p->granule), INVALID);      /* a part */
    assert_int_equal(allow(p, at, UINT64_MAX & ~(p->granule - 1)), INVALID);
    assert_int_equal(unmap(p, at + p->granule, p->granule), INVALID);
    assert_int_equal(unmap(p, at, 4 * p->granule), INVALID);
    assert_int_equal(release(p, 2), INVALID);
    assert_int_equal(allow(p, at, 2 * p->granule), 0);
}

/* Pieces of MAP and mappings of handles are two things. */
TEST_WITH(pieces_are_no_mappings, peer_set_up, peer_tear_down)
{
    struct peer *p = *state;
    uint64_t at = p->base + 16 * p->granule;
    assert_int_equal(peer_map(p, p->base, p->granule), 0);
    assert_int_equal(create(p, 1, p->granule), 0);
    assert_int_equal(map(p, 1, p->base), INVALID);
    assert_int_equal(map(p, 1, at), 0);
    assert_int_equal(unmap(p, p->base, p->granule), INVALID);
    flyt_unmap_1(&(unmap_args){ p->context, at, p->granule }, NULL, p->stub);
    assert_int_equal(latched(p), INVALID);
    assert_int_equal(peer_map(p, at, p->granule), INVALID);
    assert_int_equal(peer_context_reset(p), 0);               /* MAP's goes with the context, handles stay */
    assert_int_equal(unmap(p, at, p->granule), 0);
    assert_int_equal(release(p, 1), 0);
}

int main(void) { return unit_run(NULL, NULL); }
