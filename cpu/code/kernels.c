/*
 * kernels.c: see kernels.h. In PTX a kernel is what follows the word .entry. In a cubin each kernel has a section for
 * its parameters, .nv.constant0.<kernel>. The section .nv.info is a list of attributes; those of registers name a
 * symbol by its number.
 */
#include "cpu/code/kernels.h"

#include <ctype.h>
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/code/fatbin.h"

static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%'; }

bool kernels_of_ptx(const char *text, size_t size, kernel_name *each, void *context)
{
    static const char word[] = ".entry";
    enum { LENGTH = sizeof word - 1 };
    const char *end = text + strnlen(text, size), *at = text;
    while ((at = memmem(at, (size_t)(end - at), word, LENGTH))) {
        const char *name = at += LENGTH;
        while (name < end && isspace((unsigned char)*name))
            name++;
        size_t length = 0;
        while (name + length < end && in_name(name[length]))
            length++;
        if (name > at && length && !each(context, name, length))
            return false;
    }
    return true;
}

/* A cubin whose headers of sections lie inside it. */
struct cubin {
    const uint8_t *bytes;
    size_t size;
    Elf64_Ehdr head;
    Elf64_Shdr names; /* the section of the names of sections */
};

static bool section(const struct cubin *c, unsigned index, Elf64_Shdr *out)
{
    if (index >= c->head.e_shnum)
        return false;
    memcpy(out, c->bytes + c->head.e_shoff + index * sizeof *out, sizeof *out);
    return out->sh_offset <= c->size && out->sh_size <= c->size - out->sh_offset;
}

static bool open_cubin(struct cubin *c, const void *image, size_t size)
{
    *c = (struct cubin){ .bytes = image, .size = size };
    if (size < sizeof c->head)
        return false;
    memcpy(&c->head, image, sizeof c->head);
    return memcmp(c->head.e_ident, ELFMAG, SELFMAG) == 0 && c->head.e_ident[EI_CLASS] == ELFCLASS64 &&
           c->head.e_shentsize == sizeof c->names && c->head.e_shoff <= size &&
           (size - c->head.e_shoff) / sizeof c->names >= c->head.e_shnum && section(c, c->head.e_shstrndx, &c->names);
}

/* Name `at` of a section of names, at most `most` characters. NULL: it lies outside. */
static const char *name_in(const struct cubin *c, const Elf64_Shdr *names, uint64_t at, size_t most, size_t *length)
{
    if (at >= names->sh_size)
        return NULL;
    const char *name = (const char *)c->bytes + names->sh_offset + at;
    size_t room = names->sh_size - at;
    *length = strnlen(name, room < most ? room : most);
    return name;
}

bool kernels_of_cubin(const void *image, size_t size, kernel_name *each, void *context)
{
    static const char prefix[] = ".nv.constant0.";
    enum { LENGTH = sizeof prefix - 1 };
    struct cubin c;
    Elf64_Shdr one;
    size_t length;
    if (!open_cubin(&c, image, size))
        return true;
    for (unsigned i = 0; i < c.head.e_shnum; i++) {
        const char *name = section(&c, i, &one) ? name_in(&c, &c.names, one.sh_name, SIZE_MAX, &length) : NULL;
        if (name && length > LENGTH && memcmp(name, prefix, LENGTH) == 0 &&
            !each(context, name + LENGTH, length - LENGTH))
            return false;
    }
    return true;
}

/* ---- registers ---- */

/* Attributes of .nv.info: a byte says how the value is stored, the next one what it is. */
enum { INFO_HEADER = 4, INFO_SIZED = 4, INFO_REGISTERS = 0x2f, INFO_PAIR = 8, MOST_REGISTERS = 255 };

static bool find_section(const struct cubin *c, const char *wanted, Elf64_Shdr *out)
{
    size_t length;
    for (unsigned i = 0; i < c->head.e_shnum; i++) {
        const char *name = section(c, i, out) ? name_in(c, &c->names, out->sh_name, strlen(wanted) + 1, &length) : NULL;
        if (name && length == strlen(wanted) && memcmp(name, wanted, length) == 0)
            return true;
    }
    return false;
}

/* The symbols of functions. All names together may be read as often as the cubin is long: many symbols could share one
   long name. */
struct symbols {
    const struct cubin *cubin;
    Elf64_Shdr table, names;
    size_t left;
};

static bool open_symbols(struct symbols *s, const struct cubin *c)
{
    *s = (struct symbols){ .cubin = c, .left = c->size };
    return find_section(c, ".symtab", &s->table) && section(c, s->table.sh_link, &s->names);
}

static const char *function_name(struct symbols *s, uint32_t index, size_t *length)
{
    Elf64_Sym symbol;
    if (index >= s->table.sh_size / sizeof symbol)
        return NULL;
    memcpy(&symbol, s->cubin->bytes + s->table.sh_offset + index * sizeof symbol, sizeof symbol);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC)
        return NULL;
    const char *name = name_in(s->cubin, &s->names, symbol.st_name, s->left, length);
    s->left -= name ? *length : 0;
    return name && *length && s->left ? name : NULL;
}

bool registers_of_cubin(const void *image, size_t size, kernel_registers *each, void *context)
{
    struct cubin c;
    struct symbols symbols;
    Elf64_Shdr info;
    if (!open_cubin(&c, image, size) || !find_section(&c, ".nv.info", &info) || !open_symbols(&symbols, &c))
        return true;
    const uint8_t *at = c.bytes + info.sh_offset, *end = at + info.sh_size;
    while (end - at >= INFO_HEADER) {
        uint16_t bytes;
        uint32_t pair[2];
        memcpy(&bytes, at + 2, sizeof bytes);
        size_t value = at[0] == INFO_SIZED ? bytes : 0; /* of the others it is the two bytes themselves */
        if (value > (size_t)(end - at) - INFO_HEADER)
            return true;
        if (at[0] == INFO_SIZED && at[1] == INFO_REGISTERS && value == INFO_PAIR) {
            memcpy(pair, at + INFO_HEADER, sizeof pair);
            size_t length;
            const char *name = pair[1] && pair[1] <= MOST_REGISTERS ? function_name(&symbols, pair[0], &length) : NULL;
            if (name && !each(context, name, length, pair[1]))
                return false;
        }
        at += INFO_HEADER + value;
    }
    return true;
}

/* ---- containers ---- */

struct counting {
    kernel_name *each;
    void *context;
    bool any;
};

static bool count(void *context, const char *name, size_t size)
{
    struct counting *counting = context;
    counting->any = true;
    return counting->each(counting->context, name, size);
}

bool kernels_of_container(const void *container, size_t size, size_t most, kernel_name *each, void *context)
{
    struct counting counting = { each, context, false };
    struct fatbin_entry entry;
    const char *why;
    size_t cursor = 0;
    while (!counting.any && fatbin_next(container, size, &cursor, &entry, &why) == 1) {
        bool known = entry.kind == FATBIN_PTX || entry.kind == FATBIN_CUBIN;
        size_t length;
        uint8_t *bytes = known && entry.size <= most && entry.payload_size <= most
                             ? fatbin_extract(&entry, &length, &why) : NULL;
        bool more = !bytes || (entry.kind == FATBIN_PTX ? kernels_of_ptx((const char *)bytes, length, count, &counting)
                                                        : kernels_of_cubin(bytes, length, count, &counting));
        free(bytes);
        if (!more)
            return false;
    }
    return true;
}
