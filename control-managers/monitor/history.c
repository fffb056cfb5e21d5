/* history.c: see history.h. */
#include "control-managers/monitor/history.h"

#include <time.h>

enum { KEPT = 1440, STEP_SECONDS = 60 };

bool history_begin(struct history *history)
{
    *history = (struct history){ .points = json_array() };
    return history->points != NULL;
}

void history_end(struct history *history) { json_decref(history->points); }

static double monotonic(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* What programs hold on all GPU servers. */
static json_int_t memory_held(struct monitor_mirror *mirror)
{
    const struct mirrored *one;
    json_int_t sum = 0;
    for (size_t i = 0; (one = map_at(&mirror->tables[ADMIN_NEWS_SERVER], i)); i++)
        sum += json_integer_value(json_object_get(one->row, "memory_used"));
    return sum;
}

/* Microseconds in which work was under way, of all programs. */
static uint64_t busy_us(struct monitor_mirror *mirror)
{
    const struct mirrored *one;
    uint64_t sum = 0;
    for (size_t i = 0; (one = map_at(&mirror->tables[ADMIN_NEWS_TOTAL], i)); i++)
        if (one->of == ADMIN_TOTAL_NODE && one->work.known)
            sum += one->work.figures.busy_us;
    return sum;
}

/* So many programs had work under way, on average, since the point before. null: it is not known, since there is none,
   or the figures of a node that is away are missing now. */
static json_t *busy_since(const struct history *history, uint64_t sum, double now)
{
    if (!history->busy_at || sum < history->busy_us || now - history->busy_at < 1)
        return json_null();
    return json_real((double)(sum - history->busy_us) / 1e6 / (now - history->busy_at));
}

json_t *history_add(struct history *history, const json_t *status, struct monitor_mirror *mirror)
{
    static const char *const keys[] = { "sms", "sms_used", "memory", "memory_used", "servers", "programs", "waiting" };
    const time_t now = time(NULL);
    const double moment = monotonic();
    const uint64_t sum = busy_us(mirror);
    json_t *point = json_pack("{s:I}", "time", (json_int_t)now), *all;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(point, keys[i], json_object_get(status, keys[i]));
    json_object_set_new(point, "memory_held", json_integer(memory_held(mirror)));
    json_object_set_new(point, "busy", busy_since(history, sum, moment));
    if (now >= history->next) {
        history->next = now + STEP_SECONDS;
        history->busy_us = sum;
        history->busy_at = moment;
        if (json_array_size(history->points) == KEPT)
            json_array_remove(history->points, 0);
        json_array_append(history->points, point);
        json_decref(point);
        return json_incref(history->points);
    }
    all = json_copy(history->points);
    json_array_append_new(all, point);
    return all;
}
