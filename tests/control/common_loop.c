/* The loop with peers that behave: timers, posts, handshakes, calls that wait, reconnection. */
#include "tests/control/common_peer.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control-managers/common/process.h"

/* ---- timers and posts ---- */

static int fired[64], fired_count;
static void note(struct loop_timer *timer, void *context)
{
    (void)timer;
    fired[fired_count++] = (int)(intptr_t)context;
}

TEST(test_timers)
{
    struct loop *loop = loop_create();
    struct loop_timer timers[40] = { { 0 } };
    fired_count = 0;
    for (int i = 0; i < 40; i++)
        loop_timer_start(loop, &timers[i], (unsigned)((i * 17) % 40) * 3 + 1, note, (void *)(intptr_t)((i * 17) % 40));
    for (int i = 0; i < 40; i++)
        if ((i * 17) % 40 % 2)
            loop_timer_stop(&timers[i]);
    loop_timer_stop(&timers[1]);                /* again: nothing happens */
    while (fired_count < 20)
        loop_run_once(loop);
    for (int i = 0; i < 20; i++)
        assert_int_equal(fired[i], 2 * i);      /* the even ones, in order */
    for (int i = 0; i < 40; i++)
        assert_false(loop_timer_running(&timers[i]));
    loop_destroy(loop);
}

static int hits;
static void stop_it(struct loop_timer *timer, void *context)
{
    (void)timer;
    hits++;
    loop_stop(context);
}

static void slow(struct loop_timer *timer, void *context)
{
    (void)timer, (void)context;
    hits++;
    usleep(30000);                              /* meanwhile others fall due */
}

/* Asked to stop while timers are overdue, it stops. */
TEST(test_stop)
{
    struct loop *loop = loop_create();
    struct loop_timer a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    hits = 0;
    alarm(20);
    loop_timer_start(loop, &a, 1, slow, NULL);
    loop_timer_start(loop, &b, 2, stop_it, loop);
    loop_timer_start(loop, &c, 3, slow, NULL);
    loop_timer_start(loop, &d, 100000, slow, NULL);
    loop_run(loop);
    assert_true(hits >= 2);
    loop_timer_stop(&c);
    loop_timer_stop(&d);
    loop_destroy(loop);
    alarm(0);
}

static uint64_t told_at, first_at, second_at;
static void first(struct loop_timer *timer, void *context) { (void)timer; first_at = loop_now(context); }
static void second(struct loop_timer *timer, void *context) { (void)timer; second_at = loop_now(context); }

/* While this process does not run, its clock stands still: what was to follow keeps its distance, and nobody seems
 * silent. */
TEST(test_slept)
{
    struct loop *loop = loop_create();
    struct loop_timer a = { 0 }, b = { 0 };
    told_at = loop_now(loop);
    first_at = second_at = 0;
    loop_timer_start(loop, &a, 100, first, loop);
    loop_timer_start(loop, &b, 1400, second, loop);
    usleep(4000000);
    uint64_t heard = loop_now(loop);            /* what is read first after the sleep is not from the future */
    assert_true(heard - told_at < 2000);
    while (!second_at)
        loop_run_once(loop);
    assert_true(first_at >= heard && second_at >= told_at + 1400 && second_at - told_at < 3000);
    loop_destroy(loop);
}

static int posted;
static void count_post(void *context)
{
    assert_int_equal((int)(intptr_t)context, posted++);
}

static void *poster(void *loop)
{
    for (int i = 0; i < 1000; i++)
        loop_post(loop, count_post, (void *)(intptr_t)i);
    return NULL;
}

TEST(test_posts)
{
    struct loop *loop = loop_create();
    pthread_t thread;
    posted = 0;
    pthread_create(&thread, NULL, poster, loop);
    while (posted < 1000)
        loop_run_once(loop);
    pthread_join(thread, NULL);
    uint64_t noted = 0;
    for (int i = 0; i < LOOP_HELD; i++)
        noted += loop_held(loop)->counts[i];
    assert_int_equal(noted, 1000); /* all of them, and nothing else, held the loop */
    loop_destroy(loop);
}

/* ---- links ---- */

struct guest { struct link *link; int ups, downs, error; char why[CONTROL_ERROR_SIZE]; };

static void up(struct link *link, struct conn *conn, const ctl_hello_result *hello)
{
    struct guest *guest = link_context(link);
    (void)conn;
    guest->ups++;
    assert_int_equal(hello->incarnation, 77);
    assert_string_equal(hello->software, "test-host 1");
}

static void down(struct link *link, bool was_up, int error, const char *why)
{
    struct guest *guest = link_context(link);
    (void)was_up;
    guest->downs++;
    guest->error = error;
    snprintf(guest->why, sizeof guest->why, "%s", why);
}

static void guest_open(struct guest *guest, const char *name, const struct secret *secret, struct tls_context *tls)
{
    const char *uris[] = { loop_listener_uri(host.listener), NULL };
    char error[CONTROL_ERROR_SIZE];
    memset(guest, 0, sizeof *guest);
    const struct link_options options = { .uris = uris,
                                          .role = CTL_ROLE_ADMIN,
                                          .name = name,
                                          .secret = secret,
                                          .tls = tls,
                                          .retry_min_ms = 20,
                                          .retry_max_ms = 100,
                                          .context = guest,
                                          .up = up,
                                          .down = down };
    assert_int_equal(link_open(host.loop, &options, &guest->link, error), 0);
}

TEST(test_handshake)
{
    struct guest good, bad, unwanted, trusted, mute;
    struct secret wrong = { .size = 5, .bytes = "wrong" };
    host_start(*state ? *state : "tcp://127.0.0.1:0", NULL);
    guest_open(&good, "ann", &host.secret, NULL);
    host_run_until(&good.ups, 1, 5000);
    guest_open(&bad, "ann", &wrong, NULL);
    host_run_until(&bad.downs, 1, 5000);
    assert_int_equal(bad.error, -EACCES);
    guest_open(&unwanted, "unwanted", &host.secret, NULL);
    host_run_until(&unwanted.downs, 1, 5000);
    assert_non_null(strstr(unwanted.why, "unwanted is not wanted"));
    guest_open(&mute, "ann", NULL, NULL);
    host_run_until(&mute.downs, 1, 5000);
    assert_non_null(strstr(mute.why, "wants a secret"));
    guest_open(&trusted, "trusted", NULL, NULL);
    host_run_until(&trusted.ups, 1, 5000);
    assert_int_equal(host.accepted, 2);
    link_close(bad.link);
    link_close(unwanted.link);
    link_close(mute.link);
    link_close(good.link);
    link_close(trusted.link);
    host_stop();
}

TEST(test_handshake_unix)
{
    char uri[64];
    void *inner = uri;
    snprintf(uri, sizeof uri, "unix:///tmp/flyt-test-%d.sock", (int)getpid());
    test_handshake(&inner);
    assert_int_equal(access(uri + 7, F_OK), -1);    /* the listener took its socket along */
}

static int answers, last_error;
static void answered(void *context, int error, const char *why, void *result)
{
    (void)why, (void)context;
    answers++;
    last_error = error;
    if (!error && context)
        assert_int_equal(((admin_status_result *)result)->nodes, 42);
}

TEST(test_calls)
{
    struct guest guest;
    char error[CONTROL_ERROR_SIZE];
    admin_events_args wait = { .wait_ms = 1 };
    admin_events_result nothing = { .last = 5 };
    answers = 0;
    host_start("tcp://127.0.0.1:0", NULL);
    guest_open(&guest, "ann", &host.secret, NULL);
    host_run_until(&guest.ups, 1, 5000);
    /* A call that waits holds up no other. */
    assert_int_equal(link_call(guest.link, ADMIN_EVENTS, &wait, 5000, answered, NULL, error), 0);
    host_run_until(&host.kept_count, 1, 1000);
    for (int i = 0; i < 100; i++)
        assert_int_equal(link_call(guest.link, ADMIN_STATUS, NULL, 5000, answered, &guest, error), 0);
    host_run_until(&answers, 100, 5000);
    assert_int_equal(last_error, 0);
    call_reply(host.kept[0], &nothing);
    host_run_until(&answers, 101, 1000);
    /* One that is not answered in time is told so; its late answer harms nobody. */
    host.kept_count = 0;
    assert_int_equal(link_call(guest.link, ADMIN_EVENTS, &wait, 50, answered, NULL, error), 0);
    host_run_until(&answers, 102, 1000);
    assert_int_equal(last_error, -ETIMEDOUT);
    call_reply(host.kept[0], &nothing);
    assert_int_equal(link_call(guest.link, ADMIN_STATUS, NULL, 5000, answered, &guest, error), 0);
    host_run_until(&answers, 103, 1000);
    assert_int_equal(last_error, 0);
    /* What the listener does not have. */
    admin_top_args top = { 0 };
    assert_int_equal(link_call(guest.link, ADMIN_TOP, &top, 5000, answered, NULL, error), 0);
    host_run_until(&answers, 104, 1000);
    assert_int_equal(last_error, -ENOSYS);
    assert_int_equal(host.closed, 0);
    /* And what is not for this role: the connection ends. */
    node_report_args report = { { 0 } };
    assert_int_equal(link_call(guest.link, NODE_REPORT, &report, 5000, answered, NULL, error), 0);
    host_run_until(&host.closed, 1, 1000);
    assert_int_equal(host.last_error, -EACCES);
    link_close(guest.link);
    host_stop();
}

/* More waiting calls than a connection may have: reading stops, and goes on when some are answered. */
TEST(test_many_waiting)
{
    struct guest guest;
    char error[CONTROL_ERROR_SIZE];
    admin_events_args wait = { .wait_ms = 1 };
    admin_events_result nothing = { .last = 5 };
    answers = 0;
    host_start("tcp://127.0.0.1:0", NULL);
    guest_open(&guest, "ann", &host.secret, NULL);
    host_run_until(&guest.ups, 1, 5000);
    for (int i = 0; i < CONN_MAX_CALLS + 5; i++)
        assert_int_equal(link_call(guest.link, ADMIN_EVENTS, &wait, 5000, answered, NULL, error), 0);
    host_run_until(&host.kept_count, CONN_MAX_CALLS, 1000);
    host_run_ms(50);
    assert_int_equal(host.kept_count, CONN_MAX_CALLS);
    for (int i = 0; i < 5; i++)
        call_reply(host.kept[i], &nothing);
    host_run_until(&host.kept_count, CONN_MAX_CALLS + 5, 1000);
    for (int i = 5; i < CONN_MAX_CALLS + 5; i++)
        call_reply(host.kept[i], &nothing);
    host_run_until(&answers, CONN_MAX_CALLS + 5, 1000);
    assert_int_equal(last_error, 0);
    link_close(guest.link);
    host_stop();
}

/* The listener goes and comes back: calls in flight fail at once, the link finds it again. */
TEST(test_reconnect)
{
    struct guest guest;
    char error[CONTROL_ERROR_SIZE], uri[CTL_MAX_URI + 1];
    admin_events_args wait = { .wait_ms = 1 };
    answers = 0;
    host_start("tcp://127.0.0.1:0", NULL);
    snprintf(uri, sizeof uri, "%s", loop_listener_uri(host.listener));
    guest_open(&guest, "ann", &host.secret, NULL);
    host_run_until(&guest.ups, 1, 5000);
    assert_int_equal(link_call(guest.link, ADMIN_EVENTS, &wait, 5000, answered, NULL, error), 0);
    host_run_until(&host.kept_count, 1, 1000);
    conn_close(host.last, "for the test");
    host_run_until(&guest.downs, 1, 1000);
    assert_int_equal(answers, 1);
    assert_int_equal(last_error, -ECONNRESET);
    host_run_until(&guest.ups, 2, 5000);
    loop_listener_close(host.listener);
    conn_close(host.last, "for the test");
    host_run_until(&guest.downs, 2, 1000);
    assert_null(link_conn(guest.link));
    assert_int_equal(link_call(guest.link, ADMIN_STATUS, NULL, 5000, answered, NULL, error), -ENOTCONN);
    host_run_until(&guest.downs, 3, 2000);      /* the new reason: refused */
    assert_int_equal(guest.error, -ECONNREFUSED);
    struct loop *loop = host.loop;
    struct host old = host;
    host_start(uri, NULL);                      /* in a loop of its own: only its listener is wanted */
    link_close(guest.link);
    struct loop *fresh = host.loop;
    guest_open(&guest, "ann", &old.secret, NULL);
    host_run_until(&guest.ups, 1, 5000);
    link_close(guest.link);
    assert_ptr_equal(fresh, host.loop);
    host_stop();
    loop_destroy(loop);
}

/* A folder that does not exist is no lack of rights. */
TEST(test_socket_without_folder)
{
    char error[CONTROL_ERROR_SIZE] = "";
    static const struct conn_service service;
    struct loop_listener *listener = NULL;
    struct loop *loop = loop_create();
    const struct loop_listen_options options = { .uri = "unix:///nowhere-at-all/here.sock", .service = &service };
    assert_int_equal(loop_listen(loop, &options, &listener, error), -ENOENT);
    assert_string_equal(error, "listening on /nowhere-at-all/here.sock: its folder does not exist");
    loop_destroy(loop);
}

TEST(test_wait)
{
    const char *uris[2] = { NULL, NULL };
    char error[CONTROL_ERROR_SIZE];
    struct link *link;
    admin_status_result result;
    host_start("tcp://127.0.0.1:0", NULL);
    uris[0] = loop_listener_uri(host.listener);
    struct link_options options = { .uris = uris, .role = CTL_ROLE_ADMIN, .name = "ann", .secret = &host.secret,
                                    .once = true };
    assert_int_equal(link_open(host.loop, &options, &link, error), 0);
    assert_int_equal(link_wait_up(link, 5000, error), 0);
    assert_int_equal(link_call_wait(link, ADMIN_STATUS, NULL, 1000, &result, error), 0);
    assert_int_equal(result.nodes, 42);
    assert_string_equal(result.software, "test");
    protocol_free((xdrproc_t)xdr_admin_status_result, &result);
    link_close(link);
    uris[0] = "tcp://127.0.0.1:1";              /* nobody there */
    assert_int_equal(link_open(host.loop, &options, &link, error), 0);
    assert_int_equal(link_wait_up(link, 5000, error), -ECONNREFUSED);
    link_close(link);
    host_stop();
}

/* ---- other processes ---- */

static void *goes_on(void *until)
{
    char byte;
    _exit(read(*(int *)until, &byte, 1) == 1 ? 0 : 1);
}

static char state_of(pid_t pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (file)
        fclose(file);
    return state;
}

/* The main thread of a program may end before the others (pthread_exit): the program has not ended. */
TEST(test_process_without_its_first_thread)
{
    int ends[2];
    struct process process;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t other;
        pthread_create(&other, NULL, goes_on, &ends[0]);
        pthread_exit(NULL);
    }
    for (int i = 0; state_of(pid) != 'Z'; i++, usleep(1000))
        assert_true(i < 20000);
    assert_int_equal(process_open(pid, 0, &process), 0);
    assert_true(process_alive(&process));
    assert_int_equal(write(ends[1], "", 1), 1);
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
    assert_int_equal(ended.si_status, 0);
    assert_false(process_alive(&process)); /* though nobody has waited for it: it is a zombie */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(process_alive(&process));
    process_close(&process);
    close(ends[0]);
    close(ends[1]);
}

int main(void) { return unit_run(NULL, NULL); }
