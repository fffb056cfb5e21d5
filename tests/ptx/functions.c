/* Functions: signatures, parameter offsets, directives, scopes, labels. */
#include "tests/ptx/check.h"

TEST_WITH(kernel_parameters, NULL, ptx_check_free)
{
    const struct ptx_function *f = ptx_check_function(ptx_check_read(
        ".visible .entry f(.param .u8 a, .param .u64 b, .param .align 16 .b8 c[20], .param .u16 d, .param .v4 .f32 e,"
        " .param .u64 .ptr .global .align 256 p, .param .u64 .ptr q, .param .u32 last) { ret; }"), "f");
    static const uint64_t offsets[] = { 0, 8, 16, 36, 48, 64, 72, 80 };
    assert_true(f->is_entry);
    assert_true(f->defined);
    assert_int_equal(f->linkage, PTX_LINK_VISIBLE);
    assert_int_equal(f->signature.param_count, 8);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(f->signature.params[i].offset, offsets[i]);
    assert_int_equal(f->param_size, 84);
    assert_int_equal(f->signature.params[2].size, 20);
    assert_true(f->signature.params[5].is_pointer);
    assert_int_equal(f->signature.params[5].align, 8);
    assert_int_equal(f->signature.params[5].space, PTX_SPACE_PARAM);
    assert_true(f->signature.params[6].is_pointer);
    assert_false(f->signature.params[7].is_pointer);
}

TEST_WITH(device_functions, NULL, ptx_check_free)
{
    const struct ptx_module *module = ptx_check_read(
        ".func (.param .align 8 .b8 r[12]) f(.param .b32 a, .param .b64 b) { ret; }\n"
        ".func (.reg .u32 r) g(.reg .u32 a, .reg .f32 b) { .reg .u32 c; mov.u32 r, a; ret; }\n"
        ".func h { ret; }\n.func i() { ret; }\n.func v(.param .b32 n, .param .b8 rest[]) { ret; }\n");
    const struct ptx_function *f = ptx_check_function(module, "f");
    assert_false(f->is_entry);
    assert_int_equal(f->signature.return_count, 1);
    assert_int_equal(f->signature.returns[0].size, 12);
    assert_int_equal(f->signature.params[1].offset, 8);
    assert_int_equal(f->param_size, 16);
    const struct ptx_function *g = ptx_check_function(module, "g");
    assert_int_equal(g->register_count, 4);
    assert_int_equal(g->signature.returns[0].offset, 0);
    assert_int_equal(g->signature.params[1].offset, 2);
    assert_string_equal(g->registers[2].name, "b");
    assert_int_equal(g->registers[2].type, PTX_F32);
    assert_int_equal(g->instructions[0].operands[0].reg, 0);
    assert_int_equal(g->instructions[0].operands[1].reg, 1);
    assert_int_equal(ptx_check_function(module, "h")->signature.param_count, 0);
    assert_true(ptx_check_function(module, "v")->signature.params[1].unsized);
}

TEST_WITH(directives, NULL, ptx_check_free)
{
    const struct ptx_module *module = ptx_check_read(
        ".entry a() .maxntid 256 .minnctapersm 2 .maxnreg 40 { ret; }\n"
        ".entry b() .reqntid 16,8,1 .reqnctapercluster 2,1 .explicitcluster .maxclusterrank 8 .blocksareclusters { "
        "ret; }\n"
        ".func .attribute(.unified(1,2)) c() .noreturn { exit; }\n.entry d() .pragma \"nounroll\"; { ret; }\n");
    const struct ptx_function *a = ptx_check_function(module, "a"), *b = ptx_check_function(module, "b");
    assert_int_equal(a->max_ntid[0], 256);
    assert_int_equal(a->max_ntid[1], 1);
    assert_int_equal(a->max_ntid[2], 1);
    assert_int_equal(a->min_ncta_per_sm, 2);
    assert_int_equal(a->max_nreg, 40);
    assert_int_equal(a->req_ntid[0], 0);
    assert_int_equal(b->req_ntid[1], 8);
    assert_int_equal(b->req_cluster[0], 2);
    assert_int_equal(b->req_cluster[2], 1);
    assert_int_equal(b->max_cluster_rank, 8);
    assert_true(b->explicit_cluster);
    assert_true(b->blocks_are_clusters);
    assert_true(ptx_check_function(module, "c")->noreturn);
    ptx_check_refused(".entry f() .maxntid 1,2,3,4 { ret; }", "more than 3");
    ptx_check_refused(".entry f() .maxntid -1 { ret; }", "too large");
    ptx_check_refused(".entry f() .global .u32 x; { ret; }", "expected ';'");
}

TEST_WITH(signatures_refused, NULL, ptx_check_free)
{
    ptx_check_refused(".entry (.param .u32 r) f() { ret; }", "returns a value");
    ptx_check_refused(".func f(.global .u32 a) { ret; }", "parameters are");
    ptx_check_refused(".func f(.param .u32 a, .param .u32 a) { ret; }", "twice");
    ptx_check_refused(".func f(.param .b8 a[2000000000], .param .b8 b[2000000000]) { ret; }", "2 GiB");
    ptx_check_refused(".func f(.param .u32 a { ret; }", "expected ')'");
    ptx_check_refused(".func f(.param .u32) { ret; }", "expected a name");
    ptx_check_refused(".func f { ret; } .func f { ret; }", "defined twice");
    ptx_check_refused(".func f; .entry f() { ret; }", ".entry in one place");
    ptx_check_refused(".global .u32 f; .func f { ret; }", "different things");
    ptx_check_refused(".extern .func f { ret; }", ".extern and has a body");
    ptx_check_refused(".func f { ret;", "does not end");
    ptx_check_refused(".func f { { ret; }", "does not end");
}

TEST_WITH(declarations, NULL, ptx_check_free)
{
    const struct ptx_module *module = ptx_check_read(".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 "
                                                     "b);\n.func g; .func f { call g; ret; } .func g { exit; }");
    const struct ptx_function *printf_function = ptx_check_function(module, "vprintf");
    assert_false(printf_function->defined);
    assert_int_equal(printf_function->linkage, PTX_LINK_EXTERN);
    assert_int_equal(printf_function->signature.param_count, 2);
    assert_true(ptx_is_builtin("vprintf"));
    assert_false(ptx_is_builtin("g"));
    const struct ptx_function *f = ptx_check_function(module, "f");
    assert_int_equal(f->instructions[0].operands[0].kind, PTX_OP_FUNCTION);
    assert_string_equal(module->functions[f->instructions[0].operands[0].index].name, "g");
    assert_true(ptx_check_function(module, "g")->defined);
}

TEST_WITH(addresses_of_functions, NULL, ptx_check_free)
{
    const struct ptx_module *module = ptx_check_read(
        ".func called { ret; } .func moved { ret; } .func listed { ret; } .func behind; .func self { .reg .b64 %rd<2>; "
        "mov.b64 %rd1, self; ret; } .func named { ret; } .func dropped { ret; } .func target { ret; }\n"
        ".visible .func w { ret; } .weak .func w { .reg .b64 %rd<2>; mov.b64 %rd1, dropped; ret; }\n"
        ".global .u64 table[2] = { listed, behind };\n"
        ".entry k() { .reg .b64 %rd<3>; c: .calltargets target; call called; { mov.b64 %rd1, moved; } call %rd1, c; }\n"
        ".func behind { ret; } .func alias; .alias alias, named; .func alias2; .global .u64 other = alias2;\n"
        ".alias alias2, named;");
    static const char *const taken[] = { "moved", "listed", "behind", "self", "target", "alias2" };
    static const char *const others[] = { "called", "named", "dropped", "w", "k", "alias" };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (!ptx_check_function(module, taken[i])->address_taken)
            fail_msg("the address of %s is taken", taken[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (ptx_check_function(module, others[i])->address_taken)
            fail_msg("the address of %s is not taken", others[i]);
}

TEST_WITH(aliases, NULL, ptx_check_free)
{
    const struct ptx_module *module = ptx_check_read(".func g { exit; } .visible .func f; .alias f, g;");
    const struct ptx_function *f = ptx_check_function(module, "f");
    assert_true(f->defined);
    assert_int_equal(f->linkage, PTX_LINK_VISIBLE);
    assert_string_equal(f->instructions[0].opcode, "exit");
    ptx_check_refused(".func g { ret; } .func f { ret; } .alias f, g;", "has a body");
    ptx_check_refused(".func g; .func f; .alias f, g;", "has no body");
    ptx_check_refused(".func g { ret; } .alias f, g;", "must be functions");
}

static uint32_t target(const struct ptx_function *f, uint32_t instruction)
{
    assert_string_equal(f->instructions[instruction].opcode, "bra");
    assert_int_equal(f->instructions[instruction].operands[0].kind, PTX_OP_LABEL);
    return f->instructions[instruction].operands[0].index;
}

TEST_WITH(labels, NULL, ptx_check_free)
{
    const struct ptx_function *f = ptx_check_body("", "L: bra L; bra M; ret; M: N: bra End; bra N; End:");
    assert_int_equal(target(f, 0), 0);
    assert_int_equal(target(f, 1), 3);
    assert_int_equal(target(f, 3), 5);
    assert_int_equal(target(f, 4), 3);
    assert_int_equal(f->instruction_count, 5);
    f = ptx_check_body("", "$L__BB0_1 : bra.uni $L__BB0_1;");
    assert_int_equal(target(f, 0), 0);
}

/* An inner label hides an outer one, before and behind the branch; blocks repeat names as inlined assembly does. */
TEST_WITH(labels_in_blocks, NULL, ptx_check_free)
{
    const struct ptx_function *f =
        ptx_check_body("", "L: ret; { bra L; ret; L: ret; } { bra L; ret; ret; L: ret; } bra L;");
    assert_int_equal(target(f, 1), 3);
    assert_int_equal(target(f, 4), 7);
    assert_int_equal(target(f, 8), 0);
    f = ptx_check_body("", "{ { bra L; } ret; } L: ret;");
    assert_int_equal(target(f, 0), 2);
    ptx_check_body_refused("{ L: ret; } bra L;", "'L' is not declared");
    ptx_check_body_refused("L: ret; L: ret;", "twice");
    ptx_check_body_refused("bra nowhere;", "'nowhere' is not declared");
    ptx_check_body_refused("mov.u32 %r1, nothing;", "'nothing' is not declared");
}

TEST_WITH(branch_tables, NULL, ptx_check_free)
{
    const struct ptx_function *f = ptx_check_body("", "t: .branchtargets A, B, A;\nbrx.idx %r1, t;\nA: ret;\nB: exit;");
    const struct ptx_operand *table = &f->instructions[0].operands[1];
    assert_int_equal(table->kind, PTX_OP_LABEL_TABLE);
    assert_int_equal(table->element_count, 3);
    assert_int_equal(table->elements[0].kind, PTX_OP_LABEL);
    assert_int_equal(table->elements[0].index, 1);
    assert_int_equal(table->elements[1].index, 2);
    assert_int_equal(table->elements[2].index, 1);
    ptx_check_body_refused("t: .branchtargets A, nowhere; A: ret;", "'nowhere' is not declared");
    ptx_check_body_refused("t: .branchtargets ;", "expected");
    ptx_check_body_refused("t: .branchtargets A, %r1; A: ret;", "target 2 of .branchtargets is no label");
}

TEST_WITH(scopes, NULL, ptx_check_free)
{
    const struct ptx_function *f =
        ptx_check_body(".global .u32 x;", "mov.b32 %r1, 1; { .reg .b64 %r<20>; .reg .f64 x; mov.b64 %r1, 2; mov.b64 "
                                          "%r15, 3; mov.f64 x, 0.0; } mov.b32 %r1, 4; mov.u64 %rd1, x;");
    const struct ptx_instruction *i = f->instructions;
    assert_int_equal(f->registers[i[0].operands[0].reg].type, PTX_B32);
    assert_int_equal(f->registers[i[1].operands[0].reg].type, PTX_B64);
    assert_int_equal(f->registers[i[2].operands[0].reg].type, PTX_B64);
    assert_int_equal(f->registers[i[3].operands[0].reg].type, PTX_F64);
    assert_int_equal(i[4].operands[0].reg, i[0].operands[0].reg);
    assert_int_equal(i[5].operands[1].kind, PTX_OP_VARIABLE);
    assert_int_equal(i[5].operands[1].scope, PTX_SCOPE_MODULE);
    ptx_check_body_refused(".reg .u32 x; .reg .u32 x;", "twice");
    ptx_check_body_refused(".reg .u32 %r1;", "twice");
    ptx_check_body_refused(".reg .u32 Q;", "twice");
    ptx_check_body_refused("mov.b32 %r10, 1;", "beyond the registers");
    ptx_check_body_refused("{ .reg .u32 x; } mov.u32 x, 1;", "'x' is not declared");
}

TEST_WITH(register_ranges, NULL, ptx_check_free)
{
    const struct ptx_function *f = ptx_check_body("", ".reg .b32 a<5>, b, %x1y<3>; mov.b32 a4, b; mov.b32 %x1y2, a04; "
                                                      "mov.b32 %r7, %r7; .reg .v2 .f32 v<3>; mov.f32 %f1, v2.y;");
    const struct ptx_instruction *i = f->instructions;
    assert_int_equal(i[0].operands[0].reg, i[1].operands[1].reg);
    assert_string_equal(f->registers[i[1].operands[0].reg].name, "%x1y2");
    assert_int_equal(i[2].operands[0].reg, i[2].operands[1].reg);
    assert_int_equal(f->registers[i[3].operands[1].reg].vector, 2);
    assert_int_equal(i[3].operands[1].component, 1);
    /* Only what is used exists. */
    f = ptx_check_body("", ".reg .b32 %big<2000000000>; mov.b32 %big1999999999, 1;");
    assert_int_equal(f->register_count, 1);
    ptx_check_body_refused(".reg .b32 %big<3000000000>;", "registers named");
    ptx_check_body_refused(".reg .b32 %x<4>; mov.b32 %x4, 1;", "beyond the registers");
}

TEST_WITH(local_variables, NULL, ptx_check_free)
{
    const struct ptx_function *f =
        ptx_check_body("", ".local .align 8 .b8 depot[16]; .shared .f32 s[32]; { .param .b64 p; st.param.b64 [p], "
                           "%rd1; } { .param .b32 p; st.param.b32 [p+0], %r1; }"
                           " .global .u32 g; .const .u32 c = 5; ld.const.u32 %r1, [c]; st.local.b8 [depot+4], %r1; "
                           "ld.param.u64 %rd1, [P]; mov.b64 %rd2, Q;");
    const struct ptx_instruction *i = f->instructions;
    assert_int_equal(f->variable_count, 4);
    assert_int_equal(f->variables[0].space, PTX_SPACE_LOCAL);
    assert_int_equal(f->variables[1].space, PTX_SPACE_SHARED);
    assert_int_equal(f->variables[1].size, 128);
    assert_int_equal(i[0].operands[0].index, 2);
    assert_int_equal(i[1].operands[0].index, 3);
    assert_int_equal(i[1].operands[0].scope, PTX_SCOPE_FUNCTION);
    assert_int_equal(i[2].operands[1].scope, PTX_SCOPE_MODULE);
    assert_int_equal(i[3].operands[0].integer, 4);
    assert_int_equal(i[4].operands[1].scope, PTX_SCOPE_PARAM);
    assert_int_equal(i[4].operands[1].index, 0);
    assert_int_equal(i[5].operands[1].kind, PTX_OP_VARIABLE);
    assert_int_equal(i[5].operands[1].index, 1);
    f = ptx_check_body("", ".local .b32 x<3>; st.local.b32 [x2], 1;");
    assert_int_equal(f->variable_count, 3);
    assert_int_equal(f->instructions[0].operands[0].index, 2);
    ptx_check_body_refused(".shared .u32 x = 5;", "only .global and .const");
    ptx_check_body_refused(".shared .u32 x[];", "neither given");
}

TEST_WITH(debug_information, NULL, ptx_check_free)
{
    const struct ptx_module *module = ptx_check_text(
        "// comment\n.version 9.0\n.target sm_75a, debug\n.address_size 64\n.file 1 \"a.cu\"\n\t.file\t2 \"b.h\", "
        "1234, 567\n"
        ".entry f() {\n.reg .b32 %r<2>;\n.loc 1 5 3\nmov.u32 %r1, 1;\n"
        ".loc 2 7 1, function_name $L__info_string0, inlined_at 1 5 3\n/* a\nb */ ret;\n"
        ".loc 1 9 1, function_name $info+16, inlined_at 1 1 1\n.pragma \"nounroll\", \"x\";\n}\n"
        ".section .debug_str\n{\n$L__info_string0:\n.b8 95,90 // }\n.b64 $x+4\n}\n.section .debug_loc, \"\"\n{\n.b8 "
        "1\n{ }\n}\n"
        "@@DWARF .section .debug_pubnames { (\n# 1 \"file\" (\n.pragma \"x\";\n.global .u32 after;\n\0{garbage");
    assert_int_equal(module->version_major, 9);
    assert_int_equal(module->target, 75);
    const struct ptx_function *f = ptx_check_function(module, "f");
    assert_int_equal(f->instruction_count, 2);
    assert_int_equal(f->instructions[0].line, 10);
    assert_int_equal(f->instructions[1].line, 13);
    assert_non_null(ptx_check_variable(module, "after"));
}

TEST_WITH(heads, NULL, ptx_check_free)
{
    assert_int_equal(ptx_check_text(".version 1.0\n.target compute_10, map_f64_to_f32\n")->target, 10);
    const struct ptx_module *module = ptx_check_text(".version 12.11 .target sm_103f .address_size 64");
    assert_int_equal(module->version_major, 12);
    assert_int_equal(module->version_minor, 11);
    assert_int_equal(module->target, 103);
    ptx_check_refused(".version 9;", "needs a number");
    ptx_check_refused(".version 0f3F800000", "needs a number");
    ptx_check_refused(".target 75", "after .target");
    ptx_check_refused(".address_size 32", "64-bit");
    ptx_check_refused(".file \"a\"", "after .file");
    ptx_check_refused(".section .debug_str { ", "does not end");
    ptx_check_refused("ret;", "at module scope");
    ptx_check_refused("/* ", "does not end");
    ptx_check_refused(".pragma \"abc;", "does not end");
    ptx_check_refused("\x01", "0x01");
}

/* Each instruction knows the .loc before it. Files may be named behind the code; each text numbers its own. */
TEST_WITH(source_lines, NULL, ptx_check_free)
{
    static const char *const texts[] = {
        ".visible .entry k() {\n.reg .b32 r;\nmov.b32 r, 1;\n.loc 1 7 3\nmov.b32 r, 2;\n.loc 2 9 0, function_name x, "
        "inlined_at 1 8 2\nmov.b32 r, 3; ret; }\n.func x() { ret; }\n.file 1 \"a.cu\"\n.file 2 \"b.h\", 1, 2\n",
        ".visible .entry l() {\n.loc 1 5 0\nret; }\n.file 1 \"c.cu\"\n",
    };
    const struct ptx_module *m = ptx_check_link(texts, 2);
    const struct ptx_function *k = ptx_check_function(m, "k"), *l = ptx_check_function(m, "l");
    const struct ptx_instruction *i = k->instructions;
    assert_int_equal(i[0].source_line, 0);
    assert_int_equal(i[1].source_line, 7);
    assert_int_equal(i[2].source_line, 9);
    assert_string_equal(ptx_source_file(m, k, i[1].source_file), "a.cu");
    assert_string_equal(ptx_source_file(m, k, i[2].source_file), "b.h");
    assert_null(ptx_source_file(m, k, 3));
    assert_int_equal(l->instructions[0].source_line, 5);
    assert_string_equal(ptx_source_file(m, l, 1), "c.cu");
}

int main(void) { return unit_run(NULL, NULL); }
