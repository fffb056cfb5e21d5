/*
 * builtin.c: functions that the device provides: vprintf, malloc, free, __assertfail, cudaGraphSetConditional,
 * cudaGraphLaunch, and
 * those of device_runtime.c.
 *
 * They run for each active lane in order of lanes, in the caller's frame. Formats follow the CUDA C++ Programming
 * Guide, "Formatted Output": flags, width, precision and size as in C, %s reads device memory, no %n.
 */
#include "softgpu/exec/access.h"
#include "softgpu/exec/call.h"

#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "softgpu/memory.h"

enum { TEXT_MAX = 4096, FORMAT_MAX = 1024, SPEC_MAX = 48, WIDTH_MAX = 9999 };

/* Copies a string of the device. false: it runs into memory that is not mapped. */
static bool device_string(struct exec_warp *w, unsigned lane, uint64_t address, char *to, size_t size)
{
    size_t n = 0;
    for (; n + 1 < size; n++) {
        const void *p = exec_address_lane(w, lane, address + n, 1, SG_READ);
        if (!p)
            return false;
        to[n] = (char)exec_load8(p);
        if (!to[n])
            return true;
    }
    to[n] = 0;
    return true;
}

struct print_text {
    char bytes[TEXT_MAX];
    size_t used;
};
static void text_add(struct print_text *t, const char *from, size_t n)
{
    size_t room = sizeof t->bytes - t->used;
    n = n < room ? n : room;
    memcpy(t->bytes + t->used, from, n);
    t->used += n;
}

struct arguments { struct exec_warp *w; unsigned lane; uint64_t at; bool bad; };
static uint64_t argument(struct arguments *a, unsigned size)
{
    a->at = (a->at + size - 1) / size * size;
    uint64_t v = 0;
    const void *p = exec_address_lane(a->w, a->lane, a->at, size, SG_READ);
    if (p)
        exec_copy_bytes(&v, p, size);
    else
        a->bad = true;
    a->at += size;
    return v;
}

static void text_double(struct print_text *t, const char *spec, uint64_t bits)
{
    union { uint64_t u; double f; } v = { .u = bits };
    char out[512];
    int n = snprintf(out, sizeof out, spec, v.f);
    text_add(t, out, n < 0 ? 0 : (size_t)n < sizeof out ? (size_t)n : sizeof out - 1);
}

/* Widths and precisions beyond what a text may hold are cut: the C library would take memory for all of them. */
static void limit_widths(char *spec)
{
    for (char *c = spec; *c;) {
        char *from = c;
        while (*c >= '0' && *c <= '9')
            c++;
        if (c - from > 4) {
            snprintf(from, 5, "%d", WIDTH_MAX);
            memmove(from + 4, c, strlen(c) + 1);
            c = from + 4;
        }
        c += *c && c == from;
    }
}

/* One %…: spec ends at its conversion letter. Returns the arguments used. */
static int convert(struct print_text *t, struct arguments *a, char *spec, size_t length)
{
    char out[TEXT_MAX / 2], how = spec[length - 1];
    int used = 1, n = 0;
    bool wide = strchr(spec, 'l') || strchr(spec, 'j') || strchr(spec, 'z') || strchr(spec, 't');
    bool half = strchr(spec, 'h') != NULL, tiny = strstr(spec, "hh") != NULL;
    char plain[SPEC_MAX], *to = plain;
    for (size_t k = 0; k < length - 1; k++)
        if (!strchr("hljztL", spec[k]))
            *to++ = spec[k];
    char *star;
    char numbered[SPEC_MAX + 32];
    *to = 0;
    while ((star = strchr(plain, '*')) != NULL) {                /* width or precision from the arguments */
        int value = (int)(uint32_t)argument(a, 4);
        used++;
        *star = 0;
        value = value > 1024 ? 1024 : value < -1024 ? -1024 : value;
        int length_new = snprintf(numbered, sizeof numbered, "%s%d%s", plain, value, star + 1);
        if (length_new < 0 || (size_t)length_new + 4 > sizeof plain)
            return used;
        memcpy(plain, numbered, (size_t)length_new + 1);
    }
    limit_widths(plain);
    to = plain + strlen(plain);
    switch (how) {
    case 'd': case 'i': case 'u': case 'x': case 'X': case 'o': {
        uint64_t v = argument(a, wide ? 8 : 4);
        bool is_signed = how == 'd' || how == 'i';
        if (!wide)
            v = is_signed ? tiny   ? (uint64_t)(int64_t)(int8_t)v
                            : half ? (uint64_t)(int64_t)(int16_t)v
                                   : (uint64_t)(int64_t)(int32_t)v
                : tiny    ? (uint8_t)v
                : half    ? (uint16_t)v
                          : (uint32_t)v;
        snprintf(to, 4, "ll%c", how);
        n = snprintf(out, sizeof out, plain, (unsigned long long)v);
        break;
    }
    case 'c':
        snprintf(to, 2, "c");
        n = snprintf(out, sizeof out, plain, (int)(unsigned char)argument(a, 4));
        break;
    case 'p':
        snprintf(to, 2, "p");
        n = snprintf(out, sizeof out, plain, (void *)(uintptr_t)argument(a, 8));
        break;
    case 's': {
        char string[FORMAT_MAX];
        uint64_t p = argument(a, 8);
        if (!p)
            snprintf(string, sizeof string, "(null)");
        else if (!device_string(a->w, a->lane, p, string, sizeof string)) {
            a->bad = true;
            return used;
        }
        snprintf(to, 2, "s");
        n = snprintf(out, sizeof out, plain, string);
        break;
    }
    case 'f': case 'F': case 'e': case 'E': case 'g': case 'G': case 'a': case 'A':
        snprintf(to, 2, "%c", how);
        text_double(t, plain, argument(a, 8));
        return used;
    default:
        text_add(t, spec, length);    /* as it stands */
        return 0;
    }
    text_add(t, out, n < 0 ? 0 : (size_t)n < sizeof out ? (size_t)n : sizeof out - 1);
    return used;
}

/* Returns the number of arguments, or -1 when an address of them is bad. */
static int format_text(struct print_text *t, struct arguments *a, const char *format)
{
    int count = 0;
    for (const char *f = format; *f; ) {
        const char *percent = strchr(f, '%');
        text_add(t, f, percent ? (size_t)(percent - f) : strlen(f));
        if (!percent)
            break;
        if (percent[1] == '%') {
            text_add(t, "%", 1);
            f = percent + 2;
            continue;
        }
        size_t length = 1 + strspn(percent + 1, "-+ #0123456789.*hljztL");
        if (!percent[length] || length + 2 > SPEC_MAX / 2) {
            text_add(t, percent, length);
            f = percent + length;
            continue;
        }
        char spec[SPEC_MAX];
        memcpy(spec, percent, length + 1);
        spec[length + 1] = 0;
        count += convert(t, a, spec, length + 1);
        f = percent + length + 1;
    }
    return a->bad ? -1 : count;
}

static void run_vprintf(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_call *c = i->extra;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        char format[FORMAT_MAX];
        struct print_text t;
        t.used = 0;
        struct arguments a = { w, lane, exec_call_argument(w, c, 1, lane), false };
        uint64_t at = exec_call_argument(w, c, 0, lane);
        int n = device_string(w, lane, at, format, sizeof format) ? format_text(&t, &a, format) : -1;
        if (n < 0) {
            exec_fault_address(w, i, CUDA_ERROR_ILLEGAL_ADDRESS, "printf with an address that is not mapped", lane, at);
            return;
        }
        exec_print_add(w->block->grid->launch.print, t.bytes, t.used);
        exec_call_result(w, c, 0, lane, (uint64_t)n);
    }
}

static void run_malloc(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_call *c = i->extra;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        exec_call_result(w, c, 0, lane, exec_heap_take(w->block->grid->launch.heap, exec_call_argument(w, c, 0, lane)));
    }
}

static void run_free(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_call *c = i->extra;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        uint64_t p = exec_call_argument(w, c, 0, lane);
        if (p && !exec_heap_give(w->block->grid->launch.heap, p)) {
            exec_fault_address(w, i, CUDA_ERROR_LAUNCH_FAILED, "free() of an address that malloc() did not give", lane,
                               p);
            return;
        }
    }
}

/* __assertfail(message, file, line, function, charsize) */
static void run_assertfail(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_call *c = i->extra;
    const uint32_t *at = w->block->ctaid;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        char message[512] = "?", file[512] = "?", function[512] = "?";
        device_string(w, lane, exec_call_argument(w, c, 0, lane), message, sizeof message);
        device_string(w, lane, exec_call_argument(w, c, 1, lane), file, sizeof file);
        device_string(w, lane, exec_call_argument(w, c, 3, lane), function, sizeof function);
        fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file,
                (unsigned)exec_call_argument(w, c, 2, lane), function, at[0], at[1], at[2],
                w->special[EXEC_ROW_TID][lane], w->special[EXEC_ROW_TID + 1][lane], w->special[EXEC_ROW_TID + 2][lane],
                message);
    }
    exec_fault(w, i, CUDA_ERROR_ASSERT, "assertion");
}

/* cudaGraphSetConditional(handle, value). A handle is the address of a word; whoever runs the graph reads it when the
   kernel has ended. */
static void run_set_conditional(struct exec_warp *w, const struct exec_insn *i)
{
    const struct exec_call *c = i->extra;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        uint64_t handle = exec_call_argument(w, c, 0, lane);
        void *word = handle % 4 ? NULL : exec_address_lane(w, lane, handle, 4, SG_WRITE);
        if (!word) {
            exec_fault_address(w, i, CUDA_ERROR_ILLEGAL_ADDRESS, "cudaGraphSetConditional() of an invalid handle",
                               lane, handle);
            return;
        }
        exec_store32(word, (uint32_t)exec_call_argument(w, c, 1, lane));
    }
}

/* cudaGraphLaunch(graph, stream): whoever runs the graph of this kernel starts the other one, or says why not. */
static void run_graph_launch(struct exec_warp *w, const struct exec_insn *i)
{
    enum { INVALID_VALUE = 1 };
    const struct exec_call *c = i->extra;
    const struct sg_launch *l = &w->block->grid->launch;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        int result = INVALID_VALUE;
        if (l->graph.executable && l->launch_graph)
            result = l->launch_graph(l->graph.owner, l->graph.executable, exec_call_argument(w, c, 0, lane),
                                     exec_call_argument(w, c, 1, lane));
        exec_call_result(w, c, 0, lane, (uint32_t)result);
    }
}

exec_handler *exec_builtin_find(const char *name)
{
    static const struct { const char *name; exec_handler *run; } table[] = {
        { "vprintf", run_vprintf }, { "malloc", run_malloc }, { "free", run_free }, { "__assertfail", run_assertfail },
        { "cudaGraphSetConditional", run_set_conditional }, { "cudaGraphLaunch", run_graph_launch },
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (!strcmp(table[k].name, name))
            return table[k].run;
    return exec_runtime_find(name);
}
