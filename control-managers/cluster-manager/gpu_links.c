/*
 * gpu_links.c: links between GPU servers (ctl_link_offer in control_prot.x). The program whose server is to be
 * connected to offers, the other one takes, and the node of the taker's server connects it.
 *
 * An offer is 32 random bytes, kept here until it is taken, has expired, or its program has gone or has another server.
 * Nothing that a program or a GPU server says has a part in where a connection leads: the address is the one that the
 * offering program's server was granted with. Links are between programs of one VM; OFFERS_OF_VM and TAKES_OF_VM bound
 * what one VM has here, and leave room for others. After a restart offers are unknown: they are made again.
 */
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/cluster.h"
#include "cpu/common/explain.h"

enum { OFFERS_OF_VM = 1024, TAKES_OF_VM = 32, TAKES_MOST = 256, TAKE_MS = 8000 };
enum { REFUSALS = 100, REFUSALS_PER_SECOND = 1 };

struct link_offer {
    struct link_offer *next;
    uint8_t bytes[CTL_LINK_OFFER_SIZE];
    const struct vm *vm;
    uint64_t program, server;
    uint64_t until; /* loop_now */
};

/* A program takes an offer. Its call is answered when the node has answered. */
struct link_take {
    struct link_take *next;
    struct cluster *cluster;
    const struct cluster_session *session;
    struct loop_call *call;
    const struct vm *vm;
    struct node *node; /* of the server that is connected */
    uint64_t target, order;
    char address[CTL_MAX_URI + 1];
    struct loop_timer timer;
};

static char nothing[1];

/* The server of the program that the caller means; NULL, and why. */
static const struct server *server_meant(struct conn *conn, uint64_t key, uint64_t server, struct program **program,
                                         ctl_code *code, char *text)
{
    struct vm *vm = client_vm_of(conn);
    *program = vm ? map_get_id(&vm->by_key, key) : NULL;
    const struct server *of_it = *program ? (*program)->server : NULL;
    if (!*program)
        *code = explain(text, CTL_NOT_FOUND, "there is no such program");
    else if (!of_it || (*program)->state != ADMIN_PROGRAM_RUNNING || of_it->stopping)
        *code = explain(text, CTL_BUSY, "program %llu uses no GPU server at present",
                        (unsigned long long)(*program)->id);
    else if (server && server != of_it->row.id)
        *code = explain(text, CTL_DENIED, "program %llu does not use GPU server %llu",
                        (unsigned long long)(*program)->id, (unsigned long long)server);
    else
        return of_it;
    return NULL;
}

/* ---- offers ---- */

static bool still_holds(struct cluster *cluster, const struct link_offer *offer)
{
    const struct program *program = map_get_id(&cluster->programs, offer->program);
    return loop_now(cluster->loop) < offer->until && program && program->server &&
           program->server->row.id == offer->server && program->state == ADMIN_PROGRAM_RUNNING;
}

static struct link_offer **drop_offer(struct link_offer **at)
{
    struct link_offer *offer = *at;
    *at = offer->next;
    OPENSSL_cleanse(offer->bytes, sizeof offer->bytes);
    free(offer);
    return at;
}

/* Drops what holds no longer. How many offers this VM has. */
static size_t look_through(struct cluster *cluster, const struct vm *vm)
{
    size_t count = 0;
    for (struct link_offer **at = &cluster->link_offers; *at;) {
        if (!still_holds(cluster, *at)) {
            drop_offer(at);
            continue;
        }
        count += (*at)->vm == vm;
        at = &(*at)->next;
    }
    return count;
}

static struct link_offer *offer_make(struct cluster *cluster, const struct program *program)
{
    struct link_offer *offer = calloc(1, sizeof *offer);
    if (!offer || RAND_bytes(offer->bytes, sizeof offer->bytes) != 1) {
        free(offer);
        return NULL;
    }
    offer->vm = program->vm;
    offer->program = program->id;
    offer->server = program->server->row.id;
    offer->until = loop_now(cluster->loop) + CTL_LINK_SECONDS * 1000;
    offer->next = cluster->link_offers;
    cluster->link_offers = offer;
    return offer;
}

void client_handle_link_offer(struct conn *conn, struct loop_call *call, void *object)
{
    const client_link_offer_args *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    char text[CTL_MAX_TEXT + 1] = "";
    ctl_code code = CTL_OK;
    struct program *program;
    struct link_offer *offer = NULL;
    const struct server *server = server_meant(conn, args->key, args->wish.server, &program, &code, text);
    if (server && !server_network_address(server))
        code = explain(text, CTL_NOT_SUPPORTED,
                       "GPU server %llu has no address on the network: "
                       "virt-server.listen-address of its node manager gives it one",
                       (unsigned long long)server->row.id);
    else if (server && look_through(cluster, program->vm) >= OFFERS_OF_VM)
        code = explain(text, CTL_BUSY, "VM %s has %d offers of links that no program has taken yet",
                       program->vm->row.name, OFFERS_OF_VM);
    else if (server && !(offer = offer_make(cluster, program)))
        code = explain(text, CTL_INTERNAL, "no memory, or no random bytes");
    ctl_link_offer_result result = { .status = { code, text } };
    if (offer) {
        result.offer.offer_val = (char *)offer->bytes;
        result.offer.offer_len = sizeof offer->bytes;
    }
    call_reply(call, &result);
}

/* ---- taking ---- */

static void take_answer(struct loop_call *call, ctl_code code, char *text, char *address)
{
    ctl_link_take_result result = { .status = { code, text }, .address = address };
    call_reply(call, &result);
}

static void take_drop(struct link_take *take)
{
    struct link_take **at = &take->cluster->link_takes;
    while (*at != take)
        at = &(*at)->next;
    *at = take->next;
    loop_timer_stop(&take->timer);
    free(take);
}

static void take_fails(struct link_take *take, ctl_code code, char *text)
{
    take_answer(take->call, code, text, nothing);
    take_drop(take);
}

/* Nobody waits for it any more: a node that has not acknowledged the order is not to have it when it is back. */
static void take_back(struct link_take *take)
{
    outbox_take_back(&take->node->orders, take->order);
}

static void overdue(struct loop_timer *timer, void *context)
{
    struct link_take *take = context;
    char text[CTL_MAX_TEXT + 1];
    (void)timer;
    snprintf(text, sizeof text, "node %s has not connected the two GPU servers within %d s", take->node->row.name,
             TAKE_MS / 1000);
    take_back(take);
    take_fails(take, CTL_TIMEOUT, text);
}

static void tell(struct cluster *cluster, const struct program *program, const char *why)
{
    struct event_about which = { .vm = program->vm->row.name, .node = program->server->row.node,
                                 .server = program->server->row.id, .program = program->id };
    static struct rate rate; /* of all VMs: a program may ask as often as it likes */
    if (rate_passes(&rate, REFUSALS, REFUSALS_PER_SECOND))
        cluster_event(cluster, ADMIN_WARNING, "link-refused", &which, "%.200s (pid %u) takes a link: %.600s",
                      program->executable, program->pid, why);
}

/* The server to connect to. The offer is used up, unless it is another VM's. */
static const struct server *offered_server(struct cluster *cluster, const struct program *program,
                                           const ctl_link_take *wish, ctl_code *code, char *text)
{
    look_through(cluster, program->vm);
    struct link_offer **at = &cluster->link_offers;
    const bool whole = wish->offer.offer_len == CTL_LINK_OFFER_SIZE;
    while (*at && !(whole && CRYPTO_memcmp((*at)->bytes, wish->offer.offer_val, CTL_LINK_OFFER_SIZE) == 0))
        at = &(*at)->next;
    if (!*at) {
        *code = explain(text, CTL_NOT_FOUND, "there is no such offer of a link: it was taken before, is older than"
                        " %d s, or its program has ended or moved", CTL_LINK_SECONDS);
        return NULL;
    }
    if ((*at)->vm != program->vm) {
        *code = explain(text, CTL_DENIED, "the offer is of another VM, and links are between programs of one VM");
        tell(cluster, program, text);
        return NULL;
    }
    const struct server *server = map_get_id(&cluster->servers, (*at)->server);
    drop_offer(at);
    if (server && !server->stopping && server_network_address(server))
        return server;
    *code = explain(text, CTL_LOST, "the GPU server of the offer has ended, or is about to");
    return NULL;
}

static ctl_code check_node(const struct server *server, char *text)
{
    const struct node *node = server->node;
    if (!node->session || !node->registered)
        return explain(text, CTL_LOST, "node %s, which is to connect the GPU servers, is not connected",
                       node->row.name);
    if (node->session->hello.minor < CTL_MINOR_LINKS)
        return explain(text, CTL_NOT_SUPPORTED, "node %s runs an earlier release (%s), which connects no GPU servers",
                       node->row.name, node->software);
    return CTL_OK;
}

static ctl_code check_takes(const struct cluster *cluster, const struct vm *vm, char *text)
{
    size_t all = 0, of_vm = 0;
    for (const struct link_take *take = cluster->link_takes; take; take = take->next) {
        all++;
        of_vm += take->vm == vm;
    }
    return all < TAKES_MOST && of_vm < TAKES_OF_VM
               ? CTL_OK
               : (ctl_code)explain(text, CTL_BUSY, "too many links are being made at a time: try again");
}

static void take_order(struct link_take *take, const struct program *program, unsigned connections)
{
    struct message message = { .kind = NODE_ORDER_LINK, .program = program->id,
                               .source = program->server->row.id, .server = take->target, .sms = connections };
    snprintf(message.text, sizeof message.text, "%s", take->address);
    take->next = take->cluster->link_takes;
    take->cluster->link_takes = take;
    loop_timer_start(take->cluster->loop, &take->timer, TAKE_MS, overdue, take);
    take->order = node_send_order(take->cluster, take->node, &message);
    if (!take->order)
        take_fails(take, CTL_INTERNAL, (char *)(uintptr_t)"no memory for the order");
}

void client_handle_link_take(struct conn *conn, struct loop_call *call, void *object)
{
    const client_link_take_args *args = object;
    struct cluster *cluster = session_of(conn)->cluster;
    char text[CTL_MAX_TEXT + 1] = "";
    ctl_code code = CTL_OK;
    struct program *program;
    const struct server *source = server_meant(conn, args->key, args->wish.server, &program, &code, text);
    if (source && (!args->wish.connections || args->wish.connections > CTL_MAX_LINK_CONNECTIONS))
        code = explain(text, CTL_INVALID, "a link has 1 to %d connections", CTL_MAX_LINK_CONNECTIONS);
    if (code == CTL_OK)
        code = check_node(source, text);
    if (code == CTL_OK)
        code = check_takes(cluster, program->vm, text);
    const struct server *target =
        code == CTL_OK ? offered_server(cluster, program, &args->wish, &code, text) : NULL;
    struct link_take *take = target ? calloc(1, sizeof *take) : NULL;
    if (target && !take)
        code = explain(text, CTL_INTERNAL, "no memory");
    if (!take) {
        take_answer(call, code, text, nothing);
        return;
    }
    *take = (struct link_take){ .cluster = cluster, .session = session_of(conn), .call = call, .vm = program->vm,
                                .node = source->node, .target = target->row.id };
    snprintf(take->address, sizeof take->address, "%s", server_network_address(target));
    take_order(take, program, args->wish.connections);
}

/* ---- what becomes of it ---- */

bool gpu_links_ordered(struct cluster *cluster, const struct node *node, const node_order_done *done)
{
    struct link_take *take = cluster->link_takes;
    while (take && (take->node != node || take->order != done->number))
        take = take->next;
    if (!take)
        return false;
    if (done->status.code == CTL_OK)
        take_answer(take->call, CTL_OK, nothing, take->address);
    else
        take_answer(take->call, done->status.code, done->status.text, nothing);
    take_drop(take);
    return true;
}

void gpu_links_forget(const struct cluster_session *session)
{
    for (struct link_take *take = session->cluster->link_takes, *next; take; take = next) {
        next = take->next;
        if (take->session != session)
            continue;
        take_back(take);
        take_drop(take);
    }
}

void gpu_links_lose(struct cluster *cluster, struct node *node)
{
    char text[CTL_MAX_TEXT + 1];
    snprintf(text, sizeof text, "node %s, which was to connect the GPU servers, has gone meanwhile", node->row.name);
    for (struct link_take *take = cluster->link_takes, *next; take; take = next) {
        next = take->next;
        if (take->node != node)
            continue;
        take_back(take);
        take_fails(take, CTL_LOST, text);
    }
}

void gpu_links_end(struct cluster *cluster)
{
    while (cluster->link_takes)
        take_drop(cluster->link_takes);
    while (cluster->link_offers)
        drop_offer(&cluster->link_offers);
}
