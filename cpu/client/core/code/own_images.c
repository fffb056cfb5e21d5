/*
 * own_images.c: the code images in the program's executable, before the program registers them.
 *
 * NVIDIA's static runtime keeps to itself what the program has registered, and hands an image to the driver when its
 * first kernel is launched: too late to ask for it together with the context. nvcc puts what is registered, one wrapper
 * for each image, into a section of its own, and a wrapper's address is the name by which the runtime hands it over.
 */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/code/fatbin.h"
#include "cpu/common/cancel.h"
#include "code_state.h"
#include "own_images.h"
#include "cpu/client/core/wire/perf.h"

static const char section_name[] = ".nvFatBinSegment";
enum { SECTIONS_MOST = 256, NAMES_MOST = 64 << 10, WRAPPERS_MOST = 4 /* as code.c loads ahead */ };

struct file_place { uint64_t address, size; };           /* in the file's addresses */

static bool read_at(int file, void *to, size_t size, uint64_t offset)
{
    return pread(file, to, size, (off_t)offset) == (ssize_t)size;
}

static bool find_among(int file, const Elf64_Ehdr *head, const Elf64_Shdr *sections, struct file_place *out)
{
    const Elf64_Shdr *texts = &sections[head->e_shstrndx];
    char *names = texts->sh_size <= NAMES_MOST ? calloc(1, texts->sh_size + 1) : NULL;
    bool found = false;
    if (names && read_at(file, names, texts->sh_size, texts->sh_offset))
        for (unsigned i = 0; i < head->e_shnum && !found; i++)
            if (sections[i].sh_name < texts->sh_size && strcmp(names + sections[i].sh_name, section_name) == 0) {
                *out = (struct file_place){ sections[i].sh_addr, sections[i].sh_size };
                found = true;
            }
    free(names);
    return found;
}

static bool find_section(struct file_place *out)
{
    Elf64_Ehdr head;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    bool readable = read_at(file, &head, sizeof head, 0) && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
                    head.e_shentsize == sizeof(Elf64_Shdr) && head.e_shnum <= SECTIONS_MOST &&
                    head.e_shstrndx < head.e_shnum;
    Elf64_Shdr *sections = readable ? calloc(head.e_shnum, sizeof *sections) : NULL;
    bool found = sections && read_at(file, sections, head.e_shnum * sizeof *sections, head.e_shoff) &&
                 find_among(file, &head, sections, out);
    free(sections);
    close(file);
    return found;
}

/* The first object is the program. Its segments must hold the section: the file may have been replaced meanwhile. */
static int add_wrappers(struct dl_phdr_info *program, size_t size, void *context)
{
    const struct file_place *place = context;
    uint64_t count = place->size / sizeof(struct fatbin_wrapper);
    bool held = false;
    (void)size;
    for (unsigned i = 0; i < program->dlpi_phnum; i++) {
        const Elf64_Phdr *segment = &program->dlpi_phdr[i];
        uint64_t offset = place->address - segment->p_vaddr;
        held |= segment->p_type == PT_LOAD && place->address >= segment->p_vaddr &&
                place->size <= segment->p_filesz && offset <= segment->p_filesz - place->size;
    }
    const struct fatbin_wrapper *wrapper = (const void *)(uintptr_t)(program->dlpi_addr + place->address);
    for (uint64_t i = 0; held && count <= WRAPPERS_MOST && i < count; i++)
        if (wrapper[i].magic == FATBIN_WRAPPER_MAGIC)
            code_image_found(&wrapper[i]);
    return 1;
}

static void find(void)
{
    struct file_place place;
    if (!core_perf.no_ahead && find_section(&place))
        dl_iterate_phdr(add_wrappers, &place);
}

void core_find_own_images(void)
{
    CANCEL_OFF;                               /* the first call opens and reads a file */
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find);
}
