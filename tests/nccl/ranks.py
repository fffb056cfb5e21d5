#!/usr/bin/env python3
"""tests/nccl/ranks.py BIN PROGRAM: GPU servers, and PROGRAM (ranks.c), whose ranks use Flyt's libnccl.so.2.

shows: nccl: each function of libnccl.so.2 with one process for four GPUs, with two processes for two GPUs each, of two
  servers, and with three processes for one GPU each, over TCP and TLS; also captured in graphs, with pinned and managed
  memory
shows: nccl: the same in a process with GPUs of two servers, alone and beside another process
shows: nccl: a rank that ends its communicator and its process at once leaves the others as ranks; one that is killed
  while they meet keeps nobody longer than the deadline
shows: nccl: a rank's process that is killed is an error of every other rank within a second; aborting is local, and
  the programs and their GPUs go on, also with a communicator of the ranks that are left, or behind a revoked one
shows: nccl: GPU servers measure their network once for a communicator, save the table, and take it from there
shows: nccl: where a server's deadline passes, all ranks learn the reason, and its log has the last calls
shows: nccl: a communicator that is aborted while it is made, or another thread splits it, or operations of it are in a
  group: the abort returns at once, whoever waits learns why, and a former communicator is known as one
shows: nccl: communicators that do not block, alone, in groups, split and shrunk: the program asks the parent, and gets
  its handle when the child is made; finalizing and destroying wait for operations that are under way
shows: nccl: a communicator grows; groups are simulated; suspended communicators take no operations; parameters are read
shows: nccl: a FLYT_NCCL_TIMEOUT that is no time is named, once, and the default taken; it is the time of all ranks
  together, also of those that come one by one, and may be long
shows: nccl: a rank that is 1,500 collectives ahead of another one of its session waits, and keeps its GPU server
shows: nccl: windows, puts, signals and waits, in streams, in groups and in graphs, and random ones against a model,
  with ranks of one process, of several and of several servers, also with eight ranks on four
shows: nccl: a killed process and a killed GPU server are an error within a second of every rank that waits for its
  signals; an abort while a rank waits is local
shows: nccl: a window that one rank registers alone is an error when the time is over, which names the others; where a
  rank frees a window's memory (also in a stream, by a graph, or with a context), no byte of a later put comes into what
  it allocates there
shows: nccl: wrong arguments, foreign unique ids, one GPU for two ranks, buffers that end too early: refused by name
shows: nccl: a server without communicators, or without links, is named; without random bytes no unique id is made
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from testlib import GpuServer, case, cases, chosen, need, plan, read, run_cases  # noqa: E402

BIN, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
LIMIT_S = 60


class Server(GpuServer):
    def __init__(self, kind, gpus, variables):
        links = [] if variables.pop("LINKS", "yes") == "no" else ["--links", kind + "://127.0.0.1:*"]
        self.file = tempfile.NamedTemporaryFile()
        super().__init__(BIN, kind + "://127.0.0.1:0", more=("--workers", "1", *links), log=self.file.name,
                         FLYT_SOFTGPU_DEVICES=str(gpus), **variables)

    def end(self):
        self.process.kill()
        self.process.wait()


class Inside:
    uri = "local:software"

    def end(self):
        pass


class Ranks:
    """A process for each number of GPUs, with a server that has so many; or with several, for a list of numbers. kind:
    of the servers; None: each process has one inside."""

    def __init__(self, mode, kind, gpus, timeout="20", errors=None, **variables):
        self.folder = tempfile.TemporaryDirectory()
        lists = [numbers if isinstance(numbers, list) else [numbers] for numbers in gpus]
        of_each = [[Server(kind, number, dict(variables)) if kind else Inside() for number in numbers]
                   for numbers in lists]
        self.servers = [server for servers in of_each for server in servers]
        self.programs, first, total = [], 0, sum(map(sum, lists))
        for servers, number in zip(of_each, map(sum, lists)):
            environment = dict(os.environ, FLYT_COMM_INTERFACES="lo", FLYT_NCCL_TIMEOUT=timeout,
                               FLYT_NCCL_PROGRAM="/nowhere/libnccl.so.2")
            command = [os.path.join(BIN, "flyt-run"), "--server", ",".join(server.uri for server in servers), PROGRAM,
                       mode, str(total), str(first), str(number), os.path.join(self.folder.name, "id")]
            self.programs.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                                  stderr=errors, env=environment))
            first += number

    def line_of(self, number, wanted):
        for line in self.programs[number].stdout:
            if line.startswith(wanted):
                return
            print(f"# {line.rstrip()}")
        need(False, f"program {number} did not say {wanted}")

    def good(self, numbers=None):
        for number in numbers if numbers is not None else range(len(self.programs)):
            said = self.programs[number].communicate(timeout=LIMIT_S)[0].splitlines()
            for line in said:
                if line.startswith("#"):
                    print(line)
            need(said and said[-1] == "ok" and self.programs[number].returncode == 0, (number, said))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for program in self.programs:
            if program.poll() is None:
                program.kill()
            program.wait()
        for server in self.servers:
            server.end()
        self.folder.cleanup()


@case
def one_process_for_four_gpus():
    with Ranks("all", "tcp", [4]) as ranks:
        ranks.good()


@case
def two_processes_for_two_gpus_each():
    with Ranks("all", "tcp", [2, 2]) as ranks:
        ranks.good()


@case
def one_process_with_two_servers():
    with Ranks("all", "tcp", [[2, 2]]) as ranks:
        ranks.good()


@case
def two_processes_of_which_one_has_two_servers():
    with Ranks("all", "tcp", [[1, 1], 1]) as ranks:
        ranks.good()


@case
def three_processes_encrypted():
    with Ranks("all", "tls", [1, 1, 1]) as ranks:
        ranks.good()


@case
def ranks_that_leave_at_once():
    for _ in range(4):
        with Ranks("brief", "tcp", [1, 1, 1, 1]) as ranks:
            ranks.good()


@case
def a_killed_rank():
    with Ranks("lost", "tcp", [2, 1, 1]) as ranks:
        ranks.line_of(2, "victim")
        for number in range(2):
            ranks.line_of(number, "ready")
        ranks.programs[2].send_signal(signal.SIGKILL)
        for number in range(2):
            ranks.programs[number].stdin.write("go on\n")
            ranks.programs[number].stdin.flush()
        ranks.good(range(2))


@case
def a_rank_that_is_killed_while_the_ranks_meet():
    for delay in 0, 0.01, 0.02, 0.03, 0.05:
        with Ranks("brief", "tcp", [1, 1, 1], "2") as ranks:
            while not os.path.exists(os.path.join(ranks.folder.name, "id")):
                time.sleep(0.001)
            time.sleep(delay)
            ranks.programs[2].kill()
            begin = time.monotonic()
            said = [program.communicate(timeout=LIMIT_S)[0] for program in ranks.programs]
            need(time.monotonic() < begin + 5, f"{time.monotonic() - begin} s")
            need(all(program.returncode in (0, 1) for program in ranks.programs[:2]), said)


@case
def ranks_that_are_left_shrink():
    with Ranks("shrink", "tcp", [2, 1, 1]) as ranks:
        ranks.line_of(0, "victim")
        for number in 1, 2:
            ranks.line_of(number, "ready")
        ranks.programs[0].send_signal(signal.SIGKILL)
        for number in 1, 2:
            ranks.programs[number].stdin.write("go on\n")
            ranks.programs[number].stdin.flush()
        ranks.good([1, 2])


def lost_while_ranks_wait(kill):
    with Ranks("sided-lost", "tcp", [2, 1, 1]) as ranks:
        ranks.line_of(2, "victim")
        for number in range(2):
            ranks.line_of(number, "ready")
        kill(ranks)
        for number in range(2):
            ranks.programs[number].stdin.write("go on\n")
            ranks.programs[number].stdin.flush()
        ranks.good(range(2))


@case
def a_killed_rank_whose_signals_are_waited_for():
    lost_while_ranks_wait(lambda ranks: ranks.programs[2].send_signal(signal.SIGKILL))


@case
def a_killed_server_whose_signals_are_waited_for():
    def kill(ranks):
        server = ranks.servers[2].process.pid
        with open(f"/proc/{server}/task/{server}/children", encoding="ascii") as file:
            workers = [int(worker) for worker in file.read().split()]
        for pid in [*workers, server]:
            os.kill(pid, signal.SIGKILL)

    lost_while_ranks_wait(kill)


@case
def an_abort_while_ranks_wait_for_signals():
    for gpus in [3], [1, 2]:
        with Ranks("sided-aborted", "tcp", gpus) as ranks:
            ranks.good()


@case
def a_window_that_one_rank_registers():
    with Ranks("window-alone", "tcp", [1, 2], "3") as ranks:
        ranks.good()


@case
def a_window_whose_memory_is_freed():
    for mode in "freed", "freed-async", "freed-of-graph", "freed-by-graph", "freed-reset":
        for gpus in [3], [1, 2]:
            with Ranks(mode, "tcp", gpus) as ranks:
                ranks.good()


def random_puts(gpus, kind, rounds):
    seed = str(int(time.time()))
    print("# seed", seed)
    os.environ.update(FLYT_COMM_SEED=seed, FLYT_COMM_RANDOM=rounds)
    with Ranks("puts", kind, gpus) as ranks:
        ranks.good()


@case
def random_puts_of_two_processes():
    random_puts([1, 2], "tcp", "10")


@case
def random_puts_of_eight_ranks_on_four_servers():
    random_puts([2, 2, 2, 2], "tcp", "4")
    random_puts([[2, 2], [3, 1]], "tcp", "4")


@case
def ranks_that_come_one_by_one():
    # FLYT_NCCL_TIMEOUT is the time of all of them together.
    with Ranks("staggered", "tcp", [1, 1, 1, 1], "2") as ranks:
        ranks.good([0])


@case
def a_deadline_that_passes():
    with Ranks("late", "tcp", [1, 1, 1], FLYT_COMM_TIMEOUT="1") as ranks:
        ranks.good()
        log = read(ranks.servers[0].log)
        call = "all-reduce of 1000 int32, sum"
        need(re.search(rf'event=collective-late rank=0 ranks=3 why="rank 0: call 1, {call}, was not complete in time; '
                       rf'expected from rank [12]( 2)?" last="1: {call} \(\w+\): (under way for )?[\d.]+ m?s"', log),
             log)


@case
def communicators_that_are_ended_while_they_are_used():
    with Ranks("ended", "tcp", [2]) as ranks:
        ranks.good()


@case
def communicators_that_do_not_block_and_that_wait():
    with Ranks("aside", "tcp", [2]) as ranks:
        ranks.good()


@case
def what_is_refused():
    with Ranks("wrong", "tcp", [2]) as ranks:
        ranks.good()


@case
def a_time_that_is_none():
    for timeout in "abc", "-1", "5s", "99999999999999999999":
        with tempfile.TemporaryFile("w+") as errors, Ranks("wrong", "tcp", [2], timeout, errors) as ranks:
            ranks.good()
            errors.seek(0)
            said = errors.read()
            need(said.count(f"FLYT_NCCL_TIMEOUT={timeout} is no number of seconds") == 1, said)


@case
def a_time_that_is_longer_than_a_link_waits():
    with Ranks("brief", "tcp", [1, 1], "1000") as ranks:
        ranks.good()


@case
def servers_that_measure_their_network():
    with tempfile.TemporaryDirectory() as folder:
        path, tables = f"{folder}/table", []
        for _ in range(2):                      # measured and written; then taken from there
            with Ranks("all", "tcp", [1, 1], FLYT_COMM_TABLE=path) as ranks:
                ranks.good()
            with open(path, encoding="utf-8") as file:
                tables.append(file.read())
        need(re.fullmatch(r"[0-9.e+-]+,[0-9.e+-]+\n", tables[0]) and tables[1] == tables[0], tables)


@case
def servers_without_links():
    with Ranks("all", "tcp", [1, 1], LINKS="no") as ranks:
        said = [program.communicate(timeout=LIMIT_S)[0] for program in ranks.programs]
        # Who is later may find that the first one has gone.
        need("has no links: it is started with --links" in "".join(said), said)
        need(all(program.returncode == 1 for program in ranks.programs), said)


@case
def a_server_without_communicators():
    with Ranks("none", None, [1]) as ranks:
        ranks.good()


run_cases(chosen(cases))
sys.exit(plan())
