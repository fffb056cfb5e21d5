# How the public programs are judged. The programs themselves: make check-programs.
TESTS += tests/programs/verdicts.py
