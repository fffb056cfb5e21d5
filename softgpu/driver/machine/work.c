/* work.c: operations that have started and are done by a thread of the driver: copies and memsets, and host
   functions. */
#include "softgpu/driver/machine/machine.h"
#include "cpu/common/lock.h"
#include "cpu/common/sleepers.h"

struct work_list { struct sgd_op *head, **tail; struct sleepers idle; };

static struct work_list copies, callbacks;

void sgd_work_start(void)
{
    struct work_list *lists[] = { &copies, &callbacks };
    for (size_t i = 0; i < 2; i++)
        lists[i]->tail = &lists[i]->head;
}

void sgd_work_put(struct sgd_op *op)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct work_list *list = op->kind == SGD_OP_HOST ? &callbacks : &copies;
    op->work_next = NULL;
    *list->tail = op;
    list->tail = &op->work_next;
    sleepers_wake(&list->idle);
}

struct sgd_op *sgd_work_take(bool host_functions)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct work_list *list = host_functions ? &callbacks : &copies;
    while (!list->head)
        sleepers_wait(&list->idle, &sgd_mutex, NULL);
    struct sgd_op *op = list->head;
    list->head = op->work_next;
    if (!list->head)
        list->tail = &list->head;
    return op;
}
