/* op.c: the table of op.h. It names functions of many files; none of them calls this one. */
#include "op.h"

#include <stdlib.h>

const struct op_row op_rows[OP_KINDS] = {
    [OP_COPY] = { copy_op, NULL },
    [OP_SET] = { set_op, NULL },
    [OP_PREFETCH] = { prefetch_op, NULL },
    [OP_VALUES] = { values_op, values_keep },
    [OP_LAUNCH] = { launch_op, launch_keep },
    [OP_EVENT_RECORD] = { event_record_op, NULL },
    [OP_EVENT_WAIT] = { event_wait_op, NULL },
    [OP_HOST_FUNCTION] = { host_function_op, NULL },
    [OP_CONDITION] = { condition_op, condition_keep },
    [OP_GRAPH_END] = { graph_end_op, NULL },
    [OP_EXTENT] = { extent_op, NULL },
};

int op_keep(const struct op *op, struct op **out)
{
    if (op_rows[op->kind].keep)
        return op_rows[op->kind].keep(op, out);
    if (!(*out = malloc(sizeof **out)))
        return CORE_OUT_OF_MEMORY;
    **out = *op;
    return CORE_OK;
}
