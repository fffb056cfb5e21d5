/*
 * move_store.c: see move_store.h. The file of a suspended session has no name, unless one is asked for: whatever ends
 * this process, nothing of it stays.
 */
#include "move_store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/checkpoint/checkpoint.h"
#include "cpu/checkpoint/cipher.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/stream/move_changes.h"
#include "cpu/common/env.h"
#include "cpu/rpc/tls/channel_tls.h"

struct move_store {
    int fd;
    struct checkpoint_writer *writer;
    struct checkpoint_reader *reader;
    bool named;                               /* `where` is the file, which goes with the store */
    struct move_changes *now;                 /* NULL: changes are not looked for */
    const struct move_changes *before;
    bool sealed;
    uint8_t key[CHECKPOINT_KEY];              /* sealed: to read it again */
    char where[PATH_MAX], why[CHECKPOINT_WHY_SIZE + 64];
};

const char *move_store_why(const struct move_store *s) { return s->why; }

/* ---- writing ---- */

static int written(struct move_store *s, int error)
{
    if (!error)
        return CORE_OK;
    snprintf(s->why, sizeof s->why,
             error == -ENOSPC || error == -EDQUOT ? "there is no room in %.150s for what it has on the GPU (%s)"
                                                  : "what it has on the GPU cannot be written to %.150s: %s",
             s->where, strerror(-error));
    return CORE_OUT_OF_MEMORY;
}

int move_store_kind(struct move_store *s, unsigned kind, const char *name, uint64_t count)
{
    return written(s, checkpoint_write(s->writer, &(struct checkpoint_frame){ .type = CHECKPOINT_KIND, .kind = kind,
                                                                              .size = (uint32_t)strlen(name),
                                                                              .object = count, .data = name }));
}

void move_store_changes(struct move_store *s, struct move_changes *now, const struct move_changes *before)
{
    s->now = now;
    s->before = before;
}

/* So many bytes of the part from `at` on: written, or only said to be those of the file before. */
static int write_run(struct move_store *s, const struct move_part *part, const uint8_t *bytes, uint64_t at,
                     uint64_t size, bool kept)
{
    return checkpoint_write(s->writer, &(struct checkpoint_frame){ .type = kept ? CHECKPOINT_KEPT : CHECKPOINT_PART,
                                                                   .kind = part->kind, .size = (uint32_t)size,
                                                                   .object = part->object,
                                                                   .offset = part->offset + at,
                                                                   .data = kept ? NULL : bytes + at });
}

int move_store_write(struct move_store *s, const struct move_part *part, const void *bytes)
{
    uint32_t same = 0;
    int error = 0;
    if (s->now)
        move_changes_note(s->now, s->before, part, bytes, &same); /* without memory there is less to compare later */
    if (!same)
        return written(s, write_run(s, part, bytes, 0, part->size, false));
    for (uint64_t at = 0, end; at < part->size && !error; at = end) {
        const bool kept = same >> at / MOVE_CHUNK & 1;
        for (end = at + MOVE_CHUNK; end < part->size && (same >> end / MOVE_CHUNK & 1) == kept; end += MOVE_CHUNK)
            continue;
        end = end < part->size ? end : part->size;
        error = write_run(s, part, bytes, at, end - at, kept);
    }
    return written(s, error);
}

int move_store_finish(struct move_store *s)
{
    int error = checkpoint_write(s->writer, &(struct checkpoint_frame){ .type = CHECKPOINT_END });
    if (!error && s->named && fsync(s->fd) != 0)
        error = -errno;
    checkpoint_writer_free(s->writer);
    s->writer = NULL;
    return written(s, error);
}

/* ---- reading ---- */

int move_store_again(struct move_store *s)
{
    checkpoint_reader_free(s->reader);
    s->reader = lseek(s->fd, 0, SEEK_SET) == 0 ? checkpoint_reader_new(s->fd) : NULL;
    if (s->reader && s->sealed)
        checkpoint_reader_file_key(s->reader, s->key);
    if (s->reader)
        return CORE_OK;
    snprintf(s->why, sizeof s->why, "the file of what it had on the GPU cannot be read: %s", strerror(errno));
    return CORE_OUT_OF_MEMORY;
}

int move_store_read(struct move_store *s, struct move_part *part, void *bytes)
{
    struct checkpoint_frame frame;
    char why[CHECKPOINT_WHY_SIZE];
    int got;
    while ((got = checkpoint_read(s->reader, &frame, why)) == 1 && frame.type != CHECKPOINT_PART &&
           frame.type != CHECKPOINT_END)
        continue;
    if (got != 1) {
        snprintf(s->why, sizeof s->why, "the file of what it had on the GPU is damaged: %.250s", why);
        return CORE_UNKNOWN;
    }
    if (frame.type != CHECKPOINT_PART || frame.kind != part->kind || frame.object != part->object ||
        frame.offset != part->offset || frame.size > part->size) {
        snprintf(s->why, sizeof s->why, "the file of what it had on the GPU has other parts");
        return CORE_UNKNOWN;
    }
    part->size = frame.size;
    memcpy(bytes, frame.data, frame.size);
    return CORE_OK;
}

/* ---- beginning and end ---- */

struct move_store *move_store_new(int fd, const char *where, const char *facts, bool hashed,
                                  const struct checkpoint_seal *seal)
{
    struct move_store *s = calloc(1, sizeof *s);
    if (!s || !(s->writer = checkpoint_writer_new(fd, hashed, seal))) {
        close(fd);
        free(s);
        return NULL;
    }
    s->fd = fd;
    if (seal) {
        s->sealed = true;
        memcpy(s->key, seal->key, sizeof s->key);
    }
    snprintf(s->where, sizeof s->where, "%s", where);
    /* an error comes again with the next frame */
    checkpoint_write(s->writer, &(struct checkpoint_frame){ .type = CHECKPOINT_FACTS, .size = (uint32_t)strlen(facts),
                                                            .data = facts });
    return s;
}

bool move_store_can_seal(char *why, size_t size)
{
    char error[RPC_ERROR_SIZE] = "";
    const struct checkpoint_cipher *cipher = &checkpoint_cipher ? &checkpoint_cipher
                                                                : rpc_tls_symbol(CHECKPOINT_CIPHER, error);
    if (cipher)
        checkpoint_cipher_use(cipher);
    else
        snprintf(why, size, "what it has on the GPU cannot be encrypted: %s", error);
    return cipher;
}

static const char *folder_wanted(void)
{
    const char *given = env_get("FLYT_SUSPEND_FOLDER"), *temporary = env_get("TMPDIR");
    return given && *given ? given : temporary && *temporary ? temporary : "/var/tmp";
}

/* Some file systems know no O_TMPFILE. */
static int unnamed_make(const char *folder)
{
    char path[PATH_MAX];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    if (snprintf(path, sizeof path, "%s/flyt-suspended-XXXXXX", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static struct move_store *suspended_new(int fd, const char *where, char *why, size_t size)
{
    struct checkpoint_seal seal;
    struct move_store *s = NULL;
    if (move_store_can_seal(why, size) && checkpoint_seal_make(NULL, &seal))
        s = move_store_new(fd, where, "version=1\n", false, &seal);
    else
        close(fd);
    checkpoint_key_wipe(&seal, sizeof seal);
    return s;
}

struct move_store *move_store_suspended(const char *path, char *why, size_t size)
{
    const bool named = *path;
    const char *where = named ? path : folder_wanted();
    int fd = named ? open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : unnamed_make(where);
    const int error = errno;
    struct move_store *s = fd < 0 ? NULL : suspended_new(fd, where, why, size);
    if (s)
        s->named = named;
    else if (!*why && named)
        snprintf(why, size, "%.400s cannot be made for what it has on the GPU: %s", where,
                 fd < 0 ? strerror(error) : "no memory");
    else if (!*why)
        snprintf(why, size, "no file can be made in %.200s for what it has on the GPU (FLYT_SUSPEND_FOLDER): %s",
                 where, fd < 0 ? strerror(error) : "no memory");
    if (!s && named && fd >= 0)
        unlink(where);
    return s;
}

void move_store_free(struct move_store *s)
{
    if (!s)
        return;
    checkpoint_writer_free(s->writer);
    checkpoint_reader_free(s->reader);
    close(s->fd);
    if (s->named)
        unlink(s->where);
    checkpoint_key_wipe(s, sizeof *s);
    free(s);
}
