/*
 * connect.c: how a rank becomes one. The ranks meet in the store of their unique id:
 *
 *   rank_R      who rank R is: its process, its GPU, and how its server is reached
 *   link_R_P    the handles of the link from rank R to rank P, where they are not near each other
 *   offer_R_P   in a cluster, of a link on which rank P calls: what its client manager wants to see
 *   made_R      what has become of rank R; from all of these rank 0 makes
 *   made        whether all ranks have been made
 *   heard_R     rank R has read that
 *
 * Ranks of one process at one server are near: the server moves bytes within its memory. With each other one a rank
 * makes a link: all listen, then those that call join, then the others; so no two ranks wait for each other.
 */
#include "cpu/client/nccl/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/comm/link/handle.h"
#include "cpu/common/clock.h"
#include "cpu/common/env.h"

struct rank_card {
    uint8_t process[16], gpu[16];
    int ranks, managed;
    char server[255];
    uint8_t sided; /* its server has one-sided operations; the release before has the end of `server` here, a 0 */
    struct nccl_place home;
};

struct rank_link {
    unsigned count, peer_count;
    uint8_t handles[CORE_LINK_HANDLES_MOST * CORE_LINK_HANDLE_SIZE],
        peer[CORE_LINK_HANDLES_MOST * CORE_LINK_HANDLE_SIZE];
};

/* ---- who the ranks are ---- */

static nccl_result process_name(uint8_t name[16])
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint8_t own[16];
    static bool known;
    pthread_mutex_lock(&lock);
    nccl_result result = known ? NCCL_SUCCESS : nccl_random(own, sizeof own);
    known = result == NCCL_SUCCESS;
    memcpy(name, own, sizeof own);
    pthread_mutex_unlock(&lock);
    return result;
}

static nccl_result introduce(struct nccl_comm *comm, struct rank_card *cards)
{
    struct rank_card *own = &cards[comm->rank];
    char key[40];
    struct core_comms_offer offer = { .sided = false };
    core_comms_offered(&offer);
    *own = (struct rank_card){ .ranks = comm->ranks, .managed = core_links_managed(), .sided = offer.sided };
    nccl_result result = process_name(own->process);
    nccl_home(&own->home); /* without it the others cannot shrink to a communicator that begins with this rank */
    memcpy(own->gpu, core_device(comm->device)->uuid, sizeof own->gpu);
    core_server_address(comm->context, own->server, sizeof own->server);
    snprintf(key, sizeof key, "rank_%d", comm->rank);
    if (result == NCCL_SUCCESS)
        result = nccl_leave_for(comm, comm->place.name, key, own, sizeof *own, comm->ranks - 1);
    for (int r = 0; r < comm->ranks && result == NCCL_SUCCESS; r++) {
        size_t size = sizeof *cards;
        snprintf(key, sizeof key, "rank_%d", r);
        if (r != comm->rank)
            result = nccl_find(comm, comm->place.name, key, &cards[r], &size);
        if (result == NCCL_SUCCESS && size != sizeof *cards)
            result = nccl_fail(NCCL_INVALID_USAGE, "rank %d uses another release of Flyt's libnccl.so.2", r);
        if (result == NCCL_SUCCESS && cards[r].ranks != comm->ranks)
            result = nccl_fail(NCCL_INVALID_ARGUMENT, "rank %d has %d ranks, rank %d has another number", comm->rank,
                               comm->ranks, r);
        cards[r].server[sizeof cards[r].server - 1] = '\0';
        cards[r].home.uri[sizeof cards[r].home.uri - 1] = '\0';
    }
    return result;
}

/* One GPU for two ranks is refused, as NVIDIA's library does. */
static nccl_result distinct(const struct nccl_comm *comm, const struct rank_card *cards)
{
    const char *share = env_get("FLYT_COMM_SHARE");
    if (share && strcmp(share, "1") == 0)
        return NCCL_SUCCESS;
    for (int a = 0; a < comm->ranks; a++)
        for (int b = 0; b < a; b++)
            if (memcmp(cards[a].gpu, cards[b].gpu, sizeof cards[a].gpu) == 0 &&
                strcmp(cards[a].server, cards[b].server) == 0)
                return nccl_fail(NCCL_INVALID_USAGE, "duplicate GPU: ranks %d and %d both use the same one of %s", b, a,
                                 cards[a].server);
    return NCCL_SUCCESS;
}

/* ---- links ---- */

static nccl_result listen_to(struct nccl_comm *comm, int peer, struct rank_link *link)
{
    char why[CORE_WHY_SIZE], key[40];
    struct core_comms_offer offer;
    if (core_comms_offered(&offer) == CORE_OK && offer.comms && !offer.links) {
        core_server_address(comm->context, why, sizeof why);
        return nccl_fail(NCCL_INVALID_USAGE,
                         "rank %d is of another process or GPU server, and the GPU server %s has no links: it "
                         "is started with --links, which names where they may go",
                         peer, why);
    }
    int code = core_link_listen(comm->context, &comm->links[peer], link->handles, &link->count, why);
    if (code) {
        comm->links[peer] = CORE_COMM_NEAR;
        return nccl_of_core(code, "a link to another rank", why);
    }
    snprintf(key, sizeof key, "link_%d_%d", comm->rank, peer);
    return nccl_leave_for(comm, comm->place.name, key, link->handles, (size_t)link->count * CORE_LINK_HANDLE_SIZE, 1);
}

static nccl_result hear(struct nccl_comm *comm, int peer, struct rank_link *link)
{
    char key[40];
    size_t size = sizeof link->peer;
    snprintf(key, sizeof key, "link_%d_%d", peer, comm->rank);
    nccl_result result = nccl_find(comm, comm->place.name, key, link->peer, &size);
    link->peer_count = (unsigned)(size / CORE_LINK_HANDLE_SIZE);
    return result;
}

/* As comm_link_calls says it, for a link of the server's. */
static bool calls(const struct rank_link *link)
{
    struct comm_handle own, peer;
    return comm_handle_get(link->handles, &own) && comm_handle_get(link->peer, &peer) &&
           memcmp(own.link, peer.link, sizeof own.link) > 0;
}

/* In a cluster the end that is called makes an offer, which the other one takes; else an address is enough. */
static nccl_result offer(struct nccl_comm *comm, int peer, const struct rank_link *link, const struct rank_card *cards)
{
    char why[CORE_WHY_SIZE], key[40];
    uint8_t offered[CORE_LINK_OFFER_SIZE];
    if (cards[peer].managed != cards[comm->rank].managed)
        return nccl_fail(NCCL_INVALID_USAGE, "of ranks %d and %d only one has a GPU server that a client manager gave",
                         comm->rank, peer);
    if (!cards[peer].managed || calls(link))
        return NCCL_SUCCESS;
    nccl_result result = nccl_of_core(core_link_offer(comm->context, offered, why), "offering a link", why);
    snprintf(key, sizeof key, "offer_%d_%d", comm->rank, peer);
    return result == NCCL_SUCCESS ? nccl_leave_for(comm, comm->place.name, key, offered, sizeof offered, 1) : result;
}

static nccl_result address_of(struct nccl_comm *comm, int peer, const struct rank_link *link,
                              const struct rank_card *cards, char address[CORE_WHY_SIZE])
{
    char why[CORE_WHY_SIZE], key[40];
    uint8_t offered[CORE_LINK_OFFER_SIZE];
    size_t size = sizeof offered;
    snprintf(address, CORE_WHY_SIZE, "%s", cards[peer].server);
    if (!cards[peer].managed || !calls(link))
        return NCCL_SUCCESS;
    snprintf(key, sizeof key, "offer_%d_%d", peer, comm->rank);
    nccl_result result = nccl_find(comm, comm->place.name, key, offered, &size);
    return result == NCCL_SUCCESS ? nccl_of_core(core_link_take(comm->context, offered, link->peer_count, address, why),
                                                 "taking a link", why)
                                  : result;
}

enum { JOIN_MOST_MS = 600000 }; /* more is refused (cpu/server/links/links.c): the peer joins, too, or is lost */

static nccl_result join(struct nccl_comm *comm, int peer, struct rank_link *link, const struct rank_card *cards)
{
    char why[CORE_WHY_SIZE], what[400], address[CORE_WHY_SIZE];
    nccl_result result = address_of(comm, peer, link, cards, address);
    if (result != NCCL_SUCCESS)
        return result;
    const uint64_t now = clock_now(), left = now < comm->deadline ? (comm->deadline - now) / CLOCK_NS_PER_MS : 0;
    int code = core_link_join(comm->links[peer], address, link->peer, link->peer_count,
                              (unsigned)(left < JOIN_MOST_MS ? left : JOIN_MOST_MS), why);
    snprintf(what, sizeof what, "the link of ranks %d and %d, with %s", comm->rank, peer, cards[peer].server);
    return nccl_of_core(code, what, why);
}

static bool near(const struct rank_card *a, const struct rank_card *b)
{
    return memcmp(a->process, b->process, sizeof a->process) == 0 && strcmp(a->server, b->server) == 0;
}

static nccl_result link_all(struct nccl_comm *comm, const struct rank_card *cards)
{
    nccl_result result = NCCL_SUCCESS;
    struct rank_link *links = calloc((unsigned)comm->ranks, sizeof *links);
    if (!links)
        return nccl_fail(NCCL_SYSTEM_ERROR, "no memory for links");
    for (int r = 0; r < comm->ranks && result == NCCL_SUCCESS; r++)
        if (!near(&cards[r], &cards[comm->rank]))
            result = listen_to(comm, r, &links[r]);
    for (int r = 0; r < comm->ranks && result == NCCL_SUCCESS; r++)
        if (links[r].count)
            result = hear(comm, r, &links[r]);
    for (int r = 0; r < comm->ranks && result == NCCL_SUCCESS; r++)
        if (links[r].count)
            result = offer(comm, r, &links[r], cards);
    for (int turn = 1; turn >= 0; turn--)
        for (int r = 0; r < comm->ranks && result == NCCL_SUCCESS; r++)
            if (links[r].count && calls(&links[r]) == (turn == 1))
                result = join(comm, r, &links[r], cards);
    explicit_bzero(links, (unsigned)comm->ranks * sizeof *links);
    free(links);
    return result;
}

/* ---- all of them ---- */

enum {
    TELL_MS = 1000, /* behind the deadline, for the ranks to say to rank 0 how they are, and for rank 0 to answer */
    HEARD_MS = 2000 /* how long rank 0 waits for a rank that may have gone */
};

struct rank_made {
    int rank, result; /* the first rank that could not be made; NCCL_SUCCESS: all could, or this one */
    char why[256];
};

static nccl_result tell_all(struct nccl_comm *comm, const struct rank_made *made)
{
    return nccl_leave_for(comm, comm->place.name, "made", made, sizeof *made, comm->ranks - 1);
}

/* Rank 0 hears of all others. */
static nccl_result hear_all(struct nccl_comm *comm, struct rank_made *all)
{
    nccl_result result = NCCL_SUCCESS;
    for (int r = 1; r < comm->ranks && result == NCCL_SUCCESS && all->result == NCCL_SUCCESS; r++) {
        char key[40];
        size_t size = sizeof *all;
        snprintf(key, sizeof key, "made_%d", r);
        result = nccl_find(comm, comm->place.name, key, all, &size);
    }
    return result;
}

/* The process of rank 0 usually has the store. It must not end before the others have read there how all this ended. */
static void heard(struct nccl_comm *comm, bool waits)
{
    const uint64_t deadline = clock_now() + HEARD_MS * CLOCK_NS_PER_MS;
    char key[40];
    snprintf(key, sizeof key, "heard_%d", comm->rank);
    if (comm->rank)
        nccl_leave_for(comm, comm->place.name, key, "", 0, 1);
    for (int r = 1; waits && comm->rank == 0 && r < comm->ranks; r++) {
        snprintf(key, sizeof key, "heard_%d", r);
        nccl_await(comm, comm->place.name, key, deadline);
    }
}

/* No rank goes on before all have come to be: one that ends the communicator then takes its links with it. own: what
   has become of this rank. */
static nccl_result all_made(struct nccl_comm *comm, nccl_result own)
{
    char key[40];
    size_t size = sizeof(struct rank_made);
    struct rank_made made = { .result = NCCL_SUCCESS };
    comm->deadline += (comm->rank ? 2 : 1) * TELL_MS * CLOCK_NS_PER_MS;
    snprintf(key, sizeof key, "made_%d", comm->rank);
    if (comm->rank == 0 && own == NCCL_SUCCESS)
        own = hear_all(comm, &made);
    if (own != NCCL_SUCCESS) {
        made = (struct rank_made){ .rank = comm->rank, .result = (int)own };
        snprintf(made.why, sizeof made.why, "%s", ncclGetLastError(NULL));
    }
    if (comm->rank == 0)
        tell_all(comm, &made);
    else
        nccl_leave_for(comm, comm->place.name, key, &made, sizeof made, 1);
    if (comm->rank && own == NCCL_SUCCESS)
        own = nccl_find(comm, comm->place.name, "made", &made, &size);
    heard(comm, own == NCCL_SUCCESS);
    made.why[sizeof made.why - 1] = '\0';
    return own == NCCL_SUCCESS && made.result != NCCL_SUCCESS
               ? nccl_fail(NCCL_REMOTE_ERROR, "rank %d could not be made: %s", made.rank, made.why)
               : own;
}

/* ---- a rank ---- */

static nccl_result create(struct nccl_comm *comm)
{
    char why[CORE_WHY_SIZE] = "";
    int code = core_comm_create(comm->context, comm->place.name, (unsigned)comm->rank, comm->links,
                                (unsigned)comm->ranks, &comm->id, why);
    comm->made = code == CORE_OK;
    return nccl_of_core(code, "a communicator", why);
}

nccl_result nccl_connect(struct nccl_comm *comm)
{
    struct rank_card *cards = calloc((unsigned)comm->ranks, sizeof *cards);
    comm->links = malloc((unsigned)comm->ranks * sizeof *comm->links);
    comm->homes = calloc((unsigned)comm->ranks, sizeof *comm->homes);
    nccl_result result =
        cards && comm->links && comm->homes ? NCCL_SUCCESS : nccl_fail(NCCL_SYSTEM_ERROR, "no memory for ranks");
    for (int r = 0; comm->links && r < comm->ranks; r++)
        comm->links[r] = CORE_COMM_NEAR;
    if (result == NCCL_SUCCESS)
        result = introduce(comm, cards);
    comm->sided = true;
    for (int r = 0; result == NCCL_SUCCESS && r < comm->ranks; r++) {
        comm->homes[r] = cards[r].home;
        comm->sided &= cards[r].sided == 1;
    }
    if (result == NCCL_SUCCESS)
        result = distinct(comm, cards);
    if (result == NCCL_SUCCESS)
        result = link_all(comm, cards);
    if (result == NCCL_SUCCESS)
        result = create(comm);
    result = all_made(comm, result);
    explicit_bzero(cards, cards ? (unsigned)comm->ranks * sizeof *cards : 0);
    free(cards);
    return result;
}

void nccl_cut(struct nccl_comm *comm, const char *abort)
{
    char why[CORE_WHY_SIZE];
    int status;
    pthread_mutex_lock(&comm->lock); /* another thread may abort it */
    const bool made = comm->made;
    uint32_t *links = comm->links;
    comm->made = false;
    comm->links = NULL;
    pthread_mutex_unlock(&comm->lock);
    if (made)
        core_comm_close(comm->id, abort);
    for (int r = 0; links && r < comm->ranks; r++)
        if (links[r] != CORE_COMM_NEAR)
            core_link_close(links[r]);
    /* A question that is answered behind all that: a process that ends now is no loss for its peers. */
    if (made && !abort)
        core_comm_status(comm->id, &status, why);
    free(links);
}

void nccl_disconnect(struct nccl_comm *comm, const char *abort)
{
    nccl_cut(comm, abort);
    nccl_windows_drop(comm);
    free(comm->homes);
    comm->homes = NULL;
}
