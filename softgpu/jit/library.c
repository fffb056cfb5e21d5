/*
 * library.c: regions become machine code by LLVM (its C API, only calls that versions 14 to 19 share).
 *
 * One LLJIT for the process. The code of a region is an object file with one function and a resource tracker of its
 * own, so that its memory goes when the last kernel that has it does. LLVM writes code into memory that cannot be
 * executed and then makes it executable and read-only.
 *
 * The code has no address in it but that of one function of the machine, which is a symbol. So what has been made once
 * serves each copy of the kernel in this process, and lies on disk for the next one (store.h). Its key is made of
 * LLVM's instructions before they are optimised, and of all that says what becomes of them: whoever asks has always
 * written these instructions first, and code that was made from others has another key.
 */
#include "softgpu/jit/compile.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Error.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "softgpu/exec/jit.h"
#include "softgpu/jit/freeze.h"
#include "softgpu/jit/store.h"

/* mem2reg makes vector registers of rows; the rest takes out what the walk over instructions repeats. */
static const char first_passes[] = "mem2reg,early-cse",
                  passes[] = "mem2reg,instcombine,early-cse,simplifycfg,loop-mssa(licm),early-cse,instcombine,"
                             "simplifycfg";

/* Instructions of a function: each region looks at all of them, to learn which registers are still read. */
enum { FUNCTION_MOST = 10000 };

enum { BUCKETS = 256, SYMBOL_SIZE = 2 * STORE_KEY + 3 };

/* The code of a key, for all regions that have asked for it. */
struct sg_jit_region {
    uint8_t key[STORE_KEY];
    atomic_uint users;                /* 0: the next thread with the lock frees it */
    LLVMOrcResourceTrackerRef tracker;
    sg_jit_code *code;
    struct sg_jit_region *next;       /* in the bucket */
};

/* A BLAKE2b-256 of what code is made from and by; the object in which `inside` is comes next. */
struct build_sum { const void *inside; uint8_t sum[STORE_KEY]; };

static struct {
    LLVMOrcLLJITRef lljit;
    LLVMTargetMachineRef machine;
    pthread_mutex_t lock;             /* of all: an LLJIT without threads takes one module at a time */
    _Atomic pid_t process;            /* whose thread took the lock last */
    bool tried;
    _Atomic bool over, ended;         /* over: nothing more is begun, as the process ends or LLVM has failed; ended:
                                         nor is anything being compiled, and whoever has the lock may keep it */
    struct build_sum build;          /* of this library, LLVM's, and the level: half of each key */
    struct sg_jit_region *bucket[BUCKETS]; /* by the first byte of the key */
    char why[256];
} library = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* LLVM writes to stderr, too, what it returns. */
static void say_nothing(void *unused, LLVMErrorRef error)
{
    (void)unused;
    LLVMConsumeError(error);
}

static bool failed(LLVMErrorRef error, char *why, size_t size)
{
    if (!error)
        return false;
    char *message = LLVMGetErrorMessage(error);
    snprintf(why, size, "%s", message);
    LLVMDisposeErrorMessage(message);
    return true;
}

static LLVMTargetMachineRef machine_new(bool avx512)
{
    LLVMTargetRef target;
    char *message = NULL, *triple = LLVMGetDefaultTargetTriple();
    LLVMTargetMachineRef machine = NULL;
    if (!LLVMGetTargetFromTriple(triple, &target, &message))
        machine = LLVMCreateTargetMachine(target, triple, avx512 ? "x86-64-v4" : "x86-64-v3", "",
                                          LLVMCodeGenLevelDefault, LLVMRelocDefault, LLVMCodeModelJITDefault);
    if (message)
        LLVMDisposeMessage(message);
    LLVMDisposeMessage(triple);
    return machine;
}

/* Adds the notes that the linker has put into the object. The build ID is one of them. */
static int add_notes(struct dl_phdr_info *object, size_t size, void *sum)
{
    struct build_sum *s = sum;
    bool here = false;
    (void)size;
    for (unsigned k = 0; k < object->dlpi_phnum; k++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[k];
        here = here || (p->p_type == PT_LOAD && (uintptr_t)s->inside - (object->dlpi_addr + p->p_vaddr) < p->p_memsz);
    }
    for (unsigned k = 0; here && k < object->dlpi_phnum; k++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[k];
        if (p->p_type == PT_NOTE)
            store_sum(s->sum, (const void *)(object->dlpi_addr + p->p_vaddr), p->p_memsz);
    }
    return here;
}

/* The code's one symbol: the function of the machine from which it counts. */
static bool define_machine(const void *machine)
{
    __typeof__(*(LLVMOrcCSymbolMapPairs)NULL) symbol = { /* LLVM 14 has another name for it than later versions */
        .Name = LLVMOrcLLJITMangleAndIntern(library.lljit, MACHINE_SYMBOL),
        .Sym = { .Address = (uintptr_t)machine, .Flags = { .GenericFlags = LLVMJITSymbolGenericFlagsExported } }
    };
    LLVMOrcMaterializationUnitRef unit = LLVMOrcAbsoluteSymbols(&symbol, 1);
    if (!failed(LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(library.lljit), unit), library.why,
                sizeof library.why))
        return true;
    LLVMOrcDisposeMaterializationUnit(unit);
    return false;
}

/* LLVM ends the process when it can go no further. It is the program's, so the thread that compiles ends in its place.
   It keeps the lock: nothing else is compiled. Another thread is the program's own, and uses the same LLVM: there LLVM
   ends the process. */
static void stop_compiling(const char *why)
{
    sigset_t all;
    if (!freeze_is_self()) {
        fprintf(stderr, "LLVM ERROR: %s\n", why);
        return;
    }
    fprintf(stderr, "flyt: softgpu: the compiler has failed (%s); the interpreter goes on\n", why);
    library.over = library.ended = true;
    sigfillset(&all);
    for (;;)
        sigsuspend(&all);
}

/* false: nothing more may be compiled. */
static bool enter(void)
{
    struct timespec until;
    int taken = ETIMEDOUT;
    while (taken && !library.over) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        taken = pthread_mutex_clocklock(&library.lock, CLOCK_MONOTONIC, &until);
    }
    if (taken)
        return false;
    library.process = getpid();
    if (!library.over)
        return true;
    pthread_mutex_unlock(&library.lock);
    return false;
}

/* When the process ends, LLVM destroys its variables, while another thread may still compile. So that thread is stopped
   for good, or has come to the end of its region, and no other region is begun. What is registered last is called
   first: so this is registered behind LLVM's variables when the library is loaded, and again behind those that LLVM
   makes with the first region. In a child after fork() there is no thread that the lock waits for. */
static void end(void)
{
    const struct timespec pause = { .tv_nsec = 100000 };
    library.over = true;
    bool kept = !library.ended;
    while (kept) {
        if (!pthread_mutex_trylock(&library.lock)) {
            pthread_mutex_unlock(&library.lock);
            kept = false;
        } else {
            kept = library.process == getpid() && !freeze_try();
        }
        if (kept)
            nanosleep(&pause, NULL);
    }
    library.ended = true;
}

__attribute__((constructor)) static void begin(void) { atexit(end); }

/* For the level that the first region asks for: the process has one. */
static void start(const struct sg_jit_wish *wish)
{
    library.tried = true;
    if (wish->may_stop)
        LLVMInstallFatalErrorHandler(stop_compiling);
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMTargetMachineRef machine = machine_new(wish->avx512);
    library.machine = machine_new(wish->avx512);
    if (!machine || !library.machine) {
        snprintf(library.why, sizeof library.why, "LLVM knows no machine for this processor");
        return;
    }
    LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder,
                                                  LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
    if (failed(LLVMOrcCreateLLJIT(&library.lljit, builder), library.why, sizeof library.why) ||
        !define_machine((const void *)(uintptr_t)wish->step))
        library.lljit = NULL;
    if (library.lljit)
        LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(library.lljit), say_nothing, NULL);
    library.build = (struct build_sum){ .inside = &library, .sum = { wish->avx512 } };
    dl_iterate_phdr(add_notes, &library.build);
    library.build.inside = (const void *)(uintptr_t)LLVMVerifyModule;
    dl_iterate_phdr(add_notes, &library.build);
}

static void types(struct compiler *c)
{
    c->i1 = LLVMInt1TypeInContext(c->context);
    c->i8 = LLVMInt8TypeInContext(c->context);
    c->i32 = LLVMInt32TypeInContext(c->context);
    c->i64 = LLVMInt64TypeInContext(c->context);
    c->row32 = LLVMVectorType(c->i32, SG_LANES);
    c->row64 = LLVMVectorType(c->i64, SG_LANES);
    c->lanes = LLVMVectorType(c->i1, SG_LANES);
    c->floats = LLVMVectorType(LLVMFloatTypeInContext(c->context), SG_LANES);
}

static void attribute(struct compiler *c, const char *name, const char *value)
{
    LLVMAddAttributeAtIndex(c->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(c->context, name, (unsigned)strlen(name), value,
                                                      (unsigned)strlen(value)));
}

/* LLVM's other parts crash on a module that is not well made. */
static bool verify(struct compiler *c, char *why, size_t size)
{
    char *message = NULL;
    const bool wrong = LLVMVerifyModule(c->module, LLVMReturnStatusAction, &message);
    if (wrong)
        snprintf(why, size, SG_JIT_DEFECT "%s", message);
    LLVMDisposeMessage(message);
    return !wrong;
}

static bool optimise(struct compiler *c, char *why, size_t size)
{
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    bool bad = c->wish->whole && failed(LLVMRunPasses(c->module, first_passes, library.machine, options), why, size);
    if (c->wish->whole && !bad)
        ranges_answer(c);
    bad = bad || failed(LLVMRunPasses(c->module, passes, library.machine, options), why, size);
    LLVMDisposePassBuilderOptions(options);
    return !bad;
}

/* LLVM's instructions as the walk over the region writes them. */
static bool make_module(struct compiler *c, char *why, size_t size)
{
    c->module = LLVMModuleCreateWithNameInContext("region", c->context);
    LLVMSetDataLayout(c->module, LLVMOrcLLJITGetDataLayoutStr(library.lljit));
    LLVMSetTarget(c->module, LLVMOrcLLJITGetTripleString(library.lljit));
    c->builder = LLVMCreateBuilderInContext(c->context);
    types(c);
    bool done = emit_region(c, "region"), refused = c->wish->whole && c->whole.refused;
    LLVMDisposeBuilder(c->builder);
    if (!done || refused) {
        snprintf(why, size, "%s", refused ? "an instruction that code for whole blocks lacks" : "no host memory");
        return false;
    }
    if (c->wish->avx512) {
        attribute(c, "prefer-vector-width", "512");
        attribute(c, "min-legal-vector-width", "512");
    }
    return true;
}

static void make_key(const struct compiler *c, uint8_t key[STORE_KEY])
{
    LLVMMemoryBufferRef instructions = LLVMWriteBitcodeToMemoryBuffer(c->module);
    memcpy(key, library.build.sum, STORE_KEY);
    store_sum(key, LLVMGetBufferStart(instructions), LLVMGetBufferSize(instructions));
    LLVMDisposeMemoryBuffer(instructions);
}

static void symbol_of(const uint8_t *key, char symbol[SYMBOL_SIZE])
{
    symbol[0] = 'r';
    for (unsigned k = 0; k < STORE_KEY; k++)
        snprintf(symbol + 1 + 2 * k, 3, "%02x", key[k]);
}

/* The object file of the module, whose function has that symbol; NULL: why says the reason. */
static LLVMMemoryBufferRef make_object(struct compiler *c, const char *symbol, char *why, size_t size)
{
    LLVMMemoryBufferRef object = NULL;
    char *message = NULL;
    LLVMSetValueName2(c->function, symbol, strlen(symbol));
    if (!optimise(c, why, size))
        return NULL;
    if (!LLVMTargetMachineEmitToMemoryBuffer(library.machine, c->module, LLVMObjectFile, &message, &object))
        return object;
    snprintf(why, size, "%s", message);
    LLVMDisposeMessage(message);
    return NULL;
}

/* Takes the object over in any case. false: why says the reason. */
static bool load(struct sg_jit_region *r, LLVMMemoryBufferRef object, const char *symbol, char *why, size_t size)
{
    LLVMOrcExecutorAddress address = 0;
    r->tracker = LLVMOrcJITDylibCreateResourceTracker(LLVMOrcLLJITGetMainJITDylib(library.lljit));
    if (!failed(LLVMOrcLLJITAddObjectFileWithRT(library.lljit, r->tracker, object), why, size) &&
        !failed(LLVMOrcLLJITLookup(library.lljit, &address, symbol), why, size)) {
        r->code = (sg_jit_code *)(uintptr_t)address;
        return true;
    }
    LLVMConsumeError(LLVMOrcResourceTrackerRemove(r->tracker));
    LLVMOrcReleaseResourceTracker(r->tracker);
    return false;
}

static bool load_stored(struct sg_jit_region *r, const char *symbol)
{
    char why[256];
    size_t size;
    void *code = store_read(r->key, &size);
    if (!code)
        return false;
    LLVMMemoryBufferRef object = LLVMCreateMemoryBufferWithMemoryRangeCopy(code, size, symbol);
    free(code);
    const bool loaded = load(r, object, symbol, why, sizeof why);
    if (!loaded)
        store_remove(r->key);
    return loaded;
}

static bool load_made(struct compiler *c, struct sg_jit_region *r, const char *symbol, char *why, size_t size)
{
    LLVMMemoryBufferRef object = make_object(c, symbol, why, size);
    if (!object)
        return false;
    store_write(r->key, LLVMGetBufferStart(object), LLVMGetBufferSize(object));
    return load(r, object, symbol, why, size);
}

/* The code of the module, which this process may have already, or the store. */
static struct sg_jit_region *find(struct compiler *c, enum sg_jit_source *source, char *why, size_t size)
{
    uint8_t key[STORE_KEY];
    char symbol[SYMBOL_SIZE];
    make_key(c, key);
    struct sg_jit_region **bucket = &library.bucket[key[0]], *r = *bucket;
    while (r && memcmp(r->key, key, sizeof key))
        r = r->next;
    if (r) {
        r->users++;
        *source = SG_JIT_SHARED;
        return r;
    }
    if (!(r = malloc(sizeof *r))) {
        snprintf(why, size, "no host memory");
        return NULL;
    }
    *r = (struct sg_jit_region){ .users = 1, .next = *bucket };
    memcpy(r->key, key, sizeof key);
    symbol_of(key, symbol);
    *source = load_stored(r, symbol) ? SG_JIT_STORED : SG_JIT_MADE;
    if (*source == SG_JIT_MADE && !load_made(c, r, symbol, why, size)) {
        free(r);
        return NULL;
    }
    return *bucket = r;
}

static struct sg_jit_region *compile_with(struct compiler *c, enum sg_jit_source *source, char *why, size_t size)
{
    c->context = LLVMContextCreate();
    const bool made = make_module(c, why, size) && verify(c, why, size);
    struct sg_jit_region *r = made ? find(c, source, why, size) : NULL;
    LLVMDisposeModule(c->module);
    LLVMContextDispose(c->context);
    return r;
}

static void free_unused(void)
{
    for (unsigned k = 0; k < BUCKETS; k++)
        for (struct sg_jit_region **at = &library.bucket[k], *r; (r = *at);) {
            if (r->users) {
                at = &r->next;
                continue;
            }
            *at = r->next;
            LLVMConsumeError(LLVMOrcResourceTrackerRemove(r->tracker));
            LLVMOrcReleaseResourceTracker(r->tracker);
            free(r);
        }
}

static struct sg_jit_region *compile(const struct sg_jit_wish *wish, struct sg_jit_made *made, char *why, size_t size)
{
    struct sg_jit_region *r = NULL;
    if (wish->count > FUNCTION_MOST) {
        snprintf(why, size, "a function of %u instructions", wish->count);
        return NULL;
    }
    struct compiler c = { .wish = wish,
                          .places = wish->places,
                          .width = SG_LANES,
                          .in_region = calloc(wish->count + 1u, sizeof *c.in_region),
                          .target = calloc(wish->count + 1u, sizeof *c.target),
                          .blocks = calloc(wish->count + 1u, sizeof *c.blocks),
                          .leaves = calloc(wish->count + 1u, sizeof *c.leaves) };
    if (!c.in_region || !c.target || !c.blocks || !c.leaves)
        snprintf(why, size, "no host memory");
    else if (!region_find(&c))
        snprintf(why, size, "too few instructions before the next region");
    else if (wish->whole && !region_is_whole(&c))
        snprintf(why, size, "not all of it leads forward to the end");
    else if (wish->phases && !phases_find(&c))
        snprintf(why, size, "phases between barriers that have no code");
    else if (wish->places && !places_find(&c))
        snprintf(why, size, "too many places where lanes may be");
    else if (!enter())
        snprintf(why, size, "the compiler has ended");
    else {
        if (wish->may_stop)
            freeze_enter();
        const bool first = !library.tried;
        if (first)
            start(wish);
        if (library.lljit)
            r = compile_with(&c, &made->source, why, size);
        else
            snprintf(why, size, "%s", library.why);
        free_unused();
        if (first)
            atexit(end);
        if (wish->may_stop)
            freeze_leave();
        pthread_mutex_unlock(&library.lock);
    }
    phases_free(&c);
    free(c.in_region);
    free(c.target);
    free(c.blocks);
    free(c.leaves);
    free(c.rows);
    free(c.live);
    free(c.shapes);
    free(c.now);
    made->code = r ? r->code : NULL;
    return r;
}

static void release(struct sg_jit_region *r)
{
    atomic_fetch_sub(&r->users, 1);
    if (library.over || pthread_mutex_trylock(&library.lock))
        return;
    library.process = getpid();
    free_unused();
    pthread_mutex_unlock(&library.lock);
}

__attribute__((visibility("default"))) extern const struct sg_jit softgpu_jit;
const struct sg_jit softgpu_jit = { EXEC_JIT_BUILD, compile, release, store_open };
