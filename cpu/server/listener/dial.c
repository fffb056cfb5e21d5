/*
 * dial.c: the listener connects for its workers; see dial.h. Each request has a thread of its own for as long as
 * connecting takes, DIALS_MOST of them at a time: so the listener's loop never waits. A thread has a descriptor of its
 * own of the worker's socket, which may end meanwhile.
 */
#include "cpu/server/listener/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/fd.h"
#include "cpu/common/fd_message.h"
#include "cpu/common/log.h"
#include "cpu/common/log_limit.h"
#include "cpu/rpc/call/lane.h"
#include "cpu/rpc/transport/address.h"

enum { DIALS_MOST = 32, DIALS_OF_WORKER = 4, DIAL_COUNT_MOST = 32, DIAL_MOST_MS = 10000 };

struct dial_request {
    atomic_int *place; /* in `dials` */
    int socket;
    struct worker_dial wish;
};

/* The requests under way: 0 where there is none, else the worker's process id. (The descriptor of its socket may be
   another worker's by now.) One worker has DIALS_OF_WORKER of them at most, and leaves places for others. */
static atomic_int dials[DIALS_MOST];

/* A free place among them; NULL: there are too many, in all or of this worker. Only the listener's loop calls it. */
static atomic_int *dial_place(pid_t worker)
{
    atomic_int *free_place = NULL;
    unsigned of_worker = 0;
    for (unsigned i = 0; i < DIALS_MOST; i++) {
        int whose = atomic_load(&dials[i]);
        of_worker += whose == worker;
        free_place = whose ? free_place : &dials[i];
    }
    return of_worker < DIALS_OF_WORKER ? free_place : NULL;
}

/* ---- what is allowed ---- */

/* The next part of a list with commas, and where the one behind it begins; false: there is none. */
static bool list_next_part(const char **at, char part[WORKER_ADDRESS_SIZE])
{
    size_t size = strcspn(*at, ",");
    if (!**at && !size)
        return false;
    snprintf(part, WORKER_ADDRESS_SIZE, "%.*s", (int)size, *at);
    *at += size + ((*at)[size] == ',');
    return true;
}

bool dial_list_check(const char *list, char *why)
{
    char part[WORKER_ADDRESS_SIZE], whole[WORKER_ADDRESS_SIZE + 8];
    struct rpc_address address;
    const char *at = list;
    bool good = *list;
    while (good && list_next_part(&at, part)) {
        size_t size = strlen(part);
        bool any = size > 2 && strcmp(part + size - 2, ":*") == 0;
        snprintf(whole, sizeof whole, "%.*s%s", (int)(any ? size - 1 : size), part, any ? "1" : "");
        good = rpc_address_parse(whole, &address, NULL) == 0 && !strchr(part, '?') &&
               (address.kind == RPC_ADDRESS_TCP || address.kind == RPC_ADDRESS_TLS);
    }
    if (!good)
        snprintf(why, RPC_ERROR_SIZE, "%s is a list of tcp://HOST:PORT and tls://HOST:PORT with commas between",
                 *list ? list : "nothing");
    return good;
}

/* Whether the list has this address. What stands behind a ? of the address does not count. */
static bool dial_allowed(const char *list, const char *address)
{
    char part[WORKER_ADDRESS_SIZE];
    size_t size = strcspn(address, "?");
    while (list && list_next_part(&list, part)) {
        size_t part_size = strlen(part);
        bool any = part_size > 2 && strcmp(part + part_size - 2, ":*") == 0;
        if (!any && part_size == size && strncmp(part, address, size) == 0)
            return true;
        /* any port: equal up to the colon, and digits behind it */
        if (any && size > part_size - 1 && strncmp(part, address, part_size - 1) == 0 &&
            strspn(address + part_size - 1, "0123456789") == size - (part_size - 1))
            return true;
    }
    return false;
}

/* ---- connecting ---- */

static void dial_answer(int socket, uint32_t serial, int status, const char *why, const int *fds, unsigned count)
{
    struct worker_dialled answer = { .word = WORKER_DIALLED, .serial = serial, .status = status };
    snprintf(answer.why, sizeof answer.why, "%s", why);
    int r = fd_message_send(socket, &answer, sizeof answer, fds, count);
    if (r != 0)
        log_info("event=dial-unanswered why=\"%s\"", strerror(-r));
}

static void *dial_main(void *context)
{
    struct dial_request *dial = context;
    const struct worker_dial *wish = &dial->wish;
    uint32_t within = wish->milliseconds < DIAL_MOST_MS ? wish->milliseconds : DIAL_MOST_MS;
    uint64_t deadline = clock_now() + within * CLOCK_NS_PER_MS;
    char error[RPC_ERROR_SIZE] = "";
    int fds[DIAL_COUNT_MOST], status = 0;
    unsigned count = 0;
    for (; status == 0 && count < wish->count; count += status == 0) {
        fds[count] = rpc_socket_connect(wish->address, deadline, error);
        status = fds[count] < 0 ? fds[count] : 0;
    }
    log_info("event=link-dialled to=%s connections=%u status=%d why=\"%s\"", wish->address, count, -status,
             status ? error : "");
    dial_answer(dial->socket, wish->serial, status, error, fds, status ? 0 : count);
    fd_message_close(fds, count);
    close(dial->socket);
    atomic_store(dial->place, 0);
    free(dial);
    return NULL;
}

/* False: there is no thread, or no memory. */
static bool dial_start(int socket, const struct worker_dial *wish, atomic_int *place)
{
    pthread_t thread;
    struct dial_request *dial = malloc(sizeof *dial);
    int kept = dial ? fd_keep(fcntl(socket, F_DUPFD_CLOEXEC, FD_FIRST)) : -1;
    if (kept >= 0) {
        *dial = (struct dial_request){ place, kept, *wish };
        if (pthread_create(&thread, NULL, dial_main, dial) == 0) {
            pthread_detach(thread);
            return true;
        }
        close(kept);
    }
    free(dial);
    return false;
}

static void dial_refuse(int socket, const struct worker_dial *wish)
{
    static struct log_limit said; /* of the listener's loop: a program may ask as often as it likes */
    const int size = (int)strcspn(wish->address, "?");
    char why[WORKER_WHY_SIZE], more[48];
    snprintf(why, sizeof why, "links to %.*s are not allowed: --links of this GPU server does not name it", size,
             wish->address);
    if (log_limit_says(&said, more))
        log_warning("event=link-refused to=%.*s why=\"--links does not name it\"%s", size, wish->address, more);
    dial_answer(socket, wish->serial, -EPERM, why, NULL, 0);
}

void dial_begin(const char *list, pid_t worker, int socket, const struct worker_dial *asked)
{
    struct worker_dial wish = *asked;
    wish.address[sizeof wish.address - 1] = '\0';
    if (!wish.count || wish.count > DIAL_COUNT_MOST || !dial_allowed(list, wish.address)) {
        dial_refuse(socket, &wish);
        return;
    }
    atomic_int *place = dial_place(worker);
    if (place) {
        atomic_store(place, worker);
        if (dial_start(socket, &wish, place))
            return;
        atomic_store(place, 0);
    }
    dial_answer(socket, wish.serial, -EAGAIN, "too many connections are being made at a time", NULL, 0);
}
