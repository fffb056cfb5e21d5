/*
 * cmd_logs.c: `flytctl server logs`: what a GPU server has written, wherever it runs or ran. The log comes in pieces
 * from the server's node. What tenants' programs wrote is in it, so that only what a terminal may get is printed; other
 * bytes are shown as \xNN.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control-managers/flytctl/flytctl.h"
#include "cpu/common/text.h"

enum { LOOK_MS = 500, LINE_MOST = 16384 };

const struct option_row logs_options[] = {
    { "follow", 'f', NULL, "print what is added, until the server ends or this is interrupted", false },
    { "tail", 'n', "N", "only the last N lines (all)", false },
    { "previous", 'p', NULL, "what the process before its last restart wrote", false },
    { "node", 0, "NAME", "ask this node, for a server that ended too long ago for its events to be kept", false },
    { 0 },
};

/* A line that is being put together. */
struct log_line {
    struct flytctl *ctl;
    uint64_t server;
    char node[CTL_MAX_NAME + 1];
    char text[LINE_MOST + 1];
    size_t length;
};

/* Makes text of `length` bytes, which a NUL follows, fit for a terminal. `out` has room for four times as much. */
static void clean(const char *text, size_t length, char *out)
{
    size_t used = 0;
    for (size_t at = 0; at < length;) {
        size_t shown = text[at] == '\t' ? 1 : text_shown_length(text + at);
        if (shown && at + shown <= length) {
            memcpy(out + used, text + at, shown);
            used += shown;
            at += shown;
        } else {
            used += (size_t)sprintf(out + used, "\\x%02x", (unsigned char)text[at++]);
        }
    }
    out[used] = '\0';
}

static void print_line(struct log_line *line)
{
    static char out[4 * LINE_MOST + 1];
    if (line->length && line->text[line->length - 1] == '\r')
        line->length--;
    line->text[line->length] = '\0';
    clean(line->text, line->length, out);
    if (line->ctl->json)
        print_data_line(line->ctl, json_pack("{s:I, s:s, s:s}", "server", (json_int_t)line->server, "node", line->node,
                                             "text", out));
    else
        puts(out);
    line->length = 0;
}

static void take_text(struct log_line *line, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '\n')
            line->text[line->length++] = text[i];
        if (text[i] == '\n' || line->length == LINE_MOST)
            print_line(line);
    }
}

/* The process of its server began anew since the last look: what the one before it has written until its end. */
static void print_rest(struct log_line *line, const admin_log_args *args)
{
    admin_log_args rest = *args;
    bool all = false;
    rest.wish.previous = 1;
    while (!all) {
        admin_log_result result;
        if (ask_raw(line->ctl, ADMIN_LOG, &rest, &result))
            return;
        const ctl_log_piece *piece = &result.piece;
        bool same = piece->file == args->wish.file || piece->ended; /* what is kept has its old offsets, or was cut */
        all = result.status.code != CTL_OK || !same || piece->from != rest.wish.from || !piece->text.text_len;
        if (!all)
            take_text(line, piece->text.text_val, piece->text.text_len);
        rest.wish.from += piece->text.text_len;
        protocol_free((xdrproc_t)xdr_admin_log_result, &result);
    }
}

/* Where the cluster manager came back a moment ago, the server's node may come later. */
static int ask_piece(struct flytctl *ctl, const admin_log_args *args, admin_log_result *result)
{
    for (;;) {
        int code = ask_raw(ctl, ADMIN_LOG, args, result);
        ctl_code said = code ? CTL_OK : result->status.code;
        bool away = said == CTL_LOST || said == CTL_TIMEOUT || said == CTL_NOT_FOUND;
        if (said == CTL_OK)
            return code;
        if (!away || !session_settles(ctl))
            code = complain_status(ctl, &result->status);
        protocol_free((xdrproc_t)xdr_admin_log_result, result);
        if (code)
            return code;
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000 }, NULL);
    }
}

/* Prints what there is from `wish` on, and makes it say what comes next. */
static int print_log(struct log_line *line, admin_log_args *args, bool *ended)
{
    for (;;) {
        admin_log_result result;
        int code = ask_piece(line->ctl, args, &result);
        if (code)
            return code;
        const ctl_log_piece *piece = &result.piece;
        bool anew = args->wish.file && !args->wish.lines && piece->from < args->wish.from;
        if (anew && args->wish.from != CTL_LOG_END) {
            print_rest(line, args);
            if (line->length)
                print_line(line);
            fflush(stdout);
            fprintf(stderr, "flytctl: the log was cut, or its server's process began anew\n");
        }
        snprintf(line->node, sizeof line->node, "%s", result.node);
        take_text(line, piece->text.text_val, piece->text.text_len);
        args->wish.file = piece->file;
        args->wish.from = piece->from + piece->text.text_len;
        args->wish.lines = 0;
        *ended = piece->ended != 0;
        bool all = !piece->text.text_len || args->wish.from >= piece->size;
        protocol_free((xdrproc_t)xdr_admin_log_result, &result);
        if (all || ferror(stdout))
            return EXIT_FINE;
    }
}

int command_server_logs(struct flytctl *ctl)
{
    uint64_t lines = UINT32_MAX;
    struct log_line line = { .ctl = ctl };
    const char *node = option(ctl, "node");
    admin_log_args args = { .wish = { .previous = option_count(ctl, "previous") > 0 },
                            .node = (char *)(uintptr_t)(node ? node : "") };
    bool follow = option_count(ctl, "follow") > 0, ended = false;
    if (!parse_id(ctl, ctl->argv[0], &line.server) || !option_number(ctl, "tail", 0, UINT32_MAX - 1, &lines))
        return EXIT_USAGE;
    if (follow && args.wish.previous)
        return complain(ctl, EXIT_USAGE, "nothing is added to a previous log: --follow does not go with --previous");
    if (follow)
        session_lasts(ctl);
    args.wish.server = line.server;
    if (lines == 0)
        args.wish.from = CTL_LOG_END;
    else if (lines < UINT32_MAX)
        args.wish.lines = (u_int)lines;
    int code = print_log(&line, &args, &ended);
    while (!code && follow && !ended && !ferror(stdout)) {
        fflush(stdout);
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000 }, NULL);
        code = print_log(&line, &args, &ended);
    }
    if (line.length)
        print_line(&line);
    return code;
}
