/*
 * loader.c: the thread that loads modules, looks functions up and unloads modules, in the order asked for
 * (loader_queue.c). The driver works without session.lock; results enter the tables, and calls are answered, with it.
 */
#include "cpu/server/tenant/charge.h"
#include "cpu/server/code/code.h"
#include "cpu/server/code/settings.h"
#include "cpu/server/code/texref.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "cpu/common/lock.h"
#include "cpu/common/log.h"

/* ---- the jobs ---- */

/* What is loaded with its module: bytes of the image, kernels. */
enum { IMAGE_AHEAD = 4 << 20, FUNCTIONS_AHEAD = 256 };

static CUresult load_alone(const struct gpu *gpu, struct module *module, const void *data, char *log)
{
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)(uintptr_t)FLYT_MAX_LOG };
    return gpu->ModuleLoadDataEx(&module->handle, data, 2, options, values);
}

/* NVIDIA's driver links the parts of a device-linked program for its GPU, if the program has no machine code for it. It
   takes a wrapper that has parts only from cuLibraryLoadData, to which NVIDIA's runtime gives it. cuModuleLoadDataEx
   says "Binary format for key='0', ident='' is not recognized" (driver 580). */
static bool needs_library(const struct gpu *gpu, const void *wrapper)
{
#if CUDA_VERSION >= 12000
    return wrapper && strcmp(gpu->kind, "nvidia") == 0 && gpu->LibraryLoadData && gpu->LibraryGetModule &&
           gpu->LibraryUnload;
#else
    (void)gpu, (void)wrapper;
    return false;
#endif
}

/* There is no log: the driver may compile later than here, and would write to memory that is somebody else's. */
static CUresult load_library(const struct gpu *gpu, struct module *module, const void *data)
{
#if CUDA_VERSION >= 12000
    CUlibraryOption options[] = { CU_LIBRARY_BINARY_IS_PRESERVED };
    void *values[] = { (void *)1 };
    CUlibrary library;
    CUresult r = gpu->LibraryLoadData(&library, data, NULL, NULL, 0, options, values, 1);
    if (r != CUDA_SUCCESS)
        return r;
    module->library = library;
    return gpu->LibraryGetModule(&module->handle, library);
#else
    (void)gpu, (void)module, (void)data;
    return CUDA_ERROR_NOT_SUPPORTED;
#endif
}

/* NVIDIA's driver loads a kernel when it is first launched, and CUDA's guide says that this may wait until the device
   is idle. If a kernel runs that waits for that one, or for the program, it would last for ever. The kernels of a small
   image are loaded with it, so that such a program runs. What cannot be loaded is refused later. */
static void load_functions(const struct gpu *gpu, const struct module *module)
{
#if CUDA_VERSION >= 12040
    unsigned count = 0;
    CUfunction functions[FUNCTIONS_AHEAD];
    if (strcmp(gpu->kind, "nvidia") != 0 || module->image->size > IMAGE_AHEAD || !gpu->FuncLoad ||
        !gpu->ModuleGetFunctionCount || !gpu->ModuleEnumerateFunctions ||
        gpu->ModuleGetFunctionCount(&count, module->handle) != CUDA_SUCCESS || !count || count > FUNCTIONS_AHEAD ||
        gpu->ModuleEnumerateFunctions(functions, count, module->handle) != CUDA_SUCCESS)
        return;
    for (unsigned i = 0; i < count; i++)
        gpu->FuncLoad(functions[i]);
#else
    (void)gpu, (void)module;
#endif
}

static void handle_end(const struct gpu *gpu, struct module *module)
{
#if CUDA_VERSION >= 12000
    if (module->library)
        gpu->LibraryUnload(module->library);
#endif
    if (!module->library && module->handle)
        gpu->ModuleUnload(module->handle);
    free(module->wrapper);
    module->library = NULL;
    module->handle = NULL;
    module->wrapper = NULL;
}

/* Without session.lock: nobody else reads or writes a module in state LOADING, nor its image's bytes. */
static CUresult loader_do_load(struct session *session, struct module *module, char *log)
{
    const struct gpu *gpu = session->gpu;
    const void *data;
    CUresult r = image_loadable(module->image, &data, &module->wrapper);
    if (r != CUDA_SUCCESS)
        return r;
    struct charge charge = charge_begin(session, module->context);
    r = needs_library(gpu, module->wrapper) ? load_library(gpu, module, data) : load_alone(gpu, module, data, log);
    if (r == CUDA_SUCCESS)
        load_functions(gpu, module);
    CUresult charged = r == CUDA_SUCCESS ? charge_end(session, &charge) : CUDA_SUCCESS;
    if (r != CUDA_SUCCESS)
        module->handle = NULL;
    if (r != CUDA_SUCCESS || charged != CUDA_SUCCESS)
        handle_end(gpu, module);
    if (charged != CUDA_SUCCESS)
        charge_end(session, &charge);
    charge_finish(session);
    if (!module->library) {
        free(module->wrapper);
        module->wrapper = NULL;
    }
    return r != CUDA_SUCCESS ? r : charged;
}

static void loader_load_job(struct session *session, struct job *job)
{
    struct module *module = job->module;
    module_load_result result;
    char *log = calloc(1, FLYT_MAX_LOG + 1);
    CUresult r = CUDA_SUCCESS;
    memset(&result, 0, sizeof result);
    if (module->state == CODE_LOADING) {
        r = log ? context_use(session, module->context) : CUDA_ERROR_OUT_OF_MEMORY;
        if (r == CUDA_SUCCESS)
            r = loader_do_load(session, module, log);
        if (r != CUDA_SUCCESS)
            log_info("event=module-refused session=%llu error=%d why=\"%s\"", (unsigned long long)session->id, (int)r,
                     log_text((char[512]){ 0 }, 512, log ? log : ""));
    } else {
        r = module->result;
        context_use(session, module->context);
    }
    if (r == CUDA_SUCCESS)
        module_look_up(session, module, &job->call->args.module_load, &result);
    if (log && *log) {
        result.log.log_val = log;
        result.log.log_len = (u_int)strnlen(log, FLYT_MAX_LOG);
    }
    pthread_mutex_lock(&session->lock);
    if (module->state == CODE_LOADING) {
        module->state = r == CUDA_SUCCESS ? CODE_READY : CODE_FAILED;
        module->result = r;
    }
    for (u_int i = 0; i < result.symbols.symbols_len && !module->unloaded; i++)
        if (result.symbols.symbols_val[i].result == CUDA_SUCCESS)
            memory_symbol_add(session, result.symbols.symbols_val[i].address, result.symbols.symbols_val[i].size,
                              module);
    session_reply(session, job->call->xid, (xdrproc_t)xdr_module_load_result, &result, r, false);
    module_drop(session, module);
    pthread_mutex_unlock(&session->lock);
    free(result.symbols.symbols_val);
    free(log);
}

static void loader_get_job(struct session *session, struct job *job)
{
    struct function *function = job->function;
    struct module *module = job->module;
    char log[4096] = "";
    CUresult r = CUDA_SUCCESS;
    if (function->state == CODE_LOADING) {
        r = module->state == CODE_READY ? context_use(session, module->context) : module->result;
        if (r == CUDA_SUCCESS) {
            struct charge charge = charge_begin(session, module->context);
            r = function_describe(session, function);       /* a lazy driver loads the code now */
            CUresult charged = charge_end(session, &charge);
            r = r ? r : charged;
            charge_finish(session);
        }
        if (r != CUDA_SUCCESS && session->gpu->last_log)
            session->gpu->last_log(log, sizeof log);
        if (r != CUDA_SUCCESS && module->state == CODE_READY) /* else the log has the module's refusal */
            log_info("event=function-refused session=%llu error=%d function=\"%s\" why=\"%s\"",
                     (unsigned long long)session->id, (int)r, log_text((char[256]){ 0 }, 256, function->name),
                     log_text((char[512]){ 0 }, 512, log));
    }
    pthread_mutex_lock(&session->lock);
    if (function->state == CODE_LOADING) {
        function->result = r;
        function->state = r == CUDA_SUCCESS ? CODE_READY : CODE_FAILED;
    }
    deferred_wake(session, &function->parked);
    report_note(session, r);
    function_reply(session, job->call->xid, function, log);
    module_drop(session, module);
    pthread_mutex_unlock(&session->lock);
    executor_kick(session);
}

static void loader_unload_job(struct session *session, struct module *module)
{
    if (module->handle && context_use(session, module->context) == CUDA_SUCCESS) {
        struct charge charge = charge_begin(session, module->context);
        handle_end(session->gpu, module);
        charge_end(session, &charge);
        charge_finish(session);
    } else if (module->library) {
        handle_end(session->gpu, module);                 /* a module ends with its context, a library does not */
    }
    pthread_mutex_lock(&session->lock);
    module->image->references--;
    pthread_mutex_unlock(&session->lock);
    while (module->functions) {
        struct function *next = module->functions->next;
        free(module->functions->name);
        free(module->functions->params);
        free(module->functions->attributes);
        settings_end(module->functions);
        free(module->functions);
        module->functions = next;
    }
    texrefs_free(module->texrefs);
    layout_close(module->layouts);
    free(module);
}

/* ---- the thread ---- */

static void *loader_main(void *context)
{
    prctl(PR_SET_NAME, "flyt-loader");
    struct session *session = context;
    struct loader *loader = &session->loader;
    pthread_mutex_lock(&loader->lock);
    for (;;) {
        while (!loader->first && !loader->stop)
            pthread_cond_wait(&loader->wake, &loader->lock);
        struct job *job = loader->first;
        if (!job) {
            pthread_mutex_unlock(&loader->lock);
            return NULL;
        }
        loader->first = job->next;
        if (!loader->first)
            loader->last = &loader->first;
        loader->busy = true;
        pthread_mutex_unlock(&loader->lock);
        switch (job->kind) {
        case JOB_LOAD: loader_load_job(session, job); break;
        case JOB_GET: loader_get_job(session, job); break;
        case JOB_UNLOAD: loader_unload_job(session, job->module); break;
        case JOB_SERVE: job->serve(session, job->call); break;
        case JOB_RUN: job->run(session, job->context); break;
        }
        if (job->call)
            call_free(job->call);
        free(job);
        pthread_mutex_lock(&loader->lock);
        loader->busy = false;
        pthread_cond_broadcast(&loader->wake);
    }
}

int loader_start(struct session *session)
{
    struct loader *loader = &session->loader;
    loader->last = &loader->first;
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->wake, NULL);
    int r = pthread_create(&loader->thread, NULL, loader_main, session);
    loader->started = r == 0;
    return r;
}

void loader_stop(struct session *session)
{
    struct loader *loader = &session->loader;
    if (!loader->started)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->stop = true;
    pthread_cond_broadcast(&loader->wake);
    pthread_mutex_unlock(&loader->lock);
    pthread_join(loader->thread, NULL);
    loader->started = false;
    pthread_mutex_destroy(&loader->lock);
    pthread_cond_destroy(&loader->wake);
}
