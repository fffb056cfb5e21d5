/* shows: attacks: compressed code that is very large when unpacked, and code without end, are refused with error 2;
 *   what was unloaded makes room again */
/* code_memory.c: all code of a process together takes at most FLYT_SOFTGPU_CODE_MEMORY of the host's memory. */
#include "softgpu_test.h"

#include <zstd.h>

enum { LIMIT = 64 * MIB, TEXT = 12 * MIB, HEADER = 16, ENTRY = 0x40, KERNELS = 200 };

static const char kernel[] = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry k() { ret; }\n";
static uint8_t *bomb; /* a fat binary with one compressed text of TEXT bytes, nearly all blanks */
static size_t bomb_size;

static void put(uint8_t *at, uint64_t value, size_t bytes) { memcpy(at, &value, bytes); }

static int make_bomb(void **state)
{
    setenv("FLYT_SOFTGPU_CODE_MEMORY", "64M", 1);
    if (with_context(state))
        return -1;
    char *text = malloc(TEXT);
    size_t room = ZSTD_compressBound(TEXT);
    bomb = calloc(1, HEADER + ENTRY + room + 8);
    if (!text || !bomb)
        return -1;
    memset(text, ' ', TEXT);
    memcpy(text, kernel, sizeof kernel - 1);
    size_t packed = ZSTD_compress(bomb + HEADER + ENTRY, room, text, TEXT, 1), padded = (packed + 7) & ~(size_t)7;
    free(text);
    put(bomb, 0xBA55ED50, 4);
    put(bomb + 4, 1, 2);
    put(bomb + 6, HEADER, 2);
    put(bomb + 8, ENTRY + padded, 8);
    uint8_t *entry = bomb + HEADER;
    put(entry, 1, 2);
    put(entry + 0x04, ENTRY, 4);
    put(entry + 0x08, padded, 8);
    put(entry + 0x10, packed, 4);
    put(entry + 0x1c, 50, 4);
    put(entry + 0x28, 0x8000, 8); /* zstd */
    put(entry + 0x38, TEXT, 8);
    bomb_size = HEADER + ENTRY + padded;
    return ZSTD_isError(packed) || bomb_size > TEXT / 100 ? -1 : 0;
}

/* Loads modules until there is no room for another one. How many there were. */
static unsigned fill(const void *image, CUmodule *modules, unsigned most)
{
    unsigned count = 0;
    CUresult r = CUDA_SUCCESS;
    while (count < most && !(r = cuModuleLoadData(&modules[count], image))) {
        CUfunction f;
        count++;
        if ((r = cuModuleGetFunction(&f, modules[count - 1], "k")))
            break;
    }
    assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
    return count;
}

/* Of a text that has little but blanks a module keeps little: what is unpacked is given back. */
TEST(blanks_are_not_kept)
{
    enum { MANY = 3 * LIMIT / TEXT };
    CUmodule modules[MANY];
    for (int i = 0; i < MANY; i++) {
        CUfunction f;
        OK(cuModuleLoadData(&modules[i], bomb));
        OK(cuModuleGetFunction(&f, modules[i], "k"));
    }
    for (int i = 0; i < MANY; i++)
        OK(cuModuleUnload(modules[i]));
}

/* The same, with the blanks inside the kernel. */
TEST(modules_are_bounded)
{
    CUmodule modules[LIMIT / TEXT + 1];
    char *text = malloc(TEXT + 1);
    assert_non_null(text);
    memset(text, ' ', TEXT);
    text[TEXT] = 0;
    memcpy(text, kernel, sizeof kernel - 1);
    *strchr(text, '}') = ' ';
    text[TEXT - 1] = '}';
    for (int pass = 0; pass < 2; pass++) { /* the second time there is as much room as the first time */
        unsigned count = fill(text, modules, LIMIT / TEXT + 1);
        assert_in_range(count, 2, LIMIT / TEXT - 1);
        while (count)
            OK(cuModuleUnload(modules[--count]));
    }
    free(text);
}

TEST(several_containers_are_bounded)
{
    enum { CONTAINERS = 100 };
    const void *more[CONTAINERS + 1] = { NULL };
    for (int i = 0; i < CONTAINERS; i++)
        more[i] = bomb;
    struct { uint32_t magic, version; const void *container, *extra; } wrapper = { 0x466243B1, 2, bomb, more };
    CUmodule m;
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cuModuleLoadData(&m, &wrapper));
    OK(cuModuleLoadData(&m, bomb));
    OK(cuModuleUnload(m));
}

TEST(links_are_bounded)
{
    char log[200] = "";
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *image;
    size_t size;
    for (int pass = 0; pass < 2; pass++) {
        void *values[] = { log, (void *)sizeof log }; /* the size becomes what has been written */
        CUlinkState link;
        OK(cuLinkCreate(2, options, values, &link));
        OK(cuLinkAddData(link, CU_JIT_INPUT_FATBINARY, bomb, bomb_size, "first", 0, NULL, NULL));
        FAILS(CUDA_ERROR_OUT_OF_MEMORY,
              cuLinkAddData(link, CU_JIT_INPUT_FATBINARY, bomb, bomb_size, "second", 0, NULL, NULL));
        assert_non_null(strstr(log, "second"));
        OK(cuLinkComplete(link, &image, &size));
        assert_int_equal(size, TEXT + 1);
        OK(cuLinkDestroy(link));
    }
    /* many links, each of which is small enough */
    CUlinkState links[LIMIT / TEXT + 1];
    unsigned count = 0;
    CUresult r = CUDA_SUCCESS;
    while (!r && count <= LIMIT / TEXT) {
        OK(cuLinkCreate(0, NULL, NULL, &links[count]));
        r = cuLinkAddData(links[count++], CU_JIT_INPUT_FATBINARY, bomb, bomb_size, "input", 0, NULL, NULL);
    }
    assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
    while (count)
        OK(cuLinkDestroy(links[--count]));
}

/* A kernel that is decoded takes more than its text. */
TEST(decoded_kernels_are_bounded)
{
    enum { INSTRUCTIONS = 20000, LINE = 40 };
    char *text = malloc(sizeof kernel + (INSTRUCTIONS + 2) * LINE), *at = text;
    assert_non_null(text);
    at += sprintf(at, ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry k() {\n.reg .u32 r<50>;\n");
    for (int i = 0; i < INSTRUCTIONS; i++)
        at += sprintf(at, "add.u32 r%d,r%d,%d;\n", i % 50, i * 7 % 50, i);
    strcpy(at, "ret; }\n");
    CUmodule modules[KERNELS];
    for (int pass = 0; pass < 2; pass++) {
        unsigned count = fill(text, modules, KERNELS);
        assert_in_range(count, 1, 20);
        while (count)
            OK(cuModuleUnload(modules[--count]));
    }
    free(text);
}

int main(void) { return unit_run(make_bomb, without_context); }
