"""Component replay: the real orchestrator, with model, retrieval, tools and time from a case's fixtures.

    case -> fixtures, shapes -> running -> event_log -> invariants, expected -> result

README.md beside this file describes the format of a case.
"""
