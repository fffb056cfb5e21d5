/* color.c: colours of states and severities, for people at a terminal. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control-managers/flytctl/flytctl.h"

/* NO_COLOR (no-color.org) counts unless --color says something else. */
static bool colored(const struct flytctl *ctl)
{
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    if (ctl->color != WHEN_AUTO)
        return ctl->color == WHEN_ALWAYS;
    return !(none && *none) && isatty(STDOUT_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

const char *color_of(const struct flytctl *ctl, const char *key, const char *value)
{
    static const char red[] = "\033[31m", green[] = "\033[32m", yellow[] = "\033[33m";
    static const struct {
        const char *value, *color;
    } words[] = {
        { "up", green },         { "ready", green },      { "running", green },   { "done", green },
        { "suspect", yellow },   { "waiting", yellow },   { "starting", yellow }, { "stopping", yellow },
        { "away", yellow },      { "warning", yellow },   { "degraded", yellow }, { "recovering", yellow },
        { "suspended", yellow }, { "cancelled", yellow }, { "lost", red },        { "faulty", red },
        { "failed", red },       { "error", red },
    };
    if (!colored(ctl) || (strcmp(key, "state") != 0 && strcmp(key, "severity") != 0))
        return "";
    for (size_t i = 0; i < COUNT(words); i++)
        if (strcmp(value, words[i].value) == 0)
            return words[i].color;
    return "";
}

const char *color_title(const struct flytctl *ctl) { return colored(ctl) ? "\033[1m" : ""; }

const char *color_end(const char *begun) { return *begun ? "\033[0m" : ""; }
