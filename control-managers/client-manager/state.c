/*
 * state.c: STATE/programs: a line for each program that has a GPU server: key, id, server, pid, its start time,
 * user, executable; a line `at KEY SERVER SESSION` if it has said the number of its session; a line `removed KEY` if
 * its VM was removed; and a line `go MOVE` for each move of a group that goes (groups.c). Written whole and renamed
 * into place whenever something in it changes, but a session's number, which is said again. The first line has the
 * boot id (process ids mean nothing after it changes) and the next key.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control-managers/client-manager/manager.h"
#include "cpu/common/log.h"

static bool paths(const struct manager *manager, char path[PATH_MAX], char temporary[PATH_MAX])
{
    return snprintf(path, PATH_MAX, "%s/programs", manager->config->state) < PATH_MAX &&
           snprintf(temporary, PATH_MAX, "%s/programs.new", manager->config->state) < PATH_MAX;
}

bool state_save(struct manager *manager)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    int fd = paths(manager, path, temporary) ? open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        log_error("event=state-unsaved path=%s why=\"%s\": programs that run now are not known again after a restart",
                  manager->config->state, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    fprintf(out, "1 %s %llu\n", process_boot(), (unsigned long long)manager->next_key);
    for (const struct client_program *program = manager->programs; program; program = program->next)
        if (program->process.pid > 0 && program->state != PROGRAM_REFUSED)
            fprintf(out, "%llu %llu %llu %d %llu %u %s\n", (unsigned long long)program->key,
                    (unsigned long long)program->id,
                    (unsigned long long)(program->held ? program->held : program->server), (int)program->process.pid,
                    (unsigned long long)program->process.started, program->uid, program->executable);
    for (const struct client_program *program = manager->programs; program; program = program->next)
        if (program->session && !program->ended)
            fprintf(out, "at %llu %llu %llu\n", (unsigned long long)program->key,
                    (unsigned long long)program->session_at, (unsigned long long)program->session);
    for (const struct client_program *program = manager->programs; program; program = program->next)
        if (program->removed && !program->ended)
            fprintf(out, "removed %llu\n", (unsigned long long)program->key);
    for (unsigned i = 0; i < manager->decided_count; i++)
        fprintf(out, "go %llu\n", (unsigned long long)manager->decided[i]);
    bool bad = ferror(out) != 0;
    if (fclose(out) == 0 && !bad && rename(temporary, path) == 0)
        return true;
    log_error("event=state-unsaved path=%s why=\"%s\"", path, strerror(errno));
    return false;
}

static void take_session(struct manager *manager, uint64_t key, uint64_t server, uint64_t session)
{
    struct client_program *program = program_find(manager, key);
    if (!program)
        return;
    program->session_at = server;
    program->session = session;
}

static void take_removed(struct manager *manager, uint64_t key)
{
    struct client_program *program = program_find(manager, key);
    if (program)
        program->removed = true;
}

static void take_line(struct manager *manager, char *line, bool same_boot)
{
    unsigned long long key, id, server, started;
    int pid, at = 0;
    unsigned uid;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "at %llu %llu %llu", &key, &server, &id) == 3) {
        take_session(manager, key, server, id);
        return;
    }
    if (sscanf(line, "removed %llu", &key) == 1) {
        take_removed(manager, key);
        return;
    }
    if (sscanf(line, "go %llu", &id) == 1) {
        group_decision_note(manager, id);
        return;
    }
    if (sscanf(line, "%llu %llu %llu %d %llu %u %n", &key, &id, &server, &pid, &started, &uid, &at) < 6 || !key)
        return;
    struct client_program *program = calloc(1, sizeof *program);
    if (!program)
        return;
    *program = (struct client_program){ .manager = manager,
                                        .next = manager->programs,
                                        .key = key,
                                        .id = id,
                                        .server = server,
                                        .uid = uid,
                                        .pid = (uint32_t)pid,
                                        .process = PROCESS_NONE,
                                        .state = PROGRAM_RUNNING };
    snprintf(program->executable, sizeof program->executable, "%s", at ? line + at : "");
    manager->programs = program;
    /* One that had no server yet has lost its connection to us, and has given up. */
    if (!same_boot || !server || process_open(pid, started, &program->process) != 0)
        program->ended = true;
    else
        program_watch(program);
    log_info("event=program-%s key=%llu pid=%d server=%llu", program->ended ? "ended-meanwhile" : "known-again", key,
             pid, server);
}

void state_load(struct manager *manager)
{
    char path[PATH_MAX], temporary[PATH_MAX], boot[64], line[CTL_MAX_PATH + 256];
    unsigned long long next;
    int version;
    manager->next_key = 1;
    FILE *file = paths(manager, path, temporary) ? fopen(path, "re") : NULL;
    if (!file)
        return;
    if (fgets(line, sizeof line, file) && sscanf(line, "%d %63s %llu", &version, boot, &next) == 3 && version == 1) {
        manager->next_key = next;
        while (fgets(line, sizeof line, file))
            take_line(manager, line, strcmp(boot, process_boot()) == 0);
    } else {
        log_warning("event=state-unreadable path=%s: programs of before are not known", path);
    }
    fclose(file);
}
