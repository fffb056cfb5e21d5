/* op_data.c: moves, address conversions, logic of predicates. */
#include "softgpu/exec/decode.h"
#include "softgpu/exec/straight.h"

#include <string.h>

static exec_handler *copy_of(enum ptx_type t)
{
    return decode_cell(t) == SG_CELL_128  ? exec_run_copy128
           : decode_cell(t) == SG_CELL_64 ? exec_run_copy64
                                          : exec_run_copy32;
}

/* --- predicates --- */

static void run_pred(struct exec_warp *w, const struct exec_insn *i)
{
    uint32_t a = *exec_pred(w, i->in) ^ i->in_flip, b = *exec_pred(w, i->q) ^ i->cost;
    exec_pred_write(w, i->p,
                    i->kind == EXEC_LOGIC_AND   ? a & b
                    : i->kind == EXEC_LOGIC_OR  ? a | b
                    : i->kind == EXEC_LOGIC_XOR ? a ^ b
                                          : a);
}

static int decode_pred_logic(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    if (decode_type(d, 0) != PTX_PRED)
        return decode_arithmetic(d);
    bool not = !strcmp(in->opcode, "not"), mov = !strcmp(in->opcode, "mov");
    struct exec_insn n = { .run = run_pred, .known = EXEC_STRAIGHT_LOGIC };
    n.kind = !strcmp(in->opcode, "and")   ? EXEC_LOGIC_AND
             : !strcmp(in->opcode, "or")  ? EXEC_LOGIC_OR
             : !strcmp(in->opcode, "xor") ? EXEC_LOGIC_XOR
                                          : EXEC_LOGIC_MOV;
    if (in->operand_count != (not || mov ? 2 : 3))
        return decode_error(d, "%u operands", in->operand_count);
    if (decode_predicate_destination(d, &in->operands[0], &n.p) ||
        decode_predicate(d, &in->operands[1], &n.in, &n.in_flip))
        return -1;
    if (not)
        n.in_flip = ~n.in_flip;
    if (n.kind != EXEC_LOGIC_MOV && decode_predicate(d, &in->operands[2], &n.q, &n.cost))
        return -1;
    return decode_put_guarded(d, n);
}

/* --- mov --- */

/* Every lane's value is put together from, or taken apart into, equal pieces of bytes. */
static void run_pack(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_pieces *p = i->extra;
    unsigned total = i->size, piece = p->size;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        unsigned char bytes[16];
        for (unsigned k = 0; k < p->count; k++) {
            const unsigned char *row = exec_row(w, p->rows[k]);
            memcpy(bytes + k * piece, row + l * (piece <= 4 ? 4 : piece), piece);
        }
        unsigned char *to = w->rows + i->d;
        if (total >= 8)
            memcpy(to + l * total, bytes, total);
        else {
            uint32_t v = 0;
            memcpy(&v, bytes, total);
            memcpy(to + l * 4, &v, 4);
        }
    }
}

static void run_unpack(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_pieces *p = i->extra;
    unsigned piece = p->size;
    const unsigned char *from = exec_row(w, i->s[0]);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        unsigned char bytes[16];
        memcpy(bytes, from + l * (i->size <= 4 ? 4 : i->size), i->size);
        for (unsigned k = 0; k < p->count; k++) {
            if (p->sink[k])
                continue;
            unsigned char *to = w->rows + p->to[k];
            if (piece >= 8)
                memcpy(to + l * piece, bytes + k * piece, piece);
            else {
                uint32_t v = 0;
                memcpy(&v, bytes + k * piece, piece);
                memcpy(to + l * 4, &v, 4);
            }
        }
    }
}

/* Two halves of 32 or 64 bits: nearly all of them. */
static void run_split(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_pieces *p = i->extra;
    uint32_t *halves[2] = { (uint32_t *)(void *)w->temp[0], (uint32_t *)(void *)w->temp[1] };
    if (i->size == 8)
        w->row->split32(halves[0], halves[1], exec_row(w, i->s[0]));
    else
        w->row->split16(halves[0], halves[1], exec_row(w, i->s[0]));
    for (unsigned k = 0; k < 2; k++)
        if (!p->sink[k])
            w->row->blend32((uint32_t *)(void *)(w->rows + p->to[k]), halves[k], w->mask);
}

static void run_join(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_pieces *p = i->extra;
    const uint32_t *low = exec_row(w, p->rows[0]), *high = exec_row(w, p->rows[1]);
    unsigned char *to = w->rows + i->d, *at = exec_full(w) ? to : w->temp[0];
    if (i->size == 8)
        w->row->join32((uint64_t *)(void *)at, low, high);
    else
        w->row->join16((uint32_t *)(void *)at, low, high);
    if (at == to)
        return;
    if (i->size == 8)
        w->row->blend64((uint64_t *)(void *)to, (const uint64_t *)(void *)at, w->mask);
    else
        w->row->blend32((uint32_t *)(void *)to, (const uint32_t *)(void *)at, w->mask);
}

static enum ptx_type bits_of(uint32_t size)
{
    return size == 1 ? PTX_B8 : size == 2 ? PTX_B16 : size == 4 ? PTX_B32 : size == 8 ? PTX_B64 : PTX_B128;
}

static int decode_pack(struct exec_decoder *d, enum ptx_type type, bool unpack)
{
    const struct ptx_operand *vector = &d->in->operands[unpack ? 0 : 1], *elements[16];
    struct ptx_operand scratch[16];
    uint32_t n = decode_elements(d, vector, elements, scratch, 16), size = (uint32_t)ptx_type_size(type);
    if (!n || size % n || size > 16)
        return decode_error(d, "%u pieces of a value of %u bytes", n, size);
    struct exec_pieces *p = exec_kernel_own(d->kernel, sizeof *p);
    if (!p)
        return decode_error(d, "no host memory");
    p->count = n;
    p->size = size / n;
    enum ptx_type piece = bits_of(p->size), declared;
    bool halves = n == 2 && (size == 4 || size == 8);
    struct exec_insn insn = { .run = unpack   ? halves ? run_split : run_unpack
                                     : halves ? run_join
                                              : run_pack,
                              .extra = p,
                              .size = (uint8_t)size,
                              .known = !halves  ? EXEC_STRAIGHT_NONE
                                       : unpack ? EXEC_STRAIGHT_SPLIT
                                                : EXEC_STRAIGHT_JOIN };
    for (uint32_t k = 0; k < n; k++) {
        if (!unpack) {
            if (decode_source(d, elements[k], piece, &p->rows[k]))
                return -1;
        } else if (elements[k]->kind == PTX_OP_SINK)
            p->sink[k] = true;
        else {
            if (decode_destination(d, elements[k], piece, &p->to[k], &declared))
                return -1;
            if (ptx_type_size(declared) != p->size)
                return decode_error(d, "a piece of %u bytes into a register of type %s", p->size,
                                    ptx_type_name(declared));
        }
    }
    if (unpack ? decode_source(d, &d->in->operands[1], type, &insn.s[0])
               : decode_destination(d, &d->in->operands[0], type, &insn.d, &declared))
        return -1;
    if (!unpack && ptx_type_size(declared) != size)
        return decode_error(d, "a value of %u bytes into a register of type %s", size, ptx_type_name(declared));
    return decode_put_guarded(d, insn);
}

static int decode_mov(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    enum ptx_type type = decode_type(d, 0), declared;
    if (in->operand_count != 2)
        return decode_error(d, "%u operands", in->operand_count);
    if (type == PTX_PRED)
        return decode_pred_logic(d);
    if (type == PTX_NONE)
        return decode_error(d, "no type");
    const struct ptx_operand *elements_d[16], *elements_s[16];
    struct ptx_operand scratch_d[16], scratch_s[16];
    uint32_t nd = decode_elements(d, &in->operands[0], elements_d, scratch_d, 16);
    uint32_t ns = decode_elements(d, &in->operands[1], elements_s, scratch_s, 16);
    if (ns == 1 && in->operands[1].kind == PTX_OP_SPECIAL && decode_has(d, "v4")) /* mov.v4.u32 {…}, %tid */
        for (ns = 0; ns < 4; ns++) {
            scratch_s[ns] = in->operands[1];
            scratch_s[ns].component = (int8_t)ns;
            elements_s[ns] = &scratch_s[ns];
        }
    if (nd > 1 && nd == ns) {                     /* mov.v4.f32 {…}, {…} */
        uint32_t temps[16];
        for (uint32_t k = 0; k < nd; k++) {       /* through temporaries: the lists may overlap */
            struct exec_insn n = { .run = copy_of(type) };
            if (decode_source(d, elements_s[k], type, &n.s[0]))
                return -1;
            temps[k] = n.d = decode_temp(d);
            if (decode_put_guarded(d, n))
                return -1;
        }
        for (uint32_t k = 0; k < nd; k++) {
            struct exec_insn n = { .run = copy_of(type), .s = { temps[k] | EXEC_BASE_FRAME } };
            if (decode_destination(d, elements_d[k], type, &n.d, &declared) || decode_put_guarded(d, n))
                return -1;
            if (decode_cell(declared) != decode_cell(type))
                return decode_error(d, "a value of type %s into a register of type %s", ptx_type_name(type),
                                    ptx_type_name(declared));
        }
        return 0;
    }
    if (ns > 1)
        return decode_pack(d, type, false);
    if (nd > 1)
        return decode_pack(d, type, true);
    struct exec_insn n = { .source_count = 1 };
    if (decode_destination(d, &in->operands[0], type, &n.d, &declared))
        return -1;
    /* a number like 1.5 is one of the instruction's type, whatever the register is declared as */
    const bool number = in->operands[1].kind == PTX_OP_FLOAT && ptx_type_size(type) == ptx_type_size(declared);
    if (decode_source(d, &in->operands[1], number ? type : declared, &n.s[0]))
        return -1;
    n.run = copy_of(declared);
    return decode_put_guarded(d, n);
}

/* --- generic addresses --- */

static void run_cvta(struct exec_warp *w, const struct exec_insn *i)
{
    const uint64_t *from = exec_row(w, i->s[0]);
    uint64_t *to = (uint64_t *)(void *)(w->rows + i->d), base = (uint64_t)i->offset,
             keep = i->kind ? UINT32_MAX : UINT64_MAX;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        to[l] = (from[l] & keep) | base;
    }
}

/* Addresses of parameters are generic already (decode_operand.c). A register of 32 bits keeps only the lower half. */
static void run_cvta_param(struct exec_warp *w, const struct exec_insn *i)
{
    const uint64_t *from = exec_row(w, i->s[0]);
    uint64_t *to = (uint64_t *)(void *)(w->rows + i->d);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        to[l] = from[l] >> 32 ? from[l] : from[l] | EXEC_WINDOW_BASE(EXEC_WINDOW_PARAM);
    }
}

static int decode_cvta(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    bool to = decode_has(d, "to"), given;
    enum ptx_space space = decode_space(d, &given);
    enum ptx_type declared;
    struct exec_insn n = { .run = exec_run_copy64, .source_count = 1 };
    if (in->operand_count != 2 || !given)
        return decode_error(d, "cvta without a space or with %u operands", in->operand_count);
    if (decode_destination(d, &in->operands[0], PTX_B64, &n.d, &declared))
        return -1;
    if (ptx_type_size(declared) != 8)
        return decode_error(d, "generic addresses have 64 bits");
    if (in->operands[1].kind == PTX_OP_VARIABLE || ptx_type_size(decode_type(d, 0)) == 8) {
        if (decode_source(d, &in->operands[1], PTX_B64, &n.s[0]))
            return -1;
    } else
        return decode_error(d, "generic addresses have 64 bits");
    if (space == PTX_SPACE_SHARED || space == PTX_SPACE_LOCAL) {
        n.run = run_cvta;
        n.known = EXEC_STRAIGHT_CVTA;
        n.kind = 1;
        n.offset =
            to ? 0 : (int64_t)EXEC_WINDOW_BASE(space == PTX_SPACE_SHARED ? EXEC_WINDOW_SHARED : EXEC_WINDOW_LOCAL);
    } else if (space == PTX_SPACE_PARAM && !to)
        n.run = run_cvta_param;
    return decode_put_guarded(d, n);
}

static void run_isspacep(struct exec_warp *w, const struct exec_insn *i)
{
    const uint64_t *a = exec_row(w, i->s[0]);
    uint32_t p = 0;
    for (unsigned l = 0; l < SG_LANES; l++) {
        uint64_t window = a[l] >> 32;
        bool special = a[l] & EXEC_WINDOW_BIT, is;
        switch (i->space) {
        case PTX_SPACE_SHARED:
            is = window == EXEC_WINDOW_SHARED && (i->kind || exec_shared_block(w->block, a[l]) == w->block);
            break;
        case PTX_SPACE_LOCAL:  is = window == EXEC_WINDOW_LOCAL; break;
        case PTX_SPACE_PARAM:  is = window == EXEC_WINDOW_PARAM; break;
        case PTX_SPACE_CONST:  is = false; break;
        default:               is = !special;
        }
        p |= (uint32_t)is << l;
    }
    exec_pred_write(w, i->p, p);
}

static int decode_isspacep(struct exec_decoder *d)
{
    bool given;
    struct exec_insn n = { .run = run_isspacep, .space = (uint8_t)decode_space(d, &given) };
    n.kind = decode_has(d, "shared::cluster");
    if (!given || d->in->operand_count != 2)
        return decode_error(d, "no space given");
    if (decode_predicate_destination(d, &d->in->operands[0], &n.p) ||
        decode_source(d, &d->in->operands[1], PTX_B64, &n.s[0]))
        return -1;
    return decode_put_guarded(d, n);
}

/* --- clusters: see EXEC_RANK_SHIFT --- */

static void run_mapa(struct exec_warp *w, const struct exec_insn *i)
{
    const void *a = exec_row(w, i->s[0]);
    const uint32_t *ranks = exec_row(w, i->s[1]);
    unsigned char *to = w->rows + i->d;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t at = exec_shared_of_rank(w->block, exec_lane(a, i->cell, l), ranks[l]);
        if (i->cell == SG_CELL_64)
            ((uint64_t *)(void *)to)[l] = at;
        else
            ((uint32_t *)(void *)to)[l] = (uint32_t)at;
    }
}

static void run_getctarank(struct exec_warp *w, const struct exec_insn *i)
{
    const void *a = exec_row(w, i->s[0]);
    uint32_t *to = (uint32_t *)(void *)(w->rows + i->d);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint32_t rank = (uint32_t)exec_lane(a, i->cell, l) >> EXEC_RANK_SHIFT;
        to[l] = rank ? rank - 1 : w->block->rank;
    }
}

static int decode_mapa(struct exec_decoder *d)
{
    enum ptx_type type = decode_type(d, 0), declared;
    bool rank = !strcmp(d->in->opcode, "getctarank");
    struct exec_insn n = { .run = rank ? run_getctarank : run_mapa, .cell = (uint8_t)decode_cell(type) };
    if (d->in->operand_count != (rank ? 2 : 3))
        return decode_error(d, "%u operands", d->in->operand_count);
    if (decode_destination(d, &d->in->operands[0], rank ? PTX_B32 : type, &n.d, &declared) ||
        decode_source(d, &d->in->operands[1], type, &n.s[0]) ||
        (!rank && decode_source(d, &d->in->operands[2], PTX_B32, &n.s[1])))
        return -1;
    if (ptx_type_size(declared) != (rank ? 4 : ptx_type_size(type)))
        return decode_error(d, "a destination of another size");
    return decode_put_guarded(d, n);
}

static int decode_nothing(struct exec_decoder *d) { (void)d; return 0; }

const struct decode_entry decode_data[] = { { "mov", decode_mov },
                                            { "and", decode_pred_logic },
                                            { "or", decode_pred_logic },
                                            { "xor", decode_pred_logic },
                                            { "not", decode_pred_logic },
                                            { "cvta", decode_cvta },
                                            { "isspacep", decode_isspacep },
                                            { "mapa", decode_mapa },
                                            { "getctarank", decode_mapa },
                                            /* hints, which may be ignored */
                                            { "prefetch", decode_nothing },
                                            { "prefetchu", decode_nothing },
                                            { "discard", decode_nothing },
                                            { "applypriority", decode_nothing },
                                            { "griddepcontrol", decode_nothing },
                                            { "setmaxnreg", decode_nothing },
                                            { "pmevent", decode_nothing },
                                            { NULL, NULL } };
