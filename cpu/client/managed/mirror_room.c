/* mirror_room.c: what the core calls for mirrored pinned memory (core/mirror.h), as a table. */
#include "mirrored.h"

static int add(uint64_t address, uint64_t size)
{
    int code = mirror_listen();
    return code ? code : mirror_add(address, size);
}

static int before_work(struct client_stream *s)
{
    int code = mirror_before_work(s);
    if (mirror_in_kernels())
        mirror_watch();
    return code;
}

static const struct mirror_room room = {
    .open = mirror_begin,
    .add = add,
    .remove = mirror_remove,
    .holds = mirror_has,
    .reach = mirror_bring_all,
    .alias = mirror_alias,
    .alias_end = mirror_alias_end,
    .host = mirror_behind,
    .asked = mirror_asked,
    .fault = mirror_fault,
    .note = mirror_note,
    .before_work = before_work,
    .fetch = mirror_fetch,
    .host_function_ended = mirror_function_ended,
    .in_use = mirror_used_by_work,
    .fence = mirror_fence,
    .wanted = mirror_wanted,
    .forget = mirror_forget,
    .save = mirror_save,
    .fits = mirror_fits,
};

__attribute__((constructor)) static void room_enter(void) { mirror_room = &room; }
