/*
 * The reader of checkpoints (cpu/checkpoint) with whatever bytes, with and without a key. What it takes for a good file
 * is written again, and the parts come back; a part can be read once more, and taken over as it is packed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/checkpoint/checkpoint.h"
#include "cpu/checkpoint/seal.h"

static const uint8_t key[CHECKPOINT_KEY] = "the key of all files of this one";

/* So that the fuzzer comes behind the checksums: it need not guess them. Nor tags: it has the key. */
static void mend(uint8_t *data, size_t size, bool tags)
{
    size_t at = sizeof CHECKPOINT_MAGIC - 1, number = 0;
    struct seal *seal = NULL;
    uint8_t begun[HASH_SIZE];
    if (size >= at)
        memcpy(data, CHECKPOINT_MAGIC, at);
    while (size - at >= CHECKPOINT_HEAD && at <= size) {
        struct frame_head head = frame_decode(data + at);
        uint8_t *stored = data + at + CHECKPOINT_HEAD;
        if (head.stored > size - at - CHECKPOINT_HEAD)
            break;
        if (seal && head.stored >= CHECKPOINT_TAG) {
            const bool secret = head.type == CHECKPOINT_PART;
            const uint32_t rest = head.stored - CHECKPOINT_TAG;
            const struct seal_frame frame = { number, data + at, secret ? NULL : stored, secret ? 0 : rest };
            if (!seal_close(seal, &frame, secret ? stored : NULL, secret ? rest : 0, stored, stored + rest))
                abort();
        }
        head.check = frame_check(data + at, data + at + CHECKPOINT_HEAD, head.stored);
        frame_encode(&head, data + at);
        at += CHECKPOINT_HEAD + head.stored;
        if (tags && number == 1 && head.type == CHECKPOINT_SEAL) {
            hash_bytes(data, at, begun);
            seal = seal_new(key, begun);
        }
        number++;
    }
    seal_free(seal);
}

/* A part of a file that is good so far: by a reader of its own, and as it is packed, which another file takes over. */
static void read_part_again(struct checkpoint_reader *r, const struct checkpoint_frame *part)
{
    char why[CHECKPOINT_WHY_SIZE];
    struct checkpoint_reader *twin = checkpoint_reader_twin(r);
    struct checkpoint_frame again = *part, found = *part, copy;
    struct checkpoint_packed packed;
    int out = memfd_create("packed", MFD_CLOEXEC), got;
    struct checkpoint_writer *w = checkpoint_writer_new(out, true, NULL);
    if (!twin || !w || out < 0 || checkpoint_read_again(twin, &again, why) != 1)
        abort();
    if (checkpoint_read_packed(r, &found, &packed, why) != (again.data ? 1 : -EACCES))
        abort();
    found.type = CHECKPOINT_PART;
    const struct checkpoint_frame facts = { .type = CHECKPOINT_FACTS, .size = 4, .data = "a=b\n" };
    const struct checkpoint_frame kind = { .type = CHECKPOINT_KIND, .kind = part->kind, .size = 1, .data = "a" };
    if (checkpoint_write(w, &facts) != 0 || checkpoint_write(w, &kind) != 0)
        abort();
    if (again.data && checkpoint_write_packed(w, &found, &packed) != 0)
        abort();
    if (checkpoint_write(w, &(struct checkpoint_frame){ .type = CHECKPOINT_END }) != 0 || lseek(out, 0, SEEK_SET) != 0)
        abort();
    struct checkpoint_reader *other = checkpoint_reader_new(out);
    while ((got = checkpoint_read(other, &copy, why)) == 1 && copy.type != CHECKPOINT_END)
        if (copy.type == CHECKPOINT_PART &&
            (copy.size != again.size || memcmp(copy.data, again.data, copy.size) != 0 || copy.offset != again.offset))
            abort();
    if (got != 1)
        abort();
    checkpoint_reader_free(other);
    checkpoint_reader_free(twin);
    checkpoint_writer_free(w);
    close(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *given, size_t size)
{
    struct checkpoint_frame frame;
    char why[CHECKPOINT_WHY_SIZE], value[64];
    uint8_t *data = malloc(size + 1);
    int fd = memfd_create("fuzz", MFD_CLOEXEC), out = memfd_create("again", MFD_CLOEXEC);
    if (!data || fd < 0 || out < 0)
        abort();
    memcpy(data, given, size);
    const uint8_t how = size ? given[size - 1] : 0;
    if (how & 1)
        mend(data, size, how & 2);
    struct checkpoint_reader *r = checkpoint_reader_new(fd);
    struct checkpoint_writer *w = checkpoint_writer_new(out, true, NULL);
    if (!r || !w || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
        abort();
    if (how & 2)
        checkpoint_reader_file_key(r, key);
    else if (how & 4)
        checkpoint_reader_machine_key(r, key);
    struct checkpoint_frame part = { .type = CHECKPOINT_END };
    int got;
    while ((got = checkpoint_read(r, &frame, why)) == 1) {
        if (frame.type == CHECKPOINT_FACTS)
            checkpoint_fact(&frame, "version", value, sizeof value);
        if (frame.type == CHECKPOINT_PART)
            part = frame;
        if (frame.type == CHECKPOINT_SEAL || (frame.type == CHECKPOINT_PART && !frame.data))
            continue;
        if (checkpoint_write(w, &frame) != 0)
            abort();
        if (frame.type == CHECKPOINT_END)
            break;
    }
    if (got != 1 && (got >= 0 || !*why))
        abort();
    if (part.type == CHECKPOINT_PART)
        read_part_again(r, &part);
    checkpoint_reader_free(r);
    checkpoint_writer_free(w);
    close(fd);
    close(out);
    free(data);
    return 0;
}
