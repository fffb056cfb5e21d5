/*
 * What a GPU server accepts as a ticket (cpu/server/listener/ticket.c): its own, once, in time, from a cluster that it
 * knows.
 * shows: tickets: forged, expired, replayed, cut, changed, another server's and another cluster's are refused by the
  *   GPU server
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/ticket.h"
#include "cpu/server/listener/ticket.h"
#include "tests/lib/keys.h"
#include "tests/lib/unit.h"

static char folder[] = "/tmp/flyt-ticket-XXXXXX";
static struct ticket_signer *ours, *theirs;
static char refusal[TICKET_REFUSAL_SIZE];

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000;
}

static size_t make(const struct ticket_signer *signer, uint64_t server, int64_t lives, uint8_t *bytes)
{
    size_t size = TICKET_MAX_SIZE;
    struct ticket ticket = { .tenant = "vm", .node = "n", .gpu = "g", .server = server, .program = 5, .sms = 1,
                             .memory = 1 << 20,
                             .issued = now() - 600 * 1000000ll, .expires = now() + lives * 1000000 };
    assert_int_equal(ticket_sign(signer, &ticket, bytes, &size, NULL), 0);
    return size;
}

static void refused(const void *bytes, size_t size, const char *words)
{
    refusal[0] = '\0';
    assert_int_equal(ticket_check(bytes, size, refusal), -1);
    if (!strstr(refusal, words))
        fail_msg("'%s' does not say '%s'", refusal, words);
}

static void write_keys(const struct ticket_signer *signer)
{
    char path[128];
    snprintf(path, sizeof path, "%s/keys", folder);
    keys_write(path, signer);
}

static int setup(void **state)
{
    char path[128], keys[128];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/ours", folder);
    assert_int_equal(ticket_signer_open(path, &ours, NULL), 0);
    snprintf(path, sizeof path, "%s/theirs", folder);
    assert_int_equal(ticket_signer_open(path, &theirs, NULL), 0);
    assert_int_equal(ticket_check("", 0, refusal), 0);          /* not of a cluster: all are welcome */
    write_keys(ours);
    snprintf(keys, sizeof keys, "%s/keys", folder);
    assert_int_equal(ticket_configure(keys, folder, "42"), 0);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    ticket_signer_close(ours);
    ticket_signer_close(theirs);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

TEST(test_accepted_once)
{
    uint8_t bytes[TICKET_MAX_SIZE], other[TICKET_MAX_SIZE];
    char path[160];
    size_t size = make(ours, 42, 60, bytes), other_size = make(ours, 42, 60, other);
    assert_int_equal(ticket_check(bytes, size, refusal), 0);
    refused(bytes, size, "used already");
    assert_int_equal(ticket_check(other, other_size, refusal), 0);
    refused(bytes, size, "used already");
    snprintf(path, sizeof path, "%s/programs/5.%d", folder, (int)getpid());
    assert_int_equal(access(path, F_OK), 0);
}

TEST(test_refused)
{
    uint8_t bytes[TICKET_MAX_SIZE];
    refused(NULL, 0, "wants a ticket");
    refused("nonsense", 8, "not accepted");
    size_t size = make(ours, 43, 60, bytes);
    refused(bytes, size, "not accepted");                       /* another tenant's server */
    size = make(ours, 42, -120, bytes);
    refused(bytes, size, "not accepted");                       /* expired */
    size = make(theirs, 42, 60, bytes);
    refused(bytes, size, "not accepted");                       /* of another cluster */
    size = make(ours, 42, 60, bytes);
    for (size_t i = 0; i < size; i++) {                         /* any byte changed */
        bytes[i] ^= 1;
        refused(bytes, size, "not accepted");
        bytes[i] ^= 1;
        refused(bytes, i, i ? "not accepted" : "wants a ticket");   /* cut */
    }
    bytes[size] = 0;
    refused(bytes, size + 1, "not accepted");
    assert_int_equal(ticket_check(bytes, size, refusal), 0);    /* and it was good all the time */
}

/* The node manager has been told that the program has ended, or that its VM has a new secret. */
TEST(test_revoked)
{
    uint8_t bytes[TICKET_MAX_SIZE];
    char path[160];
    snprintf(path, sizeof path, "%s/revoked", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/revoked/5", folder);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    size_t size = make(ours, 42, 60, bytes);
    refused(bytes, size, "its program has ended");
    /* Tickets from then expire by themselves: the mark is removed. */
    const struct timespec long_ago = { .tv_sec = time(NULL) - 3600 }, times[2] = { long_ago, long_ago };
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(ticket_check(bytes, size, refusal), 0);
    assert_int_not_equal(access(path, F_OK), 0);
}

TEST(test_keys_change)
{
    uint8_t bytes[TICKET_MAX_SIZE];
    char path[128];
    write_keys(theirs);
    size_t size = make(theirs, 42, 60, bytes);
    assert_int_equal(ticket_check(bytes, size, refusal), 0);
    snprintf(path, sizeof path, "%s/keys", folder);
    FILE *file = fopen(path, "we");
    fputs("no key\n", file);
    fclose(file);
    size = make(theirs, 42, 60, bytes);
    refused(bytes, size, "no key");
    unlink(path);
    refused(bytes, size, "no key");
    write_keys(ours);
}

/* What has expired is not kept. */
TEST(test_forgotten)
{
    uint8_t bytes[TICKET_MAX_SIZE];
    char path[160];
    size_t size = make(ours, 42, 60, bytes);
    assert_int_equal(ticket_check(bytes, size, refusal), 0);
    snprintf(path, sizeof path, "touch -d 1970-01-02 %s/nonces/*", folder);
    assert_int_equal(system(path), 0);
    size = make(ours, 42, 60, bytes);
    assert_int_equal(ticket_check(bytes, size, refusal), 0);
    snprintf(path, sizeof path, "%s/nonces", folder);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    int count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    assert_int_equal(count, 3);         /* . .. and the new one */
}

int main(void) { return unit_run(setup, teardown); }
