/*
 * Recovery from checkpoints (docs/elastic.md): programs whose journal begins anew all the time, with real servers and
 * the software GPU. Arguments: unix or tcp, and the path of cricket-rpc-server. Each test in a process of its own.
 *
 * shows: recovery: a program with `checkpoint:TIME` sends many times more than its journal has room for, and goes on
 *   after its worker or its GPU server was killed: between checkpoints, while one is written, when it has been written,
 *   and while the session is made again
 * shows: recovery: a checkpoint for which there is no room costs nothing but the time that the journal grows for; one
 *   that is damaged makes the program get error 46, and the log names it
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu/client/core/core.h"
#include "cpu/common/clock.h"
#include "tests/lib/unit.h"
#include "isolated.h"
#include "on.h"
#include "two_servers.h"

#define MIB ((size_t)1 << 20)

/* count_up(out): adds 1 to a variable, and stores it at out. */
static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".global .align 4 .u32 hidden;\n"
    ".visible .entry count_up(.param .u64 a) {\n"
    "  .reg .u64 %a<4>; .reg .u32 %i<6>; .reg .pred %p;\n"
    "  ld.param.u64 %a1, [a]; mov.u32 %i1, %tid.x; setp.ne.u32 %p, %i1, 0; @%p ret;\n"
    "  ld.global.u32 %i2, [hidden]; add.u32 %i2, %i2, 1; st.global.u32 [hidden], %i2;\n"
    "  st.global.u32 [%a1], %i2; ret;\n}\n";

static const char *kind, *program;
static core_context *c;
static core_stream stream;
static core_function *count_up;
static uint64_t out, big;
static uint32_t counted;

enum { SIZE = 2 << 20 };
static unsigned char sent[SIZE], got[SIZE];

static void pause_ms(unsigned ms) { nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL); }

static unsigned kill_workers(void) { return two_servers_signal_workers(SIGKILL); }

static void begin(const char *recovery)
{
    core_image *image;
    setenv("FLYT_RECOVERY", recovery, 1);
    setenv("FLYT_LOG", "info", 1);
    CHECK((c = on(0)) && core_image_add(ptx, &image) == 0 && core_function_add(image, "count_up", &count_up) == 0);
    CHECK(core_stream_create(c, 1, 0, &stream) == 0 && core_memory_allocate(c, 4096, &out) == 0);
    CHECK(core_memory_allocate(c, SIZE, &big) == 0);
}

/* A launch, and bytes of the program's. The gate is at the entries of the API, so a thread that uses the core alone
   rests where it says so. */
static int step(void)
{
    uint32_t word = 0;
    memset(sent, (int)(++counted & 0xFF), SIZE);
    memcpy(sent, &counted, sizeof counted);
    int code = core_launch(c, &(struct core_launch){ .function = count_up,
                                                     .stream = stream,
                                                     .grid = { 1, 1, 1 },
                                                     .block = { 32, 1, 1 },
                                                     .arguments = (void *[]){ &out } });
    code = code ? code : copy_in(c, stream, big, sent, SIZE, true);
    code = code ? code : copy_out(c, stream, &word, out, sizeof word, true);
    if (!code && word != counted)
        fprintf(stderr, "%u was counted in place of %u\n", word, counted);
    CHECK(code || word == counted);
    return code;
}

static void check_bytes(void)
{
    CHECK(copy_out(c, stream, got, big, SIZE, true) == 0 && memcmp(got, sent, SIZE) == 0);
}

static void step_inside(void)
{
    CORE_GATE("step");
    CHECK(step() == 0);
}

/* The journal has room for sixteen steps. */
static void body_between(void)
{
    begin("checkpoint:100ms:32M");
    for (unsigned i = 1; i <= 100; i++) {
        step_inside();
        if (i % 25 == 0)
            CHECK(kill_workers() > 0);
        pause_ms(10);
    }
    check_bytes();
}

/* ---- in each phase ---- */

static char folder[PATH_MAX];

static void name_of(char *path, size_t size, const char *name, const char *end)
{
    CHECK(snprintf(path, size, "%s/%s%s", folder, name, end) < (int)size);
}

static void hold(const char *name, bool on)
{
    char path[PATH_MAX + 32];
    name_of(path, sizeof path, name, "");
    if (!on)
        CHECK(unlink(path) == 0);
    int fd = on ? open(path, O_WRONLY | O_CREAT, 0600) : -1;
    CHECK(!on || (fd >= 0 && close(fd) == 0));
}

/* False: it does not come, say because a checkpoint was made just before. */
static bool stands(const char *name)
{
    char path[PATH_MAX + 32];
    name_of(path, sizeof path, name, ".here");
    for (uint64_t until = clock_now() + CLOCK_NS_PER_SECOND; clock_now() < until; pause_ms(5))
        if (access(path, F_OK) == 0)
            return true;
    return false;
}

/* The thread that makes the checkpoint stands; the server is killed; it goes on. */
static void strike_at(const char *name)
{
    unsigned tries = 0;
    step_inside();
    for (hold(name, true); !stands(name); hold(name, true)) {
        hold(name, false);
        step_inside();
        CHECK(++tries < 20);
    }
    CHECK(kill_workers() > 0);
    pause_ms(20);
    hold(name, false);
    step_inside();
    check_bytes();
}

static void body_each_phase(void)
{
    CHECK(snprintf(folder, sizeof folder, "%s", getenv("TEST_FOLDER")) < (int)sizeof folder);
    setenv("FLYT_MOVE_HOLD", folder, 1);
    begin("checkpoint:100ms:32M");
    for (unsigned i = 0; i < 6; i++) {
        strike_at(i % 2 ? "shut" : "written");
        for (unsigned more = 0; more < 5; more++) {
            step_inside();
            pause_ms(30);
        }
        kill_workers();
        pause_ms(i * 3);
        kill_workers();                   /* while the session is made again, or just after */
        step_inside();
    }
    check_bytes();
}

static void body_server_killed(void)
{
    begin("checkpoint:100ms:32M");
    for (unsigned i = 0; i < 30; i++) {
        step_inside();
        pause_ms(10);
    }
    kill_workers();
    kill(servers[0], SIGKILL);
    unsigned tries = 0; /* workers that are about to end may have the port for a moment */
    while (two_servers_again(kind, program) && tries++ < 50)
        pause_ms(100);
    step_inside();
    check_bytes();
    kill(servers[0], SIGTERM); /* a child of this process */
    waitpid(servers[0], NULL, 0);
}

/* ---- no room, and damage ---- */

/* The file may not grow beyond a little. Later it may. */
static void body_no_room(void)
{
    const struct rlimit little = { 64 << 10, RLIM_INFINITY }, enough = { RLIM_INFINITY, RLIM_INFINITY };
    signal(SIGXFSZ, SIG_IGN);
    begin("checkpoint:100ms:64M");
    for (unsigned i = 0; i < SIZE; i++) /* what is packed to nothing needs no room */
        sent[i] = (unsigned char)(i * 2654435761u >> 13);
    uint64_t packed_badly;
    CHECK(core_memory_allocate(c, SIZE, &packed_badly) == 0 && copy_in(c, 0, packed_badly, sent, SIZE, true) == 0);
    CHECK(setrlimit(RLIMIT_FSIZE, &little) == 0);
    for (unsigned i = 0; i < 15; i++) {
        step_inside();
        pause_ms(30);
    }
    CHECK(kill_workers() > 0);
    step_inside();
    CHECK(setrlimit(RLIMIT_FSIZE, &enough) == 0);
    for (unsigned i = 0; i < 60; i++) {
        step_inside();
        pause_ms(20);
    }
    CHECK(kill_workers() > 0);
    step_inside();
    check_bytes();
}

/* The file has no name: it is found among what the process has open. */
static int file_find(void)
{
    DIR *all = opendir("/proc/self/fd");
    int found = -1;
    CHECK(all != NULL);
    for (struct dirent *entry; (entry = readdir(all));) {
        char path[PATH_MAX], target[PATH_MAX];
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        if (strncmp(target, folder, strlen(folder)) == 0 && strstr(target, "(deleted)"))
            found = atoi(entry->d_name);
    }
    closedir(all);
    return found;
}

/* No call has come since the last one: the file of a checkpoint that is complete stays as it is. */
static int file_await(void)
{
    uint64_t since = clock_now(), until = since + 30 * CLOCK_NS_PER_SECOND;
    struct stat before = { 0 }, now;
    int fd = -1;
    for (; clock_now() - since < CLOCK_NS_PER_SECOND + CLOCK_NS_PER_SECOND / 2; pause_ms(10)) {
        int found = file_find();
        CHECK(clock_now() < until);
        if (found >= 0 && fstat(found, &now) == 0 && found == fd && now.st_ino == before.st_ino &&
            now.st_size == before.st_size)
            continue;
        since = clock_now();
        fd = found;
        if (found < 0 || fstat(found, &before) != 0)
            fd = -1;
    }
    return fd;
}

static void body_damaged(void)
{
    CHECK(snprintf(folder, sizeof folder, "%s", getenv("TEST_FOLDER")) < (int)sizeof folder);
    setenv("FLYT_SUSPEND_FOLDER", folder, 1);
    begin("checkpoint:300ms:64M");
    step_inside();
    {
        const int fd = file_await();
        CORE_GATE("damage");
        CHECK(pwrite(fd, "no checkpoint any more", 22, 300) == 22);
        CHECK(kill_workers() > 0);
        CHECK(step() == CORE_DEVICE_UNAVAILABLE);
    }
}

TEST(damaged)
{
    static char output[65536];
    assert_int_equal(isolated_output(body_damaged, 60, output, sizeof output), 0);
    assert_non_null(strstr(output, "is damaged"));
}

#define ISOLATED(name, limit) \
    TEST(name) { assert_int_equal(isolated(body_##name, limit), 0); }
ISOLATED(between, 60)
ISOLATED(each_phase, 120)
ISOLATED(no_room, 60)
ISOLATED(server_killed, 60)

int main(int argc, char **argv)
{
    if (argc < 3 || two_servers_start(argv[1], argv[2])) {
        fprintf(stderr, "%s: cannot start the servers; usage: %s unix|tcp SERVER\n", argv[0], argv[0]);
        return 1;
    }
    kind = argv[1];
    program = argv[2];
    int failures = unit_run(NULL, NULL);
    two_servers_end();
    return failures;
}
