/*
 * web.c: HTTP, by libmicrohttpd. See monitor.h.
 *
 * A request goes through three gates: its method (GET, HEAD), its host, and who calls (access.h). Whoever has no right
 * to a path learns nothing but that. The page's own files show nothing of the cluster, and everybody may have them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control-managers/monitor/access.h"
#include "control-managers/monitor/connections.h"
#include "control-managers/monitor/metrics.h"
#include "control-managers/monitor/monitor.h"
#include "control-managers/monitor/streams.h"
#include "control-managers/monitor/web_tls.h"
#include "cpu/common/log.h"

enum {
    CONNECTIONS = 2048,
    OTHERS = 2, /* one of so many connections is for callers that do not follow the events */
    OF_ONE_HOST = 256,
    THREADS = 4,
    MEMORY = 16384,
    STACK = 256 * 1024,
    SEND_BUFFER = 128 * 1024, /* of a connection in the kernel, which doubles it */
    HELD_TIMES = 4, /* so often what the newest texts have, and as much beside, slow readers may hold */
    HELD_ALWAYS = 64 << 20,
    SPARE_FILES = 64
};

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
/* The right that a path needs: to samples; to rows, of which a VM gets its own; to figures of the whole cluster. */
enum needs { NEEDS_METRICS, NEEDS_ROWS, NEEDS_CLUSTER };
static const struct {
    const char *path, *type;
    enum text_kind kind;
    enum needs needs;
} texts[] = {
    { "/metrics", metrics_form, TEXT_METRICS, NEEDS_METRICS },
    { "/metrics/servers", metrics_form, TEXT_SERVER_METRICS, NEEDS_METRICS },
    { "/metrics/programs", metrics_form, TEXT_PROGRAM_METRICS, NEEDS_METRICS },
    { "/api/v1/status", json_form, TEXT_STATUS, NEEDS_CLUSTER },
    { "/api/v1/nodes", json_form, TEXT_NODES, NEEDS_CLUSTER },
    { "/api/v1/gpus", json_form, TEXT_GPUS, NEEDS_CLUSTER },
    { "/api/v1/vms", json_form, TEXT_VMS, NEEDS_ROWS },
    { "/api/v1/servers", json_form, TEXT_SERVERS, NEEDS_ROWS },
    { "/api/v1/programs", json_form, TEXT_PROGRAMS, NEEDS_ROWS },
    { "/api/v1/moves", json_form, TEXT_MOVES, NEEDS_ROWS },
    { "/api/v1/history", json_form, TEXT_HISTORY, NEEDS_CLUSTER },
};

/* keys: what web_reload replaces. */
static struct {
    struct MHD_Daemon *daemon;
    int fd;
    pthread_rwlock_t keys;
    struct web_tls *tls;
    struct access_tokens *tokens;
} web = { .fd = -1, .keys = PTHREAD_RWLOCK_INITIALIZER };

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
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"flyt\"");
    if (status >= MHD_HTTP_BAD_REQUEST) /* a refused caller's connection is closed: others want its place */
        MHD_add_response_header(response, "Connection", "close");
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

/* Without TLS and without tokens everybody who reaches the loopback address may look. */
static bool rights_of(const struct monitor *monitor, struct MHD_Connection *connection, struct access_rights *rights)
{
    pthread_rwlock_rdlock(&web.keys);
    bool good =
        (web.tls && web_tls_rights(web.tls, connection, rights)) ||
        access_by_token(web.tokens, MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization"), rights);
    pthread_rwlock_unlock(&web.keys);
    return good || (!monitor->web_folder && !monitor->tokens && access_of_role("viewer", false, rights));
}

static bool may(const struct access_rights *rights, enum needs needs)
{
    switch (needs) {
    case NEEDS_METRICS: return rights->metrics;
    case NEEDS_ROWS: return rights->rows;
    case NEEDS_CLUSTER: return rights->cluster;
    }
    return false;
}

/* ---- requests ---- */

/* The latest text of that kind, held for the caller; NULL: none was made yet. While the cluster manager is away, old
   samples would look like new ones: then metrics have nothing but its flyt_up of 0. */
static struct monitor_text *hold_text(struct monitor *monitor, enum text_kind kind, bool *away, uint64_t *age)
{
    pthread_mutex_lock(&monitor->lock);
    *away = monitor_away(monitor, age);
    struct monitor_text *text = text_hold(monitor->texts[kind]);
    pthread_mutex_unlock(&monitor->lock);
    if (!text || !*away || kind > TEXT_PROGRAM_METRICS)
        return text;
    text_release(text);
    struct metrics *metrics = metrics_create();
    size_t size = 0;
    if (metrics && kind == TEXT_METRICS)
        metrics_of_components(metrics, false);
    char *bytes = metrics ? metrics_end(metrics, &size) : NULL;
    return text_make(bytes, size);
}

static enum MHD_Result give_text(struct monitor *monitor, struct MHD_Connection *connection, enum text_kind kind,
                                 const char *type, const char *vm)
{
    size_t size = 0;
    uint64_t age;
    bool away;
    char seconds[24];
    struct monitor_text *text = hold_text(monitor, kind, &away, &age);
    if (!text)
        return say(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "The cluster manager has not answered yet.\n");
    if (*vm) {
        struct monitor_text *part = type == json_form ? text_rows_of_vm(text, vm) : text_samples_of_vm(text, vm);
        text_release(text);
        text = part;
    }
    if (!text)
        return MHD_NO;
    const char *bytes = text_bytes(text, &size);
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback_cls(size, (void *)(uintptr_t)bytes, text_release, text);
    if (!response) {
        text_release(text);
        return MHD_NO;
    }
    snprintf(seconds, sizeof seconds, "%llu", (unsigned long long)age);
    MHD_add_response_header(response, "Flyt-Manager", away ? "away" : "up");
    MHD_add_response_header(response, "Flyt-Age", seconds);
    return answer(connection, MHD_HTTP_OK, type, response);
}

/* Who the caller is, for the page. The names have nothing that JSON would escape. */
static enum MHD_Result give_caller(struct MHD_Connection *connection, const struct access_rights *rights)
{
    char text[256];
    snprintf(text, sizeof text, "{\"role\":\"%s\",\"vm\":\"%s\"}", rights->role, rights->vm);
    return answer(connection, MHD_HTTP_OK, json_form,
                  MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result give_events(struct monitor *monitor, struct MHD_Connection *connection,
                                   const struct access_rights *rights)
{
    struct MHD_Response *response = stream_begin(monitor, connection, rights);
    if (!response)
        return say(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "Too many follow the events.\n");
    connections_follow(connection);
    return answer(connection, MHD_HTTP_OK, "text/event-stream", response);
}

static enum MHD_Result refuse(struct MHD_Connection *connection)
{
    return say(connection, MHD_HTTP_FORBIDDEN, "This certificate or token is not for that.\n");
}

static enum MHD_Result give(struct monitor *monitor, struct MHD_Connection *connection, const char *url)
{
    struct access_rights rights;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(url, files[i].path) == 0)
            return answer(connection, MHD_HTTP_OK, files[i].type,
                          MHD_create_response_from_buffer((size_t)(files[i].end - files[i].begin),
                                                          (void *)(uintptr_t)files[i].begin, MHD_RESPMEM_PERSISTENT));
    if (!rights_of(monitor, connection, &rights))
        return say(connection, MHD_HTTP_UNAUTHORIZED, "This takes a certificate or a token.\n");
    if (!monitor->programs && strcmp(url, "/metrics/programs") == 0)
        return say(connection, MHD_HTTP_NOT_FOUND, "Metrics of programs are off: metrics.programs = true.\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(url, texts[i].path) == 0)
            return may(&rights, texts[i].needs)
                       ? give_text(monitor, connection, texts[i].kind, texts[i].type, rights.vm)
                       : refuse(connection);
    if (strcmp(url, "/api/v1/me") == 0)
        return give_caller(connection, &rights);
    if (strcmp(url, "/api/v1/events") == 0)
        return may(&rights, NEEDS_ROWS) ? give_events(monitor, connection, &rights) : refuse(connection);
    return say(connection, MHD_HTTP_NOT_FOUND, "There is nothing of this name.\n");
}

struct request_headers {
    unsigned hosts, lengths;
};

static enum MHD_Result count_header(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct request_headers *named = context;
    (void)kind, (void)value;
    named->hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    named->lengths += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0 ||
                      strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
    return MHD_YES;
}

/* Somebody in between could understand the request otherwise: RFC 9112, 3.2 and 6.3. */
static bool is_ambiguous(struct MHD_Connection *connection)
{
    struct request_headers named = { 0 };
    MHD_get_connection_values(connection, MHD_HEADER_KIND, count_header, &named);
    return named.hosts > 1 || named.lengths > 1;
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **state)
{
    struct monitor *monitor = context;
    static int seen;
    (void)version, (void)upload;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Nothing can be changed here.\n");
    if (is_ambiguous(connection))
        return say(connection, MHD_HTTP_BAD_REQUEST, "Host, or the length of the body, is given more than once.\n");
    if (!*state) { /* the head has come; the body, if any, is not looked at */
        *state = &seen;
        return MHD_YES;
    }
    *upload_size = 0;
    connections_request(connection);
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    if (!access_host_fits(host, monitor->hosts, monitor->host_count))
        return say(connection, MHD_HTTP_MISDIRECTED_REQUEST, "This name is not served; --host allows further names.\n");
    return give(monitor, connection, url);
}

/* No path that is served has anything escaped, and "/page.js%00x" must not become one that is. */
static size_t leave_escaped(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context, (void)connection;
    return strlen(text);
}

/* ---- begin and end ---- */

/* A socket, at a loopback address unless it speaks TLS; -1: why is in *error. */
static int listen_on(const struct monitor *monitor, char *error)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(monitor->port) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(monitor->port) };
    bool is_four = inet_pton(AF_INET, monitor->address, &four.sin_addr) == 1;
    bool is_six = !is_four && inet_pton(AF_INET6, monitor->address, &six.sin6_addr) == 1;
    bool loopback =
        (is_four && ntohl(four.sin_addr.s_addr) >> 24 == 127) || (is_six && IN6_IS_ADDR_LOOPBACK(&six.sin6_addr));
    if (!is_four && !is_six) {
        snprintf(error, 256, "%s is no loopback address, nor any other", monitor->address);
        return -1;
    }
    if (!loopback && !monitor->web_folder) {
        snprintf(error, 256,
                 "%s is no loopback address: without TLS this shows the cluster to nobody else; "
                 "give it certificates (--web-tls), or use a proxy with TLS, or ssh -L",
                 monitor->address);
        return -1;
    }
    int one = 1, buffer = SEND_BUFFER, fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr *at = is_four ? (const struct sockaddr *)&four : (const struct sockaddr *)&six;
    socklen_t size = is_four ? sizeof four : sizeof six;
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd >= 0) /* connections have it from here. Left to itself, the kernel keeps megabytes for each slow reader */
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    if (fd >= 0 && bind(fd, at, size) == 0 && listen(fd, CONNECTIONS) == 0)
        return fd;
    snprintf(error, 256, "cannot listen on %s port %u: %s", monitor->address, monitor->port, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* As many as are allowed. */
static void allow_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < 8 * CONNECTIONS ? limit.rlim_max : 8 * CONNECTIONS;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static unsigned most_connections(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= CONNECTIONS + SPARE_FILES)
        return CONNECTIONS;
    return limit.rlim_cur > 2 * SPARE_FILES ? (unsigned)limit.rlim_cur - SPARE_FILES : SPARE_FILES;
}

/* Serves at web.fd. false: it cannot. */
static bool serve(struct monitor *monitor)
{
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    /* Without TLS all callers have the loopback address. */
    const struct MHD_OptionItem with_tls[] = {
        { MHD_OPTION_HTTPS_MEM_CERT, 0, web.tls ? (void *)(uintptr_t)web_tls_certificate(web.tls) : NULL },
        { MHD_OPTION_HTTPS_MEM_KEY, 0, web.tls ? (void *)(uintptr_t)web_tls_key(web.tls) : NULL },
        { MHD_OPTION_HTTPS_MEM_TRUST, 0, web.tls ? (void *)(uintptr_t)web_tls_ca(web.tls) : NULL },
        { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3" },
        { MHD_OPTION_PER_IP_CONNECTION_LIMIT, OF_ONE_HOST, NULL },
        { MHD_OPTION_END, 0, NULL },
    };
    static const struct MHD_OptionItem without[] = { { MHD_OPTION_END, 0, NULL } };
    streams_open(monitor);
    web.daemon = MHD_start_daemon(
        flags | (web.tls ? MHD_USE_TLS : 0), 0, NULL, NULL, handle, monitor, MHD_OPTION_LISTEN_SOCKET, web.fd,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS, MHD_OPTION_CONNECTION_LIMIT, most_connections(),
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)REQUEST_SECONDS, MHD_OPTION_NOTIFY_CONNECTION, connections_notice,
        NULL, MHD_OPTION_NOTIFY_COMPLETED, connections_answered, NULL, MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped,
        NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK,
        MHD_OPTION_ARRAY, web.tls ? with_tls : without, MHD_OPTION_END);
    return web.daemon != NULL;
}

/* Each second. Slow readers hold old texts: a new one every few seconds, for as long as an answer may take. */
static void beat(void *context)
{
    struct monitor *monitor = context;
    size_t newest = 0, size;
    streams_beat(monitor);
    pthread_mutex_lock(&monitor->lock);
    for (int i = 0; i < TEXTS; i++)
        if (monitor->texts[i] && text_bytes(monitor->texts[i], &size))
            newest += size;
    pthread_mutex_unlock(&monitor->lock);
    if (texts_held() > HELD_TIMES * newest + HELD_ALWAYS)
        connections_hurry();
}

/* What the options name. 0; or -1 and *error (256 bytes). */
static int load_keys(const struct monitor *monitor, struct web_tls **tls, struct access_tokens **tokens, char *error)
{
    *tls = NULL;
    *tokens = NULL;
    if (monitor->web_folder && web_tls_load(monitor->web_folder, tls, error) != 0)
        return -1;
    if (monitor->tokens && access_tokens_load(monitor->tokens, tokens, error) != 0) {
        web_tls_free(*tls);
        return -1;
    }
    return 0;
}

int web_begin(struct monitor *monitor, char *error)
{
    allow_files();
    if (load_keys(monitor, &web.tls, &web.tokens, error) != 0)
        return -1;
    web.fd = listen_on(monitor, error);
    if (web.fd < 0)
        return -1;
    if (!connections_begin(most_connections() / OTHERS, beat, monitor) || !serve(monitor)) {
        snprintf(error, 256, "the web server cannot be started");
        return -1;
    }
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    if (getsockname(web.fd, (struct sockaddr *)&at, &size) == 0)
        monitor->port = ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port
                                                      : ((struct sockaddr_in6 *)&at)->sin6_port);
    return 0;
}

/* Its sockets are closed, also the one at which it listens. */
static void stop(struct monitor *monitor)
{
    streams_close(monitor);
    if (web.daemon)
        MHD_stop_daemon(web.daemon);
    web.daemon = NULL;
}

/* Tokens may have been taken back, so all streams of events end. Callers that still have the right connect again. */
void web_reload(struct monitor *monitor)
{
    struct web_tls *tls;
    struct access_tokens *tokens;
    char error[256];
    if (load_keys(monitor, &tls, &tokens, error) != 0) {
        log_error("event=reload-refused why=\"%s\": what was there before still holds", error);
        return;
    }
    if (tls) /* its own certificate is given to the web server at its start */
        stop(monitor);
    pthread_rwlock_wrlock(&web.keys);
    struct web_tls *old_tls = web.tls;
    struct access_tokens *old_tokens = web.tokens;
    web.tls = tls;
    web.tokens = tokens;
    pthread_rwlock_unlock(&web.keys);
    if (!tls)
        streams_end(monitor);
    if (tls && ((web.fd = listen_on(monitor, error)) < 0 || !serve(monitor)))
        log_error("event=web-gone why=\"%s\": it is tried again at the next reload",
                  web.fd < 0 ? error : "the web server cannot be started");
    web_tls_free(old_tls);
    access_tokens_free(old_tokens);
    log_info("event=reloaded");
}

void web_end(struct monitor *monitor)
{
    stop(monitor);
    connections_end();
    web_tls_free(web.tls);
    access_tokens_free(web.tokens);
}
