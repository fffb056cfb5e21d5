/*
 * id.c: unique ids. The process that makes one serves a store (cpu/comm/store), in a thread of its own, up to its end;
 * an id holds the store's address, a key that proves who may use it, and a name that no other id has.
 */
#include "cpu/client/nccl/nccl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cpu/comm/link/nic.h"
#include "cpu/comm/store/store.h"
#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/log.h"

_Static_assert(sizeof((struct nccl_place){ 0 }.key) == COMM_KEY_SIZE, "one size of keys");

/* An id: magic (8), name (16), key (32), the store's URI with its NUL (72). */
static const char magic[8] = "FlytNCCL";
enum { NAME_AT = 8, KEY_AT = 24, URI_AT = 56, URI_ROOM = NCCL_ID_SIZE - URI_AT };
enum { DEADLINE_S = 300, DEADLINE_MOST_S = 1000000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct comm_store_server *server;
static uint8_t key[COMM_KEY_SIZE];

nccl_result nccl_random(void *bytes, size_t size)
{
    ssize_t got = getrandom(bytes, size, 0); /* sizes up to 256 bytes are given whole */
    return got == (ssize_t)size
               ? NCCL_SUCCESS
               : nccl_fail(NCCL_SYSTEM_ERROR, "random bytes: %s", got < 0 ? strerror(errno) : "too few");
}

uint64_t nccl_deadline(void)
{
    static atomic_bool said;
    const char *text = env_get("FLYT_NCCL_TIMEOUT");
    char *end = NULL;
    long seconds = text && *text ? strtol(text, &end, 10) : DEADLINE_S; /* of too great a number: LONG_MAX */
    if ((end && *end) || seconds < 1 || seconds > DEADLINE_MOST_S) {
        if (!atomic_exchange(&said, true))
            log_warning("FLYT_NCCL_TIMEOUT=%s is no number of seconds from 1 to %d: it is taken for %d", text,
                        DEADLINE_MOST_S, DEADLINE_S);
        seconds = DEADLINE_S;
    }
    return clock_now() + (uint64_t)seconds * CLOCK_NS_PER_SECOND;
}

/* The first of the cards that links would use. */
static int listen_at(char uri[64], char *error)
{
    struct comm_nic nics[COMM_NICS_MOST];
    char text[INET6_ADDRSTRLEN];
    int count = comm_nic_list(env_get("FLYT_COMM_INTERFACES"), nics, error);
    if (count < 0)
        return count;
    bool six = nics[0].address.family == 6;
    inet_ntop(six ? AF_INET6 : AF_INET, nics[0].address.bytes, text, sizeof text);
    snprintf(uri, 64, six ? "tcp://[%s]:0" : "tcp://%s:0", text);
    return 0;
}

static nccl_result serve(void)
{
    char uri[64], error[RPC_ERROR_SIZE] = "";
    pthread_mutex_lock(&lock);
    int status = server ? 0 : listen_at(uri, error);
    nccl_result result = server || status < 0 ? NCCL_SUCCESS : nccl_random(key, sizeof key);
    if (!server && status == 0 && result == NCCL_SUCCESS)
        status = comm_store_serve(uri, key, &server, error);
    pthread_mutex_unlock(&lock);
    return result == NCCL_SUCCESS ? nccl_of_errno(status, "ncclGetUniqueId: a store for the ranks", error) : result;
}

nccl_result ncclGetVersion(int *version)
{
    if (!version)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclGetVersion: version is NULL");
    *version = NCCL_VERSION;
    return NCCL_SUCCESS;
}

nccl_result ncclGetUniqueId(nccl_id *id)
{
    NCCL_ENTER();
    if (!id)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclGetUniqueId: uniqueId is NULL");
    nccl_result result = serve();
    memset(id, 0, sizeof *id);
    if (result == NCCL_SUCCESS)
        result = nccl_random(id->bytes + NAME_AT, KEY_AT - NAME_AT);
    if (result != NCCL_SUCCESS)
        return result;
    memcpy(id->bytes, magic, sizeof magic);
    memcpy(id->bytes + KEY_AT, key, sizeof key);
    snprintf(id->bytes + URI_AT, URI_ROOM, "%s", comm_store_server_uri(server));
    return NCCL_SUCCESS;
}

nccl_result nccl_home(struct nccl_place *home)
{
    nccl_result result = serve();
    *home = (struct nccl_place){ 0 };
    if (result != NCCL_SUCCESS)
        return result;
    snprintf(home->uri, sizeof home->uri, "%s", comm_store_server_uri(server));
    memcpy(home->key, key, sizeof home->key);
    return NCCL_SUCCESS;
}

bool nccl_place_of(const nccl_id *id, struct nccl_place *place)
{
    if (memcmp(id->bytes, magic, sizeof magic) != 0 || id->bytes[NCCL_ID_SIZE - 1])
        return false;
    memcpy(place->name, id->bytes + NAME_AT, sizeof place->name);
    memcpy(place->key, id->bytes + KEY_AT, sizeof place->key);
    snprintf(place->uri, sizeof place->uri, "%s", id->bytes + URI_AT);
    return true;
}
