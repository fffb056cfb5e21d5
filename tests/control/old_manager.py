"""old_manager.py: a client manager of any minor, by hand, for programs of the real library: it gives them servers that
ask for no tickets, and lets them move."""
import contextlib
import os
import socket
import struct
import threading

from wire import text

HELLO, ATTACH, WAIT, TRANSPORT, UNREACHED, MOVE, MOVED, RESUME, REST, PROGRESS = 1, 30, 31, 32, 33, 34, 35, 36, 37, 38
NOT_FOUND = 4


def status(code=0, words=""):
    return struct.pack(">I", code) + text(words)


class Manager:
    """addresses: of the servers, by number."""

    def __init__(self, path, minor, addresses):
        self.path, self.minor, self.addresses = path, minor, addresses
        self.heard, self.wanted, self.outcome, self.peer = [], None, None, None
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(path)
        self.listening.listen(4)
        threading.Thread(target=self.serve, daemon=True).start()

    def grant(self, number):
        return (struct.pack(">QQ", 1, number + 1) + text("n1") + struct.pack(">I", 1) + text(self.addresses[number]) +
                struct.pack(">I", 0) + text("") + struct.pack(">qIQI", 0, 4, 1 << 30, 1))

    def answer(self, procedure, arguments):
        if procedure == HELLO:
            return (status() + struct.pack(">II", 1, self.minor) + text("a test") + struct.pack(">QI", 7, 0) +
                    bytes(32))
        if procedure in (ATTACH, WAIT, UNREACHED):
            return status() + struct.pack(">I", 0) + self.grant(0)
        if procedure == MOVE:
            asked, = struct.unpack(">Q", arguments[:8])
            if self.wanted is None:
                return status(NOT_FOUND) + bytes(16) + self.grant(0)
            return status() + struct.pack(">QII", asked or 5, 2000, 60000) + self.grant(self.wanted)
        if procedure == REST:
            return status(NOT_FOUND) + struct.pack(">QIII", 0, 0, 0, 1) + text("")
        if procedure == PROGRESS:
            return status() + struct.pack(">QIQI", 0, 0, 0, 0)
        if procedure == MOVED:
            self.wanted, self.outcome = None, struct.unpack(">I", arguments[8:12])[0]
        return status()

    def serve(self):
        while True:
            try:
                peer, _ = self.listening.accept()
            except OSError:
                return
            self.peer = peer
            with contextlib.suppress(ConnectionError):
                self.speak(peer)

    def speak(self, peer):
        data = b""
        while part := peer.recv(65536):
            data += part
            while len(data) >= 4 and len(data) >= 4 + (struct.unpack(">I", data[:4])[0] & 0x7fffffff):
                size = struct.unpack(">I", data[:4])[0] & 0x7fffffff
                record, data = data[4:4 + size], data[4 + size:]
                xid, procedure = struct.unpack(">I", record[:4])[0], struct.unpack(">I", record[20:24])[0]
                self.heard.append(procedure)
                self.send(xid, self.answer(procedure, record[40:]))

    def send(self, xid, result):
        record = struct.pack(">6I", xid, 1, 0, 0, 0, 0) + result
        self.peer.sendall(struct.pack(">I", 0x80000000 | len(record)) + record)

    def move(self, number):
        """To that server; an answer to no call says that there is news."""
        self.wanted = number
        self.send(0, b"")

    def close(self):
        self.listening.close()
        if self.peer:
            self.peer.close()
        os.unlink(self.path)
