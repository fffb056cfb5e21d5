/*
 * flyt-client-manager with programs, a node manager and GPU servers that are real, and a cluster manager made of the
 * test.
 * shows: client manager: programs get a server or hear why not, wait in line, are known again after its own kill -9,
 *   and their end is noticed; one that waits for a new ticket when the connection ends gets it over the next one
 * shows: links under managers: a client manager hands on what programs ask about links, one question of each at a time;
 *   where the cluster manager is of the release before, away, or vanishes, it refuses by name; values likewise
 * shows: attacks: a further GPU server of a program with several is given to the same process only, as the socket's
 *   credentials say, and while the program is there
 * shows: attacks: a client manager hands on what a program says of its recovery only if it has seen its server lost,
 *   and so many times a minute; what programs say of servers that they do not reach fills no log
 * shows: memory limit: the sum of what the programs of one VM take never exceeds its limit, and after kill -9 it is
 *   free again
 */
#include "control-managers/common/link.h"
#include "tests/control/node_fake.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 30000, SOON_MS = 15000 };

static char manager_variable[128], wait_variable[64], server_variable[CTL_MAX_URI + 32];
static const char *more_config = "", *program_name, *program_memory;
static pid_t node, manager;

static pid_t start(const char *daemon, const char *config, const int *counter)
{
    char program[256], path[128];
    snprintf(program, sizeof program, "%s/%s", fake_bin, daemon);
    snprintf(path, sizeof path, "%s/%s", fake.folder, config);
    char *arguments[] = { program, (char *)(uintptr_t)"--config", path, NULL };
    int before = *counter;
    pid_t pid = fake_spawn(arguments, NULL, NULL);
    fake_until(*counter > before || !fake_running(pid), START_MS);
    if (*counter == before)
        fail_msg("it ended: %s", fake_log(pid));
    return pid;
}

static void start_manager(void)
{
    fake_file("secret", "secret\n");
    fake_file(
        "client.conf",
        "resource-manager = { address = \"127.0.0.1\"; port = %d; };\n"
        "vm = { name = \"vm1\"; secret = \"file:%s/secret\"; state-directory = \"%s/vm\"; };\n"
        "ipc = { socket = \"%s/m.sock\"; mode = \"0600\"; };\nvcuda-client = { process-monitor-period = 0.2; %s };\n",
        fake.port, fake.folder, fake.folder, fake.folder, more_config);
    manager = start("flyt-client-manager", "client.conf", &fake.client_registrations);
}

static int setup_cluster(void **state)
{
    (void)state;
    fake_start();
    more_config = "";
    program_memory = NULL;
    snprintf(manager_variable, sizeof manager_variable, "FLYT_MANAGER=%s/m.sock", fake.folder);
    wait_variable[0] = '\0';
    fake_file("secret", "secret\n");
    fake_file("node.conf",
              "resource-manager = { address = \"127.0.0.1\"; port = %d; };\n"
              "node = { name = \"n1\"; secret = \"file:%s/secret\"; state-directory = \"%s/state\"; gpu = "
              "\"software\"; report-period = 0.2; };\n"
              "virt-server = { listen-address = \"127.0.0.1\"; };\n",
              fake.port, fake.folder, fake.folder);
    node = start("flyt-node-manager", "node.conf", &fake.node_registrations);
    ctl_server_spec spec;
    fake_spec(&spec, 1);
    node_order_body body = { .kind = NODE_ORDER_START };
    body.node_order_body_u.start = spec;
    fake_order(&body);
    fake.server = 1;
    fake_until(fake_server(1) && fake_server(1)->state == CTL_SERVER_RUNNING, START_MS);
    start_manager();
    return 0;
}

static int teardown_cluster(void **state)
{
    (void)state;
    kill(node, SIGTERM);
    fake_stop();
    return 0;
}

static pid_t start_program(int *input)
{
    char path[256];
    snprintf(path, sizeof path, "%s", program_name);
    char *arguments[] = { path, (char *)(uintptr_t)program_memory, NULL };
    char *environment[] = { manager_variable, wait_variable[0] ? wait_variable : NULL, NULL };
    return fake_spawn(arguments, environment, input);
}

static bool says(pid_t pid, const char *words) { return strstr(fake_log(pid), words) != NULL; }

static void end_well(pid_t program, int input)
{
    assert_int_equal(write(input, "\n", 1), 1);
    close(input);
    int status = fake_wait(program, START_MS);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("status %x: %s", status, fake_log(program));
    assert_true(says(program, "done"));
}

static bool was_ended(uint64_t key)
{
    for (int i = 0; i < fake.ended_count; i++)
        if (fake.ended[i] == key)
            return true;
    return false;
}

static pid_t attach(int *input)
{
    pid_t program = start_program(input);
    fake_until(says(program, "attached") || !fake_running(program), START_MS);
    if (!says(program, "attached") || says(program, "not attached"))
        fail_msg("%s", fake_log(program));
    return program;
}

TEST_WITH(test_life, setup_cluster, teardown_cluster)
{
    int input, other;
    pid_t program = attach(&input);
    assert_int_equal(fake.request.prog.pid, program);
    assert_int_equal(fake.request.prog.uid, getuid());
    assert_non_null(strstr(fake.request.prog.executable, "client_program"));
    uint64_t key = fake.request.prog.key;
    end_well(program, input);
    fake_until(was_ended(key), SOON_MS);
    /* Killed: noticed at once. */
    program = attach(&other);
    key = fake.request.prog.key;
    kill(program, SIGKILL);
    fake_wait(program, SOON_MS);
    close(other);
    fake_until(was_ended(key), 1000);
}

TEST_WITH(test_wait_in_line, setup_cluster, teardown_cluster)
{
    int input;
    fake.answer = (ctl_status){ CTL_WAITING, (char *)(uintptr_t)"all GPUs are taken" };
    pid_t program = start_program(&input);
    fake_until(says(program, "place 1 in the queue: all GPUs are taken"), START_MS);
    assert_int_equal(fake.request.wait, CLIENT_WAIT_DEFAULT);
    /* The connection goes, and comes back: it asks again with its key. */
    uint64_t key = fake.request.prog.key;
    int before = fake.request_count;
    fake_disconnect();
    fake_until(fake.request_count > before, SOON_MS);
    assert_int_equal(fake.request.prog.key, key);
    client_event_body body = { .kind = CLIENT_EVENT_ANSWER };
    body.client_event_body_u.answer = (client_answer){ .status = { CTL_OK, (char *)(uintptr_t)"" }, .key = key,
                                                       .prog = 77 };
    fake_grant(77, &body.client_event_body_u.answer.grant);
    fake_event(&body);
    fake_until(says(program, "attached"), START_MS);
    end_well(program, input);
    fake_until(was_ended(key), SOON_MS);
}

TEST_WITH(test_refused, setup_cluster, teardown_cluster)
{
    int input;
    fake.answer = (ctl_status){ CTL_BUSY, (char *)(uintptr_t)"no GPU is free, and vm1 does not wait in line" };
    snprintf(wait_variable, sizeof wait_variable, "FLYT_WAIT=fail");
    pid_t program = start_program(&input);
    close(input);
    assert_int_equal(WEXITSTATUS(fake_wait(program, START_MS)), 1);
    assert_int_equal(fake.request.wait, CLIENT_WAIT_NO);
    assert_true(says(program, "vm1 does not wait in line"));
    assert_true(says(program, "not attached: 46"));
    fake_until(was_ended(fake.request.prog.key), SOON_MS);
}

TEST_WITH(test_cluster_away, setup_cluster, teardown_cluster)
{
    int input, waiting;
    pid_t program = attach(&input);
    uint64_t key = fake.request.prog.key;
    fake_deaf(1);
    /* One that does not wait is told; one that waits is served when the cluster manager is back. */
    snprintf(wait_variable, sizeof wait_variable, "FLYT_WAIT=no");
    int unused;
    pid_t other = start_program(&unused);
    close(unused);
    assert_int_equal(WEXITSTATUS(fake_wait(other, START_MS)), 1);
    assert_true(says(other, "the cluster manager cannot be reached"));
    wait_variable[0] = '\0';
    other = start_program(&waiting);
    for (int i = 0; i < 20; i++)
        fake_turn();
    assert_true(fake_running(program) && fake_running(other));
    fake_deaf(0);
    fake_until(says(other, "attached"), START_MS);
    assert_true(fake.client_registrations >= 2);
    bool named = false;
    for (u_int i = 0; i < fake.client_args.programs.programs_len; i++)
        if (fake.client_args.programs.programs_val[i].prog.key == key) {
            named = true;
            assert_int_equal(fake.client_args.programs.programs_val[i].server, 1);
            assert_int_equal(fake.client_args.programs.programs_val[i].id, 1000 + key);
        }
    assert_true(named);
    end_well(program, input);
    end_well(other, waiting);
    fake_until(was_ended(key), SOON_MS);
}

TEST_WITH(test_restart, setup_cluster, teardown_cluster)
{
    int one, two;
    pid_t first = attach(&one);
    uint64_t key = fake.request.prog.key;
    pid_t second = attach(&two);
    uint64_t other = fake.request.prog.key;
    kill(manager, SIGKILL);
    fake_wait(manager, SOON_MS);
    assert_true(fake_running(first) && fake_running(second));
    kill(second, SIGKILL);              /* while nobody looks */
    fake_wait(second, SOON_MS);
    close(two);
    start_manager();
    assert_int_equal(fake.client_args.programs.programs_len, 1);
    assert_int_equal(fake.client_args.programs.programs_val[0].prog.key, key);
    assert_int_equal(fake.client_args.programs.programs_val[0].prog.pid, first);
    fake_until(was_ended(other), SOON_MS);
    assert_false(was_ended(key));
    end_well(first, one);
    fake_until(was_ended(key), SOON_MS);
    /* Keys are not used again. */
    first = attach(&one);
    assert_true(fake.request.prog.key > other);
    end_well(first, one);
}

/* A cluster manager that was asked and says nothing: as many seconds from then on, not from when that was noticed. */
TEST_WITH(test_no_answer, setup_cluster, teardown_cluster)
{
    int input;
    kill(manager, SIGTERM);
    fake_wait(manager, SOON_MS);
    more_config = "away-timeout = 1.0;";
    start_manager();
    fake.silent = true;
    uint64_t begun = loop_now(fake.loop);
    pid_t program = start_program(&input);
    fake_wait(program, SOON_MS);
    assert_true(says(program, "was asked and has not answered yet"));
    assert_true(loop_now(fake.loop) - begun < CTL_CALL_SECONDS * 1000);
    close(input);
}

TEST_WITH(test_end_and_loss, setup_cluster, teardown_cluster)
{
    int input;
    pid_t program = attach(&input);
    client_event_body body = { .kind = CLIENT_EVENT_END };
    body.client_event_body_u.end = (client_notice){ .key = fake.request.prog.key, .server = 1,
                                                    .why = { CTL_OK, (char *)(uintptr_t)"an administrator wants it" } };
    fake_event(&body);
    int status = fake_wait(program, START_MS);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    close(input);
    /* One that does not end by that loses its GPU, and hears why. */
    signal(SIGTERM, SIG_IGN);
    program = attach(&input);
    signal(SIGTERM, SIG_DFL);
    body.client_event_body_u.end.key = fake.request.prog.key;
    fake_event(&body);
    node_order_body end = { .kind = NODE_ORDER_END_PROGRAM };
    end.node_order_body_u.end_program =
        (node_end_program){ .server = 1, .prog = 1000 + fake.request.prog.key, .why = { CTL_DENIED, (char *)"" } };
    fake_order(&end);
    fake_until(says(program, "ended this program: an administrator wants it") || !fake_running(program), SOON_MS);
    assert_true(says(program, "ended this program: an administrator wants it"));
    kill(program, SIGKILL);
    fake_wait(program, SOON_MS);
    close(input);
    /* Its server goes: the program hears why. */
    program = attach(&input);
    uint64_t key = fake.request.prog.key;
    node_order_body stop = { .kind = NODE_ORDER_STOP };
    stop.node_order_body_u.stop = (node_stop){ .server = 1, .why = { CTL_NEIGHBOUR, (char *)(uintptr_t)"test" } };
    body.kind = CLIENT_EVENT_LOST;
    body.client_event_body_u.lost = (client_notice){ .key = key, .server = 1,
                                                     .why = { CTL_NEIGHBOUR,
                                                              (char *)(uintptr_t)"a neighbour's fault did it" } };
    fake_order(&stop);
    fake_until(fake_server(1)->state == CTL_SERVER_ENDED, SOON_MS);
    fake_event(&body);
    fake_until(says(program, "a neighbour's fault did it") || !fake_running(program), SOON_MS);
    assert_true(says(program, "a neighbour's fault did it"));
    assert_int_equal(write(input, "\n", 1), 1);
    close(input);
    assert_int_equal(WEXITSTATUS(fake_wait(program, START_MS)), 2);
    fake_until(was_ended(key), SOON_MS);
}

/* The limit is the VM's, over all its programs, and what one held that was killed is there again. */
TEST_WITH(test_memory_limit, setup_cluster, teardown_cluster)
{
    int one, two, three;
    program_memory = "40";
    pid_t first = attach(&one);
    assert_true(says(first, "of 64 MiB free"));
    pid_t second = start_program(&two);
    assert_int_equal(WEXITSTATUS(fake_wait(second, START_MS)), 1);
    assert_true(says(second, "not attached: 2"));
    close(two);
    program_memory = "4";
    second = attach(&two);
    assert_false(says(second, "60 of 64 MiB free"));            /* the first one's counts */
    fake_until(fake_server(1)->memory_used >= 50 << 20 && fake_server(1)->workers == 2, SOON_MS);
    assert_true(fake_server(1)->memory_used <= 64 << 20);
    kill(first, SIGKILL);
    fake_wait(first, SOON_MS);
    close(one);
    fake_until(was_ended(1), SOON_MS);
    program_memory = "40";
    uint64_t end = loop_now(fake.loop) + SOON_MS;
    for (;;) {                                                  /* its worker ends a moment later */
        pid_t third = start_program(&three);
        fake_until(says(third, "attached") || !fake_running(third), START_MS);
        if (!says(third, "not attached")) {
            end_well(third, three);
            break;
        }
        close(three);
        fake_wait(third, SOON_MS);
        assert_true(loop_now(fake.loop) < end);
    }
    end_well(second, two);
    fake_until(fake_server(1)->memory_used == 0 && fake_server(1)->workers == 0, SOON_MS);
    program_memory = NULL;
}

/* A server of a cluster serves nobody without a ticket. */
TEST_WITH(test_without_ticket, setup_cluster, teardown_cluster)
{
    char path[256];
    for (u_int i = 0; i < fake_server(1)->addresses.addresses_len; i++) {
        snprintf(server_variable, sizeof server_variable, "FLYT_SERVER=%s", fake_server(1)->addresses.addresses_val[i]);
        snprintf(path, sizeof path, "%s", program_name);
        char *arguments[] = { path, NULL }, *environment[] = { server_variable, NULL };
        pid_t program = fake_spawn(arguments, environment, NULL);
        assert_int_equal(WEXITSTATUS(fake_wait(program, START_MS)), 1);
        assert_true(says(program, "wants a ticket"));
    }
}

/* ---- links ---- */

/* A program, spoken by hand. */
static struct spoken {
    struct link *link;
    int attached, answers, error;
    ctl_code code;
    char text[CTL_MAX_TEXT + 1];
    unsigned size;
} spoken;

/* Whether the answer is to be waited for once more. */
static bool spoken_waits(int error, const program_answer *answer, conn_done *done)
{
    program_wait_args more = { 0 };
    bool waits = !error && answer->status.code == CTL_WAITING;
    if (waits)
        assert_int_equal(link_call(spoken.link, PROGRAM_WAIT, &more, START_MS, done, NULL, NULL), 0);
    return waits;
}

static void spoken_attached(void *context, int error, const char *why, void *object)
{
    (void)context, (void)why;
    if (!spoken_waits(error, object, spoken_attached))
        spoken.attached += !error;
}

static void spoken_up(struct link *link, struct conn *conn, const ctl_hello_result *peer)
{
    program_attach_args args = { .executable = (char *)(uintptr_t) "/bin/spoken" };
    (void)conn, (void)peer;
    assert_int_equal(link_call(link, PROGRAM_ATTACH, &args, START_MS, spoken_attached, NULL, NULL), 0);
}

static void spoken_down(struct link *link, bool was_up, int error, const char *why)
{
    (void)link, (void)was_up, (void)error, (void)why;
}

static void spoken_begin(void)
{
    char uri[160];
    const char *const uris[] = { uri, NULL };
    snprintf(uri, sizeof uri, "unix://%s/m.sock", fake.folder);
    const struct link_options options = { .uris = uris, .role = CTL_ROLE_PROGRAM, .name = "pid-1",
                                          .software = "a test", .up = spoken_up, .down = spoken_down, .once = true };
    spoken = (struct spoken){ 0 };
    assert_int_equal(link_open(fake.loop, &options, &spoken.link, NULL), 0);
    fake_until(spoken.attached, START_MS);
}

static void spoken_answered(void *context, int error, const char *why, void *object)
{
    const bool takes = context != NULL;
    const ctl_status *status = object;
    (void)why;
    spoken.answers++;
    spoken.error = error;
    if (error)
        return;
    spoken.code = status->code;
    snprintf(spoken.text, sizeof spoken.text, "%s", status->text);
    spoken.size = takes ? (unsigned)strlen(((const ctl_link_take_result *)object)->address)
                        : ((const ctl_link_offer_result *)object)->offer.offer_len;
}

static void ask_offer(void)
{
    ctl_link_offer wish = { 1 };
    assert_int_equal(link_call(spoken.link, PROGRAM_LINK_OFFER, &wish, START_MS, spoken_answered, NULL, NULL), 0);
}

static void ask_take(void)
{
    static char bytes[CTL_LINK_OFFER_SIZE];
    ctl_link_take wish = { 1, { sizeof bytes, bytes }, 9 };
    assert_int_equal(link_call(spoken.link, PROGRAM_LINK_TAKE, &wish, START_MS, spoken_answered, &spoken, NULL), 0);
}

/* The next answer. */
static void assert_answered(ctl_code code, const char *words)
{
    int before = spoken.answers;
    fake_until(spoken.answers > before, SOON_MS);
    assert_int_equal(spoken.error, 0);
    assert_int_equal(spoken.code, code);
    if (!strstr(spoken.text, words))
        fail_msg("%s", spoken.text);
}

static void begin_again(uint32_t minor)
{
    int before = fake.client_registrations;
    fake.minor = minor;
    fake_disconnect();
    fake_until(fake.client_registrations > before, START_MS);
    for (int i = 0; i < 3; i++)
        fake_turn(); /* it learns that it is registered */
}

/* Of a result that begins with its status. */
static void status_answered(void *context, int error, const char *why, void *object)
{
    const ctl_status *status = object;
    (void)context, (void)why;
    spoken.answers++;
    spoken.error = error;
    if (error)
        return;
    spoken.code = status->code;
    snprintf(spoken.text, sizeof spoken.text, "%s", status->text);
}

static void ask_value(void)
{
    static char key[] = "key";
    ctl_value_args wish = { .act = CTL_VALUE_GET, .key = key };
    assert_int_equal(link_call(spoken.link, PROGRAM_VALUE, &wish, START_MS, status_answered, NULL, NULL), 0);
}

static void say_recovered(ctl_code code, const char *words, uint64_t outage_us)
{
    ctl_recovery args = { CTL_RECOVERY_RECOVERED, (char *)"", outage_us, 1 };
    assert_int_equal(link_call(spoken.link, PROGRAM_RECOVERED, &args, START_MS, status_answered, NULL, NULL), 0);
    assert_answered(code, words);
}

TEST_WITH(test_recovered, setup_cluster, teardown_cluster)
{
    const program_wait_args renew = { .renew = 1 };
    const program_unreached_args unreached = { 77, (char *)"as it says" };
    spoken_begin();
    say_recovered(CTL_DENIED, "was not lost", 1);
    assert_int_equal(link_call(spoken.link, PROGRAM_WAIT, &renew, START_MS, spoken_attached, NULL, NULL), 0);
    fake_until(spoken.attached == 2, SOON_MS);
    say_recovered(CTL_INVALID, "cannot be true", UINT64_MAX);
    for (int i = 0; i < 8; i++)
        say_recovered(CTL_OK, "", 1);
    say_recovered(CTL_BUSY, "too often", 1);
    fake_until(fake.recovered_count == 8, SOON_MS);
    for (int i = 0; i < 40; i++)
        link_call(spoken.link, PROGRAM_UNREACHED, &unreached, START_MS, NULL, NULL, NULL);
    say_recovered(CTL_BUSY, "too often", 1); /* these came before */
    assert_true(says(manager, "event=server-unreached") && strlen(fake_log(manager)) < 3000);
}

/* The cluster manager of the release before, one of this minor that does not know values, and none. */
TEST_WITH(test_values, setup_cluster, teardown_cluster)
{
    spoken_begin();
    begin_again(8);
    ask_value();
    assert_answered(CTL_NOT_SUPPORTED, "earlier release, which keeps no values");
    begin_again(0);
    ask_value();
    assert_answered(CTL_NOT_SUPPORTED, "earlier release, which keeps no values");
    fake_deaf(1);
    for (int i = 0; i < 10; i++)
        fake_turn();
    ask_value();
    assert_answered(CTL_LOST, "cluster manager");
    fake_deaf(0);
    assert_true(fake_running(manager));
}

TEST_WITH(test_links, setup_cluster, teardown_cluster)
{
    static char bytes[CTL_LINK_OFFER_SIZE], nothing[1], address[] = "tls://n2:1", why[] = "not yours";
    spoken_begin();
    begin_again(8);
    ask_offer();
    assert_answered(CTL_NOT_SUPPORTED, "earlier release");
    ask_take();
    assert_answered(CTL_NOT_SUPPORTED, "earlier release");
    assert_int_equal(fake.link_asks, 0);
    begin_again(0);
    ask_offer();
    fake_until(fake.link_asks == 1, SOON_MS);
    assert_int_equal(fake.link_key, fake.request.prog.key);
    ask_take(); /* one question at a time */
    assert_answered(CTL_BUSY, "another link");
    assert_int_equal(fake.link_asks, 1);
    const ctl_link_offer_result offered = { { CTL_OK, nothing }, { sizeof bytes, bytes } };
    call_reply(fake.link_call, &offered);
    assert_answered(CTL_OK, "");
    assert_int_equal(spoken.size, sizeof bytes);
    ask_take();
    fake_until(fake.link_asks == 2, SOON_MS);
    const ctl_link_take_result taken = { { CTL_OK, nothing }, address };
    call_reply(fake.link_call, &taken);
    assert_answered(CTL_OK, "");
    assert_int_equal(spoken.size, strlen(address));
    ask_take();
    fake_until(fake.link_asks == 3, SOON_MS);
    const ctl_link_take_result denied = { { CTL_DENIED, why }, nothing };
    call_reply(fake.link_call, &denied);
    assert_answered(CTL_DENIED, why);
    /* The cluster manager vanishes while it is asked. */
    ask_offer();
    fake_until(fake.link_asks == 4, SOON_MS);
    int before = spoken.answers;
    fake_deaf(1);
    fake_until(spoken.answers > before, SOON_MS);
    assert_int_equal(spoken.code, CTL_LOST);
    ask_offer();
    assert_answered(CTL_LOST, "cluster manager");
    int registrations = fake.client_registrations;
    fake_deaf(0);
    fake_until(fake.client_registrations > registrations, START_MS);
    for (int i = 0; i < 3; i++)
        fake_turn();
    /* The program vanishes while it waits. */
    ask_offer();
    fake_until(fake.link_asks == 5, SOON_MS);
    uint64_t key = fake.link_key;
    link_close(spoken.link);
    fake_until(was_ended(key), SOON_MS);
    call_reply(fake.link_call, &offered);
    for (int i = 0; i < 10; i++)
        fake_turn();
    assert_true(fake_running(manager));
}

/* ---- parts ---- */

/* A further connection of this process. It says nothing by itself. */
static void part_up(struct link *link, struct conn *conn, const ctl_hello_result *peer)
{
    (void)link, (void)conn, (void)peer;
    spoken.size = 1;
}

static void part_answered(void *context, int error, const char *why, void *object)
{
    struct link *link = context;
    const program_answer *answer = object;
    (void)why;
    program_wait_args more = { 0 };
    if (!error && answer->status.code == CTL_WAITING) {
        assert_int_equal(link_call(link, PROGRAM_WAIT, &more, START_MS, part_answered, link, NULL), 0);
        return;
    }
    spoken.answers++;
    spoken.error = error;
    spoken.code = error ? CTL_LOST : answer->status.code;
    snprintf(spoken.text, sizeof spoken.text, "%s", error ? "" : answer->status.text);
}

static struct link *ask_part(uint64_t lead)
{
    char uri[160];
    const char *const uris[] = { uri, NULL };
    snprintf(uri, sizeof uri, "unix://%s/m.sock", fake.folder);
    const struct link_options options = { .uris = uris, .role = CTL_ROLE_PROGRAM, .name = "pid-1",
                                          .software = "a test", .up = part_up, .down = spoken_down, .once = true };
    const program_part_args args = { .executable = (char *)(uintptr_t) "/bin/spoken", .lead = lead, .part = 1 };
    struct link *link;
    spoken.size = 0;
    assert_int_equal(link_open(fake.loop, &options, &link, NULL), 0);
    fake_until(spoken.size, START_MS);
    assert_int_equal(link_call(link, PROGRAM_PART, &args, START_MS, part_answered, link, NULL), 0);
    return link;
}

TEST_WITH(test_parts, setup_cluster, teardown_cluster)
{
    int input;
    pid_t program = attach(&input); /* of the same user */
    const uint64_t others = 1000 + fake.request.prog.key;
    spoken_begin();
    const uint64_t key = fake.request.prog.key;
    assert_int_not_equal(1000 + key, others);
    struct link *links[4] = { ask_part(others) };
    assert_answered(CTL_NOT_FOUND, "this process has no such program");
    links[1] = ask_part(0);
    assert_answered(CTL_NOT_FOUND, "this process has no such program");
    assert_int_equal(fake.part_count, 0);
    links[2] = ask_part(1000 + key);
    assert_answered(CTL_OK, "");
    assert_int_equal(fake.part_count, 1);
    assert_int_equal(fake.part_lead, key);
    /* The program ends, and its part, too. */
    link_close(spoken.link);
    link_close(links[2]);
    fake_until(was_ended(key) && was_ended(fake.part_key), SOON_MS);
    links[3] = ask_part(1000 + key);
    assert_answered(CTL_NOT_FOUND, "this process has no such program");
    assert_int_equal(fake.part_count, 1);
    link_close(links[0]);
    link_close(links[1]);
    link_close(links[3]);
    end_well(program, input);
}

static void ticket_came(void *context, int error, const char *why, void *object)
{
    const program_answer *answer = object;
    (void)context, (void)why;
    if (spoken_waits(error, answer, ticket_came))
        return;
    spoken.answers++;
    spoken.error = error;
    if (error)
        return;
    spoken.code = answer->status.code;
    spoken.size = answer->grant.ticket.ticket_len;
}

TEST_WITH(test_new_ticket, setup_cluster, teardown_cluster)
{
    program_wait_args again = { .renew = 1 };
    spoken_begin();
    fake.silent = true;
    assert_int_equal(link_call(spoken.link, PROGRAM_WAIT, &again, START_MS, ticket_came, NULL, NULL), 0);
    fake_until(fake.renew_count == 1, SOON_MS);
    fake.silent = false;
    begin_again(0);
    fake_until(fake.renew_count == 2, SOON_MS);
    fake_until(spoken.answers == 1, SOON_MS);
    assert_int_equal(spoken.error, 0);
    assert_int_equal(spoken.code, CTL_OK);
    assert_true(spoken.size > 0);
    begin_again(0); /* it has one */
    assert_int_equal(fake.renew_count, 2);
    link_close(spoken.link);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s BIN PROGRAM\n", argv[0]);
        return 2;
    }
    fake_bin = argv[1];
    program_name = argv[2];
    return unit_run(NULL, NULL);
}
