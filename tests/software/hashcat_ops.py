"""hashcat: it finds words whose hashes Python has made. The program under flyt-run is Python, which starts hashcat."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

from ops import SKIP, op, run

if not shutil.which("hashcat"):
    print("SKIP: hashcat is not installed")
    sys.exit(SKIP)
FOLDER = tempfile.mkdtemp()


def find(name, mode, word, digest, *more):
    def test():
        out = os.path.join(FOLDER, name)
        if os.path.exists(out):
            os.remove(out)
        command = ["hashcat", "-m", str(mode), "-a", "3", "--potfile-disable", "--force", "--quiet", "-o", out]
        command += ["--session", name, "-D", "2", "--backend-ignore-opencl", "--outfile-format", "2", digest, *more]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER, check=False)
        found = open(out, encoding="utf-8").read().strip() if os.path.exists(out) else ""
        assert found == word, f"found {found!r}; {(ended.stderr + ended.stdout).strip()[-300:]}"

    test.__name__ = name
    op(test)


def md4(data):
    """MD4, which OpenSSL 3 leaves out."""
    import struct

    def rotate(x, n):
        return ((x << n) | (x >> (32 - n))) & 0xFFFFFFFF

    h = [0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476]
    data += b"\x80" + bytes(-(len(data) + 9) % 64) + struct.pack("<Q", 8 * len(data))
    for at in range(0, len(data), 64):
        x = struct.unpack("<16I", data[at : at + 64])
        a, b, c, d = h
        for i in range(48):
            part, k = divmod(i, 16)
            if part == 0:
                f, word, s = (b & c) | (~b & d), k, (3, 7, 11, 19)[k % 4]
            elif part == 1:
                f, word, s = (b & c) | (b & d) | (c & d), k % 4 * 4 + k // 4, (3, 5, 9, 13)[k % 4]
            else:
                f, word, s = b ^ c ^ d, int(f"{k:04b}"[::-1], 2), (3, 9, 11, 15)[k % 4]
            a = rotate((a + f + x[word] + (0, 0x5A827999, 0x6ED9EBA1)[part]) & 0xFFFFFFFF, s)
            a, b, c, d = d, a, b, c
        h = [(p + q) & 0xFFFFFFFF for p, q in zip(h, (a, b, c, d))]
    return struct.pack("<4I", *h).hex()


WORD = "4711"
DIGESTS = (("md5", 0), ("sha1", 100), ("sha224", 1300), ("sha256", 1400), ("sha384", 10800), ("sha512", 1700))
for kind, number in DIGESTS:
    find(kind, number, WORD, hashlib.new(kind, WORD.encode()).hexdigest(), "?d?d?d?d")
find("sha3_256", 17400, WORD, hashlib.sha3_256(WORD.encode()).hexdigest(), "?d?d?d?d")
find("blake2b", 600, WORD, "$BLAKE2$" + hashlib.blake2b(WORD.encode()).hexdigest(), "?d?d?d?d")
find("ntlm", 1000, WORD, md4(WORD.encode("utf-16le")), "?d?d?d?d")
find("md5_salted", 10, WORD, hashlib.md5((WORD + "salt").encode()).hexdigest() + ":salt", "?d?d?d?d")
find("letters", 0, "flyt", hashlib.md5(b"flyt").hexdigest(), "?l?l?l?l")
find(
    "pbkdf2_sha256",
    10900,
    "47",
    "sha256:10:c2FsdA==:"
    + __import__("base64").b64encode(hashlib.pbkdf2_hmac("sha256", b"47", b"salt", 10, 32)).decode(),
    "?d?d",
)

run()
