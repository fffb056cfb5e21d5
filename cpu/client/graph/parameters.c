/*
 * parameters.c: the parameters of nodes: checked, and copied so that the node owns them.
 *
 * A kernel's parameters become one block: the values, packed as the device reads them, then one pointer to each, then
 * the attributes of the launch.
 */
#include <stdlib.h>
#include <string.h>

#include "api/launch_attributes.h"
#include "cpu/client/graph/model.h"
#include "cpu/common/cancel.h"

/* ---- kernels ---- */

static size_t round_up(size_t size) { return (size + 15) / 16 * 16; }

static void *block_new(size_t values, size_t parameters, size_t attributes)
{
    return calloc(1, round_up(values) + round_up(parameters * sizeof(void *)) +
                         attributes * sizeof(struct core_launch_attribute) + 1);
}

static struct core_launch_attribute *block_attributes(void *block, size_t values, size_t parameters)
{
    return (void *)((char *)block + round_up(values) + round_up(parameters * sizeof(void *)));
}

int graph_kernel_extra(void **extra, struct graph_kernel *k)
{
    enum { END, POINTER, SIZE, MOST = 16 }; /* names and values in turn */
    const size_t *size = NULL;
    for (int i = 0; extra[i] != (void *)END; i += 2) {
        if (i >= MOST)
            return CORE_INVALID_VALUE;
        if (extra[i] == (void *)POINTER)
            k->packed = extra[i + 1];
        else if (extra[i] == (void *)SIZE)
            size = extra[i + 1];
        else
            return CORE_INVALID_VALUE;
    }
    k->packed_size = size ? *size : 0;
    return !k->packed == !size ? CORE_OK : CORE_INVALID_VALUE;
}

/* As native reads them: from the packed form, or through a pointer per parameter. */
static int values_copy(const struct graph_kernel *k, const struct core_function_info *info, char *to)
{
    if (k->packed) {
        size_t given = k->packed_size < info->parameter_bytes ? k->packed_size : info->parameter_bytes;
        memcpy(to, k->packed, given);
        memset(to + given, 0, info->parameter_bytes - given);
        return CORE_OK;
    }
    if (info->parameter_count && !k->arguments)
        return CORE_INVALID_VALUE;
    for (uint32_t i = 0; i < info->parameter_count; i++) {
        if (k->arguments[i])
            memcpy(to + info->parameters[i].offset, k->arguments[i], info->parameters[i].size);
        else if (info->parameters[i].size)    /* 0: an opaque parameter, which no call sets */
            return CORE_INVALID_VALUE;
    }
    return CORE_OK;
}

/* Attribute 13, of nodes whose parameters kernels change. A node that is none may say so. The functions that kernels
   call for it (cudaGraphKernelNodeSetParam …) write into the executable graph of NVIDIA's driver; here the client
   keeps the graph, where no kernel can reach it. */
static int check_updatable(const uint8_t value[64])
{
    int updatable;
    memcpy(&updatable, value, sizeof updatable);
    if (updatable == 1)
        core_unsupported("a kernel node that kernels can update (attribute 13)");
    return !updatable ? CORE_OK : updatable == 1 ? CORE_NOT_SUPPORTED : CORE_INVALID_VALUE;
}

/* Copies the attributes of a launch that becomes a node. */
static int attributes_copy(const struct graph_kernel *k, struct core_launch_attribute *to, uint32_t *count)
{
    int code = CORE_OK;
    *count = 0;
    for (uint32_t i = 0; i < k->attribute_count && !code; i++)
        if (k->attributes[i].id == LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
            code = check_updatable(k->attributes[i].value);
        else
            to[(*count)++] = k->attributes[i];
    return code;
}

int kernel_check(core_context *context, const struct graph_kernel *k)
{
    return core_launch_check(context, &(struct core_launch){
                                          .function = k->function,
                                          .grid = { k->grid[0], k->grid[1], k->grid[2] },
                                          .block = { k->block[0], k->block[1], k->block[2] },
                                          .shared = k->shared,
                                          .cooperative = k->cooperative,
                                          .attributes = k->attributes,
                                          .attribute_count = k->attribute_count,
                                      });
}

static int kernel_prepare(core_context *context, const struct graph_kernel *k, struct graph_kernel *out)
{
    const struct core_function_info *info;
    *out = *k;
    int code = core_function_info(context, k->function, &info);
    if (code)
        return code;
    char *block = block_new(info->parameter_bytes, info->parameter_count, k->attribute_count);
    if (!block)
        return CORE_OUT_OF_MEMORY;
    struct core_launch_attribute *attributes = block_attributes(block, info->parameter_bytes, info->parameter_count);
    if ((code = values_copy(k, info, block)) || (code = attributes_copy(k, attributes, &out->attribute_count))) {
        free(block);
        return code;
    }
    out->uses = info->uses;
    out->packed = block;
    out->packed_size = info->parameter_bytes;
    out->arguments = (void **)(block + round_up(info->parameter_bytes));
    for (uint32_t i = 0; i < info->parameter_count; i++)
        out->arguments[i] = block + info->parameters[i].offset;
    out->attributes = attributes;
    if ((code = kernel_check(context, out)))
        free(block);
    return code;
}

/* arguments lie between the values and the attributes, so their number follows from where they end. */
static bool kernel_copy(const struct graph_kernel *k, uint32_t attribute_count,
                        const struct core_launch_attribute *attributes, struct graph_kernel *out)
{
    const char *from = k->packed;
    size_t values = k->packed_size, count = (size_t)((void **)(uintptr_t)k->attributes - k->arguments);
    char *block = block_new(values, count, attribute_count);
    if (!block)
        return false;
    *out = *k;
    memcpy(block, from, values);
    out->packed = block;
    out->arguments = (void **)(block + round_up(values));
    for (size_t i = 0; i < count; i++)
        out->arguments[i] = k->arguments[i] ? block + ((char *)k->arguments[i] - from) : NULL;
    struct core_launch_attribute *own = block_attributes(block, values, count);
    if (attribute_count)
        memcpy(own, attributes, attribute_count * sizeof *own);
    out->attributes = own;
    out->attribute_count = attribute_count;
    return true;
}

int attributes_keep(struct graph_parameters *to, const struct graph_parameters *from)
{
    struct graph_kernel with;
    to->kernel.cooperative = from->kernel.cooperative;
    if (to->kernel.attribute_count || !from->kernel.attribute_count)
        return CORE_OK;
    if (!kernel_copy(&to->kernel, from->kernel.attribute_count, from->kernel.attributes, &with))
        return CORE_OUT_OF_MEMORY;
    parameters_drop(to);
    to->kernel = with;
    return CORE_OK;
}

/* ---- memory ---- */

static int peers_read(const struct graph_allocation *a, struct graph_peers *out)
{
    enum { ON_DEVICE = 1, READ = 1, READ_WRITE = 3 }; /* CUmemLocationType, CUmemAccess_flags */
    int devices = 0;
    *out = (struct graph_peers){ 0 };
    int code = a->access_count && !a->access ? CORE_INVALID_VALUE : core_device_count(&devices);
    for (size_t i = 0; i < a->access_count && !code; i++) {
        const struct graph_access *one = &a->access[i];
        if (one->type != ON_DEVICE || (one->access != READ && one->access != READ_WRITE && one->access))
            return CORE_INVALID_VALUE;
        if (one->device < 0 || one->device >= devices || one->device >= GRAPH_DEVICES_MOST)
            return CORE_INVALID_DEVICE;
        uint64_t bit = UINT64_C(1) << one->device;
        out->read |= one->access ? bit : 0;
        out->write |= one->access == READ_WRITE ? bit : 0;
    }
    return code;
}

static bool access_keep(const struct graph_allocation *a, struct graph_allocation *out)
{
    struct graph_access *own = a->access_count ? calloc(a->access_count, sizeof *own) : NULL;
    if (own)
        memcpy(own, a->access, a->access_count * sizeof *own);
    *out = *a;
    out->access = own;
    return own || !a->access_count;
}

static int allocation_prepare(const struct graph_allocation *a, struct graph_allocation *out)
{
    struct graph_peers peers;
    int code = peers_read(a, &peers);
    if (code)
        return code;
    bool good = access_keep(a, out);
    out->peers = peers;
    return good ? CORE_OK : CORE_OUT_OF_MEMORY;
}

/* ---- all kinds ---- */

static int copy_check(const struct graph_copy *copy)
{
    const struct core_extent *extent = &copy->extent;
    if (!extent->width || !extent->height || !extent->depth || !copy->to.base || !copy->from.base)
        return CORE_INVALID_VALUE;
    return core_copy_check((void *)(uintptr_t)copy->to.base, (void *)(uintptr_t)copy->from.base, copy->direction);
}

static int set_check(const struct graph_set *set)
{
    size_t row;
    if (set->element != 1 && set->element != 2 && set->element != 4)
        return CORE_INVALID_VALUE;
    if (!set->to || set->to % set->element || !set->width || !set->height ||
        __builtin_mul_overflow(set->width, (size_t)set->element, &row))
        return CORE_INVALID_VALUE;
    return set->height > 1 && (set->pitch < row || set->pitch % set->element) ? CORE_INVALID_VALUE : CORE_OK;
}

/* One block: the list, then what the front end gave. */
static bool values_keep(const struct graph_values *v, struct graph_values *out)
{
    size_t size = v->count * sizeof *v->list;
    char *block = malloc(size + v->given_size + 1);
    if (!block)
        return false;
    *out = *v;
    memcpy(block, v->list, size);
    memcpy(block + size, v->given, v->given_size);
    out->list = (const struct core_value *)(void *)block;
    out->given = block + size;
    return true;
}

static int values_prepare(core_context *context, const struct graph_values *v, struct graph_values *out)
{
    int code = core_values_check(context, v->list, v->count);
    if (code)
        return code;
    return values_keep(v, out) ? CORE_OK : CORE_OUT_OF_MEMORY;
}

/* With a list of its own. */
static void *bytes_copied(const void *bytes, size_t size)
{
    void *copy = malloc(size + 1);
    if (copy)
        memcpy(copy, bytes, size);
    return copy;
}

static bool collective_keep(const struct graph_collective *c, struct graph_collective *out)
{
    *out = *c;
    if (c->messages)
        return (out->messages = bytes_copied(c->messages, c->count * sizeof *c->messages)) != NULL;
    if (c->sided)
        return (out->sided = bytes_copied(c->sided, c->count * sizeof *c->sided)) != NULL;
    return true;
}

int parameters_prepare(const struct graph_parameters *p, struct graph_parameters *out)
{
    *out = *p;
    switch (p->kind) {
    case GRAPH_KERNEL: return kernel_prepare(p->context, &p->kernel, &out->kernel);
    case GRAPH_COPY: return copy_check(&p->copy);
    case GRAPH_SET: return set_check(&p->set);
    case GRAPH_HOST: return p->host.function ? CORE_OK : CORE_INVALID_VALUE;
    case GRAPH_VALUES: return values_prepare(p->context, &p->values, &out->values);
    case GRAPH_ALLOCATE: return allocation_prepare(&p->allocation, &out->allocation);
    case GRAPH_COLLECTIVE: return collective_keep(&p->collective, &out->collective) ? CORE_OK : CORE_OUT_OF_MEMORY;
    case GRAPH_CONDITION: out->condition.word = NULL; return CORE_OK; /* condition_admit finds it */
    case GRAPH_WAIT_EVENT:
    case GRAPH_RECORD_EVENT: return core_event_check(p->event);
    default: return CORE_OK;
    }
}

bool parameters_copy(const struct graph_parameters *p, struct graph_parameters *out)
{
    *out = *p;
    if (p->kind == GRAPH_CONDITION) {
        out->condition.bodies = NULL;
        condition_hold(p->condition.word);
    }
    if (p->kind == GRAPH_VALUES)
        return values_keep(&p->values, &out->values);
    if (p->kind == GRAPH_ALLOCATE)
        return access_keep(&p->allocation, &out->allocation);
    if (p->kind == GRAPH_COLLECTIVE)
        return collective_keep(&p->collective, &out->collective);
    return p->kind != GRAPH_KERNEL ||
           kernel_copy(&p->kernel, p->kernel.attribute_count, p->kernel.attributes, &out->kernel);
}

void parameters_drop(struct graph_parameters *p)
{
    if (p->kind == GRAPH_KERNEL)
        free((void *)(uintptr_t)p->kernel.packed);
    if (p->kind == GRAPH_VALUES)
        free((void *)(uintptr_t)p->values.list);
    if (p->kind == GRAPH_ALLOCATE)
        free((void *)(uintptr_t)p->allocation.access);
    if (p->kind == GRAPH_COLLECTIVE) {
        free((void *)(uintptr_t)p->collective.messages);
        free((void *)(uintptr_t)p->collective.sided);
    }
    if (p->kind == GRAPH_CONDITION && p->condition.word)
        condition_drop(p->condition.word);
}

/* ---- attributes of kernel nodes ---- */

static const struct core_launch_attribute *attribute_find(const struct graph_kernel *k, int id)
{
    for (uint32_t i = 0; i < k->attribute_count; i++)
        if (k->attributes[i].id == id)
            return &k->attributes[i];
    return NULL;
}

enum { ATTRIBUTES_MOST = 32 };

/* The others are of streams, or of single launches. */
static bool attribute_of_nodes(int id) { return launch_attribute_has(id, ATTRIBUTE_OF_NODES); }

int graph_get_attribute(graph_node token, int id, uint8_t value[64])
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct model_node *n = node_of(token);
    if (!n || n->parameters.kind != GRAPH_KERNEL || !attribute_of_nodes(id)) {
        code = CORE_INVALID_VALUE;
    } else {
        const struct core_launch_attribute *found = attribute_find(&n->parameters.kernel, id);
        int cooperative = n->parameters.kernel.cooperative;
        memset(value, 0, 64);
        if (id == LAUNCH_ATTRIBUTE_COOPERATIVE)
            memcpy(value, &cooperative, sizeof cooperative);
        else if (found)
            memcpy(value, found->value, 64);
    }
    graphs_leave();
    return code;
}

/* The node's attributes become these, if they suit its grid. */
static int attributes_replace(struct model_node *n, const struct core_launch_attribute *attributes, uint32_t count,
                              bool cooperative)
{
    struct graph_kernel with;
    if (!kernel_copy(&n->parameters.kernel, count, attributes, &with))
        return CORE_OUT_OF_MEMORY;
    with.cooperative = cooperative;
    int code = kernel_check(n->parameters.context, &with);
    if (code) {
        free((void *)(uintptr_t)with.packed);
        return code;
    }
    parameters_drop(&n->parameters);
    n->parameters.kernel = with;
    return CORE_OK;
}

/* What a node without clusters answers when it is asked for their size. */
static bool says_no_cluster(int id, const uint8_t value[64])
{
    static const uint8_t none[3 * sizeof(unsigned)];
    bool cluster = id == LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION || id == LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION;
    return cluster && !memcmp(value, none, sizeof none);
}

static int attribute_set(struct model_node *n, int id, const uint8_t value[64])
{
    struct graph_kernel *k = &n->parameters.kernel;
    if (id == LAUNCH_ATTRIBUTE_COOPERATIVE) {
        int cooperative;
        memcpy(&cooperative, value, sizeof cooperative);
        return attributes_replace(n, k->attributes, k->attribute_count, cooperative != 0);
    }
    if (id == LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
        return check_updatable(value);
    struct core_launch_attribute all[ATTRIBUTES_MOST];
    uint32_t count = 0;
    for (uint32_t i = 0; i < k->attribute_count && count < ATTRIBUTES_MOST - 1; i++)
        if (k->attributes[i].id != id)
            all[count++] = k->attributes[i];
    if (!says_no_cluster(id, value)) {
        all[count].id = id;
        memcpy(all[count++].value, value, 64);
    }
    return attributes_replace(n, all, count, k->cooperative);
}

/* The value alone. Whether clusters suit the node's grid, and whether a cooperative one fits, attributes_replace looks
   at, as NVIDIA's driver does. */
static int attribute_check(core_context *context, struct core_launch_attribute *a)
{
    bool node_only = a->id == LAUNCH_ATTRIBUTE_COOPERATIVE || a->id == LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
    return node_only ? CORE_OK : core_launch_attribute_check(context, a);
}

static struct model_node *kernel_node(graph_node token)
{
    struct model_node *n = node_of(token);
    return n && n->parameters.kind == GRAPH_KERNEL ? n : NULL;
}

int graph_set_attribute(graph_node token, int id, const uint8_t value[64])
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct model_node *n = kernel_node(token);
    core_context *context = n ? n->parameters.context : NULL;
    graphs_leave();
    if (!context || !attribute_of_nodes(id))
        return CORE_INVALID_VALUE;
    struct core_launch_attribute attribute = { .id = id };
    memcpy(attribute.value, value, sizeof attribute.value);
    if ((code = attribute_check(context, &attribute)) || (code = graphs_enter()))
        return code;
    n = kernel_node(token); /* another thread may have destroyed it meanwhile */
    code = n ? attribute_set(n, id, attribute.value) : CORE_INVALID_VALUE;
    graphs_leave();
    return code;
}

int graph_copy_attributes(graph_node to, graph_node from)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct model_node *target = node_of(to), *source = node_of(from);
    code = target && source && target->parameters.kind == GRAPH_KERNEL && source->parameters.kind == GRAPH_KERNEL
               ? attributes_replace(target, source->parameters.kernel.attributes,
                                    source->parameters.kernel.attribute_count, source->parameters.kernel.cooperative)
               : CORE_INVALID_VALUE;
    graphs_leave();
    return code;
}
