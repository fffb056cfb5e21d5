/*
 * The loop with peers that do not behave: each loses its connection, and nobody else notices.
 *
 * shows: hostile peers: silent, slow, huge, malformed, in fragments, reading nothing, calling before they have said who
  *   they are: each by itself, while others are served
 */
#include "tests/control/common_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

struct good { struct link *link; int ups, downs, answers; };

static void up(struct link *link, struct conn *conn, const ctl_hello_result *hello)
{
    (void)conn, (void)hello;
    ((struct good *)link_context(link))->ups++;
}

static void down(struct link *link, bool was_up, int error, const char *why)
{
    (void)was_up, (void)error, (void)why;
    ((struct good *)link_context(link))->downs++;
}

static void answered(void *context, int error, const char *why, void *result)
{
    (void)why, (void)result;
    assert_int_equal(error, 0);
    ((struct good *)context)->answers++;
}

/* A guest that behaves, beside the hostile one. */
static struct good good;
static void begin(void)
{
    const char *uris[2] = { NULL, NULL };
    host_start("tcp://127.0.0.1:0", NULL);
    uris[0] = loop_listener_uri(host.listener);
    memset(&good, 0, sizeof good);
    const struct link_options options = { .uris = uris, .role = CTL_ROLE_ADMIN, .name = "ann", .secret = &host.secret,
                                          .context = &good, .up = up, .down = down };
    assert_int_equal(link_open(host.loop, &options, &good.link, NULL), 0);
    host_run_until(&good.ups, 1, 5000);
}

/* It is still served, at once. */
static void check_good(void)
{
    int before = good.answers;
    uint64_t start = loop_now(host.loop);
    assert_int_equal(link_call(good.link, ADMIN_STATUS, NULL, 5000, answered, &good, NULL), 0);
    host_run_until(&good.answers, before + 1, 5000);
    assert_true(loop_now(host.loop) - start < 2000);
    assert_int_equal(good.downs, 0);
}

static void end(void)
{
    check_good();
    link_close(good.link);
    host_stop();
}

/* Sends bytes; the host must end that connection, with this error. */
static void expect_end(const void *bytes, size_t size, int error)
{
    int before = host.closed, fd = host_raw();
    assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
    host_run_until(&host.closed, before + 1, 3000);
    assert_int_equal(host.last_error, error);
    close(fd);
    check_good();
}

static size_t words(uint8_t *out, const uint32_t *in, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t word = htonl(in[i]);
        memcpy(out + 4 * i, &word, 4);
    }
    return 4 * count;
}

#define LAST 0x80000000u
#define CALL_OF(size, program, version, procedure) LAST | (size), 7, 0, 2, program, version, procedure, 0, 0, 0, 0

TEST(test_malformed)
{
    uint8_t bytes[256];
    begin();
    expect_end("GET / HTTP/1.0\r\n\r\n", 18, -EMSGSIZE);               /* a length of 1.2 GB */
    const uint32_t huge[] = { LAST | 0x7fffffff };
    expect_end(bytes, words(bytes, huge, 1), -EMSGSIZE);
    const uint32_t just_too_long[] = { LAST | (CTL_MAX_FIRST_RECORD + 4) };
    expect_end(bytes, words(bytes, just_too_long, 1), -EMSGSIZE);
    const uint32_t summed[] = { 4, 0, LAST | CTL_MAX_FIRST_RECORD };    /* too long in sum */
    expect_end(bytes, words(bytes, summed, 3), -EMSGSIZE);
    const uint32_t tiny[] = { LAST | 4, 1 };
    expect_end(bytes, words(bytes, tiny, 2), -EPROTO);
    const uint32_t empty[] = { LAST };
    expect_end(bytes, words(bytes, empty, 1), -EPROTO);
    const uint32_t neither[] = { LAST | 8, 1, 99 };
    expect_end(bytes, words(bytes, neither, 3), -EPROTO);
    const uint32_t reply_to_nothing[] = { LAST | 24, 5, 1, 0, 0, 0, 0 };
    expect_end(bytes, words(bytes, reply_to_nothing, 7), -EPROTO);
    const uint32_t other_program[] = { CALL_OF(40, 100000, 2, 1) };
    expect_end(bytes, words(bytes, other_program, 11), -EPROTO);
    const uint32_t other_version[] = { CALL_OF(40, CTL_PROGRAM, 9, 1) };
    expect_end(bytes, words(bytes, other_version, 11), -EPROTO);
    const uint32_t cut_off[] = { CALL_OF(40, CTL_PROGRAM, 1, CTL_HELLO) };  /* without arguments */
    expect_end(bytes, words(bytes, cut_off, 11), -EPROTO);
    const uint32_t no_hello[] = { CALL_OF(40, CTL_PROGRAM, 1, ADMIN_STATUS) };
    expect_end(bytes, words(bytes, no_hello, 11), -EACCES);
    const uint32_t unknown[] = { CALL_OF(40, CTL_PROGRAM, 1, 4711) };
    expect_end(bytes, words(bytes, unknown, 11), -EPROTO);
    const uint32_t gss[] = { LAST | 40, 7, 0, 2, CTL_PROGRAM, 1, CTL_HELLO, 6, 0, 0, 0 };
    expect_end(bytes, words(bytes, gss, 11), -EPROTO);
    end();
}

/* NULL is answered to anybody. */
TEST(test_null)
{
    uint8_t bytes[64];
    const uint32_t ping[] = { CALL_OF(40, CTL_PROGRAM, 1, 0) };
    begin();
    int fd = host_raw();
    assert_int_equal(send(fd, bytes, words(bytes, ping, 11), 0), 44);
    host_run_ms(100);
    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT), 28);
    close(fd);
    end();
}

/* A record in three fragments, the arguments byte by byte. */
TEST(test_fragments)
{
    uint8_t bytes[512], out[64];
    const uint32_t a[] = { 16, 7, 0, 2, CTL_PROGRAM }, b[] = { 4, 1 }, c[] = { LAST | 20, 0, 0, 0, 0, 0 };
    size_t size = words(bytes, a, 5);
    size += words(bytes + size, b, 2);
    size += words(bytes + size, c, 6);
    begin();
    int fd = host_raw(), before = host.closed;
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(send(fd, bytes + i, 1, 0), 1);
        host_run_ms(1);
    }
    host_run_ms(50);
    assert_int_equal(recv(fd, out, sizeof out, MSG_DONTWAIT), 28);
    assert_int_equal(host.closed, before);
    close(fd);
    end();
}

/* One that says nothing, one that says half of something, and one that never stops beginning: each is cut off. */
TEST(test_silent)
{
    uint8_t half[] = { 0x80, 0, 0, 40, 0, 0 };
    begin();
    int silent = host_raw(), slow = host_raw(), before = host.closed;
    assert_int_equal(send(slow, half, sizeof half, 0), (ssize_t)sizeof half);
    for (int i = 0; i < 5; i++) {
        host_run_ms(500);
        check_good();
    }
    assert_int_equal(host.closed, before);
    host_run_until(&host.closed, before + 2, CONN_HELLO_MS + 2000);
    check_good();
    close(silent);
    close(slow);
    end();
}

/* One that asks much and takes nothing: what waits for it is bounded, and it is cut off. */
TEST(test_reads_nothing)
{
    enum { CALLS = 400000 };
    static uint8_t bytes[44 * 1000];
    const uint32_t ping[] = { CALL_OF(40, CTL_PROGRAM, 1, 0) };
    begin();
    for (int i = 0; i < 1000; i++)
        words(bytes + 44 * i, ping, 11);
    int fd = host_raw(), before = host.closed, small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int i = 0; i < CALLS / 1000 && host.closed == before; i++) {
        if (send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            host_run_ms(1);
        host_run_ms(1);
    }
    host_run_until(&host.closed, before + 1, 15000);
    assert_true(host.last_error == -ENOBUFS || host.last_error == -ETIMEDOUT);
    close(fd);
    end();
}

/* Text of a peer never brings control characters into a log or a terminal; NUL ends the connection. */
TEST(test_text)
{
    char text[] = "a\x1b[31mb\nc\xff\xc3\xa4\xc2\x9b";
    /* Overrides (RLO), marks (LRM, ALM), isolates (FSI), separators of lines, BOM; a joiner may stay. */
    char bidi[] = "a\xe2\x80\xae" "b\xe2\x80\x8e" "c\xd8\x9c" "d\xe2\x81\xa8" "e\xe2\x80\xa8" "f\xef\xbb\xbf"
                  "g\xe2\x80\x8d" "h";
    protocol_text_clean(text);
    assert_string_equal(text, "a?[31mb?c?\xc3\xa4??");
    protocol_text_clean(bidi);
    assert_string_equal(bidi, "a???b???c??d???e???f???g\xe2\x80\x8dh");
    XDR xdr;
    uint8_t bytes[] = { 0, 0, 0, 3, 'a', 0, 'b', 0 };
    char *out = NULL;
    xdrmem_create(&xdr, (char *)bytes, sizeof bytes, XDR_DECODE);
    assert_false(protocol_xdr_string(&xdr, &out, 10));
    free(out);
    out = NULL;
    xdrmem_create(&xdr, (char *)bytes, sizeof bytes, XDR_DECODE);
    assert_false(protocol_xdr_string(&xdr, &out, 2));
    free(out);
}

int main(void) { return unit_run(NULL, NULL); }
