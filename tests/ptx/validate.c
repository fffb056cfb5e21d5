#include "tests/ptx/validate.h"

#include <string.h>

static const char *check_operand(const struct ptx_module *module, const struct ptx_function *f,
                                 const struct ptx_operand *o, unsigned depth);

static const char *check_variable_index(const struct ptx_module *module, const struct ptx_function *f,
                                        const struct ptx_operand *o)
{
    uint32_t count = o->scope == PTX_SCOPE_MODULE     ? module->variable_count
                     : o->scope == PTX_SCOPE_FUNCTION ? f->variable_count
                     : o->scope == PTX_SCOPE_PARAM    ? f->signature.param_count
                     : o->scope == PTX_SCOPE_RETURN   ? f->signature.return_count
                                                      : 0;
    return o->index < count ? NULL : "the variable of an operand does not exist";
}

static const char *check_elements(const struct ptx_module *module, const struct ptx_function *f,
                                  const struct ptx_operand *o, unsigned depth)
{
    if (o->element_count && !o->elements)
        return "an operand has no elements";
    for (uint32_t i = 0; i < o->element_count; i++) {
        const char *wrong = check_operand(module, f, &o->elements[i], depth + 1);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *check_operand(const struct ptx_module *module, const struct ptx_function *f,
                                 const struct ptx_operand *o, unsigned depth)
{
    if (depth > 100)
        return "operands are nested without end";
    if (o->component < -1 || o->component > PTX_SELECTOR)
        return "a component is out of range";
    if (o->second) {
        if (o->second->second)
            return "a second destination has a second one";
        const char *wrong = check_operand(module, f, o->second, depth + 1);
        if (wrong)
            return wrong;
    }
    switch (o->kind) {
    case PTX_OP_REGISTER:
        return o->reg < f->register_count ? NULL : "a register does not exist";
    case PTX_OP_SPECIAL:
        return o->text && *o->text ? NULL : "a special register has no name";
    case PTX_OP_INTEGER: case PTX_OP_SINK:
        return NULL;
    case PTX_OP_FLOAT:
        return o->float_bits == 32 || o->float_bits == 64 ? NULL : "a constant has no width";
    case PTX_OP_VARIABLE:
        return check_variable_index(module, f, o);
    case PTX_OP_MEMORY:
        if (o->has_register && o->reg >= f->register_count)
            return "the base register does not exist";
        return o->has_variable ? check_variable_index(module, f, o) : NULL;
    case PTX_OP_LABEL:
        return o->index <= f->instruction_count ? NULL : "a label lies behind the function";
    case PTX_OP_FUNCTION:
        return o->index < module->function_count ? NULL : "a function does not exist";
    case PTX_OP_PROTOTYPE:
        if (o->index >= f->prototype_count)
            return "a prototype does not exist";
        return check_elements(module, f, o, depth);
    case PTX_OP_VECTOR: case PTX_OP_LIST: case PTX_OP_LABEL_TABLE:
        return check_elements(module, f, o, depth);
    }
    return "an operand of an unknown kind";
}

static const char *check_variable(const struct ptx_module *module, const struct ptx_variable *v)
{
    if (!v->name || v->type >= PTX_TYPE_COUNT || (v->vector != 1 && v->vector != 2 && v->vector != 4) || !v->align ||
        (v->align & (v->align - 1)))
        return "a variable is malformed";
    if (v->relocation_count && !v->init)
        return "a variable has addresses and no bytes";
    if (v->init && v->size && v->init[0] + v->init[v->size - 1] < 0)   /* reads them */
        return "never";
    for (size_t i = 0; i < v->relocation_count; i++) {
        const struct ptx_relocation *r = &v->relocations[i];
        if (r->size > v->size || r->offset > v->size - r->size || (r->size != 1 && r->size != 4 && r->size != 8) ||
            r->shift > 56)
            return "an address lies outside its variable";
        if (r->symbol >= (r->is_function ? module->function_count : module->variable_count))
            return "the symbol of an address does not exist";
    }
    return NULL;
}

static const char *check_signature(const struct ptx_module *module, const struct ptx_prototype *p)
{
    const char *wrong = NULL;
    for (uint32_t i = 0; i < p->param_count && !wrong; i++)
        wrong = check_variable(module, &p->params[i]);
    for (uint32_t i = 0; i < p->return_count && !wrong; i++)
        wrong = check_variable(module, &p->returns[i]);
    return wrong;
}

static const char *check_function(const struct ptx_module *module, const struct ptx_function *f)
{
    const char *wrong = f->name ? check_signature(module, &f->signature) : "a function has no name";
    for (uint32_t i = 0; i < f->variable_count && !wrong; i++)
        wrong = check_variable(module, &f->variables[i]);
    for (uint32_t i = 0; i < f->prototype_count && !wrong; i++)
        wrong = check_signature(module, &f->prototypes[i]);
    for (uint32_t i = 0; i < f->register_count && !wrong; i++)
        wrong = f->registers[i].name && f->registers[i].type < PTX_TYPE_COUNT ? NULL : "a register is malformed";
    for (uint32_t i = 0; i < f->instruction_count && !wrong; i++) {
        const struct ptx_instruction *instruction = &f->instructions[i];
        if (!instruction->opcode || (instruction->guard >= 0 && (uint32_t)instruction->guard >= f->register_count))
            return "an instruction is malformed";
        for (uint32_t m = 0; m < instruction->modifier_count; m++)
            if (!instruction->modifiers[m] || strchr(instruction->modifiers[m], '.'))
                return "a modifier is malformed";
        for (uint32_t o = 0; o < instruction->operand_count && !wrong; o++)
            wrong = check_operand(module, f, &instruction->operands[o], 0);
    }
    return wrong;
}

const char *ptx_validate(const struct ptx_module *module)
{
    const char *wrong = NULL;
    for (uint32_t i = 0; i < module->variable_count && !wrong; i++)
        wrong = check_variable(module, &module->variables[i]);
    for (uint32_t i = 0; i < module->function_count && !wrong; i++)
        wrong = check_function(module, &module->functions[i]);
    return wrong;
}
