/*
 * module.c: modules.
 *
 * Reading PTX and decoding entries can take long, so both happen without the driver's mutex; a module is pinned
 * meanwhile by `running`, which also counts its launches, and unloading waits until it is 0.
 */
#include "softgpu/driver/machine/machine.h"
#include "softgpu/check.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"

/* An .extern that the reader let stand is its own definition. */
static bool has_memory(const struct ptx_variable *v)
{
    return v->space == PTX_SPACE_GLOBAL || v->space == PTX_SPACE_CONST;
}

static uint64_t size_of(const struct ptx_variable *v) { return v->size ? v->size : 8; }    /* references to textures */

CUresult sgd_library_managed(const struct sgd_library *l, const char *name, uint64_t *address, uint64_t *size)
{
    for (size_t i = 0; i < l->managed_count; i++)
        if (!strcmp(l->managed[i].name, name)) {
            *address = l->managed[i].address;
            *size = l->managed[i].size;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- memory of variables ----------------------------------------------------------------------------------------- */

/* A managed variable that is this module's. Of one that is its library's, *address is set. */
static bool is_own_managed(const struct sgd_module *m, const struct ptx_variable *v, uint64_t *address)
{
    uint64_t size;
    return has_memory(v) && v->managed &&
           !(m->library && sgd_library_managed(m->library, v->name, address, &size) == CUDA_SUCCESS);
}

static uint64_t in_granules(uint64_t size) { return (size + SGD_GRANULE - 1) & ~(uint64_t)(SGD_GRANULE - 1); }

/* An allocation each, behind each other, so that one address says where all of them lie. */
static CUresult place_managed(struct sgd_module *m, const struct ptx_module *ptx)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    uint64_t total = 0;
    for (uint32_t i = 0; i < ptx->variable_count; i++)
        if (is_own_managed(m, &ptx->variables[i], &m->addresses[i]))
            total += in_granules(size_of(&ptx->variables[i]));
    if (!total)
        return CUDA_SUCCESS;
    if (!m->place.managed) {
        m->place.managed = sgd_space_reserve_code(total, 0);
        if (!m->place.managed)
            return CUDA_ERROR_OUT_OF_MEMORY;
        sgd_space_release(m->place.managed, total);
    }
    uint64_t at = m->place.managed;
    for (uint32_t i = 0; i < ptx->variable_count; i++) {
        const struct ptx_variable *v = &ptx->variables[i];
        if (!is_own_managed(m, v, &m->addresses[i]))
            continue;
        CUresult r = sgd_memory_new_code(m->context, SGD_MEMORY_MANAGED, size_of(v), at, &m->addresses[i]);
        if (r)
            return r;
        struct sgd_memory *memory = sgd_memory_find(m->addresses[i]);
        memory->flags = CU_MEM_ATTACH_GLOBAL;
        memory->internal = true;
        at += in_granules(size_of(v));
    }
    return CUDA_SUCCESS;
}

/* Addresses for all variables: one allocation for those of the device, one each for managed ones. */
static CUresult place_variables(struct sgd_module *m, const struct ptx_module *ptx)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    uint64_t total = 0;
    m->addresses = calloc(ptx->variable_count + 1, sizeof *m->addresses);
    if (!m->addresses)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = place_managed(m, ptx);
    if (r)
        return r;
    for (uint32_t i = 0; i < ptx->variable_count; i++) {
        const struct ptx_variable *v = &ptx->variables[i];
        if (!has_memory(v) || v->managed)
            continue;
        uint64_t align = v->align > 16 ? v->align : 16;
        total = (total + align - 1) & ~(align - 1);
        m->addresses[i] = total + 1;         /* + 1: so that 0 means "none"; the base is added below */
        total += size_of(v);
    }
    if (!total)
        return CUDA_SUCCESS;
    r = sgd_memory_new_code(m->context, SGD_MEMORY_DEVICE, total, m->place.memory, &m->memory);
    if (r)
        return r;
    m->place.memory = m->memory;
    sgd_memory_find(m->memory)->internal = true;
    memset((void *)(uintptr_t)m->memory, 0, total);
    if (sg_check)
        sg_check_written(m->memory, total);
    for (uint32_t i = 0; i < ptx->variable_count; i++)
        if (has_memory(&ptx->variables[i]) && !ptx->variables[i].managed)
            m->addresses[i] += m->memory - 1;
    return CUDA_SUCCESS;
}

static void relocate(const struct sgd_module *m, uint8_t *at, const struct ptx_relocation *r)
{
    uint64_t target = (r->is_function ? sg_program_function_address(m->program, r->symbol) : m->addresses[r->symbol]) +
                      (uint64_t)r->addend;
    target >>= r->shift;
    memcpy(at + r->offset, &target, r->size <= 8 ? r->size : 8);     /* little endian */
}

static void write_initial_values(const struct sgd_module *m)
{
    for (uint32_t i = 0; i < m->ptx->variable_count; i++) {
        const struct ptx_variable *v = &m->ptx->variables[i];
        uint8_t *at = (uint8_t *)(uintptr_t)m->addresses[i];
        if (!at)
            continue;
        bool kept = v->managed && m->library && m->library->initialised;   /* the program may have changed it since */
        if (v->init && !kept)
            memcpy(at, v->init, v->size);
        for (size_t r = 0; r < v->relocation_count && !kept; r++)
            relocate(m, at, &v->relocations[r]);
    }
}

/* A kernel calls only what its module declares. */
static bool reaches_heap(const struct ptx_module *ptx)
{
    for (uint32_t i = 0; i < ptx->function_count; i++)
        if (sg_is_of_heap(&ptx->functions[i]))
            return true;
    return false;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const char *entry_name(const struct ptx_module *ptx, uint32_t index) { return ptx->functions[index].name; }
static const char *variable_name(const struct ptx_module *ptx, uint32_t index) { return ptx->variables[index].name; }

static int entries_in_order(const void *a, const void *b, void *ptx)
{
    return strcmp(entry_name(ptx, *(const uint32_t *)a), entry_name(ptx, *(const uint32_t *)b));
}

static int variables_in_order(const void *a, const void *b, void *ptx)
{
    return strcmp(variable_name(ptx, *(const uint32_t *)a), variable_name(ptx, *(const uint32_t *)b));
}

/* Variables of different units may have one name: the first that the name finds is any of them. */
static bool sort_names(struct sgd_module *m, struct ptx_module *ptx)
{
    m->functions = calloc(ptx->function_count + 1, sizeof *m->functions);
    m->entries = malloc((ptx->function_count + 1) * sizeof *m->entries);
    m->variables = malloc((ptx->variable_count + 1) * sizeof *m->variables);
    if (!m->functions || !m->entries || !m->variables)
        return false;
    for (uint32_t i = 0; i < ptx->function_count; i++)
        if (ptx->functions[i].is_entry && ptx->functions[i].defined)
            m->entries[m->entry_count++] = i;
    for (uint32_t i = 0; i < ptx->variable_count; i++)
        if (m->addresses[i])
            m->variables[m->variable_count++] = i;
    qsort_r(m->entries, m->entry_count, sizeof *m->entries, entries_in_order, ptx);
    qsort_r(m->variables, m->variable_count, sizeof *m->variables, variables_in_order, ptx);
    return true;
}

/* The place in the list of the first that has the name; count: none has. */
static uint32_t find_name(const struct ptx_module *ptx, const uint32_t *list, uint32_t count, const char *name,
                          const char *(*name_of)(const struct ptx_module *, uint32_t))
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(name_of(ptx, list[middle]), name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && !strcmp(name_of(ptx, list[low]), name) ? low : count;
}

/* ---- a module ---------------------------------------------------------------------------------------------------- */

static void release_memory(struct sgd_module *m, const struct ptx_module *ptx)
{
    for (uint32_t i = 0; m->addresses && ptx && i < ptx->variable_count; i++) {
        uint64_t ignored, size;
        bool of_library =
            m->library && sgd_library_managed(m->library, ptx->variables[i].name, &ignored, &size) == CUDA_SUCCESS;
        struct sgd_memory *memory = ptx->variables[i].managed && !of_library ? sgd_memory_find(m->addresses[i]) : NULL;
        if (memory && m->addresses[i])
            sgd_memory_free(memory);
    }
    struct sgd_memory *memory = m->memory ? sgd_memory_find(m->memory) : NULL;
    if (memory)
        sgd_memory_free(memory);
    sgd_texrefs_end(m);
    free(m->addresses);
    free(m->functions);
    free(m->entries);
    free(m->variables);
}

/* Gives the program what machine code says of its kernels. Without memory for it they are estimated. */
static void give_compiled(struct sgd_module *m, const struct ptx_module *ptx, const struct sgd_image *image)
{
    for (uint32_t i = 0; image->compiled.count && i < m->entry_count; i++) {
        struct sg_machine_code code;
        if (sgd_compiled_find(&image->compiled, entry_name(ptx, m->entries[i]), &code) &&
            !sg_program_machine_code(m->program, m->entries[i], code))
            return;
    }
}

static CUresult build(struct sgd_module *m, struct ptx_module *ptx, const struct sgd_image *image)
{
    struct sgd_context *c = m->context;
    sgd_lock();
    CUresult r = c->active ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    m->reaches_heap = reaches_heap(ptx);
    if (!r && m->reaches_heap)
        r = sgd_heap_ensure(c);
    if (!r)
        r = place_variables(m, ptx);
    if (!r && (!sort_names(m, ptx) || !sgd_texrefs_begin(m, ptx)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    sgd_unlock();
    if (!r)
        r = (CUresult)sg_program_create_at(c->machine->engine, ptx, m->addresses, c, m->place.code, &m->program);
    if (r) {
        sgd_lock();
        release_memory(m, ptx);
        sgd_unlock();
        ptx_module_free(ptx);
        return r;
    }
    give_compiled(m, ptx, image);
    m->ptx = ptx;
    m->place.code = sg_program_code(m->program);
    write_initial_values(m);
    return CUDA_SUCCESS;
}

/* Lets the mutex go while the PTX is read. */
CUresult sgd_module_new(struct sgd_context *c, const struct sgd_image *image, struct sgd_library *library,
                        struct sgd_module **out, char *log, size_t log_size)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct sgd_module *m = calloc(1, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->context = c;
    m->library = library;
    m->place = c->place_module;
    c->place_module = (struct softgpu_module_place){ 0 };
    sgd_context_hold(c);
    sgd_unlock();
    struct ptx_module *ptx;
    int failed = ptx_module_read_later(image->sources, image->count, &ptx, log, log_size);
    CUresult r = failed ? sgd_text_refused(CUDA_ERROR_INVALID_PTX, log, log_size) : CUDA_SUCCESS;
    if (!r && (r = sgd_ptx_version_check(ptx, image, log, log_size)))
        ptx_module_free(ptx);
    if (!r)
        r = build(m, ptx, image);
    sgd_lock();
    if (!r && (!c->active || !(m->handle = sgd_handle_new(SGD_MODULE, m)))) {
        release_memory(m, m->ptx);
        sg_program_destroy(m->program);
        r = c->active ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    sgd_context_release(c);
    if (r) {
        free(m);
        return r;
    }
    m->next = c->modules;
    m->back = &c->modules;
    if (m->next)
        m->next->back = &m->next;
    c->modules = m;
    *out = m;
    return CUDA_SUCCESS;
}

void sgd_module_destroy(struct sgd_module *m)
{
    *m->back = m->next;
    if (m->next)
        m->next->back = m->back;
    sgd_handle_drop(m->handle);
    while (m->running)
        sgd_wait(NULL);
    for (uint32_t i = 0; i < m->entry_count; i++) {
        struct sgd_function *f = m->functions[m->entries[i]];
        if (f)
            sgd_handle_drop(f->handle);
        free(f);
    }
    release_memory(m, m->ptx);
    sg_program_destroy(m->program);
    free(m);
}

CUresult sgd_module_variable(struct sgd_module *m, const char *name, bool managed_only, uint64_t *address, size_t *size)
{
    uint32_t at = find_name(m->ptx, m->variables, m->variable_count, name, variable_name);
    for (; at < m->variable_count; at++) {
        const struct ptx_variable *v = &m->ptx->variables[m->variables[at]];
        if (strcmp(v->name, name))
            break;
        if (managed_only && !v->managed)
            continue;
        *address = m->addresses[m->variables[at]];
        *size = size_of(v);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

/* Lets the mutex go while the entry is decoded. */
CUresult sgd_module_function(struct sgd_module *m, const char *name, struct sgd_function **out)
{
    uint32_t at = find_name(m->ptx, m->entries, m->entry_count, name, entry_name);
    if (at == m->entry_count)
        return CUDA_ERROR_NOT_FOUND;
    uint32_t index = m->entries[at];
    if ((*out = m->functions[index]))
        return CUDA_SUCCESS;
    char log[SGD_LOG_SIZE] = "";
    sg_kernel *kernel = NULL;
    m->running++;
    sgd_unlock();
    CUresult r = (CUresult)sg_program_entry(m->program, index, &kernel, log, sizeof log);
    sgd_lock();
    m->running--;
    sgd_progress();
    if (r == CUDA_ERROR_INVALID_PTX)
        r = sgd_text_refused(r, log, sizeof log);
    if (r) {
        sgd_log("%s", log);
        return r;
    }
    if ((*out = m->functions[index]))        /* another thread was as quick */
        return CUDA_SUCCESS;
    struct sgd_function *f = calloc(1, sizeof *f);
    if (!f || !(f->handle = sgd_handle_new(SGD_FUNCTION, f))) {
        free(f);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    f->module = m;
    f->index = index;
    f->kernel = kernel;
    sg_kernel_describe(kernel, &f->info);
    const struct sg_limits *l = &m->context->machine->limits;
    f->max_dynamic = f->info.static_shared < l->shared_per_block ? l->shared_per_block - f->info.static_shared : 0;
    f->carveout = -1;
    m->functions[index] = f;
    *out = f;
    return CUDA_SUCCESS;
}
