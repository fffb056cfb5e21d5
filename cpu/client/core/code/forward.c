/* forward.c: the ids of what forwarded calls name. See forward.h. */
#include "cpu/client/core/api_code.h"
#include "cpu/client/core/code/forward.h"

#include "cpu/client/core/wire/device.h"

int forward_device(int number, struct client_session **session, int *wire)
{
    const struct client_device *device = client_device_find(number);
    if (!device)
        return CORE_INVALID_DEVICE;
    *session = device->session;
    *wire = device->wire;
    return CORE_OK;
}

int forward_function(core_context *context, core_function *function, flyt_id *wire)
{
    struct loaded_function *loaded;
    int code = code_function(context, function, &loaded);
    if (!code)
        *wire = loaded->wire;
    return code;
}
