#!/usr/bin/env python3
"""comm.py BIN [CASE...]: what links of several channels reach, between two network namespaces whose cards are shaped.

shows: communication: links use all cards and the room of each flow, and a slow card costs its share only

Needs root. Each case prints one JSON object on a line; figures are medians of --repeat repetitions. With --judge a case
that misses its goal makes the exit status 1, and without root it is 77.

  loopback   256 MiB over loopback, without shaping, against raw streams
  card       256 MiB over one card of 1 Gbit/s, against raw streams
  cards      64 MiB over 1 and over 4 cards of 200 Mbit/s each: how many times faster
  flows      32 MiB over one card that gives each flow 50 Mbit/s: 1 and 8 channels, how many times faster
  all_reduce all-reduce of 32 MiB over 4 nodes with cards of 200 Mbit/s each: bus bandwidth, part of the card
  two_ranks  all-reduce of 64 MiB between two processes over loopback: part of raw streams in both directions at once
  all_reduce_2, _4, _8  all-reduce of 64 MiB over so many nodes with cards of 1 Gbit/s: bus bandwidth, part of the card
  gpu_loopback  256 MiB from GPU to GPU of two servers over loopback, against raw streams of the same repetition
  gpu_card      256 MiB from GPU to GPU of two nodes with a card of 1 Gbit/s, against raw streams
  copy_loopback, copy_card  the same by a CUDA program's cudaMemcpyPeer between two GPU servers (--cuda PROGRAM, which
             is build/bench/peer): 256 MiB and 64 MiB against raw streams, and microseconds for 64 KiB
  puts       ncclPutSignal with ncclWaitSignal between GPUs of two servers over loopback (--puts PROGRAM, which is
             build/…/bench-puts): 8 bytes, and the rate of 64 MiB, against ncclSend of the same repetition
  slow       64 MiB over 8 cards of 100 Mbit/s, one of which has a tenth of that: part of what the cards allow
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

# Of a frame of 1,514 bytes 1,448 are the program's: 14 of Ethernet, 20 of IP, 32 of TCP with time stamps.
GOODPUT = 1448 / 1514


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=120, **more).stdout


class Pair:
    """Two namespaces with a cable for each of the rates (Mbit/s) between them."""

    def __init__(self, rates, flow=None):
        self.spaces = [f"flyt-comm-{os.getpid()}-{side}" for side in "ab"]
        self.rates = rates
        for space in self.spaces:
            run("ip", "netns", "add", space)
            run("ip", "-n", space, "link", "set", "lo", "up")
        for i, rate in enumerate(rates):
            run("ip", "link", "add", f"c{i}", "netns", self.spaces[0], "type", "veth", "peer", "name", f"c{i}",
                "netns", self.spaces[1])
            for end, space in enumerate(self.spaces):
                run("ip", "-n", space, "addr", "add", f"10.77.{i}.{end + 1}/24", "dev", f"c{i}")
                run("ip", "-n", space, "link", "set", f"c{i}", "up")
                if flow:
                    self.limit_flows(space, f"c{i}", flow)
                else:
                    run("tc", "-n", space, "qdisc", "add", "dev", f"c{i}", "root", "tbf", "rate", f"{rate}mbit",
                        "burst", "128kb", "latency", "30ms")

    @staticmethod
    def limit_flows(space, card, mbit):
        """A class for each pair of bits 1 to 5 of the ports. One end has one port for all flows, the other one each."""
        lines = [f"qdisc add dev {card} root handle 1: htb default fff",
                 f"class add dev {card} parent 1: classid 1:fff htb rate 10gbit"]
        for near in range(32):
            for far in range(32):
                name = f"1:{near * 32 + far + 1:x}"
                lines.append(f"class add dev {card} parent 1: classid {name} htb rate {mbit}mbit burst 64kb")
                lines.append(f"filter add dev {card} parent 1: protocol ip prio 1 u32 match ip sport {near << 1} 0x3e "
                             f"match ip dport {far << 1} 0x3e flowid {name}")
        run("tc", "-n", space, "-batch", "-", input="\n".join(lines) + "\n")

    def flows(self):
        """How many classes have carried more than a megabyte."""
        said = run("tc", "-n", self.spaces[0], "-s", "class", "show", "dev", "c0")
        return sum(int(count) > 1e6 for count in re.findall(r"Sent (\d+) bytes", said))

    def measure(self, tool, *options):
        names = ",".join(f"c{i}" for i in range(len(self.rates)))
        serve = subprocess.Popen(["ip", "netns", "exec", self.spaces[1], tool, "--serve", "-i", names],
                                 stdout=subprocess.DEVNULL)
        try:
            said = run("ip", "netns", "exec", self.spaces[0], tool, "--to", "10.77.0.2", "-i", names, "--json",
                       *options)
            serve.wait(timeout=30)
        finally:
            serve.kill()
            serve.wait()
        return [json.loads(line) for line in said.splitlines()][-1]

    def close(self):
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], check=False)


def over(rates, tool, *options, flow=None, flows=0):
    for _ in range(10):
        pair = Pair(rates, flow)
        try:
            got = pair.measure(tool, *options)
            if pair.flows() >= flows if flow else True:
                return got
        finally:
            pair.close()
    raise SystemExit("comm.py: the ports of the flows were never in classes of their own")


class Switch:
    """Namespaces with a card of so many Mbit/s each, on one bridge."""

    def __init__(self, nodes, rate):
        name = f"flyt-comm-{os.getpid()}"
        self.bridge, self.nodes = f"{name}-s", [f"{name}-{i}" for i in range(nodes)]
        try:
            self.make(rate)
        except BaseException:
            self.close()
            raise

    def make(self, rate):
        for space in (self.bridge, *self.nodes):
            run("ip", "netns", "add", space)
            run("ip", "-n", space, "link", "set", "lo", "up")
        run("ip", "-n", self.bridge, "link", "add", "name", "br0", "type", "bridge")
        run("ip", "-n", self.bridge, "link", "set", "br0", "up")
        for i, space in enumerate(self.nodes):
            run("ip", "link", "add", "c0", "netns", space, "type", "veth", "peer", "name", f"p{i}", "netns",
                self.bridge)
            run("ip", "-n", self.bridge, "link", "set", f"p{i}", "master", "br0", "up")
            run("ip", "-n", space, "addr", "add", f"10.78.0.{i + 1}/24", "dev", "c0")
            run("ip", "-n", space, "link", "set", "c0", "up")
            for where, card in ((space, "c0"), (self.bridge, f"p{i}")):
                run("tc", "-n", where, "qdisc", "add", "dev", card, "root", "tbf", "rate", f"{rate}mbit", "burst",
                    "128kb", "latency", "30ms")

    def close(self):
        for space in (*self.nodes, self.bridge):
            subprocess.run(["ip", "netns", "del", space], check=False)


def loopback(tool, repeat):
    said = run(tool, "--json", "-s", "256M", "-n", repeat)
    return json.loads(said.splitlines()[-1])


def card(tool, repeat):
    return over([1000], tool, "-s", "256M", "-n", repeat)


def cards(tool, repeat):
    one = over([200], tool, "-s", "64M", "-n", repeat, "--no-raw")["link_mb_s"]
    four = over([200] * 4, tool, "-s", "64M", "-n", repeat, "--no-raw")["link_mb_s"]
    return {"one_mb_s": one, "four_mb_s": four, "ratio": round(four / one, 2)}


def flows(tool, repeat):
    one = over([0], tool, "-s", "32M", "-n", repeat, "--no-raw", "-c", "1", flow=50, flows=1)["link_mb_s"]
    eight = over([0], tool, "-s", "32M", "-n", repeat, "--no-raw", "-c", "8", flow=50, flows=8)["link_mb_s"]
    return {"one_mb_s": one, "eight_mb_s": eight, "ratio": round(eight / one, 2)}


def slow(tool, repeat):
    rates = [100, 100, 100, 10, 100, 100, 100, 100]
    got = over(rates, tool, "-s", "64M", "-n", repeat)
    allowed = sum(rates) / 8 * GOODPUT
    return {**got, "allowed_mb_s": round(allowed, 1), "part": round(got["link_mb_s"] / allowed, 3)}


def gpu_servers(tool, spaces, addresses):
    """A GPU server in each of the network namespaces; "": in this one. The servers and their addresses."""
    program = os.path.join(os.path.dirname(tool), "cricket-rpc-server")
    servers, uris = [], []
    allowed = ",".join(f"tcp://{address}:*" for address in addresses)
    for space, address in zip(spaces, addresses):
        inside = ["ip", "netns", "exec", space] if space else []
        servers.append(subprocess.Popen([*inside, program, "--listen", f"tcp://{address}:0", "--gpu", "software",
                                         "--workers", "1", "--links", allowed], stdout=subprocess.PIPE, text=True))
        uris.append(servers[-1].stdout.readline().split()[-1])
    return servers, uris


def gpu_part(tool, repeat, spaces, addresses, raw):
    """Pairs of a transfer between GPUs and raw streams, in turn; the median of their ratios."""
    servers, uris = gpu_servers(tool, spaces, addresses)
    inside = ["ip", "netns", "exec", spaces[0]] if spaces[0] else []
    ratios, got = [], {}
    try:
        for _ in range(int(repeat)):
            said = run(*inside, tool, "--gpus", ",".join(uris), "--json", "-s", "256M", "-n", "3")
            got = {**json.loads(said), "raw_mb_s": raw()["raw_mb_s"]}
            ratios.append(got["gpu_mb_s"] / got["raw_mb_s"])
    finally:
        for server in servers:
            server.kill()
            server.wait()
    return {**got, "least": round(min(ratios), 3), "ratio": round(sorted(ratios)[len(ratios) // 2], 3)}


def gpu_loopback(tool, repeat):
    def raw():
        return json.loads(run(tool, "--json", "-s", "256M", "-n", "3").splitlines()[-1])
    return gpu_part(tool, repeat, ["", ""], ["127.0.0.1", "127.0.0.1"], raw)


def gpu_card(tool, repeat):
    pair = Pair([1000])
    try:
        return gpu_part(tool, repeat, pair.spaces, ["10.77.0.1", "10.77.0.2"],
                        lambda: pair.measure(tool, "-s", "256M", "-n", "3"))
    finally:
        pair.close()


def two_ranks(tool, repeat):
    said = run(tool, "--ranks", "2", "-i", "lo", "--json", "-s", "64M", "-n", repeat)
    return json.loads(said.splitlines()[-1])


def copies(tool, repeat, spaces, addresses, raw):
    """The median of the ratios of a size, as gpu_part; `least` is of 256 MiB. raw: MB/s of streams of that size."""
    large, medium, small = 256 << 20, 64 << 20, 64 << 10
    servers, uris = gpu_servers(tool, spaces, addresses)
    inside = ["ip", "netns", "exec", spaces[0]] if spaces[0] else []
    ratios, micros, got = {large: [], medium: []}, [], {}
    try:
        for _ in range(int(repeat)):
            said = run(*inside, os.path.join(os.path.dirname(tool), "flyt-run"), "--server", ",".join(uris),
                       PROGRAM["cuda"], "3", str(large), str(medium), str(small))
            rows = {row["bytes"]: row for row in map(json.loads, said.splitlines())}
            if not all(row["right"] for row in rows.values()):
                raise SystemExit(f"comm.py: a copy was wrong: {said}")
            micros.append(rows[small]["copy_us"])
            for size, of in ratios.items():
                got = {"copy_mb_s": rows[size]["copy_mb_s"], "raw_mb_s": raw(f"{size >> 20}M")}
                of.append(got["copy_mb_s"] / got["raw_mb_s"])
    finally:
        for server in servers:
            server.kill()
            server.wait()
    middle = {size: round(sorted(of)[len(of) // 2], 3) for size, of in ratios.items()}
    return {**got, "least": round(min(ratios[large]), 3), "ratio_64m": middle[medium],
            "us_64k": sorted(micros)[len(micros) // 2], "ratio": middle[large]}


def copy_loopback(tool, repeat):
    return copies(tool, repeat, ["", ""], ["127.0.0.1", "127.0.0.1"], lambda size: json.loads(
        run(tool, "--json", "-s", size, "-n", "3").splitlines()[-1])["raw_mb_s"])


def copy_card(tool, repeat):
    pair = Pair([1000])
    try:
        return copies(tool, repeat, pair.spaces, ["10.77.0.1", "10.77.0.2"],
                      lambda size: pair.measure(tool, "-s", size, "-n", "3")["raw_mb_s"])
    finally:
        pair.close()


def puts(tool, repeat):
    """As many runs; of each ratio the median."""
    servers, uris = gpu_servers(tool, ["", ""], ["127.0.0.1", "127.0.0.1"])
    rows = []
    try:
        for _ in range(int(repeat)):
            rows.append(json.loads(run(os.path.join(os.path.dirname(tool), "flyt-run"), "--server", ",".join(uris),
                                       PROGRAM["puts"])))
    finally:
        for server in servers:
            server.kill()
            server.wait()
    middle = {name: sorted(row[name] for row in rows)[len(rows) // 2] for name in rows[0]}
    return {**middle, "most_latency": max(row["latency"] for row in rows), "least": min(row["rate"] for row in rows)}


def all_reduce(tool, repeat, nodes=4, rate=200, size="32M"):
    switch = Switch(nodes, rate)
    try:
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen(["ip", "netns", "exec", space, tool, "--ranks", str(nodes), "--rank", str(i),
                                       "--store", folder, "-i", "c0", "-s", size, "-n", repeat, "--json"],
                                      stdout=subprocess.PIPE, text=True) for i, space in enumerate(switch.nodes)]
            said = [rank.communicate(timeout=200)[0] for rank in ranks]
    finally:
        switch.close()
    got = json.loads(said[0].splitlines()[-1])
    return {**json.loads(said[0].splitlines()[0]), **got,
            "part": round(got["bus_mb_s"] / (rate / 8 * GOODPUT), 3)}


def all_reduce_2(tool, repeat):
    return all_reduce(tool, repeat, 2, 1000, "64M")


def all_reduce_4(tool, repeat):
    return all_reduce(tool, repeat, 4, 1000, "64M")


def all_reduce_8(tool, repeat):
    return all_reduce(tool, repeat, 8, 1000, "64M")


# Each case, the figure that counts, and its goal.
CASES = ((loopback, "ratio", 0.80), (card, "ratio", 0.95), (cards, "ratio", 3.7), (flows, "ratio", 7.5),
         (slow, "part", 0.95), (all_reduce, "part", 0.90), (two_ranks, "ratio", 0.60),
         (all_reduce_2, "part", 0.90), (all_reduce_4, "part", 0.90), (all_reduce_8, "part", 0.90),
         (gpu_loopback, "ratio", 0.80), (gpu_card, "ratio", 0.95),
         (copy_loopback, "ratio", 0.80), (copy_card, "ratio", 0.95), (puts, "rate", 0.90))
NEEDS = {copy_loopback: "cuda", copy_card: "cuda", puts: "puts"}
PROGRAM = {}  # "cuda": --cuda; "puts": --puts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("case", nargs="*")
    parser.add_argument("--repeat", default="5")
    parser.add_argument("--cuda", metavar="PROGRAM", help="the program of copy_loopback and copy_card")
    parser.add_argument("--puts", metavar="PROGRAM", help="the program of puts")
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    tool = os.path.join(os.path.abspath(options.bin), "flyt-comm-perf")
    if os.geteuid() != 0:
        print("network namespaces need root: skipped")
        return 77
    PROGRAM.update({name: os.path.abspath(path) for name, path in (("cuda", options.cuda), ("puts", options.puts))
                    if path})
    missed = False
    for case, figure, goal in CASES:
        if NEEDS.get(case) and NEEDS[case] not in PROGRAM:
            continue
        if not options.case or case.__name__ in options.case:
            got = {"case": case.__name__, **case(tool, options.repeat), "goal": goal}
            missed |= got[figure] < goal
            print(json.dumps(got), flush=True)
    return 1 if missed and options.judge else 0


if __name__ == "__main__":
    sys.exit(main())
