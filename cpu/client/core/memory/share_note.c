/*
 * share_note.c: the files that name memory for other processes: sealed, in memory, with what the server gave in them.
 * They travel as descriptors, and nobody can change them.
 */
#include "share.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/common/cancel.h"
#include "cpu/common/fd.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

int core_share_check(void)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (!code && !(core_session.hello.capabilities & FLYT_CAP_SHARES)) {
        core_unsupported(session_several()
                             ? "memory or an event for other processes, in a program with several GPU servers,"
                             : "memory or an event for other processes (the GPU server is in this process, or has no "
                               "such GPU)");
        code = CORE_NOT_SUPPORTED;
    }
    return code;
}

/* ---- files ---- */

#define NOTE_WORDS "Flyt: memory 1\n"
struct note { char words[sizeof NOTE_WORDS - 1]; uint8_t kind; char share[FLYT_SHARE_SIZE]; };
enum { NOTE_SEALS = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* The program's description of the file has a lock, which goes with the last copy of it, in whatever process. The file
   is opened a second time to look at the lock. */
static int watch_open(int fd)
{
    char path[32];
    struct flock shared = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int watch = fd_keep(open(path, O_RDONLY | O_CLOEXEC));
    if (watch >= 0 && fcntl(fd, F_OFD_SETLK, &shared) != 0) {
        close(watch);
        watch = -1;
    }
    return watch;
}

bool share_note_held(int watch)
{
    struct flock any = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    return fcntl(watch, F_OFD_GETLK, &any) == 0 && any.l_type != F_UNLCK;
}

int share_note_make(const char *share, enum share_note kind, int *out, int *watch)
{
    struct note note = { .words = NOTE_WORDS, .kind = (uint8_t)kind };
    memcpy(note.share, share, sizeof note.share);
    int fd = fd_keep(memfd_create("flyt-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0)
        return CORE_OPERATING_SYSTEM;
    if (write(fd, &note, sizeof note) != sizeof note || fcntl(fd, F_ADD_SEALS, NOTE_SEALS) != 0) {
        close(fd);
        return CORE_OPERATING_SYSTEM;
    }
    if (watch)
        *watch = watch_open(fd);
    *out = fd;
    return CORE_OK;
}

/* Only files in memory have seals, so reading one waits for nobody, and nobody changes it meanwhile. */
int share_note_read(int fd, enum share_note kind, char *share)
{
    struct note note;
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & NOTE_SEALS) != NOTE_SEALS || fstat(fd, &status) != 0 || status.st_size != sizeof note ||
        pread(fd, &note, sizeof note, 0) != sizeof note || note.kind != kind ||
        memcmp(note.words, NOTE_WORDS, sizeof note.words) != 0)
        return CORE_INVALID_VALUE;
    memcpy(share, note.share, sizeof note.share);
    return CORE_OK;
}
