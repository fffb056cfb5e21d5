/*
 * manager.c: the connection to the client manager of this VM, which is asked for a GPU server where FLYT_SERVER names
 * none (manager_prot.x). What the client manager wants of the session, moves for example, is in manager_moves.c;
 * questions and reports about losses are in manager_recovery.c, links in manager_links.c.
 *
 * The connection is kept for the process's life and is not read while nothing is asked: its end is how the client
 * manager learns that the program has ended, however it did. When the client manager goes away, the program goes on;
 * it is taken over by its process id. The child of a fork gives the descriptor up, or it would keep its parent alive
 * in the client manager's books.
 */
#include <errno.h>
#include <grp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/log.h"
#include "cpu/common/version.h"
#include "cpu/rpc/manager.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/session/attach_wait.h"
#include "attach.h"
#include "manager_state.h"

enum { MANAGER_CONNECT_MS = 5000, MANAGER_DEAD_SECONDS = 10, MANAGER_RETRY_MS = 100, MANAGER_HURRY_MS = 2000 };

static const char *const default_socket = RPC_MANAGER_SOCKET;
static const char *const default_config = "/etc/flyt/client-manager.conf";      /* of an installation */
rpc_client *_Atomic manager;
_Atomic unsigned manager_minor;
rpc_client *manager_progress_at;
atomic_bool manager_in_use;
static uint64_t manager_server;       /* that the session uses */

static const struct rpc_procedure procedures[] = {
    [MANAGER_HELLO] = { "MANAGER_HELLO", RPC_CLASS_SYNC },
    [MANAGER_ATTACH] = { "MANAGER_ATTACH", RPC_CLASS_SYNC },
    [MANAGER_WAIT] = { "MANAGER_WAIT", RPC_CLASS_SYNC },
    [MANAGER_TRANSPORT] = { "MANAGER_TRANSPORT", RPC_CLASS_SYNC },
    [MANAGER_UNREACHED] = { "MANAGER_UNREACHED", RPC_CLASS_SYNC },
    [MANAGER_MOVE] = { "MANAGER_MOVE", RPC_CLASS_SYNC },
    [MANAGER_RESUME] = { "MANAGER_RESUME", RPC_CLASS_SYNC },
    [MANAGER_MOVED] = { "MANAGER_MOVED", RPC_CLASS_SYNC },
    [MANAGER_REST] = { "MANAGER_REST", RPC_CLASS_SYNC },
    [MANAGER_THAWED] = { "MANAGER_THAWED", RPC_CLASS_SYNC },
    [MANAGER_SAVE] = { "MANAGER_SAVE", RPC_CLASS_SYNC },
    [MANAGER_PROGRESS] = { "MANAGER_PROGRESS", RPC_CLASS_SYNC },
    [MANAGER_RECOVERY] = { "MANAGER_RECOVERY", RPC_CLASS_SYNC },
    [MANAGER_RECOVERED] = { "MANAGER_RECOVERED", RPC_CLASS_SYNC },
    [MANAGER_STORE] = { "MANAGER_STORE", RPC_CLASS_SYNC },
    [MANAGER_MEET] = { "MANAGER_MEET", RPC_CLASS_SYNC },
    [MANAGER_SESSION] = { "MANAGER_SESSION", RPC_CLASS_SYNC },
    [MANAGER_LINK_OFFER] = { "MANAGER_LINK_OFFER", RPC_CLASS_SYNC },
    [MANAGER_LINK_TAKE] = { "MANAGER_LINK_TAKE", RPC_CLASS_SYNC },
    [MANAGER_PART] = { "MANAGER_PART", RPC_CLASS_SYNC },
};
static const struct rpc_program manager_program = {
    .program = MANAGER_PROGRAM, .version = MANAGER_VERSION_1, .count = sizeof procedures / sizeof *procedures,
    .procedures = procedures, .max_record = 65536,
};

static const char *manager_socket(void)
{
    const char *given = env_get("FLYT_MANAGER");
    return given && *given ? given : default_socket;
}

bool manager_wanted(const char *default_server)
{
    const char *given = env_get("FLYT_MANAGER");
    /* EACCES: something may be there that this user is not to see. It is said then, instead of a guess. */
    if ((given && *given) || access(default_socket, F_OK) == 0 || errno == EACCES)
        return true;
    /* Nobody listens there, and nobody as a server: where a client manager is installed, it is what is missing. */
    return access(default_config, F_OK) == 0 && access(default_server + strlen("unix://"), F_OK) != 0;
}

bool manager_call_on(rpc_client *client, uint32_t procedure, void *encode, void *args, void *decode, void *result)
{
    struct rpc_call call = { .procedure = procedure, .encode = (xdrproc_t)encode, .args = args,
                             .decode = (xdrproc_t)decode,
                             .result = result };
    return rpc_client_submit(client, &call) == RPC_SUCCESS && rpc_client_wait(client, &call) == RPC_SUCCESS;
}

bool manager_call(uint32_t procedure, void *encode, void *args, void *decode, void *result)
{
    return manager_call_on(manager, procedure, encode, args, decode, result);
}

/* Who may use the socket is decided by its mode and group: the user learns whom to ask for what. */
static void manager_say_denied(const char *path)
{
    struct stat is;
    struct group group, *found = NULL;
    char buffer[4096];
    if (stat(path, &is) == 0 && getgrgid_r(is.st_gid, &group, buffer, sizeof buffer, &found) == 0 && found)
        log_error("this user may not use the client manager's socket %s (mode %04o, group %s). Ask the administrator "
                  "to put you into group %s (usermod -aG), and log in again; ipc.mode and ipc.group of the client "
                  "manager decide",
                  path, (unsigned)(is.st_mode & 07777), found->gr_name, found->gr_name);
    else
        log_error("this user may not use the client manager's socket %s. Ask the administrator: ipc.mode and ipc.group "
                  "of the client manager, and the mode of the folder, decide who may",
                  path);
}

/* A client manager that is not there may be about to start: it is waited for as long as FLYT_WAIT=SECONDS says. */
static int manager_reach(const char *uri, rpc_channel **channel, char *error)
{
    for (;;) {
        int status = rpc_channel_connect(uri, attach_wait_ms(MANAGER_CONNECT_MS), channel, error);
        bool absent = status == -ENOENT || status == -ECONNREFUSED;
        if (!absent || attach_wait_wish() == ATTACH_WAIT_NO || !attach_wait_left() || attach_wait_over())
            return status;
        attach_wait_stage("the client manager at %s, which is not there. Start flyt-client-manager on this machine",
                       uri + strlen("unix://"));
        nanosleep(&(struct timespec){ .tv_nsec = MANAGER_RETRY_MS * CLOCK_NS_PER_MS }, NULL);
    }
}

static int manager_connect(void)
{
    char uri[4096], error[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
    const char *given = manager_socket();
    snprintf(uri, sizeof uri, "%s%s", strncmp(given, "unix://", 7) ? "unix://" : "", given);
    attach_wait_stage("the client manager at %s, which does not answer. Is flyt-client-manager stopped or overloaded?",
                   given);
    if (attach_wait_wish() == ATTACH_WAIT_NO)
        attach_wait_limit(MANAGER_HURRY_MS);
    int status = manager_reach(uri, &channel, error);
    if (status == -EACCES || status == -EPERM) {
        manager_say_denied(uri + 7);
        return CORE_SYSTEM_NOT_READY;
    }
    if (status != 0) {
        if (!attach_wait_blame())
            log_error("no client manager answers at %s: %s. Start flyt-client-manager on this machine, or set "
                      "FLYT_SERVER to a GPU server",
                      given, error);
        return CORE_SYSTEM_NOT_READY;
    }
    rpc_client *client;
    if (rpc_client_create(channel, &manager_program, MANAGER_DEAD_SECONDS, NULL, NULL, &client, error) != 0) {
        log_error("cannot use the connection to the client manager: %s", error);
        return CORE_SYSTEM_NOT_READY;
    }
    rpc_client_set_spinning(client, false);
    manager = client;
    attach_wait_watch(client);
    return CORE_OK;
}

static bool say_hello_as(rpc_client *client, unsigned minor, manager_hello_result *result)
{
    char name[32], software[VERSION_ROOM];
    snprintf(software, sizeof software, "libflyt-client %s", flyt_version);
    snprintf(name, sizeof name, "pid-%d", (int)getpid());
    manager_hello_args args = { .major = MANAGER_MAJOR, .minor = minor, .role = MANAGER_ROLE_PROGRAM,
                                .name = name,
                                .software = software, .incarnation = (u_quad_t)getpid() };
    memset(result, 0, sizeof *result);
    return manager_call_on(client, MANAGER_HELLO, (void *)(uintptr_t)xdr_manager_hello_args, &args,
                           (void *)(uintptr_t)xdr_manager_hello_result, result);
}

static bool say_hello(rpc_client *client, manager_hello_result *result)
{
    return say_hello_as(client, MANAGER_MINOR, result);
}

static int manager_hello(void)
{
    manager_hello_result result;
    int code = CORE_SYSTEM_NOT_READY;
    if (!say_hello(manager, &result)) {
        if (!attach_wait_blame())
            log_error("what listens at %s does not answer as a client manager", manager_socket());
    } else if (result.status.code != MANAGER_OK)
        log_error("the client manager refuses this program: %s", result.status.text);
    else
        code = CORE_OK;
    manager_minor = result.minor;
    if (attach_wait_wish() == ATTACH_WAIT_NO)
        attach_wait_limit(0);                      /* it is there; what it answers comes with its own limits */
    xdr_free((xdrproc_t)xdr_manager_hello_result, &result);
    return code;
}

static void manager_wait_wish(manager_attach_args *args)
{
    static const int wishes[] = {
        [ATTACH_WAIT_DEFAULT] = MANAGER_WAIT_DEFAULT,
        [ATTACH_WAIT_NO] = MANAGER_WAIT_NO,
        [ATTACH_WAIT_YES] = MANAGER_WAIT_YES
    };
    args->wait = wishes[attach_wait_wish()];
    args->wait_ms = attach_wait_left();
}

/* Until the answer is final. */
static bool manager_wait(manager_answer *answer)
{
    static manager_wait_args again;
    while (answer->status.code == MANAGER_WAITING) {
        if (answer->position)
            attach_wait_stage("a GPU, place %u in the queue: %s", answer->position, answer->status.text);
        else
            attach_wait_stage("a GPU server: %s", answer->status.text);
        xdr_free((xdrproc_t)xdr_manager_answer, answer);
        memset(answer, 0, sizeof *answer);
        if (!manager_call(MANAGER_WAIT, (void *)(uintptr_t)xdr_manager_wait_args, &again,
                          (void *)(uintptr_t)xdr_manager_answer, answer))
            return false;
    }
    return true;
}

bool manager_take_grant(const manager_grant *grant, struct manager_place *place)
{
    for (u_int i = 0; i < grant->addresses.addresses_len; i++) {
        const char *uri = grant->addresses.addresses_val[i];
        if (grant->tls && strncmp(uri, "tcp://", 6) == 0)
            log_warning("%s is not used: the same server has an address with TLS", uri);
        else if ((place->uris[place->count] = strdup(uri)))
            place->count++;
    }
    place->ticket = malloc(grant->ticket.ticket_len + 1);
    if (!place->ticket || !place->count)
        return false;
    place->server = grant->server;
    place->program = grant->prog;
    place->parts = grant->sharing / MANAGER_GRANT_PARTS;
    place->ticket_size = grant->ticket.ticket_len;
    if (place->ticket_size)
        memcpy(place->ticket, grant->ticket.ticket_val, place->ticket_size);
    return true;
}

static int manager_take(manager_answer *answer, struct manager_place *place)
{
    manager_grant *grant = &answer->grant;
    if (answer->status.code != MANAGER_OK) {
        log_error("no GPU for this program: %s", answer->status.text);
        return answer->status.code == MANAGER_WAITING ? CORE_SYSTEM_NOT_READY : CORE_DEVICE_UNAVAILABLE;
    }
    if (!manager_take_grant(grant, place)) {
        log_error("the client manager knows no address of GPU server %llu that this program could use",
                  (unsigned long long)grant->server);
        return CORE_SYSTEM_NOT_READY;
    }
    manager_server = grant->server;
    log_info("GPU server %llu on node %s: %u SMs, %llu MiB", (unsigned long long)grant->server, grant->node, grant->sms,
             (unsigned long long)(grant->memory >> 20));
    return CORE_OK;
}

void manager_executable(char path[MANAGER_MAX_PATH + 1])
{
    ssize_t length = readlink("/proc/self/exe", path, MANAGER_MAX_PATH);
    path[length > 0 ? length : 0] = 0;
}

int manager_ask(struct manager_place *place)
{
    char executable[MANAGER_MAX_PATH + 1];
    memset(place, 0, sizeof *place);
    manager_executable(executable);
    rpc_client_destroy(manager);
    manager = NULL;
    manager_progress_at = NULL;
    int code = manager_connect();
    if (code || (code = manager_hello()))
        return code;
    manager_attach_args args = { .executable = executable };
    manager_wait_wish(&args);
    manager_answer answer;
    memset(&answer, 0, sizeof answer);
    if (manager_call(MANAGER_ATTACH, (void *)(uintptr_t)xdr_manager_attach_args, &args,
                     (void *)(uintptr_t)xdr_manager_answer, &answer) &&
        manager_wait(&answer)) {
        code = manager_take(&answer, place);
    } else {
        if (!attach_wait_blame())
            log_error(
                "the client manager went away before it had a GPU server for this program; start the program again");
        code = CORE_SYSTEM_NOT_READY;
    }
    attach_wait_watch(NULL);
    xdr_free((xdrproc_t)xdr_manager_answer, &answer);
    return code;
}

/* The connection ends for the program, which is about to ask anew; another thread may still be looking at it. */
static void manager_forget(void)
{
    rpc_client *client = atomic_exchange(&manager, NULL);
    if (client)
        rpc_client_shutdown(client);
}

static bool ask_as_before(manager_answer *answer)
{
    static manager_wait_args again = { .renew = 1 };
    attach_wait_watch(manager);
    xdr_free((xdrproc_t)xdr_manager_answer, answer);
    memset(answer, 0, sizeof *answer);
    return manager &&
           manager_call(MANAGER_WAIT, (void *)(uintptr_t)xdr_manager_wait_args, &again,
                        (void *)(uintptr_t)xdr_manager_answer, answer) &&
           manager_wait(answer);
}

int manager_ask_other(struct manager_place *place, const char *why)
{
    manager_answer answer;
    int code = CORE_OK;
    memset(&answer, 0, sizeof answer);
    if (!manager || manager_minor < MANAGER_MINOR_UNREACHED)
        return CORE_OK;
    manager_unreached_args args = { .server = place->server, .why = (char *)(uintptr_t)why };
    attach_wait_watch(manager);
    bool answered = manager_call(MANAGER_UNREACHED, (void *)(uintptr_t)xdr_manager_unreached_args, &args,
                                 (void *)(uintptr_t)xdr_manager_answer, &answer) &&
                    manager_wait(&answer);
    attach_wait_watch(NULL);
    /* Without an answer, and while the cluster manager is away, the server that there is may still come back. */
    if (answered && answer.status.code != MANAGER_LOST) {
        manager_place_free(place);
        code = manager_take(&answer, place);
    }
    xdr_free((xdrproc_t)xdr_manager_answer, &answer);
    return code;
}

void manager_place_free(struct manager_place *place)
{
    for (unsigned i = 0; i < place->count; i++)
        free(place->uris[i]);
    free(place->ticket);
    memset(place, 0, sizeof *place);
}

static void transport_told(struct rpc_call *call, void *context)
{
    (void)context;
    xdr_free((xdrproc_t)xdr_manager_plain_result, call->result);
}

void manager_tell_transport(const char *mode, const char *why)
{
    /* The answer is read whenever the client manager is asked something else, if ever. */
    static manager_plain_result result;
    static struct rpc_call call = { .procedure = MANAGER_TRANSPORT, .encode = (xdrproc_t)xdr_manager_transport,
                                    .decode = (xdrproc_t)xdr_manager_plain_result, .result = &result,
                                    .done = transport_told };
    if (!manager || manager_minor < MANAGER_MINOR_TRANSPORT)
        return;
    manager_transport args = { (char *)(uintptr_t)mode, (char *)(uintptr_t)why };
    call.args = &args;
    if (rpc_client_submit(manager, &call) != RPC_SUCCESS)
        log_info("the client manager is not told how this program reaches its GPU server: the connection has ended");
}

bool manager_gives_servers(void) { return manager != NULL; }

/* ---- the client manager ends, and another one comes ---- */

bool manager_is_away(void)
{
    return manager && manager_minor >= MANAGER_MINOR_MOVES && rpc_client_lost(manager) &&
           access(manager_socket(), F_OK) == 0;
}

/* The process was restored by CRIU: the client manager here is another one, or has seen this process end. */
static bool tell_thawed(rpc_client *client)
{
    char executable[MANAGER_MAX_PATH + 1];
    manager_plain_result result;
    manager_executable(executable);
    manager_attach_args args = { .executable = executable };
    memset(&result, 0, sizeof result);
    bool known = manager_call_on(client, MANAGER_THAWED, (void *)(uintptr_t)xdr_manager_attach_args, &args,
                                 (void *)(uintptr_t)xdr_manager_plain_result, &result) &&
                 result.status.code == MANAGER_OK;
    xdr_free((xdrproc_t)xdr_manager_plain_result, &result);
    return known;
}

static bool resume(rpc_client *client, uint64_t move)
{
    manager_resume_args args = { .server = manager_server, .move = move };
    manager_hello_result hello;
    manager_plain_result result;
    memset(&result, 0, sizeof result);
    bool back = say_hello(client, &hello) && hello.status.code == MANAGER_OK && hello.minor >= MANAGER_MINOR_MOVES &&
                manager_call_on(client, MANAGER_RESUME, (void *)(uintptr_t)xdr_manager_resume_args, &args,
                                (void *)(uintptr_t)xdr_manager_plain_result, &result) &&
                result.status.code == MANAGER_OK;
    if (result.status.code == MANAGER_NOT_FOUND && manager_server == MANAGER_SUSPENDED &&
        hello.minor >= MANAGER_MINOR_SAVES)
        back = tell_thawed(client);
    if (back)
        manager_minor = hello.minor;
    xdr_free((xdrproc_t)xdr_manager_hello_result, &hello);
    xdr_free((xdrproc_t)xdr_manager_plain_result, &result);
    return back;
}

static rpc_client *connect_again(void)
{
    char uri[4096], error[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
    rpc_client *client = NULL;
    const char *given = manager_socket();
    snprintf(uri, sizeof uri, "%s%s", strncmp(given, "unix://", 7) ? "unix://" : "", given);
    if (rpc_channel_connect(uri, MANAGER_HURRY_MS, &channel, error) != 0 ||
        rpc_client_create(channel, &manager_program, MANAGER_DEAD_SECONDS, NULL, NULL, &client, error) != 0)
        return NULL;
    rpc_client_set_spinning(client, false);
    return client;
}

rpc_client *manager_open_another(unsigned minor)
{
    manager_hello_result hello;
    rpc_client *client = connect_again();
    if (!client)
        return NULL;
    bool welcome = say_hello_as(client, minor, &hello) && hello.status.code == MANAGER_OK;
    xdr_free((xdrproc_t)xdr_manager_hello_result, &hello);
    if (welcome)
        return client;
    rpc_client_destroy(client);
    return NULL;
}

/* AWAY: nobody answers. UNKNOWN: the client manager does not know this program. */
enum back { BACK, AWAY, UNKNOWN };
static atomic_uint comings;

/* The old client is kept: another thread may be about to look at it. */
static enum back back_try(uint64_t move)
{
    rpc_client *client = connect_again();
    if (!client)
        return AWAY;
    if (!resume(client, move)) {
        const bool lost = rpc_client_lost(client);
        rpc_client_destroy(client);
        return lost ? AWAY : UNKNOWN;
    }
    manager = client;
    atomic_fetch_add(&comings, 1);
    return BACK;
}

unsigned manager_comings(void) { return atomic_load(&comings); }

bool manager_come_back(uint64_t move) { return back_try(move) == BACK; }

/* As manager_come_back, but a client manager that is away is waited for, until clock_now is `until`. */
static bool await_back(uint64_t until)
{
    enum { PAUSE_MS = 200 };
    enum back back;
    bool said = false;
    while ((back = back_try(0)) == AWAY && clock_now() < until && !attach_wait_over()) {
        if (!said)
            log_warning("the client manager at %s is away; this program waits for it", manager_socket());
        said = true;
        nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * CLOCK_NS_PER_MS }, NULL);
    }
    return back == BACK;
}

/* How long a program that makes its session again waits for a client manager that has ended: one that begins anew knows
   it, and it keeps its ID. */
#define MANAGER_AWAY_NS (60 * CLOCK_NS_PER_SECOND)

/* A place for this program, which has had one. False: the client manager does not know it, or has gone away. */
static bool ask_until_known(manager_answer *answer)
{
    enum { TRIES = 3, PAUSE_MS = 200 };
    const uint64_t until = clock_now() + MANAGER_AWAY_NS;
    /* The first question may be answered by what has just become of its server, the next one is for another one. */
    for (unsigned tries = 0; tries < TRIES; tries++) {
        if (tries)
            nanosleep(&(struct timespec){ .tv_nsec = PAUSE_MS * CLOCK_NS_PER_MS }, NULL);
        if (!ask_as_before(answer) && (attach_wait_over() || !await_back(until) || !ask_as_before(answer)))
            return false;
        if (answer->status.code != MANAGER_LOST)
            return true;
    }
    return false;
}

int manager_ask_again(struct manager_place *place)
{
    manager_answer answer;
    memset(&answer, 0, sizeof answer);
    memset(place, 0, sizeof *place);
    bool answered = ask_until_known(&answer);
    attach_wait_watch(NULL);
    int code = answered ? manager_take(&answer, place) : CORE_OK;
    xdr_free((xdrproc_t)xdr_manager_answer, &answer);
    if (answered)
        return code;
    manager_forget();
    return manager_ask(place);
}

void manager_let_go(void)
{
    rpc_client_destroy(atomic_exchange(&manager, NULL));
    manager_progress_at = NULL;                           /* its last call may have had no answer */
}

void manager_note_server(uint64_t server) { manager_server = server; }
void manager_note_suspended(void) { manager_server = MANAGER_SUSPENDED; }

void manager_abandon(void)
{
    if (manager)
        rpc_client_abandon(manager);
    for (struct client_session *session = core_session.next; session; session = session->next)
        if (session->manager)
            rpc_client_abandon(session->manager);
    manager = NULL;
    manager_progress_at = NULL;
}
