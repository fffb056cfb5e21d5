/*
 * flyt-node-manager and its GPU servers, with a cluster manager made of the test and software GPUs.
 * shows: attacks: links to files of others in the folder of a GPU server: the node manager touches none of them
 * shows: node manager: a GPU server with several GPUs, its environment and its restart; orders that make no sense
 * shows: node manager: GPU servers in a sandbox, started again when they crash, killed when they do not stop, taken
 *   over after its own kill -9; refusals say why
 */
#include "tests/control/node_rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Names of digits in a folder as the process sees it; -1: it cannot be read. */
static int numbers_seen(pid_t pid, const char *folder)
{
    char path[256];
    int count = 0;
    struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, folder);
    DIR *dir = opendir(path);
    if (!dir)
        return -1;
    while ((entry = readdir(dir)))
        count += entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
    closedir(dir);
    return count;
}

/* One tenant's server sees neither another's folder nor its processes, where the kernel gives namespaces. */
TEST_WITH(test_apart, node_setup, node_teardown)
{
    char path[128];
    pid_t node = start_node(), one = start_server(1), two = start_server(2);
    snprintf(path, sizeof path, "%s/state/servers", fake.folder);
    if (strstr(fake_log(node), "sandbox-incomplete")) {
        end_node(node);
        skip();
    }
    assert_int_equal(numbers_seen(getpid(), path), 2);
    assert_int_equal(numbers_seen(one, path), 1);
    assert_int_equal(numbers_seen(two, path), 1);
    assert_in_range(numbers_seen(one, "/proc"), 1, 8);          /* itself and its workers */
    order_stop(1, 0);
    order_stop(2, 0);
    fake_until(in_state(1, CTL_SERVER_ENDED) && in_state(2, CTL_SERVER_ENDED), SOON_MS);
    end_node(node);
}

TEST_WITH(test_life, node_setup, node_teardown)
{
    environment[0] = (char *)(uintptr_t)"FLYT_SOFTGPU_SMS=6";
    environment[1] = (char *)(uintptr_t)"FLYT_SOFTGPU_MEMORY=256M";
    pid_t node = start_node();
    assert_int_equal(fake.node_args.gpus.gpus_len, 1);
    const ctl_gpu *gpu = &fake.node_args.gpus.gpus_val[0];
    assert_string_equal(gpu->id, "soft-n1-0");
    assert_int_equal(gpu->sms, 6);
    assert_int_equal(gpu->memory, 256 << 20);
    assert_int_equal(gpu->sm_limits, 1);
    assert_string_equal(fake.node_args.addresses.addresses_val[0], "10.0.0.1");

    pid_t server = start_server(7);
    assert_true(fake_running(server));
    assert_int_equal(fake_server(7)->addresses.addresses_len, 2);
    assert_int_equal(strncmp(fake_server(7)->addresses.addresses_val[0], "unix:///", 8), 0);
    assert_int_equal(strncmp(fake_server(7)->addresses.addresses_val[1], "tcp://127.0.0.1:", 16), 0);
    assert_int_equal(fake_server(7)->granted_sms, 2);
    assert_int_equal(status_number(server, "NoNewPrivs", 10), 1);
    assert_int_equal(status_number(server, "Seccomp", 10), 2);
    assert_int_equal(status_number(server, "CapEff", 16), 0);
    assert_int_equal(status_number(server, "CapBnd", 16), 0);

    /* Known already: reported, not started again. */
    ctl_server_spec spec;
    fake_spec(&spec, 7);
    uint64_t number = order_start(&spec);
    fake_until(fake_done(number), SOON_MS);
    assert_int_equal(fake_server(7)->pid, server);

    uint64_t stop = order_stop(7, 0);
    fake_until(in_state(7, CTL_SERVER_ENDED) && fake_done(stop), SOON_MS);
    assert_false(fake_running(server));
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/state/servers/7", fake.folder);
    assert_int_equal(stat(path, &st), -1);
    stop = order_stop(7, 0);            /* not known: done */
    fake_until(fake_done(stop), SOON_MS);
    end_node(node);
}

TEST_WITH(test_refusals, node_setup, node_teardown)
{
    pid_t node = start_node();
    ctl_server_spec spec;
    const struct { ctl_code code; unsigned sms, sharing; uint64_t memory; const char *gpu, *words; } tries[] = {
        { CTL_NO_ROOM, 100, CTL_SHARING_TIME_SLICE, 1 << 20, "soft-n1-0", "4 SMs" },
        { CTL_NO_ROOM, 1, CTL_SHARING_TIME_SLICE, UINT64_C(1) << 50, "soft-n1-0", "MiB" },
        { CTL_NOT_FOUND, 1, CTL_SHARING_TIME_SLICE, 1 << 20, "soft-n1-9", "no GPU soft-n1-9" },
        { CTL_NOT_SUPPORTED, 1, CTL_SHARING_MIG, 1 << 20, "soft-n1-0", "mig" },
        { CTL_INVALID, 1, CTL_SHARING_TIME_SLICE, 0, "soft-n1-0", "no sense" },
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        fake_spec(&spec, 20 + i);
        spec.sms = tries[i].sms;
        spec.memory = tries[i].memory;
        spec.sharing = tries[i].sharing;
        spec.gpu = (char *)(uintptr_t)tries[i].gpu;
        uint64_t number = order_start(&spec);
        fake_until(fake_done(number) && in_state(20 + i, CTL_SERVER_FAILED), SOON_MS);
        assert_int_equal(fake_done(number)->code, tries[i].code);
        if (!strstr(fake_done(number)->text, tries[i].words))
            fail_msg("'%s' does not say '%s'", fake_done(number)->text, tries[i].words);
    }
    end_node(node);
}

static uint64_t order_gang(uint64_t id, char **gpus, unsigned count)
{
    node_order_body body = { .kind = NODE_ORDER_START_GANG };
    node_start_gang *gang = &body.node_order_body_u.start_gang;
    fake_spec(&gang->spec, id);
    gang->gpus.gpus_len = count;
    gang->gpus.gpus_val = gpus;
    return fake_order(&body);
}

static bool has_variable(pid_t pid, const char *name, const char *value)
{
    return strcmp(variable(pid, name), value) == 0;
}

/* A server with several GPUs: its environment, a node manager that was killed, a crash; and orders that make no
   sense. */
TEST_WITH(test_several_gpus, node_setup, node_teardown)
{
    char *gpus[] = { (char *)(uintptr_t)"soft-n1-2", (char *)(uintptr_t)"soft-n1-0", (char *)(uintptr_t)"soft-n1-9" };
    char *twice[] = { gpus[0], gpus[0] };
    const struct { char **gpus; unsigned count; ctl_code code; const char *words; } wrong[] = {
        { gpus, 3, CTL_NOT_FOUND, "no GPU soft-n1-9" },
        { twice, 2, CTL_INVALID, "named twice" },
        { gpus, 0, CTL_INVALID, "1 to 16 GPUs" },
    };
    unsetenv("FLYT_LOG");
    environment[0] = (char *)(uintptr_t)"FLYT_SOFTGPU_DEVICES=3";
    pid_t node = start_node();
    assert_int_equal(fake.node_args.gpus.gpus_len, 3);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint64_t number = order_gang(20 + i, wrong[i].gpus, wrong[i].count);
        fake_until(fake_done(number) && in_state(20 + i, CTL_SERVER_FAILED), SOON_MS);
        assert_int_equal(fake_done(number)->code, wrong[i].code);
        assert_non_null(strstr(fake_done(number)->text, wrong[i].words));
    }
    uint64_t number = order_gang(1, gpus, 2);
    fake_until(in_state(1, CTL_SERVER_RUNNING) && fake_done(number), START_MS);
    pid_t server = (pid_t)fake_server(1)->pid;
    assert_true(has_variable(server, "FLYT_SOFTGPU_DEVICES=", "2") && has_variable(server, "FLYT_SOFTGPU_SMS=", "2"));
    assert_true(has_variable(server, "FLYT_TENANT_MEMORY=", "67108864"));
    assert_true(has_variable(server, "FLYT_LOG=", "info")); /* else its log would stay empty */
    kill(node, SIGKILL);
    fake_wait(node, SOON_MS);
    node = start_node();
    assert_int_equal(fake.node_args.servers.servers_len, 1);
    kill(server, SIGKILL);                  /* what it has stands on disk: it begins again with the same */
    fake_until(in_state(1, CTL_SERVER_RUNNING) && fake_server(1)->restarts == 1, START_MS);
    assert_true(has_variable((pid_t)fake_server(1)->pid, "FLYT_SOFTGPU_DEVICES=", "2"));
    stop_server(1, 0);
    end_node(node);
}

TEST_WITH(test_crash, node_setup, node_teardown)
{
    char path[128];
    pid_t node = start_node(), server = start_server(1);
    /* Worker 2 of the one that is killed served program 9; worker 2 of the next one does not. */
    snprintf(path, sizeof path, "%s/state/servers/1/own/programs", fake.folder);
    mkdir(path, 0700);
    fake_file("state/servers/1/own/programs/9.2", "x");
    strcat(path, "/9.2");
    assert_int_equal(access(path, F_OK), 0);
    kill(server, SIGKILL);
    fake_until(in_state(1, CTL_SERVER_STARTING), SOON_MS);
    assert_non_null(strstr(fake_server(1)->status.text, "signal 9"));
    fake_until(in_state(1, CTL_SERVER_RUNNING), START_MS);
    assert_int_equal(fake_server(1)->restarts, 1);
    assert_int_not_equal(fake_server(1)->pid, server);
    assert_int_not_equal(access(path, F_OK), 0);
    server = (pid_t)fake_server(1)->pid;
    /* One that does not stop is killed. */
    kill(server, SIGSTOP);
    uint64_t stop = order_stop(1, 200);
    fake_until(in_state(1, CTL_SERVER_ENDED) && fake_done(stop), SOON_MS);
    assert_false(fake_running(server));
    end_node(node);
}

TEST_WITH(test_taken_over, node_setup, node_teardown)
{
    pid_t node = start_node(), one = start_server(1), two = start_server(2);
    kill(node, SIGKILL);
    fake_wait(node, SOON_MS);
    assert_true(fake_running(one) && fake_running(two));
    kill(two, SIGKILL);                 /* while nobody looks */
    node = start_node();
    assert_int_equal(fake.node_args.servers.servers_len, 2);
    bool found = false;
    for (u_int i = 0; i < 2; i++) {
        const ctl_server_report *report = &fake.node_args.servers.servers_val[i];
        if (report->id == 1) {
            assert_int_equal(report->state, CTL_SERVER_RUNNING);
            assert_int_equal(report->pid, one);
            assert_int_equal(report->addresses.addresses_len, 2);
            found = true;
        }
    }
    assert_true(found);
    fake_until(in_state(2, CTL_SERVER_RUNNING) && fake_server(2)->restarts == 1, START_MS);
    /* Its end is noticed although it is no child of this node manager. */
    kill(one, SIGKILL);
    fake_until(in_state(1, CTL_SERVER_RUNNING) && fake_server(1)->restarts == 1, START_MS);
    /* A second one for the same state refuses. */
    char config[128], program[256];
    snprintf(config, sizeof config, "%s/node.conf", fake.folder);
    snprintf(program, sizeof program, "%s/flyt-node-manager", fake_bin);
    char *arguments[] = { program, (char *)(uintptr_t)"--config", config, NULL };
    pid_t second = fake_spawn(arguments, environment, NULL);
    assert_int_equal(WEXITSTATUS(fake_wait(second, SOON_MS)), 1);
    assert_non_null(strstr(fake_log(second), "another flyt-node-manager"));
    /* Reports that could not be given are given after a reconnection. */
    fake_deaf(1);
    pid_t again = (pid_t)fake_server(1)->pid;
    kill(again, SIGKILL);
    usleep(300000);
    fake_deaf(0);
    fake_until(in_state(1, CTL_SERVER_RUNNING) && fake_server(1)->restarts == 2, START_MS);
    order_stop(1, 0);
    order_stop(2, 0);
    fake_until(in_state(1, CTL_SERVER_ENDED) && in_state(2, CTL_SERVER_ENDED), SOON_MS);
    end_node(node);
}

TEST_WITH(test_does_not_start, node_setup, node_teardown)
{
    ctl_server_spec spec;
    char path[128];
    fake_file("broken", "#!/bin/sh\necho this server is broken >&2\nexit 9\n");
    snprintf(path, sizeof path, "%s/broken", fake.folder);
    assert_int_equal(chmod(path, 0755), 0);
    snprintf(more_config, sizeof more_config, "program-path = \"%s\"; start-timeout = 1.0;", path);
    pid_t node = start_node();
    fake_spec(&spec, 3);
    uint64_t number = order_start(&spec);
    fake_until(fake_done(number) && in_state(3, CTL_SERVER_FAILED), SOON_MS);
    assert_non_null(strstr(fake_done(number)->text, "this server is broken"));
    /* Silent: it is killed when its time is over. */
    fake_file("broken", "#!/bin/sh\nexec sleep 60\n");
    spec.id = 4;
    number = order_start(&spec);
    fake_until(fake_done(number) && in_state(4, CTL_SERVER_FAILED), SOON_MS);
    assert_non_null(strstr(fake_done(number)->text, "not ready"));
    /* Stopped while it starts, when it hears no SIGTERM yet: at once, not after the grace. */
    spec.id = 7;
    order_start(&spec);
    number = order_stop(7, 60000);
    fake_until(in_state(7, CTL_SERVER_ENDED) && fake_done(number), SOON_MS);
    /* Its driver shows more than was ordered: a limit that does not hold is no limit. */
    fake_file("broken",
              "#!/bin/sh\necho device multiprocessors 3\necho listening on tcp://127.0.0.1:1\nexec sleep 60\n");
    spec.id = 5;
    number = order_start(&spec);
    fake_until(fake_done(number) && in_state(5, CTL_SERVER_FAILED), SOON_MS);
    assert_int_equal(fake_done(number)->code, CTL_NOT_SUPPORTED);
    assert_non_null(strstr(fake_done(number)->text, "was to have 2 SMs, but its driver shows 3"));
    /* Fewer are less than was ordered, and said so. */
    fake_file("broken",
              "#!/bin/sh\necho device multiprocessors 1\necho listening on tcp://127.0.0.1:1\nexec sleep 60\n");
    spec.id = 6;
    number = order_start(&spec);
    fake_until(fake_done(number) && in_state(6, CTL_SERVER_RUNNING), SOON_MS);
    assert_int_equal(fake_server(6)->granted_sms, 1);
    stop_server(6, 0);
    end_node(node);
}

/* A server that writes without end fills no disk: its log is cut while it runs. */
TEST_WITH(test_log_is_bounded, node_setup, node_teardown)
{
    ctl_server_spec spec;
    char path[128];
    struct stat st = { 0 };
    fake_file("broken", "#!/bin/sh\nhead -c 40000000 /dev/zero | tr '\\0' x >&2\necho the end >&2\n"
                        "echo listening on tcp://127.0.0.1:1\nexec sleep 60\n");
    snprintf(path, sizeof path, "%s/broken", fake.folder);
    assert_int_equal(chmod(path, 0755), 0);
    snprintf(more_config, sizeof more_config, "program-path = \"%s\";", path);
    pid_t node = start_node();
    fake_spec(&spec, 3);
    uint64_t number = order_start(&spec);
    fake_until(fake_done(number) && in_state(3, CTL_SERVER_RUNNING), SOON_MS);
    snprintf(path, sizeof path, "%s/state/servers/3/log", fake.folder);
    fake_until(stat(path, &st) == 0 && st.st_size >= 1000 && st.st_size < 1 << 20, 5000);
    assert_in_range(st.st_size, 1000, 1 << 20);
    char words[32] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && pread(fd, words, sizeof words - 1, st.st_size - 8) == 8);
    close(fd);
    assert_string_equal(words, "the end\n");
    stop_server(3, 0);
    end_node(node);
}

/* ---- a server that was taken over ---- */

/* The folder that a server can write, as it sees it. */
static void writable_folder(uint64_t id, char path[200])
{
    snprintf(path, 200, "%s/state/servers/%d/own", fake.folder, (int)id);
    if (access(path, F_OK) != 0)
        *strrchr(path, '/') = '\0';
}

static void plant(const char *folder, const char *name, const char *target)
{
    char path[300], command[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
    assert_int_equal(symlink(target, path), 0);
}

static void plant_all(const char *folder)
{
    static const char *const files[] = { "keys",  "memory",   "output",    "log",
                                         "state", "keys.new", ".keys.new", "state.new" };
    char target[200];
    snprintf(target, sizeof target, "%s/victim", fake.folder);
    plant(folder, "programs", target);
    plant(folder, "more", target);
    snprintf(target, sizeof target, "%s/victim/kept", fake.folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        plant(folder, files[i], target);
}

static void assert_unhurt(void)
{
    static const char words[] = "the words of another user\n";
    char path[200], text[100] = "";
    snprintf(path, sizeof path, "%s/victim/9.2", fake.folder);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/victim/kept", fake.folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) >= 0);
    close(fd);
    assert_string_equal(text, words);
    for (int i = 0; i < fake.report_count; i++)
        if (fake.reports[i].kind == NODE_REPORT_SERVER)
            assert_null(strstr(fake.reports[i].node_report_body_u.server.status.text, "words of another"));
}

TEST_WITH(test_taken_over_server, node_setup, node_teardown)
{
    char path[200], folder[200];
    pid_t node = start_node(), server = start_server(1);
    snprintf(path, sizeof path, "%s/victim", fake.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    fake_file("victim/9.2", "x");
    fake_file("victim/kept", "the words of another user\n");
    writable_folder(1, folder);
    plant_all(folder);
    /* It crashes: the node manager reads its log, forgets its workers, writes its keys, and starts it again. */
    kill(server, SIGKILL);
    fake_until(in_state(1, CTL_SERVER_STARTING), SOON_MS);
    assert_unhurt();
    fake_until(in_state(1, CTL_SERVER_RUNNING), START_MS);
    assert_unhurt();
    /* While it runs, other keys come, and a node manager that starts anew reads its state. */
    writable_folder(1, folder);
    plant_all(folder);
    node_order_body keys = { .kind = NODE_ORDER_KEYS };
    char key[32] = "another key";
    keys.node_order_body_u.ticket_key.ticket_key_len = sizeof key;
    keys.node_order_body_u.ticket_key.ticket_key_val = key;
    uint64_t number = fake_order(&keys);
    fake_until(fake_done(number), SOON_MS);
    assert_unhurt();
    kill(node, SIGKILL);
    fake_wait(node, SOON_MS);
    node = start_node();
    assert_int_equal(fake.node_args.servers.servers_len, 1);
    number = order_stop(1, 0);
    fake_until(fake_done(number), SOON_MS);
    assert_unhurt();
    assert_int_not_equal(access(folder, F_OK), 0);
    end_node(node);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s BIN\n", argv[0]);
        return 2;
    }
    fake_bin = argv[1];
    return unit_run(NULL, NULL);
}
