/* reader.c: reads the file of checkpoint.h, which may be anything. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "cpu/checkpoint/seal.h"

enum { STORED_MOST = CHECKPOINT_PART_MOST + CHECKPOINT_TAG };
enum key_given { KEY_NONE, KEY_MACHINE, KEY_FILE };

struct checkpoint_reader {
    int fd;
    bool begun, facts, ended, changes;      /* changes: FACTS names a base */
    bool again;                             /* checkpoint_read_again has been called */
    bool places;                            /* bytes are read from `next` on, wherever fd stands */
    uint64_t at, next, parts, part_bytes, frames;
    hash *hash, *start;                     /* start: up to SEAL */
    enum key_given given;
    uint8_t key[CHECKPOINT_KEY];
    bool sealed;
    struct seal *seal;                      /* NULL: without a key */
    bool known[CHECKPOINT_KINDS_MOST];      /* kinds that have a name */
    ZSTD_DCtx *zstd;
    uint8_t stored[STORED_MOST];
    uint8_t data[CHECKPOINT_PART_MOST];
};

struct checkpoint_reader *checkpoint_reader_new(int fd)
{
    struct checkpoint_reader *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->fd = fd;
    r->zstd = ZSTD_createDCtx();
    r->hash = hash_create();
    r->start = hash_create();
    if (!r->zstd || !r->hash || !r->start) {
        checkpoint_reader_free(r);
        return NULL;
    }
    return r;
}

void checkpoint_reader_free(struct checkpoint_reader *r)
{
    if (!r)
        return;
    hash_discard(r->hash);
    hash_discard(r->start);
    seal_free(r->seal);
    ZSTD_freeDCtx(r->zstd);
    checkpoint_key_wipe(r->key, sizeof r->key);
    free(r);
}

void checkpoint_reader_machine_key(struct checkpoint_reader *r, const uint8_t machine[CHECKPOINT_KEY])
{
    r->given = KEY_MACHINE;
    memcpy(r->key, machine, sizeof r->key);
}

void checkpoint_reader_file_key(struct checkpoint_reader *r, const uint8_t key[CHECKPOINT_KEY])
{
    r->given = KEY_FILE;
    memcpy(r->key, key, sizeof r->key);
}

void checkpoint_reader_places(struct checkpoint_reader *r) { r->places = true; }

static int bad(const struct checkpoint_reader *r, char *why, const char *what)
{
    snprintf(why, CHECKPOINT_WHY_SIZE, "%s, at byte %llu", what, (unsigned long long)r->at);
    return -EPROTO;
}

static int read_all(struct checkpoint_reader *r, void *to, size_t size, char *why)
{
    for (size_t done = 0; done < size;) {
        void *room = (uint8_t *)to + done;
        ssize_t got = r->places ? pread(r->fd, room, size - done, (off_t)r->next) : read(r->fd, room, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int error = errno;
            snprintf(why, CHECKPOINT_WHY_SIZE, "it cannot be read: %s", strerror(error));
            return -error;
        }
        if (!got)
            return bad(r, why, "the file is cut off");
        done += (size_t)got;
        r->next += (uint64_t)got;
    }
    return 0;
}

static int read_magic(struct checkpoint_reader *r, char *why)
{
    char magic[sizeof CHECKPOINT_MAGIC - 1];
    int error = read_all(r, magic, sizeof magic, why);
    if (error == -EPROTO || (!error && memcmp(magic, CHECKPOINT_MAGIC, sizeof magic) != 0)) {
        bool other = !error && memcmp(magic, CHECKPOINT_MAGIC, sizeof magic - 1) == 0;
        snprintf(why, CHECKPOINT_WHY_SIZE,
                 other ? "it is of another release's format" : "it is not a checkpoint of Flyt");
        return -EPROTO;
    }
    hash_add(r->hash, magic, sizeof magic);
    hash_add(r->start, magic, sizeof magic);
    r->at += sizeof magic;
    r->begun = true;
    return error;
}

/* payload: bytes of data, without the tag. */
static bool size_is_possible(const struct frame_head *head, uint32_t payload)
{
    const bool part = head->type == CHECKPOINT_PART, kept = head->type == CHECKPOINT_KEPT;
    if (head->size > (part || kept ? CHECKPOINT_PART_MOST : CHECKPOINT_TEXT_MOST) || payload > head->size || head->zero)
        return false;
    switch (head->packing) {
    case PACKED_NOT:
        return payload == head->size && !kept;
    case PACKED_ZSTD:
        return part;
    case PACKED_ZERO:
        return part && !payload && head->size;
    case PACKED_KEPT:
        return kept && !payload;
    default:
        return false;
    }
}

static const char *order_fault(const struct checkpoint_reader *r, const struct frame_head *head)
{
    if (head->type < CHECKPOINT_FACTS || head->type > CHECKPOINT_KEPT)
        return "there is a frame of an unknown type";
    if (!r->facts != (head->type == CHECKPOINT_FACTS))
        return r->facts ? "the facts come twice" : "the facts are missing";
    if (head->type == CHECKPOINT_SEAL && r->frames != 1)
        return "the key of the file is not behind the facts";
    if (head->type == CHECKPOINT_KEPT && !r->changes)
        return "bytes of another file are named, and no file is";
    return NULL;
}

static const char *head_fault(const struct checkpoint_reader *r, const struct frame_head *head)
{
    const uint32_t tag = r->sealed ? CHECKPOINT_TAG : 0;
    const char *fault = order_fault(r, head);
    if (fault)
        return fault;
    if (head->stored < tag || head->stored > STORED_MOST || !size_is_possible(head, head->stored - tag) ||
        (head->type == CHECKPOINT_SEAL && head->size != CHECKPOINT_WRAPPED))
        return "a frame has an impossible size";
    if (head->type != CHECKPOINT_END && head->kind >= CHECKPOINT_KINDS_MOST)
        return "a frame has an impossible kind";
    if ((head->type == CHECKPOINT_PART || head->type == CHECKPOINT_KEPT) && !r->known[head->kind])
        return "a part belongs to a kind without a name";
    return NULL;
}

static int unpack(struct checkpoint_reader *r, const struct frame_head *head, struct checkpoint_frame *frame, char *why)
{
    frame->data = r->stored;
    if (head->packing == PACKED_ZERO) {
        memset(r->data, 0, head->size);
        frame->data = r->data;
    } else if (head->packing == PACKED_ZSTD) {
        const uint32_t stored = head->stored - (r->sealed ? CHECKPOINT_TAG : 0);
        size_t size = ZSTD_decompressDCtx(r->zstd, r->data, head->size, r->stored, stored);
        if (ZSTD_isError(size) || size != head->size)
            return bad(r, why, "a part cannot be unpacked");
        frame->data = r->data;
    }
    return 0;
}

/* Before the frame is counted: END says what came before it. */
static int check_end(struct checkpoint_reader *r, const struct frame_head *head, const uint8_t *digest, char *why)
{
    uint8_t own[HASH_SIZE];
    if (head->object != r->parts || head->offset != r->part_bytes)
        return bad(r, why, "parts are missing");
    if (head->size && head->size != HASH_SIZE)
        return bad(r, why, "the checksum of the whole file has an impossible size");
    hash_finish(r->hash, own);
    r->hash = NULL;
    return head->size && memcmp(own, digest, HASH_SIZE) != 0 ? bad(r, why, "the checksum of the whole file is wrong")
                                                             : 0;
}

/* ---- keys ---- */

/* SEAL has been read. Without a key the rest is read as far as it can be. */
static int take_seal(struct checkpoint_reader *r, char *why)
{
    uint8_t begun[HASH_SIZE], unwrapped[CHECKPOINT_KEY];
    const char *fault = r->given == KEY_MACHINE ? seal_unwrap(r->stored, r->key, unwrapped) : NULL;
    hash_finish(r->start, begun);
    r->start = NULL;
    r->sealed = true;
    if (fault) {
        snprintf(why, CHECKPOINT_WHY_SIZE, "%s", fault);
        return -EACCES;
    }
    if (r->given == KEY_NONE)
        return 0;
    r->seal = seal_new(r->given == KEY_MACHINE ? unwrapped : r->key, begun);
    checkpoint_key_wipe(unwrapped, sizeof unwrapped);
    if (r->seal)
        return 0;
    snprintf(why, CHECKPOINT_WHY_SIZE, "no memory");
    return -ENOMEM;
}

/* The tag of the frame with that number, and what is secret becomes readable. */
static int open_frame(struct checkpoint_reader *r, const struct frame_head *head, const uint8_t *encoded,
                      uint64_t number, char *why)
{
    const bool secret = head->type == CHECKPOINT_PART;
    const uint32_t size = head->stored - CHECKPOINT_TAG;
    const struct seal_frame frame = { number, encoded, secret ? NULL : r->stored, secret ? 0 : size };
    if (seal_open(r->seal, &frame, secret ? r->stored : NULL, secret ? size : 0, r->stored, r->stored + size))
        return 0;
    char what[96];
    snprintf(what, sizeof what, "frame %llu was changed, or belongs elsewhere (its tag is wrong)",
             (unsigned long long)number);
    return bad(r, why, what);
}

/* ---- frames ---- */

static int read_head(struct checkpoint_reader *r, struct frame_head *head, uint8_t encoded[CHECKPOINT_HEAD], char *why)
{
    int error = read_all(r, encoded, CHECKPOINT_HEAD, why);
    if (error)
        return error;
    *head = frame_decode(encoded);
    const char *fault = head_fault(r, head);
    return fault ? bad(r, why, fault) : 0;
}

/* Its data, as they are stored; r->at is where the frame begins. */
static int read_data(struct checkpoint_reader *r, const struct frame_head *head,
                     const uint8_t encoded[CHECKPOINT_HEAD], char *why)
{
    int error;
    if ((error = read_all(r, r->stored, head->stored, why)))
        return error;
    const bool good = frame_check(encoded, r->stored, head->stored) == head->check;
    return good ? 0 : bad(r, why, "the checksum of a frame is wrong");
}

/* What the frames before say about those that come. */
static int note_frame(struct checkpoint_reader *r, const struct frame_head *head, struct checkpoint_frame *frame,
                      char *why)
{
    char base[CHECKPOINT_ID_TEXT];
    switch (head->type) {
    case CHECKPOINT_FACTS:
        r->facts = true;
        r->changes = checkpoint_fact(frame, "base", base, sizeof base);
        return 0;
    case CHECKPOINT_KIND:
        r->known[head->kind] = true;
        return 0;
    case CHECKPOINT_SEAL:
        return take_seal(r, why);
    case CHECKPOINT_END:
        r->ended = true;
        return check_end(r, head, r->stored, why);
    default:
        r->parts++;
        r->part_bytes += head->size;
        return 0;
    }
}

static void count_frame(struct checkpoint_reader *r, const struct frame_head *head, const uint8_t *encoded)
{
    if (head->type != CHECKPOINT_END)
        hash_add(r->hash, encoded, CHECKPOINT_HEAD);
    if (head->type == CHECKPOINT_FACTS || head->type == CHECKPOINT_SEAL) {
        hash_add(r->start, encoded, CHECKPOINT_HEAD);
        hash_add(r->start, r->stored, head->stored);
    }
}

/* After the tag: where there is a key, nothing is believed before. */
static int take_data(struct checkpoint_reader *r, const struct frame_head *head, const uint8_t *encoded,
                     struct checkpoint_frame *frame, char *why)
{
    const bool sealed = r->sealed;          /* SEAL itself has no tag */
    int error = r->seal ? open_frame(r, head, encoded, frame->number, why) : 0;
    if (!error)
        error = note_frame(r, head, frame, why);
    if (!error && head->type == CHECKPOINT_KEPT)
        frame->data = NULL;
    if (error || head->type != CHECKPOINT_PART)
        return error;
    if (!sealed || r->seal)
        return unpack(r, head, frame, why);
    frame->data = NULL;
    return 0;
}

/* Nothing is believed of a PART that is passed over but where it lies. */
static int pass_over(struct checkpoint_reader *r, const struct frame_head *head, struct checkpoint_frame *frame,
                     char *why)
{
    r->next += head->stored;
    frame->data = NULL;
    return note_frame(r, head, frame, why);
}

static int read_next(struct checkpoint_reader *r, struct checkpoint_frame *frame, bool places_only, char *why)
{
    uint8_t encoded[CHECKPOINT_HEAD];
    struct frame_head head;
    int error = r->begun ? 0 : read_magic(r, why);
    if (!error && (r->ended || r->again))
        error = bad(r, why, "the file has ended");
    if (!error)
        error = read_head(r, &head, encoded, why);
    const bool passes = places_only && !error && head.type == CHECKPOINT_PART;
    if (!error && !passes)
        error = read_data(r, &head, encoded, why);
    if (error)
        return error;
    *frame = (struct checkpoint_frame){ .type = (enum checkpoint_type)head.type, .kind = head.kind, .size = head.size,
                                        .object = head.object, .offset = head.offset, .data = r->stored,
                                        .number = r->frames, .position = r->at };
    count_frame(r, &head, encoded);
    if ((error = passes ? pass_over(r, &head, frame, why) : take_data(r, &head, encoded, frame, why)))
        return error;
    r->frames++;
    r->at += CHECKPOINT_HEAD + head.stored;
    return 1;
}

int checkpoint_read(struct checkpoint_reader *r, struct checkpoint_frame *frame, char *why)
{
    return read_next(r, frame, false, why);
}

int checkpoint_read_places(struct checkpoint_reader *r, struct checkpoint_frame *frame, char *why)
{
    return read_next(r, frame, true, why);
}

/* Of the part at frame->position: its head, and its data in r->stored, decrypted where there is a key. */
static int read_stored(struct checkpoint_reader *r, struct checkpoint_frame *frame, struct frame_head *head, char *why)
{
    const uint64_t number = frame->number, position = frame->position;
    uint8_t encoded[CHECKPOINT_HEAD];
    r->again = r->places = true;
    r->at = r->next = position;
    int error = read_head(r, head, encoded, why);
    if (!error)
        error = read_data(r, head, encoded, why);
    if (!error && head->type != CHECKPOINT_PART)
        error = bad(r, why, "the file was changed meanwhile");
    if (error)
        return error;
    *frame = (struct checkpoint_frame){ .type = CHECKPOINT_PART, .kind = head->kind, .size = head->size,
                                        .object = head->object, .offset = head->offset,
                                        .number = number, .position = position };
    return r->seal ? open_frame(r, head, encoded, number, why) : 0;
}

int checkpoint_read_again(struct checkpoint_reader *r, struct checkpoint_frame *frame, char *why)
{
    struct frame_head head;
    int error = read_stored(r, frame, &head, why);
    if (!error && (!r->sealed || r->seal))
        error = unpack(r, &head, frame, why);
    return error ? error : 1;
}

int checkpoint_read_packed(struct checkpoint_reader *r, struct checkpoint_frame *frame,
                           struct checkpoint_packed *packed, char *why)
{
    struct frame_head head;
    int error = read_stored(r, frame, &head, why);
    if (!error && r->sealed && !r->seal) {
        snprintf(why, CHECKPOINT_WHY_SIZE, "it is encrypted, and its key is needed");
        error = -EACCES;
    }
    if (error)
        return error;
    *packed = (struct checkpoint_packed){ head.packing, head.stored - (r->sealed ? CHECKPOINT_TAG : 0), r->stored };
    return 1;
}

struct checkpoint_reader *checkpoint_reader_twin(const struct checkpoint_reader *r)
{
    struct checkpoint_reader *twin = calloc(1, sizeof *twin);
    if (!twin)
        return NULL;
    twin->fd = r->fd;
    twin->facts = r->facts;
    twin->changes = r->changes;
    twin->frames = r->frames;
    twin->sealed = r->sealed;
    memcpy(twin->known, r->known, sizeof twin->known);
    twin->zstd = ZSTD_createDCtx();
    twin->seal = r->seal ? seal_twin(r->seal) : NULL;
    if (twin->zstd && (twin->seal || !r->seal))
        return twin;
    checkpoint_reader_free(twin);
    return NULL;
}

bool checkpoint_fact(const struct checkpoint_frame *facts, const char *name, char *value, size_t size)
{
    const char *at = facts->data, *end = at + facts->size;
    const size_t length = strlen(name);
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t line = (size_t)((line_end ? line_end : end) - at);
        if (line > length && memcmp(at, name, length) == 0 && at[length] == '=') {
            snprintf(value, size, "%.*s", (int)(line - length - 1), at + length + 1);
            return true;
        }
        at += line + 1;
    }
    return false;
}
