/* mirror.h: the tables of the cluster as its manager described them last (ADMIN_FOLLOW). One thread. */
#ifndef FLYT_MONITOR_MIRROR_H
#define FLYT_MONITOR_MIRROR_H

#include <jansson.h>
#include <stdbool.h>

#include "control-managers/common/map.h"
#include "control-managers/common/protocol.h"

enum { MIRROR_TABLES = ADMIN_NEWS_GONE };
struct mirrored {
    json_t *row;     /* as rows.h makes it; of a total NULL */
    char *text;      /* of the row, on one line */
    const char *vm;  /* whose it is; "": nobody's */
    admin_work work; /* of a server or a total */
    admin_total_of of;
    char name[CTL_MAX_NAME + 1], node[CTL_MAX_NAME + 1]; /* of a total; node: of a GPU */
};

struct monitor_mirror {
    struct map tables[MIRROR_TABLES]; /* of struct mirrored, by admin_news_kind */
    bool changed[MIRROR_TABLES];      /* since mirror_settle */
    uint64_t run, after, known;       /* for the next ADMIN_FOLLOW */
    int64_t looked;                   /* the figures are of this moment: microseconds since 1970 */
};

void mirror_forget(struct monitor_mirror *);
/* false: everything was forgotten, it has to be read anew. */
bool mirror_take(struct monitor_mirror *, const admin_follow_result *);
void mirror_settle(struct monitor_mirror *);
/* SMs times seconds, at the moment when the cluster manager looked. */
double mirror_sm_seconds(const struct monitor_mirror *, const admin_work *);

#endif
