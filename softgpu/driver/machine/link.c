/*
 * link.c: links (cuLink…). An input is turned into PTX texts when it is added; completing a link chooses those that are
 * needed, checks that every function that they call is defined, and joins them. See SGD_LINK_JOINT in code.h.
 */
#include "softgpu/driver/machine/machine.h"
#include "cpu/code/fatbin.h"
#include "cpu/code/object.h"
#include "cpu/common/softgpu.h"
#include "softgpu/ptx/budget.h"
#include "softgpu/ptx/ptx.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The inputs are parsed and joined, too: the texts are the smaller part of what a link takes. */
enum { LINK_SHARE = 4 };

static CUresult fail(CUresult code, char *log, size_t log_size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(log, log_size, format, arguments);
    va_end(arguments);
    return code;
}

/* ---- inputs ---- */

static void input_free(struct sgd_link_input *input)
{
    free(input->text);
    free(input->name);
    ptx_budget_give(input->room);
}

/* Takes the input, also where it fails. */
static CUresult add_input(struct sgd_link *l, struct sgd_link_input input, char *log, size_t log_size)
{
    CUresult r = input.text && input.name ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    const size_t most = ptx_budget_most / LINK_SHARE;
    if (!r && (input.room > most || l->room > most - input.room))
        r = fail(CUDA_ERROR_OUT_OF_MEMORY, log, log_size,
                 "%s: the texts of this link have more than %zu MiB (FLYT_SOFTGPU_CODE_MEMORY / %d)", input.name,
                 most >> 20, LINK_SHARE);
    struct sgd_link_input *more = r ? NULL : realloc(l->inputs, (l->count + 1) * sizeof *more);
    if (!more) {
        input_free(&input);
        return r ? r : CUDA_ERROR_OUT_OF_MEMORY;
    }
    l->inputs = more;
    l->inputs[l->count++] = input;
    l->room += input.room;
    return CUDA_SUCCESS;
}

static CUresult add_text(struct sgd_link *l, const char *text, size_t size, const char *name, bool optional, char *log,
                         size_t log_size)
{
    if (!ptx_budget_take(size + 1))
        return sgd_text_refused(CUDA_ERROR_OUT_OF_MEMORY, log, log_size);
    struct sgd_link_input input = { strndup(text, size), strdup(name), size + 1, optional, 0 };
    return add_input(l, input, log, log_size);
}

static void drop_inputs(struct sgd_link *l, size_t count)
{
    while (l->count > count) {
        l->room -= l->inputs[--l->count].room;
        input_free(&l->inputs[l->count]);
    }
}

static CUresult check_ptx(const char *text, size_t size, const char *name, char *log, size_t log_size)
{
    struct ptx_source source = { .text = text, .size = size, .name = name };
    struct ptx_module *module;
    if (ptx_module_read_later(&source, 1, &module, log, log_size))
        return sgd_text_refused(CUDA_ERROR_INVALID_PTX, log, log_size);
    CUresult r = sgd_ptx_version_check(module, NULL, log, log_size);
    ptx_module_free(module);
    return r;
}

static CUresult add_ptx(struct sgd_link *l, const char *text, size_t size, const char *name, char *log, size_t log_size)
{
    size = strnlen(text, size);
    CUresult r = check_ptx(text, size, name, log, log_size);
    return r ? r : add_text(l, text, size, name, false, log, log_size);
}

struct containers {
    const struct sgd_device *device;
    struct sgd_link *link;
    const char *name;
    bool optional, found;
    CUresult result;
    char *log;
    size_t log_size;
};

static bool add_container(void *context, const void *container, size_t size)
{
    struct containers *c = context;
    struct sgd_image image;
    (void)size;
    c->result = sgd_image_container(c->device, container, &image, c->log, c->log_size);
    /* A GPU's linker compiles it where there is no machine code beside it. */
    if (!c->result && image.count == 1 && !image.machine_code && !c->optional)
        c->result = check_ptx(image.sources[0].text, image.sources[0].size, c->name, c->log, c->log_size);
    for (size_t i = 0; i < image.count && !c->result; i++) {
        struct sgd_link_input input = { (char *)image.texts[i], strdup(c->name), image.room[i], c->optional,
                                        image.sources[i].max_registers };
        input.text[image.sources[i].size] = 0;
        /* A newer compiler's: a GPU links its machine code, so what is linked here is this driver's. */
        bool newer = sgd_ptx_version_lower(input.text);
        image.texts[i] = NULL;                        /* it is the link's from here on */
        image.room[i] = 0;
        c->result = add_input(c->link, input, c->log, c->log_size);
        if (!c->result && newer && !image.machine_code)
            c->result = fail(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, c->log, c->log_size,
                             "%s: its PTX is newer than what this driver knows", c->name);
        c->found = true;
    }
    sgd_image_free(&image);
    return c->result == CUDA_SUCCESS;
}

static CUresult add_library(struct containers *c, const void *data, size_t size)
{
    size_t cursor = 0;
    struct archive_member member;
    int more;
    c->optional = true;
    while ((more = archive_next(data, size, &cursor, &member)) > 0 && !c->result)
        object_containers(member.data, member.size, add_container, c); /* other members are no business of ours */
    if (more < 0)
        return fail(CUDA_ERROR_INVALID_IMAGE, c->log, c->log_size, "%s: the archive is damaged", c->name);
    return c->result;
}

static CUresult add_binary(struct containers *c, const char *data, size_t size)
{
    if (archive_is(data, size))
        return add_library(c, data, size);
    uint32_t magic = 0;
    memcpy(&magic, data, size < sizeof magic ? size : sizeof magic);
    size_t container = magic == FATBIN_CONTAINER_MAGIC ? fatbin_container_size(data, size) : 0;
    if (container)
        add_container(c, data, container);
    else if (object_containers(data, size, add_container, c))
        return fail(CUDA_ERROR_INVALID_IMAGE, c->log, c->log_size,
                    "%s: neither a fat binary, nor an object, nor a library", c->name);
    if (!c->result && !c->found)
        return fail(CUDA_ERROR_NO_BINARY_FOR_GPU, c->log, c->log_size,
                    "%s has no PTX, and the software GPU executes nothing else: compile with PTX, for example "
                    "-gencode arch=compute_75,code=compute_75",
                    c->name);
    return c->result;
}

CUresult sgd_link_add(const struct sgd_device *d, struct sgd_link *l, CUjitInputType type, const void *data,
                      size_t size, const char *name, char *log, size_t log_size)
{
    struct containers c = { .device = d, .link = l, .name = name, .log = log, .log_size = log_size };
    size_t before = l->count;
    CUresult r;
    switch (type) {
    case CU_JIT_INPUT_PTX: r = add_ptx(l, data, size, name, log, log_size); break;
    case CU_JIT_INPUT_CUBIN: /* "machine code" of this device is PTX: see cpu/client/run/nvrtc.c */
    case CU_JIT_INPUT_FATBINARY:
    case CU_JIT_INPUT_OBJECT:
    case CU_JIT_INPUT_LIBRARY: {
        uint32_t magic = 0;
        memcpy(&magic, data, size < sizeof magic ? size : sizeof magic);
        bool text =
            memcmp(&magic, "\177ELF", sizeof magic) && magic != FATBIN_CONTAINER_MAGIC && !archive_is(data, size);
        r = text ? add_ptx(l, data, size, name, log, log_size) : add_binary(&c, data, size);
        break;
    }
    default:
        r = fail(CUDA_ERROR_NOT_SUPPORTED, log, log_size, "%s: the software GPU cannot link inputs of type %d", name,
                 (int)type);
    }
    if (r)
        drop_inputs(l, before);
    return r;
}

static void result_drop(struct sgd_link *l)
{
    free(l->result);
    ptx_budget_give(l->result_room);
    l->result = NULL;
    l->result_room = 0;
}

void sgd_link_free(struct sgd_link *l)
{
    drop_inputs(l, 0);
    free(l->inputs);
    result_drop(l);
    free(l);
}

/* ---- what the driver itself defines ---- */

/* libcudadevrt's cudaCGGetIntrinsicHandle and cudaCGSynchronize call these (Numba's grid groups do). The handle is the
   grid's workspace, whose second word is the barrier; 0: the launch is not cooperative. Bit 0 of the flags: one thread
   of each block calls; without it all do. The barrier is that of cooperative_groups (details/sync.h): each block adds
   1, and the first one what is missing to 2^31, so that the top bit flips when the last one has come. */
static const char grid_calls[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .func (.param .b64 handle) __cuda_syscall_CGS_get_intrinsic_handle(.param .b32 scope)\n{\n"
    ".reg .b32 %low, %high;\n.reg .b64 %workspace;\n"
    "mov.u32 %high, %envreg1;\nmov.u32 %low, %envreg2;\nmov.b64 %workspace, {%low, %high};\n"
    "st.param.b64 [handle], %workspace;\nret;\n}\n"
    ".visible .func (.param .b32 result) __cuda_syscall_CGS_sync(.param .b64 handle, .param .b32 flags)\n{\n"
    ".reg .pred %again, %other, %one;\n.reg .b32 %x, %y, %z, %add, %old, %now;\n.reg .b64 %workspace;\n"
    "ld.param.u64 %workspace, [handle];\nld.param.u32 %x, [flags];\n"
    "and.b32 %x, %x, 1;\nsetp.ne.u32 %one, %x, 0;\n@%one bra ARRIVE;\n"
    "barrier.sync 0;\n"
    "mov.u32 %x, %tid.x;\nmov.u32 %y, %tid.y;\nmov.u32 %z, %tid.z;\n"
    "or.b32 %x, %x, %y;\nor.b32 %x, %x, %z;\nsetp.ne.u32 %other, %x, 0;\n@%other bra ARRIVED;\n"
    "ARRIVE:\n"
    "mov.u32 %x, %nctaid.x;\nmov.u32 %y, %nctaid.y;\nmov.u32 %z, %nctaid.z;\n"
    "mul.lo.u32 %x, %x, %y;\nmul.lo.u32 %x, %x, %z;\nsub.u32 %add, 0x80000001, %x;\n"
    "mov.u32 %x, %ctaid.x;\nmov.u32 %y, %ctaid.y;\nmov.u32 %z, %ctaid.z;\n"
    "or.b32 %x, %x, %y;\nor.b32 %x, %x, %z;\nsetp.ne.u32 %other, %x, 0;\n@%other mov.u32 %add, 1;\n"
    "atom.add.release.gpu.u32 %old, [%workspace+4], %add;\n"
    "AGAIN:\n"
    "ld.acquire.gpu.u32 %now, [%workspace+4];\nxor.b32 %now, %now, %old;\n"
    "setp.ge.s32 %again, %now, 0;\n@%again bra AGAIN;\n"
    "@%one bra DONE;\n"
    "ARRIVED:\nbarrier.sync 0;\n"
    "DONE:\nst.param.b32 [result], 0;\nret;\n}\n";

/* Functions of this form are the driver's own. One that this driver lacks spoils the kernel that reaches it, and no
   more: libcudadevrt names all of them, also those of dynamic parallelism before CUDA 12 (cnp…). */
static bool is_drivers(const char *name)
{
    return ptx_is_builtin(name) || !strncmp(name, "__cuda_syscall_", 15) || !strncmp(name, "cnp", 3);
}

/* ---- which inputs are needed ---- */

static bool exported(enum ptx_linkage linkage) { return linkage != PTX_LINK_LOCAL && linkage != PTX_LINK_EXTERN; }

static bool defines(const struct ptx_module *m, const char *name)
{
    for (uint32_t i = 0; i < m->function_count; i++)
        if (m->functions[i].defined && exported(m->functions[i].linkage) && strcmp(m->functions[i].name, name) == 0)
            return true;
    for (uint32_t i = 0; i < m->variable_count; i++)
        if (!m->variables[i].assumed && exported(m->variables[i].linkage) && strcmp(m->variables[i].name, name) == 0)
            return true;
    return false;
}

/* Whether `to` declares, without defining it, a name that `from` defines and that no chosen input defines. */
static bool needs(const struct ptx_module *to, const struct ptx_module *from, struct ptx_module *const *modules,
                  const bool *chosen, size_t count)
{
    for (uint32_t i = 0; i < to->function_count + to->variable_count; i++) {
        bool function = i < to->function_count;
        const struct ptx_function *f = &to->functions[i];
        const struct ptx_variable *v = function ? NULL : &to->variables[i - to->function_count];
        if (function ? f->defined : !v->assumed)
            continue;
        const char *name = function ? f->name : v->name;
        bool held = !defines(from, name);
        for (size_t k = 0; k < count && !held; k++)
            held = chosen[k] && defines(modules[k], name);
        if (!held)
            return true;
    }
    return false;
}

static void choose(const struct sgd_link *l, struct ptx_module *const *modules, bool *chosen)
{
    for (size_t i = 0; i < l->count; i++)
        chosen[i] = !l->inputs[i].optional;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < l->count; i++)
            for (size_t k = 0; k < l->count && !chosen[i]; k++)
                if (chosen[k] && needs(modules[k], modules[i], modules, chosen, l->count))
                    more = chosen[i] = true;
    }
}

/* ---- what is missing ---- */

/*
 * As nvlink sees it: a function that lives must find all that it calls. Those live that a kernel calls, directly or
 * through others, and those whose address some function or initial value takes, whether that is ever used or not. What
 * takes an address must find the function in any case. (nvJitLink 12.9 and 13.0 do so.)
 */
struct search {
    const struct ptx_module *module;
    bool *lives;
    uint32_t *next, count; /* living functions whose calls have not been followed */
    const struct ptx_function *missing, *by;
};

static bool is_missing(const struct ptx_function *f) { return !f->defined && !is_drivers(f->name); }

static void note_living(struct search *s, uint32_t index)
{
    if (!s->lives[index] && s->module->functions[index].defined)
        s->next[s->count++] = index;
    s->lives[index] = true;
}

static void note_missing(struct search *s, uint32_t index, const struct ptx_function *by)
{
    if (!s->missing && is_missing(&s->module->functions[index])) {
        s->missing = &s->module->functions[index];
        s->by = by;
    }
}

/* The function that an instruction calls by its name: an operand that is no address. NULL: none. */
static const struct ptx_operand *called(const struct ptx_instruction *in)
{
    for (uint32_t i = 0; i < in->operand_count && !strcmp(in->opcode, "call"); i++)
        if (in->operands[i].kind == PTX_OP_FUNCTION)
            return &in->operands[i];
    return NULL;
}

static void note_addresses(struct search *s, const struct ptx_function *f, const struct ptx_operand *operands,
                           uint32_t count, const struct ptx_operand *but)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct ptx_operand *o = &operands[i];
        if (o->kind == PTX_OP_FUNCTION && o != but) {
            note_living(s, o->index);
            note_missing(s, o->index, f);
        }
        note_addresses(s, f, o->elements, o->element_count, but);
    }
}

static void note_roots(struct search *s)
{
    const struct ptx_module *m = s->module;
    for (uint32_t i = 0; i < m->variable_count; i++)
        for (size_t k = 0; k < m->variables[i].relocation_count; k++)
            if (m->variables[i].relocations[k].is_function) {
                uint32_t index = m->variables[i].relocations[k].symbol;
                note_living(s, index);
                note_missing(s, index, &m->functions[index]);
            }
    for (uint32_t i = 0; i < m->function_count; i++) {
        const struct ptx_function *f = &m->functions[i];
        if (f->is_entry)
            note_living(s, i);
        for (uint32_t k = 0; k < f->instruction_count; k++)
            note_addresses(s, f, f->instructions[k].operands, f->instructions[k].operand_count,
                           called(&f->instructions[k]));
    }
}

/* A variable that is declared must be defined, whether it is used or not. The reader says so of several texts; alone,
   a text is a whole program, whose declarations it takes for definitions. (nvJitLink 13.0 takes none.) */
static CUresult check_variables(const struct ptx_module *m, const char *name, char *log, size_t log_size)
{
    for (uint32_t i = 0; i < m->variable_count; i++)
        if (m->variables[i].assumed)
            return fail(CUDA_ERROR_UNKNOWN, log, log_size, "error   : Undefined reference to '%s' in '%s'",
                        m->variables[i].name, name);
    return CUDA_SUCCESS;
}

static CUresult check_references(const struct ptx_module *m, const char *const *names, char *log, size_t log_size)
{
    struct search s = { .module = m };
    s.lives = calloc(m->function_count + 1u, sizeof *s.lives);
    s.next = calloc(m->function_count + 1u, sizeof *s.next);
    CUresult r = s.lives && s.next ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!r)
        note_roots(&s);
    while (!r && s.count) {
        const struct ptx_function *f = &m->functions[s.next[--s.count]];
        for (uint32_t k = 0; k < f->instruction_count; k++) {
            const struct ptx_operand *callee = called(&f->instructions[k]);
            if (callee) {
                note_living(&s, callee->index);
                note_missing(&s, callee->index, f);
            }
        }
    }
    free(s.lives);
    free(s.next);
    return r || !s.missing ? r
                           : fail(CUDA_ERROR_UNKNOWN, log, log_size, "error   : Undefined reference to '%s' in '%s'",
                                  s.missing->name, names[s.by->unit]);
}

/* ---- completing ---- */

enum { BOUND_MOST = sizeof SOFTGPU_BOUND_COMMENT + 12 };

/* What comes before a text whose fat binary bounds its registers: how many bytes. */
static size_t bound_comment(const struct ptx_source *source, char out[BOUND_MOST])
{
    return source->max_registers
               ? (size_t)snprintf(out, BOUND_MOST, SOFTGPU_BOUND_COMMENT "%u\n", source->max_registers)
               : 0;
}

/* The result: the texts, one behind the other. */
static CUresult join_texts(struct sgd_link *l, const struct ptx_source *sources, size_t count, size_t *size, char *log,
                           size_t log_size)
{
    const size_t joint = sizeof SGD_LINK_JOINT - 1;
    char bound[BOUND_MOST];
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += (i ? joint : 0) + bound_comment(&sources[i], bound) + sources[i].size;
    result_drop(l);
    if (!ptx_budget_take(length + 1))
        return sgd_text_refused(CUDA_ERROR_OUT_OF_MEMORY, log, log_size);
    l->result_room = length + 1;
    char *at = l->result = malloc(length + 1);
    if (!at)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        at = i ? mempcpy(at, SGD_LINK_JOINT, joint) : at;
        at = mempcpy(at, bound, bound_comment(&sources[i], bound));
        at = mempcpy(at, sources[i].text, sources[i].size);
    }
    *at = 0;
    *size = length + 1;
    return CUDA_SUCCESS;
}

/* The chosen inputs, linked and joined. */
static CUresult join(struct sgd_link *l, const bool *chosen, size_t *size, char *log, size_t log_size)
{
    struct ptx_source *sources = calloc(l->count, sizeof *sources);
    const char **names = calloc(l->count, sizeof *names);
    struct ptx_module *module;
    size_t count = 0;
    CUresult r = sources && names ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < l->count && !r; i++)
        if (chosen[i]) {
            names[count] = l->inputs[i].name;
            sources[count++] = (struct ptx_source){ .text = l->inputs[i].text,
                                                    .size = strlen(l->inputs[i].text),
                                                    .name = l->inputs[i].name,
                                                    .max_registers = l->inputs[i].max_registers };
        }
    if (!r && ptx_module_read(sources, count, &module, log, log_size)) {
        r = sgd_text_refused(CUDA_ERROR_UNKNOWN, log, log_size); /* as nvlink's errors */
    } else if (!r) {
        r = check_references(module, names, log, log_size);
        r = r ? r : check_variables(module, names[0], log, log_size);
        ptx_module_free(module);
    }
    if (!r)
        r = join_texts(l, sources, count, size, log, log_size);
    free(sources);
    free(names);
    return r;
}

CUresult sgd_link_complete(struct sgd_link *l, size_t *size, char *log, size_t log_size)
{
    if (!l->count)
        return fail(CUDA_ERROR_INVALID_IMAGE, log, log_size, "there is nothing to link");
    CUresult r = add_text(l, grid_calls, sizeof grid_calls - 1, "the driver", true, log, log_size);
    struct ptx_module **modules = calloc(l->count, sizeof *modules);
    bool *chosen = calloc(l->count, sizeof *chosen);
    size_t read = 0;
    if (!modules || !chosen)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    for (; read < l->count && !r; read++) {
        struct ptx_source source = { .text = l->inputs[read].text,
                                     .size = strlen(l->inputs[read].text),
                                     .name = l->inputs[read].name };
        if (ptx_module_read_outline(&source, 1, &modules[read], log, log_size)) {
            r = sgd_text_refused(CUDA_ERROR_INVALID_PTX, log, log_size);
            break;
        }
    }
    if (!r) {
        choose(l, modules, chosen);
        r = join(l, chosen, size, log, log_size);
    }
    for (size_t i = 0; i < read; i++)
        ptx_module_free(modules[i]);
    free(modules);
    free(chosen);
    return r;
}
