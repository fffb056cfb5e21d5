/* small: log lines, time, copies past the caches, descriptors. */
#include "cpu/common/clock.h"
#include "cpu/common/fd.h"
#include "cpu/common/log.h"
#include "cpu/common/past_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/unit.h"

enum { TEXT_SIZE = 1 << 18 };

static int log_pipe[2];
static char text[TEXT_SIZE];

static int log_set_up(void **state)
{
    (void)state;
    if (pipe(log_pipe) != 0)
        return -1;
    log_set_fd(log_pipe[1]);
    return 0;
}

static const char *logged(void)
{
    close(log_pipe[1]);
    size_t used = 0;
    ssize_t got;
    while (used < sizeof text - 1 && (got = read(log_pipe[0], text + used, sizeof text - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = 0;
    close(log_pipe[0]);
    log_set_fd(2);
    return text;
}

TEST_WITH(levels, log_set_up, NULL)
{
    char wanted[128];
    errno = ENOENT;
    log_set_name("small");
    log_error("number %d", 1);
    log_warning("%s", "two");
    log_info("not at the default level");
    log_debug("nor this");
    assert_int_equal(errno, ENOENT);
    assert_true(log_enabled(LOG_LEVEL_WARNING));
    assert_false(log_enabled(LOG_LEVEL_INFO));
    snprintf(wanted, sizeof wanted, "small[%d] error: number 1\nsmall[%d] warning: two\n", getpid(), getpid());
    assert_string_equal(logged(), wanted);
}

TEST_WITH(long_line, log_set_up, NULL)
{
    static char many[20000];
    memset(many, 'x', sizeof many - 1);
    log_error("%s", many);
    log_error("next");
    const char *got = logged();
    const char *end = strchr(got, '\n');
    assert_non_null(end);
    assert_in_range(end - got, 2000, 4096);             /* cut, and still one line */
    assert_non_null(strstr(end, "error: next\n"));
}

/* What a peer wrote can break neither the line nor the quotes. */
TEST(foreign_text)
{
    char out[16];
    assert_string_equal(log_text(out, sizeof out, "plain"), "plain");
    assert_string_equal(log_text(out, sizeof out, "a\nb\t\"c\" \x7f"), "a b 'c'  ");
    assert_string_equal(log_text(out, sizeof out, "0123456789abcdefgh"), "0123456789abcde");
    assert_string_equal(log_text(out, sizeof out, ""), "");
    assert_string_equal(log_text(out, sizeof out, "\xc3\xa4\xe2\x80\xae\xff\xc2\x9b"), "\xc3\xa4??????");
    assert_string_equal(log_text(out, sizeof out, "0123456789abcd\xc3\xa4"), "0123456789abcd");
    assert_string_equal(log_value(out, sizeof out, "vm-1:x/=y"), "vm-1:x/=y");
    assert_string_equal(log_value(out, sizeof out, "a b"), "\"a b\"");
    assert_string_equal(log_value(out, sizeof out, "a\"event=b"), "\"a'event=b\"");
    assert_string_equal(log_value(out, sizeof out, "a 0123456789abcdef"), "\"a 0123456789a\"");
}

/* What fills an event's values never ends a value, and never begins another one. */
TEST_WITH(events, log_set_up, NULL)
{
    char wanted[1024];
    const char *fake = "x\" event=fake y=\"z";
    log_error("event=one vm=%s why=\"%s\"%s: %s and 100%%", fake, fake, " more=1", "so\nit is");
    log_error("event=two n=%d u=%u l=%ld L=%llu z=%zu x=0x%llx g=%.1f s=%.*s c=%c w=\"%.3s|%-4s|%3d\" end=%s", -1, 2u,
              -3L, 4ull, (size_t)5, 0x6ull, 7.25, 3, "abcdef", 'c', "abcdef", "ab", 9, "");
    log_error("a sentence with \"%s\"", fake);
    const char *got = logged();
    snprintf(wanted, sizeof wanted,
             "small[%d] error: event=one vm=\"x' event=fake y='z\" why=\"x' event=fake y='z\" more=1: so it is and "
             "100%%\n"
             "small[%d] error: event=two n=-1 u=2 l=-3 L=4 z=5 x=0x6 g=7.2 s=abc c=c w=\"abc|ab  |  9\" end=\n"
             "small[%d] error: a sentence with \"%s\"\n",
             getpid(), getpid(), getpid(), fake);
    assert_string_equal(got, wanted);
}

/* $JOURNAL_STREAM names the descriptor: the priority stands before each line. It names another one: it does not. */
TEST_WITH(journal, log_set_up, NULL)
{
    char wanted[256];
    struct stat status;
    assert_int_equal(fstat(log_pipe[1], &status), 0);
    snprintf(wanted, sizeof wanted, "%llu:%llu", (unsigned long long)status.st_dev, (unsigned long long)status.st_ino);
    setenv("JOURNAL_STREAM", wanted, 1);
    log_set_fd(log_pipe[1]);
    log_error("one");
    log_warning("two");
    setenv("JOURNAL_STREAM", "1:2", 1);
    log_set_fd(log_pipe[1]);
    log_warning("three");
    unsetenv("JOURNAL_STREAM");
    snprintf(wanted, sizeof wanted, "<3>small[%d] error: one\n<4>small[%d] warning: two\nsmall[%d] warning: three\n",
             getpid(), getpid(), getpid());
    assert_string_equal(logged(), wanted);
}

static void *log_many(void *context)
{
    for (int i = 0; i < 200; i++)
        log_error("thread %s line %d end", (const char *)context, i);
    return NULL;
}

/* What several threads write does not mix within a line. */
TEST_WITH(threads, log_set_up, NULL)
{
    pthread_t a, b;
    assert_int_equal(pthread_create(&a, NULL, log_many, "a"), 0);
    assert_int_equal(pthread_create(&b, NULL, log_many, "b"), 0);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    unsigned lines = 0;
    for (char *line = strtok((char *)logged(), "\n"); line; line = strtok(NULL, "\n")) {
        int pid, number, end = 0;
        char name;
        assert_int_equal(sscanf(line, "small[%d] error: thread %c line %d end%n", &pid, &name, &number, &end), 3);
        assert_int_equal(line[end], 0);
        lines++;
    }
    assert_int_equal(lines, 400);
}

TEST(times)
{
    uint64_t before = clock_now();
    assert_true(clock_now() >= before);
    assert_int_equal(clock_poll_timeout(before), 0);
    assert_int_equal(clock_poll_timeout(0), 0);
    assert_in_range(clock_poll_timeout(clock_now() + CLOCK_NS_PER_SECOND), 900, 1000);
    uint64_t soon = clock_now() + 1500 * 1000;
    int timeout = clock_poll_timeout(soon);
    assert_true(timeout == 2 || clock_now() > soon - CLOCK_NS_PER_MS);  /* rounded up: no turning round early */
    assert_int_equal(clock_poll_timeout(UINT64_MAX), INT_MAX);
    struct timespec when = clock_timespec(3 * CLOCK_NS_PER_SECOND + 7);
    assert_int_equal(when.tv_sec, 3);
    assert_int_equal(when.tv_nsec, 7);
}

/* Every alignment of both ends, every size around the lines, and not a byte beside the target. */
TEST(past_cache)
{
    enum { ROOM = 1024, MOST = 300, LARGE = 3 << 20 };
    static uint8_t from[ROOM], to[ROOM], wanted[ROOM];
    for (unsigned i = 0; i < ROOM; i++)
        from[i] = (uint8_t)(i * 31 + i / 251 + 1);
    for (size_t here = 0; here < 65; here += 1)
        for (size_t size = 0; size < MOST; size += size < 140 ? 1 : 13)
            for (size_t there = here % 3; there < 65; there += 3) {
                memset(to, 0xee, ROOM);
                memset(wanted, 0xee, ROOM);
                memcpy(wanted + 64 + there, from + here, size);
                past_cache_copy(to + 64 + there, from + here, size);
                assert_memory_equal(to, wanted, ROOM);
            }
    uint8_t *source = malloc(LARGE), *target = calloc(LARGE, 1);
    for (size_t i = 0; i < LARGE; i++)
        source[i] = (uint8_t)(i * 7 + i / 255);
    past_cache_copy(target, source, LARGE / 3);
    past_cache_copy(target + LARGE / 3, source + LARGE / 3, LARGE - LARGE / 3);
    assert_memory_equal(target, source, LARGE);
    free(source);
    free(target);
}

/* In a process of its own, whose descriptors may be closed. The exit status says which step went wrong. */
static int descriptors_child(void)
{
    for (int fd = 0; fd < FD_FIRST; fd++)
        close(fd);
    int kept = fd_keep(open("/dev/null", O_RDONLY)), pair[2];
    if (kept < FD_FIRST || !(fcntl(kept, F_GETFD) & FD_CLOEXEC) || fcntl(0, F_GETFD) >= 0)
        return 1;
    if (fd_keep(kept) != kept)
        return 2;
    errno = ENOENT;
    if (fd_keep(-1) != -1 || errno != ENOENT)
        return 3;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 || fd_keep_pair(pair) != 0 ||
        pair[0] < FD_FIRST || pair[1] < FD_FIRST || write(pair[0], "x", 1) != 1)
        return 4;
    int first = open("/dev/null", O_RDONLY);
    if (first != 0 || fd_open_standard() != 0)
        return 5;
    for (int fd = 0; fd < FD_FIRST; fd++)
        if (fcntl(fd, F_GETFD) != 0)                     /* open, and inherited by what is started */
            return 6;
    return 0;
}

TEST(descriptors)
{
    pid_t child = fork();
    if (child == 0)
        _exit(descriptors_child());
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    unsetenv("FLYT_LOG");
    return unit_run(NULL, NULL);
}
