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
    printf("%s\t%s\t%u\t%u\t%u\t%u\t%d\t%d", path, f->name, exec_registers_weigh(&measures, 2048),
           exec_registers_weigh(&measures, 1536), measures.narrow, measures.instructions, measures.calls,
           measures.calls_unknown);
    uint32_t threads = f->max_ntid[0] ? f->max_ntid[0] : f->req_ntid[0];
    for (int i = 1; i < 3; i++) {
        uint32_t n = f->max_ntid[0] ? f->max_ntid[i] : f->req_ntid[i];
        threads *= n ? n : 1;
    }
    printf("\t%u\t%u\t%u", threads, f->min_ncta_per_sm, f->max_nreg);
    for (int k = 0; k < MEASURES; k++)
        printf("\t%.6g", measures.of[k]);
    putchar('\n');
}

int main(int count, char **paths)
{
    int failed = 0;
    for (int i = 1; i < count; i++) {
        size_t size;
        char log[512] = "it cannot be read", *text = read_file(paths[i], &size);
        struct ptx_module *m;
        if (!text || ptx_module_read(&(struct ptx_source){ text, size, paths[i] }, 1, &m, log, sizeof log)) {
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
