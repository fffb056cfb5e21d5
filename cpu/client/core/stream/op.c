/* op.c: the table of op.h. It names functions of many files; none of them calls this one. */
#include "op.h"

op_sender *const op_senders[OP_KINDS] = {
    [OP_COPY] = copy_op,
    [OP_SET] = set_op,
    [OP_PREFETCH] = prefetch_op,
    [OP_VALUES] = values_op,
    [OP_LAUNCH] = launch_op,
    [OP_EVENT_RECORD] = event_record_op,
    [OP_EVENT_WAIT] = event_wait_op,
    [OP_EVENT_ACROSS] = event_across_op,
    [OP_HOST_FUNCTION] = host_function_op,
    [OP_CONDITION] = condition_op,
    [OP_GRAPH_END] = graph_end_op,
    [OP_EXTENT] = extent_op,
    [OP_COLLECTIVE] = collective_op,
};
