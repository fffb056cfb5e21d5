/*
 * trace.c: what a context has called lately: a page of cpu/common/comm_book.h, in a file that others read, or in memory
 * of its own. With FLYT_COMM_TRACE=FOLDER it is written there as JSON when the context fails, or else when it ends: so
 * that the files of all ranks side by side show who lags.
 */
#include "cpu/comm/context.h"
#include "cpu/comm/note.h"

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert((int)COMM_BOOK_NOTE == (int)COMM_NOTE_SIZE && COMM_WHY_SIZE <= (int)COMM_BOOK_WHY, "they fit");

/* Under the context's lock. */
struct comm_trace {
    struct comm_book_page page;
    bool written;
    struct comm_book_head head; /* of its own; its calls stand behind */
    struct comm_book_call calls[];
};

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * CLOCK_NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

struct comm_trace *comm_trace_create(const struct comm_context_settings *settings)
{
    struct comm_trace *trace =
        calloc(1, sizeof *trace + (settings->page.head ? 0 : COMM_BOOK_CALLS) * sizeof *trace->calls);
    if (!trace)
        return NULL;
    trace->page = settings->page.head ? settings->page : (struct comm_book_page){ &trace->head, trace->calls };
    trace->page.head->rank = settings->rank;
    trace->page.head->ranks = settings->size;
    trace->page.head->made = now();
    return trace;
}

void comm_trace_destroy(struct comm_trace *trace)
{
    trace->page.head->ended = now();
    free(trace);
}

/* n: from 1. */
static struct comm_book_call *call_of(const struct comm_trace *trace, uint64_t n)
{
    return &trace->page.calls[(n - 1) % COMM_BOOK_CALLS];
}

void comm_trace_begin(struct comm_context *context, const uint8_t note[COMM_NOTE_SIZE], enum comm_algorithm algorithm)
{
    pthread_mutex_lock(&context->lock);
    struct comm_book_head *head = context->trace->page.head;
    uint64_t number = head->calls + 1;
    struct comm_book_call *call = call_of(context->trace, number);
    *call = (struct comm_book_call){
        .number = number, .begun = now(), .status = COMM_BOOK_UNDER_WAY, .algorithm = algorithm
    };
    memcpy(call->note, note, COMM_NOTE_SIZE);
    head->calls = number;
    pthread_mutex_unlock(&context->lock);
}

void comm_trace_end(struct comm_context *context, int status)
{
    pthread_mutex_lock(&context->lock);
    struct comm_book_head *head = context->trace->page.head;
    struct comm_book_call *call = call_of(context->trace, head->calls);
    call->ended = now();
    call->status = status;
    head->complete = head->calls;
    pthread_mutex_unlock(&context->lock);
}

void comm_trace_fail(struct comm_context *context)
{
    struct comm_book_head *head = context->trace->page.head;
    snprintf(head->why, sizeof head->why, "%s", context->why);
    head->status = context->status;
}

/* ---- what it says ---- */

static uint64_t first_kept(const struct comm_trace *trace)
{
    uint64_t count = trace->page.head->calls;
    return count > COMM_BOOK_CALLS ? count - COMM_BOOK_CALLS + 1 : 1;
}

static void duration(const struct comm_book_call *call, char text[40])
{
    const bool goes_on = call->status == COMM_BOOK_UNDER_WAY;
    const double s = (double)((goes_on ? now() : call->ended) - call->begun) / (double)CLOCK_NS_PER_SECOND;
    snprintf(text, 40, s < 1 ? "%s%.1f ms" : "%s%.1f s", goes_on ? "under way for " : "", s < 1 ? s * 1000 : s);
}

void comm_context_recorded(struct comm_context *context, char *text, size_t size)
{
    int used = 0;
    text[0] = '\0';
    pthread_mutex_lock(&context->lock);
    const struct comm_trace *trace = context->trace;
    for (uint64_t n = trace->page.head->calls; n >= first_kept(trace) && used < (int)size; n--) {
        const struct comm_book_call *call = call_of(trace, n);
        char what[80], took[40], one[200];
        comm_call_text(call->note, what, sizeof what);
        duration(call, took);
        int length = snprintf(one, sizeof one, "%s%llu: %s%s%s%s: %s", used ? "; " : "", (unsigned long long)n, what,
                              call->algorithm ? " (" : "",
                              call->algorithm ? comm_algorithm_name((enum comm_algorithm)call->algorithm) : "",
                              call->algorithm ? ")" : "", took);
        if (used + length >= (int)size)
            break;
        memcpy(text + used, one, (size_t)length + 1);
        used += length;
    }
    pthread_mutex_unlock(&context->lock);
}

static void write_all(const struct comm_context *context, FILE *file)
{
    const struct comm_trace *trace = context->trace;
    const uint64_t made = trace->page.head->made, first = first_kept(trace), at = now();
    char text[COMM_WHY_SIZE];
    fprintf(file, "{\"rank\": %u, \"ranks\": %u, \"status\": %d, \"why\": \"%s\", \"calls\": [", context->settings.rank,
            context->settings.size, context->status, log_text(text, sizeof text, context->why));
    for (uint64_t n = first; n <= trace->page.head->calls; n++) {
        const struct comm_book_call *call = call_of(trace, n);
        uint64_t end = call->status == COMM_BOOK_UNDER_WAY ? at : call->ended;
        comm_call_text(call->note, text, sizeof text);
        fprintf(file, "%s\n {\"number\": %llu, \"call\": \"%s\", \"algorithm\": \"%s\", ", n == first ? "" : ",",
                (unsigned long long)n, text, comm_algorithm_name((enum comm_algorithm)call->algorithm));
        fprintf(file, "\"begin_us\": %.1f, \"us\": %.1f, ", (double)(call->begun - made) / 1e3,
                (double)(end - call->begun) / 1e3);
        if (call->status == COMM_BOOK_UNDER_WAY)
            fprintf(file, "\"status\": null}");
        else
            fprintf(file, "\"status\": %d}", call->status);
    }
    fprintf(file, "]}\n");
}

void comm_trace_write(struct comm_context *context)
{
    static atomic_uint files; /* a process may have several ranks, and one rank several contexts */
    char path[4096];
    const char *folder = env_get("FLYT_COMM_TRACE");
    if (!folder || !*folder)
        return;
    pthread_mutex_lock(&context->lock);
    bool first = !context->trace->written;
    context->trace->written = true;
    snprintf(path, sizeof path, "%s/flyt-comm-%ld-%u-rank-%u.json", folder, (long)getpid(),
             atomic_fetch_add(&files, first ? 1 : 0), context->settings.rank);
    FILE *file = first ? fopen(path, "wxe") : NULL;
    if (file) {
        write_all(context, file);
        fclose(file);
    }
    pthread_mutex_unlock(&context->lock);
}
