/*
 * borrow.c: links that communicators use (cpu/server/comm). A link has one borrower at most, which alone names
 * transfers on it. It hears in a thread of the engine when the link is lost; muting the link waits for such a thread,
 * so that its borrower is not called afterwards.
 */
#include "cpu/server/links/links_state.h"

#include <errno.h>

#include "cpu/common/lock.h"
#include "cpu/rpc/transport/channel.h"

static void links_silent(void *of, int status, const char *why)
{
    (void)of;
    (void)status;
    (void)why;
}

int links_borrow(struct session *session, uint32_t id, const struct links_borrower *borrower,
                 struct server_link **out, char *why)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct links *links = session->links;
    struct server_link *link = links ? link_find(session, id) : NULL;
    *out = NULL;
    if (!link)
        return rpc_explain(why, -EINVAL, "there is no link %u", id);
    pthread_mutex_lock(&links->lock);
    bool free_now = !link->borrower.lost && !link->closing && link->tried;
    if (free_now)
        link->borrower = *borrower;
    pthread_mutex_unlock(&links->lock);
    if (!free_now)
        return rpc_explain(why, -EINVAL, "link %u is not joined, or belongs to another communicator", id);
    link->busy++;
    if (links->ways->status(link->link) == 0) {
        *out = link;
        return 0;
    }
    pthread_mutex_lock(&links->lock);
    rpc_explain(why, -ECONNRESET, "link %u has ended: %s", id, link->why);
    pthread_mutex_unlock(&links->lock);
    links_mute(link);
    links_give_back(link);
    return -ECONNRESET;
}

void links_mute(struct server_link *link)
{
    struct links *links = link->session->links;
    pthread_mutex_lock(&links->lock);
    link->borrower.lost = links_silent;
    while (link->telling > 0)
        pthread_cond_wait(&links->changed, &links->lock);
    pthread_mutex_unlock(&links->lock);
}

void links_give_back(struct server_link *link)
{
    struct links *links = link->session->links;
    FLYT_ASSERT_HELD(&link->session->lock);
    pthread_mutex_lock(&links->lock);
    link->borrower = (struct links_borrower){ 0 };
    pthread_mutex_unlock(&links->lock);
    link_idle(link);
}

struct comm_link *links_comm(const struct server_link *link) { return link->link; }

struct comm_engine *links_engine(const struct session *session)
{
    return session->links ? atomic_load(&session->links->engine) : NULL;
}

void link_tell(struct server_link *link, int status, const char *why)
{
    struct links *links = link->session->links;
    pthread_mutex_lock(&links->lock);
    const struct links_borrower borrower = link->borrower;
    link->telling += borrower.lost != NULL;
    pthread_mutex_unlock(&links->lock);
    if (!borrower.lost)
        return;
    borrower.lost(borrower.of, status, why);
    pthread_mutex_lock(&links->lock);
    link->telling--;
    pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
}
