/*
 * move_store.c: see move_store.h. The file of a suspended session has no name, unless one is asked for: whatever ends
 * this process, nothing of it stays.
 *
 * A store for recovery may hold only what has changed since another one, and so on down to a whole one: a row of files,
 * which is read as one (cpu/checkpoint/chain.h). When the row has become long, one whole file is made of it, without
 * asking the GPU server for anything.
 */
#include "move_store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/checkpoint/chain.h"
#include "cpu/checkpoint/cipher.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/stream/move_changes.h"
#include "cpu/client/core/stream/move_written.h"
#include "cpu/common/env.h"
#include "cpu/rpc/tls/channel_tls.h"

enum { WHY_SIZE = CHECKPOINT_WHY_SIZE + 64 };

struct move_store {
    int fd;
    struct checkpoint_writer *writer;
    struct checkpoint_reader *reader;
    bool named;                               /* `where` is the file, which goes with the store */
    struct move_changes *now;                 /* NULL: changes are not looked for */
    const struct move_changes *before;
    bool kept;                                /* it is one of a row of files */
    struct move_store *older;                 /* kept: what it does not hold is there; NULL: it holds all */
    uint32_t number;                          /* kept: the file's, greater than that of `older` */
    struct move_changes *own;                 /* kept: what it holds */
    char id[CHECKPOINT_ID_TEXT];
    struct checkpoint_chain *chain;           /* kept: while it is read */
    bool sealed;
    uint8_t key[CHECKPOINT_KEY];              /* sealed: to read it again */
    char where[PATH_MAX], why[WHY_SIZE];
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

/* What is known of a part's bytes: those from `from` to `end`, which hold all that is not the same. */
struct known {
    const uint8_t *bytes;
    uint64_t from, end;
    uint8_t **buffer;                    /* they may be exchanged; NULL: they are the caller's */
};

/* The whole part. One without bytes is written, too: it is a heap's part of zeros, and is read again in its place. */
static int write_runs(struct move_store *s, const struct move_part *part, const struct known *known, uint32_t same)
{
    uint64_t at = 0, end;
    int error;
    do {
        const bool kept = same >> at / MOVE_CHUNK & 1;
        for (end = at + MOVE_CHUNK; end < part->size && (same >> end / MOVE_CHUNK & 1) == kept; end += MOVE_CHUNK)
            continue;
        end = end < part->size ? end : part->size;
        const struct checkpoint_frame frame = { .type = kept ? CHECKPOINT_KEPT : CHECKPOINT_PART, .kind = part->kind,
                                                .size = (uint32_t)(end - at), .object = part->object,
                                                .offset = part->offset + at,
                                                .data = kept || !known->bytes ? NULL
                                                                              : known->bytes + (at - known->from) };
        const bool all = known->buffer && !kept && at == known->from && end == known->end && at < end;
        error = all ? checkpoint_write_swap(s->writer, &frame, known->buffer) : checkpoint_write(s->writer, &frame);
    } while ((at = end) < part->size && !error);
    return written(s, error);
}

static int write_whole(struct move_store *s, const struct move_part *part, const uint8_t *bytes, uint8_t **buffer)
{
    const struct known known = { bytes, 0, part->size, buffer };
    struct move_hashes hashes;
    uint32_t same = 0;
    if (s->now) {
        move_hashes_make(&hashes, bytes, part->size);
        same = move_changes_same(s->before, part, &hashes);
        move_changes_add(s->now, part, &hashes, s->before, same); /* without memory there is less to compare later */
    }
    return write_runs(s, part, &known, same);
}

int move_store_write(struct move_store *s, const struct move_part *part, const void *bytes)
{
    return write_whole(s, part, bytes, NULL);
}

int move_store_write_swap(struct move_store *s, const struct move_part *part, uint8_t **bytes)
{
    return write_whole(s, part, *bytes, bytes);
}

void move_store_begin(struct move_store *s)
{
    if (s->now)
        move_changes_begin(s->now, move_written_begin());
}

bool move_store_untouched(const struct move_store *s, const struct move_part *part, uint64_t address)
{
    return s->now && move_changes_untouched(s->before, part, address);
}

uint32_t move_store_question(const struct move_store *s)
{
    return s->now && s->before ? move_changes_question(s->before) : 0;
}

int move_store_keep(struct move_store *s, const struct move_part *part)
{
    move_changes_carry(s->now, s->before, part);
    return write_runs(s, part, &(struct known){ 0 }, UINT32_MAX);
}

bool move_store_has(const struct move_store *s, const struct move_part *part)
{
    return s->now && move_changes_know(s->before, part);
}

bool move_store_compares(const struct move_store *s, const struct move_part *part)
{
    return move_store_has(s, part) && !(move_store_question(s) && move_changes_new_all(s->before, part));
}

int move_store_look(struct move_store *s, const struct move_part *part, const struct move_hashes *hashes, uint64_t *at,
                    uint64_t *size)
{
    const uint32_t same = move_changes_same(s->before, part, hashes);
    const uint64_t chunks = (part->size + MOVE_CHUNK - 1) / MOVE_CHUNK;
    uint64_t first = 0, end = chunks;
    *at = *size = 0;
    if (hashes->count != chunks) {
        snprintf(s->why, sizeof s->why, "the GPU server gave other hashes than were asked for");
        return CORE_UNKNOWN;
    }
    while (first < end && same >> first & 1)
        first++;
    while (end > first && same >> (end - 1) & 1)
        end--;
    if (first == end) {
        move_changes_add(s->now, part, hashes, s->before, same);
        return write_runs(s, part, &(struct known){ 0 }, same);
    }
    *at = first * MOVE_CHUNK;
    *size = (end < chunks ? end * MOVE_CHUNK : part->size) - *at;
    return CORE_OK;
}

int move_store_write_at(struct move_store *s, const struct move_part *part, struct move_hashes *hashes, uint64_t at,
                        uint64_t size, uint8_t **bytes)
{
    const struct known known = { *bytes, at, at + size, bytes };
    struct move_hashes here;
    move_hashes_make(&here, *bytes, size);
    memcpy(&hashes->of[at / MOVE_CHUNK], here.of, here.count * sizeof *here.of);
    const uint32_t same = move_changes_same(s->before, part, hashes);
    move_changes_add(s->now, part, hashes, s->before, same);
    return write_runs(s, part, &known, same);
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

static int say_damaged(char *to, size_t size, const char *why)
{
    snprintf(to, size, "the file of what it had on the GPU is damaged: %.250s", why);
    return CORE_UNKNOWN;
}

static int damaged(struct move_store *s, const char *why) { return say_damaged(s->why, sizeof s->why, why); }

/* The oldest one first. 0; or -errno, with why. */
static int chain_fill(struct checkpoint_chain *chain, const struct move_store *s, char *why)
{
    int error = s->older ? chain_fill(chain, s->older, why) : 0;
    return error ? error : checkpoint_chain_add_own(chain, s->fd, s->key, why);
}

static int chain_open(struct move_store *s)
{
    char why[CHECKPOINT_WHY_SIZE] = "no memory";
    checkpoint_chain_free(s->chain);
    s->chain = checkpoint_chain_new();
    return s->chain && chain_fill(s->chain, s, why) == 0 ? CORE_OK : damaged(s, why);
}

static int chain_read(struct checkpoint_chain *chain, struct move_part *part, void *bytes, char *to, size_t size)
{
    char why[CHECKPOINT_WHY_SIZE];
    struct checkpoint_frame frame = { .kind = part->kind, .size = (uint32_t)part->size, .object = part->object,
                                      .offset = part->offset };
    if (checkpoint_chain_part(chain, &frame, bytes, why) != 0)
        return say_damaged(to, size, why);
    part->size = frame.size;
    return CORE_OK;
}

struct move_store_view {
    struct checkpoint_chain *chain;
    char why[WHY_SIZE];
};

struct move_store_view *move_store_view(const struct move_store *s)
{
    struct move_store_view *view = calloc(1, sizeof *view);
    if (view && (view->chain = checkpoint_chain_twin(s->chain)))
        return view;
    free(view);
    return NULL;
}

int move_store_view_read(struct move_store_view *view, struct move_part *part, void *bytes)
{
    return chain_read(view->chain, part, bytes, view->why, sizeof view->why);
}

const char *move_store_view_why(const struct move_store_view *view) { return view->why; }

void move_store_view_free(struct move_store_view *view)
{
    if (view)
        checkpoint_chain_free(view->chain);
    free(view);
}

int move_store_again(struct move_store *s)
{
    if (s->kept)
        return chain_open(s);
    checkpoint_reader_free(s->reader);
    s->reader = lseek(s->fd, 0, SEEK_SET) == 0 ? checkpoint_reader_new(s->fd) : NULL;
    if (s->reader && s->sealed)
        checkpoint_reader_file_key(s->reader, s->key);
    if (s->reader)
        return CORE_OK;
    snprintf(s->why, sizeof s->why, "the file of what it had on the GPU cannot be read: %s", strerror(errno));
    return CORE_OUT_OF_MEMORY;
}

void move_store_rest(struct move_store *s)
{
    checkpoint_reader_free(s->reader);
    checkpoint_chain_free(s->chain);
    s->reader = NULL;
    s->chain = NULL;
}

int move_store_read(struct move_store *s, struct move_part *part, void *bytes)
{
    struct checkpoint_frame frame;
    char why[CHECKPOINT_WHY_SIZE];
    int got;
    if (s->kept)
        return chain_read(s->chain, part, bytes, s->why, sizeof s->why);
    while ((got = checkpoint_read(s->reader, &frame, why)) == 1 && frame.type != CHECKPOINT_PART &&
           frame.type != CHECKPOINT_END)
        continue;
    if (got != 1)
        return damaged(s, why);
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

static char folder_configured[PATH_MAX];

void move_store_folder(const char *folder)
{
    if (strcmp(folder, folder_configured) != 0)
        snprintf(folder_configured, sizeof folder_configured, "%s", folder);
}

static const char *folder_wanted(void)
{
    const char *given = env_get("FLYT_SUSPEND_FOLDER"), *temporary = env_get("TMPDIR");
    if (!(given && *given) && *folder_configured)
        return folder_configured;
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

static struct move_store *suspended_new(int fd, const char *where, const char *facts, char *why,
                                        size_t size)
{
    struct checkpoint_seal seal;
    struct move_store *s = NULL;
    if (move_store_can_seal(why, size) && checkpoint_seal_make(NULL, &seal))
        s = move_store_new(fd, where, facts, false, &seal);
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
    struct move_store *s = fd < 0 ? NULL : suspended_new(fd, where, "version=1\n", why, size);
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

/* ---- a row of files ---- */

static void no_file(int error, char *why, size_t size)
{
    snprintf(why, size, "no file can be made in %.200s for what it has on the GPU (FLYT_SUSPEND_FOLDER): %s",
             folder_wanted(), error ? strerror(error) : "no memory");
}

struct move_store *move_store_kept(struct move_store *older, char *why, size_t size)
{
    char facts[160], id[CHECKPOINT_ID_TEXT];
    int fd = unnamed_make(folder_wanted());
    if (fd < 0 || !checkpoint_id_make(id)) {
        no_file(fd < 0 ? errno : 0, why, size);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    snprintf(facts, sizeof facts, "version=1\nid=%s\n%s%s%s", id, older ? "base=" : "", older ? older->id : "",
             older ? "\n" : "");
    struct move_store *s = suspended_new(fd, folder_wanted(), facts, why, size);
    const uint32_t number = older ? older->number + 1 : 1;
    struct move_changes *own = s ? move_changes_new(id, number) : NULL;
    if (!own) {
        move_store_free(s);
        if (!*why)
            no_file(0, why, size);
        return NULL;
    }
    s->kept = true;
    s->older = older;
    s->number = number;
    s->own = own;
    memcpy(s->id, id, sizeof s->id);
    move_store_changes(s, own, older ? older->own : NULL);
    return s;
}

static uint64_t file_bytes(const struct move_store *s)
{
    struct stat file;
    return fstat(s->fd, &file) == 0 ? (uint64_t)file.st_size : 0;
}

struct move_store_files move_store_files(const struct move_store *s)
{
    struct move_store_files files = { .count = 1, .newest = file_bytes(s) };
    for (const struct move_store *older = s->older; older; older = older->older) {
        files.count++;
        if (older->older)
            files.between += file_bytes(older);
        else
            files.oldest = file_bytes(older);
    }
    return files;
}

void move_store_prune(struct move_store *s)
{
    for (struct move_store **link = &s->older, *older; (older = *link);) {
        if (move_changes_in(s->own, older->number)) {
            link = &older->older;
            continue;
        }
        *link = older->older;
        move_store_drop(older);
    }
}

struct move_store *move_store_merge(struct move_store *s, char *why, size_t size)
{
    struct checkpoint_chain *chain = checkpoint_chain_new();
    struct move_store *merged = calloc(1, sizeof *merged);
    struct checkpoint_seal seal;
    char reason[CHECKPOINT_WHY_SIZE] = "no memory";
    bool good = chain && merged && checkpoint_seal_make(NULL, &seal);
    if (merged)
        merged->fd = good ? unnamed_make(folder_wanted()) : -1;
    if (good && merged->fd < 0)
        snprintf(reason, sizeof reason, "%s", strerror(errno));
    good = good && merged->fd >= 0 && chain_fill(chain, s, reason) == 0 &&
           checkpoint_chain_write(chain, merged->fd, &seal, reason) == 0;
    checkpoint_chain_free(chain);
    if (!good) {
        snprintf(why, size, "%s", reason);
        if (merged && merged->fd >= 0)
            close(merged->fd);
        free(merged);
        return NULL;
    }
    merged->kept = merged->sealed = true;
    memcpy(merged->key, seal.key, sizeof merged->key);
    memcpy(merged->id, s->id, sizeof merged->id);
    checkpoint_key_wipe(&seal, sizeof seal);
    merged->own = s->own;                     /* nothing reads it in `s` any more */
    merged->number = s->number;
    move_changes_merged(merged->own, merged->number);
    s->own = NULL;
    return merged;
}

/* ---- the end ---- */

void move_store_drop(struct move_store *s)
{
    if (!s)
        return;
    checkpoint_writer_free(s->writer);
    checkpoint_reader_free(s->reader);
    checkpoint_chain_free(s->chain);
    move_changes_free(s->own);
    close(s->fd);
    if (s->named)
        unlink(s->where);
    checkpoint_key_wipe(s, sizeof *s);
    free(s);
}

void move_store_free(struct move_store *s)
{
    while (s) {
        struct move_store *older = s->older;
        move_store_drop(s);
        s = older;
    }
}
