/*
 * common_fuzz.c: what strangers may send: calls and replies of every procedure, tickets, addresses; and what
 * administrators may write: configurations. The first byte chooses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control-managers/common/protocol.h"
/* As the Makefile compiles it. */
#define xdr_string protocol_xdr_string
#include "control_prot_xdr.c"
#undef xdr_string

#include "control-managers/cluster-manager/schema.h"
#include "control-managers/common/config.h"
#include "control-managers/common/loop_internal.h"
#include "cpu/common/ticket.h"
#include "cpu/common/wire.h"

/* What decodes also encodes, to the same bytes once its text was cleaned. */
static void round_trip(xdrproc_t proc, size_t size, const uint8_t *bytes, size_t count)
{
    void *object = calloc(1, size), *copy = calloc(1, size);
    if (rpc_wire_decode(bytes, count, proc, object)) {
        if (!protocol_copy(proc, copy, size, object))
            abort();
        protocol_free(proc, copy);
        protocol_free(proc, object);
    }
    free(copy);
    free(object);
}

static void procedures(const uint8_t *data, size_t size)
{
    const struct protocol_procedure *procedure = size > 1 ? protocol_procedure(data[0]) : NULL;
    if (!procedure)
        return;
    if (data[1] & 1)
        round_trip(procedure->args, procedure->args_size, data + 2, size - 2);
    else
        round_trip(procedure->result, procedure->result_size, data + 2, size - 2);
}

static void heads(const uint8_t *data, size_t size)
{
    struct rpc_wire_call call;
    struct rpc_wire_reply reply;
    rpc_wire_get_call(data, size, &call);
    rpc_wire_get_reply(data, size, &reply);
}

static void configuration(const uint8_t *data, size_t size)
{
    static char path[64];
    char *problems;
    if (!*path)
        snprintf(path, sizeof path, "/dev/shm/flyt-fuzz-%d.conf", (int)getpid());
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fwrite(data, 1, size, file);
    fclose(file);
    struct config *config = config_load(&cluster_config_schema, path, &problems);
    if (!config == !problems)
        abort();                                /* either it is good, or it is said why not */
    free(problems);
    config_free(config);
    unlink(path);
}

static void others(const uint8_t *data, size_t size)
{
    uint8_t key[1][TICKET_KEY_SIZE] = { { 1 } };
    struct ticket ticket;
    struct loop_address address;
    char error[1024], *text = malloc(size + 1);
    if (ticket_verify(key, 1, data, size, 0, 0, &ticket, error) == 0)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    loop_address_parse(text, &address, error);
    protocol_sharing_parse(text);
    protocol_name_valid(text);
    uint64_t number;
    config_parse_size(text, &number);
    size_t length = strlen(text);
    protocol_text_clean(text);
    if (strlen(text) != length)
        abort();
    free(text);
}

/* libconfig loses a string when a syntax error follows it; a daemon that finds one ends. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    switch (data[0] & 3) {
    case 0: procedures(data + 1, size - 1); break;
    case 1: heads(data + 1, size - 1); break;
    case 2: configuration(data + 1, size - 1); break;
    case 3: others(data + 1, size - 1); break;
    }
    return 0;
}
