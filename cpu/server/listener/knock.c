/* knock.c: see knock.h. */
#include "cpu/server/listener/knock.h"

#include <errno.h>
#include <sys/socket.h>

/* So many bytes are wanted before poll says that there are some (TCP). */
static void expect(int fd, size_t bytes)
{
    int wanted = (int)bytes;
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
}

static int receive_up_to(struct knock *knock, int fd, size_t size)
{
    while (knock->have < size) {
        ssize_t n = recv(fd, knock->bytes + knock->have, size - knock->have, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? -ECONNRESET : -errno;
        knock->have += (size_t)n;
    }
    return 0;
}

int knock_receive(struct knock *knock, int fd)
{
    int failure = receive_up_to(knock, fd, RPC_KNOCK_HEAD);
    size_t size = failure ? 0 : rpc_knock_size(knock->bytes);
    if (!failure && !size)
        return -EPROTO;
    if (!failure)
        failure = receive_up_to(knock, fd, size);
    if (failure == -EAGAIN) {
        expect(fd, (size ? size : RPC_KNOCK_HEAD) - knock->have);
        return 0;
    }
    if (failure)
        return failure;
    expect(fd, 1);
    knock->whole = true;
    knock->good = ticket_check_pass(knock->bytes + RPC_KNOCK_HEAD, size - RPC_KNOCK_HEAD, knock->pass, &knock->program,
                                    knock->refusal) == 0;
    return 0;
}
