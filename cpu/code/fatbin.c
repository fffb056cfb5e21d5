/*
 * fatbin.c: see fatbin.h. A container is a 16-byte header and entries back to back; an entry is a header of
 * 0x40 bytes or more (its own size says), then its payload, padded to 8. All numbers are little endian.
 *
 * Nothing is trusted: a size is compared with what is left before it is used, and always by subtraction from
 * a value that is known to be large enough, so that no sum can wrap. Fields are read with memcpy: entries of
 * a hostile container need not be aligned.
 */
#include "cpu/code/fatbin.h"

#include <elf.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum {
    CONTAINER_HEADER = 16, CONTAINER_VERSION = 1,
    ENTRY_HEADER = 0x40,
    ENTRY_KIND = 0x00, ENTRY_HEADER_SIZE = 0x04, ENTRY_PAYLOAD_SIZE = 0x08, ENTRY_COMPRESSED_SIZE = 0x10,
    ENTRY_EXTENSION = 0x14, ENTRY_MINOR = 0x18, ENTRY_MAJOR = 0x1a, ENTRY_SM = 0x1c, ENTRY_NAME = 0x20,
    ENTRY_NAME_SIZE = 0x24, ENTRY_FLAGS = 0x28, ENTRY_SIZE = 0x38
};

#define FLAG_LZ4       UINT64_C(0x2000)
#define FLAG_ZSTD      UINT64_C(0x8000)
#define FLAG_SCRAMBLED UINT64_C(0x10000)

/* LZ4 cannot make more of a byte than this: a claim beyond it is a lie, found before memory is taken. */
enum { LZ4_MAX_RATIO = 255, LZ4_SLACK = 64 };

static uint16_t read_u16(const uint8_t *at) { uint16_t v; memcpy(&v, at, sizeof v); return v; }
static uint32_t read_u32(const uint8_t *at) { uint32_t v; memcpy(&v, at, sizeof v); return v; }
static uint64_t read_u64(const uint8_t *at) { uint64_t v; memcpy(&v, at, sizeof v); return v; }

size_t fatbin_container_size(const void *data, size_t available)
{
    const uint8_t *bytes = data;
    if (!data || available < CONTAINER_HEADER || read_u32(bytes) != FATBIN_CONTAINER_MAGIC)
        return 0;
    size_t header = read_u16(bytes + 6);
    if (read_u16(bytes + 4) != CONTAINER_VERSION || header < CONTAINER_HEADER || header > available)
        return 0;
    uint64_t payload = read_u64(bytes + 8);
    if (payload > available - header)
        return 0;
    return header + (size_t)payload;
}

static int malformed(const char **why, const char *reason)
{
    if (why)
        *why = reason;
    return -1;
}

/* What the compiler's options say of registers: "-maxrregcount=96" among others, as nvcc writes them. */
static unsigned max_registers(const char *options, size_t size)
{
    static const char name[] = "-maxrregcount";
    const char *end = options + size;
    const char *at = memmem(options, size, name, sizeof name - 1);
    unsigned registers = 0;
    if (!at)
        return 0;
    at += sizeof name - 1;
    if (at < end && (*at == '=' || *at == ' '))
        at++;
    for (; at < end && *at >= '0' && *at <= '9' && registers < 1000; at++)
        registers = registers * 10 + (unsigned)(*at - '0');
    return registers;
}

/* Exact size of a payload that is stored as it is: the file pads it to 8. */
static size_t plain_size(unsigned kind, const uint8_t *payload, size_t stored)
{
    if (kind == FATBIN_PTX) {
        size_t text = strnlen((const char *)payload, stored);
        return text < stored ? text + 1 : stored;       /* with its NUL, as compressed PTX has it */
    }
    if (kind == FATBIN_CUBIN) {
        size_t image = fatbin_elf_size(payload, stored);
        return image ? image : stored;
    }
    return stored;
}

int fatbin_next(const void *container, size_t size, size_t *cursor, struct fatbin_entry *entry, const char **why)
{
    size_t end = fatbin_container_size(container, size);
    if (end == 0)
        return malformed(why, "not a fat binary container, or it is cut off");
    const uint8_t *bytes = container;
    size_t at = *cursor;
    if (at == 0)
        at = read_u16(bytes + 6);
    if (at >= end)
        return 0;
    if (end - at < ENTRY_HEADER)
        return malformed(why, "an entry's header exceeds its container");

    const uint8_t *head = bytes + at;
    size_t header = read_u32(head + ENTRY_HEADER_SIZE);
    if (header < ENTRY_HEADER || header > end - at)
        return malformed(why, "an entry's header size is wrong");
    uint64_t stored = read_u64(head + ENTRY_PAYLOAD_SIZE);
    if (stored > end - at - header)
        return malformed(why, "an entry's payload exceeds its container");

    *entry = (struct fatbin_entry){
        .kind = read_u16(head + ENTRY_KIND),
        .version_major = read_u16(head + ENTRY_MAJOR),
        .version_minor = read_u16(head + ENTRY_MINOR),
        .sm = read_u32(head + ENTRY_SM),
        .flags = read_u64(head + ENTRY_FLAGS),
        .head = head,
        .head_size = header,
        .payload = head + header,
    };

    size_t name = read_u32(head + ENTRY_NAME), name_size = read_u32(head + ENTRY_NAME_SIZE);
    if (name != 0 && name_size != 0) {
        if (name < ENTRY_HEADER || name > header || name_size > header - name)
            return malformed(why, "an entry's name exceeds its header");
        entry->name = (const char *)head + name;
        entry->name_size = name_size;
    }

    /* The extension holds offset and size of the options for ptxas. Without them its offset is 0, or nothing is
       behind. */
    size_t extension = read_u32(head + ENTRY_EXTENSION);
    if (extension >= ENTRY_HEADER && extension <= header && header - extension >= 8) {
        size_t options = read_u32(head + extension), options_size = read_u32(head + extension + 4);
        if (options_size && options <= header && options_size <= header - options)
            entry->max_registers = max_registers((const char *)head + options, options_size);
    }

    size_t compressed = read_u32(head + ENTRY_COMPRESSED_SIZE);
    if (entry->flags & (FLAG_LZ4 | FLAG_ZSTD)) {
        uint64_t unpacked = read_u64(head + ENTRY_SIZE);
        if (compressed > stored)
            return malformed(why, "an entry's compressed size exceeds its payload");
        if (unpacked > SIZE_MAX)
            return malformed(why, "an entry's uncompressed size is impossible");
        entry->payload_size = compressed;
        entry->size = (size_t)unpacked;
    } else {
        entry->payload_size = plain_size(entry->kind, entry->payload, (size_t)stored);
        entry->size = entry->payload_size;
    }
    *cursor = at + header + (size_t)stored;
    return 1;
}

static bool unpack_lz4(const struct fatbin_entry *entry, uint8_t *out, const char **why)
{
    int got = LZ4_decompress_safe((const char *)entry->payload, (char *)out,
                                  (int)entry->payload_size, (int)entry->size);
    if (got >= 0 && (size_t)got == entry->size)
        return true;
    *why = "an entry's LZ4 data are damaged";
    return false;
}

static bool unpack_zstd(const struct fatbin_entry *entry, uint8_t *out, const char **why)
{
    size_t got = ZSTD_decompress(out, entry->size, entry->payload, entry->payload_size);
    if (!ZSTD_isError(got) && got == entry->size)
        return true;
    *why = "an entry's zstd data are damaged";
    return false;
}

/* Is the claimed uncompressed size possible at all? Asked before memory is taken for it. */
static bool size_is_plausible(const struct fatbin_entry *entry, const char **why)
{
    if (entry->size > FATBIN_MAX_UNCOMPRESSED || entry->payload_size > FATBIN_MAX_UNCOMPRESSED) {
        *why = "an entry is larger than 512 MiB";
        return false;
    }
    if (entry->flags & FLAG_LZ4) {
        if (entry->size / LZ4_MAX_RATIO > entry->payload_size + LZ4_SLACK) {
            *why = "an entry's uncompressed size is more than LZ4 can make of it";
            return false;
        }
    } else if (entry->flags & FLAG_ZSTD) {
        unsigned long long said = ZSTD_getFrameContentSize(entry->payload, entry->payload_size);
        if (said == ZSTD_CONTENTSIZE_ERROR || (said != ZSTD_CONTENTSIZE_UNKNOWN && said > entry->size)) {
            *why = "an entry's zstd frame and its header differ about its size";
            return false;
        }
    }
    return true;
}

uint8_t *fatbin_extract(const struct fatbin_entry *entry, size_t *size, const char **why)
{
    const char *ignored;
    if (!why)
        why = &ignored;
    if (entry->flags & FLAG_SCRAMBLED) {
        *why = "an entry is scrambled (compressed LTO code)";
        return NULL;
    }
    if (!size_is_plausible(entry, why))
        return NULL;
    uint8_t *out = malloc(entry->size + 1);
    if (!out) {
        *why = "no memory for an uncompressed entry";
        return NULL;
    }
    bool good = true;
    if (entry->flags & FLAG_LZ4)
        good = unpack_lz4(entry, out, why);
    else if (entry->flags & FLAG_ZSTD)
        good = unpack_zstd(entry, out, why);
    else if (entry->size > 0)
        memcpy(out, entry->payload, entry->size);
    if (!good) {
        free(out);
        return NULL;
    }
    out[entry->size] = 0;
    if (size)
        *size = entry->size;
    return out;
}

/* Raises *end to offset + size; false when that lies beyond `available`. */
static bool cover(uint64_t offset, uint64_t size, size_t available, size_t *end)
{
    if (offset > available || size > available - offset)
        return false;
    if (offset + size > *end)
        *end = (size_t)(offset + size);
    return true;
}

size_t fatbin_elf_size(const void *data, size_t available)
{
    const uint8_t *bytes = data;
    Elf64_Ehdr head;
    if (!data || available < sizeof head || memcmp(data, ELFMAG, SELFMAG) != 0)
        return 0;
    memcpy(&head, data, sizeof head);
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB)
        return 0;

    size_t end = sizeof head;
    uint64_t sections = head.e_shnum;
    if (head.e_shoff != 0) {
        if (head.e_shentsize < sizeof(Elf64_Shdr) || !cover(head.e_shoff, head.e_shentsize, available, &end))
            return 0;
        if (sections == 0) {                /* more than 65,279: the number stands in the first header */
            Elf64_Shdr first;
            memcpy(&first, bytes + head.e_shoff, sizeof first);
            sections = first.sh_size;
        }
        if (sections > UINT32_MAX || !cover(head.e_shoff, sections * head.e_shentsize, available, &end))
            return 0;
        for (uint64_t i = 0; i < sections; i++) {
            Elf64_Shdr section;
            memcpy(&section, bytes + head.e_shoff + i * head.e_shentsize, sizeof section);
            if (section.sh_type == SHT_NULL || section.sh_type == SHT_NOBITS)
                continue;
            if (!cover(section.sh_offset, section.sh_size, available, &end))
                return 0;
        }
    }
    if (head.e_phoff != 0 && head.e_phnum != 0) {
        if (head.e_phentsize < sizeof(Elf64_Phdr) ||
            !cover(head.e_phoff, (uint64_t)head.e_phnum * head.e_phentsize, available, &end))
            return 0;
        for (unsigned i = 0; i < head.e_phnum; i++) {
            Elf64_Phdr segment;
            memcpy(&segment, bytes + head.e_phoff + (size_t)i * head.e_phentsize, sizeof segment);
            if (!cover(segment.p_offset, segment.p_filesz, available, &end))
                return 0;
        }
    }
    return end;
}
