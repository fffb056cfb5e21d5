/*
 * native.h: rows that NVIDIA's driver cannot be asked.
 *
 * A call that gets a handle of no object may end the process there, and some calls never return. native.py records
 * what a GPU with NVIDIA's driver answers: with FLYT_CONFORMANCE_NATIVE, the name of a file, a chapter prints
 * "?? CALL: ABOUT" before each row, and leaves out the rows that the file lists, and those whose handles are wrong on
 * purpose. compare.py runs chapters in the same way when it compares them with what was recorded.
 */
#ifndef FLYT_TESTS_CONFORMANCE_NATIVE_H
#define FLYT_TESTS_CONFORMANCE_NATIVE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the program runs on a GPU with NVIDIA's driver, for native.py. */
static inline bool suite_native(void)
{
    static int native = -1;
    if (native < 0)
        native = getenv("FLYT_CONFORMANCE_NATIVE") != NULL;
    return native;
}

/* Whether this row is asked. */
static inline bool row_is_asked(const char *call, const char *about)
{
    static const char *const none[] = { "WRONG(", "0x7F3A5C0", "no_stream", "no_node", "no_array" };
    static char listed[1 << 16];
    char row[1024];
    if (!suite_native())
        return true;
    for (unsigned i = 0; i < sizeof none / sizeof *none; i++)
        if (strstr(call, none[i]) || !strcmp(about, "destroyed"))
            return false;
    FILE *file = listed[0] ? NULL : fopen(getenv("FLYT_CONFORMANCE_NATIVE"), "r");
    if (file) {
        listed[0] = '\n';
        listed[1 + fread(listed + 1, 1, sizeof listed - 2, file)] = 0;
        fclose(file);
    }
    snprintf(row, sizeof row, "\n%s: %s\n", call, about);
    if (strstr(listed, row))
        return false;
    printf("??%.*s\n", (int)strlen(row) - 2, row + 1);
    return true;
}

#endif
