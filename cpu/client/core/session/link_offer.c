/* link_offer.c: the client manager brings the two ends of a link together: see api_comm.h. */
#include "cpu/client/core/api_comm.h"
#include "cpu/client/core/session/attach.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/common/cancel.h"

bool core_links_managed(void)
{
    CANCEL_DEFERRED;
    return !core_enter() && manager_gives_servers();
}

int core_link_offer(core_context *c, uint8_t offer[CORE_LINK_OFFER_SIZE], char *why)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    *why = 0;
    return code ? code : manager_part_offers(c->session, offer, why, CORE_WHY_SIZE);
}

int core_link_take(core_context *c, const uint8_t offer[CORE_LINK_OFFER_SIZE], unsigned connections, char *address,
                   char *why)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    *why = 0;
    return code ? code : manager_part_takes(c->session, offer, connections, address, why, CORE_WHY_SIZE);
}
