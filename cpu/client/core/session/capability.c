/*
 * capability.c: see capability.h. Software is recognised by the files that the process has loaded when it connects.
 * Files that it loads later come too late: what runs on the GPU goes by the capability then. The report names them.
 */
#include "capability.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_session.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/common/env.h"
#include "cpu/common/log.h"

enum { CHOICES = 4, MAJOR = 75, MINOR = 76 };

#define LIST(...) { __VA_ARGS__ }
#define SOFTWARE(name, file, folder, capabilities, reason) { name, file, folder, LIST capabilities, reason },
static const struct software {
    const char *name, *file, *folder;
    unsigned    capabilities[CHOICES];
    const char *reason;
} table[] = {
#include "capability_table.h"
};
enum { ROWS = sizeof table / sizeof table[0] };
_Static_assert(ROWS <= 64, "capability_view has one bit for each row");

/* What was asked for at the last connection. */
static struct { unsigned wanted, row; bool insists, suits; } asked;
/* flyt-nvml speaks for another process. */
static unsigned looks_at;

/* ---- the table ---- */

void capability_note(struct capability_view *view, const char *path)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    for (unsigned r = 0; r < ROWS; r++)
        if (strncmp(file, table[r].file, strlen(table[r].file)) == 0 && strstr(path, table[r].folder))
            view->rows |= UINT64_C(1) << r;
}

static bool row_takes(unsigned row, unsigned capability)
{
    for (unsigned i = 0; i < CHOICES && table[row].capabilities[i]; i++)
        if (table[row].capabilities[i] == capability)
            return true;
    return false;
}

static bool all_take(const struct capability_view *view, unsigned capability)
{
    for (unsigned r = 0; r < ROWS; r++)
        if (view->rows >> r & 1 && !row_takes(r, capability))
            return false;
    return true;
}

unsigned capability_settle(const struct capability_view *view, unsigned *row, bool *suits)
{
    unsigned first = ROWS;
    *suits = true;
    for (unsigned r = 0; r < ROWS; r++) {
        if (!(view->rows >> r & 1))
            continue;
        first = first == ROWS ? r : first;
        for (unsigned i = 0; i < CHOICES && table[r].capabilities[i]; i++)
            if (all_take(view, table[r].capabilities[i])) {
                *row = r;
                return table[r].capabilities[i];
            }
    }
    *suits = first == ROWS;
    *row = first;
    return first == ROWS ? 0 : table[first].capabilities[0];
}

const char *capability_name(unsigned row) { return row < ROWS ? table[row].name : ""; }

unsigned capability_parse(const char *text)
{
    char *end;
    unsigned long major = strtoul(text, &end, 10), minor = 0;
    if (*end == '.') {
        const char *behind = end + 1;
        minor = strtoul(behind, &end, 10);
        if (end == behind)
            return 0;
    } else if (major > 20) {                 /* "121" */
        minor = major % 10;
        major /= 10;
    }
    return *end || end == text || major < 3 || major > 99 || minor > 9 ? 0 : (unsigned)(major * 10 + minor);
}

/* ---- the process ---- */

static int note_object(struct dl_phdr_info *object, size_t size, void *view)
{
    (void)size;
    if (object->dlpi_name && *object->dlpi_name)
        capability_note(view, object->dlpi_name);
    return 0;
}

/* Of another process: what it has mapped. Where that may not be read, nothing is known. */
static void look_at_other(unsigned pid, struct capability_view *view)
{
    char name[64], *line = NULL;
    size_t room = 0;
    snprintf(name, sizeof name, "/proc/%u/maps", pid);
    FILE *maps = fopen(name, "re");
    while (maps && getline(&line, &room, maps) > 0) {
        char *path = strchr(line, '/');
        if (!path)
            continue;
        path[strcspn(path, "\n")] = 0;
        capability_note(view, path);
    }
    free(line);
    if (maps)
        fclose(maps);
}

static void look(struct capability_view *view)
{
    *view = (struct capability_view){ 0 };
    if (looks_at)
        look_at_other(looks_at, view);
    else
        dl_iterate_phdr(note_object, view);
}

void core_speak_for(unsigned pid) { looks_at = pid; }

static uint64_t on_the_wire(unsigned capability, bool insists)
{
    return (uint64_t)(capability | (insists ? FLYT_COMPUTE_INSISTS : 0u)) << FLYT_COMPUTE_SHIFT;
}

uint64_t capability_ask(void)
{
    const char *own = env_get("FLYT_SOFTGPU_CC");
    struct capability_view view;
    memset(&asked, 0, sizeof asked);
    asked.suits = true;
    if (own && *own) {
        asked.wanted = capability_parse(own);
        asked.insists = asked.wanted != 0;
        if (!asked.insists)
            log_warning("FLYT_SOFTGPU_CC=%s is not a compute capability such as 9.0; it is ignored", own);
    }
    if (!asked.insists) {
        look(&view);
        asked.wanted = capability_settle(&view, &asked.row, &asked.suits);
    }
    return on_the_wire(asked.wanted, asked.insists);
}

/* ---- the report ---- */

/* The capability of the first device, times ten; 0: there is none. *software: it is the software GPU. */
static unsigned shown(bool *software)
{
    const struct client_device *device = client_device_find(0);
    int major = 0, minor = 0;
    *software = device && strncmp(device->public.name, "Flyt software GPU", 17) == 0;
    if (!device)
        return 0;
    device_attribute(0, MAJOR, &major);
    device_attribute(0, MINOR, &minor);
    return (unsigned)(major * 10 + minor);
}

uint64_t capability_keep(void)
{
    bool software;
    unsigned is = shown(&software);
    return software ? on_the_wire(is, true) : 0;
}

/* A list such as "12.0 or 9.0". */
static void put_list(char *out, size_t size, unsigned row)
{
    size_t used = 0;
    *out = 0;
    for (unsigned i = 0; i < CHOICES && table[row].capabilities[i] && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%u.%u", i ? " or " : "", table[row].capabilities[i] / 10,
                                 table[row].capabilities[i] % 10);
}

/* Why the device shows what it shows. */
static void put_reason(char *out, size_t size, unsigned is, bool software)
{
    const struct software *row = asked.wanted && !asked.insists ? &table[asked.row] : NULL;
    const unsigned major = asked.wanted / 10, minor = asked.wanted % 10;
    if (!software)
        snprintf(out, size, "the GPU's own");
    else if (asked.insists && is == asked.wanted)
        snprintf(out, size, "from FLYT_SOFTGPU_CC");
    else if (asked.insists)
        snprintf(out, size, "the GPU server's choice; FLYT_SOFTGPU_CC asks for %u.%u, which this server does not obey",
                 major, minor);
    else if (!row)
        snprintf(out, size, "the GPU server's choice; nothing that is loaded asks for another one");
    else if (is == asked.wanted)
        snprintf(out, size, "asked for because %s is loaded%s%s%s", row->name, *row->reason ? ": " : "", row->reason,
                 asked.suits ? "" : "; other software that is loaded asks for another one");
    else
        snprintf(out, size, "the GPU server's choice; %s, which is loaded, asks for %u.%u: %s", row->name, major, minor,
                 row->reason);
}

/* Software that was loaded after the choice and does not work with it; "" if there is none. */
static void put_late(char *out, size_t size, unsigned is)
{
    struct capability_view now;
    char list[64];
    *out = 0;
    look(&now);
    for (unsigned r = 0; r < ROWS; r++)
        if (now.rows >> r & 1 && !row_takes(r, is)) {
            put_list(list, sizeof list, r);
            snprintf(out, size, "%s needs %s", table[r].name, list);
            return;
        }
}

void capability_report(void)
{
    char why[512], late[160];
    bool software;
    unsigned is = shown(&software);
    if (!is)
        return;
    put_reason(why, sizeof why, is, software);
    fprintf(stderr, "flyt: compute capability %u.%u, %s\n", is / 10, is % 10, why);
    put_late(late, sizeof late, is);
    if (software && *late)
        fprintf(stderr, "flyt: %s; FLYT_SOFTGPU_CC makes the choice\n", late);
}

void capability_report_json(void)
{
    char why[512], late[160];
    bool software;
    unsigned is = shown(&software);
    put_reason(why, sizeof why, is, software);
    put_late(late, sizeof late, is);
    fprintf(stderr, ", \"compute\": {\"capability\": \"%u.%u\", \"why\": \"%s\", \"late\": \"%s\"}", is / 10, is % 10,
            is ? why : "", is && software ? late : "");
}

void capability_log(void)
{
    char why[512];
    bool software;
    unsigned is = shown(&software);
    if (!is || !log_enabled(LOG_LEVEL_INFO))
        return;
    put_reason(why, sizeof why, is, software);
    log_info("compute capability %u.%u, %s", is / 10, is % 10, why);
}
