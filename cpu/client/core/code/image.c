/*
 * image.c: a code image as it travels: named by the hash of its content, so that its bytes go over the wire once
 * per server and not once per process. Nothing is copied: parts point into the program's own memory.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/code/bounded.h"
#include "cpu/code/fatbin.h"
#include "cpu/code/hash.h"
#include "cpu/code/kernels.h"
#include "code.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

_Static_assert(HASH_SIZE == FLYT_HASH_SIZE, "images are named by this hash");

static size_t padding(const struct image_bundle *bundle, const struct image_part *part)
{
    return bundle->kind == FLYT_IMAGE_FATBIN ? -part->size & 7 : 0;
}

static const char *add_part(struct image_bundle *bundle, const void *data, size_t size)
{
    struct image_part *more = realloc(bundle->parts, (bundle->count + 1) * sizeof *more);
    if (!more)
        return "no memory";
    bundle->parts = more;
    bundle->parts[bundle->count++] = (struct image_part){ data, size };
    bundle->size += size + padding(bundle, &bundle->parts[bundle->count - 1]);
    return bundle->size > FLYT_MAX_IMAGE ? "it is larger than 1 GiB" : NULL;
}

static const char *add_container(struct image_bundle *bundle, const void *data)
{
    size_t size = data ? fatbin_container_size(data, SIZE_MAX) : 0;
    return size ? add_part(bundle, data, size) : "it holds no fat binary container";
}

/* The wrapper's own container, and, if it was device-linked, those of its translation units. */
static const char *add_wrapped(struct image_bundle *bundle, const struct fatbin_wrapper *wrapper)
{
    const char *why = add_container(bundle, wrapper->container);
    const void *const *extra = wrapper->version >= 2 ? wrapper->extra : NULL;
    for (; extra && *extra && !why; extra++)
        why = add_container(bundle, *extra);
    return why;
}

/* Text may be shorter than a magic number, so no byte behind a NUL is read; no magic number has one. */
static bool begins_with(const void *image, const char magic[4])
{
    return strncmp(image, magic, 4) == 0;
}

static const char *add_image(struct image_bundle *bundle, const void *image)
{
    if (begins_with(image, (const char *)&(const uint32_t){ FATBIN_WRAPPER_MAGIC }))
        return add_wrapped(bundle, image);
    if (begins_with(image, (const char *)&(const uint32_t){ FATBIN_CONTAINER_MAGIC }))
        return add_container(bundle, image);
    if (begins_with(image, "\177ELF")) {
        bundle->kind = FLYT_IMAGE_CUBIN;
        size_t size = fatbin_elf_size(image, SIZE_MAX);
        return size ? add_part(bundle, image, size) : "it is a damaged ELF file";
    }
    bundle->kind = FLYT_IMAGE_PTX;
    size_t length = strnlen(image, FLYT_MAX_IMAGE);
    return strstr(image, ".version") ? add_part(bundle, image, length + 1)
                                     : "it is neither a fat binary, nor ELF, nor PTX";
}

/* Ends state, which may be NULL: then false. */
static bool hash_parts(const struct image_bundle *bundle, hash *state, void *out)
{
    static const uint8_t zeros[8];
    if (!state)
        return false;
    for (unsigned i = 0; i < bundle->count; i++) {
        hash_add(state, bundle->parts[i].data, bundle->parts[i].size);
        hash_add(state, zeros, padding(bundle, &bundle->parts[i]));
    }
    hash_finish(state, out);
    return true;
}

/* Shows the server that this program has the bytes. A server that keeps no images sends no nonce and wants no proof. */
static bool prove(struct client_session *session, const struct image_bundle *bundle, void *proof)
{
    static const uint8_t none[HASH_SIZE];
    char nonce[HASH_SIZE];
    session_nonce(session, nonce);
    return memcmp(nonce, none, sizeof none) == 0 ||
           hash_parts(bundle, hash_create_keyed((const uint8_t *)nonce), proof);
}

int bundle_make(const void *image, struct image_bundle *bundle, const char **why)
{
    *bundle = (struct image_bundle){ .kind = FLYT_IMAGE_FATBIN };
    *why = image ? add_image(bundle, image) : "there is none";
    if (!*why && hash_parts(bundle, hash_create(), bundle->hash))
        return CORE_OK;
    int code = *why ? CORE_INVALID_IMAGE : CORE_OUT_OF_MEMORY;
    if (!*why)
        *why = "no memory";
    bundle_free(bundle);
    return code;
}

int bundle_make_input(flyt_image_kind kind, const void *data, size_t size, struct image_bundle *bundle)
{
    *bundle = (struct image_bundle){ .kind = kind };
    if (!add_part(bundle, data, size) && hash_parts(bundle, hash_create(), bundle->hash))
        return CORE_OK;
    bundle_free(bundle);
    return CORE_OUT_OF_MEMORY;
}

/* The bounded parts replace those that point into the program's memory. */
int bundle_bound(struct image_bundle *bundle, unsigned registers)
{
    if (!registers || bundle->kind == FLYT_IMAGE_CUBIN)
        return CORE_OK;
    struct image_bundle bound = { .kind = FLYT_IMAGE_FATBIN, .owned = true };
    bool good = true;
    for (unsigned i = 0; i < bundle->count && good; i++) {
        const struct image_part *part = &bundle->parts[i];
        size_t size;
        uint8_t *data = bundle->kind == FLYT_IMAGE_PTX
                            ? code_bounded_text(part->data, registers, &size)
                            : code_bounded_container(part->data, part->size, registers, &size);
        unsigned before = bound.count;
        good = data && !add_part(&bound, data, size);
        if (bound.count == before)
            free(data);
    }
    good = good && hash_parts(&bound, hash_create(), bound.hash);
    bundle_free(bundle);
    if (good)
        *bundle = bound;
    else
        bundle_free(&bound);
    return good ? CORE_OK : CORE_OUT_OF_MEMORY;
}

int bundle_copy(struct image_bundle *bundle)
{
    if (bundle->owned)
        return CORE_OK;

    unsigned copied = 0;
    for (; copied < bundle->count; copied++) {
        void *copy = malloc(bundle->parts[copied].size);
        if (!copy)
            break;
        bundle->parts[copied].data = memcpy(copy, bundle->parts[copied].data, bundle->parts[copied].size);
    }
    bundle->owned = true;
    if (copied == bundle->count)
        return CORE_OK;
    bundle->count = copied;
    bundle_free(bundle);
    return CORE_OUT_OF_MEMORY;
}

void bundle_free(struct image_bundle *bundle)
{
    for (unsigned i = 0; bundle->owned && i < bundle->count; i++)
        free((void *)(uintptr_t)bundle->parts[i].data);
    bundle->owned = false;
    free(bundle->parts);
    bundle->parts = NULL;
    bundle->count = 0;
}

bool bundle_kernels(const struct image_bundle *bundle, size_t most, bool (*each)(void *, const char *, size_t),
                    void *context)
{
    bool more = bundle->size <= most;
    for (unsigned i = 0; i < bundle->count && more; i++) {
        const struct image_part *part = &bundle->parts[i];
        if (bundle->kind == FLYT_IMAGE_FATBIN)
            more = kernels_of_container(part->data, part->size, most, each, context);
        else if (bundle->kind == FLYT_IMAGE_CUBIN)
            more = kernels_of_cubin(part->data, part->size, each, context);
        else
            more = kernels_of_ptx(part->data, part->size, each, context);
    }
    return more;
}

/* The bytes of the image from that place on that lie in one piece. 0: the image has ended. */
static size_t bytes_at(const struct image_bundle *bundle, uint64_t offset, const uint8_t **bytes)
{
    static const uint8_t zeros[8];
    for (unsigned i = 0; i < bundle->count; i++) {
        const struct image_part *part = &bundle->parts[i];
        const size_t pad = padding(bundle, part);
        if (offset < part->size) {
            *bytes = (const uint8_t *)part->data + offset;
            return part->size - offset;
        }
        offset -= part->size;
        if (offset < pad) {
            *bytes = zeros;
            return pad - offset;
        }
        offset -= pad;
    }
    return 0;
}

int bundle_send(struct client_session *session, const struct image_bundle *bundle, uint64_t *offset, uint64_t most)
{
    const uint64_t from = *offset;
    const uint8_t *bytes;
    int code = CORE_OK;
    for (size_t size; !code && *offset - from < most && (size = bytes_at(bundle, *offset, &bytes));) {
        const size_t part = size < FLYT_MAX_INLINE ? size : FLYT_MAX_INLINE;
        image_data_args args = { .offset = *offset };
        memcpy(args.hash, bundle->hash, sizeof args.hash);
        args.bytes.bytes_len = (u_int)part;
        args.bytes.bytes_val = (char *)(uintptr_t)bytes;
        code = wire_send(session, FLYT_IMAGE_DATA, (xdrproc_t)xdr_image_data_args, &args);
        *offset += part;
    }
    return code;
}

static int send_all(struct client_session *session, const struct image_bundle *bundle)
{
    uint64_t offset = 0;
    return bundle_send(session, bundle, &offset, UINT64_MAX);
}

/* ---- announcing ---- */

/* A server usually has the images of a program that has run before, so it is asked first. If it lacked the one that was
   announced before, this is probably the program's first start there: then the bytes go with the announcement, unless
   there are so many that sending them in vain would cost more than a second round trip. A session whose server may be
   replaced (journal.h) always sends them: the next server may lack what this one has. */
enum { ALONG_MOST = FLYT_MAX_INLINE };
static atomic_bool lacked_before;

static bool goes_along(const struct image_bundle *bundle)
{
    return journal_on() ||
           (atomic_load_explicit(&lacked_before, memory_order_relaxed) && bundle->size <= ALONG_MOST);
}

int bundle_ask(struct client_session *session, const struct image_bundle *bundle, struct image_question *q)
{
    *q = (struct image_question){ .session = session,
                                  .bundle = bundle,
                                  .args = { .kind = bundle->kind, .size = bundle->size } };
    memcpy(q->args.hash, bundle->hash, sizeof q->args.hash);
    if (!prove(session, bundle, q->args.proof))
        return CORE_OUT_OF_MEMORY;
    wire_prepare(&q->call, FLYT_IMAGE, (xdrproc_t)xdr_image_args, &q->args, (xdrproc_t)xdr_image_result, &q->result);
    wire_submit(session, &q->call);
    q->along = goes_along(bundle);
    q->sent = q->along ? send_all(session, bundle) : CORE_OK;
    return CORE_OK;
}

int bundle_wanted(struct image_question *q, int (*wait)(struct wire_call *), bool *late)
{
    int code = wait(&q->call);
    bool lacks = !code && !q->result.present;
    xdr_free((xdrproc_t)xdr_image_result, &q->result);
    if (!code)
        atomic_store_explicit(&lacked_before, lacks, memory_order_relaxed);
    *late = lacks && !q->along;
    return code ? code : q->sent;
}

int bundle_answered(struct image_question *q, int (*wait)(struct wire_call *), bool *late)
{
    int code = bundle_wanted(q, wait, late);
    return !code && *late ? send_all(q->session, q->bundle) : code;
}

int bundle_announce(struct client_session *session, const struct image_bundle *bundle)
{
    struct image_question q;
    bool late;
    int code = bundle_ask(session, bundle, &q);
    return code ? code : bundle_answered(&q, wire_wait, &late);
}
