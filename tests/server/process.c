/*
 * process.c: listener and workers as processes, on the null device: who gets a worker, who does not, and what is left
 * when one side is killed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/code/hash.h"
#include "tests/server/kernels.h"
#include "tests/server/peer.h"

#define PATIENCE (10 * CLOCK_NS_PER_SECOND)

static void nap(void) { usleep(5000); }

/* Waits until the server has `count` children; their pids in pids. */
static void children_become(const struct server *server, int count, int *pids)
{
    uint64_t until = clock_now() + PATIENCE;
    while (server_children(server, pids, 64) != count) {
        if (clock_now() > until)
            fail_msg("the server has %d workers, not %d", server_children(server, pids, 64), count);
        nap();
    }
}

static bool contains(const int *pids, int count, int pid)
{
    for (int i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

/* The child in `now` that is not in `before`. */
static int newcomer(const int *before, int n_before, const int *now, int n_now)
{
    for (int i = 0; i < n_now; i++)
        if (!contains(before, n_before, now[i]))
            return now[i];
    return 0;
}

static bool alive(int pid)
{
    return kill(pid, 0) == 0;
}

static const char *const one_spare[] = { "--workers", "1", NULL };

TEST(serves_unix_and_tcp)
{
    struct server server;
    struct peer peer;
    server_start(&server, "null", NULL);
    for (int i = 0; i < 2; i++) {
        peer_open(&peer, server.uri[i]);
        assert_int_equal(peer.hello.in_process, 0);
        assert_int_equal(peer_map(&peer, peer.base, peer.granule), 0);
        assert_int_equal(peer_context_sync(&peer), 0);
        peer_close(&peer);
    }
    int status = server_stop(&server, SIGTERM);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(access(server.uri[0] + strlen("unix://"), F_OK), -1);
}

TEST(one_worker_per_client)
{
    struct server server;
    struct peer a, b;
    int pids[64];
    server_start(&server, "null", one_spare);
    children_become(&server, 1, pids);
    peer_open(&a, server.uri[0]);
    children_become(&server, 2, pids);
    peer_open(&b, server.uri[1]);
    children_become(&server, 3, pids);
    assert_true(a.hello.session != b.hello.session);
    peer_close(&a);
    children_become(&server, 2, pids);
    peer_close(&b);
    children_become(&server, 1, pids);
    server_stop(&server, SIGINT);
}

TEST(client_notices_killed_worker)
{
    struct server server;
    struct peer peer, next;
    int spare[64], both[64], now[64];
    server_start(&server, "null", one_spare);
    children_become(&server, 1, spare);
    peer_open(&peer, server.uri[0]);
    children_become(&server, 2, both);
    /* The one that was there first has the client. */
    uint64_t start = clock_now();
    kill(spare[0], SIGKILL);
    context_args args = { 0 };
    plain_result result = { 0 };
    assert_int_not_equal(flyt_context_sync_1(&args, &result, peer.stub), RPC_SUCCESS);
    assert_true(clock_now() - start < CLOCK_NS_PER_SECOND);
    peer_close(&peer);
    children_become(&server, 1, now);
    assert_true(alive(server.pid));
    peer_connect(&next, server.uri[1]);                    /* others are served */
    peer_hello(&next);
    peer_close(&next);
    server_stop(&server, SIGTERM);
}

TEST(killed_spare_is_replaced)
{
    struct server server;
    int spare[64], now[64];
    server_start(&server, "null", one_spare);
    children_become(&server, 1, spare);
    kill(spare[0], SIGKILL);
    uint64_t until = clock_now() + PATIENCE;
    do
        nap();
    while (clock_now() < until && (server_children(&server, now, 64) != 1 || now[0] == spare[0]));
    assert_int_not_equal(newcomer(spare, 1, now, 1), 0);
    struct peer peer;
    peer_open(&peer, server.uri[0]);
    peer_close(&peer);
    server_stop(&server, SIGTERM);
}

/* The worker is stopped, so it has not taken the connection that it was given. */
TEST(killed_worker_had_not_begun)
{
    struct server server;
    int spare[64], both[64], status;
    server_start(&server, "null", one_spare);
    children_become(&server, 1, spare);
    kill(spare[0], SIGSTOP);
    int child = fork();
    if (child == 0) {
        struct peer peer;
        peer_open(&peer, server.uri[1]);
        _exit(0);
    }
    children_become(&server, 2, both); /* so the first one has been given the connection */
    kill(spare[0], SIGKILL);
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    server_stop(&server, SIGTERM);
}

/* A client that is killed leaves no worker behind. */
TEST(killed_client_frees_worker)
{
    struct server server;
    int spare[64], pids[64], sign[2];
    server_start(&server, "null", one_spare);
    children_become(&server, 1, spare);
    assert_int_equal(pipe(sign), 0);
    int child = fork();
    if (child == 0) {
        struct peer peer;
        peer_open(&peer, server.uri[0]);
        if (write(sign[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    char byte;
    assert_int_equal(read(sign[0], &byte, 1), 1);
    children_become(&server, 2, pids);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    children_become(&server, 1, pids);
    assert_false(alive(spare[0]));
    close(sign[0]);
    close(sign[1]);
    server_stop(&server, SIGTERM);
}

static int raw_connect(const char *uri)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s", uri + strlen("unix://"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Peers that say nothing cost no worker; they are cut off, as is one that says half a word; meanwhile others are
 * served. */
TEST(silent_peers_get_no_worker)
{
    struct server server;
    int pids[64], silent[20];
    char byte;
    server_start(&server, "null", one_spare);
    children_become(&server, 1, pids);
    for (int i = 0; i < 20; i++)
        silent[i] = raw_connect(server.uri[0]);
    struct peer peer;
    peer_open(&peer, server.uri[0]);
    children_become(&server, 2, pids);
    peer_close(&peer);
    children_become(&server, 1, pids);
    int half = raw_connect(server.uri[0]);
    assert_int_equal(send(half, "\x80\0\0", 3, MSG_NOSIGNAL), 3);
    children_become(&server, 2, pids);
    uint64_t start = clock_now();
    struct timeval limit = { .tv_sec = 15 };
    setsockopt(half, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(silent[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(recv(silent[0], &byte, 1, 0), 0);
    assert_true(clock_now() - start < 12 * CLOCK_NS_PER_SECOND);
    assert_int_equal(recv(half, &byte, 1, 0), 0);
    assert_true(clock_now() - start < 14 * CLOCK_NS_PER_SECOND);
    children_become(&server, 1, pids);
    close(half);
    for (int i = 0; i < 20; i++)
        close(silent[i]);
    server_stop(&server, SIGTERM);
}

static uint64_t processor_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec used;
    assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &used), 0);
    return (uint64_t)used.tv_sec * CLOCK_NS_PER_SECOND + (uint64_t)used.tv_nsec;
}

/* More connections than it may have files: it waits for better times, and does not ask without end. */
TEST(few_files)
{
    enum { FILES = 40, CONNECTIONS = 60 };
    const struct rlimit few = { FILES, FILES };
    struct server server;
    int pids[64], silent[CONNECTIONS];
    server_start(&server, "null", one_spare);
    children_become(&server, 1, pids);
    assert_int_equal(prlimit(server.pid, RLIMIT_NOFILE, &few, NULL), 0);
    for (int i = 0; i < CONNECTIONS; i++)
        silent[i] = raw_connect(server.uri[0]);
    usleep(200000);
    uint64_t before = processor_ns(server.pid);
    usleep(1000000);
    assert_in_range(processor_ns(server.pid) - before, 0, CLOCK_NS_PER_SECOND / 10);
    for (int i = 0; i < CONNECTIONS; i++)
        close(silent[i]);
    struct peer peer;
    peer_open(&peer, server.uri[0]);
    peer_close(&peer);
    server_stop(&server, SIGTERM);
}

/* Rubbish ends its session and nothing else. */
TEST(rubbish_costs_one_worker)
{
    static const char *const rubbish[] = {
        "\xff\xff\xff\xff hello",
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "\x80\x00\x00\x04zyxw",
        "\x80\x00\x00\x00",
        "\x80\x00\x00\x28\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x20\xf1\x70\x01\x00\x00\x00\x01\x00\x00\x00"
        "\x46",
    };
    static const size_t sizes[] = { 10, 27, 8, 4, 28 };
    struct server server;
    int pids[64];
    server_start(&server, "null", one_spare);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char byte;
        int fd = raw_connect(server.uri[0]);
        assert_int_equal(send(fd, rubbish[i], sizes[i], MSG_NOSIGNAL), (ssize_t)sizes[i]);
        shutdown(fd, SHUT_WR);
        struct timeval limit = { .tv_sec = 10 };
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        ssize_t n = recv(fd, &byte, 1, 0);
        assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
        close(fd);
    }
    struct peer peer;
    peer_open(&peer, server.uri[0]);
    peer_close(&peer);
    children_become(&server, 1, pids);
    int status = server_stop(&server, SIGTERM);
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(sigterm_ends_busy_workers)
{
    struct server server;
    struct peer peer;
    int pids[64];
    server_start(&server, "null", one_spare);
    peer_open(&peer, server.uri[0]);
    children_become(&server, 2, pids);
    uint64_t start = clock_now();
    int status = server_stop(&server, SIGTERM);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(clock_now() - start < 5 * CLOCK_NS_PER_SECOND);
    assert_false(alive(pids[0]) || alive(pids[1]));
    context_args args = { 0 };
    plain_result result = { 0 };
    assert_int_not_equal(flyt_context_sync_1(&args, &result, peer.stub), RPC_SUCCESS);
    peer_close(&peer);
}

/* If the listener is killed, its workers do not stay behind. */
TEST(workers_die_with_the_listener)
{
    struct server server;
    struct peer peer;
    int pids[64];
    server_start(&server, "null", one_spare);
    peer_open(&peer, server.uri[0]);
    children_become(&server, 2, pids);
    server_stop(&server, SIGKILL);
    unlink(server.uri[0] + strlen("unix://"));
    uint64_t until = clock_now() + PATIENCE;
    while ((alive(pids[0]) || alive(pids[1])) && clock_now() < until)
        nap();
    /* Orphans are reaped by init, or stay as zombies under a test runner that does not reap. */
    for (int i = 0; i < 2; i++) {
        char path[64], line[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", pids[i]);
        FILE *stat = fopen(path, "r");
        if (stat && fgets(line, sizeof line, stat))
            assert_non_null(strstr(line, ") Z "));
        if (stat)
            fclose(stat);
    }
    peer_close(&peer);
}

static long resident_kib(int pid)
{
    char path[64], line[256];
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib;
}

/* A million launches leave no memory behind. */
TEST(memory_is_bounded)
{
    struct server server;
    struct peer peer;
    int spare[64];
    uint32_t bytes;
    server_start(&server, "null", one_spare);
    children_become(&server, 1, spare);
    peer_open(&peer, server.uri[0]);
    assert_int_equal(peer_map(&peer, peer.base, peer.granule), 0);
    assert_int_equal(peer_load(&peer, 1, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(&peer, 1, 1, "add", &bytes), 0);
    for (int i = 0; i < 50000; i++)
        peer_launch(&peer, 1, 0, 1, 1, "123456789012", 12);
    assert_int_equal(peer_context_sync(&peer), 0);
    long before = resident_kib(spare[0]);
    uint64_t start = clock_now();
    for (int i = 0; i < PEER_MANY; i++)
        peer_launch(&peer, 1, 0, 1, 1, "123456789012", 12);
    assert_int_equal(peer_context_sync(&peer), 0);
    assert_int_equal(peer.last.latched, 0);
    assert_int_equal(peer_done(&peer, 0), 50000 + PEER_MANY);
    print_message("# %d launches in %.2f s, resident %ld KiB more\n", PEER_MANY, (double)(clock_now() - start) / 1e9,
                  resident_kib(spare[0]) - before);
    /* What may stay is what the queue may hold. */
    assert_true(resident_kib(spare[0]) - before < 65536);
    peer_close(&peer);
    server_stop(&server, SIGTERM);
}

/* What a client of the server's adds to the hash of an image that it announces. */
enum proof {
    PROOF,         /* that it has the bytes */
    NO_PROOF,      /* zeros */
    ONLY_THE_NAME, /* the hash itself: all that the client knows */
    OLD_PROOF,     /* that of another session */
};
static uint8_t proof_before[HASH_SIZE];

static void prove(const struct peer *peer, enum proof how, image_args *announce)
{
    hash *state = hash_create_keyed((const uint8_t *)peer->hello.nonce);
    uint8_t proof[HASH_SIZE];
    assert_non_null(state);
    hash_add(state, kernels_ptx, sizeof kernels_ptx);
    hash_finish(state, proof);
    if (how == PROOF)
        memcpy(announce->proof, proof, sizeof proof);
    else if (how == ONLY_THE_NAME)
        memcpy(announce->proof, announce->hash, sizeof proof);
    else if (how == OLD_PROOF)
        memcpy(announce->proof, proof_before, sizeof proof);
    assert_memory_not_equal(proof, proof_before, sizeof proof);           /* each session has a nonce of its own */
    memcpy(proof_before, proof, sizeof proof);
}

/* Does the server say that it has the image already? A new client each time. */
static int image_is_present(const struct server *server, bool then_send, enum proof how)
{
    struct peer peer;
    image_args announce = { .kind = FLYT_IMAGE_PTX, .size = sizeof kernels_ptx };
    image_result result = { 0 };
    peer_open(&peer, server->uri[0]);
    hash_bytes(kernels_ptx, sizeof kernels_ptx, (uint8_t *)announce.hash);
    prove(&peer, how, &announce);
    assert_int_equal(flyt_image_1(&announce, &result, peer.stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    int present = result.present;
    xdr_free((xdrproc_t)xdr_image_result, (char *)&result);
    if (then_send || present) {
        uint32_t bytes;
        assert_int_equal(peer_load(&peer, 1, kernels_ptx, NULL, 0), 0);
        assert_int_equal(peer_function(&peer, 1, 1, "add", &bytes), 0);
    }
    peer_close(&peer);
    return present;
}

/* The directory that a worker was told of. */
static void cache_directory(const struct server *server, char *path, size_t room)
{
    char name[64], line[4096];
    int pids[64];
    int children = server_children(server, pids, 64);
    path[0] = 0;
    for (int i = 0; i < children && !path[0]; i++) {      /* the youngest may be about to become one */
        snprintf(name, sizeof name, "/proc/%d/cmdline", pids[i]);
        FILE *file = fopen(name, "r");
        size_t n = file ? fread(line, 1, sizeof line - 1, file) : 0;
        if (file)
            fclose(file);
        line[n] = 0;
        for (size_t at = 0; at < n; at += strlen(line + at) + 1)
            if (strcmp(line + at, "--cache") == 0)
                snprintf(path, room, "%s", line + at + strlen("--cache") + 1);
    }
    assert_true(path[0] == '/');
}

/* Code that one client has sent is there for the next one that has it, too; the server leaves no files behind. */
TEST(images_are_shared)
{
    struct server server;
    char path[4096], file[8192];
    server_start(&server, "null", NULL);
    assert_int_equal(image_is_present(&server, true, NO_PROOF), 0);
    assert_int_equal(image_is_present(&server, false, PROOF), 1);
    cache_directory(&server, path, sizeof path);
    DIR *list = opendir(path);
    struct dirent *entry;
    int files = 0;
    assert_non_null(list);
    while ((entry = readdir(list)))
        if (entry->d_name[0] != '.') {
            snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
            FILE *spoiled = fopen(file, "r+");
            assert_non_null(spoiled);
            fputc('!', spoiled);
            fclose(spoiled);
            files++;
        }
    closedir(list);
    assert_int_equal(files, 1);
    assert_int_equal(image_is_present(&server, true, PROOF), 0);          /* spoiled, so sent anew */
    assert_int_equal(image_is_present(&server, false, PROOF), 1);
    server_stop(&server, SIGTERM);
    assert_int_equal(access(path, F_OK), -1);
}

/* A client that knows an image's name, but lacks its bytes, does not get the image; nor does one of another server. */
TEST(images_are_not_given_away)
{
    struct server server, other;
    server_start(&server, "null", NULL);
    server_start(&other, "null", NULL);
    assert_int_equal(image_is_present(&server, true, PROOF), 0);
    assert_int_equal(image_is_present(&server, false, NO_PROOF), 0);
    assert_int_equal(image_is_present(&server, false, ONLY_THE_NAME), 0);
    assert_int_equal(image_is_present(&server, false, OLD_PROOF), 0);
    assert_int_equal(image_is_present(&other, false, PROOF), 0);
    assert_int_equal(image_is_present(&server, false, PROOF), 1);
    server_stop(&other, SIGTERM);
    server_stop(&server, SIGTERM);
}

static int run_server(const char *const *arguments, char *said, size_t room)
{
    int out[2], status;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    int pid = fork();
    if (pid == 0) {
        dup2(out[1], 1);
        dup2(out[1], 2);
        execv(PEER_SERVER, (char **)(uintptr_t)arguments);
        _exit(127);
    }
    close(out[1]);
    size_t n = 0;
    for (ssize_t r; n < room - 1 && (r = read(out[0], said + n, room - 1 - n)) > 0;)
        n += (size_t)r;
    said[n] = 0;
    close(out[0]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(usage_is_checked)
{
    char said[4096];
#define RUN(...) run_server((const char *const[]){ "cricket-rpc-server", __VA_ARGS__, NULL }, said, sizeof said)
    assert_int_equal(RUN("--version"), 0);
    assert_non_null(strstr(said, "cricket-rpc-server"));
    assert_int_equal(RUN("--help"), 0);
    assert_non_null(strstr(said, "--listen"));
    assert_int_equal(RUN("--gpu", "null"), 2);
    assert_int_equal(RUN("--gpu", "banana", "--listen", "tcp://127.0.0.1:0"), 2);
    assert_int_equal(RUN("--workers", "0", "--listen", "tcp://127.0.0.1:0"), 2);
    assert_int_equal(RUN("--listen", "ftp://x", "--gpu", "null"), 1);
    assert_int_equal(RUN("--listen", "unix:///nowhere/at/all/s.sock", "--gpu", "null"), 1);
    assert_non_null(strstr(said, "/nowhere/at/all"));
    if (access("/dev/nvidiactl", F_OK) != 0) {
        assert_int_equal(RUN("--listen", "tcp://127.0.0.1:0", "--gpu", "nvidia"), 3);
        assert_non_null(strstr(said, "libcuda.so.1"));
    }
}

int main(void) { return unit_run(NULL, NULL); }
