/*
 * lock.c: FLYT_ASSERT_HELD passes in the thread that holds the mutex, and ends the process everywhere else.
 *
 * shows: locks: a function that says which lock it needs is believed only where this thread holds it
 */
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/common/lock.h"
#include "tests/lib/unit.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static bool held, finished;

static void assert_held(void)
{
    FLYT_ASSERT_HELD(&lock);
}

/* What happens in a child: its exit status, or the signal that ended it, and what it wrote to stderr. */
static int outcome_of(void (*function)(void), char *said, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], 2);
        function();
        _exit(0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], said, size - 1);
    said[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void *hold(void *unused)
{
    pthread_mutex_lock(&lock);
    held = true;
    pthread_cond_broadcast(&turn);
    while (!finished)
        pthread_cond_wait(&turn, &lock);
    FLYT_ASSERT_HELD(&lock);              /* the wait has taken it again */
    pthread_mutex_unlock(&lock);
    return unused;
}

static void holds_it(void)
{
    pthread_mutex_lock(&lock);
    assert_held();
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    assert_held();
}

static void has_given_it_back(void)
{
    holds_it();
    pthread_mutex_unlock(&lock);
    assert_held();
}

static void *keep(void *taken)
{
    pthread_mutex_lock(&lock);
    sem_post(taken);
    for (;;)
        pause();
    return taken;
}

static void another_holds_it(void)
{
    pthread_t thread;
    sem_t taken;
    sem_init(&taken, 0, 0);
    pthread_create(&thread, NULL, keep, &taken);
    while (sem_wait(&taken) != 0) {
    }
    assert_held();
}

static void waits_in_turn(void)
{
    pthread_t thread;
    pthread_mutex_lock(&lock);
    pthread_create(&thread, NULL, hold, NULL);
    while (!held)
        pthread_cond_wait(&turn, &lock);
    assert_held();
    finished = true;
    pthread_cond_broadcast(&turn);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

TEST(test_held)
{
    char said[512];
    assert_int_equal(outcome_of(holds_it, said, sizeof said), 0);
    assert_int_equal(outcome_of(waits_in_turn, said, sizeof said), 0);
    assert_string_equal(said, "");
}

TEST(test_not_held)
{
    char said[512];
    assert_int_equal(outcome_of(assert_held, said, sizeof said), SIGABRT);
    assert_non_null(strstr(said, "needs &lock, but no thread holds it"));
    assert_non_null(strstr(said, "tests/common/lock.c:"));
    assert_int_equal(outcome_of(has_given_it_back, said, sizeof said), SIGABRT);
    assert_int_equal(outcome_of(another_holds_it, said, sizeof said), SIGABRT);
    assert_non_null(strstr(said, "needs &lock, but thread "));
}

int main(void) { return unit_run(NULL, NULL); }
