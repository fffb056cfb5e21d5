/*
 * procedures.c: from the number of a procedure to the function that serves it. The table is made from the protocol
 * file, by way of FLYT_SEQUENCED. Only the reader looks here (session.c), so that the files that serve calls do not
 * depend on all the others.
 */
#include "api/forward/server.h"
#include "cpu/server/session.h"

enum { PROCEDURES_MAX = 256 };

static struct procedure procedures[PROCEDURES_MAX];
static pthread_once_t procedures_once = PTHREAD_ONCE_INIT;

/* These may block in the driver, so the executor serves them. The reader may serve all others. */
static const uint8_t blocking[] = {
    FLYT_HELLO,           FLYT_WINDOW,        FLYT_WINDOW_TAKE,      FLYT_CONTEXT_CREATE, FLYT_CONTEXT_RETAIN,
    FLYT_CONTEXT_RELEASE, FLYT_CONTEXT_RESET, FLYT_CONTEXT_DESTROY,  FLYT_LIMIT_SET,      FLYT_MAP,
    FLYT_UNMAP,           FLYT_RECALLED,      FLYT_HOST_ADD,         FLYT_HOST_REMOVE,    FLYT_STREAM_CREATE,
    FLYT_STREAM_DESTROY,  FLYT_HOST_FUNCTION, FLYT_CONDITION,        FLYT_DEVICE_GRAPH,   FLYT_GRAPH_END,
    FLYT_IMAGE_DATA,      FLYT_HANDLE_CREATE, FLYT_HANDLE_RELEASE,   FLYT_HANDLE_MAP,     FLYT_HANDLE_UNMAP,
    FLYT_HANDLE_ACCESS,   FLYT_PEER_ACCESS,   FLYT_MODULE_VARIABLES, FLYT_TEXREF_FIND,    FLYT_HANDLE_EXPORT,
    FLYT_HANDLE_IMPORT,   FLYT_MEMORY_EXPORT, FLYT_SHARE_END,        FLYT_BRIDGE,         FLYT_ADOPT,
    FLYT_HANDLE_ADOPT,    FLYT_LINK_LISTEN,   FLYT_LINK_CLOSE,       FLYT_SEND,           FLYT_SEND_BEGIN,
    FLYT_RECEIVE,         FLYT_LINK_MEMORY,   FLYT_COMM_CREATE,      FLYT_COMM_CLOSE,     FLYT_COMM_OP,
    FLYT_COMM_MESSAGES,   FLYT_SEND_BOX,      FLYT_RECEIVE_BOX,      FLYT_SHARE_AGAIN,    FLYT_COMM_WINDOW,
    FLYT_COMM_SIDED,      FLYT_COMM_WINDOW_REMOVE, FORWARD_BLOCKING
};

/* What a graph may keep, and where its stream stands. */
#define KEPT(X) X(LAUNCH, launch) X(SET, set) X(COPY, copy) X(COPY_BOX, copy_box) X(STREAM_WAIT, event_wait) \
                X(EVENT_RECORD, event_record) X(VALUES, values) X(CONDITION, condition) X(GRAPH_END, graph_end) \
                X(COMM_OP, comm_op) X(COMM_MESSAGES, comm_messages) X(COMM_SIDED, comm_sided)
#define STREAM_OF(NAME, name) static uint32_t *name##_stream(union call_args *args) { return &args->name.stream; }
KEPT(STREAM_OF)
#undef STREAM_OF

static void procedures_fill(void)
{
#define X(NAME, served_name, type, result) \
    procedures[FLYT_##NAME] = (struct procedure){ \
        .name = #NAME, .size = sizeof(type), .serve = serve_##served_name, .quick = true, \
        .arguments = (xdrproc_t)xdr_##type, .results = (xdrproc_t)(void (*)(void))xdr_##result, \
        .answers = rpc_flyt_program.procedures[FLYT_##NAME].class == RPC_CLASS_SYNC };
    FLYT_SEQUENCED(X)
#undef X
    for (size_t i = 0; i < sizeof blocking / sizeof blocking[0]; i++)
        procedures[blocking[i]].quick = false;
    procedures[FLYT_HELLO].greets = true;
    procedures[FLYT_LAUNCH].launches = true;
#define STREAM_OF(NAME, name) procedures[FLYT_##NAME].stream_of = name##_stream;
    KEPT(STREAM_OF)
#undef STREAM_OF
}

const struct procedure *procedure_find(uint32_t number)
{
    pthread_once(&procedures_once, procedures_fill);
    return number < PROCEDURES_MAX && procedures[number].serve ? &procedures[number] : NULL;
}
