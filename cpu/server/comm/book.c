/*
 * book.c: the file in which the workers of this server record what their communicators do (cpu/common/comm_book.h), for
 * `flytctl comm`. The node manager names it in $FLYT_COMM_BOOK; a server without one has no such file.
 *
 * A page stays as it is when its communicator has ended, until another one needs it: first pages that were never used
 * are taken, then the one that ended first, also by the death of its worker.
 */
#include "cpu/server/comm/comms_state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/env.h"
#include "cpu/common/fd.h"
#include "cpu/common/log.h"

void book_open(struct comms *comms)
{
    const char *path = env_get("FLYT_COMM_BOOK");
    comms->book_fd = -1;
    if (!path || !*path)
        return;
    int fd = fd_keep(open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    bool sized = fd >= 0 && ftruncate(fd, sizeof(struct comm_book)) == 0;
    /* A page for which the disk has no room would end this process by SIGBUS. */
    int full = sized ? posix_fallocate(fd, 0, sizeof(struct comm_book)) : errno;
    bool good = sized && (!full || full == EOPNOTSUPP || full == EINVAL);
    void *at = good ? mmap(NULL, sizeof *comms->book, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (at != MAP_FAILED) {
        comms->book = at;
        comms->book_fd = fd;
        return;
    }
    log_warning("event=no-comm-book path=%s why=\"%s\": what communicators do is not recorded", path,
                strerror(full ? full : errno));
    if (fd >= 0)
        close(fd);
}

/* When its rank ended; 0: it goes on; a page that is free ended before all others. */
static uint64_t ended(const struct comm_book_head *head)
{
    if (!head->pid)
        return 1;
    const bool dead = head->pid < 0 || (kill((pid_t)head->pid, 0) != 0 && errno == ESRCH);
    return head->ended ? head->ended : dead ? head->made : 0;
}

static uint64_t wall_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

void book_end(pid_t worker)
{
    const char *path = env_get("FLYT_COMM_BOOK");
    int fd = path && *path ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    struct comm_book_head head;
    for (off_t i = 0; fd >= 0 && i < COMM_BOOK_PAGES; i++) {
        /* not mapped: workers may cut the file short */
        const off_t at = i * (off_t)sizeof head;
        if (pread(fd, &head, sizeof head, at) != sizeof head)
            break;
        if (head.pid != worker || head.ended)
            continue;
        head.ended = wall_ns();
        if (!head.status)
            snprintf(head.why, sizeof head.why, "its program has ended");
        if (pwrite(fd, &head, sizeof head, at) != sizeof head)
            break;
    }
    if (fd >= 0)
        close(fd);
}

/* Ranks of one communicator have the same, and nobody learns the place from it. */
static uint64_t name_of(const char place[FLYT_COMM_PLACE_SIZE])
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (unsigned i = 0; i < FLYT_COMM_PLACE_SIZE; i++)
        hash = (hash ^ (uint8_t)place[i]) * UINT64_C(0x100000001b3);
    return hash;
}

struct comm_book_page book_take(struct comms *comms, const char place[FLYT_COMM_PLACE_SIZE], const char *client)
{
    struct comm_book *book = comms->book;
    unsigned best = COMM_BOOK_PAGES;
    uint64_t first = UINT64_MAX;
    if (!book || flock(comms->book_fd, LOCK_EX) != 0)
        return (struct comm_book_page){ NULL, NULL };
    for (unsigned i = 0; i < COMM_BOOK_PAGES; i++) {
        uint64_t at = ended(&book->heads[i]);
        if (at && at < first) {
            first = at;
            best = i;
        }
    }
    struct comm_book_head *head = best < COMM_BOOK_PAGES ? &book->heads[best] : NULL;
    if (head) {
        memset(head, 0, sizeof *head);
        memset(book->calls[best], 0, sizeof book->calls[best]);
        head->pid = getpid();
        head->name = name_of(place);
        snprintf(head->client, sizeof head->client, "%s", client);
    }
    flock(comms->book_fd, LOCK_UN);
    return (struct comm_book_page){ head, head ? book->calls[best] : NULL };
}
