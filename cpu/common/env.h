/*
 * env.h: settings of Flyt in the environment.
 *
 * A program may clear its environment before its first CUDA call. So a list of all FLYT_* variables is kept when the
 * library is loaded (or the program begins). What the program itself sets later, before Flyt looks, counts instead.
 *
 * Variables of CUDA's (CUDA_VISIBLE_DEVICES …) are not kept: NVIDIA's driver reads them when it is initialised, and so
 * do we.
 *
 * A program with more rights than its caller (setuid, setgid, file capabilities) runs in an environment that the caller
 * wrote. No FLYT_* variable counts there, and none of CUDA's or the system's that names a file or a folder: read those
 * with secure_getenv. What the machine's configuration says counts.
 */
#ifndef FLYT_COMMON_ENV_H
#define FLYT_COMMON_ENV_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

/* The value of a FLYT_* variable now; if it is not set now, the kept one; NULL: none, or it does not count. The caller
   does not free it. */
const char *env_get(const char *name);

/* "NAME=value" …, ended by NULL. The list lives as long as the process. */
const char *const *env_kept(void);

/* Exported by each library of Flyt's: from here on its kept list is this one, which must live as long as the
 * process. To be called before anybody has asked the library for a variable: its own list is freed. */
#define ENV_ADOPT "flyt_environment"
typedef void env_adopt_function(const char *const *kept);
env_adopt_function flyt_environment;

/* Gives a library that was just opened, perhaps after the environment was cleared, what this one has kept. */
static inline void env_share(void *library)
{
    env_adopt_function *adopt = (env_adopt_function *)(uintptr_t)dlsym(library, ENV_ADOPT);
    if (adopt)
        adopt(env_kept());
}

#endif
