/*
 * fake_device.c: what the calls of a scripted server do: device memory, the queues of its streams, three kernels, and
 * the replies that say how far it has come. `fake_advance` runs what can run; whose end depends on others stays at
 * the head of its queue.
 */
#include "fake_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- device memory ---- */

static uint8_t *memory_at(uint64_t address, uint64_t size)
{
    for (struct fake_piece *p = fake.pieces; p; p = p->next)
        if (address >= p->address && address - p->address < p->size) {
            if (size <= p->size - (address - p->address))
                return p->bytes + (address - p->address);
            break;
        }
    return NULL;
}

/* Byte by byte where it crosses pieces. */
bool fake_memory_copy(uint64_t address, void *host, uint64_t size, bool to_device)
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

/* ---- replies ---- */

void fake_fill_head(flyt_head *head, int result, flyt_progress *progress, flyt_text *text)
{
    head->result = fake.sticky && !result ? fake.sticky : result;
    head->sticky = fake.sticky;
    head->latched = fake.latched;
    fake.latched = 0;
    unsigned count = 0;
    const bool last = fake.life == 1;
    if (last && fake_options.last.progress)
        progress[count++] = (flyt_progress){ .stream = UINT32_MAX - 7, .done = UINT64_MAX };
    for (unsigned i = 0; i < FAKE_STREAMS && count < FLYT_MAX_PROGRESS && !(last && fake_options.last.no_progress); i++)
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

static void answer_events(void)
{
    unsigned answer = fake.events_waiting > 1 || (fake.events_waiting && fake.due_count);
    while (answer) {
        uint32_t xid = fake.events_xid[0];
        memmove(fake.events_xid, fake.events_xid + 1, sizeof fake.events_xid - sizeof fake.events_xid[0]);
        fake.events_waiting--;
        FAKE_REPLY(events_result, xid, 0, .serial = ++fake.serial, .events = { fake.due_count, fake.due });
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
            if (!fake_memory_copy(box_at(box, z, y), host, e->width, to_device))
                return false;
    return true;
}

static bool run_copy(uint64_t to, uint64_t from, uint64_t size)
{
    uint8_t *bytes = malloc(size + 1);
    bool good = fake_memory_copy(from, bytes, size, false) && fake_memory_copy(to, bytes, size, true);
    free(bytes);
    return good;
}

static bool run_set(const set_args *a)
{
    for (uint64_t z = 0; z < a->extent.depth; z++)
        for (uint64_t y = 0; y < a->extent.height; y++)
            for (uint64_t x = 0; x < a->extent.width; x++)
                if (!fake_memory_copy(box_at(&a->to, z, y) + x * a->element, (void *)&a->value, a->element, true))
                    return false;
    return true;
}

static void run_out(struct fake_op *op, uint64_t size, bool box)
{
    char *bytes = malloc(size + 1);
    bool good = box ? run_box(&op->a.box_out.from, &op->a.box_out.extent, (uint8_t *)bytes, false)
                    : fake_memory_copy(op->a.out.from, bytes, size, false);
    bool failed = !good || fake.sticky;
    FAKE_REPLY(copy_out_result, op->xid, good ? 0 : 1,
          .data = { .kind = FLYT_BULK_INLINE,
                    .flyt_bulk_u.bytes = { failed ? 0 : (u_int)size, failed ? NULL : bytes } });
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
            if (!fake_memory_copy(p.address + 4 * i, &p.value, 4, true))
                fake.sticky = 700;
        const char *print = fake.life == 1 && fake_options.last.print ? fake_options.last.print : fake_options.print;
        if (print)
            strncat(fake.text, print, sizeof fake.text - strlen(fake.text) - 1);
        return true;
    }
}

bool fake_event_done(flyt_id id)
{
    struct fake_event *e = &fake.events[id];
    return fake.queues[e->stream].done >= e->number;
}

/* Runs the op; false: it cannot end yet. *counted: it is numbered. */
static bool run(struct fake_op *op, bool *counted)
{
    bool good = true;
    *counted = true;
    switch (op->procedure) {
    case FLYT_COPY_IN:
        good = fake_memory_copy(op->a.in.to, op->a.in.data.flyt_bulk_u.bytes.bytes_val,
                                op->a.in.data.flyt_bulk_u.bytes.bytes_len, true);
        break;
    case FLYT_COPY_BOX_IN:
        good = op->a.box_in.data.flyt_bulk_u.bytes.bytes_len ==
                   op->a.box_in.extent.width * op->a.box_in.extent.height * op->a.box_in.extent.depth &&
               run_box(&op->a.box_in.to, &op->a.box_in.extent, (uint8_t *)op->a.box_in.data.flyt_bulk_u.bytes.bytes_val,
                       true);
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
    case FLYT_PREFETCH:
    case FLYT_VALUES:
    case FLYT_STREAM_EXTENT:
    case FLYT_CONDITION:
    case FLYT_GRAPH_END: break;
    case FLYT_LAUNCH:
        return run_launch(&op->a.launch);
    case FLYT_STREAM_WAIT:
        return fake_event_done(op->a.wait.event);
    case FLYT_HOST_FUNCTION:
        if (!op->announced)
            fake.due[fake.due_count++] = (flyt_event){ .kind = FLYT_EVENT_HOST_FUNCTION,
                                                       .flyt_event_u.due = { op->a.host.id, fake.sticky } };
        op->announced = true;
        return false;                 /* ended by fake_host_done */
    case FLYT_STREAM_SYNC:
        FAKE_REPLY(plain_result, op->xid, 0);
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

static void pop(struct fake_queue *q, bool counted)
{
    struct fake_op *op = q->first;
    q->first = op->next;
    if (!q->first)
        q->last = &q->first;
    q->done += counted;
    q->changed = true;
    xdr_free(op->free_args, &op->a);
    free(op);
}

static bool all_empty(flyt_id context)
{
    for (unsigned i = 0; i < FAKE_STREAMS; i++)
        if (fake.queues[i].first && fake.queues[i].context == context)
            return false;
    return true;
}

/* Streams run independently; the legacy stream waits for nobody here. */
void fake_advance(void)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (unsigned i = 0; i < FAKE_STREAMS; i++) {
            bool counted;
            while (fake.queues[i].first && run(fake.queues[i].first, &counted)) {
                pop(&fake.queues[i], counted);
                moved = true;
            }
        }
    }
    for (struct fake_op **at = &fake.context_syncs, *op; (op = *at);) {
        if (!all_empty(op->a.context.context)) {
            at = &op->next;
            continue;
        }
        FAKE_REPLY(plain_result, op->xid, 0);
        *at = op->next;
        free(op);
    }
    for (struct fake_op **at = &fake.event_syncs, *op; (op = *at);) {
        if (!fake_event_done(op->a.event.event)) {
            at = &op->next;
            continue;
        }
        FAKE_REPLY(plain_result, op->xid, 0);
        *at = op->next;
        free(op);
    }
    answer_events();
}

void fake_host_done(flyt_id id)
{
    for (unsigned i = 0; i < FAKE_STREAMS; i++) {
        struct fake_op *op = fake.queues[i].first;
        if (op && op->procedure == FLYT_HOST_FUNCTION && op->announced && op->a.host.id == id) {
            pop(&fake.queues[i], true);
            return;
        }
    }
    fprintf(stderr, "fake: host function %u ended, but was not running\n", id);
    _exit(98);
}
