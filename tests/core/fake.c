/*
 * fake.c: see fake.h. One thread reads; every call is put into the queue of its stream, and `advance` runs what can
 * run after each arrival. All under one lock.
 */
#include "fake.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/client/core/core.h"
#include "cpu/rpc/rpc.h"
#include "cpu/rpc/cpu_rpc_prot.h"

enum { STREAMS = 4096, GRANULARITY = 2 << 20 };

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

/* libtirpc throws the padding of opaque data into one static byte per process, from all threads; nobody reads it. Over memory
   that is mapped twice (fake_options.shared) ThreadSanitizer sees no order between the test's thread and this server's. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:libtirpc.so\n";
}

struct fake_options fake_options;
_Atomic uint64_t fake_calls[128];
_Atomic uint64_t fake_mapped[8], fake_idle;
_Atomic unsigned fake_recalled;

struct op {
    uint32_t   procedure, xid;
    union {
        copy_in_args in; copy_out_args out; copy_args copy; copy_box_in_args box_in; copy_box_out_args box_out;
        copy_box_args box; set_args set; stream_args stream; event_record_args record; event_wait_args wait;
        host_function_args host; launch_args launch; event_args event; device_args device;
    } a;
    xdrproc_t  free_args;
    bool       announced;
    struct op *next;
};

struct queue { struct op *first, **last; uint64_t done; bool changed; int device; };
struct piece { uint64_t address, size; int device; uint8_t *bytes; struct piece *next; };
struct event { flyt_id stream; uint64_t number; };

static struct {
    pthread_mutex_t lock;
    rpc_listener *listener;
    rpc_server   *server;
    struct queue  queues[STREAMS];
    struct op    *device_syncs;
    struct op    *event_syncs;
    struct event  events[STREAMS];
    struct { int kind; } functions[STREAMS];
    uint64_t      counted[STREAMS];
    struct piece *pieces;
    bool          release;
    int           sticky, latched;
    char          text[4096];
    uint32_t      events_xid[4];
    unsigned      events_waiting;
    flyt_event    due[FLYT_MAX_EVENTS];
    unsigned      due_count, serial;
    int           offers;
    uint64_t      window;
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

void fake_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
    fflush(NULL);
    _exit(99);
}

/* ---- device memory ---- */

static uint8_t *memory_at(uint64_t address, uint64_t size)
{
    for (struct piece *p = fake.pieces; p; p = p->next)
        if (address >= p->address && address - p->address < p->size) {
            if (size <= p->size - (address - p->address))
                return p->bytes + (address - p->address);
            break;
        }
    return NULL;
}

/* Byte by byte where it crosses pieces. */
static bool memory_copy(uint64_t address, void *host, uint64_t size, bool to_device)
{
    for (uint64_t at = 0; at < size;) {
        uint64_t part = size - at;
        uint8_t *memory;
        while (!(memory = memory_at(address + at, part)) && part > 1)
            part /= 2;
        if (!memory)
            return false;
        if (to_device)
            memcpy(memory, (uint8_t *)host + at, part);
        else
            memcpy((uint8_t *)host + at, memory, part);
        at += part;
    }
    return true;
}

bool fake_peek(uint64_t address, void *to, uint64_t size)
{
    pthread_mutex_lock(&fake.lock);
    bool good = memory_copy(address, to, size, false);
    pthread_mutex_unlock(&fake.lock);
    return good;
}

/* ---- replies ---- */

static void fill_head(flyt_head *head, int result, flyt_progress *progress, flyt_text *text)
{
    head->result = fake.sticky && !result ? fake.sticky : result;
    head->sticky = fake.sticky;
    head->latched = fake.latched;
    fake.latched = 0;
    unsigned count = 0;
    for (unsigned i = 0; i < STREAMS && count < FLYT_MAX_PROGRESS; i++)
        if (fake.queues[i].changed) {
            progress[count++] = (flyt_progress){ .stream = i, .done = fake.queues[i].done };
            fake.queues[i].changed = false;
        }
    head->progress.progress_val = progress;
    head->progress.progress_len = count;
    if (fake.text[0]) {
        *text = (flyt_text){ .fd = 1, .bytes = { (u_int)strlen(fake.text), fake.text } };
        head->printed.printed_val = text;
        head->printed.printed_len = 1;
    }
}

#define REPLY(type, xid_, result_, ...) do { \
        flyt_progress progress_[FLYT_MAX_PROGRESS]; flyt_text text_; \
        type reply_ = { __VA_ARGS__ }; \
        fill_head(&reply_.head, result_, progress_, &text_); \
        rpc_server_reply(fake.server, xid_, (xdrproc_t)xdr_##type, &reply_); \
        if (reply_.head.printed.printed_len) fake.text[0] = 0; \
    } while (0)

static void answer_events(void)
{
    unsigned answer = fake.events_waiting > 1 || (fake.events_waiting && fake.due_count);
    while (answer) {
        uint32_t xid = fake.events_xid[0];
        memmove(fake.events_xid, fake.events_xid + 1, sizeof fake.events_xid - sizeof fake.events_xid[0]);
        fake.events_waiting--;
        REPLY(events_result, xid, 0, .serial = ++fake.serial, .events = { fake.due_count, fake.due });
        fake.due_count = 0;
        answer = fake.events_waiting > 1;
    }
}

/* ---- running ---- */

static uint64_t box_at(const flyt_box *b, uint64_t z, uint64_t y)
{
    return b->address + (z * b->height + y) * b->pitch;
}

static bool run_box(const flyt_box *box, const flyt_extent *e, uint8_t *host, bool to_device)
{
    for (uint64_t z = 0; z < e->depth; z++)
        for (uint64_t y = 0; y < e->height; y++, host += e->width)
            if (!memory_copy(box_at(box, z, y), host, e->width, to_device))
                return false;
    return true;
}

static bool run_copy(uint64_t to, uint64_t from, uint64_t size)
{
    uint8_t *bytes = malloc(size + 1);
    bool good = memory_copy(from, bytes, size, false) && memory_copy(to, bytes, size, true);
    free(bytes);
    return good;
}

static bool run_set(const set_args *a)
{
    for (uint64_t z = 0; z < a->extent.depth; z++)
        for (uint64_t y = 0; y < a->extent.height; y++)
            for (uint64_t x = 0; x < a->extent.width; x++)
                if (!memory_copy(box_at(&a->to, z, y) + x * a->element, (void *)&a->value, a->element, true))
                    return false;
    return true;
}

static void run_out(struct op *op, uint64_t size, bool box)
{
    char *bytes = malloc(size + 1);
    bool good = box ? run_box(&op->a.box_out.from, &op->a.box_out.extent, (uint8_t *)bytes, false)
                    : memory_copy(op->a.out.from, bytes, size, false);
    bool failed = !good || fake.sticky;
    REPLY(copy_out_result, op->xid, good ? 0 : 1,
          .data = { .kind = FLYT_BULK_INLINE, .flyt_bulk_u.bytes = { failed ? 0 : (u_int)size, failed ? NULL : bytes } });
    free(bytes);
}

static bool run_launch(const launch_args *a)
{
    struct { uint64_t address; uint32_t count, value; } p;
    switch (fake.functions[a->function].kind) {
    case 2:
        return fake.release;
    case 3:
        fake.sticky = 700;
        return true;
    default:
        memcpy(&p, a->params.params_val, sizeof p);
        for (uint32_t i = 0; i < p.count; i++)
            if (!memory_copy(p.address + 4 * i, &p.value, 4, true))
                fake.sticky = 700;
        if (fake_options.print)
            strncat(fake.text, fake_options.print, sizeof fake.text - strlen(fake.text) - 1);
        return true;
    }
}

static bool event_done(flyt_id id)
{
    struct event *e = &fake.events[id];
    return fake.queues[e->stream].done >= e->number;
}

/* Runs the op; false: it cannot end yet. *counted: it is numbered. */
static bool run(struct op *op, bool *counted)
{
    bool good = true;
    *counted = true;
    switch (op->procedure) {
    case FLYT_COPY_IN:
        good = memory_copy(op->a.in.to, op->a.in.data.flyt_bulk_u.bytes.bytes_val, op->a.in.data.flyt_bulk_u.bytes.bytes_len, true);
        break;
    case FLYT_COPY_BOX_IN:
        good = op->a.box_in.data.flyt_bulk_u.bytes.bytes_len == op->a.box_in.extent.width * op->a.box_in.extent.height * op->a.box_in.extent.depth
               && run_box(&op->a.box_in.to, &op->a.box_in.extent, (uint8_t *)op->a.box_in.data.flyt_bulk_u.bytes.bytes_val, true);
        break;
    case FLYT_COPY:
        good = run_copy(op->a.copy.to, op->a.copy.from, op->a.copy.size);
        break;
    case FLYT_COPY_BOX:
        for (uint64_t z = 0; z < op->a.box.extent.depth && good; z++)
            for (uint64_t y = 0; y < op->a.box.extent.height && good; y++)
                good = run_copy(box_at(&op->a.box.to, z, y), box_at(&op->a.box.from, z, y), op->a.box.extent.width);
        break;
    case FLYT_SET:
        good = run_set(&op->a.set);
        break;
    case FLYT_COPY_OUT:
        run_out(op, op->a.out.size, false);
        break;
    case FLYT_COPY_BOX_OUT:
        run_out(op, op->a.box_out.extent.width * op->a.box_out.extent.height * op->a.box_out.extent.depth, true);
        break;
    case FLYT_LAUNCH:
        return run_launch(&op->a.launch);
    case FLYT_STREAM_WAIT:
        return event_done(op->a.wait.event);
    case FLYT_HOST_FUNCTION:
        if (!op->announced)
            fake.due[fake.due_count++] = (flyt_event){ .kind = FLYT_EVENT_HOST_FUNCTION,
                                                       .flyt_event_u.due = { op->a.host.id, fake.sticky } };
        op->announced = true;
        return false;                 /* ended by host_done */
    case FLYT_STREAM_SYNC:
        REPLY(plain_result, op->xid, 0);
        *counted = false;
        break;
    case FLYT_EVENT_RECORD:
    default:
        break;
    }
    if (!good && !fake.latched)
        fake.latched = 1;
    return true;
}

static void pop(struct queue *q, bool counted)
{
    struct op *op = q->first;
    q->first = op->next;
    if (!q->first)
        q->last = &q->first;
    q->done += counted;
    q->changed = true;
    xdr_free(op->free_args, &op->a);
    free(op);
}

static bool all_empty(int device)
{
    for (unsigned i = 0; i < STREAMS; i++)
        if (fake.queues[i].first && fake.queues[i].device == device)
            return false;
    return true;
}

/* Streams run independently; the legacy stream waits for nobody here. */
static void advance(void)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (unsigned i = 0; i < STREAMS; i++) {
            bool counted;
            while (fake.queues[i].first && run(fake.queues[i].first, &counted)) {
                pop(&fake.queues[i], counted);
                moved = true;
            }
        }
    }
    for (struct op **at = &fake.device_syncs, *op; (op = *at);) {
        if (!all_empty(op->a.device.device)) {
            at = &op->next;
            continue;
        }
        REPLY(plain_result, op->xid, 0);
        *at = op->next;
        free(op);
    }
    for (struct op **at = &fake.event_syncs, *op; (op = *at);) {
        if (!event_done(op->a.event.event)) {
            at = &op->next;
            continue;
        }
        REPLY(plain_result, op->xid, 0);
        *at = op->next;
        free(op);
    }
    answer_events();
}

static void host_done(flyt_id id)
{
    for (unsigned i = 0; i < STREAMS; i++) {
        struct op *op = fake.queues[i].first;
        if (op && op->procedure == FLYT_HOST_FUNCTION && op->announced && op->a.host.id == id) {
            pop(&fake.queues[i], true);
            return;
        }
    }
    fprintf(stderr, "fake: host function %u ended, but was not running\n", id);
    _exit(98);
}

/* ---- calls ---- */

static void enqueue(flyt_id stream, struct op *op)
{
    struct queue *q = &fake.queues[stream];
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

static void hello(rpc_request *r)
{
    hello_args args = { 0 };
    arguments(r, (xdrproc_t)xdr_hello_args, &args);
    flyt_device devices[8];
    static flyt_attribute attributes[] = { { 1, 1024 }, { 2, 1024 }, { 3, 1024 }, { 4, 64 }, { 5, 2147483647 }, { 6, 65535 },
                                           { 7, 65535 }, { 8, 49152 }, { 16, 4 }, { 19, 1 }, { 95, 1 } };
    static char bus[8][32], name[8][32];
    int count = fake_options.devices ? fake_options.devices : 2;
    memset(devices, 0, sizeof devices);
    for (int i = 0; i < count; i++) {
        snprintf(bus[i], sizeof bus[i], "0000:0%d:00.0", 9 - i);
        snprintf(name[i], sizeof name[i], "Fake %d", i);
        memset(devices[i].uuid, 0x11 * (i + 1), sizeof devices[i].uuid);
        devices[i].name = name[i];
        devices[i].pci_bus_id = bus[i];
        devices[i].total_memory = 1 << 30;
        devices[i].priority_greatest = -5;
        devices[i].attributes.attributes_val = attributes;
        devices[i].attributes.attributes_len = sizeof attributes / sizeof attributes[0];
        fake.queues[i].device = i;
    }
    fake.window = WINDOW;
    void *taken = NULL;
    if (fake_options.bad_windows)
        taken = mmap((void *)fake.window, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    (void)taken;
    REPLY(hello_result, rpc_request_xid(r), fake_options.refusal ? 999 : fake_options.major ? 803 : 0,
          .major = fake_options.major ? fake_options.major : FLYT_PROTOCOL_MAJOR, .minor = 0, .server = "fake",
          .refusal = (char *)(fake_options.refusal ? fake_options.refusal : ""), .driver_version = 13000, .window = fake.window,
          .window_size = WINDOW_SIZE, .granularity = GRANULARITY, .devices = { (u_int)count, devices });
    if (fake_options.refusal || fake_options.major)
        rpc_server_shutdown(fake.server);
    xdr_free((xdrproc_t)xdr_hello_args, &args);
}

static void map(rpc_request *r)
{
    map_args a;
    arguments(r, (xdrproc_t)xdr_map_args, &a);
    uint64_t limit = fake_options.memory ? fake_options.memory : UINT64_C(1) << 30;
    bool aligned = a.address % GRANULARITY == 0 && a.size && a.piece && a.piece % GRANULARITY == 0 && a.size % a.piece == 0 &&
                   a.least && a.least % a.piece == 0 && a.least <= a.size;
    if (fake_mapped[a.device] + a.size > limit)
        a.size = a.least;
    for (struct piece *p = fake.pieces; p; p = p->next)
        if (a.address < p->address + p->size && p->address < a.address + a.size)
            aligned = false;
    int result = !aligned ? 1 : fake_mapped[a.device] + a.size > limit ? 2 : 0;
    if (!result) {
        for (uint64_t at = 0; at < a.size; at += a.piece) {
            struct piece *p = malloc(sizeof *p);
            *p = (struct piece){ a.address + at, a.piece, a.device, calloc(1, a.piece), fake.pieces };
            fake.pieces = p;
        }
        fake_mapped[a.device] += a.size;
    }
    REPLY(map_result, rpc_request_xid(r), result, .size = a.size);
}

static void unmap(rpc_request *r)
{
    unmap_args a;
    arguments(r, (xdrproc_t)xdr_unmap_args, &a);
    uint64_t found = 0;
    for (struct piece **at = &fake.pieces; *at;) {
        struct piece *p = *at;
        if (p->address < a.address || p->address + p->size > a.address + a.size || p->device != a.device) {
            at = &p->next;
            continue;
        }
        found += p->size;
        fake_mapped[a.device] -= p->size;
        *at = p->next;
        free(p->bytes);
        free(p);
    }
    if (found == a.size)
        return;
    fprintf(stderr, "fake: UNMAP of what no MAP made\n");
    _exit(98);
}

static void recalled(rpc_request *r)
{
    recalled_args a;
    arguments(r, (xdrproc_t)xdr_recalled_args, &a);
    fake_idle = a.idle;
    fake_recalled = a.number;
}

static void module_load(rpc_request *r)
{
    module_load_args a = { 0 };
    arguments(r, (xdrproc_t)xdr_module_load_args, &a);
    flyt_symbol symbols[16];
    for (unsigned i = 0; i < a.symbols.symbols_len && i < 16; i++)
        symbols[i] = strcmp(a.symbols.symbols_val[i], "missing") == 0
                     ? (flyt_symbol){ .result = 500 }
                     : (flyt_symbol){ .address = UINT64_C(0x700000000000) + 4096u * (unsigned)a.symbols.symbols_val[i][0]
                                                 + ((uint64_t)a.device << 32), .size = 64 };
    REPLY(module_load_result, rpc_request_xid(r), 0, .symbols = { a.symbols.symbols_len, symbols });
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
    REPLY(function_get_result, rpc_request_xid(r), kind ? 0 : 500, .attributes = { 2, attributes }, .params = { kind == 1 ? 3 : 0, params },
          .log = { kind ? 0 : 12, (char *)"no such name" });
    xdr_free((xdrproc_t)xdr_function_get_args, &a);
}

static void events(rpc_request *r)
{
    events_args a = { 0 };
    arguments(r, (xdrproc_t)xdr_events_args, &a);
    for (unsigned i = 0; i < a.host_functions_done.host_functions_done_len; i++)
        host_done(a.host_functions_done.host_functions_done_val[i]);
    fake.events_xid[fake.events_waiting++] = rpc_request_xid(r);
    xdr_free((xdrproc_t)xdr_events_args, &a);
}

static void query(rpc_request *r, bool event)
{
    bool done;
    if (event) {
        event_args a;
        arguments(r, (xdrproc_t)xdr_event_args, &a);
        done = event_done(a.event);
    } else {
        stream_args a;
        arguments(r, (xdrproc_t)xdr_stream_args, &a);
        done = !fake.queues[a.stream].first;
    }
    REPLY(plain_result, rpc_request_xid(r), done ? 0 : 600);
}

static void reset_device(rpc_request *r)
{
    device_args a;
    arguments(r, (xdrproc_t)xdr_device_args, &a);
    for (struct piece **at = &fake.pieces; *at;) {
        struct piece *p = *at;
        if (p->device != a.device) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        free(p->bytes);
        free(p);
    }
    fake_mapped[a.device] = 0;
    REPLY(plain_result, rpc_request_xid(r), 0);
}

static const struct { uint32_t procedure; xdrproc_t args; } queued[] = {
    { FLYT_COPY_IN, (xdrproc_t)xdr_copy_in_args }, { FLYT_COPY_OUT, (xdrproc_t)xdr_copy_out_args },
    { FLYT_COPY, (xdrproc_t)xdr_copy_args }, { FLYT_COPY_BOX_IN, (xdrproc_t)xdr_copy_box_in_args },
    { FLYT_COPY_BOX_OUT, (xdrproc_t)xdr_copy_box_out_args }, { FLYT_COPY_BOX, (xdrproc_t)xdr_copy_box_args },
    { FLYT_SET, (xdrproc_t)xdr_set_args }, { FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args },
    { FLYT_STREAM_WAIT, (xdrproc_t)xdr_event_wait_args }, { FLYT_EVENT_RECORD, (xdrproc_t)xdr_event_record_args },
    { FLYT_HOST_FUNCTION, (xdrproc_t)xdr_host_function_args }, { FLYT_LAUNCH, (xdrproc_t)xdr_launch_args },
};

static bool enqueue_call(rpc_request *r)
{
    for (unsigned i = 0; i < sizeof queued / sizeof queued[0]; i++) {
        if (queued[i].procedure != rpc_request_procedure(r))
            continue;
        struct op *op = calloc(1, sizeof *op);
        op->procedure = rpc_request_procedure(r);
        op->xid = rpc_request_xid(r);
        op->free_args = queued[i].args;
        arguments(r, queued[i].args, &op->a);
        /* The stream is the first member of all of them but two. */
        flyt_id stream = op->procedure == FLYT_LAUNCH ? op->a.launch.stream
                         : op->procedure == FLYT_EVENT_RECORD ? op->a.record.stream : op->a.stream.stream;
        if (stream >= STREAMS)
            _exit(98);
        if (op->procedure != FLYT_STREAM_SYNC)
            fake.counted[stream]++;
        if (op->procedure == FLYT_EVENT_RECORD)
            fake.events[op->a.record.event] = (struct event){ stream, fake.counted[stream] };
        enqueue(stream, op);
        return true;
    }
    return false;
}

static void wait_later(rpc_request *r, struct op **list, xdrproc_t args)
{
    struct op *op = calloc(1, sizeof *op);
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
        if (++fake.offers >= fake_options.bad_windows)
            fake.window += WINDOW_SIZE;
        REPLY(window_result, xid, 0, .window = fake.window);
        break;
    case FLYT_EVENTS:
        events(r);
        break;
    case FLYT_DEVICE_SYNC:
        wait_later(r, &fake.device_syncs, (xdrproc_t)xdr_device_args);
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
        fake.queues[a.stream].device = a.device;
        fake.queues[a.stream].done = fake.counted[a.stream] = 0;
        break;
    }
    case FLYT_EVENT_ELAPSED:
        REPLY(event_elapsed_result, xid, 0, .milliseconds = 1.5f);
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
        REPLY(memory_info_result, xid, 0, .free = (UINT64_C(1) << 30) - fake_mapped[0], .total = UINT64_C(1) << 30);
        break;
    case FLYT_DEVICE_INIT:
        REPLY(plain_result, xid, 0);
        break;
    case FLYT_DEVICE_RESET:
        reset_device(r);
        break;
    case FLYT_IMAGE:
        REPLY(image_result, xid, 0, .present = fake_calls[FLYT_IMAGE] > 1);
        break;
    case FLYT_MODULE_LOAD:
        module_load(r);
        break;
    case FLYT_FUNCTION_GET:
        function_get(r);
        break;
    case FLYT_FUNCTION_SET:
        REPLY(plain_result, xid, 0);
        break;
    case FLYT_OCCUPANCY:
        REPLY(occupancy_result, xid, 0, .value = 2);
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

static void *serve(void *unused)
{
    (void)unused;
    char error[RPC_ERROR_SIZE];
    int fd;
    while ((fd = rpc_listener_accept(fake.listener)) < 0)
        usleep(1000);
    rpc_channel *channel;
    int status = fake_options.shared ? rpc_channel_accept(fd, 0, &channel, error) : rpc_channel_from_fd(fd, &channel, error);
    if (status || rpc_server_create(channel, &rpc_flyt_program, &fake.server, error))
        _exit(98);
    for (;;) {
        rpc_request *r = NULL;
        if (rpc_server_next(fake.server, 20, &r, error))
            return NULL;
        pthread_mutex_lock(&fake.lock);
        if (r) {
            uint32_t p = rpc_request_procedure(r);
            fake_calls[p < 128 ? p : 127]++;
            if (p == fake_options.close_at && p)
                rpc_server_shutdown(fake.server);
            else if (fake_options.garbage_at && p == fake_options.garbage_at)
                rpc_server_reply(fake.server, rpc_request_xid(r), (xdrproc_t)xdr_nothing, NULL);
            else if (!(fake_options.silent || (fake_options.silent_from && p == fake_options.silent_from)))
                call(r);
            else
                fake_options.silent = true;
            rpc_request_free(r);
        }
        if (!fake_options.silent)
            advance();
        pthread_mutex_unlock(&fake.lock);
    }
}

/* ---- the test's side ---- */

void fake_start(void)
{
    char uri[128], error[RPC_ERROR_SIZE];
    snprintf(uri, sizeof uri, "unix:///tmp/flyt-test-core-%d.sock", (int)getpid());
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

void fake_publish(uint32_t stream, uint64_t done)
{
    struct rpc_shared_memory shared;
    if (!rpc_server_shared_memory(fake.server, &shared) || stream >= shared.number_count)
        fake_failed("numbers can be published", __FILE__, __LINE__);
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
    static unsigned number;
    event_add((flyt_event){ .kind = FLYT_EVENT_RECALL, .flyt_event_u.recall = { ++number, bytes } });
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

int fake_isolated_output(void (*test)(void), char *output, unsigned long size)
{
    int ends[2];
    fflush(NULL);
    if (pipe(ends))
        return -1;
    pid_t child = fork();
    if (!child) {
        alarm(60);
        if (output) {
            dup2(ends[1], 1);
            dup2(ends[1], 2);
        }
        close(ends[0]);
        close(ends[1]);
        test();
        char path[128];
        snprintf(path, sizeof path, "/tmp/flyt-test-core-%d.sock", (int)getpid());
        unlink(path);
        exit(0);
    }
    close(ends[1]);
    unsigned long at = 0;
    ssize_t got;
    while (output && at + 1 < size && (got = read(ends[0], output + at, size - 1 - at)) > 0)
        at += (unsigned long)got;
    if (output)
        output[at] = 0;
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    char path[128];
    snprintf(path, sizeof path, "/tmp/flyt-test-core-%d.sock", (int)child);
    unlink(path);
    if (output && status)
        fprintf(stderr, "%s", output);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int fake_isolated(void (*test)(void))
{
    return fake_isolated_output(test, NULL, 0);
}
