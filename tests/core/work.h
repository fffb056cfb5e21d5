/*
 * work.h: what tests of a session's work say to the core, in one line each. Kernels are the scripted server's (fake.h).
 */
#ifndef TESTS_CORE_WORK_H
#define TESTS_CORE_WORK_H

#include "cpu/client/core/core.h"
#include "cpu/rpc/cpu_rpc_prot.h"
#include "tests/lib/unit.h"
#include "fake.h"
#include "isolated.h"
#include "on.h"

#define MIB UINT64_C(1048576)

/* The same numbers in each process. */
uint64_t random_next(void);

core_function *kernel(const char *name);
/* One block of one thread. */
int      launch(const char *name, core_stream, void **arguments);
int      fill(core_stream, uint64_t address, uint32_t count, uint32_t value);
/* On device 0. */
uint64_t allocate(size_t size);

/* A cmocka test of the bodies, each in a process of its own. */
#define ISOLATED(name, ...) TEST(name) { run_all((void (*const[])(void)){ __VA_ARGS__, NULL }); }
void run_all(void (*const bodies[])(void));

#endif
