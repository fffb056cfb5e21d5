/* TLS on the loop: certificates of one CA, their names, and who is turned away. Certificates are made by openssl(1). */
#include "tests/control/common_peer.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control-managers/common/tls.h"

static char folder[64];

static void shell(const char *format, ...)
{
    char command[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(command, sizeof command, format, list);
    va_end(list);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

static void make_ca(const char *name)
{
    shell("cd %s && openssl req -x509 -newkey ed25519 -nodes -keyout %s.key -out %s.crt -days 2 -subj /CN=ca:%s "
          "2>/dev/null",
          folder, name, name, name);
}

static void make_certificate(const char *ca, const char *name, const char *common_name)
{
    shell("cd %s && openssl req -newkey ed25519 -nodes -keyout %s.key -out %s.csr -subj '/CN=%s' 2>/dev/null && "
          "openssl x509 -req -in %s.csr -CA %s.crt -CAkey %s.key -CAcreateserial -days 1 -out %s.crt 2>/dev/null && "
          "chmod 600 %s.key",
          folder, name, name, common_name, name, ca, ca, name, name);
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/flyt-tls-XXXXXX");
    assert_non_null(mkdtemp(folder));
    make_ca("ca");
    make_ca("otherca");
    make_certificate("ca", "cluster", "cluster:main");
    make_certificate("ca", "admin", "admin:ann");
    make_certificate("otherca", "thief", "admin:ann");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    shell("rm -rf %s", folder);
    return 0;
}

static int load(const char *ca, const char *name, struct tls_context **out, char *error)
{
    char paths[3][128];
    snprintf(paths[0], sizeof paths[0], "%s/%s.crt", folder, ca);
    snprintf(paths[1], sizeof paths[1], "%s/%s.crt", folder, name);
    snprintf(paths[2], sizeof paths[2], "%s/%s.key", folder, name);
    const struct tls_files files = { paths[0], paths[1], paths[2] };
    *out = NULL;
    return tls_context_create(&files, out, error);
}

TEST(test_files)
{
    struct tls_context *context;
    char error[CONTROL_ERROR_SIZE];
    assert_int_equal(load("ca", "cluster", &context, error), 0);
    tls_context_release(context);
    assert_int_equal(load("no", "such", &context, error), -ENOENT);
    assert_int_equal(load("ca", "such", &context, error), -EINVAL);
    shell("chmod 644 %s/admin.key", folder);
    assert_int_equal(load("ca", "admin", &context, error), -EPERM);
    shell("chmod 600 %s/admin.key; cp %s/admin.crt %s/mixed.crt; cp %s/cluster.key %s/mixed.key", folder, folder,
          folder, folder, folder);
    assert_int_equal(load("ca", "mixed", &context, error), -EINVAL);
}

struct guest { struct link *link; bool tls; int ups, downs, error, answers; char why[CONTROL_ERROR_SIZE]; };

static void up(struct link *link, struct conn *conn, const ctl_hello_result *hello)
{
    (void)hello;
    struct guest *guest = link_context(link);
    assert_int_equal(conn_encrypted(conn), guest->tls);
    if (guest->tls)
        assert_string_equal(conn_peer_certificate(conn), "cluster:main");
    guest->ups++;
}

static void down(struct link *link, bool was_up, int error, const char *why)
{
    struct guest *guest = link_context(link);
    (void)was_up;
    guest->downs++;
    guest->error = error;
    snprintf(guest->why, sizeof guest->why, "%s", why);
}

static void open_named(struct guest *guest, const char *name, struct tls_context *tls, const char *tls_name)
{
    const char *uris[] = { loop_listener_uri(host.listener), NULL };
    *guest = (struct guest){ .tls = tls != NULL };
    const struct link_options options = { .uris = uris,
                                          .role = CTL_ROLE_ADMIN,
                                          .name = name,
                                          .secret = &host.secret,
                                          .tls = tls,
                                          .tls_name = tls_name,
                                          .retry_min_ms = 20,
                                          .retry_max_ms = 100,
                                          .context = guest,
                                          .up = up,
                                          .down = down };
    assert_int_equal(link_open(host.loop, &options, &guest->link, NULL), 0);
}

static void open_guest(struct guest *guest, struct tls_context *tls, const char *tls_name)
{
    open_named(guest, "ann", tls, tls_name);
}

static void answered(void *context, int error, const char *why, void *result)
{
    (void)why;
    assert_int_equal(error, 0);
    assert_int_equal(((admin_status_result *)result)->nodes, 42);
    ((struct guest *)context)->answers++;
}

TEST(test_connections)
{
    struct tls_context *server = NULL, *admin = NULL, *thief = NULL;
    struct guest good, plain, stolen, careful;
    char error[CONTROL_ERROR_SIZE];
    if (load("ca", "cluster", &server, error) || load("ca", "admin", &admin, error) ||
        load("otherca", "thief", &thief, error))
        fail_msg("%s", error);
    host_start("tcp://127.0.0.1:0", server);
    open_guest(&good, admin, "cluster:main");
    host_run_until(&good.ups, 1, 5000);
    assert_string_equal(conn_peer_certificate(host.last), "admin:ann");
    for (int i = 0; i < 200; i++)
        assert_int_equal(link_call(good.link, ADMIN_STATUS, NULL, patience(5000), answered, &good, NULL), 0);
    host_run_until(&good.answers, 200, 5000);
    open_guest(&plain, NULL, NULL);                     /* no TLS: refused, and not for ever in doubt */
    host_run_until(&plain.downs, 1, 5000);
    assert_int_equal(plain.ups, 0);
    assert_int_equal(plain.error, -EPROTOTYPE);
    assert_non_null(strstr(plain.why, "the peer wants TLS"));
    open_guest(&stolen, thief, NULL);                   /* a certificate of another CA */
    host_run_until(&stolen.downs, 1, 5000);
    assert_int_equal(stolen.ups, 0);
    assert_int_equal(stolen.error, -EKEYREJECTED);
    open_guest(&careful, admin, "cluster:other");       /* we wanted to speak with somebody else */
    host_run_until(&careful.downs, 1, 5000);
    assert_int_equal(careful.ups, 0);
    assert_non_null(strstr(careful.why, "cluster:main"));
    assert_int_equal(careful.error, -EKEYREJECTED);
    assert_int_equal(good.downs, 0);
    link_close(plain.link);
    link_close(stolen.link);
    link_close(careful.link);
    host_run_ms(100);
    /* Bytes that are no TLS. */
    int fd = host_raw(), closed = host.closed;
    assert_int_equal(send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    char byte;
    host_run_ms(200);
    (void)!recv(fd, &byte, 1, MSG_DONTWAIT);            /* an alert, or the end */
    assert_int_equal(host.closed, closed);              /* it never was a connection to the service */
    close(fd);
    link_close(good.link);
    host_stop();
    /* TLS to a listener without certificates. */
    host_start("tcp://127.0.0.1:0", NULL);
    open_guest(&careful, admin, NULL);
    host_run_until(&careful.downs, 1, 5000);
    assert_int_equal(careful.error, -EPROTOTYPE);
    assert_true(link_error_lasts(careful.error));
    link_close(careful.link);
    host_stop();
    tls_context_release(server);
    tls_context_release(admin);
    tls_context_release(thief);
}

/* A listener that takes both: each peer is served as it comes, and bytes that are neither get nowhere. */
TEST(test_both)
{
    struct tls_context *server = NULL, *admin = NULL, *thief = NULL;
    struct guest good, plain, stolen;
    char error[CONTROL_ERROR_SIZE], byte;
    if (load("ca", "cluster", &server, error) || load("ca", "admin", &admin, error) ||
        load("otherca", "thief", &thief, error))
        fail_msg("%s", error);
    host_start_both("tcp://127.0.0.1:0", server);
    open_guest(&good, admin, "cluster:main");
    host_run_until(&good.ups, 1, 5000);
    assert_string_equal(conn_peer_certificate(host.last), "admin:ann");
    assert_true(conn_encrypted(host.last));
    open_guest(&plain, NULL, NULL);
    host_run_until(&plain.ups, 1, 5000);
    assert_false(conn_encrypted(host.last));
    assert_null(conn_peer_certificate(host.last));
    for (int i = 0; i < 200; i++) {
        assert_int_equal(link_call(good.link, ADMIN_STATUS, NULL, patience(5000), answered, &good, NULL), 0);
        assert_int_equal(link_call(plain.link, ADMIN_STATUS, NULL, patience(5000), answered, &plain, NULL), 0);
    }
    host_run_until(&good.answers, 200, 5000);
    host_run_until(&plain.answers, 200, 5000);
    open_guest(&stolen, thief, NULL);                   /* a certificate of another CA is no better than before */
    host_run_until(&stolen.downs, 1, 5000);
    assert_int_equal(stolen.ups, 0);
    link_close(stolen.link);
    int silent = host_raw(), fd = host_raw(), opened = host.opened;
    static const char garbage[] = "\x16garbage that is no handshake";
    assert_int_equal(send(fd, garbage, sizeof garbage, MSG_NOSIGNAL), sizeof garbage);
    host_run_ms(200);
    (void)!recv(fd, &byte, 1, MSG_DONTWAIT);
    assert_int_equal(host.opened, opened);              /* neither it nor the silent one got to the service */
    close(fd);
    close(silent);
    host_run_ms(100);
    assert_int_equal(good.downs + plain.downs, 0);
    link_close(good.link);
    link_close(plain.link);
    host_stop();
    tls_context_release(server);
    tls_context_release(admin);
    tls_context_release(thief);
}

/* The reason of a refusal and the end of the connection often come in one piece: the reason counts. */
TEST(test_refused)
{
    struct tls_context *server = NULL, *admin = NULL;
    struct guest unwanted, wrong;
    char error[CONTROL_ERROR_SIZE];
    if (load("ca", "cluster", &server, error) || load("ca", "admin", &admin, error))
        fail_msg("%s", error);
    host_start("tcp://127.0.0.1:0", server);
    open_named(&unwanted, "unwanted", admin, NULL);     /* by the answer to CTL_HELLO */
    host_run_until(&unwanted.downs, 1, 5000);
    assert_non_null(strstr(unwanted.why, "unwanted is not wanted"));
    assert_int_equal(unwanted.error, -EACCES);
    link_close(unwanted.link);
    memcpy(host.secret.bytes, "wrongfish", host.secret.size);
    open_guest(&wrong, admin, NULL);                    /* by the answer to CTL_AUTH */
    memcpy(host.secret.bytes, "swordfish", host.secret.size);
    host_run_until(&wrong.downs, 1, 5000);
    assert_non_null(strstr(wrong.why, "with this secret"));
    assert_int_equal(wrong.error, -EACCES);
    link_close(wrong.link);
    host_stop();
    tls_context_release(server);
    tls_context_release(admin);
}

int main(void)
{
    if (system("openssl version >/dev/null 2>&1") != 0)
        return 77;
    return unit_run(setup, teardown);
}
