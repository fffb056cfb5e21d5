/*
 * checkpoint.c: see checkpoint.h. With a checkpoint before, only what has changed since is written (move_changes.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cpu/client/core/moves/checkpoint.h"
#include "cpu/client/core/stream/move_changes.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/common/version.h"

/* Of the last checkpoint. Whoever makes one takes it away meanwhile: so no lock is needed, and a fork can come at any
   time. */
static struct move_changes *_Atomic last;

/* Values of facts are lines. */
static void clean(char *text)
{
    for (; *text; text++)
        *text = (unsigned char)*text < 0x20 ? '?' : *text;
}

static bool facts_make(char *facts, size_t size, const char *id, const struct checkpoint_order *wish,
                       const struct move_changes *before)
{
    char host[256] = "", executable[PATH_MAX] = "", file[PATH_MAX], base[PATH_MAX + 128] = "";
    gethostname(host, sizeof host - 1);
    ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
    executable[length > 0 ? length : 0] = 0;
    snprintf(file, sizeof file, "%.1024s", wish->base);
    clean(executable);
    clean(host);
    clean(file);
    if (before)
        snprintf(base, sizeof base, "base=%s\nbase_file=%s\n", move_changes_id(before), file);
    return snprintf(facts, size,
                    "version=%d\nid=%s\n%sflyt=%s\ncreated=%lld\nhost=%s\npid=%d\nexecutable=%.1500s\nwindow=0x%llx\n"
                    "window_size=%llu\ngranularity=%llu\ndevices=%d\ndriver=%d\n",
                    CHECKPOINT_VERSION, id, base, flyt_version, (long long)time(NULL), host, (int)getpid(), executable,
                    (unsigned long long)core_session.window, (unsigned long long)core_session.window_size,
                    (unsigned long long)core_session.granularity, device_count(),
                    core_session.driver_version) < (int)size;
}

/* ---- the checkpoint before ---- */

/* The fact "id" of a file. False, with why (CHECKPOINT_WHY_SIZE). */
static bool id_read(int fd, char id[CHECKPOINT_ID_TEXT], char *why)
{
    struct checkpoint_reader *r = checkpoint_reader_new(fd);
    struct checkpoint_frame facts;
    snprintf(why, CHECKPOINT_WHY_SIZE, "no memory");
    bool good = r && checkpoint_read(r, &facts, why) == 1;
    if (good && !checkpoint_fact(&facts, "id", id, CHECKPOINT_ID_TEXT)) {
        snprintf(why, CHECKPOINT_WHY_SIZE, "it has no id");
        good = false;
    }
    checkpoint_reader_free(r);
    return good;
}

/* What was written last can be compared with only if it is still there, and is not replaced by what is written now. */
static int base_check(struct move *move, const struct checkpoint_order *wish, const struct move_changes *before)
{
    char id[CHECKPOINT_ID_TEXT] = "", why[CHECKPOINT_WHY_SIZE];
    struct stat base, file;
    if (!before)
        return move_refuse(move, CORE_NOT_SUPPORTED,
                           "the program has written no checkpoint yet, so nothing is known of changes since %.300s",
                           wish->base);
    int fd = open(wish->base, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &base) != 0 || !S_ISREG(base.st_mode))
        snprintf(why, sizeof why, "%s", fd < 0 ? strerror(errno) : "it is no regular file");
    else if (id_read(fd, id, why))
        *why = 0;
    if (fd >= 0)
        close(fd);
    if (*why)
        return move_refuse(move, CORE_NOT_SUPPORTED, "the checkpoint %.300s cannot be read: %s", wish->base, why);
    if (strcmp(id, move_changes_id(before)) != 0)
        return move_refuse(move, CORE_NOT_SUPPORTED,
                           "%.300s is not the checkpoint that the program has written last (its id is %s, that of the "
                           "last one %s)",
                           wish->base, id, move_changes_id(before));
    if (lstat(wish->file, &file) == 0 && file.st_dev == base.st_dev && file.st_ino == base.st_ino)
        return move_refuse(move, CORE_NOT_SUPPORTED, "%.300s would replace the checkpoint that it needs", wish->file);
    return CORE_OK;
}

/* ---- writing ---- */

static int file_make(struct checkpoint_file *file, const struct checkpoint_order *wish, struct move *move, int *fd)
{
    if (wish->seal && !move_store_can_seal(move->why, move->why_size))
        return CORE_NOT_SUPPORTED;
    *fd = checkpoint_file_make(file, wish->file, move->why, move->why_size);
    return *fd >= 0 ? CORE_OK : errno == ENOSPC || errno == EDQUOT ? CORE_OUT_OF_MEMORY : CORE_NOT_SUPPORTED;
}

/* The store closes its own descriptor. */
static int store_make(struct move *move, int fd, const struct checkpoint_order *wish,
                      const struct move_changes *before, struct move_changes **now)
{
    char facts[CHECKPOINT_TEXT_MOST], id[CHECKPOINT_ID_TEXT];
    if (!checkpoint_id_make(id) || !facts_make(facts, sizeof facts, id, wish, before) ||
        !(move->store = move_store_new(dup(fd), wish->file, facts, true, wish->seal)))
        return move_refuse(move, CORE_OUT_OF_MEMORY, "no memory");
    *now = move_changes_new(id, 0);
    if (*now)
        move_store_changes(move->store, *now, before);
    return CORE_OK;
}

int checkpoint_begin(struct checkpoint_course *course, struct move *move, const struct checkpoint_order *wish)
{
    *course = (struct checkpoint_course){ .fd = -1, .before = atomic_exchange(&last, NULL) };
    int code = *wish->base ? base_check(move, wish, course->before) : CORE_OK;
    if (!code)
        code = file_make(&course->file, wish, move, &course->fd);
    if (!code)
        code = store_make(move, course->fd, wish, *wish->base ? course->before : NULL, &course->now);
    return code;
}

int checkpoint_end(struct checkpoint_course *course, struct move *move, int code)
{
    if (code && course->fd >= 0)
        checkpoint_file_drop(&course->file);
    else if (!code && !checkpoint_file_name(&course->file, course->fd, move->why, move->why_size))
        code = CORE_OUT_OF_MEMORY;
    if (course->fd >= 0)
        close(course->fd);
    move_changes_free(atomic_exchange(&last, code ? course->before : course->now));
    move_changes_free(code ? course->now : course->before);
    return code;
}
