/*
 * flyt-node-manager: what it reports of its GPUs and of programs, and what it does for programs. The cluster manager is
 * made of the test.
 * shows: links under managers: a node manager that is ordered to connect a GPU server makes all connections or says why
 *   not, and keeps none that no program takes
 * shows: usage: a node that is asked whether a program is served answers, and revokes no ticket; a cluster manager of
 *   minor 8 has no answer
 * shows: usage: a cluster manager of minor 8 is not sent what it cannot decode, one of today's is, from the same node
 */
#include "tests/control/node_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *stand_ins; /* for NVIDIA's libraries */

/* ---- programs ---- */

/* A program that has ended by itself, or whose VM has a new secret: the node manager marks its tickets as revoked, and
   kills no worker. */
TEST_WITH(test_program_revoked, node_setup, node_teardown)
{
    char path[160];
    struct stat st;
    pid_t node = start_node(), server = start_server(1);
    node_order_body body = { .kind = NODE_ORDER_END_PROGRAM };
    body.node_order_body_u.end_program =
        (node_end_program){ .server = 1, .prog = 77, .why = { CTL_OK, (char *)(uintptr_t) "" } };
    uint64_t number = fake_order(&body);
    fake_until(fake_done(number), SOON_MS);
    snprintf(path, sizeof path, "%s/state/servers/1/own/revoked/77", fake.folder);
    assert_int_equal(stat(path, &st), 0);
    snprintf(path, sizeof path, "%s/state/servers/1/own/revoked", fake.folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, status_number(server, "Uid", 10));
    stop_server(1, 0);
    end_node(node);
}

static int reports_of(node_report_kind kind, int from)
{
    int count = 0;
    for (int i = from; i < fake.report_count; i++)
        count += fake.reports[i].kind == kind;
    return count;
}

/* Asks until when the program was served, and waits for the order's result. */
static void ask_left(uint64_t program)
{
    node_order_body body = { .kind = NODE_ORDER_END_PROGRAM };
    body.node_order_body_u.end_program =
        (node_end_program){ .server = 1, .prog = program, .why = { CTL_OK, (char *)(uintptr_t) "" } };
    uint64_t number = fake_order(&body);
    fake_until(fake_done(number), SOON_MS);
}

static int reconnect(uint32_t minor)
{
    int before = fake.node_registrations, reports = fake.report_count;
    fake.minor = minor;
    fake_disconnect();
    fake_until(fake.node_registrations > before, SOON_MS);
    return reports;
}

/* What a cluster manager of minor 8 cannot decode is not sent to it; one of today's has it, also after that. */
TEST_WITH(test_usage_of_earlier_managers, node_setup, node_teardown)
{
    pid_t node = start_node();
    start_server(1);
    ask_left(77);
    fake_until(reports_of(NODE_REPORT_LEFT, 0), SOON_MS);
    const node_left *left = NULL;
    for (int i = 0; i < fake.report_count; i++)
        if (fake.reports[i].kind == NODE_REPORT_LEFT)
            left = &fake.reports[i].node_report_body_u.left;
    assert_true(left && left->server == 1 && left->prog == 77 && !left->ended && !left->fault);
    int from = reconnect(8);
    ask_left(78);
    fake_until(reports_of(NODE_REPORT_SERVER, from), SOON_MS); /* its figures, after report-period */
    assert_int_equal(reports_of(NODE_REPORT_USAGE, from), 0);
    assert_int_equal(reports_of(NODE_REPORT_LEFT, from), 0);
    from = reconnect(0);
    fake_until(reports_of(NODE_REPORT_USAGE, from), SOON_MS);
    ask_left(79);
    fake_until(reports_of(NODE_REPORT_LEFT, from), SOON_MS);
    stop_server(1, 0);
    end_node(node);
}

/* What came of the order, and whether it revoked the program's tickets. */
static bool ask_served(uint64_t server, uint64_t program)
{
    char path[160];
    struct stat st;
    node_order_body body = { .kind = NODE_ORDER_SERVED };
    body.node_order_body_u.served = (node_served){ .server = server, .prog = program };
    uint64_t number = fake_order(&body);
    fake_until(fake_done(number), SOON_MS);
    assert_int_equal(fake_done(number)->code, CTL_OK);
    snprintf(path, sizeof path, "%s/state/servers/1/own/revoked/%llu", fake.folder, (unsigned long long)program);
    return stat(path, &st) == 0;
}

/* It answers whether the program is served, and the program may go on. To a manager of minor 8, which does not have
   this order, it has no answer. */
TEST_WITH(test_asked_who_is_served, node_setup, node_teardown)
{
    pid_t node = start_node();
    start_server(1);
    int from = fake.report_count;
    assert_false(ask_served(1, 77));
    fake_until(reports_of(NODE_REPORT_LEFT, from), SOON_MS);
    for (int i = from; i < fake.report_count; i++)
        if (fake.reports[i].kind == NODE_REPORT_LEFT)
            assert_true(fake.reports[i].node_report_body_u.left.server == 1 &&
                        fake.reports[i].node_report_body_u.left.prog == 77 &&
                        !fake.reports[i].node_report_body_u.left.ended);
    assert_false(ask_served(2, 77)); /* a server that it does not have */
    assert_false(ask_served(1, 0));
    from = reconnect(8);
    assert_false(ask_served(1, 78));
    fake_until(reports_of(NODE_REPORT_SERVER, from), SOON_MS);
    assert_int_equal(reports_of(NODE_REPORT_LEFT, from), 0);
    from = reconnect(0);
    assert_false(ask_served(1, 79));
    fake_until(reports_of(NODE_REPORT_LEFT, from), SOON_MS);
    stop_server(1, 0);
    end_node(node);
}

/* What came of the order. */
static const ctl_status *order_link(uint64_t source, const char *address, unsigned connections)
{
    node_order_body body = { .kind = NODE_ORDER_LINK };
    body.node_order_body_u.link = (node_link){ 77, source, 2, (char *)(uintptr_t)address, connections };
    uint64_t number = fake_order(&body);
    fake_until(fake_done(number), SOON_MS);
    return fake_done(number);
}

/* How many have connected; all of them have been closed again. */
static int callers_of(int listens)
{
    int count = 0, fd;
    char byte;
    while ((fd = accept(listens, NULL, NULL)) >= 0) {
        struct pollfd polled = { .fd = fd, .events = POLLIN };
        assert_int_equal(poll(&polled, 1, SOON_MS), 1);
        assert_true(recv(fd, &byte, 1, 0) <= 0);
        close(fd);
        count++;
    }
    return count;
}

TEST_WITH(test_links, node_setup, node_teardown)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    char address[64];
    pid_t node = start_node();
    start_server(1);
    int listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listens, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(listens, (struct sockaddr *)&at, &size), 0);
    snprintf(address, sizeof address, "tcp://127.0.0.1:%u", ntohs(at.sin_port));
    const ctl_status *done = order_link(1, address, 9);
    assert_int_equal(done->code, CTL_LOST);
    assert_non_null(strstr(done->text, "refused"));
    assert_int_equal(listen(listens, 64), 0);
    assert_int_equal(order_link(1, address, 0)->code, CTL_INVALID);
    assert_int_equal(order_link(1, address, CTL_MAX_LINK_CONNECTIONS + 1)->code, CTL_INVALID);
    assert_int_equal(order_link(9, address, 9)->code, CTL_NOT_FOUND);
    assert_int_equal(order_link(1, "unix:///etc/passwd", 9)->code, CTL_LOST);
    assert_int_equal(callers_of(listens), 0);
    done = order_link(1, address, CTL_MAX_LINK_CONNECTIONS);
    assert_int_equal(done->code, CTL_NOT_FOUND);
    assert_non_null(strstr(done->text, "program 77"));
    assert_int_equal(callers_of(listens), CTL_MAX_LINK_CONNECTIONS);
    close(listens);
    stop_server(1, 0);
    end_node(node);
}

/* ---- GPUs ---- */

static bool gpu_reported(ctl_gpu_state wanted)
{
    for (int i = fake.report_count; i-- > 0;)
        if (fake.reports[i].kind == NODE_REPORT_GPU)
            return fake.reports[i].node_report_body_u.gpu.state == wanted;
    return false;
}

/* A fault that takes the whole GPU: all servers on it are ended, tenants are told whose it was, and it is ready again.
   A server can report one of its own, and cannot write where others read. */
TEST_WITH(test_gpu_fault, node_setup, node_teardown)
{
    char path[300];
    int code = 719;
    struct stat word;
    environment[0] = (char *)(uintptr_t)"FLYT_SOFTGPU_FAULT_DOMAIN=gpu";
    pid_t node = start_node();
    ctl_server_spec spec;
    fake_spec(&spec, 1);
    spec.sharing = CTL_SHARING_MPS;
    order_start(&spec);
    spec.id = 2;
    order_start(&spec);
    fake_until(in_state(1, CTL_SERVER_RUNNING) && in_state(2, CTL_SERVER_RUNNING), START_MS);
    pid_t one = (pid_t)fake_server(1)->pid, two = (pid_t)fake_server(2)->pid;
    snprintf(path, sizeof path, "%s", variable(one, "FLYT_SOFTGPU_CARD_WORD="));
    assert_string_equal(path, variable(two, "FLYT_SOFTGPU_CARD_WORD="));
    assert_int_equal(stat(path, &word), 0);
    if (geteuid() == 0) {
        assert_int_equal(word.st_uid, 0);
        assert_int_not_equal(status_number(one, "Uid", 10), status_number(two, "Uid", 10));
    }
    assert_int_equal(word.st_mode & 0777, 0644);
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)one, variable(one, "FLYT_SOFTGPU_CARD_WORD="));
    assert_int_equal(open(path, O_WRONLY | O_CLOEXEC), -1);     /* read-only there, whoever writes */
    assert_int_equal(errno, EROFS);
    int fd = open(variable(two, "FLYT_SOFTGPU_CARD_REPORT="), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &code, sizeof code, 0), sizeof code);
    close(fd);
    snprintf(path, sizeof path, "%s", variable(one, "FLYT_SOFTGPU_CARD_WORD="));
    fake_until(in_state(1, CTL_SERVER_ENDED) && in_state(2, CTL_SERVER_ENDED), SOON_MS);
    assert_int_equal(fake_server(1)->status.code, CTL_NEIGHBOUR);
    assert_int_equal(fake_server(2)->status.code, CTL_LOST);
    assert_false(fake_running(one) || fake_running(two));
    fake_until(gpu_reported(CTL_GPU_READY), 10000);
    spec.id = 3;
    order_start(&spec);
    fake_until(in_state(3, CTL_SERVER_RUNNING), START_MS);
    stop_server(3, 0);
    end_node(node);
    assert_int_equal(access(path, F_OK), -1);
}

/* What NVML and the driver say is reported; without MPS a part of the SMs is refused, saying why. */
TEST_WITH(test_nvidia, node_setup, node_teardown)
{
    static char path[300];
    char target[160];
    const char *const names[] = { "libnvidia-ml.so.1", "libcuda.so.1" };
    for (int i = 0; i < 2; i++) {
        snprintf(target, sizeof target, "%s/%s", fake.folder, names[i]);
        assert_int_equal(symlink(stand_ins, target), 0);
    }
    snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", fake.folder);
    environment[0] = path;
    gpu_kind = "nvidia";
    pid_t node = start_node();
    assert_int_equal(fake.node_args.gpus.gpus_len, 1);
    const ctl_gpu *gpu = &fake.node_args.gpus.gpus_val[0];
    assert_string_equal(gpu->id, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    assert_string_equal(gpu->product, "NVIDIA Test");
    assert_int_equal(gpu->sms, 132);
    assert_int_equal(gpu->memory, UINT64_C(79) << 30);
    assert_int_equal(gpu->clock_mhz, 1980);
    assert_int_equal(gpu->sharing, CTL_SHARING_EXCLUSIVE | CTL_SHARING_TIME_SLICE);
    assert_int_equal(gpu->sm_limits, 0);
    assert_non_null(strstr(gpu->text, "start_mps.sh"));
    ctl_server_spec spec;
    fake_spec(&spec, 1);
    spec.gpu = (char *)(uintptr_t)"GPU-00010203-0405-0607-0809-0a0b0c0d0e0f";
    uint64_t number = order_start(&spec);
    fake_until(fake_done(number), SOON_MS);
    assert_int_equal(fake_done(number)->code, CTL_NOT_SUPPORTED);
    assert_non_null(strstr(fake_done(number)->text, "start_mps.sh"));
    end_node(node);
    /* In MIG mode, whose instances cannot be used yet: out of service, and why. */
    environment[1] = (char *)(uintptr_t)"FLYT_TEST_MIG=1";
    node = start_node();
    gpu = &fake.node_args.gpus.gpus_val[0];
    assert_int_equal(gpu->state, CTL_GPU_FAULTY);
    assert_int_equal(gpu->sharing, 0);
    assert_non_null(strstr(gpu->text, "MIG mode"));
    spec.sharing = CTL_SHARING_MIG;
    spec.id = 2;
    number = order_start(&spec);
    fake_until(fake_done(number), SOON_MS);
    assert_int_equal(fake_done(number)->code, CTL_BUSY);
    assert_non_null(strstr(fake_done(number)->text, "MIG mode"));
    end_node(node);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s BIN STAND-INS\n", argv[0]);
        return 2;
    }
    fake_bin = argv[1];
    stand_ins = realpath(argv[2], NULL);
    return unit_run(NULL, NULL);
}
