/* journal_calls.c: see journal_calls.h. */
#include "cpu/client/core/moves/journal_calls.h"

#include "cpu/client/core/moves/keeper.h"
#include "cpu/client/core/stream/stream.h"
#include "cpu/client/core/wire/journal.h"

/* Calls behind which kernels reach memory of the program, or other programs take part. */
static const char *why_not(uint32_t procedure)
{
    switch (procedure) {
    case FLYT_HOST_ADD: return "it has pinned memory that kernels reach";
    case FLYT_HANDLE_EXPORT:
    case FLYT_MEMORY_EXPORT:
    case FLYT_HANDLE_IMPORT: return "it shares memory with other programs";
    case FLYT_COMM_CREATE: return "it exchanges data with GPUs of other programs";
    default: return NULL;
    }
}

static void look_whether_full(void)
{
    if (journal_fills() && journal_is_renewed())
        keeper_wake();
}

uint8_t *journal_call_sent(struct rpc_recorder *recorder, uint32_t procedure, uint32_t xid, size_t size)
{
    (void)recorder;
    const char *why = journal_on() ? why_not(procedure) : NULL;
    if (why)
        journal_unprotect(why);
    uint8_t *room = journal_on() ? journal_add(JOURNAL_SENT, procedure, xid, size) : NULL;
    look_whether_full();
    return room;
}

/* The journal has the numbers of streams as the program counts, whichever server it was. */
void journal_call_answered(struct rpc_recorder *recorder, const struct rpc_call *call, const uint8_t *body, size_t size)
{
    (void)recorder;
    struct journal_reply reply;
    struct journal_progress *progress;
    if (!journal_on())
        return;
    if (call->status != RPC_SUCCESS) {
        reply = (struct journal_reply){ .answer.status = (int32_t)call->status };
    } else if (!journal_reply_read(body, size, &reply)) {
        journal_unprotect("an answer of the GPU server could not be read");
        return;
    } else if (!journal_ignores(call->procedure)) {
        journal_reply_mark(&reply);
    }
    if (reply.answer.sticky) {
        journal_unprotect("it has had an error that stays");
        return;
    }
    if (journal_add_answer(call->procedure, call->xid, &reply, &progress))
        for (uint32_t i = 0; i < reply.answer.progress; i++)
            progress[i].done += stream_base(progress[i].stream);
    look_whether_full();
}
