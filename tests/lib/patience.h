/*
 * patience.h: how long a test waits for what must come. A limit that suits an idle machine tells nothing about the
 * product where fifty processes share two processors.
 */
#ifndef FLYT_TESTS_LIB_PATIENCE_H
#define FLYT_TESTS_LIB_PATIENCE_H

#include <stdlib.h>
#include <unistd.h>

/* The limit of an idle machine, in any unit; as many times longer as programs wanted each processor in the last minute.
   Not for what must not happen within a time. */
static inline unsigned patience(unsigned limit)
{
    double load = 0;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(&load, 1) != 1 || processors < 1 || load <= (double)processors)
        return limit;
    return (unsigned)(limit * load / (double)processors);
}

#endif
