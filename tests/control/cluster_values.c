/*
 * Values that programs leave for each other: what the cluster manager makes of client managers that lie or vanish.
 * shows: values under managers: those of one VM are not seen by another one, end with their owner and with the
 *   connection of their client manager, and calls that wait are answered by the next set, or in time
 * shows: attacks: values, waiting calls and acts beyond what a VM may have are refused, and other VMs go on
 */
#include "tests/control/cluster_rig.h"

#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)
enum { SOON_MS = 5000 };

static struct fake_client a, b;

static void begin(void)
{
    rig_create("");
    client_create(&a, "vm-a", 4, GIB, 0, false, "");
    client_create(&b, "vm-b", 4, GIB, 0, true, "");
    rig_until(a.registered && b.registered, SOON_MS);
}

struct asked_value { int count; ctl_code code; char text[CTL_MAX_TEXT + 1], value[100]; int64_t number; };

static void answered(void *context, int error, const char *why, void *object)
{
    struct asked_value *asked = context;
    const ctl_value_result *result = object;
    (void)why;
    asked->count++;
    asked->code = error ? CTL_INTERNAL : result->status.code;
    if (error)
        return;
    asked->number = result->number;
    snprintf(asked->text, sizeof asked->text, "%s", result->status.text);
    snprintf(asked->value, sizeof asked->value, "%.*s", (int)result->value.value_len, result->value.value_val);
}

static void ask(struct fake_client *client, struct asked_value *asked, uint64_t owner, ctl_value_args wish)
{
    const client_value_args args = { owner, wish };
    *asked = (struct asked_value){ 0 };
    assert_int_equal(link_call(client->link, CLIENT_VALUE, &args, 2 * SOON_MS, answered, asked, NULL), 0);
}

static struct asked_value ask_now(struct fake_client *client, uint64_t owner, ctl_value_args wish)
{
    struct asked_value asked;
    ask(client, &asked, owner, wish);
    rig_until(asked.count, SOON_MS);
    return asked;
}

static ctl_code set(struct fake_client *client, uint64_t owner, const char *key, char *value)
{
    return ask_now(client, owner, (ctl_value_args){ .act = CTL_VALUE_SET, .key = (char *)(uintptr_t)key,
                                                    .value = { (u_int)strlen(value), value } }).code;
}

static ctl_code get(struct fake_client *client, const char *key, const char *wanted)
{
    const ctl_value_args wish = { .act = CTL_VALUE_GET, .key = (char *)(uintptr_t)key };
    struct asked_value asked = ask_now(client, 1, wish);
    if (asked.code == CTL_OK)
        assert_string_equal(asked.value, wanted);
    return asked.code;
}

RIG_TEST(test_of_one_vm)
{
    begin();
    char one[] = "1", two[] = "2";
    assert_int_equal(set(&a, 1, "key", one), CTL_OK);
    assert_int_equal(get(&a, "key", "1"), CTL_OK);
    assert_int_equal(get(&b, "key", ""), CTL_WAITING);
    assert_int_equal(set(&b, 1, "key", two), CTL_OK);
    assert_int_equal(get(&a, "key", "1"), CTL_OK);
    /* b's owner 1 is not a's */
    const ctl_value_args end = { .act = CTL_VALUE_END, .key = one };
    assert_int_equal(ask_now(&b, 1, end).code, CTL_OK);
    assert_int_equal(get(&b, "key", ""), CTL_WAITING);
    assert_int_equal(get(&a, "key", "1"), CTL_OK);
    assert_int_equal(ask_now(&a, 0, end).code, CTL_OK); /* nobody's */
    assert_int_equal(ask_now(&a, 2, end).code, CTL_OK);
    assert_int_equal(get(&a, "key", "1"), CTL_OK);
    assert_int_equal(ask_now(&a, 1, end).code, CTL_OK);
    assert_int_equal(get(&a, "key", ""), CTL_WAITING);
}

RIG_TEST(test_waiting)
{
    begin();
    struct asked_value first, second, other;
    char late[] = "late", key[] = "key";
    ctl_value_args wish = { .act = CTL_VALUE_GET, .key = key, .milliseconds = UINT32_MAX };
    ask(&a, &first, 1, wish);
    ask(&a, &second, 2, wish);
    ask(&b, &other, 1, wish);
    rig_run_ms(100);
    assert_int_equal(first.count + second.count + other.count, 0);
    assert_int_equal(set(&a, 3, "key", late), CTL_OK);
    rig_until(first.count && second.count, SOON_MS);
    assert_string_equal(first.value, "late");
    assert_string_equal(second.value, "late");
    rig_until(other.count, 2 * SOON_MS); /* CTL_VALUE_MS at most, whatever it wanted */
    assert_int_equal(other.code, CTL_WAITING);
}

RIG_TEST(test_the_client_manager_vanishes)
{
    begin();
    struct asked_value waits;
    char value[] = "1", key[] = "other";
    assert_int_equal(set(&a, 1, "key", value), CTL_OK);
    ask(&a, &waits, 1, (ctl_value_args){ .act = CTL_VALUE_GET, .key = key, .milliseconds = 4000 });
    rig_run_ms(50);
    client_close(&a);
    rig_run_ms(50);
    client_open(&a);
    rig_until(a.registered, SOON_MS);
    assert_int_equal(get(&a, "key", ""), CTL_WAITING);
    assert_int_equal(set(&a, 1, "other", value), CTL_OK); /* nobody waits for it any more */
    assert_int_equal(get(&a, "other", "1"), CTL_OK);
}

RIG_TEST(test_bounded)
{
    static struct asked_value waits[CTL_VALUES_WAITS + 1];
    static char large[CTL_VALUE_SIZE];
    char key[32] = "key";
    begin();
    struct asked_value asked = { 0 };
    unsigned count = 0;
    for (; asked.code == CTL_OK && count < 1000; count++) {
        snprintf(key, sizeof key, "large-%u", count);
        asked = ask_now(&a, 1, (ctl_value_args){ .act = CTL_VALUE_SET, .key = key, .value = { sizeof large, large } });
    }
    assert_int_equal(asked.code, CTL_NO_ROOM);
    assert_true(count > 500 && count < 520 && strstr(asked.text, "of this VM")); /* 8 MiB */
    char value[] = "1";
    assert_int_equal(set(&b, 1, "key", value), CTL_OK);
    for (unsigned i = 0; i < CTL_VALUES_WAITS + 1; i++)
        ask(&a, &waits[i], 1, (ctl_value_args){ .act = CTL_VALUE_GET, .key = value, .milliseconds = 4000 });
    rig_until(waits[CTL_VALUES_WAITS].count, SOON_MS);
    assert_int_equal(waits[CTL_VALUES_WAITS].code, CTL_WAITING);
    for (unsigned i = 0; i < CTL_VALUES_WAITS; i++)
        assert_int_equal(waits[i].count, 0);
    assert_int_equal(ask_now(&b, 1, (ctl_value_args){ .act = CTL_VALUE_GET, .key = large }).code, CTL_INVALID);
    assert_int_equal(ask_now(&b, 1, (ctl_value_args){ .act = (ctl_value_act)9, .key = key }).code, CTL_INVALID);
}

int main(void) { return unit_run(NULL, NULL); }
