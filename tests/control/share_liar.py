#!/usr/bin/python3
"""Stands in for a GPU server that was taken over: says that it listens, and misbehaves on its control socket
(descriptor 5). The last argument says how."""
import socket
import sys
import time

how = sys.argv[-1]
control = socket.socket(fileno=5)
control.setblocking(True)
port = next(word.rsplit(":", 1)[1] for word in sys.argv if word.startswith("tcp://"))
print(f"device multiprocessors 4\nlistening on tcp://127.0.0.1:{port}", flush=True)


def answer(order, code, memory, sms):
    number = order[8:16]
    return b"FLYA" + code.to_bytes(4, "little") + number + memory.to_bytes(8, "little") + bytes(8) + \
        sms.to_bytes(4, "little") + bytes(4) + b"x\x1b[31m\xff\xfe" * 20 + bytes(56)


while True:
    peer, _ = control.accept()
    try:
        while order := peer.recv(64):
            if how == "silent":
                time.sleep(3600)
            elif how == "closes":
                break
            elif how == "nonsense":
                peer.send(b"FLYA" + b"\xff" * 252)
            elif how == "long":
                peer.send(bytes(100000))
            elif how == "flood":
                while True:
                    peer.send(answer(order, 0, 1 << 50, 1000))
            elif how == "generous":         # claims more than it was ever given
                peer.send(answer(order, 0, 1 << 50, 1000))
            else:
                raise SystemExit(f"what is {how}?")
    except OSError:
        pass
    peer.close()
