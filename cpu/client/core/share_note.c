/*
 * share_note.c: the files that name memory for other processes: sealed, in memory, with what the server gave in them.
 * They travel as descriptors, and nobody can change them.
 */
#include "share.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/common/cancel.h"
#include "cpu/common/fd.h"
#include "state.h"
#include "wire.h"

int core_share_check(void)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (!code && !(core_session.hello.capabilities & FLYT_CAP_SHARES)) {
        core_unsupported("memory for other processes (the GPU server is in this process, or has no such GPU)");
        code = CORE_NOT_SUPPORTED;
    }
    return code;
}

/* ---- files ---- */

#define NOTE_WORDS "Flyt: memory 1\n"
struct note { char words[sizeof NOTE_WORDS - 1]; uint8_t kind; char share[FLYT_SHARE_SIZE]; };
enum { NOTE_SEALS = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

int share_note_make(const char *share, enum share_note kind, int *out)
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
