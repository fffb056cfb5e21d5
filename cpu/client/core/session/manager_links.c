/*
 * manager_links.c: the client manager connects GPU servers of two programs: one program asks for an offer, the other
 * one takes it (manager_prot.x).
 */
#include <stdio.h>
#include <string.h>

#include "attach.h"
#include "cpu/client/core/api_comm.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/rpc/manager_prot.h"
#include "manager_state.h"

static int link_code(int status)
{
    switch (status) {
    case MANAGER_OK: return CORE_OK;
    case MANAGER_INVALID:
    case MANAGER_DENIED:
    case MANAGER_NOT_FOUND: return CORE_INVALID_VALUE;
    case MANAGER_BUSY:
    case MANAGER_TIMEOUT: return CORE_NOT_READY;
    case MANAGER_NOT_SUPPORTED:
    case MANAGER_VERSION: return CORE_NOT_SUPPORTED;
    case MANAGER_LOST: return CORE_DEVICE_UNAVAILABLE;
    default: return CORE_UNKNOWN;
    }
}

static bool links_known(void) { return manager && manager_minor >= MANAGER_MINOR_LINKS; }

static int link_answer(bool answered, const manager_status *status, char *why, size_t size)
{
    const bool known = links_known();
    snprintf(why, size, "%s",
             answered ? status->text
             : known  ? "the client manager has ended"
                      : "the client manager is of an earlier release, which connects no GPU servers");
    return answered ? link_code(status->code) : known ? CORE_DEVICE_UNAVAILABLE : CORE_NOT_SUPPORTED;
}

_Static_assert((int)MANAGER_LINK_OFFER_SIZE == (int)CORE_LINK_OFFER_SIZE, "an offer travels as it is");

int manager_offer_link(rpc_client *client, uint8_t *offer, char *why, size_t size)
{
    manager_link_offer args = { 0 };
    manager_link_offer_result result;
    memset(&result, 0, sizeof result);
    bool answered = links_known() &&
                    manager_call_on(client ? client : manager, MANAGER_LINK_OFFER,
                                    (void *)(uintptr_t)xdr_manager_link_offer, &args,
                                    (void *)(uintptr_t)xdr_manager_link_offer_result, &result);
    int code = link_answer(answered, &result.status, why, size);
    if (!code && result.offer.offer_len != MANAGER_LINK_OFFER_SIZE)
        code = CORE_UNKNOWN;
    if (!code)
        memcpy(offer, result.offer.offer_val, MANAGER_LINK_OFFER_SIZE);
    xdr_free((xdrproc_t)xdr_manager_link_offer_result, &result);
    return code;
}

int manager_take_link(rpc_client *client, const uint8_t *offer, unsigned connections, char *address, char *why,
                      size_t size)
{
    manager_link_take args = { .connections = connections };
    manager_link_take_result result;
    args.offer.offer_len = MANAGER_LINK_OFFER_SIZE;
    args.offer.offer_val = (char *)(uintptr_t)offer;
    memset(&result, 0, sizeof result);
    bool answered = links_known() &&
                    manager_call_on(client ? client : manager, MANAGER_LINK_TAKE,
                                    (void *)(uintptr_t)xdr_manager_link_take, &args,
                                    (void *)(uintptr_t)xdr_manager_link_take_result, &result);
    int code = link_answer(answered, &result.status, why, size);
    if (!code)
        snprintf(address, size, "%s", result.address);
    xdr_free((xdrproc_t)xdr_manager_link_take_result, &result);
    return code;
}
