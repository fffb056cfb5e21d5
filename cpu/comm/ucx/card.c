/*
 * card.c: what a card has of UCX: a context for its devices, a worker with its address, and progress.
 *
 * Sleeping. The thread of the card sleeps only after comm_ucx_rest has armed the worker: then whatever comes makes its
 * descriptor readable. A thread that gives UCX something meanwhile, which is not complete at once, signals the worker,
 * as UCX may need progress for it that no event announces.
 */
#include "cpu/comm/ucx/ucx_state.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ROUNDS: calls of ucp_worker_progress in a row, then others have their turn with the lock. */
enum { ROUNDS = 64, LEAVE_MS = 200, DEVICES_SIZE = 512 };

/* ---- devices ---- */

/* The first word of a file of the system, such as a name. False: there is none. */
static bool read_word(const char *path, char word[64])
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool got = fscanf(file, "%63s", word) == 1;
    fclose(file);
    return got;
}

static void add_device(char devices[DEVICES_SIZE], const char *name, const char *port)
{
    char word[160];
    size_t size = strlen(devices);
    snprintf(word, sizeof word, ",%s:%s", name, port);
    if (!strstr(devices, word) && size + strlen(word) < DEVICES_SIZE)
        strcpy(devices + size, word);
}

/* RoCE: ports of RDMA devices, one of whose addresses belongs to this interface. */
static void add_roce(const char *interface, char devices[DEVICES_SIZE])
{
    glob_t found;
    if (glob("/sys/class/infiniband/*/ports/*/gid_attrs/ndevs/*", GLOB_NOSORT, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char word[64], name[64], port[16];
        if (read_word(found.gl_pathv[i], word) && strcmp(word, interface) == 0 &&
            sscanf(found.gl_pathv[i], "/sys/class/infiniband/%63[^/]/ports/%15[^/]/", name, port) == 2)
            add_device(devices, name, port);
    }
    globfree(&found);
}

/* InfiniBand: the device whose port the interface is. */
static void add_infiniband(const char *interface, char devices[DEVICES_SIZE])
{
    glob_t found;
    char path[128], word[64], port[24];
    snprintf(path, sizeof path, "/sys/class/net/%s/dev_port", interface);
    if (!read_word(path, word))
        return;
    snprintf(port, sizeof port, "%ld", strtol(word, NULL, 10) + 1);
    snprintf(path, sizeof path, "/sys/class/net/%s/device/infiniband/*", interface);
    if (glob(path, GLOB_NOSORT, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        add_device(devices, strrchr(found.gl_pathv[i], '/') + 1, port);
    globfree(&found);
}

/* UCX's names of what the interface has: itself, for TCP, and its ports for RDMA. */
static void devices_of(const char *interface, char devices[DEVICES_SIZE])
{
    snprintf(devices, DEVICES_SIZE, "%s", interface);
    add_roce(interface, devices);
    add_infiniband(interface, devices);
}

/* ---- opening ---- */

static int explain(char *error, const struct comm_ucx *u, const char *what, ucs_status_t status)
{
    return rpc_explain(error, -ENODEV, "links by UCX: %s for %s: %s (UCX_LOG_LEVEL=info tells more)", what,
                       *u->name ? u->name : "this process", u->ucx->ucs_status_string(status));
}

static int open_context(struct comm_ucx *u, char *error)
{
    const ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                                  .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                                  .mt_workers_shared = 0 };
    ucp_config_t *config;
    ucs_status_t status = u->ucx->ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return explain(error, u, "its settings (UCX_…)", status);
    if (*u->name && !getenv("UCX_NET_DEVICES")) {
        char devices[DEVICES_SIZE];
        devices_of(u->name, devices);
        status = u->ucx->ucp_config_modify(config, "NET_DEVICES", devices);
    }
    if (status == UCS_OK)
        status = u->ucx->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &u->context);
    u->ucx->ucp_config_release(config);
    return status == UCS_OK ? 0 : explain(error, u, "no transport", status);
}

static ucs_status_t hear(struct comm_ucx *u, unsigned id, ucp_am_recv_callback_t callback)
{
    const ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = id,
        .flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA,
        .cb = callback,
        .arg = u
    };
    return u->ucx->ucp_worker_set_am_recv_handler(u->worker, &param);
}

static int open_worker(struct comm_ucx *u, char *error)
{
    const ucp_worker_params_t params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SERIALIZED };
    ucs_status_t status = u->ucx->ucp_worker_create(u->context, &params, &u->worker);
    if (status != UCS_OK) {
        u->worker = NULL;
        return explain(error, u, "no worker", status);
    }
    status = hear(u, UCX_DATA, ucx_heard_data);
    if (status == UCS_OK)
        status = hear(u, UCX_ACK, ucx_heard_ack);
    if (status == UCS_OK)
        status = hear(u, UCX_HELLO, ucx_heard_hello);
    if (status == UCS_OK)
        status = u->ucx->ucp_worker_get_efd(u->worker, &u->fd);
    if (status == UCS_OK)
        status = u->ucx->ucp_worker_get_address(u->worker, &u->address, &u->address_size);
    return status == UCS_OK ? 0 : explain(error, u, "no worker that can sleep", status);
}

int comm_ucx_open(const char *interface, struct comm_ucx **out, char *error)
{
    unsigned release;
    const struct ucx_library *library = ucx_library(error);
    if (!library)
        return -ENOPKG;
    struct comm_ucx *u = calloc(1, sizeof *u);
    if (!u)
        return rpc_explain(error, -ENOMEM, "links by UCX: no memory");
    u->ucx = library;
    u->fd = -1;
    snprintf(u->name, sizeof u->name, "%s", interface ? interface : "");
    pthread_mutex_init(&u->lock, NULL);
    pthread_cond_init(&u->changed, NULL);
    library->ucp_get_version(&u->version[0], &u->version[1], &release);
    int status = open_context(u, error);
    if (status == 0)
        status = open_worker(u, error);
    if (status < 0)
        comm_ucx_close(u);
    else
        *out = u;
    return status;
}

/* Cards whose worker could not be ended. They stay until the process ends. */
static struct { pthread_mutex_t lock; struct comm_ucx *first; } left = { PTHREAD_MUTEX_INITIALIZER, NULL };

/* What UCX still has to do gets a moment. Through memory it waits without end for a peer that was killed, and UCX ends
   the process when such a worker is destroyed: false, and it stays as it is. */
static bool close_worker(struct comm_ucx *u)
{
    uint64_t until = clock_now() + LEAVE_MS * CLOCK_NS_PER_MS;
    pthread_mutex_lock(&u->lock);
    while (list_first(&u->buried) && clock_now() < until)
        if (u->ucx->ucp_worker_progress(u->worker) == 0)
            poll(NULL, 0, 1);
    bool done = !list_first(&u->buried);
    if (done && u->address)
        u->ucx->ucp_worker_release_address(u->worker, u->address);
    if (done)
        u->ucx->ucp_worker_destroy(u->worker);
    pthread_mutex_unlock(&u->lock);
    return done;
}

void comm_ucx_close(struct comm_ucx *u)
{
    if (!u)
        return;
    if (u->worker && !close_worker(u)) {
        pthread_mutex_lock(&left.lock);
        u->next = left.first;
        left.first = u;
        pthread_mutex_unlock(&left.lock);
        return;
    }
    if (u->context)
        u->ucx->ucp_cleanup(u->context);
    pthread_cond_destroy(&u->changed);
    pthread_mutex_destroy(&u->lock);
    free(u);
}

/* ---- the card's thread ---- */

int comm_ucx_descriptor(const struct comm_ucx *u) { return u->fd; }

void comm_ucx_progress(struct comm_ucx *u)
{
    unsigned rounds = 0;
    pthread_mutex_lock(&u->lock);
    u->thread = pthread_self();
    u->has_thread = true;
    do
        while (u->ucx->ucp_worker_progress(u->worker) != 0 && rounds++ < ROUNDS)
            ;
    while (ucx_fetch(u) && rounds++ < ROUNDS);
    if (u->waiters)
        pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
}

bool comm_ucx_rest(struct comm_ucx *u)
{
    pthread_mutex_lock(&u->lock);
    bool rest = !list_first(&u->due) && !list_first(&u->offered) &&
                u->ucx->ucp_worker_arm(u->worker) != UCS_ERR_BUSY;
    pthread_mutex_unlock(&u->lock);
    return rest;
}

void *comm_ucx_next(struct comm_ucx *u, bool *in, bool *out)
{
    void *owner = NULL;
    pthread_mutex_lock(&u->lock);
    for (struct list *one; !owner && (one = list_first(&u->due));) {
        struct ucx_channel *c = LIST_OBJECT(one, struct ucx_channel, due);
        list_remove(one);
        *in = c->in_due;
        *out = c->out_due;
        c->in_due = c->out_due = false;
        owner = c->owner;
    }
    pthread_mutex_unlock(&u->lock);
    return owner;
}

void ucx_nudge(struct comm_ucx *u)
{
    FLYT_ASSERT_HELD(&u->lock);
    if (!u->has_thread || !pthread_equal(u->thread, pthread_self()))
        u->ucx->ucp_worker_signal(u->worker);
}
