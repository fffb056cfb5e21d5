/* shows: Code images: layouts of kernel parameters are read from PTX and from cubins, and damaged images are refused */
/* layout: kernels, their parameters and variables, from PTX text and from the sections of a cubin. */
#include "cpu/code/fatbin.h"
#include "cpu/code/layout.h"

#include <elf.h>

#include "tests/lib/unit.h"

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .global .align 4 .b8 table[400];\n.visible .const .align 8 .u64 one = 1;\n"
    ".func helper(.param .b32 x)\n{\n    ret;\n}\n"
    ".visible .entry second(.param .u32 n, .param .u64 p, .param .u8 c, .param .align 16 .b8 box[48])\n{\n    ret;\n}\n"
    ".visible .entry first()\n{\n    ret;\n}\n";

static void expect(const struct layout *layout, unsigned index, uint32_t offset, uint32_t size)
{
    assert_true(index < layout->count);
    assert_int_equal(layout->params[index].offset, offset);
    assert_int_equal(layout->params[index].size, size);
}

TEST(of_ptx)
{
    layout_image *image = NULL;
    struct layout layout;
    char log[256];
    assert_int_equal(layout_open(ptx, &image, log, sizeof log), 0);
    assert_int_equal(layout_find(image, "second", &layout), 0);
    assert_int_equal(layout.count, 4);
    expect(&layout, 0, 0, 4);
    expect(&layout, 1, 8, 8);
    expect(&layout, 2, 16, 1);
    expect(&layout, 3, 32, 48);
    assert_int_equal(layout.bytes, 80);
    assert_int_equal(layout_find(image, "first", &layout), 0);
    assert_int_equal(layout.count, 0);
    assert_int_equal(layout.bytes, 0);
    assert_int_equal(layout_find(image, "helper", &layout), -1);    /* not a kernel */
    assert_int_equal(layout_find(image, "third", &layout), -1);
    assert_int_equal(layout_variable_size(image, "table"), 400);
    assert_int_equal(layout_variable_size(image, "one"), 8);
    assert_int_equal(layout_variable_size(image, "two"), 0);
    layout_close(image);
    layout_close(NULL);
}

TEST(bad_ptx)
{
    layout_image *image = NULL;
    char log[256] = "";
    assert_int_equal(
        layout_open(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .what n)\n{ ret; }\n",
                    &image, log, sizeof log),
        218);
    assert_null(image);
    assert_non_null(strstr(log, ":4:"));
}

/* A cubin with one kernel: its section .nv.info.k has these bytes. */
enum { NAMES = 64, INFO = 96, HEADERS = 256, CUBIN = HEADERS + 3 * sizeof(Elf64_Shdr) };
static void make_cubin(unsigned char cubin[CUBIN], const unsigned char *info, size_t size)
{
    static const char names[] = "\0.shstrtab\0.nv.info.k";
    Elf64_Ehdr head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB }, .e_ehsize = sizeof head,
                        .e_shoff = HEADERS,
                        .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3, .e_shstrndx = 1 };
    Elf64_Shdr sections[3] = { { .sh_type = SHT_NULL },
                               { .sh_name = 1, .sh_type = SHT_STRTAB, .sh_offset = NAMES, .sh_size = sizeof names },
                               { .sh_name = 11, .sh_type = SHT_PROGBITS, .sh_offset = INFO, .sh_size = size } };
    memset(cubin, 0, CUBIN);
    memcpy(cubin, &head, sizeof head);
    memcpy(cubin + NAMES, names, sizeof names);
    memcpy(cubin + INFO, info, size);
    memcpy(cubin + HEADERS, sections, sizeof sections);
}

/* Parameter 1 (8 bytes at 8) before parameter 0 (4 bytes at 0), as compilers write them; 16 bytes in all. */
static const unsigned char two_parameters[] = {
    4, 0x17, 12, 0, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0xf0, 0x21, 0,
    4, 0x17, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x11, 0,
    3, 0x19, 16, 0,
};

TEST(of_cubin)
{
    unsigned char *cubin = malloc(CUBIN);
    layout_image *image = NULL;
    struct layout layout;
    char log[256];
    assert_non_null(cubin);
    make_cubin(cubin, two_parameters, sizeof two_parameters);
    assert_int_equal(layout_open(cubin, &image, log, sizeof log), 0);
    free(cubin);                                     /* its bytes are not needed any more */
    assert_int_equal(layout_find(image, "k", &layout), 0);
    assert_int_equal(layout.count, 2);
    expect(&layout, 0, 0, 4);
    expect(&layout, 1, 8, 8);
    assert_int_equal(layout.bytes, 16);
    layout_close(image);
}

/* What kernels say of their blocks and clusters. */
TEST(of_blocks)
{
    static const char text[] = ".version 9.0\n.target sm_100\n.address_size 64\n"
                               ".visible .entry exactly() .reqntid 32, 2 { ret; }\n"
                               ".visible .entry ranked() .maxclusterrank 4 { ret; }\n"
                               ".visible .entry counted() .blocksareclusters .reqntid 64 "
                               ".reqnctapercluster 2 { ret; }\n";
    static const unsigned char info[] = { 1, 0x5b, 0,  0, 4, 0x3f, 4, 0, 3, 0, 0, 0,
                                          4, 0x10, 12, 0, 8, 0,    0, 0, 4, 0, 0, 0, 2, 0, 0, 0 };
    unsigned char *cubin = malloc(CUBIN);
    layout_image *image = NULL;
    struct layout layout;
    char log[256];
    assert_int_equal(layout_open(text, &image, log, sizeof log), 0);
    assert_int_equal(layout_find(image, "exactly", &layout), 0);
    assert_true(layout.required[0] == 32 && layout.required[1] == 2 && layout.required[2] == 1);
    assert_true(!layout.cluster_most && !layout.grid_of_clusters);
    assert_int_equal(layout_find(image, "ranked", &layout), 0);
    assert_true(!layout.required[0] && !layout.required[1] && layout.cluster_most == 4);
    assert_int_equal(layout_find(image, "counted", &layout), 0);
    assert_true(layout.grid_of_clusters && layout.required[0] == 64);
    layout_close(image);
    assert_non_null(cubin);
    make_cubin(cubin, info, sizeof info);
    assert_int_equal(layout_open(cubin, &image, log, sizeof log), 0);
    free(cubin);
    assert_int_equal(layout_find(image, "k", &layout), 0);
    assert_true(layout.required[0] == 8 && layout.required[1] == 4 && layout.required[2] == 2);
    assert_true(layout.cluster_most == 3 && layout.grid_of_clusters);
    layout_close(image);
}

TEST(small)
{
    unsigned char *cubin = malloc(CUBIN);
    assert_non_null(cubin);
    make_cubin(cubin, two_parameters, sizeof two_parameters);
    assert_true(layout_is_small(cubin, CUBIN) && !layout_is_small(cubin, CUBIN - 1));
    free(cubin);
    assert_true(layout_is_small(ptx, sizeof ptx) && !layout_is_small(ptx, 8));
}

/* Every byte behind the magic number, changed in turn: the cubin is refused or read, never out of bounds. */
TEST(damaged_cubin)
{
    unsigned char *cubin = malloc(CUBIN);
    char log[256];
    assert_non_null(cubin);
    for (size_t at = 4; at < CUBIN; at++)
        for (unsigned value = 1; value < 256; value *= 3) {
            layout_image *image = NULL;
            make_cubin(cubin, two_parameters, sizeof two_parameters);
            cubin[at] ^= (unsigned char)value;
            /* layout_open takes whole images: the server looks at their size before. */
            if (fatbin_elf_size(cubin, CUBIN) && layout_open(cubin, &image, log, sizeof log) == 0)
                layout_close(image);
        }
    free(cubin);
}

TEST(no_image)
{
    static const char empty[64] = "    ";
    layout_image *image = NULL;
    char log[256] = "";
    assert_int_not_equal(layout_open("not an image", &image, log, sizeof log), 0);
    assert_null(image);
    assert_true(log[0] != 0);
    struct { uint32_t magic, version; const void *container, *extra; } wrapper = { 0x466243B1u, 1, empty, NULL };
    assert_int_equal(layout_open(&wrapper, &image, log, sizeof log), 200);
    assert_null(image);
}

/* The same container again and again: what is extracted together is bounded. */
TEST(large_texts)
{
    enum { TEXT = 4096, CONTAINERS = 5, FIT = 3 };
    struct { uint8_t header[16], entry[0x40], text[TEXT]; } fat = { 0 };
    const uint32_t magic = FATBIN_CONTAINER_MAGIC, header = sizeof fat.entry, sm = 75;
    const uint16_t version = 1, head = sizeof fat.header, kind = FATBIN_PTX;
    const uint64_t size = sizeof fat - sizeof fat.header, text = TEXT;
    memcpy(fat.header, &magic, 4), memcpy(fat.header + 4, &version, 2), memcpy(fat.header + 6, &head, 2);
    memcpy(fat.header + 8, &size, 8);
    memcpy(fat.entry, &kind, 2), memcpy(fat.entry + 4, &header, 4), memcpy(fat.entry + 8, &text, 8);
    memcpy(fat.entry + 0x1c, &sm, 4);
    memset(fat.text, ' ', sizeof fat.text);
    memcpy(fat.text, ptx, sizeof ptx - 1);
    const void *extra[CONTAINERS] = { NULL };
    struct { uint32_t magic, version; const void *container, *extra; } wrapper = { 0x466243B1u, 2, &fat, extra };
    layout_image *image = NULL;
    char log[256] = "";
    const size_t before = layout_text_most;
    layout_text_most = FIT * TEXT;
    for (int count = 1; count <= CONTAINERS; count++) { /* those that fit declare their kernels twice, or more often */
        assert_int_equal(layout_open(&wrapper, &image, log, sizeof log), count == 1 ? 0 : count <= FIT ? 218 : 2);
        assert_true(layout_is_small(&wrapper, FIT * TEXT) == (count <= FIT));
        if (count == 1)
            layout_close(image);
        if (count < CONTAINERS)
            extra[count - 1] = &fat;
    }
    layout_text_most = before;
}

int main(void) { return unit_run(NULL, NULL); }
