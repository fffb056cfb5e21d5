/* Several texts as one module. */
#include "tests/ptx/check.h"

static const struct ptx_module *both(const char *first, const char *second)
{
    return ptx_check_link((const char *const[]){ first, second }, 2);
}

static void neither(const char *first, const char *second, const char *message)
{
    ptx_check_link_refused((const char *const[]){ first, second }, 2, message);
}

TEST_WITH(functions_are_found, NULL, ptx_check_free)
{
    static const char caller[] = ".extern .func (.param .b32 r) f(.param .b32 a);\n.visible .entry k() { .param .b32 "
                                 "p; call (p), f, (p); ret; }";
    static const char callee[] = ".visible .func (.param .b32 r) f(.param .b32 a) { exit; }";
    for (int order = 0; order < 2; order++) {
        const struct ptx_module *module = order ? both(callee, caller) : both(caller, callee);
        assert_int_equal(module->function_count, 2);
        const struct ptx_function *k = ptx_check_function(module, "k"), *f = ptx_check_function(module, "f");
        assert_ptr_equal(&module->functions[k->instructions[0].operands[1].index], f);
        assert_true(f->defined);
        assert_int_equal(f->linkage, PTX_LINK_VISIBLE);
        assert_string_equal(f->instructions[0].opcode, "exit");
        assert_int_equal(f->unit, order ? 0 : 1);
    }
}

TEST_WITH(functions_may_stay_undefined, NULL, ptx_check_free)
{
    const struct ptx_module *module = both(".extern .func cnpGetLimit;\n.func f { call cnpGetLimit; ret; }", "");
    assert_false(ptx_check_function(module, "cnpGetLimit")->defined);
}

TEST_WITH(variables_are_found, NULL, ptx_check_free)
{
    const struct ptx_module *module = both(".extern .global .align 4 .b8 x[]; .global .u64 p = generic(x)+4;\n.func f "
                                           "{ .reg .b64 %r; mov.u64 %r, x; ret; }",
                                           ".visible .global .align 16 .b8 x[64] = {7};");
    assert_int_equal(module->variable_count, 2);
    const struct ptx_variable *x = ptx_check_variable(module, "x"), *p = ptx_check_variable(module, "p");
    assert_int_equal(x->size, 64);
    assert_int_equal(x->align, 16);
    assert_int_equal(x->init[0], 7);
    assert_false(x->unsized);
    assert_ptr_equal(&module->variables[p->relocations[0].symbol], x);
    assert_ptr_equal(&module->variables[ptx_check_function(module, "f")->instructions[0].operands[1].index], x);
    neither(".extern .global .u32 x;", "", "no text of the link defines");
    neither(".extern .shared .u32 x;", "", "no text of the link defines");
    neither(".extern .global .u32 x;", ".visible .global .u64 x;", "bytes in another declaration");
    neither(".extern .global .u32 x;", ".visible .const .u32 x;", "two state spaces");
    neither(".visible .global .u32 x;", ".visible .global .u32 x;", "defined twice");
    neither(".visible .global .u32 x;", ".visible .func x { ret; }", "function in one place");
    neither(".extern .global .u32 x;", ".global .u32 x;", "no text of the link defines");
}

TEST_WITH(a_single_text_is_a_whole_program, NULL, ptx_check_free)
{
    const struct ptx_module *module =
        ptx_check_read(".extern .global .u32 x; .extern .shared .u32 s; .extern .shared .b8 d[];");
    assert_int_equal(ptx_check_variable(module, "x")->linkage, PTX_LINK_VISIBLE);
    assert_int_equal(ptx_check_variable(module, "s")->linkage, PTX_LINK_VISIBLE);
    assert_int_equal(ptx_check_variable(module, "d")->linkage, PTX_LINK_EXTERN);
    ptx_check_refused(".extern .global .u32 x[];", "no text of the link defines");
}

TEST_WITH(dynamic_shared_is_one, NULL, ptx_check_free)
{
    const struct ptx_module *module = both(".extern .shared .align 4 .b8 s[];", ".extern .shared .align 16 .b8 s[];");
    assert_int_equal(module->variable_count, 1);
    assert_int_equal(module->variables[0].align, 16);
    assert_true(module->variables[0].unsized);
}

TEST_WITH(local_names_stay_apart, NULL, ptx_check_free)
{
    static const char text[] =
        ".global .u32 x = 1; .func f { .reg .b64 %r; mov.u64 %r, x; call f; ret; } .entry k() { call f; ret; }";
    const struct ptx_module *module = both(text, text);
    assert_int_equal(module->variable_count, 2);
    assert_int_equal(module->function_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        const struct ptx_function *f = &module->functions[i];
        assert_int_equal(f->unit, i / 2);
        const struct ptx_instruction *call = &f->instructions[f->is_entry ? 0 : 1];
        assert_int_equal(module->functions[call->operands[0].index].unit, f->unit);
        if (!f->is_entry)
            assert_int_equal(f->instructions[0].operands[1].index, f->unit);
    }
}

TEST_WITH(weak_definitions, NULL, ptx_check_free)
{
    static const char weak[] = ".weak .global .u32 x = 1; .weak .func f { exit; } .weak .entry k() { exit; }";
    static const char other[] = ".weak .global .u32 x = 2; .weak .func f { trap; } .weak .entry k() { trap; }";
    static const char strong[] = ".visible .global .u32 x = 3; .visible .func f { ret; } .visible .entry k() { ret; }";
    const struct ptx_module *module = both(weak, other);
    assert_int_equal(module->variable_count, 1);
    assert_int_equal(module->function_count, 2);
    assert_int_equal(module->variables[0].init[0], 1);
    assert_string_equal(ptx_check_function(module, "f")->instructions[0].opcode, "exit");
    for (int order = 0; order < 2; order++) {
        module = order ? both(strong, weak) : both(weak, strong);
        assert_int_equal(module->variables[0].init[0], 3);
        assert_string_equal(ptx_check_function(module, "f")->instructions[0].opcode, "ret");
        assert_string_equal(ptx_check_function(module, "k")->instructions[0].opcode, "ret");
        assert_int_equal(ptx_check_function(module, "f")->linkage, PTX_LINK_VISIBLE);
    }
    neither(strong, strong, "defined twice");
}

/* The addresses of the definition that lost are gone with it. */
TEST_WITH(weak_relocations, NULL, ptx_check_free)
{
    const struct ptx_module *module = both(".global .u32 a; .weak .global .u64 x = a;", ".visible .global .u64 x = 5;");
    assert_int_equal(ptx_check_variable(module, "x")->relocation_count, 0);
    module = both(".weak .global .u64 x = 5;", ".global .u32 a; .weak .global .u64 x = a;");
    assert_int_equal(ptx_check_variable(module, "x")->relocation_count, 0);
    module = both(".weak .global .u64 x = 5;", ".global .u32 a; .visible .global .u64 x = a;");
    assert_int_equal(ptx_check_variable(module, "x")->relocation_count, 1);
}

TEST_WITH(common_definitions, NULL, ptx_check_free)
{
    const struct ptx_module *module = both(".common .global .b8 x[4];", ".common .global .b8 x[16];");
    assert_int_equal(module->variable_count, 1);
    assert_int_equal(module->variables[0].size, 16);
    module = both(".common .global .u32 x;", ".visible .global .u32 x = 5;");
    assert_int_equal(module->variables[0].init[0], 5);
    assert_int_equal(module->variables[0].linkage, PTX_LINK_VISIBLE);
}

TEST_WITH(highest_version_counts, NULL, ptx_check_free)
{
    static const struct ptx_source sources[] = {
        { .text = ".version 7.5 .target sm_90", .size = 26 }, { .text = ".version 7.8 .target sm_75", .size = 26 } };
    struct ptx_module *module;
    char log[64];
    assert_int_equal(ptx_module_read(sources, 2, &module, log, sizeof log), 0);
    assert_int_equal(module->version_minor, 8);
    assert_int_equal(module->target, 90);
    ptx_module_free(module);
}

TEST_WITH(outlines, NULL, ptx_check_free)
{
    static const char text[] = ".version 8.0 .target sm_90 .global .u32 x = 5; .func f(.param .b64 a);"
        ".entry k(.param .u64 p, .param .u8 q) { { nonsense here \"}\" } // }\n ret; } .func f(.param .b64 a) { ret; }";
    struct ptx_source source = { .text = text, .size = sizeof text - 1, .name = "text" };
    struct ptx_module *module;
    char log[64];
    assert_int_equal(ptx_module_read(&source, 1, &module, log, sizeof log), -1);
    assert_int_equal(ptx_module_read_outline(&source, 1, &module, log, sizeof log), 0);
    const struct ptx_function *k = ptx_check_function(module, "k");
    assert_int_equal(module->function_count, 2);
    assert_true(k->defined);
    assert_int_equal(k->instruction_count, 0);
    assert_int_equal(k->param_size, 9);
    assert_int_equal(ptx_check_variable(module, "x")->init[0], 5);
    ptx_module_free(module);
}

TEST_WITH(errors_name_the_text, NULL, ptx_check_free)
{
    neither("", "\n\n.global x;", "second:6: ");
}

int main(void) { return unit_run(NULL, NULL); }
