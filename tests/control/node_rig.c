/* node_rig.c: a node manager under test. */
#include "tests/control/node_rig.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

char more_config[512];
const char *gpu_kind = "software";
char *environment[8];

pid_t start_node(void)
{
    char config[128];
    snprintf(config, sizeof config, "%s/node.conf", fake.folder);
    fake_file("secret", "secret\n");
    fake_file("node.conf",
              "resource-manager = { address = \"127.0.0.1\"; port = %d; };\n"
              "node = { name = \"n1\"; secret = \"file:%s/secret\"; addresses = [\"10.0.0.1\"]; state-directory = "
              "\"%s/state\"; gpu = \"%s\"; };\n"
              "virt-server = { listen-address = \"127.0.0.1\"; %s };\n",
              fake.port, fake.folder, fake.folder, gpu_kind, more_config);
    char program[256];
    snprintf(program, sizeof program, "%s/flyt-node-manager", fake_bin);
    char *arguments[] = { program, (char *)(uintptr_t)"--config", config, NULL };
    int before = fake.node_registrations;
    pid_t pid = fake_spawn(arguments, environment, NULL);
    fake_until(fake.node_registrations > before || !fake_running(pid), START_MS);
    if (fake.node_registrations == before)
        fail_msg("it ended: %s", fake_log(pid));
    return pid;
}

uint64_t order_start(const ctl_server_spec *spec)
{
    node_order_body body = { .kind = NODE_ORDER_START };
    body.node_order_body_u.start = *spec;
    return fake_order(&body);
}

uint64_t order_stop(uint64_t id, unsigned grace)
{
    node_order_body body = { .kind = NODE_ORDER_STOP };
    body.node_order_body_u.stop = (node_stop){ .server = id, .grace_ms = grace,
                                               .why = { CTL_OK, (char *)(uintptr_t)"the test wants it" } };
    return fake_order(&body);
}

bool in_state(uint64_t id, ctl_server_state state)
{
    const ctl_server_report *report = fake_server(id);
    return report && report->state == state;
}

pid_t start_server(uint64_t id)
{
    ctl_server_spec spec;
    fake_spec(&spec, id);
    uint64_t number = order_start(&spec);
    fake_until(in_state(id, CTL_SERVER_RUNNING) && fake_done(number), START_MS);
    assert_int_equal(fake_done(number)->code, CTL_OK);
    return (pid_t)fake_server(id)->pid;
}

void stop_server(uint64_t id, unsigned grace)
{
    order_stop(id, grace);
    fake_until(in_state(id, CTL_SERVER_ENDED), SOON_MS);
}

void end_node(pid_t node)
{
    kill(node, SIGTERM);
    int status = fake_wait(node, SOON_MS);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("it ended with status %x: %s", status, fake_log(node));
}

int node_setup(void **state)
{
    (void)state;
    more_config[0] = '\0';
    gpu_kind = "software";
    memset(environment, 0, sizeof environment);
    fake_start();
    return 0;
}

int node_teardown(void **state)
{
    (void)state;
    fake_stop();
    return 0;
}

long status_number(pid_t pid, const char *name, int base)
{
    char path[64], line[256];
    long number = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            number = strtol(line + strlen(name) + 1, NULL, base);
    fclose(file);
    return number;
}

const char *variable(pid_t pid, const char *name)
{
    static char text[32768];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    for (ssize_t at = 0; at < size; at += (ssize_t)strlen(text + at) + 1)
        if (strncmp(text + at, name, strlen(name)) == 0)
            return text + at + strlen(name);
    fail_msg("%s is not set", name);
    return NULL;
}
