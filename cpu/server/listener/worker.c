/*
 * worker.c: the process that serves one client. It is started in advance, makes the driver ready, says so, and waits
 * for its connection. What the driver and its kernels print goes into memory files (text.h); its own log goes to the
 * listener's stderr. It ends with its client, and the system gives back what it held.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/fd.h"
#include "cpu/common/fd_message.h"
#include "cpu/common/log.h"
#include "cpu/rpc/tls/channel_tls.h"
#include "cpu/rpc/transport/channel.h"
#include "cpu/server/code/image_cache.h"
#include "cpu/server/lanes/lanes.h"
#include "cpu/server/comm/comms.h"
#include "cpu/server/links/links.h"
#include "cpu/server/listener/dial.h"
#include "cpu/server/listener/listener.h"
#include "cpu/server/listener/relay.h"
#include "cpu/server/session.h"
#include "cpu/server/call/notify.h"
#include "cpu/server/memory/bridge.h"
#include "cpu/server/memory/share.h"
#include "cpu/server/call/text.h"
#include "cpu/server/tenant/resize.h"
#include "cpu/server/tenant/tenant.h"
#include "cpu/server/listener/ticket.h"

/* A client that has begun to speak is given so long to come to an end with the handshake, and so long to prove itself,
   however it spends the time. */
enum { WORKER_FILES = 4096 };     /* the software GPU has one for each piece of memory that it has mapped */
enum { WORKER_HANDSHAKE_MS = 5000, WORKER_GREETING_SECONDS = 10, WORKER_UNGREETED = 4 };

/* Reports of a sanitizer build belong to the log, not to the client's stderr. */
#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WORKER_SANITIZED 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || defined WORKER_SANITIZED
void __sanitizer_set_report_fd(void *fd);
static void worker_report_to(int fd) { __sanitizer_set_report_fd((void *)(intptr_t)fd); }
#else
static void worker_report_to(int fd) { (void)fd; }
#endif

static void worker_say(enum worker_word word, const char *text, int multiprocessors)
{
    struct worker_message message;
    memset(&message, 0, sizeof message);
    message.word = word;
    message.multiprocessors = multiprocessors;
    snprintf(message.text, sizeof message.text, "%s", text);
    if (send(WORKER_SOCKET, &message, sizeof message, MSG_NOSIGNAL) < 0)
        log_debug("event=listener-gone");
}

/* 0: the driver does not say. */
static int worker_multiprocessors(const flyt_device *device)
{
    for (u_int i = 0; i < device->attributes.attributes_len; i++)
        if (device->attributes.attributes_val[i].name == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            return device->attributes.attributes_val[i].value;
    return 0;
}

/* What the listener may say. Behind a gift stands what to show for TLS. */
union worker_news {
    int word;
    struct worker_gift gift;
    struct worker_relay relay;
    struct worker_bridge bridge;
    struct worker_lanes lanes;
    struct worker_dialled dialled;
    char bytes[sizeof(struct worker_gift) + RPC_TLS_PEM_MAX];
};

/* The next message of the listener, and the descriptors that came with it; its size, or -1: the listener has gone. */
static ssize_t worker_next(union worker_news *news, int *fds, unsigned *count)
{
    union { struct cmsghdr header; char bytes[RELAY_CONTROL]; } control;
    struct iovec data = { news, sizeof *news };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control };
    ssize_t n;
    do
        n = recvmsg(WORKER_SOCKET, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    *count = n > 0 ? relay_descriptors(&message, fds, SHARE_AT_ONCE) : 0;
    return n > 0 ? n : -1;
}

/* The connection of a gift; -1: it brought none, or not what TLS needs. */
static int gift_unpack(union worker_news *news, size_t size, const int *fds, unsigned count,
                       struct rpc_tls_identity *identity)
{
    const struct worker_gift *gift = &news->gift;
    if (size < sizeof *gift || count != 1)
        return -1;
    char *pem = news->bytes + sizeof *gift;
    size -= sizeof *gift;
    int fd = fds[0];
    if (gift->tls && rpc_tls_identity_unpack(pem, size, identity) < 0) {
        log_error("event=client-refused why=\"the listener sent no certificate\"");
        close(fd);
        fd = -1;
    }
    rpc_tls_wipe(pem, size);
    return fd;
}

/* An end of a bridge may come before the connection, and so before there is a session. */
static struct { int fd; bool departs; struct session *session; } worker_bridge = { .fd = -1 };

static void worker_takes_bridge(const struct worker_bridge *message, size_t size, const int *fds, unsigned count)
{
    bool sound = size == sizeof *message && count == 1;
    if (sound && worker_bridge.session) {
        bridge_open(worker_bridge.session, fds[0], message->departs);
        return;
    }
    if (worker_bridge.fd >= 0)
        close(worker_bridge.fd);
    worker_bridge.fd = sound ? fds[0] : -1;
    worker_bridge.departs = message->departs;
    for (unsigned i = sound ? 1 : 0; i < count; i++)
        close(fds[i]);
}

/* Of a program that leaves, or makes a link, so its session is there. */
static void worker_takes_connections(struct worker_lanes *message, size_t size, const int *fds, unsigned count)
{
    if (size != sizeof *message || !worker_bridge.session) {
        fd_message_close(fds, count);
        return;
    }
    message->address[sizeof message->address - 1] = '\0';
    if (message->word == WORKER_LINKED)
        dial_given(message->address, fds, count);
    else
        lanes_dialled(worker_bridge.session, message->address, fds, count);
}

/* Before its first call is served. */
static void worker_opens_bridge(struct session *session)
{
    worker_bridge.session = session;
    if (worker_bridge.fd >= 0)
        bridge_open(session, worker_bridge.fd, worker_bridge.departs);
    worker_bridge.fd = -1;
}

/* Held while a message of the listener has its effect. */
static pthread_mutex_t worker_hearing = PTHREAD_MUTEX_INITIALIZER;

/* A message of another worker, or nonsense. */
static void worker_takes_relay(const union worker_news *news, ssize_t n, const int *fds, unsigned count)
{
    struct relay_message message = { .count = count };
    memcpy(message.fds, fds, count * sizeof *fds);
    message.relay = news->relay;
    bool whole = n >= (ssize_t)offsetof(struct worker_relay, bytes) && news->word == WORKER_RELAY &&
                 message.relay.size == (size_t)n - offsetof(struct worker_relay, bytes);
    if (whole)
        relay_hear(&message);
    else
        relay_drop(&message);
}

/* True: *fd is a connection that the listener hands over, or -1: the listener has gone, or the connection is of no
   use. */
static bool worker_hears(struct rpc_tls_identity *identity, struct worker_gift *gift, int *fd)
{
    static union worker_news news;
    int fds[SHARE_AT_ONCE];
    unsigned count;
    ssize_t n = worker_next(&news, fds, &count);
    int word = n >= (ssize_t)sizeof news.word ? news.word : 0;
    *fd = -1;
    if (n < 0)
        return true;
    if (word == WORKER_CONNECTION) {
        *fd = gift_unpack(&news, (size_t)n, fds, count, identity);
        *gift = news.gift;
        return true;
    }
    if (word == WORKER_BRIDGE)
        worker_takes_bridge(&news.bridge, (size_t)n, fds, count);
    else if (word == WORKER_LANES || word == WORKER_LINKED)
        worker_takes_connections(&news.lanes, (size_t)n, fds, count);
    else if (word == WORKER_DIALLED && n == sizeof news.dialled)
        dial_hear(&news.dialled, fds, count);
    else
        worker_takes_relay(&news, n, fds, count);
    return false;
}

/* The connection that the listener hands over, and for TLS what to show; -1: the listener has gone. Messages of other
   workers are dealt with meanwhile. */
static int worker_receive(struct rpc_tls_identity *identity, struct worker_gift *gift)
{
    struct pollfd listener = { .fd = WORKER_SOCKET, .events = POLLIN };
    bool done = false;
    int fd = -1;
    while (!done) {
        if (poll(&listener, 1, -1) <= 0)
            continue;                                     /* a signal; nothing is waited for with the lock */
        pthread_mutex_lock(&worker_hearing);
        done = worker_hears(identity, gift, &fd);
        pthread_mutex_unlock(&worker_hearing);
    }
    return fd;
}

/* What the listener sent before has had its effect when this returns, or there is no listener any more. */
static void worker_heard(void)
{
    bool more = true;
    for (int i = 0; i < 5000 && more; i++) {
        struct pollfd listener = { .fd = WORKER_SOCKET, .events = POLLIN };
        pthread_mutex_lock(&worker_hearing);
        more = poll(&listener, 1, 0) > 0 && !(listener.revents & POLLHUP);
        pthread_mutex_unlock(&worker_hearing);
        if (more)
            nanosleep(&(struct timespec){ 0, 200000 }, NULL);
    }
}

/* In place of looking at the ticket, for a client that speaks plainly where TLS is wanted. */
static int worker_refuse_plain(const void *ticket, size_t size, char *refusal)
{
    (void)ticket;
    (void)size;
    snprintf(refusal, TICKET_REFUSAL_SIZE,
             "this address of the server is for TLS: write tls:// in place of tcp://, as the server "
             "prints its address");
    return -1;
}

static struct worker_gift worker_gift;

/* In place of looking at the ticket: this process has no GPU to serve anybody with. */
static int worker_refuse(const void *ticket, size_t size, char *refusal)
{
    if (*worker_gift.refusal)
        snprintf(refusal, TICKET_REFUSAL_SIZE, "%s", worker_gift.refusal);
    else if (!size)
        return ticket_check(ticket, size, refusal);
    else
        snprintf(refusal, TICKET_REFUSAL_SIZE,
                 "the program did not show a pass before it spoke: install the same release of Flyt on both sides");
    return -1;
}

/* Takes over fd. identity: of a connection to a tls:// address; it is not needed afterwards. */
static int worker_open(int fd, struct rpc_tls_identity *identity, size_t host_memory, const char *bar,
                       struct session_options *options, rpc_channel **out)
{
    char error[RPC_ERROR_SIZE] = "";
    bool wanted = identity->key != NULL, spoken = rpc_tls_spoken(fd);
    int status;
    if (wanted && spoken) {
        status = rpc_channel_tls_accept(fd, identity, WORKER_HANDSHAKE_MS, out, error);
        rpc_tls_identity_wipe(identity);
        if (status < 0)
            log_warning("event=client-refused why=\"%s\"", error);
        return status;
    }
    rpc_tls_identity_wipe(identity);
    if (spoken) {
        log_warning("event=client-refused why=\"it speaks TLS to a plain address\": it has to use tcp://, or this "
                    "server --listen tls://");
        close(fd);
        return -EPROTO;
    }
    if (wanted) {
        log_warning(
            "event=client-refused why=\"it does not speak TLS, but this address is tls://\": it has to use tls://");
        options->admit = worker_refuse_plain;
    }
    if (bar && !wanted && rpc_bar_offered(fd, WORKER_HANDSHAKE_MS)) {
        status = rpc_bar_accept(fd, bar, host_memory, WORKER_HANDSHAKE_MS, out, error);
        if (status < 0)
            log_warning("event=client-refused why=\"%s\"", error);
        else if (*error)
            log_info("event=memory-not-shared why=\"%s\"", error);
        return status;
    }
    status = wanted ? rpc_channel_from_fd(fd, out, error) : rpc_channel_accept(fd, host_memory, out, error);
    if (status < 0) {
        log_error("event=client-refused why=\"%s\"", error);
        close(fd);
    }
    return status;
}

/* ---- lanes ---- */

static int worker_lane_open(int fd, void *context, rpc_channel **out, char *error)
{
    struct rpc_tls_identity *identity = context;
    int status = -EINVAL;
    if (fd >= 0)
        status = identity->key ? rpc_channel_tls_accept(fd, identity, WORKER_HANDSHAKE_MS, out, error)
                               : rpc_channel_from_fd(fd, out, error);
    rpc_tls_identity_wipe(identity);
    free(identity);
    return status;
}

/* As a client does it (rpc_lane_connect), over a connection that is there. This process may read no files, so it can
   know a server's certificate by its fingerprint only. */
static int worker_lane_depart(int fd, const char *uri, const uint8_t *hello, size_t size, uint64_t deadline,
                              rpc_channel **out, char *error)
{
    static const struct rpc_tls_files nothing = { NULL, NULL, NULL };
    struct rpc_address address;
    int status = rpc_address_parse(uri, &address, error);
    if (status == 0 && address.kind == RPC_ADDRESS_TLS && !*address.pin)
        status = rpc_explain(error, -EKEYREJECTED, "%s: an address without a fingerprint", uri);
    if (status == 0 && send(fd, hello, size, MSG_NOSIGNAL) != (ssize_t)size)
        status = rpc_explain(error, -ECONNRESET, "%s: the connection has ended", uri);
    if (status == 0 && address.kind == RPC_ADDRESS_TLS)
        return rpc_channel_tls_connect(fd, &address, &nothing, deadline, out, error);
    if (status == 0)
        status = rpc_channel_from_fd(fd, out, error);
    if (status < 0)
        close(fd);
    return status;
}

static const struct lanes_ways worker_lane_ways = { worker_lane_open, worker_lane_depart };

/* Connections that say they belong to this worker's session, and messages of other workers, for as long as there is a
   listener. */
static void *worker_watch(void *context)
{
    struct session *session = context;
    struct worker_gift gift;
    for (;;) {
        struct rpc_tls_identity *identity = calloc(1, sizeof *identity);
        int fd = identity ? worker_receive(identity, &gift) : -1;
        if (fd < 0) {
            free(identity);
            return NULL;
        }
        if (links_accept(session, fd)) {
            rpc_tls_identity_wipe(identity); /* the engine of links makes its own */
            free(identity);
        } else {
            lanes_accept(session, fd, identity);
        }
    }
}

/* Here stderr is the program's, which has ended. */
static int statistics_log;
static void worker_tell_statistics(const char *line) { dprintf(statistics_log, "%s\n", line); }

/* Writes to the log what the software GPU's compiler has done, and what the null device was given: benchmarks compare
   that with what was sent. */
static void worker_tell_counts(const struct gpu *gpu, int log_fd)
{
    struct gpu_null_count count;
    statistics_log = log_fd;
    if (gpu->tell_compiled)
        gpu->tell_compiled(worker_tell_statistics);
    if (strcmp(gpu->kind, "null") != 0)
        return;
    gpu_null_counted(&count);
    log_info("event=null-device launches=%lu copies=%lu memsets=%lu", count.launches, count.copies, count.sets);
}

/* ---- before HELLO ---- */

static atomic_bool greeted;
static char client_numbers[RPC_TLS_NUMBERS_SIZE];
static int late_log = -1;

/* A client of which no worker knows who it is may not keep it, whatever it says in the meantime. */
static void worker_too_late(int number)
{
    static const char text[] = "flyt-worker info: event=client-refused why=\"it did not say HELLO in time\"\n";
    (void)number;
    if (atomic_load(&greeted))
        return;
    if (late_log >= 0 && write(late_log, text, sizeof text - 1) < 0)
        _exit(WORKER_UNGREETED);
    _exit(WORKER_UNGREETED);
}

static void worker_limit_greeting(int log_fd)
{
    struct sigaction action = { .sa_handler = worker_too_late, .sa_flags = SA_RESTART };
    late_log = log_enabled(LOG_LEVEL_INFO) ? log_fd : -1;
    sigaction(SIGALRM, &action, NULL);
    alarm(WORKER_GREETING_SECONDS);
}

static void worker_greeted(void)
{
    atomic_store(&greeted, true);
    alarm(0);
    signal(SIGALRM, SIG_DFL);
    worker_say(WORKER_GREETED, client_numbers, 0);
}

static struct links_ways worker_link_ways = {
    .engine = comm_engine_create,
    .adopt = comm_engine_adopt,
    .register_memory = comm_engine_register,
    .unregister_memory = comm_engine_unregister,
    .create = comm_link_create,
    .listen = comm_link_listen,
    .join = comm_link_join,
    .abort = comm_link_abort,
    .close = comm_link_close,
    .status = comm_link_status,
    .transport = comm_link_transport,
    .channels = comm_link_channels,
    .send = comm_link_send,
    .receive = comm_link_receive,
    .dial = dial_ask,
};

static const struct comms_ways worker_comm_ways = {
    .near_create = comm_near_create,
    .near_drop = comm_near_drop,
    .create = comm_context_create,
    .use_link = comm_context_use_link,
    .use_near = comm_context_use_near,
    .lost = comm_context_lost,
    .abort = comm_context_abort,
    .status = comm_context_status,
    .destroy = comm_context_destroy,
    .agree = comm_context_agree,
    .call = comm_call,
    .call_together = comm_call_together,
    .exchange = comm_exchange,
    .sided_begin = comm_sided_begin,
    .sided_end = comm_sided_end,
    .put = comm_put,
    .await = comm_await,
    .window_add = comm_window_add,
    .window_sizes = comm_window_sizes,
    .window_remove = comm_window_remove,
    .type_size = comm_type_size,
    .recorded = comm_context_recorded,
};

int worker_main(const struct worker_options *worker)
{
    const bool usher = worker->usher;
    struct session_options options = {
        .disposable = true,
        .host_memory = worker->host_memory,
        .admit = usher ? worker_refuse : ticket_check,
        .heard = worker_heard,
        .lane_ways = &worker_lane_ways,
        .greeted = worker_greeted,
        .share_ask = usher ? NULL : relay_ask,
    };
    char error[RPC_ERROR_SIZE] = "";
    const flyt_device *devices;
    int log_fd, count;

    if (worker->tls || (worker->links && !worker->links_ordered))
        rpc_tls_prepare();                                /* before anything else uses OpenSSL */
    log_set_name("flyt-worker");
    prctl(PR_SET_NAME, "cricket-worker");                 /* else it would be called "exe" */
    fd_make_room(WORKER_FILES);                           /* before there are threads */
    options.text = text_capture(&log_fd);
    if (!options.text) {
        worker_say(WORKER_FAILED, "stdout and stderr cannot be captured", 0);
        return 1;
    }
    log_set_fd(log_fd);
    worker_report_to(log_fd);
    if (!usher && tenant_open(error, sizeof error) != 0) {
        worker_say(WORKER_FAILED, error, 0);
        return 1;
    }
    if (gpu_open(worker->gpu, &options.gpu, error) < 0 || devices_snapshot(options.gpu, &devices, &count, error) < 0) {
        worker_say(WORKER_FAILED, error, 0);
        return 3;
    }
    const _Atomic uint64_t *memory;
    const _Atomic uint32_t *sms;
    if (options.gpu->limits && resize_words(&memory, &sms))
        options.gpu->limits(memory, sms);
    options.cache = worker->cache ? image_cache_open(worker->cache) : NULL;
    worker_say(WORKER_READY, options.gpu->kind, count ? worker_multiprocessors(&devices[0]) : 0);

    struct rpc_tls_identity identity = { 0 };
    int fd = worker_receive(&identity, &worker_gift);
    if (fd < 0)
        _exit(0);
    worker_say(WORKER_TAKEN, "", 0);
    if (worker_gift.passed)
        ticket_expect(worker_gift.pass);
    rpc_channel *channel;
    struct session *session;
    worker_limit_greeting(log_fd);
    bool by_tls = identity.key != NULL && rpc_tls_spoken(fd);
    if (worker_open(fd, &identity, worker->host_memory, worker->bar, &options, &channel) != 0)
        _exit(1);
    if (by_tls)
        rpc_channel_tls_numbers(channel, client_numbers);
    if (worker->links_ordered)
        worker_link_ways.dial = dial_await;
    options.link_ways = worker->links && !usher ? &worker_link_ways : NULL;
    options.comm_ways = usher ? NULL : &worker_comm_ways;
    /* A program on the server's own machine may have come without TLS, and its links leave that machine. */
    options.link_tls = by_tls || (worker->links_ordered && worker->tls);
    if (session_create(channel, &options, &session, error) != 0) {
        log_error("event=client-refused why=\"%s\"", error);
        _exit(1);
    }
    relay_open(session);
    worker_opens_bridge(session);
    pthread_t watch;
    if (pthread_create(&watch, NULL, worker_watch, session) != 0)
        log_warning(
            "event=no-lanes why=\"no thread can be started\": large copies share the connection with the calls");
    if (tenant_listen(events_recall, session) != 0)
        log_warning(
            "event=no-recall why=\"no thread can be started\": unused memory of this program cannot be taken back");
    session_run(session);
    worker_tell_counts(options.gpu, log_fd);
    /* Threads may be inside the driver, a kernel may run for an hour: nothing is waited for. */
    _exit(0);
}
