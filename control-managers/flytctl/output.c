/* output.c: JSON for programs, and complaints. Tables are in table.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control-managers/flytctl/flytctl.h"

/* ---- a line that changes ---- */

static bool line_shown;

static void end_line(void)
{
    if (line_shown)
        fprintf(stderr, "\r\033[K");
    line_shown = false;
}

void show_line(struct flytctl *ctl, const char *format, ...)
{
    char text[256];
    va_list list;
    if (ctl->json || !isatty(STDERR_FILENO))
        return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    text[strcspn(text, "\n")] = '\0';
    fprintf(stderr, "\r%.78s\033[K", text);
    fflush(stderr);
    line_shown = true;
}

/* ---- complaints and reports ---- */

static const char *exit_name(int code)
{
    static const char *const names[] = { "ok",         "failed",  "usage",          "unreachable", "denied",
                                         "not-found",  "exists",  "busy",           "no-room",     "not-supported",
                                         "bad-config", "db-away", "unknown-outcome" };
    return code >= 0 && code < (int)COUNT(names) ? names[code] : "failed";
}

static int say_complaint(struct flytctl *ctl, int code, json_t *members, const char *format, va_list list)
{
    char text[2 * EXPLAIN_SIZE];
    vsnprintf(text, sizeof text, format, list);
    end_line();
    if (ctl->hushed && session_hushes(code)) {
        json_decref(members);
        return code;
    }
    fprintf(stderr, "flytctl: %s\n", text);
    if (ctl->json) {
        json_t *object = json_pack("{s:b, s:s, s:i, s:o}", "ok", 0, "error", exit_name(code), "exit", code, "message",
                                   json_text(text));
        json_object_update(object, members);
        print_data(ctl, object);
    }
    json_decref(members);
    return code;
}

int complain(struct flytctl *ctl, int code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say_complaint(ctl, code, NULL, format, list);
    va_end(list);
    return code;
}

int complain_more(struct flytctl *ctl, int code, json_t *members, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say_complaint(ctl, code, members, format, list);
    va_end(list);
    return code;
}

int complain_status(struct flytctl *ctl, const ctl_status *status)
{
    int code = exit_of_code(status->code);
    return complain(ctl, code ? code : EXIT_FAILED, "%s%s",
                    *status->text ? status->text : "the cluster manager refused: ",
                    *status->text ? "" : protocol_code_name(status->code));
}

void report(struct flytctl *ctl, json_t *members, const char *format, ...)
{
    char text[2 * EXPLAIN_SIZE];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    end_line();
    if (ctl->json) {
        json_t *object = json_pack("{s:b, s:o}", "ok", 1, "message", json_text(text));
        json_object_update(object, members);
        print_data(ctl, object);
    } else {
        printf("%s\n", text);
    }
    json_decref(members);
}

/* ---- JSON ---- */

void print_json(json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(json);
}

void print_data(const struct flytctl *ctl, json_t *json)
{
    if (ctl->form != FORM_YAML) {
        print_json(json);
        return;
    }
    print_yaml(json);
    json_decref(json);
}

void print_data_line(const struct flytctl *ctl, json_t *json)
{
    if (ctl->form == FORM_YAML) {
        printf("---\n");
        print_yaml(json);
    } else {
        json_dumpf(json, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
        putchar('\n');
    }
    fflush(stdout);
    json_decref(json);
}
