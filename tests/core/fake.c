/*
 * fake.c: see fake.h. One thread reads; every call is put into the queue of its stream, and `fake_advance`
 * (fake_device.c) runs what can run after each arrival. All under one lock.
 */
#include "cpu/common/clock.h"
#include "fake_device.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/client/core/core.h"
#include "cpu/rpc/credit.h"
#include "isolated.h"

enum { GRANULARITY = 2 << 20 };

#define WINDOW_SIZE (UINT64_C(1) << 36)
#ifdef __SANITIZE_THREAD__
#define WINDOW UINT64_C(0x4000000000)           /* ThreadSanitizer allows the program few ranges */
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define WINDOW UINT64_C(0x4000000000)
#endif
#endif
#ifndef WINDOW
#define WINDOW UINT64_C(0x300000000000)
#endif

struct fake_options fake_options;
_Atomic uint64_t fake_calls[256];
_Atomic uint64_t fake_told;
_Atomic uint64_t fake_mapped[8], fake_idle;
_Atomic unsigned fake_recalled;

struct fake fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- calls ---- */

static void enqueue(flyt_id stream, struct fake_op *op)
{
    struct fake_queue *q = &fake.queues[stream];
    if (!q->last)
        q->last = &q->first;
    *q->last = op;
    q->last = &op->next;
}

static bool_t arguments(rpc_request *r, xdrproc_t proc, void *args)
{
    if (rpc_request_arguments(r, proc, args) == 0)
        return TRUE;
    fprintf(stderr, "fake: undecodable arguments of procedure %u\n", rpc_request_procedure(r));
    _exit(98);
}

static void pieces_make(flyt_id context, uint64_t address, uint64_t size, uint64_t piece)
{
    for (uint64_t at = 0; at < size; at += piece) {
        struct fake_piece *p = malloc(sizeof *p);
        *p = (struct fake_piece){ address + at, piece, context, calloc(1, piece), fake.pieces };
        fake.pieces = p;
    }
    fake_mapped[fake.context_device[context]] += size;
}

/* As the real server does it. */
static flyt_wish grant(const flyt_wish *wish, const flyt_device *device)
{
    uint64_t piece = credit_piece(GRANULARITY, device->total_memory);
    uint64_t size = (credit_ahead(wish->credit, device->total_memory) + piece - 1) / piece * piece;
    if (!fake_options.grants || !wish->context)
        return (flyt_wish){ 0 };
    fake.context_device[0] = 0;
    fake.queues[0].context = 0;
    pieces_make(0, fake.window, size, piece);
    return (flyt_wish){ 1, size };
}

static void hello(rpc_request *r)
{
    hello_args args = { 0 };
    arguments(r, (xdrproc_t)xdr_hello_args, &args);
    fake_told = args.capabilities;
    flyt_device devices[8];
    static flyt_attribute attributes[] = { { 1, 1024 },  { 2, 1024 },  { 3, 1024 },  { 4, 64 }, { 5, 2147483647 },
                                           { 6, 65535 }, { 7, 65535 }, { 8, 49152 }, { 16, 4 }, { 19, 1 },
                                           { 75, 13 },   { 76, 0 },    { 95, 1 } };
    static char bus[8][32], name[8][32];
    int count = fake_options.devices ? fake_options.devices : 2;
    memset(devices, 0, sizeof devices);
    for (int i = 0; i < count; i++) {
        snprintf(bus[i], sizeof bus[i], "0000:0%d:00.0", 9 - i);
        snprintf(name[i], sizeof name[i], fake_options.software ? "Flyt software GPU %d" : "Fake %d", i);
        memset(devices[i].uuid, 0x11 * (i + 1), sizeof devices[i].uuid);
        devices[i].name = name[i];
        devices[i].pci_bus_id = bus[i];
        devices[i].total_memory = 1 << 30;
        devices[i].priority_greatest = -5;
        devices[i].attributes.attributes_val = attributes;
        devices[i].attributes.attributes_len = sizeof attributes / sizeof attributes[0];
    }
    fake.window = WINDOW;
    void *taken = NULL;
    if (fake_options.bad_windows)
        taken = mmap((void *)fake.window, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    (void)taken;
    FAKE_REPLY(hello_result, rpc_request_xid(r),
               fake_options.refusal ? 999
               : fake_options.major ? 803
                                    : 0,
               .major = fake_options.major ? fake_options.major : FLYT_PROTOCOL_MAJOR, .minor = 0, .server = "fake",
               .refusal = (char *)(fake_options.refusal ? fake_options.refusal : ""), .driver_version = 13000,
               .capabilities = (fake_options.room ? FLYT_CAP_ROOM : 0) | (fake.life ? FLYT_CAP_MOVES : 0),
               .window = fake.window, .window_size = WINDOW_SIZE, .granularity = GRANULARITY,
               .granted = grant(&args.wish, devices), .devices = { (u_int)count, devices });
    if (fake_options.refusal || fake_options.major)
        rpc_server_shutdown(fake.server);
    xdr_free((xdrproc_t)xdr_hello_args, &args);
}

static void window_take(rpc_request *r)
{
    window_take_args a;
    arguments(r, (xdrproc_t)xdr_window_take_args, &a);
    fake.window = a.window;
    FAKE_REPLY(window_result, rpc_request_xid(r), 0, .window = a.window);
}

static void map(rpc_request *r)
{
    map_args a;
    arguments(r, (xdrproc_t)xdr_map_args, &a);
    uint64_t limit = fake_options.memory ? fake_options.memory : UINT64_C(1) << 30;
    bool aligned = a.address % GRANULARITY == 0 && a.size && a.piece && a.piece % GRANULARITY == 0 &&
                   a.size % a.piece == 0 && a.least % a.piece == 0 && a.least <= a.size;
    if (fake_mapped[fake.context_device[a.context]] + a.size > limit)
        a.size = a.least;
    for (struct fake_piece *p = fake.pieces; p; p = p->next)
        if (a.address < p->address + p->size && p->address < a.address + a.size)
            aligned = false;
    int result = fake.context_refused[a.context] ? 201 : !aligned ? 1
                 : fake_mapped[fake.context_device[a.context]] + a.size > limit ? 2 : 0;
    if (!result)
        pieces_make(a.context, a.address, a.size, a.piece);
    FAKE_REPLY(map_result, rpc_request_xid(r), result, .size = a.size);
}

static void unmap(rpc_request *r)
{
    unmap_args a;
    arguments(r, (xdrproc_t)xdr_unmap_args, &a);
    uint64_t found = 0;
    for (struct fake_piece **at = &fake.pieces; *at;) {
        struct fake_piece *p = *at;
        if (p->address < a.address || p->address + p->size > a.address + a.size || p->context != a.context) {
            at = &p->next;
            continue;
        }
        found += p->size;
        fake_mapped[fake.context_device[a.context]] -= p->size;
        *at = p->next;
        free(p->bytes);
        free(p);
    }
    if (found == a.size)
        return;
    fprintf(stderr, "fake: UNMAP of what no MAP made\n");
    _exit(98);
}

static void recall(uint64_t bytes)
{
    static unsigned number;
    fake.due[fake.due_count++] =
        (flyt_event){ .kind = FLYT_EVENT_RECALL, .flyt_event_u.recall = { ++number, bytes } };
}

static void recalled(rpc_request *r)
{
    recalled_args a;
    arguments(r, (xdrproc_t)xdr_recalled_args, &a);
    fake_idle = a.idle;
    fake_recalled = a.number;
    if (fake.ending)
        FAKE_REPLY(plain_result, fake.ending, 0);
    fake.ending = 0;
}

static void module_load(rpc_request *r)
{
    module_load_args a = { 0 };
    arguments(r, (xdrproc_t)xdr_module_load_args, &a);
    flyt_symbol symbols[16];
    for (unsigned i = 0; i < a.symbols.symbols_len && i < 16; i++) {
        const char *name = a.symbols.symbols_val[i];
        symbols[i] = (flyt_symbol){ .result = 500 };
        if (strcmp(name, "missing") != 0)
            symbols[i] = (flyt_symbol){ .address = UINT64_C(0x700000000000) + 4096u * (unsigned)name[0] +
                                                   ((uint64_t)a.context << 32),
                                        .size = 64 };
    }
    int result = fake.context_refused[a.context] ? 201 : fake.image_lacks ? 200 : fake_options.refuses_modules;
    fake.no_module = result != 0;
    FAKE_REPLY(module_load_result, rpc_request_xid(r), result,
               .symbols = { result ? 0 : a.symbols.symbols_len, symbols });
    xdr_free((xdrproc_t)xdr_module_load_args, &a);
}

static void function_get(rpc_request *r)
{
    function_get_args a = { 0 };
    arguments(r, (xdrproc_t)xdr_function_get_args, &a);
    static flyt_param params[] = { { 0, 8 }, { 8, 4 }, { 12, 4 } };
    flyt_attribute attributes[] = { { 0, 512 }, { 8, 16384 } };
    int kind = strcmp(a.name, "fill") == 0 ? 1 : strcmp(a.name, "hold") == 0 ? 2 : strcmp(a.name, "fault") == 0 ? 3 : 0;
    fake.functions[a.function].kind = kind;
    FAKE_REPLY(function_get_result, rpc_request_xid(r),
               fake.no_module ? 400
               : kind         ? 0
                              : 500,
               .attributes = { 2, attributes }, .params = { kind == 1 ? 3 : 0, params },
               .log = { kind ? 0 : 12, (char *)"no such name" });
    xdr_free((xdrproc_t)xdr_function_get_args, &a);
}

static void events(rpc_request *r)
{
    events_args a = { 0 };
    arguments(r, (xdrproc_t)xdr_events_args, &a);
    for (unsigned i = 0; i < a.host_functions_done.host_functions_done_len; i++)
        fake_host_done(a.host_functions_done.host_functions_done_val[i]);
    fake.events_xid[fake.events_waiting++] = rpc_request_xid(r);
    xdr_free((xdrproc_t)xdr_events_args, &a);
}

static void query(rpc_request *r, bool event)
{
    bool done;
    if (event) {
        event_args a;
        arguments(r, (xdrproc_t)xdr_event_args, &a);
        done = fake_event_done(a.event);
    } else {
        stream_args a;
        arguments(r, (xdrproc_t)xdr_stream_args, &a);
        done = !fake.queues[a.stream].first;
    }
    FAKE_REPLY(plain_result, rpc_request_xid(r), done ? 0 : 600);
}

static void make_context(rpc_request *r)
{
    int device;
    flyt_id context;
    if (rpc_request_procedure(r) == FLYT_CONTEXT_RETAIN) {
        context_retain_args a;
        arguments(r, (xdrproc_t)xdr_context_retain_args, &a);
        context = a.context;
        device = a.device;
    } else {
        context_create_args a;
        arguments(r, (xdrproc_t)xdr_context_create_args, &a);
        context = a.context;
        device = a.device;
    }
    if (context >= FLYT_MAX_CONTEXTS || device < 0 || device >= 8)
        _exit(98);
    fake.context_device[context] = device;
    fake.context_refused[context] = fake_options.refuses_contexts > 0;
    fake_options.refuses_contexts -= fake.context_refused[context];
    fake.queues[context].context = context;
    FAKE_REPLY(plain_result, rpc_request_xid(r), fake.context_refused[context] ? 2 : 0);
}

static void end_context(rpc_request *r)
{
    context_args a;
    arguments(r, (xdrproc_t)xdr_context_args, &a);
    if (fake.context_refused[a.context]) {
        fprintf(stderr, "fake: the end of a context that was refused\n");
        _exit(98);
    }
    for (struct fake_piece **at = &fake.pieces; *at;) {
        struct fake_piece *p = *at;
        if (p->context != a.context) {
            at = &p->next;
            continue;
        }
        fake_mapped[fake.context_device[a.context]] -= p->size;
        *at = p->next;
        free(p->bytes);
        free(p);
    }
    if (fake_options.recalls_at_end) {
        fake.ending = rpc_request_xid(r);
        recall(UINT64_MAX);
    } else {
        FAKE_REPLY(plain_result, rpc_request_xid(r), 0);
    }
}

static const struct {
    uint32_t procedure;
    xdrproc_t args;
} queued[] = {
    { FLYT_COPY_IN, (xdrproc_t)xdr_copy_in_args },
    { FLYT_COPY_OUT, (xdrproc_t)xdr_copy_out_args },
    { FLYT_COPY, (xdrproc_t)xdr_copy_args },
    { FLYT_COPY_BOX_IN, (xdrproc_t)xdr_copy_box_in_args },
    { FLYT_COPY_BOX_OUT, (xdrproc_t)xdr_copy_box_out_args },
    { FLYT_COPY_BOX, (xdrproc_t)xdr_copy_box_args },
    { FLYT_SET, (xdrproc_t)xdr_set_args },
    { FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args },
    { FLYT_STREAM_WAIT, (xdrproc_t)xdr_event_wait_args },
    { FLYT_EVENT_RECORD, (xdrproc_t)xdr_event_record_args },
    { FLYT_HOST_FUNCTION, (xdrproc_t)xdr_host_function_args },
    { FLYT_LAUNCH, (xdrproc_t)xdr_launch_args },
    { FLYT_PREFETCH, (xdrproc_t)xdr_prefetch_args },
    { FLYT_VALUES, (xdrproc_t)xdr_values_args },
    { FLYT_STREAM_EXTENT, (xdrproc_t)xdr_stream_extent_args },
    { FLYT_CONDITION, (xdrproc_t)xdr_condition_args },
    { FLYT_GRAPH_END, (xdrproc_t)xdr_graph_end_args },
};

static bool enqueue_call(rpc_request *r)
{
    for (unsigned i = 0; i < sizeof queued / sizeof queued[0]; i++) {
        if (queued[i].procedure != rpc_request_procedure(r))
            continue;
        struct fake_op *op = calloc(1, sizeof *op);
        op->procedure = rpc_request_procedure(r);
        op->xid = rpc_request_xid(r);
        op->free_args = queued[i].args;
        arguments(r, queued[i].args, &op->a);
        /* The stream is the first member of all of them but two. */
        flyt_id stream = op->procedure == FLYT_LAUNCH ? op->a.launch.stream
                         : op->procedure == FLYT_EVENT_RECORD ? op->a.record.stream : op->a.stream.stream;
        if (stream >= FAKE_STREAMS)
            _exit(98);
        if (op->procedure != FLYT_STREAM_SYNC)
            fake.counted[stream]++;
        if (op->procedure == FLYT_EVENT_RECORD)
            fake.events[op->a.record.event] = (struct fake_event){ stream, fake.counted[stream] };
        enqueue(stream, op);
        return true;
    }
    return false;
}

static void wait_later(rpc_request *r, struct fake_op **list, xdrproc_t args)
{
    struct fake_op *op = calloc(1, sizeof *op);
    op->xid = rpc_request_xid(r);
    arguments(r, args, &op->a);
    op->next = *list;
    *list = op;
}

static void call(rpc_request *r)
{
    uint32_t xid = rpc_request_xid(r);
    if (enqueue_call(r))
        return;
    switch (rpc_request_procedure(r)) {
    case FLYT_HELLO:
        hello(r);
        break;
    case FLYT_WINDOW:
        if (fake_options.no_windows) {
            FAKE_REPLY(window_result, xid, 2, .window = fake.window);
            break;
        }
        if (++fake.offers >= fake_options.bad_windows)
            fake.window += WINDOW_SIZE;
        FAKE_REPLY(window_result, xid, 0, .window = fake.window);
        break;
    case FLYT_WINDOW_TAKE:
        window_take(r);
        break;
    case FLYT_EVENTS:
        events(r);
        break;
    case FLYT_CONTEXT_SYNC:
        wait_later(r, &fake.context_syncs, (xdrproc_t)xdr_context_args);
        break;
    case FLYT_EVENT_SYNC:
        wait_later(r, &fake.event_syncs, (xdrproc_t)xdr_event_args);
        break;
    case FLYT_STREAM_QUERY:
        query(r, false);
        break;
    case FLYT_EVENT_QUERY:
        query(r, true);
        break;
    case FLYT_STREAM_CREATE: {
        stream_create_args a;
        arguments(r, (xdrproc_t)xdr_stream_create_args, &a);
        fake.queues[a.stream].context = a.context;
        fake.queues[a.stream].done = fake.counted[a.stream] = 0;
        for (int i = 0; i < FAKE_STREAMS; i++)           /* of the stream that had the id: it has ended */
            if (fake.events[i].stream == a.stream)
                fake.events[i].number = 0;
        break;
    }
    case FLYT_EVENT_ELAPSED_TIME:
        FAKE_REPLY(event_elapsed_time_result, xid, 0, .pMilliseconds = 1.5f);
        break;
    case FLYT_MAP:
        map(r);
        break;
    case FLYT_UNMAP:
        unmap(r);
        break;
    case FLYT_RECALLED:
        recalled(r);
        break;
    case FLYT_MEMORY_INFO:
        FAKE_REPLY(memory_info_result, xid, 0, .free = (UINT64_C(1) << 30) - fake_mapped[0],
                   .total = UINT64_C(1) << 30);
        break;
    case FLYT_CONTEXT_RETAIN:
    case FLYT_CONTEXT_CREATE:
        make_context(r);
        break;
    case FLYT_CONTEXT_RELEASE:
    case FLYT_CONTEXT_RESET:
    case FLYT_CONTEXT_DESTROY:
        end_context(r);
        break;
    case FLYT_IMAGE:
        fake.image_lacks = fake_options.lacks_images || fake_calls[FLYT_IMAGE] == 1;
        FAKE_REPLY(image_result, xid, 0, .present = !fake.image_lacks);
        break;
    case FLYT_IMAGE_DATA: fake.image_lacks = false; break;
    case FLYT_MODULE_LOAD:
        module_load(r);
        break;
    case FLYT_FUNCTION_GET:
        function_get(r);
        break;
    case FLYT_FUNC_SET_ATTRIBUTE:
        FAKE_REPLY(plain_result, xid, 0);
        break;
    case FLYT_OCCUPANCY_MAX_ACTIVE_BLOCKS_PER_MULTIPROCESSOR_WITH_FLAGS:
        FAKE_REPLY(occupancy_max_active_blocks_per_multiprocessor_with_flags_result, xid, 0, .numBlocks = 2);
        break;
    default:                          /* ASYNC ones that need nothing done */
        break;
    }
}

static bool_t xdr_nothing(XDR *xdrs, void *value)
{
    (void)xdrs;
    (void)value;
    return TRUE;
}

/* In the child of a fork, what other threads held has no owner. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return core_forked();
}

static void queue_clear(struct fake_queue *queue)
{
    for (struct fake_op *next, *op = queue->first; op; op = next) {
        next = op->next;
        xdr_free(op->free_args, &op->a);
        free(op);
    }
    *queue = (struct fake_queue){ 0 };
}

/* Nothing of what it was told is left. */
static void begin_anew(void)
{
    pthread_mutex_lock(&fake.lock);
    rpc_server_destroy(fake.server);
    fake.server = NULL;
    for (unsigned i = 0; i < FAKE_STREAMS; i++) {
        queue_clear(&fake.queues[i]);
        fake.counted[i] = 0;
    }
    for (struct fake_piece *next, *p = fake.pieces; p; p = next) {
        next = p->next;
        free(p->bytes);
        free(p);
    }
    fake.pieces = NULL;
    memset((void *)fake_mapped, 0, sizeof fake_mapped);
    fake.sticky = fake.latched = 0;
    fake.beats = false;
    fake.events_waiting = fake.due_count = fake.serial = 0;
    fake.text[0] = 0;
    if (--fake.life == 1 && fake_options.last.due)
        fake.due[fake.due_count++] =
            (flyt_event){ .kind = FLYT_EVENT_HOST_FUNCTION, .flyt_event_u.due = { UINT32_MAX - 7, 0 } };
    pthread_mutex_unlock(&fake.lock);
}

static void serve_one(void)
{
    char error[RPC_ERROR_SIZE];
    int fd;
    for (unsigned cuts = fake_options.cuts; (fd = rpc_listener_accept(fake.listener)) < 0 || cuts;)
        if (fd < 0)
            usleep(1000);
        else
            cuts -= close(fd) == 0;
    rpc_channel *channel;
    int status =
        fake_options.shared ? rpc_channel_accept(fd, 0, &channel, error) : rpc_channel_from_fd(fd, &channel, error);
    if (status || rpc_server_create(channel, &rpc_flyt_program, &fake.server, error))
        _exit(98);
    for (;;) {
        rpc_request *r = NULL;
        if (rpc_server_next(fake.server, 20, &r, error))
            return;
        pthread_mutex_lock(&fake.lock);
        if (r) {
            uint32_t p = rpc_request_procedure(r);
            fake_calls[p < 256 ? p : 255]++;
            if (fake.life == 1 && p && p == fake_options.last.latched_at)
                fake.latched = 1;
            if (p == fake_options.close_at && p)
                rpc_server_shutdown(fake.server);
            else if (fake.life == 1 && p && p == fake_options.last.mute_at)
                fake.beats = true;
            else if (fake_options.garbage_at && p == fake_options.garbage_at)
                rpc_server_reply(fake.server, rpc_request_xid(r), (xdrproc_t)xdr_nothing, NULL);
            else if (!(fake_options.silent || (fake_options.silent_from && p == fake_options.silent_from)))
                call(r);
            else
                fake_options.silent = true;
            rpc_request_free(r);
        }
        if (fake.beats)
            rpc_server_beat(fake.server, CLOCK_NS_PER_SECOND / 10);
        if (!fake_options.silent)
            fake_advance();
        pthread_mutex_unlock(&fake.lock);
    }
}

static void *serve(void *unused)
{
    (void)unused;
    fake.life = fake_options.lives ? fake_options.lives + 1 : 0;
    for (serve_one(); fake.life > 1; serve_one())
        begin_anew();
    return NULL;
}

/* ---- the test's side ---- */

void fake_start(void)
{
    char uri[128], error[RPC_ERROR_SIZE];
    snprintf(uri, sizeof uri, "unix://%s/server.sock", getenv("TEST_FOLDER"));
    int status = rpc_listener_open(uri, &fake.listener, error);
    if (status) {
        fprintf(stderr, "fake: %s\n", error);
        _exit(98);
    }
    setenv("FLYT_SERVER", uri, 1);
    pthread_t thread;
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    pthread_create(&thread, NULL, serve, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_detach(thread);
}

bool fake_peek(uint64_t address, void *to, uint64_t size)
{
    pthread_mutex_lock(&fake.lock);
    bool good = fake_memory_copy(address, to, size, false);
    pthread_mutex_unlock(&fake.lock);
    return good;
}

void fake_publish(uint32_t stream, uint64_t done)
{
    struct rpc_shared_memory shared;
    if (!rpc_server_shared_memory(fake.server, &shared) || stream >= shared.number_count)
        isolated_failed("numbers can be published", __FILE__, __LINE__);
    atomic_store_explicit(&shared.numbers[stream], done, memory_order_release);
}

void fake_release(void)
{
    pthread_mutex_lock(&fake.lock);
    fake.release = true;
    pthread_mutex_unlock(&fake.lock);
}

void fake_cut(void)
{
    pthread_mutex_lock(&fake.lock);
    rpc_server_shutdown(fake.server);
    pthread_mutex_unlock(&fake.lock);
}

static void event_add(flyt_event event)
{
    pthread_mutex_lock(&fake.lock);
    fake.due[fake.due_count++] = event;
    pthread_mutex_unlock(&fake.lock);
}

void fake_recall(uint64_t bytes)
{
    pthread_mutex_lock(&fake.lock);
    recall(bytes);
    pthread_mutex_unlock(&fake.lock);
}

void fake_say(const char *text)
{
    event_add((flyt_event){ .kind = FLYT_EVENT_TEXT,
                            .flyt_event_u.text = { .fd = 1, .bytes = { (u_int)strlen(text), (char *)text } } });
}

void fake_latch(int code)
{
    pthread_mutex_lock(&fake.lock);
    fake.latched = code;
    pthread_mutex_unlock(&fake.lock);
}
