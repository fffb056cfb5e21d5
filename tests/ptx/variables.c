/* Variables of module scope: spaces, sizes, alignment, initialisers, addresses inside them. */
#include "tests/ptx/check.h"

static const struct ptx_variable *variable(const char *definitions, const char *name)
{
    return ptx_check_variable(ptx_check_read(definitions), name);
}

TEST_WITH(shapes, NULL, ptx_check_free)
{
    const struct ptx_variable *x = variable(".visible .global .align 16 .b8 x[3][4], y; .const .v4 .f32 c[2];", "x");
    assert_int_equal(x->space, PTX_SPACE_GLOBAL);
    assert_int_equal(x->type, PTX_B8);
    assert_int_equal(x->size, 12);
    assert_int_equal(x->align, 16);
    assert_int_equal(x->linkage, PTX_LINK_VISIBLE);
    assert_true(x->is_array);
    assert_null(x->init);
    const struct ptx_variable *c = variable(".visible .global .u32 x[3], y; .const .v4 .f32 c[2];", "c");
    assert_int_equal(c->space, PTX_SPACE_CONST);
    assert_int_equal(c->vector, 4);
    assert_int_equal(c->size, 32);
    assert_int_equal(c->align, 16);
    assert_int_equal(c->linkage, PTX_LINK_LOCAL);
    x = variable(".global .u64 y;", "y");
    assert_false(x->is_array);
    assert_int_equal(x->align, 8);
    assert_true(variable(".global .attribute(.managed) .align 4 .u32 x;", "x")->managed);
    assert_false(variable(".global .attribute(.unified(1,2)) .align 4 .u32 x;", "x")->managed);
    assert_int_equal(variable(".global .texref x;", "x")->type, PTX_TEXREF);
    assert_int_equal(variable(".tex .u64 x;", "x")->type, PTX_TEXREF);
    assert_int_equal(variable(".global .surfref x[3];", "x")->size, 24);
    assert_int_equal(variable(".weak .global .u32 x;", "x")->linkage, PTX_LINK_WEAK);
    assert_int_equal(variable(".common .global .u32 x;", "x")->linkage, PTX_LINK_COMMON);
}

TEST_WITH(dynamic_shared, NULL, ptx_check_free)
{
    const struct ptx_variable *x = variable(".extern .shared .align 16 .b8 x[];", "x");
    assert_int_equal(x->space, PTX_SPACE_SHARED);
    assert_true(x->unsized);
    assert_int_equal(x->size, 0);
    assert_int_equal(x->align, 16);
    x = variable(".shared .align 4 .b8 x[100];", "x");
    assert_false(x->unsized);
    assert_int_equal(x->size, 100);
}

TEST_WITH(ranges_of_names, NULL, ptx_check_free)
{
    const struct ptx_module *module = ptx_check_read(".global .align 8 .u32 x<3>, y;");
    assert_int_equal(module->variable_count, 4);
    assert_int_equal(ptx_check_variable(module, "x2")->align, 8);
    ptx_check_refused(".global .u32 x<100000>;", "variables named");
    ptx_check_refused(".global .u32 x<2>; .global .u32 x1;", "defined twice");
}

static void check_words(const char *definitions, const uint32_t *words, size_t count)
{
    const struct ptx_variable *x = variable(definitions, "x");
    assert_int_equal(x->size, count * 4);
    assert_non_null(x->init);
    assert_memory_equal(x->init, words, count * 4);
}

TEST_WITH(initialisers, NULL, ptx_check_free)
{
    check_words(".global .u32 x[3] = {1,2,3};", (uint32_t[]){ 1, 2, 3 }, 3);
    check_words(".global .u32 x[] = {1,2,3};", (uint32_t[]){ 1, 2, 3 }, 3);
    check_words(".global .u32 x[4] = {1,2};", (uint32_t[]){ 1, 2, 0, 0 }, 4);
    check_words(".global .u32 x[2] = {};", (uint32_t[]){ 0, 0 }, 2);
    check_words(".const .u32 x[2][2] = {{1,2},{3,4}};", (uint32_t[]){ 1, 2, 3, 4 }, 4);
    check_words(".global .u32 x[3][2] = {{1},{3,4}};", (uint32_t[]){ 1, 0, 3, 4, 0, 0 }, 6);
    check_words(".global .u32 x[][2] = {{1,2},{3}};", (uint32_t[]){ 1, 2, 3, 0 }, 4);
    check_words(".global .u32 x[2][1][2] = {{{1,2}},{{3,4}}};", (uint32_t[]){ 1, 2, 3, 4 }, 4);
    check_words(".global .v2 .u32 x[2] = {{1,2},{3,4}};", (uint32_t[]){ 1, 2, 3, 4 }, 4);
    check_words(".global .v4 .f32 x = {1.0,2.0,-1.0,0f00000001};",
                (uint32_t[]){ 0x3f800000, 0x40000000, 0xbf800000, 1 }, 4);
    check_words(".const .align 4 .b8 x[4] = {1, 2, 3, 255};", (uint32_t[]){ 0xff030201 }, 1);
    check_words(".global .b128 x = -5;", (uint32_t[]){ 0xfffffffb, 0xffffffff, 0, 0 }, 4);
    check_words(".global .u16 x[2] = {65535, -2};", (uint32_t[]){ 0xfffeffff }, 1);
}

TEST_WITH(large_initialiser_is_mostly_zero, NULL, ptx_check_free)
{
    const struct ptx_variable *x = variable(".global .u32 x[16777216] = {7};", "x");
    assert_int_equal(x->size, 64 << 20);
    assert_int_equal(x->init[0], 7);
    assert_int_equal(x->init[x->size - 1], 0);
}

TEST_WITH(initialisers_refused, NULL, ptx_check_free)
{
    ptx_check_refused(".global .u32 x[2] = {1,2,3};", "more elements");
    ptx_check_refused(".global .u32 x[2][2] = {{1,2,3},{4}};", "more elements");
    ptx_check_refused(".global .u32 x[2][2] = {1,2};", "expected '{'");
    ptx_check_refused(".global .u32 x = {5};", "expected a constant");
    ptx_check_refused(".global .u32 x[2] = 5;", "expected '{'");
    ptx_check_refused(".global .u32 x[] = {};", "gives no size");
    ptx_check_refused(".global .v4 .f32 x = {1.0};", "all its elements");
    ptx_check_refused(".global .u32 x[] = {1,};", "expected a constant");
    ptx_check_refused(".shared .u32 x = 5;", "only .global and .const");
    ptx_check_refused(".extern .global .u32 x = 5;", ".extern and has an initialiser");
    ptx_check_refused(".global .f16 x = 5;", "no initialisers");
    ptx_check_refused(".global .b8 x[300000000] = {1};", "more than");
    ptx_check_refused(".global .b8 x[200000000] = {1}; .global .b8 y[200000000] = {1};", "more than");
}

#define INDEPENDENT ".target sm_90, texmode_independent\n"

static struct ptx_opaque opaque(const char *definitions)
{
    const struct ptx_variable *x = variable(definitions, "x");
    struct ptx_opaque o;
    assert_int_equal(x->size, sizeof o);
    assert_non_null(x->init);
    memcpy(&o, x->init, sizeof o);
    return o;
}

/* What NVIDIA's assembler takes, and refuses. */
TEST_WITH(opaque_initialisers, NULL, ptx_check_free)
{
    struct ptx_opaque o = opaque(INDEPENDENT ".global .samplerref x = { addr_mode_0 = clamp_to_border, filter_mode = "
                                             "linear, addr_mode_2 = mirror, force_unnormalized_coords = 1 };");
    assert_int_equal(o.given,
                     PTX_GIVEN_UNNORMALIZED | PTX_GIVEN_FILTER | PTX_GIVEN_ADDRESS_0 | PTX_GIVEN_ADDRESS_0 << 2);
    assert_int_equal(o.address[0], PTX_ADDRESS_CLAMP_TO_BORDER);
    assert_int_equal(o.address[1], 0);
    assert_int_equal(o.address[2], PTX_ADDRESS_MIRROR);
    assert_true(o.linear && o.unnormalized && !o.normalized);
    o = opaque(INDEPENDENT ".global .samplerref x = { filter_mode = 1, addr_mode_1 = 3 };");
    assert_true(o.linear && o.address[1] == PTX_ADDRESS_CLAMP_TO_EDGE);
    assert_int_equal(opaque(INDEPENDENT ".global .samplerref x = { };").given, 0);
    o = opaque(".global .texref x = { width = 5, normalized_coords = 1, addr_mode_1 = clamp_ogl };");
    assert_true(o.normalized && o.address[1] == PTX_ADDRESS_CLAMP_OGL);
    assert_int_equal(opaque(".global .surfref x = { memory_layout = 1 };").given, 0);
    assert_null(variable(INDEPENDENT ".global .samplerref x[2];", "x")->init);
    ptx_check_refused(".global .samplerref x;", "texmode_independent");
    ptx_check_refused(".visible .entry k(.param .samplerref x) { ret; }", "texmode_independent");
    ptx_check_refused(".global .texref x = { force_unnormalized_coords = 1 };", "no member");
    ptx_check_refused(INDEPENDENT ".global .samplerref x = { normalized_coords = 1 };", "no member");
    ptx_check_refused(".global .surfref x = { filter_mode = linear };", "no member");
    ptx_check_refused(INDEPENDENT ".global .samplerref x = { filter_mode = cubic };", "unknown value");
    ptx_check_refused(INDEPENDENT ".global .samplerref x = { addr_mode_0 = 5 };", "unknown value");
    ptx_check_refused(INDEPENDENT ".global .samplerref x = { filter_mode };", "expected '='");
    ptx_check_refused(INDEPENDENT ".global .samplerref x = { filter_mode = 1 addr_mode_0 = 1 };", "expected '}'");
    ptx_check_refused(INDEPENDENT ".global .samplerref x = 1;", "expected '{'");
    ptx_check_refused(INDEPENDENT ".global .samplerref x = { filter_mode = ", "");
    ptx_check_refused(".func f(.param .texref x) { ret; }", "only kernels");
}

/* They take no room among a kernel's parameters, as in the code that NVIDIA's assembler makes. */
TEST_WITH(opaque_parameters, NULL, ptx_check_free)
{
    const struct ptx_module *m =
        ptx_check_read(INDEPENDENT ".visible .entry k(.param .u64 a, .param .texref t, .param "
                                   ".samplerref s, .param .surfref u, .param .u32 z) { ret; }");
    const struct ptx_function *f = ptx_check_function(m, "k");
    assert_true(m->texmode_independent);
    assert_int_equal(f->signature.param_count, 5);
    assert_int_equal(f->signature.params[1].size, 0);
    assert_int_equal(f->signature.params[4].offset, 8);
    assert_int_equal(f->param_size, 12);
    assert_false(ptx_check_read(".global .u32 x;")->texmode_independent);
}

TEST_WITH(shapes_refused, NULL, ptx_check_free)
{
    ptx_check_refused(".global x;", "without a type");
    ptx_check_refused(".global .u32 .u64 x;", "two types");
    ptx_check_refused(".global .shared .u32 x;", "two state spaces");
    ptx_check_refused(".visible .weak .global .u32 x;", "two linkage");
    ptx_check_refused(".global .align 3 .u32 x;", "alignment");
    ptx_check_refused(".global .align 0 .u32 x;", "alignment");
    ptx_check_refused(".global .pred x;", "predicates");
    ptx_check_refused(".global .u32 x[2][];", "first dimension");
    ptx_check_refused(".global .u32 x[];", "neither given");
    ptx_check_refused(".shared .u32 x[];", "neither given");
    ptx_check_refused(".global .u32 x[-1];", "dimension");
    ptx_check_refused(".global .u32 x[1000000][1000000];", "larger than");
    ptx_check_refused(".global .u32 x[1099511627776];", "larger than");
    ptx_check_refused(".reg .u32 x;", "cannot be declared here");
    ptx_check_refused(".param .u32 x;", "cannot be declared here");
    ptx_check_refused(".u32 x;", "at module scope");
    ptx_check_refused(".global .u32 x", "expected ';'");
    ptx_check_refused(".global .u32 x; .global .u32 x;", "defined twice");
}

static void check_relocation(const struct ptx_relocation *r, size_t offset, unsigned size, unsigned shift, bool generic,
                             int64_t addend)
{
    assert_int_equal(r->offset, offset);
    assert_int_equal(r->size, size);
    assert_int_equal(r->shift, shift);
    assert_int_equal(r->generic, generic);
    assert_int_equal(r->addend, addend);
}

TEST_WITH(addresses, NULL, ptx_check_free)
{
    const struct ptx_module *module = ptx_check_read(".func f {ret;} .global .u32 y[4]; .global .u64 x[5] = {y, y+8, "
                                                     "generic(y), generic(y)+4, f}; .global .u32 z = y;");
    const struct ptx_variable *x = ptx_check_variable(module, "x");
    assert_int_equal(x->relocation_count, 5);
    const struct ptx_relocation *r = x->relocations;
    check_relocation(&r[0], 0, 8, 0, false, 0);
    check_relocation(&r[1], 8, 8, 0, false, 8);
    check_relocation(&r[2], 16, 8, 0, true, 0);
    check_relocation(&r[3], 24, 8, 0, true, 4);
    check_relocation(&r[4], 32, 8, 0, false, 0);
    assert_string_equal(module->variables[r[0].symbol].name, "y");
    assert_false(r[0].is_function);
    assert_true(r[4].is_function);
    assert_string_equal(module->functions[r[4].symbol].name, "f");
    check_relocation(ptx_check_variable(module, "z")->relocations, 0, 4, 0, false, 0);
}

TEST_WITH(masked_addresses, NULL, ptx_check_free)
{
    const struct ptx_module *module = ptx_check_read(
        ".global .u32 y; .func f {ret;} .global .align 8 .u8 x[24] = {9, 0xFF(y), 0xFF00(y+4), 0xFF0000(generic(y)),"
        " 0xFF000000(generic(y)+4), 0xFF00000000(f), 0xFF0000000000(y), 0xFF000000000000(y), 0xFF00000000000000(y), "
        "7};");
    const struct ptx_variable *x = ptx_check_variable(module, "x");
    assert_int_equal(x->relocation_count, 8);
    for (size_t i = 0; i < 8; i++) {
        bool generic = i == 2 || i == 3;
        check_relocation(&x->relocations[i], i + 1, 1, (unsigned)i * 8, generic, i == 1 || i == 3 ? 4 : 0);
    }
    assert_true(x->relocations[4].is_function);
    assert_int_equal(x->init[0], 9);
    assert_int_equal(x->init[9], 7);
}

TEST_WITH(addresses_of_later_names, NULL, ptx_check_free)
{
    const struct ptx_module *module = ptx_check_read(".global .u64 x = y; .global .u32 y; .global .u64 self = self;");
    assert_string_equal(module->variables[ptx_check_variable(module, "x")->relocations->symbol].name, "y");
    assert_string_equal(module->variables[ptx_check_variable(module, "self")->relocations->symbol].name, "self");
}

TEST_WITH(addresses_refused, NULL, ptx_check_free)
{
    ptx_check_refused(".global .u64 x = nothing;", "'nothing', which is not declared");
    ptx_check_refused(".global .u32 y; .global .u8 x[8] = {y};", "does not fit");
    ptx_check_refused(".global .u32 y; .global .u8 x[8] = {0xF0(y)};", "one byte");
    ptx_check_refused(".global .u32 y; .global .u8 x[8] = {0xFFFF(y)};", "one byte");
    ptx_check_refused(".global .u32 y; .global .u8 x[8] = {0(y)};", "one byte");
    ptx_check_refused(".global .u32 y; .global .u64 x = generic(y;", "expected ')'");
    ptx_check_refused(".global .u32 y; .global .u8 x[8] = {1.0(y)};", "must be an integer");
}

int main(void) { return unit_run(NULL, NULL); }
