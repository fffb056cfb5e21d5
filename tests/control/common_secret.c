/* Secrets: files, sources, proofs. */
#include <sys/stat.h>
#include <unistd.h>

#include <errno.h>

#include "cpu/common/secret.h"
#include "tests/lib/unit.h"

static char path[64], error[1024];

TEST(test_files)
{
    struct secret secret;
    char source[80], long_text[SECRET_MAX_SIZE + 2];
    snprintf(path, sizeof path, "/tmp/flyt-secret-%d", (int)getpid());
    assert_int_equal(secret_write(path, "swordfish\n", 10, error), 0);
    assert_int_equal(secret_read(path, &secret, error), 0);
    assert_int_equal(secret.size, 9);
    assert_memory_equal(secret.bytes, "swordfish", 9);
    const struct { mode_t mode; int result; } modes[] = { { 0600, 0 }, { 0400, 0 }, { 0640, 0 }, { 0440, 0 },
                                                          { 0644, -EPERM },
                                                          { 0660, -EPERM }, { 0602, -EPERM }, { 0601, -EPERM } };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(path, modes[i].mode), 0);
        assert_int_equal(secret_read(path, &secret, error), modes[i].result);
    }
    assert_non_null(strstr(error, "chmod 600"));
    assert_int_equal(secret_write(path, "other", 5, error), 0);     /* a new file, with the right mode */
    snprintf(source, sizeof source, "file:%s", path);
    assert_int_equal(secret_resolve(source, false, &secret, error), 0);
    assert_memory_equal(secret.bytes, "other", 5);
    assert_int_equal(secret_write(path, "\n", 1, error), 0);
    assert_int_equal(secret_read(path, &secret, error), -EINVAL);
    memset(long_text, 'x', sizeof long_text);
    assert_int_equal(secret_write(path, long_text, sizeof long_text, error), 0);
    assert_int_equal(secret_read(path, &secret, error), -EINVAL);
    unlink(path);
    assert_int_equal(secret_read(path, &secret, error), -ENOENT);
    assert_int_equal(secret_read("/tmp", &secret, error), -EPERM);
}

static mode_t mode_of(const char *file)
{
    struct stat status;
    assert_int_equal(stat(file, &status), 0);
    return status.st_mode & 07777;
}

/* What root writes into a folder that it has made for a group's files belongs to that group, which may read it. */
TEST(test_for_daemon)
{
    char folder[64], file[80];
    snprintf(folder, sizeof folder, "/tmp/flyt-secret-folder-%d", (int)getpid());
    snprintf(file, sizeof file, "%s/secret", folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(secret_write_for_daemon(file, "x", 1, error), 0);
    assert_int_equal(mode_of(file), 0600);
    if (geteuid() == 0) {
        struct stat status;
        assert_int_equal(chown(folder, 0, 12345), 0);
        assert_int_equal(chmod(folder, 02755), 0);
        assert_int_equal(secret_write_for_daemon(file, "x", 1, error), 0);
        assert_int_equal(mode_of(file), 0640);
        assert_int_equal(stat(file, &status), 0);
        assert_int_equal(status.st_gid, 12345);
        assert_int_equal(secret_write(file, "x", 1, error), 0);
        assert_int_equal(mode_of(file), 0600);          /* an authority's key is nobody else's */
        assert_int_equal(chown(folder, 12345, 12345), 0);
        assert_int_equal(chmod(folder, 02755), 0);
        assert_int_equal(secret_write_for_daemon(file, "x", 1, error), 0);
        assert_int_equal(mode_of(file), 0600);          /* somebody else's folder */
    }
    unlink(file);
    rmdir(folder);
}

TEST(test_sources)
{
    struct secret secret;
    setenv("FLYT_TEST_SECRET", "from outside", 1);
    assert_int_equal(secret_resolve("env:FLYT_TEST_SECRET", false, &secret, error), 0);
    assert_int_equal(secret.size, 12);
    assert_int_equal(secret_resolve("env:FLYT_TEST_NO_SUCH", false, &secret, error), -ENOENT);
    assert_int_equal(secret_resolve("plain", false, &secret, error), -EPERM);
    assert_int_equal(secret_resolve("plain", true, &secret, error), 0);
    secret_wipe(&secret);
    assert_int_equal(secret.size, 0);
}

TEST(test_proofs)
{
    struct secret right = { .size = 5, .bytes = "right" }, wrong = { .size = 5, .bytes = "wrong" };
    uint8_t stored[SECRET_STORED_SIZE], proof[SECRET_PROOF_SIZE], one[32] = { 1 }, two[32] = { 2 }, transcript[200];
    secret_stored(&right, stored);
    size_t size = secret_transcript(one, two, 2, "vm-7", transcript, sizeof transcript);
    assert_int_equal(size, 72);
    secret_proof(&right, transcript, size, proof);
    assert_true(secret_verify(stored, transcript, size, proof));
    for (size_t i = 0; i < size; i++) {                 /* another role, name, nonce */
        transcript[i] ^= 1;
        assert_false(secret_verify(stored, transcript, size, proof));
        transcript[i] ^= 1;
    }
    secret_proof(&wrong, transcript, size, proof);
    assert_false(secret_verify(stored, transcript, size, proof));
    assert_false(secret_verify(stored, transcript, size, stored));      /* what the DB knows is no proof */
    assert_int_equal(secret_transcript(one, two, 2, "vm-7", transcript, 71), 0);
}

/* The listener proves itself too, and both proofs belong to one connection. */
TEST(test_answers)
{
    struct secret right = { .size = 5, .bytes = "right" }, wrong = { .size = 5, .bytes = "wrong" };
    uint8_t stored[SECRET_STORED_SIZE], proof[SECRET_PROOF_SIZE], answer[SECRET_PROOF_SIZE], transcript[200],
        other[200];
    uint8_t one[32] = { 1 }, two[32] = { 2 };
    secret_stored(&right, stored);
    size_t plain = secret_transcript(one, two, 2, "vm-7", transcript, sizeof transcript);
    memcpy(other, transcript, plain);
    assert_int_equal(secret_bind(transcript, plain, plain + SECRET_BINDING_SIZE, one), 0);      /* no room */
    size_t size = secret_bind(transcript, plain, sizeof transcript, one);
    assert_int_equal(size, plain + 1 + SECRET_BINDING_SIZE);
    assert_int_equal(secret_bind(other, plain, sizeof other, two), size);
    secret_proof(&right, transcript, size, proof);
    secret_answer(stored, transcript, size, answer);
    assert_true(secret_verify(stored, transcript, size, proof));
    assert_true(secret_answer_verify(&right, transcript, size, answer));
    /* On another connection neither is worth anything. */
    assert_false(secret_verify(stored, other, size, proof));
    assert_false(secret_answer_verify(&right, other, size, answer));
    /* Nor in each other's place, nor of another secret. */
    assert_false(secret_verify(stored, transcript, size, answer));
    assert_false(secret_answer_verify(&right, transcript, size, proof));
    assert_false(secret_answer_verify(&right, transcript, size, stored));
    assert_false(secret_answer_verify(&wrong, transcript, size, answer));
}

TEST(test_make)
{
    char a[SECRET_TEXT_SIZE + 1], b[SECRET_TEXT_SIZE + 1];
    assert_int_equal(secret_make(a), 0);
    assert_int_equal(secret_make(b), 0);
    assert_int_equal(strspn(a, "0123456789abcdef"), SECRET_TEXT_SIZE);
    assert_string_not_equal(a, b);
}

int main(void) { return unit_run(NULL, NULL); }
