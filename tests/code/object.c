/* shows: Objects and libraries for the linker: their fat binaries are found; damaged ones are refused, and no byte
 *   outside is read */
/* object.c OBJECT LIBRARY: cpu/code/object.h, on files made by nvcc and ar, whole, cut short and changed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/code/fatbin.h"
#include "cpu/code/object.h"

static unsigned failed, number;

static void check(int good, const char *what)
{
    failed += !good;
    printf("%sok %u - %s\n", good ? "" : "not ", ++number, what);
}

struct seen {
    unsigned containers;
};

static bool see(void *context, const void *container, size_t size)
{
    struct seen *seen = context;
    size_t cursor = 0;
    struct fatbin_entry entry;
    const char *why;
    while (fatbin_next(container, size, &cursor, &entry, &why) > 0)
        ;
    seen->containers++;
    return true;
}

/* The containers in the file, whatever it is; -1: it was refused. */
static int containers(const uint8_t *bytes, size_t size)
{
    struct seen seen = { 0 };
    struct archive_member member;
    size_t cursor = 0;
    int more;
    if (!archive_is(bytes, size))
        return object_containers(bytes, size, see, &seen) ? -1 : (int)seen.containers;
    while ((more = archive_next(bytes, size, &cursor, &member)) > 0)
        object_containers(member.data, member.size, see, &seen);
    return more < 0 ? -1 : (int)seen.containers;
}

/* In memory of exactly that size, so that the sanitizer sees a byte read outside. */
static int copy_containers(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return -2;
    memcpy(copy, bytes, size);
    int found = containers(copy, size);
    free(copy);
    return found;
}

static void try_file(const char *path)
{
    enum { MOST = 1 << 20, CHANGES = 20000 };
    static uint8_t bytes[MOST];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(bytes, 1, MOST, file) : 0;
    if (file)
        fclose(file);
    check(size && containers(bytes, size) == 1, path);
    int worst = 1;
    for (size_t cut = 0; cut < size; cut += 1 + cut / 200) {
        int found = copy_containers(bytes, cut);
        worst = found > worst ? found : worst;
    }
    check(worst == 1, "cut short");
    uint32_t random = 12345;
    int answered = 0;
    for (int i = 0; i < CHANGES && size; i++) {
        random = random * 1664525 + 1013904223;
        /* headers more often than the rest */
        size_t at = random >> 30 ? (random >> 8) % (size < 4096 ? size : 4096)
                                 : size - 1 - (random >> 8) % (size < 4096 ? size : 4096);
        uint8_t was = bytes[at];
        bytes[at] = (uint8_t)(random >> 16);
        answered += copy_containers(bytes, size) >= -1;
        bytes[at] = was;
    }
    check(answered == CHANGES, "one byte changed");
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        try_file(argv[i]);
    check(copy_containers((const uint8_t *)"!<arch>\n", 8) == 0, "an empty archive");
    check(copy_containers((const uint8_t *)"", 0) == -1, "nothing");
    printf("1..%u\n", number);
    return failed != 0;
}
