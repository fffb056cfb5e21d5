/* pack.h: one frame on its way into the file: packed, encrypted where there is a key, and with its checksum. */
#ifndef FLYT_CHECKPOINT_PACK_H
#define FLYT_CHECKPOINT_PACK_H

#include <sys/uio.h>
#include <zstd.h>

#include "cpu/checkpoint/frame.h"
#include "cpu/checkpoint/seal.h"

struct frame_job {
    struct frame_head head; /* stored: of the data, as they are given; packing: how they are packed already */
    uint64_t number;        /* of the frame in its file */
    bool packs;             /* its data are to be packed */
    bool packed;
    int error;              /* of frame_pack */
    struct iovec pieces[3]; /* what belongs into the file */
    unsigned count;
    uint8_t encoded[CHECKPOINT_HEAD], tag[CHECKPOINT_TAG];
    uint8_t *data;          /* CHECKPOINT_PART_MOST bytes */
    uint8_t other[ZSTD_COMPRESSBOUND(CHECKPOINT_PART_MOST)];
};

/* NULL: no memory. */
struct frame_job *frame_job_new(void);
void frame_job_free(struct frame_job *);       /* NULL is allowed */

/* What a thread needs to pack frames. */
struct frame_packer;
/* key, begun: seal_new's, of a file behind its SEAL; NULL: frames are not encrypted. NULL: no memory, or no cipher. */
struct frame_packer *frame_packer_new(const uint8_t *key, const uint8_t *begun);
void frame_packer_free(struct frame_packer *);
/* From head, number and data to pieces and error. */
void frame_pack(struct frame_packer *, struct frame_job *);

#endif
