/*
 * domain.c: FLYT_SOFTGPU_FAULT_DOMAIN=gpu: a fault in one process ends the work of all that share the card, as under
 * MPS.
 *
 * The processes share a small file, /dev/shm/flyt-softgpu-<uid>-<card> (FLYT_SOFTGPU_CARD, default 0), and each holds a
 * shared lock on it while it lives, however it ends. The file holds the first fault's code. Whoever gets the lock
 * for himself alone is the only one there and clears it; a process that comes while a fault stands waits for that.
 *
 * Under a node manager the processes of different tenants share nothing that they can write:
 * FLYT_SOFTGPU_CARD_REPORT is a file of this server's processes, where they write their first fault, and
 * FLYT_SOFTGPU_CARD_WORD one of the node manager, where it announces a fault of the card. It also sees to it that
 * nobody comes while a fault stands.
 */
#include "softgpu/driver/machine/machine.h"
#include "cpu/common/env.h"
#include "cpu/common/fd.h"
#include "cpu/common/log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct card { _Atomic int fault; };
static struct card *card;             /* where we write our faults */
static const struct card *word;       /* where others' are announced; NULL: in card */

static int card_open(void)
{
    const char *name = env_get("FLYT_SOFTGPU_CARD");
    char path[128];
    if (!name || !*name)
        name = "0";
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '_') {
            log_error("software GPU: FLYT_SOFTGPU_CARD=%s: only letters, digits, - and _ make a name", name);
            return -1;
        }
    snprintf(path, sizeof path, "/dev/shm/flyt-softgpu-%u-%s", (unsigned)geteuid(), name);
    int fd = fd_keep(open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    struct stat st;
    if (fd < 0 || fstat(fd, &st) || st.st_uid != geteuid()) {
        log_error("software GPU: cannot share a card through %s: %s", path,
                  fd < 0 ? strerror(errno) : "it is another user's");
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

/* NULL: it has been said why. */
static void *managed_map(const char *path, bool writes)
{
    int fd = open(path, (writes ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool room = fd >= 0 && (!writes || (!ftruncate(fd, sizeof(struct card)) &&
                                        !posix_fallocate(fd, 0, sizeof(struct card))));
    void *at = room ? mmap(NULL, sizeof(struct card), writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0)
                    : MAP_FAILED;
    if (at == MAP_FAILED)
        log_error("software GPU: cannot share a card through %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static CUresult managed_join(const char *report)
{
    const char *path = env_get("FLYT_SOFTGPU_CARD_WORD");
    word = path ? managed_map(path, false) : NULL;
    card = word ? managed_map(report, true) : NULL;
    return card ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

/* Called once, without the mutex. Returns when no fault of others stands. */
CUresult sgd_domain_join(void)
{
    const char *report = env_get("FLYT_SOFTGPU_CARD_REPORT");
    if (report && *report)
        return managed_join(report);
    int fd = card_open();
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    /* Room for all of it now: where there is none, a later access would be a SIGBUS. */
    void *p = ftruncate(fd, sizeof(struct card)) || posix_fallocate(fd, 0, sizeof(struct card))
                  ? MAP_FAILED
                  : mmap(NULL, sizeof(struct card), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        close(fd);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    struct card *c = p;
    bool alone = !flock(fd, LOCK_EX | LOCK_NB);
    if (!alone) {
        while (flock(fd, LOCK_SH) && errno == EINTR)
            ;
        if (atomic_load(&c->fault)) {        /* the card is faulty until all who were there have gone */
            log_info("software GPU: waiting for the other processes of a faulty card to end");
            while (flock(fd, LOCK_EX) && errno == EINTR)
                ;
            alone = true;
        }
    }
    if (alone) {
        atomic_store(&c->fault, 0);
        while (flock(fd, LOCK_SH) && errno == EINTR)
            ;
    }
    card = c;                                /* the descriptor, and so the lock, stays open until the process ends */
    return CUDA_SUCCESS;
}

void sgd_domain_tell(CUresult code)
{
    int none = 0;
    if (card)
        atomic_compare_exchange_strong(&card->fault, &none, (int)code);
}

CUresult sgd_domain_fault(void)
{
    int own = card ? atomic_load(&card->fault) : 0;
    return (CUresult)(own || !word ? own : atomic_load(&word->fault));
}
