/*
 * by_userfault.c: pages are watched with userfaultfd(2): missing ones, and ones that are closed to writing.
 *
 * The program's signal handlers are not concerned, and system calls wait for pages as the program's own accesses do,
 * where the system allows that (root, CAP_SYS_PTRACE, vm.unprivileged_userfaultfd = 1, or access to /dev/userfaultfd).
 * Else the kernel reports only the program's own accesses, and a system call fails with EFAULT.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu/common/fd.h"
#include "room.h"
#include "spans.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0)
#endif

enum { FLAGS = O_CLOEXEC | O_NONBLOCK, WANTED = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_THREAD_ID };

static int uffd = -1;
static void *staging;                         /* AHEAD_MOST pages, used under spans_lock */

static int descriptor_open(void)
{
    int fd = (int)syscall(SYS_userfaultfd, FLAGS);
    int device = fd < 0 ? open("/dev/userfaultfd", O_RDWR | O_CLOEXEC) : -1;
    if (device >= 0) {
        fd = ioctl(device, USERFAULTFD_IOC_NEW, FLAGS);
        close(device);
    }
    return fd >= 0 ? fd : (int)syscall(SYS_userfaultfd, FLAGS | UFFD_USER_MODE_ONLY);
}

/* ---- messages ---- */

static void wake(uint64_t address)
{
    struct uffdio_range range = { .start = address & ~(uint64_t)(PAGE - 1), .len = PAGE };
    ioctl(uffd, UFFDIO_WAKE, &range);
}

/* Where there is no page for it, the access fails as it would without us. */
static void done(struct fault *f, bool ours)
{
    uint64_t page = f->address & ~(uint64_t)(PAGE - 1);
    if (!ours)
        mprotect((void *)(uintptr_t)page, PAGE, PROT_NONE);
    wake(f->address);
    free(f);
}

static void readable(void)
{
    struct uffd_msg message;
    while (read(uffd, &message, sizeof message) == (ssize_t)sizeof message) {
        if (message.event != UFFD_EVENT_PAGEFAULT)
            continue;
        struct fault *f = calloc(1, sizeof *f);
        if (!f) {
            wake(message.arg.pagefault.address);            /* it comes again */
            continue;
        }
        *f = (struct fault){ .address = message.arg.pagefault.address,
                             .thread = (pid_t)message.arg.pagefault.feat.ptid,
                             .writes = message.arg.pagefault.flags &
                                       (UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP),
                             .done = done };
        fault_put(f);
    }
}

/* ---- the way ---- */

static bool userfault_open(void)
{
    struct uffdio_api api = { .api = UFFD_API, .features = WANTED };
    int fd = descriptor_open();
    if (fd < 0)
        return false;
    if (ioctl(fd, UFFDIO_API, &api) != 0) {
        close(fd);
        return false;
    }
    staging = mmap(NULL, AHEAD_MOST * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (staging == MAP_FAILED || (uffd = fd_keep(fd)) < 0)
        return false;
    return faults_open(uffd, readable);
}

static void userfault_end(uint64_t base, size_t size)
{
    struct uffdio_range range = { .start = base, .len = size };
    ioctl(uffd, UFFDIO_UNREGISTER, &range);
    mmap((void *)(uintptr_t)base, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static bool userfault_begin(uint64_t base, size_t size)
{
    struct uffdio_register area = { .range = { .start = base, .len = size },
                                    .mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP };
    if (mprotect((void *)(uintptr_t)base, size, PROT_READ | PROT_WRITE) == 0 &&
        ioctl(uffd, UFFDIO_REGISTER, &area) == 0)
        return true;
    userfault_end(base, size);
    return false;
}

/* `done` has closed a page that was nobody's when it was touched. */
static void userfault_admit(uint64_t at, size_t size)
{
    mprotect((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE);
}

static void userfault_look_after(void)
{
}

static void *userfault_stage(size_t size)
{
    return size <= AHEAD_MOST * PAGE ? staging : NULL;
}

static void userfault_unstage(void *staged, size_t size)
{
    (void)staged, (void)size;
}

/* What the kernel says while the program's memory changes under it (a fork, say): once more. */
static bool again(long long so_far)
{
    return errno == EAGAIN && so_far >= -EAGAIN;
}

static bool userfault_reveal(uint64_t at, void *staged, size_t size, bool writable)
{
    for (size_t moved = 0; moved < size;) {
        struct uffdio_copy copy = { .dst = at + moved, .src = (uint64_t)(uintptr_t)staged + moved, .len = size - moved,
                                    .mode = writable ? 0 : UFFDIO_COPY_MODE_WP };
        if (ioctl(uffd, UFFDIO_COPY, &copy) != 0 && !again(copy.copy))
            return false;
        moved += copy.copy > 0 ? (size_t)copy.copy : 0;
    }
    return true;
}

static bool userfault_zero(uint64_t at, size_t size)
{
    for (size_t done_so_far = 0; done_so_far < size;) {
        struct uffdio_zeropage zero = { .range = { .start = at + done_so_far, .len = size - done_so_far } };
        if (ioctl(uffd, UFFDIO_ZEROPAGE, &zero) != 0 && !again(zero.zeropage))
            return false;
        done_so_far += zero.zeropage > 0 ? (size_t)zero.zeropage : 0;
    }
    return true;
}

static bool userfault_protect(uint64_t at, size_t size, bool writable)
{
    struct uffdio_writeprotect protection = { .range = { .start = at, .len = size },
                                              .mode = writable ? 0 : UFFDIO_WRITEPROTECT_MODE_WP };
    int result;
    do
        result = ioctl(uffd, UFFDIO_WRITEPROTECT, &protection);
    while (result != 0 && errno == EAGAIN);
    return result == 0;
}

static void userfault_hide(uint64_t at, size_t size)
{
    madvise((void *)(uintptr_t)at, size, MADV_DONTNEED);
}

const struct pages_way pages_by_userfault = {
    .name = "userfaultfd",
    .open = userfault_open,
    .begin = userfault_begin,
    .end = userfault_end,
    .admit = userfault_admit,
    .look_after = userfault_look_after,
    .stage = userfault_stage,
    .unstage = userfault_unstage,
    .reveal = userfault_reveal,
    .zero = userfault_zero,
    .protect = userfault_protect,
    .hide = userfault_hide,
};
