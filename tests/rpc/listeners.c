/* listeners: addresses, and sockets to listen on and connect to. */
#include "cpu/rpc/transport/address.h"
#include "cpu/rpc/rpc.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/unit.h"

TEST(addresses)
{
    struct rpc_address address;
    char error[RPC_ERROR_SIZE];
    assert_int_equal(rpc_address_parse("tcp://gpu1:4711", &address, error), 0);
    assert_int_equal(address.kind, RPC_ADDRESS_TCP);
    assert_string_equal(address.host, "gpu1");
    assert_string_equal(address.service, "4711");
    assert_int_equal(rpc_address_parse("tcp://[fe80::1%eth0]:1", &address, error), 0);
    assert_string_equal(address.host, "fe80::1%eth0");
    assert_int_equal(rpc_address_parse("unix:///run/flyt/server.sock", &address, error), 0);
    assert_string_equal(address.path, "/run/flyt/server.sock");
    assert_int_equal(address.mode, 0600);
    assert_int_equal(rpc_address_parse("unix:///s?mode=0660", &address, error), 0);
    assert_string_equal(address.path, "/s");
    assert_int_equal(address.mode, 0660);

    assert_int_equal(rpc_address_parse("shm:///run/s", &address, error), 0);
    assert_int_equal(address.kind, RPC_ADDRESS_SHM);
    assert_string_equal(address.path, "/run/s");

    static const char *const wrong[] = {
        "", "gpu1:4711", "tcp://", "tcp://gpu1", "tcp://:1", "tcp://gpu1:", "tcp://gpu1:x", "tcp://gpu1:65536",
        "tcp://gpu1:1x", "tcp://gpu1:-1", "tcp://::1:4711", "tcp://[::1]", "tcp://[::1", "tcp://[]:1", "tcp://[::1]x:1",
        "unix://", "unix:///", "unix://relative", "unix:///a?mode=", "unix:///a?mode=9", "unix:///a?mode=1777",
        "unix:///a?x=1", "local:", "shm://x", "shm:///",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        error[0] = 0;
        assert_int_equal(rpc_address_parse(wrong[i], &address, error), -EINVAL);
        assert_true(strlen(error) > 10);
    }
    char path[300] = "unix:///";
    memset(path + 8, 'a', sizeof path - 9);
    path[sizeof path - 1] = 0;
    assert_int_equal(rpc_address_parse(path, &address, error), -EINVAL);
    memcpy(path, "tcp://", 6);
    assert_int_equal(rpc_address_parse(path, &address, error), -EINVAL);
}

/* Connects and sends one byte each way. */
static void try_out(rpc_listener *listener, const char *uri)
{
    char error[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
    if (rpc_channel_connect(uri, 5000, &channel, error) != 0)
        fail_msg("%s", error);
    int fd = rpc_listener_accept(listener);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(send(fd, "x", 1, 0), 1);
    rpc_channel_destroy(channel);
    close(fd);
}

TEST_ON(tcp, "tcp://127.0.0.1:0", "tcp://[::1]:0", "tcp://localhost:0")
{
    char error[RPC_ERROR_SIZE] = "";
    rpc_listener *listener;
#ifdef __SANITIZE_THREAD__           /* which does not know the threads in which the C library looks names up */
    if (strstr(*state, "localhost"))
        skip();
#endif
    if (rpc_listener_open(*state, &listener, error) != 0) {
        print_message("# %s\n", error);
        skip();                                 /* no IPv6 here */
    }
    const char *uri = rpc_listener_uri(listener);
    assert_null(strstr(uri, ":0"));             /* the port is the real one */
    try_out(listener, uri);

    int fd, on = 0;
    socklen_t size = sizeof on;
    rpc_channel *channel;
    assert_int_equal(rpc_channel_connect(uri, 5000, &channel, error), 0);
    fd = rpc_listener_accept(listener);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
    assert_int_not_equal(on, 0);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size), 0);
    assert_int_not_equal(on, 0);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &on, &size), 0);
    assert_int_equal(on, 0);                    /* it would end the connection of a program that is stopped */
    close(fd);
    rpc_channel_destroy(channel);

    char again[64];
    snprintf(again, sizeof again, "%s", uri);
    rpc_listener *second;
    assert_int_equal(rpc_listener_open(again, &second, error), -EADDRINUSE);
    rpc_listener_close(listener);
    assert_int_equal(rpc_channel_connect(again, 5000, &channel, error), -ECONNREFUSED);
    assert_non_null(strstr(error, again));
}

TEST(unreachable)
{
    char error[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
    assert_int_equal(rpc_channel_connect("local:", 100, &channel, error), -EINVAL);
    assert_int_equal(rpc_channel_connect("unix:///nowhere/at/all", 100, &channel, error), -ENOENT);
    assert_non_null(strstr(error, "no server"));
}

TEST(unknown_name)
{
    char error[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
#ifdef __SANITIZE_THREAD__
    print_message("# glibc looks names up in a thread that ThreadSanitizer does not know; it crashes in malloc\n");
    skip();
#endif
    /* Where there is no name server, nobody knows whether the name exists. */
    int unknown = rpc_channel_connect("tcp://no-such-name.invalid:1", 100, &channel, error);
    assert_true(unknown == -EADDRNOTAVAIL || unknown == -EHOSTUNREACH);
}

/* ---- unix ---- */

static char folder[64];

static const char *socket_uri(char uri[256], const char *query)
{
    snprintf(uri, 256, "unix://%s/s%s", folder, query);
    return uri;
}

static mode_t mode_of_socket(void)
{
    char path[128];
    struct stat there;
    snprintf(path, sizeof path, "%s/s", folder);
    return stat(path, &there) == 0 ? there.st_mode & 0777 : 0;
}

TEST(unix_socket)
{
    char uri[256], error[RPC_ERROR_SIZE] = "";
    rpc_listener *listener, *second;
    mode_t umask_before = umask(0);
    assert_int_equal(rpc_listener_open(socket_uri(uri, ""), &listener, error), 0);
    assert_int_equal(mode_of_socket(), 0600);
    try_out(listener, uri);
    assert_int_equal(rpc_listener_open(uri, &second, error), -EADDRINUSE);      /* alive: not replaced */
    assert_non_null(strstr(error, "another server"));
    try_out(listener, uri);
    rpc_listener_close(listener);
    assert_int_equal(mode_of_socket(), 0);                                      /* gone */

    umask(077);
    assert_int_equal(rpc_listener_open(socket_uri(uri, "?mode=0660"), &listener, error), 0);
    assert_int_equal(mode_of_socket(), 0660);
    assert_null(strchr(rpc_listener_uri(listener), '?'));
    rpc_listener_close(listener);
    umask(umask_before);
}

/* A server that was killed leaves its socket behind. */
TEST(stale)
{
    char uri[256], error[RPC_ERROR_SIZE] = "";
    rpc_listener *listener;
    socket_uri(uri, "");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(rpc_listener_open(uri, &listener, NULL) == 0 ? 0 : 1);
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    assert_int_equal(mode_of_socket(), 0600);
    rpc_channel *channel;
    assert_int_equal(rpc_channel_connect(uri, 1000, &channel, error), -ECONNREFUSED);
    if (rpc_listener_open(uri, &listener, error) != 0)
        fail_msg("%s", error);
    try_out(listener, uri);
    rpc_listener_close(listener);
}

/* Something that is no socket, and a socket of somebody who knows no lock, are left alone. */
TEST(not_ours)
{
    char uri[256], path[100], error[RPC_ERROR_SIZE] = "";
    rpc_listener *listener;
    socket_uri(uri, "");
    snprintf(path, sizeof path, "%s/s", folder);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(rpc_listener_open(uri, &listener, error), -EADDRINUSE);
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);

    struct sockaddr_un at = { .sun_family = AF_UNIX };
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(rpc_listener_open(uri, &listener, error), -EADDRINUSE);
    assert_int_equal(access(path, F_OK), 0);
    close(fd);
    unlink(path);
}

/* The connection queue is full, and nobody accepts: the time limit holds. */
TEST(nobody_accepts)
{
    char path[100], uri[256];
    socket_uri(uri, "");
    snprintf(path, sizeof path, "%s/s", folder);
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 0), 0);
    rpc_channel *channels[8];
    unsigned count = 0;
    int status = 0;
    uint64_t began = clock_now();
    while (count < 8 && status == 0) {
        began = clock_now();
        status = rpc_channel_connect(uri, 200, &channels[count], NULL);
        if (status == 0)
            count++;
    }
    assert_int_not_equal(status, 0);
    assert_in_range((clock_now() - began) / CLOCK_NS_PER_MS, 150, 5000);
    while (count > 0)
        rpc_channel_destroy(channels[--count]);
    close(fd);
    unlink(path);
}

/* A socket of another user in a folder where everybody may write is no server of ours. */
TEST(planted)
{
    char path[100], uri[256], error[RPC_ERROR_SIZE] = "";
    rpc_listener *listener;
    rpc_channel *channel;
    if (geteuid() != 0)
        skip();
    snprintf(path, sizeof path, "%s/s", folder);
    socket_uri(uri, "?mode=0666");
    assert_int_equal(rpc_listener_open(uri, &listener, error), 0);
    socket_uri(uri, "");
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(chmod(folder, 01777), 0);
    assert_int_equal(rpc_channel_connect(uri, 1000, &channel, error), -EACCES);
    assert_non_null(strstr(error, "belongs to user 12345"));
    /* The folder is that user's too, and lies in /tmp. */
    assert_int_equal(chown(folder, 12345, 12345), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(rpc_channel_connect(uri, 1000, &channel, error), -EACCES);
    /* In a folder where only root may write, root has let it. */
    assert_int_equal(chown(folder, 0, 0), 0);
    assert_int_equal(rpc_channel_connect(uri, 1000, &channel, error), 0);
    rpc_channel_destroy(channel);
    rpc_listener_close(listener);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/flyt-listeners-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char lock[128];
    snprintf(lock, sizeof lock, "%s/s.lock", folder);
    unlink(lock);
    return rmdir(folder);
}

int main(void) { return unit_run(make_folder, remove_folder); }
