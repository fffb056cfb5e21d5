/* mirror.c: see mirror.h. */
#include "control-managers/monitor/mirror.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control-managers/rows/rows.h"

static void mirrored_free(struct mirrored *one)
{
    if (!one)
        return;
    json_decref(one->row);
    free(one->text);
    free(one);
}

void mirror_forget(struct monitor_mirror *mirror)
{
    for (size_t i = 0; i < MIRROR_TABLES; i++) {
        struct map *table = &mirror->tables[i];
        for (size_t k = 0; k < table->count; k++)
            mirrored_free(map_at(table, k));
        map_free(table);
        *table = (struct map){ 0 };
        mirror->changed[i] = true;
    }
    mirror->after = mirror->known = 0;
}

/* ---- one row ---- */

static struct mirrored *of_row(json_t *row, const char *owner)
{
    struct mirrored *one = calloc(1, sizeof *one);
    char *text = row ? json_dumps(row, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
    if (!one || !text) {
        free(one);
        free(text);
        json_decref(row);
        return NULL;
    }
    *one = (struct mirrored){ .row = row, .text = text, .vm = "" };
    const char *vm = owner ? json_string_value(json_object_get(row, owner)) : NULL;
    if (vm)
        one->vm = vm;
    return one;
}

static struct mirrored *of_total(const admin_total *total)
{
    struct mirrored *one = calloc(1, sizeof *one);
    if (!one)
        return NULL;
    *one = (struct mirrored){ .vm = "", .work = total->work, .of = total->of };
    snprintf(one->name, sizeof one->name, "%s", total->name);
    snprintf(one->node, sizeof one->node, "%s", total->node);
    return one;
}

static void total_key(const admin_total *total, char *key, size_t size)
{
    snprintf(key, size, "%d %s", (int)total->of, total->name);
}

static void keep_named(struct monitor_mirror *mirror, admin_news_kind kind, const char *name, struct mirrored *one)
{
    mirrored_free(map_get(&mirror->tables[kind], name));
    if (!one || !map_put(&mirror->tables[kind], name, one)) {
        map_remove(&mirror->tables[kind], name);
        mirrored_free(one);
    }
}

static void keep_numbered(struct monitor_mirror *mirror, admin_news_kind kind, uint64_t id, struct mirrored *one)
{
    mirrored_free(map_get_id(&mirror->tables[kind], id));
    if (!one || !map_put_id(&mirror->tables[kind], id, one)) {
        map_remove_id(&mirror->tables[kind], id);
        mirrored_free(one);
    }
}

static void drop(struct monitor_mirror *mirror, const admin_gone *gone)
{
    if (gone->kind == ADMIN_NEWS_SERVER || gone->kind == ADMIN_NEWS_PROGRAM)
        mirrored_free(map_remove_id(&mirror->tables[gone->kind], gone->id));
    else if (gone->kind < ADMIN_NEWS_TOTAL)
        mirrored_free(map_remove(&mirror->tables[gone->kind], gone->name));
}

static void take(struct monitor_mirror *mirror, const admin_news *news)
{
    char key[CTL_MAX_NAME + 16];
    struct mirrored *one;
    mirror->changed[news->kind == ADMIN_NEWS_GONE ? news->admin_news_u.gone.kind % MIRROR_TABLES : news->kind] = true;
    switch (news->kind) {
    case ADMIN_NEWS_NODE:
        keep_named(mirror, news->kind, news->admin_news_u.node.name, of_row(row_node(&news->admin_news_u.node), NULL));
        break;
    case ADMIN_NEWS_VM:
        keep_named(mirror, news->kind, news->admin_news_u.vm.vm.name,
                   of_row(row_vm_state(&news->admin_news_u.vm), "name"));
        break;
    case ADMIN_NEWS_SERVER:
        one = of_row(row_server(&news->admin_news_u.server.server), "vm");
        if (one)
            one->work = news->admin_news_u.server.work;
        keep_numbered(mirror, news->kind, news->admin_news_u.server.server.id, one);
        break;
    case ADMIN_NEWS_PROGRAM:
        keep_numbered(mirror, news->kind, news->admin_news_u.prog.id,
                      of_row(row_program(&news->admin_news_u.prog), "vm"));
        break;
    case ADMIN_NEWS_TOTAL:
        total_key(&news->admin_news_u.total, key, sizeof key);
        keep_named(mirror, news->kind, key, of_total(&news->admin_news_u.total));
        break;
    default: drop(mirror, &news->admin_news_u.gone); break;
    }
}

bool mirror_take(struct monitor_mirror *mirror, const admin_follow_result *result)
{
    if (result->anew) {
        mirror_forget(mirror);
        mirror->run = result->run;
        return false;
    }
    if (!mirror->after)
        mirror->known = result->newest;
    for (u_int i = 0; i < result->news.news_len; i++)
        take(mirror, &result->news.news_val[i]);
    mirror->run = result->run;
    mirror->after = result->last;
    if (!result->more && mirror->known < result->last)
        mirror->known = result->last;
    mirror->looked = result->looked;
    return true;
}

void mirror_settle(struct monitor_mirror *mirror) { memset(mirror->changed, 0, sizeof mirror->changed); }

double mirror_sm_seconds(const struct monitor_mirror *mirror, const admin_work *work)
{
    /* A server that came after the comparison began adds less than nothing until then. */
    int64_t sm_us = (int64_t)(work->sm_base + (uint64_t)work->sms * (uint64_t)mirror->looked);
    return sm_us > 0 ? (double)sm_us / 1e6 : 0;
}
