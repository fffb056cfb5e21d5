/* move_written.c: see move_written.h. */
#include "move_written.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

static atomic_bool others;                /* other programs may write */

static struct {
    pthread_mutex_t lock;                 /* a leaf */
    uint32_t questions;                   /* the number of the last one */
    uint32_t lost;                        /* until this one nothing is known */
    uint64_t granule, granules;           /* granule 0: no table yet */
    uint32_t *found;                      /* of each granule: the last question that found it written */
} written = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool move_written_known(void)
{
    return core_session.hello.capabilities & FLYT_CAP_WATCH;
}

void move_written_by_others(void) { atomic_store(&others, true); }

/* The window and the size of a granule stay as they are as long as the session lives. */
static bool make_table(uint64_t granule)
{
    if (written.granule)
        return granule == written.granule;
    if (!granule || granule & (granule - 1))
        return false;
    const uint64_t granules = (core_session.window_size + granule - 1) / granule;
    if (!(written.found = calloc(granules, sizeof *written.found)))
        return false;
    written.granules = granules;
    written.granule = granule;
    return true;
}

static void note(const watch_result *result, int code)
{
    const uint8_t *bits = (const uint8_t *)result->changed.changed_val;
    const uint64_t count = (uint64_t)result->changed.changed_len * 8;
    pthread_mutex_lock(&written.lock);
    written.questions++;
    if (code || !make_table(result->granule))
        written.lost = written.questions;
    else
        for (uint64_t g = 0; g < count && g < written.granules; g++)
            if (bits[g / 8] >> g % 8 & 1)
                written.found[g] = written.questions;
    pthread_mutex_unlock(&written.lock);
}

int move_written_ask(bool again, watch_result *result)
{
    watch_args args = { again };
    memset(result, 0, sizeof *result);
    int code = wire_call(&core_session, FLYT_WATCH, (xdrproc_t)xdr_watch_args, &args, (xdrproc_t)xdr_watch_result,
                         result);
    note(result, code);
    return code;
}

uint32_t move_written_begin(void)
{
    watch_result result;
    if (!move_written_known() || core_perf.no_watch || atomic_load(&others))
        return 0;
    int code = move_written_ask(true, &result);
    xdr_free((xdrproc_t)xdr_watch_result, &result);
    pthread_mutex_lock(&written.lock);
    const uint32_t question = code || written.lost == written.questions ? 0 : written.questions;
    pthread_mutex_unlock(&written.lock);
    return question;
}

uint32_t move_written_next(void)
{
    pthread_mutex_lock(&written.lock);
    const uint32_t next = written.questions + 1;
    pthread_mutex_unlock(&written.lock);
    return next;
}

static bool found_since(uint32_t question, uint64_t offset, uint64_t size)
{
    for (uint64_t g = offset / written.granule; g <= (offset + size - 1) / written.granule; g++)
        if (written.found[g] > question)
            return true;
    return false;
}

bool move_written_since(uint32_t question, uint64_t address, uint64_t size)
{
    const uint64_t offset = address - core_session.window;
    if (!question || !size || offset >= core_session.window_size || size > core_session.window_size - offset ||
        atomic_load(&others))
        return true;
    pthread_mutex_lock(&written.lock);
    bool since = !written.granule || written.lost >= question || found_since(question, offset, size);
    pthread_mutex_unlock(&written.lock);
    return since;
}
