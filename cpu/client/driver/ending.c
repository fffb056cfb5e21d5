/*
 * ending.c: has the process begun to end?
 *
 * NVIDIA's runtime releases its primary contexts in a destructor that exit() runs. A release waits for the context's
 * work, and work that never ends would keep the process for ever. NVIDIA's driver has ended by then: a function that
 * it registers with atexit runs before the runtime's destructor, since exit() runs first what was registered last. So
 * this file registers one, too, and a release behind it changes nothing: the server ends the context with the
 * process's connection.
 *
 * A library that is loaded later brings a runtime of its own, whose destructor would run before our function. That
 * runtime retains the context when it starts, so each retain registers the function once more. REGISTRATIONS bounds
 * that for programs that retain and release all the time.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/client/driver/driver.h"

enum { REGISTRATIONS = 64 };

static atomic_bool ending;
static atomic_uint registered;

static void begin(void) { atomic_store(&ending, true); }

void driver_watch_ending(void)
{
    if (atomic_load(&registered) < REGISTRATIONS && atomic_fetch_add(&registered, 1) < REGISTRATIONS)
        atexit(begin); /* where there is no memory for it, a release waits */
}

bool driver_ending(void) { return atomic_load(&ending); }
