/* shows: The server: memory that one program exports and another imports: keys that nobody gave are refused, whatever
 *   they look like; the tenant's books count it once, as long as anybody has it
 * shows: moving: a program that shares memory with others is refused, and these are named; one of which nobody has
 *   opened a handle is said to share with nobody yet
 * shows: moving: memory is exported again under the name that it had at another server, and found by it; nobody gets
 *   memory of a program that leaves; one that has ended is no partner any more */
/* shares.c: HANDLE_EXPORT, HANDLE_IMPORT, MEMORY_EXPORT, SHARE_AGAIN and PARTNERS, spoken by hand to two workers of one
   server. */
#include <endian.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

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

/* As a session that comes from another server says it. */
static int again(struct peer *p, uint32_t handle, uint64_t session, uint64_t number, char *share)
{
    share_again_args args = { .handle = handle };
    plain_result result = { 0 };
    memset(args.share, 0x5a, sizeof args.share);
    session = htobe64(session);
    number = htobe64(number);
    memcpy(args.share, &session, sizeof session);
    memcpy(args.share + 8, &number, sizeof number);
    memcpy(share, args.share, sizeof args.share);
    assert_int_equal(flyt_share_again_1(&args, &result, p->stub), RPC_SUCCESS);
    return (int)result.head.result;
}

static unsigned partners(struct peer *p, bool leaves, uint64_t *first)
{
    partners_args args = { .most = FLYT_MAX_PARTNERS, .leaves = leaves };
    partners_result result = { 0 };
    assert_int_equal(flyt_partners_1(&args, &result, p->stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    assert_int_equal(result.session, p->hello.session);
    unsigned count = result.partners.partners_len;
    if (count)
        *first = result.partners.partners_val[0];
    xdr_free((xdrproc_t)xdr_partners_result, (char *)&result);
    return count;
}

/* Programs that move together name their memory as they did at the server before. */
TEST_WITH(names_of_before, begin, end)
{
    struct fixture *f = *state;
    const uint64_t elsewhere = UINT64_C(0x7ffffff000000001); /* no worker has that process id */
    char share[FLYT_SHARE_SIZE], wrong[FLYT_SHARE_SIZE], own[FLYT_SHARE_SIZE];
    uint64_t size, partner = 0;
    assert_int_equal(create(&f->a, 1, 2 * MIB), 0);
    assert_int_equal(create(&f->a, 2, 4 * MIB), 0);
    assert_int_equal(again(&f->a, 1, elsewhere, 7, share), 0);
    assert_int_equal(again(&f->a, 2, elsewhere, 7, wrong), INVALID); /* there is one of that number */
    assert_int_equal(again(&f->a, 2, elsewhere, 0, wrong), INVALID);
    assert_int_equal(again(&f->a, 9, elsewhere, 8, wrong), INVALID); /* no such handle */
    assert_int_equal(partners(&f->a, false, &partner), 0);
    assert_int_equal(import(&f->b, 1, share, &size), 0);
    assert_int_equal(size, 2 * MIB);
    assert_int_equal(again(&f->b, 1, elsewhere, 9, wrong), INVALID); /* it is another program's */
    assert_int_equal(partners(&f->a, false, &partner), 1);
    assert_true(partner == f->b.hello.session);
    assert_int_equal(partners(&f->b, false, &partner), 1);
    assert_true(partner == f->a.hello.session);
    /* Numbers stay unique, also that of the other worker's session. */
    assert_int_equal(export(&f->a, 2, own), 0);
    assert_int_equal((uint8_t)own[15], 8);
    assert_int_equal(again(&f->a, 2, f->b.hello.session, 20, wrong), 0);
    assert_int_equal(import(&f->b, 2, wrong, &size), 0);
    assert_int_equal(size, 4 * MIB);
    wrong[31] ^= 1;
    assert_int_equal(import(&f->b, 3, wrong, &size), INVALID);
    flyt_share_end_1(&(share_end_args){ 7 }, NULL, f->a.stub);
    assert_int_equal(peer_context_sync(&f->a), 0);
    assert_int_equal(import(&f->b, 4, share, &size), INVALID);
    assert_int_equal(import(&f->b, 5, own, &size), 0);
    kill((pid_t)(f->b.hello.session >> 32), SIGKILL);
    for (int tries = 0; partners(&f->a, false, &partner); tries++) {
        assert_true(tries < 1000);
        usleep(10000);
    }
}

struct import_later {
    struct peer *peer;
    char share[FLYT_SHARE_SIZE];
    int code;
    atomic_bool ended;
};

static void *import_now(void *context)
{
    struct import_later *later = context;
    later->code = import(later->peer, 1, later->share, NULL);
    atomic_store(&later->ended, true);
    return NULL;
}

/* Nobody gets memory of a program that stands still because it leaves; if it stays after all, they do. */
TEST_WITH(one_that_leaves, begin, end)
{
    struct fixture *f = *state;
    struct import_later later = { .peer = &f->b };
    uint64_t partner;
    pthread_t thread;
    assert_int_equal(create(&f->a, 1, 2 * MIB), 0);
    assert_int_equal(export(&f->a, 1, later.share), 0);
    assert_int_equal(partners(&f->a, true, &partner), 0);
    assert_int_equal(pthread_create(&thread, NULL, import_now, &later), 0);
    usleep(200000);
    assert_false(atomic_load(&later.ended));
    assert_int_equal(partners(&f->a, false, &partner), 0);
    pthread_join(thread, NULL);
    assert_int_equal(later.code, 0);
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
