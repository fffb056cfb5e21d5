/*
 * needs.c: what is measured in the functions of PTX files, and how many registers the software GPU says that their
 * kernels have: one line per kernel, for tests/exec/registers.py.
 *
 *     registers-of FILE …
 */
#include <stdio.h>
#include <stdlib.h>

#include "softgpu/exec/pressure.h"

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (text = malloc((size_t)ftell(file) + 1))) {
        *size = (size_t)ftell(file);
        rewind(file);
        if (fread(text, 1, *size, file) != *size) {
            free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}

static void print_kernel(const char *path, const struct ptx_module *m, const struct ptx_function *f)
{
    struct exec_measures measures;
    if (!exec_registers_measure(m, f, &measures))
        return;
    printf("%s\t%s\t%u\t%u\t%u\t%u\t%d\t%d\t%u\t%u\t%u", path, f->name, exec_registers_weigh(&measures, 2048),
           exec_registers_weigh(&measures, 1536), measures.needed, measures.instructions, measures.calls,
           measures.calls_unknown, measures.threads, f->min_ncta_per_sm, f->max_nreg);
    for (int k = 0; k < MEASURES; k++)
        printf("\t%.6g", measures.of[k]);
    for (int k = 0; k < LARGE_MEASURES; k++)
        printf("\t%.6g", measures.large[k]);
    putchar('\n');
}

int main(int count, char **paths)
{
    int failed = 0;
    for (int i = 1; i < count; i++) {
        size_t size = 0;
        char log[512] = "it cannot be read", *text = read_file(paths[i], &size);
        struct ptx_module *m;
        struct ptx_source source = { .text = text, .size = size, .name = paths[i] };
        if (!text || ptx_module_read(&source, 1, &m, log, sizeof log)) {
            fprintf(stderr, "%s: %s\n", paths[i], log);
            failed = 1;
        } else {
            for (uint32_t k = 0; k < m->function_count; k++)
                if (m->functions[k].is_entry && m->functions[k].defined)
                    print_kernel(paths[i], m, &m->functions[k]);
            ptx_module_free(m);
        }
        free(text);
    }
    return failed;
}
