/*
 * check_ptx.c: `make check-ptx DIR=…`: can the software GPU execute the kernels of these libraries and programs?
 *
 * It takes every file of the folders (ELF files with fat binaries, bare fat binaries, .ptx texts), chooses the PTX that
 * the driver would choose for the device of FLYT_SOFTGPU_CC, and decodes every kernel. It prints a table of files and a
 * table of the instructions that cannot be executed, the most frequent first, in Markdown. Nothing is executed.
 *
 * Exit status: 0 all kernels can be decoded, 1 some cannot, 2 wrong use, 77 no file has any PTX.
 */
#include <elf.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/code/fatbin.h"
#include "softgpu/driver/machine/machine.h"

struct kernel_gap { /* an instruction that cannot be executed, and why */
    char *text;
    uint64_t occurrences, kernels, last_kernel, files, last_file;
};

/* What a file holds. unread: images whose PTX cannot be read. */
enum { MOST_TARGETS = 8 };
struct tally {
    uint64_t images, bare, unread, kernels, decoded;
    unsigned targets[MOST_TARGETS];
};

struct checked_image {
    const uint8_t *at;
    size_t size;
    bool relocatable;
};

static struct kernel_gap *gaps;
static size_t gap_count;
static uint64_t kernel_number, file_number;
static bool kernel_failed;
static const struct sgd_device *device;
static sg_engine *engine;
static char **paths;
static size_t path_count;

static void *grown(void *list, size_t count, size_t each)
{
    if (count & (count - 1)) /* doubles when the count is a power of two */
        return list;
    list = realloc(list, (count ? 2 * count : 1) * each);
    if (!list) {
        fputs("check-ptx: no memory\n", stderr);
        exit(2);
    }
    return list;
}

/* "x: cannot execute 'mma.…': sparse matrices" counts under what follows "cannot execute". */
static void note_gap(const char *log)
{
    const char *what = strstr(log, "cannot execute ");
    what = what ? what + strlen("cannot execute ") : log;
    struct kernel_gap *g = NULL;
    for (size_t i = 0; i < gap_count && !g; i++)
        if (!strcmp(gaps[i].text, what))
            g = &gaps[i];
    if (!g) {
        gaps = grown(gaps, gap_count, sizeof *gaps);
        g = &gaps[gap_count++];
        *g = (struct kernel_gap){ .text = strdup(what) };
    }
    g->occurrences++;
    g->kernels += g->last_kernel != kernel_number;
    g->files += g->last_file != file_number;
    g->last_kernel = kernel_number;
    g->last_file = file_number;
}

static void unknown(void *context, const struct ptx_function *f, const struct ptx_instruction *in, const char *log)
{
    (void)context, (void)f, (void)in;
    kernel_failed = true;
    note_gap(log);
}

static void note_target(struct tally *t, unsigned target)
{
    unsigned i = 0;
    while (i < MOST_TARGETS && t->targets[i] && t->targets[i] != target)
        i++;
    if (i < MOST_TARGETS)
        t->targets[i] = target;
}

/* Reads and links the texts and decodes their kernels. false: they cannot be read, and log says why. */
static bool check_module(const struct sgd_image *image, struct tally *t, char *log, size_t log_size)
{
    struct ptx_module *ptx;
    sg_program *program;
    if (ptx_module_read_later(image->sources, image->count, &ptx, log, log_size))
        return false;
    uint64_t *addresses = calloc(ptx->variable_count + 1u, sizeof *addresses);
    for (uint32_t i = 0; addresses && i < ptx->variable_count; i++)
        addresses[i] = 4096;
    if (!addresses || sg_program_create(engine, ptx, addresses, NULL, &program)) {
        snprintf(log, log_size, "no memory");
        free(addresses);
        ptx_module_free(ptx);
        return false;
    }
    free(addresses);
    sg_program_survey(program, unknown, NULL);
    note_target(t, ptx->target);
    for (uint32_t i = 0; i < ptx->function_count; i++) {
        if (!ptx->functions[i].is_entry || !ptx->functions[i].defined)
            continue;
        sg_kernel *kernel;
        kernel_failed = false;
        kernel_number++;
        t->kernels++;
        if (sg_program_entry(program, i, &kernel, log, log_size)) {
            kernel_failed = true;
            note_gap(log);
        }
        t->decoded += !kernel_failed;
        sg_program_forget(program, i);
    }
    sg_program_destroy(program);
    return true;
}

static void check_image(const struct sgd_image *image, const char *name, struct tally *t)
{
    static char log[SGD_LOG_SIZE];
    t->images++;
    if (check_module(image, t, log, sizeof log))
        return;
    t->unread++;
    fprintf(stderr, "%s: %s\n", name, log);
}

/* Appends the texts of `from`, which it empties. */
static void join(struct sgd_image *to, struct sgd_image *from)
{
    for (size_t i = 0; i < from->count; i++) {
        to->sources = grown(to->sources, to->count, sizeof *to->sources);
        to->texts = grown(to->texts, to->count, sizeof *to->texts);
        to->texts[to->count] = from->texts[i];
        to->sources[to->count] = from->sources[i];
        to->sources[to->count++].name = "relocatable PTX";
    }
    free(from->sources);
    free(from->names);
    free(from->texts);
}

/* Relocatable code is linked: what its functions call lies in other containers of the file. */
static void check_images(const struct checked_image *images, size_t count, const char *name, struct tally *t)
{
    static char log[SGD_LOG_SIZE];
    struct sgd_image whole = { 0 };
    for (size_t i = 0; i < count; i++) {
        struct sgd_image one;
        CUresult r = sgd_image_read(device, images[i].at, &one, log, sizeof log);
        if (r == CUDA_ERROR_NO_BINARY_FOR_GPU) {
            t->bare++;
        } else if (r) {
            t->unread++;
            fprintf(stderr, "%s: %s\n", name, log);
        } else if (images[i].relocatable) {
            join(&whole, &one);
        } else {
            check_image(&one, name, t);
            sgd_image_free(&one);
        }
    }
    if (whole.count)
        check_image(&whole, name, t);
    sgd_image_free(&whole);
}

/* The containers of a section. */
static struct checked_image *containers(struct checked_image *list, size_t *count, const uint8_t *at, size_t size,
                                        bool relocatable)
{
    while (size >= 8) {
        size_t n = fatbin_container_size(at, size);
        if (n) {
            list = grown(list, *count, sizeof *list);
            list[(*count)++] = (struct checked_image){ .at = at, .size = n, .relocatable = relocatable };
        }
        n = n ? (n + 7) & ~(size_t)7 : 8;
        n = n < size ? n : size;
        at += n;
        size -= n;
    }
    return list;
}

static struct checked_image *elf_images(const uint8_t *file, size_t size, size_t *count)
{
    struct checked_image *list = NULL;
    Elf64_Ehdr head;
    if (size < sizeof head)
        return NULL;
    memcpy(&head, file, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shoff > size || head.e_shstrndx >= head.e_shnum ||
        (size - head.e_shoff) / sizeof(Elf64_Shdr) < head.e_shnum)
        return NULL;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(const void *)(file + head.e_shoff);
    const Elf64_Shdr *names = &sections[head.e_shstrndx];
    if (names->sh_offset > size || names->sh_size > size - names->sh_offset)
        return NULL;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        const Elf64_Shdr *s = &sections[i];
        if (s->sh_name >= names->sh_size || s->sh_type == SHT_NOBITS || s->sh_offset > size ||
            s->sh_size > size - s->sh_offset)
            continue;
        const char *name = (const char *)file + names->sh_offset + s->sh_name;
        size_t most = names->sh_size - s->sh_name;
        bool relocatable = !strncmp(name, "__nv_relfatbin", most);
        if (relocatable || !strncmp(name, ".nv_fatbin", most))
            list = containers(list, count, file + s->sh_offset, s->sh_size, relocatable);
    }
    return list;
}

static bool check_file(const char *path, struct tally *t)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || st.st_size < 16) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    size_t size = (size_t)st.st_size, length = strlen(path), count = 0;
    uint8_t *file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED)
        return false;
    struct checked_image *list = NULL;
    if (length > 4 && !strcmp(path + length - 4, ".ptx")) {
        struct ptx_source source = { .text = (const char *)file, .size = size, .name = path };
        struct sgd_image image = { .sources = &source, .count = 1 };
        check_image(&image, path, t);
    } else if (fatbin_container_size(file, size))
        list = containers(list, &count, file, size, false);
    else
        list = elf_images(file, size, &count);
    check_images(list, count, path, t);
    free(list);
    munmap(file, size);
    return t->images || t->bare || t->unread;
}

static int visit(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)where, (void)st;
    if (kind == FTW_F) { /* no links: libx.so -> libx.so.1 would be counted twice */
        paths = grown(paths, path_count, sizeof *paths);
        paths[path_count++] = strdup(path);
    }
    return 0;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static int by_kernels(const void *a, const void *b)
{
    const struct kernel_gap *x = a, *y = b;
    return x->kernels != y->kernels ? (x->kernels < y->kernels) - (x->kernels > y->kernels) : strcmp(x->text, y->text);
}

static void print_row(const char *name, const struct tally *t)
{
    printf("| %s | %llu | %llu |", name, (unsigned long long)t->images, (unsigned long long)t->bare);
    for (unsigned i = 0; i < MOST_TARGETS && t->targets[i]; i++)
        printf(" %u", t->targets[i]);
    printf(" | %llu | %llu | ", (unsigned long long)t->kernels, (unsigned long long)t->decoded);
    if (t->unread)
        printf("%llu images unreadable |\n", (unsigned long long)t->unread);
    else if (t->kernels)
        printf("%.1f %% |\n", 100.0 * (double)t->decoded / (double)t->kernels);
    else
        puts("- |");
    fflush(stdout);
}

static void print_gaps(void)
{
    if (!gap_count)
        return;
    qsort(gaps, gap_count, sizeof *gaps, by_kernels);
    puts("\n| what cannot be executed | kernels | occurrences | files |\n|---|---:|---:|---:|");
    for (size_t i = 0; i < gap_count; i++) {
        printf("| %s | %llu | %llu | %llu |\n", gaps[i].text, (unsigned long long)gaps[i].kernels,
               (unsigned long long)gaps[i].occurrences, (unsigned long long)gaps[i].files);
        free(gaps[i].text);
    }
    free(gaps);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: check-ptx FILE-OR-FOLDER…\n", stderr);
        return 2;
    }
    sgd_config_read();
    sgd_devices_start();
    device = sgd_device(0);
    if (!device || sg_engine_create(&device->limits, 0, 1, 0, &engine)) {
        fputs("check-ptx: no software GPU (FLYT_SOFTGPU_DEVICES=0?)\n", stderr);
        return 2;
    }
    for (int i = 1; i < argc; i++)
        if (nftw(argv[i], visit, 16, FTW_PHYS)) {
            perror(argv[i]);
            return 2;
        }
    if (path_count)
        qsort(paths, path_count, sizeof *paths, by_name);
    printf("PTX chosen for compute capability %u.%u\n\n", device->limits.cc_major, device->limits.cc_minor);
    puts("| file | images with PTX | without | sm | kernels | decoded | part |\n|---|---:|---:|---|---:|---:|---:|");
    struct tally all = { 0 };
    for (size_t i = 0; i < path_count; i++) {
        struct tally t = { 0 };
        const char *name = strrchr(paths[i], '/');
        file_number++;
        if (check_file(paths[i], &t))
            print_row(name ? name + 1 : paths[i], &t);
        all.images += t.images, all.bare += t.bare, all.unread += t.unread;
        all.kernels += t.kernels, all.decoded += t.decoded;
        free(paths[i]);
    }
    free(paths);
    print_row("all", &all);
    print_gaps();
    sg_engine_destroy(engine);
    return all.unread || all.decoded < all.kernels ? 1 : all.kernels ? 0 : 77;
}
