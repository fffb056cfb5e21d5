/*
 * forms.c: what of a list of kernels the software GPU can decode, for forms.py.
 *
 * stdin: the head of a PTX module, a NUL, the rest of that line, then a kernel in each line. Each kernel is a module of
 * its own, behind the head. stdout: a line `NUMBER REASON` for each that cannot be decoded, counted from 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/engine.h"
#include "tests/exec/device.h"

enum { ALL_VARIABLES = 4096 }; /* where they pretend to be */

static char *read_all(size_t *size)
{
    size_t room = 1 << 20, have = 0, part = 1;
    char *text = NULL;
    for (; part; have += part) {
        char *more = realloc(text, room + 1);
        if (!more)
            exit(1);
        text = more;
        part = fread(text + have, 1, room - have, stdin);
        room = room - have - part ? room : 2 * room;
    }
    text[have] = '\0';
    *size = have;
    return text;
}

/* Decodes every entry of the module; takes it. */
static int decode(sg_engine *engine, struct ptx_module *module, char *log, size_t log_size)
{
    uint64_t *addresses = calloc(module->variable_count + 1u, sizeof *addresses);
    sg_program *program;
    if (!addresses)
        exit(1);
    for (uint32_t i = 0; i < module->variable_count; i++)
        addresses[i] = ALL_VARIABLES;
    if (sg_program_create(engine, module, addresses, NULL, &program))
        exit(1);
    free(addresses);
    int result = 0;
    for (uint32_t i = 0; i < module->function_count && !result; i++) {
        sg_kernel *kernel;
        if (module->functions[i].is_entry && module->functions[i].defined)
            result = sg_program_entry(program, i, &kernel, log, log_size);
    }
    sg_program_destroy(program);
    return result;
}

int main(void)
{
    size_t size;
    char *text = read_all(&size), log[512];
    size_t head = strlen(text);
    char *line = strchr(text + head + (head < size), '\n');
    char *whole = malloc(size + 2);
    struct sg_limits limits = device_limits(4, (size_t)1 << 30);
    sg_engine *engine;
    if (!line || !whole || sg_engine_create(&limits, 0, 1, 0, &engine))
        return 1;
    memcpy(whole, text, head);
    line++;
    for (unsigned number = 0; *line; number++) {
        size_t length = strcspn(line, "\n");
        memcpy(whole + head, line, length);
        whole[head + length] = '\0';
        struct ptx_source source = { .text = whole, .size = head + length, .name = "form" };
        struct ptx_module *module;
        log[0] = '\0';
        if (ptx_module_read_later(&source, 1, &module, log, sizeof log) || decode(engine, module, log, sizeof log))
            printf("%u %.300s\n", number, log);
        line += length + (line[length] == '\n');
    }
    sg_engine_destroy(engine);
    free(whole);
    free(text);
    return 0;
}
