/* answers.c: what the cluster manager's answers mean for the exit code, and for people. */
#include <stdarg.h>
#include <stdio.h>

#include "control-managers/flytctl/flytctl.h"

int exit_of_code(ctl_code code)
{
    switch (code) {
    case CTL_OK:            return EXIT_FINE;
    case CTL_INVALID:       return EXIT_USAGE;
    case CTL_DENIED:        return EXIT_DENIED;
    case CTL_NOT_FOUND:     return EXIT_NOT_FOUND;
    case CTL_EXISTS:        return EXIT_EXISTS;
    case CTL_BUSY:          return EXIT_BUSY;
    case CTL_NO_ROOM:       return EXIT_NO_ROOM;
    case CTL_NOT_SUPPORTED: return EXIT_NOT_SUPPORTED;
    case CTL_DB_AWAY:       return EXIT_DB_AWAY;
    case CTL_UNKNOWN:       return EXIT_UNKNOWN;
    case CTL_LOST:
    case CTL_TIMEOUT:       return EXIT_UNREACHABLE;
    default:                return EXIT_FAILED;
    }
}

int ask(struct flytctl *ctl, uint32_t procedure, const void *args, void *result)
{
    int code = ask_raw(ctl, procedure, args, result);
    if (code)
        return code;
    const ctl_status *status = result;
    if (status->code == CTL_OK)
        return EXIT_FINE;
    code = complain_status(ctl, status);
    protocol_free(protocol_procedures[procedure].result, result);
    return code;
}

/* A listing may have something to say besides. */
static int ask_row(void *context, uint32_t procedure, const void *args, void *result)
{
    int code = ask(context, procedure, args, result);
    const ctl_status *status = result;
    if (!code && *status->text)
        fprintf(stderr, "flytctl: warning: %s\n", status->text);
    return code;
}

struct rows_asker row_asker(struct flytctl *ctl)
{
    return (struct rows_asker){ .ask = ask_row, .context = ctl };
}

int ask_plain(struct flytctl *ctl, uint32_t procedure, const void *args, const char *done, ...)
{
    char text[EXPLAIN_SIZE];
    ctl_plain_result result;
    int code = ask(ctl, procedure, args, &result);
    if (code)
        return code;
    va_list list;
    va_start(list, done);
    vsnprintf(text, sizeof text, done, list);
    va_end(list);
    report(ctl, NULL, "%s", *result.status.text ? result.status.text : text);
    protocol_free((xdrproc_t)xdr_ctl_plain_result, &result);
    return EXIT_FINE;
}
