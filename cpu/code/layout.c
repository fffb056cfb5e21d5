/*
 * layout.c: see layout.h. Two sources: the parameters of an .entry in PTX (softgpu/ptx), and the section
 * .nv.info.<kernel> of a cubin, whose attribute 0x17 gives one parameter each (ordinal, offset, size), 0x10 the block
 * of .reqntid, 0x3f the number of .maxclusterrank; 0x5b is there with .blocksareclusters.
 * PTX is preferred. Variables come from PTX too, or are the data objects in a cubin's symbol table. Both kinds may be
 * compressed inside a fat binary.
 */
#include "cpu/code/layout.h"

#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/code/fatbin.h"
#include "softgpu/ptx/ptx.h"

enum {
    LAYOUT_NOT_AN_IMAGE = 200, LAYOUT_NO_CODE = 209, LAYOUT_BAD_PTX = 218, LAYOUT_NO_MEMORY = 2,
    LAYOUT_MAX_PARTS = 4096, LAYOUT_MAX_PARAMS = 8192,
    /* .nv.info: format byte, attribute byte, then u16 size or value */
    NVINFO_SIZED = 4, NVINFO_SHORT = 3, NVINFO_PARAMETER = 0x17, NVINFO_PARAMETER_BYTES = 0x19,
    NVINFO_REQUIRED = 0x10, NVINFO_CLUSTER_MOST = 0x3f, NVINFO_GRID_OF_CLUSTERS = 0x5b
};

size_t layout_text_most = (size_t)1 << 30;

struct layout_kernel {
    char *name;
    struct layout layout;
};

struct layout_image {
    struct layout_kernel *kernels;
    size_t kernel_count, kernel_room;
    struct { char *name; uint64_t size; } *variables;
    size_t variable_count;
    /* While opening: the PTX texts of a link, each extracted. */
    struct ptx_source *sources;
    size_t source_count, extracted;                   /* extracted: bytes */
};

static struct layout_kernel *layout_add(layout_image *image, const char *name)
{
    if (image->kernel_count == image->kernel_room) {
        size_t room = image->kernel_room ? 2 * image->kernel_room : 16;
        struct layout_kernel *more = realloc(image->kernels, room * sizeof *more);
        if (!more)
            return NULL;
        image->kernels = more;
        image->kernel_room = room;
    }
    struct layout_kernel *kernel = &image->kernels[image->kernel_count];
    memset(kernel, 0, sizeof *kernel);
    kernel->name = strdup(name);
    if (!kernel->name)
        return NULL;
    image->kernel_count++;
    return kernel;
}

static int layout_compare(const void *a, const void *b)
{
    return strcmp(((const struct layout_kernel *)a)->name, ((const struct layout_kernel *)b)->name);
}

/* ---- PTX ---- */

static int layout_add_variable(layout_image *image, const char *name, uint64_t size)
{
    void *more = realloc(image->variables, (image->variable_count + 1) * sizeof *image->variables);
    char *copy = more ? strdup(name) : NULL;
    if (more)
        image->variables = more;
    if (!copy)
        return LAYOUT_NO_MEMORY;
    image->variables[image->variable_count].name = copy;
    image->variables[image->variable_count++].size = size;
    return 0;
}

static int layout_of_ptx(layout_image *image, char *log, size_t log_size)
{
    struct ptx_module *module = NULL;
    if (ptx_module_read_later(image->sources, image->source_count, &module, log, log_size) != 0)
        return LAYOUT_BAD_PTX;
    int result = LAYOUT_NO_MEMORY;
    for (uint32_t i = 0; i < module->function_count; i++) {
        const struct ptx_function *f = &module->functions[i];
        if (!f->is_entry || !f->defined)
            continue;
        struct layout_kernel *kernel = layout_add(image, f->name);
        if (!kernel)
            goto out;
        uint32_t n = f->signature.param_count;
        kernel->layout.params = calloc(n ? n : 1, sizeof *kernel->layout.params);
        if (!kernel->layout.params)
            goto out;
        kernel->layout.count = n;
        kernel->layout.bytes = f->param_size;
        for (int k = 0; k < 3; k++)
            kernel->layout.required[k] = f->req_ntid[0] && !f->req_ntid[k] ? 1 : f->req_ntid[k];
        kernel->layout.cluster_most = f->max_cluster_rank;
        kernel->layout.grid_of_clusters = f->blocks_are_clusters;
        for (uint32_t p = 0; p < n; p++) {
            kernel->layout.params[p].offset = (uint32_t)f->signature.params[p].offset;
            kernel->layout.params[p].size = (uint32_t)f->signature.params[p].size;
        }
    }
    for (uint32_t i = 0; i < module->variable_count; i++) {
        const struct ptx_variable *v = &module->variables[i];
        bool has_memory = v->space == PTX_SPACE_GLOBAL || v->space == PTX_SPACE_CONST;
        if (has_memory && layout_add_variable(image, v->name, v->size))
            goto out;
    }
    result = 0;
out:
    ptx_module_free(module);
    return result;
}

static int layout_take_ptx(layout_image *image, const char *text, size_t size, const char *name)
{
    struct ptx_source *more = realloc(image->sources, (image->source_count + 1) * sizeof *more);
    if (!more)
        return LAYOUT_NO_MEMORY;
    image->sources = more;
    more[image->source_count++] = (struct ptx_source){ .text = text, .size = strnlen(text, size), .name = name };
    return 0;
}

/* ---- cubins ---- */

static int layout_of_kernel_info(layout_image *image, const char *name, const uint8_t *info, size_t size)
{
    for (size_t i = 0; i < image->kernel_count; i++)
        if (strcmp(image->kernels[i].name, name) == 0)
            return 0;
    struct layout_kernel *kernel = layout_add(image, name);
    if (!kernel)
        return LAYOUT_NO_MEMORY;
    struct layout_param *params = NULL;
    uint32_t count = 0;
    for (size_t at = 0; at + 4 <= size;) {
        unsigned format = info[at], attribute = info[at + 1];
        uint16_t n;
        memcpy(&n, info + at + 2, 2);
        at += 4;
        if (format == NVINFO_SHORT && attribute == NVINFO_PARAMETER_BYTES)
            kernel->layout.bytes = n;
        if (attribute == NVINFO_GRID_OF_CLUSTERS)
            kernel->layout.grid_of_clusters = true;
        if (format != NVINFO_SIZED)
            continue;
        if (n > size - at)
            break;
        if (attribute == NVINFO_REQUIRED && n == sizeof kernel->layout.required)
            memcpy(kernel->layout.required, info + at, n);
        if (attribute == NVINFO_CLUSTER_MOST && n == sizeof kernel->layout.cluster_most)
            memcpy(&kernel->layout.cluster_most, info + at, n);
        if (attribute == NVINFO_PARAMETER && n >= 12) {
            uint16_t ordinal, offset;
            uint32_t width;
            memcpy(&ordinal, info + at + 4, 2);
            memcpy(&offset, info + at + 6, 2);
            memcpy(&width, info + at + 8, 4);
            if (ordinal < LAYOUT_MAX_PARAMS) {
                if (ordinal >= count) {
                    struct layout_param *more = realloc(params, (ordinal + 1u) * sizeof *more);
                    if (!more) {
                        free(params);
                        return LAYOUT_NO_MEMORY;
                    }
                    params = more;
                    memset(params + count, 0, (ordinal + 1u - count) * sizeof *params);
                    count = ordinal + 1u;
                }
                params[ordinal] = (struct layout_param){ offset, width >> 18 };
            }
        }
        at += n;
    }
    kernel->layout.params = params;
    kernel->layout.count = count;
    return 0;
}

/* The data objects of a symbol table; `texts` has their names. */
static int layout_of_symbols(layout_image *image, const uint8_t *symbols, size_t size, const char *texts, size_t room)
{
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols + at, sizeof symbol);
        if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx == SHN_UNDEF || !symbol.st_size ||
            symbol.st_name >= room || strnlen(texts + symbol.st_name, room - symbol.st_name) == room - symbol.st_name)
            continue;
        int r = layout_add_variable(image, texts + symbol.st_name, symbol.st_size);
        if (r)
            return r;
    }
    return 0;
}

static bool layout_section(const uint8_t *elf, size_t size, const Elf64_Ehdr *head, unsigned index, Elf64_Shdr *out)
{
    if (index >= head->e_shnum)
        return false;
    memcpy(out, elf + head->e_shoff + index * sizeof *out, sizeof *out);
    return out->sh_offset <= size && out->sh_size <= size - out->sh_offset;
}

static int layout_of_cubin(layout_image *image, const uint8_t *elf, size_t size)
{
    static const char prefix[] = ".nv.info.";
    Elf64_Ehdr head;
    if (size < sizeof head)
        return 0;
    memcpy(&head, elf, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shoff > size ||
        (size - head.e_shoff) / sizeof(Elf64_Shdr) < head.e_shnum || head.e_shstrndx >= head.e_shnum)
        return 0;
    Elf64_Shdr names, section, texts;
    if (!layout_section(elf, size, &head, head.e_shstrndx, &names))
        return 0;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        if (!layout_section(elf, size, &head, i, &section) || section.sh_name >= names.sh_size)
            continue;
        if (section.sh_type == SHT_SYMTAB && layout_section(elf, size, &head, section.sh_link, &texts)) {
            int r = layout_of_symbols(image, elf + section.sh_offset, section.sh_size,
                                      (const char *)elf + texts.sh_offset, texts.sh_size);
            if (r)
                return r;
        }
        const char *name = (const char *)elf + names.sh_offset + section.sh_name;
        size_t room = names.sh_size - section.sh_name;
        if (strnlen(name, room) == room || strncmp(name, prefix, sizeof prefix - 1) != 0)
            continue;
        int r = layout_of_kernel_info(image, name + sizeof prefix - 1, elf + section.sh_offset, section.sh_size);
        if (r)
            return r;
    }
    return 0;
}

/* ---- containers ---- */

/* Of one container: its newest PTX (a link takes one per container), and every cubin's kernels. `kept` holds the
   extracted texts until the link. */
static int layout_of_container(layout_image *image, const void *container, uint8_t **kept, size_t *kept_count)
{
    size_t size = fatbin_container_size(container, SIZE_MAX), cursor = 0;
    struct fatbin_entry entry, best = { .kind = 0 }, cubin = { .kind = 0 };
    const char *why = NULL;
    if (!size)
        return LAYOUT_NOT_AN_IMAGE;
    while (fatbin_next(container, size, &cursor, &entry, &why) == 1) {
        if (entry.kind == FATBIN_PTX && (best.kind == 0 || entry.sm > best.sm))
            best = entry;
        if (entry.kind == FATBIN_CUBIN && (cubin.kind == 0 || entry.sm > cubin.sm))
            cubin = entry;
    }
    if (best.kind && *kept_count < LAYOUT_MAX_PARTS) {
        size_t bytes;
        if (best.size > layout_text_most || image->extracted > layout_text_most - best.size)
            return LAYOUT_NO_MEMORY;
        image->extracted += best.size;
        uint8_t *text = fatbin_extract(&best, &bytes, &why);
        if (!text)
            return LAYOUT_NOT_AN_IMAGE;
        kept[(*kept_count)++] = text;
        return layout_take_ptx(image, (const char *)text, bytes, "PTX of a fat binary");
    }
    if (cubin.kind) {
        size_t bytes;
        uint8_t *elf = fatbin_extract(&cubin, &bytes, &why);
        if (!elf)
            return LAYOUT_NOT_AN_IMAGE;
        int r = layout_of_cubin(image, elf, bytes);
        free(elf);
        return r;
    }
    return 0;
}

static int layout_read(layout_image *image, const void *data, uint8_t **kept, size_t *kept_count)
{
    uint32_t magic;
    memcpy(&magic, data, sizeof magic);
    if (magic == FATBIN_WRAPPER_MAGIC) {
        const struct fatbin_wrapper *wrapper = data;
        int r = layout_of_container(image, wrapper->container, kept, kept_count);
        const void *const *more = wrapper->version == 2 ? wrapper->extra : NULL;
        for (size_t i = 0; r == 0 && more && more[i] && i < LAYOUT_MAX_PARTS; i++)
            r = layout_of_container(image, more[i], kept, kept_count);
        return r;
    }
    if (magic == FATBIN_CONTAINER_MAGIC)
        return layout_of_container(image, data, kept, kept_count);
    if (memcmp(data, ELFMAG, SELFMAG) == 0)
        return layout_of_cubin(image, data, fatbin_elf_size(data, SIZE_MAX));
    return layout_take_ptx(image, data, strlen(data), "PTX");
}

int layout_open(const void *data, layout_image **out, char *log, size_t log_size)
{
    layout_image *image = calloc(1, sizeof *image);
    uint8_t **kept = calloc(LAYOUT_MAX_PARTS, sizeof *kept);
    size_t kept_count = 0;
    int result = LAYOUT_NO_MEMORY;
    if (log_size)
        log[0] = 0;
    if (!image || !kept)
        goto out;
    result = layout_read(image, data, kept, &kept_count);
    if (result) {
        snprintf(log, log_size, "the code image cannot be read");
        goto out;
    }
    if (image->source_count)
        result = layout_of_ptx(image, log, log_size);
    if (result == 0 && image->kernel_count == 0 && image->variable_count == 0 && image->source_count == 0) {
        snprintf(log, log_size, "the code image has neither PTX nor a cubin with kernels");
        result = LAYOUT_NO_CODE;
    }
    if (result == 0)
        qsort(image->kernels, image->kernel_count, sizeof *image->kernels, layout_compare);
out:
    for (size_t i = 0; i < kept_count; i++)
        free(kept[i]);
    free(kept);
    if (image) {
        free(image->sources);
        image->sources = NULL;
    }
    if (result) {
        layout_close(image);
        return result;
    }
    *out = image;
    return 0;
}

/* More than `most` where a container is damaged. */
static size_t container_bytes(const void *container, size_t most)
{
    struct fatbin_entry entry;
    size_t size = fatbin_container_size(container, SIZE_MAX), cursor = 0, bytes = 0;
    const char *why;
    int r = -1;
    while (size && bytes <= most && (r = fatbin_next(container, size, &cursor, &entry, &why)) == 1)
        bytes = entry.size > most ? SIZE_MAX : bytes + entry.size;
    return r == 0 ? bytes : SIZE_MAX;
}

bool layout_is_small(const void *data, size_t most)
{
    const struct fatbin_wrapper *wrapper = data;
    uint32_t magic;
    memcpy(&magic, data, sizeof magic);
    if (magic == FATBIN_CONTAINER_MAGIC)
        return container_bytes(data, most) <= most;
    if (magic != FATBIN_WRAPPER_MAGIC)
        return (memcmp(data, ELFMAG, SELFMAG) == 0 ? fatbin_elf_size(data, SIZE_MAX) : strlen(data)) <= most;
    size_t bytes = container_bytes(wrapper->container, most);
    const void *const *more = wrapper->version == 2 ? wrapper->extra : NULL;
    for (; bytes <= most && more && *more; more++) {
        size_t part = container_bytes(*more, most);
        bytes = part > most ? SIZE_MAX : bytes + part;
    }
    return bytes <= most;
}

void layout_close(layout_image *image)
{
    if (!image)
        return;
    for (size_t i = 0; i < image->kernel_count; i++) {
        free(image->kernels[i].name);
        free(image->kernels[i].layout.params);
    }
    for (size_t i = 0; i < image->variable_count; i++)
        free(image->variables[i].name);
    free(image->kernels);
    free(image->variables);
    free(image->sources);
    free(image);
}

int layout_find(const layout_image *image, const char *name, struct layout *out)
{
    struct layout_kernel key = { .name = (char *)(uintptr_t)name };
    const struct layout_kernel *kernel =
        image->kernel_count ? bsearch(&key, image->kernels, image->kernel_count, sizeof key, layout_compare) : NULL;
    if (!kernel)
        return -1;
    *out = kernel->layout;
    return 0;
}

uint64_t layout_variable_size(const layout_image *image, const char *name)
{
    for (size_t i = 0; i < image->variable_count; i++)
        if (strcmp(image->variables[i].name, name) == 0)
            return image->variables[i].size;
    return 0;
}

const char *layout_variable_name(const layout_image *image, size_t index)
{
    return index < image->variable_count ? image->variables[index].name : NULL;
}
