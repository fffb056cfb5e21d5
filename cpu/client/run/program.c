/*
 * program.c: see program.h. An ELF file's parts are few and are read here with pread: flyt-run is to run where
 * nothing but the C library is installed. Follows: elf(5), and the System V ABI, chapter "Program Loading and
 * Dynamic Linking".
 */
#include "cpu/client/run/program.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { MAX_SEGMENTS = 256, MAX_ENTRIES = 4096 };

struct program_image {
    int fd;
    Elf64_Phdr segments[MAX_SEGMENTS];
    int segment_count;
    Elf64_Dyn entries[MAX_ENTRIES];
    int entry_count;
};

static bool is_program(const char *path)
{
    struct stat is;
    return stat(path, &is) == 0 && S_ISREG(is.st_mode) && access(path, X_OK) == 0;
}

static void find(const char *name, char path[PATH_MAX])
{
    path[0] = 0;
    if (strchr(name, '/')) {
        if (is_program(name))
            snprintf(path, PATH_MAX, "%s", name);
        return;
    }
    const char *folders = getenv("PATH");
    for (const char *at = folders ? folders : "/bin:/usr/bin"; at; at = *at ? at + 1 : NULL) {
        size_t length = strcspn(at, ":");
        int size = snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, at, length ? "/" : "", name);
        if (size > 0 && size < PATH_MAX && is_program(path))
            return;
        at += length;
    }
    path[0] = 0;
}

/* The system gives a program more rights than its caller has: the loader then takes no path from the caller. */
static bool is_privileged(const char *path, int fd)
{
    struct stat is;
    struct statvfs where;
    if (fstat(fd, &is) != 0 || (fstatvfs(fd, &where) == 0 && (where.f_flag & ST_NOSUID)) ||
        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return false;
    bool other_user = (is.st_mode & S_ISUID) && is.st_uid != getuid();
    bool other_group = (is.st_mode & S_ISGID) && (is.st_mode & S_IXGRP) && is.st_gid != getgid();
    bool capable = geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
    return other_user || other_group || capable;
}

/* Reads a string that ends with a zero byte; "" if it is not whole. */
static void read_string(int fd, uint64_t offset, char *text, size_t size)
{
    ssize_t got = offset < INT64_MAX ? pread(fd, text, size - 1, (off_t)offset) : -1;
    text[got > 0 ? got : 0] = 0;
    if (strlen(text) == size - 1)
        text[0] = 0;
}

static bool read_image(struct program_image *image, const Elf64_Ehdr *head)
{
    if (head->e_phentsize != sizeof(Elf64_Phdr) || head->e_phnum > MAX_SEGMENTS)
        return false;
    size_t size = head->e_phnum * sizeof(Elf64_Phdr);
    if (pread(image->fd, image->segments, size, (off_t)head->e_phoff) != (ssize_t)size)
        return false;
    image->segment_count = head->e_phnum;
    for (int i = 0; i < image->segment_count; i++) {
        const Elf64_Phdr *segment = &image->segments[i];
        if (segment->p_type != PT_DYNAMIC)
            continue;
        size = segment->p_filesz < sizeof image->entries ? segment->p_filesz : sizeof image->entries;
        ssize_t got = pread(image->fd, image->entries, size, (off_t)segment->p_offset);
        image->entry_count = got > 0 ? (int)((size_t)got / sizeof(Elf64_Dyn)) : 0;
    }
    return true;
}

/* Where in the file lies what the program will have at this address? 0: nowhere. */
static uint64_t file_offset(const struct program_image *image, uint64_t address)
{
    for (int i = 0; i < image->segment_count; i++) {
        const Elf64_Phdr *segment = &image->segments[i];
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr && address - segment->p_vaddr < segment->p_filesz)
            return segment->p_offset + (address - segment->p_vaddr);
    }
    return 0;
}

static const Elf64_Dyn *entry(const struct program_image *image, Elf64_Sxword tag)
{
    for (int i = 0; i < image->entry_count && image->entries[i].d_tag != DT_NULL; i++)
        if (image->entries[i].d_tag == tag)
            return &image->entries[i];
    return NULL;
}

/* Does the program use, or have itself, a dynamic symbol of this name? Its strings are searched: no name of a sanitizer
   is the end of another symbol's. */
static bool names_symbol(const struct program_image *image, uint64_t strings, const char *name)
{
    static char part[1 << 16];
    const size_t length = strlen(name) + 1; /* with the zero byte */
    const Elf64_Dyn *size = entry(image, DT_STRSZ);
    uint64_t left = size ? size->d_un.d_val : 0;
    while (left >= length && strings < INT64_MAX) {
        ssize_t got = pread(image->fd, part, left < sizeof part ? left : sizeof part, (off_t)strings);
        if (got < (ssize_t)length)
            return false;
        if (memmem(part, (size_t)got, name, length))
            return true;
        uint64_t passed = (uint64_t)got - length + 1; /* it may begin in this part and end in the next */
        strings += passed;
        left -= passed;
    }
    return false;
}

static void read_elf(const struct program_image *image, struct run_program *program)
{
    for (int i = 0; i < image->segment_count; i++)
        if (image->segments[i].p_type == PT_INTERP)
            read_string(image->fd, image->segments[i].p_offset, program->interpreter, sizeof program->interpreter);
    /* A loader that is started as a program has no interpreter either, but a name as a library. */
    program->no_loader = !*program->interpreter && !entry(image, DT_SONAME);
    program->rpath = entry(image, DT_RPATH) && !entry(image, DT_RUNPATH);
    const Elf64_Dyn *table = entry(image, DT_STRTAB);
    uint64_t strings = table ? file_offset(image, table->d_un.d_ptr) : 0;
    for (int i = 0; strings && i < image->entry_count && image->entries[i].d_tag != DT_NULL; i++) {
        char needed[sizeof program->runtime];
        if (image->entries[i].d_tag != DT_NEEDED)
            continue;
        read_string(image->fd, strings + image->entries[i].d_un.d_val, needed, sizeof needed);
        if (strncmp(needed, "libcudart.so.", 13) == 0)
            memcpy(program->runtime, needed, sizeof needed);
        program->nccl |= strncmp(needed, "libnccl.so.", 11) == 0;
        static const char *const compilers[] = { "libnvrtc.so.", "libnvJitLink.so.", "libnvvm.so." };
        for (size_t k = 0; k < sizeof compilers / sizeof compilers[0]; k++)
            program->compiles |= strncmp(needed, compilers[k], strlen(compilers[k])) == 0;
    }
    /* gcc links a sanitizer's library, clang puts it into the program: either way the program has this symbol. */
    program->asan = strings && names_symbol(image, strings, "__asan_init");
    program->tsan = strings && names_symbol(image, strings, "__tsan_init");
}

/* "#! interpreter argument" */
static void read_script(int fd, struct run_program *program)
{
    char line[PATH_MAX];
    ssize_t got = pread(fd, line, sizeof line - 1, 2);
    line[got > 0 ? got : 0] = 0;
    const char *start = line + strspn(line, " \t");
    snprintf(program->interpreter, sizeof program->interpreter, "%.*s", (int)strcspn(start, " \t\n"), start);
    line[strcspn(line, "\n")] = 0;
    program->compiles = program->nccl = strstr(line, "python") != NULL; /* "#!/usr/bin/env python3" */
}

void program_read(const char *name, struct run_program *program)
{
    static struct program_image image;
    Elf64_Ehdr head;
    memset(program, 0, sizeof *program);
    find(name, program->path);
    image = (struct program_image){ .fd = *program->path ? open(program->path, O_RDONLY | O_CLOEXEC) : -1 };
    if (image.fd < 0)
        return;
    ssize_t got = pread(image.fd, &head, sizeof head, 0);
    if (got >= 2 && memcmp(&head, "#!", 2) == 0) {
        read_script(image.fd, program);
    } else if (got == sizeof head && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0) {
        program->privileged = is_privileged(program->path, image.fd);
        program->foreign =
            head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_machine != EM_X86_64;
        if (!program->foreign && read_image(&image, &head))
            read_elf(&image, program);
    }
    const char *slash = strrchr(program->path, '/');
    if (strncmp(slash ? slash + 1 : program->path, "python", 6) == 0)
        program->compiles = program->nccl = true;
    close(image.fd);
}
