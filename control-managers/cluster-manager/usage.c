/* usage.c: see usage.h. */
#include "control-managers/cluster-manager/usage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/usage_state.h"

enum { SAVE_MS = 2000, SAVES = 64, ROW_SAVE_SECONDS = 60, FOLD_ROWS = 256 };
static const int64_t second_us = 1000000, day_us = 86400 * INT64_C(1000000);

struct usage *usage_create(void) { return calloc(1, sizeof(struct usage)); }

void usage_free(struct usage *usage)
{
    if (!usage)
        return;
    loop_timer_stop(&usage->save);
    for (size_t i = 0; i < usage->count; i++)
        free(usage->rows[i]);
    free(usage->rows);
    void **totals = map_values(&usage->totals);
    for (size_t i = 0; totals && i < usage->totals.count; i++)
        free(totals[i]);
    free(totals);
    map_free(&usage->totals);
    free(usage);
}

/* ---- figures ---- */

enum { FIGURES = sizeof(ctl_figures) / sizeof(u_quad_t) };

static u_quad_t *words(ctl_figures *figures) { return (u_quad_t *)figures; }

static void figures_add(ctl_figures *to, const ctl_figures *more)
{
    const u_quad_t *from = (const u_quad_t *)more;
    for (int i = 0; i < FIGURES; i++)
        words(to)[i] += from[i];
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
    char *end;
    for (int i = 0; i < FIGURES; i++, text = end)
        words(figures)[i] = strtoull(text, &end, 10);
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

/* The server's figures and what they add to the totals, in one batch: the DB has both or neither. */
static void server_save(struct cluster *cluster, struct server *server, bool gone)
{
    struct counted *counted = &server->counted;
    struct counts_for of = totals_of(cluster, server);
    struct db_change changes[1 + TOTALS_OF_SERVER] = { { .action = gone ? DB_DELETE : DB_PUT, .kind = DB_USAGE } };
    struct db_usage *row = &changes[0].row.usage;
    ctl_figures more = counted->all;
    size_t count = 1;
    if (!counted->id)
        counted->id = cluster_new_id(cluster);
    for (int i = 0; i < FIGURES; i++)
        words(&more)[i] -= words(&counted->saved)[i];
    uint64_t sm_us = counted->sm_us - counted->saved_sm_us;
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
    for (size_t i = 0; i < of.count; i++) {
        if (!of.totals[i])
            continue;
        if (i <= FIRST_GPU)
            figures_add(&of.totals[i]->saved, &more);
        of.totals[i]->saved_sm_us += i < FIRST_GPU ? sm_us : sm_us / server->gpu_count;
        changes[count++] = total_row(of.totals[i]);
    }
    counted->saved = counted->all;
    counted->saved_sm_us = counted->sm_us;
    counted->dirty = false;
    store_usage(cluster, changes, count);
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
    counted->accrued = row->accrued;
    counted->unheard = true;
}

void usage_report(struct cluster *cluster, struct server *server, const node_usage *report)
{
    struct counted *counted = &server->counted;
    ctl_figures more = report->figures;
    struct counts_for of = totals_of(cluster, server);
    int64_t now = loop_time();
    bool same = report->epoch == counted->epoch;
    for (int i = 0; i < FIGURES && same; i++)
        words(&more)[i] -= words(&counted->last)[i] < words(&more)[i] ? words(&counted->last)[i] : words(&more)[i];
    /* The server runs tenants' code, and says this itself: no program is busier than all the time. */
    uint64_t most = counted->heard ? (uint64_t)(now - counted->heard) * (server->workers + 1) : more.busy_us;
    more.busy_us = more.busy_us < most ? more.busy_us : most;
    counted->epoch = report->epoch;
    counted->last = report->figures;
    counted->heard = now;
    counted->unheard = false;
    counted->dirty = true;
    figures_add(&counted->all, &more);
    for (size_t i = 0; i <= FIRST_GPU && i < of.count; i++)
        if (of.totals[i])
            figures_add(&of.totals[i]->all, &more);
}

/* ---- usage ---- */

static struct used *row_add(struct usage *usage)
{
    if (usage->count == usage->room) {
        size_t room = usage->room ? 2 * usage->room : 64;
        struct used **rows = realloc(usage->rows, room * sizeof *rows);
        if (!rows)
            return NULL;
        usage->rows = rows;
        usage->room = room;
    }
    struct used *used = calloc(1, sizeof *used);
    if (used)
        usage->rows[usage->count++] = used;
    return used;
}

static void row_save(struct cluster *cluster, struct used *used)
{
    struct db_change change = { .action = DB_PUT, .kind = DB_USAGE };
    change.row.usage = used->row;
    used->unsaved = !store_usage(cluster, &change, 1);
    if (!used->unsaved)
        used->saved = loop_time();
}

void usage_accrue(struct cluster *cluster, struct server *server)
{
    struct counted *counted = &server->counted;
    int64_t now = loop_time(), since = counted->accrued;
    if (cluster->stopping)
        return;
    counted->accrued = now;
    if (!since || now <= since)
        return;
    uint64_t of_gpu = (uint64_t)(now - since) * server->row.sms, sm_us = of_gpu * server->gpu_count;
    size_t sharers = 0;
    for (struct program *program = server->programs; program; program = program->server_next)
        sharers += program->used != NULL;
    for (struct program *program = server->programs; program; program = program->server_next)
        if (program->used) {
            program->used->row.sm_us += sm_us / sharers;
            program->used->row.accrued = now;
            if (server->row.sms > program->used->row.sms)
                program->used->row.sms = server->row.sms;
            if (server->row.memory > program->used->row.memory)
                program->used->row.memory = server->row.memory;
        }
    counted->sm_us += sm_us;
    counted->dirty = true;
    struct counts_for of = totals_of(cluster, server);
    for (size_t i = 0; i < of.count; i++)
        if (of.totals[i])
            of.totals[i]->sm_us += i < FIRST_GPU ? sm_us : of_gpu;
}

/* The row that an earlier run of this manager began. */
static struct used *row_open(struct usage *usage, const struct program *program)
{
    for (size_t i = usage->count; i-- > 0 && usage->open;) {
        struct used *used = usage->rows[i];
        if (used->open && used->row.program == program->id && used->row.server == program->server->row.id) {
            used->open = false;
            usage->open--;
            return used;
        }
    }
    return NULL;
}

void usage_attached(struct cluster *cluster, struct program *program)
{
    struct usage *usage = cluster->usage;
    const struct server *server = program->server;
    int64_t now = loop_time();
    if (program->used)
        return;
    if (!program->server->counted.accrued)
        program->server->counted.accrued = now;
    struct used *used = row_open(usage, program);
    if (used) {
        program->used = used;
        used->program = program;
        return;
    }
    used = row_add(usage);
    if (!used)
        return;
    struct db_usage *row = &used->row;
    *row = (struct db_usage){ .id = cluster_new_id(cluster),
                              .kind = DB_USAGE_PROGRAM,
                              .program = program->id,
                              .server = server->row.id,
                              .uid = program->uid,
                              .sms = server->row.sms,
                              .memory = server->row.memory,
                              .begun = now,
                              .accrued = now,
                              .programs = 1 };
    snprintf(row->vm, sizeof row->vm, "%s", program->vm->row.name);
    snprintf(row->node, sizeof row->node, "%s", server->row.node);
    snprintf(row->gpu, sizeof row->gpu, "%s", server->row.gpus);
    snprintf(row->executable, sizeof row->executable, "%s", program->executable);
    program->used = used;
    used->program = program;
    used->saved = now;
}

static void row_end(struct cluster *cluster, struct used *used, int64_t when, const char *why)
{
    used->row.ended = when;
    used->program = NULL;
    if (used->open)
        cluster->usage->open--;
    used->open = false;
    snprintf(used->row.why, sizeof used->row.why, "%s", why);
    row_save(cluster, used);
}

void usage_detached(struct cluster *cluster, struct program *program, const char *why)
{
    if (!program->used || cluster->stopping)
        return;
    usage_accrue(cluster, program->server);
    row_end(cluster, program->used, loop_time(), why);
    program->used = NULL;
}

/* Rows of an earlier run whose program has ended in between: when, only the last save says. */
static void close_open(struct cluster *cluster, const char *vm, uint64_t server, const char *why)
{
    struct usage *usage = cluster->usage;
    for (size_t i = 0; i < usage->count && usage->open; i++) {
        struct used *used = usage->rows[i];
        if (used->open && (vm ? strcmp(used->row.vm, vm) == 0 : used->row.server == server))
            row_end(cluster, used, used->row.accrued, why);
    }
}

void usage_named(struct cluster *cluster, const struct vm *vm)
{
    close_open(cluster, vm->row.name, 0, "it ended while the cluster manager was away");
}

void usage_server_gone(struct cluster *cluster, struct server *server)
{
    if (cluster->stopping)
        return;
    usage_accrue(cluster, server);
    close_open(cluster, NULL, server->row.id, "its GPU server has gone");
    server_save(cluster, server, true);
}

/* ---- from the DB, and to it ---- */

void usage_load(struct cluster *cluster, const struct db_usage *row)
{
    if (row->kind == DB_USAGE_TOTAL) {
        total_load(cluster, row);
    } else if (row->kind == DB_USAGE_SERVER) {
        server_load(cluster, row);
    } else {
        struct used *used = row_add(cluster->usage);
        if (!used)
            return;
        used->row = *row;
        used->open = row->kind == DB_USAGE_PROGRAM && !row->ended;
        cluster->usage->open += used->open;
    }
    if (row->id >= cluster->next_id)
        cluster->next_id = row->id + 1;
}

static struct used *day_find(struct usage *usage, const struct db_usage *row, int64_t day)
{
    for (size_t i = 0; i < usage->count; i++) {
        const struct db_usage *other = &usage->rows[i]->row;
        if (other->kind == DB_USAGE_DAY && other->ended / day_us == day && other->uid == row->uid &&
            strcmp(other->vm, row->vm) == 0 && strcmp(other->gpu, row->gpu) == 0)
            return usage->rows[i];
    }
    return NULL;
}

/* The row becomes part of its day's sum; the DB has both changes or neither. false: no memory. */
static bool fold(struct cluster *cluster, struct used *used)
{
    struct db_usage *row = &used->row;
    struct used *day = day_find(cluster->usage, row, row->ended / day_us);
    struct db_change changes[] = { { .action = DB_PUT, .kind = DB_USAGE }, { .action = DB_DELETE, .kind = DB_USAGE } };
    changes[1].row.usage.id = row->id;
    if (!day) {
        day = row_add(cluster->usage);
        if (!day)
            return false;
        day->row = *row;
        day->row.id = cluster_new_id(cluster);
        day->row.kind = DB_USAGE_DAY;
        day->row.program = day->row.server = 0;
        *day->row.executable = *day->row.why = '\0';
    } else {
        struct db_usage *sum = &day->row;
        sum->sm_us += row->sm_us;
        sum->programs += row->programs;
        sum->sms = row->sms > sum->sms ? row->sms : sum->sms;
        sum->memory = row->memory > sum->memory ? row->memory : sum->memory;
        sum->begun = row->begun < sum->begun ? row->begun : sum->begun;
        sum->ended = row->ended > sum->ended ? row->ended : sum->ended;
    }
    changes[0].row.usage = day->row;
    store_usage(cluster, changes, 2);
    return true;
}

static void drop(struct cluster *cluster, size_t at)
{
    struct usage *usage = cluster->usage;
    free(usage->rows[at]);
    memmove(usage->rows + at, usage->rows + at + 1, (usage->count - at - 1) * sizeof *usage->rows);
    usage->count--;
}

/* A few rows each time, all of them in turn: nobody waits for it. */
static void grow_old(struct cluster *cluster)
{
    struct usage *usage = cluster->usage;
    int64_t now = loop_time();
    int64_t detail = now - (int64_t)(cluster->values->detail_days * 86400) * second_us;
    int64_t kept = now - (int64_t)(cluster->values->keep_days * 86400) * second_us;
    size_t looked = usage->count < FOLD_ROWS ? usage->count : FOLD_ROWS;
    for (size_t n = 0; n < looked && usage->count; n++) {
        usage->next_row %= usage->count;
        size_t i = usage->next_row;
        struct used *used = usage->rows[i];
        const struct db_usage *row = &used->row;
        bool many = usage->count > USAGE_MOST_ROWS && row->kind == DB_USAGE_PROGRAM;
        if (row->ended && row->ended < kept) {
            struct db_change gone = { .action = DB_DELETE, .kind = DB_USAGE };
            gone.row.usage.id = row->id;
            store_usage(cluster, &gone, 1);
            drop(cluster, i);
        } else if (row->kind == DB_USAGE_PROGRAM && row->ended && (row->ended < detail || many) &&
                   fold(cluster, used)) {
            drop(cluster, i);
        } else {
            usage->next_row++;
        }
    }
}

static void save(struct loop_timer *timer, void *context)
{
    struct cluster *cluster = context;
    struct usage *usage = cluster->usage;
    size_t saved = 0, count = cluster->servers.count, looked = 0;
    if (!store_has_room(cluster)) { /* what was counted stays dirty, and is written when the resource DB follows */
        loop_timer_start(cluster->loop, timer, SAVE_MS, save, cluster);
        return;
    }
    for (; looked < count && saved < SAVES; looked++) {
        struct server *server = map_at(&cluster->servers, (usage->next_server + looked) % count);
        usage_accrue(cluster, server);
        if (server->counted.dirty && ++saved)
            server_save(cluster, server, false);
    }
    usage->next_server = count ? (usage->next_server + looked) % count : 0;
    int64_t due = loop_time() - ROW_SAVE_SECONDS * second_us;
    saved = 0;
    for (size_t i = usage->count; i-- > 0 && saved < SAVES;) {
        struct used *used = usage->rows[i];
        if ((used->unsaved || (used->program && used->saved < due)) && ++saved)
            row_save(cluster, used);
    }
    grow_old(cluster);
    loop_timer_start(cluster->loop, timer, SAVE_MS, save, cluster);
}

void usage_end(struct cluster *cluster)
{
    struct usage *usage = cluster->usage;
    if (!usage || !cluster->loaded)
        return;
    for (size_t i = 0; i < cluster->servers.count; i++) {
        struct server *server = map_at(&cluster->servers, i);
        usage_accrue(cluster, server);
        if (server->counted.dirty)
            server_save(cluster, server, false);
    }
    for (size_t i = 0; i < usage->count; i++)
        if (usage->rows[i]->program)
            row_save(cluster, usage->rows[i]);
}

void usage_begin(struct cluster *cluster)
{
    loop_timer_start(cluster->loop, &cluster->usage->save, SAVE_MS, save, cluster);
}
