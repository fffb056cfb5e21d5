/* comm_rows.c: see comm_rows.h. */
#include "control-managers/flytctl/comm_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control-managers/flytctl/flytctl.h"
#include "cpu/common/comm_book.h"
#include "cpu/common/log.h"

/* ---- books ---- */

/* Reads so many bytes of a server's book. *there false: the server has none. */
int comm_book_read(struct flytctl *ctl, uint64_t server, uint64_t from, void *to, size_t size, bool *there)
{
    int code = EXIT_FINE;
    size_t used = 0;
    *there = true;
    while (used < size && *there && !code) {
        admin_log_result result;
        admin_log_args args = { .wish = { .server = server, .previous = CTL_LOG_COMMS, .from = from + used },
                                .node = (char *)(uintptr_t) "" };
        code = ask_raw(ctl, ADMIN_LOG, &args, &result);
        if (code)
            return code;
        const ctl_log_piece *piece = &result.piece;
        size_t length = piece->text.text_len < size - used ? piece->text.text_len : size - used;
        if (result.status.code == CTL_OK && piece->from == from + used && length)
            memcpy((char *)to + used, piece->text.text_val, length);
        else
            *there = false;
        if (result.status.code != CTL_OK && result.status.code != CTL_NOT_FOUND)
            code = complain_status(ctl, &result.status);
        used += length;
        protocol_free((xdrproc_t)xdr_admin_log_result, &result);
    }
    return code;
}

static json_t *text_of(const char *bytes, size_t size)
{
    char whole[COMM_BOOK_WHY + 1], shown[3 * COMM_BOOK_WHY];
    snprintf(whole, sizeof whole, "%.*s", (int)size, bytes);
    return json_string(log_text(shown, sizeof shown, whole));
}

static const char *state_of(const struct comm_book_head *head)
{
    return head->status ? "failed" : head->ended ? "ended" : "runs";
}

static json_t *rank_row(const json_t *server, unsigned page, const struct comm_book_head *head)
{
    char name[20];
    snprintf(name, sizeof name, "%016" PRIx64, head->name);
    return json_pack("{s:s, s:I, s:I, s:O, s:O, s:O, s:o, s:s, s:I, s:I, s:o, s:o, s:o, s:I}", "communicator", name,
                     "rank", (json_int_t)head->rank, "ranks", (json_int_t)head->ranks, "server",
                     json_object_get(server, "id"), "node", json_object_get(server, "node"), "vm",
                     json_object_get(server, "vm"), "program", text_of(head->client, sizeof head->client), "state",
                     state_of(head), "calls", (json_int_t)head->calls, "complete", (json_int_t)head->complete, "made",
                     json_time((int64_t)(head->made / 1000)), "ended", json_time((int64_t)(head->ended / 1000)), "why",
                     text_of(head->why, sizeof head->why), "page", (json_int_t)page);
}

/* Adds a row for each rank that the server's book has. name: only of this communicator, or of those whose names begin
   with it; NULL: all. */
static int server_ranks(struct flytctl *ctl, const json_t *server, const char *name, json_t *rows)
{
    static struct comm_book_head heads[COMM_BOOK_PAGES];
    uint64_t id = (uint64_t)json_integer_value(json_object_get(server, "id"));
    bool there;
    int code = comm_book_read(ctl, id, 0, heads, sizeof heads, &there);
    for (unsigned i = 0; !code && there && i < COMM_BOOK_PAGES; i++) {
        if (!heads[i].pid)
            continue;
        json_t *row = rank_row(server, i, &heads[i]);
        const char *own = json_string_value(json_object_get(row, "communicator"));
        if (own && (!name || strncmp(own, name, strlen(name)) == 0))
            json_array_append(rows, row);
        json_decref(row);
    }
    return code;
}

int comm_ranks(struct flytctl *ctl, const char *name, const struct rows_query *query, json_t **rows)
{
    json_t *servers = NULL, *server;
    size_t i;
    *rows = NULL;
    const struct rows_asker asker = row_asker(ctl);
    int code = rows_list(&asker, ROWS_SERVERS, query, &servers);
    if (code)
        return code;
    *rows = json_array();
    json_array_foreach(servers, i, server)
    {
        int one = server_ranks(ctl, server, name, *rows); /* what others say is shown all the same */
        code = code ? code : one;
    }
    json_decref(servers);
    return code;
}

json_int_t comm_number(const json_t *row, const char *key) { return json_integer_value(json_object_get(row, key)); }

static const char *word(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

/* ---- lists ---- */

/* One row for those of one name. */
static json_t *summed(const json_t *ranks, const char *name)
{
    json_t *servers = json_array(), *behind = json_array(), *row, *first = NULL;
    json_int_t most = 0, seen = 0;
    const char *state = "ended", *why = "";
    size_t i;
    json_array_foreach(ranks, i, row)
    {
        if (strcmp(word(row, "communicator"), name) != 0)
            continue;
        first = first ? first : row;
        seen++;
        most = comm_number(row, "calls") > most ? comm_number(row, "calls") : most;
        if (strcmp(word(row, "state"), "failed") == 0 || strcmp(state, "ended") == 0)
            state = word(row, "state");
        why = *why ? why : word(row, "why");
        json_t *server = json_object_get(row, "server");
        if (!json_array_size(servers) || !json_equal(json_array_get(servers, json_array_size(servers) - 1), server))
            json_array_append(servers, server);
    }
    json_array_foreach(ranks, i, row)
    {
        if (strcmp(word(row, "communicator"), name) == 0 && comm_number(row, "calls") < most)
            json_array_append(behind, json_object_get(row, "rank"));
    }
    return json_pack("{s:s, s:O, s:O, s:I, s:o, s:s, s:I, s:o, s:O, s:s}", "communicator", name, "vm",
                     json_object_get(first, "vm"), "ranks", json_object_get(first, "ranks"), "seen", seen, "servers",
                     servers, "state", state, "calls", most, "behind", behind, "made", json_object_get(first, "made"),
                     "why", why);
}

json_t *comm_list(const json_t *ranks, bool all)
{
    json_t *rows = json_array(), *known = json_object(), *row;
    size_t i;
    json_array_foreach(ranks, i, row)
    {
        const char *name = word(row, "communicator");
        if (json_object_get(known, name))
            continue;
        json_object_set_new(known, name, json_true());
        json_t *sum = summed(ranks, name);
        if (all || strcmp(word(sum, "state"), "ended") != 0)
            json_array_append(rows, sum);
        json_decref(sum);
    }
    json_decref(known);
    return rows;
}

void suggest_communicators(struct flytctl *ctl, const char *begun)
{
    json_t *ranks = NULL, *row;
    size_t i;
    comm_ranks(ctl, begun, &(struct rows_query){ .only = NULL }, &ranks);
    json_t *rows = ranks ? comm_list(ranks, true) : json_array();
    json_array_foreach(rows, i, row) puts(word(row, "communicator"));
    json_decref(rows);
    json_decref(ranks);
}
