/*
 * monitor_web.c: the web side of flyt-monitor, in this process, with texts that are as long as those of a large
 * cluster. Clients are sockets here that ask and read nothing, or all.
 *
 * shows: monitor: beside 2,400 readers that take nothing of 16 MiB each, or 1,000 that follow the events, a scrape is
 *   answered within a second
 * shows: monitor: where there are too many connections, those of the address that has the most end, and never one whose
 *   request is just coming
 * shows: monitor: a number of an event that there is not yet stands for the newest one, as it was when the stream began
 * shows: monitor: when the cluster manager numbers its events anew, those who follow them miss none
 * shows: monitor: slow readers hold old texts up to a limit only
 * shows: monitor: of a VM's samples none is missing, and none is another's
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control-managers/monitor/monitor.h"
#include "control-managers/monitor/streams.h"
#include "tests/lib/patience.h"
#include "tests/lib/now.h"
#include "tests/lib/unit.h"

enum { LARGE = 16 << 20, READERS = 2400, STREAMS = 1000, PEERS = 4096, TRIES = 5, HOME = 1, ELSEWHERE = 2 };

static struct monitor monitor = { .lock = PTHREAD_MUTEX_INITIALIZER };
static int peers[PEERS];
static size_t peer_count;

bool monitor_away(const struct monitor *of, uint64_t *age_seconds)
{
    *age_seconds = 0;
    return (void)of, false;
}

/* ---- the monitor ---- */

static void put(enum text_kind kind, struct monitor_text *text)
{
    pthread_mutex_lock(&monitor.lock);
    struct monitor_text *old = monitor.texts[kind];
    monitor.texts[kind] = text;
    pthread_mutex_unlock(&monitor.lock);
    text_release(old);
}

/* A text of that size, of lines. */
static struct monitor_text *lines(size_t size)
{
    char *bytes = malloc(size + 1);
    assert_non_null(bytes);
    memset(bytes, '#', size);
    for (size_t i = 99; i < size; i += 100)
        bytes[i] = '\n';
    return text_make(bytes, size);
}

static void put_event(const char *vm)
{
    pthread_mutex_lock(&monitor.lock);
    struct event_text *at = &monitor.events[++monitor.newest % EVENTS_KEPT];
    free(at->text);
    *at = (struct event_text){ .number = monitor.newest, .text = strdup("{}") };
    snprintf(at->vm, sizeof at->vm, "%s", vm);
    streams_news(vm);
    pthread_mutex_unlock(&monitor.lock);
}

static int set_up(void **state)
{
    char error[256] = "";
    monitor.address = "127.0.0.1";
    monitor.port = 0;
    monitor.most_streams = STREAMS;
    put(TEXT_METRICS, lines(LARGE));
    put(TEXT_STATUS, lines(100));
    if (web_begin(&monitor, error) != 0)
        fail_msg("%s", error);
    return (void)state, 0;
}

static int tear_down(void **state)
{
    while (peer_count)
        close(peers[--peer_count]);
    web_end(&monitor);
    for (int i = 0; i < TEXTS; i++)
        put((enum text_kind)i, NULL);
    assert_int_equal(texts_held(), 0);
    return (void)state, 0;
}

/* ---- its clients ---- */

/* A connection from 127.0.0.HOST, on which this was sent. Little of an answer finds room at this end. */
static int ask(int host, const char *request)
{
    const int small = 4096;
    struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000u + (unsigned)host) };
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(monitor.port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct timeval limit = { .tv_sec = patience(60) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    return fd;
}

static int get(int host, const char *path)
{
    char request[200];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    return ask(host, request);
}

static void hold(int fd)
{
    assert_true(peer_count < PEERS);
    peers[peer_count++] = fd;
}

/* All of an answer that is announced with its length. How many bytes, with the head; -1: the connection has ended. */
static ssize_t read_answer(int fd)
{
    static char buffer[1 << 16];
    size_t got = 0, wanted = 0;
    ssize_t more;
    while ((!wanted || got < wanted) && (more = recv(fd, buffer, sizeof buffer - 1, 0)) > 0) {
        buffer[more] = '\0';
        const char *length = got ? NULL : strstr(buffer, "Content-Length: "), *end = strstr(buffer, "\r\n\r\n");
        if (length && end)
            wanted = (size_t)(end + 4 - buffer) + strtoull(length + 16, NULL, 10);
        got += (size_t)more;
    }
    return wanted && got >= wanted ? (ssize_t)got : -1;
}

/* The best of a few scrapes, since others use this machine, too; each has to be answered. */
static double scrape(const char *path, size_t size)
{
    double best = 1e9;
    for (int i = 0; i < TRIES; i++) {
        const double begun = now_s();
        int fd = get(HOME, path);
        assert_true(read_answer(fd) > (ssize_t)size);
        close(fd);
        best = now_s() - begun < best ? now_s() - begun : best;
    }
    return best;
}

/* Whether the other side has ended it: what has come before is passed over. */
static bool has_ended(int fd)
{
    char buffer[4096];
    ssize_t got;
    while ((got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
        ;
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* ---- tests ---- */

TEST_WITH(test_readers_that_read_nothing, set_up, tear_down)
{
    const double begun = now_s();
    for (int i = 0; i < READERS; i++)
        hold(get(HOME, "/metrics"));
    const double took = scrape("/metrics", LARGE);
    printf("# %d slow readers came in %.2f s; the best of %d scrapes took %.3f s\n", READERS, now_s() - begun, TRIES,
           took);
    assert_true(took < 1);
}

TEST_WITH(test_unfinished_requests, set_up, tear_down)
{
    for (int i = 0; i < READERS; i++)
        hold(ask(HOME, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: "));
    assert_true(scrape("/metrics", LARGE) < 1);
}

TEST_WITH(test_many_streams, set_up, tear_down)
{
    char line[512];
    for (int i = 0; i < STREAMS; i++) {
        hold(get(HOME, "/api/v1/events"));
        assert_true(recv(peers[i], line, sizeof line, 0) > 0); /* the head of the answer */
    }
    for (int i = 0; i < READERS; i++)
        hold(get(HOME, "/metrics"));
    assert_true(scrape("/metrics", LARGE) < 1);
    const double begun = now_s();
    put_event("v");
    for (int i = 0; i < STREAMS; i++) {
        ssize_t got = recv(peers[i], line, sizeof line - 1, 0);
        assert_true(got > 0);
        line[got] = '\0';
        assert_non_null(strstr(line, "id: 1\ndata: {}"));
    }
    printf("# %d streams had an event after %.3f s\n", STREAMS, now_s() - begun);
    assert_true(now_s() - begun < 5); /* their beat would wake them after 10 s */
    assert_true(scrape("/api/v1/status", 100) < 1);
}

/* Reads up to an event. A beat means that the stream does not know of it. */
static void await_event(int fd)
{
    char text[4096] = "";
    size_t got = 0;
    ssize_t more;
    while (got + 1 < sizeof text && (more = recv(fd, text + got, sizeof text - 1 - got, 0)) > 0) {
        got += (size_t)more;
        text[got] = '\0';
        if (strstr(text, "data: {}"))
            return;
        if (strstr(text, ": waiting"))
            fail_msg("the event has not come, but a beat: %s", text);
    }
    fail_msg("it has ended: %s", text);
}

/* A number that no event has yet, as of another cluster, stands for the newest one. The event comes as soon as the head
   of the answer is there: often before the stream has looked for events at all. */
TEST_WITH(test_a_number_that_is_made_up, set_up, tear_down)
{
    enum { TIMES = 300 };
    char head[4096];
    for (int i = 0; i < TIMES; i++) {
        int fd = ask(HOME, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 999999\r\n\r\n");
        assert_true(recv(fd, head, sizeof head, 0) > 0);
        put_event("v");
        await_event(fd);
        close(fd);
    }
}

TEST_WITH(test_numbers_that_begin_anew, set_up, tear_down)
{
    for (int i = 0; i < 3; i++)
        put_event("v");
    char head[4096];
    int fd = get(HOME, "/api/v1/events");
    hold(fd);
    assert_true(recv(fd, head, sizeof head, 0) > 0);
    put_event("v");
    await_event(fd);
    streams_renumber(&monitor, 1);
    put_event("v");
    await_event(fd);
}

/* One host opens more connections than there may be; the few of another stay. */
TEST_WITH(test_who_has_the_most, set_up, tear_down)
{
    enum { FEW = 20 };
    int ended = 0;
    for (int i = 0; i < FEW; i++)
        hold(i % 2 ? get(HOME, "/metrics") : ask(HOME, "GET "));
    for (int i = 0; i < READERS; i++)
        hold(i % 2 ? get(ELSEWHERE, "/metrics") : ask(ELSEWHERE, "GET "));
    assert_true(scrape("/metrics", LARGE) < 1);
    for (int i = 0; i < FEW; i++)
        assert_false(has_ended(peers[i]));
    for (size_t i = FEW; i < peer_count; i++)
        ended += has_ended(peers[i]);
    assert_true(ended > READERS / 2);
}

/* Each second there is another text, and each has a reader. Those that have had their time end, so that no more than a
   few texts are held. */
TEST_WITH(test_old_texts, set_up, tear_down)
{
    enum { VERSIONS = 20, LATE = 12, MOST = 4 * LARGE + (64 << 20) };
    for (int i = 0; i < VERSIONS; i++) {
        hold(get(HOME, "/metrics"));
        assert_true(scrape("/api/v1/status", 100) < 1); /* the one before has been taken up */
        put(TEXT_METRICS, lines(LARGE));
    }
    assert_true(texts_held() > MOST);
    const double begun = now_s();
    while (texts_held() > MOST && now_s() - begun < LATE) /* libmicrohttpd ends them after 20 s */
        poll(NULL, 0, 100);
    printf("# after %.1f s %zu MiB are held\n", now_s() - begun, texts_held() >> 20);
    assert_true(texts_held() <= MOST);
}

/* Against a filter that is as simple as it can be. */
TEST(test_samples_of_a_vm)
{
    static const char *const lines_of[] = {
        "# HELP a About a.\n", "# TYPE a gauge\n", "a{vm=\"v\"} 1\n", "a{vm=\"vv\"} 2\n", "a{gpu=\"vm=\\\"v\"} 3\n",
        "# TYPE b gauge\n", "b 4\n", "b{n=\"n\",vm=\"w\"} 5\n", "# TYPE c counter\n", "# HELP c About c.\n",
        "c{vm=\"v\",x=\"1\"} 6\n", "c{vm=\"v\",x=\"2\"} 7\n", "c{avm=\"v\"} 8\n", "c{vm=\"w\"} 9\n", "c{vm=\"v\"} 10",
    };
    static const struct {
        const char *vm, *wanted;
    } cases[] = {
        { "v", "# HELP a About a.\n# TYPE a gauge\na{vm=\"v\"} 1\n# TYPE c counter\n# HELP c About c.\n"
               "c{vm=\"v\",x=\"1\"} 6\nc{vm=\"v\",x=\"2\"} 7\nc{vm=\"v\"} 10" },
        { "vv", "# HELP a About a.\n# TYPE a gauge\na{vm=\"vv\"} 2\n" },
        { "w", "# TYPE b gauge\nb{n=\"n\",vm=\"w\"} 5\n# TYPE c counter\n# HELP c About c.\nc{vm=\"w\"} 9\n" },
        { "x", "" },
    };
    char all[1024] = "";
    for (size_t i = 0; i < sizeof lines_of / sizeof *lines_of; i++)
        strcat(all, lines_of[i]);
    struct monitor_text *text = text_make(strdup(all), strlen(all));
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        size_t size;
        struct monitor_text *part = text_samples_of_vm(text, cases[i / 2].vm);
        const char *bytes = text_bytes(part, &size);
        assert_int_equal(size, strlen(cases[i / 2].wanted));
        assert_memory_equal(bytes, cases[i / 2].wanted, size);
        text_release(part);
    }
    text_release(text);
    text = text_make(strdup(""), 0);
    struct monitor_text *part = text_samples_of_vm(text, "v");
    assert_non_null(part);
    text_release(part);
    text_release(text);
}

int main(void)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 3 * PEERS) {
        printf("1..0 # SKIP only %ld files may be open\n", (long)files.rlim_cur);
        return 77;
    }
    return unit_run(NULL, NULL);
}
