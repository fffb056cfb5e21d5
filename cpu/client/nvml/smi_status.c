/*
 * smi_status.c: `flyt-smi status`, which flyt-run --status starts: the entitlement of this VM, its GPU servers, and the
 * programs of the user that runs it.
 *
 * Nearly all of it comes from the client manager. The GPU server says how much memory each program holds and how busy
 * it keeps its GPU (libnvidia-ml.so.1). The server is asked only if programs of this user run and all programs of the
 * VM share a server, so the question takes neither a GPU nor a place in the queue. Of a program with a server of its
 * own the memory is what its node has reported of the server.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu/client/nvml/smi.h"
#include "cpu/common/version.h"
#include "cpu/rpc/manager.h"

/* The user is to have an answer within a second: the client manager waits for the cluster manager for a part of it, and
   says then what it knows itself. */
enum { CONNECT_MS = 1000, ANSWER_SECONDS = 1, SILENCE_MS = 900 };
enum { RECORD_MOST = 8 << 20, EXIT_PARTLY = 1, EXIT_NOBODY = 9 };

static const struct rpc_procedure procedures[] = {
    [MANAGER_HELLO] = { "MANAGER_HELLO", RPC_CLASS_SYNC },
    [MANAGER_STATUS] = { "MANAGER_STATUS", RPC_CLASS_SYNC },
};
static const struct rpc_program manager_program = {
    .program = MANAGER_PROGRAM,
    .version = MANAGER_VERSION_1,
    .count = sizeof procedures / sizeof *procedures,
    .procedures = procedures,
    .max_record = RECORD_MOST,
};

/* What the GPU server says of a program. */
struct live {
    unsigned pid, busy;
    uint64_t used;
    bool busy_known;
};

struct view {
    manager_status_result all;
    struct live *live;
    unsigned live_count;
};

/* ---- asking ---- */

static int complain(const char *socket, const char *why)
{
    fprintf(stderr,
            "flyt: the client manager of this machine, at %s, does not say what this VM has: %s. It is the "
            "cluster's part on this machine; with FLYT_SERVER programs do without it, and `flyt-smi` shows their GPU\n",
            socket, why);
    return EXIT_NOBODY;
}

static bool call(rpc_client *client, uint32_t procedure, void *encode, void *args, void *decode, void *result)
{
    struct rpc_call call = {
        .procedure = procedure, .encode = (xdrproc_t)encode, .args = args, .decode = (xdrproc_t)decode, .result = result
    };
    return rpc_client_submit(client, &call) == RPC_SUCCESS && rpc_client_wait(client, &call) == RPC_SUCCESS;
}

#define FUNCTION(name) ((void *)(uintptr_t)(name))

static long long milliseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static int say_hello(rpc_client *client, const char *socket)
{
    manager_hello_result result;
    char software[VERSION_ROOM], name[32];
    int code = 0;
    memset(&result, 0, sizeof result);
    snprintf(software, sizeof software, "flyt-smi %s", flyt_version);
    snprintf(name, sizeof name, "pid-%d", (int)getpid());
    manager_hello_args args = { .major = MANAGER_MAJOR,
                                .minor = MANAGER_MINOR,
                                .role = MANAGER_ROLE_PROGRAM,
                                .name = name,
                                .software = software,
                                .incarnation = (u_quad_t)getpid() };
    const long long begun = milliseconds_now();
    if (!call(client, MANAGER_HELLO, FUNCTION(xdr_manager_hello_args), &args, FUNCTION(xdr_manager_hello_result),
              &result))
        code = complain(socket, milliseconds_now() - begun < SILENCE_MS
                                    ? "it does not answer as a client manager"
                                    : "it took the connection, and has not answered: it is stopped or overloaded");
    else if (result.status.code != MANAGER_OK)
        code = complain(socket, result.status.text);
    else if (result.minor < MANAGER_MINOR_STATUS)
        code = complain(socket, "it is of an earlier release, which does not tell it");
    xdr_free((xdrproc_t)xdr_manager_hello_result, &result);
    return code;
}

static int ask(manager_status_result *result)
{
    const char *socket = rpc_manager_socket();
    char uri[RPC_MANAGER_URI_SIZE], error[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
    rpc_client *client;
    rpc_manager_uri(uri);
    if (rpc_channel_connect(uri, CONNECT_MS, &channel, error) != 0 ||
        rpc_client_create(channel, &manager_program, ANSWER_SECONDS, NULL, NULL, &client, error) != 0)
        return complain(socket, error);
    int code = say_hello(client, socket);
    if (!code && !call(client, MANAGER_STATUS, FUNCTION(xdr_void), NULL, FUNCTION(xdr_manager_status_result), result))
        code = complain(socket, "it has not answered in time");
    rpc_client_destroy(client);
    return code;
}

/* Those that run, then the line, its first place first. */
static int compare_programs(const void *a, const void *b)
{
    const manager_own_program *one = a, *other = b;
    if (one->position != other->position)
        return one->position < other->position ? -1 : 1;
    return one->id < other->id ? -1 : one->id > other->id;
}

static void take_live(struct view *view, const struct smi_process *process)
{
    unsigned at = 0;
    while (at < view->live_count && view->live[at].pid != process->pid)
        at++;
    if (at == view->live_count) {
        struct live *more = realloc(view->live, (at + 1) * sizeof *more);
        if (!more)
            return;
        view->live = more;
        more[at] = (struct live){ .pid = process->pid };
        view->live_count++;
    }
    struct live *live = &view->live[at];
    live->used += process->used; /* on all its GPUs */
    live->busy_known |= process->busy_known;
    live->busy = process->busy > live->busy ? process->busy : live->busy;
}

static void ask_server(struct view *view)
{
    static struct smi smi;
    bool runs = false;
    for (u_int i = 0; i < view->all.programs.programs_len; i++)
        runs |= view->all.programs.programs_val[i].state == MANAGER_PROGRAM_RUNNING;
    if (!runs || !view->all.grouping)
        return;
    setenv("FLYT_LOG", "error", 0);
    unsetenv("FLYT_SERVER");
    if (nvmlInit_v2() == 0 && smi_read(&smi, NULL) == 0)
        for (unsigned g = 0; g < smi.gpu_count; g++)
            for (unsigned p = 0; p < smi.gpus[g].process_count; p++)
                take_live(view, &smi.gpus[g].processes[p]);
    smi_free(&smi);
    nvmlShutdown();
}

static const struct live *live_of(const struct view *view, unsigned pid)
{
    for (unsigned i = 0; i < view->live_count; i++)
        if (pid && view->live[i].pid == pid)
            return &view->live[i];
    return NULL;
}

static const manager_own_server *server_of(const struct view *view, uint64_t id)
{
    for (u_int i = 0; i < view->all.servers.servers_len; i++)
        if (view->all.servers.servers_val[i].id == id)
            return &view->all.servers.servers_val[i];
    return NULL;
}

/* The memory that the program holds: as its GPU server says, or, where it has one of its own, as the node has reported
   last. False: it is not known. */
static bool memory_of(const struct view *view, const manager_own_program *program, uint64_t *bytes)
{
    const struct live *live = live_of(view, program->pid);
    const manager_own_server *server = server_of(view, program->server);
    if (live)
        *bytes = live->used;
    else if (server && server->programs == 1 && program->state == MANAGER_PROGRAM_RUNNING)
        *bytes = server->memory_used;
    else
        return false;
    return true;
}

/* What a node reported some seconds ago may be less than what its programs hold now. */
static void raise_used(struct view *view)
{
    for (u_int s = 0; s < view->all.servers.servers_len; s++) {
        manager_own_server *server = &view->all.servers.servers_val[s];
        uint64_t used = 0;
        for (u_int i = 0; i < view->all.programs.programs_len; i++) {
            const manager_own_program *program = &view->all.programs.programs_val[i];
            const struct live *live = program->server == server->id ? live_of(view, program->pid) : NULL;
            used += live ? live->used : 0;
        }
        if (used > server->memory_used)
            server->memory_used = used;
    }
}

/* ---- words ---- */

static const char *server_state(int state)
{
    static const char *const names[] = { "starting", "running", "stopping", "ended", "failed" };
    return state >= 0 && state < (int)(sizeof names / sizeof *names) ? names[state] : "?";
}

static const char *program_state(int state)
{
    static const char *const names[] = { "waiting", "starting", "running", "lost", "suspended" };
    return state >= 0 && state < (int)(sizeof names / sizeof *names) ? names[state] : "?";
}

static const char *const sharings[] = { "exclusive", "mig", "time-slice", "mps" };

static void size_text(uint64_t bytes, char *out, size_t size)
{
    if (bytes && bytes % (1 << 30) == 0)
        snprintf(out, size, "%lluG", (unsigned long long)bytes >> 30);
    else
        snprintf(out, size, "%lluM", ((unsigned long long)bytes + (1 << 20) - 1) >> 20);
}

static void age_text(const struct view *view, int64_t since, char *out, size_t size)
{
    long long seconds = since ? (view->all.now - since) / 1000000 : -1;
    if (seconds < 0)
        snprintf(out, size, "-");
    else if (seconds < 120)
        snprintf(out, size, "%llds", seconds);
    else if (seconds < 7200)
        snprintf(out, size, "%lldm", seconds / 60);
    else
        snprintf(out, size, seconds < 172800 ? "%lldh" : "%lldd", seconds / (seconds < 172800 ? 3600 : 86400));
}

/* ---- tables ---- */

enum { CELL = 160, MOST_COLUMNS = 9, ROWS_MOST = MANAGER_MAX_PROGRAMS + 1 };

struct smi_grid {
    unsigned columns, rows;
    char (*cells)[MOST_COLUMNS][CELL];
    const char **remarks; /* behind the row, on a line of its own; NULL: none */
};

static void row_begin(struct smi_grid *table) { table->rows += table->rows < ROWS_MOST; }

static char *cell(struct smi_grid *table, unsigned column) { return table->cells[table->rows - 1][column]; }

#define SET(table, column, ...) snprintf(cell(table, column), CELL, __VA_ARGS__)

static void print_table(const struct smi_grid *table)
{
    int widths[MOST_COLUMNS] = { 0 };
    for (unsigned r = 0; r < table->rows; r++)
        for (unsigned c = 0; c < table->columns; c++) {
            int length = (int)strlen(table->cells[r][c]);
            widths[c] = length > widths[c] ? length : widths[c];
        }
    for (unsigned r = 0; r < table->rows; r++) {
        for (unsigned c = 0; c + 1 < table->columns; c++)
            printf("%-*s  ", widths[c], table->cells[r][c]);
        puts(table->cells[r][table->columns - 1]);
        if (table->remarks[r])
            printf("    %s\n", table->remarks[r]);
    }
}

static bool table_open(struct smi_grid *table, unsigned columns, const char *const *titles)
{
    *table = (struct smi_grid){ .columns = columns };
    table->cells = calloc(ROWS_MOST, sizeof *table->cells);
    table->remarks = calloc(ROWS_MOST, sizeof *table->remarks);
    if (!table->cells || !table->remarks)
        return false;
    row_begin(table);
    for (unsigned c = 0; c < columns; c++)
        SET(table, c, "%s", titles[c]);
    return true;
}

static void table_close(struct smi_grid *table)
{
    free(table->cells);
    free(table->remarks);
}

static void print_servers(const struct view *view)
{
    static const char *const titles[] = { "SERVER", "NODE", "GPU", "PRODUCT", "STATE", "SMS", "MEMORY", "PROGRAMS" };
    struct smi_grid table;
    char used[24], whole[24];
    if (view->all.servers.servers_len && table_open(&table, 8, titles)) {
        for (u_int i = 0; i < view->all.servers.servers_len; i++) {
            const manager_own_server *server = &view->all.servers.servers_val[i];
            const u_int gpus = server->gpus.gpus_len;
            row_begin(&table);
            SET(&table, 0, "%llu", (unsigned long long)server->id);
            SET(&table, 1, "%s", server->node);
            SET(&table, 2, gpus > 1 ? "%s and %u more" : "%s", gpus ? server->gpus.gpus_val[0] : "-", gpus - 1);
            SET(&table, 3, "%s", server->product);
            SET(&table, 4, "%s", server_state(server->state));
            SET(&table, 5, "%u", server->sms);
            size_text(server->memory_used, used, sizeof used);
            size_text(server->memory * (gpus ? gpus : 1), whole, sizeof whole);
            SET(&table, 6, "%s/%s", used, whole);
            SET(&table, 7, "%u", server->programs);
        }
        puts("");
        print_table(&table);
        table_close(&table);
    }
}

static void fill_program(const struct view *view, const manager_own_program *program, struct smi_grid *table)
{
    const struct live *live = live_of(view, program->pid);
    const manager_own_server *server = server_of(view, program->server);
    char used[24] = "-";
    uint64_t bytes;
    row_begin(table);
    SET(table, 0, "%u", program->pid);
    SET(table, 1, "%s", program_state(program->state));
    SET(table, 2, program->position ? "%u" : "-", program->position);
    SET(table, 3, server ? "%llu" : "-", (unsigned long long)program->server);
    SET(table, 4, server ? "%u" : "-", server ? server->sms : 0);
    if (memory_of(view, program, &bytes))
        size_text(bytes, used, sizeof used);
    SET(table, 5, "%s", used);
    SET(table, 6, live && live->busy_known ? "%u%%" : "-", live ? live->busy : 0);
    age_text(view, program->since, cell(table, 7), CELL);
    SET(table, 8, "%s", program->executable);
    table->remarks[table->rows - 1] = *program->why ? program->why : NULL;
}

static void print_programs(const struct view *view)
{
    static const char *const titles[] = { "PID",    "STATE", "PLACE", "SERVER",    "SMS",
                                          "MEMORY", "BUSY",  "SINCE", "EXECUTABLE" };
    struct smi_grid table;
    puts("");
    if (!view->all.programs.programs_len) {
        puts("No program of yours uses a GPU or waits for one.");
    } else if (table_open(&table, MOST_COLUMNS, titles)) {
        for (u_int i = 0; i < view->all.programs.programs_len; i++)
            fill_program(view, &view->all.programs.programs_val[i], &table);
        print_table(&table);
        table_close(&table);
    }
    if (view->all.hidden)
        printf("%u program%s of other users %s not shown.\n", view->all.hidden, view->all.hidden == 1 ? "" : "s",
               view->all.hidden == 1 ? "is" : "are");
}

static void print_entitlement(const struct view *view)
{
    char size[24];
    size_text(view->all.memory, size, sizeof size);
    printf("VM %s: %u SMs and %s of %s%u GPU%s", view->all.vm, view->all.sms, size,
           view->all.gpus > 1 ? "each of " : "", view->all.gpus, view->all.gpus > 1 ? "s" : "");
    puts(view->all.grouping ? ", for all its programs together" : ", each program on a GPU server of its own");
}

/* ---- JSON ---- */

static void json_text(const char *key, const char *text, const char *behind)
{
    printf("\"%s\": \"", key);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if (*at == '"' || *at == '\\')
            printf("\\%c", *at);
        else
            putchar(*at);
    printf("\"%s", behind);
}

static void json_server(const manager_own_server *server)
{
    printf("{\"id\": %llu, ", (unsigned long long)server->id);
    json_text("node", server->node, ", \"gpus\": [");
    for (u_int g = 0; g < server->gpus.gpus_len; g++)
        printf("%s\"%s\"", g ? ", " : "", server->gpus.gpus_val[g]);
    printf("], ");
    json_text("product", server->product, ", ");
    json_text("state", server_state(server->state), ", ");
    printf("\"sms\": %u, \"memory\": %llu, \"memory_used\": %llu, \"programs\": %u}", server->sms,
           (unsigned long long)server->memory, (unsigned long long)server->memory_used, server->programs);
}

static void json_program(const struct view *view, const manager_own_program *program)
{
    const struct live *live = live_of(view, program->pid);
    const manager_own_server *server = server_of(view, program->server);
    char when[40] = "";
    uint64_t bytes;
    time_t seconds = (time_t)(program->since / 1000000);
    struct tm parts;
    if (program->since && gmtime_r(&seconds, &parts))
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    printf("{\"id\": %llu, \"pid\": %u, \"uid\": %u, ", (unsigned long long)program->id, program->pid, program->uid);
    json_text("executable", program->executable, ", ");
    json_text("state", program_state(program->state), ", ");
    printf("\"position\": %u, \"server\": %llu, \"sms\": %u, ", program->position, (unsigned long long)program->server,
           server ? server->sms : 0);
    if (memory_of(view, program, &bytes))
        printf("\"memory_used\": %llu, ", (unsigned long long)bytes);
    else
        printf("\"memory_used\": null, ");
    if (live && live->busy_known)
        printf("\"busy\": %.2f, ", live->busy / 100.0);
    else
        printf("\"busy\": null, ");
    json_text("transport", program->transport, ", ");
    json_text("since", when, ", ");
    json_text("why", program->why, "}");
}

static void print_json(const struct view *view)
{
    const manager_status_result *all = &view->all;
    bool first = true;
    printf("{");
    json_text("vm", all->vm, ", ");
    printf("\"complete\": %s, ", all->status.code == MANAGER_OK ? "true" : "false");
    json_text("message", all->status.text, ", ");
    printf("\"sms\": %u, \"memory\": %llu, \"gpus\": %u, \"grouping\": %s, \"sharing\": [", all->sms,
           (unsigned long long)all->memory, all->gpus, all->grouping ? "true" : "false");
    for (unsigned i = 0; i < sizeof sharings / sizeof *sharings; i++)
        if (all->sharing & 1u << i) {
            printf("%s\"%s\"", first ? "" : ", ", sharings[i]);
            first = false;
        }
    printf("], \"servers\": [");
    for (u_int i = 0; i < all->servers.servers_len; i++) {
        printf(i ? ", " : "");
        json_server(&all->servers.servers_val[i]);
    }
    printf("], \"programs\": [");
    for (u_int i = 0; i < all->programs.programs_len; i++) {
        printf(i ? ", " : "");
        json_program(view, &all->programs.programs_val[i]);
    }
    printf("], \"hidden\": %u}\n", all->hidden);
}

/* ---- the command ---- */

static void clean_all(struct view *view)
{
    smi_clean(view->all.status.text);
    smi_clean(view->all.vm);
    for (u_int i = 0; i < view->all.servers.servers_len; i++) {
        manager_own_server *server = &view->all.servers.servers_val[i];
        smi_clean(server->node);
        smi_clean(server->product);
        for (u_int g = 0; g < server->gpus.gpus_len; g++)
            smi_clean(server->gpus.gpus_val[g]);
    }
    for (u_int i = 0; i < view->all.programs.programs_len; i++) {
        smi_clean(view->all.programs.programs_val[i].executable);
        smi_clean(view->all.programs.programs_val[i].transport);
        smi_clean(view->all.programs.programs_val[i].why);
    }
}

int smi_status(bool json)
{
    static struct view view;
    int code = ask(&view.all);
    if (code)
        return code;
    bool whole = view.all.status.code == MANAGER_OK;
    clean_all(&view);
    if (view.all.programs.programs_len)
        qsort(view.all.programs.programs_val, view.all.programs.programs_len, sizeof(manager_own_program),
              compare_programs);
    ask_server(&view);
    raise_used(&view);
    if (json) {
        print_json(&view);
    } else {
        if (whole)
            print_entitlement(&view);
        else
            printf("VM %s: only a part is known: %s\n", view.all.vm, view.all.status.text);
        print_servers(&view);
        print_programs(&view);
    }
    xdr_free((xdrproc_t)xdr_manager_status_result, &view.all);
    free(view.live);
    return whole ? 0 : EXIT_PARTLY;
}
