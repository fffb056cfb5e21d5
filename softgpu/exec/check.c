/*
 * check.c: judges accesses and reports what is wrong, in the words of NVIDIA's compute-sanitizer.
 *
 * Races on shared memory: each warp has a clock and knows how far it has seen the clocks of the others; barriers,
 * fences, atomics and mbarrier objects pass that knowledge on. An access races with another warp's earlier one whose
 * clock it has not seen. Lanes of one warp are not compared with each other. What passes knowledge other than a barrier
 * passes all of it through one place, so that some races stay unseen; none is reported that is none.
 */
#include "softgpu/exec/check.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/check.h"
#include "softgpu/exec/shadow.h"
#include "softgpu/memory.h"

enum { MOST_REPORTS = 100, PLACES = EXEC_BARRIERS + 1 };

struct touch { uint32_t clock; uint32_t warp; struct check_site *site; };

struct exec_check {
    uint32_t warps;
    size_t size;                      /* of shared memory */
    unsigned char *written;           /* of each byte */
    /* races; NULL: not looked for. clock[a * warps + b]: how far a has seen b */
    uint32_t newest, *clock;
    uint32_t *passed;                 /* [place * warps + warp] */
    struct touch *writes;             /* the last of each byte */
    uint32_t *reads;                  /* [byte * warps + warp]: the clock of its last read */
    struct check_site **reader;       /* the last of each byte */
};

/* --- reports --- */

typedef char *demangle_function(const char *, char *, size_t *, int *);
static demangle_function *demangle;

/* The C++ library knows how its names are mangled. It is loaded only for a report, and a machine without it shows the
   names as the compiler gave them. */
static void demangle_find(void)
{
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    demangle = library ? (demangle_function *)dlsym(library, "__cxa_demangle") : NULL;
}

static void where(FILE *out, const struct check_site *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct ptx_instruction *in = s->instruction;
    const char *file = in->source_line ? ptx_source_file(s->module, s->function, in->source_file) : NULL;
    pthread_once(&once, demangle_find);
    char *readable = demangle ? demangle(s->function->name, NULL, NULL, NULL) : NULL; /* NULL: not a C++ name */
    const char *name = readable ? readable : s->function->name;
    if (file)
        fprintf(out, "%s in %s:%u", name, file, in->source_line);
    else
        fprintf(out, "%s at line %u of its PTX", name, in->line);
    free(readable);
}

static void who(FILE *out, const struct exec_warp *w, unsigned lane)
{
    const uint32_t *at = w->block->ctaid;
    fprintf(out, "=========     by thread (%u,%u,%u) in block (%u,%u,%u)\n", w->special[EXEC_ROW_TID][lane],
            w->special[EXEC_ROW_TID + 1][lane], w->special[EXEC_ROW_TID + 2][lane], at[0], at[1], at[2]);
}

/* One report is written at once; NULL: enough has been reported. */
static FILE *report_begin(char **text, size_t *size)
{
    static atomic_uint count;
    unsigned n = atomic_fetch_add(&count, 1);
    if (n == MOST_REPORTS)
        fputs("========= no more reports: there have been 100\n", stderr);
    return n < MOST_REPORTS ? open_memstream(text, size) : NULL;
}

static void report_end(FILE *out, char **text)
{
    if (!fclose(out))
        fputs(*text, stderr);
    free(*text);
}

static void report_nearest(FILE *out, uint64_t address, bool freed)
{
    uint64_t base, size;
    if (!shadow_nearest(address, freed, &base, &size))
        return;
    uint64_t beyond = address < base ? base - address : address < base + size ? address - base : address - base - size;
    fprintf(out, "=========     and is %llu bytes %s %s at 0x%llx of size %llu bytes\n",
            (unsigned long long)(address >= base + size ? beyond + 1 : beyond),
            address < base ? "before" : address < base + size ? "into" : "after",
            freed ? "a freed allocation" : "the nearest allocation", (unsigned long long)base,
            (unsigned long long)size);
}

static void report_access(const struct exec_warp *w, const struct check_site *s, unsigned lane, uint64_t address,
                          uint64_t n, const char *space, const char *what, enum shadow_found found)
{
    char *text = NULL;
    size_t size;
    FILE *out = report_begin(&text, &size);
    if (!out)
        return;
    const char *kind = s->read && s->write ? "atomic" : s->write ? "write" : "read";
    if (found == SHADOW_UNWRITTEN)
        fprintf(out, "========= Uninitialized %s memory read of size %llu bytes\n", space, (unsigned long long)n);
    else
        fprintf(out, "========= Invalid %s %s of size %llu bytes\n", space, kind, (unsigned long long)n);
    fputs("=========     at ", out);
    where(out, s);
    fputc('\n', out);
    who(out, w, lane);
    fprintf(out, "=========     Address 0x%llx%s\n", (unsigned long long)address, what);
    if (found == SHADOW_OUTSIDE || found == SHADOW_FREED)
        report_nearest(out, address, found == SHADOW_FREED);
    report_end(out, &text);
}

static void report_race(const struct exec_warp *w, const struct check_site *s, unsigned lane, uint64_t offset,
                        const struct check_site *other, bool other_wrote, uint32_t other_warp)
{
    char *text = NULL;
    size_t size;
    FILE *out = report_begin(&text, &size);
    if (!out)
        return;
    fprintf(out, "========= Error: Race reported between %s access at ", other_wrote ? "Write" : "Read");
    where(out, other);
    fprintf(out, "\n=========     and %s access at ", s->write ? "Write" : "Read");
    where(out, s);
    fputc('\n', out);
    who(out, w, lane);
    fprintf(out, "=========     Address 0x%llx of shared memory, touched by warp %u of the block before, without a "
                 "barrier in between\n", (unsigned long long)offset, other_warp);
    report_end(out, &text);
}

static void tell_once(const struct exec_warp *w, struct check_site *s, unsigned lane, uint64_t address, uint64_t n,
                      const char *space)
{
    if (!atomic_flag_test_and_set(&s->reported))
        report_access(w, s, lane, address, n, space, "", SHADOW_UNWRITTEN);
}

/* --- blocks --- */

void exec_check_free(struct exec_block *b)
{
    struct exec_check *c = b->check;
    if (!c)
        return;
    free(c->written);
    free(c->clock);
    free(c->passed);
    free(c->writes);
    free(c->reads);
    free(c->reader);
    free(c);
    b->check = NULL;
}

static bool make(struct exec_block *b)
{
    struct exec_check *c = b->check = calloc(1, sizeof *c);
    if (!c)
        return false;
    c->warps = b->warp_count;
    c->size = b->shared_size;
    c->written = malloc(c->size + 1);
    if (!c->written)
        return false;
    if (!(sg_check & SG_CHECK_RACE))
        return true;
    c->clock = calloc((size_t)c->warps * c->warps, sizeof *c->clock);
    c->passed = calloc((size_t)PLACES * c->warps, sizeof *c->passed);
    c->writes = calloc(c->size + 1, sizeof *c->writes);
    c->reads = calloc((c->size + 1) * c->warps, sizeof *c->reads);
    c->reader = calloc(c->size + 1, sizeof *c->reader);
    return c->clock && c->passed && c->writes && c->reads && c->reader;
}

/* Clocks go on from the block before, which everyone has seen. */
bool exec_check_start(struct exec_block *b)
{
    if (!b->check && !make(b))
        return false;
    struct exec_check *c = b->check;
    memset(c->written, 0, c->size);
    memset(c->written, 1, b->grid->engine->limits.shared_reserved);
    if (!c->clock)
        return true;
    uint32_t seen = c->newest++;
    for (uint32_t i = 0; i < c->warps * c->warps; i++)
        c->clock[i] = seen + (i % (c->warps + 1) == 0);
    for (uint32_t i = 0; i < PLACES * c->warps; i++)
        c->passed[i] = seen;
    return true;
}

static void join(uint32_t *to, const uint32_t *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        to[i] = from[i] > to[i] ? from[i] : to[i];
}

void check_release(struct exec_warp *w, unsigned which)
{
    struct exec_check *c = w->block->check;
    if (!c->clock)
        return;
    uint32_t *mine = &c->clock[w->index * c->warps];
    join(&c->passed[which * c->warps], mine, c->warps);
    mine[w->index]++;
    c->newest = mine[w->index] > c->newest ? mine[w->index] : c->newest;
}

void check_acquire(struct exec_warp *w, unsigned which)
{
    struct exec_check *c = w->block->check;
    if (c->clock)
        join(&c->clock[w->index * c->warps], &c->passed[which * c->warps], c->warps);
}

/* --- accesses --- */

static void check_race(struct exec_warp *w, struct check_site *s, unsigned lane, uint64_t offset)
{
    struct exec_check *c = w->block->check;
    const uint32_t me = w->index, *seen = &c->clock[me * c->warps];
    struct touch *write = &c->writes[offset];
    uint32_t *reads = &c->reads[offset * c->warps];
    const struct check_site *other = NULL;
    uint32_t warp = 0;
    if (write->warp != me && write->clock > seen[write->warp])
        other = write->site, warp = write->warp;
    for (uint32_t i = 0; s->write && !other && i < c->warps; i++)
        if (i != me && reads[i] > seen[i])
            other = c->reader[offset], warp = i;
    if (other && !atomic_flag_test_and_set(&s->raced))
        report_race(w, s, lane, offset, other, other == write->site, warp);
    if (s->write)
        *write = (struct touch){ .clock = seen[me], .warp = me, .site = s };
    else {
        reads[me] = seen[me];
        c->reader[offset] = s;
    }
}

/* Races with other blocks of the cluster are not looked for. */
static bool check_shared(struct exec_warp *w, struct check_site *s, unsigned lane, uint64_t address, uint64_t n)
{
    const struct exec_block *of = exec_shared_block(w->block, address);
    struct exec_check *c = of ? of->check : NULL;
    uint64_t offset = address & EXEC_SHARED_OFFSET;
    if (!c || offset > c->size || n > c->size - offset) {
        report_access(w, s, lane, address, n, "__shared__", " is out of bounds", SHADOW_FINE);
        return false;
    }
    if (s->read && memchr(c->written + offset, 0, n))
        tell_once(w, s, lane, offset, n, "__shared__");
    for (uint64_t i = 0; c->clock && of == w->block && !s->atomic && i < n; i++)
        check_race(w, s, lane, offset + i);
    if (s->write)
        memset(c->written + offset, 1, n);
    return true;
}

static bool check_global(struct exec_warp *w, struct check_site *s, unsigned lane, uint64_t address, uint64_t n)
{
    uint64_t at;
    bool known;
    enum shadow_found found = shadow_access(address, n, s->read, s->write, &at, &known);
    if (found == SHADOW_UNWRITTEN) {
        tell_once(w, s, lane, at, n, "__global__");
        sg_check_written(address, n);
        return true;
    }
    if (found == SHADOW_FINE && known)
        return true;
    unsigned rights = (s->read ? SG_READ : 0) | (s->write ? SG_WRITE : 0);
    if (found == SHADOW_FINE && (sg_memory_may(address, n, w->granule_device, rights) ||
                                 exec_brought(w, address, n, rights)))
        return true;
    report_access(w, s, lane, address, n, "__global__",
                  found == SHADOW_FREED ? " has been freed" : " is out of bounds",
                  found == SHADOW_FREED ? SHADOW_FREED : SHADOW_OUTSIDE);
    return false;
}

bool check_access(struct exec_warp *w, struct check_site *s, unsigned lane, uint64_t address, uint64_t n)
{
    uint64_t window = address >> 32;
    if (!(address & EXEC_WINDOW_BIT))
        return check_global(w, s, lane, address, n);
    return window != EXEC_WINDOW_SHARED || check_shared(w, s, lane, address & UINT32_MAX, n);
}

void check_written(const struct exec_warp *w, uint64_t address, uint64_t n)
{
    const struct exec_block *of = exec_shared_block(w->block, address);
    uint64_t offset = address & EXEC_SHARED_OFFSET;
    if (!(address & EXEC_WINDOW_BIT))
        sg_check_written(address, n);
    else if (of && of->check && offset <= of->check->size && n <= of->check->size - offset)
        memset(of->check->written + offset, 1, n);
}
