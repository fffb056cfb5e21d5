#include "tests/control/cluster_rig.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct rig rig;
const char *rig_address = "127.0.0.1";
double rig_ticket_seconds = 60;
bool rig_software;
const char *rig_security = "";

/* ---- the manager ---- */

static const char *manager_path(void)
{
    const char *path = getenv("FLYT_TEST_CLUSTER_MANAGER");
    return path ? path : "bin/flyt-cluster-manager";
}

static void write_config(const char *settings, int node_port, int client_port)
{
    FILE *file = fopen(rig.config, "w");
    assert_non_null(file);
    fprintf(file,
            "vm-resource-db = { uri = \"sqlite://%s/flyt.db\"; };\n"
            "ports = { address = \"%s\"; node = %d; client = %d; };\n"
            "ipc = { frontend-socket = \"%s/admin.sock\"; };\n"
            "security = { ticket-key = \"%s/ticket.key\"; tls = \"off\"; node-secret = \"file:%s/node.secret\"; "
            "ticket-seconds = %.1f; %s };\n%s\n",
            rig.folder, rig_address, node_port, client_port, rig.folder, rig.folder, rig.folder, rig_ticket_seconds,
            rig_security, settings);
    fclose(file);
}

static char rig_settings[1024];

void rig_start(void)
{
    int out[2];
    char lines[512] = "";
    size_t size = 0;
    assert_int_equal(pipe(out), 0);
    rig.pid = fork();
    if (rig.pid == 0) {
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        if (!getenv("FLYT_TEST_LOUD")) {
            char log[160];
            snprintf(log, sizeof log, "%s/log", rig.folder);
            if (!freopen(log, "a", stderr))
                _exit(126);
        }
        execl(manager_path(), "flyt-cluster-manager", "-c", rig.config, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    for (ssize_t got; size < sizeof lines - 1 && (got = read(out[0], lines + size, sizeof lines - 1 - size)) > 0;) {
        lines[size += (size_t)got] = '\0';
        if (strstr(lines, "unix://") && strchr(strstr(lines, "unix://"), '\n'))
            break;
    }
    close(out[0]);
    if (sscanf(lines, "%127s %127s %159s", rig.node_uri, rig.client_uri, rig.admin_uri) != 3)
        fail_msg("the manager did not start: '%s' (see %s/log)", lines, rig.folder);
    write_config(rig_settings, atoi(strrchr(rig.node_uri, ':') + 1), atoi(strrchr(rig.client_uri, ':') + 1));
}

void rig_create(const char *settings)
{
    char path[128];
    memset(&rig, 0, sizeof rig);
    snprintf(rig.folder, sizeof rig.folder, "/tmp/flyt-cluster-XXXXXX");
    assert_non_null(mkdtemp(rig.folder));
    snprintf(rig.config, sizeof rig.config, "%s/cluster.conf", rig.folder);
    snprintf(rig_settings, sizeof rig_settings, "%s", settings);
    write_config(settings, 0, 0);
    memcpy(rig.node_secret.bytes, "node secret", rig.node_secret.size = 11);
    snprintf(path, sizeof path, "%s/node.secret", rig.folder);
    assert_int_equal(secret_write(path, rig.node_secret.bytes, rig.node_secret.size, NULL), 0);
    rig.loop = loop_create();
    rig_start();
}

static int wait_for_end(pid_t pid, unsigned ms)
{
    int status = 0;
    for (unsigned i = 0; i < ms / 10; i++) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
        rig_run_ms(10);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    fail_msg("the manager did not end within %u ms", ms);
    return status;
}

void rig_signal(int number)
{
    kill(rig.pid, number);
    int status = wait_for_end(rig.pid, 10000);
    rig.pid = 0;
    if (number == SIGKILL) /* nodes and clients notice, before anybody asks whether they are registered again */
        rig_run_ms(20);
    if (number == SIGTERM && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
        fail_msg("the manager did not end cleanly: status %#x (see %s/log)", status, rig.folder);
}

static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    char inner[512];
    while (folder && (entry = readdir(folder))) {
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (*entry->d_name != '.')
            unlink(inner);
    }
    closedir(folder);
    rmdir(path);
}

void rig_destroy(void)
{
    for (unsigned i = rig.open_count; i-- > 0;)          /* each takes itself off the list */
        if (rig.open[i].client)
            client_close(rig.open[i].client);
    while (rig.open_count > 0)
        node_close(rig.open[0].node);
    free(rig.open);
    rig.open = NULL;
    rig.open_room = 0;
    link_close(rig.admin);
    rig.admin = NULL;
    if (rig.pid)
        rig_signal(SIGTERM);
    loop_destroy(rig.loop);
    rig.loop = NULL;
    remove_folder(rig.folder);
}

int rig_after(void **state)
{
    (void)state;
    if (rig.loop)
        rig_destroy();
    return 0;
}

/* A tick, so that conditions are looked at although nothing happens. */
static void nothing(struct loop_timer *timer, void *context)
{
    (void)timer, (void)context;
}

void rig_step(void)
{
    struct loop_timer timer = { 0 };
    loop_timer_start(rig.loop, &timer, 10, nothing, NULL);
    loop_run_once(rig.loop);
    loop_timer_stop(&timer);
}

void rig_run_ms(unsigned ms)
{
    uint64_t until = loop_now(rig.loop) + ms;
    while (loop_now(rig.loop) < until)
        rig_step();
}

/* ---- the administrator ---- */

void admin_call(uint32_t procedure, const void *args, void *result)
{
    const char *uris[] = { rig.admin_uri, NULL };
    const struct link_options options = { .uris = uris, .role = CTL_ROLE_ADMIN, .name = "tester", .once = true };
    char error[CONTROL_ERROR_SIZE] = "";
    for (int tries = 0; tries < 100; tries++) {
        if (rig.admin && !link_conn(rig.admin)) {
            link_close(rig.admin);
            rig.admin = NULL;
        }
        if (!rig.admin)
            assert_int_equal(link_open(rig.loop, &options, &rig.admin, error), 0);
        if (link_wait_up(rig.admin, 5000, error) == 0 &&
            link_call_wait(rig.admin, procedure, args, 10000, result, error) == 0)
            return;
        rig_run_ms(50);                         /* it is starting */
    }
    fail_msg("calling the manager: %s", error);
}

admin_move_row move_row(uint64_t id)
{
    admin_numbered_page page = { .after = id - 1, .vm = (char *)"", .node = (char *)"" };
    admin_moves_result result;
    admin_call(ADMIN_MOVES, &page, &result);
    assert_true(result.moves.moves_len > 0 && result.moves.moves_val[0].id == id);
    admin_move_row row = result.moves.moves_val[0];
    protocol_free((xdrproc_t)xdr_admin_moves_result, &result);
    return row;
}

char admin_text[CTL_MAX_TEXT + 1];

ctl_code admin_code(uint32_t procedure, const void *args)
{
    const struct protocol_procedure *of = protocol_procedure(procedure);
    ctl_status *status = calloc(1, of->result_size);
    admin_call(procedure, args, status);
    const ctl_code code = status->code;
    snprintf(admin_text, sizeof admin_text, "%s", status->text);
    protocol_free(of->result, status);
    free(status);
    return code;
}

ctl_code admin_move(uint32_t procedure, const void *args, uint64_t *number)
{
    admin_move_result result;
    admin_call(procedure, args, &result);
    const ctl_code code = result.status.code;
    *number = result.move;
    snprintf(admin_text, sizeof admin_text, "%s", result.status.text);
    protocol_free((xdrproc_t)xdr_admin_move_result, &result);
    return code;
}

admin_status_result admin_status(void)
{
    admin_status_result result;
    admin_call(ADMIN_STATUS, NULL, &result);
    protocol_free((xdrproc_t)xdr_admin_status_result, &result);
    result.software = result.cluster = result.db_kind = result.db_text = result.policy = NULL;
    return result;
}

unsigned admin_count_events(const char *kind)
{
    admin_events_args args = { 0 };
    unsigned count = 0, length;
    do {
        admin_events_result result;
        admin_call(ADMIN_EVENTS, &args, &result);
        length = result.events.events_len;
        for (unsigned i = 0; i < length; i++) {
            count += strcmp(result.events.events_val[i].kind, kind) == 0;
            args.after = result.events.events_val[i].number;
        }
        protocol_free((xdrproc_t)xdr_admin_events_result, &result);
    } while (length);
    return count;
}

/* What two listings say. -1: they do not fit together, which they need not when something changed in between. */
static int compare_books(const admin_nodes_result *nodes, const admin_servers_result *servers)
{
    unsigned count = 0;          /* of servers, each at its first GPU */
    for (u_int n = 0; n < nodes->nodes.nodes_len; n++)
        for (u_int g = 0; g < nodes->nodes.nodes_val[n].gpus.gpus_len; g++) {
            const admin_gpu *gpu = &nodes->nodes.nodes_val[n].gpus.gpus_val[g];
            uint64_t sms = 0, memory = 0;
            unsigned users = 0;
            for (u_int s = 0; s < servers->servers.servers_len; s++) {
                const admin_server *server = &servers->servers.servers_val[s];
                for (u_int i = 0; i < server->gpus.gpus_len; i++)
                    if (strcmp(server->gpus.gpus_val[i], gpu->gpu.id) == 0) {
                        sms += server->sms;
                        memory += server->memory;
                        users++;
                        count += i == 0;
                    }
            }
            assert_true(gpu->used_sms <= gpu->gpu.sms);
            assert_true(gpu->used_memory <= gpu->gpu.memory);
            if (sms != gpu->used_sms || memory != gpu->used_memory || users != gpu->servers)
                return -1;
        }
    return count == servers->servers.servers_len ? (int)count : -1;
}

unsigned admin_check_books(void)
{
    admin_named_page all = { (char *)"", (char *)"" };
    admin_numbered_page page = { 0, (char *)"", (char *)"" };
    int count = -1;
    for (int tries = 0; count < 0 && tries < 200; tries++) {
        admin_nodes_result nodes;
        admin_servers_result servers;
        admin_call(ADMIN_NODES, &all, &nodes);
        admin_call(ADMIN_SERVERS, &page, &servers);
        assert_int_equal(servers.more, 0);
        count = compare_books(&nodes, &servers);
        protocol_free((xdrproc_t)xdr_admin_nodes_result, &nodes);
        protocol_free((xdrproc_t)xdr_admin_servers_result, &servers);
    }
    if (count < 0)
        fail_msg("the books do not balance");
    return (unsigned)count;
}
