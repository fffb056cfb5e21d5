/*
 * trace.c: what a context has called lately: a ring of TRACE_CALLS calls. With FLYT_COMM_TRACE=FOLDER it is written
 * there as JSON when the context fails, or else when it ends: so that the files of all ranks side by side show who
 * lags.
 */
#include "cpu/comm/context.h"

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRACE_CALLS = 1024, UNDER_WAY = 1 };

struct traced_call { uint64_t begin, end; uint8_t note[COMM_NOTE_SIZE]; enum comm_algorithm algorithm; int status; };

/* Call n is at n modulo TRACE_CALLS. Under the context's lock. */
struct comm_trace { uint64_t made, count; bool written; struct traced_call calls[TRACE_CALLS]; };

struct comm_trace *comm_trace_create(void)
{
    struct comm_trace *trace = calloc(1, sizeof *trace);
    if (trace)
        trace->made = clock_now();
    return trace;
}

void comm_trace_begin(struct comm_context *context, const uint8_t note[COMM_NOTE_SIZE], enum comm_algorithm algorithm)
{
    pthread_mutex_lock(&context->lock);
    struct traced_call *call = &context->trace->calls[context->trace->count++ % TRACE_CALLS];
    *call = (struct traced_call){ .begin = clock_now(), .algorithm = algorithm, .status = UNDER_WAY };
    memcpy(call->note, note, COMM_NOTE_SIZE);
    pthread_mutex_unlock(&context->lock);
}

void comm_trace_end(struct comm_context *context, int status)
{
    pthread_mutex_lock(&context->lock);
    struct traced_call *call = &context->trace->calls[(context->trace->count - 1) % TRACE_CALLS];
    call->end = clock_now();
    call->status = status;
    pthread_mutex_unlock(&context->lock);
}

static void write_all(const struct comm_context *context, FILE *file)
{
    const struct comm_trace *trace = context->trace;
    char text[COMM_WHY_SIZE];
    uint64_t first = trace->count > TRACE_CALLS ? trace->count - TRACE_CALLS : 0, now = clock_now();
    fprintf(file, "{\"rank\": %u, \"ranks\": %u, \"status\": %d, \"why\": \"%s\", \"calls\": [", context->settings.rank,
            context->settings.size, context->status, log_text(text, sizeof text, context->why));
    for (uint64_t n = first; n < trace->count; n++) {
        const struct traced_call *call = &trace->calls[n % TRACE_CALLS];
        uint64_t end = call->status == UNDER_WAY ? now : call->end;
        comm_call_text(call->note, text, sizeof text);
        fprintf(file, "%s\n {\"number\": %llu, \"call\": \"%s\", \"algorithm\": \"%s\", ", n == first ? "" : ",",
                (unsigned long long)n + 1, text, comm_algorithm_name(call->algorithm));
        fprintf(file, "\"begin_us\": %.1f, \"us\": %.1f, ", (double)(call->begin - trace->made) / 1e3,
                (double)(end - call->begin) / 1e3);
        if (call->status == UNDER_WAY)
            fprintf(file, "\"status\": null}");
        else
            fprintf(file, "\"status\": %d}", call->status);
    }
    fprintf(file, "]}\n");
}

void comm_trace_write(struct comm_context *context)
{
    static atomic_uint files;                   /* a process may have several ranks, and one rank several contexts */
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
