#include "tests/ptx/check.h"

enum { MODULES = 64, LOG = 512, TEXT = 16384 };

static struct ptx_module *modules[MODULES];
static size_t module_count;

int ptx_check_free(void **state)
{
    (void)state;
    while (module_count)
        ptx_module_free(modules[--module_count]);
    return 0;
}

static int read_sources(const struct ptx_source *sources, size_t count, struct ptx_module **module, char log[LOG])
{
    /* The reader must not look behind the end: the text is put at the end of memory that the sanitizers watch. */
    struct ptx_source copies[8];
    assert_true(count <= 8);
    for (size_t i = 0; i < count; i++) {
        char *copy = malloc(sources[i].size ? sources[i].size : 1);
        assert_non_null(copy);
        memcpy(copy, sources[i].text, sources[i].size);
        copies[i] = (struct ptx_source){ .text = copy, .size = sources[i].size, .name = sources[i].name };
    }
    int result = ptx_module_read(copies, count, module, log, LOG);
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)copies[i].text);
    return result;
}

static const struct ptx_module *read_or_fail(const struct ptx_source *sources, size_t count)
{
    char log[LOG];
    assert_true(module_count < MODULES);
    if (read_sources(sources, count, &modules[module_count], log) != 0)
        fail_msg("%s\n%.400s", log, sources[0].text);
    return modules[module_count++];
}

static void expect_refusal(const struct ptx_source *sources, size_t count, const char *message)
{
    char log[LOG];
    struct ptx_module *module = NULL;
    if (read_sources(sources, count, &module, log) == 0) {
        ptx_module_free(module);
        fail_msg("was read, but must not be:\n%.400s", sources[0].text);
    }
    if (!strstr(log, message))
        fail_msg("the log says '%s' and not '%s', of\n%.400s", log, message, sources[0].text);
}

/* Puts the head before each text; the buffers live until the caller's text is read. */
static void make_sources(struct ptx_source *sources, char (*buffers)[TEXT], const char *const *definitions,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int size = snprintf(buffers[i], TEXT, PTX_HEAD "%s\n", definitions[i]);
        assert_true(size > 0 && size < TEXT);
        sources[i] = (struct ptx_source){ .text = buffers[i], .size = (size_t)size, .name = i ? "second" : "first" };
    }
}

const struct ptx_module *ptx_check_text(const char *text)
{
    struct ptx_source source = { .text = text, .size = strlen(text), .name = "text" };
    return read_or_fail(&source, 1);
}

const struct ptx_module *ptx_check_link(const char *const *definitions, size_t count)
{
    static char buffers[4][TEXT];
    struct ptx_source sources[4];
    assert_true(count <= 4);
    make_sources(sources, buffers, definitions, count);
    return read_or_fail(sources, count);
}

const struct ptx_module *ptx_check_read(const char *definitions)
{
    return ptx_check_link(&definitions, 1);
}

void ptx_check_link_refused(const char *const *definitions, size_t count, const char *message)
{
    static char buffers[4][TEXT];
    struct ptx_source sources[4];
    assert_true(count <= 4);
    make_sources(sources, buffers, definitions, count);
    expect_refusal(sources, count, message);
}

void ptx_check_refused(const char *definitions, const char *message)
{
    ptx_check_link_refused(&definitions, 1, message);
}

static void make_kernel(char buffer[TEXT / 2], const char *definitions, const char *statements)
{
    int size = snprintf(
        buffer, TEXT / 2,
        "%s\n.visible .entry kernel(.param .u64 P, .param .u32 Q)\n{\n"
        ".reg .b32 %%r<10>; .reg .b64 %%rd<10>; .reg .pred %%p<4>; .reg .f32 %%f<8>; .reg .f64 %%fd<4>;\n%s\n}\n",
        definitions, statements);
    assert_true(size > 0 && size < TEXT / 2);
}

const struct ptx_function *ptx_check_body(const char *definitions, const char *statements)
{
    char buffer[TEXT / 2];
    make_kernel(buffer, definitions, statements);
    return ptx_check_function(ptx_check_read(buffer), "kernel");
}

void ptx_check_body_refused(const char *statements, const char *message)
{
    char buffer[TEXT / 2];
    make_kernel(buffer, "", statements);
    ptx_check_refused(buffer, message);
}

const struct ptx_variable *ptx_check_variable(const struct ptx_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->variable_count; i++)
        if (strcmp(module->variables[i].name, name) == 0)
            return &module->variables[i];
    fail_msg("no variable '%s'", name);
    return NULL;
}

const struct ptx_function *ptx_check_function(const struct ptx_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->function_count; i++)
        if (strcmp(module->functions[i].name, name) == 0)
            return &module->functions[i];
    fail_msg("no function '%s'", name);
    return NULL;
}
