/*
 * Linking: the slots of module scope, which definition wins, and the finished module.
 *
 *   new \ held     declared   .common            .weak          .visible or local
 *   declared       –          –                  –              –
 *   .common        takes      the larger takes   –              –
 *   .weak          takes      takes              –              –
 *   .visible       takes      takes              takes          error
 *
 * A variable declared with two sizes is an error, as it is for nvlink (.common excepted).
 * Follows: PTX ISA, "Linking Directives".
 */
#include <string.h>

#include "softgpu/ptx/reader.h"

enum { LINKED_NOT, LINKED_VARIABLE, LINKED_FUNCTION };

static struct reader_variable *variable_at(struct ptx_reader *reader, uint32_t slot)
{
    return &((struct reader_variable *)reader->variables.items)[slot];
}

static struct reader_function *function_at(struct ptx_reader *reader, uint32_t slot)
{
    return &((struct reader_function *)reader->functions.items)[slot];
}

/* The slot of a name declared in the current scope; *fresh when it holds nothing yet. */
static bool find_slot(struct ptx_reader *reader, struct reader_name *name, enum ptx_linkage linkage,
                      enum binding_kind kind, uint32_t *slot, bool *fresh)
{
    uint8_t linked = kind == BINDING_VARIABLE ? LINKED_VARIABLE : LINKED_FUNCTION;
    struct reader_vector *slots = kind == BINDING_VARIABLE ? &reader->variables : &reader->functions;
    struct reader_binding *binding = name->binding;
    uint32_t line = reader->token.line;
    *fresh = false;

    if (linkage != PTX_LINK_LOCAL && name->linked && name->linked != linked)
        return reader_error(reader, line, "'%s' is a function in one place and a variable in another", name->text);
    if (binding && binding->depth == reader->depth) {
        if (binding->kind != kind)
            return reader_error(reader, line, "'%s' is declared twice, as different things", name->text);
        *slot = binding->index;
    } else {
        binding = names_bind(reader, name, kind, reader->depth);
        if (!binding)
            return false;
        if (linkage != PTX_LINK_LOCAL && name->linked) {
            *slot = name->slot;
        } else {
            if (!reader_push(reader, slots,
                             kind == BINDING_VARIABLE ? sizeof(struct reader_variable)
                                                      : sizeof(struct reader_function)))
                return false;
            *slot = (uint32_t)(slots->count - 1);
            *fresh = true;
        }
        binding->index = *slot;
    }
    if (linkage == PTX_LINK_LOCAL)
        return true;
    if (name->linked && name->slot != *slot)
        return reader_error(reader, line,
                            "'%s' is declared here both with and without linkage, and defined in another text",
                            name->text);
    name->linked = linked;
    name->slot = *slot;
    return true;
}

/* Whether a new definition takes the place of the one that is held. false after an error, too. */
static bool takes(struct ptx_reader *reader, const char *name, enum ptx_linkage held, enum ptx_linkage fresh,
                  bool larger)
{
    if (fresh == PTX_LINK_COMMON)
        return held == PTX_LINK_COMMON && larger;
    if (held == PTX_LINK_COMMON)
        return true;
    if (fresh == PTX_LINK_WEAK)
        return false;
    if (held == PTX_LINK_WEAK)
        return true;
    return reader_error(reader, reader->token.line, "'%s' is defined twice", name);
}

bool link_variable(struct ptx_reader *reader, struct reader_name *name, const struct ptx_variable *variable,
                   bool defined, uint32_t *slot, bool *keep)
{
    bool fresh;
    *keep = false;
    if (!find_slot(reader, name, variable->linkage, BINDING_VARIABLE, slot, &fresh))
        return false;
    struct reader_variable *held = variable_at(reader, *slot);
    if (!fresh && held->variable.space != variable->space)
        return reader_error(reader, reader->token.line, "'%s' is declared in two state spaces", name->text);

    bool sized = !fresh && !held->variable.unsized && !variable->unsized;
    if (sized && held->variable.size != variable->size && held->variable.linkage != PTX_LINK_COMMON &&
        variable->linkage != PTX_LINK_COMMON)
        return reader_error(reader, reader->token.line,
                            "'%s' has %llu bytes here and %llu bytes in another declaration", name->text,
                            (unsigned long long)variable->size, (unsigned long long)held->variable.size);
    if (fresh)
        *keep = true;
    else if (!held->defined)
        *keep = defined;
    else if (defined)
        *keep =
            takes(reader, name->text, held->variable.linkage, variable->linkage, variable->size > held->variable.size);
    if (*keep) {
        unsigned align = held->variable.align;
        held->variable = *variable;
        held->defined = defined;
        if (align > variable->align)
            held->variable.align = align;
    } else if (variable->align > held->variable.align) {
        held->variable.align = variable->align;        /* every declaration may count on its alignment */
    }
    return !reader->failed;
}

/* function->defined: a body follows. *keep: it is wanted; the caller reads it and calls again with nothing but the
   slot. */
bool link_function(struct ptx_reader *reader, struct reader_name *name, const struct ptx_function *function,
                   uint32_t *slot, bool *keep)
{
    bool fresh;
    *keep = false;
    if (!find_slot(reader, name, function->linkage, BINDING_FUNCTION, slot, &fresh))
        return false;
    struct reader_function *held = function_at(reader, *slot);
    if (!fresh && held->function.is_entry != function->is_entry)
        return reader_error(reader, reader->token.line, "'%s' is .entry in one place and .func in another", name->text);

    bool noreturn = held->function.noreturn || function->noreturn;
    if (fresh || (!held->function.defined && function->defined)) {
        enum ptx_linkage linkage = fresh ? PTX_LINK_LOCAL : held->function.linkage;
        *keep = true;
        held->function = *function;
        if (function->linkage == PTX_LINK_LOCAL && linkage != PTX_LINK_EXTERN)
            held->function.linkage = linkage;          /* .visible .func f; … .func f { } */
    } else if (held->function.defined && function->defined) {
        *keep = takes(reader, name->text, held->function.linkage, function->linkage, false);
        if (*keep)
            held->function = *function;
    }
    held->function.noreturn = noreturn;
    return !reader->failed;
}

struct ptx_function *link_function_at(struct ptx_reader *reader, uint32_t slot)
{
    return &function_at(reader, slot)->function;
}

/* A body that is read later says nothing new: the slots have gone by then. */
void link_take_address(struct ptx_reader *reader, uint32_t slot)
{
    if (slot < reader->functions.count)
        function_at(reader, slot)->address_taken = true;
}

void link_set_body(struct ptx_reader *reader, uint32_t slot, const struct reader_body *body)
{
    function_at(reader, slot)->body = *body;
}

static bool resolve_relocations(struct ptx_reader *reader, const struct reader_pending *pending)
{
    struct ptx_variable *variable = &variable_at(reader, pending->variable)->variable;
    if (variable->init != pending->init)
        return true;                                   /* another definition took its place */
    struct ptx_relocation *relocations = reader_alloc(reader, pending->count, sizeof *relocations);
    if (!relocations)
        return false;
    for (size_t i = 0; i < pending->count; i++) {
        const struct reader_relocation *source = &pending->relocations[i];
        const struct reader_binding *binding = source->name->binding;
        if (!binding || (binding->kind != BINDING_VARIABLE && binding->kind != BINDING_FUNCTION))
            return reader_error(reader, source->line, "the initialiser of '%s' names '%s', which is not declared",
                                variable->name, source->name->text);
        relocations[i] = source->relocation;
        relocations[i].symbol = binding->index;
        relocations[i].is_function = binding->kind == BINDING_FUNCTION;
        if (relocations[i].is_function)
            link_take_address(reader, binding->index);
    }
    variable->relocations = relocations;
    variable->relocation_count = pending->count;
    return true;
}

static bool resolve_alias(struct ptx_reader *reader, const struct reader_alias *alias)
{
    const struct reader_binding *name = alias->name->binding, *target = alias->target->binding;
    if (!name || name->kind != BINDING_FUNCTION || !target || target->kind != BINDING_FUNCTION)
        return reader_error(reader, alias->line, ".alias %s, %s: both must be functions declared here",
                            alias->name->text, alias->target->text);
    struct reader_function *held = function_at(reader, name->index);
    struct ptx_function *function = &held->function;
    const struct ptx_function *body = &function_at(reader, target->index)->function;
    if (function->defined)
        return reader_error(reader, alias->line, ".alias %s, %s: the first has a body", alias->name->text,
                            alias->target->text);
    if (!body->defined)
        return reader_error(reader, alias->line, ".alias %s, %s: the second has no body", alias->name->text,
                            alias->target->text);
    enum ptx_linkage linkage = function->linkage == PTX_LINK_EXTERN ? PTX_LINK_VISIBLE : function->linkage;
    bool taken = held->address_taken;
    *held = *function_at(reader, target->index);
    held->address_taken |= taken;
    function->name = alias->name->text;
    function->linkage = linkage;
    return true;
}

bool link_finish_unit(struct ptx_reader *reader)
{
    const struct reader_pending *pending = reader->pending.items;
    for (size_t i = 0; i < reader->pending.count; i++)
        if (!resolve_relocations(reader, &pending[i]))
            return false;
    const struct reader_alias *aliases = reader->aliases.items;
    for (size_t i = 0; i < reader->aliases.count; i++)
        if (!resolve_alias(reader, &aliases[i]))
            return false;
    reader->pending.count = 0;
    reader->aliases.count = 0;
    if (!reader->later)                                /* bodies read later need its names */
        names_close_scope(reader);
    return true;
}

/* What becomes of an .extern variable that no text defines. A single text is a whole program: there the driver's
   compiler takes the declaration for the definition. A link of several is as strict as nvlink. */
static bool settle_extern(struct ptx_reader *reader, struct ptx_variable *variable, bool whole_program)
{
    if (variable->space == PTX_SPACE_SHARED && variable->unsized)
        return true;                                   /* dynamic shared memory */
    if (!whole_program || variable->unsized)
        return reader_error(reader, 0, "the variable '%s' is .extern and no text of the link defines it",
                            variable->name);
    variable->linkage = PTX_LINK_VISIBLE;
    variable->assumed = true;
    return true;
}

struct ptx_module *link_finish(struct ptx_reader *reader)
{
    struct ptx_module *module = reader_alloc(reader, 1, sizeof *module);
    struct ptx_variable *variables = reader_alloc(reader, reader->variables.count, sizeof *variables);
    struct ptx_function *functions = reader_alloc(reader, reader->functions.count, sizeof *functions);
    if (!module || !variables || !functions)
        return NULL;
    for (uint32_t i = 0; i < reader->variables.count; i++) {
        const struct reader_variable *held = variable_at(reader, i);
        variables[i] = held->variable;
        if (!held->defined && !settle_extern(reader, &variables[i], reader->unit == 0))
            return NULL;
    }
    for (uint32_t i = 0; i < reader->functions.count; i++) {
        functions[i] = function_at(reader, i)->function;
        functions[i].address_taken = function_at(reader, i)->address_taken;
    }
    const struct ptx_file *files = reader_keep(reader, &reader->files, 0, sizeof *files);
    if (reader->files.count && !files)
        return NULL;
    *module = (struct ptx_module){
        .version_major = reader->version_major,
        .version_minor = reader->version_minor,
        .target = reader->target,
        .texmode_independent = reader->any_texmode_independent,
        .variables = variables,
        .variable_count = (uint32_t)reader->variables.count,
        .functions = functions,
        .function_count = (uint32_t)reader->functions.count,
        .files = files,
        .file_count = (uint32_t)reader->files.count,
        .arena = reader->arena,
    };
    return module;
}

const char *ptx_source_file(const struct ptx_module *m, const struct ptx_function *f, uint32_t number)
{
    for (uint32_t i = 0; i < m->file_count; i++)
        if (m->files[i].unit == f->unit && m->files[i].number == number)
            return m->files[i].name;
    return NULL;
}

bool ptx_is_builtin(const char *name)
{
    static const char *const builtins[] = { "vprintf", "malloc", "free", "__assertfail", "cudaGraphSetConditional",
                                             "cudaGraphLaunch" };
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (strcmp(name, builtins[i]) == 0)
            return true;
    return !strncmp(name, "__cuda_syscall_cnpv2", 20);        /* softgpu/exec/device_runtime.c */
}
