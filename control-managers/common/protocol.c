#include "control-managers/common/protocol.h"
#include "cpu/common/text.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool_t xdr_ctl_nothing(XDR *xdr, ctl_nothing *object)
{
    (void)xdr, (void)object;
    return TRUE;
}

bool_t protocol_xdr_string(XDR *xdr, char **text, u_int max)
{
    static char nothing[1];
    if (xdr->x_op == XDR_ENCODE && !*text) {
        char *empty = nothing;
        return xdr_string(xdr, &empty, max);
    }
    if (xdr->x_op != XDR_DECODE)
        return xdr_string(xdr, text, max);
    u_int length = 0;
    *text = NULL;
    if (!xdr_bytes(xdr, text, &length, max))
        return FALSE;
    /* xdr_bytes leaves no room for the end, and gives nothing at all for an empty string. */
    char *ended = malloc((size_t)length + 1);
    if (ended && length)
        memcpy(ended, *text, length);
    free(*text);
    *text = ended;
    if (!ended)
        return FALSE;
    ended[length] = '\0';
    if (strlen(ended) != length)
        return FALSE;                           /* freed with the rest by who decodes */
    protocol_text_clean(ended);
    return TRUE;
}

#define PROTOCOL_ENTRY(number, NAME, arguments, outcome)                                                              \
    [number] = { #NAME, (xdrproc_t)xdr_##arguments, (xdrproc_t)xdr_##outcome, sizeof(arguments), sizeof(outcome) },
const struct protocol_procedure protocol_procedures[CTL_LAST_PROCEDURE + 1] = { CTL_PROCEDURES(PROTOCOL_ENTRY) };
#undef PROTOCOL_ENTRY

const struct protocol_procedure *protocol_procedure(uint32_t number)
{
    return number <= CTL_LAST_PROCEDURE && protocol_procedures[number].name ? &protocol_procedures[number] : NULL;
}

bool protocol_copy(xdrproc_t proc, void *dst, size_t size, const void *src)
{
    XDR xdr;
    memset(dst, 0, size);
    unsigned length = (unsigned)xdr_sizeof(proc, (void *)src);
    char *bytes = malloc(length ? length : 1);
    if (!bytes)
        return false;
    xdrmem_create(&xdr, bytes, length, XDR_ENCODE);
    bool copied = proc(&xdr, (void *)src);
    if (copied) {
        xdrmem_create(&xdr, bytes, length, XDR_DECODE);
        copied = proc(&xdr, dst);
        if (!copied) {
            protocol_free(proc, dst);
            memset(dst, 0, size);
        }
    }
    free(bytes);
    return copied;
}

void protocol_free(xdrproc_t proc, void *object)
{
    xdr_free(proc, object);
}

/* ---- names ---- */

const char *protocol_code_name(ctl_code code)
{
    switch (code) {
    case CTL_OK:            return "ok";
    case CTL_WAITING:       return "waiting";
    case CTL_INVALID:       return "invalid";
    case CTL_DENIED:        return "denied";
    case CTL_NOT_FOUND:     return "not-found";
    case CTL_EXISTS:        return "exists";
    case CTL_BUSY:          return "busy";
    case CTL_NO_ROOM:       return "no-room";
    case CTL_NOT_SUPPORTED: return "not-supported";
    case CTL_LOST:          return "lost";
    case CTL_TIMEOUT:       return "timeout";
    case CTL_VERSION:       return "version";
    case CTL_INTERNAL:      return "internal";
    case CTL_DB_AWAY:       return "db-away";
    case CTL_NEIGHBOUR:     return "neighbour-fault";
    case CTL_UNKNOWN:       return "unknown-outcome";
    }
    return "unknown";
}

const char *protocol_server_state_name(ctl_server_state state)
{
    switch (state) {
    case CTL_SERVER_STARTING: return "starting";
    case CTL_SERVER_RUNNING:  return "running";
    case CTL_SERVER_STOPPING: return "stopping";
    case CTL_SERVER_ENDED:    return "ended";
    case CTL_SERVER_FAILED:   return "failed";
    }
    return "unknown";
}

bool protocol_version_fits(ctl_role role, u_int major, u_int minor)
{
    return major == CTL_MAJOR && (role != CTL_ROLE_ADMIN || minor == CTL_MINOR);
}

const char *protocol_role_name(ctl_role role)
{
    switch (role) {
    case CTL_ROLE_NONE:    return "none";
    case CTL_ROLE_NODE:    return "node";
    case CTL_ROLE_CLIENT:  return "client";
    case CTL_ROLE_ADMIN:   return "admin";
    case CTL_ROLE_PROGRAM: return "program";
    case CTL_ROLE_SERVER:  return "server";
    case CTL_ROLE_OPERATOR: return "operator";
    case CTL_ROLE_VIEWER: return "viewer";
    }
    return "unknown";
}

static const struct { unsigned bit; const char *name; } sharings[] = {
    { CTL_SHARING_EXCLUSIVE, "exclusive" }, { CTL_SHARING_MIG, "mig" },
    { CTL_SHARING_TIME_SLICE, "time-slice" }, { CTL_SHARING_MPS, "mps" },
    { CTL_SHARING_ALL, "any" },                 /* for parsing only: must be the last */
};
enum { SHARINGS = sizeof sharings / sizeof sharings[0] };

const char *protocol_sharing_text(unsigned sharing, char *buffer)
{
    *buffer = '\0';
    for (int i = 0; i < SHARINGS - 1; i++)
        if (sharing & sharings[i].bit) {
            size_t at = strlen(buffer);
            snprintf(buffer + at, PROTOCOL_SHARING_SIZE - at, "%s%s", at ? "," : "", sharings[i].name);
        }
    if (!*buffer)
        snprintf(buffer, PROTOCOL_SHARING_SIZE, "none");
    return buffer;
}

unsigned protocol_sharing_parse(const char *text)
{
    unsigned set = 0;
    while (*(text += strspn(text, ", \t"))) {
        size_t length = strcspn(text, ", \t");
        unsigned bit = 0;
        for (int i = 0; i < SHARINGS; i++)
            if (strlen(sharings[i].name) == length && strncasecmp(text, sharings[i].name, length) == 0)
                bit = sharings[i].bit;
        if (!bit)
            return 0;
        set |= bit;
        text += length;
    }
    return set;
}

/* ---- text ---- */

static bool name_character(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("._:-", c));
}

bool protocol_name_valid(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > CTL_MAX_NAME || *name == '-' || *name == '.')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!name_character((unsigned char)name[i]))
            return false;
    return true;
}

bool protocol_address_valid(const char *text)
{
    unsigned char address[16];
    return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

bool protocol_host_valid(const char *text)
{
    bool figures = strspn(text, "0123456789.") == strlen(text);
    return protocol_address_valid(text) || (!figures && protocol_name_valid(text));
}

const char *const protocol_event_kinds[] = {
    "certificate-ends", "certificate-refused", "certificate-renewed",
    "change-failed",   "change-unknown",   "client-away",
    "client-joined",   "command-refused",  "db-away",
    "db-back",         "gpu-degraded",     "gpu-fault",
    "gpu-kept",        "gpu-ready",
    "key-changed",     "key-retired",      "link-refused",     "manager-started",
    "move-advised",    "move-begun",      "move-cancelled",  "move-done",
    "move-failed",     "move-ordered",    "move-taken",
    "node-back",       "node-drained",     "node-added",
    "node-joined",     "node-lost",        "node-removed",
    "node-suspect",    "node-undrained",   "order-failed",
    "peer-cut-off",    "peer-refused",     "program-ended", "program-started", "program-waiting",
    "program-killed",  "program-recovered", "program-refused",  "program-resumed",
    "program-saved",   "program-suspended", "program-unprotected", "recovery-failed", "reload-refused",
    "reloaded",        "secrets-exported", "server-ended",     "server-lost",
    "server-placed",   "server-resized",  "server-restarted", "server-running",
    "server-share",
    "server-stopped",  "server-stopping",  "server-unreached",
    "vm-added",        "vm-changed",       "vm-removed",
    "vm-suspended",    NULL,
};

void protocol_text_clean(char *text)
{
    while (*text) {
        size_t length = text_shown_length(text);
        if (length == 0)
            *text = '?';
        text += length ? length : 1;
    }
}

