/*
 * fake_core.h: a client core without a server, for tests of the Runtime API alone. It is built as a library with the
 * core's name, which the test puts first in LD_LIBRARY_PATH. A test says what goes wrong through `fake`, and reads
 * there what reached the core.
 */
#ifndef FLYT_TESTS_FAKE_CORE_H
#define FLYT_TESTS_FAKE_CORE_H

#include "api/forward/core.h"
#include "cpu/client/core/core.h"

enum { FAKE_ARRAY = 0x4321 };             /* fake_arrays.c */
enum { FAKE_DEVICES = 2, FAKE_SMS = 4, FAKE_MEMORY = 64 << 20, FAKE_STREAMS = 16, FAKE_NAMES = 8 };

struct fake_core {
    /* set by the test */
    int attach_error, sticky, latched, next_error, device_count, host_mapping_error;
    bool forked;
    /* read by the test */
    uint64_t pool_value; /* as core_pool_set was given it last */
    int attached, activations, resets, synchronisations, local_calls, images, images_removed;
    char unsupported[64];
    int unsupported_count;
    const char *last_call;
    struct core_launch launch;
    int launch_device, launches;
    char launch_name[64];
    core_stream stream;
    bool blocking;
    int attributes_set, attribute_value;
    _Atomic int attributes_read;
};

CORE_API struct fake_core *fake_core(void);
CORE_API void fake_core_reset(void);

#endif
