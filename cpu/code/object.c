/* object.c: see object.h. Follows: ELF-64 (System V ABI), ar(5). */
#include "cpu/code/object.h"

#include <ar.h>
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/code/fatbin.h"

/* Of whole-program code and of device links, and of relocatable device code. */
static bool holds_containers(const char *name, size_t room)
{
    return strncmp(name, ".nv_fatbin", room) == 0 || strncmp(name, "__nv_relfatbin", room) == 0;
}

static bool inside(uint64_t offset, uint64_t length, size_t size) { return offset <= size && length <= size - offset; }

/* False: the visitor wants no more. Sections need not be aligned in a file inside an archive, so containers are copied
   where they are not. */
static bool visit_section(const uint8_t *at, size_t size, object_container *each, void *context)
{
    while (size) {
        void *aligned = NULL;
        const void *container = at;
        if ((uintptr_t)at % sizeof(uint64_t)) {
            if (!(aligned = malloc(size)))
                return false;
            container = memcpy(aligned, at, size);
        }
        size_t length = fatbin_container_size(container, size);
        bool more = length && each(context, container, length);
        free(aligned);
        if (!more)
            return length == 0; /* what follows is no container */
        length = (length + 7) & ~(size_t)7;
        if (length >= size)
            return true;
        at += length;
        size -= length;
    }
    return true;
}

int object_containers(const void *object, size_t size, object_container *each, void *context)
{
    const uint8_t *bytes = object;
    Elf64_Ehdr head;
    if (size < sizeof head)
        return -1;
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(head.e_shoff, (uint64_t)head.e_shnum * sizeof(Elf64_Shdr), size) || head.e_shstrndx >= head.e_shnum)
        return -1;
    Elf64_Shdr names;
    memcpy(&names, bytes + head.e_shoff + (uint64_t)head.e_shstrndx * sizeof names, sizeof names);
    if (!inside(names.sh_offset, names.sh_size, size))
        return -1;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, bytes + head.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_PROGBITS || section.sh_name >= names.sh_size)
            continue;
        const char *name = (const char *)bytes + names.sh_offset + section.sh_name;
        if (!holds_containers(name, names.sh_size - section.sh_name))
            continue;
        if (!inside(section.sh_offset, section.sh_size, size))
            return -1;
        if (!visit_section(bytes + section.sh_offset, section.sh_size, each, context))
            break;
    }
    return 0;
}

bool archive_is(const void *data, size_t size) { return size >= SARMAG && memcmp(data, ARMAG, SARMAG) == 0; }

int archive_next(const void *archive, size_t size, size_t *cursor, struct archive_member *member)
{
    const char *bytes = archive;
    if (!*cursor)
        *cursor = SARMAG;
    for (;;) {
        struct ar_hdr head;
        char digits[sizeof head.ar_size + 1] = "";
        if (*cursor >= size)
            return 0;
        if (size - *cursor < sizeof head)
            return -1;
        memcpy(&head, bytes + *cursor, sizeof head);
        memcpy(digits, head.ar_size, sizeof head.ar_size);
        char *end;
        unsigned long long length = strtoull(digits, &end, 10);
        size_t at = *cursor + sizeof head;
        if (memcmp(head.ar_fmag, ARFMAG, sizeof head.ar_fmag) != 0 || end == digits || length > size - at)
            return -1;
        *cursor = at + (size_t)length + (length & 1);
        /* The index of symbols ("/", "/SYM64/") and the table of long names ("//") are no files. */
        if (head.ar_name[0] == '/' && (head.ar_name[1] < '0' || head.ar_name[1] > '9'))
            continue;
        *member = (struct archive_member){ bytes + at, (size_t)length };
        return 1;
    }
}
