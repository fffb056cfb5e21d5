/* ptx_read [-b|-o] FILE…: reads and links PTX texts as one module and prints what they hold; -b: with the bytes of
   initialised variables; -o: without bodies. Reads the bodies later, too, and compares. Exit code 1: not readable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/ptx.h"
#include "tests/ptx/same.h"
#include "tests/ptx/validate.h"

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        long end = ftell(file);
        rewind(file);
        text = end >= 0 ? malloc((size_t)end + 1) : NULL;
        if (text)
            *size = fread(text, 1, (size_t)end, file);
    }
    fclose(file);
    return text;
}

static void print_bytes(const struct ptx_variable *variable)
{
    printf("%s:", variable->name);
    for (uint64_t i = 0; variable->init && i < variable->size; i++)
        printf(" %02x", variable->init[i]);
    for (size_t i = 0; i < variable->relocation_count; i++) {
        const struct ptx_relocation *r = &variable->relocations[i];
        printf(" [%zu+%u %s%s%u%+lld >>%u]", r->offset, r->size, r->generic ? "generic " : "",
               r->is_function ? "f" : "v", r->symbol, (long long)r->addend, r->shift);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    struct ptx_source *sources = calloc((size_t)argc, sizeof *sources);
    struct ptx_module *module = NULL;
    char log[1024];
    int result = 1;
    bool bytes = argc > 1 && strcmp(argv[1], "-b") == 0;
    if (!sources)
        return 1;
    bool outline = argc > 1 && strcmp(argv[1], "-o") == 0;
    if (bytes || outline) {
        argv++;
        argc--;
    }
    for (int i = 1; i < argc; i++) {
        struct ptx_source *source = &sources[i - 1];
        source->name = argv[i];
        source->text = read_file(argv[i], &source->size);
        if (!source->text) {
            fprintf(stderr, "ptx_read: cannot read %s\n", argv[i]);
            goto done;
        }
    }
    if ((outline ? ptx_module_read_outline : ptx_module_read)(sources, (size_t)argc - 1, &module, log, sizeof log) !=
        0) {
        fprintf(stderr, "%s\n", log);
        goto done;
    }
    const char *wrong = ptx_validate(module);
    if (!wrong && !outline) {
        struct ptx_module *later;
        wrong = ptx_module_read_later(sources, (size_t)argc - 1, &later, log, sizeof log) ? log : NULL;
        if (!wrong) {
            wrong = ptx_same_module(module, later);
            ptx_module_free(later);
        }
    }
    if (wrong) {
        fprintf(stderr, "ptx_read: %s\n", wrong);
        goto done;
    }
    unsigned long long instructions = 0;
    uint32_t entries = 0, undefined = 0;
    for (uint32_t i = 0; i < module->function_count; i++) {
        const struct ptx_function *function = &module->functions[i];
        instructions += function->instruction_count;
        entries += function->is_entry;
        undefined += !function->defined && !ptx_is_builtin(function->name);
        if (!function->defined)
            printf("undefined %s\n", function->name);
    }
    for (uint32_t i = 0; bytes && i < module->variable_count; i++)
        print_bytes(&module->variables[i]);
    printf("version %u.%u sm_%u: %u variables, %u functions, %u of them kernels, %u undefined, %llu instructions\n",
           module->version_major, module->version_minor, module->target, module->variable_count,
           module->function_count, entries, undefined, instructions);
    result = 0;
done:
    for (int i = 0; i + 1 < argc; i++)
        free((void *)(uintptr_t)sources[i].text);
    free(sources);
    ptx_module_free(module);
    return result;
}
