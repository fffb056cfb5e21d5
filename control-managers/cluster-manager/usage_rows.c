/* usage_rows.c: who used what: a row for each program on each server, and sums of days. See usage.h, usage_state.h. */
#include "control-managers/cluster-manager/usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/cluster-manager/usage_state.h"

enum {
    LOOK_NS = 2000000,
    FOLD_AT_ONCE = 2,
    MOST_WORKERS = 4096,
    ASK_AT_ONCE = 64,
    READ_MS = 30000,
    DAY_KEY_SIZE = DB_NAME_SIZE + DB_GPUS_SIZE + 40,
    LOST_KEY_SIZE = 48
};
/* A node reports every 10 s which programs its workers serve. After this time its first report is overdue. */
static const int64_t ask_after_us = 12000000;
static const int64_t second_us = 1000000, day_us = 86400 * INT64_C(1000000);
static const char away[] = "exit: it ended while the cluster manager was away";

/* ---- the array and the lists ---- */

/* NULL: no memory. */
static struct used_vm *vm_of(struct usage *usage, const char *name)
{
    struct used_vm *vm = map_get(&usage->vms, name);
    if (vm)
        return vm;
    vm = calloc(1, sizeof *vm);
    if (!vm || !map_put(&usage->vms, name, vm)) {
        free(vm);
        return NULL;
    }
    vm->last = &vm->first;
    return vm;
}

static struct used *row_add(struct usage *usage, const struct db_usage *row)
{
    struct used_vm *vm = vm_of(usage, row->vm);
    if (usage->count == usage->room) {
        size_t room = usage->room ? 2 * usage->room : 64;
        struct used **rows = realloc(usage->rows, room * sizeof *rows);
        if (!rows)
            return NULL;
        usage->rows = rows;
        usage->room = room;
    }
    struct used *used = vm ? calloc(1, sizeof *used) : NULL;
    if (!used)
        return NULL;
    used->row = *row;
    used->at = usage->count;
    usage->rows[usage->count++] = used;
    vm->count++;
    vm->days += row->kind == DB_USAGE_DAY;
    return used;
}

static void list_ended(struct usage *usage, struct used *used)
{
    struct used_vm *vm = vm_of(usage, used->row.vm);
    if (!vm)
        return;
    used->later = NULL;
    used->earlier = vm->last;
    *vm->last = used;
    vm->last = &used->later;
}

static void unlist_ended(struct used_vm *vm, struct used *used)
{
    if (!used->earlier)
        return;
    *used->earlier = used->later;
    if (used->later)
        used->later->earlier = used->earlier;
    else
        vm->last = used->earlier;
    used->earlier = NULL;
}

static void go_on(struct usage *usage, struct server *server, struct used *used)
{
    map_put_id(&usage->going_on, used->row.program, used);
    used->next = server->counted.rows;
    used->back = &server->counted.rows;
    if (used->next)
        used->next->back = &used->next;
    server->counted.rows = used;
    used->on = &server->counted;
    map_put_id(&server->counted.by_program, used->row.program, used);
}

static void day_key(const struct db_usage *row, uint32_t uid, char key[DAY_KEY_SIZE])
{
    snprintf(key, DAY_KEY_SIZE, "%lld %u %s %s", (long long)(row->ended / day_us), (unsigned)uid, row->vm, row->gpu);
}

/* Frees it. It is in no list of a server. */
static void drop(struct usage *usage, struct used *used)
{
    struct used_vm *vm = vm_of(usage, used->row.vm);
    char key[DAY_KEY_SIZE];
    if (used->row.kind == DB_USAGE_DAY) {
        day_key(&used->row, used->row.uid, key);
        if (map_get(&usage->days, key) == used)
            map_remove(&usage->days, key);
    } else if (vm) {
        unlist_ended(vm, used);
    }
    if (vm) {
        vm->count--;
        vm->days -= used->row.kind == DB_USAGE_DAY;
        if (!vm->count)
            free(map_remove(&usage->vms, used->row.vm));
    }
    usage_set_rate(usage, used, 0);
    usage->rows[used->at] = NULL;
    usage->gaps++;
    usage->generation++;
    free(used);
}

static void close_gaps(struct usage *usage)
{
    size_t kept = 0;
    for (size_t i = 0; i < usage->count; i++)
        if (usage->rows[i]) {
            usage->rows[kept] = usage->rows[i];
            usage->rows[kept]->at = kept;
            kept++;
        }
    usage->count = kept;
    usage->gaps = 0;
    usage->generation++;
}

/* ---- sums of days ---- */

static bool is_read(struct cluster *cluster)
{
    return loop_now(cluster->loop) < cluster->usage->read_until;
}

static void add_to_sum(struct db_usage *sum, const struct db_usage *row)
{
    sum->sm_us += row->sm_us;
    sum->programs += row->programs;
    sum->sms = row->sms > sum->sms ? row->sms : sum->sms;
    sum->memory = row->memory > sum->memory ? row->memory : sum->memory;
    sum->begun = row->begun < sum->begun ? row->begun : sum->begun;
    sum->ended = row->ended > sum->ended ? row->ended : sum->ended;
}

/* An empty one. */
static struct used *day_make(struct cluster *cluster, const struct db_usage *row, uint32_t uid, const char *key)
{
    struct db_usage sum = *row;
    sum.id = cluster_new_id(cluster);
    sum.kind = DB_USAGE_DAY;
    sum.program = sum.server = sum.sm_us = 0;
    sum.programs = 0;
    sum.uid = uid;
    *sum.executable = *sum.why = *sum.figures = '\0';
    struct used *day = row_add(cluster->usage, &sum);
    if (day && !map_put(&cluster->usage->days, key, day)) {
        drop(cluster->usage, day);
        day = NULL;
    }
    return day;
}

/* The row becomes part of its day's sum, and is freed. The DB has both changes or neither; of a row that it does not
   have it is given the sum when it can. false: no memory, the DB has too much to do, or it is that sum. */
static bool fold(struct cluster *cluster, struct used *used)
{
    struct usage *usage = cluster->usage;
    struct db_usage *row = &used->row;
    const struct used_vm *vm = vm_of(usage, row->vm);
    uint32_t uid = vm && vm->days > USAGE_VM_ROWS / 2 ? USAGE_SEVERAL : row->uid;
    char key[DAY_KEY_SIZE];
    day_key(row, uid, key);
    struct used *day = map_get(&usage->days, key);
    const bool fresh = !day;
    if (day == used || (!day && !(day = day_make(cluster, row, uid, key))))
        return false;
    struct db_change changes[] = { { .action = DB_PUT, .kind = DB_USAGE }, { .action = DB_DELETE, .kind = DB_USAGE } };
    changes[0].row.usage = day->row;
    changes[1].row.usage.id = row->id;
    add_to_sum(&changes[0].row.usage, row);
    if (used->stored && !store_usage(cluster, changes, 2)) {
        if (fresh)
            drop(usage, day);
        return false;
    }
    day->row = changes[0].row.usage;
    day->stored |= used->stored;
    day->unsaved = !used->stored;
    drop(usage, used);
    return true;
}

/* As many as a VM has too many, and no more than a few: it is done each time that it gets one. `newest`: it has just
   ended; the DB does not have it where it has too much to do. */
static void bound(struct cluster *cluster, struct used *newest)
{
    struct used_vm *vm = vm_of(cluster->usage, newest->row.vm);
    for (int i = 0; vm && i < FOLD_AT_ONCE && vm->count > USAGE_VM_ROWS && vm->first; i++) {
        struct used *oldest = vm->first;
        if (is_read(cluster) || fold(cluster, oldest) || oldest == newest)
            continue;
        if (!newest->stored)
            fold(cluster, newest);
        return;
    }
}

/* ---- programs come and go ---- */

bool usage_save_row(struct cluster *cluster, struct used *used)
{
    struct db_change change = { .action = DB_PUT, .kind = DB_USAGE };
    change.row.usage = used->row;
    used->unsaved = !store_usage(cluster, &change, 1);
    used->stored |= !used->unsaved;
    return !used->unsaved;
}

static void row_end(struct cluster *cluster, struct used *used, int64_t when, const char *why)
{
    char text[DB_HOST_SIZE];
    snprintf(text, sizeof text, "%.200s", why);
    if (used->back) {
        *used->back = used->next;
        if (used->next)
            used->next->back = used->back;
        if (map_get_id(&used->on->by_program, used->row.program) == used)
            map_remove_id(&used->on->by_program, used->row.program);
    }
    used->back = NULL;
    if (map_get_id(&cluster->usage->going_on, used->row.program) == used)
        map_remove_id(&cluster->usage->going_on, used->row.program);
    follow_remove(&cluster->follow, &used->followed, used->row.program, NULL);
    used->row.ended = when > used->row.begun ? when : used->row.begun;
    used->program = NULL;
    used->lingers = false;
    if (used->fault)
        snprintf(used->row.why, sizeof used->row.why, "fault: CUDA error %u; %.200s", (unsigned)used->fault, text);
    else
        snprintf(used->row.why, sizeof used->row.why, "%s", text);
    list_ended(cluster->usage, used);
    usage_save_row(cluster, used);
    bound(cluster, used);
}

static struct used *row_of(const struct server *server, uint64_t program)
{
    return map_get_id(&server->counted.by_program, program);
}

/* It had the program before this manager began, and too short a time for a row: while it was away it did, too. */
static int64_t began(const struct usage *usage, const struct server *server, const struct program *program,
                     int64_t now)
{
    const struct counted *counted = &server->counted;
    bool before = program->id < usage->first_id && !program->counted;
    return before && server->adopted && counted->behind && counted->accrued ? counted->accrued : now;
}

const char *usage_owner(const struct cluster *cluster, uint64_t program)
{
    const struct used *used = map_get_id(&cluster->usage->going_on, program);
    return used ? used->row.vm : NULL;
}

void usage_attached(struct cluster *cluster, struct program *program)
{
    struct server *server = program->server;
    if (program->used)
        return;
    usage_divide_server(cluster, server);
    program->counted |= map_get_id(&cluster->usage->programs, program->id) != NULL;
    int64_t begun = began(cluster->usage, server, program, usage_now(cluster->usage));
    if (!server->counted.accrued)
        server->counted.accrued = begun;
    struct used *used = row_of(server, program->id);
    if (used) {
        program->used = used;
        used->program = program;
        used->lingers = false;
        used->gone = 0;
        used->attached = usage_now(cluster->usage);
        if (used->followed.place) { /* it goes, and its program comes */
            follow_remove(&cluster->follow, &used->followed, program->id, NULL);
            program->followed.digest = 0;
        }
        program->counted = true;
        return;
    }
    struct db_usage row = { .id = cluster_new_id(cluster),
                            .kind = DB_USAGE_PROGRAM,
                            .program = program->id,
                            .server = server->row.id,
                            .uid = program->uid,
                            .sms = server->row.sms,
                            .memory = server->row.memory,
                            .begun = begun,
                            .accrued = begun,
                            .programs = !program->counted };
    snprintf(row.vm, sizeof row.vm, "%s", program->vm->row.name);
    snprintf(row.node, sizeof row.node, "%s", server->row.node);
    snprintf(row.gpu, sizeof row.gpu, "%s", server->row.gpus);
    snprintf(row.executable, sizeof row.executable, "%s", program->executable);
    used = row_add(cluster->usage, &row);
    if (!used)
        return;
    program->used = used;
    program->counted = true;
    used->program = program;
    used->attached = usage_now(cluster->usage);
    used->unsaved = true;
    go_on(cluster->usage, server, used);
    usage_save_soon(cluster);
}

/* Its node says when no worker serves a program any more. One that is away will say it, or is of an earlier release. */
static bool node_tells(const struct server *server)
{
    const struct cluster_session *session = server->node->session;
    return server->ordered && (!session || session->hello.minor >= NODE_MINOR_USAGE);
}

/* NODE_ORDER_END_PROGRAM or NODE_ORDER_SERVED. */
static void ask_node(struct cluster *cluster, const struct server *server, const struct used *used, int order)
{
    struct message message = { .kind = order, .server = server->row.id, .program = used->row.program,
                               .code = CTL_OK };
    if (!server->stopping)
        node_send_order(cluster, server->node, &message);
}

static void linger(struct cluster *cluster, struct server *server, struct used *used, const char *why, bool asked)
{
    used->program = NULL;
    used->lingers = used->unsaved = true;
    used->lingers_since = usage_now(cluster->usage);
    snprintf(used->row.why, sizeof used->row.why, "%s", why);
    if (!asked)
        ask_node(cluster, server, used, NODE_ORDER_END_PROGRAM);
}

void usage_detached(struct cluster *cluster, struct program *program, const char *why)
{
    struct server *server = program->server;
    struct used *used = program->used;
    if (!used || cluster->stopping)
        return;
    usage_accrue(cluster, server);
    program->used = NULL;
    used->gone = program->vm->named ? usage_now(cluster->usage) : 0;
    /* A server that was taken over can claim for ever that it serves whomever, and more than it has workers for. */
    bool few = server->counted.by_program.count <= MOST_WORKERS;
    bool may_serve = server->state == CTL_SERVER_RUNNING || (server->adopted && server->state < CTL_SERVER_ENDED);
    if (may_serve && few && node_tells(server))
        linger(cluster, server, used, why, program->revoked == server->row.id);
    else
        row_end(cluster, used, usage_now(cluster->usage), why);
}

void usage_named(struct cluster *cluster, const struct vm *vm)
{
    for (struct server *server = vm->servers; server; server = server->vm_next)
        for (struct used *used = server->counted.rows, *next; used; used = next) {
            next = used->next;
            if (!used->program && !used->lingers && node_tells(server))
                linger(cluster, server, used, away, false);
            else if (!used->program && !used->lingers)
                row_end(cluster, used, used->row.accrued, away);
        }
}

/* A program that its node does not name a while after it began may have no worker: a place alone costs nothing. */
void usage_ask(struct cluster *cluster, struct server *server)
{
    if (server->counted.behind || !node_tells(server))
        return;
    int64_t before = usage_now(cluster->usage) - ask_after_us;
    unsigned asked = 0;
    for (struct used *used = server->counted.rows; used && asked < ASK_AT_ONCE; used = used->next)
        if (used->program && !used->left && !used->known_served && !used->asked && used->attached < before) {
            ask_node(cluster, server, used, NODE_ORDER_SERVED);
            used->asked = true;
            asked++;
        }
}

static int64_t later(int64_t one, int64_t other) { return one > other ? one : other; }

/* Notes the charges since `from`; usage_divide divides them once it knows all reports of the node's call. */
static void divide_soon(struct cluster *cluster, struct server *server, int64_t from, int64_t until)
{
    struct counted *counted = &server->counted;
    if (!counted->divides) {
        counted->divides = true;
        counted->divide_from = from;
        counted->divide_until = until;
        counted->divide_next = cluster->usage->to_divide;
        cluster->usage->to_divide = server;
    }
    counted->divide_from = from < counted->divide_from ? from : counted->divide_from;
    counted->divide_until = later(until, counted->divide_until);
}

/* No worker served it from then on, until one did again. */
static void note_idle(struct used *used, int64_t from, int64_t until)
{
    if (until <= from)
        return;
    if (used->idle_until != from)
        used->idle = from;
    used->idle_until = until;
}

/* A worker serves it, since some time after the report before. */
static void note_served(struct cluster *cluster, struct server *server, struct used *used)
{
    int64_t left = used->left, from = later(left, server->counted.heard);
    used->served = used->known_served = true;
    used->left = 0;
    if (!left)
        return;
    note_idle(used, left, from);
    divide_soon(cluster, server, from, 0);
}

/* Since when no worker serves it: as its node says, or, where that does not know, since now, or since the beginning
   where none ever did. */
static int64_t left_since(struct cluster *cluster, struct server *server, const struct used *used, int64_t ended)
{
    const struct counted *counted = &server->counted;
    int64_t now = usage_now(cluster->usage);
    if (ended > used->row.begun)
        return ended < now ? ended : now;
    usage_accrue_until(cluster, server, !counted->behind ? now : counted->divides ? counted->divide_until : 0);
    return used->served ? used->row.accrued : used->row.begun;
}

/* One that came and went since the report before may have served it all that time. */
static void note_left(struct cluster *cluster, struct server *server, struct used *used, int64_t ended)
{
    if (used->left && ended <= used->left)
        return;
    ended = left_since(cluster, server, used, ended);
    int64_t from = used->left ? later(used->left, server->counted.heard) : ended;
    from = from < ended ? from : ended;
    if (used->left)
        note_idle(used, used->left, from);
    used->served |= ended > used->row.begun;
    used->known_served = false;
    used->left = ended;
    divide_soon(cluster, server, from, ended);
}

/* A program that was served without its client manager ended with its server, where that is being stopped. */
static void note_stop(const struct server *server, struct used *used)
{
    if (!server->stopping || !used->lingers || strncmp(used->row.why, "exit", 4) != 0 ||
        used->left - used->lingers_since < second_us)
        return;
    snprintf(used->row.why, sizeof used->row.why, "%s: %.200s", server->code == CTL_OK ? "stopped" : "lost",
             server->text);
}

void usage_left(struct cluster *cluster, struct server *server, const node_left *left)
{
    struct used *used = row_of(server, left->prog);
    if (!used || used->ends)
        return;
    if (left->fault)
        used->fault = left->fault;
    if (left->ended < 0) {
        note_served(cluster, server, used);
        return;
    }
    used->lingers |= !used->program;
    note_left(cluster, server, used, left->ended);
    if (used->program)
        return;
    note_stop(server, used);
    used->ends = later(used->left, used->gone);
    divide_soon(cluster, server, used->ends, used->ends);
}

void usage_end_left(struct cluster *cluster, struct server *server)
{
    for (struct used *used = server->counted.rows, *next; used; used = next) {
        next = used->next;
        if (used->ends)
            row_end(cluster, used, used->ends, *used->row.why ? used->row.why : away);
    }
}

static void lost_key(uint64_t server, uint64_t program, char key[LOST_KEY_SIZE])
{
    snprintf(key, LOST_KEY_SIZE, "%llu %llu", (unsigned long long)server, (unsigned long long)program);
}

void usage_left_lost(struct cluster *cluster, const struct node *node, const node_left *left)
{
    struct usage *usage = cluster->usage;
    char key[LOST_KEY_SIZE];
    lost_key(left->server, left->prog, key);
    struct used *used = left->ended > 0 ? map_get(&usage->lost, key) : NULL;
    int64_t now = usage_now(cluster->usage);
    if (!used || strcmp(used->row.node, node->row.name) != 0)
        return;
    int64_t ended = left->ended < now ? left->ended : now;
    if (ended > used->row.ended) {
        uint64_t more = (uint64_t)((double)(ended - used->row.ended) * used->rate);
        used->row.sm_us += more;
        usage_add_to_totals(cluster, &used->row, more);
    } else {
        used->row.sm_us = usage_sm_us_at(used, ended);
    }
    used->row.ended = ended > used->row.begun ? ended : used->row.begun;
    usage_set_rate(usage, used, 0);
    usage_save_row(cluster, used);
}

/* A row of a program has no figures: the rate stands there while its node may say more, also over a restart. */
void usage_set_rate(struct usage *usage, struct used *used, double rate)
{
    char key[LOST_KEY_SIZE];
    lost_key(used->row.server, used->row.program, key);
    if (rate > 0 && !map_put(&usage->lost, key, used))
        rate = 0; /* no memory: it keeps what it has been charged */
    else if (rate <= 0 && map_get(&usage->lost, key) == used)
        map_remove(&usage->lost, key);
    used->rate = rate;
    *used->row.figures = '\0';
    if (rate > 0)
        snprintf(used->row.figures, sizeof used->row.figures, "rate %.9g", rate);
}

void usage_end_rows(struct cluster *cluster, struct server *server, const char *why)
{
    while (server->counted.rows) {
        struct used *used = server->counted.rows;
        if (used->program)
            used->program->used = NULL;
        /* One that ended at the same moment ended by itself. */
        bool itself = used->lingers && *used->row.why && used->row.accrued - used->lingers_since < second_us;
        row_end(cluster, used, used->row.accrued, itself ? used->row.why : why);
    }
}

void usage_node_back(struct cluster *cluster, struct node *node)
{
    for (struct server *server = node->servers; server; server = server->node_next) {
        const bool tells = node_tells(server);
        if (!tells)
            server->counted.behind = false;
        for (struct used *used = server->counted.rows, *next; used; used = next) {
            next = used->next;
            if (!used->lingers)
                continue;
            if (tells)
                ask_node(cluster, server, used, NODE_ORDER_END_PROGRAM);
            else
                row_end(cluster, used, used->row.accrued, used->row.why);
        }
    }
}

void usage_node_away(struct cluster *cluster, struct node *node)
{
    for (struct server *server = node->servers; server; server = server->node_next)
        if (node_tells(server)) {
            usage_accrue(cluster, server);
            server->counted.behind = true;
        }
}

/* ---- from the DB ---- */

void usage_load_row(struct cluster *cluster, const struct db_usage *row)
{
    struct usage *usage = cluster->usage;
    struct used *used = row_add(usage, row);
    char key[DAY_KEY_SIZE];
    if (!used)
        return;
    used->stored = true;
    if (row->kind == DB_USAGE_DAY) {
        day_key(row, row->uid, key);
        if (!map_get(&usage->days, key))
            map_put(&usage->days, key, used);
        return;
    }
    if (row->programs)
        map_put_id(&usage->programs, row->program, usage);
    if (row->ended) {
        list_ended(usage, used);
        if (strncmp(row->figures, "rate ", 5) == 0)
            usage_set_rate(usage, used, strtod(row->figures + 5, NULL));
        return;
    }
    struct server *server = map_get_id(&cluster->servers, row->server);
    if (!server) {
        row_end(cluster, used, row->accrued, "lost: its GPU server has gone");
        return;
    }
    int64_t now = loop_time(); /* the clock may have been set meanwhile */
    used->row.accrued = row->accrued < now ? row->accrued : now;
    used->row.begun = row->begun < used->row.accrued ? row->begun : used->row.accrued;
    used->served = server->counted.behind = true;
    used->past[used->pasts++] = (struct used_past){ used->row.accrued, row->sm_us };
    if (!server->counted.accrued)
        server->counted.accrued = used->row.accrued;
    *used->row.why = '\0';
    go_on(usage, server, used);
}

/* ---- growing old ---- */

static bool is_too_many(const struct usage *usage, const struct used_vm *vm, const struct db_usage *row)
{
    size_t part = USAGE_MOST_ROWS / (usage->vms.count ? usage->vms.count : 1);
    bool many = vm->count > USAGE_VM_ROWS || (usage->count - usage->gaps > USAGE_MOST_ROWS && vm->count > part);
    return many && (row->kind == DB_USAGE_PROGRAM || (row->uid != USAGE_SEVERAL && vm->days > USAGE_VM_ROWS / 2));
}

/* Rows in turn, for a short while each time: nobody waits for it, and the loop is held for no longer. */
void usage_grow_old(struct cluster *cluster)
{
    struct usage *usage = cluster->usage;
    const bool dated = usage_knows_the_day(usage);
    int64_t now = usage_now(usage);
    int64_t detail = now - (int64_t)(cluster->values->detail_days * 86400) * second_us;
    int64_t kept = now - (int64_t)(cluster->values->keep_days * 86400) * second_us;
    if (is_read(cluster))
        return;
    usage->read_lately = false;
    uint64_t until = uv_hrtime() + LOOK_NS;
    for (size_t n = 0, rows = usage->count; n < rows && uv_hrtime() < until; n++) {
        if (usage->next_row >= usage->count)
            usage->next_row = 0;
        struct used *used = usage->rows[usage->next_row++];
        if (!used || !used->row.ended)
            continue;
        const struct db_usage *row = &used->row;
        struct db_change gone = { .action = DB_DELETE, .kind = DB_USAGE };
        gone.row.usage.id = row->id;
        if (dated && row->ended < kept) {
            if (store_usage(cluster, &gone, 1))
                drop(usage, used);
        } else if ((dated && row->kind == DB_USAGE_PROGRAM && row->ended < detail) ||
                   is_too_many(usage, vm_of(usage, row->vm), row)) {
            fold(cluster, used);
        }
    }
    if (usage->gaps)
        close_gaps(usage);
}

bool usage_read(struct cluster *cluster, uint64_t after, size_t *from)
{
    struct usage *usage = cluster->usage;
    *from = (size_t)(uint32_t)after;
    if (after)
        return (uint32_t)(after >> 32) == (uint32_t)(usage->generation + 1);
    if (!usage->read_lately)
        usage->read_until = loop_now(cluster->loop) + READ_MS;
    usage->read_lately = true;
    return true;
}

uint64_t usage_read_on(const struct cluster *cluster, size_t next)
{
    return (uint64_t)(uint32_t)(cluster->usage->generation + 1) << 32 | next;
}

void usage_read_end(struct cluster *cluster) { cluster->usage->read_until = 0; }
