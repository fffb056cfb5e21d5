/*
 * flytctl_canned.c: flytctl with a cluster manager of a few lines in its own process, whose answers are always the
 * same. So what flytctl prints can be compared byte by byte. It is built from flytctl's own object files, without
 * session.c.
 *
 * $CANNED_SERVERS: so many GPU servers (4). $CANNED_NAME: the name of the first VM and what texts say.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control-managers/flytctl/flytctl.h"

enum { MOST_SERVERS = 4096, EVENTS = 6, HOUR = 3600 };
static const int64_t second = 1000000;

/* Ages are printed in whole hours. */
static quad_t ago(int seconds)
{
    const char *now = getenv("CANNED_NOW");
    return (quad_t)(((now ? atoll(now) : (long long)time(NULL)) - seconds) * second);
}

static char *word(const char *text) { return (char *)(uintptr_t)text; }

static char *first_vm(void)
{
    const char *name = getenv("CANNED_NAME");
    return word(name ? name : "alpha");
}

/* ---- rows ---- */

static admin_gpu gpu(const char *id, ctl_gpu_state state, unsigned used)
{
    return (
        admin_gpu){ .gpu = { .id = word(id),
                             .product = word("NVIDIA H100 80GB HBM3"),
                             .sms = 132,
                             .clock_mhz = 1980,
                             .memory = 80ull << 30,
                             .sharing = CTL_SHARING_ALL,
                             .sm_limits = 1,
                             .state = state,
                             .text = word(state ? "error 94: the GPU has to be reset; its programs were ended" : "") },
                    .used_sms = used,
                    .used_memory = (u_quad_t)used << 29,
                    .servers = used ? 2 : 0 };
}

static void answer_nodes(admin_nodes_result *result, const char *only)
{
    static admin_gpu gpus[3];
    static admin_node nodes[3];
    gpus[0] = gpu("GPU-0a1b2c3d-0000-1111-2222-333344445555", CTL_GPU_READY, 100);
    gpus[1] = gpu("GPU-0a1b2c3d-0000-1111-2222-333344446666", CTL_GPU_FAULTY, 0);
    gpus[2] = gpu("GPU-0a1b2c3d-0000-1111-2222-333344447777", CTL_GPU_READY, 8);
    for (int i = 0; i < 3; i++) {
        static char names[3][16];
        snprintf(names[i], sizeof names[i], "gpu-%d", i + 1);
        nodes[i] = (admin_node){ .name = names[i],
                                 .host = word("gpu.example.org"),
                                 .state = i == 2 ? ADMIN_NODE_LOST : ADMIN_NODE_UP,
                                 .drained = i == 1,
                                 .last_heard = ago(i == 2 ? 30 * HOUR : 3 * HOUR),
                                 .software = word("flyt-node-manager 1.0"),
                                 .servers = 2,
                                 .encrypted = 1,
                                 .drain_reason = word(i == 1 ? "a new fan" : "") };
    }
    nodes[0].gpus.gpus_len = 2;
    nodes[0].gpus.gpus_val = gpus;
    nodes[1].gpus.gpus_len = 1;
    nodes[1].gpus.gpus_val = gpus + 2;
    result->nodes.nodes_len = 3;
    result->nodes.nodes_val = nodes;
    for (int i = 0; i < 3 && *only; i++)
        if (strcmp(nodes[i].name, only) == 0) {
            result->nodes.nodes_len = 1;
            result->nodes.nodes_val = nodes + i;
            return;
        }
    if (*only)
        result->status = (ctl_status){ CTL_NOT_FOUND, word("there is no such node") };
}

static void answer_vms(admin_vms_result *result, const char *only)
{
    static admin_vm_row vms[2];
    vms[0] = (admin_vm_row){ .vm = { .name = first_vm(),
                                     .address = word("10.0.0.2"),
                                     .host = word("gpu-1"),
                                     .sms = 32,
                                     .memory = 16ull << 30,
                                     .sharing = CTL_SHARING_MPS | CTL_SHARING_TIME_SLICE,
                                     .gpus = 2,
                                     .recovery = word("journal:2G"),
                                     .grouping = 1 },
                             .has_secret = 1,
                             .connected = 1,
                             .encrypted = 1,
                             .last_heard = ago(3 * HOUR),
                             .servers = 2,
                             .programs = 3,
                             .waiting = 1 };
    vms[1] = (admin_vm_row){ .vm = { .name = word("beta"),
                                     .address = word("fd00:1111:2222:3333:4444:5555:6666:7777"),
                                     .sms = 132,
                                     .memory = 80ull << 30,
                                     .sharing = CTL_SHARING_EXCLUSIVE,
                                     .gpus = 1,
                                     .recovery = word("off"),
                                     .wait = ADMIN_WAIT_IN_LINE } };
    result->vms.vms_len = *only ? 1 : 2;
    result->vms.vms_val = *only && strcmp(only, "beta") == 0 ? vms + 1 : vms;
}

static unsigned servers_there(void)
{
    const char *text = getenv("CANNED_SERVERS");
    int count = text ? atoi(text) : 4;
    return count < 0 || count > MOST_SERVERS ? MOST_SERVERS : (unsigned)count;
}

static void answer_servers(admin_servers_result *result, const admin_numbered_page *page)
{
    static admin_server servers[CTL_MAX_PAGE];
    static char *gpus[] = { "GPU-0a1b2c3d-0000-1111-2222-333344445555", "GPU-0a1b2c3d-0000-1111-2222-333344446666" };
    static char *uris[] = { "tls://10.1.0.1:40000?sha256=00ff", "tcp://10.1.0.1:40001" };
    unsigned count = 0, there = servers_there();
    for (unsigned id = (unsigned)page->after + 1; id <= there && count < CTL_MAX_PAGE; id++) {
        bool last = id == there;
        servers[count++] = (admin_server){
            .id = id,
            .vm = id % 2 ? first_vm() : word("beta"),
            .node = word(id % 3 ? "gpu-1" : "gpu-2"),
            .gpus = { id == 2 ? 2 : 1, gpus },
            .sharing = CTL_SHARING_MPS,
            .sms = 16 + id % 7,
            .memory = 8ull << 30,
            .created = ago(5 * HOUR),
            .programs = id % 4,
            .report = { .id = id,
                        .state = last ? CTL_SERVER_FAILED : CTL_SERVER_RUNNING,
                        .addresses = { 2, uris },
                        .granted_sms = 16,
                        .memory_limit = 8ull << 30,
                        .memory_used = ((u_quad_t)id * 37 % 64) << 27,
                        .workers = id % 4,
                        .pid = 4000 + id,
                        .restarts = last,
                        .status = { CTL_OK, word(last ? "it ended by signal 11 (Segmentation fault)" : "") } }
        };
    }
    result->servers.servers_len = count;
    result->servers.servers_val = servers;
    result->more = count && servers[count - 1].id < there;
}

static void answer_programs(admin_programs_result *result)
{
    static admin_program programs[3];
    for (unsigned i = 0; i < 3; i++)
        programs[i] = (admin_program){
            .id = 100 + i,
            .vm = first_vm(),
            .server = i < 2 ? i + 1 : 0,
            .gpus = i < 2 ? i + 1 : 0,
            .since = ago(4 * HOUR),
            .position = i == 2,
            .recovery = i < 2 ? CTL_RECOVERY_PROTECTED + i : CTL_RECOVERY_OFF,
            .recovery_why = word(i == 1 ? "its journal is full" : ""),
            .state = i < 2 ? ADMIN_PROGRAM_RUNNING : ADMIN_PROGRAM_WAITING,
            .prog = { .key = i,
                      .pid = 1000 + i,
                      .uid = 1001,
                      .executable = word(i ? "/usr/bin/python3.11" : "/home/ann/projects/inference/build/serve") },
            .transport = { .mode = word(i ? "tls" : "shared-memory"),
                           .why = word(i ? "the server is on another machine" : "program and server share a machine") }
        };
    result->programs.programs_len = 3;
    result->programs.programs_val = programs;
}

static void answer_moves(admin_moves_result *result)
{
    static admin_move_row move;
    move = (admin_move_row){ .id = 7,
                             .prog = 101,
                             .vm = first_vm(),
                             .executable = word("/usr/bin/python3.11"),
                             .state = ADMIN_MOVE_DONE,
                             .source = 1,
                             .target = 2,
                             .from_node = word("gpu-1"),
                             .from_gpu = word("GPU-0a1b2c3d-0000-1111-2222-333344445555"),
                             .to_node = word("gpu-2"),
                             .to_gpu = word("GPU-0a1b2c3d-0000-1111-2222-333344447777"),
                             .begun = ago(6 * HOUR),
                             .ended = ago(6 * HOUR - 1),
                             .outage_us = 12625,
                             .bytes = 3ull << 30,
                             .by = word("ann") };
    result->moves.moves_len = 1;
    result->moves.moves_val = &move;
}

static void answer_status(admin_status_result *result)
{
    *result = (admin_status_result){ .software = word("flyt-cluster-manager 1.0"),
                                     .cluster = word("c1"),
                                     .started = ago(50 * HOUR),
                                     .db_kind = word("sqlite"),
                                     .db_up = 1,
                                     .policy = word("best-fit"),
                                     .tls = 1,
                                     .nodes = 3,
                                     .nodes_up = 2,
                                     .gpus = 3,
                                     .gpus_ready = 2,
                                     .sms = 396,
                                     .sms_used = 108,
                                     .memory = 240ull << 30,
                                     .memory_used = 54ull << 30,
                                     .vms = 2,
                                     .vms_connected = 1,
                                     .servers = servers_there(),
                                     .programs = 3,
                                     .waiting = 1,
                                     .last_event = EVENTS };
}

static void answer_events(admin_events_result *result, const admin_events_args *args)
{
    static const struct {
        const char *kind, *vm, *node, *text;
        admin_severity severity;
        unsigned server, program;
    } all[EVENTS] = {
        { "node-joined", "", "gpu-1", "gpu-1 on gpu.example.org, 2 GPUs, 0 servers run", ADMIN_INFO, 0, 0 },
        { "vm-added", "V", "", "32 SMs, 16384 MiB, by ann", ADMIN_INFO, 0, 0 },
        { "server-started", "V", "gpu-1", "16 SMs, 8192 MiB of GPU-0a1b2c3d-0000-1111-2222-333344445555", ADMIN_INFO, 1,
          0 },
        { "program-refused", "V", "",
          "none of 3 GPUs could ever hold 500 SMs and 16384 MiB (mps): the largest have 132 "
          "SMs and 81920 MiB",
          ADMIN_WARNING, 0, 100 },
        { "node-drained", "", "gpu-2", "a new fan, by ann", ADMIN_INFO, 0, 0 },
        { "node-lost", "", "gpu-3", "not heard of for 10 s", ADMIN_ERROR, 0, 0 },
    };
    static admin_event events[EVENTS];
    unsigned count = 0;
    for (unsigned i = (unsigned)args->after; i < EVENTS; i++)
        events[count++] = (admin_event){ .number = i + 1,
                                         .time = 1764150000 * second + i * 61 * second,
                                         .severity = all[i].severity,
                                         .kind = word(all[i].kind),
                                         .vm = *all[i].vm == 'V' ? first_vm() : word(all[i].vm),
                                         .node = word(all[i].node),
                                         .server = all[i].server,
                                         .prog = all[i].program,
                                         .text = word(all[i].text) };
    result->first = 1;
    result->last = EVENTS;
    result->events.events_len = count;
    result->events.events_val = events;
}

/* ---- in place of session.c ---- */

void session_close(struct flytctl *ctl) { (void)ctl; }
void session_lasts(struct flytctl *ctl) { (void)ctl; }
bool session_hushes(int code) { return code < 0; }
bool session_settles(const struct flytctl *ctl) { return ctl->returns > 0; }

void look_with(struct flytctl *ctl, const char *format, ...) { (void)ctl, (void)format; }

int ask_raw(struct flytctl *ctl, uint32_t procedure, const void *args, void *result)
{
    const struct protocol_procedure *entry = &protocol_procedures[procedure];
    union {
        admin_nodes_result nodes;
        admin_vms_result vms;
        admin_servers_result servers;
        admin_programs_result programs;
        admin_moves_result moves;
        admin_status_result status;
        admin_events_result events;
    } answer;
    memset(&answer, 0, sizeof answer);
    switch (procedure) {
    case ADMIN_NODES: answer_nodes(&answer.nodes, ((const admin_named_page *)args)->only); break;
    case ADMIN_VMS: answer_vms(&answer.vms, ((const admin_named_page *)args)->only); break;
    case ADMIN_SERVERS: answer_servers(&answer.servers, args); break;
    case ADMIN_PROGRAMS: answer_programs(&answer.programs); break;
    case ADMIN_MOVES: answer_moves(&answer.moves); break;
    case ADMIN_STATUS: answer_status(&answer.status); break;
    case ADMIN_EVENTS: answer_events(&answer.events, args); break;
    default: return complain(ctl, EXIT_NOT_SUPPORTED, "nothing is canned for %s", entry->name);
    }
    if (!protocol_copy(entry->result, result, entry->result_size, &answer))
        return complain(ctl, EXIT_FAILED, "no memory");
    return EXIT_FINE;
}
