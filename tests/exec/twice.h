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

/* Between the two, standard error goes to a file, whose beginning becomes the text. */
struct twice_log { int file, terminal; };

static inline struct twice_log twice_log_begin(void)
{
    char name[] = "/tmp/flyt-twice-XXXXXX";
    struct twice_log log = { .file = mkstemp(name), .terminal = dup(2) };
    assert_true(log.file >= 0 && log.terminal >= 0);
    unlink(name);
    dup2(log.file, 2);
    return log;
}

static inline void twice_log_end(const struct twice_log *log, char *text, size_t size)
{
    dup2(log->terminal, 2);
    close(log->terminal);
    const ssize_t got = pread(log->file, text, size - 1, 0);
    text[got > 0 ? got : 0] = 0;
    close(log->file);
}

/* The text of a line of the log, without the time. */
static inline const char *twice_message(const char *log)
{
    const char *message = strstr(log, "softgpu:");
    return message ? message : log;
}

#endif
