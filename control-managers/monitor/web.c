/* web.c: HTTP, by libmicrohttpd. See monitor.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control-managers/monitor/monitor.h"
#include "cpu/common/log.h"

enum { CONNECTIONS = 256, IDLE_SECONDS = 20, BEAT_SECONDS = 10, MEMORY = 16384 };

/* The page's files, as they stand in the folder. */
#define FILE_IN(name, path)                                                                                       \
    __asm__(".section .rodata\n.global page_" #name "\npage_" #name ":\n.incbin \"control-managers/monitor/" path \
            "\"\n.global page_" #name "_end\npage_" #name "_end:\n.byte 0\n.previous\n");                         \
    extern const char page_##name[], page_##name##_end[]
FILE_IN(html, "page.html");
FILE_IN(css, "page.css");
FILE_IN(js, "page.js");
FILE_IN(icon, "icon.svg");

static const struct {
    const char *path, *type;
    const char *begin, *end;
} files[] = {
    { "/", "text/html; charset=utf-8", page_html, page_html_end },
    { "/page.css", "text/css; charset=utf-8", page_css, page_css_end },
    { "/page.js", "text/javascript; charset=utf-8", page_js, page_js_end },
    { "/icon.svg", "image/svg+xml", page_icon, page_icon_end },
};
static const char json_form[] = "application/json", metrics_form[] = "text/plain; version=0.0.4; charset=utf-8";
static const struct {
    const char *path, *type;
    enum text_kind kind;
} texts[] = {
    { "/metrics", metrics_form, TEXT_METRICS },     { "/metrics/servers", metrics_form, TEXT_SERVER_METRICS },
    { "/api/v1/status", json_form, TEXT_STATUS },   { "/api/v1/nodes", json_form, TEXT_NODES },
    { "/api/v1/gpus", json_form, TEXT_GPUS },       { "/api/v1/vms", json_form, TEXT_VMS },
    { "/api/v1/servers", json_form, TEXT_SERVERS }, { "/api/v1/programs", json_form, TEXT_PROGRAMS },
    { "/api/v1/moves", json_form, TEXT_MOVES },     { "/api/v1/history", json_form, TEXT_HISTORY },
};

static struct MHD_Daemon *web;

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result say(struct MHD_Connection *connection, unsigned status, const char *text)
{
    return answer(connection, status, "text/plain; charset=utf-8",
                  MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT));
}

/* ---- who calls ---- */

/* A page of somebody else, whose name leads to this machine (DNS rebinding), names itself as the host. */
static bool host_is_ours(const struct monitor *monitor, const char *host)
{
    static const char *const loopback[] = { "localhost", "127.0.0.1", "[::1]" };
    size_t length = 0;
    if (!host)
        return false;
    length = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    if (length > strlen(host) || (host[length] && host[length] != ':'))
        return false;
    for (size_t i = 0; i < sizeof loopback / sizeof *loopback; i++)
        if (strlen(loopback[i]) == length && strncasecmp(loopback[i], host, length) == 0)
            return true;
    for (unsigned i = 0; i < monitor->host_count; i++)
        if (strlen(monitor->hosts[i]) == length && strncasecmp(monitor->hosts[i], host, length) == 0)
            return true;
    return false;
}

/* ---- events as they come ---- */

struct event_stream {
    struct monitor *monitor;
    uint64_t after;
    char *left; /* of an event that did not fit */
    size_t at;
};

static ssize_t give_left(struct event_stream *stream, char *buffer, size_t most)
{
    size_t size = strlen(stream->left + stream->at), taken = size < most ? size : most;
    memcpy(buffer, stream->left + stream->at, taken);
    stream->at += taken;
    if (taken == size) {
        free(stream->left);
        stream->left = NULL;
        stream->at = 0;
    }
    return (ssize_t)taken;
}

/* The next event, or a comment when there is none for a while, so that a connection that has ended is noticed. In the
   thread of its connection. */
static ssize_t stream_read(void *context, uint64_t position, char *buffer, size_t most)
{
    struct event_stream *stream = context;
    struct monitor *monitor = stream->monitor;
    struct timespec until;
    (void)position;
    if (stream->left)
        return give_left(stream, buffer, most);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += BEAT_SECONDS;
    pthread_mutex_lock(&monitor->lock);
    while (!monitor->ends && stream->after >= monitor->newest)
        if (pthread_cond_timedwait(&monitor->news, &monitor->lock, &until) == ETIMEDOUT)
            break;
    if (!monitor->ends && stream->after < monitor->newest) {
        if (monitor->newest - stream->after > EVENTS_KEPT)
            stream->after = monitor->newest - EVENTS_KEPT;
        const struct event_text *event = &monitor->events[++stream->after % EVENTS_KEPT];
        bool kept = event->number == stream->after && event->text;
        if (asprintf(&stream->left, "id: %llu\ndata: %s\n\n", (unsigned long long)stream->after,
                     kept ? event->text : "null") < 0)
            stream->left = NULL;
    } else {
        stream->left = strdup(": waiting\n\n");
    }
    bool ends = monitor->ends;
    pthread_mutex_unlock(&monitor->lock);
    if (ends || !stream->left)
        return MHD_CONTENT_READER_END_OF_STREAM;
    return give_left(stream, buffer, most);
}

static void stream_free(void *context)
{
    struct event_stream *stream = context;
    pthread_mutex_lock(&stream->monitor->lock);
    stream->monitor->streams--;
    pthread_mutex_unlock(&stream->monitor->lock);
    free(stream->left);
    free(stream);
}

static enum MHD_Result begin_stream(struct monitor *monitor, struct MHD_Connection *connection)
{
    const char *last = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Last-Event-ID");
    struct event_stream *stream = calloc(1, sizeof *stream);
    pthread_mutex_lock(&monitor->lock);
    bool full = monitor->streams >= monitor->most_streams;
    if (stream && !full) {
        monitor->streams++;
        *stream =
            (struct event_stream){ .monitor = monitor, .after = last ? strtoull(last, NULL, 10) : monitor->newest };
    }
    pthread_mutex_unlock(&monitor->lock);
    if (!stream || full) {
        free(stream);
        return say(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "Too many follow the events.\n");
    }
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, stream_read, stream, stream_free);
    if (!response)
        stream_free(stream);
    return answer(connection, MHD_HTTP_OK, "text/event-stream", response);
}

/* ---- requests ---- */

static enum MHD_Result give_text(struct monitor *monitor, struct MHD_Connection *connection, enum text_kind kind,
                                 const char *type)
{
    struct MHD_Response *response = NULL;
    pthread_mutex_lock(&monitor->lock);
    bool there = monitor->texts[kind].text != NULL;
    if (there)
        response = MHD_create_response_from_buffer(monitor->texts[kind].size, monitor->texts[kind].text,
                                                   MHD_RESPMEM_MUST_COPY);
    pthread_mutex_unlock(&monitor->lock);
    return there ? answer(connection, MHD_HTTP_OK, type, response)
                 : say(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "The cluster manager has not answered yet.\n");
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **state)
{
    struct monitor *monitor = context;
    static int seen;
    (void)version, (void)upload;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Nothing can be changed here.\n");
    if (!*state) { /* the head has come; the body, if any, is not looked at */
        *state = &seen;
        return MHD_YES;
    }
    *upload_size = 0;
    if (!host_is_ours(monitor, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host")))
        return say(connection, MHD_HTTP_MISDIRECTED_REQUEST, "This name is not served; --host allows further names.\n");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(url, files[i].path) == 0)
            return answer(connection, MHD_HTTP_OK, files[i].type,
                          MHD_create_response_from_buffer((size_t)(files[i].end - files[i].begin),
                                                          (void *)(uintptr_t)files[i].begin, MHD_RESPMEM_PERSISTENT));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(url, texts[i].path) == 0)
            return give_text(monitor, connection, texts[i].kind, texts[i].type);
    if (strcmp(url, "/api/v1/events") == 0)
        return begin_stream(monitor, connection);
    return say(connection, MHD_HTTP_NOT_FOUND, "There is nothing of this name.\n");
}

/* ---- begin and end ---- */

/* A socket at a loopback address; -1: why is in *error. */
static int listen_on(const struct monitor *monitor, char *error)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(monitor->port) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(monitor->port) };
    bool is_four = inet_pton(AF_INET, monitor->address, &four.sin_addr) == 1;
    bool is_six = !is_four && inet_pton(AF_INET6, monitor->address, &six.sin6_addr) == 1;
    bool loopback =
        (is_four && ntohl(four.sin_addr.s_addr) >> 24 == 127) || (is_six && IN6_IS_ADDR_LOOPBACK(&six.sin6_addr));
    if (!loopback) {
        snprintf(error, 256,
                 "%s is no loopback address: without TLS this shows the cluster to nobody else; "
                 "use a proxy with TLS, or ssh -L",
                 monitor->address);
        return -1;
    }
    int one = 1, fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr *at = is_four ? (const struct sockaddr *)&four : (const struct sockaddr *)&six;
    socklen_t size = is_four ? sizeof four : sizeof six;
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd >= 0 && bind(fd, at, size) == 0 && listen(fd, CONNECTIONS) == 0)
        return fd;
    snprintf(error, 256, "cannot listen on %s port %u: %s", monitor->address, monitor->port, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

int web_begin(struct monitor *monitor, char *error)
{
    int fd = listen_on(monitor, error);
    if (fd < 0)
        return -1;
    web = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL, 0, NULL,
                           NULL, handle, monitor, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                           (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
                           MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY, MHD_OPTION_END);
    if (!web) {
        snprintf(error, 256, "the web server cannot be started");
        return -1;
    }
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &size) == 0)
        monitor->port = ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port
                                                      : ((struct sockaddr_in6 *)&at)->sin6_port);
    return 0;
}

void web_end(struct monitor *monitor)
{
    pthread_mutex_lock(&monitor->lock);
    monitor->ends = true;
    pthread_cond_broadcast(&monitor->news);
    pthread_mutex_unlock(&monitor->lock);
    if (web)
        MHD_stop_daemon(web);
}
