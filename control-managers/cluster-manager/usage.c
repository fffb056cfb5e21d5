/* usage.c: see usage.h. */
#include "control-managers/cluster-manager/usage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control-managers/cluster-manager/usage_state.h"

/* A turn of saving goes on in slices, so that nobody waits for it long. */
enum { SAVE_MS = 2000, FRESH_MS = 200, SAVES = 64, SERVER_ROWS = 32, SLICE_NS = 1000000, SLICE_MS = 10 };

struct usage *usage_create(void) { return calloc(1, sizeof(struct usage)); }

/* ---- the clock ---- */

static const int64_t step_us = 1000000, day_us = 86400 * INT64_C(1000000), outage_us = 7 * 86400 * INT64_C(1000000);

static int64_t since_boot(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Moves what is known of those that go on: only the time that has really passed is charged. */
static void follow_clock(struct usage *usage, int64_t step)
{
    for (size_t i = 0; i < usage->cluster->servers.count; i++) {
        struct server *server = map_at(&usage->cluster->servers, i);
        struct counted *counted = &server->counted;
        counted->accrued += counted->accrued ? step : 0;
        counted->heard += counted->heard ? step : 0;
        counted->divide_from += step;
        counted->divide_until += step;
        for (struct used *used = counted->rows; used; used = used->next) {
            used->row.accrued += step;
            used->row.begun += used->row.begun > used->row.accrued ? step : 0; /* it began since a step before */
            used->attached += step;
            used->lingers_since += step;
            used->left += used->left ? step : 0;
            used->idle += step;
            used->idle_until += step;
            used->ends += used->ends ? step : 0;
            used->gone += used->gone ? step : 0;
            for (unsigned n = 0; n < used->pasts; n++)
                used->past[n].when += step;
        }
    }
}

int64_t usage_now(struct usage *usage)
{
    struct usage_clock *clock = &usage->clock;
    int64_t now = loop_time(), boot = since_boot();
    int64_t step = clock->boot ? now - clock->now - (boot - clock->boot) : 0;
    clock->now = now;
    clock->boot = boot;
    if (usage->cluster && (step > step_us || step < -step_us)) {
        clock->off += step;
        clock->since = boot;
        follow_clock(usage, step);
    }
    return now;
}

bool usage_knows_the_day(struct usage *usage)
{
    struct usage_clock *clock = &usage->clock;
    usage_now(usage);
    if (clock->boot - clock->since >= day_us)
        clock->off = 0;
    return clock->off <= day_us && clock->off >= -day_us;
}

/* By what was written last: the clock may have been set while this manager was away. */
static void look_at_clock(struct cluster *cluster)
{
    struct usage *usage = cluster->usage;
    int64_t last = usage->clock.written;
    for (size_t i = 0; i < cluster->nodes.count; i++) {
        const struct node *node = map_at(&cluster->nodes, i);
        last = node->row.last_heard > last ? node->row.last_heard : last;
    }
    usage->cluster = cluster;
    usage->clock.off = last ? usage_now(usage) - last : 0;
    usage->clock.since = since_boot();
}

static void free_values(struct map *map)
{
    void **values = map_values(map);
    for (size_t i = 0; values && i < map->count; i++)
        free(values[i]);
    free(values);
    map_free(map);
}

void usage_free(struct usage *usage)
{
    if (!usage)
        return;
    loop_timer_stop(&usage->save);
    loop_timer_stop(&usage->save_fresh);
    loop_timer_stop(&usage->grow_old);
    for (size_t i = 0; i < usage->count; i++)
        free(usage->rows[i]);
    free(usage->rows);
    free_values(&usage->totals);
    free_values(&usage->vms);
    map_free(&usage->days);
    map_free(&usage->going_on);
    map_free(&usage->programs);
    map_free(&usage->lost);
    free(usage);
}

/* ---- figures ---- */

enum { FIGURES = sizeof(ctl_figures) / sizeof(u_quad_t) };

static u_quad_t *words(ctl_figures *figures) { return (u_quad_t *)figures; }

/* They do not fall, whatever a server says: at their end they stand still. */
static void figures_add(ctl_figures *to, const ctl_figures *more)
{
    const u_quad_t *from = (const u_quad_t *)more, end = UINT64_MAX / 2;
    for (int i = 0; i < FIGURES; i++)
        words(to)[i] = from[i] > end || words(to)[i] > end - from[i] ? end : words(to)[i] + from[i];
}

/* A server runs tenants' code, and says itself what it did, and nodes and GPUs count it with what others did. So it did
   no more in the time than a server can do: so many calls, launches, errors, so many bytes, and no program is busier
   than all the time. */
static void figures_bound(ctl_figures *figures, uint64_t us, uint32_t workers)
{
    const uint64_t seconds = us / 1000000 + 1, things = 100000000 * seconds, bytes = UINT64_C(10000000000000) * seconds;
    const uint64_t busy = us * (workers + 1);
    for (int i = 0; i < FIGURES; i++) {
        u_quad_t *word = &words(figures)[i];
        bool of_bytes = word == &figures->bytes_in || word == &figures->bytes_out || word == &figures->bytes_between;
        uint64_t most = word == &figures->busy_us ? busy : of_bytes ? bytes : things;
        *word = *word < most ? *word : most;
    }
}

static void figures_write(const ctl_figures *figures, char *text, size_t size)
{
    const u_quad_t *from = (const u_quad_t *)figures;
    size_t at = 0;
    for (int i = 0; i < FIGURES && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%" PRIu64, i ? " " : "", (uint64_t)from[i]);
}

static void figures_read(const char *text, ctl_figures *figures)
{
    for (int i = 0; i < FIGURES; i++) {
        uint64_t number = 0;
        while (*text == ' ')
            text++;
        for (; *text >= '0' && *text <= '9'; text++) /* a restart reads millions of digits */
            number = number * 10 + (uint64_t)(*text - '0');
        words(figures)[i] = number;
    }
}

/* ---- totals ---- */

static void total_key(enum total_of of, const char *name, char key[TOTAL_KEY_SIZE])
{
    static const char letters[] = { [TOTAL_VM] = 'v', [TOTAL_NODE] = 'n', [TOTAL_GPU] = 'g' };
    snprintf(key, TOTAL_KEY_SIZE, "%c %s", letters[of], name);
}

/* NULL: no memory. id 0: it is new. */
static struct total *total_make(struct cluster *cluster, enum total_of of, const char *name, uint64_t id)
{
    char key[TOTAL_KEY_SIZE];
    total_key(of, name, key);
    struct total *total = map_get(&cluster->usage->totals, key);
    if (total)
        return total;
    total = calloc(1, sizeof *total);
    if (!total || !map_put(&cluster->usage->totals, key, total)) {
        free(total);
        return NULL;
    }
    follow_add(&cluster->follow, &total->followed, ADMIN_NEWS_TOTAL);
    total->of = of;
    total->id = id ? id : cluster_new_id(cluster);
    snprintf(total->name, sizeof total->name, "%s", name);
    return total;
}

/* Those that a server counts for: its VM, its node, its GPUs. Of several GPUs the first one has what the server has
   done, so that the sums are right; each of them has its SMs. */
struct counts_for {
    struct total *totals[TOTALS_OF_SERVER];
    size_t count;
};
enum { FIRST_GPU = 2 };

static struct counts_for totals_of(struct cluster *cluster, const struct server *server)
{
    struct counts_for for_them = { .count = FIRST_GPU + server->gpu_count };
    for_them.totals[0] = total_make(cluster, TOTAL_VM, server->row.vm, 0);
    for_them.totals[1] = total_make(cluster, TOTAL_NODE, server->row.node, 0);
    for (size_t i = 0; i < server->gpu_count; i++)
        for_them.totals[FIRST_GPU + i] = total_make(cluster, TOTAL_GPU, server->gpus[i]->id, 0);
    return for_them;
}

static struct db_change total_row(const struct total *total)
{
    struct db_change change = { .action = DB_PUT, .kind = DB_USAGE };
    struct db_usage *row = &change.row.usage;
    char *names[] = { [TOTAL_VM] = row->vm, [TOTAL_NODE] = row->node, [TOTAL_GPU] = row->gpu };
    row->id = total->id;
    row->kind = DB_USAGE_TOTAL;
    row->sm_us = total->saved_sm_us;
    snprintf(names[total->of], DB_NAME_SIZE, "%s", total->name);
    figures_write(&total->saved, row->figures, sizeof row->figures);
    return change;
}

/* Of a server that changes[] is to be given, and its row there. */
static void server_row(const struct server *server, struct db_usage *row)
{
    const struct counted *counted = &server->counted;
    row->id = counted->id;
    row->kind = DB_USAGE_SERVER;
    row->server = server->row.id;
    row->epoch = counted->epoch;
    row->sm_us = counted->sm_us;
    row->accrued = counted->accrued;
    figures_write(&counted->all, row->figures, sizeof row->figures);
    size_t at = strlen(row->figures); /* the last report of this process stands behind them */
    row->figures[at++] = ' ';
    figures_write(&counted->last, row->figures + at, sizeof row->figures - at);
}

/* Adds to the totals what the server has done since it was saved last; their rows. How many. */
static size_t add_to_totals(struct cluster *cluster, const struct server *server, struct db_change *changes,
                            struct counts_for *of)
{
    const struct counted *counted = &server->counted;
    ctl_figures more = counted->all;
    uint64_t sm_us = counted->sm_us - counted->saved_sm_us;
    size_t count = 0;
    *of = totals_of(cluster, server);
    for (int i = 0; i < FIGURES; i++)
        words(&more)[i] -= ((const u_quad_t *)&counted->saved)[i];
    for (size_t i = 0; i < of->count; i++) {
        if (!of->totals[i])
            continue;
        if (i <= FIRST_GPU)
            figures_add(&of->totals[i]->saved, &more);
        of->totals[i]->saved_sm_us += i < FIRST_GPU ? sm_us : sm_us / server->gpu_count;
        changes[count++] = total_row(of->totals[i]);
    }
    return count;
}

/* The server's figures, what they add to the totals, and the rows of its programs, in one batch: the DB has all or
   nothing. */
static void server_save(struct cluster *cluster, struct server *server, bool gone)
{
    struct counted *counted = &server->counted;
    struct counts_for of;
    static struct db_change changes[1 + TOTALS_OF_SERVER + SERVER_ROWS]; /* only this thread's */
    size_t count = 1, rows = 0;
    changes[0] = (struct db_change){ .action = gone ? DB_DELETE : DB_PUT, .kind = DB_USAGE };
    if (!counted->id)
        counted->id = cluster_new_id(cluster);
    server_row(server, &changes[0].row.usage);
    count += add_to_totals(cluster, server, changes + 1, &of);
    struct used *used = counted->rows;
    for (; used && rows < SERVER_ROWS; used = used->next, rows++) {
        changes[count] = (struct db_change){ .action = DB_PUT, .kind = DB_USAGE };
        changes[count++].row.usage = used->row;
    }
    counted->saved = counted->all;
    counted->saved_sm_us = counted->sm_us;
    counted->dirty = false;
    bool taken = store_usage(cluster, changes, count);
    for (size_t i = 0; i < of.count; i++)
        if (of.totals[i])
            of.totals[i]->unsaved = !taken;
    used = counted->rows;
    for (; used && rows; used = used->next, rows--) {
        used->unsaved = !taken;
        used->stored |= taken;
    }
    for (; used; used = used->next)
        usage_save_row(cluster, used);
}

static void total_load(struct cluster *cluster, const struct db_usage *row)
{
    enum total_of of = *row->vm ? TOTAL_VM : *row->node ? TOTAL_NODE : TOTAL_GPU;
    struct total *total = total_make(cluster, of, *row->vm ? row->vm : *row->node ? row->node : row->gpu, row->id);
    if (!total)
        return;
    figures_read(row->figures, &total->saved);
    total->all = total->saved;
    total->sm_us = total->saved_sm_us = row->sm_us;
}

static void server_load(struct cluster *cluster, const struct db_usage *row)
{
    struct server *server = map_get_id(&cluster->servers, row->server);
    struct db_change gone = { .action = DB_DELETE, .kind = DB_USAGE };
    gone.row.usage.id = row->id;
    if (!server) {
        store_usage(cluster, &gone, 1);
        return;
    }
    struct counted *counted = &server->counted;
    const char *last = row->figures;
    figures_read(row->figures, &counted->saved);
    for (int i = 0; i < FIGURES && last; i++)
        last = strchr(last + 1, ' ');
    figures_read(last ? last : "", &counted->last);
    counted->all = counted->saved;
    counted->id = row->id;
    counted->epoch = row->epoch;
    counted->sm_us = counted->saved_sm_us = row->sm_us;
    int64_t now = loop_time(); /* the clock may have been set meanwhile */
    counted->accrued = row->accrued < now ? row->accrued : now;
    if (counted->accrued && counted->accrued < now - outage_us)
        counted->accrued = now - outage_us;
    counted->unheard = counted->behind = true;
}

void usage_report(struct cluster *cluster, struct server *server, const node_usage *report)
{
    struct counted *counted = &server->counted;
    ctl_figures more = report->figures;
    struct counts_for of = totals_of(cluster, server);
    usage_divide_server(cluster, server);
    int64_t now = usage_now(cluster->usage);
    bool same = report->epoch == counted->epoch;
    for (int i = 0; i < FIGURES && same; i++)
        words(&more)[i] -= words(&counted->last)[i] < words(&more)[i] ? words(&counted->last)[i] : words(&more)[i];
    const int64_t since = counted->heard ? counted->heard : server->row.created;
    figures_bound(&more, now > since ? (uint64_t)(now - since) : 0, server->workers);
    counted->epoch = report->epoch;
    counted->last = report->figures;
    counted->heard = now;
    counted->unheard = false;
    counted->behind = false; /* the node reports who has left before it reports figures */
    counted->dirty = true;
    figures_add(&counted->all, &more);
    for (size_t i = 0; i <= FIRST_GPU && i < of.count; i++)
        if (of.totals[i])
            figures_add(&of.totals[i]->all, &more);
}

void usage_report_program(struct cluster *cluster, struct server *server, const node_program *report)
{
    struct used *used = map_get_id(&server->counted.by_program, report->prog);
    ctl_figures more = report->figures;
    if (!used)
        return;
    const int64_t now = usage_now(cluster->usage), since = used->heard ? used->heard : used->row.begun;
    for (int i = 0; i < FIGURES; i++)
        words(&more)[i] -= words(&used->said)[i] < words(&more)[i] ? words(&used->said)[i] : words(&more)[i];
    figures_bound(&more, now > since ? (uint64_t)(now - since) : 0, server->workers);
    figures_add(&used->did, &more);
    used->said = report->figures;
    used->memory = report->memory;
    used->heard = now;
}

/* ---- usage ---- */

/* A server with more than FEW programs is charged in steps of STEP_US, at least. So programs that come and go at once,
   however many, cost one look at its rows and not one each. */
enum { FEW = 64, STEP_US = 10000 };

static int64_t step_of(const struct counted *counted) { return counted->by_program.count > FEW ? STEP_US : 0; }

/* When the next program began to use the server, more than a step after `from`; `until` if none did before. */
static int64_t next_begin(const struct counted *counted, int64_t from, int64_t until)
{
    const int64_t begun = from + step_of(counted);
    for (const struct used *used = counted->rows; used; used = used->next)
        if (used->row.accrued > begun && used->row.accrued < until)
            until = used->row.accrued;
    return until;
}

/* Equal parts for those who have been there all that time, or all but a step, and whom a worker serves, or may serve;
   for all of them where there are none of these. What cannot be divided is for the next time. */
static void share_out(struct counted *counted, int64_t from, uint64_t sm_us)
{
    const int64_t begun = from + step_of(counted);
    size_t there = 0, served = 0;
    for (const struct used *used = counted->rows; used; used = used->next) {
        there += used->row.accrued <= begun;
        served += used->row.accrued <= begun && !used->left;
    }
    if (!there)
        return;
    const size_t sharers = served ? served : there;
    sm_us += counted->undivided;
    for (struct used *used = counted->rows; used; used = used->next)
        if (used->row.accrued <= begun && (!used->left || !served))
            used->row.sm_us += sm_us / sharers;
    counted->undivided = sm_us % sharers;
}

static void note_past(struct used *used)
{
    if (!used->pasts || used->row.accrued - used->past[used->pasts - 1].when >= PAST_US)
        usage_note_past(used, used->row.accrued, used->row.sm_us);
}

static void accrue(struct cluster *cluster, struct server *server, int64_t when)
{
    struct counted *counted = &server->counted;
    int64_t since = counted->accrued;
    if (when < since)
        return;
    counted->accrued = when;
    if (!since || when == since)
        return;
    uint64_t sms = (uint64_t)server->row.sms * server->gpu_count, of_gpu = (uint64_t)(when - since) * server->row.sms;
    for (int64_t from = since, to; from < when; from = to) {
        to = next_begin(counted, from, when);
        share_out(counted, from, (uint64_t)(to - from) * sms);
    }
    for (struct used *used = counted->rows; used; used = used->next) {
        struct db_usage *row = &used->row;
        row->accrued = row->accrued > when ? row->accrued : when;
        note_past(used);
        row->sms = server->row.sms > row->sms ? server->row.sms : row->sms;
        row->memory = server->row.memory > row->memory ? server->row.memory : row->memory;
    }
    counted->sm_us += of_gpu * server->gpu_count;
    counted->dirty = true;
    struct counts_for of = totals_of(cluster, server);
    for (size_t i = 0; i < of.count; i++)
        if (of.totals[i])
            of.totals[i]->sm_us += i < FIRST_GPU ? of_gpu * server->gpu_count : of_gpu;
}

void usage_accrue_until(struct cluster *cluster, struct server *server, int64_t when)
{
    if (when - server->counted.accrued >= step_of(&server->counted))
        accrue(cluster, server, when);
}

void usage_divide_server(struct cluster *cluster, struct server *server)
{
    struct counted *counted = &server->counted;
    struct server **at = &cluster->usage->to_divide;
    if (!counted->divides)
        return;
    while (*at != server)
        at = &(*at)->counted.divide_next;
    *at = counted->divide_next;
    counted->divides = false;
    usage_accrue_until(cluster, server, counted->divide_until);
    usage_share_again(server, counted->divide_from);
    usage_end_left(cluster, server);
}

void usage_divide(struct cluster *cluster)
{
    while (cluster->usage->to_divide)
        usage_divide_server(cluster, cluster->usage->to_divide);
}

/* Charges nothing while a node still has to report which programs have left, and when. */
void usage_accrue(struct cluster *cluster, struct server *server)
{
    if (cluster->stopping)
        return;
    usage_divide_server(cluster, server);
    if (!server->counted.behind)
        usage_accrue_until(cluster, server, usage_now(cluster->usage));
}

void usage_settle(struct cluster *cluster, struct server *server)
{
    size_t there = 0, served = 0;
    if (cluster->stopping)
        return;
    usage_divide_server(cluster, server);
    accrue(cluster, server, usage_now(cluster->usage));
    server->counted.behind = false;
    for (const struct used *used = server->counted.rows; used; used = used->next) {
        there++;
        served += !used->left;
    }
    for (struct used *used = server->counted.rows; used && !server->node->registered; used = used->next) {
        const bool shares = !served || !used->left;
        double all = (double)server->row.sms * (double)server->gpu_count;
        usage_set_rate(cluster->usage, used, shares ? all / (double)(served ? served : there) : 0);
    }
}

void usage_add_to_totals(struct cluster *cluster, const struct db_usage *row, uint64_t sm_us)
{
    char gpus[DB_GPUS_SIZE], *rest = gpus, *gpu;
    size_t count = 1;
    snprintf(gpus, sizeof gpus, "%s", row->gpu);
    for (const char *at = gpus; (at = strchr(at, ',')); at++)
        count++;
    struct total *vm = total_make(cluster, TOTAL_VM, row->vm, 0), *node = total_make(cluster, TOTAL_NODE, row->node, 0);
    struct total *both[] = { vm, node };
    for (int i = 0; i < 2; i++)
        if (both[i]) {
            both[i]->sm_us += sm_us;
            both[i]->saved_sm_us += sm_us;
            both[i]->unsaved = true;
        }
    while ((gpu = strsep(&rest, ","))) {
        struct total *total = total_make(cluster, TOTAL_GPU, gpu, 0);
        if (!total)
            continue;
        total->sm_us += sm_us / count;
        total->saved_sm_us += sm_us / count;
        total->unsaved = true;
    }
}

void usage_server_gone(struct cluster *cluster, struct server *server)
{
    if (cluster->stopping)
        return;
    usage_divide_server(cluster, server);
    accrue(cluster, server, usage_now(cluster->usage));
    usage_end_rows(cluster, server, "lost: its GPU server has gone");
    server_save(cluster, server, true);
}

/* ---- from the DB, and to it ---- */

void usage_load(struct cluster *cluster, const struct db_usage *row)
{
    if (row->kind == DB_USAGE_TOTAL)
        total_load(cluster, row);
    else if (row->kind == DB_USAGE_SERVER)
        server_load(cluster, row);
    else
        usage_load_row(cluster, row);
    int64_t last = row->accrued > row->ended ? row->accrued : row->ended;
    struct usage_clock *clock = &cluster->usage->clock;
    clock->written = last > clock->written ? last : clock->written;
    if (row->id >= cluster->next_id)
        cluster->next_id = row->id + 1;
}

/* Whether there is time to look at one more; what comes and goes between two slices is looked at in the next turn. */
static bool goes_on(const struct usage_turn *saving, size_t count, uint64_t until)
{
    return saving->looked < count && saving->saved < SAVES && uv_hrtime() < until;
}

static bool is_through(const struct usage_turn *saving, size_t count)
{
    return saving->looked >= count || saving->saved >= SAVES;
}

static bool save_servers(struct cluster *cluster, struct usage_turn *saving, uint64_t until)
{
    struct usage *usage = cluster->usage;
    size_t count = cluster->servers.count;
    for (; goes_on(saving, count, until); saving->looked++) {
        struct server *server = map_at(&cluster->servers, (usage->next_server + saving->looked) % count);
        usage_accrue(cluster, server);
        usage_ask(cluster, server);
        if (server->counted.dirty && ++saving->saved)
            server_save(cluster, server, false);
    }
    if (!is_through(saving, count))
        return false;
    usage->next_server = count ? (usage->next_server + saving->looked) % count : 0;
    return true;
}

static bool save_totals(struct cluster *cluster, struct usage_turn *saving, uint64_t until)
{
    struct map *totals = &cluster->usage->totals;
    for (; goes_on(saving, totals->count, until); saving->looked++) {
        struct total *total = map_at(totals, saving->looked);
        if (!total->unsaved)
            continue;
        struct db_change change = total_row(total);
        total->unsaved = !store_usage(cluster, &change, 1);
        saving->saved++;
    }
    return is_through(saving, totals->count);
}

/* One that goes on is saved with its server, so that both are of one moment. False: there is nothing to save. */
static bool save_row(struct cluster *cluster, struct used *used)
{
    if (!used || !used->unsaved)
        return false;
    struct server *server = used->back ? map_get_id(&cluster->servers, used->row.server) : NULL;
    if (server) {
        usage_accrue(cluster, server);
        server_save(cluster, server, false);
    } else {
        usage_save_row(cluster, used);
    }
    return true;
}

/* The newest first. */
static bool save_rows(struct cluster *cluster, struct usage_turn *saving, uint64_t until)
{
    const struct usage *usage = cluster->usage;
    for (; goes_on(saving, usage->count, until); saving->looked++) {
        struct used *used = usage->rows[usage->count - 1 - saving->looked];
        if (used && used->lingers)
            usage_show_served(cluster, used);
        saving->saved += save_row(cluster, used);
    }
    return is_through(saving, usage->count);
}

/* A program that starts is known soon, so that a crash of this manager does not lose it. */
static void save_fresh(struct loop_timer *timer, void *context)
{
    struct cluster *cluster = context;
    struct usage *usage = cluster->usage;
    uint64_t until = uv_hrtime() + SLICE_NS;
    if (!store_has_room(cluster))
        return;
    while (usage->fresh < usage->count && uv_hrtime() < until)
        save_row(cluster, usage->rows[usage->fresh++]);
    if (usage->fresh < usage->count)
        loop_timer_start(cluster->loop, timer, SLICE_MS, save_fresh, cluster);
}

void usage_save_soon(struct cluster *cluster)
{
    struct usage *usage = cluster->usage;
    if (loop_timer_running(&usage->save_fresh))
        return;
    usage->fresh = usage->count - 1;
    loop_timer_start(cluster->loop, &usage->save_fresh, FRESH_MS, save_fresh, cluster);
}

static void grow_old(struct loop_timer *timer, void *context)
{
    (void)timer;
    usage_grow_old(context);
}

static void save(struct loop_timer *timer, void *context)
{
    static bool (*const parts[])(struct cluster *, struct usage_turn *, uint64_t) = { save_servers, save_rows,
                                                                                     save_totals };
    enum { PARTS = sizeof parts / sizeof *parts };
    struct cluster *cluster = context;
    struct usage *usage = cluster->usage;
    struct usage_turn *saving = &usage->saving;
    uint64_t until = uv_hrtime() + SLICE_NS;
    /* Without room, what was counted stays dirty, and is written when the resource DB follows. */
    bool has_room = store_has_room(cluster);
    while (has_room && saving->part < PARTS && parts[saving->part](cluster, saving, until))
        *saving = (struct usage_turn){ .part = saving->part + 1 };
    if (has_room && saving->part < PARTS) {
        loop_timer_start(cluster->loop, timer, SLICE_MS, save, cluster);
        return;
    }
    *saving = (struct usage_turn){ 0 };
    loop_timer_start(cluster->loop, timer, SAVE_MS, save, cluster);
    if (has_room)
        loop_timer_start(cluster->loop, &usage->grow_old, 1, grow_old, cluster); /* others have their turn before */
}

void usage_end(struct cluster *cluster)
{
    if (!cluster->usage || !cluster->loaded)
        return;
    for (size_t i = 0; i < cluster->servers.count; i++) {
        struct server *server = map_at(&cluster->servers, i);
        usage_accrue(cluster, server);
        if (server->counted.dirty || server->counted.rows)
            server_save(cluster, server, false);
    }
}

void usage_begin(struct cluster *cluster)
{
    look_at_clock(cluster);
    cluster->usage->first_id = cluster->next_id;
    loop_timer_start(cluster->loop, &cluster->usage->save, SAVE_MS, save, cluster);
}
