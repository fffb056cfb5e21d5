/*
 * complete.c: what may follow a half-written command line, for the shells' completion (packaging/completion).
 *
 * `flytctl complete WORD...` gets the words after "flytctl", the last one being written, and prints candidates for
 * it, one in a line. Of --option=value the candidates are values. A line that begins with a colon says what the
 * shell can find itself: ":file", ":dir", ":user"; ":nospace" before candidates says that more follows without a
 * blank.
 */
#include <stdio.h>
#include <string.h>

#include "control-managers/flytctl/flytctl.h"

enum { COMPLETE_MS = 1000 };

static void suggest(const char *word, const char *begun)
{
    if (strncmp(word, begun, strlen(begun)) == 0)
        puts(word);
}

static void suggest_all(const char *const *words, const char *begun)
{
    for (; *words; words++)
        suggest(*words, begun);
}

/* The last item of a list with commas: the items before it are kept, and not offered again. */
static void suggest_item(const char *const *words, const char *begun)
{
    const char *comma = strrchr(begun, ',');
    size_t kept = comma ? (size_t)(comma + 1 - begun) : 0;
    char line[256];
    for (; *words; words++) {
        const char *known = kept ? strstr(begun, *words) : NULL;
        if (known && known < begun + kept)
            continue;
        snprintf(line, sizeof line, "%.*s%s", (int)kept, begun, *words);
        suggest(line, begun);
    }
}

/* "on|off" */
static void suggest_alternatives(const char *text, const char *begun)
{
    char word[64];
    for (size_t length; *text; text += length + (text[length] == '|')) {
        length = strcspn(text, "|");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        suggest(word, begun);
    }
}

static void suggest_rows(json_t *rows, const char *key, const char *begun)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const json_t *value = json_object_get(row, key);
        char number[32];
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        suggest(json_is_string(value) ? json_string_value(value) : number, begun);
    }
    json_decref(rows);
}

/* Suggests the names, or numbers, of all rows of a kind. */
static void suggest_named(struct flytctl *ctl, const struct row_kind *kind, const char *begun)
{
    json_t *rows = NULL;
    if (kind_rows(ctl, kind, &(struct rows_query){ .only = NULL }, &rows) == EXIT_FINE)
        suggest_rows(rows, kind->key, begun);
}

/* KEY of an option of a list, of those that `example` has, which is taken over; before and behind: what stands around
   it. */
static void suggest_keys(json_t *example, const char *before, const char *behind, const char *begun)
{
    json_t *value;
    const char *key;
    char word[128];
    json_object_foreach(example, key, value)
    {
        snprintf(word, sizeof word, "%s%s%s", before, key, behind);
        suggest(word, begun);
    }
    json_decref(example);
}

/* VALUE of --filter KEY=VALUE: those that rows have now, each once. */
static void suggest_filter_values(struct flytctl *ctl, const struct row_kind *kind, const char *begun)
{
    const char *equal = strchr(begun, '=');
    size_t length = (size_t)(equal - begun), i;
    json_t *rows = NULL, *row, *seen = json_object();
    char key[64], value[256], word[352];
    snprintf(key, sizeof key, "%.*s", (int)(length && equal[-1] == '!' ? length - 1 : length), begun);
    if (kind_rows(ctl, kind, &(struct rows_query){ .only = NULL }, &rows) != EXIT_FINE)
        rows = json_array();
    json_array_foreach(rows, i, row)
    {
        json_t *each = value_at(row, key);
        value_text(each, value, sizeof value);
        json_decref(each);
        snprintf(word, sizeof word, "%.*s%s", (int)length + 1, begun, value);
        if (*value && !json_object_get(seen, value))
            suggest(word, begun);
        json_object_set_new(seen, value, json_true());
    }
    json_decref(seen);
    json_decref(rows);
}

static void suggest_kinds(const char *behind, const char *begun)
{
    char word[32];
    for (const struct row_kind *kind = all_kinds; kind->name; kind++) {
        snprintf(word, sizeof word, "%s%s", kind->name, behind);
        suggest(word, begun);
    }
}

/* What the cluster has, or what is the same everywhere. Without the cluster there is nothing to suggest: a shell
   that waits would be worse. */
static void suggest_kind(struct flytctl *ctl, const char *kind, const char *begun)
{
    static const char *const daemons[] = { "cluster-manager", "node-manager", "client-manager",
                                           "monitor",         "flytctl",      NULL };
    static const char *const roles[] = { "cluster",  "issuer", "node",   "client", "admin",
                                         "operator", "viewer", "server", NULL };
    const struct row_kind *named = kind_find(kind);
    if (*kind == ':')
        puts(kind);
    else if (strcmp(kind, "daemon") == 0)
        suggest_all(daemons, begun);
    else if (strcmp(kind, "role") == 0)
        suggest_all(roles, begun);
    else if (strcmp(kind, "kind") == 0 || strcmp(kind, "kinds") == 0)
        suggest_kinds(kind[4] ? "s" : "", begun);
    else if (strcmp(kind, "comm") == 0)
        suggest_communicators(ctl, begun);
    else if (named)
        suggest_named(ctl, named, begun);
}

/* ---- values of options ---- */

/* The kind that a list command lists. */
static const struct row_kind *listed(const struct command *command)
{
    const struct row_kind *kind = command && command->group ? kind_find(command->group) : NULL;
    return kind ? kind : kind_find("server");
}

static bool is_usage(const struct command *command)
{
    return command && !command->group && strcmp(command->name, "usage") == 0;
}

/* All keys of the rows that a command prints; by: the value of --by. New reference. */
static json_t *example_of(const struct command *command, const char *by)
{
    json_t *example = is_usage(command) ? usage_example(by) : kind_example(listed(command));
    return example ? example : json_object();
}

static void suggest_form(const struct command *command, const char *by, const char *begun)
{
    static const char *const forms[] = { "table", "wide", "json", "yaml", "name", "csv", NULL };
    const char *last = strrchr(begun, ',');
    char before[256];
    if (strncmp(begun, "custom=", 7) != 0) {
        suggest_all(forms, begun);
        suggest("custom=", begun);
        return;
    }
    int kept = last ? (int)(last + 1 - begun) : 7;
    kept += (int)(strchr(begun + kept, ':') ? strcspn(begun + kept, ":") + 1 : 0);
    snprintf(before, sizeof before, "%.*s", kept, begun);
    puts(":nospace");
    suggest_keys(example_of(command, by), before, "", begun);
}

static void suggest_value(struct flytctl *ctl, const struct command *command, const char *by,
                          const struct option_row *option, const char *begun)
{
    static const char *const sharing[] = { "exclusive", "mig", "time-slice", "mps", "any", NULL };
    static const char *const waits[] = { "in-line", "fail", "default", NULL };
    static const char *const schemes[] = { "unix://", "tcp://", NULL }, *const sources[] = { "file:", "env:", NULL };
    /* By what the help calls the value, else by the option's name. */
    static const struct {
        const char *called, *kind;
    } values[] = {
        { "FILE", ":file" }, { "DIR", ":dir" },      { "USER", ":user" }, { "VM", "vm" },
        { "NODE", "node" },  { "GPU", "gpu" },       { "host", "node" },  { "vm", "vm" },
        { "node", "node" },  { "DAEMON", "daemon" }, { "ID", "program" },
    };
    if (strcmp(option->name, "output") == 0) {
        suggest_form(command, by, begun);
    } else if (strcmp(option->name, "sort-by") == 0) {
        suggest_keys(example_of(command, by), *begun == '-' ? "-" : "", "", begun);
    } else if (strcmp(option->name, "filter") == 0 && strchr(begun, '=')) {
        if (!is_usage(command)) /* whose rows may be very many */
            suggest_filter_values(ctl, listed(command), begun);
    } else if (strcmp(option->name, "filter") == 0) {
        puts(":nospace");
        suggest_keys(example_of(command, by), "", "=", begun);
    } else if (strchr(option->argument, '|')) {
        suggest_alternatives(option->argument, begun);
    } else if (strcmp(option->name, "sharing") == 0) {
        suggest_item(sharing, begun);
    } else if (strcmp(option->name, "wait") == 0) {
        suggest_all(waits, begun);
    } else if (strcmp(option->name, "kind") == 0) {
        suggest_all(protocol_event_kinds, begun);
    } else if (strncmp(begun, "file:", 5) == 0 || strncmp(begun, "unix://", 7) == 0) {
        puts(":file");
    } else if (strcmp(option->argument, "URI") == 0 || strcmp(option->argument, "SOURCE") == 0) {
        puts(":nospace");
        suggest_all(strcmp(option->argument, "URI") == 0 ? schemes : sources, begun);
    } else {
        for (size_t i = 0; i < COUNT(values); i++)
            if (strcmp(option->argument, values[i].called) == 0 || strcmp(option->name, values[i].called) == 0) {
                suggest_kind(ctl, values[i].kind, begun);
                break;
            }
    }
}

/* ---- the words ---- */

struct command_line {
    const struct command *command;
    const char *words[2];             /* the first that are no options */
    int count;                        /* of these */
    const struct option_row *pending; /* wants a value, which is the word being written */
    const struct option_row *seen[MAX_OPTIONS];
    int seen_count;
    const char *by; /* the value of --by */
    bool ended;     /* by -- */
};

static const struct option_row *known_option(const struct command *command, const char *word)
{
    bool is_long = word[1] == '-';
    size_t length = is_long ? strcspn(word + 2, "=") : 1;
    char letter = is_long ? '\0' : word[1];
    const struct option_row *own = command ? option_find(command->options, word + 2, length, letter) : NULL;
    return own ? own : option_find(global_options, word + 2, length, letter);
}

static void take_option(struct flytctl *ctl, struct command_line *line, const char *word, const char *next)
{
    const struct option_row *option = known_option(line->command, word);
    const char *attached = word[1] == '-' ? strchr(word, '=') : word[2] ? word + 1 : NULL;
    if (!option)
        return;
    if (line->seen_count < MAX_OPTIONS && !option->repeat)
        line->seen[line->seen_count++] = option;
    if (!option->argument)
        return;
    if (!attached)
        line->pending = option;
    const char *value = attached ? attached + 1 : next;
    if (value && strcmp(option->name, "by") == 0)
        line->by = value;
    else if (value)
        option_connection(ctl, option, value);
}

static void take_word(struct command_line *line, const char *word)
{
    if (line->count < 2)
        line->words[line->count] = word;
    line->count++;
    if (!line->command)
        line->command = command_find(line->words[0], line->count > 1 ? line->words[1] : NULL);
}

static void suggest_options(const struct command_line *line, const struct option_row *options, const char *begun)
{
    for (int i = 0; options && options[i].name; i++) {
        bool seen = false;
        for (int k = 0; k < line->seen_count; k++)
            seen |= line->seen[k] == &options[i];
        char word[64];
        snprintf(word, sizeof word, "--%s", options[i].name);
        if (!seen)
            suggest(word, begun);
    }
}

/* Groups and commands of one word, or the commands of a group. */
static void suggest_commands(int count, const char *group, const char *begun)
{
    const char *before = "";
    for (const struct command *each = commands; each->name; each++) {
        if (count == 0 && each->group && strcmp(each->group, before) != 0)
            suggest(before = each->group, begun);
        else if (count == 0 && !each->group && each->run != command_complete)
            suggest(each->name, begun);
        else if (count == 1 && each->group && strcmp(each->group, group) == 0)
            suggest(each->name, begun);
    }
}

/* `complete` names one kind, or several with commas: one for each argument. The last one stands for all further
   arguments. */
static void suggest_argument(struct flytctl *ctl, const struct command_line *line, const char *begun)
{
    const struct command *command = line->command;
    int at = line->count - (command->group ? 2 : 1);
    char kind[32];
    if (command->max >= 0 && at >= command->max)
        return;
    const char *text = command->complete;
    for (const char *comma; at > 0 && (comma = strchr(text, ',')); at--)
        text = comma + 1;
    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(text, ","), text);
    if (strcmp(kind, "named") == 0) /* of the kind that the first argument names */
        snprintf(kind, sizeof kind, "%s", line->words[1] ? line->words[1] : "");
    if (strcmp(kind, "command") == 0)
        suggest_commands(line->count - 1, line->words[1], begun);
    else
        suggest_kind(ctl, kind, begun);
}

int command_complete(struct flytctl *ctl)
{
    const char *begun = ctl->argc ? ctl->argv[ctl->argc - 1] : "";
    struct command_line line = { .words = { NULL, NULL }, .by = "vm" };
    ctl->timeout_ms = COMPLETE_MS;
    for (int i = 0; i + 1 < ctl->argc; i++) {
        const char *word = ctl->argv[i];
        if (line.pending)
            line.pending = NULL;
        else if (!line.ended && strcmp(word, "--") == 0)
            line.ended = true;
        else if (!line.ended && word[0] == '-' && word[1])
            take_option(ctl, &line, word, ctl->argv[i + 1]);
        else
            take_word(&line, word);
    }
    const char *equals = !line.pending && !line.ended && strncmp(begun, "--", 2) == 0 ? strchr(begun, '=') : NULL;
    const struct option_row *option = equals ? known_option(line.command, begun) : line.pending;
    if (option && option->argument) {
        suggest_value(ctl, line.command, line.by, option, equals ? equals + 1 : begun);
    } else if (begun[0] == '-' && !line.ended) {
        suggest_options(&line, line.command ? line.command->options : NULL, begun);
        suggest_options(&line, global_options, begun);
    } else if (!line.command) {
        suggest_commands(line.count, line.words[0], begun);
    } else {
        suggest_argument(ctl, &line, begun);
    }
    return EXIT_FINE;
}
