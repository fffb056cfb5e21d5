/* later.c: functions that NCCL got after 2.27: simulation, suspending, parameters. See ranks.c. */
#include <string.h>

#include "tests/nccl/ranks.h"

enum { SUSPENDABLE, SUSPENDED, PERSISTENT, TOTAL };

static uint64_t statistic(int what)
{
    uint64_t value = 77;
    GOOD(ncclCommMemStats(own[0].comm, what, &value));
    return value;
}

static void suspended(void)
{
    struct nccl_comm *none;
    uint64_t value;
    NEED(statistic(SUSPENDED) == 0 && statistic(TOTAL) == 0 && statistic(SUSPENDABLE) == 0, "memory");
    NEED(ncclCommMemStats(own[0].comm, TOTAL + 1, &value) == NCCL_INVALID_ARGUMENT, "no such statistic");
    GOOD(ncclCommSuspend(own[0].comm, 1));
    NEED(statistic(SUSPENDED) == 1, "not suspended");
    NEED(call(ALL_REDUCE, 0, 1, 0) == NCCL_INVALID_USAGE && strstr(ncclGetLastError(NULL), "ncclCommResume"),
         "a suspended communicator");
    NEED(ncclCommSplit(own[0].comm, 0, 0, &none, NULL) == NCCL_INVALID_USAGE, "a part of a suspended one");
    GOOD(ncclCommResume(own[0].comm));
    NEED(statistic(SUSPENDED) == 0, "suspended still");
}

static float simulated(size_t part, int times)
{
    struct nccl_simulation info = { sizeof info, NCCL_SIMULATION_MAGIC, 22809, -1 };
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++)
        for (int k = 0; k < times; k++)
            GOOD(call(ALL_REDUCE, i, part, 0));
    GOOD(ncclGroupSimulateEnd(&info));
    return info.time;
}

/* Nothing is carried out. */
static void simulations(void)
{
    struct nccl_simulation wrong = { 0 };
    fill();
    float small = simulated(1, 1), large = simulated(COUNT, 1), twice = simulated(COUNT, 2);
    NEED(small > 0 && large > small && twice > 1.99f * large && twice < 2.01f * large, "%f, %f, %f us", (double)small,
         (double)large, (double)twice);
    for (int i = 0; i < count; i++)
        NEED(numbers_of(i, own[i].out, 1)[0] == (int)0xeeeeeeee, "it was carried out");
    NEED(ncclGroupSimulateEnd(&wrong) == NCCL_INVALID_USAGE, "no group");
    GOOD(ncclGroupStart());
    NEED(ncclGroupSimulateEnd(&wrong) == NCCL_INVALID_ARGUMENT && strstr(ncclGetLastError(NULL), "INITIALIZER"),
         "no simInfo");
}

static void parameters(void)
{
    const struct nccl_parameter *handle = NULL, *text = NULL;
    const char **keys = NULL, *value = NULL;
    char bytes[8];
    int length = 0, found = 0;
    int64_t wide = 0;
    int8_t narrow = 0;
    uint32_t natural = 0;
    NEED(ncclParamBind(&handle, "NCCL_IB_TC") == NCCL_INVALID_ARGUMENT && !handle, "a parameter of another library");
    GOOD(ncclParamBind(&handle, "NCCL_COMM_BLOCKING"));
    GOOD(ncclParamGetI64(handle, &wide));
    NEED(wide == INT_MIN, "an undefined one: %lld", (long long)wide);
    NEED(ncclParamGetI8(handle, &narrow) == NCCL_INVALID_ARGUMENT, "a number that is too large");
    NEED(ncclParamGetU32(handle, &natural) == NCCL_INVALID_ARGUMENT, "a negative number");
    setenv("NCCL_COMM_BLOCKING", "1", 1);
    GOOD(ncclParamGetI8(handle, &narrow));
    GOOD(ncclParamGetU32(handle, &natural));
    GOOD(ncclParamGetStr(handle, &value));
    NEED(narrow == 1 && natural == 1 && strcmp(value, "1") == 0, "%d, %u, %s", narrow, natural, value);
    GOOD(ncclParamGet(handle, bytes, sizeof bytes, &length));
    NEED(length == 8 && bytes[0] == 1, "%d bytes", length);
    NEED(ncclParamGet(handle, bytes, 7, &length) == NCCL_INVALID_ARGUMENT && length == 8, "too little room");
    unsetenv("NCCL_COMM_BLOCKING");
    setenv("NCCL_DEBUG", "VERSION", 1);
    GOOD(ncclParamBind(&text, "NCCL_DEBUG"));
    NEED(ncclParamGetI64(text, &wide) == NCCL_INVALID_ARGUMENT, "a text as a number");
    GOOD(ncclParamGetParameter("NCCL_DEBUG", &value, &length));
    NEED(length == 7 && strcmp(value, "VERSION") == 0, "%s", value);
    unsetenv("NCCL_DEBUG");
    NEED(ncclParamGetParameter("NCCL_NO", &value, &length) == NCCL_INVALID_ARGUMENT && !value, "no such parameter");
    GOOD(ncclParamGetAllParameterKeys(&keys, &length));
    for (int i = 0; i < length; i++)
        found += strcmp(keys[i], "NCCL_DEBUG") == 0 || strcmp(keys[i], "NCCL_COMM_BLOCKING") == 0;
    NEED(found == 2, "%d of %d keys", found, length);
}

void later(void)
{
    suspended();
    simulations();
    parameters();
}
