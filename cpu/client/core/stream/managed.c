/* managed.c: the core's way to the room of managed memory, if it is there. */
#include "mirror.h"

#include "cpu/client/core/api_code.h"
#include "move.h"
#include "cpu/common/cancel.h"

const struct managed_room *managed_room;
atomic_uint launch_heed, managed_work_coming;
atomic_bool managed_wants_to_know;

int core_graph_begins(core_context *c, core_stream token, bool *comes)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    *comes = false;
    if (!(atomic_load_explicit(&launch_heed, memory_order_relaxed) & (HEED_SPANS | HEED_MIRROR)))
        return CORE_OK;
    int code = client_stream_find(c, token, &s);
    if (!code && mirror_heeded())
        code = mirror_room->before_work(s);
    return code ? code : managed_work_begins(s, comes);
}

void core_graph_sent(bool comes) { managed_work_sent(comes); }

int managed_before_access(uint64_t address, uint64_t size, bool writes, bool whole)
{
    return managed_room ? managed_room->before_access(address, size, writes, whole) : CORE_OK;
}

void managed_host_function_ended(void)
{
    if (atomic_load_explicit(&launch_heed, memory_order_acquire) & HEED_MANAGED)
        managed_room->host_function_ended();
}

int managed_free(uint64_t address)
{
    return managed_room ? managed_room->free(address) : CORE_INVALID_VALUE;
}

int managed_variable_begins(core_context *c, uint64_t address, size_t size)
{
    bool possible = managed_room && !session_several();
    return possible ? managed_room->variable_begins(c, address, size) : CORE_NOT_SUPPORTED;
}

void managed_variable_ends(uint64_t address, size_t size)
{
    if (managed_room)
        managed_room->variable_ends(address, size);
}

bool managed_possible(void)
{
    return managed_room && !session_several() &&
           (!core_session.in_process || core_session.hello.capabilities & FLYT_CAP_TOUCH);
}

void managed_forget_context(core_context *c)
{
    if (managed_room)
        managed_room->forget_context(c);
}

uint64_t managed_count(void)
{
    return managed_room ? managed_room->count() : 0;
}

void managed_becomes_child(void)
{
    if (managed_room)
        managed_room->becomes_child();
}

void managed_session_rests(bool rests)
{
    if (managed_room)
        managed_room->session_rests(rests);
}

static int copy_pages(core_context *c, uint64_t address, uint64_t size, void *move)
{
    return move_bytes(move, c, address, size);
}

static int add_pages(core_context *c, uint64_t address, uint64_t size, void *sum)
{
    (void)c, (void)address;
    *(uint64_t *)sum += size;
    return CORE_OK;
}

/* Nothing while the program goes on: its threads change the states of pages. */
uint64_t managed_size(const struct move *move, bool adopts)
{
    uint64_t sum = 0;
    if (managed_room && !adopts && (move->pace.shut || move->steps == MOVE_IN))
        managed_room->each_on_device(add_pages, &sum);
    return sum;
}

int managed_contents(struct move *move)
{
    return managed_room && !move->adopts ? managed_room->each_on_device(copy_pages, move) : CORE_OK;
}
