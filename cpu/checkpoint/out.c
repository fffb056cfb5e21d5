/* out.c: see out.h. */
#include "cpu/checkpoint/out.h"

#include <errno.h>
#include <fcntl.h>

enum { DISK_STEP = 8 << 20 };

/* The kernel would keep all bytes of a large file until fsync, and the disk would idle until then. It is no error if
   the file is none that a disk has. */
static void disk_begin(struct frame_out *out, uint64_t bytes)
{
    if (!out->kept || bytes - out->on_disk < DISK_STEP)
        return;
    sync_file_range(out->fd, (off_t)out->on_disk, (off_t)(bytes - out->on_disk), SYNC_FILE_RANGE_WRITE);
    out->on_disk = bytes;
}

int frame_out_write(struct frame_out *out, struct iovec *pieces, unsigned count)
{
    unsigned at = 0;
    if (out->whole)
        hash_add(out->whole, pieces[0].iov_base, pieces[0].iov_len);
    for (unsigned i = 0; i < count && out->begun; i++)
        hash_add(out->begun, pieces[i].iov_base, pieces[i].iov_len);
    while (at < count) {
        ssize_t done = writev(out->fd, &pieces[at], (int)(count - at));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        disk_begin(out, atomic_fetch_add(&out->bytes, (uint64_t)done) + (uint64_t)done);
        for (size_t left = (size_t)done; at < count; at++) {
            if (left < pieces[at].iov_len) {
                pieces[at].iov_base = (uint8_t *)pieces[at].iov_base + left;
                pieces[at].iov_len -= left;
                break;
            }
            left -= pieces[at].iov_len;
        }
    }
    return 0;
}
