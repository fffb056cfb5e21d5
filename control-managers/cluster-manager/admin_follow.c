/* admin_follow.c: ADMIN_FOLLOW: compares everything with what it was, and answers with what has changed (follow.h). */
#include "control-managers/cluster-manager/admin_rows.h"
#include "control-managers/cluster-manager/usage.h"
#include "control-managers/cluster-manager/usage_state.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* A slice ends after so long, and the clock is read once for so many things. A follower waits so long at most. */
enum { SLICE_US = 1000, AT_A_TIME = 32, LOOK_MS = 10000, MINUTE_US = 60000000 };
/* A page is full when its rows have so many bytes, whatever their number, or when a slice is over: encoding and sending
   them takes about as long again. */
enum { PAGE_BYTES = 128 * 1024, ROW_BYTES = 1024 * 1024 };

/* A page of the answer, with the memory that its rows point to. */
struct page {
    admin_news news[CTL_MAX_PAGE];
    union {
        struct node_buffers node;
        struct server_addresses server;
        char why[CTL_MAX_TEXT + 1];
    } buffers[CTL_MAX_PAGE];
    char encoded[ROW_BYTES];
};

/* ---- rows ---- */

#define WHOLE(type, thing) ((struct type *)(void *)((char *)(thing)-offsetof(struct type, followed)))

/* A server that changed after the comparison began counts as if it had changed then: it must not take away from a sum
   that a follower has seen already. */
static void add_sms(const struct cluster *cluster, admin_work *work, const struct server *server, u_int sms)
{
    const struct follow *follow = &cluster->follow;
    int64_t moment = follow->looking ? follow->looking : follow->looked, since = server->counted.accrued;
    if (!since)
        return;
    work->sm_base -= (u_quad_t)sms * (u_quad_t)(since < moment ? since : moment);
    work->sms += sms;
}

/* Fills a row with what the GPU servers of a VM, a node or a GPU have done, and how fast that grows now. */
static void row_of_total(struct cluster *cluster, const struct total *total, admin_total *out)
{
    const struct vm *vm = total->of == TOTAL_VM ? map_get(&cluster->vms, total->name) : NULL;
    const struct cluster_gpu *gpu = total->of == TOTAL_GPU ? map_get(&cluster->gpus, total->name) : NULL;
    const struct node *node = total->of == TOTAL_NODE ? map_get(&cluster->nodes, total->name) : gpu ? gpu->node : NULL;
    static char nobody[1];
    *out = (admin_total){
        .of = (admin_total_of)total->of,
        .name = (char *)(uintptr_t)total->name,
        .node = gpu ? gpu->node->row.name : nobody,
        .work = { .known = vm || node, .figures = total->all, .sm_base = total->sm_us },
    };
    for (const struct server *server = vm     ? vm->servers
                                       : node ? node->servers
                                              : NULL;
         server; server = vm ? server->vm_next : server->node_next) {
        /* Soon after a start the node of a server may not have reported yet, and the total would lack what the DB does
           not have. A counter that falls is worse than one that is not there for a moment. */
        if (server->counted.unheard && !server->stopping)
            out->work.known = 0;
        if (!gpu)
            add_sms(cluster, &out->work, server, server->row.sms * (u_int)server->gpu_count);
        else if (server_has_gpu(server, gpu))
            add_sms(cluster, &out->work, server, server->row.sms);
    }
}

static void row_of_server_news(struct cluster *cluster, struct server *server, admin_server_news *out,
                               struct server_addresses *addresses)
{
    row_of_server(server, &out->server, addresses);
    out->work = (admin_work){ .known = !server->counted.unheard,
                              .figures = server->counted.all,
                              .sm_base = server->counted.sm_us };
    add_sms(cluster, &out->work, server, server->row.sms * (u_int)server->gpu_count);
}

/* Its server is there as long as it is followed. */
static void row_of_alone(struct cluster *cluster, struct used *used, admin_program *out)
{
    const struct served_alone served = { map_get_id(&cluster->servers, used->row.server), &used->row };
    row_of_served(&served, out);
}

static void row_of(struct cluster *cluster, struct followed *thing, struct page *page, size_t at)
{
    admin_news *news = &page->news[at];
    news->kind = (admin_news_kind)thing->kind;
    switch (news->kind) {
    case ADMIN_NEWS_NODE:
        row_of_node(cluster, WHOLE(node, thing), &news->admin_news_u.node, &page->buffers[at].node);
        break;
    case ADMIN_NEWS_VM: row_of_vm(WHOLE(vm, thing), &news->admin_news_u.vm); break;
    case ADMIN_NEWS_SERVER:
        row_of_server_news(cluster, WHOLE(server, thing), &news->admin_news_u.server, &page->buffers[at].server);
        break;
    case ADMIN_NEWS_PROGRAM:
        if (thing->alone)
            row_of_alone(cluster, WHOLE(used, thing), &news->admin_news_u.prog);
        else
            row_of_program(WHOLE(program, thing), &news->admin_news_u.prog, page->buffers[at].why);
        break;
    default: row_of_total(cluster, WHOLE(total, thing), &news->admin_news_u.total); break;
    }
}

/* ---- the comparison ---- */

/* A peer that is connected is heard all the time: that alone is news once in a minute, not for all in the same one. */
static int64_t rarely(int64_t heard, const char *name)
{
    return (heard + (int64_t)(XXH3_64bits(name, strlen(name)) % MINUTE_US)) / MINUTE_US;
}

static void compare(struct cluster *cluster, struct followed *thing)
{
    struct page *page = cluster->follow.page;
    admin_news *news = &page->news[0];
    XDR xdr;
    row_of(cluster, thing, page, 0);
    if (news->kind == ADMIN_NEWS_NODE)
        news->admin_news_u.node.last_heard = rarely(news->admin_news_u.node.last_heard, news->admin_news_u.node.name);
    if (news->kind == ADMIN_NEWS_VM)
        news->admin_news_u.vm.last_heard = rarely(news->admin_news_u.vm.last_heard, news->admin_news_u.vm.vm.name);
    xdrmem_create(&xdr, page->encoded, ROW_BYTES, XDR_ENCODE);
    uint64_t digest = 1;
    if (xdr_admin_news(&xdr, news)) {
        thing->size = xdr_getpos(&xdr);
        digest = XXH3_64bits(page->encoded, thing->size);
        digest += !digest; /* 0: it was never looked at */
    }
    if (digest == thing->digest)
        return;
    thing->digest = digest;
    follow_note(&cluster->follow, thing);
}

static void answer_follow(struct cluster_session *);

static int64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void slice(struct loop_timer *timer, void *context)
{
    struct cluster *cluster = context;
    struct follow *follow = &cluster->follow;
    int64_t until = clock_us() + SLICE_US;
    do {
        if (follow->left > follow->count)
            follow->left = follow->count;
        for (unsigned i = 0; i < AT_A_TIME && follow->left; i++)
            compare(cluster, follow->things[--follow->left]);
    } while (follow->left && clock_us() < until);
    if (follow->left) {
        loop_timer_start(cluster->loop, timer, 1, slice, cluster);
        return;
    }
    follow->looked = follow->looking;
    follow->looking = 0;
    for (struct cluster_session *session = cluster->sessions; session; session = session->next)
        if (session->waiting && session->answer == answer_follow)
            session_wake(session);
}

/* ---- answers ---- */

static void answer_follow(struct cluster_session *session)
{
    struct cluster *cluster = session->cluster;
    struct follow *follow = &cluster->follow;
    struct page *page = follow->page;
    admin_follow_result result = { .status = { CTL_OK, (char *)"" },
                                   .run = cluster->incarnation,
                                   .last = session->after,
                                   .newest = follow->last,
                                   .looked = follow->looked,
                                   .news = { 0, page->news } };
    static char nothing[1];
    size_t bytes = 0, at = follow_behind(follow, session->after);
    const int64_t until = clock_us() + SLICE_US;
    result.anew = session->after > follow->last || (session->after && session->listing.known < follow->forgotten);
    for (; !result.anew && at < follow->entries && result.news.news_len < CTL_MAX_PAGE && bytes < PAGE_BYTES;
         at = follow_next(follow, at)) {
        const struct follow_entry *entry = &follow->journal[at];
        if (result.news.news_len && result.news.news_len % AT_A_TIME == 0 && clock_us() >= until)
            break;
        if (entry->thing) {
            row_of(cluster, entry->thing, page, result.news.news_len++);
            bytes += entry->thing->size;
        } else if (entry->gone) {
            admin_news *news = &page->news[result.news.news_len++];
            news->kind = ADMIN_NEWS_GONE;
            news->admin_news_u.gone = (admin_gone){ .kind = (admin_news_kind)(entry->gone - 1),
                                                    .id = entry->gone_id,
                                                    .name = entry->gone_name ? entry->gone_name : nothing };
        }
        result.last = entry->number;
    }
    result.more = !result.anew && at < follow->entries;
    call_reply(session->waiting, &result);
}

void admin_handle_follow(struct conn *conn, struct loop_call *call, void *object)
{
    const admin_follow_args *args = object;
    struct cluster_session *session = session_of(conn);
    struct cluster *cluster = session->cluster;
    struct follow *follow = &cluster->follow;
    if (!follow->page && !(follow->page = malloc(sizeof(struct page)))) {
        call_refuse(call);
        return;
    }
    session_wait(session, call, answer_follow, LOOK_MS);
    /* A number of another run says nothing here: ~0 is behind every number of this one. */
    session->after = args->run == cluster->incarnation || !args->after ? args->after : UINT64_MAX;
    session->listing.known = args->known;
    if (!args->look || session->after > follow->last) {
        session_wake(session);
    } else if (!follow->looking) {
        follow->looking = loop_time();
        follow->left = follow->count;
        loop_timer_start(cluster->loop, &follow->slice, 1, slice, cluster);
    }
}
