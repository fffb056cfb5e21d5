/* env.c: see env.h. */
#include "cpu/common/env.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static const char *const none[] = { NULL };
static _Atomic(const char *const *) kept = none;
static char **own;                   /* the list that this library made; NULL: none, or it was given another one */

/* False in a program with more rights than its caller. */
static bool env_trusted(void) { return !getauxval(AT_SECURE); }

static int is_ours(const char *variable)
{
    return strncmp(variable, "FLYT_", 5) == 0;
}

/* Without memory nothing is kept, and env_get finds what is set when it is called. */
__attribute__((constructor)) static void keep(void)
{
    size_t count = 0, at = 0;
    if (!env_trusted())
        return;
    for (char **variable = environ; variable && *variable; variable++)
        count += is_ours(*variable) != 0;
    char **list = count ? calloc(count + 1, sizeof *list) : NULL;
    for (char **variable = environ; list && *variable && at < count; variable++)
        if (is_ours(*variable) && (list[at] = strdup(*variable)))
            at++;
    own = list;
    if (list)
        atomic_store(&kept, (const char *const *)list);
}

const char *env_get(const char *name)
{
    const char *value = secure_getenv(name);
    size_t length = strlen(name);
    for (const char *const *variable = atomic_load(&kept); !value && *variable; variable++)
        if (strncmp(*variable, name, length) == 0 && (*variable)[length] == '=')
            value = *variable + length + 1;
    return value;
}

const char *const *env_kept(void)
{
    return atomic_load(&kept);
}

__attribute__((visibility("default"))) void flyt_environment(const char *const *list)
{
    atomic_store(&kept, list);
    for (size_t i = 0; own && own[i]; i++)
        free(own[i]);
    free(own);
    own = NULL;
}
