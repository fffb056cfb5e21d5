/*
 * Recovery from checkpoints (docs/elastic.md): programs whose journal begins anew all the time, with real servers and
 * the software GPU. Arguments: unix or tcp, and the path of cricket-rpc-server. Each test in a process of its own.
 *
 * shows: recovery: a program with `checkpoint:TIME` sends many times more than its journal has room for, and goes on
 *   after its worker or its GPU server was killed: between checkpoints, while one is written, when it has been written,
 *   and while the session is made again
 * shows: recovery: checkpoints of a program that changes a twentieth of its memory hold less than a tenth of the bytes
 *   of the first one, and ask the GPU server for no more; after a row of them, which was merged meanwhile, every byte
 *   is there at the new server; without the server's hashes, or where it does not say what was written, the files are
 *   as small, and where it says so no other memory is looked at; a program that writes to the same memory each time has
 *   a few files
 * shows: recovery: a program that has moved, or was suspended, is protected again by a checkpoint, with
 *   `checkpoint:TIME` and with `journal`, and goes on after the loss of its worker with what it had; where that
 *   checkpoint cannot be made it is unprotected, and a loss gives 46
 * shows: recovery: a checkpoint for which there is no room costs nothing but the time that the journal grows for; one
 *   that is damaged makes the program get error 46, and the log names it
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu/client/core/core.h"
#include "cpu/common/clock.h"
#include "tests/core/kernels.h"
#include "tests/lib/unit.h"
#include "isolated.h"
#include "on.h"
#include "two_servers.h"

#define MIB ((size_t)1 << 20)

/* count_up(out): adds 1 to a variable, and stores it at out. */
static const char ptx[] = KERNELS_BEGIN KERNEL_COUNT_UP;

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
    while (two_servers_again() && tries++ < 50)
        pause_ms(100);
    step_inside();
    check_bytes();
    kill(servers[0], SIGTERM); /* a child of this process */
    waitpid(servers[0], NULL, 0);
}

/* ---- what the log says ---- */

static int log_fd = -1, shown_fd = -1;

/* Before the first line. */
static void log_take(void)
{
    log_fd = memfd_create("log", MFD_CLOEXEC);
    shown_fd = dup(STDERR_FILENO);
    CHECK(log_fd >= 0 && dup2(log_fd, STDERR_FILENO) >= 0);
}

static const char *log_text(void)
{
    static char text[1 << 20];
    ssize_t size = pread(log_fd, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = 0;
    return text;
}

static unsigned log_count(const char *what)
{
    unsigned count = 0;
    for (const char *at = log_text(); (at = strstr(at, what)); at++)
        count++;
    return count;
}

static void log_show(void)
{
    const char *text = log_text();
    ssize_t written = write(shown_fd, text, strlen(text));
    (void)written;
}

/* As CHECK, where the log is not shown. */
static void check_shown(bool good, const char *what)
{
    if (good)
        return;
    if (log_fd >= 0)
        log_show();
    dprintf(log_fd >= 0 ? shown_fd : STDERR_FILENO, "not so: %s\n", what);
    _exit(99);
}

static void log_await(const char *what, unsigned times)
{
    for (uint64_t until = clock_now() + 60 * CLOCK_NS_PER_SECOND; log_count(what) < times; pause_ms(5))
        check_shown(clock_now() < until, what);
}

/* From here on. */
#undef CHECK
#define CHECK(condition) check_shown(condition, #condition)

/* ---- changes ---- */

enum { LARGE = 64 << 20, TWENTIETH = LARGE / 20, ROW = 40 };
#define KEPT_LINE "a checkpoint took"

/* What the checkpoint with that number read from the GPU, and wrote, in KiB. */
static void kept_sizes(unsigned number, unsigned long *read, unsigned long *wrote)
{
    const char *at = log_text();
    for (unsigned i = 0; i < number && at; i++)
        at = strstr(at + (i > 0), KEPT_LINE);
    CHECK(at && (at = strstr(at, "ms: ")) != NULL);
    CHECK(sscanf(at, "ms: %lu KiB were read from the GPU, and %lu", read, wrote) == 2);
}

/* Waits for the first checkpoint behind that number which wrote so many KiB at least: others may be made meanwhile, of
   calls that changed nothing much. Returns its number. */
static unsigned kept_await(unsigned number, unsigned long least, unsigned long sizes[2])
{
    do {
        log_await(KEPT_LINE, ++number);
        kept_sizes(number, &sizes[0], &sizes[1]);
    } while (sizes[1] < least);
    return number;
}

static void fill(unsigned char *bytes, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        bytes[i] = (unsigned char)(seed >> 56);
    }
}

static unsigned char *large_new(uint64_t *at)
{
    unsigned char *bytes = malloc(LARGE);
    CHECK(bytes && core_memory_allocate(c, LARGE, at) == 0);
    fill(bytes, LARGE, 1);
    for (size_t done = 0; done < LARGE; done += SIZE)
        CHECK(copy_in(c, stream, *at + done, bytes + done, SIZE, true) == 0);
    return bytes;
}

static void large_check(const unsigned char *bytes, uint64_t at)
{
    for (size_t done = 0; done < LARGE; done += SIZE)
        CHECK(copy_out(c, stream, got, at + done, SIZE, true) == 0 && memcmp(got, bytes + done, SIZE) == 0);
}

/* How much of its memory, as one of so many parts, is read at most for a checkpoint of changes; 0: more than half of it
   is read each time. */
static void change_and_keep(unsigned part, unsigned row)
{
    uint64_t at;
    unsigned long first[2], next[2];
    log_take();
    begin("checkpoint:100ms:256M");
    unsigned char *bytes;
    {
        CORE_GATE("large");
        bytes = large_new(&at);
    }
    step_inside();
    unsigned made = kept_await(0, LARGE >> 10, first);
    CHECK(first[0] >= LARGE >> 10);
    for (unsigned i = 1; i <= row; i++) {
        const size_t from = (size_t)i * 3 % 20 * TWENTIETH;
        {
            CORE_GATE("change");
            fill(bytes + from, TWENTIETH, i + 7);
            for (size_t done = 0; done < TWENTIETH; done += SIZE) {
                const size_t size = TWENTIETH - done < SIZE ? TWENTIETH - done : SIZE;
                CHECK(copy_in(c, stream, at + from + done, bytes + from + done, size, true) == 0);
            }
        }
        made = kept_await(made, TWENTIETH >> 10, next);
        if (next[1] > first[1] / 10 || (part ? next[0] > first[0] / part : next[0] < first[0] / 2)) {
            printf("checkpoint %u: %lu of %lu KiB, %lu of %lu written\n", made, next[0], first[0], next[1], first[1]);
            CHECK(false);
        }
        if (i % 13 == 0)
            CHECK(kill_workers() > 0);
    }
    CHECK(kill_workers() > 0);
    {
        CORE_GATE("check");
        large_check(bytes, at);
    }
    step_inside();
    if (row < ROW)
        return;
    if (log_count("file 17 of its row")) {
        printf("the files were not merged\n");
        CHECK(false);
    }
    CHECK(strstr(log_text(), "file 12 of its row"));
}

static void body_changes(void) { change_and_keep(10, ROW); }

/* As of a GPU that does not see writes. */
static void body_changes_hashed(void)
{
    setenv("FLYT_PERF", "no_watch", 1);
    change_and_keep(10, 15);
}

/* What was written is known to 2 MiB: all bytes of these pieces come, and no others. */
static void body_changes_watched(void)
{
    setenv("FLYT_PERF", "no_fingerprints", 1);
    change_and_keep(4, 12);
}

/* As from a server of an earlier release. */
static void body_changes_compared_here(void)
{
    setenv("FLYT_PERF", "no_fingerprints,no_watch", 1);
    change_and_keep(0, 5);
}

/* As training does: what is written is the same each time, and fills half of the memory. Files of which nothing is left
   go, so that none need be merged. */
static void body_rewritten(void)
{
    enum { TIMES = 12, HALF = LARGE / 2 };
    uint64_t at;
    unsigned long sizes[2];
    log_take();
    begin("checkpoint:100ms:256M");
    unsigned char *bytes;
    {
        CORE_GATE("large");
        bytes = large_new(&at);
    }
    unsigned made = kept_await(0, LARGE >> 10, sizes);
    for (unsigned i = 1; i <= TIMES; i++) {
        {
            CORE_GATE("rewrite");
            fill(bytes + HALF, HALF, i + 1);
            for (size_t done = HALF; done < LARGE; done += SIZE)
                CHECK(copy_in(c, stream, at + done, bytes + done, SIZE, true) == 0);
        }
        made = kept_await(made, HALF >> 10, sizes);
        CHECK(sizes[1] < 2 * (HALF >> 10));
        if (i % 5 == 0)
            CHECK(kill_workers() > 0);
    }
    CHECK(kill_workers() > 0);
    {
        CORE_GATE("check");
        large_check(bytes, at);
    }
    CHECK(log_count("file 3 of its row") && !log_count("file 5 of its row"));
}

/* ---- a session that has moved ---- */

#define AGAIN_LINE "is protected against the loss of its GPU server again"

static void move_to(unsigned server)
{
    char why[512] = "";
    int code = core_move(server_uris[server], 0, why, sizeof why);
    for (unsigned tries = 0; code == CORE_NOT_READY && tries < 50; tries++) {   /* a checkpoint was being made */
        pause_ms(20);
        code = core_move(server_uris[server], 0, why, sizeof why);
    }
    check_shown(code == 0, why);
}

/* The last word of the log is that it is protected. */
static bool protected_again(void)
{
    const char *no = NULL, *yes = NULL;
    for (const char *at = log_text(); (at = strstr(at, "until a checkpoint")); at++)
        no = at;
    for (const char *at = no; at && (at = strstr(at, AGAIN_LINE)); at++)
        yes = at;
    return yes;
}

static void await_protected(void)
{
    for (uint64_t until = clock_now() + 60 * CLOCK_NS_PER_SECOND; !protected_again(); pause_ms(5))
        check_shown(clock_now() < until, "it is protected again");
}

static void suspend_and_resume(void)
{
    char why[512] = "";
    int code = core_suspend(0, why, sizeof why);
    for (unsigned tries = 0; code == CORE_NOT_READY && tries < 50; tries++) {   /* likewise */
        pause_ms(20);
        code = core_suspend(0, why, sizeof why);
    }
    check_shown(code == 0 && core_resume(server_uris[0], why, sizeof why) == 0, why);
}

static void move_and_lose(const char *recovery)
{
    log_take();
    begin(recovery);
    for (unsigned i = 0; i < 4; i++) {
        step_inside();
        if (i % 2) {
            suspend_and_resume();
        } else {
            move_to(1);
            step_inside();
            move_to(0);                  /* where kill_workers finds its worker */
        }
        await_protected();
        step_inside();
        CHECK(kill_workers() > 0);
        step_inside();
        check_bytes();
    }
}

static void body_moved(void) { move_and_lose("checkpoint:100ms:64M"); }
static void body_moved_journal(void) { move_and_lose("journal:256M"); }

/* The folder of its files is not there any more when it has moved for the second time. */
static void body_not_protected_again(void)
{
    char gone[PATH_MAX];
    CHECK(snprintf(gone, sizeof gone, "%s/gone", getenv("TEST_FOLDER")) < (int)sizeof gone && mkdir(gone, 0700) == 0);
    setenv("FLYT_SUSPEND_FOLDER", gone, 1);
    log_take();
    begin("journal:64M");
    step_inside();
    move_to(1);
    move_to(0);
    await_protected();
    CHECK(rmdir(gone) == 0);
    move_to(1);
    move_to(0);
    log_await("any more: no checkpoint of it could be made after it had moved", 1);
    CHECK(kill_workers() > 0);
    CORE_GATE("lost");
    CHECK(step() == CORE_DEVICE_UNAVAILABLE);
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

/* Its files have no names: they are found among what the process has open. How many there are. */
static unsigned damage_files(void)
{
    static const char words[] = "no checkpoint any more";
    DIR *all = opendir("/proc/self/fd");
    unsigned damaged = 0;
    CHECK(all != NULL);
    for (struct dirent *entry; (entry = readdir(all));) {
        char path[PATH_MAX], target[PATH_MAX];
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        if (strncmp(target, folder, strlen(folder)) == 0 && strstr(target, "(deleted)"))
            damaged += pwrite(atoi(entry->d_name), words, sizeof words, 300) == (ssize_t)sizeof words;
    }
    closedir(all);
    return damaged;
}

/* While a thread is in a call, a checkpoint that has begun gets no further. There may be a file of one: it has nothing
   that the program needs. */
static void body_damaged(void)
{
    CHECK(snprintf(folder, sizeof folder, "%s", getenv("TEST_FOLDER")) < (int)sizeof folder);
    setenv("FLYT_SUSPEND_FOLDER", folder, 1);
    log_take();
    begin("checkpoint:300ms:64M");
    step_inside();
    log_await(KEPT_LINE, 1);
    {
        CORE_GATE("damage");
        CHECK(damage_files() > 0);
        CHECK(kill_workers() > 0);
        CHECK(step() == CORE_DEVICE_UNAVAILABLE);
    }
    CHECK(strstr(log_text(), "is damaged"));
}

#define ISOLATED(name, limit) \
    TEST(name) { assert_int_equal(isolated(body_##name, limit), 0); }
ISOLATED(between, 60)
ISOLATED(changes, 120)
ISOLATED(damaged, 60)
ISOLATED(changes_hashed, 60)
ISOLATED(changes_watched, 60)
ISOLATED(changes_compared_here, 60)
ISOLATED(rewritten, 60)
ISOLATED(moved, 60)
ISOLATED(moved_journal, 60)
ISOLATED(not_protected_again, 90)
ISOLATED(each_phase, 120)
ISOLATED(no_room, 60)
ISOLATED(server_killed, 60)

int main(int argc, char **argv) { return two_servers_run(argc, argv, ""); }
