#include "tests/ptx/same.h"

#include <string.h>

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_variable(const struct ptx_variable *a, const struct ptx_variable *b)
{
    return same_text(a->name, b->name) && a->space == b->space && a->type == b->type && a->vector == b->vector &&
           a->align == b->align && a->is_array == b->is_array && a->unsized == b->unsized && a->size == b->size &&
           a->linkage == b->linkage && a->managed == b->managed && a->assumed == b->assumed &&
           a->is_pointer == b->is_pointer && a->offset == b->offset && !a->init == !b->init &&
           (!a->init || memcmp(a->init, b->init, a->size) == 0) && a->relocation_count == b->relocation_count;
}

static bool same_variables(const struct ptx_variable *a, uint32_t a_count, const struct ptx_variable *b,
                           uint32_t b_count)
{
    for (uint32_t i = 0; i < a_count && a_count == b_count; i++)
        if (!same_variable(&a[i], &b[i]))
            return false;
    return a_count == b_count;
}

static bool same_prototype(const struct ptx_prototype *a, const struct ptx_prototype *b)
{
    return a->noreturn == b->noreturn && same_variables(a->returns, a->return_count, b->returns, b->return_count) &&
           same_variables(a->params, a->param_count, b->params, b->param_count);
}

static bool same_operands(const struct ptx_operand *a, uint32_t a_count, const struct ptx_operand *b, uint32_t b_count)
{
    if (a_count != b_count)
        return false;
    for (uint32_t i = 0; i < a_count; i++) {
        if (a[i].kind != b[i].kind || a[i].negated != b[i].negated || a[i].is_unsigned != b[i].is_unsigned ||
            a[i].has_register != b[i].has_register || a[i].has_variable != b[i].has_variable ||
            a[i].bracketed != b[i].bracketed || a[i].component != b[i].component ||
            a[i].float_bits != b[i].float_bits || a[i].scope != b[i].scope || a[i].reg != b[i].reg ||
            a[i].index != b[i].index || a[i].integer != b[i].integer || a[i].bits != b[i].bits ||
            !same_text(a[i].text, b[i].text) || !a[i].second != !b[i].second ||
            !same_operands(a[i].elements, a[i].element_count, b[i].elements, b[i].element_count) ||
            (a[i].second && !same_operands(a[i].second, 1, b[i].second, 1)))
            return false;
    }
    return true;
}

static bool same_instruction(const struct ptx_instruction *a, const struct ptx_instruction *b)
{
    for (uint32_t i = 0; i < a->modifier_count && a->modifier_count == b->modifier_count; i++)
        if (!same_text(a->modifiers[i], b->modifiers[i]))
            return false;
    return a->modifier_count == b->modifier_count && same_text(a->opcode, b->opcode) && a->guard == b->guard &&
           a->guard_negated == b->guard_negated && a->line == b->line && a->source_file == b->source_file &&
           a->source_line == b->source_line &&
           same_operands(a->operands, a->operand_count, b->operands, b->operand_count);
}

const char *ptx_same_body(const struct ptx_function *a, const struct ptx_function *b)
{
    if (a->register_count != b->register_count || a->instruction_count != b->instruction_count ||
        a->prototype_count != b->prototype_count)
        return "the numbers of registers, instructions or prototypes differ";
    if (!same_variables(a->variables, a->variable_count, b->variables, b->variable_count))
        return "the variables of a function differ";
    for (uint32_t i = 0; i < a->register_count; i++)
        if (!same_text(a->registers[i].name, b->registers[i].name) || a->registers[i].type != b->registers[i].type ||
            a->registers[i].vector != b->registers[i].vector)
            return "a register differs";
    for (uint32_t i = 0; i < a->prototype_count; i++)
        if (!same_prototype(&a->prototypes[i], &b->prototypes[i]))
            return "a prototype differs";
    for (uint32_t i = 0; i < a->instruction_count; i++)
        if (!same_instruction(&a->instructions[i], &b->instructions[i]))
            return "an instruction differs";
    return NULL;
}

static bool same_function(const struct ptx_function *a, const struct ptx_function *b)
{
    return same_text(a->name, b->name) && a->is_entry == b->is_entry && a->defined == b->defined &&
           a->address_taken == b->address_taken && a->noreturn == b->noreturn && a->linkage == b->linkage &&
           same_prototype(&a->signature, &b->signature) && a->param_size == b->param_size &&
           memcmp(a->max_ntid, b->max_ntid, sizeof a->max_ntid) == 0 &&
           memcmp(a->req_ntid, b->req_ntid, sizeof a->req_ntid) == 0 && a->min_ncta_per_sm == b->min_ncta_per_sm &&
           a->max_nreg == b->max_nreg && memcmp(a->req_cluster, b->req_cluster, sizeof a->req_cluster) == 0 &&
           a->max_cluster_rank == b->max_cluster_rank && a->explicit_cluster == b->explicit_cluster &&
           a->blocks_are_clusters == b->blocks_are_clusters && a->unit == b->unit;
}

const char *ptx_same_module(const struct ptx_module *whole, struct ptx_module *later)
{
    static char log[256];
    if (whole->version_major != later->version_major || whole->version_minor != later->version_minor ||
        whole->target != later->target || whole->function_count != later->function_count ||
        whole->file_count != later->file_count)
        return "the modules differ";
    if (!same_variables(whole->variables, whole->variable_count, later->variables, later->variable_count))
        return "the variables of the modules differ";
    for (uint32_t i = 0; i < whole->function_count; i++) {
        const struct ptx_function *a = &whole->functions[i], *b = &later->functions[i];
        if (!same_function(a, b))
            return "two functions differ";
        if (ptx_function_read(later, i, log, sizeof log))
            return log;
        const char *differ = ptx_same_body(a, b);
        if (differ)
            return differ;
    }
    return NULL;
}
