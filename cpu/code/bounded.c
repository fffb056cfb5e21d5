/* bounded.c: writes fat binaries whose PTX has a bound of registers; see bounded.h, and fatbin.c for their form. */
#include "cpu/code/bounded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/code/fatbin.h"

enum {
    HEADER = 16,   /* of a container */
    FIXED = 0x40,  /* the head of an entry, without what is behind */
    EXTENSION = 8, /* offset and size of the options */
    OPTIONS_MOST = 40,
    LINUX_64 = 0x11
};

static void put(uint8_t *at, uint64_t value, size_t size) { memcpy(at, &value, size); }

/* Writes the options behind a head of `head` bytes, and returns the bytes that it has then. */
static size_t put_options(uint8_t *entry, size_t head, unsigned registers)
{
    char options[OPTIONS_MOST] = "";
    int length = snprintf(options, sizeof options, " -maxrregcount=%u ", registers);
    size_t whole = (head + EXTENSION + (size_t)length + 1 + 7) & ~(size_t)7;
    memset(entry + head, 0, whole - head);
    put(entry + head, head + EXTENSION, 4);
    put(entry + head + 4, (uint64_t)length, 4);
    memcpy(entry + head + EXTENSION, options, (size_t)length);
    put(entry + 0x04, whole, 4);
    put(entry + 0x14, head, 4);
    return whole;
}

static uint8_t *container_of(size_t room)
{
    uint8_t *out = calloc(1, HEADER + room);
    if (out) {
        put(out, FATBIN_CONTAINER_MAGIC, 4);
        put(out + 4, 1, 2);
        put(out + 6, HEADER, 2);
    }
    return out;
}

static void close_container(uint8_t *out, size_t payload, size_t *size)
{
    put(out + 8, payload, 8);
    *size = HEADER + payload;
}

/* What the text's directives say: the capability, and whether it is for that one only or for its family. */
static unsigned target_of(const char *text, uint64_t *flags)
{
    static const char directive[] = ".target sm_";
    const char *found = strstr(text, directive);
    unsigned sm = 0;
    int length = 0;
    *flags = LINUX_64;
    if (!found || sscanf(found + sizeof directive - 1, "%4u%n", &sm, &length) != 1)
        return 0;
    char kind = found[sizeof directive - 1 + (size_t)length];
    *flags |= kind == 'a' ? FATBIN_ARCH_SPECIFIC : kind == 'f' ? FATBIN_FAMILY_SPECIFIC : 0;
    return sm;
}

uint8_t *code_bounded_text(const char *text, unsigned registers, size_t *size)
{
    size_t length = strlen(text) + 1, padded = (length + 7) & ~(size_t)7;
    unsigned major = 0, minor = 0;
    uint64_t flags;
    const char *version = strstr(text, ".version ");
    uint8_t *out = container_of(FIXED + EXTENSION + OPTIONS_MOST + 8 + padded);
    if (!out)
        return NULL;
    if (version && sscanf(version, ".version %4u.%4u", &major, &minor) != 2)
        major = minor = 0;
    uint8_t *entry = out + HEADER;
    put(entry, FATBIN_PTX, 2);
    put(entry + 0x02, 0x101, 2);
    put(entry + 0x08, padded, 8);
    put(entry + 0x18, minor, 2);
    put(entry + 0x1a, major, 2);
    put(entry + 0x1c, target_of(text, &flags), 4);
    put(entry + 0x28, flags, 8);
    size_t head = put_options(entry, FIXED, registers);
    memcpy(entry + head, text, length);
    close_container(out, head + padded, size);
    return out;
}

uint8_t *code_bounded_container(const void *container, size_t available, unsigned registers, size_t *size)
{
    size_t whole = fatbin_container_size(container, available), cursor = 0, entries = 0, at = 0;
    struct fatbin_entry entry;
    const char *why;
    int more;
    while (whole && fatbin_next(container, whole, &cursor, &entry, &why) > 0)
        entries++;
    cursor = 0;
    uint8_t *out = whole ? container_of(whole + entries * (EXTENSION + OPTIONS_MOST + 8)) : NULL;
    while (out && (more = fatbin_next(container, whole, &cursor, &entry, &why)) != 0) {
        if (more < 0) {
            free(out);
            return NULL;
        }
        size_t bytes = (size_t)((const uint8_t *)container + cursor - entry.head), head = entry.head_size;
        uint8_t *to = out + HEADER + at;
        memcpy(to, entry.head, head);
        if (entry.kind == FATBIN_PTX)
            head = put_options(to, head, registers);
        memcpy(to + head, entry.payload, bytes - entry.head_size);
        at += head + bytes - entry.head_size;
    }
    if (out)
        close_container(out, at, size);
    return out;
}
