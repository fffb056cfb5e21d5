/* policy.c: see policy.h. */
#include "control-managers/cluster-manager/policy.h"

#include <stdlib.h>

#include "control-managers/cluster-manager/balance.h"
#include "control-managers/cluster-manager/moving.h"

enum { LOOK_MS = 2000, SLICE_NS = 1000000, SLICE_MS = 5, PART_OF_TIME = 20, SHAPES = 16, WAITED_US = 3 * 1000000,
       SECOND_US = 1000000 };

/* Programs that can move off one GPU. */
struct movable {
    struct balance_piece *of;
    struct program **programs;
    size_t count;
};

/* Shares for which no GPU has room at present: during one slice the books do not change. */
struct shapes {
    struct {
        uint32_t sms;
        uint64_t memory;
        unsigned accepted;
        bool fits;
    } known[SHAPES];
    size_t count;
};

static void due(struct loop_timer *, void *);

void policy_start(struct cluster *cluster)
{
    loop_timer_start(cluster->loop, &cluster->policy, LOOK_MS, due, cluster);
}

static bool within_pause(const struct cluster *cluster, int64_t since)
{
    return since && loop_time() - since < (int64_t)(cluster->values->elastic_pause * SECOND_US);
}

/* A server that several programs share does not move as a whole. */
static bool may_move(struct cluster *cluster, const struct program *program)
{
    const struct server *server = program->server;
    char text[CTL_MAX_TEXT + 1];
    return server && server->program_count == 1 && server->gpu_count == 1 && server->state == CTL_SERVER_RUNNING &&
           !server->leaving && !server->reserved && !within_pause(cluster, program->move_begun) &&
           moving_possible(cluster, program, text);
}

static struct balance_piece piece_of(struct cluster *cluster, const struct program *program)
{
    struct balance_piece piece = { .id = program->id, .gpu = program->server->gpus[0]->slot,
                                   .request = server_request(cluster, program) };
    piece.request.sms = program->server->row.sms;
    piece.request.memory = program->server->row.memory;
    piece.request.avoid_count = 0; /* where its server did not start says nothing of a move */
    return piece;
}

static bool fits_somewhere(struct cluster *cluster, const struct place_request *request, struct shapes *shapes)
{
    struct place_result result;
    for (size_t i = 0; i < shapes->count; i++)
        if (shapes->known[i].sms == request->sms && shapes->known[i].memory == request->memory &&
            shapes->known[i].accepted == request->accepted)
            return shapes->known[i].fits;
    bool fits = place_choose(&cluster->pool, cluster->values->policy, request, &result) == PLACE_FOUND;
    if (shapes->count < SHAPES) {
        shapes->known[shapes->count].sms = request->sms;
        shapes->known[shapes->count].memory = request->memory;
        shapes->known[shapes->count].accepted = request->accepted;
        shapes->known[shapes->count++].fits = fits;
    }
    return fits;
}

static void movable_free(struct movable *all)
{
    free(all->of);
    free(all->programs);
    *all = (struct movable){ 0 };
}

/* Those on the GPU that could go elsewhere; shapes: NULL: whether others have room for them is not looked at. */
static bool gather(struct cluster *cluster, const struct cluster_gpu *gpu, struct shapes *shapes, struct movable *all)
{
    size_t most = gpu->node->server_count;
    *all = (struct movable){ calloc(most + 1, sizeof *all->of), calloc(most + 1, sizeof(struct program *)), 0 };
    for (struct server *server = gpu->node->servers; server && all->of && all->programs; server = server->node_next) {
        struct program *program = server->programs;
        if (!program || !server_has_gpu(server, gpu) || !may_move(cluster, program))
            continue;
        struct balance_piece piece = piece_of(cluster, program);
        if (shapes && !fits_somewhere(cluster, &piece.request, shapes))
            continue;
        all->of[all->count] = piece;
        all->programs[all->count++] = program;
    }
    return all->count > 0;
}

/* Event, once in a pause. */
static void advise(struct cluster *cluster, struct program *program, const struct cluster_gpu *to, const char *why)
{
    const struct cluster_gpu *from = program->server->gpus[0];
    struct event_about which = { .vm = program->vm->row.name, .node = from->node->row.name, .program = program->id };
    if (within_pause(cluster, program->move_advised))
        return;
    program->move_advised = loop_time();
    cluster_event(cluster, ADMIN_INFO, "move-advised", &which,
                  "%.200s would better move from node %s, GPU %s to node %s, GPU %s, %s: flytctl program migrate %llu "
                  "--to %s:%s",
                  program->executable, from->node->row.name, from->id, to->node->row.name, to->id, why,
                  (unsigned long long)program->id, to->node->row.name, to->id);
}

static void carry_out(struct cluster *cluster, struct program *program, const struct place_result *place,
                      const char *why)
{
    const struct cluster_gpu *to = cluster->pool.gpus[place->gpu].owner;
    const struct move_wish wish = { .to = to, .node = to->node, .by = "policy", .action = ADMIN_ACTION_MOVE };
    struct moved_program *move;
    char text[CTL_MAX_TEXT + 1] = "";
    if (cluster->values->elastic_policy != CLUSTER_ELASTIC_ACT) {
        advise(cluster, program, to, why);
        return;
    }
    struct event_about which = { .vm = program->vm->row.name, .program = program->id };
    ctl_code code = moving_begin(cluster, program, &wish, &move, text);
    if (code != CTL_OK && code != CTL_WAITING) {
        program->move_begun = loop_time();
        cluster_event(cluster, ADMIN_WARNING, "move-failed", &which, "%.200s was to move, %s: %.600s",
                      program->executable, why, text);
    }
}

/* ---- room for the first in the queue ---- */

/* The program for which others may be moved: the first in the queue, if it has waited for WAITED_US and wants one GPU
   (moves make room on one GPU only). NULL: there is none. */
static struct program *waits_for_room(struct cluster *cluster)
{
    struct program *first = queue_first_lacking_room(cluster);
    if (!first || loop_time() - first->asked < WAITED_US || server_request(cluster, first).gpus != 1)
        return NULL;
    return first;
}

/* The moves off this GPU that would make room there. */
static size_t plan_room(struct cluster *cluster, const struct place_request *wanted, const struct cluster_gpu *gpu,
                        const struct movable *all, struct balance_step **steps, uint64_t *bytes)
{
    *steps = calloc(all->count + 1, sizeof **steps);
    return *steps ? balance_room_on(&cluster->pool, cluster->values->policy, wanted, gpu->slot, all->of, all->count,
                                    *steps, bytes)
                  : 0;
}

/* Whether the GPU is the one where the fewest bytes have to move, of those before it. */
static void consider(struct cluster *cluster, const struct place_request *wanted, size_t slot, struct shapes *shapes)
{
    struct policy_search *search = &cluster->search;
    const struct place_gpu *on = &cluster->pool.gpus[slot];
    struct movable all = { 0 };
    struct balance_step *steps = NULL;
    uint64_t bytes, least = UINT64_MAX;
    if (!on->owner || !on->schedulable || (on->keeper && on->keeper != wanted->asker) ||
        !place_could_hold(&cluster->pool, slot, wanted) || !gather(cluster, on->owner, shapes, &all)) {
        movable_free(&all);
        return;
    }
    for (size_t i = 0; i < all.count; i++)
        least = all.of[i].request.memory < least ? all.of[i].request.memory : least;
    if ((!search->found || least < search->bytes) && plan_room(cluster, wanted, on->owner, &all, &steps, &bytes) &&
        (!search->found || bytes < search->bytes)) {
        search->found = true;
        search->bytes = bytes;
        search->gpu = slot;
    }
    free(steps);
    movable_free(&all);
}

/* True: all GPUs were looked at. */
static bool look_for_room(struct cluster *cluster, const struct program *first, uint64_t until)
{
    struct place_request wanted = server_request(cluster, first);
    struct shapes shapes = { .count = 0 };
    struct place_result now;
    struct policy_search *search = &cluster->search;
    if (place_choose(&cluster->pool, cluster->values->policy, &wanted, &now) == PLACE_FOUND) {
        search->found = false; /* it is placed in a moment */
        return true;
    }
    while (search->next < cluster->pool.count && uv_hrtime() < until)
        consider(cluster, &wanted, search->next++, &shapes);
    return search->next >= cluster->pool.count;
}

/* Works out again what has to move off the GPU that was found, and does it. */
static void make_room(struct cluster *cluster, struct program *first)
{
    struct place_request wanted = server_request(cluster, first);
    const size_t slot = cluster->search.gpu;
    const struct cluster_gpu *gpu = slot < cluster->pool.count ? cluster->pool.gpus[slot].owner : NULL;
    struct movable all = { 0 };
    struct balance_step *steps = NULL;
    uint64_t bytes;
    char why[128];
    size_t count = gpu && gather(cluster, gpu, NULL, &all) ? plan_room(cluster, &wanted, gpu, &all, &steps, &bytes) : 0;
    if (count && cluster->values->elastic_policy == CLUSTER_ELASTIC_ACT)
        queue_keep(cluster, first, slot);    /* else somebody else takes what becomes free */
    for (size_t i = 0; i < count && i < (size_t)cluster->values->elastic_moves; i++) {
        snprintf(why, sizeof why, "so that program %llu, which waits in the queue, can begin",
                 (unsigned long long)first->id);
        carry_out(cluster, all.programs[steps[i].piece], &steps[i].to, why);
    }
    free(steps);
    movable_free(&all);
}

/* ---- even loads ---- */

/* Of the programs that gain the same the one with the least memory. True: all were looked at. */
static bool look_for_gain(struct cluster *cluster, uint64_t until)
{
    struct policy_search *search = &cluster->search;
    struct place_result to;
    double gain;
    for (; search->next < cluster->programs.count && uv_hrtime() < until; search->next++) {
        const struct program *program = map_at(&cluster->programs, search->next);
        if (!may_move(cluster, program))
            continue;
        const struct balance_piece piece = piece_of(cluster, program);
        if (!balance_gain(&cluster->pool, CLUSTER_SPREAD, &piece, &to, &gain) ||
            gain < cluster->values->elastic_margin / 100 || (search->found && gain < search->gain) ||
            (search->found && gain <= search->gain && piece.request.memory >= search->bytes))
            continue;
        search->found = true;
        search->gain = gain;
        search->bytes = piece.request.memory;
        search->program = program->id;
    }
    return search->next >= cluster->programs.count;
}

static void even(struct cluster *cluster)
{
    struct program *program = map_get_id(&cluster->programs, cluster->search.program);
    struct place_result to;
    double gain;
    if (!program || !may_move(cluster, program))
        return;
    const struct balance_piece piece = piece_of(cluster, program);
    if (balance_gain(&cluster->pool, CLUSTER_SPREAD, &piece, &to, &gain) &&
        gain >= cluster->values->elastic_margin / 100)
        carry_out(cluster, program, &to, "which evens the load");
}

/* ---- searching ---- */

/* The books are those of a time in which nothing moves, and everybody has said what there is. */
static bool may_search(struct cluster *cluster)
{
    return cluster->values->elastic_policy != CLUSTER_ELASTIC_OFF && cluster->loaded && !cluster->stopping &&
           programs_gathered(cluster) && !moves_under_way(cluster);
}

/* For the first in the queue; else, where new programs are spread, for even loads: otherwise those are not what the
   administrator wants. */
static bool search_begin(struct cluster *cluster, uint64_t first)
{
    struct policy_search *search = &cluster->search;
    const uint64_t spent = search->spent_ns;
    const bool tried = search->tried;
    *search = (struct policy_search){ .spent_ns = spent, .tried = tried };
    search->first = tried ? 0 : first;
    search->runs = search->first || cluster->values->policy == CLUSTER_SPREAD;
    return search->runs;
}

static void search_end(struct cluster *cluster)
{
    struct policy_search *search = &cluster->search;
    uint64_t pause = PART_OF_TIME * search->spent_ns / 1000000;
    *search = (struct policy_search){ 0 };
    loop_timer_start(cluster->loop, &cluster->policy, pause > LOOK_MS ? pause : LOOK_MS, due, cluster);
}

static void due(struct loop_timer *timer, void *context)
{
    struct cluster *cluster = context;
    struct policy_search *search = &cluster->search;
    const uint64_t begun = uv_hrtime();
    struct program *first = waits_for_room(cluster);
    const uint64_t id = first ? first->id : 0;
    bool over = true;
    if (search->runs && search->first && search->first != id)
        search->runs = false; /* another one is the first now */
    if (!may_search(cluster) || (!search->runs && !search_begin(cluster, id))) {
        search_end(cluster);
        return;
    }
    if (search->first)
        over = look_for_room(cluster, first, begun + SLICE_NS);
    else
        over = look_for_gain(cluster, begun + SLICE_NS);
    search->spent_ns += uv_hrtime() - begun;
    if (over && search->first && search->found)
        make_room(cluster, first);
    else if (over && search->found)
        even(cluster);
    if (over && (search->found || !search->first)) {
        search_end(cluster);
        return;
    }
    if (over) { /* no moves help it: perhaps the loads can be evened */
        search->runs = false;
        search->tried = true;
    }
    loop_timer_start(cluster->loop, timer, SLICE_MS, due, cluster);
}
