/*
 * trace.h: FLYT_TRACE, which prints every CUDA call of the program as ltrace would.
 *
 *     [4711] cudaMalloc(devPtr=[0x7f2a40000000], size=1024) = cudaSuccess <0.000012345>
 *
 * A front end has a description of each of its functions, made from cpu/api. With tracing on, its entry points go
 * through trace_enter() and trace_leave(); with tracing off they only test a flag of the front end's own, which it sets
 * from trace_enabled() when it is loaded.
 *
 * A call is shown when it begins, as far as its arguments are known then. What it writes through pointers, its result
 * and its time follow when it ends. When another thread has written meanwhile, the line is finished as ltrace does:
 * `<unfinished ...>`, and later `<... name resumed>`. A call that a shown call makes is not shown.
 */
#ifndef FLYT_CLIENT_TRACE_H
#define FLYT_CLIENT_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/client/core/exported_names.h"

#define TRACE_API __attribute__((visibility("default")))

enum trace_kind {
    TRACE_VOID, TRACE_SIGNED, TRACE_UNSIGNED, TRACE_HEX, TRACE_FLOAT,
    TRACE_POINTER,                       /* an address, not followed */
    TRACE_STRING,                        /* const char * */
    TRACE_CHARACTERS,                    /* char: an array of them is text */
    TRACE_ENUM, TRACE_STRUCT,
    TRACE_TUPLE,                         /* a struct whose members need no names: {4, 1, 1} */
    TRACE_UNION,                         /* which member counts is not known here, so none is shown */
    TRACE_STREAM, TRACE_KERNEL, TRACE_SYMBOL
};

struct trace_type;
struct trace_value { const char *name; int64_t number; };
struct trace_member { const char *name; const struct trace_type *type; uint16_t offset, elements; };  /* 1: no array */

struct trace_type {
    enum trace_kind kind;
    uint32_t size;                       /* bytes */
    const struct trace_value *values;    /* of TRACE_ENUM */
    const struct trace_member *members;  /* of TRACE_STRUCT and TRACE_TUPLE */
    uint32_t count;                      /* of values or members */
};

enum trace_use {
    TRACE_PLAIN,                         /* the argument itself */
    TRACE_IN,                            /* what it points to, before the call */
    TRACE_OUT                            /* what it points to, after a call that succeeded */
};

struct trace_parameter {
    const char *name;
    const struct trace_type *type;       /* of the argument; with another use than TRACE_PLAIN, of what it points to */
    enum trace_use use;
    int8_t count;                        /* index of the parameter that says how many elements there are; -1: one */
};

struct trace_function {
    const char *name;
    const struct trace_type *result;
    const struct trace_parameter *parameters;
    uint32_t count;
    bool result_is_error;                /* 0: success */
};

/* What only the front end can say. Each returns NULL for what it does not know. */
struct trace_front {
    const char *(*kernel)(const void *address);         /* mangled names, which must live until the program ends */
    const char *(*symbol)(const void *address);
};

struct trace_call {
    const struct trace_front *front;
    const struct trace_function *function;
    const void *const *arguments;
    uint64_t id, began;
    uint32_t shown;                      /* parameters that are printed already */
    bool hidden;
};

/* Whether FLYT_TRACE asks for it; opens the file at the first call. */
TRACE_API bool trace_enabled(void);

/* arguments: the address of each argument. They and *call must live until trace_leave, which takes the address of the
   result (NULL: void). Neither changes errno. */
TRACE_API void trace_enter(struct trace_call *call, const struct trace_front *, const struct trace_function *,
                           const void *const *arguments);
TRACE_API void trace_leave(struct trace_call *call, const void *result);

/* ---- trace_value.c, for trace.c ---- */

enum { TRACE_LINE = 4096 };              /* of one write; what does not fit is cut off */

struct trace_line { size_t used; char text[TRACE_LINE]; };

void trace_print(struct trace_line *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A value in memory. */
void trace_print_value(struct trace_line *, const struct trace_front *, const struct trace_type *, const void *);
/* `elements` values in memory, in brackets; characters as text. */
void trace_print_array(struct trace_line *, const struct trace_front *, const struct trace_type *, const void *,
                       size_t elements);
/* An unsigned number of up to 8 bytes. */
uint64_t trace_number(const void *, size_t size);

#endif
