/*
 * parameters.c: NCCL's parameters, as far as this library has them: variables of the environment that are in force.
 * A handle is the address of a parameter's row.
 */
#include "cpu/client/nccl/nccl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/env.h"

struct nccl_parameter {
    const char *key;
    bool is_number;
};

/* Without a value NCCL_COMM_BLOCKING is what NCCL calls undefined. */
static const struct nccl_parameter parameters[] = { { "NCCL_COMM_BLOCKING", true }, { "NCCL_DEBUG", false } };
enum { COUNT = sizeof parameters / sizeof *parameters };

static const struct nccl_parameter *find(const char *key)
{
    for (int i = 0; i < COUNT; i++)
        if (strcmp(parameters[i].key, key) == 0)
            return &parameters[i];
    return NULL;
}

static bool is_handle(const struct nccl_parameter *handle)
{
    return handle >= parameters && handle < parameters + COUNT;
}

static const char *text_of(const struct nccl_parameter *p)
{
    static _Thread_local char number[24];
    const char *text = env_get(p->key);
    if (!p->is_number)
        return text ? text : "";
    snprintf(number, sizeof number, "%lld", text && *text ? strtoll(text, NULL, 0) : (long long)INT_MIN);
    return number;
}

static nccl_result refuse(const char *function, const char *why)
{
    return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: %s", function, why);
}

/* ---- by handle ---- */

nccl_result ncclParamBind(const struct nccl_parameter **out, const char *key)
{
    NCCL_ENTER();
    const struct nccl_parameter *found = key ? find(key) : NULL;
    if (!out || !found)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: there is no parameter %s, or out is NULL", __func__,
                         key ? key : "NULL");
    *out = found;
    return NCCL_SUCCESS;
}

/* The value as an integer of a type from `least` to `most`. */
static nccl_result number(const struct nccl_parameter *handle, const void *out, int64_t least, uint64_t most,
                          int64_t *value, const char *function)
{
    if (!is_handle(handle) || !out)
        return refuse(function, "the handle is none, or out is NULL");
    if (!handle->is_number)
        return refuse(function, "the parameter is no number");
    *value = strtoll(text_of(handle), NULL, 10);
    if (*value < least || (*value > 0 && (uint64_t)*value > most))
        return refuse(function, "the value does not fit into the type");
    return NCCL_SUCCESS;
}

#define GETTER(name, type, least, most)                                                           \
    nccl_result ncclParamGet##name(const struct nccl_parameter *handle, type *out)                \
    {                                                                                             \
        NCCL_ENTER();                                                                             \
        int64_t value = 0;                                                                        \
        const nccl_result result = number(handle, out, least, most, &value, "ncclParamGet" #name); \
        if (result == NCCL_SUCCESS)                                                               \
            *out = (type)value;                                                                   \
        return result;                                                                            \
    }
GETTER(I8, int8_t, INT8_MIN, INT8_MAX)
GETTER(I16, int16_t, INT16_MIN, INT16_MAX)
GETTER(I32, int32_t, INT32_MIN, INT32_MAX)
GETTER(I64, int64_t, INT64_MIN, INT64_MAX)
GETTER(U8, uint8_t, 0, UINT8_MAX)
GETTER(U16, uint16_t, 0, UINT16_MAX)
GETTER(U32, uint32_t, 0, UINT32_MAX)
GETTER(U64, uint64_t, 0, UINT64_MAX)

nccl_result ncclParamGetStr(const struct nccl_parameter *handle, const char **out)
{
    NCCL_ENTER();
    if (!is_handle(handle) || !out)
        return refuse(__func__, "the handle is none, or out is NULL");
    *out = text_of(handle);
    return NCCL_SUCCESS;
}

/* A number has 8 bytes, a text its characters. */
nccl_result ncclParamGet(const struct nccl_parameter *handle, void *out, int room, int *size)
{
    NCCL_ENTER();
    if (!is_handle(handle) || !out || !size)
        return refuse(__func__, "the handle is none, or a pointer is NULL");
    const char *text = text_of(handle);
    const int64_t value = strtoll(text, NULL, 10);
    *size = handle->is_number ? (int)sizeof value : (int)strlen(text);
    if (*size > room)
        return refuse(__func__, "the value has more bytes than there is room for");
    memcpy(out, handle->is_number ? (const void *)&value : text, (size_t)*size);
    return NCCL_SUCCESS;
}

/* ---- by key ---- */

nccl_result ncclParamGetParameter(const char *key, const char **value, int *length)
{
    NCCL_ENTER();
    if (!key || !value || !length)
        return refuse(__func__, "a pointer is NULL");
    const struct nccl_parameter *found = find(key);
    *value = found ? text_of(found) : NULL;
    *length = found ? (int)strlen(*value) : 0;
    return found ? NCCL_SUCCESS : nccl_fail(NCCL_INVALID_ARGUMENT, "%s: there is no parameter %s", __func__, key);
}

nccl_result ncclParamGetAllParameterKeys(const char ***table, int *count)
{
    static _Thread_local const char *keys[COUNT];
    NCCL_ENTER();
    if (!table || !count)
        return refuse(__func__, "a pointer is NULL");
    for (int i = 0; i < COUNT; i++)
        keys[i] = parameters[i].key;
    *table = keys;
    *count = COUNT;
    return NCCL_SUCCESS;
}

void ncclParamDumpAll(void)
{
    NCCL_ENTER();
        for (int i = 0; i < COUNT; i++)
        printf("%s=%s\n", parameters[i].key, text_of(&parameters[i]));
}
