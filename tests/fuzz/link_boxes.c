/*
 * link_boxes: a fuzz target for SEND_BOX and RECEIVE_BOX (cpu/server/links/transfer.c, cpu/server/copy/copy_plan.c):
 * which boxes a client may name, and what becomes of a transfer whatever happens in whichever order. The input is a
 * script. Its first byte says whether bytes pass through page-locked memory. Each step begins with a byte that says
 * what is done:
 *   0, 1  u8 stream and link, seven numbers: SEND_BOX, RECEIVE_BOX
 *   2     the first call that waits has its turn; u8: what fails then
 *   3     the first call that waits is dropped: its stream has gone
 *   4     u8 which, u8 how: a transfer of the engine's is over
 *   5     u8 which, u8 how: the device has come to a marker
 *   6     the executor lets those go on that are due
 *   7     u8 link: the link fails
 *   8     a context ends
 * Nothing outside of the client's memory is touched. In the end nothing is left: no transfer, registration, buffer,
 * reference or gate, and each RECEIVE_BOX has had one answer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/server/copy/copy_plan.h"
#include "cpu/server/links/links_state.h"
#include "cpu/server/memory/object.h"
#include "cpu/server/stream/host_function.h"
#include "cpu/server/stream/inside.h"

#define DEVICE ((uint64_t)1 << 44)
#define HOST   ((uint64_t)1 << 45)
enum { SIZE = 1 << 16, STREAMS = 2, LINKS = 2, CALLS = 64, ROW = 256, ROWS = 16, SLICES = 4, INVALID = 1 };

static struct session session;
static struct links links;
static struct server_link the_links[LINKS];
static struct context context;
static struct stream streams[STREAMS];
static uint8_t device[SIZE];
static unsigned failing, refused, registrations, buffers, references, tickets[STREAMS], passed[STREAMS];
static unsigned answers[CALLS], calls;
static bool wants_answer[CALLS], broken[LINKS];

struct waiting { struct call call; const struct operation *operation; };
static struct waiting queue[CALLS];
static struct link_buffer *newest;
static struct comm_transfer *posted[CALLS];
static struct server_link *posted_on[CALLS];
static struct waiter *waiters[CALLS];
static struct inside *due[CALLS];
static unsigned queued, posts, waits, dues;

static void need(bool holds)
{
    if (!holds)
        abort();
}

/* Takes the one at `i` out of so many pointers. */
#define TAKE(list, count, i) (memmove(&(list)[i], &(list)[(i) + 1], (--(count) - (i)) * sizeof *(list)))

/* ---- what transfer.c and copy_plan.c need of the rest of the server ---- */

bool memory_known(struct session *of, uint64_t address, uint64_t size)
{
    (void)of;
    const uint64_t base = address >= HOST ? HOST : DEVICE;
    return address >= base && address - base <= SIZE && size <= SIZE - (address - base);
}

bool host_memory_here(const struct session *of, uint64_t address)
{
    (void)of;
    return address >= HOST && address - HOST < SIZE;
}

const struct context *memory_context(struct session *of, uint64_t address)
{
    (void)of, (void)address;
    return &context;
}

bool object_place(struct session *of, enum kind kind, uint64_t number, struct object_place *place)
{
    (void)of, (void)kind;
    *place = (struct object_place){ .handle = 1, .context = &context, .shape = { ROW, ROWS, SLICES },
                                    .x = number % ROW, .y = number / ROW % ROWS, .z = number / ROW / ROWS };
    return number < ROW * ROWS * SLICES;
}

struct stream *server_stream_enter(struct session *of, struct call *call, uint32_t id)
{
    (void)of;
    return call->stream = id < STREAMS ? &streams[id] : NULL;
}

void server_stream_submit(struct session *of, struct call *call, const struct operation *operation)
{
    (void)of;
    need(queued < CALLS);
    queue[queued++] = (struct waiting){ *call, operation };
}

void stream_refuse(struct session *of, struct call *call, CUresult code)
{
    (void)of;
    need(code != CUDA_SUCCESS);
    answers[call->xid]++;
}

void session_reply_plain(struct session *of, uint32_t xid, CUresult code, bool speaks)
{
    (void)of, (void)code, (void)speaks;
    answers[xid]++;
}

void session_reply(struct session *of, uint32_t xid, xdrproc_t encode, void *result, CUresult code, bool speaks)
{
    (void)of, (void)xid, (void)encode, (void)result, (void)code, (void)speaks;
    abort(); /* only SEND_BEGIN is answered so */
}

bool_t xdr_send_begin_result(XDR *xdr, send_begin_result *result)
{
    (void)xdr, (void)result;
    abort(); /* likewise */
}

void report_latch(struct session *of, CUresult code)
{
    (void)of, (void)code;
    abort(); /* nothing of a box is latched */
}

void stream_hold(struct stream *stream) { references += stream->context != NULL; }
void stream_drop(struct session *of, struct stream *stream)
{
    (void)of, (void)stream;
    need(references--);
}

CUresult gate_take(struct session *of, struct stream *stream)
{
    (void)of, (void)stream;
    return failing & 1 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult gate_wait(struct session *of, struct stream *stream, uint32_t *ticket)
{
    (void)of;
    *ticket = ++tickets[stream - streams];
    if (failing & 2)
        passed[stream - streams] = *ticket;
    return failing & 2 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

void gate_pass(const struct session *of, struct stream *stream, uint32_t ticket)
{
    (void)of;
    unsigned *open = &passed[stream - streams];
    *open = ticket > *open ? ticket : *open;
}

CUresult inside_wait(struct inside *inside, struct stream *stream, bool look)
{
    (void)inside, (void)stream, (void)look;
    if (!(failing & 4))
        return CUDA_SUCCESS;
    /* The second in one turn: no marker tells when the copy of a SEND is complete. Its buffer is given up, and touching
       it after this is an error. */
    if (++refused == 2)
        link_buffer_give(NULL, newest);
    return CUDA_ERROR_LAUNCH_FAILED;
}

void inside_due(struct inside *inside)
{
    need(dues < CALLS);
    due[dues++] = inside;
}

void completion_wait(struct session *of, struct stream *stream, struct waiter *waiter)
{
    (void)of, (void)stream;
    need(waits < CALLS);
    waiters[waits++] = waiter;
}

struct server_link *link_find(struct session *of, uint32_t id)
{
    (void)of;
    return id < LINKS ? &the_links[id] : NULL;
}

static void transfer_is_over(unsigned which, int status)
{
    struct comm_transfer *t = posted[which];
    volatile uint8_t sum = 0;
    TAKE(posted_on, posts, which);
    posts++;
    TAKE(posted, posts, which);
    for (uint64_t i = 0; i < t->size; i++)
        ((uint8_t *)t->memory)[i] ^= sum; /* what the engine reads, or writes */
    t->status = status;
    t->done(t);
}

void link_abort(struct server_link *link, int status, const char *why)
{
    need(*why);
    broken[link - the_links] = true;
    for (unsigned i = 0; i < posts;)
        if (posted_on[i] == link)
            transfer_is_over(i, status);
        else
            i++;
}

void link_idle(struct server_link *link) { need(link->busy--); }
CUresult links_result(int status) { return status ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS; }

CUresult link_buffer_take(struct links *of, struct context *owner, uint64_t size, bool alone, struct link_buffer **out)
{
    (void)of, (void)owner, (void)alone;
    if (failing & 8)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = calloc(1, sizeof **out);
    need(*out && ((*out)->memory = calloc(1, size)));
    newest = *out;
    buffers++;
    return CUDA_SUCCESS;
}

void link_buffer_give(struct links *of, struct link_buffer *buffer)
{
    (void)of;
    need(buffers--);
    free(buffer->memory);
    free(buffer);
}

/* ---- the engine, and the driver ---- */

static int engine_takes(struct comm_link *link, struct comm_transfer *t)
{
    const unsigned number = (unsigned)((uintptr_t)link - 1);
    if (broken[number])
        return -ECONNRESET;
    need(posts < CALLS);
    posted_on[posts] = &the_links[number];
    posted[posts++] = t;
    return 0;
}

static int engine_status(struct comm_link *link) { return broken[(uintptr_t)link - 1] ? -ECONNRESET : 0; }

static int engine_register(struct comm_engine *engine, const void *memory, uint64_t size)
{
    (void)engine;
    need((const uint8_t *)memory >= device && size <= (uint64_t)(device + SIZE - (const uint8_t *)memory));
    registrations += !(failing & 16);
    return failing & 16 ? -ENOMEM : 0;
}

static int engine_unregister(struct comm_engine *engine, const void *memory, uint64_t size)
{
    (void)engine, (void)memory, (void)size;
    need(registrations--);
    return 0;
}

static const struct links_ways ways = { .send = engine_takes, .receive = engine_takes, .status = engine_status,
                                        .register_memory = engine_register, .unregister_memory = engine_unregister };

static void *host_view(uint64_t address, uint64_t size, bool written)
{
    (void)written;
    need(address >= DEVICE && address - DEVICE <= SIZE && size <= SIZE - (address - DEVICE));
    return device + (address - DEVICE);
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    (void)stream;
    memcpy(to, host_view(from, size, false), size);
    return CUDA_SUCCESS;
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    (void)stream;
    memcpy(host_view(to, size, true), from, size);
    return CUDA_SUCCESS;
}

/* Each row of both sides, with more bits than addresses have. */
static CUresult copy_box_3d(const CUDA_MEMCPY3D *c, CUstream stream)
{
    (void)stream;
    const bool in = c->srcMemoryType == CU_MEMORYTYPE_HOST;
    uint8_t *here = (uint8_t *)(uintptr_t)(in ? c->srcHost : c->dstHost);
    const bool array = (in ? c->dstArray : c->srcArray) != NULL;
    const size_t x = in ? c->dstXInBytes : c->srcXInBytes, y0 = in ? c->dstY : c->srcY, z0 = in ? c->dstZ : c->srcZ;
    const size_t pitch = in ? c->dstPitch : c->srcPitch, height = in ? c->dstHeight : c->srcHeight;
    need(!array || (x + c->WidthInBytes <= ROW && y0 + c->Height <= ROWS && z0 + c->Depth <= SLICES));
    for (size_t z = 0; z < c->Depth; z++)
        for (size_t y = 0; y < c->Height; y++) {
            uint8_t *row = here + (z * c->Height + y) * c->WidthInBytes;
            unsigned __int128 at = (unsigned __int128)z * height * pitch + (unsigned __int128)y * pitch +
                                   (in ? c->dstDevice : c->srcDevice);
            need(array || at <= UINT64_MAX);
            if (array)
                memset(row, row[0], c->WidthInBytes);
            else if (in)
                copy_in((uint64_t)at, row, c->WidthInBytes, NULL);
            else
                copy_out(row, (uint64_t)at, c->WidthInBytes, NULL);
        }
    return failing & 32 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static const struct gpu gpu = { .host_view = host_view, .MemcpyDtoHAsync = copy_out, .MemcpyHtoDAsync = copy_in,
                                .Memcpy3DAsync = copy_box_3d };

/* ---- the script ---- */

static const uint8_t *script;
static size_t left;

static uint8_t byte(void) { return left ? (left--, *script++) : 0; }

static uint64_t bits(unsigned bytes)
{
    uint64_t number = 0;
    while (bytes--)
        number = number << 8 | byte();
    return number;
}

static uint64_t number(void)
{
    switch (byte() % 9) {
    case 0: return bits(1);
    case 1: return bits(2);
    case 2: return bits(4);
    case 3: return bits(8);
    case 4: return DEVICE + bits(2);
    case 5: return DEVICE + SIZE - bits(1);
    case 6: return HOST + bits(2);
    case 7: return FLYT_ARRAY_SPACE + bits(2);
    default: return UINT64_MAX - bits(2);
    }
}

static void one_call(bool sends)
{
    const uint8_t where = byte();
    struct call call = { .xid = calls };
    if (calls == CALLS)
        return;
    send_box_args *args = &call.args.send_box;
    args->stream = where % 3;
    args->link = where / 3 % 3;
    args->box = (flyt_box){ .address = number(), .pitch = number(), .height = number() };
    args->extent = (flyt_extent){ .width = number(), .height = number(), .depth = number() };
    args->transfer = number();
    wants_answer[calls++] = !sends && args->stream < STREAMS;
    sends ? serve_send_box(&session, &call) : serve_receive_box(&session, &call);
}

static void turn(bool drops)
{
    if (!queued)
        return;
    struct waiting first = queue[0];
    TAKE(queue, queued, 0);
    if (drops)
        first.operation->dropped(&session, &first.call, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    else
        need(first.operation->issue(&session, &first.call) == CUDA_SUCCESS);
}

static void marker(unsigned which, bool fails)
{
    struct inside *inside = (struct inside *)waiters[which];
    TAKE(waiters, waits, which);
    inside->waiter.result = fails ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
    inside_due(inside);
}

static void go_on(void)
{
    while (dues) {
        struct inside *first = due[0];
        TAKE(due, dues, 0);
        first->go_on(first);
    }
}

static void step(uint8_t what)
{
    unsigned which;
    failing = refused = 0;
    switch (what % 9) {
    case 0: one_call(true); break;
    case 1: one_call(false); break;
    case 2: failing = byte(); turn(false); break;
    case 3: turn(true); break;
    case 4:
        which = byte();
        if (posts)
            transfer_is_over(which % posts, byte() % 4 ? 0 : -EMSGSIZE);
        break;
    case 5:
        which = byte();
        if (waits)
            marker(which % waits, byte() % 8 == 0);
        break;
    case 6: go_on(); break;
    case 7: link_abort(&the_links[byte() % LINKS], -ECONNRESET, "it fails"); break;
    default: links_release_all(&session, &context); break;
    }
    failing = 0;
}

static void begin(void)
{
    memset(answers, 0, sizeof answers);
    memset(wants_answer, 0, sizeof wants_answer);
    memset(broken, 0, sizeof broken);
    memset(tickets, 0, sizeof tickets);
    memset(passed, 0, sizeof passed);
    calls = 0;
    links = (struct links){ .session = &session, .ways = &ways, .staged = byte() & 1 };
    pthread_mutex_init(&links.lock, NULL);
    pthread_cond_init(&links.changed, NULL);
    session = (struct session){ .gpu = &gpu, .links = &links };
    for (unsigned i = 0; i < LINKS; i++)
        the_links[i] = (struct server_link){ .session = &session, .id = i,
                                             .link = (struct comm_link *)(uintptr_t)(i + 1) };
    for (unsigned i = 0; i < STREAMS; i++)
        streams[i] = (struct stream){ .id = i, .context = &context };
}

static void end(void)
{
    while (queued || posts || waits || dues) {
        turn(false);
        if (posts)
            transfer_is_over(0, 0);
        if (waits)
            marker(0, false);
        go_on();
    }
    need(!list_first(&links.transfers) && !registrations && !buffers && !references);
    for (unsigned i = 0; i < LINKS; i++)
        need(!the_links[i].busy);
    for (unsigned i = 0; i < STREAMS; i++)
        need(passed[i] == tickets[i]);
    for (unsigned i = 0; i < calls; i++)
        need(!wants_answer[i] || answers[i] == 1);
    pthread_cond_destroy(&links.changed);
    pthread_mutex_destroy(&links.lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    script = bytes;
    left = size;
    begin();
    while (left)
        step(byte());
    end();
    return 0;
}
