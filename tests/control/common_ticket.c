/* Tickets: what is signed is believed, nothing else. */
#include <sys/stat.h>
#include <unistd.h>

#include <errno.h>

#include "cpu/common/ticket.h"
#include "tests/lib/unit.h"

#define SECOND INT64_C(1000000)
static char path[64], error[1024];
static struct ticket_signer *signer;
static uint8_t key[1][TICKET_KEY_SIZE];
static const int64_t now = 1700000000 * SECOND;

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/flyt-ticket-%d.key", (int)getpid());
    assert_int_equal(ticket_signer_open(path, &signer, error), 0);
    ticket_signer_key(signer, key[0]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ticket_signer_close(signer);
    unlink(path);
    return 0;
}

static size_t make(uint8_t *out, struct ticket *ticket)
{
    size_t size = TICKET_MAX_SIZE;
    *ticket = (struct ticket){ .tenant = "vm-7", .node = "n1", .gpu = "GPU-1", .server = 42, .program = 43, .sms = 8,
                               .memory = UINT64_C(5) << 32, .issued = now, .expires = now + 60 * SECOND };
    assert_int_equal(ticket_sign(signer, ticket, out, &size, error), 0);
    return size;
}

TEST(test_round)
{
    uint8_t bytes[TICKET_MAX_SIZE];
    struct ticket in, out;
    size_t size = make(bytes, &in);
    assert_int_equal(ticket_verify(key, 1, bytes, size, now, 42, &out, error), 0);
    assert_string_equal(in.tenant, out.tenant);        /* field by field: what is between them is nobody's */
    assert_string_equal(in.node, out.node);
    assert_string_equal(in.gpu, out.gpu);
    assert_true(in.server == out.server && in.program == out.program && in.sms == out.sms && in.memory == out.memory);
    assert_true(in.issued == out.issued && in.expires == out.expires);
    assert_memory_equal(in.nonce, out.nonce, sizeof in.nonce);
    assert_int_equal(ticket_verify(key, 1, bytes, size, now, 0, &out, error), 0);
}

/* Every single bit counts, and so does the length. */
TEST(test_tampered)
{
    uint8_t bytes[TICKET_MAX_SIZE + 1] = { 0 };
    struct ticket in, out;
    size_t size = make(bytes, &in);
    for (size_t i = 0; i < 8 * size; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        if (ticket_verify(key, 1, bytes, size, now, 42, &out, error) == 0)
            fail_msg("bit %zu does not count", i);
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t shorter = 0; shorter < size; shorter++)
        assert_int_not_equal(ticket_verify(key, 1, bytes, shorter, now, 42, &out, error), 0);
    assert_int_not_equal(ticket_verify(key, 1, bytes, size + 1, now, 42, &out, error), 0);
    assert_int_equal(ticket_verify(key, 1, bytes, size, now, 42, &out, error), 0);
}

TEST(test_times)
{
    uint8_t bytes[TICKET_MAX_SIZE];
    struct ticket in, out;
    size_t size = make(bytes, &in);
    assert_int_equal(ticket_verify(key, 1, bytes, size, now + 59 * SECOND, 42, &out, error), 0);
    assert_int_equal(ticket_verify(key, 1, bytes, size, now + 60 * SECOND, 42, &out, error), -EKEYEXPIRED);
    assert_int_equal(ticket_verify(key, 1, bytes, size, now - 29 * SECOND, 42, &out, error), 0);
    assert_int_equal(ticket_verify(key, 1, bytes, size, now - 31 * SECOND, 42, &out, error), -EKEYEXPIRED);
    assert_non_null(strstr(error, "clocks"));
}

TEST(test_others)
{
    uint8_t bytes[TICKET_MAX_SIZE], keys[2][TICKET_KEY_SIZE] = { { 0 } };
    struct ticket in, out;
    size_t size = make(bytes, &in);
    assert_int_equal(ticket_verify(key, 1, bytes, size, now, 41, &out, error), -EACCES);
    assert_int_equal(ticket_verify(keys, 1, bytes, size, now, 42, &out, error), -EKEYREJECTED);
    memcpy(keys[1], key[0], TICKET_KEY_SIZE);           /* keys that roll over: any may have signed */
    assert_int_equal(ticket_verify(keys, 2, bytes, size, now, 42, &out, error), 0);
    assert_int_equal(ticket_verify(key, 0, bytes, size, now, 42, &out, error), -EKEYREJECTED);
}

TEST(test_replay)
{
    uint8_t bytes[TICKET_MAX_SIZE];
    struct ticket first, ticket;
    struct ticket_guard *guard = ticket_guard_create(100);
    make(bytes, &first);
    assert_int_equal(ticket_guard_use(guard, &first, 1, now, error), 0);
    assert_int_equal(ticket_guard_use(guard, &first, 1, now, error), -EALREADY);
    for (int i = 1; i < 100; i++) {
        make(bytes, &ticket);
        assert_int_equal(ticket_guard_use(guard, &ticket, 1, now, error), 0);
    }
    make(bytes, &ticket);                               /* full: refused, not forgotten */
    assert_int_equal(ticket_guard_use(guard, &ticket, 1, now + SECOND, error), -ENOSPC);
    assert_int_equal(ticket_guard_use(guard, &first, 1, now + SECOND, error), -EALREADY);
    ticket.expires += 600 * SECOND;                     /* once they have expired there is room again */
    assert_int_equal(ticket_guard_use(guard, &ticket, 1, now + 61 * SECOND, error), 0);
    assert_int_equal(ticket_guard_use(guard, &ticket, 1, now + 61 * SECOND, error), -EALREADY);
    ticket_guard_destroy(guard);
}

TEST(test_key)
{
    struct ticket_signer *again;
    uint8_t same[TICKET_KEY_SIZE];
    struct stat status;
    FILE *file;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(ticket_signer_open(path, &again, error), 0);
    ticket_signer_key(again, same);
    assert_memory_equal(same, key[0], TICKET_KEY_SIZE);
    ticket_signer_close(again);
    assert_int_equal(chmod(path, 0644), 0);             /* others could sign with it */
    assert_int_equal(ticket_signer_open(path, &again, error), -EPERM);
    assert_non_null(strstr(error, "chmod 600"));
    assert_int_equal(chmod(path, 0600), 0);
    file = fopen(path, "w");
    fputs("no key\n", file);
    fclose(file);
    assert_int_equal(ticket_signer_open(path, &again, error), -EINVAL);
}

int main(void) { return unit_run(setup, teardown); }
