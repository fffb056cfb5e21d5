/* flyt_comm.c: libflyt-comm's functions, each a call of cpu/comm. See flyt_comm.h. */
#include "cpu/client/comm/library.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert((int)FLYT_COMM_KEY_SIZE == (int)COMM_KEY_SIZE, "one size of keys");
_Static_assert((int)FLYT_FLOAT8_E5M2 == (int)COMM_FLOAT8_E5M2 && (int)FLYT_BFLOAT16 == (int)COMM_BFLOAT16 &&
                   (int)FLYT_MULTIPLIED_SUM == (int)COMM_MULTIPLIED_SUM,
               "the numbers of types and operations are those of reduce.h");
_Static_assert((int)FLYT_ALL_TO_ALL == (int)COMM_ALL_TO_ALL && (int)FLYT_GATHER == (int)COMM_GATHER,
               "the numbers of collectives are those of plan.h");

__thread char library_error[RPC_ERROR_SIZE];
#define error library_error

static uint64_t until(unsigned timeout_ms) { return clock_now() + timeout_ms * CLOCK_NS_PER_MS; }

/* A store of ours is one of theirs, under another name. */
static struct comm_store *store_of(flyt_store *store) { return (struct comm_store *)store; }

const char *flyt_comm_error(void) { return error; }

/* ---- stores ---- */

int flyt_store_hash(flyt_store **store) { return comm_store_hash((struct comm_store **)store, error); }

int flyt_store_file(const char *folder, flyt_store **store)
{
    return comm_store_file(folder, (struct comm_store **)store, error);
}

int flyt_store_prefix(flyt_store *inner, const char *prefix, flyt_store **store)
{
    return comm_store_prefix(store_of(inner), prefix, (struct comm_store **)store, error);
}

int flyt_store_tcp(const char *uri, const uint8_t key[FLYT_COMM_KEY_SIZE], unsigned timeout_ms, flyt_store **store)
{
    return comm_store_tcp(uri, key, until(timeout_ms), (struct comm_store **)store, error);
}

int flyt_store_set(flyt_store *store, const char *key, const void *value, size_t size, unsigned timeout_ms)
{
    return comm_store_set(store_of(store), key, value, size, until(timeout_ms), error);
}

int flyt_store_get(flyt_store *store, const char *key, void *value, size_t room, size_t *size, unsigned timeout_ms)
{
    return comm_store_get(store_of(store), key, value, room, size, until(timeout_ms), error);
}

int flyt_store_wait(flyt_store *store, const char *const *keys, size_t count, unsigned timeout_ms)
{
    return comm_store_wait(store_of(store), keys, count, until(timeout_ms), error);
}

void flyt_store_destroy(flyt_store *store) { comm_store_destroy(store_of(store)); }

int flyt_store_serve(const char *uri, const uint8_t key[FLYT_COMM_KEY_SIZE], flyt_store_server **server)
{
    return comm_store_serve(uri, key, (struct comm_store_server **)server, error);
}

const char *flyt_store_server_uri(const flyt_store_server *server)
{
    return comm_store_server_uri((const struct comm_store_server *)server);
}

void flyt_store_server_stop(flyt_store_server *server)
{
    comm_store_server_stop((struct comm_store_server *)server);
}

/* ---- contexts ---- */

int flyt_context_create(const flyt_context_options *options, flyt_store *store, flyt_context **context)
{
    const struct comm_settings links = { .interfaces = options->interfaces, .channels = options->channels,
                                         .tls = options->tls != 0 };
    struct flyt_context *made = calloc(1, sizeof *made);
    if (!made) {
        snprintf(error, sizeof error, "a context: no memory");
        return -ENOMEM;
    }
    int status = comm_engine_create(&links, &made->engine, error);
    const struct comm_context_settings settings = { .rank = options->rank, .size = options->size,
                                                    .engine = made->engine };
    if (status == 0)
        status = comm_context_create(&settings, store_of(store), &made->context, error);
    if (status < 0)
        flyt_context_destroy(made);
    else
        *context = made;
    return status;
}

int flyt_context_connect_full_mesh(flyt_context *context, unsigned timeout_ms)
{
    return comm_context_connect_full_mesh(context->context, until(timeout_ms), error);
}

void flyt_context_abort(flyt_context *context, const char *why)
{
    comm_context_abort(context->context, -ECANCELED, why);
}

void flyt_context_destroy(flyt_context *context)
{
    if (!context)
        return;
    comm_context_destroy(context->context);
    comm_engine_destroy(context->engine);
    free(context);
}

/* ---- collectives ---- */

static int call(flyt_context *context, unsigned timeout_ms, struct comm_call what)
{
    return comm_call(context->context, &what, until(timeout_ms), error);
}

int flyt_barrier(flyt_context *context, unsigned timeout_ms)
{
    return call(context, timeout_ms, (struct comm_call){ .kind = COMM_BARRIER });
}

int flyt_broadcast(flyt_context *context, void *buffer, uint64_t count, flyt_type type, unsigned root,
                   unsigned timeout_ms)
{
    return call(context, timeout_ms, (struct comm_call){ .kind = COMM_BROADCAST, .in = buffer, .out = buffer,
                                                         .count = count, .type = (enum comm_type)type, .root = root });
}

int flyt_reduce(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type,
                flyt_operation operation, unsigned root, unsigned timeout_ms)
{
    return call(context, timeout_ms, (struct comm_call){ .kind = COMM_REDUCE, .in = in, .out = out, .count = count,
                                                         .type = (enum comm_type)type, .root = root,
                                                         .operation = (enum comm_operation)operation });
}

int flyt_all_reduce(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type,
                    flyt_operation operation, unsigned timeout_ms)
{
    return call(context, timeout_ms, (struct comm_call){ .kind = COMM_ALL_REDUCE, .in = in, .out = out, .count = count,
                                                         .type = (enum comm_type)type,
                                                         .operation = (enum comm_operation)operation });
}

int flyt_gather(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type, unsigned root,
                unsigned timeout_ms)
{
    return call(context, timeout_ms, (struct comm_call){ .kind = COMM_GATHER, .in = in, .out = out, .count = count,
                                                         .type = (enum comm_type)type, .root = root });
}

int flyt_scatter(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type, unsigned root,
                 unsigned timeout_ms)
{
    return call(context, timeout_ms, (struct comm_call){ .kind = COMM_SCATTER, .in = in, .out = out, .count = count,
                                                         .type = (enum comm_type)type, .root = root });
}

int flyt_all_gather(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type,
                    unsigned timeout_ms)
{
    return call(context, timeout_ms, (struct comm_call){ .kind = COMM_ALL_GATHER, .in = in, .out = out, .count = count,
                                                         .type = (enum comm_type)type });
}

int flyt_reduce_scatter(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type,
                        flyt_operation operation, unsigned timeout_ms)
{
    return call(context, timeout_ms, (struct comm_call){ .kind = COMM_REDUCE_SCATTER, .in = in, .out = out,
                                                         .count = count, .type = (enum comm_type)type,
                                                         .operation = (enum comm_operation)operation });
}

int flyt_all_to_all(flyt_context *context, const void *in, void *out, uint64_t count, flyt_type type,
                    unsigned timeout_ms)
{
    return call(context, timeout_ms, (struct comm_call){ .kind = COMM_ALL_TO_ALL, .in = in, .out = out, .count = count,
                                                         .type = (enum comm_type)type });
}

int flyt_call(flyt_context *context, const flyt_collective *c, unsigned timeout_ms)
{
    return call(context, timeout_ms, (struct comm_call){ .kind = (enum comm_kind)c->kind, .in = c->in, .out = c->out,
                                                         .count = c->counts ? 0 : c->count,
                                                         .type = (enum comm_type)c->type,
                                                         .operation = (enum comm_operation)c->operation,
                                                         .factor = c->factor, .root = c->root, .counts = c->counts,
                                                         .places = c->places, .in_counts = c->in_counts,
                                                         .in_places = c->in_places });
}

/* ---- messages ---- */

int flyt_send(flyt_context *context, unsigned peer, uint32_t tag, const void *memory, uint64_t size,
              unsigned timeout_ms)
{
    return comm_send(context->context, peer, tag, memory, size, until(timeout_ms), error);
}

int flyt_receive(flyt_context *context, unsigned peer, uint32_t tag, void *memory, uint64_t size, uint64_t *got,
                 unsigned timeout_ms)
{
    return comm_receive(context->context, peer, tag, memory, size, got, until(timeout_ms), error);
}
