/*
 * op_check.c: what decoding puts into kernels that are watched (FLYT_SOFTGPU_MEMCHECK): before each instruction that
 * accesses global or shared memory a check of the same addresses, and around barriers, fences and atomics what passes
 * knowledge between warps. Forms that are not known here are not watched: textures, surfaces, parameters, constants and
 * local memory, bulk copies that reduce, operands of wgmma in shared memory.
 */
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "softgpu/check.h"
#include "softgpu/exec/check.h"
#include "softgpu/exec/decode.h"

/* Lanes access `bytes` each; or what the row `size` says, if it is there. wmma: `lines` pieces, `stride` elements
   apart. */
struct check {
    struct check_site site;
    uint32_t lanes;                   /* which ones do */
    uint32_t bytes, align;
    exec_source size;
    uint32_t lines, element_bits;
    exec_source stride;
};

static bool check_one(struct exec_warp *w, struct check *c, unsigned lane, uint64_t address)
{
    uint64_t n = c->size ? ((const uint32_t *)exec_row(w, c->size))[lane] : c->bytes;
    if (c->align > 1 && address % c->align)
        return true;                                  /* the access itself says so */
    if (!c->lines)
        return check_access(w, &c->site, lane, address, n);
    uint64_t stride = c->stride ? ((const uint32_t *)exec_row(w, c->stride))[lane] : n * 8 / c->element_bits;
    for (uint32_t line = 0; line < c->lines; line++)
        if (!check_access(w, &c->site, lane, address + line * stride * c->element_bits / 8, n))
            return false;
    return true;
}

static void run_check(struct exec_warp *w, const struct exec_insn *i)
{
    struct check *c = (struct check *)(uintptr_t)i->extra;            /* the kernel's own, and writable */
    bool fine = true;
    for (uint32_t m = w->mask & c->lanes; m; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        fine &= check_one(w, c, lane, exec_generic_address(w, i, lane));
    }
    if (!fine)
        exec_fault(w, i, CUDA_ERROR_LAUNCH_FAILED, "FLYT_SOFTGPU_MEMCHECK has reported it");
}

static unsigned place_of(const struct exec_warp *w, const struct exec_insn *i)
{
    uint32_t id = i->s[0] ? ((const uint32_t *)exec_row(w, i->s[0]))[__builtin_ctz(w->mask)] : EXEC_BARRIERS;
    return id < EXEC_BARRIERS ? id : EXEC_BARRIERS;
}
static void run_release(struct exec_warp *w, const struct exec_insn *i) { check_release(w, place_of(w, i)); }
static void run_acquire(struct exec_warp *w, const struct exec_insn *i) { check_acquire(w, place_of(w, i)); }

/* --- decoding --- */

static struct check *check_new(struct exec_decoder *d)
{
    struct check *c = exec_kernel_own(d->kernel, sizeof *c);
    if (!c)
        return NULL;
    c->site.module = d->module;
    c->site.function = d->f;
    c->site.instruction = d->in;
    c->lanes = UINT32_MAX;
    return c;
}

static int put_check(struct exec_decoder *d, struct check *c, uint32_t operand, enum ptx_space space)
{
    struct exec_insn n = { .run = run_check, .extra = c };
    if (operand >= d->in->operand_count || decode_memory(d, &d->in->operands[operand], space, &n))
        return -1;
    if (n.space != PTX_SPACE_GLOBAL && n.space != PTX_SPACE_SHARED && n.space != PTX_SPACE_GENERIC)
        return 0;
    return decode_put_guarded(d, n);
}

/* What programs wait and signal with. */
static bool is_signal(const struct exec_decoder *d)
{
    static const char *const modifiers[] = { "volatile", "relaxed", "acquire", "release", "mmio" };
    for (size_t i = 0; i < sizeof modifiers / sizeof *modifiers; i++)
        if (decode_has(d, modifiers[i]))
            return true;
    return false;
}

/* ld, ldu, st, atom, red */
static int check_plain(struct exec_decoder *d)
{
    const char *opcode = d->in->opcode;
    bool load = !strncmp(opcode, "ld", 2), store = !strcmp(opcode, "st");
    struct check *c = check_new(d);
    if (!c)
        return decode_error(d, "no host memory");
    unsigned vector = decode_has(d, "v2") ? 2 : decode_has(d, "v4") ? 4 : decode_has(d, "v8") ? 8 : 1;
    size_t each = ptx_type_size(decode_type(d, 0));
    if (!each || decode_has(d, "bulk"))
        return 0;
    c->bytes = (uint32_t)each * vector;
    c->align = c->bytes;
    c->site.read = !store;
    c->site.write = !load;
    c->site.atomic = (!load && !store) || is_signal(d);
    return put_check(d, c, load || !strcmp(opcode, "atom") ? 1 : 0, decode_space(d, NULL));
}

static int check_copy_async(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    struct check *to = check_new(d), *from = check_new(d);
    if (!to || !from)
        return decode_error(d, "no host memory");
    if (in->operand_count < 3 || in->operands[2].kind != PTX_OP_INTEGER)
        return 0;
    to->bytes = from->bytes = to->align = from->align = (uint32_t)in->operands[2].integer;
    to->site.write = from->site.read = true;
    bool whole = in->operand_count == 3 || decode_has(d, "L2::cache_hint");
    if (whole && put_check(d, from, 1, PTX_SPACE_GLOBAL))
        return -1;
    return put_check(d, to, 0, PTX_SPACE_SHARED);
}

static int check_copy_bulk(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    struct check *to = check_new(d), *from = check_new(d);
    bool out = decode_has(d, "bulk_group");
    if (!to || !from)
        return decode_error(d, "no host memory");
    if (in->operand_count < 3 || decode_has(d, "tensor") || decode_has(d, "prefetch") ||
        decode_source(d, &in->operands[2], PTX_B32, &to->size))
        return 0;
    from->size = to->size;
    to->site.write = from->site.read = true;
    bool inside = !out && !decode_has(d, "global");
    if (put_check(d, from, 1, out || inside ? PTX_SPACE_SHARED : PTX_SPACE_GLOBAL))
        return -1;
    return put_check(d, to, 0, out ? PTX_SPACE_GLOBAL : PTX_SPACE_SHARED);
}

static int check_copy(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    if (!in->modifier_count || strcmp(in->modifiers[0], "async") || decode_has(d, "mbarrier"))
        return 0;
    return decode_has(d, "bulk") ? check_copy_bulk(d) : check_copy_async(d);
}

/* ldmatrix, stmatrix: the first lanes give rows of 16 bytes */
static int check_tiles(struct exec_decoder *d)
{
    struct check *c = check_new(d);
    if (!c)
        return decode_error(d, "no host memory");
    bool store = d->in->opcode[0] == 's';
    unsigned rows = (decode_has(d, "x4") ? 32 : decode_has(d, "x2") ? 16 : 8) * (decode_has(d, "m16n16") ? 2 : 1);
    c->lanes = rows >= 32 ? UINT32_MAX : (1u << rows) - 1;
    c->bytes = c->align = 16;
    c->site.write = store;
    c->site.read = !store;
    return put_check(d, c, store ? 0 : 1, decode_space(d, NULL));
}

/* wmma.load, wmma.store: the first lane stands for all */
static int check_wmma(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    struct check *c = check_new(d);
    unsigned m, n, k, bits = 0;
    if (!c)
        return decode_error(d, "no host memory");
    if (in->modifier_count < 2 || !strcmp(in->modifiers[0], "mma"))
        return 0;
    for (uint32_t i = 0; i < in->modifier_count; i++)
        if (sscanf(in->modifiers[i], "m%un%uk%u", &m, &n, &k) == 3)
            bits = 1;
    char which = in->modifiers[1][0];
    const char *type = in->modifiers[in->modifier_count - 1];
    if (bits)
        bits = !strcmp(type, "tf32")                           ? 32
               : !strcmp(type, "s4") || !strcmp(type, "u4")    ? 4
               : !strcmp(type, "b1")                           ? 1
                                                               : 8 * (unsigned)ptx_type_size(decode_type(d, 0));
    if (!bits)
        return 0;
    unsigned rows = which == 'b' ? k : m, columns = which == 'a' ? k : n;
    bool by_column = decode_has(d, "col"), store = !strcmp(in->modifiers[0], "store");
    c->lanes = 1;
    c->lines = by_column ? columns : rows;
    c->bytes = (by_column ? rows : columns) * bits / 8;
    c->element_bits = bits;
    c->site.write = store;
    c->site.read = !store;
    if (in->operand_count > 2 && decode_source(d, &in->operands[2], PTX_B32, &c->stride))
        return -1;
    return put_check(d, c, store ? 0 : 1, decode_space(d, NULL));
}

/* mbarrier.init writes the object; the others read and write it, and pass knowledge on. */
static int check_mbarrier(struct exec_decoder *d)
{
    struct check *c = check_new(d);
    if (!c)
        return decode_error(d, "no host memory");
    if (!d->in->modifier_count || strcmp(d->in->modifiers[0], "init"))
        return 0;
    c->bytes = c->align = 8;
    c->site.write = c->site.atomic = true;
    return put_check(d, c, 0, decode_space(d, NULL));
}

/* --- order --- */

static bool is_barrier(const struct exec_decoder *d)
{
    return (!strcmp(d->in->opcode, "bar") || !strcmp(d->in->opcode, "barrier")) && !decode_has(d, "warp") &&
           !decode_has(d, "cluster");
}

static bool is_cluster_barrier(const struct exec_decoder *d)
{
    return !strcmp(d->in->opcode, "barrier") && decode_has(d, "cluster");
}

static bool passes_on(const struct exec_decoder *d)
{
    static const char *const opcodes[] = { "membar", "fence", "mbarrier", "atom", "red" };
    for (size_t i = 0; i < sizeof opcodes / sizeof *opcodes; i++)
        if (!strcmp(d->in->opcode, opcodes[i]))
            return true;
    return is_barrier(d) || is_cluster_barrier(d) ||
           ((!strcmp(d->in->opcode, "ld") || !strcmp(d->in->opcode, "st")) && is_signal(d));
}

static int put_order(struct exec_decoder *d, exec_handler *run)
{
    struct exec_insn n = { .run = run };
    const struct ptx_instruction *in = d->in;
    uint32_t id = decode_has(d, "red") ? 1 : 0;
    if (!passes_on(d))
        return 0;
    if (is_barrier(d) && (id >= in->operand_count || decode_source(d, &in->operands[id], PTX_B32, &n.s[0])))
        return -1;
    return decode_put_guarded(d, n);
}

/* --- what decode.c calls --- */

int decode_check_before(struct exec_decoder *d)
{
    static const struct decode_entry table[] = {
        { "ld", check_plain },       { "ldu", check_plain },  { "st", check_plain },
        { "atom", check_plain },     { "red", check_plain },  { "cp", check_copy },
        { "ldmatrix", check_tiles }, { "stmatrix", check_tiles }, { "wmma", check_wmma },
        { "mbarrier", check_mbarrier },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(d->in->opcode, table[i].opcode) && table[i].decode(d))
            return -1;
    return sg_check & SG_CHECK_RACE ? put_order(d, run_release) : 0;
}

int decode_check_after(struct exec_decoder *d)
{
    return sg_check & SG_CHECK_RACE && !decode_has(d, "arrive") ? put_order(d, run_acquire) : 0;
}
