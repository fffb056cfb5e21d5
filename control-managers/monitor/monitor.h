/*
 * monitor.h: flyt-monitor, which shows a cluster over HTTP: metrics for Prometheus, JSON, events as they come, a page.
 *
 * Two sides. The reader (read.c) is one thread: it asks the cluster manager, as an administrator who only reads, for
 * what has changed, keeps it (mirror.c), and makes texts of it (texts.c, metrics.c). The web side (web.c, web_tls.c)
 * has a few threads for all connections, none of which may wait, and knows nothing but these texts: so no request,
 * however many there are, reaches the cluster manager; connections.c ends those that take too long, streams.c has those
 * that follow the events. It answers GET and HEAD only, and changes nothing.
 * access.c knows the rights of callers; without TLS the monitor listens on loopback addresses only. schema.c has the
 * keys of the configuration.
 */
#ifndef FLYT_MONITOR_MONITOR_H
#define FLYT_MONITOR_MONITOR_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control-managers/common/protocol.h"
#include "control-managers/monitor/texts.h"

enum { EVENTS_KEPT = 512, MOST_HOSTS = 16 };

/* What can be asked for; web.c has their paths. */
enum text_kind {
    TEXT_METRICS,
    TEXT_SERVER_METRICS,
    TEXT_PROGRAM_METRICS, /* made where `programs` is set */
    TEXT_STATUS,
    TEXT_NODES,
    TEXT_GPUS,
    TEXT_VMS,
    TEXT_SERVERS,
    TEXT_PROGRAMS,
    TEXT_MOVES,
    TEXT_HISTORY,
    TEXTS
};

struct event_text {
    uint64_t number;
    char *text; /* JSON on one line */
    char vm[CTL_MAX_NAME + 1];
};

struct monitor {
    const char *manager, *tls_folder, *name; /* how to reach the cluster manager */
    unsigned interval_ms;
    const char *address;
    uint16_t port;
    const char *hosts[MOST_HOSTS]; /* names by which browsers may call it, beside the loopback ones */
    unsigned host_count, most_streams;
    bool programs; /* there are metrics of each program */
    const char *web_folder; /* ca.crt, web.crt and web.key: it speaks TLS; NULL: it does not */
    const char *tokens;     /* file; NULL: none */

    pthread_mutex_t lock;                  /* all below */
    struct monitor_text *texts[TEXTS];             /* NULL: nothing was read yet */
    struct event_text events[EVENTS_KEPT]; /* a ring; by number */
    uint64_t newest;
    uint64_t heard_ms, read_ms; /* of CLOCK_MONOTONIC: the last answer, the last reading that was whole; 0: none */
    bool lost;                  /* the last reading failed */
};

/* Until a signal ends it. The exit status. */
int monitor_read(struct monitor *);
/* Whether the cluster manager is away: it could not be read, or a few readings have passed without any answer.
   age_seconds: since the last reading that was whole. The lock is held. */
bool monitor_away(const struct monitor *, uint64_t *age_seconds);
/* 0; or -1, and *error (256 bytes). web_end waits for its threads. */
int web_begin(struct monitor *, char *error);
void web_end(struct monitor *);
/* Reads certificates and tokens again. If a file cannot be used, the monitor keeps what it has read before, and logs
   the reason. */
void web_reload(struct monitor *);

#endif
