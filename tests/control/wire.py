"""wire.py: a peer that speaks the control protocol by hand, without TLS."""
import os
import socket
import struct

PROGRAM = 0x20F17002
HELLO, PROGRAM_ATTACH = 1, 30
NODE, CLIENT, ADMIN, OF_PROGRAM, SERVER = 1, 2, 3, 4, 5


def text(words):
    data = words.encode()
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


class Peer:
    """address: (host, port), or the path of a unix socket."""

    def __init__(self, address):
        self.xid = 0
        self.socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.socket.settimeout(20)
        self.socket.connect(address)

    def call(self, procedure, arguments):
        """What came back, as it stands; b"": the connection was ended."""
        self.xid += 1
        record = struct.pack(">10I", self.xid, 0, 2, PROGRAM, 1, procedure, 0, 0, 0, 0) + arguments
        try:
            self.socket.sendall(struct.pack(">I", 0x80000000 | len(record)) + record)
            return self.socket.recv(1 << 16)
        except ConnectionError:
            return b""

    def answer(self, procedure, arguments):
        """The result alone, of a call to a peer that may say besides that it has news (xid 0)."""
        data = self.call(procedure, arguments)
        while len(data) < 4 or struct.unpack(">I", data[4:8])[0] != self.xid:
            size = struct.unpack(">I", data[:4])[0] & 0x7fffffff if len(data) >= 4 else 0
            data = data[4 + size:] or self.socket.recv(1 << 16)
        return data[28:]

    def hello(self, role, name, software="a test", minor=4):
        return self.call(HELLO, struct.pack(">3I", 1, minor, role) + text(name) + text(software) +
                         struct.pack(">Q", 7) + os.urandom(32))

    def attach(self, executable):
        """As the client's library does. Does not wait for a GPU."""
        return self.call(PROGRAM_ATTACH, text(executable) + struct.pack(">2I", 1, 0))

    def close(self):
        self.socket.close()
