/*
 * gpu_links.c: programs of this VM ask for links between their GPU servers (ctl_link_offer in control_prot.x). The
 * cluster manager decides, and its answer is handed on. A program asks one such question at a time.
 */
#include "control-managers/client-manager/manager.h"

#include <errno.h>
#include <stdlib.h>

#include "control-managers/common/link.h"
#include "cpu/common/explain.h"

enum { CALL_MS = CTL_CALL_SECONDS * 1000 };

static char nothing[1];

static void refuse(struct loop_call *call, bool takes, ctl_code code, char *text)
{
    const ctl_link_offer_result offered = { .status = { code, text } };
    const ctl_link_take_result taken = { .status = { code, text }, .address = nothing };
    call_reply(call, takes ? (const void *)&taken : &offered);
}

/* Calls name their program by its key, and number the question: the program may be gone when the answer comes, or have
   come back by another connection. */
struct asked_link {
    struct manager *manager;
    uint64_t key, number;
    bool takes;
};

static void answered(void *context, int error, const char *why, void *object)
{
    struct asked_link asked = *(struct asked_link *)context;
    struct client_program *program = program_find(asked.manager, asked.key);
    char text[CTL_MAX_TEXT + 1];
    free(context);
    if (!program || !program->asks_link || program->link_asks != asked.number)
        return;
    struct loop_call *call = program->asks_link;
    program->asks_link = NULL;
    if (!error) {
        program->linked |= ((const ctl_plain_result *)object)->status.code == CTL_OK;
        call_reply(call, object);
        return;
    }
    explain(text, 0, "the cluster manager does not answer: %.800s", why);
    refuse(call, asked.takes, CTL_LOST, text);
}

/* args: of CLIENT_LINK_OFFER or CLIENT_LINK_TAKE. */
static void ask(struct client_program *program, struct loop_call *call, bool takes, const void *args)
{
    struct manager *manager = program->manager;
    char text[CTL_MAX_TEXT + 1] = "";
    ctl_code code = CTL_OK;
    if (program->asks_link)
        code = explain(text, CTL_BUSY, "the program asks for another link already");
    else if (manager->registered && !manager->takes_links)
        code = explain(text, CTL_NOT_SUPPORTED,
                       "the cluster manager is of an earlier release, which connects no GPU servers");
    else if (!manager->registered)
        program_describe_away(manager, text);
    struct asked_link *asked = code == CTL_OK && manager->registered ? malloc(sizeof *asked) : NULL;
    if (asked) {
        *asked = (struct asked_link){ manager, program->key, ++program->link_asks, takes };
        program->asks_link = call;
        if (link_call(manager->link, takes ? CLIENT_LINK_TAKE : CLIENT_LINK_OFFER, args, CALL_MS, answered, asked,
                      text) == 0)
            return;
        program->asks_link = NULL;
        free(asked);
    }
    refuse(call, takes, code != CTL_OK ? code : CTL_LOST, text);
}

static struct client_program *asker(struct conn *conn, struct loop_call *call, bool takes)
{
    struct client_program *program = program_of(conn);
    if (!program)
        refuse(call, takes, CTL_INVALID, (char *)(uintptr_t) "PROGRAM_ATTACH comes first");
    return program;
}

void link_handle_offer(struct conn *conn, struct loop_call *call, void *object)
{
    struct client_program *program = asker(conn, call, false);
    if (program) {
        const client_link_offer_args args = { program->key, *(const ctl_link_offer *)object };
        ask(program, call, false, &args);
    }
}

void link_handle_take(struct conn *conn, struct loop_call *call, void *object)
{
    struct client_program *program = asker(conn, call, true);
    if (program) {
        const client_link_take_args args = { program->key, *(const ctl_link_take *)object };
        ask(program, call, true, &args);
    }
}
