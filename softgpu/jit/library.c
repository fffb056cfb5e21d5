/*
 * library.c: regions become machine code by LLVM (its C API, only calls that versions 14 to 19 share).
 *
 * One LLJIT for the process. Each region is a module with a resource tracker of its own, so that its memory goes when
 * its kernel does. LLVM writes code into memory that cannot be executed and then makes it executable and read-only.
 */
#include "softgpu/jit/compile.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "softgpu/exec/jit.h"

/* mem2reg makes vector registers of rows; the rest takes out what the walk over instructions repeats. */
static const char first_passes[] = "mem2reg,early-cse",
                  passes[] = "mem2reg,instcombine,early-cse,simplifycfg,loop-mssa(licm),early-cse,instcombine,"
                             "simplifycfg";

/* Instructions of a function: each region looks at all of them, to learn which registers are still read. */
enum { FUNCTION_MOST = 10000 };

struct sg_jit_region { LLVMOrcResourceTrackerRef tracker; };

static struct {
    LLVMOrcLLJITRef lljit;
    LLVMTargetMachineRef machine;     /* for the passes */
    pthread_mutex_t lock;             /* of all: an LLJIT without threads compiles one module at a time */
    bool tried;
    unsigned names;
    char why[256];
} library = { .lock = PTHREAD_MUTEX_INITIALIZER };

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

/* For the level that the first region asks for: the process has one. */
static void start(bool avx512)
{
    library.tried = true;
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMTargetMachineRef machine = machine_new(avx512);
    library.machine = machine_new(avx512);
    if (!machine || !library.machine) {
        snprintf(library.why, sizeof library.why, "LLVM knows no machine for this processor");
        return;
    }
    LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder,
                                                  LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
    if (failed(LLVMOrcCreateLLJIT(&library.lljit, builder), library.why, sizeof library.why))
        library.lljit = NULL;
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

static bool optimise(struct compiler *c, char *why, size_t size)
{
    char *message = NULL;
    if (LLVMVerifyModule(c->module, LLVMReturnStatusAction, &message)) {
        snprintf(why, size, SG_JIT_DEFECT "%s", message);
        LLVMDisposeMessage(message);
        return false;
    }
    LLVMDisposeMessage(message);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    bool bad = c->wish->whole && failed(LLVMRunPasses(c->module, first_passes, library.machine, options), why, size);
    if (c->wish->whole && !bad)
        ranges_answer(c);
    bad = bad || failed(LLVMRunPasses(c->module, passes, library.machine, options), why, size);
    LLVMDisposePassBuilderOptions(options);
    return !bad;
}

/* The module in a form that LLVM can take over. */
static bool make_module(struct compiler *c, const char *name, char *why, size_t size)
{
    c->module = LLVMModuleCreateWithNameInContext(name, c->context);
    LLVMSetDataLayout(c->module, LLVMOrcLLJITGetDataLayoutStr(library.lljit));
    LLVMSetTarget(c->module, LLVMOrcLLJITGetTripleString(library.lljit));
    c->builder = LLVMCreateBuilderInContext(c->context);
    types(c);
    bool done = emit_region(c, name), refused = c->wish->whole && c->whole.refused;
    LLVMDisposeBuilder(c->builder);
    if (!done || refused) {
        snprintf(why, size, "%s", refused ? "an instruction that code for whole blocks lacks" : "no host memory");
        return false;
    }
    if (c->wish->avx512) {
        attribute(c, "prefer-vector-width", "512");
        attribute(c, "min-legal-vector-width", "512");
    }
    return optimise(c, why, size);
}

/* Takes the module over in any case. */
static struct sg_jit_region *hand_over(struct compiler *c, LLVMOrcThreadSafeContextRef context, const char *name,
                                       sg_jit_code **code, char *why, size_t size)
{
    LLVMOrcThreadSafeModuleRef module = LLVMOrcCreateNewThreadSafeModule(c->module, context);
    LLVMOrcExecutorAddress address = 0;
    struct sg_jit_region *r = malloc(sizeof *r);
    if (!r) {
        LLVMOrcDisposeThreadSafeModule(module);
        snprintf(why, size, "no host memory");
        return NULL;
    }
    r->tracker = LLVMOrcJITDylibCreateResourceTracker(LLVMOrcLLJITGetMainJITDylib(library.lljit));
    if (failed(LLVMOrcLLJITAddLLVMIRModuleWithRT(library.lljit, r->tracker, module), why, size)) {
        LLVMOrcDisposeThreadSafeModule(module);
        LLVMOrcReleaseResourceTracker(r->tracker);
        free(r);
        return NULL;
    }
    if (!failed(LLVMOrcLLJITLookup(library.lljit, &address, name), why, size)) {
        *code = (sg_jit_code *)(uintptr_t)address;
        return r;
    }
    LLVMConsumeError(LLVMOrcResourceTrackerRemove(r->tracker));
    LLVMOrcReleaseResourceTracker(r->tracker);
    free(r);
    return NULL;
}

static struct sg_jit_region *compile_with(struct compiler *c, sg_jit_code **code, char *why, size_t size)
{
    char name[32];
    struct sg_jit_region *r = NULL;
    LLVMOrcThreadSafeContextRef context = LLVMOrcCreateNewThreadSafeContext();
    c->context = LLVMOrcThreadSafeContextGetContext(context);
    snprintf(name, sizeof name, "region%u", library.names++);
    if (make_module(c, name, why, size))
        r = hand_over(c, context, name, code, why, size);
    else
        LLVMDisposeModule(c->module);
    LLVMOrcDisposeThreadSafeContext(context);
    return r;
}

static struct sg_jit_region *compile(const struct sg_jit_wish *wish, sg_jit_code **code, char *why, size_t size)
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
    else {
        pthread_mutex_lock(&library.lock);
        if (!library.tried)
            start(wish->avx512);
        if (library.lljit)
            r = compile_with(&c, code, why, size);
        else
            snprintf(why, size, "%s", library.why);
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
    return r;
}

static void release(struct sg_jit_region *r)
{
    pthread_mutex_lock(&library.lock);
    LLVMConsumeError(LLVMOrcResourceTrackerRemove(r->tracker));
    LLVMOrcReleaseResourceTracker(r->tracker);
    pthread_mutex_unlock(&library.lock);
    free(r);
}

__attribute__((visibility("default"))) extern const struct sg_jit softgpu_jit;
const struct sg_jit softgpu_jit = { EXEC_JIT_BUILD, compile, release };
