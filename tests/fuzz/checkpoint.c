/*
 * The reader of checkpoints (cpu/checkpoint) with whatever bytes. What it takes for a good file is written again, and
 * the parts come back.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/checkpoint/checkpoint.h"
#include "cpu/checkpoint/frame.h"

/* So that the fuzzer comes behind the checksums: it need not guess them. */
static void mend(uint8_t *data, size_t size)
{
    size_t at = sizeof CHECKPOINT_MAGIC - 1;
    if (size >= at)
        memcpy(data, CHECKPOINT_MAGIC, at);
    while (size - at >= CHECKPOINT_HEAD && at <= size) {
        struct frame_head head = frame_decode(data + at);
        if (head.stored > size - at - CHECKPOINT_HEAD)
            return;
        head.check = frame_check(data + at, data + at + CHECKPOINT_HEAD, head.stored);
        frame_encode(&head, data + at);
        at += CHECKPOINT_HEAD + head.stored;
    }
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
    if (size && given[size - 1] & 1)
        mend(data, size);
    struct checkpoint_reader *r = checkpoint_reader_new(fd);
    struct checkpoint_writer *w = checkpoint_writer_new(out, true);
    if (!r || !w || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
        abort();
    int got;
    while ((got = checkpoint_read(r, &frame, why)) == 1) {
        if (frame.type == CHECKPOINT_FACTS)
            checkpoint_fact(&frame, "version", value, sizeof value);
        if (checkpoint_write(w, &frame) != 0)
            abort();
        if (frame.type == CHECKPOINT_END)
            break;
    }
    if (got != 1 && (got >= 0 || !*why))
        abort();
    checkpoint_reader_free(r);
    checkpoint_writer_free(w);
    close(fd);
    close(out);
    free(data);
    return 0;
}
