/* shows: attacks: compressed code that the linker is given over the protocol, as fat binaries, machine code, objects
 *   and libraries, takes no more than a link, and a session, may have; what was unpacked and read is given back */
/* code_bombs.c: LINK of inputs that are small, and large when unpacked. See tests/softgpu/code_memory.c for the driver
   alone. */
#include <ar.h>
#include <elf.h>
#include <signal.h>
#include <zstd.h>

#include "cpu/code/hash.h"
#include "tests/server/peer.h"

enum { MIB = 1 << 20, LIMIT = 64 * MIB, TEXT = 12 * MIB, HEADER = 16, ENTRY = 0x40, MANY = 6, SAME = 14, ROUNDS = 8 };
/* CUjitInputType */
enum { INPUT_CUBIN = 0, INPUT_PTX = 1, INPUT_FATBINARY = 2, INPUT_OBJECT = 3, INPUT_LIBRARY = 4 };
enum { OUT_OF_MEMORY = 2 };

/* A link may take a quarter of the limit, and of a text there are its input, its result, and what is sent. What the
   software GPU and the server need besides is far less than an unpacked bomb of SAME texts. */
enum { PEAK = LIMIT + 3 * TEXT };
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { IS_MEASURED = 0 }; /* a sanitizer keeps what was freed for a while */
#else
enum { IS_MEASURED = 1 };
#endif

struct bytes {
    uint8_t *at;
    size_t size;
};

static struct server server;
static struct bytes bomb, object, library; /* of one text, of MANY, of MANY objects */

static void put(uint8_t *at, uint64_t value, size_t bytes) { memcpy(at, &value, bytes); }

static struct bytes room(size_t size)
{
    struct bytes b = { calloc(1, size), size };
    assert_non_null(b.at);
    return b;
}

/* A fat binary with one text of TEXT bytes, nearly all blanks. */
static void make_bomb(void)
{
    static const char kernel[] = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry k() { ret; }\n";
    struct bytes text = room(TEXT);
    size_t most = ZSTD_compressBound(TEXT);
    memset(text.at, ' ', TEXT);
    memcpy(text.at, kernel, sizeof kernel - 1);
    bomb = room(HEADER + ENTRY + most + 8);
    size_t packed = ZSTD_compress(bomb.at + HEADER + ENTRY, most, text.at, TEXT, 1), padded = (packed + 7) & ~(size_t)7;
    assert_false(ZSTD_isError(packed));
    free(text.at);
    put(bomb.at, 0xBA55ED50, 4);
    put(bomb.at + 4, 1, 2);
    put(bomb.at + 6, HEADER, 2);
    put(bomb.at + 8, ENTRY + padded, 8);
    uint8_t *entry = bomb.at + HEADER;
    put(entry, 1, 2);
    put(entry + 0x04, ENTRY, 4);
    put(entry + 0x08, padded, 8);
    put(entry + 0x10, packed, 4);
    put(entry + 0x1c, 50, 4);
    put(entry + 0x28, 0x8000, 8); /* zstd */
    put(entry + 0x38, TEXT, 8);
    bomb.size = HEADER + ENTRY + padded;
    assert_true(bomb.size < TEXT / 100);
}

/* An object with a section of `count` bombs. */
static struct bytes make_object(unsigned count)
{
    static const char names[] = "\0.nv_fatbin";
    size_t section = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Shdr), strings = section + count * bomb.size;
    struct bytes b = room((strings + sizeof names + 1) & ~(size_t)1);
    Elf64_Ehdr head = {
        .e_ident = ELFMAG, .e_shoff = sizeof head, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3, .e_shstrndx = 2
    };
    head.e_ident[EI_CLASS] = ELFCLASS64;
    Elf64_Shdr headers[3] = {
        [1] = { .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = section, .sh_size = count * bomb.size },
        [2] = { .sh_type = SHT_STRTAB, .sh_offset = strings, .sh_size = sizeof names },
    };
    memcpy(b.at, &head, sizeof head);
    memcpy(b.at + sizeof head, headers, sizeof headers);
    for (unsigned i = 0; i < count; i++)
        memcpy(b.at + section + i * bomb.size, bomb.at, bomb.size);
    memcpy(b.at + strings, names, sizeof names);
    return b;
}

static struct bytes make_library(unsigned count)
{
    struct bytes member = make_object(1), b = room(SARMAG + count * (sizeof(struct ar_hdr) + member.size));
    uint8_t *at = mempcpy(b.at, ARMAG, SARMAG);
    for (unsigned i = 0; i < count; i++) {
        char head[sizeof(struct ar_hdr) + 1];
        snprintf(head, sizeof head, "%-16s%-12d%-6d%-6d%-8o%-10zu" ARFMAG, "member.o/", 0, 0, 0, 0644, member.size);
        at = mempcpy(at, head, sizeof(struct ar_hdr));
        at = mempcpy(at, member.at, member.size);
    }
    free(member.at);
    return b;
}

static int set_up(void **state)
{
    struct peer *peer = calloc(1, sizeof *peer);
    assert_non_null(peer);
    peer_open(peer, server.uri[0]);
    *state = peer;
    return 0;
}

/* ---- the calls ---- */

static void send_input(struct peer *peer, const struct bytes *input, char *key)
{
    image_args announce = { .kind = FLYT_IMAGE_INPUT, .size = input->size };
    image_result present = { 0 };
    hash_bytes(input->at, input->size, (uint8_t *)announce.hash);
    memcpy(key, announce.hash, sizeof announce.hash);
    assert_int_equal(peer_took(peer, flyt_image_1(&announce, &present, peer->stub), NULL, &present), 0);
    bool has = present.present;
    xdr_free((xdrproc_t)xdr_image_result, (char *)&present);
    for (size_t at = 0; !has && at < input->size; at += FLYT_MAX_INLINE) {
        size_t left = input->size - at;
        image_data_args data = { .offset = at };
        memcpy(data.hash, key, sizeof data.hash);
        data.bytes.bytes_val = (char *)input->at + at;
        data.bytes.bytes_len = left < FLYT_MAX_INLINE ? (u_int)left : FLYT_MAX_INLINE;
        flyt_image_data_1(&data, NULL, peer->stub);
    }
}

/* A link of the input `count` times, and of a PTX text of its own if `own` is not 0. log: of FLYT_MAX_LOG + 1. */
static int link_of(struct peer *peer, const struct bytes *input, int type, unsigned count, unsigned own, char *log)
{
    link_input inputs[SAME + 1] = { 0 };
    link_args args = { .inputs = { count + !!own, inputs } };
    link_result result = { 0 };
    char text[200], bombs_name[] = "bomb", own_name[] = "own";
    for (unsigned i = 0; i < count; i++) {
        inputs[i] = (link_input){ .type = type, .name = bombs_name };
        send_input(peer, input, inputs[i].hash);
    }
    if (own) {
        snprintf(text, sizeof text, ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry k%u() { ret; }\n",
                 own);
        inputs[count] = (link_input){ .type = INPUT_PTX, .name = own_name };
        send_input(peer, &(struct bytes){ (uint8_t *)text, strlen(text) + 1 }, inputs[count].hash);
    }
    enum clnt_stat status = flyt_link_1(&args, &result, peer->stub);
    snprintf(log, FLYT_MAX_LOG + 1, "%.*s", (int)result.log.log_len, result.log.log_val ? result.log.log_val : "");
    return peer_took(peer, status, (xdrproc_t)xdr_link_result, &result);
}

/* Bytes that the largest of the server's workers has had in memory at most. */
static size_t peak(void)
{
    int workers[16], count = server_children(&server, workers, 16);
    size_t most = 0;
    for (int i = 0; i < count; i++) {
        char path[64], line[200];
        snprintf(path, sizeof path, "/proc/%d/status", workers[i]);
        FILE *status = fopen(path, "re");
        size_t kib;
        while (status && fgets(line, sizeof line, status))
            if (sscanf(line, "VmHWM: %zu kB", &kib) == 1 && kib << 10 > most)
                most = kib << 10;
        if (status)
            fclose(status);
    }
    return most;
}

/* ---- the tests ---- */

/* Whatever it comes in, and as often as it is tried: what a link was refused for is given back. */
TEST_WITH(a_link_has_one_budget, set_up, peer_tear_down)
{
    const struct {
        const struct bytes *input;
        int type;
        unsigned count;
    } cases[] = {
        { &bomb, INPUT_FATBINARY, SAME },
        { &bomb, INPUT_CUBIN, SAME },
        { &object, INPUT_OBJECT, 1 },
        { &library, INPUT_LIBRARY, 1 },
    };
    char *log = malloc(FLYT_MAX_LOG + 1);
    size_t before = peak();
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            assert_int_equal(link_of(*state, cases[i].input, cases[i].type, cases[i].count, 0, log), OUT_OF_MEMORY);
            assert_non_null(strstr(log, "FLYT_SOFTGPU_CODE_MEMORY"));
            assert_int_equal(
                link_of(*state, &bomb, cases[i].type == INPUT_CUBIN ? INPUT_CUBIN : INPUT_FATBINARY, 1, 0, log), 0);
        }
    assert_true(!IS_MEASURED || (before && peak() <= before + PEAK));
    free(log);
}

/* Each link makes another result, which the session keeps as an image: the oldest make room. */
TEST_WITH(a_session_has_one_budget, set_up, peer_tear_down)
{
    char *log = malloc(FLYT_MAX_LOG + 1);
    size_t before = peak();
    for (unsigned i = 1; i <= 3 * LIMIT / TEXT; i++)
        assert_int_equal(link_of(*state, &bomb, INPUT_FATBINARY, 1, i, log), 0);
    assert_true(!IS_MEASURED || (before && peak() <= before + LIMIT + PEAK));
    free(log);
}

int main(void)
{
    make_bomb();
    object = make_object(MANY);
    library = make_library(MANY);
    setenv("FLYT_SOFTGPU_CODE_MEMORY", "64M", 1);
    setenv("FLYT_TENANT_HOST_MEMORY", "134217728", 1);
    server_start(&server, "software", NULL);
    int failed = unit_run(NULL, NULL);
    server_stop(&server, SIGTERM);
    return failed;
}
