/*
 * cluster_flood.c: flyt-cluster-manager and those who ask too much of it: a VM without end, strangers, many VMs at
 * once. What administrators did stays to be read.
 */
#include "tests/control/cluster_rig.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#define GIB (UINT64_C(1) << 30)
static const char quick[] = "virt-server-auto-deallocate = { grace-period = 0.3; };\n"
                            "silence = { suspect = 1.0; lost = 3.0; client-lost = 2.0; start = 5.0; };\n";

static struct fake_client a;

static unsigned flood_answers, flood_busy;
static void flood_answered(void *context, int error, const char *why, void *object)
{
    const client_answer *answer = object;
    (void)context;
    (void)why;
    flood_answers++;
    flood_busy += !error && answer->status.code == CTL_BUSY;
}

/* Lines of a file in the rig's folder that hold the words. */
static unsigned lines_with(const char *name, const char *words)
{
    char path[128], line[4096];
    unsigned count = 0;
    snprintf(path, sizeof path, "%s/%s", rig.folder, name);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, words) != NULL;
    if (file)
        fclose(file);
    return count;
}

/* A VM that asks without end: the history and the log keep room for others, and what administrators did stays. */
RIG_TEST(test_flood)
{
    enum { FLOOD = 6000, AT_ONCE = 500, BURST = 500, MS_OF_A_LINE = 200 };
    char settings[200];
    unsigned sent = 0;
    snprintf(settings, sizeof settings, "log = { events = 1000; audit = \"/tmp/flyt-audit-%d\"; };\n", (int)getpid());
    rig_create(settings);
    const uint64_t start = loop_now(rig.loop);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    for (flood_answers = flood_busy = 0; flood_answers < FLOOD;) {
        for (; sent < FLOOD && sent - flood_answers < AT_ONCE; sent++) {
            client_request_args args = { .prog = { .key = 1000 + sent, .pid = 1, .executable = (char *)"/bin/fake" },
                                         .wait = CLIENT_WAIT_NO };
            assert_int_equal(link_call(a.link, CLIENT_REQUEST, &args, patience(10000), flood_answered, NULL, NULL), 0);
        }
        rig_run_ms(1);
    }
    assert_in_range(flood_busy, FLOOD / 4, FLOOD);
    rig_run_ms(1); /* the loop's time is older than the answers that it has just brought */
    const uint64_t passed = loop_now(rig.loop) - start;
    assert_in_range(lines_with("log", "event=program-refused"), 100, BURST + passed / MS_OF_A_LINE + 1);
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/tmp/flyt-audit-%d", (int)getpid());
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    unsigned lines = 0, added = 0;
    for (; fgets(line, sizeof line, file); lines++)
        added += strstr(line, "\"event\":\"vm-added\"") && strstr(line, "\"vm\":\"vm-a\"");
    fclose(file);
    unlink(path);
    assert_int_equal(added, 1);
    assert_in_range(lines, 1, 10);
}

static unsigned crowds;
static void crowd_named(void *context, int error, const char *why, void *object)
{
    (void)context, (void)why, (void)object;
    assert_int_equal(error, 0);
    crowds++;
}

/* NULL: none. */
static const struct fake_program *refused_of(const struct fake_program *programs, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (programs[i].code == CTL_BUSY)
            return &programs[i];
    return NULL;
}

/* A VM that names programs which it never asked for, and others each time. What this manager knows is not counted. */
RIG_TEST(test_crowd)
{
    enum { CROWD = 1000, ROUNDS = 6, BURST = 2000, WATCHED = 20 };
    static client_running running[1 + CROWD];
    static struct fake_node n1;
    rig_create("");
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 4, GIB, 0, true, "");
    struct fake_program *one = client_run(&a, CLIENT_WAIT_YES), *last = &a.programs[a.program_count];
    rig_until(one->running, 5000);
    for (unsigned i = 0; i < WATCHED; i++)
        a.programs[a.program_count++] = (struct fake_program){ .key = 2 + i };
    running[0] = (client_running){ .prog = { .key = one->key, .executable = (char *)"/bin/fake" }, .id = one->id,
                                   .server = one->server };
    for (u_int i = 1; i <= CROWD; i++)
        running[i] = (client_running){ .prog = { .key = 2 + CROWD - i, .executable = (char *)"/bin/fake" },
                                       .server = one->server };
    uint64_t start = loop_now(rig.loop), taken = 0, of_last_round = 0;
    for (unsigned round = 1; round <= ROUNDS; round++) {
        client_register_args args = { .host = (char *)"h", .programs = { 1 + CROWD, running } };
        assert_int_equal(link_call(a.link, CLIENT_REGISTER, &args, patience(20000), crowd_named, NULL, NULL), 0);
        rig_until(crowds == round, 20000);
        admin_status_result status = admin_status();
        assert_in_range(status.programs, 1, 1 + CROWD);
        of_last_round = status.programs - 1;
        taken += of_last_round;
        if (round == 1)
            assert_int_equal(status.programs, 1 + CROWD);
    }
    /* It was not more than the limit allows, and the program that runs stays. */
    uint64_t passed = loop_now(rig.loop) - start;
    assert_in_range(taken, BURST - 1, BURST + passed / 10 + 1);
    if (of_last_round < CROWD / 2) { /* else the rounds were so slow that the limit allowed most of it */
        const struct fake_program *refused;
        rig_until((refused = refused_of(last, WATCHED)), 5000);
        assert_non_null(strstr(refused->text, "more than 100 programs per second"));
    }
    assert_false(one->lost);
    /* Known ones do not count: the same list again and again. */
    client_register_args same = { .host = (char *)"h", .programs = { 1, running } };
    for (unsigned i = 1; i <= 5; i++) {
        assert_int_equal(link_call(a.link, CLIENT_REGISTER, &same, patience(20000), crowd_named, NULL, NULL), 0);
        rig_until(crowds == ROUNDS + i, 20000);
        assert_int_equal(admin_status().programs, 1);
    }
}

/* Strangers at every door that say nothing, or nonsense, while a program starts and ends. */
RIG_TEST(test_hostile)
{
    enum { STRANGERS = 60 };
    int fds[STRANGERS];
    static struct fake_node n1;
    rig_create(quick);
    node_open(&n1, "n1", 1, 16, 8 * GIB, CTL_SHARING_TIME_SLICE);
    client_create(&a, "vm-a", 8, GIB, 0, true, "");
    for (int i = 0; i < STRANGERS; i++) {
        const char *uri = i % 2 ? rig.node_uri : rig.client_uri;
        struct sockaddr_in name = { .sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                    .sin_port = htons((uint16_t)atoi(strrchr(uri, ':') + 1)) };
        uint8_t noise[300];
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&name, sizeof name), 0);
        for (size_t j = 0; j < sizeof noise; j++)
            noise[j] = (uint8_t)(i * 37 + (int)(j * j) % 251);
        if (i % 3)
            (void)!send(fds[i], noise, i % 3 == 1 ? sizeof noise : 3, MSG_NOSIGNAL);
    }
    uint64_t start = loop_now(rig.loop);
    struct fake_program *one = client_runs(&a, CLIENT_WAIT_YES);
    assert_true(loop_now(rig.loop) - start < 3000);
    client_end(&a, one);
    rig_until(n1.server_count == 0, 5000);
    assert_int_equal(n1.ups, 1);
    assert_int_equal(a.downs, 0);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
}

/* Many VMs ask, end and vanish at once, while the node counts for itself what it is ordered to run. */
RIG_TEST(test_storm)
{
    enum { CLIENTS = 12, ROUNDS = 25 };
    static struct fake_client clients[CLIENTS];
    static struct fake_node nodes[3];
    char name[16];
    unsigned seed = 12345;
    rig_create("virt-server-auto-deallocate = { grace-period = 0.01; };\n");
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "n%d", i);
        node_open(&nodes[i], name, 2, 16, 8 * GIB,
                  i ? CTL_SHARING_TIME_SLICE | CTL_SHARING_MPS : CTL_SHARING_EXCLUSIVE);
    }
    for (int i = 0; i < CLIENTS; i++) {
        snprintf(name, sizeof name, "vm-%d", i);
        client_create(&clients[i], name, 1 + (unsigned)i % 7 * 2, (1 + (unsigned)i % 3) * GIB,
                      i % 2 ? CTL_SHARING_ALL : CTL_SHARING_MPS, i % 4 != 3, i % 5 ? "" : "host-of-n1");
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            struct fake_client *client = &clients[i];
            seed = seed * 1103515245 + 12345;
            if (seed >> 16 & 1 && client->program_count < 60)
                client_run(client, CLIENT_WAIT_YES);
            for (int p = 0; p < client->program_count; p++) {
                seed = seed * 1103515245 + 12345;
                if (client->programs[p].key && client->programs[p].answers && (seed >> 16) % 3 == 0)
                    client_end(client, &client->programs[p]);
            }
        }
        if (round % 10 == 5) {
            node_close(&nodes[round % 3]);
            node_reopen(&nodes[round % 3]);
        }
        rig_run_ms(15);
        admin_check_books();
    }
    for (int i = 0; i < CLIENTS; i++)
        for (int p = 0; p < clients[i].program_count; p++)
            if (clients[i].programs[p].key)
                client_end(&clients[i], &clients[i].programs[p]);
    rig_until(nodes[0].server_count + nodes[1].server_count + nodes[2].server_count == 0, 10000);
    rig_until(admin_check_books() == 0, 5000);
    assert_int_equal(admin_status().programs, 0);
    int starts = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(nodes[i].overcommits, 0);
        assert_int_equal(nodes[i].bad_orders, 0);
        starts += nodes[i].starts;
    }
    assert_true(starts > 20);
}

int main(void) { return unit_run(NULL, NULL); }
