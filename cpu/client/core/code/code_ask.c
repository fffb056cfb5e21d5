/*
 * code_ask.c: the calls by which an image comes to a context: IMAGE, MODULE_LOAD, FUNCTION_GET.
 *
 * The first use of a kernel needs all three. They travel one right behind the other, since the client names module and
 * function itself, and the program waits for one round trip. What fails first makes the later ones fail, and its error
 * is the one that counts. Bytes of a large image are sent only when the server has said that it lacks them: then it has
 * refused the other two calls, and they are sent again behind the bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/common/softgpu.h"
#include "cpu/common/log.h"
#include "code_state.h"
#include "cpu/client/core/api_code.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/wire/state.h"

static void explain(const char *kernel, int code, const char *log, size_t log_size)
{
    while (log_size && (log[log_size - 1] == '\n' || !log[log_size - 1]))
        log_size--;
    log_error("the kernel %s cannot be used on the GPU server %s (error %d)%s%.*s", kernel, core_session.uri, code,
              log_size ? ": " : "", (int)log_size, log_size ? log : "");
}

bool code_passing(int code)
{
    return code == CORE_OUT_OF_MEMORY || code == CORE_DEVICE_UNAVAILABLE || (code && code == core_sticky());
}

/* ---- functions ---- */

static void function_fill(struct core_function_info *info, const function_get_result *result,
                          struct core_parameter *parameters)
{
    info->max_threads = info->max_dynamic_shared = -1;
    info->preferred_carveout = -1;
    info->required_block[1] = info->required_block[2] = 1;
    for (unsigned i = 0; i < result->attributes.attributes_len; i++) {
        const flyt_attribute *a = &result->attributes.attributes_val[i];
        if (a->name >= 0 && a->name < CORE_FUNCTION_ATTRIBUTES)
            info->attributes[a->name] = a->value;
        else if (a->name == SOFTGPU_FUNCTION_USES)
            info->uses = (unsigned)a->value;
        else if (a->name >= SOFTGPU_FUNCTION_BLOCK_X && a->name <= SOFTGPU_FUNCTION_BLOCK_Z)
            info->required_block[a->name - SOFTGPU_FUNCTION_BLOCK_X] = (unsigned)a->value;
        else if (a->name == SOFTGPU_FUNCTION_CLUSTER_MOST)
            info->cluster_most = (unsigned)a->value;
        else if (a->name == SOFTGPU_FUNCTION_CLUSTER_GRID)
            info->grid_of_clusters = a->value;
        else if (a->name == SOFTGPU_FUNCTION_ONE_THREAD)
            info->one_thread_will_do = a->value;
    }
    for (unsigned i = 0; i < result->params.params_len; i++) {
        const flyt_param *p = &result->params.params_val[i];
        parameters[i] = (struct core_parameter){ p->offset, p->size };
        if (p->offset + p->size > info->parameter_bytes)
            info->parameter_bytes = p->offset + p->size;
    }
    info->parameters = parameters;
    info->parameter_count = result->params.params_len;
}

static bool parameters_sane(const function_get_result *result)
{
    for (unsigned i = 0; i < result->params.params_len; i++)
        if (result->params.params_val[i].offset > FLYT_MAX_PARAMS ||
            result->params.params_val[i].size > FLYT_MAX_PARAMS - result->params.params_val[i].offset)
            return false;
    return true;
}

static void function_send(struct function_question *q, struct client_session *session, flyt_id module)
{
    q->args = (function_get_args){ .function = q->function, .module = module, .name = q->f->name.text };
    memset(&q->result, 0, sizeof q->result);
    wire_prepare(&q->call, FLYT_FUNCTION_GET, (xdrproc_t)xdr_function_get_args, &q->args,
                 (xdrproc_t)xdr_function_get_result, &q->result);
    wire_submit(session, &q->call);
    q->sent = true;
}

int function_ask(struct function_question *q, const core_context *c, flyt_id module, struct core_function_info *info)
{
    if (!q->sent) {
        function_send(q, c->session, module);
        q->code = wire_wait(&q->call);
    }
    int code = q->code;
    if (code && !code_passing(code) && !(code == CORE_NOT_FOUND && q->f->sought))
        explain(q->f->name.text, code, q->result.log.log_val, q->result.log.log_len);
    if (!code && !parameters_sane(&q->result))
        code = CORE_UNKNOWN;
    struct core_parameter *parameters = code ? NULL : calloc(q->result.params.params_len + 1, sizeof *parameters);
    if (!code && !parameters)
        code = CORE_OUT_OF_MEMORY;
    if (!code)
        function_fill(info, &q->result, parameters);
    if (!code && info->max_threads < 0)
        core_device_attribute(c->device, 1, &info->max_threads);
    return code;
}

void function_question_end(struct function_question *q)
{
    xdr_free((xdrproc_t)xdr_function_get_result, &q->result);
    q->sent = false;
}

/* ---- modules ---- */

static void module_send(struct module_question *q)
{
    q->args =
        (module_load_args){ .module = q->module, .context = q->context->wire, .symbols = { q->count, q->symbols } };
    memcpy(q->args.hash, q->image->bundle.hash, sizeof q->args.hash);
    memset(&q->result, 0, sizeof q->result);
    wire_prepare(&q->call, FLYT_MODULE_LOAD, (xdrproc_t)xdr_module_load_args, &q->args,
                 (xdrproc_t)xdr_module_load_result, &q->result);
    wire_submit(q->context->session, &q->call);
    for (unsigned i = 0; i < q->along_count; i++)
        function_send(&q->along[i], q->context->session, q->module);
}

/* The answers to what module_send has sent. */
static int answers(struct module_question *q, int (*wait)(struct wire_call *))
{
    int code = wait(&q->call);
    for (unsigned i = 0; i < q->along_count; i++)
        q->along[i].code = wire_wait_along(&q->along[i].call);
    return code;
}

static void answers_free(struct module_question *q)
{
    xdr_free((xdrproc_t)xdr_module_load_result, &q->result);
    for (unsigned i = 0; i < q->along_count; i++)
        function_question_end(&q->along[i]);
}

int module_ask(struct module_question *q)
{
    q->announces = !(q->image->announced >> q->context->session->number & 1);
    int code = q->announces ? bundle_ask(q->context->session, &q->image->bundle, &q->announced) : CORE_OK;
    if (!code)
        module_send(q);
    return code;
}

static int image_and_module(struct module_question *q, int (*wait)(struct wire_call *))
{
    bool late;
    int code = bundle_answered(&q->announced, wait, &late);
    int loaded = answers(q, wire_wait_along);
    if (code)
        return code;
    q->image->announced |= UINT32_C(1) << q->context->session->number;
    if (!late)
        return loaded;
    answers_free(q);
    module_send(q);
    return answers(q, wire_wait);
}

int module_answered(struct module_question *q, int (*wait)(struct wire_call *))
{
    int code = q->announces ? image_and_module(q, wait) : answers(q, wait);
    if (code && !code_passing(code) && !q->unwanted) {
        code_image_refused(q->image, code, q->result.log.log_val, q->result.log.log_len);
        free(q->image->log);
        q->image->log = q->result.log.log_len ? strndup(q->result.log.log_val, q->result.log.log_len) : NULL;
    }
    return code;
}

void module_dismiss(struct module_question *q)
{
    if (q->announces) {
        wire_wait_along(&q->announced.call);
        xdr_free((xdrproc_t)xdr_image_result, &q->announced.result);
    }
    answers(q, wire_wait_along);
    answers_free(q);
}
