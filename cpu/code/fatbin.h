/*
 * fatbin.h: reads NVIDIA's fat binary containers (their format: fatbin.c). Input may be hostile: every size is
 * checked against the bytes at hand, sums cannot overflow, decompression is bounded.
 */
#ifndef FLYT_CODE_FATBIN_H
#define FLYT_CODE_FATBIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FATBIN_WRAPPER_MAGIC   0x466243B1u
#define FATBIN_CONTAINER_MAGIC 0xBA55ED50u

/* As the program holds it in .nvFatBinSegment. */
struct fatbin_wrapper {
    /* 1: plain; 2: linked, and extra is the NULL-terminated array of prelinked containers */
    uint32_t    magic, version;
    const void *container;
    const void *extra;
};

enum fatbin_kind { FATBIN_PTX = 1, FATBIN_CUBIN = 2, FATBIN_LTO = 8 };

/* Of fatbin_entry.flags: for one capability only (sm_90a), or for its family (sm_100f). */
enum { FATBIN_ARCH_SPECIFIC = 0x100000, FATBIN_FAMILY_SPECIFIC = 0x200000 };

struct fatbin_entry {
    unsigned    kind;                 /* enum fatbin_kind, or another number */
    unsigned    version_major, version_minor;
    unsigned    sm;                   /* 75, 121 */
    uint64_t    flags;
    const char *name;                 /* not NUL-terminated; may be NULL */
    size_t      name_size;
    const uint8_t *head;
    size_t      head_size;
    const uint8_t *payload;
    size_t      payload_size;         /* exact stored size */
    size_t      size;                 /* uncompressed */
    unsigned    max_registers;        /* nvcc -maxrregcount, which the PTX does not say; 0: not given */
};

/* Bytes of the container at data (header included), or 0 when it is none or does not fit in `available`
   (SIZE_MAX: the program's own memory, trusted to be whole). */
size_t fatbin_container_size(const void *data, size_t available);

/* Walks the entries. *cursor starts at 0. 1: *entry filled; 0: end; -1: malformed, *why says what. */
int fatbin_next(const void *container, size_t size, size_t *cursor, struct fatbin_entry *entry, const char **why);

/* The entry's bytes, uncompressed (plain, LZ4, zstd), NUL added behind. malloc'ed. NULL: *why says what.
   At most FATBIN_MAX_UNCOMPRESSED bytes. */
enum { FATBIN_MAX_UNCOMPRESSED = 512 * 1024 * 1024 };
uint8_t *fatbin_extract(const struct fatbin_entry *, size_t *size, const char **why);

/* Bytes of an ELF image (end of its last header table or section), 0 when it is none or exceeds available. */
size_t fatbin_elf_size(const void *data, size_t available);

#endif
