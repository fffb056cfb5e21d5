/* The entry points: ptx_module_read and ptx_module_free. */
#include "softgpu/ptx/reader.h"

#include <stdio.h>
#include <stdlib.h>

static void reader_free(struct ptx_reader *reader)
{
    later_drop_text(reader);
    reader_drop_lists(reader);
    names_free(reader);
    if (reader->c_locale)
        freelocale(reader->c_locale);
    ptx_arena_destroy(reader->scratch);
    ptx_arena_destroy(reader->passing);
    ptx_arena_destroy(reader->arena);                  /* NULL when the module took it over */
    free(reader);
}

static bool read_units(struct ptx_reader *reader, const struct ptx_source *sources, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        reader->unit = (uint32_t)i;
        reader->unit_name = sources[i].name ? sources[i].name : "ptx";
        reader->unit_registers = sources[i].max_registers;
        if (sources[i].size > READER_MAX_TEXT)
            return reader_error(reader, 0, "a text of %zu bytes is too long", sources[i].size);
        struct ptx_source source = sources[i];
        if (reader->later && !later_start(reader, &source))
            return false;
        if (!lexer_start(reader, source.text, source.size) || !module_read_unit(reader))
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
    reader->later = options->later && count == 1;
    reader->horizon = UINT32_MAX;
    reader->log_size = log_size;
    reader->unit_name = count && sources[0].name ? sources[0].name : "ptx";
    reader->arena = reader->results = ptx_arena_create();
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
    if (module && reader->later && !later_keep(reader, module))
        module = NULL;
    if (!module || !module->later) {
        if (module)
            reader->arena = NULL;
        reader_free(reader);
    }
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

int ptx_module_read_later(const struct ptx_source *sources, size_t count, struct ptx_module **out, char *log,
                          size_t log_size)
{
    return ptx_module_read_with(sources, count, out, log, log_size, &(struct reader_options){ .later = true });
}

void ptx_module_free(struct ptx_module *module)
{
    if (module && module->later)
        reader_free(later_end(module->later));        /* and the arena, in which the module lives */
    else if (module)
        ptx_arena_destroy(module->arena);              /* the module itself lives in it */
}
