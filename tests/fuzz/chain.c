/* A checkpoint and one with changes (cpu/checkpoint/chain.h), with whatever bytes. The last two bytes say how long the
   first is. What is made of them is a good checkpoint. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/checkpoint/chain.h"
#include "cpu/checkpoint/frame.h"

static int file_of(const uint8_t *given, size_t size, bool mends)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    uint8_t *data = malloc(size + 1);
    size_t at = sizeof CHECKPOINT_MAGIC - 1;
    if (fd < 0 || !data)
        abort();
    memcpy(data, given, size);
    if (mends && size >= at)
        memcpy(data, CHECKPOINT_MAGIC, at);
    while (mends && at <= size && size - at >= CHECKPOINT_HEAD) {
        struct frame_head head = frame_decode(data + at);
        if (head.stored > size - at - CHECKPOINT_HEAD)
            break;
        if (head.type == CHECKPOINT_END)
            head.stored = head.size = 0;           /* without a checksum of the whole file */
        head.check = frame_check(data + at, data + at + CHECKPOINT_HEAD, head.stored);
        frame_encode(&head, data + at);
        head.check = frame_check(data + at, data + at + CHECKPOINT_HEAD, head.stored);
        frame_encode(&head, data + at);
        at += CHECKPOINT_HEAD + head.stored;
    }
    if (write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
        abort();
    free(data);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *given, size_t size)
{
    if (size < 2)
        return 0;
    const size_t rest = size - 2, wish = given[rest] | (size_t)given[rest + 1] << 8, first = wish < rest ? wish : rest;
    struct checkpoint_chain *chain = checkpoint_chain_new();
    char why[CHECKPOINT_WHY_SIZE] = "";
    int files[2] = { file_of(given, first, true), file_of(given + first, rest - first, true) };
    int out = memfd_create("out", MFD_CLOEXEC), error = 0;
    for (int i = 0; i < 2 && !error; i++)
        error = checkpoint_chain_add(chain, files[i], NULL, why);
    if (!error)
        error = checkpoint_chain_write(chain, out, NULL, why);
    if (error && (error > 0 || !*why))
        abort();
    if (!error) {
        struct checkpoint_reader *r = checkpoint_reader_new(out);
        struct checkpoint_frame frame;
        int got;
        lseek(out, 0, SEEK_SET);
        while ((got = checkpoint_read(r, &frame, why)) == 1 && frame.type != CHECKPOINT_END)
            continue;
        if (got != 1)
            abort();
        checkpoint_reader_free(r);
    }
    checkpoint_chain_free(chain);
    close(out);
    close(files[0]);
    close(files[1]);
    return 0;
}
