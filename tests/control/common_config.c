/* Configurations: every mistake is found, with its line; values arrive. */
#include <unistd.h>

#include "control-managers/common/config.h"
#include "control-managers/common/protocol.h"
#include "tests/lib/unit.h"

static const char *const colours[] = { "red", "green", NULL };
struct values {
    char *name, *path, *uri, *secret, *text;
    int64_t count, port;
    double seconds, share;
    uint64_t size;
    bool on;
    int colour;
    unsigned sharing;
    struct config_strings list;
};
#define AT(member) offsetof(struct values, member)
static const struct config_key keys[] = {
    { "a.name", CONFIG_NAME, AT(name), "x", .help = "h" },
    { "a.path", CONFIG_PATH, AT(path), "", .help = "h" },
    { "a.uri", CONFIG_URI, AT(uri), "", .help = "h" },
    { "a.secret", CONFIG_SECRET, AT(secret), "", .help = "h" },
    { "a.text", CONFIG_STRING, AT(text), "initial", .reload = true, .help = "h" },
    { "b.count", CONFIG_INT, AT(count), "5", 1, 10, .help = "h" },
    { "b.port", CONFIG_PORT, AT(port), "12401", .help = "h" },
    { "b.grace-period", CONFIG_SECONDS, AT(seconds), "1.5", 0, 60, .help = "h" },
    { "b.share", CONFIG_NUMBER, AT(share), "0.5", 0, 1, .help = "h" },
    { "b.size", CONFIG_SIZE, AT(size), "1M", 1, 1e12, .help = "h" },
    { "b.on", CONFIG_BOOL, AT(on), "true", .help = "h" },
    { "b.colour", CONFIG_CHOICE, AT(colour), "red", .choices = colours, .help = "h" },
    { "b.sharing", CONFIG_SHARING, AT(sharing), "mps", .help = "h" },
    { "b.list", CONFIG_STRINGS, AT(list), "", .help = "h" },
};

static bool check(const void *object, struct config *config)
{
    const struct values *values = object;
    if (values->count != 7)
        return true;
    config_complain(config, "b.count", "seven is not liked");
    return false;
}
static const struct config_schema schema = { "test-daemon", keys, sizeof keys / sizeof keys[0], sizeof(struct values),
                                             check, NULL };

static char path[64];
static struct config *load(const char *text, char **problems)
{
    snprintf(path, sizeof path, "/tmp/flyt-config-%d", (int)getpid());
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    struct config *config = config_load(&schema, path, problems);
    unlink(path);
    return config;
}

TEST(test_initial)
{
    char *problems;
    struct config *config = config_load(&schema, NULL, &problems);
    assert_null(problems);
    const struct values *values = config_values(config);
    assert_string_equal(values->name, "x");
    assert_string_equal(values->text, "initial");
    assert_int_equal(values->count, 5);
    assert_int_equal(values->size, 1 << 20);
    assert_true(values->on);
    assert_int_equal(values->sharing, CTL_SHARING_MPS);
    config_free(config);
}

TEST(test_values)
{
    char *problems;
    struct config *config =
        load("a = { name = \"n-1\"; path = \"/x\"; uri = \"tcp://h:1\"; secret = \"env:X\"; text = \"t\"; };\n"
             "b = {\n count = 10;\n port = 0; grace-period = 3; size = \"2G\"; on = false; colour = \"green\";\n"
             " sharing = (\"mps\", \"exclusive\"); list = [\"p\", \"q\"]; };\n",
             &problems);
    if (problems)
        fail_msg("%s", problems);
    const struct values *values = config_values(config);
    assert_string_equal(values->name, "n-1");
    assert_int_equal(values->count, 10);
    assert_true(values->seconds > 2.9 && values->seconds < 3.1);
    assert_int_equal(values->size, UINT64_C(2) << 30);
    assert_false(values->on);
    assert_int_equal(values->colour, 1);
    assert_int_equal(values->sharing, CTL_SHARING_MPS | CTL_SHARING_EXCLUSIVE);
    assert_int_equal(values->list.count, 2);
    assert_string_equal(values->list.items[1], "q");
    assert_non_null(strstr(config_where(config, "b.count"), ":3"));
    config_free(config);
}

TEST(test_mistakes)
{
    /* text, line, what the complaint says */
    static const struct { const char *text; int line; const char *says; } mistakes[] = {
        { "a = { nam = \"x\"; };", 1, "is a.name meant" },
        { "\n\nzebra = 1;", 3, "does not know the key zebra" },
        { "a = 5;", 1, "is a group" },
        { "b = {\n count = \"5\"; };", 2, "a whole number" },
        { "b = { count = 11; };", 1, "from 1 to 10" },
        { "b = { count = 0; };", 1, "from 1 to 10" },
        { "b = { count = 7; };", 1, "seven" },
        { "b = { count = 1.5; };", 1, "wrong type" },
        { "b = { port = 65536; };", 1, "0 to 65535" },
        { "b = { port = -1; };", 1, "0 to 65535" },
        { "b = { grace-period = \"x\"; };", 1, "wrong type" },
        { "b = { grace-period = 61.0; };", 1, "from 0 to 60" },
        { "b = { size = \"2X\"; };", 1, "a size" },
        { "b = { size = 0; };", 1, "from 1" },
        { "b = { on = 1; };", 1, "true or false" },
        { "b = { colour = \"blue\"; };", 1, "red, green" },
        { "b = { sharing = \"mps,foo\"; };", 1, "kinds of sharing" },
        { "b = { sharing = (1); };", 1, "list of something else" },
        { "b = { list = 5; };", 1, "list of strings" },
        { "a = { path = \"relative\"; };", 1, "absolute" },
        { "a = { uri = \"http://x\"; };", 1, "tcp://host:port" },
        { "a = { secret = \"hunter2\"; };", 1, "file:/path" },
        { "a = { name = \"-x\"; };", 1, "a name" },
        { "a = { name = \"x\"; name = \"y\"; };", 1, "" },      /* twice */
        { "\na = { name = ; };", 2, "syntax error" },
        { "a = { name = { x = 1; }; };", 1, "wrong type" },
    };
    char place[96];
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        char *problems;
        assert_null(load(mistakes[i].text, &problems));
        assert_non_null(problems);
        snprintf(place, sizeof place, "%s:%d: ", path, mistakes[i].line);
        if (!strstr(problems, place) || !strstr(problems, mistakes[i].says))
            fail_msg("'%s' gives: %s", mistakes[i].text, problems);
        free(problems);
    }
}

/* All of them at once. */
TEST(test_several)
{
    char *problems;
    int lines = 0;
    assert_null(load("a = { nam = 1; };\nb = { count = 99; on = 3; };\nc = 1;\n", &problems));
    for (const char *at = problems; *at; at++)
        lines += *at == '\n';
    assert_int_equal(lines, 4);
    free(problems);
    assert_null(config_load(&schema, "/nonexistent/file", &problems));
    assert_non_null(strstr(problems, "/nonexistent/file"));
    free(problems);
}

TEST(test_restart)
{
    char *problems, text[200];
    struct config *old = load("a = { text = \"1\"; }; b = { list = [\"p\"]; };", &problems);
    struct config *same = load("a = { text = \"2\"; }; b = { list = [\"p\"]; };", &problems);
    struct config *other = load("a = { text = \"1\"; }; b = { port = 9; list = [\"q\"]; };", &problems);
    assert_int_equal(config_needs_restart(old, same, text, sizeof text), 0);
    assert_int_equal(config_needs_restart(old, other, text, sizeof text), 2);
    assert_string_equal(text, "b.port, b.list");
    config_free(old);
    config_free(same);
    config_free(other);
}

/* What --print-keys says of a key; the manual pages are made of it. */
TEST(test_printed)
{
    char *said = NULL;
    size_t size;
    FILE *out = open_memstream(&said, &size);
    config_print_schema(&schema, out);
    fclose(out);
    assert_non_null(strstr(said, "\n# h (\"red\" or \"green\")\n# b.colour = \"red\";\n"));
    assert_non_null(strstr(said, "\n# h (a string; SIGHUP changes it)\n# a.text = \"initial\";\n"));
    assert_non_null(strstr(said, "\n# h (a number)\n# b.share = 0.5;\n"));
    free(said);
}

TEST(test_sizes)
{
    static const struct { const char *text; uint64_t size;
    } good[] = {
        { "0", 0 },
        { "512M", UINT64_C(512) << 20 },
        { "2G", UINT64_C(2) << 30 },
        { "1TiB", UINT64_C(1) << 40 },
        { "7k", 7168 },
        { "4096B", 4096 },
        { "16383P", UINT64_C(16383) << 50 },
    };
    static const char *const bad[] = { "", "-1", "G", "1.5G", "16384P", "99999999999999999999", "1GG", "1 G", "0x10" };
    uint64_t size;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(config_parse_size(good[i].text, &size), 0);
        assert_int_equal(size, good[i].size);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_not_equal(config_parse_size(bad[i], &size), 0);
}

int main(void) { return unit_run(NULL, NULL); }
