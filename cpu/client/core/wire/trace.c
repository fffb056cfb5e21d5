/* trace.c: the lines of FLYT_TRACE. See trace.h. */
#include "cpu/client/core/wire/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"

static int output = -1;

/* Which call's line is written, and not ended: 0, none. Threads take turns; a fork waits for the end of a turn. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static uint64_t open_call, last_call;

/* How many calls the thread is in. */
static _Thread_local unsigned depth;

/* ---- output ---- */

static void write_all(const char *text, size_t size)
{
    while (size > 0) {
        ssize_t written = write(output, text, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;                      /* nowhere left to write to */
        text += written;
        size -= (size_t)written;
    }
}

/* Ends a line whose call has not ended. */
static void leave_unfinished(void)
{
    FLYT_ASSERT_HELD(&writing);
    if (open_call)
        write_all(" <unfinished ...>\n", strlen(" <unfinished ...>\n"));
    open_call = 0;
}

static void before_message(void)
{
    pthread_mutex_lock(&writing);
    leave_unfinished();
    pthread_mutex_unlock(&writing);
}

static void before_fork(void) { pthread_mutex_lock(&writing); }
static void after_fork(void) { pthread_mutex_unlock(&writing); }
static void in_child(void)
{
    open_call = 0;                       /* the parent ends its own line */
    pthread_mutex_unlock(&writing);
}

static void trace_open(void)
{
    const char *wanted = env_get("FLYT_TRACE");
    if (!wanted || !*wanted || strcmp(wanted, "0") == 0)
        return;
    if (strcmp(wanted, "1") == 0) {
        output = STDERR_FILENO;
        log_set_before(before_message);
    } else {
        output = open(wanted, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (output < 0) {
            log_warning("FLYT_TRACE: cannot open %s: %s; calls are not traced", wanted, strerror(errno));
            return;
        }
    }
    pthread_atfork(before_fork, after_fork, in_child);
}

bool trace_enabled(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, trace_open);
    return output >= 0;
}

/* The program ends while a call has not ended: its line gets an end, unless another thread is writing at this moment.
   That thread may wait for the reader of the output, and the end of the program must not wait for it. */
__attribute__((destructor)) static void trace_close(void)
{
    if (pthread_mutex_trylock(&writing) != 0)
        return;
    leave_unfinished();
    pthread_mutex_unlock(&writing);
}

/* ---- arguments ---- */

static size_t elements_of(const struct trace_call *call, const struct trace_parameter *parameter)
{
    const struct trace_parameter *count = &call->function->parameters[parameter->count];
    const void *argument = call->arguments[parameter->count];
    if (count->use != TRACE_PLAIN)                       /* the caller's pointer to the number */
        argument = (const void *)(uintptr_t)trace_number(argument, sizeof(void *));
    return argument ? (size_t)trace_number(argument, count->type->size) : 0;
}

/* What the pointer argument points to. */
static void print_target(struct trace_line *line, const struct trace_call *call,
                         const struct trace_parameter *parameter, const void *target)
{
    if (parameter->count >= 0) {
        trace_print_array(line, call->front, parameter->type, target, elements_of(call, parameter));
        return;
    }
    bool framed = parameter->type->kind != TRACE_STRUCT && parameter->type->kind != TRACE_TUPLE;
    trace_print(line, framed ? "[" : "");
    trace_print_value(line, call->front, parameter->type, target);
    trace_print(line, framed ? "]" : "");
}

/* `ended` and `failed` say whether the call has written through its pointers. */
static void print_argument(struct trace_line *line, const struct trace_call *call, uint32_t index, bool ended,
                           bool failed)
{
    const struct trace_parameter *parameter = &call->function->parameters[index];
    const void *argument = call->arguments[index];
    if (parameter->use == TRACE_PLAIN) {
        trace_print_value(line, call->front, parameter->type, argument);
        return;
    }
    const void *target = (const void *)(uintptr_t)trace_number(argument, sizeof(void *));
    if (!target)
        trace_print(line, "NULL");
    else if (parameter->use == TRACE_IN || (ended && !failed))
        print_target(line, call, parameter, target);
    else
        trace_print(line, "%p", target);
}

/* Prints parameters from call->shown on. Before the call it stops at the first one that the call writes to. */
static void print_arguments(struct trace_line *line, struct trace_call *call, bool ended, bool failed)
{
    for (; call->shown < call->function->count; call->shown++) {
        const struct trace_parameter *parameter = &call->function->parameters[call->shown];
        if (!ended && parameter->use == TRACE_OUT)
            return;
        trace_print(line, "%s%s=", call->shown ? ", " : "", parameter->name);
        print_argument(line, call, call->shown, ended, failed);
    }
}

/* ---- calls ---- */

/* What a call needs to be printed: not on its stack, which may be small. Without memory it is not printed. */
struct lines { struct trace_line part, whole; };

void trace_enter(struct trace_call *call, const struct trace_front *front, const struct trace_function *function,
                 const void *const *arguments)
{
    *call = (struct trace_call){ .front = front, .function = function, .arguments = arguments, .hidden = depth++ > 0 };
    if (call->hidden)
        return;
    int kept_errno = errno;
    struct lines *lines = calloc(1, sizeof *lines);
    if (lines) {
        print_arguments(&lines->part, call, false, false);
        trace_print(&lines->whole, "[%d] %s(%s", (int)gettid(), function->name, lines->part.text);
        pthread_mutex_lock(&writing);
        leave_unfinished();
        write_all(lines->whole.text, lines->whole.used);
        call->id = open_call = ++last_call;
        pthread_mutex_unlock(&writing);
        free(lines);
    }
    errno = kept_errno;
    call->began = clock_now();
}

void trace_leave(struct trace_call *call, const void *result)
{
    uint64_t took = clock_now() - call->began;
    depth--;
    int kept_errno = errno;
    struct lines *lines = call->hidden ? NULL : calloc(1, sizeof *lines);
    if (!lines)
        return;
    const struct trace_type *type = call->function->result;
    struct trace_line *rest = &lines->part, *line = &lines->whole;
    uint64_t code = result ? trace_number(result, type->size) : 0;
    print_arguments(rest, call, true, call->function->result_is_error && code);
    trace_print(rest, ")");
    if (result) {
        trace_print(rest, " = ");
        trace_print_value(rest, call->front, type, result);
        if (call->function->result_is_error && code)
            trace_print(rest, " (%u)", (unsigned)code);
    }
    pthread_mutex_lock(&writing);
    if (open_call != call->id) {
        leave_unfinished();
        trace_print(line, "[%d] <... %s resumed>", (int)gettid(), call->function->name);
    }
    trace_print(line, "%s <%llu.%09llu>", rest->text, (unsigned long long)(took / CLOCK_NS_PER_SECOND),
                (unsigned long long)(took % CLOCK_NS_PER_SECOND));
    line->text[line->used++] = '\n';       /* trace_print leaves room for it */
    write_all(line->text, line->used);
    open_call = 0;
    pthread_mutex_unlock(&writing);
    free(lines);
    errno = kept_errno;
}
