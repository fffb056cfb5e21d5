/*
 * options.c: words to commands and values, and the help that belongs to them. Options may stand before, between and
 * after the words; `--` ends them.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "control-managers/common/config.h"
#include "control-managers/flytctl/flytctl.h"
#include "cpu/common/version.h"

static int option_index(const struct option_row *options, const char *name)
{
    for (int i = 0; options && options[i].name; i++)
        if (strcmp(options[i].name, name) == 0)
            return i;
    return -1;
}

static int given_index(const struct flytctl *ctl, const char *name)
{
    return option_index(ctl->command->options, name);
}

int option_count(const struct flytctl *ctl, const char *name)
{
    int index = given_index(ctl, name);
    return index < 0 ? 0 : ctl->given[index];
}

const char *option_at(const struct flytctl *ctl, const char *name, int at)
{
    return at < option_count(ctl, name) ? ctl->values[given_index(ctl, name)][at] : NULL;
}

const char *option(const struct flytctl *ctl, const char *name)
{
    return option_at(ctl, name, 0);
}

/* ---- values ---- */

bool option_number(struct flytctl *ctl, const char *name, uint64_t min, uint64_t max, uint64_t *out)
{
    const char *text = option(ctl, name);
    if (!text)
        return true;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || number < min || number > max) {
        complain(ctl, EXIT_USAGE, "--%s wants a number from %llu to %llu, not '%s'", name, (unsigned long long)min,
                 (unsigned long long)max, text);
        return false;
    }
    *out = number;
    return true;
}

/* Nobody's GPU has so many MiB: the number was meant as bytes. */
enum { MIB = 1 << 20, MOST_PLAIN = 1 << 24 };

bool option_size(struct flytctl *ctl, const char *name, uint64_t *bytes)
{
    const char *text = option(ctl, name);
    if (!text)
        return true;
    uint64_t size;
    if (config_parse_size(text, &size)) {
        complain(ctl, EXIT_USAGE, "--%s wants a size such as 512M or 2G (a plain number is MiB), not '%s'", name, text);
        return false;
    }
    bool plain = isdigit((unsigned char)text[strlen(text) - 1]);
    if (plain && size > MOST_PLAIN) {
        complain(ctl, EXIT_USAGE, "--%s: a plain number is MiB, and '%s' is too large for that; %sB would be bytes",
                 name, text, text);
        return false;
    }
    size *= plain ? MIB : 1;
    if (size % MIB) {
        complain(ctl, EXIT_USAGE, "--%s: '%s' is no whole number of MiB", name, text);
        return false;
    }
    *bytes = size;
    return true;
}

bool option_switch(struct flytctl *ctl, const char *name, bool *on)
{
    const char *text = option(ctl, name);
    if (!text)
        return true;
    /* 1 and 0: as existing users write it. */
    *on = strcasecmp(text, "on") == 0 || strcmp(text, "1") == 0;
    if (!*on && strcasecmp(text, "off") && strcmp(text, "0")) {
        complain(ctl, EXIT_USAGE, "--%s wants on or off, not '%s'", name, text);
        return false;
    }
    return true;
}

bool parse_id(struct flytctl *ctl, const char *text, uint64_t *id)
{
    char *end;
    errno = 0;
    *id = strtoull(text, &end, 10);
    if (isdigit((unsigned char)*text) && !*end && !errno && *id)
        return true;
    complain(ctl, EXIT_USAGE, "'%s' is no id: a number from the listing is expected", text);
    return false;
}

/* ---- help ---- */

enum { HELP_WIDTH = 79, HELP_INDENT = 29 };

static void print_row(const char *left, const char *help)
{
    int at = printf("  %-26s", left);
    print_wrapped(help, at, 1, HELP_INDENT, HELP_WIDTH);
}

static void print_options(const struct option_row *options)
{
    for (int i = 0; options && options[i].name; i++) {
        char left[64], help[256];
        const struct option_row *row = &options[i];
        snprintf(left, sizeof left, "%c%c%s --%s%s%s", row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
                 row->letter ? "," : " ", row->name, row->argument ? " " : "", row->argument ? row->argument : "");
        snprintf(help, sizeof help, "%s%s", row->help, row->repeat ? " (may be repeated)" : "");
        print_row(left, help);
    }
}

static void print_usage(const struct command *command)
{
    printf("flytctl %s%s%s%s%s", command->group ? command->group : "", command->group ? " " : "", command->name,
           *command->arguments ? " " : "", command->arguments);
}

enum section { SECTION_COMMANDS, SECTION_EARLIER };

static enum section section_of(const struct command *command)
{
    static const char *const earlier[] = { "list-vms", "list-servernodes", "list-virt-servers", "change-config",
                                           "inc-resources", "dec-resources", "migrate", "migrate-auto", "vm-grouping" };
    for (size_t i = 0; !command->group && i < sizeof earlier / sizeof *earlier; i++)
        if (!strcmp(command->name, earlier[i]))
            return SECTION_EARLIER;
    return SECTION_COMMANDS;
}

static void print_section(enum section section)
{
    for (const struct command *each = commands; each->name; each++) {
        char left[64];
        if (section_of(each) != section)
            continue;
        snprintf(left, sizeof left, "%s%s%s%s%s", each->group ? each->group : "", each->group ? " " : "", each->name,
                 *each->arguments ? " " : "", each->arguments);
        print_row(left, each->help);
    }
}

/* Of one command; NULL: of all. */
static void print_help(const struct command *command)
{
    char text[256];
    if (command) {
        printf("Usage: ");
        print_usage(command);
        printf("%s\n\n", command->options ? " [OPTIONS]" : "");
        snprintf(text, sizeof text, "%s.", command->help);
        print_wrapped(text, 0, 0, 0, HELP_WIDTH);
        if (command->options) {
            printf("\nOptions:\n");
            print_options(command->options);
        }
        printf("\nFor all commands:\n");
        print_options(global_options);
        return;
    }
    printf("Usage: flytctl [OPTIONS] COMMAND\n\nManages a Flyt cluster.\n\nCommands:\n");
    print_section(SECTION_COMMANDS);
    printf("\nNames of an earlier Flyt:\n");
    print_section(SECTION_EARLIER);
    printf("\nOptions:\n");
    print_options(global_options);
    printf("\nSee flytctl COMMAND --help, and flytctl(1).\n");
}

const struct command *command_find(const char *first, const char *second)
{
    for (const struct command *each = commands; first && each->name; each++)
        if (each->group ? strcmp(each->group, first) == 0 && second && strcmp(each->name, second) == 0
                        : strcmp(each->name, first) == 0)
            return each;
    return NULL;
}

static bool is_group(const char *word)
{
    for (const struct command *each = commands; each->name; each++)
        if (each->group && strcmp(each->group, word) == 0)
            return true;
    return false;
}

static void print_group(const char *group)
{
    printf("Commands of flytctl %s:\n", group);
    for (const struct command *each = commands; each->name; each++) {
        char left[64];
        snprintf(left, sizeof left, "%-10s %s", each->name, each->arguments);
        if (each->group && strcmp(each->group, group) == 0)
            print_row(left, each->help);
    }
}

int command_help(struct flytctl *ctl)
{
    const char *first = ctl->argc > 0 ? ctl->argv[0] : NULL, *second = ctl->argc > 1 ? ctl->argv[1] : NULL;
    const struct command *command = command_find(first, second);
    if (!first || command)
        print_help(command);
    else if (is_group(first) && !second)
        print_group(first);
    else
        return complain(ctl, EXIT_USAGE, "there is no command '%s%s%s'; see flytctl help", first, second ? " " : "",
                        second ? second : "");
    return EXIT_FINE;
}

/* ---- parsing ---- */

const struct option_row *option_find(const struct option_row *options, const char *word, size_t length, char letter)
{
    for (int i = 0; options && options[i].name; i++)
        if (letter ? options[i].letter == letter
                   : strlen(options[i].name) == length && strncmp(options[i].name, word, length) == 0)
            return &options[i];
    return NULL;
}

struct parser { struct flytctl *ctl; int argc, at; char **argv; bool help, version; };

bool option_connection(struct flytctl *ctl, const struct option_row *row, const char *value)
{
    const struct { const char *name, **at; } values[] = {
        { "manager", &ctl->manager }, { "secret", &ctl->secret },  { "tls", &ctl->tls_folder },
        { "as", &ctl->as },           { "settings", &ctl->config },
    };
    for (size_t i = 0; i < COUNT(values); i++)
        if (strcmp(row->name, values[i].name) == 0) {
            *values[i].at = value;
            return true;
        }
    return false;
}

static void set_form(struct flytctl *ctl, enum output_form form)
{
    ctl->form = form;
    ctl->json = form == FORM_JSON || form == FORM_YAML;
    ctl->wide = ctl->wide || form == FORM_WIDE;
}

static bool read_form(struct flytctl *ctl, const char *text)
{
    static const char *const names[] = { [FORM_TABLE] = "table", [FORM_WIDE] = "wide", [FORM_JSON] = "json",
                                         [FORM_YAML] = "yaml",   [FORM_NAME] = "name", [FORM_CSV] = "csv" };
    if (strncmp(text, "custom=", 7) == 0) {
        ctl->custom = text + 7;
        set_form(ctl, FORM_CUSTOM);
        return true;
    }
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(text, names[i]) == 0) {
            set_form(ctl, (enum output_form)i);
            return true;
        }
    complain(ctl, EXIT_USAGE, "--output wants table, wide, json, yaml, name, csv or custom=HEAD:KEY,…, not '%s'", text);
    return false;
}

static bool read_color(struct flytctl *ctl, const char *text)
{
    static const char *const names[] = { [WHEN_AUTO] = "auto", [WHEN_ALWAYS] = "always", [WHEN_NEVER] = "never" };
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcmp(text, names[i]) == 0) {
            ctl->color = (enum color_when)i;
            return true;
        }
    complain(ctl, EXIT_USAGE, "--color wants auto, always or never, not '%s'", text);
    return false;
}

static bool set_global(struct parser *parser, const struct option_row *row, const char *value)
{
    struct flytctl *ctl = parser->ctl;
    if (option_connection(ctl, row, value))
        return true;
    if (strcmp(row->name, "json") == 0)
        set_form(ctl, FORM_JSON);
    else if (strcmp(row->name, "wide") == 0)
        ctl->wide = true;
    else if (strcmp(row->name, "output") == 0)
        return read_form(ctl, value);
    else if (strcmp(row->name, "utc") == 0)
        ctl->utc = true;
    else if (strcmp(row->name, "color") == 0)
        return read_color(ctl, value);
    else if (strcmp(row->name, "help") == 0)
        parser->help = true;
    else if (strcmp(row->name, "version") == 0)
        parser->version = true;
    else {
        char *end;
        double seconds = strtod(value, &end);
        if (end == value || *end || !(seconds > 0 && seconds <= 3600)) {
            complain(ctl, EXIT_USAGE, "--timeout wants seconds, up to 3600, not '%s'", value);
            return false;
        }
        ctl->timeout_ms = (unsigned)(seconds * 1000 + 0.999);
    }
    return true;
}

static bool set_own(struct flytctl *ctl, const struct option_row *row, const char *value)
{
    int index = (int)(row - ctl->command->options);
    if (ctl->given[index] && !row->repeat) {
        complain(ctl, EXIT_USAGE, "--%s was given twice", row->name);
        return false;
    }
    if (row->argument && !*value && strcmp(row->argument, "IP") != 0) {         /* no address is one, too */
        complain(ctl, EXIT_USAGE, "--%s wants a value: %s", row->name, row->argument);
        return false;
    }
    if (ctl->given[index] == MAX_REPEATED) {
        complain(ctl, EXIT_USAGE, "--%s was given more than %d times", row->name, MAX_REPEATED);
        return false;
    }
    ctl->values[index][ctl->given[index]++] = value;
    return true;
}

/* One word that begins with '-'. Letters are not joined, except with their value (-m2G). */
static bool take_option(struct parser *parser, const char *word)
{
    struct flytctl *ctl = parser->ctl;
    bool is_long = word[1] == '-';
    const char *name = word + 2;
    size_t length = is_long ? strcspn(name, "=") : 1;
    char letter = is_long ? '\0' : word[1];
    const struct option_row *own = ctl->command ? option_find(ctl->command->options, name, length, letter) : NULL;
    const struct option_row *row = own ? own : option_find(global_options, name, length, letter);
    if (!row) {
        complain(ctl, EXIT_USAGE, "unknown option '%s'; see flytctl %s%s%s%s--help", word,
                 ctl->command && ctl->command->group ? ctl->command->group : "",
                 ctl->command && ctl->command->group ? " " : "", ctl->command ? ctl->command->name : "",
                 ctl->command ? " " : "");
        return false;
    }
    const char *value = is_long ? (name[length] == '=' ? name + length + 1 : NULL) : (word[2] ? word + 2 : NULL);
    if (!row->argument && value) {
        complain(ctl, EXIT_USAGE, "--%s takes no value ('%s')", row->name, word);
        return false;
    }
    if (row->argument && !value) {
        if (parser->at == parser->argc) {
            complain(ctl, EXIT_USAGE, "--%s wants a value: %s", row->name, row->argument);
            return false;
        }
        value = parser->argv[parser->at++];
    }
    return own ? set_own(ctl, row, value ? value : "") : set_global(parser, row, value);
}

static bool take_word(struct parser *parser, char *word)
{
    struct flytctl *ctl = parser->ctl;
    if (!*word && !(ctl->command && ctl->command->run == command_complete)) {
        complain(ctl, EXIT_USAGE, "an empty word is no argument");
        return false;
    }
    if (ctl->argc == MAX_WORDS) {
        complain(ctl, EXIT_USAGE, "more than %d words", MAX_WORDS);
        return false;
    }
    ctl->argv[ctl->argc++] = word;
    if (ctl->command)
        return true;
    ctl->command = ctl->argc <= 2 ? command_find(ctl->argv[0], ctl->argc > 1 ? ctl->argv[1] : NULL) : NULL;
    if (ctl->command) {
        ctl->argc = 0;
        return true;
    }
    if (ctl->argc == 1 && is_group(word))
        return true;
    if (ctl->argc > 1)
        complain(ctl, EXIT_USAGE, "flytctl %s has no command '%s'; see flytctl help %s", ctl->argv[0], word,
                 ctl->argv[0]);
    else
        complain(ctl, EXIT_USAGE, "there is no command '%s'; see flytctl help", word);
    return false;
}

static bool is_too_long(struct flytctl *ctl, const char *kind, const char *name)
{
    if (strlen(name) <= CTL_MAX_NAME)
        return false;
    complain(ctl, EXIT_USAGE, "the name of a %s has up to %d letters, not %zu: '%.16s…'",
             strcmp(kind, "vm") == 0 ? "VM" : kind, CTL_MAX_NAME, strlen(name), name);
    return true;
}

/* Names of VMs and nodes, which could not even be asked for. */
static bool names_fit(struct flytctl *ctl)
{
    static const char *const kinds[] = { "vm", "node" };
    for (size_t k = 0; k < COUNT(kinds); k++) {
        for (int i = 0; i < option_count(ctl, kinds[k]); i++)
            if (is_too_long(ctl, kinds[k], option_at(ctl, kinds[k], i)))
                return false;
        for (int i = 0; i < ctl->argc && strcmp(ctl->command->complete, kinds[k]) == 0; i++)
            if (is_too_long(ctl, kinds[k], ctl->argv[i]))
                return false;
    }
    return true;
}

int options_parse(struct flytctl *ctl, int argc, char **argv)
{
    struct parser parser = { .ctl = ctl, .argc = argc, .at = 1, .argv = argv };
    bool ended = false;
    while (parser.at < argc) {
        char *word = argv[parser.at++];
        /* The words of `complete` are somebody's half-written line. */
        bool raw = ctl->command && ctl->command->run == command_complete;
        if (!ended && !raw && strcmp(word, "--") == 0) {
            ended = true;
            continue;
        }
        bool is_option = !ended && !raw && word[0] == '-' && word[1];
        if (is_option ? !take_option(&parser, word) : !take_word(&parser, word))
            return EXIT_USAGE;
    }
    if (parser.version) {
        printf("flytctl %s, protocol %d.%d\n", flyt_version, CTL_MAJOR, CTL_MINOR);
        return -1;
    }
    if (parser.help || (!ctl->command && ctl->argc == 0)) {
        if (!ctl->command && ctl->argc == 1)
            print_group(ctl->argv[0]);
        else
            print_help(ctl->command);
        return parser.help ? -1 : EXIT_USAGE;
    }
    if (!ctl->command)
        return complain(ctl, EXIT_USAGE, "flytctl %s wants a command; see flytctl help %s", ctl->argv[0], ctl->argv[0]);
    if (ctl->argc < ctl->command->min || (ctl->command->max >= 0 && ctl->argc > ctl->command->max))
        return complain(ctl, EXIT_USAGE, "usage: flytctl %s%s%s %s", ctl->command->group ? ctl->command->group : "",
                        ctl->command->group ? " " : "", ctl->command->name,
                        *ctl->command->arguments ? ctl->command->arguments : "(no arguments)");
    return names_fit(ctl) ? EXIT_FINE : EXIT_USAGE;
}
