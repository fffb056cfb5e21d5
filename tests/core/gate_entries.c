/*
 * Every function that one library of a front end exports is called while the gate is shut (cpu/client/core/api_gate.h):
 * it must wait there, and go on when the gate opens. Compiled once for each library; GATE_RUNTIME is 11, 12 or 13, or 0
 * for libcuda.so.1. The calls are generated from the description of CUDA, so a new function is here by itself.
 *
 * There is no server: what stands behind the gate fails at once, or needs none.
 *
 * shows: the gate: each entry of the Runtime API and of the Driver API, the forms for the per-thread default stream and
 *   the private tables of NVIDIA's static runtime among them, waits while the gate is shut, and goes on when it opens
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu/client/core/api_gate.h"

static _Alignas(64) unsigned char scratch[1 << 16];

#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wmissing-braces"

#if GATE_RUNTIME == 11
#include "api/cudart11/entries.h"
#define CALLS "api/cudart11/gate_calls.inc"
#elif GATE_RUNTIME == 12
#include "api/cudart12/entries.h"
#define CALLS "api/cudart12/gate_calls.inc"
#elif GATE_RUNTIME == 13
#include "api/cudart13/entries.h"
#define CALLS "api/cudart13/gate_calls.inc"
#else
#include "api/driver/types.h"
#define CALLS "api/driver/gate_calls.inc"
#define GATE_PROTOTYPES
#include CALLS
#endif

struct entry { const char *name; bool gated; void (*call)(void); };

#define CALL(name, gated, expression) \
    static void call_##name(void) { (void)(expression); }
#include CALLS
#undef CALL
#define CALL(name, gated, expression) { #name, gated, call_##name },
static const struct entry entries[] = {
#include CALLS
};
#undef CALL

/* ---- one call ---- */

enum { LIMIT_MS = 20000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER;
static const struct entry *next;
static atomic_bool returned;

static void *caller(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!next)
            pthread_cond_wait(&wanted, &lock);
        const struct entry *entry = next;
        next = NULL;
        pthread_mutex_unlock(&lock);
        entry->call();
        atomic_store(&returned, true);
        pthread_mutex_lock(&lock);
    }
    return NULL;
}

static bool in_time(const struct entry *entry, bool (*is)(void))
{
    for (unsigned i = 0; i < LIMIT_MS * 10; i++) {
        if (is())
            return true;
        nanosleep(&(struct timespec){ 0, i < 100 ? 1000 : 100000 }, NULL);
    }
    printf("# %s: nothing happens\n", entry->name);
    return false;
}

static bool waits_or_returned(void) { return core_gate_waiting() || atomic_load(&returned); }
static bool has_returned(void) { return atomic_load(&returned); }

static bool behaves(const struct entry *entry)
{
    struct core_gate_inside inside;
    int code = core_gate_close(UINT64_C(10000000000), &inside);
    if (code) {
        printf("# before %s the gate cannot be shut: %d, %s\n", entry->name, code, inside.call ? inside.call : "");
        return false;
    }
    memset(scratch, 0, sizeof scratch);
    atomic_store(&returned, false);
    pthread_mutex_lock(&lock);
    next = entry;
    pthread_cond_signal(&wanted);
    pthread_mutex_unlock(&lock);
    bool happened = in_time(entry, waits_or_returned), waited = !atomic_load(&returned);
    core_gate_open();
    happened = happened && in_time(entry, has_returned);
    if (happened && waited != entry->gated)
        printf("# %s %s\n", entry->name, waited ? "waits at the gate, and should not" : "does not wait at the gate");
    return happened && waited == entry->gated;
}

static int test(const struct entry *list, size_t count)
{
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        int bad = !behaves(&list[i]);
        wrong += bad;
        if (wrong > 20)
            break;
    }
    return wrong;
}

/* ---- the private tables ---- */

#if GATE_RUNTIME == 0
static void *slot_function;

static void call_slot(void)
{
    int (*function)(void *, void *, void *, void *);
    memcpy(&function, &slot_function, sizeof function);
    function(scratch, scratch + 256, scratch + 512, NULL);
}

/* Without the gate: they give a constant. A bit for each slot. */
static const struct { const char *name; unsigned char id[16]; unsigned slots; unsigned constants; } tables[] = {
    { "runtime", { 0x6B, 0xD5, 0xFB, 0x6C, 0x5B, 0xF4, 0xE7, 0x4A, 0x89, 0x87, 0xD9, 0x39, 0x12, 0xFD, 0x9D, 0xF9 }, 13,
      1u << 7 | 1u << 12 },
    { "hooks", { 0xA0, 0x94, 0x79, 0x8C, 0x2E, 0x74, 0x2E, 0x74, 0x93, 0xF2, 0x08, 0x00, 0x20, 0x0C, 0x0A, 0x66 }, 7,
      0x7E },
    { "current", { 0x42, 0xD8, 0x5A, 0x81, 0x23, 0xF6, 0xCB, 0x47, 0x82, 0x98, 0xF6, 0xE7, 0x8A, 0x3A, 0xEC, 0xDC }, 3,
      0 },
    { "storage", { 0xC6, 0x93, 0x33, 0x6E, 0x11, 0x21, 0xDF, 0x11, 0xA8, 0xC3, 0x68, 0xF3, 0x55, 0xD8, 0x95, 0x93 }, 0,
      0 },
    { "check", { 0x26, 0x3E, 0x88, 0x60, 0x7C, 0xD2, 0x61, 0x43, 0x92, 0xF6, 0xBB, 0xD5, 0x00, 0x6D, 0xFA, 0x7E }, 15,
      1u << 3 },
    { "integrity", { 0xD4, 0x08, 0x20, 0x55, 0xBD, 0xE6, 0x70, 0x4B, 0x8D, 0x34, 0xBA, 0x12, 0x3C, 0x66, 0xE1, 0xF2 },
      3, 1u << 2 },
    { "context", { 0x21, 0x31, 0x8C, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8C, 0xA6, 0x41, 0xFF, 0x73, 0x24, 0xC8, 0xF2 }, 95,
      0 },
    { "module", { 0x6E, 0x16, 0x3F, 0xBE, 0xB9, 0x58, 0x44, 0x4D, 0x83, 0x5C, 0xE1, 0x82, 0xAF, 0xF1, 0x99, 0x1E }, 92,
      0 },
    { "heuristics", { 0x17, 0x34, 0xDC, 0x26, 0x80, 0x0D, 0x47, 0x45, 0x87, 0x26, 0xC0, 0xF1, 0xE7, 0xDD, 0x8B, 0xCA },
      16, 1u << 4 },
};

static int test_tables(void)
{
    int wrong = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        CUuuid id;
        void *const *table = NULL;
        memcpy(&id, tables[t].id, sizeof id);
        if (cuGetExportTable((const void **)&table, &id) || !table) {
            printf("# the table %s is not there\n", tables[t].name);
            wrong++;
            continue;
        }
        unsigned count = 0;
        if (tables[t].slots)
            count = (unsigned)((size_t)(uintptr_t)table[0] / sizeof *table);
        else
            while (table[count])
                count++;
        if (tables[t].slots && count != tables[t].slots) {
            printf("# the table %s has %u slots, not %u\n", tables[t].name, count, tables[t].slots);
            wrong++;
        }
        for (unsigned s = tables[t].slots ? 1 : 0; s < count; s++) {
            char name[80];
            bool constant = s < 32 && tables[t].constants >> s & 1;
            const struct entry entry = { name, !constant, call_slot };
            snprintf(name, sizeof name, "slot %u of the table %s", s, tables[t].name);
            slot_function = table[s];
            wrong += !behaves(&entry);
        }
    }
    return wrong;
}
#endif

int main(void)
{
    pthread_t thread;
    size_t count = sizeof entries / sizeof *entries;
    setenv("FLYT_SERVER", "unix:///nonexistent/flyt", 1);
    setenv("FLYT_WAIT", "0", 1);
    alarm(120);
    if (pthread_create(&thread, NULL, caller, NULL))
        return 1;
    printf("1..%d\n", GATE_RUNTIME ? 1 : 2);
    int wrong = test(entries, count);
    printf("%s 1 - %zu entries wait at the gate, but for those that the description calls ungated\n",
           wrong ? "not ok" : "ok", count);
#if GATE_RUNTIME == 0
    int wrong_slots = test_tables();
    printf("%s 2 - the functions of the private tables wait at the gate, but for constants\n",
           wrong_slots ? "not ok" : "ok");
    wrong += wrong_slots;
#endif
    fflush(stdout);
    _exit(wrong ? 1 : 0);                     /* the thread is still there */
}
