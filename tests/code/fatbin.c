/*
 * fatbin: the reader of fat binaries against containers made here, whole, cut off, and damaged.
 * With file names as arguments: reads those (fatbin_nvcc.sh), and prints the entries. --seeds FOLDER writes inputs
 * for the fuzzer.
 */
#include "cpu/code/bounded.h"
#include "cpu/code/fatbin.h"

#include <elf.h>
#include <lz4.h>
#include <zstd.h>

#include "tests/lib/unit.h"

/* ---- making containers ---- */

struct made { uint8_t bytes[65536]; size_t size; };

static void put(uint8_t *at, uint64_t value, unsigned size) { memcpy(at, &value, size); }

static void begin(struct made *made)
{
    memset(made, 0, sizeof *made);
    put(made->bytes, FATBIN_CONTAINER_MAGIC, 4);
    put(made->bytes + 4, 1, 2);
    put(made->bytes + 6, 16, 2);
    made->size = 16;
}

enum packing { PLAIN, LZ4, ZSTD };

static void add_entry(struct made *made, unsigned kind, unsigned sm, enum packing packing, const char *name,
                      const void *payload, size_t size)
{
    uint8_t *head = made->bytes + made->size, packed[32768];
    size_t name_size = name ? strlen(name) : 0, header = 0x40 + ((name_size + 7) & ~(size_t)7), stored = size;
    if (packing == LZ4)
        stored = (size_t)LZ4_compress_default(payload, (char *)packed, (int)size, sizeof packed);
    else if (packing == ZSTD)
        stored = ZSTD_compress(packed, sizeof packed, payload, size, 3);
    size_t padded = (stored + 7) & ~(size_t)7;
    put(head, kind, 2);
    put(head + 2, 0x101, 2);
    put(head + 4, header, 4);
    put(head + 8, padded, 8);
    put(head + 0x10, packing == PLAIN ? 0 : stored, 4);
    put(head + 0x18, 3, 2);
    put(head + 0x1a, 8, 2);
    put(head + 0x1c, sm, 4);
    if (name) {
        put(head + 0x20, 0x40, 4);
        put(head + 0x24, name_size, 4);
        memcpy(head + 0x40, name, name_size);
    }
    put(head + 0x28, 0x11 | (packing == LZ4 ? 0x2000 : packing == ZSTD ? 0x8000 : 0), 8);
    put(head + 0x38, packing == PLAIN ? 0 : size, 8);
    memcpy(head + header, packing == PLAIN ? payload : packed, stored);
    made->size += header + padded;
    put(made->bytes + 8, made->size - 16, 8);
}

static const char ptx[] = ".version 8.3\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n"
                          "// aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n";

/* A small cubin: an ELF file with a section that has bytes, and one that has none. */
static size_t make_elf(uint8_t *bytes)
{
    Elf64_Ehdr head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1 }, .e_ehsize = sizeof head,
                        .e_shoff = 104, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3,
                        .e_phentsize = sizeof(Elf64_Phdr) };
    Elf64_Shdr sections[3] = { { 0 },
        { .sh_type = SHT_PROGBITS, .sh_offset = 64, .sh_size = 40 },
        { .sh_type = SHT_NOBITS, .sh_offset = 1 << 30, .sh_size = 1 << 30 } };
    memset(bytes, 0x11, 104);
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + 104, sections, sizeof sections);
    return 104 + sizeof sections;
}

/* The extension of an entry's header, with its options, in all ways that hold and some that lie. */
static unsigned registers_of(const char *options, uint32_t extension, uint32_t at, uint32_t size)
{
    static struct made made;
    struct fatbin_entry entry;
    size_t cursor = 0;
    char name[64] = { 0 };                /* room in the header behind the first 0x40 bytes */
    begin(&made);
    memset(name, 'x', sizeof name - 1);
    add_entry(&made, FATBIN_PTX, 75, PLAIN, name, "text", 5);
    uint8_t *head = made.bytes + 16;
    put(head + 0x14, extension, 4);
    put(head + 0x40, at, 4);
    put(head + 0x44, size, 4);
    memcpy(head + 0x48, options, strlen(options));
    assert_int_equal(fatbin_next(made.bytes, made.size, &cursor, &entry, NULL), 1);
    return entry.max_registers;
}

TEST(registers_in_options)
{
    static const char simple[] = " -maxrregcount=96 ", second[] = "-dlcm=ca  --maxrregcount 32";
    assert_int_equal(registers_of(simple, 0x40, 0x48, sizeof simple - 1), 96);
    assert_int_equal(registers_of(second, 0x40, 0x48, sizeof second - 1), 32);
    assert_int_equal(registers_of(simple, 0x40, 0x48, 16), 9);              /* cut off: nothing behind is read */
    assert_int_equal(registers_of(simple, 0x40, 0x48, 0), 0);
    assert_int_equal(registers_of(simple, 0, 0x48, sizeof simple - 1), 0);
    assert_int_equal(registers_of(simple, 0x7c, 0x48, sizeof simple - 1), 0);        /* no room for the extension */
    assert_int_equal(registers_of(simple, UINT32_MAX, 0x48, sizeof simple - 1), 0);
    assert_int_equal(registers_of(simple, 0x40, UINT32_MAX, 18), 0);
    assert_int_equal(registers_of(simple, 0x40, 0x48, UINT32_MAX), 0);
    assert_int_equal(registers_of(" -maxrregcount=99999999999 ", 0x40, 0x48, 27), 9999);
    assert_int_equal(registers_of(" -maxrregcount= ", 0x40, 0x48, 16), 0);
}

TEST(registers_are_bounded)
{
    static const char text[] = ".version 8.3\n.target sm_90a\n.address_size 64\n.entry k() { ret; }\n";
    struct fatbin_entry entry;
    size_t size, again, cursor = 0;
    const char *why = NULL;
    uint8_t *made = code_bounded_text(text, 48, &size);
    assert_non_null(made);
    uint8_t *bound = code_bounded_container(made, size, 255, &again);
    assert_non_null(bound);
    for (int i = 0; i < 2; i++, cursor = 0) {
        assert_int_equal(fatbin_container_size(i ? bound : made, i ? again : size), i ? again : size);
        assert_int_equal(fatbin_next(i ? bound : made, i ? again : size, &cursor, &entry, &why), 1);
        assert_int_equal(entry.max_registers, i ? 255 : 48);
        assert_int_equal(entry.kind, FATBIN_PTX);
        assert_int_equal(entry.sm, 90);
        assert_true(entry.flags & FATBIN_ARCH_SPECIFIC);
        assert_int_equal(entry.payload_size, sizeof text);
        assert_memory_equal(entry.payload, text, sizeof text);
        assert_int_equal(fatbin_next(i ? bound : made, i ? again : size, &cursor, &entry, &why), 0);
    }
    assert_null(code_bounded_container(made, size - 1, 48, &again)); /* cut off */
    free(made);
    free(bound);
}

TEST(registers_are_bounded_beside_machine_code)
{
    static struct made made;
    struct fatbin_entry entry;
    size_t size, cursor = 0;
    begin(&made);
    add_entry(&made, FATBIN_CUBIN, 75, PLAIN, "named", "machine code", 13);
    add_entry(&made, FATBIN_PTX, 75, PLAIN, "named", "text", 5);
    add_entry(&made, FATBIN_PTX, 80, PLAIN, NULL, "more text", 10);
    uint8_t *bound = code_bounded_container(made.bytes, made.size, 40, &size);
    assert_non_null(bound);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fatbin_next(bound, size, &cursor, &entry, NULL), 1);
        assert_int_equal(entry.max_registers, i ? 40 : 0);
        assert_int_equal(entry.name_size, i < 2 ? 5 : 0);
        assert_memory_equal(entry.payload, i == 0 ? "machine code" : i == 1 ? "text" : "more text", i == 1 ? 5 : 10);
    }
    assert_int_equal(fatbin_next(bound, size, &cursor, &entry, NULL), 0);
    free(bound);
}

static void check_entry(const struct fatbin_entry *entry, unsigned kind, unsigned sm, const void *payload, size_t size)
{
    const char *why = NULL;
    size_t got = 0;
    assert_int_equal(entry->kind, kind);
    assert_int_equal(entry->sm, sm);
    assert_int_equal(entry->version_major, 8);
    assert_int_equal(entry->version_minor, 3);
    assert_int_equal(entry->size, size);
    uint8_t *bytes = fatbin_extract(entry, &got, &why);
    assert_non_null(bytes);
    assert_int_equal(got, size);
    assert_memory_equal(bytes, payload, size);
    assert_int_equal(bytes[size], 0);
    free(bytes);
}

static void whole(struct made *made, uint8_t *elf, size_t *elf_size)
{
    *elf_size = make_elf(elf);
    begin(made);
    add_entry(made, FATBIN_CUBIN, 75, PLAIN, NULL, elf, *elf_size);
    add_entry(made, FATBIN_PTX, 75, PLAIN, "a.cu", ptx, sizeof ptx);
    add_entry(made, FATBIN_PTX, 80, LZ4, NULL, ptx, sizeof ptx);
    add_entry(made, FATBIN_PTX, 121, ZSTD, "longer-name.cu", ptx, sizeof ptx);
    add_entry(made, 77, 1, PLAIN, NULL, "12345678", 8);
}

TEST(entries)
{
    static struct made made;
    uint8_t elf[1024];
    size_t elf_size, cursor = 0;
    struct fatbin_entry entry;
    const char *why = NULL;
    whole(&made, elf, &elf_size);
    assert_int_equal(fatbin_container_size(made.bytes, made.size), made.size);
    assert_int_equal(fatbin_container_size(made.bytes, SIZE_MAX), made.size);
    assert_int_equal(fatbin_container_size(made.bytes, made.size + 100), made.size);

    assert_int_equal(fatbin_next(made.bytes, made.size, &cursor, &entry, &why), 1);
    check_entry(&entry, FATBIN_CUBIN, 75, elf, elf_size);
    assert_null(entry.name);
    assert_int_equal(fatbin_next(made.bytes, made.size, &cursor, &entry, &why), 1);
    check_entry(&entry, FATBIN_PTX, 75, ptx, sizeof ptx);
    assert_int_equal(entry.name_size, 4);
    assert_memory_equal(entry.name, "a.cu", 4);
    assert_int_equal(fatbin_next(made.bytes, made.size, &cursor, &entry, &why), 1);
    check_entry(&entry, FATBIN_PTX, 80, ptx, sizeof ptx);
    assert_int_equal(fatbin_next(made.bytes, made.size, &cursor, &entry, &why), 1);
    check_entry(&entry, FATBIN_PTX, 121, ptx, sizeof ptx);
    assert_int_equal(entry.name_size, 14);
    assert_int_equal(fatbin_next(made.bytes, made.size, &cursor, &entry, &why), 1);
    check_entry(&entry, 77, 1, "12345678", 8);
    assert_int_equal(fatbin_next(made.bytes, made.size, &cursor, &entry, &why), 0);
    assert_int_equal(fatbin_next(made.bytes, made.size, &cursor, &entry, &why), 0);
}

TEST(no_containers)
{
    struct made made;
    begin(&made);
    size_t cursor = 0;
    struct fatbin_entry entry;
    const char *why = NULL;
    assert_int_equal(fatbin_next(made.bytes, made.size, &cursor, &entry, &why), 0);     /* empty is fine */
    assert_int_equal(fatbin_container_size(NULL, SIZE_MAX), 0);
    made.bytes[0] ^= 1;
    assert_int_equal(fatbin_container_size(made.bytes, SIZE_MAX), 0);
    assert_int_equal(fatbin_next(made.bytes, made.size, &cursor, &entry, &why), -1);
    assert_non_null(why);
    begin(&made);
    put(made.bytes + 4, 2, 2);
    assert_int_equal(fatbin_container_size(made.bytes, SIZE_MAX), 0);
    begin(&made);
    put(made.bytes + 6, 8, 2);
    assert_int_equal(fatbin_container_size(made.bytes, SIZE_MAX), 0);
    begin(&made);
    put(made.bytes + 8, UINT64_MAX, 8);
    assert_int_equal(fatbin_container_size(made.bytes, SIZE_MAX), 0);
    put(made.bytes + 8, UINT64_MAX - 8, 8);
    assert_int_equal(fatbin_container_size(made.bytes, SIZE_MAX), 0);
}

/* Walks a container of exactly `size` bytes and extracts everything. Gives what fatbin_next ended with. */
static int walk(const uint8_t *bytes, size_t size)
{
    /* in memory of exactly that size, so that a sanitizer sees one byte too many */
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    size_t cursor = 0, before = 0;
    struct fatbin_entry entry;
    const char *why = NULL;
    int status;
    while ((status = fatbin_next(copy, size, &cursor, &entry, &why)) == 1) {
        assert_true(cursor > before);
        before = cursor;
        why = NULL;
        size_t got;
        uint8_t *out = fatbin_extract(&entry, &got, &why);
        assert_true(out || why);
        free(out);
    }
    if (status < 0)
        assert_non_null(why);
    free(copy);
    return status;
}

TEST(cut_off)
{
    static struct made made;
    uint8_t elf[1024];
    size_t elf_size;
    whole(&made, elf, &elf_size);
    assert_int_equal(walk(made.bytes, made.size), 0);
    for (size_t size = 0; size < made.size; size++) {
        assert_int_equal(walk(made.bytes, size), -1);
        if (size >= 16) {                           /* a header that says what there is: entries are cut */
            uint64_t said = made.size - 16;
            put(made.bytes + 8, size - 16, 8);
            assert_true(walk(made.bytes, size) <= 0);
            put(made.bytes + 8, said, 8);
        }
    }
}

TEST(damaged)
{
    static struct made made;
    uint8_t elf[1024];
    size_t elf_size;
    whole(&made, elf, &elf_size);
    for (size_t at = 0; at < made.size; at++) {
        static const uint8_t changes[] = { 0x01, 0x80, 0xff };
        for (size_t i = 0; i < sizeof changes; i++) {
            made.bytes[at] ^= changes[i];
            walk(made.bytes, made.size);
            made.bytes[at] ^= changes[i];
        }
    }
    assert_int_equal(walk(made.bytes, made.size), 0);
}

/* Claims that cannot be true are refused before memory is taken. */
TEST(lies)
{
    static struct made made;
    struct fatbin_entry entry;
    size_t cursor;
    const char *why;
    static const struct { enum packing packing; uint64_t claim; } cases[] = {
        { LZ4, 600u << 20 }, { LZ4, 400u << 20 }, { ZSTD, 600u << 20 }, { ZSTD, 1 }, { ZSTD, UINT64_MAX },
        { LZ4, UINT64_MAX }, { LZ4, 1 }, { ZSTD, sizeof ptx + 1 }, { LZ4, sizeof ptx + 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(&made);
        add_entry(&made, FATBIN_PTX, 75, cases[i].packing, NULL, ptx, sizeof ptx);
        put(made.bytes + 16 + 0x38, cases[i].claim, 8);
        cursor = 0;
        why = NULL;
        assert_int_equal(fatbin_next(made.bytes, made.size, &cursor, &entry, &why), 1);
        assert_null(fatbin_extract(&entry, NULL, &why));
        assert_non_null(why);
    }
    begin(&made);
    add_entry(&made, FATBIN_LTO, 75, ZSTD, NULL, ptx, sizeof ptx);
    put(made.bytes + 16 + 0x28, 0x18011, 8);                    /* scrambled */
    cursor = 0;
    assert_int_equal(fatbin_next(made.bytes, made.size, &cursor, &entry, &why), 1);
    assert_null(fatbin_extract(&entry, NULL, &why));
    assert_non_null(strstr(why, "scrambled"));
}

TEST(elf_sizes)
{
    uint8_t bytes[1024];
    size_t size = make_elf(bytes);
    assert_int_equal(fatbin_elf_size(bytes, sizeof bytes), size);
    assert_int_equal(fatbin_elf_size(bytes, SIZE_MAX), size);
    assert_int_equal(fatbin_elf_size(bytes, size), size);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(fatbin_elf_size(bytes, cut), 0);
    assert_int_equal(fatbin_elf_size(NULL, 100), 0);
    Elf64_Ehdr head;
    memcpy(&head, bytes, sizeof head);
    head.e_shoff = UINT64_MAX - 8;
    memcpy(bytes, &head, sizeof head);
    assert_int_equal(fatbin_elf_size(bytes, SIZE_MAX), 0);
    head.e_shoff = 104;
    head.e_shentsize = 8;
    memcpy(bytes, &head, sizeof head);
    assert_int_equal(fatbin_elf_size(bytes, sizeof bytes), 0);
    make_elf(bytes);
    bytes[EI_CLASS] = ELFCLASS32;
    assert_int_equal(fatbin_elf_size(bytes, sizeof bytes), 0);
}

/* ---- files ---- */

static int read_file(const char *name)
{
    FILE *file = fopen(name, "rb");
    if (!file)
        return perror(name), 1;
    static uint8_t bytes[8 << 20];
    size_t size = fread(bytes, 1, sizeof bytes, file), cursor = 0, extracted;
    fclose(file);
    if (fatbin_container_size(bytes, size) != size)
        return fprintf(stderr, "%s: %zu bytes, but the container has %zu\n", name, size,
                       fatbin_container_size(bytes, size)),
               1;
    struct fatbin_entry entry;
    const char *why = "?";
    int status;
    while ((status = fatbin_next(bytes, size, &cursor, &entry, &why)) == 1) {
        uint8_t *out = fatbin_extract(&entry, &extracted, &why);
        if (!out)
            return fprintf(stderr, "%s: %s\n", name, why), 1;
        const char *packed = entry.flags & 0x2000 ? "lz4" : entry.flags & 0x8000 ? "zstd" : "plain";
        bool sound = entry.kind == FATBIN_CUBIN ? fatbin_elf_size(out, extracted) == extracted
                     : entry.kind == FATBIN_PTX
                         ? extracted > 0 && out[extracted - 1] == 0 && strstr((char *)out, ".version")
                         : true;
        uint32_t sum = 0;
        for (size_t i = 0; i < extracted; i++)
            sum = sum * 31 + out[i];
        printf("%s sm=%u %s %s %zu %08x\n",
               entry.kind == FATBIN_PTX     ? "ptx"
               : entry.kind == FATBIN_CUBIN ? "cubin"
                                            : "other",
               entry.sm, packed, sound ? "sound" : "UNSOUND", extracted, sum);
        free(out);
    }
    if (status < 0)
        fprintf(stderr, "%s: %s\n", name, why);
    for (size_t cut = 0; cut < size; cut += 1 + size / 500)
        walk(bytes, cut);
    for (size_t at = 16; at < size; at += 1 + size / 2000) {
        bytes[at] ^= 0x55;
        walk(bytes, size);
        bytes[at] ^= 0x55;
    }
    return status < 0;
}

/* Starting points for the fuzzer. */
static int write_seeds(const char *folder)
{
    static struct made made;
    uint8_t elf[1024];
    size_t elf_size;
    whole(&made, elf, &elf_size);
    char name[512];
    snprintf(name, sizeof name, "%s/all", folder);
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(made.bytes, 1, made.size, file) != made.size || fclose(file) != 0)
        return perror(name), 1;
    snprintf(name, sizeof name, "%s/elf", folder);
    file = fopen(name, "wb");
    if (!file || fwrite(elf, 1, elf_size, file) != elf_size || fclose(file) != 0)
        return perror(name), 1;
    return 0;
}

int main(int count, char **names)
{
    if (count == 3 && strcmp(names[1], "--seeds") == 0)
        return write_seeds(names[2]);
    if (count > 1) {
        int status = 0;
        for (int i = 1; i < count; i++)
            status |= read_file(names[i]);
        return status;
    }
    return unit_run(NULL, NULL);
}
