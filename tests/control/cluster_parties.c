/* Node managers and client managers as a test plays them: see cluster_rig.h. */
#include "tests/control/cluster_rig.h"

#include <errno.h>

/* ---- those that are open, for rig_destroy ---- */

static void closed(const struct fake_node *node, const struct fake_client *client)
{
    for (unsigned i = 0; i < rig.open_count; i++)
        if (rig.open[i].node == node && rig.open[i].client == client) {
            rig.open[i] = rig.open[--rig.open_count];
            return;
        }
}

static void opened(struct fake_node *node, struct fake_client *client)
{
    closed(node, client);                       /* opened again */
    if (rig.open_count == rig.open_room) {
        rig.open_room = rig.open_room ? 2 * rig.open_room : 32;
        rig.open = realloc(rig.open, rig.open_room * sizeof *rig.open);
        assert_non_null(rig.open);
    }
    rig.open[rig.open_count++] = (struct rig_party){ node, client };
}

/* ---- nodes ---- */

struct fake_server *node_server(struct fake_node *node, uint64_t id)
{
    for (int i = 0; i < node->server_count; i++)
        if (node->servers[i].id == id)
            return &node->servers[i];
    return NULL;
}

struct filled { ctl_server_report report; ctl_uri address; char uri[128]; };

static void fill(const struct fake_node *node, const struct fake_server *server, struct filled *out)
{
    snprintf(out->uri, sizeof out->uri, "tcp://%s:%llu", node->name, (unsigned long long)server->id);
    out->address = out->uri;
    out->report = (ctl_server_report){
        .id = server->id, .state = server->state, .addresses = { 1, &out->address }, .granted_sms = server->sms,
        .memory_limit = server->memory, .pid = 1,
        .status = { server->state == CTL_SERVER_FAILED ? CTL_INTERNAL : CTL_OK,
                    (char *)(server->state == CTL_SERVER_FAILED ? "it was told to fail" : "") },
    };
}

static void say(struct fake_node *node, node_report_body *body)
{
    const node_report_args args = { { 1, body } };
    link_call(node->link, NODE_REPORT, &args, CTL_CALL_SECONDS * 1000, NULL, NULL, NULL);
}

void node_report(struct fake_node *node, const struct fake_server *server)
{
    struct filled filled = { .uri = "" };
    node_report_body body = { .kind = NODE_REPORT_SERVER };
    fill(node, server, &filled);
    body.node_report_body_u.server = filled.report;
    if (!node->mute)
        say(node, &body);
}

/* What this node would see of over-commitment. */
static void check_gpu(struct fake_node *node, int gpu)
{
    uint64_t sms = 0, memory = 0;
    unsigned kinds = 0;
    int users = 0;
    for (int i = 0; i < node->server_count; i++)
        if (node->servers[i].gpus & 1u << gpu) {
            sms += node->servers[i].sms;
            memory += node->servers[i].memory;
            kinds |= node->servers[i].sharing;
            users++;
        }
    bool alone = kinds & (CTL_SHARING_EXCLUSIVE | CTL_SHARING_MIG);
    if (sms > node->gpu_sms || memory > node->gpu_memory || (kinds & (kinds - 1)) || (alone && users > 1))
        node->overcommits++;
}

static void do_start(struct fake_node *node, const ctl_server_spec *spec, char *const *gpus, unsigned count)
{
    unsigned set = 0;
    for (unsigned i = 0; i < count; i++)
        set |= 1u << atoi(strrchr(gpus[i], '-') + 1);
    if (node_server(node, spec->id)) {
        node_report(node, node_server(node, spec->id));
        return;
    }
    if (node->server_count == RIG_SERVERS) {
        node->bad_orders++;
        return;
    }
    struct fake_server *server = &node->servers[node->server_count++];
    *server = (struct fake_server){ .id = spec->id,
                                    .sms = spec->sms,
                                    .memory = spec->memory,
                                    .sharing = spec->sharing,
                                    .same_host = spec->same_host != 0,
                                    .gpus = set,
                                    .state = CTL_SERVER_STARTING };
    node->starts++;
    for (int gpu = 0; gpu < RIG_GPUS; gpu++)
        check_gpu(node, gpu);
    if (node->hold_starts)
        return;
    server->state = node->fail_starts ? CTL_SERVER_FAILED : CTL_SERVER_RUNNING;
    node_report(node, server);
    if (node->fail_starts)
        node->server_count--;
}

static void start_gang(struct fake_node *node, const node_start_gang *order)
{
    node->bad_orders += order->gpus.gpus_len < 2 || strcmp(order->spec.gpu, order->gpus.gpus_val[0]) != 0;
    do_start(node, &order->spec, order->gpus.gpus_val, order->gpus.gpus_len);
}

static void do_stop(struct fake_node *node, uint64_t id)
{
    struct fake_server *server = node_server(node, id);
    node->stops++;
    if (!server || node->hold_stops)
        return;
    server->state = CTL_SERVER_ENDED;
    node_report(node, server);
    *server = node->servers[--node->server_count];
}

void node_report_share(struct fake_node *node, const struct fake_server *server)
{
    node_report_body body = { .kind = NODE_REPORT_SHARE };
    body.node_report_body_u.share = (node_share){ server->id, server->sms, server->memory };
    say(node, &body);
}

void node_say_left(struct fake_node *node, uint64_t server, uint64_t program, int64_t ended)
{
    node_report_body body = { .kind = NODE_REPORT_LEFT };
    body.node_report_body_u.left = (node_left){ server, program, ended, 0 };
    if (!node->mute && (!node->minor || node->minor >= NODE_MINOR_USAGE))
        say(node, &body);
}

static void do_resize(struct fake_node *node, uint64_t number, const node_resize *order)
{
    struct fake_server *server = node_server(node, order->server);
    node_report_body body = { .kind = NODE_REPORT_ORDER };
    node->resizes++;
    node->held_order = number;
    if (!server || node->resize == CTL_WAITING)
        return;
    if (node->resize == CTL_OK) {
        server->sms = order->sms;
        server->memory = order->memory;
        node_report_share(node, server);
    }
    body.node_report_body_u.done = (node_order_done){ number, { node->resize, (char *)"as the test says" } };
    say(node, &body);
}

void node_answer(struct fake_node *node, uint64_t number, ctl_code code)
{
    node_report_body body = { .kind = NODE_REPORT_ORDER };
    body.node_report_body_u.done = (node_order_done){ number, { code, (char *)"" } };
    say(node, &body);
}

void node_say_log(struct fake_node *node, uint64_t number, ctl_code code)
{
    static char text[] = "said by n1\n";
    node_report_body body = { .kind = NODE_REPORT_LOG };
    body.node_report_body_u.log = (node_log){
        .number = number,
        .status = { code, (char *)"as the test says" },
        .piece = { .file = 7, .from = 5, .size = 5 + sizeof text - 1, .text = { sizeof text - 1, text } },
    };
    say(node, &body);
}

static void do_log(struct fake_node *node, uint64_t number, const ctl_log_wish *wish)
{
    node->logs++;
    node->log_wish = *wish;
    node->held_order = number;
    if (node->log != CTL_WAITING)
        node_say_log(node, number, node->log);
}

/* address: of the other server, NULL: both are on this node. */
static void do_bridge(struct fake_node *node, uint64_t number, const node_bridge *order, const char *address)
{
    node->bridges += !address;
    node->dials += address != NULL;
    node->bridged = *order;
    snprintf(node->dialled, sizeof node->dialled, "%s", address ? address : "");
    node->held_order = number;
    if (node->bridge != CTL_WAITING)
        node_answer(node, number, node->bridge);
}

static void do_link(struct fake_node *node, uint64_t number, const node_link *order)
{
    node->links++;
    node->linked = *order;
    node->linked.address = NULL;
    snprintf(node->dialled, sizeof node->dialled, "%s", order->address);
    node->held_order = number;
    if (node->bridge != CTL_WAITING)
        node_answer(node, number, node->bridge);
}

static void take_keys(struct fake_node *node, const void *keys, size_t size)
{
    node->key_count = (unsigned)(size / TICKET_KEY_SIZE);
    assert_true(node->key_count >= 1 && node->key_count <= TICKET_MAX_KEYS && size % TICKET_KEY_SIZE == 0);
    memcpy(node->keys, keys, size);
    memcpy(node->ticket_key, keys, TICKET_KEY_SIZE);
}

static void ask_orders(struct fake_node *);
static void got_orders(void *context, int error, const char *why, void *object)
{
    struct fake_node *node = context;
    const node_orders_result *result = object;
    (void)why;
    if (error || node->mute)
        return;
    for (u_int i = 0; i < result->orders.orders_len; i++) {
        const node_order *order = &result->orders.orders_val[i];
        if (order->number <= node->acknowledged)
            continue;                           /* seen: once is enough */
        node->acknowledged = order->number;
        if (order->body.kind == NODE_ORDER_START)
            do_start(node, &order->body.node_order_body_u.start, &order->body.node_order_body_u.start.gpu, 1);
        else if (order->body.kind == NODE_ORDER_START_GANG)
            start_gang(node, &order->body.node_order_body_u.start_gang);
        else if (order->body.kind == NODE_ORDER_STOP)
            do_stop(node, order->body.node_order_body_u.stop.server);
        else if (order->body.kind == NODE_ORDER_RESIZE)
            do_resize(node, order->number, &order->body.node_order_body_u.resize);
        else if (order->body.kind == NODE_ORDER_BRIDGE)
            do_bridge(node, order->number, &order->body.node_order_body_u.bridge, NULL);
        else if (order->body.kind == NODE_ORDER_LINK)
            do_link(node, order->number, &order->body.node_order_body_u.link);
        else if (order->body.kind == NODE_ORDER_LOG)
            do_log(node, order->number, &order->body.node_order_body_u.log);
        else if (order->body.kind == NODE_ORDER_DIAL) {
            const node_dial *dial = &order->body.node_order_body_u.dial;
            do_bridge(node, order->number, &(node_bridge){ dial->prog, dial->source, dial->target }, dial->address);
        }
        else if (order->body.kind == NODE_ORDER_END_PROGRAM &&
                 order->body.node_order_body_u.end_program.why.code != CTL_OK)
            node->ended++;
        else if (order->body.kind == NODE_ORDER_END_PROGRAM) {
            node->revoked++;
            const node_end_program *end = &order->body.node_order_body_u.end_program;
            node->revoked_last = end->prog;
            if (!node->keeps)
                node_say_left(node, end->server, end->prog, 0);
        } else if (order->body.kind == NODE_ORDER_SERVED) {
            const node_served *asked = &order->body.node_order_body_u.served;
            node->asked_served++;
            node->asked_served_last = asked->prog;
            if (!node->keeps)
                node_say_left(node, asked->server, asked->prog, 0);
        } else if (order->body.kind == NODE_ORDER_KEYS) {
            take_keys(node, order->body.node_order_body_u.ticket_key.ticket_key_val,
                      order->body.node_order_body_u.ticket_key.ticket_key_len);
            node->key_orders++;
        }
    }
    ask_orders(node);
}

static void ask_orders(struct fake_node *node)
{
    node_orders_args args = { node->acknowledged };
    if (link_conn(node->link))
        link_call(node->link, NODE_ORDERS, &args, CTL_DEAD_SECONDS * 1000, got_orders, node, NULL);
}

static void registered(void *context, int error, const char *why, void *object)
{
    struct fake_node *node = context;
    const node_register_result *result = object;
    if (error) {
        print_error("registering %s: %s\n", node->name, why);
        return;
    }
    node->refused = result->status.code;
    node->registered = result->status.code == CTL_OK;
    if (!node->registered)
        return;
    take_keys(node, result->ticket_key.ticket_key_val, result->ticket_key.ticket_key_len);
    ask_orders(node);
}

static void node_up(struct link *link, struct conn *conn, const ctl_hello_result *hello)
{
    struct fake_node *node = link_context(link);
    ctl_gpu gpus[RIG_GPUS];
    char ids[RIG_GPUS][64];
    static struct filled filled[RIG_SERVERS];
    ctl_server_report reports[RIG_SERVERS];
    ctl_host address = node->host;
    const char *product = rig_software ? PROTOCOL_SOFTWARE_GPU : "fake";
    (void)conn, (void)hello;
    node->ups++;
    for (unsigned i = 0; i < node->gpu_count; i++) {
        snprintf(ids[i], sizeof ids[i], "%s-%u", node->gpus_of ? node->gpus_of : node->name, i);
        gpus[i] = (ctl_gpu){ .id = ids[i], .product = (char *)(uintptr_t)product, .index = i, .sms = node->gpu_sms,
                             .memory = node->gpu_memory, .sharing = node->sharing, .sm_limits = 1, .text = (char *)"" };
    }
    for (int i = 0; i < node->server_count; i++) {
        fill(node, &node->servers[i], &filled[i]);
        reports[i] = filled[i].report;
    }
    node_register_args args = { .host = node->name, .addresses = { 1, &address }, .gpus = { node->gpu_count, gpus },
                                .servers = { (u_int)node->server_count, reports } };
    link_call(node->link, NODE_REGISTER, &args, 10000, registered, node, NULL);
}

static void node_down(struct link *link, bool was_up, int error, const char *why)
{
    struct fake_node *node = link_context(link);
    (void)was_up, (void)error, (void)why;
    node->registered = false;
}

void node_reopen(struct fake_node *node)
{
    const char *uris[] = { rig.node_uri, NULL };
    const struct link_options options = { .uris = uris, .role = CTL_ROLE_NODE, .name = node->name,
                                          .software = "fake node",
                                          .secret = &rig.node_secret, .retry_min_ms = rig.patient ? 0 : 20,
                                          .retry_max_ms = rig.patient ? 0 : 100,
                                          .minor = node->minor, .context = node, .up = node_up, .down = node_down };
    node->mute = false;
    assert_int_equal(link_open(rig.loop, &options, &node->link, NULL), 0);
    opened(node, NULL);
}

void node_open(struct fake_node *node, const char *name, unsigned gpus, unsigned sms, uint64_t memory, unsigned sharing)
{
    memset(node, 0, sizeof *node);
    snprintf(node->name, sizeof node->name, "%s", name);
    snprintf(node->host, sizeof node->host, "host-of-%s", name);
    node->gpu_count = gpus;
    node->gpu_sms = sms;
    node->gpu_memory = memory;
    node->sharing = sharing;
    node_reopen(node);
    rig_until(node->registered, 15000);
}

void node_close(struct fake_node *node)
{
    closed(node, NULL);
    link_close(node->link);
    node->link = NULL;
    node->registered = false;
}

/* ---- clients ---- */

static struct fake_program *program_of(struct fake_client *client, uint64_t key)
{
    return key >= 1 && key <= (uint64_t)client->program_count ? &client->programs[key - 1] : NULL;
}

static void take_answer(struct fake_client *client, const client_answer *answer)
{
    struct fake_program *program = program_of(client, answer->key);
    if (!program)
        return;
    program->answers++;
    program->code = answer->status.code;
    program->id = answer->prog;
    program->position = answer->position;
    snprintf(program->text, sizeof program->text, "%.255s", answer->status.text);
    if (answer->status.code != CTL_OK)
        return;
    program->running = true;
    program->server = answer->grant.server;
    program->sms = answer->grant.sms;
    snprintf(program->node, sizeof program->node, "%s", answer->grant.node);
    snprintf(program->address, sizeof program->address, "%s",
             answer->grant.addresses.addresses_len ? answer->grant.addresses.addresses_val[0] : "");
    program->ticket_size = answer->grant.ticket.ticket_len;
    memcpy(program->ticket, answer->grant.ticket.ticket_val, program->ticket_size);
}

const client_event *client_event_next(const client_events_result *result, u_int *at, uint64_t *acknowledged)
{
    while (*at < result->events.events_len) {
        const client_event *event = &result->events.events_val[(*at)++];
        if (event->number > *acknowledged) {
            *acknowledged = event->number;
            return event;
        }
    }
    return NULL;
}

static void take_move(struct fake_client *client, const client_move *move)
{
    struct fake_program *program = program_of(client, move->key);
    assert_non_null(program);
    program->move = move->move;
    program->move_orders += !move->cancel;
    program->move_offs += move->cancel != 0;
    if (!move->cancel) {
        assert_true(move->grant.ticket.ticket_len > 0 && move->grant.addresses.addresses_len > 0);
        program->target = move->grant.server;
    }
}

void client_moved(struct fake_client *client, struct fake_program *program, uint64_t move, ctl_move_stage stage,
                  ctl_code code)
{
    client_moved_args args = { .key = program->key,
                               .server = program->server,
                               .moved = { .move = move, .stage = stage, .status = { code, (char *)"as the test says" },
                                          .outage_us = 1500, .bytes = 4096 } };
    assert_int_equal(link_call(client->link, CLIENT_MOVED, &args, 10000, NULL, NULL, NULL), 0);
}

struct answered { bool is; ctl_code code; };

static void take_meeting(void *context, int error, const char *why, void *object)
{
    struct answered *answered = context;
    const ctl_plain_result *result = object;
    (void)why;
    answered->code = error ? CTL_LOST : result->status.code;
    answered->is = true;
}

ctl_code client_meets(struct fake_client *client, const struct fake_program *program, uint64_t move, uint64_t other)
{
    struct answered answered = { .is = false };
    client_group_args args = { .key = program->key, .move = move, .others = { other != 0, &other } };
    assert_int_equal(link_call(client->link, CLIENT_GROUP, &args, 10000, take_meeting, &answered, NULL), 0);
    rig_until(answered.is, 10000);
    return answered.code;
}

static void take_rest(struct fake_client *client, const client_rest *rest)
{
    struct fake_program *program = program_of(client, rest->key);
    if (!program)
        return;
    program->move = rest->move;
    program->rests++;
    program->rest = rest->action;
    snprintf(program->file, sizeof program->file, "%.255s", rest->file);
}

void client_progress(struct fake_client *client, struct fake_program *program, const ctl_progress *progress)
{
    client_progress_args args = { .key = program->key, .progress = *progress };
    assert_int_equal(link_call(client->link, CLIENT_PROGRESS, &args, 10000, NULL, NULL, NULL), 0);
}

static void take_limits(struct fake_client *client, const client_limits *limits)
{
    struct fake_program *program = program_of(client, limits->key);
    assert_true(!client->minor || client->minor >= CLIENT_MINOR_PROGRESS);
    if (!program)
        return;
    program->limits_told++;
    program->limits = *limits;
}

static void ask_events(struct fake_client *);
static void got_events(void *context, int error, const char *why, void *object)
{
    struct fake_client *client = context;
    const client_events_result *result = object;
    (void)why;
    if (error)
        return;
    u_int at = 0;
    for (const client_event *event; (event = client_event_next(result, &at, &client->acknowledged));) {
        if (event->body.kind == CLIENT_EVENT_ANSWER) {
            take_answer(client, &event->body.client_event_body_u.answer);
            continue;
        }
        if (event->body.kind == CLIENT_EVENT_MOVE) {
            take_move(client, &event->body.client_event_body_u.move);
            continue;
        }
        if (event->body.kind == CLIENT_EVENT_REST) {
            take_rest(client, &event->body.client_event_body_u.rest);
            continue;
        }
        if (event->body.kind == CLIENT_EVENT_SAVE) {
            const client_save *save = &event->body.client_event_body_u.save;
            struct fake_program *saved = program_of(client, save->rest.key);
            take_rest(client, &save->rest);
            if (saved)
                snprintf(saved->base, sizeof saved->base, "%.255s", save->base);
            continue;
        }
        if (event->body.kind == CLIENT_EVENT_LIMITS) {
            take_limits(client, &event->body.client_event_body_u.limits);
            continue;
        }
        const client_notice *notice = &event->body.client_event_body_u.lost;
        struct fake_program *program = program_of(client, notice->key);
        if (!program)
            continue;
        program->lost |= event->body.kind == CLIENT_EVENT_LOST;
        program->suspect |= event->body.kind == CLIENT_EVENT_SUSPECT;
        program->back |= event->body.kind == CLIENT_EVENT_BACK;
        program->end_asked |= event->body.kind == CLIENT_EVENT_END;
        if (event->body.kind == CLIENT_EVENT_LOST) {
            program->running = false;
            program->code = notice->why.code;
            snprintf(program->text, sizeof program->text, "%.255s", notice->why.text);
        }
    }
    ask_events(client);
}

static void ask_events(struct fake_client *client)
{
    client_events_args args = { client->acknowledged };
    if (link_conn(client->link))
        link_call(client->link, CLIENT_EVENTS, &args, CTL_DEAD_SECONDS * 1000, got_events, client, NULL);
}

static void client_registered(void *context, int error, const char *why, void *object)
{
    struct fake_client *client = context;
    (void)why, (void)object;
    client->registered = error == 0;
    if (!error)
        ask_events(client);
}

static void client_up(struct link *link, struct conn *conn, const ctl_hello_result *hello)
{
    struct fake_client *client = link_context(link);
    client_running running[RIG_PROGRAMS];
    client_register_args args = { .host = client->name, .programs = { 0, running } };
    (void)conn, (void)hello;
    client->ups++;
    for (int i = 0; i < client->program_count; i++) {
        const struct fake_program *program = &client->programs[i];
        if (program->key)
            running[args.programs.programs_len++] = (client_running){
                .prog = { .key = program->key, .pid = 100, .executable = (char *)"/bin/fake" }, .id = program->id,
                .server = program->server };
    }
    link_call(client->link, CLIENT_REGISTER, &args, 10000, client_registered, client, NULL);
}

static void client_down(struct link *link, bool was_up, int error, const char *why)
{
    struct fake_client *client = link_context(link);
    (void)was_up;
    client->downs++;
    client->error = error;
    client->registered = false;
    snprintf(client->why, sizeof client->why, "%.255s", why);
}

void client_open(struct fake_client *client)
{
    const char *uris[] = { rig.client_uri, NULL };
    const struct link_options options = { .uris = uris,
                                          .role = CTL_ROLE_CLIENT,
                                          .name = client->name,
                                          .software = "fake client",
                                          .minor = client->minor,
                                          .secret = client->secret.size ? &client->secret : NULL,
                                          .retry_min_ms = 20,
                                          .retry_max_ms = 100,
                                          .context = client,
                                          .up = client_up,
                                          .down = client_down };
    assert_int_equal(link_open(rig.loop, &options, &client->link, NULL), 0);
    opened(NULL, client);
}

void client_create(struct fake_client *client, const char *vm, unsigned sms, uint64_t memory, unsigned sharing,
                   bool grouping, const char *host)
{
    admin_vm_add_args args = { .vm = { .name = (char *)vm, .address = (char *)"", .host = (char *)host, .sms = sms,
                                       .memory = memory,
                                       .sharing = sharing, .grouping = grouping } };
    admin_vm_add_result result;
    memset(client, 0, sizeof *client);
    snprintf(client->name, sizeof client->name, "%s", vm);
    admin_call(ADMIN_VM_ADD, &args, &result);
    if (result.status.code != CTL_OK)
        fail_msg("adding VM %s: %s", vm, result.status.text);
    client->secret.size = strlen(result.secret);
    memcpy(client->secret.bytes, result.secret, client->secret.size);
    protocol_free((xdrproc_t)xdr_admin_vm_add_result, &result);
    client_open(client);
    rig_until(client->registered, 10000);
}

ctl_code vm_set(admin_vm vm, unsigned set)
{
    admin_vm_set_args args = { .vm = vm, .set = set };
    args.vm.address = args.vm.host = (char *)"";
    return admin_code(ADMIN_VM_SET, &args);
}

void client_close(struct fake_client *client)
{
    closed(NULL, client);
    link_close(client->link);
    client->link = NULL;
    client->registered = false;
}

static void requested(void *context, int error, const char *why, void *object)
{
    (void)why;
    if (!error)
        take_answer(context, object);
}

struct fake_program *client_run(struct fake_client *client, client_wait wait)
{
    assert_true(client->program_count < RIG_PROGRAMS);
    struct fake_program *program = &client->programs[client->program_count++];
    *program = (struct fake_program){ .key = (uint64_t)client->program_count };
    client_request_args args = { .prog = { .key = program->key, .pid = 100, .executable = (char *)"/bin/fake" },
                                 .wait = wait };
    assert_int_equal(link_call(client->link, CLIENT_REQUEST, &args, 10000, requested, client, NULL), 0);
    return program;
}

struct fake_program *client_runs(struct fake_client *client, client_wait wait)
{
    struct fake_program *program = client_run(client, wait);
    rig_until(program->running, 10000);
    return program;
}

void client_renew(struct fake_client *client, struct fake_program *program)
{
    client_renew_args args = { program->key };
    assert_int_equal(link_call(client->link, CLIENT_RENEW, &args, 10000, requested, client, NULL), 0);
}

void client_unreached(struct fake_client *client, struct fake_program *program, bool never)
{
    client_unreached_args args = { program->key, program->server, never, (char *)"nobody answers there" };
    program->running = false;
    program->code = CTL_OK;
    assert_int_equal(link_call(client->link, CLIENT_UNREACHED, &args, 10000, requested, client, NULL), 0);
}

void client_end(struct fake_client *client, struct fake_program *program)
{
    u_quad_t key = program->key;
    client_ended_args args = { { 1, &key } };
    if (client->link)
        link_call(client->link, CLIENT_ENDED, &args, 10000, NULL, NULL, NULL);
    program->key = 0;
    program->running = false;
}
