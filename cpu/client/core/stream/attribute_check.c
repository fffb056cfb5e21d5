/*
 * attribute_check.c: whether a launch, a stream or a kernel node may have an attribute with this value. Which may have
 * which, and whose value is looked at, says cpu/api/launch_attributes.api.
 *
 * What the driver would refuse is refused here, since the program expects the error from its own call. The server takes
 * no attribute that holds a handle or a pointer of this process.
 */
#include <string.h>

#include "api/launch_attributes.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/wire/device.h"
#include "stream.h"

enum { POLICY_WINDOW_MOST = 109, SYNC_DOMAINS = 126 }; /* of CUdevice_attribute */

static int check_policy_window(int device, const uint8_t *value)
{
    enum { PERSISTING = 2 };                              /* of CUaccessProperty; it is no property of misses */
    struct { void *base; size_t bytes; float ratio; int hit, miss; } window;      /* CUaccessPolicyWindow */
    int given = 0;
    memcpy(&window, value, sizeof window);
    core_device_attribute(device, POLICY_WINDOW_MOST, &given);
    const size_t most = given > 0 ? (size_t)given : 0;
    if (window.bytes > most) {
        core_log(CORE_LOG_ERROR, "The launch asks for %zu bytes of an access policy window "
                 "(accessPolicyMaxWindowSize); at most %zu are possible", window.bytes, most);
        return CORE_INVALID_VALUE;
    }
    return !(window.ratio >= 0 && window.ratio <= 1) || window.hit < 0 || window.hit > PERSISTING || window.miss < 0 ||
           window.miss >= PERSISTING ? CORE_INVALID_VALUE : CORE_OK;
}

static int check_sync_policy(int device, const uint8_t *value)
{
    enum { FIRST = 1, LAST = 4 }; /* of CUsynchronizationPolicy */
    int policy;
    (void)device;
    memcpy(&policy, value, sizeof policy);
    return policy < FIRST || policy > LAST ? CORE_INVALID_VALUE : CORE_OK;
}

static int check_priority(int device, const uint8_t *value)
{
    const struct core_device *public = &client_device_find(device)->public;
    int priority;
    memcpy(&priority, value, sizeof priority);
    return priority <= public->priority_least && priority >= public->priority_greatest ? CORE_OK : CORE_INVALID_VALUE;
}

/* The physical domains of the logical ones, CUlaunchMemSyncDomainMap. */
static int check_domain_map(int device, const uint8_t *value)
{
    int count = 0;
    core_device_attribute(device, SYNC_DOMAINS, &count);
    return value[0] < count && value[1] < count ? CORE_OK : CORE_INVALID_VALUE;
}

/* CUlaunchMemSyncDomain: the default one or the remote one. */
static int check_domain(int device, const uint8_t *value)
{
    uint32_t domain;
    (void)device;
    memcpy(&domain, value, sizeof domain);
    return domain <= 1 ? CORE_OK : CORE_INVALID_VALUE;
}

/* Percent. Unlike a function's attribute, -1 does not stand for the driver's choice. */
static int check_carveout(int device, const uint8_t *value)
{
    uint32_t percent;
    (void)device;
    memcpy(&percent, value, sizeof percent);
    return percent <= 100 ? CORE_OK : CORE_INVALID_VALUE;
}

static int check_nvlink_hint(int device, const uint8_t *value)
{
    uint32_t hint;
    (void)device;
    memcpy(&hint, value, sizeof hint);
    return hint <= 1 ? CORE_OK : CORE_INVALID_VALUE;
}

static int check_value(int device, int id, const uint8_t *value)
{
    static int (*const checks[LAUNCH_ATTRIBUTE_LAST + 1])(int device, const uint8_t *value) = {
#define CHECK(number, name) [number] = check_##name,
        LAUNCH_ATTRIBUTE_CHECKS(CHECK)
#undef CHECK
    };
    return checks[id] ? checks[id](device, value) : CORE_OK;
}

void launch_attribute_limit(int device, struct core_launch_attribute *attribute)
{
    const struct core_device *public = &client_device_find(device)->public;
    int priority;
    if (attribute->id != LAUNCH_ATTRIBUTE_PRIORITY)
        return;
    memcpy(&priority, attribute->value, sizeof priority);
    priority = priority > public->priority_least      ? public->priority_least
               : priority < public->priority_greatest ? public->priority_greatest
                                                      : priority;
    memcpy(attribute->value, &priority, sizeof priority);
}

/* The events of a launch do not come here: client/graph/capture_calls.c records them. */
int launch_check_attribute(int device, const struct core_launch_attribute *attribute)
{
    if (attribute->id == LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE) /* only a node of a graph can have it */
        return CORE_NOT_SUPPORTED;
    if (!launch_attribute_has(attribute->id, ATTRIBUTE_OF_LAUNCHES | ATTRIBUTE_TRAVELS))
        return CORE_INVALID_VALUE;
    if (attribute->id == LAUNCH_ATTRIBUTE_PRIORITY)
        return CORE_OK; /* one beyond the device's range counts as the nearest in it */
    return check_value(device, attribute->id, attribute->value);
}

int stream_check_attribute(int device, int id, const void *value)
{
    return launch_attribute_has(id, ATTRIBUTE_OF_STREAMS) ? check_value(device, id, value) : CORE_INVALID_VALUE;
}
