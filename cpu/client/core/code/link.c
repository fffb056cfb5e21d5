/* link.c: links of several code images, which the driver behind the server makes. See core_link. */
#include <stdlib.h>
#include <string.h>

#include "cpu/common/cancel.h"
#include "cpu/code/fatbin.h"
#include "code.h"
#include "cpu/client/core/api_code.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/wire/wire.h"

enum { FATBINARY = 2 }; /* of CUjitInputType */

/* As the same bytes would travel if the program loaded them: the server knows an image by its bytes. */
static flyt_image_kind kind_of(const struct core_link_input *input)
{
    uint32_t magic = 0;
    memcpy(&magic, input->data, input->size < sizeof magic ? input->size : sizeof magic);
    if (magic == FATBIN_CONTAINER_MAGIC)
        return FLYT_IMAGE_FATBIN;
    return input->text ? FLYT_IMAGE_PTX : FLYT_IMAGE_INPUT;
}

/* Puts what is compiled from PTX into a fat binary, which can say the bound. */
static int bound(const struct core_link_input *input, struct image_bundle *bundle, link_input *wire)
{
    bool known = bundle->kind == FLYT_IMAGE_PTX || bundle->kind == FLYT_IMAGE_FATBIN;
    int code = known ? bundle_bound(bundle, input->registers) : CORE_OK;
    if (!code && input->registers && input->text)
        wire->type = FATBINARY;
    return code;
}

static int announce(struct client_session *session, const struct core_link_input *inputs, unsigned count,
                    link_input *wire)
{
    int code = CORE_OK;
    for (unsigned i = 0; i < count && !code; i++) {
        struct image_bundle bundle;
        code = bundle_make_input(kind_of(&inputs[i]), inputs[i].data, inputs[i].size, &bundle);
        wire[i].type = inputs[i].type;
        if (code || (code = bound(&inputs[i], &bundle, &wire[i])))
            break;
        code = bundle_announce(session, &bundle);
        memcpy(wire[i].hash, bundle.hash, sizeof wire[i].hash);
        wire[i].name = (char *)(uintptr_t)inputs[i].name;
        bundle_free(&bundle);
    }
    return code;
}

static int read_linked(struct client_session *session, const link_result *linked, void **out)
{
    char *image = malloc((size_t)linked->size + 1);
    uint64_t got = 0;
    int code = image ? CORE_OK : CORE_OUT_OF_MEMORY;
    while (!code && got < linked->size) {
        link_read_args args = { .offset = got };
        link_read_result result = { 0 };
        memcpy(args.hash, linked->hash, sizeof args.hash);
        code =
            wire_call(session, FLYT_LINK_READ, (xdrproc_t)xdr_link_read_args, &args, (xdrproc_t)xdr_link_read_result,
                      &result);
        u_int part = result.bytes.bytes_len;
        if (!code && (!part || part > linked->size - got))
            code = CORE_INVALID_IMAGE;
        if (!code)
            memcpy(image + got, result.bytes.bytes_val, part);
        got += part;
        xdr_free((xdrproc_t)xdr_link_read_result, &result);
    }
    if (code) {
        free(image);
        return code;
    }
    image[linked->size] = '\0';
    *out = image;
    return CORE_OK;
}

int core_link(core_context *c, const struct core_link_input *inputs, unsigned count, void **image, size_t *size,
              char **log)
{
    CANCEL_DEFERRED;
    if (count > FLYT_MAX_LINK_INPUTS)
        return CORE_NOT_SUPPORTED;
    link_input *wire = calloc(count + 1, sizeof *wire);
    int code = wire ? context_enter(c) : CORE_OUT_OF_MEMORY;
    if (!code)
        code = announce(c->session, inputs, count, wire);
    if (code) {
        free(wire);
        return code;
    }
    link_args args = { .context = c->wire, .add_only = !image, .inputs = { count, wire } };
    link_result result = { 0 };
    code = wire_call(c->session, FLYT_LINK, (xdrproc_t)xdr_link_args, &args, (xdrproc_t)xdr_link_result, &result);
    if (log && result.log.log_len)
        *log = strndup(result.log.log_val, result.log.log_len);
    if (!code && image && !(code = read_linked(c->session, &result, image)))
        *size = (size_t)result.size;
    xdr_free((xdrproc_t)xdr_link_result, &result);
    free(wire);
    return code;
}
