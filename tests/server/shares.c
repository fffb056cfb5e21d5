/* shows: The server: memory that one program exports and another imports: keys that nobody gave are refused, whatever
 *   they look like; the tenant's books count it once, as long as anybody has it
 * shows: moving: a program that shares memory with others is refused, and these are named; one of which nobody has
 *   opened a handle is said to share with nobody yet */
/* shares.c: HANDLE_EXPORT, HANDLE_IMPORT and MEMORY_EXPORT, spoken by hand to two workers of one server. */
#include <signal.h>

#include "tests/server/ledger.h"

enum { INVALID = 1, OUT_OF_MEMORY = 2 };

static int begin(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    ledger_begin(f, "software");
    assert_true(f->a.hello.capabilities & FLYT_CAP_SHARES);
    *state = f;
    return 0;
}

static int end(void **state)
{
    ledger_end(*state);
    free(*state);
    return 0;
}

static int create(struct peer *p, uint32_t handle, uint64_t size)
{
    handle_create_args args = { handle, 0, size };
    plain_result result = { 0 };
    assert_int_equal(flyt_handle_create_1(&args, &result, p->stub), RPC_SUCCESS);
    int code = result.head.result;
    xdr_free((xdrproc_t)xdr_plain_result, (char *)&result);
    return code;
}

static void release(struct peer *p, uint32_t handle)
{
    flyt_handle_release_1(&(handle_release_args){ handle }, NULL, p->stub);
    peer_context_sync(p);
}

static int export(struct peer *p, uint32_t handle, char *share)
{
    handle_export_args args = { handle };
    export_result result = { 0 };
    assert_int_equal(flyt_handle_export_1(&args, &result, p->stub), RPC_SUCCESS);
    int code = result.head.result;
    memcpy(share, result.share, FLYT_SHARE_SIZE);
    xdr_free((xdrproc_t)xdr_export_result, (char *)&result);
    return code;
}

static int export_range(struct peer *p, uint64_t offset, uint64_t size)
{
    memory_export_args args = { p->base + offset, size };
    export_result result = { 0 };
    assert_int_equal(flyt_memory_export_1(&args, &result, p->stub), RPC_SUCCESS);
    int code = result.head.result;
    xdr_free((xdrproc_t)xdr_export_result, (char *)&result);
    return code;
}

static int import(struct peer *p, uint32_t handle, const char *share, uint64_t *size)
{
    handle_import_args args = { .handle = handle };
    import_result result = { 0 };
    memcpy(args.share, share, FLYT_SHARE_SIZE);
    assert_int_equal(flyt_handle_import_1(&args, &result, p->stub), RPC_SUCCESS);
    int code = result.head.result;
    if (size)
        *size = result.size;
    xdr_free((xdrproc_t)xdr_import_result, (char *)&result);
    return code;
}

TEST_WITH(counted_once, begin, end)
{
    struct fixture *f = *state;
    char share[FLYT_SHARE_SIZE];
    uint64_t size = 0;
    assert_int_equal(create(&f->a, 1, 40 * MIB), 0);
    assert_int_equal(held(f), f->idle + 40 * MIB);
    assert_int_equal(export(&f->a, 1, share), 0);
    assert_int_equal(held(f), f->idle + 40 * MIB);
    assert_int_equal(import(&f->b, 1, share, &size), 0);
    assert_int_equal(size, 40 * MIB);
    assert_int_equal(import(&f->b, 2, share, &size), 0);
    assert_int_equal(import(&f->b, 2, share, &size), INVALID); /* the client has used the name already */
    assert_int_equal(import(&f->a, 2, share, &size), 0);       /* its own */
    assert_int_equal(held(f), f->idle + 40 * MIB);
    release(&f->a, 2);
    release(&f->b, 2);
    release(&f->a, 1);
    assert_int_equal(held(f), f->idle + 40 * MIB); /* of b */
    assert_int_equal(create(&f->a, 1, 40 * MIB), OUT_OF_MEMORY);
    assert_int_equal(import(&f->b, 2, share, &size), INVALID); /* its end was the export's */
    release(&f->b, 1);
    assert_int_equal(held(f), f->idle);
    assert_int_equal(create(&f->a, 1, 40 * MIB), 0);
    assert_int_equal(export(&f->a, 1, share), 0);
    assert_int_equal(import(&f->b, 1, share, &size), 0);
    kill((pid_t)(f->a.hello.session >> 32), SIGKILL);
    held_becomes(f, f->idle / 2 + 40 * MIB);
    assert_int_equal(import(&f->b, 2, share, &size), INVALID);
    release(&f->b, 1);
    held_becomes(f, f->idle / 2);
}

static void refusal(struct peer *p, char text[FLYT_MAX_SHORT + 1])
{
    movable_result result = { 0 };
    assert_int_equal(flyt_movable_1(&(movable_args){ 0 }, &result, p->stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    snprintf(text, FLYT_MAX_SHORT + 1, "%s", result.refusal);
    xdr_free((xdrproc_t)xdr_movable_result, (char *)&result);
}

/* Either of the two may be asked to move. */
TEST_WITH(partners_named, begin, end)
{
    struct fixture *f = *state;
    char share[FLYT_SHARE_SIZE], text[FLYT_MAX_SHORT + 1];
    assert_int_equal(create(&f->a, 1, 2 * MIB), 0);
    assert_int_equal(export(&f->a, 1, share), 0);
    refusal(&f->a, text);
    assert_non_null(strstr(text, "no other program has any of it yet"));
    refusal(&f->b, text);
    assert_string_equal(text, "");
    assert_int_equal(import(&f->a, 2, share, NULL), 0);         /* its own */
    assert_int_equal(import(&f->b, 1, share, NULL), 0);
    assert_int_equal(import(&f->b, 2, share, NULL), 0);
    for (int i = 0; i < 2; i++) {
        refusal(i ? &f->b : &f->a, text);
        const char *at = strstr(text, "the others are ");
        if (!at || strchr(at, ','))                             /* one, and named once */
            fail_msg("%s", text);
    }
    release(&f->b, 1);
    release(&f->b, 2);
    refusal(&f->b, text);
    assert_string_equal(text, "");
}

TEST_WITH(wrong_keys, begin, end)
{
    struct fixture *f = *state;
    char share[FLYT_SHARE_SIZE], wrong[FLYT_SHARE_SIZE];
    assert_int_equal(create(&f->a, 1, 2 * MIB), 0);
    assert_int_equal(export(&f->a, 1, share), 0);
    for (int bit = 0; bit < 8 * FLYT_SHARE_SIZE; bit++) {
        memcpy(wrong, share, sizeof wrong);
        wrong[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(import(&f->b, 1, wrong, NULL), INVALID);
    }
    memset(wrong, 0, sizeof wrong);
    assert_int_equal(import(&f->b, 1, wrong, NULL), INVALID);
    memset(wrong, 0xff, sizeof wrong);
    assert_int_equal(import(&f->b, 1, wrong, NULL), INVALID);
    assert_int_equal(export(&f->a, 9, wrong), INVALID);
    assert_int_equal(import(&f->b, 1, share, NULL), 0);
    assert_int_equal(export(&f->b, 1, wrong), INVALID);         /* it is another program's */
    assert_int_equal(export_range(&f->a, 0, 2 * MIB), INVALID); /* nothing is there */
    assert_int_equal(export_range(&f->a, UINT64_MAX / 2, 2 * MIB), INVALID);
    assert_int_equal(export_range(&f->a, 0, UINT64_MAX), INVALID);
    assert_int_equal(export_range(&f->a, 0, 0), INVALID);
    flyt_share_end_1(&(share_end_args){ 12345 }, NULL, f->a.stub);
    assert_int_equal(peer_context_sync(&f->a), 0);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(export(&f->a, 1, wrong), 0);
    assert_int_equal(import(&f->b, 2, share, NULL), 0);
    assert_int_equal(import(&f->b, 3, wrong, NULL), 0);
}

int main(void) { return unit_run(NULL, NULL); }
