/*
 * faults.c: random faults at random moments, while ranks that are processes carry out random collectives.
 *
 * shows: collectives: random faults (a rank is killed, stopped, leaves, aborts, calls something else or nothing, a
 *   connection breaks) at random moments, also while ranks connect: nobody hangs, no result is wrong, and neither
 *   threads, descriptors nor memory are left
 *
 * FLYT_COMM_FAULTS rounds (12), from FLYT_COMM_SEED on: each round prints its own seed.
 */
#include "tests/comm/world.h"
#include "tests/lib/patience.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum fault { NONE, KILLED, STOPPED, ABORTED, LEFT, DIFFERS, STAYS_AWAY, CONNECTION, FAULTS };
static const char *const names[FAULTS] = { "none", "killed", "stopped", "aborts", "leaves", "calls something else",
                                           "stays away", "a connection breaks" };
enum { MOST = 5, CALLS = 60, CALL_MS = 4000, HANGS_S = 60 };
enum end { ENDED_WELL, FAILED, WRONG_RESULT, LEAKED, BROKEN };

int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

/* What a round is; all ranks have the same. */
struct round {
    unsigned seed, size, victim, at_call;
    enum fault fault;
    bool shared_memory, early; /* early: while the ranks connect */
    unsigned delay_us;
    char folder[40];
};

/* Where nothing is at fault, a rank that gets no processor for seconds must not count as lost. */
static unsigned call_ms(const struct round *round) { return round->fault == NONE ? HANGS_S * 1000 : CALL_MS; }
static const char *silence(const struct round *round) { return round->fault == NONE ? "60" : "2"; }

/* Of each rank, seen by the parent. */
struct seen { _Atomic unsigned calls; char error[RPC_ERROR_SIZE]; };
static struct seen *seen;

static unsigned entries(const char *folder)
{
    DIR *open = opendir(folder);
    unsigned count = 0;
    assert_non_null(open);
    while (readdir(open))
        count++;
    closedir(open);
    return count;
}

/* Shuts one of this process's connections, as a network does. */
static void break_a_connection(unsigned *seed)
{
    int sockets[256], count = 0;
    for (int fd = 3; fd < 1024 && count < 256; fd++) {
        int type;
        socklen_t size = sizeof type;
        int listens = 0;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &(socklen_t){ sizeof listens }) == 0 && !listens)
            sockets[count++] = fd;
    }
    if (count)
        shutdown(sockets[(unsigned)rand_r(seed) % (unsigned)count], SHUT_RDWR);
}

/* The victim's part, before its call of this number. True: it calls nothing any more. */
static bool fault_now(const struct round *round, struct rank *r, unsigned call, unsigned *own)
{
    if (r->number != round->victim || call != round->at_call)
        return false;
    usleep(round->delay_us);
    switch (round->fault) {
    case KILLED: raise(SIGKILL); return true;
    case STOPPED: raise(SIGSTOP); return false;
    case ABORTED: comm_context_abort(r->context, -ECANCELED, "its program has aborted it"); return false;
    case LEFT: return true;
    case STAYS_AWAY:
        while (comm_context_status(r->context, r->error) == 0)
            usleep(1000);
        r->status = -ETIMEDOUT;
        return true;
    case CONNECTION: break_a_connection(own); return false;
    default: return false;
    }
}

static void work(const struct round *round, struct rank *r)
{
    unsigned seed = round->seed, own = round->seed + r->number;
    for (unsigned call = 0; call < CALLS && r->status == 0; call++) {
        enum comm_kind kind = (enum comm_kind)(COMM_BROADCAST + rand_r(&seed) % (COMM_KINDS - COMM_BROADCAST));
        uint64_t count = (uint64_t)rand_r(&seed) % (rand_r(&seed) % 8 ? 3000 : 100000);
        unsigned root = (unsigned)rand_r(&seed) % round->size, misaligned = (unsigned)rand_r(&seed) % 4;
        if (fault_now(round, r, call, &own))
            return;
        if (round->fault == DIFFERS && r->number == round->victim && call == round->at_call)
            count++;
        one_call_within(r, kind, count, root, misaligned, call_ms(round));
        atomic_store(&seen[r->number].calls, call + 1);
    }
    /* What only sends may not have learnt of the end yet. */
    struct comm_call barrier = { .kind = COMM_BARRIER };
    for (unsigned i = 0; i < 2 && r->status == 0; i++)
        r->status = comm_call(r->context, &barrier, clock_now() + call_ms(round) * CLOCK_NS_PER_MS, r->error);
}

/* Waits up to ten seconds: a thread is still listed for a moment after pthread_join has returned. */
static bool becomes(const char *folder, unsigned count)
{
    for (unsigned i = 0; i < 10000 && entries(folder) != count; i++)
        usleep(1000);
    return entries(folder) == count;
}

static void *listed(void *count)
{
    *(unsigned *)count = entries("/proc/self/task");
    return NULL;
}

/* The entries of /proc/self/task of a process with one thread, beside which ThreadSanitizer starts one of its own. */
static unsigned listed_alone(void)
{
    pthread_t thread;
    unsigned with_another = 0;
    if (pthread_create(&thread, NULL, listed, &with_another) == 0)
        pthread_join(thread, NULL);
    return becomes("/proc/self/task", with_another - 1) ? with_another - 1 : 0;
}

static enum end live(const struct round *round, unsigned number)
{
    const unsigned threads = listed_alone(), descriptors = entries("/proc/self/fd");
    const struct comm_settings links = { .interfaces = "lo", .channels = 2, .no_shared_memory = !round->shared_memory };
    struct world world = { .size = round->size };
    struct rank r = { .world = &world, .number = number };
    struct comm_store *store = NULL;
    setenv("FLYT_SILENCE", silence(round), 1);
    r.status = comm_engine_create(&links, &world.engine, r.error);
    if (r.status == 0)
        r.status = comm_store_file(round->folder, &store, r.error);
    const struct comm_context_settings settings = { .rank = number, .size = round->size, .engine = world.engine };
    if (r.status == 0)
        r.status = comm_context_create(&settings, store, &r.context, r.error);
    if (r.status < 0)
        return BROKEN;
    if (round->early && number == round->victim && round->fault == KILLED) {
        usleep(round->delay_us);
        raise(SIGKILL);
    }
    const uint64_t deadline = clock_now() + (round->early ? 3 : 30) * CLOCK_NS_PER_SECOND;
    r.status = comm_context_connect_full_mesh(r.context, deadline, r.error);
    if (r.status == 0)
        work(round, &r);
    snprintf(seen[number].error, RPC_ERROR_SIZE, "%s", r.status < 0 ? r.error : "");
    comm_context_destroy(r.context);
    comm_store_destroy(store);
    comm_engine_destroy(world.engine);
    if (r.status == -EBADMSG)
        return WRONG_RESULT;
    if (!becomes("/proc/self/task", threads) || entries("/proc/self/fd") != descriptors ||
        (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check()))
        return LEAKED;
    return r.status < 0 ? FAILED : ENDED_WELL;
}

static struct round round_of(unsigned seed)
{
    unsigned s = seed;
    struct round round = { .seed = seed, .size = 2 + (unsigned)rand_r(&s) % (MOST - 1) };
    round.fault = (enum fault)((unsigned)rand_r(&s) % FAULTS);
    round.victim = (unsigned)rand_r(&s) % round.size;
    round.at_call = (unsigned)rand_r(&s) % (CALLS - 5);
    round.shared_memory = rand_r(&s) / 64 % 2;
    round.early = round.fault == KILLED && rand_r(&s) % 3 == 0;
    round.delay_us = (unsigned)rand_r(&s) % 3000;
    strcpy(round.folder, "/tmp/flyt-comm-faults-XXXXXX");
    return round;
}

/* The status of a rank within the time; a stopped one goes on when the others have noticed. */
static int status_of(const struct round *round, const pid_t *children, unsigned rank, uint64_t limit)
{
    int status;
    while (waitpid(children[rank], &status, WNOHANG) == 0) {
        if (clock_now() > limit) {
            for (unsigned r = 0; r < round->size; r++)
                kill(children[r], SIGKILL);
            fail_msg("rank %u hangs; its last error: %s", rank, seen[rank].error);
        }
        usleep(500);
    }
    return status;
}

static void judge(const struct round *round, unsigned rank, int status)
{
    static const char *const what[] = { "ended well", "failed", "had a wrong result", "left something behind",
                                        "broke" };
    const bool killed = round->fault == KILLED && rank == round->victim;
    if (killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return;
    if (!WIFEXITED(status))
        fail_msg("rank %u ended by signal %d", rank, WTERMSIG(status));
    enum end end = (enum end)WEXITSTATUS(status);
    /* One that leaves knows of nothing; a connection may break when nothing needs it any more. */
    bool may_be_well = round->fault == NONE || round->fault == CONNECTION ||
                       (round->fault == LEFT && rank == round->victim);
    bool may_fail = round->fault != NONE;
    if ((end == ENDED_WELL && may_be_well) || (end == FAILED && may_fail))
        return;
    fail_msg("rank %u %s: %s", rank, what[end], seen[rank].error);
}

static void play(unsigned seed)
{
    struct round round = round_of(seed);
    pid_t children[MOST];
    char command[64];
    assert_non_null(mkdtemp(round.folder));
    printf("# seed %u: %u ranks over %s, rank %u: %s%s\n", seed, round.size, round.shared_memory ? "shm" : "tcp",
           round.victim, names[round.fault], round.early ? " early" : "");
    fflush(stdout);
    memset(seen, 0, MOST * sizeof *seen);
    for (unsigned r = 0; r < round.size; r++)
        if ((children[r] = fork()) == 0)
            _exit((int)live(&round, r));
    const uint64_t limit = in_s(patience(HANGS_S));
    int status[MOST];
    for (unsigned r = 0; r < round.size; r++)
        if (round.fault != STOPPED || r != round.victim)
            status[r] = status_of(&round, children, r, limit);
    kill(children[round.victim], SIGCONT);
    if (round.fault == STOPPED)
        status[round.victim] = status_of(&round, children, round.victim, limit);
    for (unsigned r = 0; r < round.size; r++)
        judge(&round, r, status[r]);
    snprintf(command, sizeof command, "rm -r %s", round.folder);
    assert_int_equal(system(command), 0);
}

static unsigned number(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text && *text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

TEST(random_faults)
{
    unsigned first = number("FLYT_COMM_SEED", (unsigned)clock_now()), rounds = number("FLYT_COMM_FAULTS", 12);
    for (unsigned i = 0; i < rounds; i++)
        play(first + i);
}

int main(void)
{
    seen = mmap(NULL, MOST * sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return seen == MAP_FAILED ? 1 : unit_run(NULL, NULL);
}
