/* value_calls.c: client managers ask for values of their programs (values.c). */
#include "control-managers/cluster-manager/cluster.h"

void client_handle_value(struct conn *conn, struct loop_call *call, void *object)
{
    values_serve(session_of(conn), client_vm_of(conn), object, call);
}
