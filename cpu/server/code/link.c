/*
 * link.c: links of several code images (cuLink…). The driver keeps no link between two calls: each call names all
 * of its inputs, so that a link is nothing that a session has to keep. The linked image becomes one of the
 * session's images.
 */
#include "cpu/server/code/code.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"

/* What the driver writes about errors; it reads and writes these arrays until the link is destroyed. */
struct log {
    char text[FLYT_MAX_LOG + 1];
    CUjit_option options[2];
    void *values[2];
};

static CUresult add_inputs(const struct gpu *gpu, CUlinkState state, const link_args *args, struct image *const *images)
{
    CUresult r = CUDA_SUCCESS;
    for (u_int i = 0; i < args->inputs.inputs_len && r == CUDA_SUCCESS; i++)
        r = gpu->LinkAddData(state, (CUjitInputType)args->inputs.inputs_val[i].type, images[i]->bytes, images[i]->size,
                             args->inputs.inputs_val[i].name, 0, NULL, NULL);
    return r;
}

/* *made: the linked image, which the caller frees; NULL when the inputs are only tried. */
static CUresult link_images(const struct gpu *gpu, const link_args *args, struct image *const *images, struct log *log,
                            uint8_t **made, size_t *size)
{
    CUlinkState state;
    void *image;
    *log = (struct log){ .options = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES },
                         .values = { log->text, (void *)(uintptr_t)FLYT_MAX_LOG } };
    CUresult r = gpu->LinkCreate(2, log->options, log->values, &state);
    if (r != CUDA_SUCCESS)
        return r;
    r = add_inputs(gpu, state, args, images);
    if (r == CUDA_SUCCESS && !args->add_only && (r = gpu->LinkComplete(state, &image, size)) == CUDA_SUCCESS) {
        if (*size > FLYT_MAX_IMAGE || !(*made = malloc(*size + 1)))
            r = CUDA_ERROR_OUT_OF_MEMORY;
        else
            memcpy(*made, image, *size);
    }
    gpu->LinkDestroy(state);
    return r;
}

/* Under session.lock: the images stay until link_release. */
static CUresult link_hold(struct session *session, const link_args *args, struct image **images)
{
    for (u_int i = 0; i < args->inputs.inputs_len; i++) {
        images[i] = image_find(session, args->inputs.inputs_val[i].hash);
        if (!images[i] || !images[i]->complete) {
            images[i] = NULL;
            return CUDA_ERROR_INVALID_VALUE;
        }
        images[i]->references++;
    }
    return CUDA_SUCCESS;
}

static void link_release(struct image **images, u_int count)
{
    for (u_int i = 0; i < count && images[i]; i++)
        images[i]->references--;
}

/* By the loader: a link may take long. */
static void link_serve(struct session *session, struct call *call)
{
    const link_args *args = &call->args.link;
    const struct gpu *gpu = session->gpu;
    u_int count = args->inputs.inputs_len;
    link_result result;
    uint8_t *made = NULL;
    size_t size = 0;
    memset(&result, 0, sizeof result);
    struct image **images = calloc((size_t)count + 1, sizeof *images);
    struct log *log = calloc(1, sizeof *log);
    CUresult r = images && log ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && (!gpu->LinkCreate || !gpu->LinkAddData || !gpu->LinkComplete || !gpu->LinkDestroy))
        r = CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&session->lock);
    struct context *context = context_find(session, args->context);
    if (r == CUDA_SUCCESS)
        r = link_hold(session, args, images);
    pthread_mutex_unlock(&session->lock);
    if (r == CUDA_SUCCESS)
        r = context ? context_use(session, context) : CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS)
        r = link_images(gpu, args, images, log, &made, &size);
    if (log) {
        result.log.log_val = log->text;
        result.log.log_len = r == CUDA_SUCCESS ? 0 : (u_int)strnlen(log->text, FLYT_MAX_LOG);
    }
    pthread_mutex_lock(&session->lock);
    if (images)
        link_release(images, count);
    if (made)
        r = image_add_linked(session, made, size, (uint8_t *)result.hash);
    result.size = size;
    session_reply(session, call->xid, (xdrproc_t)xdr_link_result, &result, r, false);
    pthread_mutex_unlock(&session->lock);
    free(images);
    free(log);
}

void serve_link(struct session *session, struct call *call)
{
    if (!loader_serve(session, call, link_serve))
        call_fail(session, call, CUDA_ERROR_OUT_OF_MEMORY);
}

/* Only what was linked here: a client that knows nothing but the hash of another image does not get its bytes. */
void serve_link_read(struct session *session, struct call *call)
{
    const link_read_args *args = &call->args.link_read;
    link_read_result result;
    memset(&result, 0, sizeof result);
    struct image *image = image_find(session, args->hash);
    CUresult r = image && image->linked && args->offset <= image->size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        size_t left = image->size - (size_t)args->offset;
        result.bytes.bytes_val = (char *)image->bytes + args->offset;
        result.bytes.bytes_len = left < FLYT_MAX_INLINE ? (u_int)left : FLYT_MAX_INLINE;
    }
    session_reply(session, call->xid, (xdrproc_t)xdr_link_read_result, &result, r, false);
}
