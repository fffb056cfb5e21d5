/*
 * share.c: see share.h.
 *
 * A part is a piece of MAP or a handle; it is exported once, however many exports name it, so that a program that
 * exports each of its allocations needs no more descriptors than it has pieces.
 *
 * An export ends with its memory, with SHARE_END, or with the session. Who has imported it by then keeps the memory:
 * the driver counts who maps it. The tenant's books count it under a number of its own, once, as long as any worker
 * holds it (tenant.h).
 */
#include "cpu/server/memory/share.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/fd.h"
#include "cpu/common/lock.h"
#include "cpu/server/session.h"
#include "cpu/server/tenant/tenant.h"

/* For whom the exporter of what one wants to import is leaving, or turns out to stay. */
#define LEAVING_PATIENCE_NS (30 * CLOCK_NS_PER_SECOND)
enum { LEAVING_LOOK_NS = 5000000 };

struct export {
    struct tree_node node;                    /* key: number */
    uint64_t session;                         /* as the key names it: this one, or this one at an earlier server */
    uint8_t secret[16];
    const struct device *device;
    uint64_t offset, length;
    uint32_t count;
    struct share_part *parts[];
};

bool share_possible(const struct session *session)
{
    enum { POSIX_DESCRIPTORS = 103 };         /* CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
    bool possible = session->share_ask && session->gpu->MemExportToShareableHandle &&
                    session->gpu->MemImportFromShareableHandle;
    for (int i = 0; i < session->device_count && possible; i++) {
        int value = 0;
        possible = session->gpu->DeviceGetAttribute(&value, (CUdevice_attribute)POSIX_DESCRIPTORS,
                                                    session->devices[i].handle) == CUDA_SUCCESS &&
                   value;
    }
    return possible;
}

/* As the protocol has it: numbers are big endian, so that the client can compare the first one. */
void share_key_put(char *bytes, const struct share_key *key)
{
    uint64_t numbers[2] = { htobe64(key->session), htobe64(key->number) };
    memcpy(bytes, numbers, sizeof numbers);
    memcpy(bytes + sizeof numbers, key->secret, sizeof key->secret);
}

void share_key_get(const char *bytes, struct share_key *key)
{
    uint64_t numbers[2];
    memcpy(numbers, bytes, sizeof numbers);
    *key = (struct share_key){ .session = be64toh(numbers[0]), .number = be64toh(numbers[1]) };
    memcpy(key->secret, bytes + sizeof numbers, sizeof key->secret);
}

_Static_assert(sizeof(struct share_key) == FLYT_SHARE_SIZE, "as in the protocol");

/* ---- parts ---- */

/* Never 0. */
static uint64_t ledger_number(void)
{
    uint64_t number = 0;
    while (!number)
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            number = 0;
    return number;
}

CUresult share_part_make(struct session *session, CUmemGenericAllocationHandle memory, uint64_t size, int counted,
                         unsigned device, struct share_part **out)
{
    FLYT_ASSERT_HELD(&session->lock);
    if (*out)
        return CUDA_SUCCESS;
    struct share_part *part = malloc(sizeof *part);
    if (!part)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *part = (struct share_part){ .size = size, .fd = -1 };
    CUresult r = session->gpu->MemExportToShareableHandle(&part->fd, memory,
                                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (r == CUDA_SUCCESS && (part->fd = fd_keep(part->fd)) < 0)
        r = CUDA_ERROR_OPERATING_SYSTEM;
    if (r == CUDA_SUCCESS && !tenant_share((enum tenant_kind)counted, device, size, part->ledger = ledger_number()))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        if (part->fd >= 0)
            close(part->fd);
        free(part);
        return r;
    }
    *out = part;
    return CUDA_SUCCESS;
}

/* The first export from that number on that names the part. */
static struct export *export_of(struct shares *shares, uint64_t number, const struct share_part *part)
{
    struct tree_node *node = tree_at_or_above(&shares->exports, number, 0);
    for (; node; node = tree_next(&shares->exports, node)) {
        struct export *export = TREE_OBJECT(node, struct export, node);
        for (uint32_t i = 0; i < export->count; i++)
            if (export->parts[i] == part)
                return export;
    }
    return NULL;
}

static void export_end(struct shares *shares, struct export *export)
{
    FLYT_ASSERT_HELD(&shares->lock);
    for (uint32_t i = 0; i < export->count; i++)
        export->parts[i]->exports--;
    tree_remove(&shares->exports, &export->node);
    shares->count--;
    free(export);
}

bool share_part_end(struct session *session, struct share_part *part)
{
    if (!part)
        return false;
    struct shares *shares = session->shares;
    pthread_mutex_lock(&shares->lock);
    for (uint64_t from = 0; part->exports;) {
        struct export *export = export_of(shares, from, part);
        from = export->node.key + 1;
        export_end(shares, export);
    }
    pthread_mutex_unlock(&shares->lock);
    tenant_share_end(part->ledger);
    close(part->fd);
    free(part);
    return true;
}

/* ---- partners ---- */

/* Another worker says who its program is. */
static void partner_add(struct shares *shares, uint64_t session, const char *client)
{
    FLYT_ASSERT_HELD(&shares->lock);
    for (unsigned i = 0; i < shares->partner_count; i++)
        if (shares->partners[i].session == session)
            return;
    if (shares->partner_count == SHARE_PARTNERS) {
        shares->more_partners = true;
        return;
    }
    struct share_partner *partner = &shares->partners[shares->partner_count++];
    partner->session = session;
    snprintf(partner->client, sizeof partner->client, "%.*s", SHARE_CLIENT - 1, client);
}

void share_partners(struct session *session, char *text, size_t size)
{
    enum { NAMED = 4 };
    struct shares *shares = session->shares;
    size_t at = 0;
    *text = 0;
    pthread_mutex_lock(&shares->lock);
    for (unsigned i = 0; i < shares->partner_count && i < NAMED && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", shares->partners[i].client);
    if (shares->partner_count > NAMED && at < size)
        snprintf(text + at, size - at, " and others");
    pthread_mutex_unlock(&shares->lock);
}

/* The upper half of a session's number is the process id of its worker. */
void share_partner_gone(struct session *session, int32_t worker)
{
    struct shares *shares = session->shares;
    unsigned kept = 0;
    pthread_mutex_lock(&shares->lock);
    for (unsigned i = 0; i < shares->partner_count; i++)
        if ((int32_t)(shares->partners[i].session >> 32) != worker)
            shares->partners[kept++] = shares->partners[i];
    shares->partner_count = kept;
    pthread_mutex_unlock(&shares->lock);
}

void serve_partners(struct session *session, struct call *call)
{
    struct shares *shares = session->shares;
    const u_int most = call->args.partners.most;
    uint64_t numbers[FLYT_MAX_PARTNERS];
    partners_result result;
    memset(&result, 0, sizeof result);
    result.session = session->id;
    result.partners.partners_val = numbers;
    pthread_mutex_lock(&shares->lock);
    for (unsigned i = 0; i < shares->partner_count && i < most; i++)
        numbers[result.partners.partners_len++] = shares->partners[i].session;
    result.more = shares->more_partners || shares->partner_count > most;
    shares->leaving = call->args.partners.leaves;
    pthread_mutex_unlock(&shares->lock);
    session_reply(session, call->xid, (xdrproc_t)xdr_partners_result, &result, CUDA_SUCCESS, false);
}

/* ---- exports ---- */

static struct export *export_find(const struct shares *shares, uint64_t number)
{
    struct export *export = TREE_OBJECT(tree_at_or_above(&shares->exports, number, 0), struct export, node);
    return export && export->node.key == number ? export : NULL;
}

/* again: the key is there; else *key is made. */
static CUresult export_make(struct session *session, const struct device *device, struct share_part *const *parts,
                            uint32_t count, uint64_t offset, uint64_t length, bool again, struct share_key *key)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct shares *shares = session->shares;
    struct export *export = malloc(sizeof *export + count * sizeof(struct share_part *));
    if (!export || shares->count >= SHARE_EXPORTS ||
        (!again && getrandom(key->secret, sizeof key->secret, 0) != sizeof key->secret)) {
        free(export);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    export->device = device;
    export->offset = offset;
    export->length = length;
    export->count = count;
    pthread_mutex_lock(&shares->lock);
    if (again && export_find(shares, key->number)) {
        pthread_mutex_unlock(&shares->lock);
        free(export);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!again) {
        key->session = session->id;
        key->number = shares->last + 1;
    }
    shares->last = key->number > shares->last ? key->number : shares->last;
    export->node.key = key->number;
    export->node.tie = 0;
    export->session = key->session;
    memcpy(export->secret, key->secret, sizeof export->secret);
    for (uint32_t i = 0; i < count; i++) {
        export->parts[i] = parts[i];
        parts[i]->exports++;
    }
    tree_insert(&shares->exports, &export->node);
    shares->count++;
    pthread_mutex_unlock(&shares->lock);
    return CUDA_SUCCESS;
}

CUresult share_export(struct session *session, const struct device *device, struct share_part *const *parts,
                      uint32_t count, uint64_t offset, uint64_t length, struct share_key *key)
{
    return export_make(session, device, parts, count, offset, length, false, key);
}

CUresult share_export_again(struct session *session, const struct device *device, struct share_part *const *parts,
                            uint32_t count, uint64_t offset, uint64_t length, const struct share_key *key)
{
    struct share_key given = *key;
    return key->number && key->number < UINT64_MAX
               ? export_make(session, device, parts, count, offset, length, true, &given)
               : CUDA_ERROR_INVALID_VALUE;
}

void share_end(struct session *session, uint64_t number)
{
    struct shares *shares = session->shares;
    pthread_mutex_lock(&shares->lock);
    struct export *export = export_find(shares, number);
    if (export)
        export_end(shares, export);
    pthread_mutex_unlock(&shares->lock);
}

void shares_stop(struct session *session)
{
    struct shares *shares = session->shares;
    pthread_mutex_lock(&shares->lock);
    for (struct tree_node *node; (node = tree_first(&shares->exports));)
        export_end(shares, TREE_OBJECT(node, struct export, node));
    pthread_mutex_unlock(&shares->lock);
}

/* Whether the secret is right; how long it takes does not say where it is wrong. */
static bool secret_fits(const uint8_t *a, const uint8_t *b)
{
    unsigned different = 0;
    for (size_t i = 0; i < sizeof((struct export *)0)->secret; i++)
        different |= a[i] ^ b[i];
    return different == 0;
}

void share_answer(struct session *session, const struct share_question *question, struct share_answer *answer, int *fds)
{
    struct shares *shares = session->shares;
    memset(answer, 0, sizeof *answer);
    answer->word = SHARE_ANSWER;
    answer->serial = question->serial;
    answer->status = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&shares->lock);
    const struct export *export = export_find(shares, question->key.number);
    const bool found = export && export->session == question->key.session &&
                       secret_fits(export->secret, question->key.secret) && question->first < export->count;
    if (found && shares->leaving && !question->leaves) {
        answer->status = CUDA_ERROR_NOT_READY;
    } else if (found) {
        answer->status = CUDA_SUCCESS;
        answer->device = (uint32_t)export->device->index;
        answer->parts = export->count;
        answer->offset = export->offset;
        answer->length = export->length;
        answer->from.session = session->id;
        snprintf(answer->from.client, sizeof answer->from.client, "%.*s", SHARE_CLIENT - 1, session->client);
        if (question->from.session != session->id)
            partner_add(shares, question->from.session, question->from.client);
        while (answer->count < SHARE_AT_ONCE && question->first + answer->count < export->count) {
            const struct share_part *part = export->parts[question->first + answer->count];
            int fd = fcntl(part->fd, F_DUPFD_CLOEXEC, FD_FIRST);
            if (fd < 0) {
                answer->status = CUDA_ERROR_OPERATING_SYSTEM;
                break;
            }
            answer->part[answer->count].size = part->size;
            answer->part[answer->count].ledger = part->ledger;
            fds[answer->count++] = fd;
        }
    }
    pthread_mutex_unlock(&shares->lock);
}

/* ---- importing ---- */

static CUresult part_import(struct session *session, struct share_import *import, uint64_t size, uint64_t ledger,
                            int fd)
{
    struct share_memory *memory = &import->parts[import->count];
    if (!size || size % session->window.granularity || size > session->window.size - import->size)
        return CUDA_ERROR_INVALID_VALUE;
    if (!tenant_share_hold(ledger, import->device, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = session->gpu->MemImportFromShareableHandle(&memory->handle, (void *)(intptr_t)fd,
                                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (r != CUDA_SUCCESS) {
        tenant_share_end(ledger);
        return r;
    }
    memory->size = size;
    memory->ledger = ledger;
    import->size += size;
    import->count++;
    return CUDA_SUCCESS;
}

static int ask(struct session *session, const struct share_question *question, struct share_answer *answer, int *fds)
{
    if (question->key.session == session->id) {
        share_answer(session, question, answer, fds);
        if (answer->status == CUDA_SUCCESS)
            return 0;
    }
    /* Another session may have had the same number at another server, and have moved here. */
    return session->share_ask ? session->share_ask(question, answer, fds) : -ENOENT;
}

/* The next message's parts. *all: how many there are; *owner: whose they are. */
static CUresult some_import(struct session *session, const struct share_key *key, struct share_import *import,
                            uint32_t *all, struct share_partner *owner)
{
    struct share_question question = { .word = SHARE_QUESTION, .first = import->count, .key = *key,
                                       .from.session = session->id };
    struct share_answer answer = { 0 };
    int fds[SHARE_AT_ONCE];
    pthread_mutex_lock(&session->shares->lock);
    question.leaves = session->shares->leaving;
    pthread_mutex_unlock(&session->shares->lock);
    snprintf(question.from.client, sizeof question.from.client, "%.*s", SHARE_CLIENT - 1, session->client);
    if (ask(session, &question, &answer, fds) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = (CUresult)answer.status;
    if (r == CUDA_SUCCESS && !import->parts) {
        if (!answer.parts || answer.parts > SHARE_PARTS || answer.device >= (uint32_t)session->device_count)
            r = CUDA_ERROR_INVALID_VALUE;
        else if (!(import->parts = calloc(answer.parts, sizeof *import->parts)))
            r = CUDA_ERROR_OUT_OF_MEMORY;
        *all = answer.parts;
        owner->session = answer.from.session;
        snprintf(owner->client, sizeof owner->client, "%.*s", SHARE_CLIENT - 1, answer.from.client);
        import->device = answer.device;
        import->offset = answer.offset;
        import->length = answer.length;
    }
    if (r == CUDA_SUCCESS && (!answer.count || answer.parts != *all || answer.count > *all - import->count))
        r = CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < answer.count; i++) {
        if (r == CUDA_SUCCESS)
            r = part_import(session, import, answer.part[i].size, answer.part[i].ledger, fds[i]);
        close(fds[i]);
    }
    return r;
}

CUresult share_import(struct session *session, const struct share_key *key, struct share_import *import)
{
    struct share_partner owner = { 0 };
    uint32_t all = 0;
    *import = (struct share_import){ 0 };
    CUresult r = CUDA_SUCCESS;
    const uint64_t until = clock_now() + LEAVING_PATIENCE_NS;
    do {
        r = some_import(session, key, import, &all, &owner);
        if (r == CUDA_ERROR_NOT_READY)
            nanosleep(&(struct timespec){ .tv_nsec = LEAVING_LOOK_NS }, NULL);
    } while ((r == CUDA_SUCCESS && import->count < all) || (r == CUDA_ERROR_NOT_READY && clock_now() < until));
    r = r == CUDA_ERROR_NOT_READY ? CUDA_ERROR_INVALID_VALUE : r;
    if (r == CUDA_SUCCESS && (import->offset > import->size || import->length > import->size - import->offset))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && owner.session != session->id) {
        pthread_mutex_lock(&session->shares->lock);
        partner_add(session->shares, owner.session, owner.client);
        pthread_mutex_unlock(&session->shares->lock);
    }
    if (r != CUDA_SUCCESS)
        share_import_end(session, import);
    return r;
}

CUresult share_import_end(struct session *session, struct share_import *import)
{
    CUresult r = CUDA_SUCCESS;
    for (uint32_t i = 0; i < import->count; i++) {
        CUresult released = session->gpu->MemRelease(import->parts[i].handle);
        r = r ? r : released;
        tenant_share_end(import->parts[i].ledger);
    }
    free(import->parts);
    *import = (struct share_import){ 0 };
    return r;
}
