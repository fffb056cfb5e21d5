/* call.c: calls of a context, one at a time, or those of all ranks of a process together. See comm.h. */
#include "cpu/comm/context.h"
#include "cpu/comm/note.h"
#include "cpu/comm/plan/parts.h"

#include "cpu/common/clock.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SCRATCH_KEPT = 8 * 1024 * 1024 };

/* A call from its check to its end. */
struct call_state {
    struct comm_context *context;
    const struct comm_call *call;
    struct comm_plan *plan;
    enum comm_algorithm algorithm;
    struct comm_work work;
    uint64_t sizes[COMM_BUFFERS];
    unsigned registered; /* of the buffers */
    uint8_t *multiplied; /* what this rank gives to a multiplied sum */
    struct comm_run *run;
    bool traced;
    int status;
};

/* ---- what a call needs ---- */

static int connect_for(struct comm_context *context, const struct comm_plan *plan, uint64_t deadline, char *error)
{
    bool wanted[COMM_RANKS_MOST] = { false };
    for (unsigned i = 0; i < plan->count; i++) {
        const struct comm_step *step = &plan->steps[i];
        if (step->kind == STEP_SEND || step->kind == STEP_RECEIVE)
            wanted[step->peer] = true;
    }
    return comm_context_connect(context, wanted, deadline, error);
}

static struct comm_parts parts_of(const struct comm_context *c, const struct comm_call *call)
{
    return comm_parts_of(call->kind, c->settings.rank, c->settings.size, call->root);
}

static int check(const struct comm_context *c, const struct comm_call *call, char *error)
{
    uint64_t most = UINT64_MAX / 16 / COMM_RANKS_MOST;
    const char *wrong = NULL;
    bool parts = call->kind != COMM_BROADCAST && call->kind != COMM_REDUCE && call->kind != COMM_ALL_REDUCE;
    if ((unsigned)call->kind >= COMM_KINDS)
        wrong = "there is no such collective";
    else if (call->kind == COMM_BARRIER)
        return 0;
    else if ((unsigned)call->type >= COMM_TYPES)
        wrong = "there is no such type";
    else if (comm_kind_reduces(call->kind) && (unsigned)call->operation >= COMM_OPERATIONS)
        wrong = "there is no such operation";
    else if (comm_kind_reduces(call->kind) && call->operation == COMM_MULTIPLIED_SUM && !call->factor)
        wrong = "a multiplied sum needs a factor";
    else if (comm_kind_has_root(call->kind) && call->root >= c->settings.size)
        wrong = "the root is no rank";
    else if ((call->counts || call->places || call->in_counts || call->in_places) && !parts)
        wrong = "it has no parts";
    else if (call->places && !call->counts)
        wrong = "places need counts";
    else if (call->kind == COMM_ALL_TO_ALL && !call->counts != !call->in_counts)
        wrong = "counts of what is sent need counts of what comes";
    else if (call->kind == COMM_ALL_TO_ALL && call->in == call->out && call->count > 0)
        wrong = "all-to-all is not done in place";
    else if (call->count > most)
        wrong = "the count is too large";
    else if (!call->counts && call->count > 0 &&
             ((parts_of(c, call).in && !call->in) || (parts_of(c, call).out && !call->out)))
        wrong = "a buffer is missing";
    for (unsigned r = 0; !wrong && r < c->settings.size; r++)
        if ((call->counts && call->counts[r] > most) || (call->places && call->places[r] > most) ||
            (call->in_counts && call->in_counts[r] > most) || (call->in_places && call->in_places[r] > most))
            wrong = "a count is too large";
    return wrong ? rpc_explain(error, -EINVAL, "%s: %s",
                               (unsigned)call->kind < COMM_KINDS ? comm_kind_name(call->kind) : "a call", wrong)
                 : 0;
}

static struct comm_plan *make_plan(const struct comm_context *c, const struct comm_call *call,
                                   enum comm_algorithm *algorithm)
{
    bool uneven = call->counts || call->in_counts,
         parts = call->kind != COMM_BROADCAST && call->kind != COMM_REDUCE && call->kind != COMM_ALL_REDUCE;
    uint64_t bytes = call->count * comm_type_size(call->type) * (parts ? c->settings.size : 1);
    struct comm_shape shape = { .kind = call->kind, .rank = c->settings.rank, .ranks = c->settings.size,
                                .root = call->root, .count = call->count, .counts = call->counts,
                                .places = call->places, .in_counts = call->in_counts, .in_places = call->in_places };
    shape.element = call->kind == COMM_BARRIER ? 1 : comm_type_size(call->type);
    /* the parts of an uneven call are known to all ranks in gathers and scatters only: the choice must not use them */
    shape.algorithm = comm_choose(call->kind, uneven ? 0 : bytes, c->settings.size, uneven, &c->settings.table,
                                  c->settings.algorithm);
    *algorithm = shape.algorithm;
    return comm_plan_make(&shape);
}

/* How many elements this rank gives, and gets. */
static uint64_t in_count(const struct comm_context *c, const struct comm_call *call)
{
    uint64_t all = 0;
    if (call->kind != COMM_REDUCE_SCATTER)
        return call->count;
    for (unsigned r = 0; call->counts && r < c->settings.size; r++) {
        uint64_t end = (call->places ? call->places[r] : all) + call->counts[r];
        all = end > all ? end : all;
    }
    return call->counts ? all : call->count * c->settings.size;
}

static uint64_t out_count(const struct comm_context *c, const struct comm_call *call)
{
    return call->kind == COMM_REDUCE_SCATTER && call->counts ? call->counts[c->settings.rank] : call->count;
}

/* How many bytes of this rank's buffers a call uses. The places of an uneven one are not known here: 0. */
static void buffer_sizes(const struct comm_context *c, const struct comm_call *call, const struct comm_plan *plan,
                         uint64_t sizes[COMM_BUFFERS])
{
    const struct comm_parts parts = parts_of(c, call);
    uint64_t part = call->count * comm_type_size(call->type);
    sizes[COMM_IN] = parts.in * part;
    sizes[COMM_OUT] = parts.out * part;
    sizes[COMM_SCRATCH] = plan->scratch;
}

/* Scratch memory of the call before is used again: fresh pages cost more than a small call. */
static uint8_t *scratch_take(struct comm_context *c, uint64_t size)
{
    uint8_t *memory = c->scratch;
    if (!memory || c->scratch_size < size + 1) {
        free(memory);
        memory = malloc(size + 1);
        c->scratch_size = memory ? size + 1 : 0;
    }
    c->scratch = NULL;
    return memory;
}

static void scratch_give(struct comm_context *c, uint8_t *memory)
{
    if (c->scratch_size <= SCRATCH_KEPT)
        c->scratch = memory;
    else
        free(memory);
}

/* ---- from its beginning to its end ---- */

static int buffers_take(struct call_state *s)
{
    struct comm_context *c = s->context;
    const struct comm_call *call = s->call;
    uint64_t numbers = in_count(c, call);
    bool multiplies = comm_kind_reduces(call->kind) && call->operation == COMM_MULTIPLIED_SUM;
    s->multiplied = multiplies ? malloc(numbers * comm_type_size(call->type) + 1) : NULL;
    s->work.buffers[COMM_IN] = (uint8_t *)(uintptr_t)call->in;
    s->work.buffers[COMM_OUT] = call->out;
    s->work.buffers[COMM_SCRATCH] = scratch_take(c, s->plan->scratch);
    if (!s->work.buffers[COMM_SCRATCH] || (multiplies && !s->multiplied))
        return -ENOMEM;
    if (multiplies) {
        comm_reduce_multiply(call->type, s->multiplied, call->in, call->factor, numbers);
        s->work.buffers[COMM_IN] = s->multiplied;
    }
    return 0;
}

/* With all its buffers registered. */
static int run_begin(struct call_state *s)
{
    int status = 0;
    buffer_sizes(s->context, s->call, s->plan, s->sizes);
    while (s->registered < COMM_BUFFERS && status == 0) {
        status = comm_context_register(s->context, s->work.buffers[s->registered], s->sizes[s->registered]);
        s->registered += status == 0;
    }
    if (status == 0)
        s->run = comm_run_begin(s->context, &s->work);
    return status == 0 && !s->run ? -ENOMEM : status;
}

/* Up to the first thing that has to be waited for. Behind it call_end is called, whatever its status. */
static void call_begin(struct call_state *s, uint64_t deadline, char *error)
{
    struct comm_context *c = s->context;
    s->status = check(c, s->call, error);
    if (s->status == 0)
        s->status = comm_context_status(c, error);
    if (s->status < 0)
        return;
    s->plan = make_plan(c, s->call, &s->algorithm);
    s->status = s->plan ? connect_for(c, s->plan, deadline, error)
                        : rpc_explain(error, -ENOMEM, "%s: no memory", comm_kind_name(s->call->kind));
    if (s->status < 0)
        return;
    s->work = (struct comm_work){ .plan = s->plan,
                                  .number = ++c->sequence,
                                  .type = s->call->type,
                                  .operation = s->call->operation };
    comm_note_call(s->call, s->work.note);
    comm_trace_begin(c, s->work.note, s->algorithm);
    s->traced = true;
    s->status = buffers_take(s);
    if (s->status == 0)
        s->status = run_begin(s);
}

static int call_end(struct call_state *s, uint64_t deadline, char *error)
{
    struct comm_context *c = s->context;
    const struct comm_call *call = s->call;
    if (s->run)
        s->status = comm_run_end(s->run, deadline);
    while (s->registered-- > 0)
        comm_context_unregister(c, s->work.buffers[s->registered], s->sizes[s->registered]);
    if (s->traced)
        comm_trace_end(c, s->status);
    if (s->status == 0 && comm_kind_reduces(call->kind) && parts_of(c, call).out)
        comm_reduce_finish(call->type, call->operation, call->out, out_count(c, call), c->settings.size);
    if (s->traced && s->status < 0 && comm_context_status(c, error) == 0)
        rpc_explain(error, s->status, "%s: %s", comm_kind_name(call->kind), strerror(-s->status));
    if (s->work.buffers[COMM_SCRATCH])
        scratch_give(c, s->work.buffers[COMM_SCRATCH]);
    free(s->multiplied);
    comm_plan_free(s->plan);
    return s->status;
}

int comm_call(struct comm_context *c, const struct comm_call *call, uint64_t deadline, char *error)
{
    struct call_state state = { .context = c, .call = call };
    call_begin(&state, deadline, error);
    return call_end(&state, deadline, error);
}

void comm_call_together(struct comm_context *const *contexts, const struct comm_call *calls, unsigned count,
                        uint64_t deadline, int *status, char *error)
{
    struct call_state all[COMM_TOGETHER_MOST];
    for (unsigned i = 0; i < count; i++) {
        all[i] = (struct call_state){ .context = contexts[i], .call = &calls[i] };
        call_begin(&all[i], deadline, error);
        if (all[i].status < 0) /* the others wait for it */
            comm_context_abort(contexts[i], all[i].status, error ? error : "a call could not begin");
    }
    for (unsigned i = 0; i < count; i++)
        status[i] = call_end(&all[i], deadline, error);
}
