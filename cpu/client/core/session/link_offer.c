/* link_offer.c: the client manager brings the two ends of a link together: see api_comm.h. */
#include <pthread.h>

#include "cpu/client/core/api_comm.h"
#include "cpu/client/core/session/attach.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/common/cancel.h"

/* A client manager takes one such question of a program at a time. No program of another end is waited for. */
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

bool core_links_managed(void)
{
    CANCEL_DEFERRED;
    return !core_enter() && manager_gives_servers();
}

int core_link_offer(uint8_t offer[CORE_LINK_OFFER_SIZE], char *why)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    *why = 0;
    if (code)
        return code;
    pthread_mutex_lock(&asking);
    code = manager_offer_link(NULL, offer, why, CORE_WHY_SIZE);
    pthread_mutex_unlock(&asking);
    return code;
}

int core_link_take(const uint8_t offer[CORE_LINK_OFFER_SIZE], unsigned connections, char *address, char *why)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    *why = 0;
    if (code)
        return code;
    pthread_mutex_lock(&asking);
    code = manager_take_link(NULL, offer, connections, address, why, CORE_WHY_SIZE);
    pthread_mutex_unlock(&asking);
    return code;
}
