#include "cpu/rpc/channel.h"

#include <stdarg.h>
#include <stdio.h>

void rpc_channel_shutdown(rpc_channel *channel)
{
    channel->operations->shutdown(channel);
}

void rpc_channel_destroy(rpc_channel *channel)
{
    if (channel)
        channel->operations->destroy(channel);
}

void rpc_channel_abandon(rpc_channel *channel)
{
    channel->operations->abandon(channel);
}

const char *rpc_channel_transport(const rpc_channel *channel)
{
    return channel->transport;
}

int rpc_explain(char *error, int status, const char *format, ...)
{
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error, RPC_ERROR_SIZE, format, arguments);
        va_end(arguments);
    }
    return status;
}
