/*
 * Recovery with a scripted server (fake.h) that says, after it was lost and is there again, what a server must not say:
 * the program goes on, or gets 46. And what the journal reads of answers. Each session in a process of its own.
 *
 * shows: recovery: a new server that lives, and never says that a context has ended, makes the program get error 46
 *   after a while
 * shows: recovery: a new server that names streams or host functions that nobody has, prints something else, or
 *   reports an error that there was not, makes the program get error 46 at the most; so do answers that cannot be read
 */
#include "cpu/client/core/moves/replay_dues.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/state.h"
#include "tests/lib/unit.h"
#include "work.h"

/* ---- sessions ---- */

static core_context *begin(void)
{
    setenv("FLYT_RECOVERY", "journal", 1);
    fake_options.lives = 1;
    fake_start();
    core_context *c = on(0);
    CHECK(c);
    return c;
}

static atomic_uint functions_run;

static void count(void *unused, int status)
{
    (void)unused;
    atomic_fetch_add(&functions_run, status == 0);
}

/* Work, a loss, and more work. What the call gives that waits for the recovery. No host function holds the stream of a
   server that says nothing of its streams: it could only be waited for. */
static int lose(void)
{
    core_context *c = begin();
    uint64_t memory = allocate(64);
    uint32_t word = 0;
    const unsigned functions = !fake_options.last.no_progress;
    CHECK(fill(0, memory, 16, 7) == 0 && (!functions || core_host_function(c, 0, count, NULL, false) == 0));
    CHECK(core_stream_synchronize(c, 0) == 0 && atomic_load(&functions_run) == functions);
    CHECK(copy_out(c, 0, &word, memory, sizeof word, true) == 0 && word == 7);
    CHECK(fake_calls[FLYT_HELLO] == 1);
    fake_cut();
    int code = copy_out(c, 0, &word, memory + 60, sizeof word, true);
    CHECK(fake_calls[FLYT_HELLO] == 2);
    CHECK(code || word == 7);
    CHECK(core_take_latched() == 0 && atomic_load(&functions_run) == functions);
    return code;
}

static void body_honest(void)
{
    fake_options.print = "seven\n";
    CHECK(lose() == 0);
}

static void body_unknown_stream(void)
{
    fake_options.last.progress = true;
    CHECK(lose() == 0);
}

static void body_unknown_function(void)
{
    fake_options.last.due = true;
    CHECK(lose() == CORE_DEVICE_UNAVAILABLE);
}

/* Without numbers in its answers the replay asks how far the streams are. */
static void body_silent_streams(void)
{
    fake_options.last.no_progress = true;
    CHECK(lose() == 0 && fake_calls[FLYT_STREAM_QUERY] > 0);
}

/* An error that comes with the answer to such a question is lost to the program's calls. */
static void body_latched_at_question(void)
{
    fake_options.last.no_progress = true;
    fake_options.last.latched_at = FLYT_STREAM_QUERY;
    CHECK(lose() == CORE_DEVICE_UNAVAILABLE && fake_calls[FLYT_STREAM_QUERY] == 1);
}

static void body_latched_at_answer(void)
{
    fake_options.last.latched_at = FLYT_STREAM_SYNC;
    CHECK(lose() == CORE_DEVICE_UNAVAILABLE);
}

static void body_other_text(void)
{
    fake_options.print = "seven\n";
    fake_options.last.print = "eight\n";
    CHECK(lose() == CORE_DEVICE_UNAVAILABLE);
}

/* The program had an error of an earlier call with an answer: it comes again there, and nowhere else. */
static void body_latched_before(void)
{
    core_context *c = begin();
    uint64_t memory = allocate(64);
    uint32_t word = 0;
    CHECK(fill(0, memory, 16, 7) == 0);
    fake_latch(1);
    CHECK(core_stream_synchronize(c, 0) == 0 && core_take_latched() == 1);
    fake_options.last.latched_at = FLYT_STREAM_SYNC;
    fake_cut();
    CHECK(copy_out(c, 0, &word, memory, sizeof word, true) == 0 && word == 7);
    CHECK(core_take_latched() == 0);
}

/* A context of the program's ended before the loss. The new server never says so, though it beats. */
static void body_mute(void)
{
    core_context *c = begin(), *other;
    uint64_t memory = allocate(64);
    uint32_t word = 0;
    session_dead_seconds = 1;
    CHECK(fill(0, memory, 16, 7) == 0 && core_stream_synchronize(c, 0) == 0);
    CHECK(core_context_create(0, 0, &other) == 0 && core_context_enter(other) == 0 && core_context_destroy(other) == 0);
    CHECK(fake_calls[FLYT_CONTEXT_DESTROY] == 1);
    fake_options.last.mute_at = FLYT_CONTEXT_DESTROY;
    fake_cut();
    CHECK(copy_out(c, 0, &word, memory, sizeof word, true) == CORE_DEVICE_UNAVAILABLE);
    CHECK(fake_calls[FLYT_CONTEXT_DESTROY] == 2 && fake_calls[FLYT_HELLO] == 2);
}

ISOLATED(good_servers, body_honest, body_unknown_stream, body_silent_streams, body_latched_before)
ISOLATED(mute_servers, body_mute)
ISOLATED(bad_servers, body_unknown_function, body_latched_at_question, body_latched_at_answer, body_other_text)

/* ---- answers ---- */

enum { WORDS = 12 };

/* An answer with one stream's number and one text of five bytes, and 8 bytes behind its head. */
static const uint32_t answer[WORDS + 2] = { 1, 2, 3, /* result, latched, sticky */
                                            1, 9, 0, 5, /* one number: stream, done */
                                            1, 2, 5, 0, 0, /* one text: descriptor, length, bytes */
                                            77, 78 };

static bool reads(const uint32_t *words, size_t size, struct journal_reply *reply)
{
    uint32_t bytes[WORDS + 2];
    for (unsigned i = 0; i < WORDS + 2; i++)
        bytes[i] = htonl(words[i]);
    uint8_t *exact = malloc(size + 1); /* so that a sanitizer sees each byte too many */
    memcpy(exact, bytes, size);
    bool good = journal_reply_read(exact, size, reply);
    if (good && reply->answer.progress)
        assert_int_equal(journal_reply_progress(reply, 0).done, words[6]);
    free(exact);
    return good;
}

TEST(answers_are_read)
{
    struct journal_reply reply;
    assert_true(reads(answer, sizeof answer, &reply));
    assert_true(reply.answer.result == 1 && reply.answer.latched == 2 && reply.answer.sticky == 3);
    assert_true(reply.answer.progress == 1 && reply.text_count == 1 && reply.answer.body == 8);
}

TEST(answers_cut_off)
{
    struct journal_reply reply;
    for (size_t size = 0; size < WORDS * sizeof *answer; size++)
        assert_false(reads(answer, size, &reply));
}

TEST(answers_with_sizes_too_large)
{
    /* 2: not of all three is it too many */
    static const uint32_t values[] = { 2, FLYT_MAX_PROGRESS + 1, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff };
    struct journal_reply reply;
    static const unsigned counts[] = { 3, 7, 9 };
    for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++)
        for (unsigned v = c != 1; v < sizeof values / sizeof *values; v++) {
            uint32_t words[WORDS + 2];
            memcpy(words, answer, sizeof answer);
            words[counts[c]] = values[v];
            assert_false(reads(words, (WORDS + 1) * sizeof *words, &reply));
        }
}

/* serial, the number of events, and an event: a host function is due. */
TEST(dues_of_nobody)
{
    uint32_t bytes[] = { htonl(1), htonl(1), htonl(FLYT_EVENT_HOST_FUNCTION), htonl(0xfffffff0), 0 };
    struct dues dues = { 0 };
    assert_false(dues_take(&dues, (const uint8_t *)bytes, sizeof bytes));
    for (size_t size = 0; size < sizeof bytes; size += sizeof *bytes)
        assert_false(dues_take(&dues, (const uint8_t *)bytes, size));
    bytes[1] = htonl(0xffffffff);
    assert_false(dues_take(&dues, (const uint8_t *)bytes, sizeof bytes));
    bytes[1] = 0;
    assert_true(dues_take(&dues, (const uint8_t *)bytes, 2 * sizeof *bytes));
    assert_int_equal(dues.size, 0);
    dues_free(&dues);
}

int main(void) { return unit_run(NULL, NULL); }
