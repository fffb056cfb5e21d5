/*
 * twice.h: kernels that are loaded twice, the second time with FLYT_SOFTGPU_FUSED=off, which is never compiled, and
 * what the machine says of their faults.
 */
#ifndef TESTS_EXEC_TWICE_H
#define TESTS_EXEC_TWICE_H

#include "softgpu/exec/jit.h"
#include "tests/exec/main.h"

#include <unistd.h>

/* One thread of the host, so that faults come in one order; with the compiler, where FLYT_SOFTGPU_JIT asks for it. */
static inline int twice_setup(void **state)
{
    (void)state;
    setenv("FLYT_LOG", "info", 1);
    assert_true(!getenv("FLYT_SOFTGPU_JIT") || exec_jit_on());
    gpu_start(&(struct gpu_config){ .threads = 1 });
    return 0;
}

/* modules[1] is the plain one. */
static inline void twice_load(const char *ptx, unsigned modules[2])
{
    for (int plain = 0; plain < 2; plain++) {
        if (plain)
            setenv("FLYT_SOFTGPU_FUSED", "off", 1);
        gpu_load(ptx);
        modules[plain] = gpu_module();
        unsetenv("FLYT_SOFTGPU_FUSED");
    }
}

/* Some memory of the device, and what it holds before a launch; NULL: zeros. size 0: none. */
struct twice_memory { unsigned char *at; const unsigned char *before; size_t size; };

/* A launch of the kernel "k". Both modules find the same memory. Where threads may go on while one makes a fault, what
   memory holds behind a fault is left open. */
struct twice_launch {
    struct gpu_shape shape;
    unsigned count;
    uint64_t arguments[5];
    struct twice_memory memory[2];
    bool open_after_faults;
};

enum { TWICE_MOST = 1 << 19 };
struct twice_result { int error; char log[512]; unsigned char memory[2][TWICE_MOST]; };

/* Standard error goes to a file while the kernel runs. */
static inline void twice_run(const struct twice_launch *l, struct twice_result *r)
{
    char name[] = "/tmp/flyt-twice-XXXXXX";
    const int file = mkstemp(name), terminal = dup(2);
    assert_true(file >= 0 && terminal >= 0);
    unlink(name);
    for (int k = 0; k < 2; k++) {
        const struct twice_memory *m = &l->memory[k];
        assert_true(m->size <= TWICE_MOST);
        if (m->before)
            memcpy(m->at, m->before, m->size);
        else if (m->size)
            memset(m->at, 0, m->size);
    }
    dup2(file, 2);
    r->error = gpu_launch("k", &l->shape, l->count, l->arguments, 60);
    dup2(terminal, 2);
    close(terminal);
    const ssize_t got = pread(file, r->log, sizeof r->log - 1, 0);
    r->log[got > 0 ? got : 0] = 0;
    close(file);
    for (int k = 0; k < 2; k++)
        if (l->memory[k].size)
            memcpy(r->memory[k], l->memory[k].at, l->memory[k].size);
}

/* The text of a line of the log, without the time. */
static inline const char *twice_message(const char *log)
{
    const char *message = strstr(log, "softgpu:");
    return message ? message : log;
}

/* Launches both. They must leave the same memory, the same error, and the same line of the log about a fault; else the
   test fails and says `what` was done. The error. */
static inline int twice_compare(const unsigned modules[2], const struct twice_launch *l, const char *what)
{
    static struct twice_result results[2];
    const struct twice_result *compiled = &results[0], *plain = &results[1];
    for (int k = 0; k < 2; k++) {
        gpu_select(modules[k]);
        twice_run(l, &results[k]);
    }
    if (compiled->error != plain->error)
        fail_msg("%s: error %d, plain %d: %s", what, compiled->error, plain->error, compiled->log);
    if (strcmp(twice_message(compiled->log), twice_message(plain->log)))
        fail_msg("%s: %s\nplain: %s", what, compiled->log, plain->log);
    for (int k = 0; k < 2 && !(l->open_after_faults && plain->error); k++)
        for (size_t b = 0; b < l->memory[k].size; b++)
            if (compiled->memory[k][b] != plain->memory[k][b])
                fail_msg("%s, error %d: byte %zu of memory %d is %u, plain %u", what, plain->error, b, k,
                         compiled->memory[k][b], plain->memory[k][b]);
    return plain->error;
}

#endif
