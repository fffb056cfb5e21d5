/*
 * root.c: the root folder of a GPU server: a small file system in memory, in which those of the machine's files and
 * folders are mounted that the server needs, read-only, and its own folder. Everything else of the machine has no name
 * there: secrets, the resource database, homes, sockets of other daemons.
 *
 * The parent makes a list (root_show …), the child makes the mounts with system calls only (root_enter).
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control-managers/node-manager/sandbox.h"

#define ROOT_OPTIONS "mode=0755,size=1m"
#define SHARED_OPTIONS "mode=0700,size=64m,uid=%u,gid=%u"

/* ---- the list ---- */

static void add(struct root *root, enum root_kind kind, const char *source, const char *path)
{
    struct root_entry *entry = &root->entries[root->count];
    if (root->bad || root->count == ROOT_MOST || !root->base) {
        root->bad = true;
        return;
    }
    *entry = (struct root_entry){ .kind = kind, .source = strdup(source) };
    if (!entry->source || asprintf(&entry->target, "%s%s", root->base, path) < 0) {
        free(entry->source);
        root->bad = true;
        return;
    }
    root->count++;
}

void root_show(struct root *root, enum root_kind kind, const char *path)
{
    if (path[0] == '/' && path[1] && access(path, F_OK) == 0)
        add(root, kind, path, path);
}

/* On today's systems /bin and /lib are links into /usr. */
static void show_system_folder(struct root *root, const char *path)
{
    char target[PATH_MAX];
    ssize_t size = readlink(path, target, sizeof target - 1);
    if (size < 0) {
        root_show(root, ROOT_SHOWN, path);
        return;
    }
    target[size] = '\0';
    add(root, ROOT_LINK, target, path);
}

static bool below(const char *path, const char *folder)
{
    size_t size = strlen(folder);
    return strncmp(path, folder, size) == 0 && (path[size] == '/' || !path[size]);
}

/* Folders of libraries that this process was given, and gives to its servers. */
static void show_library_path(struct root *root)
{
    char *all = strdup(getenv("LD_LIBRARY_PATH") ? getenv("LD_LIBRARY_PATH") : ""), *rest = all;
    for (char *folder; rest && (folder = strsep(&rest, ":"));)
        if (!below(folder, "/usr"))
            root_show(root, ROOT_SHOWN, folder);
    free(all);
}

void root_begin(struct root *root, const char *base, uid_t user)
{
    static const char *const folders[] = { "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32" };
    /* How programs are loaded, the time zone, OpenSSL's settings. */
    static const char *const settings[] = { "/etc/ld.so.cache",  "/etc/ld.so.conf", "/etc/ld.so.conf.d",
                                            "/etc/alternatives", "/etc/localtime",  "/etc/ssl/openssl.cnf" };
    static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom" };
    char options[80];
    *root = (struct root){ .base = strdup(base) };
    root_show(root, ROOT_SHOWN, "/usr");
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        show_system_folder(root, folders[i]);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        root_show(root, ROOT_SHOWN, settings[i]);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        root_show(root, ROOT_DEVICE, devices[i]);
    snprintf(options, sizeof options, SHARED_OPTIONS, (unsigned)user, (unsigned)user);
    add(root, ROOT_MEMORY, options, "/dev/shm");
    add(root, ROOT_PROC, "/proc", "/proc");
    root_show(root, ROOT_SHOWN, "/sys/devices/system"); /* processors and memory nodes */
    show_library_path(root);
}

void root_show_program(struct root *root, const char *program)
{
    static const char *const beside[] = { "libsoftgpu.so", "libsoftgpu-jit.so", "libflyt-tls.so", "libflyt-server.so" };
    char path[PATH_MAX];
    const char *slash = strrchr(program, '/');
    if (!slash || below(program, "/usr"))
        return;
    root_show(root, ROOT_SHOWN, program);
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        if ((size_t)snprintf(path, sizeof path, "%.*s/%s", (int)(slash - program), program, beside[i]) < sizeof path)
            root_show(root, ROOT_SHOWN, path);
}

static void show_matching(struct root *root, enum root_kind kind, const char *pattern)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        root_show(root, kind, found.gl_pathv[i]);
    globfree(&found);
}

void root_show_nvidia_gpu(struct root *root, int minor)
{
    char path[32] = "/dev/nvidia[0-9]*";
    if (minor >= 0)
        snprintf(path, sizeof path, "/dev/nvidia%d", minor);
    show_matching(root, ROOT_DEVICE, path);
}

void root_show_nvidia(struct root *root)
{
    /* nvidiactl: the driver's control device; nvidia-uvm: managed and virtual memory; caps: MIG instances; dxg: WSL */
    static const char *const devices[] = { "/dev/nvidiactl",
                                           "/dev/nvidia-uvm",
                                           "/dev/nvidia-uvm-tools",
                                           "/dev/nvidia-caps/*",
                                           "/dev/nvidia-caps-imex-channels/*",
                                           "/dev/dxg" };
    /* which PCI devices there are and near which processors; the driver's version; where distributions put it */
    static const char *const shown[] = { "/sys/devices", "/sys/bus/pci",       "/sys/module",
                                         "/etc/nvidia",  "/run/opengl-driver", "/nix/store" };
    /* It does not start where it cannot write the names of its threads into /proc/self/task/<id>/comm. */
    for (size_t i = 0; i < root->count; i++)
        if (root->entries[i].kind == ROOT_PROC)
            root->entries[i].kind = ROOT_PROC_WRITTEN;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        show_matching(root, ROOT_DEVICE, devices[i]);
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        root_show(root, ROOT_SHOWN, shown[i]);
}

void root_end(struct root *root)
{
    for (size_t i = 0; i < root->count; i++) {
        free(root->entries[i].source);
        free(root->entries[i].target);
    }
    free(root->base);
    *root = (struct root){ .count = 0 };
}

/* ---- in the child ---- */

/* The folders above `path`; `path` itself too where it is to be one. What is there already, below a folder that is
   shown, stays. */
static int make_folders(const char *path, size_t from, bool itself)
{
    char part[PATH_MAX];
    size_t size = strlen(path);
    if (size >= sizeof part)
        return -1;
    memcpy(part, path, size + 1);
    for (size_t i = from + 1; i < size; i++)
        if (part[i] == '/') {
            part[i] = '\0';
            if (mkdir(part, 0755) != 0 && errno != EEXIST)
                return -1;
            part[i] = '/';
        }
    return itself && mkdir(part, 0755) != 0 && errno != EEXIST ? -1 : 0;
}

static int set_attributes(const char *path, unsigned long long attributes, unsigned flags)
{
    struct mount_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.attr_set = attributes;
    return syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &attr, sizeof attr) == 0 ? 0 : -1;
}

static int show(const struct root_entry *entry, size_t from, unsigned long long attributes)
{
    struct stat st;
    if (stat(entry->source, &st) != 0)
        return errno == ENOENT ? 0 : -1; /* it went away after the list was made */
    if (make_folders(entry->target, from, S_ISDIR(st.st_mode)) != 0)
        return -1;
    if (!S_ISDIR(st.st_mode)) {
        int fd = open(entry->target, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0444);
        if (fd < 0 && errno != EROFS && errno != EACCES && errno != ETXTBSY)
            return -1;
        if (fd >= 0)
            close(fd);
    }
    return mount(entry->source, entry->target, NULL, MS_BIND | MS_REC, NULL) == 0 &&
                   set_attributes(entry->target, attributes, AT_RECURSIVE) == 0
               ? 0
               : -1;
}

/* Makes those parts of /proc read-only that belong to the machine and not to a process. Their files belong to root
   anyway: this is a second line of defence. */
static int shut_machine(const char *proc)
{
    static const char *const names[] = { "acpi", "asound", "bus", "driver", "dynamic_debug", "fs", "irq", "mtrr",
                                         "pressure", "scsi", "sys", "sysrq-trigger", "tty" };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if ((size_t)snprintf(path, sizeof path, "%s/%s", proc, names[i]) >= sizeof path)
            return -1;
        if (access(path, F_OK) != 0)
            continue;
        if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) != 0 ||
            set_attributes(path, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                           AT_RECURSIVE) != 0)
            return -1;
    }
    return 0;
}

static int make_proc(const struct root_entry *entry)
{
    const bool written = entry->kind == ROOT_PROC_WRITTEN;
    if (mkdir(entry->target, 0555) != 0)
        return -1;
    if (mount("proc", entry->target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | (written ? 0 : MS_RDONLY), NULL) == 0)
        return written ? shut_machine(entry->target) : 0;
    /* A container hides parts of its /proc, and then gives no other. That one shows processes of others, so it is
       never written. */
    if (mount("/proc", entry->target, NULL, MS_BIND | MS_REC, NULL) != 0 ||
        set_attributes(entry->target, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                       AT_RECURSIVE) != 0)
        return -1;
    return ROOT_NO_PROC;
}

static int make(const struct root_entry *entry, size_t from)
{
    switch (entry->kind) {
    case ROOT_FOLDER: return make_folders(entry->target, from, true);
    case ROOT_LINK: return make_folders(entry->target, from, false) == 0 ? symlink(entry->source, entry->target) : -1;
    case ROOT_SHOWN: return show(entry, from, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    case ROOT_DEVICE: return show(entry, from, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    case ROOT_WRITABLE: return show(entry, from, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    case ROOT_PROC:
    case ROOT_PROC_WRITTEN: return make_proc(entry);
    case ROOT_MEMORY:
        return make_folders(entry->target, from, true) == 0
                   ? mount("none", entry->target, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, entry->source)
                   : -1;
    }
    return -1;
}

int root_enter(const struct root *root)
{
    size_t from = strlen(root->base);
    int lacks = 0;
    mode_t before = umask(0022); /* the folders on the way are for the server's user too */
    if (root->bad || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", root->base, "tmpfs", MS_NOSUID | MS_NODEV, ROOT_OPTIONS) != 0)
        return -1;
    for (size_t i = 0; i < root->count; i++) {
        int made = make(&root->entries[i], from);
        if (made < 0)
            return -1;
        lacks |= made;
    }
    umask(before);
    bool entered = set_attributes(root->base, MOUNT_ATTR_RDONLY, 0) == 0 && chdir(root->base) == 0 &&
                   syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 && chdir("/") == 0;
    return entered ? lacks : -1;
}
