/* record.c: see record.h. One thread: that of the test. */
#include "tests/exec/record.h"

#include <errno.h>

enum { MODULES = 64, MOST_MEMORY = 1 << 20 };
static char *texts[MODULES];
static unsigned running;

bool record_wanted(void) { return getenv("EXEC_TEST_RECORD") != NULL; }

void record_module(unsigned number, const char *ptx)
{
    if (!record_wanted() || number >= MODULES)
        return;
    free(texts[number]);
    texts[number] = strdup(ptx);
}

void record_forget(unsigned number)
{
    if (number < MODULES) {
        free(texts[number]);
        texts[number] = NULL;
    }
}

static FILE *opened(void)
{
    FILE *file = fopen(getenv("EXEC_TEST_RECORD"), "ab");
    if (!file)
        fail_msg("%s: %s", getenv("EXEC_TEST_RECORD"), strerror(errno));
    return file;
}

void record_launch(unsigned module, const char *kernel, const struct gpu_shape *shape, const struct ptx_module *m,
                   const uint64_t *addresses, const struct ptx_function *f, const uint64_t *arguments,
                   const void *memory, size_t used)
{
    unsigned variables = 0;
    if (!record_wanted() || module >= MODULES || !texts[module] || used > MOST_MEMORY)
        return;
    running++;
    for (uint32_t i = 0; i < m->variable_count; i++)
        variables += addresses[i] != 0;
    FILE *file = opened();
    fprintf(file, "launch %s %s %u,%u,%u %u,%u,%u %u,%u,%u %zu %u %zu %zu %u %u\n",
            program_invocation_short_name, kernel,
            shape->grid[0], shape->grid[1], shape->grid[2], shape->block[0], shape->block[1], shape->block[2],
            shape->cluster[0], shape->cluster[1], shape->cluster[2], shape->shared, shape->flags, strlen(texts[module]),
            used, (unsigned)f->signature.param_count, variables);
    for (uint32_t i = 0; i < f->signature.param_count; i++)
        fprintf(file, "%u %llu\n", (unsigned)f->signature.params[i].size, (unsigned long long)arguments[i]);
    for (uint32_t i = 0; i < m->variable_count; i++)
        if (addresses[i])
            fprintf(file, "%s %llu %llu\n", m->variables[i].name, (unsigned long long)addresses[i],
                    (unsigned long long)m->variables[i].size);
    fwrite(texts[module], 1, strlen(texts[module]), file);
    fwrite(memory, 1, used, file);
    fputc('\n', file);
    fclose(file);
}

void record_result(int error)
{
    if (!record_wanted() || !running)
        return;
    if (running == 1) {
        FILE *file = opened();
        fprintf(file, "result %d\n", error);
        fclose(file);
    }
    running--;
}
