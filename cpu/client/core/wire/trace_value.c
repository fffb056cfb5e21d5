/* trace_value.c: values as FLYT_TRACE prints them. See trace.h. */
#include "cpu/client/core/wire/trace.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_LIMIT = 64, ARRAY_LIMIT = 8, MEMBER_LIMIT = 12 };     /* what follows is "..." */

void trace_print(struct trace_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line->text + line->used, sizeof line->text - line->used, format, arguments);
    va_end(arguments);
    size_t room = sizeof line->text - line->used - 1;
    line->used += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room;
}

uint64_t trace_number(const void *memory, size_t size)
{
    uint64_t number = 0;                 /* x86-64: the low bytes come first */
    memcpy(&number, memory, size < sizeof number ? size : sizeof number);
    return number;
}

static int64_t signed_number(const void *memory, size_t size)
{
    uint64_t number = trace_number(memory, size);
    if (size >= sizeof number)
        return (int64_t)number;
    uint64_t sign = UINT64_C(1) << (8 * size - 1);
    return (int64_t)((number ^ sign) - sign);
}

/* Quoted, at most TEXT_LIMIT characters of it; it ends at a NUL or after `size`. */
static void print_text(struct trace_line *line, const char *text, size_t size)
{
    trace_print(line, "\"");
    size_t i = 0;
    for (; i < size && i < TEXT_LIMIT && text[i]; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            trace_print(line, "\\%c", c);
        else if (c == '\n')
            trace_print(line, "\\n");
        else if (c == '\t')
            trace_print(line, "\\t");
        else if (isprint(c))
            trace_print(line, "%c", c);
        else
            trace_print(line, "\\x%02x", c);
    }
    trace_print(line, i < size && i == TEXT_LIMIT && text[i] ? "\"..." : "\"");
}

static void print_enum(struct trace_line *line, const struct trace_type *type, const void *memory)
{
    int64_t number = signed_number(memory, type->size);
    for (uint32_t i = 0; i < type->count; i++)
        if (type->values[i].number == number) {
            trace_print(line, "%s", type->values[i].name);
            return;
        }
    trace_print(line, "%lld", (long long)number);
}

/* The program has the C++ library in nearly every case; the names are printed as they are where it has not. */
static void print_name(struct trace_line *line, const char *name)
{
    typedef char *demangle_function(const char *, char *, size_t *, int *);
    static _Atomic(demangle_function *) known;
    demangle_function *demangle = known;
    if (!demangle) {
        void *found = dlsym(RTLD_DEFAULT, "__cxa_demangle");
        memcpy(&demangle, &found, sizeof demangle);
        known = demangle;
    }
    int status = -1;
    char *plain = demangle ? demangle(name, NULL, NULL, &status) : NULL;
    trace_print(line, "%s", plain && status == 0 ? plain : name);
    free(plain);
}

static void print_pointer(struct trace_line *line, uint64_t address)
{
    if (address)
        trace_print(line, "%#llx", (unsigned long long)address);
    else
        trace_print(line, "NULL");
}

static void print_named(struct trace_line *line, const char *(*name_of)(const void *), const void *memory)
{
    uint64_t address = trace_number(memory, sizeof(void *));
    const char *name = name_of ? name_of((const void *)(uintptr_t)address) : NULL;
    if (name)
        print_name(line, name);
    else
        print_pointer(line, address);
}

static void print_stream(struct trace_line *line, uint64_t stream)
{
    static const char *const names[] = { "0", "cudaStreamLegacy", "cudaStreamPerThread" };
    if (stream < sizeof names / sizeof names[0])
        trace_print(line, "%s", names[stream]);
    else
        print_pointer(line, stream);
}

static void print_members(struct trace_line *line, const struct trace_front *front, const struct trace_type *type,
                          const char *memory)
{
    trace_print(line, "{");
    for (uint32_t i = 0; i < type->count; i++) {
        const struct trace_member *member = &type->members[i];
        if (i)
            trace_print(line, ", ");
        if (i == MEMBER_LIMIT) {
            trace_print(line, "...");
            break;
        }
        if (type->kind == TRACE_STRUCT && *member->name)
            trace_print(line, "%s=", member->name);
        if (member->elements == 1)
            trace_print_value(line, front, member->type, memory + member->offset);
        else
            trace_print_array(line, front, member->type, memory + member->offset, member->elements);
    }
    trace_print(line, "}");
}

void trace_print_value(struct trace_line *line, const struct trace_front *front, const struct trace_type *type,
                       const void *memory)
{
    uint64_t number = trace_number(memory, type->size);
    float single;
    double wide;
    switch (type->kind) {
    case TRACE_VOID:
        break;
    case TRACE_SIGNED:
        trace_print(line, "%lld", (long long)signed_number(memory, type->size));
        break;
    case TRACE_UNSIGNED:
    case TRACE_CHARACTERS:
        trace_print(line, "%llu", (unsigned long long)number);
        break;
    case TRACE_HEX:
        trace_print(line, number ? "%#llx" : "%llu", (unsigned long long)number);
        break;
    case TRACE_FLOAT:
        memcpy(&single, memory, sizeof single);
        if (type->size == sizeof wide)
            memcpy(&wide, memory, sizeof wide);
        else
            wide = (double)single;
        trace_print(line, "%g", wide);
        break;
    case TRACE_POINTER:
        print_pointer(line, number);
        break;
    case TRACE_STRING:
        if (number)
            print_text(line, (const char *)(uintptr_t)number, SIZE_MAX);
        else
            trace_print(line, "NULL");
        break;
    case TRACE_ENUM:
        print_enum(line, type, memory);
        break;
    case TRACE_STRUCT:
    case TRACE_TUPLE:
        print_members(line, front, type, memory);
        break;
    case TRACE_UNION:
        trace_print(line, "...");
        break;
    case TRACE_STREAM:
        print_stream(line, number);
        break;
    case TRACE_KERNEL:
        print_named(line, front->kernel, memory);
        break;
    case TRACE_SYMBOL:
        print_named(line, front->symbol, memory);
        break;
    }
}

void trace_print_array(struct trace_line *line, const struct trace_front *front, const struct trace_type *type,
                       const void *memory, size_t elements)
{
    if (type->kind == TRACE_CHARACTERS) {
        print_text(line, memory, elements);
        return;
    }
    trace_print(line, "[");
    for (size_t i = 0; i < elements && i < ARRAY_LIMIT; i++) {
        trace_print(line, i ? ", " : "");
        trace_print_value(line, front, type, (const char *)memory + i * type->size);
    }
    trace_print(line, elements > ARRAY_LIMIT ? ", ...]" : "]");
}
