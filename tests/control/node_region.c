/*
 * The memory that virtual machines share with their GPU servers (control-managers/node-manager/region.c), without a
 * node manager: files in a folder of ours.
 *
 * shows: virtual machine: the node manager makes each VM's memory as configured, never changes or removes one that
  *   somebody has open, and follows no link
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control-managers/node-manager/node.h"
#include "cpu/common/log.h"
#include "tests/lib/unit.h"

enum { MIB = 1 << 20 };

static char folder[64], path[128], out[NODE_PATH_SIZE];
static struct node_config config;
static struct node_manager node = { .config = &config };
static bool tls;
static uint32_t shared_group;

/* What region.c asks of other files. */
bool node_servers_tls(const struct node_manager *of) { return of && tls; }
uid_t users_shared(const struct node_manager *of) { return of ? shared_group : 0; }

static int begin(void **state)
{
    static char *items[] = { (char *)"vm=64M:2", (char *)"other=8192K:2" };
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/flyt-region-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/flyt-vm-vm", folder);
    config = (struct node_config){ 0 };
    config.shared_memory.items = items;
    config.shared_memory.count = 2;
    config.shared_memory_folder = folder;
    config.shared_memory_group = (char *)"";
    tls = false;
    shared_group = 0;
    return 0;
}

static int end(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static bool argument(const char *vm)
{
    gid_t group;
    return region_argument(&node, vm, out, sizeof out, &group);
}

static struct stat is(void)
{
    struct stat found;
    assert_int_equal(lstat(path, &found), 0);
    return found;
}

/* Another process that has the file open, as QEMU has. */
static pid_t holder_start(void)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_RDWR);
        if (fd < 0 || write(ends[1], "", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return pid;
}

static void holder_end(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST_WITH(made_as_configured, begin, end)
{
    char wanted[256];
    regions_make(&node);
    assert_int_equal(is().st_size, 64 * MIB);
    assert_int_equal(is().st_mode & 07777, 0600);
    assert_true(argument("vm"));
    snprintf(wanted, sizeof wanted, "%s,2", path);
    assert_string_equal(out, wanted);
    char file[NODE_PATH_SIZE];
    region_file(out, file);
    assert_string_equal(file, path);
    assert_true(argument("other"));
    assert_false(argument("third"));
    assert_false(argument("v"));
    assert_false(argument("vm=64M:2"));
    assert_false(argument(""));
    regions_remove(&node);
    assert_int_equal(access(path, F_OK), -1);
}

TEST_WITH(groups, begin, end)
{
    const struct group *own = getgrgid(getgid());
    assert_non_null(own);
    config.shared_memory_group = own->gr_name;
    assert_true(argument("vm"));
    /* Only where there is a group other than root's can it be given away to. */
    assert_int_equal(is().st_mode & 07777, own->gr_gid ? 0660 : 0600);
    config.shared_memory_group = (char *)"no-such-group";
    assert_false(argument("vm"));
    config.shared_memory_group = (char *)"";
    if (getuid() == 0) {
        shared_group = 61234;
        assert_true(argument("vm"));
        assert_int_equal(is().st_gid, 61234);
        assert_int_equal(is().st_mode & 07777, 0660);
    }
}

TEST_WITH(encrypted_servers_have_none, begin, end)
{
    tls = true;
    assert_false(argument("vm"));
    assert_int_equal(access(path, F_OK), -1);
}

/* Its contents stay, and so does its size while somebody has it open. */
TEST_WITH(a_file_that_is_there, begin, end)
{
    char text[8] = "";
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 64 * MIB), 0);
    assert_int_equal(pwrite(fd, "guest", 6, 5 * MIB), 6);
    close(fd);
    assert_true(argument("vm"));
    assert_int_equal(is().st_mode & 07777, 0600);
    fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, text, 6, 5 * MIB), 6);
    assert_string_equal(text, "guest");
    close(fd);

    assert_int_equal(truncate(path, 32 * MIB), 0);
    pid_t qemu = holder_start();
    assert_false(argument("vm"));
    assert_int_equal(is().st_size, 32 * MIB);
    regions_make(&node);
    assert_int_equal(is().st_size, 32 * MIB);
    regions_remove(&node);
    assert_int_equal(is().st_size, 32 * MIB);
    holder_end(qemu);
    assert_true(argument("vm"));
    assert_int_equal(is().st_size, 64 * MIB);
    qemu = holder_start();
    assert_true(argument("vm"));                /* open, and as it should be */
    holder_end(qemu);
}

/* Who may write in the folder must not make the node manager give away, cut or remove another file. */
TEST_WITH(tricks, begin, end)
{
    char target[128];
    struct stat found;
    snprintf(target, sizeof target, "%s/precious", folder);
    int fd = open(target, O_RDWR | O_CREAT, 0640);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
    for (int kind = 0; kind < 4; kind++) {
        if (kind == 0)
            assert_int_equal(symlink(target, path), 0);
        else if (kind == 1)
            assert_int_equal(link(target, path), 0);
        else if (kind == 2)
            assert_int_equal(mkfifo(path, 0600), 0);
        else
            assert_int_equal(mkdir(path, 0700), 0);
        assert_false(argument("vm"));
        regions_make(&node);
        assert_int_equal(stat(target, &found), 0);
        assert_int_equal(found.st_size, 8);
        assert_int_equal(found.st_mode & 07777, 0640);
        assert_int_equal(kind == 3 ? rmdir(path) : unlink(path), 0);
    }
}

TEST(items)
{
    static const struct { const char *text; bool good; uint64_t size; unsigned programs; } table[] = {
        { "vm1=512M:8", true, 512ull * MIB, 8 },
        { "vm1=512M", true, 512ull * MIB, 4 },
        { "a.b-c=16777216:4", true, 16 * MIB, 4 },
        { "vm1=1G:256", true, 1024ull * MIB, 256 },
        { "vm1=1G:257", false, 0, 0 },
        { "vm1=16M:5", false, 0, 0 },
        { "vm1=16M:0", false, 0, 0 },
        { "vm1=16M:", false, 0, 0 },
        { "vm1=16M8", false, 0, 0 },
        { "vm1=16T", false, 0, 0 },
        { "vm1=", false, 0, 0 },
        { "vm1", false, 0, 0 },
        { "=16M", false, 0, 0 },
        { "../x=16M", false, 0, 0 },
        { "vm1=-16M", false, 0, 0 },
        { "vm1=99999999999999999999G", false, 0, 0 },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t name = 0;
        uint64_t size = 0;
        unsigned programs = 0;
        if (node_memory_read(table[i].text, &name, &size, &programs) != table[i].good)
            fail_msg("%s", table[i].text);
        if (table[i].good) {
            assert_int_equal(name, strcspn(table[i].text, "="));
            assert_int_equal(size, table[i].size);
            assert_int_equal(programs, table[i].programs);
        }
    }
}

int main(void) { return unit_run(NULL, NULL); }
