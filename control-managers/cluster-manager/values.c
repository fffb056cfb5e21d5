/*
 * values.c: values that programs of one VM leave for each other (ctl_value_args in control_prot.x). They are the VM's,
 * and no other one sees them. A value belongs to the program that set it first, and is gone with that, or with the
 * connection of its client manager. Bounds are those of one VM, so that it takes no room of others.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/cluster.h"
#include "cpu/common/explain.h"

struct left_value {
    const struct cluster_session *session; /* of the client manager */
    uint64_t owner;
    char key[CTL_VALUE_KEY + 1];
    u_int size;
    char bytes[];
};

/* Somebody waits for a key. */
struct value_wait {
    struct value_wait *next;
    struct vm_values *values;
    const struct cluster_session *session;
    struct loop_call *call;
    char key[CTL_VALUE_KEY + 1];
    struct loop_timer timer;
};

struct vm_values {
    struct map by_key;
    uint64_t bytes;
    struct value_wait *waits;
    size_t wait_count;
};

static char nothing[1];

static void answer(struct loop_call *call, ctl_code code, char *text, const struct left_value *value, int64_t number)
{
    ctl_value_result result = { .status = { code, text }, .number = number };
    if (value) {
        result.value.value_len = value->size;
        result.value.value_val = (char *)(uintptr_t)value->bytes;
    }
    call_reply(call, &result);
}

static uint64_t cost_of(const char *key, u_int size) { return sizeof(struct left_value) + strlen(key) + size; }

/* ---- programs that wait for a value ---- */

static void wait_drop(struct value_wait *wait)
{
    struct value_wait **at = &wait->values->waits;
    while (*at != wait)
        at = &(*at)->next;
    *at = wait->next;
    wait->values->wait_count--;
    loop_timer_stop(&wait->timer);
    free(wait);
}

static void overdue(struct loop_timer *timer, void *context)
{
    struct value_wait *wait = context;
    (void)timer;
    answer(wait->call, CTL_WAITING, nothing, NULL, 0);
    wait_drop(wait);
}

static void tell_waiting(struct vm_values *values, const struct left_value *value)
{
    for (struct value_wait *wait = values->waits, *next; wait; wait = next) {
        next = wait->next;
        if (strcmp(wait->key, value->key) != 0)
            continue;
        answer(wait->call, CTL_OK, nothing, value, 0);
        wait_drop(wait);
    }
}

/* False: it does not wait. */
static bool wait_for(const struct cluster_session *session, struct vm_values *values, struct loop_call *call,
                     const ctl_value_args *wish)
{
    struct value_wait *wait =
        wish->milliseconds && values->wait_count < CTL_VALUES_WAITS ? calloc(1, sizeof *wait) : NULL;
    if (!wait)
        return false;
    wait->values = values;
    wait->session = session;
    wait->call = call;
    snprintf(wait->key, sizeof wait->key, "%s", wish->key);
    wait->next = values->waits;
    values->waits = wait;
    values->wait_count++;
    const u_int ms = wish->milliseconds < CTL_VALUE_MS ? wish->milliseconds : CTL_VALUE_MS;
    loop_timer_start(session->cluster->loop, &wait->timer, ms, overdue, wait);
    return true;
}

/* ---- values ---- */

static void value_remove(struct vm_values *values, struct left_value *value)
{
    values->bytes -= cost_of(value->key, value->size);
    map_remove(&values->by_key, value->key);
    free(value);
}

/* A new value is of this owner. */
struct value_owner {
    const struct cluster_session *session;
    uint64_t owner;
};

static ctl_code value_set(struct vm_values *values, const struct value_owner *of, const char *key, const char *bytes,
                          u_int size, char *text)
{
    struct left_value *before = map_get(&values->by_key, key);
    const uint64_t after =
        values->bytes - (before ? cost_of(key, before->size) : 0) + cost_of(key, size);
    if (after > CTL_VALUES_BYTES || (!before && values->by_key.count >= CTL_VALUES))
        return explain(text, CTL_NO_ROOM, "programs of this VM have left %zu values of %" PRIu64
                       " bytes, and there may be %d of %d", values->by_key.count, values->bytes, CTL_VALUES,
                       CTL_VALUES_BYTES);
    struct left_value *value = malloc(sizeof *value + size);
    if (!value)
        return explain(text, CTL_INTERNAL, "no memory");
    *value = (struct left_value){ .session = before ? before->session : of->session,
                             .owner = before ? before->owner : of->owner,
                             .size = size };
    snprintf(value->key, sizeof value->key, "%s", key);
    memcpy(value->bytes, bytes, size);
    if (before)
        value_remove(values, before);
    if (!map_put(&values->by_key, key, value)) {
        free(value);
        return explain(text, CTL_INTERNAL, "no memory");
    }
    values->bytes += cost_of(key, size);
    tell_waiting(values, value);
    return CTL_OK;
}

static ctl_code value_add(struct vm_values *values, const struct value_owner *of, const ctl_value_args *wish,
                          int64_t *sum, char *text)
{
    const struct left_value *before = map_get(&values->by_key, wish->key);
    char number[32] = "0", *end;
    if (before)
        snprintf(number, sizeof number, "%.*s", before->size < sizeof number ? (int)before->size : 0, before->bytes);
    errno = 0;
    *sum = strtoll(number, &end, 10);
    if (end == number || *end || errno || __builtin_add_overflow(*sum, wish->number, sum))
        return explain(text, CTL_INVALID, "the value of %s is no number, or becomes too large", wish->key);
    snprintf(number, sizeof number, "%" PRId64, *sum);
    return value_set(values, of, wish->key, number, (u_int)strlen(number), text);
}

/* Of the owner; of all, where there is none. session NULL: of all connections. */
static void values_drop(struct vm_values *values, const struct value_owner *of)
{
    const size_t count = values->by_key.count;
    void **all = map_values(&values->by_key);
    for (size_t i = 0; all && i < count; i++) {
        struct left_value *value = all[i];
        if ((!of->session || value->session == of->session) && (!of->owner || value->owner == of->owner))
            value_remove(values, value);
    }
    free(all);
}

/* ---- the call ---- */

static struct vm_values *values_of(struct vm *vm)
{
    if (!vm->values)
        vm->values = calloc(1, sizeof *vm->values);
    return vm->values;
}

static ctl_code act(const struct cluster_session *session, struct vm_values *values, const client_value_args *args,
                    struct loop_call *call, bool *later, const struct left_value **value, int64_t *number, char *text)
{
    const struct value_owner of = { session, args->owner };
    const ctl_value_args *wish = &args->wish;
    if (wish->act != CTL_VALUE_END && !*wish->key)
        return explain(text, CTL_INVALID, "a value has a key");
    switch (wish->act) {
    case CTL_VALUE_SET:
        return value_set(values, &of, wish->key, wish->value.value_val, wish->value.value_len, text);
    case CTL_VALUE_ADD: return value_add(values, &of, wish, number, text);
    case CTL_VALUE_GET: {
        *value = map_get(&values->by_key, wish->key);
        if (*value)
            return CTL_OK;
        *later = wait_for(session, values, call, wish);
        return CTL_WAITING;
    }
    case CTL_VALUE_END:
        if (args->owner)
            values_drop(values, &of);
        return CTL_OK;
    default: return explain(text, CTL_INVALID, "values are set, got and added to; there is no act %d", (int)wish->act);
    }
}

void values_serve(const struct cluster_session *session, struct vm *vm, const client_value_args *args,
                  struct loop_call *call)
{
    char text[CTL_MAX_TEXT + 1] = "";
    struct vm_values *values = vm ? values_of(vm) : NULL;
    const struct left_value *value = NULL;
    int64_t number = 0;
    bool later = false;
    if (!values) {
        answer(call, CTL_DENIED, (char *)(uintptr_t) "values are for programs of VMs", NULL, 0);
        return;
    }
    const ctl_code code = act(session, values, args, call, &later, &value, &number, text);
    if (!later)
        answer(call, code, text, value, number);
}

/* session NULL: all. Calls that wait have gone with their connection. */
static void forget(struct vm_values *values, const struct cluster_session *session)
{
    const struct value_owner of = { session, 0 };
    for (struct value_wait *wait = values->waits, *next; wait; wait = next) {
        next = wait->next;
        if (!session || wait->session == session)
            wait_drop(wait);
    }
    values_drop(values, &of);
}

void values_forget(const struct cluster_session *session)
{
    if (session->vm && session->vm->values)
        forget(session->vm->values, session);
}

void values_end(struct vm *vm)
{
    if (!vm->values)
        return;
    forget(vm->values, NULL);
    map_free(&vm->values->by_key);
    free(vm->values);
    vm->values = NULL;
}
