/*
 * loader_queue.c: what waits for the loader (loader.c), and the references that keep modules and functions: a module
 * that nobody refers to any more is put there, to be unloaded. Everything under session.lock.
 */
#include "cpu/server/code/code.h"

#include <stdlib.h>

#include "cpu/common/lock.h"
#include "cpu/common/log.h"

static int loader_push(struct session *session, struct job job)
{
    struct loader *loader = &session->loader;
    struct job *queued = malloc(sizeof *queued);
    if (!queued)
        return -1;
    *queued = job;
    queued->next = NULL;
    pthread_mutex_lock(&loader->lock);
    *loader->last = queued;
    loader->last = &queued->next;
    pthread_cond_broadcast(&loader->wake);
    pthread_mutex_unlock(&loader->lock);
    return 0;
}

void loader_load(struct session *session, struct call *call, struct module *module)
{
    struct call *kept = call_keep(call);
    struct job job = { .kind = JOB_LOAD, .context = module->context, .call = kept, .module = module };
    if (kept && loader_push(session, job) == 0)
        return;
    call_fail(session, call, CUDA_ERROR_OUT_OF_MEMORY);
    if (kept)
        call_free(kept);
    module_drop(session, module);
}

void loader_get(struct session *session, struct call *call, struct function *function)
{
    struct module *module = function->module;
    struct call *kept = call_keep(call);
    struct job job = { .kind = JOB_GET, .context = module->context, .call = kept, .module = module,
                       .function = function };
    if (kept && loader_push(session, job) == 0)
        return;
    call_fail(session, call, CUDA_ERROR_OUT_OF_MEMORY);
    if (kept)
        call_free(kept);
    module_drop(session, module);
}

bool loader_serve(struct session *session, struct call *call, void (*serve)(struct session *, struct call *))
{
    struct call *kept = call_keep(call);
    if (kept && loader_push(session, (struct job){ .kind = JOB_SERVE, .call = kept, .serve = serve }) == 0)
        return true;
    if (kept) {
        call->moved = false;
        free(kept);
    }
    return false;
}

void loader_run(struct session *session, struct context *context, void (*run)(struct session *, struct context *))
{
    loader_push(session, (struct job){ .kind = JOB_RUN, .context = context, .run = run });
}

/* Frees the module. */
static void loader_unload(struct session *session, struct module *module)
{
    if (loader_push(session, (struct job){ .kind = JOB_UNLOAD, .context = module->context, .module = module }) != 0)
        log_warning("event=module-not-unloaded session=%llu why=\"no memory\": it stays",
                    (unsigned long long)session->id);
}

void loader_drain(struct session *session, struct context *context)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct loader *loader = &session->loader;
    (void)context;                                        /* one queue for all of them */
    if (!loader->started)
        return;
    pthread_mutex_unlock(&session->lock);
    pthread_mutex_lock(&loader->lock);
    while (loader->first || loader->busy)
        pthread_cond_wait(&loader->wake, &loader->lock);
    pthread_mutex_unlock(&loader->lock);
    pthread_mutex_lock(&session->lock);
}

/* ---- references ---- */

bool function_settled(const struct function *function) { return function->state != CODE_LOADING; }
void function_hold(struct function *function) { function->module->references++; }
void function_drop(struct session *session, struct function *function) { module_drop(session, function->module); }

/* Gone from the client's view already; the loader gives it back to the driver and frees it. */
void module_drop(struct session *session, struct module *module)
{
    if (--module->references == 0)
        loader_unload(session, module);
}
