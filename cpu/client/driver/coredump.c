/*
 * coredump.c: chapter "Coredump Attributes Control API".
 *
 * Flyt writes no core dumps of a GPU, so what would ask for one is refused (801); everything else is kept, and answered
 * as it was set. What cuda-gdb's environment variables say counts more than what the program sets, as natively. A
 * context's own values count more than the global ones.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/client/driver/driver.h"

enum { ATTRIBUTES = CU_COREDUMP_GENERATION_FLAGS + 1, TEXT = 1024, HOST_NAME = 256, FLAGS_KNOWN = 0x3F };

struct driver_coredump {
    bool set[ATTRIBUTES];
    bool flag[CU_COREDUMP_FILE];            /* the attributes before CU_COREDUMP_FILE are booleans */
    unsigned generation;
    char text[2][TEXT];                     /* file, pipe */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct driver_coredump global;

static const struct fact {
    size_t size;
    const char *variable;
    bool usual;
} facts[ATTRIBUTES] = {
    [CU_COREDUMP_ENABLE_ON_EXCEPTION] = { sizeof(bool), "CUDA_ENABLE_COREDUMP_ON_EXCEPTION", false },
    [CU_COREDUMP_TRIGGER_HOST] = { sizeof(bool), "CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION", true },
    [CU_COREDUMP_LIGHTWEIGHT] = { sizeof(bool), "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", false },
    [CU_COREDUMP_ENABLE_USER_TRIGGER] = { sizeof(bool), "CUDA_ENABLE_USER_TRIGGERED_COREDUMP", false },
    [CU_COREDUMP_FILE] = { TEXT, "CUDA_COREDUMP_FILE", false },
    [CU_COREDUMP_PIPE] = { TEXT, "CUDA_COREDUMP_PIPE", false },
    [CU_COREDUMP_GENERATION_FLAGS] = { sizeof(unsigned), NULL, false },
};

static bool is_text(int attribute) { return attribute == CU_COREDUMP_FILE || attribute == CU_COREDUMP_PIPE; }
static bool is_flag(int attribute) { return attribute < CU_COREDUMP_FILE; }

/* What every call begins with. */
static int check(int attribute, const size_t *size, core_context **context)
{
    int error = context ? driver_enter(context) : driver_ready();
    if (!error && (attribute < CU_COREDUMP_ENABLE_ON_EXCEPTION || attribute >= ATTRIBUTES || !size))
        error = CUDA_ERROR_INVALID_VALUE;
    return error;
}

/* What the environment says; NULL: nothing. */
static const char *from_environment(int attribute)
{
    return facts[attribute].variable ? secure_getenv(facts[attribute].variable) : NULL;
}

static void usual_text(int attribute, char *text)
{
    char host[HOST_NAME] = "localhost";
    gethostname(host, sizeof host - 1);
    snprintf(text, TEXT, "%s.cuda.%s.%d", attribute == CU_COREDUMP_FILE ? "core" : "corepipe", host, (int)getpid());
}

/* own: of a context, or NULL. The lock is held. */
static void read_value(const struct driver_coredump *own, int attribute, void *value, size_t size)
{
    const struct driver_coredump *at = own && own->set[attribute] ? own : global.set[attribute] ? &global : NULL;
    const char *said = from_environment(attribute);
    if (is_text(attribute)) {
        char text[TEXT];
        if (said || at)
            snprintf(text, sizeof text, "%s", said ? said : at->text[attribute - CU_COREDUMP_FILE]);
        else
            usual_text(attribute, text);
        snprintf(value, size, "%s", text);
    } else if (is_flag(attribute)) {
        *(bool *)value = said ? atoi(said) != 0 : at ? at->flag[attribute] : facts[attribute].usual;
    } else {
        unsigned flags = at ? at->generation : 0;
        memcpy(value, &flags, sizeof flags);
    }
}

static int get(core_context *context, int attribute, void *value, size_t *size)
{
    struct driver_context *state = context ? driver_context_state(context) : NULL;
    if (!value) {
        *size = facts[attribute].size;
        return CUDA_SUCCESS;
    }
    if (!*size || (!is_text(attribute) && *size < facts[attribute].size))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    read_value(state ? state->coredump : NULL, attribute, value, *size);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* The lock is held. */
static int write_value(struct driver_coredump *to, int attribute, const void *value, size_t size)
{
    unsigned flags;
    if (is_text(attribute)) {
        if (strnlen(value, size) >= TEXT)
            return CUDA_ERROR_INVALID_VALUE;
        snprintf(to->text[attribute - CU_COREDUMP_FILE], TEXT, "%.*s", (int)strnlen(value, size), (const char *)value);
    } else if (is_flag(attribute)) {
        to->flag[attribute] = *(const bool *)value;
    } else {
        memcpy(&flags, value, sizeof flags);
        if (flags & ~(unsigned)FLAGS_KNOWN)
            return CUDA_ERROR_INVALID_VALUE;
        to->generation = flags;
    }
    to->set[attribute] = true;
    return CUDA_SUCCESS;
}

static int set(core_context *context, int attribute, const void *value, size_t *size)
{
    struct driver_context *state = context ? driver_context_state(context) : NULL;
    bool asks = attribute == CU_COREDUMP_ENABLE_ON_EXCEPTION || attribute == CU_COREDUMP_ENABLE_USER_TRIGGER;
    if (!value) {
        *size = facts[attribute].size;
        return CUDA_SUCCESS;
    }
    if (!*size || (!is_text(attribute) && *size < facts[attribute].size))
        return CUDA_ERROR_INVALID_VALUE;
    if (context && (attribute == CU_COREDUMP_ENABLE_USER_TRIGGER || attribute == CU_COREDUMP_PIPE))
        return CUDA_ERROR_NOT_PERMITTED;
    if (asks && *(const bool *)value) {
        core_unsupported("a core dump of the GPU");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    pthread_mutex_lock(&lock);
    if (state && !state->coredump)
        state->coredump = calloc(1, sizeof *state->coredump);
    struct driver_coredump *to = context ? state ? state->coredump : NULL : &global;
    int error = to ? write_value(to, attribute, value, *size) : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&lock);
    return error;
}

void driver_coredump_forget(struct driver_context *state)
{
    pthread_mutex_lock(&lock);
    free(state->coredump);
    state->coredump = NULL;
    pthread_mutex_unlock(&lock);
}

CUresult driver_cuCoredumpGetAttribute(CUcoredumpSettings attribute, void *value, size_t *size)
{
    core_context *context;
    int error = check((int)attribute, size, &context);
    return driver_local(error ? error : get(context, (int)attribute, value, size));
}

CUresult driver_cuCoredumpGetAttributeGlobal(CUcoredumpSettings attribute, void *value, size_t *size)
{
    int error = check((int)attribute, size, NULL);
    return driver_local(error ? error : get(NULL, (int)attribute, value, size));
}

CUresult driver_cuCoredumpSetAttribute(CUcoredumpSettings attribute, void *value, size_t *size)
{
    core_context *context;
    int error = check((int)attribute, size, &context);
    return driver_local(error ? error : set(context, (int)attribute, value, size));
}

CUresult driver_cuCoredumpSetAttributeGlobal(CUcoredumpSettings attribute, void *value, size_t *size)
{
    int error = check((int)attribute, size, NULL);
    return driver_local(error ? error : set(NULL, (int)attribute, value, size));
}
