/* The entry points: ptx_module_read and ptx_module_free. */
#include "softgpu/ptx/reader.h"

#include <stdio.h>
#include <stdlib.h>

static void reader_free(struct ptx_reader *reader)
{
    struct reader_vector *vectors[] = {
        &reader->variables,  &reader->functions, &reader->relocations, &reader->pending, &reader->aliases,
        &reader->files,      &reader->bytes,     &reader->registers,   &reader->locals,  &reader->instructions,
        &reader->prototypes, &reader->operands,  &reader->params,
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        free(vectors[i]->items);
    names_free(reader);
    if (reader->c_locale)
        freelocale(reader->c_locale);
    ptx_arena_destroy(reader->scratch);
    ptx_arena_destroy(reader->arena);                  /* NULL when the module took it over */
    free(reader);
}

static bool read_units(struct ptx_reader *reader, const struct ptx_source *sources, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        reader->unit = (uint32_t)i;
        reader->unit_name = sources[i].name ? sources[i].name : "ptx";
        if (sources[i].size > READER_MAX_TEXT)
            return reader_error(reader, 0, "a text of %zu bytes is too long", sources[i].size);
        if (!lexer_start(reader, sources[i].text, sources[i].size) || !module_read_unit(reader))
            return false;
    }
    return true;
}

int ptx_module_read_with(const struct ptx_source *sources, size_t count, struct ptx_module **out, char *log,
                         size_t log_size, const struct reader_options *options)
{
    if (log && log_size)
        log[0] = '\0';
    struct ptx_reader *reader = calloc(1, sizeof *reader);
    if (!reader) {
        if (log)
            snprintf(log, log_size, "out of memory for a PTX reader");
        return -1;
    }
    reader->log = log;
    reader->outline = options->outline;
    reader->log_size = log_size;
    reader->unit_name = count && sources[0].name ? sources[0].name : "ptx";
    reader->arena = ptx_arena_create();
    reader->scratch = ptx_arena_create();

    struct ptx_module *module = NULL;
    if (!reader->arena || !reader->scratch)
        reader_error(reader, 0, "out of memory");
    else if (count > UINT32_MAX)
        reader_error(reader, 0, "%zu texts are too many", count);
    else if (names_init(reader) && read_units(reader, sources, count))
        module = link_finish(reader);
    if (options->operations)
        *options->operations = reader->operations;
    if (module)
        reader->arena = NULL;
    reader_free(reader);
    if (!module)
        return -1;
    *out = module;
    return 0;
}

int ptx_module_read(const struct ptx_source *sources, size_t count, struct ptx_module **out, char *log, size_t log_size)
{
    return ptx_module_read_with(sources, count, out, log, log_size, &(struct reader_options){ 0 });
}

int ptx_module_read_outline(const struct ptx_source *sources, size_t count, struct ptx_module **out, char *log,
                            size_t log_size)
{
    return ptx_module_read_with(sources, count, out, log, log_size, &(struct reader_options){ .outline = true });
}

void ptx_module_free(struct ptx_module *module)
{
    if (module)
        ptx_arena_destroy(module->arena);              /* the module itself lives in it */
}
