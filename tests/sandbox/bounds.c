/*
 * What a GPU server takes of its machine: eater.c stands in for it. Where the machine has control groups of version 2,
 * the kernel ends what takes more memory than virt-server.host-memory, and refuses processes beyond max-processes.
 *
 * usage: bounds BIN EATER
 */
#include "tests/control/node_fake.h"

#include <limits.h>
#include <unistd.h>

enum { START_MS = 60000 };
static const char *eater;

static bool in_state(uint64_t id, ctl_server_state state)
{
    const ctl_server_report *report = fake_server(id);
    return report && report->state == state;
}

static int setup(void **state)
{
    (void)state;
    fake_start();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fake_stop();
    return 0;
}

TEST_WITH(test_bounds, setup, teardown)
{
    static char config[256], program[PATH_MAX];
    snprintf(config, sizeof config, "%s/node.conf", fake.folder);
    snprintf(program, sizeof program, "%s/flyt-node-manager", fake_bin);
    fake_file("secret", "secret\n");
    fake_file("node.conf",
              "resource-manager = { address = \"127.0.0.1\"; port = %d; };\n"
              "node = { name = \"n1\"; secret = \"file:%s/secret\"; addresses = [\"10.0.0.1\"]; state-directory = "
              "\"%s/state\"; gpu = \"software\"; };\n"
              "virt-server = { listen-address = \"127.0.0.1\"; program-path = \"%s\"; max-processes = 80; host-memory "
              "= \"32M\"; max-restarts = 0; };\n",
              fake.port, fake.folder, fake.folder, eater);
    char *arguments[] = { program, (char *)(uintptr_t) "--config", config, NULL };
    pid_t node = fake_spawn(arguments, NULL, NULL);
    fake_until(fake.node_registrations || !fake_running(node), START_MS);
    if (strstr(fake_log(node), "cgroup-missing")) {
        print_message("skipped: %s\n", fake_log(node));
        skip();
    }
    ctl_server_spec spec;
    fake_spec(&spec, 1);
    spec.memory = 16 << 20;
    node_order_body body = { .kind = NODE_ORDER_START };
    body.node_order_body_u.start = spec;
    uint64_t number = fake_order(&body);
    fake_until(fake_done(number), START_MS);
    /* 48 MiB are its bound, and it takes 120. */
    fake_until(in_state(1, CTL_SERVER_FAILED), START_MS);
    const char *text = fake_server(1)->status.text;
    if (!strstr(text, "signal 9") || !strstr(text, "79 processes"))
        fail_msg("%s", text);
    assert_true(fake_running(node));
    assert_int_not_equal(access("/sys/fs/cgroup/flyt/cgroup.procs", F_OK), -1);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s BIN EATER\n", argv[0]);
        return 2;
    }
    fake_bin = argv[1];
    eater = realpath(argv[2], NULL);
    return unit_run(NULL, NULL);
}
