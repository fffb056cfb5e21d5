/*
 * What a GPU server has in its folder holds up nobody but itself. flyt-node-manager, with a cluster manager made of the
 * test, real GPU servers, and a disk that the test makes slow (slow_disk.c).
 * shows: attacks: a GPU server fills its folder with files and deep folders: the node manager answers meanwhile, and
  *   all of it is removed; one that goes beyond virt-server.max-files or max-disk is ended
 * shows: node manager: it never waits for the disk, and keeps the logs of servers that have gone
 */
#include "tests/control/node_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ANSWER_MS = 1500, /* of an order that costs nothing; the slow disk would take two seconds at least */
    FILES = 300,      /* which the slow disk needs six seconds to remove */
    DEEP = 150
};

static const char *slow_disk;

static int own(uint64_t id, const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/state/servers/%d/own/%s", fake.folder, (int)id, name);
    if (*name)
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    return folder;
}

static void fill(int folder, int count)
{
    char name[32];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "f%d", i);
        int fd = openat(folder, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    close(folder);
}

/* A file that takes so many bytes of the disk, with a hole before them. */
static void enlarge(int folder, off_t hole, off_t bytes)
{
    int fd = openat(folder, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, hole), 0);
    if (bytes)
        assert_int_equal(posix_fallocate(fd, hole, bytes), 0);
    close(fd);
    close(folder);
}

/* Folders within each other, each with a file. */
static void dig(int folder, int depth)
{
    for (int i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(folder, "deeper", 0), 0);
        assert_int_equal(fchmodat(folder, "deeper", 0700, 0), 0);
        int inner = openat(folder, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(inner >= 0);
        close(folder);
        folder = inner;
        int fd = openat(folder, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    close(folder);
}

static void slow(bool on)
{
    char path[160];
    snprintf(path, sizeof path, "%s/slow", fake.folder);
    if (on)
        fake_file("slow", "x");
    else
        unlink(path);
}

/* Entries of a folder of the state folder; -1: it is not there. */
static int entries(const char *name)
{
    char path[200];
    int count = 0;
    struct dirent *entry;
    snprintf(path, sizeof path, "%s/state/%s", fake.folder, name);
    DIR *dir = opendir(path);
    if (!dir)
        return -1;
    while ((entry = readdir(dir)))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

static void assert_it_answers(void)
{
    node_order_body keys = { .kind = NODE_ORDER_KEYS };
    char key[32] = "another key";
    keys.node_order_body_u.ticket_key.ticket_key_len = sizeof key;
    keys.node_order_body_u.ticket_key.ticket_key_val = key;
    uint64_t number = fake_order(&keys);
    fake_until(fake_done(number), ANSWER_MS);
    assert_int_equal(fake_done(number)->code, CTL_OK);
}

/* The node manager writes through the slow disk. */
static int setup(void **state)
{
    static char preload[300], delay[160];
    node_setup(state);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", slow_disk);
    snprintf(delay, sizeof delay, "FLYT_TEST_SLOW=%s/slow", fake.folder);
    environment[0] = preload;
    environment[1] = delay;
    environment[2] = (char *)(uintptr_t)"FLYT_LOG=info";
    return 0;
}

static int teardown(void **state)
{
    slow(false);
    return node_teardown(state);
}

TEST_WITH(test_ended, setup, teardown)
{
    pid_t node = start_node();
    start_server(1);
    start_server(2);
    fill(own(1, "more"), FILES);
    dig(own(1, "deep"), DEEP);
    slow(true);
    assert_it_answers(); /* server 2 is given its keys, on a disk that takes its time */
    stop_server(1, 200);
    assert_it_answers();
    assert_true(entries("servers/1") < 0 && entries("servers/.removed") > 0);
    slow(false);
    fake_until(entries("servers/.removed") == 0, SOON_MS);
    stop_server(2, 200);
    end_node(node);
}

/* What an earlier process of a server has left is put away before the next one begins. */
TEST_WITH(test_crashed, setup, teardown)
{
    pid_t node = start_node(), server = start_server(1);
    fill(own(1, "programs"), FILES);
    slow(true);
    kill(server, SIGKILL);
    fake_until(in_state(1, CTL_SERVER_STARTING), SOON_MS);
    assert_it_answers();
    slow(false);
    fake_until(in_state(1, CTL_SERVER_RUNNING), START_MS);
    assert_int_equal(fake_server(1)->restarts, 1);
    stop_server(1, 200);
    end_node(node);
}

/* What the node manager had no time to remove goes when it is there again. */
TEST_WITH(test_left_behind, setup, teardown)
{
    pid_t node = start_node();
    start_server(1);
    fill(own(1, "more"), FILES);
    slow(true);
    order_stop(1, 200);
    fake_until(in_state(1, CTL_SERVER_ENDED) && entries("servers/.removed") > 0, SOON_MS);
    kill(node, SIGKILL);
    fake_wait(node, SOON_MS);
    slow(false);
    node = start_node();
    assert_int_equal(fake.node_args.servers.servers_len, 0);
    fake_until(entries("servers/.removed") == 0, SOON_MS);
    end_node(node);
}

TEST_WITH(test_too_many, setup, teardown)
{
    snprintf(more_config, sizeof more_config, "max-files = 100;");
    pid_t node = start_node();
    start_server(1);
    fill(own(1, "few"), 20);
    start_server(2);
    dig(own(2, "deep"), 40);
    fake_until(in_state(2, CTL_SERVER_ENDED), SOON_MS);
    assert_true(in_state(1, CTL_SERVER_RUNNING));
    fill(own(1, "many"), 100);
    fake_until(in_state(1, CTL_SERVER_ENDED), SOON_MS);
    assert_int_equal(fake_server(1)->status.code, CTL_NO_ROOM);
    assert_non_null(strstr(fake_server(1)->status.text, "virt-server.max-files"));
    /* Its VM cannot do it again at once. */
    ctl_server_spec spec;
    fake_spec(&spec, 3);
    uint64_t number = order_start(&spec);
    fake_until(fake_done(number), SOON_MS);
    assert_int_equal(fake_done(number)->code, CTL_DENIED);
    fake_until(entries("servers/.removed") == 0, SOON_MS);
    end_node(node);
}

TEST_WITH(test_too_large, setup, teardown)
{
    snprintf(more_config, sizeof more_config, "max-disk = \"4M\";");
    pid_t node = start_node();
    start_server(1);
    start_server(2);
    enlarge(own(2, "sparse"), 1 << 30, 0); /* takes nothing of the disk */
    enlarge(own(1, "large"), 0, 8 << 20);
    fake_until(in_state(1, CTL_SERVER_ENDED), SOON_MS);
    assert_int_equal(fake_server(1)->status.code, CTL_NO_ROOM);
    assert_non_null(strstr(fake_server(1)->status.text, "virt-server.max-disk"));
    assert_true(in_state(2, CTL_SERVER_RUNNING));
    end_node(node);
}

/* The machine has crashed before the state of a server was on its disk. */
TEST_WITH(test_empty_state, setup, teardown)
{
    char path[160];
    pid_t node = start_node();
    end_node(node);
    for (int id = 7; id < 9; id++) {
        snprintf(path, sizeof path, "%s/state/servers/%d", fake.folder, id);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    fake_file("state/servers/7/state", "%s", "");
    node = start_node();
    assert_int_equal(fake.node_args.servers.servers_len, 0);
    fake_until(entries("servers") == 1 && entries("servers/.removed") == 0, SOON_MS);
    end_node(node);
}

/* What a server has said can be read when it has gone; of so many of them. */
TEST_WITH(test_log_stays, setup, teardown)
{
    enum { KEPT = 100 };
    char path[200], name[64], text[4096] = "";
    snprintf(path, sizeof path, "%s/state", fake.folder);
    assert_int_equal(mkdir(path, 0755), 0);
    strcat(path, "/logs");
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < KEPT; i++) {
        snprintf(name, sizeof name, "state/logs/%d-vm0.log", i + 1);
        fake_file(name, "of before\n");
    }
    pid_t node = start_node();
    start_server(1000);
    stop_server(1000, 200);
    assert_int_equal(entries("logs"), KEPT);
    strcat(path, "/1000-vm1.log");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    assert_non_null(strstr(text, "event=serving"));
    assert_non_null(strstr(fake_log(node), path));
    end_node(node);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s BIN SLOW-DISK\n", argv[0]);
        return 2;
    }
    fake_bin = argv[1];
    slow_disk = realpath(argv[2], NULL);
    return unit_run(NULL, NULL);
}
