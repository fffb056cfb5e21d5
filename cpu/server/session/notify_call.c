/* notify_call.c: the EVENTS call itself: the client says which host functions have ended, and asks for news
   (notify.c). */
#include "cpu/server/session.h"
#include "cpu/server/call/notify.h"
#include "cpu/server/stream/host_function.h"

#include <string.h>

int events_serve(struct session *session, rpc_request *request)
{
    events_args args;
    memset(&args, 0, sizeof args);
    if (rpc_request_arguments(request, (xdrproc_t)xdr_events_args, &args) != 0) {
        session_end(session, "the arguments of its EVENTS cannot be decoded");
        return -1;
    }
    for (u_int i = 0; i < args.host_functions_done.host_functions_done_len; i++)
        host_functions_done(session, args.host_functions_done.host_functions_done_val[i]);
    xdr_free((xdrproc_t)xdr_events_args, (char *)&args);
    events_asked(session, rpc_request_xid(request));
    return 0;
}
