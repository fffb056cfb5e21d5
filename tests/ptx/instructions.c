/* Instructions and their operands. */
#include "tests/ptx/check.h"

static const struct ptx_instruction *one(const char *definitions, const char *statement)
{
    const struct ptx_function *f = ptx_check_body(definitions, statement);
    assert_int_equal(f->instruction_count, 1);
    return f->instructions;
}

static const struct ptx_operand *operand(const char *statement, uint32_t index)
{
    const struct ptx_instruction *instruction =
        one(".target sm_90, texmode_independent\n"
            ".global .u32 v[4]; .func fn { ret; } .global .texref t; .global .samplerref s;",
            statement);
    assert_true(index < instruction->operand_count);
    return &instruction->operands[index];
}

static void check_opcode(const char *statement, const char *opcode, const char *modifiers)
{
    const struct ptx_instruction *i = one("", statement);
    char joined[256] = "";
    assert_string_equal(i->opcode, opcode);
    for (uint32_t m = 0; m < i->modifier_count; m++) {
        strcat(joined, m ? " " : "");
        strcat(joined, i->modifiers[m]);
    }
    assert_string_equal(joined, modifiers);
}

TEST_WITH(opcodes, NULL, ptx_check_free)
{
    check_opcode("ret;", "ret", "");
    check_opcode("setp.lt.and.f32 %p1, %f1, %f2, %p2;", "setp", "lt and f32");
    check_opcode("add .u32 %r1, %r2, 3;", "add", "u32");
    check_opcode("add .u32.x .y %r1, %r2, 3;", "add", "u32 x y");
    check_opcode("ld.relaxed.sys.global.L1::no_allocate.b32 %r1, [%rd1];", "ld",
                 "relaxed sys global L1::no_allocate b32");
    check_opcode(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];",
        "cp", "async bulk tensor 2d shared::cluster global mbarrier::complete_tx::bytes");
    check_opcode("tcgen05.cp.cta_group::1.128x256b [%r1], %rd1;", "tcgen05", "cp cta_group::1 128x256b");
    check_opcode("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];", "tcgen05", "ld sync aligned 32x32b x1 b32");
    check_opcode("unheard_of.instruction %r1;", "unheard_of", "instruction");
}

TEST_WITH(guards, NULL, ptx_check_free)
{
    assert_int_equal(one("", "ret;")->guard, -1);
    const struct ptx_function *f = ptx_check_body("", "@%p1 ret; @!%p2 ret; @ ! %p1 ret;");
    assert_string_equal(f->registers[f->instructions[0].guard].name, "%p1");
    assert_false(f->instructions[0].guard_negated);
    assert_true(f->instructions[1].guard_negated);
    assert_int_equal(f->instructions[2].guard, f->instructions[0].guard);
    ptx_check_body_refused("@%r1 ret;", "no predicate");
    ptx_check_body_refused("@nothing ret;", "no predicate");
    ptx_check_body_refused("@5 ret;", "after '@'");
}

TEST_WITH(numbers, NULL, ptx_check_free)
{
    const struct ptx_operand *o = operand("mov.u32 %r1, -5;", 1);
    assert_int_equal(o->kind, PTX_OP_INTEGER);
    assert_int_equal(o->integer, -5);
    assert_false(o->is_unsigned);
    o = operand("mov.u32 %r1, 0x5410U;", 1);
    assert_int_equal(o->integer, 0x5410);
    assert_true(o->is_unsigned);
    assert_int_equal(operand("mov.u32 %r1, (1+2)*WARP_SZ;", 1)->integer, 96);
    assert_int_equal(operand("mov.u32 %r1, WARP_SZ;", 1)->integer, 32);
    assert_int_equal(operand("mov.u32 %r1, !0;", 1)->integer, 1);
    assert_int_equal(operand("mov.u32 %r1, 3|4;", 1)->integer, 7);
    o = operand("mov.f32 %f1, 0fBF800000;", 1);
    assert_int_equal(o->kind, PTX_OP_FLOAT);
    assert_int_equal(o->float_bits, 32);
    assert_int_equal(o->bits, 0xbf800000);
    o = operand("mov.f32 %f1, -1.5;", 1);
    assert_int_equal(o->float_bits, 64);
    assert_int_equal(o->bits, UINT64_C(0xbff8000000000000));
    assert_int_equal(operand("mov.f32 %f1, .5;", 1)->bits, UINT64_C(0x3fe0000000000000));
}

TEST_WITH(registers, NULL, ptx_check_free)
{
    const struct ptx_operand *o = operand("setp.eq.and.u32 %p1|%p2, %r1, %r2, !%p3;", 0);
    assert_int_equal(o->kind, PTX_OP_REGISTER);
    assert_int_equal(o->component, -1);
    assert_non_null(o->second);
    assert_int_equal(o->second->kind, PTX_OP_REGISTER);
    assert_true(operand("setp.eq.and.u32 %p1|%p2, %r1, %r2, !%p3;", 3)->negated);
    assert_int_equal(operand("setp.eq.u32 %p1 | _, %r1, %r2;", 0)->second->kind, PTX_OP_SINK);
    o = operand("setp.eq.u32 _|%p1, %r1, %r2;", 0);
    assert_int_equal(o->kind, PTX_OP_SINK);
    assert_non_null(o->second);
    assert_int_equal(operand("vadd.s32.s32.s32 %r1, %r2.b3, %r3.h1;", 1)->component, PTX_BYTE_0 + 3);
    assert_int_equal(operand("vadd.s32.s32.s32 %r1, %r2.b3, %r3.h1;", 2)->component, PTX_HALF_0 + 1);
    assert_true(operand("vmad.s32.s32.s32 %r1, -%r2, %r3, %r4;", 1)->negated);
    o = operand("vadd4.u32.u32.u32 %r1.b20, %r2.b7531, %r3, %r4;", 1);
    assert_int_equal(o->component, PTX_SELECTOR);
    assert_string_equal(o->text, "b7531");
    o = operand("mov.u32 %r1, %tid.y;", 1);
    assert_int_equal(o->kind, PTX_OP_SPECIAL);
    assert_string_equal(o->text, "tid");
    assert_int_equal(o->component, 1);
    o = operand("mov.u64 %rd1, %clock64;", 1);
    assert_string_equal(o->text, "clock64");
    assert_int_equal(o->component, -1);
    assert_string_equal(operand("mov.b32 %r1, %envreg31;", 1)->text, "envreg31");
    assert_int_equal(operand("mov.f32 %f1, %rd1.r;", 1)->component, 0);
    assert_int_equal(operand("mov.f32 %f1, %rd1.a;", 1)->component, 3);
    ptx_check_body_refused("mov.u32 %r1, %tid.q;", "no component");
    ptx_check_body_refused("setp.eq.u32 %p1|5, %r1, %r2;", "after '|'");
    ptx_check_body_refused("setp.eq.u32 %p1|P, %r1, %r2;", "only a register");
    ptx_check_body_refused("and.pred %p1, !P, %p2;", "only a register");
}

TEST_WITH(vectors, NULL, ptx_check_free)
{
    const struct ptx_operand *o = operand("ld.global.v4.u32 {%r1,_,%r3, %r4}, [%rd1];", 0);
    assert_int_equal(o->kind, PTX_OP_VECTOR);
    assert_int_equal(o->element_count, 4);
    assert_int_equal(o->elements[1].kind, PTX_OP_SINK);
    assert_int_equal(o->elements[3].kind, PTX_OP_REGISTER);
    o = operand("mov.b64 %rd1, {5, 0f3F800000};", 1);
    assert_int_equal(o->elements[0].kind, PTX_OP_INTEGER);
    assert_int_equal(o->elements[1].kind, PTX_OP_FLOAT);
    o = operand("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}|%p1, [t, {%f5,%f6}];", 0);
    assert_non_null(o->second);
    ptx_check_body_refused("mov.b64 %rd1, {};", "expected a constant");
    ptx_check_body_refused("mov.b64 %rd1, {%r1;", "expected '}'");
}

static void check_memory(const char *statement, bool has_register, bool has_variable, int64_t offset)
{
    const struct ptx_operand *o = operand(statement, 1);
    assert_int_equal(o->kind, PTX_OP_MEMORY);
    assert_int_equal(o->has_register, has_register);
    assert_int_equal(o->has_variable, has_variable);
    assert_int_equal(o->integer, offset);
}

TEST_WITH(memory, NULL, ptx_check_free)
{
    check_memory("ld.global.u32 %r1, [%rd1];", true, false, 0);
    check_memory("ld.global.u32 %r1, [%rd1+8];", true, false, 8);
    check_memory("ld.global.u32 %r1, [%rd1+-8];", true, false, -8);
    check_memory("ld.global.u32 %r1, [%rd1 - 8];", true, false, -8);
    check_memory("ld.global.u32 %r1, [%rd1+4+4*2];", true, false, 12);
    check_memory("ld.global.u32 %r1, [v];", false, true, 0);
    check_memory("ld.global.u32 %r1, [v+4];", false, true, 4);
    check_memory("ld.local.u32 %r1, [16];", false, false, 16);
    check_memory("ld.param.u64 %rd1, [P+4];", false, true, 4);
    check_memory("ld.global.u32 %r1, v[3];", false, true, 12);
    const struct ptx_operand *o = operand("mov.u64 %rd1, v+4;", 1);
    assert_int_equal(o->kind, PTX_OP_VARIABLE);
    assert_int_equal(o->integer, 4);
    o = operand("mov.u64 %rd1, v[2];", 1);
    assert_int_equal(o->kind, PTX_OP_VARIABLE);
    assert_int_equal(o->integer, 8);
    assert_int_equal(operand("mov.u64 %rd1, fn;", 1)->kind, PTX_OP_FUNCTION);
    assert_int_equal(operand("mov.u64 %rd1, kernel;", 1)->kind, PTX_OP_FUNCTION);
    ptx_check_body_refused("ld.global.u32 %r1, [%rd1+%rd2];", "two registers");
    ptx_check_body_refused("ld.global.u32 %r1, [P+Q];", "two variables");
    ptx_check_body_refused("ld.global.u32 %r1, [nothing];", "'nothing' is not declared");
    ptx_check_body_refused("ld.global.u32 %r1, [%rd1;", "expected ']'");
    ptx_check_body_refused("ld.global.u32 %r1, [];", "expected a constant");
    ptx_check_body_refused("ld.param.u32 %r1, P[%r1];", "indexed");
    ptx_check_body_refused("ld.param.u32 %r1, [kernel];", "part of an address");
}

TEST_WITH(textures, NULL, ptx_check_free)
{
    const struct ptx_operand *o = operand("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [t, {%f5,%f6}];", 1);
    assert_int_equal(o->kind, PTX_OP_LIST);
    assert_true(o->bracketed);
    assert_int_equal(o->element_count, 2);
    assert_int_equal(o->elements[0].kind, PTX_OP_VARIABLE);
    assert_int_equal(o->elements[1].kind, PTX_OP_VECTOR);
    o = operand("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [t, s, {%f5,%f6}];", 1);
    assert_int_equal(o->element_count, 3);
    assert_int_equal(o->elements[1].kind, PTX_OP_VARIABLE);
    o = operand("tex.1d.v4.u32.s32 {%r1,%r2,%r3,%r4}, [%rd1, {%r5}];", 1);
    assert_int_equal(o->elements[0].kind, PTX_OP_REGISTER);
    o = operand("sust.b.2d.b32.trap [%rd1, {%r1,%r2}], %r3;", 0);
    assert_int_equal(o->kind, PTX_OP_LIST);
    o = operand("op [%rd1+16, {%r1,%r2}], %r3;", 0);
    assert_int_equal(o->elements[0].kind, PTX_OP_MEMORY);
    assert_int_equal(o->elements[0].integer, 16);
}

TEST_WITH(calls, NULL, ptx_check_free)
{
    const struct ptx_module *module = ptx_check_read(
        ".func (.param .b32 r) f(.param .b64 a, .param .b32 b) { ret; }\n.func g { ret; }\n.func (.reg .u32 r) h(.reg "
        ".u32 a) { ret; }\n"
        ".global .u64 table[2] = {f, g};\n"
        ".entry kernel() { .reg .b64 %rd<3>; .reg .u32 x; {\n.param .b32 ret0; .param .b64 p0; .param .b32 p1;\n"
        "call.uni (ret0), f, (p0, p1);\ncall g;\ncall g, ();\ncall (x), h, (x);\ncall (_), h, (5);\n"
        "proto : .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]) .noreturn;\n"
        "call (ret0), %rd1, (p0, p1), proto;\ncall (ret0), %rd1, (p0, p1), proto;\n"
        "targets: .calltargets f, f;\ncall (ret0), %rd1, (p0, p1), targets;\ncall (ret0), %rd1, (p0, p1), table;\n"
        "empty: .callprototype ()_ ();\ncall %rd1, (), empty; bare: .callprototype _; call %rd1, bare;\n} ret; }\n");
    const struct ptx_function *k = ptx_check_function(module, "kernel");
    const struct ptx_instruction *i = k->instructions;
    assert_int_equal(i[0].operand_count, 3);
    assert_int_equal(i[0].operands[0].kind, PTX_OP_LIST);
    assert_int_equal(i[0].operands[0].elements[0].kind, PTX_OP_VARIABLE);
    assert_int_equal(i[0].operands[1].kind, PTX_OP_FUNCTION);
    assert_int_equal(i[0].operands[2].element_count, 2);
    assert_int_equal(i[1].operand_count, 1);
    assert_int_equal(i[2].operands[1].kind, PTX_OP_LIST);
    assert_int_equal(i[2].operands[1].element_count, 0);
    assert_int_equal(i[3].operands[0].elements[0].kind, PTX_OP_REGISTER);
    assert_int_equal(i[4].operands[0].elements[0].kind, PTX_OP_SINK);
    assert_int_equal(i[4].operands[2].elements[0].kind, PTX_OP_INTEGER);
    assert_int_equal(i[5].operands[1].kind, PTX_OP_REGISTER);
    assert_int_equal(i[5].operands[3].kind, PTX_OP_PROTOTYPE);
    const struct ptx_prototype *p = &k->prototypes[i[5].operands[3].index];
    assert_int_equal(p->return_count, 1);
    assert_int_equal(p->param_count, 2);
    assert_int_equal(p->params[1].offset, 8);
    assert_true(p->noreturn);
    assert_int_equal(i[6].operands[3].index, i[5].operands[3].index);
    assert_int_equal(i[7].operands[3].kind, PTX_OP_PROTOTYPE);
    assert_int_equal(i[7].operands[3].element_count, 2);
    assert_int_equal(i[7].operands[3].elements[0].kind, PTX_OP_FUNCTION);
    assert_int_equal(k->prototypes[i[7].operands[3].index].param_count, 2);
    assert_int_equal(i[8].operands[3].kind, PTX_OP_VARIABLE);
    assert_int_equal(k->prototypes[i[9].operands[2].index].param_count, 0);
    assert_int_equal(i[10].operands[1].kind, PTX_OP_PROTOTYPE);
    assert_int_equal(k->prototype_count, 4);
    ptx_check_body_refused("call nothing, (%r1);", "'nothing' is not declared");
    ptx_check_body_refused("t: .calltargets nothing; ret;", "not a function");
    ptx_check_body_refused("call (%r1, %rd1;", "expected ')'");
}

TEST_WITH(refused, NULL, ptx_check_free)
{
    ptx_check_body_refused("mov.u32 %r1", "expected ';'");
    ptx_check_body_refused("mov.u32 %r1, ;", "expected a constant");
    ptx_check_body_refused("mov.u32 , %r1;", "expected a constant");
    ptx_check_body_refused("mov.u32 %r1 %r2;", "expected ';'");
    ptx_check_body_refused(".u32 x;", "in a function");
    ptx_check_body_refused("5;", "as an instruction");
    ptx_check_body_refused("mov.u32 %r1, \"text\";", "expected a constant");
    ptx_check_body_refused(".loc 1 2 3, nonsense 5\n", "in .loc");
}

int main(void) { return unit_run(NULL, NULL); }
