/*
 * kernels.c: see kernels.h. In PTX a kernel is what follows the word .entry. In a cubin each kernel has a section for
 * its parameters, .nv.constant0.<kernel>.
 */
#include "cpu/code/kernels.h"

#include <ctype.h>
#include <elf.h>
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

static bool section(const uint8_t *elf, size_t size, const Elf64_Ehdr *head, unsigned index, Elf64_Shdr *out)
{
    if (index >= head->e_shnum)
        return false;
    memcpy(out, elf + head->e_shoff + index * sizeof *out, sizeof *out);
    return out->sh_offset <= size && out->sh_size <= size - out->sh_offset;
}

bool kernels_of_cubin(const void *image, size_t size, kernel_name *each, void *context)
{
    static const char prefix[] = ".nv.constant0.";
    enum { LENGTH = sizeof prefix - 1 };
    const uint8_t *elf = image;
    Elf64_Ehdr head;
    Elf64_Shdr names, one;
    if (size < sizeof head)
        return true;
    memcpy(&head, elf, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_shentsize != sizeof one || head.e_shoff > size || (size - head.e_shoff) / sizeof one < head.e_shnum ||
        !section(elf, size, &head, head.e_shstrndx, &names))
        return true;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        if (!section(elf, size, &head, i, &one) || one.sh_name >= names.sh_size)
            continue;
        const char *name = (const char *)elf + names.sh_offset + one.sh_name;
        size_t length = strnlen(name, names.sh_size - one.sh_name);
        if (length > LENGTH && memcmp(name, prefix, LENGTH) == 0 && !each(context, name + LENGTH, length - LENGTH))
            return false;
    }
    return true;
}

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
