/* pack.c: see pack.h. */
#include "cpu/checkpoint/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where packing has saved less than an eighth of a part of some size, as of the weights of a network, the next ones are
   stored as they are, and it is tried again behind them: packing costs more than anything else. */
enum { ZSTD_LEVEL = 1, SAVES_LEAST = 8, SIZE_LEAST = 64 << 10, UNTRIED = 3 };

struct frame_packer {
    ZSTD_CCtx *zstd;
    struct seal *seal; /* NULL: frames are not encrypted */
    unsigned untried;  /* so many parts are not packed */
};

struct frame_job *frame_job_new(void)
{
    struct frame_job *job = malloc(sizeof *job);
    if (job && (job->data = malloc(CHECKPOINT_PART_MOST)))
        return job;
    free(job);
    return NULL;
}

void frame_job_free(struct frame_job *job)
{
    if (job)
        free(job->data);
    free(job);
}

struct frame_packer *frame_packer_new(const uint8_t *key, const uint8_t *begun)
{
    struct frame_packer *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->zstd = ZSTD_createCCtx();
    p->seal = key ? seal_new(key, begun) : NULL;
    if (p->zstd && (p->seal || !key))
        return p;
    frame_packer_free(p);
    return NULL;
}

void frame_packer_free(struct frame_packer *p)
{
    if (!p)
        return;
    seal_free(p->seal);
    ZSTD_freeCCtx(p->zstd);
    free(p);
}

static bool all_zero(const uint8_t *data, size_t size)
{
    return size && !data[0] && memcmp(data, data + 1, size - 1) == 0;
}

/* What is stored in place of the data of a part. */
static uint8_t *pack(struct frame_packer *p, struct frame_job *job)
{
    if (all_zero(job->data, job->head.size)) {
        job->head.packing = PACKED_ZERO;
        job->head.stored = 0;
        return job->other;
    }
    const bool counts = job->head.size >= SIZE_LEAST;
    if (counts && p->untried) {
        p->untried--;
        return job->data;
    }
    size_t packed = ZSTD_compressCCtx(p->zstd, job->other, sizeof job->other, job->data, job->head.size, ZSTD_LEVEL);
    if (counts && (ZSTD_isError(packed) || packed > job->head.size - job->head.size / SAVES_LEAST))
        p->untried = UNTRIED;
    if (ZSTD_isError(packed) || packed >= job->head.size)
        return job->data;
    job->head.packing = PACKED_ZSTD;
    job->head.stored = (uint32_t)packed;
    return job->other;
}

/* Data that are secret are encrypted where they are; the tag stands behind them. */
static bool close_frame(struct frame_packer *p, struct frame_job *job, uint8_t *data, uint32_t size)
{
    const bool secret = job->head.type == CHECKPOINT_PART;
    const struct seal_frame frame = { job->number, job->encoded, secret ? NULL : data, secret ? 0 : size };
    return seal_close(p->seal, &frame, secret ? data : NULL, secret ? size : 0, data, job->tag);
}

void frame_pack(struct frame_packer *p, struct frame_job *job)
{
    uint8_t *data = job->packs ? pack(p, job) : job->data;
    const uint32_t size = job->head.stored, tag = p->seal ? CHECKPOINT_TAG : 0;
    job->head.stored += tag;
    frame_encode(&job->head, job->encoded);
    job->error = !p->seal || close_frame(p, job, data, size) ? 0 : -EIO;
    job->head.check = frame_check_two(job->encoded, data, size, job->tag, tag);
    frame_encode(&job->head, job->encoded);
    job->pieces[0] = (struct iovec){ job->encoded, sizeof job->encoded };
    job->pieces[1] = (struct iovec){ data, size };
    job->pieces[2] = (struct iovec){ job->tag, tag };
    job->count = tag ? 3 : 2;
}
