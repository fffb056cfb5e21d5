/*
 * cmd_move.c: programs move to other GPUs while they run, are suspended, resumed and saved. The cluster manager answers
 * when that is under way; these commands look until it has ended, and end with the status that says how.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control-managers/flytctl/flytctl.h"

enum {
    LOOK_MS = 50,
    SLACK_SECONDS = 90,
    WITHIN_SECONDS = 60,
    MOST_SECONDS = 3600,
    ENDING_SECONDS = 10,
    CANCEL_SECONDS = 30
};

#define PATIENCE                                                                                                      \
    { "patience", 'p', "SECONDS", "how long it may take to come to rest, at each try (2)", false },                   \
    {                                                                                                                 \
        "within", 0, "SECONDS", "how long the program may take altogether (60)", false                                \
    }
#define BANDWIDTH                                                                                                     \
    {                                                                                                                 \
        "bandwidth", 'b', "RATE", "bytes a second at most, as 100M or 2G; a plain number is MiB (as configured)",     \
            false                                                                                                     \
    }
#define LIMITS                                                                                                        \
    BANDWIDTH,                                                                                                        \
    {                                                                                                                 \
        "downtime", 'd', "MS", "milliseconds for which it may stand still at most; else it stays (any)", false        \
    }
#define FRESH                                                                                                     \
    {                                                                                                             \
        "fresh", 0, NULL, "to a new GPU server of the same GPU, as its node has it installed now", false          \
    }
const struct option_row program_migrate_options[] = {
    { "to", 0, "NODE[:GPU]", "where to: GPU is an id or an index (another GPU that the manager chooses)", false },
    FRESH,
    { "together", 0, NULL, "with all programs that share memory with it, which move or stay with it", false },
    PATIENCE,
    LIMITS,
    { 0 },
};
#define WHOM                                                                                \
    { "ip", 'i', "VM", "name or address of the VM", false },                                \
        { "client-id", 'c', "ID", "only this program (all)", false },                       \
        { "sm-cores", 's', "N", "streaming multiprocessors there (as here)", false },       \
    {                                                                                       \
        "memory", 'm', "SIZE", "device memory there, as 512M or 2G; a plain number is MiB (as here)", false \
    }
const struct option_row migrate_options[] = {
    WHOM,
    { "dst-node", 'n', "NODE", "node to move to, its name or its address", false },
    { "dst-gpu", 'g', "GPU", "GPU to move to, its id or its index", false },
    { "dstsnodeip", 0, "NODE", "the same as --dst-node", false },
    { "dstgpuid", 0, "GPU", "the same as --dst-gpu", false },
    PATIENCE,
    LIMITS,
    { 0 },
};
const struct option_row migrate_auto_options[] = { WHOM, FRESH, PATIENCE, LIMITS, { 0 } };
#define TOGETHER                                                                                         \
    {                                                                                                    \
        "together", 0, NULL, "with all programs that share memory with it: all of them, or none", false \
    }
const struct option_row program_suspend_options[] = { TOGETHER, PATIENCE, BANDWIDTH, { 0 } };
const struct option_row program_checkpoint_options[] = {
    { "together", 0, NULL, "with all programs that share memory with it, each into FILE.ID", false },
    PATIENCE,
    LIMITS,
    { "base", 0, "FILE", "save only what has changed since this checkpoint, the last one of the program", false },
    { 0 },
};
const struct option_row program_resume_options[] = {
    { "to", 0, "NODE[:GPU]", "where: GPU is an id or an index (a GPU that the manager chooses)", false },
    TOGETHER,
    { "within", 0, "SECONDS", "how long the program may take altogether (60)", false },
    BANDWIDTH,
    { 0 },
};
const struct option_row move_cancel_options[] = {
    { "wait", 0, "SECONDS", "how long to wait until it is known how the move ends (30)", false },
    { 0 },
};

/* ---- one, and many ---- */

struct asked_move {
    uint64_t move; /* 0: it has not begun, or was refused at once */
    double asked;  /* when it was to begin */
    bool over, waits;
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void say_done(struct flytctl *ctl, const admin_move_row *move, json_t *members)
{
    const unsigned long long program = move->prog;
    const double outage = (double)move->outage_us / 1000, mib = (double)move->bytes / (1 << 20);
    switch (move->action) {
    case ADMIN_ACTION_SUSPEND:
        report(ctl, members, "program %llu of %s is suspended: it has left node %s, GPU %s, and keeps %.1f MiB",
               program, move->vm, move->from_node, move->from_gpu, mib);
        break;
    case ADMIN_ACTION_CHECKPOINT:
        report(ctl, members, "program %llu of %s is saved; it stood still for %.1f ms, and %.1f MiB were copied",
               program, move->vm, outage, mib);
        break;
    case ADMIN_ACTION_RESUME:
        report(ctl, members, "program %llu of %s goes on, on node %s, GPU %s: %.1f MiB were copied in %.1f ms", program,
               move->vm, move->to_node, move->to_gpu, mib, outage);
        break;
    default:
        report(ctl, members,
               "program %llu of %s is on node %s, GPU %s now; it stood still for %.1f ms, and %.1f MiB were copied",
               program, move->vm, move->to_node, move->to_gpu, outage, mib);
    }
}

/* It has ended: says how. */
static int say_end(struct flytctl *ctl, const admin_move_row *move)
{
    json_t *members = json_pack("{s:o}", "move", row_move(move));
    if (move->state == ADMIN_MOVE_DONE) {
        say_done(ctl, move, members);
        return EXIT_FINE;
    }
    int code = exit_of_code(move->status.code);
    const char *why = *move->status.text ? move->status.text : "it could not";
    if (move->action == ADMIN_ACTION_RESUME)
        return complain_more(ctl, code ? code : EXIT_FAILED, members, "program %llu of %s stays suspended: %s",
                             (unsigned long long)move->prog, move->vm, why);
    if (move->action == ADMIN_ACTION_CHECKPOINT)
        return complain_more(ctl, code ? code : EXIT_FAILED, members,
                             "program %llu of %s is not saved, and goes on: %s", (unsigned long long)move->prog,
                             move->vm, why);
    return complain_more(ctl, code ? code : EXIT_FAILED, members, "program %llu of %s stays on node %s, GPU %s: %s",
                         (unsigned long long)move->prog, move->vm, move->from_node, move->from_gpu,
                         *move->status.text ? move->status.text : "it could not move");
}

typedef int how_it_ended(struct flytctl *, const admin_move_row *);

/* Whether the move has ended; *code is what `say` makes of that then, or the exit status of a question which failed. */
static bool look(struct flytctl *ctl, uint64_t id, how_it_ended *say, int *code)
{
    static char nothing[1];
    admin_numbered_page page = { .after = id - 1, .vm = nothing, .node = nothing };
    admin_moves_result result;
    bool over = true;
    *code = ask(ctl, ADMIN_MOVES, &page, &result);
    if (*code)
        return true;
    if (!result.moves.moves_len || result.moves.moves_val[0].id != id)
        *code = complain(ctl, EXIT_UNKNOWN,
                         "the cluster manager does not know move %llu any more: `flytctl program list` and `flytctl"
                         " events` show what became of it",
                         (unsigned long long)id);
    else if (result.moves.moves_val[0].state >= ADMIN_MOVE_DONE)
        *code = say(ctl, &result.moves.moves_val[0]);
    else
        over = false;
    if (!over)
        show_progress(ctl, &result.moves.moves_val[0]);
    protocol_free((xdrproc_t)xdr_admin_moves_result, &result);
    return over;
}

/* EXIT_FINE: it is under way, or one->waits: it cannot begin yet. */
static int begin(struct flytctl *ctl, const admin_move_args *args, struct asked_move *one)
{
    const bool saves = args->action == ADMIN_ACTION_SUSPEND || args->action == ADMIN_ACTION_CHECKPOINT;
    const char *base = args->action == ADMIN_ACTION_CHECKPOINT ? option(ctl, "base") : NULL;
    const admin_save_args save = { *args, (char *)(uintptr_t)(base ? base : "") };
    admin_move_result result;
    look_with(ctl, "flytctl move list");
    int code = ask_raw(ctl, saves ? ADMIN_SAVE : ADMIN_MOVE, saves ? (const void *)&save : args, &result);
    *ctl->look = '\0';
    if (code)
        return code;
    if (!one->asked)
        one->asked = seconds_now();
    one->waits = result.status.code == CTL_WAITING &&
                 (args->action != ADMIN_ACTION_RESUME || seconds_now() < one->asked + ENDING_SECONDS);
    if (result.status.code != CTL_OK && !one->waits)
        code = complain_status(ctl, &result.status);
    else if (one->waits)
        show_line(ctl, "program %llu waits: %s", (unsigned long long)args->prog, result.status.text);
    one->move = result.move;
    protocol_free((xdrproc_t)xdr_admin_move_result, &result);
    return code;
}

/* The move that the program has got because it shares memory with one whose move began before it; 0: none. */
static int taken_along(struct flytctl *ctl, uint64_t program, uint64_t first, uint64_t *move)
{
    char nothing[1] = "";
    admin_numbered_page page = { .after = first, .vm = nothing, .node = nothing };
    admin_moves_result result;
    int code = first ? ask(ctl, ADMIN_MOVES, &page, &result) : EXIT_FINE;
    *move = 0;
    if (code || !first)
        return code;
    for (u_int i = 0; i < result.moves.moves_len; i++)
        if (result.moves.moves_val[i].prog == program)
            *move = result.moves.moves_val[i].id;
    protocol_free((xdrproc_t)xdr_admin_moves_result, &result);
    return code;
}

/* The next look at one of them, or its beginning. first: the move that began first; 0: none has. */
static int go_on(struct flytctl *ctl, const admin_move_args *order, struct asked_move *one, size_t *under_way,
                 uint64_t *first)
{
    int code = EXIT_FINE;
    if (!one->move && order->together && !one->waits) {
        code = taken_along(ctl, order->prog, *first, &one->move);
        if (code || one->move) {
            one->over = code != EXIT_FINE;
            *under_way += !one->over;
            return code;
        }
    }
    if (one->move) {
        one->over = look(ctl, one->move, say_end, &code);
        *under_way -= one->over;
        return code;
    }
    code = begin(ctl, order, one);
    one->over = code != EXIT_FINE;
    *under_way += !one->over && !one->waits;
    *first = *first ? *first : one->move;
    return code;
}

/* So many at a time. The status is that of the first that did not move. */
static int move_all(struct flytctl *ctl, const admin_move_args *args, const uint64_t *programs, size_t count,
                    size_t at_once)
{
    struct asked_move *ones = calloc(count + 1, sizeof *ones);
    const double until =
        seconds_now() + (double)count * ((args->within_ms ? args->within_ms / 1000 : WITHIN_SECONDS) + SLACK_SECONDS);
    size_t under_way = 0, over = 0;
    uint64_t first = 0;
    int worst = ones ? EXIT_FINE : complain(ctl, EXIT_FAILED, "no memory");
    while (ones && over < count) {
        bool full = false;
        for (size_t i = 0; i < count; i++) {
            struct asked_move *one = &ones[i];
            admin_move_args order = *args;
            order.prog = programs[i];
            if (one->over || (!one->move && (full || under_way >= at_once)))
                continue;
            int code = go_on(ctl, &order, one, &under_way, &first);
            full |= one->waits;
            over += one->over;
            worst = worst ? worst : code;
        }
        if (over < count && seconds_now() > until) {
            worst = complain(ctl, EXIT_UNKNOWN, "the programs have not moved yet: `flytctl move list` shows them");
            break;
        }
        if (over < count)
            nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000 }, NULL);
    }
    free(ones);
    return worst;
}

/* ---- commands ---- */

static bool read_limits(struct flytctl *ctl, admin_move_args *args)
{
    uint64_t patience = 0, within = 0, downtime = 0;
    bool good = option_number(ctl, "patience", 1, MOST_SECONDS, &patience) &&
                option_number(ctl, "within", 1, MOST_SECONDS, &within) &&
                option_number(ctl, "downtime", 1, MOST_SECONDS * 1000, &downtime) &&
                option_size(ctl, "bandwidth", &args->bandwidth);
    args->downtime_ms = (unsigned)downtime;
    args->patience_ms = (unsigned)patience * 1000;
    args->within_ms = (unsigned)within * 1000;
    args->fresh = option_count(ctl, "fresh") > 0;
    args->together |= option_count(ctl, "together") > 0;
    return good;
}

int command_program_migrate(struct flytctl *ctl)
{
    uint64_t programs[MAX_WORDS];
    const char *to = option(ctl, "to");
    admin_move_args args = { .vm = (char *)(uintptr_t)"", .to = (char *)(uintptr_t)(to ? to : ""),
                             .file = (char *)(uintptr_t)"" };
    if (!read_limits(ctl, &args))
        return EXIT_USAGE;
    if (strlen(args.to) > CTL_MAX_HOST)
        return complain(ctl, EXIT_USAGE, "--to: at most %d bytes", CTL_MAX_HOST);
    for (int i = 0; i < ctl->argc; i++)
        if (!parse_id(ctl, ctl->argv[i], &programs[i]))
            return EXIT_USAGE;
    return move_all(ctl, &args, programs, (size_t)ctl->argc, 1);
}

static int act_on(struct flytctl *ctl, admin_move_args *args, int count)
{
    uint64_t programs[MAX_WORDS];
    if (!read_limits(ctl, args))
        return EXIT_USAGE;
    for (int i = 0; i < count; i++)
        if (!parse_id(ctl, ctl->argv[i], &programs[i]))
            return EXIT_USAGE;
    return move_all(ctl, args, programs, (size_t)count, 1);
}

static bool is_path(struct flytctl *ctl, const char *name, const char *path)
{
    if (*path == '/' && strlen(path) <= CTL_MAX_PATH)
        return true;
    complain(ctl, EXIT_USAGE, "%s is an absolute path on the program's machine, of at most %d bytes", name,
             CTL_MAX_PATH);
    return false;
}

/* ID..., or ID FILE. */
int command_program_suspend(struct flytctl *ctl)
{
    const bool named = ctl->argc == 2 && strchr(ctl->argv[1], '/');
    admin_move_args args = { .vm = (char *)(uintptr_t)"", .to = (char *)(uintptr_t)"",
                             .file = (char *)(uintptr_t)(named ? ctl->argv[1] : ""),
                             .action = ADMIN_ACTION_SUSPEND };
    if (named && !is_path(ctl, "FILE", args.file))
        return EXIT_USAGE;
    return act_on(ctl, &args, named ? 1 : ctl->argc);
}

int command_program_resume(struct flytctl *ctl)
{
    const char *to = option(ctl, "to");
    admin_move_args args = { .vm = (char *)(uintptr_t)"", .to = (char *)(uintptr_t)(to ? to : ""),
                             .file = (char *)(uintptr_t)"", .action = ADMIN_ACTION_RESUME };
    if (strlen(args.to) > CTL_MAX_HOST)
        return complain(ctl, EXIT_USAGE, "--to: at most %d bytes", CTL_MAX_HOST);
    return act_on(ctl, &args, ctl->argc);
}

int command_program_checkpoint(struct flytctl *ctl)
{
    admin_move_args args = { .vm = (char *)(uintptr_t)"", .to = (char *)(uintptr_t)"",
                             .file = (char *)(uintptr_t)ctl->argv[1], .action = ADMIN_ACTION_CHECKPOINT };
    const char *base = option(ctl, "base");
    if (!is_path(ctl, "FILE", args.file) || (base && !is_path(ctl, "--base", base)))
        return EXIT_USAGE;
    return act_on(ctl, &args, 1);
}

/* Those of the VM, or on the node, that use a GPU server. EXIT_FINE or complained. */
static int programs_of(struct flytctl *ctl, const char *vm, const char *node, uint64_t **programs, size_t *count)
{
    json_t *rows, *row;
    size_t i;
    int code = kind_rows(ctl, kind_find("program"), &(struct rows_query){ .vm = vm, .node = node }, &rows);
    *programs = NULL;
    *count = 0;
    if (code)
        return code;
    *programs = calloc(json_array_size(rows) + 1, sizeof **programs);
    json_array_foreach(rows, i, row) {
        const char *state = json_string_value(json_object_get(row, "state"));
        if (*programs && state && strcmp(state, "running") == 0)
            (*programs)[(*count)++] = (uint64_t)json_integer_value(json_object_get(row, "id"));
    }
    json_decref(rows);
    return *programs ? EXIT_FINE : complain(ctl, EXIT_FAILED, "no memory");
}

int move_programs_away(struct flytctl *ctl, const char *node, size_t at_once)
{
    admin_move_args args = { .vm = (char *)(uintptr_t)"", .to = (char *)(uintptr_t)"",
                             .file = (char *)(uintptr_t)"", .together = 1 };
    uint64_t *programs;
    size_t count;
    if (!read_limits(ctl, &args))
        return EXIT_USAGE;
    int code = programs_of(ctl, NULL, node, &programs, &count);
    if (!code && count)
        code = move_all(ctl, &args, programs, count, at_once);
    free(programs);
    return code;
}

/* The names and letters of the earlier Flyt. */
int command_migrate(struct flytctl *ctl)
{
    char to[CTL_MAX_HOST + 1] = "";
    bool automatic = strcmp(ctl->command->name, "migrate-auto") == 0;
    const char *vm = option(ctl, "ip"), *node = NULL, *gpu = NULL;
    uint64_t client = 0, sms = 0, memory = 0, *programs = NULL;
    size_t count = 0;
    admin_move_args args = { .to = to, .file = (char *)(uintptr_t)"" };
    if (!vm)
        return complain(ctl, EXIT_USAGE, "which VM? --ip is needed");
    if (!option_number(ctl, "client-id", 0, UINT64_MAX, &client) ||
        !option_number(ctl, "sm-cores", 0, 1000000, &sms) || !option_size(ctl, "memory", &memory) ||
        !read_limits(ctl, &args))
        return EXIT_USAGE;
    if (!automatic) {
        node = option(ctl, "dst-node") ? option(ctl, "dst-node") : option(ctl, "dstsnodeip");
        gpu = option(ctl, "dst-gpu") ? option(ctl, "dst-gpu") : option(ctl, "dstgpuid");
        if (!node)
            return complain(ctl, EXIT_USAGE, "where to? --dst-node is needed (migrate-auto chooses by itself)");
        if (snprintf(to, sizeof to, "%s%s%s", node, gpu ? ":" : "", gpu ? gpu : "") >= (int)sizeof to)
            return complain(ctl, EXIT_USAGE, "--dst-node and --dst-gpu: at most %d bytes", CTL_MAX_HOST - 1);
    }
    args.vm = (char *)(uintptr_t)vm;
    args.together = !client;
    args.sms = (unsigned)sms;
    args.memory = memory;
    double begun = seconds_now();
    int code = client ? EXIT_FINE : programs_of(ctl, vm, NULL, &programs, &count);
    if (!code && !client && !count)
        code = complain(ctl, EXIT_NOT_FOUND, "VM %s runs no program that uses a GPU", vm);
    if (!code)
        code = move_all(ctl, &args, client ? &client : programs, client ? 1 : count, 1);
    free(programs);
    if (!code && !ctl->json)
        printf("Time taken: %.3f s\n", seconds_now() - begun);
    return code;
}

int command_move_list(struct flytctl *ctl) { return list_kind(ctl, "move"); }

/* The library decides, so that a move which was called off may have been carried out in the meantime. */
static int say_cancelled(struct flytctl *ctl, const admin_move_row *move)
{
    json_t *members = json_pack("{s:o}", "move", row_move(move));
    const unsigned long long id = move->id, program = move->prog;
    if (move->state == ADMIN_MOVE_DONE)
        return complain_more(ctl, EXIT_BUSY, members,
                             "move %llu could not be called off any more: what was ordered has been done with program"
                             " %llu of %s",
                             id, program, move->vm);
    if (move->cancelled && move->status.code == CTL_DENIED)
        report(ctl, members, "move %llu is called off; program %llu of %s stays as it was", id, program, move->vm);
    else
        report(ctl, members, "move %llu has failed without being called off: %s", id,
               *move->status.text ? move->status.text : "it could not");
    return EXIT_FINE;
}

static int cancel(struct flytctl *ctl, const char *word, uint64_t wait)
{
    const double until = seconds_now() + (double)wait;
    admin_program_args args;
    ctl_plain_result result;
    int code = EXIT_FINE;
    if (!parse_id(ctl, word, &args.id))
        return EXIT_USAGE;
    look_with(ctl, "flytctl move list");
    code = ask(ctl, ADMIN_MOVE_CANCEL, &args, &result);
    *ctl->look = '\0';
    if (code)
        return code;
    protocol_free((xdrproc_t)xdr_ctl_plain_result, &result);
    while (!look(ctl, args.id, say_cancelled, &code)) {
        if (seconds_now() >= until)
            return complain(
                ctl, EXIT_UNKNOWN,
                "move %s is called off, but the program has not said yet whether it has moved: `flytctl move"
                " list` shows it",
                word);
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000 }, NULL);
    }
    return code;
}

int command_move_cancel(struct flytctl *ctl)
{
    uint64_t wait = CANCEL_SECONDS;
    int worst = EXIT_FINE;
    if (!option_number(ctl, "wait", 0, MOST_SECONDS, &wait))
        return EXIT_USAGE;
    for (int i = 0; i < ctl->argc; i++) {
        int code = cancel(ctl, ctl->argv[i], wait);
        worst = worst ? worst : code;
    }
    return worst;
}
