"""Cases as tests: the mark `replay`, the fixture `replay_run`, the option `--replay-record`.

pytest loads `hooks` in every session of an environment that has this package: it imports nothing but pytest.
"""
