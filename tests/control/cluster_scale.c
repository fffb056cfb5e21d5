/*
 * cluster_scale.c NODES VMS [SECONDS]: a simulated cluster for scale: light-weight node and client managers over
 * loopback against the real cluster manager. Prints what it measured; fails where something does not come about, or
 * takes far too long.
 * With the numbers of the design (1,000 nodes of 8 GPUs, 20,000 VMs) its targets are tested too, where other programs
 * leave it the machine: what they used meanwhile is printed, and from a fifth on a target that was missed is no
 * failure. Processor time is judged always. Where the VMs fill all GPUs (4 SMs each, 128 of a node), further ones wait
 * in line, and the restart is left out. SECONDS: of each of the three times in which the monitor's cost is measured.
 *
 * Seats: each peer is a connection, and both processes may have only so many open files. Where they do not suffice for
 * all VMs, those whose program runs leave, as a VM that is switched off does, for the others; after the restart
 * everybody comes back once in the same manner.
 *
 * Addresses: each client manager reaches the manager at an address of its own (127.x.y.z). From one address to one
 * address the kernel would spend its time in looking for free ports, which no cluster has to do.
 */
#include "tests/control/cluster_meter.h"
#include "tests/control/cluster_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define GIB (UINT64_C(1) << 30)
/* shows: scale: 1,000 nodes of 8 GPUs and 20,000 VMs: placements a second, memory, flytctl list, recovery after
 *   kill -9
 * shows: scale: flyt-monitor, read every 5 s while all servers work, takes 5 % of the manager's processor at most, and
 *   nothing holds its loop for more than 5 ms of processor time
 * shows: scale: programs that wait in line for a full cluster hold the manager's loop for no more than 5 ms of
 *   processor time, and the first of them begin when others end */
enum {
    GPUS = 8,
    SMS = 16,
    IN_FLIGHT = 500,
    SPARE_FILES = 300,
    MANY_VMS = 20000,
    LIST_MS = 1000,
    RESTART_MS = 5000,
    PER_SECOND = 1000,
    LIMIT_MS = 120000,
    REPORT_MS = 10000, /* each node reports what its servers did, as node managers do */
    ROUNDS = 100,      /* in so many parts */
    WATCH_MS = 30000,
    LATE = 60, /* VMs whose programs wait in line, where the others fill the cluster */
    VM_SMS = 4,
    LINE_MS = 12000,
    SCRAPE_MS = 5000,
    WATCH_PERCENT = 5
};

static int node_count, vm_count, late_count, seats, taken;
static struct fake_node *nodes;
struct client {
    struct link *link;
    uint64_t id, server, acknowledged;
    bool asked, running, registered, back;
};
static struct client *clients;
static struct secret secret = { .size = 6, .bytes = "secret" };
static int added, registered, running, failed, back;
static bool targets;
static unsigned watch_ms; /* 0: as long as is usual */
static char flytctl[512];

/* ---- entitlements ---- */

static void vm_added(void *context, int error, const char *why, void *object)
{
    (void)context;
    if (error || ((admin_vm_add_result *)object)->status.code)
        fail_msg("adding a VM: %s", error ? why : ((admin_vm_add_result *)object)->status.text);
    added++;
}

static void add_vms(void)
{
    uint8_t stored[SECRET_STORED_SIZE];
    char name[32];
    admin_status(); /* connects */
    secret_stored(&secret, stored);
    double start = now_s();
    for (int i = 0; i < vm_count + late_count; i++) {
        snprintf(name, sizeof name, "vm-%d", i);
        admin_vm_add_args args = {
            .vm = { .name = name, .sms = VM_SMS, .memory = GIB, .sharing = CTL_SHARING_TIME_SLICE, .grouping = 1 },
            .stored = { SECRET_STORED_SIZE, (char *)stored }
        };
        rig_until(i - added < 50, LIMIT_MS);
        assert_int_equal(link_call(rig.admin, ADMIN_VM_ADD, &args, 60000, vm_added, NULL, NULL), 0);
    }
    rig_until(added == vm_count + late_count, LIMIT_MS);
    printf("# %d VMs added in %.1f s\n", added, now_s() - start);
}

/* ---- clients ---- */

/* kind: of the event. Only these three kinds have a status. */
static void fails(client_event_kind kind, const ctl_status *status)
{
    bool said = kind == CLIENT_EVENT_ANSWER || kind == CLIENT_EVENT_LOST || kind == CLIENT_EVENT_SUSPECT;
    if (!failed++)
        printf("# the first that failed: event %d, %s\n", (int)kind, said && status->text ? status->text : "-");
}

static void take(struct client *client, const client_answer *answer)
{
    client->id = answer->prog;
    if (answer->status.code == CTL_OK && !client->running) {
        client->running = true;
        client->server = answer->grant.server;
        running++;
    } else if (answer->status.code != CTL_OK && answer->status.code != CTL_WAITING) {
        fails(CLIENT_EVENT_ANSWER, &answer->status);
    }
}

static void ask_events(struct client *);
static void got_events(void *context, int error, const char *why, void *object)
{
    struct client *client = context;
    const client_events_result *result = object;
    (void)why;
    if (error)
        return;
    u_int at = 0;
    for (const client_event *event; (event = client_event_next(result, &at, &client->acknowledged));) {
        if (event->body.kind == CLIENT_EVENT_ANSWER)
            take(client, &event->body.client_event_body_u.answer);
        else /* nothing is to be lost here, and nobody silent; LOST and SUSPECT have the same body */
            fails(event->body.kind, &event->body.client_event_body_u.lost.why);
    }
    ask_events(client);
}

static void ask_events(struct client *client)
{
    client_events_args args = { client->acknowledged };
    link_call(client->link, CLIENT_EVENTS, &args, 60000, got_events, client, NULL);
}

static void was_registered(void *context, int error, const char *why, void *object)
{
    struct client *client = context;
    (void)why, (void)object;
    if (error)
        return;
    registered += !client->registered;
    back += !client->back;
    client->registered = client->back = true;
    ask_events(client);
}

static void up(struct link *link, struct conn *conn, const ctl_hello_result *hello)
{
    struct client *client = link_context(link);
    client_running program = { .prog = { .key = 1, .executable = (char *)"x" },
                               .id = client->id,
                               .server = client->server };
    client_register_args args = { .host = (char *)"h", .programs = { client->running ? 1 : 0, &program } };
    (void)hello;
    conn_call(conn, CLIENT_REGISTER, &args, 60000, was_registered, client, NULL);
}

static void down(struct link *link, bool was_up, int error, const char *why)
{
    struct client *client = link_context(link);
    (void)was_up, (void)error, (void)why;
    registered -= client->registered;
    client->registered = false;
}

static void come(struct client *client)
{
    int number = (int)(client - clients);
    char uri[64], name[32];
    const char *uris[] = { uri, NULL };
    snprintf(name, sizeof name, "vm-%d", number);
    snprintf(uri, sizeof uri, "tcp://127.%d.%d.%d%s", 1 + number / 62500, number / 250 % 250, 1 + number % 250,
             strrchr(rig.client_uri, ':'));
    const struct link_options options = { .uris = uris,
                                          .role = CTL_ROLE_CLIENT,
                                          .name = name,
                                          .secret = &secret,
                                          .context = client,
                                          .up = up,
                                          .down = down };
    assert_int_equal(link_open(rig.loop, &options, &client->link, NULL), 0);
    taken++;
}

static void leave(struct client *client)
{
    registered -= client->registered;
    client->registered = false;
    link_close(client->link);
    client->link = NULL;
    taken--;
}

/* ---- placing ---- */

static void answered(void *context, int error, const char *why, void *object)
{
    if (error)
        fail_msg("asking for a server: %s", why);
    take(context, object);
}

static void place(int from, int to)
{
    const client_request_args args = { .prog = { .key = 1, .executable = (char *)"x" }, .wait = CLIENT_WAIT_YES };
    double start = now_s();
    struct meter meter = meter_read();
    char text[100];
    for (int i = from; i < to; i++) {
        assert_int_equal(link_call(clients[i].link, CLIENT_REQUEST, &args, 60000, answered, &clients[i], NULL), 0);
        rig_until(i - running < IN_FLIGHT, LIMIT_MS);
    }
    rig_until(running == to, LIMIT_MS);
    double took = now_s() - start;
    assert_int_equal(failed, 0);
    if (from)
        return;
    printf("# %d servers placed, started and granted in %.2f s: %.0f a second (the peers' work included)\n", to, took,
           to / took);
    if (targets && to / took < PER_SECOND)
        missed(
            &meter,
            (snprintf(text, sizeof text, "%.0f placements a second are fewer than %d", to / took, PER_SECOND), text));
}

static void connect_and_place(void)
{
    double start = now_s();
    for (int i = 0; i < seats; i++) {
        come(&clients[i]);
        rig_until(i - registered < IN_FLIGHT, LIMIT_MS);
    }
    rig_until(registered == seats, LIMIT_MS);
    printf("# %d nodes and %d client managers connected in %.1f s\n", node_count, seats, now_s() - start);
    place(0, seats);
    for (int i = seats; i < vm_count; i++) {
        leave(&clients[i - seats]);
        if (taken % 100 == 0)
            rig_run_ms(10);
        come(&clients[i]);
        rig_until(seats - registered < SPARE_FILES / 3, LIMIT_MS);
    }
    rig_until(registered == seats, LIMIT_MS);
    place(seats, vm_count);
}

/* ---- the manager ---- */

/* `flytctl WHAT list` as its user sees it, while the cluster goes on. */
static void list(const char *what, const char *command, const char *option)
{
    extern char **environ;
    char socket[200];
    snprintf(socket, sizeof socket, "--manager=%s", rig.admin_uri);
    char *argv[] = { flytctl, socket, (char *)command, (char *)"list", (char *)option, NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1 /* O_WRONLY */, 0);
    double start = now_s();
    struct meter meter = meter_read();
    char text[100];
    int failure = posix_spawn(&pid, flytctl, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failure)
        fail_msg("starting %s: %s", flytctl, strerror(failure));
    while (waitpid(pid, &status, WNOHANG) == 0)
        rig_run_ms(1);
    double took = (now_s() - start) * 1000;
    if (status)
        fail_msg("flytctl %s list ended with status %#x", command, status);
    printf("# flytctl %s list %s: %.0f ms (%s)\n", command, option ? option : "", took, what);
    if (targets && took > LIST_MS)
        missed(
            &meter,
            (snprintf(text, sizeof text, "flytctl %s list took %.0f ms, more than %d", command, took, LIST_MS), text));
}

/* ---- somebody watches ---- */

/* What held the manager's loop for more than 5 ms of processor time, as its log has it. */
static void print_holds(void)
{
    char path[200], line[400];
    snprintf(path, sizeof path, "%s/log", rig.folder);
    FILE *log = fopen(path, "re");
    while (log && fgets(line, sizeof line, log))
        if (strstr(line, "event=loop-held"))
            printf("# %s", line);
    if (log)
        fclose(log);
}

/* The loop is never held for more than 5 ms of processor time. ThreadSanitizer makes the manager many times slower, so
   that this tells nothing there. */
static void judge_holds(long worked)
{
    if (worked)
        print_holds();
#ifndef __SANITIZE_THREAD__
    assert_int_equal(worked, 0);
#endif
}

/* What the servers of a part of the nodes have done. */
static void report_work(int round, uint64_t calls)
{
    node_report_body bodies[RIG_SERVERS];
    for (int i = round; i < node_count; i += ROUNDS) {
        u_int count = 0;
        for (int k = 0; k < nodes[i].server_count; k++)
            if (nodes[i].servers[k].state == CTL_SERVER_RUNNING && count < CTL_MAX_REPORTS)
                bodies[count++] = (node_report_body){
                    .kind = NODE_REPORT_USAGE,
                    .node_report_body_u.usage = { .server = nodes[i].servers[k].id,
                                                  .epoch = 1,
                                                  .figures = { .calls = calls, .launches = calls / 2 } },
                };
        const node_report_args args = { .reports = { count, bodies } };
        if (count && nodes[i].registered)
            link_call(nodes[i].link, NODE_REPORT, &args, 60000, NULL, NULL, NULL);
    }
}

/* Asks for the path, and reads all of the answer; the time that it took. */
static double scrape(int port, const char *path, size_t *size)
{
    static char text[1 << 20];
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    double start = now_s();
    ssize_t got = 0;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
        fail_msg("the monitor does not listen: %s", strerror(errno));
    dprintf(fd, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    while ((got = read(fd, text, sizeof text)) > 0)
        *size += (size_t)got;
    close(fd);
    return now_s() - start;
}

/* So often was the manager's loop held for more than 5 ms since it began: by the clock, and of processor time. */
struct holds {
    long held, worked;
    double most; /* of processor time */
    bool known;
};

static void got_counters(void *context, int error, const char *why, void *object)
{
    const admin_counters_result *result = object;
    struct holds *holds = context;
    if (error)
        fail_msg("ADMIN_COUNTERS: %s", why);
    for (u_int i = 0; i < result->samples.samples_len; i++) {
        const admin_sample *sample = &result->samples.samples_val[i];
        bool of_held = strncmp(sample->name, "flyt_loop_held_seconds", 22) == 0;
        long *count = of_held ? &holds->held : &holds->worked;
        if (!of_held && strncmp(sample->name, "flyt_loop_worked_seconds", 24) != 0)
            continue;
        if (strcmp(sample->labels, "le=\"0.005\"") == 0)
            *count -= (long)sample->value;
        else if (strcmp(strrchr(sample->name, '_'), "_count") == 0)
            *count += (long)sample->value;
    }
    for (u_int i = 0; i < result->samples.samples_len; i++)
        if (strcmp(result->samples.samples_val[i].name, "flyt_loop_worked_most_seconds") == 0)
            holds->most = result->samples.samples_val[i].value;
    holds->known = true;
}

static struct holds held_long(void)
{
    /* Calls and faults stand behind, on other pages. */
    const admin_counters_args args = { .of = (char *)"cluster" };
    struct holds holds = { 0 };
    assert_int_equal(link_call(rig.admin, ADMIN_COUNTERS, &args, 60000, got_counters, &holds, NULL), 0);
    rig_until(holds.known, LIMIT_MS);
    assert_true(holds.most > 0);
    return holds;
}

struct watched {
    double manager, monitor, slowest; /* processor time per second; of a scrape */
    size_t largest;
    long held, worked;
};

/* The cluster works, and the monitor is scraped if there is one. */
static struct watched work_for(unsigned ms, pid_t monitor, int port)
{
    static int round;
    static uint64_t calls;
    struct watched out = { 0 };
    double start = now_s(), manager = manager_cpu(), own = monitor ? process_cpu(monitor) : 0;
    uint64_t begun = loop_now(rig.loop), report = begun, next = begun;
    struct holds before = held_long();
    while (loop_now(rig.loop) < begun + ms) {
        if (loop_now(rig.loop) >= report) {
            calls += round == 0 ? 1000 : 0;
            report_work(round, calls);
            round = (round + 1) % ROUNDS;
            report += REPORT_MS / ROUNDS;
        }
        if (monitor && loop_now(rig.loop) >= next) {
            size_t size = 0;
            double took = scrape(port, "/metrics", &size) + scrape(port, "/metrics/servers", &size);
            out.slowest = took > out.slowest ? took : out.slowest;
            out.largest = size > out.largest ? size : out.largest;
            next += SCRAPE_MS;
        }
        rig_run_ms(5);
    }
    double took = now_s() - start;
    out.manager = (manager_cpu() - manager) / took;
    out.monitor = monitor ? (process_cpu(monitor) - own) / took : 0;
    struct holds after = held_long();
    out.held = after.held - before.held;
    out.worked = after.worked - before.worked;
    return out;
}

static pid_t start_monitor(int *port)
{
    extern char **environ;
    char program[512], manager[200], line[200] = "", log[160];
    snprintf(program, sizeof program, "%.*s/flyt-monitor", (int)(strrchr(flytctl, '/') - flytctl), flytctl);
    snprintf(manager, sizeof manager, "--manager=%s", rig.admin_uri);
    snprintf(log, sizeof log, "%s/monitor.log", rig.folder);
    char *argv[] = { program, manager, (char *)"--port=0", (char *)"--interval=5", NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (posix_spawn(&pid, program, &actions, NULL, argv, environ) != 0)
        pid = 0;
    posix_spawn_file_actions_destroy(&actions);
    for (int tries = 0; pid && tries < 100 && !strchr(line, '\n'); tries++) {
        rig_run_ms(50);
        FILE *file = fopen(log, "re");
        if (file && !fgets(line, sizeof line, file))
            *line = '\0';
        if (file)
            fclose(file);
    }
    *port = *line ? atoi(strrchr(line, ':') + 1) : 0;
    return pid;
}

static void watch(void)
{
    int port = 0, status;
    unsigned ms = watch_ms ? watch_ms : targets ? WATCH_MS : 2000;
    char text[100];
    struct meter meter = meter_read();
    struct holds begun = held_long();
    printf("# until now the loop was held for more than 5 ms of processor time %ld times, for %.1f ms at most\n",
           begun.worked, 1000 * begun.most);
    struct watched alone = work_for(ms, 0, 0);
    pid_t monitor = start_monitor(&port);
    if (!monitor || !port)
        fail_msg("flyt-monitor does not start");
    rig_run_ms(ms > 10000 ? 10000 : 1500); /* it reads everything once */
    struct watched both = work_for(ms, monitor, port), again;
    kill(monitor, SIGTERM);
    waitpid(monitor, &status, 0);
    again = work_for(ms, 0, 0);
    double cost = 100 * (both.manager - (alone.manager + again.manager) / 2);
    printf("# all servers report: the manager takes %.1f and %.1f %% of a processor alone, %.1f %% with flyt-monitor "
           "scraped"
           " every 5 s: %.1f %% more; the monitor itself %.1f %%\n",
           100 * alone.manager, 100 * again.manager, 100 * both.manager, cost, 100 * both.monitor);
    printf("# both scrapes have %.1f MiB, and take %.0f ms at most\n", (double)both.largest / (1 << 20),
           1000 * both.slowest);
    printf("# the loop was held for more than 5 ms of processor time %ld times, and alone %ld and %ld times; by the "
           "clock %ld, %ld and %ld times\n",
           both.worked, alone.worked, again.worked, both.held, alone.held, again.held);
    if (targets && cost > WATCH_PERCENT)
        missed(&meter,
               (snprintf(text, sizeof text, "the monitor costs the manager %.1f %%, more than %d", cost, WATCH_PERCENT),
                text));
    judge_holds(both.worked + alone.worked + again.worked);
}

/* ---- a line ---- */

/* Others wait for the cluster that is full, for long enough that the manager looks for moves that would make room. Then
   some programs end, and as many of those that wait begin. */
static void wait_in_line(void)
{
    const client_request_args args = { .prog = { .key = 1, .executable = (char *)"x" }, .wait = CLIENT_WAIT_YES };
    u_quad_t key = 1;
    const client_ended_args ended = { { 1, &key } };
    struct holds before = held_long();
    const int ran = running;
    double start = now_s();
    for (int i = vm_count; i < vm_count + late_count; i++) {
        if (taken >= seats)
            leave(&clients[i - vm_count]);
        come(&clients[i]);
        rig_until(clients[i].registered, LIMIT_MS);
        assert_int_equal(link_call(clients[i].link, CLIENT_REQUEST, &args, 60000, answered, &clients[i], NULL), 0);
    }
    rig_run_ms(LINE_MS);
    assert_int_equal(running, ran);
    assert_int_equal(admin_status().waiting, late_count);
    int gone = 0;
    for (int i = vm_count - 1; gone < late_count / 2; i--) {
        if (!clients[i].registered)
            continue;
        assert_int_equal(link_call(clients[i].link, CLIENT_ENDED, &ended, 60000, NULL, NULL, NULL), 0);
        clients[i].running = false;
        gone++;
    }
    rig_until(running == ran + gone, LIMIT_MS);
    struct holds after = held_long();
    printf("# %d programs waited in line for a full cluster, %d began when others ended, in %.1f s: the loop was held "
           "for more than 5 ms of processor time %ld times\n",
           late_count, gone, now_s() - start, after.worked - before.worked);
    judge_holds(after.worked - before.worked);
}

static bool nodes_back(void)
{
    for (int i = 0; i < node_count; i++)
        if (!nodes[i].registered)
            return false;
    return true;
}

/* Whoever has left comes when another that is back makes room. */
static void let_everybody_in(void)
{
    int next = 0, done = 0;
    for (uint64_t limit = loop_now(rig.loop) + LIMIT_MS; back < vm_count || !nodes_back();) {
        if (loop_now(rig.loop) > limit)
            fail_msg("only %d of %d VMs came back, nodes %s", back, vm_count, nodes_back() ? "all" : "not all");
        rig_step();
        for (int room = SPARE_FILES / 3; next < vm_count && room > seats - registered; next++) {
            if (clients[next].link)
                continue;
            while (done < vm_count && !(clients[done].link && clients[done].back))
                done++;
            if (done == vm_count) {
                done = 0;
                break;
            }
            leave(&clients[done]);
            come(&clients[next]);
        }
    }
}

static void kill_and_restart(void)
{
    rig_signal(SIGKILL);
    rig_run_ms(50);
    back = 0;
    for (int i = 0; i < vm_count; i++)
        clients[i].back = false;
    struct meter meter = meter_read();
    double start = now_s();
    char text[100];
    rig_start();
    let_everybody_in();
    double took = now_s() - start;
    printf("# after kill -9 and a restart everybody is back in %.2f s (%.2f s of them the manager's CPU)\n", took,
           manager_cpu());
    if (targets && took * 1000 > RESTART_MS)
        missed(&meter,
               (snprintf(text, sizeof text, "%.2f s until everybody is back are more than %d", took, RESTART_MS / 1000),
                text));
}

static void restart_and_check(void)
{
    kill_and_restart();
    list("after the restart", "server", NULL);
    print_memory();
    rig_run_ms(500);
    admin_status_result status = admin_status();
    assert_int_equal(status.servers, vm_count);
    assert_int_equal(status.programs, vm_count);
    assert_int_equal(status.sms_used, VM_SMS * vm_count);
    assert_int_equal(failed, 0);
}

RIG_TEST(test_scale)
{
    rig_address = "0.0.0.0";
    rig_create("silence = { client-lost = 600; };");
    rig.patient = true;
    snprintf(rig.node_uri, sizeof rig.node_uri, "tcp://127.0.0.1:%d", atoi(strrchr(rig.node_uri, ':') + 1));
    add_vms();
    for (int i = 0; i < node_count; i++) {
        snprintf(nodes[i].name, sizeof nodes[i].name, "n%d", i);
        snprintf(nodes[i].host, sizeof nodes[i].host, "host-%d", i);
        nodes[i].gpu_count = GPUS;
        nodes[i].gpu_sms = SMS;
        nodes[i].gpu_memory = 8 * GIB;
        nodes[i].sharing = CTL_SHARING_TIME_SLICE;
        node_reopen(&nodes[i]);
    }
    rig_until(nodes_back(), LIMIT_MS);
    connect_and_place();
    list("at rest", "server", NULL);
    list("at rest", "vm", "--json");
    list("at rest", "node", NULL);
    print_memory();
    watch();
    if (late_count)
        wait_in_line();
    else
        restart_and_check();
    for (int i = 0; i < node_count; i++) {
        assert_int_equal(nodes[i].overcommits, 0);
        assert_true(late_count || nodes[i].stops == 0);
        node_close(&nodes[i]);
    }
    for (int i = 0; i < vm_count + late_count; i++)
        link_close(clients[i].link);
}

int main(int argc, char **argv)
{
    struct rlimit files;
    const char *manager = getenv("FLYT_TEST_CLUSTER_MANAGER");
    node_count = argc > 1 ? atoi(argv[1]) : 20;
    vm_count = argc > 2 ? atoi(argv[2]) : 300;
    watch_ms = argc > 3 ? (unsigned)atoi(argv[3]) * 1000 : 0;
    manager = manager ? manager : "bin/flyt-cluster-manager";
    snprintf(flytctl, sizeof flytctl, "%.*s/flytctl", (int)(strrchr(manager, '/') - manager), manager);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    seats = (int)files.rlim_cur - node_count - SPARE_FILES;
    seats = seats > vm_count ? vm_count : seats;
    if (seats < 100 && seats < vm_count) {
        printf("1..0 # SKIP only %ld files may be open\n", (long)files.rlim_cur);
        return 77;
    }
    targets = vm_count >= MANY_VMS;
    late_count = vm_count * VM_SMS >= node_count * GPUS * SMS ? LATE : 0;
    nodes = calloc((size_t)node_count, sizeof *nodes);
    clients = calloc((size_t)(vm_count + late_count), sizeof *clients);
    int result = unit_run(NULL, NULL);
    free(nodes);
    free(clients);
    return result;
}
