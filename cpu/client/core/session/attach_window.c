/* attach_window.c: see attach_window.h. */
#include "attach_window.h"

#include <errno.h>
#include <string.h>

#include "cpu/common/address_space.h"
#include "cpu/common/log.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

/* Sizes that servers know, largest first; places where neither they nor programs usually have anything. */
static const uint64_t sizes[] = { UINT64_C(1) << 38, UINT64_C(1) << 36, UINT64_C(1) << 34, UINT64_C(1) << 32 };
static const uint64_t places[] = { UINT64_C(0x210000000000), UINT64_C(0x240000000000), UINT64_C(0x140000000000),
                                   ADDRESS_SPACE_LOW, UINT64_C(0x003000000000), UINT64_C(0x005000000000) };

int attach_window_reserve(uint64_t at, uint64_t size)
{
    void *got = address_space_take(at, size, MAP_FIXED_NOREPLACE);
    if (got == (void *)(uintptr_t)at)
        return 0;
    int error = got == MAP_FAILED ? errno : EEXIST;
    if (got != MAP_FAILED)
        address_space_give(got, size);
    return error;
}

/* *host_size: what the server has behind it. */
static bool server_takes(uint64_t at, uint64_t size, uint64_t *host_size)
{
    window_take_args args = { at, size };
    window_result result;
    memset(&result, 0, sizeof result);
    int code =
        wire_call(&core_session, FLYT_WINDOW_TAKE, (xdrproc_t)xdr_window_take_args, &args,
                  (xdrproc_t)xdr_window_result, &result);
    bool taken = !code && result.window == at;
    *host_size = result.host_size;
    xdr_free((xdrproc_t)xdr_window_result, &result);
    return taken;
}

uint64_t attach_window_own(uint64_t refused, uint64_t *size, uint64_t *host_size)
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            /* the server still has the one that was refused */
            bool apart = places[p] + sizes[s] <= refused || refused + core_session.window_size <= places[p];
            int error = apart ? attach_window_reserve(places[p], sizes[s]) : EEXIST;
            if (error == ENOMEM || error == EAGAIN)
                break; /* a limit, which a smaller one may keep */
            if (error)
                continue;
            if (server_takes(places[p], sizes[s], host_size)) {
                *size = sizes[s];
                log_info("the addresses of GPU memory are %llu GiB from 0x%llx on, chosen by this program",
                         (unsigned long long)(sizes[s] >> 30), (unsigned long long)places[p]);
                return places[p];
            }
            address_space_give((void *)(uintptr_t)places[p], sizes[s]);
        }
    return 0;
}
