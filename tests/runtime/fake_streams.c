/* fake_streams.c: streams, events, host functions and sequences of the core without a server. Work is done at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/fake_state.h"

static struct core_stream_info streams[FAKE_STREAMS];
static bool stream_alive[FAKE_STREAMS];
static int events_alive;

void fake_streams_reset(void) { memset(stream_alive, 0, sizeof stream_alive); }

static bool stream_known(core_stream stream)
{
    return stream < FAKE_STREAMS && (stream <= CORE_STREAM_PER_THREAD || stream_alive[stream]);
}

int core_stream_create(core_context *context, unsigned flags, int priority, core_stream *out)
{
    int error = fake_answer(__func__);
    for (core_stream i = CORE_STREAM_PER_THREAD + 1; !error && i < FAKE_STREAMS; i++)
        if (!stream_alive[i]) {
            stream_alive[i] = true;
            streams[i] = (struct core_stream_info){context, context->device, flags, priority, i + 100};
            *out = i;
            return CORE_OK;
        }
    return error ? error : CORE_OUT_OF_MEMORY;
}
int core_stream_destroy(core_stream stream)
{
    if (!stream_known(stream))
        return CORE_INVALID_HANDLE;
    stream_alive[stream] = false;
    return fake_answer(__func__);
}
int core_stream_synchronize(core_context *context, core_stream stream)
{
    if (getenv("FAKE_CORE_TRACE"))
        fprintf(stderr, "synchronised\n");
    return (void)context, stream_known(stream) ? fake_note(__func__, stream, true) : CORE_INVALID_HANDLE;
}
int core_stream_query(core_context *context, core_stream stream)
{
    return (void)context, stream_known(stream) ? fake_note(__func__, stream, false) : CORE_INVALID_HANDLE;
}
int core_stream_info(core_context *context, core_stream stream, struct core_stream_info *out)
{
    if (!stream_known(stream))
        return CORE_INVALID_HANDLE;
    fake.stream = stream;
    *out = stream <= CORE_STREAM_PER_THREAD ? (struct core_stream_info){context, context->device, 0, 0,
                                                                        stream} : streams[stream];
    return CORE_OK;
}
int core_event_create(core_context *context, unsigned flags, core_event *event)
{
    (void)context, (void)flags;
    *event = 500 + (core_event)++events_alive;
    return fake_answer(__func__);
}
static bool event_known(core_event event) { return event > 500 && event < 600; }
int core_event_destroy(core_event event) { return event_known(event) ? fake_answer(__func__) : CORE_INVALID_HANDLE; }
int core_event_check(core_event event) { return event_known(event) ? CORE_OK : CORE_INVALID_HANDLE; }
int core_event_check_of_launch(core_event event) { return core_event_check(event); }
/* Graphs (cpu/client/graph) are linked in as they are. This is what they ask of the core's inside. */
unsigned pending_writers(void);
unsigned pending_writers(void) { return 0; }
int core_event_record(core_context *context, core_event event, core_stream stream, unsigned flags)
{
    (void)context, (void)flags;
    return event_known(event) && stream_known(stream) ? fake_note(__func__, stream, false) : CORE_INVALID_HANDLE;
}
int core_event_synchronize(core_event event)
{
    return event_known(event) ? fake_answer(__func__) : CORE_INVALID_HANDLE;
}
int core_event_query(core_event event) { return event_known(event) ? fake_answer(__func__) : CORE_INVALID_HANDLE; }
int core_event_elapsed(core_event start, core_event end, float *milliseconds)
{
    return (void)start, (void)end, *milliseconds = 1.5f, fake_answer(__func__);
}
int core_stream_wait(core_context *context, core_stream stream, core_event event, unsigned flags)
{
    (void)context, (void)event, (void)flags;
    return stream_known(stream) ? fake_note(__func__, stream, false) : CORE_INVALID_HANDLE;
}
int core_occupancy_clusters(core_context *c, const struct core_launch *launch, bool size, int *answer)
{
    (void)c, (void)launch, (void)size, (void)answer;
    return CORE_NOT_SUPPORTED;
}
uint64_t core_changes(void) { return 0; }
int core_sequence_create(core_sequence **out)
{
    (void)out;
    return CORE_NOT_SUPPORTED;
}
void core_sequence_destroy(core_sequence *q) { (void)q; }
int core_sequence_begin(core_sequence *q, core_context *c, const core_stream *of, unsigned count, core_stream *out)
{
    (void)q, (void)c, (void)of, (void)count, (void)out;
    return CORE_NOT_SUPPORTED;
}
uint32_t core_sequence_mark(const core_sequence *q)
{
    (void)q;
    return 0;
}
bool core_sequence_kept(core_sequence *q, uint32_t mark)
{
    (void)q, (void)mark;
    return false;
}
bool core_sequence_cut(core_sequence *q)
{
    (void)q;
    return false;
}
int core_sequence_end(core_sequence *q, bool good)
{
    (void)q, (void)good;
    return CORE_NOT_SUPPORTED;
}
int core_sequence_launch(core_sequence *q, core_context *c, core_stream stream, unsigned segment)
{
    (void)q, (void)c, (void)stream, (void)segment;
    return CORE_NOT_SUPPORTED;
}
int core_values_check(core_context *c, const struct core_value *list, unsigned count)
{
    (void)c, (void)list;
    return count ? CORE_OK : CORE_INVALID_VALUE;
}
int core_values(core_context *c, core_stream stream, const struct core_value *list, unsigned count)
{
    (void)c, (void)list, (void)count;
    return fake_note("core_values", stream, false);
}
int core_comm_call(core_context *c, core_stream stream, core_comm comm, const struct core_comm_call *call)
{
    (void)c, (void)comm, (void)call;
    return fake_note("core_comm_call", stream, false);
}
int core_comm_messages(core_context *c, core_stream stream, core_comm comm, const struct core_comm_message *list,
                       unsigned count)
{
    (void)c, (void)comm, (void)list, (void)count;
    return fake_note("core_comm_messages", stream, false);
}
int core_comm_sided(core_context *c, core_stream stream, core_comm comm, bool waits,
                    const struct core_comm_sided *list, unsigned count)
{
    (void)c, (void)comm, (void)waits, (void)list, (void)count;
    return fake_note("core_comm_sided", stream, false);
}
/* A condition notes where it was given; what its bodies have is noted as given to the stream below. */
enum { INNER_STREAM = 77 };
static int conditions;
int core_condition_offered(void) { return CORE_OK; }
int core_condition_create(core_context *c, uint64_t word, enum core_condition_kind kind, core_condition **out,
                          core_stream *stand_in)
{
    (void)c, (void)word, (void)kind;
    *out = (core_condition *)(void *)&conditions;
    *stand_in = INNER_STREAM;
    return CORE_OK;
}
int core_condition_body(core_condition *q)
{
    (void)q;
    return fake_note("core_condition_body", INNER_STREAM, false);
}
int core_condition_submit(core_condition *q, core_context *c, core_stream stream)
{
    (void)q, (void)c;
    return fake_note("core_condition", stream, false);
}
void core_condition_destroy(core_condition *q) { (void)q; }
int core_device_graphs_offered(void) { return CORE_OK; }
int core_device_graph_set(core_condition *q, core_context *c, core_stream stream, uint64_t executable)
{
    (void)q, (void)c, (void)executable;
    return fake_note("core_device_graph_set", stream, false);
}
void core_device_graph_drop(uint64_t executable) { (void)executable; }
int core_graph_end(core_context *c, core_stream stream, uint64_t executable)
{
    (void)c, (void)executable;
    return fake_note("core_graph_end", stream, false);
}
int core_launch_in_graph(core_context *c, const struct core_launch *l, uint64_t executable, bool current)
{
    (void)executable, (void)current;
    return core_launch(c, l);
}
bool core_in_host_function(void) { return false; }
/* Its turn comes at once. */
int core_copy_box_deferred(core_context *context, core_stream stream, const struct core_box *to,
                           const struct core_box *from, const struct core_extent *extent, enum core_direction direction)
{
    int error = fake_note("core_host_function", stream, false);
    if (!error && !fake.latched)
        fake.latched = core_copy_box(context, stream, to, from, extent, direction, true);
    return error;
}

int core_host_function(core_context *context, core_stream stream, void (*function)(void *, int), void *user,
                       bool on_error)
{
    (void)context;
    int status = fake.latched;
    int error = fake_note(__func__, stream, false);
    if (!error && (!status || on_error))
        function(user, status);
    return error;
}

/* Streams have no attributes here. */
atomic_bool core_stream_attributes_set;

int core_stream_get_attribute(core_context *c, core_stream stream, int id, void *value)
{
    (void)c, (void)stream, (void)id, (void)value;
    return CORE_INVALID_VALUE;
}

int core_stream_set_attribute(core_context *c, core_stream stream, int id, const void *value)
{
    (void)c, (void)stream, (void)id, (void)value;
    return CORE_INVALID_VALUE;
}

int core_stream_copy_attributes(core_context *c, core_stream to, core_stream from)
{
    (void)c, (void)to, (void)from;
    return CORE_INVALID_VALUE;
}

int core_stream_attributes_add(core_context *c, struct core_launch *l,
                               struct core_launch_attribute room[CORE_LAUNCH_ATTRIBUTES])
{
    (void)c, (void)l, (void)room;
    return CORE_OK;
}
