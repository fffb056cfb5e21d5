/* two_servers.c: see two_servers.h. */
#include "two_servers.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/common/fd_message.h"
#include "cpu/common/share_order.h"

pid_t servers[2];
char server_uris[2][128];
static char sockets[2][64];
static struct sockaddr_un controls[2];
const char *servers_kind;
static const char *server_program;
static bool bridged, direct;

static int control_make(int number)
{
    controls[number] = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(controls[number].sun_path, sizeof controls[number].sun_path, "/tmp/flyt-test-moves-%d-%d.control",
             (int)getpid(), number);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    return fd >= 0 && bind(fd, (struct sockaddr *)&controls[number], sizeof controls[number]) == 0 &&
                   listen(fd, 4) == 0
               ? fd
               : -1;
}

/* Takes the descriptors over. Whether the server has them. */
static bool give_all(int server, const struct share_order *order, const int *fds, unsigned count)
{
    uint8_t bytes[SHARE_ORDER_MOST_SIZE], said[SHARE_ANSWER_SIZE];
    struct share_order_answer answer = { .code = SHARE_CANNOT };
    int control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(control, (struct sockaddr *)&controls[server], sizeof controls[server]) == 0 &&
        fd_message_send(control, bytes, share_order_put(order, bytes), fds, count) == 0) {
        ssize_t n = recv(control, said, sizeof said, 0);
        if (n <= 0 || !share_answer_get(said, (size_t)n, &answer))
            answer.code = SHARE_CANNOT;
    }
    close(control);
    fd_message_close(fds, count);
    return answer.code == SHARE_DONE;
}

static bool give(int server, bool departs, int fd)
{
    return give_all(server,
                    &(struct share_order){ .kind = SHARE_BRIDGE, .number = 1, .program = 1, .departs = departs }, &fd,
                    1);
}

static int dial(const char *uri)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(strrchr(uri, ':') + 1)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&at, sizeof at) == 0 ? fd : -1;
}

/* The server where the program is gets connections to the other one. */
static void two_servers_dial(int to)
{
    struct share_order order = { .kind = SHARE_LANES, .number = 1, .program = 1, .departs = true };
    bool given = false;
    snprintf(order.address, sizeof order.address, "%s", server_uris[to]);
    for (int i = 0; !given && i < 500; i++) {
        int fds[4];
        for (int n = 0; n < 4; n++)
            fds[n] = dial(server_uris[to]);
        given = give_all(!to, &order, fds, 4);
        if (!given)
            usleep(2000);
    }
    if (!given)
        fprintf(stderr, "the servers are not connected\n");
}

void two_servers_bridge(int to)
{
    int ends[2];
    if (direct)
        two_servers_dial(to);
    if (direct || !bridged || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return;
    /* The worker of the test before may not have ended yet, or a refused move has nobody to leave. */
    bool given = give(!to, true, dup(ends[0]));
    for (int i = 0; !given && i < 500; i++) {
        usleep(2000);
        given = give(!to, true, dup(ends[0]));
    }
    close(ends[0]);
    if (!give(to, false, ends[1]) || !given)
        fprintf(stderr, "the servers are not connected\n");
}

static int server_start(int number)
{
    char at[128], number_text[16] = "-1";
    int ends[2], control = -1;
    snprintf(sockets[number], sizeof sockets[number], "/tmp/flyt-test-moves-%d-%d.sock", (int)getpid(), number);
    if (*server_uris[number])
        snprintf(at, sizeof at, "%s", server_uris[number]);
    else if (strcmp(servers_kind, "tcp") == 0 || direct || (strcmp(servers_kind, "mixed") == 0 && number))
        snprintf(at, sizeof at, "tcp://127.0.0.1:0");
    else
        snprintf(at, sizeof at, "unix://%s", sockets[number]);
    if (pipe(ends) || (bridged && (control = control_make(number)) < 0))
        return -1;
    snprintf(number_text, sizeof number_text, "%d", control);
    servers[number] = fork();
    if (!servers[number]) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execl(server_program, server_program, "--listen", at, "--gpu", "software", bridged ? "--control-fd" : NULL,
              number_text, NULL);
        _exit(127);
    }
    close(ends[1]);
    if (control >= 0)
        close(control);
    FILE *said = fdopen(ends[0], "r");
    char line[256];
    return said && fgets(line, sizeof line, said) && sscanf(line, "listening on %127s", server_uris[number]) == 1 ? 0
                                                                                                                  : -1;
}

int two_servers_start(const char *kind, const char *program)
{
    servers_kind = kind;
    server_program = program;
    direct = strcmp(kind, "direct") == 0;
    bridged = direct || strcmp(kind, "bridge") == 0;
    if (strcmp(kind, "mixed") == 0)
        setenv("FLYT_PERF", "no_shm", 1);     /* page-locked memory that is shared does not move to where none is */
    return server_start(0) || server_start(1) || setenv("FLYT_SERVER", server_uris[0], 1);
}

int two_servers_again(void) { return server_start(0); }

unsigned two_servers_signal_workers(int number)
{
    char path[64], text[4096];
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)servers[0], (int)servers[0]);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    for (char *end, *at = text; strtol(at, &end, 10) > 0; at = end)
        count += kill((pid_t)strtol(at, &end, 10), number) == 0;
    return count;
}

void two_servers_end(void)
{
    for (int i = 0; i < 2; i++) {
        kill(servers[i], SIGTERM);
        waitpid(servers[i], NULL, 0);
        unlink(sockets[i]);
        unlink(controls[i].sun_path);
        unlink(strncat(sockets[i], ".lock", 6));
    }
}
