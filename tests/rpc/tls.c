/*
 * tls.c: who is trusted over TLS and who is not, with what both sides are told; peers that break off, talk garbage or
 * change bytes on the way.
 *
 * shows: TLS between programs and GPU servers: fingerprint or authority, wrong name, expired, changed on the way: each
  *   refused, and why
 */
#include "tests/rpc/certificates.h"
#include "tests/rpc/service.h"

#include "cpu/common/clock.h"
#include "cpu/rpc/transport/channel.h"
#include "cpu/rpc/tls/channel_tls.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/unit.h"

enum { PATIENCE_MS = 20000 };

static struct authority ours, theirs;

/* ---- two sides ---- */

struct side {
    int fd;
    const struct rpc_tls_identity *identity;
    int timeout_ms;
    int status;
    char error[RPC_ERROR_SIZE];
    rpc_channel *channel;
};

static void *accepting(void *context)
{
    struct side *side = context;
    side->status = rpc_channel_tls_accept(side->fd, side->identity, side->timeout_ms, &side->channel, side->error);
    return NULL;
}

static void sockets(int fds[2]) { assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0); }

struct met {
    int client, server;
    char client_error[RPC_ERROR_SIZE], server_error[RPC_ERROR_SIZE];
    rpc_channel *channels[2];
};

static void meet(const char *uri, const struct rpc_tls_files *files, const struct rpc_tls_identity *identity,
                 struct met *met)
{
    int fds[2];
    pthread_t thread;
    struct rpc_address address;
    memset(met, 0, sizeof *met);
    assert_int_equal(rpc_address_parse(uri, &address, met->client_error), 0);
    sockets(fds);
    struct side side = { .fd = fds[1], .identity = identity, .timeout_ms = PATIENCE_MS };
    assert_int_equal(pthread_create(&thread, NULL, accepting, &side), 0);
    met->client = rpc_channel_tls_connect(fds[0], &address, files, clock_now() + PATIENCE_MS * CLOCK_NS_PER_MS,
                                          &met->channels[0], met->client_error);
    pthread_join(thread, NULL);
    met->server = side.status;
    memcpy(met->server_error, side.error, sizeof side.error);
    met->channels[1] = side.channel;
}

static void part(struct met *met)
{
    for (int i = 0; i < 2; i++)
        if (met->channels[i])
            rpc_channel_destroy(met->channels[i]);
}

/* A byte there and back, or what receiving says. Behind it comes an empty piece without an address, as a lane ends. */
static ssize_t exchange(struct met *met)
{
    char byte = 'x', back = 0;
    struct iovec there[2] = { { &byte, 1 }, { NULL, 0 } }, here = { &back, 1 };
    ssize_t got = rpc_channel_send(met->channels[0], there, 2);
    for (int i = 0; i < 2 && got > 0; i++) {
        rpc_channel *to = met->channels[1 - i];
        if (!to || rpc_channel_poll(to, POLLIN, 5000, false) != POLLIN)
            return -ETIMEDOUT;
        got = rpc_channel_receive_into(to, &here, 1);
        if (got == 1 && i == 0)
            got = rpc_channel_send(to, there, 2);
    }
    return got;
}

/* uri: address of the client; wanted NULL: they get on, else what the client is told. */
static void expect(const char *uri, const char *ca, const struct rpc_tls_identity *identity, int status,
                   const char *wanted)
{
    struct met met;
    const struct rpc_tls_files files = { .ca = ca };
    meet(uri, &files, identity, &met);
    if (met.client != status || (wanted && !strstr(met.client_error, wanted)))
        fail_msg("%s: the client got %d (%s), the server %d (%s)", uri, met.client, met.client_error, met.server,
                 met.server_error);
    if (status == 0) {
        assert_int_equal(met.server, 0);
        assert_int_equal(exchange(&met), 1);
        assert_string_equal(rpc_channel_transport(met.channels[0]), "tls");
    } else {
        assert_int_equal(met.server, -EPROTO);
        assert_non_null(strstr(met.server_error, "does not trust this server's certificate"));
    }
    part(&met);
}

/* ---- tests ---- */

TEST(fingerprint)
{
    struct rpc_tls_identity one, two;
    char right[160], wrong[160];
    assert_int_equal(rpc_tls_identity_make(&one, NULL), 0);
    assert_int_equal(rpc_tls_identity_make(&two, NULL), 0);
    assert_string_not_equal(one.fingerprint, two.fingerprint);
    assert_string_not_equal(one.key, two.key);
    snprintf(right, sizeof right, "tls://gpu1:1?sha256=%s", one.fingerprint);
    snprintf(wrong, sizeof wrong, "tls://gpu1:1?sha256=%s", two.fingerprint);
    expect(right, NULL, &one, 0, NULL);
    expect(wrong, NULL, &one, -EKEYREJECTED, "not the one whose fingerprint the address gives");
    expect(right, NULL, &two, -EKEYREJECTED, "not the one whose fingerprint the address gives");
    rpc_tls_identity_wipe(&one);
    rpc_tls_identity_wipe(&two);
}

TEST(authority)
{
    struct shown shown;
    struct rpc_tls_identity identity;
    issue(&shown, "node", "node:gpu1", "DNS:gpu1.example,IP:10.1.2.3,IP:::5", -DAY, DAY, &ours);
    load(&shown, NULL, &identity);
    expect("tls://gpu1:1", ours.path, &identity, 0, NULL); /* node:HOST */
    expect("tls://gpu1.example:1", ours.path, &identity, 0, NULL);
    expect("tls://10.1.2.3:1", ours.path, &identity, 0, NULL);
    expect("tls://[::5]:1", ours.path, &identity, 0, NULL);
    expect("tls://elsewhere:1?name=node:gpu1", ours.path, &identity, 0, NULL);
    expect("tls://elsewhere:1?name=gpu1.example", ours.path, &identity, 0, NULL);
    expect("tls://gpu2:1", ours.path, &identity, -EKEYREJECTED, "its certificate is for node:gpu1, not for gpu2");
    expect("tls://10.1.2.4:1", ours.path, &identity, -EKEYREJECTED,
           "its certificate is for node:gpu1, not for 10.1.2.4");
    expect("tls://gpu1:1?name=node:gpu2", ours.path, &identity, -EKEYREJECTED, "not for node:gpu2");
    expect("tls://gpu1:1", theirs.path, &identity, -EKEYREJECTED, "was not made by the authority in FLYT_TLS_CA");
    rpc_tls_identity_wipe(&identity);
}

/* The certificate of a client or of nobody in particular does not make a server. */
TEST(others_certificates)
{
    struct shown shown;
    struct rpc_tls_identity identity;
    issue(&shown, "client", "client:gpu1", NULL, -DAY, DAY, &ours);
    load(&shown, NULL, &identity);
    expect("tls://gpu1:1", ours.path, &identity, -EKEYREJECTED, "its certificate is for client:gpu1, not for gpu1");
    rpc_tls_identity_wipe(&identity);
    issue(&shown, "bare", "gpu1", NULL, -DAY, DAY, &ours);
    load(&shown, NULL, &identity);
    expect("tls://gpu1:1", ours.path, &identity, -EKEYREJECTED, "its certificate is for gpu1, not for gpu1");
    rpc_tls_identity_wipe(&identity);
}

TEST(dates)
{
    struct shown shown;
    struct rpc_tls_identity identity;
    struct rpc_tls_files files;
    char error[RPC_ERROR_SIZE] = "";
    issue(&shown, "old", "node:gpu1", NULL, -2 * DAY, -DAY, &ours);
    load(&shown, NULL, &identity);
    expect("tls://gpu1:1", ours.path, &identity, -EKEYEXPIRED, "has expired: make a new one");
    rpc_tls_identity_wipe(&identity);
    files = (struct rpc_tls_files){ .certificate = shown.certificate, .key = shown.key };
    /* a server does not begin with it */
    assert_int_equal(rpc_tls_identity_read(&files, &identity, error), -EKEYEXPIRED);
    assert_non_null(strstr(error, "has expired"));
    issue(&shown, "young", "node:gpu1", NULL, DAY, 2 * DAY, &ours);
    load(&shown, NULL, &identity);
    expect("tls://gpu1:1", ours.path, &identity, -EKEYEXPIRED, "not valid yet: are the clocks right?");
    rpc_tls_identity_wipe(&identity);
    assert_int_equal(rpc_tls_identity_read(&files, &identity, error), -EKEYEXPIRED);
    assert_non_null(strstr(error, "not valid yet"));
}

/* In TLS 1.3 a client learns only with the first bytes it reads that its certificate was wanted, or not liked. */
TEST(client_certificates)
{
    struct shown node, client, stranger;
    struct rpc_tls_identity identity;
    struct met met;
    issue(&node, "node", "node:gpu1", NULL, -DAY, DAY, &ours);
    issue(&client, "vm", "client:vm1", NULL, -DAY, DAY, &ours);
    issue(&stranger, "stranger", "client:vm1", NULL, -DAY, DAY, &theirs);
    load(&node, ours.path, &identity);
    const struct rpc_tls_files with = { ours.path, client.certificate, client.key }, without = { .ca = ours.path },
                               wrong = { ours.path, stranger.certificate, stranger.key };
    meet("tls://gpu1:1", &with, &identity, &met);
    assert_int_equal(met.server, 0);
    assert_int_equal(exchange(&met), 1);
    part(&met);
    const struct {
        const struct rpc_tls_files *files;
        const char *said;
    } refused[] = { { &without, "it shows no certificate, and --tls-ca wants one" },
                    { &wrong, "its certificate is not accepted" } };
    for (int i = 0; i < 2; i++) {
        struct iovec here = { &(char){ 0 }, 1 };
        meet("tls://gpu1:1", refused[i].files, &identity, &met);
        assert_int_equal(met.server, -EPROTO);
        assert_non_null(strstr(met.server_error, refused[i].said));
        assert_int_equal(met.client, 0);
        assert_int_equal(rpc_channel_poll(met.channels[0], POLLIN, 5000, false), POLLIN);
        assert_int_equal(rpc_channel_receive_into(met.channels[0], &here, 1), -EKEYREJECTED);
        part(&met);
    }
    rpc_tls_identity_wipe(&identity);
}

TEST(files_of_a_server)
{
    struct shown one, two;
    struct rpc_tls_identity identity, other;
    char error[RPC_ERROR_SIZE] = "";
    size_t size;
    issue(&one, "one", "node:one", NULL, -DAY, DAY, &ours);
    issue(&two, "two", "node:two", NULL, -DAY, DAY, &ours);
    struct rpc_tls_files files = { ours.path, one.certificate, one.key };
    assert_int_equal(rpc_tls_identity_read(&files, &identity, error), 0);
    char *packed = rpc_tls_identity_pack(&identity, &size);
    assert_int_equal(rpc_tls_identity_unpack(packed, size, &other), 0);
    assert_string_equal(other.certificate, identity.certificate);
    assert_string_equal(other.key, identity.key);
    assert_string_equal(other.ca, identity.ca);
    rpc_tls_identity_wipe(&other);
    for (size_t less = 0; less < size; less++)
        assert_int_equal(rpc_tls_identity_unpack(packed, less, &other), -EINVAL);
    free(packed);
    rpc_tls_identity_wipe(&identity);

    files.key = two.key;
    assert_true(rpc_tls_identity_read(&files, &identity, error) < 0);
    assert_non_null(strstr(error, "key"));
    files.key = one.certificate;
    assert_true(rpc_tls_identity_read(&files, &identity, error) < 0);
    files = (struct rpc_tls_files){ ours.path, one.key, one.key };
    assert_true(rpc_tls_identity_read(&files, &identity, error) < 0);
    assert_non_null(strstr(error, "no certificate in it"));
    files = (struct rpc_tls_files){ one.key, one.certificate, one.key };
    assert_true(rpc_tls_identity_read(&files, &identity, error) < 0);
    assert_non_null(strstr(error, "no certificate of an authority"));
    files = (struct rpc_tls_files){ NULL, one.certificate, one.key };
    chmod(one.key, 0644);
    assert_true(rpc_tls_identity_read(&files, &identity, error) < 0);
    assert_non_null(strstr(error, "chmod 600"));
    unlink(one.key);
    assert_true(rpc_tls_identity_read(&files, &identity, error) < 0);
    assert_non_null(strstr(error, "No such file"));
}

TEST(addresses)
{
    static const char *const wrong[] = {
        "tls://gpu1",
        "tls://gpu1:1?",
        "tls://gpu1:1?sha256=",
        "tls://gpu1:1?sha256=12",
        "tls://gpu1:1?name=",
        "tls://gpu1:1?name=a/b",
        "tls://gpu1:1?other=1",
        "tls://gpu1:1?name=a&",
        "tcp://gpu1:1?name=a",
        "tls://gpu1:70000",
        "tls://g:1?sha256=g000000000000000000000000000000000000000000000000000000000000000",
        "tls://g:1?sha256=00000000000000000000000000000000000000000000000000000000000000000",
    };
    struct rpc_address address;
    rpc_channel *channel;
    rpc_listener *listener;
    char error[RPC_ERROR_SIZE];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(rpc_address_parse(wrong[i], &address, NULL), -EINVAL);
    assert_int_equal(rpc_address_parse("tls://[::1]:4711?name=node:a-b.c_d&sha256="
                                       "ABCDEF0000000000000000000000000000000000000000000000000000000000",
                                       &address, NULL),
                     0);
    assert_string_equal(address.host, "::1");
    assert_string_equal(address.service, "4711");
    assert_string_equal(address.name, "node:a-b.c_d");
    assert_int_equal(strncmp(address.pin, "abcdef00", 8), 0);
    unsetenv("FLYT_TLS_CA");
    /* nobody is asked */
    assert_int_equal(rpc_channel_connect("tls://127.0.0.1:1", 1000, &channel, error), -EINVAL);
    assert_non_null(strstr(error, "FLYT_TLS_CA=FILE"));
    assert_int_equal(rpc_listener_open("tls://127.0.0.1:0?name=a", &listener, error), -EINVAL);
}

/* What comes instead of a handshake, or not at all. */
TEST(hostile)
{
    struct rpc_tls_identity identity;
    pthread_t thread;
    assert_int_equal(rpc_tls_identity_make(&identity, NULL), 0);
    uint8_t call[44] = { 0x80, 0, 0, 40 }, hello[64] = { 0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3 }, noise[64],
            huge[64] = { 0x16, 3, 1, 0xff, 0xff };
    memset(noise, 0x5a, sizeof noise);
    const struct {
        const uint8_t *bytes;
        size_t size;
        bool close;
        const char *said;
    } tries[] = {
        { call, sizeof call, false, "does not speak TLS" },
        { noise, sizeof noise, false, "does not speak TLS" },
        { huge, sizeof huge, false, "does not speak TLS" },
        { hello, sizeof hello, false, "did not finish the TLS handshake in time" },
        { hello, sizeof hello, true, "ended the connection during the TLS handshake" },
        { hello, 0, true, "ended the connection during the TLS handshake" },
        { hello, 0, false, "did not finish the TLS handshake in time" },
    };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        int fds[2];
        sockets(fds);
        struct side side = { .fd = fds[1], .identity = &identity, .timeout_ms = 300 };
        assert_int_equal(send(fds[0], tries[i].bytes, tries[i].size, 0), tries[i].size);
        if (tries[i].close)
            close(fds[0]);
        uint64_t began = clock_now();
        assert_int_equal(pthread_create(&thread, NULL, accepting, &side), 0);
        pthread_join(thread, NULL);
        assert_true(side.status == -EPROTO || side.status == -ETIMEDOUT);
        assert_true(clock_now() - began < 10 * CLOCK_NS_PER_SECOND);
        if (!strstr(side.error, tries[i].said))
            fail_msg("try %zu: '%s' says nothing of '%s'", i, side.error, tries[i].said);
        if (!tries[i].close)
            close(fds[0]);
    }
    rpc_tls_identity_wipe(&identity);
}

/* The same for a client: nothing, noise, an end. */
TEST(hostile_servers)
{
    static const uint8_t reply[28] = { 0x80, 0, 0, 24 };
    const struct {
        size_t size;
        bool close;
        const char *said;
    } tries[] = { { sizeof reply, false, "does not speak TLS" },
                  { 0, true, "ended the connection during the TLS handshake" },
                  { 0, false, "did not answer the TLS handshake in time" } };
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        int fds[2];
        struct rpc_address address;
        struct rpc_tls_files files = { .ca = ours.path };
        rpc_channel *channel;
        char error[RPC_ERROR_SIZE] = "";
        sockets(fds);
        rpc_address_parse("tls://gpu1:1", &address, NULL);
        assert_int_equal(send(fds[1], reply, tries[i].size, 0), tries[i].size);
        if (tries[i].close)
            close(fds[1]);
        assert_true(rpc_channel_tls_connect(fds[0], &address, &files, clock_now() + 300 * CLOCK_NS_PER_MS, &channel,
                                            error) < 0);
        if (!strstr(error, tries[i].said))
            fail_msg("try %zu: '%s' says nothing of '%s'", i, error, tries[i].said);
        if (!tries[i].close)
            close(fds[1]);
    }
}

/* Who sits between and changes a bit, or cuts: not a byte of it is taken. */
struct between {
    int from, to;
    size_t change;
};

static void *between(void *context)
{
    struct between *b = context;
    uint8_t bytes[4096];
    ssize_t got;
    size_t passed = 0;
    while ((got = recv(b->from, bytes, sizeof bytes, 0)) > 0) {
        if (b->change >= passed && b->change < passed + (size_t)got)
            bytes[b->change - passed] ^= 1;
        passed += (size_t)got;
        if (send(b->to, bytes, (size_t)got, MSG_NOSIGNAL) != got)
            break;
    }
    shutdown(b->to, SHUT_RDWR);
    return NULL;
}

TEST(changed_on_the_way)
{
    struct rpc_tls_identity identity;
    char uri[160], error[RPC_ERROR_SIZE];
    unsigned after = 0;
    assert_int_equal(rpc_tls_identity_make(&identity, NULL), 0);
    snprintf(uri, sizeof uri, "tls://gpu1:1?sha256=%s", identity.fingerprint);
    for (size_t change = 40; change < 2400; change += 97) {
        int client[2], server[2];
        struct rpc_address address;
        struct rpc_tls_files files = { 0 };
        rpc_channel *channel = NULL;
        pthread_t threads[3];
        sockets(client);
        sockets(server);
        struct between there = { client[1], server[1], change }, back = { server[1], client[1], SIZE_MAX };
        struct side side = { .fd = server[0], .identity = &identity, .timeout_ms = PATIENCE_MS };
        rpc_address_parse(uri, &address, NULL);
        pthread_create(&threads[0], NULL, accepting, &side);
        pthread_create(&threads[1], NULL, between, &there);
        pthread_create(&threads[2], NULL, between, &back);
        int status = rpc_channel_tls_connect(client[0], &address, &files, clock_now() + PATIENCE_MS * CLOCK_NS_PER_MS,
                                             &channel, error);
        static uint8_t sent[3000], got[3000];
        struct iovec out = { sent, sizeof sent };
        test_pattern(change, sent, sizeof sent);
        if (status == 0)
            assert_int_equal(rpc_channel_send(channel, &out, 1), sizeof sent);
        pthread_join(threads[0], NULL);
        if (side.channel) {
            size_t taken = 0;
            ssize_t n = -EAGAIN;
            while (taken < sizeof got) {
                struct iovec in = { got + taken, sizeof got - taken };
                n = rpc_channel_receive_into(side.channel, &in, 1);
                if (n > 0)
                    taken += (size_t)n;
                else if (n != -EAGAIN || rpc_channel_poll(side.channel, POLLIN, 5000, false) <= 0)
                    break;
            }
            assert_true(taken < sizeof got);
            assert_int_equal(n, -EPROTO);
            assert_memory_equal(sent, got, taken);
            after++;
            rpc_channel_destroy(side.channel);
        }
        if (channel)
            rpc_channel_destroy(channel);
        for (int i = 0; i < 2; i++) {
            shutdown(client[1], SHUT_RDWR);
            shutdown(server[1], SHUT_RDWR);
            pthread_join(threads[1 + i], NULL);
        }
        close(client[1]);
        close(server[1]);
    }
    assert_true(after > 5);
    rpc_tls_identity_wipe(&identity);
}

/* The peer's bytes end without a farewell: that is an end, as of any connection; and a farewell is none of the
 * bytes. */
TEST(ends)
{
    rpc_channel *channels[2];
    char byte = 0;
    struct iovec one = { &byte, 1 };
    for (int i = 0; i < 2; i++) {
        test_channels("tls", channels);
        assert_int_equal(rpc_channel_send(channels[0], &one, 1), 1);
        if (i == 0)
            rpc_channel_shutdown(channels[0]);
        rpc_channel_destroy(channels[0]);
        assert_int_equal(rpc_channel_poll(channels[1], POLLIN, 5000, false), POLLIN);
        assert_int_equal(rpc_channel_receive_into(channels[1], &one, 1), 1);
        assert_int_equal(rpc_channel_poll(channels[1], POLLIN, 5000, false), POLLIN);
        assert_int_equal(rpc_channel_receive_into(channels[1], &one, 1), 0);
        assert_int_equal(rpc_channel_receive_into(channels[1], &one, 1), 0);
        rpc_channel_destroy(channels[1]);
    }
}

/* The child of a fork gives the channel up in silence: what the parent sends next still fits. */
TEST(abandoned)
{
    struct met met = { .channels = { NULL, NULL } };
    test_channels("tls", met.channels);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        rpc_channel_abandon(met.channels[0]);
        _exit(0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(exchange(&met), 1);
    part(&met);
}

static int begin(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    authority_make(&ours, "ours");
    authority_make(&theirs, "theirs");
    return 0;
}

static int end(void **state)
{
    (void)state;
    char command[64];
    authority_end(&ours);
    authority_end(&theirs);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void) { return unit_run(begin, end); }
