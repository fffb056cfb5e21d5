/*
 * abi.c FILE: compares our layouts with those that the file says NVIDIA's header has (abi_layout.c made it).
 */
#include "cpu/client/runtime/abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row { const char *theirs; size_t offset, size; } rows[] = {
#define ROW(theirs, member, ours, our_member) {#theirs "." #member, offsetof(ours, our_member), sizeof ((ours *)0)->our_member},
#include "tests/runtime/abi_rows.h"
};

int main(int count, char **arguments) {
    char line[256], name[160];
    unsigned long offset, size;
    size_t rows_seen = 0;
    int failures = 0;
    FILE *file = count == 2 ? fopen(arguments[1], "r") : NULL;
    if (!file) {
        fprintf(stderr, "usage: %s LAYOUT (made by abi_layout)\n", arguments[0]);
        return 2;
    }
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%159[^.].%*s", name) != 1)
            continue;
        char *numbers = strrchr(line, ' ');
        *numbers = '\0';
        char *first = strrchr(line, ' ');
        *first = '\0';
        offset = strtoul(first + 1, NULL, 10);
        size = strtoul(numbers + 1, NULL, 10);
        size_t i = 0;
        while (i < sizeof rows / sizeof rows[0] && strcmp(rows[i].theirs, line) != 0)
            i++;
        rows_seen++;
        if (i == sizeof rows / sizeof rows[0] || rows[i].offset != offset || rows[i].size != size) {
            fprintf(stderr, "%s: theirs at %lu, %lu bytes; ours %s at %zu, %zu bytes\n", line, offset, size,
                    i == sizeof rows / sizeof rows[0] ? "missing" : "is", i < sizeof rows / sizeof rows[0] ? rows[i].offset : 0,
                    i < sizeof rows / sizeof rows[0] ? rows[i].size : 0);
            failures++;
        }
    }
    fclose(file);
    if (rows_seen != sizeof rows / sizeof rows[0]) {
        fprintf(stderr, "%s has %zu members, abi_rows.h %zu\n", arguments[1], rows_seen, sizeof rows / sizeof rows[0]);
        failures++;
    }
    return failures != 0;
}
