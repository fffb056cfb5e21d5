/* policy.c: see policy.h. */
#include "control-managers/cluster-manager/policy.h"

#include <stdlib.h>

#include "control-managers/cluster-manager/balance.h"
#include "control-managers/cluster-manager/moving.h"

enum { LOOK_MS = 2000, WAITED_US = 3 * 1000000, SECOND_US = 1000000 };

/* What can move, and whose it is. */
struct movable {
    struct balance_piece *of;
    struct program **programs;
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

static bool gather(struct cluster *cluster, struct movable *all)
{
    size_t most = cluster->programs.count;
    *all = (struct movable){ calloc(most + 1, sizeof *all->of), calloc(most + 1, sizeof(struct program *)), 0 };
    if (!all->of || !all->programs)
        return false;
    for (size_t i = 0; i < most; i++) {
        struct program *program = map_at(&cluster->programs, i);
        if (!may_move(cluster, program))
            continue;
        struct balance_piece *piece = &all->of[all->count];
        piece->id = program->id;
        piece->gpu = program->server->gpus[0]->slot;
        piece->request = server_request(cluster, program);
        piece->request.sms = program->server->row.sms;
        piece->request.memory = program->server->row.memory;
        all->programs[all->count++] = program;
    }
    return true;
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

static void carry_out(struct cluster *cluster, const struct movable *all, const struct balance_step *step,
                      const char *why)
{
    struct program *program = all->programs[step->piece];
    const struct cluster_gpu *to = cluster->pool.gpus[step->to.gpu].owner;
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

/* False: nobody waits whom moves would help. */
static bool help_first(struct cluster *cluster, const struct movable *all)
{
    char why[128];
    size_t gpu = 0;
    struct program *first = queue_first_lacking_room(cluster);
    struct balance_step *steps = first ? calloc(all->count + 1, sizeof *steps) : NULL;
    size_t count = 0;
    if (steps && loop_time() - first->asked >= WAITED_US) {
        struct place_request wanted = server_request(cluster, first);
        /* Moves make room on one GPU only. */
        if (wanted.gpus == 1)
            count = balance_make_room(&cluster->pool, cluster->values->policy, &wanted, all->of, all->count, steps,
                                      &gpu);
    }
    if (count && cluster->values->elastic_policy == CLUSTER_ELASTIC_ACT)
        queue_keep(cluster, first, gpu);     /* else somebody else takes what becomes free */
    for (size_t i = 0; i < count && i < (size_t)cluster->values->elastic_moves; i++) {
        snprintf(why, sizeof why, "so that program %llu, which waits in the queue, can begin",
                 (unsigned long long)first->id);
        carry_out(cluster, all, &steps[i], why);
    }
    free(steps);
    return count > 0;
}

/* Where new programs are not spread, even loads are not what the administrator wants. */
static void even(struct cluster *cluster, const struct movable *all)
{
    struct balance_step step;
    if (cluster->values->policy == CLUSTER_SPREAD &&
        balance_even(&cluster->pool, CLUSTER_SPREAD, cluster->values->elastic_margin / 100, all->of, all->count, &step))
        carry_out(cluster, all, &step, "which evens the load");
}

/* Is there anything that moves could mend? Gathering all programs of a large cluster takes a while. */
static bool may_help(struct cluster *cluster)
{
    const struct program *first = queue_first_lacking_room(cluster);
    return cluster->values->policy == CLUSTER_SPREAD || (first && loop_time() - first->asked >= WAITED_US);
}

static void due(struct loop_timer *timer, void *context)
{
    struct cluster *cluster = context;
    struct movable all = { 0 };
    (void)timer;
    policy_start(cluster);
    /* The books are those of a moment in which nothing moves, and everybody has said what there is. */
    if (cluster->values->elastic_policy == CLUSTER_ELASTIC_OFF || !cluster->loaded || cluster->stopping ||
        !may_help(cluster) || !programs_gathered(cluster) || moves_under_way(cluster))
        return;
    if (gather(cluster, &all) && !help_first(cluster, &all))
        even(cluster, &all);
    free(all.of);
    free(all.programs);
}
