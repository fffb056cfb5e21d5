/*
 * later.c: bodies that are read when somebody asks for them.
 *
 * Reading a module checks every body, so that a mistake shows when the module is loaded, but keeps none: most kernels
 * of a library are never launched, and their tree takes some eight times the room of their text. The module keeps
 * the text and the reader with its names; of a text that is mostly something else (initial values, debug information,
 * blanks) it keeps the bodies alone. A body is then read as if it were the first time: names that the module declared
 * behind it are not known to it (horizon).
 *
 * A body that changes the module (variables of module scope declared inside it) or looks at what later declarations
 * change (.calltargets, x[1]) is read at once. So is every body of a link of several texts, where each text has names
 * of its own.
 *
 * The lock guards the reader and the arena. What a thread reads of a function without the lock is not written here:
 * only the members of the body are, before `ready`.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/budget.h"
#include "softgpu/ptx/reader.h"

struct later_body { struct reader_body text; atomic_bool ready; };

struct ptx_later {                    /* in the module's arena */
    pthread_mutex_t    lock;
    struct ptx_reader *reader;
    struct later_body *bodies;        /* of module->functions; text.start NULL: nothing is left to read */
};

/* NULL: there is no memory, or not so much in the budget. */
static char *text_make(size_t room)
{
    if (!ptx_budget_take(room))
        return NULL;
    char *text = malloc(room);
    if (!text)
        ptx_budget_give(room);
    return text;
}

void later_drop_text(struct ptx_reader *reader)
{
    free(reader->text);
    ptx_budget_give(reader->text_room);
    reader->text = NULL;
    reader->text_room = 0;
}

/* Replaces the text by a copy that lives as long as it is needed. The NUL behind it ends what scan.c looks at. */
bool later_start(struct ptx_reader *reader, struct ptx_source *source)
{
    size_t size = strnlen(source->text, source->size);
    char *name = ptx_arena_string(reader->arena, reader->unit_name, strlen(reader->unit_name));
    reader->passing = ptx_arena_create();
    reader->text = text_make(size + 1);
    if (!reader->text || !name || !reader->passing)
        return reader_error(reader, 0, "out of memory for a text of %zu bytes", size);
    reader->text_room = size + 1;
    memcpy(reader->text, source->text, size);
    reader->text[size] = 0;
    reader->unit_name = name; /* messages about bodies need it as long */
    *source = (struct ptx_source){ .text = reader->text, .size = size, .name = name };
    return true;
}

/* Keeps the bodies alone, if that is less than half of the text. */
static void text_shrink(struct ptx_reader *reader, struct later_body *bodies, uint32_t count)
{
    size_t room = 1;
    for (uint32_t i = 0; i < count; i++)
        room += bodies[i].text.start ? bodies[i].text.size + 1 : 0;
    char *text = room < reader->text_room / 2 ? text_make(room) : NULL, *at = text;
    if (!text)
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct reader_body *body = &bodies[i].text;
        if (!body->start)
            continue;
        memcpy(at, body->start, body->size);
        at[body->size] = 0;
        body->start = at;
        at += body->size + 1;
    }
    later_drop_text(reader);
    reader->text = text;
    reader->text_room = room;
}

/* The module is whole: it owns the reader from now on. */
bool later_keep(struct ptx_reader *reader, struct ptx_module *module)
{
    struct ptx_later *later = reader_alloc(reader, 1, sizeof *later);
    struct later_body *bodies = reader_alloc(reader, module->function_count, sizeof *bodies);
    if (!later || !bodies)
        return false;
    const struct reader_function *functions = reader->functions.items;
    for (uint32_t i = 0; i < module->function_count; i++)
        bodies[i].text = functions[i].body;
    text_shrink(reader, bodies, module->function_count);
    pthread_mutex_init(&later->lock, NULL);
    later->reader = reader;
    later->bodies = bodies;
    module->later = later;
    reader->log = NULL;
    reader_drop_lists(reader);
    return true;
}

struct ptx_reader *later_end(struct ptx_later *later)
{
    pthread_mutex_destroy(&later->lock);
    return later->reader;
}

static int read_body(struct ptx_reader *reader, struct ptx_function *function, const struct reader_body *body,
                     char *log, size_t log_size)
{
    struct ptx_function fresh = *function;
    reader->log = log;
    reader->log_size = log_size;
    reader->failed = false;
    reader->members = 0;              /* they were counted when the body was checked */
    reader->horizon = body->declared;
    reader->cursor = body->start;
    reader->end = body->start + body->size;
    reader->line = body->line;
    lexer_next(reader);
    bool good = function_read_body(reader, &fresh);
    function_leave_scopes(reader);
    reader_drop_lists(reader);
    reader->log = NULL;
    if (!good)
        return -1;
    function->registers = fresh.registers;
    function->register_count = fresh.register_count;
    function->variables = fresh.variables;
    function->variable_count = fresh.variable_count;
    function->instructions = fresh.instructions;
    function->instruction_count = fresh.instruction_count;
    function->prototypes = fresh.prototypes;
    function->prototype_count = fresh.prototype_count;
    return 0;
}

int ptx_function_read(struct ptx_module *module, uint32_t index, char *log, size_t log_size)
{
    struct ptx_later *later = module->later;
    struct later_body *body = later ? &later->bodies[index] : NULL;
    int result = 0;
    if (!body || !body->text.start || atomic_load_explicit(&body->ready, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&later->lock);
    if (!atomic_load_explicit(&body->ready, memory_order_relaxed)) {
        result = read_body(later->reader, (struct ptx_function *)(uintptr_t)&module->functions[index], &body->text, log,
                           log_size);
        if (!result)
            atomic_store_explicit(&body->ready, true, memory_order_release);
    }
    pthread_mutex_unlock(&later->lock);
    return result;
}
