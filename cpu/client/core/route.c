/*
 * route.c: copies whose two pointers decide how they travel.
 *
 * The direction is the program's statement about the two pointers; with unified addressing the address says what is
 * true. So each copy is sent the way its addresses ask for, after a check that the statement does not contradict them:
 * what would read device memory through a host pointer is 1, as natively, and not a crash of the program.
 */
#include "cpu/client/core/core.h"

enum place { PLACE_PAGEABLE, PLACE_PINNED, PLACE_DEVICE };

static enum place place_of(const void *pointer)
{
    struct core_range range;
    if (!core_address_lookup((uint64_t)(uintptr_t)pointer, &range) || range.kind == CORE_UNKNOWN_MEMORY)
        return PLACE_PAGEABLE;
    return range.kind == CORE_DEVICE_MEMORY ? PLACE_DEVICE : PLACE_PINNED;
}

/* Whether a pointer may stand where the direction says "host" or "device". Pinned memory is addressable from both
 * sides. */
static bool fits_host(enum place place) { return place != PLACE_DEVICE; }
static bool fits_device(enum place place) { return place != PLACE_PAGEABLE; }

/* The route of a copy, as one of the four explicit directions. */
static int route(const void *to, const void *from, enum core_direction stated, enum core_direction *out)
{
    if (!to || !from)
        return CORE_INVALID_VALUE;
    enum place target = place_of(to), source = place_of(from);
    bool to_host = stated == CORE_HOST_TO_HOST || stated == CORE_DEVICE_TO_HOST;
    bool from_host = stated == CORE_HOST_TO_HOST || stated == CORE_HOST_TO_DEVICE;
    if (stated != CORE_ANY_DIRECTION) {
        if (!(to_host ? fits_host(target) : fits_device(target)) ||
            !(from_host ? fits_host(source) : fits_device(source)))
            return CORE_INVALID_VALUE;
    }
    bool target_on_device = target == PLACE_DEVICE, source_on_device = source == PLACE_DEVICE;
    *out = target_on_device ? (source_on_device ? CORE_DEVICE_TO_DEVICE : CORE_HOST_TO_DEVICE)
                            : (source_on_device ? CORE_DEVICE_TO_HOST : CORE_HOST_TO_HOST);
    return CORE_OK;
}

int core_copy_check(const void *to, const void *from, enum core_direction stated)
{
    enum core_direction way;
    return route(to, from, stated, &way);
}

int core_copy_route(core_context *context, core_stream stream, void *to, const void *from, size_t size,
                    enum core_direction stated, bool blocking)
{
    enum core_direction way;
    if (size == 0)
        return CORE_OK;
    int code = route(to, from, stated, &way);
    if (code)
        return code;
    uint64_t target = (uint64_t)(uintptr_t)to, source = (uint64_t)(uintptr_t)from;
    switch (way) {
    case CORE_HOST_TO_DEVICE: return core_copy_in(context, stream, target, from, size, blocking);
    case CORE_DEVICE_TO_HOST: return core_copy_out(context, stream, to, source, size, blocking);
    case CORE_DEVICE_TO_DEVICE: return core_copy(context, stream, target, source, size, blocking);
    default: return core_copy_host(context, stream, to, from, size, blocking);
    }
}

/* Host to host moves one row after the other: the other box copies have a device on one side at least. */
static int copy_host_rows(core_context *context, core_stream stream, const struct core_box *to,
                          const struct core_box *from, const struct core_extent *extent, bool blocking)
{
    for (size_t z = 0; z < extent->depth; z++)
        for (size_t y = 0; y < extent->height; y++) {
            uintptr_t target = (uintptr_t)(to->address + (z * to->height + y) * to->pitch);
            uintptr_t source = (uintptr_t)(from->address + (z * from->height + y) * from->pitch);
            int code = core_copy_host(context, stream, (void *)target, (const void *)source, extent->width, blocking);
            if (code)
                return code;
        }
    return CORE_OK;
}

int core_copy_box_route(core_context *context, core_stream stream, const struct core_box *to,
                        const struct core_box *from, const struct core_extent *size, enum core_direction stated,
                        bool blocking)
{
    enum core_direction way;
    if (!size->width || !size->height || !size->depth)
        return CORE_OK;
    int code = route((void *)(uintptr_t)to->address, (const void *)(uintptr_t)from->address, stated, &way);
    if (code)
        return code;
    switch (way) {
    case CORE_HOST_TO_DEVICE: return core_copy_box_in(context, stream, to, from, size, blocking);
    case CORE_DEVICE_TO_HOST: return core_copy_box_out(context, stream, to, from, size, blocking);
    case CORE_DEVICE_TO_DEVICE: return core_copy_box(context, stream, to, from, size, blocking);
    default: return copy_host_rows(context, stream, to, from, size, blocking);
    }
}
