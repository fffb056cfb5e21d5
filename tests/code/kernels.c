/* kernels.c FILE...: cpu/code/kernels.h, on PTX, and on cubins and fat binaries of nvcc, whole, cut short and
   changed. */
/* shows: Names of kernels: those of PTX, cubins and fat binaries are found; no byte outside damaged ones
 *   is read
 * shows: Registers of kernels: those that a cubin says; no byte outside damaged ones is read */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/code/fatbin.h"
#include "cpu/code/kernels.h"

enum { CHANGES = 2000, MOST = 1 << 20 };
static unsigned failed, number;

static void check(int good, const char *what)
{
    failed += !good;
    printf("%sok %u - %s\n", good ? "" : "not ", ++number, what);
}

struct seen {
    char text[256];
    unsigned most;
};

static bool see(void *context, const char *name, size_t size)
{
    struct seen *seen = context;
    size_t used = strlen(seen->text);
    if (!seen->most--)
        return false;
    snprintf(seen->text + used, sizeof seen->text - used, "%.*s ", (int)size, name);
    return true;
}

static bool of_ptx(const char *text, size_t size, unsigned most, const char *expected, bool more)
{
    struct seen seen = { .most = most };
    return kernels_of_ptx(text, size, see, &seen) == more && strcmp(seen.text, expected) == 0;
}

/* What nvcc says of a kernel for compute capability 7.5 a second time: in the header of its code. */
static unsigned by_header(const uint8_t *elf)
{
    Elf64_Ehdr head;
    Elf64_Shdr section;
    memcpy(&head, elf, sizeof head);
    for (unsigned i = 0; i < head.e_shnum; i++) {
        memcpy(&section, elf + head.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type == SHT_PROGBITS && section.sh_flags & SHF_EXECINSTR)
            return section.sh_info >> 24;
    }
    return 0;
}

static bool see_registers(void *context, const char *name, size_t size, unsigned registers)
{
    struct seen *seen = context;
    size_t used = strlen(seen->text);
    snprintf(seen->text + used, sizeof seen->text - used, "%.*s=%u ", (int)size, name, registers);
    return --seen->most;
}

/* The same, of a cubin. */
static void registers_of_copy(const uint8_t *copy, size_t size, bool whole, bool *good)
{
    struct seen seen = { .most = 100 };
    registers_of_cubin(copy, size, see_registers, &seen);
    if (!whole)
        return;
    char expected[64];
    snprintf(expected, sizeof expected, "twice=%u ", by_header(copy));
    *good &= by_header(copy) && strcmp(seen.text, expected) == 0;
    seen = (struct seen){ .most = 1 };
    *good &= !registers_of_cubin(copy, size, see_registers, &seen); /* has had enough */
}

/* In memory of exactly that size, so that the sanitizer sees a byte read outside. */
static bool of_copy(const uint8_t *bytes, size_t size, const char *expected)
{
    struct seen seen = { .most = 100 };
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return false;
    memcpy(copy, bytes, size);
    bool good = true;
    if (fatbin_container_size(copy, size)) {
        kernels_of_container(copy, size, MOST, see, &seen);
    } else {
        kernels_of_cubin(copy, size, see, &seen);
        registers_of_copy(copy, size, expected, &good);
    }
    free(copy);
    return good && (!expected || strcmp(seen.text, expected) == 0);
}

static void try_file(const char *path)
{
    static uint8_t bytes[MOST];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (file)
        fclose(file);
    check(size && of_copy(bytes, size, "twice "), path);
    bool good = true;
    for (size_t cut = 0; cut < size; cut += 1 + cut / 200)
        good &= of_copy(bytes, cut, NULL);
    uint32_t random = 12345;
    for (int i = 0; i < CHANGES && size; i++) {
        random = random * 1664525 + 1013904223;
        size_t at = (random >> 8) % size;
        uint8_t was = bytes[at];
        bytes[at] = (uint8_t)(random >> 16);
        good &= of_copy(bytes, size, NULL);
        bytes[at] = was;
    }
    check(good, "cut short, and one byte changed");
}

int main(int argc, char **argv)
{
    static const char ptx[] = ".visible .entry _Z3addPiii(\n.func f()\n.weak .entry\tb$2\n(";
    check(of_ptx(ptx, sizeof ptx, 100, "_Z3addPiii b$2 ", true), "PTX");
    check(of_ptx(ptx, sizeof ptx, 1, "_Z3addPiii ", false), "the visitor has had enough");
    check(of_ptx(ptx, 16, 100, "", true) && of_ptx(ptx, 19, 100, "_Z3 ", true), "PTX without its end");
    check(of_ptx(".entryx(", 8, 100, "", true) && of_ptx("", 0, 100, "", true), "PTX without kernels");
    for (int i = 1; i < argc; i++)
        try_file(argv[i]);
    printf("1..%u\n", number);
    return failed != 0;
}
