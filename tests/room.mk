# What belongs to no room: the list of tests is what the sources say.
TESTS += "tools/tests-doc --check"
